/* Products of many matrices, axes in another order, pieces of tensors: what their public
 * functions promise beyond the checks of their descriptors. */
#include "tests/ops/axes_bench.h"

SW_TESTS("products")

/* ---- products ---------------------------------------------------------------------------- */

/* Heads: p (4, 33, 3, 20) -> q k^T over (4, 3, 33, 20) without a copy. */
static void heads_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value q = sw_permute(c, sw_use(c, b->p), (int[]){0, 2, 1, -1}, 4);
    bench_train(c, b, sw_matmul(c, q, sw_transpose(c, q, -1, -2)));
}

SW_TEST("products read views in place")
{
    enum { images = 4, rows = 33, heads = 3, width = 20 };
    static float p[images * rows * heads * width];
    bench *const b = bench_new(1, SW_SHAPE(images, rows, heads, width));
    OK(sw_param_read(b->p, p, sizeof p));
    OK(bench_run(b, heads_step, NULL, 0, SW_EVAL));
    const float *y = bench_output(b, "y", images * heads * rows * rows);
    double worst = 0.0;
    for (int n = 0; n < images; n++)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < rows; i++)
                for (int k = 0; k < rows; k++) {
                    const float *u = p + ((n * rows + i) * heads + h) * width;
                    const float *v = p + ((n * rows + k) * heads + h) * width;
                    double sum = 0.0;
                    for (int w = 0; w < width; w++)
                        sum += (double)u[w] * (double)v[w];
                    const double error =
                        (double)y[((n * heads + h) * rows + i) * rows + k] - sum;
                    worst = fmax(worst, fabs(error));
                }
    SW_CHECK(worst < 1e-4, "%g", worst);
    int forward_copies = 0;
    const swi_trace *t = &b->exec->last->trace;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        forward_copies += t->nodes[i].op == SW_OP_copy && !t->nodes[i].is_backward;
    CU_ASSERT_EQUAL(forward_copies, 0);
}

SW_TEST("heads have one result for all threads")
{
    bench_same_for_all_threads(heads_step, NULL, 0, SW_SHAPE(4, 33, 3, 20), 4 * 33 * 3 * 20,
                               4 * 3 * 33 * 33);
}

/* One weight for many matrices, and one matrix alone: tiles of one product. */
TRAINS(weight_step, sw_matmul(c, sw_input(c, 0), sw_use(c, b->p)))

SW_TEST("one weight has one result for all threads")
{
    static float x[6 * 40 * 100];
    for (int i = 0; i < N(x); i++)
        x[i] = (float)(i % 17) * 0.125f - 1.0f;
    const sw_array in[] = {{SW_F32, SW_SHAPE(6, 40, 100), x}, {SW_F32, SW_SHAPE(240, 100), x}};
    for (int i = 0; i < N(in); i++)
        bench_same_for_all_threads(weight_step, &in[i], 1, SW_SHAPE(100, 130), 13000,
                                   240 * 130);
}

/* The axis in front is the inner one in memory: no long matrix, but the same rows. */
TRAINS(turned_step,
       sw_matmul(c, sw_permute(c, sw_input(c, 0), (int[]){1, 0, 2}, 3), sw_use(c, b->p)))

/* Axes in front that are one long matrix: the same bits as that matrix. */
SW_TEST("rows in front are rows")
{
    static float x[6 * 40 * 100], y[240 * 130], g[13000], h[13000];
    for (int i = 0; i < N(x); i++)
        x[i] = (float)(i % 23) * 0.25f - 2.0f;
    const sw_array in[] = {{SW_F32, SW_SHAPE(6, 40, 100), x}, {SW_F32, SW_SHAPE(240, 100), x}};
    bench *const b = bench_new(1, SW_SHAPE(100, 130));
    OK(bench_run(b, weight_step, &in[0], 1, SW_TRAIN));
    memcpy(y, bench_output(b, "y", N(y)), sizeof y);
    OK(sw_param_gradient(b->p, g, sizeof g));
    OK(sw_model_ready(b->model, b->exec, 5));
    OK(bench_run(b, weight_step, &in[1], 1, SW_TRAIN));
    OK(sw_param_gradient(b->p, h, sizeof h));
    CU_ASSERT_EQUAL(memcmp(y, bench_output(b, "y", N(y)), sizeof y), 0);
    CU_ASSERT_EQUAL(memcmp(g, h, sizeof g), 0);
    static float turned[N(x)];
    for (int i = 0; i < N(x); i++) /* (40, 6, 100) */
        turned[(i / 100 % 40 * 6 + i / 4000) * 100 + i % 100] = x[i];
    const sw_array other = {SW_F32, SW_SHAPE(40, 6, 100), turned};
    OK(sw_model_ready(b->model, b->exec, 5));
    OK(bench_run(b, turned_step, &other, 1, SW_TRAIN));
    OK(sw_param_gradient(b->p, h, sizeof h));
    CU_ASSERT_EQUAL(memcmp(y, bench_output(b, "y", N(y)), sizeof y), 0);
    double worst = 0.0, most = 0.0;
    for (int i = 0; i < N(g); i++) {
        worst = fmax(worst, fabs((double)g[i] - (double)h[i]));
        most = fmax(most, fabs((double)g[i]));
    }
    SW_CHECK(worst < 1e-5 * most, "%g of %g", worst, most);
}

SW_TEST("products of nothing are zero")
{
    static const float x[4] = {0};
    const sw_array empty = {SW_F32, SW_SHAPE(0, 3, 2), x};
    float gradient[8];
    bench *const b = bench_new(2, SW_SHAPE(2, 4));
    OK(bench_run(b, weight_step, &empty, 1, SW_TRAIN));
    (void)bench_output(b, "y", 0);
    OK(sw_param_gradient(b->p, gradient, sizeof gradient));
    for (int i = 0; i < 8; i++)
        CU_ASSERT_EQUAL(gradient[i], 0.0f);
}

SW_TEST("products that do not fit are refused")
{
    static const float x[24] = {0};
    const sw_array in[] = {{SW_F32, SW_SHAPE(4, 3), x}, {SW_F32, SW_SHAPE(2), x}};
    bench *b = bench_new(1, SW_SHAPE(2, 4));
    bench_refused(b, weight_step, &in[0], 1, "(got (4, 3) and (2, 4))");
    bench_refused(b, weight_step, &in[1], 1, "(got (2) and (2, 4))");
    bench_close(b);
    const sw_array fronts = {SW_F32, SW_SHAPE(3, 4, 2), x};
    b = bench_new(1, SW_SHAPE(2, 2, 5));
    bench_refused(b, weight_step, &fronts, 1, "matmul");
}

/* ---- other orders, pieces ---------------------------------------------------------------- */

static void split_step(sw_ctx *c, void *user)
{
    bench *b = user;
    sw_value part[4];
    const int n = sw_split(c, sw_use(c, b->p), 3, -1, part, N(part));
    CU_ASSERT_EQUAL_FATAL(n, 3);
    CU_ASSERT_EQUAL(sw_dim(c, part[2], 1), 1);
    const sw_value y = sw_mul(c, part[0], part[1]);
    bench_train(c, b, sw_add(c, y, part[2]));
}

SW_TEST("pieces are views")
{
    float x[2 * 7], gradient[2 * 7];
    bench *const b = bench_new(1, SW_SHAPE(2, 7));
    OK(sw_param_read(b->p, x, sizeof x));
    OK(bench_run(b, split_step, NULL, 0, SW_TRAIN));
    const float *y = bench_output(b, "y", 6);
    OK(sw_param_gradient(b->p, gradient, sizeof gradient));
    for (int r = 0; r < 2; r++) {
        const float *row = x + r * 7;
        float last = 0.0f;
        for (int i = 0; i < 3; i++) {
            const float wanted = row[i] * row[3 + i] + row[6], d = 2.0f * wanted;
            last += d;
            CU_ASSERT_EQUAL(y[r * 3 + i], wanted);
            CU_ASSERT_DOUBLE_EQUAL(gradient[r * 7 + i], d * row[3 + i], 1e-5);
            CU_ASSERT_DOUBLE_EQUAL(gradient[r * 7 + 3 + i], d * row[i], 1e-5);
        }
        CU_ASSERT_DOUBLE_EQUAL(gradient[r * 7 + 6], last, 1e-5);
    }
}

/* q, k, v of heads from one product: p (2, 9, 3 * 8) is read where it lies, and its gradient is
 * one tensor to which each piece adds its part. */
static void attend_step(sw_ctx *c, void *user)
{
    bench *b = user;
    sw_value part[3];
    sw_split(c, sw_use(c, b->p), 8, -1, part, N(part));
    for (int i = 0; i < N(part); i++)
        part[i] = sw_transpose(c, sw_reshape(c, part[i], SW_SHAPE(2, 9, 4, 2)), 1, 2);
    const sw_value scores = sw_matmul(c, part[0], sw_transpose(c, part[1], -1, -2));
    bench_train(c, b, sw_matmul(c, scores, part[2]));
}

SW_TEST("pieces share one tensor and its gradient")
{
    bench *const b = bench_new(1, SW_SHAPE(2, 9, 24));
    OK(bench_run(b, attend_step, NULL, 0, SW_TRAIN));
    const swi_trace *t = &b->exec->last->trace;
    int wholes = 0, copies = 0;
    for (uint32_t i = 0; i < t->n_storages; i++)
        wholes += t->storages[i].segment == SWI_SEG_STEP &&
                  t->storages[i].bytes == 2 * 9 * 24 * sizeof(float);
    for (uint32_t i = 0; i < t->n_nodes; i++)
        copies += t->nodes[i].op == SW_OP_copy && !t->nodes[i].is_backward;
    CU_ASSERT_EQUAL(wholes, 1);
    CU_ASSERT_EQUAL(copies, 0);
    CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_slice_grad), 3);
    bench_close(b);
    bench_same_for_all_threads(attend_step, NULL, 0, SW_SHAPE(2, 9, 24), 2 * 9 * 24,
                               2 * 4 * 9 * 2);
}

/* Element i of p (4, 6, 10), cut to (4, 6, 8), in shapes that strides can and cannot say. */
static void reshape_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value x = sw_slice(c, sw_use(c, b->p), 2, 1, 8);
    const sw_shape views[] = {SW_SHAPE(24, 8), SW_SHAPE(4, 2, 3, 1, 2, 4),
                              SW_SHAPE(1, 2, 12, 8)};
    for (int i = 0; i < N(views); i++) {
        char name[8];
        snprintf(name, sizeof name, "v%d", i);
        sw_output(c, name, sw_scale_by(c, sw_reshape(c, x, views[i]), 1.0f));
    }
    sw_output(c, "copy", sw_reshape(c, x, SW_SHAPE(4, 48)));
}

SW_TEST("strided tensors change shape")
{
    float x[4 * 6 * 10], wanted[4 * 6 * 8];
    bench *const b = bench_new(1, SW_SHAPE(4, 6, 10));
    OK(sw_param_read(b->p, x, sizeof x));
    for (int i = 0; i < N(wanted); i++)
        wanted[i] = x[i / 8 * 10 + 1 + i % 8];
    OK(bench_run(b, reshape_step, NULL, 0, SW_EVAL));
    static const char *const names[] = {"v0", "v1", "v2", "copy"};
    for (int i = 0; i < N(names); i++)
        CU_ASSERT_EQUAL(memcmp(bench_output(b, names[i], N(wanted)), wanted, sizeof wanted), 0);
}

static void few_pieces(sw_ctx *c, void *user)
{
    bench *b = user;
    sw_value part[2];
    CU_ASSERT_EQUAL(sw_split(c, sw_use(c, b->p), 3, -1, part, 2), 0);
}

static void no_pieces(sw_ctx *c, void *user)
{
    bench *b = user;
    sw_value part[2];
    CU_ASSERT_EQUAL(sw_split(c, sw_use(c, b->p), 0, 2, part, 2), 0);
}

GIVES(few_axes, sw_permute(c, sw_use(c, b->p), (int[]){0}, 1))
GIVES(many_axes, sw_permute(c, sw_use(c, b->p), (int[9]){0}, 9))
GIVES(twice_the_axis, sw_permute(c, sw_use(c, b->p), (int[]){1, -1}, 2))
GIVES(far_axis, sw_transpose(c, sw_use(c, b->p), 0, 2))

SW_TEST("wrong orders are refused")
{
    bench *const b = bench_new(1, SW_SHAPE(2, 7));
    bench_refused(b, few_pieces, NULL, 0,
                  "split: axis -1 of rank 2 in pieces of 3, room for 2");
    bench_refused(b, no_pieces, NULL, 0, "split: axis 2 of rank 2 in pieces of 0");
    bench_refused(b, few_axes, NULL, 0, "permute: 1 axes for a tensor of rank 2");
    bench_refused(b, many_axes, NULL, 0, "permute: 9 axes for a tensor of rank 2");
    bench_refused(b, twice_the_axis, NULL, 0, "permute: axis 1 is named twice");
    bench_refused(b, far_axis, NULL, 0, "transpose: axes 0 and 2 of a tensor of rank 2");
}
