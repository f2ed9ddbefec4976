/* Augmentation: what sw_random_flip and sw_random_crop promise beyond the checks of their
 * descriptors. */
#include "tests/ops/axes_bench.h"
#include "kernels/augment.h"

SW_TESTS("augment")

enum {
    BATCH = 4000,
    H = 5,
    W = 7,
    INNER = H * W,
    PAD = 2,
    MOVES = (2 * PAD + 1) * (2 * PAD + 1)
};

/* Each byte says where it was, 1..35; 0 is what comes in. */
static const unsigned char *numbered(int n)
{
    static unsigned char x[BATCH * INNER];
    for (int i = 0; i < n * INNER; i++)
        x[i] = (unsigned char)(1 + i % INNER);
    return x;
}

GIVES(flip_bytes, sw_to_f32(c, sw_random_flip(c, sw_input(c, 0), b->number), 1.0f, 0.0f))

GIVES(crop_bytes, sw_to_f32(c, sw_random_crop(c, sw_input(c, 0), b->count), 1.0f, 0.0f))

/* Both, twice, as models have them. */
static void both_twice(sw_ctx *c, void *user)
{
    sw_value x = sw_input(c, 0), y = sw_random_crop(c, sw_random_flip(c, x, 0.5f), PAD);
    sw_output(c, "first", sw_to_f32(c, y, 1.0f, 0.0f));
    y = sw_random_crop(c, sw_random_flip(c, x, 0.5f), PAD);
    sw_output(c, "y", sw_to_f32(c, y, 1.0f, 0.0f));
}

/* Of parameters, with gradients. */
TRAINS(both_of_floats, sw_random_crop(c, sw_random_flip(c, sw_use(c, b->p), 0.5f), PAD))

static const float *run_step(bench *b, sw_step_fn *fn, int n, sw_mode mode, uint64_t step)
{
    const sw_array in = {SW_U8, SW_SHAPE(n, 1, H, W), numbered(n)};
    OK(sw_run(b->exec,
              &SW_OPTS(sw_run_args, .fn = fn, .user = b, .models = &b->model, .n_models = 1,
                       .inputs = &in, .n_inputs = 1, .mode = mode, .step = step)));
    return bench_output(b, "y", (int64_t)n * INNER);
}

static const float *run_bytes(bench *b, sw_step_fn *fn, int n, sw_mode mode)
{
    return run_step(b, fn, n, mode, 0);
}

/* Pixel (r, c) of a plane that holds what `numbered` puts there, or 0 outside. */
static float pixel(int r, int c)
{
    return r >= 0 && r < H && c >= 0 && c < W ? (float)(1 + r * W + c) : 0.0f;
}

static bool is_moved(const float *y, int down, int right)
{
    for (int i = 0; i < INNER; i++)
        if (y[i] != pixel(i / W + down, i % W + right))
            return false;
    return true;
}

static bool is_mirrored(const float *y)
{
    for (int i = 0; i < INNER; i++)
        if (y[i] != pixel(i / W, W - 1 - i % W))
            return false;
    return true;
}

SW_TEST("images are mirrored with that probability")
{
    static const float shares[] = {0.5f, 0.25f, 1.0f};
    for (int k = 0; k < N(shares); k++) {
        bench *const b = bench_new(2, SW_SHAPE(1));
        b->number = shares[k];
        const float *y = run_bytes(b, flip_bytes, BATCH, SW_TRAIN);
        int mirrored = 0, wrong = 0;
        for (int i = 0; i < BATCH; i++) {
            const bool is = is_mirrored(y + i * INNER);
            mirrored += is;
            wrong += !is && !is_moved(y + i * INNER, 0, 0);
        }
        const double p = (double)shares[k];
        CU_ASSERT_EQUAL(wrong, 0);
        SW_CHECK(fabs(mirrored - p * BATCH) <= 5.0 * sqrt(p * (1 - p) * BATCH), "%d of %d",
                 mirrored, BATCH);
        bench_close(b);
    }
}

static int count_moves(const float *y, int count[])
{
    int wrong = 0;
    for (int i = 0; i < BATCH; i++) {
        int found = -1;
        for (int k = 0; k < MOVES && found < 0; k++)
            if (is_moved(y + i * INNER, k / (2 * PAD + 1) - PAD, k % (2 * PAD + 1) - PAD))
                found = k;
        wrong += found < 0;
        if (found >= 0)
            count[found]++;
    }
    return wrong;
}

/* Chi square of the 25 moves: 24 degrees of freedom, 51.2 at 0.999. */
SW_TEST("all moves are as probable")
{
    enum { STEPS = 20 };
    const double mean = (double)BATCH * STEPS / MOVES;
    int count[MOVES] = {0}, wrong = 0;
    bench *const b = bench_new(2, SW_SHAPE(1));
    b->count = PAD;
    for (uint64_t i = 0; i < STEPS; i++)
        wrong += count_moves(run_step(b, crop_bytes, BATCH, SW_TRAIN, i), count);
    CU_ASSERT_EQUAL(wrong, 0);
    double chi = 0;
    for (int k = 0; k < MOVES; k++)
        chi += pow(count[k] - mean, 2) / mean;
    SW_CHECK(chi < 51.2, "chi square of the moves: %g", chi);
}

/* Ends of what a word can be. */
SW_TEST("the ends of words are the ends of moves")
{
    static const int32_t pads[] = {0, 1, 2, 4, 1 << 20, INT32_MAX};
    for (int i = 0; i < N(pads); i++) {
        CU_ASSERT_EQUAL(sw_shift_of(0, pads[i]), -(int64_t)pads[i]);
        CU_ASSERT_EQUAL(sw_shift_of(UINT32_MAX, pads[i]), pads[i]);
    }
    CU_ASSERT_EQUAL(sw_shift_of(0x80000000u, 4), 0);
}

SW_TEST("draws belong to rows and calls")
{
    enum { FEW = 37 };
    static float all[2][BATCH * INNER];
    bench *b = bench_new(2, SW_SHAPE(1));
    const float *y = run_bytes(b, both_twice, BATCH, SW_TRAIN);
    memcpy(all[0], y, sizeof all[0]);
    memcpy(all[1], bench_output(b, "first", BATCH * INNER), sizeof all[1]);
    int equal = 0;
    for (int i = 0; i < BATCH; i++)
        equal += memcmp(&all[0][i * INNER], &all[1][i * INNER], INNER * sizeof(float)) == 0;
    /* 1 of 50 by chance: 2 mirrors, 25 moves. */
    SW_CHECK(fabs(equal - BATCH / 50.0) < 5.0 * sqrt(BATCH / 50.0), "%d of %d twice", equal,
             BATCH);
    bench_close(b);
    b = bench_new(1, SW_SHAPE(1)); /* a smaller batch of a new exec: the same first rows */
    y = run_bytes(b, both_twice, FEW, SW_TRAIN);
    CU_ASSERT_EQUAL(memcmp(y, all[0], FEW * INNER * sizeof(float)), 0);
}

SW_TEST("evaluation leaves images alone")
{
    bench *const b = bench_new(1, SW_SHAPE(1));
    const float *y = run_bytes(b, both_twice, 50, SW_EVAL);
    for (int i = 0; i < 50; i++)
        CU_ASSERT(is_moved(y + i * INNER, 0, 0));
    CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_random_flip), 0);
    CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_random_crop), 0);
}

SW_TEST("nothing to draw is no op")
{
    bench *const b = bench_new(1, SW_SHAPE(1));
    b->number = 0.0f;
    b->count = 0;
    (void)run_bytes(b, flip_bytes, 3, SW_TRAIN);
    CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_random_flip), 0);
    (void)run_bytes(b, crop_bytes, 3, SW_TRAIN);
    CU_ASSERT_EQUAL(bench_nodes(b, SW_OP_random_crop), 0);
}

SW_TEST("augmentation has one result for all threads")
{
    const sw_shape s = SW_SHAPE(100, 3, 21, 13);
    bench_same_for_all_threads(both_of_floats, NULL, 0, s, 100 * 3 * 21 * 13,
                               100 * 3 * 21 * 13);
}

/* The gradient of sum(y w) in x is w moved back: zero where what was there has left. */
SW_TEST("gradients go back to where they belong")
{
    enum { n = 20 * 3 * 6 * 6 };
    float x[n], gradient[n];
    bench *const b = bench_new(1, SW_SHAPE(20, 3, 6, 6));
    OK(sw_param_read(b->p, x, sizeof x));
    OK(bench_run(b, both_of_floats, NULL, 0, SW_TRAIN)); /* of sum(y^2): 2 y, taken back */
    OK(sw_param_gradient(b->p, gradient, sizeof gradient));
    int zeros = 0, wrong = 0;
    for (int i = 0; i < n; i++) {
        zeros += gradient[i] == 0.0f;
        wrong += gradient[i] != 0.0f && gradient[i] != 2.0f * x[i];
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(zeros > 0 && zeros < n / 2);
}

SW_TEST("wrong images and numbers are refused")
{
    static const float shares[] = {-0.1f, 1.5f, NAN};
    static const int pads[] = {-1, H, W, 1 << 30};
    const sw_array in = {SW_U8, SW_SHAPE(2, 1, H, W), numbered(2)};
    const sw_array flat = {SW_U8, SW_SHAPE(2, INNER), numbered(2)};
    const int32_t ids[4] = {0};
    const sw_array whole = {SW_I32, SW_SHAPE(1, 1, 2, 2), ids};
    bench *const b = bench_new(1, SW_SHAPE(1));
    for (int i = 0; i < N(shares); i++) {
        b->number = shares[i];
        bench_refused(b, flip_bytes, &in, 1, "random_flip: p must be");
        CU_ASSERT_EQUAL(bench_run(b, flip_bytes, &in, 1, SW_EVAL), SW_INVALID);
    }
    for (int i = 0; i < N(pads); i++) {
        b->count = pads[i];
        bench_refused(b, crop_bytes, &in, 1, "random_crop: pad must be");
        CU_ASSERT_EQUAL(bench_run(b, crop_bytes, &in, 1, SW_EVAL), SW_INVALID);
    }
    bench_refused(b, both_twice, &flat, 1, "must be images (batch, c, h, w)");
    bench_refused(b, both_twice, &whole, 1, "must be u8 or f32");
}
