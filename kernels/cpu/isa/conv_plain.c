/* Convolution over plain (batch, c, h, w) images, for batches that would leave many lanes of a
 * block of sixteen empty. Vectors lie along the width. A register block is up to 6 output
 * channels by a few rows by one vector of columns; weights are scalars, broadcast. Every
 * element is summed over c, ky, kx beginning with the bias, whatever tile it falls in, and what
 * lies outside the image is left out: in one instruction set the bits are those of the blocks.
 *
 * The gradient of x is the same job with the weights read backwards. `up` > 1 undoes a stride:
 * positions of y fall into up x up phases, each of which meets every up-th weight, and
 * neighbours of one phase meet neighbouring positions of x. Neither needs scratch.
 *
 * Parts of the work: one image and one band of rows. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/lanes.h"

#if SW_ISA_ID == 2
enum { ROWS = 4 }; /* 6 x 4 accumulators of 32 registers */
#else
enum { ROWS = 2 };
#endif

enum { KEPT = 16 }; /* taps of a row for which lanes are kept */

typedef struct {
    float *y;
    const float *x, *w, *bias;
    sw_conv s; /* stride is 1 where up > 1; its pad is not used */
    int64_t pad_y, pad_x, up;
    sw_tap_step step;                  /* of taps, by `up` and dilation */
    int64_t w_out, w_in, w_row, w_tap; /* steps of w: channel of y, channel of x, ky, kx */
    bool accumulate;
    int bands; /* of rows, for threads */
} plain_job;

/* One phase of one axis: its positions of y are origin + i * up, i < n. Position i meets
 * weights first + t * step.weight, t < taps, at positions at + i * stride + t * step.position
 * of x. */
typedef struct {
    int64_t origin, n, first, taps, at;
} phase;

typedef struct {
    const plain_job *j;
    const float *x, *w, *bias; /* this image and group; this channel of y */
    int64_t in_c;              /* channels of x in the group */
    float *y;
    phase v, h; /* rows; columns */
    int64_t row, col;
    int n;              /* columns, at most VW */
    swi_lanes in[KEPT]; /* of a vector that may leave the row, for the first taps */
} tile_args;

static phase phase_of(const plain_job *j, int64_t origin, int64_t pad, int64_t kernel,
                      int64_t size)
{
    phase p = {.origin = origin, .n = (size - origin + j->up - 1) / j->up};
    p.taps = sw_taps_at(origin - pad, j->up, j->s.dilation, j->step, kernel, &p.first, &p.at);
    return p;
}

/* Nothing but neighbours: no strides, no dilation. */
static inline bool is_unit(const plain_job *j)
{
    return j->s.stride == 1 && j->up == 1 && j->s.dilation == 1;
}

/* Which lanes of a vector lie in a row of x: all; the first n; others for each tap, and rows
 * are tested too; the same with strides, in x (stride or dilation) or in y (up). PAIR: a vector
 * is the first n positions of two rows. */
typedef enum { FULL, TAIL, EDGE, STEP, PAIR } tile_kind;

/* The positions of a register block's row p in x, which lie in the image. */
SW_VEC_FN vf load_row(const float *x, int p, int64_t width, int n, tile_kind kind)
{
#if SW_VEC_HALVES
    if (kind == PAIR)
        return vload_halves(x + 2 * p * width, x + (2 * p + 1) * width, n);
#endif
    return kind == FULL ? vload(x + p * width) : vload_n(x + p * width, n);
}

#if SW_VEC_HALVES
SW_VEC_FN void store_pair(float *y, vf sum, int64_t width, int n, bool accumulate)
{
    if (accumulate)
        sum = vadd(vload_halves(y, y + width, n), sum);
    vstore_halves(y, y + width, sum, n);
}
#endif

SW_VEC_FN void store_lanes(float *y, vf sum, int n, int64_t up, bool accumulate)
{
    if (up > 1) {
        float lane[VW];
        vstore(lane, sum);
        for (int i = 0; i < n; i++)
            y[i * up] = accumulate ? y[i * up] + lane[i] : lane[i];
    } else if (n == VW) {
        vstore(y, accumulate ? vadd(vload(y), sum) : sum);
    } else {
        vstore_n(y, accumulate ? vadd(vload_n(y, n), sum) : sum, n);
    }
}

/* One tap of tiles that may leave the image: x and w point to it. It is number tx of row iy,
 * the first of which is at column ix. */
SW_VEC_FN void edge_tap(vf acc[6][ROWS], const tile_args *a, const float *x, const float *w,
                        int64_t iy, int64_t ix, int64_t tx, int ob, int rows, bool unit)
{
    const sw_conv *s = &a->j->s;
    const int64_t stride = unit ? 1 : s->stride, next_x = unit ? 1 : a->j->step.position;
    const swi_lanes in =
        tx < KEPT ? a->in[tx] : swi_lanes_inside(ix + tx * next_x, stride, s->in_w, a->n);
    SW_UNROLL
    for (int p = 0; p < rows; p++) {
        if ((uint64_t)(iy + p * stride) >= (uint64_t)s->in_h)
            continue;
        const float *from = x + p * stride * s->in_w;
        const vf v = unit ? vload_where(in.mask, from) : vload_step(from, stride, in.lo, in.hi);
        SW_UNROLL
        for (int o = 0; o < ob; o++)
            acc[o][p] = vfma_where(in.mask, vset1(w[o * a->j->w_out]), v, acc[o][p]);
    }
}

/* ob channels by `rows` rows (or pairs of rows) by a->n columns; ob, rows and kind are
 * constants. */
SW_VEC_FN void tile(const tile_args *a, int ob, int rows, tile_kind kind)
{
    const plain_job *j = a->j;
    const sw_conv *s = &j->s;
    const bool unit = kind != STEP;
    const int64_t up = unit ? 1 : j->up, stride = unit ? 1 : s->stride;
    const int64_t next_w = unit ? 1 : j->step.weight, next_x = unit ? 1 : j->step.position;
    const int64_t iy = a->v.at + a->row * stride, ix = a->h.at + a->col * stride;
    vf acc[6][ROWS];
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int p = 0; p < rows; p++)
            acc[o][p] = vset1(a->bias[o]);
    }
    for (int64_t c = 0; c < a->in_c; c++)
        for (int64_t ty = 0; ty < a->v.taps; ty++) {
            const int64_t row = iy + ty * next_x;
            const float *x = a->x + (c * s->in_h + row) * s->in_w + ix;
            const float *w = a->w + c * j->w_in + (a->v.first + ty * next_w) * j->w_row +
                             a->h.first * j->w_tap;
            for (int64_t tx = 0; tx < a->h.taps; tx++, x += next_x, w += next_w * j->w_tap) {
                if (kind == EDGE || kind == STEP) {
                    edge_tap(acc, a, x, w, row, ix, tx, ob, rows, unit);
                    continue;
                }
                vf v[ROWS];
                SW_UNROLL
                for (int p = 0; p < rows; p++)
                    v[p] = load_row(x, p, s->in_w, a->n, kind);
                SW_UNROLL
                for (int o = 0; o < ob; o++) {
                    const vf weight = vset1(w[o * j->w_out]);
                    SW_UNROLL
                    for (int p = 0; p < rows; p++)
                        acc[o][p] = vfma(weight, v[p], acc[o][p]);
                }
            }
        }
    float *y = a->y + (a->v.origin + a->row * up) * s->out_w + a->h.origin + a->col * up;
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int p = 0; p < rows; p++) {
#if SW_VEC_HALVES
            if (kind == PAIR) {
                store_pair(y + (o * s->out_h + 2 * p) * s->out_w, acc[o][p], s->out_w, a->n,
                           j->accumulate);
                continue;
            }
#endif
            store_lanes(y + (o * s->out_h + p * up) * s->out_w, acc[o][p], a->n, up,
                        j->accumulate);
        }
    }
}

#define DEFINE_TILE(ob, rows, kind)                                                            \
    static void tile_##ob##_##rows##_##kind(const tile_args *a)                                \
    {                                                                                          \
        tile(a, ob, rows, kind);                                                               \
    }
#if SW_VEC_HALVES
#define DEFINE_PAIRS(ob) DEFINE_TILE(ob, ROWS, PAIR) DEFINE_TILE(ob, 1, PAIR)
#define PAIRS(ob, rows) tile_##ob##_##rows##_PAIR
#else
#define DEFINE_PAIRS(ob)
#define PAIRS(ob, rows) NULL
#endif
#define DEFINE_TILES(ob)                                                                       \
    DEFINE_TILE(ob, ROWS, FULL)                                                                \
    DEFINE_TILE(ob, ROWS, TAIL)                                                                \
    DEFINE_TILE(ob, ROWS, EDGE)                                                                \
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
            tile_##ob##_ROWS_FULL, tile_##ob##_ROWS_TAIL, tile_##ob##_ROWS_EDGE, NULL,         \
                PAIRS(ob, ROWS)                                                                \
        }                                                                                      \
    }
typedef void tile_fn(const tile_args *a);
/* By half the channels (0: one), one row or ROWS, kind. Strides go one row at a time. */
static tile_fn *const tiles[4][2][5] = {LIST_TILES(1), LIST_TILES(2), LIST_TILES(4),
                                        LIST_TILES(6)};

/* All columns of the `rows` rows from a->row on. */
static void tile_rows(tile_args *a, int ob, int rows)
{
    const sw_conv *s = &a->j->s;
    const bool unit = is_unit(a->j);
    const int64_t iy = a->v.at + a->row * s->stride;
    const bool inside = iy >= 0 && iy + rows - 1 + a->v.taps <= s->in_h;
    for (a->col = 0; a->col < a->h.n; a->col += a->n) {
        const int64_t ix = a->h.at + a->col * s->stride, left = a->h.n - a->col;
        a->n = left < VW ? (int)left : VW;
        tile_kind kind = a->n == VW ? FULL : TAIL;
        if (!inside || ix < 0 || ix + a->n - 1 + a->h.taps > s->in_w)
            kind = EDGE;
        kind = unit ? kind : STEP;
        for (int64_t t = 0; kind >= EDGE && t < a->h.taps && t < KEPT; t++)
            a->in[t] = swi_lanes_inside(ix + t * a->j->step.position, s->stride, s->in_w, a->n);
        tiles[ob / 2][rows > 1][kind](a);
    }
}

/* How many pairs of rows begin here: two rows and their taps must lie in the image. */
static int pairs_here(const tile_args *a, int64_t end)
{
    const int64_t left = end - a->row, iy = a->v.at + a->row;
    const int pairs = left >= 2 * ROWS ? ROWS : 1;
    return left >= 2 && iy >= 0 && iy + 2 * pairs - 1 + a->v.taps <= a->j->s.in_h ? pairs : 0;
}

/* Rows [begin, end) of a phase, in pairs where two rows fit in a vector. */
static void phase_rows(tile_args *a, int ob, int64_t begin, int64_t end)
{
    const bool unit = is_unit(a->j);
    const bool narrow = SW_VEC_HALVES && unit && a->h.n <= VW / 2 && a->h.at >= 0 &&
                        a->h.at + a->h.n - 1 + a->h.taps <= a->j->s.in_w;
    for (a->row = begin; a->row < end;) {
        const int pairs = narrow ? pairs_here(a, end) : 0;
        if (pairs > 0) {
            a->col = 0;
            a->n = (int)a->h.n;
            tiles[ob / 2][pairs > 1][PAIR](a);
            a->row += 2 * pairs;
            continue;
        }
        const int rows = unit && end - a->row >= ROWS ? ROWS : 1;
        tile_rows(a, ob, rows);
        a->row += rows;
    }
}

static const float no_bias[6];

/* Channels [o, end) of one group; band of rows. */
static void group_rows(tile_args *a, int64_t image, int64_t o, int64_t end, int band)
{
    const plain_job *j = a->j;
    const sw_conv *s = &j->s;
    const float *w = j->w + o * a->in_c * s->kernel_h * s->kernel_w;
    for (const int64_t first = o; o < end;) {
        const int ob = swi_channel_block(end - o);
        a->w = w + (o - first) * j->w_out;
        a->bias = j->bias != NULL ? j->bias + o : no_bias;
        a->y = j->y + (image * s->out_c + o) * s->out_h * s->out_w;
        for (int64_t fy = 0; fy < j->up && fy < s->out_h; fy++) {
            a->v = phase_of(j, fy, j->pad_y, s->kernel_h, s->out_h);
            for (int64_t fx = 0; fx < j->up && fx < s->out_w; fx++) {
                a->h = phase_of(j, fx, j->pad_x, s->kernel_w, s->out_w);
                phase_rows(a, ob, vpiece(a->v.n, ROWS, band, j->bands),
                           vpiece(a->v.n, ROWS, band + 1, j->bands));
            }
        }
        o += ob;
    }
}

static void plain_part(void *arg, int part)
{
    const plain_job *j = arg;
    const sw_conv *s = &j->s;
    const int64_t image = part / j->bands, out = swi_out_per(s);
    tile_args a = {.j = j, .in_c = swi_in_per(s)};
    for (int64_t g = 0; g < s->groups; g++) {
        a.x = j->x + (image * s->in_c + g * a.in_c) * s->in_h * s->in_w;
        group_rows(&a, image, g * out, (g + 1) * out, part % j->bands);
    }
}

static void run(plain_job *j, const sw_par *par)
{
    const sw_conv *s = &j->s;
    const double work =
        (double)s->batch * (double)swi_weights(s) * (double)(s->out_h * s->out_w);
    j->step = sw_tap_steps(j->up, s->dilation);
    const int wanted = par != NULL && par->n_threads > 1 ? 2 * par->n_threads : 1;
    int64_t bands = s->batch > 0 && s->batch < wanted ? (wanted + s->batch - 1) / s->batch : 1;
    if (bands > (s->out_h + ROWS - 1) / ROWS)
        bands = (s->out_h + ROWS - 1) / ROWS;
    j->bands = bands < 1 || work < SWI_WORTH ? 1 : (int)bands;
    vparts(par, plain_part, j, (int)s->batch * j->bands, work >= SWI_WORTH);
}

/* A kernel of one position, no stride and no padding: a plane is one long row. */
sw_conv swi_conv_flat(const sw_conv *s)
{
    sw_conv flat = *s;
    if (s->kernel_h == 1 && s->kernel_w == 1 && s->stride == 1 && s->pad == 0) {
        flat.in_w = flat.out_w = s->in_h * s->in_w;
        flat.in_h = flat.out_h = flat.dilation = 1;
    }
    return flat;
}

void swi_conv_plain(float *y, const float *x, const float *w, const float *bias,
                    const sw_conv *s, bool accumulate, const sw_par *par)
{
    const int64_t kk = s->kernel_h * s->kernel_w;
    plain_job j = {.y = y, .x = x, .w = w, .bias = bias, .s = swi_conv_flat(s), .up = 1};
    j.accumulate = accumulate;
    j.pad_y = j.pad_x = s->pad;
    j.w_out = swi_in_per(s) * kk, j.w_in = kk, j.w_row = s->kernel_w, j.w_tap = 1;
    run(&j, par);
}

void swi_conv_plain_dx(float *dx, const float *dy, const float *w, const float *bias,
                       const sw_conv *s, bool accumulate, const sw_par *par)
{
    const sw_conv flat = swi_conv_flat(s);
    const int64_t kk = s->kernel_h * s->kernel_w;
    plain_job j = {.y = dx, .x = dy, .w = w + kk - 1, .s = flat, .accumulate = accumulate};
    j.bias = bias;
    j.up = s->stride;
    j.s.stride = 1;
    j.s.in_c = s->out_c, j.s.in_h = flat.out_h, j.s.in_w = flat.out_w;
    j.s.out_c = s->in_c, j.s.out_h = flat.in_h, j.s.out_w = flat.in_w;
    j.pad_y = (s->kernel_h - 1) * s->dilation - s->pad;
    j.pad_x = (s->kernel_w - 1) * s->dilation - s->pad;
    j.w_out = kk, j.w_in = swi_in_per(s) * kk, j.w_row = -s->kernel_w, j.w_tap = -1;
    run(&j, par);
}
