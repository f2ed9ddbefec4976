/* Draws by counter: dropout, forward and backward the same launch, and random tensors. A thread
 * draws the four numbers of one counter. Step and run are read on the device: a replayed graph
 * draws others. */
#include "kernels/attrs.h"
#include "kernels/augment.h"
#include "kernels/cuda/device.h"
#include "kernels/rng.h"

struct draw {
    sw_cuda_numbers y, x; /* x NULL: the numbers alone */
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
        if (d.x.p != nullptr)
            sw_cuda_load(x, d.x, from);
        if (d.add)
            sw_cuda_load(y, d.y, from);
    } else {
        float one[1];
        for (int k = 0; k < 4 && k < left; k++) {
            if (d.x.p != nullptr) {
                sw_cuda_load(one, d.x, from + k);
                x[k] = one[0];
            }
            if (d.add) {
                sw_cuda_load(one, d.y, from + k);
                y[k] = one[0];
            }
        }
    }
    sw_rng_words(words, d.seed, (uint32_t)block, d.stream, step, run);
    f(v, words, x);
    for (int k = 0; k < 4; k++)
        v[k] = d.add ? y[k] + v[k] : v[k];
    if (whole)
        sw_cuda_store<SW_CUDA_ASSIGN>(d.y, from, v);
    for (int k = 0; k < 4 && k < left && !whole; k++) {
        const float one[1] = {v[k]};
        sw_cuda_store(d.y, from + k, one);
    }
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
    d.y = l->out[0];
    if (l->n_in > 0)
        d.x = l->in[0];
    d.n = sw_cuda_elements(&l->out[0].type);
    d.seed = l->seed;
    d.stream = l->stream;
    d.counters = queue->counters;
    d.add = sw_cuda_adds(l, 0);
    d.wide = sw_cuda_aligned(d.y.p) && sw_cuda_aligned(d.x.p);
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
SW_CUDA_ENTRY(dropout, forward, NULL, 2)
{
    const float p = sw_cuda_attrs<swi_number_attrs>(l)->value;
    return draw_run("dropout", dropped{sw_drop_below(p), sw_drop_scale(p)}, l, queue);
}
SW_CUDA_ENTRY_OF(dropout, grad0, NULL, 2, sw_cuda_dropout_forward(l, queue))
/* in: x or dy, the rate */
SW_CUDA_ENTRY(dropout_by, forward, NULL, 2)
{
    SW_TRY(sw_cuda_all_plain("dropout_by", l));
    const draw d = draw_of(l, queue);
    if (d.n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(drop_by_kernel, d.n, 4 * SW_CUDA_THREADS, queue, d, sw_cuda_in(l, 1));
    return sw_cuda_launched("dropout_by");
}
SW_CUDA_ENTRY_OF(dropout_by, grad0, NULL, 2, sw_cuda_dropout_by_forward(l, queue))

/* ---- augmentation ------------------------------------------------------------------------ */

/* Augmentation: images mirrored or moved, by the counter of each (kernels/augment.h). A block
 * has a piece of one image, and its threads draw the numbers of that image each. Step and run
 * are read on the device: a replayed graph draws others. */

struct augment {
    int64_t batch, inner, pieces; /* elements of an image; pieces that it is cut into */
    sw_cuda_long_divisor h, w;
    swi_augment_attrs attrs;
    uint64_t seed;
    uint32_t stream;
    const sw_cuda_counters *counters;
    int back, add;
};

/* Elements of a piece. */
enum { PIECE = 16 * SW_CUDA_THREADS };

template <class T> __global__ void augment_kernel(T *y, const T *x, augment s)
{
    const uint32_t step = s.counters->step, run = s.counters->run;
    for (int64_t work = blockIdx.x; work < s.batch * s.pieces; work += gridDim.x) {
        const int64_t image = work / s.pieces, from = (work - image * s.pieces) * PIECE;
        const int64_t end = s.inner - from < PIECE ? s.inner : from + PIECE;
        uint32_t words[4];
        sw_rng_words(words, s.seed, (uint32_t)image, s.stream, step, run);
        const sw_move m = sw_move_of(words, &s.attrs, s.back);
        for (int64_t i = from + threadIdx.x; i < end; i += SW_CUDA_THREADS) {
            int64_t col = i, row = sw_cuda_split(s.w, &col);
            sw_cuda_split(s.h, &row);
            const int64_t r = row + m.down, c = m.flip ? s.w.by - 1 - col : col + m.right;
            const bool inside = r >= 0 && r < s.h.by && c >= 0 && c < s.w.by;
            const int64_t at = image * s.inner + i;
            const T v = inside ? x[at + m.down * s.w.by + c - col] : T(0);
            y[at] = s.add ? T(y[at] + v) : v;
        }
    }
}

template <class T>
static sw_status augment_run(const char *op, const augment &s, const sw_launch *l,
                             const sw_cuda_queue *queue)
{
    const auto kernel = augment_kernel<T>;
    SW_CUDA_LAUNCH_FOR(kernel, s.batch * s.pieces, 1, queue, static_cast<T *>(l->out[0].ptr),
                       static_cast<const T *>(l->in[0].ptr), s);
    return sw_cuda_launched(op);
}

/* in: x or dy */
static sw_status augment_any(const char *op, int back, const sw_launch *l,
                             const sw_cuda_queue *queue)
{
    const sw_type *t = &l->in[0].type;
    const sw_shape *shape = &t->shape;
    SW_TRY(sw_cuda_all_plain(op, l));
    augment s = {};
    s.batch = shape->dim[0];
    s.inner = shape->dim[1] * shape->dim[2] * shape->dim[3];
    s.pieces = (s.inner + PIECE - 1) / PIECE;
    s.h = sw_cuda_long_divisor_of(shape->dim[2]);
    s.w = sw_cuda_long_divisor_of(shape->dim[3]);
    s.attrs = *sw_cuda_attrs<swi_augment_attrs>(l);
    s.seed = l->seed;
    s.stream = l->stream;
    s.counters = queue->counters;
    s.back = back;
    s.add = sw_cuda_adds(l, 0);
    if (s.batch * s.inner == 0)
        return SW_OK;
    return t->dtype == SW_U8 ? augment_run<uint8_t>(op, s, l, queue)
                             : augment_run<float>(op, s, l, queue);
}

SW_CUDA_ENTRY_OF(random_flip, forward, NULL, 1, augment_any("random_flip", 0, l, queue))
SW_CUDA_ENTRY_OF(random_flip, grad0, NULL, 1, augment_any("random_flip", 1, l, queue))
SW_CUDA_ENTRY_OF(random_crop, forward, NULL, 1, augment_any("random_crop", 0, l, queue))
SW_CUDA_ENTRY_OF(random_crop, grad0, NULL, 1, augment_any("random_crop", 1, l, queue))
