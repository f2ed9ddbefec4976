/* Kernels over any strides: copies, broadcasting, sums over axes. One pass in row-major order
 * of the result; plain, for what is small or rare. Strides count elements; 0 repeats. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SW_STRIDED_MAX 9 /* a tensor's eight axes and one of length 1 */

typedef struct {
    int rank;
    int64_t dim[SW_STRIDED_MAX];
    int64_t y[SW_STRIDED_MAX], a[SW_STRIDED_MAX],
        b[SW_STRIDED_MAX]; /* strides of each operand */
} sw_strided;

/* y = a; elements of `bytes` 1, 2, 4 or 8. */
void sw_strided_copy(void *y, const void *a, size_t bytes, const sw_strided *strided);
/* y = a * factor (or y += ...), float32. */
void sw_strided_scale(float *y, const float *a, float factor, bool accumulate,
                      const sw_strided *strided);
void sw_strided_add(float *y, const float *a, const float *b, bool accumulate,
                    const sw_strided *strided);
void sw_strided_mul(float *y, const float *a, const float *b, bool accumulate,
                    const sw_strided *strided);
void sw_strided_sub(float *y, const float *a, const float *b, bool accumulate,
                    const sw_strided *strided);
void sw_strided_div(float *y, const float *a, const float *b, bool accumulate,
                    const sw_strided *strided);
/* y = mask != 0 ? a : b; m: the mask's strides. */
void sw_strided_where(float *y, const uint8_t *mask, const int64_t *m, const float *a,
                      const float *b, bool accumulate, const sw_strided *strided);
/* y[j] = factor * sum of a over the reduced axes, in float64, one after the other. Axes with
 * reduced[i] are summed; nd->y of those is ignored. */
void sw_strided_sum(float *y, const float *a, const bool *reduced, double factor,
                    bool accumulate, const sw_strided *strided);
