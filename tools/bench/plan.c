/* bench plan: tracing and planning a step of LeNet5, from nothing each time; or, with --prove,
 * the height of every training program's arena beside its lower bound: each model, optimizer,
 * release on and off, and every batch up to a largest. Where a plan stays above, a longer
 * search says whether the bound can be reached. */
#include "alloc/placement/placement.h"
#include "tools/bench/bench.h"
#include "tools/job/job.h"

static struct {
    int64_t runs, batch;
    bool prove;
    int64_t largest, nodes; /* of --prove: batches 1 to largest; nodes of the longer search */
} o;

static sw_run_args args_of(tool_net *net, sw_array inputs[2], int64_t batch)
{
    inputs[0] = (sw_array){SW_U8, SW_SHAPE(batch, 1, TOOL_LENET5_SIDE, TOOL_LENET5_SIDE), NULL};
    inputs[1] = (sw_array){SW_U8, SW_SHAPE(batch), NULL};
    return (sw_run_args)SW_INIT(.size = sizeof(sw_run_args), .fn = tool_net_step, .user = net,
                                .models = &net->model, .n_models = 1, .inputs = inputs,
                                .n_inputs = 2, .mode = SW_TRAIN);
}

/* ---- its time ---------------------------------------------------------------------------- */

/* A fresh exec and model: nothing is remembered. */
static sw_status time_plan(const bench *b, cli_times *times)
{
    const sw_exec_opts exec_opts = {.size = sizeof exec_opts, .threads = (int)b->threads};
    tool_net_opts net_opts;
    sw_exec *exec = NULL;
    tool_net net = {0};
    sw_plan_info info = {.size = sizeof info};
    SW_TRY(tool_net_digits(&net_opts, "lenet5"));
    sw_status status = sw_exec_create(&exec, &exec_opts);
    if (status == SW_OK)
        status = tool_net_create(&net, &net_opts);
    if (status == SW_OK) {
        sw_array inputs[2];
        const sw_run_args args = args_of(&net, inputs, o.batch);
        const uint64_t start = cli_clock_ns();
        status = sw_plan(exec, &args, &info);
        cli_times_add(times, cli_clock_ns() - start);
        tool_net_destroy(&net);
    }
    sw_exec_destroy(exec);
    return status;
}

/* clang-format off */
#define TIME_ROW(X, t) \
    X(t, WORD, model, "", 8) \
    X(t, COUNT, batch, "batch", 0) \
    X(t, SPREAD, plan, "", 0)
/* clang-format on */

static sw_status time_plans(bench *b)
{
    BENCH_ROW(row, fields, TIME_ROW);
    cli_times times = {0};
    sw_status status = cli_times_init(&times, (uint64_t)o.runs);
    for (int64_t i = 0; i < o.runs && status == SW_OK && !cli_interrupted(); i++)
        status = time_plan(b, &times);
    const row r = {"lenet5", o.batch, cli_times_summary(&times)};
    if (status == SW_OK)
        bench_rows(b, "rows", fields, &r, 1);
    cli_times_free(&times);
    return status;
}

/* ---- lower bounds ------------------------------------------------------------------------ */

#define BUFFERS_MAX 4096

/* As `stepwell train` names them. */
static const char *const models[] = {"mlp", "lenet5"};
static const char *const optimizers[] = {"sgd", "momentum", "nesterov", "adam", "adamw"};
enum { N_MODELS = 2, N_OPTIMIZERS = 5, N_KINDS = N_MODELS * N_OPTIMIZERS * 2 };

/* The programs of one kind, or of all. */
/* clang-format off */
#define KIND_ROW(X, t) \
    X(t, WORD, model, "model", 7) \
    X(t, WORD, optimizer, "optimizer", 9) \
    X(t, FLAG, release, "release", 7) \
    X(t, COUNT, programs, "programs", 8) \
    X(t, COUNT, reached, "reached", 8) /* the plan is at its lower bound */ \
    X(t, COUNT, reached_by_longer_search, "longer", 7) /* above; a longer search comes to the bound */ \
    X(t, COUNT, proved_unreachable, "never", 7) /* above; no placement is at the bound, proved */ \
    X(t, COUNT, open, "open", 5) /* above; neither */ \
    X(t, REAL, above_percent, "above %", 0) /* how far a plan is above its bound at most */ \
    X(t, REAL, gap_left_percent, "left %", 0) /* the same between the lowest known height and what is proved */
/* clang-format on */
BENCH_ROW(row, fields, KIND_ROW);

typedef struct {
    sw_placement_item items[BUFFERS_MAX];
    size_t n, height; /* of the plan that was visited last */
} proof;

static void take_storage(void *to, const sw_plan_storage *s)
{
    proof *p = to;
    const size_t bytes = s->bytes + s->padding;
    if (s->input || s->alias != UINT32_MAX || bytes == 0)
        return;
    if (s->offset + bytes > p->height)
        p->height = s->offset + bytes;
    if (p->n < BUFFERS_MAX)
        p->items[p->n] =
            (sw_placement_item){.lower = s->birth, .upper = s->death + 1, .bytes = bytes};
    p->n++;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void add(row *to, const row *one)
{
    to->programs += one->programs;
    to->reached += one->reached;
    to->reached_by_longer_search += one->reached_by_longer_search;
    to->proved_unreachable += one->proved_unreachable;
    to->open += one->open;
    to->above_percent = larger(to->above_percent, one->above_percent);
    to->gap_left_percent = larger(to->gap_left_percent, one->gap_left_percent);
}

/* The program that was visited last. */
static sw_status judge(proof *p, row *to)
{
    sw_placement_result r;
    const sw_placement_opts plan = {0}, longer = {.nodes = (uint64_t)o.nodes};
    if (p->n > BUFFERS_MAX)
        SW_FAIL(SW_UNSUPPORTED, "a program must have at most %d buffers (got %zu)", BUFFERS_MAX,
                p->n);
    SW_TRY(sw_placement_solve(p->items, p->n, &plan, &r));
    const double bound = (double)r.lower_bound;
    row one = {.programs = 1, .above_percent = bench_percent((double)p->height - bound, bound)};
    if (p->height > r.lower_bound)
        SW_TRY(sw_placement_solve(p->items, p->n, &longer, &r));
    const size_t lowest = p->height < r.height ? p->height : r.height;
    one.gap_left_percent = bench_percent((double)(lowest - r.proved), bound);
    if (p->height == r.lower_bound)
        one.reached = 1;
    else if (r.height == r.lower_bound)
        one.reached_by_longer_search = 1;
    else if (r.proved > r.lower_bound)
        one.proved_unreachable = 1;
    else
        one.open = 1;
    add(to, &one);
    return SW_OK;
}

static sw_status prove(bench *b)
{
    static proof p;
    static const bench_field facts[] = {
        {"largest_batch", BENCH_COUNT, 0, "batches 1 to", 0},
        {"nodes", BENCH_COUNT, sizeof(int64_t), "nodes of the longer search", 0}};
    const int64_t of_all[] = {o.largest, o.nodes};
    row kinds[N_KINDS] = {{0}}, all = {0};
    bench_facts(b, facts, of_all);
    bench_note(b, "reached: by the plan; longer: by the longer search; never: proved that "
                  "nothing is at the bound;\n"
                  "open: neither. above %%: of plans, at most; left %%: between the lowest "
                  "known and what is proved.\n\n");
    for (int i = 0; i < N_KINDS && !cli_interrupted(); i++) {
        kinds[i] = (row){.model = models[i / (2 * N_OPTIMIZERS)],
                         .optimizer = optimizers[i / 2 % N_OPTIMIZERS],
                         .release = i % 2 != 0};
        const sw_exec_opts exec_opts = {.size = sizeof exec_opts, .threads = (int)b->threads};
        const sw_plan_visitor visitor = {
            .size = sizeof visitor, .to = &p, .storage = take_storage};
        tool_net_opts net_opts;
        sw_exec *exec = NULL;
        tool_net net = {0};
        SW_TRY(tool_net_digits(&net_opts, kinds[i].model));
        tool_optimizer_set(&net_opts.optimizer, kinds[i].optimizer, 0.9);
        net_opts.optimizer.release = kinds[i].release;
        SW_TRY(sw_exec_create(&exec, &exec_opts));
        sw_status status = tool_net_create(&net, &net_opts);
        for (int64_t batch = 1; status == SW_OK && batch <= o.largest && !cli_interrupted();
             batch++) {
            sw_array inputs[2];
            const sw_run_args args = args_of(&net, inputs, batch);
            p.n = p.height = 0;
            status = sw_plan_visit(exec, &args, &visitor);
            if (status == SW_OK)
                status = judge(&p, &kinds[i]);
        }
        tool_net_destroy(&net);
        sw_exec_destroy(exec);
        SW_TRY(status);
        add(&all, &kinds[i]);
        bench_rows(b, "kinds", fields, &kinds[i], 1);
    }
    all.model = "all";
    bench_rows(b, "kinds", fields, &all, 1);
    return SW_OK;
}

/* ---- the command ------------------------------------------------------------------------- */

static sw_status measure(bench *b)
{
    return o.prove ? prove(b) : time_plans(b);
}

static int check(bench *b)
{
    (void)b;
    if (!o.prove && (o.largest > 0 || o.nodes > 0))
        return cli_error(CLI_USAGE, "--largest and --nodes are for --prove");
    o.largest = o.largest > 0 ? o.largest : 1024;
    o.nodes = o.nodes > 0 ? o.nodes : 1000000;
    return CLI_GO;
}

static const cli_option options[] = {
    BENCH_NUMBER("--steps", &o.runs, "100", "times", 1, 1 << 20),
    BENCH_NUMBER("--batch", &o.batch, "128", "images per step", 1, 1 << 16),
    BENCH_SWITCH(
        "--prove", &o.prove,
        "no times: for every training program, whether its arena is at the lower bound"),
    BENCH_NUMBER("--largest", &o.largest, NULL,
                 "with --prove: batches from 1 to this (default 1024)", 1, 1 << 16),
    BENCH_NUMBER("--nodes", &o.nodes, NULL,
                 "with --prove: of the longer search where a plan is above (default 1000000)",
                 1, 0),
};

const bench_command bench_plan = SW_INIT(
        .name = "plan", .line = "tracing and planning LeNet5; arenas beside their lower bounds",
        .about =
            "Trace and plan a training step of LeNet5, from nothing each time; or prove how "
            "low the arenas of all training programs are.",
        BENCH_OPTIONS(options), .check = check, .run = measure,
        .notes = "bench plan --budget [options] is bench budget.");
