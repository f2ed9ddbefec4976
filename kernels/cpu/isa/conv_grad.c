/* Gradients of the convolution over blocks of sixteen images.
 *
 * dx: the weights are turned round in scratch, (in_c, out_c, kernel_h, kernel_w) with both kernel axes
 * reversed. With stride 1 dx is then a convolution of dy; other strides are gathered, with the sums in
 * the same order: o, then dy's rows, then its columns.
 *
 * dw: images are cut into chunks by shape. In a chunk the sums of a few channels by up to five taps of a
 * kernel row live in registers, lanes apart, along all blocks, rows and columns; then lanes are summed
 * into the chunk's partial result. Partials are summed in chunk order. */
#include "kernels/cpu/isa/dense_internal.h"

static int64_t weights_of(const sw_conv *s)
{
    return s->out_c * s->in_c * s->kernel_h * s->kernel_w;
}

static double work_of(const sw_conv *s)
{
    return (double)(swi_blocks(s->batch) * SWI_LANES) * (double)weights_of(s) *
           (double)(s->out_h * s->out_w);
}

/* ---- dx ---------------------------------------------------------------------------------------- */

typedef struct {
    float *dx;
    const float *dy, *w;
    float *turned;
    const sw_conv *s;
    bool accumulate;
    int parts;
} dx_job;

size_t swi_conv_dx_bytes(const sw_conv *s)
{
    return (size_t)weights_of(s) * sizeof(float);
}

static void turn_part(void *arg, int part)
{
    const dx_job *j = arg;
    const sw_conv *s = j->s;
    const int64_t kk = s->kernel_h * s->kernel_w;
    const int64_t end = vpiece(s->in_c, 1, part + 1, j->parts);
    for (int64_t c = vpiece(s->in_c, 1, part, j->parts); c < end; c++)
        for (int64_t o = 0; o < s->out_c; o++) {
            float *to = j->turned + (c * s->out_c + o) * kk;
            const float *from = j->w + (o * s->in_c + c) * kk;
            for (int64_t k = 0; k < kk; k++)
                to[k] = from[kk - 1 - k];
        }
}

/* The output place that tap k of input place i belongs to, or -1. */
static inline int64_t output_of(int64_t i, int64_t k, int64_t stride, int64_t pad, int64_t n)
{
    const int64_t at = i + pad - k;
    return at >= 0 && at % stride == 0 && at / stride < n ? at / stride : -1;
}

static void gather_pixel(const dx_job *j, float *dx, const float *dy, const float *w, int64_t iy,
                         int64_t ix)
{
    const sw_conv *s = j->s;
    vf acc[SWI_GROUPS];
    for (int g = 0; g < SWI_GROUPS; g++)
        acc[g] = vzero();
    for (int64_t o = 0; o < s->out_c; o++)
        for (int64_t ky = s->kernel_h - 1; ky >= 0; ky--) { /* backwards: rows of dy upwards */
            const int64_t oy = output_of(iy, ky, s->stride, s->pad, s->out_h);
            for (int64_t kx = oy < 0 ? -1 : s->kernel_w - 1; kx >= 0; kx--) {
                const int64_t ox = output_of(ix, kx, s->stride, s->pad, s->out_w);
                if (ox < 0)
                    continue;
                const float *from = dy + ((o * s->out_h + oy) * s->out_w + ox) * SWI_LANES;
                const int64_t k = s->kernel_h * s->kernel_w - 1 - (ky * s->kernel_w + kx);
                const vf weight = vset1(w[o * s->kernel_h * s->kernel_w + k]);
                for (int g = 0; g < SWI_GROUPS; g++)
                    acc[g] = vfma(weight, vload(from + g * VW), acc[g]);
            }
        }
    for (int g = 0; g < SWI_GROUPS; g++) {
        float *to = dx + g * VW;
        vstore(to, j->accumulate ? vadd(vload(to), acc[g]) : acc[g]);
    }
}

/* One block, one input channel. */
static void gather_part(void *arg, int part)
{
    const dx_job *j = arg;
    const sw_conv *s = j->s;
    const int64_t block = part / s->in_c, c = part % s->in_c;
    float *dx = j->dx + (int64_t)part * s->in_h * s->in_w * SWI_LANES;
    const float *dy = j->dy + block * s->out_c * s->out_h * s->out_w * SWI_LANES;
    const float *w = j->turned + c * s->out_c * s->kernel_h * s->kernel_w;
    for (int64_t iy = 0; iy < s->in_h; iy++)
        for (int64_t ix = 0; ix < s->in_w; ix++, dx += SWI_LANES)
            gather_pixel(j, dx, dy, w, iy, ix);
}

void swi_conv_dx(float *dx, const float *dy, const float *w, const sw_conv *s, bool accumulate,
                 void *scratch, const sw_par *par)
{
    dx_job j = {.dx = dx, .dy = dy, .w = w, .turned = scratch, .s = s, .accumulate = accumulate};
    const bool large = weights_of(s) >= 65536 && par != NULL && par->n_threads > 1;
    j.parts = large ? par->n_threads : 1;
    vparts(par, turn_part, &j, j.parts, large);
    if (s->stride != 1 || s->pad >= s->kernel_h || s->pad >= s->kernel_w) {
        vparts(par, gather_part, &j, (int)(swi_blocks(s->batch) * s->in_c), work_of(s) >= SWI_WORTH);
        return;
    }
    swi_conv_job job = {.y = dx, .x = dy, .w = scratch, .s = *s, .accumulate = accumulate};
    job.s.in_c = s->out_c, job.s.in_h = s->out_h, job.s.in_w = s->out_w;
    job.s.out_c = s->in_c, job.s.out_h = s->in_h, job.s.out_w = s->in_w;
    job.pad_y = s->kernel_h - 1 - s->pad;
    job.pad_x = s->kernel_w - 1 - s->pad;
    swi_conv_run(&job, par);
}

/* ---- dw ---------------------------------------------------------------------------------------- */

enum { TAPS = 5 };
#if SW_ISA_ID == 2
enum { CHANNELS = 4 }; /* 4 x 5 accumulators, 4 + 1 operands */
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
    int pieces;                        /* of the sum of partials */
} dw_job;

/* By shape only: at least two blocks in a chunk, at most sixteen chunks, and no more than a megabyte of
 * partials where weights are many. */
static dw_job plan_dw(const sw_conv *s)
{
    const int64_t weights = weights_of(s), blocks = swi_blocks(s->batch);
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

/* ob channels from o on and nt taps of kernel row ky from kx on, input channel c, over blocks
 * [b0, b1); ob and nt are constants. */
typedef struct {
    const dw_job *j;
    float *partial;
    int64_t b0, b1, o, c, ky, kx;
} dw_args;

/* One column: every tap that lies in the image, or all of them where `inside`. */
SW_VEC_FN void column(vf acc[CHANNELS][TAPS], const float *x, const float *dy, int64_t plane,
                      int64_t ix, int64_t in_w, int ob, int nt, bool inside)
{
    vf d[CHANNELS];
    for (int o = 0; o < ob; o++)
        d[o] = vload(dy + o * plane);
    for (int t = 0; t < nt; t++) {
        if (!inside && (uint64_t)(ix + t) >= (uint64_t)in_w)
            continue;
        const vf v = vload(x + (ix + t) * SWI_LANES);
        for (int o = 0; o < ob; o++)
            acc[o][t] = vfma(v, d[o], acc[o][t]);
    }
}

SW_VEC_FN void taps(const dw_args *a, int ob, int nt)
{
    const sw_conv *s = a->j->s;
    const int64_t plane = s->out_h * s->out_w * SWI_LANES;
    /* columns [lo, hi) have all taps inside */
    const int64_t before = s->pad - a->kx, room = s->in_w + s->pad - a->kx - nt;
    int64_t lo = before > 0 ? (before + s->stride - 1) / s->stride : 0;
    int64_t hi = room >= 0 ? room / s->stride + 1 : 0;
    hi = hi < s->out_w ? hi : s->out_w;
    hi = hi > 0 ? hi : 0;
    lo = lo < hi ? lo : hi;
    float sum[4], total[CHANNELS][TAPS] = {{0}};
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        vf acc[CHANNELS][TAPS];
        for (int o = 0; o < ob; o++)
            for (int t = 0; t < nt; t++)
                acc[o][t] = vzero();
        for (int64_t b = a->b0; b < a->b1; b++)
            for (int64_t oy = 0; oy < s->out_h; oy++) {
                const int64_t iy = oy * s->stride + a->ky - s->pad;
                if (iy < 0 || iy >= s->in_h)
                    continue;
                const float *x =
                    a->j->x + ((b * s->in_c + a->c) * s->in_h + iy) * s->in_w * SWI_LANES + lane;
                const float *dy = a->j->dy + (b * s->out_c + a->o) * plane +
                                  oy * s->out_w * SWI_LANES + lane;
                int64_t ox = 0, ix = a->kx - s->pad;
                for (; ox < lo; ox++, ix += s->stride)
                    column(acc, x, dy + ox * SWI_LANES, plane, ix, s->in_w, ob, nt, false);
                for (; ox < hi; ox++, ix += s->stride)
                    column(acc, x, dy + ox * SWI_LANES, plane, ix, s->in_w, ob, nt, true);
                for (; ox < s->out_w; ox++, ix += s->stride)
                    column(acc, x, dy + ox * SWI_LANES, plane, ix, s->in_w, ob, nt, false);
            }
        for (int t = 0; t < nt; t++) {
            vf four[4] = {vzero(), vzero(), vzero(), vzero()};
            for (int o = 0; o < ob; o++)
                four[o] = acc[o][t];
            vsum4(sum, four[0], four[1], four[2], four[3]);
            for (int o = 0; o < ob; o++)
                total[o][t] += sum[o];
        }
    }
    for (int o = 0; o < ob; o++)
        for (int t = 0; t < nt; t++)
            a->partial[(((a->o + o) * s->in_c + a->c) * s->kernel_h + a->ky) * s->kernel_w + a->kx +
                       t] = total[o][t];
}

#define DEFINE_TAPS(ob, nt)                                                                        \
    static void taps_##ob##_##nt(const dw_args *a)                                                 \
    {                                                                                              \
        taps(a, ob, nt);                                                                           \
    }
#define DEFINE_CHANNELS(ob)                                                                        \
    DEFINE_TAPS(ob, 1) DEFINE_TAPS(ob, 2) DEFINE_TAPS(ob, 3) DEFINE_TAPS(ob, 4) DEFINE_TAPS(ob, 5)
#define LIST_CHANNELS(ob)                                                                          \
    {                                                                                              \
        taps_##ob##_1, taps_##ob##_2, taps_##ob##_3, taps_##ob##_4, taps_##ob##_5                  \
    }

typedef void taps_fn(const dw_args *a);
DEFINE_CHANNELS(1)
DEFINE_CHANNELS(2)
#if SW_ISA_ID == 2
DEFINE_CHANNELS(4)
static taps_fn *const taps_table[][TAPS] = {LIST_CHANNELS(1), LIST_CHANNELS(2), LIST_CHANNELS(4)};
#else
static taps_fn *const taps_table[][TAPS] = {LIST_CHANNELS(1), LIST_CHANNELS(2)};
#endif

/* The sum of dy of one channel over blocks [b0, b1). */
static float bias_sum(const dw_job *j, int64_t b0, int64_t b1, int64_t o)
{
    const int64_t places = j->s->out_h * j->s->out_w;
    float total = 0.0f;
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        vf acc[4] = {vzero(), vzero(), vzero(), vzero()};
        for (int64_t b = b0; b < b1; b++) {
            const float *dy = j->dy + (b * j->s->out_c + o) * places * SWI_LANES + lane;
            int64_t i = 0;
            for (; i + 4 <= places; i += 4)
                for (int k = 0; k < 4; k++)
                    acc[k] = vadd(acc[k], vload(dy + (i + k) * SWI_LANES));
            for (; i < places; i++)
                acc[0] = vadd(acc[0], vload(dy + i * SWI_LANES));
        }
        float sum[4];
        vsum4(sum, vadd(vadd(acc[0], acc[2]), vadd(acc[1], acc[3])), vzero(), vzero(), vzero());
        total += sum[0];
    }
    return total;
}

/* One chunk, one input channel; the part of channel 0 also sums db and fills the rest of the partial. */
static void dw_part(void *arg, int part)
{
    const dw_job *j = arg;
    const sw_conv *s = j->s;
    const int64_t chunk = part / s->in_c;
    dw_args a = {.j = j, .c = part % s->in_c, .partial = j->partial + chunk * j->size};
    a.b0 = chunk * j->per_chunk < j->blocks ? chunk * j->per_chunk : j->blocks;
    a.b1 = a.b0 + j->per_chunk < j->blocks ? a.b0 + j->per_chunk : j->blocks;
    for (int64_t o = 0; o < s->out_c;) {
        const int64_t left = s->out_c - o;
        const int wide = left >= CHANNELS ? (CHANNELS == 4 ? 2 : 1) : left >= 2 ? 1 : 0;
        a.o = o;
        for (a.ky = 0; a.ky < s->kernel_h; a.ky++)
            for (a.kx = 0; a.kx < s->kernel_w;) {
                const int64_t rest = s->kernel_w - a.kx;
                const int nt = rest >= TAPS ? TAPS : (int)rest;
                taps_table[wide][nt - 1](&a);
                a.kx += nt;
            }
        o += (int64_t)1 << wide;
    }
    if (a.c != 0)
        return;
    float *rest = a.partial + weights_of(s);
    for (int64_t i = 0; i < j->size - weights_of(s); i++)
        rest[i] = i < s->out_c && j->db != NULL ? bias_sum(j, a.b0, a.b1, i) : 0.0f;
}

static void sum_part(void *arg, int part)
{
    const dw_job *j = arg;
    const int64_t weights = weights_of(j->s), all = weights + (j->db != NULL ? j->s->out_c : 0);
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
    vparts(par, dw_part, &j, (int)(j.chunks * s->in_c), work_of(s) >= SWI_WORTH);
    const bool large = j.size * j.chunks >= 262144 && par != NULL && par->n_threads > 1;
    j.pieces = large ? par->n_threads : 1;
    vparts(par, sum_part, &j, j.pieces, large);
}
