/* Pieces: an op's word in ops.def says along what it is cut. Each operand is (outer, positions,
 * inner): a piece has some positions of it, or all of it, as weights have.
 *
 * Threads take slots: runs of pieces, each with its own part of the scratch, in which a thread
 * widens, computes and rounds by itself. Where pieces add to one result (the gradient of a
 * weight), or are large, one goes after the other, and the threads share its kernel.
 *
 * On a card pieces are larger and follow each other in the queue, and products go so as well:
 * where the library takes factors of bf16 they are given to it, and masters rounded before;
 * else its kernel gets float32 that was rounded. In a product of float32 a stored weight is
 * widened whole. */
#include "runtime/device/pieces.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "kernels/attrs.h"
#include "kernels/dispatch.h"
#include "runtime/device/device.h"
#include <string.h>

size_t swi_piece_bytes = 1 << 18;

enum {
    GROUP = 1024,    /* elements of a flat unit: whole bytes of codes of a few bits */
    BLOCK = 16,      /* images of SW_N16 */
    SLOTS = 8,       /* at most */
    MOST = 1 << 20,  /* bytes of all slots, where single units are large */
    LEAST = 1 << 14, /* bytes of widened operands that are not worth cutting */
    SHARE = 4,       /* of the widened operands at most one in so many is there at a time */
    CARD = 128,      /* times the bytes of a piece on a card: one launch keeps it busy */
    ALIGNED = 8      /* positions of a card's piece: numbers of bf16 in 16 bytes */
};

typedef struct {
    bool cut;
    int axis;                    /* whose length a piece changes; -1: its shape is (n, inner) */
    int64_t outer, count, inner; /* positions; elements of one */
    int64_t scale;               /* positions of a unit */
    sw_dtype dtype;              /* that the kernel sees */
    bool rounds;                 /* float32 that is rounded to bf16 and widened again */
    size_t offset, bytes;        /* in its slot, whole ones before all slots; bytes 0: it is
                                    used where it is */
} part;

typedef struct {
    swi_op_halves word;
    const sw_cuda_queue *queue; /* NULL: of the CPU */
    bool wide;                  /* a card's product of float32, with a weight of bf16 */
    bool native;                /* a card's product: factors are bf16 */
    bool blocks;                /* an operand lies in blocks of sixteen images */
    bool adds;                  /* to a result that is not cut */
    int64_t units, each;        /* of all; of a piece */
    int n;                      /* operands */
    part parts[SWI_MAX_OPERANDS];
    int slots;
    size_t whole;             /* bytes of operands that are not cut */
    size_t kernel_at, kernel; /* scratch of the kernel: in a slot; its bytes */
} pieces;

static const sw_type *type_of(const sw_kernel_info *info, int i)
{
    return i < info->n_in ? &info->in[i] : &info->out[i - info->n_in];
}

static const sw_grad_desc *grad_of(uint32_t op, int grad)
{
    return grad >= 0 ? &swi_op(op)->grads[grad] : NULL;
}

/* The input of the forward op that operand i is, or is the gradient of; -1: a result, or the
 * gradient of one. */
static int input_of(uint32_t op, int grad, const sw_kernel_info *info, int i)
{
    const sw_grad_desc *g = grad_of(op, grad);
    if (g == NULL)
        return i < info->n_in ? i : -1;
    if (i >= info->n_in)
        return g->makes[i - info->n_in];
    return SWI_OPERAND_KIND(g->operands[i]) == SW_IN(0) ? (int)SWI_OPERAND_INDEX(g->operands[i])
                                                        : -1;
}

/* The weight of a convolution that this launch has or makes the gradient of; NULL: none. */
static const sw_type *weight_of(uint32_t op, int grad, const sw_kernel_info *info)
{
    for (int i = 0; i < info->n_in + info->n_out; i++)
        if (input_of(op, grad, info, i) == 1)
            return type_of(info, i);
    return NULL;
}

static bool is_product(const sw_type *w, const swi_conv_attrs *a)
{
    return w != NULL && w->shape.dim[2] == 1 && w->shape.dim[3] == 1 && a->stride == 1 &&
           a->pad == 0 && a->groups == 1;
}

static bool is_depthwise(const sw_type *w, const swi_conv_attrs *a)
{
    return w != NULL && w->shape.dim[0] == a->groups && w->shape.dim[1] == 1;
}

/* Is it a product, on a card? Its factors are rounded to bf16. */
static bool has_factors(uint32_t op, int grad, const sw_kernel_info *info)
{
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    return word == SWI_HALVES_CONV ? is_product(weight_of(op, grad, info), info->attrs)
           : word == SWI_HALVES_LOSS
               ? grad < 0
               : (word == SWI_HALVES_PRODUCT || word == SWI_HALVES_ALIKE) &&
                     (grad < 0 || grad_of(op, grad)->n_operands > 1);
}

/* Is it a product of float32, with a stored weight? */
static bool is_wide(uint32_t op, int grad, const sw_kernel_info *info)
{
    return !swi_others_half(info, swi_stored_input(op, grad, info->attrs));
}

/* PRODUCT: no operand is cut. */
static swi_op_halves word_of(uint32_t op, int grad, const sw_kernel_info *info, bool card)
{
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    if (is_wide(op, grad, info))
        return SWI_HALVES_PRODUCT;
    if (card && word != SWI_HALVES_CONV && has_factors(op, grad, info))
        return op == SW_OP_linear         ? SWI_HALVES_ROWS
               : word == SWI_HALVES_ALIKE ? SWI_HALVES_IMAGES
                                          : SWI_HALVES_PRODUCT;
    if (word == SWI_HALVES_CONV)
        return is_depthwise(weight_of(op, grad, info), info->attrs) ? SWI_HALVES_CHANNELS
                                                                    : SWI_HALVES_GROUPS;
    if (word == SWI_HALVES_MOVES || word == SWI_HALVES_LOSS || word == SWI_HALVES_FUNCTION)
        return SWI_HALVES_FLAT; /* a copy that adds; gradients that are scaled */
    if (word == SWI_HALVES_READS)
        return SWI_HALVES_LINES;
    if (word == SWI_HALVES_IMAGES && swi_op(op)->n_in == 1 && info->out[0].layout == SW_N16)
        return SWI_HALVES_CHANNELS; /* a block may be all images */
    if (word == SWI_HALVES_PRODUCT)
        return SWI_HALVES_ROWS; /* a bias's gradient: the sum of rows */
    if (word == SWI_HALVES_PLANES)
        return SWI_HALVES_IMAGES;
    if (word != SWI_HALVES_BROADCAST)
        return word;
    for (int i = 0; i < info->n_in + info->n_out; i++)
        if (!swi_same_shape(&type_of(info, i)->shape, &info->out[0].shape))
            return word;
    return SWI_HALVES_FLAT;
}

/* Has the CPU a kernel of bf16 for this depthwise convolution, or its image's gradient? */
static bool is_depthwise_as_is(uint32_t op, int grad, const sw_kernel_info *info)
{
    const sw_type *w = weight_of(op, grad, info), *out = &info->out[0];
    bool taken = op == SW_OP_conv2d && w != NULL && w != out && w->dtype == SW_F32;
    for (int i = 0; i < info->n_in + info->n_out; i++)
        taken =
            taken && (input_of(op, grad, info, i) > 0) == (type_of(info, i)->dtype != SW_BF16);
    if (!taken)
        return false;
    const swi_conv_attrs *a = info->attrs;
    const int64_t *x = (grad < 0 ? &info->in[0] : out)->shape.dim;
    const int64_t *y = (grad < 0 ? out : &info->in[1])->shape.dim;
    const sw_conv s = SW_INIT(.in_c = x[1], .in_w = x[3], .out_c = y[1], .out_w = y[3],
                              .kernel_h = w->shape.dim[2], .kernel_w = w->shape.dim[3],
                              .stride = a->stride, .pad = a->pad, .groups = a->groups,
                              .dilation = a->dilation, .plain = out->layout == SW_PLAIN);
    return sw_conv_takes_halves(&s);
}

/* Has the CPU a kernel for these operands, all of bf16 but for what channels have? */
static bool is_taken_as_is(uint32_t op, const sw_kernel_info *info)
{
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    bool taken =
        word == SWI_HALVES_FUNCTION || word == SWI_HALVES_CHANNELS || word == SWI_HALVES_PLANES;
    for (int i = 0; i < info->n_in + info->n_out; i++) {
        const sw_type *t = type_of(info, i);
        const bool of_channels =
            word == SWI_HALVES_CHANNELS && (t->shape.rank < 2 || t->dtype == SW_F64);
        taken = taken && (t->dtype == SW_BF16) != of_channels;
    }
    return taken;
}

bool swi_goes_in_pieces(uint32_t op, int grad, const sw_kernel_info *info, bool card)
{
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    const sw_cuda_entry *entry = card ? swi_device_entry(op, grad) : NULL;
    if (!swi_any_half(info) || op >= SW_OPS_INSIDE || word <= SWI_HALVES_NEVER ||
        (entry != NULL && entry->exact >= 2))
        return false;
    if (word == SWI_HALVES_MOVES || card)
        return word != SWI_HALVES_MOVES || info->accumulate != 0;
    if (word == SWI_HALVES_LOOKUP && grad < 0 && info->in[1].dtype == SW_BF16)
        return false; /* rows of a stored table are read where they are */
    if (word == SWI_HALVES_ALIKE || is_taken_as_is(op, info))
        return false;
    if (word == SWI_HALVES_LOSS)
        return grad >= 0;
    if (word == SWI_HALVES_CONV)
        return !is_product(weight_of(op, grad, info), info->attrs) &&
               !is_depthwise_as_is(op, grad, info);
    return word != SWI_HALVES_PRODUCT || (grad >= 0 && grad_of(op, grad)->n_operands == 1);
}

static int64_t per(int64_t elements, int64_t positions)
{
    return positions > 0 ? elements / positions : 0;
}

/* Along its elements: numbers, or the codes of a few bits that stand beside them. */
static part flat_part(const sw_type *t, int64_t n)
{
    const int64_t own = sw_type_elements(t);
    const int64_t bits = own >= n ? 0 : 8 * own > n + 7 ? 2 : 1; /* of a code */
    if (own == 1 && n > 1 && t->dtype != SW_U8)
        return (part){.cut = false};
    return (part){.cut = true,
                  .axis = -1,
                  .outer = 1,
                  .count = own,
                  .inner = 1,
                  .scale = bits > 0 ? GROUP * bits / 8 : GROUP};
}

/* The operand whose positions are counted: the first of bf16 that is no weight. */
static int main_of(uint32_t op, int grad, const sw_kernel_info *info, bool weights)
{
    int other = 0;
    for (int i = 0; i < info->n_in + info->n_out; i++) {
        if (type_of(info, i)->dtype != SW_BF16)
            continue;
        if (!weights || input_of(op, grad, info, i) <= 0)
            return i;
        other = i;
    }
    return other;
}

static part part_of(const pieces *p, uint32_t op, int grad, const sw_kernel_info *info, int i,
                    const sw_type *lead)
{
    const sw_type *t = type_of(info, i);
    const sw_shape *s = &t->shape;
    const int64_t all = sw_type_elements(t);
    const bool weight = input_of(op, grad, info, i) > 0;
    part r = {.cut = true, .outer = 1, .scale = 1};
    switch (p->word) {
    case SWI_HALVES_PRODUCT:
        r.cut = false;
        r.count = 1;
        break;
    case SWI_HALVES_FLAT:
        if (!p->blocks || !swi_op(op)->random)
            return flat_part(t, sw_type_elements(lead));
        r.count = (s->dim[0] + BLOCK - 1) / BLOCK;
        r.cut = t->layout == SW_N16;
        break;
    case SWI_HALVES_LOOKUP:
    case SWI_HALVES_ROWS:
    case SWI_HALVES_LINES:
        r.cut = p->word == SWI_HALVES_LINES || !weight;
        r.axis = -1;
        r.count = p->units;
        break;
    case SWI_HALVES_CHANNELS:
        r.axis = s->rank >= 2 && !weight;
        r.count = s->dim[r.axis];
        r.outer = r.axis == 0           ? 1
                  : t->layout == SW_N16 ? (s->dim[0] + BLOCK - 1) / BLOCK
                                        : s->dim[0];
        break;
    case SWI_HALVES_BROADCAST: {
        const sw_shape *y = &info->out[0].shape;
        int axis = 0;
        while (axis + 1 < y->rank && y->dim[axis] == 1)
            axis++;
        r.axis = axis - (y->rank - s->rank);
        r.cut = r.axis >= 0 && s->rank > 0 && (s->dim[r.axis] > 1 || y->dim[axis] == 1);
        r.count = r.cut ? s->dim[r.axis] : 1;
        break;
    }
    default: /* images */
        r.cut = s->rank > 0 && (!weight || p->word == SWI_HALVES_IMAGES);
        r.count = !r.cut                ? 1
                  : t->layout == SW_N16 ? (s->dim[0] + BLOCK - 1) / BLOCK
                                        : s->dim[0];
        r.scale =
            p->blocks && t->layout == SW_PLAIN && s->dim[0] == lead->shape.dim[0] ? BLOCK : 1;
    }
    r.inner = per(all, r.outer * r.count);
    if (all == 0 && r.axis < 0) /* of no rows: they have a length */
        r.inner = s->rank > 0 && s->dim[s->rank - 1] > 0 ? s->dim[s->rank - 1] : 1;
    return r;
}

/* Positions [*from, *from + the result) of a piece that begins at unit `first`. */
static int64_t range_of(const part *r, int64_t first, int64_t units, int64_t *from)
{
    const int64_t end = (first + units) * r->scale;
    *from = first * r->scale < r->count ? first * r->scale : r->count;
    return (end < r->count ? end : r->count) - *from;
}

/* The type that the kernel sees. */
static sw_type seen(const part *r, const sw_type *t, int64_t n)
{
    sw_type type = *t;
    type.dtype = r->dtype;
    if (!r->cut)
        return type;
    if (r->axis < 0)
        type = (sw_type){type.dtype, SW_PLAIN, {2, {n, r->inner}}};
    else
        type.shape.dim[r->axis] = n;
    return type;
}

/* Images of a piece of blocks: the last block may not be full. */
static int64_t images_of(const part *r, const sw_type *t, int64_t from, int64_t n)
{
    if (t->layout != SW_N16 || r->axis != 0)
        return n;
    const int64_t left = t->shape.dim[0] - from * BLOCK;
    return n * BLOCK < left ? n * BLOCK : left;
}

/* The attributes of a piece: a convolution of some channels has fewer groups. */
static const void *attrs_of(const pieces *p, uint32_t op, const void *attrs, int64_t units,
                            swi_conv_attrs *room)
{
    if (p->word != SWI_HALVES_CHANNELS || swi_op_traits_of(op)->halves != SWI_HALVES_CONV)
        return attrs;
    *room = *(const swi_conv_attrs *)attrs;
    room->groups = (int32_t)units;
    return room;
}

static size_t ask(const pieces *p, uint32_t op, int grad, const sw_kernel_info *info,
                  int64_t first, int64_t units, int threads)
{
    const sw_grad_desc *g = grad_of(op, grad);
    size_t (*bytes)(const sw_kernel_info *) =
        g != NULL ? g->scratch_bytes : swi_op(op)->scratch_bytes;
    sw_cuda_scratch_size *on_card =
        p->queue != NULL ? swi_device_entry(op, grad)->scratch_bytes : NULL;
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info piece = *info;
    piece.threads = threads;
    if (p->queue != NULL ? on_card == NULL : bytes == NULL)
        return 0;
    for (int i = 0; i < p->n; i++) {
        int64_t from, n = range_of(&p->parts[i], first, units, &from);
        types[i] = seen(&p->parts[i], type_of(info, i),
                        images_of(&p->parts[i], type_of(info, i), from, n));
    }
    swi_conv_attrs room;
    piece.in = types;
    piece.out = types + info->n_in;
    piece.attrs = attrs_of(p, op, info->attrs, units, &room);
    return on_card != NULL ? on_card(&piece, p->queue) : bytes(&piece);
}

static int64_t at_least_one(int64_t n, int64_t most)
{
    n = n < most ? n : most;
    return n > 1 ? n : 1;
}

/* How the kernel sees operand i. A card's library adds a bias, and what was there, in
 * float32: such a result is rounded after it. */
static void see(const pieces *p, uint32_t op, int grad, const sw_kernel_info *info, int i,
                part *r)
{
    const sw_type *t = type_of(info, i);
    const bool in = i < info->n_in, half = t->dtype == SW_BF16;
    const bool master = t->dtype == SW_F32 && t->shape.rank > 1 &&
                        swi_op_traits_of(op)->halves != SWI_HALVES_ALIKE;
    const bool factor = p->queue != NULL && !p->wide && has_factors(op, grad, info) && in &&
                        (half || master) && (op != SW_OP_tile_update || i < 2);
    const bool bias = op == SW_OP_linear && grad < 0 && info->n_in > 2;
    const bool rounded =
        !in && half && !bias && (info->accumulate >> (i - info->n_in) & 1u) == 0;
    r->dtype = p->native && (factor || rounded) ? SW_BF16 : half ? SW_F32 : t->dtype;
    r->rounds = factor && r->dtype == SW_F32 && !half;
    if (r->dtype != t->dtype || r->rounds || (r->cut && r->outer > 1))
        r->bytes = sw_dtype_bytes(r->dtype);
}

static void plan_as(pieces *p, uint32_t op, int grad, const sw_kernel_info *info,
                    const sw_cuda_queue *queue, int64_t asked, bool native)
{
    *p = (pieces){.word = word_of(op, grad, info, queue != NULL),
                  .queue = queue,
                  .wide = is_wide(op, grad, info),
                  .native = native,
                  .n = info->n_in + info->n_out};
    p->units = p->word == SWI_HALVES_PRODUCT;
    const bool weights = p->word == SWI_HALVES_LOOKUP || p->word == SWI_HALVES_ROWS ||
                         p->word == SWI_HALVES_CHANNELS || p->word == SWI_HALVES_GROUPS;
    const sw_type *lead = type_of(info, main_of(op, grad, info, weights));
    if (p->word == SWI_HALVES_ROWS || p->word == SWI_HALVES_LINES ||
        p->word == SWI_HALVES_LOOKUP)
        p->units = lead->shape.rank == 0
                       ? 1
                       : per(swi_elements(&lead->shape), lead->shape.dim[lead->shape.rank - 1]);
    int64_t unit = 1;
    for (int i = 0; i < p->n; i++)
        p->blocks |= type_of(info, i)->layout == SW_N16;
    for (int i = 0; i < p->n; i++) {
        part *r = &p->parts[i];
        *r = part_of(p, op, grad, info, i, lead);
        const int64_t units = r->cut ? (r->count + r->scale - 1) / r->scale : 0;
        p->units = units > p->units ? units : p->units;
        p->adds |= !r->cut && i >= info->n_in;
        see(p, op, grad, info, i, r);
        unit += r->cut ? r->outer * r->scale * r->inner * (int64_t)r->bytes : 0;
    }
    const int64_t times = queue != NULL ? CARD : 1, all = p->units * unit;
    const int64_t most = (int64_t)swi_piece_bytes * times, least = LEAST * times;
    const int64_t fair = all / SHARE > least ? all / SHARE : least;
    const int64_t total = fair < most ? fair : most;
    p->each = at_least_one(total / SLOTS / unit, p->units);
    p->slots = 1;
    if (!p->adds && all > most / SHARE && queue == NULL) {
        const size_t slot = (size_t)(p->each * unit) + ask(p, op, grad, info, 0, p->each, 1);
        p->slots =
            (int)at_least_one((all / SHARE < MOST ? all / SHARE : MOST) / (int64_t)slot, SLOTS);
        p->slots = (int)at_least_one(p->units / p->each, p->slots);
    }
    if (p->slots == 1)
        p->each = at_least_one(total / unit, p->units);
    if (asked > 0)
        p->each = at_least_one(asked, p->units);
    if (queue != NULL && p->each > ALIGNED && p->each < p->units)
        p->each -= p->each % ALIGNED;
    for (int i = 0; i < p->n; i++) {
        part *r = &p->parts[i];
        int64_t from;
        if (r->bytes == 0)
            continue;
        const int64_t n = r->cut ? r->outer * range_of(r, 0, p->each, &from) * r->inner
                                 : sw_type_elements(type_of(info, i));
        size_t *at = r->cut ? &p->kernel_at : &p->whole;
        r->offset = *at;
        *at += sw_size_round((size_t)n * r->bytes);
    }
    const int threads = p->slots > 1 ? 1 : info->threads;
    const int64_t last = p->units % p->each;
    const size_t full = ask(p, op, grad, info, 0, p->each, threads);
    const size_t rest = last > 0 ? ask(p, op, grad, info, p->units - last, last, threads) : 0;
    p->kernel = full > rest ? full : rest;
}

/* queue: that a card's kernel is launched on; NULL: it is the CPU's. */
static void plan(pieces *p, uint32_t op, int grad, const sw_kernel_info *info,
                 const sw_cuda_queue *queue, int64_t units)
{
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    const bool native = queue != NULL && queue->blas != NULL && word != SWI_HALVES_CONV &&
                        word != SWI_HALVES_ALIKE && has_factors(op, grad, info) &&
                        !is_wide(op, grad, info);
    plan_as(p, op, grad, info, queue, units, native);
    if (p->kernel == SIZE_MAX) /* the library has no such product */
        plan_as(p, op, grad, info, queue, units, false);
}

static size_t slot_bytes(const pieces *p)
{
    return p->kernel_at + (p->slots > 1 ? sw_size_round(p->kernel) : p->kernel);
}

size_t swi_pieces_bytes(uint32_t op, int grad, const sw_kernel_info *info,
                        const sw_cuda_queue *queue, int64_t units)
{
    pieces p;
    plan(&p, op, grad, info, queue, units);
    return p.whole + (size_t)p.slots * slot_bytes(&p);
}

int64_t swi_pieces_that_add(uint32_t op, int grad, const sw_kernel_info *info)
{
    pieces p;
    plan(&p, op, grad, info, NULL, 0);
    return p.adds ? p.each : 0;
}

/* ---- running ----------------------------------------------------------------------------- */

static void row_major(sw_buffer *b)
{
    int64_t step = 1;
    memset(b->stride, 0, sizeof b->stride);
    for (int i = b->type.shape.rank - 1; i >= 0; i--) {
        b->stride[i] = step;
        step *= b->type.shape.dim[i];
    }
}

/* Positions [from, from + n) of an operand where they lie, or all of it. */
static sw_buffer place_of(const part *r, const sw_buffer *b, int64_t from, int64_t n)
{
    const sw_shape *s = &b->type.shape;
    sw_buffer at = *b;
    int64_t step = r->inner;
    if (!r->cut)
        return at;
    at.type = seen(r, &b->type, n);
    at.type.dtype = b->type.dtype;
    if (r->axis >= 0)
        step = b->stride[r->axis];
    else if (s->rank == 2 && s->dim[1] == r->inner) /* perhaps columns of a larger matrix */
        step = at.stride[0] = b->stride[0];
    else
        row_major(&at);
    at.ptr = (char *)b->ptr + (size_t)(from * step) * sw_dtype_bytes(b->type.dtype);
    return at;
}

typedef struct {
    const sw_launch *l;
    const pieces *p;
    uint32_t unread;
    sw_status status[SLOTS];
} job;

static const sw_buffer *operand(const sw_launch *l, int i)
{
    return i < l->n_in ? &l->in[i] : &l->out[i - l->n_in];
}

/* Between operand i and its piece in scratch: positions [from, from + n) of it, or all. */
static sw_status move(const job *j, int i, int64_t from, int64_t n, sw_buffer *piece,
                      const sw_par *par, bool back)
{
    const part *r = &j->p->parts[i];
    const sw_buffer *b = operand(j->l, i);
    if (j->p->queue != NULL) {
        sw_buffer at = place_of(r, b, from, n);
        const swi_cast_attrs attrs = {r->rounds && !back ? SW_BF16 : SW_F32};
        sw_launch cast = *j->l;
        cast.in = back ? piece : &at;
        cast.out = back ? &at : piece;
        cast.n_in = cast.n_out = 1;
        cast.attrs = &attrs;
        cast.accumulate = 0;
        return swi_device_entry(SW_OP_cast, -1)->kernel(&cast, j->p->queue);
    }
    const size_t size = sw_dtype_bytes(b->type.dtype);
    const int64_t outer = r->cut ? r->outer : 1,
                  run = r->cut ? n * r->inner : sw_type_elements(&b->type);
    for (int64_t o = 0; o < outer; o++) {
        char *at = (char *)b->ptr + (size_t)((o * r->count + from) * r->inner) * size;
        char *to = (char *)piece->ptr + (size_t)(o * run) * r->bytes;
        if (b->type.dtype != SW_BF16)
            memcpy(back ? at : to, back ? to : at, (size_t)run * size);
        else if (back)
            sw_pointwise(j->l->isa)->round((uint16_t *)(void *)at, (const float *)(void *)to,
                                           run, par);
        else
            sw_pointwise(j->l->isa)->widen((float *)(void *)to, (const uint16_t *)(void *)at,
                                           run, par);
    }
    return SW_OK;
}

/* On the CPU: ask for what the piece from unit `first` on widens. It comes while the one before
 * it is computed. */
static void prefetch(const job *j, int i, int64_t first, int64_t units)
{
    const part *r = &j->p->parts[i];
    const sw_buffer *b = operand(j->l, i);
    int64_t from, n = range_of(r, first, units, &from);
    const int64_t size = (int64_t)sw_dtype_bytes(b->type.dtype), run = n * r->inner * size;
    for (int64_t o = 0; o < r->outer && n > 0 && j->p->queue == NULL; o++) {
        const char *at = (const char *)b->ptr + (o * r->count + from) * r->inner * size;
        for (int64_t k = 0; k < run; k += 64)
            __builtin_prefetch(at + k, 0, 2);
    }
}

/* Is operand i's content needed before the kernel runs on a piece? */
static bool is_read(const job *j, int i)
{
    return i < j->l->n_in ? i >= 32 || (j->unread >> i & 1u) == 0
                          : (j->l->accumulate >> (i - j->l->n_in) & 1u) != 0;
}

/* Operand i as the kernel gets it: in scratch, or where it is. */
static sw_buffer given(const job *j, int i, char *scratch, int64_t from, int64_t n)
{
    const part *r = &j->p->parts[i];
    const sw_buffer *b = operand(j->l, i);
    sw_buffer at = *b;
    if (b->ptr != NULL && r->bytes == 0 && j->p->queue != NULL)
        return place_of(r, b, from, n);
    at.type = seen(r, &b->type, images_of(r, &b->type, from, n));
    row_major(&at);
    if (b->ptr != NULL && r->bytes > 0)
        at.ptr = (r->cut ? scratch : (char *)j->l->scratch) + r->offset;
    else if (b->ptr != NULL && r->cut)
        at.ptr = (char *)b->ptr + (size_t)(from * r->inner) * sw_dtype_bytes(b->type.dtype);
    return at;
}

/* buffers: of the piece before this one; alike: it had as many units, and on the CPU their
 * types and strides are the same. */
static sw_status run_piece(const job *j, int slot, int64_t first, int64_t units,
                           sw_buffer *buffers, bool alike)
{
    const sw_launch *l = j->l;
    const sw_par *par = j->p->slots > 1 ? &sw_par_alone : l->par;
    char *scratch = l->scratch; /* NULL: nothing is widened and the kernel takes none */
    if (scratch != NULL)
        scratch += j->p->whole + (size_t)slot * slot_bytes(j->p);
    const sw_grad_desc *g = grad_of(l->op, l->grad);
    sw_launch piece = *l;
    for (int i = 0; i < j->p->n; i++) {
        const part *r = &j->p->parts[i];
        int64_t from = 0, n = r->cut ? range_of(r, first, units, &from) : 0;
        if (!alike || (r->cut && r->bytes == 0))
            buffers[i] = given(j, i, scratch, from, n);
        if (r->bytes > 0 && r->cut && is_read(j, i) && buffers[i].ptr != NULL) {
            SW_TRY(move(j, i, from, n, &buffers[i], par, false));
            prefetch(j, i, first + units, units);
        }
        if (!r->cut && i >= l->n_in && first > 0)
            piece.accumulate |= 1u << (i - l->n_in);
        if (i == 0 && r->cut)
            piece.first = from * r->inner;
    }
    swi_conv_attrs room;
    piece.in = buffers;
    piece.out = buffers + l->n_in;
    piece.attrs = attrs_of(j->p, l->op, l->attrs, units, &room);
    piece.par = par;
    piece.scratch = j->p->kernel > 0 ? scratch + j->p->kernel_at : NULL;
    piece.scratch_bytes = j->p->kernel;
    if (j->p->queue != NULL)
        SW_TRY(swi_device_entry(l->op, l->grad)->kernel(&piece, j->p->queue));
    else
        SW_TRY(g != NULL ? g->kernel(&piece) : swi_op(l->op)->forward(&piece));
    for (int i = l->n_in; i < j->p->n; i++) {
        const part *r = &j->p->parts[i];
        int64_t from = 0, n = r->cut ? range_of(r, first, units, &from) : 0;
        if (r->bytes > 0 && r->cut && buffers[i].ptr != NULL)
            SW_TRY(move(j, i, from, n, &buffers[i], par, true));
    }
    return SW_OK;
}

static void run_slot(void *arg, int slot)
{
    job *j = arg;
    const int64_t n = j->p->units, each = j->p->each,
                  all = at_least_one((n + each - 1) / each, n);
    const int64_t end = all * (slot + 1) / j->p->slots;
    const int64_t begin = all * slot / j->p->slots;
    sw_buffer buffers[SWI_MAX_OPERANDS];
    for (int64_t i = begin; i < end && j->status[slot] == SW_OK; i++)
        j->status[slot] =
            run_piece(j, slot, i * each, n - i * each < each ? n - i * each : each, buffers,
                      i > begin && i < all - 1 && j->p->queue == NULL);
}

sw_status swi_pieces_run(const sw_launch *launch, const sw_cuda_queue *queue, int64_t units)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_launch l = *launch;
    const sw_op_desc *desc = swi_op(l.op);
    sw_kernel_info info =
        SW_INIT(.in = types, .out = types + l.n_in, .n_in = l.n_in, .n_out = l.n_out,
                .attrs = l.attrs, .threads = queue != NULL ? 1 : l.par->n_threads, .isa = l.isa,
                .accumulate = l.accumulate);
    pieces p;
    for (int i = 0; i < l.n_in + l.n_out; i++)
        types[i] = operand(&l, i)->type;
    plan(&p, l.op, l.grad, &info, queue, units);
    SW_ASSERT(p.whole + (size_t)p.slots * slot_bytes(&p) <= l.scratch_bytes);
    if (queue != NULL && has_factors(l.op, l.grad, &info))
        l.order = p.wide ? SW_ORDER_NONE : SW_ORDER_CUDA;
    const bool leaves = queue == NULL && desc->unread != NULL; /* a card's kernels read all */
    job j = {&l, &p, leaves ? desc->unread(&info, l.grad) : 0, {SW_OK}};
    for (int pass = 0; pass < 2; pass++) {
        for (int i = pass * l.n_in; i < p.n; i++) {
            if (p.parts[i].cut || p.parts[i].bytes == 0 || operand(&l, i)->ptr == NULL ||
                (pass == 0 && !is_read(&j, i)))
                continue;
            sw_buffer whole = given(&j, i, NULL, 0, 0);
            SW_TRY(move(&j, i, 0, 0, &whole, l.par, pass == 1));
        }
        if (pass == 0 && p.slots > 1)
            l.par->run(l.par, run_slot, &j, p.slots);
        else if (pass == 0)
            run_slot(&j, 0);
        for (int i = 0; i < p.slots; i++)
            SW_TRY(j.status[i]);
    }
    return SW_OK;
}

sw_status swi_in_pieces(const sw_launch *launch)
{
    return swi_pieces_run(launch, NULL, 0);
}

sw_status swi_pieces_on_card(const sw_launch *launch, const sw_cuda_queue *queue)
{
    return swi_pieces_run(launch, queue, 0);
}
