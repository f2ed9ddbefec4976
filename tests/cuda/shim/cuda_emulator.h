/* CUDA for a host compiler: what kernels/cuda needs of the language and the runtime, so that
 * the same sources run under address and undefined-behaviour sanitizers on a machine without a
 * GPU.
 *
 * Threads of a block are fibers of one host thread; each runs until it waits for others (a
 * barrier, a shuffle), which is the worst case of a schedule. Which one goes on next is chosen
 * by swi_emu_schedule(): in order, in reverse, the newest first, or at random from a seed;
 * blocks likewise. Shared memory is filled with NaN bytes before each block, which count as
 * unwritten under the memory sanitizer, and has a red zone after each array.
 *
 * Reported, with kernel and thread, by a launch that fails: barriers that not all threads
 * reach, or reach at different places; waiting that has no end; launches that no device would
 * take; more shared memory than there is. Stricter than a device: blocks are whole warps,
 * shuffles and votes are of all 32 lanes.
 *
 * Not seen: missing fences (memory is sequentially consistent), and the order of what threads
 * do between two waits other than as whole pieces. */
#ifndef SW_CUDA_EMULATOR_H
#define SW_CUDA_EMULATOR_H

#include <cuda_runtime_api.h> /* of tests/cuda/fake */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
/* fours: of float4 alone. */
struct swi_emu_counts {
    uint64_t launches, blocks, threads, switches, fours_read, fours_written;
};
extern swi_emu_counts swi_emu_count;
/* UBSan checks their alignment where members are accessed, so copies go member by member. */
template <class T, size_t ALIGN> struct alignas(ALIGN) swi_emu_four {
    T x, y, z, w;
    swi_emu_four() = default;
    swi_emu_four(T a, T b, T c, T d) : x(a), y(b), z(c), w(d)
    {
    }
    swi_emu_four(const swi_emu_four &o) : x(o.x), y(o.y), z(o.z), w(o.w)
    {
        swi_emu_count.fours_read += std::is_same<T, float>::value;
    }
    swi_emu_four &operator=(const swi_emu_four &o)
    {
        x = o.x, y = o.y, z = o.z, w = o.w;
        swi_emu_count.fours_written += std::is_same<T, float>::value;
        return *this;
    }
};
typedef swi_emu_four<float, 16> float4;
typedef swi_emu_four<unsigned char, 4> uchar4;
typedef swi_emu_four<int, 16> int4;
struct alignas(8) uint2 {
    unsigned x, y;
};
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return uint2{x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return float4(x, y, z, w);
}
static inline int4 make_int4(int x, int y, int z, int w)
{
    return int4(x, y, z, w);
}

/* ---- control, for tests ------------------------------------------------------------------ */

/* 0: threads and blocks in order; 1: in reverse; 2: the thread that can go on since the
 * shortest time, so that one warp runs far ahead; any other: at random, from this seed. */
extern "C" void swi_emu_schedule(uint64_t seed);
/* Why the last launch failed that did; "" after swi_emu_clear(). */
extern "C" const char *swi_emu_error(void);
extern "C" void swi_emu_clear(void);
extern "C" swi_emu_counts swi_emu_counted(void);

/* ---- inside a kernel --------------------------------------------------------------------- */

struct swi_emu_place {
    uint3 thread, block;
    dim3 block_size, grid;
};
extern swi_emu_place swi_emu_now; /* of the fiber that runs */
#define threadIdx (swi_emu_now.thread)
#define blockIdx (swi_emu_now.block)
#define blockDim (swi_emu_now.block_size)
#define gridDim (swi_emu_now.grid)
#define warpSize 32

void swi_emu_barrier(const char *file, int line);
/* Wait for the warp; `value` of lane i is then at [i] of what comes back, until the lane's next
 * call but one. */
const uint64_t *swi_emu_warp(uint64_t value, unsigned mask, const char *file, int line);
int swi_emu_lane(void);
/* An array of the block, the same for each thread that names the site. */
void *swi_emu_shared(const void *site, size_t bytes);
void *swi_emu_dynamic(void);
/* `p`, which must not be in shared memory. */
void *swi_emu_global(void *p);

#define __syncthreads() swi_emu_barrier(__FILE__, __LINE__)
#define __syncwarp(...) ((void)swi_emu_warp(0, 0xffffffffu, __FILE__, __LINE__))
#define __threadfence() ((void)0)

template <class T> static inline uint64_t swi_emu_bits(T value)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
/* A lane outside of the warp gives the thread its own value back, as on the device. */
template <class T>
static inline T swi_emu_shuffle(T value, int from, unsigned mask, const char *file, int line)
{
    const uint64_t *all = swi_emu_warp(swi_emu_bits(value), mask, file, line);
    T result;
    memcpy(&result, &all[from >= 0 && from < 32 ? from : swi_emu_lane()], sizeof result);
    return result;
}
#define __shfl_sync(mask, v, lane) swi_emu_shuffle((v), (lane)&31, (mask), __FILE__, __LINE__)
#define __shfl_down_sync(mask, v, by)                                                          \
    swi_emu_shuffle((v), swi_emu_lane() + (int)(by), (mask), __FILE__, __LINE__)
#define __shfl_up_sync(mask, v, by)                                                            \
    swi_emu_shuffle((v), swi_emu_lane() - (int)(by), (mask), __FILE__, __LINE__)
#define __shfl_xor_sync(mask, v, by)                                                           \
    swi_emu_shuffle((v), swi_emu_lane() ^ (int)(by), (mask), __FILE__, __LINE__)

static inline unsigned swi_emu_ballot(bool holds, unsigned mask, const char *file, int line)
{
    const uint64_t *all = swi_emu_warp(holds, mask, file, line);
    unsigned bits = 0;
    for (int i = 0; i < 32; i++)
        bits |= (unsigned)all[i] << i;
    return bits;
}
#define __ballot_sync(mask, holds) swi_emu_ballot((holds) != 0, (mask), __FILE__, __LINE__)
#define __any_sync(mask, holds) (__ballot_sync(mask, holds) != 0)
#define __all_sync(mask, holds) (__ballot_sync(mask, holds) == 0xffffffffu)

static inline uint64_t __umul64hi(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}
static inline int __ffs(unsigned bits)
{
    return __builtin_ffs((int)bits);
}

/* One fiber runs at a time, so these need no more than to be done in one piece. */
#define SWI_EMU_ATOMIC(name, then)                                                             \
    template <class T, class V> static inline T name(T *at, V value)                           \
    {                                                                                          \
        const T old = *at;                                                                     \
        *at = (T)(then);                                                                       \
        return old;                                                                            \
    }
SWI_EMU_ATOMIC(atomicAdd, old + (T)value)
SWI_EMU_ATOMIC(atomicMax, old > (T)value ? old : (T)value)
SWI_EMU_ATOMIC(atomicOr, old | (T)value)
SWI_EMU_ATOMIC(atomicExch, value)
template <class T> static inline T atomicCAS(T *at, T expected, T value)
{
    const T old = *at;
    *at = old == expected ? value : old;
    return old;
}

/* ---- what device.h spells out for both --------------------------------------------------- */

#define SW_SHARED(type, name, n)                                                               \
    static const char name##_site = 0;                                                         \
    type(&name)[n] = *static_cast<type(*)[n]>(swi_emu_shared(&name##_site, sizeof(type[n])))
#define SW_SHARED_DYNAMIC(type, name) type *const name = static_cast<type *>(swi_emu_dynamic())

template <bool ASSIGNS, class T> static inline void sw_cuda_store_wide(T *p, const T &value)
{
    *static_cast<T *>(ASSIGNS ? p : swi_emu_global(p)) = value;
}

struct swi_emu_launch_info {
    const char *kernel;
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
    /* The kernel's parameters, for who looks at launches; gone when the launch returns. */
    int n;
    const void *const *at;
    const size_t *bytes;
    const bool *is_pointer;
    bool no_padding; /* bytes of structs that no field has are zero */
};
/* The launch is taken over: run(body) runs the kernel, once or often, now or later; `body` is
 * copied where it is kept. Two answers can be linked: alone.cpp runs at once and has the
 * errors, the fake runtime (tests/cuda/fake) puts it into its stream. */
void swi_emu_submit(const swi_emu_launch_info *info, void (*run)(void *body), const void *body,
                    size_t body_bytes);

/* Called for both answers: whether a device would take the launch (the error, and why in
 * swi_emu_error), and the blocks one after another (their error). */
cudaError_t swi_emu_can_be(const swi_emu_launch_info *info);
cudaError_t swi_emu_run(const swi_emu_launch_info *info, void (*run)(void *body), void *body);

#ifdef __has_builtin
#if __has_builtin(__builtin_clear_padding)
#define SWI_EMU_CLEAR(x) __builtin_clear_padding(&(x))
#endif
#endif

/* Arguments are converted once, as by a launch, and copied for each thread. */
template <class... P> struct swi_emu_kernel {
    static_assert((sizeof(P) + ... + 0) <= 4096, "a kernel has at most 4 KiB of parameters");
    static_assert((std::is_trivially_copyable<P>::value && ...), "parameters are bytes");

    static void launch(swi_emu_launch_info info, void (*kernel)(P...), P... a)
    {
        const void *const at[] = {&a..., nullptr};
        const size_t bytes[] = {sizeof(P)..., 0};
        const bool is_pointer[] = {std::is_pointer<P>::value..., false};
        info.n = (int)sizeof...(P);
        info.at = at;
        info.bytes = bytes;
        info.is_pointer = is_pointer;
#ifdef SWI_EMU_CLEAR
        (SWI_EMU_CLEAR(a), ...);
        info.no_padding = true;
#endif
        const auto body = [=]() { kernel(a...); };
        swi_emu_submit(
            &info, [](void *it) { (*static_cast<decltype(body) *>(it))(); }, &body,
            sizeof body);
    }
};
template <class... P, class... A>
static inline void swi_emu_launch(const swi_emu_launch_info &info, void (*kernel)(P...), A... a)
{
    swi_emu_kernel<P...>::launch(info, kernel, static_cast<P>(a)...);
}
#define SW_CUDA_MAKE_LAUNCH(kernel, grid, block, shared_bytes, queue, ...)                     \
    swi_emu_launch({#kernel, (grid), (block), (shared_bytes), (queue)->stream, 0, nullptr,     \
                    nullptr, nullptr, false},                                                  \
                   kernel, __VA_ARGS__)

#endif
