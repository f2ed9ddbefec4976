/* A parameter's gradient and its update, tile by tile: the work of two kernels, called through
 * their descriptors for some rows at a time. Only the pass in plan/strips.c makes such a node;
 * the tests of optimizers and of that pass cover it. */
#include "alloc/base/size.h"
#include "runtime/ops/tile.h"
#include "runtime/transport/ranks.h"
#include "kernels/dispatch.h"
#include "kernels/tile_launch.h"
#include <float.h>

static double largest(const sw_launch *l, int i)
{
    const int64_t n = sw_type_elements(&l->in[i].type);
    return (double)sw_pointwise(l->isa)->largest(l->in[i].ptr, swi_is_half(&l->in[i]), n,
                                                 l->par);
}

/* Each element is a sum of products of the two operands, one for each step of axis 0. */
static double product_bound(const sw_launch *l)
{
    return largest(l, 0) * largest(l, 1) * ((double)l->in[0].type.shape.dim[0] + 1.0);
}

COUNT(product_bound_operations,
      swi_count_add(2, swi_count_add(swi_count_per_element(&info->in[0], 1),
                                     swi_count_per_element(&info->in[1], 1))))

static const swi_row_range ranges[] = {
    /* dw: columns of dy. Tiles are large enough for a fast product. */
    {SW_OP_linear, 1, 1, 1, product_bound, product_bound_operations, 1 << 20, 4 << 20, 24},
    /* Each tile draws the noise of all columns again: 96 rows are that much of the work or
     * less, a twentieth of a product of low rank by 512 columns. */
    {SW_OP_es_gradient, -1, SW_TILE_BY_ATTRS, 0, swi_es_gradient_bound,
     swi_es_gradient_bound_operations, 512 << 10, 960 << 10, 96},
};

const swi_row_range *swi_rows_of(uint32_t op, int grad)
{
    for (int i = 0; i < SWI_COUNT(ranges); i++)
        if (ranges[i].op == op && ranges[i].grad == grad)
            return &ranges[i];
    return NULL;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    const swi_tile_attrs *a = attrs;
    out[0] = in[a->n_make + a->n_check];
    return SW_OK;
}

static const sw_grad_desc *maker(const swi_tile_attrs *a)
{
    return &swi_op(a->make_op)->grads[a->make_grad];
}

static size_t make_scratch(const swi_tile_attrs *a, const sw_kernel_info *info)
{
    size_t (*const bytes)(const sw_kernel_info *) =
        a->make_grad < 0 ? swi_op(a->make_op)->scratch_bytes : maker(a)->scratch_bytes;
    return bytes != NULL ? bytes(info) : 0;
}

static sw_status make(const swi_tile_attrs *a, const sw_launch *l)
{
    return a->make_grad < 0 ? swi_op(a->make_op)->forward(l) : maker(a)->kernel(l);
}

/* ---- what each part is asked about ------------------------------------------------------- */

typedef struct {
    sw_type in[SWI_MAX_OPERANDS], gradient;
    sw_kernel_info info;
} part_info;

static void ask_maker(part_info *p, const sw_kernel_info *info, int64_t rows)
{
    const swi_tile_attrs *a = info->attrs;
    const swi_row_range *r = swi_rows_of(a->make_op, a->make_grad);
    const bool by_attrs = r->operand == SW_TILE_BY_ATTRS;
    for (int i = 0; i < a->n_make; i++) {
        p->in[i] = info->in[i];
        if (by_attrs && swi_same_shape(&p->in[i].shape, &info->out[0].shape))
            p->in[i].shape.dim[0] = rows;
    }
    if (!by_attrs)
        p->in[r->operand].shape.dim[r->axis] = rows;
    p->gradient = info->out[0];
    p->gradient.shape.dim[0] = rows;
    p->info = (sw_kernel_info)SW_INIT(.in = p->in, .out = &p->gradient, .n_in = a->n_make,
                                      .n_out = 1, .attrs = by_attrs ? a->make : NULL,
                                      .threads = info->threads, .isa = info->isa);
}

/* Of the check: a look at the operands instead of the gradient (is_surely_finite), or at what
 * a bound says of them. */
static uint64_t check_operations(const sw_kernel_info *info, const sw_kernel_info *maker_info)
{
    const swi_tile_attrs *a = info->attrs;
    if (!a->has_check)
        return 0;
    return a->check.is_bounded
               ? 2
               : swi_rows_of(a->make_op, a->make_grad)->bound_operations(maker_info);
}

void swi_tile_operations(const sw_kernel_info *info, uint64_t *making, uint64_t *updating)
{
    const swi_tile_attrs *a = info->attrs;
    part_info p;
    ask_maker(&p, info, info->out[0].shape.dim[0]);
    *making = a->make_grad < 0 ? swi_op(a->make_op)->operations(&p.info)
                               : maker(a)->operations(&p.info);
    const uint64_t check = check_operations(info, &p.info);
    const int first = sw_tile_first_of_update(a);
    p.info = *info;
    p.info.in = p.in;
    p.info.n_in = 0;
    p.info.n_out -= a->has_check;
    p.info.attrs = a->attrs;
    for (int i = first; i < info->n_in; i++) {
        p.in[p.info.n_in++] = info->in[i];
        if (i == first)
            p.in[p.info.n_in++] = info->out[0];
    }
    if (a->has_check)
        p.in[p.info.n_in++] = info->out[p.info.n_out];
    *updating = swi_count_add(swi_op(a->update_op)->operations(&p.info), check);
}

static uint64_t operations(const sw_kernel_info *info)
{
    uint64_t making, updating;
    swi_tile_operations(info, &making, &updating);
    return swi_count_add(making, updating);
}

static size_t gradient_bytes(const sw_type *param, int64_t rows)
{
    sw_type tile = *param;
    tile.shape.dim[0] = rows;
    return sw_size_round(sw_type_bytes(&tile));
}

size_t swi_tile_bytes(const sw_kernel_info *info)
{
    const swi_tile_attrs *a = info->attrs;
    const int64_t last = info->out[0].shape.dim[0] % a->rows;
    part_info p;
    ask_maker(&p, info, a->rows);
    size_t most = make_scratch(a, &p.info);
    if (last > 0) {
        ask_maker(&p, info, last);
        const size_t bytes = make_scratch(a, &p.info);
        most = bytes > most ? bytes : most;
    }
    return gradient_bytes(&info->out[0], a->rows) + most;
}

/* ---- running ----------------------------------------------------------------------------- */

static void launch_of(sw_tile_part *p, const sw_launch *l, const sw_buffer *gradient,
                      int64_t first)
{
    const swi_tile_attrs *a = l->attrs;
    const swi_row_range *r = swi_rows_of(a->make_op, a->make_grad);
    sw_tile_make(p, l, r->operand, r->axis, gradient, first,
                 gradient_bytes(&l->out[0].type, a->rows));
}

static sw_status make_rows(const sw_launch *l, const sw_buffer *gradient, int64_t first)
{
    const swi_tile_attrs *a = l->attrs;
    sw_tile_part p;
    launch_of(&p, l, gradient, first);
    SW_TRY(make(a, &p.launch));
    return a->shard.shards > 1
               ? swi_shard_mean(&a->shard, l, gradient->ptr, sw_type_elements(&gradient->type))
               : SW_OK;
}

/* Rows of a range of columns: the update gets one row after the other, since it takes elements
 * side by side. */
enum { APART_PARTS = 64 };

typedef struct {
    const sw_launch *l;
    const sw_buffer *gradient;
    int64_t first, parts;
    sw_status status[APART_PARTS];
} apart_job;

static void apart_part(void *arg, int part)
{
    apart_job *j = arg;
    const int64_t rows = j->gradient->type.shape.dim[0];
    const int64_t to = rows * (part + 1) / j->parts;
    sw_launch l = *j->l;
    l.par = &sw_par_alone;
    for (int64_t i = rows * part / j->parts; i < to && j->status[part] == SW_OK; i++) {
        const swi_tile_attrs *a = l.attrs;
        const sw_buffer row = sw_tile_range(j->gradient, 0, i, 1);
        sw_tile_part p;
        sw_tile_step(&p, &l, &row, j->first + i);
        j->status[part] = swi_op(a->update_op)->forward(&p.launch);
    }
}

static bool lie_apart(const sw_launch *l)
{
    const sw_buffer *param = &l->out[0];
    return param->type.shape.rank == 2 && param->stride[0] != param->type.shape.dim[1];
}

static sw_status update_rows(const sw_launch *l, const sw_buffer *gradient, int64_t first)
{
    const swi_tile_attrs *a = l->attrs;
    sw_tile_part p;
    if (lie_apart(l)) {
        const int64_t rows = gradient->type.shape.dim[0];
        apart_job j = {.l = l, .gradient = gradient, .first = first, .status = {SW_OK}};
        j.parts = rows < APART_PARTS ? rows : APART_PARTS;
        l->par->run(l->par, apart_part, &j, (int)j.parts);
        for (int i = 0; i < j.parts; i++)
            SW_TRY(j.status[i]);
        return SW_OK;
    }
    sw_tile_step(&p, l, gradient, first);
    return swi_op(a->update_op)->forward(&p.launch);
}

static sw_buffer tile_of(const sw_launch *l, int64_t first)
{
    sw_buffer gradient = sw_tile_gradient(l, first, sw_tile_attrs_of(l)->rows);
    if (lie_apart(l))
        gradient.stride[0] = gradient.type.shape.dim[1];
    return gradient;
}

/* ---- looking at it ----------------------------------------------------------------------- */

bool swi_tile_is_bounded(const sw_launch *l)
{
    const swi_tile_attrs *a = l->attrs;
    return a->check.is_bounded &&
           *(const double *)l->in[a->n_make + a->n_check - 1].ptr < SWI_SURELY_FINITE;
}

/* Are the operands so small that no sum on the way can leave the range of floats? Ranks answer
 * alike, by the operands of all. */
static sw_status is_surely_finite(const sw_launch *l, bool *surely)
{
    const swi_tile_attrs *a = l->attrs;
    *surely = swi_tile_is_bounded(l);
    if (*surely)
        return SW_OK;
    sw_tile_part p;
    launch_of(&p, l, &l->out[0], 0); /* of all rows */
    double bound = swi_rows_of(a->make_op, a->make_grad)->bound(&p.launch);
    if (a->shard.shards > 1)
        SW_TRY(swi_shard_add(&a->shard, &bound));
    *surely = bound < (double)FLT_MAX / 2.0; /* not where it is NaN */
    return SW_OK;
}

static sw_status look(const sw_launch *l, const sw_buffer *gradient)
{
    sw_tile_part p;
    sw_tile_look(&p, l, gradient, 0);
    return sw_op_finite.forward(&p.launch);
}

/* That make it together; NULL: one process does. */
static swi_ranks *ranks_of(const swi_tile_attrs *a)
{
    swi_es_gradient_attrs estimate;
    memcpy(&estimate, a->make, sizeof estimate);
    return a->make_op == SW_OP_es_gradient ? estimate.ranks : a->shard.ranks;
}

/* The finite check on the whole gradient comes before any of it is used. As a rule it is known
 * from the operands; where it is not, all tiles are made once more. */
sw_status swi_tile_judge(const sw_launch *l)
{
    const swi_tile_attrs *a = l->attrs;
    const double *finite_check = l->out[l->n_out - 1].ptr;
    sw_buffer gradient = tile_of(l, 0);
    const int64_t all = l->out[0].type.shape.dim[0], rows = gradient.type.shape.dim[0];
    gradient.type.shape.dim[0] = 0;
    *(float *)gradient.ptr = 0.0f; /* the check touches one whatever comes */
    SW_TRY(look(l, &gradient));
    bool surely = false;
    if (*finite_check == 0.0)
        SW_TRY(is_surely_finite(l, &surely));
    if (*finite_check != 0.0 || surely)
        return SW_OK;
    swi_ranks_count_twice(ranks_of(a));
    for (int64_t first = 0; first < all && *finite_check == 0.0; first += rows) {
        gradient = tile_of(l, first);
        SW_TRY(make_rows(l, &gradient, first));
        SW_TRY(look(l, &gradient));
    }
    return SW_OK;
}

sw_status swi_tile_apply(const sw_launch *l)
{
    const swi_tile_attrs *a = l->attrs;
    const int64_t all = l->out[0].type.shape.dim[0];
    for (int64_t first = 0; first < all; first += a->rows) {
        sw_buffer gradient = tile_of(l, first);
        SW_TRY(make_rows(l, &gradient, first));
        SW_TRY(update_rows(l, &gradient, first));
    }
    return SW_OK;
}

static sw_status forward(const sw_launch *l)
{
    const swi_tile_attrs *a = l->attrs;
    if (a->has_check)
        SW_TRY(swi_tile_judge(l));
    return swi_tile_apply(l);
}

OP(tile_update, 5, 16, 1, ATTRS(swi_tile_attrs), .infer = infer,
   .scratch_bytes = swi_tile_bytes, .forward = forward, .operations = operations,
   .no_gradient = 1);
