/* bench speed: how long whole steps take, beside arithmetic of the same length or, by lines on
 * standard input, in turns with other programs (tests/torch/speed.py). */
#include "tools/bench/speed.h"
#include "kernels/dispatch.h"
#include "runtime/exec/exec.h"
#include <string.h>

typedef struct {
    const speed_opts *opts;
    speed_subject *subject;
    cli_times steps, controls;
    uint64_t turns;
    uint64_t first_ns, second_ns; /* making it, to the end of the first two steps; a step */
} bench;

/* ---- the control ------------------------------------------------------------------------- */

static volatile uint64_t sink; /* written by all threads, never read */

/* Each thread has a chain of its own, which no compiler can shorten. */
static void chain(void *arg, int part)
{
    const uint64_t turns = *(const uint64_t *)arg;
    uint64_t x = (uint64_t)part;
    for (uint64_t i = 0; i < turns; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

/* On the threads of the exec: others would have to wake, and so would these at the next step.
 */
static uint64_t control(const bench *b, uint64_t turns)
{
    const sw_par *par = swi_pool_par(b->subject->exec->pool);
    const uint64_t start = cli_clock_ns();
    par->run(par, chain, &turns, par->n_threads);
    return cli_clock_ns() - start;
}

static uint64_t least_of(const bench *b, uint64_t turns)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        const uint64_t ns = control(b, turns);
        least = ns < least ? ns : least;
    }
    return least;
}

/* Turns that take as long as a step. */
static sw_status calibrate(bench *b)
{
    enum { SOME = 1000000, STEPS = 15 };
    cli_times steps;
    sw_status status = SW_OK;
    SW_TRY(cli_times_init(&steps, STEPS));
    for (int i = 0; i < STEPS && status == SW_OK; i++) {
        const uint64_t start = cli_clock_ns();
        status = speed_step(b->subject);
        cli_times_add(&steps, cli_clock_ns() - start);
    }
    const double median = (double)cli_times_summary(&steps).median;
    b->turns = (uint64_t)((double)SOME * median / (double)least_of(b, SOME)) + 1;
    cli_times_free(&steps);
    return status;
}

/* ---- steps ------------------------------------------------------------------------------- */

static sw_status time_steps(bench *b)
{
    SW_TRY(cli_times_init(&b->steps, (uint64_t)b->opts->steps));
    SW_TRY(cli_times_init(&b->controls, (uint64_t)b->opts->steps));
    if (b->opts->control)
        SW_TRY(calibrate(b));
    for (int64_t i = 0; i < b->opts->steps && !cli_interrupted(); i++) {
        const uint64_t start = cli_clock_ns();
        SW_TRY(speed_step(b->subject));
        cli_times_add(&b->steps, cli_clock_ns() - start);
        if (b->opts->control)
            cli_times_add(&b->controls, control(b, b->turns));
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

static int put(bench *b, const cli_summary *s, const cli_summary *c, int status)
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
    }
    return result_json_end(&json, status);
}

static void print(const char *name, const cli_summary *s)
{
    printf("%-12s %12s %12s %12s %12s %12.3f\n", name, cli_ns(s->min).text,
           cli_ns(s->median).text, cli_ns(s->p99).text, cli_ns(s->max).text,
           ratio(s->p99, s->median));
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
    const cli_summary s = cli_times_summary(&b->steps), c = cli_times_summary(&b->controls);
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (b->opts->json)
        return put(b, &s, &c, status);
    if (!b->opts->quiet)
        printf("%s: %s%s; batch %lld, %lld thread%s, %s, %s steps\n\n", of->name, of->about,
               width_text(b->opts), (long long)b->subject->batch, (long long)b->opts->threads,
               b->opts->threads == 1 ? "" : "s", sw_isa_name(b->subject->exec->target.isa),
               cli_digits(s.n).text);
    printf("%-12s %12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max", "p99/median");
    print("step", &s);
    if (b->opts->control) {
        print("control", &c);
        printf("%-12s %12s %12s %12s %12s %12.3f\n", "step/control", "", "", "", "",
               ratio(s.p99, s.median) / ratio(c.p99, c.median));
    }
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
    speed_destroy(&subject);
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

/* What goes with what, and the case's numbers where none are given. */
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
         "behind each step, arithmetic of the same length on each thread", 0, 0, NULL},
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
            "tests/torch/speed.py takes turns with PyTorch and JAX."};
    int status = cli_parse(&command, argc, argv);
    if (status == CLI_GO)
        status = complete(&o, &of);
    return status == CLI_GO ? run(&o, of) : status;
}
