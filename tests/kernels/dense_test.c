/* Matrix products and convolutions against plain loops in double precision, on every
 * instruction set of this machine; and the same bits for other threads, other scratch contents,
 * and twice. */
#include "tests/kernels/dense_support.h"

SW_TESTS("dense")

/* ---- gemm -------------------------------------------------------------------------------- */

typedef struct {
    int64_t m, n, k;
} gemm_size;

enum { A_TURNED = 1, B_TURNED = 2, B_SPARSE = 4, WITH_BIAS = 8, ADDING = 16, GEMM_MODES = 32 };

static sw_gemm gemm_of(gemm_size z, int mode)
{
    sw_gemm g = {.m = z.m, .n = z.n, .k = z.k, .accumulate = (mode & ADDING) != 0};
    const int64_t gap = (mode & B_SPARSE) != 0 ? 3 : 1;
    g.a = numbers((size_t)(z.m * z.k), 1);
    g.a_row = (mode & A_TURNED) != 0 ? 1 : z.k;
    g.a_col = (mode & A_TURNED) != 0 ? z.m : 1;
    g.b = numbers((size_t)(z.n * z.k * gap), 2);
    g.b_row = gap * ((mode & B_TURNED) != 0 ? 1 : z.n);
    g.b_col = gap * ((mode & B_TURNED) != 0 ? z.k : 1);
    g.bias = (mode & WITH_BIAS) != 0 ? numbers((size_t)z.n, 3) : NULL;
    return g;
}

static void check_gemm(const sw_gemm *g, const float *before, int isa, int mode)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = g->bias != NULL ? (double)g->bias[j] : 0.0;
            sum += g->accumulate ? (double)before[i * g->n + j] : 0.0;
            double scale = fabs(sum) + 2.0;
            for (int64_t k = 0; k < g->k; k++) {
                const double t = (double)g->a[i * g->a_row + k * g->a_col] *
                                 (double)g->b[k * g->b_row + j * g->b_col];
                sum += t;
                scale += fabs(t);
            }
            wrong += !near_sum(g->c[i * g->n + j], sum, scale, g->k);
        }
    SW_CHECK(wrong == 0, "isa %d mode %d %ldx%ldx%ld: %ld wrong", isa, mode, (long)g->m,
             (long)g->n, (long)g->k, (long)wrong);
}

static void gemm_case(int isa, gemm_size z, int mode)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t n = (size_t)(z.m * z.n),
                 bytes = k->gemm_bytes(z.m, z.n, z.k, (mode & A_TURNED) != 0);
    const size_t scratch_floats = (bytes + 3) / 4;
    sw_gemm g = gemm_of(z, mode);
    float *before = g.accumulate ? numbers(n, 4) : take(n);
    float *c1 = copy_of(before, n), *c2 = copy_of(before, n);
    float *s1 = take(scratch_floats), *s2 = take(scratch_floats);
    memset(s2, 0x5a, bytes);
    g.c = c1;
    k->gemm(&g, s1, &one_thread);
    g.c = c2;
    k->gemm(&g, s2, &reversed);
    CU_ASSERT_EQUAL(memcmp(c1, c2, n * sizeof *c1), 0);
    CU_ASSERT_EQUAL(memcmp(s1, s2, bytes), 0); /* all of it is written */
    check_gemm(&g, before, isa, mode);
    give_all();
}

SW_TEST("products are right for all strides")
{
    static const gemm_size sizes[] = {{1, 1, 1},    {1, 10, 84},   {7, 3, 5},   {12, 16, 9},
                                      {13, 17, 0},  {16, 64, 33},  {5, 65, 40}, {33, 50, 7},
                                      {24, 10, 84}, {19, 129, 20}, {6, 36, 48}};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int mode = 0; mode < GEMM_MODES; mode++)
                gemm_case(isa, sizes[i], mode);
}

SW_TEST("large products have the same bits on any threads")
{
    static const gemm_size sizes[] = {
        {128, 120, 256}, {120, 256, 128}, {257, 10, 300}, {3, 700, 301}};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int mode = 0; mode < GEMM_MODES; mode += 3)
                gemm_case(isa, sizes[i], mode);
}

/* Each element alone gives the bits it has in the whole product: the tile it falls in does not
 * matter. */
SW_TEST("an element does not depend on its tile")
{
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        const sw_dense_kernels *k = sw_dense((sw_isa)isa);
        sw_gemm g = gemm_of((gemm_size){29, 83, 60}, WITH_BIAS);
        g.c = take(29 * 83);
        float one;
        k->gemm(&g, NULL, &one_thread);
        for (int64_t i = 0; i < 29; i += 4)
            for (int64_t j = 0; j < 83; j += 5) {
                sw_gemm e = g;
                e.m = e.n = 1, e.c = &one;
                e.a += i * g.a_row, e.b += j * g.b_col, e.bias += j;
                k->gemm(&e, NULL, &one_thread);
                CU_ASSERT_EQUAL(memcmp(&one, g.c + i * 83 + j, sizeof one), 0);
            }
        give_all();
    }
}

/* ---- convolution ------------------------------------------------------------------------- */

static int64_t in_size(const sw_conv *s)
{
    return s->in_c * s->in_h * s->in_w;
}

static int64_t out_size(const sw_conv *s)
{
    return s->out_c * s->out_h * s->out_w;
}

/* Calls visit(arg, input element, output element, weight) for every product of one image. */
typedef void visit_fn(void *arg, int64_t in, int64_t out, int64_t weight);

static void each_row(const sw_conv *s, int64_t o, int64_t c, int64_t oy, int64_t ky,
                     visit_fn *visit, void *arg)
{
    const int64_t iy = oy * s->stride + ky * s->dilation - s->pad, in = s->in_c / s->groups;
    for (int64_t ox = 0; iy >= 0 && iy < s->in_h && ox < s->out_w; ox++)
        for (int64_t kx = 0; kx < s->kernel_w; kx++) {
            const int64_t ix = ox * s->stride + kx * s->dilation - s->pad;
            if (ix >= 0 && ix < s->in_w)
                visit(arg, (c * s->in_h + iy) * s->in_w + ix,
                      (o * s->out_h + oy) * s->out_w + ox,
                      ((o * in + c % in) * s->kernel_h + ky) * s->kernel_w + kx);
        }
}

static void each_product(const sw_conv *s, visit_fn *visit, void *arg)
{
    const int64_t in = s->in_c / s->groups, out = s->out_c / s->groups;
    for (int64_t o = 0; o < s->out_c; o++)
        for (int64_t c = o / out * in; c < (o / out + 1) * in; c++)
            for (int64_t oy = 0; oy < s->out_h; oy++)
                for (int64_t ky = 0; ky < s->kernel_h; ky++)
                    each_row(s, o, c, oy, ky, visit, arg);
}

/* Sums of products and of their absolute values, once for all instruction sets and ways to add:
 * image by image of those that are checked (y, dx), and over all (dw). */
enum { OF_Y, OF_DX, OF_DW, MOST = 100000 };
static double sums[3][MOST], scales[3][MOST];

typedef struct {
    const float *x, *w, *dy;
    const sw_conv *s;
    int64_t b, at[3]; /* the present image, and where its sums begin */
    bool checked;
} products;

static void add_to(const products *p, int of, int64_t i, double t)
{
    sums[of][p->at[of] + i] += t;
    scales[of][p->at[of] + i] += fabs(t);
}

static void add_product(void *arg, int64_t in, int64_t out, int64_t weight)
{
    const products *p = arg;
    const double x = (double)p->x[n16(p->b, in, in_size(p->s))], w = (double)p->w[weight],
                 dy = (double)p->dy[n16(p->b, out, out_size(p->s))];
    add_to(p, OF_DW, weight, x * dy);
    if (p->checked) {
        add_to(p, OF_Y, out, x * w);
        add_to(p, OF_DX, in, dy * w);
    }
}

/* Images with a computed reference: the first, the last, and some between. */
static bool is_checked(const sw_conv *s, int64_t b)
{
    return s->batch <= 16 || b % 13 == 0 || b == s->batch - 1;
}

static void refer(products p)
{
    int64_t n = 0;
    for (int64_t b = 0; b < p.s->batch; b++)
        n += is_checked(p.s, b);
    const int64_t sizes[3] = {n * out_size(p.s), n * in_size(p.s), conv_weights(p.s)};
    for (int of = 0; of < 3; of++) {
        CU_ASSERT_FATAL(sizes[of] <= MOST);
        memset(sums[of], 0, (size_t)sizes[of] * sizeof *sums[of]);
        memset(scales[of], 0, (size_t)sizes[of] * sizeof *scales[of]);
    }
    for (p.b = 0; p.b < p.s->batch; p.b++) {
        p.checked = is_checked(p.s, p.b);
        each_product(p.s, add_product, &p);
        p.at[OF_Y] += p.checked ? out_size(p.s) : 0;
        p.at[OF_DX] += p.checked ? in_size(p.s) : 0;
    }
}

static void report(const char *what, int isa, const sw_conv *s, int64_t wrong)
{
    SW_CHECK(wrong == 0, "%s isa %d: %s: %ld wrong", what, isa, conv_text(s), (long)wrong);
}

static float *scratch_of(size_t bytes, int fill)
{
    float *p = take((bytes + 3) / 4);
    memset(p, fill, bytes);
    return p;
}

static void conv_forward(int isa, const sw_conv *s, products p, bool with_bias)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t n = n16_floats(s->batch, out_size(s));
    const float *bias = with_bias ? numbers((size_t)s->out_c, 5) : NULL;
    float *y = take(n), *y2 = take(n);
    k->conv(y, p.x, p.w, bias, s, false, scratch_of(k->conv_bytes(s, 1), 0xff), &one_thread);
    k->conv(y2, p.x, p.w, bias, s, false, scratch_of(k->conv_bytes(s, 3), 0x5a), &reversed);
    CU_ASSERT_EQUAL(memcmp(y, y2, n * sizeof *y), 0);
    int64_t wrong = 0, at = 0;
    for (p.b = 0; p.b < s->batch; p.b++) {
        if (!is_checked(s, p.b))
            continue;
        for (int64_t i = 0; i < out_size(s); i++, at++) {
            const double b = with_bias ? (double)bias[i / (s->out_h * s->out_w)] : 0.0;
            wrong += !near_sum(y[n16(p.b, i, out_size(s))], sums[OF_Y][at] + b,
                               scales[OF_Y][at] + fabs(b), conv_weights(s) / s->out_c + 1);
        }
    }
    report("conv", isa, s, wrong);
}

static void conv_input_gradient(int isa, const sw_conv *s, products p, bool adding)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t n = n16_floats(s->batch, in_size(s)), bytes = k->conv_dx_bytes(s, 1);
    float *before = adding ? numbers(n, 6) : take(n);
    float *dx = copy_of(before, n), *dx2 = copy_of(before, n);
    float *s1 = scratch_of(bytes, 0xff), *s2 = scratch_of(bytes, 0x5a);
    k->conv_dx(dx2, p.dy, p.w, NULL, s, false, s1, &one_thread);
    k->conv_dx(dx, p.dy, p.w, NULL, s, adding, s2, &one_thread);
    CU_ASSERT_EQUAL(memcmp(s1, s2, bytes), 0); /* all of it is written */
    memcpy(dx2, before, n * sizeof *dx);
    k->conv_dx(dx2, p.dy, p.w, NULL, s, adding, scratch_of(k->conv_dx_bytes(s, 3), 0x5a),
               &reversed);
    CU_ASSERT_EQUAL(memcmp(dx, dx2, n * sizeof *dx), 0);
    int64_t wrong = 0, at = 0;
    for (p.b = 0; p.b < s->batch; p.b++) {
        if (!is_checked(s, p.b))
            continue;
        for (int64_t i = 0; i < in_size(s); i++, at++) {
            const double b = adding ? (double)before[n16(p.b, i, in_size(s))] : 0.0;
            wrong += !near_sum(dx[n16(p.b, i, in_size(s))], sums[OF_DX][at] + b,
                               scales[OF_DX][at] + fabs(b), conv_weights(s) / s->in_c + 1);
        }
    }
    report("conv_dx", isa, s, wrong);
}

static int64_t wrong_bias_gradients(const sw_conv *s, const products *p, const float *db,
                                    const float *before)
{
    const int64_t plane = s->out_h * s->out_w;
    int64_t wrong = 0;
    for (int64_t o = 0; o < s->out_c; o++) {
        double sum = before != NULL ? (double)before[o] : 0.0, scale = fabs(sum);
        for (int64_t b = 0; b < s->batch; b++)
            for (int64_t i = 0; i < plane; i++) {
                const double t = (double)p->dy[n16(b, o * plane + i, out_size(s))];
                sum += t;
                scale += fabs(t);
            }
        wrong += !near_sum(db[o], sum, scale, s->batch * plane);
    }
    return wrong;
}

static void conv_weight_gradient(int isa, const sw_conv *s, products p, bool adding,
                                 bool with_db)
{
    const sw_dense_kernels *k = sw_dense((sw_isa)isa);
    const size_t n = (size_t)conv_weights(s), n_db = (size_t)s->out_c,
                 bytes = k->conv_dw_bytes(s);
    float *before = adding ? numbers(n, 7) : take(n), *before_db = numbers(n_db, 8);
    float *dw = copy_of(before, n), *dw2 = copy_of(before, n);
    float *db = copy_of(before_db, n_db), *db2 = copy_of(before_db, n_db);
    float *s1 = take(bytes / 4), *s2 = take(bytes / 4);
    memset(s2, 0x5a, bytes);
    k->conv_dw(dw, with_db ? db : NULL, p.x, p.dy, s, adding, !adding, s1, &one_thread);
    k->conv_dw(dw2, with_db ? db2 : NULL, p.x, p.dy, s, adding, !adding, s2, &reversed);
    CU_ASSERT_EQUAL(memcmp(dw, dw2, n * sizeof *dw), 0);
    CU_ASSERT_EQUAL(memcmp(db, db2, n_db * sizeof *db), 0);
    CU_ASSERT_EQUAL(memcmp(s1, s2, bytes), 0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < conv_weights(s); i++) {
        const double b = adding ? (double)before[i] : 0.0;
        wrong += !near_sum(dw[i], sums[OF_DW][i] + b, scales[OF_DW][i] + fabs(b),
                           s->batch * s->out_h * s->out_w);
    }
    if (with_db)
        wrong += wrong_bias_gradients(s, &p, db, !adding ? before_db : NULL);
    else
        wrong += memcmp(db, before_db, n_db * sizeof *db) != 0;
    report("conv_dw", isa, s, wrong);
}

static products products_of(const sw_conv *s)
{
    return (products){.s = s,
                      .x = images(s->batch, in_size(s), 11),
                      .dy = images(s->batch, out_size(s), 12),
                      .w = numbers((size_t)conv_weights(s), 13)};
}

static void conv_case(sw_conv s)
{
    refer(products_of(&s));
    give_all();
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (int adding = 0; adding < 2; adding++) {
            const products p = products_of(&s);
            conv_forward(isa, &s, p, adding == 0);
            conv_input_gradient(isa, &s, p, adding != 0);
            conv_weight_gradient(isa, &s, p, adding != 0, adding == 0);
            if (adding == 0)
                conv_weight_gradient(isa, &s, p, true, true);
            give_all();
        }
}

SW_TEST("convolutions and their gradients are right")
{
    static const int64_t batches[] = {1, 7, 16, 33};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const int64_t b = batches[i];
        conv_case(conv_of(b, 1, 8, 8, 6, 5, 5, 1, 0, 1, 1));
        conv_case(conv_of(b, 3, 7, 9, 7, 3, 3, 1, 1, 1, 1)); /* channel blocks 4 + 2 + 1 */
        conv_case(conv_of(b, 2, 9, 8, 3, 3, 3, 2, 1, 1, 1));
        conv_case(conv_of(b, 2, 5, 6, 8, 5, 2, 1, 1, 1, 1)); /* kernel not square */
    }
    conv_case(conv_of(3, 2, 11, 10, 5, 1, 1, 1, 0, 1, 1));
    conv_case(conv_of(3, 2, 11, 10, 5, 1, 1, 2, 0, 1, 1));
    conv_case(conv_of(5, 1, 12, 13, 2, 7, 7, 2, 3, 1, 1)); /* taps 5 + 2 */
    conv_case(
        conv_of(2, 2, 4, 3, 2, 6, 6, 1, 2, 1, 1)); /* never inside: narrower than the kernel */
    conv_case(conv_of(2, 2, 5, 5, 2, 3, 3, 1, 3, 1, 1));   /* outputs that see no image */
    conv_case(conv_of(2, 2, 10, 11, 9, 4, 3, 3, 2, 1, 1)); /* places that no window reaches */
}

SW_TEST("groups and dilation are right")
{
    static const int64_t batches[] = {1, 17, 33};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        each_grouped_conv(conv_case, batches[i]);
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
}

/* Sums of many images go in chunks, at most sixteen of them, the last perhaps empty. */
SW_TEST("chunks of images cover the batch")
{
    static const int64_t batches[] = {31, 48, 65, 529, 640};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        conv_case(conv_of(batches[i], 1, 4, 4, 2, 3, 3, 1, 0, 1, 1));
}
