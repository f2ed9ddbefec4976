/* Functions of one number, as they are applied on the device: NAME_value{P}(X, 0) is the value
 * of unary function NAME at X (kernels/unary.def), wherever a kernel makes it. */
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/scalar.h"

#define SW_UNARY(id, call, keeps, layout, draws, cost, slope_cost, value_, gradient, ref)      \
    struct id##_value {                                                                        \
        float P;                                                                               \
        __device__ float operator()(float X, float) const                                      \
        {                                                                                      \
            (void)P;                                                                           \
            return value_;                                                                     \
        }                                                                                      \
    };
#include "kernels/unary.def"
