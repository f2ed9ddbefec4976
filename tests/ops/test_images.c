/* Ops for decoders: images of another size, transposed convolution, stacks, where a maximum is,
 * cumulative sums, tensors of one number; what their public functions promise beyond the checks
 * of their descriptors. */
#include "tests/ops/axes_bench.h"
#include "kernels/resample.h"

SW_TESTS("images")

/* ---- images of another size -------------------------------------------------------------- */

/* Positions by whole numbers are those of the formula, and ranges are where they change. */
SW_TEST("ranges of positions meet")
{
    for (int linear = 0; linear < 2; linear++)
        for (int64_t in = 1; in < 30; in++)
            for (int64_t out = 1; out < 70; out++) {
                int64_t wrong = 0;
                for (int64_t i = 0; i < out; i++) {
                    const int64_t part = sw_resample_part(i, in, out, linear);
                    const int64_t at = part / sw_resample_whole(out, linear);
                    const double exact =
                        linear ? ((double)i + 0.5) * (double)in / (double)out - 0.5 : 0.0;
                    const int64_t by_formula =
                        linear ? (int64_t)floor(exact > 0 ? exact : 0) : i * in / out;
                    /* A whole number may be hit from below in float64. */
                    wrong += at != by_formula && fabs(exact - round(exact)) > 1e-9;
                    wrong += i < sw_resample_first(at, in, out, linear);
                    wrong += i >= sw_resample_first(at + 1, in, out, linear);
                }
                SW_CHECK(wrong == 0, "%d: %d to %d: %d", linear, (int)in, (int)out, (int)wrong);
            }
}

SW_TEST("largest sizes do not overflow")
{
    const int64_t most = SW_RESAMPLE_MOST;
    for (int linear = 0; linear < 2; linear++) {
        const int64_t part = sw_resample_part(most - 1, most, most, linear);
        CU_ASSERT_EQUAL(part / sw_resample_whole(most, linear), most - 1);
        CU_ASSERT_EQUAL(sw_resample_first(most - 1, most, most, linear), most - 1);
    }
    CU_ASSERT_EQUAL(sw_resample_weight(sw_resample_part(most - 1, 2, most, 1), 1, most),
                    (float)(0.5 - 1.0 / (double)most));
}

TRAINS(up_step, sw_upsample_to(c,
                               sw_upsample(c, sw_upsample(c, sw_use(c, b->p), 2, SW_BILINEAR),
                                           2, SW_NEAREST),
                               37, 33, SW_BILINEAR))

SW_TEST("resampling has one result for all threads")
{
    const int64_t y = 20 * 5 * 37 * 33;
    bench_same_for_all_threads(up_step, NULL, 0, SW_SHAPE(20, 5, 13, 11), 20 * 5 * 13 * 11, y);
    bench_same_for_all_threads(up_step, NULL, 0, SW_SHAPE(64, 1, 13, 11), 64 * 13 * 11,
                               64 * 37 * 33);
}

GIVES(up_rows, sw_upsample(c, sw_use(c, b->p), b->count, SW_NEAREST))
GIVES(up_mode, sw_upsample(c, sw_use(c, b->p), 2, (sw_upsample_mode)b->count))
GIVES(up_to, sw_upsample_to(c, sw_use(c, b->p), b->count, 4, SW_BILINEAR))

SW_TEST("resampling refuses by name")
{
    static bench b, image;
    bench_open(&b, 1, SW_SHAPE(3, 4));
    b.count = 2;
    bench_refused(&b, up_rows, NULL, 0, "upsample: the input must be an image");
    bench_refused(&b, up_to, NULL, 0, "upsample: the input must be (batch, c, h, w)");
    bench_open(&image, 1, SW_SHAPE(1, 1, 3, 4));
    image.count = 0;
    bench_refused(&image, up_rows, NULL, 0, "the factor must be at least 1 (got 0)");
    bench_refused(&image, up_to, NULL, 0, "(got 0 x 4)");
    image.count = 7;
    bench_refused(&image, up_mode, NULL, 0, "SW_NEAREST or SW_BILINEAR (got 7)");
    image.count = SW_RESAMPLE_MOST;
    bench_refused(&image, up_rows, NULL, 0, "must have 1 to 4194304 rows");
}

/* Upsampling keeps nothing, and its result is recomputed: the large image that the weight's
 * gradient reads is not there between forward and backward. */
static void up_and_conv(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value x = sw_upsample(c, sw_input(c, 0), 4, SW_BILINEAR);
    const sw_value y = sw_conv2d_op(c, x, sw_use(c, b->p), (sw_value){0, 0}, 1, 1);
    bench_train(c, b, sw_global_avg_pool(c, y));
}

SW_TEST("large images are recomputed")
{
    static float x[2 * 4 * 8 * 8];
    const sw_array image = {SW_F32, SW_SHAPE(2, 4, 8, 8), x};
    int before = 0, behind = 0;
    bench *const b = bench_new(1, SW_SHAPE(4, 4, 3, 3));
    OK(bench_run(b, up_and_conv, &image, 1, SW_TRAIN));
    for (uint32_t i = 0; i < b->exec->last->trace.n_nodes; i++) {
        const swi_node *node = &b->exec->last->trace.nodes[i];
        before += node->op == SW_OP_upsample && node->again == 0;
        behind += node->op == SW_OP_upsample && node->again == SWI_AGAIN_REBUILT;
    }
    CU_ASSERT(before == 1 && behind == 1);
}

/* ---- transposed convolution -------------------------------------------------------------- */

static sw_conv_transpose_opts opts;
static sw_shape weight_shape;
static void transpose_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value w = sw_randn(c, "w", weight_shape);
    bench_train(c, b, sw_conv_transpose2d_op(c, sw_use(c, b->p), w, (sw_value){0, 0}, &opts));
}

SW_TEST("transposed convolution refuses by name")
{
    bench *const b = bench_new(1, SW_SHAPE(2, 4, 3, 3));
    weight_shape = SW_SHAPE(4, 3, 3, 3);
    opts = SW_OPTS(sw_conv_transpose_opts, .output_pad = 1);
    bench_refused(b, transpose_step, NULL, 0, "(got output padding 1, stride 1)");
    opts = SW_OPTS(sw_conv_transpose_opts, .groups = 3);
    bench_refused(b, transpose_step, NULL, 0, "(4, 3, 3, 3) with groups 3");
    opts = SW_OPTS(sw_conv_transpose_opts, .pad = 3);
    bench_refused(b, transpose_step, NULL, 0, "padding 3 has no result");
    opts = SW_OPTS(sw_conv_transpose_opts, .stride = -1);
    bench_refused(b, transpose_step, NULL, 0, "stride -1");
    opts = SW_OPTS(sw_conv_transpose_opts);
    weight_shape = SW_SHAPE(5, 3, 3, 3);
    bench_refused(b, transpose_step, NULL, 0, "(got (2, 4, 3, 3) and (5, 3, 3, 3)");
}

SW_TEST("transposed convolution has one result for all threads")
{
    weight_shape = SW_SHAPE(6, 8, 4, 4);
    opts = SW_OPTS(sw_conv_transpose_opts, .stride = 2, .pad = 1);
    bench_same_for_all_threads(transpose_step, NULL, 0, SW_SHAPE(3, 6, 20, 21), 3 * 6 * 20 * 21,
                               3 * 8 * 40 * 42);
    bench_same_for_all_threads(transpose_step, NULL, 0, SW_SHAPE(70, 6, 4, 5), 70 * 6 * 4 * 5,
                               70 * 8 * 8 * 10);
}

/* A layer has the names, shapes and bounds of PyTorch's. */
SW_TEST("the layer begins as PyTorch's")
{
    static float w[6 * 4 * 9], bias[8];
    const sw_conv_transpose_opts two = SW_OPTS(sw_conv_transpose_opts, .groups = 2);
    sw_exec *exec = made_exec(NULL);
    sw_model *model = made_model("layer");
    const sw_conv_transpose2d layer = sw_conv_transpose2d_new(model, "up", 6, 8, 3, &two);
    OK(sw_model_ready(model, exec, 1));
    CU_ASSERT_STRING_EQUAL(sw_param_name(layer.weight), "up.weight");
    const sw_shape s = sw_param_shape(layer.weight);
    CU_ASSERT(s.rank == 4 && s.dim[0] == 6 && s.dim[1] == 4 && s.dim[2] == 3 && s.dim[3] == 3);
    CU_ASSERT_EQUAL(sw_param_shape(layer.bias).dim[0], 8);
    OK(sw_param_read(layer.weight, w, sizeof w));
    OK(sw_param_read(layer.bias, bias, sizeof bias));
    const double bound = 1.0 / sqrt(4 * 9);
    double most = 0;
    for (int i = 0; i < N(w); i++)
        most = fmax(most, fabs((double)w[i]));
    CU_ASSERT(most <= bound && most > 0.9 * bound);
}

/* ---- stack ------------------------------------------------------------------------------- */

static void stack_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value x = sw_use(c, b->p);
    const sw_value three[] = {x, sw_scale_by(c, x, 2.0f), sw_transpose(c, x, 0, 1)};
    bench_train(c, b, sw_stack(c, three, 3, b->count));
}

/* Slice i along the new axis is value i, and slice i of the gradient is of y y 2 y. */
SW_TEST("a stack is slices")
{
    for (int axis = -3; axis < 3; axis++) {
        static float p[16], g[16];
        bench *const b = bench_new(1, SW_SHAPE(4, 4));
        b->count = axis;
        OK(bench_run(b, stack_step, NULL, 0, SW_TRAIN));
        OK(sw_param_read(b->p, p, sizeof p));
        OK(sw_param_gradient(b->p, g, sizeof g));
        const int at = axis < 0 ? axis + 3 : axis;
        const float *y = bench_output(b, "y", 48);
        int wrong = 0;
        for (int i = 0; i < 48; i++) {
            const int dim[3] = {i / (at == 0   ? 16
                                     : at == 1 ? 12
                                               : 12),
                                at == 0   ? i / 4 % 4
                                : at == 1 ? i / 4 % 3
                                          : i / 3 % 4,
                                at == 2 ? i % 3 : i % 4};
            const int which = dim[at], r = at == 0 ? dim[1] : dim[0],
                      col = at == 2 ? dim[1] : dim[2];
            const float want = which == 2   ? p[col * 4 + r]
                               : which == 1 ? 2.0f * p[r * 4 + col]
                                            : p[r * 4 + col];
            wrong += y[i] != want;
        }
        for (int i = 0; i < 16; i++) /* 2 p + 8 p + 2 p */
            wrong += fabsf(g[i] - 12.0f * p[i]) > 1e-5f * fabsf(p[i]);
        SW_CHECK(wrong == 0, "axis %d: %d wrong", axis, wrong);
        bench_close(b);
    }
}

static void stack_other(sw_ctx *c, void *user)
{
    const bench *b = user;
    const sw_value x = sw_use(c, b->p);
    const sw_value two[] = {x, sw_slice(c, x, 0, 0, 2)};
    sw_output(c, "y", sw_stack(c, two, b->count, 0));
}
GIVES(stack_axis,
      sw_stack(c, &(sw_value){sw_use(c, b->p).id, sw_use(c, b->p).generation}, 1, b->count))

SW_TEST("stacks refuse by name")
{
    bench *const b = bench_new(1, SW_SHAPE(4, 4));
    b->count = 2;
    bench_refused(b, stack_other, NULL, 0, "value 0 is (4, 4), value 1 is (2, 4)");
    b->count = 33;
    bench_refused(b, stack_other, NULL, 0, "the values must be 1 to 32 (got 33)");
    b->count = 0;
    bench_refused(b, stack_other, NULL, 0, "(got 0)");
    b->count = 3;
    bench_refused(b, stack_axis, NULL, 0, "stack: axis 3 must be a new one of a tensor of");
    b->count = -4;
    bench_refused(b, stack_axis, NULL, 0, "stack: axis -4");
}

/* ---- argmax, cumsum, full ---------------------------------------------------------------- */

static void line_step(sw_ctx *c, void *user)
{
    const bench *b = user;
    const sw_value x = sw_use(c, b->p);
    sw_output(c, "at", sw_argmax(c, x, b->count, 0));
    sw_output(c, "kept", sw_argmax(c, x, b->count, 1));
    sw_output(c, "sums", sw_cumsum(c, x, b->count));
    /* An argmax returns ids. */
    sw_output(c, "rows",
              sw_embedding_op(c, sw_argmax(c, x, 1, 0), sw_full(c, SW_SHAPE(5, 2), 0.25f)));
}

SW_TEST("the first wins and sums are float64")
{
    static const float x[] = {1e8f, 1.0f, 1.0f, -1e8f, 1e8f, 3.0f, NAN, 2.0f, NAN, 7.0f};
    sw_array at, kept;
    bench *const b = bench_new(1, SW_SHAPE(2, 5));
    OK(sw_param_write(b->p, x, sizeof x));
    b->count = -1;
    OK(bench_run(b, line_step, NULL, 0, SW_EVAL));
    OK(sw_output_get(b->exec, "at", &at));
    OK(sw_output_get(b->exec, "kept", &kept));
    CU_ASSERT_EQUAL(at.dtype, SW_I32);
    CU_ASSERT(at.shape.rank == 1 && kept.shape.rank == 2 && kept.shape.dim[1] == 1);
    const int32_t *i = at.data;
    CU_ASSERT(i[0] == 0 && i[1] == 1);
    CU_ASSERT_EQUAL(memcmp(at.data, kept.data, 2 * sizeof *i), 0);
    const float *sums = bench_output(b, "sums", 10);
    CU_ASSERT(sums[0] == 1e8f && sums[2] == 100000002.0f && sums[3] == 2.0f);
    CU_ASSERT(sums[5] == 3.0f && isnan(sums[6]) && isnan(sums[9]));
    const float *rows = bench_output(b, "rows", 4);
    CU_ASSERT(rows[0] == 0.25f && rows[3] == 0.25f);
    b->count = 2;
    bench_refused(b, line_step, NULL, 0, "argmax: axis 2 of a tensor of rank 2");
}

TRAINS(largest_step, sw_global_max_pool(c, sw_use(c, b->p)))

/* An image of any size: a byte says which place won of at most 255, two of more. */
SW_TEST("the largest place of any image is found")
{
    static float x[20 * 2 * 32 * 17], g[20 * 2 * 32 * 17];
    static const int64_t sides[][2] = {{15, 17}, {16, 16}, {32, 17}};
    for (int k = 0; k < N(sides); k++) {
        const int64_t places = sides[k][0] * sides[k][1], n = 40 * places;
        const size_t bytes = (size_t)n * sizeof *x;
        int wrong = 0;
        bench *const b = bench_new(2, SW_SHAPE(20, 2, sides[k][0], sides[k][1]));
        OK(sw_param_read(b->p, x, bytes));
        OK(bench_run(b, largest_step, NULL, 0, SW_TRAIN));
        OK(sw_param_gradient(b->p, g, bytes));
        const float *y = bench_output(b, "y", 40);
        for (int64_t i = 0; i < n; i++) {
            const float most = y[i / places];
            wrong += x[i] > most || g[i] != (x[i] == most ? 2.0f * most : 0.0f);
        }
        SW_CHECK(wrong == 0, "%d places: %d are wrong", (int)places, wrong);
        bench_close(b);
    }
}

TRAINS(sum_step, sw_cumsum(c, sw_use(c, b->p), b->count))
GIVES(sum_axis, sw_cumsum(c, sw_use(c, b->p), b->count))

SW_TEST("sums have one result for all threads")
{
    bench_same_for_all_threads(sum_step, NULL, 0, SW_SHAPE(300, 211), 300 * 211, 300 * 211);
    static bench b;
    bench_open(&b, 1, SW_SHAPE(3, 4));
    b.count = -3;
    bench_refused(&b, sum_axis, NULL, 0, "cumsum: axis -1 must be one of a tensor of rank 2");
}

GIVES(full_step, sw_mul(c, sw_full(c, SW_SHAPE(3, 1), -1.5f), sw_full(c, SW_SCALAR, b->number)))
GIVES(bad_full, sw_full(c, SW_SHAPE(3, -1), 1.0f))

SW_TEST("a full tensor broadcasts")
{
    bench *const b = bench_new(1, SW_SHAPE(1));
    b->number = 2.0f;
    OK(bench_run(b, full_step, NULL, 0, SW_TRAIN));
    const float *y = bench_output(b, "y", 3);
    CU_ASSERT(y[0] == -3.0f && y[2] == -3.0f);
    bench_refused(b, bad_full, NULL, 0, "fill");
}
