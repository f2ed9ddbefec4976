/* Workspaces of all shapes: what an op plans as scratch is what it uses, to the unit of
 * the arena, whatever the sizes, the number of threads, the instruction set and the
 * gradients that are computed. */
#include "kernels/dispatch.h"
#include "runtime/exec/exec.h"
#include "tests/support/made.h"

SW_TESTS("scratch")

enum { MAX_PARAMS = 3 };

typedef enum SW_INIT(ATTENTION, SIDE_BY_SIDE, LINEAR, LINEAR_CE, CONV, SOFTMAX_CE, MSE,
                     N_OPS) op_kind;

/* Numbers of one case; what they mean depends on the op. */
typedef struct {
    op_kind op;
    int64_t n[6];
    int causal;
    unsigned frozen; /* bit i: parameter i */
    int threads;
    const char *isa, *optimizer;
} scratch_case;

typedef struct {
    scratch_case c;
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *optimizer;
    sw_param p[MAX_PARAMS];
    int n_params;
    int32_t labels[512];
    sw_array input;
    sw_run_args args;
} net;

static const char *const op_names[N_OPS] = {
    "attention", "attention side by side", "linear", "linear_ce", "conv2d", "softmax_ce",
    "mse"};

static sw_value loss_of(sw_ctx *ctx, const net *t)
{
    const int64_t *n = t->c.n;
    sw_value v[MAX_PARAMS] = {{0}}, third[3], labels = sw_input(ctx, 0);
    for (int i = 0; i < t->n_params; i++)
        v[i] = sw_use(ctx, t->p[i]);
    switch (t->c.op) {
    case ATTENTION:
        return sw_mean(ctx, sw_attention(ctx, v[0], v[1], v[2], (int)n[3], t->c.causal, 0), 0);
    case SIDE_BY_SIDE:
        (void)sw_split(ctx, v[0], n[3] * n[4], 2, third, 3);
        return sw_mean(
            ctx, sw_attention(ctx, third[0], third[1], third[2], (int)n[3], t->c.causal, 0), 0);
    case LINEAR:
        return sw_mean(ctx, sw_tanh(ctx, sw_linear_op(ctx, v[0], v[1], v[2])), 0);
    case LINEAR_CE:
        return sw_linear_ce(ctx, v[0], v[1], v[2], labels);
    case CONV:
        return sw_mean(
            ctx, sw_tanh(ctx, sw_conv2d_op(ctx, v[0], v[1], v[2], (int)n[4], (int)n[5])), 0);
    case SOFTMAX_CE:
        return sw_softmax_ce(ctx, v[0], labels);
    default:
        return sw_mse(ctx, v[0], v[1]);
    }
}

static void step(sw_ctx *ctx, void *user)
{
    net *t = user;
    const sw_value loss = loss_of(ctx, t);
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &t->optimizer, 1);
    sw_update(ctx, t->optimizer);
}

static void declare(net *t, sw_shape a, sw_shape b, sw_shape c, int n_params)
{
    const sw_shape shapes[MAX_PARAMS] = {a, b, c};
    static const char *const names[MAX_PARAMS] = {"a", "b", "c"};
    t->n_params = n_params;
    for (int i = 0; i < n_params; i++) {
        t->p[i] = sw_param_new(t->model, names[i], SW_F32, shapes[i], "normal:0.5");
        sw_param_freeze(t->p[i], (int)(t->c.frozen >> i & 1u));
    }
}

static void drop(void *arg)
{
    net *t = arg;
    sw_model_destroy(t->model);
    sw_exec_destroy(t->exec);
    memset(t, 0, sizeof *t);
}

static sw_status prepare(net *t, const scratch_case *c)
{
    memset(t, 0, sizeof *t);
    t->c = *c;
    const sw_exec_opts exec = SW_OPTS(sw_exec_opts, .threads = c->threads, .isa = c->isa);
    SW_TRY(sw_exec_create(&t->exec, &exec));
    SW_TRY(sw_model_create(&t->model, "net"));
    const int64_t *n = t->c.n;
    const sw_shape none = {0, {0}};
    switch (t->c.op) {
    case ATTENTION: /* batch, queries, keys, heads, size, value size */
        declare(t, SW_SHAPE(n[0], n[1], n[3] * n[4]), SW_SHAPE(n[0], n[2], n[3] * n[4]),
                SW_SHAPE(n[0], n[2], n[3] * n[5]), 3);
        break;
    case SIDE_BY_SIDE: /* batch, rows, -, heads, size */
        declare(t, SW_SHAPE(n[0], n[1], 3 * n[3] * n[4]), none, none, 1);
        break;
    case LINEAR: /* rows, in, out */
    case LINEAR_CE:
        declare(t, SW_SHAPE(n[0], n[1]), SW_SHAPE(n[2], n[1]), SW_SHAPE(n[2]), 3);
        break;
    case CONV: /* batch, in, out, side and kernel, stride, pad */
        declare(t, SW_SHAPE(n[0], n[1], n[3], n[3]), SW_SHAPE(n[2], n[1], 3, 3), SW_SHAPE(n[2]),
                3);
        break;
    default: /* rows, width */
        declare(t, SW_SHAPE(n[0], n[1]), SW_SHAPE(n[0], n[1]), none, t->c.op == MSE ? 2 : 1);
    }
    const sw_optimizer_opts opts = SW_OPTS(
        sw_optimizer_opts, .kind = c->optimizer != NULL ? c->optimizer : "sgd", .lr = 0.01f);
    SW_TRY(sw_optimizer_create(&t->optimizer, t->model, &opts));
    SW_TRY(sw_model_ready(t->model, t->exec, 1));
    t->input = (sw_array){
        SW_I32, SW_SHAPE(c->op == LINEAR_CE || c->op == SOFTMAX_CE ? c->n[0] : 1), t->labels};
    t->args = SW_OPTS(sw_run_args, .fn = step, .user = t, .models = &t->model, .n_models = 1,
                      .inputs = &t->input, .n_inputs = 1);
    return SW_OK;
}

/* The step of one case under the extent witness: each workspace is used to its planned end. */
static void check(const scratch_case *c)
{
    static net t;
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    const char *name =
        sw_textf("%s %d %d %d %d %d %d%s, frozen %u, %d threads, %s, %s", op_names[c->op],
                 (int)c->n[0], (int)c->n[1], (int)c->n[2], (int)c->n[3], (int)c->n[4],
                 (int)c->n[5], c->causal ? " causal" : "", c->frozen, c->threads,
                 c->isa != NULL ? c->isa : "best", c->optimizer != NULL ? c->optimizer : "sgd");
    sw_status status = prepare(&t, c);
    if (status == SW_OK)
        status = sw_witness(t.exec, &t.args, SW_WITNESS_EXTENT, &seen);
    SW_CHECK(status == SW_OK, "%s: %s", name, sw_last_error());
    SW_CHECK(status != SW_OK || seen.n_faults == 0, "%s: %s", name, seen.first_fault);
    drop(&t);
}

/* Around the sizes of blocks (12, 16, 64, 128) and beyond. */
static int64_t size_near_blocks(sw_dice *dice)
{
    static const int64_t at[] = {1, 12, 16, 32, 64, 96, 128, 192};
    const int64_t n = at[sw_dice_below(dice, 8)] + (int64_t)sw_dice_below(dice, 5) - 2;
    return n < 1 ? 1 : n;
}

static void draw(scratch_case *c, sw_dice *dice)
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    static const char *const optimizers[] = {"sgd", "adam", "adafactor"};
    const unsigned n_params = c->op == SIDE_BY_SIDE || c->op == SOFTMAX_CE ? 1
                              : c->op == MSE                               ? 2
                                                                           : 3;
    c->threads = 1 + (int)sw_dice_below(dice, 3);
    c->isa = isas[sw_dice_below(dice, (uint64_t)sw_cpu_isa() + 1)];
    c->optimizer = optimizers[sw_dice_below(dice, 3)];
    c->frozen = (unsigned)sw_dice_below(dice, (1u << n_params) - 1); /* one is left */
    c->causal = (int)sw_dice_below(dice, 2);
    for (int i = 0; i < 6; i++)
        c->n[i] = size_near_blocks(dice);
    if (c->op == ATTENTION || c->op == SIDE_BY_SIDE) {
        c->n[0] = 1 + (int64_t)sw_dice_below(dice, 3);
        c->n[3] = 1 + (int64_t)sw_dice_below(dice, 3);
        c->n[4] = 1 + (int64_t)sw_dice_below(dice, 40);
        c->n[5] = 1 + (int64_t)sw_dice_below(dice, 40);
    } else if (c->op == CONV) {
        c->n[0] = 1 + (int64_t)sw_dice_below(dice, 20);
        c->n[1] = 1 + (int64_t)sw_dice_below(dice, 20);
        c->n[2] = 1 + (int64_t)sw_dice_below(dice, 40);
        c->n[3] = 3 + (int64_t)sw_dice_below(dice, 12);
        c->n[4] = 1 + (int64_t)sw_dice_below(dice, 2);
        c->n[5] = (int64_t)sw_dice_below(dice, 2);
    }
}

static void sweep(op_kind op, int quick, int full)
{
    sw_dice dice = {11u + (unsigned)op};
    for (int i = 0; i < (sw_tests_full() ? full : quick); i++) {
        scratch_case c = {.op = op};
        draw(&c, &dice);
        check(&c);
    }
}

/* A language model's contexts, one after the other. */
SW_TEST("attention of each context uses what it plans")
{
    const int64_t most = sw_tests_full() ? 300 : 140;
    for (int64_t rows = 1; rows <= most; rows += sw_tests_full() ? 1 : 3)
        check(&(scratch_case){
            .op = SIDE_BY_SIDE, .n = {2, rows, 0, 2, 16}, .causal = 1, .threads = 1});
}

SW_TEST("attention of any shape uses what it plans")
{
    sweep(ATTENTION, 30, 1500);
    sweep(SIDE_BY_SIDE, 20, 500);
}

SW_TEST("other ops of any shape use what they plan")
{
    for (op_kind op = LINEAR; op < N_OPS; op++)
        sweep(op, 12, 400);
}
