/* The measurements of `stepwell bench`. Each compares within one run, interleaved, and shows
 * minimum and median: this kind of machine changes speed by a half from one second to the next.
 */
#ifndef STEPWELL_BENCH_H
#define STEPWELL_BENCH_H

#include "tools/result.h"

int bench_pauses(int argc, char **argv);
int bench_record(int argc, char **argv);
int bench_speed(int argc, char **argv);
int bench_plan(int argc, char **argv);
int bench_place(int argc, char **argv);
int bench_budget(int argc, char **argv);

/* bench plan --prove. */
typedef struct {
    int64_t largest, threads, nodes; /* batches 1 to largest; nodes of the longer search */
    bool json, quiet;
} bench_prove_opts;
int bench_prove(const bench_prove_opts *opts);

/* A perceptron of 5,034 parameters (40-64-32-10) with Adam, one exec, and a fixed batch: small
 * enough that whatever a step costs besides arithmetic shows. */
typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear fc[3];
    sw_array inputs[2];
    float *x;
    unsigned char *y;
    int64_t batch;
    uint64_t step;
} bench_small;
/* `opts` as for sw_exec_create. Two steps are run, so that the next one is warm. On failure
 * nothing is left behind. The struct may not move afterwards. */
SW_MUST_USE sw_status bench_small_create(bench_small *small, int64_t batch,
                                         const sw_exec_opts *opts);
SW_MUST_USE sw_status bench_small_step(bench_small *small);
void bench_small_destroy(bench_small *small);

/* LeNet5, Adam, synthetic images through a loader: a whole step of `stepwell train`. The same
 * rules. */
typedef struct {
    sw_exec *exec;
    tool_net net;
    sw_dataset *set;
    sw_loader *loader;
    const sw_array *inputs;
    bool one_batch;
    uint64_t step, epoch;
} bench_lenet;
/* one_batch: the loader rests after its first batch, which every step then takes. */
SW_MUST_USE sw_status bench_lenet_create(bench_lenet *lenet, int64_t batch, bool one_batch,
                                         const sw_exec_opts *opts);
SW_MUST_USE sw_status bench_lenet_step(bench_lenet *lenet);
void bench_lenet_destroy(bench_lenet *lenet);

/* "key": {"n", "min_ns", "median_ns", "p99_ns", "max_ns"} */
void bench_put(sw_json *json, const char *key, const cli_summary *summary);
void bench_print(const char *name, const cli_summary *summary);

#endif
