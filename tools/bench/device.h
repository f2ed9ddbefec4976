/* bench device: whole steps of networks on a device, and what its card can do at most. */
#ifndef STEPWELL_BENCH_DEVICE_H
#define STEPWELL_BENCH_DEVICE_H

#include "tools/bench/nets.h"

typedef struct {
    const char *device, *only; /* one case; NULL: all */
    int64_t steps, warmup;
    int64_t share;     /* batches are a share of what the cases say: 1 is all */
    int64_t raw_bytes; /* of what is copied */
    int64_t raw_side;  /* of the matrices */
    int64_t threads;   /* of the CPU */
    bool tf32, no_graphs, json, quiet;
} bench_device_opts;

/* ---- networks ---------------------------------------------------------------------------- */

/* For both sides: tools/bench/device_torch.py has the same table. */
const bench_net_case *bench_device_case_at(int i); /* NULL past the end */

typedef struct {
    const bench_net_case *of;
    int64_t batch;
    cli_summary step; /* device time: from the first phase's begin to the last one's end */
    uint64_t free_ns; /* time of the clock for one of all steps, none waited for */
    sw_plan_info plan;
    size_t peak_bytes;  /* most that lived at one time, as the run says */
    size_t taken_bytes; /* by which the card's free memory is less than when it was opened; 0:
                           not known */
    double loss;        /* of the last step */
} bench_device_figures;
SW_MUST_USE sw_status bench_device_net(const bench_net_case *which,
                                       const bench_device_opts *opts,
                                       bench_device_figures *out);

/* ---- the card ---------------------------------------------------------------------------- */

/* Kernels by themselves, by device events. */
typedef struct {
    const char *name, *about;
    cli_summary time;
    double bytes, operations; /* that it moves (read and written), or does */
    size_t live_bytes;
} bench_device_raw;
enum { BENCH_DEVICE_RAW = 4 };
/* Copy, matrix product, swish forward and backward; *n is how many there are. */
SW_MUST_USE sw_status bench_device_card(const bench_device_opts *opts, bench_device_raw *out,
                                        int *n);

#endif
