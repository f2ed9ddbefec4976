/* Functions of one number and what reads their results, strip by strip: the pass. */
#ifndef SW_STRIPS_H
#define SW_STRIPS_H

#include "runtime/ops/strip.h"
#include "runtime/plan/program_internal.h"

/* Is there anything that swi_pass_strips would change? */
bool swi_may_strip(swi_trace *t, swi_order *order, const sw_exec *exec);

/* The pass, after all others: where the result of a function is large and is read by a
 * product, by a loss, or by the update of a weight, one node takes the place of these and of
 * the function's gradient, and no more than a strip of the result exists. The same bits. Where
 * it is worth it is for the caller to see, by the arena. */
SW_MUST_USE sw_status swi_pass_strips(swi_trace *t, swi_order *order, const sw_exec *exec);

/* Count what of such a node is tiled and what is rebuilt. */
void swi_strips_count(const swi_trace *t, const swi_node *node, sw_plan_info *info);

#endif
