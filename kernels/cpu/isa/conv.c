/* Convolution over blocks of sixteen images. A register block is up to 6 output channels by a few
 * neighbouring positions of a row; weights are scalars, broadcast in the order they are stored in. Sums
 * run over c, ky, kx, beginning with the bias. Rows and places outside the image are left out, not
 * multiplied by zero, and every element sees the same order in every block size.
 *
 * Parts of the work: one block of images and one band of output rows. */
#include "kernels/cpu/isa/dense_internal.h"

#if SW_ISA_ID == 2
#define WIDE 4 /* positions: 6 x 4 accumulators of 32 registers */
#else
#define WIDE 2
#endif

/* What stays the same along a row: pointers to lane group, output channel and row. */
typedef struct {
    const swi_conv_job *j;
    const float *x; /* this block, lane group */
    const float *w; /* first channel of the register block */
    const float *bias;
    float *y; /* first channel, this row */
    int64_t row;
} row_args;

/* ob channels, pb positions from ox on; ob, pb, edge and unit (stride 1) are constants. With `edge`
 * each place is tested against the image. */
SW_VEC_FN void tile(const row_args *r, int64_t ox, int ob, int pb, bool edge, bool unit)
{
    const sw_conv *s = &r->j->s;
    const int64_t stride = unit ? 1 : s->stride, step = stride * SWI_LANES;
    const int64_t kk = s->kernel_h * s->kernel_w, per_out = s->in_c * kk;
    const int64_t iy0 = r->row * stride - r->j->pad_y, ix0 = ox * stride - r->j->pad_x;
    const int64_t ky0 = iy0 < 0 ? -iy0 : 0;
    const int64_t ky1 = s->in_h - iy0 < s->kernel_h ? s->in_h - iy0 : s->kernel_h;
    vf acc[6][WIDE];
    for (int o = 0; o < ob; o++)
        for (int p = 0; p < pb; p++)
            acc[o][p] = r->bias != NULL ? vset1(r->bias[o]) : vzero();
    for (int64_t c = 0; c < s->in_c; c++)
        for (int64_t ky = ky0; ky < ky1; ky++) {
            const float *x = r->x + ((c * s->in_h + iy0 + ky) * s->in_w + ix0) * SWI_LANES;
            const float *w = r->w + c * kk + ky * s->kernel_w;
            for (int64_t kx = 0; kx < s->kernel_w; kx++, x += SWI_LANES, w++) {
                if (edge) {
                    for (int p = 0; p < pb; p++) {
                        if ((uint64_t)(ix0 + kx + p * stride) >= (uint64_t)s->in_w)
                            continue;
                        const vf v = vload(x + p * step);
                        for (int o = 0; o < ob; o++)
                            acc[o][p] = vfma(vset1(w[o * per_out]), v, acc[o][p]);
                    }
                    continue;
                }
                vf v[WIDE];
                for (int p = 0; p < pb; p++)
                    v[p] = vload(x + p * step);
                for (int o = 0; o < ob; o++) {
                    const vf weight = vset1(w[o * per_out]);
                    for (int p = 0; p < pb; p++)
                        acc[o][p] = vfma(weight, v[p], acc[o][p]);
                }
            }
        }
    for (int o = 0; o < ob; o++)
        for (int p = 0; p < pb; p++) {
            float *y = r->y + (o * s->out_h * s->out_w + ox + p) * SWI_LANES;
            vstore(y, r->j->accumulate ? vadd(vload(y), acc[o][p]) : acc[o][p]);
        }
}

SW_VEC_FN void row_of(const row_args *r, int ob, bool unit)
{
    const sw_conv *s = &r->j->s;
    for (int64_t ox = 0; ox < s->out_w;) {
        const int64_t left = s->out_w - ox;
        const int pb = left >= WIDE ? WIDE : left >= 2 ? 2 : 1;
        const int64_t first = ox * s->stride - r->j->pad_x;
        const bool edge = first < 0 || first + (pb - 1) * s->stride + s->kernel_w > s->in_w;
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
        ox += pb;
    }
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

static void conv_part(void *arg, int part)
{
    const swi_conv_job *j = arg;
    const sw_conv *s = &j->s;
    const int64_t block = part / j->bands, plane = s->out_h * s->out_w;
    const int64_t first = vpiece(s->out_h, 1, part % j->bands, j->bands);
    const int64_t end = vpiece(s->out_h, 1, part % j->bands + 1, j->bands);
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        row_args r = {.j = j};
        r.x = j->x + block * s->in_c * s->in_h * s->in_w * SWI_LANES + lane;
        for (int64_t o = 0; o < s->out_c;) {
            const int ob = swi_channel_block(s->out_c - o);
            row_fn *row = row_for(ob, s->stride == 1);
            r.w = j->w + o * s->in_c * s->kernel_h * s->kernel_w;
            r.bias = j->bias != NULL ? j->bias + o : NULL;
            for (r.row = first; r.row < end; r.row++) {
                r.y = j->y + ((block * s->out_c + o) * plane + r.row * s->out_w) * SWI_LANES + lane;
                row(&r);
            }
            o += ob;
        }
    }
}

void swi_conv_run(swi_conv_job *job, const sw_par *par)
{
    const sw_conv *s = &job->s;
    const int64_t blocks = swi_blocks(s->batch);
    const double work = (double)(blocks * SWI_LANES * s->in_c * s->kernel_h * s->kernel_w) *
                        (double)(s->out_c * s->out_h * s->out_w);
    const int wanted = par != NULL && par->n_threads > 1 ? 2 * par->n_threads : 1;
    int64_t bands = blocks < wanted ? (wanted + blocks - 1) / (blocks > 0 ? blocks : 1) : 1;
    if (bands > s->out_h)
        bands = s->out_h;
    job->bands = bands < 1 || work < SWI_WORTH ? 1 : (int)bands;
    vparts(par, conv_part, job, (int)blocks * job->bands, work >= SWI_WORTH);
}

void swi_conv(float *y, const float *x, const float *w, const float *bias, const sw_conv *s,
              const sw_par *par)
{
    swi_conv_job job = {.y = y, .x = x, .w = w, .bias = bias, .s = *s};
    job.pad_y = job.pad_x = s->pad;
    swi_conv_run(&job, par);
}
