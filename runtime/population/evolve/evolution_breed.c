/* A candidate is made: its genome, drawn or as a mutant, until one fits; what it takes, which
 * is known from plans before it has a byte of tensor memory; and its first weights. All of it
 * is a function of the seed, of its position, of its parent, and of what was accepted before.
 */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The largest growth that fits: all sizes by one share, found by bisection. */

#define STEPS 10 /* of bisection: a 1024th of the range */

typedef struct {
    sw_genome *best; /* the largest that fits; NULL: none */
    uint64_t best_hash, least_refused;
    double share;
    bool exact;
} growth;

static sw_status wish_all(swi_child *c, double share, uint32_t *n)
{
    const sw_genome *g = c->before;
    *n = 0;
    SW_TRY(sw_heap_reserve(&c->wishes, SW_HEAP_RECORDS, &c->wishes_cap, g->n));
    for (uint32_t v = 0; v < g->n; v++) {
        const int64_t size = g->vertices[v].size;
        const int64_t to = swi_can_size(g, v) ? swi_size_by(c, size, share) : size;
        if (to != size)
            c->wishes[(*n)++] = (swi_wish){.vertex = v, .size = to};
    }
    return SW_OK;
}

/* c->genome as `before`, grown. SW_UNSUPPORTED: it cannot, or nothing grew. */
static sw_status grow_by(swi_child *c, double share, bool *exact)
{
    uint32_t n;
    swi_align_info info = {0};
    SW_TRY(wish_all(c, share, &n));
    if (n == 0)
        SW_FAIL(SW_UNSUPPORTED, "no size grows by a share of %g", share);
    swi_genome_free(c->genome);
    c->genome = NULL;
    SW_TRY(sw_genome_copy(&c->genome, c->before));
    SW_TRY(swi_child_align(c, c->wishes, n, NULL, 0, &info));
    if (info.added == 0)
        SW_FAIL(SW_UNSUPPORTED, "no size grows by a share of %g", share);
    *exact = info.dropped == 0 && swi_growth_is_exact(c->genome, c->before);
    return swi_genome_check(c->genome, NULL);
}

/* Does it fit when it is grown by that? The same is not asked twice. */
static sw_status try_share(swi_child *c, growth *best, double share, bool *fits)
{
    bool exact = false;
    const sw_status status = grow_by(c, share, &exact);
    *fits = false;
    if (status == SW_UNSUPPORTED || status == SW_INVALID)
        return SW_OK;
    SW_TRY(status);
    const uint64_t hash = swi_genome_hash(c->genome);
    *fits = best->best != NULL && hash == best->best_hash;
    if (*fits || hash == best->least_refused)
        return SW_OK;
    SW_TRY(swi_child_fits(c, c->genome, fits));
    if (!*fits) {
        best->least_refused = hash;
        return SW_OK;
    }
    swi_genome_free(best->best);
    best->best = c->genome;
    c->genome = NULL;
    best->best_hash = hash;
    best->share = share;
    best->exact = exact;
    return SW_OK;
}

static sw_status bisect(swi_child *c, growth *best, double low, double high)
{
    bool fits;
    SW_TRY(try_share(c, best, high, &fits));
    if (fits)
        return SW_OK;
    for (int i = 0; i < STEPS; i++) {
        const double middle = low + (high - low) / 2;
        SW_TRY(try_share(c, best, middle, &fits));
        *(fits ? &low : &high) = middle;
    }
    return SW_OK;
}

sw_status swi_grow(swi_child *c, const sw_mutation *m, uint32_t vertex, swi_change_note *note)
{
    growth best = {0};
    double low, high;
    (void)vertex;
    swi_mutation_range(m, &low, &high);
    sw_status status = bisect(c, &best, low, high);
    if (status == SW_OK && best.best == NULL && low > 0) {
        bool fits;
        status = try_share(c, &best, low, &fits);
    }
    if (status == SW_OK && best.best == NULL)
        status = sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__, "no growth fits");
    if (best.best != NULL) {
        swi_genome_free(c->genome);
        c->genome = best.best;
        c->asked = true;
    }
    note->exact = best.exact;
    if (status == SW_OK)
        snprintf(note->text, sizeof note->text, "all sizes by %.1f %%: %llu to %llu parameters",
                 100 * best.share, (unsigned long long)swi_genome_parameters(c->before),
                 (unsigned long long)swi_genome_parameters(c->genome));
    return status;
}

/* ---- feeds ------------------------------------------------------------------------------- */

static sw_status feed_get(sw_evolution *e, const sw_dataset *dataset, int64_t batch,
                          const sw_feed **out)
{
    const bool train = dataset == e->opts.train;
    for (uint32_t i = 0; i < e->n_feeds; i++)
        if (e->feeds[i].dataset == dataset && e->feeds[i].batch == batch) {
            *out = e->feeds[i].feed;
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&e->feeds, SW_HEAP_RECORDS, &e->cap_feeds, e->n_feeds + 1));
    const sw_feed_opts opts =
        SW_OPTS(sw_feed_opts, .batch = batch, .shuffle = train, .drop_last = train);
    swi_kept_feed kept = {.dataset = dataset, .batch = batch};
    SW_TRY(sw_feed_create(&kept.feed, dataset, &opts));
    *out = kept.feed;
    e->feeds[e->n_feeds++] = kept;
    return SW_OK;
}

void swi_feeds_free(sw_evolution *e)
{
    for (uint32_t i = 0; i < e->n_feeds; i++)
        swi_feed_free(e->feeds[i].feed);
    sw_heap_free(e->feeds, SW_HEAP_RECORDS, e->cap_feeds * sizeof *e->feeds);
    e->feeds = NULL;
    e->n_feeds = e->cap_feeds = 0;
}

/* Of evaluation: not more rows than in training, so that it takes no more; as many as divide
 * the samples, where that is not too few. */
static int64_t eval_rows(const sw_evolution *e, int64_t batch)
{
    const int64_t n = (int64_t)e->opts.validation_samples;
    const int64_t most = batch < n ? batch : n;
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(e->opts.validation, &info);
    for (int64_t rows = most; rows >= 1; rows--)
        if (n % rows == 0)
            return 4 * rows >= most || info.n != n ? rows : most;
    return 1;
}

/* ---- what it takes ----------------------------------------------------------------------- */

/* The programs of a member: training and evaluation. */
static sw_status find_price(swi_one *one)
{
    one->need = (swi_candidate_need){.member = sw_members_bytes(one->group)};
    for (int i = 0; i < 2; i++) {
        sw_plan_info info = SW_OPTS(sw_plan_info);
        SW_TRY(
            sw_members_look(one->group,
                            &SW_OPTS(sw_members_args, .mode = i == 1 ? SW_EVAL : SW_TRAIN,
                                     .feed = i == 1 ? one->eval : one->train, .same_data = 1),
                            &info));
        one->need = swi_need_most(one->need,
                                  (swi_candidate_need){info.arena_bytes, info.data_bytes, 0});
        if (i == 0)
            one->price.operations = info.operations;
    }
    const swi_candidate_need *n = &one->need;
    const uint64_t operations = one->price.operations;
    one->price = SW_OPTS(
        sw_price, .peak_bytes = n->arena + n->batch + n->member, .model_bytes = n->member,
        .arena_bytes = n->arena, .batch_bytes = n->batch, .operations = operations,
        .operations_per_sample = (double)operations / (double)one->genome->batch,
        .parameters = swi_genome_parameters(one->genome));
    return SW_OK;
}

static sw_status open_all(sw_evolution *e, swi_one *one)
{
    const uint64_t begin = sw_clock_ns();
    const int64_t n = (int64_t)e->opts.validation_samples;
    const int64_t rows = eval_rows(e, one->genome->batch);
    if (one->genome->batch > e->n_train)
        SW_FAIL(SW_INVALID,
                "the batch of genome %s must be at most the %lld samples of the training set "
                "(got %lld)",
                one->genome->name, (long long)e->n_train, (long long)one->genome->batch);
    SW_TRY(swi_net_create(&one->net, one->genome, &e->net_opts, "sw_evolution"));
    SW_TRY(sw_members_create(&one->group, e->exec,
                             &SW_OPTS(sw_members_opts, .shape = sw_net_model(one->net),
                                      .fn = sw_net_step, .user = one->net,
                                      .threads = e->threads)));
    SW_TRY(feed_get(e, e->opts.train, one->genome->batch, &one->train));
    SW_TRY(feed_get(e, e->opts.validation, rows, &one->eval));
    one->eval_all = (uint64_t)((n + rows - 1) / rows);
    SW_TRY(find_price(one));
    one->price.ns = sw_clock_ns() - begin;
    return SW_OK;
}

sw_status swi_one_open(sw_evolution *e, swi_one *one)
{
    SW_TRY(swi_ranks_alive(e->ranks));
    const sw_status status = open_all(e, one);
    if (status != SW_OK)
        swi_one_close(one);
    return status;
}

void swi_one_close(swi_one *one)
{
    sw_member_end(one->member);
    swi_members_free(one->group);
    swi_genome_net_free(one->net);
    one->member = (sw_member){.of = NULL};
    one->group = NULL;
    one->net = NULL;
    one->train = one->eval = NULL;
}

void swi_one_begin(swi_one *one)
{
    *one = (swi_one)SW_INIT(.of = SWI_SEARCH_NONE, .fitness = (double)NAN, .loss = (double)NAN,
                            .accuracy = (double)NAN, .train_accuracy = (double)NAN);
}

void swi_one_free(sw_evolution *e, swi_one *one)
{
    swi_one_close(one);
    swi_charged_give(e, one->rest.block, one->need.member, &e->rest_bytes);
    swi_genome_free(one->genome);
    sw_heap_free(one->ops, SW_HEAP_RECORDS, one->ops_cap);
    swi_one_begin(one);
}

static bool fits(sw_evolution *e, const swi_one *one)
{
    const size_t most = e->opts.candidate_bytes;
    const bool may =
        (most == 0 || one->price.peak_bytes <= most) &&
        swi_need_bytes(e, swi_need_most(e->most, one->need)) <= swi_evolution_room(e);
    e->mutants++;
    e->refused += !may;
    return may;
}

/* Price a genome that is not ours to keep; *may: it fits beside the others. */
static sw_status swi_genome_fits(sw_evolution *e, const sw_genome *genome, bool *may)
{
    swi_one one;
    *may = false;
    if (genome->batch > e->n_train)
        return SW_OK;
    swi_one_begin(&one);
    one.genome = (sw_genome *)(uintptr_t)genome;
    SW_TRY(swi_one_open(e, &one));
    *may = fits(e, &one);
    swi_one_close(&one);
    return SW_OK;
}

/* ---- genomes ----------------------------------------------------------------------------- */

enum {
    MOST_DRAWS = 100, /* of the first candidate; of later ones, which keep others waiting, */
    FEW_DRAWS = 20,
    MUTANTS = 9, /* of a child, then */
    SHRINK = 9,  /* one that is only smaller, */
    COPY = 10    /* and a copy of the parent: it fits */
};

static uint64_t seed_of(const sw_evolution *e, const swi_one *one, uint32_t attempt)
{
    const uint64_t of_all = swi_draw_seed(e->opts.seed ^ 0x6368696cu /* "chil" */, one->id);
    return swi_draw_seed(of_all, attempt);
}

static int may_be(const sw_genome *genome, void *user)
{
    bool may;
    return swi_genome_fits(user, genome, &may) == SW_OK ? may : -1;
}

/* A line that there is no memory for is an error of the attempt: ops_bytes says so. */
static void note_op(const sw_mutation_record *record, void *user)
{
    swi_one *child = user;
    const uint32_t n = (uint32_t)strlen(record->text);
    if (child->ops_bytes == UINT32_MAX)
        return;
    if (sw_heap_reserve(&child->ops, SW_HEAP_RECORDS, &child->ops_cap,
                        child->ops_bytes + n + 1) != SW_OK) {
        child->ops_bytes = UINT32_MAX;
        return;
    }
    memcpy(child->ops + child->ops_bytes, record->text, n);
    child->ops[child->ops_bytes + n] = '\n';
    child->ops_bytes += n + 1;
}

static sw_status mutate(sw_evolution *e, swi_one *child, uint32_t attempt)
{
    static const sw_mutation shrinking[] = {
        {.kind = SW_MUTATE_SIZE, .probability = 0.5, .low = -0.5, .high = -0.1},
        {.kind = SW_MUTATE_BATCH, .probability = 1, .low = -0.5, .high = -0.25},
    };
    /* A price takes up to some milliseconds: the first attempt is asked about as a whole, later
     * ones after each mutation. */
    const bool limited = attempt > 0 && (e->opts.candidate_bytes > 0 || e->budget != NULL);
    sw_mutate_opts opts = SW_OPTS(
        sw_mutate_opts, .mutations = e->opts.mutations, .n_mutations = e->opts.n_mutations,
        .seed = seed_of(e, child, attempt), .space = e->space, .fits = limited ? may_be : NULL,
        .fits_user = e, .record = note_op, .record_user = child);
    if (attempt == SHRINK) {
        opts.mutations = shrinking;
        opts.n_mutations = sizeof shrinking / sizeof *shrinking;
        opts.fits = NULL; /* each step of the way may still be too large */
    }
    child->ops_bytes = 0;
    SW_TRY(sw_genome_mutate(&child->genome, e->ones[child->of]->genome, &opts));
    if (child->ops_bytes == UINT32_MAX)
        SW_FAIL(SW_NOMEM, "evolution: no memory for the record of a mutation");
    return SW_OK;
}

static sw_status make_genome(sw_evolution *e, swi_one *one, uint32_t attempt)
{
    one->ops_bytes = 0;
    if (one->id <= e->opts.n_first && one->how == SWI_JOB_DRAW)
        return sw_genome_copy(&one->genome, e->opts.first[one->id - 1]);
    if (one->of == SWI_SEARCH_NONE)
        return sw_genome_draw(&one->genome, e->space, &e->task, seed_of(e, one, attempt));
    if (one->how == SWI_JOB_CHILD && attempt != COPY)
        return mutate(e, one, attempt);
    return sw_genome_copy(&one->genome, e->ones[one->of]->genome);
}

/* Two candidates with one genome say nothing new. */
static bool is_new(const sw_evolution *e, const swi_one *one)
{
    for (uint32_t i = 0; i + 1 < e->n; i++)
        if (e->ones[i]->hash == one->hash)
            return false;
    return true;
}

/* *accepted: its genome is there, opened, and fits. */
static sw_status try_attempt(sw_evolution *e, swi_one *one, uint32_t attempt, bool *accepted)
{
    const bool given = one->how == SWI_JOB_DRAW && one->id <= e->opts.n_first;
    const bool any =
        given || one->how == SWI_JOB_LOOK || (one->how == SWI_JOB_CHILD && attempt == COPY);
    *accepted = false;
    SW_TRY(make_genome(e, one, attempt));
    swi_genome_forget(one->genome);
    one->attempt = attempt;
    one->hash = swi_genome_hash(one->genome);
    if ((any || is_new(e, one)) && (any || one->genome->batch <= e->n_train)) {
        SW_TRY(swi_one_open(e, one));
        *accepted = fits(e, one);
        if (*accepted)
            return SW_OK;
        swi_one_close(one);
    }
    swi_genome_free(one->genome);
    one->genome = NULL;
    return SW_OK;
}

/* The bytes that the smallest of its draws needs. */
static sw_status least_of(sw_evolution *e, swi_one *one, size_t *least)
{
    const uint32_t n = one->id <= e->opts.n_first ? 1 : MOST_DRAWS;
    *least = SIZE_MAX;
    for (uint32_t attempt = 0; attempt < n; attempt++) {
        SW_TRY(make_genome(e, one, attempt));
        if (one->genome->batch <= e->n_train) {
            SW_TRY(swi_one_open(e, one));
            const size_t bytes = e->opts.candidate_bytes > 0 ? one->price.peak_bytes
                                                             : swi_need_bytes(e, one->need);
            *least = bytes < *least ? bytes : *least;
            swi_one_close(one);
        }
        swi_genome_free(one->genome);
        one->genome = NULL;
    }
    return SW_OK;
}

/* Nothing that it may be fits. */
static sw_status refuse(sw_evolution *e, swi_one *one, const char *call)
{
    size_t least;
    const char *const what =
        one->id <= e->opts.n_first ? "the given genome" : "the smallest of 100 draws";
    SW_TRY(least_of(e, one, &least));
    if (least == SIZE_MAX)
        SW_FAIL(SW_INVALID,
                "%s: the space draws batches above the %lld samples of the training set alone",
                call, (long long)e->n_train);
    if (e->opts.candidate_bytes > 0)
        SW_FAIL(SW_NOMEM,
                "%s: candidate_bytes must be at least %zu (got %zu), for %s needs as many",
                call, least, e->opts.candidate_bytes, what);
    SW_FAIL(SW_NOMEM,
            "%s: %s needs %zu bytes of the budget for %u workers, %zu are "
            "there; raise the budget by %zu, or lower sizes, batches or workers",
            call, what, least, e->opts.workers, swi_evolution_room(e),
            least - swi_evolution_room(e));
}

static sw_status draw(sw_evolution *e, swi_one *one, bool *accepted)
{
    const uint32_t n = one->id <= e->opts.n_first ? 1 : one->id == 1 ? MOST_DRAWS : FEW_DRAWS;
    for (uint32_t attempt = 0; attempt < n && !*accepted; attempt++)
        SW_TRY(try_attempt(e, one, attempt, accepted));
    return SW_OK;
}

sw_status swi_evolution_try(sw_evolution *e, const char *call)
{
    const swi_candidate_need most = e->most;
    sw_status status = SW_OK;
    for (uint64_t id = 1; status == SW_OK && (id == 1 || id <= e->opts.n_first); id++) {
        swi_one one;
        bool accepted = false;
        swi_one_begin(&one);
        one.id = id;
        one.how = SWI_JOB_DRAW;
        status = draw(e, &one, &accepted);
        if (status == SW_OK && !accepted)
            status = refuse(e, &one, call);
        e->most = swi_need_most(e->most, one.need);
        swi_one_free(e, &one);
    }
    e->most = most;
    e->mutants = e->refused = 0;
    return status;
}

/* A draw of which none fits is a child of the first candidate instead. */
sw_status swi_one_make(sw_evolution *e, swi_one *one)
{
    bool accepted = false;
    if (one->how == SWI_JOB_DRAW) {
        SW_TRY(draw(e, one, &accepted));
        if (!accepted && (one->id == 1 || one->id <= e->opts.n_first))
            return refuse(e, one, "sw_evolution_advance");
        if (!accepted) {
            one->how = SWI_JOB_CHILD;
            one->of = 0;
        }
    }
    for (uint32_t attempt = one->how == SWI_JOB_LOOK ? COPY : 0; attempt <= COPY && !accepted;
         attempt++)
        SW_TRY(try_attempt(e, one, attempt, &accepted));
    if (!accepted)
        SW_FAIL(SW_NOMEM,
                "evolution: a copy of candidate %llu, of %zu bytes, no longer fits: the budget "
                "was taken by others",
                (unsigned long long)e->ones[one->of]->id, e->ones[one->of]->price.peak_bytes);
    e->most = swi_need_most(e->most, one->need);
    return SW_OK;
}

/* ---- weights ----------------------------------------------------------------------------- */

uint64_t swi_one_seed(const sw_evolution *e, const swi_one *one)
{
    return swi_draw_seed(e->opts.seed ^ 0x6d656d62u /* "memb" */, one->id);
}

uint64_t swi_one_order(const sw_evolution *e, const swi_one *one)
{
    return swi_draw_seed(e->opts.seed ^ 0x6f726465u /* "orde" */,
                         one->how == SWI_JOB_LOOK ? one->id : 0);
}
