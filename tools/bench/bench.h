/* The measurements of `stepwell bench`. Each compares within one run, interleaved, and shows
 * minimum and median: this kind of machine changes speed by a half from one second to the next.
 */
#ifndef STEPWELL_BENCH_H
#define STEPWELL_BENCH_H

#include "tools/job/result.h"

int bench_record(int argc, char **argv);
int bench_nvtx(int argc, char **argv);
int bench_profiler(int argc, char **argv);
int bench_speed(int argc, char **argv);
int bench_products(int argc, char **argv);
int bench_plan(int argc, char **argv);
int bench_place(int argc, char **argv);
int bench_budget(int argc, char **argv);
int bench_checkpoint(int argc, char **argv);
int bench_device(int argc, char **argv);
int bench_accuracy(int argc, char **argv);
int bench_es(int argc, char **argv);

/* Options shared by commands that time steps, in the order of their help: --batch, --threads,
 * --json and --quiet. */
typedef struct {
    int64_t batch, threads;
    bool json, quiet;
} bench_common;
/* Read a command line of these, after the command's own n options (at most 8): CLI_GO or an
 * exit status. */
int bench_parse(const char *name, const char *about, const cli_option *own, int n,
                bench_common *common, int argc, char **argv);

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
 * nothing is left. The struct may not move afterwards. */
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

/* Data for n arrays whose types and shapes are set: numbers in -1..1 for F32, ids below `ids`
 * for I32 and for the bytes of all but the first, any bytes for the first. After a failure free
 * them too. */
SW_MUST_USE sw_status bench_batch_make(sw_array *arrays, int n, int64_t ids);
void bench_batch_free(sw_array *arrays, int n);
/* `batch` samples of a field: its type, and its shape with a batch axis in front. No data. */
sw_array bench_batch_of(const sw_array *field, int64_t batch);

/* ---- taking turns ------------------------------------------------------------------------ */

/* One of several that do the same in different ways; the first is what others are held against.
 */
typedef struct {
    const char *name, *key;
    cli_summary summary;
} bench_variant;
/* Time step(context, i) of n variants (at most 8), one after the other, `rounds` times or until
 * interrupted; each round begins with another, so that none always follows the same neighbour.
 */
SW_MUST_USE sw_status bench_take_turns(bench_variant *variants, int n, int64_t rounds,
                                       sw_status (*step)(void *context, int i), void *context);
/* --turns: say {"first_ns", "second_ns"}, then answer lines of NAME WARM COUNT on standard
 * input until it ends: step(context, i) of names[i] runs WARM times untimed, then COUNT times,
 * {"ns": [...]}. An exit status. */
typedef struct {
    const char *const *names;
    int n;
    sw_status (*step)(void *context, int i);
    void *context;
    uint64_t first_ns, second_ns; /* from making it to the end of the first two steps; a step */
} bench_answers;
int bench_answer_turns(const bench_answers *answers);
/* Percent above the first, of medians or of minima. */
double bench_above(const bench_variant *variants, int i, bool median);
void bench_print_variants(const char *title, const bench_variant *variants, int n);
/* "key": {each of them as bench_put has it, and how far its median is above, "K_percent"} */
void bench_put_variants(sw_json *json, const char *key, const bench_variant *variants, int n);

/* A folder of this run alone, for its files; "" when there is none to be had. */
SW_MUST_USE sw_status bench_make_folder(char *to, size_t capacity);

/* "key": {"n", "min_ns", "median_ns", "p99_ns", "max_ns"} */
void bench_put(sw_json *json, const char *key, const cli_summary *summary);
void bench_print(const char *name, const cli_summary *summary);

#endif
