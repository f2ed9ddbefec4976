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

static sw_cuda_queue on(void *stream)
{
    sw_cuda_queue queue = {};
    queue.stream = stream;
    return queue;
}

int tiny_add(void *stream, float *y, int n, float by)
{
    const sw_cuda_queue queue = on(stream);
    SW_CUDA_LAUNCH(add, 2, 64, 0, &queue, y, n, by);
    return (int)cudaGetLastError();
}

int tiny_scale(void *stream, float *y, int n, float by)
{
    const sw_cuda_queue queue = on(stream);
    SW_CUDA_LAUNCH(scale, 2, 64, 0, &queue, y, n, by);
    return (int)cudaGetLastError();
}

int tiny_product(void *stream, float *y, const float *x, const float *by, int n)
{
    const sw_cuda_queue queue = on(stream);
    const operands o = {n, y, x, by};
    SW_CUDA_LAUNCH(product, dim3(2, 1), 64, 128, &queue, o);
    return (int)cudaGetLastError();
}

int tiny_too_wide(void *stream, float *y)
{
    const sw_cuda_queue queue = on(stream);
    SW_CUDA_LAUNCH(add, 1, 2048, 0, &queue, y, 1, 1.0f);
    return (int)cudaGetLastError();
}

int tiny_divergent(void *stream, float *y)
{
    const sw_cuda_queue queue = on(stream);
    SW_CUDA_LAUNCH(divergent, 1, 64, 0, &queue, y);
    return (int)cudaGetLastError();
}
