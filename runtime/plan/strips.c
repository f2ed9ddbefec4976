/* The pass that lets functions of one number go strip by strip with what reads them:
 * program_internal.h.
 *
 * A group is a function f of a matrix z, the reader of f(z), and in backward the gradient
 * kernel of f; for an update also what makes the input gradient that this one reads, and the
 * bound of the update's check. All of them move down to the last, so each must be apart from
 * what stands between and is not of the group. */
#include "alloc/base/size.h"
#include "runtime/graph/trace.h"
#include "runtime/plan/program_internal.h"
#include <string.h>

/* The pass that updates weights tile by tile: tile_update.h. */

/* Who touches a storage, by position. */
typedef struct {
    uint32_t writer, writes, reads;
} use;

static void count_uses(const swi_trace *t, const swi_order *order, use *uses)
{
    memset(uses, 0, t->n_storages * sizeof *uses);
    for (uint32_t at = 0; at < order->n; at++) {
        const swi_node *node = &t->nodes[order->nodes[at]];
        for (uint32_t i = 0; i < node->n_in; i++)
            uses[swi_operand(t, node, i)->storage].reads++;
        for (uint32_t i = 0; i < node->n_out; i++) {
            use *u = &uses[swi_operand(t, node, node->n_in + i)->storage];
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
    const swi_value *param = swi_operand(t, node, 0), *g = swi_operand(t, node, 1);
    const swi_storage *s = &t->storages[g->storage];
    return param->type.shape.rank >= 2 && swi_same_shape(&param->type.shape, &g->type.shape) &&
           g->contiguous && s->segment == SWI_SEG_STEP && !s->pinned &&
           s->bytes == sw_type_bytes(&g->type) && uses[g->storage].writes == 1;
}

static bool reads(const swi_trace *t, const swi_node *node, uint32_t storage)
{
    return swi_touches(t, node, 0, node->n_in, storage);
}

static bool writes(const swi_trace *t, const swi_node *node, uint32_t storage)
{
    return swi_touches(t, node, node->n_in, node->n_in + node->n_out, storage);
}

bool swi_are_apart(const swi_trace *t, const swi_node *a, const swi_node *b)
{
    for (uint32_t i = 0; i < b->n_in + b->n_out; i++)
        if (writes(t, a, swi_operand(t, b, i)->storage))
            return false;
    for (uint32_t i = b->n_in; i < b->n_in + b->n_out; i++)
        if (reads(t, a, swi_operand(t, b, i)->storage))
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
            use *u = &uses[swi_operand(t, node, node->n_in + i)->storage];
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
    const uint32_t gradient = swi_operand(t, update, 1)->storage;
    *check = SWI_NONE;
    if (uses[gradient].reads == 1) /* not looked at, or by its factors */
        return true;
    if (!a->has_finite_check)
        return false;
    const uint32_t finite_check = swi_operand(t, update, update->n_in - 1)->storage;
    const uint32_t from = uses[finite_check].writer;
    if (uses[gradient].reads != 2 || uses[finite_check].writes != 1 || from >= *at ||
        t->storages[finite_check].segment != SWI_SEG_STEP)
        return false;
    const swi_node *node = &t->nodes[order->nodes[from]];
    if (swi_op_traits_of(node->op)->duty != SWI_DUTY_CHECK || node->grad >= 0 ||
        swi_operand(t, node, 0)->storage != gradient)
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
            if (writes(t, &t->nodes[order->nodes[at]], swi_operand(t, waits, k)->storage))
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

static uint32_t copy_ids(uint32_t *to, const uint32_t *from, uint32_t n)
{
    memcpy(to, from, n * sizeof *to);
    return n;
}

/* Operands of the node of all three (check may be NULL): as swi_tile_attrs says. */
static uint32_t write_operands_tiles(swi_trace *t, const swi_node *make, const swi_node *check,
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

/* The node of the update becomes that of all (mean, check: or NULL); the bytes of the gradient
 * become its workspace. */
static sw_status join_tiles(swi_trace *t, const swi_node *make, const swi_node *mean,
                            const swi_node *check, swi_node *update, const swi_row_range *range,
                            const sw_exec *exec)
{
    const uint32_t gradient = swi_operand(t, update, 1)->storage;
    uint32_t n_in;
    SW_TRY(swi_reserve_operands(t, SWI_MAX_OPERANDS));
    SW_TRY(swi_reserve_attrs(t, sizeof(swi_tile_attrs) + 8));
    t->n_attrs = (t->n_attrs + 7) / 8 * 8;
    swi_tile_attrs a;
    memset(&a, 0, sizeof a);
    a.make_op = make->op;
    a.update_op = update->op;
    a.make_grad = make->grad;
    a.n_make = (int32_t)make->n_in;
    a.rows = tile_rows(&swi_operand(t, update, 0)->type, range);
    memcpy(a.make, t->attrs + make->attrs, swi_op(make->op)->attrs_bytes);
    memcpy(a.attrs, t->attrs + update->attrs, swi_op(update->op)->attrs_bytes);
    if (mean != NULL)
        memcpy(&a.shard, t->attrs + mean->attrs, sizeof a.shard);
    if (check != NULL) {
        a.has_check = 1;
        a.n_check = (int32_t)check->n_in - 1;
        memcpy(&a.check, t->attrs + check->attrs, sizeof a.check);
    }
    memcpy(t->attrs + t->n_attrs, &a, sizeof a);
    const uint32_t n = write_operands_tiles(t, make, check, update, &n_in);
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
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    swi_kernel_info(t, update, types, &info);
    SW_TRY(swi_select_kernel(exec, update->op, -1, &info, &picked));
    update->kernel = picked.kernel;
    update->on_device = picked.on_device;
    s->bytes = picked.scratch_bytes;
    if (!sw_size_align(s->bytes, SW_ALIGN, &s->rounded))
        SW_FAIL(SW_NOMEM, "%zu bytes overflow", s->bytes);
    s->role = SWI_ROLE_WORKSPACE;
    s->layer = update->layer;
    s->phase = update->phase;
    if (check != NULL) { /* the finite check is its own now */
        s = &t->storages[swi_operand(t, check, check->n_in)->storage];
        s->layer = update->layer;
        s->phase = update->phase;
    }
    return SW_OK;
}

/* The mean over the shards of a step, each rank with one, of a gradient that nothing else
 * reads. */
static bool is_mean(const swi_trace *t, const swi_node *node, const use *uses)
{
    const swi_value *g = swi_operand(t, node, 0);
    const use *u = &uses[g->storage];
    return swi_op_traits_of(node->op)->duty == SWI_DUTY_MEAN && node->n_in == 1 &&
           u->reads == 1 && u->writes == 1 && g->contiguous &&
           !t->storages[g->storage].pinned && t->storages[g->storage].segment == SWI_SEG_STEP;
}

static sw_status join_all(swi_trace *t, swi_order *order, use *uses, const sw_exec *exec)
{
    bool any = false;
    for (uint32_t i = 0; i < order->n; i++) {
        uint32_t at = i, check;
        swi_node *update = &t->nodes[order->nodes[at]];
        if (!is_update(t, update, uses))
            continue;
        uint32_t from = uses[swi_operand(t, update, 1)->storage].writer;
        const uint32_t mean =
            from < at && is_mean(t, &t->nodes[order->nodes[from]], uses) ? from : SWI_NONE;
        if (mean != SWI_NONE)
            from = uses[swi_operand(t, &t->nodes[order->nodes[mean]], 0)->storage].writer;
        const swi_row_range *range = from < at ? range_of(t, &t->nodes[order->nodes[from]],
                                                          &swi_operand(t, update, 0)->type)
                                               : NULL;
        /* A device cannot look at a gradient before it is there: it is whole then anyway, and
         * check and update go out with others (groups.c). */
        if (range == NULL || !find_check(t, order, &at, uses, &check) ||
            (check != SWI_NONE && update->on_device != NULL) || !may_wait(t, order, from, at) ||
            (check != SWI_NONE && !may_wait(t, order, check, at)))
            continue;
        SW_TRY(join_tiles(t, &t->nodes[order->nodes[from]],
                          mean != SWI_NONE ? &t->nodes[order->nodes[mean]] : NULL,
                          check != SWI_NONE ? &t->nodes[order->nodes[check]] : NULL, update,
                          range, exec));
        order->nodes[from] = SWI_NONE;
        if (mean != SWI_NONE)
            order->nodes[mean] = SWI_NONE;
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

/* ---- strips ------------------------------------------------------------------------------ */

/* Positions in the order; SWI_NONE: the group has none. */
enum { FUNCTION, READER, SLOPE, INPUT_DX, BOUND, MEMBERS };
typedef struct {
    uint32_t at[MEMBERS];
    swi_strips_kind kind;
    int64_t strip;
} group;

typedef struct {
    swi_trace *t;
    swi_order *order;
    const sw_exec *exec;
} session;

static swi_node *node_at(const session *s, uint32_t at)
{
    const uint32_t node = s->order->nodes[at];
    return node != SWI_NONE ? &s->t->nodes[node] : NULL;
}

static uint32_t operand_id(const session *s, const swi_node *node, uint32_t i)
{
    return s->t->operands[node->first + i];
}

static const swi_value *operand(const session *s, const swi_node *node, uint32_t i)
{
    return swi_operand(s->t, node, i);
}

static const void *attrs_at(const session *s, const swi_node *node)
{
    return s->t->attrs + node->attrs;
}

/* Up to `most` nodes after `at` that read a storage; how many do. */
static uint32_t readers_of(const session *s, uint32_t storage, uint32_t at, uint32_t *readers,
                           uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t k = at + 1; k < s->order->n; k++) {
        const swi_node *node = node_at(s, k);
        bool reads = false;
        for (uint32_t i = 0; node != NULL && i < node->n_in; i++)
            reads |= operand(s, node, i)->storage == storage;
        if (reads && n < most)
            readers[n] = k;
        n += reads;
    }
    return n;
}

/* The whole of a storage of the step arena that nothing else looks at and no one adds to. */
static bool is_own(const session *s, const swi_node *node, uint32_t i)
{
    const swi_value *v = operand(s, node, i);
    const swi_storage *x = &s->t->storages[v->storage];
    return x->segment == SWI_SEG_STEP && !x->pinned && v->contiguous && v->offset == 0 &&
           x->bytes == sw_type_bytes(&v->type);
}

static bool is_plain(const swi_node *node)
{
    return node->accumulate == 0 && node->null_out == 0;
}

/* The gradient kernel of the function at `f` for this gradient, if that is all that reads
 * it. */
static uint32_t slope_behind(const session *s, const swi_node *f, uint32_t at)
{
    const swi_node *makes = node_at(s, at);
    uint32_t reader;
    if (makes->n_out != 1 || !is_plain(makes) || !is_own(s, makes, makes->n_in) ||
        readers_of(s, operand(s, makes, makes->n_in)->storage, at, &reader, 1) != 1)
        return SWI_NONE;
    const swi_node *slope = node_at(s, reader);
    return slope->op == f->op && slope->grad >= 0 && slope->n_in == 2 && slope->n_out == 1 &&
                   is_plain(slope) && operand_id(s, slope, 0) == operand_id(s, f, 0) &&
                   operand_id(s, slope, 1) == operand_id(s, makes, makes->n_in)
               ? reader
               : SWI_NONE;
}

/* The op that makes the input gradient from the weight and dy of this update. */
static uint32_t input_dx_of(const session *s, const swi_node *tile, uint32_t before)
{
    const swi_tile_attrs *a = attrs_at(s, tile);
    const uint32_t param = (uint32_t)(a->n_make + a->n_check);
    for (uint32_t at = before; at-- > 0;) {
        const swi_node *node = node_at(s, at);
        if (node != NULL && swi_strips_makes_dx(node->op, node->grad) &&
            operand_id(s, node, 1) == operand_id(s, tile, 1) &&
            operand(s, node, 0)->storage == operand(s, tile, param)->storage)
            return at;
    }
    return SWI_NONE;
}

/* Do all members but the last commute with what stands between them and it? */
static bool may_join(const session *s, const group *g, uint32_t *last)
{
    *last = 0;
    for (int m = 0; m < MEMBERS; m++)
        *last = g->at[m] != SWI_NONE && g->at[m] > *last ? g->at[m] : *last;
    for (int m = 0; m < MEMBERS; m++)
        for (uint32_t k = g->at[m]; g->at[m] != SWI_NONE && ++k < *last;) {
            bool member = false;
            for (int i = 0; i < MEMBERS; i++)
                member |= g->at[i] == k;
            if (!member && node_at(s, k) != NULL &&
                !swi_are_apart(s->t, node_at(s, g->at[m]), node_at(s, k)))
                return false;
        }
    return true;
}

/* The function's reader, and its check's bound where that reads the same. */
static bool find_readers(const session *s, group *g, swi_strips_reader *how)
{
    const swi_node *f = node_at(s, g->at[FUNCTION]);
    const uint32_t made = operand_id(s, f, f->n_in);
    uint32_t readers[2];
    const uint32_t n = readers_of(s, s->t->values[made].storage, g->at[FUNCTION], readers, 2);
    *how = SWI_READS_NOT;
    if (n < 1 || n > 2)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const swi_node *node = node_at(s, readers[i]);
        const swi_strips_reader reads =
            swi_strips_reads(node->op, node->grad, attrs_at(s, node));
        for (uint32_t k = 1; k < node->n_in; k++)
            if (operand(s, node, k)->storage == s->t->values[made].storage)
                return false;
        if (reads == SWI_READS_NOT || operand_id(s, node, 0) != made || !is_plain(node) ||
            g->at[reads == SWI_READS_BOUND ? BOUND : READER] != SWI_NONE)
            return false;
        g->at[reads == SWI_READS_BOUND ? BOUND : READER] = readers[i];
        *how = reads != SWI_READS_BOUND ? reads : *how;
    }
    return g->at[READER] != SWI_NONE && (g->at[BOUND] == SWI_NONE || *how == SWI_READS_TILES);
}

/* Is the bound of this update's check, which nothing else reads, of its own factors? */
static bool is_own_bound(const session *s, const group *g)
{
    const swi_node *tile = node_at(s, g->at[READER]), *bound = node_at(s, g->at[BOUND]);
    const swi_tile_attrs *a = attrs_at(s, tile);
    const uint32_t said = operand_id(s, bound, bound->n_in);
    uint32_t reader;
    return a->has_check && a->check.has_bound &&
           operand_id(s, bound, 1) == operand_id(s, tile, 1) &&
           operand_id(s, tile, (uint32_t)(a->n_make + a->n_check - 1)) == said &&
           readers_of(s, s->t->values[said].storage, g->at[BOUND], &reader, 1) == 1;
}

static bool find_update(const session *s, group *g)
{
    const swi_node *f = node_at(s, g->at[FUNCTION]), *tile = node_at(s, g->at[READER]);
    g->at[INPUT_DX] = input_dx_of(s, tile, g->at[READER]);
    if (g->at[INPUT_DX] == SWI_NONE || (g->at[BOUND] != SWI_NONE && !is_own_bound(s, g)))
        return false;
    g->at[SLOPE] = slope_behind(s, f, g->at[INPUT_DX]);
    return g->at[SLOPE] != SWI_NONE;
}

/* Strips have the type of z: is all that lies in them of it? A loss takes float32 alone. */
static bool is_of_one_type(const session *s, const group *g)
{
    const sw_dtype dtype = operand(s, node_at(s, g->at[FUNCTION]), 0)->type.dtype;
    bool same =
        dtype == SW_F32 || g->kind == SWI_STRIPS_PRODUCT || g->kind == SWI_STRIPS_UPDATE;
    for (int m = FUNCTION; m <= SLOPE; m += SLOPE - FUNCTION) {
        const swi_node *node = g->at[m] != SWI_NONE ? node_at(s, g->at[m]) : NULL;
        for (uint32_t i = 0; node != NULL && i < node->n_in + node->n_out; i++)
            same = same && operand(s, node, i)->type.dtype == dtype;
    }
    return same;
}

/* The group of the function at `at`, if it has one that may be joined. */
static bool find_group(const session *s, uint32_t at, group *g, uint32_t *last)
{
    const swi_node *f = node_at(s, at);
    swi_strips_reader how = SWI_READS_NOT;
    *g = (group){.kind = SWI_STRIPS_PRODUCT};
    for (int m = 0; m < MEMBERS; m++)
        g->at[m] = SWI_NONE;
    g->at[FUNCTION] = at;
    if (!is_own(s, f, f->n_in) || !operand(s, f, 0)->contiguous ||
        swi_strips_size(SWI_STRIPS_LOSS, &operand(s, f, 0)->type.shape, false) == 0 ||
        !find_readers(s, g, &how))
        return false;
    const swi_node *reader = node_at(s, g->at[READER]);
    switch (how) {
    case SWI_READS_PRODUCT:
        break;
    case SWI_READS_LOSS:
        g->kind = SWI_STRIPS_LOSS;
        break;
    case SWI_READS_LOSS_DX:
        g->kind = SWI_STRIPS_LOSS_DX;
        g->at[SLOPE] = slope_behind(s, f, g->at[READER]);
        if (g->at[SLOPE] == SWI_NONE)
            return false;
        break;
    case SWI_READS_TILES:
        g->kind = SWI_STRIPS_UPDATE;
        if (!find_update(s, g))
            return false;
        break;
    case SWI_READS_NOT:
    case SWI_READS_BOUND:
        return false;
    }
    bool state8 = false;
    for (uint32_t i = 0; g->kind == SWI_STRIPS_UPDATE && i < reader->n_out; i++)
        state8 |= operand(s, reader, reader->n_in + i)->type.dtype == SW_U8;
    g->strip = swi_strips_size(g->kind, &operand(s, f, 0)->type.shape, state8);
    return g->strip > 0 && is_of_one_type(s, g) && may_join(s, g, last);
}

/* ---- joining ----------------------------------------------------------------------------- */

/* As many of about one size as have at most the bytes of those of whole rows. */
static int64_t rows_of_tile(const session *s, const group *g)
{
    const swi_node *tile = node_at(s, g->at[READER]);
    const swi_tile_attrs *a = attrs_at(s, tile);
    const int64_t all = operand(s, tile, tile->n_in)->type.shape.dim[0];
    const int64_t row = g->strip * (int64_t)sw_dtype_bytes(SW_F32);
    const int64_t most = (int64_t)swi_rows_of(a->make_op, a->make_grad)->most / row;
    const int64_t tiles = (all + most - 1) / most;
    const int64_t rows = ((all + tiles - 1) / tiles + SWI_TILE_UNIT - 1) / SWI_TILE_UNIT;
    return tiles > 1 ? rows * SWI_TILE_UNIT : all;
}

static uint32_t put(uint32_t *to, uint32_t n, uint32_t id)
{
    to[n] = id;
    return n + 1;
}

/* As swi_strips_attrs says; *n_in of them are inputs. */
static uint32_t write_operands(const session *s, const group *g, uint32_t *n_in)
{
    const swi_node *f = node_at(s, g->at[FUNCTION]), *reader = node_at(s, g->at[READER]);
    const swi_node *slope = g->at[SLOPE] != SWI_NONE ? node_at(s, g->at[SLOPE]) : NULL;
    const swi_node *bound = g->at[BOUND] != SWI_NONE ? node_at(s, g->at[BOUND]) : NULL;
    uint32_t *to = s->t->operands + s->t->n_operands;
    uint32_t n = put(to, 0, operand_id(s, f, 0));
    for (uint32_t i = 1; i < reader->n_in; i++)
        if (bound == NULL || operand_id(s, reader, i) != operand_id(s, bound, bound->n_in))
            n = put(to, n, operand_id(s, reader, i));
    *n_in = n;
    if (slope != NULL)
        n = put(to, n, operand_id(s, slope, slope->n_in));
    for (uint32_t i = 0; g->kind != SWI_STRIPS_LOSS_DX && i < reader->n_out; i++)
        n = put(to, n, operand_id(s, reader, reader->n_in + i));
    return n;
}

sw_status swi_join_node(swi_trace *t, const sw_exec *exec, uint32_t lead, swi_op_duty duty,
                        uint32_t n_in, uint32_t n_out, size_t attrs_bytes)
{
    swi_node *node = &t->nodes[lead];
    swi_selected_kernel picked;
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    node->op = swi_op_with(duty);
    node->grad = -1;
    node->n_in = n_in;
    node->n_out = n_out;
    node->first = t->n_operands;
    node->attrs = t->n_attrs;
    t->n_operands += n_in + n_out;
    t->n_attrs += (uint32_t)attrs_bytes;
    for (uint32_t k = n_in; k < n_in + n_out; k++)
        t->values[t->operands[node->first + k]].node = lead;
    swi_kernel_info(t, node, types, &info);
    SW_TRY(swi_select_kernel(exec, node->op, -1, &info, &picked));
    node->kernel = picked.kernel;
    node->on_device = picked.on_device;
    swi_storage *scratch = &t->storages[node->scratch];
    scratch->bytes = picked.scratch_bytes;
    if (!sw_size_align(scratch->bytes, SW_ALIGN, &scratch->rounded))
        SW_FAIL(SW_NOMEM, "%zu bytes overflow", scratch->bytes);
    scratch->role = SWI_ROLE_WORKSPACE;
    scratch->layer = node->layer;
    scratch->phase = node->phase;
    return SW_OK;
}

/* The node of the reader becomes that of all, in the place of the last; what f(z) lay in, or
 * the workspace of the tiles, becomes its workspace. */
static sw_status join(const session *s, const group *g, uint32_t last)
{
    swi_trace *t = s->t;
    uint32_t n_in;
    SW_TRY(swi_reserve_operands(t, SWI_MAX_OPERANDS));
    SW_TRY(swi_reserve_attrs(t, sizeof(swi_strips_attrs) + 8));
    t->n_attrs = (t->n_attrs + 7) / 8 * 8;
    const swi_node *f = node_at(s, g->at[FUNCTION]), *reader = node_at(s, g->at[READER]);
    const swi_node *body = g->at[INPUT_DX] != SWI_NONE ? node_at(s, g->at[INPUT_DX]) : reader;
    swi_strips_attrs a;
    memset(&a, 0, sizeof a);
    a.kind = (int32_t)g->kind;
    a.f = f->op;
    a.f_grad = g->at[SLOPE] != SWI_NONE ? node_at(s, g->at[SLOPE])->grad : -1;
    a.body = body->op;
    a.body_grad = body->grad;
    a.strip = g->strip;
    memcpy(&a.number, attrs_at(s, f), swi_op(f->op)->attrs_bytes);
    a.rebuilds = f->again == SWI_AGAIN_REBUILT;
    a.rebuild_cost = a.rebuilds ? swi_node_cost(s->t, f) : 0;
    if (g->kind == SWI_STRIPS_UPDATE) {
        memcpy(&a.tile, attrs_at(s, reader), sizeof a.tile);
        a.tile.rows = rows_of_tile(s, g);
    }
    if (g->at[BOUND] != SWI_NONE) {
        a.has_bound = 1;
        memcpy(&a.bound, attrs_at(s, node_at(s, g->at[BOUND])), sizeof a.bound);
    }
    memcpy(s->t->attrs + s->t->n_attrs, &a, sizeof a);
    const uint32_t n = write_operands(s, g, &n_in);
    const uint32_t lead = s->order->nodes[g->at[READER]];
    swi_node *node = &t->nodes[lead];
    if (node->scratch == SWI_NONE)
        node->scratch = operand(s, f, f->n_in)->storage;
    SW_TRY(swi_join_node(t, s->exec, lead, SWI_DUTY_STRIPS, n_in, n - n_in,
                         sizeof(swi_strips_attrs)));
    for (int m = 0; m < MEMBERS; m++)
        if (g->at[m] != SWI_NONE)
            s->order->nodes[g->at[m]] = SWI_NONE;
    s->order->nodes[last] = lead;
    return SW_OK;
}

/* The group of the function at `at`, if there is one. */
static bool is_group(const session *s, uint32_t at, group *g, uint32_t *last)
{
    const swi_node *node = node_at(s, at);
    return node != NULL && node->grad < 0 && node->n_in == 1 && node->n_out == 1 &&
           is_plain(node) && swi_strips_function(node->op) && find_group(s, at, g, last);
}

sw_status swi_pass_strips(swi_trace *t, swi_order *order, const sw_exec *exec)
{
    const session s = {t, order, exec};
    for (uint32_t at = 0; at < order->n; at++) {
        group g;
        uint32_t last = 0;
        if (is_group(&s, at, &g, &last))
            SW_TRY(join(&s, &g, last));
    }
    return swi_pass_chains(t, order, exec, NULL);
}

bool swi_may_strip(swi_trace *t, swi_order *order, const sw_exec *exec)
{
    const session s = {t, order, exec};
    group g;
    uint32_t last = 0;
    bool found = false;
    if (!swi_device_has(swi_target_of(exec)->device, swi_op_with(SWI_DUTY_STRIPS), -1))
        return false;
    for (uint32_t at = 0; at < order->n && !found; at++)
        found = is_group(&s, at, &g, &last);
    return found || (swi_pass_chains(t, order, exec, &found) == SW_OK && found);
}
