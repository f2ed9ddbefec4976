/* bench pauses: is the slowest step about as slow as the median one?
 *
 * A machine has pauses of its own. So each step is followed by a control: a loop of pure
 * arithmetic that takes as long as the median step, touches no memory and calls nothing. What
 * the control shows is the machine's; what the steps show beyond it would be ours. */
#include "tools/bench/bench.h"

typedef struct {
    bench_common common;
    int64_t steps;
} pauses_opts;

/* A chain that no compiler can shorten: each turn needs the one before. */
static uint64_t arithmetic(uint64_t x, uint64_t turns)
{
    for (uint64_t i = 0; i < turns; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

static volatile uint64_t sink;

static uint64_t control(uint64_t turns)
{
    const uint64_t start = cli_clock_ns();
    sink = arithmetic(sink, turns);
    return cli_clock_ns() - start;
}

/* Turns that take as long as the median step, found by measuring both side by side; twice,
 * because the first guess may be far off. */
static sw_status calibrate(bench_small *small, uint64_t *turns)
{
    uint64_t guess = 50000;
    for (int round = 0; round < 3; round++) {
        cli_times steps, controls;
        SW_TRY(cli_times_init(&steps, 400));
        sw_status status = cli_times_init(&controls, 400);
        if (status != SW_OK) {
            cli_times_free(&steps);
            return status;
        }
        for (int i = 0; i < 400 && status == SW_OK; i++) {
            const uint64_t start = cli_clock_ns();
            status = bench_small_step(small);
            cli_times_add(&steps, cli_clock_ns() - start);
            cli_times_add(&controls, control(guess));
        }
        const uint64_t step = cli_times_summary(&steps).median;
        const uint64_t turn = cli_times_summary(&controls).median;
        guess = turn > 0 ? (uint64_t)((double)guess * (double)step / (double)turn) + 1 : guess;
        cli_times_free(&steps);
        cli_times_free(&controls);
        SW_TRY(status);
    }
    *turns = guess;
    return SW_OK;
}

static sw_status measure(const pauses_opts *o, bench_small *small, cli_times *steps,
                         cli_times *controls)
{
    uint64_t turns;
    SW_TRY(calibrate(small, &turns));
    for (int64_t i = 0; i < o->steps && !cli_interrupted(); i++) {
        const uint64_t start = cli_clock_ns();
        SW_TRY(bench_small_step(small));
        cli_times_add(steps, cli_clock_ns() - start);
        cli_times_add(controls, control(turns));
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
        printf("%s steps of a perceptron of 5,034 parameters, batch %lld, each followed by the "
               "control\n\n",
               cli_digits(s.n).text, (long long)o->common.batch);
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

static int run(const pauses_opts *o)
{
    cli_times steps = {0}, controls = {0};
    bench_small small = {0};
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)o->common.threads};
    sw_status status = cli_times_init(&steps, (uint64_t)o->steps);
    if (status == SW_OK)
        status = cli_times_init(&controls, (uint64_t)o->steps);
    if (status == SW_OK)
        status = bench_small_create(&small, o->common.batch, &exec);
    cli_catch_interrupt();
    if (status == SW_OK)
        status = measure(o, &small, &steps, &controls);
    const int code =
        status == SW_OK ? report(o, &steps, &controls) : cli_library_error(status, false);
    bench_small_destroy(&small);
    cli_times_free(&controls);
    cli_times_free(&steps);
    return code;
}

int bench_pauses(int argc, char **argv)
{
    pauses_opts o = {0};
    const cli_option options[] = {
        {"--steps", "N", CLI_COUNT, &o.steps, "20000", "steps, and controls", 1, 1 << 20, NULL},
    };
    const int status = bench_parse(
        "bench pauses",
        "Steps of a small perceptron, each followed by pure arithmetic of the same length.",
        options, (int)(sizeof options / sizeof *options), &o.common, argc, argv);
    return status == CLI_GO ? run(&o) : status;
}
