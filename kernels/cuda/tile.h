/* A tile of a product in the registers of a block: ROWS x COLS results, of which a thread has
 * DOWN x ACROSS, from slices of DEEP terms that lie in shared memory, each factor with its
 * terms one line below the other. Of its rows and columns a thread has fours, each as far from
 * the next as all threads of the tile reach; eight threads side by side and four below each
 * other make a warp, so that what a warp reads at once is one line of banks. */
#pragma once

#include "kernels/cuda/device.h"

/* RESIDENT: blocks that a multiprocessor shall have room for. */
template <int ROWS_, int COLS_, int DEEP_, int DOWN_, int ACROSS_, int RESIDENT_>
struct sw_cuda_tile {
    static constexpr int ROWS = ROWS_, COLS = COLS_, DEEP = DEEP_;
    static constexpr int DOWN = DOWN_, ACROSS = ACROSS_, RESIDENT = RESIDENT_;
    static constexpr int THREADS_DOWN = ROWS / DOWN, THREADS_ACROSS = COLS / ACROSS;
    static constexpr int THREADS = THREADS_DOWN * THREADS_ACROSS;
    /* Lines are longer by four, so that neighbours in depth are stored into other banks. */
    static constexpr int A_LINE = ROWS + 4, B_LINE = COLS + 4;
    static constexpr int A_ROOM = DEEP * A_LINE, B_ROOM = DEEP * B_LINE; /* floats of a slice */
    static constexpr int ROOM = 2 * (A_ROOM + B_ROOM); /* two slices of both, in turn */
    static_assert(THREADS_DOWN % 4 == 0 && THREADS_ACROSS % 8 == 0, "warps of 4 x 8 threads");

    /* A thread's first row or column. */
    static __device__ __forceinline__ int row(void)
    {
        const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
        return (warp / (THREADS_ACROSS / 8) * 4 + lane / 8) * 4;
    }
    static __device__ __forceinline__ int col(void)
    {
        const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
        return (warp % (THREADS_ACROSS / 8) * 8 + lane % 8) * 4;
    }
    /* Its i-th one. */
    static __device__ __forceinline__ int row_of(int i)
    {
        return row() + i / 4 * (4 * THREADS_DOWN) + i % 4;
    }
    static __device__ __forceinline__ int col_of(int i)
    {
        return col() + i / 4 * (4 * THREADS_ACROSS) + i % 4;
    }

    static __device__ __forceinline__ void take(float *v, const float *line, int fours,
                                                int step)
    {
        SW_UNROLL
        for (int i = 0; i < fours; i++) {
            float four[4];
            sw_cuda_load(four, line + i * step);
            SW_UNROLL
            for (int k = 0; k < 4; k++)
                v[4 * i + k] = four[k];
        }
    }

    /* Add the products of a slice, first term first. */
    static __device__ __forceinline__ void multiply(float (&sum)[DOWN][ACROSS], const float *a,
                                                    const float *b)
    {
        SW_UNROLL
        for (int k = 0; k < DEEP; k++) {
            float x[DOWN], y[ACROSS];
            take(x, a + k * A_LINE + row(), DOWN / 4, 4 * THREADS_DOWN);
            take(y, b + k * B_LINE + col(), ACROSS / 4, 4 * THREADS_ACROSS);
            SW_UNROLL
            for (int i = 0; i < DOWN; i++) {
                SW_UNROLL
                for (int j = 0; j < ACROSS; j++)
                    sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
            }
        }
    }
};
