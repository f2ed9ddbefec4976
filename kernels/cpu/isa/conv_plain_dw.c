/* Gradient of the weights of a convolution over plain images. The sums of a few output channels
 * by up to five taps of a kernel row live in registers, lanes along the width, over all images
 * and rows in order; then lanes are summed. Each weight belongs to one part of the work, so no
 * partial sums and no scratch are needed: a part is one input channel and one block of output
 * channels. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/lanes.h"

enum { TAPS = 5 };
#if SW_ISA_ID == 2
enum { CHANNELS = 4 }; /* 4 x 5 accumulators, 4 + 1 operands */
#else
enum { CHANNELS = 2 };
#endif

typedef struct {
    float *dw, *db;
    const float *x, *dy;
    sw_conv s;
    bool accumulate_dw, accumulate_db;
} dw_job;

/* Channels from o on, channel c of x, taps of row ky from kx on. */
typedef struct {
    const dw_job *j;
    int64_t o, c, ky, kx;
} dw_args;

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
SW_VEC_FN void row(vf acc[CHANNELS][TAPS], const sw_conv *s, const columns *v, const float *x,
                   const float *dy, int ob, int nt, columns_kind kind)
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

/* All images and rows of some columns. */
SW_VEC_FN void rows(vf acc[CHANNELS][TAPS], const dw_args *a, const columns *v, int ob, int nt,
                    columns_kind kind)
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
        int64_t oy = begin;
        for (; kind == PAIR && oy + 2 <= end; oy += 2)
            row(acc, s, v, x + oy * s->in_w, dy + oy * s->out_w, ob, nt, PAIR);
        for (; oy < end; oy++)
            row(acc, s, v, x + oy * stride * s->in_w, dy + oy * s->out_w, ob, nt,
                kind == PAIR ? TAIL : kind);
    }
}

/* All images and positions, one vector of columns after the other. */
SW_VEC_FN void sum_positions(vf acc[CHANNELS][TAPS], const dw_args *a, int ob, int nt,
                             bool unit)
{
    const sw_conv *s = &a->j->s;
    const int64_t stride = unit ? 1 : s->stride;
    for (int64_t ox = 0; ox < s->out_w; ox += VW) {
        const int64_t left = s->out_w - ox;
        columns v = {.ox = ox, .ix = ox * stride + a->kx * s->dilation - s->pad};
        v.n = left < VW ? (int)left : VW;
        const bool inside = v.ix >= 0 && v.ix + nt - 1 + v.n <= s->in_w;
        for (int t = 0; t < nt; t++)
            v.in[t] = swi_lanes_inside(v.ix + t, stride, s->in_w, v.n);
        if (!unit)
            rows(acc, a, &v, ob, nt, STEP);
        else if (!inside)
            rows(acc, a, &v, ob, nt, EDGE);
        else if (SW_VEC_HALVES && s->out_w <= VW / 2)
            rows(acc, a, &v, ob, nt, PAIR);
        else if (v.n < VW)
            rows(acc, a, &v, ob, nt, TAIL);
        else
            rows(acc, a, &v, ob, nt, FULL);
    }
}

SW_VEC_FN void taps(const dw_args *a, int ob, int nt, bool unit)
{
    const dw_job *j = a->j;
    const sw_conv *s = &j->s;
    vf acc[CHANNELS][TAPS];
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int t = 0; t < nt; t++)
            acc[o][t] = vzero();
    }
    sum_positions(acc, a, ob, nt, unit);
    float total[TAPS][4];
    SW_UNROLL
    for (int t = 0; t < nt; t++) {
        vf four[4] = {vzero(), vzero(), vzero(), vzero()};
        SW_UNROLL
        for (int o = 0; o < ob; o++)
            four[o] = acc[o][t];
        vsum4(total[t], four[0], four[1], four[2], four[3]);
    }
    const int64_t in_c = swi_in_per(s), kk = s->kernel_h * s->kernel_w;
    float *dw = j->dw + (a->o * in_c + a->c % in_c) * kk + a->ky * s->kernel_w + a->kx;
    for (int o = 0; o < ob; o++, dw += in_c * kk)
        for (int t = 0; t < nt; t++)
            dw[t] = j->accumulate_dw ? dw[t] + total[t][o] : total[t][o];
}

#define DEFINE_TAPS(ob, nt)                                                                    \
    static void taps_##ob##_##nt(const dw_args *a)                                             \
    {                                                                                          \
        taps(a, ob, nt, true);                                                                 \
    }                                                                                          \
    static void taps_##ob##_##nt##_strided(const dw_args *a)                                   \
    {                                                                                          \
        taps(a, ob, nt, false);                                                                \
    }
#define DEFINE_CHANNELS(ob)                                                                    \
    DEFINE_TAPS(ob, 1)                                                                         \
    DEFINE_TAPS(ob, 2) DEFINE_TAPS(ob, 3) DEFINE_TAPS(ob, 4) DEFINE_TAPS(ob, 5)

DEFINE_CHANNELS(1)
DEFINE_CHANNELS(2)
#if SW_ISA_ID == 2
DEFINE_CHANNELS(4)
#endif

#define LIST_CHANNELS(ob)                                                                      \
    {                                                                                          \
        {taps_##ob##_1, taps_##ob##_1_strided}, {taps_##ob##_2, taps_##ob##_2_strided},        \
            {taps_##ob##_3, taps_##ob##_3_strided}, {taps_##ob##_4, taps_##ob##_4_strided},    \
        {                                                                                      \
            taps_##ob##_5, taps_##ob##_5_strided                                               \
        }                                                                                      \
    }
typedef void taps_fn(const dw_args *a);
/* By half the channels (0: one), taps, whether there is a stride. */
static taps_fn *const table[][TAPS][2] = {
    LIST_CHANNELS(1),
    LIST_CHANNELS(2),
#if SW_ISA_ID == 2
    LIST_CHANNELS(4),
#endif
};

/* The sum of dy of one channel over all images. */
static float bias_sum(const dw_job *j, int64_t o)
{
    const int64_t size = j->s.out_h * j->s.out_w;
    vf acc = vzero();
    for (int64_t b = 0; b < j->s.batch; b++) {
        const float *dy = j->dy + (b * j->s.out_c + o) * size;
        int64_t i = 0;
        for (; i + VW <= size; i += VW)
            acc = vadd(acc, vload(dy + i));
        if (i < size)
            acc = vadd(acc, vload_n(dy + i, (int)(size - i)));
    }
    float sum[4];
    vsum4(sum, acc, vzero(), vzero(), vzero());
    return sum[0];
}

static void dw_part(void *arg, int part)
{
    const dw_job *j = arg;
    const sw_conv *s = &j->s;
    const int64_t in = swi_in_per(s), out = swi_out_per(s), c = part % in, unit = part / in;
    const int64_t blocks = (out + CHANNELS - 1) / CHANNELS, group = unit / blocks;
    const int64_t first = group * out + unit % blocks * CHANNELS;
    const int64_t end =
        first + CHANNELS < (group + 1) * out ? first + CHANNELS : (group + 1) * out;
    dw_args a = {.j = j, .o = first, .c = group * in + c};
    while (a.o < end) {
        const int64_t left = end - a.o;
        const int wide = left >= 4 ? 2 : left >= 2 ? 1 : 0;
        for (a.ky = 0; a.ky < s->kernel_h; a.ky++)
            for (a.kx = 0; a.kx < s->kernel_w;) {
                const int64_t rest = s->kernel_w - a.kx;
                const int nt = s->dilation > 1 ? 1 : rest >= TAPS ? TAPS : (int)rest;
                table[wide][nt - 1][s->stride != 1](&a);
                a.kx += nt;
            }
        a.o += (int64_t)1 << wide;
    }
    for (int64_t o = first; c == 0 && j->db != NULL && o < end; o++) {
        const float sum = bias_sum(j, o);
        j->db[o] = j->accumulate_db ? j->db[o] + sum : sum;
    }
}

void swi_conv_plain_dw(float *dw, float *db, const float *x, const float *dy, const sw_conv *s,
                       bool accumulate_dw, bool accumulate_db, const sw_par *par)
{
    dw_job j = {.dw = dw, .db = db, .x = x, .dy = dy, .s = swi_conv_flat(s)};
    j.accumulate_dw = accumulate_dw, j.accumulate_db = accumulate_db;
    const double work =
        (double)s->batch * (double)swi_weights(s) * (double)(s->out_h * s->out_w);
    const int64_t parts = (swi_out_per(s) + CHANNELS - 1) / CHANNELS * s->in_c;
    vruns(par, dw_part, &j, (int)parts, work >= SWI_WORTH);
}
