/* A generator and a discriminator in one step function: the discriminator is updated between
 * its two uses, so the generator learns from the new one, and the fake is used twice. */
#include "check.h"
#include <math.h>
#include <stdio.h>
#include <stepwell.h>
#include <string.h>

#define BATCH 64
#define NOISE 8

typedef struct {
    sw_linear g1, g2, d1, d2;
    sw_optimizer *og, *od;
} gan;

static sw_value G(sw_ctx *c, gan *m, sw_value z)
{
    return sw_tanh(c, sw_apply_linear(c, m->g2, sw_relu(c, sw_apply_linear(c, m->g1, z))));
}
static sw_value D(sw_ctx *c, gan *m, sw_value x)
{
    return sw_apply_linear(c, m->d2, sw_leaky_relu(c, sw_apply_linear(c, m->d1, x), 0.2f));
}
static sw_value fakes(sw_ctx *c, gan *m, sw_value x)
{
    return G(c, m, sw_randn(c, "z", SW_SHAPE(sw_dim(c, x, 0), NOISE)));
}
static void learn_d(sw_ctx *c, gan *m, sw_value x, sw_value fake)
{
    sw_value ld =
        sw_add(c, sw_bce(c, D(c, m, x), 1), sw_bce(c, D(c, m, sw_detach(c, fake)), 0));
    sw_backward(c, ld, &m->od, 1);
    sw_update(c, m->od);
    sw_metric(c, "d", ld);
}
static void learn_g(sw_ctx *c, gan *m, sw_value fake)
{
    sw_value lg = sw_bce(c, D(c, m, fake), 1);
    sw_backward(c, lg, &m->og, 1); /* through D to G: D's own gradients are pruned */
    sw_update(c, m->og);
    sw_metric(c, "g", lg);
}

static void gan_step(sw_ctx *c, void *u)
{
    sw_value x = sw_input(c, 0), fake = fakes(c, u, x);
    learn_d(c, u, x, fake);
    learn_g(c, u, fake);
}
/* The same in two runs. */
static void d_step(sw_ctx *c, void *u)
{
    sw_value x = sw_input(c, 0);
    learn_d(c, u, x, fakes(c, u, x));
}
static void g_step(sw_ctx *c, void *u)
{
    learn_g(c, u, fakes(c, u, sw_input(c, 0)));
}
static void show(sw_ctx *c, void *u)
{
    sw_output(c, "mean", sw_mean(c, fakes(c, u, sw_input(c, 0)), SW_AXIS(0)));
}

static int build(gan *g, sw_model **two)
{
    TRY(sw_model_create(&two[0], "generator"));
    TRY(sw_model_create(&two[1], "discriminator"));
    g->g1 = sw_linear_new(two[0], "g1", NOISE, 32);
    g->g2 = sw_linear_new(two[0], "g2", 32, 2);
    g->d1 = sw_linear_new(two[1], "d1", 2, 32);
    g->d2 = sw_linear_new(two[1], "d2", 32, 1);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 2e-3f, .beta1 = 0.5f);
    TRY(sw_optimizer_create(&g->og, two[0], &opts));
    TRY(sw_optimizer_create(&g->od, two[1], &opts));
    return 0;
}

/* Points around (0.5, -0.25): a sum of uniform numbers is near enough to normal. */
static void points(float *x, uint32_t *state)
{
    for (int i = 0; i < 2 * BATCH; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            *state = *state * 1664525u + 1013904223u;
            sum += (float)(*state >> 8) / 16777216.0f - 0.5f;
        }
        x[i] = 0.2f * sum + (i % 2 == 0 ? 0.5f : -0.25f);
    }
}

static int same_parameters(sw_model *a, sw_model *b)
{
    static float x[1024], y[1024];
    for (size_t i = 0; i < sw_param_count(a); i++) {
        const sw_shape s = sw_param_shape(sw_param_at(a, i));
        size_t bytes = sizeof(float);
        for (int k = 0; k < s.rank; k++)
            bytes *= (size_t)s.dim[k];
        TRY(sw_param_read(sw_param_at(a, i), x, bytes));
        TRY(sw_param_read(sw_param_at(b, i), y, bytes));
        if (memcmp(x, y, bytes) != 0)
            return 0;
    }
    return 1;
}

int main(void)
{
    sw_exec *e;
    sw_model *one[2], *apart[2], *before;
    gan a, b, c;
    sw_model *third[2];
    static float x[2 * BATCH];
    uint32_t state = 1;
    sw_array in = {SW_F32, SW_SHAPE(BATCH, 2), x};
    TRY(sw_exec_create(&e, &SW_OPTS(sw_exec_opts, .seed = 3)));
    if (build(&a, one) != 0 || build(&b, apart) != 0 || build(&c, third) != 0)
        return 1;
    before = third[1];
    TRY(sw_model_ready(before, e, 3));

    /* One run does what two do: D as it is after its update teaches G, and G's update leaves D
     * alone. */
    sw_run_args together =
        SW_OPTS(sw_run_args, .fn = gan_step, .user = &a, .models = one, .n_models = 2,
                .inputs = &in, .n_inputs = 1, .mode = SW_TRAIN);
    sw_run_args first = SW_OPTS(sw_run_args, .fn = d_step, .user = &b, .models = apart,
                                .n_models = 2, .inputs = &in, .n_inputs = 1, .mode = SW_TRAIN);
    sw_run_args second = SW_OPTS(sw_run_args, .fn = g_step, .user = &b, .models = apart,
                                 .n_models = 2, .inputs = &in, .n_inputs = 1, .mode = SW_TRAIN);
    for (int i = 0; i < 3; i++) {
        points(x, &state);
        together.step = first.step = second.step = (uint64_t)i;
        TRY(sw_run(e, &together));
        TRY(sw_run(e, &first));
        TRY(sw_run(e, &second));
        CHECK(same_parameters(one[0], apart[0]) == 1);
        CHECK(same_parameters(one[1], apart[1]) == 1);
    }
    CHECK(same_parameters(one[1], before) == 0); /* it did learn */

    double d = 0, g = 0;
    for (int i = 3; i < 1500; i++) {
        points(x, &state);
        together.step = (uint64_t)i;
        TRY(sw_run(e, &together));
    }
    TRY(sw_metric_get(e, "d", &d));
    TRY(sw_metric_get(e, "g", &g));
    sw_array mean;
    TRY(sw_run(e, &SW_OPTS(sw_run_args, .fn = show, .user = &a, .models = one, .n_models = 2,
                           .inputs = &in, .n_inputs = 1, .mode = SW_EVAL, .step = 9999)));
    TRY(sw_output_get(e, "mean", &mean));
    const float *m = mean.data;
    printf("losses: d %.3f, g %.3f; the fakes' mean is (%.2f, %.2f)\n", d, g, (double)m[0],
           (double)m[1]);
    CHECK(isfinite(d) && isfinite(g));
    CHECK(fabsf(m[0] - 0.5f) < 0.25f && fabsf(m[1] + 0.25f) < 0.25f);
    for (int i = 0; i < 2; i++) {
        sw_model_destroy(one[i]);
        sw_model_destroy(apart[i]);
        sw_model_destroy(third[i]);
    }
    sw_exec_destroy(e);
    return 0;
}
