/* The estimate of an evolution strategy: g = sum over directions d of w_d E_d, times the sigma
 * of each element where there are such, plus l1 sign(theta) + l2 theta.
 *
 * Of low-rank noise it is a product whose factors are nowhere: a block has a tile of g in
 * registers and makes the numbers of some directions in shared memory, A times w_d beside B.
 * Of normal iid noise a thread makes the four numbers of a counter for one direction after the
 * other; of other kinds each element alone. Directions go in parts where there are few tiles,
 * and sums in an order that shapes alone decide: nothing is added by chance. */
#include "kernels/cuda/noise_draw.h"
#include "kernels/cuda/tile.h"

static constexpr int SEGMENT = 512; /* terms that are summed apart, in registers */
static constexpr int AHEAD = 8;     /* directions that a block prepares at a time */
/* Blocks that keep a card busy, and directions that are worth a part; tests give fewer. */
#ifndef SW_CUDA_ES_BLOCKS
#define SW_CUDA_ES_BLOCKS 264
#define SW_CUDA_ES_PART 64
#endif

struct es_sum {
    sw_noise_spec s;
    uint64_t seed;
    const sw_cuda_counters *counters;
    const float *weights, *theta, *sigma, *sigmas; /* NULL: not there */
    float *to, *parts;                             /* parts NULL: one, which is `to` */
    int64_t n, each;                               /* directions, of all and of a part */
    int64_t first, rows;
    sw_cuda_long_divisor cols, rank;
    float l1, l2;

    __device__ sw_noise_at at(int64_t d) const
    {
        return sw_noise_at{seed, counters->step, counters->run + (uint32_t)d};
    }
    /* Of this block's part: directions from..end-1, and where their sum goes. */
    __device__ int64_t from(void) const
    {
        return blockIdx.y * each;
    }
    __device__ int64_t end(void) const
    {
        return from() + each < n ? from() + each : n;
    }
    __device__ float *sum(void) const
    {
        return parts != nullptr ? parts + blockIdx.y * rows * s.cols : to;
    }
};

/* ---- low rank ---------------------------------------------------------------------------- */

/* LINES lines of ROOM floats: of term q0 + i, direction q / rank and factor q % rank, the
 * numbers of `total` from `from` on, n of them and zeros after; times w_d where `weighs`. */
template <int ROOM, int LINE, int LINES>
static __device__ void es_factor(float *to, const es_sum &g, sw_noise_part part, int64_t total,
                                 int64_t from, int n, int64_t q0, int64_t q_end, bool weighs)
{
    for (int t = (int)threadIdx.x; t < LINES * (ROOM / 4 + 1); t += (int)blockDim.x) {
        const int64_t q = q0 + t % LINES;
        int64_t factor = q, d = sw_cuda_split(g.rank, &factor);
        const int64_t first = factor * total + from, four = first / 4 + t / LINES;
        const int at = (int)(4 * four - first);
        float v[4] = {};
        if (q < q_end && at < n) {
            const sw_noise_at whose = g.at(d);
            const float w = weighs ? g.weights[d] * sw_noise_scale(&g.s) : 1.0f;
            uint32_t words[4];
            if (g.s.distribution == SW_NOISE_NORMAL) {
                sw_noise_words(words, &g.s, part, &whose, (uint32_t)four);
                sw_noise_normal4(v, words);
            } else {
                for (int k = 0; k < 4; k++)
                    v[k] = sw_noise_number(&g.s, part, &whose, 4 * four + k);
            }
            for (int k = 0; k < 4; k++)
                v[k] = at + k < n ? v[k] * w : 0.0f;
        }
        for (int k = 0; k < 4; k++)
            if (at + k >= 0 && at + k < ROOM)
                to[t % LINES * LINE + at + k] = v[k];
    }
}

template <class TILE>
__global__ void __launch_bounds__(TILE::THREADS, TILE::RESIDENT) es_low_rank_kernel(es_sum g)
{
    SW_SHARED(float, a, TILE::A_ROOM);
    SW_SHARED(float, b, TILE::B_ROOM);
    const int64_t across = (g.s.cols + TILE::COLS - 1) / TILE::COLS;
    const int64_t tiles = (g.rows + TILE::ROWS - 1) / TILE::ROWS * across;
    const int64_t begin = g.from() * g.s.rank, end = g.end() * g.s.rank;
    float *out = g.sum();
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t row = tile / across * TILE::ROWS, col = tile % across * TILE::COLS;
        const int rows = (int)(g.rows - row < TILE::ROWS ? g.rows - row : TILE::ROWS);
        const int cols = (int)(g.s.cols - col < TILE::COLS ? g.s.cols - col : TILE::COLS);
        for (int64_t q = begin; q == begin || q < end; q += SEGMENT) {
            const int64_t last = q + SEGMENT < end ? q + SEGMENT : end;
            float sum[TILE::DOWN][TILE::ACROSS] = {};
            for (int64_t k = q; k < last; k += TILE::DEEP) {
                __syncthreads();
                es_factor<TILE::ROWS, TILE::A_LINE, TILE::DEEP>(
                    a, g, SW_NOISE_ROWS, g.s.rows, g.first + row, rows, k, last, true);
                es_factor<TILE::COLS, TILE::B_LINE, TILE::DEEP>(b, g, SW_NOISE_COLS, g.s.cols,
                                                                col, cols, k, last, false);
                __syncthreads();
                TILE::multiply(sum, a, b);
            }
            SW_UNROLL
            for (int i = 0; i < TILE::DOWN; i++) {
                SW_UNROLL
                for (int j = 0; j < TILE::ACROSS; j++)
                    if (TILE::row_of(i) < rows && TILE::col_of(j) < cols) {
                        float *y =
                            out + (row + TILE::row_of(i)) * g.s.cols + col + TILE::col_of(j);
                        *y = (q > begin ? *y : 0.0f) + sum[i][j];
                    }
            }
        }
    }
}

/* Four elements of a counter, those that are there. */
__global__ void es_iid_kernel(es_sum g)
{
    const int64_t begin = g.first * g.s.cols, n = g.rows * g.s.cols, end = begin + n;
    float *out = g.sum();
    for (int64_t b = begin / 4 + sw_cuda_thread(); 4 * b < end; b += sw_cuda_threads()) {
        float sum[4] = {}, all[4] = {};
        for (int64_t d = g.from(); d < g.end(); d++) {
            const sw_noise_at at = g.at(d);
            const float w = g.weights[d];
            uint32_t words[4];
            float four[4];
            sw_noise_words(words, &g.s, SW_NOISE_ELEMENTS, &at, (uint32_t)b);
            sw_noise_normal4(four, words);
            for (int k = 0; k < 4; k++)
                sum[k] = fmaf(w, four[k], sum[k]);
            if ((d + 1) % SEGMENT == 0)
                for (int k = 0; k < 4; k++) {
                    all[k] += sum[k];
                    sum[k] = 0.0f;
                }
        }
        for (int k = 0; k < 4; k++)
            if (4 * b + k >= begin && 4 * b + k < end)
                out[4 * b + k - begin] = all[k] + sum[k];
    }
}

__global__ void es_element_kernel(es_sum g)
{
    SW_SHARED(sw_noise_direction, ahead, AHEAD);
    const int64_t n = g.rows * g.s.cols;
    float *out = g.sum();
    for (int64_t block = blockIdx.x; block * blockDim.x < n; block += gridDim.x) {
        const int64_t i = block * blockDim.x + threadIdx.x;
        int64_t col = i, row = g.first + sw_cuda_split(g.cols, &col);
        float sum = 0.0f;
        for (int64_t d = g.from(); d < g.end(); d += AHEAD) {
            const int some = (int)(g.end() - d < AHEAD ? g.end() - d : AHEAD);
            __syncthreads();
            if ((int)threadIdx.x < some) {
                const sw_noise_at at = g.at(d + threadIdx.x);
                sw_noise_prepare(&ahead[threadIdx.x], &g.s, &at,
                                 g.sigma != nullptr ? *g.sigma : 0.0f);
            }
            __syncthreads();
            for (int k = 0; k < some && i < n; k++)
                sum = fmaf(g.weights[d + k],
                           sw_noise_element(&g.s, &ahead[k], row, col,
                                            g.theta != nullptr ? g.theta[i] : 0.0f),
                           sum);
        }
        if (i < n)
            out[i] = sum;
    }
}

__global__ void es_rest_kernel(es_sum g, int64_t n_parts)
{
    const int64_t n = g.rows * g.s.cols;
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads()) {
        float v = g.parts != nullptr ? 0.0f : g.to[i];
        for (int64_t p = 0; p < n_parts && g.parts != nullptr; p++)
            v += g.parts[p * n + i];
        if (g.sigmas != nullptr)
            v *= g.sigmas[i];
        if (g.l1 != 0.0f || g.l2 != 0.0f) {
            const float theta = g.theta[i];
            v += g.l1 * (float)((theta > 0.0f) - (theta < 0.0f)) + g.l2 * theta;
        }
        g.to[i] = v;
    }
}

/* ---- entry ------------------------------------------------------------------------------- */

typedef sw_cuda_tile<128, 64, 16, 8, 4, 2> large_tile;
typedef sw_cuda_tile<64, 64, 16, 4, 4, 2> middle_tile;
typedef sw_cuda_tile<32, 32, 16, 4, 4, 8> small_tile;

template <class TILE> static int64_t tiles_of(int64_t rows, int64_t cols)
{
    return (rows + TILE::ROWS - 1) / TILE::ROWS * ((cols + TILE::COLS - 1) / TILE::COLS);
}

/* The rows of a tile; 0: the noise is not low-rank. */
static int side_of(const sw_noise_spec *s, int64_t rows)
{
    const int64_t least = rows < s->cols ? rows : s->cols;
    if (s->kind != SW_NOISE_LOW_RANK)
        return 0;
    return least > 64 && tiles_of<large_tile>(rows, s->cols) >= 32 ? 128 : least > 32 ? 64 : 32;
}

/* Blocks beside each other: of elements or tiles, by shape. */
static int64_t blocks_of(const sw_noise_spec *s, int64_t rows)
{
    const int side = side_of(s, rows);
    const int64_t n = rows * s->cols;
    return side == 128  ? tiles_of<large_tile>(rows, s->cols)
           : side == 64 ? tiles_of<middle_tile>(rows, s->cols)
           : side == 32 ? tiles_of<small_tile>(rows, s->cols)
                        : n / SW_CUDA_THREADS / (s->kind == SW_NOISE_IID ? 4 : 1) + 1;
}

/* Parts of the directions: few, of as many directions each as are worth it. */
static int64_t parts_of(const sw_noise_spec *s, int64_t rows, int64_t n)
{
    const int64_t most = SW_CUDA_ES_BLOCKS / blocks_of(s, rows);
    const int64_t worth = (n + SW_CUDA_ES_PART - 1) / SW_CUDA_ES_PART;
    const int64_t parts = most < worth ? most : worth;
    return parts < 1 ? 1 : parts;
}

static int64_t rows_of(const swi_es_gradient_attrs *a, const sw_type *out)
{
    return a->spec.cols > 0 ? sw_cuda_elements(out) / a->spec.cols : 0;
}

SW_CUDA_SCRATCH_SIZE(sw_cuda_es_gradient_scratch)
{
    const swi_es_gradient_attrs *a = sw_cuda_attrs<swi_es_gradient_attrs>(info);
    const int64_t rows = rows_of(a, &info->out[0]);
    const int64_t parts = rows > 0 ? parts_of(&a->spec, rows, info->in[0].shape.dim[0]) : 1;
    return parts > 1 ? (size_t)(parts * rows * a->spec.cols) * sizeof(float) : 0;
}

static es_sum sum_of(const sw_launch *l, const sw_cuda_queue *queue)
{
    const swi_es_gradient_attrs *a = sw_cuda_attrs<swi_es_gradient_attrs>(l);
    const bool drops = a->spec.kind == SW_NOISE_DROPOUT;
    int next = 1;
    es_sum g = {};
    g.s = a->spec;
    g.seed = l->seed;
    g.counters = queue->counters;
    g.weights = sw_cuda_in(l, 0);
    g.theta = drops || a->l1 != 0.0f || a->l2 != 0.0f ? sw_cuda_in(l, next++) : nullptr;
    g.sigma = drops ? sw_cuda_in(l, next++) : nullptr;
    g.sigmas = a->has_sigmas != 0 ? sw_cuda_in(l, next) : nullptr;
    g.to = sw_cuda_out(l, 0);
    g.n = l->in[0].type.shape.dim[0];
    g.first = a->rows.first;
    g.rows = rows_of(a, &l->out[0].type);
    g.cols = sw_cuda_long_divisor_of(g.s.cols);
    g.rank = sw_cuda_long_divisor_of(g.s.rank);
    g.l1 = a->l1;
    g.l2 = a->l2;
    return g;
}

static void launch_sum(const es_sum &g, unsigned parts, const sw_cuda_queue *queue)
{
    const int side = side_of(&g.s, g.rows);
    const dim3 grid(sw_cuda_blocks(blocks_of(&g.s, g.rows), 1), parts);
    const auto large = es_low_rank_kernel<large_tile>;
    const auto middle = es_low_rank_kernel<middle_tile>;
    const auto small = es_low_rank_kernel<small_tile>;
    if (side == 128)
        SW_CUDA_LAUNCH(large, grid, large_tile::THREADS, 0, queue, g);
    else if (side == 64)
        SW_CUDA_LAUNCH(middle, grid, middle_tile::THREADS, 0, queue, g);
    else if (side == 32)
        SW_CUDA_LAUNCH(small, grid, small_tile::THREADS, 0, queue, g);
    else if (g.s.kind == SW_NOISE_IID && g.s.distribution == SW_NOISE_NORMAL)
        SW_CUDA_LAUNCH(es_iid_kernel, grid, SW_CUDA_THREADS, 0, queue, g);
    else
        SW_CUDA_LAUNCH(es_element_kernel, grid, SW_CUDA_THREADS, 0, queue, g);
}

/* in: weights, [theta: dropout, l1, l2], [sigma: dropout], [sigmas] */
SW_CUDA_ENTRY(es_gradient, forward, sw_cuda_es_gradient_scratch, 0)
{
    es_sum g = sum_of(l, queue);
    if (g.s.kind == SW_NOISE_BITS_OF_LOGITS)
        return sw_cuda_its_host.fail(SW_UNSUPPORTED, __FILE__, __LINE__,
                                     "es_gradient: the logits of layers of bits have no "
                                     "estimate on a card: keep the model on the CPU");
    if (g.rows == 0)
        return SW_OK;
    const int64_t parts = parts_of(&g.s, g.rows, g.n);
    g.each = (g.n + parts - 1) / parts;
    g.parts = parts > 1 ? static_cast<float *>(l->scratch) : nullptr;
    launch_sum(g, (unsigned)parts, queue);
    if (parts > 1 || g.sigmas != nullptr || g.l1 != 0.0f || g.l2 != 0.0f)
        SW_CUDA_LAUNCH_FOR(es_rest_kernel, g.rows * g.s.cols, SW_CUDA_THREADS, queue, g, parts);
    return sw_cuda_launched("es_gradient");
}

/* ---- sigmas ------------------------------------------------------------------------------ */

/* The sigmas of separable natural evolution strategies: sigmas *= exp(rate / 2 sum over d of
 * w_d (e_d^2 - 1)), with the numbers e recomputed. Elementwise, so that bits are the CPU's. */

static constexpr int BLOCK = 64; /* directions that are summed apart */

struct snes_job {
    sw_noise_spec s;
    uint64_t seed;
    const sw_cuda_counters *counters;
    float *sigmas;
    const float *weights, *rate;
    const double *finite_check; /* NULL: 0 */
    int64_t n, directions;

    __device__ sw_noise_at at(int64_t d) const
    {
        return sw_noise_at{seed, counters->step, counters->run + (uint32_t)d};
    }
    __device__ bool off(void) const
    {
        return finite_check != nullptr && *finite_check != 0.0;
    }
};

/* Directions in order: those of a block, then blocks. */
struct snes_total {
    float block, sum;
    __device__ void add(float w, float e, int64_t d)
    {
        block += w * (e * e - 1.0f);
        if ((d + 1) % BLOCK == 0) {
            sum += block;
            block = 0.0f;
        }
    }
    __device__ float factor(float rate) const
    {
        return sw_expf(0.5f * rate * (sum + block));
    }
};

/* Normal iid noise: a thread has the four elements of a counter. */
__global__ void snes_iid_kernel(snes_job j)
{
    for (int64_t b = sw_cuda_thread(); 4 * b < j.n && !j.off(); b += sw_cuda_threads()) {
        snes_total total[4] = {};
        for (int64_t d = 0; d < j.directions; d++) {
            const sw_noise_at at = j.at(d);
            const float w = j.weights[d];
            uint32_t words[4];
            float four[4];
            sw_noise_words(words, &j.s, SW_NOISE_ELEMENTS, &at, (uint32_t)b);
            sw_noise_normal4(four, words);
            for (int k = 0; k < 4; k++)
                total[k].add(w, four[k], d);
        }
        for (int k = 0; k < 4; k++)
            if (4 * b + k < j.n)
                j.sigmas[4 * b + k] *= total[k].factor(*j.rate);
    }
}

/* Other numbers, each alone. */
__global__ void snes_element_kernel(snes_job j)
{
    for (int64_t i = sw_cuda_thread(); i < j.n && !j.off(); i += sw_cuda_threads()) {
        snes_total total = {};
        for (int64_t d = 0; d < j.directions; d++) {
            const sw_noise_at at = j.at(d);
            total.add(j.weights[d], sw_noise_number(&j.s, SW_NOISE_ELEMENTS, &at, i), d);
        }
        j.sigmas[i] *= total.factor(*j.rate);
    }
}

/* in: sigmas, weights, rate, [finite check]; out: sigmas, in their place */
SW_CUDA_ENTRY(snes_update, forward, NULL, 1)
{
    const swi_snes_attrs *a = sw_cuda_attrs<swi_snes_attrs>(l);
    snes_job j = {};
    j.s = a->spec;
    j.seed = l->seed;
    j.counters = queue->counters;
    j.sigmas = sw_cuda_out(l, 0);
    j.weights = sw_cuda_in(l, 1);
    j.rate = sw_cuda_in(l, 2);
    j.finite_check = a->has_finite_check != 0
                         ? static_cast<const double *>(l->in[l->n_in - 1].ptr)
                         : nullptr;
    j.n = sw_cuda_elements(&l->out[0].type);
    j.directions = l->in[1].type.shape.dim[0];
    if (j.n == 0)
        return SW_OK;
    if (j.s.distribution == SW_NOISE_NORMAL)
        SW_CUDA_LAUNCH_FOR(snes_iid_kernel, j.n, 4 * SW_CUDA_THREADS, queue, j);
    else
        SW_CUDA_LAUNCH_FOR(snes_element_kernel, j.n, SW_CUDA_THREADS, queue, j);
    return sw_cuda_launched("snes_update");
}

/* ---- steps of zeroth order --------------------------------------------------------------- */

/* The steps of zeroth-order training: theta along its noise, direction 0. Elementwise, so that
 * bits are the CPU's. */

static constexpr int CHUNK = SW_CUDA_NOISE_CHUNK; /* columns of a block */
static constexpr int ROWS = 16;                   /* and rows */
static constexpr int RANKS = 4;                   /* with more, each element is made alone */

struct move_job {
    swi_move_attrs a;
    uint64_t seed;
    const sw_cuda_counters *counters;
    float *theta;
    const float *numbers;
    int64_t rows, cols; /* of the matrix of noise */
    sw_cuda_long_divisor by_cols;

    /* theta after the move by its noise z; each product and sum is rounded. */
    __device__ float moved(float theta_, float z) const
    {
        const float by = numbers[SWI_MOVE_A];
        float t = theta_ + by * z;
        if (a.move == SWI_MOVE_ALL) {
            t += -2.0f * by * z;
            t += by * z;
        }
        if (a.move == SWI_MOVE_BY_NOISE)
            return t;
        const float c = numbers[SWI_MOVE_C], lr = numbers[SWI_MOVE_LR];
        return a.decays != 0 ? t - lr * (c * z + numbers[SWI_MOVE_WD] * t) : t - lr * (c * z);
    }
};

/* Normal iid noise. */
__global__ void move_iid_kernel(move_job j)
{
    const sw_noise_at at = {j.seed, j.counters->step, 0};
    const int64_t n = j.rows * j.cols;
    for (int64_t b = sw_cuda_thread(); 4 * b < n; b += sw_cuda_threads()) {
        uint32_t words[4];
        float four[4];
        sw_noise_words(words, &j.a.noise, SW_NOISE_ELEMENTS, &at, (uint32_t)b);
        sw_noise_normal4(four, words);
        for (int k = 0; k < 4; k++)
            if (4 * b + k < n)
                j.theta[4 * b + k] = j.moved(j.theta[4 * b + k], four[k]);
    }
}

/* Few factors: a block has some rows and columns, and makes their numbers once. */
__global__ void move_low_rank_kernel(move_job j)
{
    SW_SHARED(float, a, RANKS *ROWS);
    SW_SHARED(float, b, RANKS *CHUNK);
    const sw_noise_spec &s = j.a.noise;
    const sw_noise_at at = {j.seed, j.counters->step, 0};
    const float scale = sw_noise_scale(&s);
    const int64_t across = (j.cols + CHUNK - 1) / CHUNK;
    for (int64_t w = blockIdx.x; w < across * ((j.rows + ROWS - 1) / ROWS); w += gridDim.x) {
        const int64_t row = w / across * ROWS, col = w % across * CHUNK;
        const unsigned rows = (unsigned)(j.rows - row < ROWS ? j.rows - row : ROWS);
        const unsigned cols = (unsigned)(j.cols - col < CHUNK ? j.cols - col : CHUNK);
        __syncthreads();
        for (int k = 0; k < s.rank; k++) {
            sw_cuda_noise_fill(a + k * ROWS, s, SW_NOISE_ROWS, at, k * s.rows + row, rows);
            sw_cuda_noise_fill(b + k * CHUNK, s, SW_NOISE_COLS, at, k * s.cols + col, cols);
        }
        __syncthreads();
        for (unsigned t = threadIdx.x; t < rows * cols; t += blockDim.x) {
            const unsigned r = t / cols, c = t % cols;
            float *theta = j.theta + (row + r) * j.cols + col + c, z = 0.0f;
            for (int k = 0; k < s.rank; k++)
                z = fmaf(a[k * ROWS + r], b[k * CHUNK + c], z);
            *theta = j.moved(*theta, z * scale);
        }
    }
}

__global__ void move_element_kernel(move_job j)
{
    SW_SHARED(sw_noise_direction, d, 1);
    const sw_noise_at at = {j.seed, j.counters->step, 0};
    sw_cuda_noise_begin(d, j.a.noise, at, 1.0f);
    for (int64_t i = sw_cuda_thread(); i < j.rows * j.cols; i += sw_cuda_threads()) {
        int64_t col = i, row = sw_cuda_split(j.by_cols, &col);
        j.theta[i] = j.moved(j.theta[i], sw_noise_element(&j.a.noise, d, row, col, 0.0f));
    }
}

/* in: param, numbers (swi_move); out: param, in its place */
SW_CUDA_ENTRY(noise_move, forward, NULL, 1)
{
    move_job j = {};
    j.a = *sw_cuda_attrs<swi_move_attrs>(l);
    const sw_noise_spec *s = &j.a.noise;
    j.seed = l->seed;
    j.counters = queue->counters;
    j.theta = sw_cuda_out(l, 0);
    j.numbers = sw_cuda_in(l, 1);
    j.rows = s->rows;
    j.cols = s->cols;
    j.by_cols = sw_cuda_long_divisor_of(j.cols);
    const int64_t n = sw_cuda_elements(&l->out[0].type);
    if (n == 0)
        return SW_OK;
    if (s->kind == SW_NOISE_IID && s->distribution == SW_NOISE_NORMAL)
        SW_CUDA_LAUNCH_FOR(move_iid_kernel, n, 4 * SW_CUDA_THREADS, queue, j);
    else if (s->kind == SW_NOISE_LOW_RANK && s->rank <= RANKS)
        SW_CUDA_LAUNCH_FOR(move_low_rank_kernel,
                           (j.rows + ROWS - 1) / ROWS * ((j.cols + CHUNK - 1) / CHUNK), 1,
                           queue, j);
    else
        SW_CUDA_LAUNCH_FOR(move_element_kernel, n, SW_CUDA_THREADS, queue, j);
    return sw_cuda_launched("noise_move");
}
