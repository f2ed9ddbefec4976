/* bench place: the placement solver over files and a random problem.
 *
 * A problem is solved as it is, with time reversed and with its rows in random order, and in
 * each of these ways with other seeds: they ought to be equally hard. They take turns, round by
 * round. Every answer is checked; the check is not in the times. */
#include "alloc/base/mem.h"
#include "tools/bench/bench.h"
#include "tools/place/place.h"
#include <string.h>

/* A number below `below`, and the next state. */
static uint64_t dice(uint64_t *state, uint64_t below)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

/* Room for n rows in an empty problem; place_csv_free gives it back, after a failure too. */
static sw_status take(place_csv *csv, size_t n)
{
    void *block;
    csv->capacity = n;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, n * sizeof *csv->items));
    csv->items = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, 2 * n * sizeof *csv->times));
    csv->times = block;
    csv->n = n;
    return SW_OK;
}

/* n buffers with lifetimes as in training: per layer one that waits for its backward, one that
 * lives for a few layers, a temporary in forward and a gradient in backward. */
static sw_status random(place_csv *csv, size_t n)
{
    uint64_t state = 1;
    const uint64_t layers = n / 4 + 1, end = 2 * layers;
    SW_TRY(take(csv, n));
    for (size_t i = 0; i < n; i++) {
        const uint64_t layer = i / 4, back = end - 1 - layer;
        const uint64_t lower = i % 4 == 3 ? back : layer;
        const uint64_t length = i % 4 == 0   ? end - 2 * layer
                                : i % 4 == 1 ? 1 + dice(&state, 16)
                                             : 1 + dice(&state, 3);
        const uint64_t upper = lower + length < end ? lower + length : end;
        csv->times[2 * i] = lower;
        csv->times[2 * i + 1] = upper;
        csv->items[i].lower = (uint32_t)lower;
        csv->items[i].upper = (uint32_t)upper;
        csv->items[i].bytes = (1 + dice(&state, 8)) * ((size_t)SW_ALIGN << dice(&state, 10));
    }
    return SW_OK;
}

/* ---- ways -------------------------------------------------------------------------------- */

#define FILES_MAX 64

enum { AS_IT_IS, REVERSED, SHUFFLED, SEEDED, SOLVED = 2 * SEEDED, ALL_SEEDS = SOLVED, WAYS };
static const char *const names[WAYS] = {"as_it_is",       "reversed",       "shuffled", "seeds",
                                        "seeds_reversed", "seeds_shuffled", "all_seeds"};

static struct {
    const char *files[FILES_MAX];
    size_t capacity;
    int64_t runs, seeds, nodes, random;
} o;

/* clang-format off */
#define PLACE_ROW(X, t) \
    X(t, WORD, file, "", 16) \
    X(t, WORD, way, "", 14) \
    X(t, COUNT, buffers, "buffers", 8) \
    X(t, COUNT, lower_bound, NULL, 0) \
    X(t, NS, read_ns, NULL, 0) \
    X(t, NS, check_ns, NULL, 0) \
    X(t, SPREAD, solve, "", 0) \
    X(t, COUNT, height, NULL, 0) \
    X(t, COUNT, worst_height, NULL, 0) \
    X(t, REAL, gap_percent, "gap %", 0) \
    X(t, REAL, worst_gap_percent, "worst %", 0) \
    X(t, COUNT, n, "runs", 6) \
    X(t, COUNT, solved, "fit", 6) \
    X(t, COUNT, optimal, "optimum", 7)
/* clang-format on */
BENCH_ROW(row, fields, PLACE_ROW);

typedef struct {
    place_csv csv;  /* the problem */
    place_csv work; /* rows and times of its own: what is solved */
    unsigned threads;
    row rows[WAYS];
    cli_times times[WAYS];
} subject;

static void note(subject *s, int way, const place_answer *answer)
{
    row *r = &s->rows[way];
    const int64_t height = (int64_t)answer->checked.height;
    cli_times_add(&s->times[way], answer->solve_ns);
    r->height = r->n == 0 || height < r->height ? height : r->height;
    r->worst_height = height > r->worst_height ? height : r->worst_height;
    r->n++;
    r->solved += answer->holds;
    r->optimal += answer->optimal;
    for (int i = 0; i < WAYS; i++) {
        s->rows[i].lower_bound = (int64_t)answer->checked.lower_bound;
        s->rows[i].check_ns = (int64_t)answer->check_ns;
    }
}

static sw_status solve(subject *s, int way, uint64_t round)
{
    place_csv *work = &s->work;
    const bool seeded = way >= SEEDED;
    memcpy(work->items, s->csv.items, s->csv.n * sizeof *work->items);
    memcpy(work->times, s->csv.times, 2 * s->csv.n * sizeof *work->times);
    if (way % SEEDED == REVERSED) {
        /* The rows of `from` with time reversed; `to` has as many, and keeps sizes and
         * alignments. */
        uint64_t last = 0;
        uint32_t last_rank = 0;
        for (size_t i = 0; i < s->csv.n; i++) {
            last = s->csv.times[2 * i + 1] > last ? s->csv.times[2 * i + 1] : last;
            last_rank = s->csv.items[i].upper > last_rank ? s->csv.items[i].upper : last_rank;
        }
        for (size_t i = 0; i < s->csv.n; i++) {
            work->items[i].lower = last_rank - s->csv.items[i].upper;
            work->items[i].upper = last_rank - s->csv.items[i].lower;
            work->times[2 * i] = last - s->csv.times[2 * i + 1];
            work->times[2 * i + 1] = last - s->csv.times[2 * i];
        }
    }
    if (way % SEEDED == SHUFFLED) {
        uint64_t seed = round;
        for (size_t i = work->n; i > 1; i--) {
            const size_t j = dice(&seed, i);
            const sw_placement_item item = work->items[i - 1];
            work->items[i - 1] = work->items[j];
            work->items[j] = item;
            for (size_t k = 0; k < 2; k++) {
                const uint64_t time = work->times[2 * (i - 1) + k];
                work->times[2 * (i - 1) + k] = work->times[2 * j + k];
                work->times[2 * j + k] = time;
            }
        }
    }
    const place_request request = {.capacity = o.capacity,
                                   .nodes = (uint64_t)(o.nodes > 0 ? o.nodes : PLACE_NODES),
                                   .seed = seeded ? round + 1 : 0,
                                   .threads = s->threads};
    place_answer answer;
    SW_TRY(place_solve(work, &request, &answer));
    if (answer.interrupted) /* its time says nothing */
        return SW_OK;
    note(s, way, &answer);
    if (seeded)
        note(s, ALL_SEEDS, &answer);
    return SW_OK;
}

static sw_status solve_all(bench *b, subject *s, const char *name)
{
    const int64_t rounds = o.runs > o.seeds ? o.runs : o.seeds;
    const uint64_t start = cli_clock_ns();
    b->input = name != NULL;
    SW_TRY(name != NULL ? place_csv_read(&s->csv, name) : random(&s->csv, (size_t)o.random));
    b->input = false;
    const int64_t read_ns = (int64_t)(cli_clock_ns() - start);
    SW_TRY(take(&s->work, s->csv.n));
    for (int i = 0; i < WAYS; i++) {
        s->rows[i] = (row){
            .file = name, .way = names[i], .buffers = (int64_t)s->csv.n, .read_ns = read_ns};
        SW_TRY(cli_times_init(&s->times[i],
                              (uint64_t)(i == ALL_SEEDS ? SEEDED * rounds : rounds)));
    }
    for (int64_t round = 0; round < rounds; round++)
        for (int turn = 0; turn < SOLVED && !cli_interrupted(); turn++) {
            const int way = (int)((round + turn) % SOLVED);
            if (round < (way >= SEEDED ? o.seeds : o.runs))
                SW_TRY(solve(s, way, (uint64_t)round));
        }
    for (int i = 0; i < WAYS; i++) {
        row *r = &s->rows[i];
        const double bound = (double)r->lower_bound;
        r->solve = cli_times_summary(&s->times[i]);
        r->gap_percent = bench_percent((double)r->height - bound, bound);
        r->worst_gap_percent = bench_percent((double)r->worst_height - bound, bound);
        if (r->n > 0)
            bench_rows(b, "rows", fields, r, 1);
    }
    return SW_OK;
}

static sw_status run_one(bench *b, const char *name)
{
    subject s = {.threads = (unsigned)b->threads};
    const sw_status status = solve_all(b, &s, name);
    for (int i = 0; i < WAYS; i++)
        cli_times_free(&s.times[i]);
    place_csv_free(&s.csv);
    place_csv_free(&s.work);
    return status;
}

/* ---- the command ------------------------------------------------------------------------- */

/* The most that was taken from the heap at one time, of all problems together. */
static int64_t heap_peak(void)
{
    size_t sum = 0;
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)i, &stats);
        sum += stats.peak_bytes;
    }
    return (int64_t)sum;
}

static sw_status measure(bench *b)
{
    static const bench_field first[] = {{"capacity", BENCH_BYTES, 0, "capacity", 0}},
                             last[] = {{"heap_peak_bytes", BENCH_BYTES, 0,
                                        "most heap at one time", 0}};
    const int64_t capacity = o.capacity > 0 ? (int64_t)o.capacity : BENCH_NONE;
    bench_facts(b, first, &capacity);
    for (int i = 0; i < FILES_MAX && o.files[i] != NULL && !cli_interrupted(); i++)
        SW_TRY(run_one(b, o.files[i]));
    if (o.random > 0 && !cli_interrupted())
        SW_TRY(run_one(b, NULL));
    const int64_t peak = heap_peak();
    bench_facts(b, last, &peak);
    return SW_OK;
}

static int check(bench *b)
{
    (void)b;
    return o.files[0] == NULL && o.random == 0
               ? cli_error(CLI_USAGE, "FILE or --random N must be given")
               : CLI_GO;
}

static const cli_option options[] = {
    {"--capacity", "SIZE", CLI_BYTES, &o.capacity, NULL,
     "find any placement that ends within this; without it, the lowest", 1},
    BENCH_NUMBER("--runs", &o.runs, "5", "times each way", 1, 1 << 20),
    BENCH_NUMBER("--seeds", &o.seeds, "0", "seeds of the solver's orders, with each way", 0,
                 1 << 20),
    BENCH_NUMBER("--nodes", &o.nodes, NULL, "most search nodes (default 1000000)", 1, 0),
    BENCH_NUMBER("--random", &o.random, NULL,
                 "also N random buffers with lifetimes as in training", 1, 1 << 24),
};

const bench_command bench_place =
    SW_INIT(.name = "place", .line = "the placement solver over files and random buffers",
            .usage = "[FILE...] [options]",
            .about =
                "Solve the placement problems of the files as they are, with time reversed, "
                "with the rows in random order, and with other seeds.",
            .threads = "1", BENCH_OPTIONS(options), .files = o.files, .max_files = FILES_MAX,
            .check = check, .run = measure,
            .notes =
                "Gaps are to the lower bound, the largest sum of sizes live at one time. Times "
                "are the solver's alone; its answer does not depend on its threads.");
