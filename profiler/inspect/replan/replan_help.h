/* What would help: changes to a program that are tried on its trace. Each figure is a peak less
 * another one that was computed, never a sum of what looks superfluous. */
#ifndef STEPWELL_REPLAN_HELP_H
#define STEPWELL_REPLAN_HELP_H

#include "profiler/inspect/replan/trace_roles.h"

#define REPLAN_HELPS 5 /* lines */

typedef enum {
    HELP_ZERO_GRAD,
    HELP_ATTENTION,
    HELP_SOFTMAX,
    HELP_ACTIVATION,
    HELP_NORM,
    HELP_LOSS,
    HELP_FOREACH,
    HELP_EXPANDABLE,
    REPLAN_CHANGES
} replan_change;
const char *replan_change_name(replan_change change); /* "zero_grad" */
const char *replan_change_text(replan_change change); /* what to do, as a sentence */

typedef struct {
    replan_change change;
    uint64_t bytes; /* that the peak is lower: of requests; with expandable segments of what is
                       reserved */
    uint64_t held;  /* of the tensors that go, or live shorter */
    uint32_t n;     /* of those */
    uint32_t stack; /* of the first of them; TRACE_NONE: none */
} replan_help;

/* The largest first, those alone that are worth a 256th of the peak. `reserved`, and
 * `expandable`, what would be with expandable segments: 0 where not known. */
SW_MUST_USE sw_status replan_help_find(replan_help out[REPLAN_HELPS], uint32_t *n,
                                       const snapshot_trace *t, const trace_lives *l,
                                       const trace_roles *r, uint64_t reserved,
                                       uint64_t expandable);

#endif
