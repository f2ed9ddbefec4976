/* Which weights of a convolution a position of its result meets, along one axis, in what C and
 * CUDA share. `up` > 1 undoes a stride, for the gradient of x: x counts as if up - 1 zeros
 * stood between its positions, and positions of the result fall into `up` phases, each of which
 * meets every `weight`-th weight. */
#pragma once

#include "kernels/inline.h"
#include <stdint.h>

/* A position of y that meets weight k where v + k * dilation is a multiple of `up` meets every
 * `weight`-th weight, and these lie `position` apart in x. */
typedef struct {
    int64_t weight, position;
} sw_tap_step;

SW_INLINE sw_tap_step sw_tap_steps(int64_t up, int64_t dilation)
{
    sw_tap_step step = {1, 0};
    while (step.weight * dilation % up != 0)
        step.weight++;
    step.position = step.weight * dilation / up;
    return step;
}

/* The first weight that a position of y at v = i * stride - pad meets, and the position in x
 * where; returns how many weights it meets. */
SW_INLINE int64_t sw_taps_at(int64_t v, int64_t up, int64_t dilation, sw_tap_step step,
                             int64_t kernel, int64_t *first, int64_t *at)
{
    int64_t k = 0;
    *first = 0;
    *at = v;
    if (up == 1)
        return kernel;
    while (k < step.weight && (v + k * dilation) % up != 0)
        k++;
    *first = k;
    *at = (v + k * dilation) / up;
    return k < step.weight && kernel > k ? (kernel - k + step.weight - 1) / step.weight : 0;
}
