/* bench search: searches of architectures, played again over a table of trained nets. */
#include "runtime/population/evolve/genome.h"
#include "runtime/population/evolve/search.h"
#include "tools/bench/search_table.h"
#include <string.h>

static struct {
    const char *files[1];
    const char *make, *data, *search;
    int64_t trainings, repeats, workers, looks, start, parents, population, seed;
    double fresh;
} o;

/* ---- strategies -------------------------------------------------------------------------- */

/* The first is what the others are compared with, the second by the same rungs and looks. */
typedef struct {
    const char *name;
    sw_search_kind kind;
    bool rungs;
} strategy;
static const strategy strategies[] = {
    {"random-whole", SW_SEARCH_RANDOM, false}, {"random", SW_SEARCH_RANDOM, true},
    {"ageing", SW_SEARCH_AGEING, true},        {"local", SW_SEARCH_LOCAL, true},
    {"ageing-whole", SW_SEARCH_AGEING, false}, {"local-whole", SW_SEARCH_LOCAL, false}};
enum { WHOLE, RANDOM, STRATEGIES = sizeof strategies / sizeof *strategies };
static const char *const words[] = {"all",   "random-whole", "random",      "ageing",
                                    "local", "ageing-whole", "local-whole", NULL};

static swi_search_opts options_of(const strategy *s, uint64_t seed)
{
    return (swi_search_opts)
        SW_INIT(.kind = s->kind, .rungs = s->rungs ? TABLE_RUNGS : 1, .eta = 3,
                .start = s->rungs ? (uint32_t)o.start : (uint32_t)(o.start + 1) / 2,
                .parents = s->kind == SW_SEARCH_AGEING ? 5 : (uint32_t)o.parents,
                .population = (uint32_t)o.population, .fresh = o.fresh,
                .looks = s == &strategies[WHOLE] ? 0 : (uint32_t)o.looks,
                .workers = (uint32_t)o.workers, .trainings = (uint64_t)o.trainings,
                .seed = seed);
}

/* ---- one replay -------------------------------------------------------------------------- */

/* Which net each candidate is, and which seed trains it. */
typedef struct {
    uint32_t net[1 << 16];
    uint8_t seed[1 << 16];
    bool tried[TABLE_NETS];
} replay;

/* A net of the grid that was not tried yet, where some draws find one. */
static uint32_t draw_net(const replay *r, swi_draws *d)
{
    uint32_t net = 0;
    for (int k = 0; k < 50; k++) {
        net = swi_draw_below(d, TABLE_NETS);
        if (!r->tried[net])
            break;
    }
    return net;
}

/* The same of those that differ in one axis. */
static uint32_t mutate(const replay *r, uint32_t parent, swi_draws *d)
{
    for (int k = 0; k < 50; k++) {
        const uint32_t axis = swi_draw_below(d, TABLE_AXES);
        uint32_t step = 1;
        for (uint32_t a = TABLE_AXES - 1; a > axis; a--)
            step *= (uint32_t)table_axis[a];
        const uint32_t n = (uint32_t)table_axis[axis], at = parent / step % n;
        const uint32_t to = (at + 1 + swi_draw_below(d, n - 1)) % n;
        const uint32_t net = parent - at * step + to * step;
        if (!r->tried[net])
            return net;
    }
    return draw_net(r, d);
}

static void begin(replay *r, const swi_job *next, uint64_t seed)
{
    swi_draws d = swi_draws_of(swi_draw_seed(seed, 1), next->id);
    r->seed[next->id] = (uint8_t)swi_draw_below(&d, TABLE_SEEDS);
    if (next->what == SWI_JOB_LOOK) {
        r->net[next->id] = r->net[next->of];
        r->seed[next->id] =
            (uint8_t)((r->seed[next->of] + 1 + swi_draw_below(&d, TABLE_SEEDS - 1)) %
                      TABLE_SEEDS);
        return;
    }
    r->net[next->id] =
        next->what == SWI_JOB_DRAW ? draw_net(r, &d) : mutate(r, r->net[next->of], &d);
    r->tried[r->net[next->id]] = true;
}

static double test_of(const search_table *t, uint32_t net)
{
    double right = 0;
    for (int seed = 0; seed < TABLE_SEEDS; seed++)
        right += t->nets[net].test[seed];
    return right / TABLE_SEEDS / (double)t->test;
}

/* *accuracy: the mean test accuracy of the search's answer. */
static sw_status play(const search_table *t, replay *r, const strategy *how, uint64_t seed,
                      double *accuracy, uint32_t *candidates)
{
    swi_search s;
    swi_job next;
    const swi_search_opts opts = options_of(how, seed);
    memset(r->tried, 0, sizeof r->tried);
    sw_status status = swi_search_begin(&s, &opts, "bench search");
    for (bool more = true; more && status == SW_OK;) {
        status = swi_search_ask(&s, &next);
        if (status == SW_OK && next.what != SWI_JOB_NONE) {
            if (next.what != SWI_JOB_GO_ON)
                begin(r, &next, seed);
            swi_search_plan(&s, &next, (double)t->nets[r->net[next.id]].operations);
            continue;
        }
        const uint32_t id = swi_search_next(&s);
        more = id != SWI_SEARCH_NONE;
        if (more && status == SW_OK) {
            const int rung =
                s.tries[id].look || opts.rungs == 1 ? TABLE_RUNGS - 1 : s.tries[id].rung + 1;
            swi_search_tell(&s, id, (double)t->nets[r->net[id]].validation[r->seed[id]][rung]);
        }
    }
    if (status == SW_OK) {
        *accuracy = test_of(t, r->net[swi_search_answer(&s)]);
        *candidates = s.n;
    }
    swi_search_end(&s);
    return status;
}

/* ---- rows -------------------------------------------------------------------------------- */

/* clang-format off */
#define SEARCH_ROW(X, t) \
    X(t, WORD, search, "", 14) \
    X(t, COUNT, repeats, "repeats", 0) \
    X(t, REAL, candidates, "candidates", 0) \
    X(t, REAL, regret_percent, "regret %", 0) \
    X(t, REAL, ratio, "of random", 0) \
    X(t, REAL, difference_percent, "to rungs %", 0) \
    X(t, REAL, interval_percent, "+-", 0)
/* clang-format on */
BENCH_ROW(row, fields, SEARCH_ROW);

typedef struct {
    replay replay;
    double regret[STRATEGIES][100000];
} memory;

static sw_status replay_one(const search_table *t, memory *m, int i, double best, row *out)
{
    double sum = 0, candidates = 0, of_random = 0, difference = 0, squares = 0;
    int64_t n = 0;
    for (; n < o.repeats && !cli_interrupted(); n++) {
        double accuracy;
        uint32_t made;
        SW_TRY(play(t, &m->replay, &strategies[i], swi_draw_seed((uint64_t)o.seed, (uint64_t)n),
                    &accuracy, &made));
        m->regret[i][n] = best - accuracy;
        sum += m->regret[i][n];
        of_random += m->regret[WHOLE][n];
        candidates += made;
        const double d = m->regret[i][n] - m->regret[i == WHOLE ? WHOLE : RANDOM][n];
        difference += d;
        squares += d * d;
    }
    const double x = (double)n, mean = difference / x;
    const double variance = n > 1 ? (squares - x * mean * mean) / (x - 1) : (double)NAN;
    *out =
        (row){.search = strategies[i].name,
              .repeats = n,
              .candidates = candidates / x,
              .regret_percent = 100 * sum / x,
              .ratio = bench_ratio(sum, of_random),
              .difference_percent = i > RANDOM ? 100 * mean : (double)NAN,
              .interval_percent = i > RANDOM ? 100 * 1.96 * sqrt(variance / x) : (double)NAN};
    return SW_OK;
}

static sw_status replay_all(bench *b, const search_table *t)
{
    memory *m;
    double best = 0, oracle = 0, most = -1;
    for (uint32_t net = 0; net < TABLE_NETS; net++) {
        double seen = 0;
        for (int seed = 0; seed < TABLE_SEEDS; seed++)
            seen += t->nets[net].validation[seed][TABLE_RUNGS - 1];
        best = fmax(best, test_of(t, net));
        oracle = seen > most ? test_of(t, net) : oracle;
        most = fmax(most, seen);
    }
    bench_note(b, "%s: the best net has %.2f %%, that of all validations %.2f %%", t->data,
               100 * best, 100 * oracle);
    SW_TRY(sw_heap_alloc(&m, SW_HEAP_RECORDS, sizeof *m));
    sw_status status = SW_OK;
    for (int i = 0; i < STRATEGIES && status == SW_OK && !cli_interrupted(); i++) {
        row r;
        if (i > RANDOM && strcmp(o.search, "all") != 0 &&
            strcmp(o.search, strategies[i].name) != 0)
            continue;
        status = replay_one(t, m, i, best, &r);
        if (status == SW_OK)
            bench_rows(b, "rows", fields, &r, 1);
    }
    sw_heap_free(m, SW_HEAP_RECORDS, sizeof *m);
    return status;
}

static sw_status measure(bench *b)
{
    search_table t = {.n = 0};
    b->input = true;
    sw_status status = o.make != NULL ? table_make(&t, o.make, o.data, (int)b->threads)
                                      : table_read(&t, o.files[0], NULL);
    if (status == SW_OK && t.n < TABLE_NETS && !cli_interrupted())
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__,
                              "%s: has %u of %d nets; --make goes on with it", o.files[0], t.n,
                              TABLE_NETS);
    b->input = status != SW_OK;
    if (status == SW_OK && t.n == TABLE_NETS)
        status = replay_all(b, &t);
    table_free(&t);
    return status;
}

static int check(bench *b)
{
    (void)b;
    if ((o.files[0] == NULL) == (o.make == NULL))
        return cli_error(CLI_USAGE, "FILE or --make FILE must be given");
    return o.looks < o.trainings ? CLI_GO
                                 : cli_error(CLI_USAGE, "--looks must be below --trainings");
}

static const cli_option options[] = {
    {"--make", "FILE", CLI_WORD, &o.make, NULL,
     "train the nets that this table does not have, and begin it where it is not there"},
    {"--data", "SOURCE", CLI_WORD, &o.data, "synthetic", "with --make: synthetic, or idx:DIR"},
    BENCH_NAME("--search", &o.search, "all", "which searches stand beside those at random",
               words),
    BENCH_NUMBER("--trainings", &o.trainings, "20", "whole trainings that a search may take", 1,
                 1000),
    BENCH_NUMBER("--repeats", &o.repeats, "200", "of each search", 1, 100000),
    BENCH_NUMBER("--workers", &o.workers, "1", "candidates in training at one time", 1, 1024),
    BENCH_NUMBER("--looks", &o.looks, "4", "second looks: trainings from scratch of the best",
                 0, 100),
    BENCH_NUMBER("--start", &o.start, "16", "draws before the first child", 1, 10000),
    BENCH_NUMBER("--parents", &o.parents, "2", "local: a child has one of the best N", 1, 1000),
    BENCH_NUMBER("--population", &o.population, "20", "ageing: the newest N may have children",
                 1, 1000),
    {"--fresh", "X", CLI_REAL, &o.fresh, "0.1", "share of draws among later candidates", 0, 1},
    BENCH_NUMBER("--seed", &o.seed, "1", "of the repeats", 0, INT64_MAX),
};

const bench_command bench_search = SW_INIT(
        .name = "search", .line = "searches of architectures over a table of trained nets",
        .usage = "FILE [options]",
        .about =
            "Compare searches of architectures, each repeated many times, over a table that "
            "says what every net of a closed grid reaches.",
        .notes =
            "A search sees the validation accuracy of one seed, drawn anew for each "
            "candidate; its answer is judged by the test accuracy over all seeds. Regret: "
            "what that lacks of the table's best. Repeats are paired: those of one number "
            "begin with the same draws. `to rungs` is the difference to draws with the same "
            "rungs and second looks, with its 95 % interval.\n"
            "The nets: a stem of 8, 16 or 24 channels, two cells (none, a convolution, a "
            "separable one, a residual one), with or without norms, relu, swish or elu, a "
            "mean or all pixels at the end. --make takes some ten minutes on two cores; "
            "Ctrl-C keeps what was trained, and the same command goes on.\n"
            "Example: stepwell bench search --make digits.jsonl && stepwell bench search "
            "digits.jsonl",
        BENCH_OPTIONS(options), .files = o.files, .max_files = 1, .check = check,
        .run = measure);
