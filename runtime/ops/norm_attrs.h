/* Shared by the descriptors of normalisation. */
#ifndef SW_OPS_NORM_ATTRS_H
#define SW_OPS_NORM_ATTRS_H

#include "kernels/norm.h"
#include "runtime/ops/ops.h"

/* Gradients of x, weight and bias, of an op whose mean and rstd are these outputs: dx from x,
 * mean, rstd, dy, [weight]; dweight (and dbias) from x, mean, rstd, dy; dbias from dy. */
#define SWI_NORM_SAVED(mean, rstd) SW_IN(0), SW_OUT(mean), SW_OUT(rstd), SW_DOUT(0)
#define SWI_NORM_GRADS(mean, rstd, dx, dx_count, dw, dw_count, db, db_count)                   \
    {                                                                                          \
        GRAD(MAKES(0), FROM(SWI_NORM_SAVED(mean, rstd), SW_IN(1)), dx, dx_count,               \
             .inplace = 9),                                                                    \
            GRAD(MAKES(1, 2), FROM(SWI_NORM_SAVED(mean, rstd)), dw, dw_count),                 \
            GRAD(MAKES(1), FROM(SWI_NORM_SAVED(mean, rstd)), dw, dw_count),                    \
            GRAD(MAKES(2), FROM(SW_DOUT(0)), db, db_count),                                    \
    }

/* F32 inputs, a good epsilon, inputs from `first` on of shape (size). */
sw_status swi_norm_infer(const char *op, const sw_type *in, int n_in, int first, int64_t size,
                         float epsilon);
/* Shape and attributes of an image (batch, channels, ...). */
sw_norm_args swi_norm_image(const sw_type *x, const swi_norm_attrs *a);
/* Output i, NULL where no one reads it. */
float *swi_norm_extra(const sw_launch *l, int i);
/* The operands of a forward kernel: x, weight, bias; y, mean and 1/std, these two in outputs
 * `mean` and the next. */
void swi_norm_forward(sw_norm_args *n, const sw_launch *l, int mean);
/* Weight and bias from input `first` on, where they are given. */
void swi_norm_scale(sw_norm_args *n, const sw_launch *l, int first);
/* `each` for an element of x, `once` for one of the statistics. */
uint64_t swi_norm_count(const sw_type *x, uint64_t each, const sw_type *stats, uint64_t once);
bool swi_norm_bias_ok(sw_ctx *ctx, sw_value weight, sw_value bias);
sw_value swi_norm_apply(sw_ctx *ctx, uint32_t op, sw_value x, sw_value weight, sw_value bias,
                        const swi_norm_attrs *attrs);

/* The gradients of SWI_NORM_GRADS, by a kernel of kernels/norm.h; `n` has the sizes. */
typedef void swi_norm_kernel(const sw_norm_args *n, const sw_par *par);
sw_status swi_norm_make_dx(const sw_launch *l, sw_norm_args n, swi_norm_kernel *kernel);
sw_status swi_norm_make_dw(const sw_launch *l, sw_norm_args n, swi_norm_kernel *kernel);
sw_status swi_norm_make_db(const sw_launch *l, sw_norm_args n, swi_norm_kernel *kernel);
uint64_t swi_norm_db_operations(const sw_kernel_info *info);

/* in: x, mean, rstd, dy */
static inline void swi_norm_saved(sw_norm_args *n, const sw_launch *l)
{
    n->x = swi_in(l, 0);
    n->mean = swi_in(l, 1);
    n->rstd = swi_in(l, 2);
    n->dy = swi_in(l, 3);
}

/* dweight to output `first`, dbias to the next where there is one. */
static inline void swi_norm_dw(sw_norm_args *n, const sw_launch *l, int first)
{
    n->dw = swi_out(l, first);
    n->add_dw = swi_adds(l, first);
    if (l->n_out > first + 1) {
        n->db = swi_out(l, first + 1);
        n->add_db = swi_adds(l, first + 1);
    }
}

#endif
