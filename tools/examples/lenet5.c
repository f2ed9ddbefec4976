/* LeNet5 learns digits that the library draws: one epoch, on the public header alone. */
#include <stdio.h>
#include <stepwell.h>

static sw_conv2d conv1, conv2;
static sw_linear fc1, fc2, fc3;

/* Traced and planned once for each shape of the inputs; later runs only compute. */
static void step(sw_ctx *c, void *adam)
{
    sw_value x = sw_to_f32(c, sw_input(c, 0), 1 / 128.0f, -1), labels = sw_input(c, 1);
    x = sw_max_pool(c, sw_relu(c, sw_apply_conv2d(c, conv1, x)), 2);
    x = sw_max_pool(c, sw_relu(c, sw_apply_conv2d(c, conv2, x)), 2);
    x = sw_relu(c, sw_apply_linear(c, fc1, sw_flatten(c, x)));
    x = sw_apply_linear(c, fc3, sw_relu(c, sw_apply_linear(c, fc2, x)));
    sw_metric(c, "accuracy", sw_accuracy(c, x, labels));
    sw_backward(c, sw_softmax_ce(c, x, labels), (sw_optimizer *[]){adam}, 1);
    sw_update(c, adam);
}

int main(void)
{
    const sw_optimizer_opts how = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.002f);
    const sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = 128, .shuffle = 1);
    sw_exec *exec = NULL;
    sw_model *m = NULL;
    sw_optimizer *adam = NULL;
    sw_dataset *data = NULL;
    sw_loader *l = NULL;
    double share = 0;
    int bad = sw_exec_create(&exec, NULL) || sw_model_create(&m, "lenet5");
    conv1 = sw_conv2d_new(m, "conv1", 1, 6, 5), conv2 = sw_conv2d_new(m, "conv2", 6, 16, 5);
    fc1 = sw_linear_new(m, "fc1", 256, 120), fc2 = sw_linear_new(m, "fc2", 120, 84);
    fc3 = sw_linear_new(m, "fc3", 84, 10);
    bad = bad || sw_optimizer_create(&adam, m, &how) || sw_model_ready(m, exec, 1) ||
          sw_dataset_synthetic(&data, 10000, 1) || sw_loader_create(&l, data, &opts) ||
          sw_loader_epoch(l, 0);
    sw_run_args r = SW_OPTS(sw_run_args, .fn = step, .user = adam, .models = &m, .n_models = 1);
    while (!bad && !(bad = sw_loader_next(l, &r.inputs, &r.n_inputs)) && r.n_inputs > 0)
        bad = sw_run(exec, &r) || sw_metric_get(exec, "accuracy", &share);
    printf("right in the last batch: %.0f %% %s\n", 100 * share, bad ? sw_last_error() : "");
    sw_loader_destroy(l), sw_dataset_destroy(data), sw_model_destroy(m), sw_exec_destroy(exec);
    return bad;
}
