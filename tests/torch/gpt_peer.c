/* The stepwell side of compare_gpt.py; writes to the folder DIR.
 *
 * "dump DIR": init.safetensors; batches.bin, per step ids and those that follow, a byte each;
 * grads.bin, float32, all parameters in order, of the first step; after.safetensors, after ten
 * AdamW steps. "ops DIR": one step of single ops, init.safetensors and grads.bin, the loss,
 * then all parameters. "peak BUDGET": prints the peak bytes of a large step, planned and
 * measured, under a budget (0: none), and which share of its cost is repeated ops. */
#include "peer.h"
#include "tools/models/gpt_net.h"
#include <string.h>

enum { STEPS = 10, BATCH = 5, CONTEXT = 23 };

typedef struct {
    sw_budget *budget;
    sw_exec *exec;
    sw_model *model;
    gpt_net *net;
    sw_optimizer *optimizer;
} trainer;

static void step(sw_ctx *ctx, void *user)
{
    const trainer *t = user;
    const sw_value loss = gpt_net_loss(ctx, t->net, sw_input(ctx, 0), sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &t->optimizer, 1);
    sw_update(ctx, t->optimizer);
}

static void open_trainer(trainer *t, const gpt_shape *shape, sw_optimizer_opts opts,
                         size_t budget)
{
    t->budget = NULL;
    if (budget > 0)
        CHECK(sw_budget_create(&t->budget, budget));
    const sw_exec_opts exec = {.size = sizeof exec, .threads = 2, .budget = t->budget};
    opts.size = sizeof opts;
    opts.kind = "adamw";
    opts.lr = 1e-3f;
    opts.weight_decay = 0.1f;
    t->net = calloc(1, gpt_net_bytes(shape->layers));
    if (t->net == NULL)
        exit(1);
    CHECK(gpt_shape_check(shape));
    CHECK(sw_exec_create(&t->exec, &exec));
    CHECK(sw_model_create(&t->model, "gpt"));
    gpt_net_declare(t->net, t->model, shape);
    CHECK(sw_optimizer_create(&t->optimizer, t->model, &opts));
    CHECK(sw_model_ready(t->model, t->exec, 7));
}

static void close_trainer(trainer *t)
{
    sw_model_destroy(t->model);
    sw_exec_destroy(t->exec);
    sw_budget_destroy(t->budget);
    free(t->net);
}

static sw_run_args args_of(trainer *t, const sw_array *inputs, uint64_t number)
{
    return (sw_run_args){.size = sizeof(sw_run_args),
                         .fn = step,
                         .user = t,
                         .models = &t->model,
                         .n_models = 1,
                         .inputs = inputs,
                         .n_inputs = 2,
                         .step = number};
}

static void save(const trainer *t, const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK(sw_model_save(t->model, path));
}

static int dump(const char *dir)
{
    static uint8_t ids[BATCH * CONTEXT], next[BATCH * CONTEXT];
    const gpt_shape shape = {
        .layers = 2, .width = 48, .heads = 3, .context = CONTEXT, .vocabulary = 61};
    const sw_array inputs[] = {{SW_U8, SW_SHAPE(BATCH, CONTEXT), ids},
                               {SW_U8, SW_SHAPE(BATCH, CONTEXT), next}};
    trainer t;
    open_trainer(&t, &shape, (sw_optimizer_opts){.keep_gradients = 1}, 0);
    FILE *batches = peer_create(dir, "batches.bin"), *gradients = peer_create(dir, "grads.bin");
    save(&t, dir, "init.safetensors");
    unsigned state = 12345;
    for (uint64_t number = 0; number < STEPS; number++) {
        for (int i = 0; i < BATCH * CONTEXT; i++) {
            state = state * 1103515245u + 12345u;
            ids[i] = (uint8_t)(state >> 16) % 61;
            next[i] = (uint8_t)((ids[i] * 7 + 3) % 61);
        }
        peer_put(batches, ids, sizeof ids);
        peer_put(batches, next, sizeof next);
        const sw_run_args args = args_of(&t, inputs, number);
        CHECK(sw_run(t.exec, &args));
        if (number == 0)
            peer_put_gradients(t.model, gradients);
    }
    save(&t, dir, "after.safetensors");
    const int failed = fclose(batches) != 0 || fclose(gradients) != 0;
    close_trainer(&t);
    return failed;
}

/* ---- single ops -------------------------------------------------------------------------- */

enum { IMAGES = 3, QUERIES = 11, KEYS = 70, CLASSES = 30 };

typedef struct {
    sw_param q, kv, weight, bias;
    sw_optimizer *optimizer;
} ops;

/* More keys than queries, halves of a tensor, smoothed labels of which one is ignored. */
static void ops_step(sw_ctx *ctx, void *user)
{
    const ops *o = user;
    sw_value kv[2], half[2];
    sw_split(ctx, sw_use(ctx, o->kv), 24, -1, kv, 2);
    const sw_value y = sw_attention(ctx, sw_use(ctx, o->q), kv[0], kv[1], 4, 0, 0.3f);
    sw_split(ctx, y, 12, -1, half, 2);
    const sw_value z = sw_reshape(ctx, sw_swiglu(ctx, half[0], half[1]), SW_SHAPE(-1, 12));
    const sw_value logs = sw_log_softmax(ctx, z);
    const sw_value ce = sw_linear_ce_with(ctx, z, sw_use(ctx, o->weight), sw_use(ctx, o->bias),
                                          sw_input(ctx, 0), 0.1f, 5);
    const sw_value loss = sw_add(ctx, sw_mean(ctx, sw_mul(ctx, logs, logs), 0), ce);
    sw_output(ctx, "loss", loss);
    sw_backward(ctx, loss, &o->optimizer, 1);
    sw_accumulate(ctx, o->optimizer);
}

static int dump_ops(const char *dir)
{
    static int32_t labels[IMAGES * QUERIES];
    const sw_array input = {SW_I32, SW_SHAPE(IMAGES * QUERIES), labels};
    const sw_exec_opts exec = {.size = sizeof exec, .threads = 2};
    const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd", .keep_gradients = 1};
    trainer t = {.net = NULL};
    ops o;
    sw_array loss;
    for (int i = 0; i < IMAGES * QUERIES; i++)
        labels[i] = i * 7 % CLASSES;
    CHECK(sw_exec_create(&t.exec, &exec));
    CHECK(sw_model_create(&t.model, "ops"));
    o.q = sw_param_new(t.model, "q", SW_F32, SW_SHAPE(IMAGES, QUERIES, 24), "normal:1");
    o.kv = sw_param_new(t.model, "kv", SW_F32, SW_SHAPE(IMAGES, KEYS, 48), "normal:1");
    o.weight = sw_param_new(t.model, "weight", SW_F32, SW_SHAPE(CLASSES, 12), "normal:1");
    o.bias = sw_param_new(t.model, "bias", SW_F32, SW_SHAPE(CLASSES), "normal:1");
    CHECK(sw_optimizer_create(&o.optimizer, t.model, &sgd));
    CHECK(sw_model_ready(t.model, t.exec, 7));
    save(&t, dir, "init.safetensors");
    const sw_run_args args = {.size = sizeof args,
                              .fn = ops_step,
                              .user = &o,
                              .models = &t.model,
                              .n_models = 1,
                              .inputs = &input,
                              .n_inputs = 1};
    CHECK(sw_run(t.exec, &args));
    CHECK(sw_output_get(t.exec, "loss", &loss));
    FILE *to = peer_create(dir, "grads.bin");
    peer_put(to, loss.data, sizeof(float));
    peer_put_gradients(t.model, to);
    const int failed = fclose(to) != 0;
    close_trainer(&t);
    return failed;
}

/* ---- peak -------------------------------------------------------------------------------- */

/* budget: bytes of model, arena and batch; 0: none */
static int peak(size_t budget)
{
    enum { batch = 8, context = 128 };
    static int32_t ids[batch * context], next[batch * context];
    const gpt_shape shape = {
        .layers = 4, .width = 256, .heads = 8, .context = context, .vocabulary = 8192};
    const sw_array inputs[] = {{SW_I32, SW_SHAPE(batch, context), ids},
                               {SW_I32, SW_SHAPE(batch, context), next}};
    sw_plan_info plan = {.size = sizeof plan};
    sw_run_info run = {.size = sizeof run};
    trainer t;
    for (int i = 0; i < batch * context; i++) {
        ids[i] = i * 37 % 8192;
        next[i] = (i + 1) * 37 % 8192;
    }
    open_trainer(&t, &shape, (sw_optimizer_opts){.release = 1}, budget);
    sw_run_args args = args_of(&t, inputs, 0);
    CHECK(sw_plan(t.exec, &args, &plan));
    for (args.step = 0; args.step < 2; args.step++)
        CHECK(sw_run(t.exec, &args));
    CHECK(sw_last_run(t.exec, &run));
    printf("%zu %zu %.4f\n", plan.peak_bytes, run.peak_bytes,
           (double)plan.repeat_cost / (double)plan.cost);
    close_trainer(&t);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "dump") == 0)
        return dump(argv[2]);
    if (argc == 3 && strcmp(argv[1], "ops") == 0)
        return dump_ops(argv[2]);
    if (argc == 3 && strcmp(argv[1], "peak") == 0)
        return peak(strtoull(argv[2], NULL, 10));
    fprintf(stderr, "usage: gpt_peer dump DIR | ops DIR | peak BUDGET\n");
    return 2;
}
