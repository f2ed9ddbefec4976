/* The noise on parameters that layers add to their results. */
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/ids.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/noise_draw.h"
#include "kernels/cuda/reduce.h"

/* Noise added to a linear layer: y (rows, out) (+)= s sigma (x E^T + e).
 *
 * Low-rank noise is never a matrix: a block has a direction, makes B in shared memory and its
 * products with the rows of all evaluations of the direction, then A, and adds the products of
 * both. Other kinds are made some outputs at a time, for the rows of the direction. */

static constexpr int DENSE_MEMBERS = SW_CUDA_NOISE_MEMBERS; /* of a block */
static constexpr int DENSE_CHUNK = SW_CUDA_NOISE_CHUNK;     /* numbers of a factor */
static constexpr int DENSE_RANKS = 4;                       /* at a time */
static constexpr int PARTS = DENSE_MEMBERS > 8 ? DENSE_MEMBERS : 8;
static constexpr int DENSE_OUTPUTS = DENSE_CHUNK / 32; /* other kinds: at most, and rows */
static constexpr int ELEMENTS = 4 * DENSE_CHUNK;       /* other kinds */

struct noise_dense {
    sw_cuda_noise n;
    const float *x;
    float *y;
    int64_t width, depth, pieces, tiles;
    int add;
};

/* ---- low rank ---------------------------------------------------------------------------- */

/* sums[k x DENSE_MEMBERS + m] = x_m . B_k over all columns, for `ranks` factors from `rank` on.
 * Rows that are few have several warps each. */
static __device__ void low_rank_dots(const noise_dense &j, const sw_noise_at &at, int64_t i,
                                     int64_t first, int members, int rank, int ranks, float *b,
                                     float *parts, float *sums)
{
    const sw_noise_spec &s = j.n.a.weight;
    const int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
    const int split = members < warps ? warps / members : 1;
    __syncthreads(); /* who reads the sums before */
    for (int t = (int)threadIdx.x; t < DENSE_RANKS * DENSE_MEMBERS; t += (int)blockDim.x)
        sums[t] = 0.0f;
    for (int64_t from = 0; from < s.cols; from += DENSE_CHUNK) {
        const int64_t n = s.cols - from < DENSE_CHUNK ? s.cols - from : DENSE_CHUNK;
        __syncthreads();
        for (int k = 0; k < ranks; k++)
            sw_cuda_noise_fill(b + k * DENSE_CHUNK, s, SW_NOISE_COLS, at,
                               (rank + k) * s.cols + from, n);
        __syncthreads();
        for (int t = (int)threadIdx.x / 32; t < members * split; t += warps) {
            const float *x = j.x + j.n.row(i, first + t % members) * j.depth + from;
            float sum[DENSE_RANKS] = {};
            for (int64_t c = t / members * 32 + lane; c < n; c += 32 * split) {
                const float v = x[c];
                for (int k = 0; k < DENSE_RANKS; k++)
                    if (k < ranks)
                        sum[k] = fmaf(v, b[k * DENSE_CHUNK + c], sum[k]);
            }
            for (int k = 0; k < DENSE_RANKS; k++) {
                sum[k] = sw_cuda_warp_reduce<sw_cuda_plus>(sum[k]);
                if (lane == 0)
                    parts[t * DENSE_RANKS + k] = sum[k];
            }
        }
        __syncthreads();
        for (int t = (int)threadIdx.x; t < members * ranks; t += (int)blockDim.x) {
            const int m = t % members, k = t / members;
            for (int part = 0; part < split; part++)
                sums[k * DENSE_MEMBERS + m] += parts[(part * members + m) * DENSE_RANKS + k];
        }
    }
}

/* y of these members (+)= scale A sums, and the noise of the bias with the first factors. */
static __device__ void dense_low_rank_out(const noise_dense &j, const sw_noise_at &at,
                                          int64_t i, int64_t first, int members, int rank,
                                          int ranks, float *a, float *bias, const float *sums)
{
    const sw_noise_spec &s = j.n.a.weight;
    const bool shifts = rank == 0 && j.n.a.bias.rows != 0;
    const float root = ranks > 0 ? sw_noise_scale(&s) : 0.0f;
    for (int64_t from = 0; from < j.width; from += DENSE_CHUNK) {
        const unsigned n =
            (unsigned)(j.width - from < DENSE_CHUNK ? j.width - from : DENSE_CHUNK);
        __syncthreads();
        for (int k = 0; k < ranks; k++)
            sw_cuda_noise_fill(a + k * DENSE_CHUNK, s, SW_NOISE_ROWS, at,
                               (rank + k) * s.rows + from, n);
        if (shifts)
            sw_cuda_noise_fill(bias, j.n.a.bias, SW_NOISE_ELEMENTS, at, from, n);
        __syncthreads();
        for (unsigned t = threadIdx.x; t < (unsigned)members * n; t += blockDim.x) {
            const unsigned m = t / n, o = t % n;
            float *y = j.y + j.n.row(i, first + m) * j.width + from + o;
            float sum = 0.0f;
            for (int k = 0; k < ranks; k++)
                sum = fmaf(a[k * DENSE_CHUNK + o], sums[k * DENSE_MEMBERS + m], sum);
            sum = sum * root + (shifts ? bias[o] : 0.0f);
            *y = (j.add || rank > 0 ? *y : 0.0f) + j.n.scale(first + m) * sum;
        }
    }
}

__global__ void __launch_bounds__(SW_CUDA_THREADS, 4) dense_low_rank_kernel(noise_dense j)
{
    SW_SHARED(float, factors, DENSE_RANKS *DENSE_CHUNK);
    SW_SHARED(float, bias, DENSE_CHUNK);
    SW_SHARED(float, parts, PARTS *DENSE_RANKS);
    SW_SHARED(float, sums, DENSE_MEMBERS *DENSE_RANKS);
    const int rank = j.n.a.weight.rows != 0 ? j.n.a.weight.rank : 0;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.pieces; w += gridDim.x) {
        const int64_t i = w / j.pieces, first = w % j.pieces * DENSE_MEMBERS;
        const int64_t left = j.n.members - first;
        const int members = (int)(left < DENSE_MEMBERS ? left : DENSE_MEMBERS);
        const sw_noise_at at = j.n.at(i);
        for (int k = 0; k == 0 || k < rank; k += DENSE_RANKS) {
            const int ranks = rank - k < DENSE_RANKS ? rank - k : DENSE_RANKS;
            if (ranks > 0)
                low_rank_dots(j, at, i, first, members, k, ranks, factors, parts, sums);
            dense_low_rank_out(j, at, i, first, members, k, ranks, factors, bias, sums);
        }
    }
}

/* ---- other kinds ------------------------------------------------------------------------- */

/* A block: `outputs` rows of E for `members` rows of x. */
static __device__ void tile_dots(const noise_dense &j, const sw_noise_direction &d, int64_t i,
                                 int64_t first, int members, int64_t o, int outputs, float *e,
                                 float *sums)
{
    const sw_noise_spec &s = j.n.a.weight;
    const int lane = (int)threadIdx.x % 32;
    const int64_t most = ELEMENTS / outputs;
    for (int64_t from = 0; from < s.cols; from += most) {
        const int64_t n = s.cols - from < most ? s.cols - from : most;
        __syncthreads();
        sw_cuda_noise_elements(e, s, d, o, outputs, from, n, j.n.weight_sigmas);
        __syncthreads();
        for (int t = (int)threadIdx.x / 32; t < members * outputs; t += (int)blockDim.x / 32) {
            const float *x = j.x + j.n.row(i, first + t / outputs) * j.depth + from;
            float sum = 0.0f;
            for (int64_t c = lane; c < n; c += 32)
                sum = fmaf(x[c], e[t % outputs * n + c], sum);
            sum = sw_cuda_warp_reduce<sw_cuda_plus>(sum);
            if (lane == 0)
                sums[t] = (from > 0 ? sums[t] : 0.0f) + sum;
        }
    }
    __syncthreads();
}

__global__ void dense_element_kernel(noise_dense j)
{
    SW_SHARED(float, e, ELEMENTS);
    SW_SHARED(float, bias, DENSE_OUTPUTS);
    SW_SHARED(float, sums, DENSE_OUTPUTS *DENSE_OUTPUTS);
    SW_SHARED(sw_noise_direction, d, 1);
    const bool shifts = j.n.a.bias.rows != 0;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.pieces * j.tiles; w += gridDim.x) {
        const int64_t i = w / (j.pieces * j.tiles), o = w % j.tiles * DENSE_OUTPUTS;
        const int64_t first = w / j.tiles % j.pieces * DENSE_OUTPUTS,
                      left = j.n.members - first;
        const int members = (int)(left < DENSE_OUTPUTS ? left : DENSE_OUTPUTS);
        const int outputs = (int)(j.width - o < DENSE_OUTPUTS ? j.width - o : DENSE_OUTPUTS);
        sw_cuda_noise_begin(d, j.n.a.weight, j.n.at(i), *j.n.sigma);
        if (shifts)
            sw_cuda_noise_vector(bias, j.n.a.bias, d[0].at, o, outputs, j.n.bias_sigmas);
        if (j.n.a.weight.rows != 0)
            tile_dots(j, d[0], i, first, members, o, outputs, e, sums);
        __syncthreads();
        for (int t = (int)threadIdx.x; t < members * outputs; t += (int)blockDim.x) {
            const int64_t m = first + t / outputs;
            float *y = j.y + j.n.row(i, m) * j.width + o + t % outputs;
            const float sum =
                (j.n.a.weight.rows != 0 ? sums[t] : 0.0f) + (shifts ? bias[t % outputs] : 0.0f);
            *y = (j.add ? *y : 0.0f) + j.n.scale(m) * sum;
        }
    }
}

/* y (rows, width) = (or += where `add`) the noise of a linear layer of x (rows, depth). */
static sw_status noise_layer(const char *op, const sw_cuda_noise &n, float *y, const float *x,
                             int64_t width, int64_t depth, int add, const sw_cuda_queue *queue)
{
    noise_dense j = {};
    const swi_noise_attrs *a = &n.a;
    j.n = n;
    j.x = x;
    j.y = y;
    j.depth = depth;
    j.width = width;
    j.add = add;
    if (n.members == 0 || width == 0)
        return SW_OK;
    if ((a->weight.rows == 0 || a->weight.kind == SW_NOISE_LOW_RANK) && a->has_sigmas == 0) {
        j.pieces = (n.members + DENSE_MEMBERS - 1) / DENSE_MEMBERS;
        SW_CUDA_LAUNCH_FOR(dense_low_rank_kernel, a->directions * j.pieces, 1, queue, j);
    } else {
        j.pieces = (n.members + DENSE_OUTPUTS - 1) / DENSE_OUTPUTS;
        j.tiles = (width + DENSE_OUTPUTS - 1) / DENSE_OUTPUTS;
        SW_CUDA_LAUNCH_FOR(dense_element_kernel, a->directions * j.pieces * j.tiles, 1, queue,
                           j);
    }
    return sw_cuda_launched(op);
}

/* in: x, sigma, [sigmas of the weight], [of the bias] */
SW_CUDA_ENTRY(noise_linear, forward, NULL, 0)
{
    const swi_noise_attrs *a = sw_cuda_attrs<swi_noise_attrs>(l);
    const sw_shape *x = &l->in[0].type.shape;
    sw_cuda_noise n = sw_cuda_noise_of(l, a, sw_cuda_in(l, 1), x->dim[0], queue);
    if (a->has_sigmas != 0) {
        n.weight_sigmas = a->weight.rows != 0 ? sw_cuda_in(l, 2) : nullptr;
        n.bias_sigmas = a->bias.rows != 0 ? sw_cuda_in(l, l->n_in - 1) : nullptr;
    }
    return noise_layer("noise_linear", n, sw_cuda_out(l, 0), sw_cuda_in(l, 0),
                       l->out[0].type.shape.dim[1], x->dim[1], sw_cuda_adds(l, 0), queue);
}

/* ---- convolution ------------------------------------------------------------------------- */

/* Noise added to a convolution: y (batch, out, h', w') (+)= s sigma (conv(x, E) + e).
 *
 * Of low-rank noise the convolution with B_k is one plane for each image and group, which a
 * thread has of one place in registers; each output is A_k times it. Of other kinds a block
 * makes the noise of one output, for the images of all evaluations of a direction. */

static constexpr int IMAGES_CHUNK = SW_CUDA_NOISE_CHUNK; /* numbers of B, or of a row of E */
static constexpr int IMAGES_RANKS = 4;                   /* at a time */
static constexpr int IMAGES_OUTPUTS = IMAGES_CHUNK / 4;  /* of A at a time */
static constexpr int PLACES = SW_CUDA_THREADS;

struct noise_images {
    sw_cuda_noise n;
    const float *x;
    float *y;
    int64_t out, in; /* channels */
    sw_cuda_long_divisor plane, y_w;
    int64_t per_group, pieces;
    int h, w, kernel_w, add;
};

/* A place of a plane of results: its image, row and column. */
struct noise_place {
    int64_t image, at; /* at: in the plane */
    int y, x;
};

/* Of the places of direction i: those of its images, one after the other. */
static __device__ __forceinline__ noise_place place_of(const noise_images &j, int64_t i,
                                                       int64_t t)
{
    const int64_t member = sw_cuda_split(j.plane, &t);
    int64_t x = t, y = sw_cuda_split(j.y_w, &x);
    return noise_place{j.n.row(i, member), t, (int)y, (int)x};
}

/* A tap of a filter: how far it is from the first one, in rows, columns and elements of an
 * image. */
struct noise_tap {
    int y, x, at;
};

/* Those of columns from..from+n-1 of the weight, by all threads; they wait after it. */
static __device__ void make_taps(noise_tap *to, const noise_images &j, int64_t from, int n)
{
    const int taps = j.n.a.weight.taps, apart = j.n.a.conv.dilation;
    for (int c = (int)threadIdx.x; c < n; c += (int)blockDim.x) {
        const unsigned col = (unsigned)(from + c), by = (unsigned)taps;
        const int channel = (int)(col / by), k = (int)(col % by);
        const int y = k / j.kernel_w * apart, x = k % j.kernel_w * apart;
        to[c] = noise_tap{y, x, (channel * j.h + y) * j.w + x};
    }
}

/* Where the first tap of a group lies: it may be outside of the image. */
struct noise_window {
    const float *x; /* of all */
    int64_t at;
    int y, x0, h, w;
    /* 0 outside of the image. */
    __device__ float read(const noise_tap &t) const
    {
        const unsigned row = (unsigned)(y + t.y), col = (unsigned)(x0 + t.x);
        return row < (unsigned)h && col < (unsigned)w ? x[at + t.at] : 0.0f;
    }
};
static __device__ __forceinline__ noise_window window_of(const noise_images &j,
                                                         const noise_place &p, int64_t channel)
{
    const swi_conv_attrs &c = j.n.a.conv;
    const int y = p.y * c.stride - c.pad, x = p.x * c.stride - c.pad;
    return noise_window{j.x, ((p.image * j.in + channel) * j.h + y) * j.w + x, y, x, j.h, j.w};
}

static __device__ __forceinline__ float *place_in(const noise_images &j, const noise_place &p,
                                                  int64_t o)
{
    return j.y + (p.image * j.out + o) * j.plane.by + p.at;
}

/* ---- low rank ---------------------------------------------------------------------------- */

/* Results of outputs from..from+n-1: A times the sums of this thread's place. */
static __device__ void images_low_rank_out(const noise_images &j, const noise_place &p,
                                           float scale, bool shifts, bool adds, const float *a,
                                           const float *bias, int ranks,
                                           const float (&sum)[IMAGES_RANKS], float root,
                                           int64_t from, int n)
{
    for (int o = 0; o < n; o++) {
        float *y = place_in(j, p, from + o), v = 0.0f;
        for (int k = 0; k < IMAGES_RANKS; k++)
            if (k < ranks)
                v = fmaf(a[k * IMAGES_OUTPUTS + o], sum[k], v);
        v = v * root + (shifts ? bias[o] : 0.0f);
        *y = (adds ? *y : 0.0f) + scale * v;
    }
}

/* One group, for factors from `rank` on. */
static __device__ void low_rank_group(const noise_images &j, const sw_noise_at &at,
                                      const noise_place &p, bool is, float scale, int64_t group,
                                      int rank, int ranks, noise_tap *taps, float *b, float *a,
                                      float *bias)
{
    const sw_noise_spec &s = j.n.a.weight;
    const int64_t in_each = s.cols / s.taps, end = (group + 1) * j.per_group;
    const bool shifts = rank == 0 && j.n.a.bias.rows != 0;
    const noise_window x = window_of(j, p, group * in_each);
    float sum[IMAGES_RANKS] = {};
    for (int64_t from = 0; ranks > 0 && from < s.cols; from += IMAGES_CHUNK) {
        const int n = (int)(s.cols - from < IMAGES_CHUNK ? s.cols - from : IMAGES_CHUNK);
        __syncthreads();
        for (int k = 0; k < ranks; k++)
            sw_cuda_noise_fill(b + k * IMAGES_CHUNK, s, SW_NOISE_COLS, at,
                               (rank + k) * s.cols + from, n);
        make_taps(taps, j, from, n);
        __syncthreads();
        for (int c = 0; c < n && is; c++) {
            const float v = x.read(taps[c]);
            for (int k = 0; k < IMAGES_RANKS; k++)
                if (k < ranks)
                    sum[k] = fmaf(v, b[k * IMAGES_CHUNK + c], sum[k]);
        }
    }
    for (int64_t from = group * j.per_group; from < end; from += IMAGES_OUTPUTS) {
        const int n = (int)(end - from < IMAGES_OUTPUTS ? end - from : IMAGES_OUTPUTS);
        __syncthreads();
        for (int k = 0; k < ranks; k++)
            sw_cuda_noise_fill(a + k * IMAGES_OUTPUTS, s, SW_NOISE_ROWS, at,
                               (rank + k) * s.rows + from, n);
        if (shifts)
            sw_cuda_noise_fill(bias, j.n.a.bias, SW_NOISE_ELEMENTS, at, from, n);
        __syncthreads();
        if (is)
            images_low_rank_out(j, p, scale, shifts, j.add || rank > 0, a, bias, ranks, sum,
                                ranks > 0 ? sw_noise_scale(&s) : 0.0f, from, n);
    }
}

__global__ void images_low_rank_kernel(noise_images j)
{
    SW_SHARED(noise_tap, taps, IMAGES_CHUNK);
    SW_SHARED(float, b, IMAGES_RANKS *IMAGES_CHUNK);
    SW_SHARED(float, a, IMAGES_RANKS *IMAGES_OUTPUTS);
    SW_SHARED(float, bias, IMAGES_OUTPUTS);
    const int rank = j.n.a.weight.rows != 0 ? j.n.a.weight.rank : 0;
    const int64_t places = j.n.members * j.plane.by;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.pieces; w += gridDim.x) {
        const int64_t i = w / j.pieces, t = w % j.pieces * PLACES + threadIdx.x;
        const bool is = t < places;
        const noise_place p = place_of(j, i, is ? t : 0);
        const float scale = j.n.scale(is ? sw_cuda_divide(j.plane, t) : 0);
        const sw_noise_at at = j.n.at(i);
        for (int64_t group = 0; group < j.n.a.conv.groups; group++)
            for (int k = 0; k == 0 || k < rank; k += IMAGES_RANKS)
                low_rank_group(j, at, p, is, scale, group, k,
                               rank - k < IMAGES_RANKS ? rank - k : IMAGES_RANKS, taps, b, a,
                               bias);
    }
}

/* ---- other kinds ------------------------------------------------------------------------- */

/* One output of the images of direction i, columns from..from+n-1 of its filter. */
static __device__ void filter_places(const noise_images &j, int64_t i, int64_t o, int64_t from,
                                     int n, const noise_tap *taps, const float *e, float shift)
{
    const sw_noise_spec &s = j.n.a.weight;
    const int64_t first = o / j.per_group * (s.cols / s.taps);
    for (int64_t t = threadIdx.x; t < j.n.members * j.plane.by; t += blockDim.x) {
        const noise_place p = place_of(j, i, t);
        const noise_window x = window_of(j, p, first);
        float *y = place_in(j, p, o), sum = 0.0f;
        for (int c = 0; c < n; c++)
            sum = fmaf(x.read(taps[c]), e[c], sum);
        *y = (j.add || from > 0 ? *y : 0.0f) +
             j.n.scale(sw_cuda_divide(j.plane, t)) * (sum + shift);
    }
}

__global__ void images_element_kernel(noise_images j)
{
    SW_SHARED(noise_tap, taps, IMAGES_CHUNK);
    SW_SHARED(float, e, IMAGES_CHUNK);
    SW_SHARED(float, bias, 1);
    SW_SHARED(sw_noise_direction, d, 1);
    const sw_noise_spec &s = j.n.a.weight;
    const int64_t cols = s.rows != 0 ? s.cols : 0;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.out; w += gridDim.x) {
        const int64_t i = w / j.out, o = w % j.out;
        sw_cuda_noise_begin(d, s, j.n.at(i), *j.n.sigma);
        if (j.n.a.bias.rows != 0)
            sw_cuda_noise_vector(bias, j.n.a.bias, d[0].at, o, 1, j.n.bias_sigmas);
        for (int64_t from = 0; from == 0 || from < cols; from += IMAGES_CHUNK) {
            const int n = (int)(cols - from < IMAGES_CHUNK ? cols - from : IMAGES_CHUNK);
            __syncthreads();
            make_taps(taps, j, from, n);
            if (n > 0)
                sw_cuda_noise_elements(e, s, d[0], o, 1, from, n, j.n.weight_sigmas);
            __syncthreads();
            filter_places(j, i, o, from, n, taps, e,
                          from == 0 && j.n.a.bias.rows != 0 ? bias[0] : 0.0f);
        }
    }
}

static noise_images images_of(const sw_launch *l, const sw_cuda_queue *queue)
{
    const int64_t *x = l->in[0].type.shape.dim, *y = l->out[0].type.shape.dim;
    noise_images j = {};
    j.n = sw_cuda_noise_of(l, sw_cuda_attrs<swi_noise_attrs>(l), sw_cuda_in(l, 1), x[0], queue);
    j.x = sw_cuda_in(l, 0);
    j.y = sw_cuda_out(l, 0);
    j.in = x[1], j.h = (int)x[2], j.w = (int)x[3];
    j.out = y[1];
    j.plane = sw_cuda_long_divisor_of(y[2] * y[3]);
    j.y_w = sw_cuda_long_divisor_of(y[3]);
    j.per_group = j.out / j.n.a.conv.groups;
    j.kernel_w = j.n.a.weight.taps / (int)j.n.a.kernel_h;
    j.add = sw_cuda_adds(l, 0);
    if (j.n.a.has_sigmas != 0) {
        j.n.weight_sigmas = j.n.a.weight.rows != 0 ? sw_cuda_in(l, 2) : nullptr;
        j.n.bias_sigmas = j.n.a.bias.rows != 0 ? sw_cuda_in(l, l->n_in - 1) : nullptr;
    }
    return j;
}

SW_CUDA_ENTRY(noise_conv2d, forward, NULL, 0)
{
    SW_TRY(sw_cuda_images("noise_conv2d", l));
    noise_images j = images_of(l, queue);
    const swi_noise_attrs *a = &j.n.a;
    const int64_t places = j.n.members * j.plane.by;
    if (places == 0 || j.out == 0)
        return SW_OK;
    if ((a->weight.rows == 0 || a->weight.kind == SW_NOISE_LOW_RANK) && a->has_sigmas == 0) {
        j.pieces = (places + PLACES - 1) / PLACES;
        SW_CUDA_LAUNCH(images_low_rank_kernel, sw_cuda_blocks(a->directions * j.pieces, 1),
                       PLACES, 0, queue, j);
    } else {
        SW_CUDA_LAUNCH_FOR(images_element_kernel, a->directions * j.out, 1, queue, j);
    }
    return sw_cuda_launched("noise_conv2d");
}

/* Noise on what is read row by row or channel by channel: embeddings, gains and shifts. A block
 * has a direction, and makes what its rows share once. An id out of range gives NaNs: a kernel
 * cannot refuse it. */

static constexpr int LOOKUP_MEMBERS = SW_CUDA_NOISE_MEMBERS; /* rows of a block */
static constexpr int LOOKUP_CHUNK = SW_CUDA_NOISE_CHUNK;     /* columns, or channels */
static constexpr int LOOKUP_RANKS = 4; /* with more, each element is made alone */

/* ---- embedding: y (ids, width) (+)= s sigma E(id) ---------------------------------------- */

struct noise_lookup {
    sw_cuda_noise n;
    sw_cuda_ids ids;
    const float *table; /* DROPOUT */
    float *y;
    int64_t pieces;
    int add, ranks; /* ranks: of factors; 0: element by element */
    /* Above 0: no ids, but rows first, first + 1, ... of so many, again and again. */
    sw_cuda_long_divisor period;
    int64_t first;
};

static __device__ __forceinline__ int64_t lookup_id(const noise_lookup &j, int64_t row)
{
    if (j.period.by == 0)
        return j.ids.at(row);
    sw_cuda_split(j.period, &row);
    return j.first + row;
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
        sum = fmaf(a[k], b[k * LOOKUP_CHUNK + c], sum);
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
            e = lookup_element(j, d, id, a + m * LOOKUP_RANKS, b, from, c);
            if (j.n.weight_sigmas != nullptr)
                e *= j.n.weight_sigmas[id * s.cols + from + c];
        }
        *y = (j.add ? *y : 0.0f) + j.n.scale(first + m) * e;
    }
}

__global__ void lookup_kernel(noise_lookup j)
{
    SW_SHARED(float, b, LOOKUP_RANKS *LOOKUP_CHUNK);
    SW_SHARED(float, a, LOOKUP_RANKS *LOOKUP_MEMBERS);
    SW_SHARED(sw_noise_direction, d, 1);
    const sw_noise_spec &s = j.n.a.weight;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.pieces; w += gridDim.x) {
        const int64_t i = w / j.pieces, first = w % j.pieces * LOOKUP_MEMBERS;
        const int64_t left = j.n.members - first;
        const int members = (int)(left < LOOKUP_MEMBERS ? left : LOOKUP_MEMBERS);
        sw_cuda_noise_begin(d, s, j.n.at(i), *j.n.sigma);
        for (int t = (int)threadIdx.x; t < members * j.ranks; t += (int)blockDim.x) {
            const int64_t id = lookup_id(j, j.n.row(i, first + t / j.ranks)), k = t % j.ranks;
            if (id >= 0 && id < s.rows)
                a[t / j.ranks * LOOKUP_RANKS + k] =
                    sw_noise_number(&s, SW_NOISE_ROWS, &d[0].at, k * s.rows + id);
        }
        for (int64_t from = 0; from < s.cols; from += LOOKUP_CHUNK) {
            const int64_t n = s.cols - from < LOOKUP_CHUNK ? s.cols - from : LOOKUP_CHUNK;
            __syncthreads();
            for (int k = 0; k < j.ranks; k++)
                sw_cuda_noise_fill(b + k * LOOKUP_CHUNK, s, SW_NOISE_COLS, d[0].at,
                                   k * s.cols + from, n);
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
    j.ranks = s->kind == SW_NOISE_LOW_RANK && s->rank <= LOOKUP_RANKS ? s->rank : 0;
    j.pieces = (j.n.members + LOOKUP_MEMBERS - 1) / LOOKUP_MEMBERS;
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
    j.period = sw_cuda_long_divisor_of(a->shape.dim[a->shape.rank - 2]);
    j.first = a->first;
    return launch_lookup(j, l, 0, "noise_table", queue);
}

/* ---- gain and shift: y (+)= x (g + s sigma e) + (b + s sigma f) -------------------------- */

struct noise_gain {
    sw_cuda_noise n;
    const float *x, *gain, *shift; /* gain, shift NULL: 1, 0 */
    float *y;
    int64_t channels, tiles, pieces;
    sw_cuda_long_divisor middle, inner;
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

/* Of one row and place in the middle: planes of channels from..from+n-1 lie side by side. */
static __device__ void affine_planes(const noise_gain &j, const float *e, const float *f,
                                     float scale, int64_t row, int64_t from, int64_t n)
{
    const bool gains = j.n.a.weight.rows != 0, shifts = j.n.a.bias.rows != 0;
    const int64_t at = (row * j.channels + from) * j.inner.by;
    for (int64_t t = threadIdx.x; t < n * j.inner.by; t += blockDim.x) {
        const int64_t c = sw_cuda_divide(j.inner, t);
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

__global__ void __launch_bounds__(SW_CUDA_THREADS, 4) affine_kernel(noise_gain j)
{
    SW_SHARED(float, e, LOOKUP_CHUNK);
    SW_SHARED(float, f, LOOKUP_CHUNK);
    SW_SHARED(sw_noise_direction, d, 1);
    const int64_t planes = j.n.members * j.middle.by;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.tiles * j.pieces; w += gridDim.x) {
        const int64_t i = w / (j.tiles * j.pieces), from = w % j.tiles * LOOKUP_CHUNK;
        const int64_t n = j.channels - from < LOOKUP_CHUNK ? j.channels - from : LOOKUP_CHUNK;
        const int64_t first = w / j.tiles % j.pieces * LOOKUP_MEMBERS;
        sw_cuda_noise_begin(d, j.n.a.weight, j.n.at(i), *j.n.sigma);
        affine_noise(j, d[0], e, f, from, n);
        __syncthreads();
        for (int64_t k = first; k < first + LOOKUP_MEMBERS && k < planes; k++) {
            int64_t at = k;
            const int64_t m = sw_cuda_split(j.middle, &at);
            affine_planes(j, e, f, j.n.scale(m), j.n.row(i, m) * j.middle.by + at, from, n);
        }
    }
}

/* y = (or +=) x times gain and plus shift, with the noise of both (NULL: 1 and 0), of (rows,
 * middle, channels, inner); y may be x. */
static sw_status noise_channels(const char *op, const sw_cuda_noise &n, float *y,
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
    j.middle = sw_cuda_long_divisor_of(middle);
    j.inner = sw_cuda_long_divisor_of(inner);
    j.add = add;
    j.tiles = (channels + LOOKUP_CHUNK - 1) / LOOKUP_CHUNK;
    j.pieces = (n.members * middle + LOOKUP_MEMBERS - 1) / LOOKUP_MEMBERS;
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
    return noise_channels("noise_affine", n, sw_cuda_out(l, 0), sw_cuda_in(l, 0), gain, shift,
                          x->dim[a->channel_axis], middle, inner, sw_cuda_adds(l, 0), queue);
}

/* ---- linear_ce --------------------------------------------------------------------------- */

/* Softmax cross-entropy of x W^T + b with noise, chunk after chunk of rows, one number for each
 * evaluation. A chunk has whole evaluations of one repeat, or a part of one (as
 * runtime/ops/linear_ce.c): its noise is that of a batch of its own. Losses of an
 * evaluation's rows are added after the last chunk. */

enum { X, W, LABELS, SIGMA, MORE };

struct noise_sizes {
    int64_t rows, width, classes, each;
    int64_t chunk, unit; /* rows of a chunk; and of what chunks begin anew in */
};

static noise_sizes sizes_of(const sw_type *x, const sw_type *w, const swi_noise_ce_attrs *a)
{
    const int64_t rows = x->shape.dim[0], classes = w->shape.dim[0];
    const int64_t each = rows / (a->noise.repeats * a->noise.directions);
    const int64_t repeat = each * a->noise.directions;
    const int64_t fit = SW_CUDA_CE_BYTES / (classes * (int64_t)sizeof(float));
    const int64_t most = a->rows > 0 ? a->rows : fit < 1 ? 1 : fit;
    noise_sizes s = {rows, x->shape.dim[1], classes, each, repeat, repeat};
    if (most < repeat)
        s.chunk = most >= each ? most / each * each : most;
    s.unit = s.chunk >= each ? repeat : each;
    return s;
}

/* Classes are dropped before the bias is added; else the product adds it. */
static bool product_adds_bias(const swi_noise_ce_attrs *a)
{
    return a->has_bias != 0 && !swi_noise_drops(&a->noise);
}

static sw_cuda_product logits_of(const noise_sizes &s, int64_t rows)
{
    return sw_cuda_product_of(rows, s.classes, s.width, s.width, 1, 1, s.width);
}

/* The mean of an evaluation's rows that count. */
struct evaluation_mean {
    enum { N = 2 };
    sw_cuda_ce e;
    float *y;
    int64_t each;
    int add;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        const int64_t row = c * each + r;
        v[0] = e.row_loss[row];
        v[1] = e.ignored(e.label.at(row)) ? 0.0 : 1.0;
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        const float loss = sum[1] > 0.0 ? (float)(sum[0] / sum[1]) : 0.0f;
        y[c] = add ? y[c] + loss : loss;
    }
};

/* ---- scratch ----------------------------------------------------------------------------- */

struct noise_scratch {
    size_t row_loss, mean, product, product_bytes, logits, bytes;
};

static size_t product_bytes(const noise_sizes &s, int64_t rows, bool bias,
                            const sw_cuda_queue *queue)
{
    static const float there = 0.0f;
    sw_cuda_product g = logits_of(s, rows);
    g.bias = bias ? &there : nullptr;
    return rows > 0 ? sw_cuda_product_bytes(&g, queue) : 0;
}

static noise_scratch scratch_of(const noise_sizes &s, bool bias, const sw_cuda_queue *queue)
{
    const size_t full = product_bytes(s, s.chunk, bias, queue);
    const size_t rest = s.chunk > 0 ? product_bytes(s, s.unit % s.chunk, bias, queue) : 0;
    noise_scratch r = {};
    r.product_bytes = full > rest ? full : rest;
    r.mean = sw_cuda_round((size_t)s.rows * sizeof(double));
    r.product =
        r.mean + sw_cuda_round(sw_cuda_reduce_bytes(s.each, s.each > 0 ? s.rows / s.each : 0,
                                                    evaluation_mean::N, false));
    r.logits = r.product + sw_cuda_round(r.product_bytes);
    r.bytes = r.logits + (size_t)(s.chunk * s.classes) * sizeof(float);
    return r;
}

SW_CUDA_SCRATCH_SIZE(sw_cuda_noise_linear_ce_scratch)
{
    const swi_noise_ce_attrs *a = sw_cuda_attrs<swi_noise_ce_attrs>(info);
    return scratch_of(sizes_of(&info->in[X], &info->in[W], a), product_adds_bias(a), queue)
        .bytes;
}

/* ---- forward ----------------------------------------------------------------------------- */

struct noise_pass {
    const sw_launch *l;
    const sw_cuda_queue *queue;
    const swi_noise_ce_attrs *a;
    noise_sizes s;
    noise_scratch at;
    unsigned char *scratch;
    float *logits;
};

/* That of rows [first, first + rows) alone: one repeat of some directions. */
static sw_cuda_noise noise_of(const noise_pass &p, int64_t first, int64_t rows)
{
    const int64_t evaluation = first / p.s.each;
    swi_noise_attrs part = p.a->noise;
    int next = MORE + p.a->has_bias;
    part.repeats = 1;
    part.antithetic = 0;
    part.directions = rows >= p.s.each ? rows / p.s.each : 1;
    sw_cuda_noise n = sw_cuda_noise_of(p.l, &part, sw_cuda_in(p.l, SIGMA), rows, p.queue);
    n.from = evaluation % p.a->noise.directions;
    n.sign = sw_noise_sign(&p.a->noise, evaluation);
    if (part.has_sigmas != 0 && part.weight.rows != 0)
        n.weight_sigmas = sw_cuda_in(p.l, next++);
    if (part.has_sigmas != 0 && part.bias.rows != 0)
        n.bias_sigmas = sw_cuda_in(p.l, next);
    return n;
}

static sw_status chunk(const noise_pass &p, sw_cuda_ce e, int64_t first, int64_t rows)
{
    const swi_noise_attrs *noise = &p.a->noise;
    const float *x = sw_cuda_in(p.l, X) + first * p.s.width;
    sw_cuda_product g = logits_of(p.s, rows);
    const float *bias = p.a->has_bias != 0 ? sw_cuda_in(p.l, MORE) : nullptr;
    g.bias = product_adds_bias(p.a) ? bias : nullptr;
    g.p.c = p.logits;
    g.p.a = x;
    g.p.b = sw_cuda_in(p.l, W);
    SW_TRY(sw_cuda_product_run("noise_linear_ce", &g, p.scratch + p.at.product,
                               p.at.product_bytes, p.queue));
    if (swi_noise_drops(&p.a->noise))
        SW_TRY(noise_channels("noise_linear_ce", noise_of(p, first, rows), p.logits, p.logits,
                              nullptr, bias, p.s.classes, 1, 1, 0, p.queue));
    else if (noise->weight.rows != 0 || noise->bias.rows != 0)
        SW_TRY(noise_layer("noise_linear_ce", noise_of(p, first, rows), p.logits, x,
                           p.s.classes, p.s.width, 1, p.queue));
    e.rows = rows;
    e.label = e.label.from(first);
    e.row_loss += first;
    sw_cuda_ce_rows(e, p.queue);
    return sw_cuda_launched("noise_linear_ce");
}

SW_CUDA_ENTRY(noise_linear_ce, forward, sw_cuda_noise_linear_ce_scratch, 0)
{
    noise_pass p = {};
    sw_cuda_ce e = {};
    p.l = l;
    p.queue = queue;
    p.a = sw_cuda_attrs<swi_noise_ce_attrs>(l);
    p.s = sizes_of(&l->in[X].type, &l->in[W].type, p.a);
    p.at = scratch_of(p.s, product_adds_bias(p.a), queue);
    p.scratch = static_cast<unsigned char *>(l->scratch);
    p.logits = reinterpret_cast<float *>(p.scratch + p.at.logits);
    e.x = p.logits;
    e.row_loss = reinterpret_cast<double *>(p.scratch);
    e.label = sw_cuda_ids_in(l, LABELS);
    e.rows = p.s.rows;
    e.cols = e.step = p.s.classes;
    e.smoothing = p.a->ce.smoothing;
    e.has_ignore = p.a->ce.has_ignore;
    e.ignore = p.a->ce.ignore;
    for (int64_t first = 0, rows; first < p.s.rows; first += rows) {
        const int64_t left = p.s.unit - first % p.s.unit;
        rows = left < p.s.chunk ? left : p.s.chunk;
        SW_TRY(chunk(p, e, first, rows));
    }
    const evaluation_mean f = {e, sw_cuda_out(l, 0), p.s.each, sw_cuda_adds(l, 0)};
    if (p.s.each == 0)
        return SW_OK;
    return sw_cuda_reduce<false>("noise_linear_ce", f, p.s.each, p.s.rows / p.s.each,
                                 p.scratch + p.at.mean, queue);
}
