/* Images times one number for each image and channel, and the gradients: planes are rows, with
 * a warp or a block each. */
#include "kernels/cuda/image.h"
#include "kernels/cuda/rows.h"

struct scaling {
    float *y; /* or dx; NULL: not computed */
    float *ds;
    const float *x; /* what is scaled: x, or dy */
    const float *s, *other;
    int64_t rows, cols;
    int add_y, add_ds;
};

/* y = x s, and ds = the sum of x `other`. y may be x or `other`: each position is read before
 * it is written, by its own thread. */
template <class ROWS> __global__ void scale_kernel(scaling a)
{
    SW_SHARED(double, partials, 32);
    for (int64_t r = ROWS::first(); r < a.rows; r += ROWS::step()) {
        const float s = a.y != nullptr ? a.s[r] : 0.0f;
        float v[ROWS::W], w[ROWS::W], y[ROWS::W] = {};
        double sum = 0.0;
        SW_CUDA_COLUMNS(c, a.cols)
        {
            const int64_t at = r * a.cols + c;
            sw_cuda_load(v, a.x + at);
            if (a.ds != nullptr) {
                sw_cuda_load(w, a.other + at);
                for (int k = 0; k < ROWS::W; k++)
                    sum += (double)(v[k] * w[k]);
            }
            if (a.y == nullptr)
                continue;
            if (a.add_y)
                sw_cuda_load(y, a.y + at);
            for (int k = 0; k < ROWS::W; k++)
                y[k] = a.add_y ? y[k] + v[k] * s : v[k] * s;
            sw_cuda_store(a.y + at, y);
        }
        if (a.ds == nullptr)
            continue;
        sum = ROWS::template reduce<sw_cuda_plus>(sum, partials);
        if (ROWS::lane() == 0)
            a.ds[r] = (a.add_ds ? a.ds[r] : 0.0f) + (float)sum;
    }
}

/* x: in[0]; s and `other` by their positions, -1: none; outputs: y and ds likewise. */
static sw_status run(const sw_launch *l, const sw_cuda_queue *queue, int s, int other, int y,
                     int ds)
{
    const int64_t *dim = l->in[0].type.shape.dim;
    scaling a = {};
    SW_TRY(sw_cuda_images("channel_scale", l));
    a.rows = dim[0] * dim[1];
    a.cols = dim[2] * dim[3];
    a.x = sw_cuda_in(l, 0);
    if (y >= 0) {
        a.s = sw_cuda_in(l, s);
        a.y = sw_cuda_out(l, y);
        a.add_y = sw_cuda_adds(l, y);
    }
    if (ds >= 0) {
        a.other = sw_cuda_in(l, other);
        a.ds = sw_cuda_out(l, ds);
        a.add_ds = sw_cuda_adds(l, ds);
    }
    if (a.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_ROWS(
        scale_kernel, a.rows, a.cols,
        sw_cuda_aligned(a.x) && sw_cuda_aligned(a.y) && sw_cuda_aligned(a.other), queue, a);
    return sw_cuda_launched("channel_scale");
}

/* in: x, s */
SW_CUDA_ENTRY_OF(channel_scale, forward, NULL, 1, run(l, queue, 1, -1, 0, -1))
/* in: dy, x, s; out: dx, ds */
SW_CUDA_ENTRY_OF(channel_scale, grad0, NULL, 0, run(l, queue, 2, 1, 0, 1))
/* in: dy, s; out: dx */
SW_CUDA_ENTRY_OF(channel_scale, grad1, NULL, 1, run(l, queue, 1, -1, 0, -1))
/* in: dy, x; out: ds */
SW_CUDA_ENTRY_OF(channel_scale, grad2, NULL, 0, run(l, queue, -1, 1, -1, 0))
