/* A search over several processes.
 *
 * Every rank has all of it: candidates are made and priced by each, from the same scores in the
 * same order, so that all decide alike. One of them has a candidate in training. After each
 * turn, which is about a call of one process, all say whether the one that ends next is over,
 * and what came of it. A state rests with rank 0, which has the files: it goes there from its
 * owner, and back to the one that trains it on. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include <inttypes.h>
#include <string.h>

/* A rank says this after a turn. The results count where the candidate is over with it. */
typedef struct {
    uint64_t turn, hash; /* of the genome that all wait for */
    uint64_t steps, measured, ns_per_sample;
    double fitness, loss, accuracy, train_accuracy;
    uint32_t stop, over, invalid, reserved;
} word;

size_t swi_evolution_ranks_bytes(const swi_ranks *ranks)
{
    const int n = swi_ranks_size(ranks);
    return n > 1 ? swi_ranks_bytes(n) + (size_t)n * sizeof(word) : 0;
}

sw_status swi_evolution_join(sw_evolution *e, swi_ranks *ranks)
{
    swi_option list[SWI_EVOLUTION_OPTIONS];
    if (ranks == NULL)
        return SW_OK;
    SW_ASSERT(e->opts.dir != NULL && !e->begun && e->n == 0);
    swi_evolution_options(e, list);
    for (int i = 0; i < SWI_EVOLUTION_OPTIONS; i++)
        SW_TRY(swi_ranks_same(ranks, list[i].name, list[i].value));
    SW_TRY(swi_ranks_same(ranks, "threads of a candidate", (uint64_t)e->threads));
    SW_TRY(swi_ranks_same(ranks, "memory budget", swi_evolution_room(e)));
    e->said_bytes = (size_t)swi_ranks_size(ranks) * sizeof(word);
    SW_TRY(sw_heap_alloc(&e->said, SW_HEAP_RECORDS, e->said_bytes));
    e->ranks_bytes = swi_evolution_ranks_bytes(ranks);
    e->ranks = ranks;
    return SW_OK;
}

/* ---- who has whom ------------------------------------------------------------------------ */

/* Planned operations of its training that are left, by the clock of the search. */
static double left_of(const sw_evolution *e, uint32_t i)
{
    return e->search.tries[i].ends - e->search.now;
}

/* The longest first, to the rank with the least to do; each has at most its share of all that
 * may be in training, so that memory is known. Of equals the first one. */
void swi_ranks_deal(sw_evolution *e)
{
    const int ranks = swi_ranks_size(e->ranks);
    const uint32_t most = (swi_evolution_width(e) + (uint32_t)ranks - 1) / (uint32_t)ranks;
    double work[SWI_RANKS_MOST] = {0};
    uint32_t has[SWI_RANKS_MOST] = {0}, n = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        const swi_one *one = e->ones[i];
        if (one->training && one->placed) {
            work[one->owner] += left_of(e, i);
            has[one->owner]++;
        } else if (one->training)
            e->in_training[n++] = i;
    }
    for (; n > 0; n--) {
        uint32_t longest = 0;
        int to = -1;
        for (uint32_t k = 1; k < n; k++)
            if (left_of(e, e->in_training[k]) > left_of(e, e->in_training[longest]))
                longest = k;
        for (int k = 0; k < ranks; k++)
            if (has[k] < most && (to < 0 || work[k] < work[to]))
                to = k;
        SW_ASSERT(to >= 0);
        const uint32_t i = e->in_training[longest];
        e->ones[i]->owner = to;
        work[to] += left_of(e, i);
        has[to]++;
        memmove(&e->in_training[longest], &e->in_training[longest + 1],
                (n - longest - 1) * sizeof *e->in_training);
    }
}

/* ---- turns ------------------------------------------------------------------------------- */

static word word_of(sw_evolution *e, swi_one *one, bool over)
{
    word own = {.turn = ++e->turns, .hash = one->hash};
    if (e->opts.stop != NULL)
        own.stop = (uint32_t)e->opts.stop(e->opts.stop_user);
    if (!swi_is_mine(e, one) || !over)
        return own;
    swi_one_judge(e, one);
    if (one->measured > e->own_measured)
        e->own_measured = one->measured;
    if (one->price.peak_bytes > e->own_predicted && one->measured > 0)
        e->own_predicted = one->price.peak_bytes;
    own.over = 1;
    own.steps = one->steps;
    own.measured = one->measured;
    own.ns_per_sample = one->ns_per_sample;
    own.fitness = one->fitness;
    own.loss = one->loss;
    own.accuracy = one->accuracy;
    own.train_accuracy = one->train_accuracy;
    own.invalid = one->invalid;
    return own;
}

static void take(swi_one *one, const word *its)
{
    one->steps = its->steps;
    one->measured = (size_t)its->measured;
    one->ns_per_sample = its->ns_per_sample;
    one->fitness = its->fitness;
    one->loss = its->loss;
    one->accuracy = its->accuracy;
    one->train_accuracy = its->train_accuracy;
    one->invalid = its->invalid != 0;
}

sw_status swi_ranks_turn(sw_evolution *e, uint32_t next, bool *over)
{
    swi_one *one = e->ones[next];
    const word own = word_of(e, one, *over), *all = e->said;
    SW_TRY(swi_ranks_gather(e->ranks, &own, sizeof own, e->said));
    for (int k = 0; k < swi_ranks_size(e->ranks); k++) {
        if (all[k].turn != own.turn || all[k].hash != own.hash)
            SW_FAIL(SW_IO,
                    "rank %d is in turn %" PRIu64 " of candidate %016" PRIx64
                    ", rank %d in turn %" PRIu64 " of %016" PRIx64,
                    k, all[k].turn, all[k].hash, swi_ranks_rank(e->ranks), own.turn, own.hash);
        e->stop |= (int)all[k].stop;
    }
    *over = all[one->owner].over != 0;
    if (!*over)
        return SW_OK;
    if (!swi_is_mine(e, one))
        take(one, &all[one->owner]);
    /* Why it is invalid is kept, and said, by rank 0. */
    return one->invalid ? swi_ranks_copy(e->ranks, one->owner, 0, one->why, sizeof one->why)
                        : SW_OK;
}

sw_status swi_ranks_no_room(const sw_evolution *e)
{
    SW_FAIL(SW_NOMEM,
            "%s; %zu bytes of the budget are for exchanges of ranks: raise it, or go on with "
            "one process",
            sw_last_error(), e->ranks_bytes);
}

/* ---- states and texts -------------------------------------------------------------------- */

sw_status swi_ranks_first(sw_evolution *e, sw_status status)
{
    int32_t of = (int32_t)status;
    if (e->ranks == NULL)
        return status;
    SW_TRY(swi_ranks_share(e->ranks, &of, sizeof of));
    if (of != SW_OK && swi_ranks_rank(e->ranks) > 0)
        SW_FAIL((sw_status)of, "rank 0 does not have the state of a candidate");
    return (sw_status)of;
}

sw_status swi_ranks_fetch(sw_evolution *e, swi_one *one, unsigned char *range)
{
    void *block = NULL;
    const size_t n = one->need.member;
    const bool first = swi_ranks_rank(e->ranks) == 0;
    if (first && range == NULL)
        SW_TRY(swi_charged_take(e, &block, n, &e->scratch_bytes));
    unsigned char *to = block != NULL ? block : range;
    sw_status status = SW_OK;
    if (first)
        status = one->rest.there ? swi_rest_get(e, one, to) : SW_FORMAT;
    status = swi_ranks_first(e, status);
    if (status == SW_OK)
        status = swi_ranks_copy(e->ranks, 0, one->owner, to, n);
    swi_charged_give(e, block, n, &e->scratch_bytes);
    return status;
}

sw_status swi_ranks_text(sw_evolution *e, char **text, size_t *bytes)
{
    uint64_t n[2] = {*text != NULL, *bytes};
    if (e->ranks == NULL)
        return SW_OK;
    SW_TRY(swi_ranks_share(e->ranks, n, sizeof n));
    if (n[0] == 0)
        return SW_OK;
    if (*text == NULL)
        SW_TRY(sw_heap_alloc(text, SW_HEAP_RECORDS, (size_t)n[1] + 1));
    *bytes = (size_t)n[1];
    return swi_ranks_share(e->ranks, *text, *bytes);
}
