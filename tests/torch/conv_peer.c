/* The stepwell side of compare_conv.py: convolutions with groups, dilation and strides,
 * transposed ones, the product of images with a number for each image and channel, images of
 * another size, and cumulative sums.
 *
 *   conv_peer DIR    writes to DIR: init.safetensors, outputs.bin and grads.bin (float32: y of
 * each case; all parameters in order)
 *
 * Parameters have the case's options in their names:
 * "conv.NUMBER.STRIDE.PAD.DILATION.GROUPS.x", ".w" and ".b";
 * "transpose.NUMBER.STRIDE.PAD.OUTPUT_PAD.GROUPS.DILATION.x", ".w" and ".b";
 * "scale.NUMBER.x", ".s"; "resize.NUMBER.H.W.BILINEAR.x"; "cumsum.NUMBER.AXIS.x". The loss is
 * the sum of the squares of all results. */
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
static const struct {
    int batch, in, h, w, out, kh, kw, stride, pad, output_pad, groups, dilation;
} transposes[] = {
    {2, 6, 5, 7, 4, 3, 3, 1, 1, 0, 1, 1},    {17, 6, 4, 5, 4, 2, 2, 2, 0, 0, 2, 1},
    {32, 4, 4, 5, 6, 3, 3, 2, 1, 1, 1, 1},   {3, 5, 6, 5, 5, 5, 5, 2, 2, 1, 5, 1},
    {31, 3, 3, 4, 3, 3, 3, 1, 1, 0, 3, 1},   {1, 4, 6, 7, 8, 4, 4, 2, 1, 0, 1, 1},
    {16, 40, 4, 4, 20, 1, 1, 1, 0, 0, 1, 1}, {5, 3, 4, 6, 6, 3, 2, 3, 1, 2, 3, 2},
};
static const struct {
    int batch, c, h, w, to_h, to_w, bilinear;
} resizes[] = {
    {2, 3, 7, 20, 14, 40, 0}, {32, 3, 5, 6, 10, 12, 0}, {3, 2, 9, 21, 18, 42, 1},
    {31, 2, 4, 5, 8, 10, 1},  {2, 2, 5, 8, 13, 11, 0},  {16, 2, 5, 8, 13, 11, 1},
    {2, 3, 11, 9, 4, 5, 1},   {2, 3, 11, 9, 4, 5, 0},   {3, 2, 1, 1, 6, 5, 1},
};
static const int cumsums[][5] = {{6, 5, 4, 7, 0}, {6, 5, 4, 7, 1}, {6, 5, 4, 70, 3}};
static const int scales[][4] = {{2, 3, 5, 7}, {32, 4, 3, 3}, {17, 2, 9, 17}};
enum {
    CONVS = sizeof convs / sizeof *convs,
    TRANSPOSES = CONVS + sizeof transposes / sizeof *transposes,
    SCALES = TRANSPOSES + sizeof scales / sizeof *scales,
    RESIZES = SCALES + sizeof resizes / sizeof *resizes,
    CASES = RESIZES + sizeof cumsums / sizeof *cumsums,
    MOST = 1 << 20
};

typedef struct {
    sw_param x[CASES], w[SCALES], b[TRANSPOSES];
    sw_optimizer *optimizer;
} net;

static sw_value convolution(sw_ctx *c, const net *n, int i)
{
    const sw_conv_opts opts = {.size = sizeof opts,
                               .stride = convs[i].stride,
                               .pad = convs[i].pad,
                               .dilation = convs[i].dilation,
                               .groups = convs[i].groups};
    return sw_conv2d_op_with(c, sw_use(c, n->x[i]), sw_use(c, n->w[i]), sw_use(c, n->b[i]),
                             &opts);
}

static sw_value transposed(sw_ctx *c, const net *n, int i)
{
    const int k = i - CONVS;
    const sw_conv_transpose_opts opts = {.size = sizeof opts,
                                         .stride = transposes[k].stride,
                                         .pad = transposes[k].pad,
                                         .output_pad = transposes[k].output_pad,
                                         .dilation = transposes[k].dilation,
                                         .groups = transposes[k].groups};
    return sw_conv_transpose2d_op(c, sw_use(c, n->x[i]), sw_use(c, n->w[i]), sw_use(c, n->b[i]),
                                  &opts);
}

static sw_value result(sw_ctx *c, const net *n, int i)
{
    if (i < CONVS)
        return convolution(c, n, i);
    if (i < TRANSPOSES)
        return transposed(c, n, i);
    const sw_value x = sw_use(c, n->x[i]);
    if (i < SCALES)
        return sw_channel_scale(c, x, sw_use(c, n->w[i]));
    if (i >= RESIZES)
        return sw_cumsum(c, x, cumsums[i - RESIZES][4]);
    const int h = resizes[i - SCALES].to_h, w = resizes[i - SCALES].to_w;
    const sw_upsample_mode mode = resizes[i - SCALES].bilinear ? SW_BILINEAR : SW_NEAREST;
    if (h == 2 * resizes[i - SCALES].h && w == 2 * resizes[i - SCALES].w)
        return sw_upsample(c, x, 2, mode);
    return sw_upsample_to(c, x, h, w, mode);
}

static void step(sw_ctx *c, void *user)
{
    net *n = user;
    sw_value loss = {0, 0};
    for (int i = 0; i < CASES; i++) {
        const sw_value y = result(c, n, i);
        char name[16];
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
    for (int i = CONVS; i < TRANSPOSES; i++) {
        const int k = i - CONVS, groups = transposes[k].groups;
        snprintf(of, sizeof of, "transpose.%d.%d.%d.%d.%d.%d", i, transposes[k].stride,
                 transposes[k].pad, transposes[k].output_pad, groups, transposes[k].dilation);
        n->x[i] = declare(
            model, of, "x",
            SW_SHAPE(transposes[k].batch, transposes[k].in, transposes[k].h, transposes[k].w));
        n->w[i] = declare(model, of, "w",
                          SW_SHAPE(transposes[k].in, transposes[k].out / groups,
                                   transposes[k].kh, transposes[k].kw));
        n->b[i] = declare(model, of, "b", SW_SHAPE(transposes[k].out));
    }
    for (int i = TRANSPOSES; i < SCALES; i++) {
        const int *s = scales[i - TRANSPOSES];
        snprintf(of, sizeof of, "scale.%d", i);
        n->x[i] = declare(model, of, "x", SW_SHAPE(s[0], s[1], s[2], s[3]));
        n->w[i] = declare(model, of, "s", SW_SHAPE(s[0], s[1], 1, 1));
    }
    for (int i = SCALES; i < RESIZES; i++) {
        const int k = i - SCALES;
        snprintf(of, sizeof of, "resize.%d.%d.%d.%d", i, resizes[k].to_h, resizes[k].to_w,
                 resizes[k].bilinear);
        n->x[i] = declare(model, of, "x",
                          SW_SHAPE(resizes[k].batch, resizes[k].c, resizes[k].h, resizes[k].w));
    }
    for (int i = RESIZES; i < CASES; i++) {
        const int *s = cumsums[i - RESIZES];
        snprintf(of, sizeof of, "cumsum.%d.%d", i, s[4]);
        n->x[i] = declare(model, of, "x", SW_SHAPE(s[0], s[1], s[2], s[3]));
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
    for (int i = 0; i < CASES; i++) {
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
