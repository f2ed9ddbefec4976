/* bench place: the placement solver over files and a random problem.
 *
 * A problem is solved as it is, with time reversed and with its rows in random order, and in
 * each of these ways with other seeds: they ought to be equally hard. They take turns, round by
 * round. Every answer is checked; the check is not in the times. */
#include "alloc/base/mem.h"
#include "profiler/record/utf8.h"
#include "tools/bench/bench.h"
#include "tools/bench/problems.h"
#include "tools/place/place.h"
#include <string.h>

#define FILES_MAX 64

enum { AS_IT_IS, REVERSED, SHUFFLED, SEEDED, SOLVED = 2 * SEEDED, ALL_SEEDS = SOLVED, WAYS };
static const char *const names[WAYS] = {"as it is",   "reversed",   "shuffled", "seeds",
                                        "  reversed", "  shuffled", "  all"};
static const char *const keys[WAYS] = {"as_it_is",       "reversed",       "shuffled", "seeds",
                                       "seeds_reversed", "seeds_shuffled", "all_seeds"};

typedef struct {
    const char *files[FILES_MAX];
    size_t capacity;
    int64_t runs, seeds, nodes, random, threads;
    bool json, quiet;
} place_opts;

typedef struct {
    cli_times times;
    cli_summary summary;
    uint64_t least, most; /* heights */
    int64_t n, held, optimal;
} way;

typedef struct {
    const place_opts *opts;
    const char *name;
    place_csv csv;  /* the problem */
    place_csv work; /* rows and times of its own: what is solved */
    uint64_t read_ns, check_ns, lower_bound;
    way ways[WAYS];
} subject;

/* ---- measuring --------------------------------------------------------------------------- */

static void note(way *w, const place_answer *answer)
{
    const uint64_t height = answer->checked.height;
    cli_times_add(&w->times, answer->solve_ns);
    w->least = w->n == 0 || height < w->least ? height : w->least;
    w->most = height > w->most ? height : w->most;
    w->n++;
    w->held += answer->holds;
    w->optimal += answer->optimal;
}

static sw_status solve(subject *s, int which, uint64_t round)
{
    place_csv *work = &s->work;
    const bool seeded = which >= SEEDED;
    memcpy(work->items, s->csv.items, s->csv.n * sizeof *work->items);
    memcpy(work->times, s->csv.times, 2 * s->csv.n * sizeof *work->times);
    if (which % SEEDED == REVERSED)
        problem_reverse(work, &s->csv);
    if (which % SEEDED == SHUFFLED)
        problem_shuffle(work, round);
    const place_request request = {
        .capacity = s->opts->capacity,
        .nodes = (uint64_t)(s->opts->nodes > 0 ? s->opts->nodes : PLACE_NODES),
        .seed = seeded ? round + 1 : 0,
        .threads = (unsigned)s->opts->threads};
    place_answer answer;
    SW_TRY(place_solve(work, &request, &answer));
    if (answer.interrupted) /* its time says nothing */
        return SW_OK;
    note(&s->ways[which], &answer);
    if (seeded)
        note(&s->ways[ALL_SEEDS], &answer);
    s->lower_bound = answer.checked.lower_bound;
    s->check_ns = answer.check_ns;
    return SW_OK;
}

static sw_status measure(subject *s)
{
    const place_opts *o = s->opts;
    const int64_t rounds = o->runs > o->seeds ? o->runs : o->seeds;
    for (int i = 0; i < WAYS; i++)
        SW_TRY(cli_times_init(&s->ways[i].times,
                              (uint64_t)(i == ALL_SEEDS ? SEEDED * rounds : rounds)));
    for (int64_t round = 0; round < rounds; round++)
        for (int turn = 0; turn < SOLVED && !cli_interrupted(); turn++) {
            const int which = (int)((round + turn) % SOLVED);
            if (round < (which >= SEEDED ? o->seeds : o->runs))
                SW_TRY(solve(s, which, (uint64_t)round));
        }
    for (int i = 0; i < WAYS; i++)
        s->ways[i].summary = cli_times_summary(&s->ways[i].times);
    return SW_OK;
}

static sw_status open_subject(subject *s)
{
    const uint64_t start = cli_clock_ns();
    if (s->opts->random > 0 && s->name == NULL)
        SW_TRY(problem_random(&s->csv, (size_t)s->opts->random));
    else
        SW_TRY(place_csv_read(&s->csv, s->name));
    s->read_ns = cli_clock_ns() - start;
    SW_TRY(problem_take(&s->work, s->csv.n));
    return SW_OK;
}

static void close_subject(subject *s)
{
    for (int i = 0; i < WAYS; i++)
        cli_times_free(&s->ways[i].times);
    place_csv_free(&s->csv);
    place_csv_free(&s->work);
}

/* ---- showing ----------------------------------------------------------------------------- */

static double above_percent(const subject *s, uint64_t height)
{
    const double bound = (double)s->lower_bound;
    return bound > 0.0 ? 100.0 * ((double)height - bound) / bound : 0.0;
}

static const char *title(const subject *s)
{
    return s->name != NULL ? s->name : "random";
}

static void print_subject(const subject *s)
{
    char name[1024];
    sw_utf8_clean(name, sizeof name, title(s));
    printf("%s\n", name);
    if (!s->opts->quiet)
        printf("  %s buffers, lower bound %s; %s in %s, checked in %s\n",
               cli_digits(s->csv.n).text, cli_digits(s->lower_bound).text,
               s->name != NULL ? "read" : "made", cli_ns(s->read_ns).text,
               cli_ns(s->check_ns).text);
    printf("  %-10s %5s %10s %10s %10s %8s %8s %7s\n", "", "runs", "min", "median", "max",
           "gap %", "worst %", s->opts->capacity > 0 ? "fit" : "optimum");
    for (int i = 0; i < WAYS; i++) {
        const way *w = &s->ways[i];
        if (w->n == 0)
            continue;
        const int64_t good = s->opts->capacity > 0 ? w->held : w->optimal;
        printf("  %-10s %5lld %10s %10s %10s %8.3f %8.3f %7lld\n", names[i], (long long)w->n,
               cli_ns(w->summary.min).text, cli_ns(w->summary.median).text,
               cli_ns(w->summary.max).text, above_percent(s, w->least),
               above_percent(s, w->most), (long long)good);
    }
}

static void put_subject(sw_json *json, const subject *s)
{
    sw_json_begin(json, '{');
    sw_json_put_string(json, "file", s->name);
    sw_json_put_u64(json, "buffers", s->csv.n);
    sw_json_put_u64(json, "lower_bound", s->lower_bound);
    sw_json_put_u64(json, "read_ns", s->read_ns);
    sw_json_put_u64(json, "check_ns", s->check_ns);
    for (int i = 0; i < WAYS; i++) {
        const way *w = &s->ways[i];
        if (w->n == 0)
            continue;
        sw_json_open(json, keys[i], '{');
        bench_put(json, "solve", &w->summary);
        sw_json_put_u64(json, "height", w->least);
        sw_json_put_u64(json, "worst_height", w->most);
        sw_json_put_f64(json, "gap_percent", above_percent(s, w->least));
        sw_json_put_f64(json, "worst_gap_percent", above_percent(s, w->most));
        sw_json_put_i64(json, "solved", w->held);
        sw_json_put_i64(json, "optimal", w->optimal);
        sw_json_end(json);
    }
    sw_json_end(json);
}

/* The most that was taken from the heap at one time, of all problems together. */
static size_t heap_peak(void)
{
    size_t sum = 0;
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)i, &stats);
        sum += stats.peak_bytes;
    }
    return sum;
}

/* ---- the run ----------------------------------------------------------------------------- */

static int run_one(const place_opts *o, const char *name, sw_json *json)
{
    static subject s; /* nothing of the one before is left */
    s = (subject){.opts = o, .name = name};
    sw_status status = open_subject(&s);
    const bool input = status == SW_FORMAT || status == SW_IO;
    if (status == SW_OK)
        status = measure(&s);
    if (status == SW_OK && json != NULL)
        put_subject(json, &s);
    else if (status == SW_OK)
        print_subject(&s);
    const int code = status == SW_OK ? CLI_GO : cli_library_error(status, input);
    close_subject(&s);
    return code;
}

static int run_all(const place_opts *o, sw_json *json)
{
    int status = CLI_GO;
    for (int i = 0; i < FILES_MAX && o->files[i] != NULL && status == CLI_GO; i++)
        status = cli_interrupted() ? CLI_GO : run_one(o, o->files[i], json);
    if (status == CLI_GO && o->random > 0 && !cli_interrupted())
        status = run_one(o, NULL, json);
    return status;
}

static int run(const place_opts *o)
{
    cli_catch_interrupt();
    if (!o->json) {
        const int status = run_all(o, NULL);
        if (status != CLI_GO)
            return status;
        if (!o->quiet)
            printf("most heap at one time: %s\n", result_both(heap_peak()).text);
        return cli_finish(cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE);
    }
    sw_json json;
    result_json_begin(&json);
    if (o->capacity > 0)
        sw_json_put_u64(&json, "capacity", o->capacity);
    else
        sw_json_put_null(&json, "capacity");
    sw_json_open(&json, "problems", '[');
    const int status = run_all(o, &json);
    sw_json_end(&json);
    sw_json_put_u64(&json, "heap_peak_bytes", heap_peak());
    if (status == CLI_GO)
        return result_json_end(&json, cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE);
    sw_json_free(&json);
    return status;
}

int bench_place(int argc, char **argv)
{
    static place_opts o;
    const cli_option options[] = {
        {"--capacity", "SIZE", CLI_BYTES, &o.capacity, NULL,
         "find any placement that ends within this; without it, the lowest", 1, 0, NULL},
        {"--runs", "N", CLI_COUNT, &o.runs, "5", "times each way", 1, 1 << 20, NULL},
        {"--seeds", "N", CLI_COUNT, &o.seeds, "0",
         "seeds of the solver's orders, with each way", 0, 1 << 20, NULL},
        {"--nodes", "N", CLI_COUNT, &o.nodes, NULL, "most search nodes (default 1000000)", 1, 0,
         NULL},
        {"--threads", "N", CLI_COUNT, &o.threads, "1",
         "threads of the search; the answer does not depend on them", 1, 64, NULL},
        {"--random", "N", CLI_COUNT, &o.random, NULL,
         "also N random buffers with lifetimes as in training", 1, 1 << 24, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "only the tables", 0, 0, NULL},
    };
    const cli_command command = {
        .name = "bench place",
        .usage = "[FILE...] [options]",
        .about = "Solve the placement problems of the files as they are, with time reversed, "
                 "with the rows in random order, and with other seeds.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options),
        .operand = o.files,
        .max_operands = FILES_MAX,
        .notes = "Gaps are to the lower bound, the largest sum of sizes live at one time. "
                 "Times are the solver's alone.",
    };
    const int status = cli_parse(&command, argc, argv);
    if (status != CLI_GO)
        return status;
    if (o.files[0] == NULL && o.random == 0)
        return cli_error(CLI_USAGE, "FILE or --random N must be given");
    return run(&o);
}
