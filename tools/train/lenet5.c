/* LeNet5 on MNIST, or on the built-in digits: lenet5 [DIR] */
#include <stdio.h>
#include <stepwell.h>

typedef struct {
    sw_conv2d conv1, conv2;
    sw_linear fc1, fc2, fc3;
    sw_optimizer *adam;
} lenet5;

/* One step. It is traced once per shape; later runs only compute. */
static void step(sw_ctx *ctx, void *user)
{
    lenet5 *net = user;
    sw_value x = sw_to_f32(ctx, sw_input(ctx, 0), 1 / 255.0f, 0), labels = sw_input(ctx, 1);
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, net->conv1, x)), 2);
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, net->conv2, x)), 2);
    x = sw_relu(ctx, sw_apply_linear(ctx, net->fc1, sw_flatten(ctx, x)));
    x = sw_relu(ctx, sw_apply_linear(ctx, net->fc2, x));
    x = sw_apply_linear(ctx, net->fc3, x);
    sw_value loss = sw_softmax_ce(ctx, x, labels);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, x, labels));
    if (sw_ctx_mode(ctx) == SW_TRAIN) {
        sw_backward(ctx, loss, &net->adam, 1);
        sw_update(ctx, net->adam);
    }
}

/* One pass over `data`; prints the share of images that were right. */
static sw_status pass(sw_exec *exec, sw_run_args *args, const sw_dataset *data,
                      const char *what)
{
    double right = 0, images = 0, share;
    sw_loader *loader;
    SW_TRY(sw_loader_create(
        &loader, data, &(sw_loader_opts){sizeof(sw_loader_opts), .batch = 128, .shuffle = 1}));
    SW_TRY(sw_loader_epoch(loader, 0));
    for (;; args->step++) {
        SW_TRY(sw_loader_next(loader, &args->inputs, &args->n_inputs));
        if (args->n_inputs == 0)
            break;
        SW_TRY(sw_run(exec, args));
        SW_TRY(sw_metric_get(exec, "accuracy", &share));
        right += share * (double)args->inputs[0].shape.dim[0];
        images += (double)args->inputs[0].shape.dim[0];
    }
    printf("%s: %.2f %% of %.0f\n", what, 100 * right / images, images);
    sw_loader_destroy(loader);
    return SW_OK;
}

static sw_status train(const char *dir)
{
    sw_exec *exec;
    sw_model *model;
    sw_dataset *images, *tests;
    SW_TRY(dir ? sw_dataset_idx(&images, dir, "train")
               : sw_dataset_synthetic(&images, 10000, 1));
    SW_TRY(dir ? sw_dataset_idx(&tests, dir, "t10k") : sw_dataset_synthetic(&tests, 2000, 2));
    SW_TRY(sw_exec_create(&exec, &(sw_exec_opts){sizeof(sw_exec_opts), .threads = 2}));
    SW_TRY(sw_model_create(&model, "lenet5"));
    lenet5 net = {
        sw_conv2d_new(model, "conv1", 1, 6, 5), sw_conv2d_new(model, "conv2", 6, 16, 5),
        sw_linear_new(model, "fc1", 256, 120),  sw_linear_new(model, "fc2", 120, 84),
        sw_linear_new(model, "fc3", 84, 10),    NULL};
    sw_optimizer_opts adam = {sizeof adam, .kind = "adam", .lr = 0.002f};
    SW_TRY(sw_optimizer_create(&net.adam, model, &adam));
    SW_TRY(sw_model_ready(model, exec, 1));

    sw_run_args args = {sizeof args, step, &net, &model, 1, .mode = SW_TRAIN};
    SW_TRY(pass(exec, &args, images, "training"));
    args.mode = SW_EVAL;
    SW_TRY(pass(exec, &args, tests, "test"));
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    sw_dataset_destroy(tests);
    sw_dataset_destroy(images);
    return SW_OK;
}

int main(int argc, char **argv)
{
    if (train(argc > 1 ? argv[1] : NULL) == SW_OK)
        return 0;
    fprintf(stderr, "lenet5: %s\n", sw_last_error());
    return 1;
}
