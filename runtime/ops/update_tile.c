/* A weight's gradient and its update, tile by tile: the work of two kernels, called through
 * their descriptors for some rows at a time. Only the pass in tile_update.c makes such a node;
 * the tests of optimizers and of that pass cover it. */
#include "alloc/base/size.h"
#include "runtime/ops/tile.h"
#include "kernels/dispatch.h"
#include "kernels/tile_launch.h"
#include <float.h>

static const swi_row_range ranges[] = {{SW_OP_linear, 1, 1, 1}}; /* dw: columns of dy */

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

/* ---- what each part is asked about ------------------------------------------------------- */

typedef struct {
    sw_type in[SWI_MAX_OPERANDS], gradient;
    sw_kernel_info info;
} part_info;

static void ask_maker(part_info *p, const sw_kernel_info *info, int64_t rows)
{
    const swi_tile_attrs *a = info->attrs;
    const swi_row_range *r = swi_rows_of(a->make_op, a->make_grad);
    for (int i = 0; i < a->n_make; i++)
        p->in[i] = info->in[i];
    p->in[r->operand].shape.dim[r->axis] = rows;
    p->gradient = info->out[0];
    p->gradient.shape.dim[0] = rows;
    p->info = (sw_kernel_info){.in = p->in,
                               .out = &p->gradient,
                               .n_in = a->n_make,
                               .n_out = 1,
                               .threads = info->threads,
                               .isa = info->isa};
}

static void ask_update(part_info *p, const sw_kernel_info *info)
{
    const swi_tile_attrs *a = info->attrs;
    const int first = sw_tile_first_of_update(a);
    p->info = *info;
    p->info.in = p->in;
    p->info.n_in = 0;
    p->info.n_out -= a->has_check;
    p->info.attrs = a->attrs;
    for (int i = first; i < info->n_in; i++) {
        p->in[p->info.n_in++] = info->in[i];
        if (i == first)
            p->in[p->info.n_in++] = info->out[0];
    }
    if (a->has_check)
        p->in[p->info.n_in++] = info->out[p->info.n_out];
}

/* Of the check: the factors' elements instead of the gradient's (is_surely_finite), or what a
 * bound says of them. */
static uint64_t check_operations(const sw_kernel_info *info)
{
    const swi_tile_attrs *a = info->attrs;
    const uint64_t factors = swi_count_add(swi_count_per_element(&info->in[0], 1),
                                           swi_count_per_element(&info->in[1], 1));
    return !a->has_check ? 0 : a->check.is_bounded ? 2 : swi_count_add(factors, 2);
}

void swi_tile_operations(const sw_kernel_info *info, uint64_t *make, uint64_t *update)
{
    const swi_tile_attrs *a = info->attrs;
    part_info p;
    ask_maker(&p, info, info->out[0].shape.dim[0]);
    *make = maker(a)->operations(&p.info);
    ask_update(&p, info);
    *update = swi_count_add(swi_op(a->update_op)->operations(&p.info), check_operations(info));
}

static uint64_t operations(const sw_kernel_info *info)
{
    uint64_t make, update;
    swi_tile_operations(info, &make, &update);
    return swi_count_add(make, update);
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
    part_info p;
    ask_maker(&p, info, a->rows);
    const sw_grad_desc *grad = maker(a);
    return gradient_bytes(&info->out[0], a->rows) +
           (grad->scratch_bytes != NULL ? grad->scratch_bytes(&p.info) : 0);
}

/* ---- running ----------------------------------------------------------------------------- */

static sw_status make_rows(const sw_launch *l, const sw_buffer *gradient, int64_t first)
{
    const swi_tile_attrs *a = l->attrs;
    const swi_row_range *r = swi_rows_of(a->make_op, a->make_grad);
    sw_tile_part p;
    sw_tile_make(&p, l, (int)r->operand, r->axis, gradient, first,
                 gradient_bytes(&l->out[0].type, a->rows));
    return maker(a)->kernel(&p.launch);
}

static sw_status update_rows(const sw_launch *l, const sw_buffer *gradient, int64_t first)
{
    const swi_tile_attrs *a = l->attrs;
    sw_tile_part p;
    sw_tile_step(&p, l, gradient, first);
    return swi_op(a->update_op)->forward(&p.launch);
}

static sw_buffer tile_of(const sw_launch *l, int64_t first)
{
    return sw_tile_gradient(l, first, sw_tile_attrs_of(l)->rows);
}

/* ---- looking at it ----------------------------------------------------------------------- */

static double largest(const sw_launch *l, int i)
{
    const int64_t n = sw_type_elements(&l->in[i].type);
    return (double)sw_pointwise(l->isa)->largest(swi_in(l, i), n, l->par);
}

/* Are the operands so small that no sum of their products can leave the range of floats? */
static bool is_surely_finite(const sw_launch *l)
{
    const swi_tile_attrs *a = l->attrs;
    if (a->check.is_bounded &&
        *(const double *)l->in[a->n_make + a->n_check - 1].ptr < SWI_SURELY_FINITE)
        return true;
    const double terms = (double)l->in[0].type.shape.dim[0] + 1.0;
    const double bound = largest(l, 0) * largest(l, 1) * terms;
    return bound < (double)FLT_MAX / 2.0; /* not where it is NaN */
}

static sw_status look(const sw_launch *l, const sw_buffer *gradient)
{
    sw_tile_part p;
    sw_tile_look(&p, l, gradient, 0);
    return sw_op_finite.forward(&p.launch);
}

/* The finite check on the whole gradient comes before any of it is used. As a rule it is known
 * from the operands; where it is not, all tiles are made once more. */
static sw_status judge(const sw_launch *l)
{
    const double *finite_check = l->out[l->n_out - 1].ptr;
    sw_buffer gradient = tile_of(l, 0);
    const int64_t all = l->out[0].type.shape.dim[0], rows = gradient.type.shape.dim[0];
    gradient.type.shape.dim[0] = 0;
    *(float *)gradient.ptr = 0.0f; /* the check touches one whatever comes */
    SW_TRY(look(l, &gradient));
    if (*finite_check != 0.0 || is_surely_finite(l))
        return SW_OK;
    for (int64_t first = 0; first < all && *finite_check == 0.0; first += rows) {
        gradient = tile_of(l, first);
        SW_TRY(make_rows(l, &gradient, first));
        SW_TRY(look(l, &gradient));
    }
    return SW_OK;
}

static sw_status forward(const sw_launch *l)
{
    const swi_tile_attrs *a = l->attrs;
    const int64_t all = l->out[0].type.shape.dim[0];
    if (a->has_check)
        SW_TRY(judge(l));
    for (int64_t first = 0; first < all; first += a->rows) {
        sw_buffer gradient = tile_of(l, first);
        SW_TRY(make_rows(l, &gradient, first));
        SW_TRY(update_rows(l, &gradient, first));
    }
    return SW_OK;
}

const sw_op_desc sw_op_tile_update = {.size = sizeof(sw_op_desc),
                                      .name = "tile_update",
                                      .n_in = 5,
                                      .max_in = 16,
                                      .n_out = 1,
                                      .attrs_bytes = sizeof(swi_tile_attrs),
                                      .infer = infer,
                                      .scratch_bytes = swi_tile_bytes,
                                      .forward = forward,
                                      .operations = operations,
                                      .no_gradient = 1};
