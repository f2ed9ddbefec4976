/* Gradients of the convolution over blocks of sixteen images.
 *
 * dx: the weights are turned round in scratch, (in_c, out_c / groups, kernel_h, kernel_w) with
 * both kernel axes reversed. dx is then a convolution of dy, spread out where the stride is
 * not 1.
 *
 * dw: images are cut into chunks by shape. In a chunk the sums of a few channels by up to five
 * taps of a kernel row, or by a 3 x 3 kernel, live in registers, lanes apart, along all blocks,
 * rows and columns; then lanes are summed into the chunk's partial result. Partials are summed
 * in chunk order. */
#include "kernels/cpu/isa/dense_internal.h"

static double work_of(const sw_conv *s)
{
    return (double)(swi_blocks(s->batch) * SWI_LANES) * (double)swi_weights(s) *
           (double)(s->out_h * s->out_w);
}

/* ---- dx ---------------------------------------------------------------------------------- */

typedef struct {
    const float *w;
    float *turned;
    const sw_conv *s;
    int parts;
} turn_job;

size_t swi_conv_dx_bytes(const sw_conv *s)
{
    return (size_t)swi_weights(s) * sizeof(float);
}

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

void swi_conv_dx(float *dx, const float *dy, const float *w, const float *bias,
                 const sw_conv *s, bool accumulate, void *scratch, const sw_par *par)
{
    turn_job j = {.w = w, .turned = scratch, .s = s};
    const bool large = swi_weights(s) >= 65536 && par != NULL && par->n_threads > 1;
    j.parts = large ? par->n_threads : 1;
    vparts(par, turn_part, &j, j.parts, large);
    swi_conv_job job = {.y = dx, .x = dy, .w = scratch, .s = *s, .accumulate = accumulate};
    job.bias = bias;
    job.up = s->stride;
    job.s.stride = 1;
    job.s.in_c = s->out_c, job.s.in_h = s->out_h, job.s.in_w = s->out_w;
    job.s.out_c = s->in_c, job.s.out_h = s->in_h, job.s.out_w = s->in_w;
    job.pad_y = (s->kernel_h - 1) * s->dilation - s->pad;
    job.pad_x = (s->kernel_w - 1) * s->dilation - s->pad;
    swi_conv_run(&job, par);
}

/* ---- dw ---------------------------------------------------------------------------------- */

enum { TAPS = 5, POSITIONS = 9 }; /* of a kernel row; of a register block */
#if SW_ISA_ID == 2
enum { CHANNELS = 4 }; /* 4 x 5 accumulators, 4 + 1 operands; or 2 x 9 */
#else
enum { CHANNELS = 2 };
#endif

typedef struct {
    float *dw, *db, *partial;
    const float *x, *dy;
    const sw_conv *s;
    bool accumulate_dw, accumulate_db;
    int64_t blocks, chunks, per_chunk; /* blocks of a chunk */
    int64_t size;                      /* floats of a partial: dw, db, up to a whole 64 bytes */
    int spans;                         /* of a group's output channels, for threads */
    int pieces;                        /* of the sum of partials */
} dw_job;

/* By shape only: at least two blocks in a chunk, at most sixteen chunks, and no more than a
 * megabyte of partials where weights are many. */
static dw_job plan_dw(const sw_conv *s)
{
    const int64_t weights = swi_weights(s), blocks = swi_blocks(s->batch);
    dw_job j = {.s = s, .blocks = blocks};
    j.size = (weights + s->out_c + 15) / 16 * 16;
    int64_t most = (1 << 18) / j.size;
    most = most < 1 ? 1 : most > 16 ? 16 : most;
    j.chunks = (blocks + 1) / 2 < most ? (blocks + 1) / 2 : most;
    j.chunks = j.chunks < 1 ? 1 : j.chunks;
    j.per_chunk = (blocks + j.chunks - 1) / j.chunks;
    return j;
}

size_t swi_conv_dw_bytes(const sw_conv *s)
{
    const dw_job j = plan_dw(s);
    return (size_t)j.chunks * (size_t)j.size * sizeof(float);
}

/* A register block: ob channels from o on by nr kernel rows from ky on by nt taps from kx on,
 * for channel c of x, over blocks [b0, b1). ob, nr and nt are constants where it runs. */
typedef struct {
    const dw_job *j;
    float *partial;
    int64_t b0, b1, o, c, ky, kx;
} dw_args;

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
SW_VEC_FN void sum_positions(vf acc[CHANNELS][POSITIONS], const dw_args *a, int lane, int ob,
                             int nr, int nt)
{
    const sw_conv *s = a->j->s;
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

SW_VEC_FN void taps(const dw_args *a, int ob, int nr, int nt)
{
    const sw_conv *s = a->j->s;
    float total[POSITIONS][4] = {{0}}, sum[4];
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        vf acc[CHANNELS][POSITIONS];
        SW_UNROLL
        for (int o = 0; o < ob; o++) {
            SW_UNROLL
            for (int t = 0; t < nr * nt; t++)
                acc[o][t] = vzero();
        }
        sum_positions(acc, a, lane, ob, nr, nt);
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
            const int64_t row =
                ((a->o + o) * swi_in_per(s) + a->c % swi_in_per(s)) * s->kernel_h + ky;
            a->partial[row * s->kernel_w + kx] = total[t][o];
        }
}

#define DEFINE_TAPS(ob, nr, nt)                                                                \
    static void taps_##ob##_##nr##_##nt(const dw_args *a)                                      \
    {                                                                                          \
        taps(a, ob, nr, nt);                                                                   \
    }
#define DEFINE_CHANNELS(ob)                                                                    \
    DEFINE_TAPS(ob, 1, 1)                                                                      \
    DEFINE_TAPS(ob, 1, 2) DEFINE_TAPS(ob, 1, 3) DEFINE_TAPS(ob, 1, 4) DEFINE_TAPS(ob, 1, 5)

DEFINE_CHANNELS(1)
DEFINE_CHANNELS(2)
DEFINE_TAPS(1, 3, 3)
#if SW_ISA_ID == 2
DEFINE_CHANNELS(4)
DEFINE_TAPS(2, 3, 3)
#endif

#define LIST_CHANNELS(ob)                                                                      \
    {                                                                                          \
        taps_##ob##_1_1, taps_##ob##_1_2, taps_##ob##_1_3, taps_##ob##_1_4, taps_##ob##_1_5    \
    }
typedef void taps_fn(const dw_args *a);
/* By channels (1, 2, 4) and taps; by channels for three rows of three. */
#if SW_ISA_ID == 2
static taps_fn *const row_table[][TAPS] = {LIST_CHANNELS(1), LIST_CHANNELS(2),
                                           LIST_CHANNELS(4)};
static taps_fn *const square_table[] = {taps_1_3_3, taps_2_3_3};
#else
static taps_fn *const row_table[][TAPS] = {LIST_CHANNELS(1), LIST_CHANNELS(2)};
static taps_fn *const square_table[] = {taps_1_3_3};
#endif

/* All weights of one input channel and the output channels from a->o on; returns how many those
 * were. Kernels three wide go three rows at a time: dy is then read once, not once for each
 * row. Taps that are not neighbours go one at a time. */
static int64_t channel_block(dw_args *a, int64_t left)
{
    const sw_conv *s = a->j->s;
    const bool square = s->kernel_w == 3 && s->kernel_h >= 3 && s->dilation == 1;
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
            row_table[wide][nt - 1](a);
            a->kx += nt;
        }
        a->ky++;
    }
    return (int64_t)1 << wide;
}

/* The sum of dy of one channel over blocks [b0, b1). */
static float bias_sum(const dw_job *j, int64_t b0, int64_t b1, int64_t o)
{
    const int64_t positions = j->s->out_h * j->s->out_w;
    float total = 0.0f;
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        vf acc[4] = {vzero(), vzero(), vzero(), vzero()};
        for (int64_t b = b0; b < b1; b++) {
            const float *dy = j->dy + (b * j->s->out_c + o) * positions * SWI_LANES + lane;
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
static void dw_part(void *arg, int part)
{
    const dw_job *j = arg;
    const sw_conv *s = j->s;
    const int span = part % j->spans, unit = part / j->spans;
    const int64_t chunk = unit / s->in_c;
    dw_args a = {.j = j, .c = unit % s->in_c, .partial = j->partial + chunk * j->size};
    a.b0 = chunk * j->per_chunk < j->blocks ? chunk * j->per_chunk : j->blocks;
    a.b1 = a.b0 + j->per_chunk < j->blocks ? a.b0 + j->per_chunk : j->blocks;
    const int64_t out = swi_out_per(s), group = a.c / swi_in_per(s);
    const int64_t first = group * out + vpiece(out, CHANNELS, span, j->spans);
    const int64_t end = group * out + vpiece(out, CHANNELS, span + 1, j->spans);
    for (a.o = first; a.o < end;)
        a.o += channel_block(&a, end - a.o);
    if (a.c % swi_in_per(s) != 0)
        return;
    float *db = a.partial + swi_weights(s);
    for (int64_t o = first; o < end; o++)
        db[o] = j->db != NULL ? bias_sum(j, a.b0, a.b1, o) : 0.0f;
    for (int64_t i = swi_weights(s) + s->out_c; end == s->out_c && i < j->size; i++)
        a.partial[i] = 0.0f;
}

static void sum_part(void *arg, int part)
{
    const dw_job *j = arg;
    const int64_t weights = swi_weights(j->s),
                  all = weights + (j->db != NULL ? j->s->out_c : 0);
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

void swi_conv_dw(float *dw, float *db, const float *x, const float *dy, const sw_conv *s,
                 bool accumulate_dw, bool accumulate_db, void *scratch, const sw_par *par)
{
    dw_job j = plan_dw(s);
    j.dw = dw, j.db = db, j.x = x, j.dy = dy, j.partial = scratch;
    j.accumulate_dw = accumulate_dw, j.accumulate_db = accumulate_db;
    const int64_t wanted = par != NULL ? 2 * par->n_threads : 1, units = j.chunks * s->in_c;
    const int64_t blocks = (swi_out_per(s) + CHANNELS - 1) / CHANNELS;
    j.spans = units >= wanted ? 1 : (int)((wanted + units - 1) / units);
    j.spans = j.spans < blocks ? j.spans : (int)blocks;
    vruns(par, dw_part, &j, (int)units * j.spans, work_of(s) >= SWI_WORTH);
    const bool large = j.size * j.chunks >= 262144 && par != NULL && par->n_threads > 1;
    j.pieces = large ? par->n_threads : 1;
    vparts(par, sum_part, &j, j.pieces, large);
}
