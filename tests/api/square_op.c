/* An op from outside: the square, which keeps its input for its gradient. */
#include "check.h"
#include <math.h>
#include <stdio.h>
#include <stepwell.h>

static sw_status sq_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    *out = in[0];
    return SW_OK;
}
static sw_status sq_forward(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i < sw_type_elements(&l->in[0].type); i++)
        y[i] = x[i] * x[i];
    return SW_OK;
}
static sw_status sq_backward(const sw_launch *l)
{
    const float *x = l->in[0].ptr, *dy = l->in[1].ptr;
    float *dx = l->out[0].ptr;
    for (int64_t i = 0; i < sw_type_elements(&l->in[0].type); i++)
        dx[i] = 2 * x[i] * dy[i] + ((l->accumulate & 1) ? dx[i] : 0);
    return SW_OK;
}
static sw_status sq_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < sw_type_elements(r->in_type); i++)
        r->out[0][i] = r->in[0][i] * r->in[0][i];
    return SW_OK;
}
static const sw_grad_desc sq_grad = {.n_makes = 1,
                                     .makes = {0},
                                     .n_operands = 2,
                                     .operands = {SW_IN(0), SW_DOUT(0)},
                                     .inplace = 2,
                                     .kernel = sq_backward};
static const sw_op_case sq_case = {
    .name = "matrix", .n_in = 1, .in = {{SW_F32, SW_PLAIN, {2, {3, 5}}}}};
static const sw_op_desc sq_op = {.size = sizeof(sw_op_desc),
                                 .name = "user.square",
                                 .n_in = 1,
                                 .n_out = 1,
                                 .infer = sq_infer,
                                 .inplace = 1,
                                 .forward = sq_forward,
                                 .grads = &sq_grad,
                                 .n_grads = 1,
                                 .reference = sq_reference,
                                 .cases = &sq_case,
                                 .n_cases = 1};

typedef struct {
    uint32_t square;
    sw_param w;
    sw_optimizer *opt;
} fit;

/* The sum of (w - target)^2, and with it 3 w^2: w goes to target / 4. */
static void fit_step(sw_ctx *c, void *u)
{
    fit *f = u;
    sw_value w = sw_use(c, f->w);
    sw_value off = sw_add(c, w, sw_scale_by(c, sw_input(c, 0), -1));
    sw_value loss = sw_add(
        c, sw_sum(c, sw_op_apply(c, f->square, &off, 1, NULL), SW_ALL_AXES),
        sw_scale_by(c, sw_sum(c, sw_op_apply(c, f->square, &w, 1, NULL), SW_ALL_AXES), 3));
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &f->opt, 1);
    sw_update(c, f->opt);
}

static void show(void *to, const char *line)
{
    fprintf(to, "%s\n", line);
}

int main(void)
{
    static const float target[4] = {1, -2, 3, 0.5f}, start[4] = {0.25f, 1, -0.5f, 2};
    float w[4], g[4];
    double loss;
    fit f;
    sw_exec *e;
    sw_model *m;
    uint32_t n_checks, n_failures;
    TRY(sw_op_register(&sq_op, &f.square));
    TRY(sw_op_check(f.square, show, stderr, &n_checks, &n_failures));
    CHECK(n_checks > 10 && n_failures == 0);

    TRY(sw_exec_create(&e, &SW_OPTS(sw_exec_opts)));
    TRY(sw_model_create(&m, "fit"));
    f.w = sw_param_new(m, "w", SW_F32, SW_SHAPE(4), "zeros");
    TRY(sw_optimizer_create(
        &f.opt, m,
        &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.05f, .keep_gradients = 1)));
    TRY(sw_model_ready(m, e, 1));
    TRY(sw_param_write(f.w, start, sizeof start));
    const sw_array in = {SW_F32, SW_SHAPE(4), target};
    const sw_run_args a =
        SW_OPTS(sw_run_args, .fn = fit_step, .user = &f, .models = &m, .n_models = 1,
                .inputs = &in, .n_inputs = 1, .mode = SW_TRAIN);
    TRY(sw_run(e, &a));
    TRY(sw_param_gradient(f.w, g, sizeof g));
    TRY(sw_param_read(f.w, w, sizeof w));
    for (int i = 0; i < 4; i++) {
        const float by_hand = 2 * (start[i] - target[i]) + 6 * start[i];
        CHECK(fabsf(g[i] - by_hand) < 1e-5f);
        CHECK(fabsf(w[i] - (start[i] - 0.05f * by_hand)) < 1e-6f);
    }
    for (int i = 0; i < 50; i++)
        TRY(sw_run(e, &a));
    TRY(sw_metric_get(e, "loss", &loss));
    TRY(sw_param_read(f.w, w, sizeof w));
    for (int i = 0; i < 4; i++)
        CHECK(fabsf(w[i] - target[i] / 4) < 1e-5f);
    printf("%u checks of the op; the loss ends at %.4f\n", n_checks, loss);
    sw_model_destroy(m);
    sw_exec_destroy(e);
    return 0;
}
