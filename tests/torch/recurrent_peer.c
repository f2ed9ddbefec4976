/* The stepwell side of compare_recurrent.py: LSTM and GRU over sequences and step by step.
 *
 *   recurrent_peer DIR    writes to DIR: init.safetensors, outputs.bin and grads.bin (float32:
 * y, h and, of an LSTM, c of each case; all parameters in order)
 *
 * Parameters are named "KIND.NUMBER.WAY.PART": KIND lstm or gru, WAY seq or step; PART x, h and
 * c (all parameters, so that they have gradients) or one of the layer. The loss is the sum of
 * the squares of all results. */
#include "peer.h"

static const struct {
    int gru, by_steps, seq, batch, in, hidden;
} cases[] = {
    {0, 0, 1, 1, 1, 1},   {0, 0, 7, 5, 9, 13},  {0, 0, 35, 3, 16, 16}, {0, 1, 6, 4, 10, 33},
    {0, 0, 2, 40, 3, 70}, {1, 0, 1, 1, 1, 1},   {1, 0, 7, 5, 9, 13},   {1, 0, 35, 3, 16, 16},
    {1, 1, 6, 4, 10, 33}, {1, 0, 2, 40, 3, 70},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct {
    sw_param x[CASES], h[CASES], c[CASES];
    sw_lstm lstm[CASES];
    sw_gru gru[CASES];
    sw_optimizer *optimizer;
} net;

static sw_value one_step(sw_ctx *ctx, const net *n, int i, sw_value x, sw_value *h, sw_value *c)
{
    return cases[i].gru ? sw_apply_gru_step(ctx, n->gru[i], x, h)
                        : sw_apply_lstm_step(ctx, n->lstm[i], x, h, c);
}

static sw_value through(sw_ctx *ctx, const net *n, int i, sw_value *h, sw_value *c)
{
    const sw_value x = sw_use(ctx, n->x[i]);
    sw_value y[32];
    if (!cases[i].by_steps)
        return cases[i].gru ? sw_apply_gru(ctx, n->gru[i], x, h)
                            : sw_apply_lstm(ctx, n->lstm[i], x, h, c);
    for (int t = 0; t < cases[i].seq; t++) {
        const sw_value now =
            sw_reshape(ctx, sw_slice(ctx, x, 0, t, 1), SW_SHAPE(cases[i].batch, cases[i].in));
        y[t] = one_step(ctx, n, i, now, h, c);
    }
    return sw_stack(ctx, y, cases[i].seq, 0);
}

static sw_value add_squares(sw_ctx *ctx, sw_value loss, sw_value y)
{
    const sw_value squares = sw_sum(ctx, sw_mul(ctx, y, y), 0);
    return loss.id == 0 ? squares : sw_add(ctx, loss, squares);
}

static void step(sw_ctx *ctx, void *user)
{
    net *n = user;
    sw_value loss = {0, 0};
    for (int i = 0; i < CASES; i++) {
        char name[16];
        sw_value out[3] = {{0, 0}, sw_use(ctx, n->h[i]), {0, 0}};
        if (!cases[i].gru)
            out[2] = sw_use(ctx, n->c[i]);
        out[0] = through(ctx, n, i, &out[1], &out[2]);
        for (int k = 0; k < (cases[i].gru ? 2 : 3); k++) {
            snprintf(name, sizeof name, "y%d.%d", i, k);
            sw_output(ctx, name, out[k]);
            loss = add_squares(ctx, loss, out[k]);
        }
    }
    sw_backward(ctx, loss, &n->optimizer, 1);
    sw_accumulate(ctx, n->optimizer);
}

static sw_param declare(sw_model *model, const char *of, const char *part, sw_shape shape)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", of, part);
    return sw_param_new(model, name, SW_F32, shape, "normal:1");
}

static void declare_all(net *n, sw_model *model)
{
    for (int i = 0; i < CASES; i++) {
        char of[64];
        const sw_shape state = SW_SHAPE(cases[i].batch, cases[i].hidden);
        snprintf(of, sizeof of, "%s.%d.%s", cases[i].gru ? "gru" : "lstm", i,
                 cases[i].by_steps ? "step" : "seq");
        n->x[i] = declare(model, of, "x", SW_SHAPE(cases[i].seq, cases[i].batch, cases[i].in));
        n->h[i] = declare(model, of, "h", state);
        if (cases[i].gru) {
            n->gru[i] = sw_gru_new(model, of, cases[i].in, cases[i].hidden);
            continue;
        }
        n->c[i] = declare(model, of, "c", state);
        n->lstm[i] = sw_lstm_new(model, of, cases[i].in, cases[i].hidden);
    }
}

int main(int argc, char **argv)
{
    sw_exec *exec;
    sw_model *model;
    net n;
    if (argc != 2)
        return 2;
    const sw_exec_opts opts = {.size = sizeof opts, .threads = 2};
    CHECK(sw_exec_create(&exec, &opts));
    CHECK(sw_model_create(&model, "recurrent"));
    declare_all(&n, model);
    const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd", .keep_gradients = 1};
    CHECK(sw_optimizer_create(&n.optimizer, model, &sgd));
    CHECK(sw_model_ready(model, exec, 7));
    peer_save(model, argv[1], "init.safetensors");
    const sw_run_args args = {
        .size = sizeof args, .fn = step, .user = &n, .models = &model, .n_models = 1};
    CHECK(sw_run(exec, &args));
    FILE *outputs = peer_create(argv[1], "outputs.bin"),
         *grads = peer_create(argv[1], "grads.bin");
    for (int i = 0; i < CASES; i++)
        for (int k = 0; k < (cases[i].gru ? 2 : 3); k++) {
            sw_array y;
            char name[16];
            size_t bytes = sizeof(float);
            snprintf(name, sizeof name, "y%d.%d", i, k);
            CHECK(sw_output_get(exec, name, &y));
            for (int d = 0; d < y.shape.rank; d++)
                bytes *= (size_t)y.shape.dim[d];
            peer_put(outputs, y.data, bytes);
        }
    peer_put_gradients(model, grads);
    const int failed = (fclose(outputs) != 0) + (fclose(grads) != 0);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return failed != 0;
}
