/* Noise added to a convolution: y (batch, out, h', w') (+)= s sigma (conv(x, E) + e).
 *
 * Of low-rank noise the convolution with B_k is one plane for each image and group, which a
 * thread has of one place in registers; each output is A_k times it. Of other kinds a block
 * makes the noise of one output, for the images of all evaluations of a direction. */
#include "kernels/cuda/image.h"
#include "kernels/cuda/noise_draw.h"

static constexpr int CHUNK = SW_CUDA_NOISE_CHUNK; /* numbers of B, or of a row of E */
static constexpr int RANKS = 4;                   /* at a time */
static constexpr int OUTPUTS = CHUNK / 4;         /* of A at a time */
static constexpr int PLACES = SW_CUDA_THREADS;

struct noise_images {
    sw_cuda_noise n;
    const float *x;
    float *y;
    int64_t out, in, y_h, y_w; /* channels; planes */
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
    const int64_t plane = j.y_h * j.y_w, at = t % plane;
    return noise_place{j.n.row(i, t / plane), at, (int)(at / j.y_w), (int)(at % j.y_w)};
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
        const int channel = (int)((from + c) / taps), k = (int)((from + c) % taps);
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
    return j.y + (p.image * j.out + o) * j.y_h * j.y_w + p.at;
}

/* ---- low rank ---------------------------------------------------------------------------- */

/* Results of outputs from..from+n-1: A times the sums of this thread's place. */
static __device__ void low_rank_out(const noise_images &j, const noise_place &p, float scale,
                                    bool shifts, bool adds, const float *a, const float *bias,
                                    int ranks, const float (&sum)[RANKS], float root,
                                    int64_t from, int n)
{
    for (int o = 0; o < n; o++) {
        float *y = place_in(j, p, from + o), v = 0.0f;
        for (int k = 0; k < RANKS; k++)
            if (k < ranks)
                v = fmaf(a[k * OUTPUTS + o], sum[k], v);
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
    float sum[RANKS] = {};
    for (int64_t from = 0; ranks > 0 && from < s.cols; from += CHUNK) {
        const int n = (int)(s.cols - from < CHUNK ? s.cols - from : CHUNK);
        __syncthreads();
        for (int k = 0; k < ranks; k++)
            sw_cuda_noise_fill(b + k * CHUNK, s, SW_NOISE_COLS, at, (rank + k) * s.cols + from,
                               n);
        make_taps(taps, j, from, n);
        __syncthreads();
        for (int c = 0; c < n && is; c++) {
            const float v = x.read(taps[c]);
            for (int k = 0; k < RANKS; k++)
                if (k < ranks)
                    sum[k] = fmaf(v, b[k * CHUNK + c], sum[k]);
        }
    }
    for (int64_t from = group * j.per_group; from < end; from += OUTPUTS) {
        const int n = (int)(end - from < OUTPUTS ? end - from : OUTPUTS);
        __syncthreads();
        for (int k = 0; k < ranks; k++)
            sw_cuda_noise_fill(a + k * OUTPUTS, s, SW_NOISE_ROWS, at,
                               (rank + k) * s.rows + from, n);
        if (shifts)
            sw_cuda_noise_fill(bias, j.n.a.bias, SW_NOISE_ELEMENTS, at, from, n);
        __syncthreads();
        if (is)
            low_rank_out(j, p, scale, shifts, j.add || rank > 0, a, bias, ranks, sum,
                         ranks > 0 ? sw_noise_scale(&s) : 0.0f, from, n);
    }
}

__global__ void images_low_rank_kernel(noise_images j)
{
    SW_SHARED(noise_tap, taps, CHUNK);
    SW_SHARED(float, b, RANKS *CHUNK);
    SW_SHARED(float, a, RANKS *OUTPUTS);
    SW_SHARED(float, bias, OUTPUTS);
    const int rank = j.n.a.weight.rows != 0 ? j.n.a.weight.rank : 0;
    const int64_t places = j.n.members * j.y_h * j.y_w;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.pieces; w += gridDim.x) {
        const int64_t i = w / j.pieces, t = w % j.pieces * PLACES + threadIdx.x;
        const bool is = t < places;
        const noise_place p = place_of(j, i, is ? t : 0);
        const float scale = j.n.scale(i, is ? t / (j.y_h * j.y_w) : 0);
        const sw_noise_at at = j.n.at(i);
        for (int64_t group = 0; group < j.n.a.conv.groups; group++)
            for (int k = 0; k == 0 || k < rank; k += RANKS)
                low_rank_group(j, at, p, is, scale, group, k,
                               rank - k < RANKS ? rank - k : RANKS, taps, b, a, bias);
    }
}

/* ---- other kinds ------------------------------------------------------------------------- */

/* One output of the images of direction i, columns from..from+n-1 of its filter. */
static __device__ void filter_places(const noise_images &j, int64_t i, int64_t o, int64_t from,
                                     int n, const noise_tap *taps, const float *e, float shift)
{
    const sw_noise_spec &s = j.n.a.weight;
    const int64_t plane = j.y_h * j.y_w, first = o / j.per_group * (s.cols / s.taps);
    for (int64_t t = threadIdx.x; t < j.n.members * plane; t += blockDim.x) {
        const noise_place p = place_of(j, i, t);
        const noise_window x = window_of(j, p, first);
        float *y = place_in(j, p, o), sum = 0.0f;
        for (int c = 0; c < n; c++)
            sum = fmaf(x.read(taps[c]), e[c], sum);
        *y = (j.add || from > 0 ? *y : 0.0f) + j.n.scale(i, t / plane) * (sum + shift);
    }
}

__global__ void images_element_kernel(noise_images j)
{
    SW_SHARED(noise_tap, taps, CHUNK);
    SW_SHARED(float, e, CHUNK);
    SW_SHARED(float, bias, 1);
    SW_SHARED(sw_noise_direction, d, 1);
    const sw_noise_spec &s = j.n.a.weight;
    const int64_t cols = s.rows != 0 ? s.cols : 0;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.out; w += gridDim.x) {
        const int64_t i = w / j.out, o = w % j.out;
        sw_cuda_noise_begin(d, s, j.n.at(i), *j.n.sigma);
        if (j.n.a.bias.rows != 0)
            sw_cuda_noise_vector(bias, j.n.a.bias, d[0].at, o, 1, j.n.bias_sigmas);
        for (int64_t from = 0; from == 0 || from < cols; from += CHUNK) {
            const int n = (int)(cols - from < CHUNK ? cols - from : CHUNK);
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

/* ---- entry ------------------------------------------------------------------------------- */

static noise_images images_of(const sw_launch *l, const sw_cuda_queue *queue)
{
    const int64_t *x = l->in[0].type.shape.dim, *y = l->out[0].type.shape.dim;
    noise_images j = {};
    j.n = sw_cuda_noise_of(l, sw_cuda_attrs<swi_noise_attrs>(l), sw_cuda_in(l, 1), x[0], queue);
    j.x = sw_cuda_in(l, 0);
    j.y = sw_cuda_out(l, 0);
    j.in = x[1], j.h = (int)x[2], j.w = (int)x[3];
    j.out = y[1], j.y_h = y[2], j.y_w = y[3];
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
    const int64_t places = j.n.members * j.y_h * j.y_w;
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
