/* Optimizer state in 8 bits, the one definition for C and CUDA: Dettmers et al. 2022.
 *
 * A state is a tensor of bytes with the parameter's shape, and a float32 scale for each block.
 * A row is what axis 0 counts, all of a vector; a block is SW_STATE8_BLOCK elements of one row,
 * the last one of a row fewer. Its scale is the largest size in it, and an element is its
 * byte's value times the scale.
 *
 * Values: 0, seven decades from 1e-6 to 1, of which each has twice as many as the one below,
 * the middles of equal parts of a tenth to the whole of it; and 1. With a sign bytes 0 to 128
 * are the values from 0 to 1 and bytes 129 to 255 less than 0, where -1 is left out. Without
 * one there are twice as many.
 *
 * An element becomes the nearest value of its quotient by the scale; between two the one nearer
 * to 0. Without a sign what is above 0 stays above 0: a second moment of 0 beside a first one
 * that is not would make a step without bound. A block without a number of at least 2^-126 has
 * scale 0; one with a NaN or an infinity has scale NaN and is NaN as a whole. */
#pragma once

#include "kernels/inline.h"
#include "kernels/launch.h"
#include "kernels/scalar.h"
#include <stdbool.h>

enum {
    SW_STATE8_BLOCK = 256,
    SW_STATE8_LEAST = 4096,          /* elements of a parameter: smaller ones keep float32 */
    SW_STATE8_LOW = (127 - 23) << 7, /* the upper half of 2^-23; all below is one cell */
    SW_STATE8_CELLS = (127 << 7) - SW_STATE8_LOW + 1
};

/* A cell has the bytes of all floats with one upper half, of which at most two differ: the
 * lower half of the last float of the first one, then the first and the second. With a sign
 * those of numbers below 0 come after those above. */
typedef struct {
    float value[256];
    uint32_t cell[2 * SW_STATE8_CELLS];
} sw_state8_code;

typedef struct {
    uint8_t *codes;
    float *scales;
} sw_state8;

/* Value k from 0 to 1. */
SW_INLINE float sw_state8_value(uint32_t k, bool has_sign)
{
    int n = has_sign ? 1 : 2, j = (int)k - 1;
    double decade = 1e6;
    if (k == 0 || k == (has_sign ? 128u : 255u))
        return k == 0 ? 0.0f : 1.0f;
    for (; j >= n; n *= 2, decade /= 10.0)
        j -= n;
    return (float)((2 * n + 18 * j + 9) / (20 * n * decade)); /* one quotient is rounded */
}

/* Bits of the last float that becomes value k. */
SW_INLINE uint32_t sw_state8_last(uint32_t k, bool has_sign)
{
    if (k >= (has_sign ? 128u : 255u))
        return UINT32_MAX;
    const double a = (double)sw_state8_value(k, has_sign),
                 middle = (a + (double)sw_state8_value(k + 1, has_sign)) / 2.0;
    const float nearest = (float)middle;
    return sw_bits_of(nearest) - ((double)nearest > middle);
}

static inline void sw_state8_build(sw_state8_code *code, bool has_sign)
{
    const uint32_t top = has_sign ? 128 : 255;
    uint32_t k, last[256];
    for (k = 0; k <= top; k++) {
        code->value[k] = sw_state8_value(k, has_sign);
        last[k] = sw_state8_last(k, has_sign);
    }
    for (k = 1; has_sign && k < top; k++)
        code->value[top + k] = -code->value[k];
    for (uint32_t sign = 0; sign < 1u + has_sign; sign++) {
        const uint32_t most = sign != 0 ? 127 : top;
        k = !has_sign;
        for (uint32_t i = 0; i < SW_STATE8_CELLS; i++) {
            while (last[k] < (i + SW_STATE8_LOW) << 16)
                k++;
            const bool two = last[k] >> 16 == i + SW_STATE8_LOW;
            uint32_t bytes[2] = {k < most ? k : most, k + two < most ? k + two : most};
            for (int j = 0; j < 2; j++)
                bytes[j] += sign != 0 && bytes[j] > 0 ? 128 : 0;
            code->cell[sign * SW_STATE8_CELLS + i] =
                (two ? last[k] & 0xffff : 0xffff) | bytes[0] << 16 | bytes[1] << 24;
        }
    }
}

/* The byte of a quotient by the scale, from its bits. */
SW_INLINE uint8_t sw_state8_byte(const sw_state8_code *code, uint32_t bits, bool has_sign)
{
    const uint32_t size = bits & 0x7fffffffu, low = (uint32_t)SW_STATE8_LOW << 16;
    const uint32_t at = size > low ? size : low;
    const uint32_t sign = has_sign ? bits >> 31 : 0;
    const uint32_t cell = code->cell[(at >> 16) - SW_STATE8_LOW + sign * SW_STATE8_CELLS];
    const uint32_t byte = cell >> ((at & 0xffff) > (cell & 0xffff) ? 24 : 16);
    return has_sign || size != 0 ? (uint8_t)byte : 0;
}

/* The two codes; built once. */
const sw_state8_code *sw_state8_code_of(bool has_sign);

/* The codes and the scale of a block, whose numbers are then other ones. Inlined with the sign
 * as a constant. */
static inline __attribute__((always_inline)) void
sw_state8_encode(float *s, int64_t n, uint8_t *codes, float *scale, bool has_sign)
{
    const sw_state8_code *code = sw_state8_code_of(has_sign);
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t size = (int32_t)(sw_bits_of(s[i]) & 0x7fffffffu);
        most = size > most ? size : most;
    }
    if (most < 0x00800000 || most >= 0x7f800000) {
        *scale = most < 0x00800000 ? 0.0f : sw_float_of(0x7fc00000u);
        memset(codes, 0, (size_t)n);
        return;
    }
    const float largest = sw_float_of((uint32_t)most);
    *scale = largest;
    for (int64_t i = 0; i < n; i++)
        s[i] = s[i] / largest;
    uint8_t bytes[SW_STATE8_BLOCK]; /* apart from all that is read: a vector loop */
    for (int64_t i = 0; i < n; i++)
        bytes[i] = sw_state8_byte(code, sw_bits_of(s[i]), has_sign);
    memcpy(codes, bytes, (size_t)n);
}

static inline int64_t sw_state8_blocks(int64_t elements)
{
    return (elements + SW_STATE8_BLOCK - 1) / SW_STATE8_BLOCK;
}

/* Rows of a parameter, and elements of one. */
static inline int64_t sw_state8_rows(const sw_shape *param)
{
    return param->rank > 1 ? param->dim[0] : 1;
}

static inline int64_t sw_state8_cols(const sw_shape *param)
{
    int64_t cols = 1;
    for (int i = param->rank > 1; i < param->rank; i++)
        cols *= param->dim[i];
    return cols;
}

/* The shape of the scales: (rows, blocks), of a vector (blocks). */
static inline sw_shape sw_state8_scales(const sw_shape *param)
{
    sw_shape scales = {1, {sw_state8_blocks(sw_state8_cols(param))}};
    if (param->rank > 1) {
        scales.rank = 2;
        scales.dim[1] = scales.dim[0];
        scales.dim[0] = param->dim[0];
    }
    return scales;
}

/* States of a parameter of rows of `cols`: in 8 bits, or float32 where `values` is not NULL. */
typedef struct {
    sw_state8 in8;
    float *values;
    int64_t cols;
} sw_state8_tensor;

/* Which element of `from` element i of `to` was; below 0: it is new, which is 0. */
typedef int64_t sw_state8_origin(const void *context, int64_t i);

/* All n elements of `to` from those that they were. A block whose elements were all in one
 * block, or are new, keeps its scale and its codes; others are quantised again. */
void sw_state8_move(const sw_state8_tensor *to, int64_t n, const sw_state8_tensor *from,
                    bool has_sign, sw_state8_origin *origin, const void *context);
