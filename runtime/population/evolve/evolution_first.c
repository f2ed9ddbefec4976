/* The first population: genomes that were given, then draws, each the first of a hundred that
 * fits beside those before it. Where one has none, all are the smallest of their draws; if
 * not even these fit, what they need is the least budget. */
#include "runtime/population/evolve/evolution.h"

enum { MOST_DRAWS = 100 };

/* A genome by its birth. */
static sw_status take_genome(sw_evolution *e, swi_one *one)
{
    const swi_birth *b = &one->birth;
    const uint64_t of_all = swi_draw_seed(e->opts.seed, UINT64_MAX);
    const uint64_t number = (uint64_t)b->index * MOST_DRAWS + b->attempt;
    if (b->how == SWI_BORN_FIRST)
        SW_TRY(sw_genome_copy(&one->genome, e->opts.first[b->index]));
    else
        SW_TRY(sw_genome_draw(&one->genome, e->space, &e->task, swi_draw_seed(of_all, number)));
    swi_genome_forget(one->genome);
    return SW_OK;
}

static void drop_genome(swi_one *one)
{
    swi_one_close(one);
    swi_genome_free(one->genome);
    one->genome = NULL;
}

/* Open that attempt; *there false: its batch is larger than the data set. A genome that was
 * given is refused then. */
static sw_status open_attempt(sw_evolution *e, swi_one *one, uint32_t attempt, bool *there)
{
    one->birth.attempt = attempt;
    SW_TRY(take_genome(e, one));
    *there = one->genome->batch <= e->n_train || one->birth.how == SWI_BORN_FIRST;
    if (*there)
        return swi_one_open(e, one);
    drop_genome(one);
    return SW_OK;
}

static uint32_t attempts_of(const swi_one *one)
{
    return one->birth.how == SWI_BORN_FIRST ? 1 : MOST_DRAWS;
}

static void begin(sw_evolution *e, uint32_t i, const swi_limits *limits)
{
    swi_one *one = &e->members[i];
    swi_one_free(e, one);
    one->id = i + 1;
    one->birth = (swi_birth){.how = i < e->opts.n_first ? SWI_BORN_FIRST : SWI_BORN_DRAWN,
                             .index = i,
                             .limits = *limits};
}

static sw_status find_fitting(sw_evolution *e, swi_one *one, bool *accepted)
{
    bool there;
    *accepted = false;
    for (uint32_t attempt = 0; attempt < attempts_of(one); attempt++) {
        SW_TRY(open_attempt(e, one, attempt, &there));
        if (!there)
            continue;
        *accepted = swi_candidate_fits(e, &one->birth.limits, one);
        if (*accepted)
            return SW_OK;
        drop_genome(one);
    }
    return SW_OK;
}

/* ---- the smallest ------------------------------------------------------------------------ */

static sw_status find_smallest(sw_evolution *e, swi_one *one)
{
    const swi_limits alone = swi_limits_begin(e);
    size_t least = SIZE_MAX;
    uint32_t best = UINT32_MAX;
    bool there;
    for (uint32_t attempt = 0; attempt < attempts_of(one); attempt++) {
        SW_TRY(open_attempt(e, one, attempt, &there));
        if (!there)
            continue;
        const size_t bytes = e->opts.candidate_bytes > 0 ? one->price.peak_bytes
                                                         : swi_limits_bytes(&alone, one->need);
        best = bytes < least ? attempt : best;
        least = bytes < least ? bytes : least;
        drop_genome(one);
    }
    if (best == UINT32_MAX)
        SW_FAIL(SW_INVALID,
                "sw_evolution_create: the space draws batches above the %lld samples of the "
                "training set alone",
                (long long)e->n_train);
    return open_attempt(e, one, best, &there);
}

static sw_status populate_smallest(sw_evolution *e)
{
    swi_limits limits = swi_limits_begin(e);
    const size_t most = e->opts.candidate_bytes;
    for (uint32_t i = 0; i < e->opts.population; i++) {
        swi_one *one = &e->members[i];
        begin(e, i, &limits);
        SW_TRY(find_smallest(e, one));
        if (most > 0 && one->price.peak_bytes > most)
            SW_FAIL(SW_NOMEM,
                    "sw_evolution_create: candidate_bytes must be at least %zu (got %zu), for "
                    "%s genome for member %u needs as many",
                    one->price.peak_bytes, most,
                    one->birth.how == SWI_BORN_FIRST ? "the given" : "the smallest drawn",
                    i + 1);
        limits.most = swi_need_most(limits.most, one->need);
    }
    const size_t bytes = swi_limits_bytes(&limits, limits.most);
    if (bytes > limits.room)
        SW_FAIL(SW_NOMEM,
                "sw_evolution_create: the smallest genomes drawn for %u members need %zu bytes "
                "of the budget, %zu are there; raise the budget by %zu, or lower sizes, "
                "batches or threads",
                e->opts.population, bytes, limits.room, bytes - limits.room);
    return SW_OK;
}

sw_status swi_evolution_populate(sw_evolution *e)
{
    swi_limits limits = swi_limits_begin(e);
    e->next_id = (uint64_t)e->opts.population + 1;
    for (uint32_t i = 0; i < e->opts.population; i++) {
        bool accepted;
        begin(e, i, &limits);
        SW_TRY(find_fitting(e, &e->members[i], &accepted));
        if (!accepted)
            return populate_smallest(e);
        limits.most = swi_need_most(limits.most, e->members[i].need);
    }
    return SW_OK;
}
