/* Models of the table on one batch of random numbers: making, steps. */
#include "tools/bench/nets.h"

/* How one sample looks. */
static sw_dataset_info data_of(const bench_net_case *c)
{
    sw_dataset_info d = {
        .size = sizeof d, .n_classes = c->classes, .n_fields = 2, .name = "random numbers"};
    if (c->context > 0) {
        d.field[0] = d.field[1] = (sw_array){SW_I32, SW_SHAPE(c->context), NULL};
    } else if (c->side > 0) {
        d.field[0] = (sw_array){SW_U8, SW_SHAPE(c->channels, c->side, c->side), NULL};
        d.field[1] = (sw_array){c->classes > 256 ? SW_I32 : SW_U8, SW_SCALAR, NULL};
    } else {
        d.field[0] = d.field[1] = (sw_array){SW_F32, SW_SHAPE(c->width), NULL};
    }
    return d;
}

sw_run_args bench_net_args(bench_net *n)
{
    return (sw_run_args){.size = sizeof(sw_run_args),
                         .fn = tool_net_step,
                         .user = &n->net,
                         .models = &n->net.model,
                         .n_models = 1,
                         .inputs = n->inputs,
                         .n_inputs = 2,
                         .mode = SW_TRAIN,
                         .step = n->step};
}

sw_status bench_net_step(bench_net *n)
{
    const sw_run_args args = bench_net_args(n);
    n->step++;
    return sw_run(n->exec, &args);
}

sw_status bench_net_make(bench_net *n, const bench_net_case *c, int64_t batch,
                         const sw_exec_opts *exec)
{
    tool_net_opts net = {
        .model = tool_model_find(c->model),
        .settings = TOOL_SETTINGS_NONE,
        .data = data_of(c),
        .optimizer = {.size = sizeof net.optimizer,
                      .kind = c->optimizer,
                      .momentum = c->momentum,
                      .update = c->release ? SW_UPDATE_RELEASE : SW_UPDATE_DEFAULT}};
    net.settings.layers = c->layers;
    net.settings.width = c->width;
    net.settings.heads = c->heads;
    net.settings.context = c->context;
    if (tool_settings_complete(net.model, &net.settings) != CLI_GO)
        SW_FAIL(SW_INVALID, "%s: its settings are not those of %s", c->name, c->model);
    SW_TRY(sw_exec_create(&n->exec, exec));
    SW_TRY(tool_net_create(&n->net, &net));
    for (int i = 0; i < 2; i++)
        n->inputs[i] = bench_batch_of(&net.data.field[i], batch);
    return bench_batch_make(n->inputs, 2, c->classes > 0 ? c->classes : 1);
}

void bench_net_destroy(bench_net *n)
{
    if (n->net.model != NULL)
        tool_net_destroy(&n->net);
    sw_exec_destroy(n->exec);
    bench_batch_free(n->inputs, 2);
    *n = (bench_net){0};
}
