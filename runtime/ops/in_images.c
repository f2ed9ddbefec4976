/* Ops that go image by image, some images at a time: what they leave for each other alone lies
 * in scratch, for so many images. Kernels and bits are those of the ops that it takes the place
 * of: an image does not depend on others, and a weight's gradient is a sum of partial ones for
 * SWI_IMAGES images, in their order. Of several threads each takes one of a part's two blocks
 * through the ops that neither sum over images nor have scratch. Only the pass in plan/chains.c
 * makes such a node; its tests cover it. */
#include "kernels/dispatch.h"
#include "runtime/device/pieces.h"
#include "runtime/ops/tile.h"

bool swi_images_member(uint32_t op, int32_t grad, uint32_t n_in, uint32_t *whole)
{
    *whole = 0;
    switch (op) {
    case SW_OP_conv2d: /* x, w, [b], y; w, dy, dx; x, dy, dw, [db] */
        *whole = grad < 0 ? n_in > 2 ? 6u : 2u : grad == 0 ? 1u : 12u;
        return grad < 3; /* the sum of a bias alone has no parts */
    case SW_OP_to_f32:
    case SW_OP_to_n16:
    case SW_OP_from_n16:
        return grad < 0;
    case SW_OP_max_pool2d:
    case SW_OP_avg_pool2d:
        return true;
    default:
        return swi_op_traits_of(op)->halves == SWI_HALVES_FUNCTION;
    }
}

/* Images, or bytes that say something of each block of sixteen. */
sw_type swi_images_part(const swi_images_attrs *a, const sw_type *whole, int64_t part)
{
    const int64_t rest = a->batch - part * SWI_IMAGES,
                  n = rest < SWI_IMAGES ? rest : SWI_IMAGES;
    sw_type t = *whole;
    t.shape.dim[0] =
        t.shape.rank == 4 ? n : t.shape.dim[0] / ((a->batch + 15) / 16) * ((n + 15) / 16);
    return t;
}

/* The op is asked about one part; types: its operands. */
static sw_kernel_info ask(const sw_kernel_info *info, const swi_images_op *op, int64_t at_part,
                          sw_type *types)
{
    const swi_images_attrs *a = info->attrs;
    sw_kernel_info part = {.in = types,
                           .out = types + op->n_in,
                           .n_in = op->n_in,
                           .n_out = op->n_out,
                           .attrs = op->attrs,
                           .threads = info->threads,
                           .isa = info->isa};
    for (int k = 0; k < op->n_in + op->n_out; k++) {
        const int at = op->operand[k];
        types[k] = (sw_type){0};
        if (at >= SWI_IMAGES_INNER)
            types[k] = a->inner[at - SWI_IMAGES_INNER].type;
        else if (at != SWI_IMAGES_NONE)
            types[k] = at < info->n_in ? info->in[at] : info->out[at - info->n_in];
        if (at != SWI_IMAGES_NONE && (op->whole >> k & 1u) == 0)
            types[k] = swi_images_part(a, &types[k], at_part);
    }
    return part;
}

static size_t scratch_bytes(const sw_kernel_info *info)
{
    const swi_images_attrs *a = info->attrs;
    size_t most = 0;
    for (int i = 0; i < 2 * a->n_ops; i++) { /* of whole parts and of the last */
        const swi_images_op *op = &a->ops[i / 2];
        const sw_op_desc *d = swi_op(op->op);
        sw_type types[SWI_IMAGES_OPERANDS];
        const sw_kernel_info part = ask(info, op, i % 2 == 0 ? 0 : a->parts - 1, types);
        size_t (*asked)(const sw_kernel_info *) =
            op->grad < 0 ? d->scratch_bytes : d->grads[op->grad].scratch_bytes;
        const size_t bytes = op->units != SWI_IMAGES_NONE
                                 ? swi_pieces_bytes(op->op, op->grad, &part, NULL, op->units)
                             : asked != NULL ? asked(&part)
                                             : 0;
        most = bytes > most ? bytes : most;
    }
    return (size_t)a->inner_bytes + most;
}

static uint64_t operations(const sw_kernel_info *info)
{
    const swi_images_attrs *a = info->attrs;
    uint64_t sum = 0;
    for (int i = 0; i < a->n_ops; i++) {
        const swi_images_op *op = &a->ops[i];
        const sw_op_desc *d = swi_op(op->op);
        sw_type types[SWI_IMAGES_OPERANDS];
        for (int last = 0; last < 2; last++) { /* all others are like the first */
            const sw_kernel_info part = ask(info, op, last ? a->parts - 1 : 0, types);
            const uint64_t n =
                op->grad < 0 ? d->operations(&part) : d->grads[op->grad].operations(&part);
            sum = swi_count_add(sum, last ? n : swi_count_mul(n, (uint64_t)a->parts - 1));
        }
    }
    return sum;
}

static sw_buffer operand_of(const sw_launch *l, const swi_images_op *op, int k, int64_t part)
{
    const swi_images_attrs *a = l->attrs;
    const int at = op->operand[k];
    if (at == SWI_IMAGES_NONE)
        return (sw_buffer){.ptr = NULL};
    if (at >= SWI_IMAGES_INNER) {
        const swi_images_inner *inner = &a->inner[at - SWI_IMAGES_INNER];
        sw_buffer b = {.ptr = (unsigned char *)l->scratch + inner->at,
                       .type = swi_images_part(a, &inner->type, part)};
        swi_contiguous_strides(&b.type, b.stride);
        return b;
    }
    sw_buffer b = at < l->n_in ? l->in[at] : l->out[at - l->n_in];
    if ((op->whole >> k & 1u) == 0) {
        const sw_type first = swi_images_part(a, &b.type, 0);
        b.type = swi_images_part(a, &b.type, part);
        if (b.ptr != NULL)
            b.ptr = (unsigned char *)b.ptr + (size_t)part * sw_type_bytes(&first);
    }
    return b;
}

enum { BLOCK = SWI_IMAGES / 2 };

/* The first or second block of a part. */
static void take_block(sw_buffer *b, int block)
{
    sw_type first = b->type;
    int64_t *n = &b->type.shape.dim[0];
    first.shape.dim[0] = first.shape.rank == 4 ? BLOCK : *n / 2;
    *n = block == 0 ? first.shape.dim[0] : *n - first.shape.dim[0];
    if (b->ptr != NULL)
        b->ptr = (unsigned char *)b->ptr + (size_t)block * sw_type_bytes(&first);
}

/* block -1: both of the part. */
static sw_status run_op(const sw_launch *l, const swi_images_op *op, int64_t part, int block)
{
    const swi_images_attrs *a = l->attrs;
    const sw_op_desc *d = swi_op(op->op);
    sw_buffer operands[SWI_IMAGES_OPERANDS];
    sw_launch p = *l;
    for (int k = 0; k < op->n_in + op->n_out; k++) {
        operands[k] = operand_of(l, op, k, part);
        if (block >= 0 && (op->whole >> k & 1u) == 0 && op->operand[k] != SWI_IMAGES_NONE)
            take_block(&operands[k], block);
    }
    if (block >= 0)
        p.par = &sw_par_alone;
    p.in = operands;
    p.out = operands + op->n_in;
    p.n_in = op->n_in;
    p.n_out = op->n_out;
    p.attrs = op->attrs;
    p.op = op->op;
    p.grad = op->grad;
    p.scratch = (unsigned char *)l->scratch + a->inner_bytes;
    p.scratch_bytes = l->scratch_bytes - (size_t)a->inner_bytes;
    p.accumulate = part > 0 ? op->whole >> op->n_in : 0;
    if (op->units != SWI_IMAGES_NONE)
        return swi_pieces_run(&p, NULL, op->units);
    return (op->grad < 0 ? d->forward : d->grads[op->grad].kernel)(&p);
}

/* Ops [from, end) of a part, block by block. */
typedef struct {
    const sw_launch *l;
    int64_t part;
    int from, end;
    sw_status status[2];
} blocks_job;

static void run_block(void *arg, int block)
{
    blocks_job *j = arg;
    const swi_images_attrs *a = j->l->attrs;
    for (int i = j->from; i < j->end && j->status[block] == SW_OK; i++)
        j->status[block] = run_op(j->l, &a->ops[i], j->part, block);
}

static sw_status run_part(const sw_launch *l, int64_t part)
{
    const swi_images_attrs *a = l->attrs;
    const bool two = a->batch - part * SWI_IMAGES > BLOCK && l->par->n_threads > 1;
    for (int i = 0, end; i < a->n_ops; i = end) {
        end = i + 1;
        if (!two || a->ops[i].alone == 0) {
            SW_TRY(run_op(l, &a->ops[i], part, -1));
            continue;
        }
        while (end < a->n_ops && a->ops[end].alone == 2)
            end++;
        blocks_job j = {l, part, i, end, {SW_OK, SW_OK}};
        l->par->run(l->par, run_block, &j, 2);
        SW_TRY(j.status[0]);
        SW_TRY(j.status[1]);
    }
    return SW_OK;
}

static sw_status forward(const sw_launch *l)
{
    const swi_images_attrs *a = l->attrs;
    for (int64_t part = 0; part < a->parts; part++)
        SW_TRY(run_part(l, part));
    return SW_OK;
}

TYPE(infer, in[0])

/* Operand 0 is one whose place output 0 may take, or one of another kind. */
OP(in_images, 2, 16, 1, ATTRS(swi_images_attrs), .infer = infer, .scratch_bytes = scratch_bytes,
   .inplace = 1, .forward = forward, .operations = operations, .no_gradient = 1);
