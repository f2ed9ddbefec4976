/* Population based training: the worst member becomes a copy of the best, with another rate. A
 * copy and a knob: nothing is planned again. */
#include "check.h"
#include <math.h>
#include <stdio.h>
#include <stepwell.h>
#include <string.h>

#define MEMBERS 6
#define BATCH 32

typedef struct {
    sw_linear f1, f2;
    sw_optimizer *opt;
} member;

static void member_step(sw_ctx *c, void *u)
{
    member *m = u;
    sw_value h = sw_tanh(c, sw_apply_linear(c, m->f1, sw_input(c, 0)));
    sw_value loss = sw_mse(c, sw_apply_linear(c, m->f2, h), sw_input(c, 1));
    sw_metric(c, "loss", loss);
    if (sw_ctx_mode(c) == SW_TRAIN) {
        sw_backward(c, loss, &m->opt, 1);
        sw_update(c, m->opt);
    }
}

int main(void)
{
    static float x[BATCH][2], y[BATCH][1];
    for (int i = 0; i < BATCH; i++) {
        x[i][0] = (float)(i % 8) / 4 - 0.875f;
        x[i][1] = (float)(i / 8) / 2 - 0.75f;
        y[i][0] = (1.5f - x[i][0] * x[i][0]) * x[i][0] * x[i][1];
    }
    sw_exec *e;
    sw_model *model[MEMBERS];
    member m[MEMBERS];
    sw_run_args a[MEMBERS];
    const sw_array in[] = {{SW_F32, SW_SHAPE(BATCH, 2), x}, {SW_F32, SW_SHAPE(BATCH, 1), y}};
    TRY(sw_exec_create(&e, &SW_OPTS(sw_exec_opts)));
    for (int i = 0; i < MEMBERS; i++) {
        TRY(sw_model_create(&model[i], "member"));
        m[i].f1 = sw_linear_new(model[i], "f1", 2, 16);
        m[i].f2 = sw_linear_new(model[i], "f2", 16, 1);
        TRY(sw_optimizer_create(&m[i].opt, model[i],
                                &SW_OPTS(sw_optimizer_opts, .kind = "sgd")));
        /* 0.0001, 0.001, 0.01, 0.05, 0.2, 0.4 */
        static const float rates[] = {1e-4f, 1e-3f, 1e-2f, 0.05f, 0.2f, 0.4f};
        sw_knob_set(sw_optimizer_lr(m[i].opt, 0), rates[i]);
        TRY(sw_model_ready(model[i], e, (uint64_t)i));
        a[i] = SW_OPTS(sw_run_args, .fn = member_step, .user = &m[i], .models = &model[i],
                       .n_models = 1, .inputs = in, .n_inputs = 2, .mode = SW_TRAIN);
        CHECK(sw_model_layout_hash(model[i]) == sw_model_layout_hash(model[0]));
    }
    double loss[MEMBERS], first_worst = 0, first_best = 0;
    for (int round = 0; round < 12; round++) {
        int best = 0, worst = 0;
        for (int i = 0; i < MEMBERS; i++) {
            for (int k = 0; k < 20; k++)
                TRY(sw_run(e, &a[i]));
            TRY(sw_metric_get(e, "loss", &loss[i]));
            best = loss[i] < loss[best] ? i : best;
            worst = loss[i] > loss[worst] ? i : worst;
        }
        if (round == 0) {
            first_worst = loss[worst];
            first_best = loss[best];
        }
        float w[2][16][2], v[2][16][2];
        TRY(sw_model_copy(model[worst], model[best]));
        TRY(sw_param_read(m[best].f1.weight, w[0], sizeof w[0]));
        TRY(sw_param_read(m[worst].f1.weight, w[1], sizeof w[1]));
        CHECK(memcmp(w[0], w[1], sizeof w[0]) == 0);
        const float rate = sw_knob_get(sw_optimizer_lr(m[best].opt, 0));
        CHECK(sw_knob_get(sw_optimizer_lr(m[worst].opt, 0)) == rate);
        const float factor = round % 2 == 0 ? 1.2f : 0.8f;
        sw_knob_set(sw_optimizer_lr(m[worst].opt, 0), rate * factor);
        TRY(sw_run(e, &a[worst]));
        TRY(sw_run(e, &a[best]));
        sw_run_info info = SW_OPTS(sw_run_info);
        TRY(sw_last_run(e, &info));
        CHECK(info.warm && info.allocations == 0);
        /* The same gradient with another rate. */
        TRY(sw_param_read(m[best].f1.weight, v[0], sizeof v[0]));
        TRY(sw_param_read(m[worst].f1.weight, v[1], sizeof v[1]));
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < 2; k++) {
                const float by_best = v[0][i][k] - w[0][i][k],
                            by_worst = v[1][i][k] - w[1][i][k];
                CHECK(fabsf(by_worst - factor * by_best) < 1e-6f);
            }
    }
    double best = 1e9;
    int better = 0;
    for (int i = 0; i < MEMBERS; i++) {
        best = loss[i] < best ? loss[i] : best;
        better += loss[i] < first_best;
    }
    printf("loss of the best %.4f, then %.4f; %d of %d members have passed it (the worst had "
           "%.4f)\n",
           first_best, best, better, MEMBERS, first_worst);
    CHECK(best < 0.2 * first_best && better >= MEMBERS / 2);
    for (int i = 0; i < MEMBERS; i++)
        sw_model_destroy(model[i]);
    sw_exec_destroy(e);
    return 0;
}
