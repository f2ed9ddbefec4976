/* Random networks at work: the step function that interprets them, their models and batches. */
#include "kernels/rng.h"
#include "tests/runtime/random_net.h"

typedef struct {
    sw_ctx *ctx;
    random_life *life;
    sw_value value[RANDOM_OPS];
} walk;

static sw_value operand(walk *w, const random_op *op, int k)
{
    const random_net *r = w->life->net;
    const random_op *from = &r->op[op->in[k]];
    const sw_value v = w->value[op->in[k]];
    const bool labels = from->kind == RANDOM_INPUT && from->what == RANDOM_LABELS;
    return w->life->twin && !labels && from->uses > 1 ? sw_scale_by(w->ctx, v, 1.0f) : v;
}

#define IS(kind, ...)                                                                          \
    case RANDOM_##kind:                                                                        \
        return __VA_ARGS__

static sw_value source(walk *w, const random_op *op, const char *name)
{
    random_life *l = w->life;
    switch (op->kind) {
        IS(INPUT, sw_input(w->ctx, op->what == RANDOM_LABELS ? RANDOM_LABELS
                                   : op->n[0] != 0           ? 1
                                                             : 0));
        IS(BYTES, sw_to_f32(w->ctx, sw_input(w->ctx, 1), 1.0f / 128.0f, -1.0f));
        IS(PARAM, sw_use(w->ctx, l->param[op->what]));
        IS(STATE, sw_use(w->ctx, l->state[op->what]));
        IS(RANDN, sw_randn(w->ctx, name, op->shape));
    default:
        return sw_rand(w->ctx, name, op->shape);
    }
}

/* Of one operand, element by element. */
static sw_value curve(sw_ctx *c, const random_op *op, const sw_value *in)
{
    switch (op->kind) {
        IS(RELU, sw_relu(c, in[0]));
        IS(LEAKY, sw_leaky_relu(c, in[0], op->number));
        IS(TANH, sw_tanh(c, in[0]));
        IS(SIGMOID, sw_sigmoid(c, in[0]));
        IS(SWISH, sw_swish(c, in[0]));
        IS(GELU, sw_gelu(c, in[0]));
        IS(GELU_TANH, sw_gelu_tanh(c, in[0]));
        IS(MISH, sw_mish(c, in[0]));
        IS(SOFTPLUS, sw_softplus(c, in[0]));
        IS(HARD_SWISH, sw_hard_swish(c, in[0]));
        IS(ELU, sw_elu(c, in[0], op->number));
        IS(SELU, sw_selu(c, in[0]));
        IS(EXP, sw_exp(c, in[0]));
        IS(ABS, sw_abs(c, in[0]));
        IS(CLAMP, sw_clamp(c, in[0], -op->number, 1.1f * op->number));
        IS(DROPOUT, sw_dropout(c, in[0], op->number));
    default:
        return (sw_value){0, 0};
    }
}

static sw_value compute(walk *w, const random_op *op, const char *name)
{
    sw_ctx *c = w->ctx;
    const int stride = (int)op->n[1], pad = (int)op->n[2];
    sw_value in[4] = {{0, 0}};
    if (op->kind <= RANDOM_RAND)
        return source(w, op, name);
    const bool turn = w->life->twin && (op->kind == RANDOM_ADD || op->kind == RANDOM_MUL);
    for (int k = 0; k < op->n_in; k++)
        in[turn ? 1 - k : k] = operand(w, op, turn ? 1 - k : k);
    if (op->kind <= RANDOM_DROPOUT)
        return curve(c, op, in);
    switch (op->kind) {
        IS(ADD, turn ? sw_add(c, in[1], in[0]) : sw_add(c, in[0], in[1]));
        IS(MUL, turn ? sw_mul(c, in[1], in[0]) : sw_mul(c, in[0], in[1]));
        IS(SUB, sw_sub(c, in[0], in[1]));
        IS(SCALE, sw_scale(c, in[0], w->life->knob[op->what]));
        IS(SCALE_BY, sw_scale_by(c, in[0], op->number));
        IS(RESHAPE, sw_reshape(c, in[0], op->shape));
        IS(SLICE, sw_slice(c, in[0], (int)op->n[0], op->n[1], op->n[2]));
        IS(CONCAT, sw_concat(c, in, op->n_in, (int)op->n[0]));
        IS(TRANSPOSE, sw_transpose(c, in[0], (int)op->n[0], (int)op->n[1]));
        IS(DETACH, sw_detach(c, in[0]));
        IS(LINEAR, sw_linear_op(c, in[0], in[1], in[2]));
        IS(MATMUL, sw_matmul(c, in[0], in[1]));
        IS(LAYER_NORM, sw_layer_norm_op(c, in[0], in[1], in[2], 0.1f));
        IS(RMS_NORM, sw_rms_norm_op(c, in[0], in[1], 0.1f));
        IS(GROUP_NORM, sw_group_norm_op(c, in[0], in[1], in[2], op->n[0], 0.1f));
        IS(BATCH_NORM, sw_batch_norm_op(c, in[0], in[1], in[2], w->life->running[op->what][0],
                                        w->life->running[op->what][1], 0.1f, 0.1f));
        IS(CONV, sw_conv2d_op(c, in[0], in[1], in[2], stride, pad));
        IS(MAX_POOL, sw_max_pool2d(c, in[0], (int)op->n[0], stride, pad));
        IS(AVG_POOL, sw_avg_pool2d(c, in[0], (int)op->n[0], stride, pad));
        IS(GLOBAL_MAX, sw_global_max_pool(c, in[0]));
        IS(GLOBAL_AVG, sw_global_avg_pool(c, in[0]));
        IS(SUM, sw_sum(c, in[0], (uint32_t)op->n[0]));
        IS(MEAN, sw_mean(c, in[0], (uint32_t)op->n[0]));
        IS(MAX, sw_max(c, in[0], (uint32_t)op->n[0]));
        IS(SOFTMAX, sw_softmax(c, in[0]));
        IS(SOFTMAX_CE, sw_softmax_ce(c, in[0], in[1]));
        IS(MSE, sw_mse(c, in[0], in[1]));
        IS(BCE, sw_bce(c, in[0], op->number));
        IS(BCE_WITH, sw_bce_with(c, in[0], in[1]));
        IS(HUBER, sw_huber(c, in[0], in[1], 0.5f));
        IS(L1, sw_l1(c, in[0], in[1]));
        IS(ACCURACY, sw_accuracy(c, in[0], in[1]));
    default:
        return (sw_value){0, 0};
    }
}

static sw_value halve(sw_ctx *ctx, sw_param param, sw_value gradient, void *user)
{
    return sw_scale_by(ctx, gradient, 0.5f);
}

static void train_op(walk *w, const random_op *op)
{
    random_life *l = w->life;
    sw_optimizer *list[RANDOM_OPTIMIZERS];
    int n = 0, first = 0;
    for (int i = RANDOM_OPTIMIZERS; i-- > 0;)
        if ((op->what >> i & 1) != 0) {
            list[n++] = l->optimizer[i];
            first = i;
        }
    const random_optimizer *o = &l->net->optimizer[first];
    if (op->kind == RANDOM_BACKWARD) {
        sw_backward(w->ctx, w->value[op->in[0]], list, n);
        for (int i = 0; l->gradients && i < n; i++)
            sw_accumulate(w->ctx, list[i]);
    } else if (l->gradients) {
        return;
    } else if (op->kind == RANDOM_ACCUMULATE) {
        sw_accumulate(w->ctx, list[0]);
    } else if (!o->keep || l->updates) {
        sw_gradient_hook(w->ctx, list[0]->model, o->hook ? halve : NULL, NULL);
        if (o->clip)
            sw_clip_norm(w->ctx, list[0], l->max_norm[o->model]);
        sw_update(w->ctx, list[0]);
    }
}

static void random_step(sw_ctx *ctx, void *user)
{
    static const char *const scopes[] = {"", "a", "b", "a/c"};
    random_life *life = user;
    walk w = {.ctx = ctx, .life = life};
    for (int i = 0; i < life->net->n_ops; i++) {
        const random_op *op = &life->net->op[i];
        char name[8];
        snprintf(name, sizeof name, "v%d", i);
        if (op->scope != 0)
            sw_scope_begin(ctx, scopes[op->scope]);
        if (op->phase >= 0)
            sw_set_phase(ctx, (sw_phase)op->phase);
        if (op->kind <= RANDOM_ACCURACY)
            w.value[i] = compute(&w, op, name);
        else if (op->kind == RANDOM_METRIC || op->kind == RANDOM_OUTPUT ||
                 op->kind == RANDOM_ASSIGN) {
            const sw_value x = w.value[op->in[0]];
            if (op->kind == RANDOM_METRIC)
                sw_metric(w.ctx, name, x);
            else if (op->kind == RANDOM_OUTPUT)
                sw_output(w.ctx, name, x);
            else
                sw_assign(w.ctx, w.life->state[op->what], x);
        } else if (sw_ctx_mode(ctx) == SW_TRAIN)
            train_op(&w, op);
        if (op->phase >= 0)
            sw_clear_phase(ctx);
        if (op->scope != 0)
            sw_scope_end(ctx);
    }
}

/* ---- models and batches ------------------------------------------------------------------ */

static float floats[40 * 3 * 12 * 12];
static uint8_t bytes[40 * 3 * 12 * 12], labels[40];

static void fill_batch(void)
{
    sw_dice dice = {5};
    if (floats[0] != 0.0f)
        return;
    sw_rng_normal(floats, 0, (int64_t)(sizeof floats / sizeof *floats), 1, 2, 3, 4);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)sw_dice_below(&dice, 256);
    for (size_t i = 0; i < sizeof labels; i++)
        labels[i] = (uint8_t)sw_dice_below(&dice, RANDOM_CLASSES);
}

static sw_status declare_optimizer(random_life *l, int i)
{
    const random_optimizer *o = &l->net->optimizer[i];
    sw_param params[RANDOM_PARAMS];
    sw_optimizer_opts opts = SW_OPTS(
        sw_optimizer_opts, .kind = o->kind, .params = params, .lr = 0.001f,
        .weight_decay = o->weight_decay, .momentum = o->momentum, .nesterov = o->nesterov,
        .keep_gradients = o->keep || l->gradients, .release = o->release && !l->gradients);
    for (int p = 0; p < l->net->n_params; p++)
        if (l->net->param[p].optimizer == i)
            params[opts.n_params++] = l->param[p];
    return opts.n_params > 0 ? sw_optimizer_create(&l->optimizer[i], l->models[o->model], &opts)
                             : SW_OK;
}

sw_status random_life_begin(random_life *l, const random_net *r, bool gradients, bool twin)
{
    *l = (random_life){.net = r, .gradients = gradients, .twin = twin};
    fill_batch();
    for (int i = 0; i < r->n_models; i++) {
        SW_TRY(sw_model_create(&l->models[i], i == 0 ? "first" : "second"));
        l->knob[i] = sw_knob_new(l->models[i], "factor", 0.7f);
        l->max_norm[i] = sw_knob_new(l->models[i], "max_norm", 0.3f);
    }
    for (int p = 0; p < r->n_params; p++) {
        const random_param *of = &r->param[p];
        char name[16];
        snprintf(name, sizeof name, "p%d", p);
        l->param[p] = sw_param_new(l->models[of->model], name, SW_F32, of->shape,
                                   of->shape.rank > 1 ? "xavier_uniform" : "normal:0.5");
        sw_param_freeze(l->param[p], of->optimizer < 0);
    }
    for (int s = 0; s < r->n_states; s++) {
        const random_param *of = &r->state[s];
        char name[16];
        snprintf(name, sizeof name, "s%d", s);
        l->state[s] = sw_state_new(l->models[of->model], name, SW_F32, of->shape);
    }
    for (int s = 0; s < 2 * r->n_norms; s++) {
        const random_param *of = &r->running[s / 2];
        char name[16];
        snprintf(name, sizeof name, "r%d", s);
        l->running[s / 2][s % 2] = sw_buffer_new(l->models[of->model], name, SW_F32, of->shape,
                                                 s % 2 == 0 ? "zeros" : "ones");
    }
    for (int i = 0; i < r->n_optimizers; i++)
        SW_TRY(declare_optimizer(l, i));
    l->in[0] = (sw_array){SW_F32, r->input[0], floats + 1000};
    l->in[1] = r->bytes ? (sw_array){SW_U8, r->input[1], bytes}
                        : (sw_array){SW_F32, r->input[1], floats};
    l->in[RANDOM_LABELS] = (sw_array){SW_U8, r->input[RANDOM_LABELS], labels};
    return SW_OK;
}

void random_life_end(random_life *l)
{
    for (int i = 0; i < 2; i++)
        sw_model_destroy(l->models[i]);
}

sw_run_args random_life_args(random_life *l, uint64_t k)
{
    l->updates = !l->net->twice || k % 2 == 1;
    return SW_OPTS(sw_run_args, .fn = random_step, .user = l, .models = l->models,
                   .n_models = l->net->n_models, .inputs = l->in, .n_inputs = 3,
                   .variant = l->updates, .step = k);
}

/* ---- seeds ------------------------------------------------------------------------------- */

#define MOST_FAILURES 5

random_net seed_net;
bool seed_failed;

void seed_check(bool passed, const char *what, const char *detail)
{
    if (passed || seed_failed)
        return;
    seed_failed = true;
    random_net_print(&seed_net);
    SW_CHECK(false, "STEPWELL_SEED=%llu: %s: %s", (unsigned long long)seed_net.seed, what,
             detail);
}

bool seed_well(sw_status status, const char *what)
{
    seed_check(status == SW_OK, what, sw_last_error());
    return status == SW_OK;
}

void seed_sizes(const char *what, size_t measured, size_t wanted)
{
    char detail[80];
    snprintf(detail, sizeof detail, "%zu instead of %zu bytes", measured, wanted);
    seed_check(measured == wanted, what, detail);
}

void seed_each(int quick, int full, void (*one)(void))
{
    const char *text = getenv("STEPWELL_SEED");
    const uint64_t first = text != NULL ? strtoull(text, NULL, 10) : 1;
    const int n = text != NULL ? 1 : sw_tests_full() ? full : quick;
    int failures = 0;
    for (int i = 0; i < n && failures < MOST_FAILURES; i++) {
        seed_failed = false;
        random_net_make(&seed_net, first + (uint64_t)i);
        one();
        failures += seed_failed;
    }
    CU_ASSERT_EQUAL(failures, 0);
}
