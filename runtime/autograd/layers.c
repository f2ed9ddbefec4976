/* Layers: open structs of parameter handles. */
#include "alloc/base/size.h"
#include "runtime/model/model.h"
#include "runtime/ops/ops.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SWI_LAYER_BEGIN(ctx, type, layer, named)                                               \
    layer_begin(ctx, #type, (layer).reserved, SWI_COUNT((layer).reserved), (layer).named)

/* ---- layers ------------------------------------------------------------------------------ */

/* Uniform in +-1/sqrt(fan_in), for weight and bias (or NULL) alike. */
static void layer_init(char *to, size_t bytes, int64_t fan_in)
{
    const double bound = fan_in > 0 ? 1.0 / sqrt((double)fan_in) : 0.0;
    swi_init_uniform(to, bytes, bound);
}

/* A layer without a name is an error of the declarations, as an entry without one is. */
static bool has_name(sw_model *model, const char *name)
{
    if (sw_handle_check(model, SW_HANDLE_MODEL, "layer") != SW_OK)
        return false;
    if (name == NULL)
        (void)swi_declare_fail(model, SW_INVALID, "model %s: a layer's name must not be NULL",
                               model->name);
    return name != NULL;
}

/* A parameter "name.part" of a layer. */
static sw_param layer_param(sw_model *model, const char *name, const char *part, sw_shape shape,
                            const char *init)
{
    char full[128];
    if (!has_name(model, name))
        return (sw_param){model, 0};
    snprintf(full, sizeof full, "%s.%s", name, part);
    return sw_param_new(model, full, SW_F32, shape, init);
}

/* bias NULL: none; else `out` numbers. */
static void declare_weight_and_bias(sw_model *model, const char *name, sw_shape shape,
                                    int64_t fan_in, int64_t out, sw_param *weight,
                                    sw_param *bias)
{
    char init[72];
    layer_init(init, sizeof init, fan_in);
    *weight = layer_param(model, name, "weight", shape, init);
    if (bias != NULL && has_name(model, name))
        *bias = layer_param(model, name, "bias", SW_SHAPE(out), init);
}

/* Weight and bias of a normalisation. */
static sw_param declare_ones(sw_model *model, const char *name, int64_t size)
{
    return layer_param(model, name, "weight", SW_SHAPE(size), "ones");
}

static sw_param declare_zeros(sw_model *model, const char *name, int64_t size)
{
    return layer_param(model, name, "bias", SW_SHAPE(size), "zeros");
}

sw_linear sw_linear_new(sw_model *model, const char *name, int64_t in, int64_t out)
{
    sw_linear layer = {.reserved = {0}};
    declare_weight_and_bias(model, name, SW_SHAPE(out, in), in, out, &layer.weight,
                            &layer.bias);
    return layer;
}

/* Checks before the layer's declarations: options that can be read, whole groups. */
static bool has_opts(sw_model *model, const char *name, sw_status given)
{
    if (given != SW_OK && sw_handle_lives(model, SW_HANDLE_MODEL))
        (void)swi_declare_fail(model, given, "model %s: '%s': %.150s", model->name,
                               name != NULL ? name : "", sw_last_error());
    return given == SW_OK;
}

static bool has_groups(sw_model *model, const char *name, int64_t in, int64_t out, int groups)
{
    if (!sw_handle_lives(model, SW_HANDLE_MODEL) ||
        (groups >= 1 && in % groups == 0 && out % groups == 0))
        return true;
    (void)swi_declare_fail(model, SW_INVALID,
                           "model %s: '%s': %lld to %lld channels in %d groups", model->name,
                           name != NULL ? name : "", (long long)in, (long long)out, groups);
    return false;
}

/* Weights that an element of a result meets; 0 for a shape that is bad or too large, which is
 * the declaration's to refuse. */
static int64_t taps_of(int64_t channels, int kernel)
{
    int64_t n;
    return sw_size_elements((int64_t[]){channels, kernel, kernel}, 3, &n) ? n : 0;
}

sw_conv2d sw_conv2d_new(sw_model *model, const char *name, int64_t in, int64_t out, int kernel)
{
    return sw_conv2d_new_with(model, name, in, out, kernel, NULL);
}

sw_conv2d sw_conv2d_new_with(sw_model *model, const char *name, int64_t in, int64_t out,
                             int kernel, const sw_conv_opts *opts)
{
    sw_conv_opts o;
    if (!has_opts(model, name, swi_conv_opts(opts, &o, "sw_conv2d_new_with")))
        return (sw_conv2d){.stride = 0};
    sw_conv2d layer = {
        .stride = o.stride, .pad = o.pad, .groups = o.groups, .dilation = o.dilation};
    if (!has_groups(model, name, in, out, o.groups))
        return layer;
    in /= o.groups;
    declare_weight_and_bias(model, name, SW_SHAPE(out, in, kernel, kernel), taps_of(in, kernel),
                            out, &layer.weight, o.no_bias ? NULL : &layer.bias);
    return layer;
}

sw_conv_transpose2d sw_conv_transpose2d_new(sw_model *model, const char *name, int64_t in,
                                            int64_t out, int kernel,
                                            const sw_conv_transpose_opts *opts)
{
    sw_conv_transpose_opts o;
    if (!has_opts(model, name, swi_conv_transpose_opts(opts, &o, "sw_conv_transpose2d_new")))
        return (sw_conv_transpose2d){.stride = 0};
    sw_conv_transpose2d layer =
        SW_INIT(.stride = o.stride, .pad = o.pad, .output_pad = o.output_pad,
                .groups = o.groups, .dilation = o.dilation);
    if (!has_groups(model, name, in, out, o.groups))
        return layer;
    /* The fan in of PyTorch's initialiser is that of the convolution that goes back. */
    declare_weight_and_bias(model, name, SW_SHAPE(in, out / o.groups, kernel, kernel),
                            taps_of(out / o.groups, kernel), out, &layer.weight,
                            o.no_bias ? NULL : &layer.bias);
    return layer;
}

/* Words that a newer header may give a meaning to must be 0. */
static bool is_zero(sw_ctx *ctx, const char *what, const uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (words[i] != 0) {
            SWI_STICK(ctx, SW_INVALID, "%s: reserved words must be zero", what);
            return false;
        }
    return true;
}

/* Before the scopes that are open, until the layer ends. */
static void label_scope(sw_ctx *ctx, const char *label)
{
    const size_t n = strlen(label), outer = strlen(ctx->scope);
    if (n + outer >= sizeof ctx->scope)
        return; /* begin_scope refuses it anyway, or nearly */
    memmove(ctx->scope + n, ctx->scope, outer + 1);
    memcpy(ctx->scope, label, n);
    ctx->label_bytes = n;
}

/* The name of a layer is that of its weight without the last part; called in the scope
 * "block1", "block1.up" is "up". In a run of several models it has its model's name:
 * "teacher/up", "teacher/block1/up". */
static void layer_scope(sw_ctx *ctx, sw_param weight)
{
    char name[96];
    const size_t outer = strlen(ctx->scope);
    snprintf(name, sizeof name, "%s", sw_param_name(weight));
    char *dot = strrchr(name, '.');
    if (dot != NULL)
        *dot = '\0';
    swi_path_of(name);
    const bool inside = outer > 0 && strncmp(name, ctx->scope, outer) == 0 &&
                        name[outer] == '/' && name[outer + 1] != '\0';
    char label[SWI_LABEL_BYTES], labelled[SWI_SHOWN_BYTES];
    swi_model_label(ctx->args, weight.model, label);
    if (inside) {
        label_scope(ctx, label);
        sw_scope_begin(ctx, name + outer + 1);
        return;
    }
    snprintf(labelled, sizeof labelled, "%s%s", label, name[0] != '\0' ? name : "layer");
    sw_scope_begin(ctx, labelled);
}

/* May a layer of this type be applied? Then its scope has begun, which layer_end() ends.
 * `named`: the parameter or buffer of this name. */
static bool layer_begin(sw_ctx *ctx, const char *type, const uint64_t *reserved, size_t n,
                        sw_param named)
{
    if (sw_ctx_status(ctx) != SW_OK || !is_zero(ctx, type, reserved, n))
        return false;
    layer_scope(ctx, named);
    return true;
}

static sw_value layer_end(sw_ctx *ctx, sw_value y)
{
    sw_scope_end(ctx);
    if (ctx->label_bytes > 0 && swi_ctx_works(ctx))
        memmove(ctx->scope, ctx->scope + ctx->label_bytes,
                strlen(ctx->scope + ctx->label_bytes) + 1);
    ctx->label_bytes = 0;
    return y;
}

/* {0}: the layer has none. */
static sw_value layer_use(sw_ctx *ctx, sw_param param)
{
    return param.model != NULL ? sw_use(ctx, param) : (sw_value){0, 0};
}

sw_value sw_apply_linear(sw_ctx *ctx, sw_linear layer, sw_value x)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_linear, layer, weight))
        return (sw_value){0, 0};
    const sw_value weight = sw_use(ctx, layer.weight), bias = layer_use(ctx, layer.bias);
    return layer_end(ctx, sw_linear_op(ctx, x, weight, bias));
}

sw_value sw_apply_conv2d(sw_ctx *ctx, sw_conv2d layer, sw_value x)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_conv2d, layer, weight))
        return (sw_value){0, 0};
    const sw_value weight = sw_use(ctx, layer.weight), bias = layer_use(ctx, layer.bias);
    const sw_conv_opts opts = SW_OPTS(sw_conv_opts, .stride = layer.stride, .pad = layer.pad,
                                      .groups = layer.groups, .dilation = layer.dilation);
    return layer_end(ctx, sw_conv2d_op_with(ctx, x, weight, bias, &opts));
}

sw_value sw_apply_conv_transpose2d(sw_ctx *ctx, sw_conv_transpose2d layer, sw_value x)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_conv_transpose2d, layer, weight))
        return (sw_value){0, 0};
    const sw_value weight = sw_use(ctx, layer.weight), bias = layer_use(ctx, layer.bias);
    const sw_conv_transpose_opts opts = SW_OPTS(
        sw_conv_transpose_opts, .stride = layer.stride, .pad = layer.pad,
        .output_pad = layer.output_pad, .groups = layer.groups, .dilation = layer.dilation);
    return layer_end(ctx, sw_conv_transpose2d_op(ctx, x, weight, bias, &opts));
}

sw_embedding sw_embedding_new(sw_model *model, const char *name, int64_t vocabulary,
                              int64_t width)
{
    const sw_param weight =
        layer_param(model, name, "weight", SW_SHAPE(vocabulary, width), "normal:1");
    return (sw_embedding){.weight = weight};
}

sw_value sw_apply_embedding(sw_ctx *ctx, sw_embedding layer, sw_value ids)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_embedding, layer, weight))
        return (sw_value){0, 0};
    return layer_end(ctx, sw_embedding_op(ctx, ids, sw_use(ctx, layer.weight)));
}

/* ---- layers of bits ---------------------------------------------------------------------- */

/* Logits and bias of a layer; outputs: axis 0. */
static void declare_bits(sw_model *model, const char *name, sw_shape shape, sw_param *logits,
                         sw_param *bias)
{
    char full[128];
    *logits = *bias = (sw_param){model, 0};
    if (!has_name(model, name))
        return;
    snprintf(full, sizeof full, "%s.logits", name);
    *logits = sw_logits_new(model, full, shape, "uniform:-1,1");
    *bias = declare_zeros(model, name, shape.dim[0]);
}

sw_binary_linear sw_binary_linear_new(sw_model *model, const char *name, int64_t in,
                                      int64_t out, int64_t positions)
{
    sw_binary_linear layer = {.reserved = {0}};
    declare_bits(model, name, positions > 1 ? SW_SHAPE(out, in, positions) : SW_SHAPE(out, in),
                 &layer.logits, &layer.bias);
    return layer;
}

sw_binary_conv2d sw_binary_conv2d_new(sw_model *model, const char *name, int64_t in,
                                      int64_t out, int kernel)
{
    sw_binary_conv2d layer = {.stride = 1};
    declare_bits(model, name, SW_SHAPE(out, in, kernel, kernel), &layer.logits, &layer.bias);
    return layer;
}

sw_value sw_apply_binary_linear(sw_ctx *ctx, sw_binary_linear layer, sw_value bits,
                                sw_binary_result what)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_binary_linear, layer, logits))
        return (sw_value){0, 0};
    const sw_value logits = sw_use(ctx, layer.logits), bias = layer_use(ctx, layer.bias);
    return layer_end(ctx, sw_binary_linear_op(ctx, bits, logits, bias, what));
}

sw_value sw_apply_binary_conv2d(sw_ctx *ctx, sw_binary_conv2d layer, sw_value bits,
                                sw_binary_result what)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_binary_conv2d, layer, logits))
        return (sw_value){0, 0};
    const sw_value logits = sw_use(ctx, layer.logits), bias = layer_use(ctx, layer.bias);
    return layer_end(
        ctx, sw_binary_conv2d_op(ctx, bits, logits, bias, layer.stride, layer.pad, what));
}

/* ---- normalisation ----------------------------------------------------------------------- */

sw_layer_norm sw_layer_norm_new(sw_model *model, const char *name, int64_t size)
{
    return (sw_layer_norm){.weight = declare_ones(model, name, size),
                           .bias = declare_zeros(model, name, size),
                           .epsilon = 1e-5f};
}

sw_rms_norm sw_rms_norm_new(sw_model *model, const char *name, int64_t size)
{
    return (sw_rms_norm){.weight = declare_ones(model, name, size), .epsilon = FLT_EPSILON};
}

sw_group_norm sw_group_norm_new(sw_model *model, const char *name, int64_t groups,
                                int64_t channels)
{
    return (sw_group_norm){.weight = declare_ones(model, name, channels),
                           .bias = declare_zeros(model, name, channels),
                           .groups = groups,
                           .epsilon = 1e-5f};
}

sw_batch_norm2d sw_batch_norm2d_new(sw_model *model, const char *name, int64_t channels)
{
    char full[128];
    sw_batch_norm2d layer = {.weight = declare_ones(model, name, channels),
                             .bias = declare_zeros(model, name, channels),
                             .momentum = 0.1f,
                             .epsilon = 1e-5f};
    if (name == NULL)
        return layer;
    snprintf(full, sizeof full, "%s.running_mean", name);
    layer.running_mean = sw_buffer_new(model, full, SW_F32, SW_SHAPE(channels), "zeros");
    snprintf(full, sizeof full, "%s.running_var", name);
    layer.running_var = sw_buffer_new(model, full, SW_F32, SW_SHAPE(channels), "ones");
    return layer;
}

sw_value sw_apply_layer_norm(sw_ctx *ctx, sw_layer_norm layer, sw_value x)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_layer_norm, layer, weight))
        return (sw_value){0, 0};
    const sw_value weight = layer_use(ctx, layer.weight), bias = layer_use(ctx, layer.bias);
    return layer_end(ctx, sw_layer_norm_op(ctx, x, weight, bias, layer.epsilon));
}

sw_value sw_apply_rms_norm(sw_ctx *ctx, sw_rms_norm layer, sw_value x)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_rms_norm, layer, weight))
        return (sw_value){0, 0};
    const sw_value weight = layer_use(ctx, layer.weight);
    return layer_end(ctx, sw_rms_norm_op(ctx, x, weight, layer.epsilon));
}

sw_value sw_apply_group_norm(sw_ctx *ctx, sw_group_norm layer, sw_value x)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_group_norm, layer, weight))
        return (sw_value){0, 0};
    const sw_value weight = layer_use(ctx, layer.weight), bias = layer_use(ctx, layer.bias);
    return layer_end(ctx, sw_group_norm_op(ctx, x, weight, bias, layer.groups, layer.epsilon));
}

sw_value sw_apply_batch_norm2d(sw_ctx *ctx, sw_batch_norm2d layer, sw_value x)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_batch_norm2d, layer, running_mean))
        return (sw_value){0, 0};
    const sw_value weight = layer_use(ctx, layer.weight), bias = layer_use(ctx, layer.bias);
    return layer_end(ctx, sw_batch_norm_op(ctx, x, weight, bias, layer.running_mean,
                                           layer.running_var, layer.momentum, layer.epsilon));
}

/* Recurrent layers, unrolled: the product of the input for all steps at once, then one product
 * of the hidden state and one cell for each step, in a scope of its own. */

/* ---- declarations ------------------------------------------------------------------------ */

typedef struct {
    sw_param weight_ih, weight_hh, bias_ih, bias_hh;
} weights;

static weights declare(sw_model *model, const char *name, int64_t in, int64_t hidden, int gates)
{
    char init[72];
    weights w;
    int64_t rows;
    if (__builtin_mul_overflow(hidden, gates, &rows))
        rows = INT64_MAX; /* the declaration's to refuse */
    layer_init(init, sizeof init, hidden);
    w.weight_ih = layer_param(model, name, "weight_ih", SW_SHAPE(rows, in), init);
    w.weight_hh = layer_param(model, name, "weight_hh", SW_SHAPE(rows, hidden), init);
    w.bias_ih = layer_param(model, name, "bias_ih", SW_SHAPE(rows), init);
    w.bias_hh = layer_param(model, name, "bias_hh", SW_SHAPE(rows), init);
    return w;
}

sw_lstm sw_lstm_new(sw_model *model, const char *name, int64_t in, int64_t hidden)
{
    const weights w = declare(model, name, in, hidden, 4);
    return (sw_lstm)SW_INIT(.weight_ih = w.weight_ih, .weight_hh = w.weight_hh,
                            .bias_ih = w.bias_ih, .bias_hh = w.bias_hh);
}

sw_gru sw_gru_new(sw_model *model, const char *name, int64_t in, int64_t hidden)
{
    const weights w = declare(model, name, in, hidden, 3);
    return (sw_gru)SW_INIT(.weight_ih = w.weight_ih, .weight_hh = w.weight_hh,
                           .bias_ih = w.bias_ih, .bias_hh = w.bias_hh);
}

/* ---- one step ---------------------------------------------------------------------------- */

/* A layer within a run, and its state. */
typedef struct {
    sw_value weight_ih, weight_hh, bias_ih, bias_hh;
    sw_value h, c; /* c: of an LSTM */
    bool has_cell;
} unit;

#define UNIT(ctx, layer, cell)                                                                 \
    {                                                                                          \
        .weight_ih = sw_use(ctx, (layer).weight_ih),                                           \
        .weight_hh = sw_use(ctx, (layer).weight_hh),                                           \
        .bias_ih = layer_use(ctx, (layer).bias_ih),                                            \
        .bias_hh = layer_use(ctx, (layer).bias_hh), .has_cell = cell                           \
    }

static sw_value state_or_zeros(sw_ctx *ctx, const sw_value *given, sw_shape shape)
{
    return given != NULL && given->id != 0 ? *given : sw_full(ctx, shape, 0.0f);
}

static void begin_states(sw_ctx *ctx, unit *u, int64_t batch, const sw_value *h,
                         const sw_value *c)
{
    const sw_shape shape = SW_SHAPE(batch, sw_dim(ctx, u->weight_hh, 1));
    u->h = state_or_zeros(ctx, h, shape);
    if (u->has_cell)
        u->c = state_or_zeros(ctx, c, shape);
}

static sw_value input_sums(sw_ctx *ctx, const unit *u, sw_value x)
{
    return sw_linear_op(ctx, x, u->weight_ih, u->bias_ih);
}

/* sums: what the input adds to the gates, (batch, gates hidden). */
static void advance(sw_ctx *ctx, unit *u, sw_value sums)
{
    const sw_value s = sw_linear_op(ctx, u->h, u->weight_hh, u->bias_hh);
    if (u->has_cell)
        u->h = sw_lstm_cell(ctx, sw_add(ctx, sums, s), u->c, &u->c);
    else
        u->h = sw_gru_cell(ctx, sums, s, u->h);
}

static void give_states(sw_ctx *ctx, const unit *u, sw_value *h, sw_value *c)
{
    if (sw_ctx_status(ctx) != SW_OK)
        return;
    if (h != NULL)
        *h = u->h;
    if (c != NULL)
        *c = u->c;
}

static void one_step(sw_ctx *ctx, unit *u, sw_value x, sw_value *h, sw_value *c)
{
    begin_states(ctx, u, sw_dim(ctx, x, 0), h, c);
    advance(ctx, u, input_sums(ctx, u, x));
    give_states(ctx, u, h, c);
}

/* ---- a sequence -------------------------------------------------------------------------- */

/* Results of steps put together along axis 0: a concat takes 32 values, so 32 of them become
 * one, 32 of these one again, and so on. */
enum { FAN = 32, LEVELS = 5 };
typedef struct {
    sw_value at[LEVELS][FAN];
    int n[LEVELS];
} pile;

static sw_value join(sw_ctx *ctx, const sw_value *x, int n)
{
    return n == 1 ? x[0] : sw_concat(ctx, x, n, 0);
}

static void pile_add(sw_ctx *ctx, pile *p, int level, sw_value x)
{
    if (p->n[level] == FAN) {
        const sw_value joined = join(ctx, p->at[level], FAN);
        p->n[level] = 0;
        if (level + 1 < LEVELS)
            pile_add(ctx, p, level + 1, joined);
    }
    p->at[level][p->n[level]++] = x;
}

/* The values of a level come after all that is above it. */
static sw_value pile_all(sw_ctx *ctx, pile *p)
{
    for (int level = 0; level + 1 < LEVELS; level++)
        if (p->n[level] > 0)
            pile_add(ctx, p, level + 1, join(ctx, p->at[level], p->n[level]));
    return join(ctx, p->at[LEVELS - 1], p->n[LEVELS - 1]);
}

/* Steps that the levels hold; a program has fewer ops than that in any case. */
#define MOST_STEPS (INT64_C(1) << 5 * LEVELS)

static bool is_sequence(sw_ctx *ctx, const char *call, sw_value x)
{
    const int rank = sw_rank(ctx, x);
    if (sw_ctx_status(ctx) != SW_OK)
        return false;
    const int64_t steps = rank == 3 ? sw_dim(ctx, x, 0) : 0;
    if (steps >= 1 && steps <= MOST_STEPS)
        return true;
    if (rank != 3)
        SWI_STICK(ctx, SW_INVALID, "%s: x must be (seq, batch, in) (got rank %d)", call, rank);
    else
        SWI_STICK(ctx, SW_INVALID, "%s: x must have 1 to %lld steps (got %lld)", call,
                  (long long)MOST_STEPS, (long long)steps);
    return false;
}

static sw_value sequence(sw_ctx *ctx, unit *u, sw_value x, sw_value *h, sw_value *c)
{
    const int64_t seq = sw_dim(ctx, x, 0), batch = sw_dim(ctx, x, 1);
    const sw_value rows = sw_reshape(ctx, x, SW_SHAPE(seq * batch, sw_dim(ctx, x, 2)));
    const sw_value sums = input_sums(ctx, u, rows);
    pile p = {.n = {0}};
    begin_states(ctx, u, batch, h, c);
    for (int64_t t = 0; t < seq && sw_ctx_status(ctx) == SW_OK; t++) {
        char name[32];
        snprintf(name, sizeof name, "t%lld", (long long)t);
        sw_scope_begin(ctx, name);
        advance(ctx, u, sw_slice(ctx, sums, 0, t * batch, batch));
        sw_scope_end(ctx);
        pile_add(ctx, &p, 0, u->h);
    }
    if (sw_ctx_status(ctx) != SW_OK)
        return (sw_value){0, 0};
    const sw_value all = pile_all(ctx, &p);
    give_states(ctx, u, h, c);
    return sw_reshape(ctx, all, SW_SHAPE(seq, batch, sw_dim(ctx, u->h, 1)));
}

/* ---- layers ------------------------------------------------------------------------------ */

sw_value sw_apply_lstm(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h, sw_value *c)
{
    if (!is_sequence(ctx, "sw_apply_lstm", x) ||
        !SWI_LAYER_BEGIN(ctx, sw_lstm, layer, weight_ih))
        return (sw_value){0, 0};
    unit u = UNIT(ctx, layer, true);
    return layer_end(ctx, sequence(ctx, &u, x, h, c));
}

sw_value sw_apply_gru(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h)
{
    if (!is_sequence(ctx, "sw_apply_gru", x) || !SWI_LAYER_BEGIN(ctx, sw_gru, layer, weight_ih))
        return (sw_value){0, 0};
    unit u = UNIT(ctx, layer, false);
    return layer_end(ctx, sequence(ctx, &u, x, h, NULL));
}

sw_value sw_apply_lstm_step(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h, sw_value *c)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_lstm, layer, weight_ih))
        return (sw_value){0, 0};
    unit u = UNIT(ctx, layer, true);
    one_step(ctx, &u, x, h, c);
    return layer_end(ctx, u.h);
}

sw_value sw_apply_gru_step(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_gru, layer, weight_ih))
        return (sw_value){0, 0};
    unit u = UNIT(ctx, layer, false);
    one_step(ctx, &u, x, h, NULL);
    return layer_end(ctx, u.h);
}
