/* Tiles of attention: rows of a head in shared memory, products of tiles, scores and
 * probabilities. A block of threads has a tile of 64 by 64 of scores and of a result. */
#ifndef SW_CUDA_ATTENTION_TILE_H
#define SW_CUDA_ATTENTION_TILE_H

#include "kernels/attention.h"
#include "kernels/cuda/device.h"
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

/* Which queries and keys of a tile meet: with BY_KEYS its rows are keys, seen by the queries of
 * its columns. Rows past the end meet something too: no one reads it. */
template <bool BY_KEYS> struct meeting {
    int shift, end; /* of the columns; of rows against columns, past all where not causal */
    __device__ bool has(int r, int c) const
    {
        return c < end && (BY_KEYS ? c >= r + shift : c <= r + shift);
    }
};
/* The tile's first row and column. */
template <bool BY_KEYS>
static __device__ __forceinline__ meeting<BY_KEYS> meeting_of(const sw_attention_shape &s,
                                                              int64_t r0, int64_t c0)
{
    const int64_t left = (BY_KEYS ? s.queries : s.keys) - c0, past = BY_KEYS ? -SIDE : SIDE;
    const int64_t by = s.causal ? r0 - c0 : past;
    return meeting<BY_KEYS>{(int)((BY_KEYS ? by < past : by > past) ? past : by),
                            left < SIDE ? (int)left : SIDE};
}

/* Scores become exponentials, with the running maximum of each row and this thread's share of
 * its sum; what was summed before is brought to the new maximum. */
static __device__ __forceinline__ void soften(float (&x)[ROWS][COLS], float (&out)[ROWS][COLS],
                                              float (&most)[ROWS], float (&total)[ROWS],
                                              const sw_attention_shape &s, int64_t r0,
                                              int64_t c0)
{
    const meeting<false> seen = meeting_of<false>(s, r0, c0);
    SW_UNROLL
    for (int i = 0; i < ROWS; i++) {
        float here = -INFINITY;
        for (int j = 0; j < COLS; j++) {
            x[i][j] *= s.scale;
            if (seen.has(row_of(i), col_of(j)))
                here = sw_cuda_largest::of(here, x[i][j]);
        }
        const float now = sw_cuda_largest::of(most[i], over_lanes<sw_cuda_largest>(here));
        const float shrink = sw_expf(most[i] - now);
        most[i] = now;
        total[i] *= shrink;
        for (int j = 0; j < COLS; j++) {
            out[i][j] *= shrink;
            x[i][j] = seen.has(row_of(i), col_of(j)) ? sw_expf(x[i][j] - now) : 0.0f;
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
template <bool BY_KEYS>
static __device__ __forceinline__ void revive(float (&x)[ROWS][COLS], const float *lse,
                                              const sw_attention_shape &s, int64_t r0,
                                              int64_t c0)
{
    float less[BY_KEYS ? COLS : ROWS];
    of_queries<BY_KEYS>(less, lse, s.queries, r0, c0);
    const meeting<BY_KEYS> seen = meeting_of<BY_KEYS>(s, r0, c0);
    SW_UNROLL
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLS; j++)
            x[i][j] = seen.has(row_of(i), col_of(j))
                          ? sw_expf(x[i][j] * s.scale - less[BY_KEYS ? j : i])
                          : 0.0f;
    }
}

/* p (dp - d) scale; one of p and dp is in x, the other, with SWAPPED p, in the tile. */
template <bool BY_KEYS, bool SWAPPED>
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
            x[i][j] = p * (dp - less[BY_KEYS ? j : i]) * s.scale;
        }
}

#endif
