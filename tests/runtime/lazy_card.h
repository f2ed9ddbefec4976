/* A card inside of the test: host memory that host code cannot reach, entries that are the
 * CPU's kernels, and streams that put everything off. Work of a stream runs when a caller waits
 * for it and not before, so results that come too early, are overwritten too soon or were never
 * waited for have other bits than the CPU. Calls are counted, one can be made to fail, and
 * calls that a capture forbids are noted. */
#ifndef SW_TESTS_LAZY_CARD_H
#define SW_TESTS_LAZY_CARD_H

#include "runtime/exec/queue.h"
#include "tests/alloc/device_memory.h"

typedef struct {
    swi_device device;
    sw_test_device memory;
    /* That call, from 1, fails with `fails` (0: none does): SW_DEVICE, and the card does
     * nothing from there on, or SW_NOMEM, which only those that take memory count for. */
    int64_t calls, fail_at;
    sw_status fails;
    bool broken;
    bool open;    /* its memory, to the host: while work runs */
    bool current; /* of the thread: calls that name no card want it; tests set it to false */
    /* Since lazy_card_forget(): */
    int allocations, waits, launches, replays, captures, copies;
    int forbidden; /* calls inside of a capture */
    /* Now: */
    int streams, events, graphs, host_blocks;
    size_t host_bytes;
    uint64_t clock; /* each thing that runs is a microsecond */
} lazy_card;

/* The one card, anew; when the test ends everything must have been given back. mapped: its
 * memory can be mapped. */
lazy_card *lazy_card_new(bool mapped);
void lazy_card_forget(lazy_card *card); /* counts begin at 0 */
void lazy_card_mend(lazy_card *card);   /* nothing fails; what a broken one had to do is gone */

#endif
