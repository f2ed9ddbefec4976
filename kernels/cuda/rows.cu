/* Softmax and its logarithm over rows, and their gradients. y may be x, dx may be y or dy: a
 * thread writes the elements that it alone reads. */
#include "kernels/cuda/rows.h"
#include "kernels/scalar.h"

struct soft {
    float *y;
    const float *x, *dy; /* backward: x is y, y is dx */
    int64_t rows, cols;
    int log, add;
};

template <class ROWS> __global__ void softmax_kernel(soft s)
{
    SW_SHARED(float, partials, 32);
    for (int64_t r = ROWS::first(); r < s.rows; r += ROWS::step()) {
        const float *x = s.x + r * s.cols;
        float *y = s.y + r * s.cols;
        float v[ROWS::W], most = -INFINITY, sum = 0.0f;
        SW_CUDA_COLUMNS(c, s.cols)
        {
            sw_cuda_load(v, x + c);
            for (int k = 0; k < ROWS::W; k++)
                most = sw_cuda_largest::of(most, v[k]);
        }
        most = ROWS::template reduce<sw_cuda_largest>(most, partials);
        SW_CUDA_COLUMNS(c, s.cols)
        {
            sw_cuda_load(v, x + c);
            for (int k = 0; k < ROWS::W; k++)
                sum += sw_expf(v[k] - most);
        }
        sum = ROWS::template reduce<sw_cuda_plus>(sum, partials);
        const float inverse = 1.0f / sum, lse = sw_row_lse(most, sum);
        SW_CUDA_COLUMNS(c, s.cols)
        {
            sw_cuda_load(v, x + c);
            for (int k = 0; k < ROWS::W; k++)
                v[k] = s.log ? v[k] - lse : sw_expf(v[k] - most) * inverse;
            sw_cuda_store(y + c, v);
        }
    }
}

/* y (dy - sum(dy y)); of the logarithm dy - e^y sum(dy). */
template <class ROWS> __global__ void softmax_dx_kernel(soft s)
{
    SW_SHARED(float, partials, 32);
    for (int64_t r = ROWS::first(); r < s.rows; r += ROWS::step()) {
        const float *y = s.x + r * s.cols, *dy = s.dy + r * s.cols;
        float *dx = s.y + r * s.cols;
        float a[ROWS::W], g[ROWS::W], old[ROWS::W] = {}, sum = 0.0f;
        SW_CUDA_COLUMNS(c, s.cols)
        {
            sw_cuda_load(a, y + c);
            sw_cuda_load(g, dy + c);
            for (int k = 0; k < ROWS::W; k++)
                sum += s.log ? g[k] : g[k] * a[k];
        }
        sum = ROWS::template reduce<sw_cuda_plus>(sum, partials);
        SW_CUDA_COLUMNS(c, s.cols)
        {
            sw_cuda_load(a, y + c);
            sw_cuda_load(g, dy + c);
            if (s.add)
                sw_cuda_load(old, dx + c);
            for (int k = 0; k < ROWS::W; k++) {
                const float d = s.log ? g[k] - sw_expf(a[k]) * sum : a[k] * (g[k] - sum);
                g[k] = s.add ? old[k] + d : d;
            }
            sw_cuda_store(dx + c, g);
        }
    }
}

static soft soft_of(const sw_launch *l, int log)
{
    const sw_shape *x = &l->in[0].type.shape;
    soft s = {};
    s.y = sw_cuda_out(l, 0);
    s.x = sw_cuda_in(l, 0);
    s.cols = x->dim[x->rank - 1];
    s.rows = sw_cuda_elements(&l->in[0].type) / s.cols;
    s.log = log;
    s.add = sw_cuda_adds(l, 0);
    return s;
}

static sw_status forward(const char *op, const sw_launch *l, int log,
                         const sw_cuda_queue *queue)
{
    const soft s = soft_of(l, log);
    if (s.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_ROWS(softmax_kernel, s.rows, s.cols,
                        sw_cuda_aligned(s.x) && sw_cuda_aligned(s.y), queue, s);
    return sw_cuda_launched(op);
}

/* in: y, dy */
static sw_status backward(const char *op, const sw_launch *l, int log,
                          const sw_cuda_queue *queue)
{
    soft s = soft_of(l, log);
    s.dy = sw_cuda_in(l, 1);
    if (s.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_ROWS(softmax_dx_kernel, s.rows, s.cols,
                        sw_cuda_aligned(s.x) && sw_cuda_aligned(s.y) && sw_cuda_aligned(s.dy),
                        queue, s);
    return sw_cuda_launched(op);
}

SW_CUDA_ENTRY_OF(softmax, forward, NULL, 0, forward("softmax", l, 0, queue))
SW_CUDA_ENTRY_OF(softmax, grad0, NULL, 0, backward("softmax", l, 0, queue))
SW_CUDA_ENTRY_OF(log_softmax, forward, NULL, 0, forward("log_softmax", l, 1, queue))
SW_CUDA_ENTRY_OF(log_softmax, grad0, NULL, 0, backward("log_softmax", l, 1, queue))
