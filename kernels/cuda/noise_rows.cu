/* Noise on what is read row by row or channel by channel: embeddings, gains and shifts. A block
 * has a direction, and makes what its rows share once. An id out of range gives NaNs: a kernel
 * cannot refuse it. */
#include "kernels/cuda/ids.h"
#include "kernels/cuda/noise_draw.h"

static constexpr int MEMBERS = SW_CUDA_NOISE_MEMBERS; /* rows of a block */
static constexpr int CHUNK = SW_CUDA_NOISE_CHUNK;     /* columns, or channels */
static constexpr int RANKS = 4; /* with more, each element is made alone */

/* ---- embedding: y (ids, width) (+)= s sigma E(id) ---------------------------------------- */

struct noise_lookup {
    sw_cuda_noise n;
    sw_cuda_ids ids;
    const float *table; /* DROPOUT */
    float *y;
    int64_t pieces;
    int add, ranks; /* ranks: of factors; 0: element by element */
    /* Above 0: no ids, but rows first, first + 1, ... of so many, again and again. */
    int64_t period, first;
};

static __device__ __forceinline__ int64_t lookup_id(const noise_lookup &j, int64_t row)
{
    return j.period > 0 ? j.first + row % j.period : j.ids.at(row);
}

/* E(id, from + c); factors: a of the member, b of these columns. */
static __device__ __forceinline__ float lookup_element(const noise_lookup &j,
                                                       const sw_noise_direction &d, int64_t id,
                                                       const float *a, const float *b,
                                                       int64_t from, int64_t c)
{
    const sw_noise_spec &s = j.n.a.weight;
    if (j.ranks == 0)
        return sw_noise_element(&s, &d, id, from + c,
                                j.table != nullptr ? j.table[id * s.cols + from + c] : 0.0f);
    float sum = 0.0f;
    for (int k = 0; k < j.ranks; k++)
        sum = fmaf(a[k], b[k * CHUNK + c], sum);
    return sum * d.scale;
}

/* Columns from..from+n-1 of these members. */
static __device__ void lookup_out(const noise_lookup &j, const sw_noise_direction &d, int64_t i,
                                  int64_t first, int members, const float *a, const float *b,
                                  int64_t from, unsigned n)
{
    const sw_noise_spec &s = j.n.a.weight;
    for (unsigned t = threadIdx.x; t < (unsigned)members * n; t += blockDim.x) {
        const unsigned m = t / n, c = t % n;
        const int64_t row = j.n.row(i, first + m), id = lookup_id(j, row);
        float *y = j.y + row * s.cols + from + c, e = sw_float_of(0x7fc00000u);
        if (id >= 0 && id < s.rows) {
            e = lookup_element(j, d, id, a + m * RANKS, b, from, c);
            if (j.n.weight_sigmas != nullptr)
                e *= j.n.weight_sigmas[id * s.cols + from + c];
        }
        *y = (j.add ? *y : 0.0f) + j.n.scale(i, first + m) * e;
    }
}

__global__ void lookup_kernel(noise_lookup j)
{
    SW_SHARED(float, b, RANKS *CHUNK);
    SW_SHARED(float, a, RANKS *MEMBERS);
    SW_SHARED(sw_noise_direction, d, 1);
    const sw_noise_spec &s = j.n.a.weight;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.pieces; w += gridDim.x) {
        const int64_t i = w / j.pieces, first = w % j.pieces * MEMBERS;
        const int64_t left = j.n.members - first;
        const int members = (int)(left < MEMBERS ? left : MEMBERS);
        sw_cuda_noise_begin(d, s, j.n.at(i), *j.n.sigma);
        for (int t = (int)threadIdx.x; t < members * j.ranks; t += (int)blockDim.x) {
            const int64_t id = lookup_id(j, j.n.row(i, first + t / j.ranks)), k = t % j.ranks;
            if (id >= 0 && id < s.rows)
                a[t / j.ranks * RANKS + k] =
                    sw_noise_number(&s, SW_NOISE_ROWS, &d[0].at, k * s.rows + id);
        }
        for (int64_t from = 0; from < s.cols; from += CHUNK) {
            const int64_t n = s.cols - from < CHUNK ? s.cols - from : CHUNK;
            __syncthreads();
            for (int k = 0; k < j.ranks; k++)
                sw_cuda_noise_fill(b + k * CHUNK, s, SW_NOISE_COLS, d[0].at, k * s.cols + from,
                                   n);
            __syncthreads();
            lookup_out(j, d[0], i, first, members, a, b, from, (unsigned)n);
        }
    }
}

/* A lookup has its ids; in: ..., sigma, [table: dropout], [sigmas]. */
static sw_status launch_lookup(noise_lookup j, const sw_launch *l, int sigma, const char *name,
                               const sw_cuda_queue *queue)
{
    const sw_noise_spec *s = &j.n.a.weight;
    j.table = s->kind == SW_NOISE_DROPOUT ? sw_cuda_in(l, sigma + 1) : nullptr;
    j.n.weight_sigmas = j.n.a.has_sigmas != 0 ? sw_cuda_in(l, l->n_in - 1) : nullptr;
    j.y = sw_cuda_out(l, 0);
    j.add = sw_cuda_adds(l, 0);
    j.ranks = s->kind == SW_NOISE_LOW_RANK && s->rank <= RANKS ? s->rank : 0;
    j.pieces = (j.n.members + MEMBERS - 1) / MEMBERS;
    if (j.pieces == 0 || s->cols == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(lookup_kernel, j.n.a.directions * j.pieces, 1, queue, j);
    return sw_cuda_launched(name);
}

/* in: ids, sigma, ... */
SW_CUDA_ENTRY(noise_embedding, forward, NULL, 1)
{
    noise_lookup j = {};
    j.n = sw_cuda_noise_of(l, sw_cuda_attrs<swi_noise_attrs>(l), sw_cuda_in(l, 1),
                           sw_cuda_elements(&l->in[0].type), queue);
    j.ids = sw_cuda_ids_in(l, 0);
    return launch_lookup(j, l, 1, "noise_embedding", queue);
}

/* in: sigma, ... */
SW_CUDA_ENTRY(noise_table, forward, NULL, 1)
{
    noise_lookup j = {};
    const swi_noise_table_attrs *a = sw_cuda_attrs<swi_noise_table_attrs>(l);
    const int64_t width = a->noise.weight.cols > 0 ? a->noise.weight.cols : 1;
    j.n = sw_cuda_noise_of(l, &a->noise, sw_cuda_in(l, 0),
                           sw_cuda_elements(&l->out[0].type) / width, queue);
    j.period = a->shape.dim[a->shape.rank - 2];
    j.first = a->first;
    return launch_lookup(j, l, 0, "noise_table", queue);
}

/* ---- gain and shift: y (+)= x (g + s sigma e) + (b + s sigma f) -------------------------- */

struct noise_gain {
    sw_cuda_noise n;
    const float *x, *gain, *shift; /* gain, shift NULL: 1, 0 */
    float *y;
    int64_t channels, middle, inner, tiles, pieces;
    int add;
};

/* The noise of channels from..from+n-1: that of the weight, then that of the bias. */
static __device__ void affine_noise(const noise_gain &j, const sw_noise_direction &d, float *e,
                                    float *f, int64_t from, int64_t n)
{
    const sw_noise_spec &s = j.n.a.weight;
    for (int64_t c = threadIdx.x; s.kind == SW_NOISE_DROPOUT && c < n; c += blockDim.x)
        e[c] = sw_noise_dropped(&s, &d, from + c) *
               (j.n.weight_sigmas != nullptr ? j.n.weight_sigmas[from + c] : 1.0f);
    if (s.kind != SW_NOISE_DROPOUT && s.rows != 0)
        sw_cuda_noise_vector(e, s, d.at, from, n, j.n.weight_sigmas);
    if (j.n.a.bias.rows != 0)
        sw_cuda_noise_vector(f, j.n.a.bias, d.at, from, n, j.n.bias_sigmas);
}

/* Of one row and place in the middle: the planes of channels from..from+n-1 lie side by side.
 */
static __device__ void affine_planes(const noise_gain &j, const float *e, const float *f,
                                     float scale, int64_t row, int64_t from, int64_t n)
{
    const bool gains = j.n.a.weight.rows != 0, shifts = j.n.a.bias.rows != 0;
    const int64_t at = (row * j.channels + from) * j.inner;
    for (int64_t t = threadIdx.x; t < n * j.inner; t += blockDim.x) {
        const int64_t c = t / j.inner;
        float gain = j.gain != nullptr ? j.gain[from + c] : 1.0f;
        float shift = j.shift != nullptr ? j.shift[from + c] : 0.0f;
        if (gains)
            gain += scale * e[c];
        if (shifts)
            shift += scale * f[c];
        const float y = fmaf(j.x[at + t], gain, shift);
        j.y[at + t] = j.add ? j.y[at + t] + y : y;
    }
}

__global__ void affine_kernel(noise_gain j)
{
    SW_SHARED(float, e, CHUNK);
    SW_SHARED(float, f, CHUNK);
    SW_SHARED(sw_noise_direction, d, 1);
    const int64_t planes = j.n.members * j.middle;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.tiles * j.pieces; w += gridDim.x) {
        const int64_t i = w / (j.tiles * j.pieces), from = w % j.tiles * CHUNK;
        const int64_t n = j.channels - from < CHUNK ? j.channels - from : CHUNK;
        const int64_t first = w / j.tiles % j.pieces * MEMBERS;
        sw_cuda_noise_begin(d, j.n.a.weight, j.n.at(i), *j.n.sigma);
        affine_noise(j, d[0], e, f, from, n);
        __syncthreads();
        for (int64_t k = first; k < first + MEMBERS && k < planes; k++) {
            const int64_t m = k / j.middle;
            affine_planes(j, e, f, j.n.scale(i, m), j.n.row(i, m) * j.middle + k % j.middle,
                          from, n);
        }
    }
}

sw_status sw_cuda_noise_channels(const char *op, const sw_cuda_noise &n, float *y,
                                 const float *x, const float *gain, const float *shift,
                                 int64_t channels, int64_t middle, int64_t inner, int add,
                                 const sw_cuda_queue *queue)
{
    noise_gain j = {};
    j.n = n;
    j.y = y;
    j.x = x;
    j.gain = gain;
    j.shift = shift;
    j.channels = channels;
    j.middle = middle;
    j.inner = inner;
    j.add = add;
    j.tiles = (channels + CHUNK - 1) / CHUNK;
    j.pieces = (n.members * middle + MEMBERS - 1) / MEMBERS;
    if (j.tiles * j.pieces * inner == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(affine_kernel, n.a.directions * j.tiles * j.pieces, 1, queue, j);
    return sw_cuda_launched(op);
}

/* in: x, sigma, [gain], [shift], [sigmas of the gain], [sigmas of the shift] */
SW_CUDA_ENTRY(noise_affine, forward, NULL, 0)
{
    const swi_noise_attrs *a = sw_cuda_attrs<swi_noise_attrs>(l);
    const sw_shape *x = &l->in[0].type.shape;
    int next = 2;
    int64_t middle = 1, inner = 1;
    SW_TRY(sw_cuda_all_plain("noise_affine", l));
    sw_cuda_noise n = sw_cuda_noise_of(l, a, sw_cuda_in(l, 1), x->dim[0], queue);
    const float *gain = a->has_gain != 0 ? sw_cuda_in(l, next++) : nullptr;
    const float *shift = a->has_shift != 0 ? sw_cuda_in(l, next++) : nullptr;
    if (a->has_sigmas != 0 && a->has_gain != 0 && a->weight.rows != 0)
        n.weight_sigmas = sw_cuda_in(l, next++);
    if (a->has_sigmas != 0 && a->bias.rows != 0)
        n.bias_sigmas = sw_cuda_in(l, next);
    for (int k = 1; k < x->rank; k++)
        if (k != a->channel_axis)
            *(k < a->channel_axis ? &middle : &inner) *= x->dim[k];
    return sw_cuda_noise_channels("noise_affine", n, sw_cuda_out(l, 0), sw_cuda_in(l, 0), gain,
                                  shift, x->dim[a->channel_axis], middle, inner,
                                  sw_cuda_adds(l, 0), queue);
}
