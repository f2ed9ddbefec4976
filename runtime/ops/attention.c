/* y = softmax(scale q k^T) v for each head: q (batch, queries, heads * size), k (batch, keys,
 * heads * size), v (batch, keys, heads * value_size), any strides. With one input it has q, k
 * and v of one width side by side in its last axis.
 *
 * Keeps q, k, v, y and the logarithm of each row's sum; backward makes the tiles of
 * probabilities again. Scratch is tiles for each thread, and dq of one head in backward. */
#include "kernels/attention_launch.h"
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_attention_attrs *a = attrs;
    const sw_shape *q = &in[0].shape, *k = &in[n_in > 1 ? 1 : 0].shape,
                   *v = &in[n_in - 1].shape;
    SW_TRY(swi_want_f32("attention", in, n_in));
    if (n_in == 2)
        SW_FAIL(SW_INVALID, "attention: the inputs must be q, k and v, or one tensor of the "
                            "three (got 2 inputs)");
    if (a->heads < 1)
        SW_FAIL(SW_INVALID, "attention: heads must be at least 1 (got %d)", a->heads);
    if (!(fabsf(a->scale) <= 3.4e38f))
        SW_FAIL(SW_INVALID, "attention: scale must be finite (got %g)", (double)a->scale);
    for (int i = 0; i < n_in; i++) {
        const int64_t pieces = n_in == 1 ? 3 : 1;
        const int64_t heads = a->heads;
        if (in[i].shape.rank != 3 || in[i].shape.dim[1] < 1 || in[i].shape.dim[2] < 1 ||
            in[i].shape.dim[2] % (pieces * heads) != 0)
            SW_FAIL(SW_INVALID,
                    "attention: a shape must be (batch, rows, width), with rows and a width of "
                    "%lld equal heads%s (got %s)",
                    (long long)heads, pieces > 1 ? " of each of q, k and v" : "",
                    SWI_SHAPE(&in[i].shape));
    }
    if (q->dim[0] != k->dim[0] || q->dim[0] != v->dim[0] || k->dim[1] != v->dim[1] ||
        q->dim[2] != k->dim[2])
        SW_FAIL(SW_INVALID,
                "attention: q, k and v must be (batch, queries, width), (batch, keys, width) "
                "and (batch, keys, any) (got %s, %s and %s)",
                SWI_SHAPE(q), SWI_SHAPE(k), SWI_SHAPE(v));
    out[0] = (sw_type){SW_F32, SW_PLAIN, *q};
    out[0].shape.dim[2] = n_in == 1 ? q->dim[2] / 3 : v->dim[2];
    out[1] = (sw_type){SW_F32, SW_PLAIN, {3, {q->dim[0], a->heads, q->dim[1]}}};
    return SW_OK;
}

/* Pairs of a query and a key that it sees, over batch and heads. */
static uint64_t pairs_of(const sw_attention_shape *s)
{
    uint64_t seen = (uint64_t)s->keys * (uint64_t)s->queries;
    if (s->causal) {
        const int64_t full = s->queries > s->keys ? s->queries - s->keys : 0;
        const int64_t rising = s->queries - full;
        seen =
            (uint64_t)full * (uint64_t)s->keys + (uint64_t)rising * (uint64_t)(rising + 1) / 2;
    }
    return swi_count_mul(seen, (uint64_t)(s->batch * s->heads));
}

/* ---- kernels ----------------------------------------------------------------------------- */

static size_t forward_bytes(const sw_kernel_info *info)
{
    const sw_attention_shape s = sw_attention_info_shape(info, info->n_in);
    return sw_axes(info->isa)->attention_bytes(&s, info->threads);
}

static sw_status forward(const sw_launch *l)
{
    sw_attention_shape s;
    sw_heads in[3];
    sw_attention_find(l, l->n_in, &s, in);
    sw_axes(l->isa)->attention(swi_out(l, 0), l->n_out > 1 ? swi_out(l, 1) : NULL, &in[0],
                               &in[1], &in[2], &s, l->scratch, l->par);
    return SW_OK;
}

/* The two products, the scale, and the exponential of each pair with its maximum and sum. */
static uint64_t forward_operations(const sw_kernel_info *info)
{
    const sw_attention_shape s = sw_attention_info_shape(info, info->n_in);
    const uint64_t each = 2 * (uint64_t)(s.size + s.value_size) + SWI_EXP + 4;
    return swi_count_add(swi_count_mul(pairs_of(&s), each),
                         swi_count_per_element(&info->out[1], SWI_LOG + 2));
}

static size_t grad_bytes(const sw_kernel_info *info, unsigned makes)
{
    const int n = sw_attention_inputs(info->n_in, (makes & 3u) != 0);
    const sw_attention_shape s = sw_attention_info_shape(info, n);
    const unsigned made = n == 1 ? 7 : info->n_out == 3 ? makes & ~info->skipped : makes;
    return sw_axes(info->isa)->attention_grad_bytes(&s, made, info->threads);
}

SCRATCH(all_bytes, grad_bytes(info, 7))

/* dq, or the gradient of the one tensor */
SCRATCH(dq_bytes, grad_bytes(info, 1))
SCRATCH(dk_bytes, grad_bytes(info, 2))
SCRATCH(dv_bytes, grad_bytes(info, 4))

static sw_status gradients(const sw_launch *l, unsigned makes)
{
    const sw_attention_grads g = sw_attention_grads_of(l, makes);
    sw_axes(l->isa)->attention_grad(&g, l->scratch, l->par);
    return SW_OK;
}

KERNEL(all_kernel, gradients(l, 7))
KERNEL(dq_kernel, gradients(l, 1))
KERNEL(dk_kernel, gradients(l, 2))
KERNEL(dv_kernel, gradients(l, 4))

/* Scores and exponentials again; for dq and dk the gradient of the probabilities, and a product
 * for each of them and dv. The row sums of dy y. */
static uint64_t gradient_operations(const sw_kernel_info *info, bool y, uint64_t sizes,
                                    uint64_t value_sizes)
{
    const sw_attention_shape s =
        sw_attention_info_shape(info, sw_attention_inputs(info->n_in, y));
    const uint64_t each =
        2 * (sizes * (uint64_t)s.size + value_sizes * (uint64_t)s.value_size) + SWI_EXP + 2 +
        (y ? 3 : 0);
    const uint64_t rows = (uint64_t)(s.batch * s.heads * s.queries);
    return swi_count_add(swi_count_mul(pairs_of(&s), each),
                         y ? swi_count_mul(rows, 2 * (uint64_t)s.value_size) : 0);
}

COUNT(all_operations, gradient_operations(info, true, 3, 2))
COUNT(one_operations,
      info->n_in == 4 ? all_operations(info) : gradient_operations(info, true, 2, 1))
COUNT(dv_operations, gradient_operations(info, false, 1, 1))

/* ---- reference --------------------------------------------------------------------------- */

typedef struct {
    const double *p;
    int64_t row;
} rows;

/* One query against all keys that it sees. */
static void reference_row(double *y, const double *q, rows k, rows v, int64_t seen,
                          const sw_attention_shape *s)
{
    double most = -HUGE_VAL, total = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < seen; j++) {
            double score = 0.0;
            for (int64_t c = 0; c < s->size; c++)
                score += q[c] * k.p[j * k.row + c];
            score *= (double)s->scale;
            most = pass == 0 && score > most ? score : most;
            if (pass == 0)
                continue;
            total += exp(score - most);
            for (int64_t c = 0; c < s->value_size; c++)
                y[c] += exp(score - most) * v.p[j * v.row + c];
        }
    for (int64_t c = 0; c < s->value_size; c++)
        y[c] /= total;
}

static sw_status reference(const sw_reference *r)
{
    const int n = r->n_in;
    const sw_attention_shape s =
        sw_attention_shape_of(&r->in_type[0].shape, &r->in_type[n > 1 ? 1 : 0].shape,
                              &r->in_type[n - 1].shape, r->attrs);
    const int64_t width = s.heads * s.size, wide = s.heads * s.value_size;
    const int64_t row_q = n == 1 ? 3 * width : width, row_v = n == 1 ? 3 * width : wide;
    const double *k = n == 1 ? r->in[0] + width : r->in[1];
    const double *v = n == 1 ? r->in[0] + 2 * width : r->in[2];
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t h = 0; h < s.heads; h++)
            for (int64_t i = 0; i < s.queries; i++)
                reference_row(r->out[0] + (b * s.queries + i) * wide + h * s.value_size,
                              r->in[0] + (b * s.queries + i) * row_q + h * s.size,
                              (rows){k + b * s.keys * row_q + h * s.size, row_q},
                              (rows){v + b * s.keys * row_v + h * s.value_size, row_v},
                              s.causal && i + 1 < s.keys ? i + 1 : s.keys, &s);
    return SW_OK;
}

/* ---- descriptor -------------------------------------------------------------------------- */

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0, 1, 2), FROM(SW_IN(0), SW_IN(1), SW_IN(2), SW_OUT(0), SW_OUT(1), SW_DOUT(0)),
         all_kernel, all_operations, .inplace = 1, .scratch_bytes = all_bytes),
    GRAD(MAKES(0), FROM(SW_IN(0), SW_IN(1), SW_IN(2), SW_OUT(0), SW_OUT(1), SW_DOUT(0)),
         dq_kernel, one_operations, .inplace = 1, .scratch_bytes = dq_bytes),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_IN(1), SW_IN(2), SW_OUT(0), SW_OUT(1), SW_DOUT(0)),
         dk_kernel, one_operations, .scratch_bytes = dk_bytes),
    GRAD(MAKES(2), FROM(SW_IN(0), SW_IN(1), SW_OUT(1), SW_DOUT(0)), dv_kernel, dv_operations,
         .scratch_bytes = dv_bytes),
};

static const swi_attention_attrs attrs[] = {{1, 0, 0.0f}, {1, 1, 0.0f}, {3, 1, 0.0f},
                                            {2, 0, 0.3f}, {4, 1, 0.0f}, {2, 1, -0.2f}};
static const sw_op_case cases[] = {
    CASE("one token", IN(F32(1, 1, 1), F32(1, 1, 1), F32(1, 1, 1)), AT(attrs[0])),
    CASE("odd, causal", IN(F32(2, 7, 5), F32(2, 7, 5), F32(2, 7, 5)), AT(attrs[1])),
    CASE("more keys, wider values", IN(F32(2, 5, 6), F32(2, 70, 6), F32(2, 70, 34)),
         AT(attrs[3])),
    CASE("fewer keys, causal", IN(F32(1, 75, 6), F32(1, 33, 6), F32(1, 33, 12)), AT(attrs[2])),
    CASE("more keys, causal", IN(F32(1, 19, 8), F32(1, 90, 8), F32(1, 90, 8)), AT(attrs[5])),
    CASE("side by side, causal", IN(F32(2, 131, 3 * 3 * 16)), AT(attrs[2])),
    CASE("side by side", IN(F32(3, 66, 3 * 2 * 10)), AT(attrs[3])),
    CASE("whole vectors, causal",
         IN(F32(1, 140, 4 * 32), F32(1, 140, 4 * 32), F32(1, 140, 4 * 32)), AT(attrs[4])),
    CASE("large heads, causal", IN(F32(1, 9, 70), F32(1, 11, 70), F32(1, 11, 133)),
         AT(attrs[1])),
    CASE("large heads, whole vectors",
         IN(F32(2, 5, 2 * 72), F32(2, 67, 2 * 72), F32(2, 67, 2 * 64)), AT(attrs[3])),
    CASE("large heads side by side, causal", IN(F32(1, 66, 3 * 68)), AT(attrs[1])),
    CASE("side by side, one token", IN(F32(1, 1, 6)), AT(attrs[3])),
};

OP(attention, 1, 3, 1, ATTRS(swi_attention_attrs), .n_extra = 1, .infer = infer,
   .strided_in = 7, .scratch_bytes = forward_bytes, .forward = forward, .skips = 1,
   .operations = forward_operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_attention(sw_ctx *ctx, sw_value q, sw_value k, sw_value v, int heads, int causal,
                      float scale)
{
    const sw_value in[] = {q, k, v};
    const swi_attention_attrs a = {heads, causal != 0, scale};
    const sw_value whole = swi_whole_of(ctx, in, 3);
    if (whole.id != 0)
        return sw_op_apply(ctx, SW_OP_attention, &whole, 1, &a);
    return sw_op_apply(ctx, SW_OP_attention, in, 3, &a);
}
