/* Loops over elements: y = f(a, b), or y += f(a, b). f is a struct with the numbers that the
 * formula needs; it goes to the device as a parameter. Four elements at a time where all
 * addresses allow it. y may be a or b: each element is read before it is written. */
#ifndef SW_CUDA_EACH_H
#define SW_CUDA_EACH_H

#include "kernels/cuda/device.h"

struct sw_cuda_each {
    float *y;
    const float *a, *b; /* b: read where there are two inputs */
    int64_t n;
    int add, wide;
};

template <int INPUTS, class F> __global__ void sw_cuda_each_kernel(sw_cuda_each e, F f)
{
    const int64_t step = sw_cuda_threads(), fours = e.wide ? e.n / 4 : 0;
    for (int64_t i = sw_cuda_thread(); i < fours; i += step) {
        const float4 a = reinterpret_cast<const float4 *>(e.a)[i];
        float4 b = a, y;
        if (INPUTS > 1)
            b = reinterpret_cast<const float4 *>(e.b)[i];
        y = make_float4(f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w));
        if (e.add) {
            const float4 old = reinterpret_cast<const float4 *>(e.y)[i];
            y = make_float4(old.x + y.x, old.y + y.y, old.z + y.z, old.w + y.w);
        }
        reinterpret_cast<float4 *>(e.y)[i] = y;
    }
    for (int64_t i = 4 * fours + sw_cuda_thread(); i < e.n; i += step) {
        const float y = f(e.a[i], INPUTS > 1 ? e.b[i] : 0.0f);
        e.y[i] = e.add ? e.y[i] + y : y;
    }
}

/* Two inputs where b is given. */
template <int INPUTS, class F>
static sw_status sw_cuda_each_run(const char *op, F f, float *y, const float *a, const float *b,
                                  int64_t n, int add, void *stream)
{
    const int wide = sw_cuda_aligned(y) && sw_cuda_aligned(a) && sw_cuda_aligned(b);
    const sw_cuda_each e = {y, a, b, n, add, wide};
    const auto each = sw_cuda_each_kernel<INPUTS, F>;
    if (n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH(each, sw_cuda_blocks(n, 4 * SW_CUDA_THREADS), SW_CUDA_THREADS, 0, stream, e,
                   f);
    return sw_cuda_launched(op);
}

#endif
