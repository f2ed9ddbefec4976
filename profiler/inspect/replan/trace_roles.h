/* The roles of the allocations of a PyTorch run, and where its training steps lie: rules over
 * frames and lifetimes. PyTorch records neither. */
#ifndef STEPWELL_TRACE_ROLES_H
#define STEPWELL_TRACE_ROLES_H

#include "profiler/inspect/replan/trace_lives.h"

/* Which rule decided; of each but the first two a role follows. */
typedef enum {
    RULE_NONE,
    RULE_FILE,
    RULE_PARAMETER,
    RULE_STATE,
    RULE_GRADIENT,
    RULE_SAVED,
    RULE_TEMPORARY,
    RULE_WORKSPACE,
    RULE_INPUT,
    RULE_OUTPUT,
    RULE_ACTIVATION,
    RULE_WEIGHTS,
    TRACE_RULES
} trace_rule;
/* "made in a backward pass and kept after it"; the guide has the rules at length. */
const char *trace_rule_text(trace_rule rule);

/* Numbers of phases. As kinds data and loss are forward, and 0 is not known. */
enum { RUN_DATA, RUN_FORWARD, RUN_LOSS, RUN_BACKWARD, RUN_UPDATE };

typedef struct {
    int8_t *phase;    /* by position; -1: not known */
    uint32_t *region; /* by position: a new one where the kind changes */
    uint8_t *kind;    /* by position: RUN_FORWARD, RUN_BACKWARD, RUN_UPDATE; 0 */
    uint32_t n_positions;
    bool known;    /* frames show phases: a backward pass, an update, or that there is none */
    bool backward; /* there is a backward pass */
    bool passes;   /* the steps are passes: no optimizer was seen */
    sw_tl_step *steps; /* they end where the optimizer does, passes where backward does */
    uint32_t n_steps, cap_steps;
} trace_roles;

/* Gives all lives their roles. Free it too after a failure. */
SW_MUST_USE sw_status trace_roles_find(trace_roles *r, const snapshot_trace *t, trace_lives *l);
void trace_roles_free(trace_roles *r);

#endif
