/* The pass that updates weights tile by tile: tile_update.h. */
#include "runtime/plan/tiles.h"
#include "alloc/base/size.h"
#include "runtime/graph/trace_internal.h"
#include <string.h>

/* Who touches a storage, by position. */
typedef struct {
    uint32_t writer, writes, reads;
} use;

static const swi_value *operand(const swi_trace *t, const swi_node *node, uint32_t i)
{
    return &t->values[t->operands[node->first + i]];
}

static void count_uses(const swi_trace *t, const swi_order *order, use *uses)
{
    memset(uses, 0, t->n_storages * sizeof *uses);
    for (uint32_t at = 0; at < order->n; at++) {
        const swi_node *node = &t->nodes[order->nodes[at]];
        for (uint32_t i = 0; i < node->n_in; i++)
            uses[operand(t, node, i)->storage].reads++;
        for (uint32_t i = 0; i < node->n_out; i++) {
            use *u = &uses[operand(t, node, node->n_in + i)->storage];
            u->writer = at;
            u->writes++;
        }
    }
}

/* Tiles of about one size, four or more of them, of `most` bytes and whole units; fewer where
 * they would have less than the least rows. */
static int64_t tile_rows(const sw_type *param, const swi_row_range *range)
{
    const int64_t rows = param->shape.dim[0];
    const int64_t asked = (int64_t)((sw_type_bytes(param) + range->most - 1) / range->most);
    const int64_t tiles = asked > 4 ? asked : 4;
    const int64_t each =
        ((rows + tiles - 1) / tiles + SWI_TILE_UNIT - 1) / SWI_TILE_UNIT * SWI_TILE_UNIT;
    return each > range->rows ? each : range->rows;
}

/* Is this update one of its kind, of a whole gradient in bytes of its own? */
static bool is_update(const swi_trace *t, const swi_node *node, const use *uses)
{
    if (!node->is_update || node->phase != SW_BACKWARD || node->grad >= 0 ||
        swi_op_traits_of(node->op)->duty != SWI_DUTY_UPDATE || node->scratch != SWI_NONE ||
        swi_op(node->op)->attrs_bytes > SWI_TILE_ATTRS)
        return false;
    const swi_value *param = operand(t, node, 0), *g = operand(t, node, 1);
    const swi_storage *s = &t->storages[g->storage];
    return param->type.shape.rank >= 2 && swi_same_shape(&param->type.shape, &g->type.shape) &&
           g->contiguous && s->segment == SWI_SEG_STEP && !s->pinned &&
           s->bytes == sw_type_bytes(&g->type) && uses[g->storage].writes == 1;
}

static bool touches(const swi_trace *t, const swi_node *node, uint32_t from, uint32_t to,
                    uint32_t storage)
{
    for (uint32_t i = from; i < to; i++)
        if (operand(t, node, i)->storage == storage)
            return true;
    return false;
}

static bool reads(const swi_trace *t, const swi_node *node, uint32_t storage)
{
    return touches(t, node, 0, node->n_in, storage);
}

static bool writes(const swi_trace *t, const swi_node *node, uint32_t storage)
{
    return touches(t, node, node->n_in, node->n_in + node->n_out, storage);
}

bool swi_are_apart(const swi_trace *t, const swi_node *a, const swi_node *b)
{
    for (uint32_t i = 0; i < b->n_in + b->n_out; i++)
        if (writes(t, a, operand(t, b, i)->storage))
            return false;
    for (uint32_t i = b->n_in; i < b->n_in + b->n_out; i++)
        if (reads(t, a, operand(t, b, i)->storage))
            return false;
    return true;
}

/* Let the update at `at` run right after `from` where it may: others read the check there that
 * it takes over. Its new position; SWI_NONE: it may not. */
static uint32_t move_up(const swi_trace *t, swi_order *order, uint32_t from, uint32_t at,
                        use *uses)
{
    const uint32_t moved = order->nodes[at];
    for (uint32_t k = from + 1; k < at; k++)
        if (order->nodes[k] != SWI_NONE &&
            !swi_are_apart(t, &t->nodes[order->nodes[k]], &t->nodes[moved]))
            return SWI_NONE;
    for (uint32_t k = at; k > from + 1; k--) {
        order->nodes[k] = order->nodes[k - 1];
        const swi_node *node = order->nodes[k] != SWI_NONE ? &t->nodes[order->nodes[k]] : NULL;
        for (uint32_t i = 0; node != NULL && i < node->n_out; i++) {
            use *u = &uses[operand(t, node, node->n_in + i)->storage];
            u->writer = u->writer == k - 1 ? k : u->writer;
        }
    }
    order->nodes[from + 1] = moved;
    return from + 1;
}

/* The position of the check of this update's gradient: SWI_NONE where it has none. false:
 * others read the gradient, or the finite check too early. The update, at *at, may move up to
 * its check. */
static bool find_check(const swi_trace *t, swi_order *order, uint32_t *at, use *uses,
                       uint32_t *check)
{
    const swi_node *update = &t->nodes[order->nodes[*at]];
    const swi_update_attrs *a = (const void *)(t->attrs + update->attrs);
    const uint32_t gradient = operand(t, update, 1)->storage;
    *check = SWI_NONE;
    if (uses[gradient].reads == 1) /* not looked at, or by its factors */
        return true;
    if (!a->has_finite_check)
        return false;
    const uint32_t finite_check = operand(t, update, update->n_in - 1)->storage;
    const uint32_t from = uses[finite_check].writer;
    if (uses[gradient].reads != 2 || uses[finite_check].writes != 1 || from >= *at ||
        t->storages[finite_check].segment != SWI_SEG_STEP)
        return false;
    const swi_node *node = &t->nodes[order->nodes[from]];
    if (swi_op_traits_of(node->op)->duty != SWI_DUTY_CHECK || node->grad >= 0 ||
        operand(t, node, 0)->storage != gradient)
        return false;
    *check = from;
    for (uint32_t k = from + 1; k < *at; k++)
        if (order->nodes[k] != SWI_NONE && reads(t, &t->nodes[order->nodes[k]], finite_check)) {
            *at = move_up(t, order, from, *at, uses);
            return *at != SWI_NONE;
        }
    return true;
}

/* Does nothing between `from` and `to` overwrite what the node at `from` reads? */
static bool may_wait(const swi_trace *t, const swi_order *order, uint32_t from, uint32_t to)
{
    const swi_node *waits = &t->nodes[order->nodes[from]];
    for (uint32_t at = from + 1; at < to; at++)
        for (uint32_t k = 0; order->nodes[at] != SWI_NONE && k < waits->n_in; k++)
            if (writes(t, &t->nodes[order->nodes[at]], operand(t, waits, k)->storage))
                return false;
    return true;
}

/* How the kernel of this node makes rows of a gradient of this type; NULL: it cannot, or tiles
 * are not worth it. A device's tile_update makes those alone that are a range of an operand. */
static const swi_row_range *range_of(const swi_trace *t, const swi_node *make,
                                     const sw_type *param)
{
    const swi_row_range *range = swi_rows_of(make->op, make->grad);
    const size_t bytes = swi_op(make->op)->attrs_bytes;
    if (range == NULL || make->n_out != 1 || make->accumulate != 0 ||
        sw_type_bytes(param) < range->from || tile_rows(param, range) >= param->shape.dim[0])
        return NULL;
    if (range->operand != SW_TILE_BY_ATTRS)
        return bytes == 0 ? range : NULL;
    const swi_rows_attrs *rows = (const void *)(t->attrs + make->attrs);
    return bytes <= SWI_TILE_MAKE_ATTRS && rows->all == param->shape.dim[0] &&
                   make->on_device == NULL
               ? range
               : NULL;
}

static sw_status select_tile(const swi_trace *t, const sw_exec *exec, const swi_node *node,
                             swi_selected_kernel *out)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    swi_kernel_info(t, node, types, &info);
    return swi_select_kernel(exec, node->op, -1, &info, out);
}

static uint32_t copy_ids(uint32_t *to, const uint32_t *from, uint32_t n)
{
    memcpy(to, from, n * sizeof *to);
    return n;
}

/* Operands of the node of all three (check may be NULL): as swi_tile_attrs says. */
static uint32_t write_operands(swi_trace *t, const swi_node *make, const swi_node *check,
                               const swi_node *update, uint32_t *n_in)
{
    uint32_t *to = t->operands + t->n_operands, n;
    const uint32_t *u = t->operands + update->first;
    n = copy_ids(to, t->operands + make->first, make->n_in);
    if (check != NULL)
        n += copy_ids(to + n, t->operands + check->first + 1, check->n_in - 1);
    to[n++] = u[0];
    n += copy_ids(to + n, u + 2, update->n_in - 2 - (check != NULL));
    *n_in = n;
    n += copy_ids(to + n, u + update->n_in, update->n_out);
    if (check != NULL)
        to[n++] = t->operands[check->first + check->n_in];
    return n;
}

static void write_attrs(swi_trace *t, const swi_node *make, const swi_node *check,
                        const swi_node *update, const swi_row_range *range)
{
    swi_tile_attrs a;
    memset(&a, 0, sizeof a);
    a.make_op = make->op;
    a.update_op = update->op;
    a.make_grad = make->grad;
    a.n_make = (int32_t)make->n_in;
    a.rows = tile_rows(&operand(t, update, 0)->type, range);
    memcpy(a.make, t->attrs + make->attrs, swi_op(make->op)->attrs_bytes);
    memcpy(a.attrs, t->attrs + update->attrs, swi_op(update->op)->attrs_bytes);
    if (check != NULL) {
        a.has_check = 1;
        a.n_check = (int32_t)check->n_in - 1;
        memcpy(&a.check, t->attrs + check->attrs, sizeof a.check);
    }
    memcpy(t->attrs + t->n_attrs, &a, sizeof a);
}

/* The node of the update becomes that of all; the bytes of the gradient become its workspace.
 */
static sw_status join(swi_trace *t, const swi_node *make, const swi_node *check,
                      swi_node *update, const swi_row_range *range, const sw_exec *exec)
{
    const uint32_t gradient = operand(t, update, 1)->storage;
    uint32_t n_in;
    SW_TRY(swi_reserve_operands(t, SWI_MAX_OPERANDS));
    SW_TRY(swi_reserve_attrs(t, sizeof(swi_tile_attrs) + 8));
    t->n_attrs = (t->n_attrs + 7) / 8 * 8;
    write_attrs(t, make, check, update, range);
    const uint32_t n = write_operands(t, make, check, update, &n_in);
    update->op = swi_op_with(SWI_DUTY_TILED);
    update->n_in = n_in;
    update->n_out = n - n_in;
    update->first = t->n_operands;
    update->attrs = t->n_attrs;
    update->gradient_of = make->gradient_of;
    update->is_backward = 1;
    update->scratch = gradient;
    t->n_operands += n;
    t->n_attrs += (uint32_t)sizeof(swi_tile_attrs);
    swi_storage *s = &t->storages[gradient];
    swi_selected_kernel picked;
    SW_TRY(select_tile(t, exec, update, &picked));
    update->kernel = picked.kernel;
    update->on_device = picked.on_device;
    s->bytes = picked.scratch_bytes;
    if (!sw_size_align(s->bytes, SW_ALIGN, &s->rounded))
        SW_FAIL(SW_NOMEM, "%zu bytes overflow", s->bytes);
    s->role = SWI_ROLE_WORKSPACE;
    s->layer = update->layer;
    s->phase = update->phase;
    if (check != NULL) { /* the finite check is its own now */
        s = &t->storages[operand(t, check, check->n_in)->storage];
        s->layer = update->layer;
        s->phase = update->phase;
    }
    return SW_OK;
}

static sw_status join_all(swi_trace *t, swi_order *order, use *uses, const sw_exec *exec)
{
    bool any = false;
    for (uint32_t i = 0; i < order->n; i++) {
        uint32_t at = i, check;
        swi_node *update = &t->nodes[order->nodes[at]];
        if (!is_update(t, update, uses))
            continue;
        const uint32_t from = uses[operand(t, update, 1)->storage].writer;
        const swi_row_range *range =
            from < at ? range_of(t, &t->nodes[order->nodes[from]], &operand(t, update, 0)->type)
                      : NULL;
        if (range == NULL || !find_check(t, order, &at, uses, &check) ||
            !may_wait(t, order, from, at) ||
            (check != SWI_NONE && !may_wait(t, order, check, at)))
            continue;
        SW_TRY(join(t, &t->nodes[order->nodes[from]],
                    check != SWI_NONE ? &t->nodes[order->nodes[check]] : NULL, update, range,
                    exec));
        order->nodes[from] = SWI_NONE;
        if (check != SWI_NONE)
            order->nodes[check] = SWI_NONE;
        any = true;
    }
    uint32_t n = 0;
    for (uint32_t at = 0; any && at < order->n; at++)
        if (order->nodes[at] != SWI_NONE)
            order->nodes[n++] = order->nodes[at];
    if (any)
        order->n = n;
    return SW_OK;
}

sw_status swi_pass_tiles(swi_trace *t, swi_order *order, const sw_exec *exec)
{
    void *uses;
    if (!swi_device_has(swi_target_of(exec)->device, swi_op_with(SWI_DUTY_TILED), -1))
        return SW_OK; /* the device has whole gradients alone */
    const size_t bytes = (size_t)t->n_storages * sizeof(use);
    SW_TRY(sw_heap_alloc(&uses, SW_HEAP_PROGRAMS, bytes));
    count_uses(t, order, uses);
    const sw_status status = join_all(t, order, uses, exec);
    sw_heap_free(uses, SW_HEAP_PROGRAMS, bytes);
    return status;
}
