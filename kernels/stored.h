/* Frozen weights in 8 and 4 bits, matrices (rows, cols): SW_I8 and SW_NF4.
 *
 * SW_I8: a number is its code, -127 to 127, times the scale of its row, which is the largest
 * size in the row by 127. Codes, then from a multiple of SW_STORED_ALIGN on the scales.
 *
 * SW_NF4 (Dettmers et al. 2023): cols are a multiple of 64. A number is the value of its code
 * times the size of its block of 64 in a row, the largest in it; a code is the nearest value.
 * The sizes of SW_NF4_GROUP blocks, in the order of rows, are their mean plus a code of 8 bits
 * times a scale. Two codes a byte, the first in the upper half; then the codes of sizes, then
 * mean and scale of each group.
 *
 * A NaN or an infinity makes all of its row or group NaN. */
#pragma once

#include "kernels/launch.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SW_NF4_BLOCK = 64, SW_NF4_GROUP = 256, SW_STORED_ALIGN = 64 };

typedef struct {
    sw_dtype dtype;
    unsigned char *bytes;
    int64_t rows, cols;
} sw_stored;

static inline bool sw_is_stored(sw_dtype dtype)
{
    return dtype == SW_I8 || dtype == SW_NF4;
}

/* Where the parts after the codes begin. */
static inline size_t sw_stored_scales(const sw_stored *w)
{
    const size_t n = (size_t)(w->rows * w->cols), codes = w->dtype == SW_NF4 ? n / 2 : n;
    return (codes + SW_STORED_ALIGN - 1) / SW_STORED_ALIGN * SW_STORED_ALIGN;
}
static inline size_t sw_stored_groups(const sw_stored *w)
{
    const size_t blocks = (size_t)(w->rows * w->cols) / SW_NF4_BLOCK;
    return sw_stored_scales(w) +
           (blocks + SW_STORED_ALIGN - 1) / SW_STORED_ALIGN * SW_STORED_ALIGN;
}
static inline size_t sw_stored_bytes(const sw_stored *w)
{
    const size_t blocks = (size_t)(w->rows * w->cols) / SW_NF4_BLOCK;
    return w->dtype == SW_I8 ? sw_stored_scales(w) + (size_t)w->rows * sizeof(float)
                             : sw_stored_groups(w) + (blocks + SW_NF4_GROUP - 1) /
                                                         SW_NF4_GROUP * 2 * sizeof(float);
}

/* Numbers that are encoded together: pieces begin at multiples of it. */
static inline int64_t sw_stored_unit(const sw_stored *w)
{
    return w->dtype == SW_I8 ? w->cols : SW_NF4_BLOCK * SW_NF4_GROUP;
}

/* The values of SW_NF4, the first eight of them at most 0. */
extern const float sw_nf4_value[16];

/* The scale of the row or block of number i. */
static inline float sw_stored_scale(const sw_stored *w, int64_t i)
{
    const float *scales = (const float *)(const void *)(w->bytes + sw_stored_scales(w));
    if (w->dtype == SW_I8)
        return scales[i / w->cols];
    const int64_t block = i / SW_NF4_BLOCK;
    const float *group = (const float *)(const void *)(w->bytes + sw_stored_groups(w)) +
                         block / SW_NF4_GROUP * 2;
    return group[0] + (float)((const int8_t *)(const void *)scales)[block] * group[1];
}

/* Numbers [first, first + n) of w, in the order of rows, from x: whole units, or up to the end.
 */
void sw_stored_encode(const sw_stored *w, int64_t first, int64_t n, const float *x);
