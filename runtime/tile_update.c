/* The pass that updates weights tile by tile: tile_update.h. */
#include "runtime/tile_update.h"
#include "alloc/size.h"
#include "runtime/trace_internal.h"
#include <string.h>

enum {
    TILE_FROM = 1 << 20, /* bytes of a gradient that is worth it */
    TILE_MOST = 4 << 20, /* of a tile, about: rows enough for a fast product */
    TILE_UNIT = 24       /* rows: whole register blocks */
};

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

/* Tiles of about one size, four or more of them, of TILE_MOST bytes and whole units. */
static int64_t tile_rows(const sw_type *param)
{
    const int64_t rows = param->shape.dim[0];
    const int64_t wanted = (int64_t)((sw_type_bytes(param) + TILE_MOST - 1) / TILE_MOST);
    const int64_t tiles = wanted > 4 ? wanted : 4;
    return ((rows + tiles - 1) / tiles + TILE_UNIT - 1) / TILE_UNIT * TILE_UNIT;
}

/* Is this update one of its kind, of a whole gradient in bytes of its own that nothing else
 * reads? */
static bool is_update(const swi_trace *t, const swi_node *node, const use *uses)
{
    if (!node->is_update || node->phase != SW_BACKWARD || node->grad >= 0 ||
        !swi_is_elementwise_update(node->op) || node->scratch != SWI_NONE ||
        swi_op(node->op)->attrs_bytes > SWI_TILE_ATTRS)
        return false;
    const swi_value *param = operand(t, node, 0), *g = operand(t, node, 1);
    const swi_storage *s = &t->storages[g->storage];
    return param->type.shape.rank == 2 && sw_type_bytes(&param->type) >= TILE_FROM &&
           tile_rows(&param->type) < param->type.shape.dim[0] &&
           swi_same_shape(&param->type.shape, &g->type.shape) && g->contiguous &&
           s->segment == SWI_SEG_STEP && !s->pinned && s->bytes == sw_type_bytes(&g->type) &&
           uses[g->storage].reads == 1 && uses[g->storage].writes == 1;
}

/* May the kernel at `from` run where the update at `to` runs? */
static bool may_wait(const swi_trace *t, const swi_order *order, uint32_t from, uint32_t to)
{
    const swi_node *make = &t->nodes[order->nodes[from]];
    if (make->grad < 0 || swi_rows_of(make->op, make->grad) == NULL || make->n_out != 1 ||
        make->accumulate != 0 || swi_op(make->op)->attrs_bytes != 0)
        return false;
    for (uint32_t at = from + 1; at < to; at++) {
        const swi_node *node = &t->nodes[order->nodes[at]];
        for (uint32_t i = 0; i < node->n_out; i++)
            for (uint32_t k = 0; k < make->n_in; k++)
                if (operand(t, node, node->n_in + i)->storage == operand(t, make, k)->storage)
                    return false;
    }
    return true;
}

static size_t bytes_of(const swi_trace *t, const swi_node *node, sw_isa isa, int threads)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    swi_kernel_info(t, node, types, &info);
    info.isa = isa;
    info.threads = threads;
    return swi_tile_bytes(&info);
}

/* The node of the update becomes that of both; the bytes of the gradient become its workspace.
 */
static sw_status join(swi_trace *t, const swi_node *make, swi_node *update, sw_isa isa,
                      int threads)
{
    const uint32_t n = make->n_in + update->n_in - 1 + update->n_out;
    swi_tile_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.make_op = make->op;
    attrs.update_op = update->op;
    attrs.make_grad = make->grad;
    attrs.n_make = (int32_t)make->n_in;
    attrs.rows = tile_rows(&operand(t, update, 0)->type);
    memcpy(attrs.attrs, t->attrs + update->attrs, swi_op(update->op)->attrs_bytes);
    SW_TRY(swi_room_operands(t, n));
    SW_TRY(swi_room_attrs(t, sizeof attrs + 8));
    uint32_t *to = t->operands + t->n_operands;
    const uint32_t *from = t->operands + update->first;
    const uint32_t gradient = t->values[from[1]].storage;
    memcpy(to, t->operands + make->first, make->n_in * sizeof *to);
    to[make->n_in] = from[0];
    memcpy(to + make->n_in + 1, from + 2, (update->n_in - 2 + update->n_out) * sizeof *to);
    t->n_attrs = (t->n_attrs + 7) / 8 * 8;
    memcpy(t->attrs + t->n_attrs, &attrs, sizeof attrs);
    update->op = SW_OP_tile_update;
    update->kernel = sw_op_tile_update.forward;
    update->n_in = make->n_in + update->n_in - 1;
    update->first = t->n_operands;
    update->attrs = t->n_attrs;
    update->gradient_of = make->gradient_of;
    update->is_backward = 1;
    update->scratch = gradient;
    t->n_operands += n;
    t->n_attrs += (uint32_t)sizeof attrs;
    swi_storage *s = &t->storages[gradient];
    s->bytes = bytes_of(t, update, isa, threads);
    if (!sw_size_align(s->bytes, SW_ALIGN, &s->rounded))
        SW_FAIL(SW_NOMEM, "%zu bytes overflow", s->bytes);
    s->role = SWI_ROLE_WORKSPACE;
    s->layer = update->layer;
    s->phase = update->phase;
    return SW_OK;
}

static sw_status join_all(swi_trace *t, swi_order *order, const use *uses, sw_isa isa,
                          int threads)
{
    bool any = false;
    for (uint32_t at = 0; at < order->n; at++) {
        swi_node *update = &t->nodes[order->nodes[at]];
        if (!is_update(t, update, uses))
            continue;
        const uint32_t from = uses[operand(t, update, 1)->storage].writer;
        if (from >= at || !may_wait(t, order, from, at))
            continue;
        SW_TRY(join(t, &t->nodes[order->nodes[from]], update, isa, threads));
        order->nodes[from] = SWI_NONE;
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

sw_status swi_pass_tiles(swi_trace *t, swi_order *order, sw_isa isa, int threads)
{
    void *uses;
    const size_t bytes = (size_t)t->n_storages * sizeof(use);
    SW_TRY(sw_heap_alloc(&uses, SW_HEAP_PROGRAMS, bytes));
    count_uses(t, order, uses);
    const sw_status status = join_all(t, order, uses, isa, threads);
    sw_heap_free(uses, SW_HEAP_PROGRAMS, bytes);
    return status;
}
