/* The stepwell side of the comparison with PyTorch; compare.py starts it.
 *
 *   torch_peer dump MODEL DIR    writes to DIR: init.safetensors, batches.bin (per batch: 128
 * images of 784 bytes, 128 labels), grads.bin (float32, all parameters in order, of the first
 * batch), after.safetensors (ten Adam steps on ten batches) */
#include <string.h>
#include "peer.h"

enum { BATCH = 128, STEPS = 10 };

typedef struct {
    sw_conv2d conv1, conv2;
    sw_linear fc1, fc2, fc3;
    sw_optimizer *optimizer;
    int is_lenet5;
} net;

static sw_value logits(sw_ctx *ctx, net *n)
{
    sw_value x = sw_to_f32(ctx, sw_input(ctx, 0), 1.0f / 255.0f, 0.0f);
    if (n->is_lenet5) {
        x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, n->conv1, x)), 2);
        x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, n->conv2, x)), 2);
    }
    x = sw_relu(ctx, sw_apply_linear(ctx, n->fc1, sw_flatten(ctx, x)));
    x = sw_relu(ctx, sw_apply_linear(ctx, n->fc2, x));
    return sw_apply_linear(ctx, n->fc3, x);
}

static void gradient_step(sw_ctx *ctx, void *user)
{
    net *n = user;
    sw_value loss = sw_softmax_ce(ctx, logits(ctx, n), sw_input(ctx, 1));
    sw_backward(ctx, loss, &n->optimizer, 1);
    sw_accumulate(ctx, n->optimizer);
}

static void train_step(sw_ctx *ctx, void *user)
{
    net *n = user;
    sw_value loss = sw_softmax_ce(ctx, logits(ctx, n), sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &n->optimizer, 1);
    sw_update(ctx, n->optimizer);
}

static sw_model *make(sw_exec *exec, net *n, int is_lenet5, int keep)
{
    sw_model *model;
    CHECK(sw_model_create(&model, is_lenet5 ? "lenet5" : "mlp"));
    n->is_lenet5 = is_lenet5;
    if (is_lenet5) {
        n->conv1 = sw_conv2d_new(model, "conv1", 1, 6, 5);
        n->conv2 = sw_conv2d_new(model, "conv2", 6, 16, 5);
    }
    n->fc1 = sw_linear_new(model, "fc1", is_lenet5 ? 256 : 784, 120);
    n->fc2 = sw_linear_new(model, "fc2", 120, 84);
    n->fc3 = sw_linear_new(model, "fc3", 84, 10);
    const sw_optimizer_opts opts = {
        .size = sizeof opts, .kind = "adam", .lr = 1e-3f, .keep_gradients = keep};
    CHECK(sw_optimizer_create(&n->optimizer, model, &opts));
    CHECK(sw_model_ready(model, exec, 7));
    return model;
}

static sw_loader *make_loader(sw_dataset **dataset, int64_t samples)
{
    sw_loader *loader;
    CHECK(sw_dataset_synthetic(dataset, samples, 3));
    const sw_loader_opts opts = {
        .size = sizeof opts, .batch = BATCH, .seed = 5, .drop_last = 1};
    CHECK(sw_loader_create(&loader, *dataset, &opts));
    CHECK(sw_loader_epoch(loader, 0));
    return loader;
}

static int dump(const char *name, const char *dir)
{
    const int is_lenet5 = strcmp(name, "lenet5") == 0;
    sw_exec *exec;
    const sw_exec_opts exec_opts = {.size = sizeof exec_opts, .threads = 2};
    CHECK(sw_exec_create(&exec, &exec_opts));
    net kept, trained;
    sw_model *keeper = make(exec, &kept, is_lenet5, 1),
             *model = make(exec, &trained, is_lenet5, 0);
    sw_dataset *dataset;
    sw_loader *loader = make_loader(&dataset, BATCH * STEPS);
    FILE *batches = peer_create(dir, "batches.bin"), *gradients = peer_create(dir, "grads.bin");
    peer_save(model, dir, "init.safetensors");
    for (uint64_t step = 0; step < STEPS; step++) {
        const sw_array *inputs;
        int n_inputs;
        CHECK(sw_loader_next(loader, &inputs, &n_inputs));
        fwrite(inputs[0].data, 1, BATCH * 784, batches);
        fwrite(inputs[1].data, 1, BATCH, batches);
        sw_run_args args = {.size = sizeof args,
                            .fn = train_step,
                            .user = &trained,
                            .models = &model,
                            .n_models = 1,
                            .inputs = inputs,
                            .n_inputs = n_inputs,
                            .step = step};
        CHECK(sw_run(exec, &args));
        args.fn = gradient_step;
        args.user = &kept;
        args.models = &keeper;
        if (step == 0) {
            CHECK(sw_run(exec, &args));
            peer_put_gradients(keeper, gradients);
        }
    }
    peer_save(model, dir, "after.safetensors");
    const int failed = fclose(batches) != 0 || fclose(gradients) != 0;
    sw_loader_destroy(loader);
    sw_dataset_destroy(dataset);
    sw_model_destroy(keeper);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "dump") == 0)
        return dump(argv[2], argv[3]);
    fprintf(stderr, "usage: torch_peer dump mlp|lenet5 DIR\n");
    return 2;
}
