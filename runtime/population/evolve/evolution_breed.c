/* One child: its genome by crossover and mutation, until one fits; its weights. All of it is a
 * function of the birth, the parents and the limits that it was accepted under. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include <string.h>

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

uint64_t swi_child_seed(const sw_evolution *e, uint64_t generation, uint32_t index)
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
    SW_TRY(swi_one_estimate(e, &one));
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

/* Without a limit nothing is priced on the way. */
static bool is_limited(const swi_brood *b)
{
    return b->e->opts.candidate_bytes > 0 || b->child->birth.limits.room < SIZE_MAX / 4;
}

/* ---- records ----------------------------------------------------------------------------- */

static void forget_ops(swi_one *child)
{
    child->ops_bytes = 0;
}

/* A line that there is no memory for is an error of the attempt: ops_bytes says so. */
static void note_op(const sw_mutation_record *record, void *user)
{
    swi_one *child = ((swi_brood *)user)->child;
    const uint32_t n = (uint32_t)strlen(record->text);
    void *ops = child->ops;
    if (child->ops_bytes == UINT32_MAX)
        return;
    if (sw_heap_reserve(&ops, SW_HEAP_RECORDS, &child->ops_cap, child->ops_bytes + n + 1, 1) !=
        SW_OK) {
        child->ops_bytes = UINT32_MAX;
        return;
    }
    child->ops = ops;
    memcpy(child->ops + child->ops_bytes, record->text, n);
    child->ops[child->ops_bytes + n] = '\n';
    child->ops_bytes += n + 1;
}

/* ---- crossover --------------------------------------------------------------------------- */

/* Utilities of neurons by the bytes of a net; `n` 0: it has none that are known. */
static sw_status utilities_of(const sw_net *net, const unsigned char *bytes,
                              sw_neuron_utility **out, size_t *n)
{
    void *block;
    *out = NULL;
    *n = 0;
    if (bytes == NULL)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, net->genome->n * sizeof **out));
    *out = block;
    *n = swi_net_utilities(net, bytes, *out);
    return SW_OK;
}

static void utilities_free(const sw_net *net, sw_neuron_utility *u)
{
    if (u != NULL)
        sw_heap_free(u, SW_HEAP_RECORDS, net->genome->n * sizeof *u);
}

static sw_status cross_genomes(swi_brood *b)
{
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
    return status;
}

/* The net of both, with weights: what mutations look at, and where they take them from. */
static sw_status cross(swi_brood *b)
{
    sw_evolution *e = b->e;
    swi_cross *c = &b->cross;
    bool may;
    size_t n;
    SW_TRY(cross_genomes(b));
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
    sw_mutate_opts opts =
        SW_OPTS(sw_mutate_opts, .mutations = e->opts.mutations,
                .n_mutations = e->opts.n_mutations, .seed = swi_draw_seed(b->seed, attempt),
                .space = e->space, .fits = is_limited(b) ? may_be : NULL, .fits_user = b,
                .record = note_op, .record_user = b);
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

static sw_status copy(swi_brood *b, const sw_genome *base)
{
    SW_TRY(sw_genome_copy(&b->child->genome, base));
    return b->cross.used ? SW_OK : swi_genome_begin_lineage(b->child->genome);
}

static sw_status make_genome(swi_brood *b, uint32_t attempt)
{
    swi_draws draws = swi_draws_of(b->seed, SEED_MUTATES);
    const bool mutates = swi_draw_happens(&draws, b->e->opts.mutate);
    const swi_one *parent = b->parent.one;
    forget_ops(b->child);
    b->cross.used = b->cross.genome != NULL && attempt < CROSSED_ATTEMPTS;
    const sw_genome *base = b->cross.used ? b->cross.genome : parent->genome;
    if (attempt == COPY || (attempt == 0 && !mutates))
        return copy(b, base);
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

sw_status swi_breed_child(swi_brood *b)
{
    const swi_birth *birth = &b->child->birth;
    bool accepted = false;
    b->seed = swi_child_seed(b->e, birth->generation, birth->index);
    if (b->mate.one != NULL)
        SW_TRY(cross(b));
    for (uint32_t attempt = 0; attempt <= COPY && !accepted; attempt++)
        SW_TRY(try_attempt(b, attempt, &accepted));
    if (!accepted)
        SW_FAIL(SW_NOMEM,
                "evolution: a copy of member %llu, of %zu bytes, no longer fits: the budget "
                "was taken by others",
                (unsigned long long)b->parent.one->id, b->parent.one->price.peak_bytes);
    return SW_OK;
}

/* ---- weights ----------------------------------------------------------------------------- */

sw_status swi_breed_weights(swi_brood *b, unsigned char *to)
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

void swi_brood_end(swi_brood *b)
{
    swi_genome_net_free(b->cross.net);
    swi_charged_give(b->e, b->cross.bytes, b->cross.n, &b->e->scratch_bytes);
    swi_genome_free(b->cross.genome);
    b->cross = (swi_cross){.genome = NULL};
}
