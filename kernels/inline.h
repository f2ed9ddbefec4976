/* Before functions that code for the host and for a device share. */
#pragma once

#ifdef __CUDACC__
#define SW_INLINE static __host__ __device__ __forceinline__
#else
#define SW_INLINE static inline
#endif
