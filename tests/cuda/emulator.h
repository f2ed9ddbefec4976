/* The emulator's controls (shim/cuda_emulator.h, which says what they do) as C sees them. */
#ifndef SW_TESTS_EMULATOR_H
#define SW_TESTS_EMULATOR_H

#include <stdint.h>

void swi_emu_schedule(uint64_t seed);
const char *swi_emu_error(void);
void swi_emu_clear(void);
typedef struct {
    uint64_t launches, blocks, threads, switches, fours_read, fours_written;
} swi_emu_counts;
swi_emu_counts swi_emu_counted(void);

#endif
