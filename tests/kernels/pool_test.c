/* Pooling, in blocks of sixteen images and plain, and layouts against plain loops, on every
 * instruction set of this machine. */
#include "tests/kernels/dense_support.h"

SW_TESTS("pool")

static sw_conv pool_of(int64_t batch, int64_t c, int64_t h, int64_t w, int64_t kh, int64_t kw,
                       int64_t stride, int64_t pad)
{
    return conv_of(batch, c, h, w, c, kh, kw, stride, pad, 1, 1);
}

/* The input element of a place of a window, or -1 outside the image. */
static int64_t position(const sw_conv *s, int64_t c, int64_t oy, int64_t ox, int64_t k)
{
    const int64_t y = oy * s->stride - s->pad + k / s->kernel_w;
    const int64_t x = ox * s->stride - s->pad + k % s->kernel_w;
    return y < 0 || x < 0 || y >= s->in_h || x >= s->in_w ? -1
                                                          : (c * s->in_h + y) * s->in_w + x;
}

enum { MOST = 160000 };
static double want_avg[MOST], want_max_dx[MOST], want_avg_dx[MOST];
static float want_max[MOST];
static int want_won[MOST];

/* Of plain images: the place that wins a window by the contract, the mean, and the gradients.
 */
static void expect(const sw_conv *s, const float *x, const float *dy, const float *before)
{
    const int64_t n = s->kernel_h * s->kernel_w;
    CU_ASSERT_FATAL(s->batch * in_size(s) <= MOST && s->batch * out_size(s) <= MOST);
    for (int64_t i = 0; i < s->batch * in_size(s); i++)
        want_max_dx[i] = want_avg_dx[i] = before != NULL ? (double)before[i] : 0.0;
    for (int64_t o = 0; o < s->batch * out_size(s); o++) {
        const int64_t c = o / s->out_w / s->out_h, oy = o / s->out_w % s->out_h;
        const double d = (double)dy[o];
        int64_t at = -1;
        want_avg[o] = 0.0;
        want_won[o] = -1;
        for (int k = 0; k < (int)n; k++) {
            const int64_t i = position(s, c, oy, o % s->out_w, k);
            if (i < 0)
                continue;
            want_avg[o] += (double)x[i] / (double)n;
            want_avg_dx[i] += d / (double)n;
            if (want_won[o] < 0 || x[i] > want_max[o] || isnan(x[i])) {
                want_won[o] = k;
                want_max[o] = x[i];
                at = i;
            }
        }
        want_max_dx[at] += d;
    }
}

typedef struct {
    float *y, *max_dx, *avg, *avg_dx;
    uint8_t *index;
} results;

static results run_all(int isa, const sw_conv *s, const float *plain_x, const float *plain_dy,
                       const float *plain_before, const sw_par *par)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t in = held(s, in_size(s)), out = held(s, out_size(s));
    const float *x = laid_out(s, plain_x, in_size(s)), *dy = laid_out(s, plain_dy, out_size(s));
    const float *before = laid_out(s, plain_before, in_size(s));
    results r = {.y = take(out), .avg = take(out)};
    float *index = take((out + 3) / 4), *y = take(out);
    r.index = (uint8_t *)index;
    r.max_dx = begin_with(before, in);
    r.avg_dx = begin_with(before, in);
    k->max_pool(r.y, r.index, x, s, par);
    k->max_pool(y, NULL, x, s, par);
    CU_ASSERT(same_bits(y, r.y, out));
    k->max_pool_dx(r.max_dx, dy, r.index, s, before != NULL, par);
    k->avg_pool(r.avg, x, s, par);
    k->avg_pool_dx(r.avg_dx, dy, s, before != NULL, par);
    return r;
}

static void check_pools(int isa, const sw_conv *s, const results *r)
{
    int64_t wrong = 0;
    for (int64_t o = 0; o < s->batch * out_size(s); o++) {
        const int64_t b = o / out_size(s), i = o % out_size(s);
        const int64_t at = held_at(s, b, i, out_size(s));
        wrong += memcmp(&r->y[at], &want_max[o], sizeof *r->y) != 0;
        wrong += won_at(s, r->index, b, i) != want_won[o];
        wrong += isfinite(want_avg[o]) && !(fabs((double)r->avg[at] - want_avg[o]) < 1e-6);
    }
    for (int64_t i = 0; i < s->batch * in_size(s); i++) {
        const int64_t at = held_at(s, i / in_size(s), i % in_size(s), in_size(s));
        wrong += !(fabs((double)r->max_dx[at] - want_max_dx[i]) < 2e-6);
        wrong += !(fabs((double)r->avg_dx[at] - want_avg_dx[i]) < 2e-6);
    }
    SW_CHECK(wrong == 0, "isa %d plain %d: %s: %ld wrong", isa, s->plain, conv_text(s),
             (long)wrong);
}

/* In both layouts, with the same bits. x holds few different numbers, so that windows have
 * equals, and a NaN here and there. */
static void pool_case(sw_conv s)
{
    const size_t n_in = (size_t)(s.batch * in_size(&s));
    for (int adding = 0; adding < 2; adding++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
            float *x = numbers(n_in, 21);
            for (size_t i = 0; i < n_in; i++)
                x[i] = i % 97 == 5 ? NAN : floorf(x[i] * 4.0f);
            for (int64_t i = 0; i < s.in_h * s.in_w; i++)
                x[i] = -INFINITY; /* even this wins over places outside */
            const float *dy = numbers((size_t)(s.batch * out_size(&s)), 22);
            const float *before = adding != 0 ? numbers(n_in, 23) : NULL;
            if (isa == 0)
                expect(&s, x, dy, before);
            results of[2];
            for (int plain = 0; plain < 2; plain++) {
                s.plain = plain != 0;
                const size_t in = held(&s, in_size(&s)), out = held(&s, out_size(&s));
                const size_t bytes = (size_t)(sw_pool_index_bytes(&s) * s.in_c *
                                              (plain ? s.batch : (s.batch + 15) / 16));
                const results r = run_all(isa, &s, x, dy, before, &one_thread);
                const results q = run_all(isa, &s, x, dy, before, &reversed);
                CU_ASSERT(same_bits(r.y, q.y, out) && same_bits(r.avg, q.avg, out));
                CU_ASSERT(same_bits(r.max_dx, q.max_dx, in));
                CU_ASSERT(same_bits(r.avg_dx, q.avg_dx, in));
                CU_ASSERT_EQUAL(memcmp(r.index, q.index, bytes), 0);
                check_pools(isa, &s, &r);
                of[plain] = r;
            }
            CU_ASSERT(same_images(of[1].y, of[0].y, s.batch, out_size(&s)));
            CU_ASSERT(same_images(of[1].avg, of[0].avg, s.batch, out_size(&s)));
            CU_ASSERT(same_images(of[1].max_dx, of[0].max_dx, s.batch, in_size(&s)));
            CU_ASSERT(same_images(of[1].avg_dx, of[0].avg_dx, s.batch, in_size(&s)));
            give_all();
        }
}

SW_TEST("pools and their gradients are right")
{
    pool_case(pool_of(33, 3, 8, 6, 2, 2, 2, 0));
    pool_case(pool_of(7, 2, 9, 7, 2, 2, 2, 0));  /* a row and a column that no window covers */
    pool_case(pool_of(16, 2, 9, 8, 3, 3, 2, 1)); /* overlapping */
    pool_case(pool_of(1, 2, 7, 7, 3, 3, 1, 1));
    pool_case(pool_of(5, 2, 6, 7, 2, 2, 2, 1));
    pool_case(pool_of(17, 2, 6, 7, 2, 2, 2, 1));
    pool_case(pool_of(5, 1, 9, 9, 2, 2, 3, 0));  /* gaps */
    pool_case(pool_of(18, 4, 7, 5, 7, 5, 1, 0)); /* global */
    pool_case(pool_of(3, 4, 7, 5, 7, 5, 1, 0));
    pool_case(pool_of(2, 2, 15, 17, 15, 17, 1, 0)); /* 255 places */
    pool_case(pool_of(40, 6, 24, 24, 2, 2, 2, 0));  /* enough work for threads */
    pool_case(pool_of(8, 6, 24, 66, 2, 2, 2, 0));
}

SW_TEST("pools of any width are right")
{
    for (int64_t w = 2; w <= 40; w += w < 9 ? 1 : 3) {
        pool_case(pool_of(3, 2, 6, w, 2, 2, 2, 0));
        pool_case(pool_of(1, 2, 5, w + 1, 3, 3, 2, 1)); /* overlapping */
        pool_case(pool_of(2, 1, 5, w + 1, 3, 3, 1, 1));
    }
}

/* ---- layouts ----------------------------------------------------------------------------- */

static void layout_case(int isa, int64_t batch, int64_t inner, bool adding, const sw_par *par)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t blocked = n16_floats(batch, inner), plain = (size_t)(batch * inner);
    const float *x = numbers(plain, 31);
    float *y =
        adding ? numbers(blocked, 32) : take(blocked); /* anything in lanes past the batch */
    const float *old_y = copy_of(y, blocked);
    k->to_n16(y, x, batch, inner, adding, par);
    int64_t wrong = 0;
    for (int64_t b = 0; b < (batch + 15) / 16 * 16; b++)
        for (int64_t i = 0; i < inner; i++) {
            const int64_t at = n16(b, i, inner);
            const float old = adding ? old_y[at] : 0.0f;
            wrong += y[at] != (b < batch ? old + x[b * inner + i] : 0.0f);
        }
    float *z = adding ? numbers(plain, 33) : take(plain);
    const float *old_z = copy_of(z, plain);
    k->from_n16(z, y, batch, inner, adding, par);
    for (int64_t i = 0; i < (int64_t)plain; i++) {
        const float v = y[n16(i / inner, i % inner, inner)];
        wrong += z[i] != (adding ? old_z[i] + v : v);
    }
    SW_CHECK(wrong == 0, "isa %d batch %ld inner %ld adding %d: %ld wrong", isa, (long)batch,
             (long)inner, adding, (long)wrong);
    give_all();
}

SW_TEST("layouts move every number exactly")
{
    static const int64_t batches[] = {1, 7, 16, 33, 130}, inners[] = {1, 15, 16, 50, 784};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
            for (size_t i = 0; i < sizeof inners / sizeof *inners; i++)
                for (int mode = 0; mode < 4; mode++)
                    layout_case(isa, batches[b], inners[i], (mode & 1) != 0,
                                (mode & 2) != 0 ? &reversed : &one_thread);
}
