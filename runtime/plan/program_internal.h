/* Between the files that make a program of a trace. */
#pragma once

#include "runtime/ops/tile.h"
#include "runtime/plan/program.h"

/* Updates that may be released wait for the finite check on their own gradient alone. */
void swi_pass_own_finite_checks(swi_trace *t);
/* Births, deaths and saved roles. read: n_values flags of scratch. */
void swi_lifetimes(swi_trace *t, const uint32_t *order, uint32_t n, bool *read);
/* Bit k: output 0 may take the place of operand k where that dies; and is it of the right
 * kind? */
uint32_t swi_inplace_mask(const swi_node *node);
bool swi_suits(const swi_trace *t, const swi_node *node, uint32_t k);
/* Does s have a range of its own in the step arena? */
bool swi_takes_part(const swi_trace *t, uint32_t s);

/* Can these two run in either order? */
bool swi_are_apart(const swi_trace *t, const swi_node *a, const swi_node *b);
/* Groups of launches (groups.c): the place after the last op of the one that begins at `at`. */
uint32_t swi_group_end(const swi_trace *t, const uint32_t *order, uint32_t n, uint32_t at);

/* Nodes in the order in which they run. */
typedef struct {
    uint32_t *nodes;
    uint32_t n, cap;
} swi_order;
sw_status swi_order_take(swi_order *order, uint32_t cap); /* empty, with room */
void swi_order_free(swi_order *order);
/* Is one of the node's operands [from, to) in this storage? */
bool swi_touches(const swi_trace *t, const swi_node *node, uint32_t from, uint32_t to,
                 uint32_t storage);
/* The trace's, weights updated tile by tile. release_all: all updates that may be; images_last:
 * gradients of convolutions' images after those of the weights, where that lowers what lives.
 */
sw_status swi_put_in_order(swi_trace *t, bool release_all, bool images_last,
                           const sw_exec *exec, swi_order *order);
/* Lifetimes and in-place results of a trace that has none of them yet, and then places. */
SW_MUST_USE sw_status swi_take_places(swi_trace *t, const swi_order *order, bool inplace);
sw_status swi_lay_out(swi_trace *t, const swi_order *order, bool inplace, size_t *height,
                      size_t *lower_bound);
/* Run all passes over the trace of a program that is being made: receives it as it is run, laid
 * out, and the nodes in their order; p->info what was done. p->plain is the trace as it was,
 * and empty where that is the same. */
sw_status swi_program_run_passes(swi_program *p, swi_order *order, const sw_exec *exec);
/* Do ops that can go in parts in so many, before lifetimes are known: *rows at a time in the
 * largest, 0 where all are. */
sw_status swi_chunk(swi_trace *t, const sw_exec *exec, int64_t parts, int64_t *rows);
/* Births, reuses and deaths of each op, from those of the storages. */
void swi_program_list_lifetimes(swi_program *p);
/* `to` is empty before, and as large as it must be; freed by the caller also on failure. */
sw_status swi_trace_copy(swi_trace *to, const swi_trace *from);

/* Is there anything that swi_pass_strips would change? */
bool swi_may_strip(swi_trace *t, swi_order *order, const sw_exec *exec);

/* The pass, after all others: where the result of a function is large and is read by a
 * product, by a loss, or by the update of a weight, one node takes the place of these and of
 * the function's gradient, and no more than a strip of the result exists. The same bits. Where
 * it is worth it is for the caller to see, by the arena. */
SW_MUST_USE sw_status swi_pass_strips(swi_trace *t, swi_order *order, const sw_exec *exec);

/* The node `lead` becomes one that does the work of several: its operands and attributes stand
 * after those of the trace, where there is room for them, and its scratch has a storage. */
SW_MUST_USE sw_status swi_join_node(swi_trace *t, const sw_exec *exec, uint32_t lead,
                                    swi_op_duty duty, uint32_t n_in, uint32_t n_out,
                                    size_t attrs_bytes);

/* A part of that pass, its last, and of budgets: convolutions, and what goes image by image
 * around them, become one node that does all of it some images at a time, so that no more of
 * what they leave for each other alone exists. The same bits. Its *found: there is such a chain
 * (NULL: join them; what is SWI_NONE leaves the order). */
SW_MUST_USE sw_status swi_pass_chains(swi_trace *t, swi_order *order, const sw_exec *exec,
                                      bool *found);

/* The pass, after the release pass: where a gradient is read by nothing but an update that
 * goes element by element, and the kernel can make it in rows, one node takes the place of
 * both, and no more than a tile of the gradient exists. The same bits: a row does not depend on
 * others. Small gradients stay whole. */
SW_MUST_USE sw_status swi_pass_tiles(swi_trace *t, swi_order *order, const sw_exec *exec);

/* The pass before lifetimes: checks and updates wait for each other, so that more of them are
 * neighbours and go out in one launch, as long as no more than `most` bytes are live. `pulls`:
 * gradients of functions of one number go up to their values, and live bytes are counted with
 * results in place. */
SW_MUST_USE sw_status swi_pass_gather(swi_trace *t, swi_order *order, size_t most, bool pulls);
