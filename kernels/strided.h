/* Kernels over any strides: copies, broadcasting, sums over axes. One pass in row-major order
 * of the result; plain, for what is small or rare. Strides count elements; 0 repeats. */
#ifndef SW_STRIDED_H
#define SW_STRIDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SW_ND_MAX 9 /* a tensor's eight axes and one of length 1 */

typedef struct {
    int rank;
    int64_t dim[SW_ND_MAX];
    int64_t y[SW_ND_MAX], a[SW_ND_MAX], b[SW_ND_MAX]; /* strides of each operand */
} sw_nd;

/* y = a; elements of `bytes` 1, 2, 4 or 8. */
void sw_nd_copy(void *y, const void *a, size_t bytes, const sw_nd *nd);
/* y = a * factor (or y += ...), float32. */
void sw_nd_scale(float *y, const float *a, float factor, bool accumulate, const sw_nd *nd);
void sw_nd_add(float *y, const float *a, const float *b, bool accumulate, const sw_nd *nd);
void sw_nd_mul(float *y, const float *a, const float *b, bool accumulate, const sw_nd *nd);
void sw_nd_sub(float *y, const float *a, const float *b, bool accumulate, const sw_nd *nd);
void sw_nd_div(float *y, const float *a, const float *b, bool accumulate, const sw_nd *nd);
/* y = mask != 0 ? a : b; m: the mask's strides. */
void sw_nd_where(float *y, const uint8_t *mask, const int64_t *m, const float *a,
                 const float *b, bool accumulate, const sw_nd *nd);
/* y[j] = factor * sum of a over the reduced axes, in float64, one after the other. Axes with
 * reduced[i] are summed; nd->y of those is ignored. */
void sw_nd_sum(float *y, const float *a, const bool *reduced, double factor, bool accumulate,
               const sw_nd *nd);

#endif
