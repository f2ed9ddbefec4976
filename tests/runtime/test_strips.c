/* Functions of one number that go strip by strip with what reads them: the bits of whole ones,
 * what then lives, and where it must not be done. */
#include "alloc/base/poison.h"
#include "kernels/attrs.h"
#include "kernels/dispatch.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("strips")

enum { ROWS = 1030, IN = 37, WIDTH = 1283, INNER = 260, STEPS = 2 };

typedef sw_value function(sw_ctx *ctx, sw_value x);

/* OUTPUT: the second function's result is an output too. TWICE: two layers read the first. */
typedef enum { PLAIN, OUTPUT, TWICE } shape;

typedef struct {
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear first, second, also, third;
    function *f;
    shape shape;
    int64_t out;
} tower;

static void step(sw_ctx *ctx, void *user)
{
    const tower *n = user;
    sw_value x = n->f(ctx, sw_apply_linear(ctx, n->first, sw_input(ctx, 0)));
    sw_value y = sw_apply_linear(ctx, n->second, x);
    if (n->shape == TWICE)
        y = sw_add(ctx, y, sw_apply_linear(ctx, n->also, x));
    y = n->f(ctx, sw_apply_linear(ctx, n->third, n->f(ctx, y)));
    if (n->shape == OUTPUT)
        sw_output(ctx, "y", y);
    const sw_value loss = sw_mse(ctx, y, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &n->optimizer, 1);
    sw_update(ctx, n->optimizer);
}

/* In bf16 the last layer is small: losses stay whole there, and would be the peak. */
static void begin(tower *n, shape s, function *f, sw_exec *exec, const sw_optimizer_opts *opts)
{
    *n = (tower){.shape = s, .f = f, .out = exec->target.opts.compute == SW_BF16 ? 64 : WIDTH};
    n->model = made_model("net");
    n->first = sw_linear_new(n->model, "first", IN, WIDTH);
    n->second = sw_linear_new(n->model, "second", WIDTH, INNER);
    if (s == TWICE)
        n->also = sw_linear_new(n->model, "also", WIDTH, INNER);
    n->third = sw_linear_new(n->model, "third", INNER, n->out);
    OK(sw_optimizer_create(&n->optimizer, n->model, opts));
    OK(sw_model_ready(n->model, exec, 9));
}

static float xs[ROWS * IN], ys[ROWS * WIDTH];

static sw_run_args args_of(tower *n, sw_array *inputs)
{
    for (int i = 0; i < ROWS * IN; i++)
        xs[i] = (float)(i * 7 % 23) / 11.0f - 1.0f;
    for (int i = 0; i < ROWS * WIDTH; i++)
        ys[i] = (float)(i * 13 % 29) / 14.0f - 1.0f;
    inputs[0] = (sw_array){SW_F32, SW_SHAPE(ROWS, IN), xs};
    inputs[1] = (sw_array){SW_F32, SW_SHAPE(ROWS, n->out), ys};
    return SW_OPTS(sw_run_args, .fn = step, .user = n, .models = &n->model, .n_models = 1,
                   .inputs = inputs, .n_inputs = 2);
}

/* Kinds of strips in the program that ran or was planned last: a bit for each. */
static uint32_t kinds_of(const sw_exec *exec)
{
    const swi_program *p = exec->last_frame->program;
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        const swi_strips_attrs *a = (const void *)(p->trace.attrs + node->attrs);
        if (swi_op_traits_of(node->op)->duty == SWI_DUTY_STRIPS)
            kinds |= 1u << a->kind;
    }
    return kinds;
}

enum {
    LOSSES = 1 << SWI_STRIPS_LOSS | 1 << SWI_STRIPS_LOSS_DX,
    ALL = 1 << SWI_STRIPS_PRODUCT | 1 << SWI_STRIPS_UPDATE | LOSSES
};

/* NONE, PAIR, TILE; with sanitizers, which take their time, the first two: the last one differs
 * in products alone. */
static int orders(void)
{
    return SW_POISON && !sw_tests_full() ? 2 : 3;
}

/* All that can go in strips in this order; NONE: in float32. A loss takes float32 alone. */
static uint32_t all_of(sw_bf16_order order)
{
    return order != SW_ORDER_NONE ? ALL & ~LOSSES : ALL;
}

/* An exec of two threads, unless others are asked for, that computes in it. */
static sw_exec *exec_in(sw_bf16_order order, sw_exec_opts opts)
{
    opts.threads = opts.threads > 0 ? opts.threads : 2;
    opts.compute = order != SW_ORDER_NONE ? SW_BF16 : SW_F32;
    opts.bf16_order = order;
    return net_exec(&opts);
}

/* Some steps: what went in strips. */
static uint32_t train(tower *n, sw_exec *exec, int immediate, sw_plan_info *plan, double *loss)
{
    sw_array inputs[2];
    sw_run_args args = args_of(n, inputs);
    args.immediate = immediate;
    *plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &args, plan));
    for (int k = 0; k < STEPS; k++)
        OK(sw_run(exec, &args));
    *loss = net_metric(exec, "loss");
    return immediate ? 0 : kinds_of(exec);
}

static sw_value elu(sw_ctx *ctx, sw_value x)
{
    return sw_elu(ctx, x, 0.7f);
}

static function *const functions[] = {sw_swish, sw_gelu, sw_mish, elu};

static const sw_optimizer_opts rules[] = {
#define SW_OPTIMIZER(kind_, states, operations)                                                \
    {.size = sizeof(sw_optimizer_opts), .kind = #kind_, .weight_decay = 0.01f, .release = 1},
#define SW_OPTIMIZER_LIKE(kind_) SW_OPTIMIZER(kind_, 0, 0)
#include "kernels/optimizers.def"
    {.size = sizeof(sw_optimizer_opts), .kind = "adamw", .release = 1, .state_bits = 8},
    {.size = sizeof(sw_optimizer_opts), .kind = "lion", .release = 1, .state_bits = 8},
};
enum { RULES = sizeof rules / sizeof *rules };

/* With the pass, without it, and in immediate mode, where it never is. */
static void same_bits(const char *isa, size_t rule, function *f, int threads,
                      sw_bf16_order order)
{
    sw_optimizer_opts opts = rules[rule];
    opts.no_check = rule % 2 != 0;
    tower n[3];
    sw_plan_info plan[3];
    double loss[3];
    for (int k = 0; k < 3; k++) {
        sw_exec *exec =
            exec_in(order, SW_OPTS(sw_exec_opts, .threads = k == 0 ? threads : 2, .isa = isa,
                                   .no_strips = k == 1, .checks = k == 0));
        begin(&n[k], PLAIN, f, exec, &opts);
        const uint32_t kinds = train(&n[k], exec, k == 2, &plan[k], &loss[k]);
        SW_CHECK(kinds == (k == 0 ? all_of(order) : 0), "%s, order %d, run %d: kinds %x",
                 opts.kind, (int)order, k, kinds);
    }
    SW_CHECK(net_same(n[0].model, n[1].model) && net_same(n[0].model, n[2].model),
             "%s, %s, %d threads, order %d: other bits", isa, opts.kind, threads, (int)order);
    SW_CHECK(loss[0] == loss[1] && loss[0] == loss[2], "%a, %a, %a", loss[0], loss[1], loss[2]);
    SW_CHECK(plan[0].arena_bytes < plan[1].arena_bytes - ROWS * WIDTH / 2,
             "%llu and %llu bytes", (unsigned long long)plan[0].arena_bytes,
             (unsigned long long)plan[1].arena_bytes);
    CU_ASSERT_EQUAL(plan[0].n_tiled, plan[1].n_tiled);
    CU_ASSERT_EQUAL(plan[0].n_rebuilt, plan[1].n_rebuilt);
    /* The bound of a check may make f(z) once more. */
    SW_CHECK(opts.no_check ? plan[0].operations == plan[1].operations
                           : plan[0].operations >= plan[1].operations,
             "%llu and %llu operations", (unsigned long long)plan[0].operations,
             (unsigned long long)plan[1].operations);
    CU_ASSERT(plan[0].operations < plan[1].operations + plan[1].operations / 50);
}

SW_TEST("strips do not show in the bits")
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    const int most = (int)sw_cpu_isa();
    for (int isa = sw_tests_full() ? 0 : most; isa <= most; isa++)
        for (size_t rule = 0; rule < RULES; rule += sw_tests_full() ? 1 : 3)
            for (int o = SW_ORDER_NONE; o < orders(); o++)
                same_bits(isas[isa], rule, functions[rule % 4], 1 + (int)(rule % 4),
                          (sw_bf16_order)o);
    if (sw_tests_full())
        same_bits(isas[most], 1, functions[0], 3, SW_ORDER_NONE);
}

SW_TEST("witnesses agree")
{
    for (int i = 0; i < 2 * orders(); i++) {
        const size_t rule = (size_t)i % 2;
        const sw_bf16_order order = (sw_bf16_order)(i / 2);
        if (rule == 0 && !sw_tests_full())
            continue;
        tower n;
        sw_array inputs[2];
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        sw_exec *exec = exec_in(order, SW_OPTS(sw_exec_opts, .seed = 3));
        begin(&n, PLAIN, sw_swish, exec, &rules[rule * 3]);
        const sw_run_args args = args_of(&n, inputs);
        OK(sw_run(exec, &args));
        CU_ASSERT_EQUAL(kinds_of(exec), all_of(order));
        OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
        SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s: %s", rules[rule * 3].kind,
                 seen.first_fault);
    }
}

/* A result that is read elsewhere, or is an output, stays whole. */
SW_TEST("what others read stays whole")
{
    for (int i = 0; i < 2 * orders(); i++) {
        const int s = i % 2 ? TWICE : OUTPUT;
        const sw_bf16_order order = (sw_bf16_order)(i / 2);
        tower n[2];
        sw_plan_info plan;
        double loss[2];
        for (int without = 0; without < 2; without++) {
            sw_exec *exec = exec_in(order, SW_OPTS(sw_exec_opts, .no_strips = without));
            begin(&n[without], (shape)s, sw_swish, exec, &rules[0]);
            const uint32_t kinds = train(&n[without], exec, 0, &plan, &loss[without]);
            const uint32_t may =
                all_of(order) & (s == OUTPUT ? ~(1u << SWI_STRIPS_LOSS) : (uint32_t)LOSSES);
            SW_CHECK((kinds & ~may) == 0, "shape %d: kinds %x", s, kinds);
        }
        CU_ASSERT(net_same(n[0].model, n[1].model));
        CU_ASSERT_EQUAL(loss[0], loss[1]);
    }
}

/* Inputs that make gradients NaN or infinite, or so large that this is not known beforehand: in
 * strips and whole, the same updates are skipped and counted. */
SW_TEST("what is not finite is skipped whole")
{
    static const float extremes[] = {NAN, 1e30f, 3e15f, INFINITY, 1e19f};
    const size_t most = sw_tests_full() ? sizeof extremes / sizeof *extremes : 2;
    for (size_t k = 0; k < (size_t)orders() * most; k++) {
        const size_t i = k % most;
        const sw_bf16_order order = (sw_bf16_order)(k / most);
        tower n[2];
        uint64_t skipped[2];
        for (int without = 0; without < 2; without++) {
            sw_array inputs[2];
            sw_exec *exec = exec_in(order, SW_OPTS(sw_exec_opts, .no_strips = without));
            begin(&n[without], PLAIN, sw_swish, exec, &rules[0]);
            sw_run_args args = args_of(&n[without], inputs);
            OK(sw_run(exec, &args));
            CU_ASSERT_EQUAL(kinds_of(exec), without ? 0 : all_of(order));
            xs[900 * IN + 7] = extremes[i];
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

/* Bytes for strips are enough; with less, ops run again, until nothing fits: the same bits. */
static void hold_budgets(sw_bf16_order order)
{
    sw_plan_info free_plan, plan;
    tower n, m;
    double loss, again;
    uint32_t held = 0;
    sw_exec *exec = exec_in(order, SW_OPTS(sw_exec_opts));
    begin(&n, PLAIN, sw_swish, exec, &rules[0]);
    CU_ASSERT_EQUAL(train(&n, exec, 0, &free_plan, &loss), all_of(order));
    for (size_t off = 0; off < free_plan.arena_bytes; off += 700000) {
        sw_budget *budget = made_budget(free_plan.model_bytes + free_plan.arena_bytes - off);
        sw_exec *tight = exec_in(order, SW_OPTS(sw_exec_opts, .budget = budget));
        begin(&m, PLAIN, sw_swish, tight, &rules[0]);
        sw_array inputs[2];
        const sw_run_args args = args_of(&m, inputs);
        plan = SW_OPTS(sw_plan_info);
        if (sw_plan(tight, &args, &plan) != SW_OK)
            break;
        CU_ASSERT(plan.arena_bytes <= free_plan.arena_bytes - off);
        const uint32_t kinds = train(&m, tight, 0, &plan, &again);
        CU_ASSERT(off > 0 || kinds == all_of(order));
        CU_ASSERT_EQUAL(loss, again);
        CU_ASSERT(net_same(n.model, m.model));
        held++;
    }
    SW_CHECK(held >= 1, "%u budgets were held", held);
}

SW_TEST("budgets are held")
{
    for (int order = SW_ORDER_NONE; order < orders(); order++)
        hold_budgets((sw_bf16_order)order);
}

/* Each allocation on the way to a plan fails once: the status says so, and the next plan is the
 * one that was asked for. */
SW_TEST("a refused allocation is an answer")
{
    sw_plan_info right = SW_OPTS(sw_plan_info);
    sw_sites sites = {SW_FAULT_MEMORY, .every = sw_tests_full() ? 1 : 5, .keeps = true};
    tower n;
    sw_array inputs[2];
    sw_exec *whole = net_exec(NULL);
    begin(&n, PLAIN, sw_swish, whole, &rules[0]);
    sw_run_args args = args_of(&n, inputs);
    OK(sw_plan(whole, &args, &right));
    while (sw_sites_next(&sites)) {
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        sw_exec *exec = net_exec(NULL);
        (void)SW_AT_SITE(&sites, sw_plan(exec, &args, &plan));
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT_EQUAL(plan.arena_bytes, right.arena_bytes);
    }
    CU_ASSERT(sites.failed > (sw_tests_full() ? 20 : 5));
}
