/* The pass that lets convolutions, and what goes image by image around them, run some images at
 * a time: program_internal.h.
 *
 * A chain is a run of ops that follow each other in the order: up to a pool, or up to a
 * weight's gradient. Recomputed ops go first in it, so that no more than that lies beside
 * it, and a convolution's input gradient last, so that it may take the place of what the
 * weight's is made from. */
#include "alloc/base/size.h"
#include "runtime/device/pieces.h"
#include "runtime/graph/trace.h"
#include "runtime/ops/ops.h"
#include "runtime/plan/program_internal.h"
#include <string.h>

typedef struct {
    swi_trace *t;
    swi_order *order;
    uint32_t first, n; /* positions in the order */
    uint32_t nodes[SWI_IMAGES_OPS];
    uint32_t whole[SWI_IMAGES_OPS];
    int32_t units[SWI_IMAGES_OPS];
    uint32_t lead; /* the node that becomes that of all */
    uint32_t in[SWI_MAX_OPERANDS], out[SWI_MAX_OPERANDS], n_in, n_out;
    uint32_t inner[SWI_IMAGES_OPS], n_inner;
    swi_images_attrs a;
} chain;

static uint32_t operand_id(const chain *c, int i, uint32_t k)
{
    return c->t->operands[c->t->nodes[c->nodes[i]].first + k];
}

static const swi_node *node_of(const chain *c, int i)
{
    return &c->t->nodes[c->nodes[i]];
}

static uint32_t n_operands(const swi_node *node)
{
    return node->n_in + node->n_out;
}

static bool is_conv(const swi_node *node)
{
    return swi_op_traits_of(node->op)->axes == SWI_AXES_CONV;
}

/* The ops from `first` on that may go together. */
static void collect(chain *c)
{
    for (uint32_t at = c->first; at < c->order->n && c->n < SWI_IMAGES_OPS; at++) {
        const uint32_t id = c->order->nodes[at];
        const swi_node *node = id != SWI_NONE ? &c->t->nodes[id] : NULL;
        uint32_t whole;
        if (node == NULL || !swi_images_member(node->op, node->grad, node->n_in, &whole) ||
            node->accumulate != 0 || node->null_out != 0 || node->on_device != NULL ||
            n_operands(node) > SWI_IMAGES_OPERANDS ||
            swi_op(node->op)->attrs_bytes > sizeof c->a.ops[0].attrs)
            return;
        c->nodes[c->n++] = id;
        if (is_conv(node))
            c->lead = id;
        const bool pools = node->grad < 0 && swi_op_traits_of(node->op)->axes == SWI_AXES_IMAGE;
        if (pools || whole >> node->n_in != 0)
            return;
    }
}

/* Recomputed ops first, an input gradient that is read elsewhere last. */
static void sort(chain *c)
{
    uint32_t sorted[SWI_IMAGES_OPS], n = 0;
    for (int key = 0; key < 3; key++)
        for (uint32_t i = 0; i < c->n; i++) {
            const swi_node *node = node_of(c, (int)i);
            bool read = false;
            for (uint32_t m = i + 1; m < c->n; m++)
                for (uint32_t k = 0; k < node_of(c, (int)m)->n_in; k++)
                    read |= operand_id(c, (int)m, k) == operand_id(c, (int)i, node->n_in);
            const int own = node->again == SWI_AGAIN_REBUILT            ? 0
                            : is_conv(node) && node->grad == 0 && !read ? 2
                                                                        : 1;
            if (own == key)
                sorted[n++] = c->nodes[i];
        }
    memcpy(c->nodes, sorted, n * sizeof *sorted);
}

/* Is each operand of the batch cut into whole parts, and does each op come after what it reads,
 * under one name? */
static bool is_in_parts(chain *c)
{
    const swi_value *x = NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        const swi_node *node = node_of(c, (int)i);
        (void)swi_images_member(node->op, node->grad, node->n_in, &c->whole[i]);
        if (c->nodes[i] == c->lead)
            x = &c->t->values[operand_id(c, (int)i, node->grad == 0 ? 1 : 0)];
    }
    const int64_t batch = x->type.shape.dim[0], blocks = (batch + 15) / 16;
    c->a.batch = batch;
    c->a.parts = (batch + SWI_IMAGES - 1) / SWI_IMAGES;
    if (x->type.layout != SW_N16 || c->a.parts < 2)
        return false;
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < n_operands(node_of(c, (int)i)); k++) {
            const uint32_t id = operand_id(c, (int)i, k);
            const swi_value *v = &c->t->values[id];
            const bool written = k >= node_of(c, (int)i)->n_in;
            if (!v->contiguous ||
                (v->type.dtype != SW_F32 && v->type.dtype != SW_BF16 &&
                 v->type.dtype != SW_U8) ||
                ((c->whole[i] >> k & 1u) == 0 &&
                 (v->type.shape.rank == 4
                      ? v->type.shape.dim[0] != batch
                      : v->type.layout != SW_PLAIN || v->type.shape.rank < 1 ||
                            v->type.shape.dim[0] % blocks != 0)))
                return false;
            for (uint32_t m = 0; m < c->n && written; m++)
                for (uint32_t j = 0; j < n_operands(node_of(c, (int)m)); j++)
                    if (c->t->values[operand_id(c, (int)m, j)].storage == v->storage &&
                        !(operand_id(c, (int)m, j) == id && (m > i || (m == i && j == k))))
                        return false;
        }
    return true;
}

/* How many ops outside of the chain touch this storage, and inside: *inside. */
static uint32_t touched(const chain *c, uint32_t storage, uint32_t *inside)
{
    uint32_t outside = 0;
    *inside = 0;
    for (uint32_t at = 0; at < c->order->n; at++) {
        const uint32_t id = c->order->nodes[at];
        const swi_node *node = id != SWI_NONE ? &c->t->nodes[id] : NULL;
        const bool touches =
            node != NULL && swi_touches(c->t, node, 0, n_operands(node), storage);
        if (touches && at >= c->first && at < c->first + c->n)
            ++*inside;
        else
            outside += touches;
    }
    return outside;
}

static int8_t place_in(uint32_t *ids, uint32_t *n, uint32_t id)
{
    for (uint32_t i = 0; i < *n; i++)
        if (ids[i] == id)
            return (int8_t)i;
    ids[*n] = id;
    return (int8_t)(*n)++;
}

static void swap(uint32_t *ids, uint32_t k)
{
    const uint32_t first = ids[0];
    ids[0] = ids[k];
    ids[k] = first;
}

/* The last op that touches this operand. */
static uint32_t last_of(const chain *c, uint32_t id, uint32_t *first)
{
    uint32_t last = 0;
    *first = SWI_NONE;
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < n_operands(node_of(c, (int)i)); k++)
            if (operand_id(c, (int)i, k) == id) {
                *first = *first == SWI_NONE ? i : *first;
                last = i;
            }
    return last;
}

/* Output 0 may take the place of operand 0 where that was read before; else the two are of
 * different kinds. */
static void pair_first(chain *c)
{
    for (uint32_t k = 0; k < c->n_in; k++)
        for (uint32_t j = 0; j < c->n_out; j++) {
            const sw_type *x = &c->t->values[c->in[k]].type, *y = &c->t->values[c->out[j]].type;
            uint32_t first, written;
            const uint32_t read = last_of(c, c->in[k], &first);
            (void)last_of(c, c->out[j], &written);
            if (x->layout == SW_N16 && y->layout == SW_N16 && read < written &&
                sw_type_bytes(x) == sw_type_bytes(y)) {
                swap(c->in, k);
                swap(c->out, j);
                return;
            }
        }
    for (uint32_t k = 0; k < c->n_in; k++) /* a weight, or an image beside one's gradient */
        if (c->t->storages[c->t->values[c->in[k]].storage].segment >= SWI_SEG_MODEL ||
            (c->t->values[c->in[0]].type.layout != SW_N16 &&
             c->t->values[c->in[k]].type.layout == SW_N16)) {
            swap(c->in, k);
            if (c->t->storages[c->t->values[c->in[0]].storage].segment >= SWI_SEG_MODEL)
                break;
        }
    for (uint32_t j = 0; j < c->n_out; j++)
        if (c->t->values[c->out[j]].type.layout != SW_N16) {
            swap(c->out, j);
            return;
        }
}

/* Which operands are the node's, and which stay inside. */
static void name_operands(chain *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const swi_node *node = node_of(c, (int)i);
        for (uint32_t k = 0; k < n_operands(node); k++) {
            const uint32_t id = operand_id(c, (int)i, k);
            const swi_value *v = &c->t->values[id];
            const swi_storage *s = &c->t->storages[v->storage];
            uint32_t inside, first;
            (void)last_of(c, id, &first);
            const bool made = first == i ? k >= node->n_in : false;
            if (!made)
                continue;
            const bool read =
                touched(c, v->storage, &inside) > 0 || s->pinned || s->segment != SWI_SEG_STEP;
            if (!read && inside > 1 && (c->whole[i] >> k & 1u) == 0 && v->offset == 0 &&
                s->bytes == sw_type_bytes(&v->type))
                (void)place_in(c->inner, &c->n_inner, id);
            else if (read || inside > 1 || node->grad >= 0 ||
                     k - node->n_in < (uint32_t)swi_op(node->op)->n_out)
                (void)place_in(c->out, &c->n_out, id);
        }
    }
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < node_of(c, (int)i)->n_in; k++) {
            const uint32_t id = operand_id(c, (int)i, k);
            bool made = false;
            for (uint32_t j = 0; j < c->n_inner; j++)
                made |= c->inner[j] == id;
            for (uint32_t j = 0; j < c->n_out; j++)
                made |= c->out[j] == id;
            if (!made)
                (void)place_in(c->in, &c->n_in, id);
        }
    for (uint32_t i = 1; i < c->n_inner; i++) /* the largest first, for their places */
        for (uint32_t j = i; j > 0 && sw_type_bytes(&c->t->values[c->inner[j]].type) >
                                          sw_type_bytes(&c->t->values[c->inner[j - 1]].type);
             j--) {
            const uint32_t larger = c->inner[j];
            c->inner[j] = c->inner[j - 1];
            c->inner[j - 1] = larger;
        }
    pair_first(c);
}

static size_t part_bytes(const chain *c, uint32_t inner)
{
    const sw_type part = swi_images_part(&c->a, &c->a.inner[inner].type, 0);
    return sw_size_round(sw_type_bytes(&part));
}

/* Where what stays inside lies: in the place of what dies with its first op, where that may be;
 * else at the first offset that is free. */
static void lay_out_inner(chain *c)
{
    for (uint32_t i = 0; i < c->n_inner; i++) {
        swi_images_inner *to = &c->a.inner[i];
        uint32_t first;
        const uint32_t last = last_of(c, c->inner[i], &first);
        const swi_node *node = node_of(c, (int)first);
        to->type = c->t->values[c->inner[i]].type;
        const size_t bytes = part_bytes(c, i);
        bool placed = false;
        for (uint32_t k = 0; k < node->n_in && k < 32; k++)
            for (uint32_t j = 0; j < i; j++) {
                uint32_t born;
                if (!placed && (swi_inplace_mask(node) >> k & 1u) != 0 &&
                    operand_id(c, (int)first, node->n_in) == c->inner[i] &&
                    operand_id(c, (int)first, k) == c->inner[j] &&
                    last_of(c, c->inner[j], &born) == first && part_bytes(c, j) == bytes) {
                    to->at = c->a.inner[j].at;
                    placed = true;
                }
            }
        for (uint32_t j = 0; j < i && !placed; j++) {
            uint32_t born;
            const uint32_t died = last_of(c, c->inner[j], &born);
            const size_t from = c->a.inner[j].at, end = from + part_bytes(c, j);
            if (born <= last && died >= first && to->at < end && to->at + bytes > from) {
                to->at = end;
                j = SWI_NONE; /* look at all again, from 0 */
            }
        }
        if (to->at + bytes > c->a.inner_bytes)
            c->a.inner_bytes = to->at + bytes;
    }
}

/* Two ops touch different bytes of scratch, or bytes that are cut in the same places. */
static bool may_overtake(const chain *c, const swi_images_op *a, const swi_images_op *b)
{
    for (int i = 0; i < a->n_in + a->n_out; i++)
        for (int k = 0; k < b->n_in + b->n_out; k++) {
            if (a->operand[i] < SWI_IMAGES_INNER || b->operand[k] < SWI_IMAGES_INNER)
                continue;
            const swi_images_inner *x = &c->a.inner[a->operand[i] - SWI_IMAGES_INNER],
                                   *y = &c->a.inner[b->operand[k] - SWI_IMAGES_INNER];
            const sw_type of_x = swi_images_part(&c->a, &x->type, 0),
                          of_y = swi_images_part(&c->a, &y->type, 0);
            const size_t bytes = sw_type_bytes(&of_x), others = sw_type_bytes(&of_y);
            if ((x->at != y->at || bytes != others) && x->at < y->at + others &&
                y->at < x->at + bytes)
                return false;
        }
    return true;
}

/* Goes a block of images through op i without the others? It sums nothing over them and has no
 * scratch, and no block that is further in a run of such ops is in its way. */
static int16_t is_alone(const chain *c, uint32_t i)
{
    const swi_node *node = node_of(c, (int)i);
    const swi_images_op *ops = c->a.ops;
    const sw_op_desc *d = swi_op(node->op);
    size_t (*bytes)(const sw_kernel_info *) =
        node->grad < 0 ? d->scratch_bytes : d->grads[node->grad].scratch_bytes;
    if (c->whole[i] >> node->n_in != 0 || c->units[i] != SWI_IMAGES_NONE)
        return 0;
    for (int last = 0; last < 2 && bytes != NULL; last++) {
        sw_type types[SWI_MAX_OPERANDS];
        sw_kernel_info info;
        swi_kernel_info(c->t, node, types, &info);
        for (uint32_t k = 0; k < n_operands(node); k++)
            if ((c->whole[i] >> k & 1u) == 0)
                types[k] = swi_images_part(&c->a, &types[k], last == 0 ? 0 : c->a.parts - 1);
        if (bytes(&info) > 0)
            return 0;
    }
    for (uint32_t j = i; j-- > 0 && ops[j].alone > 0;) {
        if (!may_overtake(c, &ops[i], &ops[j]))
            return 1;
        if (ops[j].alone == 1)
            break;
    }
    return i > 0 && ops[i - 1].alone > 0 ? 2 : 1;
}

static void fill_ops(chain *c)
{
    c->a.n_ops = (int32_t)c->n;
    for (uint32_t i = 0; i < c->n; i++) {
        swi_images_op *op = &c->a.ops[i];
        const swi_node *node = node_of(c, (int)i);
        op->op = node->op;
        op->grad = node->grad;
        op->n_in = (int16_t)node->n_in;
        op->n_out = (int16_t)node->n_out;
        op->whole = c->whole[i];
        op->units = (int16_t)c->units[i];
        if (swi_op(node->op)->attrs_bytes > 0)
            memcpy(op->attrs, c->t->attrs + node->attrs, swi_op(node->op)->attrs_bytes);
        for (uint32_t k = 0; k < n_operands(node); k++) {
            const uint32_t id = operand_id(c, (int)i, k);
            op->operand[k] = SWI_IMAGES_NONE;
            for (uint32_t j = 0; j < c->n_in; j++)
                op->operand[k] = c->in[j] == id ? (int8_t)j : op->operand[k];
            for (uint32_t j = 0; j < c->n_out; j++)
                op->operand[k] = c->out[j] == id ? (int8_t)(c->n_in + j) : op->operand[k];
            for (uint32_t j = 0; j < c->n_inner; j++)
                op->operand[k] =
                    c->inner[j] == id ? (int8_t)(SWI_IMAGES_INNER + j) : op->operand[k];
        }
        op->alone = is_alone(c, i);
        if (node->again == SWI_AGAIN_REBUILT) {
            c->a.rebuilds++;
            c->a.rebuild_cost += swi_node_cost(c->t, node);
        }
    }
}

/* A sum over images is made of one partial sum for each part: its scratch says how many. In
 * bf16 it is made of whole pieces, which a part may then cut in the same places. */
static bool sums_in_parts(chain *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const swi_node *node = node_of(c, (int)i);
        sw_type types[SWI_MAX_OPERANDS];
        sw_kernel_info info;
        const bool sums = c->whole[i] >> node->n_in != 0;
        c->units[i] = node->kernel == swi_in_pieces ? 0 : SWI_IMAGES_NONE;
        if (!sums)
            continue;
        swi_kernel_info(c->t, node, types, &info);
        if (node->kernel == swi_in_pieces) {
            c->units[i] = (int32_t)swi_pieces_that_add(node->op, node->grad, &info);
            if (c->units[i] == 0 || SWI_IMAGES / 16 % c->units[i] != 0)
                return false;
            continue;
        }
        size_t (*bytes)(const sw_kernel_info *) =
            swi_op(node->op)->grads[node->grad].scratch_bytes;
        const size_t all = bytes(&info);
        for (uint32_t k = 0; k < n_operands(node); k++)
            if ((c->whole[i] >> k & 1u) == 0)
                types[k] = swi_images_part(&c->a, &types[k], 0);
        if (all == 0 || all != (size_t)c->a.parts * bytes(&info))
            return false;
    }
    return true;
}

static bool find(chain *c)
{
    c->lead = SWI_NONE;
    collect(c);
    if (c->lead == SWI_NONE || c->n < 2)
        return false;
    sort(c);
    if (!is_in_parts(c) || !sums_in_parts(c))
        return false;
    name_operands(c);
    return c->n_inner > 0 && c->n_in > 0 && c->n_out > 0;
}

static sw_status join(chain *c, const sw_exec *exec)
{
    swi_trace *t = c->t;
    lay_out_inner(c);
    fill_ops(c);
    SW_TRY(swi_reserve_operands(t, SWI_MAX_OPERANDS));
    SW_TRY(swi_reserve_attrs(t, sizeof c->a + 8));
    t->n_attrs = (t->n_attrs + 7) / 8 * 8;
    memcpy(t->attrs + t->n_attrs, &c->a, sizeof c->a);
    memcpy(t->operands + t->n_operands, c->in, c->n_in * sizeof *c->in);
    memcpy(t->operands + t->n_operands + c->n_in, c->out, c->n_out * sizeof *c->out);
    const swi_node *node = &t->nodes[c->lead];
    t->nodes[c->lead].scratch = t->values[c->inner[0]].storage;
    SW_TRY(swi_join_node(t, exec, c->lead, SWI_DUTY_IMAGES, c->n_in, c->n_out, sizeof c->a));
    for (uint32_t k = 0; k < c->n_out; k++) {
        swi_storage *s = &t->storages[t->values[c->out[k]].storage];
        if (s->segment != SWI_SEG_STEP)
            continue;
        s->layer = node->layer;
        s->phase = node->phase;
    }
    for (uint32_t i = 0; i < c->n; i++)
        c->order->nodes[c->first + i] = SWI_NONE;
    c->order->nodes[c->first + c->n - 1] = c->lead;
    return SW_OK;
}

sw_status swi_pass_chains(swi_trace *t, swi_order *order, const sw_exec *exec, bool *found)
{
    for (uint32_t at = 0; at < order->n; at++) {
        chain c;
        memset(&c, 0, sizeof c);
        c.t = t;
        c.order = order;
        c.first = at;
        if (!find(&c))
            continue;
        if (found != NULL) {
            *found = true;
            return SW_OK;
        }
        SW_TRY(join(&c, exec));
        at += c.n - 1;
    }
    uint32_t n = 0;
    for (uint32_t at = 0; at < order->n; at++)
        if (order->nodes[at] != SWI_NONE)
            order->nodes[n++] = order->nodes[at];
    order->n = n;
    return SW_OK;
}
