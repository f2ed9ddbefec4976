/* Kernels of perturbed layers against plain loops over sw_noise_element in float64: every kind
 * of noise, every instruction set, the same bits for other threads and other slices. */
#include "tests/kernels/dense_support.h"

SW_TESTS("noise layers")

typedef struct {
    const char *name;
    sw_noise_kind kind;
    int sides, rank;
    int64_t rows, cols; /* cols: of channels */
    int taps;
    int64_t less_rows, less_cols; /* positions that are 0 */
} noise_case;

static const noise_case kinds[] = {
    {"rank 1", SW_NOISE_LOW_RANK, 0, 1, 70, 37, 1, 0, 0},
    {"rank 3", SW_NOISE_LOW_RANK, 0, 3, 9, 150, 1, 0, 0},
    {"rank 2, taps", SW_NOISE_LOW_RANK, 0, 2, 13, 5, 9, 0, 0},
    {"iid", SW_NOISE_IID, 0, 1, 21, 33, 1, 0, 0},
    {"iid, taps", SW_NOISE_IID, 0, 1, 6, 7, 4, 0, 0},
    {"permuted in", SW_NOISE_PERMUTED, 1, 1, 70, 37, 1, 0, 3},
    {"permuted out", SW_NOISE_PERMUTED, 2, 1, 37, 70, 1, 5, 0},
    {"permuted, taps", SW_NOISE_PERMUTED, 3, 1, 12, 9, 3, 2, 1},
    {"permuted", SW_NOISE_PERMUTED, 3, 1, 140, 300, 1, 0, 0},
    {"sign-flip in", SW_NOISE_SIGN_FLIP, 1, 1, 20, 300, 1, 0, 0},
    {"sign-flip out", SW_NOISE_SIGN_FLIP, 2, 1, 90, 17, 1, 0, 0},
    {"sign-flip, taps", SW_NOISE_SIGN_FLIP, 3, 1, 70, 6, 5, 0, 0},
    {"sign-flip", SW_NOISE_SIGN_FLIP, 3, 1, 150, 270, 1, 0, 0},
    {"sparse", SW_NOISE_SPARSE, 0, 1, 19, 23, 1, 9, 4},
    {"dropout", SW_NOISE_DROPOUT, 0, 1, 30, 20, 1, 0, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static sw_noise_spec spec_of(const noise_case *c)
{
    return (sw_noise_spec)SW_INIT(.kind = (int32_t)c->kind, .sides = c->sides, .rank = c->rank,
                                  .rows = c->rows, .cols = c->cols * c->taps,
                                  .keep_rows = c->rows - c->less_rows,
                                  .keep_cols = c->cols - c->less_cols, .taps = c->taps,
                                  .stream = 31);
}

static double element(const sw_noise_spec *s, uint32_t direction, float sigma, int64_t row,
                      int64_t col, float w)
{
    static sw_noise_direction d;
    static sw_noise_spec last;
    const sw_noise_at at = {99, 7, direction};
    if (memcmp(&last, s, sizeof last) != 0 || d.at.direction != direction || d.sigma != sigma)
        sw_noise_prepare(&d, s, &at, sigma);
    memcpy(&last, s, sizeof last);
    return (double)sw_noise_element(s, &d, row, col, w);
}

static bool close_to(float got, double want, double scale)
{
    return fabs((double)got - want) <= 1e-5 * (scale + 1e-3);
}

/* ---- the estimate, and one direction -------------------------------------------------------
 */

enum { SUMMED = 19, MOST_SUMS = 42000 };
static double sums[MOST_SUMS], scales[MOST_SUMS];

/* Of rows from `first` on, with what w has. */
static void sum_elements(const sw_noise_spec *s, int64_t first, int64_t size, const float *w,
                         const float *weights)
{
    CU_ASSERT_FATAL(size <= MOST_SUMS);
    for (int64_t e = 0; e < size; e++)
        scales[e] = fabs(sums[e] = (double)w[e]);
    for (uint32_t d = 0; d < SUMMED; d++)
        for (int64_t e = 0; e < size; e++) {
            const double t = (double)weights[d] *
                             element(s, 5 + d, 0.3f, first + e / s->cols, e % s->cols, w[e]);
            sums[e] += t;
            scales[e] += fabs(t);
        }
}

SW_TEST("the estimate is the weighted sum")
{
    for (int i = 0; i < KINDS; i++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
            const sw_noise_kernels *k = sw_noise((sw_isa)isa);
            const sw_noise_spec s = spec_of(&kinds[i]);
            enum { N = SUMMED };
            const int64_t first = 2, rows = s.rows - 3, size = rows * s.cols;
            float *weights = numbers(N, 3), *w = numbers((size_t)size, 4);
            float *to = copy_of(w, (size_t)size), *again = take((size_t)size);
            float *scratch = take(k->gradient_bytes(&s, rows, N) / sizeof(float) + 1);
            weights[4] = 0.0f;
            sw_noise_sum g = {&s, 99, 7, 5, N, weights, to, w, 0.3f, first, rows, true};
            k->gradient(&g, scratch, &one_thread);
            int wrong = 0;
            if (isa == 0)
                sum_elements(&s, first, size, w, weights);
            for (int64_t e = 0; e < size; e++)
                wrong += !close_to(to[e], sums[e], scales[e]);
            SW_CHECK(wrong == 0, "%s isa %d: %d wrong", kinds[i].name, isa, wrong);
            /* In two halves of its rows, by other threads, without adding. */
            g.accumulate = false;
            g.to = to;
            k->gradient(&g, scratch, &one_thread);
            for (int half = 0; half < 2; half++) {
                sw_noise_sum h = g;
                h.first_row = first + half * (rows / 2);
                h.n_rows = half != 0 ? rows - rows / 2 : rows / 2;
                h.to = again + half * (rows / 2) * s.cols;
                h.parameter = w + half * (rows / 2) * s.cols;
                k->gradient(&h, scratch, &reversed);
            }
            CU_ASSERT_EQUAL(memcmp(to, again, (size_t)size * sizeof *to), 0);
            give_all();
        }
}

/* Large enough that threads draw its tiles together. */
SW_TEST("a large estimate is the sum too")
{
    enum { ROWS = 530, COLS = 1100, N = 300 };
    const sw_noise_spec s = {.rank = 1, .rows = ROWS, .cols = COLS, .taps = 1, .stream = 8};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        const sw_noise_kernels *k = sw_noise((sw_isa)isa);
        float *weights = numbers(N, 3), *to = take(ROWS * COLS), *other = take(ROWS * COLS);
        const size_t bytes = k->gradient_bytes(&s, ROWS, N);
        float *scratch = take(bytes / sizeof(float) + 1);
        sw_noise_sum g = {&s, 99, 7, 0, N, weights, to, NULL, 0.0f, 0, ROWS, false};
        CU_ASSERT(bytes > 0 && bytes <= 2 << 20);
        k->gradient(&g, scratch, &reversed);
        double error = 0.0, norm = 0.0;
        for (int64_t e = 0; e < ROWS * COLS; e += 371) {
            double sum = 0.0;
            for (uint32_t d = 0; d < N; d++)
                sum += (double)weights[d] * element(&s, d, 0.0f, e / COLS, e % COLS, 0.0f);
            error += (sum - (double)to[e]) * (sum - (double)to[e]);
            norm += sum * sum;
        }
        SW_CHECK(sqrt(error / norm) < 1e-6, "isa %d: %g", isa, sqrt(error / norm));
        g.to = other;
        k->gradient(&g, NULL, &one_thread); /* without scratch */
        CU_ASSERT_EQUAL(memcmp(to, other, sizeof *to * ROWS * COLS), 0);
        give_all();
    }
}

SW_TEST("elements have the bits of the definition")
{
    for (int i = 0; i < KINDS; i++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
            const sw_noise_spec s = spec_of(&kinds[i]);
            const sw_noise_at at = {99, 7, 12};
            const int64_t size = s.rows * s.cols;
            float *w = numbers((size_t)size, 4), *to = take((size_t)size);
            sw_dice dice = {(uint64_t)i};
            int wrong = 0;
            for (int64_t from = 0; from < size;) {
                const int64_t left = size - from;
                const int64_t some = 1 + (int64_t)sw_dice_below(&dice, 5000);
                const int64_t n = some < left ? some : left;
                sw_noise((sw_isa)isa)->elements(to + from, from, n, &s, &at, 0.3f, w + from);
                from += n;
            }
            for (int64_t e = 0; e < size; e++) {
                if (isa == 0)
                    sums[e] = element(&s, 12, 0.3f, e / s.cols, e % s.cols, w[e]);
                wrong += (double)to[e] != sums[e];
            }
            SW_CHECK(wrong == 0, "%s isa %d: %d wrong", kinds[i].name, isa, wrong);
            give_all();
        }
}

/* ---- linear --------------------------------------------------------------------------------
 */

typedef struct {
    int64_t repeats, directions, per;
    bool antithetic, bias, sigmas;
} batch_case;

static const batch_case batches[] = {
    {1, 7, 1, false, true, false},
    {2, 5, 1, true, true, false},
    {3, 3, 2, true, false, false},
    {2, 1, 40, true, true, false},
};

/* y += the noise; from `first` on `n` of the directions of b, which lie in the same batch. */
static swi_noise_attrs attrs_of(const sw_noise_spec *s, const batch_case *b)
{
    swi_noise_attrs a = {.weight = *s, .repeats = b->repeats, .directions = b->directions};
    a.antithetic = b->antithetic;
    if (b->bias)
        a.bias = (sw_noise_spec){
            .kind = SW_NOISE_IID, .rows = 1, .cols = s->rows, .taps = 1, .stream = 32};
    return a;
}

/* Noise of a direction, number by number; that of the first twelve of one kind is kept, so that
 * instruction sets and batches share it. */
enum { KEPT = 12, MOST_NUMBERS = 1 << 18 };
static double *matrix, matrices[KEPT][MOST_NUMBERS];
static void take_matrix(const sw_noise_spec *s, uint32_t direction, float sigma)
{
    static sw_noise_spec of[KEPT];
    static float with[KEPT];
    const int64_t n = s->rows * s->cols;
    CU_ASSERT_FATAL(n <= MOST_NUMBERS && direction < KEPT);
    matrix = matrices[direction];
    if (memcmp(&of[direction], s, sizeof *s) == 0 && with[direction] == sigma)
        return;
    of[direction] = *s;
    with[direction] = sigma;
    for (int64_t e = 0; e < n; e++)
        matrix[e] = element(s, direction, sigma, e / s->cols, e % s->cols, 0.0f);
}

/* Of the batch's rows that direction d has. */
static int wrong_rows(const float *y, const float *before, const float *x,
                      const sw_noise_layer *l, int64_t batch, int64_t d)
{
    const swi_noise_attrs *a = l->a;
    const sw_noise_spec *s = &a->weight;
    const int64_t per = batch / (a->repeats * a->directions);
    int wrong = 0;
    take_matrix(s, l->first + (uint32_t)d, l->sigma);
    for (int64_t r = 0; r < batch; r++)
        for (int64_t o = 0; o < s->rows && r / per % a->directions == d; o++) {
            const double factor = (double)sw_noise_sign(a, r / per) * (double)l->sigma;
            double sum = 0.0, scale = 0.0;
            for (int64_t c = 0; c < s->cols; c++) {
                const double t = (double)x[r * s->cols + c] * matrix[o * s->cols + c];
                sum += t;
                scale += fabs(t);
            }
            if (a->bias.rows != 0)
                sum += element(&a->bias, l->first + (uint32_t)d, l->sigma, 0, o, 0);
            wrong += !close_to(y[r * s->rows + o],
                               (double)before[r * s->rows + o] + factor * sum, 1.0 + scale);
        }
    return wrong;
}

static void check_linear(int isa, const noise_case *c, const batch_case *b)
{
    const sw_noise_kernels *k = sw_noise((sw_isa)isa);
    const sw_noise_spec s = spec_of(c);
    const swi_noise_attrs a = attrs_of(&s, b);
    const int64_t batch = b->repeats * b->directions * b->per;
    const size_t size = (size_t)(batch * s.rows);
    float *x = numbers((size_t)(batch * s.cols), 5), *before = numbers(size, 6);
    float *y = copy_of(before, size), *other = copy_of(before, size);
    float *scratch = take(k->linear_bytes(&a, batch, 3) / sizeof(float) + 1);
    const sw_noise_layer l = {.a = &a, .seed = 99, .generation = 7, .first = 3, .sigma = 0.2f};
    k->linear(y, x, batch, s.rows, &l, scratch, &one_thread);
    int wrong = 0;
    for (int64_t d = 0; d < b->directions; d++)
        wrong += wrong_rows(y, before, x, &l, batch, d);
    SW_CHECK(wrong == 0, "%s isa %d batch %ld: %d wrong", c->name, isa, (long)batch, wrong);
    k->linear(other, x, batch, s.rows, &l, scratch, &reversed);
    CU_ASSERT_EQUAL(memcmp(y, other, size * sizeof *y), 0);
    if (b->repeats == 1) /* direction by direction, last first */
        for (int64_t d = b->directions - 1; d >= 0; d--) {
            swi_noise_attrs one = a;
            sw_noise_layer m = l;
            one.directions = 1;
            m.a = &one;
            m.first = l.first + (uint32_t)d;
            memcpy(other, before + d * b->per * s.rows, (size_t)(b->per * s.rows) * sizeof *y);
            k->linear(other, x + d * b->per * s.cols, b->per, s.rows, &m, scratch, &one_thread);
            CU_ASSERT_EQUAL(
                memcmp(other, y + d * b->per * s.rows, (size_t)(b->per * s.rows) * sizeof *y),
                0);
        }
    give_all();
}

SW_TEST("linear adds each row's own noise")
{
    for (int i = 0; i < KINDS; i++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
            for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
                if (kinds[i].kind != SW_NOISE_DROPOUT)
                    check_linear(isa, &kinds[i], &batches[b]);
}

/* Factors that do not fit on a stack, rows that do not fit in scratch. */
SW_TEST("large layers are cut")
{
    static const noise_case large[] = {
        {"rank 2, long", SW_NOISE_LOW_RANK, 0, 2, 8, 13000, 1, 0, 0},
        {"permuted, long", SW_NOISE_PERMUTED, 3, 1, 9, 9000, 1, 0, 8900},
        {"sign-flip, long", SW_NOISE_SIGN_FLIP, 3, 1, 66, 3000, 1, 0, 0},
    };
    static const batch_case b = {2, 2, 3, true, true, false};
    for (int i = 0; i < 3; i++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
            check_linear(isa, &large[i], &b);
}

SW_TEST("embedding adds rows of noise")
{
    enum { N = 24 };
    static const uint8_t id[N] = {1, 5, 0, 3, 5, 5, 2, 1, 4, 0, 5, 1, 2, 3, 3, 0, 4, 4, 1, 2};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (int i = 0; i < KINDS; i++) {
            const sw_noise_spec s = spec_of(&kinds[i]);
            swi_noise_attrs a = {.weight = s, .repeats = 2, .directions = 3, .antithetic = 1};
            const sw_noise_layer l = {
                .a = &a, .seed = 99, .generation = 7, .first = 3, .sigma = 0.2f};
            const sw_ids ids = {.u8 = id, .n = N};
            const size_t size = (size_t)(N * s.cols);
            float *table = numbers((size_t)(s.rows * s.cols), 9), *before = numbers(size, 6);
            float *y = copy_of(before, size), *other = copy_of(before, size);
            int wrong = 0;
            sw_noise((sw_isa)isa)->embedding(y, &ids, table, &l, &one_thread);
            sw_noise((sw_isa)isa)->embedding(other, &ids, table, &l, &reversed);
            CU_ASSERT_EQUAL(memcmp(y, other, size * sizeof *y), 0);
            for (int64_t e = 0; e < (int64_t)size; e++) {
                const int64_t row = e / s.cols, col = e % s.cols, evaluation = row / 4;
                const double t = element(&s, 3 + (uint32_t)(evaluation % 3), 0.2f, id[row], col,
                                         table[id[row] * s.cols + col]) *
                                 (double)sw_noise_sign(&a, evaluation) * 0.2;
                wrong += !close_to(y[e], (double)before[e] + t, 1.0 + fabs(t));
            }
            SW_CHECK(wrong == 0, "%s isa %d: %d wrong", kinds[i].name, isa, wrong);
            give_all();
        }
}

/* ---- convolution ---------------------------------------------------------------------------
 */

typedef struct {
    noise_case noise; /* rows, cols: channels of y, channels of x in a group */
    int64_t h, w, kh, kw;
    int stride, pad, dilation, groups;
    bool sigmas;
} conv_case;

static const conv_case convs[] = {
    {{"rank 1", SW_NOISE_LOW_RANK, 0, 1, 10, 3, 9, 0, 0}, 9, 11, 3, 3, 1, 1, 1, 1, false},
    {{"rank 2, groups", SW_NOISE_LOW_RANK, 0, 2, 6, 2, 6, 0, 0}, 5, 7, 3, 2, 2, 1, 1, 3, false},
    {{"wide", SW_NOISE_LOW_RANK, 0, 1, 2, 1, 3, 0, 0}, 1, 1100, 1, 3, 1, 2, 2, 1, false},
    {{"many", SW_NOISE_LOW_RANK, 0, 1, 130, 180, 9, 0, 0}, 2, 2, 3, 3, 1, 1, 1, 1, false},
    {{"iid", SW_NOISE_IID, 0, 1, 9, 3, 4, 0, 0}, 6, 5, 2, 2, 1, 0, 2, 1, false},
    {{"iid, sigmas", SW_NOISE_IID, 0, 1, 5, 3, 9, 0, 0}, 6, 19, 3, 3, 1, 1, 1, 1, true},
    {{"permuted", SW_NOISE_PERMUTED, 3, 1, 8, 5, 6, 2, 1}, 6, 7, 2, 3, 1, 1, 1, 1, false},
    {{"sign-flip", SW_NOISE_SIGN_FLIP, 3, 1, 8, 2, 9, 0, 0}, 7, 7, 3, 3, 2, 1, 1, 2, false},
    {{"sparse", SW_NOISE_SPARSE, 0, 1, 6, 4, 1, 3, 1}, 4, 4, 1, 1, 1, 0, 1, 1, false},
    {{"enormous", SW_NOISE_IID, 0, 1, 2, 1, 1600, 0, 0}, 40, 41, 40, 40, 1, 0, 1, 1, true},
};

/* The sum that noise adds to place (oy, ox) of channel o of an image. */
static double conv_sum(const sw_conv *s, const float *x, const float *sigmas, int64_t image,
                       int64_t o, int64_t oy, int64_t ox)
{
    const int64_t in_per = s->in_c / s->groups, taps = s->kernel_h * s->kernel_w;
    const int64_t first = o / (s->out_c / s->groups) * in_per, cols = in_per * taps;
    double sum = 0.0;
    for (int64_t i = 0; i < cols; i++) {
        const int64_t iy = oy * s->stride - s->pad + i % taps / s->kernel_w * s->dilation;
        const int64_t ix = ox * s->stride - s->pad + i % s->kernel_w * s->dilation;
        const int64_t at = ((first + i / taps) * s->in_h + iy) * s->in_w + ix;
        if (iy >= 0 && iy < s->in_h && ix >= 0 && ix < s->in_w)
            sum += matrix[o * cols + i] *
                   (sigmas != NULL ? (double)sigmas[o * cols + i] : 1.0) *
                   (double)x[s->plain ? image * s->in_c * s->in_h * s->in_w + at
                                      : n16(image, at, s->in_c * s->in_h * s->in_w)];
    }
    return sum;
}

static void check_conv(int isa, const conv_case *c, bool plain)
{
    const sw_noise_spec spec = spec_of(&c->noise);
    const batch_case b = {2, 9, 1, true, true, false};
    swi_noise_attrs a = attrs_of(&spec, &b);
    sw_conv s = conv_of(18, c->noise.cols * c->groups, c->h, c->w, spec.rows, c->kh, c->kw,
                        c->stride, c->pad, c->groups, c->dilation);
    const int64_t plane = s.out_h * s.out_w, in = s.in_c * s.in_h * s.in_w;
    const size_t size = n16_floats(18, s.out_c * plane);
    float *x = images(18, in, 5), *before = numbers(size, 6);
    float *y = copy_of(before, size), *other = copy_of(before, size);
    float *sigmas = numbers((size_t)(spec.rows * spec.cols), 7);
    float *more = numbers((size_t)spec.rows, 8);
    sw_noise_layer l = {.a = &a, .seed = 99, .generation = 7, .first = 3, .sigma = 0.2f};
    l.weight_sigmas = c->sigmas ? sigmas : NULL;
    l.bias_sigmas = c->sigmas ? more : NULL;
    s.plain = plain;
    sw_noise((sw_isa)isa)->conv(y, x, &s, &l, &one_thread);
    sw_noise((sw_isa)isa)->conv(other, x, &s, &l, &reversed);
    CU_ASSERT_EQUAL(memcmp(y, other, size * sizeof *y), 0);
    int wrong = 0;
    for (int64_t d = 0; d < 9; d++) {
        take_matrix(&spec, 3 + (uint32_t)d, 0.2f);
        for (int64_t image = d; image < 18; image += 9)
            for (int64_t o = 0; o < s.out_c; o++) {
                double e = element(&a.bias, 3 + (uint32_t)d, 0.2f, 0, o, 0.0f);
                e *= c->sigmas ? (double)more[o] : 1.0;
                for (int64_t p = 0; p < plane; p++) {
                    const int64_t in_plane = o * plane + p;
                    const int64_t at = plain ? image * s.out_c * plane + in_plane
                                             : n16(image, in_plane, s.out_c * plane);
                    const double sum =
                        conv_sum(&s, x, l.weight_sigmas, image, o, p / s.out_w, p % s.out_w);
                    wrong += !close_to(y[at],
                                       (double)before[at] +
                                           (double)sw_noise_sign(&a, image) * 0.2 * (sum + e),
                                       40.0);
                }
            }
    }
    SW_CHECK(wrong == 0, "%s isa %d plain %d: %d wrong", c->noise.name, isa, plain, wrong);
    give_all();
}

/* A slice of few images is plain and one of many is not: both have the same bits. */
static void check_layouts(int isa, const conv_case *c)
{
    const sw_noise_spec spec = spec_of(&c->noise);
    const batch_case b = {2, 9, 1, true, true, false};
    const swi_noise_attrs a = attrs_of(&spec, &b);
    sw_conv s = conv_of(18, c->noise.cols * c->groups, c->h, c->w, spec.rows, c->kh, c->kw,
                        c->stride, c->pad, c->groups, c->dilation);
    const int64_t in = s.in_c * s.in_h * s.in_w, out = s.out_c * s.out_h * s.out_w;
    float *x = images(18, in, 5), *y = images(18, out, 6), *plain_x = take((size_t)(18 * in));
    float *plain_y = take((size_t)(18 * out)),
          *sigmas = numbers((size_t)(spec.rows * spec.cols), 7);
    float *more = numbers((size_t)spec.rows, 8);
    sw_noise_layer l = {.a = &a, .seed = 99, .generation = 7, .first = 3, .sigma = 0.2f};
    l.weight_sigmas = c->sigmas ? sigmas : NULL;
    l.bias_sigmas = c->sigmas ? more : NULL;
    sw_dense((sw_isa)isa)->from_n16(plain_x, x, 18, in, false, &one_thread);
    sw_dense((sw_isa)isa)->from_n16(plain_y, y, 18, out, false, &one_thread);
    sw_noise((sw_isa)isa)->conv(y, x, &s, &l, &one_thread);
    s.plain = true;
    sw_noise((sw_isa)isa)->conv(plain_y, plain_x, &s, &l, &one_thread);
    int wrong = 0;
    for (int64_t image = 0; image < 18; image++)
        for (int64_t i = 0; i < out; i++)
            wrong += memcmp(&plain_y[image * out + i], &y[n16(image, i, out)], sizeof *y) != 0;
    SW_CHECK(wrong == 0, "%s isa %d: %d differ", c->noise.name, isa, wrong);
    give_all();
}

SW_TEST("layouts of images have the same bits")
{
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
            check_layouts(isa, &convs[i]);
}

SW_TEST("convolution adds each image's own noise")
{
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
            for (int plain = 0; plain < 2; plain++)
                if (sw_tests_full() || (i + (size_t)isa + (size_t)plain) % 2 == 0)
                    check_conv(isa, &convs[i], plain != 0);
}

/* ---- gains and shifts ----------------------------------------------------------------------
 */

typedef struct {
    int64_t middle, channels, inner;
    bool gain, shift, sigmas, dropout, add;
} affine_case;

static void check_affine(int isa, const affine_case *c, bool blocks)
{
    enum { BATCH = 20 };
    const sw_noise_kernels *k = sw_noise((sw_isa)isa);
    const int64_t row = c->middle * c->channels * c->inner;
    const size_t size = n16_floats(BATCH, row), n = (size_t)c->channels;
    swi_noise_attrs a = {.repeats = 2, .directions = 5, .antithetic = 1};
    if (c->gain || c->dropout)
        a.weight = (sw_noise_spec){.kind = c->dropout ? SW_NOISE_DROPOUT : SW_NOISE_IID,
                                   .rows = c->dropout ? c->channels : 1,
                                   .cols = c->dropout ? 3 : c->channels,
                                   .taps = 1,
                                   .stream = 40};
    if (c->shift)
        a.bias = (sw_noise_spec){
            .kind = SW_NOISE_IID, .rows = 1, .cols = c->channels, .taps = 1, .stream = 41};
    float *x = numbers(size, 1), *before = numbers(size, 2), *y = copy_of(before, size);
    float *other = copy_of(before, size), *gain = numbers(n, 3), *shift = numbers(n, 4);
    float *sigmas = numbers(n, 5), *more = numbers(n, 6);
    sw_noise_layer l = {.a = &a, .seed = 99, .generation = 7, .first = 3, .sigma = 0.2f};
    l.weight_sigmas = c->sigmas ? sigmas : NULL;
    l.bias_sigmas = c->sigmas ? more : NULL;
    sw_noise_affine f = {y,      x,         c->gain ? gain : NULL, c->shift ? shift : NULL,
                         BATCH,  c->middle, c->channels,           c->inner,
                         blocks, c->add};
    k->affine(&f, &l, &one_thread);
    f.y = other;
    k->affine(&f, &l, &reversed);
    CU_ASSERT_EQUAL(memcmp(y, other, size * sizeof *y), 0);
    int wrong = 0;
    for (int64_t i = 0; i < BATCH * row; i++) {
        const int64_t image = i / row, channel = i / c->inner % c->channels;
        const int64_t at = blocks ? n16(image, i % row, row) : i, evaluation = image / 2;
        const uint32_t d = 3 + (uint32_t)(evaluation % 5);
        const double scale = (double)sw_noise_sign(&a, evaluation) * 0.2;
        double g = c->gain ? (double)gain[channel] : 1.0;
        double h = c->shift ? (double)shift[channel] : 0.0;
        if (a.weight.rows != 0)
            g += scale * (c->sigmas ? (double)sigmas[channel] : 1.0) *
                 (c->dropout ? element(&a.weight, d, 0.2f, channel, 0, 1.0f)
                             : element(&a.weight, d, 0.2f, 0, channel, 0.0f));
        if (c->shift)
            h += scale * (c->sigmas ? (double)more[channel] : 1.0) *
                 element(&a.bias, d, 0.2f, 0, channel, 0.0f);
        wrong +=
            !close_to(y[at], (c->add ? (double)before[at] : 0.0) + (double)x[at] * g + h, 3.0);
    }
    SW_CHECK(wrong == 0, "isa %d channels %ld blocks %d: %d wrong", isa, (long)c->channels,
             blocks, wrong);
    give_all();
}

SW_TEST("gains and shifts have noise")
{
    static const affine_case cases[] = {
        {1, 37, 1, true, true, false, false, false},
        {3, 1030, 1, true, true, false, false, true},
        {1, 7, 10, true, true, true, false, false},
        {1, 140, 3, false, true, false, false, true},
        {2, 21, 1, false, false, false, true, false},
        {1, 33, 5, false, true, false, true, false},
    };
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (int blocks = 0; blocks < (cases[i].middle == 1 ? 2 : 1); blocks++)
                check_affine(isa, &cases[i], blocks != 0);
}
