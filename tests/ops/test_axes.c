/* Dropout, embedding, sums and maxima over axes: what their public functions promise beyond the
 * checks of their descriptors. */
#include "tests/ops/axes_bench.h"

SW_TESTS("axes")

/* ---- dropout ----------------------------------------------------------------------------- */

static void drop_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value x = sw_use(c, b->p);
    sw_output(c, "first", sw_dropout(c, x, 0.25f));
    bench_train(c, b, sw_dropout(c, x, 0.25f));
}

GIVES(drop_only, sw_dropout(c, sw_use(c, b->p), b->number))

SW_TEST("dropout drops that share, each call its own")
{
    enum { n = 100 * 777 };
    static float x[n];
    bench *const b = bench_new(2, SW_SHAPE(100, 777));
    OK(sw_param_read(b->p, x, sizeof x));
    OK(bench_run(b, drop_step, NULL, 0, SW_TRAIN));
    const float *first = bench_output(b, "first", n), *second = bench_output(b, "y", n);
    int dropped[2] = {0}, both = 0, wrong = 0;
    for (int i = 0; i < n; i++) {
        dropped[0] += first[i] == 0.0f;
        dropped[1] += second[i] == 0.0f;
        both += first[i] == 0.0f && second[i] == 0.0f;
        wrong += first[i] != 0.0f && first[i] != x[i] * (1.0f / 0.75f);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    /* Five standard deviations of n draws. */
    for (int k = 0; k < 2; k++)
        SW_CHECK(fabs(dropped[k] - 0.25 * n) < 5.0 * sqrt(0.25 * 0.75 * n), "%d of %d",
                 dropped[k], n);
    SW_CHECK(fabs(both - 0.0625 * n) < 5.0 * sqrt(0.0625 * 0.9375 * n), "%d of %d twice", both,
             n);
}

SW_TEST("evaluation drops nothing")
{
    float x[12];
    bench *const b = bench_new(1, SW_SHAPE(3, 4));
    OK(sw_param_read(b->p, x, sizeof x));
    b->number = 0.5f;
    OK(bench_run(b, drop_only, NULL, 0, SW_EVAL));
    CU_ASSERT_EQUAL(memcmp(bench_output(b, "y", 12), x, sizeof x), 0);
    CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_dropout), 0);
}

SW_TEST("dropout of everything is zero")
{
    bench *const b = bench_new(1, SW_SHAPE(3, 4));
    b->number = 1.0f;
    OK(bench_run(b, drop_only, NULL, 0, SW_TRAIN));
    const float *y = bench_output(b, "y", 12);
    for (int i = 0; i < 12; i++)
        CU_ASSERT_EQUAL(y[i], 0.0f);
}

SW_TEST("dropout refuses other shares")
{
    static const float bad[] = {-0.1f, 1.5f, NAN};
    for (int i = 0; i < N(bad); i++) {
        bench *const b = bench_new(1, SW_SHAPE(3, 4));
        b->number = bad[i];
        bench_refused(b, drop_only, NULL, 0, "dropout: p must be");
        CU_ASSERT_EQUAL(bench_run(b, drop_only, NULL, 0, SW_EVAL), SW_INVALID);
        bench_close(b);
    }
}

SW_TEST("dropout has one result for all threads")
{
    bench_same_for_all_threads(drop_step, NULL, 0, SW_SHAPE(100, 777), 77700, 77700);
}

/* ---- embedding --------------------------------------------------------------------------- */

TRAINS(embed_step, sw_embedding_op(c, sw_input(c, 0), sw_use(c, b->p)))

SW_TEST("repeated ids add in one order")
{
    static int32_t ids[700];
    for (int i = 0; i < N(ids); i++)
        ids[i] = i * i % 13;
    const sw_array in = {SW_I32, SW_SHAPE(7, 100), ids};
    bench_same_for_all_threads(embed_step, &in, 1, SW_SHAPE(50, 330), 50 * 330, 700 * 330);
}

/* Rows of ids that no one has are zero; the others are the sum of what came. */
SW_TEST("rows get what their ids got")
{
    const uint8_t ids[] = {4, 1, 4, 4};
    const sw_array in = {SW_U8, SW_SHAPE(2, 2), ids};
    float table[6 * 3], gradient[6 * 3];
    bench *const b = bench_new(1, SW_SHAPE(6, 3));
    OK(sw_param_read(b->p, table, sizeof table));
    OK(bench_run(b, embed_step, &in, 1, SW_TRAIN));
    OK(sw_param_gradient(b->p, gradient, sizeof gradient));
    for (int r = 0; r < 6; r++)
        for (int k = 0; k < 3; k++) {
            const float one = 2.0f * table[r * 3 + k];
            const float wanted = r == 4 ? one + one + one : r == 1 ? one : 0.0f;
            CU_ASSERT_EQUAL(gradient[r * 3 + k], wanted);
        }
}

SW_TEST("foreign ids are named with their place")
{
    const int32_t high[] = {0, 1, 2, 3, 4, 6}, low[] = {0, -7, 2, 3, 4, 5};
    const sw_array in[] = {{SW_I32, SW_SHAPE(2, 3), high}, {SW_I32, SW_SHAPE(6), low}};
    const float floats[6] = {0};
    const sw_array wrong = {SW_F32, SW_SHAPE(6), floats};
    bench *const b = bench_new(1, SW_SHAPE(6, 3));
    bench_refused(b, embed_step, &in[0], 1,
                  "embedding: id 6 at (1, 2) must be 0 or more and below the 6 rows");
    bench_refused(b, embed_step, &in[1], 1,
                  "embedding: id -7 at (1) must be 0 or more and below the 6 rows");
    bench_refused(b, embed_step, &wrong, 1, "embedding: ids must be u8, u16 or i32 (got f32)");
}

SW_TEST("no ids give no rows")
{
    const uint8_t none = 0;
    const sw_array in = {SW_U8, SW_SHAPE(0), &none};
    float gradient[6 * 3];
    bench *const b = bench_new(1, SW_SHAPE(6, 3));
    OK(bench_run(b, embed_step, &in, 1, SW_TRAIN));
    OK(sw_param_gradient(b->p, gradient, sizeof gradient));
    for (int i = 0; i < 18; i++)
        CU_ASSERT_EQUAL(gradient[i], 0.0f);
}

/* A layer with a weight that is the output layer's too. */
static void tied_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_embedding layer = {.weight = b->p};
    const sw_value x = sw_apply_embedding(c, layer, sw_input(c, 0));
    bench_train(c, b, sw_matmul(c, x, sw_transpose(c, sw_use(c, b->p), 0, 1)));
}

SW_TEST("a tied weight gets both gradients")
{
    static int32_t ids[60];
    for (int i = 0; i < N(ids); i++)
        ids[i] = i * 7 % 40;
    const sw_array in = {SW_I32, SW_SHAPE(3, 20), ids};
    bench_same_for_all_threads(tied_step, &in, 1, SW_SHAPE(40, 24), 40 * 24, 60 * 40);
}

/* ---- axes -------------------------------------------------------------------------------- */

static const float cube[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}; /* (2, 3, 2) */

static void reduce_step(sw_ctx *c, void *user)
{
    const sw_value x = sw_input(c, 0);
    sw_output(c, "sum", sw_sum_axes(c, x, (int[]){-2}, 1, 0));
    sw_output(c, "mean", sw_mean_axes(c, x, (int[]){-1, 0}, 2, 1));
    sw_output(c, "max", sw_max_axes(c, x, (int[]){0, -1}, 2, 0));
    sw_output(c, "all", sw_max_axes(c, x, NULL, 0, 1));
    sw_output(c, "bits", sw_max(c, x, 2u));
    sw_output(c, "every", sw_max(c, x, 0));
}

static void same_shape(bench *b, const char *name, sw_shape shape)
{
    sw_array a = {.data = NULL};
    CU_ASSERT_EQUAL_FATAL(sw_output_get(b->exec, name, &a), SW_OK);
    CU_ASSERT(swi_same_shape(&a.shape, &shape));
}

SW_TEST("axes count from both ends")
{
    const sw_array in = {SW_F32, SW_SHAPE(2, 3, 2), cube};
    const float sum[] = {9, 12, 27, 30}, mean[] = {4.5f, 6.5f, 8.5f}, max[] = {8, 10, 12};
    const float bits[] = {5, 6, 11, 12}, all[] = {12};
    bench *const b = bench_new(1, SW_SHAPE(1));
    OK(bench_run(b, reduce_step, &in, 1, SW_TRAIN));
    CU_ASSERT_EQUAL(memcmp(bench_output(b, "sum", 4), sum, sizeof sum), 0);
    CU_ASSERT_EQUAL(memcmp(bench_output(b, "mean", 3), mean, sizeof mean), 0);
    CU_ASSERT_EQUAL(memcmp(bench_output(b, "max", 3), max, sizeof max), 0);
    CU_ASSERT_EQUAL(memcmp(bench_output(b, "bits", 4), bits, sizeof bits), 0);
    CU_ASSERT_EQUAL(memcmp(bench_output(b, "all", 1), all, sizeof all), 0);
    CU_ASSERT_EQUAL(memcmp(bench_output(b, "every", 1), all, sizeof all), 0);
    same_shape(b, "sum", SW_SHAPE(2, 2));
    same_shape(b, "mean", SW_SHAPE(1, 3, 1));
    same_shape(b, "max", SW_SHAPE(3));
    same_shape(b, "all", SW_SHAPE(1, 1, 1));
    same_shape(b, "every", SW_SCALAR);
}

GIVES(bad_axis, sw_mean_axes(c, sw_input(c, 0), (int[]){-4}, 1, 0))
GIVES(same_axis, sw_sum_axes(c, sw_input(c, 0), (int[]){2, -1}, 2, 0))
GIVES(bad_max, sw_max(c, sw_input(c, 0), 8u))

SW_TEST("wrong axes are refused")
{
    const sw_array in = {SW_F32, SW_SHAPE(2, 3, 2), cube},
                   none = {SW_F32, SW_SHAPE(2, 0), cube};
    bench *const b = bench_new(1, SW_SHAPE(1));
    bench_refused(b, bad_axis, &in, 1, "mean: axis -4 of a tensor of rank 3");
    bench_refused(b, same_axis, &in, 1, "sum: axis -1 is named twice");
    bench_refused(b, bad_max, &in, 1, "max: the axes 0x8 must be those of a tensor of rank 3");
    bench_refused(b, reduce_step, &none, 1, "");
}

/* p is the input of a maximum along its rows. */
TRAINS(max_step, sw_max_axes(c, sw_use(c, b->p), &b->count, 1, 0))

SW_TEST("the first of equals wins, and NaN before all")
{
    const float x[] = {1, 7, 7, 2, -1, NAN, 3, NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int axis = 0; axis < 2; axis++) {
        float turned[12], gradient[12];
        bench *const b = bench_new(1, axis == 1 ? SW_SHAPE(3, 4) : SW_SHAPE(4, 3));
        for (int i = 0; i < 12; i++)
            turned[axis == 1 ? i : i % 4 * 3 + i / 4] = x[i];
        OK(sw_param_write(b->p, turned, sizeof turned));
        b->count = axis;
        OK(bench_run(b, max_step, NULL, 0, SW_TRAIN));
        const float *y = bench_output(b, "y", 3);
        CU_ASSERT(y[0] == 7.0f && isnan(y[1]) && y[2] == -INFINITY);
        OK(sw_param_gradient(b->p, gradient, sizeof gradient));
        for (int i = 0; i < 12; i++) {
            const float g = gradient[axis == 1 ? i : i % 4 * 3 + i / 4];
            if (i == 5)
                CU_ASSERT(isnan(g));
            if (i != 5)
                CU_ASSERT_EQUAL(g, i == 1 ? 14.0f : i == 8 ? -INFINITY : 0.0f);
        }
        bench_close(b);
    }
}

/* Rows long enough to be done in lanes. */
SW_TEST("the first of equals wins in long rows")
{
    float x[2 * 50], gradient[2 * 50];
    bench *const b = bench_new(1, SW_SHAPE(2, 50));
    for (int i = 0; i < N(x); i++)
        x[i] = (float)(i % 7);
    x[20] = x[35] = 9.0f; /* the later one is in an earlier lane */
    x[50 + 18] = x[50 + 33] = NAN;
    OK(sw_param_write(b->p, x, sizeof x));
    b->count = 1;
    OK(bench_run(b, max_step, NULL, 0, SW_TRAIN));
    OK(sw_param_gradient(b->p, gradient, sizeof gradient));
    for (int i = 0; i < N(x); i++)
        CU_ASSERT(i == 50 + 18 ? isnan(gradient[i]) : gradient[i] == (i == 20 ? 18.0f : 0.0f));
}

SW_TEST("a maximum keeps as few bytes as its places need")
{
    static const struct {
        int64_t places;
        size_t bytes;
    } all[] = {{1, 1}, {256, 1}, {257, 2}, {65536, 2}, {65537, 4}};
    for (int i = 0; i < N(all); i++) {
        bench *const b = bench_new(1, SW_SHAPE(3, all[i].places));
        b->count = 1;
        OK(bench_run(b, max_step, NULL, 0, SW_TRAIN));
        const swi_trace *t = &b->exec->last->trace;
        for (uint32_t k = 0; k < t->n_nodes; k++) {
            const swi_node *node = &t->nodes[k];
            if (node->op != SW_OP_max || node->grad >= 0)
                continue;
            const swi_value *v = &t->values[t->operands[node->first + node->n_in + 1]];
            CU_ASSERT_EQUAL(t->storages[v->storage].bytes, 3 * all[i].bytes);
        }
        CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_max), 2);
        bench_close(b);
    }
}

SW_TEST("maxima have one result for all threads")
{
    bench_same_for_all_threads(max_step, NULL, 0, SW_SHAPE(300, 500), 150000, 500);
}
