/* An evolution: made and ended, and what drives it from one call to the next. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/base/owner.h"
#include "runtime/model/model.h"
#include "runtime/population/evolve/evolution.h"
#include "runtime/population/evolve/search_space.h"
#include "runtime/population/member_pool.h"
#include <limits.h>
#include <math.h>
#include <string.h>

/* The budget of an evolution: what is accepted, who stays, and what is given back.
 *
 * With files every member may rest, so what must fit is one lane, the largest arena + the
 * largest batch + the largest member, and what children are made in while others run: a child,
 * its parents and what lies between them, at most four members. Without files all members are
 * resident, and children are made beside them: twice the population of the largest member, one
 * in between, and the best so far. Both depend on the largest of each alone, so that a copy of
 * a parent always fits: a child can be refused, and the generation can still be filled. Memory
 * beyond that is for more lanes and more residents. */

enum { IN_BETWEEN = 4 }; /* a child, two parents, and the net of both */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

swi_candidate_need swi_need_most(swi_candidate_need a, swi_candidate_need b)
{
    return (swi_candidate_need){larger(a.arena, b.arena), larger(a.batch, b.batch),
                                larger(a.member, b.member)};
}

/* Plans are far below 2^48 bytes, and there are at most 2^12 members. */
static bool is_sane(swi_candidate_need n)
{
    const size_t most = (size_t)1 << 44;
    return n.arena < most && n.batch < most && n.member < most;
}

size_t swi_limits_bytes(const swi_limits *l, swi_candidate_need need)
{
    const swi_candidate_need most = swi_need_most(l->most, need);
    const size_t n = l->population, step = most.arena + most.batch;
    if (l->files)
        return step + (1 + IN_BETWEEN) * most.member;
    return step + (2 * n + 1) * most.member + larger(l->best, most.member);
}

bool swi_limits_fit(const swi_limits *l, swi_candidate_need need)
{
    return is_sane(need) && swi_limits_bytes(l, need) <= l->room;
}

static size_t room_of(const sw_evolution *e)
{
    const size_t limit = sw_budget_limit(e->budget);
    if (e->budget == NULL)
        return SIZE_MAX / 4;
    return limit > e->others ? limit - e->others : 0;
}

swi_limits swi_limits_begin(const sw_evolution *e)
{
    return (swi_limits){
        .room = room_of(e), .population = e->opts.population, .files = e->opts.dir != NULL};
}

/* ---- charged ----------------------------------------------------------------------------- */

sw_status swi_charged_take(sw_evolution *e, void **out, size_t bytes, size_t *count)
{
    SW_TRY(sw_budget_take(e->budget, bytes, "evolution"));
    const sw_status status = sw_heap_alloc(out, SW_HEAP_RECORDS, bytes);
    if (status != SW_OK) {
        sw_budget_give(e->budget, bytes);
        return status;
    }
    *count += bytes;
    swi_evolution_note_peak(e);
    return SW_OK;
}

void swi_charged_give(sw_evolution *e, void *block, size_t bytes, size_t *count)
{
    if (block == NULL)
        return;
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    sw_budget_give(e->budget, bytes);
    *count -= bytes;
}

static size_t evolution_bytes(const sw_evolution *e)
{
    const swi_member_pool *member_pool = e->exec->member_pool;
    const size_t members = member_pool != NULL ? sw_arena_height(member_pool->ranges) +
                                                     swi_lanes_bytes(member_pool)
                                               : 0;
    return members + e->rest_bytes + e->scratch_bytes;
}

void swi_evolution_note_peak(sw_evolution *e)
{
    e->peak_bytes = larger(e->peak_bytes, evolution_bytes(e));
}

sw_status swi_evolution_trim(sw_evolution *e)
{
    swi_evolution_note_peak(e);
    if (e->budget == NULL || e->exec->member_pool == NULL)
        return SW_OK;
    return swi_member_pool_trim(e->exec->member_pool);
}

/* ---- packing ----------------------------------------------------------------------------- */

static swi_candidate_need most_of_members(const sw_evolution *e)
{
    swi_candidate_need most = {0};
    for (uint32_t i = 0; i < e->opts.population; i++)
        most = swi_need_most(most, e->members[i].need);
    return most;
}

static sw_status pack_into(sw_evolution *e, sw_pack_shape *shapes, size_t *resident)
{
    const uint32_t n = e->opts.population;
    const swi_limits l = swi_limits_begin(e);
    const swi_candidate_need most = most_of_members(e);
    const size_t between = IN_BETWEEN * most.member;
    sw_packing packing = SW_OPTS(sw_packing);
    for (uint32_t i = 0; i < n; i++)
        shapes[i] = (sw_pack_shape){.member_bytes = e->members[i].need.member,
                                    .arena_bytes = most.arena,
                                    .batch_bytes = most.batch,
                                    .members = 1};
    SW_TRY(sw_pack(shapes, n, l.room > between ? l.room - between : 0,
                   swi_target_of(e->exec)->threads, resident, &packing));
    for (uint32_t i = 0; i < n; i++)
        e->members[i].resident = resident[i] > 0;
    e->lanes = packing.threads;
    return SW_OK;
}

void swi_evolution_use_lanes(const sw_evolution *e, int lanes)
{
    if (e->exec->member_pool != NULL)
        swi_lanes_use(e->exec->member_pool, lanes);
}

sw_status swi_evolution_pack(sw_evolution *e)
{
    const size_t bytes = e->opts.population * (sizeof(sw_pack_shape) + sizeof(size_t));
    sw_pack_shape *shapes;
    if (e->budget == NULL || e->opts.dir == NULL) {
        /* As many lanes as there is room for. */
        const swi_candidate_need most = most_of_members(e);
        const int threads = swi_target_of(e->exec)->threads;
        swi_limits l = swi_limits_begin(e);
        l.best = e->best.rest.bytes;
        const size_t one = swi_limits_bytes(&l, most), more = most.arena + most.batch;
        const size_t lanes = l.room > one ? 1 + (l.room - one) / (more + 1) : 1;
        e->lanes = lanes < (size_t)threads ? (int)lanes : threads;
        for (uint32_t i = 0; i < e->opts.population; i++)
            e->members[i].resident = true;
        return SW_OK;
    }
    SW_TRY(sw_heap_alloc(&shapes, SW_HEAP_RECORDS, bytes));
    const sw_status status =
        pack_into(e, shapes, (size_t *)(void *)(shapes + e->opts.population));
    sw_heap_free(shapes, SW_HEAP_RECORDS, bytes);
    return status;
}

/* An evolution as callers see it: members, the best, nets of them, bytes. */

uint32_t sw_evolution_count(const sw_evolution *e)
{
    return sw_handle_look(e, SW_HANDLE_EVOLUTION, "sw_evolution_count") == SW_OK
               ? e->opts.population
               : 0;
}

static sw_status check_out(const sw_evolution *e, const sw_candidate *out, const char *call)
{
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    return swi_struct_check(SWI_STRUCT_sw_candidate, out->size, call);
}

static sw_status check_position(const sw_evolution *e, uint32_t i, const char *call)
{
    if (i == UINT32_MAX && !e->has_best)
        SW_FAIL(SW_INVALID, "%s: no member was evaluated yet, or none is valid", call);
    if (i != UINT32_MAX && i >= e->opts.population)
        SW_FAIL(SW_INVALID, "%s: the position must be below %u (got %u)", call,
                e->opts.population, i);
    return SW_OK;
}

sw_status sw_evolution_member(sw_evolution *e, uint32_t i, sw_candidate *out)
{
    SW_TRY(check_out(e, out, __func__));
    if (i == UINT32_MAX)
        SW_FAIL(SW_INVALID, "%s: the position must be below %u (got %u)", __func__,
                e->opts.population, i);
    SW_TRY(check_position(e, i, __func__));
    const sw_candidate view = swi_one_view(&e->members[i]);
    swi_struct_write(SWI_STRUCT_sw_candidate, out, &view);
    return SW_OK;
}

sw_status sw_evolution_best(sw_evolution *e, sw_candidate *out)
{
    SW_TRY(check_out(e, out, __func__));
    SW_TRY(check_position(e, UINT32_MAX, __func__));
    const sw_candidate view = swi_one_view(&e->best);
    swi_struct_write(SWI_STRUCT_sw_candidate, out, &view);
    return SW_OK;
}

/* ---- nets -------------------------------------------------------------------------------- */

static sw_status fill_from(sw_evolution *e, const swi_one *one, sw_net *net, void *scratch)
{
    const bool begun = one->rest.there || one->member.of != NULL;
    const unsigned char *bytes = scratch;
    if (begun)
        SW_TRY(swi_one_bytes(e, one, scratch, &bytes));
    else
        SW_TRY(swi_net_begin(one->net, scratch, swi_member_seed(e, one->id)));
    return swi_net_fill(net, bytes, one->need.member);
}

static sw_status fill(sw_evolution *e, const swi_one *one, sw_net *net)
{
    const size_t n = one->need.member;
    const bool there = one->member.of != NULL || one->rest.block != NULL;
    void *scratch = NULL;
    SW_TRY(sw_model_ready(net->model, e->exec, 0));
    if (!there)
        SW_TRY(swi_charged_take(e, &scratch, n, &e->scratch_bytes));
    const sw_status status = fill_from(e, one, net, scratch);
    swi_charged_give(e, scratch, n, &e->scratch_bytes);
    return status;
}

sw_status sw_net_copy(sw_net **out, sw_evolution *e, uint32_t i)
{
    sw_net *net;
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, __func__));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", __func__);
    SW_TRY(check_position(e, i, __func__));
    const swi_one *one = i == UINT32_MAX ? &e->best : &e->members[i];
    SW_TRY(sw_net_create(&net, one->genome, &e->net_opts));
    const sw_status status = fill(e, one, net);
    if (status != SW_OK)
        swi_genome_net_free(net);
    else
        *out = net;
    return status;
}

/* ---- memory ------------------------------------------------------------------------------ */

sw_status sw_evolution_used(const sw_evolution *e, sw_evolution_memory *out)
{
    SW_TRY(sw_handle_look(e, SW_HANDLE_EVOLUTION, __func__));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", __func__);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_evolution_memory, out->size, __func__));
    const swi_member_pool *member_pool = e->exec->member_pool;
    const size_t now = evolution_bytes(e);
    sw_evolution_memory used = {.size = out->size,
                                .bytes = now,
                                .peak_bytes = now > e->peak_bytes ? now : e->peak_bytes};
    if (member_pool != NULL) {
        used.lane_bytes = swi_lanes_bytes(member_pool);
        used.member_bytes = sw_arena_height(member_pool->ranges);
    }
    for (uint32_t i = 0; i < e->opts.population; i++) {
        used.resident += e->members[i].member.of != NULL;
        used.resting += e->members[i].member.of == NULL;
    }
    swi_struct_write(SWI_STRUCT_sw_evolution_memory, out, &used);
    return SW_OK;
}

sw_status sw_evolution_rebuild(sw_evolution *e, uint64_t id, sw_net **out)
{
    (void)id;
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, "sw_evolution_rebuild"));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_evolution_rebuild: out must not be NULL");
    SW_FAIL(SW_UNSUPPORTED, "sw_evolution_rebuild: members are not rebuilt; sw_net_copy() "
                            "copies one that is there");
}

/* The first population: genomes that were given, then draws, each the first of a hundred that
 * fits beside those before it. Where one has none, all are the smallest of their draws; if
 * not even these fit, what they need is the least budget. */

enum { MOST_DRAWS = 100 };

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
    /* A genome by its birth. */
    const swi_birth *b = &one->birth;
    const uint64_t of_all = swi_draw_seed(e->opts.seed, UINT64_MAX);
    const uint64_t number = (uint64_t)b->index * MOST_DRAWS + b->attempt;
    if (b->how == SWI_BORN_FIRST)
        SW_TRY(sw_genome_copy(&one->genome, e->opts.first[b->index]));
    else
        SW_TRY(sw_genome_draw(&one->genome, e->space, &e->task, swi_draw_seed(of_all, number)));
    swi_genome_forget(one->genome);

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

/* Options of an evolution: checked, defaults set, lists copied. */

enum { MOST_MEMBERS = 4096, DEFAULT_VALIDATION = 2000 };

/* *to: n elements of `from` in a block of our own. */
static sw_status keep_at(void *to, const void *from, size_t bytes)
{
    void *block = NULL;
    if (bytes > 0) {
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
        memcpy(block, from, bytes);
    }
    memcpy(to, &block, sizeof block);
    return SW_OK;
}
#define keep(to, from, bytes) keep_at(SW_POINTER(to), from, bytes)

/* Selections refuse now what they would refuse later. */
static sw_status try_selections(const sw_evolution_opts *o)
{
    const size_t n = o->population, bytes = n * (sizeof(double) + sizeof(uint32_t));
    size_t n_out;
    double *fitness;
    SW_TRY(sw_heap_alloc(&fitness, SW_HEAP_RECORDS, bytes));
    const sw_status status = sw_select(fitness, n, o->selections, o->n_selections, 0,
                                       (uint32_t *)(void *)(fitness + n), NULL, &n_out);
    sw_heap_free(fitness, SW_HEAP_RECORDS, bytes);
    return status;
}

static sw_status keep_first(sw_evolution *e, const sw_genome *const *first)
{
    sw_genome **list;
    if (e->opts.n_first == 0)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&list, SW_HEAP_RECORDS, e->opts.n_first * sizeof *list));
    e->opts.first = (const sw_genome *const *)list;
    for (size_t i = 0; i < e->opts.n_first; i++) {
        sw_genome_info is = SW_OPTS(sw_genome_info);
        SW_TRY(sw_handle_check(first[i], SW_HANDLE_GENOME, "sw_evolution_create"));
        SW_TRY(sw_genome_copy(&list[i], first[i]));
        SW_TRY(sw_genome_describe(list[i], &is));
        if (is.channels != e->task.channels || is.height != e->task.height ||
            is.width != e->task.width || is.classes != e->task.classes)
            SW_FAIL(
                SW_INVALID,
                "sw_evolution_create: genome %zu of opts.first (%s) is for samples of %lld x "
                "%lld x %lld and %lld classes; the data set has %lld x %lld x %lld and %lld",
                (size_t)i, list[i]->name[0] != '\0' ? list[i]->name : "without a name",
                (long long)is.channels, (long long)is.height, (long long)is.width,
                (long long)is.classes, (long long)e->task.channels, (long long)e->task.height,
                (long long)e->task.width, (long long)e->task.classes);
    }
    return SW_OK;
}

/* Lists of the caller's, one by one: what was kept before a failure is freed by end(). */
static sw_status opts_keep(sw_evolution *e, const sw_evolution_opts *given, const char *call)
{
    sw_evolution_opts *o = &e->opts;
    /* Samples and a label each; the same shapes of both. */
    sw_dataset_info t = SW_OPTS(sw_dataset_info), v = SW_OPTS(sw_dataset_info);
    SW_TRY(sw_handle_check(e->opts.train, SW_HANDLE_DATASET, call));
    SW_TRY(sw_handle_check(e->opts.validation, SW_HANDLE_DATASET, call));
    sw_dataset_describe(e->opts.train, &t);
    sw_dataset_describe(e->opts.validation, &v);
    const sw_shape *x = &t.field[0].shape, *y = &v.field[0].shape;
    bool same = t.n_fields == v.n_fields && t.n_classes == v.n_classes && x->rank == y->rank &&
                t.field[0].dtype == v.field[0].dtype;
    for (int d = 0; same && d < x->rank; d++)
        same = x->dim[d] == y->dim[d];
    if (!same)
        SW_FAIL(SW_INVALID, "%s: train and validation must have the same fields and classes",
                call);
    if (t.n_fields != 2 || t.n_classes < 2 || (x->rank != 1 && x->rank != 3) ||
        t.field[1].shape.rank != 0)
        SW_FAIL(SW_INVALID,
                "%s: samples must be vectors or images of channels, height and width, with one "
                "label of at least two classes each",
                call);
    e->task = SW_OPTS(sw_task, .channels = x->dim[0], .height = x->rank == 3 ? x->dim[1] : 0,
                      .width = x->rank == 3 ? x->dim[2] : 0, .classes = t.n_classes);
    e->n_train = t.n;
    if (e->opts.validation_samples > (uint64_t)v.n)
        SW_FAIL(SW_INVALID, "%s: validation_samples must be at most %lld (got %llu)", call,
                (long long)v.n, (unsigned long long)e->opts.validation_samples);
    if (e->opts.validation_samples == 0)
        e->opts.validation_samples =
            (uint64_t)(v.n < DEFAULT_VALIDATION ? v.n : DEFAULT_VALIDATION);

    SW_TRY(swi_fitness_read(&e->fitness, given->fitness, given->n_fitness, call));
    SW_TRY(keep(&o->mutations, given->mutations, o->n_mutations * sizeof *o->mutations));
    SW_TRY(keep(&o->selections, given->selections, o->n_selections * sizeof *o->selections));
    if (given->n_selections == 0) {
        /* The best two go on, the others win tournaments of two. */
        const uint32_t elite = o->population > 2 ? 2 : o->population - 1;
        sw_selection both[2] = {{.kind = SW_SELECT_ELITE, .n = elite, .keep = 1},
                                SW_INIT(.kind = SW_SELECT_TOURNAMENT,
                                        .n = o->population - elite, .contestants = 2, .p = 1)};
        const size_t from = elite == 0;
        o->n_selections = 2 - from;
        SW_TRY(keep(&o->selections, both + from, (2 - from) * sizeof *both));
    }
    /* The last stage selects as many as there are. */
    const size_t n = o->n_selections;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (o->selections[i].stage == o->selections[n - 1].stage)
            sum += o->selections[i].n;
    if (sum != o->population)
        SW_FAIL(SW_INVALID,
                "%s: the last stage of selection must select the population of %u (got %llu)",
                call, o->population, (unsigned long long)sum);

    SW_TRY(try_selections(o));
    SW_TRY(keep(&o->dir, given->dir, given->dir != NULL ? strlen(given->dir) + 1 : 0));
    return keep_first(e, given->first);
}

/* Check the data, and copy the caller's lists; what was kept before a failure is freed by
 * opts_free. */
static void opts_free(sw_evolution *e)
{
    const sw_evolution_opts *o = &e->opts;
    for (size_t i = 0; i < o->n_first && o->first != NULL; i++)
        swi_genome_free((sw_genome *)(uintptr_t)o->first[i]);
    sw_heap_free((void *)(uintptr_t)o->first, SW_HEAP_RECORDS, o->n_first * sizeof *o->first);
    sw_heap_free((void *)(uintptr_t)o->mutations, SW_HEAP_RECORDS,
                 o->n_mutations * sizeof *o->mutations);
    sw_heap_free((void *)(uintptr_t)o->selections, SW_HEAP_RECORDS,
                 o->n_selections * sizeof *o->selections);
    if (o->dir != NULL)
        sw_heap_free((void *)(uintptr_t)o->dir, SW_HEAP_RECORDS, strlen(o->dir) + 1);
}

/* ---- made and ended ---------------------------------------------------------------------- */

/* The arrays of an evolution: take(pointer, elements) for each. */
#define ARRAYS(e, n, take)                                                                     \
    take((e)->members, n) take((e)->children, n) take((e)->wave, n) take((e)->waved, n)        \
        take((e)->call_groups, n) take((e)->call_args, n) take((e)->call_of, n)                \
            take((e)->making.chosen, n) take((e)->making.kept, n)                              \
                take((e)->states[0].all, (n) + 2) take((e)->states[1].all, (n) + 2)
#define TAKE(x, n) SW_TRY(sw_heap_alloc(&(x), SW_HEAP_RECORDS, (n) * sizeof *(x)));
#define GIVE(x, n) sw_heap_free(x, SW_HEAP_RECORDS, (n) * sizeof *(x));

static sw_status make(sw_evolution *e, const sw_evolution_opts *given, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_net_opts, &e->net_opts, given->net, call));
    e->net_opts.utility = 1;
    e->opts.net = &e->net_opts;
    /* Numbers alone; the lists are looked at where they are kept. */
    if (e->opts.population == 0)
        e->opts.population = 20;
    if (e->opts.samples == 0)
        e->opts.samples = 12800;
    e->opts.mutate = e->opts.mutate == 0 ? 0.8 : e->opts.mutate < 0 ? 0 : e->opts.mutate;
    e->opts.crossover = e->opts.crossover == 0  ? 0.3
                        : e->opts.crossover < 0 ? 0
                                                : e->opts.crossover;
    if (e->opts.patience == 0)
        e->opts.patience = 5;
    SW_TRY(opts_keep(e, given, call));
    e->space = e->opts.space;
    if (e->space == NULL) {
        SW_TRY(sw_search_space_default(&e->own_space, &e->task));
        e->space = e->own_space;
    }
    SW_TRY(sw_handle_check(e->space, SW_HANDLE_SEARCH_SPACE, call));
    e->budget = swi_target_of(e->exec)->budget;
    sw_budget_share(e->budget);
    e->others = sw_budget_used(e->budget);
    e->lanes = swi_target_of(e->exec)->threads;
    e->next_id = 1;
    const size_t n = e->opts.population;
    ARRAYS(e, n, TAKE)
    for (size_t i = 0; i < n; i++) {
        swi_one_begin(&e->members[i]);
        swi_one_begin(&e->children[i]);
    }
    swi_one_begin(&e->best);

    /* All of the first population: genomes that fit, opened. */
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

static void end(sw_evolution *e)
{
    sw_file_drop(e->history);
    const size_t n = e->opts.population;
    for (size_t i = 0; i < n && e->members != NULL; i++)
        swi_one_free(e, &e->members[i]);
    for (size_t i = 0; i < n && e->children != NULL; i++)
        swi_one_free(e, &e->children[i]);
    swi_one_free(e, &e->best);
    ARRAYS(e, n, GIVE)
    swi_evolution_use_lanes(e, INT_MAX); /* where others have members there */
    swi_feeds_free(e);
    swi_search_space_free(e->own_space);
    opts_free(e);
    sw_budget_leave(e->budget);
    sw_handle_give(e, SW_HANDLE_EVOLUTION, sizeof *e);
}

sw_status sw_evolution_create(sw_evolution **out, sw_exec *exec, const sw_evolution_opts *given)
{
    sw_evolution_opts opts;
    sw_evolution *e;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", __func__);
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_evolution_opts, &opts, given, __func__));
    if (opts.population > MOST_MEMBERS)
        SW_FAIL(SW_INVALID, "%s: population must be at most %d (got %u)", __func__,
                MOST_MEMBERS, opts.population);
    if (isnan(opts.mutate) || opts.mutate > 1 || isnan(opts.crossover) || opts.crossover > 1)
        SW_FAIL(SW_INVALID,
                "%s: mutate (got %g) and crossover (got %g) must be probabilities, or below 0",
                __func__, opts.mutate, opts.crossover);
    if (opts.dir != NULL &&
        (opts.dir[0] == '\0' || strlen(opts.dir) > SWI_EVOLUTION_PATH - 100))
        SW_FAIL(SW_INVALID, "%s: dir must have 1 to %d bytes", __func__,
                SWI_EVOLUTION_PATH - 100);
    if ((opts.first == NULL) != (opts.n_first == 0) ||
        (opts.mutations == NULL) != (opts.n_mutations == 0) ||
        (opts.selections == NULL) != (opts.n_selections == 0) ||
        (opts.fitness == NULL) != (opts.n_fitness == 0))
        SW_FAIL(SW_INVALID, "%s: each list must be given together with its number", __func__);

    if (!swi_target_of(exec)->device->backend->host_memory)
        SW_FAIL(SW_UNSUPPORTED, "%s: architectures evolve on the CPU; give an exec of it",
                __func__);
    SW_TRY(sw_handle_take(&e, SW_HANDLE_EVOLUTION, sizeof(sw_evolution)));
    e->exec = exec;
    e->opts = opts;
    e->opts.first = NULL; /* the caller's lists: ours take their place one by one */
    e->opts.mutations = NULL;
    e->opts.selections = NULL;
    e->opts.fitness = NULL;
    e->opts.dir = NULL;
    const sw_status status = make(e, &opts, __func__);
    if (status != SW_OK)
        end(e);
    else
        *out = e;
    return status;
}

void sw_evolution_destroy(sw_evolution *e)
{
    if (sw_handle_ends(e, SW_HANDLE_EVOLUTION, __func__))
        end(e);
}

/* ---- going on ---------------------------------------------------------------------------- */

static sw_status train(sw_evolution *e, sw_evolve_what *what)
{
    bool ended;
    *what = SW_EVOLVE_TRAINED;
    SW_TRY(swi_evolution_run(e, &ended));
    if (!ended)
        return SW_OK;
    SW_TRY(swi_evolution_judge(e));
    e->phase = SWI_PHASE_EVALUATED;
    *what = SW_EVOLVE_EVALUATED;
    return SW_OK;
}

static sw_status breed(sw_evolution *e, sw_evolve_what *what)
{
    bool ended;
    if (e->phase == SWI_PHASE_EVALUATED)
        SW_TRY(swi_evolution_breed_begin(e));
    e->phase = SWI_PHASE_BREED;
    *what = SW_EVOLVE_TRAINED;
    SW_TRY(swi_evolution_breed(e, &ended));
    if (!ended)
        return SW_OK;
    e->phase = SWI_PHASE_TRAIN;
    *what = SW_EVOLVE_GENERATION;
    return SW_OK;
}

SW_FRAME_OWN static sw_status go_on(sw_evolution *e, sw_evolve_what *what)
{
    *what = SW_EVOLVE_STOPPED;
    if (e->opts.stop != NULL && e->opts.stop(e->opts.stop_user) != 0)
        return SW_OK;
    if (e->phase == SWI_PHASE_NEW) {
        /* First weights, and the files of generation 0. */
        if (e->opts.dir != NULL)
            SW_TRY(swi_states_open(e));
        for (uint32_t i = 0; i < e->opts.population; i++) {
            swi_one *one = &e->members[i];
            void *scratch = NULL;
            unsigned char *to = NULL;
            const size_t bytes = one->need.member;
            if (one->rest.there) /* it goes on */
                continue;
            if (e->opts.dir != NULL)
                SW_TRY(swi_charged_take(e, &scratch, bytes, &e->scratch_bytes));
            sw_status status = swi_rest_begin(e, one, scratch, &to);
            if (status == SW_OK)
                status = swi_net_begin(one->net, to, swi_member_seed(e, one->id));
            if (status == SW_OK)
                status = swi_rest_end(e, one, to, 0);
            swi_charged_give(e, scratch, bytes, &e->scratch_bytes);
            SW_TRY(status);
        }
        if (e->opts.dir != NULL)
            SW_TRY(swi_evolution_log_begin(e));
        e->drop_old |= !e->resumed; /* another run's */
        if (e->opts.dir != NULL && !e->resumed)
            SW_TRY(swi_generation_write(e));
        else if (e->opts.dir != NULL)
            swi_states_sweep(e); /* what a process left that was ended */
        e->phase = SWI_PHASE_TRAIN;
        SW_TRY(swi_evolution_place(e));
    }
    return e->phase == SWI_PHASE_TRAIN ? train(e, what) : breed(e, what);
}

sw_status sw_evolution_advance(sw_evolution *e, sw_evolve_progress *out)
{
    sw_evolve_what what;
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, __func__));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", __func__);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_evolve_progress, out->size, __func__));
    if (e->broken)
        SW_FAIL(SW_STALE,
                "%s: an earlier call failed: destroy it, and go on with sw_evolution_resume",
                __func__);
    const void *const kept[] = {e->exec, e->space};
    sw_call of = {
        .name = __func__, .uses = SW_CALL_ONE(e), .keeps = {{kept, 2}, SW_CALL_ONE(e->shown)}};
    SW_TRY(sw_call_begin(&of, SW_FRAME));
    const sw_status status = sw_call_end(&of, go_on(e, &what));
    if (status != SW_OK) {
        e->broken = true;
        return status;
    }
    sw_evolve_progress p =
        SW_INIT(.size = out->size, .what = what, .generation = e->generation, .steps = e->steps,
                .longest_gap_ns = e->longest_gap, .mutants = e->mutants, .refused = e->refused);
    for (uint32_t i = 0; i < e->opts.population; i++) {
        const swi_one *one = &e->members[i];
        const bool done = one->ended || one->invalid;
        p.all += one->assigned * (uint64_t)one->genome->batch;
        p.done += (done ? one->assigned : one->made) * (uint64_t)one->genome->batch;
    }
    if (e->phase == SWI_PHASE_BREED) /* what is done already is of the next one */
        p.done = p.all;
    swi_struct_write(SWI_STRUCT_sw_evolve_progress, out, &p);
    return SW_OK;
}
