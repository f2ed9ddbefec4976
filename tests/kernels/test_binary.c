/* Layers of bits against loops over single bits: every instruction set, any sizes and numbers
 * of threads; draws against P; the estimate against its sum in float64. */
#include "kernels/dispatch.h"
#include "tests/support/suite.h"

SW_TESTS("binary")

enum { MOST = 1 << 16 };

/* As many threads as it says, in turns from the last part to the first. */
static void backwards(const sw_par *par, void (*body)(void *arg, int part), void *arg, int n)
{
    for (int i = n - 1; i >= 0; i--)
        body(arg, i);
}
static const sw_par one = {1, backwards}, three = {3, backwards};

static void fill(float *to, int64_t n, sw_dice *dice)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)sw_dice_below(dice, 2001) * 0.001f - 1.0f;
}

static bool bit_of(const uint64_t *words, int64_t row, int64_t per, int64_t i)
{
    return (words[row * per + i / 64] >> i % 64 & 1u) != 0;
}

/* ---- packing and pooling ------------------------------------------------------------------
 */

SW_TEST("packing and OR are those of plain loops")
{
    static float x[MOST];
    static uint64_t bits[MOST], pooled[MOST];
    sw_dice dice = {3};
    for (int round = 0; round < 60; round++) {
        const int64_t batch = 1 + (int64_t)sw_dice_below(&dice, 3);
        const int64_t c = 1 + (int64_t)sw_dice_below(&dice, 140), words = sw_binary_words(c);
        const int64_t h = 2 + (int64_t)sw_dice_below(&dice, 5), w = 2 + round % 4;
        const int64_t positions = h * w;
        const sw_binary_shape s =
            SW_INIT(.batch = batch, .in_h = h, .in_w = w, .out_h = h - 1, .out_w = w - 1,
                    .channels = c, .kernel_h = 2, .kernel_w = 2, .stride = 1);
        fill(x, batch * c * positions, &dice);
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
            int wrong = 0;
            const sw_binary_kernels *k = sw_binary((sw_isa)isa);
            const sw_par *par = round % 2 ? &three : &one;
            memset(bits, 0xa5, sizeof bits);
            k->pack(bits, x, batch, c, positions, 0.25f, par);
            for (int64_t i = 0; i < batch * positions; i++)
                for (int64_t b = 0; b < 64 * words; b++) {
                    const bool want =
                        b < c && x[(i / positions * c + b) * positions + i % positions] > 0.25f;
                    wrong += bit_of(bits, i, words, b) != want;
                }
            k->max_pool(pooled, bits, &s, par);
            for (int64_t i = 0; i < batch * (h - 1) * (w - 1) * words; i++) {
                const int64_t p = i / words, ox = p % (w - 1), oy = p / (w - 1) % (h - 1);
                const uint64_t *at =
                    bits + ((p / (w - 1) / (h - 1) * h + oy) * w + ox) * words + i % words;
                wrong += pooled[i] != (at[0] | at[words] | at[w * words] | at[(w + 1) * words]);
            }
            SW_CHECK(wrong == 0, "%s: %lld channels: %d differ", sw_isa_name((sw_isa)isa),
                     (long long)c, wrong);
        }
    }
}

/* ---- layers -------------------------------------------------------------------------------
 */

static float logits[MOST], bias[200], sums[3][MOST];
static uint64_t x_bits[MOST], y_bits[3][MOST];
static _Alignas(64) unsigned char scratch[1 << 22];

typedef struct {
    sw_binary_layer l;
    swi_noise_attrs a;
    int64_t taps;
} made;

static int64_t out_of(int64_t in, int64_t kernel, const sw_binary_shape *s)
{
    return (in + 2 * s->pad - kernel) / s->stride + 1;
}

/* Some layer; input bits past the channels are 0. */
static void make(made *m, int round, sw_dice *dice)
{
    const bool noise = round % 3 != 0;
    memset(m, 0, sizeof *m);
    sw_binary_shape *s = &m->l.s;
    m->a.repeats = noise ? 1 + (int64_t)sw_dice_below(dice, 3) : 1;
    m->a.directions = noise ? 1 + (int64_t)sw_dice_below(dice, 4) : 1;
    m->a.antithetic = round % 2;
    s->batch = m->a.repeats * m->a.directions * (1 + (int64_t)sw_dice_below(dice, 2));
    s->channels = 1 + (int64_t)sw_dice_below(dice, round % 5 == 0 ? 2300 : 150);
    s->outputs = 1 + (int64_t)sw_dice_below(dice, round % 5 == 0 ? 20 : 80);
    const bool conv = round % 2 == 0 && s->channels < 151;
    s->in_h = conv ? 3 + (int64_t)sw_dice_below(dice, 3) : 1;
    s->in_w = conv ? 3 + (int64_t)sw_dice_below(dice, 3) : 1;
    s->kernel_h = conv ? 1 + (int64_t)sw_dice_below(dice, 3) : 1;
    s->kernel_w = conv ? 1 + (int64_t)sw_dice_below(dice, 3) : 1;
    if (conv && s->outputs > 12)
        s->outputs = 12;
    s->stride = conv ? 1 + (int64_t)sw_dice_below(dice, 2) : 1;
    s->pad = conv ? (int64_t)sw_dice_below(dice, 3) : 0;
    s->out_h = out_of(s->in_h, s->kernel_h, s);
    s->out_w = out_of(s->in_w, s->kernel_w, s);
    m->taps = s->kernel_h * s->kernel_w;
    fill(logits, s->outputs * s->channels * m->taps, dice);
    fill(bias, s->outputs, dice);
    const int64_t words = sw_binary_words(s->channels);
    for (int64_t i = 0; i < s->batch * s->in_h * s->in_w * words; i++) {
        const int64_t rest = s->channels - i % words * 64;
        x_bits[i] = sw_dice_next(dice) & (rest >= 64 ? UINT64_MAX : ((uint64_t)1 << rest) - 1);
    }
    if (noise) {
        m->a.weight = (sw_noise_spec)SW_INIT(.kind = SW_NOISE_BITS_OF_LOGITS,
                                             .rows = s->outputs, .cols = s->channels * m->taps,
                                             .taps = (int32_t)m->taps, .stream = 5);
        m->a.bias = (sw_noise_spec){
            .kind = SW_NOISE_IID, .rows = 1, .cols = s->outputs, .taps = 1, .stream = 6};
    }
    m->l.x = x_bits;
    m->l.logits = logits;
    m->l.bias = bias;
    m->l.scale = 3.5f;
    m->l.sigma = 0.5f;
    m->l.seed = sw_dice_next(dice);
    m->l.generation = 7;
    m->l.first = 11;
}

static bool weight_bit(const made *m, int64_t evaluation, int64_t o, int64_t c, int64_t tap)
{
    const sw_binary_layer *l = &m->l;
    const float w = logits[(o * l->s.channels + c) * m->taps + tap];
    if (m->a.weight.rows == 0)
        return w > 0.0f;
    const sw_noise_at at = {l->seed, l->generation,
                            l->first + (uint32_t)(evaluation % m->a.directions)};
    return sw_binary_bit(&m->a.weight, &at, o, c * m->taps + tap, sw_binary_below(w, l->scale),
                         sw_noise_sign(&m->a, evaluation) < 0.0f);
}

/* y of one output, bit by bit. */
static double plain(const made *m, int64_t image, int64_t o, int64_t oy, int64_t ox)
{
    const sw_binary_shape *s = &m->l.s;
    const int64_t evaluation = image / (s->batch / (m->a.repeats * m->a.directions));
    int64_t sum = 0;
    for (int64_t tap = 0; tap < m->taps; tap++) {
        const int64_t y = oy * s->stride - s->pad + tap / s->kernel_w;
        const int64_t x = ox * s->stride - s->pad + tap % s->kernel_w;
        for (int64_t c = 0; y >= 0 && y < s->in_h && x >= 0 && x < s->in_w && c < s->channels;
             c++)
            sum +=
                bit_of(x_bits, (image * s->in_h + y) * s->in_w + x,
                       sw_binary_words(s->channels), c) == weight_bit(m, evaluation, o, c, tap)
                    ? 1
                    : -1;
    }
    double b = (double)bias[o];
    const sw_noise_at at = {m->l.seed, m->l.generation,
                            m->l.first + (uint32_t)(evaluation % m->a.directions)};
    if (m->a.bias.rows != 0)
        b += (double)sw_noise_sign(&m->a, evaluation) * (double)m->l.sigma *
             (double)sw_noise_number(&m->a.bias, SW_NOISE_ELEMENTS, &at, o);
    return (double)sum / sqrt((double)(s->channels * m->taps)) - b;
}

static void run(made *m, sw_isa isa, const sw_par *par, float *to, uint64_t *bits)
{
    const sw_binary_kernels *k = sw_binary(isa);
    CU_ASSERT_FATAL(k->layer_bytes(&m->l.s, par->n_threads) <= sizeof scratch);
    m->l.a = &m->a;
    m->l.sums = to;
    m->l.bits = NULL;
    memset(scratch, 0x5a, sizeof scratch);
    k->layer(&m->l, scratch, par);
    m->l.sums = NULL;
    m->l.bits = bits;
    k->layer(&m->l, scratch, par);
}

SW_TEST("layers are those of loops over bits")
{
    sw_dice dice = {23};
    const int rounds = sw_tests_full() ? 300 : 30;
    for (int round = 0; round < rounds; round++) {
        made m;
        make(&m, round, &dice);
        const sw_binary_shape *s = &m.l.s;
        const int64_t positions = s->out_h * s->out_w, words = sw_binary_words(s->outputs);
        int far = 0, other = 0, differ = 0;
        if (positions < 1)
            continue;
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
            run(&m, (sw_isa)isa, isa == 1 ? &three : &one, sums[isa], y_bits[isa]);
            differ += memcmp(sums[isa], sums[0],
                             (size_t)(s->batch * s->outputs * positions) * 4) != 0;
            differ +=
                memcmp(y_bits[isa], y_bits[0], (size_t)(s->batch * positions * words) * 8) != 0;
        }
        for (int64_t i = 0; i < s->batch * positions; i++)
            for (int64_t o = 0; o < 64 * words; o++) {
                const int64_t image = i / positions, at = i % positions;
                const bool bit = bit_of(y_bits[0], i, words, o);
                if (o >= s->outputs) {
                    other += bit;
                    continue;
                }
                const float y = sums[0][(image * s->outputs + o) * positions + at];
                far += !(fabs((double)y - plain(&m, image, o, at / s->out_w, at % s->out_w)) <
                         1e-5);
                other += bit != (y > 0.0f);
            }
        SW_CHECK(far == 0 && other == 0 && differ == 0,
                 "round %d (%lld channels, %lld outputs): %d sums, %d bits, %d copies are "
                 "others",
                 round, (long long)s->channels, (long long)s->outputs, far, other, differ);
    }
}

/* Filters that were drawn before give what is drawn in place. */
SW_TEST("stored filters are those of draws")
{
    static uint64_t stored[MOST];
    sw_dice dice = {5};
    for (int round = 1; round < 20; round++) {
        made m;
        make(&m, round, &dice);
        if (m.a.weight.rows == 0 || m.a.antithetic != 0)
            continue;
        m.l.a = &m.a;
        CU_ASSERT_FATAL(sw_binary(SW_ISA_BASE)->stored_bytes(&m.l) <= sizeof stored);
        run(&m, sw_cpu_isa(), &one, sums[0], y_bits[0]);
        sw_binary(sw_cpu_isa())->draw(stored, &m.l, scratch, &three);
        m.l.stored = stored;
        run(&m, sw_cpu_isa(), &one, sums[1], y_bits[1]);
        const sw_binary_shape *s = &m.l.s;
        CU_ASSERT_EQUAL(
            memcmp(sums[0], sums[1], (size_t)(s->batch * s->outputs * s->out_h * s->out_w) * 4),
            0);
    }
}

/* ---- draws --------------------------------------------------------------------------------
 */

enum { N = 4096 };

/* Over many directions, of both signs: each bit's share is P, pairs are as far apart as they
 * can be, and neither elements nor directions know of each other. */
SW_TEST("draws have their probability")
{
    const sw_noise_spec s = {
        .kind = SW_NOISE_BITS_OF_LOGITS, .rows = 2, .cols = 6, .taps = 3, .stream = 9};
    double worst = 0.0, worst_pair = 0.0, together = 0.0, neighbours = 0.0;
    for (int64_t i = 0; i < 12; i++) {
        const uint16_t below = sw_binary_below((float)(i - 6) * 0.7f, 1.0f);
        const double p = (double)below / 65536.0;
        double share = 0.0, mirrored = 0.0, both = 0.0, next = 0.0, last = 0.0;
        for (uint32_t d = 0; d < N; d++) {
            const sw_noise_at at = {77, 3, d};
            const double a = sw_binary_bit(&s, &at, i / 6, i % 6, below, false);
            const double b = sw_binary_bit(&s, &at, i / 6, i % 6, below, true);
            const double c = sw_binary_bit(&s, &at, (i + 6) % 12 / 6, i % 6, below, false);
            share += a / N;
            mirrored += b / N;
            both += a * b / N;
            next += (a - p) * (c - p) / N;
            last += d > 0 ? (a - p) * (neighbours - p) / N : 0.0;
            neighbours = a;
        }
        const double bound = 4.5 * sqrt(p * (1.0 - p) / N);
        worst = fmax(worst, fmax(fabs(share - p), fabs(mirrored - p)) / bound);
        worst_pair =
            fmax(worst_pair, fabs(both - fmax(0.0, 2.0 * p - 1.0)) / (4.5 * sqrt(0.25 / N)));
        together = fmax(together,
                        fmax(fabs(next), fabs(last)) / (4.5 * p * (1.0 - p) / sqrt((double)N)));
    }
    SW_CHECK(worst < 1.0 && worst_pair < 1.0 && together < 1.0,
             "of 4.5 deviations: share %.2f, pairs %.2f, neighbours %.2f", worst, worst_pair,
             together);
    CU_ASSERT_EQUAL(sw_binary_below(-200.0f, 1.0f), 0);
    CU_ASSERT_EQUAL(sw_binary_below(200.0f, 1.0f), 65535);
    CU_ASSERT_EQUAL(sw_binary_below(0.0f, 1.0f), 32768);
}

/* ---- the estimate -------------------------------------------------------------------------
 */

static double score(const sw_binary_sum *g, int64_t row, int64_t col)
{
    double sum = 0.0;
    const uint16_t below =
        sw_binary_below(g->logits[(row - g->first_row) * g->spec->cols + col], g->scale);
    const double p = (double)below / 65536.0;
    for (int64_t d = 0; d < g->n; d++) {
        const sw_noise_at at = {g->seed, g->generation, g->first + (uint32_t)d};
        const double bit = sw_binary_bit(g->spec, &at, row, col, below, false);
        const double other = sw_binary_bit(g->spec, &at, row, col, below, true);
        sum += (double)g->weights[d] *
               (g->antithetic ? fmax(p, 1.0 - p) * (bit - other) : bit - p);
    }
    return (double)g->sigma * sum;
}

SW_TEST("the estimate is the sum of scores")
{
    static float weights[300], got[3][MOST], start[MOST];
    sw_dice dice = {31};
    for (int round = 0; round < 12; round++) {
        const int32_t taps = round % 3 == 0 ? 9 : 1;
        const int64_t channels = 1 + (int64_t)sw_dice_below(&dice, round % 4 == 1 ? 400 : 100);
        const sw_noise_spec s = SW_INIT(.kind = SW_NOISE_BITS_OF_LOGITS, .rows = 12,
                                        .cols = channels * taps, .taps = taps, .stream = 9);
        fill(logits, 12 * s.cols, &dice);
        fill(weights, 300, &dice);
        fill(start, 12 * s.cols, &dice);
        double off = 0.0, size = 0.0;
        int differ = 0;
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
            memcpy(got[isa], start, sizeof start);
            for (int64_t row = 0; row < 12; row += 5) { /* cut in three */
                const sw_par *par = isa == 1 ? &three : &one;
                const sw_binary_sum g =
                    SW_INIT(.spec = &s, .seed = 4, .generation = 5, .first = 6, .n = 300,
                            .weights = weights, .logits = logits + row * s.cols,
                            .to = got[isa] + row * s.cols, .scale = 3.0f, .sigma = 0.5f,
                            .antithetic = round % 2 == 0, .accumulate = round % 5 == 0,
                            .first_row = row, .n_rows = row + 5 <= 12 ? 5 : 12 - row);
                CU_ASSERT_FATAL(sw_binary((sw_isa)isa)->gradient_bytes(&s, par->n_threads) <=
                                sizeof scratch);
                sw_binary((sw_isa)isa)->gradient(&g, scratch, par);
                for (int64_t i = 0; isa == 0 && i < g.n_rows * s.cols; i++) {
                    const double want = score(&g, row + i / s.cols, i % s.cols) +
                                        (g.accumulate ? (double)start[row * s.cols + i] : 0.0);
                    off += pow((double)g.to[i] - want, 2.0);
                    size += want * want;
                }
            }
            differ += memcmp(got[isa], got[0], sizeof start) != 0;
        }
        SW_CHECK(sqrt(off / size) < 2e-6 && differ == 0, "round %d: off by %.2g, %d differ",
                 round, sqrt(off / size), differ);
    }
}

/* A member without noise has the bits of its direction. */
SW_TEST("a member has the bits of its direction")
{
    const sw_noise_spec s = {
        .kind = SW_NOISE_BITS_OF_LOGITS, .rows = 8, .cols = 90, .taps = 9, .stream = 9};
    const sw_noise_at at = {1, 2, 3};
    static float theta[720];
    sw_dice dice = {2};
    fill(logits, 720, &dice);
    memcpy(theta, logits, sizeof theta);
    for (int mirrored = 0; mirrored < 2; mirrored++) {
        int wrong = 0;
        memcpy(theta, logits, sizeof theta);
        sw_binary(SW_ISA_BASE)->member(theta + 180, &s, &at, 2.0f, mirrored, 2, 4);
        for (int64_t i = 0; i < 720; i++) {
            const bool bit = sw_binary_bit(&s, &at, i / 90, i % 90,
                                           sw_binary_below(logits[i], 2.0f), mirrored);
            const float want = i < 180 || i >= 540 ? logits[i] : bit ? 1.0f : -1.0f;
            wrong += theta[i] != want;
        }
        CU_ASSERT_EQUAL(wrong, 0);
    }
}
