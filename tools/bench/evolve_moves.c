/* bench evolve --case moves and --case first: sizes change, the weights move along; and the
 * first step of a net that was never seen. */
#include "alloc/base/mem.h"
#include "tools/bench/evolve.h"
#include <math.h>
#include <string.h>

/* ---- utilities --------------------------------------------------------------------------- */

/* Of every vertex with a size, and of what follows it: some number for each neuron. */
typedef struct {
    sw_neuron_utility *of;
    size_t n, bytes;
    float *values;
    size_t n_values;
} utilities;

static sw_status make_utilities(utilities *u, const sw_genome *genome)
{
    sw_genome_info info = {.size = sizeof info};
    void *block;
    size_t values = 0;
    *u = (utilities){.n = 0};
    SW_TRY(sw_genome_describe(genome, &info));
    for (uint32_t i = 0; i < info.n_vertices; i++) {
        sw_vertex v = {.size = sizeof v};
        SW_TRY(sw_genome_vertex(genome, i, &v));
        values += (size_t)v.channels;
    }
    u->bytes = info.n_vertices * sizeof *u->of;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, u->bytes));
    u->of = memset(block, 0, u->bytes);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, values * sizeof *u->values));
    u->values = block;
    u->n_values = values;
    for (size_t i = 0; i < values; i++)
        u->values[i] = (float)((i * 2654435761u) % 1000003u) / 1000003.0f;
    values = 0;
    for (uint32_t i = 0; i < info.n_vertices; i++) {
        sw_vertex v = {.size = sizeof v};
        SW_TRY(sw_genome_vertex(genome, i, &v));
        if (v.kind == SW_VERTEX_LINEAR || v.kind == SW_VERTEX_CONV2D)
            u->of[u->n++] =
                (sw_neuron_utility){.vertex = i, .n = v.channels, .values = u->values + values};
        values += (size_t)v.channels;
    }
    return SW_OK;
}

static void free_utilities(utilities *u)
{
    sw_heap_free(u->of, SW_HEAP_RECORDS, u->bytes);
    sw_heap_free(u->values, SW_HEAP_RECORDS, u->n_values * sizeof *u->values);
}

/* ---- moves ------------------------------------------------------------------------------- */

enum { MUTATE, PLAN, MOVE, ALL, READY, COPY, PARTS };
static const char *const names[PARTS] = {"mutate and align", "new net and plan",
                                         "weights moved",    "all three",
                                         "(first values)",   "memcpy of as many bytes"},
                         *const keys[PARTS] = {"mutate", "plan",  "move",
                                               "all",    "ready", "memcpy"};

typedef struct {
    sw_exec *exec;
    sw_genome *genome;
    sw_net *net; /* of the parent */
    sw_array inputs[2];
    utilities u;
    void *from, *to; /* for memcpy: as large as the parent's model */
    size_t bytes;
    cli_times times[PARTS];
} moving;

/* Each time another child of the parent, whose net is new. */
static sw_status move_once(moving *m, uint64_t seed, bool chosen)
{
    static const sw_mutation size = {.kind = SW_MUTATE_SIZE, .probability = 0.5};
    const sw_mutate_opts opts = {.size = sizeof opts,
                                 .mutations = &size,
                                 .n_mutations = 1,
                                 .seed = seed,
                                 .utilities = chosen ? m->u.of : NULL,
                                 .n_utilities = chosen ? m->u.n : 0};
    sw_plan_info plan = {.size = sizeof plan};
    sw_run_args args;
    sw_model *model;
    sw_genome *child;
    sw_net *net = NULL;
    uint64_t at[6] = {cli_clock_ns()};
    size_t bytes = 0;
    SW_TRY(sw_genome_mutate(&child, m->genome, &opts));
    at[1] = cli_clock_ns();
    sw_status status = sw_net_create(&net, child, NULL);
    if (status == SW_OK)
        status = evolve_args(&args, net, &model, m->inputs);
    if (status == SW_OK)
        status = sw_plan(m->exec, &args, &plan);
    at[2] = cli_clock_ns();
    if (status == SW_OK)
        status = sw_model_ready(model, m->exec, seed);
    at[3] = cli_clock_ns();
    if (status == SW_OK)
        status = sw_net_inherit(net, m->net, NULL, seed);
    at[4] = cli_clock_ns();
    if (status == SW_OK)
        status = sw_model_bytes(model, &bytes);
    bytes = bytes < m->bytes ? bytes : m->bytes;
    const uint64_t copy = cli_clock_ns();
    memcpy(m->to, m->from, bytes);
    at[5] = cli_clock_ns() - copy;
    if (status == SW_OK) {
        cli_times_add(&m->times[MUTATE], at[1] - at[0]);
        cli_times_add(&m->times[PLAN], at[2] - at[1]);
        cli_times_add(&m->times[READY], at[3] - at[2]);
        cli_times_add(&m->times[MOVE], at[4] - at[3]);
        cli_times_add(&m->times[ALL], at[2] - at[0] + at[4] - at[3]);
        cli_times_add(&m->times[COPY], at[5]);
    }
    sw_net_destroy(net);
    sw_genome_destroy(child);
    return status;
}

static sw_status open_moving(moving *m, const evolve_out *out, evolve_subject which)
{
    const sw_exec_opts exec = {
        .size = sizeof exec, .threads = (int)out->opts->common.threads, .max_programs = 1};
    SW_TRY(sw_exec_create(&m->exec, &exec));
    SW_TRY(evolve_subject_make(&m->genome, which));
    SW_TRY(evolve_batch_make(m->inputs, m->genome));
    SW_TRY(make_utilities(&m->u, m->genome));
    SW_TRY(sw_net_create(&m->net, m->genome, NULL));
    SW_TRY(sw_model_ready(sw_net_model(m->net), m->exec, 1));
    SW_TRY(sw_model_bytes(sw_net_model(m->net), &m->bytes));
    SW_TRY(sw_heap_alloc(&m->from, SW_HEAP_RECORDS, m->bytes));
    SW_TRY(sw_heap_alloc(&m->to, SW_HEAP_RECORDS, m->bytes));
    memset(m->from, 1, m->bytes);
    memset(m->to, 2, m->bytes);
    return SW_OK;
}

static void close_moving(moving *m)
{
    for (int i = 0; i < PARTS; i++)
        cli_times_free(&m->times[i]);
    sw_heap_free(m->from, SW_HEAP_RECORDS, m->bytes);
    sw_heap_free(m->to, SW_HEAP_RECORDS, m->bytes);
    free_utilities(&m->u);
    bench_batch_free(m->inputs, 2);
    sw_net_destroy(m->net);
    sw_genome_destroy(m->genome);
    sw_exec_destroy(m->exec);
}

/* By medians, and by minima. */
static void put_bandwidth(const evolve_out *out, moving *m)
{
    const cli_summary copy = cli_times_summary(&m->times[COPY]),
                      move = cli_times_summary(&m->times[MOVE]);
    if (move.min == 0)
        return;
    evolve_number(out, "memcpy_share_median", "bandwidth, of memcpy's, median",
                  (double)copy.median / (double)move.median, "");
    evolve_number(out, "memcpy_share_min", "the same by minima",
                  (double)copy.min / (double)move.min, "");
}

static sw_status moves_of(const evolve_out *out, evolve_subject which, bool chosen)
{
    moving m = {.exec = NULL};
    char title[200], key[48];
    int64_t rounds = out->opts->rounds;
    sw_status status = open_moving(&m, out, which);
    if (which == EVOLVE_WIDE)
        rounds = rounds / 10 + 1;
    for (int i = 0; i < PARTS && status == SW_OK; i++)
        status = cli_times_init(&m.times[i], (uint64_t)rounds);
    for (int64_t i = 0; i < rounds && status == SW_OK && !cli_interrupted(); i++)
        status = move_once(&m, (uint64_t)i + 1, chosen);
    if (status == SW_OK) {
        snprintf(title, sizeof title, "sizes mutated: %s, %s of state, %s",
                 evolve_subject_name(which), cli_bytes(m.bytes).text,
                 chosen ? "neurons chosen by utility" : "neurons by their order");
        snprintf(key, sizeof key, "moves_%s%s", evolve_subject_name(which),
                 chosen ? "_by_utility" : "");
        evolve_head(out, key, title);
        for (int i = 0; i < PARTS; i++)
            evolve_times(out, keys[i], names[i], &m.times[i]);
        put_bandwidth(out, &m);
        evolve_number(out, "state_bytes", "state", (double)m.bytes, "bytes");
        evolve_end(out);
    }
    close_moving(&m);
    return status;
}

sw_status evolve_bench_moves(const evolve_out *out)
{
    for (int chosen = 0; chosen < 2; chosen++) {
        SW_TRY(moves_of(out, EVOLVE_LENET5, chosen != 0));
        SW_TRY(moves_of(out, EVOLVE_WIDE, chosen != 0));
    }
    return SW_OK;
}

/* ---- the first step ---------------------------------------------------------------------- */

enum { STEADY = 12 };

typedef struct {
    cli_times first, steady;
    double worst;               /* first over steady */
    uint64_t worst_ns, n, over; /* over: more than 5 times, and than 1 ms */
} firsts;

/* A mutant of mutants: an architecture that this process has not run. */
static sw_status first_of(sw_exec *exec, const sw_genome *genome, firsts *f)
{
    cli_times steady = {0};
    sw_array inputs[2] = {{.data = NULL}, {.data = NULL}};
    sw_run_args args;
    sw_model *model;
    sw_net *net = NULL;
    uint64_t first = 0;
    sw_status status = cli_times_init(&steady, STEADY);
    if (status == SW_OK)
        status = evolve_batch_make(inputs, genome);
    if (status == SW_OK)
        status = sw_net_create(&net, genome, NULL);
    if (status == SW_OK)
        status = evolve_args(&args, net, &model, inputs);
    if (status == SW_OK)
        status = sw_model_ready(model, exec, 1);
    for (int i = 0; i <= STEADY && status == SW_OK; i++) {
        const uint64_t start = cli_clock_ns();
        status = sw_run(exec, &args);
        const uint64_t ns = cli_clock_ns() - start;
        args.step++;
        if (i == 0)
            first = ns;
        else
            cli_times_add(&steady, ns);
    }
    if (status == SW_OK) {
        const uint64_t median = cli_times_summary(&steady).median;
        const double ratio = (double)first / (double)median;
        cli_times_add(&f->first, first);
        cli_times_add(&f->steady, median);
        f->over += ratio > 5.0 && first > 1000000;
        f->n++;
        if (ratio > f->worst) {
            f->worst = ratio;
            f->worst_ns = first;
        }
    }
    cli_times_free(&steady);
    bench_batch_free(inputs, 2);
    sw_net_destroy(net);
    return status;
}

static sw_status run_firsts(const evolve_out *out, sw_exec *exec, firsts *f, int64_t n)
{
    static const sw_task task = {
        .size = sizeof task, .channels = 1, .height = 28, .width = 28, .classes = 10};
    sw_search_space *space;
    SW_TRY(sw_search_space_default(&space, &task));
    sw_status status = SW_OK;
    for (int64_t i = 0; i < n && status == SW_OK && !cli_interrupted(); i++) {
        sw_genome *genome;
        status = sw_genome_draw(&genome, space, &task, (uint64_t)i + 1000);
        if (status != SW_OK)
            break;
        status = first_of(exec, genome, f);
        sw_genome_destroy(genome);
        if (!out->opts->common.quiet)
            cli_progress("first steps: %lld of %lld", (long long)i + 1, (long long)n);
    }
    cli_progress("%s", "");
    sw_search_space_destroy(space);
    return status;
}

sw_status evolve_bench_first(const evolve_out *out)
{
    const int64_t n = out->opts->rounds / 10 + 1;
    const sw_exec_opts opts = {.size = sizeof opts, .threads = (int)out->opts->common.threads};
    firsts f = {.n = 0};
    sw_exec *exec;
    SW_TRY(sw_exec_create(&exec, &opts));
    sw_status status = cli_times_init(&f.first, (uint64_t)n);
    if (status == SW_OK)
        status = cli_times_init(&f.steady, (uint64_t)n);
    if (status == SW_OK)
        status = run_firsts(out, exec, &f, n);
    if (status == SW_OK) {
        evolve_head(out, "first",
                    "draws of the default space, each never seen: first step, "
                    "trace and plan in it, and median of the next 12");
        evolve_times(out, "first", "first step", &f.first);
        evolve_times(out, "steady", "steady step", &f.steady);
        evolve_number(out, "worst_ratio", "largest ratio of the two", f.worst, "");
        evolve_number(out, "worst_ns", "the first step of that one", (double)f.worst_ns / 1e6,
                      "ms");
        evolve_number(out, "over", "above 5 times and 1 ms", (double)f.over, "");
        evolve_end(out);
    }
    cli_times_free(&f.first);
    cli_times_free(&f.steady);
    sw_exec_destroy(exec);
    return status;
}
