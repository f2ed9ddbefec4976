/* Where entries of the CUDA module run: under the emulator (side_emulator.c) or on a card
 * (side_card.c). Operands are blocks of the host (sw_entry_block) on both. */
#ifndef SW_TESTS_SIDE_H
#define SW_TESTS_SIDE_H

#include "kernels/cuda/table.h"
#include <stdbool.h>

/* The module's table. Ends the test where there is none. */
const sw_cuda_module *sw_side_module(void);
/* NULL: the module has none. */
const sw_cuda_entry *sw_side_entry(const char *op, int which);

/* One way to run a launch: a schedule of the emulator; on a card once more, or without
 * libraries. */
typedef struct {
    const char *what;
    bool anew; /* other bits than in the ways before are right; held against the CPU again */
    bool replayed; /* the counters of a replay */
} sw_side_way;
/* NULL after the last one. */
const sw_side_way *sw_side_way_at(int i);
/* All that follows goes that way; after the last one: as the last one, in another order where
 * that can be had. */
void sw_side_choose(int i);

/* Of the way that was chosen: for sizes of scratch. */
const sw_cuda_queue *sw_side_queue(void);

/* One launch, and wait for it; under the emulator it has to be of as many kernels as it states
 * before. Operands and scratch are the beginnings of blocks (or NULL),
 * placed as far from a good address as there, and one block is one block; their bytes are back
 * on the host after the call. An error names the entry. */
sw_status sw_side_launch(const sw_cuda_entry *entry, const sw_launch *launch,
                         sw_cuda_counters counters);

/* Kernels launched so far, where they are counted. */
bool sw_side_counts(uint64_t *launches);
/* Reports what is to be said of the work since `launches` had that value. */
void sw_side_tell(void);
/* No launch can succeed any more. */
bool sw_side_broken(void);
/* An entry was compared. On a card, $STEPWELL_DEVICE_OPS gets a line for each at the end: op,
 * which, how many entries the op has, and passed or failed. */
void sw_side_compared(const sw_cuda_entry *entry, bool passed);
/* Give all back; the next call above begins again. */
void sw_side_close(void);
#endif
