/* Checks of what a kernel does, while it runs: execs with checks, and debug builds. */
#ifndef SW_GUARD_H
#define SW_GUARD_H

#include "kernels/launch.h"
#include <stdbool.h>

typedef struct swi_guard swi_guard;

SW_MUST_USE sw_status swi_guard_create(swi_guard **out);
void swi_guard_destroy(swi_guard *guard);
struct swi_program;
/* Room for all ops of a program, so that its runs ask for none. */
SW_MUST_USE sw_status swi_guard_reserve(swi_guard *guard, const struct swi_program *program);
/* Run a kernel with its outputs and scratch between bands, in a room of the guard's own; what
 * it wrote is then copied to where it belongs. SW_INVALID names the operand and the byte where
 * it wrote before or past an output or its scratch, into an input, or left a whole output
 * unwritten: then nothing is copied. */
SW_MUST_USE sw_status swi_guarded(swi_guard *guard, sw_kernel *kernel, const sw_launch *launch);

#endif
