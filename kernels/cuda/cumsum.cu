/* Cumulative sums along an axis, in float64. Where neighbours in memory are of different lines,
 * a thread has a line, as on the CPU. Where a line is a row, a warp has it, or a block where it
 * is long: as many elements at a time as there are threads, each of which gets the sum of what
 * is before it from the others. So sums are within rounding of the CPU's, and the same in each
 * run. */
#include "kernels/attrs.h"
#include "kernels/cuda/rows.h"

struct cumsum {
    float *y;
    const float *x;
    int64_t outer, n, inner;
    int reverse, add;
};

static __device__ __forceinline__ void put(const cumsum &s, int64_t at, double sum)
{
    s.y[at] = s.add ? s.y[at] + (float)sum : (float)sum;
}

__global__ void cumsum_lines_kernel(cumsum s)
{
    const int64_t lines = s.outer * s.inner, step = s.reverse ? -s.inner : s.inner;
    for (int64_t l = sw_cuda_thread(); l < lines; l += sw_cuda_threads()) {
        const int64_t outer = l / s.inner;
        int64_t at =
            (outer * s.n + (s.reverse ? s.n - 1 : 0)) * s.inner + (l - outer * s.inner);
        double sum = 0.0;
        for (int64_t i = 0; i < s.n; i++, at += step) {
            sum += (double)s.x[at];
            put(s, at, sum);
        }
    }
}

/* The sum of v over the threads of a row up to this one, and in *all that of all. */
template <class ROWS>
static __device__ __forceinline__ double up_to_here(double v, double *partials, double *all)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int by = 1; by < 32; by *= 2) {
        const double below = __shfl_up_sync(0xffffffffu, v, by);
        v = lane >= by ? below + v : v;
    }
    if (ROWS::G == 32) {
        *all = __shfl_sync(0xffffffffu, v, 31);
        return v;
    }
    if (lane == 31)
        partials[warp] = v;
    __syncthreads();
    double before = 0.0, sum = 0.0;
    for (int w = 0; w < ROWS::G / 32; w++) {
        before = w == warp ? sum : before;
        sum += partials[w];
    }
    __syncthreads();
    *all = sum;
    return before + v;
}

template <class ROWS> __global__ void cumsum_rows_kernel(cumsum s)
{
    SW_SHARED(double, partials, 32);
    for (int64_t r = ROWS::first(); r < s.outer; r += ROWS::step()) {
        double carry = 0.0, all;
        for (int64_t from = 0; from < s.n; from += ROWS::G) {
            const int64_t i = from + ROWS::lane();
            const int64_t at = r * s.n + (s.reverse ? s.n - 1 - i : i);
            const double v = i < s.n ? (double)s.x[at] : 0.0;
            const double sum = carry + up_to_here<ROWS>(v, partials, &all);
            if (i < s.n)
                put(s, at, sum);
            carry += all;
        }
    }
}

static sw_status run(const sw_launch *l, int reverse, const sw_cuda_queue *queue)
{
    const sw_shape *shape = &l->out[0].type.shape;
    const int axis = (int)sw_cuda_attrs<swi_line_attrs>(l)->axis;
    cumsum s = {sw_cuda_out(l, 0), sw_cuda_in(l, 0),  1, shape->dim[axis], 1,
                reverse,           sw_cuda_adds(l, 0)};
    SW_TRY(sw_cuda_all_plain("cumsum", l));
    for (int i = 0; i < axis; i++)
        s.outer *= shape->dim[i];
    for (int i = axis + 1; i < shape->rank; i++)
        s.inner *= shape->dim[i];
    if (s.outer * s.n * s.inner == 0)
        return SW_OK;
    if (s.inner > 1) {
        SW_CUDA_LAUNCH_FOR(cumsum_lines_kernel, s.outer * s.inner, SW_CUDA_THREADS, queue, s);
    } else {
        const bool is_long = s.n > SW_CUDA_LONG_ROW;
        const auto kernel = is_long ? cumsum_rows_kernel<sw_cuda_rows<SW_CUDA_THREADS, 1>>
                                    : cumsum_rows_kernel<sw_cuda_rows<32, 1>>;
        SW_CUDA_LAUNCH_FOR(kernel, s.outer, is_long ? 1 : SW_CUDA_THREADS / 32, queue, s);
    }
    return sw_cuda_launched("cumsum");
}

SW_CUDA_ENTRY_OF(cumsum, forward, NULL, 0, run(l, 0, queue))

/* in: dy */
SW_CUDA_ENTRY_OF(cumsum, grad0, NULL, 0, run(l, 1, queue))
