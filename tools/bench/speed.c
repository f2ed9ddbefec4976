/* bench speed: how long whole steps take, beside arithmetic of the same length or, by lines on
 * standard input, in turns with other programs (tests/torch/speed.py). */
#include "tools/bench/speed.h"
#include "kernels/dispatch.h"
#include "runtime/exec/exec.h"
#include <string.h>

typedef struct {
    const speed_opts *opts;
    speed_subject *subject;
    cli_times steps, controls, memory_controls;
    speed_controls of;
    uint64_t first_ns, second_ns; /* making it, to the end of the first two steps; a step */
} bench;

/* ---- steps ------------------------------------------------------------------------------- */

/* The median of some, which the controls are to last. */
static sw_status median_step(const bench *b, uint64_t *out)
{
    enum { STEPS = 15 };
    cli_times steps;
    sw_status status = SW_OK;
    SW_TRY(cli_times_init(&steps, STEPS));
    for (int i = 0; i < STEPS && status == SW_OK; i++) {
        const uint64_t start = cli_clock_ns();
        status = speed_step(b->subject);
        cli_times_add(&steps, cli_clock_ns() - start);
    }
    *out = cli_times_summary(&steps).median;
    cli_times_free(&steps);
    return status;
}

static sw_status ready_controls(bench *b)
{
    uint64_t ns;
    size_t bytes;
    SW_TRY(median_step(b, &ns));
    SW_TRY(speed_bytes(b->subject, &bytes));
    return speed_controls_make(&b->of, swi_pool_par(b->subject->exec->pool), bytes, ns);
}

/* As many reads and writes as there were steps since the last ones: after each other, so that
 * caches have what they have after a step. A step that is not timed then takes it back. */
static sw_status memory_controls(bench *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        cli_times_add(&b->memory_controls, speed_control_memory(&b->of));
    return speed_step(b->subject);
}

static sw_status time_steps(bench *b)
{
    enum { TURN = 16 };
    const int64_t steps = b->opts->steps;
    SW_TRY(cli_times_init(&b->steps, (uint64_t)steps));
    SW_TRY(cli_times_init(&b->controls, (uint64_t)steps));
    SW_TRY(cli_times_init(&b->memory_controls, (uint64_t)steps));
    if (b->opts->control)
        SW_TRY(ready_controls(b));
    for (int64_t i = 0; i < steps && !cli_interrupted(); i++) {
        const uint64_t start = cli_clock_ns();
        SW_TRY(speed_step(b->subject));
        cli_times_add(&b->steps, cli_clock_ns() - start);
        if (!b->opts->control)
            continue;
        cli_times_add(&b->controls, speed_control_arithmetic(&b->of));
        if (i % TURN == TURN - 1 || i == steps - 1)
            SW_TRY(memory_controls(b, i % TURN + 1));
    }
    return SW_OK;
}

static double ratio(uint64_t a, uint64_t b)
{
    return b > 0 ? (double)a / (double)b : 0.0;
}

/* Of a step's time: that of as many steps as an epoch has. */
static uint64_t epoch_ns(const speed_case *c, uint64_t ns)
{
    return (uint64_t)((double)ns * (double)c->epoch / (double)c->runs);
}

static int put(bench *b, const cli_summary *s, const cli_summary *c, const cli_summary *m,
               int status)
{
    const speed_case *of = b->subject->of;
    sw_json json;
    result_json_begin(&json);
    sw_json_put_string(&json, "model", of->name);
    sw_json_put_i64(&json, "batch", b->subject->batch);
    if (b->opts->width > 0)
        sw_json_put_i64(&json, "width", b->opts->width);
    sw_json_put_i64(&json, "threads", b->opts->threads);
    sw_json_put_string(&json, "isa", sw_isa_name(b->subject->exec->target.isa));
    bench_put(&json, "step", s);
    sw_json_put_f64(&json, "step_p99_over_median", ratio(s->p99, s->median));
    if (of->epoch > 0) {
        sw_json_put_u64(&json, "epoch_min_ns", epoch_ns(of, s->min));
        sw_json_put_u64(&json, "epoch_median_ns", epoch_ns(of, s->median));
    }
    if (b->opts->control) {
        bench_put(&json, "control", c);
        sw_json_put_f64(&json, "control_p99_over_median", ratio(c->p99, c->median));
        bench_put(&json, "memory_control", m);
        sw_json_put_f64(&json, "memory_control_p99_over_median", ratio(m->p99, m->median));
        sw_json_put_u64(&json, "memory_control_bytes", b->of.bytes);
    }
    return result_json_end(&json, status);
}

static void print(const char *name, const cli_summary *s)
{
    printf("%-14s %12s %12s %12s %12s %12.3f\n", name, cli_ns(s->min).text,
           cli_ns(s->median).text, cli_ns(s->p99).text, cli_ns(s->max).text,
           ratio(s->p99, s->median));
}

static void print_over(const char *name, const cli_summary *s, const cli_summary *c)
{
    printf("%-14s %12s %12s %12s %12s %12.3f\n", name, "", "", "", "",
           ratio(s->p99, s->median) / ratio(c->p99, c->median));
}

static void print_times(const bench *b, const cli_summary *s, const cli_summary *c,
                        const cli_summary *m)
{
    printf("%-14s %12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max", "p99/median");
    print("step", s);
    if (!b->opts->control)
        return;
    print("control", c);
    print("memory control", m);
    print_over("step/control", s, c);
    print_over("step/memory", s, m);
    printf("the memory control goes over %s bytes, as many as model and arena have\n",
           cli_digits(b->of.bytes).text);
}

/* Where another one was asked for than the workload has. */
static const char *width_text(const speed_opts *o)
{
    static char text[40];
    snprintf(text, sizeof text, ", but of %lld features", (long long)o->width);
    return o->width > 0 ? text : "";
}

static int report(bench *b)
{
    const speed_case *of = b->subject->of;
    const cli_summary s = cli_times_summary(&b->steps), c = cli_times_summary(&b->controls),
                      m = cli_times_summary(&b->memory_controls);
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (b->opts->json)
        return put(b, &s, &c, &m, status);
    if (!b->opts->quiet)
        printf("%s: %s%s; batch %lld, %lld thread%s, %s, %s steps\n\n", of->name, of->about,
               width_text(b->opts), (long long)b->subject->batch, (long long)b->opts->threads,
               b->opts->threads == 1 ? "" : "s", sw_isa_name(b->subject->exec->target.isa),
               cli_digits(s.n).text);
    print_times(b, &s, &c, &m);
    if (of->epoch > 0)
        printf("\nan epoch of %lld batches of each: %s, %s by the median\n",
               (long long)of->epoch, cli_ns(epoch_ns(of, s.min)).text,
               cli_ns(epoch_ns(of, s.median)).text);
    return cli_finish(status);
}

/* ---- the command ------------------------------------------------------------------------- */

static sw_status step(void *context, int i)
{
    (void)i;
    return speed_step(((bench *)context)->subject);
}

static sw_status make(bench *b, const speed_case *of, const sw_exec_opts *exec)
{
    const uint64_t start = cli_clock_ns();
    SW_TRY(speed_make(b->subject, of, b->opts, false, exec));
    const uint64_t between = cli_clock_ns();
    SW_TRY(speed_step(b->subject));
    b->first_ns = between - start;
    b->second_ns = cli_clock_ns() - between;
    return b->opts->turns ? SW_OK : time_steps(b);
}

static int run(const speed_opts *o, const speed_case *of)
{
    speed_subject subject = {0};
    bench b = {.opts = o, .subject = &subject};
    const sw_exec_opts exec = {
        .size = sizeof exec, .threads = (int)o->threads, .isa = o->isa, .op_clocks = o->ops};
    cli_catch_interrupt();
    if (o->ops)
        return speed_roofline(o, of, &exec);
    const sw_status status = make(&b, of, &exec);
    const bench_answers answers = {
        (const char *[]){"step"}, 1, step, &b, b.first_ns, b.second_ns};
    const int code = status != SW_OK ? cli_library_error(status, false)
                     : o->turns      ? bench_answer_turns(&answers)
                                     : report(&b);
    speed_controls_free(&b.of);
    speed_destroy(&subject);
    cli_times_free(&b.memory_controls);
    cli_times_free(&b.controls);
    cli_times_free(&b.steps);
    return code;
}

enum { MOST_CASES = 16 };

static const char *const *words(void)
{
    static const char *names[MOST_CASES + 1];
    for (int i = 0; i < MOST_CASES && speed_case_at(i) != NULL; i++)
        names[i] = speed_case_at(i)->name;
    return names;
}

/* Checks that options fit together; the case's numbers where none are given. */
static int complete(speed_opts *o, const speed_case **of)
{
    for (int i = 0; speed_case_at(i) != NULL; i++)
        if (strcmp(o->model, speed_case_at(i)->name) == 0)
            *of = speed_case_at(i);
    if (o->ops && (o->turns || o->control))
        return cli_error(CLI_USAGE, "--ops goes with neither --turns nor --control");
    if (o->width > 0 && strcmp(o->model, "swishnet") != 0)
        return cli_error(CLI_USAGE, "--width is for --model swishnet (got %s)", o->model);
    if (o->blas != NULL && !o->ops)
        return cli_error(CLI_USAGE, "--library is for --ops");
    o->batch = o->batch > 0 ? o->batch : (*of)->batch;
    o->steps = o->steps > 0 ? o->steps : (*of)->steps;
    return CLI_GO;
}

int bench_speed(int argc, char **argv)
{
    static const char *const isas[] = {"base", "avx2", "avx512", NULL};
    speed_opts o = {0};
    const speed_case *of = NULL;
    const cli_option options[] = {
        {"--model", "NAME", CLI_WORD, &o.model, "lenet5", "the workload", 0, 0, words()},
        {"--steps", "N", CLI_COUNT, &o.steps, NULL,
         "steps (lenet5: 500, mlp200: 200, swishnet: 15, others: 30)", 1, 1 << 20, NULL},
        {"--batch", "N", CLI_COUNT, &o.batch, NULL,
         "rows of a step (gpt: 8, mbconv: 32, others: 128)", 1, 1 << 16, NULL},
        {"--width", "N", CLI_COUNT, &o.width, NULL, "features of a layer (swishnet: 4096)", 1,
         1 << 14, NULL},
        {"--threads", "N", CLI_COUNT, &o.threads, "2", "threads that compute", 1, 256, NULL},
        {"--isa", "NAME", CLI_WORD, &o.isa, NULL, "instruction set (the best there is)", 0, 0,
         isas},
        {"--control", NULL, CLI_FLAG, &o.control, NULL,
         "beside the steps, arithmetic, and reads and writes, of the same length", 0, 0, NULL},
        {"--ops", NULL, CLI_FLAG, &o.ops, NULL,
         "instead: each kind of op beside the machine's peaks, the most time lost first", 0, 0,
         NULL},
        {"--top", "N", CLI_COUNT, &o.top, "30", "with --ops: so many rows, then the rest", 1,
         1 << 16, NULL},
        {"--library", "FILE", CLI_WORD, &o.blas, NULL,
         "with --ops: a shared object with cblas_sgemm; what the step's products take there", 0,
         0, NULL},
        {"--turns", NULL, CLI_FLAG, &o.turns, NULL,
         "answer lines of step WARM COUNT on standard input", 0, 0, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "no heading", 0, 0, NULL},
    };
    const cli_command command = {
        .name = "bench speed",
        .usage = "[options]",
        .about = "Whole training steps of a workload; or where their time goes.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options),
        .notes =
            "lenet5: Adam, with its loader. mlp200: 200 perceptrons 49-64-24-10 as members, "
            "Adam. lenet5x5: 5 LeNet5 as members side by side, 14 batches of each in a step, "
            "own orders. swishnet: 8 linear layers of 4096, SGD. gpt: 4 layers of 256, context "
            "128, vocabulary 8192, AdamW. mbconv: images of 64 x 64, Adam.\n"
            "--ops: the peaks are measured in the same run. An op's bound is the larger of its "
            "operations by the peak and its operands' bytes by the bandwidth (two reads and a "
            "write); what it takes beyond is lost. Less than 0: operands came from caches. Of "
            "members the ops are those of one, on one thread.\n"
            "--control: after each step each thread computes on registers for as long. After "
            "every 16 steps come 16 times reads and writes, as long and over as many bytes as "
            "the step's model, arena and batch have, an equal share of each thread. All that "
            "slows memory on a shared machine slows these as well: above their p99/median, a "
            "step "
            "has a tail of its own.\n"
            "tests/torch/speed.py takes turns with PyTorch and JAX."};
    int status = cli_parse(&command, argc, argv);
    if (status == CLI_GO)
        status = complete(&o, &of);
    return status == CLI_GO ? run(&o, of) : status;
}
