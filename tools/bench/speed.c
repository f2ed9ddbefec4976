/* bench speed: how long whole steps take, beside controls of the same length or, by lines on
 * standard input, in turns with other programs (tests/torch/speed.py). */
#include "tools/bench/speed.h"
#include "alloc/base/mem.h"
#include "kernels/dispatch.h"
#include "runtime/exec/exec.h"
#include <string.h>

/* ---- controls ---------------------------------------------------------------------------- */

/* Work of a known kind that takes as long as a step, on the threads of its exec: others would
 * have to wake, and so would these at the next step. */
typedef struct {
    const sw_par *par;
    uint64_t turns; /* of arithmetic, on each thread */
    void *block;
    size_t block_bytes;
    float *x; /* `share` numbers of each thread, whole cache lines */
    size_t bytes;
    int64_t share, lines; /* lines: that each thread reads and writes */
    int64_t at;           /* line of each share that comes next */
} controls;

static volatile uint64_t sink; /* written by all threads, never read */

/* Each thread has a chain of its own, which no compiler can shorten. */
static void chain(void *arg, int part)
{
    const uint64_t turns = ((const controls *)arg)->turns;
    uint64_t x = (uint64_t)part;
    for (uint64_t i = 0; i < turns; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

enum { LINE = 16 }; /* numbers of a cache line */

/* Line after line of a share, round and round; x = x a + b stays near b / (1 - a). */
static void walk(void *arg, int part)
{
    typedef float line __attribute__((vector_size(64)));
    const controls *c = arg;
    line *x = (line *)(void *)(c->x + part * c->share);
    const int64_t all = c->share / LINE;
    int64_t at = c->at;
    for (int64_t left = c->lines; left > 0;) {
        const int64_t n = all - at < left ? all - at : left;
        for (int64_t i = at; i < at + n; i++)
            x[i] = x[i] * 0.5f + 1.0f;
        left -= n;
        at = at + n < all ? at + n : 0;
    }
}

static uint64_t time_control(controls *c, void (*body)(void *arg, int part))
{
    const uint64_t start = cli_clock_ns();
    c->par->run(c->par, body, c, c->par->n_threads);
    const uint64_t ns = cli_clock_ns() - start;
    if (body == walk)
        c->at = (c->at + c->lines) % (c->share / LINE);
    return ns;
}

static uint64_t least_of(controls *c, void (*body)(void *arg, int part))
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        const uint64_t ns = time_control(c, body);
        least = ns < least ? ns : least;
    }
    return least > 0 ? least : 1;
}

/* Both of about `ns`; the second over `bytes`. */
static sw_status make_controls(controls *c, const sw_par *par, size_t bytes, uint64_t ns)
{
    enum { TURNS = 1000000 };
    const size_t threads = (size_t)par->n_threads, unit = threads * LINE * sizeof(float);
    *c = (controls){.par = par, .turns = TURNS};
    const double of_turns = (double)least_of(c, chain);
    c->turns = (uint64_t)(TURNS * (double)ns / of_turns) + 1;
    c->bytes = (bytes + unit - 1) / unit * unit;
    c->block_bytes = c->bytes + SW_ALIGN;
    SW_TRY(sw_heap_alloc(&c->block, SW_HEAP_DATASETS, c->block_bytes));
    c->x = (float *)(((uintptr_t)c->block + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN);
    c->share = (int64_t)(c->bytes / sizeof(float) / threads);
    for (int64_t i = 0; i < c->share * (int64_t)threads; i++) /* pages of zeros may be one */
        c->x[i] = (float)(i % LINE);
    c->lines = c->share / LINE; /* all of it once; of what fits into a cache more often */
    while (least_of(c, walk) < ns / 4)
        c->lines *= 2;
    c->lines = (int64_t)((double)c->lines * (double)ns / (double)least_of(c, walk)) + 1;
    return SW_OK;
}

/* ---- steps ------------------------------------------------------------------------------- */

enum { STEP, CONTROL, MEMORY, KINDS };

typedef struct {
    const speed_opts *opts;
    bench_subject *subject;
    cli_times times[KINDS];
    controls of;
    uint64_t first_ns, second_ns; /* making it, to the end of the first two steps; a step */
} run;

static sw_status time_step(run *r, cli_times *to)
{
    const uint64_t start = cli_clock_ns();
    SW_TRY(bench_subject_step(r->subject));
    cli_times_add(to, cli_clock_ns() - start);
    return SW_OK;
}

/* As long as the median of some steps, and over the bytes of one. */
static sw_status ready_controls(run *r)
{
    enum { STEPS = 15 };
    cli_times steps;
    size_t bytes;
    sw_status status = SW_OK;
    SW_TRY(bench_subject_bytes(r->subject, &bytes));
    SW_TRY(cli_times_init(&steps, STEPS));
    for (int i = 0; i < STEPS && status == SW_OK; i++)
        status = time_step(r, &steps);
    const uint64_t ns = cli_times_summary(&steps).median;
    cli_times_free(&steps);
    SW_TRY(status);
    return make_controls(&r->of, swi_pool_par(r->subject->exec->pool), bytes, ns);
}

/* Arithmetic comes after each step. Reads and writes come as often as steps since the last
 * ones, after each other, so that caches have what they have after a step; one that is not
 * timed then takes it back. */
static sw_status time_steps(run *r)
{
    enum { TURN = 16 };
    const int64_t steps = r->opts->steps;
    for (int i = 0; i < KINDS; i++)
        SW_TRY(cli_times_init(&r->times[i], (uint64_t)steps));
    if (r->opts->control)
        SW_TRY(ready_controls(r));
    for (int64_t i = 0; i < steps && !cli_interrupted(); i++) {
        SW_TRY(time_step(r, &r->times[STEP]));
        if (!r->opts->control)
            continue;
        cli_times_add(&r->times[CONTROL], time_control(&r->of, chain));
        if (i % TURN != TURN - 1 && i != steps - 1)
            continue;
        for (int64_t k = 0; k <= i % TURN; k++)
            cli_times_add(&r->times[MEMORY], time_control(&r->of, walk));
        SW_TRY(bench_subject_step(r->subject));
    }
    return SW_OK;
}

/* clang-format off */
#define STEP_FACTS(X, t) \
    X(t, WORD, model, "", 0) \
    X(t, WORD, about, "", 0) \
    X(t, COUNT, batch, "batch", 0) \
    X(t, COUNT, width, "features", 0) \
    X(t, WORD, isa, "", 0) \
    X(t, BYTES, memory_control_bytes, "memory control over", 0) \
    X(t, NS, epoch_min_ns, "an epoch of each", 0) \
    X(t, NS, epoch_median_ns, "by the median", 0)
/* clang-format on */

/* clang-format off */
#define STEP_ROW(X, t) \
    X(t, WORD, name, "", 14) \
    X(t, SPREAD, times, "", 0) \
    X(t, REAL, p99_over_median, "p99/median", 12)
/* clang-format on */

static void report(bench *b, run *r)
{
    BENCH_ROW(row, fields, STEP_ROW);
    BENCH_ROW(facts, of_facts, STEP_FACTS);
    const bench_case *of = &r->subject->of;
    row rows[] = {{.name = "step"},
                  {.name = "control"},
                  {.name = "memory control"},
                  {.name = "step/control"},
                  {.name = "step/memory"}};
    for (int i = 0; i < KINDS; i++) {
        rows[i].times = cli_times_summary(&r->times[i]);
        rows[i].p99_over_median =
            bench_ratio((double)rows[i].times.p99, (double)rows[i].times.median);
    }
    for (int i = 1; i < KINDS; i++)
        rows[KINDS - 1 + i].p99_over_median =
            rows[STEP].p99_over_median / rows[i].p99_over_median;
    const double epoch =
        of->epoch > 0 ? (double)of->epoch / (double)(of->slice * of->slices) : 0.0;
    const facts f = {
        .model = of->name,
        .about = of->about,
        .isa = sw_isa_name(r->subject->exec->target.isa),
        .batch = r->subject->batch,
        .width = r->opts->width > 0 ? r->opts->width : BENCH_NONE,
        .memory_control_bytes = r->opts->control ? (int64_t)r->of.bytes : BENCH_NONE,
        .epoch_min_ns =
            epoch > 0 ? (int64_t)(epoch * (double)rows[STEP].times.min) : BENCH_NONE,
        .epoch_median_ns =
            epoch > 0 ? (int64_t)(epoch * (double)rows[STEP].times.median) : BENCH_NONE};
#define FACT(kind, key, head) {#key, BENCH_##kind, offsetof(facts, key), head, 0}
    bench_facts(b, of_facts, &f);
    bench_rows(b, "rows", fields, rows, r->opts->control ? 5 : 1);
}

/* ---- turns ------------------------------------------------------------------------------- */

/* --turns: say {"first_ns", "second_ns"}, then answer lines of NAME WARM COUNT on standard
 * input until it ends: WARM steps untimed, then COUNT, {"ns": [...]}. */
static sw_status answer_turns(bench *b, run *r)
{
    char line[64], name[16];
    sw_json json;
    result_json_begin(&json);
    sw_json_put_u64(&json, "first_ns", r->first_ns);
    sw_json_put_u64(&json, "second_ns", r->second_ns);
    b->code = result_json_end(&json, CLI_DONE);
    cli_flush();
    while (b->code == CLI_DONE && !cli_interrupted() &&
           fgets(line, sizeof line, stdin) != NULL) {
        int warm, count;
        if (sscanf(line, "%15s %d %d", name, &warm, &count) != 3 || warm < 0 || count < 1 ||
            strcmp(name, "step") != 0) {
            b->code =
                cli_error(CLI_USAGE, "--turns: a line must be step WARM COUNT (got %s)", line);
            break;
        }
        cli_times times;
        sw_status status = cli_times_init(&times, (uint64_t)count);
        for (int i = -warm; status == SW_OK && i < count; i++)
            status = i < 0 ? bench_subject_step(r->subject) : time_step(r, &times);
        result_json_begin(&json);
        sw_json_open(&json, "ns", '[');
        for (int i = 0; status == SW_OK && i < count; i++)
            sw_json_u64(&json, times.ns[i]);
        sw_json_end(&json);
        cli_times_free(&times);
        if (status != SW_OK) {
            sw_json_free(&json);
            return status;
        }
        b->code = result_json_end(&json, CLI_DONE);
        cli_flush();
    }
    return SW_OK;
}

/* ---- the command ------------------------------------------------------------------------- */

static speed_opts o;

static sw_status measure(bench *b)
{
    bench_subject subject = {0};
    run r = {.opts = &o, .subject = &subject};
    const sw_exec_opts exec = {
        .size = sizeof exec, .threads = (int)b->threads, .isa = o.isa, .op_clocks = o.ops};
    if (o.ops)
        return speed_ops(b, &o, &exec);
    const uint64_t start = cli_clock_ns();
    sw_status status = bench_subject_make(&subject, &o.of, o.batch, &exec);
    const uint64_t between = cli_clock_ns();
    if (status == SW_OK)
        status = bench_subject_step(&subject);
    r.first_ns = between - start;
    r.second_ns = cli_clock_ns() - between;
    if (status == SW_OK)
        status = o.turns ? answer_turns(b, &r) : time_steps(&r);
    if (status == SW_OK && !o.turns)
        report(b, &r);
    sw_heap_free(r.of.block, SW_HEAP_DATASETS, r.of.block_bytes);
    bench_subject_destroy(&subject);
    for (int i = 0; i < KINDS; i++)
        cli_times_free(&r.times[i]);
    return status;
}

/* The case's numbers where none are given. */
static int check(bench *b)
{
    if (o.ops && (o.turns || o.control))
        return cli_error(CLI_USAGE, "--ops goes with neither --turns nor --control");
    if (o.ops && strcmp(o.model, "es") == 0)
        return cli_error(CLI_USAGE, "--ops is for models that are trained (got es)");
    if (o.width > 0 && strcmp(o.model, "swishnet") != 0)
        return cli_error(CLI_USAGE, "--width is for --model swishnet (got %s)", o.model);
    if (o.blas != NULL && !o.ops)
        return cli_error(CLI_USAGE, "--library is for --ops");
    o.of = *bench_case_find(BENCH_OF_SPEED, o.model);
    o.of.width = o.width > 0 ? o.width : o.of.width;
    o.batch = o.batch > 0 ? o.batch : o.of.batch;
    o.steps = o.steps > 0 ? o.steps : o.of.steps;
    b->json = b->json && !o.turns; /* whose lines are JSON */
    return CLI_GO;
}

static const char *const models[] = {"lenet5", "mlp200", "lenet5x5", "swishnet",
                                     "gpt",    "mbconv", "es",       NULL},
                         *const isas[] = {"base", "avx2", "avx512", NULL};
static const cli_option options[] = {
    BENCH_NAME("--model", &o.model, "lenet5", "the workload", models),
    BENCH_NUMBER("--steps", &o.steps, NULL,
                 "steps (lenet5: 500, mlp200: 200, swishnet: 15, others: 30)", 1, 1 << 20),
    BENCH_NUMBER("--batch", &o.batch, NULL,
                 "rows of a step (gpt: 8, mbconv: 32, es: 1024, others: 128)", 1, 1 << 16),
    BENCH_NUMBER("--width", &o.width, NULL, "features of a layer (swishnet: 4096)", 1, 1 << 14),
    BENCH_NAME("--isa", &o.isa, NULL, "instruction set (the best there is)", isas),
    BENCH_SWITCH("--control", &o.control,
                 "beside the steps, arithmetic, and reads and writes, of the same length"),
    BENCH_SWITCH(
        "--ops", &o.ops,
        "instead: each kind of op beside the machine's peaks, the most time lost first"),
    BENCH_NUMBER("--top", &o.top, "30", "with --ops: so many rows of text, then the rest", 1,
                 1 << 16),
    {"--library", "FILE", CLI_WORD, &o.blas, NULL,
     "with --ops: a shared object with cblas_sgemm; what the step's products take there", 0, 0,
     NULL},
    BENCH_SWITCH("--turns", &o.turns, "answer lines of step WARM COUNT on standard input"),
};

const bench_command bench_speed = {
    .name = "speed",
    .line = "whole steps of workloads; their ops beside the machine's peaks",
    .about = "Whole training steps of a workload; or where their time goes.",
    BENCH_OPTIONS(options),
    .check = check,
    .run = measure,
    .notes = "lenet5: Adam, with its loader. mlp200: 200 perceptrons 49-64-24-10 as members, "
             "Adam. lenet5x5: 5 LeNet5 as "
             "members side by side, 14 batches of each in a step, own orders. swishnet: 8 "
             "linear layers of 4096, SGD. gpt: "
             "4 layers of 256, context 128, vocabulary 8192, AdamW. mbconv: images of 64 x 64, "
             "Adam. es: a generation of "
             "LeNet5, an image for each evaluation, low-rank noise in pairs.\n"
             "--ops: the peaks are measured in the same run. An op's bound is the larger of "
             "its operations by the peak and "
             "its operands' bytes by the bandwidth (two reads and a write); what it takes "
             "beyond is lost. Less than 0: "
             "operands came from caches. Of members the ops are those of one, on one thread.\n"
             "--control: after each step each thread computes on registers for as long. After "
             "every 16 steps come 16 times "
             "reads and writes, as long and over as many bytes as the step's model, arena and "
             "batch have, an equal share of "
             "each thread. All that slows memory on a shared machine slows these as well: "
             "above their p99/median, a step "
             "has a tail of its own.\n"
             "tests/torch/speed.py takes turns with PyTorch and JAX."};
