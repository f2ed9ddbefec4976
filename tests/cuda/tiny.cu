/* See tiny.h. */
#include "kernels/cuda/device.h"
#include "tests/cuda/tiny.h"

__global__ void add(float *y, int n, float by)
{
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads())
        y[i] += by;
}

__global__ void scale(float *y, int n, float by)
{
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads())
        y[i] *= by;
}

struct operands {
    int n;
    float *y;
    const float *x, *by;
};

__global__ void product(operands o)
{
    for (int64_t i = sw_cuda_thread(); i < o.n; i += sw_cuda_threads())
        o.y[i] = o.x[i] * *o.by;
}

__global__ void divergent(float *y)
{
    if (threadIdx.x < 32)
        __syncthreads();
    y[0] = 1.0f;
}

#define LAUNCH(kernel, grid, block, shared_bytes, ...)                                         \
    sw_cuda_queue queue = {};                                                                  \
    queue.stream = stream;                                                                     \
    SW_CUDA_LAUNCH(kernel, grid, block, shared_bytes, &queue, __VA_ARGS__);                    \
    return (int)cudaGetLastError()

int tiny_add(void *stream, float *y, int n, float by)
{
    LAUNCH(add, 2, 64, 0, y, n, by);
}

int tiny_scale(void *stream, float *y, int n, float by)
{
    LAUNCH(scale, 2, 64, 0, y, n, by);
}

int tiny_product(void *stream, float *y, const float *x, const float *by, int n)
{
    const operands o = {n, y, x, by};
    LAUNCH(product, dim3(2, 1), 64, 128, o);
}

int tiny_too_wide(void *stream, float *y)
{
    LAUNCH(add, 1, 2048, 0, y, 1, 1.0f);
}

int tiny_divergent(void *stream, float *y)
{
    LAUNCH(divergent, 1, 64, 0, y);
}
