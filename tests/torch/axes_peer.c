/* The stepwell side of compare_axes.py: one step of a small attention block built from single
 * ops.
 *
 *   axes_peer DIR    writes to DIR: init.safetensors, ids.bin (int32), outputs.bin and
 * grads.bin (float32: loss, logits, drops; all parameters in order) */
#include "peer.h"

enum { BATCH = 3, ROWS = 17, HEADS = 4, DEPTH = 8, WIDTH = HEADS * DEPTH, VOCABULARY = 61 };
#define DROPPED 0.3f

typedef struct {
    sw_embedding words, places;
    sw_param inner, outer;
    sw_optimizer *optimizer;
} net;

static sw_value heads(sw_ctx *c, sw_value x)
{
    const sw_value split = sw_reshape(c, x, SW_SHAPE(BATCH, ROWS, HEADS, DEPTH));
    return sw_permute(c, split, (int[]){0, 2, 1, 3}, 4);
}

static void step(sw_ctx *c, void *user)
{
    net *n = user;
    sw_value part[3];
    sw_value x = sw_add(c, sw_apply_embedding(c, n->words, sw_input(c, 0)),
                        sw_apply_embedding(c, n->places, sw_input(c, 1)));
    x = sw_dropout(c, x, DROPPED);
    sw_output(c, "drops", x); /* zeros here were dropped: PyTorch gets them */
    const sw_value mean = sw_mean_axes(c, x, (int[]){-1}, 1, 1);
    x = sw_add(c, x, sw_scale_by(c, mean, -1.0f));
    sw_split(c, sw_matmul(c, x, sw_use(c, n->inner)), WIDTH, -1, part, 3);
    const sw_value q = heads(c, part[0]), k = heads(c, part[1]), v = heads(c, part[2]);
    const sw_value scores = sw_scale_by(c, sw_matmul(c, q, sw_transpose(c, k, -1, -2)), 0.5f);
    sw_value y = sw_matmul(c, sw_softmax(c, scores), v);
    y = sw_reshape(c, sw_transpose(c, y, 1, 2), SW_SHAPE(BATCH, ROWS, WIDTH));
    y = sw_add(c, x, sw_matmul(c, y, sw_use(c, n->outer)));
    const sw_value most = sw_max_axes(c, y, (int[]){-2}, 1, 1);
    y = sw_mul(c, y, most);
    const sw_value words = sw_use(c, n->words.weight);
    const sw_value logits = sw_matmul(c, y, sw_transpose(c, words, 0, 1));
    const sw_value loss = sw_sum_axes(c, sw_tanh(c, sw_scale_by(c, logits, 0.02f)), NULL, 0, 0);
    sw_output(c, "loss", loss);
    sw_output(c, "logits", logits);
    sw_backward(c, loss, &n->optimizer, 1);
    sw_accumulate(c, n->optimizer);
}

static void put(FILE *to, const void *from, size_t element, size_t n)
{
    if (fwrite(from, element, n, to) != n)
        exit(1);
}

static void put_output(FILE *to, sw_exec *exec, const char *name)
{
    sw_array a;
    size_t n = 1;
    CHECK(sw_output_get(exec, name, &a));
    for (int i = 0; i < a.shape.rank; i++)
        n *= (size_t)a.shape.dim[i];
    put(to, a.data, sizeof(float), n);
}

int main(int argc, char **argv)
{
    static int32_t ids[BATCH * ROWS];
    static uint8_t places[ROWS];
    sw_exec *exec;
    sw_model *model;
    net n = {.optimizer = NULL};
    char path[4096];
    if (argc != 2)
        return 2;
    for (int i = 0; i < BATCH * ROWS; i++)
        ids[i] = i * i * 7 % 43;
    for (int i = 0; i < ROWS; i++)
        places[i] = (uint8_t)i;
    const sw_exec_opts opts = {.size = sizeof opts, .threads = 2, .seed = 3};
    CHECK(sw_exec_create(&exec, &opts));
    CHECK(sw_model_create(&model, "axes"));
    n.words = sw_embedding_new(model, "words", VOCABULARY, WIDTH);
    n.places = sw_embedding_new(model, "places", ROWS, WIDTH);
    n.inner = sw_param_new(model, "inner", SW_F32, SW_SHAPE(WIDTH, 3 * WIDTH), "normal:0.2");
    n.outer = sw_param_new(model, "outer", SW_F32, SW_SHAPE(WIDTH, WIDTH), "normal:0.2");
    const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd", .keep_gradients = 1};
    CHECK(sw_optimizer_create(&n.optimizer, model, &sgd));
    CHECK(sw_model_ready(model, exec, 7));
    snprintf(path, sizeof path, "%s/init.safetensors", argv[1]);
    CHECK(sw_model_save(model, path));
    const sw_array inputs[] = {{SW_I32, SW_SHAPE(BATCH, ROWS), ids},
                               {SW_U8, SW_SHAPE(ROWS), places}};
    const sw_run_args args = {.size = sizeof args,
                              .fn = step,
                              .user = &n,
                              .models = &model,
                              .n_models = 1,
                              .inputs = inputs,
                              .n_inputs = 2};
    CHECK(sw_run(exec, &args));
    FILE *to = peer_create(argv[1], "ids.bin");
    put(to, ids, sizeof *ids, BATCH * ROWS);
    fclose(to);
    to = peer_create(argv[1], "outputs.bin");
    put_output(to, exec, "loss");
    put_output(to, exec, "logits");
    put_output(to, exec, "drops");
    fclose(to);
    to = peer_create(argv[1], "grads.bin");
    peer_put_gradients(model, to);
    fclose(to);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return 0;
}
