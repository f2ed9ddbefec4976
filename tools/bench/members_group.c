/* Groups of equal perceptrons, and the control that they are held against. */
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

int64_t members_parameters(members_widths w)
{
    return (w.in + 1) * w.h1 + (w.h1 + 1) * w.h2 + (w.h2 + 1) * w.out;
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

/* ---- the control ------------------------------------------------------------------------- */

static volatile uint64_t sink;

void members_control(uint64_t turns)
{
    uint64_t x = sink;
    for (uint64_t i = 0; i < turns; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

sw_status members_calibrate(uint64_t *turns, sw_status (*loop)(void *context), void *context)
{
    enum { ROUNDS = 4, LOOPS = 50 };
    double guess = 1000000.0;
    for (int round = 0; round < ROUNDS; round++) {
        cli_times loops, controls = {0};
        SW_TRY(cli_times_init(&loops, LOOPS));
        sw_status status = cli_times_init(&controls, LOOPS);
        for (int i = 0; i < LOOPS && status == SW_OK; i++) {
            const uint64_t start = cli_clock_ns();
            status = loop(context);
            const uint64_t between = cli_clock_ns();
            members_control((uint64_t)guess);
            cli_times_add(&loops, between - start);
            cli_times_add(&controls, cli_clock_ns() - between);
        }
        const cli_summary a = cli_times_summary(&loops), b = cli_times_summary(&controls);
        guess = b.median > 0 ? guess * (double)a.median / (double)b.median + 1.0 : guess;
        cli_times_free(&controls);
        cli_times_free(&loops);
        SW_TRY(status);
    }
    *turns = (uint64_t)guess;
    return SW_OK;
}
