/* The statistics of noise: normal numbers against the normal distribution (Kolmogorov and
 * Smirnov, tails, moments), and mean, variance and correlations of the elements of every kind.
 * Seeds are fixed. A bound of 5 standard errors is passed by chance once in 1.7 million. */
#include "kernels/dispatch.h"
#include "tests/support/suite.h"
#include <pthread.h>

SW_TESTS("noise statistics")

/* ---- normal numbers ------------------------------------------------------------------------
 */

/* Radius and angle against their formulas in float64. */
SW_TEST("numbers are near their formulas")
{
    const uint64_t step = sw_tests_full() ? 509 : 65537;
    double radius = 0.0, angle = 0.0;
    for (uint64_t w = 0; w <= UINT32_MAX;
         w += w < 20000 || w > UINT32_MAX - 20000u ? 1 : step) {
        const double u = ((double)w + 0.5) * 0x1p-32, r2 = -2.0 * log(u);
        const double r = (double)sw_noise_radius((uint32_t)w);
        /* u is rounded to float32: near 1 that is what counts. */
        radius = fmax(radius, fabs(r * r - r2) / (1e-6 + 4e-7 * r2));
        const uint32_t words[4] = {1u << 31, (uint32_t)w, 0, UINT32_MAX};
        const double one = (double)sw_noise_radius(1u << 31);
        float four[4];
        sw_noise_normal4(four, words);
        const double c = (double)four[0] / one, s = (double)four[1] / one;
        angle = fmax(angle, fabs(c * c + s * s - 1.0));
    }
    SW_CHECK(radius < 2.0, "squares of radii are off by %.2f bounds", radius);
    SW_CHECK(angle < 4e-6, "sin^2 + cos^2 - 1 is up to %g", angle);
    CU_ASSERT(sw_noise_radius(0) > 6.7f && sw_noise_radius(UINT32_MAX) == 0.0f);
}

enum { BINS = 8192, REACH = 8, CHUNK = 8192 }; /* bins of [-REACH, REACH) */
typedef struct {
    uint32_t first, last; /* directions of CHUNK numbers each */
    uint64_t count[BINS];
    double sum[4]; /* of powers */
} sample;

static void *take_sample(void *arg)
{
    static const sw_noise_spec spec = {.rank = 1, .rows = 1, .cols = 1, .taps = 1, .stream = 3};
    const sw_noise_kernels *k = sw_noise(sw_cpu_isa());
    sample *s = arg;
    float x[CHUNK];
    for (uint32_t d = s->first; d < s->last; d++) {
        const sw_noise_at at = {2024, 11, d};
        k->fill(x, 0, CHUNK, &spec, SW_NOISE_ELEMENTS, &at);
        for (int from = 0; from < CHUNK; from += 512) {
            float sum[4][16] = {{0}};
            for (int i = from; i < from + 512; i++) {
                const float v = x[i], q = v * v;
                sum[0][i % 16] += v;
                sum[1][i % 16] += q;
                sum[2][i % 16] += q * v;
                sum[3][i % 16] += q * q;
            }
            for (int p = 0; p < 4; p++)
                for (int i = 0; i < 16; i++)
                    s->sum[p] += (double)sum[p][i];
        }
        for (int i = 0; i < CHUNK; i++)
            s->count[(int)((x[i] + REACH) * (BINS / (2 * REACH)))]++;
    }
    return NULL;
}

static double below(double x) /* the normal distribution */
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static void check_sample(const sample *s, double n)
{
    double worst = 0.0, seen = 0.0;
    for (int i = 0; i < BINS; i++) {
        seen += (double)s->count[i];
        worst = fmax(worst, fabs(seen / n - below((i + 1) * (2.0 * REACH / BINS) - REACH)));
    }
    sw_note("%.0f numbers: Kolmogorov-Smirnov %.3f / sqrt(n)", n, worst * sqrt(n));
    CU_ASSERT_EQUAL(seen, n);
    SW_CHECK(worst * sqrt(n) < 1.95, "%g / sqrt(n), more than chance does once in 1,000",
             worst * sqrt(n));
    for (int sigma = 1; sigma <= 6; sigma++)
        for (int side = 0; side < 2; side++) {
            const double p = below(-sigma), error = sqrt(n * p * (1.0 - p));
            double tail = 0.0;
            for (int i = 0; i < (REACH - sigma) * BINS / (2 * REACH); i++)
                tail += (double)s->count[side == 0 ? i : BINS - 1 - i];
            SW_CHECK(fabs(tail - n * p) < 5.0 * error + 5.0, "%.0f of %.1f beyond %d, side %d",
                     tail, n * p, sigma, side);
        }
    const double mean = s->sum[0] / n, variance = s->sum[1] / n, skew = s->sum[2] / n,
                 kurtosis = s->sum[3] / n - 3.0;
    sw_note("in standard errors: mean %.2f, variance %.2f, third moment %.2f, fourth %.2f",
            mean * sqrt(n), (variance - 1.0) * sqrt(n / 2.0), skew * sqrt(n / 15.0),
            kurtosis * sqrt(n / 96.0));
    CU_ASSERT(fabs(mean) * sqrt(n) < 4.0);
    CU_ASSERT(fabs(variance - 1.0) * sqrt(n / 2.0) < 4.0);
    CU_ASSERT(fabs(skew) * sqrt(n / 15.0) < 4.0);
    CU_ASSERT(fabs(kurtosis) * sqrt(n / 96.0) < 4.0);
}

static void check_normal(uint32_t directions)
{
    static sample half[2];
    pthread_t thread;
    memset(half, 0, sizeof half);
    half[0].last = half[1].first = directions / 2;
    half[1].last = directions;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, take_sample, &half[1]), 0);
    take_sample(&half[0]);
    pthread_join(thread, NULL);
    for (int i = 0; i < BINS; i++)
        half[0].count[i] += half[1].count[i];
    for (int p = 0; p < 4; p++)
        half[0].sum[p] += half[1].sum[p];
    check_sample(&half[0], (double)directions * CHUNK);
}

SW_TEST("ten million numbers are normal")
{
    check_normal(1221);
}

SW_TEST("10^9 numbers are normal", .full = true)
{
    check_normal(122071);
}

/* ---- every kind ----------------------------------------------------------------------------
 */

enum { ROWS = 5, CHANNELS = 4, TAPS = 2, COLS = CHANNELS * TAPS, SIZE = ROWS * COLS };

typedef struct {
    const char *name;
    sw_noise_kind kind;
    int sides, rank, distribution;
    int keep_rows, keep_cols;
} kind_case;

static const kind_case kinds[] = {
    {"iid", SW_NOISE_IID, 0, 1, SW_NOISE_NORMAL, ROWS, CHANNELS},
    {"iid, signs", SW_NOISE_IID, 0, 1, SW_NOISE_RADEMACHER, ROWS, CHANNELS},
    {"iid, bits", SW_NOISE_IID, 0, 1, SW_NOISE_BITS, ROWS, CHANNELS},
    {"rank 1", SW_NOISE_LOW_RANK, 0, 1, SW_NOISE_NORMAL, ROWS, CHANNELS},
    {"rank 1, bits", SW_NOISE_LOW_RANK, 0, 1, SW_NOISE_BITS, ROWS, CHANNELS},
    {"rank 3", SW_NOISE_LOW_RANK, 0, 3, SW_NOISE_NORMAL, ROWS, CHANNELS},
    {"rank 2, signs", SW_NOISE_LOW_RANK, 0, 2, SW_NOISE_RADEMACHER, ROWS, CHANNELS},
    {"permuted in", SW_NOISE_PERMUTED, 1, 1, SW_NOISE_NORMAL, ROWS, CHANNELS},
    {"permuted out", SW_NOISE_PERMUTED, 2, 1, SW_NOISE_NORMAL, ROWS, CHANNELS},
    {"permuted, some", SW_NOISE_PERMUTED, 3, 1, SW_NOISE_NORMAL, ROWS - 2, CHANNELS - 1},
    {"sign-flip in", SW_NOISE_SIGN_FLIP, 1, 1, SW_NOISE_NORMAL, ROWS, CHANNELS},
    {"sign-flip out", SW_NOISE_SIGN_FLIP, 2, 1, SW_NOISE_NORMAL, ROWS, CHANNELS},
    {"sign-flip", SW_NOISE_SIGN_FLIP, 3, 1, SW_NOISE_NORMAL, ROWS, CHANNELS},
    {"sparse", SW_NOISE_SPARSE, 0, 1, SW_NOISE_NORMAL, ROWS - 3, CHANNELS - 2},
    {"dropout", SW_NOISE_DROPOUT, 0, 1, SW_NOISE_NORMAL, ROWS, CHANNELS},
};

static void take(float e[SIZE], const sw_noise_spec *s, uint32_t generation, uint32_t direction)
{
    const sw_noise_at at = {31, generation, direction};
    sw_noise_direction d = {.sigma = 0.5f};
    sw_noise_prepare(&d, s, &at, 0.5f);
    for (int i = 0; i < SIZE; i++)
        e[i] = sw_noise_element(s, &d, i / COLS, i % COLS, 1.0f);
}

/* A mean and its standard error. */
typedef struct {
    double sum, squares;
} average;

static void add(average *a, double x)
{
    a->sum += x;
    a->squares += x * x;
}

/* The distance to `want` in standard errors. Values that never vary must equal `want`. */
static double off(const average *a, double want, double n)
{
    const double mean = a->sum / n, variance = a->squares / n - mean * mean;
    if (variance < 1e-12)
        return fabs(mean - want) < 1e-6 ? 0.0 : 1e9;
    return fabs(mean - want) / sqrt(variance / n);
}

/* The same S at the same place: what two members of a generation have in common. */
static double shared_by_members(const sw_noise_spec *s)
{
    double p = 1.0;
    if (s->kind != SW_NOISE_PERMUTED)
        return 0.0;
    p /= (s->sides & SW_NOISE_IN) != 0 ? CHANNELS : 1;
    return p / ((s->sides & SW_NOISE_OUT) != 0 ? ROWS : 1);
}

static void check_kind(const kind_case *c, int n)
{
    static average mean[SIZE], square[SIZE], pair[SIZE][SIZE];
    average members = {0, 0}, generations = {0, 0}, parameters = {0, 0};
    sw_noise_spec s = {.kind = (int32_t)c->kind, .distribution = c->distribution};
    s.sides = c->sides, s.rank = c->rank, s.rows = ROWS, s.cols = COLS, s.taps = TAPS;
    s.keep_rows = c->keep_rows, s.keep_cols = c->keep_cols, s.stream = 55;
    sw_noise_spec beside = s;
    beside.stream++;
    memset(mean, 0, sizeof mean);
    memset(square, 0, sizeof square);
    memset(pair, 0, sizeof pair);
    for (int k = 0; k < n; k++) {
        float e[SIZE], other[SIZE], later[SIZE], far[SIZE];
        double with[3] = {0.0, 0.0, 0.0};
        take(e, &s, (uint32_t)(2 * k), 6);
        take(other, &s, (uint32_t)(2 * k), 7);
        take(later, &s, (uint32_t)(2 * k + 1), 6);
        take(far, &beside, (uint32_t)(2 * k), 6);
        for (int i = 0; i < SIZE; i++) {
            add(&mean[i], (double)e[i]);
            add(&square[i], (double)e[i] * (double)e[i]);
            for (int j = 0; j < i; j++)
                add(&pair[i][j], (double)e[i] * (double)e[j]);
            with[0] += (double)e[i] * (double)other[i] / SIZE;
            with[1] += (double)e[i] * (double)later[i] / SIZE;
            with[2] += (double)e[i] * (double)far[i] / SIZE;
        }
        add(&members, with[0]);
        add(&generations, with[1]);
        add(&parameters, with[2]);
    }
    double worst[3] = {0.0, 0.0, 0.0};
    for (int i = 0; i < SIZE; i++) {
        worst[0] = fmax(worst[0], off(&mean[i], 0.0, n));
        worst[1] = fmax(worst[1], off(&square[i], 1.0, n));
        for (int j = 0; j < i; j++) {
            const bool one = s.kind == SW_NOISE_DROPOUT && i / COLS == j / COLS;
            worst[2] = fmax(worst[2], off(&pair[i][j], one ? 1.0 : 0.0, n));
        }
    }
    SW_CHECK(worst[0] < 5.0, "%s: a mean is off by %.1f standard errors", c->name, worst[0]);
    SW_CHECK(worst[1] < 5.0, "%s: a variance is off by %.1f", c->name, worst[1]);
    SW_CHECK(worst[2] < 5.5, "%s: elements are correlated by %.1f", c->name, worst[2]);
    SW_CHECK(off(&members, shared_by_members(&s), n) < 5.0,
             "%s: members have %g in common, %g is right", c->name, members.sum / n,
             shared_by_members(&s));
    SW_CHECK(off(&generations, 0.0, n) < 5.0, "%s: generations are correlated by %g", c->name,
             generations.sum / n);
    SW_CHECK(off(&parameters, 0.0, n) < 5.0, "%s: parameters are correlated by %g", c->name,
             parameters.sum / n);
}

SW_TEST("every kind has mean 0, variance 1 and no correlation")
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        check_kind(&kinds[i], sw_tests_full() ? 20000 : 1500);
}
