/* Convolution over blocks of sixteen images. A register block is up to 6 output channels by a
 * few neighbouring positions of a row; weights are scalars, broadcast in the order they are
 * stored in. Sums run over c, ky, kx, beginning with the bias. Rows and positions outside the
 * image are left out, not multiplied by zero, and every element sees the same order in every
 * block size.
 *
 * With `up` > 1 it is the turned convolution that undoes a stride: output positions fall into
 * `up` phases, each of which meets every up-th weight, and neighbours of one phase meet
 * neighbouring positions of x.
 *
 * Parts of the work: one block of images and one band of output rows. */
#include "kernels/cpu/isa/dense_internal.h"

#if SW_ISA_ID == 2
#define WIDE 4 /* positions: 6 x 4 accumulators of 32 registers */
#else
#define WIDE 2
#endif

/* Values that stay the same along a row of y. Tap t of a kernel row is weight first + t *
 * step.weight and meets row at + t * step.position of x; columns alike. */
typedef struct {
    const swi_conv_job *j;
    const float *x;         /* this block, group of channels, lane group */
    const float *w;         /* first channel of the register block */
    const float *bias;      /* of the register block, or zeros */
    float *y;               /* first channel, this row */
    int64_t in_c;           /* channels of x in the group, from x on */
    int64_t ky, t0, t1, iy; /* first weight row; taps that meet the image; x's row for tap 0 */
} row_args;

/* For output position i: the first weight, how many there are, and the position in x of the
 * first. */
static inline int64_t taps_of(const swi_conv_job *j, int64_t i, int64_t pad, int64_t kernel,
                              int64_t *first, int64_t *at)
{
    return sw_taps_at(i * j->s.stride - pad, j->up, j->s.dilation, j->step, kernel, first, at);
}

/* Two loops, not one with a test in it: clang would keep the sums in memory. */
SW_VEC_FN void store(const row_args *r, vf acc[6][WIDE], int64_t ox, int ob, int pb, int64_t up)
{
    const int64_t plane = r->j->s.out_h * r->j->s.out_w;
    float *y = r->y + ox * SWI_LANES;
    if (r->j->accumulate) {
        SW_UNROLL
        for (int o = 0; o < ob; o++) {
            SW_UNROLL
            for (int p = 0; p < pb; p++)
                acc[o][p] = vadd(vload(y + (o * plane + p * up) * SWI_LANES), acc[o][p]);
        }
    }
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int p = 0; p < pb; p++)
            vstore(y + (o * plane + p * up) * SWI_LANES, acc[o][p]);
    }
}

/* ob channels by pb positions, `up` apart from ox on; ob, pb, edge and unit (no strides, no
 * dilation) are constants. With `edge` each position is tested against the image. */
SW_VEC_FN void tile(const row_args *r, int64_t ox, int ob, int pb, bool edge, bool unit)
{
    const sw_conv *s = &r->j->s;
    const int64_t up = unit ? 1 : r->j->up, stride = unit ? 1 : s->stride,
                  step = stride * SWI_LANES;
    const int64_t next_w = unit ? 1 : r->j->step.weight,
                  next_x = unit ? 1 : r->j->step.position;
    const int64_t kk = s->kernel_h * s->kernel_w, in_c = r->in_c, per_out = in_c * kk;
    int64_t kx = 0, ix = ox - r->j->pad_x, nx = s->kernel_w;
    if (!unit)
        nx = taps_of(r->j, ox, r->j->pad_x, s->kernel_w, &kx, &ix);
    vf acc[6][WIDE];
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int p = 0; p < pb; p++)
            acc[o][p] = vset1(r->bias[o]);
    }
    for (int64_t c = 0; c < in_c; c++)
        for (int64_t ty = r->t0; ty < r->t1; ty++) {
            const float *x =
                r->x + ((c * s->in_h + r->iy + ty * next_x) * s->in_w + ix) * SWI_LANES;
            const float *w = r->w + c * kk + (r->ky + ty * next_w) * s->kernel_w + kx;
            for (int64_t tx = 0; tx < nx; tx++, x += next_x * SWI_LANES, w += next_w) {
                vf v[WIDE];
                if (edge) {
                    SW_UNROLL
                    for (int p = 0; p < pb; p++) {
                        if ((uint64_t)(ix + tx * next_x + p * stride) >= (uint64_t)s->in_w)
                            continue;
                        v[p] = vload(x + p * step);
                        SW_UNROLL
                        for (int o = 0; o < ob; o++)
                            acc[o][p] = vfma(vset1(w[o * per_out]), v[p], acc[o][p]);
                    }
                    continue;
                }
                SW_UNROLL
                for (int p = 0; p < pb; p++)
                    v[p] = vload(x + p * step);
                SW_UNROLL
                for (int o = 0; o < ob; o++) {
                    const vf weight = vset1(w[o * per_out]);
                    SW_UNROLL
                    for (int p = 0; p < pb; p++)
                        acc[o][p] = vfma(weight, v[p], acc[o][p]);
                }
            }
        }
    store(r, acc, ox, ob, pb, up);
}

/* Positions of one phase: first, first + up, ... They meet neighbouring positions of x. */
SW_VEC_FN void phase_of(const row_args *r, int64_t first, int ob, bool unit)
{
    const sw_conv *s = &r->j->s;
    const int64_t up = unit ? 1 : r->j->up, stride = unit ? 1 : s->stride;
    const int64_t next_x = unit ? 1 : r->j->step.position;
    for (int64_t ox = first; ox < s->out_w;) {
        const int64_t left = (s->out_w - ox + up - 1) / up;
        const int pb = left >= WIDE ? WIDE : left >= 2 ? 2 : 1;
        int64_t kx = 0, ix = ox - r->j->pad_x, nx = s->kernel_w;
        if (!unit)
            nx = taps_of(r->j, ox, r->j->pad_x, s->kernel_w, &kx, &ix);
        const bool edge = ix < 0 || ix + (pb - 1) * stride + (nx - 1) * next_x >= s->in_w;
        if (pb == WIDE) {
            if (edge)
                tile(r, ox, ob, WIDE, true, unit);
            else
                tile(r, ox, ob, WIDE, false, unit);
        } else if (pb == 2) {
            tile(r, ox, ob, 2, true, unit);
        } else {
            tile(r, ox, ob, 1, true, unit);
        }
        ox += pb * up;
    }
}

SW_VEC_FN void row_of(const row_args *r, int ob, bool unit)
{
    const int64_t phases = unit ? 1 : r->j->up;
    for (int64_t first = 0; first < phases; first++)
        phase_of(r, first, ob, unit);
}

static void row_6(const row_args *r)
{
    row_of(r, 6, true);
}

static void row_4(const row_args *r)
{
    row_of(r, 4, true);
}

static void row_2(const row_args *r)
{
    row_of(r, 2, true);
}

static void row_1(const row_args *r)
{
    row_of(r, 1, true);
}

static void row_6_strided(const row_args *r)
{
    row_of(r, 6, false);
}

static void row_4_strided(const row_args *r)
{
    row_of(r, 4, false);
}

static void row_2_strided(const row_args *r)
{
    row_of(r, 2, false);
}

static void row_1_strided(const row_args *r)
{
    row_of(r, 1, false);
}

typedef void row_fn(const row_args *r);

/* Depthwise: one channel of x, kernels 3 or 5 wide, stride 1 or 2. Neighbouring positions share
 * what they read; kw, pb and stride are constants. The order of sums is that of tile(). */
#if SW_ISA_ID == 2
enum { DEEP = 8 }; /* positions, with 8 + 4 operands of stride 1 */
#else
enum { DEEP = 4 };
#endif

SW_VEC_FN void depth_tile(const row_args *r, int64_t ox, int kw, int pb, int stride)
{
    const sw_conv *s = &r->j->s;
    const int64_t row = s->in_w * SWI_LANES;
    const float *x = r->x + ((r->iy + r->t0) * s->in_w + ox * stride - r->j->pad_x) * SWI_LANES;
    const float *w = r->w + r->t0 * kw;
    float *y = r->y + ox * SWI_LANES;
    vf acc[DEEP];
    SW_UNROLL
    for (int p = 0; p < pb; p++)
        acc[p] = vset1(r->bias[0]);
    for (int64_t ty = r->t0; ty < r->t1; ty++, x += row, w += kw) {
        SW_UNROLL
        for (int tx = 0; tx < kw; tx++) {
            const vf weight = vset1(w[tx]);
            SW_UNROLL
            for (int p = 0; p < pb; p++)
                acc[p] = vfma(weight, vload(x + (p * stride + tx) * SWI_LANES), acc[p]);
        }
    }
    SW_UNROLL
    for (int p = 0; p < pb; p++) {
        if (r->j->accumulate)
            acc[p] = vadd(vload(y + p * SWI_LANES), acc[p]);
        vstore(y + p * SWI_LANES, acc[p]);
    }
}

SW_VEC_FN void depth_row(const row_args *r, int kw, int stride)
{
    const sw_conv *s = &r->j->s;
    for (int64_t ox = 0; ox < s->out_w;) {
        const int64_t ix = ox * stride - r->j->pad_x, left = s->out_w - ox;
        if (ix >= 0 && left >= DEEP && ix + (DEEP - 1) * stride + kw <= s->in_w) {
            depth_tile(r, ox, kw, DEEP, stride);
            ox += DEEP;
        } else if (ix >= 0 && left >= 2 && ix + stride + kw <= s->in_w) {
            depth_tile(r, ox, kw, 2, stride);
            ox += 2;
        } else {
            tile(r, ox, 1, 1, true, false);
            ox++;
        }
    }
}

#define DEFINE_DEPTH(kw, stride)                                                               \
    static void depth_##kw##_##stride(const row_args *r)                                       \
    {                                                                                          \
        depth_row(r, kw, stride);                                                              \
    }
DEFINE_DEPTH(3, 1)
DEFINE_DEPTH(3, 2)
DEFINE_DEPTH(5, 1)
DEFINE_DEPTH(5, 2)

/* The same for images that are as wide as in nets: pb positions from ox on, which begin at a
 * multiple of `up`, with half a kernel of padding. Which taps lie left of the first (`left`) or
 * right of the last (`right`) position of x is a constant too, so nothing is tested. Position p
 * meets x at (p * stride + tap - pad) / up, where that is a whole number. */
SW_VEC_FN void depth_block(const row_args *r, int64_t ox, int kw, int stride, int up, int pb,
                           bool left, bool right)
{
    const sw_conv *s = &r->j->s;
    const int pad = kw / 2;
    const int64_t row = s->in_w * SWI_LANES;
    const float *x = r->x + (r->iy + r->t0) * row + ox * stride / up * SWI_LANES;
    const float *w = r->w + (r->ky + r->t0 * up) * kw;
    float *y = r->y + ox * SWI_LANES;
    vf acc[DEEP];
    SW_UNROLL
    for (int p = 0; p < pb; p++)
        acc[p] = vset1(r->bias[0]);
    for (int64_t ty = r->t0; ty < r->t1; ty++, x += row, w += up * kw) {
        SW_UNROLL
        for (int tx = 0; tx < kw; tx++) {
            const vf weight = vset1(w[tx]);
            SW_UNROLL
            for (int p = 0; p < pb; p++) {
                const int at = p * stride + tx - pad;
                if ((at & (up - 1)) != 0 || (left && at < 0) || (right && at >= pb * stride))
                    continue;
                acc[p] = vfma(weight, vload(x + at / up * SWI_LANES), acc[p]);
            }
        }
    }
    SW_UNROLL
    for (int p = 0; p < pb; p++) {
        if (r->j->accumulate)
            acc[p] = vadd(vload(y + p * SWI_LANES), acc[p]);
        vstore(y + p * SWI_LANES, acc[p]);
    }
}

SW_VEC_FN void depth_blocks(const row_args *r, int kw, int stride, int up)
{
    const int64_t width = r->j->s.out_w;
    if (width == 2) {
        depth_block(r, 0, kw, stride, up, 2, true, true);
    } else if (width == 4) {
        depth_block(r, 0, kw, stride, up, 4, true, true);
    } else if (width == DEEP) {
        depth_block(r, 0, kw, stride, up, DEEP, true, true);
    } else {
        depth_block(r, 0, kw, stride, up, DEEP, true, false);
        for (int64_t ox = DEEP; ox < width - DEEP; ox += DEEP)
            depth_block(r, ox, kw, stride, up, DEEP, false, false);
        depth_block(r, width - DEEP, kw, stride, up, DEEP, false, true);
    }
}

#define DEFINE_DEPTH_BLOCKS(kw, stride, up)                                                    \
    static void depth_blocks_##kw##_##stride##_##up(const row_args *r)                         \
    {                                                                                          \
        depth_blocks(r, kw, stride, up);                                                       \
    }
DEFINE_DEPTH_BLOCKS(3, 1, 1)
DEFINE_DEPTH_BLOCKS(3, 2, 1)
DEFINE_DEPTH_BLOCKS(3, 1, 2)
DEFINE_DEPTH_BLOCKS(5, 1, 1)
DEFINE_DEPTH_BLOCKS(5, 2, 1)
DEFINE_DEPTH_BLOCKS(5, 1, 2)

/* By half the kernel less one; stride 1, stride 2, up 2. */
static row_fn *const depth_blocks_of[2][3] = {
    {depth_blocks_3_1_1, depth_blocks_3_2_1, depth_blocks_3_1_2},
    {depth_blocks_5_1_1, depth_blocks_5_2_1, depth_blocks_5_1_2},
};

static bool fits_blocks(const swi_conv_job *j)
{
    const sw_conv *s = &j->s;
    const bool whole = s->out_w == 2 || s->out_w == 4 || (s->out_w > 0 && s->out_w % DEEP == 0);
    return whole && (j->up == 1 || s->stride == 1) && j->pad_x == s->kernel_w / 2 &&
           s->in_w * j->up == s->out_w * s->stride;
}

/* NULL where it has no kernel of its own. */
static row_fn *depth_for(const swi_conv_job *j)
{
    const sw_conv *s = &j->s;
    const bool three = s->kernel_w == 3;
    if (s->in_c != s->groups || s->out_c != s->groups || j->up > 2 || s->dilation != 1 ||
        s->stride > 2 || (!three && s->kernel_w != 5))
        return NULL;
    if (fits_blocks(j))
        return depth_blocks_of[three ? 0 : 1][j->up == 2 ? 2 : s->stride - 1];
    if (j->up != 1)
        return NULL;
    if (three)
        return s->stride == 1 ? depth_3_1 : depth_3_2;
    return s->stride == 1 ? depth_5_1 : depth_5_2;
}

static row_fn *row_for(int ob, bool unit)
{
    switch (ob) {
    case 6:
        return unit ? row_6 : row_6_strided;
    case 4:
        return unit ? row_4 : row_4_strided;
    case 2:
        return unit ? row_2 : row_2_strided;
    default:
        return unit ? row_1 : row_1_strided;
    }
}

static const float no_bias[6];

/* One group of channels of one block: channels [o, end) of y. */
static void group_rows(row_args *r, int64_t block, int64_t o, int64_t end, int lane, int band)
{
    const swi_conv_job *j = r->j;
    const sw_conv *s = &j->s;
    const int64_t plane = s->out_h * s->out_w;
    const int64_t begin = vpiece(s->out_h, 1, band, j->bands);
    const int64_t last = vpiece(s->out_h, 1, band + 1, j->bands);
    const bool unit = s->stride == 1 && j->up == 1 && s->dilation == 1;
    row_fn *depth = depth_for(j);
    while (o < end) {
        const int ob = swi_channel_block(end - o);
        row_fn *row = depth != NULL ? depth : row_for(ob, unit);
        r->w = j->w + o * r->in_c * s->kernel_h * s->kernel_w;
        r->bias = j->bias != NULL ? j->bias + o : no_bias;
        for (int64_t oy = begin; oy < last; oy++) {
            const int64_t ny = taps_of(j, oy, j->pad_y, s->kernel_h, &r->ky, &r->iy);
            const int64_t next = j->step.position, room = s->in_h - r->iy;
            const int64_t reach = room <= 0 ? 0 : (room + next - 1) / next;
            r->t0 = r->iy < 0 ? (next - 1 - r->iy) / next : 0;
            r->t1 = reach < ny ? reach : ny;
            r->y = j->y + ((block * s->out_c + o) * plane + oy * s->out_w) * SWI_LANES + lane;
            row(r);
        }
        o += ob;
    }
}

static void conv_part(void *arg, int part)
{
    const swi_conv_job *j = arg;
    const sw_conv *s = &j->s;
    const int64_t block = part / j->bands, out = swi_out_per(s);
    row_args r = {.j = j, .in_c = swi_in_per(s)};
    for (int lane = 0; lane < SWI_LANES; lane += VW)
        for (int64_t g = 0; g < s->groups; g++) {
            r.x = j->x + (block * s->in_c + g * r.in_c) * s->in_h * s->in_w * SWI_LANES + lane;
            group_rows(&r, block, g * out, (g + 1) * out, lane, part % j->bands);
        }
}

void swi_conv_run(swi_conv_job *job, const sw_par *par)
{
    const sw_conv *s = &job->s;
    const int64_t blocks = swi_blocks(s->batch);
    const double work =
        (double)(blocks * SWI_LANES) * (double)swi_weights(s) * (double)(s->out_h * s->out_w);
    job->step = sw_tap_steps(job->up, s->dilation);
    const int wanted = par != NULL && par->n_threads > 1 ? 2 * par->n_threads : 1;
    int64_t bands = blocks < wanted ? (wanted + blocks - 1) / (blocks > 0 ? blocks : 1) : 1;
    if (bands > s->out_h)
        bands = s->out_h;
    job->bands = bands < 1 || work < SWI_WORTH ? 1 : (int)bands;
    vparts(par, conv_part, job, (int)blocks * job->bands, work >= SWI_WORTH);
}

void swi_conv(float *y, const float *x, const float *w, const float *bias, const sw_conv *s,
              bool accumulate, const sw_par *par)
{
    swi_conv_job job = {.y = y, .x = x, .w = w, .bias = bias, .s = *s, .up = 1};
    job.accumulate = accumulate;
    job.pad_y = job.pad_x = s->pad;
    swi_conv_run(&job, par);
}
