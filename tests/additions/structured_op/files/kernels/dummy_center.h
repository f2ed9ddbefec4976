/* A row less its mean: y = x - sum(x) / n; dx of dy is the same formula. C and CUDA. */
#ifndef SW_DUMMY_CENTER_H
#define SW_DUMMY_CENTER_H

#include "kernels/inline.h"
#include <stdint.h>

/* y may be x. The sum is in float64, one after the other. */
SW_INLINE void sw_dummy_center_row(float *y, const float *x, int64_t n, int add)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i];
    const float mean = (float)(sum / (double)n);
    for (int64_t i = 0; i < n; i++)
        y[i] = add ? y[i] + (x[i] - mean) : x[i] - mean;
}

#endif
