/* Rows of a matrix: a warp works on one, or a block, where rows are long. Loops over the
 * columns go four at a time where all rows begin at addresses that allow it. */
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/scalar.h"
#include <float.h>

/* Columns from which on a row has a block; tests give fewer. */
#ifndef SW_CUDA_LONG_ROW
#define SW_CUDA_LONG_ROW 1024
#endif

/* G threads for each row, W columns in one access. */
template <int G_, int W_> struct sw_cuda_rows {
    static constexpr int G = G_, W = W_;

    static __device__ __forceinline__ int64_t first(void)
    {
        return (int64_t)blockIdx.x * (SW_CUDA_THREADS / G) + threadIdx.x / G;
    }
    static __device__ __forceinline__ int64_t step(void)
    {
        return (int64_t)gridDim.x * (SW_CUDA_THREADS / G);
    }
    static __device__ __forceinline__ int lane(void)
    {
        return (int)threadIdx.x % G;
    }
    template <class OP, class T> static __device__ __forceinline__ T reduce(T v, T *partials)
    {
        return G == 1    ? v
               : G == 32 ? sw_cuda_warp_reduce<OP>(v)
                         : sw_cuda_block_reduce<OP>(v, partials);
    }
};

/* Columns of a row that belong to this thread: `c` is the first of W. */
#define SW_CUDA_COLUMNS(c, cols)                                                               \
    for (int64_t c = (int64_t)ROWS::lane() * ROWS::W; c < (cols); c += ROWS::G * ROWS::W)

/* Run kernel<sw_cuda_rows<...>>: four columns in one access where `fours`. */
#define SW_CUDA_LAUNCH_ROWS_BY(kernel, rows, cols, fours, queue, ...)                          \
    do {                                                                                       \
        const bool is_long = (cols) > SW_CUDA_LONG_ROW, wide = (fours);                        \
        const unsigned blocks = sw_cuda_blocks(rows, is_long ? 1 : SW_CUDA_THREADS / 32);      \
        const auto over_rows =                                                                 \
            is_long ? (wide ? kernel<sw_cuda_rows<SW_CUDA_THREADS, 4>>                         \
                            : kernel<sw_cuda_rows<SW_CUDA_THREADS, 1>>)                        \
                    : (wide ? kernel<sw_cuda_rows<32, 4>> : kernel<sw_cuda_rows<32, 1>>);      \
        SW_CUDA_LAUNCH(over_rows, blocks, SW_CUDA_THREADS, 0, queue, __VA_ARGS__);             \
    } while (0)
/* `all` says whether each operand begins at a good address. */
#define SW_CUDA_LAUNCH_ROWS(kernel, rows, cols, all, queue, ...)                               \
    SW_CUDA_LAUNCH_ROWS_BY(kernel, rows, cols, (cols) % 4 == 0 && (all), queue, __VA_ARGS__)

/* ---- rows of any address ----------------------------------------------------------------- */

/* f(groups, c) of all columns of a row that belong to this thread: groups::N times groups::W
 * columns, ROWS::G * ROWS::W apart, from column c on. At most N times W; columns before the
 * first and after the last address that is divisible by 4 W are alone. */
template <int N_, int W_> struct sw_cuda_groups {
    static constexpr int N = N_, W = W_;
};
template <class ROWS, int N, class F>
static __device__ __forceinline__ void sw_cuda_walk(const float *row, int64_t cols, F f)
{
    constexpr int W = ROWS::W, step = ROWS::G * W;
    const int64_t before =
        (int64_t)(0 - reinterpret_cast<uintptr_t>(row) / sizeof *row) & (W - 1);
    const int64_t from = before < cols ? before : cols, end = cols - (cols - from) % W;
    int64_t c = from + ROWS::lane() * W;
    for (; c + (N - 1) * step < end; c += N * step)
        f(sw_cuda_groups<N, W>{}, c);
    for (; c < end; c += step)
        f(sw_cuda_groups<1, W>{}, c);
    c = ROWS::lane() < from ? ROWS::lane() : end - from + ROWS::lane();
    if (W > 1 && c < cols)
        f(sw_cuda_groups<1, 1>{}, c);
}
template <class ROWS, int N, int W>
static __device__ __forceinline__ void sw_cuda_load_groups(float (&v)[N][W], const float *p)
{
    for (int i = 0; i < N; i++)
        sw_cuda_load(v[i], p + i * ROWS::G * W);
}

/* The sum of e^(x - most) of a row in one pass: `most` is the largest number so far, and the
 * sum is scaled where it grows (Milakov and Gimelshein 2018). A NaN stays in the sum. */
struct sw_cuda_exponentials {
    float most, sum;
    template <int N, int W> __device__ __forceinline__ void add(const float (&v)[N][W])
    {
        float top = most;
        for (int k = 0; k < N * W; k++)
            top = fmaxf(top, v[k / W][k % W]);
        sum *= sw_expf(most - top);
        for (int k = 0; k < N * W; k++)
            sum += sw_expf(v[k / W][k % W] - top);
        most = top;
    }
    /* Of all threads of the row. Each row has a term 1, but one of -inf alone: NaN. */
    template <class ROWS> __device__ __forceinline__ void join(float *partials)
    {
        const float top = ROWS::template reduce<sw_cuda_largest>(most, partials);
        sum = ROWS::template reduce<sw_cuda_plus>(sum * sw_expf(most - top), partials);
        sum = sum < 0.5f ? sw_float_of(0x7fc00000u) : sum;
        most = top;
    }
};
#define SW_CUDA_NO_EXPONENTIALS                                                                \
    {                                                                                          \
        -FLT_MAX, 0.0f                                                                         \
    }
