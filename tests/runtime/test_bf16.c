/* Computing in bf16: what is kept in float32, what is refused, how near the numbers are. */
#include "kernels/dispatch.h"
#include "tests/runtime/nets.h"
#include <math.h>

SW_TESTS("runs in bf16")

typedef struct {
    net *n;
    bool value, scope;
} keeper;

static void step(sw_ctx *c, void *user)
{
    keeper *k = user;
    net *n = k->n;
    sw_value x = sw_input(c, 0);
    if (k->scope)
        sw_scope_begin(c, "f32");
    if (k->value)
        x = sw_keep_f32(c, x);
    x = sw_swish(c, sw_apply_linear(c, n->f1, x));
    x = sw_apply_linear(c, n->f2, sw_add(c, x, sw_tanh(c, x)));
    if (k->scope)
        sw_scope_end(c);
    const sw_value loss = sw_softmax_ce(c, x, sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_output(c, "logits", x);
    sw_backward(c, loss, &n->opt, 1);
    sw_update(c, n->opt);
}

static double train(net *n, sw_dtype compute, bool value, bool scope, size_t *arena)
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .compute = compute, .no_rebuild = 1));
    const batch b = net_batch(false, 0, NET_BATCH);
    keeper k = {n, value, scope};
    sw_run_args args = net_args(n, &b);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    args.fn = step;
    args.user = &k;
    for (int i = 0; i < 20; i++) {
        args.step = (uint64_t)i;
        OK(sw_run(exec, &args));
    }
    OK(sw_plan(exec, &args, &plan));
    *arena = plan.arena_bytes;
    return net_metric(exec, "loss");
}

SW_TEST("a value and a scope keep float32, and then all bits are float32's")
{
    size_t whole, half, kept, scoped;
    net *n[4];
    for (int i = 0; i < 4; i++)
        n[i] = net_new(false, NULL);
    const double exact = train(n[0], SW_F32, false, false, &whole);
    const double rounded = train(n[1], SW_BF16, false, false, &half);
    (void)train(n[2], SW_BF16, true, false, &kept);
    (void)train(n[3], SW_BF16, false, true, &scoped);
    CU_ASSERT(net_same(n[0]->model, n[2]->model));
    CU_ASSERT(net_same(n[0]->model, n[3]->model));
    CU_ASSERT(!net_same(n[0]->model, n[1]->model));
    CU_ASSERT_EQUAL(kept, whole);
    CU_ASSERT_EQUAL(scoped, whole);
    SW_CHECK(fabs(rounded - exact) < 0.02 * exact, "the loss is %g, in float32 %g", rounded,
             exact);
}

static void apply(sw_ctx *c, void *user)
{
    keeper *k = user;
    const sw_value x = sw_apply_linear(c, k->n->f1, sw_input(c, 0));
    sw_output(c, "y", k->value ? sw_softmax(c, x) : k->scope ? sw_log_softmax(c, x) : x);
}

/* Softmax reads bf16 piece by piece: no op widens all of it, and its result is float32. */
SW_TEST("what reads bf16 rows takes no float32 copy of them")
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .compute = SW_BF16));
    const batch b = net_batch(false, 0, NET_BATCH);
    uint32_t n_ops[3];
    for (int i = 0; i < 3; i++) {
        keeper k = {net_new(false, NULL), i == 1, i == 2};
        sw_run_args args = net_args(k.n, &b);
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        args.fn = apply, args.user = &k;
        args.mode = SW_EVAL;
        OK(sw_plan(exec, &args, &plan));
        n_ops[i] = plan.n_ops;
    }
    CU_ASSERT_EQUAL(n_ops[1], n_ops[0]); /* the output is widened once, or is float32 */
    CU_ASSERT_EQUAL(n_ops[2], n_ops[0]);
}

/* An order has an instruction where its name or the machine brings it; sums stay the same. */
SW_TEST("an order has the instruction of the set that is named")
{
    static const char *const names[] = {"base", "avx2", "avx512", "avx512-bf16", "amx"};
    const char *refused = "";
    CU_ASSERT_EQUAL(sw_order_way(SW_ORDER_PAIR, SW_BF16_DOT, &refused), SW_ORDER_PAIR_DOT);
    CU_ASSERT_EQUAL(sw_order_way(SW_ORDER_PAIR, SW_BF16_AMX, &refused), SW_ORDER_PAIR);
    CU_ASSERT_EQUAL(sw_order_way(SW_ORDER_TILE, SW_BF16_DOT, &refused), SW_ORDER_TILE);
    CU_ASSERT_EQUAL(sw_order_way(SW_ORDER_NONE, 7, &refused), SW_ORDER_NONE);
    CU_ASSERT_PTR_NULL(refused);
    bool has = true;
    for (int i = 0; i < 5; i++) {
        sw_exec *exec = NULL;
        const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .isa = names[i], .compute = SW_BF16);
        const sw_status status = sw_exec_create(&exec, &opts);
        if (status != SW_OK) {
            const char *said =
                sw_textf("this machine has no %s (its best is %s)", names[i], sw_isa_best());
            CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), said));
        }
        CU_ASSERT(has || status == SW_UNSUPPORTED); /* none above one that is missing */
        has = status == SW_OK;
        sw_exec_destroy(exec);
    }
    REFUSED(sw_exec_create(&(sw_exec *){NULL}, &SW_OPTS(sw_exec_opts, .isa = "avx")),
            SW_INVALID,
            "the instruction set must be base, avx2, avx512, avx512-bf16 or amx (got 'avx')");
}

typedef struct {
    bool image, scope;
    sw_model *model;
    sw_binary_linear f1;
    sw_binary_conv2d c1;
} bits_net;

static void bits_step(sw_ctx *c, void *user)
{
    const bits_net *n = user;
    if (n->scope)
        sw_scope_begin(c, "f32");
    const sw_value x = sw_binarize(c, sw_input(c, 0), 0.0f);
    sw_output(c, "y",
              n->image ? sw_apply_binary_conv2d(c, n->c1, x, SW_BINARY_SUMS)
                       : sw_apply_binary_linear(c, n->f1, x, SW_BINARY_SUMS));
    if (n->scope)
        sw_scope_end(c);
}

/* The sums of a layer in an exec of this type, 12 of them; or why there are none. */
static sw_status bits_run(sw_dtype compute, bits_net *n, bool immediate, float *sums)
{
    float x[2 * 2 * 9];
    const sw_array in = {SW_F32, n->image ? SW_SHAPE(2, 2, 3, 3) : SW_SHAPE(2, 18), x};
    for (int i = 0; i < 2 * 2 * 9; i++)
        x[i] = (float)(i * 7 % 11) - 5.0f;
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .compute = compute));
    n->model = made_model("bits");
    n->f1 = sw_binary_linear_new(n->model, "f1", 18, 6, 1);
    n->c1 = sw_binary_conv2d_new(n->model, "c1", 2, 6, 3);
    SW_TRY(sw_model_ready(n->model, exec, 3));
    SW_TRY(sw_run(exec, &SW_OPTS(sw_run_args, .fn = bits_step, .user = n, .models = &n->model,
                                 .n_models = 1, .inputs = &in, .n_inputs = 1, .mode = SW_EVAL,
                                 .immediate = immediate)));
    sw_array y;
    SW_TRY(sw_output_get(exec, "y", &y));
    memcpy(sums, y.data, 12 * sizeof *sums);
    return SW_OK;
}

SW_TEST("layers of bits are refused by name, but in a scope that keeps float32")
{
    for (int i = 0; i < 4; i++) {
        float exact[12], kept[12];
        bits_net n = {.image = i % 2 != 0, .scope = true};
        OK(bits_run(SW_F32, &n, i / 2 != 0, exact));
        OK(bits_run(SW_BF16, &n, i / 2 != 0, kept));
        CU_ASSERT_EQUAL(memcmp(exact, kept, sizeof exact), 0);
        n.scope = false;
        OK(bits_run(SW_F32, &n, i / 2 != 0, kept));
        CU_ASSERT_EQUAL(memcmp(exact, kept, sizeof exact), 0);
        REFUSED(bits_run(SW_BF16, &n, i / 2 != 0, kept), SW_UNSUPPORTED,
                n.image ? "in c1: binary_conv2d: layers of bits compute in SW_F32 alone"
                        : "in f1: binary_linear: layers of bits compute in SW_F32 alone");
    }
}

static void unknown(sw_ctx *c, void *user)
{
    (void)sw_keep_f32(c, (sw_value){77, 0});
}

SW_TEST("what cannot be is refused by name")
{
    sw_exec *exec = NULL;
    REFUSED(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .compute = SW_U8)), SW_INVALID,
            "compute must be SW_F32 or SW_BF16 (got u8)");
    REFUSED(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .bf16_order = SW_ORDER_TILE)),
            SW_INVALID, "bf16_order must be 0 where compute is SW_F32");
    REFUSED(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .compute = SW_BF16,
                                           .bf16_order = (sw_bf16_order)3)),
            SW_INVALID, "bf16_order must be 0, SW_ORDER_PAIR or SW_ORDER_TILE (got 3)");
    REFUSED(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .compute = SW_BF16, .device = "cuda",
                                           .bf16_order = SW_ORDER_PAIR)),
            SW_INVALID, "bf16_order must be 0 on cuda");
    exec = net_exec(&SW_OPTS(sw_exec_opts, .compute = SW_BF16));
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = unknown);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 4);
    sw_run_args noisy = net_args(n, &b);
    sw_es *es;
    OK(sw_es_create(&es, n->opt, &SW_OPTS(sw_es_opts, .directions = 2)));
    noisy.es = es;
    REFUSED(sw_run(exec, &noisy), SW_UNSUPPORTED,
            "runs of evolution strategies compute in SW_F32 alone");
    sw_es_destroy(es);
    REFUSED(sw_run(exec, &args), SW_STALE, "a value of an earlier run");
}
