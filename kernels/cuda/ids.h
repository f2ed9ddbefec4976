/* Labels and ids of rows, of U8, U16 or I32: one of the three is given. */
#pragma once

#include "kernels/cuda/device.h"

struct sw_cuda_ids {
    const int32_t *i32;
    const uint16_t *u16;
    const uint8_t *u8;
    __device__ int64_t at(int64_t i) const
    {
        return u8 != nullptr    ? (int64_t)u8[i]
               : u16 != nullptr ? (int64_t)u16[i]
                                : (int64_t)i32[i];
    }
    sw_cuda_ids from(int64_t i) const
    {
        return sw_cuda_ids{i32 != nullptr ? i32 + i : nullptr,
                           u16 != nullptr ? u16 + i : nullptr,
                           u8 != nullptr ? u8 + i : nullptr};
    }
};
/* Of the launch's input i. */
static inline sw_cuda_ids sw_cuda_ids_in(const sw_launch *l, int i)
{
    const sw_dtype dtype = l->in[i].type.dtype;
    const void *at = l->in[i].ptr;
    return sw_cuda_ids{dtype == SW_I32 ? static_cast<const int32_t *>(at) : nullptr,
                       dtype == SW_U16 ? static_cast<const uint16_t *>(at) : nullptr,
                       dtype == SW_U8 ? static_cast<const uint8_t *>(at) : nullptr};
}
