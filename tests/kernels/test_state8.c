/* Optimizer state in 8 bits: the values by the paper's definition, the nearest one found by a
 * plain search, and updates against float64. Every instruction set, threads and cuts. */
#include "kernels/dispatch.h"
#include "tests/support/suite.h"
#include <math.h>
#include <string.h>

SW_TESTS("state8")

/* As three threads: parts from the last to the first. */
static void backwards(const sw_par *par, void (*body)(void *arg, int part), void *arg, int n)
{
    (void)par;
    while (n-- > 0)
        body(arg, n);
}
static const sw_par three = {3, backwards};

/* Dettmers et al. 2022: after the sign as many zeros as the decimal exponent, a one, and a
 * linear fraction of the bits that are left; without a sign the fraction has a bit more. Sorted
 * from 0 on. */
static int values_of(bool has_sign, double *out)
{
    int n = 0;
    out[n++] = 0.0;
    for (int zeros = 6; zeros >= 0; zeros--) {
        const int parts = 1 << (6 - zeros + !has_sign);
        const double width = 0.9 / parts;
        for (int i = 0; i < parts; i++)
            out[n++] = pow(10.0, -zeros) * (0.1 + width * i + width / 2.0);
    }
    out[n++] = 1.0;
    return n;
}

SW_TEST("the values are those of the definition")
{
    for (int has_sign = 0; has_sign < 2; has_sign++) {
        const sw_state8_code *code = sw_state8_code_of(has_sign);
        double values[256];
        const int n = values_of(has_sign, values);
        CU_ASSERT_EQUAL(n, has_sign ? 129 : 256);
        for (int k = 0; k < n; k++)
            SW_CHECK(fabs((double)code->value[k] - values[k]) <= values[k] * 0x1p-24,
                     "%d: %.9g, not %.9g", k, (double)code->value[k], values[k]);
        for (int k = 1; has_sign && k < 128; k++)
            CU_ASSERT_EQUAL(code->value[128 + k], -code->value[k]);
        CU_ASSERT_EQUAL(code->value[0], 0.0f);
    }
}

/* The nearest byte, of two the one nearer to 0. Differences are exact in float64. */
static int nearest(const sw_state8_code *code, bool has_sign, float x)
{
    int best = 0;
    for (int k = 0; k < 256; k++) {
        const double d = fabs((double)code->value[k] - (double)x);
        const double least = fabs((double)code->value[best] - (double)x);
        if (d < least || (d == least && fabsf(code->value[k]) < fabsf(code->value[best])))
            best = k;
    }
    return best == 0 && !has_sign && x > 0.0f ? 1 : best;
}

/* Every upper half of a float in [-1, 1], with its first, last and a middle float; and around
 * each middle of two values. */
SW_TEST("a quotient becomes the nearest value")
{
    for (int has_sign = 0; has_sign < 2; has_sign++) {
        const sw_state8_code *code = sw_state8_code_of(has_sign);
        int64_t wrong = 0;
        for (uint32_t half = 0; half <= 0x3f80; half++)
            for (int i = 0; i < 3 && (half < 0x3f80 || i == 0); i++)
                for (int sign = 0; sign <= has_sign; sign++) {
                    static const uint32_t ends[] = {0, 0xffff, 0x7a31};
                    const uint32_t bits = (uint32_t)sign << 31 | half << 16 | ends[i];
                    if (half < 0x80)
                        continue; /* denormals are zero */
                    wrong += sw_state8_byte(code, bits, has_sign) !=
                             nearest(code, has_sign, sw_float_of(bits));
                }
        for (int k = 0; k + 1 < (has_sign ? 129 : 256); k++)
            for (int off = -2; off <= 2; off++)
                for (int sign = 0; sign <= has_sign; sign++) {
                    const float middle = (code->value[k] + code->value[k + 1]) / 2.0f;
                    const uint32_t bits =
                        ((uint32_t)sign << 31 | sw_bits_of(middle)) + (uint32_t)off;
                    wrong += sw_state8_byte(code, bits, has_sign) !=
                             nearest(code, has_sign, sw_float_of(bits));
                }
        SW_CHECK(wrong == 0, "sign %d: %d wrong", has_sign, (int)wrong);
        CU_ASSERT_EQUAL(sw_state8_byte(code, 0, has_sign), 0);
        CU_ASSERT_EQUAL(sw_state8_byte(code, 0x80000000u, true), 0);
    }
}

enum { MOST = 20000, STATES = 2 };
typedef struct {
    float p[MOST], g[MOST], scales[STATES][MOST];
    uint8_t codes[STATES][MOST];
} tensor;

static void begin(tensor *t, int64_t rows, int64_t cols)
{
    memset(t, 0, sizeof *t);
    for (int64_t i = 0; i < rows * cols; i++) {
        t->p[i] = sinf((float)i * 0.7f);
        t->g[i] = sinf((float)i * 1.3f) * powf(10.0f, (float)(i % 13) - 8.0f);
        for (int k = 0; k < STATES; k++)
            t->codes[k][i] = (uint8_t)(i * (7 + 4 * k) % 256);
    }
    for (int64_t b = 0; b < rows * sw_state8_blocks(cols); b++)
        for (int k = 0; k < STATES; k++)
            t->scales[k][b] = b % 5 == 4 ? 0.0f : 0.01f / (float)(1 + b);
}

static void update(int isa, const sw_optim_rule *rule, tensor *t, int64_t rows, int64_t cols,
                   const sw_par *par)
{
    const sw_state8 state[STATES] = {{t->codes[0], t->scales[0]}, {t->codes[1], t->scales[1]}};
    sw_pointwise((sw_isa)isa)->update8(rule, t->p, t->g, state, rows, cols, 0.5f, par);
}

/* The step of one element in float64, and the sizes that its roundings are parts of. */
static void plain_step(const sw_optim_rule *r, double *p, double *s, double g, double *size)
{
    const double decay = (double)r->weight_decay,
                 d = g * 0.5 + (r->decoupled ? 0.0 : decay * *p);
    const double b1 = (double)r->beta1, b2 = (double)r->beta2, lr = (double)r->lr;
    const double keep = r->decoupled ? 1.0 - lr * decay : 1.0;
    if (r->kind == SW_OPTIM_momentum) {
        const double mu = (double)r->momentum;
        size[0] = fabs(mu * s[0]) + fabs(d);
        s[0] = mu * s[0] + d;
        *p -= lr * s[0];
    } else if (r->kind == SW_OPTIM_lion) {
        const double c = b1 * s[0] + (1.0 - b1) * d;
        size[0] = fabs(b2 * s[0]) + fabs(d);
        s[0] = b2 * s[0] + (1.0 - b2) * d;
        *p = *p * keep - (c > 0.0 ? lr : c < 0.0 ? -lr : 0.0);
    } else {
        size[0] = fabs(b1 * s[0]) + fabs(d);
        s[0] = b1 * s[0] + (1.0 - b1) * d;
        s[1] = size[1] = b2 * s[1] + (1.0 - b2) * d * d;
        *p = *p * keep - lr / r->correction1 * s[0] /
                             (sqrt(s[1]) / sqrt(r->correction2) + (double)r->epsilon);
    }
}

static const sw_optim_rule rules[] = {
    {.kind = SW_OPTIM_adam,
     .lr = 0.01f,
     .beta1 = 0.9f,
     .beta2 = 0.99f,
     .epsilon = 1e-4f,
     .weight_decay = 0.1f,
     .decoupled = true,
     .correction1 = 0.3,
     .correction2 = 0.2},
    {.kind = SW_OPTIM_momentum,
     .lr = 0.1f,
     .momentum = 0.9f,
     .weight_decay = 0.01f,
     .correction1 = 1.0,
     .correction2 = 1.0},
    {.kind = SW_OPTIM_lion,
     .lr = 0.01f,
     .beta1 = 0.9f,
     .beta2 = 0.99f,
     .weight_decay = 0.1f,
     .decoupled = true,
     .correction1 = 1.0,
     .correction2 = 1.0},
};

/* A state is off by at most six roundings of its terms, and what its byte stands for by no more
 * from it than the nearest value. */
static void compare(const sw_optim_rule *r, const tensor *before, const tensor *after,
                    int64_t rows, int64_t cols)
{
    const double u = 0x1p-24;
    const int states = r->kind == SW_OPTIM_adam ? 2 : 1;
    const int64_t blocks = sw_state8_blocks(cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        const int64_t b = i / cols * blocks + i % cols / SW_STATE8_BLOCK;
        double p = (double)before->p[i], s[STATES] = {0}, size[STATES] = {0};
        for (int k = 0; k < states; k++)
            s[k] = (double)sw_state8_code_of(k == 0)->value[before->codes[k][i]] *
                   (double)before->scales[k][b];
        plain_step(r, &p, s, (double)before->g[i], size);
        const double moved = fabs(p - (double)before->p[i]);
        SW_CHECK(fabs(p - (double)after->p[i]) <=
                     32.0 * u * (fabs(p) + moved + size[0] * (double)r->lr),
                 "rule %d, element %d: %.9g, not %.9g", (int)r->kind, (int)i,
                 (double)after->p[i], p);
        for (int k = 0; k < states; k++) {
            const float *values = sw_state8_code_of(k == 0)->value;
            const double scale = (double)after->scales[k][b];
            const double got = (double)values[after->codes[k][i]] * scale;
            double least = fabs(s[k]);
            for (int v = 1; v < 256; v++)
                least = fmin(least, fabs((double)values[v] * scale - s[k]));
            if (k == 1 && s[1] > 0.0) /* never 0 */
                least = fmax(least, fmin(s[1], (double)values[1] * scale));
            if (!SW_CHECK(fabs(got - s[k]) <= least + 16.0 * u * (size[k] + scale),
                          "rule %d, state %d, element %d: %.9g, not %.9g", (int)r->kind, k,
                          (int)i, got, s[k]))
                return;
        }
    }
}

static const int64_t shapes[][2] = {{1, 5000}, {3, 700}, {600, 9},
                                    {40, 256}, {1, 1},   {70, 257}};

SW_TEST("an update is that of float64, and a set of bits for all levels, threads and cuts")
{
    static tensor first, t;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const int64_t rows = shapes[s][0], cols = shapes[s][1];
            for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
                for (int way = 0; way < 2; way++) {
                    static tensor before;
                    begin(&before, rows, cols);
                    t = before;
                    for (int64_t row = 0; way == 1 && row < rows; row++) { /* row by row */
                        const int64_t at = row * cols, b = row * sw_state8_blocks(cols);
                        const sw_state8 state[] = {{t.codes[0] + at, t.scales[0] + b},
                                                   {t.codes[1] + at, t.scales[1] + b}};
                        sw_pointwise((sw_isa)isa)
                            ->update8(&rules[r], t.p + at, t.g + at, state, 1, cols, 0.5f,
                                      &sw_par_alone);
                    }
                    if (way == 0)
                        update(isa, &rules[r], &t, rows, cols, &three);
                    if (isa == 0 && way == 0) {
                        compare(&rules[r], &before, &t, rows, cols);
                        first = t;
                    }
                    SW_CHECK(memcmp(&t, &first, sizeof t) == 0,
                             "rule %d, %d x %d, isa %d, way %d: other bits", (int)rules[r].kind,
                             (int)rows, (int)cols, isa, way);
                }
        }
}

/* A NaN or an infinity takes its block and no other; a block of nothing has scale 0. */
SW_TEST("a block that is not finite is NaN as a whole")
{
    static tensor t;
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (int bad = 0; bad < 2; bad++) {
            memset(&t, 0, sizeof t);
            t.g[300] = bad ? NAN : INFINITY;
            t.g[600] = 1.0f;
            for (int step = 0; step < 2; step++, t.g[300] = 0.0f)
                update(isa, &rules[0], &t, 1, 1024, &three);
            for (int k = 0; k < STATES; k++) {
                CU_ASSERT_EQUAL(t.scales[k][0], 0.0f);
                CU_ASSERT(t.scales[k][1] != t.scales[k][1]);
                CU_ASSERT(t.scales[k][2] > 0.0f && isfinite(t.scales[k][2]));
                CU_ASSERT_EQUAL(t.scales[k][3], 0.0f);
            }
            CU_ASSERT(t.p[256] != t.p[256] && t.p[511] != t.p[511]);
            CU_ASSERT(t.p[255] == 0.0f && isfinite(t.p[600]) && t.p[600] < 0.0f);
        }
}
