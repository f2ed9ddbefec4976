/* Sums of terms term(r, c) over r, for each result c: in float64, in an order that shapes alone
 * decide. A struct F has
 *
 *   N                         how many sums each result has
 *   term(r, c, double (&)[N]) what place r adds to them
 *   put(c, double (&)[N])     what becomes of the sums of c
 *
 * The places are cut into parts; a block sums one part and leaves it in scratch, then a second
 * kernel adds the parts in order. Threads of a block lie along r, or along c where neighbours
 * in c are neighbours in memory. */
#ifndef SW_CUDA_REDUCE_H
#define SW_CUDA_REDUCE_H

#include "kernels/cuda/device.h"

#define SW_CUDA_SLICES (SW_CUDA_THREADS / 32) /* along c: a warp for each slice of r */

/* By shape alone. `along`: threads lie along c. */
static inline unsigned sw_cuda_reduce_parts(int64_t places, bool along)
{
    const int64_t each = along ? 128 : 8192, most = along ? 64 : 1024;
    const int64_t parts = (places + each - 1) / each;
    return (unsigned)(parts < 1 ? 1 : parts > most ? most : parts);
}
/* Scratch for `results` of n sums each. */
static inline size_t sw_cuda_reduce_bytes(int64_t places, int64_t results, int n, bool along)
{
    return (size_t)sw_cuda_reduce_parts(places, along) * (size_t)results * (size_t)n *
           sizeof(double);
}

/* The places of this block's part: [from, end). */
struct sw_cuda_part {
    int64_t from, end;
};
static __device__ __forceinline__ sw_cuda_part sw_cuda_part_of(int64_t places)
{
    const int64_t each = (places + gridDim.y - 1) / gridDim.y, from = each * blockIdx.y;
    const int64_t end = from + each < places ? from + each : places;
    return sw_cuda_part{from, end};
}

/* parts (parts, results, N); a grid of (results, parts). */
template <class F>
__global__ void sw_cuda_reduce_across(double *parts, int64_t places, int64_t results, F f)
{
    SW_SHARED(double, room, 32);
    const sw_cuda_part p = sw_cuda_part_of(places);
    for (int64_t c = blockIdx.x; c < results; c += gridDim.x) {
        double sum[F::N] = {}, v[F::N];
        for (int64_t r = p.from + threadIdx.x; r < p.end; r += blockDim.x) {
            f.term(r, c, v);
            for (int k = 0; k < F::N; k++)
                sum[k] += v[k];
        }
        for (int k = 0; k < F::N; k++) {
            sum[k] = sw_cuda_block_reduce<sw_cuda_plus>(sum[k], room);
            if (threadIdx.x == 0)
                parts[(blockIdx.y * results + c) * F::N + k] = sum[k];
        }
    }
}

/* Thirty-two results side by side; slice s has the places s, s + 8, ... of the part. */
template <class F>
__global__ void sw_cuda_reduce_along(double *parts, int64_t places, int64_t results, F f)
{
    SW_SHARED(double, room, SW_CUDA_THREADS);
    const sw_cuda_part p = sw_cuda_part_of(places);
    const int lane = (int)threadIdx.x % 32, slice = (int)threadIdx.x / 32;
    for (int64_t tile = blockIdx.x; tile * 32 < results; tile += gridDim.x) {
        const int64_t c = tile * 32 + lane;
        double sum[F::N] = {}, v[F::N];
        for (int64_t r = p.from + slice; r < p.end && c < results; r += SW_CUDA_SLICES) {
            f.term(r, c, v);
            for (int k = 0; k < F::N; k++)
                sum[k] += v[k];
        }
        for (int k = 0; k < F::N; k++) {
            room[threadIdx.x] = sum[k];
            __syncthreads();
            double all = 0.0;
            for (int s = 0; s < SW_CUDA_SLICES && slice == 0; s++)
                all += room[s * 32 + lane];
            if (slice == 0 && c < results)
                parts[(blockIdx.y * results + c) * F::N + k] = all;
            __syncthreads();
        }
    }
}

template <class F>
__global__ void sw_cuda_reduce_put(const double *parts, int64_t n_parts, int64_t results, F f)
{
    for (int64_t c = sw_cuda_thread(); c < results; c += sw_cuda_threads()) {
        double sum[F::N] = {};
        for (int64_t p = 0; p < n_parts; p++)
            for (int k = 0; k < F::N; k++)
                sum[k] += parts[(p * results + c) * F::N + k];
        f.put(c, sum);
    }
}

template <class F>
static sw_status sw_cuda_reduce(const char *op, F f, int64_t places, int64_t results,
                                bool along, void *scratch, const sw_cuda_queue *queue)
{
    double *parts = static_cast<double *>(scratch);
    const unsigned n = sw_cuda_reduce_parts(places, along);
    const auto across = sw_cuda_reduce_across<F>, beside = sw_cuda_reduce_along<F>;
    const auto put = sw_cuda_reduce_put<F>;
    if (results == 0)
        return SW_OK;
    if (along)
        SW_CUDA_LAUNCH(beside, dim3(sw_cuda_blocks(results, 32), n), SW_CUDA_THREADS, 0, queue,
                       parts, places, results, f);
    else
        SW_CUDA_LAUNCH(across, dim3(sw_cuda_blocks(results, 1), n), SW_CUDA_THREADS, 0, queue,
                       parts, places, results, f);
    SW_CUDA_LAUNCH(put, sw_cuda_blocks(results, SW_CUDA_THREADS), SW_CUDA_THREADS, 0, queue,
                   parts, n, results, f);
    return sw_cuda_launched(op);
}

/* y (cols) = sums over x (rows, cols), whose rows are `step` apart. */
struct sw_cuda_column_sum {
    enum { N = 1 };
    float *y;
    const float *x;
    int64_t step;
    int add;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        v[0] = (double)x[r * step + c];
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        y[c] = add ? y[c] + (float)sum[0] : (float)sum[0];
    }
};

#endif
