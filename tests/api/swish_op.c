/* An op from outside: swish, x sigmoid(x), keeps what the built-in one keeps. */
#include <math.h>
#include <stdio.h>
#include <stepwell.h>

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = in[0];
    return SW_OK;
}

static sw_status forward(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i < sw_type_elements(&l->in[0].type); i++)
        y[i] = x[i] / (1 + expf(-x[i]));
    return SW_OK;
}

/* dx = dy (s + x s (1 - s)), s = sigmoid(x): from x alone. A second contribution is added. */
static sw_status backward(const sw_launch *l)
{
    const float *x = l->in[0].ptr, *dy = l->in[1].ptr;
    float *dx = l->out[0].ptr;
    for (int64_t i = 0; i < sw_type_elements(&l->in[0].type); i++) {
        const float s = 1 / (1 + expf(-x[i])), before = l->accumulate & 1 ? dx[i] : 0;
        dx[i] = before + dy[i] * s * (1 + x[i] * (1 - s));
    }
    return SW_OK;
}

/* The cost of a run of each. By it the planner chooses what to compute twice. */
static uint64_t forward_operations(const sw_kernel_info *info)
{
    return 30 * (uint64_t)sw_type_elements(&info->in[0]);
}
static uint64_t backward_operations(const sw_kernel_info *info)
{
    return 35 * (uint64_t)sw_type_elements(&info->in[0]);
}

static sw_status reference(const sw_reference *r)
{
    for (int64_t i = 0; i < sw_type_elements(&r->in_type[0]); i++)
        r->out[0][i] = r->in[0][i] / (1 + exp(-r->in[0][i]));
    return SW_OK;
}

/* The operands are the save policy: the input is kept, the result is not. dx may take the place
 * of x or of dy. */
static const sw_grad_desc gradient = {.n_makes = 1,
                                      .makes = {0},
                                      .n_operands = 2,
                                      .operands = {SW_IN(0), SW_DOUT(0)},
                                      .inplace = 1 | 2,
                                      .kernel = backward,
                                      .operations = backward_operations};
static const sw_op_case cases[] = {
    {.name = "matrix", .n_in = 1, .in = {{SW_F32, SW_PLAIN, {2, {5, 37}}}}},
    {.name = "one", .n_in = 1, .in = {{SW_F32, SW_PLAIN, {1, {1}}}}}};
static const sw_op_desc swish = {
    .size = sizeof swish,
    .name = "user.swish",
    .n_in = 1,
    .n_out = 1,
    .infer = infer,
    .forward = forward,
    .inplace = 1, /* the result may take the input's place where the input is not read again */
    .grads = &gradient,
    .n_grads = 1,
    .rebuild = 1, /* cheap: what a layer after it reads in backward is recomputed */
    .operations = forward_operations,
    .reference = reference,
    .cases = cases,
    .n_cases = 2};

typedef struct {
    uint32_t op;
    int inside; /* use the built-in op */
    sw_linear layer[4];
    sw_optimizer *opt;
} net;

static void step(sw_ctx *c, void *user)
{
    const net *n = user;
    sw_value x = sw_input(c, 0);
    for (int i = 0; i < 4; i++) {
        x = sw_apply_linear(c, n->layer[i], x);
        x = n->inside ? sw_swish(c, x) : sw_op_apply(c, n->op, &x, 1, NULL);
    }
    sw_backward(c, sw_mse(c, x, sw_input(c, 1)), (sw_optimizer *[]){n->opt}, 1);
    sw_update(c, n->opt);
}

static void show(void *to, const char *line)
{
    fprintf(to, "%s\n", line);
}

#define TRY(call)                                                                              \
    if ((call) != SW_OK)                                                                       \
    return fprintf(stderr, "line %d: %s\n", __LINE__, sw_last_error()), 1

int main(void)
{
    static float rows[32 * 64];
    const sw_array in[] = {{SW_F32, SW_SHAPE(32, 64), rows}, {SW_F32, SW_SHAPE(32, 64), rows}};
    sw_plan_info plan[2] = {SW_OPTS(sw_plan_info), SW_OPTS(sw_plan_info)};
    sw_witness_info seen[2] = {SW_OPTS(sw_witness_info), SW_OPTS(sw_witness_info)};
    uint32_t n_checks, n_failures;
    sw_model *model;
    sw_exec *exec;
    net n;
    TRY(sw_op_register(&swish, &n.op));
    TRY(sw_op_check(n.op, show, stderr, &n_checks, &n_failures));
    TRY(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts)));
    TRY(sw_model_create(&model, "net"));
    for (int i = 0; i < 4; i++)
        n.layer[i] = sw_linear_new(model, (const char *[]){"a", "b", "c", "d"}[i], 64, 64);
    TRY(sw_optimizer_create(&n.opt, model, &SW_OPTS(sw_optimizer_opts, .kind = "sgd")));
    TRY(sw_model_ready(model, exec, 1));
    for (n.inside = 0; n.inside < 2; n.inside++) {
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = step, .user = &n, .models = &model, .n_models = 1,
                    .inputs = in, .n_inputs = 2, .variant = (uint64_t)n.inside);
        TRY(sw_plan(exec, &args, &plan[n.inside]));
        TRY(sw_witness(exec, &args, SW_WITNESS_ALL, &seen[n.inside]));
    }
    printf("%u checks, %u failures; peak %zu and %zu bytes, arena %zu and %zu, saved %zu and "
           "%zu\n",
           n_checks, n_failures, plan[0].peak_bytes, plan[1].peak_bytes, plan[0].arena_bytes,
           plan[1].arena_bytes, seen[0].saved_bytes, seen[1].saved_bytes);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return n_failures > 0 || plan[0].peak_bytes != plan[1].peak_bytes ||
           plan[0].arena_bytes != plan[1].arena_bytes || seen[0].agreed != SW_WITNESS_ALL ||
           seen[0].saved_bytes != seen[1].saved_bytes;
}
