/* Rows of a table by their ids, and the gradient of the table. An id out of range gives a row
 * of NaNs and no gradient: a kernel cannot refuse it.
 *
 * Backward each row of the table has a warp for each piece of its columns, which adds the rows
 * of dy in the order of the ids: the CPU's bits. So that it need not look at all ids, scratch
 * has some bits for each row of the table: bit b is set where the row's id is among the ids
 * from b * per_bit on. Setting bits knows no order. */
#include "kernels/cuda/ids.h"
#include "kernels/cuda/rows.h"
#include "kernels/scalar.h"

/* Words of bits for a row of the table, at most 32; tests give fewer. */
#ifndef SW_CUDA_ID_WORDS
#define SW_CUDA_ID_WORDS 16
#endif
#define AHEAD 8 /* rows of dy that are on their way at a time */

/* ---- forward ----------------------------------------------------------------------------- */

struct taken {
    sw_cuda_numbers y, table;
    sw_cuda_ids ids;
    int64_t n, rows, width;
};

template <class ROWS> __global__ void take_kernel(taken t)
{
    for (int64_t i = ROWS::first(); i < t.n; i += ROWS::step()) {
        const int64_t id = t.ids.at(i);
        const bool known = id >= 0 && id < t.rows;
        float v[ROWS::W];
        SW_CUDA_COLUMNS(c, t.width)
        {
            for (int k = 0; k < ROWS::W; k++)
                v[k] = sw_float_of(0x7fc00000u);
            if (known)
                sw_cuda_load(v, t.table, id * t.width + c);
            sw_cuda_store(t.y, i * t.width + c, v);
        }
    }
}

SW_CUDA_ENTRY(embedding, forward, NULL, 2)
{
    const sw_shape *table = &l->in[1].type.shape;
    const taken t = {
        l->out[0],     l->in[1],     sw_cuda_ids_in(l, 0), sw_cuda_elements(&l->in[0].type),
        table->dim[0], table->dim[1]};
    if (t.n == 0 || t.width == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_ROWS(take_kernel, t.n, t.width,
                        sw_cuda_aligned(t.y.p) && sw_cuda_aligned(t.table.p), queue, t);
    return sw_cuda_launched("embedding");
}

/* ---- gradient ---------------------------------------------------------------------------- */

struct added {
    float *table;
    const float *dy;
    unsigned *bits; /* (rows, words) */
    sw_cuda_ids ids;
    int64_t n, rows, width;
    sw_cuda_long_divisor per_bit; /* ids, a multiple of 32 */
    sw_cuda_long_divisor pieces;  /* of a row, one for a warp */
    int words, add;
};

static int64_t ids_per_bit(int64_t n)
{
    const int64_t most = SW_CUDA_ID_WORDS * 32;
    return n > 0 ? ((n + most - 1) / most + 31) / 32 * 32 : 32;
}
static int words_of(int64_t n)
{
    const int64_t each = ids_per_bit(n) * 32;
    return (int)((n + each - 1) / each);
}

__global__ void clear_bits_kernel(unsigned *bits, int64_t n)
{
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads())
        bits[i] = 0u;
}

__global__ void set_bits_kernel(added a)
{
    for (int64_t i = sw_cuda_thread(); i < a.n; i += sw_cuda_threads()) {
        const int64_t id = a.ids.at(i), bit = sw_cuda_divide(a.per_bit, i);
        if (id >= 0 && id < a.rows)
            atomicOr(a.bits + id * a.words + bit / 32, 1u << bit % 32);
    }
}

/* Add the rows of dy of those of the 32 ids from `first` on that are `row`. */
template <int W>
static __device__ __forceinline__ void add_hits(float (&sum)[W], const added &a, int64_t row,
                                                int64_t first, int64_t c)
{
    const int64_t i = first + threadIdx.x % 32;
    unsigned hits = __ballot_sync(0xffffffffu, i < a.n && a.ids.at(i) == row);
    while (hits != 0u) {
        int at[AHEAD];
        float v[AHEAD][W];
        for (int k = 0; k < AHEAD; k++) {
            at[k] = __ffs(hits) - 1; /* -1: none is left */
            hits &= hits - 1u;
            if (at[k] >= 0 && c < a.width)
                sw_cuda_load(v[k], a.dy + (first + at[k]) * a.width + c);
        }
        for (int k = 0; k < AHEAD; k++)
            for (int w = 0; w < W; w++)
                if (at[k] >= 0 && c < a.width)
                    sum[w] += v[k][w];
    }
}

template <int W> __global__ void add_rows_kernel(added a)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t n = a.rows * a.pieces.by;
    for (int64_t t = sw_cuda_thread() / 32; t < n; t += sw_cuda_threads() / 32) {
        int64_t piece = t;
        const int64_t row = sw_cuda_split(a.pieces, &piece), c = (piece * 32 + lane) * W;
        const unsigned mine = lane < a.words ? a.bits[row * a.words + lane] : 0u;
        unsigned words = __ballot_sync(0xffffffffu, mine != 0u);
        float sum[W] = {};
        if (words == 0u && a.add)
            continue;
        if (a.add && c < a.width)
            sw_cuda_load(sum, a.table + row * a.width + c);
        for (; words != 0u; words &= words - 1u) {
            const int word = __ffs(words) - 1;
            for (unsigned m = __shfl_sync(0xffffffffu, mine, word); m != 0u; m &= m - 1u) {
                const int64_t first = ((int64_t)word * 32 + __ffs(m) - 1) * a.per_bit.by;
                for (int64_t i = first; i < first + a.per_bit.by && i < a.n; i += 32)
                    add_hits<W>(sum, a, row, i, c);
            }
        }
        if (c < a.width)
            sw_cuda_store(a.table + row * a.width + c, sum);
    }
}

SW_CUDA_SCRATCH_SIZE(sw_cuda_embedding_scratch)
{
    return (size_t)info->out[0].shape.dim[0] *
           (size_t)words_of(sw_cuda_elements(&info->in[0])) * sizeof(unsigned);
}

/* in: ids, dy */
SW_CUDA_ENTRY(embedding, grad0, sw_cuda_embedding_scratch, 1)
{
    added a = {};
    a.table = sw_cuda_out(l, 0);
    a.dy = sw_cuda_in(l, 1);
    a.bits = static_cast<unsigned *>(l->scratch);
    a.ids = sw_cuda_ids_in(l, 0);
    a.n = sw_cuda_elements(&l->in[0].type);
    a.rows = l->out[0].type.shape.dim[0];
    a.width = l->out[0].type.shape.dim[1];
    a.per_bit = sw_cuda_long_divisor_of(ids_per_bit(a.n));
    a.words = words_of(a.n);
    a.add = sw_cuda_adds(l, 0);
    if (a.rows == 0 || a.width == 0)
        return SW_OK;
    const bool wide = a.width % 4 == 0 && sw_cuda_aligned(a.table) && sw_cuda_aligned(a.dy);
    const int per_block = SW_CUDA_THREADS / 32, columns = wide ? 128 : 32;
    a.pieces = sw_cuda_long_divisor_of((a.width + columns - 1) / columns);
    const auto add = wide ? add_rows_kernel<4> : add_rows_kernel<1>;
    if (a.n > 0) {
        SW_CUDA_LAUNCH_FOR(clear_bits_kernel, a.rows * a.words, SW_CUDA_THREADS, queue, a.bits,
                           a.rows * a.words);
        SW_CUDA_LAUNCH_FOR(set_bits_kernel, a.n, SW_CUDA_THREADS, queue, a);
    }
    SW_CUDA_LAUNCH_FOR(add, a.rows * a.pieces.by, per_block, queue, a);
    return sw_cuda_launched("embedding");
}
