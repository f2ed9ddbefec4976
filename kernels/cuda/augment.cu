/* Augmentation: images mirrored or moved, by the counter of each (kernels/augment.h). A block
 * has a piece of one image, and its threads draw the numbers of that image each. Step and run
 * are read on the device: a replayed graph draws others. */
#include "kernels/augment.h"
#include "kernels/cuda/device.h"

struct augment {
    int64_t batch, inner, pieces; /* elements of an image; pieces that it is cut into */
    int64_t h, w;
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
            const int64_t line = i / s.w, col = i - line * s.w, row = line % s.h;
            const int64_t r = row + m.down, c = m.flip ? s.w - 1 - col : col + m.right;
            const bool inside = r >= 0 && r < s.h && c >= 0 && c < s.w;
            const int64_t at = image * s.inner + i;
            const T v = inside ? x[at + m.down * s.w + c - col] : T(0);
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
    s.h = shape->dim[2];
    s.w = shape->dim[3];
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
