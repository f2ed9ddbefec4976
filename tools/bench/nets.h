/* Models of the table at sizes that are measured, on one batch of random numbers. */
#ifndef STEPWELL_BENCH_NETS_H
#define STEPWELL_BENCH_NETS_H

#include "tools/bench/bench.h"

typedef struct {
    const char *name, *about, *model, *optimizer;
    float momentum;
    bool release; /* updates right after their gradients, as stepwell train has them */
    int64_t batch, layers, width, heads, context, classes, side, channels; /* 0: not its own */
} bench_net_case;

/* It may not move. */
typedef struct {
    sw_exec *exec;
    tool_net net;
    sw_array inputs[2];
    uint64_t step;
} bench_net;

/* Exec, model and batch; after a failure destroy it too. */
SW_MUST_USE sw_status bench_net_make(bench_net *net, const bench_net_case *which, int64_t batch,
                                     const sw_exec_opts *opts);
sw_run_args bench_net_args(bench_net *net); /* of its next step */
SW_MUST_USE sw_status bench_net_step(bench_net *net);
void bench_net_destroy(bench_net *net);

#endif
