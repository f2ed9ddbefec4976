/* The bytes of a step by role and by layer.
 *
 * Lines are counted up and down as bytes come and go, whoever says when: the plan's lifetimes,
 * an arena's events or what a witness saw. All roles come first, by their number, then layers
 * as they appear, "" in front. */
#ifndef SW_BREAKDOWN_H
#define SW_BREAKDOWN_H

#include "runtime/observe/observe.h"

/* No line but those of the roles and of ""; the room stays. */
sw_status swi_breakdown_empty(swi_breakdown *breakdown);
/* The line of a layer, made where there is none. */
sw_status swi_breakdown_layer(swi_breakdown *breakdown, const char *layer, uint32_t *line);
/* Bytes that are there all the time; only before swi_breakdown_begin. */
sw_status swi_breakdown_base(swi_breakdown *breakdown, swi_role role, const char *layer,
                             size_t bytes);
/* Nothing lives but the base. */
void swi_breakdown_begin(swi_breakdown *breakdown);
sw_status swi_breakdown_born(swi_breakdown *breakdown, swi_role role, const char *layer,
                             size_t bytes);
sw_status swi_breakdown_died(swi_breakdown *breakdown, swi_role role, const char *layer,
                             size_t bytes);
/* All that is born at this moment is there: is it the peak? */
void swi_breakdown_mark(swi_breakdown *breakdown);

/* Lines with bytes, for sw_plan_shares's visitors. */
void swi_breakdown_show(const swi_breakdown *breakdown, sw_share_visitor *visitor, void *to);

/* The program's shares by its plan, in frame->shares: once. */
sw_status swi_program_breakdown(swi_frame *frame, const sw_run_args *args);

#endif
