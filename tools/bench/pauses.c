/* bench pauses: is the slowest step about as slow as the median one?
 *
 * A machine has pauses of its own. So steps take turns with a control: arithmetic on as many
 * threads that takes as long as the median step, touches no memory and calls nothing. Pauses of
 * the control are the machine's; pauses that steps have beyond it would be ours.
 *
 * With one thread each step is followed by a control. Workers of two pools would disturb each
 * other, so with more some steps are followed by some controls, after a pause in which the
 * others' workers go to sleep; the first of each are not counted. */
#include "runtime/base/common.h"
#include "tools/bench/bench.h"
#include <string.h>
#include <time.h>

typedef struct {
    bench_common common;
    int64_t steps;
    const char *model;
} pauses_opts;

typedef struct {
    const pauses_opts *opts;
    bench_small small;
    bench_lenet lenet;
    sw_pool *pool; /* of the control */
    uint64_t turns;
} subject;

/* A chain that no compiler can shorten: each turn needs the one before. */
static uint64_t arithmetic(uint64_t x, uint64_t turns)
{
    for (uint64_t i = 0; i < turns; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

static volatile uint64_t sink[256];

static void control_part(void *arg, int part)
{
    sink[part] = arithmetic(sink[part], *(const uint64_t *)arg);
}

static sw_status control(subject *s)
{
    const sw_par *par = swi_pool_par(s->pool);
    par->run(par, control_part, &s->turns, par->n_threads);
    return SW_OK;
}

static sw_status step(subject *s)
{
    return s->lenet.exec != NULL ? bench_lenet_step(&s->lenet) : bench_small_step(&s->small);
}

/* n of them, of which the first `warm` are not counted. */
static sw_status time_some(subject *s, sw_status (*run)(subject *), int warm, int n,
                           cli_times *times)
{
    if (warm > 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    for (int i = 0; i < warm + n; i++) {
        const uint64_t start = cli_clock_ns();
        SW_TRY(run(s));
        if (i >= warm)
            cli_times_add(times, cli_clock_ns() - start);
    }
    return SW_OK;
}

static sw_status take_turns(subject *s, int64_t steps, cli_times *of_steps, cli_times *controls)
{
    const bool alone = s->opts->common.threads == 1;
    const int warm = alone ? 0 : 20, some = alone ? 1 : 50;
    for (int64_t i = 0; i < steps && !cli_interrupted(); i += some) {
        const int n = steps - i < some ? (int)(steps - i) : some;
        SW_TRY(time_some(s, step, warm, n, of_steps));
        SW_TRY(time_some(s, control, warm, n, controls));
    }
    return SW_OK;
}

/* Turns that take as long as the median step, found by measuring both side by side; several
 * times, because the first guess may be far off. */
static sw_status calibrate(subject *s)
{
    enum { ROUNDS = 3, STEPS = 200 };
    s->turns = 50000;
    for (int round = 0; round < ROUNDS; round++) {
        cli_times steps, controls = {0};
        SW_TRY(cli_times_init(&steps, STEPS));
        sw_status status = cli_times_init(&controls, STEPS);
        if (status == SW_OK)
            status = take_turns(s, STEPS, &steps, &controls);
        const uint64_t step = cli_times_summary(&steps).median;
        const uint64_t turn = cli_times_summary(&controls).median;
        if (turn > 0)
            s->turns = (uint64_t)((double)s->turns * (double)step / (double)turn) + 1;
        cli_times_free(&steps);
        cli_times_free(&controls);
        SW_TRY(status);
    }
    return SW_OK;
}

static double ratio(uint64_t a, uint64_t b)
{
    return b > 0 ? (double)a / (double)b : 0.0;
}

static int report(const pauses_opts *o, cli_times *steps, cli_times *controls)
{
    const cli_summary s = cli_times_summary(steps), c = cli_times_summary(controls);
    const double p99[2] = {ratio(s.p99, s.median), ratio(c.p99, c.median)};
    const double max[2] = {ratio(s.max, s.median), ratio(c.max, c.median)};
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        bench_put(&json, "step", &s);
        bench_put(&json, "control", &c);
        sw_json_put_f64(&json, "step_p99_over_median", p99[0]);
        sw_json_put_f64(&json, "control_p99_over_median", p99[1]);
        sw_json_put_f64(&json, "step_max_over_median", max[0]);
        sw_json_put_f64(&json, "control_max_over_median", max[1]);
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf("%s steps of %s, batch %lld, %lld thread%s, in turns with the control\n\n",
               cli_digits(s.n).text,
               strcmp(o->model, "lenet5") == 0 ? "lenet5" : "a perceptron of 5,034 parameters",
               (long long)o->common.batch, (long long)o->common.threads,
               o->common.threads == 1 ? "" : "s");
    printf("%-12s %12s %12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max",
           "p99/median", "max/median");
    const cli_summary *rows[] = {&s, &c};
    for (int i = 0; i < 2; i++)
        printf("%-12s %12s %12s %12s %12s %12.3f %12.3f\n", i == 0 ? "step" : "control",
               cli_ns(rows[i]->min).text, cli_ns(rows[i]->median).text,
               cli_ns(rows[i]->p99).text, cli_ns(rows[i]->max).text, p99[i], max[i]);
    printf("%-12s %12s %12s %12s %12s %12.3f %12.3f\n", "step/control", "", "", "", "",
           p99[1] > 0.0 ? p99[0] / p99[1] : 0.0, max[1] > 0.0 ? max[0] / max[1] : 0.0);
    return cli_finish(status);
}

static sw_status open_subject(subject *s)
{
    const pauses_opts *o = s->opts;
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)o->common.threads};
    SW_TRY(swi_pool_create(&s->pool, (int)o->common.threads, 1));
    return strcmp(o->model, "lenet5") == 0
               ? bench_lenet_create(&s->lenet, o->common.batch, true, &exec)
               : bench_small_create(&s->small, o->common.batch, &exec);
}

static int run(const pauses_opts *o)
{
    cli_times steps = {0}, controls = {0};
    subject s = {.opts = o};
    sw_status status = cli_times_init(&steps, (uint64_t)o->steps);
    if (status == SW_OK)
        status = cli_times_init(&controls, (uint64_t)o->steps);
    if (status == SW_OK)
        status = open_subject(&s);
    cli_catch_interrupt();
    if (status == SW_OK)
        status = calibrate(&s);
    if (status == SW_OK)
        status = take_turns(&s, o->steps, &steps, &controls);
    const int code =
        status == SW_OK ? report(o, &steps, &controls) : cli_library_error(status, false);
    bench_small_destroy(&s.small);
    bench_lenet_destroy(&s.lenet);
    swi_pool_destroy(s.pool);
    cli_times_free(&controls);
    cli_times_free(&steps);
    return code;
}

int bench_pauses(int argc, char **argv)
{
    static const char *const models[] = {"mlp", "lenet5", NULL};
    pauses_opts o = {0};
    const cli_option options[] = {
        {"--model", "NAME", CLI_WORD, &o.model, "mlp",
         "a small perceptron, or LeNet5 on one batch", 0, 0, models},
        {"--steps", "N", CLI_COUNT, &o.steps, "20000", "steps, and controls", 1, 1 << 20, NULL},
    };
    const int status =
        bench_parse("bench pauses",
                    "Steps of a small net, in turns with pure arithmetic of the same length.",
                    options, (int)(sizeof options / sizeof *options), &o.common, argc, argv);
    return status == CLI_GO ? run(&o) : status;
}
