/* Rows of a matrix: a warp works on one, or a block, where rows are long. Loops over the
 * columns go four at a time where all rows begin at addresses that allow it. */
#ifndef SW_CUDA_ROWS_H
#define SW_CUDA_ROWS_H

#include "kernels/cuda/device.h"

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

/* Run kernel<sw_cuda_rows<...>>: `all` says whether each operand begins at a good address. */
#define SW_CUDA_LAUNCH_ROWS(kernel, rows, cols, all, queue, ...)                               \
    do {                                                                                       \
        const bool is_long = (cols) > SW_CUDA_LONG_ROW, wide = (cols) % 4 == 0 && (all);       \
        const unsigned blocks = sw_cuda_blocks(rows, is_long ? 1 : SW_CUDA_THREADS / 32);      \
        const auto over_rows =                                                                 \
            is_long ? (wide ? kernel<sw_cuda_rows<SW_CUDA_THREADS, 4>>                         \
                            : kernel<sw_cuda_rows<SW_CUDA_THREADS, 1>>)                        \
                    : (wide ? kernel<sw_cuda_rows<32, 4>> : kernel<sw_cuda_rows<32, 1>>);      \
        SW_CUDA_LAUNCH(over_rows, blocks, SW_CUDA_THREADS, 0, queue, __VA_ARGS__);             \
    } while (0)

#endif
