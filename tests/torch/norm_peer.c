/* The stepwell side of compare_norm.py: small nets with one kind of normalisation.
 *
 *   norm_peer KIND BATCH DIR    KIND: layer, rms, group, batch. Writes to DIR:
 * init.safetensors, batches.bin (per batch BATCH images of 784 bytes and BATCH labels),
 * grads.bin (float32, all parameters in order, of the first batch), outputs.bin (float32:
 * logits of the first batch while training, and in evaluation after ten Adam steps),
 * after.safetensors */
#include "peer.h"
#include <string.h>

enum { STEPS = 10, HIDDEN = 100 };

typedef struct {
    const char *kind;
    int images; /* group, batch */
    sw_conv2d conv[2];
    sw_group_norm group[2];
    sw_batch_norm2d batch[2];
    sw_layer_norm layer[2];
    sw_rms_norm rms[2];
    sw_linear fc[3];
    sw_optimizer *optimizer;
} net;

static sw_value normalise(sw_ctx *c, const net *n, int i, sw_value x)
{
    if (n->kind[0] == 'l')
        return sw_apply_layer_norm(c, n->layer[i], x);
    if (n->kind[0] == 'r')
        return sw_apply_rms_norm(c, n->rms[i], x);
    return n->kind[0] == 'g' ? sw_apply_group_norm(c, n->group[i], x)
                             : sw_apply_batch_norm2d(c, n->batch[i], x);
}

static sw_value logits(sw_ctx *c, const net *n)
{
    sw_value x = sw_to_f32(c, sw_input(c, 0), 1.0f / 255.0f, 0.0f);
    for (int i = 0; i < 2 && n->images; i++) {
        x = normalise(c, n, i, sw_apply_conv2d(c, n->conv[i], x));
        x = sw_max_pool(c, sw_swish(c, x), 2);
    }
    x = sw_flatten(c, x);
    for (int i = 0; i < 2 && !n->images; i++)
        x = sw_swish(c, normalise(c, n, i, sw_apply_linear(c, n->fc[i], x)));
    return sw_apply_linear(c, n->fc[2], x);
}

static void train_step(sw_ctx *c, void *user)
{
    net *n = user;
    const sw_value x = logits(c, n);
    sw_output(c, "logits", x);
    sw_backward(c, sw_softmax_ce(c, x, sw_input(c, 1)), &n->optimizer, 1);
    sw_accumulate(c, n->optimizer);
    sw_update(c, n->optimizer);
}

static void test_step(sw_ctx *c, void *user)
{
    sw_output(c, "logits", logits(c, user));
}

static sw_conv2d conv(sw_model *model, const char *name, int64_t in, int64_t out)
{
    /* No bias: normalisation takes it away. */
    return (sw_conv2d){
        .weight = sw_param_new(model, name, SW_F32, SW_SHAPE(out, in, 5, 5), "kaiming_uniform"),
        .stride = 1};
}

static sw_model *make(sw_exec *exec, net *n, const char *kind)
{
    static const char *const names[] = {"norm0", "norm1"};
    sw_model *model;
    CHECK(sw_model_create(&model, kind));
    memset(n, 0, sizeof *n);
    n->kind = kind;
    n->images = kind[0] == 'g' || kind[0] == 'b';
    if (n->images) {
        n->conv[0] = conv(model, "conv0.weight", 1, 8);
        n->conv[1] = conv(model, "conv1.weight", 8, 12);
    } else {
        n->fc[0] = sw_linear_new(model, "fc0", 784, HIDDEN);
        n->fc[1] = sw_linear_new(model, "fc1", HIDDEN, HIDDEN);
    }
    for (int i = 0; i < 2; i++) {
        if (kind[0] == 'l')
            n->layer[i] = sw_layer_norm_new(model, names[i], HIDDEN);
        else if (kind[0] == 'r')
            n->rms[i] = sw_rms_norm_new(model, names[i], HIDDEN);
        else if (kind[0] == 'g')
            n->group[i] = sw_group_norm_new(model, names[i], 4, i == 0 ? 8 : 12);
        else
            n->batch[i] = sw_batch_norm2d_new(model, names[i], i == 0 ? 8 : 12);
    }
    n->fc[2] = sw_linear_new(model, "fc2", n->images ? 192 : HIDDEN, 10);
    const sw_optimizer_opts opts = {
        .size = sizeof opts, .kind = "adam", .lr = 1e-3f, .keep_gradients = 1};
    CHECK(sw_optimizer_create(&n->optimizer, model, &opts));
    CHECK(sw_model_ready(model, exec, 7));
    return model;
}

static void put_logits(sw_exec *exec, FILE *to, size_t batch)
{
    sw_array a;
    CHECK(sw_output_get(exec, "logits", &a));
    peer_put(to, a.data, batch * 10 * sizeof(float));
}

int main(int argc, char **argv)
{
    const int batch = argc == 4 ? atoi(argv[2]) : 0;
    if (batch < 1 || strchr("lrgb", argv[1][0]) == NULL) {
        fprintf(stderr, "usage: norm_peer layer|rms|group|batch BATCH DIR\n");
        return 2;
    }
    sw_exec *exec;
    const sw_exec_opts exec_opts = {.size = sizeof exec_opts, .threads = 2};
    CHECK(sw_exec_create(&exec, &exec_opts));
    net n;
    sw_model *model = make(exec, &n, argv[1]);
    sw_dataset *dataset;
    sw_loader *loader;
    CHECK(sw_dataset_synthetic(&dataset, (int64_t)batch * STEPS, 3));
    const sw_loader_opts opts = {.size = sizeof opts, .batch = batch, .seed = 5};
    CHECK(sw_loader_create(&loader, dataset, &opts));
    CHECK(sw_loader_epoch(loader, 0));
    FILE *batches = peer_create(argv[3], "batches.bin"),
         *grads = peer_create(argv[3], "grads.bin"),
         *outputs = peer_create(argv[3], "outputs.bin");
    peer_save(model, argv[3], "init.safetensors");
    for (uint64_t step = 0; step < STEPS; step++) {
        sw_run_args args = {.size = sizeof args,
                            .fn = train_step,
                            .user = &n,
                            .models = &model,
                            .n_models = 1,
                            .step = step};
        CHECK(sw_loader_next(loader, &args.inputs, &args.n_inputs));
        peer_put(batches, args.inputs[0].data, (size_t)batch * 784);
        peer_put(batches, args.inputs[1].data, (size_t)batch);
        CHECK(sw_run(exec, &args));
        if (step == 0) {
            peer_put_gradients(model, grads);
            put_logits(exec, outputs, (size_t)batch);
        }
        if (step == STEPS - 1) {
            args.fn = test_step;
            args.mode = SW_EVAL;
            CHECK(sw_run(exec, &args));
            put_logits(exec, outputs, (size_t)batch);
        }
    }
    peer_save(model, argv[3], "after.safetensors");
    const int failed = (fclose(batches) != 0) + (fclose(grads) != 0) + (fclose(outputs) != 0);
    sw_loader_destroy(loader);
    sw_dataset_destroy(dataset);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return failed != 0;
}
