/* Pooling and layouts against plain loops, on every instruction set of this machine. */
#include "tests/kernels/dense_support.h"

SW_TESTS("pool")

static sw_conv pool_of(int64_t batch, int64_t c, int64_t h, int64_t w, int64_t kh, int64_t kw,
                       int64_t stride, int64_t pad)
{
    sw_conv s = {.batch = batch, .in_c = c, .in_h = h, .in_w = w, .out_c = c};
    s.kernel_h = kh, s.kernel_w = kw, s.stride = stride, s.pad = pad;
    s.out_h = (h + 2 * pad - kh) / stride + 1;
    s.out_w = (w + 2 * pad - kw) / stride + 1;
    return s;
}

/* The input element of a place of a window, or -1 outside the image. */
static int64_t position(const sw_conv *s, int64_t c, int64_t oy, int64_t ox, int64_t k)
{
    const int64_t y = oy * s->stride - s->pad + k / s->kernel_w;
    const int64_t x = ox * s->stride - s->pad + k % s->kernel_w;
    return y < 0 || x < 0 || y >= s->in_h || x >= s->in_w ? -1
                                                          : (c * s->in_h + y) * s->in_w + x;
}

/* The expected values of every pooling of one image. */
enum { MOST = 4096 };
typedef struct {
    double max[MOST], avg[MOST], max_dx[MOST], avg_dx[MOST];
    int won[MOST];
} expected;

static void one_output(expected *e, const sw_conv *s, const float *x, const float *dy,
                       int64_t b, int64_t c, int64_t oy, int64_t ox)
{
    const int64_t in = s->in_c * s->in_h * s->in_w, out = s->out_c * s->out_h * s->out_w;
    const int64_t o = (c * s->out_h + oy) * s->out_w + ox, n = s->kernel_h * s->kernel_w;
    const double d = (double)dy[n16(b, o, out)];
    int won = -1;
    e->avg[o] = 0.0;
    for (int k = 0; k < (int)n; k++) {
        const int64_t i = position(s, c, oy, ox, k);
        if (i < 0)
            continue;
        const double v = (double)x[n16(b, i, in)];
        e->avg[o] += v / (double)n;
        e->avg_dx[i] += d / (double)n;
        if (won < 0 || v > e->max[o] || isnan(v)) {
            won = k;
            e->max[o] = v;
        }
    }
    e->won[o] = won;
    e->max_dx[position(s, c, oy, ox, won)] += d;
}

static void expect(expected *e, const sw_conv *s, const float *x, const float *dy, int64_t b)
{
    memset(e, 0, sizeof *e);
    for (int64_t c = 0; c < s->in_c; c++)
        for (int64_t oy = 0; oy < s->out_h; oy++)
            for (int64_t ox = 0; ox < s->out_w; ox++)
                one_output(e, s, x, dy, b, c, oy, ox);
}

typedef struct {
    float *y, *max_dx, *avg, *avg_dx;
    uint8_t *index;
} results;

static results run_all(int isa, const sw_conv *s, const float *x, const float *dy,
                       const float *before, const sw_par *par)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t in = n16_floats(s->batch, s->in_c * s->in_h * s->in_w);
    const size_t out = n16_floats(s->batch, s->out_c * s->out_h * s->out_w);
    results r = {.y = take(out), .avg = take(out)};
    float *index = take(out / 4), *y = take(out);
    r.index = (uint8_t *)index;
    r.max_dx = before != NULL ? copy_of(before, in) : take(in);
    r.avg_dx = before != NULL ? copy_of(before, in) : take(in);
    k->max_pool(r.y, r.index, x, s, par);
    k->max_pool(y, NULL, x, s, par);
    CU_ASSERT_EQUAL(memcmp(y, r.y, out * sizeof *y), 0);
    k->max_pool_dx(r.max_dx, dy, r.index, s, before != NULL, par);
    k->avg_pool(r.avg, x, s, par);
    k->avg_pool_dx(r.avg_dx, dy, s, before != NULL, par);
    return r;
}

static int64_t wrong_in_image(const expected *e, const sw_conv *s, const results *r,
                              const float *before, int64_t b)
{
    const int64_t in = s->in_c * s->in_h * s->in_w, out = s->out_c * s->out_h * s->out_w;
    int64_t wrong = 0;
    for (int64_t i = 0; i < out; i++) {
        const int64_t at = n16(b, i, out);
        wrong += (double)r->y[at] != e->max[i] && !(isnan(r->y[at]) && isnan(e->max[i]));
        wrong += won_at(s, r->index, b, i) != e->won[i];
        wrong += !(fabs((double)r->avg[at] - e->avg[i]) < 1e-6) && isfinite(e->avg[i]);
    }
    for (int64_t i = 0; i < in; i++) {
        const int64_t at = n16(b, i, in);
        const double old = before != NULL ? (double)before[at] : 0.0;
        wrong += !(fabs((double)r->max_dx[at] - old - e->max_dx[i]) < 2e-6);
        wrong += !(fabs((double)r->avg_dx[at] - old - e->avg_dx[i]) < 2e-6);
    }
    return wrong;
}

/* x holds few different numbers, so that windows have equals, and a NaN here and there. */
static void pool_case(sw_conv s)
{
    static expected e;
    const int64_t in = s.in_c * s.in_h * s.in_w, out = s.out_c * s.out_h * s.out_w;
    CU_ASSERT_FATAL(in <= MOST && out <= MOST);
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (int adding = 0; adding < 2; adding++) {
            const size_t n_in = n16_floats(s.batch, in), n_out = n16_floats(s.batch, out);
            float *x = images(s.batch, in, 21);
            for (size_t i = 0; i < n_in; i++)
                x[i] = i % 97 == 5 ? NAN : floorf(x[i] * 4.0f);
            for (int64_t i = 0; i < s.in_h * s.in_w; i++)
                x[n16(0, i, in)] = -INFINITY; /* even this wins over places outside */
            const float *dy = images(s.batch, out, 22);
            const float *before = adding != 0 ? images(s.batch, in, 23) : NULL;
            const results r = run_all(isa, &s, x, dy, before, &one_thread);
            const results q = run_all(isa, &s, x, dy, before, &reversed);
            CU_ASSERT_EQUAL(memcmp(r.y, q.y, n_out * sizeof *r.y), 0);
            CU_ASSERT_EQUAL(memcmp(r.index, q.index, n_out), 0);
            CU_ASSERT_EQUAL(memcmp(r.avg, q.avg, n_out * sizeof *r.y), 0);
            CU_ASSERT_EQUAL(memcmp(r.max_dx, q.max_dx, n_in * sizeof *r.y), 0);
            CU_ASSERT_EQUAL(memcmp(r.avg_dx, q.avg_dx, n_in * sizeof *r.y), 0);
            int64_t wrong = 0;
            for (int64_t b = 0; b < s.batch; b++) {
                expect(&e, &s, x, dy, b);
                wrong += wrong_in_image(&e, &s, &r, before, b);
            }
            SW_CHECK(wrong == 0,
                     "isa %d batch %ld %ldx%ldx%ld window %ldx%ld/%ld+%ld: %ld wrong", isa,
                     (long)s.batch, (long)s.in_c, (long)s.in_h, (long)s.in_w, (long)s.kernel_h,
                     (long)s.kernel_w, (long)s.stride, (long)s.pad, (long)wrong);
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
    pool_case(pool_of(5, 1, 9, 9, 2, 2, 3, 0));     /* gaps */
    pool_case(pool_of(18, 4, 7, 5, 7, 5, 1, 0));    /* global */
    pool_case(pool_of(2, 2, 15, 17, 15, 17, 1, 0)); /* 255 places */
    pool_case(pool_of(40, 6, 24, 24, 2, 2, 2, 0));  /* enough work for threads */
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
