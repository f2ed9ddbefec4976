/* Labels and ids of rows, of U8 or I32: one of the two is given. */
#ifndef SW_CUDA_IDS_H
#define SW_CUDA_IDS_H

#include "kernels/cuda/device.h"

struct sw_cuda_ids {
    const int32_t *i32;
    const uint8_t *u8;
    __device__ int64_t at(int64_t i) const
    {
        return u8 != nullptr ? (int64_t)u8[i] : (int64_t)i32[i];
    }
    sw_cuda_ids from(int64_t i) const
    {
        return sw_cuda_ids{i32 != nullptr ? i32 + i : nullptr,
                           u8 != nullptr ? u8 + i : nullptr};
    }
};
/* Of the launch's input i. */
static inline sw_cuda_ids sw_cuda_ids_in(const sw_launch *l, int i)
{
    const bool bytes = l->in[i].type.dtype == SW_U8;
    return sw_cuda_ids{bytes ? nullptr : static_cast<const int32_t *>(l->in[i].ptr),
                       bytes ? static_cast<const uint8_t *>(l->in[i].ptr) : nullptr};
}

#endif
