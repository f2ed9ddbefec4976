/* Sums of terms term(r, c) over r, for each result c: in float64, in an order that shapes alone
 * decide. A struct F has
 *
 *   N                         how many sums each result has
 *   term(r, c, double (&)[N]) what position r adds to them
 *   put(c, double (&)[N])     what becomes of the sums of c
 *
 * and may say by sw_cuda_reduction that they are something other than sums of doubles.
 *
 * The positions are cut into parts; a block sums one part and leaves it in scratch, and the
 * last block of a result adds the parts in order (a queue without tickets: a second kernel).
 * One part alone is put at once, without scratch. term() may not read what put() writes for
 * another result. Threads of a block lie along r, or along c where neighbours in c are
 * neighbours in memory. */
#pragma once

#include "kernels/cuda/device.h"

#define SW_CUDA_SLICES (SW_CUDA_THREADS / 32) /* along c: a warp for each slice of r */

/* T has eight bytes; zeros are OP's neutral element. */
template <class F> struct sw_cuda_reduction {
    typedef double T;
    typedef sw_cuda_plus OP;
};
#define SW_CUDA_REDUCTION(F)                                                                   \
    typedef typename sw_cuda_reduction<F>::T T;                                                \
    typedef typename sw_cuda_reduction<F>::OP OP

/* By shape alone. `along`: threads lie along c. */
static inline unsigned sw_cuda_reduce_parts(int64_t positions, bool along)
{
    const int64_t each = along ? 128 : 8192, most = along ? 64 : 1024;
    const int64_t parts = (positions + each - 1) / each;
    return (unsigned)(parts < 1 ? 1 : parts > most ? most : parts);
}
/* Scratch for `results` of n sums each. */
static inline size_t sw_cuda_reduce_bytes(int64_t positions, int64_t results, int n, bool along)
{
    const size_t parts = sw_cuda_reduce_parts(positions, along);
    return parts > 1 ? parts * (size_t)results * (size_t)n * sizeof(double) : 0;
}

/* The positions of this block's part: [from, end). */
struct sw_cuda_part {
    int64_t from, end;
};
static __device__ __forceinline__ sw_cuda_part sw_cuda_part_of(int64_t positions)
{
    const int64_t each = (positions + gridDim.y - 1) / gridDim.y, from = each * blockIdx.y;
    const int64_t end = from + each < positions ? from + each : positions;
    return sw_cuda_part{from, end};
}

/* The value of this block's part of result c. */
template <class F, class T>
static __device__ __forceinline__ void
sw_cuda_reduce_store(T *parts, int64_t results, int64_t c, const T (&sum)[F::N], const F &f)
{
    if (gridDim.y == 1) {
        f.put(c, sum);
        return;
    }
    for (int k = 0; k < F::N; k++)
        parts[(blockIdx.y * results + c) * F::N + k] = sum[k];
}

/* Is this the last of `n` blocks that have this ticket? It then sees what the others have
 * written before, and the ticket is 0 again. All threads must come. `last`: shared, one number.
 */
static __device__ __forceinline__ bool sw_cuda_is_last_by(uint32_t *ticket, unsigned n,
                                                          uint32_t *last)
{
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last[0] = atomicAdd(ticket, 1u) == n - 1;
        if (last[0] != 0)
            *ticket = 0;
    }
    __syncthreads();
    __threadfence();
    return last[0] != 0;
}
static __device__ __forceinline__ bool sw_cuda_is_last(uint32_t *ticket, unsigned n)
{
    SW_SHARED(uint32_t, last, 1);
    return sw_cuda_is_last_by(ticket, n, last);
}

/* The parts of result c by G lanes, 1 or 32, which take them in turn. */
template <int G, class F, class T>
static __device__ __forceinline__ void sw_cuda_reduce_join(const T *parts, int64_t n_parts,
                                                           int64_t results, int64_t c, int lane,
                                                           const F &f)
{
    typedef typename sw_cuda_reduction<F>::OP OP;
    T sum[F::N] = {};
    for (int64_t p = lane; p < n_parts; p += G)
        for (int k = 0; k < F::N; k++)
            sum[k] = OP::of(sum[k], parts[(p * results + c) * F::N + k]);
    for (int k = 0; k < F::N && G > 1; k++)
        sum[k] = sw_cuda_warp_reduce<OP>(sum[k]);
    if (lane == 0)
        f.put(c, sum);
}
static __host__ __device__ inline int sw_cuda_reduce_lanes(unsigned n_parts)
{
    return n_parts < 8 ? 1 : 32;
}

/* By the last block of a column of blocks: its results, `tile` neighbours at a time. */
template <class F, class T>
static __device__ __forceinline__ void
sw_cuda_reduce_finish(const T *parts, int64_t results, int tile, uint32_t *tickets, const F &f)
{
    if (tickets == nullptr || !sw_cuda_is_last(tickets + blockIdx.x, gridDim.y))
        return;
    const int each = sw_cuda_reduce_lanes(gridDim.y), lane = (int)threadIdx.x % each;
    for (int64_t k = (int)threadIdx.x / each;; k += blockDim.x / each) {
        const int64_t c = (blockIdx.x + k / tile * gridDim.x) * tile + k % tile;
        if (c - k % tile >= results)
            break;
        if (c >= results)
            continue;
        if (each == 1)
            sw_cuda_reduce_join<1>(parts, gridDim.y, results, c, lane, f);
        else
            sw_cuda_reduce_join<32>(parts, gridDim.y, results, c, lane, f);
    }
}
/* Of such a launch. */
static inline uint32_t *sw_cuda_reduce_tickets(unsigned blocks, unsigned n_parts,
                                               const sw_cuda_queue *queue)
{
    return n_parts > 1 && blocks <= SW_CUDA_TICKETS ? queue->tickets : nullptr;
}

/* parts (parts, results, N); a grid of (results, parts). */
template <class F>
__global__ void __launch_bounds__(SW_CUDA_THREADS, 4)
    sw_cuda_reduce_across(void *scratch, int64_t positions, int64_t results, uint32_t *tickets,
                          F f)
{
    SW_CUDA_REDUCTION(F);
    T *parts = static_cast<T *>(scratch);
    SW_SHARED(T, partials, 32);
    const sw_cuda_part p = sw_cuda_part_of(positions);
    for (int64_t c = blockIdx.x; c < results; c += gridDim.x) {
        T sum[F::N] = {}, v[F::N];
        for (int64_t r = p.from + threadIdx.x; r < p.end; r += blockDim.x) {
            f.term(r, c, v);
            for (int k = 0; k < F::N; k++)
                sum[k] = OP::of(sum[k], v[k]);
        }
        for (int k = 0; k < F::N; k++)
            sum[k] = sw_cuda_block_reduce<OP>(sum[k], partials);
        if (threadIdx.x == 0)
            sw_cuda_reduce_store(parts, results, c, sum, f);
    }
    sw_cuda_reduce_finish(parts, results, 1, tickets, f);
}

/* Thirty-two results side by side; slice s has the positions s, s + 8, ... of the part. */
template <class F>
__global__ void sw_cuda_reduce_along(void *scratch, int64_t positions, int64_t results,
                                     uint32_t *tickets, F f)
{
    SW_CUDA_REDUCTION(F);
    T *parts = static_cast<T *>(scratch);
    SW_SHARED(T, partials, SW_CUDA_THREADS);
    const sw_cuda_part p = sw_cuda_part_of(positions);
    const int lane = (int)threadIdx.x % 32, slice = (int)threadIdx.x / 32;
    for (int64_t tile = blockIdx.x; tile * 32 < results; tile += gridDim.x) {
        const int64_t c = tile * 32 + lane;
        T sum[F::N] = {}, v[F::N];
        for (int64_t r = p.from + slice; r < p.end && c < results; r += SW_CUDA_SLICES) {
            f.term(r, c, v);
            for (int k = 0; k < F::N; k++)
                sum[k] = OP::of(sum[k], v[k]);
        }
        for (int k = 0; k < F::N; k++) {
            partials[threadIdx.x] = sum[k];
            __syncthreads();
            sum[k] = OP::template none<T>();
            for (int s = 0; s < SW_CUDA_SLICES && slice == 0; s++)
                sum[k] = OP::of(sum[k], partials[s * 32 + lane]);
            __syncthreads();
        }
        if (slice == 0 && c < results)
            sw_cuda_reduce_store(parts, results, c, sum, f);
    }
    sw_cuda_reduce_finish(parts, results, 32, tickets, f);
}

/* One result by one thread, in the order of sw_cuda_reduce_along of one part. */
template <class F>
static __device__ __forceinline__ void sw_cuda_reduce_alone(int64_t positions, int64_t c,
                                                            const F &f)
{
    SW_CUDA_REDUCTION(F);
    T all[F::N];
    for (int k = 0; k < F::N; k++)
        all[k] = OP::template none<T>();
    for (int s = 0; s < SW_CUDA_SLICES; s++) {
        T sum[F::N] = {}, v[F::N];
        for (int64_t r = s; r < positions; r += SW_CUDA_SLICES) {
            f.term(r, c, v);
            for (int k = 0; k < F::N; k++)
                sum[k] = OP::of(sum[k], v[k]);
        }
        for (int k = 0; k < F::N; k++)
            all[k] = OP::of(all[k], sum[k]);
    }
    f.put(c, all);
}

/* G threads for each result. */
template <int G, class F>
__global__ void sw_cuda_reduce_put(const void *scratch, int64_t n_parts, int64_t results, F f)
{
    const auto *parts = static_cast<const typename sw_cuda_reduction<F>::T *>(scratch);
    for (int64_t c = sw_cuda_thread() / G; c < results; c += sw_cuda_threads() / G)
        sw_cuda_reduce_join<G>(parts, n_parts, results, c, (int)threadIdx.x % G, f);
}

/* Joins the parts, where no block has; few of them have one thread. */
template <class F>
static void sw_cuda_reduce_end(F f, unsigned n_parts, int64_t results, const void *scratch,
                               const uint32_t *tickets, const sw_cuda_queue *queue)
{
    const int each = sw_cuda_reduce_lanes(n_parts);
    if (n_parts == 1 || tickets != nullptr)
        return;
    const auto put = each == 1 ? sw_cuda_reduce_put<1, F> : sw_cuda_reduce_put<32, F>;
    SW_CUDA_LAUNCH_FOR(put, results, SW_CUDA_THREADS / each, queue, scratch, n_parts, results,
                       f);
}

template <bool ALONG, class F>
static sw_status sw_cuda_reduce(const char *op, F f, int64_t positions, int64_t results,
                                void *scratch, const sw_cuda_queue *queue)
{
    const unsigned n = sw_cuda_reduce_parts(positions, ALONG);
    void (*kernel)(void *, int64_t, int64_t, uint32_t *, F);
    if constexpr (ALONG)
        kernel = sw_cuda_reduce_along<F>;
    else
        kernel = sw_cuda_reduce_across<F>;
    if (results == 0)
        return SW_OK;
    const unsigned blocks = sw_cuda_blocks(results, ALONG ? 32 : 1);
    uint32_t *tickets = sw_cuda_reduce_tickets(blocks, n, queue);
    SW_CUDA_LAUNCH(kernel, dim3(blocks, n), SW_CUDA_THREADS, 0, queue, scratch, positions,
                   results, tickets, f);
    sw_cuda_reduce_end(f, n, results, scratch, tickets, queue);
    return sw_cuda_launched(op);
}

/* y (cols) = sums over x (rows, cols), whose rows are `step` apart. */
struct sw_cuda_column_sum {
    enum { N = 1 };
    sw_cuda_numbers y, x;
    int64_t step;
    int add;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        float one[1];
        sw_cuda_load(one, x, r * step + c);
        v[0] = (double)one[0];
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        float old[1] = {};
        if (add)
            sw_cuda_load(old, y, c);
        const float one[1] = {add ? old[0] + (float)sum[0] : (float)sum[0]};
        sw_cuda_store(y, c, one);
    }
};
