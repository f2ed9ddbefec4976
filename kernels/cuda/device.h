/* Included by all kernels/cuda/ sources: CUDA, or the emulator of the tests in its place, and
 * what kernels share. Sources say SW_CUDA_LAUNCH instead of <<<>>> and SW_SHARED instead of
 * __shared__, so that a host compiler reads them too.
 *
 * Bits do not depend on the device or on a schedule: grids and blocks follow from sizes alone,
 * sums go in the order of their positions. Contraction is off, so elementwise results are the
 * CPU's. */
#pragma once

#include "kernels/cuda/table.h"
#include "kernels/halves.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define SW_CUDA_MAKE_LAUNCH(kernel, grid, block, shared_bytes, queue, ...)                     \
    (kernel<<<(grid), (block), (shared_bytes), (cudaStream_t)(queue)->stream>>>(__VA_ARGS__))
#define SW_SHARED(type, name, n) __shared__ type name[n]
#define SW_SHARED_DYNAMIC(type, name)                                                          \
    extern __shared__ __align__(16) unsigned char sw_dynamic_shared[];                         \
    type *const name = reinterpret_cast<type *>(sw_dynamic_shared)
/* To global memory in one access: the compiler takes assignments apart in unrolled loops. */
template <bool ASSIGNS>
static __device__ __forceinline__ void sw_cuda_store_wide(float4 *p, const float4 &v)
{
    if (ASSIGNS)
        *p = v;
    else
        asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(v.x), "f"(v.y),
                     "f"(v.z), "f"(v.w)
                     : "memory");
}
template <bool ASSIGNS>
static __device__ __forceinline__ void sw_cuda_store_wide(uint2 *p, const uint2 &v)
{
    if (ASSIGNS)
        *p = v;
    else
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y)
                     : "memory");
}
/* One kernel of each unit has a name that the host knows, and leads it to the others
 * (runtime/device/cuda/host.c). */
#ifdef SW_CUDA_ANCHOR
extern "C" __global__ void SW_CUDA_ANCHOR(void)
{
}
#endif
#else
#include <cuda_emulator.h>
#endif

/* An entry of the module (table.def): op; forward, or grad and the position of the gradient
 * kernel; the function of its scratch, or NULL; 1 where its bits are those of the CPU's kernel,
 * 2 where it takes bf16 besides.
 * Its body follows, of a launch `l` on `queue`; _OF: its result stands there. _BY is an entry
 * that is another one's function, or a list's: the position is a number there. */
#define SW_CUDA_ENTRY(op, which, scratch, exact)                                               \
    extern "C" sw_status sw_cuda_##op##_##which(const sw_launch *l, const sw_cuda_queue *queue)
#define SW_CUDA_ENTRY_OF(op, which, scratch, exact, ...)                                       \
    SW_CUDA_ENTRY(op, which, scratch, exact)                                                   \
    {                                                                                          \
        return __VA_ARGS__;                                                                    \
    }
#define SW_CUDA_ENTRY_BY(op, which, function, scratch, exact)                                  \
    extern "C" sw_cuda_kernel function;
/* The bytes of scratch that entries ask for. */
#define SW_CUDA_SCRATCH_SIZE(function)                                                         \
    extern "C" size_t function([[maybe_unused]] const sw_kernel_info *info,                    \
                               [[maybe_unused]] const sw_cuda_queue *queue)

#define SW_CUDA_LAUNCH(kernel, grid, block, shared_bytes, queue, ...)                          \
    do {                                                                                       \
        if (!sw_cuda_states(queue))                                                            \
            SW_CUDA_MAKE_LAUNCH(kernel, grid, block, shared_bytes, queue, __VA_ARGS__);        \
    } while (0)

/* For n pieces of work, `each` of them in a block of the usual size. */
#define SW_CUDA_LAUNCH_FOR(kernel, n, each, queue, ...)                                        \
    SW_CUDA_LAUNCH(kernel, sw_cuda_blocks(n, each), SW_CUDA_THREADS, 0, queue, __VA_ARGS__)

/* Before a loop over registers: its length is known. Of others: how far it is unrolled,
 * where registers are scarce. */
#ifdef __CUDACC__
#define SW_UNROLL _Pragma("unroll")
#define SW_PRAGMA(text) _Pragma(#text)
#define SW_UNROLL_BY(n) SW_PRAGMA(unroll n)
#else
#define SW_UNROLL
#define SW_UNROLL_BY(n)
#endif

#define SW_CUDA_THREADS 256 /* of a block, unless a kernel says otherwise */
/* Blocks of loops over elements; tests give fewer, so that loops go round. */
#ifndef SW_CUDA_MOST_BLOCKS
#define SW_CUDA_MOST_BLOCKS 4096
#endif

/* ---- on the host ------------------------------------------------------------------------- */

extern sw_cuda_host sw_cuda_its_host;
/* The status of the launches since the last call. */
sw_status sw_cuda_launched(const char *kernel);

/* Blocks for n pieces of work, `each` of them in one block: at least one, at most
 * SW_CUDA_MOST_BLOCKS. */
static inline unsigned sw_cuda_blocks(int64_t n, int64_t each)
{
    const int64_t blocks = (n + each - 1) / each;
    return (unsigned)(blocks < 1                     ? 1
                      : blocks > SW_CUDA_MOST_BLOCKS ? SW_CUDA_MOST_BLOCKS
                                                     : blocks);
}

/* Up to SW_ALIGN, as the runtime rounds workspaces. */
static inline size_t sw_cuda_round(size_t bytes)
{
    return (bytes + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
}

/* Elements in memory, lanes of padding included; the type is known to be good. */
static inline int64_t sw_cuda_elements(const sw_type *type)
{
    int64_t n = 1;
    for (int i = 0; i < type->shape.rank; i++)
        n *= i == 0 && type->layout == SW_N16 ? (type->shape.dim[0] + 15) / 16 * 16
                                              : type->shape.dim[i];
    return n;
}

/* Of a launch, or of its sw_kernel_info. */
template <class T, class L> static inline const T *sw_cuda_attrs(const L *l)
{
    return static_cast<const T *>(l->attrs);
}

static inline const float *sw_cuda_in(const sw_launch *l, int i)
{
    return static_cast<const float *>(l->in[i].ptr);
}
static inline float *sw_cuda_out(const sw_launch *l, int i)
{
    return static_cast<float *>(l->out[i].ptr);
}
static inline int sw_cuda_adds(const sw_launch *l, int i)
{
    return (int)(l->accumulate >> i & 1u);
}

/* SW_UNSUPPORTED for images in blocks: that is how CPUs want them. With a device the runtime
 * keeps all images plain. */
static inline sw_status sw_cuda_plain_type(const char *op, const sw_type *t)
{
    if (t->layout == SW_PLAIN)
        return SW_OK;
    return sw_cuda_its_host.fail(
        SW_UNSUPPORTED, __FILE__, __LINE__,
        "%s: images must have the plain layout on this device (got blocks of sixteen)", op);
}
/* ... of all operands. */
static inline sw_status sw_cuda_all_plain(const char *op, const sw_launch *l)
{
    for (int i = 0; i < l->n_in; i++)
        SW_TRY(sw_cuda_plain_type(op, &l->in[i].type));
    for (int i = 0; i < l->n_out; i++)
        SW_TRY(sw_cuda_plain_type(op, &l->out[i].type));
    return SW_OK;
}

static inline bool sw_cuda_aligned(const void *p)
{
    return (reinterpret_cast<uintptr_t>(p) & 15u) == 0;
}

/* ---- division ---------------------------------------------------------------------------- */

/* By a number that many threads share: n / by for n < 2^31, or 2^63, as a product and a shift
 * (Granlund and Montgomery 1994). No padding: GCC 12 clears other bytes where an array has
 * some. */
struct sw_cuda_divisor {
    uint32_t by, times, shift;
};
struct sw_cuda_long_divisor {
    int64_t by;
    uint64_t times, shift;
};
template <class D, class WIDE>
static inline __host__ __device__ D sw_cuda_divisor_by(int64_t by)
{
    const unsigned most = 8 * sizeof(D::times) - 1;
    unsigned bits = 0;
    D d = {};
    d.by = (decltype(d.by))by;
    while (bits < most && (WIDE)1 << bits < (WIDE)by)
        bits++;
    if (by > 1) {
        d.times = (decltype(d.times))((((WIDE)1 << (most + bits)) + (WIDE)by - 1) / (WIDE)by);
        d.shift = bits - 1;
    }
    return d;
}
static inline __host__ __device__ sw_cuda_divisor sw_cuda_divisor_of(int64_t by)
{
    return sw_cuda_divisor_by<sw_cuda_divisor, uint64_t>(by);
}
static inline sw_cuda_long_divisor sw_cuda_long_divisor_of(int64_t by)
{
    return sw_cuda_divisor_by<sw_cuda_long_divisor, unsigned __int128>(by);
}
static __device__ __forceinline__ uint32_t sw_cuda_divide(const sw_cuda_divisor &d, uint32_t n)
{
    return d.times == 0 ? n : (uint32_t)((uint64_t)n * d.times >> 32) >> d.shift;
}
static __device__ __forceinline__ int64_t sw_cuda_divide(const sw_cuda_long_divisor &d,
                                                         int64_t n)
{
    return d.times == 0 ? n : (int64_t)(__umul64hi((uint64_t)n, d.times) >> d.shift);
}
/* n / by, and in *n what is left. */
template <class D, class N> static __device__ __forceinline__ N sw_cuda_split(const D &d, N *n)
{
    const N q = sw_cuda_divide(d, *n);
    *n -= q * d.by;
    return q;
}

/* ---- on the device ----------------------------------------------------------------------- */

static __device__ __forceinline__ int64_t sw_cuda_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
static __device__ __forceinline__ int64_t sw_cuda_threads(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* W floats, 1 or 4; four in one access, from an address that is divisible by 16. */
template <int W>
static __device__ __forceinline__ void sw_cuda_load(float (&v)[W], const float *p)
{
    static_assert(W == 1 || W == 4, "one or four");
    if (W == 4) {
        const float4 four = *reinterpret_cast<const float4 *>(p);
        v[0] = four.x, v[1 % W] = four.y, v[2 % W] = four.z, v[3 % W] = four.w;
    } else {
        v[0] = *p;
    }
}
/* SW_CUDA_ASSIGN: by assignment, to shared memory too, and where registers are scarce. All
 * other stores are to global memory alone. */
constexpr bool SW_CUDA_ASSIGN = true;
template <bool ASSIGNS = false, int W>
static __device__ __forceinline__ void sw_cuda_store(float *p, const float (&v)[W])
{
    if (W == 4)
        sw_cuda_store_wide<ASSIGNS>(reinterpret_cast<float4 *>(p),
                                    make_float4(v[0], v[1 % W], v[2 % W], v[3 % W]));
    else
        *p = v[0];
}

/* The same of bf16, from and to addresses that are divisible by 8. */
template <int W>
static __device__ __forceinline__ void sw_cuda_load(float (&v)[W], const uint16_t *p)
{
    const uint2 four = W == 4 ? *reinterpret_cast<const uint2 *>(p) : make_uint2(*p, 0);
    v[0] = sw_bf16_widen((uint16_t)four.x);
    if (W == 4) {
        v[1 % W] = sw_bf16_widen((uint16_t)(four.x >> 16));
        v[2 % W] = sw_bf16_widen((uint16_t)four.y);
        v[3 % W] = sw_bf16_widen((uint16_t)(four.y >> 16));
    }
}
template <bool ASSIGNS = false, int W>
static __device__ __forceinline__ void sw_cuda_store(uint16_t *p, const float (&v)[W])
{
    uint16_t r[W];
    for (int k = 0; k < W; k++)
        r[k] = sw_bf16_round(v[k]);
    if (W == 4)
        sw_cuda_store_wide<ASSIGNS>(
            reinterpret_cast<uint2 *>(p),
            make_uint2(r[0] | (uint32_t)r[1 % W] << 16, r[2 % W] | (uint32_t)r[3 % W] << 16));
    else
        *p = r[0];
}

/* Numbers of an operand that may be of either type. */
struct sw_cuda_numbers {
    void *p;
    int half; /* bf16 */
    sw_cuda_numbers() = default;
    sw_cuda_numbers(const float *x) : p(const_cast<float *>(x)), half(0)
    {
    }
    sw_cuda_numbers(const sw_buffer &b) : p(b.ptr), half(b.type.dtype == SW_BF16)
    {
    }
};
struct sw_cuda_floats {
    void *p;
};
/* Element i and those after it. */
template <int W>
static __device__ __forceinline__ void sw_cuda_load(float (&v)[W], const sw_cuda_floats &x,
                                                    int64_t i)
{
    sw_cuda_load(v, static_cast<const float *>(x.p) + i);
}
template <int W>
static __device__ __forceinline__ void sw_cuda_store(const sw_cuda_floats &y, int64_t i,
                                                     const float (&v)[W])
{
    sw_cuda_store(static_cast<float *>(y.p) + i, v);
}
template <int W>
static __device__ __forceinline__ void sw_cuda_load(float (&v)[W], const sw_cuda_numbers &x,
                                                    int64_t i)
{
    if (x.half)
        sw_cuda_load(v, static_cast<const uint16_t *>(x.p) + i);
    else
        sw_cuda_load(v, static_cast<const float *>(x.p) + i);
}
template <bool ASSIGNS = false, int W>
static __device__ __forceinline__ void sw_cuda_store(const sw_cuda_numbers &y, int64_t i,
                                                     const float (&v)[W])
{
    if (y.half)
        sw_cuda_store<ASSIGNS>(static_cast<uint16_t *>(y.p) + i, v);
    else
        sw_cuda_store<ASSIGNS>(static_cast<float *>(y.p) + i, v);
}

/* Over the lanes of a warp, in the order of a binary tree; every lane has the result. */
struct sw_cuda_plus {
    template <class T> static __device__ __forceinline__ T of(T a, T b)
    {
        return a + b;
    }
    template <class T> static __device__ __forceinline__ T none(void)
    {
        return T(0);
    }
};
/* A NaN wins. */
struct sw_cuda_largest {
    static __device__ __forceinline__ float of(float a, float b)
    {
        return b > a || b != b ? b : a;
    }
    template <class T> static __device__ __forceinline__ T none(void)
    {
        return -INFINITY;
    }
};

template <class OP, class T> static __device__ __forceinline__ T sw_cuda_warp_reduce(T v)
{
    for (int by = 16; by > 0; by /= 2)
        v = OP::of(v, __shfl_xor_sync(0xffffffffu, v, by));
    return v;
}

/* Over a block of whole warps: warps first, then their results; every thread has it. All
 * threads must come; `partials` (32 of shared memory) is free again after the call. */
template <class OP, class T>
static __device__ __forceinline__ T sw_cuda_block_reduce(T v, T *partials)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warps = (int)blockDim.x / 32;
    v = sw_cuda_warp_reduce<OP>(v);
    if (lane == 0)
        partials[warp] = v;
    __syncthreads();
    v = lane < warps ? partials[lane] : OP::template none<T>();
    v = sw_cuda_warp_reduce<OP>(v);
    __syncthreads();
    return v;
}
