/* A recurrent net with carried state: truncated back-propagation through time. */
#include "check.h"
#include <stdio.h>
#include <stepwell.h>
#include <string.h>

#define SYMBOLS 4
#define HIDDEN 16
#define LONGEST 16

typedef struct {
    sw_linear in, rec, out;
    sw_param h;
    sw_optimizer *opt;
} rnn;

static void rnn_step(sw_ctx *c, void *u)
{
    rnn *m = u;
    sw_value x = sw_input(c, 0), y = sw_input(c, 1), h = sw_use(c, m->h), loss = {0, 0};
    for (int64_t t = 0; t < sw_dim(c, x, 0); t++) {
        h = sw_tanh(c, sw_add(c, sw_apply_linear(c, m->in, sw_slice(c, x, 0, t, 1)),
                              sw_apply_linear(c, m->rec, h)));
        sw_value l = sw_softmax_ce(c, sw_apply_linear(c, m->out, h), sw_slice(c, y, 0, t, 1));
        loss = t ? sw_add(c, loss, l) : l;
    }
    sw_metric(c, "loss", sw_scale_by(c, loss, 1.0f / (float)sw_dim(c, x, 0)));
    sw_assign(c, m->h, sw_detach(c, h)); /* the backward pass still reads the old one */
    if (sw_ctx_mode(c) == SW_TRAIN) {
        sw_backward(c, loss, &m->opt, 1);
        sw_update(c, m->opt);
    }
}

/* 0 1 2 3 2 1, over and over: what follows 1 or 2 depends on what came before. */
static int symbol(int64_t t)
{
    static const int wave[] = {0, 1, 2, 3, 2, 1};
    return wave[t % 6];
}

typedef struct {
    float x[LONGEST][SYMBOLS];
    uint8_t y[LONGEST];
    sw_array in[2];
} chunk;

static void fill(chunk *b, int64_t from, int n)
{
    memset(b->x, 0, sizeof b->x);
    for (int t = 0; t < n; t++) {
        b->x[t][symbol(from + t)] = 1;
        b->y[t] = (uint8_t)symbol(from + t + 1);
    }
    b->in[0] = (sw_array){SW_F32, SW_SHAPE(n, SYMBOLS), b->x};
    b->in[1] = (sw_array){SW_U8, SW_SHAPE(n), b->y};
}

int main(void)
{
    sw_exec *e;
    sw_model *m;
    rnn r;
    chunk b;
    TRY(sw_exec_create(&e, &SW_OPTS(sw_exec_opts, .seed = 5)));
    TRY(sw_model_create(&m, "rnn"));
    r.in = sw_linear_new(m, "in", SYMBOLS, HIDDEN);
    r.rec = sw_linear_new(m, "rec", HIDDEN, HIDDEN);
    r.out = sw_linear_new(m, "out", HIDDEN, SYMBOLS);
    r.h = sw_state_new(m, "h", SW_F32, SW_SHAPE(1, HIDDEN));
    TRY(sw_optimizer_create(&r.opt, m,
                            &SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 1e-2f)));
    sw_run_args a = SW_OPTS(sw_run_args, .fn = rnn_step, .user = &r, .models = &m,
                            .n_models = 1, .inputs = b.in, .n_inputs = 2, .mode = SW_TRAIN);
    double first = 0, last = 0;
    for (int i = 0; i < 300; i++) {
        fill(&b, 8 * i, 8);
        a.step = (uint64_t)i;
        TRY(sw_run(e, &a));
        TRY(sw_metric_get(e, "loss", i == 0 ? &first : &last));
    }
    printf("loss %.3f, then %.4f\n", first, last);
    CHECK(first > 1.0 && last < 0.1); /* 0.46 is the best that a net without memory can do */

    /* Two chunks of eight leave the state that one of sixteen leaves: it is carried, bit for
     * bit. */
    static const float zero[HIDDEN];
    float carried[HIDDEN], whole[HIDDEN];
    a.mode = SW_EVAL;
    TRY(sw_param_write(r.h, zero, sizeof zero));
    fill(&b, 0, 8);
    TRY(sw_run(e, &a));
    TRY(sw_param_read(r.h, whole, sizeof whole));
    CHECK(memcmp(whole, zero, sizeof zero) != 0);
    fill(&b, 8, 8);
    TRY(sw_run(e, &a));
    TRY(sw_param_read(r.h, carried, sizeof carried));
    TRY(sw_param_write(r.h, zero, sizeof zero));
    fill(&b, 0, 16);
    TRY(sw_run(e, &a));
    TRY(sw_param_read(r.h, whole, sizeof whole));
    CHECK(memcmp(carried, whole, sizeof whole) == 0);
    sw_model_destroy(m);
    sw_exec_destroy(e);
    return 0;
}
