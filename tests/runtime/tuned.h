/* A net over frozen weights, with two small ones beside them that are trained. */
#ifndef SW_TESTS_RUNTIME_TUNED_H
#define SW_TESTS_RUNTIME_TUNED_H

#include "runtime/stepwell.h"
#include <stdbool.h>

enum { TUNED_VOCABULARY = 320, TUNED_WIDTH = 64, TUNED_WIDER = 192, TUNED_TOKENS = 300 };

typedef struct {
    sw_model *base, *own; /* frozen weights; what is trained */
    sw_param table, up, bias, down, a, b;
    sw_optimizer *opt;
    const char *scope; /* of all its ops; NULL: none */
} tuned;

/* Ready, with the numbers that weights of type `kind` have, stored so or as float32. Both
 * models end with the test. */
tuned *tuned_new(tuned *t, sw_exec *exec, sw_dtype kind, bool stored);
void tuned_step(sw_ctx *c, void *user);
/* A training step over so many tokens. */
sw_run_args tuned_args(tuned *t, sw_array in[2], sw_model *models[2], int64_t tokens);

/* Steps over weights in float32 and of type `kind`, each in an exec of its own: losses, results
 * and what is trained have the same bits, plans are what is measured, and warm steps allocate
 * nothing. The last loss; plan gets both plans. */
double tuned_same_runs(const sw_exec_opts *opts, sw_dtype kind, const char *scope,
                       int64_t tokens, sw_plan_info plan[2]);

#endif
