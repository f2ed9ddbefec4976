/* Convolution: forward, and the gradient of x. A register block is up to 6 output channels by a
 * few vectors; weights are scalars, broadcast. Sums run over c, ky, kx, beginning with the
 * bias, and what lies outside the image is left out, not multiplied by zero: every element sees
 * the same order in every block size and layout, so in one instruction set the bits are the
 * same. Kernels of one position are products with the same chains.
 *
 * Blocks of sixteen images: a vector is a position, of images; a register block has
 * neighbouring positions of a row. Plain (batch, c, h, w) images, for batches that would leave
 * many lanes of a block empty: a vector lies along the width; a register block has neighbouring
 * rows.
 *
 * The gradient of x is a convolution of dy with the weights turned round: in scratch for
 * blocks, (in_c, out_c / groups, kernel_h, kernel_w) with both kernel axes reversed; plain ones
 * read backwards. `up` > 1 undoes a stride: positions of y fall into `up` phases along each
 * axis, each of which meets every up-th weight, and neighbours of one phase meet neighbouring
 * positions of x.
 *
 * Parts of the work: one block of images, or image, and one band of output rows. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/lanes.h"

enum {
    WIDE = SW_ISA_ID == 2 ? 4 : 2, /* vectors: 6 x 4 accumulators of 32 registers */
    KEPT = 16                      /* taps of a row for which lanes are kept */
};

/* With up > 1 x counts as if up - 1 zeros stood between its positions. */
typedef struct {
    float *y;
    const float *x, *w, *bias;
    sw_conv s;                         /* stride is 1 where up > 1; its pad is not used */
    int64_t pad_y, pad_x, up;          /* pads may be negative */
    sw_tap_step step;                  /* of taps, by `up` and dilation */
    int64_t w_out, w_in, w_row, w_tap; /* steps of w: channel of y, channel of x, ky, kx */
    bool accumulate;
    int bands; /* of rows, for threads */
} conv_job;

/* The taps of a position of y along one axis: tap t, from <= t < end, is weight first + t *
 * step.weight and meets position at + t * step.position of x. */
typedef struct {
    int64_t first, from, end, at;
} taps;

/* Arguments of a register block. */
typedef struct {
    const conv_job *j;
    const float *x, *w, *bias; /* this block or image and group; first channel of y */
    float *y;
    int64_t in_c;       /* channels of x in the group */
    taps v, h;          /* rows; plain: columns */
    int n;              /* plain: columns, at most VW */
    swi_lanes in[KEPT]; /* plain: of a vector that may leave the row, for the first taps */
} tile_args;

static inline taps taps_of(const conv_job *j, int64_t i, int64_t pad, int64_t kernel)
{
    taps t = {.from = 0};
    t.end = sw_taps_at(i * j->s.stride - pad, j->up, j->s.dilation, j->step, kernel, &t.first,
                       &t.at);
    return t;
}

/* Nothing but neighbours: no strides, no dilation. */
static inline bool is_unit(const conv_job *j)
{
    return j->s.stride == 1 && j->up == 1 && j->s.dilation == 1;
}

/* Which lanes of a vector count, and how rows and positions lie. Blocks: all of an image's
 * positions, or each is tested against the row (EDGE); the same with strides, in x (stride or
 * dilation) or in y (up). Plain: a vector of columns lies in a row of x whole; its first n do;
 * others for each tap, and rows are tested too; the same with strides. PAIR: a vector is the
 * first n positions of two rows. */
typedef enum {
    BLOCK,
    BLOCK_EDGE,
    BLOCK_STEP,
    BLOCK_STEP_EDGE,
    FULL,
    TAIL,
    EDGE,
    STEP,
    PAIR
} tile_kind;

/* Vector p of a register block, whose lanes that count lie in the image. */
SW_VEC_FN vf load_of(const float *x, int p, int64_t step, int64_t width, int n, tile_kind kind)
{
#if SW_VEC_HALVES
    if (kind == PAIR)
        return vload_halves(x + 2 * p * width, x + (2 * p + 1) * width, n);
#endif
    if (kind < FULL)
        return vload(x + p * step);
    return kind == FULL ? vload(x + p * width) : vload_n(x + p * width, n);
}

SW_VEC_FN void store_lanes(float *y, vf sum, int n, int64_t up, bool accumulate)
{
    if (up > 1) {
        float lane[VW];
        vstore(lane, sum);
        for (int i = 0; i < n; i++)
            y[i * up] = accumulate ? y[i * up] + lane[i] : lane[i];
    } else {
        vput(y, 0, n, sum, accumulate, false);
    }
}

/* Positions of blocks, `apart` floats apart. Two loops, not one with a test in it: clang would
 * keep the sums in memory. */
SW_VEC_FN void store_blocks(float *y, vf acc[6][WIDE], int64_t plane, int64_t apart, int ob,
                            int pb, bool accumulate)
{
    if (accumulate) {
        SW_UNROLL
        for (int o = 0; o < ob; o++) {
            SW_UNROLL
            for (int p = 0; p < pb; p++)
                acc[o][p] = vadd(vload(y + o * plane + p * apart), acc[o][p]);
        }
    }
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int p = 0; p < pb; p++)
            vstore(y + o * plane + p * apart, acc[o][p]);
    }
}

SW_VEC_FN void store_plain(float *y, vf acc[6][WIDE], const tile_args *a, int64_t up, int ob,
                           int pb, tile_kind kind)
{
    const sw_conv *s = &a->j->s;
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int p = 0; p < pb; p++) {
#if SW_VEC_HALVES
            if (kind == PAIR) {
                float *to = y + (o * s->out_h + 2 * p) * s->out_w, *next = to + s->out_w;
                vf sum = acc[o][p];
                if (a->j->accumulate)
                    sum = vadd(vload_halves(to, next, a->n), sum);
                vstore_halves(to, next, sum, a->n);
                continue;
            }
#endif
            (void)kind;
            store_lanes(y + (o * s->out_h + p * up) * s->out_w, acc[o][p], a->n, up,
                        a->j->accumulate);
        }
    }
}

/* One tap of tiles that may leave the image: x and w point to it. It is number tx of row iy,
 * the first of which is at column ix. */
SW_VEC_FN void edge_tap(vf acc[6][WIDE], const tile_args *a, const float *x, const float *w,
                        int64_t iy, int64_t ix, int64_t tx, int ob, int pb, tile_kind kind)
{
    const sw_conv *s = &a->j->s;
    const bool unit = kind == EDGE || kind == BLOCK_EDGE, blocks = kind < FULL;
    const int64_t stride = unit ? 1 : s->stride, next_x = unit ? 1 : a->j->step.position;
    if (blocks) {
        SW_UNROLL
        for (int p = 0; p < pb; p++) {
            if ((uint64_t)(ix + tx * next_x + p * stride) >= (uint64_t)s->in_w)
                continue;
            const vf v = vload(x + p * stride * SWI_LANES);
            SW_UNROLL
            for (int o = 0; o < ob; o++)
                acc[o][p] = vfma(vset1(w[o * a->j->w_out]), v, acc[o][p]);
        }
        return;
    }
    const swi_lanes in =
        tx < KEPT ? a->in[tx] : swi_lanes_inside(ix + tx * next_x, stride, s->in_w, a->n);
    SW_UNROLL
    for (int p = 0; p < pb; p++) {
        if ((uint64_t)(iy + p * stride) >= (uint64_t)s->in_h)
            continue;
        const float *from = x + p * stride * s->in_w;
        const vf v = unit ? vload_where(in.mask, from) : vload_step(from, stride, in.lo, in.hi);
        SW_UNROLL
        for (int o = 0; o < ob; o++)
            acc[o][p] = vfma_where(in.mask, vset1(w[o * a->j->w_out]), v, acc[o][p]);
    }
}

/* ob channels by pb vectors, positions of blocks or rows (pairs of rows) of a->n columns, whose
 * columns meet h; y: the first of them. ob, pb and kind are constants. */
SW_VEC_FN void tile(const tile_args *a, float *y, const taps *h, int ob, int pb, tile_kind kind)
{
    const conv_job *j = a->j;
    const sw_conv *s = &j->s;
    const bool blocks = kind < FULL,
               unit = kind != STEP && kind != BLOCK_STEP && kind != BLOCK_STEP_EDGE;
    const bool edge =
        kind == BLOCK_EDGE || kind == BLOCK_STEP_EDGE || kind == EDGE || kind == STEP;
    const int64_t lanes = blocks ? SWI_LANES : 1, up = unit ? 1 : j->up;
    const int64_t next_w = unit ? 1 : j->step.weight, next_x = unit ? 1 : j->step.position;
    const int64_t step = (unit ? 1 : s->stride) * SWI_LANES;
    vf acc[6][WIDE];
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int p = 0; p < pb; p++)
            acc[o][p] = vset1(a->bias[o]);
    }
    for (int64_t c = 0; c < a->in_c; c++)
        for (int64_t ty = blocks ? a->v.from : 0; ty < a->v.end; ty++) {
            const int64_t row = a->v.at + ty * next_x;
            const float *x = a->x + ((c * s->in_h + row) * s->in_w + h->at) * lanes;
            const float *w = a->w + c * j->w_in + (a->v.first + ty * next_w) * j->w_row +
                             h->first * (blocks ? 1 : j->w_tap);
            for (int64_t tx = 0; tx < h->end;
                 tx++, x += next_x * lanes, w += next_w * (blocks ? 1 : j->w_tap)) {
                if (edge) {
                    edge_tap(acc, a, x, w, row, h->at, tx, ob, pb, kind);
                    continue;
                }
                vf v[WIDE];
                SW_UNROLL
                for (int p = 0; p < pb; p++)
                    v[p] = load_of(x, p, step, s->in_w, a->n, kind);
                SW_UNROLL
                for (int o = 0; o < ob; o++) {
                    const vf weight = vset1(w[o * j->w_out]);
                    SW_UNROLL
                    for (int p = 0; p < pb; p++)
                        acc[o][p] = vfma(weight, v[p], acc[o][p]);
                }
            }
        }
    if (blocks)
        store_blocks(y, acc, s->out_h * s->out_w * SWI_LANES, up * SWI_LANES, ob, pb,
                     j->accumulate);
    else
        store_plain(y, acc, a, up, ob, pb, kind);
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* Positions of one phase after the other: first, first + up, ... */
SW_VEC_FN void row_of(const tile_args *a, int ob, bool unit)
{
    const conv_job *j = a->j;
    const sw_conv *s = &j->s;
    const int64_t up = unit ? 1 : j->up, stride = unit ? 1 : s->stride;
    const int64_t next_x = unit ? 1 : j->step.position;
    for (int64_t first = 0; first < up; first++)
        for (int64_t ox = first; ox < s->out_w;) {
            const int64_t left = (s->out_w - ox + up - 1) / up;
            const int pb = left >= WIDE ? WIDE : left >= 2 ? 2 : 1;
            taps h = {.end = s->kernel_w, .at = ox - j->pad_x};
            if (!unit)
                h = taps_of(j, ox, j->pad_x, s->kernel_w);
            const bool edge =
                h.at < 0 || h.at + (pb - 1) * stride + (h.end - 1) * next_x >= s->in_w;
            float *y = a->y + ox * SWI_LANES;
            if (pb == WIDE && !edge)
                tile(a, y, &h, ob, WIDE, unit ? BLOCK : BLOCK_STEP);
            else if (pb == WIDE)
                tile(a, y, &h, ob, WIDE, unit ? BLOCK_EDGE : BLOCK_STEP_EDGE);
            else if (pb == 2)
                tile(a, y, &h, ob, 2, unit ? BLOCK_EDGE : BLOCK_STEP_EDGE);
            else
                tile(a, y, &h, ob, 1, unit ? BLOCK_EDGE : BLOCK_STEP_EDGE);
            ox += pb * up;
        }
}

typedef void row_fn(const tile_args *a);
#define DEFINE_ROWS(ob)                                                                        \
    static void row_##ob(const tile_args *a)                                                   \
    {                                                                                          \
        row_of(a, ob, true);                                                                   \
    }                                                                                          \
    static void row_##ob##_strided(const tile_args *a)                                         \
    {                                                                                          \
        row_of(a, ob, false);                                                                  \
    }
DEFINE_ROWS(1)
DEFINE_ROWS(2)
DEFINE_ROWS(4)
DEFINE_ROWS(6)
/* By half the channels (0: one), and whether there are strides. */
static row_fn *const row_for[4][2] = {{row_1, row_1_strided},
                                      {row_2, row_2_strided},
                                      {row_4, row_4_strided},
                                      {row_6, row_6_strided}};

/* Depthwise: one channel of x, kernels 3 or 5 wide, stride 1 or 2. Neighbouring positions share
 * what they read; kw, pb, stride, up and half are constants. The order of sums is that of
 * tile(). half: x and y are of bf16. */
#if SW_ISA_ID == 2
enum { DEEP = 8 }; /* positions, with 8 + 4 operands of stride 1 */
#else
enum { DEEP = 4 };
#endif

/* pb positions from ox on; x is where `pad` taps of the first have passed. Which taps lie left
 * of the first (`left`) or right of the last (`right`) position of x is a constant too, so
 * nothing is tested. Position p meets x at (p * stride + tap - pad) / up, where that is a whole
 * number. */
SW_VEC_FN void depth_tile(const tile_args *a, int64_t ox, int64_t ix, int kw, int pad,
                          int stride, int up, int pb, bool left, bool right, bool half)
{
    const sw_conv *s = &a->j->s;
    const int64_t row = s->in_w * SWI_LANES, first = (a->v.at + a->v.from) * row;
    const void *x = swi_element(a->x, first + ix * SWI_LANES, half);
    const float *w = a->w + (a->v.first + a->v.from * up) * kw;
    float *y = swi_element(a->y, ox * SWI_LANES, half);
    vf acc[DEEP];
    SW_UNROLL
    for (int p = 0; p < pb; p++)
        acc[p] = vset1(a->bias[0]);
    for (int64_t ty = a->v.from; ty < a->v.end; ty++, w += up * kw) {
        SW_UNROLL
        for (int tx = 0; tx < kw; tx++) {
            const vf weight = vset1(w[tx]);
            SW_UNROLL
            for (int p = 0; p < pb; p++) {
                const int at = p * stride + tx - pad;
                if ((at & (up - 1)) != 0 || (left && at < 0) || (right && at >= pb * stride))
                    continue;
                acc[p] = vfma(weight, vtake(x, at / up * SWI_LANES, VW, half), acc[p]);
            }
        }
        x = swi_element(x, row, half);
    }
    SW_UNROLL
    for (int p = 0; p < pb; p++)
        vput(y, p * SWI_LANES, VW, acc[p], a->j->accumulate, half);
}

SW_VEC_FN void depth_row(const tile_args *a, int kw, int stride)
{
    const sw_conv *s = &a->j->s;
    for (int64_t ox = 0; ox < s->out_w;) {
        const int64_t ix = ox * stride - a->j->pad_x, left = s->out_w - ox;
        if (ix >= 0 && left >= DEEP && ix + (DEEP - 1) * stride + kw <= s->in_w) {
            depth_tile(a, ox, ix, kw, 0, stride, 1, DEEP, false, false, false);
            ox += DEEP;
        } else if (ix >= 0 && left >= 2 && ix + stride + kw <= s->in_w) {
            depth_tile(a, ox, ix, kw, 0, stride, 1, 2, false, false, false);
            ox += 2;
        } else {
            const taps h = taps_of(a->j, ox, a->j->pad_x, s->kernel_w);
            tile(a, a->y + ox * SWI_LANES, &h, 1, 1, BLOCK_STEP_EDGE);
            ox++;
        }
    }
}

/* The same for images that are as wide as in nets, with half a kernel of padding: register
 * blocks begin at a multiple of `up`. */
SW_VEC_FN void depth_block(const tile_args *a, int64_t ox, int kw, int stride, int up, int pb,
                           bool left, bool right, bool half)
{
    depth_tile(a, ox, ox * stride / up, kw, kw / 2, stride, up, pb, left, right, half);
}

SW_VEC_FN void depth_blocks(const tile_args *a, int kw, int stride, int up, bool half)
{
    const int64_t width = a->j->s.out_w;
    if (width == 2) {
        depth_block(a, 0, kw, stride, up, 2, true, true, half);
    } else if (width == 4) {
        depth_block(a, 0, kw, stride, up, 4, true, true, half);
    } else if (width == DEEP) {
        depth_block(a, 0, kw, stride, up, DEEP, true, true, half);
    } else {
        depth_block(a, 0, kw, stride, up, DEEP, true, false, half);
        for (int64_t ox = DEEP; ox < width - DEEP; ox += DEEP)
            depth_block(a, ox, kw, stride, up, DEEP, false, false, half);
        depth_block(a, width - DEEP, kw, stride, up, DEEP, false, true, half);
    }
}

#define DEFINE_DEPTH_ROWS(kw, stride)                                                          \
    static void depth_##kw##_##stride(const tile_args *a)                                      \
    {                                                                                          \
        depth_row(a, kw, stride);                                                              \
    }
#define DEFINE_DEPTH_BLOCKS(kw, stride, up)                                                    \
    static void depth_blocks_##kw##_##stride##_##up(const tile_args *a)                        \
    {                                                                                          \
        depth_blocks(a, kw, stride, up, false);                                                \
    }                                                                                          \
    static void depth_halves_##kw##_##stride##_##up(const tile_args *a)                        \
    {                                                                                          \
        depth_blocks(a, kw, stride, up, true);                                                 \
    }
#define DEFINE_DEPTH(kw)                                                                       \
    DEFINE_DEPTH_ROWS(kw, 1)                                                                   \
    DEFINE_DEPTH_ROWS(kw, 2)                                                                   \
    DEFINE_DEPTH_BLOCKS(kw, 1, 1) DEFINE_DEPTH_BLOCKS(kw, 2, 1) DEFINE_DEPTH_BLOCKS(kw, 1, 2)
DEFINE_DEPTH(3)
DEFINE_DEPTH(5)

/* By half the kernel less one; stride 1, stride 2, up 2. */
static row_fn *const depth_rows_of[2][2] = {{depth_3_1, depth_3_2}, {depth_5_1, depth_5_2}};
static row_fn *const depth_blocks_of[2][2][3] = {
    {{depth_blocks_3_1_1, depth_blocks_3_2_1, depth_blocks_3_1_2},
     {depth_blocks_5_1_1, depth_blocks_5_2_1, depth_blocks_5_1_2}},
    {{depth_halves_3_1_1, depth_halves_3_2_1, depth_halves_3_1_2},
     {depth_halves_5_1_1, depth_halves_5_2_1, depth_halves_5_1_2}},
};

/* Also all that sw_conv_takes_halves() names, and its gradients of x. */
static bool fits_blocks(const conv_job *j)
{
    const sw_conv *s = &j->s;
    const bool whole = s->out_w == 2 || s->out_w == 4 || (s->out_w > 0 && s->out_w % DEEP == 0);
    return whole && (j->up == 1 || s->stride == 1) && j->pad_x == s->kernel_w / 2 &&
           s->in_w * j->up == s->out_w * s->stride;
}

/* NULL where it has no kernel of its own. */
static row_fn *depth_for(const conv_job *j)
{
    const sw_conv *s = &j->s;
    const int wide = s->kernel_w == 3 ? 0 : 1;
    if (s->in_c != s->groups || s->out_c != s->groups || j->up > 2 || s->dilation != 1 ||
        s->stride > 2 || (s->kernel_w != 3 && s->kernel_w != 5))
        return NULL;
    if (fits_blocks(j))
        return depth_blocks_of[s->x_half][wide][j->up == 2 ? 2 : s->stride - 1];
    return j->up == 1 ? depth_rows_of[wide][s->stride - 1] : NULL;
}

static void block_rows(tile_args *a, int ob, int band)
{
    const conv_job *j = a->j;
    const sw_conv *s = &j->s;
    const int64_t last = vpiece(s->out_h, 1, band + 1, j->bands), next = j->step.position;
    row_fn *depth = depth_for(j), *row = depth != NULL ? depth : row_for[ob / 2][!is_unit(j)];
    float *y = a->y;
    for (int64_t oy = vpiece(s->out_h, 1, band, j->bands); oy < last; oy++) {
        a->v = taps_of(j, oy, j->pad_y, s->kernel_h);
        const int64_t room = s->in_h - a->v.at,
                      reach = room <= 0 ? 0 : (room + next - 1) / next;
        a->v.from = a->v.at < 0 ? (next - 1 - a->v.at) / next : 0;
        a->v.end = reach < a->v.end ? reach : a->v.end;
        a->y = swi_element(y, oy * s->out_w * SWI_LANES, s->x_half);
        row(a);
    }
}

/* ---- plain images ------------------------------------------------------------------------ */

typedef void tile_fn(const tile_args *a, float *y);
#define DEFINE_TILE(ob, rows, kind)                                                            \
    static void tile_##ob##_##rows##_##kind(const tile_args *a, float *y)                      \
    {                                                                                          \
        tile(a, y, &a->h, ob, rows, kind);                                                     \
    }
#if SW_VEC_HALVES
#define DEFINE_PAIRS(ob) DEFINE_TILE(ob, WIDE, PAIR) DEFINE_TILE(ob, 1, PAIR)
#define PAIRS(ob, rows) tile_##ob##_##rows##_PAIR
#else
#define DEFINE_PAIRS(ob)
#define PAIRS(ob, rows) NULL
#endif
#define DEFINE_TILES(ob)                                                                       \
    DEFINE_TILE(ob, WIDE, FULL)                                                                \
    DEFINE_TILE(ob, WIDE, TAIL)                                                                \
    DEFINE_TILE(ob, WIDE, EDGE)                                                                \
    DEFINE_TILE(ob, 1, FULL)                                                                   \
    DEFINE_TILE(ob, 1, TAIL)                                                                   \
    DEFINE_TILE(ob, 1, EDGE) DEFINE_TILE(ob, 1, STEP) DEFINE_PAIRS(ob)

DEFINE_TILES(1)
DEFINE_TILES(2)
DEFINE_TILES(4)
DEFINE_TILES(6)

#define LIST_TILES(ob)                                                                         \
    {                                                                                          \
        {tile_##ob##_1_FULL, tile_##ob##_1_TAIL, tile_##ob##_1_EDGE, tile_##ob##_1_STEP,       \
         PAIRS(ob, 1)},                                                                        \
        {                                                                                      \
            tile_##ob##_WIDE_FULL, tile_##ob##_WIDE_TAIL, tile_##ob##_WIDE_EDGE, NULL,         \
                PAIRS(ob, WIDE)                                                                \
        }                                                                                      \
    }
/* By half the channels (0: one), one row or WIDE, kind from FULL on. Strides go one row at a
 * time. */
static tile_fn *const tiles[4][2][5] = {LIST_TILES(1), LIST_TILES(2), LIST_TILES(4),
                                        LIST_TILES(6)};

/* One phase of one axis: positions origin + i * up of y, i < n, and what the first meets. */
typedef struct {
    int64_t origin, n;
    taps t;
} phase;

static phase phase_of(const conv_job *j, int64_t origin, int64_t pad, int64_t kernel,
                      int64_t size)
{
    return (phase){origin, (size - origin + j->up - 1) / j->up,
                   taps_of(j, origin, pad, kernel)};
}

/* Rows [begin, end) of a phase. Of a few rows, or of all of one channel, one vector of columns
 * goes after the other, and its lanes are found once. Rows go in pairs where two fit in a
 * vector, and both rows of each pair and their taps lie in the image. */
static void phase_rows(tile_args *a, const phase *v, const phase *h, int ob, int64_t begin,
                       int64_t end)
{
    const conv_job *j = a->j;
    const sw_conv *s = &j->s;
    const bool unit = is_unit(j);
    const int64_t most = a->in_c == 1 ? end : 2 * WIDE;
    a->v = v->t;
    a->h = h->t;
    for (int64_t next; begin < end; begin = next) {
        next = least(begin + most, end);
        for (int64_t col = 0; col < h->n; col += VW) {
            const int64_t ix = h->t.at + col * s->stride;
            const int n = (int)least(h->n - col, VW);
            const bool across = ix >= 0 && ix + n - 1 + h->t.end <= s->in_w;
            const bool narrow = SW_VEC_HALVES && unit && across && h->n <= VW / 2;
            a->h.at = ix;
            a->n = n;
            for (int64_t t = 0; t < h->t.end && t < KEPT; t++)
                a->in[t] = swi_lanes_inside(ix + t * j->step.position, s->stride, s->in_w, n);
            for (int64_t row = begin, rows; row < next; row += rows) {
                const int64_t iy = v->t.at + row * s->stride, left = next - row;
                const int64_t room = iy < 0 ? 0 : s->in_h - iy - v->t.end + 1; /* rows inside */
                const int pairs = left >= 2 * WIDE ? WIDE : 1;
                float *y =
                    a->y + (v->origin + row * j->up) * s->out_w + h->origin + col * j->up;
                a->v.at = iy;
                if (narrow && left >= 2 && room >= 2 * pairs) {
                    tiles[ob / 2][pairs > 1][PAIR - FULL](a, y);
                    rows = 2 * pairs;
                    continue;
                }
                rows = unit && left >= WIDE ? WIDE : 1;
                tile_kind kind = !across || room < rows ? EDGE : n == VW ? FULL : TAIL;
                tiles[ob / 2][rows > 1][(unit ? kind : STEP) - FULL](a, y);
            }
        }
    }
}

static void plain_rows(tile_args *a, int ob, int band)
{
    const conv_job *j = a->j;
    const sw_conv *s = &j->s;
    for (int64_t fy = 0; fy < j->up && fy < s->out_h; fy++) {
        const phase v = phase_of(j, fy, j->pad_y, s->kernel_h, s->out_h);
        for (int64_t fx = 0; fx < j->up && fx < s->out_w; fx++) {
            const phase h = phase_of(j, fx, j->pad_x, s->kernel_w, s->out_w);
            phase_rows(a, &v, &h, ob, vpiece(v.n, WIDE, band, j->bands),
                       vpiece(v.n, WIDE, band + 1, j->bands));
        }
    }
}

/* ---- parts ------------------------------------------------------------------------------- */

static const float no_bias[6];

static void conv_part(void *arg, int part)
{
    const conv_job *j = arg;
    const sw_conv *s = &j->s;
    const int64_t at = part / j->bands, out = swi_out_per(s), lanes = s->plain ? 1 : SWI_LANES;
    tile_args a = {.j = j, .in_c = swi_in_per(s)};
    for (int lane = 0; lane < lanes; lane += VW)
        for (int64_t g = 0; g < s->groups; g++) {
            const int64_t first = g * out, end = first + out;
            a.x = swi_element(j->x,
                              (at * s->in_c + g * a.in_c) * s->in_h * s->in_w * lanes + lane,
                              s->x_half);
            for (int64_t o = first; o < end;) {
                const int ob = swi_channel_block(end - o);
                a.w =
                    j->w + first * a.in_c * s->kernel_h * s->kernel_w + (o - first) * j->w_out;
                a.bias = j->bias != NULL ? j->bias + o : no_bias;
                a.y = swi_element(
                    j->y, (at * s->out_c + o) * s->out_h * s->out_w * lanes + lane, s->x_half);
                if (s->plain)
                    plain_rows(&a, ob, part % j->bands);
                else
                    block_rows(&a, ob, part % j->bands);
                o += ob;
            }
        }
}

static void run(conv_job *j, const sw_par *par)
{
    const sw_conv *s = &j->s;
    const int64_t units = s->plain ? s->batch : swi_blocks(s->batch);
    const int64_t most = s->plain ? (s->out_h + WIDE - 1) / WIDE : s->out_h;
    const int wanted = par != NULL && par->n_threads > 1 ? 2 * par->n_threads : 1;
    int64_t bands = units > 0 && units < wanted ? (wanted + units - 1) / units : 1;
    bands = bands < most ? bands : most;
    j->step = sw_tap_steps(j->up, s->dilation);
    j->bands = bands < 1 || swi_conv_work(s) < SWI_WORTH ? 1 : (int)bands;
    vparts(par, conv_part, j, (int)units * j->bands, swi_conv_work(s) >= SWI_WORTH);
}

/* A plain kernel of one position, no stride and no padding: a plane is one long row. */
sw_conv swi_conv_flat(const sw_conv *s)
{
    sw_conv flat = *s;
    if (s->plain && s->kernel_h == 1 && s->kernel_w == 1 && s->stride == 1 && s->pad == 0) {
        flat.in_w = flat.out_w = s->in_h * s->in_w;
        flat.in_h = flat.out_h = flat.dilation = 1;
    }
    return flat;
}

size_t SW_KERNEL(dense, conv_bytes)(const sw_conv *given)
{
    const sw_conv s = swi_conv_whole(given);
    return swi_conv_is_product(&s) ? swi_conv_product_bytes(&s, false) : 0;
}

void SW_KERNEL(dense, conv)(float *y, const float *x, const float *w, const float *bias,
                            const sw_conv *given, bool accumulate, void *scratch,
                            const sw_par *par)
{
    const sw_conv s = swi_conv_whole(given);
    const int64_t kk = s.kernel_h * s.kernel_w;
    if (swi_conv_is_product(&s)) {
        swi_conv_product(y, x, w, bias, &s, false, accumulate, scratch, par);
        return;
    }
    conv_job j = {.y = y, .x = x, .w = w, .bias = bias, .s = swi_conv_flat(&s), .up = 1};
    j.accumulate = accumulate;
    j.pad_y = j.pad_x = s.pad;
    j.w_out = swi_in_per(&s) * kk, j.w_in = kk, j.w_row = s.kernel_w, j.w_tap = 1;
    run(&j, par);
}

/* ---- the gradient of x ------------------------------------------------------------------- */

typedef struct {
    const float *w;
    float *turned;
    const sw_conv *s;
    int parts;
} turn_job;

static void turn_part(void *arg, int part)
{
    const turn_job *j = arg;
    const sw_conv *s = j->s;
    const int64_t kk = s->kernel_h * s->kernel_w, in = swi_in_per(s), out = swi_out_per(s);
    const int64_t end = vpiece(s->in_c, 1, part + 1, j->parts);
    for (int64_t c = vpiece(s->in_c, 1, part, j->parts); c < end; c++)
        for (int64_t o = 0; o < out; o++) {
            float *to = j->turned + (c * out + o) * kk;
            const float *from = j->w + ((c / in * out + o) * in + c % in) * kk;
            for (int64_t k = 0; k < kk; k++)
                to[k] = from[kk - 1 - k];
        }
}

size_t SW_KERNEL(dense, conv_dx_bytes)(const sw_conv *given)
{
    const sw_conv s = swi_conv_whole(given);
    if (swi_conv_is_product(&s))
        return swi_conv_product_bytes(&s, true);
    return s.plain ? 0 : (size_t)swi_weights(&s) * sizeof(float);
}

void SW_KERNEL(dense, conv_dx)(float *dx, const float *dy, const float *w, const float *bias,
                               const sw_conv *given, bool accumulate, void *scratch,
                               const sw_par *par)
{
    const sw_conv s = swi_conv_whole(given), flat = swi_conv_flat(&s);
    const int64_t kk = s.kernel_h * s.kernel_w;
    if (swi_conv_is_product(&s)) {
        swi_conv_product(dx, dy, w, bias, &s, true, accumulate, scratch, par);
        return;
    }
    conv_job j = {.y = dx, .x = dy, .bias = bias, .s = flat, .up = s.stride};
    j.accumulate = accumulate;
    j.s.stride = 1;
    j.s.in_c = s.out_c, j.s.in_h = flat.out_h, j.s.in_w = flat.out_w;
    j.s.out_c = s.in_c, j.s.out_h = flat.in_h, j.s.out_w = flat.in_w;
    j.pad_y = (s.kernel_h - 1) * s.dilation - s.pad;
    j.pad_x = (s.kernel_w - 1) * s.dilation - s.pad;
    if (s.plain) {
        j.w = w + kk - 1;
        j.w_out = kk, j.w_in = swi_in_per(&s) * kk, j.w_row = -s.kernel_w, j.w_tap = -1;
    } else {
        turn_job t = {.w = w, .turned = scratch, .s = &s};
        const bool large = swi_weights(&s) >= 65536 && par != NULL && par->n_threads > 1;
        t.parts = large ? par->n_threads : 1;
        vparts(par, turn_part, &t, t.parts, large);
        j.w = scratch;
        j.w_out = swi_out_per(&s) * kk, j.w_in = kk, j.w_row = s.kernel_w, j.w_tap = 1;
    }
    run(&j, par);
}
