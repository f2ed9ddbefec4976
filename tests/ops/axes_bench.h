/* Shared by the tests of ops over axes: an exec, a model with one parameter, and runs of a step
 * function. */
#ifndef SW_TESTS_AXES_BENCH_H
#define SW_TESTS_AXES_BENCH_H

#include "runtime/ops/ops.h"
#include "runtime/exec/exec.h"
#include "tests/support/made.h"

#define N(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_param p; /* any parameter of the test */
    sw_optimizer *opt;
    float number;
    int count;
} bench;

/* A step function that gives one value. */
#define GIVES(name, ...)                                                                       \
    static void name(sw_ctx *c, void *user)                                                    \
    {                                                                                          \
        const bench *b = user;                                                                 \
        (void)b;                                                                               \
        sw_output(c, "y", __VA_ARGS__);                                                        \
    }

/* A step function that trains on one value. */
#define TRAINS(name, ...)                                                                      \
    static void name(sw_ctx *c, void *user)                                                    \
    {                                                                                          \
        bench *b = user;                                                                       \
        bench_train(c, b, __VA_ARGS__);                                                        \
    }

void bench_close(void *arg);
void bench_open(bench *b, int threads, sw_shape shape);
bench *bench_new(int threads, sw_shape shape); /* until it is closed, or the test ends */
sw_status bench_run(bench *b, sw_step_fn *fn, const sw_array *inputs, int n_inputs,
                    sw_mode mode);
const float *bench_output(bench *b, const char *name, int64_t n);
int bench_nodes(const bench *b, uint32_t op);
void bench_refused(bench *b, sw_step_fn *fn, const sw_array *inputs, int n_inputs,
                   const char *words);
void bench_train(sw_ctx *c, bench *b, sw_value y);
void bench_same_for_all_threads(sw_step_fn *fn, const sw_array *inputs, int n_inputs,
                                sw_shape shape, int64_t n_p, int64_t n_y);

#endif
