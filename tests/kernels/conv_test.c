/* Convolutions and their gradients against plain loops in double precision, in blocks of
 * sixteen images and plain, on every instruction set of this machine; the same bits for other
 * threads and other scratch contents, and, where sums have one order in both, in both layouts.
 */
#include "tests/kernels/dense_support.h"

SW_TESTS("convolutions")

enum { MOST = 160000 };
typedef struct {
    double sum[MOST], scale[MOST];
} sums;
static sums want_y, want_dx, want_dw, want_db;

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

/* Plain images. */
typedef struct {
    const float *x, *w, *bias, *dy; /* bias NULL: none */
    const float *dx, *dw, *db;      /* what is added to; dx, dw NULL: nothing */
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
    start(&want_db, NULL, s->out_c);
    for (int64_t bo = 0; bo < s->batch * s->out_c; bo++)
        for (int64_t oy = 0; oy < s->out_h; oy++) {
            const int64_t b = bo / s->out_c, o = bo % s->out_c;
            const int64_t y_row = (bo * s->out_h + oy) * s->out_w;
            for (int64_t ox = 0; ox < s->out_w; ox++) {
                add(&want_y, y_row + ox, in->bias != NULL ? (double)in->bias[o] : 0.0);
                add(&want_db, o, (double)in->dy[y_row + ox]);
            }
            for (int64_t c = o / out * in_c; c < (o / out + 1) * in_c; c++)
                for (int64_t ky = 0; ky < s->kernel_h; ky++) {
                    const int64_t iy = oy * s->stride + ky * s->dilation - s->pad;
                    if (iy >= 0 && iy < s->in_h)
                        one_row(s, in, y_row, ((b * s->in_c + c) * s->in_h + iy) * s->in_w,
                                ((o * in_c + c % in_c) * s->kernel_h + ky) * s->kernel_w);
                }
        }
}

static void check(const char *what, int isa, const sw_conv *s, int64_t wrong)
{
    SW_CHECK(wrong == 0, "%s isa %d plain %d: %s: %ld wrong", what, isa, s->plain, conv_text(s),
             (long)wrong);
}

static int64_t wrong_images(const sw_conv *s, const sums *want, const float *got, int64_t inner,
                            int64_t terms)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < s->batch * inner; i++)
        wrong += !near_sum(got[held_at(s, i / inner, i % inner, inner)], want->sum[i],
                           want->scale[i], terms);
    return wrong;
}

static float *scratch_of(size_t bytes, int fill)
{
    float *p = take((bytes + 3) / 4);
    memset(p, fill, bytes);
    return p;
}

typedef struct {
    float *y, *dx;
} outputs;

static outputs forward_and_dx(int isa, const sw_conv *s, const inputs *in)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t n_y = held(s, out_size(s)), n_x = held(s, in_size(s)),
                 bytes = k->conv_dx_bytes(s);
    const float *x = laid_out(s, in->x, in_size(s)), *dy = laid_out(s, in->dy, out_size(s));
    const float *before = laid_out(s, in->dx, in_size(s));
    float *y = take(n_y), *y2 = take(n_y), *s1 = scratch_of(bytes, 0xff),
          *s2 = scratch_of(bytes, 0x5a);
    float *dx = begin_with(before, n_x), *dx2 = begin_with(before, n_x), *fresh = take(n_x);
    k->conv(y, x, in->w, in->bias, s, false, scratch_of(k->conv_bytes(s), 0xff), &one_thread);
    k->conv(y2, x, in->w, in->bias, s, false, scratch_of(k->conv_bytes(s), 0x5a), &reversed);
    check("y on threads", isa, s, !same_bits(y, y2, n_y));
    k->conv_dx(fresh, dy, in->w, NULL, s, false, s1, &one_thread);
    k->conv_dx(dx, dy, in->w, NULL, s, before != NULL, s2, &one_thread);
    k->conv_dx(dx2, dy, in->w, NULL, s, before != NULL, scratch_of(k->conv_dx_bytes(s), 0x5a),
               &reversed);
    check("scratch is written whole", isa, s, memcmp(s1, s2, bytes) != 0);
    check("dx on threads", isa, s, !same_bits(dx, dx2, n_x));
    check("y", isa, s,
          wrong_images(s, &want_y, y, out_size(s), conv_weights(s) / s->out_c + 1));
    check("dx", isa, s,
          wrong_images(s, &want_dx, dx, in_size(s), conv_weights(s) / s->in_c + 1));
    return (outputs){y, dx};
}

/* dw; db is added to, overwritten, or left alone. */
static float *weight_gradient(int isa, const sw_conv *s, const inputs *in, bool add_db,
                              bool with_db)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t n = (size_t)conv_weights(s), n_db = (size_t)s->out_c,
                 bytes = k->conv_dw_bytes(s);
    const float *x = laid_out(s, in->x, in_size(s)), *dy = laid_out(s, in->dy, out_size(s));
    float *dw = begin_with(in->dw, n), *dw2 = begin_with(in->dw, n);
    float *db = copy_of(in->db, n_db), *db2 = copy_of(in->db, n_db);
    float *s1 = scratch_of(bytes, 0xff), *s2 = scratch_of(bytes, 0x5a);
    const int64_t plane = s->out_h * s->out_w;
    CU_ASSERT(!s->plain || bytes == 0);
    k->conv_dw(dw, with_db ? db : NULL, x, dy, s, in->dw != NULL, add_db, s1, &one_thread);
    k->conv_dw(dw2, with_db ? db2 : NULL, x, dy, s, in->dw != NULL, add_db, s2, &reversed);
    check("dw on threads", isa, s, !same_bits(dw, dw2, n) || !same_bits(db, db2, n_db));
    check("scratch is written whole", isa, s, memcmp(s1, s2, bytes) != 0);
    int64_t wrong = with_db ? 0 : !same_bits(db, in->db, n_db);
    for (int64_t i = 0; i < conv_weights(s); i++)
        wrong += !near_sum(dw[i], want_dw.sum[i], want_dw.scale[i], s->batch * plane);
    for (int64_t o = 0; with_db && o < s->out_c; o++) {
        const double old = add_db ? (double)in->db[o] : 0.0;
        wrong += !near_sum(db[o], want_db.sum[o] + old, want_db.scale[o] + fabs(old),
                           s->batch * plane);
    }
    check("dw, db", isa, s, wrong);
    return dw;
}

/* In both layouts; with a bias, and where gradients are added. */
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
            in.db = numbers(n_b, 17);
            if (isa == 0)
                expect(&s, &in);
            outputs of[2];
            for (int plain = 0; plain < 2; plain++) {
                s.plain = plain != 0;
                of[plain] = forward_and_dx(isa, &s, &in);
                const float *dw = weight_gradient(isa, &s, &in, false, true);
                for (int add_db = 0; add_db < 2; add_db++)
                    check(
                        "dw by what db is", isa, &s,
                        !same_bits(dw, weight_gradient(isa, &s, &in, true, add_db != 0), n_w));
            }
            check("y is not that of blocks", isa, &s,
                  !same_images(of[1].y, of[0].y, s.batch, out_size(&s)));
            check("dx is not that of blocks", isa, &s,
                  !same_images(of[1].dx, of[0].dx, s.batch, in_size(&s)));
            give_all();
        }
}

SW_TEST("convolutions and their gradients are right")
{
    static const int64_t batches[] = {1, 3, 7, 16, 17, 33};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const int64_t b = batches[i];
        conv_case(conv_of(b, 1, 8, 8, 6, 5, 5, 1, 0, 1, 1));
        conv_case(conv_of(b, 3, 7, 9, 7, 3, 3, 1, 1, 1, 1)); /* channel blocks 4 + 2 + 1 */
        conv_case(conv_of(b, 2, 9, 8, 3, 3, 3, 2, 1, 1, 1));
        conv_case(conv_of(b, 2, 5, 6, 8, 5, 2, 1, 1, 1, 1)); /* kernel not square */
        conv_case(conv_of(b, 3, 5, 7, 5, 1, 1, 1, 0, 1, 1)); /* plain planes are rows */
    }
    conv_case(conv_of(3, 2, 11, 10, 5, 1, 1, 1, 0, 1, 1));
    conv_case(conv_of(3, 2, 11, 10, 5, 1, 1, 2, 0, 1, 1));
    conv_case(conv_of(2, 2, 6, 5, 5, 1, 1, 1, 1, 1, 1));
    conv_case(conv_of(5, 1, 12, 13, 2, 7, 7, 2, 3, 1, 1)); /* taps 5 + 2 */
    conv_case(conv_of(2, 2, 4, 3, 2, 6, 6, 1, 2, 1, 1));   /* narrower than the kernel */
    conv_case(conv_of(2, 2, 5, 5, 2, 3, 3, 1, 3, 1, 1));   /* outputs that see no image */
    conv_case(conv_of(2, 2, 10, 11, 9, 4, 3, 3, 2, 1, 1)); /* places that no window reaches */
    conv_case(
        conv_of(2, 1, 4, 24, 3, 3, 21, 1, 2, 1, 1)); /* more taps in a row than are kept */
    conv_case(conv_of(1, 2, 5, 23, 2, 2, 18, 2, 3, 1, 1));
}

SW_TEST("groups and dilation are right")
{
    static const int64_t batches[] = {1, 5, 17, 33};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        each_grouped_conv(conv_case, batches[i]);
    conv_case(conv_of(2, 3, 20, 35, 3, 3, 3, 1, 1, 3, 1)); /* depthwise, whole vectors */
    conv_case(conv_of(1, 2, 19, 40, 2, 5, 5, 2, 2, 2, 1));
    conv_case(conv_of(1, 2, 17, 40, 2, 3, 3, 1, 3, 2, 3));
}

/* Rows that end anywhere in a vector, or in the second. */
SW_TEST("any width is right")
{
    for (int64_t w = 1; w <= 37; w += w < 18 ? 1 : 6) {
        conv_case(conv_of(2, 2, 6, w, 6, 3, 3, 1, 1, 1, 1));
        conv_case(conv_of(1, 1, 6, w + 4, 2, 5, 5, 1, 0, 1, 1));
        conv_case(conv_of(3, 1, 5, w, 5, 3, 3, 2, 1, 1, 1));
        conv_case(conv_of(1, 3, 2, w, 3, 1, 1, 1, 0, 1, 1));
    }
}

SW_TEST("large convolutions have the same bits on any threads")
{
    conv_case(conv_of(40, 6, 12, 12, 16, 5, 5, 1, 0, 1, 1));
    conv_case(conv_of(130, 1, 14, 14, 6, 5, 5, 1, 2, 1, 1));
    conv_case(conv_of(20, 8, 15, 15, 12, 3, 3, 2, 1, 1, 1));
    conv_case(conv_of(33, 24, 12, 11, 24, 5, 5, 1, 2, 24, 1)); /* depthwise */
    conv_case(conv_of(20, 30, 9, 13, 30, 3, 3, 2, 1, 30, 1));
    conv_case(conv_of(20, 40, 11, 9, 70, 1, 1, 1, 0, 1, 1)); /* products */
    conv_case(conv_of(37, 70, 5, 3, 21, 1, 1, 1, 0, 1, 1));
    conv_case(conv_of(3, 6, 12, 12, 16, 5, 5, 1, 0, 1, 1));
    conv_case(conv_of(1, 4, 33, 50, 10, 3, 3, 1, 1, 1, 1));
    conv_case(conv_of(2, 8, 15, 35, 12, 3, 3, 2, 1, 1, 1));
    conv_case(conv_of(3, 40, 11, 9, 70, 1, 1, 1, 0, 1, 1));
    conv_case(conv_of(3, 30, 19, 33, 30, 5, 5, 1, 2, 30, 1));
}

/* Sums of many images go in chunks, at most sixteen of them, the last perhaps empty. */
SW_TEST("chunks of images cover the batch")
{
    static const int64_t batches[] = {31, 48, 65, 529, 640};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        conv_case(conv_of(batches[i], 1, 4, 4, 2, 3, 3, 1, 0, 1, 1));
}

/* Weights that are not finite reach only what they meet inside the image. */
SW_TEST("places outside the image are left out")
{
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        const sw_dense_kernels *k = sw_dense((sw_isa)isa);
        sw_conv s = conv_of(1, 1, 6, 6, 1, 3, 3, 1, 1, 1, 1);
        s.plain = true;
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
