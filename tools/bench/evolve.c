/* bench evolve: what a new architecture costs before and beside its training. */
#include "tools/bench/evolve.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- output ------------------------------------------------------------------------------ */

void evolve_title(const evolve_out *out, const char *key, const char *title)
{
    if (out->json != NULL)
        sw_json_open(out->json, key, '{');
    else
        printf("\n%s\n", title);
}

void evolve_head(const evolve_out *out, const char *key, const char *title)
{
    evolve_title(out, key, title);
    if (out->json == NULL)
        printf("%-30s %7s %10s %10s %10s %10s\n", "", "n", "min", "median", "p99", "max");
}

void evolve_times(const evolve_out *out, const char *key, const char *name, cli_times *times)
{
    const cli_summary s = cli_times_summary(times);
    if (out->json != NULL)
        bench_put(out->json, key, &s);
    else
        printf("%-30s %7" PRIu64 " %10s %10s %10s %10s\n", name, s.n, cli_ns(s.min).text,
               cli_ns(s.median).text, cli_ns(s.p99).text, cli_ns(s.max).text);
    cli_flush();
}

void evolve_number(const evolve_out *out, const char *key, const char *name, double x,
                   const char *unit)
{
    if (out->json != NULL)
        sw_json_put_f64(out->json, key, x);
    else
        printf("%-30s %.6g%s%s\n", name, x, *unit != '\0' ? " " : "", unit);
}

void evolve_end(const evolve_out *out)
{
    if (out->json != NULL)
        sw_json_end(out->json);
    cli_flush();
}

/* ---- plan: trace and plan of a graph ----------------------------------------------------- */

enum { PRICE, TRACE, PLAN, BOTH, PARTS };

static sw_status init_times(cli_times *times, int n, const evolve_bench_opts *o)
{
    for (int i = 0; i < n; i++)
        SW_TRY(cli_times_init(&times[i], (uint64_t)o->rounds));
    return SW_OK;
}

/* Equal traces share a program as long as one is remembered: the exec remembers one, and a run
 * without training takes its place. */
static sw_status plan_once(sw_exec *exec, const sw_genome *genome, const sw_array inputs[2],
                           cli_times *t)
{
    sw_plan_info plan = {.size = sizeof plan};
    sw_price price = {.size = sizeof price};
    sw_run_args args;
    sw_model *model;
    sw_net *net;
    const uint64_t start = cli_clock_ns();
    SW_TRY(sw_genome_price(genome, exec, NULL, SW_F32, &price));
    cli_times_add(&t[PRICE], cli_clock_ns() - start);
    SW_TRY(sw_net_create(&net, genome, NULL));
    sw_status status = evolve_args(&args, net, &model, inputs);
    if (status == SW_OK)
        status = sw_plan(exec, &args, &plan);
    if (status == SW_OK) {
        sw_plan_info other = {.size = sizeof other};
        args.mode = SW_EVAL;
        status = sw_plan(exec, &args, &other);
    }
    sw_net_destroy(net);
    if (status == SW_OK) {
        cli_times_add(&t[TRACE], plan.trace_ns);
        cli_times_add(&t[PLAN], plan.plan_ns);
        cli_times_add(&t[BOTH], plan.trace_ns + plan.plan_ns);
    }
    return status;
}

static sw_status plan_subject(const evolve_out *out, sw_exec *exec, evolve_subject which)
{
    cli_times t[PARTS] = {{0}};
    sw_genome *genome;
    sw_array inputs[2] = {{.data = NULL}, {.data = NULL}};
    char title[100];
    sw_genome_info info = {.size = sizeof info};
    SW_TRY(evolve_subject_make(&genome, which));
    sw_status status = sw_genome_describe(genome, &info);
    if (status == SW_OK)
        status = evolve_batch_make(inputs, genome);
    if (status == SW_OK)
        status = init_times(t, PARTS, out->opts);
    for (int64_t i = 0; i < out->opts->rounds && status == SW_OK && !cli_interrupted(); i++)
        status = plan_once(exec, genome, inputs, t);
    if (status == SW_OK) {
        snprintf(title, sizeof title, "a new plan: %s, %u vertices", evolve_subject_name(which),
                 info.n_vertices);
        evolve_head(out, evolve_subject_name(which), title);
        evolve_times(out, "trace", "trace", &t[TRACE]);
        evolve_times(out, "plan", "plan", &t[PLAN]);
        evolve_times(out, "trace_and_plan", "both", &t[BOTH]);
        evolve_times(out, "price", "sw_genome_price, with its net", &t[PRICE]);
        evolve_end(out);
    }
    for (int i = 0; i < PARTS; i++)
        cli_times_free(&t[i]);
    bench_batch_free(inputs, 2);
    sw_genome_destroy(genome);
    return status;
}

static sw_status make_exec(const evolve_out *out, sw_exec **exec)
{
    const sw_exec_opts opts = {
        .size = sizeof opts, .threads = (int)out->opts->common.threads, .max_programs = 1};
    return sw_exec_create(exec, &opts);
}

sw_status evolve_bench_plan(const evolve_out *out)
{
    sw_exec *exec;
    SW_TRY(make_exec(out, &exec));
    sw_status status = plan_subject(out, exec, EVOLVE_DEEP);
    if (status == SW_OK)
        status = plan_subject(out, exec, EVOLVE_LENET5);
    sw_exec_destroy(exec);
    return status;
}

/* ---- mutants: priced before any trains --------------------------------------------------- */

static const sw_task digits = {
    .size = sizeof digits, .channels = 1, .height = 28, .width = 28, .classes = 10};

/* The parents: draws of the default space. A mutant of each in turn; every one is priced. */
static sw_status price_mutants(const evolve_out *out, sw_exec *exec, sw_genome *const *parents,
                               int n, cli_times *mutate, cli_times *price)
{
    for (int64_t i = 0; i < out->opts->rounds && !cli_interrupted(); i++) {
        const sw_mutate_opts opts = {.size = sizeof opts, .seed = (uint64_t)i};
        sw_price found = {.size = sizeof found};
        sw_genome *child;
        const uint64_t start = cli_clock_ns();
        SW_TRY(sw_genome_mutate(&child, parents[i % n], &opts));
        const uint64_t mutated = cli_clock_ns();
        const sw_status status = sw_genome_price(child, exec, NULL, SW_U8, &found);
        cli_times_add(price, cli_clock_ns() - mutated);
        cli_times_add(mutate, mutated - start);
        sw_genome_destroy(child);
        SW_TRY(status);
    }
    return SW_OK;
}

sw_status evolve_bench_mutants(const evolve_out *out)
{
    enum { PARENTS = 20 };
    sw_genome *parents[PARENTS] = {NULL};
    sw_search_space *space;
    sw_exec *exec;
    cli_times times[2] = {{0}};
    double vertices = 0.0;
    SW_TRY(sw_search_space_default(&space, &digits));
    sw_status status = make_exec(out, &exec);
    if (status == SW_OK)
        status = init_times(times, 2, out->opts);
    for (int i = 0; i < PARENTS && status == SW_OK; i++) {
        sw_genome_info info = {.size = sizeof info};
        status = sw_genome_draw(&parents[i], space, &digits, (uint64_t)i + 1);
        if (status == SW_OK)
            status = sw_genome_describe(parents[i], &info);
        vertices += (double)info.n_vertices / PARENTS;
    }
    const uint64_t start = cli_clock_ns();
    if (status == SW_OK)
        status = price_mutants(out, exec, parents, PARENTS, &times[0], &times[1]);
    const double seconds = (double)(cli_clock_ns() - start) / 1e9;
    if (status == SW_OK) {
        evolve_head(out, "mutants", "mutants of 20 draws of the default space, priced");
        evolve_times(out, "mutate", "mutate", &times[0]);
        evolve_times(out, "price", "price", &times[1]);
        evolve_number(out, "vertices", "vertices of a parent, mean", vertices, "");
        evolve_number(out, "per_second", "mutants a second",
                      (double)out->opts->rounds / seconds, "");
        evolve_end(out);
    }
    cli_times_free(&times[0]);
    cli_times_free(&times[1]);
    for (int i = 0; i < PARENTS; i++)
        sw_genome_destroy(parents[i]);
    sw_search_space_destroy(space);
    sw_exec_destroy(exec);
    return status;
}

/* ---- the command ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    sw_status (*run)(const evolve_out *out);
    bool always; /* without --case */
} cases[] = {{"plan", evolve_bench_plan, true},   {"mutants", evolve_bench_mutants, true},
             {"moves", evolve_bench_moves, true}, {"first", evolve_bench_first, true},
             {"gaps", evolve_bench_gaps, true},   {"search", evolve_bench_search, false}};
enum { N_CASES = sizeof cases / sizeof *cases };

static int run(const evolve_bench_opts *o)
{
    sw_json json;
    const evolve_out out = {.opts = o, .json = o->common.json ? &json : NULL};
    sw_status status = SW_OK;
    cli_catch_interrupt();
    if (out.json != NULL)
        result_json_begin(&json);
    for (int i = 0; i < N_CASES && status == SW_OK && !cli_interrupted(); i++)
        if (o->which != NULL ? strcmp(o->which, cases[i].name) == 0 : cases[i].always)
            status = cases[i].run(&out);
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (out.json != NULL && status == SW_OK)
        return result_json_end(&json, code);
    if (out.json != NULL)
        sw_json_free(&json);
    return status != SW_OK ? cli_library_error(status, false) : cli_finish(code);
}

int bench_evolve(int argc, char **argv)
{
    static const char *const names[] = {"plan", "mutants", "moves", "first",
                                        "gaps", "search",  NULL};
    evolve_bench_opts o = {.rounds = 0};
    const cli_option options[] = {
        {"--case", "NAME", CLI_WORD, &o.which, NULL,
         "plan, mutants, moves, first, gaps or search (default all but search)", 0, 0, names},
        {"--rounds", "N", CLI_COUNT, &o.rounds, "1000", "of each measurement", 1, 10000000,
         NULL},
        {"--data", "DIR", CLI_WORD, &o.data, NULL,
         "search: a folder of IDX files (default digits that the program draws)", 0, 0, NULL},
        {"--seeds", "N", CLI_COUNT, &o.seeds, "5", "search: runs, by seeds 1 to N", 1, 1000,
         NULL},
        {"--generations", "N", CLI_COUNT, &o.generations, "15", "search, gaps", 1, 100000,
         NULL},
        {"--population", "N", CLI_COUNT, &o.population, "20", "search, gaps", 2, 10000, NULL},
        {"--samples", "N", CLI_COUNT, &o.samples, "6400",
         "search, gaps: of each member and generation", 1, 1 << 30, NULL},
        {"--epochs", "N", CLI_COUNT, &o.epochs, "10",
         "search: of the training from scratch that is compared", 1, 10000, NULL},
        {"--repeats", "N", CLI_COUNT, &o.repeats, "3",
         "search: trainings from scratch of each best, whose mean is compared", 1, 1000, NULL},
        {"--memory-budget", "SIZE", CLI_BYTES, &o.budget, "64MiB",
         "search, gaps: of the population", 1, 0, NULL},
        {"--threads", "N", CLI_COUNT, &o.common.threads, "1", "threads that compute", 1, 256,
         NULL},
        {"--json", NULL, CLI_FLAG, &o.common.json, NULL, "one JSON object on standard output",
         0, 0, NULL},
        {"--quiet", NULL, CLI_FLAG, &o.common.quiet, NULL, "no progress", 0, 0, NULL},
    };
    const cli_command command = {
        .name = "bench evolve",
        .usage = "[options]",
        .about = "The cost of new architectures: plans, mutants, moved weights, first steps, "
                 "pauses; and a search against random nets.",
        .options = options,
        .n_options = sizeof options / sizeof *options};
    const int parsed = cli_parse(&command, argc, argv);
    return parsed == CLI_GO ? run(&o) : parsed;
}
