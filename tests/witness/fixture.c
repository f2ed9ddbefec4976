#include "tests/witness/fixture.h"
#include "tests/witness/probe.h"

static sw_value lenet5(sw_ctx *ctx, fixture *f, sw_value x)
{
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, f->conv[0], x)), 2);
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, f->conv[1], x)), 2);
    x = sw_relu(ctx, sw_apply_linear(ctx, f->linear[0], sw_flatten(ctx, x)));
    x = sw_relu(ctx, sw_apply_linear(ctx, f->linear[1], x));
    return sw_apply_linear(ctx, f->linear[2], x);
}

static sw_value mlp(sw_ctx *ctx, fixture *f, sw_value x)
{
    x = sw_relu(ctx, sw_apply_linear(ctx, f->linear[0], sw_flatten(ctx, x)));
    x = sw_relu(ctx, sw_apply_linear(ctx, f->linear[1], x));
    return sw_apply_linear(ctx, f->linear[2], x);
}

/* Sizes that leave padding after most storages; probes stand where faults are planted. */
static sw_value small(sw_ctx *ctx, fixture *f, sw_value x)
{
    const bool probes = f->opts.net == NET_PROBES;
    x = sw_apply_linear(ctx, f->linear[0], sw_flatten(ctx, x));
    if (probes)
        x = probe_apply(ctx, x, 0);
    x = sw_swish(ctx, x);
    x = sw_apply_linear(ctx, f->linear[1], x);
    if (probes)
        x = probe_apply(ctx, x, 1);
    return sw_apply_linear(ctx, f->linear[2], sw_tanh(ctx, x));
}

static void step(sw_ctx *ctx, void *user)
{
    fixture *f = user;
    sw_value x = sw_to_f32(ctx, sw_input(ctx, 0), 1.0f / 255.0f, -0.1f);
    x = f->opts.net == NET_LENET5 ? lenet5(ctx, f, x)
        : f->opts.net == NET_MLP  ? mlp(ctx, f, x)
                                  : small(ctx, f, x);
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, x, sw_input(ctx, 1)));
    if (f->opts.net == NET_SMALL || f->opts.net == NET_PROBES)
        sw_output(ctx, "logits", x);
    sw_backward(ctx, loss, &f->optimizer, 1);
    if (strcmp(f->opts.optimizer, "kept") == 0)
        sw_accumulate(ctx, f->optimizer);
    if (strcmp(f->opts.optimizer, "clip") == 0)
        sw_clip_norm(ctx, f->optimizer, f->clip);
    sw_update(ctx, f->optimizer);
}

static sw_status make_optimizer(fixture *f)
{
    const char *name = f->opts.optimizer;
    const bool adam = strncmp(name, "adam", 4) == 0;
    const sw_optimizer_opts opts = SW_OPTS(
        sw_optimizer_opts, .kind = adam ? name : "sgd", .weight_decay = 0.01f,
        .momentum =
            strcmp(name, "momentum") == 0 || strcmp(name, "nesterov") == 0 ? 0.9f : 0.0f,
        .nesterov = strcmp(name, "nesterov") == 0, .keep_gradients = strcmp(name, "kept") == 0,
        .release = strcmp(name, "release") == 0);
    f->clip = sw_knob_new(f->model, "clip", 0.5f);
    return sw_optimizer_create(&f->optimizer, f->model, &opts);
}

static size_t image_bytes(const fixture *f)
{
    return (size_t)f->opts.batch * (f->opts.net >= NET_SMALL ? 16 : 784);
}

static void destroy(void *arg)
{
    fixture *f = arg;
    sw_model_destroy(f->model);
    sw_exec_destroy(f->exec);
    free(f->images);
    free(f->labels);
    free(f->kept);
    free(f);
}

fixture *fixture_create(const fixture_opts *opts)
{
    fixture *f = calloc(1, sizeof *f);
    f->opts = *opts;
    sw_after(destroy, f);
    const sw_exec_opts exec =
        SW_OPTS(sw_exec_opts, .threads = opts->threads, .seed = 5,
                .no_inplace = opts->no_inplace, .isa = opts->isa, .shares = opts->shares);
    sw_status status = sw_exec_create(&f->exec, &exec);
    if (status == SW_OK)
        status = sw_model_create(&f->model, "net");
    if (status == SW_OK) {
        sw_model *m = f->model;
        switch (f->opts.net) {
        case NET_LENET5:
            f->conv[0] = sw_conv2d_new(m, "conv1", 1, 6, 5);
            f->conv[1] = sw_conv2d_new(m, "conv2", 6, 16, 5);
            f->linear[0] = sw_linear_new(m, "fc1", 256, 120);
            f->linear[1] = sw_linear_new(m, "fc2", 120, 84);
            f->linear[2] = sw_linear_new(m, "fc3", 84, 10);
            break;
        case NET_MLP:
            f->linear[0] = sw_linear_new(m, "fc1", 784, 128);
            f->linear[1] = sw_linear_new(m, "fc2", 128, 64);
            f->linear[2] = sw_linear_new(m, "fc3", 64, 10);
            break;
        default:
            f->linear[0] = sw_linear_new(m, "fc1", 16, 23);
            f->linear[1] = sw_linear_new(m, "fc2", 23, 19);
            f->linear[2] = sw_linear_new(m, "fc3", 19, 10);
        }
        status = make_optimizer(f);
    }
    if (status == SW_OK)
        status = sw_model_ready(f->model, f->exec, 3);
    if (!SW_CHECK(status == SW_OK, "%s", sw_last_error()))
        return NULL;
    sw_dice dice = {(uint64_t)f->opts.batch};
    const bool tiny = f->opts.net >= NET_SMALL;
    const int64_t side = tiny ? 4 : 28;
    f->images = malloc(image_bytes(f));
    f->labels = malloc((size_t)f->opts.batch);
    for (size_t i = 0; i < image_bytes(f); i++)
        f->images[i] = (unsigned char)sw_dice_below(&dice, 256);
    for (int64_t i = 0; i < f->opts.batch; i++)
        f->labels[i] = (unsigned char)sw_dice_below(&dice, 10);
    f->inputs[0] = (sw_array){SW_U8, SW_SHAPE(f->opts.batch, 1, side, side), f->images};
    f->inputs[1] = (sw_array){SW_U8, SW_SHAPE(f->opts.batch), f->labels};
    f->args = SW_OPTS(sw_run_args, .fn = step, .user = f, .models = &f->model, .n_models = 1,
                      .inputs = f->inputs, .n_inputs = 2);
    return f;
}

void fixture_keep(fixture *f)
{
    free(f->kept);
    f->kept = malloc(f->model->bytes + image_bytes(f) + (size_t)f->opts.batch);
    memcpy(f->kept, f->model->base, f->model->bytes);
    memcpy(f->kept + f->model->bytes, f->images, image_bytes(f));
    memcpy(f->kept + f->model->bytes + image_bytes(f), f->labels, (size_t)f->opts.batch);
}

bool fixture_is_kept(const fixture *f)
{
    return memcmp(f->kept, f->model->base, f->model->bytes) == 0 &&
           memcmp(f->kept + f->model->bytes, f->images, image_bytes(f)) == 0 &&
           memcmp(f->kept + f->model->bytes + image_bytes(f), f->labels,
                  (size_t)f->opts.batch) == 0;
}

static void free_clone(void *arg)
{
    swi_program_free(arg);
}

swi_program *fixture_clone(fixture *f)
{
    swi_frame *frame;
    swi_program *clone = NULL;
    bool fresh;
    sw_status status = swi_exec_program(f->exec, &f->args, &frame, &fresh);
    if (status == SW_OK)
        status = swi_program_clone(&clone, frame->program);
    if (!SW_CHECK(status == SW_OK, "%s", sw_last_error()))
        return NULL;
    sw_after(free_clone, clone);
    return clone;
}
