/* Cross-entropy over a large vocabulary goes through its rows in parts where the plan's height
 * would else come from its logits: the height falls, the bits stay. The costs of a budget are
 * counted, these parts included; parts are as large as fit; and more budget is never slower. */
#include "kernels/dispatch.h"
#include "runtime/exec/exec.h"
#include "tests/runtime/nets.h"
#include "tests/runtime/recompute_nets.h"
#include "tests/support/suite.h"

SW_TESTS("budget_cost")

enum { DEEP = 12, ROWS = 512, WIDTH = 160, CLASSES = 100, NARROW = 16, MOST_CLASSES = 700 };

typedef struct {
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear fc[DEEP];
    sw_param table;
    int layers; /* relu after each; 0: one, with swish */
    int64_t width, classes;
} head;

static void step(sw_ctx *ctx, void *user)
{
    const head *h = user;
    sw_value x = sw_input(ctx, 0);
    if (h->layers == 0)
        x = sw_swish(ctx, sw_apply_linear(ctx, h->fc[0], x));
    for (int k = 0; k < h->layers; k++)
        x = sw_relu(ctx, sw_apply_linear(ctx, h->fc[k], x));
    const sw_value loss =
        sw_linear_ce(ctx, x, sw_use(ctx, h->table), (sw_value){0, 0}, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) != SW_TRAIN)
        return;
    sw_backward(ctx, loss, &h->optimizer, 1);
    sw_update(ctx, h->optimizer);
}

/* All gradients are there at the end of backward, which is the peak: all rows at once are no
 * higher. With a budget updates are released. */
static void begin(head *h, int layers, int64_t width, int64_t classes)
{
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.5f, .release = layers == 0);
    *h = (head){.layers = layers, .width = width, .classes = classes};
    h->model = made_model("head");
    for (int k = 0; k == 0 || k < layers; k++) {
        char name[] = "fca";
        name[2] = (char)('a' + k);
        h->fc[k] = sw_linear_new(h->model, name, width, width);
    }
    h->table = sw_param_new(h->model, "table", SW_F32, SW_SHAPE(classes, width), "normal:0.3");
    OK(sw_optimizer_create(&h->optimizer, h->model, &opts));
}

static float x[ROWS * WIDTH];
static int32_t labels[ROWS];

static sw_run_args args_of(head *h, sw_array *inputs, int64_t rows)
{
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)(i * 7 % 31) / 15.0f - 1.0f;
    for (int i = 0; i < ROWS; i++)
        labels[i] = (int32_t)(i * 13 % h->classes);
    inputs[0] = (sw_array){SW_F32, SW_SHAPE(rows, h->width), x};
    inputs[1] = (sw_array){SW_I32, SW_SHAPE(rows), labels};
    return SW_OPTS(sw_run_args, .fn = step, .user = h, .models = &h->model, .n_models = 1,
                   .inputs = inputs, .n_inputs = 2);
}

/* ---- parts ------------------------------------------------------------------------------- */

typedef struct {
    sw_plan_info plan;
    double loss;
    float table[MOST_CLASSES * NARROW];
} outcome;

static void live(const sw_exec_opts *opts, int64_t classes, int64_t rows, outcome *out)
{
    head h;
    sw_array inputs[2];
    sw_exec *exec = net_exec(opts);
    begin(&h, 0, NARROW, classes);
    OK(sw_model_ready(h.model, exec, 4));
    const sw_run_args args = args_of(&h, inputs, rows);
    out->plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &args, &out->plan));
    for (int i = 0; i < 3; i++)
        OK(sw_run(exec, &args));
    OK(sw_metric_get(exec, "loss", &out->loss));
    OK(sw_param_read(h.table, out->table, (size_t)(classes * NARROW) * sizeof(float)));
}

/* All logits at once would be 1.4 MB; a few parts take a fraction, and no bit changes. */
SW_TEST("parts lower the arena")
{
    static outcome whole, parts;
    live(&SW_OPTS(sw_exec_opts, .seed = 1, .no_chunks = 1), MOST_CLASSES, ROWS, &whole);
    live(&SW_OPTS(sw_exec_opts, .seed = 1, .threads = 2), MOST_CLASSES, ROWS, &parts);
    const size_t logits = (size_t)ROWS * MOST_CLASSES * sizeof(float);
    CU_ASSERT_EQUAL(whole.plan.chunk_rows, 0);
    CU_ASSERT(whole.plan.arena_bytes > logits);
    SW_CHECK(parts.plan.chunk_rows > 0 && parts.plan.chunk_rows < ROWS, "%lld rows",
             (long long)parts.plan.chunk_rows);
    SW_CHECK(parts.plan.arena_bytes < whole.plan.arena_bytes - logits / 2, "%zu, %zu whole",
             parts.plan.arena_bytes, whole.plan.arena_bytes);
    CU_ASSERT_EQUAL(memcmp(&parts.loss, &whole.loss, sizeof whole.loss), 0);
    CU_ASSERT_EQUAL(memcmp(parts.table, whole.table, sizeof whole.table), 0);
}

/* As few parts as do: one more halving would gain nothing, one less would cost bytes. */
SW_TEST("parts are as large as they may be")
{
    static outcome o;
    const sw_exec_opts usual = SW_OPTS(sw_exec_opts, .seed = 1);
    int64_t before = ROWS;
    for (int64_t classes = 2; classes <= MOST_CLASSES; classes += 170) {
        live(&usual, classes, ROWS, &o);
        const int64_t rows = o.plan.chunk_rows == 0 ? ROWS : o.plan.chunk_rows;
        SW_CHECK(rows <= before && rows >= 32,
                 "%lld classes: %lld rows, fewer classes had %lld", (long long)classes,
                 (long long)rows, (long long)before);
        before = rows;
    }
    CU_ASSERT(before < ROWS);
    live(&usual, MOST_CLASSES, 32, &o); /* too few rows for parts */
    CU_ASSERT_EQUAL(o.plan.chunk_rows, 0);
}

SW_TEST("witnesses of parts agree")
{
    head h;
    sw_array inputs[2];
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    sw_exec *exec = net_exec(NULL);
    begin(&h, 0, NARROW, MOST_CLASSES);
    OK(sw_model_ready(h.model, exec, 4));
    const sw_run_args args = args_of(&h, inputs, ROWS);
    OK(sw_plan(exec, &args, &plan));
    CU_ASSERT(plan.chunk_rows > 0);
    OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
    SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s", seen.first_fault);
    OK(sw_run(exec, &args));
}

/* ---- budgets ----------------------------------------------------------------------------- */

/* bytes 0: no budget. */
static sw_status plan_of(const sw_run_args *args, size_t bytes, bool tiles, sw_plan_info *plan)
{
    sw_budget *budget = NULL;
    sw_exec *exec;
    if (bytes > 0)
        OK(sw_budget_create(&budget, bytes));
    OK(sw_exec_create(&exec,
                      &SW_OPTS(sw_exec_opts, .seed = 1, .budget = budget, .no_tiles = !tiles)));
    *plan = SW_OPTS(sw_plan_info);
    const sw_status status = sw_plan(exec, args, plan);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    return status;
}

static size_t scratch_of(int64_t parts)
{
    const swi_linear_ce_attrs attrs = {.rows = (ROWS + parts - 1) / parts};
    const sw_type in[] = {{SW_F32, SW_PLAIN, {2, {ROWS, WIDTH}}},
                          {SW_F32, SW_PLAIN, {2, {CLASSES, WIDTH}}},
                          {SW_I32, SW_PLAIN, {1, {ROWS}}}};
    const sw_kernel_info info = {
        .in = in, .n_in = 3, .attrs = &attrs, .threads = 1, .isa = sw_cpu_isa()};
    return swi_op(SW_OP_linear_ce)->scratch_bytes(&info);
}

/* The bytes that a budget is charged for the plan: no loader is there. */
static size_t charged(const sw_plan_info *plan)
{
    return plan->model_bytes + plan->arena_bytes;
}

static int64_t parts_of(const sw_plan_info *plan)
{
    return plan->chunk_rows == 0 ? 1 : (ROWS + plan->chunk_rows - 1) / plan->chunk_rows;
}

/* Would one part less be over the budget? Parts are no fewer than without one. */
static bool are_the_largest(const sw_plan_info *plan, const sw_plan_info *plain, size_t bytes)
{
    const int64_t parts = parts_of(plan);
    return parts <= parts_of(plain) || parts < 2 ||
           charged(plan) + scratch_of(parts - 1) - scratch_of(parts) > bytes;
}

SW_TEST("parts are as large as fit, and what they cost is said")
{
    head h;
    sw_array inputs[2];
    const size_t budgets = sw_tests_full() ? 48 : 6;
    int smaller = 0, only_parts = 0, gaps = 0;
    for (int layers = 1; layers <= DEEP; layers += layers < 4 && sw_tests_full() ? 1 : 4) {
        begin(&h, layers, WIDTH, CLASSES);
        const sw_run_args args = args_of(&h, inputs, ROWS);
        sw_plan_info plain, least, plan;
        OK(plan_of(&args, 0, false, &plain));
        CU_ASSERT_EQUAL(plain.budget_cost, 0);
        CU_ASSERT_EQUAL(plan_of(&args, 1, false, &least), SW_NOMEM);
        uint64_t before = UINT64_MAX;
        for (size_t k = 0; k <= budgets; k++) {
            const size_t bytes =
                charged(&least) + (charged(&plain) - charged(&least)) / budgets * k;
            OK(plan_of(&args, bytes, false, &plan));
            gaps += !are_the_largest(&plan, &plain, bytes);
            SW_CHECK(plan.cost == plain.cost + plan.budget_cost, "%zu: %llu, %llu and %llu",
                     bytes, (unsigned long long)plan.cost, (unsigned long long)plain.cost,
                     (unsigned long long)plan.budget_cost);
            CU_ASSERT_EQUAL(plan.budget_cost > plan.repeat_cost,
                            parts_of(&plan) > parts_of(&plain));
            SW_CHECK(plan.cost <= before, "%zu: slower than with less", bytes);
            before = plan.cost;
            smaller += parts_of(&plan) > parts_of(&plain);
            only_parts += parts_of(&plan) > parts_of(&plain) && plan.n_repeats == 0;
        }
    }
    sw_note("%d plans have smaller parts than without a budget, %d of them repeat nothing",
            smaller, only_parts);
    CU_ASSERT(smaller > 0 && gaps <= smaller / 8); /* a larger one had no place */
}

/* ---- near the least budget --------------------------------------------------------------- */

enum { WIDE = 512, SWISHES = 64 };
#define DEEP_LAYERS (sw_tests_full() ? SWISHES : 28)

typedef struct {
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear fc[SWISHES];
} deep;

static void deep_step(sw_ctx *ctx, void *user)
{
    const deep *d = user;
    sw_value y = sw_input(ctx, 0);
    for (int k = 0; k < DEEP_LAYERS; k++)
        y = sw_swish(ctx, sw_apply_linear(ctx, d->fc[k], y));
    const sw_value loss = sw_mse(ctx, y, sw_input(ctx, 0));
    sw_backward(ctx, loss, &d->optimizer, 1);
    sw_update(ctx, d->optimizer);
}

/* Layers of which hardly one result fits: ten times the step, and no plan does with less. */
SW_TEST("the least budget of a deep net costs what is proved")
{
    deep d;
    sw_plan_info plan;
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.1f, .release = 1);
    d.model = made_model("deep");
    for (int k = 0; k < DEEP_LAYERS; k++) {
        char name[] = "fcaa";
        name[2] = (char)('a' + k / 26);
        name[3] = (char)('a' + k % 26);
        d.fc[k] = sw_linear_new(d.model, name, WIDE, WIDE);
    }
    OK(sw_optimizer_create(&d.optimizer, d.model, &opts));
    const sw_array input = {SW_F32, SW_SHAPE(ROWS, WIDE), NULL};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = deep_step, .user = &d, .models = &d.model, .n_models = 1,
                .inputs = &input, .n_inputs = 1);
    CU_ASSERT_EQUAL(plan_of(&args, 1, true, &plan), SW_NOMEM);
    OK(plan_of(&args, charged(&plan), true, &plan));
    sw_note("%u of %u ops run again, %.3f times the least that is proved", plan.n_repeats,
            plan.n_ops, (double)plan.repeat_cost / (double)plan.least_repeat_cost);
    CU_ASSERT(plan.n_repeats > 6 * DEEP_LAYERS);
    CU_ASSERT((double)plan.repeat_cost <= 1.2 * (double)plan.least_repeat_cost);
}
