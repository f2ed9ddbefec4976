/* The noise of evolution strategies in kernels: kernels/noise.h is the definition, and numbers
 * have its bits. Seed, attributes and shapes are fixed with a program; generation, first
 * direction and sigma are read on the device, so that a captured run serves every slice of
 * every generation. */
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/noise.h"

/* Numbers of a factor and rows of a direction that a block has at a time; tests give fewer. */
#ifndef SW_CUDA_NOISE_CHUNK
#define SW_CUDA_NOISE_CHUNK 1024
#define SW_CUDA_NOISE_MEMBERS 64
#endif

/* Arguments of ops with noise on parameters. A batch is (repeats, directions, each): the
 * `members` rows of a direction are those of its evaluations, one after the other. */
struct sw_cuda_noise {
    swi_noise_attrs a;
    uint64_t seed;
    const sw_cuda_counters *counters;
    const float *sigma;
    const float *weight_sigmas, *bias_sigmas; /* NULL: 1 */
    sw_cuda_long_divisor each;
    int64_t members;
    int64_t from; /* the first direction, counted from the run's */
    float sign;   /* of all */

    /* The noise of the batch's direction i. */
    __device__ sw_noise_at at(int64_t i) const
    {
        return sw_noise_at{seed, counters->step, counters->run + (uint32_t)(from + i)};
    }
    /* The row of the batch of member k of direction i. */
    __device__ int64_t row(int64_t i, int64_t k) const
    {
        const int64_t repeat = sw_cuda_split(each, &k);
        return (repeat * a.directions + i) * each.by + k;
    }
    /* The factor of the noise of member k. */
    __device__ float scale(int64_t k) const
    {
        return sign * sw_noise_sign_of_repeat(&a, sw_cuda_divide(each, k)) * *sigma;
    }
};

/* rows: of the batch. */
static inline sw_cuda_noise sw_cuda_noise_of(const sw_launch *l, const swi_noise_attrs *a,
                                             const float *sigma, int64_t rows,
                                             const sw_cuda_queue *queue)
{
    sw_cuda_noise n = {};
    n.a = *a;
    n.seed = l->seed;
    n.counters = queue->counters;
    n.sigma = sigma;
    n.sign = 1.0f;
    const int64_t each = rows / (n.a.repeats * n.a.directions);
    n.each = sw_cuda_long_divisor_of(each);
    n.members = each * n.a.repeats;
    return n;
}

/* Made by one thread: the others wait after it. */
static __device__ __forceinline__ void sw_cuda_noise_begin(sw_noise_direction *d,
                                                           const sw_noise_spec &s,
                                                           const sw_noise_at &at, float sigma)
{
    __syncthreads(); /* who reads the one before */
    if (threadIdx.x == 0)
        sw_noise_prepare(d, &s, &at, sigma);
    __syncthreads();
}

/* to[j] = number first + j of a part, j < n, by all threads of a block; they wait after it. A
 * thread makes the four normal numbers of a counter. */
static __device__ inline void sw_cuda_noise_fill(float *to, const sw_noise_spec &s,
                                                 sw_noise_part part, const sw_noise_at &at,
                                                 int64_t first, int64_t n)
{
    if (s.distribution != SW_NOISE_NORMAL) {
        for (int64_t j = threadIdx.x; j < n; j += blockDim.x)
            to[j] = sw_noise_number(&s, part, &at, first + j);
        return;
    }
    for (int64_t b = first / 4 + threadIdx.x; 4 * b < first + n; b += blockDim.x) {
        uint32_t words[4];
        float four[4];
        sw_noise_words(words, &s, part, &at, (uint32_t)b);
        sw_noise_normal4(four, words);
        for (int k = 0; k < 4; k++)
            if (4 * b + k >= first && 4 * b + k < first + n)
                to[4 * b + k - first] = four[k];
    }
}

/* Elements of E: columns from..from+n-1 of `rows` rows, side by side; sigmas (or NULL) is that
 * of the whole parameter. */
static __device__ inline void sw_cuda_noise_elements(float *to, const sw_noise_spec &s,
                                                     const sw_noise_direction &d, int64_t row,
                                                     int64_t rows, int64_t from, int64_t n,
                                                     const float *sigmas)
{
    const bool whole = n == s.cols;
    const unsigned all = (unsigned)(rows * n);
    if (s.kind == SW_NOISE_IID)
        for (int64_t r = 0; r < (whole ? 1 : rows); r++)
            sw_cuda_noise_fill(to + r * n, s, SW_NOISE_ELEMENTS, d.at,
                               (row + r) * s.cols + from, whole ? rows * n : n);
    else
        for (unsigned j = threadIdx.x; j < all; j += blockDim.x)
            to[j] =
                sw_noise_element(&s, &d, row + j / (unsigned)n, from + j % (unsigned)n, 0.0f);
    if (sigmas == nullptr)
        return;
    __syncthreads();
    for (unsigned j = threadIdx.x; j < all; j += blockDim.x)
        to[j] *= sigmas[(row + j / (unsigned)n) * s.cols + from + j % (unsigned)n];
}

/* The noise of a vector: elements first..first+n-1. */
static __device__ inline void sw_cuda_noise_vector(float *to, const sw_noise_spec &s,
                                                   const sw_noise_at &at, int64_t first,
                                                   int64_t n, const float *sigmas)
{
    sw_cuda_noise_fill(to, s, SW_NOISE_ELEMENTS, at, first, n);
    if (sigmas == nullptr)
        return;
    __syncthreads();
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x)
        to[j] *= sigmas[first + j];
}
