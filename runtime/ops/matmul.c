/* y (..., m, n) = a (..., m, k) b (..., k, n); the axes in front broadcast by NumPy's rule.
 *
 * a and b may have any strides: a transposed operand is a view. Keeps both: da = dy b^T,
 * db = a^T dy, summed over the axes along which an operand was repeated. */
#include "kernels/dispatch.h"
#include "kernels/products.h"
#include "runtime/ops/ops.h"

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    const sw_shape *a = &in[0].shape, *b = &in[1].shape;
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32("matmul", in, n_in));
    if (a->rank < 2 || b->rank < 2 || a->dim[a->rank - 1] != b->dim[b->rank - 2])
        SW_FAIL(SW_INVALID,
                "matmul: the inputs must be (..., m, k) and (..., k, n) (got %s and %s)",
                swi_shape_text(a, s), swi_shape_text(b, t));
    sw_shape front_a = *a, front_b = *b;
    front_a.rank -= 2;
    front_b.rank -= 2;
    out[0] = (sw_type){SW_F32, SW_PLAIN, {0, {0}}};
    sw_shape *y = &out[0].shape;
    SW_TRY(swi_broadcast("matmul", &front_a, &front_b, y));
    y->dim[y->rank++] = a->dim[a->rank - 2];
    y->dim[y->rank++] = b->dim[b->rank - 1];
    return SW_OK;
}

static int64_t rows_of(const sw_shape *s)
{
    return s->dim[s->rank - 2];
}

static int64_t cols_of(const sw_shape *s)
{
    return s->dim[s->rank - 1];
}

/* ---- kernels ----------------------------------------------------------------------------- */

static sw_status multiply(const sw_launch *l, int which)
{
    const sw_products p = sw_matmul_products(l, which);
    sw_axes(l->isa)->products(&p, l->par);
    return SW_OK;
}

KERNEL(forward, multiply(l, -1))
COUNT(forward_operations,
      swi_count_per_element(&info->out[0],
                            swi_count_mul(2, (uint64_t)cols_of(&info->in[0].shape))))

/* in: b, dy */
KERNEL(da_kernel, multiply(l, 0))
COUNT(da_operations,
      swi_count_per_element(&info->in[1],
                            swi_count_mul(2, (uint64_t)rows_of(&info->in[0].shape))))

/* in: a, dy */
KERNEL(db_kernel, multiply(l, 1))
COUNT(db_operations,
      swi_count_per_element(&info->in[1],
                            swi_count_mul(2, (uint64_t)cols_of(&info->in[0].shape))))

static sw_status reference(const sw_reference *r)
{
    const sw_shape *a = &r->in_type[0].shape, *b = &r->in_type[1].shape;
    const sw_shape *y = &r->out_type[0].shape;
    const int64_t m = rows_of(y), n = cols_of(y), depth = cols_of(a);
    int64_t all = 1;
    for (int i = 0; i < y->rank - 2; i++)
        all *= y->dim[i];
    for (int64_t q = 0; q < all; q++) {
        int64_t from_a = 0, from_b = 0, step_a = 1, step_b = 1, rest = q;
        for (int i = y->rank - 3; i >= 0; i--) {
            const int64_t da = sw_front_dim(a, y->rank, i), db = sw_front_dim(b, y->rank, i);
            from_a += da > 1 ? rest % y->dim[i] * step_a : 0;
            from_b += db > 1 ? rest % y->dim[i] * step_b : 0;
            step_a *= da;
            step_b *= db;
            rest /= y->dim[i];
        }
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0.0;
                for (int64_t k = 0; k < depth; k++)
                    sum += r->in[0][(from_a * m + i) * depth + k] *
                           r->in[1][(from_b * depth + k) * n + j];
                r->out[0][(q * m + i) * n + j] = sum;
            }
    }
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), da_kernel, da_operations),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), db_kernel, db_operations),
};

static const sw_op_case cases[] = {
    CASE("matrices", IN(F32(5, 7), F32(7, 9))),
    CASE("one element", IN(F32(1, 1), F32(1, 1))),
    CASE("batch of squares", IN(F32(3, 4, 4), F32(3, 4, 4))),
    CASE("heads, tiles", IN(F32(2, 3, 33, 20), F32(2, 3, 20, 35))),
    CASE("one weight", IN(F32(3, 5, 6), F32(6, 10))),
    CASE("one matrix in front", IN(F32(5, 6), F32(2, 3, 6, 4))),
    CASE("both repeated", IN(F32(2, 1, 3, 5, 4), F32(7, 1, 4, 6))),
    CASE("wide, one matrix", IN(F32(1, 70, 65), F32(65, 130))),
};

OP(matmul, 2, 0, 1, .infer = infer, .strided_in = 3, .forward = forward,
   .operations = forward_operations, GRADS(grads), CHECKS(reference, cases));
