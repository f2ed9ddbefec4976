#include "tests/runtime/optimizer_nets.h"

const sw_shape on_shapes[ON_PARAMS] = {{1, {1}},        {0, {0}},          {1, {33}},
                                       {2, {257, 130}}, {4, {5, 3, 7, 2}}, {3, {2, 1, 19}}};

const sw_optimizer_opts on_opts[ON_KINDS] = {
#define SW_OPTIMIZER(kind_, states, operations) {.size = sizeof *on_opts, .kind = #kind_},
#define SW_OPTIMIZER_LIKE(kind_) SW_OPTIMIZER(kind_, 0, 0)
#define SW_OPTIMIZER_WHOLE(kind_) SW_OPTIMIZER(kind_, 0, 0)
#include "kernels/optimizers.def"
    {.size = sizeof *on_opts, .kind = "sgd", .lr = 0.01f, .weight_decay = 0.1f},
    {.size = sizeof *on_opts, .kind = "sgd", .lr = 0.01f, .momentum = 0.9f},
    {.size = sizeof *on_opts, .kind = "sgd", .lr = 0.01f, .momentum = 0.9f, .nesterov = 1},
    {.size = sizeof *on_opts, .kind = "adam", .weight_decay = 0.1f},
    {.size = sizeof *on_opts, .kind = "adamw", .weight_decay = 0.1f},
    {.size = sizeof *on_opts, .kind = "rmsprop", .centered = 1},
    {.size = sizeof *on_opts, .kind = "rmsprop", .centered = 1, .momentum = 0.5f},
    {.size = sizeof *on_opts, .kind = "adagrad", .initial_accumulator = 0.1f},
    {.size = sizeof *on_opts, .kind = "lion", .weight_decay = 0.1f},
    {.size = sizeof *on_opts, .kind = "adafactor", .weight_decay = 0.1f, .lr = 0.5f},
    {.size = sizeof *on_opts, .kind = "adafactor", .fixed_rate = 1, .clip_threshold = 0.5f},
    {.size = sizeof *on_opts, .kind = "adamw", .weight_decay = 0.1f, .state_bits = 8},
    {.size = sizeof *on_opts, .kind = "adam", .state_bits = 8, .knobs = 1},
    {.size = sizeof *on_opts, .kind = "sgd", .momentum = 0.9f, .nesterov = 1, .state_bits = 8},
    {.size = sizeof *on_opts, .kind = "lion", .weight_decay = 0.1f, .state_bits = 8},
};

/* Loops begin more models than sw_after takes. */
static sw_model *models[8];
static bool watched;

void on_end(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        sw_model_destroy(models[i]);
        models[i] = NULL;
    }
}

static void end_test(void *arg)
{
    on_end();
    watched = false;
}

static void watch(sw_model *model)
{
    size_t i = 0;
    while (i < sizeof models / sizeof *models && models[i] != NULL)
        i++;
    CU_ASSERT_FATAL(i < sizeof models / sizeof *models);
    models[i] = model;
    if (!watched)
        sw_after(end_test, NULL);
    watched = true;
}

const unsigned char *on_bytes(const on_net *n)
{
    static unsigned char bytes[1 << 20];
    CU_ASSERT_FATAL(n->model->bytes <= sizeof bytes);
    return memcpy(bytes, n->model->base, n->model->bytes);
}

void on_begin(on_net *n)
{
    memset(n, 0, sizeof *n);
    OK(sw_model_create(&n->model, "net"));
    watch(n->model);
    for (int i = 0; i < ON_PARAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d.w", i);
        n->w[i] = sw_param_new(n->model, name, SW_F32, on_shapes[i], "normal:1");
    }
    n->max = sw_knob_new(n->model, "max", 3.0f);
}

void on_start(on_net *n, const sw_optimizer_opts *opts)
{
    on_begin(n);
    OK(sw_optimizer_create(&n->opt, n->model, opts));
}

void on_step(sw_ctx *c, void *user)
{
    on_net *n = user;
    sw_value loss = {0, 0};
    for (int i = 0; i < ON_PARAMS; i++) {
        const sw_value w = sw_use(c, n->w[i]);
        const sw_value half = sw_scale_by(c, sw_sum(c, sw_mul(c, w, w), 0), 0.5f);
        const sw_value part = sw_add(c, sw_mul(c, half, sw_input(c, 0)),
                                     sw_mul(c, sw_sum(c, w, 0), sw_input(c, 1 + i)));
        loss = i == 0 ? part : sw_add(c, loss, part);
    }
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &n->opt, 1);
    if (n->accumulate)
        sw_accumulate(c, n->opt);
    if (n->clip)
        sw_clip_norm(c, n->opt, n->max);
    if (!n->no_update)
        sw_update(c, n->opt);
}

sw_run_args on_args(on_net *n)
{
    n->in[0] = (sw_array){SW_F32, SW_SCALAR, &n->x};
    for (int i = 0; i < ON_PARAMS; i++)
        n->in[1 + i] = (sw_array){SW_F32, SW_SCALAR, &n->factor[i]};
    return SW_OPTS(sw_run_args, .fn = on_step, .user = n, .models = &n->model, .n_models = 1,
                   .inputs = n->in, .n_inputs = 1 + ON_PARAMS,
                   .variant = (uint64_t)(n->clip | n->accumulate << 1 | n->no_update << 2));
}

sw_status on_run(sw_exec *exec, on_net *n, int step, bool immediate)
{
    n->x = 0.5f + 0.25f * sinf((float)step);
    for (int i = 0; i < ON_PARAMS; i++)
        n->factor[i] = cosf((float)(step * 3 + i));
    sw_run_args args = on_args(n);
    args.immediate = immediate;
    return sw_run(exec, &args);
}

bool on_same_params(const on_net *a, const on_net *b, const char *what)
{
    bool same = true;
    for (int i = 0; i < ON_PARAMS; i++) {
        const swi_entry *e = &a->model->entries[a->w[i].index];
        const size_t other = b->model->entries[b->w[i].index].offset;
        same &=
            SW_CHECK(memcmp(a->model->base + e->offset, b->model->base + other, e->bytes) == 0,
                     "%s: parameter %d differs", what, i);
    }
    return same;
}
