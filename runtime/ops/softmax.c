/* Over the last axis: softmax and its logarithm. Both keep their output. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

static sw_status rows_infer(const char *op, const sw_type *in, int n_in, sw_type *out)
{
    if (in[0].shape.rank < 1 || in[0].shape.dim[in[0].shape.rank - 1] < 1)
        SW_FAIL(SW_INVALID, "%s: the last axis must have at least one element", op);
    return swi_infer_same(op, in, n_in, out);
}

static int64_t cols_of(const sw_shape *s)
{
    return s->dim[s->rank - 1];
}

static int64_t rows_of(const sw_shape *s)
{
    return swi_elements(s) / cols_of(s);
}

/* Of one row, its largest element and the sum of exponentials less it. */
static double reference_sum(const double *x, int64_t cols, double *most)
{
    double sum = 0;
    *most = x[0];
    for (int64_t c = 1; c < cols; c++)
        *most = x[c] > *most ? x[c] : *most;
    for (int64_t c = 0; c < cols; c++)
        sum += exp(x[c] - *most);
    return sum;
}

/* VALUE by x, most, sum; EACH and ROW: counted operations of forward, for an element and for a
 * row; SLOPE: of backward for an element; AGAIN: rebuild. Backward has y and dy. */
#define OVER_ROWS(id, VALUE, EACH, ROW, SLOPE, AGAIN)                                          \
    static sw_status id##_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)  \
    {                                                                                          \
        (void)attrs;                                                                           \
        return rows_infer(#id, in, n_in, out);                                                 \
    }                                                                                          \
    static sw_status id##_forward(const sw_launch *l)                                          \
    {                                                                                          \
        const sw_shape *s = &l->in[0].type.shape;                                              \
        sw_pointwise(l->isa)->id(swi_out(l, 0), swi_in(l, 0), rows_of(s), cols_of(s), l->par); \
        return SW_OK;                                                                          \
    }                                                                                          \
    static sw_status id##_dx(const sw_launch *l)                                               \
    {                                                                                          \
        const sw_shape *s = &l->in[0].type.shape;                                              \
        sw_pointwise(l->isa)->id##_dx(swi_out(l, 0), swi_in(l, 1), swi_in(l, 0), rows_of(s),   \
                                      cols_of(s), swi_adds(l, 0), l->par);                     \
        return SW_OK;                                                                          \
    }                                                                                          \
    static uint64_t id##_operations(const sw_kernel_info *info)                                \
    {                                                                                          \
        const sw_shape *s = &info->in[0].shape;                                                \
        return swi_count_add(swi_count_per_element(&info->in[0], EACH),                        \
                             swi_count_mul(ROW, (uint64_t)rows_of(s)));                        \
    }                                                                                          \
    static uint64_t id##_dx_operations(const sw_kernel_info *info)                             \
    {                                                                                          \
        return swi_count_per_element(&info->out[0], SLOPE);                                    \
    }                                                                                          \
    static sw_status id##_reference(const sw_reference *r)                                     \
    {                                                                                          \
        const int64_t cols = cols_of(&r->in_type[0].shape);                                    \
        for (int64_t i = 0; i < rows_of(&r->in_type[0].shape); i++) {                          \
            double most;                                                                       \
            const double sum = reference_sum(r->in[0] + i * cols, cols, &most);                \
            for (int64_t c = 0; c < cols; c++) {                                               \
                const double x = r->in[0][i * cols + c] - most;                                \
                r->out[0][i * cols + c] = VALUE;                                               \
            }                                                                                  \
        }                                                                                      \
        return SW_OK;                                                                          \
    }                                                                                          \
    static const sw_grad_desc id##_grads[] = {GRAD(                                            \
        MAKES(0), FROM(SW_OUT(0), SW_DOUT(0)), id##_dx, id##_dx_operations, .inplace = 3)};    \
    static const sw_op_case id##_cases[] = {                                                   \
        CASE("rows", IN(F32(4, 10))),                                                          \
        CASE("long rows", IN(F32(2, 3, 70))),                                                  \
        CASE("one element", IN(F32(1))),                                                       \
    };                                                                                         \
    OP(id, 1, 0, 1, .infer = id##_infer, .rebuild = AGAIN, .inplace = 1,                       \
       .forward = id##_forward, .operations = id##_operations, GRADS(id##_grads),              \
       CHECKS(id##_reference, id##_cases));

/* Maximum, difference, exponential, sum and quotient of each element, one reciprocal for each
 * row. Backward: the row's sum of dy y, then y (dy - sum). */
OVER_ROWS(softmax, exp(x) / sum, SWI_EXP + 4, 1, 4, 0)
/* Maximum, difference, exponential, sum, and the difference of each element; for each row the
 * logarithm, added to the maximum. Backward: the row's sum of dy, then dy - e^y sum. */
OVER_ROWS(log_softmax, x - log(sum), SWI_EXP + 4, SWI_LOG + 1, SWI_EXP + 3, 1)
