/* The subjects: a small perceptron on a fixed batch, and LeNet5 with a loader. */
#include "alloc/base/mem.h"
#include "tools/bench/bench.h"

enum { IN = 40, H1 = 64, H2 = 32, OUT = 10, IMAGES = 128 * 32 };

/* ---- the small one ----------------------------------------------------------------------- */

static void small_step(sw_ctx *ctx, void *user)
{
    bench_small *s = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < 3; i++) {
        x = sw_apply_linear(ctx, s->fc[i], x);
        x = i < 2 ? sw_relu(ctx, x) : x;
    }
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &s->optimizer, 1);
    sw_update(ctx, s->optimizer);
}

/* Any numbers in -1..1 do; labels that follow from them keep the loss from running away. */
static sw_status small_batch(bench_small *s)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_DATASETS, (size_t)s->batch * IN * sizeof(float)));
    s->x = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_DATASETS, (size_t)s->batch));
    s->y = block;
    uint32_t state = 1;
    for (int64_t i = 0; i < s->batch * IN; i++) {
        state = state * 1664525u + 1013904223u;
        s->x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    for (int64_t i = 0; i < s->batch; i++)
        s->y[i] = (unsigned char)((s->x[i * IN] + 1.0f) * 4.99f);
    s->inputs[0] = (sw_array){SW_F32, SW_SHAPE(s->batch, IN), s->x};
    s->inputs[1] = (sw_array){SW_U8, SW_SHAPE(s->batch), s->y};
    return SW_OK;
}

static sw_status small_open(bench_small *s, const sw_exec_opts *opts)
{
    SW_TRY(sw_exec_create(&s->exec, opts));
    SW_TRY(sw_model_create(&s->model, "small"));
    s->fc[0] = sw_linear_new(s->model, "fc1", IN, H1);
    s->fc[1] = sw_linear_new(s->model, "fc2", H1, H2);
    s->fc[2] = sw_linear_new(s->model, "fc3", H2, OUT);
    const sw_optimizer_opts adam = {.size = sizeof adam, .kind = "adam"};
    SW_TRY(sw_optimizer_create(&s->optimizer, s->model, &adam));
    SW_TRY(sw_model_ready(s->model, s->exec, 1));
    SW_TRY(small_batch(s));
    SW_TRY(bench_small_step(s));
    return bench_small_step(s);
}

sw_status bench_small_create(bench_small *s, int64_t batch, const sw_exec_opts *opts)
{
    *s = (bench_small){.batch = batch};
    const sw_status status = small_open(s, opts);
    if (status != SW_OK)
        bench_small_destroy(s);
    return status;
}

sw_status bench_small_step(bench_small *s)
{
    const sw_run_args args = {.size = sizeof args,
                              .fn = small_step,
                              .user = s,
                              .models = &s->model,
                              .n_models = 1,
                              .inputs = s->inputs,
                              .n_inputs = 2,
                              .mode = SW_TRAIN,
                              .step = s->step++};
    return sw_run(s->exec, &args);
}

void bench_small_destroy(bench_small *s)
{
    sw_model_destroy(s->model);
    sw_exec_destroy(s->exec);
    sw_heap_free(s->x, SW_HEAP_DATASETS, (size_t)s->batch * IN * sizeof(float));
    sw_heap_free(s->y, SW_HEAP_DATASETS, (size_t)s->batch);
    *s = (bench_small){0};
}

/* ---- LeNet5 ------------------------------------------------------------------------------ */

static sw_status lenet_open(bench_lenet *l, int64_t batch, const sw_exec_opts *opts)
{
    SW_TRY(sw_dataset_synthetic(&l->set, batch > IMAGES ? batch : IMAGES, 1));
    SW_TRY(sw_exec_create(&l->exec, opts));
    tool_net_opts net;
    SW_TRY(tool_net_digits(&net, "lenet5"));
    SW_TRY(tool_net_create(&l->net, &net));
    SW_TRY(sw_model_ready(l->net.model, l->exec, 1));
    const sw_loader_opts loader = {
        .size = sizeof loader, .batch = batch, .shuffle = 1, .drop_last = 1};
    SW_TRY(sw_loader_create(&l->loader, l->set, &loader));
    SW_TRY(sw_loader_epoch(l->loader, 0));
    SW_TRY(bench_lenet_step(l));
    return bench_lenet_step(l);
}

sw_status bench_lenet_create(bench_lenet *l, int64_t batch, bool one_batch,
                             const sw_exec_opts *opts)
{
    *l = (bench_lenet){.one_batch = one_batch};
    const sw_status status = lenet_open(l, batch, opts);
    if (status != SW_OK)
        bench_lenet_destroy(l);
    return status;
}

static sw_status next_batch(bench_lenet *l)
{
    int n;
    SW_TRY(sw_loader_next(l->loader, &l->inputs, &n));
    if (n > 0)
        return SW_OK;
    SW_TRY(sw_loader_epoch(l->loader, ++l->epoch));
    return sw_loader_next(l->loader, &l->inputs, &n);
}

sw_status bench_lenet_step(bench_lenet *l)
{
    if (l->inputs == NULL || !l->one_batch)
        SW_TRY(next_batch(l));
    const sw_run_args args = {.size = sizeof args,
                              .fn = tool_net_step,
                              .user = &l->net,
                              .models = &l->net.model,
                              .n_models = 1,
                              .inputs = l->inputs,
                              .n_inputs = 2,
                              .mode = SW_TRAIN,
                              .step = l->step++};
    return sw_run(l->exec, &args);
}

void bench_lenet_destroy(bench_lenet *l)
{
    sw_loader_destroy(l->loader);
    if (l->net.model != NULL)
        tool_net_destroy(&l->net);
    sw_exec_destroy(l->exec);
    sw_dataset_destroy(l->set);
    *l = (bench_lenet){0};
}
