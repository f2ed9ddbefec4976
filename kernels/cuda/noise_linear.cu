/* Noise added to a linear layer: y (rows, out) (+)= s sigma (x E^T + e).
 *
 * Low-rank noise is never a matrix: a block has a direction, makes B in shared memory and its
 * products with the rows of all evaluations of the direction, then A, and adds the products of
 * both. Other kinds are made some outputs at a time, for the rows of the direction. */
#include "kernels/cuda/noise_draw.h"

static constexpr int MEMBERS = SW_CUDA_NOISE_MEMBERS; /* of a block */
static constexpr int CHUNK = SW_CUDA_NOISE_CHUNK;     /* numbers of a factor */
static constexpr int RANKS = 4;                       /* at a time */
static constexpr int PARTS = MEMBERS > 8 ? MEMBERS : 8;
static constexpr int OUTPUTS = CHUNK / 32; /* other kinds: at most, and rows */
static constexpr int ELEMENTS = 4 * CHUNK; /* other kinds */

struct noise_dense {
    sw_cuda_noise n;
    const float *x;
    float *y;
    int64_t width, depth, pieces, tiles;
    int add;
};

/* ---- low rank ---------------------------------------------------------------------------- */

/* sums[k x MEMBERS + m] = x_m . B_k over all columns, for `ranks` factors from `rank` on. Rows
 * that are few have several warps each. */
static __device__ void low_rank_dots(const noise_dense &j, const sw_noise_at &at, int64_t i,
                                     int64_t first, int members, int rank, int ranks, float *b,
                                     float *parts, float *sums)
{
    const sw_noise_spec &s = j.n.a.weight;
    const int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
    const int split = members < warps ? warps / members : 1;
    __syncthreads(); /* who reads the sums before */
    for (int t = (int)threadIdx.x; t < RANKS * MEMBERS; t += (int)blockDim.x)
        sums[t] = 0.0f;
    for (int64_t from = 0; from < s.cols; from += CHUNK) {
        const int64_t n = s.cols - from < CHUNK ? s.cols - from : CHUNK;
        __syncthreads();
        for (int k = 0; k < ranks; k++)
            sw_cuda_noise_fill(b + k * CHUNK, s, SW_NOISE_COLS, at, (rank + k) * s.cols + from,
                               n);
        __syncthreads();
        for (int t = (int)threadIdx.x / 32; t < members * split; t += warps) {
            const float *x = j.x + j.n.row(i, first + t % members) * j.depth + from;
            float sum[RANKS] = {};
            for (int64_t c = t / members * 32 + lane; c < n; c += 32 * split) {
                const float v = x[c];
                for (int k = 0; k < RANKS; k++)
                    if (k < ranks)
                        sum[k] = fmaf(v, b[k * CHUNK + c], sum[k]);
            }
            for (int k = 0; k < RANKS; k++) {
                sum[k] = sw_cuda_warp_reduce<sw_cuda_plus>(sum[k]);
                if (lane == 0)
                    parts[t * RANKS + k] = sum[k];
            }
        }
        __syncthreads();
        for (int t = (int)threadIdx.x; t < members * ranks; t += (int)blockDim.x) {
            const int m = t % members, k = t / members;
            for (int part = 0; part < split; part++)
                sums[k * MEMBERS + m] += parts[(part * members + m) * RANKS + k];
        }
    }
}

/* y of these members (+)= scale A sums, and the noise of the bias with the first factors. */
static __device__ void low_rank_out(const noise_dense &j, const sw_noise_at &at, int64_t i,
                                    int64_t first, int members, int rank, int ranks, float *a,
                                    float *bias, const float *sums)
{
    const sw_noise_spec &s = j.n.a.weight;
    const bool shifts = rank == 0 && j.n.a.bias.rows != 0;
    const float root = ranks > 0 ? sw_noise_scale(&s) : 0.0f;
    for (int64_t from = 0; from < j.width; from += CHUNK) {
        const unsigned n = (unsigned)(j.width - from < CHUNK ? j.width - from : CHUNK);
        __syncthreads();
        for (int k = 0; k < ranks; k++)
            sw_cuda_noise_fill(a + k * CHUNK, s, SW_NOISE_ROWS, at, (rank + k) * s.rows + from,
                               n);
        if (shifts)
            sw_cuda_noise_fill(bias, j.n.a.bias, SW_NOISE_ELEMENTS, at, from, n);
        __syncthreads();
        for (unsigned t = threadIdx.x; t < (unsigned)members * n; t += blockDim.x) {
            const unsigned m = t / n, o = t % n;
            float *y = j.y + j.n.row(i, first + m) * j.width + from + o;
            float sum = 0.0f;
            for (int k = 0; k < ranks; k++)
                sum = fmaf(a[k * CHUNK + o], sums[k * MEMBERS + m], sum);
            sum = sum * root + (shifts ? bias[o] : 0.0f);
            *y = (j.add || rank > 0 ? *y : 0.0f) + j.n.scale(i, first + m) * sum;
        }
    }
}

__global__ void dense_low_rank_kernel(noise_dense j)
{
    SW_SHARED(float, factors, RANKS *CHUNK);
    SW_SHARED(float, bias, CHUNK);
    SW_SHARED(float, parts, PARTS *RANKS);
    SW_SHARED(float, sums, MEMBERS *RANKS);
    const int rank = j.n.a.weight.rows != 0 ? j.n.a.weight.rank : 0;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.pieces; w += gridDim.x) {
        const int64_t i = w / j.pieces, first = w % j.pieces * MEMBERS;
        const int64_t left = j.n.members - first;
        const int members = (int)(left < MEMBERS ? left : MEMBERS);
        const sw_noise_at at = j.n.at(i);
        for (int k = 0; k == 0 || k < rank; k += RANKS) {
            const int ranks = rank - k < RANKS ? rank - k : RANKS;
            if (ranks > 0)
                low_rank_dots(j, at, i, first, members, k, ranks, factors, parts, sums);
            low_rank_out(j, at, i, first, members, k, ranks, factors, bias, sums);
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
    SW_SHARED(float, bias, OUTPUTS);
    SW_SHARED(float, sums, OUTPUTS *OUTPUTS);
    SW_SHARED(sw_noise_direction, d, 1);
    const bool shifts = j.n.a.bias.rows != 0;
    for (int64_t w = blockIdx.x; w < j.n.a.directions * j.pieces * j.tiles; w += gridDim.x) {
        const int64_t i = w / (j.pieces * j.tiles), o = w % j.tiles * OUTPUTS;
        const int64_t first = w / j.tiles % j.pieces * OUTPUTS, left = j.n.members - first;
        const int members = (int)(left < OUTPUTS ? left : OUTPUTS);
        const int outputs = (int)(j.width - o < OUTPUTS ? j.width - o : OUTPUTS);
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
            *y = (j.add ? *y : 0.0f) + j.n.scale(i, m) * sum;
        }
    }
}

/* ---- entry ------------------------------------------------------------------------------- */

sw_status sw_cuda_noise_layer(const char *op, const sw_cuda_noise &n, float *y, const float *x,
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
        j.pieces = (n.members + MEMBERS - 1) / MEMBERS;
        SW_CUDA_LAUNCH_FOR(dense_low_rank_kernel, a->directions * j.pieces, 1, queue, j);
    } else {
        j.pieces = (n.members + OUTPUTS - 1) / OUTPUTS;
        j.tiles = (width + OUTPUTS - 1) / OUTPUTS;
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
    return sw_cuda_noise_layer("noise_linear", n, sw_cuda_out(l, 0), sw_cuda_in(l, 0),
                               l->out[0].type.shape.dim[1], x->dim[1], sw_cuda_adds(l, 0),
                               queue);
}
