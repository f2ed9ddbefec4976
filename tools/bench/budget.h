/* bench budget: what a smaller and smaller budget costs, for three deep programs. Between the
 * files that make the programs, measure them and show the figures. */
#ifndef STEPWELL_BENCH_BUDGET_H
#define STEPWELL_BENCH_BUDGET_H

#include "tools/bench/bench.h"

/* ---- the subjects ------------------------------------------------------------------------ */

#define BENCH_DEEP_LAYERS 64 /* at most */

typedef struct {
    const char *kind; /* "mlp", "lenet5", "conv" */
    int64_t layers, width, batch, side;
} bench_deep_opts;

/* A chain of equal layers with relu and SGD, or LeNet5 with Adam, all with released updates; an
 * exec of its own, and a fixed batch. */
typedef struct {
    bench_deep_opts opts;
    sw_budget *budget;
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear fc[BENCH_DEEP_LAYERS];
    sw_conv2d conv[BENCH_DEEP_LAYERS];
    tool_net lenet;
    sw_array inputs[2];
    uint64_t step;
} bench_deep;

/* Sizes that were not given (0) become those that the table is about. */
void bench_deep_sizes(bench_deep_opts *opts);
/* Declared, with no tensor memory; budget_bytes SIZE_MAX: none. On failure nothing is left
 * after. The struct may not move afterwards. */
SW_MUST_USE sw_status bench_deep_create(bench_deep *deep, const bench_deep_opts *opts,
                                        size_t budget_bytes, int threads);
sw_run_args bench_deep_args(bench_deep *deep);
/* One step; the first takes the memory and makes model and batch. */
SW_MUST_USE sw_status bench_deep_step(bench_deep *deep);
void bench_deep_destroy(bench_deep *deep);

/* ---- the figures ------------------------------------------------------------------------- */

enum { BENCH_BUDGET_ROWS = 6 };

/* Times are medians over the steps. */
typedef struct {
    int keep;   /* percent of the activation bytes; 0: as little as possible */
    bool fits;  /* else nothing after `known` is there */
    bool timed; /* else nothing after `witnessed` */
    size_t budget_bytes;
    sw_plan_info plan;
    uint64_t known; /* least operations that are done again on a chain; UINT64_MAX: not known */
    size_t observed, witnessed;      /* peaks; 0: not witnessed */
    uint64_t plain_ns, plain_min_ns; /* of a step without a budget, in between */
    uint64_t ns, min_ns;
    double predicted;           /* step time over the plain one, by the plain ops' times */
    double paired;              /* the same measured: median over pairs of neighbours */
    uint64_t expected_again_ns; /* plain times of what is repeated */
    uint64_t again_ns;          /* in repeats */
    uint64_t rest_ns[2][2];     /* all other ops: plain, with the budget; before backward,
                                   after its begin */
} bench_budget_row;

typedef struct {
    bench_deep_opts opts;
    sw_plan_info plain;
    size_t activation_bytes, least_bytes;
    uint32_t links;    /* of a chain: results that are kept at the peak; 0: no chain */
    size_t link_bytes; /* of each of them */
    uint64_t link_operations[BENCH_DEEP_LAYERS + 1]; /* that make it again; ascending */
    bench_budget_row row[BENCH_BUDGET_ROWS];
    int sweep_budgets;
    int sweep_planned; /* that were planned and fit */
    int sweep_falls;   /* where a smaller budget was predicted to cost less */
    uint64_t sweep_ns; /* the longest planning */
} bench_budget_table;

typedef struct {
    int64_t steps; /* 0: nothing is timed */
    int64_t threads;
    int64_t budgets; /* between the least and the plain one, evenly; at least 2 */
} bench_budget_times;
SW_MUST_USE sw_status bench_budget_measure(bench_budget_table *table,
                                           const bench_budget_times *how);

void bench_budget_print(const bench_budget_table *table);
void bench_budget_put(sw_json *json, const bench_budget_table *table);

#endif
