/* Gradients of the weights and the bias of a convolution. The sums of a few output channels by
 * up to five taps of a kernel row, or by a 3 x 3 kernel, live in registers, lanes apart, along
 * all images, rows and columns in order; then lanes are summed.
 *
 * Blocks of sixteen images are cut into chunks by shape, whose partial results are summed in
 * their order. Plain images have sixteen lanes along the width and no scratch: each weight
 * belongs to one part of the work, which is one input channel and one register block of output
 * channels.
 *
 * A convolution of one position, no stride, one group: each weight is the product of a channel
 * of dy with a channel of x. It goes in pieces of at most DEPTH positions of an image or block.
 * Of a piece the channels of the tensor that has fewer are transposed and packed into panels;
 * rows of the other run along them, as in swi_gemm. A weight is a chain of multiply-adds in
 * each piece, and the sum of its pieces in order: pieces are cut by shape, and the error grows
 * with their number and depth, not with the number of positions. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/lanes.h"

enum { TAPS = 5, POSITIONS = 9 }; /* of a kernel row; of a register block */
#if SW_ISA_ID == 2
enum { CHANNELS = 4 }; /* 4 x 5 accumulators, 4 + 1 operands; or 2 x 9 */
#else
enum { CHANNELS = 2 };
#endif

typedef struct {
    float *dw, *db;
    const float *x, *dy;
    sw_conv s;
    bool accumulate_dw, accumulate_db;
    /* Blocks alone. */
    float *partial;
    int64_t blocks, chunks, per_chunk; /* blocks of a chunk */
    int64_t size;                      /* floats of a partial: dw, db, up to a whole 64 bytes */
    int spans;                         /* of a group's output channels, for threads */
    int pieces;                        /* of the sum of partials */
} dw_job;

/* A register block: ob channels from o on by nr kernel rows from ky on by nt taps from kx on,
 * for channel c of x, over images or blocks [b0, b1). ob, nr and nt are constants where it
 * runs. */
typedef struct {
    const dw_job *j;
    float *dw; /* or a partial */
    int64_t b0, b1, o, c, ky, kx;
} dw_args;

/* ---- blocks: sums along positions -------------------------------------------------------- */

/* One position of dy: the taps that lie in the image, or all where `inside`. x is c's plane,
 * (iy, ix) the position of the first tap. */
SW_VEC_FN void position(vf acc[CHANNELS][POSITIONS], const sw_conv *s, const float *x,
                        const float *dy, int64_t iy, int64_t ix, int ob, int nr, int nt,
                        bool inside)
{
    vf d[CHANNELS];
    SW_UNROLL
    for (int o = 0; o < ob; o++)
        d[o] = vload(dy + o * s->out_h * s->out_w * SWI_LANES);
    SW_UNROLL
    for (int k = 0; k < nr * nt; k++) {
        const int r = k / nt, t = k % nt;
        if (!inside && ((nr > 1 && (uint64_t)(iy + r) >= (uint64_t)s->in_h) ||
                        (uint64_t)(ix + t) >= (uint64_t)s->in_w))
            continue;
        const vf v = vload(x + ((iy + r) * s->in_w + ix + t) * SWI_LANES);
        SW_UNROLL
        for (int o = 0; o < ob; o++)
            acc[o][k] = vfma(v, d[o], acc[o][k]);
    }
}

/* Outputs [*lo, *hi) of n see all of `taps` taps, the first at i * stride - before, inside [0,
 * size). */
static inline void inner_range(int64_t n, int64_t stride, int64_t before, int64_t taps,
                               int64_t size, int64_t *lo, int64_t *hi)
{
    const int64_t room = size + before - taps;
    const int64_t end = room >= 0 ? room / stride + 1 : 0,
                  begin = (before + stride - 1) / stride;
    *hi = end < n ? end : n;
    *lo = before <= 0 ? 0 : begin;
    *lo = *lo < *hi ? *lo : *hi;
}

/* All images of the chunk, one lane group. */
SW_VEC_FN void sum_blocks(vf acc[CHANNELS][POSITIONS], const dw_args *a, int lane, int ob,
                          int nr, int nt)
{
    const sw_conv *s = &a->j->s;
    int64_t top, bottom, left, right;
    const int64_t above = s->pad - a->ky * s->dilation, before = s->pad - a->kx * s->dilation;
    inner_range(s->out_h, s->stride, above, nr, s->in_h, &top, &bottom);
    inner_range(s->out_w, s->stride, before, nt, s->in_w, &left, &right);
    for (int64_t b = a->b0; b < a->b1; b++)
        for (int64_t oy = nr == 1 ? top : 0; oy < (nr == 1 ? bottom : s->out_h); oy++) {
            const bool row_inside = nr == 1 || (oy >= top && oy < bottom);
            const int64_t lo = row_inside ? left : s->out_w, hi = row_inside ? right : s->out_w;
            const float *x =
                a->j->x + (b * s->in_c + a->c) * s->in_h * s->in_w * SWI_LANES + lane;
            const float *dy = a->j->dy +
                              ((b * s->out_c + a->o) * s->out_h + oy) * s->out_w * SWI_LANES +
                              lane;
            const int64_t iy = oy * s->stride - above;
            int64_t ox = 0, ix = -before;
            for (; ox < lo; ox++, ix += s->stride, dy += SWI_LANES)
                position(acc, s, x, dy, iy, ix, ob, nr, nt, false);
            for (; ox < hi; ox++, ix += s->stride, dy += SWI_LANES)
                position(acc, s, x, dy, iy, ix, ob, nr, nt, true);
            for (; ox < s->out_w; ox++, ix += s->stride, dy += SWI_LANES)
                position(acc, s, x, dy, iy, ix, ob, nr, nt, false);
        }
}

/* ---- plain images: sums along rows ------------------------------------------------------- */

/* Which lanes of a vector of columns lie in a row of x: all; the first n; others for each tap;
 * the same with a stride. PAIR: a vector is the first n columns of two rows. */
typedef enum { FULL, TAIL, EDGE, STEP, PAIR } columns_kind;

/* n positions of a row of `width` that lie in it, or of that and the next. */
SW_VEC_FN vf load_row(const float *p, int64_t width, int n, columns_kind kind)
{
#if SW_VEC_HALVES
    if (kind == PAIR)
        return vload_halves(p, p + width, n);
#endif
    (void)width;
    return kind == FULL ? vload(p) : vload_n(p, n);
}

/* A vector of columns of dy and, for each tap, the lanes that meet x. */
typedef struct {
    int64_t ox, ix; /* first column of dy, and of x for the first tap */
    int n;
    swi_lanes in[TAPS];
} columns;

/* One row or pair. In a TAIL or PAIR the lanes past n are zeros on both sides. */
SW_VEC_FN void row(vf acc[CHANNELS][POSITIONS], const sw_conv *s, const columns *v,
                   const float *x, const float *dy, int ob, int nt, columns_kind kind)
{
    vf d[CHANNELS];
    SW_UNROLL
    for (int o = 0; o < ob; o++)
        d[o] = load_row(dy + o * s->out_h * s->out_w, s->out_w, v->n, kind);
    SW_UNROLL
    for (int t = 0; t < nt; t++) {
        if (kind == FULL || kind == TAIL || kind == PAIR) {
            const vf p = load_row(x + t, s->in_w, v->n, kind);
            SW_UNROLL
            for (int o = 0; o < ob; o++)
                acc[o][t] = vfma(p, d[o], acc[o][t]);
            continue;
        }
        const vf p = kind == EDGE ? vload_where(v->in[t].mask, x + t)
                                  : vload_step(x + t, s->stride, v->in[t].lo, v->in[t].hi);
        SW_UNROLL
        for (int o = 0; o < ob; o++)
            acc[o][t] = vfma_where(v->in[t].mask, d[o], p, acc[o][t]);
    }
}

/* All images of some columns, and every `each` of the rows from `first` on. */
SW_VEC_FN void rows(vf acc[CHANNELS][POSITIONS], const dw_args *a, const columns *v, int ob,
                    int nt, int64_t first, int64_t each, columns_kind kind)
{
    const sw_conv *s = &a->j->s;
    const int64_t stride = kind == STEP ? s->stride : 1, above = s->pad - a->ky * s->dilation;
    const int64_t room = s->in_h + above; /* rows oy with 0 <= oy * stride - above < in_h */
    const int64_t reach = room <= 0 ? 0 : (room + stride - 1) / stride;
    const int64_t begin = above > 0 ? (above + stride - 1) / stride : 0;
    const int64_t end = reach < s->out_h ? reach : s->out_h;
    for (int64_t b = 0; b < s->batch; b++) {
        const float *x = a->j->x + ((b * s->in_c + a->c) * s->in_h - above) * s->in_w + v->ix;
        const float *dy = a->j->dy + (b * s->out_c + a->o) * s->out_h * s->out_w + v->ox;
        int64_t oy = begin + first;
        for (; kind == PAIR && oy + 2 <= end; oy += 2)
            row(acc, s, v, x + oy * s->in_w, dy + oy * s->out_w, ob, nt, PAIR);
        for (; oy < end; oy += each)
            row(acc, s, v, x + oy * stride * s->in_w, dy + oy * s->out_w, ob, nt,
                kind == PAIR ? TAIL : kind);
    }
}

/* All images and positions of a lane group, one vector of columns after the other. Sixteen
 * lanes are the columns of a row, or of two rows of at most eight. */
SW_VEC_FN void sum_plain(vf acc[CHANNELS][POSITIONS], const dw_args *a, int lane, int ob,
                         int nt, bool unit)
{
    const sw_conv *s = &a->j->s;
    const int64_t stride = unit ? 1 : s->stride;
    const int64_t before = s->pad - a->kx * s->dilation;
    const bool two = VW >= SWI_LANES / 2 && unit && s->out_w <= SWI_LANES / 2 && before <= 0 &&
                     nt - 1 + s->out_w - before <= s->in_w;
    for (int64_t ox = two ? 0 : lane; ox < s->out_w; ox += SWI_LANES) {
        const int64_t left = s->out_w - ox;
        columns v = {.ox = ox, .ix = ox * stride - before};
        v.n = left < VW ? (int)left : VW;
        const bool inside = v.ix >= 0 && v.ix + nt - 1 + v.n <= s->in_w;
        for (int t = 0; t < nt; t++)
            v.in[t] = swi_lanes_inside(v.ix + t, stride, s->in_w, v.n);
        if (!unit)
            rows(acc, a, &v, ob, nt, 0, 1, STEP);
        else if (!inside)
            rows(acc, a, &v, ob, nt, 0, 1, EDGE);
        else if (two && SW_VEC_HALVES)
            rows(acc, a, &v, ob, nt, 0, 1, PAIR);
        else if (two)
            rows(acc, a, &v, ob, nt, lane / VW, 2, TAIL);
        else if (v.n < VW)
            rows(acc, a, &v, ob, nt, 0, 1, TAIL);
        else
            rows(acc, a, &v, ob, nt, 0, 1, FULL);
    }
}

/* ---- register blocks --------------------------------------------------------------------- */

/* Plain images without a stride, and with one. */
typedef enum { BLOCKS, PLAIN, STRIDED } layout;

SW_VEC_FN void taps(const dw_args *a, int ob, int nr, int nt, layout kind)
{
    const sw_conv *s = &a->j->s;
    const bool add = kind != BLOCKS && a->j->accumulate_dw;
    float total[POSITIONS][4] = {{0}}, sum[4];
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        vf acc[CHANNELS][POSITIONS];
        SW_UNROLL
        for (int o = 0; o < ob; o++) {
            SW_UNROLL
            for (int t = 0; t < nr * nt; t++)
                acc[o][t] = vzero();
        }
        if (kind == BLOCKS)
            sum_blocks(acc, a, lane, ob, nr, nt);
        else
            sum_plain(acc, a, lane, ob, nt, kind == PLAIN);
        SW_UNROLL
        for (int t = 0; t < nr * nt; t++) {
            vf four[4] = {vzero(), vzero(), vzero(), vzero()};
            SW_UNROLL
            for (int o = 0; o < ob; o++)
                four[o] = acc[o][t];
            vsum4(sum, four[0], four[1], four[2], four[3]);
            SW_UNROLL
            for (int o = 0; o < ob; o++)
                total[t][o] += sum[o];
        }
    }
    for (int o = 0; o < ob; o++)
        for (int t = 0; t < nr * nt; t++) {
            const int64_t ky = a->ky + t / nt, kx = a->kx + t % nt;
            const int64_t row_of =
                ((a->o + o) * swi_in_per(s) + a->c % swi_in_per(s)) * s->kernel_h + ky;
            float *to = a->dw + row_of * s->kernel_w + kx;
            *to = add ? *to + total[t][o] : total[t][o];
        }
}

typedef void taps_fn(const dw_args *a);
#define DEFINE_TAPS(ob, nr, nt, kind)                                                          \
    static void taps_##ob##_##nr##_##nt##_##kind(const dw_args *a)                             \
    {                                                                                          \
        taps(a, ob, nr, nt, kind);                                                             \
    }
#define DEFINE_KINDS(ob, nt)                                                                   \
    DEFINE_TAPS(ob, 1, nt, BLOCKS) DEFINE_TAPS(ob, 1, nt, PLAIN) DEFINE_TAPS(ob, 1, nt, STRIDED)
#define DEFINE_CHANNELS(ob)                                                                    \
    DEFINE_KINDS(ob, 1)                                                                        \
    DEFINE_KINDS(ob, 2) DEFINE_KINDS(ob, 3) DEFINE_KINDS(ob, 4) DEFINE_KINDS(ob, 5)

DEFINE_CHANNELS(1)
DEFINE_CHANNELS(2)
DEFINE_TAPS(1, 3, 3, BLOCKS)
#if SW_ISA_ID == 2
DEFINE_CHANNELS(4)
DEFINE_TAPS(2, 3, 3, BLOCKS)
#endif

#define LIST_KINDS(ob, nt)                                                                     \
    {                                                                                          \
        taps_##ob##_1_##nt##_BLOCKS, taps_##ob##_1_##nt##_PLAIN, taps_##ob##_1_##nt##_STRIDED  \
    }
#define LIST_CHANNELS(ob)                                                                      \
    {                                                                                          \
        LIST_KINDS(ob, 1), LIST_KINDS(ob, 2), LIST_KINDS(ob, 3), LIST_KINDS(ob, 4),            \
            LIST_KINDS(ob, 5)                                                                  \
    }
/* By channels (1, 2, 4), taps and layout; by channels for three rows of three. */
static taps_fn *const row_table[][TAPS][3] = {
    LIST_CHANNELS(1),
    LIST_CHANNELS(2),
#if SW_ISA_ID == 2
    LIST_CHANNELS(4),
#endif
};
static taps_fn *const square_table[] = {
    taps_1_3_3_BLOCKS,
#if SW_ISA_ID == 2
    taps_2_3_3_BLOCKS,
#endif
};

/* All weights of one input channel and the output channels from a->o on; returns how many those
 * were. In blocks kernels three wide go three rows at a time: dy is then read once, not once
 * for each row. Taps that are not neighbours go one at a time. */
static int64_t channel_block(dw_args *a, int64_t left)
{
    const sw_conv *s = &a->j->s;
    const layout kind = !s->plain ? BLOCKS : s->stride == 1 ? PLAIN : STRIDED;
    const bool square =
        kind == BLOCKS && s->kernel_w == 3 && s->kernel_h >= 3 && s->dilation == 1;
    const int64_t most = square ? CHANNELS / 2 : CHANNELS;
    const int wide = left >= 4 && most >= 4 ? 2 : left >= 2 && most >= 2 ? 1 : 0;
    for (a->ky = 0; a->ky < s->kernel_h;) {
        if (square && s->kernel_h - a->ky >= 3) {
            a->kx = 0;
            square_table[wide](a);
            a->ky += 3;
            continue;
        }
        for (a->kx = 0; a->kx < s->kernel_w;) {
            const int64_t rest = s->kernel_w - a->kx;
            const int nt = s->dilation > 1 ? 1 : rest >= TAPS ? TAPS : (int)rest;
            row_table[wide][nt - 1][kind](a);
            a->kx += nt;
        }
        a->ky++;
    }
    return (int64_t)1 << wide;
}

/* The sum of dy of one channel, images in order: planes of `size` floats. */
static float bias_sum(const float *dy, int64_t images, int64_t out_c, int64_t size, int64_t o,
                      bool half)
{
    float total = 0.0f;
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        vf acc = vzero();
        for (int64_t b = 0; b < images; b++) {
            const int64_t plane = (b * out_c + o) * size;
            for (int64_t i = lane; i < size; i += SWI_LANES)
                acc = vadd(acc, vtake(dy, plane + i, size - i, half));
        }
        float sum[4];
        vsum4(sum, acc, vzero(), vzero(), vzero());
        total += sum[0];
    }
    return total;
}

static void plain_part(void *arg, int part)
{
    const dw_job *j = arg;
    const sw_conv *s = &j->s;
    const int64_t in = swi_in_per(s), out = swi_out_per(s), c = part % in, unit = part / in;
    const int64_t blocks = (out + CHANNELS - 1) / CHANNELS, group = unit / blocks;
    const int64_t first = group * out + unit % blocks * CHANNELS;
    const int64_t end =
        first + CHANNELS < (group + 1) * out ? first + CHANNELS : (group + 1) * out;
    dw_args a = {.j = j, .dw = j->dw, .o = first, .c = group * in + c};
    while (a.o < end)
        a.o += channel_block(&a, end - a.o);
    for (int64_t o = first; c == 0 && j->db != NULL && o < end; o++) {
        const float sum = bias_sum(j->dy, s->batch, s->out_c, s->out_h * s->out_w, o, false);
        j->db[o] = j->accumulate_db ? j->db[o] + sum : sum;
    }
}

/* ---- blocks: chunks ---------------------------------------------------------------------- */

/* By shape only: at least two blocks in a chunk, at most sixteen chunks, and no more than a
 * megabyte of partials where weights are many. */
static void plan_chunks(dw_job *j)
{
    j->blocks = swi_blocks(j->s.batch);
    j->size = (swi_weights(&j->s) + j->s.out_c + 15) / 16 * 16;
    int64_t most = (1 << 18) / j->size;
    most = most < 1 ? 1 : most > 16 ? 16 : most;
    j->chunks = (j->blocks + 1) / 2 < most ? (j->blocks + 1) / 2 : most;
    j->chunks = j->chunks < 1 ? 1 : j->chunks;
    j->per_chunk = (j->blocks + j->chunks - 1) / j->chunks;
}

/* The sum of dy of one channel over blocks [b0, b1). */
static float chunk_bias_sum(const dw_job *j, int64_t b0, int64_t b1, int64_t o)
{
    const int64_t positions = j->s.out_h * j->s.out_w;
    float total = 0.0f;
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        vf acc[4] = {vzero(), vzero(), vzero(), vzero()};
        for (int64_t b = b0; b < b1; b++) {
            const float *dy = j->dy + (b * j->s.out_c + o) * positions * SWI_LANES + lane;
            int64_t i = 0;
            for (; i + 4 <= positions; i += 4)
                for (int k = 0; k < 4; k++)
                    acc[k] = vadd(acc[k], vload(dy + (i + k) * SWI_LANES));
            for (; i < positions; i++)
                acc[0] = vadd(acc[0], vload(dy + i * SWI_LANES));
        }
        float sum[4];
        vsum4(sum, vadd(vadd(acc[0], acc[2]), vadd(acc[1], acc[3])), vzero(), vzero(), vzero());
        total += sum[0];
    }
    return total;
}

/* One chunk, one input channel, a range of the output channels of its group. The part of a
 * group's first input channel also sums db, and the last of those fills up the partial. */
static void chunk_part(void *arg, int part)
{
    const dw_job *j = arg;
    const sw_conv *s = &j->s;
    const int span = part % j->spans, unit = part / j->spans;
    const int64_t chunk = unit / s->in_c;
    dw_args a = {.j = j, .c = unit % s->in_c, .dw = j->partial + chunk * j->size};
    a.b0 = chunk * j->per_chunk < j->blocks ? chunk * j->per_chunk : j->blocks;
    a.b1 = a.b0 + j->per_chunk < j->blocks ? a.b0 + j->per_chunk : j->blocks;
    const int64_t out = swi_out_per(s), group = a.c / swi_in_per(s);
    const int64_t first = group * out + vpiece(out, CHANNELS, span, j->spans);
    const int64_t end = group * out + vpiece(out, CHANNELS, span + 1, j->spans);
    for (a.o = first; a.o < end;)
        a.o += channel_block(&a, end - a.o);
    if (a.c % swi_in_per(s) != 0)
        return;
    float *db = a.dw + swi_weights(s);
    for (int64_t o = first; o < end; o++)
        db[o] = j->db != NULL ? chunk_bias_sum(j, a.b0, a.b1, o) : 0.0f;
    for (int64_t i = swi_weights(s) + s->out_c; end == s->out_c && i < j->size; i++)
        a.dw[i] = 0.0f;
}

static void sum_part(void *arg, int part)
{
    const dw_job *j = arg;
    const int64_t weights = swi_weights(&j->s),
                  all = weights + (j->db != NULL ? j->s.out_c : 0);
    const int64_t end = vpiece(all, 16, part + 1, j->pieces);
    for (int64_t i = vpiece(all, 16, part, j->pieces); i < end; i++) {
        float sum = j->partial[i];
        for (int64_t k = 1; k < j->chunks; k++)
            sum += j->partial[k * j->size + i];
        float *to = i < weights ? j->dw + i : j->db + (i - weights);
        const bool add = i < weights ? j->accumulate_dw : j->accumulate_db;
        *to = add ? *to + sum : sum;
    }
}

/* ---- products: parts are tiles of the weights, on the stack until they are complete -------
 */

enum {
    DEPTH = SW_GEMM_BLOCK,
    COLS = SWI_GEMM_COLS, /* of a tile */
    ROWS = 192,
    LEAST_ROWS = 48 /* that are worth packing columns for */
};

typedef struct {
    const float *row, *col; /* dy and x, or x and dy */
    float *dw, *db;
    int64_t rows, cols, dw_row, dw_col; /* channels; steps of dw */
    int64_t size, images;               /* floats of a plane; images or blocks */
    const float *dy;
    int64_t out_c;
    bool accumulate_dw, accumulate_db;
    sw_bf16_order order;
    bool row_half, col_half, dy_half;
    int row_tiles, col_tiles;
} product_job;

/* Positions [from, from + n) of image b. Planes of one float: of images [b, b + n). */
typedef struct {
    int64_t b, from, n;
} piece;

static bool next_piece(const product_job *j, piece *p)
{
    const bool points = j->size == 1;
    const int64_t all = points ? j->images : j->size;
    int64_t *at = points ? &p->b : &p->from;
    *at += p->n;
    if (!points && *at >= all) {
        p->b++;
        *at = 0;
    }
    p->n = all - *at < DEPTH ? all - *at : DEPTH;
    return p->b < j->images && p->n > 0;
}

static void add_to(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += VW)
        vput(y, i, n - i, vload_upto(x + i, n - i), true, false);
}

/* A tile in rows to its place in dw. */
static void put_tile(const product_job *j, float *dw, const float *tile, int64_t rows,
                     int64_t cols)
{
    const bool add = j->accumulate_dw;
    vf x[VW];
    for (int64_t i = 0; i < rows && j->dw_col == 1; i++)
        for (int64_t k = 0; k < cols; k += VW)
            vput(dw, i * j->dw_row + k, cols - k, vload_upto(tile + i * cols + k, cols - k),
                 add, false);
    for (int64_t i = 0; i < rows && j->dw_col != 1; i += VW)
        for (int64_t k = 0; k < cols; k += VW) {
            for (int64_t r = 0; r < VW; r++)
                x[r] = vload_upto(tile + least(i + r, rows - 1) * cols + k, cols - k);
            vtranspose(x);
            for (int64_t c = 0; c < VW && c < cols - k; c++)
                vput(dw, (k + c) * j->dw_col + i, rows - i, x[c], add, false);
        }
}

/* Rows from r on by columns from c on of dw. */
static void tile_of(const product_job *j, int64_t r, int64_t rows, int64_t c, int64_t cols)
{
    _Alignas(64) float packed[COLS * DEPTH], tile[ROWS * COLS], more[ROWS * COLS];
    piece p = {0};
    const bool points = j->size == 1;
    bool first = true;
    while (next_piece(j, &p)) {
        sw_gemm g = {.m = rows, .n = cols, .k = p.n, .c = first ? tile : more};
        g.a_row = j->size, g.a_col = points ? j->rows : 1;
        g.b_row = points ? j->cols : 1, g.b_col = j->size;
        g.order = j->order, g.a_half = j->row_half, g.b_half = j->col_half;
        g.a = swi_element(j->row, (p.b * j->rows + r) * j->size + p.from, j->row_half);
        g.b = swi_element(j->col, (p.b * j->cols + c) * j->size + p.from, j->col_half);
        swi_gemm_pack(packed, &g);
        swi_gemm_along(&g, packed);
        if (!first)
            add_to(tile, more, rows * cols);
        first = false;
    }
    if (first) /* the sum of nothing */
        memset(tile, 0, (size_t)(rows * cols) * sizeof *tile);
    put_tile(j, j->dw + r * j->dw_row + c * j->dw_col, tile, rows, cols);
}

static void product_part(void *arg, int part)
{
    const product_job *j = arg;
    const int rt = part / j->col_tiles, ct = part % j->col_tiles;
    const int parts = j->row_tiles * j->col_tiles;
    const int64_t r = vpiece(j->rows, 1, rt, j->row_tiles);
    const int64_t c = vpiece(j->cols, VW, ct, j->col_tiles);
    tile_of(j, r, vpiece(j->rows, 1, rt + 1, j->row_tiles) - r, c,
            vpiece(j->cols, VW, ct + 1, j->col_tiles) - c);
    const int64_t last = vpiece(j->out_c, 1, part + 1, parts);
    int64_t o = vpiece(j->out_c, 1, part, parts);
    for (; j->db != NULL && j->size == 1 && o < last; o += VW) {
        vf sum = vzero();
        for (int64_t b = 0; b < j->images; b++)
            sum = vadd(sum, vtake(j->dy, b * j->out_c + o, last - o, j->dy_half));
        vput(j->db, o, last - o, sum, j->accumulate_db, false);
    }
    for (; j->db != NULL && o < last; o++) {
        const float sum = bias_sum(j->dy, j->images, j->out_c, j->size, o, j->dy_half);
        j->db[o] = j->accumulate_db ? j->db[o] + sum : sum;
    }
}

/* Tiles of equal size; where rows are cut for threads, as many for each. */
static void cut(product_job *j, int threads)
{
    const int64_t wide = (j->cols + COLS - 1) / COLS, fewest = (j->rows + ROWS - 1) / ROWS;
    const int64_t wanted = (4 * threads + wide - 1) / wide, most = j->rows / LEAST_ROWS;
    int64_t tall = wanted < most ? wanted : most;
    if (tall > threads)
        tall -= tall % threads;
    j->col_tiles = (int)wide;
    j->row_tiles = (int)(tall > fewest && threads > 1 ? tall : fewest);
}

static void product_dw(float *dw, float *db, const float *x, const float *dy, const sw_conv *s,
                       bool accumulate_dw, bool accumulate_db, const sw_par *par)
{
    const bool by_out = s->out_c >= s->in_c;
    product_job j = {
        .row = by_out ? dy : x, .col = by_out ? x : dy, .dw = dw, .db = db, .dy = dy};
    j.rows = by_out ? s->out_c : s->in_c, j.cols = by_out ? s->in_c : s->out_c;
    j.dw_row = by_out ? s->in_c : 1, j.dw_col = by_out ? 1 : s->in_c;
    j.size = s->in_h * s->in_w * (s->plain ? 1 : SWI_LANES);
    j.images = s->plain ? s->batch : swi_blocks(s->batch);
    j.out_c = s->out_c;
    j.accumulate_dw = accumulate_dw, j.accumulate_db = accumulate_db;
    j.order = s->order, j.dy_half = s->y_half;
    j.row_half = by_out ? s->y_half : s->x_half, j.col_half = by_out ? s->x_half : s->y_half;
    const double work = (double)j.images * (double)j.size * (double)swi_weights(s);
    cut(&j, par != NULL && work >= SWI_WORTH ? par->n_threads : 1);
    vparts(par, product_part, &j, j.row_tiles * j.col_tiles, work >= SWI_WORTH);
}

/* ------------------------------------------------------------------------------------------ */

size_t SW_KERNEL(dense, conv_dw_bytes)(const sw_conv *given)
{
    dw_job j = {.s = swi_conv_whole(given)};
    if (j.s.plain || swi_conv_is_product(&j.s))
        return 0;
    plan_chunks(&j);
    return (size_t)j.chunks * (size_t)j.size * sizeof(float);
}

void SW_KERNEL(dense, conv_dw)(float *dw, float *db, const float *x, const float *dy,
                               const sw_conv *given, bool accumulate_dw, bool accumulate_db,
                               void *scratch, const sw_par *par)
{
    const sw_conv s = swi_conv_whole(given);
    if (swi_conv_is_product(&s)) {
        product_dw(dw, db, x, dy, &s, accumulate_dw, accumulate_db, par);
        return;
    }
    dw_job j = {.dw = dw, .db = db, .x = x, .dy = dy, .s = swi_conv_flat(&s)};
    j.accumulate_dw = accumulate_dw, j.accumulate_db = accumulate_db;
    const bool worth = swi_conv_work(&s) >= SWI_WORTH;
    const int64_t register_blocks = (swi_out_per(&s) + CHANNELS - 1) / CHANNELS;
    if (s.plain) {
        vruns(par, plain_part, &j, (int)(register_blocks * s.in_c), worth);
        return;
    }
    plan_chunks(&j);
    j.partial = scratch;
    const int64_t wanted = par != NULL ? 2 * par->n_threads : 1, units = j.chunks * s.in_c;
    j.spans = units >= wanted ? 1 : (int)((wanted + units - 1) / units);
    j.spans = j.spans < register_blocks ? j.spans : (int)register_blocks;
    vruns(par, chunk_part, &j, (int)units * j.spans, worth);
    const bool large = j.size * j.chunks >= 262144 && par != NULL && par->n_threads > 1;
    j.pieces = large ? par->n_threads : 1;
    vparts(par, sum_part, &j, j.pieces, large);
}
