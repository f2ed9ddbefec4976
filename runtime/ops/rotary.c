/* Rotary positions: pairs of each head of x (batch, rows, heads * size) are turned by position
 * times frequency, positions I32 (batch, rows).
 *
 * Keeps the positions. The gradient is the gradient of the result, turned backwards. */
#include "kernels/dispatch.h"
#include "runtime/base/structs.h"
#include "runtime/ops/ops.h"
#include <math.h>

static sw_status check_rule(const swi_rotary_attrs *a)
{
    const bool none = a->factor == 0.0f && a->low_freq_factor == 0.0f &&
                      a->high_freq_factor == 0.0f && a->original_context == 0;
    if (!(a->theta >= 1.0f && a->theta <= 3.4e38f))
        SW_FAIL(SW_INVALID, "rotary: theta must be 1 or more, and finite (got %g)",
                (double)a->theta);
    if (a->rule != SW_ROTARY_DEFAULT && a->rule != SW_ROTARY_LLAMA3)
        SW_FAIL(SW_INVALID,
                "rotary: rule must be SW_ROTARY_DEFAULT or SW_ROTARY_LLAMA3 (got %d)", a->rule);
    if (a->rule == SW_ROTARY_DEFAULT && !none)
        SW_FAIL(SW_INVALID, "rotary: factor, low_freq_factor, high_freq_factor and "
                            "original_context are of the rule SW_ROTARY_LLAMA3 alone");
    if (a->rule == SW_ROTARY_LLAMA3 &&
        !(a->factor >= 1.0f && a->factor <= 3.4e38f && a->low_freq_factor > 0.0f &&
          a->high_freq_factor > a->low_freq_factor && a->high_freq_factor <= 3.4e38f &&
          a->original_context >= 1))
        SW_FAIL(SW_INVALID,
                "rotary: the rule llama3 must have factor 1 or more, 0 < low_freq_factor < "
                "high_freq_factor and original_context 1 or more (got %g, %g, %g and %lld)",
                (double)a->factor, (double)a->low_freq_factor, (double)a->high_freq_factor,
                (long long)a->original_context);
    return SW_OK;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_rotary_attrs *a = attrs;
    const sw_shape *x = &in[0].shape, *at = &in[1].shape;
    (void)n_in;
    SW_TRY(swi_want_f32("rotary", in, 1));
    if (a->heads < 1)
        SW_FAIL(SW_INVALID, "rotary: heads must be at least 1 (got %d)", a->heads);
    if (x->rank != 3 || x->dim[2] < 1 || x->dim[2] % (2 * (int64_t)a->heads) != 0 ||
        x->dim[2] / a->heads > 2 * (int64_t)SW_ROTARY_PAIRS)
        SW_FAIL(
            SW_INVALID,
            "rotary: x must be (batch, rows, width) with a width of %d equal heads, each of "
            "an even size of at most %d (got %s)",
            a->heads, 2 * SW_ROTARY_PAIRS, SWI_SHAPE(x));
    if (in[1].dtype != SW_I32 || at->rank != 2 || at->dim[0] != x->dim[0] ||
        at->dim[1] != x->dim[1])
        SW_FAIL(SW_INVALID,
                "rotary: positions must be i32 (%lld, %lld), as the rows of x (got %s %s)",
                (long long)x->dim[0], (long long)x->dim[1], sw_dtype_name(in[1].dtype),
                SWI_SHAPE(at));
    SW_TRY(check_rule(a));
    out[0] = in[0];
    return SW_OK;
}

/* in: x or dy, positions. In pieces they have some rows of all. */
static sw_status turn(const sw_launch *l, bool back)
{
    const sw_shape *x = &l->in[0].type.shape;
    const sw_rotary_rows r =
        sw_rotary_of(l->attrs, swi_elements(x), swi_cols_of(x), back, swi_adds(l, 0));
    sw_axes(l->isa)->rotary(swi_out(l, 0), swi_in(l, 0), l->in[1].ptr, &r, l->par);
    return SW_OK;
}

KERNEL(forward, turn(l, false))
KERNEL(backward, turn(l, true))

/* Two products and a sum for each number; of each row the position as a float32 number, and of
 * each of its frequencies a product, sin and cos. */
static uint64_t operations(const sw_kernel_info *info)
{
    const int64_t width = swi_cols_of(&info->in[0].shape);
    const int64_t pairs = width / ((const swi_rotary_attrs *)info->attrs)->heads / 2;
    return swi_count_add(
        swi_count_per_element(&info->in[0], 3),
        swi_count_per_element(&info->in[1], 1 + (uint64_t)pairs * (1 + SWI_SINCOS_OF_ANGLE)));
}

/* The angle is a float32 number by definition: at position 100,000 its rounding is 1/256. */
static sw_status reference(const sw_reference *r)
{
    const swi_rotary_attrs *a = r->attrs;
    const int64_t width = swi_cols_of(&r->in_type[0].shape), pairs = width / a->heads / 2;
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++) {
        const int64_t in_head = i % (2 * pairs), pair = in_head % pairs;
        const float angle = (float)r->in[1][i / width] * sw_rotary_frequency(a, pair, pairs);
        const double c = cos((double)angle), s = sin((double)angle);
        r->out[0][i] = in_head < pairs ? r->in[0][i] * c - r->in[0][i + pairs] * s
                                       : r->in[0][i] * c + r->in[0][i - pairs] * s;
    }
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0), SW_IN(1)), backward, operations, .inplace = 1)};

#define POSITIONS(most) .fill = {SW_FILL_NORMAL, SW_FILL_LABELS}, .limit = most
static const swi_rotary_attrs attrs[] = {
    {0, 1, SW_ROTARY_DEFAULT, 10000.0f, 0.0f, 0.0f, 0.0f},
    {0, 3, SW_ROTARY_DEFAULT, 1e6f, 0.0f, 0.0f, 0.0f},
    {8192, 2, SW_ROTARY_LLAMA3, 5e5f, 32.0f, 1.0f, 4.0f},
};
static const sw_op_case cases[] = {
    CASE("one pair", IN(F32(1, 1, 2), I32(1, 1)), AT(attrs[0]), POSITIONS(100)),
    CASE("odd pairs", IN(F32(2, 5, 3 * 10), I32(2, 5)), AT(attrs[1]), POSITIONS(100001)),
    CASE("llama3", IN(F32(3, 7, 2 * 128), I32(3, 7)), AT(attrs[2]), POSITIONS(131072)),
    CASE("several parts", IN(F32(2, 260, 3 * 64), I32(2, 260)), AT(attrs[1]), POSITIONS(520)),
    CASE("the largest head", IN(F32(1, 4, 512), I32(1, 4)), AT(attrs[0]), POSITIONS(3)),
};

OP(rotary, 2, 0, 1, ATTRS(swi_rotary_attrs), .rebuild = 1, .infer = infer, .inplace = 1,
   .forward = forward, .operations = operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_rotary(sw_ctx *ctx, sw_value x, sw_value positions, int heads,
                   const sw_rotary_opts *opts)
{
    sw_rotary_opts o;
    if (swi_stick(ctx, swi_struct_read(SWI_STRUCT_sw_rotary_opts, &o, opts, "sw_rotary")) !=
        SW_OK)
        return (sw_value){0, 0};
    const swi_rotary_attrs a = {o.original_context,
                                heads,
                                o.rule,
                                o.theta != 0.0f ? o.theta : 10000.0f,
                                o.factor,
                                o.low_freq_factor,
                                o.high_freq_factor};
    return sw_op_apply(ctx, SW_OP_rotary, (sw_value[]){x, positions}, 2, &a);
}
