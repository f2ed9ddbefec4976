/* Optimizers and schedules by the names of the command line: those of the library, and
 * "momentum" and "nesterov" for its sgd with one. */
#ifndef STEPWELL_TOOL_OPTIMIZER_H
#define STEPWELL_TOOL_OPTIMIZER_H

#include "runtime/stepwell.h"
#include <stdbool.h>

/* NULL-terminated, for an option's words. */
const char *const *tool_optimizer_words(void);
/* "sgd, momentum, ...": all of them; "sgd 0.1, ...": their rates without --lr. */
const char *tool_optimizer_rates(void);
/* Kind, momentum and nesterov. */
void tool_optimizer_set(sw_optimizer_opts *opts, const char *name, double momentum);

/* Numbers that a schedule reads besides rate, steps and warm-up. */
enum {
    TOOL_LR_CUTS = 1,
    TOOL_LR_FLOOR = 2,
    TOOL_LR_TOTAL = 4
}; /* every and gamma; floor; the steps in all */
const char *const *tool_schedule_words(void);
const char *tool_schedule_list(void);
unsigned tool_schedule_takes(const char *name);
/* "step or exponential": the schedules that take it. */
const char *tool_schedule_takers(unsigned what);

#endif
