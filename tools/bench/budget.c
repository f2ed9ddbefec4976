/* bench budget: for three deep programs, what keeping a part of the activations costs: bytes,
 * repeated arithmetic beside the known optimum, predicted and measured times.
 *
 * Steps with and without the budget take turns, so that a change of the machine's speed hits
 * both alike. The time of a step with repeats is predicted from the other's op clocks: its
 * time, and once more the time of each op that is repeated. */
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "alloc/base/size.h"
#include "runtime/exec/exec.h"
#include "tools/bench/subjects.h"
#include <stdlib.h>
#include <string.h>

enum { SUBJECTS = 3, CLASSES = 10, MOST_LAYERS = 64, ROWS = 6, WARM_UP = 2 };
static const char *const kinds[SUBJECTS + 2] = {"mlp", "lenet5", "conv", "all", NULL};
static const int64_t keeps[ROWS] = {100, 80, 60, 40, 33, 0};

/* Its sizes; those that were not given are 0. */
typedef struct {
    const char *kind;
    int64_t layers, width, batch, side;
} sizes;

static struct {
    sizes given;
    const char *subject;
    int64_t steps, budgets;
} o = {.steps = -1}; /* as many as the subject has */

/* ---- the programs ------------------------------------------------------------------------ */

/* A chain of equal layers with relu and SGD, which holds hardly anything but activations, or
 * LeNet5 with Adam; all with released updates, an exec of their own, and a fixed batch. */
typedef struct {
    sizes of;
    sw_budget *budget;
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear fc[MOST_LAYERS];
    sw_conv2d conv[MOST_LAYERS];
    tool_net lenet;
    sw_array inputs[2];
    uint64_t step;
} deep;

static bool is(const sizes *s, const char *kind)
{
    return strcmp(s->kind, kind) == 0;
}

/* Of a subject: those that were given, else those that the table is about. */
static sizes sizes_of(const char *kind)
{
    const sizes *g = &o.given;
    const bool mlp = strcmp(kind, "mlp") == 0;
    if (strcmp(kind, "lenet5") == 0)
        return (sizes){kind, 0, 0, g->batch > 0 ? g->batch : 128, TOOL_LENET5_SIDE};
    return (sizes){kind,
                   g->layers > 0 ? g->layers
                   : mlp         ? 32
                                 : 50,
                   g->width > 0 ? g->width
                   : mlp        ? 1024
                                : 16,
                   g->batch > 0 ? g->batch
                   : mlp        ? 512
                                : 32,
                   mlp           ? 0
                   : g->side > 0 ? g->side
                                 : 32};
}

/* Each layer is a scope, so that its relu counts as part of it. */
static void deep_step(sw_ctx *ctx, void *user)
{
    deep *d = user;
    const bool mlp = is(&d->of, "mlp");
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < (int)d->of.layers; i++) {
        char name[16];
        x = mlp ? sw_apply_linear(ctx, d->fc[i], x) : sw_apply_conv2d(ctx, d->conv[i], x);
        snprintf(name, sizeof name, "layer%d", i + 1);
        sw_scope_begin(ctx, name);
        x = sw_relu(ctx, x);
        sw_scope_end(ctx);
    }
    x = mlp ? x : sw_flatten(ctx, sw_global_avg_pool(ctx, x));
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &d->optimizer, 1);
    sw_update(ctx, d->optimizer);
}

static sw_run_args args_of(deep *d)
{
    const bool lenet = is(&d->of, "lenet5");
    size_t slot_bytes = 0;
    for (int k = 0; k < 2; k++) {
        const sw_type type = {d->inputs[k].dtype, SW_PLAIN, d->inputs[k].shape};
        slot_bytes += sw_size_round(sw_type_bytes(&type));
    }
    return (sw_run_args)SW_INIT(.size = sizeof(sw_run_args),
                                .fn = lenet ? tool_net_step : deep_step,
                                .user = lenet ? (void *)&d->lenet : d, .models = &d->model,
                                .n_models = 1, .inputs = d->inputs, .n_inputs = 2,
                                .mode = SW_TRAIN, .step = d->step,
                                .data_bytes = slot_bytes); /* the budget is for the batch too */
}

static sw_status declare_lenet5(deep *d)
{
    tool_net_opts net;
    SW_TRY(tool_net_digits(&net, "lenet5"));
    net.optimizer.release = 1;
    SW_TRY(tool_net_create(&d->lenet, &net));
    d->model = d->lenet.model;
    d->inputs[0] =
        (sw_array){SW_U8, SW_SHAPE(d->of.batch, 1, TOOL_LENET5_SIDE, TOOL_LENET5_SIDE), NULL};
    return SW_OK;
}

static sw_status declare_chain(deep *d)
{
    const sizes *s = &d->of;
    const bool mlp = is(s, "mlp");
    SW_TRY(sw_model_create(&d->model, s->kind));
    for (int i = 0; i < (int)s->layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer%d", i + 1);
        if (mlp)
            d->fc[i] = sw_linear_new(d->model, name, s->width, s->width);
        else {
            d->conv[i] = sw_conv2d_new(d->model, name, s->width, s->width, 3);
            d->conv[i].pad = 1;
        }
    }
    const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd", .release = 1};
    d->inputs[0] = (sw_array){SW_F32,
                              mlp ? SW_SHAPE(s->batch, s->width)
                                  : SW_SHAPE(s->batch, s->width, s->side, s->side),
                              NULL};
    return sw_optimizer_create(&d->optimizer, d->model, &sgd);
}

static void destroy(deep *d)
{
    if (d->lenet.model != NULL)
        tool_net_destroy(&d->lenet);
    else
        sw_model_destroy(d->model);
    sw_exec_destroy(d->exec);
    sw_budget_destroy(d->budget);
    bench_batch_free(d->inputs, 2);
    *d = (deep){0};
}

/* Declared, with no tensor memory; budget_bytes SIZE_MAX: none. On failure nothing is left. */
static sw_status create(deep *d, const sizes *of, size_t budget_bytes, int threads)
{
    *d = (deep){.of = *of};
    sw_status status =
        budget_bytes < SIZE_MAX ? sw_budget_create(&d->budget, budget_bytes) : SW_OK;
    const sw_exec_opts exec = {
        .size = sizeof exec, .threads = threads, .budget = d->budget, .op_clocks = 1};
    if (status == SW_OK)
        status = sw_exec_create(&d->exec, &exec);
    if (status == SW_OK)
        status = is(of, "lenet5") ? declare_lenet5(d) : declare_chain(d);
    d->inputs[1] = (sw_array){SW_U8, SW_SHAPE(of->batch), NULL};
    if (status != SW_OK)
        destroy(d);
    return status;
}

/* One step; the first takes the memory and makes model and batch. */
static sw_status step_deep(deep *d)
{
    if (d->inputs[0].data == NULL) {
        SW_TRY(bench_batch_make(d->inputs, 2, CLASSES));
        SW_TRY(sw_model_ready(d->model, d->exec, 1));
    }
    const sw_run_args args = args_of(d);
    d->step++;
    return sw_run(d->exec, &args);
}

/* ---- rows -------------------------------------------------------------------------------- */

/* A budget. Times are medians over the steps; without any they are absent, as all
 * figures are where it does not fit. */
/* clang-format off */
#define BUDGET_ROW(X, t) \
    X(t, WORD, subject, NULL, 0) \
    X(t, TEXT, kept, "keep", 5) \
    X(t, COUNT, keep_percent, NULL, 0) /* of the activations' bytes; 0: as little as possible */ \
    X(t, BYTES, budget_bytes, NULL, 0) \
    X(t, FLAG, fits, NULL, 0) \
    X(t, BYTES, total_bytes, "total", 9) \
    X(t, BYTES, predicted_peak_bytes, NULL, 0) \
    X(t, BYTES, observed_peak_bytes, "peak", 9) \
    X(t, BYTES, witnessed_peak_bytes, NULL, 0) \
    X(t, COUNT, repeats, "again", 5) \
    X(t, REAL, repeat_operations_percent, "arith. %", 0) \
    X(t, REAL, optimum_operations_percent, "least %", 7) /* of a chain: the least that is known */ \
    X(t, REAL, repeat_cost_percent, "cost %", 7) \
    X(t, REAL, least_repeat_cost_percent, NULL, 0) \
    X(t, TEXT, method, NULL, 0) \
    X(t, NS, plan_ns, NULL, 0) \
    X(t, NS, plain_ns, NULL, 0) \
    X(t, NS, plain_min_ns, NULL, 0) /* of a step without a budget, in between */ \
    X(t, TIME, predicted_ns, "predicted", 9) /* by the plain ops' times */ \
    X(t, NS, measured_ns, "measured", 9) \
    X(t, NS, measured_min_ns, NULL, 0) \
    X(t, REAL, measured_paired_ratio, NULL, 0) /* over the plain one: median over pairs of neighbours */ \
    X(t, REAL, off_percent, NULL, 0)
/* clang-format on */
BENCH_ROW(row, fields, BUDGET_ROW);

/* A program: what it has without a budget, and budgets down to the least. */
/* clang-format off */
#define PROGRAM(X, t) \
    X(t, WORD, subject, "", 7) \
    X(t, COUNT, layers, "layers", 6) \
    X(t, COUNT, width, "width", 6) \
    X(t, COUNT, batch, "batch", 6) \
    X(t, BYTES, plain_total_bytes, "total", 9) \
    X(t, BYTES, activation_bytes, NULL, 0) \
    X(t, BYTES, least_total_bytes, "least", 9) \
    X(t, COUNT, operations, NULL, 0) \
    X(t, COUNT, links, NULL, 0) /* of a chain: results that are kept at the peak; 0: no chain */ \
    X(t, BYTES, link_bytes, NULL, 0) /* of each of them */ \
    X(t, COUNT, link_operations, NULL, 0) /* of the one that most are needed for */ \
    X(t, COUNT, budgets, "budgets", 7) \
    X(t, COUNT, fit, "fit", 4) /* that were planned and fit */ \
    X(t, COUNT, cost_falls, "falls", 5) /* where a smaller budget was predicted to cost less */ \
    X(t, NS, max_plan_ns, "planned in", 10)
/* clang-format on */
BENCH_ROW(program, program_fields, PROGRAM);

typedef struct {
    bench *out;
    sizes of;
    sw_plan_info plain;
    program program;
    uint64_t link_operations[MOST_LAYERS + 1]; /* that make each link again; ascending */
    row rows[ROWS];
} table;

/* ---- plans ------------------------------------------------------------------------------- */

/* *fits: the plan is within the budget. *info says what is needed where it is not. */
static sw_status plan(const table *t, size_t budget_bytes, sw_plan_info *info, bool *fits)
{
    deep d;
    *info = (sw_plan_info){.size = sizeof *info};
    SW_TRY(create(&d, &t->of, budget_bytes, (int)t->out->threads));
    const sw_run_args args = args_of(&d);
    const sw_status status = sw_plan(d.exec, &args, info);
    destroy(&d);
    *fits = status == SW_OK;
    return status == SW_NOMEM && info->total_bytes > budget_bytes ? SW_OK : status;
}

static void take_saved(void *to, const sw_share *share)
{
    table *t = to;
    if (share->kind == SW_SHARE_ROLE && strcmp(share->name, "saved") == 0)
        t->program.activation_bytes = (int64_t)share->at_peak_bytes;
}

/* Operations that make what lies in `root`: of the op that writes it, and of those that then
 * write in its place. */
static uint64_t operations_of(const swi_program *p, uint32_t root)
{
    const swi_trace *t = &p->trace;
    uint64_t sum = 0;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (t->storages[s].segment == SWI_SEG_STEP && t->storages[s].birth < p->n_ops &&
            swi_root_of(t, s) == root && p->ops[t->storages[s].birth].phase < SW_BACKWARD)
            sum += swi_node_operations(t, &t->nodes[p->ops[swi_made_at(p, s)].node]);
    return sum;
}

static double operations_percent(const table *t, uint64_t operations)
{
    return bench_percent((double)operations, (double)t->plain.operations);
}

/* At the plain plan's peak so many links less can be held as make up the missing bytes, and
 * each of them is recomputed: the cheapest, once. Where k of n links stay, once is enough while
 * n <= k (k + 1) / 2 (Griewank and Walther 2000); below that this is no optimum. In percent of
 * the operations of a step; NaN where it is not known. */
static double known_optimum(const table *t, size_t budget_bytes)
{
    const size_t links = (size_t)t->program.links, link_bytes = (size_t)t->program.link_bytes;
    if (links == 0)
        return (double)NAN;
    if (budget_bytes >= t->plain.total_bytes)
        return 0.0;
    const size_t missing = t->plain.total_bytes - budget_bytes,
                 again = (missing + link_bytes - 1) / link_bytes,
                 stay = again < links ? links - again : 0;
    if (links > stay * (stay + 1) / 2)
        return (double)NAN;
    uint64_t sum = 0;
    for (size_t i = 0; i < again; i++)
        sum += t->link_operations[i];
    return operations_percent(t, sum);
}

/* ---- times ------------------------------------------------------------------------------- */

/* An op that runs again. */
typedef struct {
    uint32_t of; /* op of the plain program */
    cli_times ns;
} repeat;

typedef struct {
    deep *plain, *with;
    cli_times plain_ns, ns, pairs; /* pairs: ratio of neighbours, in ppm */
    repeat *repeats;
    uint32_t n, capacity;
} timing;

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

static sw_status measure_times(timing *m, uint64_t steps, row *r)
{
    SW_TRY(cli_times_init(&m->plain_ns, steps));
    SW_TRY(cli_times_init(&m->ns, steps));
    SW_TRY(cli_times_init(&m->pairs, steps));
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
            SW_TRY(sw_heap_reserve(&m->repeats, SW_HEAP_RECORDS, &m->capacity, m->n + 1));
            m->repeats[m->n].of = k;
            SW_TRY(cli_times_init(&m->repeats[m->n++].ns, steps));
        }
    }
    for (uint64_t i = 0; i < steps && !cli_interrupted(); i++) {
        cli_progress("%s, keep %s: step %llu of %llu", r->subject, r->kept,
                     (unsigned long long)i + 1, (unsigned long long)steps);
        SW_TRY(step_deep(m->plain));
        const sw_exec *plain = m->plain->exec;
        for (uint32_t j = 0; j < m->n; j++)
            cli_times_add(&m->repeats[j].ns, plain->op_ns[m->repeats[j].of]);
        SW_TRY(step_deep(m->with));
        const uint64_t plain_ns = plain->info.ns, ns = m->with->exec->info.ns;
        cli_times_add(&m->plain_ns, plain_ns);
        cli_times_add(&m->ns, ns);
        cli_times_add(&m->pairs, (uint64_t)(1e6 * (double)ns / (double)plain_ns));
    }
    if (m->ns.n > 0) {
        const cli_summary plain = cli_times_summary(&m->plain_ns),
                          with = cli_times_summary(&m->ns);
        r->plain_ns = (int64_t)plain.median;
        r->plain_min_ns = (int64_t)plain.min;
        r->measured_ns = (int64_t)with.median;
        r->measured_min_ns = (int64_t)with.min;
        r->predicted_ns = (double)plain.median;
        for (uint32_t k = 0; k < m->n; k++)
            r->predicted_ns += (double)cli_times_summary(&m->repeats[k].ns).median;
        r->off_percent = bench_percent((double)with.median - r->predicted_ns, r->predicted_ns);
        r->measured_paired_ratio = (double)cli_times_summary(&m->pairs).median / 1e6;
    }
    return SW_OK;
}

/* ---- measuring --------------------------------------------------------------------------- */

#define WITNESSED_BYTES ((size_t)16 << 20) /* larger ones would take minutes */

static sw_status observe(const table *t, deep *d, row *r)
{
    for (int i = 0; i < WARM_UP; i++)
        SW_TRY(step_deep(d));
    r->observed_peak_bytes = (int64_t)d->exec->info.peak_bytes;
    if (t->plain.total_bytes > WITNESSED_BYTES)
        return SW_OK;
    sw_witness_info seen = {.size = sizeof seen};
    const sw_run_args args = args_of(d);
    SW_TRY(sw_witness(d->exec, &args, SW_WITNESS_ACCESS, &seen));
    r->witnessed_peak_bytes = (int64_t)seen.peak_bytes;
    return SW_OK;
}

static sw_status measure_row(const table *t, deep *plain, row *r)
{
    const int64_t steps = o.steps >= 0 ? o.steps : is(&t->of, "lenet5") ? 500 : 20;
    const size_t budget = (size_t)r->budget_bytes;
    deep d;
    sw_plan_info info;
    SW_TRY(plan(t, budget, &info, &r->fits));
    if (!r->fits)
        return SW_OK;
    r->total_bytes = (int64_t)info.total_bytes;
    r->predicted_peak_bytes = (int64_t)info.peak_bytes;
    r->repeats = (int64_t)info.n_repeats;
    r->repeat_operations_percent = operations_percent(t, info.repeat_operations);
    r->optimum_operations_percent = known_optimum(t, budget);
    r->repeat_cost_percent = bench_percent((double)info.repeat_cost, (double)t->plain.cost);
    if (info.least_repeat_cost < UINT64_MAX)
        r->least_repeat_cost_percent =
            bench_percent((double)info.least_repeat_cost, (double)t->plain.cost);
    memcpy(r->method, info.method, sizeof info.method);
    r->plan_ns = (int64_t)(info.trace_ns + info.plan_ns);
    SW_TRY(create(&d, &t->of, budget, (int)t->out->threads));
    timing m = {.plain = plain, .with = &d};
    sw_status status = observe(t, &d, r);
    if (status == SW_OK && steps > 0)
        status = measure_times(&m, (uint64_t)steps, r);
    for (uint32_t i = 0; i < m.n; i++)
        cli_times_free(&m.repeats[i].ns);
    sw_heap_free(m.repeats, SW_HEAP_RECORDS, m.capacity * sizeof *m.repeats);
    cli_times_free(&m.plain_ns);
    cli_times_free(&m.ns);
    cli_times_free(&m.pairs);
    destroy(&d);
    return status;
}

/* A row with nothing but its budget. */
static void begin_row(const table *t, int64_t keep, row *r)
{
    *r = (row){.subject = t->of.kind, .keep_percent = keep};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const bench_field *f = &fields[i];
        const int64_t none = BENCH_NONE;
        const double nan = (double)NAN;
        char *to = (char *)r + f->at;
        if (f->kind == BENCH_REAL || f->kind == BENCH_TIME)
            memcpy(to, &nan, sizeof nan);
        else if (f->kind >= BENCH_COUNT && f->kind <= BENCH_NS)
            memcpy(to, &none, sizeof none);
    }
    r->keep_percent = keep;
    snprintf(r->kept, sizeof r->kept, keep > 0 ? "%lld %%" : "least", (long long)keep);
    r->budget_bytes = t->program.least_total_bytes;
    if (keep > 0)
        r->budget_bytes =
            (int64_t)t->plain.total_bytes - t->program.activation_bytes / 100 * (100 - keep);
}

static sw_status measure_with(table *t, deep *plain)
{
    for (int i = 0; i < WARM_UP; i++)
        SW_TRY(step_deep(plain));
    const sw_run_args args = args_of(plain);
    SW_TRY(sw_plan_shares(plain->exec, &args, take_saved, t));
    if (!is(&t->of, "lenet5")) {
        /* The links of a chain: what was made before backward and is there at the peak, and
         * as large as the largest of that. */
        uint32_t n = 0;
        size_t bytes = 0;
        for (uint32_t k = 0; k < plain->exec->last->trace.n_storages; k++) {
            const swi_storage *s = &plain->exec->last->trace.storages[k];
            if (s->segment != SWI_SEG_STEP || s->alias != k ||
                s->birth > plain->exec->last->peak_op ||
                s->death < plain->exec->last->peak_op || s->rounded < bytes ||
                plain->exec->last->ops[s->birth].phase >= SW_BACKWARD)
                continue;
            n = s->rounded > bytes ? 0 : n;
            bytes = s->rounded;
            if (n <= MOST_LAYERS)
                t->link_operations[n++] = operations_of(plain->exec->last, k);
        }
        qsort(t->link_operations, n, sizeof *t->link_operations, sw_order_u64);
        t->program.links = n;
        t->program.link_bytes = (int64_t)bytes;
        t->program.link_operations = n > 0 ? (int64_t)t->link_operations[n - 1] : 0;
    }
    program *to = &t->program;
    const size_t least = (size_t)to->least_total_bytes, range = t->plain.total_bytes - least;
    uint64_t before = 0;
    for (int64_t j = 0; j < o.budgets && !cli_interrupted(); j++) {
        sw_plan_info info;
        bool fits;
        const size_t less = range / (size_t)(o.budgets - 1) * (size_t)j;
        SW_TRY(plan(t, j == o.budgets - 1 ? least : t->plain.total_bytes - less, &info, &fits));
        const int64_t ns = (int64_t)(info.trace_ns + info.plan_ns);
        to->budgets++;
        to->fit += fits;
        to->cost_falls += info.cost < before;
        before = info.cost;
        to->max_plan_ns = ns > to->max_plan_ns ? ns : to->max_plan_ns;
    }

    bench_rows(t->out, "subjects", program_fields, &t->program, 1);
    for (int i = 0; i < ROWS && !cli_interrupted(); i++) {
        begin_row(t, keeps[i], &t->rows[i]);
        SW_TRY(measure_row(t, plain, &t->rows[i]));
    }
    return SW_OK;
}

/* ---- the command ------------------------------------------------------------------------- */

static sw_status measure(bench *b)
{
    static table tables[SUBJECTS];
    for (int i = 0; i < SUBJECTS && !cli_interrupted(); i++) {
        tables[i] = (table){.out = b, .of = sizes_of(kinds[i])};
        if (strcmp(o.subject, "all") == 0 || strcmp(o.subject, kinds[i]) == 0) {
            sw_plan_info lowest;
            deep plain;
            bool fits;
            SW_TRY(plan(&tables[i], SIZE_MAX, &tables[i].plain, &fits));
            SW_TRY(plan(&tables[i], 1, &lowest, &fits));
            tables[i].program =
                (program)SW_INIT(.subject = tables[i].of.kind, .layers = tables[i].of.layers,
                                 .width = tables[i].of.width, .batch = tables[i].of.batch,
                                 .plain_total_bytes = (int64_t)tables[i].plain.total_bytes,
                                 .least_total_bytes = (int64_t)lowest.total_bytes,
                                 .operations = (int64_t)tables[i].plain.operations);
            SW_TRY(create(&plain, &tables[i].of, SIZE_MAX, (int)tables[i].out->threads));
            const sw_status status = measure_with(&tables[i], &plain);
            destroy(&plain);
            SW_TRY(status);
        }
    }
    bench_note(
        b,
        "\nkeep: of the activations. again: ops that run again. arith.: repeated arithmetic\n"
        "in percent of a step's; least: of a chain, what is known. cost: as the planner\n"
        "estimates it. predicted: a plain step, and its ops that are repeated once more.\n");
    for (int i = 0; i < SUBJECTS; i++)
        for (int k = 0; k < ROWS && tables[i].rows[k].budget_bytes > 0; k++) {
            if (k == 0)
                bench_note(b, "\n%s\n", kinds[i]);
            b->shown = k == 0 ? NULL : b->shown;
            bench_rows(b, "rows", fields, &tables[i].rows[k], 1);
        }
    return SW_OK;
}

static const cli_option options[] = {
    BENCH_NAME("--subject", &o.subject, "all", "mlp, lenet5, conv, or all", kinds),
    BENCH_NUMBER("--steps", &o.steps, NULL,
                 "timed steps of each row, and as many without a budget in between (default "
                 "20, lenet5 500); 0: none",
                 0, 1 << 16),
    BENCH_NUMBER("--budgets", &o.budgets, "50", "that are planned, evenly down to the least", 2,
                 1 << 16),
    BENCH_NUMBER("--layers", &o.given.layers, NULL, "of the chains (default 32, conv 50)", 2,
                 MOST_LAYERS),
    BENCH_NUMBER("--width", &o.given.width, NULL,
                 "of a layer (default 1024), or its channels (16)", 10, 1 << 16),
    BENCH_NUMBER("--side", &o.given.side, NULL, "of conv's images (default 32)", 1, 4096),
    BENCH_NUMBER("--batch", &o.given.batch, NULL,
                 "rows per step (default 512, lenet5 128, conv 32)", 1, 1 << 16),
};

const bench_command bench_budget =
    SW_INIT(.name = "budget", .line = "what a smaller budget costs: three deep programs",
            .about =
                "The cost of keeping less: bytes, repeated arithmetic and time of three deep "
                "programs.",
            BENCH_OPTIONS(options), .run = measure);
