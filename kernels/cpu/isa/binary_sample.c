/* Bits of logits, drawn by counter: where they are used and where their estimate is summed. A
 * word of bits takes eight blocks of Philox, 64 numbers of 16 bits, which are compared with
 * their bounds 32 at a time. */
#include "kernels/cpu/isa/binary_internal.h"

enum { WORD_BLOCKS = 8, WORDS = 4, DRAWS = 64 };

/* ---- draws and bounds ---------------------------------------------------------------------
 */

/* Bit i: u_i < below[i], u_i the lower or upper half of a word, or 65535 less it. */
SW_VEC_FN uint64_t below_bits(const uint32_t *u, const uint16_t *below, bool mirrored)
{
    uint64_t bits = 0;
#if SW_ISA_ID == 2
    const __m512i flip = _mm512_set1_epi32(mirrored ? -1 : 0);
    for (int i = 0; i < 2; i++)
        bits |= (uint64_t)_mm512_cmplt_epu16_mask(
                    _mm512_xor_si512(_mm512_loadu_si512(u + 16 * i), flip),
                    _mm512_loadu_si512(below + 32 * i))
                << 32 * i;
#elif SW_ISA_ID == 1
    const __m256i flip = _mm256_set1_epi16((short)(mirrored ? 0x7fff : 0x8000));
    const __m256i top = _mm256_set1_epi16((short)0x8000); /* signed comparisons of unsigned */
    for (int i = 0; i < 2; i++) {
        __m256i less[2];
        for (int k = 0; k < 2; k++) {
            const int at = 32 * i + 16 * k;
            const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(u + at / 2));
            const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(below + at));
            less[k] = _mm256_cmpgt_epi16(_mm256_xor_si256(b, top), _mm256_xor_si256(a, flip));
        }
        const __m256i both =
            _mm256_permute4x64_epi64(_mm256_packs_epi16(less[0], less[1]), 0xd8);
        bits |= (uint64_t)(uint32_t)_mm256_movemask_epi8(both) << 32 * i;
    }
#else
    const uint32_t flip = mirrored ? 0xffffu : 0;
    for (int i = 0; i < DRAWS; i++)
        bits |= (uint64_t)(((u[i / 2] >> i % 2 * 16 & 0xffffu) ^ flip) < below[i]) << i;
#endif
    return bits;
}

void swi_binary_sample(uint64_t *plus, uint64_t *minus, const swi_binary_filters *f,
                       const swi_noise_source *from)
{
    uint32_t words[4 * (WORDS * WORD_BLOCKS + 8)];
    const int64_t n = f->rows * f->words;
    int64_t row = 0, w = 0;
    for (int64_t k = 0; k < n; k += WORDS) {
        const int64_t m = n - k < WORDS ? n - k : WORDS;
        swi_noise_words(words, (f->first * f->words + k) * WORD_BLOCKS, m * WORD_BLOCKS, from);
        for (int64_t i = 0; i < m; i++) {
            const uint32_t *u = words + i * (DRAWS / 2);
            const uint16_t *below = f->below + (k + i) * DRAWS;
            const int64_t to = w * f->step + row * f->apart;
            plus[to] = below_bits(u, below, false);
            if (minus != NULL)
                minus[to] = below_bits(u, below, true);
            if (++w == f->words) {
                w = 0;
                row++;
            }
        }
    }
}

void swi_binary_bounds(uint16_t *below, const float *logits, int64_t n, int64_t channels,
                       int64_t taps, float scale)
{
    const int64_t wide = sw_binary_words(channels) * 64;
    memset(below, 0, (size_t)(n * taps * wide) * sizeof *below);
    for (int64_t r = 0; r < n; r++) {
        const float *w = logits + r * channels * taps;
        uint16_t *to = below + r * taps * wide;
        for (int64_t c = 0; taps == 1 && c < channels; c++)
            to[c] = sw_binary_below(w[c], scale);
        for (int64_t i = 0; taps > 1 && i < channels * taps; i += DRAWS) {
            uint16_t some[DRAWS];
            const int64_t m = channels * taps - i < DRAWS ? channels * taps - i : DRAWS;
            for (int64_t k = 0; k < m; k++)
                some[k] = sw_binary_below(w[i + k], scale);
            for (int64_t k = 0; k < m; k++)
                to[(i + k) % taps * wide + (i + k) / taps] = some[k];
        }
    }
}

/* ---- the estimate -------------------------------------------------------------------------
 */

/* Rows of a part: a few words at least, for the draws go four words at a time. */
static int64_t rows_of(int64_t words)
{
    return words >= WORDS ? 1 : WORDS;
}

typedef struct {
    const sw_binary_sum *g;
    unsigned char *scratch;
    size_t each; /* bytes of a part */
    int64_t channels, words;
    int n_parts;
} sum_job;

/* Scratch of a part: sums and bounds of its rows' numbers, then the two signs' words. */
static size_t sum_bytes(int64_t words)
{
    const size_t n = (size_t)(rows_of(words) * words);
    const size_t bytes = n * (DRAWS * (sizeof(float) + sizeof(uint16_t)) + 16);
    return (bytes + 63) / 64 * 64;
}

size_t SW_KERNEL(binary, gradient_bytes)(const sw_noise_spec *spec, int threads)
{
    const int64_t words = sw_binary_words(spec->cols / spec->taps) * spec->taps;
    return sum_bytes(words) * (size_t)threads;
}

/* sums[i] += w where bit i is set; with `from_minus` less w where that one is. */
SW_VEC_FN void add_bits(float *sums, uint64_t plus, uint64_t minus, float w)
{
    const vf yes = vset1(w), no = vset1(-w);
    const uint64_t lanes = (1u << VW) - 1u;
    for (int i = 0; i < DRAWS; i += VW) {
        vf s = vload(sums + i);
        s = vadd(s, vselect(vfrombits((uint32_t)(plus >> i & lanes)), yes, vzero()));
        s = vadd(s, vselect(vfrombits((uint32_t)(minus >> i & lanes)), no, vzero()));
        vstore(sums + i, s);
    }
}

/* From sums over directions to the rows of the result. */
static void put_rows(const sum_job *j, const float *sums, const uint16_t *below, int64_t row,
                     int64_t n, float all)
{
    const sw_binary_sum *g = j->g;
    const int64_t taps = g->spec->taps, wide = j->words / taps * DRAWS;
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < g->spec->cols; i++) {
            const int64_t at = (r * taps + i % taps) * wide + i / taps;
            const float p = (float)below[at] * 0x1p-16f;
            const float most = p > 1.0f - p ? p : 1.0f - p;
            const float e = g->antithetic ? sums[at] * most : sums[at] - all * p;
            float *to = g->to + (row + r) * g->spec->cols + i;
            *to = (g->accumulate ? *to : 0.0f) + g->sigma * e;
        }
}

static void sum_rows(const sum_job *j, unsigned char *scratch, int64_t row, int64_t n,
                     float all)
{
    const sw_binary_sum *g = j->g;
    const int64_t all_words = rows_of(j->words) * j->words, m = n * j->words;
    float *sums = (float *)(void *)scratch;
    uint64_t *plus = (uint64_t *)(void *)(sums + all_words * DRAWS), *minus = plus + all_words;
    uint16_t *below = (uint16_t *)(void *)(minus + all_words);
    const swi_binary_filters f = {below, g->first_row + row, n, j->words, 1, j->words};
    memset(sums, 0, (size_t)(m * DRAWS) * sizeof *sums);
    memset(minus, 0, (size_t)m * sizeof *minus);
    swi_binary_bounds(below, g->logits + row * g->spec->cols, n, j->channels, g->spec->taps,
                      g->scale);
    for (int64_t d = 0; d < g->n; d++) {
        const sw_noise_at at = {g->seed, g->generation, g->first + (uint32_t)d};
        swi_noise_source from;
        if (g->weights[d] == 0.0f)
            continue;
        swi_noise_source_of(&from, g->spec, SW_NOISE_ELEMENTS, &at);
        swi_binary_sample(plus, g->antithetic ? minus : NULL, &f, &from);
        for (int64_t w = 0; w < m; w++)
            add_bits(sums + w * DRAWS, plus[w], minus[w], g->weights[d]);
    }
    put_rows(j, sums, below, row, n, all);
}

static void sum_part(void *arg, int part)
{
    const sum_job *j = arg;
    const sw_binary_sum *g = j->g;
    const int64_t unit = rows_of(j->words);
    const int64_t to = vpiece(g->n_rows, unit, part + 1, j->n_parts);
    double all = 0.0;
    for (int64_t d = 0; d < g->n; d++)
        all += (double)g->weights[d];
    for (int64_t row = vpiece(g->n_rows, unit, part, j->n_parts); row < to; row += unit)
        sum_rows(j, j->scratch + j->each * (size_t)part, row, to - row < unit ? to - row : unit,
                 (float)all);
}

void SW_KERNEL(binary, gradient)(const sw_binary_sum *g, void *scratch, const sw_par *par)
{
    const int64_t channels = g->spec->cols / g->spec->taps;
    const int64_t words = sw_binary_words(channels) * g->spec->taps;
    sum_job j = {g, scratch, sum_bytes(words), channels, words, par->n_threads};
    par->run(par, sum_part, &j, j.n_parts);
}

void SW_KERNEL(binary, member)(float *theta, const sw_noise_spec *spec, const sw_noise_at *at,
                               float scale, bool mirrored, int64_t first_row, int64_t n_rows)
{
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t c = 0; c < spec->cols; c++) {
            float *t = theta + r * spec->cols + c;
            const bool bit =
                sw_binary_bit(spec, at, first_row + r, c, sw_binary_below(*t, scale), mirrored);
            *t = bit ? 1.0f : -1.0f;
        }
}
