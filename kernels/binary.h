/* Layers of bits: 64 channels to a word, xor and population count.
 *
 * Bits of a row or of one position of an image are the bits of 64-bit words, channel c bit c %
 * 64 of word c / 64, lowest first; bits past the channels are 0. An image is (batch, h, w,
 * words): channels last. Words are those of the machine's byte order.
 *
 * A weight is a matrix of logits (rows, cols), col = channel x taps + tap, whose filter for one
 * output is (taps, words) words, the tap's channels as those of x. Without noise the bit of a
 * logit is w > 0. With noise (SW_NOISE_BITS_OF_LOGITS) direction d has bits of its own:
 *
 *   bit(row, col) = u < P,  P = sigmoid(scale w),  scale = 5 / (mean |w| + 1e-5),
 *
 * u by counter, 16 bits of a number, P rounded to such; an evaluation whose sign is negative
 * has the mirrored draw 1 - u. E of such a parameter is the score of a bit: the derivative of
 * log P(bit) by scale w,
 *
 *   bit - P, or of a mirrored pair max(P, 1 - P) (bit - mirrored bit),
 *
 * of which w_plus (bit - P) + w_minus (mirrored bit - P) and (w_plus - w_minus) E have the same
 * mean. The sum y of an output is (2 equal - n) / sqrt(inputs) - bias, over the n inputs inside
 * of the image (padding has no value, as in a convolution of numbers), the bias with its own
 * noise; its bit is y > 0. */
#pragma once

#include "kernels/noise.h"
#include "kernels/par.h"

/* ---- bits of logits -----------------------------------------------------------------------
 */

SW_INLINE int64_t sw_binary_words(int64_t channels)
{
    return (channels + 63) / 64;
}

/* Sixteen bits of P: at most 65535. */
SW_INLINE uint16_t sw_binary_below(float logit, float scale)
{
    const float p = sw_sigmoidf(logit * scale) * 65536.0f + 0.5f;
    return (uint16_t)(int32_t)(p < 65535.0f ? p : 65535.0f);
}

/* The draw of an element: numbers go by the words of the filters, bits of padding included. */
SW_INLINE uint32_t sw_binary_draw(const sw_noise_spec *s, const sw_noise_at *at, int64_t row,
                                  int64_t col)
{
    uint32_t words[4];
    const int64_t channels = s->cols / s->taps, wide = 64 * sw_binary_words(channels);
    const int64_t i = (row * s->taps + col % s->taps) * wide + col / s->taps;
    sw_noise_words(words, s, SW_NOISE_ELEMENTS, at, (uint32_t)(i / 8));
    return words[i % 8 / 2] >> i % 2 * 16 & 0xffffu;
}

SW_INLINE bool sw_binary_bit(const sw_noise_spec *s, const sw_noise_at *at, int64_t row,
                             int64_t col, uint16_t below, bool mirrored)
{
    const uint32_t u = sw_binary_draw(s, at, row, col);
    return (mirrored ? 0xffffu - u : u) < below;
}

/* ---- kernels ------------------------------------------------------------------------------
 */

/* float32 and bits; nothing is allocated. Numbers do not depend on threads or instruction sets.
 * Scratch as in noise_kernels.h. */

typedef struct {
    int64_t batch, in_h, in_w, out_h, out_w;
    int64_t channels, outputs;
    int64_t kernel_h, kernel_w, stride, pad;
} sw_binary_shape;

/* One layer: x (batch, in_h, in_w, words of the channels), logits (outputs, channels x taps),
 * bias (outputs) or NULL; bits (batch, out_h, out_w, words of the outputs), or sums (batch,
 * outputs, out_h, out_w), the other NULL. With a->weight.rows above 0 the weight has bits of
 * directions first + d, and scale is read; with a->bias.rows above 0 the bias has noise. */
typedef struct {
    sw_binary_shape s;
    const swi_noise_attrs *a;
    const void *x;
    const float *logits, *bias;
    float scale, sigma;
    uint64_t seed;
    uint32_t generation, first;
    void *bits;
    float *sums;
    /* Filters of every direction that `draw` made before, which are read in the place of draws:
     * what storing them would be. NULL, or of noise without antithetic pairs. */
    const uint64_t *stored;
} sw_binary_layer;

/* to = (or +=) sigma times the sum over d < n of weights[d] E(first + d): weights of strategies
 * have a factor 1 / sigma, and bits have no sigma. For rows [first_row, first_row +
 * n_rows) of the logits, of which `logits` is the first row that is asked for. */
typedef struct {
    const sw_noise_spec *spec;
    uint64_t seed;
    uint32_t generation, first;
    int64_t n;
    const float *weights, *logits;
    float *to;
    float scale, sigma;
    bool antithetic, accumulate;
    int64_t first_row, n_rows;
} sw_binary_sum;

typedef struct {
    /* Bits x > threshold of (batch, channels, positions) as (batch, positions, words). */
    void (*pack)(void *bits, const float *x, int64_t batch, int64_t channels, int64_t positions,
                 float threshold, const sw_par *par);
    /* Each output position: OR over its window. s->outputs is not looked at. */
    void (*max_pool)(void *y, const void *x, const sw_binary_shape *s, const sw_par *par);
    /* sums[r]: the sum of |w| over row r. */
    void (*row_sums)(double *sums, const float *w, int64_t rows, int64_t cols,
                     const sw_par *par);
    size_t (*layer_bytes)(const sw_binary_shape *s, int threads);
    void (*layer)(const sw_binary_layer *l, void *scratch, const sw_par *par);
    /* to: stored_bytes of the filters of l->a->directions directions, drawn ahead. */
    size_t (*stored_bytes)(const sw_binary_layer *l);
    void (*draw)(uint64_t *to, const sw_binary_layer *l, void *scratch, const sw_par *par);
    size_t (*gradient_bytes)(const sw_noise_spec *spec, int threads);
    void (*gradient)(const sw_binary_sum *g, void *scratch, const sw_par *par);
    /* theta = 1 or -1 by the bits of a direction, for rows [first_row, first_row + n_rows), of
     * which theta is the first: a model that has the same bits without noise. mirrored: of the
     * negative sign. */
    void (*member)(float *theta, const sw_noise_spec *spec, const sw_noise_at *at, float scale,
                   bool mirrored, int64_t first_row, int64_t n_rows);
} sw_binary_kernels;
