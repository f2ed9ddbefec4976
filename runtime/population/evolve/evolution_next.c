/* From one generation to the next: selection, children, and who goes on. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"

/* ---- children ---------------------------------------------------------------------------- */

static sw_status choose(sw_evolution *e)
{
    swi_making *m = &e->making;
    const uint64_t seed = swi_draw_seed(e->opts.seed ^ 0x73656c65u /* "sele" */, e->generation);
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, e->opts.population * sizeof(double)));
    double *order = block;
    for (uint32_t i = 0; i < e->opts.population; i++)
        order[i] = e->members[i].order;
    const sw_status status = sw_select(order, e->opts.population, e->opts.selections,
                                       e->opts.n_selections, seed, m->chosen, m->kept, &m->n);
    sw_heap_free(block, SW_HEAP_RECORDS, e->opts.population * sizeof *order);
    SW_ASSERT(status != SW_OK || m->n == e->opts.population);
    return status;
}

/* A member goes on once, and not where its numbers are no numbers. */
static void decide_kept(sw_evolution *e)
{
    swi_making *m = &e->making;
    for (size_t i = 0; i < m->n; i++) {
        swi_one *one = &e->members[m->chosen[i]];
        m->kept[i] = m->kept[i] && !one->invalid && !one->kept;
        one->kept |= m->kept[i] != 0;
    }
}

static void begin_limits(sw_evolution *e)
{
    swi_limits *l = &e->making.limits;
    *l = swi_limits_begin(e);
    l->best = e->opts.dir == NULL ? e->best.rest.bytes : 0;
    for (uint32_t i = 0; i < e->opts.population; i++) {
        const swi_one *one = &e->members[i];
        l->most = swi_need_most(l->most, one->need);
    }
}

/* Those that go on are at rest first, as they are at the begin of the next generation; then
 * they are trained while children are made. */
sw_status swi_evolution_breed_begin(sw_evolution *e)
{
    swi_making *m = &e->making;
    SW_TRY(choose(e));
    decide_kept(e);
    begin_limits(e);
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
    swi_draws draws = swi_draws_of(swi_child_seed(e, e->generation + 1, i), 2000);
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

static void give_room(sw_evolution *e, room *r)
{
    for (int i = 0; i < 3; i++)
        swi_charged_give(e, r->block[i], r->bytes[i], &e->scratch_bytes);
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

static sw_status make_bytes(swi_brood *b, room *r)
{
    sw_evolution *e = b->e;
    unsigned char *scratch = NULL, *to;
    if (e->opts.dir != NULL)
        SW_TRY(take_room(e, r, 2, b->child->need.member, &scratch));
    SW_TRY(swi_rest_begin(e, b->child, scratch, &to));
    SW_TRY(swi_breed_weights(b, to));
    return swi_rest_end(e, b->child, to, e->generation + 1);
}

static sw_status breed(swi_brood *b, room *r)
{
    SW_TRY(read_parent(b->e, r, 0, &b->parent));
    SW_TRY(read_parent(b->e, r, 1, &b->mate));
    SW_TRY(swi_breed_child(b));
    return make_bytes(b, r);
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
    child->birth = (swi_birth){.how = SWI_BORN_CHILD,
                               .generation = e->generation + 1,
                               .index = i,
                               .fresh = fresh,
                               .limits = m->limits};
    child->steps = fresh ? 0 : parent->begin_steps;
    swi_brood b = {.e = e, .child = child, .parent = {.one = parent}, .mate = {.one = mate}};
    const sw_status status = breed(&b, &r);
    swi_brood_end(&b);
    give_room(e, &r);
    if (status == SW_OK)
        m->limits.most = swi_need_most(m->limits.most, child->need);
    return status;
}

/* All of this generation rest, and nothing runs: what children are made in has all the room. */
static sw_status be_alone(sw_evolution *e)
{
    for (uint32_t i = 0; i < e->opts.population; i++) {
        swi_one *one = &e->members[i];
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
    return swi_evolution_trim(e);
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
    SW_TRY(be_alone(e));
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

/* Under a budget ranges and lanes begin anew, as high as this generation needs them; members
 * that have begun it are put aside for that. */
static sw_status make_room(sw_evolution *e)
{
    for (uint32_t i = 0; i < e->opts.population && e->budget != NULL; i++)
        if (e->members[i].member.of != NULL)
            SW_TRY(swi_one_pause(e, &e->members[i]));
    return swi_evolution_trim(e);
}

static sw_status begin_next(sw_evolution *e)
{
    change(e);
    SW_TRY(make_room(e));
    if (e->opts.dir != NULL)
        SW_TRY(swi_generation_write(e));
    return swi_evolution_place(e);
}

sw_status swi_evolution_breed(sw_evolution *e, bool *ended)
{
    swi_making *m = &e->making;
    while (m->at < m->n && m->kept[m->at])
        m->at++;
    *ended = m->at == m->n;
    if (*ended)
        return begin_next(e);
    SW_TRY(make_child(e, m->at));
    m->at++;
    return swi_evolution_run_kept(e);
}
