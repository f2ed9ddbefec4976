/* The stepwell side of compare_conv.py: convolutions with groups, dilation and strides, and the
 * product of images with a number for each image and channel.
 *
 *   conv_peer DIR    writes to DIR: init.safetensors, outputs.bin and grads.bin (float32: y of
 * each case; all parameters in order)
 *
 * Parameters have the case's options in their names:
 * "conv.NUMBER.STRIDE.PAD.DILATION.GROUPS.x", ".w" and ".b", and "scale.NUMBER.x", ".s". The
 * loss is the sum of the squares of all results. */
#include "peer.h"

/* Batches of 17 to 19 are plain, of 16 and 30 to 32 in blocks of sixteen. */
static const struct {
    int batch, in, h, w, out, kh, kw, stride, pad, dilation, groups;
} convs[] = {
    {1, 3, 9, 8, 6, 3, 3, 1, 1, 1, 1},     {17, 4, 7, 6, 6, 3, 2, 2, 1, 1, 2},
    {32, 6, 7, 9, 6, 3, 3, 1, 1, 1, 6},    {3, 6, 15, 20, 6, 5, 5, 1, 2, 1, 6},
    {31, 5, 9, 8, 5, 5, 5, 2, 2, 1, 5},    {2, 5, 9, 18, 5, 3, 3, 2, 1, 1, 5},
    {16, 4, 11, 9, 8, 3, 3, 1, 2, 2, 2},   {5, 3, 12, 11, 4, 3, 2, 2, 2, 3, 1},
    {32, 40, 4, 4, 70, 1, 1, 1, 0, 1, 1},  {33, 70, 5, 3, 21, 1, 1, 1, 0, 1, 1},
    {3, 24, 13, 11, 17, 1, 1, 1, 0, 1, 1}, {30, 8, 4, 4, 16, 1, 1, 1, 0, 1, 4},
    {30, 3, 6, 5, 6, 4, 4, 3, 1, 1, 3},    {16, 4, 2, 2, 4, 5, 5, 1, 2, 1, 4},
};
enum { CONVS = sizeof convs / sizeof *convs, SCALES = 3, MOST = 1 << 20 };
static const int scales[SCALES][4] = {{2, 3, 5, 7}, {32, 4, 3, 3}, {17, 2, 9, 17}};

typedef struct {
    sw_param x[CONVS + SCALES], w[CONVS + SCALES], b[CONVS];
    sw_optimizer *optimizer;
} net;

static void step(sw_ctx *c, void *user)
{
    net *n = user;
    sw_value loss = {0, 0};
    for (int i = 0; i < CONVS + SCALES; i++) {
        const sw_value x = sw_use(c, n->x[i]), w = sw_use(c, n->w[i]);
        sw_value y;
        char name[16];
        if (i < CONVS) {
            const sw_conv_opts opts = {.size = sizeof opts,
                                       .stride = convs[i].stride,
                                       .pad = convs[i].pad,
                                       .dilation = convs[i].dilation,
                                       .groups = convs[i].groups};
            y = sw_conv2d_op_with(c, x, w, sw_use(c, n->b[i]), &opts);
        } else {
            y = sw_channel_scale(c, x, w);
        }
        snprintf(name, sizeof name, "y%d", i);
        sw_output(c, name, y);
        const sw_value squares = sw_sum(c, sw_mul(c, y, y), 0);
        loss = i == 0 ? squares : sw_add(c, loss, squares);
    }
    sw_backward(c, loss, &n->optimizer, 1);
    sw_accumulate(c, n->optimizer);
}

static sw_param declare(sw_model *model, const char *of, const char *part, sw_shape shape)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", of, part);
    return sw_param_new(model, name, SW_F32, shape, "normal:1");
}

static void declare_all(net *n, sw_model *model)
{
    char of[64];
    for (int i = 0; i < CONVS; i++) {
        snprintf(of, sizeof of, "conv.%d.%d.%d.%d.%d", i, convs[i].stride, convs[i].pad,
                 convs[i].dilation, convs[i].groups);
        n->x[i] = declare(model, of, "x",
                          SW_SHAPE(convs[i].batch, convs[i].in, convs[i].h, convs[i].w));
        n->w[i] = declare(
            model, of, "w",
            SW_SHAPE(convs[i].out, convs[i].in / convs[i].groups, convs[i].kh, convs[i].kw));
        n->b[i] = declare(model, of, "b", SW_SHAPE(convs[i].out));
    }
    for (int i = 0; i < SCALES; i++) {
        const int *s = scales[i];
        snprintf(of, sizeof of, "scale.%d", CONVS + i);
        n->x[CONVS + i] = declare(model, of, "x", SW_SHAPE(s[0], s[1], s[2], s[3]));
        n->w[CONVS + i] = declare(model, of, "s", SW_SHAPE(s[0], s[1], 1, 1));
    }
}

static size_t elements(sw_shape shape)
{
    size_t n = 1;
    for (int i = 0; i < shape.rank; i++)
        n *= (size_t)shape.dim[i];
    return n;
}

static void put(FILE *to, const void *from, size_t n)
{
    if (n > MOST || fwrite(from, sizeof(float), n, to) != n)
        exit(1);
}

int main(int argc, char **argv)
{
    static float values[MOST];
    sw_exec *exec;
    sw_model *model;
    net n;
    char text[4096];
    if (argc != 2)
        return 2;
    const sw_exec_opts opts = {.size = sizeof opts, .threads = 2};
    CHECK(sw_exec_create(&exec, &opts));
    CHECK(sw_model_create(&model, "convolutions"));
    declare_all(&n, model);
    const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd", .keep_gradients = 1};
    CHECK(sw_optimizer_create(&n.optimizer, model, &sgd));
    CHECK(sw_model_ready(model, exec, 7));
    snprintf(text, sizeof text, "%s/init.safetensors", argv[1]);
    CHECK(sw_model_save(model, text));
    const sw_run_args args = {
        .size = sizeof args, .fn = step, .user = &n, .models = &model, .n_models = 1};
    CHECK(sw_run(exec, &args));
    FILE *outputs = peer_create(argv[1], "outputs.bin"),
         *grads = peer_create(argv[1], "grads.bin");
    for (int i = 0; i < CONVS + SCALES; i++) {
        sw_array y;
        snprintf(text, sizeof text, "y%d", i);
        CHECK(sw_output_get(exec, text, &y));
        put(outputs, y.data, elements(y.shape));
    }
    for (size_t i = 0; i < sw_param_count(model); i++) {
        const sw_param p = sw_param_at(model, i);
        const size_t count = elements(sw_param_shape(p));
        CHECK(count <= MOST ? sw_param_gradient(p, values, count * sizeof *values)
                            : SW_INVALID);
        put(grads, values, count);
    }
    const int failed = (fclose(outputs) != 0) + (fclose(grads) != 0);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return failed != 0;
}
