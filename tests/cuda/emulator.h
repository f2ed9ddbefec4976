/* The emulator's controls (shim/cuda_emulator.h, which says what they do) as C sees them. */
#ifndef SW_TESTS_EMULATOR_H
#define SW_TESTS_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void swi_emu_schedule(uint64_t seed);
const char *swi_emu_error(void);
void swi_emu_clear(void);
typedef struct {
    uint64_t launches, blocks, threads, switches, fours_read, fours_written;
} swi_emu_counts;
swi_emu_counts swi_emu_counted(void);
/* Where kernels are under the memory sanitizer: bytes that no one has written, or that have
 * been; the first unwritten one, or made of such, of `bytes` (-1: none). */
bool swi_emu_tracks(void);
void swi_emu_forget(const void *at, size_t bytes);
void swi_emu_know(const void *at, size_t bytes);
ptrdiff_t swi_emu_unknown(const void *at, size_t bytes);

#endif
