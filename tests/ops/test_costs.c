/* What ops say they cost, against plain counts: loops over shapes, and a table of the formulas.
 */
#include "alloc/mem.h"
#include "runtime/op_check.h"
#include "runtime/ops/ops.h"
#include "tests/ops/ops_outside.h"
#include "tests/support/suite.h"
#include <string.h>

#define OK(call) SW_CHECK((call) == SW_OK, "%s", sw_last_error())

/* ---- plain counts ------------------------------------------------------------------------ */

static const sw_type *type_of(const swi_trace *t, const swi_node *node, uint32_t i)
{
    return &t->values[t->operands[node->first + i]].type;
}

/* Of output i. */
static const sw_type *out_of(const swi_trace *t, const swi_node *node, uint32_t i)
{
    return type_of(t, node, node->n_in + i);
}

static uint64_t size(const sw_type *type)
{
    uint64_t n = 1;
    for (int i = 0; i < type->shape.rank; i++)
        n *= (uint64_t)type->shape.dim[i];
    return n;
}

static bool is(const swi_node *node, const char *name, int grad)
{
    return strcmp(swi_op(node->op)->name, name) == 0 && node->grad == grad;
}

/* The loops of a product with (batch, in) and (out, in): two for each step of the innermost. */
static uint64_t count_product(const sw_shape *x, const sw_shape *w)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < x->dim[0]; i++)
        for (int64_t j = 0; j < w->dim[0]; j++)
            for (int64_t k = 0; k < w->dim[1]; k++)
                n += 2;
    return n;
}

/* The loops of a convolution over y, with taps of w. */
static uint64_t count_taps(const sw_shape *y, const sw_shape *w)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < y->dim[0] * y->dim[1]; i++)
        for (int64_t k = 0; k < y->dim[2] * y->dim[3]; k++)
            for (int64_t c = 0; c < w->dim[1]; c++)
                for (int64_t tap = 0; tap < w->dim[2] * w->dim[3]; tap++)
                    n += 2;
    return n;
}

/* Places of all windows of y. */
static uint64_t count_windows(const swi_trace *t, const swi_node *node, const sw_type *y)
{
    const swi_pool_attrs *a = (const void *)(t->attrs + node->attrs);
    uint64_t n = 0;
    for (uint64_t i = 0; i < size(y); i++)
        for (int ky = 0; ky < a->kernel_h; ky++)
            for (int kx = 0; kx < a->kernel_w; kx++)
                n++;
    return n;
}

static bool count_dense(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    const sw_type *a = type_of(t, node, 0), *b = node->n_in > 1 ? type_of(t, node, 1) : NULL;
    const sw_type *y = out_of(t, node, 0);
    if (is(node, "linear", -1))
        *n = count_product(&a->shape, &b->shape) + (node->n_in > 2 ? size(y) : 0);
    else if (is(node, "linear", 0)) /* w, dy */
        *n = count_product(&b->shape, &a->shape);
    else if (is(node, "linear", 1)) /* x, dy */
        *n = count_product(&b->shape, &y->shape);
    else if (is(node, "conv2d", -1))
        *n = count_taps(&y->shape, &b->shape) + (node->n_in > 2 ? size(y) : 0);
    else if (is(node, "conv2d", 0)) /* w, dy */
        *n = count_taps(&b->shape, &a->shape);
    else if (is(node, "conv2d", 1)) /* x, dy; with the bias */
        *n = count_taps(&b->shape, &y->shape) + size(b);
    else if (is(node, "conv2d", 2))
        *n = count_taps(&b->shape, &y->shape);
    else if (is(node, "max_pool2d", -1))
        *n = count_windows(t, node, y) - size(y);
    else if (is(node, "max_pool2d", 0)) /* index, dy */
        *n = 2 * count_windows(t, node, b);
    else if (is(node, "avg_pool2d", -1))
        *n = count_windows(t, node, y);
    else if (is(node, "avg_pool2d", 0)) /* dy */
        *n = count_windows(t, node, a) + size(a);
    else
        return false;
    return true;
}

/* For each element of an operand (outputs: 100 and on), for each of a second one, and once. exp
 * takes 27, log 35, log(1 + e) 40, a sigmoid 33, Philox 25. */
static const struct {
    const char *name;
    int grad;
    uint32_t of, each, also_of, also_each, once;
} formulas[] = {
    {"copy", -1, 0, 0, 0, 0, 0},
    {"fill", -1, 100, 0, 0, 0, 0},
    {"to_n16", -1, 0, 0, 0, 0, 0},
    {"from_n16", -1, 0, 0, 0, 0, 0},
    {"slice_grad", -1, 0, 0, 0, 0, 0},
    {"concat", -1, 0, 0, 0, 0, 0},
    {"to_f32", -1, 0, 2, 0, 0, 0},
    {"rand", -1, 100, 27, 0, 0, 0},
    {"randn", -1, 100, 25 + 37, 0, 0, 0},
    {"relu", -1, 0, 1, 0, 0, 0},
    {"relu", 0, 0, 2, 0, 0, 0},
    {"relu", 1, 1, 4, 0, 0, 0}, /* bits, dy */
    {"leaky_relu", -1, 0, 2, 0, 0, 0},
    {"leaky_relu", 0, 0, 2, 0, 0, 0},
    {"leaky_relu", 1, 1, 4, 0, 0, 0},
    {"tanh", -1, 0, 47, 0, 0, 0},
    {"tanh", 0, 0, 3, 0, 0, 0},
    {"sigmoid", -1, 0, 33, 0, 0, 0},
    {"sigmoid", 0, 0, 3, 0, 0, 0},
    {"swish", -1, 0, 34, 0, 0, 0},
    {"swish", 0, 0, 38, 0, 0, 0},
    {"add", -1, 100, 1, 0, 0, 0},
    {"mul", -1, 100, 1, 0, 0, 0},
    {"scale", -1, 0, 1, 0, 0, 0},
    {"scale_by", -1, 0, 1, 0, 0, 0},
    {"sum", -1, 0, 1, 100, 1, 0},
    {"max", -1, 0, 1, 0, 0, 0},
    {"max", 0, 1, 1, 0, 0, 0},
    {"dropout", -1, 0, 28, 0, 0, 0},
    {"dropout", 0, 0, 28, 0, 0, 0},
    {"embedding", -1, 0, 0, 0, 0, 0},
    {"embedding", 0, 1, 1, 0, 0, 0},
    {"expand", -1, 100, 1, 0, 0, 0},
    {"softmax", 0, 0, 4, 0, 0, 0},
    {"log_softmax", 0, 0, 30, 0, 0, 0},
    {"swiglu", -1, 100, 35, 0, 0, 0},
    {"swiglu", 0, 100, 39 + 35, 0, 0, 0},
    {"swiglu", 2, 100, 35, 0, 0, 0},
    {"linear_ce", 0, 0, 1, 0, 0, 0},
    {"linear_ce", 1, 0, 1, 0, 0, 0},
    {"linear_ce", 2, 0, 1, 0, 0, 0},
    {"mse", -1, 0, 3, 0, 0, 1},
    {"mse", 0, 0, 2, 0, 0, 0},
    {"mse", 1, 0, 2, 0, 0, 0},
    {"bce", -1, 0, 74, 0, 0, 1},
    {"bce", 0, 0, 35, 0, 0, 0},
    {"bce_with", -1, 0, 74, 0, 0, 1},
    {"bce_with", 0, 0, 35, 0, 0, 0},
    {"bce_with", 1, 0, 1, 0, 0, 0},
    {"gelu", -1, 0, 68, 0, 0, 0},
    {"gelu", 0, 0, 71, 0, 0, 0},
    {"gelu_tanh", -1, 0, 38, 0, 0, 0},
    {"gelu_tanh", 0, 0, 46, 0, 0, 0},
    {"mish", -1, 0, 38, 0, 0, 0},
    {"mish", 0, 0, 45, 0, 0, 0},
    {"softplus", -1, 0, 71, 0, 0, 0},
    {"softplus", 0, 0, 34, 0, 0, 0},
    {"hard_swish", -1, 0, 5, 0, 0, 0},
    {"hard_swish", 0, 0, 5, 0, 0, 0},
    {"elu", -1, 0, 47, 0, 0, 0},
    {"elu", 0, 0, 30, 0, 0, 0},
    {"selu", -1, 0, 48, 0, 0, 0},
    {"selu", 0, 0, 30, 0, 0, 0},
    {"exp", -1, 0, 31, 0, 0, 0},
    {"exp", 0, 0, 1, 0, 0, 0},
    {"log", -1, 0, 37, 0, 0, 0},
    {"log", 0, 0, 1, 0, 0, 0},
    {"sqrt", -1, 0, 1, 0, 0, 0},
    {"sqrt", 0, 0, 2, 0, 0, 0},
    {"rsqrt", -1, 0, 2, 0, 0, 0},
    {"rsqrt", 0, 0, 4, 0, 0, 0},
    {"abs", -1, 0, 6, 0, 0, 0},
    {"abs", 0, 1, 7, 0, 0, 0},
    {"clamp", -1, 0, 6, 0, 0, 0},
    {"clamp", 0, 1, 4, 0, 0, 0},
    {"sub", -1, 100, 1, 0, 0, 0},
    {"div", -1, 100, 1, 0, 0, 0},
    {"where", -1, 100, 1, 0, 0, 0},
    {"huber", -1, 0, 9, 0, 0, 1},
    {"huber", 0, 0, 4, 0, 0, 0},
    {"huber", 1, 0, 4, 0, 0, 0},
    {"l1", -1, 0, 3, 0, 0, 1},
    {"l1", 0, 0, 4, 0, 0, 0},
    {"l1", 1, 0, 4, 0, 0, 0},
    {"kl_div", -1, 0, 41, 0, 0, 1},
    {"kl_div", 0, 0, 1, 0, 0, 0},
    {"kl_div", 1, 0, 41, 0, 0, 0},
    {"channel_scale", -1, 0, 1, 0, 0, 0},
    {"channel_scale", 0, 0, 3, 0, 0, 0},
    {"channel_scale", 1, 0, 1, 0, 0, 0},
    {"channel_scale", 2, 0, 2, 0, 0, 0},
    {"accuracy", -1, 0, 1, 0, 0, 1},
    {"linear", 2, 0, 1, 0, 0, 0},
    {"conv2d", 3, 0, 1, 0, 0, 0},
    {"sumsq", -1, 0, 2, 0, 0, 0},
    {"clip_scale", -1, 0, 0, 0, 0, 4},
    {"accumulate_into", -1, 1, 1, 0, 0, 0},
    {"adam_update", -1, 0, 17, 0, 0, 0},
    {"adagrad_update", -1, 0, 10, 0, 0, 0},
    {"lion_update", -1, 0, 11, 0, 0, 0},
};

static uint64_t size_at(const swi_trace *t, const swi_node *node, uint32_t at)
{
    return size(at < 100 ? type_of(t, node, at) : out_of(t, node, at - 100));
}

static bool count_formula(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        if (!is(node, formulas[i].name, formulas[i].grad))
            continue;
        *n = formulas[i].once + formulas[i].each * size_at(t, node, formulas[i].of);
        if (formulas[i].also_each > 0)
            *n += formulas[i].also_each * size_at(t, node, formulas[i].also_of);
        return true;
    }
    return false;
}

/* Normalisation: by element with or without a weight and a bias, and by statistic. */
static bool count_norm(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    if (strstr(swi_op(node->op)->name, "_norm") == NULL || node->n_in == 0)
        return false;
    const uint64_t x = size(type_of(t, node, 0)), n_in = node->n_in;
    const uint64_t stats = node->n_in > 1 ? size(type_of(t, node, 1)) : 0;
    if (is(node, "layer_norm", -1) || is(node, "group_norm", -1))
        *n = (6 + n_in) * x + 11 * size(out_of(t, node, 1));
    else if (is(node, "layer_norm", 0) || is(node, "group_norm", 0))
        *n = (n_in > 4 ? 11 : 9) * x + 4 * stats;
    else if (is(node, "layer_norm", 1) || is(node, "layer_norm", 2))
        *n = (node->n_out > 1 ? 5 : 4) * x;
    else if (is(node, "group_norm", 1) || is(node, "group_norm", 2))
        *n = (node->n_out > 1 ? 4 : 3) * x +
             2 * size(out_of(t, node, 0)) * (uint64_t)type_of(t, node, 0)->shape.dim[0];
    else if (is(node, "rms_norm", -1))
        *n = (2 + n_in) * x + 4 * size(out_of(t, node, 1));
    else if (is(node, "rms_norm", 0))
        *n = (n_in > 3 ? 7 : 5) * x + 3 * stats;
    else if (is(node, "rms_norm", 1))
        *n = 3 * x;
    else if (is(node, "batch_norm", -1))
        *n = (6 + n_in) * x + 14 * size(out_of(t, node, 2));
    else if (is(node, "batch_norm", 0) || is(node, "batch_norm", 1))
        *n = (n_in > 4 ? 10 : 9) * x + 6 * stats;
    else if (is(node, "batch_norm", 2))
        *n = 3 * x + stats;
    else if (is(node, "batch_norm_running", -1))
        *n = 6 * x;
    else if (is(node, "batch_norm_fixed", -1))
        *n = (n_in - 1) * x + 3 * stats;
    else if (is(node, "batch_norm_fixed", 0))
        *n = x + (n_in > 2 ? 4 : 3) * stats;
    else if (is(node, "batch_norm_fixed", 1) || is(node, "batch_norm_fixed", 2))
        *n = (node->n_out > 1 ? 4 : 3) * x + 4 * stats;
    else /* of the bias: a sum */
        *n = x;
    return true;
}

/* Pairs of a query and a key that it sees. in: q, k, v or the three in one, and of a gradient
 * y, lse, dy. */
static bool count_attention(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    if (strcmp(swi_op(node->op)->name, "attention") != 0)
        return false;
    const swi_attention_attrs *a = (const void *)(t->attrs + node->attrs);
    const uint32_t behind = node->grad < 0 ? 0 : node->grad == 3 ? 2 : 3;
    const uint32_t n_in = node->n_in - behind;
    const sw_shape *q = &type_of(t, node, 0)->shape;
    const sw_shape *v = &type_of(t, node, n_in - 1)->shape;
    const uint64_t size = (uint64_t)(q->dim[2] / a->heads / (n_in == 1 ? 3 : 1));
    const uint64_t wide = (uint64_t)(v->dim[2] / a->heads / (n_in == 1 ? 3 : 1));
    const uint64_t rows = (uint64_t)(q->dim[0] * a->heads * q->dim[1]);
    uint64_t pairs = 0;
    for (int64_t i = 0; i < q->dim[1]; i++)
        for (int64_t k = 0; k < v->dim[1]; k++)
            pairs += a->causal == 0 || k <= i;
    pairs *= (uint64_t)(q->dim[0] * a->heads);
    if (node->grad < 0)
        *n = pairs * (2 * size + 2 * wide + 27 + 4) + 37 * rows;
    else if (node->grad == 0 || n_in == 1)
        *n = pairs * (6 * size + 4 * wide + 27 + 5) + 2 * wide * rows;
    else if (node->grad < 3)
        *n = pairs * (4 * size + 2 * wide + 27 + 5) + 2 * wide * rows;
    else
        *n = pairs * (2 * size + 2 * wide + 27 + 2);
    return true;
}

static bool count_special(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    const sw_type *x = node->n_in > 0 ? type_of(t, node, 0) : NULL;
    if (strcmp(swi_op(node->op)->name, "matmul") == 0) {
        /* Two for each element of y (dy) and each step between. */
        const bool forward = node->grad < 0;
        const sw_shape *s = &x->shape;
        const int axis = node->grad == 0 ? s->rank - 2 : s->rank - 1; /* in: b, dy; a, dy */
        *n = 2 * size(forward ? out_of(t, node, 0) : type_of(t, node, 1)) *
             (uint64_t)s->dim[axis];
    } else if (is(node, "softmax", -1)) {
        *n = 31 * size(x) + size(x) / (uint64_t)x->shape.dim[x->shape.rank - 1];
    } else if (is(node, "log_softmax", -1)) {
        *n = 31 * size(x) + 36 * (size(x) / (uint64_t)x->shape.dim[x->shape.rank - 1]);
    } else if (is(node, "swiglu", 1)) { /* a, b, dy: of a; both, dy: of both */
        *n = node->n_in == 2 ? (39 + 35) * size(type_of(t, node, 1)) : 39 * size(x);
    } else if (is(node, "linear_ce", -1)) {
        const swi_ce_attrs *a =
            &((const swi_linear_ce_attrs *)(const void *)(t->attrs + node->attrs))->ce;
        const uint64_t smooth = a->smoothing > 0.0f, ignores = a->has_ignore != 0;
        const sw_shape *w = &type_of(t, node, 1)->shape;
        const uint64_t rows = size(type_of(t, node, 2)), logits = rows * (uint64_t)w->dim[0];
        const uint64_t bias = node->n_in > 3 ? 2 : 0, slope = smooth || ignores ? 33 : 31;
        *n = 3 * count_product(&x->shape, w) + (30 + smooth + slope + bias) * logits +
             (38 + 3 * smooth + ignores) * rows + 1;
    } else if (is(node, "sgd_update", -1)) {
        const swi_update_attrs *a = (const void *)(t->attrs + node->attrs);
        *n = (a->nesterov ? 9 : a->momentum != 0.0f ? 7 : 5) * size(x);
    } else if (is(node, "tile_update", -1)) { /* dw and plain SGD */
        *n =
            count_product(&x->shape, &out_of(t, node, 0)->shape) + 5 * size(out_of(t, node, 0));
    } else if (is(node, "pow", -1) || is(node, "pow", 0)) {
        const float p =
            ((const swi_number_attrs *)(const void *)(t->attrs + node->attrs))->value;
        const bool slope = node->grad == 0; /* float64: 67 for a power that is not whole */
        *n = (p == 2.0f            ? 1 + slope
              : p == 3.0f          ? 2 + slope
              : slope && p == 0.0f ? 2
                                   : 67 + 2 * slope) *
             size(x);
    } else if (is(node, "softmax_ce", -1)) {
        const swi_ce_attrs *a = (const void *)(t->attrs + node->attrs);
        const uint64_t smooth = a->smoothing > 0.0f, ignores = a->has_ignore != 0;
        *n = (30 + smooth) * size(x) + (38 + 3 * smooth + ignores) * size(type_of(t, node, 1)) +
             1;
    } else if (is(node, "softmax_ce", 0)) {
        const swi_ce_attrs *a = (const void *)(t->attrs + node->attrs);
        *n = (a->smoothing > 0.0f || a->has_ignore != 0 ? 33 : 31) * size(x);
    } else {
        return false;
    }
    return true;
}

/* What optimizers append around updates, and updates whose formula has parts. */
static bool count_optimizer(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    const void *attrs = t->attrs + node->attrs;
    if (is(node, "product_bound", -1)) {
        const uint64_t all = size(type_of(t, node, 0)) + size(type_of(t, node, 1));
        const int64_t worth = ((const swi_bound_attrs *)attrs)->worth;
        *n = (all < (uint64_t)worth ? all : (uint64_t)worth) + 2;
    } else if (is(node, "finite", -1)) {
        *n = size(type_of(t, node, 0)) + 1;
    } else if (is(node, "any_verdict", -1)) {
        *n = node->n_in;
    } else if (is(node, "note_verdict", -1)) {
        *n = 1;
    } else if (is(node, "count_skipped", -1)) {
        const swi_count_attrs *a = attrs;
        *n = 3 + (a->has_flags ? size(type_of(t, node, 2)) : 0);
    } else if (is(node, "adam_tick", -1) || is(node, "steps_tick", -1)) {
        const swi_tick_attrs *a = attrs;
        *n = (is(node, "adam_tick", -1) ? 6u : 4u) +
             (a->has_flags ? size(type_of(t, node, 1)) : 0) + (a->has_verdict != 0);
    } else if (is(node, "rmsprop_update", -1)) {
        const swi_update_attrs *a = attrs;
        *n = (12u + (a->momentum != 0.0f ? 2u : 0u) + (a->centered ? 6u : 0u)) *
             size(type_of(t, node, 0));
    } else if (is(node, "adafactor_update", -1)) {
        *n = (type_of(t, node, 0)->shape.rank > 1 ? 26u : 25u) * size(type_of(t, node, 0));
    } else {
        return false;
    }
    return true;
}

/* Elements in memory, one after the other. */
static uint64_t plain_bytes(const sw_type *type)
{
    uint64_t n = sw_dtype_bytes(type->dtype);
    for (int i = 0; i < type->shape.rank; i++) {
        int64_t dim = type->shape.dim[i];
        while (i == 0 && type->layout == SW_N16 && dim % 16 != 0)
            dim++;
        n *= (uint64_t)dim;
    }
    return n;
}

static bool seen[SW_OPS_INSIDE]
                [9]; /* which kernels some node has had: forward, then gradients */

static void compare_node(const swi_trace *t, const swi_node *node, const char *where)
{
    const char *name = swi_op(node->op)->name;
    uint64_t wanted = 0, bytes = 0;
    if (node->is_view) {
        CU_ASSERT_EQUAL(swi_node_operations(t, node), 0);
        CU_ASSERT_EQUAL(swi_node_bytes(t, node), 0);
        CU_ASSERT_EQUAL(swi_node_cost(t, node), 1);
        return;
    }
    SW_CHECK(count_dense(t, node, &wanted) || count_formula(t, node, &wanted) ||
                 count_special(t, node, &wanted) || count_norm(t, node, &wanted) ||
                 count_attention(t, node, &wanted) || count_optimizer(t, node, &wanted),
             "%s, gradient %d: no plain count", name, node->grad);
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        const bool adds = i >= node->n_in && (node->accumulate >> (i - node->n_in) & 1u) != 0;
        bytes += plain_bytes(type_of(t, node, i)) * (adds ? 2 : 1);
        wanted += adds ? size(type_of(t, node, i)) : 0;
    }
    SW_CHECK(swi_node_operations(t, node) == wanted, "%s, %s, gradient %d: %llu, counted %llu",
             where, name, node->grad, (unsigned long long)swi_node_operations(t, node),
             (unsigned long long)wanted);
    SW_CHECK(swi_node_bytes(t, node) == bytes, "%s, %s, gradient %d: %llu bytes, counted %llu",
             where, name, node->grad, (unsigned long long)swi_node_bytes(t, node),
             (unsigned long long)bytes);
    SW_CHECK(swi_node_cost(t, node) >= 1 && swi_node_cost(t, node) <= SWI_COST_MOST, "%s",
             name);
    seen[node->op][node->grad + 1] = true;
}

static void compare(const swi_trace *t, const char *where)
{
    for (uint32_t i = 0; i < t->n_nodes; i++)
        compare_node(t, &t->nodes[i], where);
}

/* ---- every case of every op -------------------------------------------------------------- */

static void drop_exec(void *arg)
{
    sw_exec_destroy(arg);
}

static sw_exec *exec_of(const sw_exec_opts *opts)
{
    sw_exec *exec = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, opts), SW_OK);
    sw_after(drop_exec, exec);
    return exec;
}

static void compare_use(swi_check *c, uint32_t flags, int alone)
{
    swi_check_call call;
    swi_program *program = NULL;
    bool fresh = false;
    OK(swi_check_call_fill(c, flags, alone, &call));
    OK(swi_check_model_fill(c, c->plain, flags));
    CU_ASSERT_EQUAL_FATAL(swi_exec_program(c->plain, &call.args, &program, &fresh), SW_OK);
    compare(&program->trace, c->spec->name);
}

/* Plans of the case in a step that uses the op once, with each of its gradients alone, and in
 * one that uses it twice, so that gradients add up. Where an op has several kernels for one
 * gradient, what is kept anyway decides: the outputs, or nothing. */
static void compare_case(swi_check *c, int index)
{
    OK(swi_check_begin(c, index));
    compare_use(c, SWI_CHECK_GIVE, -1);
    if (c->model != NULL) {
        compare_use(c, SWI_CHECK_TRAIN, -1);
        compare_use(c, SWI_CHECK_TRAIN | SWI_CHECK_HELD, -1);
        compare_use(c, SWI_CHECK_TRAIN | SWI_CHECK_TWICE, -1);
        for (int i = 0; i < c->n_in; i++)
            if (c->in[i].wanted)
                compare_use(c, SWI_CHECK_TRAIN, i);
    }
    swi_check_end(c);
}

static void every_case_counts_what_loops_count(void)
{
    static swi_check c;
    memset(&c, 0, sizeof c);
    for (c.id = 0; c.id < SW_OPS_INSIDE; c.id++) {
        c.desc = swi_op(c.id);
        c.plain = exec_of(NULL); /* programs of two ops would have one key */
        for (int i = 0; i < c.desc->n_cases; i++)
            compare_case(&c, i);
    }
    /* Optimizers append the rest. */
    for (c.id = 0; c.id < SW_OPS_INSIDE; c.id++)
        for (int g = -1; g < swi_op(c.id)->n_grads && swi_op(c.id)->n_cases > 0; g++)
            SW_CHECK(swi_op(c.id)->view != NULL || seen[c.id][g + 1],
                     "%s, gradient %d: no case has it", swi_op(c.id)->name, g);
}

/* ---- optimizers -------------------------------------------------------------------------- */

typedef struct {
    sw_model *model;
    sw_linear layer;
    sw_optimizer *opt;
    sw_knob norm;
    int64_t batch;
} net;

static void drop_net(void *arg)
{
    net *n = arg;
    sw_model_destroy(n->model);
    n->model = NULL;
}

static void step(sw_ctx *c, void *user)
{
    const net *n = user;
    const sw_value y = sw_apply_linear(c, n->layer, sw_input(c, 0));
    const sw_value z = sw_swish(c, y);
    sw_backward(c, sw_mean(c, sw_mul(c, z, z), 0), &n->opt, 1);
    if (n->opt->release[0] != SWI_RELEASED)
        sw_clip_norm(c, n->opt, n->norm);
    sw_update(c, n->opt);
}

/* A layer of `width` x `width` and its plan with this batch. */
static const swi_program *plan_of(net *n, sw_exec *exec, const sw_optimizer_opts *opts,
                                  int64_t width, int64_t rows)
{
    memset(n, 0, sizeof *n);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&n->model, "net"), SW_OK);
    sw_after(drop_net, n);
    n->layer = sw_linear_new(n->model, "layer", width, width);
    n->norm = sw_knob_new(n->model, "norm", 1.0f);
    OK(sw_optimizer_create(&n->opt, n->model, opts));
    const sw_array in = {SW_F32, SW_SHAPE(rows, width), NULL};
    const sw_run_args args = {.size = sizeof args,
                              .fn = step,
                              .user = n,
                              .models = &n->model,
                              .n_models = 1,
                              .inputs = &in,
                              .n_inputs = 1};
    sw_plan_info info = {.size = sizeof info};
    swi_program *program = NULL;
    bool fresh;
    OK(sw_plan(exec, &args, &info));
    CU_ASSERT_EQUAL_FATAL(swi_exec_program(exec, &args, &program, &fresh), SW_OK);
    return program;
}

static void optimizers_count_too(void)
{
    static const sw_optimizer_opts opts[] = {
        {.size = sizeof *opts, .kind = "sgd"},
        {.size = sizeof *opts, .kind = "sgd", .momentum = 0.9f, .weight_decay = 0.1f},
        {.size = sizeof *opts, .kind = "sgd", .momentum = 0.9f, .nesterov = 1},
        {.size = sizeof *opts, .kind = "adam"},
        {.size = sizeof *opts, .kind = "adamw", .keep_gradients = 1},
        {.size = sizeof *opts, .kind = "rmsprop"},
        {.size = sizeof *opts, .kind = "rmsprop", .momentum = 0.5f, .centered = 1},
        {.size = sizeof *opts, .kind = "adagrad"},
        {.size = sizeof *opts, .kind = "lion"},
        {.size = sizeof *opts, .kind = "adafactor"}};
    static net n[sizeof opts / sizeof *opts];
    sw_exec *exec = exec_of(NULL);
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++)
        compare(&plan_of(&n[i], exec, &opts[i], i == 0 ? 29 : 5, 7)->trace, opts[i].kind);
    static net tiled;
    const sw_optimizer_opts released = {
        .size = sizeof released, .kind = "sgd", .release = 1, .no_check = 1};
    compare(&plan_of(&tiled, exec, &released, 520, 3)->trace, "sgd in tiles");
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++)
        SW_CHECK(!swi_op_is_private(id) || seen[id][0], "%s: no optimizer has it",
                 swi_op(id)->name);
}

/* ---- estimates --------------------------------------------------------------------------- */

static uint64_t cost_of(const swi_program *p, const char *name, int grad)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; i < p->trace.n_nodes; i++)
        if (is(&p->trace.nodes[i], name, grad))
            cost = swi_node_cost(&p->trace, &p->trace.nodes[i]);
    SW_CHECK(cost > 0, "no %s", name);
    return cost;
}

static const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd"};

static void elementwise_ops_cost_far_less_than_products(void)
{
    static net n[3];
    static const int64_t widths[] = {128, 512, 2048};
    sw_exec *exec = exec_of(NULL);
    for (int i = 0; i < 3; i++) {
        const swi_program *p = plan_of(&n[i], exec, &sgd, widths[i], 256);
        const uint64_t product = cost_of(p, "linear", -1);
        SW_CHECK(product > (uint64_t)(i == 0 ? 2 : 8) * cost_of(p, "mul", -1), "width %d",
                 (int)widths[i]);
        SW_CHECK(product > (uint64_t)(i == 0 ? 1 : 3) * cost_of(p, "swish", -1), "width %d",
                 (int)widths[i]);
    }
}

static void a_larger_batch_never_costs_less(void)
{
    static net n[40];
    sw_exec *exec = exec_of(NULL);
    const swi_program *before = NULL;
    for (int i = 0; i < 40; i++) {
        const swi_program *p = plan_of(&n[i], exec, &sgd, 64, (int64_t)1 << i);
        CU_ASSERT_FATAL(before == NULL || before->trace.n_nodes == p->trace.n_nodes);
        for (uint32_t k = 0; k < p->trace.n_nodes && before != NULL; k++) {
            const uint64_t less = swi_node_cost(&before->trace, &before->trace.nodes[k]);
            const uint64_t more = swi_node_cost(&p->trace, &p->trace.nodes[k]);
            SW_CHECK(less <= more && more <= SWI_COST_MOST, "node %u with 2^%d rows", k, i);
        }
        before = p;
    }
    CU_ASSERT_EQUAL(cost_of(before, "linear", -1), SWI_COST_MOST); /* there it stays */
}

static void costs_do_not_depend_on_the_machine(void)
{
    static net n[2];
    const sw_exec_opts opts = {.size = sizeof opts, .isa = "base", .threads = 3};
    const swi_program *a = plan_of(&n[0], exec_of(NULL), &sgd, 40, 33);
    const swi_program *b = plan_of(&n[1], exec_of(&opts), &sgd, 40, 33);
    CU_ASSERT_EQUAL_FATAL(a->trace.n_nodes, b->trace.n_nodes);
    for (uint32_t i = 0; i < a->trace.n_nodes; i++)
        CU_ASSERT_EQUAL(swi_node_cost(&a->trace, &a->trace.nodes[i]),
                        swi_node_cost(&b->trace, &b->trace.nodes[i]));
}

/* ---- ops from outside -------------------------------------------------------------------- */

static uint32_t outside_op;

static void use_outside(sw_ctx *c, void *user)
{
    const net *n = user;
    const sw_value x = sw_use(c, n->layer.weight);
    sw_backward(c, sw_sum(c, sw_op_apply(c, outside_op, &x, 1, NULL), 0), &n->opt, 1);
    sw_update(c, n->opt);
}

/* Operations of forward and gradient of outside_op on a 3 x 3 matrix. */
static void count_outside(uint64_t counts[2])
{
    static net n;
    sw_exec *exec = exec_of(NULL);
    (void)plan_of(&n, exec, &sgd, 3, 1);
    const sw_run_args args = {.size = sizeof args,
                              .fn = use_outside,
                              .user = &n,
                              .variant = outside_op,
                              .models = &n.model,
                              .n_models = 1};
    swi_program *p = NULL;
    bool fresh;
    CU_ASSERT_EQUAL_FATAL(swi_exec_program(exec, &args, &p, &fresh), SW_OK);
    counts[0] = counts[1] = 0;
    for (uint32_t i = 0; i < p->trace.n_nodes; i++)
        if (p->trace.nodes[i].op == outside_op)
            counts[p->trace.nodes[i].grad + 1] =
                swi_node_operations(&p->trace, &p->trace.nodes[i]);
    drop_net(&n);
}

static uint64_t seven_each(const sw_kernel_info *info)
{
    CU_ASSERT_EQUAL(info->threads, 1);
    return 7 * (uint64_t)sw_type_elements(&info->out[0]);
}

static uint64_t endless(const sw_kernel_info *info)
{
    (void)info;
    return UINT64_MAX;
}

static void an_op_from_outside_counts_one_for_each_element(void)
{
    uint64_t n[2];
    sw_op_desc d = outside_square;
    sw_grad_desc g = outside_square.grads[0];
    d.name = "planted.cost default";
    OK(sw_op_register(&d, &outside_op));
    count_outside(n);
    CU_ASSERT_EQUAL(n[0], 9);
    CU_ASSERT_EQUAL(n[1], 9);
    g.operations = endless;
    d.name = "planted.cost own";
    d.operations = seven_each;
    d.grads = &g;
    OK(sw_op_register(&d, &outside_op));
    count_outside(n);
    CU_ASSERT_EQUAL(n[0], 63);
    CU_ASSERT_EQUAL(n[1], UINT64_MAX);
    /* A descriptor from before there was such a member. */
    d.name = "planted.cost older";
    d.size = offsetof(sw_op_desc, operations);
    OK(sw_op_register(&d, &outside_op));
    CU_ASSERT_PTR_NULL(sw_op_at(outside_op)->operations);
    count_outside(n);
    CU_ASSERT_EQUAL(n[0], 9);
}

/* A gradient as programs were compiled with it before it had a count. */
typedef struct {
    int n_makes;
    uint8_t makes[8];
    int n_operands;
    uint16_t operands[16];
    uint32_t inplace;
    size_t (*scratch_bytes)(const sw_kernel_info *info);
    sw_kernel *kernel;
    sw_kernel *(*select)(const sw_kernel_info *info);
    uint64_t reserved[2];
} older_grad;

static void gradients_of_older_programs_have_the_default(void)
{
    if (sizeof(void *) != sizeof(uint64_t))
        SW_SKIP("pointers are smaller than a reserved word");
    CU_ASSERT_EQUAL(sizeof(older_grad), sizeof(sw_grad_desc));
    CU_ASSERT_EQUAL(offsetof(older_grad, reserved), offsetof(sw_grad_desc, operations));
    CU_ASSERT_EQUAL(offsetof(older_grad, reserved[1]), offsetof(sw_grad_desc, applies));
}

static void counts_stay_at_the_most(void)
{
    const sw_type wide = {SW_F32, SW_PLAIN, {2, {1 << 30, 1 << 30}}};
    CU_ASSERT_EQUAL(swi_count_add(UINT64_MAX - 1, 1), UINT64_MAX);
    CU_ASSERT_EQUAL(swi_count_add(UINT64_MAX, 1), UINT64_MAX);
    CU_ASSERT_EQUAL(swi_count_mul(UINT64_MAX, 2), UINT64_MAX);
    CU_ASSERT_EQUAL(swi_count_mul(3, 5), 15);
    CU_ASSERT_EQUAL(swi_count_each(&wide, 15), (uint64_t)15 << 60);
    CU_ASSERT_EQUAL(swi_count_each(&wide, 16), UINT64_MAX);
}

static const sw_test tests[] = {
    {"every case of every op counts what loops count", every_case_counts_what_loops_count,
     false},
    {"what optimizers append counts too", optimizers_count_too, false},
    {"elementwise ops cost far less than products", elementwise_ops_cost_far_less_than_products,
     false},
    {"a larger batch never costs less", a_larger_batch_never_costs_less, false},
    {"costs do not depend on the machine", costs_do_not_depend_on_the_machine, false},
    {"an op from outside counts one for each element",
     an_op_from_outside_counts_one_for_each_element, false},
    {"gradients of programs compiled before have the default",
     gradients_of_older_programs_have_the_default, false},
    {"counts stay at the most", counts_stay_at_the_most, false},
};
SW_SUITE("costs", tests)
