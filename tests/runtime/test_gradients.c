/* Gradients that meet: several backwards, sums that hand one gradient to many, in planned and
 * immediate mode. Losses are linear, the rate is 1: a parameter moves by minus its gradient. */
#include "tests/runtime/nets.h"

SW_TESTS("gradients that meet")

#define N 3

typedef struct {
    sw_model *model;
    sw_param p, q;
    sw_optimizer *opt;
} meeting;

static const float ones[N] = {1.0f, 2.0f, 4.0f}, tens[N] = {10.0f, 20.0f, 40.0f};

static sw_value dot(sw_ctx *c, sw_value a, sw_value b)
{
    return sw_sum(c, sw_mul(c, a, b), 0);
}

/* p and q get one gradient from their sum; only p gets another one later. */
static void a_sum_first(sw_ctx *c, void *user)
{
    meeting *m = user;
    const sw_value p = sw_use(c, m->p), q = sw_use(c, m->q);
    const sw_value both = dot(c, sw_add(c, p, q), sw_input(c, 0));
    const sw_value one = dot(c, p, sw_input(c, 1));
    sw_backward(c, both, &m->opt, 1);
    sw_backward(c, one, &m->opt, 1);
    sw_update(c, m->opt);
}

static void a_sum_later(sw_ctx *c, void *user)
{
    meeting *m = user;
    const sw_value p = sw_use(c, m->p), q = sw_use(c, m->q);
    const sw_value both = dot(c, sw_add(c, p, q), sw_input(c, 0));
    const sw_value one = dot(c, p, sw_input(c, 1));
    sw_backward(c, one, &m->opt, 1);
    sw_backward(c, both, &m->opt, 1);
    sw_update(c, m->opt);
}

static void a_sum_twice(sw_ctx *c, void *user)
{
    meeting *m = user;
    const sw_value p = sw_use(c, m->p), q = sw_use(c, m->q);
    const sw_value sum = sw_add(c, p, q);
    const sw_value first = dot(c, sum, sw_input(c, 0));
    const sw_value second =
        dot(c, sw_add(c, sum, sw_reshape(c, p, SW_SHAPE(N))), sw_input(c, 1));
    sw_backward(c, first, &m->opt, 1);
    sw_backward(c, second, &m->opt, 1);
    sw_update(c, m->opt);
}

/* How far p and q moved: p by ps[0] ones and ps[1] tens. */
static void moves(sw_step_fn *step, const float *ps, const float *qs)
{
    for (int immediate = 0; immediate < 2; immediate++) {
        meeting m = {0};
        m.model = made_model("m");
        m.p = sw_param_new(m.model, "p", SW_F32, SW_SHAPE(N), "zeros");
        m.q = sw_param_new(m.model, "q", SW_F32, SW_SHAPE(N), "zeros");
        const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 1.0f);
        OK(sw_optimizer_create(&m.opt, m.model, &opts));
        const sw_array in[] = {{SW_F32, SW_SHAPE(N), ones}, {SW_F32, SW_SHAPE(N), tens}};
        OK(sw_run(net_exec(NULL), &SW_OPTS(sw_run_args, .fn = step, .user = &m,
                                           .models = &m.model, .n_models = 1, .inputs = in,
                                           .n_inputs = 2, .immediate = immediate)));
        float p[N], q[N];
        OK(sw_param_read(m.p, p, sizeof p));
        OK(sw_param_read(m.q, q, sizeof q));
        for (int i = 0; i < N; i++) {
            const float wanted_p = -(ps[0] * ones[i] + ps[1] * tens[i]);
            const float wanted_q = -(qs[0] * ones[i] + qs[1] * tens[i]);
            SW_CHECK(p[i] == wanted_p && q[i] == wanted_q, "%d: p %g, q %g instead of %g, %g",
                     i, (double)p[i], (double)q[i], (double)wanted_p, (double)wanted_q);
        }
    }
}

SW_TEST("gradients that two parameters share are added to apart")
{
    moves(a_sum_first, (const float[]){1.0f, 1.0f}, (const float[]){1.0f, 0.0f});
    moves(a_sum_later, (const float[]){1.0f, 1.0f}, (const float[]){1.0f, 0.0f});
    moves(a_sum_twice, (const float[]){1.0f, 2.0f}, (const float[]){1.0f, 1.0f});
}
