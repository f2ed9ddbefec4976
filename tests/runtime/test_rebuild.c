/* Results of cheap ops are not kept for backward but recomputed: what then lives between
 * forward and backward, the bits, and where it must not be done. */
#include "runtime/exec/exec.h"
#include "tests/runtime/nets.h"
#include "tests/runtime/rebuilt_bits.h"
#include "tests/support/suite.h"
#include "tools/models/gpt_net.h"

SW_TESTS("rebuild")

#define ROWS 24
#define WIDTH 40
#define LAYERS 4
#define TENSOR ((size_t)ROWS * WIDTH * sizeof(float))

typedef enum { PLAIN, NORMED, SHARED, SHOWN } shape;

typedef struct {
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear linear[LAYERS + 1];
    sw_layer_norm norm[LAYERS];
    shape shape;
} chain;

static sw_value layer(sw_ctx *ctx, const chain *n, int i, sw_value x)
{
    x = sw_apply_linear(ctx, n->linear[i], x);
    if (n->shape == NORMED)
        x = sw_apply_layer_norm(ctx, n->norm[i], x);
    const sw_value y = sw_swish(ctx, x);
    if (n->shape == SHARED) /* one more reader of what swish made: a product keeps both */
        return sw_mul(ctx, y, sw_tanh(ctx, x));
    if (n->shape == SHOWN && i == 1)
        sw_output(ctx, "shown", y);
    return y;
}

static void step(sw_ctx *ctx, void *user)
{
    const chain *n = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < LAYERS; i++)
        x = layer(ctx, n, i, x);
    const sw_value loss =
        sw_mse(ctx, sw_apply_linear(ctx, n->linear[LAYERS], x), sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) != SW_TRAIN)
        return;
    sw_optimizer *const optimizers[] = {n->optimizer};
    sw_backward(ctx, loss, optimizers, 1);
    sw_update(ctx, n->optimizer);
}

static void begin(chain *n, shape s)
{
    *n = (chain){.shape = s};
    n->model = made_model("net");
    for (int i = 0; i <= LAYERS; i++) {
        n->linear[i] = sw_linear_new(n->model, sw_textf("linear%d", i), WIDTH, WIDTH);
        if (i < LAYERS && s == NORMED)
            n->norm[i] = sw_layer_norm_new(n->model, sw_textf("norm%d", i), WIDTH);
    }
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .no_check = 1, .lr = 0.1f, .release = 1);
    OK(sw_optimizer_create(&n->optimizer, n->model, &opts));
}

static float data[2][ROWS * WIDTH];

static sw_run_args args_of(chain *n, sw_array *inputs)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < ROWS * WIDTH; i++)
            data[k][i] = (float)((i * 7 + k * 13) % 23) / 11.0f - 1.0f;
        inputs[k] = (sw_array){SW_F32, SW_SHAPE(ROWS, WIDTH), data[k]};
    }
    return SW_OPTS(sw_run_args, .fn = step, .user = n, .models = &n->model, .n_models = 1,
                   .inputs = inputs, .n_inputs = 2);
}

/* Bytes of F32 tensors of the batch that live both before and after the border of backward:
 * what is kept, and the prediction; its gradient takes its place. */
static size_t kept_bytes(const swi_program *p)
{
    const swi_trace *t = &p->trace;
    uint32_t border = 0;
    size_t sum = 0;
    while (border < p->n_ops && !t->nodes[p->ops[border].node].is_backward)
        border++;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (t->storages[s].segment == SWI_SEG_STEP && t->storages[s].alias == s &&
            t->storages[s].bytes == TENSOR && t->storages[s].birth < border &&
            t->storages[s].death > border + 2)
            sum += t->storages[s].bytes;
    return sum;
}

typedef struct {
    size_t kept, arena, kept_without, arena_without;
    uint32_t rebuilt;
} figures;

/* Three steps with the pass and without: the same parameters, and what each kept. */
static figures live(shape s)
{
    figures f = {0};
    static float first[WIDTH * WIDTH], other[WIDTH * WIDTH];
    for (int without = 0; without < 2; without++) {
        chain n;
        sw_array inputs[2];
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .seed = 3, .no_rebuild = without));
        begin(&n, s);
        OK(sw_model_ready(n.model, exec, 9));
        const sw_run_args args = args_of(&n, inputs);
        OK(sw_plan(exec, &args, &plan));
        for (int k = 0; k < 3; k++)
            OK(sw_run(exec, &args));
        *(without ? &f.kept_without : &f.kept) = kept_bytes(exec->last);
        *(without ? &f.arena_without : &f.arena) = plan.arena_bytes;
        if (!without)
            f.rebuilt = plan.n_rebuilt;
        else
            CU_ASSERT(plan.n_rebuilt == 0 && plan.rebuild_cost == 0);
        CU_ASSERT(without || (plan.rebuild_cost > 0 && plan.rebuild_cost < plan.cost));
        OK(sw_param_read(n.linear[0].weight, without ? other : first, sizeof first));
    }
    CU_ASSERT_EQUAL(memcmp(first, other, sizeof first), 0);
    return f;
}

/* Swish keeps its input, so the next layer's own input goes: one tensor for each layer instead
 * of two. The last layer's input lives on the border anyway, but is not rebuilt for that. */
SW_TEST("a layer's input is rebuilt")
{
    const figures f = live(PLAIN);
    CU_ASSERT_EQUAL(f.kept_without, (2 * LAYERS + 1) * TENSOR);
    SW_CHECK(f.kept == (LAYERS + 1) * TENSOR, "%zu tensors are kept", f.kept / TENSOR);
    CU_ASSERT(f.arena < f.arena_without);
    CU_ASSERT_EQUAL(f.rebuilt, LAYERS);
}

/* A norm keeps its input and statistics: both its result and that of swish after it go. Of the
 * last layer one stays: recomputed at the peak, it would raise that. */
SW_TEST("chains are rebuilt")
{
    const figures f = live(NORMED);
    CU_ASSERT_EQUAL(f.kept_without, (3 * LAYERS + 1) * TENSOR);
    SW_CHECK(f.kept == (LAYERS + 2) * TENSOR, "%zu tensors are kept", f.kept / TENSOR);
    CU_ASSERT_EQUAL(f.rebuilt, 2 * LAYERS - 1);
}

/* Everything hangs on the layer's product alone; of the last layer one result stays. */
SW_TEST("branches are rebuilt")
{
    const figures f = live(SHARED);
    CU_ASSERT(f.kept_without >= 4 * LAYERS * TENSOR);
    SW_CHECK(f.kept == (LAYERS + 2) * TENSOR, "%zu tensors are kept", f.kept / TENSOR);
}

/* Outputs leave the run and are there anyway. */
SW_TEST("outputs are not rebuilt")
{
    const figures f = live(SHOWN);
    CU_ASSERT_EQUAL(f.rebuilt, LAYERS - 1);
    SW_CHECK(f.kept == (LAYERS + 2) * TENSOR, "%zu tensors are kept, %u rebuilt",
             f.kept / TENSOR, f.rebuilt);
}

static const shape shapes[] = {PLAIN, NORMED, SHARED, SHOWN};
#define SHAPES (sizeof shapes / sizeof *shapes)

/* The witnesses see what the plan says. The death witness leaves before backward: a tensor for
 * each layer, the prediction, the loss, and what stays of the last layer. */
SW_TEST("witnesses agree")
{
    const size_t layers = (LAYERS + 1) * TENSOR + sizeof(float);
    const size_t saved[] = {layers, layers + TENSOR, layers + TENSOR, layers + TENSOR};
    for (size_t i = 0; i < SHAPES; i++) {
        chain n;
        sw_array inputs[2];
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .seed = 3));
        begin(&n, shapes[i]);
        OK(sw_model_ready(n.model, exec, 9));
        sw_run_args args = args_of(&n, inputs);
        OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
        SW_CHECK(seen.agreed == SW_WITNESS_ALL, "shape %d: %s", (int)shapes[i],
                 seen.first_fault);
        SW_CHECK(seen.saved_bytes == saved[i], "shape %d: %zu bytes, %zu were expected",
                 (int)shapes[i], seen.saved_bytes, saved[i]);
        args.mode = SW_EVAL;
        OK(sw_witness(exec, &args, SW_WITNESS_DEATH, &seen));
        CU_ASSERT_EQUAL(seen.saved_bytes, 0); /* no backward part */
    }
}

/* Every byte that is recomputed is the forward part's; one that is not is reported. */
SW_TEST("rebuilt bits are the forward bits")
{
    static const uint32_t results[] = {LAYERS, 2 * LAYERS - 1, 3 * LAYERS - 1, LAYERS - 1};
    for (size_t i = 0; i < SHAPES; i++) {
        chain n;
        sw_array inputs[2];
        rebuilt_bits bits;
        sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .seed = 3));
        begin(&n, shapes[i]);
        OK(sw_model_ready(n.model, exec, 9));
        const sw_run_args args = args_of(&n, inputs);
        OK(sw_run(exec, &args));
        OK(rebuilt_bits_compare(exec, &args, false, &bits));
        SW_CHECK(bits.results == results[i] && bits.bytes == results[i] * TENSOR,
                 "shape %d: %u results, %zu bytes", (int)shapes[i], bits.results, bits.bytes);
        SW_CHECK(bits.differ + bits.unknown == 0, "shape %d: %u differ, %u unknown: %s",
                 (int)shapes[i], bits.differ, bits.unknown, bits.first);
        OK(rebuilt_bits_compare(exec, &args, true, &bits));
        SW_CHECK(bits.differ == results[i],
                 "shape %d: one byte of %u results was changed, seen in %u", (int)shapes[i],
                 results[i], bits.differ);
    }
}

/* ---- a transformer, as it is trained ----------------------------------------------------- */

enum {
    GPT_LAYERS = 2,
    GPT_ROWS = 3,
    GPT_CONTEXT = 13,
    GPT_WIDTH = 24,
    GPT_HEADS = 3,
    GPT_WORDS = 31
};

typedef struct {
    gpt_net *net;
    sw_optimizer *optimizer;
} transformer;

static void gpt_step(sw_ctx *ctx, void *user)
{
    const transformer *t = user;
    sw_backward(ctx, gpt_net_loss(ctx, t->net, sw_input(ctx, 0), sw_input(ctx, 0)),
                &t->optimizer, 1);
    sw_update(ctx, t->optimizer);
}

/* Of each token a block keeps ten times the width and a number for each head: the input of both
 * norms, query, key and value, what attention made, and what gelu reads (4). The first norm's
 * input is recomputed from the ids, the last norm has one; the loss has made its gradients, of
 * its input and of the words. */
static size_t gpt_saved(void)
{
    const size_t token = GPT_LAYERS * (10 * GPT_WIDTH + GPT_HEADS) + GPT_WIDTH;
    return sizeof(float) * (GPT_ROWS * GPT_CONTEXT * token + GPT_WORDS * GPT_WIDTH);
}

/* Norms, gelu, dropout and sums are recomputed in every block. */
SW_TEST("a transformer is rebuilt to the bit")
{
    static const uint8_t ids[GPT_ROWS * GPT_CONTEXT] = {7, 1, 30, 2, 2, 19, 0, 11, 5};
    const sw_array in = {SW_U8, SW_SHAPE(GPT_ROWS, GPT_CONTEXT), ids};
    const gpt_shape of = {GPT_LAYERS, GPT_WIDTH, GPT_HEADS, GPT_CONTEXT, GPT_WORDS, 0.1f};
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .no_check = 1);
    transformer t = {.net = calloc(1, gpt_net_bytes(GPT_LAYERS))};
    rebuilt_bits bits;
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .seed = 3));
    CU_ASSERT_PTR_NOT_NULL_FATAL(t.net);
    sw_after(free, t.net);
    sw_model *model = made_model("gpt");
    gpt_net_declare(t.net, model, &of);
    OK(sw_optimizer_create(&t.optimizer, model, &sgd));
    OK(sw_model_ready(model, exec, 5));
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = gpt_step, .user = &t, .models = &model,
                                     .n_models = 1, .inputs = &in, .n_inputs = 1);
    OK(sw_run(exec, &args));
    OK(rebuilt_bits_compare(exec, &args, false, &bits));
    SW_CHECK(bits.differ + bits.unknown == 0, "%u differ, %u unknown: %s", bits.differ,
             bits.unknown, bits.first);
    SW_CHECK(bits.results >= 3 * GPT_LAYERS, "%u results", bits.results);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    OK(sw_witness(exec, &args, SW_WITNESS_DEATH, &seen));
    SW_CHECK(seen.agreed == SW_WITNESS_DEATH && seen.saved_bytes == gpt_saved(),
             "%zu bytes are saved, not %zu; %s", seen.saved_bytes, gpt_saved(),
             seen.first_fault);
    sw_note("%u results, %zu bytes recomputed", bits.results, bits.bytes);
}

/* Without a backward part nothing is recomputed. */
SW_TEST("evaluation rebuilds nothing")
{
    chain n;
    sw_array inputs[2];
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts));
    begin(&n, NORMED);
    OK(sw_model_ready(n.model, exec, 9));
    sw_run_args args = args_of(&n, inputs);
    args.mode = SW_EVAL;
    OK(sw_plan(exec, &args, &plan));
    CU_ASSERT_EQUAL(plan.n_rebuilt, 0);
}
