/* Gradients that are not requested: a kernel that makes several serves any of them, and leaves
 * the others out or makes them in bytes that the plan counts. */
#include "runtime/ops/ops.h"
#include "runtime/exec/exec.h"
#include "tests/ops/ops_outside.h"
#include "tests/support/made.h"

SW_TESTS("requested gradients")

#define ELEMENTS 1024
#define TENSOR (ELEMENTS * sizeof(float))

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_param p[3];
    sw_optimizer *opt[2]; /* of p[0], and of the others */
    int first, n_opt;     /* those that backward is asked for */
    uint32_t op;
    uint32_t wanted; /* inputs that are not frozen */
    int n_in;
    const void *attrs;
    uint64_t variant;
} bench;

static void step(sw_ctx *ctx, void *user)
{
    const bench *b = user;
    sw_value in[3];
    for (int i = 0; i < b->n_in; i++) {
        in[i] = sw_use(ctx, b->p[i]);
        if (sw_rank(ctx, in[i]) > 1) /* in bytes of the step; vectors stay parameters */
            in[i] = sw_scale_by(ctx, in[i], 1.0f);
    }
    const sw_value y = sw_op_apply(ctx, b->op, in, b->n_in, b->attrs);
    const sw_value flat = sw_reshape(ctx, y, SW_SHAPE(-1));
    const sw_value loss = sw_sum(ctx, sw_mul(ctx, flat, sw_scale_by(ctx, flat, 0.5f)), 0);
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, b->opt + b->first, b->n_opt);
    for (int i = 0; i < b->n_opt; i++)
        if ((b->wanted & (b->first + i == 0 ? 1u : 6u)) != 0)
            sw_accumulate(ctx, b->opt[b->first + i]);
}

/* Parameters a, b and c of these shapes. */
static void open_bench(bench *b, uint32_t op, int n_in, const sw_shape *shapes)
{
    static const char *const names[] = {"a", "b", "c"};
    *b = (bench){.op = op, .wanted = 7, .n_in = n_in, .n_opt = 2};
    b->exec = made_exec(&SW_OPTS(sw_exec_opts, .seed = 3, .no_rebuild = 1));
    b->model = made_model("bench");
    for (int i = 0; i < n_in; i++)
        b->p[i] = sw_param_new(b->model, names[i], SW_F32, shapes[i], "normal:1");
    for (int k = 0; k < 2; k++) {
        const sw_optimizer_opts opts =
            SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1, .no_check = 1,
                    .params = b->p + k, .n_params = k == 0 ? 1 : (size_t)n_in - 1);
        OK(sw_optimizer_create(&b->opt[k], b->model, &opts));
    }
    OK(sw_model_ready(b->model, b->exec, 1));
}

static sw_run_args args_of(bench *b, int immediate)
{
    return SW_OPTS(sw_run_args, .fn = step, .user = b, .models = &b->model, .n_models = 1,
                   .mode = SW_TRAIN, .immediate = immediate, .variant = b->variant);
}

static void freeze_all_but(bench *b, uint32_t wanted)
{
    b->wanted = wanted;
    for (int i = 0; i < b->n_in; i++)
        sw_param_freeze(b->p[i], (wanted >> i & 1u) == 0);
}

typedef struct {
    float of[3][ELEMENTS];
} gradients;

static size_t bytes_of(const bench *b, int i)
{
    const sw_shape s = sw_param_shape(b->p[i]);
    return (size_t)swi_elements(&s) * sizeof(float);
}

static void run(bench *b, uint32_t wanted, int immediate, gradients *to)
{
    const sw_run_args args = args_of(b, immediate);
    memset(to, 0, sizeof *to);
    OK(sw_model_ready(b->model, b->exec, 1)); /* nothing is kept from the run before */
    OK(sw_run(b->exec, &args));
    for (int i = 0; i < b->n_in; i++)
        if ((wanted >> i & 1u) != 0)
            OK(sw_param_gradient(b->p[i], to->of[i], bytes_of(b, i)));
}

/* Gradient nodes of the op in the last planned run, and the outputs that they leave out. */
static int nodes_of(const bench *b, uint32_t *null_out)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(b->exec->last);
    const swi_trace *t = &b->exec->last->trace;
    int n = 0;
    *null_out = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].op == b->op && t->nodes[i].grad >= 0) {
            *null_out |= t->nodes[i].null_out;
            n++;
        }
    return n;
}

static void witnesses_agree(bench *b, const char *name, uint32_t wanted)
{
    const sw_run_args args = args_of(b, 0);
    const uint32_t which = SW_WITNESS_ALL;
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    OK(sw_witness(b->exec, &args, which, &seen));
    SW_CHECK(seen.agreed == which, "%s, 0x%x: %s", name, wanted, seen.first_fault);
}

static uint32_t added(const sw_op_desc *from, const char *name)
{
    sw_op_desc d = *from;
    uint32_t id = 0;
    d.name = name;
    OK(sw_op_register(&d, &id));
    return id;
}

static const sw_shape square[3] = {{2, {32, 32}}, {2, {32, 32}}, {2, {32, 32}}};

/* ---- ops from outside -------------------------------------------------------------------- */

/* The bytes that the plan holds for the gradient kernel: tensors that its node names as
 * results. */
static size_t bytes_made(const bench *b)
{
    const swi_trace *t = &b->exec->last->trace;
    size_t sum = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const swi_node *node = &t->nodes[i];
        for (uint32_t k = 0; node->op == b->op && node->grad >= 0 && k < node->n_out; k++) {
            const uint32_t s = t->values[t->operands[node->first + node->n_in + k]].storage;
            sum += t->storages[s].birth != SWI_NONE ? t->storages[s].bytes : 0;
        }
    }
    return sum;
}

static void serves_any(const sw_op_desc *desc, const char *name, bool leaves_out)
{
    static bench both[2]; /* closed after the test */
    static gradients all, some, now;
    bench *const b = &both[leaves_out];
    open_bench(b, added(desc, name), 2, square);
    freeze_all_but(b, 3);
    run(b, 3, 0, &all);
    for (uint32_t wanted = 1; wanted < 3; wanted++) {
        const int i = (int)wanted - 1;
        uint32_t null_out;
        freeze_all_but(b, wanted);
        run(b, wanted, 0, &some);
        SW_CHECK(memcmp(all.of[i], some.of[i], TENSOR) == 0, "%s: input %d alone", name, i);
        CU_ASSERT_EQUAL(nodes_of(b, &null_out), 1);
        CU_ASSERT_EQUAL(null_out, leaves_out ? 3u & ~wanted : 0);
        SW_CHECK(bytes_made(b) == (leaves_out ? 1 : 2) * TENSOR, "%s makes %zu bytes", name,
                 bytes_made(b));
        run(b, wanted, 1, &now);
        SW_CHECK(memcmp(&some, &now, sizeof some) == 0, "%s: input %d, immediate", name, i);
        witnesses_agree(b, name, wanted);
    }
}

SW_TEST("one kernel serves each input alone")
{
    sw_op_desc joint = outside_skips;
    joint.skips = 0;
    serves_any(&joint, "outside.requested joint", false);
    serves_any(&outside_skips, "outside.requested skips", true);
}

/* Not frozen, but of an optimizer that backward is not asked for. */
SW_TEST("gradients of others are left out")
{
    static bench b; /* closed after the test */
    static gradients all, some;
    uint32_t null_out;
    open_bench(&b, added(&outside_skips, "outside.requested by one"), 2, square);
    run(&b, 3, 0, &all);
    for (b.first = 0, b.n_opt = 1; b.first < 2; b.first++) {
        b.variant = 1u + (uint32_t)b.first;
        run(&b, 1u << b.first, 0, &some);
        CU_ASSERT_EQUAL(memcmp(all.of[b.first], some.of[b.first], TENSOR), 0);
        CU_ASSERT_EQUAL(nodes_of(&b, &null_out), 1);
        CU_ASSERT_EQUAL(null_out, 2u >> b.first);
        witnesses_agree(&b, "optimizer", 1u << b.first);
    }
}

/* Of kernels that make the same of the requested gradients, the one that keeps the fewest
 * bytes: here the one that makes the other gradient too. */
static sw_status all_but_b(const sw_launch *l)
{
    const float *a = l->in[0].ptr, *dy = l->in[1].ptr;
    for (int64_t i = 0; i < sw_type_elements(&l->in[0].type); i++) {
        ((float *)l->out[0].ptr)[i] = dy[i];
        ((float *)l->out[1].ptr)[i] = a[i] * dy[i];
    }
    return SW_OK;
}

SW_TEST("the fewest kept bytes decide")
{
    static const sw_grad_desc grads[] = {
        {.n_makes = 1,
         .makes = {1},
         .n_operands = 3,
         .operands = {SW_IN(0), SW_IN(1), SW_DOUT(0)},
         .kernel = all_but_b},
        SW_INIT(.n_makes = 2, .makes = {0, 1}, .n_operands = 2,
                .operands = {SW_IN(0), SW_DOUT(0)}, .kernel = all_but_b),
    };
    static bench b; /* closed after the test */
    static gradients some;
    sw_op_desc d = outside_joint;
    d.grads = grads, d.n_grads = 2;
    open_bench(&b, added(&d, "outside.fewest"), 2, square);
    freeze_all_but(&b, 2);
    run(&b, 2, 0, &some);
    const swi_trace *t = &b.exec->last->trace;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].op == b.op)
            CU_ASSERT(t->nodes[i].grad == -1 || t->nodes[i].grad == 1);
    witnesses_agree(&b, "fewest", 2);
}

/* ---- errors ------------------------------------------------------------------------------ */

static int never(const void *attrs)
{
    return 0;
}

SW_TEST("the message names the input and the reason")
{
    static const sw_grad_desc none[] = {{.n_makes = 1,
                                         .makes = {1},
                                         .n_operands = 2,
                                         .operands = {SW_IN(0), SW_DOUT(0)},
                                         .kernel = all_but_b}};
    static const sw_grad_desc refusing[] = {{.n_makes = 2,
                                             .makes = {0, 1},
                                             .n_operands = 2,
                                             .operands = {SW_IN(0), SW_DOUT(0)},
                                             .kernel = all_but_b,
                                             .applies = never}};
    static const struct {
        const char *op;
        const sw_grad_desc *grads;
        const char *says;
    } rows[] = {
        {"outside.half", none,
         "outside.half has no gradient for its input 0 ('a'): no kernel of the op makes it"},
        {"outside.refusing", refusing,
         "outside.refusing has no gradient for its input 0 ('a'): no kernel that makes "
         "it applies"}};
    static const sw_shape vectors[] = {{1, {4}}, {1, {4}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static bench b[2]; /* closed after the test */
        sw_op_desc d = outside_joint;
        d.grads = rows[i].grads;
        open_bench(&b[i], added(&d, rows[i].op), 2, vectors);
        const sw_run_args args = args_of(&b[i], 0);
        const sw_status status = sw_plan(b[i].exec, &args, &SW_OPTS(sw_plan_info));
        SW_CHECK(status == SW_UNSUPPORTED && strstr(sw_last_error(), rows[i].says) != NULL,
                 "'%s' is not in: %s", rows[i].says, sw_last_error());
    }
}

/* ---- ops inside -------------------------------------------------------------------------- */

/* One launch makes those of several gradients that are requested, and leaves the rest out. */
static void check_inside(uint32_t op, int n_in, const sw_shape *shapes, const void *attrs)
{
    static bench b[2]; /* closed after the test */
    static gradients all, some, now;
    bench *x = &b[op == SW_OP_attention];
    const char *name = sw_op_at(op)->name;
    open_bench(x, op, n_in, shapes);
    x->attrs = attrs;
    freeze_all_but(x, 7);
    run(x, 7, 0, &all);
    for (uint32_t wanted = 1; wanted < 7; wanted++) {
        uint32_t null_out;
        freeze_all_but(x, wanted);
        run(x, wanted, 0, &some);
        const int n = nodes_of(x, &null_out);
        const bool single = (wanted & (wanted - 1)) == 0;
        SW_CHECK(n == 1 && (null_out != 0) == !single, "%s, 0x%x: %d launches, 0x%x out", name,
                 wanted, n, null_out);
        for (int i = 0; i < n_in; i++)
            for (int k = 0; (wanted >> i & 1u) != 0 && k < (int)(bytes_of(x, i) / 4); k++) {
                const float a = all.of[i][k], c = some.of[i][k], e = a - c;
                CU_ASSERT(e <= 1e-4f && e >= -1e-4f);
            }
        run(x, wanted, 1, &now);
        SW_CHECK(memcmp(&some, &now, sizeof some) == 0, "%s, 0x%x: immediate", name, wanted);
        witnesses_agree(x, name, wanted);
    }
}

SW_TEST("attention leaves out the rest")
{
    static const sw_shape shapes[] = {{3, {1, 13, 8}}, {3, {1, 13, 8}}, {3, {1, 13, 8}}};
    static const swi_attention_attrs attrs = {.heads = 2, .causal = 1};
    check_inside(SW_OP_attention, 3, shapes, &attrs);
}

SW_TEST("batch_norm leaves out the rest")
{
    static const sw_shape shapes[] = {{4, {3, 5, 4, 4}}, {1, {5}}, {1, {5}}};
    static const swi_norm_attrs attrs = {.epsilon = 1e-5f};
    check_inside(SW_OP_batch_norm, 3, shapes, &attrs);
}
