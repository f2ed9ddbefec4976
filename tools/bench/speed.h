/* bench speed: its options, for what --ops shows. */
#ifndef STEPWELL_BENCH_SPEED_H
#define STEPWELL_BENCH_SPEED_H

#include "tools/bench/subjects.h"

typedef struct {
    const char *model, *isa, *blas;
    int64_t batch, steps, top, width; /* width 0: the workload's */
    bool turns, control, ops;
    bench_case of; /* with that width */
} speed_opts;

/* --ops. */
SW_MUST_USE sw_status speed_ops(bench *b, const speed_opts *opts, const sw_exec_opts *exec);

#endif
