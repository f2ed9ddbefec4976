/* An LSTM that learns what only memory can tell: the parity of all bits so far. */
#include "check.h"
#include <stdio.h>
#include <stepwell.h>
#include <string.h>

#define SEQ 12
#define LONGER 36
#define BATCH 32
#define HIDDEN 16

typedef struct {
    sw_lstm unit;
    sw_linear out;
    sw_param h, c;
    sw_optimizer *opt;
} net;

/* Logits (seq * batch, 2) of bits (seq, batch, 1). */
static sw_value logits_of(sw_ctx *ctx, const net *n, sw_value bits, sw_value *h, sw_value *c)
{
    const sw_value y = sw_apply_lstm(ctx, n->unit, bits, h, c); /* (seq, batch, hidden) */
    return sw_apply_linear(ctx, n->out, sw_reshape(ctx, y, SW_SHAPE(-1, HIDDEN)));
}

/* Sequences that begin with zeros in the state. */
static void parity_step(sw_ctx *ctx, void *user)
{
    net *n = user;
    const sw_value logits = logits_of(ctx, n, sw_input(ctx, 0), NULL, NULL);
    const sw_value loss = sw_softmax_ce(ctx, logits, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, logits, sw_input(ctx, 1)));
    sw_output(ctx, "logits", logits);
    if (sw_ctx_mode(ctx) == SW_TRAIN) {
        sw_backward(ctx, loss, &n->opt, 1);
        sw_update(ctx, n->opt);
    }
}

/* One bit of each sequence; the state stays in the model until the next run. */
static void stream_step(sw_ctx *ctx, void *user)
{
    net *n = user;
    sw_value h = sw_use(ctx, n->h), c = sw_use(ctx, n->c);
    const sw_value y = sw_apply_lstm_step(ctx, n->unit, sw_input(ctx, 0), &h, &c);
    sw_output(ctx, "logits", sw_apply_linear(ctx, n->out, y));
    sw_assign(ctx, n->h, sw_detach(ctx, h));
    sw_assign(ctx, n->c, sw_detach(ctx, c));
}

typedef struct {
    float bits[LONGER][BATCH];
    unsigned char parity[LONGER][BATCH];
    sw_array in[2];
} sequences;

/* Bits of a generator of its own, and whether the number of ones so far is odd. */
static void fill(sequences *s, int seq, unsigned *dice)
{
    for (int b = 0; b < BATCH; b++) {
        unsigned char odd = 0;
        for (int t = 0; t < seq; t++) {
            *dice = *dice * 1664525u + 1013904223u;
            const unsigned char bit = (unsigned char)(*dice >> 31);
            odd ^= bit;
            s->bits[t][b] = bit ? 1.0f : -1.0f;
            s->parity[t][b] = odd;
        }
    }
    s->in[0] = (sw_array){SW_F32, SW_SHAPE(seq, BATCH, 1), s->bits};
    s->in[1] = (sw_array){SW_U8, SW_SHAPE(seq * BATCH), s->parity};
}

int main(void)
{
    static sequences s;
    static float whole[LONGER * BATCH * 2];
    sw_exec *e;
    sw_model *m;
    net n;
    unsigned dice = 1;
    TRY(sw_exec_create(&e, &SW_OPTS(sw_exec_opts, .seed = 3)));
    TRY(sw_model_create(&m, "parity"));
    n.unit = sw_lstm_new(m, "lstm", 1, HIDDEN);
    n.out = sw_linear_new(m, "out", HIDDEN, 2);
    n.h = sw_state_new(m, "h", SW_F32, SW_SHAPE(BATCH, HIDDEN));
    n.c = sw_state_new(m, "c", SW_F32, SW_SHAPE(BATCH, HIDDEN));
    TRY(sw_optimizer_create(&n.opt, m,
                            &SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 1e-2f)));
    sw_run_args a = SW_OPTS(sw_run_args, .fn = parity_step, .user = &n, .models = &m,
                            .n_models = 1, .inputs = s.in, .n_inputs = 2, .mode = SW_TRAIN);
    double first = 0, loss = 0, accuracy = 0;
    for (int i = 0; i < 800; i++) {
        fill(&s, SEQ, &dice);
        a.step = (uint64_t)i;
        TRY(sw_run(e, &a));
        TRY(sw_metric_get(e, "loss", i == 0 ? &first : &loss));
    }
    /* Sequences that are three times as long, and new. */
    fill(&s, LONGER, &dice);
    a.mode = SW_EVAL;
    TRY(sw_run(e, &a));
    TRY(sw_metric_get(e, "accuracy", &accuracy));
    printf("loss %.3f, then %.5f; of sequences of %d bits %.4f are right\n", first, loss,
           LONGER, accuracy);
    CHECK(first > 0.6 && loss < 0.05); /* without memory 0.69 is the best */
    CHECK(accuracy > 0.95);

    /* Bit by bit, with the state carried from run to run: the same logits, bit for bit. */
    sw_array logits;
    TRY(sw_output_get(e, "logits", &logits));
    memcpy(whole, logits.data, sizeof whole);
    a.fn = stream_step;
    a.n_inputs = 1;
    for (int t = 0; t < LONGER; t++) {
        s.in[0] = (sw_array){SW_F32, SW_SHAPE(BATCH, 1), s.bits[t]};
        TRY(sw_run(e, &a));
        TRY(sw_output_get(e, "logits", &logits));
        CHECK(memcmp(logits.data, whole + t * BATCH * 2, BATCH * 2 * sizeof *whole) == 0);
    }
    sw_model_destroy(m);
    sw_exec_destroy(e);
    return 0;
}
