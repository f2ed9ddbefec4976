/* Facts of in_strips for the pass that makes it: which ops go in strips, of what size; and its
 * operations and scratch, from those of the ops inside. */
#include "alloc/base/size.h"
#include "runtime/ops/strip.h"

enum {
    LEAST_BYTES = 4 << 20, /* of a matrix that is worth it */
    LEAST_ROWS = 512,      /* of a product: it packs its weight for each strip, */
    MOST_ROWS = 1152,      /* as it does anyway for so many */
    LEAST_COLUMNS = 512,   /* of a weight: dy is packed for each strip */
    LEAST_DEPTH = 512,     /* rows that a weight's gradient sums over: fewer are too little work
                              for what is packed */
    MOST_PARTS = 3,
    LOSS_STRIP = 1 << 18, /* elements */
    ROWS_UNIT = 24,       /* whole register blocks */
    COLUMNS_UNIT = 64     /* whole pieces of a packed matrix */
};

/* ---- what the pass asks ------------------------------------------------------------------ */

bool swi_strips_function(uint32_t op)
{
    const sw_op_desc *d = swi_op(op);
    switch (op) {
#define SW_UNARY(name, ...) case SW_OP_##name:
#include "kernels/unary.def"
        return d->n_extra == 0 && d->grads[0].operands[0] == SW_IN(0) &&
               d->attrs_bytes <= sizeof(swi_number_attrs);
    default:
        return false;
    }
}

swi_strips_reader swi_strips_reads(uint32_t op, int32_t grad, const void *attrs)
{
    const swi_tile_attrs *tile = attrs;
    if (op == SW_OP_linear && grad < 0)
        return SWI_READS_PRODUCT;
    if (op == SW_OP_mse)
        return grad < 0 ? SWI_READS_LOSS : grad == 0 ? SWI_READS_LOSS_DX : SWI_READS_NOT;
    if (op == SW_OP_product_bound)
        return SWI_READS_BOUND;
    return op == SW_OP_tile_update && tile->make_op == SW_OP_linear && tile->make_grad == 1
               ? SWI_READS_TILES
               : SWI_READS_NOT;
}

bool swi_strips_makes_dx(uint32_t op, int32_t grad)
{
    return op == SW_OP_linear && grad == 0;
}

/* So many parts of about one size, in whole units. */
static int64_t part_of(int64_t n, int64_t parts, int64_t unit)
{
    return ((n + parts - 1) / parts + unit - 1) / unit * unit;
}

static int64_t rows_of(int64_t rows)
{
    const int64_t parts = (rows + MOST_ROWS - 1) / MOST_ROWS;
    return rows >= 2 * LEAST_ROWS ? part_of(rows, parts > 2 ? parts : 2, ROWS_UNIT) : 0;
}

static int64_t columns_of_strip(int64_t columns)
{
    const int64_t parts = columns / LEAST_COLUMNS;
    return parts < 2 ? 0
                     : part_of(columns, parts < MOST_PARTS ? parts : MOST_PARTS, COLUMNS_UNIT);
}

int64_t swi_strips_size(swi_strips_kind kind, const sw_shape *matrix)
{
    const int64_t n = swi_elements(matrix);
    if (n * (int64_t)sw_dtype_bytes(SW_F32) < LEAST_BYTES)
        return 0;
    switch (kind) {
    case SWI_STRIPS_PRODUCT:
        return matrix->rank == 2 ? rows_of(matrix->dim[0]) : 0;
    case SWI_STRIPS_LOSS:
    case SWI_STRIPS_LOSS_DX:
        return n >= 2 * LOSS_STRIP ? LOSS_STRIP : 0;
    case SWI_STRIPS_UPDATE:
        break;
    }
    return matrix->rank == 2 && matrix->dim[0] >= LEAST_DEPTH ? columns_of_strip(matrix->dim[1])
                                                              : 0;
}

/* ---- what the ops inside are asked about ------------------------------------------------- */

typedef struct {
    sw_type in[SWI_MAX_OPERANDS], out[SWI_MAX_OPERANDS];
    sw_kernel_info info;
} part_info;

static void begin_info(part_info *p, const sw_kernel_info *info, const void *attrs)
{
    p->info = (sw_kernel_info){
        .in = p->in, .out = p->out, .attrs = attrs, .threads = info->threads, .isa = info->isa};
}

static void put_in(part_info *p, const sw_type *type)
{
    p->in[p->info.n_in++] = *type;
}

static void put_out(part_info *p, const sw_type *type)
{
    p->out[p->info.n_out++] = *type;
}

/* A tensor with the weight's shape, as the range of so many columns. */
static sw_type columns_of(const sw_type *type, const sw_type *weight, int64_t columns)
{
    sw_type t = *type;
    if (swi_same_shape(&type->shape, &weight->shape))
        t.shape.dim[1] = columns;
    return t;
}

const sw_type swi_strips_bound = {SW_F64, SW_PLAIN, {0, {0}}};

static void ask_tile(part_info *p, const sw_kernel_info *info, int64_t columns)
{
    const swi_strips_attrs *a = info->attrs;
    const sw_type *weight = &info->out[1];
    const int bound_at = a->tile.n_make + a->tile.n_check - 1;
    begin_info(p, info, &a->tile);
    put_in(p, &info->in[0]);
    p->in[0].shape.dim[1] = columns;
    put_in(p, &info->in[1]);
    for (int i = SWI_STRIPS_TILE; i < info->n_in; i++) {
        if (a->has_bound && p->info.n_in == bound_at)
            put_in(p, &swi_strips_bound);
        const sw_type t = columns_of(&info->in[i], weight, columns);
        put_in(p, &t);
    }
    for (int i = 1; i < info->n_out; i++) {
        const sw_type t = columns_of(&info->out[i], weight, columns);
        put_out(p, &t);
    }
}

/* dx {weight, dy}. */
static void ask_dx(part_info *p, const sw_kernel_info *info)
{
    begin_info(p, info, NULL);
    put_in(p, &info->out[1]);
    put_in(p, &info->in[1]);
    put_out(p, &info->in[0]);
}

static uint64_t function_operations(const sw_kernel_info *info, bool slope)
{
    const swi_strips_attrs *a = info->attrs;
    const sw_op_desc *f = swi_op(a->f);
    part_info p;
    begin_info(&p, info, &a->number);
    put_in(&p, &info->in[0]);
    if (slope)
        put_in(&p, &info->in[0]);
    put_out(&p, &info->in[0]);
    return slope ? f->grads[a->f_grad].operations(&p.info) : f->operations(&p.info);
}

/* Of the bound: f once more, and a look at both factors. */
static uint64_t bound_operations(const sw_kernel_info *info)
{
    const swi_strips_attrs *a = info->attrs;
    const sw_type factors[2] = {info->in[0], info->in[1]};
    part_info p;
    if (!a->has_bound)
        return 0;
    begin_info(&p, info, &a->bound);
    put_in(&p, &factors[0]);
    put_in(&p, &factors[1]);
    put_out(&p, &swi_strips_bound);
    return swi_count_add(sw_op_product_bound.operations(&p.info),
                         swi_bound_reads(factors, &a->bound) ? function_operations(info, false)
                                                             : 0);
}

/* Of the loss: its operands are those of the node, f(z) for z. */
static uint64_t body_operations(const sw_kernel_info *info)
{
    const swi_strips_attrs *a = info->attrs;
    sw_kernel_info body = *info;
    body.attrs = NULL;
    return a->body_grad < 0 ? swi_op(a->body)->operations(&body)
                            : swi_op(a->body)->grads[a->body_grad].operations(&body);
}

void swi_strips_operations(const sw_kernel_info *info, uint64_t *products, uint64_t *others)
{
    const swi_strips_attrs *a = info->attrs;
    *others = function_operations(info, false);
    *products = 0;
    if (a->kind == SWI_STRIPS_PRODUCT) {
        *products = body_operations(info);
        return;
    }
    if (a->kind != SWI_STRIPS_LOSS)
        *others = swi_count_add(*others, function_operations(info, true));
    if (a->kind != SWI_STRIPS_UPDATE) {
        *others = swi_count_add(*others, body_operations(info));
        return;
    }
    part_info p;
    uint64_t update;
    ask_tile(&p, info, info->in[0].shape.dim[1]);
    swi_tile_operations(&p.info, products, &update);
    *others = swi_count_add(swi_count_add(*others, update), bound_operations(info));
    ask_dx(&p, info);
    *products =
        swi_count_add(*products, swi_op(a->body)->grads[a->body_grad].operations(&p.info));
}

/* ---- scratch: a strip of f(z); of UPDATE after it one of dx, and in its place the tiles --
 */

static size_t float_bytes(int64_t n)
{
    return sw_size_round((size_t)n * sw_dtype_bytes(SW_F32));
}

size_t swi_strips_bytes(const swi_strips_attrs *a, const sw_type *matrix)
{
    if (a->kind == SWI_STRIPS_PRODUCT)
        return float_bytes(a->strip * matrix->shape.dim[1]);
    return float_bytes(a->kind == SWI_STRIPS_UPDATE ? a->strip * matrix->shape.dim[0]
                                                    : a->strip);
}

static size_t asked_scratch(size_t (*bytes)(const sw_kernel_info *), const part_info *p)
{
    return bytes != NULL ? bytes(&p->info) : 0;
}

size_t swi_strips_scratch(const sw_kernel_info *info)
{
    const swi_strips_attrs *a = info->attrs;
    const size_t strip = swi_strips_bytes(a, &info->in[0]);
    part_info p;
    if (a->kind == SWI_STRIPS_PRODUCT) {
        begin_info(&p, info, NULL);
        for (int i = 0; i < info->n_in; i++)
            put_in(&p, &info->in[i]);
        put_out(&p, &info->out[0]);
        p.in[0].shape.dim[0] = p.out[0].shape.dim[0] = a->strip;
        return strip + asked_scratch(swi_op(a->body)->scratch_bytes, &p);
    }
    if (a->kind != SWI_STRIPS_UPDATE)
        return strip;
    ask_dx(&p, info);
    p.in[0].shape.dim[1] = p.out[0].shape.dim[1] = a->strip;
    const size_t dx =
        strip + asked_scratch(swi_op(a->body)->grads[a->body_grad].scratch_bytes, &p);
    ask_tile(&p, info, a->strip);
    const size_t tile = swi_tile_bytes(&p.info);
    return strip + (dx > tile ? dx : tile);
}
