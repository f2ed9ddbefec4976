/* Images (batch, c, h, w): what pooling, scaling and convolution share. Places inside of a
 * plane or an image count in 32 bits, whatever the number of images. */
#pragma once

#include "kernels/cuda/device.h"

/* Elements that one block index counts over; tests give fewer, so that there are several. */
#ifndef SW_CUDA_CHUNK
#define SW_CUDA_CHUNK (1 << 30)
#endif

/* ---- what is refused --------------------------------------------------------------------- */

static inline sw_status sw_cuda_image_type(const char *op, const sw_type *t)
{
    const int64_t most = (int64_t)1 << 30;
    int64_t n = 1;
    SW_TRY(sw_cuda_plain_type(op, t));
    for (int i = 1; i < t->shape.rank; i++)
        n *= t->shape.dim[i];
    if (t->shape.rank == 4 && (n > most || t->shape.dim[0] > most))
        return sw_cuda_its_host.fail(SW_UNSUPPORTED, __FILE__, __LINE__,
                                     "%s: images and their elements must each be at most %lld "
                                     "on this device (got %lld images of %lld elements)",
                                     op, (long long)most, (long long)t->shape.dim[0],
                                     (long long)n);
    return SW_OK;
}

/* At most 2^30 plain images of at most 2^30 elements each. */
static inline sw_status sw_cuda_images(const char *op, const sw_launch *l)
{
    for (int i = 0; i < l->n_in; i++)
        SW_TRY(sw_cuda_image_type(op, &l->in[i].type));
    for (int i = 0; i < l->n_out; i++)
        SW_TRY(sw_cuda_image_type(op, &l->out[i].type));
    return SW_OK;
}

/* ---- many planes ------------------------------------------------------------------------- */

/* Planes in chunks, one for each blockIdx.y: `per` planes, `each` counts of one plane, threads
 * loop over the counts of a chunk. */
struct sw_cuda_planes {
    int64_t n;
    int32_t per;
    sw_cuda_divisor each;
};
static inline sw_cuda_planes sw_cuda_planes_of(int64_t planes, int64_t each)
{
    const int64_t per = each < SW_CUDA_CHUNK ? SW_CUDA_CHUNK / (each < 1 ? 1 : each) : 1;
    return sw_cuda_planes{planes, (int32_t)(per < planes ? per : planes),
                          sw_cuda_divisor_of(each < 1 ? 1 : each)};
}
static inline dim3 sw_cuda_planes_grid(const sw_cuda_planes &p)
{
    const int64_t counts = (int64_t)p.per * p.each.by;
    return dim3(sw_cuda_blocks(counts, SW_CUDA_THREADS), (unsigned)((p.n + p.per - 1) / p.per));
}
/* Of this block's chunk: its first plane, and its counts. */
static __device__ __forceinline__ int64_t sw_cuda_chunk_first(const sw_cuda_planes &p)
{
    return (int64_t)blockIdx.y * p.per;
}
static __device__ __forceinline__ uint32_t sw_cuda_chunk_counts(const sw_cuda_planes &p)
{
    const int64_t left = p.n - sw_cuda_chunk_first(p);
    return (uint32_t)(left < p.per ? left : p.per) * p.each.by;
}
