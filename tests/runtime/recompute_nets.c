#include "tests/runtime/recompute_nets.h"

#define WIDTH 32
#define CHANNELS 4
#define NOISE 16

const char *rc_name(rc_kind kind)
{
    static const char *const names[] = {
#define NAME(id, name) name,
        RC_NETS(NAME)};
    return names[kind];
}

/* ---- forward ----------------------------------------------------------------------------- */

static sw_value images(sw_ctx *c, const rc_net *n, sw_value x)
{
    for (int i = 0; i < n->layers; i++) {
        x = sw_leaky_relu(c, sw_apply_conv2d(c, n->conv[i], x), 0.1f); /* never all zeros */
        if (i % 5 == 3)
            x = sw_max_pool(c, x, 2);
    }
    return sw_apply_linear(c, n->linear[0], sw_flatten(c, sw_global_avg_pool(c, x)));
}

static sw_value noise(sw_ctx *c, sw_value x, int i)
{
    char stream[24];
    snprintf(stream, sizeof stream, "noise%d", i);
    const sw_shape shape = SW_SHAPE(sw_dim(c, x, 0), sw_dim(c, x, 1));
    if (i % 2 == 0)
        return sw_add(c, x, sw_scale_by(c, sw_randn(c, stream, shape), 0.1f));
    return sw_mul(c, x, sw_rand(c, stream, shape));
}

static sw_value block(sw_ctx *c, const rc_net *n, sw_value x, int i)
{
    const sw_value y = sw_apply_linear(c, n->linear[i], x);
    switch (n->kind) {
    case RC_MLP:
        return n->other ? sw_tanh(c, y) : sw_relu(c, y);
    case RC_SATURATED:
        return i % 2 == 0 ? sw_tanh(c, y) : sw_sigmoid(c, y);
    case RC_RESIDUAL:
        return i == 0 ? y : sw_add(c, x, sw_mul(c, sw_swish(c, y), sw_sigmoid(c, x)));
    case RC_NOISY:
        return sw_swish(c, noise(c, y, i));
    case RC_STATEFUL:
        return sw_swish(c, i % 3 == 1 ? sw_add(c, y, sw_use(c, n->state)) : y);
    default:
        return sw_swish(c, y);
    }
}

static sw_value forward(sw_ctx *c, rc_net *n, sw_value x)
{
    if (n->kind == RC_CONV)
        return images(c, n, x);
    for (int i = 0; i < n->layers; i++) {
        char name[12];
        snprintf(name, sizeof name, "b%d", i);
        sw_scope_begin(c, name);
        x = block(c, n, x, n->kind == RC_SHARED && i > 0 ? 1 : i);
        sw_scope_end(c);
        if (n->kind == RC_STATEFUL && i == 2)
            sw_assign(c, n->state, sw_scale_by(c, sw_mean(c, x, 1u), 0.5f));
    }
    return sw_apply_linear(c, n->linear[n->layers], x);
}

/* ---- the step functions ------------------------------------------------------------------ */

static void step(sw_ctx *c, void *user)
{
    rc_net *n = user;
    n->times_called++;
    const sw_value logits = forward(c, n, sw_input(c, 0));
    const sw_value loss = sw_softmax_ce(c, logits, sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_metric(c, "accuracy", sw_accuracy(c, logits, sw_input(c, 1)));
    if (sw_ctx_mode(c) != SW_TRAIN)
        return;
    const int n_opt = n->opt[1] != NULL ? 2 : 1;
    sw_backward(c, loss, n->opt, n_opt);
    for (int i = 0; i < n_opt; i++)
        sw_update(c, n->opt[i]);
}

static sw_value run_layers(sw_ctx *c, const rc_net *n, sw_value x, int first)
{
    for (int i = 0; i < n->layers; i++)
        x = sw_swish(c, sw_apply_linear(c, n->linear[first + i], x));
    return x;
}

/* linear[0..layers-1] make a sample, the others judge it. */
static void adversaries(sw_ctx *c, void *user)
{
    rc_net *n = user;
    n->times_called++;
    const sw_value z = sw_randn(c, "z", SW_SHAPE(sw_dim(c, sw_input(c, 0), 0), NOISE));
    const sw_value fake = run_layers(c, n, z, 0);
    const sw_value real = sw_slice(c, sw_input(c, 0), 1, 0, WIDTH);
    sw_value says = sw_mean(c, run_layers(c, n, sw_detach(c, fake), n->layers), 2u);
    const sw_value no = sw_bce(c, says, 0.0f);
    const sw_value yes = sw_bce(c, sw_mean(c, run_layers(c, n, real, n->layers), 2u), 1.0f);
    const sw_value loss = sw_add(c, no, yes);
    sw_metric(c, "loss", loss);
    if (sw_ctx_mode(c) == SW_TRAIN) {
        sw_backward(c, loss, &n->opt[1], 1);
        sw_update(c, n->opt[1]);
    }
    says = sw_mean(c, run_layers(c, n, fake, n->layers), 2u);
    const sw_value fooled = sw_bce(c, says, 1.0f);
    sw_metric(c, "accuracy", fooled);
    if (sw_ctx_mode(c) == SW_TRAIN) {
        sw_backward(c, fooled, &n->opt[0], 1);
        sw_update(c, n->opt[0]);
    }
}

/* ---- declarations ------------------------------------------------------------------------ */

sw_status rc_begin(rc_net *n, rc_kind kind, int layers)
{
    *n = (rc_net){.kind = kind, .layers = layers};
    n->n_models = kind == RC_ADVERSARIES ? 2 : 1;
    n->data = net_batch(kind == RC_CONV, 0, RC_BATCH);
    n->data_bytes = RC_BATCH * NET_PIXELS * sizeof(float) + (RC_BATCH + 63u) / 64 * 64;
    for (int i = 0; i < n->n_models; i++) {
        SW_TRY(sw_model_create(&n->models[i], i == 0 ? "net" : "critic"));
        AFTER(sw_model_destroy, n->models[i]);
    }
    char name[16];
    const bool two = n->kind == RC_ADVERSARIES;
    for (int j = 0; j < n->layers; j++) {
        snprintf(name, sizeof name, "l%d", j);
        if (n->kind == RC_CONV) {
            n->conv[j] = sw_conv2d_new(n->models[0], name, j == 0 ? 1 : CHANNELS, CHANNELS, 3);
            n->conv[j].pad = 1;
            continue;
        }
        const int64_t in = j > 0 ? WIDTH : two ? NOISE : NET_PIXELS;
        n->linear[j] = sw_linear_new(n->models[0], name, in, WIDTH);
        if (two)
            n->linear[n->layers + j] = sw_linear_new(n->models[1], name, WIDTH, WIDTH);
    }
    if (n->kind == RC_CONV)
        n->linear[0] = sw_linear_new(n->models[0], "out", CHANNELS, NET_CLASSES);
    else if (!two)
        n->linear[n->layers] = sw_linear_new(n->models[0], "out", WIDTH, NET_CLASSES);
    if (n->kind == RC_STATEFUL)
        n->state = sw_state_new(n->models[0], "seen", SW_F32, SW_SHAPE(WIDTH));
    sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
    if (n->kind == RC_ADVERSARIES) {
        SW_TRY(sw_optimizer_create(&n->opt[0], n->models[0], &opts));
        return sw_optimizer_create(&n->opt[1], n->models[1], &opts);
    }
    opts.release = n->kind == RC_MLP;
    if (n->kind != RC_OPTIMIZERS)
        return sw_optimizer_create(&n->opt[0], n->models[0], &opts);
    sw_param params[2 * RC_LAYERS + 2];
    const size_t n_params = sw_param_count(n->models[0]);
    for (size_t k = 0; k < n_params; k++)
        params[k] = sw_param_at(n->models[0], k);
    opts.params = params;
    opts.n_params = n_params / 2;
    SW_TRY(sw_optimizer_create(&n->opt[0], n->models[0], &opts));
    opts.kind = "sgd";
    opts.momentum = 0.9f;
    opts.params = params + n_params / 2;
    opts.n_params = n_params - n_params / 2;
    return sw_optimizer_create(&n->opt[1], n->models[0], &opts);
}

void rc_end(rc_net *n)
{
    for (int i = 0; i < 2; i++) {
        if (n->models[i] != NULL)
            sw_now(n->models[i]);
        n->models[i] = NULL;
    }
}

sw_run_args rc_args(rc_net *n, uint64_t k)
{
    return SW_OPTS(sw_run_args, .fn = n->kind == RC_ADVERSARIES ? adversaries : step, .user = n,
                   .models = n->models, .n_models = n->n_models, .inputs = n->data.in,
                   .n_inputs = 2, .step = k, .data_bytes = n->data_bytes);
}
