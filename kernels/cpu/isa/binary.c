/* Layers of bits. Eight filters go side by side, one in each 64-bit lane: a word of the input
 * meets theirs at once, and the bits that differ are counted by lane, so nothing is summed
 * across lanes. Filters are made tile by tile where they are used, from signs or from draws.
 *
 * Draws are by counter: where they are used and where their estimate is summed. A word of bits
 * takes eight blocks of Philox, 64 numbers of 16 bits, which are compared with their bounds 32
 * at a time. */
#include "kernels/cpu/isa/noise_internal.h"
#include <math.h>

/* Filters go by eight: one in each 64-bit lane of the widest vector. */
enum { TILE = 8 };

SW_VEC_FN uint64_t bload(const void *words, int64_t i)
{
    uint64_t word;
    memcpy(&word, (const unsigned char *)words + 8 * i, 8);
    return word;
}
SW_VEC_FN void bstore(void *words, int64_t i, uint64_t word)
{
    memcpy((unsigned char *)words + 8 * i, &word, 8);
}

/* ---- bits that differ -------------------------------------------------------------------- */

#if SW_ISA_ID >= 1
enum { LANES = SW_ISA_ID == 2 ? 8 : 4 };
typedef uint64_t vb __attribute__((vector_size(8 * LANES)));

SW_VEC_FN vb bload_tile(const uint64_t *p)
{
    vb v;
    memcpy(&v, p, sizeof v);
    return v;
}
/* a plus the bits of each byte of x ^ y; a plus the sum of the bytes of each lane of b. */
#if SW_ISA_ID == 2
SW_VEC_FN vb bcount(vb a, vb x, vb y)
{
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m512i low = _mm512_set1_epi8(15), v = (__m512i)(x ^ y);
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
    const __m512i sum = _mm512_add_epi8((__m512i)a, _mm512_shuffle_epi8(table, v & low));
    return (vb)_mm512_add_epi8(sum, _mm512_shuffle_epi8(table, high));
}
SW_VEC_FN vb bsum(vb a, vb b)
{
    return a + (vb)_mm512_sad_epu8((__m512i)b, _mm512_setzero_si512());
}
#else
SW_VEC_FN vb bcount(vb a, vb x, vb y)
{
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m256i low = _mm256_set1_epi8(15), v = (__m256i)(x ^ y);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
    const __m256i sum = _mm256_add_epi8((__m256i)a, _mm256_shuffle_epi8(table, v & low));
    return (vb)_mm256_add_epi8(sum, _mm256_shuffle_epi8(table, high));
}
SW_VEC_FN vb bsum(vb a, vb b)
{
    return a + (vb)_mm256_sad_epu8((__m256i)b, _mm256_setzero_si256());
}
#endif
#endif

/* Runs of words of the input, and where in the tile their filters' words begin. */
enum { RUNS = 16, BYTES_HOLD = 31 }; /* words that a byte counts at most */
typedef struct {
    const unsigned char *x[RUNS];
    int64_t at[RUNS], words; /* of each run */
    int n;
} runs;

/* counts[f] += bits of filter f that differ from the input's. tile: word w of filter f at [w
 * TILE + f]. */
static void count_differing(uint64_t counts[TILE], const runs *r, const uint64_t *tile)
{
#if SW_ISA_ID >= 1
    vb sum[TILE / LANES], bytes[TILE / LANES];
    int64_t held = 0;
    for (int v = 0; v < TILE / LANES; v++) {
        sum[v] = bload_tile(counts + v * LANES);
        bytes[v] = (vb){0};
    }
    for (int i = 0; i < r->n; i++)
        for (int64_t w = 0; w < r->words; w++) {
            const vb x = (vb){0} + bload(r->x[i], w);
            const uint64_t *filters = tile + (r->at[i] + w) * TILE;
            for (int v = 0; v < TILE / LANES; v++)
                bytes[v] = bcount(bytes[v], x, bload_tile(filters + v * LANES));
            if (++held < BYTES_HOLD)
                continue;
            for (int v = 0; v < TILE / LANES; v++) {
                sum[v] = bsum(sum[v], bytes[v]);
                bytes[v] = (vb){0};
            }
            held = 0;
        }
    for (int v = 0; v < TILE / LANES; v++) {
        const vb all = bsum(sum[v], bytes[v]);
        memcpy(counts + v * LANES, &all, sizeof all);
    }
#else
    for (int i = 0; i < r->n; i++)
        for (int64_t w = 0; w < r->words; w++) {
            const uint64_t x = bload(r->x[i], w);
            for (int f = 0; f < TILE; f++)
                counts[f] +=
                    (uint64_t)__builtin_popcountll(x ^ tile[(r->at[i] + w) * TILE + f]);
        }
#endif
}

/* ---- draws and bounds -------------------------------------------------------------------- */

enum { WORD_BLOCKS = 8, WORDS = 4, DRAWS = 64 };

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

/* Bits of `rows` filters of `words` words each, from row `first` of the logits on: word w of
 * filter f at [w * step + f * apart]. minus, or NULL: of the mirrored draws. */
typedef struct {
    const uint16_t *below;
    int64_t first, rows, words, step, apart;
} filters_drawn;

static void sample(uint64_t *plus, uint64_t *minus, const filters_drawn *f,
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

/* below: sw_binary_below of n rows of logits in the order of their filters' bits, 0 for bits of
 * padding. */
static void bounds(uint16_t *below, const float *logits, int64_t n, int64_t channels,
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

/* ---- layers ------------------------------------------------------------------------------ */

typedef struct {
    const sw_binary_layer *l;
    unsigned char *scratch;
    size_t each;                       /* bytes of a part */
    int64_t words, taps, filter_words; /* of a position of x; of a filter */
    int64_t directions, repeats, rows; /* rows of an evaluation */
    float root;                        /* 1 / sqrt(inputs) */
    bool sampled, noisy_bias, mirrors;
    uint64_t *to; /* of draws that are stored; NULL: of a layer */
    int n_parts;
} job;

/* The data of a part: the tile of filters o, o + 1, ... */
typedef struct {
    uint64_t *plus, *minus;
    const uint64_t *filters; /* of the positive sign: plus, or stored ones */
    uint16_t *below;
    float bias[2][TILE]; /* of the positive and of the negative sign */
    int64_t o;
    int n;
} tile;

static int64_t filter_words(const sw_binary_shape *s)
{
    return s->kernel_h * s->kernel_w * sw_binary_words(s->channels);
}

static size_t part_bytes(const sw_binary_shape *s)
{
    return (size_t)filter_words(s) * TILE * (2 * 8 + 64 * sizeof(uint16_t));
}

size_t SW_KERNEL(binary, layer_bytes)(const sw_binary_shape *s, int threads)
{
    return part_bytes(s) * (size_t)threads;
}

/* Bits of up to 64 numbers that are `step` apart. */
static uint64_t pack_word(const float *x, int64_t n, int64_t step, float threshold)
{
    uint64_t word = 0;
#if SW_ISA_ID == 2
    if (n == 64 && step == 1) {
        for (int i = 0; i < 64; i += 16)
            word |= (uint64_t)_mm512_cmp_ps_mask(vload(x + i), vset1(threshold), _CMP_GT_OQ)
                    << i;
        return word;
    }
#elif SW_ISA_ID == 1
    if (n == 64 && step == 1) {
        for (int i = 0; i < 64; i += 8)
            word |= (uint64_t)(uint32_t)_mm256_movemask_ps(
                        _mm256_cmp_ps(vload(x + i), vset1(threshold), _CMP_GT_OQ))
                    << i;
        return word;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        word |= (uint64_t)(x[i * step] > threshold) << i;
    return word;
}

/* Signs of the logits, without noise. */
static void take_signs(const job *j, tile *t)
{
    const sw_binary_shape *s = &j->l->s;
    for (int f = 0; f < t->n; f++) {
        const float *w = j->l->logits + (t->o + f) * s->channels * j->taps;
        for (int64_t i = 0; i < j->filter_words; i++) {
            const int64_t tap = i / j->words, c = 64 * (i % j->words), rest = s->channels - c;
            t->plus[i * TILE + f] =
                pack_word(w + c * j->taps + tap, rest < 64 ? rest : 64, j->taps, 0.0f);
        }
    }
}

/* Where the stored filters of a tile begin, in words. */
static int64_t stored_at(const job *j, int64_t direction, int64_t o)
{
    const int64_t tiles = (j->l->s.outputs + TILE - 1) / TILE;
    return (direction * tiles + o / TILE) * j->filter_words * TILE;
}

/* Filters and bias of one direction. */
static void make_tile(const job *j, tile *t, int64_t direction)
{
    const sw_binary_layer *l = j->l;
    const sw_noise_at at = {l->seed, l->generation, l->first + (uint32_t)direction};
    swi_noise_source from;
    t->filters = t->plus;
    if (l->stored != NULL && j->to == NULL) {
        t->filters = l->stored + stored_at(j, direction, t->o);
    } else if (j->sampled) {
        const filters_drawn f = {t->below, t->o, t->n, j->filter_words, TILE, 1};
        swi_noise_source_of(&from, &l->a->weight, SW_NOISE_ELEMENTS, &at);
        sample(t->plus, j->mirrors ? t->minus : NULL, &f, &from);
    }
    float e[TILE] = {0};
    if (j->noisy_bias) {
        swi_noise_source_of(&from, &l->a->bias, SW_NOISE_ELEMENTS, &at);
        swi_noise_draw(e, t->o, t->n, &from);
    }
    for (int f = 0; f < t->n; f++) {
        const float b = l->bias != NULL ? l->bias[t->o + f] : 0.0f;
        t->bias[0][f] = b + l->sigma * e[f];
        t->bias[1][f] = b - l->sigma * e[f];
    }
}

/* Which of eight numbers are above 0. */
SW_VEC_FN unsigned positive(const float y[TILE])
{
#if SW_ISA_ID >= 1
    return (unsigned)_mm256_movemask_ps(
        _mm256_cmp_ps(_mm256_loadu_ps(y), _mm256_setzero_ps(), _CMP_GT_OQ));
#else
    unsigned bits = 0;
    for (int f = 0; f < TILE; f++)
        bits |= (unsigned)(y[f] > 0.0f) << f;
    return bits;
#endif
}

/* Eight outputs of position `at` of image n. */
static void put(const job *j, const tile *t, const uint64_t *counts, const float *bias,
                int64_t inside, int64_t n, int64_t at)
{
    const sw_binary_layer *l = j->l;
    const sw_binary_shape *s = &l->s;
    const int64_t positions = s->out_h * s->out_w;
    float y[TILE];
    for (int f = 0; f < TILE; f++)
        y[f] = (float)((int32_t)inside - 2 * (int32_t)counts[f]) * j->root - bias[f];
    for (int f = 0; l->sums != NULL && f < t->n; f++)
        l->sums[(n * s->outputs + t->o + f) * positions + at] = y[f];
    if (l->bits == NULL)
        return;
    const int64_t bytes = 8 * sw_binary_words(s->outputs);
    const int64_t from = t->o / TILE;
    const unsigned bits = positive(y) & (0xffu >> (TILE - t->n));
    uint64_t word = bload(l->bits, ((n * positions + at) * bytes + from) / 8);
    const int shift = (int)(from % 8 * 8);
    word = from % 8 == 0 ? bits : word | (uint64_t)bits << shift;
    bstore(l->bits, ((n * positions + at) * bytes + from) / 8, word);
}

/* The part of [0, kernel) at `from` that lies in [0, size). */
static int64_t clip(int64_t from, int64_t kernel, int64_t size, int64_t *first)
{
    *first = from < 0 ? -from : 0;
    const int64_t end = size - from < kernel ? size - from : kernel;
    return end > *first ? end - *first : 0;
}

static void one_position(const job *j, const tile *t, const uint64_t *filters,
                         const float *bias, int64_t n, int64_t oy, int64_t ox)
{
    const sw_binary_shape *s = &j->l->s;
    const int64_t y = oy * s->stride - s->pad, x = ox * s->stride - s->pad;
    uint64_t counts[TILE] = {0};
    int64_t ky, kx;
    const int64_t high = clip(y, s->kernel_h, s->in_h, &ky);
    const int64_t wide = clip(x, s->kernel_w, s->in_w, &kx);
    runs r = {.words = wide * j->words};
    for (int64_t k = ky; wide > 0 && k < ky + high; k++) {
        const int64_t at = ((n * s->in_h + y + k) * s->in_w + x + kx) * j->words;
        r.x[r.n] = (const unsigned char *)j->l->x + 8 * at;
        r.at[r.n++] = (k * s->kernel_w + kx) * j->words;
        if (r.n == RUNS || k + 1 == ky + high) {
            count_differing(counts, &r, filters);
            r.n = 0;
        }
    }
    put(j, t, counts, bias, high * wide * s->channels, n, oy * s->out_w + ox);
}

static void one_image(const job *j, const tile *t, bool mirrored, int64_t n)
{
    const sw_binary_shape *s = &j->l->s;
    for (int64_t oy = 0; oy < s->out_h; oy++)
        for (int64_t ox = 0; ox < s->out_w; ox++)
            one_position(j, t, mirrored && j->mirrors ? t->minus : t->filters,
                         t->bias[mirrored], n, oy, ox);
}

/* A tile over the rows of all evaluations of a direction. */
static void one_direction(const job *j, tile *t, int64_t d)
{
    make_tile(j, t, d);
    if (j->to != NULL) {
        memcpy(j->to + stored_at(j, d, t->o), t->plus,
               (size_t)j->filter_words * TILE * sizeof *t->plus);
        return;
    }
    for (int64_t k = 0; k < j->repeats; k++) {
        const int64_t evaluation = k * j->directions + d;
        const bool mirrored = sw_noise_sign(j->l->a, evaluation) < 0.0f;
        for (int64_t i = 0; i < j->rows; i++)
            one_image(j, t, mirrored, evaluation * j->rows + i);
    }
}

/* Directions are shared out, or the images where no direction has anything of its own. */
static void run_part(void *arg, int part)
{
    const job *j = arg;
    const sw_binary_layer *l = j->l;
    const sw_binary_shape *s = &l->s;
    const bool plain = !j->sampled && !j->noisy_bias;
    const int64_t n = plain ? s->batch : j->directions;
    const int64_t from = vpiece(n, 1, part, j->n_parts),
                  to = vpiece(n, 1, part + 1, j->n_parts);
    tile t = {.bias = {{0}}, .plus = (uint64_t *)(void *)(j->scratch + j->each * (size_t)part)};
    t.minus = t.plus + j->filter_words * TILE;
    t.below = (uint16_t *)(void *)(t.minus + j->filter_words * TILE);
    for (t.o = 0; from < to && t.o < s->outputs; t.o += TILE) {
        t.n = (int)(s->outputs - t.o < TILE ? s->outputs - t.o : TILE);
        memset(t.plus, 0, (size_t)j->filter_words * TILE * 2 * sizeof *t.plus);
        if (!j->sampled)
            take_signs(j, &t);
        else
            bounds(t.below, l->logits + t.o * s->channels * j->taps, t.n, s->channels, j->taps,
                   l->scale);
        if (plain)
            make_tile(j, &t, 0);
        for (int64_t i = from; i < to; i++)
            if (plain)
                one_image(j, &t, false, i);
            else
                one_direction(j, &t, i);
    }
}

static void run(const sw_binary_layer *l, uint64_t *to, void *scratch, const sw_par *par)
{
    const swi_noise_attrs *a = l->a;
    job j = {.l = l, .scratch = scratch, .each = part_bytes(&l->s), .to = to};
    j.words = sw_binary_words(l->s.channels);
    j.taps = l->s.kernel_h * l->s.kernel_w;
    j.filter_words = filter_words(&l->s);
    j.sampled = a->weight.rows > 0, j.noisy_bias = a->bias.rows > 0;
    j.n_parts = par->n_threads;
    j.root = 1.0f / sqrtf((float)(l->s.channels * j.taps));
    j.directions = a->directions;
    j.repeats = a->repeats;
    j.rows = l->s.batch / (a->directions * a->repeats);
    j.mirrors = j.sampled && a->antithetic != 0 && a->repeats > 1;
    vparts(par, run_part, &j, j.n_parts, 1);
}

void SW_KERNEL(binary, layer)(const sw_binary_layer *l, void *scratch, const sw_par *par)
{
    run(l, NULL, scratch, par);
}

size_t SW_KERNEL(binary, stored_bytes)(const sw_binary_layer *l)
{
    const int64_t tiles = (l->s.outputs + TILE - 1) / TILE;
    return (size_t)(l->a->directions * tiles * filter_words(&l->s) * TILE) * sizeof(uint64_t);
}

void SW_KERNEL(binary, draw)(uint64_t *to, const sw_binary_layer *l, void *scratch,
                             const sw_par *par)
{
    run(l, to, scratch, par);
}

/* ---- bits of numbers, pooling, sums ------------------------------------------------------ */

typedef struct {
    unsigned char *bits;
    const float *x;
    int64_t batch, channels, positions;
    float threshold;
    int n_parts;
} pack_job;

static void pack_part(void *arg, int part)
{
    const pack_job *j = arg;
    const int64_t words = sw_binary_words(j->channels), n = j->batch * j->positions;
    const int64_t to = vpiece(n, 1, part + 1, j->n_parts);
    for (int64_t i = vpiece(n, 1, part, j->n_parts); i < to; i++)
        for (int64_t w = 0; w < words; w++) {
            const int64_t c = 64 * w, rest = j->channels - c;
            const float *x =
                j->x + (i / j->positions * j->channels + c) * j->positions + i % j->positions;
            bstore(j->bits, i * words + w,
                   pack_word(x, rest < 64 ? rest : 64, j->positions, j->threshold));
        }
}

void SW_KERNEL(binary, pack)(void *bits, const float *x, int64_t batch, int64_t channels,
                             int64_t positions, float threshold, const sw_par *par)
{
    pack_job j = {bits, x, batch, channels, positions, threshold, par->n_threads};
    vparts(par, pack_part, &j, j.n_parts, batch * channels * positions > 1 << 14);
}

typedef struct {
    void *y;
    const void *x;
    const sw_binary_shape *s;
    int n_parts;
} pool_job;

static void pool_part(void *arg, int part)
{
    const pool_job *j = arg;
    const sw_binary_shape *s = j->s;
    const int64_t words = sw_binary_words(s->channels), n = s->batch * s->out_h * s->out_w;
    const int64_t to = vpiece(n, 1, part + 1, j->n_parts);
    for (int64_t i = vpiece(n, 1, part, j->n_parts); i < to; i++) {
        const int64_t x = i % s->out_w * s->stride, y = i / s->out_w % s->out_h * s->stride;
        const int64_t image = i / s->out_w / s->out_h;
        for (int64_t w = 0; w < words; w++) {
            uint64_t any = 0;
            for (int64_t k = 0; k < s->kernel_h * s->kernel_w; k++)
                any |= bload(j->x, ((image * s->in_h + y + k / s->kernel_w) * s->in_w + x +
                                    k % s->kernel_w) *
                                           words +
                                       w);
            bstore(j->y, i * words + w, any);
        }
    }
}

void SW_KERNEL(binary, max_pool)(void *y, const void *x, const sw_binary_shape *s,
                                 const sw_par *par)
{
    pool_job j = {y, x, s, par->n_threads};
    vparts(par, pool_part, &j, j.n_parts, s->batch * s->in_h * s->in_w > 1 << 12);
}

typedef struct {
    double *sums;
    const float *w;
    int64_t rows, cols;
    int n_parts;
} rows_job;

static void rows_part(void *arg, int part)
{
    const rows_job *j = arg;
    const int64_t to = vpiece(j->rows, 1, part + 1, j->n_parts);
    for (int64_t r = vpiece(j->rows, 1, part, j->n_parts); r < to; r++) {
        double lane[8] = {0}; /* eight sums side by side, then in order */
        const float *w = j->w + r * j->cols;
        for (int64_t c = 0; c < j->cols; c++)
            lane[c % 8] += (double)fabsf(w[c]);
        j->sums[r] = 0.0;
        for (int i = 0; i < 8; i++)
            j->sums[r] += lane[i];
    }
}

void SW_KERNEL(binary, row_sums)(double *sums, const float *w, int64_t rows, int64_t cols,
                                 const sw_par *par)
{
    rows_job j = {sums, w, rows, cols, par->n_threads};
    vparts(par, rows_part, &j, j.n_parts, rows * cols > 1 << 14);
}

/* ---- the estimate ------------------------------------------------------------------------ */

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
    const filters_drawn f = {below, g->first_row + row, n, j->words, 1, j->words};
    memset(sums, 0, (size_t)(m * DRAWS) * sizeof *sums);
    memset(minus, 0, (size_t)m * sizeof *minus);
    bounds(below, g->logits + row * g->spec->cols, n, j->channels, g->spec->taps, g->scale);
    for (int64_t d = 0; d < g->n; d++) {
        const sw_noise_at at = {g->seed, g->generation, g->first + (uint32_t)d};
        swi_noise_source from;
        if (g->weights[d] == 0.0f)
            continue;
        swi_noise_source_of(&from, g->spec, SW_NOISE_ELEMENTS, &at);
        sample(plus, g->antithetic ? minus : NULL, &f, &from);
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
