/* A convolutional autoencoder that takes noise out of digits: an encoder of strided
 * convolutions, a decoder of a transposed convolution and a bilinear upsampling. Its memory is
 * printed before the first step, and what it has learned after the last one.
 *
 * cc autoencoder.c $(pkg-config --cflags --libs stepwell) */
#include <stdio.h>
#include <stepwell.h>

enum { IMAGES = 6000, BATCH = 60, EPOCHS = 4, SIDE = 28 };

typedef struct {
    sw_conv2d down1, down2, out;
    sw_conv_transpose2d up;
    sw_optimizer *adam;
} autoencoder;

static void step(sw_ctx *c, void *user)
{
    autoencoder *net = user;
    const sw_value x = sw_to_f32(c, sw_input(c, 0), 1 / 255.0f, 0);
    const sw_shape shape = SW_SHAPE(sw_dim(c, x, 0), 1, SIDE, SIDE);
    const sw_value noise = sw_scale_by(c, sw_randn(c, "noise", shape), 0.3f);
    const sw_value noisy = sw_add(c, x, noise);
    sw_value h = sw_relu(c, sw_apply_conv2d(c, net->down1, noisy)); /* (batch, 8, 14, 14) */
    h = sw_relu(c, sw_apply_conv2d(c, net->down2, h));              /* (batch, 16, 7, 7) */
    h = sw_relu(c, sw_apply_conv_transpose2d(c, net->up, h));       /* (batch, 8, 14, 14) */
    h = sw_upsample(c, h, 2, SW_BILINEAR);                          /* (batch, 8, 28, 28) */
    h = sw_apply_conv2d(c, net->out, h);
    const sw_value y = sw_sigmoid(c, h);
    sw_metric(c, "noise", sw_mse(c, noisy, x));
    sw_metric(c, "error", sw_mse(c, y, x));
    /* The first image, noisy and cleaned, side by side: (1, 1, 28, 2, 28). */
    const sw_value both[] = {sw_slice(c, noisy, 0, 0, 1), sw_slice(c, y, 0, 0, 1)};
    sw_output(c, "picture", sw_stack(c, both, 2, -2));
    sw_backward(c, sw_bce_with(c, h, x), &net->adam, 1);
    sw_update(c, net->adam);
}

static void declare(autoencoder *net, sw_model *model)
{
    const sw_conv_opts half = SW_OPTS(sw_conv_opts, .stride = 2, .pad = 1);
    const sw_conv_opts same = SW_OPTS(sw_conv_opts, .pad = 1);
    const sw_conv_transpose_opts twice = SW_OPTS(sw_conv_transpose_opts, .stride = 2, .pad = 1);
    net->down1 = sw_conv2d_new_with(model, "down1", 1, 8, 3, &half);
    net->down2 = sw_conv2d_new_with(model, "down2", 8, 16, 3, &half);
    net->up = sw_conv_transpose2d_new(model, "up", 16, 8, 4, &twice);
    net->out = sw_conv2d_new_with(model, "out", 8, 1, 3, &same);
}

static sw_status print_plan(sw_exec *exec, const sw_run_args *args)
{
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    SW_TRY(sw_plan(exec, args, &plan));
    printf("model %zu bytes, step %zu bytes, peak %zu bytes in %s\n", plan.model_bytes,
           plan.arena_bytes, plan.peak_bytes, plan.peak_op);
    return SW_OK;
}

/* Every second row, by the darkness of each pixel. */
static sw_status print_picture(sw_exec *exec)
{
    static const char shades[] = " .:-=+*#%@";
    sw_array picture;
    SW_TRY(sw_output_get(exec, "picture", &picture));
    const float *pixel = picture.data;
    for (int i = 0; i < SIDE * 2 * SIDE; i++) {
        const float v = pixel[i] < 0 ? 0 : pixel[i] > 1 ? 1 : pixel[i];
        if (i / (2 * SIDE) % 2 == 0) {
            putchar(shades[(int)(9 * v)]);
            if (i % (2 * SIDE) == 2 * SIDE - 1)
                putchar('\n');
        }
    }
    return SW_OK;
}

static sw_status train(sw_exec *exec, sw_model *model, sw_loader *loader)
{
    const sw_optimizer_opts how = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.005f);
    autoencoder net;
    double noise = 0, error = 0;
    declare(&net, model);
    SW_TRY(sw_optimizer_create(&net.adam, model, &how));
    sw_run_args args =
        SW_OPTS(sw_run_args, .fn = step, .user = &net, .models = &model, .n_models = 1);
    SW_TRY(sw_loader_epoch(loader, 0));
    SW_TRY(sw_loader_next(loader, &args.inputs, &args.n_inputs));
    SW_TRY(print_plan(exec, &args));
    SW_TRY(sw_model_ready(model, exec, 1));
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        for (; args.n_inputs > 0; args.step++) {
            SW_TRY(sw_run(exec, &args));
            SW_TRY(sw_loader_next(loader, &args.inputs, &args.n_inputs));
        }
        SW_TRY(sw_loader_epoch(loader, epoch));
        SW_TRY(sw_loader_next(loader, &args.inputs, &args.n_inputs));
    }
    SW_TRY(print_picture(exec));
    SW_TRY(sw_metric_get(exec, "noise", &noise));
    SW_TRY(sw_metric_get(exec, "error", &error));
    printf("mean squared error: %.4f of the noisy images, %.4f of the cleaned ones\n", noise,
           error);
    return error < noise / 2 ? SW_OK : SW_INVALID;
}

int main(void)
{
    const sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = BATCH, .shuffle = 1);
    sw_exec *exec = NULL;
    sw_model *model = NULL;
    sw_dataset *data = NULL;
    sw_loader *loader = NULL;
    const int failed = sw_exec_create(&exec, NULL) || sw_model_create(&model, "autoencoder") ||
                       sw_dataset_synthetic(&data, IMAGES, 1) ||
                       sw_loader_create(&loader, data, &opts) || train(exec, model, loader);
    if (failed)
        fprintf(stderr, "autoencoder: %s\n", sw_last_error());
    sw_loader_destroy(loader), sw_dataset_destroy(data);
    sw_model_destroy(model), sw_exec_destroy(exec);
    return failed;
}
