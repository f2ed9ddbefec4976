/* Rebuilding never makes an arena larger, and never the least that a budget needs. */
#include "runtime/exec/exec.h"
#include "tests/runtime/random_net.h"
#include "tests/runtime/recompute_nets.h"
#include "tests/support/suite.h"

SW_TESTS("rebuild peak")

static const sw_exec_opts with = {.size = sizeof with, .seed = 3};
static const sw_exec_opts without = {.size = sizeof without, .seed = 3, .no_rebuild = 1};

/* The plan within so many bytes (0: any). Filled where it is refused, too. */
static sw_status plan_in(const sw_exec_opts *like, const sw_run_args *args, size_t bytes,
                         sw_plan_info *plan)
{
    sw_exec_opts opts = *like;
    sw_exec *exec = NULL;
    sw_budget *budget = NULL;
    *plan = SW_OPTS(sw_plan_info);
    if (bytes > 0 && sw_budget_create(&budget, bytes) != SW_OK)
        return SW_INVALID;
    opts.budget = budget;
    sw_status status = sw_exec_create(&exec, &opts);
    if (status == SW_OK)
        status = sw_plan(exec, args, plan);
    for (int i = 0; i < args->n_models && bytes > 0;
         i++) { /* reserved in the budget that goes */
        sw_arena_destroy(args->models[i]->arena);
        args->models[i]->arena = NULL;
    }
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    return status;
}

/* ---- random networks --------------------------------------------------------------------- */

static unsigned n_lower, n_rebuilt;

static void random_arena_is_no_larger(void)
{
    random_life life;
    sw_plan_info a, b;
    if (seed_well(random_life_begin(&life, &seed_net, false, false), "declare")) {
        const sw_run_args args = random_life_args(&life, 0);
        if (seed_well(plan_in(&with, &args, 0, &a), "plan") &&
            seed_well(plan_in(&without, &args, 0, &b), "plan without")) {
            seed_check(a.arena_bytes <= b.arena_bytes, "arena", "is larger with rebuilds");
            n_lower += a.arena_bytes < b.arena_bytes;
            n_rebuilt += a.n_rebuilt > 0;
        }
    }
    random_life_end(&life);
}

SW_TEST("random arenas are no larger")
{
    n_lower = n_rebuilt = 0;
    seed_each(60, 5000, random_arena_is_no_larger);
    SW_CHECK(n_lower > 0, "no arena of %u with rebuilds is lower", n_rebuilt);
    sw_note("%u programs with rebuilds, %u arenas are lower", n_rebuilt, n_lower);
}

/* ---- blocks with swiglu ------------------------------------------------------------------ */

enum { BLOCKS = 8, ROWS = 96, WIDTH = 64, HIDDEN = 160 };

typedef struct {
    sw_model *model;
    sw_linear gate[BLOCKS], up[BLOCKS], down[BLOCKS];
    sw_optimizer *opt;
} blocks;

static void blocks_step(sw_ctx *ctx, void *user)
{
    const blocks *n = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < BLOCKS; i++) {
        const sw_value a = sw_apply_linear(ctx, n->gate[i], x);
        const sw_value b = sw_apply_linear(ctx, n->up[i], x);
        x = sw_add(ctx, x, sw_apply_linear(ctx, n->down[i], sw_swiglu(ctx, a, b)));
    }
    const sw_value loss = sw_mse(ctx, x, sw_input(ctx, 0));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &n->opt, 1);
    sw_update(ctx, n->opt);
}

static void blocks_begin(blocks *n)
{
    n->model = made_model("blocks");
    for (int i = 0; i < BLOCKS; i++) {
        n->gate[i] = sw_linear_new(n->model, sw_textf("gate%d", i), WIDTH, HIDDEN);
        n->up[i] = sw_linear_new(n->model, sw_textf("up%d", i), WIDTH, HIDDEN);
        n->down[i] = sw_linear_new(n->model, sw_textf("down%d", i), HIDDEN, WIDTH);
    }
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .no_check = 1, .release = 1);
    OK(sw_optimizer_create(&n->opt, n->model, &opts));
}

/* Of three tensors of the hidden width two are kept. */
SW_TEST("swiglu keeps its inputs alone")
{
    static float data[ROWS * WIDTH];
    static blocks n;
    sw_plan_info a, b;
    for (int i = 0; i < ROWS * WIDTH; i++)
        data[i] = (float)(i % 19) / 19.0f - 0.5f;
    const sw_array in = {SW_F32, SW_SHAPE(ROWS, WIDTH), data};
    blocks_begin(&n);
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = blocks_step, .user = &n, .models = &n.model, .n_models = 1,
                .inputs = &in, .n_inputs = 1);
    sw_exec *exec = net_exec(&with);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    OK(plan_in(&with, &args, 0, &a));
    OK(plan_in(&without, &args, 0, &b));
    SW_CHECK(a.n_rebuilt >= BLOCKS - 1 && 100 * a.arena_bytes <= 80 * b.arena_bytes,
             "%zu bytes with %u rebuilds, %zu without", a.arena_bytes, a.n_rebuilt,
             b.arena_bytes);
    OK(sw_model_ready(n.model, exec, 1));
    OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
    SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s", seen.first_fault);
    sw_note("%d blocks: %zu bytes, %zu without", BLOCKS, a.arena_bytes, b.arena_bytes);
}

/* ---- budgets ----------------------------------------------------------------------------- */

/* Under a budget each rebuild is a choice: the least that would do is no more than without the
 * pass, and it does. */
SW_TEST("the least budget is no larger")
{
    for (int kind = 0; kind < RC_KINDS; kind += sw_tests_full() ? 1 : 3) {
        const char *name = rc_name((rc_kind)kind);
        rc_net n;
        sw_plan_info a, b, again;
        OK(rc_begin(&n, (rc_kind)kind, RC_SOME));
        const sw_run_args args = rc_args(&n, 0);
        CU_ASSERT_EQUAL(plan_in(&with, &args, 64, &a), SW_NOMEM);
        CU_ASSERT_EQUAL(plan_in(&without, &args, 64, &b), SW_NOMEM);
        SW_CHECK(a.total_bytes <= b.total_bytes, "%s: %zu bytes, %zu without", name,
                 a.total_bytes, b.total_bytes);
        SW_CHECK(plan_in(&with, &args, a.total_bytes, &again) == SW_OK &&
                     again.total_bytes <= a.total_bytes,
                 "%s: %zu are said to do: %s", name, a.total_bytes, sw_last_error());
        rc_end(&n);
    }
}

/* Repeats of what is rebuilt without a budget are no repeats of the budget. */
SW_TEST("figures add up")
{
    rc_net n;
    sw_plan_info free, least, plan;
    uint32_t some = 0;
    OK(rc_begin(&n, RC_SWISH, RC_SOME));
    const sw_run_args args = rc_args(&n, 0);
    OK(plan_in(&with, &args, 0, &free));
    CU_ASSERT_EQUAL(plan_in(&with, &args, 64, &least), SW_NOMEM);
    for (size_t k = 0; k < 6; k++) {
        const size_t bytes = least.total_bytes + k * (free.total_bytes - least.total_bytes) / 5;
        OK(plan_in(&with, &args, bytes, &plan));
        CU_ASSERT_EQUAL(plan.n_ops - plan.n_rebuilt - plan.n_repeats,
                        free.n_ops - free.n_rebuilt);
        SW_CHECK(plan.cost == free.cost + plan.budget_cost, "%llu, %llu and %llu more",
                 (unsigned long long)plan.cost, (unsigned long long)free.cost,
                 (unsigned long long)plan.budget_cost);
        CU_ASSERT_EQUAL(plan.rebuild_cost, free.rebuild_cost);
        CU_ASSERT(plan.n_rebuilt <= free.n_rebuilt);
        some += plan.n_repeats > 0;
    }
    CU_ASSERT(some > 2);
}
