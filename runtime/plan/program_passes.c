/* The passes that make a trace what is run: the order of its ops with updates released, what is
 * cheap rebuilt, lifetimes, results in place, offsets; chunks where they lower the arena, and
 * repeats where a budget asks for them. Each can be switched off and changes no bits. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "alloc/placement/placement.h"
#include "runtime/device/pieces.h"
#include "runtime/plan/program_internal.h"
#include "runtime/plan/recompute/pass.h"
#include <string.h>

/* ---- lifetimes and in-place results ------------------------------------------------------ */

/* In the ops [from, to]: of a group of launches all together. */
static void touch(swi_trace *t, uint32_t storage, uint32_t from, uint32_t to)
{
    swi_storage *s = &t->storages[storage];
    if (s->birth == SWI_NONE)
        s->birth = from;
    s->death = to;
}

/* First writes and last touches; an extra that no one reads gets no bytes, nor does a gradient
 * that its kernel leaves out. An operand that a kernel does not read for its shapes does not
 * live for it. */
void swi_lifetimes(swi_trace *t, const uint32_t *order, uint32_t n, bool *read)
{
    memset(read, 0, t->n_values);
    for (uint32_t i = 0; i < n; i++) {
        const swi_node *node = &t->nodes[order[i]];
        const uint32_t unread = swi_unread(t, node);
        for (uint32_t j = 0; j < node->n_in; j++)
            if (swi_reads(unread, j))
                read[t->operands[node->first + j]] = true;
    }
    for (uint32_t i = 0, from = 0, end = 0; i < n; i++) {
        const swi_node *node = &t->nodes[order[i]];
        const uint32_t *operands = t->operands + node->first;
        const sw_op_desc *desc = swi_op(node->op);
        const swi_op_duty duty = swi_op_traits_of(node->op)->duty;
        if (i == end) {
            from = i;
            end = swi_group_end(t, order, n, i);
        }
        const uint32_t unread = swi_unread(t, node);
        for (uint32_t j = 0; j < node->n_in; j++) {
            if (!swi_reads(unread, j))
                continue;
            touch(t, t->values[operands[j]].storage, from, end - 1);
            swi_storage *s = &t->storages[t->values[operands[j]].storage];
            if (node->is_backward && s->role == SWI_ROLE_ACTIVATION)
                s->role = SWI_ROLE_SAVED;
        }
        for (uint32_t j = 0; j < node->n_out; j++) {
            const bool extra = node->grad < 0 && (int)j >= desc->n_out &&
                               duty != SWI_DUTY_IMAGES; /* whose ops write all */
            if (swi_is_null(node, j))
                continue;
            const uint32_t s = t->values[operands[node->n_in + j]].storage;
            if (!extra || read[operands[node->n_in + j]] || t->storages[s].pinned)
                touch(t, s, from, end - 1);
        }
        if (node->scratch != SWI_NONE)
            touch(t, node->scratch, from, end - 1);
    }
    for (uint32_t i = 0; i < t->n_storages; i++)
        if (t->storages[i].pinned && t->storages[i].birth != SWI_NONE)
            t->storages[i].death = n;
}

/* Do the bytes of operand k suit output 0 of this node? Its storage must hold nothing but this
 * operand, and no other operand may look at it in another way. */
bool swi_suits(const swi_trace *t, const swi_node *node, uint32_t k)
{
    const swi_value *in = swi_operand(t, node, k), *out = swi_operand(t, node, node->n_in);
    const swi_storage *from = &t->storages[swi_root_of(t, in->storage)];
    const swi_storage *to = &t->storages[out->storage];
    if (from->segment != SWI_SEG_STEP || to->segment != SWI_SEG_STEP || !in->contiguous ||
        in->offset != 0 || from->bytes != to->bytes ||
        sw_type_bytes(&in->type) != from->bytes || in->type.layout != out->type.layout)
        return false;
    for (uint32_t j = 0; j < node->n_in; j++) {
        const swi_value *other = swi_operand(t, node, j);
        if (j != k && swi_root_of(t, other->storage) == swi_root_of(t, in->storage) &&
            (other->offset != 0 || !other->contiguous ||
             sw_type_bytes(&other->type) != from->bytes))
            return false;
    }
    return true;
}

/* Bit k: operand k's place is one that output 0 may take, if that operand dies here. */
uint32_t swi_inplace_mask(const swi_node *node)
{
    const sw_op_desc *desc = swi_op(node->op);
    if (node->n_out == 0 || (node->accumulate & 1u) != 0)
        return 0;
    return node->grad < 0 ? desc->inplace : desc->grads[node->grad].inplace;
}

/* The ops [from, end) run together: one, or a group of launches. */
typedef struct {
    uint32_t from, end;
} span;

/* May output 0 of the node that runs at `at` take the bytes of its operand k now? In a group no
 * other op may touch them. */
static bool may_take(const swi_trace *t, const uint32_t *order, span group, uint32_t at,
                     uint32_t k)
{
    const swi_node *node = &t->nodes[order[at]];
    const uint32_t root = swi_root_of(t, swi_operand(t, node, k)->storage);
    const swi_storage *from = &t->storages[root];
    const swi_storage *to = &t->storages[swi_operand(t, node, node->n_in)->storage];
    if (from->pinned || from->death != group.end - 1 || from->birth == group.from ||
        to->birth != group.from || !swi_suits(t, node, k))
        return false;
    for (uint32_t i = group.from; i < group.end; i++) {
        const swi_node *other = &t->nodes[order[i]];
        for (uint32_t j = 0; i != at && j < other->n_in + other->n_out; j++)
            if (swi_root_of(t, swi_operand(t, other, j)->storage) == root)
                return false;
    }
    return true;
}

/* ---- placement --------------------------------------------------------------------------- */

bool swi_takes_part(const swi_trace *t, uint32_t s)
{
    return t->storages[s].segment == SWI_SEG_STEP && t->storages[s].alias == s &&
           t->storages[s].birth != SWI_NONE && t->storages[s].rounded > 0;
}

/* Offsets of storages that have lifetimes. */
static sw_status place_storages(swi_trace *t, size_t *height, size_t *lower_bound)
{
    sw_placement_item *items;
    const size_t bytes = (size_t)t->n_storages * sizeof(sw_placement_item);
    SW_TRY(sw_heap_alloc(&items, SW_HEAP_PROGRAMS, bytes));
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
    sw_heap_free(items, SW_HEAP_PROGRAMS, bytes);
    for (uint32_t s = 0; status == SW_OK && s < t->n_storages; s++)
        if (t->storages[s].alias != s)
            t->storages[s].offset = t->storages[swi_root_of(t, s)].offset;
    *height = result.height;
    *lower_bound = result.lower_bound;
    return status;
}

/* ---- order and layout -------------------------------------------------------------------- */

sw_status swi_take_places(swi_trace *t, const swi_order *order, bool inplace)
{
    void *read;
    SW_TRY(sw_heap_alloc(&read, SW_HEAP_PROGRAMS, t->n_values));
    swi_lifetimes(t, order->nodes, order->n, read);
    sw_heap_free(read, SW_HEAP_PROGRAMS, t->n_values);
    span group = {0, 0};
    for (uint32_t i = 0; inplace && i < order->n; i++) {
        const swi_node *node = &t->nodes[order->nodes[i]];
        const uint32_t mask = swi_inplace_mask(node);
        if (i == group.end)
            group = (span){i, swi_group_end(t, order->nodes, order->n, i)};
        for (uint32_t k = 0; k < node->n_in && k < 32; k++) {
            if ((mask >> k & 1u) == 0 || !may_take(t, order->nodes, group, i, k))
                continue;
            swi_storage *taken = &t->storages[swi_operand(t, node, node->n_in)->storage];
            taken->alias = swi_root_of(t, swi_operand(t, node, k)->storage);
            swi_storage *root = &t->storages[taken->alias];
            root->death = taken->death;
            root->pinned |= taken->pinned;
            if (root->role == SWI_ROLE_ACTIVATION)
                root->role = taken->role;
            break;
        }
    }
    return SW_OK;
}

sw_status swi_lay_out(swi_trace *t, const swi_order *order, bool inplace, size_t *height,
                      size_t *lower_bound)
{
    SW_TRY(swi_take_places(t, order, inplace));
    return place_storages(t, height, lower_bound);
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

/* ---- chunks ------------------------------------------------------------------------------ */

/* The chunk pass: an op that can go through its rows a part at a time does so where it would
 * else raise the arena, in as few parts as keep the arena as low as the most parts would. Parts
 * change scratch bytes and no bits. */

#define LEAST_ROWS 32 /* below that products lose too much time */

/* The rows of what can be done in parts; 0: of nothing here. */
static int64_t rows_of(const swi_trace *t, const swi_node *node)
{
    if (swi_op_traits_of(node->op)->duty != SWI_DUTY_PARTS || node->grad >= 0)
        return 0;
    return swi_operand(t, node, 0)->type.shape.dim[0];
}

/* The rows at a time that its attributes begin with; 0: all. */
static int64_t asked_of(const swi_trace *t, const swi_node *node)
{
    int64_t rows;
    memcpy(&rows, t->attrs + node->attrs, sizeof rows);
    return rows;
}

/* The most parts that an op of the trace can be done in; 0: there is none. */
static int64_t most_chunks(const swi_trace *t)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        for (int64_t parts = 1; parts * LEAST_ROWS < rows_of(t, &t->nodes[i]); parts *= 2)
            most = parts * 2 > most ? parts * 2 : most;
    return most;
}

sw_status swi_chunk(swi_trace *t, const sw_exec *exec, int64_t parts, int64_t *largest)
{
    *largest = 0;
    for (uint32_t i = 0; parts >= 2 && i < t->n_nodes; i++) {
        const swi_node *node = &t->nodes[i];
        if (rows_of(t, node) == 0)
            continue;
        int64_t rows = (rows_of(t, node) + parts - 1) / parts;
        if (rows < LEAST_ROWS)
            rows = LEAST_ROWS;
        if (asked_of(t, node) > 0 && asked_of(t, node) < rows)
            continue; /* its own wish is smaller */
        *largest = rows > *largest ? rows : *largest;
        sw_type types[SWI_MAX_OPERANDS];
        sw_kernel_info info;
        memcpy(t->attrs + node->attrs, &rows, sizeof rows);
        swi_selected_kernel picked;
        swi_kernel_info(t, node, types, &info);
        SW_TRY(swi_select_kernel(exec, node->op, node->grad, &info, &picked));
        if (node->scratch == SWI_NONE)
            continue; /* it asked for none with all rows */
        swi_storage *scratch = &t->storages[node->scratch];
        scratch->bytes = picked.scratch_bytes;
        (void)sw_size_align(scratch->bytes, SW_ALIGN,
                            &scratch->rounded); /* smaller than it was */
    }
    return SW_OK;
}

/* ---- all passes -------------------------------------------------------------------------- */

/* How the program's trace is made from the plain one. */
typedef struct {
    int64_t parts; /* where rows can go in parts */
    bool strips;
    size_t gather; /* checks and updates wait below so many bytes; 0: they do not */
    bool pull;     /* and gradients of functions go up */
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
    SW_TRY(swi_put_in_order(&p->trace, false, false, exec, order));
    if (!plain)
        SW_TRY(rebuild(&p->trace, exec, order, without));
    if (how.strips)
        SW_TRY(swi_pass_strips(&p->trace, order, exec));
    if (how.gather > 0)
        SW_TRY(swi_pass_gather(&p->trace, order, how.gather, how.pull));
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
    return arrange_as(p, (arrangement){.parts = parts}, exec, order);
}

/* Groups of launches, where a device has them and the arena gets no higher: gradients of
 * functions go up, or stay. */
static sw_status arrange_in_groups(swi_program *p, const sw_exec *exec, swi_order *order)
{
    const size_t height = p->height;
    if (!swi_target_of(exec)->device->backend->fuses_launches || height == 0)
        return SW_OK;
    for (int pull = 1; pull >= 0; pull--) {
        const arrangement how = {.parts = 1, .gather = height, .pull = pull != 0};
        SW_TRY(arrange_as(p, how, exec, order));
        if (p->height <= height)
            return SW_OK;
    }
    return arrange(p, 1, exec, order);
}

/* Strips where model and arena take a twentieth less or more, or where the arena is over the
 * limit and gets lower: what is packed again for each strip costs 3 to 9 % of a step. In bf16
 * as many numbers are half of the bytes. */
static sw_status arrange_in_strips(swi_program *p, int64_t parts, const sw_exec *exec,
                                   swi_order *order)
{
    const size_t whole = p->height;
    if (swi_target_of(exec)->opts.no_strips || !swi_may_strip(&p->trace, order, exec))
        return SW_OK;
    SW_TRY(arrange_as(p, (arrangement){.parts = parts, .strips = true}, exec, order));
    const size_t share = swi_target_of(exec)->opts.compute == SW_BF16 ? 40 : 20;
    const size_t saved = p->height < whole ? whole - p->height : 0;
    return saved > 0 && (whole > p->limit || saved >= (p->model_bytes + whole) / share)
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

/* The base of a budget's plan: updates released, and cheap results rebuilt or not; or
 * convolutions some images at a time too. */
typedef enum { REBUILT, FREELY, IN_IMAGES } base_kind;
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

static sw_status base_of(base *b, const swi_program *p, base_kind kind, const sw_exec *exec)
{
    size_t without;
    SW_TRY(swi_trace_copy(&b->trace, &p->plain));
    SW_TRY(swi_put_in_order(&b->trace, true, kind != IN_IMAGES, exec, &b->order));
    if (kind != FREELY)
        SW_TRY(rebuild(&b->trace, exec, &b->order, &without));
    for (uint32_t i = 0; i < b->order.n; i++) {
        const swi_node *node = &b->trace.nodes[b->order.nodes[i]];
        b->rebuild_cost += node->again != 0 ? swi_node_cost(&b->trace, node) : 0;
    }
    return kind == IN_IMAGES ? swi_pass_chains(&b->trace, &b->order, exec, NULL) : SW_OK;
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

/* The same on another base, by what is cheaper, or fits. FREELY each rebuild is a choice like
 * other repeats: that never takes less work than rebuilding, so that more budget never means
 * more work. */
static sw_status shrink(swi_program *p, base_kind kind, const base *rebuilt, size_t height,
                        int64_t parts, int64_t most, const sw_exec *exec, swi_order *order)
{
    base b = {.rebuild_cost = 0};
    swi_program q = {.limit = p->limit, .height = height, .info = p->info};
    swi_order q_order = {0};
    const uint64_t rebuilds = kind == FREELY ? rebuilt->rebuild_cost : 0;
    q.info.method[0] = '\0';
    q.info.rebuild_cost = 0;
    sw_status status = base_of(&b, p, kind, exec);
    if (status == SW_OK)
        status = swi_recompute(&q, &b.trace, &b.order, exec, parts, most,
                               kind == FREELY ? rebuilds + 1 : 0, true, &q_order);
    /* Rebuilds are among the ops that run again there. The two problems count places of results
     * differently, so no plan of both is below the lower bound only. */
    const uint64_t all = q.info.least_repeat_cost, with = p->info.least_repeat_cost;
    const uint64_t free_of = all == UINT64_MAX ? all : all > rebuilds ? all - rebuilds : 0;
    if (status == SW_OK && is_better(&q, p, rebuilds)) {
        void *is_rebuilt;
        const size_t bytes = rebuilt->trace.n_nodes;
        status = sw_heap_alloc(&is_rebuilt, SW_HEAP_PROGRAMS, bytes);
        if (status == SW_OK && kind == FREELY)
            tell_apart(&q, &q_order, rebuilt, is_rebuilt);
        if (status == SW_OK) {
            sw_heap_free(is_rebuilt, SW_HEAP_PROGRAMS, bytes);
            const swi_trace trace = p->trace; /* q takes p's place */
            const swi_order nodes = *order;
            p->trace = q.trace;
            *order = q_order;
            p->height = q.height;
            p->info = q.info;
            q.trace = trace;
            q_order = nodes;
        }
    }
    p->info.least_repeat_cost = free_of < with ? free_of : with;
    swi_trace_free(&q.trace);
    swi_order_free(&q_order);
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
            const swi_strips_attrs *a = (const void *)(p->trace.attrs + node->attrs);
            info->n_tiled += a->kind == SWI_STRIPS_UPDATE;
            info->n_rebuilt += (uint32_t)a->rebuilds;
            info->rebuild_cost += a->rebuild_cost;
            strips = true;
        }
        if (duty == SWI_DUTY_IMAGES) {
            const swi_images_attrs *a = (const void *)(p->trace.attrs + node->attrs);
            info->n_rebuilt += (uint32_t)a->rebuilds;
            info->rebuild_cost += a->rebuild_cost;
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
            : most_chunks(&p->plain);
    /* Height of the bump in immediate mode: every storage, one above the other. */
    size_t sum = 0;
    for (uint32_t s = 0; s < p->plain.n_storages; s++)
        if (p->plain.storages[s].segment == SWI_SEG_STEP)
            sum += p->plain.storages[s].rounded;
    p->info.immediate_bytes = sum;
    int64_t parts = 1;
    SW_TRY(arrange(p, 1, exec, order));
    if (most > 1)
        SW_TRY(arrange_in_parts(p, most, exec, order, &parts));
    SW_TRY(arrange_in_strips(p, parts, exec, order));
    SW_TRY(arrange_in_groups(p, exec, order));
    p->info.plain_arena_bytes = p->height;
    if (p->height > p->limit && !swi_target_of(exec)->opts.no_recompute) {
        /* Over the limit: let updates run right after their gradients, and forward ops
         * again; rows in more parts than the `parts` that the program has. */
        base b = {.rebuild_cost = 0};
        const size_t height = p->height;
        bool chains = false;
        sw_status status = base_of(&b, p, REBUILT, exec);
        if (status == SW_OK)
            status = swi_recompute(p, &b.trace, &b.order, exec, parts, most, 0,
                                   b.rebuild_cost == 0, order);
        if (status == SW_OK && b.rebuild_cost > 0 && (!fits(p) || p->info.budget_cost > 0))
            status = shrink(p, FREELY, &b, height, parts, most, exec, order);
        if (status == SW_OK && (!fits(p) || p->info.budget_cost > 0) &&
            !swi_target_of(exec)->opts.no_strips &&
            swi_device_has(swi_target_of(exec)->device, swi_op_with(SWI_DUTY_IMAGES), -1))
            status = swi_pass_chains(&b.trace, &b.order, exec, &chains);
        if (status == SW_OK && chains)
            status = shrink(p, IN_IMAGES, &b, height, parts, most, exec, order);
        base_free(&b);
        SW_TRY(status);
    }
    const bool strips = count(p, order);
    if (!strips && p->info.method[0] == '\0' && p->info.n_rebuilt == 0 &&
        p->info.chunk_rows == 0 && p->info.n_tiled == 0)
        swi_trace_free(&p->plain); /* the trace is as it was */
    return SW_OK;
}

/* ---- launch fusion ----------------------------------------------------------------------- */

/* Which ops of a program are launched together with the next one: where a device has a kernel
 * for both that makes the same bits (sw_cuda_fusion), and on the CPU where both go channel by
 * channel (swi_fused), the next or the one after it.
 *
 * Trace, order and places stay as they are: the second op keeps its place and its name, and
 * launches nothing. A result that it makes on the CPU in bytes of its own is born at the first
 * op, where it is written; no pair makes the peak higher. Immediate mode does not know the next
 * op and launches both. */

/* Does the second op read what the first one makes and leave its own result in its place, so
 * that no one else ever sees that? Extras of the second would be made from it too. */
static bool takes_over(const swi_trace *t, const swi_node *first, const swi_node *then)
{
    if (first->n_out != 1 || then->n_in != 1)
        return false;
    const uint32_t made = swi_operand(t, first, first->n_in)->storage;
    const uint32_t out = swi_operand(t, then, 1)->storage;
    for (uint32_t k = 1; k < then->n_out; k++)
        if (t->storages[swi_operand(t, then, 1 + k)->storage].birth != SWI_NONE)
            return false;
    return swi_operand(t, then, 0)->storage == made && out != made &&
           swi_root_of(t, out) == swi_root_of(t, made);
}

static const sw_cuda_fusion *fusion_of(const swi_program *p, const sw_exec *exec, uint32_t i)
{
    const swi_trace *t = &p->trace;
    const swi_node *first = swi_node_of(p, i), *then = swi_node_of(p, i + 1);
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    if (first->grad >= 0 || then->grad >= 0 || first->phase != then->phase ||
        first->on_device == swi_pieces_on_card || !takes_over(t, first, then))
        return NULL;
    const sw_cuda_fusion *fusion =
        swi_device_fusion(swi_target_of(exec)->device, first->op, then->op);
    if (fusion == NULL)
        return NULL;
    swi_kernel_info(t, first, types, &info);
    return fusion->joins(&info, swi_target_of(exec)->compute) != 0 ? fusion : NULL;
}

/* ---- channel by channel ------------------------------------------------------------------ */

typedef struct {
    const swi_value *value;
    const swi_bind *bind;
    bool written;
} operand;

static bool operand_of(const swi_program *p, uint32_t i, uint32_t k, operand *to)
{
    const swi_node *node = swi_node_of(p, i);
    if (k >= node->n_in + node->n_out)
        return false;
    to->value = swi_operand(&p->trace, node, k);
    to->bind = &p->binds[p->ops[i].first + i + k];
    to->written = k >= node->n_in;
    return true;
}

/* May the two be touched in another order, channel by channel? They lie apart, or neither is
 * written, or they are one storage's bytes, channel by channel. */
static bool may_cross(const swi_trace *t, const operand *a, const operand *b, bool by_channel)
{
    if ((!a->written && !b->written) || a->bind->segment != b->bind->segment ||
        a->bind->segment == SWI_SEG_COUNT)
        return true;
    if (!a->value->contiguous || !b->value->contiguous)
        return false;
    const sw_type *x = &a->value->type, *y = &b->value->type;
    if (a->bind->offset >= b->bind->offset + sw_type_bytes(y) ||
        b->bind->offset >= a->bind->offset + sw_type_bytes(x))
        return true;
    return by_channel && a->bind->offset == b->bind->offset && swi_same_type(x, y) &&
           swi_root_of(t, a->value->storage) == swi_root_of(t, b->value->storage);
}

static bool ops_may_cross(const swi_program *p, uint32_t i, uint32_t j, bool by_channel)
{
    operand a, b;
    if (swi_node_of(p, i)->scratch != SWI_NONE || swi_node_of(p, j)->scratch != SWI_NONE)
        return false;
    for (uint32_t k = 0; operand_of(p, i, k, &a); k++)
        for (uint32_t m = 0; operand_of(p, j, m, &b); m++)
            if (!may_cross(&p->trace, &a, &b, by_channel))
                return false;
    return true;
}

/* Kinds first: most pairs of ops have no kernel. */
static uint8_t together_of(const swi_program *p, uint32_t i, uint32_t j)
{
    const swi_trace *t = &p->trace;
    const swi_node *first = swi_node_of(p, i), *then = swi_node_of(p, j);
    sw_type types[2][SWI_MAX_OPERANDS];
    sw_kernel_info info[2];
    int in = 0;
    const uint8_t kernel = swi_fused((swi_fused_kind){first->op, first->grad},
                                     (swi_fused_kind){then->op, then->grad}, &in);
    if (kernel == 0 || first->phase != then->phase || first->n_out < 1 ||
        t->operands[then->first + (uint32_t)in] != t->operands[first->first + first->n_in])
        return 0;
    swi_kernel_info(t, first, types[0], &info[0]);
    swi_kernel_info(t, then, types[1], &info[1]);
    return swi_fused_fits(kernel, &info[0], &info[1]) && ops_may_cross(p, i, j, true) ? kernel
                                                                                      : 0;
}

/* Bytes that are born at op i; early: those of them are, and at op `early` from now on. */
static size_t born_at(swi_program *p, uint32_t i, uint32_t early)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < p->ops[i].n_births; k++) {
        swi_storage *s = &p->trace.storages[p->births[p->ops[i].births + k]];
        if (s->birth != i) /* it was moved to an earlier op */
            continue;
        bytes += s->rounded;
        s->birth = early;
    }
    return bytes;
}

static size_t dead_after(const swi_program *p, uint32_t i)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < p->ops[i].n_deaths; k++)
        bytes += p->trace.storages[p->deaths[p->ops[i].deaths + k]].rounded;
    return bytes;
}

/* With the next op, or with the one after it where that may come first and what it makes may
 * be there from op i on. live: at op i. Returns the bytes that are born earlier. */
static size_t find_together(swi_program *p, uint32_t i, size_t live)
{
    const size_t most = p->info.lower_bound_bytes;
    size_t highest = live;
    for (uint32_t d = 1; d <= 2 && i + d < p->n_ops && p->ops[i].ran == 0; d++) {
        swi_run_op *then = &p->ops[i + d];
        if (d == 2) {
            live = live - dead_after(p, i) + born_at(p, i + 1, i + 1);
            highest = live > highest ? live : highest;
        }
        const uint8_t kernel = then->ran == 0 ? together_of(p, i, i + d) : 0;
        if (kernel == 0 || (d == 2 && !ops_may_cross(p, i + 1, i + 2, false)) ||
            highest + born_at(p, i + d, i + d) > most)
            continue;
        p->ops[i].together = kernel;
        p->ops[i].apart = then->ran = (uint8_t)d;
        return born_at(p, i + d, i);
    }
    return 0;
}

void swi_program_fuse_launches(swi_program *p, const sw_exec *exec)
{
    const swi_backend *backend = swi_target_of(exec)->device->backend;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        p->ops[i].fusion = NULL;
        p->ops[i].together = 0;
        p->ops[i].apart = p->ops[i].ran = 0;
    }
    for (uint32_t i = 0; backend->fuses_launches && i + 1 < p->n_ops; i++)
        if (i == 0 || p->ops[i - 1].fusion == NULL)
            p->ops[i].fusion = fusion_of(p, exec, i);
    size_t live = 0;
    for (uint32_t i = 0; backend->fuses_channels && i + 1 < p->n_ops; i++) {
        live += born_at(p, i, i);
        live += find_together(p, i, live);
        live -= dead_after(p, i);
    }
    swi_program_list_lifetimes(p);
}

static bool makes(const swi_program *p, uint32_t i, uint32_t storage)
{
    operand x;
    for (uint32_t k = swi_node_of(p, i)->n_in; operand_of(p, i, k, &x); k++)
        if (x.value->storage == storage)
            return true;
    return swi_node_of(p, i)->scratch == storage;
}

uint32_t swi_made_at(const swi_program *p, uint32_t storage)
{
    uint32_t i = p->trace.storages[storage].birth;
    while (p->ops[i].left > 0 && !makes(p, i, storage))
        i++;
    return p->ops[i].together != 0 && !makes(p, i, storage) ? i + p->ops[i].apart : i;
}

/* ---- own finite checks ------------------------------------------------------------------- */

/* In a plan that is made smaller, updates are released that did not ask for it. Each then reads
 * the finite check on its own gradient, so that it waits for no other. */

static swi_op_duty duty_of(const swi_node *node)
{
    return swi_op_traits_of(node->op)->duty;
}

static const swi_node *writer_of(const swi_trace *t, uint32_t value)
{
    return t->values[value].node != SWI_NONE ? &t->nodes[t->values[value].node] : NULL;
}

/* The finite check on the gradient that is value g, if it lies in the step arena. */
static uint32_t finite_check_on(const swi_trace *t, uint32_t g)
{
    if (t->storages[t->values[g].storage].segment != SWI_SEG_STEP)
        return SWI_NONE;
    for (uint32_t i = t->n_nodes; i-- > 0;)
        if (duty_of(&t->nodes[i]) == SWI_DUTY_CHECK && t->operands[t->nodes[i].first] == g)
            return t->operands[t->nodes[i].first + t->nodes[i].n_in];
    return SWI_NONE;
}

/* The finite check of the losses alone, within the one for all, `value`. */
static uint32_t losses_behind(const swi_trace *t, uint32_t value)
{
    const swi_node *node = writer_of(t, value);
    while (node != NULL && duty_of(node) == SWI_DUTY_JOIN)
        node = writer_of(t, t->operands[node->first]);
    if (node == NULL || duty_of(node) != SWI_DUTY_CHECK ||
        !((const swi_finite_attrs *)(const void *)(t->attrs + node->attrs))->has_before ||
        finite_check_on(t, t->operands[node->first]) == SWI_NONE)
        return SWI_NONE;
    return t->operands[node->first + 1];
}

void swi_pass_own_finite_checks(swi_trace *t)
{
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const swi_node *node = &t->nodes[i];
        uint32_t own = SWI_NONE;
        if (node->release != SWI_RELEASABLE || node->n_in == 0)
            continue;
        uint32_t *last = &t->operands[node->first + node->n_in - 1];
        const void *attrs = t->attrs + node->attrs;
        const swi_op_duty duty = duty_of(node);
        if ((duty == SWI_DUTY_UPDATE || duty == SWI_DUTY_UPDATE_WHOLE) &&
            ((const swi_update_attrs *)attrs)->has_finite_check)
            own = finite_check_on(t, t->operands[node->first + 1]);
        else if (duty == SWI_DUTY_TICK && ((const swi_tick_attrs *)attrs)->has_finite_check)
            own = losses_behind(t, *last);
        if (own != SWI_NONE)
            *last = own;
    }
}
