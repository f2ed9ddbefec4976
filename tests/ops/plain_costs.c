/* The counts of cost tests: loops over shapes, and a table of the formulas. */
#include "kernels/noise.h"
#include "tests/ops/plain_costs.h"
#include "kernels/optim.h"
#include "runtime/ops/ops.h"
#include <string.h>

const sw_type *plain_type(const swi_trace *t, const swi_node *node, uint32_t i)
{
    return &t->values[t->operands[node->first + i]].type;
}

/* Of output i. */
static const sw_type *out_of(const swi_trace *t, const swi_node *node, uint32_t i)
{
    return plain_type(t, node, node->n_in + i);
}

uint64_t plain_size(const sw_type *type)
{
    uint64_t n = 1;
    for (int i = 0; i < type->shape.rank; i++)
        n *= (uint64_t)type->shape.dim[i];
    return n;
}

bool plain_is(const swi_node *node, const char *name, int grad)
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
    for (uint64_t i = 0; i < plain_size(y); i++)
        for (int ky = 0; ky < a->kernel_h; ky++)
            for (int kx = 0; kx < a->kernel_w; kx++)
                n++;
    return n;
}

/* Images of another size: a row of x's width is mixed for each row of y, then each number of
 * y; backward dy goes into rows of x, of y's width, then into columns. Two products and a sum
 * of each; backward a product and a sum for each of two neighbours. Nearest: nothing is
 * computed, and backward added. */
static uint64_t count_resampled(const sw_type *x, const sw_type *y, bool linear, bool forward)
{
    uint64_t n = 0;
    for (int64_t plane = 0; plane < x->shape.dim[0] * x->shape.dim[1]; plane++) {
        for (int64_t row = 0; forward && row < y->shape.dim[2]; row++)
            n += linear ? 3 * (uint64_t)(x->shape.dim[3] + y->shape.dim[3]) : 0;
        for (int64_t row = 0; !forward && row < x->shape.dim[2] + y->shape.dim[2]; row++)
            n += (linear ? 4 : 1) * (uint64_t)y->shape.dim[3];
    }
    return n;
}

static bool count_dense(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    const sw_type *a = plain_type(t, node, 0),
                  *b = node->n_in > 1 ? plain_type(t, node, 1) : NULL;
    const sw_type *y = out_of(t, node, 0);
    if (plain_is(node, "linear", -1))
        *n = count_product(&a->shape, &b->shape) + (node->n_in > 2 ? plain_size(y) : 0);
    else if (plain_is(node, "linear", 0)) /* w, dy */
        *n = count_product(&b->shape, &a->shape);
    else if (plain_is(node, "linear", 1)) /* x, dy */
        *n = count_product(&b->shape, &y->shape);
    else if (plain_is(node, "conv2d", -1))
        *n = count_taps(&y->shape, &b->shape) + (node->n_in > 2 ? plain_size(y) : 0);
    else if (plain_is(node, "conv2d", 0)) /* w, dy */
        *n = count_taps(&b->shape, &a->shape);
    else if (plain_is(node, "conv2d", 1)) /* x, dy; with the bias */
        *n = count_taps(&b->shape, &y->shape) + plain_size(b);
    else if (plain_is(node, "conv2d", 2))
        *n = count_taps(&b->shape, &y->shape);
    else if (plain_is(node, "conv_transpose2d", -1)) /* the convolution from y to x */
        *n = count_taps(&a->shape, &b->shape) + (node->n_in > 2 ? plain_size(y) : 0);
    else if (plain_is(node, "conv_transpose2d", 0)) /* w, dy */
        *n = count_taps(&y->shape, &a->shape);
    else if (plain_is(node, "conv_transpose2d", 1)) /* x, dy */
        *n = count_taps(&a->shape, &y->shape);
    else if (plain_is(node, "upsample", -1) || plain_is(node, "upsample", 0))
        *n = count_resampled(
            node->grad < 0 ? a : y, node->grad < 0 ? y : a,
            ((const swi_upsample_attrs *)(const void *)(t->attrs + node->attrs))->mode ==
                SW_BILINEAR,
            node->grad < 0);
    else if (plain_is(node, "max_pool2d", -1))
        *n = count_windows(t, node, y) - plain_size(y);
    else if (plain_is(node, "max_pool2d", 0)) /* index, dy */
        *n = 2 * count_windows(t, node, b);
    else if (plain_is(node, "avg_pool2d", -1))
        *n = count_windows(t, node, y);
    else if (plain_is(node, "avg_pool2d", 0)) /* dy */
        *n = count_windows(t, node, a) + plain_size(a);
    else
        return false;
    return true;
}

/* For each element of an operand (outputs: 100 and on), for each of a second one, and once. exp
 * takes 23, log 33, log(1 + e) 13, a sigmoid 28, Philox 25. */
#define EACH(name, grad, of, each)                                                             \
    {                                                                                          \
        name, grad, of, each, 0, 0, 0                                                          \
    }
#define BOTH(name, forward, slope) EACH(name, -1, 0, forward), EACH(name, 0, 0, slope)
static const struct {
    const char *name;
    int grad;
    uint32_t of, each, also_of, also_each, once;
} formulas[] = {
    EACH("copy", -1, 0, 0),
    EACH("fill", -1, 100, 0),
    EACH("to_n16", -1, 0, 0),
    EACH("from_n16", -1, 0, 0),
    EACH("slice_grad", -1, 0, 0),
    EACH("concat", -1, 0, 0),
    EACH("to_f32", -1, 0, 2),
    EACH("rand", -1, 100, 27),
    EACH("randn", -1, 100, 25 + 36),
    BOTH("relu", 1, 2),
    EACH("relu", 1, 1, 4),
    BOTH("leaky_relu", 2, 2),
    EACH("leaky_relu", 1, 1, 4),
    BOTH("tanh", 34, 4),
    BOTH("sigmoid", 28, 3),
    BOTH("swish", 31, 38),
    EACH("add", -1, 100, 1),
    EACH("mul", -1, 100, 1),
    EACH("scale", -1, 0, 1),
    EACH("scale_by", -1, 0, 1),
    {"sum", -1, 0, 1, 100, 1, 0},
    EACH("max", -1, 0, 1),
    EACH("argmax", -1, 0, 1),
    BOTH("cumsum", 1, 1),
    EACH("conv_transpose2d", 2, 0, 1),
    EACH("max", 0, 1, 1),
    BOTH("dropout", 28, 28),
    EACH("embedding", -1, 0, 0),
    EACH("embedding", 0, 1, 1),
    EACH("expand", -1, 100, 1),
    EACH("softmax", 0, 0, 4),
    EACH("log_softmax", 0, 0, 26),
    EACH("swiglu", -1, 100, 32),
    EACH("swiglu", 0, 100, 39 + 32),
    EACH("swiglu", 2, 100, 32),
    EACH("lstm_cell", -1, 1, 3 * 28 + 2 * 34 + 4),
    EACH("lstm_cell", 0, 1, 3 * 28 + 2 * 34 + 3 + 24),
    EACH("gru_cell", -1, 2, 2 * 28 + 34 + 8),
    EACH("gru_cell", 0, 2, 2 * 28 + 34 + 4 + 17),
    EACH("linear_ce", 0, 0, 1),
    EACH("linear_ce", 1, 0, 1),
    EACH("linear_ce", 2, 0, 1),
    {"mse", -1, 0, 3, 0, 0, 1},
    EACH("mse", 0, 0, 2),
    EACH("mse", 1, 0, 2),
    {"bce", -1, 0, 43, 0, 0, 1},
    EACH("bce", 0, 0, 30),
    {"bce_with", -1, 0, 43, 0, 0, 1},
    EACH("bce_with", 0, 0, 30),
    EACH("bce_with", 1, 0, 1),
    BOTH("gelu", 59, 61),
    BOTH("gelu_tanh", 47, 58),
    BOTH("mish", 39, 60),
    BOTH("softplus", 40, 29),
    BOTH("hard_swish", 5, 5),
    BOTH("elu", 26, 28),
    BOTH("selu", 27, 28),
    BOTH("exp", 27, 1),
    BOTH("log", 35, 1),
    BOTH("sqrt", 1, 2),
    BOTH("rsqrt", 2, 4),
    EACH("abs", -1, 0, 6),
    EACH("abs", 0, 1, 7),
    EACH("clamp", -1, 0, 6),
    EACH("clamp", 0, 1, 4),
    EACH("sub", -1, 100, 1),
    EACH("div", -1, 100, 1),
    EACH("where", -1, 100, 1),
    {"huber", -1, 0, 9, 0, 0, 1},
    EACH("huber", 0, 0, 4),
    EACH("huber", 1, 0, 4),
    {"l1", -1, 0, 3, 0, 0, 1},
    EACH("l1", 0, 0, 4),
    EACH("l1", 1, 0, 4),
    {"kl_div", -1, 0, 39, 0, 0, 1},
    EACH("kl_div", 0, 0, 1),
    EACH("kl_div", 1, 0, 39),
    BOTH("channel_scale", 1, 3),
    EACH("channel_scale", 1, 0, 1),
    EACH("channel_scale", 2, 0, 2),
    {"accuracy", -1, 0, 1, 0, 0, 1},
    EACH("linear", 2, 0, 1),
    EACH("conv2d", 3, 0, 1),
    EACH("sumsq", -1, 0, 2),
    {"clip_scale", -1, 0, 0, 0, 0, 4},
    EACH("accumulate_into", -1, 1, 1),
    EACH("partial_sum", -1, 1, 1),
    EACH("shard_mean", -1, 0, 2),
};

static uint64_t size_at(const swi_trace *t, const swi_node *node, uint32_t at)
{
    return plain_size(at < 100 ? plain_type(t, node, at) : out_of(t, node, at - 100));
}

static bool count_formula(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        if (!plain_is(node, formulas[i].name, formulas[i].grad))
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
    const uint64_t x = plain_size(plain_type(t, node, 0)), n_in = node->n_in;
    const uint64_t stats = node->n_in > 1 ? plain_size(plain_type(t, node, 1)) : 0;
    if (plain_is(node, "layer_norm", -1) || plain_is(node, "group_norm", -1))
        *n = (6 + n_in) * x + 11 * plain_size(out_of(t, node, 1));
    else if (plain_is(node, "layer_norm", 0) || plain_is(node, "group_norm", 0))
        *n = (n_in > 4 ? 11 : 9) * x + 4 * stats;
    else if (plain_is(node, "layer_norm", 1) || plain_is(node, "layer_norm", 2))
        *n = (node->n_out > 1 ? 5 : 4) * x;
    else if (plain_is(node, "group_norm", 1) || plain_is(node, "group_norm", 2))
        *n = (node->n_out > 1 ? 4 : 3) * x + 2 * plain_size(out_of(t, node, 0)) *
                                                 (uint64_t)plain_type(t, node, 0)->shape.dim[0];
    else if (plain_is(node, "rms_norm", -1))
        *n = (2 + n_in) * x + 4 * plain_size(out_of(t, node, 1));
    else if (plain_is(node, "rms_norm", 0))
        *n = (n_in > 3 ? 7 : 5) * x + 3 * stats;
    else if (plain_is(node, "rms_norm", 1))
        *n = 3 * x;
    else if (plain_is(node, "batch_norm", -1))
        *n = (6 + n_in) * x + 14 * plain_size(out_of(t, node, 2));
    else if (plain_is(node, "batch_norm", 0) || plain_is(node, "batch_norm", 1))
        *n = (n_in > 4 ? 10 : 9) * x + 6 * stats;
    else if (plain_is(node, "batch_norm", 2))
        *n = 3 * x + stats;
    else if (plain_is(node, "batch_norm_running", -1))
        *n = 6 * x;
    else if (plain_is(node, "batch_norm_fixed", -1))
        *n = (n_in - 1) * x + 3 * stats;
    else if (plain_is(node, "batch_norm_fixed", 0))
        *n = x + (n_in > 2 ? 4 : 3) * stats;
    else if (plain_is(node, "batch_norm_fixed", 1) || plain_is(node, "batch_norm_fixed", 2))
        *n = (node->n_out > 1 ? 4 : 3) * x + 4 * stats;
    else /* of the bias: a sum */
        *n = x;
    return true;
}

/* Pairs of a query and a key that it may see. in: q, k, v or the three in one, first, past, and
 * of a gradient y, lse, dy. */
static bool count_attention(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    if (strcmp(swi_op(node->op)->name, "attention") != 0)
        return false;
    const swi_attention_attrs *a = (const void *)(t->attrs + node->attrs);
    const uint32_t extras = (uint32_t)(a->has_first + a->has_past);
    const uint32_t n_in = node->n_in - extras - (node->grad < 0 ? 0 : node->grad == 3 ? 2 : 3);
    const int32_t heads_kv = a->heads_kv != 0 ? a->heads_kv : a->heads;
    const sw_shape *q = &plain_type(t, node, 0)->shape;
    /* The gradient of v alone reads no v: dy is as wide, with the heads of q. */
    const sw_shape *v = &plain_type(t, node, node->grad == 3 ? 3 + extras : n_in - 1)->shape;
    const uint64_t size = (uint64_t)(q->dim[2] / a->heads / (n_in == 1 ? 3 : 1));
    const uint64_t wide =
        (uint64_t)(v->dim[2] / (node->grad == 3 ? a->heads : heads_kv) / (n_in == 1 ? 3 : 1));
    const uint64_t rows = (uint64_t)(q->dim[0] * a->heads * q->dim[1]);
    uint64_t pairs = 0;
    for (int64_t i = 0; i < q->dim[1]; i++)
        for (int64_t k = 0; k < plain_type(t, node, n_in > 1 ? 1 : 0)->shape.dim[1]; k++)
            pairs += a->causal == 0 || a->has_past != 0 || k <= i;
    pairs *= (uint64_t)(q->dim[0] * a->heads);
    if (node->grad < 0)
        *n = pairs * (2 * size + 2 * wide + 23 + 4) + 35 * rows;
    else if ((node->grad == 0 || n_in == 1) && heads_kv == a->heads)
        *n = pairs * (6 * size + 4 * wide + 23 + 5) + 2 * wide * rows;
    else if (node->grad == 0) /* dk and dv, then dq: probabilities and their gradient twice */
        *n = pairs * (8 * size + 6 * wide + 2 * (23 + 5)) + 2 * wide * rows;
    else if (node->grad < 3)
        *n = pairs * (4 * size + 2 * wide + 23 + 5) + 2 * wide * rows;
    else
        *n = pairs * (2 * size + 2 * wide + 23 + 2);
    return true;
}

/* A row of positions: each is a float32 number, has a product, sin and cos with each frequency,
 * and each number of x is one of two products and a sum. */
static bool count_rotary(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    if (strcmp(swi_op(node->op)->name, "rotary") != 0)
        return false;
    const swi_rotary_attrs *a = (const void *)(t->attrs + node->attrs);
    const sw_shape *x = &plain_type(t, node, 0)->shape;
    *n = 0;
    for (int64_t row = 0; row < x->dim[0] * x->dim[1]; row++) {
        *n += 1;
        for (int64_t i = 0; i < x->dim[2] / a->heads / 2; i++)
            *n += 1 + 34;
        for (int64_t i = 0; i < x->dim[2]; i++)
            *n += 3;
    }
    return true;
}

static bool count_special(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    const sw_type *x = node->n_in > 0 ? plain_type(t, node, 0) : NULL;
    if (strcmp(swi_op(node->op)->name, "matmul") == 0) {
        /* Two for each element of y (dy) and each step between. */
        const bool forward = node->grad < 0;
        const sw_shape *s = &x->shape;
        const int axis = node->grad == 0 ? s->rank - 2 : s->rank - 1; /* in: b, dy; a, dy */
        *n = 2 * plain_size(forward ? out_of(t, node, 0) : plain_type(t, node, 1)) *
             (uint64_t)s->dim[axis];
    } else if (plain_is(node, "softmax", -1)) {
        *n = 27 * plain_size(x) + plain_size(x) / (uint64_t)x->shape.dim[x->shape.rank - 1];
    } else if (strncmp(swi_op(node->op)->name, "random_", 7) == 0) { /* a counter each image */
        *n = (uint64_t)x->shape.dim[0] *
             (100 + (plain_is(node, "random_flip", node->grad) ? 2 : 6));
    } else if (plain_is(node, "log_softmax", -1)) {
        *n = 27 * plain_size(x) +
             34 * (plain_size(x) / (uint64_t)x->shape.dim[x->shape.rank - 1]);
    } else if (plain_is(node, "swiglu", 1)) { /* a, b, dy: of a; both, dy: of both */
        *n = node->n_in == 2 ? (39 + 32) * plain_size(plain_type(t, node, 1))
                             : 39 * plain_size(x);
    } else if (plain_is(node, "linear_ce", -1)) {
        const swi_ce_attrs *a =
            &((const swi_linear_ce_attrs *)(const void *)(t->attrs + node->attrs))->ce;
        const uint64_t smooth = a->smoothing > 0.0f, ignores = a->has_ignore != 0;
        const sw_shape *w = &plain_type(t, node, 1)->shape;
        const uint64_t rows = plain_size(plain_type(t, node, 2)),
                       logits = rows * (uint64_t)w->dim[0];
        const uint64_t bias = node->n_in > 3 ? 2 : 0, slope = smooth || ignores ? 29 : 27;
        *n = 3 * count_product(&x->shape, w) + (26 + smooth + slope + bias) * logits +
             (36 + 3 * smooth + ignores) * rows + 1;
    } else if (plain_is(node, "tile_update", -1)) { /* dw and plain SGD */
        const swi_tile_attrs *a = (const void *)(t->attrs + node->attrs);
        if (a->make_op != SW_OP_linear)
            return false;
        const uint64_t factors =
            plain_size(plain_type(t, node, 0)) + plain_size(plain_type(t, node, 1));
        *n = count_product(&x->shape, &out_of(t, node, 0)->shape) +
             5 * plain_size(out_of(t, node, 0)) +
             (!a->has_check         ? 0
              : a->check.is_bounded ? 2
                                    : factors + 2);
    } else if (plain_is(node, "pow", -1) || plain_is(node, "pow", 0)) {
        const float p =
            ((const swi_number_attrs *)(const void *)(t->attrs + node->attrs))->value;
        const bool slope = node->grad == 0; /* float64: 67 for a power that is not whole */
        *n = (p == 2.0f            ? 1 + slope
              : p == 3.0f          ? 2 + slope
              : slope && p == 0.0f ? 2
                                   : 67 + 2 * slope) *
             plain_size(x);
    } else if (plain_is(node, "softmax_ce", -1)) {
        const swi_ce_attrs *a = (const void *)(t->attrs + node->attrs);
        const uint64_t smooth = a->smoothing > 0.0f, ignores = a->has_ignore != 0;
        *n = (26 + smooth) * plain_size(x) +
             (36 + 3 * smooth + ignores) * plain_size(plain_type(t, node, 1)) + 1;
    } else if (plain_is(node, "softmax_ce", 0)) {
        const swi_ce_attrs *a = (const void *)(t->attrs + node->attrs);
        *n = (a->smoothing > 0.0f || a->has_ignore != 0 ? 29 : 27) * plain_size(x);
    } else {
        return false;
    }
    return true;
}

/* Operations of one element of an update; of a rule that is not here, what its line says. */
static uint64_t count_rule(int32_t rule)
{
    static const uint64_t known[SW_OPTIM_COUNT] = {
        [SW_OPTIM_sgd] = 5,
        [SW_OPTIM_momentum] = 7,
        [SW_OPTIM_nesterov] = 9,
        [SW_OPTIM_adam] = 17,
        [SW_OPTIM_rmsprop] = 12,
        [SW_OPTIM_rmsprop_momentum] = 12 + 2,
        [SW_OPTIM_rmsprop_centered] = 12 + 6,
        [SW_OPTIM_rmsprop_centered_momentum] = 12 + 2 + 6,
        [SW_OPTIM_adagrad] = 10,
        [SW_OPTIM_lion] = 11,
    };
    static const uint64_t said[] = {
#define SW_RULE(rule, kind, states, operations) operations,
#define SW_OPTIMIZER(kind, states, operations) operations,
#include "kernels/optimizers.def"
    };
    return known[rule] != 0 ? known[rule] : said[rule];
}

/* The estimate of an evolution strategy: numbers that are drawn, products and sums of them, and
 * what is done to each element of the sum. A normal number takes 61. */
static bool count_estimate(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    if (plain_is(node, "snes_update",
                 -1)) { /* e, u (e^2 - 1) and a sum; exp and two products */
        *n = plain_size(out_of(t, node, 0)) *
             (plain_size(plain_type(t, node, 1)) * (61 + 4) + 23 + 2);
        return true;
    }
    if (!plain_is(node, "es_gradient", -1))
        return false;
    const swi_es_gradient_attrs *a = (const void *)(t->attrs + node->attrs);
    const uint64_t directions = plain_size(plain_type(t, node, 0));
    const uint64_t rows = (uint64_t)a->spec.rows, cols = (uint64_t)a->spec.cols;
    const uint64_t rank = (uint64_t)a->spec.rank;
    uint64_t one = (61 + 2) * rows * cols;
    if (a->spec.kind == SW_NOISE_LOW_RANK) /* A and B; A by weight and scale */
        one = rank * (63 * rows + 61 * cols + 2 * rows * cols);
    else if (a->spec.kind == SW_NOISE_BITS_OF_LOGITS) /* half a number, its score, a sum */
        one = (25 / 2 + 3) * rows * cols;
    else if (a->spec.kind == SW_NOISE_DROPOUT) /* a uniform number of each row */
        one = 27 * rows + 2 * rows * cols;
    const uint64_t each = (a->has_sigmas != 0) + (a->l1 != 0.0f || a->l2 != 0.0f ? 6u : 0u);
    *n = directions * one + each * rows * cols;
    return true;
}

/* theta += a z: 2; theta -= 2 a z and theta += a z: 4; theta -= lr c z: 3, with wd theta 5. z:
 * 61 for a normal number, or 2 for each rank and 1, with the numbers of both factors. */
static uint64_t count_move(const swi_move_attrs *a, uint64_t n)
{
    const uint64_t rank = (uint64_t)a->noise.rank, normal = 25 + 36;
    uint64_t each = 2;
    each += a->move == SWI_MOVE_ALL ? 4 : 0;
    each += a->move == SWI_MOVE_BY_NOISE ? 0 : a->decays != 0 ? 5 : 3;
    if (rank == 0)
        return n * (normal + each);
    return n * (2 * rank + 1 + each) +
           (uint64_t)(a->noise.rows + a->noise.cols) * rank * normal;
}

/* swish in strips, with plain SGD; z (rows, cols). */
static bool count_strips(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    if (!plain_is(node, "in_strips", -1))
        return false;
    const swi_strips_attrs *a = (const void *)(t->attrs + node->attrs);
    const sw_type *z = plain_type(t, node, 0), *second = plain_type(t, node, 1);
    const uint64_t all = plain_size(z), factors = all + plain_size(second);
    const sw_type *weight = a->kind == SWI_STRIPS_UPDATE ? out_of(t, node, 1) : second;
    *n = 31 * all;
    if (a->kind == SWI_STRIPS_PRODUCT)
        *n += count_product(&z->shape, &weight->shape) + plain_size(out_of(t, node, 0));
    else if (a->kind == SWI_STRIPS_LOSS)
        *n += 3 * all + 1;
    else
        *n += 38 * all;
    if (a->kind == SWI_STRIPS_LOSS_DX)
        *n += 2 * all;
    if (a->kind != SWI_STRIPS_UPDATE)
        return true;
    const bool reads = (int64_t)factors <= a->bound.worth;
    *n += 2 * count_product(&z->shape, &weight->shape) + 5 * plain_size(weight) +
          (!a->tile.has_check         ? 0
           : a->tile.check.is_bounded ? 2
                                      : factors + 2) +
          (!a->has_bound ? 0 : (reads ? 31 * all + factors : 0) + 2);
    return true;
}

/* Ops that optimizers append around updates, and updates. */
static bool count_optimizer(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    const void *attrs = t->attrs + node->attrs;
    if (plain_is(node, "product_bound", -1)) {
        const uint64_t all =
            plain_size(plain_type(t, node, 0)) + plain_size(plain_type(t, node, 1));
        const int64_t worth = ((const swi_bound_attrs *)attrs)->worth;
        *n = (all <= (uint64_t)worth ? all : 0) + 2;
    } else if (plain_is(node, "finite", -1)) {
        *n = ((const swi_finite_attrs *)attrs)->is_bounded
                 ? 2
                 : plain_size(plain_type(t, node, 0)) + 1;
    } else if (plain_is(node, "any_verdict", -1)) {
        *n = node->n_in;
    } else if (plain_is(node, "note_verdict", -1) || plain_is(node, "agreed_verdict", -1)) {
        *n = 1;
    } else if (plain_is(node, "count_skipped", -1)) {
        const swi_count_attrs *a = attrs;
        *n = 3 + (a->has_flags ? plain_size(plain_type(t, node, 2)) : 0);
    } else if (plain_is(node, "adam_tick", -1) || plain_is(node, "steps_tick", -1)) {
        const swi_tick_attrs *a = attrs;
        *n = (plain_is(node, "adam_tick", -1) ? 6u : 4u) +
             (a->has_flags ? plain_size(plain_type(t, node, 1)) : 0) +
             (a->has_finite_check != 0);
    } else if (swi_op_traits_of(node->op)->duty == SWI_DUTY_UPDATE) {
        *n = count_rule(((const swi_update_attrs *)attrs)->rule);
        if (node->n_out > 1 && out_of(t, node, 1)->dtype == SW_U8) /* in 8 bits, with scales */
            *n += 4u * (node->n_out - 1) / 2; /* product, size, comparison, quotient */
        *n *= plain_size(plain_type(t, node, 0));
    } else if (plain_is(node, "noise_move", -1)) {
        *n = count_move(attrs, plain_size(plain_type(t, node, 0)));
    } else if (plain_is(node, "adafactor_update", -1)) {
        *n = (plain_type(t, node, 0)->shape.rank > 1 ? 26u : 25u) *
             plain_size(plain_type(t, node, 0));
    } else {
        return false;
    }
    return true;
}

bool plain_count(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    return count_dense(t, node, n) || count_formula(t, node, n) || count_special(t, node, n) ||
           count_norm(t, node, n) || count_attention(t, node, n) || count_rotary(t, node, n) ||
           count_estimate(t, node, n) || count_strips(t, node, n) ||
           count_optimizer(t, node, n);
}
