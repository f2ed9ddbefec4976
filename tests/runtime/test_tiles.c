/* Weights updated tile by tile: the bits of the whole gradient's update, what then lives, and
 * where it must not be done. */
#include "kernels/dispatch.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("tiles")

enum { ROWS = 37, IN = 515, WIDTH = 523, OUT = 11 };

/* TWICE: the second layer's weight has two contributions to its gradient. */
typedef enum { PLAIN, TWICE } shape;

typedef struct {
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear first, second, last;
    shape shape;
} tower;

static void step(sw_ctx *ctx, void *user)
{
    const tower *n = user;
    sw_value x = sw_swish(ctx, sw_apply_linear(ctx, n->first, sw_input(ctx, 0)));
    x = sw_swish(ctx, sw_apply_linear(ctx, n->second, x));
    if (n->shape == TWICE)
        x = sw_tanh(ctx, sw_apply_linear(ctx, n->second, x));
    const sw_value loss = sw_mse(ctx, sw_apply_linear(ctx, n->last, x), sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_optimizer *const optimizers[] = {n->optimizer};
    sw_backward(ctx, loss, optimizers, 1);
    sw_update(ctx, n->optimizer);
}

static void begin(tower *n, shape s, sw_exec *exec, const sw_optimizer_opts *opts)
{
    *n = (tower){.shape = s};
    n->model = made_model("net");
    n->first = sw_linear_new(n->model, "first", IN, WIDTH);
    n->second = sw_linear_new(n->model, "second", WIDTH, WIDTH);
    n->last = sw_linear_new(n->model, "last", WIDTH, OUT);
    OK(sw_optimizer_create(&n->optimizer, n->model, opts));
    OK(sw_model_ready(n->model, exec, 9));
}

static float xs[ROWS * IN], ys[ROWS * OUT];

static sw_run_args args_of(tower *n, sw_array *inputs)
{
    for (int i = 0; i < ROWS * IN; i++)
        xs[i] = (float)(i * 7 % 23) / 11.0f - 1.0f;
    for (int i = 0; i < ROWS * OUT; i++)
        ys[i] = (float)(i * 13 % 29) / 14.0f - 1.0f;
    inputs[0] = (sw_array){SW_F32, SW_SHAPE(ROWS, IN), xs};
    inputs[1] = (sw_array){SW_F32, SW_SHAPE(ROWS, OUT), ys};
    return SW_OPTS(sw_run_args, .fn = step, .user = n, .models = &n->model, .n_models = 1,
                   .inputs = inputs, .n_inputs = 2);
}

/* Three steps; how many updates went tile by tile. */
static uint32_t train(tower *n, sw_exec *exec, int immediate, sw_plan_info *plan)
{
    sw_array inputs[2];
    sw_run_args args = args_of(n, inputs);
    args.immediate = immediate;
    *plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &args, plan));
    for (int k = 0; k < 3; k++)
        OK(sw_run(exec, &args));
    return plan->n_tiled;
}

static const sw_optimizer_opts rules[] = {
#define SW_OPTIMIZER(kind_, states, operations)                                                \
    {.size = sizeof(sw_optimizer_opts), .kind = #kind_, .weight_decay = 0.01f},
#define SW_OPTIMIZER_LIKE(kind_) SW_OPTIMIZER(kind_, 0, 0)
#include "kernels/optimizers.def"
    {.size = sizeof(sw_optimizer_opts), .kind = "sgd", .lr = 0.1f, .momentum = 0.9f},
    SW_INIT(.size = sizeof(sw_optimizer_opts), .kind = "sgd", .lr = 0.1f, .momentum = 0.9f,
            .nesterov = 1, .weight_decay = 0.01f),
    {.size = sizeof(sw_optimizer_opts), .kind = "rmsprop", .momentum = 0.5f, .centered = 1},
    {.size = sizeof(sw_optimizer_opts), .kind = "adamw", .weight_decay = 0.1f, .state_bits = 8},
    {.size = sizeof(sw_optimizer_opts), .kind = "lion", .state_bits = 8},
};

static sw_optimizer_opts released(size_t rule)
{
    sw_optimizer_opts opts = rules[rule];
    opts.release = 1;
    opts.no_check = rule % 2 != 0;
    return opts;
}

/* With the pass, without it, and in immediate mode, where it never is. */
static void same_bits(const char *isa, size_t rule, int threads)
{
    const sw_optimizer_opts rule_opts = released(rule);
    tower n[3];
    sw_plan_info plan[3];
    for (int k = 0; k < 3; k++) {
        sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = k == 0 ? threads : 1,
                                          .isa = isa, .no_tiles = k == 1, .checks = 1));
        begin(&n[k], PLAIN, exec, &rule_opts);
        const uint32_t tiled = train(&n[k], exec, k == 2, &plan[k]);
        SW_CHECK(k == 2 || tiled == (k == 0 ? 2 : 0), "%u tiled", tiled);
    }
    SW_CHECK(net_same(n[0].model, n[1].model) && net_same(n[0].model, n[2].model),
             "%s, %s %zu, %d threads: other bits", isa, rules[rule].kind, rule, threads);
    CU_ASSERT(plan[0].arena_bytes < plan[1].arena_bytes);
    CU_ASSERT_EQUAL(plan[0].operations, plan[1].operations);
}

SW_TEST("tiles do not show in the bits")
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    const size_t step = sw_tests_full() ? 1 : 3; /* quick: each rule on one of them */
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (size_t rule = (size_t)isa % step; rule < sizeof rules / sizeof *rules;
             rule += step)
            same_bits(isas[isa], rule, 1 + (int)((rule + (size_t)isa) % 4));
}

/* No storage of the step arena is as large as a weight. */
SW_TEST("no whole gradient exists")
{
    const sw_optimizer_opts rule = released(0);
    tower n;
    sw_plan_info plan;
    sw_exec *exec = net_exec(NULL);
    begin(&n, PLAIN, exec, &rule);
    CU_ASSERT_EQUAL(train(&n, exec, 0, &plan), 2);
    const swi_trace *t = &exec->last->trace;
    size_t largest = 0;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (t->storages[s].segment == SWI_SEG_STEP && t->storages[s].birth != SWI_NONE &&
            t->storages[s].bytes > largest)
            largest = t->storages[s].bytes;
    SW_CHECK(largest < IN * WIDTH * 4 / 2, "%zu bytes", largest);
    CU_ASSERT(plan.arena_bytes < IN * WIDTH * 4);
}

SW_TEST("witnesses agree")
{
    for (size_t rule = 0; rule < sizeof rules / sizeof *rules; rule += 2) {
        const sw_optimizer_opts opts = released(rule);
        tower n;
        sw_array inputs[2];
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = 2, .seed = 3));
        begin(&n, PLAIN, exec, &opts);
        const sw_run_args args = args_of(&n, inputs);
        OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
        SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s: %s", rules[rule].kind, seen.first_fault);
    }
}

/* A budget that only a plan with tiles can hold, with updates that no one asked to release; and
 * less, until nothing fits: the same bits always. */
SW_TEST("a budget is held with tiles")
{
    sw_plan_info free_plan, plan;
    tower n, m;
    uint32_t held = 0;
    sw_optimizer_opts rule = released(1);
    rule.release = 0;
    sw_exec *exec = net_exec(NULL);
    begin(&n, PLAIN, exec, &rule);
    CU_ASSERT_EQUAL(train(&n, exec, 0, &free_plan),
                    0); /* after backward: gradients are whole */
    for (size_t off = 1 << 20; off < free_plan.arena_bytes; off += 40000) {
        sw_budget *budget = made_budget(free_plan.total_bytes - off);
        sw_exec *tight = net_exec(&SW_OPTS(sw_exec_opts, .budget = budget));
        begin(&m, PLAIN, tight, &rule);
        sw_array inputs[2];
        const sw_run_args args = args_of(&m, inputs);
        plan = SW_OPTS(sw_plan_info);
        if (sw_plan(tight, &args, &plan) != SW_OK)
            break;
        CU_ASSERT_EQUAL(train(&m, tight, 0, &plan), 2);
        CU_ASSERT(net_same(n.model, m.model));
        held++;
    }
    SW_CHECK(held >= 20, "%u budgets were held", held);
}

/* Inputs that make the first layer's gradient NaN or infinite, or so large that this is not
 * known beforehand: with tiles and without, the same updates are skipped and counted. */
SW_TEST("what is not finite is skipped whole")
{
    static const float extremes[] = {NAN, INFINITY, 1e30f, 1e19f};
    for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
        sw_optimizer_opts rule = released(4);
        rule.no_check = 0;
        tower n[2];
        uint64_t skipped[2];
        for (int without = 0; without < 2; without++) {
            sw_array inputs[2];
            sw_plan_info plan = SW_OPTS(sw_plan_info);
            sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = 2, .no_tiles = without));
            begin(&n[without], PLAIN, exec, &rule);
            sw_run_args args = args_of(&n[without], inputs);
            OK(sw_plan(exec, &args, &plan));
            CU_ASSERT_EQUAL(plan.n_tiled, without ? 0 : 2);
            OK(sw_run(exec, &args));
            xs[3 * IN + 7] = extremes[i];
            OK(sw_run(exec, &args));
            (void)args_of(&n[without], inputs);
            OK(sw_run(exec, &args));
            OK(sw_optimizer_skipped(n[without].optimizer, &skipped[without], NULL));
        }
        CU_ASSERT_EQUAL(skipped[0], skipped[1]);
        SW_CHECK(skipped[0] > 0 || isfinite(extremes[i]), "%g", (double)extremes[i]);
        SW_CHECK(net_same(n[0].model, n[1].model), "%g: other bits", (double)extremes[i]);
    }
}

/* Two contributions need the whole gradient; an update after backward needs it too. */
SW_TEST("what is added to stays whole")
{
    const sw_optimizer_opts rule = released(3);
    sw_plan_info plan;
    tower n[2];
    for (int without = 0; without < 2; without++) {
        sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .no_tiles = without));
        begin(&n[without], TWICE, exec, &rule);
        CU_ASSERT_EQUAL(train(&n[without], exec, 0, &plan), without ? 0 : 1);
    }
    CU_ASSERT(net_same(n[0].model, n[1].model));
}

/* The last gradient that is made is a large one: the check of all gradients stands right after
 * its own, and its update goes up to that. */
typedef struct {
    sw_model *model;
    sw_optimizer *optimizer;
    sw_param first, second;
} bare;

static void bare_step(sw_ctx *ctx, void *user)
{
    const bare *n = user;
    const sw_value none = {0, 0};
    sw_value x = sw_linear_op(ctx, sw_input(ctx, 0), sw_use(ctx, n->first), none);
    x = sw_linear_op(ctx, sw_tanh(ctx, x), sw_use(ctx, n->second), none);
    sw_backward(ctx, sw_mse(ctx, x, sw_input(ctx, 1)), &n->optimizer, 1);
    sw_update(ctx, n->optimizer);
}

SW_TEST("the last gradient goes in tiles too")
{
    static bare n[2];
    for (size_t rule = 0; rule < 3; rule++) {
        sw_optimizer_opts opts = released(rule);
        opts.no_check = 0;
        for (int without = 0; without < 2; without++) {
            bare *b = &n[without];
            sw_array inputs[2];
            sw_plan_info plan = SW_OPTS(sw_plan_info);
            sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = 2, .no_tiles = without));
            b->model = made_model("bare");
            b->first = sw_param_new(b->model, "first", SW_F32, SW_SHAPE(WIDTH, IN), "normal:1");
            b->second =
                sw_param_new(b->model, "second", SW_F32, SW_SHAPE(OUT, WIDTH), "normal:1");
            OK(sw_optimizer_create(&b->optimizer, b->model, &opts));
            tower unused = {.model = b->model};
            sw_run_args args = args_of(&unused, inputs);
            args.fn = bare_step;
            args.user = b;
            args.models = &b->model;
            OK(sw_plan(exec, &args, &plan));
            CU_ASSERT_EQUAL(plan.n_tiled, without ? 0 : 1);
            for (int k = 0; k < 3; k++)
                OK(sw_run(exec, &args));
        }
        SW_CHECK(net_same(n[0].model, n[1].model), "%s: other bits", rules[rule].kind);
    }
}

/* Each allocation on the way to a plan fails once: the status says so, and the next plan is the
 * one that was asked for. */
SW_TEST("a refused allocation is an answer")
{
    const sw_optimizer_opts rule = released(1);
    sw_sites sites = {SW_FAULT_MEMORY, .every = sw_tests_full() ? 1 : 4, .keeps = true};
    while (sw_sites_next(&sites)) {
        tower n;
        sw_array inputs[2];
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        sw_exec *exec = net_exec(NULL);
        begin(&n, PLAIN, exec, &rule);
        const sw_run_args args = args_of(&n, inputs);
        (void)SW_AT_SITE(&sites, sw_plan(exec, &args, &plan));
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT_EQUAL(plan.n_tiled, 2);
    }
    CU_ASSERT(sites.failed > (sw_tests_full() ? 20 : 5));
}
