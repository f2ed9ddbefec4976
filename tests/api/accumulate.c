/* Gradient accumulation: two programs per step. Four micro-batches, then clip and update, give
 * what one batch four times as large gives. */
#include "check.h"
#include <math.h>
#include <stdio.h>
#include <stepwell.h>

#define IN 12
#define CLASSES 5
#define MICRO 8
#define N 4

typedef struct {
    sw_linear f1, f2;
    sw_optimizer *opt;
    sw_knob inv_n, max_norm;
} net;

static sw_value loss_of(sw_ctx *c, net *m)
{
    sw_value x = sw_tanh(c, sw_apply_linear(c, m->f1, sw_input(c, 0)));
    return sw_softmax_ce(c, sw_apply_linear(c, m->f2, x), sw_input(c, 1));
}
static void micro(sw_ctx *c, void *u)
{
    net *m = u;
    sw_value loss = sw_scale(c, loss_of(c, m), m->inv_n);
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &m->opt, 1);
    sw_accumulate(c, m->opt);
}
static void apply(sw_ctx *c, void *u)
{
    net *m = u;
    sw_clip_norm(c, m->opt, m->max_norm);
    sw_update(c, m->opt);
}
static void big(sw_ctx *c, void *u)
{
    net *m = u;
    sw_value loss = loss_of(c, m);
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &m->opt, 1);
    sw_clip_norm(c, m->opt, m->max_norm);
    sw_update(c, m->opt);
}

static int build(net *m, sw_model **model, int keep)
{
    TRY(sw_model_create(model, "net"));
    m->f1 = sw_linear_new(*model, "f1", IN, 16);
    m->f2 = sw_linear_new(*model, "f2", 16, CLASSES);
    m->inv_n = sw_knob_new(*model, "inv_n", 1.0f / N);
    m->max_norm = sw_knob_new(*model, "max_norm", 0.5f);
    TRY(sw_optimizer_create(
        &m->opt, *model,
        &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.5f, .keep_gradients = keep)));
    return 0;
}

int main(void)
{
    sw_exec *e;
    sw_model *ma, *mb;
    net a, b;
    static float x[N * MICRO][IN], wa[16][IN], wb[16][IN];
    static uint8_t y[N * MICRO];
    for (int i = 0; i < N * MICRO; i++) {
        y[i] = (uint8_t)(i * 7 % CLASSES);
        for (int k = 0; k < IN; k++)
            x[i][k] = (k % CLASSES == y[i] ? 1.0f : 0.0f) +
                      0.1f * (float)((i * IN + k) * 37 % 19 - 9) / 9;
    }
    TRY(sw_exec_create(&e, &SW_OPTS(sw_exec_opts, .seed = 9)));
    if (build(&a, &ma, 1) != 0 || build(&b, &mb, 0) != 0)
        return 1;
    double first = 0, last = 0;
    for (int step = 0; step < 20; step++) {
        double sum = 0;
        for (int i = 0; i < N; i++) {
            const sw_array in[] = {{SW_F32, SW_SHAPE(MICRO, IN), x[i * MICRO]},
                                   {SW_U8, SW_SHAPE(MICRO), y + i * MICRO}};
            double part;
            TRY(sw_run(e, &SW_OPTS(sw_run_args, .fn = micro, .user = &a, .models = &ma,
                                   .n_models = 1, .inputs = in, .n_inputs = 2, .mode = SW_TRAIN,
                                   .step = (uint64_t)step, .run = (uint32_t)i)));
            TRY(sw_metric_get(e, "loss", &part));
            sum += part;
        }
        TRY(sw_run(e, &SW_OPTS(sw_run_args, .fn = apply, .user = &a, .models = &ma,
                               .n_models = 1, .mode = SW_TRAIN)));
        const sw_array all[] = {{SW_F32, SW_SHAPE(N * MICRO, IN), x},
                                {SW_U8, SW_SHAPE(N * MICRO), y}};
        TRY(sw_run(e, &SW_OPTS(sw_run_args, .fn = big, .user = &b, .models = &mb, .n_models = 1,
                               .inputs = all, .n_inputs = 2, .mode = SW_TRAIN)));
        TRY(sw_metric_get(e, "loss", &last));
        first = step == 0 ? last : first;
        CHECK(fabs(sum - last) < 1e-5);
        /* Two models, one exec: each program has its own place in one arena. */
        TRY(sw_param_read(a.f1.weight, wa, sizeof wa));
        TRY(sw_param_read(b.f1.weight, wb, sizeof wb));
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < IN; k++)
                CHECK(fabsf(wa[i][k] - wb[i][k]) < 2e-6f * (float)(step + 1));
    }
    printf("loss %.3f, then %.3f\n", first, last);
    CHECK(last < 0.5 * first);
    sw_model_destroy(ma);
    sw_model_destroy(mb);
    sw_exec_destroy(e);
    return 0;
}
