/* The passes that make a trace what is run: the order of its ops with updates released, what is
 * cheap rebuilt, lifetimes, results in place, offsets; chunks where they lower the arena, and
 * repeats where a budget asks for them. Each can be switched off and changes no bits. */
#include "alloc/base/mem.h"
#include "alloc/placement/placement.h"
#include "runtime/plan/recompute/pass.h"
#include "runtime/plan/strips.h"
#include "runtime/plan/tiles.h"
#include <string.h>

/* ---- placement --------------------------------------------------------------------------- */

bool swi_takes_part(const swi_trace *t, uint32_t s)
{
    return t->storages[s].segment == SWI_SEG_STEP && t->storages[s].alias == s &&
           t->storages[s].birth != SWI_NONE && t->storages[s].rounded > 0;
}

sw_status swi_place_storages(swi_trace *t, size_t *height, size_t *lower_bound)
{
    void *block;
    const size_t bytes = (size_t)t->n_storages * sizeof(sw_placement_item);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    sw_placement_item *items = block;
    size_t n = 0;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (swi_takes_part(t, s))
            items[n++] = (sw_placement_item){.lower = t->storages[s].birth,
                                             .upper = t->storages[s].death + 1,
                                             .bytes = t->storages[s].rounded};
    sw_placement_result result = {0};
    const sw_placement_opts opts = {0};
    sw_status status = n > 0 ? sw_placement_solve(items, n, &opts, &result) : SW_OK;
    n = 0;
    for (uint32_t s = 0; status == SW_OK && s < t->n_storages; s++)
        if (swi_takes_part(t, s))
            t->storages[s].offset = items[n++].offset;
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    for (uint32_t s = 0; status == SW_OK && s < t->n_storages; s++)
        if (t->storages[s].alias != s)
            t->storages[s].offset = t->storages[swi_root_of(t, s)].offset;
    *height = result.height;
    *lower_bound = result.lower_bound;
    return status;
}

/* ---- order and layout -------------------------------------------------------------------- */

sw_status swi_lay_out(swi_trace *t, const swi_order *order, bool inplace, size_t *height,
                      size_t *lower_bound)
{
    void *read;
    SW_TRY(sw_heap_alloc(&read, SW_HEAP_PROGRAMS, t->n_values));
    swi_lifetimes(t, order->nodes, order->n, read);
    sw_heap_free(read, SW_HEAP_PROGRAMS, t->n_values);
    if (inplace)
        swi_pass_inplace(t, order->nodes, order->n);
    return swi_place_storages(t, height, lower_bound);
}

sw_status swi_order_take(swi_order *order, uint32_t cap)
{
    void *nodes;
    SW_TRY(sw_heap_alloc(&nodes, SW_HEAP_PROGRAMS, cap * sizeof *order->nodes));
    *order = (swi_order){nodes, 0, cap};
    return SW_OK;
}

void swi_order_free(swi_order *order)
{
    sw_heap_free(order->nodes, SW_HEAP_PROGRAMS, order->cap * sizeof *order->nodes);
    *order = (swi_order){0};
}

/* The trace's nodes in the order in which they run, weights updated tile by tile. */
static sw_status put_in_order(swi_trace *t, bool release_all, const sw_exec *exec,
                              swi_order *order)
{
    void *keys;
    const size_t bytes = ((size_t)t->n_nodes + 2 * (size_t)t->n_storages) * sizeof(uint64_t);
    SW_TRY(swi_order_take(order, t->n_nodes));
    SW_TRY(sw_heap_alloc(&keys, SW_HEAP_PROGRAMS, bytes));
    order->n = swi_plain_order(t, order->nodes);
    if (release_all)
        swi_pass_own_finite_checks(t);
    swi_pass_release(t, order->nodes, order->n, release_all, keys);
    sw_heap_free(keys, SW_HEAP_PROGRAMS, bytes);
    return swi_target_of(exec)->opts.no_tiles ? SW_OK : swi_pass_tiles(t, order, exec);
}

/* Rebuild what is cheap; *without: what lives at the peak without that, SIZE_MAX where there is
 * nothing to rebuild. */
static sw_status rebuild(swi_trace *t, const sw_exec *exec, swi_order *order, size_t *without)
{
    *without = SIZE_MAX;
    if (swi_target_of(exec)->opts.no_rebuild || !swi_may_rebuild(t))
        return SW_OK;
    return swi_rebuild(t, order, !swi_target_of(exec)->opts.no_inplace, without);
}

/* ---- all passes -------------------------------------------------------------------------- */

/* Height of the bump in immediate mode: every storage, one above the other. */
static size_t bump_height(const swi_trace *t)
{
    size_t sum = 0;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (t->storages[s].segment == SWI_SEG_STEP)
            sum += t->storages[s].rounded;
    return sum;
}

/* How the program's trace is made from the plain one. */
typedef struct {
    int64_t parts; /* where rows can go in parts */
    bool strips;
} arrangement;

/* Rebuilt where *without is not SIZE_MAX, and then that. */
static sw_status arrange_once(swi_program *p, arrangement how, const sw_exec *exec,
                              swi_order *order, size_t *without)
{
    const bool plain = *without == SIZE_MAX;
    swi_trace_free(&p->trace);
    swi_order_free(order);
    SW_TRY(swi_trace_copy(&p->trace, &p->plain));
    SW_TRY(swi_chunk(&p->trace, exec, how.parts, &p->info.chunk_rows));
    SW_TRY(put_in_order(&p->trace, false, exec, order));
    if (!plain)
        SW_TRY(rebuild(&p->trace, exec, order, without));
    if (how.strips)
        SW_TRY(swi_pass_strips(&p->trace, order, exec));
    return swi_lay_out(&p->trace, order, !swi_target_of(exec)->opts.no_inplace, &p->height,
                       &p->info.lower_bound_bytes);
}

/* Rebuilt, unless the arena would be lower without: the placement may have missed the bound. */
static sw_status arrange_as(swi_program *p, arrangement how, const sw_exec *exec,
                            swi_order *order)
{
    size_t without = 0, none = SIZE_MAX;
    SW_TRY(arrange_once(p, how, exec, order, &without));
    const size_t height = p->height;
    if (height <= without)
        return SW_OK;
    SW_TRY(arrange_once(p, how, exec, order, &none));
    return p->height <= height ? SW_OK : arrange_once(p, how, exec, order, &without);
}

static sw_status arrange(swi_program *p, int64_t parts, const sw_exec *exec, swi_order *order)
{
    return arrange_as(p, (arrangement){parts, false}, exec, order);
}

/* Strips where model and arena take a twentieth less or more, or where the arena gets low
 * enough for the limit: what is packed again for each strip costs 3 to 9 % of a step. */
static sw_status arrange_in_strips(swi_program *p, int64_t parts, const sw_exec *exec,
                                   swi_order *order)
{
    const size_t whole = p->height;
    if (swi_target_of(exec)->opts.no_strips || !swi_may_strip(&p->trace, order, exec))
        return SW_OK;
    SW_TRY(arrange_as(p, (arrangement){parts, true}, exec, order));
    const bool lower = p->height < whole && whole - p->height >= (p->model_bytes + whole) / 20;
    return lower || (whole > p->limit && p->height <= p->limit)
               ? SW_OK
               : arrange(p, parts, exec, order);
}

/* Where parts lower the arena: the fewest that make it as low as `most` would; *parts has
 * them. */
static sw_status arrange_in_parts(swi_program *p, int64_t most, const sw_exec *exec,
                                  swi_order *order, int64_t *parts)
{
    const size_t whole = p->height;
    SW_TRY(arrange(p, most, exec, order));
    const size_t least = p->height;
    if (least >= whole)
        return arrange(p, 1, exec, order);
    for (*parts = 2; *parts < most; *parts *= 2) {
        SW_TRY(arrange(p, *parts, exec, order));
        if (p->height <= least)
            return SW_OK;
    }
    return arrange(p, most, exec, order);
}

/* ---- under a budget ---------------------------------------------------------------------- */

/* The base of a budget's plan: updates released, and cheap results rebuilt or not. */
typedef struct {
    swi_trace trace;
    swi_order order;
    uint64_t rebuild_cost;
} base;

static void base_free(base *b)
{
    swi_order_free(&b->order);
    swi_trace_free(&b->trace);
}

static sw_status base_of(base *b, const swi_program *p, bool rebuilt, const sw_exec *exec)
{
    size_t without;
    SW_TRY(swi_trace_copy(&b->trace, &p->plain));
    SW_TRY(put_in_order(&b->trace, true, exec, &b->order));
    if (rebuilt)
        SW_TRY(rebuild(&b->trace, exec, &b->order, &without));
    for (uint32_t i = 0; i < b->order.n; i++) {
        const swi_node *node = &b->trace.nodes[b->order.nodes[i]];
        b->rebuild_cost += node->again != 0 ? swi_node_cost(&b->trace, node) : 0;
    }
    return SW_OK;
}

static bool fits(const swi_program *p)
{
    return p->info.method[0] != '\0' && p->height <= p->limit;
}

/* Is q, where each rebuild was a choice, better than p, where all stand? */
static bool is_better(const swi_program *q, const swi_program *p, uint64_t rebuild_cost)
{
    if (q->info.method[0] == '\0')
        return false;
    if (fits(p) != fits(q))
        return fits(q);
    if (!fits(p) && p->height != q->height)
        return q->height < p->height;
    return q->info.budget_cost < swi_count_add(rebuild_cost, p->info.budget_cost);
}

/* Of what runs again in q, count as rebuilt what is so without a budget, once each; repeats are
 * the rest. */
static void tell_apart(swi_program *q, const swi_order *order, const base *rebuilt,
                       bool *is_rebuilt)
{
    sw_plan_info *info = &q->info;
    const swi_trace *t = &rebuilt->trace;
    uint64_t cost = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].again != 0)
            is_rebuilt[t->nodes[i].again_of] = true;
    info->n_repeats = 0;
    info->repeat_operations = 0;
    for (uint32_t i = 0; i < order->n; i++) {
        swi_node *node = &q->trace.nodes[order->nodes[i]];
        if (node->again == 0)
            continue;
        if (is_rebuilt[node->again_of]) {
            is_rebuilt[node->again_of] = false;
            node->again = SWI_AGAIN_REBUILT;
            cost += swi_node_cost(&q->trace, node);
            continue;
        }
        info->n_repeats++;
        info->repeat_operations += swi_node_operations(&q->trace, node);
    }
    info->repeat_cost -= rebuilt->rebuild_cost;
    info->budget_cost -= rebuilt->rebuild_cost;
    info->rebuild_cost = rebuilt->rebuild_cost - cost; /* to which the rest is added */
}

/* q, of which only what swi_recompute leaves is filled, takes p's place. */
static sw_status take_over(swi_program *p, swi_program *q, swi_order *order, swi_order *q_order,
                           const base *rebuilt)
{
    void *is_rebuilt;
    const size_t bytes = rebuilt->trace.n_nodes;
    SW_TRY(sw_heap_alloc(&is_rebuilt, SW_HEAP_PROGRAMS, bytes));
    tell_apart(q, q_order, rebuilt, is_rebuilt);
    sw_heap_free(is_rebuilt, SW_HEAP_PROGRAMS, bytes);
    swi_trace_free(&p->trace);
    swi_order_free(order);
    p->trace = q->trace;
    *order = *q_order;
    p->height = q->height;
    p->info = q->info;
    q->trace = (swi_trace){0};
    *q_order = (swi_order){0};
    return SW_OK;
}

/* The same where each rebuild is a choice like other repeats, by what is cheaper, or fits. It
 * never takes less work than rebuilding, so that more budget never means more work. */
static sw_status shrink_freely(swi_program *p, const base *rebuilt, size_t height,
                               int64_t parts, int64_t most, const sw_exec *exec,
                               swi_order *order)
{
    base b = {.rebuild_cost = 0};
    swi_program q = {.limit = p->limit, .height = height, .info = p->info};
    swi_order q_order = {0};
    q.info.method[0] = '\0';
    sw_status status = base_of(&b, p, false, exec);
    if (status == SW_OK)
        status = swi_recompute(&q, &b.trace, &b.order, exec, parts, most,
                               rebuilt->rebuild_cost + 1, true, &q_order);
    /* Rebuilds are among the ops that run again there. The two problems count places of results
     * differently, so no plan of both is below the lower bound only. */
    const uint64_t all = q.info.least_repeat_cost, with = p->info.least_repeat_cost;
    const uint64_t free_of = all == UINT64_MAX             ? all
                             : all > rebuilt->rebuild_cost ? all - rebuilt->rebuild_cost
                                                           : 0;
    if (status == SW_OK && is_better(&q, p, rebuilt->rebuild_cost))
        status = take_over(p, &q, order, &q_order, rebuilt);
    p->info.least_repeat_cost = free_of < with ? free_of : with;
    swi_trace_free(&q.trace);
    swi_order_free(&q_order);
    base_free(&b);
    return status;
}

/* Over the limit: let updates run right after their gradients, and forward ops again; rows in
 * more parts than the `parts` that the program has. */
static sw_status shrink(swi_program *p, int64_t parts, int64_t most, const sw_exec *exec,
                        swi_order *order)
{
    base b = {.rebuild_cost = 0};
    const size_t height = p->height;
    sw_status status = base_of(&b, p, true, exec);
    if (status == SW_OK)
        status = swi_recompute(p, &b.trace, &b.order, exec, parts, most, 0, b.rebuild_cost == 0,
                               order);
    if (status == SW_OK && b.rebuild_cost > 0 && (!fits(p) || p->info.budget_cost > 0))
        status = shrink_freely(p, &b, height, parts, most, exec, order);
    base_free(&b);
    return status;
}

/* Count what the passes made of it; returns whether ops go in strips. */
static bool count(swi_program *p, const swi_order *order)
{
    sw_plan_info *info = &p->info;
    bool strips = false;
    info->arena_bytes = p->height;
    for (uint32_t i = 0; i < order->n; i++) {
        const swi_node *node = &p->trace.nodes[order->nodes[i]];
        const uint64_t cost = swi_node_cost(&p->trace, node);
        info->operations += swi_node_operations(&p->trace, node);
        info->cost += cost;
        const swi_op_duty duty = swi_op_traits_of(node->op)->duty;
        info->n_tiled += duty == SWI_DUTY_TILED;
        if (duty == SWI_DUTY_STRIPS) {
            swi_strips_count(&p->trace, node, info);
            strips = true;
        }
        if (node->again == SWI_AGAIN_REBUILT) {
            info->n_rebuilt++;
            info->rebuild_cost += cost;
        }
    }
    return strips;
}

sw_status swi_program_run_passes(swi_program *p, swi_order *order, const sw_exec *exec)
{
    SW_TRY(swi_trace_copy(&p->plain, &p->trace));
    /* A device chooses its chunks by sizes alone: its products may sum chunks of other rows in
     * another order. */
    const int64_t most =
        swi_target_of(exec)->opts.no_chunks || !swi_target_of(exec)->device->backend->chunks
            ? 0
            : swi_most_chunks(&p->plain);
    p->info.immediate_bytes = bump_height(&p->plain);
    int64_t parts = 1;
    SW_TRY(arrange(p, 1, exec, order));
    if (most > 1)
        SW_TRY(arrange_in_parts(p, most, exec, order, &parts));
    SW_TRY(arrange_in_strips(p, parts, exec, order));
    p->info.plain_arena_bytes = p->height;
    if (p->height > p->limit && !swi_target_of(exec)->opts.no_recompute)
        SW_TRY(shrink(p, parts, most, exec, order));
    const bool strips = count(p, order);
    if (!strips && p->info.method[0] == '\0' && p->info.n_rebuilt == 0 &&
        p->info.chunk_rows == 0 && p->info.n_tiled == 0)
        swi_trace_free(&p->plain); /* the trace is as it was */
    return SW_OK;
}
