/* See placement_families.h. Problem k is of kind k mod 7, from files and found placements that
 * its number chooses. All problems have a placement under their roof; the solver is not told
 * which. */
#include "tools/bench/placement_families.h"
#include "tools/bench/bench.h"
#include "tools/bench/perturb.h"
#include "tools/bench/problems.h"

#define LATE_NS UINT64_C(2000000000)
#define LISTED 64   /* of those that were late or not placed */
#define FOUND 4     /* placements of each file, by as many seeds of the solver */
#define SOURCES 256 /* placements of all files */

typedef struct {
    const char *name;
    cli_times times; /* of those that were placed */
    cli_times nodes; /* of all */
    cli_summary time, node;
    size_t least, most; /* buffers */
    uint64_t n, placed, late;
} family;

typedef struct {
    uint64_t number, ns;
    perturb_kind kind;
    size_t n;
    bool placed;
} missed;

typedef struct {
    const families_opts *opts;
    place_csv sources[SOURCES];
    size_t roofs[SOURCES], n_sources;
    place_csv problem;
    family of[PERTURB_KINDS + 1]; /* the last: all */
    missed missed[LISTED];
    size_t n_missed;
} families;

/* ---- what is solved ---------------------------------------------------------------------- */

static sw_status solve(const families *f, place_csv *csv, size_t capacity, uint64_t nodes,
                       uint64_t seed, place_answer *answer)
{
    const place_request request = {.capacity = capacity,
                                   .nodes = nodes,
                                   .seed = seed,
                                   .threads = (unsigned)f->opts->threads};
    return place_solve(csv, &request, answer);
}

/* The placements of one file; those that are above the capacity are left out. */
static sw_status add_sources(families *f, const char *file)
{
    for (uint64_t seed = 0; seed < FOUND && f->n_sources < SOURCES; seed++) {
        place_csv *csv = &f->sources[f->n_sources];
        place_answer answer;
        SW_TRY(place_csv_read(csv, file));
        f->n_sources++;
        SW_TRY(solve(f, csv, f->opts->capacity, PLACE_NODES, seed, &answer));
        f->roofs[f->n_sources - 1] =
            f->opts->capacity > 0 ? f->opts->capacity : answer.checked.height;
        if (answer.holds && csv->n <= PERTURB_MOST / 2)
            continue;
        place_csv_free(csv);
        f->n_sources--;
    }
    return SW_OK;
}

static sw_status make(families *f, uint64_t number, perturb_kind kind, size_t *roof)
{
    uint64_t dice = number;
    const size_t a = problem_dice(&dice, f->n_sources), b = problem_dice(&dice, f->n_sources);
    return perturb_make(&f->problem, roof, &f->sources[a], f->roofs[a], &f->sources[b],
                        f->roofs[b], kind, dice);
}

/* ---- counting ---------------------------------------------------------------------------- */

static void count(family *to, const place_answer *a, size_t n)
{
    to->least = to->n == 0 || n < to->least ? n : to->least;
    to->most = n > to->most ? n : to->most;
    to->n++;
    cli_times_add(&to->nodes, a->result.nodes);
    to->placed += a->holds;
    to->late += a->holds && a->solve_ns > LATE_NS;
    if (a->holds)
        cli_times_add(&to->times, a->solve_ns);
}

static sw_status solve_one(families *f, uint64_t number)
{
    const perturb_kind kind = (perturb_kind)(number % PERTURB_KINDS);
    place_answer a;
    size_t roof;
    SW_TRY(make(f, number, kind, &roof));
    for (size_t i = 0; i < f->problem.n; i++)
        f->problem.items[i].offset = 0;
    const uint64_t nodes = f->opts->nodes > 0 ? (uint64_t)f->opts->nodes : PLACE_NODES;
    SW_TRY(solve(f, &f->problem, roof, nodes, 0, &a));
    if (a.interrupted)
        return SW_OK;
    count(&f->of[kind], &a, f->problem.n);
    count(&f->of[PERTURB_KINDS], &a, f->problem.n);
    if ((!a.holds || a.solve_ns > LATE_NS) && f->n_missed++ < LISTED)
        f->missed[f->n_missed - 1] = (missed){number, a.solve_ns, kind, f->problem.n, a.holds};
    return SW_OK;
}

static sw_status solve_all(families *f)
{
    const families_opts *o = f->opts;
    for (int i = 0; i < o->n_files && o->files[i] != NULL; i++)
        SW_TRY(add_sources(f, o->files[i]));
    if (f->n_sources == 0)
        SW_FAIL(SW_INVALID, "none of the files has a placement that could be changed");
    SW_TRY(problem_take(&f->problem, PERTURB_MOST));
    for (int k = 0; k <= PERTURB_KINDS; k++) {
        f->of[k].name = k < PERTURB_KINDS ? perturb_name((perturb_kind)k) : "all";
        SW_TRY(cli_times_init(&f->of[k].times, (uint64_t)o->perturbed));
        SW_TRY(cli_times_init(&f->of[k].nodes, (uint64_t)o->perturbed));
    }
    for (int64_t i = 0; i < o->perturbed && !cli_interrupted(); i++)
        SW_TRY(solve_one(f, (uint64_t)(o->first + i)));
    for (int k = 0; k <= PERTURB_KINDS; k++) {
        f->of[k].time = cli_times_summary(&f->of[k].times);
        f->of[k].node = cli_times_summary(&f->of[k].nodes);
    }
    return SW_OK;
}

/* ---- showing ----------------------------------------------------------------------------- */

static void print_all(const families *f)
{
    printf("%-10s %6s %9s %7s %7s %10s %10s %10s %10s %12s\n", "", "n", "buffers", "placed",
           "in 2 s", "median", "99 %", "max", "nodes", "most nodes");
    for (int k = 0; k <= PERTURB_KINDS; k++) {
        const family *one = &f->of[k];
        char buffers[32];
        snprintf(buffers, sizeof buffers, "%zu-%zu", one->least, one->most);
        if (one->n > 0)
            printf("%-10s %6llu %9s %7llu %7llu %10s %10s %10s %10s %12s\n", one->name,
                   (unsigned long long)one->n, buffers, (unsigned long long)one->placed,
                   (unsigned long long)(one->placed - one->late), cli_ns(one->time.median).text,
                   cli_ns(one->time.p99).text, cli_ns(one->time.max).text,
                   cli_digits(one->node.median).text, cli_digits(one->node.max).text);
    }
    for (size_t i = 0; i < f->n_missed && i < LISTED && !f->opts->quiet; i++) {
        const missed *m = &f->missed[i];
        printf("  problem %llu, %s, %zu buffers: %s after %s\n", (unsigned long long)m->number,
               perturb_name(m->kind), m->n, m->placed ? "placed" : "not placed",
               cli_ns(m->ns).text);
    }
    if (f->n_missed > LISTED && !f->opts->quiet)
        printf("  and %zu more\n", f->n_missed - LISTED);
}

static void put_all(sw_json *json, const families *f)
{
    sw_json_open(json, "families", '{');
    for (int k = 0; k <= PERTURB_KINDS; k++) {
        const family *one = &f->of[k];
        sw_json_open(json, one->name, '{');
        sw_json_put_u64(json, "n", one->n);
        sw_json_put_u64(json, "placed", one->placed);
        sw_json_put_u64(json, "late", one->late);
        sw_json_put_u64(json, "least_buffers", one->least);
        sw_json_put_u64(json, "most_buffers", one->most);
        bench_put(json, "solve", &one->time);
        sw_json_put_u64(json, "median_nodes", one->node.median);
        sw_json_put_u64(json, "most_nodes", one->node.max);
        sw_json_end(json);
    }
    sw_json_end(json);
    sw_json_open(json, "missed", '[');
    for (size_t i = 0; i < f->n_missed && i < LISTED; i++) {
        const missed *m = &f->missed[i];
        sw_json_begin(json, '{');
        sw_json_put_u64(json, "problem", m->number);
        sw_json_put_string(json, "kind", perturb_name(m->kind));
        sw_json_put_u64(json, "buffers", m->n);
        sw_json_put_bool(json, "placed", m->placed);
        sw_json_put_u64(json, "solve_ns", m->ns);
        sw_json_end(json);
    }
    sw_json_end(json);
}

int families_run(const families_opts *opts, sw_json *json)
{
    static families f;
    f = (families){.opts = opts};
    const sw_status status = solve_all(&f);
    const bool input = status == SW_FORMAT || status == SW_IO;
    if (status == SW_OK && json != NULL)
        put_all(json, &f);
    else if (status == SW_OK)
        print_all(&f);
    for (int k = 0; k <= PERTURB_KINDS; k++) {
        cli_times_free(&f.of[k].times);
        cli_times_free(&f.of[k].nodes);
    }
    for (size_t i = 0; i < f.n_sources; i++)
        place_csv_free(&f.sources[i]);
    place_csv_free(&f.problem);
    return status == SW_OK ? CLI_GO : cli_library_error(status, input);
}
