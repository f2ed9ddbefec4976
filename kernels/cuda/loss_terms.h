/* The terms that losses sum over elements, and the best of a row: losses.cu, each.cu. */
#ifndef SW_CUDA_LOSS_TERMS_H
#define SW_CUDA_LOSS_TERMS_H

#include "kernels/cuda/device.h"
#include "kernels/scalar.h"

/* x, t: an element and its target; p: the loss's number. */
struct sw_cuda_mse_term {
    static __device__ double of(float x, float t, float)
    {
        const double d = (double)(x - t);
        return d * d;
    }
};
struct sw_cuda_bce_term {
    static __device__ double of(float x, float t, float)
    {
        return (double)sw_bce_value(x, t);
    }
};
struct sw_cuda_huber_term {
    static __device__ double of(float x, float t, float p)
    {
        return (double)sw_huber_value(x, t, p);
    }
};
struct sw_cuda_l1_term {
    static __device__ double of(float x, float t, float)
    {
        return (double)sw_absf(x - t);
    }
};
struct sw_cuda_kl_div_term {
    static __device__ double of(float x, float t, float)
    {
        return (double)sw_kl_value(x, t);
    }
};

/* A position and its number; the larger number wins, a NaN above all, the first of equals. */
struct sw_cuda_best {
    float x;
    int at;
};
static __device__ __forceinline__ sw_cuda_best sw_cuda_better(sw_cuda_best a, sw_cuda_best b)
{
    const bool equal = b.x == a.x || (b.x != b.x && a.x != a.x);
    return sw_wins(b.x, a.x) || (equal && b.at < a.at) ? b : a;
}

/* Its position, for all lanes of a warp; they begin with the first element. */
static __device__ __forceinline__ int sw_cuda_best_of_row(const float *x, int64_t cols)
{
    sw_cuda_best v = {x[0], 0};
    for (int64_t c = threadIdx.x % 32; c < cols; c += 32)
        v = sw_cuda_better(v, sw_cuda_best{x[c], (int)c});
    for (int by = 16; by > 0; by /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, v.x, by);
        const int at = __shfl_xor_sync(0xffffffffu, v.at, by);
        v = sw_cuda_better(v, sw_cuda_best{other, at});
    }
    return v.at;
}

#endif
