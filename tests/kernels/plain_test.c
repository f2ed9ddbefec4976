/* Convolution and pooling of plain images: against plain loops in double precision, with the
 * same bits for other threads, and, where sums have one order in both, the bits of the blocks.
 */
#include "tests/kernels/dense_support.h"

SW_TESTS("plain")

static sw_conv shape_of(int64_t batch, int64_t in_c, int64_t h, int64_t w, int64_t out_c,
                        int64_t kh, int64_t kw, int64_t stride, int64_t pad)
{
    sw_conv s = conv_of(batch, in_c, h, w, out_c, kh, kw, stride, pad, 1, 1);
    s.plain = true;
    return s;
}

static int64_t in_size(const sw_conv *s)
{
    return s->in_c * s->in_h * s->in_w;
}

static int64_t out_size(const sw_conv *s)
{
    return s->out_c * s->out_h * s->out_w;
}

static void say(const char *what, int isa, const sw_conv *s, int64_t wrong)
{
    SW_CHECK(wrong == 0, "%s isa %d: %s: %ld wrong", what, isa, conv_text(s), (long)wrong);
}

/* `plain` holds, bit for bit, what `blocks` holds in its lanes of images. */
static bool same_images(const float *plain, const float *blocks, int64_t batch, int64_t inner)
{
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < inner; i++)
            if (memcmp(plain + b * inner + i, blocks + n16(b, i, inner), sizeof *plain) != 0)
                return false;
    return true;
}

static float *blocks_of(const float *plain, int64_t batch, int64_t inner)
{
    const size_t n = n16_floats(batch, inner);
    float *p = take(n);
    memset(p, 0, n * sizeof *p);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < inner; i++)
            p[n16(b, i, inner)] = plain[b * inner + i];
    return p;
}

/* ---- convolution ------------------------------------------------------------------------- */

enum { MOST = 1 << 17 };
typedef struct {
    double sum[MOST], scale[MOST];
} sums;
static sums want_y, want_dx, want_dw;

static void start(sums *s, const float *from, int64_t n)
{
    CU_ASSERT_FATAL(n <= MOST);
    for (int64_t i = 0; i < n; i++) {
        s->sum[i] = from != NULL ? (double)from[i] : 0.0;
        s->scale[i] = fabs(s->sum[i]);
    }
}

static void add(sums *s, int64_t i, double t)
{
    s->sum[i] += t;
    s->scale[i] += fabs(t);
}

static int64_t count_wrong(const sums *s, const float *got, int64_t n, int64_t terms)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++)
        wrong += !near_sum(got[i], s->sum[i], s->scale[i], terms);
    return wrong;
}

typedef struct {
    const float *x, *w, *bias, *dy; /* bias NULL: none */
    const float *dx, *dw, *db;      /* what is added to; NULL: nothing */
} inputs;

/* All products of one kernel row. */
static void one_row(const sw_conv *s, const inputs *in, int64_t y_row, int64_t x_row, int64_t w)
{
    for (int64_t ox = 0; ox < s->out_w; ox++)
        for (int64_t kx = 0; kx < s->kernel_w; kx++) {
            const int64_t ix = ox * s->stride + kx * s->dilation - s->pad;
            if (ix < 0 || ix >= s->in_w)
                continue;
            const double x = (double)in->x[x_row + ix], d = (double)in->dy[y_row + ox];
            add(&want_y, y_row + ox, x * (double)in->w[w + kx]);
            add(&want_dx, x_row + ix, d * (double)in->w[w + kx]);
            add(&want_dw, w + kx, d * x);
        }
}

static void expect(const sw_conv *s, const inputs *in)
{
    const int64_t in_c = s->in_c / s->groups, out = s->out_c / s->groups;
    start(&want_y, NULL, s->batch * out_size(s));
    start(&want_dx, in->dx, s->batch * in_size(s));
    start(&want_dw, in->dw, conv_weights(s));
    for (int64_t bo = 0; bo < s->batch * s->out_c; bo++)
        for (int64_t oy = 0; oy < s->out_h; oy++) {
            const int64_t b = bo / s->out_c, o = bo % s->out_c;
            const int64_t y_row = (bo * s->out_h + oy) * s->out_w;
            for (int64_t ox = 0; in->bias != NULL && ox < s->out_w; ox++)
                add(&want_y, y_row + ox, (double)in->bias[o]);
            for (int64_t c = o / out * in_c; c < (o / out + 1) * in_c; c++)
                for (int64_t ky = 0; ky < s->kernel_h; ky++) {
                    const int64_t iy = oy * s->stride + ky * s->dilation - s->pad;
                    if (iy >= 0 && iy < s->in_h)
                        one_row(s, in, y_row, ((b * s->in_c + c) * s->in_h + iy) * s->in_w,
                                ((o * in_c + c % in_c) * s->kernel_h + ky) * s->kernel_w);
                }
        }
}

static int64_t wrong_bias_gradients(const sw_conv *s, const inputs *in, const float *db)
{
    const int64_t plane = s->out_h * s->out_w;
    int64_t wrong = 0;
    for (int64_t o = 0; o < s->out_c; o++) {
        double sum = in->db != NULL ? (double)in->db[o] : 0.0, scale = fabs(sum);
        for (int64_t b = 0; b < s->batch; b++)
            for (int64_t i = 0; i < plane; i++) {
                const double t = (double)in->dy[(b * s->out_c + o) * plane + i];
                sum += t;
                scale += fabs(t);
            }
        wrong += !near_sum(db[o], sum, scale, s->batch * plane);
    }
    return wrong;
}

typedef struct {
    float *y, *dx, *dw, *db;
} outputs;

static float *begin_with(const float *before, size_t n)
{
    return before != NULL ? copy_of(before, n) : take(n);
}

static outputs run_conv(int isa, const sw_conv *s, const inputs *in, const sw_par *par)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t n_in = (size_t)(s->batch * in_size(s)), n_w = (size_t)conv_weights(s);
    const outputs out = {.y = take((size_t)(s->batch * out_size(s))),
                         .dx = begin_with(in->dx, n_in),
                         .dw = begin_with(in->dw, n_w),
                         .db = begin_with(in->db, (size_t)s->out_c)};
    float *scratch = take((k->conv_bytes(s, par->n_threads) + 3) / 4);
    float *dx_scratch = take((k->conv_dx_bytes(s, par->n_threads) + 3) / 4);
    CU_ASSERT_EQUAL(k->conv_dw_bytes(s), 0);
    k->conv(out.y, in->x, in->w, in->bias, s, false, scratch, par);
    k->conv_dx(out.dx, in->dy, in->w, NULL, s, in->dx != NULL, dx_scratch, par);
    k->conv_dw(out.dw, out.db, in->x, in->dy, s, in->dw != NULL, in->db != NULL, NULL, par);
    float *dw = begin_with(in->dw, n_w);
    k->conv_dw(dw, NULL, in->x, in->dy, s, in->dw != NULL, false, NULL, par);
    CU_ASSERT_EQUAL(memcmp(dw, out.dw, n_w * sizeof *dw), 0);
    return out;
}

static void compare_with_blocks(int isa, const sw_conv *s, const inputs *in, const outputs *out)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    sw_conv n = *s;
    n.plain = false;
    float *y = take(n16_floats(s->batch, out_size(s)));
    float *dx = in->dx != NULL ? blocks_of(in->dx, s->batch, in_size(s))
                               : take(n16_floats(s->batch, in_size(s)));
    float *scratch = take((k->conv_dx_bytes(&n, 1) + 3) / 4);
    k->conv(y, blocks_of(in->x, s->batch, in_size(s)), in->w, in->bias, &n, false,
            take((k->conv_bytes(&n, 1) + 3) / 4), &one_thread);
    k->conv_dx(dx, blocks_of(in->dy, s->batch, out_size(s)), in->w, NULL, &n, in->dx != NULL,
               scratch, &one_thread);
    say("y is not that of blocks", isa, s, !same_images(out->y, y, s->batch, out_size(s)));
    say("dx is not that of blocks", isa, s, !same_images(out->dx, dx, s->batch, in_size(s)));
}

static void conv_case(sw_conv s)
{
    const size_t n_in = (size_t)(s.batch * in_size(&s)),
                 n_out = (size_t)(s.batch * out_size(&s));
    const size_t n_w = (size_t)conv_weights(&s), n_b = (size_t)s.out_c;
    for (int adding = 0; adding < 2; adding++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
            inputs in = {.x = numbers(n_in, 11), .dy = numbers(n_out, 12)};
            in.w = numbers(n_w, 13);
            in.bias = adding == 0 ? numbers(n_b, 14) : NULL;
            in.dx = adding != 0 ? numbers(n_in, 15) : NULL;
            in.dw = adding != 0 ? numbers(n_w, 16) : NULL;
            in.db = adding != 0 ? numbers(n_b, 17) : NULL;
            if (isa == 0)
                expect(&s, &in);
            const outputs a = run_conv(isa, &s, &in, &one_thread);
            const outputs b = run_conv(isa, &s, &in, &reversed);
            CU_ASSERT_EQUAL(memcmp(a.y, b.y, n_out * sizeof *a.y), 0);
            CU_ASSERT_EQUAL(memcmp(a.dx, b.dx, n_in * sizeof *a.dx), 0);
            CU_ASSERT_EQUAL(memcmp(a.dw, b.dw, n_w * sizeof *a.dw), 0);
            CU_ASSERT_EQUAL(memcmp(a.db, b.db, n_b * sizeof *a.db), 0);
            say("y", isa, &s,
                count_wrong(&want_y, a.y, (int64_t)n_out, conv_weights(&s) / s.out_c + 1));
            say("dx", isa, &s,
                count_wrong(&want_dx, a.dx, (int64_t)n_in, conv_weights(&s) / s.in_c + 1));
            say("dw", isa, &s,
                count_wrong(&want_dw, a.dw, (int64_t)n_w, s.batch * s.out_h * s.out_w + 1));
            say("db", isa, &s, wrong_bias_gradients(&s, &in, a.db));
            compare_with_blocks(isa, &s, &in, &a);
            give_all();
        }
}

SW_TEST("plain convolutions and their gradients are right")
{
    static const int64_t batches[] = {1, 3, 7, 17};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const int64_t b = batches[i];
        conv_case(shape_of(b, 1, 8, 8, 6, 5, 5, 1, 0));
        conv_case(shape_of(b, 3, 7, 9, 7, 3, 3, 1, 1)); /* channel blocks 4 + 2 + 1 */
        conv_case(shape_of(b, 2, 9, 8, 3, 3, 3, 2, 1));
        conv_case(shape_of(b, 2, 5, 6, 8, 5, 2, 1, 1)); /* kernel not square */
        conv_case(shape_of(b, 3, 5, 7, 5, 1, 1, 1, 0)); /* planes are rows */
    }
    conv_case(shape_of(3, 2, 11, 10, 5, 1, 1, 2, 0));
    conv_case(shape_of(2, 2, 6, 5, 5, 1, 1, 1, 1));
    conv_case(shape_of(5, 1, 12, 13, 2, 7, 7, 2, 3)); /* taps 5 + 2 */
    conv_case(shape_of(2, 2, 4, 3, 2, 6, 6, 1, 2)); /* never inside: narrower than the kernel */
    conv_case(shape_of(2, 2, 5, 5, 2, 3, 3, 1, 3)); /* outputs that see no image */
    conv_case(shape_of(2, 2, 10, 11, 9, 4, 3, 3, 2)); /* places that no window reaches */
    conv_case(shape_of(2, 1, 4, 24, 3, 3, 21, 1, 2)); /* more taps in a row than are kept */
    conv_case(shape_of(1, 2, 5, 23, 2, 2, 18, 2, 3));
}

static void plain_case(sw_conv s)
{
    s.plain = true;
    conv_case(s);
}

SW_TEST("groups and dilation of plain images are right")
{
    each_grouped_conv(plain_case, 1);
    each_grouped_conv(plain_case, 5);
    plain_case(conv_of(2, 3, 20, 35, 3, 3, 3, 1, 1, 3, 1)); /* depthwise, whole vectors */
    plain_case(conv_of(1, 2, 19, 40, 2, 5, 5, 2, 2, 2, 1));
    plain_case(conv_of(1, 2, 17, 40, 2, 3, 3, 1, 3, 2, 3));
}

/* Rows that end anywhere in a vector, or in the second. */
SW_TEST("any width is right")
{
    for (int64_t w = 1; w <= 37; w += w < 18 ? 1 : 6) {
        conv_case(shape_of(2, 2, 6, w, 6, 3, 3, 1, 1));
        conv_case(shape_of(1, 1, 6, w + 4, 2, 5, 5, 1, 0));
        conv_case(shape_of(3, 1, 5, w, 5, 3, 3, 2, 1));
        conv_case(shape_of(1, 3, 2, w, 3, 1, 1, 1, 0));
    }
}

SW_TEST("large plain convolutions have the same bits on any threads")
{
    conv_case(shape_of(3, 6, 12, 12, 16, 5, 5, 1, 0));
    conv_case(shape_of(1, 4, 33, 50, 10, 3, 3, 1, 1));
    conv_case(shape_of(2, 8, 15, 35, 12, 3, 3, 2, 1));
    conv_case(shape_of(3, 40, 11, 9, 70, 1, 1, 1, 0)); /* products */
    plain_case(conv_of(3, 30, 19, 33, 30, 5, 5, 1, 2, 30, 1));
}

/* Weights that are not finite reach only what they meet inside the image. */
SW_TEST("places outside the image are left out")
{
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        const sw_dense_kernels *k = sw_dense((sw_isa)isa);
        const sw_conv s = shape_of(1, 1, 6, 6, 1, 3, 3, 1, 1);
        float *x = numbers(36, 1), *w = numbers(9, 2), *y = take(36);
        w[0] = INFINITY; /* the tap to the upper left */
        k->conv(y, x, w, NULL, &s, false, NULL, &one_thread);
        for (int i = 0; i < 36; i++)
            CU_ASSERT_EQUAL(isfinite(y[i]) != 0, i < 6 || i % 6 == 0);
        k->conv_dx(y, x, w, NULL, &s, false, NULL, &one_thread);
        for (int i = 0; i < 36; i++)
            CU_ASSERT_EQUAL(isfinite(y[i]) != 0, i >= 30 || i % 6 == 5);
        give_all();
    }
}

/* ---- pooling ----------------------------------------------------------------------------- */

typedef struct {
    float *y, *avg, *max_dx, *avg_dx;
    uint8_t *index;
} pools;

/* `blocks` says how many images memory holds: those of the layout. */
static pools run_pools(int isa, const sw_conv *s, int64_t images_held, const float *x,
                       const float *dy, const float *before, const sw_par *par)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t in = (size_t)(images_held * in_size(s)),
                 out = (size_t)(images_held * out_size(s));
    pools r = {.y = take(out), .avg = take(out)};
    r.max_dx = begin_with(before, in), r.avg_dx = begin_with(before, in);
    float *index = take((out + 3) / 4), *y = take(out);
    r.index = (uint8_t *)index;
    k->max_pool(r.y, r.index, x, s, par);
    k->max_pool(y, NULL, x, s, par);
    CU_ASSERT_EQUAL(memcmp(y, r.y, out * sizeof *y), 0);
    k->max_pool_dx(r.max_dx, dy, r.index, s, before != NULL, par);
    k->avg_pool(r.avg, x, s, par);
    k->avg_pool_dx(r.avg_dx, dy, s, before != NULL, par);
    return r;
}

/* The place that wins a window by the contract, and the mean. */
static int winner(const sw_conv *s, const float *plane, int64_t oy, int64_t ox, double *mean)
{
    int won = 255;
    float best = 0.0f;
    *mean = 0.0;
    for (int k = 0; k < (int)(s->kernel_h * s->kernel_w); k++) {
        const int64_t y = oy * s->stride - s->pad + k / s->kernel_w;
        const int64_t x = ox * s->stride - s->pad + k % s->kernel_w;
        if (y < 0 || x < 0 || y >= s->in_h || x >= s->in_w)
            continue;
        const float v = plane[y * s->in_w + x];
        *mean += (double)v / (double)(s->kernel_h * s->kernel_w);
        if (won == 255 || v > best || isnan(v)) {
            won = k;
            best = v;
        }
    }
    return won;
}

static int64_t wrong_pools(const sw_conv *s, const pools *r, const float *x)
{
    int64_t wrong = 0, i = 0;
    for (int64_t bc = 0; bc < s->batch * s->in_c; bc++)
        for (int64_t oy = 0; oy < s->out_h; oy++)
            for (int64_t ox = 0; ox < s->out_w; ox++, i++) {
                const float *plane = x + bc * s->in_h * s->in_w;
                double mean;
                const int won = winner(s, plane, oy, ox, &mean);
                wrong += won_at(s, r->index, i / out_size(s), i % out_size(s)) != won;
                const float best =
                    plane[(oy * s->stride - s->pad + won / s->kernel_w) * s->in_w +
                          ox * s->stride - s->pad + won % s->kernel_w];
                wrong += memcmp(&best, r->y + i, sizeof best) != 0;
                wrong += isfinite(mean) && !(fabs((double)r->avg[i] - mean) < 1e-6);
            }
    return wrong;
}

/* The gradients are those of blocks, which have tests of their own. */
static void compare_pools(int isa, const sw_conv *s, const float *x, const float *dy,
                          const float *before, const pools *r)
{
    sw_conv n = *s;
    n.plain = false;
    const pools q =
        run_pools(isa, &n, (s->batch + 15) / 16 * 16, blocks_of(x, s->batch, in_size(s)),
                  blocks_of(dy, s->batch, out_size(s)),
                  before != NULL ? blocks_of(before, s->batch, in_size(s)) : NULL, &one_thread);
    say("max of blocks", isa, s, !same_images(r->y, q.y, s->batch, out_size(s)));
    say("mean of blocks", isa, s, !same_images(r->avg, q.avg, s->batch, out_size(s)));
    say("max_dx of blocks", isa, s, !same_images(r->max_dx, q.max_dx, s->batch, in_size(s)));
    say("avg_dx of blocks", isa, s, !same_images(r->avg_dx, q.avg_dx, s->batch, in_size(s)));
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < out_size(s); i++)
            CU_ASSERT_EQUAL(won_at(s, r->index, b, i), won_at(&n, q.index, b, i));
}

/* x holds few different numbers, so that windows have equals, and a NaN here and there. */
static void pool_case(sw_conv s)
{
    const size_t n_in = (size_t)(s.batch * in_size(&s)),
                 n_out = (size_t)(s.batch * out_size(&s));
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (int adding = 0; adding < 2; adding++) {
            float *x = numbers(n_in, 21);
            for (size_t i = 0; i < n_in; i++)
                x[i] = i % 97 == 5 ? NAN : floorf(x[i] * 4.0f);
            for (int64_t i = 0; i < s.in_h * s.in_w; i++)
                x[i] = -INFINITY; /* even this wins over places outside */
            const float *dy = numbers(n_out, 22);
            const float *before = adding != 0 ? numbers(n_in, 23) : NULL;
            const pools r = run_pools(isa, &s, s.batch, x, dy, before, &one_thread);
            const pools q = run_pools(isa, &s, s.batch, x, dy, before, &reversed);
            CU_ASSERT_EQUAL(memcmp(r.max_dx, q.max_dx, n_in * sizeof *r.y), 0);
            CU_ASSERT_EQUAL(memcmp(r.avg_dx, q.avg_dx, n_in * sizeof *r.y), 0);
            CU_ASSERT_EQUAL(memcmp(r.y, q.y, n_out * sizeof *r.y), 0);
            CU_ASSERT_EQUAL(memcmp(r.avg, q.avg, n_out * sizeof *r.y), 0);
            say("pool", isa, &s, wrong_pools(&s, &r, x));
            compare_pools(isa, &s, x, dy, before, &r);
            give_all();
        }
}

SW_TEST("plain pools and their gradients are right")
{
    for (int64_t w = 2; w <= 40; w += w < 9 ? 1 : 3) {
        pool_case(shape_of(3, 2, 6, w, 2, 2, 2, 2, 0));
        pool_case(shape_of(1, 2, 5, w + 1, 2, 3, 3, 2, 1)); /* overlapping */
        pool_case(shape_of(2, 1, 5, w + 1, 1, 3, 3, 1, 1));
    }
    pool_case(
        shape_of(7, 2, 9, 7, 2, 2, 2, 2, 0)); /* a row and a column that no window covers */
    pool_case(shape_of(17, 2, 6, 7, 2, 2, 2, 2, 1));
    pool_case(shape_of(5, 1, 9, 9, 1, 2, 2, 3, 0));     /* gaps */
    pool_case(shape_of(3, 4, 7, 5, 4, 7, 5, 1, 0));     /* global */
    pool_case(shape_of(2, 2, 15, 17, 2, 15, 17, 1, 0)); /* 255 places */
    pool_case(shape_of(8, 6, 24, 66, 6, 2, 2, 2, 0));   /* enough work for threads */
}
