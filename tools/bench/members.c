/* Groups of equal perceptrons, and of LeNet5. */
#include "tools/bench/members.h"
#include "alloc/base/mem.h"

void members_step(sw_ctx *ctx, void *user)
{
    members_net *n = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < 3; i++) {
        x = sw_apply_linear(ctx, n->fc[i], x);
        x = i < 2 ? sw_relu(ctx, x) : x;
    }
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &n->adam, 1);
    sw_update(ctx, n->adam);
}

sw_status members_declare(members_net *n, members_widths w)
{
    const sw_optimizer_opts adam = {
        .size = sizeof adam, .kind = "adam", .update = SW_UPDATE_RELEASE};
    SW_TRY(sw_model_create(&n->model, "net"));
    n->fc[0] = sw_linear_new(n->model, "fc1", w.in, w.h1);
    n->fc[1] = sw_linear_new(n->model, "fc2", w.h1, w.h2);
    n->fc[2] = sw_linear_new(n->model, "fc3", w.h2, w.out);
    return sw_optimizer_create(&n->adam, n->model, &adam);
}

sw_status members_group_make(members_group *g, sw_exec *exec, members_widths widths, int64_t n,
                             uint64_t seed, int64_t threads)
{
    void *block;
    SW_TRY(members_declare(&g->shape, widths));
    const sw_members_opts opts = {.size = sizeof opts,
                                  .shape = g->shape.model,
                                  .fn = members_step,
                                  .user = &g->shape,
                                  .threads = (int)threads};
    SW_TRY(sw_members_create(&g->group, exec, &opts));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)n * sizeof *g->members));
    g->members = block;
    g->n = n;
    for (int64_t i = 0; i < n; i++)
        SW_TRY(sw_member_new(&g->members[i], g->group, seed + (uint64_t)i));
    return SW_OK;
}

sw_status members_group_batch(members_group *g, members_widths w, int64_t batch)
{
    g->inputs[0] = (sw_array){SW_F32, SW_SHAPE(batch, w.in), NULL};
    g->inputs[1] = (sw_array){SW_U8, SW_SHAPE(batch), NULL};
    return bench_batch_make(g->inputs, 2, w.out);
}

sw_members_args members_group_args(const members_group *g, uint64_t step)
{
    return (sw_members_args){.size = sizeof(sw_members_args),
                             .members = g->members,
                             .n = (size_t)g->n,
                             .inputs = g->inputs,
                             .n_inputs = 2,
                             .mode = SW_TRAIN,
                             .step = step};
}

sw_status members_group_run(members_group *g, uint64_t step)
{
    const sw_members_args args = members_group_args(g, step);
    return sw_members_run(g->group, &args);
}

void members_group_destroy(members_group *g)
{
    sw_members_destroy(g->group);
    sw_heap_free(g->members, SW_HEAP_RECORDS, (size_t)g->n * sizeof *g->members);
    sw_model_destroy(g->shape.model);
    bench_batch_free(g->inputs, 2);
    *g = (members_group){0};
}

/* ---- LeNet5 ------------------------------------------------------------------------------ */

sw_status members_lenets_make(members_lenets *lenets, sw_exec *exec, int64_t n, int64_t threads)
{
    tool_net_opts net;
    void *block;
    SW_TRY(tool_net_digits(&net, "lenet5"));
    SW_TRY(tool_net_create(&lenets->net, &net));
    const sw_members_opts group = {.size = sizeof group,
                                   .shape = lenets->net.model,
                                   .fn = tool_net_step,
                                   .user = &lenets->net,
                                   .threads = (int)threads};
    SW_TRY(sw_members_create(&lenets->group, exec, &group));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)n * sizeof *lenets->members));
    lenets->members = block;
    lenets->n = n;
    for (int64_t i = 0; i < n; i++)
        SW_TRY(sw_member_new(&lenets->members[i], lenets->group, (uint64_t)i));
    return SW_OK;
}

void members_lenets_destroy(members_lenets *lenets)
{
    sw_members_destroy(lenets->group);
    sw_heap_free(lenets->members, SW_HEAP_RECORDS, (size_t)lenets->n * sizeof *lenets->members);
    if (lenets->net.model != NULL)
        tool_net_destroy(&lenets->net);
}
