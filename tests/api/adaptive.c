/* Control flow on data: how often a layer is applied depends on what it computes. Immediate
 * mode. */
#include "check.h"
#include <stdio.h>
#include <stepwell.h>
#include <string.h>

#define N 6
#define BATCH 12

typedef struct {
    sw_linear f1;
    sw_optimizer *opt;
    int rounds; /* of the last run */
} net;

static void adaptive(sw_ctx *c, void *u)
{
    net *m = u;
    sw_value x = sw_input(c, 0), loss = {0, 0}, sum = {0, 0};
    double d = 9;
    for (m->rounds = 0; m->rounds < 6 && d > 0.8; m->rounds++) {
        x = sw_scale_by(c, sw_tanh(c, sw_apply_linear(c, m->f1, x)), 4);
        loss = sw_softmax_ce(c, x, sw_input(c, 1));
        if (sw_item(c, loss, &d))
            return;
        sum = m->rounds ? sw_add(c, sum, loss) : loss;
    }
    sw_metric(c, "loss", loss);
    sw_backward(c, sum, &m->opt, 1); /* every round is taught, so fewer are needed */
    sw_update(c, m->opt);
}

int main(void)
{
    static float x[BATCH][N];
    static uint8_t y[BATCH];
    for (int i = 0; i < BATCH; i++) {
        y[i] = (uint8_t)(i % N);
        x[i][(i + 1) % N] = 1;
        x[i][i % 3] += 0.5f;
    }
    sw_exec *e;
    sw_model *m;
    net n = {.rounds = 0};
    TRY(sw_exec_create(&e, &SW_OPTS(sw_exec_opts, .seed = 2)));
    TRY(sw_model_create(&m, "adaptive"));
    n.f1 = sw_linear_new(m, "f1", N, N);
    TRY(sw_optimizer_create(&n.opt, m,
                            &SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f)));
    const sw_array in[] = {{SW_F32, SW_SHAPE(BATCH, N), x}, {SW_U8, SW_SHAPE(BATCH), y}};
    sw_run_args a =
        SW_OPTS(sw_run_args, .fn = adaptive, .user = &n, .models = &m, .n_models = 1,
                .inputs = in, .n_inputs = 2, .mode = SW_TRAIN, .immediate = 1);

    /* Planned, there are no values to look at: an error, and nothing has changed. */
    float before[N][N], after[N][N];
    TRY(sw_model_ready(m, e, 2));
    TRY(sw_param_read(n.f1.weight, before, sizeof before));
    a.immediate = 0;
    CHECK(sw_run(e, &a) == SW_UNSUPPORTED && strstr(sw_last_error(), "sw_item") != NULL);
    TRY(sw_param_read(n.f1.weight, after, sizeof after));
    CHECK(memcmp(before, after, sizeof before) == 0);
    a.immediate = 1;

    int first = 0;
    double loss = 0;
    for (int i = 0; i < 400; i++) {
        TRY(sw_run(e, &a));
        first = i == 0 ? n.rounds : first;
    }
    TRY(sw_metric_get(e, "loss", &loss));
    printf("%d rounds at first, then %d, with a loss of %.3f\n", first, n.rounds, loss);
    CHECK(first == 6 && n.rounds < 6 && loss <= 0.8);
    sw_model_destroy(m);
    sw_exec_destroy(e);
    return 0;
}
