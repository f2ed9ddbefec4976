/* bench budget: what is measured.
 *
 * Steps with and without the budget take turns, so that a change of the machine's speed hits
 * both alike. The time of a step with repeats is predicted from the other's op clocks: its
 * time, and once more the time of each op that is repeated. */
#include "alloc/base/mem.h"
#include "runtime/exec/exec.h"
#include "tools/bench/budget.h"
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 2 };
static const int keeps[BENCH_BUDGET_ROWS] = {100, 80, 60, 40, 33, 0};

/* ---- plans ------------------------------------------------------------------------------- */

/* *fits: the plan is within the budget. *info says what is needed where it is not. */
static sw_status plan(const bench_deep_opts *opts, size_t budget_bytes, int threads,
                      sw_plan_info *info, bool *fits)
{
    bench_deep deep;
    *info = (sw_plan_info){.size = sizeof *info};
    SW_TRY(bench_deep_create(&deep, opts, budget_bytes, threads));
    const sw_run_args args = bench_deep_args(&deep);
    const sw_status status = sw_plan(deep.exec, &args, info);
    bench_deep_destroy(&deep);
    *fits = status == SW_OK;
    return status == SW_NOMEM && info->total_bytes > budget_bytes ? SW_OK : status;
}

static void take_saved(void *to, const sw_share *share)
{
    bench_budget_table *t = to;
    if (share->kind == SW_SHARE_ROLE && strcmp(share->name, "saved") == 0)
        t->activation_bytes = share->at_peak_bytes;
}

static uint32_t root_of(const swi_trace *t, uint32_t s)
{
    while (t->storages[s].alias != s)
        s = t->storages[s].alias;
    return s;
}

/* Operations that make what lies in `root`: of the op that writes it, and of those that then
 * write in its place. */
static uint64_t operations_of(const swi_program *p, uint32_t root)
{
    const swi_trace *t = &p->trace;
    uint64_t sum = 0;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (t->storages[s].segment == SWI_SEG_STEP && t->storages[s].birth < p->n_ops &&
            root_of(t, s) == root && p->ops[t->storages[s].birth].phase < SW_BACKWARD)
            sum += swi_node_operations(t, &t->nodes[p->ops[swi_made_at(p, s)].node]);
    return sum;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The links of a chain: what was made before backward and is there at the peak, and as large as
 * the largest of that. */
static void find_links(bench_budget_table *t, const swi_program *p)
{
    for (uint32_t k = 0; k < p->trace.n_storages; k++) {
        const swi_storage *s = &p->trace.storages[k];
        if (s->segment != SWI_SEG_STEP || s->alias != k || s->birth > p->peak_op ||
            s->death < p->peak_op || s->rounded < t->link_bytes ||
            p->ops[s->birth].phase >= SW_BACKWARD)
            continue;
        if (s->rounded > t->link_bytes)
            t->links = 0;
        t->link_bytes = s->rounded;
        if (t->links <= BENCH_DEEP_LAYERS)
            t->link_operations[t->links++] = operations_of(p, k);
    }
    qsort(t->link_operations, t->links, sizeof *t->link_operations, compare);
}

static sw_status describe(bench_budget_table *t, bench_deep *plain)
{
    const sw_run_args args = bench_deep_args(plain);
    SW_TRY(sw_plan_shares(plain->exec, &args, take_saved, t));
    if (strcmp(t->opts.kind, "lenet5") != 0)
        find_links(t, plain->exec->last);
    return SW_OK;
}

/* At the plain plan's peak so many links less can be held as make up the missing bytes, and
 * each of them is recomputed: the cheapest, once. Where k of n links stay, once is enough while
 * n <= k (k + 1) / 2 (Griewank and Walther 2000); below that this is no optimum. */
static uint64_t known_optimum(const bench_budget_table *t, size_t budget_bytes)
{
    if (t->links == 0)
        return UINT64_MAX;
    if (budget_bytes >= t->plain.total_bytes)
        return 0;
    const size_t missing = t->plain.total_bytes - budget_bytes;
    const size_t again = (missing + t->link_bytes - 1) / t->link_bytes;
    const size_t stay = again < t->links ? t->links - again : 0;
    if (t->links > stay * (stay + 1) / 2)
        return UINT64_MAX;
    uint64_t sum = 0;
    for (size_t i = 0; i < again; i++)
        sum += t->link_operations[i];
    return sum;
}

static sw_status sweep(bench_budget_table *t, const bench_budget_times *how)
{
    const size_t range = t->plain.total_bytes - t->least_bytes;
    uint64_t before = 0;
    for (int64_t i = 0; i < how->budgets && !cli_interrupted(); i++) {
        sw_plan_info info;
        bool fits;
        const size_t less = range / (size_t)(how->budgets - 1) * (size_t)i;
        const bool last = i == how->budgets - 1;
        SW_TRY(plan(&t->opts, last ? t->least_bytes : t->plain.total_bytes - less,
                    (int)how->threads, &info, &fits));
        t->sweep_budgets++;
        t->sweep_planned += fits;
        t->sweep_falls += info.cost < before;
        before = info.cost;
        if (info.trace_ns + info.plan_ns > t->sweep_ns)
            t->sweep_ns = info.trace_ns + info.plan_ns;
    }
    return SW_OK;
}

/* ---- times ------------------------------------------------------------------------------- */

/* Of each step: whole times, and those of the ops of both. */
typedef struct {
    bench_deep *plain, *with;
    uint64_t n, plain_ops, with_ops;
    uint64_t *plain_ns, *ns, *plain_op_ns, *op_ns, *scratch;
    uint32_t *times; /* by op of the plain program: how often it is repeated */
    void *block;
    size_t bytes;
} timing;

/* Of n numbers, `stride` apart. */
static uint64_t median(const timing *m, const uint64_t *from, uint64_t stride)
{
    for (uint64_t i = 0; i < m->n; i++)
        m->scratch[i] = from[i * stride];
    qsort(m->scratch, m->n, sizeof *m->scratch, compare);
    return (m->scratch[(m->n - 1) / 2] + m->scratch[m->n / 2]) / 2;
}

static uint64_t least(const timing *m, const uint64_t *from)
{
    uint64_t x = UINT64_MAX;
    for (uint64_t i = 0; i < m->n; i++)
        x = from[i] < x ? from[i] : x;
    return x;
}

static sw_status timing_take(timing *m, uint64_t steps)
{
    m->plain_ops = m->plain->exec->last->n_ops;
    m->with_ops = m->with->exec->last->n_ops;
    const size_t words = steps * (3 + m->plain_ops + m->with_ops);
    m->bytes = words * sizeof(uint64_t) + m->plain_ops * sizeof *m->times;
    SW_TRY(sw_heap_alloc(&m->block, SW_HEAP_RECORDS, m->bytes));
    m->plain_ns = m->block;
    m->ns = m->plain_ns + steps;
    m->scratch = m->ns + steps;
    m->plain_op_ns = m->scratch + steps;
    m->op_ns = m->plain_op_ns + steps * m->plain_ops;
    m->times = (uint32_t *)(void *)(m->op_ns + steps * m->with_ops);
    return SW_OK;
}

/* The node that `again` repeats: a program with repeats has the nodes of the other in front. */
static uint32_t repeated_node(const swi_trace *t, const swi_node *again)
{
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const swi_node *n = &t->nodes[i];
        if (!n->again && !n->is_view && n->op == again->op && n->grad == again->grad &&
            n->layer == again->layer && n->attrs == again->attrs && n->n_in == again->n_in)
            return i;
    }
    return SWI_NONE;
}

static sw_status match_repeats(timing *m)
{
    const swi_program *plain = m->plain->exec->last, *with = m->with->exec->last;
    for (uint32_t i = 0; i < with->n_ops; i++) {
        const swi_node *node = &with->trace.nodes[with->ops[i].node];
        if (!node->again)
            continue;
        const uint32_t of = repeated_node(&with->trace, node);
        uint32_t k = 0;
        while (k < plain->n_ops && plain->ops[k].node != of)
            k++;
        if (k == plain->n_ops)
            SW_FAIL(SW_INVALID, "a repeat of an op that the plain program does not have");
        m->times[k]++;
    }
    return SW_OK;
}

static sw_status step_both(timing *m, uint64_t i)
{
    const sw_exec *plain = m->plain->exec, *with = m->with->exec;
    SW_TRY(bench_deep_step(m->plain));
    m->plain_ns[i] = plain->info.ns;
    memcpy(m->plain_op_ns + i * m->plain_ops, plain->op_ns,
           m->plain_ops * sizeof *m->plain_op_ns);
    SW_TRY(bench_deep_step(m->with));
    m->ns[i] = with->info.ns;
    memcpy(m->op_ns + i * m->with_ops, with->op_ns, m->with_ops * sizeof *m->op_ns);
    m->n = i + 1;
    return SW_OK;
}

static void sum_up(timing *m, bench_budget_row *row)
{
    const swi_program *plain = m->plain->exec->last, *with = m->with->exec->last;
    row->plain_ns = median(m, m->plain_ns, 1);
    row->plain_min_ns = least(m, m->plain_ns);
    row->ns = median(m, m->ns, 1);
    row->min_ns = least(m, m->ns);
    for (uint64_t k = 0; k < m->plain_ops; k++) {
        const uint64_t ns = median(m, m->plain_op_ns + k, m->plain_ops);
        row->rest_ns[0][plain->ops[k].phase >= SW_BACKWARD] += ns;
        row->expected_again_ns += m->times[k] * ns;
    }
    for (uint64_t k = 0; k < m->with_ops; k++) {
        const bool again = with->trace.nodes[with->ops[k].node].again;
        *(again ? &row->again_ns : &row->rest_ns[1][with->ops[k].phase >= SW_BACKWARD]) +=
            median(m, m->op_ns + k, m->with_ops);
    }
    row->predicted = 1.0 + (double)row->expected_again_ns / (double)row->plain_ns;
    for (uint64_t i = 0; i < m->n; i++) /* ppm: medians are of whole numbers */
        m->plain_op_ns[i] = (uint64_t)(1e6 * (double)m->ns[i] / (double)m->plain_ns[i]);
    row->paired = (double)median(m, m->plain_op_ns, 1) / 1e6;
}

static sw_status measure_times(timing *m, uint64_t steps, bench_budget_row *row)
{
    SW_TRY(timing_take(m, steps));
    SW_TRY(match_repeats(m));
    for (uint64_t i = 0; i < steps && !cli_interrupted(); i++) {
        cli_progress("%s, %d %%: step %llu of %llu", m->plain->opts.kind, row->keep,
                     (unsigned long long)i + 1, (unsigned long long)steps);
        SW_TRY(step_both(m, i));
    }
    cli_progress("%s", "");
    row->timed = m->n > 0;
    if (row->timed)
        sum_up(m, row);
    return SW_OK;
}

/* ---- rows -------------------------------------------------------------------------------- */

#define WITNESSED_BYTES ((size_t)16 << 20) /* larger ones would take minutes */

static sw_status observe(const bench_budget_table *t, bench_deep *deep, bench_budget_row *row)
{
    for (int i = 0; i < WARM_UP; i++)
        SW_TRY(bench_deep_step(deep));
    row->observed = deep->exec->info.peak_bytes;
    if (t->plain.total_bytes > WITNESSED_BYTES)
        return SW_OK;
    sw_witness_info seen = {.size = sizeof seen};
    const sw_run_args args = bench_deep_args(deep);
    SW_TRY(sw_witness(deep->exec, &args, SW_WITNESS_ACCESS, &seen));
    row->witnessed = seen.peak_bytes;
    return SW_OK;
}

static sw_status measure_row(const bench_budget_table *t, const bench_budget_times *how,
                             bench_deep *plain, bench_budget_row *row)
{
    bench_deep deep;
    SW_TRY(plan(&t->opts, row->budget_bytes, (int)how->threads, &row->plan, &row->fits));
    row->known = known_optimum(t, row->budget_bytes);
    if (!row->fits)
        return SW_OK;
    SW_TRY(bench_deep_create(&deep, &t->opts, row->budget_bytes, (int)how->threads));
    timing m = {.plain = plain, .with = &deep};
    sw_status status = observe(t, &deep, row);
    if (status == SW_OK && how->steps > 0)
        status = measure_times(&m, (uint64_t)how->steps, row);
    sw_heap_free(m.block, SW_HEAP_RECORDS, m.bytes);
    bench_deep_destroy(&deep);
    return status;
}

static sw_status measure_with(bench_budget_table *t, const bench_budget_times *how,
                              bench_deep *plain)
{
    for (int i = 0; i < WARM_UP; i++)
        SW_TRY(bench_deep_step(plain));
    SW_TRY(describe(t, plain));
    for (int i = 0; i < BENCH_BUDGET_ROWS && !cli_interrupted(); i++) {
        bench_budget_row *row = &t->row[i];
        row->keep = keeps[i];
        row->budget_bytes =
            row->keep > 0 ? t->plain.total_bytes - t->activation_bytes / 100 * (100 - row->keep)
                          : t->least_bytes;
        SW_TRY(measure_row(t, how, plain, row));
    }
    return sweep(t, how);
}

sw_status bench_budget_measure(bench_budget_table *t, const bench_budget_times *how)
{
    sw_plan_info lowest;
    bench_deep plain;
    bool fits;
    SW_TRY(plan(&t->opts, SIZE_MAX, (int)how->threads, &t->plain, &fits));
    SW_TRY(plan(&t->opts, 1, (int)how->threads, &lowest, &fits));
    t->least_bytes = lowest.total_bytes;
    SW_TRY(bench_deep_create(&plain, &t->opts, SIZE_MAX, (int)how->threads));
    const sw_status status = measure_with(t, how, &plain);
    bench_deep_destroy(&plain);
    return status;
}
