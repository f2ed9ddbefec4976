/* Attention: y = softmax(scale q k^T) v for each head, and its gradients, in tiles of 64 by 64.
 *
 * A block has 64 rows of one head and goes over the other side in tiles, from the first to the
 * last: forward and for dq its rows are queries, for dk and dv they are keys, so each result
 * has one block that sums it, in one order. Backward makes the probabilities again from lse,
 * for dq and for dk and dv each, with the row sums d = sum(dy y) in scratch.
 *
 *   forward  x = q k^T                                        y  = softmax(x) v
 *   dq       x = p (dy v^T - d) scale, p = e^(q k^T - lse)    dq = x k
 *   dk, dv   the same by columns                              dk = x^T q,  dv = p^T dy
 *
 * Heads of any size: factors go through shared memory 64 columns at a time, and results wider
 * than that have a block for each 64 columns, which makes x again.
 *
 * Kernels with FROM read first and past. Forward, the rows of a block that begin at one key go
 * over their keys together, in tiles that are counted from it, and the others wait: so a
 * document has the bits that it has alone. Backward kernels WITH shared heads, first or past
 * mask what a row does not see, and a block of dk and dv goes over the heads of q that share
 * its head in their order. */
#include "kernels/attention.h"
#include "kernels/attention_launch.h"
#include "kernels/cuda/reduce.h"
#include "kernels/scalar.h"

#define SIDE 64     /* rows, columns and depth of a tile */
#define THREADS 128 /* each has 8 rows by 4 columns of x and of a result */
#define ROWS 8
#define COLS 4
#define LANES (SIDE / COLS) /* threads of a row */
#define QUADS (SIDE / 4)    /* of four floats in a row of a tile */

/* Rows of one head. */
struct side {
    const float *p;
    int64_t row, col, rows, cols;
};
static __device__ __forceinline__ side side_of(const sw_heads &h, int64_t image, int64_t head,
                                               int64_t rows, int64_t cols)
{
    return side{h.p + image * h.batch + head * cols * h.col, h.row, h.col, rows, cols};
}

/* ---- tiles in shared memory -------------------------------------------------------------- */

/* Places of quads of four floats. In tiles whose rows belong to rows of the result, two threads
 * of a warp read rows that are eight apart; in the others sixteen of them read one quad of
 * sixteen rows. Quads change places with the row, so that neither meet in a bank. */
static __device__ __forceinline__ int left_at(int row, int quad)
{
    return row * QUADS + (quad ^ (row >> 1 & 4));
}
static __device__ __forceinline__ int right_at(int row, int quad)
{
    return row * QUADS + (quad ^ ((row ^ (row >> 1 & 4)) & 7));
}

/* Rows from `row` on, columns from `col` on, zeros outside; a thread has one quad of each
 * eighth row. */
template <bool WIDE, bool LEFT>
static __device__ __forceinline__ void fetch(float4 *tile, const side &s, int64_t row,
                                             int64_t col)
{
    const int quad = (int)threadIdx.x % QUADS, first = (int)threadIdx.x / QUADS;
    const float *from = s.p + (row + first) * s.row + (col + 4 * quad) * (WIDE ? 1 : s.col);
    const int64_t left = s.cols - (col + 4 * quad);
    const int rows = s.rows - row < SIDE ? (int)(s.rows - row) : SIDE;
    SW_UNROLL_BY(4)
    for (int r = first; r < SIDE; r += THREADS / QUADS, from += THREADS / QUADS * s.row) {
        float v[4] = {};
        if (WIDE && r < rows && left > 0)
            sw_cuda_load(v, from);
        for (int k = 0; k < 4; k++)
            if (!WIDE && r < rows && k < left)
                v[k] = from[k * s.col];
        tile[LEFT ? left_at(r, quad) : right_at(r, quad)] = make_float4(v[0], v[1], v[2], v[3]);
    }
}

/* ---- products ---------------------------------------------------------------------------- */

/* The rows and columns of this thread in a tile: 8 neighbours, and each sixteenth. */
static __device__ __forceinline__ int row_of(int i)
{
    return (int)threadIdx.x / LANES * ROWS + i;
}
static __device__ __forceinline__ int col_of(int j)
{
    return (int)threadIdx.x % LANES + j * LANES;
}

static __device__ __forceinline__ float add_four(float sum, const float4 &a, const float4 &b)
{
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

/* x += A B^T over some quads of the depth. */
static __device__ __forceinline__ void add_depth(float (&x)[ROWS][COLS], const float4 *a,
                                                 const float4 *b, int quads)
{
    SW_UNROLL_BY(1)
    for (int quad = 0; quad < quads; quad++) {
        float4 right[COLS];
        for (int j = 0; j < COLS; j++)
            right[j] = b[right_at(col_of(j), quad)];
        for (int i = 0; i < ROWS; i++) {
            const float4 left = a[left_at(row_of(i), quad)];
            for (int j = 0; j < COLS; j++)
                x[i][j] = add_four(x[i][j], left, right[j]);
        }
    }
}

/* Of a tile's quads those that hold some of what is left; none for a thread whose rows of the
 * result are none of its `rows` from r0 on. */
static __device__ __forceinline__ int quads_of(int64_t left, int64_t r0, int64_t rows)
{
    return r0 + row_of(0) >= rows ? 0 : left < SIDE ? (int)(left + 3) / 4 : QUADS;
}

/* x = A B^T, rows from a0 and b0 on. `keep`: A is in its tile. */
template <bool WIDE>
static __device__ __forceinline__ void multiply(float (&x)[ROWS][COLS], float4 *a_tile,
                                                float4 *b_tile, const side &a, int64_t a0,
                                                bool keep, const side &b, int64_t b0)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++)
            x[i][j] = 0.0f;
    for (int64_t from = 0; from < a.cols; from += SIDE) {
        __syncthreads();
        if (!keep)
            fetch<WIDE, true>(a_tile, a, a0, from);
        fetch<WIDE, false>(b_tile, b, b0, from);
        __syncthreads();
        add_depth(x, a_tile, b_tile, quads_of(a.cols - from, a0, a.rows));
    }
}

/* Of a tile, in floats: what this thread has of x. */
static __device__ __forceinline__ int own_at(int i, int j)
{
    return left_at(row_of(i), col_of(j) / 4) * 4 + col_of(j) % 4;
}
static __device__ __forceinline__ void put_tile(float4 *tile, const float (&x)[ROWS][COLS])
{
    float *to = reinterpret_cast<float *>(tile);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++)
            to[own_at(i, j)] = x[i][j];
}

/* out += X Z, rows of Z from 0 to 4 `quads`; of the columns this thread has four neighbours. */
static __device__ __forceinline__ void add_rows(float (&out)[ROWS][COLS], const float4 *x,
                                                const float4 *z, int quads)
{
    SW_UNROLL_BY(1)
    for (int quad = 0; quad < quads; quad++) {
        float4 row[4];
        for (int k = 0; k < 4; k++)
            row[k] = z[right_at(4 * quad + k, (int)threadIdx.x % LANES)];
        for (int i = 0; i < ROWS; i++) {
            const float4 v = x[left_at(row_of(i), quad)];
            const float by[4] = {v.x, v.y, v.z, v.w};
            for (int k = 0; k < 4; k++) {
                out[i][0] = fmaf(by[k], row[k].x, out[i][0]);
                out[i][1] = fmaf(by[k], row[k].y, out[i][1]);
                out[i][2] = fmaf(by[k], row[k].z, out[i][2]);
                out[i][3] = fmaf(by[k], row[k].w, out[i][3]);
            }
        }
    }
}

/* out += x Z, Z the rows from `row` and the columns from `col` of a side. `there`: it is in its
 * tile as it was fetched for the product before, and no one reads that of x any more.
 * The result's rows are those from r0 on. */
template <bool WIDE>
static __device__ __forceinline__ void
add_product(float (&out)[ROWS][COLS], const float (&x)[ROWS][COLS], float4 *x_tile,
            float4 *z_tile, const side &z, int64_t row, int64_t col, bool there, int64_t r0,
            int64_t rows)
{
    if (!there) {
        __syncthreads();
        fetch<WIDE, false>(z_tile, z, row, col);
    }
    put_tile(x_tile, x);
    __syncthreads();
    add_rows(out, x_tile, z_tile, quads_of(z.rows - row, r0, rows));
}

/* ---- from scores to probabilities -------------------------------------------------------- */

template <class OP> static __device__ __forceinline__ float over_lanes(float v)
{
    for (int by = LANES / 2; by > 0; by /= 2)
        v = OP::of(v, __shfl_xor_sync(0xffffffffu, v, by));
    return v;
}

/* The keys that queries of an image see: first and past, where they are there, as numbers that
 * can be. */
struct sights {
    const sw_attention_shape &s;
    const int32_t *first; /* NULL: 0 */
    int past;
    __device__ int64_t last(int64_t query) const
    {
        return s.causal && past + query < s.keys ? past + query : s.keys - 1;
    }
    __device__ int64_t from(int64_t query) const
    {
        int64_t at = first != nullptr && query < s.queries ? first[query] : 0;
        at = at < last(query) ? at : last(query);
        return at < 0 ? 0 : at;
    }
    /* Does a query of the tile from `query` on see a key of that from `key` on? */
    __device__ bool meet(int64_t query, int64_t key) const
    {
        for (int i = 0; i < SIDE && query < s.queries; i++, query++)
            if (last(query) >= key && from(query) < key + SIDE)
                return true;
        return false;
    }
};
static __device__ __forceinline__ sights sights_of(const sw_attention_shape &s, int64_t image)
{
    int past = 0;
    if (s.past_at != nullptr) {
        const int64_t most = s.keys - s.queries;
        past = *s.past_at < 0 ? 0 : *s.past_at < most ? *s.past_at : (int)most;
    }
    return sights{s, s.first != nullptr ? s.first + image * s.queries : nullptr, past};
}

/* Which queries and keys of a tile meet: with BY_KEYS its rows are keys, seen by the queries of
 * its columns. Rows past the end meet something too: no one reads it. */
template <bool BY_KEYS, bool FROM> struct meeting {
    int shift, end; /* of the columns; of rows against columns, past all where not causal */
    int low[!FROM ? 1 : BY_KEYS ? COLS : ROWS]; /* the first key of each query */
    __device__ bool has(int i, int j) const
    {
        const int r = row_of(i), c = col_of(j);
        return c < end && (BY_KEYS ? c >= r + shift : c <= r + shift) &&
               (!FROM || (BY_KEYS ? r >= low[j] : c >= low[i]));
    }
};
/* The tile's first row and column. */
template <bool BY_KEYS, bool FROM>
static __device__ __forceinline__ meeting<BY_KEYS, FROM>
meeting_of(const sw_attention_shape &s, const sights &see, int64_t r0, int64_t c0)
{
    const int64_t left = (BY_KEYS ? s.queries : s.keys) - c0, past = BY_KEYS ? -SIDE : SIDE;
    const int64_t on = !FROM ? 0 : BY_KEYS ? -see.past : see.past;
    const int64_t by = s.causal ? r0 - c0 + on : past;
    meeting<BY_KEYS, FROM> m;
    m.shift = (int)((BY_KEYS ? by < past : by > past) ? past : by);
    m.end = left < SIDE ? (int)left : SIDE;
    for (int i = 0; FROM && i < (BY_KEYS ? COLS : ROWS); i++) {
        const int64_t query = BY_KEYS ? c0 + col_of(i) : r0 + row_of(i);
        const int64_t key = see.from(query) - (BY_KEYS ? r0 : c0);
        m.low[i] = (int)(key < 0 ? 0 : key < SIDE ? key : SIDE);
    }
    return m;
}

/* Scores become exponentials, with the running maximum of each row and this thread's share of
 * its sum; what was summed before is brought to the new maximum. */
template <bool FROM>
static __device__ __forceinline__ void
soften(float (&x)[ROWS][COLS], float (&out)[ROWS][COLS], float (&most)[ROWS],
       float (&total)[ROWS], const sw_attention_shape &s, const meeting<false, FROM> &seen)
{
    SW_UNROLL
    for (int i = 0; i < ROWS; i++) {
        float here = -INFINITY;
        for (int j = 0; j < COLS; j++) {
            x[i][j] *= s.scale;
            if (seen.has(i, j))
                here = sw_cuda_largest::of(here, x[i][j]);
        }
        const float now = sw_cuda_largest::of(most[i], over_lanes<sw_cuda_largest>(here));
        const float shrink = FROM && now == -INFINITY ? 1.0f : sw_expf(most[i] - now);
        most[i] = now;
        total[i] *= shrink;
        for (int j = 0; j < COLS; j++) {
            out[i][j] *= shrink;
            x[i][j] = seen.has(i, j) ? sw_expf(x[i][j] - now) : 0.0f;
            total[i] += x[i][j];
        }
    }
}

/* A number of each query of the tile: of this thread's columns, or of its rows. */
template <bool BY_KEYS>
static __device__ __forceinline__ void of_queries(float (&v)[BY_KEYS ? COLS : ROWS],
                                                  const float *p, int64_t queries, int64_t r0,
                                                  int64_t c0)
{
    for (int i = 0; i < (BY_KEYS ? COLS : ROWS); i++) {
        const int64_t query = BY_KEYS ? c0 + col_of(i) : r0 + row_of(i);
        v[i] = query < queries ? p[query] : 0.0f;
    }
}

/* Scores become probabilities. */
template <bool BY_KEYS, bool FROM>
static __device__ __forceinline__ void revive(float (&x)[ROWS][COLS], const float *lse,
                                              const sw_attention_shape &s, const sights &see,
                                              int64_t r0, int64_t c0)
{
    float less[BY_KEYS ? COLS : ROWS];
    of_queries<BY_KEYS>(less, lse, s.queries, r0, c0);
    const meeting<BY_KEYS, FROM> seen = meeting_of<BY_KEYS, FROM>(s, see, r0, c0);
    SW_UNROLL
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLS; j++)
            x[i][j] =
                seen.has(i, j) ? sw_expf(x[i][j] * s.scale - less[BY_KEYS ? j : i]) : 0.0f;
    }
}

/* p (dp - d) scale; one of p and dp is in x, the other, with SWAPPED p, in the tile. With FROM
 * a key that no query sees may be no number. */
template <bool BY_KEYS, bool SWAPPED, bool FROM>
static __device__ __forceinline__ void slope(float (&x)[ROWS][COLS], const float4 *tile,
                                             const float *d, const sw_attention_shape &s,
                                             int64_t r0, int64_t c0)
{
    const float *from = reinterpret_cast<const float *>(tile);
    float less[BY_KEYS ? COLS : ROWS];
    of_queries<BY_KEYS>(less, d, s.queries, r0, c0);
    SW_UNROLL
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            const float other = from[own_at(i, j)];
            const float p = SWAPPED ? other : x[i][j], dp = SWAPPED ? x[i][j] : other;
            x[i][j] = FROM && p == 0.0f ? 0.0f : p * (dp - less[BY_KEYS ? j : i]) * s.scale;
        }
}

enum kind { FORWARD, DQ, DK, DV, DKDV };

struct attention_job {
    sw_attention_grads g;
    float *y, *lse_out; /* forward; NULL: no one keeps it */
    const float *d;     /* (batch, heads, queries) */
    float *d_out;       /* the kernel of dq makes it; NULL: it is there */
    int64_t slices;     /* of the columns of the result */
    sw_heads_out moved; /* where dq in scratch goes when no block reads q; p NULL: nowhere */
    uint32_t *tickets;  /* of heads of k and v, for it */
};

/* ---- the kernel -------------------------------------------------------------------------- */

/* Columns from `first` on of rows from r0 on. */
template <bool WIDE>
static __device__ __forceinline__ void give(float *p, int64_t row, bool add, int64_t r0,
                                            int64_t rows, int64_t first, int64_t cols,
                                            const float (&out)[ROWS][COLS])
{
    const int64_t c = first + (int64_t)threadIdx.x % LANES * 4;
    for (int i = 0; i < ROWS; i++) {
        float *to = p + (r0 + row_of(i)) * row + c;
        float v[4] = {out[i][0], out[i][1], out[i][2], out[i][3]}, old[4] = {};
        if (r0 + row_of(i) >= rows)
            break;
        if (WIDE && c < cols) {
            if (add)
                sw_cuda_load(old, to);
            for (int k = 0; k < 4; k++)
                v[k] = add ? old[k] + v[k] : v[k];
            sw_cuda_store(to, v);
        }
        for (int k = 0; k < 4; k++)
            if (!WIDE && c + k < cols)
                to[k] = add ? to[k] + v[k] : v[k];
    }
}

/* Which rows of which head a block has; heads go round fastest, and the rows with the most work
 * come first. */
struct position {
    int64_t row;
    int image, head, slice;
};
static __device__ __forceinline__ position position_of(const sw_attention_shape &s,
                                                       int64_t heads, int64_t slices,
                                                       int64_t rows, bool last_first)
{
    const int64_t each = s.batch * heads * slices, blocks = (rows + SIDE - 1) / SIDE;
    const int64_t at = blockIdx.x % each, block = blockIdx.x / each;
    return position{(last_first ? blocks - 1 - block : block) * SIDE,
                    (int)(at / slices / heads), (int)(at / slices % heads), (int)(at % slices)};
}

template <bool WIDE, bool FROM>
__global__ void __launch_bounds__(THREADS, WIDE ? 3 : 2) forward_kernel(attention_job a)
{
    SW_SHARED(float4, left, SIDE * QUADS);
    SW_SHARED(float4, right, SIDE * QUADS);
    SW_SHARED(float4, middle, SIDE * QUADS);
    const sw_attention_shape &s = a.g.s;
    const position at = position_of(s, s.heads, a.slices, s.queries, s.causal);
    const int64_t kv = at.head / (s.heads / s.heads_kv);
    const side q = side_of(a.g.q, at.image, at.head, s.queries, s.size);
    side k = side_of(a.g.k, at.image, kv, s.keys, s.size);
    side v = side_of(a.g.v, at.image, kv, s.keys, s.value_size);
    const int64_t rows = at.row + SIDE < s.queries ? at.row + SIDE : s.queries;
    const sights see = sights_of(s, at.image);
    float out[ROWS][COLS] = {}, x[ROWS][COLS], most[ROWS], total[ROWS];
    bool kept = false;
    for (int i = 0; i < ROWS; i++) {
        most[i] = -INFINITY;
        total[i] = 0.0f;
    }
    for (int64_t row = at.row, next; row < rows; row = next) {
        const int64_t first = FROM ? see.from(row) : 0;
        for (next = FROM ? row + 1 : rows; next < rows && see.from(next) == first;)
            next++;
        const int64_t end = FROM                                 ? see.last(next - 1) + 1
                            : s.causal && at.row + SIDE < s.keys ? at.row + SIDE
                                                                 : s.keys;
        if (FROM)
            k.rows = v.rows = end; /* what follows may be no numbers */
        for (int64_t c = first; c < end; c += SIDE) {
            multiply<WIDE>(x, left, right, q, at.row, kept && s.size <= SIDE, k, c);
            meeting<false, FROM> seen = meeting_of<false, FROM>(s, see, at.row, c);
            for (int i = 0; FROM && i < ROWS; i++) {
                const int64_t r = at.row + row_of(i);
                seen.low[i] = r >= row && r < next ? 0 : SIDE;
            }
            soften(x, out, most, total, s, seen);
            add_product<WIDE>(out, x, middle, right, v, c, at.slice * SIDE, false, at.row,
                              s.queries);
            kept = true;
        }
    }
    for (int i = 0; i < ROWS; i++) {
        total[i] = over_lanes<sw_cuda_plus>(total[i]);
        const float inverse = 1.0f / total[i];
        for (int j = 0; j < COLS; j++)
            out[i][j] *= inverse;
    }
    const int64_t width = s.heads * s.value_size, head = at.image * s.heads + at.head;
    give<WIDE>(a.y + at.image * s.queries * width + at.head * s.value_size, width, false,
               at.row, s.queries, at.slice * SIDE, s.value_size, out);
    for (int i = 0; i < ROWS; i++)
        if (a.lse_out != nullptr && at.slice == 0 && threadIdx.x % LANES == 0 &&
            at.row + row_of(i) < s.queries)
            a.lse_out[head * s.queries + at.row + row_of(i)] = sw_row_lse(most[i], total[i]);
}

/* d of a query of a head, by a warp, from its values of y and dy. */
static __device__ __forceinline__ void row_sum(float *d, const float *y, const float *dy,
                                               int64_t size)
{
    float sum = 0.0f;
    for (int64_t c = threadIdx.x % 32; c < size; c += 32)
        sum += y[c] * dy[c];
    sum = sw_cuda_warp_reduce<sw_cuda_plus>(sum);
    if (threadIdx.x % 32 == 0)
        *d = sum;
}

/* The gradients of these columns of q, to where they belong. */
template <bool WIDE>
static __device__ __forceinline__ void move_heads(const attention_job &a, int64_t image,
                                                  int64_t first, int64_t cols)
{
    constexpr int W = WIDE ? 4 : 1;
    const float *from = a.g.dq.p + image * a.g.dq.batch + first;
    float *to = a.moved.p + image * a.moved.batch + first;
    for (int64_t r = threadIdx.x / LANES; r < a.g.s.queries; r += THREADS / LANES)
        for (int64_t c = threadIdx.x % LANES * W; c < cols; c += LANES * W) {
            float v[W];
            sw_cuda_load(v, from + r * a.g.dq.row + c);
            sw_cuda_store(to + r * a.moved.row + c, v);
        }
}

/* KIND DQ, DK, DV or DKDV. */
template <int KIND, bool WIDE, bool WITH>
__global__ void __launch_bounds__(THREADS, WIDE && !WITH ? 3 : 2)
    backward_kernel(attention_job a)
{
    SW_SHARED(float4, left, SIDE * QUADS);
    SW_SHARED(float4, right, SIDE * QUADS);
    SW_SHARED(float4, middle, SIDE * QUADS);
    constexpr bool by_keys = KIND != DQ;
    const sw_attention_shape &s = a.g.s;
    const int64_t rows = by_keys ? s.keys : s.queries;
    const int group = WITH ? (int)(s.heads / s.heads_kv) : 1;
    const position at =
        position_of(s, by_keys ? s.heads_kv : s.heads, a.slices, rows, !by_keys && s.causal);
    const int64_t kv = by_keys ? at.head : at.head / group;
    const int64_t width = s.heads * s.value_size;
    const sw_heads dy_heads = {a.g.dy, s.queries * width, width, 1};
    side k = side_of(a.g.k, at.image, kv, s.keys, s.size);
    side v = side_of(a.g.v, at.image, kv, s.keys, s.value_size);
    const bool one = s.size <= SIDE;
    const sights see = sights_of(s, at.image);
    int64_t from = by_keys && s.causal ? at.row : 0;
    int64_t end = by_keys                              ? s.queries
                  : s.causal && at.row + SIDE < s.keys ? at.row + SIDE
                                                       : s.keys;
    if (WITH && by_keys && s.causal)
        from = at.row > see.past ? (at.row - see.past) / SIDE * SIDE : 0;
    if (WITH && !by_keys)
        k.rows = v.rows = end = see.last((at.row + SIDE < rows ? at.row + SIDE : rows) - 1) + 1;
    float out[ROWS][COLS] = {}, dv[ROWS][COLS] = {}, x[ROWS][COLS];
    bool kept = false;
    if (KIND == DQ && a.d_out != nullptr) {
        const int64_t from_y = at.image * s.queries * width + at.head * s.value_size;
        float *const d = a.d_out + (at.image * s.heads + at.head) * s.queries;
        for (int64_t r = at.row + threadIdx.x / 32; r < rows && r < at.row + SIDE;
             r += THREADS / 32)
            row_sum(d + r, a.g.y + from_y + r * width, a.g.dy + from_y + r * width,
                    s.value_size);
        __syncthreads();
    }
    for (int i = 0; i < (by_keys ? group : 1); i++) {
        const int h = by_keys ? at.head * group + i : at.head;
        const int64_t queries = (at.image * s.heads + h) * s.queries; /* of heads before */
        const side q = side_of(a.g.q, at.image, h, s.queries, s.size);
        const side dy = side_of(dy_heads, at.image, h, s.queries, s.value_size);
        for (int64_t c = from; c < end; c += SIDE) {
            if (WITH && !see.meet(by_keys ? c : at.row, by_keys ? at.row : c))
                continue;
            if (KIND == DQ || KIND == DK) {
                multiply<WIDE>(x, left, right, by_keys ? v : dy, at.row, false,
                               by_keys ? dy : v, c);
                put_tile(middle, x);
            }
            multiply<WIDE>(x, left, right, by_keys ? k : q, at.row, KIND == DV && kept && one,
                           by_keys ? q : k, c);
            revive<by_keys, WITH>(x, a.g.lse + queries, s, see, at.row, c);
            if (KIND == DKDV) {
                put_tile(middle, x);
                multiply<WIDE>(x, left, right, v, at.row, false, dy, c);
                add_rows(dv, middle, right, quads_of(dy.rows - c, at.row, rows));
            }
            if (KIND != DV)
                slope<by_keys, KIND == DKDV, WITH>(x, middle, a.d + queries, s, at.row, c);
            if (KIND == DV)
                add_product<WIDE>(out, x, middle, right, dy, c, at.slice * SIDE, false, at.row,
                                  rows);
            else
                add_product<WIDE>(out, x, middle, right, by_keys ? q : k, c, at.slice * SIDE,
                                  KIND != DKDV && one, at.row, rows);
            kept = true;
        }
    }
    const sw_heads_out &to = KIND == DQ ? a.g.dq : KIND == DV ? a.g.dv : a.g.dk;
    const int64_t size = KIND == DV ? s.value_size : s.size;
    give<WIDE>(to.p + at.image * to.batch + at.head * size, to.row, to.accumulate, at.row, rows,
               at.slice * SIDE, size, out);
    if (KIND == DKDV)
        give<WIDE>(a.g.dv.p + at.image * a.g.dv.batch + at.head * s.value_size, a.g.dv.row,
                   a.g.dv.accumulate, at.row, rows, 0, s.value_size, dv);
    if (KIND == DKDV && a.moved.p != nullptr &&
        sw_cuda_is_last_by(a.tickets + at.image * s.heads_kv + at.head,
                           (unsigned)((rows + SIDE - 1) / SIDE),
                           reinterpret_cast<uint32_t *>(left)))
        move_heads<WIDE>(a, at.image, at.head * group * s.size, group * s.size);
}

/* d: a warp for each query of each head. y and dy have a head's values side by side. */
__global__ void row_sums_kernel(float *d, const float *y, const float *dy, sw_attention_shape s)
{
    const int64_t n = s.batch * s.queries * s.heads;
    for (int64_t t = sw_cuda_thread() / 32; t < n; t += sw_cuda_threads() / 32) {
        const int64_t head = t % s.heads, row = t / s.heads, at = t * s.value_size;
        row_sum(d + (row / s.queries * s.heads + head) * s.queries + row % s.queries, y + at,
                dy + at, s.value_size);
    }
}

/* (batch, rows, cols), contiguous, to where a gradient lies. */
__global__ void copy_heads_kernel(sw_heads_out to, const float *from, int64_t n,
                                  sw_cuda_long_divisor rows, sw_cuda_long_divisor cols)
{
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads()) {
        int64_t col = i, row = sw_cuda_split(cols, &col);
        const int64_t image = sw_cuda_split(rows, &row);
        to.p[image * to.batch + row * to.row + col] = from[i];
    }
}

/* ---- on the host ------------------------------------------------------------------------- */

static bool wide_in(const sw_heads &h, int64_t size)
{
    return h.col == 1 && h.row % 4 == 0 && h.batch % 4 == 0 && size % 4 == 0 &&
           sw_cuda_aligned(h.p);
}
static bool wide_out(const sw_heads_out &h)
{
    return h.row % 4 == 0 && h.batch % 4 == 0 && sw_cuda_aligned(h.p);
}

/* Blocks for the rows of all heads. */
static unsigned blocks_for(const attention_job &a, int64_t heads, int64_t rows)
{
    return (unsigned)(a.g.s.batch * heads * a.slices * ((rows + SIDE - 1) / SIDE));
}
static int64_t slices_of(int64_t cols)
{
    return (cols + SIDE - 1) / SIDE;
}

SW_CUDA_ENTRY(attention, forward, NULL, 0)
{
    attention_job a = {};
    sw_attention_shape *s = &a.g.s;
    sw_heads in[3];
    sw_attention_find(
        l, l->n_in - sw_attention_extras(static_cast<const swi_attention_attrs *>(l->attrs)), s,
        in);
    a.g.q = in[0];
    a.g.k = in[1];
    a.g.v = in[2];
    a.y = sw_cuda_out(l, 0);
    a.lse_out = l->n_out > 1 ? sw_cuda_out(l, 1) : nullptr;
    a.slices = slices_of(s->value_size);
    const bool wide = wide_in(in[0], s->size) && wide_in(in[1], s->size) &&
                      wide_in(in[2], s->value_size) && sw_cuda_aligned(a.y);
    const bool from = s->first != nullptr || s->past_at != nullptr;
    const auto kernel = from   ? wide ? forward_kernel<true, true> : forward_kernel<false, true>
                          : wide ? forward_kernel<true, false>
                               : forward_kernel<false, false>;
    if (s->batch == 0)
        return SW_OK;
    SW_CUDA_LAUNCH(kernel, blocks_for(a, s->heads, s->queries), THREADS, 0, queue, a);
    return sw_cuda_launched("attention");
}

template <int KIND>
static void backward(attention_job a, int64_t rows, int64_t cols, bool wide,
                     const sw_cuda_queue *queue)
{
    const sw_attention_shape &s = a.g.s;
    const bool with = s.heads_kv < s.heads || s.first != nullptr || s.past_at != nullptr;
    const auto kernel =
        with   ? wide ? backward_kernel<KIND, true, true> : backward_kernel<KIND, false, true>
          : wide ? backward_kernel<KIND, true, false>
               : backward_kernel<KIND, false, false>;
    a.slices = slices_of(cols);
    SW_CUDA_LAUNCH(kernel, blocks_for(a, KIND == DQ ? s.heads : s.heads_kv, rows), THREADS, 0,
                   queue, a);
}

/* Gradients in the bytes of what other blocks still read wait in scratch: those of one tensor
 * dq alone, where all columns of a head have one block, else all three; dq where columns have
 * several. Bit i: gradient i. */
static unsigned waiting(const sw_attention_shape &s, bool one_tensor, unsigned makes)
{
    if (s.size > SIDE)
        return one_tensor ? 7u : makes & 1u;
    return one_tensor ? 1u : 0u;
}
static int64_t gradient_elements(const sw_attention_shape &s, int i)
{
    return s.batch * (i == 0   ? s.heads * s.queries * s.size
                      : i == 1 ? s.heads_kv * s.keys * s.size
                               : s.heads_kv * s.keys * s.value_size);
}

/* d, then what waits; each from an address that allows wide accesses. */
static int64_t whole(int64_t elements)
{
    return (elements + 3) / 4 * 4;
}
static int64_t scratch_for(const sw_attention_shape &s)
{
    return whole(s.batch * s.heads * s.queries);
}
static size_t grad_scratch(const sw_kernel_info *info, unsigned makes)
{
    const int n = sw_attention_inputs(info->n_in, true, info->attrs);
    const sw_attention_shape s = sw_attention_info_shape(info, n);
    const unsigned wait = waiting(s, n == 1, makes);
    int64_t scratch_of_tiles = scratch_for(s);
    for (int i = 0; i < 3; i++)
        scratch_of_tiles += (wait >> i & 1u) != 0 ? whole(gradient_elements(s, i)) : 0;
    return (size_t)scratch_of_tiles * sizeof(float);
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_attention_scratch)
{
    return grad_scratch(info, 1u);
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_attention_dk_scratch)
{
    return grad_scratch(info, 2u);
}

/* dk and dv, by one kernel. */
static bool makes_both(const attention_job &a)
{
    return a.g.dk.p != nullptr && a.g.dv.p != nullptr && a.g.s.size <= SIDE &&
           a.g.s.value_size <= SIDE;
}

/* dq first where it waits: dk and dv then take the bytes of k and v. Else last: it takes those
 * of q. */
static void launch_all(const attention_job &a, bool wide, bool dq_first,
                       const sw_cuda_queue *queue)
{
    const sw_attention_shape &s = a.g.s;
    const bool both = makes_both(a);
    if (a.g.dq.p != nullptr && dq_first)
        backward<DQ>(a, s.queries, s.size, wide, queue);
    if (both)
        backward<DKDV>(a, s.keys, s.size, wide, queue);
    if (a.g.dk.p != nullptr && !both)
        backward<DK>(a, s.keys, s.size, wide, queue);
    if (a.g.dv.p != nullptr && !both)
        backward<DV>(a, s.keys, s.value_size, wide, queue);
    if (a.g.dq.p != nullptr && !dq_first)
        backward<DQ>(a, s.queries, s.size, wide, queue);
}

static sw_status gradients(const sw_launch *l, unsigned makes, const sw_cuda_queue *queue)
{
    attention_job a = {};
    a.g = sw_attention_grads_of(l, makes);
    const sw_attention_shape &s = a.g.s;
    const bool one = sw_attention_inputs(l->n_in, (makes & 3u) != 0, l->attrs) == 1;
    sw_heads_out *const out[] = {&a.g.dq, &a.g.dk, &a.g.dv};
    const sw_heads_out real[] = {a.g.dq, a.g.dk, a.g.dv};
    float *scratch_of_tiles = static_cast<float *>(l->scratch);
    const unsigned wait = l->out[0].ptr == l->in[0].ptr ? waiting(s, one, makes) : 0u;
    if (s.batch == 0)
        return SW_OK;
    if (a.g.y != nullptr) {
        if ((wait & 1u) != 0 && s.size <= SIDE) /* dq is the first */
            a.d_out = scratch_of_tiles;
        else
            SW_CUDA_LAUNCH_FOR(row_sums_kernel, s.batch * s.queries * s.heads,
                               SW_CUDA_THREADS / 32, queue, scratch_of_tiles, a.g.y, a.g.dy, s);
        a.d = scratch_of_tiles;
        scratch_of_tiles += scratch_for(s);
    }
    bool wide = wide_in(a.g.q, s.size) && wide_in(a.g.k, s.size) &&
                wide_in(a.g.v, s.value_size) && sw_cuda_aligned(a.g.dy);
    for (int i = 0; i < 3; i++) {
        const int64_t rows = i == 0 ? s.queries : s.keys;
        const int64_t row = (i == 0 ? s.heads : s.heads_kv) * (i < 2 ? s.size : s.value_size);
        if ((wait >> i & 1u) != 0) {
            *out[i] = sw_heads_out{scratch_of_tiles, rows * row, row, false};
            scratch_of_tiles += whole(gradient_elements(s, i));
        }
        wide = wide && wide_out(*out[i]);
    }
    if (wait == 1u && makes_both(a) && queue->tickets != nullptr &&
        s.batch * s.heads_kv <= SW_CUDA_TICKETS) {
        a.moved = real[0];
        a.tickets = queue->tickets;
        wide = wide && wide_out(a.moved);
    }
    launch_all(a, wide, (wait & 1u) != 0, queue);
    for (int i = 0; i < 3; i++) {
        const int64_t rows = i == 0 ? s.queries : s.keys, n = gradient_elements(s, i);
        if ((wait >> i & 1u) != 0 && a.moved.p == nullptr)
            SW_CUDA_LAUNCH_FOR(copy_heads_kernel, n, SW_CUDA_THREADS, queue, real[i], out[i]->p,
                               n, sw_cuda_long_divisor_of(rows),
                               sw_cuda_long_divisor_of(out[i]->row));
    }
    return sw_cuda_launched("attention");
}

/* q, k and v; or dq, and the gradient of one tensor; dk; dv. */
SW_CUDA_ENTRY_OF(attention, grad0, sw_cuda_attention_scratch, 0, gradients(l, 7u, queue))
SW_CUDA_ENTRY_OF(attention, grad1, sw_cuda_attention_scratch, 0, gradients(l, 1u, queue))
SW_CUDA_ENTRY_OF(attention, grad2, sw_cuda_attention_dk_scratch, 0, gradients(l, 2u, queue))
SW_CUDA_ENTRY_OF(attention, grad3, NULL, 0, gradients(l, 4u, queue))
