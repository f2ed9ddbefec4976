/* Recomputation where it is easily wrong: repeats of what reads repeats, plans that are kept
 * for another budget than that at hand, and very long programs. */
#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "tests/runtime/recompute_nets.h"
#include <string.h>

#define ROWS 64
#define WIDE 256
#define BUDGETS 12

/* ---- two narrow places in the forward part ----------------------------------------------- */

/* x is cheap and read by z; before z and after it, something large lives that neither of them
 * needs. So x runs again before z, and z, which then reads that run, again in backward. */
typedef struct {
    sw_model *model;
    sw_linear a, b, c, d, e;
    sw_optimizer *opt;
    sw_array in[2];
} narrow;

static sw_value large(sw_ctx *ctx, narrow *n)
{
    const sw_value x = sw_slice(ctx, sw_input(ctx, 0), 1, 0, 8);
    const sw_value wide = sw_relu(ctx, sw_apply_linear(ctx, n->b, x));
    return sw_detach(ctx, sw_apply_linear(ctx, n->c, sw_detach(ctx, wide)));
}

static void narrow_step(sw_ctx *ctx, void *user)
{
    narrow *n = user;
    const sw_value x = sw_relu(ctx, sw_apply_linear(ctx, n->a, sw_input(ctx, 0)));
    const sw_value s = large(ctx, n);
    const sw_value z = sw_tanh(ctx, sw_apply_linear(ctx, n->d, x));
    sw_value y = sw_add(ctx, sw_apply_linear(ctx, n->e, z), s);
    y = sw_add(ctx, y, large(ctx, n));
    const sw_value loss = sw_softmax_ce(ctx, y, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &n->opt, 1);
    sw_update(ctx, n->opt);
}

static sw_status narrow_begin(narrow *n)
{
    static float x[ROWS * 16];
    static uint8_t labels[ROWS];
    *n = (narrow){0};
    SW_TRY(sw_model_create(&n->model, "narrow"));
    n->a = sw_linear_new(n->model, "a", 16, WIDE);
    n->b = sw_linear_new(n->model, "b", 8, 8 * WIDE);
    n->c = sw_linear_new(n->model, "c", 8 * WIDE, 10);
    n->d = sw_linear_new(n->model, "d", WIDE, WIDE);
    n->e = sw_linear_new(n->model, "e", WIDE, 10);
    const sw_param frozen[] = {n->b.weight, n->b.bias, n->c.weight, n->c.bias};
    for (int i = 0; i < 4; i++)
        sw_param_freeze(frozen[i], 1);
    for (int i = 0; i < ROWS * 16; i++)
        x[i] = (float)(i * 7919 % 101) / 50.0f - 1.0f;
    for (int i = 0; i < ROWS; i++)
        labels[i] = (uint8_t)(i % 10);
    n->in[0] = (sw_array){SW_F32, SW_SHAPE(ROWS, 16), x};
    n->in[1] = (sw_array){SW_U8, SW_SHAPE(ROWS), labels};
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.01f);
    return sw_optimizer_create(&n->opt, n->model, &sgd);
}

/* Ops that run again before backward has begun. */
static int repeats_in_forward(const swi_program *p)
{
    int n = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        if (node->is_backward && !node->again)
            break;
        n += node->again;
    }
    return n;
}

/* Three runs in `bytes` (0: no budget): the model's bytes then, or NULL where they do not fit.
 */
static void *narrow_life(size_t bytes, sw_plan_info *plan, int *in_forward)
{
    narrow n;
    sw_budget *budget = NULL;
    sw_exec *exec = NULL;
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    void *left = NULL;
    OK(bytes > 0 ? sw_budget_create(&budget, bytes) : SW_OK);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 5, .budget = budget);
    OK(sw_exec_create(&exec, &opts));
    OK(narrow_begin(&n));
    sw_run_args args = SW_OPTS(sw_run_args, .fn = narrow_step, .user = &n, .models = &n.model,
                               .n_models = 1, .inputs = n.in, .n_inputs = 2);
    *plan = SW_OPTS(sw_plan_info);
    const sw_status status = sw_plan(exec, &args, plan);
    for (uint64_t k = 0; status == SW_OK && k < 3; k++) {
        args.step = k;
        OK(sw_run(exec, &args));
    }
    if (status == SW_OK) {
        *in_forward += repeats_in_forward(exec->last);
        left = net_copy_bytes(n.model);
        OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
        SW_CHECK(seen.n_faults == 0, "in %zu: %s", bytes, seen.first_fault);
    }
    sw_model_destroy(n.model);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    return left;
}

static void a_repeat_may_read_what_was_repeated(void)
{
    sw_plan_info plain, plan;
    int in_forward = 0;
    const void *wanted = narrow_life(0, &plain, &in_forward);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wanted);
    const size_t most = plain.model_bytes + plain.arena_bytes;
    uint32_t repeats = 0;
    for (int k = 0; k < BUDGETS; k++) {
        const size_t bytes = most - plain.arena_bytes * (size_t)k / 40;
        const void *is = narrow_life(bytes, &plan, &in_forward);
        if (is == NULL)
            break;
        SW_CHECK(memcmp(is, wanted, plain.model_bytes) == 0, "%u repeats in %zu: other bits",
                 plan.n_repeats, bytes);
        repeats = plan.n_repeats;
    }
    CU_ASSERT(repeats > 0 && in_forward > 0);
    sw_note("%u repeats, %d before backward", repeats, in_forward);
}

/* ---- plans for another budget ------------------------------------------------------------ */

typedef struct {
    size_t least, plain; /* arena bytes, with all repeats and with none */
    size_t model;
} sizes;

static sizes sizes_of(rc_kind kind)
{
    sizes of = {0};
    for (int k = 0; k < 2; k++) {
        rc_net n;
        sw_budget *budget = NULL;
        sw_exec *exec = NULL;
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        OK(k == 0 ? sw_budget_create(&budget, 64) : SW_OK);
        const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .budget = budget);
        OK(sw_exec_create(&exec, &opts));
        OK(rc_begin(&n, kind, RC_SOME));
        const sw_run_args args = rc_args(&n, 0);
        CU_ASSERT_EQUAL(sw_plan(exec, &args, &plan), k == 0 ? SW_NOMEM : SW_OK);
        *(k == 0 ? &of.least : &of.plain) = plan.arena_bytes;
        of.model = plan.model_bytes + n.data_bytes;
        rc_end(&n);
        sw_exec_destroy(exec);
        sw_budget_destroy(budget);
    }
    CU_ASSERT_FATAL(of.least < of.plain);
    return of;
}

/* Immediate mode has no plan to keep to, and asks for more: what it was refused, a planned run
 * is not. */
static void a_plan_for_immediate_mode_is_not_kept(void)
{
    rc_net n;
    sw_budget *budget;
    sw_exec *exec;
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    const sizes of = sizes_of(RC_SWISH);
    OK(sw_budget_create(&budget, of.model + of.least));
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .budget = budget);
    OK(sw_exec_create(&exec, &opts));
    OK(rc_begin(&n, RC_SWISH, RC_SOME));
    sw_run_args args = rc_args(&n, 0);
    for (int k = 0; k < 2; k++) {
        args.immediate = 1;
        REFUSED(sw_plan(exec, &args, &plan), SW_NOMEM, "does not fit");
        args.immediate = 0;
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT(plan.n_repeats > 0 && plan.arena_bytes <= of.least);
    }
    OK(sw_run(exec, &args));
    rc_end(&n);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
}

/* A plan that took no room yet is planned anew when others took that room. */
static void a_plan_gives_way_to_what_others_took(void)
{
    rc_net n;
    sw_model *other;
    sw_budget *budget;
    sw_exec *exec;
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    const sizes of = sizes_of(RC_SWISH);
    OK(sw_budget_create(&budget, of.model + of.plain));
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .budget = budget);
    OK(sw_exec_create(&exec, &opts));
    OK(rc_begin(&n, RC_SWISH, RC_SOME));
    const sw_run_args args = rc_args(&n, 0);
    const sw_plan_visitor nothing = SW_OPTS(sw_plan_visitor);
    OK(sw_plan_visit(exec, &args, &nothing)); /* plans, and reserves nothing */
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    OK(sw_model_create(&other, "other")); /* takes most of what can be done without */
    (void)sw_param_new(other, "table", SW_F32,
                       SW_SHAPE((int64_t)(of.plain - of.least) / 4 * 9 / 10), "zeros");
    OK(sw_model_ready(other, exec, 1));
    CU_ASSERT(sw_budget_used(budget) > 0);
    OK(sw_run(exec, &args));
    OK(sw_plan(exec, &args, &plan));
    CU_ASSERT(plan.n_repeats + plan.n_released > 0 && plan.arena_bytes < of.plain);
    CU_ASSERT(sw_budget_used(budget) <= sw_budget_limit(budget));
    rc_end(&n);
    sw_model_destroy(other);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
}

/* An equal trace that has more room does not share the plan of one that had little. */
static void a_slow_plan_is_not_shared(void)
{
    rc_net n[2];
    sw_budget *budget;
    sw_exec *exec;
    sw_plan_info plan[2] = {SW_OPTS(sw_plan_info), SW_OPTS(sw_plan_info)};
    const sizes of = sizes_of(RC_CONV);
    OK(sw_budget_create(&budget, 2 * of.model + of.plain));
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .budget = budget);
    OK(sw_exec_create(&exec, &opts));
    OK(rc_begin(&n[0], RC_CONV, RC_SOME));
    OK(rc_begin(&n[1], RC_CONV, RC_SOME));
    sw_run_args args = rc_args(&n[0], 0);
    args.data_bytes = of.model + of.plain - of.least; /* leaves little */
    OK(sw_plan(exec, &args, &plan[0]));
    CU_ASSERT(plan[0].n_repeats > 0);
    args = rc_args(&n[1], 0);
    OK(sw_plan(exec, &args, &plan[1]));
    SW_CHECK(plan[1].n_repeats == 0 && plan[1].arena_bytes == of.plain, "%u repeats, %zu bytes",
             plan[1].n_repeats, plan[1].arena_bytes);
    CU_ASSERT_EQUAL(exec->n_frames, 2);
    rc_end(&n[0]);
    rc_end(&n[1]);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
}

/* ---- long programs ----------------------------------------------------------------------- */

#define LONG 500

typedef struct {
    int layers;
    sw_model *model;
    sw_linear linear[LONG];
    sw_optimizer *opt;
    sw_array in[2];
} deep;

static void deep_step(sw_ctx *ctx, void *user)
{
    deep *d = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < d->layers; i++) {
        const sw_value y = sw_tanh(ctx, sw_apply_linear(ctx, d->linear[i], x));
        x = i % 9 == 8 ? sw_add(ctx, x, y) : y;
    }
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_backward(ctx, loss, &d->opt, 1);
    sw_update(ctx, d->opt);
}

static sw_status deep_begin(deep *d)
{
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
    d->layers = sw_tests_full() ? LONG : LONG / 16;
    SW_TRY(sw_model_create(&d->model, "deep"));
    for (int i = 0; i < d->layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "l%d", i);
        d->linear[i] = sw_linear_new(d->model, name, 16, 16);
    }
    d->in[0] = (sw_array){SW_F32, SW_SHAPE(64, 16), NULL};
    d->in[1] = (sw_array){SW_U8, SW_SHAPE(64), NULL};
    return sw_optimizer_create(&d->opt, d->model, &sgd);
}

/* Planning takes memory by the ops and by a table that is bounded. Time is noted: it depends on
 * the machine. */
static void long_programs_are_planned_in_little_memory(void)
{
    static deep d;
    size_t most = 0, arena = 0;
    sw_heap_stats heap;
    OK(deep_begin(&d));
    for (int k = 0; k < 3; k++) {
        sw_budget *budget = NULL;
        sw_exec *exec;
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        OK(k > 0 ? sw_budget_create(&budget, most - arena * (size_t)k / 3) : SW_OK);
        const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .budget = budget);
        OK(sw_exec_create(&exec, &opts));
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = deep_step, .user = &d, .models = &d.model, .n_models = 1,
                    .inputs = d.in, .n_inputs = 2);
        OK(sw_plan(exec, &args, &plan));
        if (k == 0) {
            arena = plan.arena_bytes;
            most = plan.model_bytes + arena;
        }
        CU_ASSERT_EQUAL(plan.n_repeats > 0, k > 0);
        sw_heap_read(SW_HEAP_PROGRAMS, &heap);
        sw_note("%u ops, %u of them again: %.2f s, heap at most %zu MB", plan.n_ops,
                plan.n_repeats, (double)plan.plan_ns * 1e-9, heap.peak_bytes >> 20);
        SW_CHECK(heap.peak_bytes < (size_t)100 << 20, "%zu bytes", heap.peak_bytes);
        sw_arena_destroy(d.model->arena); /* reserved in the budget that goes */
        d.model->arena = NULL;
        sw_exec_destroy(exec);
        sw_budget_destroy(budget);
    }
    sw_model_destroy(d.model);
}

static const sw_test tests[] = {
    {"a repeat may read what was repeated", a_repeat_may_read_what_was_repeated, false},
    {"a plan for immediate mode is not kept", a_plan_for_immediate_mode_is_not_kept, false},
    {"a plan gives way to what others took", a_plan_gives_way_to_what_others_took, false},
    {"a slow plan is not shared", a_slow_plan_is_not_shared, false},
    {"long programs are planned in little memory", long_programs_are_planned_in_little_memory,
     false},
};
SW_SUITE("recompute more", tests)
