/* Attention, a linear layer with cross-entropy over chunks of rows, SwiGLU: what they hold, and
 * bits that do not depend on how they are asked for. */
#include "kernels/dispatch.h"
#include "tests/ops/axes_bench.h"

SW_TESTS("transformer")

static sw_plan_info plan_of(bench *b, sw_step_fn *fn, const sw_array *inputs, int n_inputs,
                            sw_mode mode)
{
    sw_plan_info info = SW_OPTS(sw_plan_info);
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = fn, .user = b, .models = &b->model,
                                     .n_models = 1, .inputs = inputs, .n_inputs = n_inputs,
                                     .mode = mode, .variant = (uint64_t)b->count);
    OK(sw_plan(b->exec, &args, &info));
    return info;
}

/* ---- attention --------------------------------------------------------------------------- */

enum { IMAGES = 2, ROWS = 150, HEADS = 3, SIZE = 16, WIDTH = HEADS * SIZE };

/* p (images, rows, 3 width): its thirds as they are, or (count 1) as tensors of their own. */
static void thirds_step(sw_ctx *c, void *user)
{
    bench *b = user;
    sw_value part[3];
    CU_ASSERT_EQUAL(sw_split(c, sw_use(c, b->p), WIDTH, -1, part, 3), 3);
    for (int i = 0; i < 3 && b->count == 1; i++)
        part[i] = sw_scale_by(c, part[i], 1.0f);
    bench_train(c, b, sw_attention(c, part[0], part[1], part[2], HEADS, 1, 0.0f));
}

SW_TEST("thirds of one tensor are read and written in place")
{
    static float y[IMAGES * ROWS * WIDTH], g[3 * N(y)], h[3 * N(y)];
    bench *b = bench_new(1, SW_SHAPE(IMAGES, ROWS, 3 * WIDTH));
    OK(bench_run(b, thirds_step, NULL, 0, SW_TRAIN));
    memcpy(y, bench_output(b, "y", N(y)), sizeof y);
    OK(sw_param_gradient(b->p, g, sizeof g));
    const swi_trace *t = &b->exec->last->trace;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        CU_ASSERT(t->nodes[i].op != SW_OP_copy || t->nodes[i].is_backward);
    CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_slice_grad), 0);
    bench_close(b);

    b = bench_new(1, SW_SHAPE(IMAGES, ROWS, 3 * WIDTH));
    b->count = 1;
    OK(bench_run(b, thirds_step, NULL, 0, SW_TRAIN));
    OK(sw_param_gradient(b->p, h, sizeof h));
    CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_slice_grad), 3);
    CU_ASSERT_EQUAL(memcmp(y, bench_output(b, "y", N(y)), sizeof y), 0);
    CU_ASSERT_EQUAL(memcmp(g, h, sizeof g), 0);
}

SW_TEST("attention has one result for all threads")
{
    bench_same_for_all_threads(thirds_step, NULL, 0, SW_SHAPE(IMAGES, ROWS, 3 * WIDTH),
                               (int64_t)IMAGES * ROWS * 3 * WIDTH,
                               (int64_t)IMAGES * ROWS * WIDTH);
}

/* p (1, rows, 3 * 32) of 4 heads, made by another op, so that its place may be taken. */
static void long_step(sw_ctx *c, void *user)
{
    bench *b = user;
    sw_value part[3];
    sw_split(c, sw_scale_by(c, sw_use(c, b->p), 1.0f), 32, -1, part, 3);
    bench_train(c, b, sw_attention(c, part[0], part[1], part[2], 4, 1, 0.0f));
}

/* q, k and v (their gradient takes their place), y, dy, what makes them, and less than one more
 * for scratch and the rows' numbers. Half of a (rows, rows) matrix would be 8 times q. */
SW_TEST("no matrix of pairs exists")
{
    enum { rows = 1024 };
    const size_t one = (size_t)rows * 32 * sizeof(float);
    bench *const b = bench_new(1, SW_SHAPE(1, rows, 3 * 32));
    const sw_plan_info info = plan_of(b, long_step, NULL, 0, SW_TRAIN);
    SW_CHECK(info.arena_bytes < 9 * one, "%zu bytes, q has %zu", info.arena_bytes, one);
}

static void wrong_heads_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value x = sw_use(c, b->p);
    bench_train(c, b, sw_attention(c, x, x, x, b->count, 0, 0.0f));
}

static void other_keys_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value x = sw_use(c, b->p), k = sw_input(c, 0);
    bench_train(c, b, sw_attention(c, x, k, x, 2, 0, 0.0f));
}

SW_TEST("shapes that do not fit are refused")
{
    static const float k[2 * 6 * 4] = {0};
    const sw_array in = {SW_F32, SW_SHAPE(2, 6, 4), k};
    bench *const b = bench_new(1, SW_SHAPE(2, 5, 8));
    b->count = 3;
    bench_refused(b, wrong_heads_step, NULL, 0, "3 equal heads (got (2, 5, 8))");
    b->count = 0;
    bench_refused(b, wrong_heads_step, NULL, 0, "attention: heads must be at least 1 (got 0)");
    bench_refused(b, other_keys_step, &in, 1, "(got (2, 5, 8), (2, 6, 4)");
}

/* ---- linear_ce --------------------------------------------------------------------------- */

enum { TOKENS = 300, FEATURES = 24, CLASSES = 90, BIAS_ROWS = 4 };

/* How the loss is asked for. chunk -1: by the two ops. */
typedef struct {
    bench bench;
    int64_t chunk;
    float smoothing;
    bool bias, ignores;
} ce_use;

static sw_value two_ops(sw_ctx *c, const ce_use *u, sw_value x, sw_value w, sw_value bias)
{
    const sw_value logits = sw_linear_op(c, x, w, u->bias ? bias : (sw_value){0, 0});
    if (u->smoothing == 0.0f && !u->ignores)
        return sw_softmax_ce(c, logits, sw_input(c, 0));
    return sw_softmax_ce_with(c, logits, sw_input(c, 0), u->smoothing, u->ignores ? 7 : -1);
}

/* p holds x, then w, then the bias. */
static void ce_step(sw_ctx *c, void *user)
{
    ce_use *u = user;
    const sw_value p = sw_use(c, u->bench.p);
    const sw_value x = sw_slice(c, p, 0, 0, TOKENS), w = sw_slice(c, p, 0, TOKENS, CLASSES);
    const sw_value rest = sw_reshape(c, sw_slice(c, p, 0, TOKENS + CLASSES, BIAS_ROWS),
                                     SW_SHAPE(BIAS_ROWS * FEATURES));
    const sw_value bias = sw_slice(c, rest, 0, 0, CLASSES);
    const sw_value in[] = {x, w, sw_input(c, 0), bias};
    const bool rule = u->smoothing != 0.0f || u->ignores;
    const swi_linear_ce_attrs a = {u->chunk, {u->smoothing, rule, u->ignores ? 7 : -1}, 0};
    const sw_value loss = u->chunk < 0
                              ? two_ops(c, u, x, w, bias)
                              : sw_op_apply(c, SW_OP_linear_ce, in, u->bias ? 4 : 3, &a);
    sw_output(c, "loss", loss);
    if (sw_ctx_mode(c) != SW_TRAIN)
        return;
    sw_backward(c, loss, &u->bench.opt, 1);
    sw_accumulate(c, u->bench.opt);
}

typedef struct {
    float loss, gradient[(TOKENS + CLASSES + BIAS_ROWS) * FEATURES];
} ce_result;

static int32_t ce_labels[TOKENS];
static const sw_array *ce_inputs(void)
{
    static sw_array in;
    for (int i = 0; i < TOKENS; i++)
        ce_labels[i] = i * 31 % CLASSES;
    in = (sw_array){SW_I32, SW_SHAPE(TOKENS), ce_labels};
    return &in;
}

static void ce_run(ce_use *u, int threads, const char *isa, int immediate, ce_result *to)
{
    bench *b = &u->bench;
    const sw_exec_opts exec = SW_OPTS(sw_exec_opts, .threads = threads, .seed = 11, .isa = isa);
    bench_open(b, threads, SW_SHAPE(TOKENS + CLASSES + BIAS_ROWS, FEATURES));
    sw_exec_destroy(b->exec);
    b->exec = NULL;
    OK(sw_exec_create(&b->exec, &exec));
    OK(sw_run(b->exec, &SW_OPTS(sw_run_args, .fn = ce_step, .user = u, .models = &b->model,
                                .n_models = 1, .inputs = ce_inputs(), .n_inputs = 1,
                                .mode = SW_TRAIN, .immediate = immediate)));
    to->loss = bench_output(b, "loss", 1)[0];
    OK(sw_param_gradient(b->p, to->gradient, sizeof to->gradient));
    bench_close(b);
}

SW_TEST("every chunk has the bits of the two ops")
{
    static const int64_t chunks[] = {0, 1, 7, 64, 128, 299, 300, 1000};
    static const char *const isas[] = {NULL, "avx2", "base"};
    static ce_use u;
    static ce_result whole, here;
    for (int way = 0; way < 6; way++) {
        u = (ce_use)SW_INIT(.chunk = -1, .smoothing = way % 3 == 1 ? 0.1f : 0.0f,
                            .ignores = way % 3 == 2, .bias = way >= 3);
        const char *isa = isas[way % 3];
        if (isa != NULL && sw_cpu_isa() < (way % 3 == 1 ? SW_ISA_AVX2 : SW_ISA_BASE))
            continue;
        ce_run(&u, 1, isa, 0, &whole);
        for (int i = 0; i < N(chunks); i++) {
            u.chunk = chunks[i];
            ce_run(&u, 1 + i % 3, isa, i == 3, &here);
            SW_CHECK(memcmp(&whole, &here, sizeof here) == 0, "chunks of %lld, way %d: %g, %g",
                     (long long)chunks[i], way, (double)here.loss, (double)whole.loss);
        }
    }
}

/* In evaluation logits alone: no gradient is made. */
SW_TEST("evaluation makes no gradients")
{
    static ce_use u;
    u = (ce_use){.chunk = 10, .bias = true};
    bench_open(&u.bench, 1, SW_SHAPE(TOKENS + CLASSES + BIAS_ROWS, FEATURES));
    const size_t bytes = plan_of(&u.bench, ce_step, ce_inputs(), 1, SW_EVAL).arena_bytes;
    SW_CHECK(bytes < (size_t)TOKENS * FEATURES * sizeof(float), "%zu bytes", bytes);
}

SW_TEST("labels outside are named")
{
    static ce_use u;
    static bench *const b = &u.bench;
    u = (ce_use){.chunk = 16};
    bench_open(b, 1, SW_SHAPE(TOKENS + CLASSES + BIAS_ROWS, FEATURES));
    const sw_array *in = ce_inputs();
    ce_labels[123] = CLASSES;
    bench_refused(b, ce_step, in, 1, "linear_ce: row 123: the label must be 0 to 89 (got 90)");
}

/* ---- softmax_ce -------------------------------------------------------------------------- */

/* Storages of so many bytes in the last run's step arena, scratch not counted. */
static int storages_of(const bench *b, size_t bytes)
{
    const swi_trace *t = &b->exec->last->trace;
    int n = 0;
    for (uint32_t s = 0; s < t->n_storages; s++)
        n += t->storages[s].segment == SWI_SEG_STEP && t->storages[s].alias == s &&
             t->storages[s].birth != SWI_NONE && t->storages[s].bytes == bytes &&
             t->storages[s].role != SWI_ROLE_WORKSPACE;
    return n;
}

/* Logits of p (16, 200) and their gradient: rows x classes once. */
static void logits_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value logits = sw_matmul(c, sw_input(c, 0), sw_use(c, b->p));
    const sw_value labels = sw_input(c, 1);
    const sw_value loss = b->count == 0 ? sw_softmax_ce(c, logits, labels)
                                        : sw_softmax_ce_with(c, logits, labels, 0.1f, 3);
    sw_metric(c, "loss", loss);
    sw_metric(c, "accuracy", sw_accuracy(c, logits, labels));
    sw_backward(c, loss, &b->opt, 1);
    sw_accumulate(c, b->opt);
}

SW_TEST("the gradient of logits takes their place")
{
    static const float x[60 * 16] = {0};
    static const int32_t labels[60] = {0};
    const sw_array in[] = {{SW_F32, SW_SHAPE(60, 16), x}, {SW_I32, SW_SHAPE(60), labels}};
    for (int way = 0; way < 2; way++) {
        bench *const b = bench_new(1, SW_SHAPE(16, 200));
        b->count = way;
        OK(bench_run(b, logits_step, in, 2, SW_TRAIN));
        CU_ASSERT_EQUAL(storages_of(b, 60 * 200 * sizeof(float)), 1);
        bench_close(b);
    }
}

/* ---- one table for tokens and classes ---------------------------------------------------- */

static void tied_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value table = sw_use(c, b->p), ids = sw_input(c, 0);
    const sw_value x = sw_embedding_op(c, ids, table);
    const sw_value loss = sw_linear_ce(c, sw_tanh(c, x), table, (sw_value){0, 0}, ids);
    sw_output(c, "y", loss);
    sw_backward(c, loss, &b->opt, 1);
    sw_accumulate(c, b->opt);
}

/* Both gradients of a tied table are one storage: what the loss made, scaled in its place, to
 * which the embedding adds. */
SW_TEST("a tied table has one gradient")
{
    static uint8_t ids[40];
    for (int i = 0; i < N(ids); i++)
        ids[i] = (uint8_t)(i % 50);
    const sw_array in = {SW_U8, SW_SHAPE(40), ids};
    bench *const b = bench_new(1, SW_SHAPE(50, 64));
    OK(bench_run(b, tied_step, &in, 1, SW_TRAIN));
    CU_ASSERT_EQUAL(storages_of(b, 50 * 64 * sizeof(float)), 1);
    CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_copy), 0);
}

/* ---- swiglu ------------------------------------------------------------------------------ */

/* p (rows, 2 * 70): its halves as they are, or (count 1) as tensors of their own. */
static void halves_step(sw_ctx *c, void *user)
{
    bench *b = user;
    sw_value part[2];
    CU_ASSERT_EQUAL(sw_split(c, sw_use(c, b->p), 70, -1, part, 2), 2);
    for (int i = 0; i < 2 && b->count == 1; i++)
        part[i] = sw_scale_by(c, part[i], 1.0f);
    bench_train(c, b, sw_swiglu(c, part[0], part[1]));
}

SW_TEST("halves of one tensor are read and written in place")
{
    static float y[90 * 70], g[2 * N(y)], h[2 * N(y)];
    for (int way = 0; way < 2; way++) {
        bench *const b = bench_new(1 + way, SW_SHAPE(90, 140));
        b->count = way;
        OK(bench_run(b, halves_step, NULL, 0, SW_TRAIN));
        OK(sw_param_gradient(b->p, way == 0 ? g : h, sizeof g));
        CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_slice_grad), 2 * way);
        if (way == 0)
            memcpy(y, bench_output(b, "y", N(y)), sizeof y);
        CU_ASSERT_EQUAL(memcmp(y, bench_output(b, "y", N(y)), sizeof y), 0);
        bench_close(b);
    }
    CU_ASSERT_EQUAL(memcmp(g, h, sizeof g), 0);
}
