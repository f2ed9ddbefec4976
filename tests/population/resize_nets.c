/* See resize_nets.h. */
#include "tests/population/resize_nets.h"

static void declare_chain(resize_net *n)
{
    int64_t in = RN_IN;
    char name[16];
    for (int i = 0; i <= n->spec.n; i++) {
        const int64_t out = i < n->spec.n ? n->spec.w[i] : RN_OUT;
        snprintf(name, sizeof name, "f%d", i);
        n->f[i] = sw_linear_new(n->model, name, in, out);
        in = out;
    }
}

static void declare_conv(resize_net *n)
{
    const int64_t *w = n->spec.w;
    const sw_conv_opts depthwise = SW_OPTS(sw_conv_opts, .pad = 1, .groups = (int)w[1]);
    n->c[0] = sw_conv2d_new(n->model, "c0", 1, w[0], 3);
    n->c[0].pad = 1;
    n->bn = sw_batch_norm2d_new(n->model, "bn", w[0]);
    n->c[1] = sw_conv2d_new(n->model, "c1", w[0], w[1], 3);
    n->c[1].pad = 1;
    n->c[2] = sw_conv2d_new_with(n->model, "c2", w[1], w[1], 3, &depthwise);
    n->f[0] = sw_linear_new(n->model, "f0", w[1] * 9, w[2]);
    n->f[1] = sw_linear_new(n->model, "f1", w[2], RN_OUT);
}

static void declare_residual(resize_net *n)
{
    const int64_t *w = n->spec.w;
    n->f[0] = sw_linear_new(n->model, "stem", RN_IN, w[0]);
    n->f[1] = sw_linear_new(n->model, "a.up", w[0], w[1]);
    n->f[2] = sw_linear_new(n->model, "a.down", w[1], w[0]);
    n->f[3] = sw_linear_new(n->model, "b.up", w[0], w[2]);
    n->f[4] = sw_linear_new(n->model, "b.down", w[2], w[0]);
    n->f[5] = sw_linear_new(n->model, "head", w[0], RN_OUT);
}

static void declare_decoded(resize_net *n)
{
    const int64_t *w = n->spec.w;
    const sw_conv_opts half = SW_OPTS(sw_conv_opts, .stride = 2);
    const sw_conv_transpose_opts twice = SW_OPTS(sw_conv_transpose_opts, .stride = 2);
    const sw_conv_transpose_opts each =
        SW_OPTS(sw_conv_transpose_opts, .groups = (int)w[1], .pad = 1);
    float gain[128];
    CU_ASSERT_FATAL(w[1] <= (int64_t)(sizeof gain / sizeof *gain));
    for (int64_t i = 0; i < w[1]; i++)
        gain[i] = 0.5f + 0.1f * (float)i;
    const sw_array values = {SW_F32, SW_SHAPE(w[1], 1, 1), gain};
    n->c[0] = sw_conv2d_new_with(n->model, "c0", 1, w[0], 3, &half);
    n->up[0] = sw_conv_transpose2d_new(n->model, "up0", w[0], w[1], 3, &twice);
    n->up[1] = sw_conv_transpose2d_new(n->model, "up1", w[1], w[1], 3, &each);
    n->gain = sw_constant_new(n->model, "gain", &values);
    n->f[0] = sw_linear_new(n->model, "head", 2 * w[1], RN_OUT);
}

static void declare_others(resize_net *n)
{
    const int64_t *w = n->spec.w;
    if (n->spec.kind == RN_RECURRENT) {
        n->lstm = sw_lstm_new(n->model, "lstm", 7, w[0]);
        n->gru = sw_gru_new(n->model, "gru", w[0], w[1]);
        n->f[0] = sw_linear_new(n->model, "head", w[1], RN_OUT);
    } else if (n->spec.kind == RN_GATED) {
        n->f[0] = sw_linear_new(n->model, "both", RN_IN, 2 * w[0]);
        n->f[1] = sw_linear_new(n->model, "down", w[0], RN_OUT);
    } else if (n->spec.kind == RN_JOINED) {
        n->f[0] = sw_linear_new(n->model, "left", RN_IN, w[0]);
        n->f[1] = sw_linear_new(n->model, "right", RN_IN, w[1]);
        n->f[2] = sw_linear_new(n->model, "head", w[0] + w[1], RN_OUT);
    } else if (n->spec.kind == RN_ATTENTION) {
        n->f[0] = sw_linear_new(n->model, "qkv", 7, 3 * w[0]);
        n->product =
            sw_param_new(n->model, "product", SW_F32, SW_SHAPE(w[0], w[1]), "xavier_uniform");
        n->f[1] = sw_linear_new(n->model, "head", 7 * w[1], RN_OUT);
    } else if (n->spec.kind == RN_SQUEEZED) {
        const sw_conv_opts pairs = SW_OPTS(sw_conv_opts, .groups = (int)w[0]);
        n->c[0] = sw_conv2d_new(n->model, "c0", 1, w[0], 3);
        n->c[1] = sw_conv2d_new_with(n->model, "c1", w[0], 2 * w[0], 1, &pairs);
        n->f[0] = sw_linear_new(n->model, "squeeze", 2 * w[0], w[1]);
        n->f[1] = sw_linear_new(n->model, "excite", w[1], 2 * w[0]);
        n->f[2] = sw_linear_new(n->model, "head", 2 * w[0], RN_OUT);
    } else if (n->spec.kind == RN_TOKENS) {
        n->table = sw_embedding_new(n->model, "table", RN_OUT, w[0]);
        n->f[0] = sw_linear_new(n->model, "f0", RN_IN, w[0]);
        n->f[1] = sw_linear_new(n->model, "f1", w[0], w[1]);
        n->f[2] = sw_linear_new(n->model, "f2", w[1], w[0]);
        n->seen = sw_state_new(n->model, "seen", SW_F32, SW_SHAPE(w[0]));
    } else if (n->spec.kind == RN_SKIPPED) {
        n->f[0] = sw_linear_new(n->model, "f0", RN_IN, w[0]);
        n->f[1] = sw_linear_new(n->model, "side", w[0], 3);
        n->f[2] = sw_linear_new(n->model, "head", w[0] + RN_IN + 3, RN_OUT);
    } else {
        n->f[0] = sw_linear_new(n->model, "f0", RN_IN, w[0]);
        n->norm = sw_layer_norm_new(n->model, "norm", w[0]);
        n->f[1] = sw_linear_new(n->model, "f1", w[0], RN_OUT);
    }
}

resize_net *resize_net_new(const resize_spec *spec)
{
    resize_net *n = calloc(1, sizeof *n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(n);
    n->spec = *spec;
    OK(sw_model_create(&n->model, "net"));
    if (spec->kind == RN_CHAIN)
        declare_chain(n);
    else if (spec->kind == RN_CONV)
        declare_conv(n);
    else if (spec->kind == RN_RESIDUAL)
        declare_residual(n);
    else if (spec->kind == RN_DECODED)
        declare_decoded(n);
    else
        declare_others(n);
    n->factor = sw_knob_new(n->model, "factor", 1.0f);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = spec->optimizer != NULL ? spec->optimizer : "adam",
                .lr = 0.01f, .keep_gradients = 1, .state_bits = spec->state_bits);
    OK(sw_optimizer_create(&n->opt, n->model, &opts));
    return n;
}

void resize_net_end(void *ends)
{
    sw_model_destroy(((resize_net *)ends)->model);
    free(ends);
}

resize_net *resize_net_for_test(const resize_spec *spec)
{
    resize_net *n = resize_net_new(spec);
    sw_after(resize_net_end, n);
    return n;
}

/* ---- the step ---------------------------------------------------------------------------- */

static sw_value chain(sw_ctx *ctx, resize_net *n, sw_value x)
{
    for (int i = 0; i < n->spec.n; i++) {
        x = sw_apply_linear(ctx, n->f[i], x);
        x = i % 2 == 0 ? sw_relu(ctx, x) : sw_tanh(ctx, x);
        if (i == 0)
            x = sw_dropout(ctx, x, 0.1f);
    }
    if (n->show_hidden)
        sw_output(ctx, "hidden", x);
    return sw_apply_linear(ctx, n->f[n->spec.n], x);
}

static sw_value conv(sw_ctx *ctx, resize_net *n, sw_value x)
{
    x = sw_reshape(ctx, x, SW_SHAPE(-1, 1, 7, 7));
    x = sw_apply_batch_norm2d(ctx, n->bn, sw_apply_conv2d(ctx, n->c[0], x));
    x = sw_max_pool2d(ctx, sw_relu(ctx, x), 3, 2, 0);
    x = sw_relu(ctx, sw_apply_conv2d(ctx, n->c[1], x));
    x = sw_apply_conv2d(ctx, n->c[2], x);
    x = sw_relu(ctx, sw_apply_linear(ctx, n->f[0], sw_flatten(ctx, x)));
    return sw_apply_linear(ctx, n->f[1], x);
}

static sw_value residual(sw_ctx *ctx, resize_net *n, sw_value x)
{
    x = sw_apply_linear(ctx, n->f[0], x);
    for (int b = 1; b <= 3; b += 2) {
        const sw_value y = sw_relu(ctx, sw_apply_linear(ctx, n->f[b], x));
        x = sw_add(ctx, x, sw_apply_linear(ctx, n->f[b + 1], y));
    }
    return sw_apply_linear(ctx, n->f[5], x);
}

static sw_value attend(sw_ctx *ctx, resize_net *n, sw_value x)
{
    const int64_t rows = sw_dim(ctx, x, 0), width = n->spec.w[0];
    sw_value part[3];
    x = sw_apply_linear(ctx, n->f[0], sw_reshape(ctx, x, SW_SHAPE(-1, 7)));
    x = sw_reshape(ctx, x, SW_SHAPE(rows, 7, 3 * width));
    if (sw_split(ctx, x, width, 2, part, 3) != 3)
        return x;
    x = sw_attention(ctx, part[0], part[1], part[2], (int)(width / 4), 0, 0.0f);
    x = sw_matmul(ctx, x, sw_use(ctx, n->product));
    return sw_apply_linear(ctx, n->f[1], sw_flatten(ctx, x));
}

static sw_value joined(sw_ctx *ctx, resize_net *n, sw_value x)
{
    const sw_value both[] = {
        sw_transpose(ctx, sw_relu(ctx, sw_apply_linear(ctx, n->f[0], x)), 0, 1),
        sw_transpose(ctx, sw_sigmoid(ctx, sw_apply_linear(ctx, n->f[1], x)), 0, 1)};
    return sw_apply_linear(ctx, n->f[2], sw_transpose(ctx, sw_concat(ctx, both, 2, 0), 0, 1));
}

static sw_value gated(sw_ctx *ctx, resize_net *n, sw_value x)
{
    sw_value half[2];
    if (sw_split(ctx, sw_apply_linear(ctx, n->f[0], x), n->spec.w[0], 1, half, 2) != 2)
        return x;
    return sw_apply_linear(ctx, n->f[1], sw_swiglu(ctx, half[0], half[1]));
}

static sw_value normed(sw_ctx *ctx, resize_net *n, sw_value x)
{
    x = sw_apply_layer_norm(ctx, n->norm, sw_apply_linear(ctx, n->f[0], x));
    return sw_apply_linear(ctx, n->f[1], x);
}

/* Each channel of c0 makes two; their means say how much each counts. */
static sw_value squeezed(sw_ctx *ctx, resize_net *n, sw_value x)
{
    x = sw_reshape(ctx, x, SW_SHAPE(-1, 1, 7, 7));
    x = sw_avg_pool2d(ctx, sw_gelu(ctx, sw_apply_conv2d(ctx, n->c[0], x)), 2, 1, 0);
    x = sw_apply_conv2d(ctx, n->c[1], x);
    const int64_t rows = sw_dim(ctx, x, 0), channels = sw_dim(ctx, x, 1);
    sw_value s = sw_flatten(ctx, sw_global_avg_pool(ctx, x));
    s = sw_relu(ctx, sw_apply_linear(ctx, n->f[0], s));
    s = sw_sigmoid(ctx, sw_apply_linear(ctx, n->f[1], s));
    x = sw_channel_scale(ctx, x, sw_reshape(ctx, s, SW_SHAPE(rows, channels, 1, 1)));
    return sw_apply_linear(ctx, n->f[2], sw_mean(ctx, x, SW_AXIS(2) | SW_AXIS(3)));
}

/* The mean of each channel and the largest of its sums along columns, one after the other. */
static sw_value decoded(sw_ctx *ctx, resize_net *n, sw_value x)
{
    const uint32_t places = SW_AXIS(2) | SW_AXIS(3);
    x = sw_reshape(ctx, x, SW_SHAPE(-1, 1, 7, 7));
    x = sw_relu(ctx, sw_apply_conv2d(ctx, n->c[0], x));
    x = sw_relu(ctx, sw_apply_conv_transpose2d(ctx, n->up[0], x));
    x = sw_upsample_to(ctx, x, 5, 9, SW_BILINEAR);
    x = sw_apply_conv_transpose2d(ctx, n->up[1], x);
    x = sw_mul(ctx, x, sw_use(ctx, n->gain));
    const sw_value both[] = {sw_mean(ctx, x, places),
                             sw_max(ctx, sw_cumsum(ctx, x, 2), places)};
    x = sw_stack(ctx, both, 2, 1);
    return sw_apply_linear(ctx, n->f[0], sw_flatten(ctx, x));
}

static sw_value recurrent(sw_ctx *ctx, resize_net *n, sw_value x)
{
    sw_value h = {0, 0};
    x = sw_transpose(ctx, sw_reshape(ctx, x, SW_SHAPE(-1, 7, 7)), 0, 1);
    (void)sw_apply_gru(ctx, n->gru, sw_apply_lstm(ctx, n->lstm, x, NULL, NULL), &h);
    return sw_apply_linear(ctx, n->f[0], h);
}

/* Its body; the last weight is the table. */
static sw_value tokens(sw_ctx *ctx, resize_net *n, sw_value x)
{
    x = sw_apply_linear(ctx, n->f[0], x);
    x = sw_add(ctx, x, sw_apply_embedding(ctx, n->table, sw_input(ctx, 1)));
    const sw_value y = sw_swiglu(ctx, sw_apply_linear(ctx, n->f[1], x),
                                 sw_apply_linear(ctx, n->f[1], sw_scale_by(ctx, x, 0.5f)));
    x = sw_add(ctx, x, sw_apply_linear(ctx, n->f[2], y));
    x = sw_add(ctx, x, sw_use(ctx, n->seen));
    if (sw_ctx_mode(ctx) == SW_TRAIN)
        sw_assign(ctx, n->seen,
                  sw_scale_by(ctx, sw_mean(ctx, sw_detach(ctx, x), SW_AXIS(0)), 0.1f));
    const sw_value weight = sw_use(ctx, n->table.weight), none = {0, 0};
    sw_metric(ctx, "fused", sw_linear_ce(ctx, x, weight, none, sw_input(ctx, 1)));
    return sw_linear_op(ctx, x, weight, none);
}

static sw_value skipped(sw_ctx *ctx, resize_net *n, sw_value x)
{
    const sw_value y = sw_swish(ctx, sw_apply_linear(ctx, n->f[0], x));
    const sw_value side = sw_apply_linear(ctx, n->f[1], y);
    const sw_value all[] = {x, y, side};
    sw_output(ctx, "side", side);
    return sw_apply_linear(ctx, n->f[2], sw_concat(ctx, all, 3, 1));
}

void resize_step(sw_ctx *ctx, void *user)
{
    static sw_value (*const bodies[])(sw_ctx *, resize_net *, sw_value) = {
        chain,    conv,   residual, gated,   joined,    attend,
        squeezed, tokens, skipped,  decoded, recurrent, normed};
    resize_net *n = user;
    const sw_value logits = bodies[n->spec.kind](ctx, n, sw_input(ctx, 0));
    const sw_value loss = sw_softmax_ce(ctx, logits, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_output(ctx, "logits", logits);
    if (sw_ctx_mode(ctx) == SW_EVAL)
        return;
    sw_backward(ctx, sw_scale(ctx, loss, n->factor), &n->opt, 1);
    sw_update(ctx, n->opt);
}

/* ---- runs -------------------------------------------------------------------------------- */

const sw_array *resize_batch(void)
{
    static float x[RN_ROWS * RN_IN];
    static unsigned char labels[RN_ROWS];
    static sw_array arrays[2];
    sw_dice dice = {3};
    for (int i = 0; i < RN_ROWS * RN_IN; i++)
        x[i] = (float)sw_dice_below(&dice, 2000) / 1000.0f - 1.0f;
    for (int i = 0; i < RN_ROWS; i++)
        labels[i] = (unsigned char)sw_dice_below(&dice, RN_OUT);
    arrays[0] = (sw_array){SW_F32, SW_SHAPE(RN_ROWS, RN_IN), x};
    arrays[1] = (sw_array){SW_U8, SW_SHAPE(RN_ROWS), labels};
    return arrays;
}

void resize_train(sw_exec *exec, resize_net *n, int steps)
{
    for (int k = 0; k < steps; k++) {
        sw_run_args args = RESIZE_ARGS(n, SW_TRAIN);
        args.step = (uint64_t)k;
        OK(sw_run(exec, &args));
    }
}

void resize_logits(sw_exec *exec, resize_net *n, float *out)
{
    sw_array logits = {.data = NULL};
    OK(sw_run(exec, &RESIZE_ARGS(n, SW_EVAL)));
    OK(sw_output_get(exec, "logits", &logits));
    if (logits.data != NULL)
        memcpy(out, logits.data, RN_ROWS * RN_OUT * sizeof *out);
}
