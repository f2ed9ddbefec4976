#include "tests/cuda/device_scenes.h"
#include "tests/support/suite.h"

static void train_on(sw_ctx *ctx, sw_scene_net *net, sw_value loss)
{
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &net->optimizer, 1);
    sw_clip_norm(ctx, net->optimizer, net->clip);
    sw_update(ctx, net->optimizer);
}

typedef struct {
    sw_linear in, middle, out;
} mlp;

static void mlp_build(sw_model *model, void *net)
{
    *(mlp *)net =
        (mlp){sw_linear_new(model, "in", 20, 33), sw_linear_new(model, "middle", 33, 16),
              sw_linear_new(model, "out", 16, 5)};
}

/* With weights that are large enough for states in 8 bits: short rows, and rows of two blocks.
 */
static void wide_build(sw_model *model, void *net)
{
    *(mlp *)net =
        (mlp){sw_linear_new(model, "in", 20, 300), sw_linear_new(model, "middle", 300, 16),
              sw_linear_new(model, "out", 16, 5)};
}

static void mlp_step(sw_ctx *ctx, void *user)
{
    sw_scene_net *net = user;
    const mlp *m = (const mlp *)net->layers.bytes;
    sw_value x = sw_relu(ctx, sw_apply_linear(ctx, m->in, sw_input(ctx, 0)));
    x = net->knobs ? sw_dropout_knob(ctx, x, net->dropout) : sw_dropout(ctx, x, 0.25f);
    x = sw_swish(ctx, sw_apply_linear(ctx, m->middle, x));
    x = sw_apply_linear(ctx, m->out, x);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, x, sw_input(ctx, 1)));
    train_on(ctx, net, sw_softmax_ce(ctx, x, sw_input(ctx, 1)));
}

typedef struct {
    sw_conv2d conv1, conv2;
    sw_linear fc1, fc2, fc3;
} lenet5;

static void lenet5_build(sw_model *model, void *net)
{
    *(lenet5 *)net =
        (lenet5){sw_conv2d_new(model, "conv1", 1, 6, 5),
                 sw_conv2d_new(model, "conv2", 6, 16, 5), sw_linear_new(model, "fc1", 256, 120),
                 sw_linear_new(model, "fc2", 120, 84), sw_linear_new(model, "fc3", 84, 10)};
}

static void lenet5_step(sw_ctx *ctx, void *user)
{
    sw_scene_net *net = user;
    const lenet5 *l = (const lenet5 *)net->layers.bytes;
    sw_value x = sw_to_f32(ctx, sw_input(ctx, 0), 1 / 255.0f, 0);
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, l->conv1, x)), 2);
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, l->conv2, x)), 2);
    x = sw_relu(ctx, sw_apply_linear(ctx, l->fc1, sw_flatten(ctx, x)));
    x = sw_relu(ctx, sw_apply_linear(ctx, l->fc2, x));
    x = sw_apply_linear(ctx, l->fc3, x);
    train_on(ctx, net, sw_softmax_ce(ctx, x, sw_input(ctx, 1)));
}

typedef struct {
    sw_conv2d conv, depthwise;
    sw_batch_norm2d norm1, norm2;
    sw_linear out;
} normed;

static void normed_build(sw_model *model, void *net)
{
    const sw_conv_opts each = {sizeof each, .groups = 8};
    *(normed *)net =
        (normed){sw_conv2d_new(model, "conv", 3, 8, 3),
                 sw_conv2d_new_with(model, "depthwise", 8, 8, 3, &each),
                 sw_batch_norm2d_new(model, "norm1", 8), sw_batch_norm2d_new(model, "norm2", 8),
                 sw_linear_new(model, "out", 8, 4)};
}

static void normed_step(sw_ctx *ctx, void *user)
{
    sw_scene_net *net = user;
    const normed *n = (const normed *)net->layers.bytes;
    sw_value x = sw_to_f32(ctx, sw_input(ctx, 0), 1 / 128.0f, -1.0f);
    x = sw_swish(ctx, sw_apply_batch_norm2d(ctx, n->norm1, sw_apply_conv2d(ctx, n->conv, x)));
    x = sw_swish(ctx,
                 sw_apply_batch_norm2d(ctx, n->norm2, sw_apply_conv2d(ctx, n->depthwise, x)));
    x = sw_apply_linear(ctx, n->out, sw_flatten(ctx, sw_global_avg_pool(ctx, x)));
    train_on(ctx, net, sw_softmax_ce(ctx, x, sw_input(ctx, 1)));
}

typedef struct {
    sw_embedding words;
    sw_layer_norm norm1, norm2, norm3;
    sw_linear qkv, join, up, down;
} gpt;

static void gpt_build(sw_model *model, void *net)
{
    *(gpt *)net =
        (gpt){sw_embedding_new(model, "words", 40, 16), sw_layer_norm_new(model, "norm1", 16),
              sw_layer_norm_new(model, "norm2", 16),    sw_layer_norm_new(model, "norm3", 16),
              sw_linear_new(model, "qkv", 16, 48),      sw_linear_new(model, "join", 16, 16),
              sw_linear_new(model, "up", 16, 64),       sw_linear_new(model, "down", 64, 16)};
}

static void gpt_step(sw_ctx *ctx, void *user)
{
    sw_scene_net *net = user;
    const gpt *g = (const gpt *)net->layers.bytes;
    sw_value x = sw_apply_embedding(ctx, g->words, sw_input(ctx, 0)), part[3];
    x = sw_reshape(ctx, x, SW_SHAPE(24, 16));
    sw_value y = sw_apply_linear(ctx, g->qkv, sw_apply_layer_norm(ctx, g->norm1, x));
    sw_split(ctx, sw_reshape(ctx, y, SW_SHAPE(2, 12, 48)), 16, 2, part, 3);
    y = sw_attention(ctx, part[0], part[1], part[2], 2, 1, 0.0f);
    y = sw_reshape(ctx, y, SW_SHAPE(24, 16));
    x = sw_add(ctx, x, sw_apply_linear(ctx, g->join, y));
    y = sw_apply_linear(ctx, g->up, sw_apply_layer_norm(ctx, g->norm2, x));
    x = sw_add(ctx, x, sw_apply_linear(ctx, g->down, sw_gelu_tanh(ctx, y)));
    x = sw_apply_layer_norm(ctx, g->norm3, x);
    const sw_value labels = sw_reshape(ctx, sw_input(ctx, 1), SW_SHAPE(24));
    train_on(ctx, net,
             sw_linear_ce(ctx, x, sw_use(ctx, g->words.weight), (sw_value){0}, labels));
}

#define MLP(optimizer, lr, build)                                                              \
    optimizer, lr, build, mlp_step,                                                            \
        {{SW_F32, {2, {12, 20}}, NULL}, {SW_I32, {1, {12}}, NULL}},                            \
    {                                                                                          \
        0, 5                                                                                   \
    }
#define IMAGES(n, channels, side)                                                              \
    {                                                                                          \
        {SW_U8, {4, {n, channels, side, side}}, NULL},                                         \
        {                                                                                      \
            SW_I32, {1, {n}}, NULL                                                             \
        }                                                                                      \
    }

const sw_scene sw_scenes[] = {
    {"mlp", MLP("sgd", 0.05f, mlp_build)},
    {"mlp adam", MLP("adam", 0.002f, mlp_build)},
    {"mlp, sgd by knobs", MLP("sgd", 0.05f, mlp_build), .knobs = true},
    {"mlp, adam by knobs", MLP("adam", 0.002f, mlp_build), .knobs = true},
    {"mlp, adam in 8 bits", MLP("adam", 0.002f, wide_build), .state_bits = 8},
    SW_INIT("lenet5", "sgd", 0.02f, lenet5_build, lenet5_step, IMAGES(2, 1, 28), {256, 10}),
    SW_INIT("batch norm", "sgd", 0.05f, normed_build, normed_step, IMAGES(4, 3, 10), {256, 4}),
    SW_INIT("gpt", "sgd", 0.05f, gpt_build, gpt_step,
            {{SW_I32, {2, {2, 12}}, NULL}, {SW_I32, {2, {2, 12}}, NULL}}, {40, 40}),
};
const int sw_n_scenes = sizeof sw_scenes / sizeof *sw_scenes;

const sw_scene *sw_scene_of(const char *name)
{
    for (int i = 0; i < sw_n_scenes; i++)
        if (strcmp(sw_scenes[i].name, name) == 0)
            return &sw_scenes[i];
    abort();
}

/* ---- training ---------------------------------------------------------------------------- */

/* The input's numbers follow from the step alone. */
static void fill(const sw_scene *scene, int input, int step, unsigned char *to)
{
    const sw_array *a = &scene->inputs[input];
    sw_dice dice = {(uint64_t)step * 16 + (uint64_t)input};
    int64_t n = 1;
    for (int i = 0; i < a->shape.rank; i++)
        n *= a->shape.dim[i];
    for (int64_t i = 0; i < n; i++) {
        const uint32_t below = scene->below[input];
        const uint64_t x = sw_dice_below(&dice, below > 0 ? below : 2000);
        const float f = (float)x / 1000.0f - 1.0f;
        const int32_t word = (int32_t)x;
        if (a->dtype == SW_U8)
            to[i] = (unsigned char)x;
        else
            memcpy(to + 4 * i, below > 0 ? (const void *)&word : &f, 4);
    }
}

/* Other numbers in each step. Betas are not 0: where dropout leaves no gradient, Adam would
 * then divide a mean that is left by epsilon alone, and small differences would grow without
 * bound.
 */
static void turn_knobs(const sw_scene_net *net, int step)
{
    static const char *const names[] = {"weight_decay", "momentum", "beta1", "beta2"};
    for (int i = 0; i < 4; i++) {
        const sw_knob knob = sw_optimizer_knob(net->optimizer, 0, names[i]);
        if (knob.index != UINT32_MAX)
            sw_knob_set(knob,
                        (float)(i < 2 ? (step * 7 + i * 3) % 11 : 1 + (step * 7 + i * 3) % 10) /
                            12.0f);
    }
    sw_knob_set(net->dropout, (float)(step % 5) / 4.0f);
}

static sw_status one_step(const sw_scene *scene, const sw_scene_run *run, sw_exec *exec,
                          sw_model *model, sw_scene_net *net, int step)
{
    static _Thread_local unsigned char bytes[SW_SCENE_INPUTS][SW_SCENE_ROOM];
    sw_array inputs[SW_SCENE_INPUTS];
    for (int i = 0; i < SW_SCENE_INPUTS; i++) {
        inputs[i] = scene->inputs[i];
        inputs[i].data = bytes[i];
        fill(scene, i, step, bytes[i]);
    }
    if (run->vary)
        sw_knob_set(sw_optimizer_lr(net->optimizer, 0),
                    scene->lr / (1.0f + 0.1f * (float)step));
    if (scene->knobs)
        turn_knobs(net, step);
    const sw_run_args args = {sizeof args,
                              scene->step,
                              net,
                              &model,
                              1,
                              inputs,
                              SW_SCENE_INPUTS,
                              .mode = SW_TRAIN,
                              .immediate = run->immediate,
                              .step = (uint64_t)step};
    if (run->plan != NULL && step == 0) {
        run->plan->size = sizeof *run->plan;
        SW_TRY(sw_plan(exec, &args, run->plan));
    }
    SW_TRY(sw_run(exec, &args));
    memset(bytes, 0xee, sizeof bytes); /* the caller's again */
    if (run->after != NULL)
        run->after(run->context, exec, model, step);
    return SW_OK;
}

sw_status sw_scene_numbers(sw_model *model, float **numbers, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < sw_param_count(model); i++) {
        const sw_param p = sw_param_at(model, i);
        const sw_shape s = sw_param_shape(p);
        size_t each = 1;
        for (int k = 0; k < s.rank; k++)
            each *= (size_t)s.dim[k];
        *numbers = realloc(*numbers, (*n + each) * sizeof(float));
        SW_TRY(sw_param_read(p, *numbers + *n, each * sizeof(float)));
        *n += each;
    }
    return SW_OK;
}

static sw_status train(const sw_scene *scene, const sw_scene_run *run, sw_exec *exec,
                       sw_model *model, sw_scene_end *end)
{
    sw_scene_net net = {.clip = sw_knob_new(model, "clip", 0.5f)};
    const sw_optimizer_opts opts = {
        sizeof opts,           .kind = scene->optimizer,        .lr = scene->lr,
        .knobs = scene->knobs, .state_bits = scene->state_bits, .update = scene->update};
    net.knobs = scene->knobs;
    if (scene->knobs)
        net.dropout = sw_knob_new(model, "dropout", 0.25f);
    scene->build(model, net.layers.bytes);
    SW_TRY(sw_optimizer_create(&net.optimizer, model, &opts));
    SW_TRY(sw_model_ready(model, exec, 7));
    for (int step = 0; step < run->steps; step++)
        SW_TRY(one_step(scene, run, exec, model, &net, step));
    if (end == NULL)
        return SW_OK;
    SW_TRY(sw_metric_get(exec, "loss", &end->loss));
    return sw_scene_numbers(model, &end->numbers, &end->n);
}

sw_status sw_scene_train(const sw_scene *scene, const sw_scene_run *run, sw_scene_end *end)
{
    sw_exec_opts opts = {sizeof opts, .device = run->device, .seed = 11};
    opts.no_graphs = run->no_graphs;
    opts.sync_ops = run->sync_ops;
    opts.tf32 = run->tf32;
    opts.compute = run->compute;
    opts.no_inplace = run->no_inplace;
    opts.profile = run->profile;
    sw_exec *exec = NULL;
    sw_model *model = NULL;
    if (end != NULL)
        *end = (sw_scene_end){0};
    sw_status status = sw_exec_create(&exec, &opts);
    if (status == SW_OK)
        status = sw_model_create(&model, "scene");
    if (status == SW_OK)
        status = train(scene, run, exec, model, end);
    if (status == SW_OK && run->leaving != NULL)
        run->leaving(run->context);
    if (status != SW_OK && end != NULL) {
        free(end->numbers);
        *end = (sw_scene_end){0};
    }
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return status;
}

bool sw_scene_same_bits(const sw_scene_end *a, const sw_scene_end *b)
{
    return a->n == b->n && memcmp(a->numbers, b->numbers, a->n * sizeof(float)) == 0 &&
           memcmp(&a->loss, &b->loss, sizeof a->loss) == 0;
}

double sw_scene_apart(const sw_scene_end *a, const sw_scene_end *b)
{
    double most = 0.0, largest = 1e-30;
    CU_ASSERT_FATAL(a->n == b->n && a->n > 0);
    for (size_t i = 0; i < a->n; i++) {
        const double d = fabs((double)a->numbers[i] - (double)b->numbers[i]);
        if (!(d <= most))
            most = d;
        if (fabs((double)b->numbers[i]) > largest)
            largest = fabs((double)b->numbers[i]);
    }
    return most / largest;
}

sw_scene_end sw_scene_trained(const sw_scene *scene, sw_scene_run run)
{
    sw_scene_end end;
    const sw_status status = sw_scene_train(scene, &run, &end);
    SW_CHECK(status == SW_OK, "%s on %s: %s", scene->name,
             run.device != NULL ? run.device : "cpu", sw_last_error());
    CU_ASSERT_EQUAL_FATAL(status, SW_OK);
    sw_after(free, end.numbers);
    return end;
}
