/* Cross-entropy over a large vocabulary goes through its rows in parts where the plan's height
 * would else come from its logits: the height falls, the bits stay. */
#include "runtime/exec/exec.h"
#include "tests/runtime/nets.h"
#include "tests/support/suite.h"
#include <string.h>

SW_TESTS("chunk")

#define ROWS 512
#define WIDTH 16
#define MOST_CLASSES 700

typedef struct {
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear first;
    sw_param table;
    int64_t classes;
} head;

static void step(sw_ctx *ctx, void *user)
{
    const head *h = user;
    const sw_value x = sw_swish(ctx, sw_apply_linear(ctx, h->first, sw_input(ctx, 0)));
    const sw_value loss =
        sw_linear_ce(ctx, x, sw_use(ctx, h->table), (sw_value){0, 0}, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) != SW_TRAIN)
        return;
    sw_backward(ctx, loss, &h->optimizer, 1);
    sw_update(ctx, h->optimizer);
}

static void end_model(void *model)
{
    sw_model_destroy(model);
}

static void begin(head *h, int64_t classes)
{
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.5f, .release = 1);
    *h = (head){.classes = classes};
    OK(sw_model_create(&h->model, "head"));
    sw_after(end_model, h->model);
    h->first = sw_linear_new(h->model, "first", WIDTH, WIDTH);
    h->table = sw_param_new(h->model, "table", SW_F32, SW_SHAPE(classes, WIDTH), "normal:0.3");
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
    inputs[0] = (sw_array){SW_F32, SW_SHAPE(rows, WIDTH), x};
    inputs[1] = (sw_array){SW_I32, SW_SHAPE(rows), labels};
    return SW_OPTS(sw_run_args, .fn = step, .user = h, .models = &h->model, .n_models = 1,
                   .inputs = inputs, .n_inputs = 2);
}

typedef struct {
    sw_plan_info plan;
    double loss;
    float table[MOST_CLASSES * WIDTH];
} outcome;

static void live(const sw_exec_opts *opts, int64_t classes, int64_t rows, outcome *out)
{
    head h;
    sw_array inputs[2];
    sw_exec *exec = net_exec(opts);
    begin(&h, classes);
    OK(sw_model_ready(h.model, exec, 4));
    const sw_run_args args = args_of(&h, inputs, rows);
    out->plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &args, &out->plan));
    for (int i = 0; i < 3; i++)
        OK(sw_run(exec, &args));
    OK(sw_metric_get(exec, "loss", &out->loss));
    OK(sw_param_read(h.table, out->table, (size_t)(classes * WIDTH) * sizeof(float)));
}

/* All logits at once would be 1.4 MB; a few parts take a fraction, and no bit changes. */
SW_TEST("parts lower the arena")
{
    static outcome whole, parts;
    const sw_exec_opts never = SW_OPTS(sw_exec_opts, .seed = 1, .no_chunks = 1);
    const sw_exec_opts usual = SW_OPTS(sw_exec_opts, .seed = 1, .threads = 2);
    live(&never, MOST_CLASSES, ROWS, &whole);
    live(&usual, MOST_CLASSES, ROWS, &parts);
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

SW_TEST("witnesses agree")
{
    head h;
    sw_array inputs[2];
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    sw_exec *exec = net_exec(NULL);
    begin(&h, MOST_CLASSES);
    OK(sw_model_ready(h.model, exec, 4));
    const sw_run_args args = args_of(&h, inputs, ROWS);
    OK(sw_plan(exec, &args, &plan));
    CU_ASSERT(plan.chunk_rows > 0);
    OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
    SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s", seen.first_fault);
    OK(sw_run(exec, &args));
}
