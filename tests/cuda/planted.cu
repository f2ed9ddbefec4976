/* Kernels with known mistakes, and the same without them: what the emulator has to find. */
#include "kernels/cuda/device.h"
#include "tests/cuda/planted.h"

#define THREADS 128

/* ---- barriers ---------------------------------------------------------------------------- */

/* y[block] = sum of the block's x. Without its first barrier threads read what others have not
 * written yet. */
__global__ void block_sum(float *y, const float *x, int with_barrier)
{
    SW_SHARED(float, part, THREADS);
    part[threadIdx.x] = x[blockIdx.x * THREADS + threadIdx.x];
    if (with_barrier)
        __syncthreads();
    if (threadIdx.x == THREADS - 1) {
        float sum = 0.0f;
        for (int i = THREADS - 1; i >= 0; i--)
            sum += part[i];
        y[blockIdx.x] = sum;
    }
}

/* y = the numbers of a block in reverse, two rounds in the same shared array: without the
 * second barrier one round overwrites what others still read. */
__global__ void reverse_twice(float *y, const float *x, int with_barrier)
{
    SW_SHARED(float, part, THREADS);
    for (int round = 0; round < 2; round++) {
        const int at = (round * THREADS) + (int)threadIdx.x;
        part[threadIdx.x] = x[at];
        __syncthreads();
        y[at] = part[THREADS - 1 - threadIdx.x];
        if (with_barrier)
            __syncthreads();
    }
}

/* Two rounds, in each of which warps leave a number and read all: without the second barrier a
 * warp that runs ahead overwrites what others have not read. */
__global__ void warp_ahead(float *y, int with_barrier)
{
    SW_SHARED(float, room, THREADS / 32);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int round = 0; round < 2; round++) {
        if (lane == 0)
            room[warp] = (float)(round * 10 + warp);
        __syncthreads();
        float v = room[lane % (THREADS / 32)];
        v = __shfl_xor_sync(0xffffffffu, v, THREADS / 32);
        y[round * THREADS + (int)threadIdx.x] = v;
        if (with_barrier)
            __syncthreads();
    }
}

__global__ void half_waits(float *y)
{
    if (threadIdx.x < 64)
        __syncthreads();
    y[threadIdx.x] = 1.0f;
}

__global__ void waits_apart(float *y)
{
    if (threadIdx.x < 64)
        __syncthreads();
    else
        __syncthreads();
    y[threadIdx.x] = 1.0f;
}

__global__ void half_a_warp(float *y)
{
    float v = (float)threadIdx.x;
    if (threadIdx.x % 32 < 16)
        v = __shfl_down_sync(0xffffffffu, v, 1);
    y[threadIdx.x] = v;
}

__global__ void barrier_and_warp(float *y)
{
    float v = 1.0f;
    if (threadIdx.x < 32)
        v = __shfl_xor_sync(0xffffffffu, v, 1);
    if (threadIdx.x != 3)
        __syncthreads();
    else
        __syncwarp();
    y[threadIdx.x] = v;
}

/* ---- shared memory ----------------------------------------------------------------------- */

/* The first block leaves numbers that the second one reads without having written them. */
__global__ void reads_unwritten(float *y)
{
    SW_SHARED(float, left, THREADS);
    if (blockIdx.x == 0)
        left[threadIdx.x] = 1.0f;
    __syncthreads();
    y[blockIdx.x * THREADS + threadIdx.x] = left[threadIdx.x];
}

/* Each second thread writes the number that goes to the lane beside it, and that may be a
 * place.
 */
__global__ void passes_unwritten(float *y, int is_place)
{
    float v[2];
    v[threadIdx.x % 2] = 1.0f;
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, v[0], 1);
    if (is_place)
        y[(int)v[0]] = 2.0f;
}

__global__ void dynamic_reverse(float *y, const float *x, int past)
{
    SW_SHARED_DYNAMIC(float, part);
    part[(int)threadIdx.x + past] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = part[THREADS - 1 - (int)threadIdx.x + past];
}

__global__ void too_much_shared(float *y)
{
    SW_SHARED(float, a, 8192);
    SW_SHARED(float, b, 8192);
    a[threadIdx.x] = b[threadIdx.x] = 0.0f;
    y[threadIdx.x] = 0.0f;
}

__global__ void global_store_to_shared(float *y, int right)
{
    SW_SHARED(float4, four, 1);
    sw_cuda_store_wide<false>(right ? reinterpret_cast<float4 *>(y) : four,
                              make_float4(1.0f, 2.0f, 3.0f, 4.0f));
}

/* ---- elements and lanes ------------------------------------------------------------------ */

__global__ void copies(float *y, const float *x, int n)
{
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n;
         i += (int)(gridDim.x * blockDim.x))
        y[i] = x[i];
}

__global__ void copies_four(float *y, const float *x)
{
    reinterpret_cast<float4 *>(y)[threadIdx.x] =
        reinterpret_cast<const float4 *>(x)[threadIdx.x];
}

/* 64 places for each lane: what each shuffle and vote gives. */
__global__ void lanes(uint32_t *y)
{
    const uint32_t lane = threadIdx.x % 32, all = 0xffffffffu;
    uint32_t *to = y + threadIdx.x * 8;
    to[0] = __shfl_sync(all, lane * 3, 5);
    to[1] = __shfl_down_sync(all, lane, 4);
    to[2] = __shfl_up_sync(all, lane, 2);
    to[3] = __shfl_xor_sync(all, lane, 16);
    to[4] = __ballot_sync(all, lane % 3 == 0);
    to[5] = (uint32_t)__any_sync(all, lane == 7) | (uint32_t)__all_sync(all, lane < 32) << 1 |
            (uint32_t)__any_sync(all, lane == 33) << 2 |
            (uint32_t)__all_sync(all, lane < 31) << 3;
    __syncwarp();
    to[6] = (uint32_t)(int64_t)__shfl_xor_sync(all, (double)lane, 1);
    to[7] = lane;
}

__global__ void counts(uint32_t *y)
{
    atomicAdd(&y[0], 1u);
    atomicMax(&y[1], blockIdx.x * blockDim.x + threadIdx.x);
    atomicCAS(&y[2], 0u, 7u);
    if (threadIdx.x == 0 && blockIdx.x == 0)
        atomicExch(&y[3], 9u);
}

/* Which thread was the last to write: the schedule decides. */
__global__ void who_is_last(uint32_t *y)
{
    y[0] = threadIdx.x;
    y[1] = blockIdx.x;
}

extern "C" int planted_run(const planted *p)
{
    float *y = p->y;
    const float *x = p->x;
    uint32_t *u = p->u;
    const dim3 grid(p->blocks), block(p->threads);
    const sw_cuda_queue queue = {};
#define PLANTED(id, name, shared_bytes, ...)                                                   \
    case PLANTED_##id:                                                                         \
        SW_CUDA_LAUNCH(name, grid, block, shared_bytes, &queue, __VA_ARGS__);                  \
        break;
    switch (p->kernel) {
        PLANTED_KERNELS(PLANTED)
    }
    return (int)cudaGetLastError();
}
