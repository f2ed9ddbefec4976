/* LeNet5 on MNIST, or on the built-in digits: lenet5 [DIR] */
#include <stdio.h>
#include <stdlib.h>
#include <stepwell.h>

typedef struct {
    sw_conv2d conv1, conv2;
    sw_linear fc1, fc2, fc3;
    sw_optimizer *adam;
    float mean, deviation; /* of the training pixels */
} lenet5;

static void check(sw_status status)
{
    if (status == SW_OK)
        return;
    fprintf(stderr, "lenet5: %s\n", sw_last_error());
    exit(1);
}

/* One step. It is traced once per shape; later runs only compute. */
static void step(sw_ctx *ctx, void *user)
{
    const lenet5 *net = user;
    const float scale = 1 / (255 * net->deviation), shift = -net->mean / net->deviation;
    sw_value x = sw_to_f32(ctx, sw_input(ctx, 0), scale, shift), labels = sw_input(ctx, 1);
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, net->conv1, x)), 2);
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, net->conv2, x)), 2);
    x = sw_relu(ctx, sw_apply_linear(ctx, net->fc1, sw_flatten(ctx, x)));
    x = sw_relu(ctx, sw_apply_linear(ctx, net->fc2, x));
    x = sw_apply_linear(ctx, net->fc3, x);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, x, labels));
    if (sw_ctx_mode(ctx) == SW_TRAIN) {
        sw_backward(ctx, sw_softmax_ce(ctx, x, labels), &net->adam, 1);
        sw_update(ctx, net->adam);
    }
}

/* One pass over the images for training, or those for testing. */
static void pass(sw_exec *exec, sw_run_args args, const char *dir)
{
    lenet5 *net = args.user;
    const int train = args.mode == SW_TRAIN;
    const sw_loader_opts opts = {.size = sizeof opts, .batch = 128, .shuffle = train};
    double right = 0, images = 0, share;
    sw_dataset *data;
    sw_loader *loader;
    check(dir ? sw_dataset_idx(&data, dir, train ? "train" : "t10k")
              : sw_dataset_synthetic(&data, train ? 10000 : 2000, train ? 1 : 2));
    if (train)
        check(sw_dataset_moments(data, 0, 1, &net->mean, &net->deviation));
    check(sw_loader_create(&loader, data, &opts));
    check(sw_loader_epoch(loader, 0));
    for (;;) {
        check(sw_loader_next(loader, &args.inputs, &args.n_inputs));
        if (args.n_inputs == 0)
            break;
        check(sw_run(exec, &args));
        check(sw_metric_get(exec, "accuracy", &share));
        right += share * (double)args.inputs[0].shape.dim[0];
        images += (double)args.inputs[0].shape.dim[0];
    }
    printf("%s: %.2f %% of %.0f\n", train ? "training" : "test", 100 * right / images, images);
    sw_loader_destroy(loader);
    sw_dataset_destroy(data);
}

int main(int argc, char **argv)
{
    const sw_exec_opts exec_opts = {.size = sizeof exec_opts, .threads = 2};
    const sw_optimizer_opts adam = {.size = sizeof adam, .kind = "adam", .lr = 0.002f};
    sw_exec *exec;
    sw_model *model;
    check(sw_exec_create(&exec, &exec_opts));
    check(sw_model_create(&model, "lenet5"));
    lenet5 net = {.conv1 = sw_conv2d_new(model, "conv1", 1, 6, 5),
                  .conv2 = sw_conv2d_new(model, "conv2", 6, 16, 5),
                  .fc1 = sw_linear_new(model, "fc1", 256, 120),
                  .fc2 = sw_linear_new(model, "fc2", 120, 84),
                  .fc3 = sw_linear_new(model, "fc3", 84, 10)};
    check(sw_optimizer_create(&net.adam, model, &adam));
    check(sw_model_ready(model, exec, 1));

    sw_run_args args = {.size = sizeof args,
                        .fn = step,
                        .user = &net,
                        .models = &model,
                        .n_models = 1,
                        .mode = SW_TRAIN};
    pass(exec, args, argc > 1 ? argv[1] : NULL);
    args.mode = SW_EVAL;
    pass(exec, args, argc > 1 ? argv[1] : NULL);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return 0;
}
