/* Between the files that make a program of a trace. */
#ifndef SW_PROGRAM_INTERNAL_H
#define SW_PROGRAM_INTERNAL_H

#include "runtime/runtime_internal.h"

/* The nodes that run, views left out, in the order of the trace; how many there are. */
uint32_t swi_plain_order(const swi_trace *t, uint32_t *order);
/* The release pass. scratch: n + 2 n_storages words. */
void swi_pass_release(swi_trace *t, uint32_t *order, uint32_t n, uint64_t *scratch);
/* Births, deaths and saved roles. read: n_values flags of scratch. */
void swi_lifetimes(swi_trace *t, const uint32_t *order, uint32_t n, bool *read);
/* The storage whose bytes s uses: itself, or the one whose place it took. */
uint32_t swi_root_of(const swi_trace *t, uint32_t s);
/* Does s have a range of its own in the step arena? */
bool swi_takes_part(const swi_trace *t, uint32_t s);
sw_status swi_place(swi_program *p); /* offsets and height */
void swi_follow_aliases(swi_trace *t);

#endif
