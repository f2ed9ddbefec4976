/* Under a budget a depthwise convolution's weights get their gradient before its image gets its
 * own: then the image is dead, and the two are never there together. Bits, bytes, witnesses. */
#include "runtime/exec/exec.h"
#include "tests/runtime/nets.h"

SW_TESTS("weights first")

enum { MOST = 40, SIDE = 13, STEPS = 2 };

typedef struct {
    int64_t images, channels, height, width;
    int kernel, stride;
    bool keeps; /* a function whose gradient reads the image, which then stays */
} shape;

typedef struct {
    sw_model *model;
    sw_optimizer *optimizer;
    sw_conv2d expand, depth, project;
    sw_batch_norm2d norm;
    sw_linear classes;
    const shape *s;
} bottleneck;

static void step(sw_ctx *ctx, void *user)
{
    const bottleneck *n = user;
    sw_value x = sw_apply_conv2d(ctx, n->expand, sw_input(ctx, 0));
    x = sw_apply_batch_norm2d(ctx, n->norm, x);
    x = n->s->keeps ? sw_leaky_relu(ctx, x, 0.1f) : sw_swish(ctx, x);
    x = sw_apply_conv2d(ctx, n->project, sw_swish(ctx, sw_apply_conv2d(ctx, n->depth, x)));
    x = sw_apply_linear(ctx, n->classes, sw_flatten(ctx, sw_global_avg_pool(ctx, x)));
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_backward(ctx, loss, &n->optimizer, 1);
    sw_update(ctx, n->optimizer);
}

static void begin(bottleneck *n, const shape *s)
{
    const sw_optimizer_opts adam = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
    const sw_conv_opts deep = SW_OPTS(sw_conv_opts, .stride = s->stride, .pad = s->kernel / 2,
                                      .groups = (int)s->channels, .no_bias = s->stride > 1);
    *n = (bottleneck){.s = s, .model = made_model("net")};
    n->expand = sw_conv2d_new(n->model, "expand", 2, s->channels, 1);
    n->norm = sw_batch_norm2d_new(n->model, "norm", s->channels);
    n->depth =
        sw_conv2d_new_with(n->model, "depth", s->channels, s->channels, s->kernel, &deep);
    n->project = sw_conv2d_new(n->model, "project", s->channels, 3, 1);
    n->classes = sw_linear_new(n->model, "classes", 3, NET_CLASSES);
    OK(sw_optimizer_create(&n->optimizer, n->model, &adam));
}

static sw_run_args args_of(bottleneck *n, sw_array *inputs)
{
    static float xs[MOST * 2 * SIDE * SIDE];
    static unsigned char ys[MOST];
    const shape *s = n->s;
    for (size_t i = 0; i < sizeof xs / sizeof *xs; i++)
        xs[i] = (float)(i * 37 % 251) / 125.0f - 1.0f;
    for (size_t i = 0; i < sizeof ys; i++)
        ys[i] = (unsigned char)(i * 7 % NET_CLASSES);
    inputs[0] = (sw_array){SW_F32, SW_SHAPE(s->images, 2, s->height, s->width), xs};
    inputs[1] = (sw_array){SW_U8, SW_SHAPE(s->images), ys};
    return SW_OPTS(sw_run_args, .fn = step, .user = n, .models = &n->model, .n_models = 1,
                   .inputs = inputs, .n_inputs = 2);
}

/* Do the weights of the depthwise convolution come first in the last program? */
static bool come_first(const sw_exec *exec)
{
    const swi_program *p = exec->last_frame->program;
    uint32_t at[2] = {0, 0};
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        const swi_conv_attrs *a = (const void *)(p->trace.attrs + node->attrs);
        if (node->op == SW_OP_conv2d && node->grad >= 0 && a->groups > 1)
            at[node->grad > 0] = i + 1;
    }
    return at[1] < at[0];
}

/* Plan, train, and let witnesses look; the model's bytes. A budget of 0: none; of 1: only the
 * refusal. */
static void *live(const shape *s, int threads, size_t budget, sw_plan_info *plan)
{
    bottleneck n;
    sw_array inputs[2];
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    sw_exec *exec =
        net_exec(&SW_OPTS(sw_exec_opts, .seed = 5, .threads = threads, .no_strips = 1,
                          .budget = budget > 0 ? made_budget(budget) : NULL));
    begin(&n, s);
    sw_run_args args = args_of(&n, inputs);
    *plan = SW_OPTS(sw_plan_info);
    if (budget == 1) {
        REFUSED(sw_plan(exec, &args, plan), SW_NOMEM, "does not fit");
        return NULL;
    }
    OK(sw_plan(exec, &args, plan));
    for (; args.step < STEPS; args.step++)
        OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(come_first(exec), budget > 0 && !s->keeps);
    if (threads == 1)
        return net_copy_bytes(n.model);
    OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
    SW_CHECK(seen.agreed == SW_WITNESS_ALL && seen.peak_bytes == plan->peak_bytes, "%s",
             seen.first_fault);
    return net_copy_bytes(n.model);
}

SW_TEST("an image and its gradient are not there together")
{
    static const shape shapes[] = {{16, 8, 12, 12, 3, 2, false}, {17, 7, 11, 9, 5, 2, false},
                                   {40, 13, 13, 6, 3, 1, false}, {3, 24, 13, 13, 5, 1, false},
                                   {33, 5, 9, 13, 7, 2, false},  {16, 8, 12, 12, 3, 2, true}};
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
        const shape *s = &shapes[i];
        sw_plan_info plain, least, plan;
        void *whole = live(s, 1, 0, &plain);
        for (int threads = 1; threads <= 2; threads++) {
            (void)live(s, threads, 1, &least);
            void *bytes = live(s, threads, least.model_bytes + least.arena_bytes, &plan);
            SW_CHECK(memcmp(whole, bytes, plan.model_bytes) == 0, "shape %d: other bits", i);
            CU_ASSERT_EQUAL(plan.arena_bytes, least.arena_bytes);
            CU_ASSERT(plan.arena_bytes < plain.arena_bytes);
        }
    }
}
