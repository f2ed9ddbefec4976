/* The budget of an evolution: what is accepted, who stays, and what is given back.
 *
 * With files every member may rest, so what must fit is one lane, the largest arena + the
 * largest batch + the largest member, and what children are made in while others run: a child,
 * its parents and what lies between them, at most four members. Without files all members are
 * resident, and children are made beside them: twice the population of the largest member, one
 * in between, and the best so far. Both depend on the largest of each alone, so that a copy of
 * a parent always fits: a child can be refused, and the generation can still be filled. Memory
 * beyond that is for more lanes and more residents. */
#include "alloc/base/mem.h"
#include "runtime/population/member_pool.h"
#include "runtime/population/evolve/evolution.h"
#include <string.h>

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

size_t swi_evolution_bytes(const sw_evolution *e)
{
    const swi_member_pool *member_pool = e->exec->member_pool;
    const size_t members = member_pool != NULL ? sw_arena_height(member_pool->ranges) +
                                                     swi_lanes_bytes(member_pool)
                                               : 0;
    return members + e->rest_bytes + e->scratch_bytes;
}

void swi_evolution_note_peak(sw_evolution *e)
{
    e->peak_bytes = larger(e->peak_bytes, swi_evolution_bytes(e));
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

/* As many lanes as there is room for. */
static void stay_all(sw_evolution *e)
{
    const swi_candidate_need most = most_of_members(e);
    const int threads = swi_target_of(e->exec)->threads;
    swi_limits l = swi_limits_begin(e);
    l.best = e->best.rest.bytes;
    const size_t one = swi_limits_bytes(&l, most), more = most.arena + most.batch;
    const size_t lanes = l.room > one ? 1 + (l.room - one) / (more + 1) : 1;
    e->lanes = lanes < (size_t)threads ? (int)lanes : threads;
    for (uint32_t i = 0; i < e->opts.population; i++)
        e->members[i].resident = true;
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
    void *block;
    if (e->budget == NULL || e->opts.dir == NULL) {
        stay_all(e);
        return SW_OK;
    }
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    sw_pack_shape *shapes = block;
    const sw_status status =
        pack_into(e, shapes, (size_t *)(void *)(shapes + e->opts.population));
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status;
}
