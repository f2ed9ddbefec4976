/* Loops over elements: y = f(a, b), or y += f(a, b), of 0, 1 or 2 inputs. f is a struct with
 * the numbers that the formula needs; it goes to the device as a parameter. Four elements at a
 * time where all addresses allow it. y may be a or b: each element is read before it is
 * written. */
#pragma once

#include "kernels/cuda/device.h"

template <class X> struct sw_cuda_elementwise {
    X y, a, b; /* b: the second input, where there are two */
    int64_t n;
    int add, wide;
};

template <int INPUTS, int W, class X, class F>
static __device__ __forceinline__ void sw_cuda_elementwise_at(const sw_cuda_elementwise<X> &e,
                                                              const F &f, int64_t i)
{
    float a[W] = {}, b[W] = {}, y[W] = {};
    if (INPUTS > 0)
        sw_cuda_load(a, e.a, i);
    if (INPUTS > 1)
        sw_cuda_load(b, e.b, i);
    if (e.add)
        sw_cuda_load(y, e.y, i);
    for (int k = 0; k < W; k++) {
        const float v = f(a[k], b[k]);
        y[k] = e.add ? y[k] + v : v;
    }
    sw_cuda_store(e.y, i, y);
}

template <int INPUTS, class X, class F>
static __device__ __forceinline__ void sw_cuda_elementwise_all(const sw_cuda_elementwise<X> &e,
                                                               const F &f, int64_t thread,
                                                               int64_t step)
{
    const int64_t fours = e.wide ? e.n / 4 : 0;
    for (int64_t i = thread; i < fours; i += step)
        sw_cuda_elementwise_at<INPUTS, 4>(e, f, 4 * i);
    for (int64_t i = 4 * fours + thread; i < e.n; i += step)
        sw_cuda_elementwise_at<INPUTS, 1>(e, f, i);
}

template <int INPUTS, class F>
__global__ void sw_cuda_elementwise_kernel(sw_cuda_elementwise<sw_cuda_floats> e, F f)
{
    sw_cuda_elementwise_all<INPUTS>(e, f, sw_cuda_thread(), sw_cuda_threads());
}
template <int INPUTS, class F>
__global__ void __launch_bounds__(SW_CUDA_THREADS, 4)
    sw_cuda_elementwise_halves(sw_cuda_elementwise<sw_cuda_numbers> e, F f)
{
    sw_cuda_elementwise_all<INPUTS>(e, f, sw_cuda_thread(), sw_cuda_threads());
}

/* a and b are not read past the number of inputs; there are elements. */
template <int INPUTS, class F>
static void sw_cuda_elementwise_launch(F f, sw_cuda_numbers y, sw_cuda_numbers a,
                                       sw_cuda_numbers b, int64_t n, int add,
                                       const sw_cuda_queue *queue)
{
    const int wide = sw_cuda_aligned(y.p) && sw_cuda_aligned(a.p) && sw_cuda_aligned(b.p);
    const sw_cuda_elementwise<sw_cuda_numbers> any = {y, a, b, n, add, wide};
    const sw_cuda_elementwise<sw_cuda_floats> e = {{y.p}, {a.p}, {b.p}, n, add, wide};
    const auto each = sw_cuda_elementwise_kernel<INPUTS, F>;
    const auto halves = sw_cuda_elementwise_halves<INPUTS, F>;
    if (y.half || a.half || b.half)
        SW_CUDA_LAUNCH_FOR(halves, n, 4 * SW_CUDA_THREADS, queue, any, f);
    else
        SW_CUDA_LAUNCH_FOR(each, n, 4 * SW_CUDA_THREADS, queue, e, f);
}

template <int INPUTS, class F>
static sw_status sw_cuda_elementwise_run(const char *op, F f, sw_cuda_numbers y,
                                         sw_cuda_numbers a, sw_cuda_numbers b, int64_t n,
                                         int add, const sw_cuda_queue *queue)
{
    if (n > 0)
        sw_cuda_elementwise_launch<INPUTS>(f, y, a, b, n, add, queue);
    return sw_cuda_launched(op);
}
