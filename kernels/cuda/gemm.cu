/* Products of matrices by square tiles. A block makes one tile of a result, or its part of a
 * long sum: slices of A and B go through shared memory, two in turn, so that one is filled
 * while the other is used; a thread keeps its share of the tile in registers. All three sizes
 * of tiles have 256 threads, of which each takes four numbers of each factor at a time.
 *
 * Which tile, and how many parts, follow from the sizes (plan_of). Parts lie in scratch and are
 * added in order by a second kernel. Who writes a finished result makes of it what the product
 * says: bias, what it is added to, and the unary function after it, one after the other, each
 * rounded as by a kernel of its own. */
#include "kernels/cuda/unary_values.h"
#include "kernels/cuda/gemm.h"

/* Blocks that keep a large card busy; tests give fewer. */
#ifndef SW_CUDA_MANY_TILES
#define SW_CUDA_MANY_TILES 128
#endif
/* Terms of a sum that are worth a part of their own. */
#ifndef SW_CUDA_PART_DEPTH
#define SW_CUDA_PART_DEPTH 256
#endif
#define MOST_PARTS 64
#define BAND 8 /* rows of tiles that follow each other, so that they find B in the cache */

/* SIDE x SIDE results from SIDE x DEEP numbers of each factor; a thread has EACH x EACH
 * results. Where they need fewer threads than there are, slices of them share the depth. */
template <int SIDE_, int EACH_, int RESIDENT_> struct tile {
    static constexpr int SIDE = SIDE_, EACH = EACH_, RESIDENT = RESIDENT_;
    static constexpr int DEEP = 4 * SW_CUDA_THREADS / SIDE;
    static constexpr int ACROSS = SIDE / EACH; /* threads of a row of the tile */
    static constexpr int SLICE = ACROSS * ACROSS, SLICES = SW_CUDA_THREADS / SLICE;
    static constexpr int FACTOR = SIDE * DEEP; /* floats of one factor in shared memory */

    /* Lines (rows of A, columns of B) lie side by side, four together. Fours are shuffled with
     * the depth, so that filling along it meets other banks too. */
    static __device__ __forceinline__ int at(int depth, int line)
    {
        return depth * SIDE + (line ^ depth / 4 * (SIDE / 8));
    }
};
typedef tile<128, 8, 2> large_tile;
typedef tile<64, 4, 3> medium_tile;
typedef tile<32, 4, 2> small_tile;

/* A factor: lines along m or n, and its depth along k; steps count elements. */
struct factor {
    const float *p;
    int64_t line, depth, result[SW_AXES_MAX], sum[SW_AXES_MAX];
    int along; /* what lies side by side in memory lies along the depth */
    int wide;  /* four of it may be read at once */
};

/* The last steps of a sum, before it is written. */
struct ending {
    const float *bias; /* of the first column */
    int add, then;
    float number;
};

/* Sizes and counts are below 2^31, addresses are not. */
struct product {
    factor a, b;
    float *c;
    ending end;
    int m, n, k, results, c_row;
    int n_results, n_sums;
    int result[SW_AXES_MAX], sum[SW_AXES_MAX];
    int deep, each; /* slices of k, and of all sums in a part */
    int slices;     /* of all sums */
    int rows, cols; /* tiles */
    int parts, wide;
};

/* ---- on the device ----------------------------------------------------------------------- */

/* Place i of row-major axes, by an operand's steps. */
static __device__ __forceinline__ int64_t offset_of(const int *dim, const int64_t *step, int n,
                                                    int i)
{
    int64_t at = 0;
    for (int k = n - 1; k >= 0; k--) {
        at += i % dim[k] * step[k];
        i /= dim[k];
    }
    return at;
}

/* A thread's four numbers of each slice of a factor: where they are in the slice that is taken
 * next, how many lines there are from the first on, and their position in shared memory. */
struct share {
    const float *at;
    int lines, depth, to;
};

template <class T>
static __device__ __forceinline__ share share_of(const factor &f, int first, int lines,
                                                 int64_t result)
{
    const int t = (int)threadIdx.x;
    const int line = f.along ? t / (T::DEEP / 4) : t % (T::SIDE / 4) * 4;
    share s;
    s.depth = f.along ? t % (T::DEEP / 4) * 4 : t / (T::SIDE / 4);
    s.lines = lines - first - line;
    s.to = T::at(s.depth, line);
    s.at = f.p + result + (first + line) * f.line + s.depth * f.depth;
    return s;
}

/* Zeros outside. left: of the depth from the slice on. */
static __device__ __forceinline__ void take(float (&v)[4], const share &s, const factor &f,
                                            int left)
{
    const int deep = left - s.depth;
    const int inside = f.along ? (s.lines > 0 ? deep : 0) : (deep > 0 ? s.lines : 0);
    if (f.wide && inside >= 4) {
        sw_cuda_load(v, s.at);
        return;
    }
    const float *at = s.at;
    const int64_t step = f.along ? f.depth : f.line;
    SW_UNROLL
    for (int i = 0; i < 4; i++, at += step)
        v[i] = i < inside ? *at : 0.0f;
}

/* Four along the depth lie SIDE apart. */
template <class T>
static __device__ __forceinline__ void store_slice(float *scratch_of_tiles, const share &s,
                                                   const factor &f, const float (&v)[4])
{
    if (f.along) {
        SW_UNROLL
        for (int i = 0; i < 4; i++)
            scratch_of_tiles[s.to + i * T::SIDE] = v[i];
    } else {
        sw_cuda_store<SW_CUDA_ASSIGN>(scratch_of_tiles + s.to, v);
    }
}

/* Where a block is in its part of the sum. */
struct walk {
    int position, left; /* of the summed axes; of the depth there */
};

static __device__ __forceinline__ int64_t sum_offset(const product &p, const factor &f,
                                                     int position)
{
    return p.n_sums > 0 ? offset_of(p.sum, f.sum, p.n_sums, position) : 0;
}

static __device__ __forceinline__ walk enter(const product &p, share &a, share &b, int slice,
                                             int deep)
{
    const int in = slice % p.deep * deep, position = slice / p.deep;
    a.at += sum_offset(p, p.a, position) + in * p.a.depth;
    b.at += sum_offset(p, p.b, position) + in * p.b.depth;
    return walk{position, p.k - in};
}

/* At the end of the depth on to the next position of the summed axes. */
static __device__ __forceinline__ void next(walk &w, const product &p, share &a, share &b,
                                            int deep)
{
    w.left -= deep;
    a.at += deep * p.a.depth;
    b.at += deep * p.b.depth;
    if (w.left > 0)
        return;
    const int back = p.deep * deep;
    w.position++;
    w.left = p.k;
    a.at +=
        sum_offset(p, p.a, w.position) - sum_offset(p, p.a, w.position - 1) - back * p.a.depth;
    b.at +=
        sum_offset(p, p.b, w.position) - sum_offset(p, p.b, w.position - 1) - back * p.b.depth;
}

/* Which results are a thread's: lines EACH of A by EACH of B, in fours that lie ACROSS fours
 * apart. Eight threads side by side and four below each other make a warp. */
struct corner {
    int slice, row, col;
};
template <class T> static __device__ __forceinline__ corner corner_of(void)
{
    const int t = (int)threadIdx.x % T::SLICE, lane = t % 32, warp = t / 32;
    const int warps = T::ACROSS / 8;
    return corner{(int)threadIdx.x / T::SLICE, (warp / warps * 4 + lane / 8) * 4,
                  (warp % warps * 8 + lane % 8) * 4};
}
template <class T> static __device__ __forceinline__ int line_of(int first, int i)
{
    return first + i / 4 * (4 * T::ACROSS) + i % 4;
}

/* EACH lines of a factor at one depth, from the thread's first on. */
template <class T>
static __device__ __forceinline__ void lines_at(float (&x)[T::EACH], const float *at)
{
    SW_UNROLL
    for (int q = 0; q < T::EACH; q += 4) {
        float four[4];
        sw_cuda_load(four, at + line_of<T>(0, q));
        SW_UNROLL
        for (int k = 0; k < 4; k++)
            x[q + k] = four[k];
    }
}

/* Four depths at a time: the shuffle changes between them alone. */
template <class T>
static __device__ __forceinline__ void multiply(float (&sum)[T::EACH][T::EACH], const float *a,
                                                const float *b, const corner &c)
{
    const int from = c.slice * (T::DEEP / T::SLICES);
    for (int depth = from; depth < from + T::DEEP / T::SLICES; depth += 4) {
        const float *const at_a = a + T::at(depth, c.row), *const at_b =
                                                               b + T::at(depth, c.col);
        SW_UNROLL
        for (int i = 0; i < 4; i++) {
            float x[T::EACH], y[T::EACH];
            lines_at<T>(x, at_a + i * T::SIDE);
            lines_at<T>(y, at_b + i * T::SIDE);
            SW_UNROLL
            for (int r = 0; r < T::EACH; r++) {
                SW_UNROLL
                for (int s = 0; s < T::EACH; s++)
                    sum[r][s] = fmaf(x[r], y[s], sum[r][s]);
            }
        }
    }
}

/* As the unary function's own kernel: the same formula of the same number. */
static __device__ __forceinline__ float then_of(const ending &e, float x)
{
    if (e.then == SW_CUDA_RELU)
        return relu_value{e.number}(x, 0.0f);
    if (e.then == SW_CUDA_LEAKY_RELU)
        return leaky_relu_value{e.number}(x, 0.0f);
    return x;
}

/* W results that follow each other in a row, from column `col` on. */
template <int W>
static __device__ __forceinline__ void put(float *c, const ending &e, int64_t col,
                                           const float (&sum)[W])
{
    float v[W], old[W] = {}, with[W] = {};
    if (e.bias != nullptr)
        sw_cuda_load(with, e.bias + col);
    if (e.add)
        sw_cuda_load(old, c);
    SW_UNROLL
    for (int i = 0; i < W; i++) {
        v[i] = e.bias != nullptr ? sum[i] + with[i] : sum[i];
        v[i] = then_of(e, e.add ? old[i] + v[i] : v[i]);
    }
    sw_cuda_store<SW_CUDA_ASSIGN>(c, v);
}

static __device__ __forceinline__ void put_four(const product &p, float *c, int row, int col,
                                                const float (&sum)[4])
{
    float *to = c + (int64_t)row * p.c_row + col;
    if (row >= p.m)
        return;
    if (p.wide && col + 3 < p.n) {
        put<4>(to, p.end, col, sum);
        return;
    }
    SW_UNROLL
    for (int i = 0; i < 4; i++) {
        const float one[1] = {sum[i]};
        if (col + i < p.n)
            put<1>(to + i, p.end, col + i, one);
    }
}

/* The sums of a tile, from registers to c. Those of slices of the depth meet in shared memory,
 * where each thread adds four in order. */
template <class T>
static __device__ __forceinline__ void
finish(const product &p, float *c, int row, int col, const corner &mine,
       float (&sum)[T::EACH][T::EACH], float *scratch_of_tiles)
{
    float four[4], part[4];
    SW_UNROLL
    for (int r = 0; r < T::EACH; r++) {
        SW_UNROLL
        for (int s = 0; s < T::EACH; s += 4) {
            const int down = line_of<T>(mine.row, r), across = line_of<T>(mine.col, s);
            SW_UNROLL
            for (int i = 0; i < 4; i++)
                four[i] = sum[r][s + i];
            if (T::SLICES == 1)
                put_four(p, c, row + down, col + across, four);
            else
                sw_cuda_store<SW_CUDA_ASSIGN>(
                    scratch_of_tiles + (mine.slice * T::SIDE + down) * T::SIDE + across, four);
        }
    }
    if (T::SLICES == 1)
        return;
    __syncthreads();
    const int down = (int)threadIdx.x / (T::SIDE / 4);
    const int across = (int)threadIdx.x % (T::SIDE / 4) * 4;
    sw_cuda_load(four, scratch_of_tiles + down * T::SIDE + across);
    SW_UNROLL
    for (int k = 1; k < T::SLICES; k++) {
        sw_cuda_load(part, scratch_of_tiles + (k * T::SIDE + down) * T::SIDE + across);
        SW_UNROLL
        for (int i = 0; i < 4; i++)
            four[i] += part[i];
    }
    put_four(p, c, row + down, col + across, four);
}

/* The tile of this block: bands of rows, column after column in each. */
struct spot {
    int row, col, part, result;
};
static __device__ __forceinline__ spot spot_of(const product &p)
{
    const int tiles = p.rows * p.cols, tile = (int)blockIdx.x % tiles;
    const int rest = (int)blockIdx.x / tiles, band = tile / (BAND * p.cols);
    const int first = band * BAND, in = tile - band * BAND * p.cols;
    const int high = p.rows - first < BAND ? p.rows - first : BAND;
    return spot{first + in % high, in / high, rest % p.parts, rest / p.parts};
}

template <class T>
__global__ void __launch_bounds__(SW_CUDA_THREADS, T::RESIDENT) product_kernel(product p)
{
    SW_SHARED(float4, shared, T::FACTOR);
    float *const scratch_of_tiles = reinterpret_cast<float *>(shared); /* A, B, A, B */
    const spot at = spot_of(p);
    const int row = at.row * T::SIDE, col = at.col * T::SIDE;
    const int from = at.part * p.each;
    const int end = from + p.each < p.slices ? from + p.each : p.slices;
    const corner mine = corner_of<T>();
    share a =
        share_of<T>(p.a, row, p.m, offset_of(p.result, p.a.result, p.n_results, at.result));
    share b =
        share_of<T>(p.b, col, p.n, offset_of(p.result, p.b.result, p.n_results, at.result));
    float sum[T::EACH][T::EACH] = {}, next_a[4], next_b[4];
    walk w = {};
    if (from < end) {
        w = enter(p, a, b, from, T::DEEP);
        take(next_a, a, p.a, w.left);
        take(next_b, b, p.b, w.left);
        store_slice<T>(scratch_of_tiles, a, p.a, next_a);
        store_slice<T>(scratch_of_tiles + T::FACTOR, b, p.b, next_b);
    }
    __syncthreads();
    int now = 0; /* the half of the room that is full */
    for (int rest = end - from; rest > 0; rest--) {
        const int other = 2 * T::FACTOR - now;
        if (rest > 1) {
            next(w, p, a, b, T::DEEP);
            take(next_a, a, p.a, w.left);
            take(next_b, b, p.b, w.left);
        }
        multiply<T>(sum, scratch_of_tiles + now, scratch_of_tiles + now + T::FACTOR, mine);
        if (rest > 1) {
            store_slice<T>(scratch_of_tiles + other, a, p.a, next_a);
            store_slice<T>(scratch_of_tiles + other + T::FACTOR, b, p.b, next_b);
        }
        now = other;
        __syncthreads();
    }
    const int64_t result = (int64_t)at.part * p.results + at.result;
    finish<T>(p, p.c + result * p.m * p.n, row, col, mine, sum, scratch_of_tiles);
}

/* c = the sums of the parts, which lie n_all apart. */
template <int W>
__global__ void parts_kernel(float *c, const float *parts, ending end, int n_parts,
                             int64_t n_all, sw_cuda_long_divisor n, int64_t c_row)
{
    for (int64_t i = sw_cuda_thread() * W; i < n_all; i += sw_cuda_threads() * W) {
        float sum[W], part[W];
        sw_cuda_load(sum, parts + i);
        for (int k = 1; k < n_parts; k++) {
            sw_cuda_load(part, parts + k * n_all + i);
            SW_UNROLL
            for (int j = 0; j < W; j++)
                sum[j] += part[j];
        }
        int64_t col = i;
        const int64_t row = sw_cuda_split(n, &col);
        put<W>(c + row * c_row + col, end, col, sum);
    }
}

/* ---- axes -------------------------------------------------------------------------------- */

/* Take together axes that follow each other in both factors. */
static int join(int n, int64_t *dim, int64_t *a, int64_t *b)
{
    int to = 0;
    for (int i = 0; i < n; i++) {
        if (dim[i] == 1)
            continue;
        const bool joins = to > 0 && a[to - 1] == a[i] * dim[i] && b[to - 1] == b[i] * dim[i];
        to -= joins;
        dim[to] = (joins ? dim[to] : 1) * dim[i];
        a[to] = a[i];
        b[to] = b[i];
        to++;
    }
    return to;
}

/* With as few axes as say the same: results of one B below each other are more rows of A, and
 * sums along which k goes on are a longer k. */
static sw_cuda_product joined(const sw_cuda_product *g)
{
    sw_cuda_product to = *g;
    sw_products *p = &to.p;
    p->n_results = join(p->n_results, p->result, p->result_a, p->result_b);
    p->n_sums = join(p->n_sums, p->sum, p->sum_a, p->sum_b);
    int i = p->n_results - 1;
    if (i >= 0 && p->result_b[i] == 0 && (p->m == 1 || p->result_a[i] == p->m * p->a_row)) {
        p->a_row = p->m == 1 ? p->result_a[i] : p->a_row;
        p->m *= p->result[i];
        p->n_results--;
    }
    i = p->n_sums - 1;
    if (i >= 0 && p->sum_a[i] == p->k * p->a_col && p->sum_b[i] == p->k * p->b_row) {
        p->k *= p->sum[i];
        p->n_sums--;
    }
    return to;
}

static int64_t times(const int64_t *dim, int n)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++)
        all *= dim[i];
    return all;
}

static int64_t elements_of(const sw_products *p)
{
    return times(p->result, p->n_results) * p->m * p->n;
}

/* ---- plans ------------------------------------------------------------------------------- */

struct plan {
    int side, deep, parts;
    int64_t rows, cols;
};

/* The largest tile of which there are enough, with long sums cut into parts where that helps,
 * and at least half of which is used. */
static plan plan_of(const sw_products *p)
{
    const int64_t results = times(p->result, p->n_results);
    const int64_t worth = times(p->sum, p->n_sums) * p->k / SW_CUDA_PART_DEPTH;
    const int64_t most = worth < 1 ? 1 : worth > MOST_PARTS ? MOST_PARTS : worth;
    plan best = {};
    for (int side = large_tile::SIDE; side >= small_tile::SIDE; side /= 2) {
        const int64_t rows = (p->m + side - 1) / side, cols = (p->n + side - 1) / side;
        const int64_t tiles = results * rows * cols;
        const int64_t wanted = (SW_CUDA_MANY_TILES + tiles - 1) / tiles;
        best = plan{side, 4 * SW_CUDA_THREADS / side, (int)(wanted < most ? wanted : most),
                    rows, cols};
        if (tiles * most >= SW_CUDA_MANY_TILES && p->m > side / 2 && p->n > side / 2)
            break;
    }
    return best;
}

static size_t parts_bytes(const sw_cuda_product *g)
{
    const size_t all = (size_t)elements_of(&g->p);
    const size_t parts = all > 0 ? (size_t)plan_of(&g->p).parts : 0;
    return parts > 1 ? parts * all * sizeof(float) : 0;
}

static const sw_cuda_blas *blas_of(const sw_cuda_queue *queue)
{
    return static_cast<const sw_cuda_blas *>(queue->blas);
}

/* Of the library; SIZE_MAX where it takes no such product, or there is none. */
static size_t their_bytes(const sw_cuda_product *one, const sw_cuda_queue *queue)
{
    return blas_of(queue) != nullptr ? blas_of(queue)->bytes(queue, one) : SIZE_MAX;
}

bool sw_cuda_product_is_own(const sw_cuda_product *g, const sw_cuda_queue *queue)
{
    const sw_cuda_product one = joined(g);
    return their_bytes(&one, queue) == SIZE_MAX;
}

size_t sw_cuda_product_bytes(const sw_cuda_product *g, const sw_cuda_queue *queue)
{
    const sw_cuda_product one = joined(g);
    const size_t apart = parts_bytes(g), together = parts_bytes(&one);
    const size_t theirs = their_bytes(&one, queue);
    return theirs != SIZE_MAX || g->halves ? theirs : apart > together ? apart : together;
}

static int64_t slices_of(const sw_products *p, const plan &how)
{
    return times(p->sum, p->n_sums) * ((p->k + how.deep - 1) / how.deep);
}
static int64_t blocks_of(const sw_products *p, const plan &how)
{
    return times(p->result, p->n_results) * how.rows * how.cols * how.parts;
}

/* Sizes that kernels count in 32 bits; less is left for what is added to them. */
static sw_status check(const char *op, const sw_products *p, const plan &how)
{
    const int64_t most = INT32_MAX - 1024;
    if (p->m <= most && p->n <= most && p->k <= most && slices_of(p, how) <= most &&
        blocks_of(p, how) <= most)
        return SW_OK;
    return sw_cuda_its_host.fail(
        SW_UNSUPPORTED, __FILE__, __LINE__,
        "%s: %lld products of (%lld, %lld) by (%lld, %lld): sizes, and the %lld blocks of a "
        "launch, are at most %lld",
        op, (long long)times(p->result, p->n_results), (long long)p->m, (long long)p->k,
        (long long)p->k, (long long)p->n, (long long)blocks_of(p, how), (long long)most);
}

/* ---- launches ---------------------------------------------------------------------------- */

static bool all_in_fours(int n, const int64_t *dim, const int64_t *step)
{
    for (int i = 0; i < n; i++)
        if (dim[i] > 1 && step[i] % 4 != 0)
            return false;
    return true;
}

/* How a factor is read: along what has step 1, by fours where all of them begin at good
 * addresses. */
static factor factor_of(const sw_products *p, const float *at, int64_t line, int64_t depth,
                        const int64_t *result, const int64_t *sum)
{
    factor f = {};
    f.p = at;
    f.line = line;
    f.depth = depth;
    for (int i = 0; i < p->n_results; i++)
        f.result[i] = result[i];
    for (int i = 0; i < p->n_sums; i++)
        f.sum[i] = sum[i];
    f.along = depth == 1 || (line != 1 && depth < line);
    f.wide = (f.along ? depth : line) == 1 && (f.along ? line : depth) % 4 == 0 &&
             sw_cuda_aligned(at) && all_in_fours(p->n_results, p->result, result) &&
             all_in_fours(p->n_sums, p->sum, sum);
    return f;
}

static product product_of(const sw_cuda_product *g, const plan &how)
{
    const sw_products *s = &g->p;
    product p = {};
    p.a = factor_of(s, s->a, s->a_row, s->a_col, s->result_a, s->sum_a);
    p.b = factor_of(s, s->b, s->b_col, s->b_row, s->result_b, s->sum_b);
    p.m = (int)s->m, p.n = p.c_row = (int)s->n, p.k = (int)s->k;
    p.n_results = s->n_results, p.n_sums = s->n_sums;
    for (int i = 0; i < SW_AXES_MAX; i++)
        p.result[i] = (int)s->result[i], p.sum[i] = (int)s->sum[i];
    p.results = (int)times(s->result, s->n_results);
    p.deep = (p.k + how.deep - 1) / how.deep;
    p.slices = (int)slices_of(s, how);
    p.parts = how.parts;
    p.each = (p.slices + how.parts - 1) / how.parts;
    p.rows = (int)how.rows, p.cols = (int)how.cols;
    return p;
}

static sw_status launch_tiles(const char *op, const product &p, const plan &how,
                              const sw_cuda_queue *queue)
{
    const unsigned blocks = (unsigned)(p.results * p.rows * p.cols * p.parts);
    const auto kernel = how.side == large_tile::SIDE    ? product_kernel<large_tile>
                        : how.side == medium_tile::SIDE ? product_kernel<medium_tile>
                                                        : product_kernel<small_tile>;
    SW_CUDA_LAUNCH(kernel, blocks, SW_CUDA_THREADS, 0, queue, p);
    return sw_cuda_launched(op);
}

/* By own kernels. A product planned for a library, and strides that a plan did not know, may
 * need more parts than the plan left room for. */
static sw_status run_tiles(const char *op, const sw_cuda_product *g, void *scratch,
                           size_t bytes, const sw_cuda_queue *queue)
{
    const int64_t all = elements_of(&g->p);
    const size_t scratch_of_tiles = bytes / ((size_t)all * sizeof(float));
    const int64_t c_row = g->c_row > 0 ? g->c_row : g->p.n;
    const bool wide = c_row % 4 == 0 && sw_cuda_aligned(g->p.c) && sw_cuda_aligned(g->bias);
    const ending end = {g->bias, g->p.accumulate, (int)g->then, g->number};
    plan how = plan_of(&g->p);
    how.parts = (size_t)how.parts <= scratch_of_tiles ? how.parts
                : scratch_of_tiles < 2                ? 1
                                                      : (int)scratch_of_tiles;
    SW_TRY(check(op, &g->p, how));
    product p = product_of(g, how);
    if (how.parts == 1) {
        p.c = g->p.c;
        p.c_row = (int)c_row;
        p.end = end;
        p.wide = wide;
        return launch_tiles(op, p, how, queue);
    }
    p.c = static_cast<float *>(scratch);
    p.wide = g->p.n % 4 == 0;
    SW_TRY(launch_tiles(op, p, how, queue));
    const bool fours = wide && p.wide;
    const auto kernel = fours ? parts_kernel<4> : parts_kernel<1>;
    SW_CUDA_LAUNCH_FOR(kernel, all, fours ? 4 * SW_CUDA_THREADS : SW_CUDA_THREADS, queue,
                       g->p.c, p.c, end, how.parts, all, sw_cuda_long_divisor_of(g->p.n),
                       c_row);
    return sw_cuda_launched(op);
}

sw_status sw_cuda_product_run(const char *op, const sw_cuda_product *g, void *scratch,
                              size_t bytes, const sw_cuda_queue *queue)
{
    const sw_cuda_product one = joined(g);
    if (elements_of(&one.p) == 0)
        return SW_OK;
    if (blas_of(queue) != nullptr && one.then == SW_CUDA_AS_IT_IS) {
        const sw_status status = blas_of(queue)->run(queue, &one, scratch, bytes);
        if (status != SW_UNSUPPORTED)
            return status;
    }
    if (g->halves)
        return sw_cuda_its_host.fail(
            SW_UNSUPPORTED, __FILE__, __LINE__,
            "%s: cuBLASLt has no product of bf16 with strides (%lld, %lld) by (%lld, %lld)", op,
            (long long)one.p.a_row, (long long)one.p.a_col, (long long)one.p.b_row,
            (long long)one.p.b_col);
    return run_tiles(op, &one, scratch, bytes, queue);
}
