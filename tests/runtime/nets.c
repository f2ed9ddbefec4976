#include "tests/runtime/nets.h"
#include "kernels/rng.h"

static void end_net(void *arg)
{
    net *n = arg;
    sw_model_destroy(n->model);
    free(n);
}

sw_exec *net_exec(const sw_exec_opts *opts)
{
    return made_exec(opts != NULL ? opts : &SW_OPTS(sw_exec_opts, .seed = 11));
}

static void declare(net *n, const sw_optimizer_opts *opts)
{
    const sw_optimizer_opts usual = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
    OK(sw_model_create(&n->model, "net"));
    if (n->image) {
        n->c1 = sw_conv2d_new(n->model, "c1", 1, 4, 3);
        n->c2 = sw_conv2d_new(n->model, "c2", 4, 6, 3);
        n->f1 = sw_linear_new(n->model, "f1", 24, NET_CLASSES);
    } else {
        n->f1 = sw_linear_new(n->model, "f1", NET_PIXELS, 24);
        n->f2 = sw_linear_new(n->model, "f2", 24, NET_CLASSES);
    }
    n->factor = sw_knob_new(n->model, "factor", 1.0f);
    n->max_norm = sw_knob_new(n->model, "max_norm", 0.1f);
    OK(sw_optimizer_create(&n->opt, n->model, opts != NULL ? opts : &usual));
}

net *net_new(bool image, const sw_optimizer_opts *opts)
{
    net *n = calloc(1, sizeof *n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(n);
    sw_after(end_net, n);
    n->image = image;
    declare(n, opts);
    return n;
}

void net_again(net *n)
{
    sw_model_destroy(n->model);
    declare(n, NULL);
}

static sw_value logits_of(sw_ctx *c, const net *n, sw_value x)
{
    if (!n->image)
        return sw_apply_linear(c, n->f2, sw_tanh(c, sw_apply_linear(c, n->f1, x)));
    x = sw_max_pool(c, sw_relu(c, sw_apply_conv2d(c, n->c1, x)), 2);
    x = sw_max_pool(c, sw_relu(c, sw_apply_conv2d(c, n->c2, x)), 2);
    return sw_apply_linear(c, n->f1, sw_flatten(c, x));
}

void net_step(sw_ctx *c, void *user)
{
    net *n = user;
    n->times_called++;
    const sw_value logits = logits_of(c, n, sw_input(c, 0)), y = sw_input(c, 1);
    const sw_value loss = sw_scale(c, sw_softmax_ce(c, logits, y), n->factor);
    sw_metric(c, "loss", loss);
    sw_metric(c, "accuracy", sw_accuracy(c, logits, y));
    sw_output(c, "logits", logits);
    if (sw_ctx_mode(c) != SW_TRAIN)
        return;
    sw_backward(c, loss, &n->opt, 1);
    if (n->clip)
        sw_clip_norm(c, n->opt, n->max_norm);
    sw_update(c, n->opt);
}

batch net_batch(bool image, int from, int n)
{
    static float pixels[NET_BATCH][NET_PIXELS];
    static uint8_t labels[NET_BATCH];
    if (pixels[0][0] == 0.0f) {
        sw_rng_normal(&pixels[0][0], 0, NET_BATCH * NET_PIXELS, 4, 5, 6, 7);
        for (int i = 0; i < NET_BATCH; i++) {
            labels[i] = (uint8_t)(i * 7 % NET_CLASSES);
            for (int k = 0; k < NET_PIXELS; k++)
                pixels[i][k] += k % NET_CLASSES == labels[i] ? 1.0f : 0.0f;
        }
    }
    CU_ASSERT_FATAL(from >= 0 && n >= 0 && from + n <= NET_BATCH);
    return (batch){
        {{SW_F32, image ? SW_SHAPE(n, 1, 14, 14) : SW_SHAPE(n, NET_PIXELS), pixels[from]},
         {SW_U8, SW_SHAPE(n), labels + from}}};
}

sw_run_args net_args(net *n, const batch *b)
{
    return SW_OPTS(sw_run_args, .fn = net_step, .user = n, .models = &n->model, .n_models = 1,
                   .inputs = b->in, .n_inputs = 2);
}

double net_train(sw_exec *exec, net *n, const batch *b, int steps)
{
    sw_run_args args = net_args(n, b);
    for (int i = 0; i < steps; i++) {
        args.step = (uint64_t)i;
        OK(sw_run(exec, &args));
    }
    return net_metric(exec, "loss");
}

double net_metric(sw_exec *exec, const char *name)
{
    double x = 0.0;
    OK(sw_metric_get(exec, name, &x));
    return x;
}

bool net_same(const sw_model *a, const sw_model *b)
{
    return a->base != NULL && b->base != NULL && a->bytes == b->bytes &&
           memcmp(a->base, b->base, a->bytes) == 0;
}

void *net_copy_bytes(const sw_model *model)
{
    void *copy = malloc(model->bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    sw_after(free, copy);
    memcpy(copy, model->base, model->bytes);
    return copy;
}

bool net_same_bytes(const sw_model *model, const void *bytes)
{
    return memcmp(model->base, bytes, model->bytes) == 0;
}
