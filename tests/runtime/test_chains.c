/* Convolutions and what goes image by image around them, some images at a time: the bits of
 * whole batches, what then lives, and where it must not be done. */
#include "kernels/attrs.h"
#include "kernels/dispatch.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("chains")

enum { MOST = 160, SIDE = 20, CHANNELS = 3, STEPS = 2 };

typedef sw_value function(sw_ctx *ctx, sw_value x);

/* KEPT: the first function's result is an output too. */
typedef enum { PLAIN, NO_BIAS, AVERAGE, KEPT, KINDS } kind;
static const char *const names[KINDS] = {"plain", "no bias", "average", "kept"};

typedef struct {
    sw_model *model;
    sw_optimizer *optimizer;
    sw_conv2d first, second;
    sw_linear third;
    function *f;
    kind kind;
} chained;

static sw_value pooled(sw_ctx *ctx, const chained *n, sw_value x)
{
    return n->kind == AVERAGE ? sw_avg_pool(ctx, x, 2) : sw_max_pool(ctx, x, 2);
}

static void step(sw_ctx *ctx, void *user)
{
    chained *n = user;
    sw_value x = sw_to_f32(ctx, sw_input(ctx, 0), 1.0f / 255.0f, -0.5f);
    x = n->f(ctx, sw_apply_conv2d(ctx, n->first, x));
    if (n->kind == KEPT)
        sw_output(ctx, "first", x);
    x = pooled(ctx, n, x);
    x = pooled(ctx, n, n->f(ctx, sw_apply_conv2d(ctx, n->second, x)));
    x = sw_apply_linear(ctx, n->third, sw_flatten(ctx, x));
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) != SW_TRAIN)
        return;
    sw_backward(ctx, loss, &n->optimizer, 1);
    sw_update(ctx, n->optimizer);
}

static void begin(chained *n, kind k, function *f, sw_exec *exec)
{
    const sw_conv_opts conv = SW_OPTS(sw_conv_opts, .no_bias = k == NO_BIAS, .pad = 1);
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam", .release = 1);
    *n = (chained){.kind = k, .f = f};
    n->model = made_model("net");
    n->first = sw_conv2d_new_with(n->model, "first", CHANNELS, 8, 5, &conv);
    n->second = sw_conv2d_new_with(n->model, "second", 8, 13, 3, &conv);
    n->third = sw_linear_new(n->model, "third", 13 * 4 * 4, NET_CLASSES);
    OK(sw_optimizer_create(&n->optimizer, n->model, &opts));
    OK(exec != NULL ? sw_model_ready(n->model, exec, 9) : SW_OK);
}

static unsigned char xs[MOST * CHANNELS * SIDE * SIDE], ys[MOST];

static sw_run_args args_of(chained *n, int64_t n_images, sw_array *inputs)
{
    for (size_t i = 0; i < sizeof xs; i++)
        xs[i] = (unsigned char)(i * 37 % 251 + i / 977 % 5);
    for (size_t i = 0; i < sizeof ys; i++)
        ys[i] = (unsigned char)(i * 7 % NET_CLASSES);
    inputs[0] = (sw_array){SW_U8, SW_SHAPE(n_images, CHANNELS, SIDE, SIDE), xs};
    inputs[1] = (sw_array){SW_U8, SW_SHAPE(n_images), ys};
    return SW_OPTS(sw_run_args, .fn = step, .user = n, .models = &n->model, .n_models = 1,
                   .inputs = inputs, .n_inputs = 2);
}

/* Ops of the last program that go some images at a time. */
static int chains_of(const sw_exec *exec)
{
    const swi_program *p = exec->last_frame->program;
    int n = 0;
    for (uint32_t i = 0; i < p->n_ops; i++)
        n += swi_op_traits_of(p->trace.nodes[p->ops[i].node].op)->duty == SWI_DUTY_IMAGES;
    return n;
}

/* With the pass, without it, and in immediate mode, where it never is. */
static void same_bits(const char *isa, sw_dtype compute, kind k, function *f, int threads,
                      int64_t n_images)
{
    chained n[3];
    sw_plan_info plan[3];
    double loss[3][2];
    /* In bf16 pieces take scratch too, so a result that stays is not worth it. */
    const bool parts = n_images > 32 && (compute == SW_F32 || k != KEPT);
    for (int way = 0; way < 3; way++) {
        sw_array inputs[2];
        sw_exec *exec =
            net_exec(&SW_OPTS(sw_exec_opts, .threads = way == 0 ? threads : 2, .isa = isa,
                              .no_strips = way == 1, .checks = way == 0, .compute = compute));
        begin(&n[way], k, f, exec);
        sw_run_args args = args_of(&n[way], n_images, inputs);
        args.immediate = way == 2;
        plan[way] = SW_OPTS(sw_plan_info);
        OK(sw_plan(exec, &args, &plan[way]));
        for (args.step = 0; args.step < STEPS; args.step++)
            OK(sw_run(exec, &args));
        const int chains = way == 2 ? 0 : chains_of(exec);
        SW_CHECK(chains == (way != 0 || !parts ? 0 : 4), "%s, way %d, %lld: %d", names[k], way,
                 (long long)n_images, chains);
        loss[way][0] = net_metric(exec, "loss");
        args.mode = SW_EVAL;
        OK(sw_run(exec, &args));
        loss[way][1] = net_metric(exec, "loss");
    }
    SW_CHECK(net_same(n[0].model, n[1].model) && net_same(n[0].model, n[2].model) &&
                 memcmp(loss[0], loss[1], sizeof loss[0]) == 0 &&
                 memcmp(loss[0], loss[2], sizeof loss[0]) == 0,
             "%s, %s, %s, %d threads, batch %lld: other bits", isa, sw_dtype_name(compute),
             names[k], threads, (long long)n_images);
    SW_CHECK(parts ? plan[0].arena_bytes < plan[1].arena_bytes
                   : plan[0].arena_bytes == plan[1].arena_bytes,
             "%s: %zu and %zu bytes", names[k], plan[0].arena_bytes, plan[1].arena_bytes);
    CU_ASSERT_EQUAL(plan[0].operations, plan[1].operations);
    CU_ASSERT_EQUAL(plan[0].n_rebuilt, plan[1].n_rebuilt);
}

static sw_value elu(sw_ctx *ctx, sw_value x)
{
    return sw_elu(ctx, x, 0.7f);
}

SW_TEST("parts of a batch do not show in the bits")
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    static function *const functions[] = {sw_relu, sw_swish, elu};
    const int most = (int)sw_cpu_isa();
    for (int isa = sw_tests_full() ? 0 : most; isa <= most; isa++)
        for (int k = 0; k < KINDS; k++)
            for (int f = 0; f < 3; f++)
                for (int half = 0; half < 2; half++)
                    same_bits(isas[isa], half ? SW_BF16 : SW_F32, (kind)k, functions[f],
                              1 + (k + f) % 3,
                              f == 0   ? MOST
                              : f == 1 ? 64
                                       : 87);
    same_bits(isas[most], SW_F32, PLAIN, sw_relu, 2, 32); /* one part */
}

SW_TEST("witnesses agree")
{
    for (int k = 0; k < KINDS + KEPT; k++) {
        chained n;
        sw_array inputs[2];
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        sw_exec *exec = net_exec(
            &SW_OPTS(sw_exec_opts, .seed = 3, .compute = k < KINDS ? SW_F32 : SW_BF16));
        begin(&n, (kind)(k % KINDS), sw_relu, exec);
        const sw_run_args args = args_of(&n, 97, inputs);
        OK(sw_run(exec, &args));
        CU_ASSERT_EQUAL(chains_of(exec), 4);
        OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
        SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s: %s", names[k % KINDS], seen.first_fault);
    }
}

/* With the least budget ops run again, some of them some images at a time. */
SW_TEST("repeats of chains do not show in the bits")
{
    for (int k = 0; k < 2 * KINDS; k++) {
        chained whole, n;
        sw_array inputs[2];
        sw_plan_info least = SW_OPTS(sw_plan_info);
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        sw_exec_opts opts =
            SW_OPTS(sw_exec_opts, .compute = k < KINDS ? SW_F32 : SW_BF16, .no_strips = 1);
        sw_exec *exec = net_exec(&opts);
        begin(&whole, (kind)(k % KINDS), sw_swish, exec);
        sw_run_args args = args_of(&whole, MOST, inputs);
        for (; args.step < STEPS; args.step++)
            OK(sw_run(exec, &args));
        CU_ASSERT_EQUAL(chains_of(exec), 0);
        opts.no_strips = 0;
        opts.threads = 1 + k % 2;
        for (size_t bytes = 64; bytes > 0;
             bytes = bytes == 64 ? least.model_bytes + least.arena_bytes : 0) {
            opts.budget = made_budget(bytes);
            exec = net_exec(&opts);
            begin(&n, (kind)(k % KINDS), sw_swish, bytes > 64 ? exec : NULL);
            args = args_of(&n, MOST, inputs);
            CU_ASSERT_EQUAL(sw_plan(exec, &args, &least), bytes > 64 ? SW_OK : SW_NOMEM);
        }
        SW_CHECK(least.n_repeats > 0, "%s: no repeats", names[k % KINDS]);
        for (; args.step < STEPS; args.step++)
            OK(sw_run(exec, &args));
        SW_CHECK(chains_of(exec) > 0 && net_same(whole.model, n.model), "%s: %d chains",
                 names[k % KINDS], chains_of(exec));
        OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
        SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s: %s", names[k % KINDS], seen.first_fault);
    }
}

/* Each allocation on the way to a plan fails once, and the next plan is the one that was asked
 * for. */
SW_TEST("a refused allocation is an answer")
{
    sw_plan_info right = SW_OPTS(sw_plan_info);
    sw_sites sites = {SW_FAULT_MEMORY, .every = sw_tests_full() ? 1 : 5, .keeps = true};
    chained n;
    sw_array inputs[2];
    sw_exec *first = net_exec(NULL);
    begin(&n, PLAIN, sw_relu, first);
    const sw_run_args args = args_of(&n, 64, inputs);
    OK(sw_plan(first, &args, &right));
    while (sw_sites_next(&sites)) {
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        sw_exec *exec = net_exec(NULL);
        (void)SW_AT_SITE(&sites, sw_plan(exec, &args, &plan));
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT_EQUAL(plan.arena_bytes, right.arena_bytes);
    }
    CU_ASSERT(sites.failed > (sw_tests_full() ? 20 : 5));
}
