/* The machine's peaks, measured in the run that is compared with them. */
#ifndef STEPWELL_BENCH_PEAKS_H
#define STEPWELL_BENCH_PEAKS_H

#include "kernels/dispatch.h"
#include "profiler/record/json.h"
#include "tools/cli/cli.h"

/* The best of all samples so far. Bytes are those that loops load and store. */
typedef struct {
    double gflops;     /* 1e9 operations a second: multiply-adds of registers, two each */
    double read;       /* GB/s: all of PEAKS_BYTES is read */
    double mixed;      /* GB/s: y += a x, each of half of them: two reads and a write */
    uint64_t flops_ns; /* the least that a sample of gflops took */
} bench_peaks;

/* Past the last level of cache that a core has, several times. */
#define PEAKS_BYTES ((size_t)256 << 20)

/* One sample of about a millisecond: multiply-adds on registers, with the vectors of `isa`.
 * How long it took: far above the least, something else ran. */
uint64_t bench_peaks_flops(bench_peaks *peaks, sw_isa isa, const sw_par *par);
/* `samples` of each rate, the memory's on PEAKS_BYTES that are given back at the end. */
SW_MUST_USE sw_status bench_peaks_measure(bench_peaks *peaks, int samples, sw_isa isa,
                                          const sw_par *par);
void bench_peaks_put(sw_json *json, const bench_peaks *peaks);

#endif
