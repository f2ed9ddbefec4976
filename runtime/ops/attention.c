/* y = softmax(scale q k^T) v for each head: q (batch, queries, heads * size), k (batch, keys,
 * heads_kv * size), v (batch, keys, heads_kv * value_size), any strides. With one input it has
 * q, k and v of one width side by side in its last axis. Optional operands: first (batch,
 * queries), past, one number; I32 both.
 *
 * Keeps q, k, v, first, past, y and the logarithm of each row's sum; backward makes the tiles
 * of probabilities again. Scratch is tiles for each thread, and dq of one head in backward. */
#include "kernels/attention_launch.h"
#include "kernels/dispatch.h"
#include "runtime/base/structs.h"
#include "runtime/ops/ops.h"
#include <math.h>

static sw_status check_numbers(const swi_attention_attrs *a, int n)
{
    if (n != 1 && n != 3)
        SW_FAIL(SW_INVALID,
                "attention: the inputs must be q, k and v, or one tensor of the "
                "three (got %d inputs)",
                n);
    if (a->heads < 1)
        SW_FAIL(SW_INVALID, "attention: heads must be at least 1 (got %d)", a->heads);
    if (a->heads_kv < 0 || (a->heads_kv > 0 && a->heads % a->heads_kv != 0))
        SW_FAIL(SW_INVALID, "attention: heads_kv must divide the %d heads (got %d)", a->heads,
                a->heads_kv);
    if (!(fabsf(a->scale) <= 3.4e38f))
        SW_FAIL(SW_INVALID, "attention: scale must be finite (got %g)", (double)a->scale);
    if (sw_attention_extras(a) > 0 && !a->causal)
        SW_FAIL(SW_INVALID, "attention: first and past must be with causal");
    if (n == 1 && (sw_attention_extras(a) > 0 || (a->heads_kv != 0 && a->heads_kv != a->heads)))
        SW_FAIL(SW_INVALID, "attention: q, k and v must be three tensors with fewer heads of k "
                            "and v, with first and with past");
    return SW_OK;
}

/* in: first, past. */
static sw_status check_extras(const sw_type *in, const swi_attention_attrs *a,
                              const sw_shape *q, int64_t keys)
{
    if (a->has_first) {
        const sw_shape *s = &in[0].shape;
        if (in[0].dtype != SW_I32 || s->rank != 2 || s->dim[0] != q->dim[0] ||
            s->dim[1] != q->dim[1])
            SW_FAIL(SW_INVALID,
                    "attention: first must be i32 (%lld, %lld), as the queries (got %s %s)",
                    (long long)q->dim[0], (long long)q->dim[1], sw_dtype_name(in[0].dtype),
                    SWI_SHAPE(s));
    }
    if (a->has_past) {
        const sw_type *past = &in[a->has_first != 0];
        if (past->dtype != SW_I32 || sw_type_elements(past) != 1)
            SW_FAIL(SW_INVALID, "attention: past must be one i32 number (got %s %s)",
                    sw_dtype_name(past->dtype), SWI_SHAPE(&past->shape));
        if (q->dim[1] > keys)
            SW_FAIL(SW_INVALID,
                    "attention: with past the keys must be at least as many as the queries "
                    "(got %lld keys and %lld queries)",
                    (long long)keys, (long long)q->dim[1]);
    }
    return SW_OK;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_attention_attrs *a = attrs;
    const int n = n_in - sw_attention_extras(a);
    SW_TRY(check_numbers(a, n));
    const sw_shape *q = &in[0].shape, *k = &in[n > 1 ? 1 : 0].shape, *v = &in[n - 1].shape;
    const int64_t heads_kv = a->heads_kv != 0 ? a->heads_kv : a->heads;
    SW_TRY(swi_want_f32("attention", in, n));
    for (int i = 0; i < n; i++) {
        const int64_t pieces = n == 1 ? 3 : 1, heads = i == 0 ? a->heads : heads_kv;
        if (in[i].shape.rank != 3 || in[i].shape.dim[1] < 1 || in[i].shape.dim[2] < 1 ||
            in[i].shape.dim[2] % (pieces * heads) != 0)
            SW_FAIL(SW_INVALID,
                    "attention: a shape must be (batch, rows, width), with rows and a width of "
                    "%lld equal heads%s (got %s)",
                    (long long)heads, pieces > 1 ? " of each of q, k and v" : "",
                    SWI_SHAPE(&in[i].shape));
    }
    if (q->dim[0] != k->dim[0] || q->dim[0] != v->dim[0] || k->dim[1] != v->dim[1] ||
        q->dim[2] / a->heads != k->dim[2] / (n == 1 ? a->heads : heads_kv))
        SW_FAIL(SW_INVALID,
                "attention: q, k and v must be (batch, queries, width), (batch, keys, width%s) "
                "and (batch, keys, any) (got %s, %s and %s)",
                heads_kv < a->heads ? " of fewer heads" : "", SWI_SHAPE(q), SWI_SHAPE(k),
                SWI_SHAPE(v));
    SW_TRY(check_extras(in + n, a, q, k->dim[1]));
    out[0] = (sw_type){SW_F32, SW_PLAIN, *q};
    out[0].shape.dim[2] = n == 1 ? q->dim[2] / 3 : v->dim[2] / heads_kv * a->heads;
    out[1] = (sw_type){SW_F32, SW_PLAIN, {3, {q->dim[0], a->heads, q->dim[1]}}};
    return SW_OK;
}

/* Pairs of a query and a key that it sees, over batch and heads; at most, where a run has the
 * numbers that say it. */
static uint64_t pairs_of(const sw_attention_shape *s)
{
    uint64_t seen = (uint64_t)s->keys * (uint64_t)s->queries;
    if (s->causal && !s->has_past) {
        const int64_t full = s->queries > s->keys ? s->queries - s->keys : 0;
        const int64_t rising = s->queries - full;
        seen =
            (uint64_t)full * (uint64_t)s->keys + (uint64_t)rising * (uint64_t)(rising + 1) / 2;
    }
    return swi_count_mul(seen, (uint64_t)(s->batch * s->heads));
}

/* The numbers of first and past; the gradient asks too. */
static sw_status read_extras(sw_attention_shape *s)
{
    s->past = s->past_at != NULL ? *s->past_at : 0;
    if (s->past_at != NULL && (s->past < 0 || s->past > s->keys - s->queries))
        SW_FAIL(SW_INVALID,
                "attention: past must be 0 to %lld, the %lld keys less the %lld queries (got "
                "%lld)",
                (long long)(s->keys - s->queries), (long long)s->keys, (long long)s->queries,
                (long long)s->past);
    for (int64_t i = 0; s->first != NULL && i < s->batch * s->queries; i++)
        if (s->first[i] < 0)
            SW_FAIL(SW_INVALID, "attention: first must be 0 or more (got %d at (%lld, %lld))",
                    s->first[i], (long long)(i / s->queries), (long long)(i % s->queries));
    return SW_OK;
}

/* ---- kernels ----------------------------------------------------------------------------- */

static size_t forward_bytes(const sw_kernel_info *info)
{
    const sw_attention_shape s =
        sw_attention_info_shape(info, info->n_in - sw_attention_extras(info->attrs));
    return sw_axes(info->isa)->attention_bytes(&s, info->threads);
}

static sw_status forward(const sw_launch *l)
{
    sw_attention_shape s;
    sw_heads in[3];
    sw_attention_find(l, l->n_in - sw_attention_extras(l->attrs), &s, in);
    SW_TRY(read_extras(&s));
    sw_axes(l->isa)->attention(swi_out(l, 0), l->n_out > 1 ? swi_out(l, 1) : NULL, &in[0],
                               &in[1], &in[2], &s, l->scratch, l->par);
    return SW_OK;
}

/* The two products, the scale, and the exponential of each pair with its maximum and sum. */
static uint64_t forward_operations(const sw_kernel_info *info)
{
    const sw_attention_shape s =
        sw_attention_info_shape(info, info->n_in - sw_attention_extras(info->attrs));
    const uint64_t each = 2 * (uint64_t)(s.size + s.value_size) + SWI_EXP + 4;
    return swi_count_add(swi_count_mul(pairs_of(&s), each),
                         swi_count_per_element(&info->out[1], SWI_LOG + 2));
}

static size_t grad_bytes(const sw_kernel_info *info, unsigned makes)
{
    const int n = sw_attention_inputs(info->n_in, (makes & 3u) != 0, info->attrs);
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
    sw_attention_grads g = sw_attention_grads_of(l, makes);
    SW_TRY(read_extras(&g.s));
    sw_axes(l->isa)->attention_grad(&g, l->scratch, l->par);
    return SW_OK;
}

KERNEL(all_kernel, gradients(l, 7))
KERNEL(dq_kernel, gradients(l, 1))
KERNEL(dk_kernel, gradients(l, 2))
KERNEL(dv_kernel, gradients(l, 4))

/* Scores and exponentials again; for dq and dk the gradient of the probabilities, and a product
 * for each of them and dv. The row sums of dy y. */
static uint64_t gradient_operations(const sw_kernel_info *info, unsigned makes)
{
    const bool y = (makes & 3u) != 0;
    const int n = sw_attention_inputs(info->n_in, y, info->attrs);
    const sw_attention_shape s = sw_attention_info_shape(info, n);
    const unsigned all = n == 1 ? 7u : makes;
    const bool twice = s.heads_kv < s.heads && (all & 1u) != 0 && (all & 6u) != 0;
    const uint64_t again = 1 + twice; /* p, and its gradient */
    const uint64_t sizes = again + (all & 1u) + (all >> 1 & 1u);
    const uint64_t value_sizes = (y ? again : 0) + (all >> 2 & 1u);
    const uint64_t each =
        2 * (sizes * (uint64_t)s.size + value_sizes * (uint64_t)s.value_size) +
        again * (SWI_EXP + 2 + (y ? 3 : 0));
    const uint64_t rows = (uint64_t)(s.batch * s.heads * s.queries);
    return swi_count_add(swi_count_mul(pairs_of(&s), each),
                         y ? swi_count_mul(rows, 2 * (uint64_t)s.value_size) : 0);
}

COUNT(all_operations, gradient_operations(info, 7))
COUNT(dq_operations, gradient_operations(info, 1))
COUNT(dk_operations, gradient_operations(info, 2))
COUNT(dv_operations, gradient_operations(info, 4))

/* ---- reference --------------------------------------------------------------------------- */

typedef struct {
    const double *p;
    int64_t row;
} rows;

/* One query against the keys that it sees. */
static void reference_row(double *y, const double *q, rows k, rows v, int64_t first,
                          int64_t seen, const sw_attention_shape *s)
{
    double most = -HUGE_VAL, total = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = first; j < seen; j++) {
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
    const swi_attention_attrs *a = r->attrs;
    const int n = r->n_in - sw_attention_extras(a);
    const sw_attention_shape s =
        sw_attention_shape_of(&r->in_type[0].shape, &r->in_type[n > 1 ? 1 : 0].shape,
                              &r->in_type[n - 1].shape, false, a);
    const int64_t wide = s.heads * s.value_size, group = s.heads / s.heads_kv;
    const int64_t row_q = s.heads * s.size * (n == 1 ? 3 : 1);
    const int64_t row_k = n == 1 ? row_q : s.heads_kv * s.size;
    const int64_t row_v = n == 1 ? row_q : s.heads_kv * s.value_size;
    const double *k = n == 1 ? r->in[0] + row_q / 3 : r->in[1];
    const double *v = n == 1 ? r->in[0] + row_q / 3 * 2 : r->in[2];
    const int64_t past = a->has_past ? (int64_t)r->in[n + (a->has_first != 0)][0] : 0;
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t h = 0; h < s.heads; h++)
            for (int64_t i = 0; i < s.queries; i++) {
                const int64_t own = past + i, kv = h / group;
                int64_t seen = s.causal && own + 1 < s.keys ? own + 1 : s.keys;
                int64_t first = a->has_first ? (int64_t)r->in[n][b * s.queries + i] : 0;
                first = first < seen ? first : seen - 1;
                reference_row(r->out[0] + (b * s.queries + i) * wide + h * s.value_size,
                              r->in[0] + (b * s.queries + i) * row_q + h * s.size,
                              (rows){k + b * s.keys * row_k + kv * s.size, row_k},
                              (rows){v + b * s.keys * row_v + kv * s.value_size, row_v}, first,
                              seen, &s);
            }
    return SW_OK;
}

/* ---- descriptor -------------------------------------------------------------------------- */

/* first and past where they are there. */
#define READ                                                                                   \
    FROM(SW_IN(0), SW_IN(1), SW_IN(2), SW_IN(3), SW_IN(4), SW_OUT(0), SW_OUT(1), SW_DOUT(0))
static const sw_grad_desc grads[] = {
    GRAD(MAKES(0, 1, 2), READ, all_kernel, all_operations, .inplace = 1,
         .scratch_bytes = all_bytes),
    GRAD(MAKES(0), READ, dq_kernel, dq_operations, .inplace = 1, .scratch_bytes = dq_bytes),
    GRAD(MAKES(1), READ, dk_kernel, dk_operations, .scratch_bytes = dk_bytes),
    GRAD(MAKES(2), FROM(SW_IN(0), SW_IN(1), SW_IN(3), SW_IN(4), SW_OUT(1), SW_DOUT(0)),
         dv_kernel, dv_operations, .scratch_bytes = dv_bytes),
};

static const swi_attention_attrs attrs[] = {
    {1, 0, 0.0f, 0, 0, 0}, {1, 1, 0.0f, 0, 0, 0},  {3, 1, 0.0f, 0, 0, 0}, {2, 0, 0.3f, 0, 0, 0},
    {4, 1, 0.0f, 0, 0, 0}, {2, 1, -0.2f, 0, 0, 0}, {6, 1, 0.0f, 2, 0, 0}, {3, 0, 0.0f, 1, 0, 0},
    {2, 1, 0.0f, 0, 1, 0}, {4, 1, 0.0f, 1, 0, 1},  {2, 1, 0.0f, 0, 0, 1}, {4, 1, 0.0f, 2, 0, 1},
};
#define NUMBERS(most) .fill = {[3] = SW_FILL_LABELS}, .limit = most
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
    CASE("shared heads, causal", IN(F32(2, 70, 6 * 4), F32(2, 70, 2 * 4), F32(2, 70, 2 * 5)),
         AT(attrs[6])),
    CASE("one head for all", IN(F32(1, 9, 3 * 16), F32(1, 66, 16), F32(1, 66, 16)),
         AT(attrs[7])),
    CASE("documents", IN(F32(2, 75, 12), F32(2, 75, 12), F32(2, 75, 12), I32(2, 75)),
         AT(attrs[8]), NUMBERS(70)),
    CASE("large heads, documents",
         IN(F32(1, 67, 2 * 68), F32(1, 67, 2 * 68), F32(1, 67, 2 * 68), I32(1, 67)),
         AT(attrs[8]), NUMBERS(2)),
    CASE("a token of a cache", IN(F32(2, 1, 4 * 8), F32(2, 140, 8), F32(2, 140, 8), I32(1)),
         AT(attrs[9]), NUMBERS(140)),
    CASE("queries after others", IN(F32(2, 19, 8), F32(2, 90, 8), F32(2, 90, 10), I32(1)),
         AT(attrs[10]), NUMBERS(72)),
    CASE("shared heads after others",
         IN(F32(1, 70, 4 * 5), F32(1, 135, 2 * 5), F32(1, 135, 2 * 6), I32(1)), AT(attrs[11]),
         NUMBERS(66)),
};

OP(attention, 1, 5, 1, ATTRS(swi_attention_attrs), .n_extra = 1, .infer = infer,
   .strided_in = 7, .scratch_bytes = forward_bytes, .forward = forward, .skips = 1,
   .operations = forward_operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_attention_with(sw_ctx *ctx, sw_value q, sw_value k, sw_value v,
                           const sw_attention_opts *opts)
{
    sw_attention_opts o;
    if (swi_stick(ctx, swi_struct_read(SWI_STRUCT_sw_attention_opts, &o, opts,
                                       "sw_attention_with")) != SW_OK)
        return (sw_value){0, 0};
    swi_attention_attrs a = {o.heads,    o.causal != 0,   o.scale,
                             o.heads_kv, o.first.id != 0, o.past.id != 0};
    sw_value in[5] = {q, k, v};
    int n = 3;
    if (a.heads_kv == a.heads)
        a.heads_kv = 0; /* one trace for both ways to say it */
    if (a.has_first)
        in[n++] = o.first;
    if (a.has_past)
        in[n++] = o.past;
    const sw_value whole =
        n == 3 && a.heads_kv == 0 ? swi_whole_of(ctx, in, 3) : (sw_value){0, 0};
    return whole.id != 0 ? sw_op_apply(ctx, SW_OP_attention, &whole, 1, &a)
                         : sw_op_apply(ctx, SW_OP_attention, in, n, &a);
}

sw_value sw_attention(sw_ctx *ctx, sw_value q, sw_value k, sw_value v, int heads, int causal,
                      float scale)
{
    const sw_attention_opts o =
        SW_OPTS(sw_attention_opts, .heads = heads, .causal = causal, .scale = scale);
    return sw_attention_with(ctx, q, k, v, &o);
}
