/* One child: its genome by crossover and mutation, until one fits; its weights. All of it is a
 * function of the birth, the parents and the limits that it was accepted under. */
#include "alloc/base/assert.h"
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
    SW_TRY(
        sw_heap_reserve(&c->wishes, SW_HEAP_RECORDS, &c->wishes_cap, g->n, sizeof *c->wishes));
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

/* A candidate of an evolution: its net, its group, its feeds, and what it takes, which is known
 * from plans before it has a byte of tensor memory. */

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
    SW_TRY(sw_heap_reserve(&e->feeds, SW_HEAP_RECORDS, &e->cap_feeds, e->n_feeds + 1,
                           sizeof *e->feeds));
    const sw_feed_opts opts =
        SW_OPTS(sw_feed_opts, .batch = batch, .shuffle = train, .drop_last = train);
    swi_kept_feed kept = {.dataset = dataset, .batch = batch};
    SW_TRY(sw_feed_create(&kept.feed, dataset, &opts));
    *out = kept.feed;
    e->feeds[e->n_feeds++] = kept;
    return SW_OK;
}

static void mark_feeds(sw_evolution *e, const swi_one *one)
{
    for (uint32_t i = 0; i < e->n_feeds; i++)
        e->feeds[i].used |= e->feeds[i].feed == one->train || e->feeds[i].feed == one->eval;
}

void swi_feeds_sweep(sw_evolution *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_feeds; i++)
        e->feeds[i].used = false;
    for (uint32_t i = 0; i < e->opts.population; i++)
        mark_feeds(e, &e->members[i]);
    for (uint32_t i = 0; i < e->n_feeds; i++) {
        if (e->feeds[i].used)
            e->feeds[n++] = e->feeds[i];
        else
            swi_feed_free(e->feeds[i].feed);
    }
    e->n_feeds = n;
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

static sw_status look(const swi_one *one, sw_mode mode, uint32_t variant, sw_plan_info *out)
{
    *out = SW_OPTS(sw_plan_info);
    const sw_members_args args =
        SW_OPTS(sw_members_args, .mode = mode, .variant = variant,
                .feed = mode == SW_TRAIN ? one->train : one->eval, .same_data = 1);
    return sw_members_look(one->group, &args, out);
}

/* The variant of training that averages utility, which has the most; for a member that other
 * one too, and evaluation. */
static sw_status find_price(swi_one *one, bool whole)
{
    sw_plan_info info[3];
    size_t arena = 0, batch = 0;
    const int n = whole ? 3 : 1;
    SW_TRY(look(one, SW_TRAIN, 1, &info[0]));
    if (whole) {
        SW_TRY(look(one, SW_TRAIN, 0, &info[1]));
        SW_TRY(look(one, SW_EVAL, 0, &info[2]));
    }
    for (int i = 0; i < n; i++) {
        arena = info[i].arena_bytes > arena ? info[i].arena_bytes : arena;
        batch = info[i].data_bytes > batch ? info[i].data_bytes : batch;
    }
    const uint64_t operations = info[n > 1].operations;
    one->need = (swi_candidate_need){arena, batch, sw_members_bytes(one->group)};
    one->price =
        SW_OPTS(sw_price, .peak_bytes = arena + batch + one->need.member,
                .model_bytes = one->need.member, .arena_bytes = arena, .batch_bytes = batch,
                .operations = operations,
                .operations_per_sample = (double)operations / (double)one->genome->batch,
                .parameters = swi_genome_parameters(one->genome));
    return SW_OK;
}

static sw_status open_all(sw_evolution *e, swi_one *one, bool whole)
{
    const uint64_t begin = sw_clock_ns();
    SW_TRY(swi_net_create(&one->net, one->genome, &e->net_opts, "sw_evolution"));
    const sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = sw_net_model(one->net),
                                         .fn = sw_net_step, .user = one->net, .threads = 1);
    SW_TRY(sw_members_create(&one->group, e->exec, &opts));
    const int64_t n = (int64_t)e->opts.validation_samples;
    SW_TRY(feed_get(e, e->opts.train, one->genome->batch, &one->train));
    one->eval_rows = eval_rows(e, one->genome->batch);
    one->eval_all = (uint64_t)((n + one->eval_rows - 1) / one->eval_rows);
    SW_TRY(feed_get(e, e->opts.validation, one->eval_rows, &one->eval));
    SW_TRY(find_price(one, whole));
    one->price.ns = sw_clock_ns() - begin;
    return SW_OK;
}

static sw_status open_one(sw_evolution *e, swi_one *one, bool whole)
{
    if (one->genome->batch > e->n_train)
        SW_FAIL(SW_INVALID,
                "the batch of genome %s must be at most the %lld samples of the training set "
                "(got %lld)",
                one->genome->name, (long long)e->n_train, (long long)one->genome->batch);
    const sw_status status = open_all(e, one, whole);
    if (status != SW_OK)
        swi_one_close(one);
    return status;
}

sw_status swi_one_open(sw_evolution *e, swi_one *one)
{
    return open_one(e, one, true);
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
    *one = (swi_one)SW_INIT(.fitness = (double)NAN, .order = (double)NAN, .loss = (double)NAN,
                            .accuracy = (double)NAN, .train_accuracy = (double)NAN);
    for (int k = 0; k < SWI_MAX_OBJECTIVES; k++)
        one->objectives[k] = (double)NAN;
    swi_fitness_begin(&one->averages);
}

void swi_one_free(sw_evolution *e, swi_one *one)
{
    swi_one_close(one);
    swi_charged_give(e, one->rest.block, one->rest.bytes, &e->rest_bytes);
    swi_genome_free(one->genome);
    sw_heap_free(one->ops, SW_HEAP_RECORDS, one->ops_cap);
    swi_one_begin(one);
}

sw_candidate swi_one_view(const swi_one *one)
{
    return SW_OPTS(sw_candidate, .id = one->id, .parents = {one->parents[0], one->parents[1]},
                   .born = one->birth.generation, .steps = one->steps, .genome = one->genome,
                   .price = &one->price, .measured_bytes = one->measured,
                   .fitness = one->fitness, .loss = one->loss, .accuracy = one->accuracy,
                   .train_accuracy = one->train_accuracy, .ns_per_sample = one->ns_per_sample,
                   .rank = one->rank, .invalid = one->invalid,
                   .why = one->invalid ? one->why : NULL);
}

uint64_t swi_member_seed(const sw_evolution *e, uint64_t id)
{
    return swi_draw_seed(e->opts.seed ^ 0x6d656d62u /* "memb" */, id);
}

enum {
    CROSSED_ATTEMPTS = 5, /* from there on mutants of one parent */
    SHRINK = 9,           /* only smaller */
    COPY = 10             /* of the parent: it fits */
};
/* Numbers of seeds of a child, beside those of its attempts. */
enum { SEED_CROSS = 1000, SEED_CROSS_WEIGHTS, SEED_WEIGHTS, SEED_MUTATES };

static const sw_mutation shrinking[] = {
    {.kind = SW_MUTATE_SIZE, .probability = 0.5, .low = -0.5, .high = -0.1},
    {.kind = SW_MUTATE_BATCH, .probability = 1, .low = -0.5, .high = -0.25},
};

/* Of a child: all its draws follow from it. */
static uint64_t child_seed(const sw_evolution *e, uint64_t generation, uint32_t index)
{
    const uint64_t of_all = e->opts.seed ^ 0x6368696cu; /* "chil" */
    return swi_draw_seed(swi_draw_seed(of_all, generation), index);
}

/* ---- what fits --------------------------------------------------------------------------- */

bool swi_candidate_fits(sw_evolution *e, const swi_limits *limits, const swi_one *one)
{
    const size_t most = e->opts.candidate_bytes;
    const bool may =
        (most == 0 || one->price.peak_bytes <= most) && swi_limits_fit(limits, one->need);
    e->mutants++;
    e->refused += !may;
    return may;
}

/* A genome that is not the caller's to keep. */
static sw_status price(sw_evolution *e, const sw_genome *genome, const swi_limits *limits,
                       bool *may)
{
    swi_one one;
    *may = false;
    if (genome->batch > e->n_train)
        return SW_OK;
    swi_one_begin(&one);
    one.genome = (sw_genome *)(uintptr_t)genome;
    /* The same by one plan in the place of three: for what is on its way to a member, which is
     * opened when it is there. */
    SW_TRY(open_one(e, &one, false));
    *may = swi_candidate_fits(e, limits, &one);
    swi_one_close(&one);
    return SW_OK;
}

static int may_be(const sw_genome *genome, void *user)
{
    const swi_brood *b = user;
    bool may;
    return price(b->e, genome, &b->child->birth.limits, &may) == SW_OK ? may : -1;
}

/* A line that there is no memory for is an error of the attempt: ops_bytes says so. */
static void note_op(const sw_mutation_record *record, void *user)
{
    swi_one *child = ((swi_brood *)user)->child;
    const uint32_t n = (uint32_t)strlen(record->text);
    if (child->ops_bytes == UINT32_MAX)
        return;
    if (sw_heap_reserve(&child->ops, SW_HEAP_RECORDS, &child->ops_cap, child->ops_bytes + n + 1,
                        1) != SW_OK) {
        child->ops_bytes = UINT32_MAX;
        return;
    }
    memcpy(child->ops + child->ops_bytes, record->text, n);
    child->ops[child->ops_bytes + n] = '\n';
    child->ops_bytes += n + 1;
}

/* ---- crossover --------------------------------------------------------------------------- */

/* Utilities of neurons by the bytes of a net; `n` 0: it has none that are known. */
static sw_status utilities_of(const sw_net *net, const unsigned char *bytes,
                              sw_neuron_utility **out, size_t *n)
{
    *out = NULL;
    *n = 0;
    if (bytes == NULL)
        return SW_OK;
    SW_TRY(sw_heap_alloc(out, SW_HEAP_RECORDS, net->genome->n * sizeof **out));
    *n = swi_net_utilities(net, bytes, *out);
    return SW_OK;
}

static void utilities_free(const sw_net *net, sw_neuron_utility *u)
{
    if (u != NULL)
        sw_heap_free(u, SW_HEAP_RECORDS, net->genome->n * sizeof *u);
}

/* The net of both, with weights: what mutations look at, and where they take them from. */
static sw_status cross(swi_brood *b)
{
    sw_evolution *e = b->e;
    swi_cross *c = &b->cross;
    bool may;
    size_t n;
    const swi_one *x = b->parent.one, *y = b->mate.one;
    sw_crossover_opts opts =
        SW_OPTS(sw_crossover_opts, .seed = swi_draw_seed(b->seed, SEED_CROSS));
    sw_neuron_utility *of_x, *of_y = NULL;
    SW_TRY(utilities_of(x->net, b->parent.bytes, &of_x, &opts.n_utilities_a));
    sw_status status = utilities_of(y->net, b->mate.bytes, &of_y, &opts.n_utilities_b);
    opts.utilities_a = of_x;
    opts.utilities_b = of_y;
    if (status == SW_OK)
        status = sw_genome_crossover(&b->cross.genome, NULL, x->genome, y->genome, &opts);
    utilities_free(x->net, of_x);
    utilities_free(y->net, of_y);
    SW_TRY(status);
    SW_TRY(price(e, c->genome, &b->child->birth.limits, &may));
    if (!may) {
        swi_genome_free(c->genome);
        c->genome = NULL;
        return SW_OK;
    }
    SW_TRY(swi_net_create(&c->net, c->genome, &e->net_opts, "sw_evolution"));
    SW_TRY(sw_model_bytes(c->net->model, &n));
    SW_TRY(swi_charged_take(e, &c->bytes, n, &e->scratch_bytes));
    c->n = n;
    return swi_net_inherit(c->net, c->bytes, b->parent.one->net, b->parent.bytes,
                           b->mate.one->net, b->mate.bytes,
                           swi_draw_seed(b->seed, SEED_CROSS_WEIGHTS));
}

/* ---- attempts ---------------------------------------------------------------------------- */

static sw_status mutate(swi_brood *b, const sw_genome *base, const sw_net *net,
                        const unsigned char *bytes, uint32_t attempt)
{
    sw_evolution *e = b->e;
    sw_neuron_utility *utilities;
    /* Without a limit nothing is priced on the way. */
    sw_mutate_opts opts = SW_OPTS(
        sw_mutate_opts, .mutations = e->opts.mutations, .n_mutations = e->opts.n_mutations,
        .seed = swi_draw_seed(b->seed, attempt), .space = e->space,
        .fits = (b->e->opts.candidate_bytes > 0 || b->child->birth.limits.room < SIZE_MAX / 4)
                    ? may_be
                    : NULL,
        .fits_user = b, .record = note_op, .record_user = b);
    if (attempt == SHRINK) {
        opts.mutations = shrinking;
        opts.n_mutations = sizeof shrinking / sizeof *shrinking;
        opts.fits = NULL; /* each step of the way may still be too large */
    }
    SW_TRY(utilities_of(net, bytes, &utilities, &opts.n_utilities));
    opts.utilities = utilities;
    const sw_status status = sw_genome_mutate(&b->child->genome, base, &opts);
    utilities_free(net, utilities);
    SW_TRY(status);
    if (b->child->ops_bytes == UINT32_MAX)
        SW_FAIL(SW_NOMEM, "evolution: no memory for the record of a mutation");
    return SW_OK;
}

static sw_status make_genome(swi_brood *b, uint32_t attempt)
{
    swi_draws draws = swi_draws_of(b->seed, SEED_MUTATES);
    const bool mutates = swi_draw_happens(&draws, b->e->opts.mutate);
    const swi_one *parent = b->parent.one;
    b->child->ops_bytes = 0;
    b->cross.used = b->cross.genome != NULL && attempt < CROSSED_ATTEMPTS;
    const sw_genome *base = b->cross.used ? b->cross.genome : parent->genome;
    if (attempt == COPY || (attempt == 0 && !mutates)) {
        SW_TRY(sw_genome_copy(&b->child->genome, base));
        return b->cross.used ? SW_OK : swi_genome_begin_lineage(b->child->genome);
    }
    return b->cross.used ? mutate(b, base, b->cross.net, b->cross.bytes, attempt)
                         : mutate(b, base, parent->net, b->parent.bytes, attempt);
}

/* *accepted: its genome is there, opened and fits. */
static sw_status try_attempt(swi_brood *b, uint32_t attempt, bool *accepted)
{
    swi_one *child = b->child;
    *accepted = false;
    SW_TRY(make_genome(b, attempt));
    child->birth.attempt = attempt;
    if (child->genome->batch <= b->e->n_train) {
        SW_TRY(swi_one_open(b->e, child));
        if (swi_candidate_fits(b->e, &child->birth.limits, child)) {
            *accepted = true;
            return SW_OK;
        }
        swi_one_close(child);
    }
    swi_genome_free(child->genome);
    child->genome = NULL;
    return SW_OK;
}

static sw_status breed_weights(swi_brood *b, unsigned char *to)
{
    const swi_one *child = b->child;
    const swi_cross *c = &b->cross;
    const uint64_t seed = swi_draw_seed(b->seed, SEED_WEIGHTS);
    if (child->birth.fresh) {
        swi_genome_forget(child->genome);
        return swi_net_begin(child->net, to, seed);
    }
    if (!c->used)
        return swi_net_inherit(child->net, to, b->parent.one->net, b->parent.bytes, NULL, NULL,
                               seed);
    if (child->genome->n_parents == 2) /* crossed, and not mutated */
        return swi_net_inherit(child->net, to, b->parent.one->net, b->parent.bytes,
                               b->mate.one->net, b->mate.bytes, seed);
    return swi_net_inherit(child->net, to, c->net, c->bytes, NULL, NULL, seed);
}

/* From one generation to the next: selection, children, and who goes on. */

/* ---- children ---------------------------------------------------------------------------- */

/* Those that go on are at rest first, as they are at the begin of the next generation; then
 * they are trained while children are made. */
sw_status swi_evolution_breed_begin(sw_evolution *e)
{
    swi_making *m = &e->making;
    const uint64_t seed = swi_draw_seed(e->opts.seed ^ 0x73656c65u /* "sele" */, e->generation);
    double *order;
    SW_TRY(sw_heap_alloc(&order, SW_HEAP_RECORDS, e->opts.population * sizeof(double)));
    for (uint32_t i = 0; i < e->opts.population; i++)
        order[i] = e->members[i].order;
    const sw_status status = sw_select(order, e->opts.population, e->opts.selections,
                                       e->opts.n_selections, seed, m->chosen, m->kept, &m->n);
    sw_heap_free(order, SW_HEAP_RECORDS, e->opts.population * sizeof *order);
    SW_ASSERT(status != SW_OK || m->n == e->opts.population);
    SW_TRY(status);
    /* A member goes on once, and not where its numbers are no numbers. */
    for (size_t i = 0; i < m->n; i++) {
        swi_one *one = &e->members[m->chosen[i]];
        m->kept[i] = m->kept[i] && !one->invalid && !one->kept;
        one->kept |= m->kept[i] != 0;
    }
    swi_limits *l = &e->making.limits;
    *l = swi_limits_begin(e);
    l->best = e->opts.dir == NULL ? e->best.rest.bytes : 0;
    for (uint32_t j = 0; j < e->opts.population; j++) {
        const swi_one *one = &e->members[j];
        l->most = swi_need_most(l->most, one->need);
    }
    m->at = 0;
    m->alone = false;
    for (uint32_t i = 0; i < e->opts.population; i++) {
        swi_one *one = &e->members[i];
        if (one->kept && one->member.of != NULL)
            SW_TRY(swi_one_store(e, one, e->generation + 1));
    }
    return swi_evolution_train_kept(e);
}

/* As it was when the generation ended: what it is trained with since then is no reason. */
static bool was_invalid(const swi_one *one)
{
    return one->invalid && !one->kept;
}

/* One of those that were chosen, if it is another one and both are valid. */
static const swi_one *mate_of(const sw_evolution *e, uint32_t i)
{
    const swi_making *m = &e->making;
    const swi_one *parent = &e->members[m->chosen[i]];
    swi_draws draws = swi_draws_of(child_seed(e, e->generation + 1, i), 2000);
    if (!swi_draw_happens(&draws, e->opts.crossover))
        return NULL;
    const swi_one *mate = &e->members[m->chosen[swi_draw_below(&draws, (uint32_t)m->n)]];
    return mate == parent || was_invalid(mate) || was_invalid(parent) ? NULL : mate;
}

/* Memory for the bytes of those that rest in files, and for a child's. */
typedef struct {
    void *block[3];
    size_t bytes[3];
} room;

static sw_status take_room(sw_evolution *e, room *r, int i, size_t bytes, unsigned char **out)
{
    SW_TRY(swi_charged_take(e, &r->block[i], bytes, &e->scratch_bytes));
    r->bytes[i] = bytes;
    *out = r->block[i];
    return SW_OK;
}

static sw_status read_parent(sw_evolution *e, room *r, int i, swi_parent *parent)
{
    unsigned char *scratch = NULL;
    if (parent->one == NULL || was_invalid(parent->one))
        return SW_OK;
    const bool here = parent->one->member.of != NULL && !parent->one->kept;
    if (!here && e->opts.dir != NULL)
        SW_TRY(take_room(e, r, i, parent->one->need.member, &scratch));
    return swi_one_bytes(e, parent->one, scratch, &parent->bytes);
}

static sw_status breed(swi_brood *b, room *r)
{
    SW_TRY(read_parent(b->e, r, 0, &b->parent));
    SW_TRY(read_parent(b->e, r, 1, &b->mate));
    /* The genome of a child by its birth, opened and priced: attempt 0 on, up to the first that
     * fits. */
    const swi_birth *birth = &b->child->birth;
    bool accepted = false;
    b->seed = child_seed(b->e, birth->generation, birth->index);
    if (b->mate.one != NULL)
        SW_TRY(cross(b));
    for (uint32_t attempt = 0; attempt <= COPY && !accepted; attempt++)
        SW_TRY(try_attempt(b, attempt, &accepted));
    if (!accepted)
        SW_FAIL(SW_NOMEM,
                "evolution: a copy of member %llu, of %zu bytes, no longer fits: the budget "
                "was taken by others",
                (unsigned long long)b->parent.one->id, b->parent.one->price.peak_bytes);

    sw_evolution *e = b->e;
    unsigned char *scratch = NULL, *to;
    if (e->opts.dir != NULL)
        SW_TRY(take_room(e, r, 2, b->child->need.member, &scratch));
    SW_TRY(swi_rest_begin(e, b->child, scratch, &to));
    SW_TRY(breed_weights(b, to));
    return swi_rest_end(e, b->child, to, e->generation + 1);
}

static sw_status try_child(sw_evolution *e, uint32_t i)
{
    swi_making *m = &e->making;
    swi_one *child = &e->children[i];
    const swi_one *parent = &e->members[m->chosen[i]], *mate = mate_of(e, i);
    const bool fresh = was_invalid(parent);
    room r = {.block = {NULL}};
    swi_one_begin(child);
    child->id = e->next_id++;
    child->parents[0] = parent->id;
    child->parents[1] = mate != NULL ? mate->id : 0;
    child->birth = (swi_birth)SW_INIT(.how = SWI_BORN_CHILD, .generation = e->generation + 1,
                                      .index = i, .fresh = fresh, .limits = m->limits);
    child->steps = fresh ? 0 : parent->begin_steps;
    swi_brood b = {.e = e, .child = child, .parent = {.one = parent}, .mate = {.one = mate}};
    const sw_status status = breed(&b, &r);
    /* Its first bytes. */
    swi_genome_net_free(b.cross.net);
    swi_charged_give(b.e, b.cross.bytes, b.cross.n, &b.e->scratch_bytes);
    swi_genome_free(b.cross.genome);
    b.cross = (swi_cross){.genome = NULL};
    for (int j = 0; j < 3; j++)
        swi_charged_give(e, r.block[j], r.bytes[j], &e->scratch_bytes);
    if (status == SW_OK)
        m->limits.most = swi_need_most(m->limits.most, child->need);
    return status;
}

/* Who lies in the budget depends on threads, and what is accepted does not: a child that is
 * accepted and has no room beside the residents is made anew when they are gone. */
static sw_status make_child(sw_evolution *e, uint32_t i)
{
    const uint64_t counts[] = {e->next_id, e->mutants, e->refused};
    const sw_status status = try_child(e, i);
    if (status != SW_NOMEM || e->making.alone || e->opts.dir == NULL || e->budget == NULL)
        return status;
    swi_one_free(e, &e->children[i]);
    e->next_id = counts[0];
    e->mutants = counts[1];
    e->refused = counts[2];
    /* All of this generation rest, and nothing runs: what children are made in has all the
     * room. */
    for (uint32_t j = 0; j < e->opts.population; j++) {
        swi_one *one = &e->members[j];
        if (one->member.of == NULL)
            continue;
        if (one->kept) {
            SW_TRY(swi_one_pause(e, one));
            continue;
        }
        SW_TRY(swi_one_store(e, one, e->generation + 1));
        sw_member_end(one->member);
        one->member = (sw_member){.of = NULL};
    }
    e->n_wave = 0;
    e->making.alone = true;
    SW_TRY(swi_evolution_trim(e));
    return try_child(e, i);
}

/* ---- the change -------------------------------------------------------------------------- */

/* Those that go on stand among the children; the others end. Nothing of it can fail. */
static void change(sw_evolution *e)
{
    const swi_making *m = &e->making;
    for (uint32_t i = 0; i < m->n; i++) {
        swi_one *one = &e->members[m->chosen[i]];
        if (!m->kept[i])
            continue;
        one->kept = false;
        e->children[i] = *one;
        swi_one_begin(one); /* moved */
    }
    for (uint32_t i = 0; i < e->opts.population; i++)
        swi_one_free(e, &e->members[i]);
    swi_one *members = e->members;
    e->members = e->children;
    e->children = members;
    e->generation++;
    swi_feeds_sweep(e);
}

sw_status swi_evolution_breed(sw_evolution *e, bool *ended)
{
    swi_making *m = &e->making;
    while (m->at < m->n && m->kept[m->at])
        m->at++;
    *ended = m->at == m->n;
    if (*ended) {
        change(e);
        /* Under a budget ranges and lanes begin anew, as high as this generation needs them;
         * members that have begun it are put aside for that. */
        for (uint32_t i = 0; i < e->opts.population && e->budget != NULL; i++)
            if (e->members[i].member.of != NULL)
                SW_TRY(swi_one_pause(e, &e->members[i]));
        SW_TRY(swi_evolution_trim(e));
        if (e->opts.dir != NULL)
            SW_TRY(swi_generation_write(e));
        return swi_evolution_place(e);
    }
    SW_TRY(make_child(e, m->at));
    m->at++;
    return swi_evolution_run_kept(e);
}
