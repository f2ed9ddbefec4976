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
#ifndef SW_STATE8_H
#define SW_STATE8_H

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

/* By magnitude k: 0 to 128 with a sign, else 0 to 255. */
typedef struct {
    float value[256];               /* of each byte */
    uint32_t above[256];            /* bits of a float: what is larger is k + 1 or more */
    uint8_t first[SW_STATE8_CELLS]; /* the least k of the floats with an upper half */
} sw_state8_code;

typedef struct {
    uint8_t *codes;
    float *scales;
} sw_state8;

static inline void sw_state8_build(sw_state8_code *code, bool has_sign)
{
    const int top = has_sign ? 128 : 255;
    double decade = 1e6;
    int k = 0;
    code->value[k++] = 0.0f;
    for (int n = has_sign ? 1 : 2; k < top; n *= 2, decade /= 10.0)
        for (int j = 0; j < n; j++) /* exact integers: one quotient is rounded */
            code->value[k++] = (float)((2 * n + 18 * j + 9) / (20 * n * decade));
    code->value[top] = 1.0f;
    for (k = 0; k < top; k++) {
        const double middle = ((double)code->value[k] + (double)code->value[k + 1]) / 2.0;
        const float nearest = (float)middle;
        code->above[k] = sw_bits_of(nearest) - ((double)nearest > middle);
    }
    code->above[top] = 0x7f800000u;
    if (!has_sign)
        code->above[0] = 0;
    k = 0;
    for (uint32_t cell = 0; cell < SW_STATE8_CELLS; cell++) {
        while (cell > 0 && code->above[k] < (cell + SW_STATE8_LOW) << 16)
            k++;
        code->first[cell] = (uint8_t)k;
    }
    for (k = 1; has_sign && k < top; k++)
        code->value[top + k] = -code->value[k];
}

/* The byte of a quotient by the scale, from its bits. */
SW_INLINE uint8_t sw_state8_byte(const sw_state8_code *code, uint32_t bits, bool has_sign)
{
    const uint32_t size = bits & 0x7fffffffu;
    const int32_t cell = (int32_t)(size >> 16) - SW_STATE8_LOW;
    const uint32_t first = code->first[cell > 0 ? cell : 0];
    const uint32_t k = first + (size > code->above[first]);
    if (!has_sign || bits == size)
        return (uint8_t)k;
    return (uint8_t)(k > 127 ? 255 : k > 0 ? k + 128 : 0);
}

/* The two codes; built once. */
const sw_state8_code *sw_state8_code_of(bool has_sign);

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

#endif
