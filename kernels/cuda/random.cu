/* Draws by counter: dropout, forward and backward the same launch, and random tensors. A thread
 * draws the four numbers of one counter. Step and run are read on the device: a replayed graph
 * draws others. */
#include "kernels/attrs.h"
#include "kernels/cuda/device.h"
#include "kernels/rng.h"

struct draw {
    float *y;
    const float *x; /* NULL: the numbers alone */
    int64_t n;
    uint64_t seed;
    uint32_t stream;
    const sw_cuda_counters *counters;
    int add, wide;
};

/* The elements from..from+3 of a counter, those below `n`. */
template <class F>
static __device__ __forceinline__ void draw_at(const draw &d, const F &f, uint32_t step,
                                               uint32_t run, int64_t block)
{
    const int64_t from = 4 * block, left = d.n - from;
    const bool whole = d.wide && left >= 4;
    uint32_t words[4];
    float x[4] = {}, y[4] = {}, v[4];
    if (whole) {
        if (d.x != nullptr)
            sw_cuda_load(x, d.x + from);
        if (d.add)
            sw_cuda_load(y, d.y + from);
    } else {
        for (int k = 0; k < 4; k++) {
            x[k] = d.x != nullptr && k < left ? d.x[from + k] : 0.0f;
            y[k] = d.add && k < left ? d.y[from + k] : 0.0f;
        }
    }
    sw_rng_words(words, d.seed, (uint32_t)block, d.stream, step, run);
    f(v, words, x);
    for (int k = 0; k < 4; k++)
        v[k] = d.add ? y[k] + v[k] : v[k];
    if (whole)
        sw_cuda_store(d.y + from, v);
    for (int k = 0; k < 4 && !whole; k++)
        if (k < left)
            d.y[from + k] = v[k];
}

template <class F> __global__ void draw_kernel(draw d, F f)
{
    const uint32_t step = d.counters->step, run = d.counters->run;
    for (int64_t block = sw_cuda_thread(); 4 * block < d.n; block += sw_cuda_threads())
        draw_at(d, f, step, run, block);
}

static draw draw_of(const sw_launch *l, const sw_cuda_queue *queue)
{
    draw d = {};
    d.y = sw_cuda_out(l, 0);
    d.x = l->n_in > 0 ? sw_cuda_in(l, 0) : nullptr;
    d.n = sw_cuda_elements(&l->out[0].type);
    d.seed = l->seed;
    d.stream = l->stream;
    d.counters = queue->counters;
    d.add = sw_cuda_adds(l, 0);
    d.wide = sw_cuda_aligned(d.y) && sw_cuda_aligned(d.x);
    return d;
}

template <class F>
static sw_status draw_run(const char *op, F f, const sw_launch *l, const sw_cuda_queue *queue)
{
    const auto kernel = draw_kernel<F>;
    SW_TRY(sw_cuda_all_plain(op, l));
    const draw d = draw_of(l, queue);
    if (d.n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(kernel, d.n, 4 * SW_CUDA_THREADS, queue, d, f);
    return sw_cuda_launched(op);
}

struct uniform {
    __device__ void operator()(float (&v)[4], const uint32_t (&words)[4],
                               const float (&)[4]) const
    {
        sw_rng_uniform4(v, words);
    }
};
struct normal {
    __device__ void operator()(float (&v)[4], const uint32_t (&words)[4],
                               const float (&)[4]) const
    {
        sw_rng_normal4(v, words);
    }
};
struct dropped {
    uint32_t below;
    float scale;
    __device__ void operator()(float (&v)[4], const uint32_t (&words)[4],
                               const float (&x)[4]) const
    {
        for (int k = 0; k < 4; k++)
            v[k] = words[k] >> 8 < below ? sw_dropped(x[k]) : x[k] * scale;
    }
};

/* By a rate that is read on the device: a knob. */
__global__ void drop_by_kernel(draw d, const float *rate)
{
    const uint32_t step = d.counters->step, run = d.counters->run;
    const dropped f = {sw_drop_below(*rate), sw_drop_scale(*rate)};
    for (int64_t block = sw_cuda_thread(); 4 * block < d.n; block += sw_cuda_threads())
        draw_at(d, f, step, run, block);
}

SW_CUDA_ENTRY_OF(rand, forward, NULL, 1, draw_run("rand", uniform{}, l, queue))
SW_CUDA_ENTRY_OF(randn, forward, NULL, 1, draw_run("randn", normal{}, l, queue))
/* in: x or dy */
SW_CUDA_ENTRY(dropout, forward, NULL, 1)
{
    const float p = sw_cuda_attrs<swi_number_attrs>(l)->value;
    return draw_run("dropout", dropped{sw_drop_below(p), sw_drop_scale(p)}, l, queue);
}
SW_CUDA_ENTRY_OF(dropout, grad0, NULL, 1, sw_cuda_dropout_forward(l, queue))
/* in: x or dy, the rate */
SW_CUDA_ENTRY(dropout_by, forward, NULL, 1)
{
    SW_TRY(sw_cuda_all_plain("dropout_by", l));
    const draw d = draw_of(l, queue);
    if (d.n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(drop_by_kernel, d.n, 4 * SW_CUDA_THREADS, queue, d, sw_cuda_in(l, 1));
    return sw_cuda_launched("dropout_by");
}
SW_CUDA_ENTRY_OF(dropout_by, grad0, NULL, 1, sw_cuda_dropout_by_forward(l, queue))
