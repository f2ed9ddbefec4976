/* Rotary positions (kernels/rotary.h): a thread has one pair of a row, in all its heads, so it
 * computes cos and sin once. Formulas and bits are the CPU's. */
#include "kernels/rotary.h"
#include "kernels/cuda/device.h"
#include "kernels/scalar.h"

struct rotary_job {
    float *y;
    const float *x;
    const int32_t *positions;
    sw_rotary_rows r;
    sw_cuda_long_divisor pairs;
};

__global__ void rotary_kernel(rotary_job j)
{
    const int64_t pairs = j.r.pairs, n = j.r.rows * pairs;
    for (int64_t t = sw_cuda_thread(); t < n; t += sw_cuda_threads()) {
        int64_t pair = t;
        const int64_t row = sw_cuda_split(j.pairs, &pair);
        int64_t at = row * j.r.heads * 2 * pairs + pair;
        float s, c;
        sw_sincosf((float)j.positions[row] * j.r.frequency[pair], &s, &c);
        s = j.r.back ? -s : s;
        for (int64_t h = 0; h < j.r.heads; h++, at += 2 * pairs) {
            const float a = j.x[at], b = j.x[at + pairs];
            const float first = a * c - b * s, second = b * c + a * s;
            j.y[at] = j.r.accumulate ? j.y[at] + first : first;
            j.y[at + pairs] = j.r.accumulate ? j.y[at + pairs] + second : second;
        }
    }
}

/* in: x or dy, positions */
static sw_status turn(const sw_launch *l, bool back, const sw_cuda_queue *queue)
{
    const sw_type *x = &l->in[0].type;
    rotary_job j = {};
    j.y = sw_cuda_out(l, 0);
    j.x = sw_cuda_in(l, 0);
    j.positions = static_cast<const int32_t *>(l->in[1].ptr);
    j.r = sw_rotary_of(static_cast<const swi_rotary_attrs *>(l->attrs), sw_cuda_elements(x),
                       x->shape.dim[x->shape.rank - 1], back, sw_cuda_adds(l, 0));
    j.pairs = sw_cuda_long_divisor_of(j.r.pairs);
    if (j.r.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(rotary_kernel, j.r.rows * j.r.pairs, SW_CUDA_THREADS, queue, j);
    return sw_cuda_launched("rotary");
}

SW_CUDA_ENTRY_OF(rotary, forward, NULL, 1, turn(l, false, queue))
SW_CUDA_ENTRY_OF(rotary, grad0, NULL, 1, turn(l, true, queue))
