/* Deep programs for bench budget: a perceptron and a convolutional chain of equal layers, which
 * hold hardly anything but activations, and LeNet5. */
#include "alloc/base/size.h"
#include "tools/bench/budget.h"
#include <stdio.h>
#include <string.h>

enum { CLASSES = 10 };

static bool is(const bench_deep_opts *o, const char *kind)
{
    return strcmp(o->kind, kind) == 0;
}

void bench_deep_sizes(bench_deep_opts *o)
{
    const bool mlp = is(o, "mlp");
    if (is(o, "lenet5")) {
        *o = (bench_deep_opts){o->kind, 0, 0, o->batch > 0 ? o->batch : 128, TOOL_LENET5_SIDE};
        return;
    }
    o->layers = o->layers > 0 ? o->layers : mlp ? 32 : 50;
    o->width = o->width > 0 ? o->width : mlp ? 1024 : 16;
    o->batch = o->batch > 0 ? o->batch : mlp ? 512 : 32;
    o->side = mlp ? 0 : o->side > 0 ? o->side : 32;
}

/* ---- steps ------------------------------------------------------------------------------- */

/* Each layer is a scope, so that its relu counts as part of it. */
static void deep_step(sw_ctx *ctx, void *user)
{
    bench_deep *d = user;
    const bool mlp = is(&d->opts, "mlp");
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < (int)d->opts.layers; i++) {
        char name[16];
        x = mlp ? sw_apply_linear(ctx, d->fc[i], x) : sw_apply_conv2d(ctx, d->conv[i], x);
        snprintf(name, sizeof name, "layer%d", i + 1);
        sw_scope_begin(ctx, name);
        x = sw_relu(ctx, x);
        sw_scope_end(ctx);
    }
    x = mlp ? x : sw_flatten(ctx, sw_global_avg_pool(ctx, x));
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &d->optimizer, 1);
    sw_update(ctx, d->optimizer);
}

sw_run_args bench_deep_args(bench_deep *d)
{
    const bool lenet = is(&d->opts, "lenet5");
    size_t slot_bytes = 0;
    for (int k = 0; k < 2; k++) {
        const sw_type type = {d->inputs[k].dtype, SW_PLAIN, d->inputs[k].shape};
        slot_bytes += sw_size_round(sw_type_bytes(&type));
    }
    return (sw_run_args){.size = sizeof(sw_run_args),
                         .fn = lenet ? tool_net_step : deep_step,
                         .user = lenet ? (void *)&d->lenet : d,
                         .models = &d->model,
                         .n_models = 1,
                         .inputs = d->inputs,
                         .n_inputs = 2,
                         .mode = SW_TRAIN,
                         .step = d->step,
                         .data_bytes = slot_bytes}; /* the budget is for the batch too */
}

/* ---- making ------------------------------------------------------------------------------ */

static sw_status declare_lenet5(bench_deep *d)
{
    tool_net_opts net;
    SW_TRY(tool_net_digits(&net, "lenet5"));
    net.optimizer.release = 1;
    SW_TRY(tool_net_create(&d->lenet, &net));
    d->model = d->lenet.model;
    d->inputs[0] =
        (sw_array){SW_U8, SW_SHAPE(d->opts.batch, 1, TOOL_LENET5_SIDE, TOOL_LENET5_SIDE), NULL};
    return SW_OK;
}

static sw_status declare_chain(bench_deep *d)
{
    const bench_deep_opts *o = &d->opts;
    const bool mlp = is(o, "mlp");
    SW_TRY(sw_model_create(&d->model, o->kind));
    for (int i = 0; i < (int)o->layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer%d", i + 1);
        if (mlp)
            d->fc[i] = sw_linear_new(d->model, name, o->width, o->width);
        else {
            d->conv[i] = sw_conv2d_new(d->model, name, o->width, o->width, 3);
            d->conv[i].pad = 1;
        }
    }
    const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd", .release = 1};
    d->inputs[0] = (sw_array){SW_F32,
                              mlp ? SW_SHAPE(o->batch, o->width)
                                  : SW_SHAPE(o->batch, o->width, o->side, o->side),
                              NULL};
    return sw_optimizer_create(&d->optimizer, d->model, &sgd);
}

sw_status bench_deep_create(bench_deep *d, const bench_deep_opts *opts, size_t budget_bytes,
                            int threads)
{
    *d = (bench_deep){.opts = *opts};
    sw_status status =
        budget_bytes < SIZE_MAX ? sw_budget_create(&d->budget, budget_bytes) : SW_OK;
    const sw_exec_opts exec = {
        .size = sizeof exec, .threads = threads, .budget = d->budget, .op_clocks = 1};
    if (status == SW_OK)
        status = sw_exec_create(&d->exec, &exec);
    if (status == SW_OK)
        status = is(opts, "lenet5") ? declare_lenet5(d) : declare_chain(d);
    d->inputs[1] = (sw_array){SW_U8, SW_SHAPE(opts->batch), NULL};
    if (status != SW_OK)
        bench_deep_destroy(d);
    return status;
}

sw_status bench_deep_step(bench_deep *d)
{
    if (d->inputs[0].data == NULL) {
        SW_TRY(bench_batch_make(d->inputs, 2, CLASSES));
        SW_TRY(sw_model_ready(d->model, d->exec, 1));
    }
    const sw_run_args args = bench_deep_args(d);
    d->step++;
    return sw_run(d->exec, &args);
}

void bench_deep_destroy(bench_deep *d)
{
    if (d->lenet.model != NULL)
        tool_net_destroy(&d->lenet);
    else
        sw_model_destroy(d->model);
    sw_exec_destroy(d->exec);
    sw_budget_destroy(d->budget);
    bench_batch_free(d->inputs, 2);
    *d = (bench_deep){0};
}
