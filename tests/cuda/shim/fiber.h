/* Stacks and switches of the emulator: a scheduler and up to 1024 workers on one host thread,
 * with what sanitizers want to know about them. */
#ifndef SW_CUDA_FIBER_H
#define SW_CUDA_FIBER_H

#include <stddef.h>

/* Worker `i` begins with work(i), which never returns, at its next resume or switch. */
void swi_fiber_begin(int i, void (*work)(int i));
/* From the scheduler: run worker i until it gives back. */
void swi_fiber_resume(int i);
/* From a worker: to another one that has begun, or to the scheduler. */
void swi_fiber_switch(int from, int to);
void swi_fiber_to_scheduler(int i);

/* Red zones, where a sanitizer is there. */
void swi_fiber_memory_close(void *at, size_t bytes);
void swi_fiber_memory_open(void *at, size_t bytes);

/* As tests/cuda/emulator.h has them. */
extern "C" {
bool swi_emu_tracks(void);
void swi_emu_forget(const void *at, size_t bytes);
void swi_emu_know(const void *at, size_t bytes);
ptrdiff_t swi_emu_unknown(const void *at, size_t bytes);
}

#endif
