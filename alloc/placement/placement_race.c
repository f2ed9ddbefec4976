/* The exact search as a race: strategies that differ in orders, noise and length run side by
 * side, each with tables of its own, because what one does not find in a long time another
 * often finds at once.
 *
 * The first runs alone for a while. Then they run in rounds, up to the same number of nodes
 * each, twice as many as in the round before. In the first round in which any ends, the one
 * with the fewest nodes has won (the first of equals): so the answer depends neither on time
 * nor on the number of threads. A search that has taken more nodes than another that has ended
 * cannot win and stops. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "alloc/placement/placement_search_internal.h"

#define LEAD 4000u              /* nodes of the first strategy before the others begin */
#define FIRST_ROUND 500u        /* nodes of each strategy */
#define NODES_PER_STRATEGY 5000 /* who has less to spend runs fewer of them */
#define THREADS_MOST (N_STRATEGIES - 1)

/* Chosen on perturbed problems (bench place --perturbed): each places some that the others do
 * not. The last skips nothing, so that it can prove that there is no placement; bounds of parts
 * take it twice the time of others. */
static const swi_strategy strategies[] = {
    {{SWI_AREA, SWI_AREA_BYTES, SWI_BYTES, SWI_AREA_SPAN}, 4, true, false, 0.6, 500, 0.7},
    {{SWI_AREA_SPAN}, 1, true, false, 0.3, 500, 0.7},
    {{SWI_AREA, SWI_AREA_BYTES, SWI_BYTES, SWI_AREA_SPAN}, 4, true, false, 0.3, 1000, 0.7},
    {{SWI_AREA_BYTES}, 1, true, false, 0.3, 500, 0.7},
    {{SWI_SPAN}, 1, true, false, 0.3, 500, 0.7},
    {{SWI_AREA, SWI_AREA_BYTES, SWI_BYTES, SWI_AREA_SPAN}, 4, false, true, 0.3, 500, 1.0},
};

enum { N_STRATEGIES = sizeof strategies / sizeof *strategies };

typedef struct {
    swi_race shared;
    swi_search search[N_STRATEGIES];
    unsigned n, active; /* the first `active` of n run in this round */
    uint64_t most;      /* nodes of each by the end of this round */
    uint64_t lead;      /* that the first has taken before the others began */
} race;

bool swi_race_is_over(const swi_search *s)
{
    swi_race *r = s->race;
    if (atomic_load_explicit(&r->best, memory_order_relaxed) < s->total + s->nodes)
        return true;
    if (atomic_load_explicit(&r->stopped, memory_order_relaxed))
        return true;
    if (r->opts->stop == NULL || !r->opts->stop(r->opts->context))
        return false;
    atomic_store_explicit(&r->stopped, true, memory_order_relaxed);
    return true;
}

void swi_race_ended(const swi_search *s)
{
    uint_least64_t best = atomic_load(&s->race->best);
    while (s->total < best && !atomic_compare_exchange_weak(&s->race->best, &best, s->total))
        continue;
}

/* ---- rounds ------------------------------------------------------------------------------ */

static void run_some(void *arg)
{
    race *r = arg;
    for (;;) {
        const unsigned k = atomic_fetch_add(&r->shared.next, 1);
        if (k >= r->active)
            return;
        swi_search_run(&r->search[k], r->most);
    }
}

/* The others do the work of threads that cannot be started. */
static void run_round(race *r)
{
    sw_thread *threads[THREADS_MOST];
    const unsigned asked = r->shared.opts->threads;
    unsigned n = 0;
    atomic_store(&r->shared.next, 0);
    while (n + 1 < asked && n + 1 < r->active &&
           sw_thread_start(&threads[n], run_some, r, "place") == SW_OK)
        n++;
    run_some(r);
    while (n > 0)
        sw_thread_join(threads[--n]);
}

static const swi_search *winner_of(const race *r)
{
    const swi_search *best = NULL;
    for (unsigned k = 0; k < r->n; k++)
        if (r->search[k].outcome != SW_SEARCH_GAVE_UP &&
            (best == NULL || r->search[k].total < best->total))
            best = &r->search[k];
    return best;
}

/* A round of the first `active` up to `most` nodes each. *over: somebody has won, or the caller
 * has asked to stop. */
static sw_status try_round(race *r, unsigned active, uint64_t most, const swi_search **winner,
                           bool *over)
{
    r->active = active;
    r->most = most;
    run_round(r);
    for (unsigned k = 0; k < r->n; k++)
        SW_TRY(r->search[k].status);
    *winner = winner_of(r);
    *over = *winner != NULL || atomic_load(&r->shared.stopped);
    return SW_OK;
}

/* The first strategy alone, and where that was not enough all of them, from nothing. */
static sw_status run_rounds(race *r, const swi_search **winner)
{
    const uint64_t nodes = r->shared.opts->nodes;
    bool over;
    SW_TRY(try_round(r, 1, r->n > 1 ? LEAD : nodes, winner, &over));
    if (over || r->n == 1)
        return SW_OK;
    r->lead = r->search[0].total;
    r->search[0].total = 0;
    const uint64_t share = (nodes - r->lead) / r->n;
    for (uint64_t most = FIRST_ROUND;; most *= 2) {
        SW_TRY(try_round(r, r->n, most < share ? most : share, winner, &over));
        if (over || most >= share)
            return SW_OK;
    }
}

/* ---- the call ---------------------------------------------------------------------------- */

/* Nodes are those that one thread would take up to the winner's end, whatever was taken. */
static void write_result(const race *r, const swi_search *winner, sw_placement_item *items,
                         sw_search_result *out)
{
    out->nodes = r->lead;
    for (unsigned k = 0; k < r->active; k++)
        out->nodes += winner != NULL ? winner->total : r->search[k].total;
    if (winner == NULL)
        return;
    out->end = winner->outcome;
    if (out->end == SW_SEARCH_PROVED_NONE)
        out->proved = (size_t)((winner->roof + 1) * winner->unit);
    for (uint32_t i = 0; i < winner->n && out->end == SW_SEARCH_FOUND; i++) {
        SW_ASSERT(winner->placed[i] && winner->offset[i] + winner->bytes[i] <= winner->roof);
        items[i].offset = (size_t)(winner->offset[i] * winner->unit);
    }
}

static sw_status create_all(race *r, const sw_placement_item *items, size_t n)
{
    const sw_placement_opts *opts = r->shared.opts;
    const uint64_t affordable = opts->nodes / NODES_PER_STRATEGY;
    const unsigned wanted = affordable < N_STRATEGIES ? (unsigned)affordable : N_STRATEGIES;
    do {
        swi_search *s = &r->search[r->n];
        SW_TRY(swi_search_create(s, items, n, opts));
        s->noise += r->n;
        s->how = &strategies[r->n++];
        s->race = &r->shared;
    } while (r->n < wanted);
    return SW_OK;
}

sw_status sw_placement_search(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                              sw_search_result *out)
{
    *out = (sw_search_result){SW_SEARCH_GAVE_UP, 0, 0};
    if (n == 0 || n > SW_SEARCH_MOST || opts->capacity == 0)
        SW_FAIL(SW_INVALID, "placement search: the number of buffers must be 1 to %d (got %zu)",
                SW_SEARCH_MOST, n);
    const swi_search *winner = NULL;
    race r = {.shared = {.opts = opts, .best = UINT64_MAX}};
    sw_status status = create_all(&r, items, n);
    if (status == SW_OK)
        status = run_rounds(&r, &winner);
    if (status == SW_OK)
        write_result(&r, winner, items, out);
    for (unsigned k = 0; k < N_STRATEGIES; k++)
        swi_search_destroy(&r.search[k]);
    return status;
}
