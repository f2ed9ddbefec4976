/* Rows less their means: a thread for each row, in the order of the CPU. */
#include "kernels/cuda/device.h"
#include "kernels/dummy_center.h"

static __global__ void center_kernel(float *y, const float *x, int64_t rows, int64_t cols,
                                     int add)
{
    for (int64_t r = sw_cuda_thread(); r < rows; r += sw_cuda_threads())
        sw_dummy_center_row(y + r * cols, x + r * cols, cols, add);
}

/* in: x, or dy for the gradient */
extern "C" sw_status sw_cuda_dummy_center(const sw_launch *l, const sw_cuda_queue *queue)
{
    const sw_shape *s = &l->in[0].type.shape;
    const int64_t n = sw_cuda_elements(&l->in[0].type), cols = s->dim[s->rank - 1];
    SW_TRY(sw_cuda_all_plain("dummy_center", l));
    if (n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH(center_kernel, sw_cuda_blocks(n / cols, SW_CUDA_THREADS), SW_CUDA_THREADS, 0,
                   queue, sw_cuda_out(l, 0), sw_cuda_in(l, 0), n / cols, cols,
                   sw_cuda_adds(l, 0));
    return sw_cuda_launched("dummy_center");
}

SW_CUDA_ENTRY(dummy_center, -1, sw_cuda_dummy_center, NULL, 1)
SW_CUDA_ENTRY(dummy_center, 0, sw_cuda_dummy_center, NULL, 1)
