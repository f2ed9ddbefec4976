/* Maximum over axes, where it is, and sum, mean and maximum over axes by name: a list, negative
 * ones counted from the end, which stay as axes of length 1 where the attributes say so.
 *
 * max keeps for each result which place won, in 1, 2 or 4 bytes, as few as its places need;
 * argmax has no gradient. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

/* ---- maximum ----------------------------------------------------------------------------- */

static int index_bytes(int64_t places)
{
    return places <= 1 << 8 ? 1 : places <= 1 << 16 ? 2 : 4;
}

/* The result's type, and the elements of each maximum. */
static sw_status reduce_infer(const char *op, const sw_type *in, const swi_sum_attrs *a,
                              sw_dtype dtype, sw_type *out, int64_t *places)
{
    const sw_shape *x = &in[0].shape;
    SW_TRY(swi_want_f32(op, in, 1));
    if (a->axes >> x->rank != 0 || (a->axes == 0 && x->rank > 0))
        SW_FAIL(SW_INVALID, "%s: the axes 0x%x must be those of a tensor of rank %d", op,
                a->axes, x->rank);
    *out = (sw_type){dtype, SW_PLAIN, {0, {0}}};
    *places = 1;
    for (int i = 0; i < x->rank; i++) {
        if (swi_is_axis(a, i))
            *places *= x->dim[i]; /* a part of a product that fits */
        if (!swi_is_axis(a, i) || a->keep)
            out->shape.dim[out->shape.rank++] = swi_is_axis(a, i) ? 1 : x->dim[i];
    }
    if (*places < 1 || *places > INT32_MAX)
        SW_FAIL(SW_INVALID, "%s: the elements of a maximum must be 1 to %d (got %lld of %s)",
                op, INT32_MAX, (long long)*places, SWI_SHAPE(x));
    return SW_OK;
}

static sw_status max_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    int64_t places;
    SW_TRY(reduce_infer("max", in, attrs, SW_F32, &out[0], &places));
    out[1] =
        (sw_type){SW_U8, SW_PLAIN, {2, {swi_elements(&out[0].shape), index_bytes(places)}}};
    return SW_OK;
}

/* The axes of x by what becomes of them. */
static sw_max_spec spec_of(const sw_shape *shape, const int64_t *stride, const swi_sum_attrs *a)
{
    sw_max_spec s = {.kept = {1}, .reduced = {1}, .outputs = 1, .n = 1};
    for (int i = 0; i < shape->rank; i++)
        if (swi_is_axis(a, i)) {
            s.reduced[s.n_reduced] = shape->dim[i];
            s.reduced_step[s.n_reduced++] = stride[i];
            s.n *= shape->dim[i];
        } else {
            s.kept[s.n_kept] = shape->dim[i];
            s.kept_step[s.n_kept++] = stride[i];
            s.outputs *= shape->dim[i];
        }
    s.n_kept += s.n_kept == 0;
    s.n_reduced += s.n_reduced == 0;
    s.index_bytes = index_bytes(s.n);
    return s;
}

static sw_status max_forward(const sw_launch *l)
{
    const sw_buffer *x = &l->in[0];
    const sw_max_spec s = spec_of(&x->type.shape, x->stride, l->attrs);
    sw_axes(l->isa)->max_axes(swi_out(l, 0), l->n_out > 1 ? l->out[1].ptr : NULL, x->ptr, &s,
                              l->par);
    return SW_OK;
}

/* in: index, dy */
static sw_status max_dx(const sw_launch *l)
{
    const sw_buffer *dx = &l->out[0];
    const sw_max_spec s = spec_of(&dx->type.shape, dx->stride, l->attrs);
    sw_axes(l->isa)->max_axes_dx(dx->ptr, swi_in(l, 1), l->in[0].ptr, &s, swi_adds(l, 0),
                                 l->par);
    return SW_OK;
}

/* A comparison for each element. */
COUNT(max_operations, swi_count_per_element(&info->in[0], 1))
COUNT(max_dx_operations, swi_count_per_element(&info->in[1], 1))

static sw_status max_reference(const sw_reference *r)
{
    const swi_sum_attrs *a = r->attrs;
    const sw_shape *x = &r->in_type[0].shape;
    for (int64_t i = 0; i < swi_elements(x); i++) {
        int64_t index = 0, step = 1, rest = i;
        bool first = true; /* of its result */
        for (int k = x->rank - 1; k >= 0; k--) {
            if (swi_is_axis(a, k)) {
                first &= rest % x->dim[k] == 0;
            } else {
                index += rest % x->dim[k] * step;
                step *= x->dim[k];
            }
            rest /= x->dim[k];
        }
        if (first || r->in[0][i] > r->out[0][index] || isnan(r->in[0][i]))
            r->out[0][index] = r->in[0][i];
    }
    return SW_OK;
}

static const sw_grad_desc max_grads[] = {
    GRAD(MAKES(0), FROM(SW_OUT(1), SW_DOUT(0)), max_dx, max_dx_operations)};

static const swi_sum_attrs max_attrs[] = {
    {.axes = 1}, {.axes = 2}, {.axes = 3}, {.axes = 5, .keep = 1}, {.axes = 10}, {.axes = 0}};
static const sw_op_case max_cases[] = {
    CASE("rows", IN(F32(5, 35)), FILL(DISTINCT), AT(max_attrs[0])),
    CASE("cols", IN(F32(5, 50)), FILL(DISTINCT), AT(max_attrs[1])),
    CASE("few cols", IN(F32(33, 4)), FILL(DISTINCT), AT(max_attrs[1])),
    CASE("all, two bytes", IN(F32(16, 17)), FILL(DISTINCT), AT(max_attrs[2])),
    CASE("all, four bytes", IN(F32(257, 257)), FILL(DISTINCT), AT(max_attrs[2])),
    CASE("kept", IN(F32(2, 19, 4)), FILL(DISTINCT), AT(max_attrs[3])),
    CASE("image, two axes apart", IN(F32(17, 2, 3, 5)), FILL(DISTINCT), AT(max_attrs[4])),
    CASE("scalar", IN(SCALAR), AT(max_attrs[5])),
    CASE("several parts", IN(F32(3, 40, 300)), FILL(DISTINCT), AT(max_attrs[1])),
};

OP(max, 1, 0, 1, ATTRS(swi_sum_attrs), .n_extra = 1, .infer = max_infer, .strided_in = 1,
   .forward = max_forward, .operations = max_operations, GRADS(max_grads),
   CHECKS(max_reference, max_cases));

/* ---- where the maximum is ---------------------------------------------------------------- */

static sw_status argmax_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    int64_t places;
    return reduce_infer("argmax", in, attrs, SW_I32, out, &places);
}

static sw_status argmax_forward(const sw_launch *l)
{
    const sw_buffer *x = &l->in[0];
    sw_max_spec s = spec_of(&x->type.shape, x->stride, l->attrs);
    s.index_bytes = (int)sw_dtype_bytes(SW_I32);
    sw_axes(l->isa)->max_axes(NULL, l->out[0].ptr, x->ptr, &s, l->par);
    return SW_OK;
}

/* The first of equals, and the first NaN before all numbers. */
static sw_status argmax_reference(const sw_reference *r)
{
    const swi_sum_attrs *a = r->attrs;
    const sw_shape *x = &r->in_type[0].shape;
    int axis = 0;
    int64_t inner = 1;
    while (axis < x->rank && !swi_is_axis(a, axis))
        axis++;
    for (int i = axis + 1; i < x->rank; i++)
        inner *= x->dim[i];
    const int64_t n = axis < x->rank ? x->dim[axis] : 1;
    for (int64_t i = 0; i < swi_elements(&r->out_type[0].shape); i++) {
        const double *line = r->in[0] + i / inner * n * inner + i % inner;
        int64_t best = 0;
        for (int64_t k = n - 1; k >= 0; k--)
            if (isnan(line[k * inner]) ||
                (!isnan(line[best * inner]) && line[k * inner] >= line[best * inner]))
                best = k;
        r->out[0][i] = (double)best;
    }
    return SW_OK;
}

static const sw_op_case argmax_cases[] = {
    CASE("cols", IN(F32(5, 50)), FILL(DISTINCT), AT(max_attrs[1])),
    CASE("rows", IN(F32(5, 35)), FILL(DISTINCT), AT(max_attrs[0])),
    CASE("ties", IN(F32(40, 70)), FILL(LABELS), .limit = 4, AT(max_attrs[1])),
    CASE("image, channels", IN(F32(3, 6, 4, 5)), FILL(DISTINCT), AT(max_attrs[1])),
    CASE("several parts", IN(F32(3, 40, 300)), FILL(DISTINCT), AT(max_attrs[1])),
    CASE("scalar", IN(SCALAR), AT(max_attrs[5])),
};

OP(argmax, 1, 0, 1, ATTRS(swi_sum_attrs), .infer = argmax_infer, .strided_in = 1,
   .forward = argmax_forward, .no_gradient = 1, .operations = max_operations,
   CHECKS(argmax_reference, argmax_cases));

/* ---- by name ----------------------------------------------------------------------------- */

/* Bits of the axes, all of them for none; false after an error. */
static bool axes_of(sw_ctx *ctx, const char *op, sw_value x, const int *axes, int n,
                    uint32_t *out)
{
    const int rank = sw_rank(ctx, x);
    *out = n == 0 && rank > 0 ? UINT32_MAX >> (32 - rank) : 0;
    if (sw_ctx_status(ctx) != SW_OK)
        return false;
    if (axes == NULL && n > 0) {
        SWI_STICK(ctx, SW_INVALID, "%s: the axes must not be NULL", op);
        return false;
    }
    for (int i = 0; i < n; i++) {
        const int axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        const bool inside = axis >= 0 && axis < rank;
        if (!inside || (*out >> axis & 1u) != 0) {
            SWI_STICK(ctx, SW_INVALID,
                      inside ? "%s: axis %d is named twice"
                             : "%s: axis %d of a tensor of rank %d",
                      op, axes[i], rank);
            return false;
        }
        *out |= 1u << axis;
    }
    return true;
}

static sw_value sum_over(sw_ctx *ctx, sw_value x, const int *axes, int n, bool keep, bool mean)
{
    swi_sum_attrs a = {.keep = keep, .scale = 1.0};
    if (!axes_of(ctx, mean ? "mean" : "sum", x, axes, n, &a.axes))
        return (sw_value){0, 0};
    double count = 1.0;
    for (int i = 0; i < sw_rank(ctx, x); i++)
        count *= swi_is_axis(&a, i) ? (double)sw_dim(ctx, x, i) : 1.0;
    if (mean && count == 0.0)
        return SWI_REFUSE(ctx, "mean: the input must have elements");
    if (mean)
        a.scale = 1.0 / count;
    return sw_op_apply(ctx, SW_OP_sum, &x, 1, &a);
}

sw_value sw_sum_axes(sw_ctx *ctx, sw_value x, const int *axes, int n, int keepdim)
{
    return sum_over(ctx, x, axes, n, keepdim != 0, false);
}

sw_value sw_mean_axes(sw_ctx *ctx, sw_value x, const int *axes, int n, int keepdim)
{
    return sum_over(ctx, x, axes, n, keepdim != 0, true);
}

sw_value sw_max_axes(sw_ctx *ctx, sw_value x, const int *axes, int n, int keepdim)
{
    swi_sum_attrs a = {.keep = keepdim != 0};
    if (!axes_of(ctx, "max", x, axes, n, &a.axes))
        return (sw_value){0, 0};
    return sw_op_apply(ctx, SW_OP_max, &x, 1, &a);
}

sw_value sw_max(sw_ctx *ctx, sw_value x, uint32_t axes)
{
    swi_sum_attrs a = {.axes = axes};
    if (axes == 0)
        (void)axes_of(ctx, "max", x, NULL, 0, &a.axes);
    return sw_op_apply(ctx, SW_OP_max, &x, 1, &a);
}

sw_value sw_argmax(sw_ctx *ctx, sw_value x, int axis, int keepdim)
{
    swi_sum_attrs a = {.keep = keepdim != 0};
    if (!axes_of(ctx, "argmax", x, &axis, 1, &a.axes))
        return (sw_value){0, 0};
    return sw_op_apply(ctx, SW_OP_argmax, &x, 1, &a);
}

/* ==== cumsum ============================================================================== */

/* y = cumulative sums of x along an axis: y[i] = x[0] + ... + x[i], one after the other in
 * float64, rounded to float32 each. Keeps nothing: dx[i] = dy[n - 1] + ... + dy[i], the same
 * from the other end. */

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const int64_t axis = ((const swi_line_attrs *)attrs)->axis;
    SW_TRY(swi_infer_same("cumsum", in, n_in, out));
    if (axis < 0 || axis >= in[0].shape.rank)
        SW_FAIL(SW_INVALID, "cumsum: axis %lld must be one of a tensor of rank %d",
                (long long)axis, in[0].shape.rank);
    return SW_OK;
}

static sw_lines lines_of(const sw_shape *s, const void *attrs, bool reverse)
{
    const int axis = (int)((const swi_line_attrs *)attrs)->axis;
    sw_lines l = {.outer = 1, .n = s->dim[axis], .inner = 1, .reverse = reverse};
    for (int i = 0; i < axis; i++)
        l.outer *= s->dim[i];
    for (int i = axis + 1; i < s->rank; i++)
        l.inner *= s->dim[i];
    return l;
}

static sw_status sum(const sw_launch *l, bool reverse)
{
    const sw_lines s = lines_of(&l->out[0].type.shape, l->attrs, reverse);
    sw_axes(l->isa)->cumsum(swi_out(l, 0), swi_in(l, 0), &s, swi_adds(l, 0), l->par);
    return SW_OK;
}

KERNEL(forward, sum(l, false))

/* in: dy */
KERNEL(dx_kernel, sum(l, true))
COUNT(operations, swi_count_per_element(&info->out[0], 1))

/* Each sum anew. */
static sw_status reference(const sw_reference *r)
{
    const sw_shape *s = &r->in_type[0].shape;
    const sw_lines l = lines_of(s, r->attrs, false);
    for (int64_t i = 0; i < swi_elements(s); i++) {
        double total = 0;
        for (int64_t k = i - i / l.inner % l.n * l.inner; k <= i; k += l.inner)
            total += r->in[0][k];
        r->out[0][i] = total;
    }
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0)), dx_kernel, operations, .inplace = 1)};

static const swi_line_attrs lines[] = {{0}, {1}, {2}};
static const sw_op_case cases[] = {
    CASE("cols", IN(F32(4, 7)), AT(lines[1])),
    CASE("rows", IN(F32(5, 37)), AT(lines[0])),
    CASE("middle", IN(F32(3, 6, 21)), AT(lines[1])),
    CASE("many lines", IN(F32(70, 50)), AT(lines[1])),
    CASE("image", IN(F32(17, 2, 5, 3)), AT(lines[2])),
    CASE("long line", IN(F32(3000)), AT(lines[0])),
    CASE("one element", IN(F32(1)), AT(lines[0])),
};

OP(cumsum, 1, 0, 1, ATTRS(swi_line_attrs), .infer = infer, .inplace = 1, .rebuild = 1,
   .forward = forward, .operations = operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_cumsum(sw_ctx *ctx, sw_value x, int axis)
{
    return sw_op_apply(ctx, SW_OP_cumsum, &x, 1,
                       &(swi_line_attrs){axis < 0 ? axis + sw_rank(ctx, x) : axis});
}

/* ==== softmax ============================================================================= */

/* Over the last axis: softmax and its logarithm. Both keep their output. */

static sw_status rows_infer(const char *op, const sw_type *in, int n_in, sw_type *out)
{
    if (in[0].shape.rank < 1 || in[0].shape.dim[in[0].shape.rank - 1] < 1)
        SW_FAIL(SW_INVALID, "%s: the last axis must have at least one element", op);
    return swi_infer_same(op, in, n_in, out);
}

static int64_t rows_of(const sw_shape *s)
{
    return swi_elements(s) / swi_cols_of(s);
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
        sw_pointwise(l->isa)->id(swi_out(l, 0), swi_in(l, 0), rows_of(s), swi_cols_of(s),      \
                                 l->par);                                                      \
        return SW_OK;                                                                          \
    }                                                                                          \
    static sw_status id##_dx(const sw_launch *l)                                               \
    {                                                                                          \
        const sw_shape *s = &l->in[0].type.shape;                                              \
        sw_pointwise(l->isa)->id##_dx(swi_out(l, 0), swi_in(l, 1), swi_in(l, 0), rows_of(s),   \
                                      swi_cols_of(s), swi_adds(l, 0), l->par);                 \
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
        const int64_t cols = swi_cols_of(&r->in_type[0].shape);                                \
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
