/* bench nvtx: what being ready for a tool costs where none is attached, and what is said to one
 * where it is: a range pair in a loop of nothing else, and steps of LeNet5 by level. */
#include "profiler/record/nvtx.h"
#include "profiler/record/watch.h"
#include "tools/bench/bench.h"
#include <string.h>

typedef struct {
    bench_common common;
    int64_t steps, rounds;
} nvtx_opts;

/* ---- a pair ------------------------------------------------------------------------------ */

enum { NOTHING, EDGES, PAIR, LOOPS };
enum { PER_LOOP = 10000 };

/* Something that no compiler sees through, as a step's kernels are. */
static void opaque(void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

static sw_status loop(void *context, int i)
{
    static sw_watch nobody;
    static const sw_nvtx_name name = {NULL, "pair"};
    (void)context;
    for (int k = 0; k < PER_LOOP; k++) {
        opaque(&nobody);
        if (i == EDGES) {
            sw_watch_op(&nobody, 0);
            opaque(&nobody);
            sw_watch_op_end(&nobody);
        } else if (i == PAIR) {
            sw_nvtx_begin(SW_NVTX_IN_OP, &name, 1);
            opaque(&nobody);
            sw_nvtx_end();
        } else
            opaque(&nobody);
    }
    return SW_OK;
}

/* Above the empty loop, by medians, per pair. */
static double pair_ns(const bench_variant *v, int i)
{
    return ((double)v[i].summary.median - (double)v[NOTHING].summary.median) / PER_LOOP;
}

static sw_status measure_pairs(bench_variant *v, const nvtx_opts *o)
{
    const bench_variant loops[LOOPS] = {{.name = "empty loop", .key = "empty_loop"},
                                        {.name = "op edges", .key = "op_edges"},
                                        {.name = "NVTX range", .key = "nvtx_range"}};
    memcpy(v, loops, sizeof loops);
    return bench_take_turns(v, LOOPS, o->rounds, loop, NULL);
}

/* ---- steps ------------------------------------------------------------------------------- */

enum { OFF, PHASES, LAYERS, OPS, LEVELS };
static const sw_nvtx_level levels[LEVELS] = {SW_NVTX_OFF, SW_NVTX_PHASES, SW_NVTX_LAYERS,
                                             SW_NVTX_OPS};

static sw_status step(void *context, int i)
{
    bench_lenet *lenet = context;
    return bench_lenet_step(&lenet[i]);
}

static sw_status measure_steps(bench_variant *v, const nvtx_opts *o)
{
    const bench_variant steps[LEVELS] = {{.name = "off", .key = "off"},
                                         {.name = "phases", .key = "phases"},
                                         {.name = "layers", .key = "layers"},
                                         {.name = "ops", .key = "ops"}};
    bench_lenet lenet[LEVELS];
    sw_status status = SW_OK;
    memcpy(v, steps, sizeof steps);
    memset(lenet, 0, sizeof lenet);
    for (int i = 0; status == SW_OK && i < LEVELS; i++) {
        const sw_exec_opts exec = {
            .size = sizeof exec, .threads = (int)o->common.threads, .nvtx = levels[i]};
        status = bench_lenet_create(&lenet[i], o->common.batch, true, &exec);
    }
    if (status == SW_OK)
        status = bench_take_turns(v, LEVELS, o->steps, step, lenet);
    for (int i = 0; i < LEVELS; i++)
        bench_lenet_destroy(&lenet[i]);
    return status;
}

/* ---- command ----------------------------------------------------------------------------- */

static int show(const nvtx_opts *o, const bench_variant *pairs, const bench_variant *steps)
{
    const bool attached = sw_nvtx_attached();
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        sw_json_put_bool(&json, "tool", attached);
        sw_json_put_f64(&json, "op_edges_ns", pair_ns(pairs, EDGES));
        sw_json_put_f64(&json, "nvtx_range_ns", pair_ns(pairs, PAIR));
        bench_put_variants(&json, "pairs", pairs, LOOPS);
        bench_put_variants(&json, "lenet5", steps, LEVELS);
        return result_json_end(&json, code);
    }
    if (!o->common.quiet)
        printf("%s; batch %lld, %lld thread%s, %s steps of each, taking turns\n\n",
               attached ? "a tool is attached" : "no tool is attached",
               (long long)o->common.batch, (long long)o->common.threads,
               o->common.threads == 1 ? "" : "s", cli_digits(steps[OFF].summary.n).text);
    printf(
        "one pair, above an empty loop: op edges of a run %.2f ns, an NVTX range %.2f ns\n\n",
        pair_ns(pairs, EDGES), pair_ns(pairs, PAIR));
    bench_print_variants("lenet5", steps, LEVELS);
    return cli_finish(code);
}

static int run(const nvtx_opts *o)
{
    bench_variant pairs[LOOPS], steps[LEVELS];
    cli_catch_interrupt();
    sw_status status = measure_pairs(pairs, o);
    if (status == SW_OK)
        status = measure_steps(steps, o);
    return status == SW_OK ? show(o, pairs, steps) : cli_library_error(status, false);
}

int bench_nvtx(int argc, char **argv)
{
    nvtx_opts o = {0};
    const cli_option options[] = {
        {"--steps", "N", CLI_COUNT, &o.steps, "1000", "steps of LeNet5 at each level", 1,
         1 << 20, NULL},
        {"--rounds", "N", CLI_COUNT, &o.rounds, "1000", "loops of 10,000 pairs", 1, 1 << 20,
         NULL},
    };
    const int status =
        bench_parse("bench nvtx",
                    "Ranges, and steps of LeNet5 at each level of --nvtx, with the tool that "
                    "NVTX_INJECTION64_PATH names, or with none.",
                    options, (int)(sizeof options / sizeof *options), &o.common, argc, argv);
    return status == CLI_GO ? run(&o) : status;
}
