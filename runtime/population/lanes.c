/* Lanes: step arenas by thread, shared by the groups of an exec. On a device there is one, and
 * its steps are the planner's: members run in the planner's stream, its arena and its inputs,
 * which the budget of the exec pays for. */
#include "runtime/population/member_pool.h"
#include "alloc/base/assert.h"
#include "alloc/base/poison.h"
#include "kernels/dispatch.h"
#include "runtime/device/device.h"

bool swi_lanes_on_host(const swi_lanes *l)
{
    return swi_target_of(l->exec)->device->backend->host_memory;
}

static sw_status make_planner(swi_lanes *l)
{
    const swi_target *target = swi_target_of(l->exec);
    sw_exec_opts opts = target->opts;
    opts.device = NULL;
    opts.threads = l->threads;
    opts.budget = swi_lanes_on_host(l) ? NULL : target->budget;
    opts.profile = NULL;
    opts.isa = sw_isa_name(target->isa);
    opts.nvtx = SW_NVTX_OFF;
    opts.checks = opts.op_clocks = opts.shares = 0;
    opts.no_phases = opts.no_phases != 0 || !swi_lanes_on_host(l);
    opts.max_programs = 1 << 20; /* of every shape */
    return swi_exec_create_on(&l->planner, &opts, l->exec->backend, target->device);
}

/* A device gets its inputs from host memory, where a batch is filled. */
static sw_status make_host_arena(sw_arena **out, const char *label)
{
    sw_store *store;
    SW_TRY(swi_device_store(swi_device_cpu(), &store, 0));
    const sw_arena_opts opts = {.label = label, .use = SW_ARENA_DATA, .store = store};
    const sw_status status = sw_arena_create(out, &opts);
    if (status != SW_OK)
        sw_store_destroy(store);
    return status;
}

static sw_status make_lane(const swi_lanes *l, swi_lane *lane)
{
    if (!swi_lanes_on_host(l))
        return make_host_arena(&lane->batches, "member's batch");
    SW_TRY(swi_member_pool_arena(&lane->steps, l->exec, "member's step", SW_ARENA_STEP));
    SW_TRY(swi_member_pool_arena(&lane->batches, l->exec, "member's batch", SW_ARENA_DATA));
    const bool all = l->threads == swi_target_of(l->exec)->threads;
    lane->par = swi_pool_par(all ? l->exec->pool : l->planner->pool);
    if (all || l->threads == 1) /* else as many as its plans have scratch for, and no more */
        return SW_OK;
    SW_TRY(swi_pool_create(&lane->pool, l->threads, l->n));
    lane->par = swi_pool_par(lane->pool);
    return SW_OK;
}

static sw_status make(swi_lanes *l)
{
    void *block;
    SW_TRY(make_planner(l));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)l->n * sizeof *l->lane));
    l->lane = block;
    for (int i = 0; i < l->n; i++)
        SW_TRY(make_lane(l, &l->lane[i]));
    return SW_OK;
}

static void end(swi_lanes *l)
{
    for (int i = 0; i < l->n && l->lane != NULL; i++) {
        swi_pool_destroy(l->lane[i].pool);
        sw_arena_destroy(l->lane[i].steps);
        sw_arena_destroy(l->lane[i].batches);
    }
    sw_heap_free(l->lane, SW_HEAP_RECORDS, (size_t)l->n * sizeof *l->lane);
    swi_exec_free(l->planner);
    sw_heap_free(l, SW_HEAP_RECORDS, sizeof *l);
}

sw_status swi_lanes_take(swi_lanes **out, swi_member_pool *member_pool, int threads)
{
    const int all = swi_target_of(member_pool->exec)->threads;
    void *block;
    for (swi_lanes *l = member_pool->lanes; l != NULL; l = l->next)
        if (l->threads == threads) {
            l->users++;
            *out = l;
            return SW_OK;
        }
    SW_ASSERT(threads >= 1 && threads <= all);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(swi_lanes)));
    swi_lanes *l = block;
    *l = (swi_lanes){
        .exec = member_pool->exec, .threads = threads, .users = 1, .n = all / threads};
    l->active = l->n;
    const sw_status status = make(l);
    if (status != SW_OK) {
        end(l);
        return status;
    }
    l->next = member_pool->lanes;
    member_pool->lanes = l;
    *out = l;
    return SW_OK;
}

void swi_lanes_give(swi_member_pool *member_pool, swi_lanes *l)
{
    if (l == NULL || --l->users > 0)
        return;
    swi_lanes **at = &member_pool->lanes;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    end(l);
}

/* Its pages are there from now on: a thread that takes its first member late, on a busy
 * machine, meets no fault in a step. */
static sw_status grow(sw_arena *arena, size_t bytes)
{
    const size_t page = 4096, height = sw_arena_height(arena);
    SW_TRY(sw_arena_grow(arena, bytes, true));
    volatile unsigned char *base = sw_arena_base(arena);
    sw_unpoison((void *)(uintptr_t)base, bytes);
    for (size_t at = height; at < bytes; at += page)
        base[at] = 0;
    return SW_OK;
}

void swi_lanes_use(swi_member_pool *member_pool, int lanes)
{
    for (swi_lanes *l = member_pool->lanes; l != NULL; l = l->next)
        l->active = lanes < l->n ? lanes : l->n;
}

sw_status swi_lanes_grow(swi_lanes *l, size_t steps_bytes, size_t batch_bytes)
{
    for (int i = 0; i < l->active; i++) {
        SW_TRY(grow(l->lane[i].batches, batch_bytes));
        if (swi_lanes_on_host(l))
            SW_TRY(grow(l->lane[i].steps, steps_bytes));
    }
    return SW_OK;
}

sw_status swi_lanes_empty(swi_lanes *l)
{
    for (int i = 0; i < l->n && swi_lanes_on_host(l); i++) {
        swi_lane *lane = &l->lane[i];
        sw_arena *steps, *batches;
        SW_TRY(swi_member_pool_arena(&steps, l->exec, "member's step", SW_ARENA_STEP));
        const sw_status status =
            swi_member_pool_arena(&batches, l->exec, "member's batch", SW_ARENA_DATA);
        if (status != SW_OK) {
            sw_arena_destroy(steps);
            return status;
        }
        sw_arena_destroy(lane->steps);
        sw_arena_destroy(lane->batches);
        lane->steps = steps;
        lane->batches = batches;
    }
    return SW_OK;
}

/* On a device members run in the arena of the planner, and its inputs are what a batch takes.
 */
size_t swi_lanes_step_bytes(const swi_member_pool *member_pool)
{
    size_t bytes = 0;
    for (const swi_lanes *l = member_pool->lanes; l != NULL; l = l->next) {
        if (!swi_lanes_on_host(l))
            bytes += sw_arena_height(l->planner->arena);
        for (int i = 0; i < l->n && swi_lanes_on_host(l); i++)
            bytes += sw_arena_height(l->lane[i].steps);
    }
    return bytes;
}

size_t swi_lanes_batch_bytes(const swi_member_pool *member_pool)
{
    size_t bytes = 0;
    for (const swi_lanes *l = member_pool->lanes; l != NULL; l = l->next) {
        if (!swi_lanes_on_host(l))
            bytes += l->planner->backend->data_height(l->planner);
        for (int i = 0; i < l->n && swi_lanes_on_host(l); i++)
            bytes += sw_arena_height(l->lane[i].batches);
    }
    return bytes;
}

size_t swi_lanes_bytes(const swi_member_pool *member_pool)
{
    return swi_lanes_step_bytes(member_pool) + swi_lanes_batch_bytes(member_pool);
}
