/* Images that change their layout, their size or their scale.
 *
 * Layout: plain (batch, inner) to and from blocks of sixteen images, by VW x VW transposes in
 * registers. Each part takes one block and a range of the inner elements.
 *
 * Scale: images times one number for each image and channel, and the gradients. A plane is a
 * part of its own. Sums over its positions run in four streams (blocks) or along vectors
 * (plain).
 *
 * Size, and the gradient: rows first, then columns. Planes are rows of pixels, one float each
 * in plain images, sixteen in blocks; all else, the bits included, is the same. Forward, two
 * rows of x are mixed into a row of the part's own, and neighbours of that row into one of y.
 * Backward, the rows of dy that a row of x went into are summed into a row of the part's own,
 * and then the columns; sums run in the order of the positions of dy. Parts of the work: rows
 * of the result. Where the columns lie is worked out once. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/halves.h"
#include "kernels/resample.h"

typedef struct {
    float *y;
    const float *x;
    int64_t batch, inner;
    bool accumulate;
    int pieces; /* of inner, per block */
} layout_job;

/* One tile: images [image, image + VW), elements [i, i + n), n <= VW. `rows` images exist. */
SW_VEC_FN void tile_to(const layout_job *j, int64_t image, int rows, int64_t i, int n)
{
    vf r[VW];
    for (int k = 0; k < VW; k++) {
        const float *from = j->x + (image + k) * j->inner + i;
        r[k] = k < rows ? vload_upto(from, n) : vzero();
    }
    vtranspose(r);
    const int64_t block = image / SWI_LANES, lane = image % SWI_LANES;
    float *to = j->y + (block * j->inner + i) * SWI_LANES + lane;
    if (!j->accumulate) {
        for (int k = 0; k < n; k++)
            vstore(to + k * SWI_LANES, r[k]);
        return;
    }
    for (int k = 0; k < n; k++) {
        const vf old = rows <= 0 ? vzero() : vload_n(to + k * SWI_LANES, rows);
        vstore(to + k * SWI_LANES, vadd(old, r[k]));
    }
}

SW_VEC_FN void tile_from(const layout_job *j, int64_t image, int rows, int64_t i, int n)
{
    vf r[VW];
    const int64_t block = image / SWI_LANES, lane = image % SWI_LANES;
    const float *from = j->x + (block * j->inner + i) * SWI_LANES + lane;
    for (int k = 0; k < VW; k++)
        r[k] = k < n ? vload(from + k * SWI_LANES) : vzero();
    vtranspose(r);
    for (int k = 0; k < rows; k++) {
        float *to = j->y + (image + k) * j->inner + i;
        if (j->accumulate)
            r[k] = vadd(vload_upto(to, n), r[k]);
        vstore_upto(to, r[k], n);
    }
}

/* The constant arguments unroll the whole tiles. */
SW_VEC_FN void part_of(const layout_job *j, int part, bool to)
{
    const int64_t block = part / j->pieces;
    const int piece = part % j->pieces;
    const int64_t begin = vpiece(j->inner, VW, piece, j->pieces);
    const int64_t end = vpiece(j->inner, VW, piece + 1, j->pieces);
    for (int64_t i = begin; i < end; i += VW) {
        const int n = (int)least(end - i, VW);
        for (int g = 0; g < SWI_GROUPS; g++) {
            const int64_t image = block * SWI_LANES + g * VW;
            const int rows = (int)least(j->batch - image, VW);
            if (rows == VW && n == VW) {
                if (to)
                    tile_to(j, image, VW, i, VW);
                else
                    tile_from(j, image, VW, i, VW);
            } else if (to) {
                tile_to(j, image, rows, i, n);
            } else {
                tile_from(j, image, rows, i, n);
            }
        }
    }
}

static void part_to(void *arg, int part)
{
    part_of(arg, part, true);
}

static void part_from(void *arg, int part)
{
    part_of(arg, part, false);
}

static void run_layout(layout_job *j, void (*body)(void *, int), const sw_par *par)
{
    const int64_t blocks = swi_blocks(j->batch);
    const int wanted = par != NULL ? 2 * par->n_threads : 1;
    const bool worth = j->batch * j->inner >= SWI_WORTH / 4;
    j->pieces = worth && blocks < wanted ? wanted : 1;
    vparts(par, body, j, (int)blocks * j->pieces, worth);
}

void SW_KERNEL(dense, to_n16)(float *y, const float *x, int64_t batch, int64_t inner,
                              bool accumulate, const sw_par *par)
{
    layout_job j = {.y = y, .x = x, .batch = batch, .inner = inner, .accumulate = accumulate};
    run_layout(&j, part_to, par);
}

void SW_KERNEL(dense, from_n16)(float *y, const float *x, int64_t batch, int64_t inner,
                                bool accumulate, const sw_par *par)
{
    layout_job j = {.y = y, .x = x, .batch = batch, .inner = inner, .accumulate = accumulate};
    run_layout(&j, part_from, par);
}

/* ---- scale ------------------------------------------------------------------------------- */

typedef struct {
    const sw_scale_args *a;
    int64_t size; /* floats of a plane */
} scale_job;

/* The factors of a plane's lanes from `lane` on; of a plain plane the one it has. */
SW_VEC_FN vf factors(const sw_scale_args *a, int part, int lane, bool half)
{
    if (a->plain)
        return vset1(half ? sw_bf16_widen(((const uint16_t *)a->s)[part])
                          : ((const float *)a->s)[part]);
    return vtake(a->s, (int64_t)part * SWI_LANES + lane, VW, half);
}

/* out = in * s of plane `part`, a group of lanes after the other. */
SW_VEC_FN void scale(void *out, const void *in, const scale_job *j, int part, bool add,
                     bool half)
{
    const bool plain = j->a->plain;
    const int64_t at = part * j->size, step = plain ? VW : SWI_LANES;
    for (int lane = 0; lane < (plain ? 1 : SWI_LANES); lane += VW) {
        const vf s = factors(j->a, part, lane, half);
        for (int64_t i = lane; i < j->size; i += step)
            vput(out, at + i, j->size - i, vmul(vtake(in, at + i, j->size - i, half), s), add,
                 half);
    }
}

static void scale_part(void *arg, int part)
{
    const scale_job *j = arg;
    if (j->a->half)
        scale(j->a->y, j->a->x, j, part, j->a->add_y, true);
    else
        scale(j->a->y, j->a->x, j, part, j->a->add_y, false);
}

/* Of the lane group at `lane` of the n numbers from `at` on. */
SW_VEC_FN vf sum_products(const void *x, const void *dy, int64_t at, int64_t lane, int64_t n,
                          bool half)
{
    vf acc[4] = {vzero(), vzero(), vzero(), vzero()};
    int64_t i = lane;
    for (; i + 4 * SWI_LANES - lane <= n; i += 4 * SWI_LANES) {
        SW_UNROLL
        for (int k = 0; k < 4; k++)
            acc[k] = vfma(vtake(x, at + i + k * SWI_LANES, VW, half),
                          vtake(dy, at + i + k * SWI_LANES, VW, half), acc[k]);
    }
    for (; i < n; i += SWI_LANES)
        acc[0] = vfma(vtake(x, at + i, n - i, half), vtake(dy, at + i, n - i, half), acc[0]);
    return vadd(vadd(acc[0], acc[2]), vadd(acc[1], acc[3]));
}

/* ds first: dx may stand in the place of dy. */
SW_VEC_FN void scale_grad(const scale_job *j, int part, bool half)
{
    const sw_scale_args *a = j->a;
    float total = 0.0f;
    for (int lane = 0; a->ds != NULL && lane < SWI_LANES; lane += VW) {
        const vf sum = sum_products(a->x, a->dy, part * j->size, lane, j->size, half);
        float one[4];
        if (a->plain) {
            vsum4(one, sum, vzero(), vzero(), vzero());
            total += one[0];
        } else {
            vput(a->ds, (int64_t)part * SWI_LANES + lane, VW, sum, a->add_ds, half);
        }
    }
    if (a->ds != NULL && a->plain)
        vput(a->ds, part, 1, vset1(total), a->add_ds, half);
    if (a->dx != NULL)
        scale(a->dx, a->dy, j, part, a->add_dx, half);
}

static void scale_grad_part(void *arg, int part)
{
    const scale_job *j = arg;
    if (j->a->half)
        scale_grad(j, part, true);
    else
        scale_grad(j, part, false);
}

static void planes(const sw_scale_args *a, void (*body)(void *, int), const sw_par *par)
{
    scale_job j = {.a = a, .size = a->positions * (a->plain ? 1 : SWI_LANES)};
    const int64_t n = a->plain ? a->batch : swi_blocks(a->batch);
    vruns(par, body, &j, (int)(n * a->channels),
          (double)(n * a->channels * j.size) >= SWI_WORTH);
}

void SW_KERNEL(dense, channel_scale)(const sw_scale_args *a, const sw_par *par)
{
    planes(a, scale_part, par);
}

void SW_KERNEL(dense, channel_scale_grad)(const sw_scale_args *a, const sw_par *par)
{
    planes(a, scale_grad_part, par);
}

/* ---- size -------------------------------------------------------------------------------- */

typedef struct {
    float *to;
    const float *from;
    const sw_resampling *s;
    int64_t in, out; /* floats of a row of x and of y */
    int lanes;       /* floats of a pixel */
    int32_t *at, *first;
    float *w, *rows; /* of columns of y; first: by columns of x; a row for each part */
    int64_t room;    /* floats of it */
    int64_t units;   /* rows of the result */
    int parts;
    bool accumulate;
} resample_job;

static int64_t up_16(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* In scratch: at, w, first, rows. */
static resample_job plan(const sw_resampling *s, bool gradient, int threads)
{
    resample_job j = {.s = s, .lanes = s->plain ? 1 : SWI_LANES};
    const int64_t planes = (s->plain ? s->batch : swi_blocks(s->batch)) * s->channels;
    j.in = s->in_w * j.lanes;
    j.out = s->out_w * j.lanes;
    j.room = gradient ? up_16(j.out) : s->linear ? up_16(j.in + j.lanes) : 0;
    j.units = planes * (gradient ? s->in_h : s->out_h);
    j.parts =
        (double)planes * (double)(s->in_h + s->out_h) * (double)j.out < SWI_WORTH ? 1 : threads;
    j.parts = j.units < j.parts ? (int)j.units : j.parts;
    return j;
}

static void place(resample_job *j, void *scratch)
{
    const sw_resampling *s = j->s;
    j->at = scratch;
    j->w = (float *)(j->at + up_16(s->out_w));
    j->first = (int32_t *)(j->w + up_16(s->out_w));
    j->rows = (float *)(j->first + up_16(s->in_w + 1));
    const int64_t whole = sw_resample_whole(s->out_w, s->linear);
    for (int64_t i = 0; i < up_16(s->out_w); i++) {
        const int64_t part =
            sw_resample_part(i < s->out_w ? i : s->out_w - 1, s->in_w, s->out_w, s->linear);
        j->at[i] = (int32_t)(part / whole);
        j->w[i] = s->linear ? sw_resample_weight(part, j->at[i], s->out_w) : 0.0f;
    }
    for (int64_t p = 0; p < up_16(s->in_w + 1); p++)
        j->first[p] = (int32_t)sw_resample_first(p, s->in_w, s->out_w, s->linear);
}

size_t SW_KERNEL(dense, resample_bytes)(const sw_resampling *s, bool gradient, int threads)
{
    const resample_job j = plan(s, gradient, threads);
    return (size_t)(2 * up_16(s->out_w) + up_16(s->in_w + 1) + j.parts * j.room) *
           sizeof(float);
}

/* ---- forward ----------------------------------------------------------------------------- */

/* t = (1 - w) a + w b */
static void mix_rows(float *restrict t, const float *a, const float *b, float w, int64_t n)
{
    const float v = 1.0f - w;
    for (int64_t i = 0; i < n; i++)
        t[i] = v * a[i] + w * b[i];
}

/* Pixels of sixteen floats: one of t, or neighbours mixed. */
static void pixels(const resample_job *j, float *y, const float *t)
{
    for (int64_t ox = 0; ox < j->s->out_w; ox++, y += SWI_LANES) {
        const float *a = t + (int64_t)j->at[ox] * SWI_LANES;
        const vf w = vset1(j->w[ox]), v = vset1(1.0f - j->w[ox]);
        for (int k = 0; k < SWI_LANES; k += VW)
            vstore(y + k, j->s->linear
                              ? vadd(vmul(v, vload(a + k)), vmul(w, vload(a + SWI_LANES + k)))
                              : vload(a + k));
    }
}

/* The same for plain rows, twice as wide: what the table says is known. */
static void doubled(const resample_job *j, float *restrict y, const float *t)
{
    const int64_t n = j->s->in_w;
    if (!j->s->linear) {
        for (int64_t p = 0; p < n; p++)
            y[2 * p] = y[2 * p + 1] = t[p];
        return;
    }
    y[0] = 1.0f * t[0] + 0.0f * t[1];
    for (int64_t p = 0; p < n; p++)
        y[2 * p + 1] = 0.75f * t[p] + 0.25f * t[p + 1];
    for (int64_t p = 1; p < n; p++)
        y[2 * p] = 0.25f * t[p - 1] + 0.75f * t[p];
}

static void columns(const resample_job *j, float *y, const float *t)
{
    if (!j->s->plain) {
        pixels(j, y, t);
    } else if (j->s->out_w == 2 * j->s->in_w) {
        doubled(j, y, t);
    } else if (j->s->linear) {
        for (int64_t i = 0; i < j->s->out_w; i++)
            y[i] = (1.0f - j->w[i]) * t[j->at[i]] + j->w[i] * t[j->at[i] + 1];
    } else {
        for (int64_t i = 0; i < j->s->out_w; i++)
            y[i] = t[j->at[i]];
    }
}

static void forward_part(void *arg, int part)
{
    const resample_job *j = arg;
    const sw_resampling *s = j->s;
    const int64_t whole = sw_resample_whole(s->out_h, s->linear);
    const int64_t end = vpiece(j->units, 1, part + 1, j->parts);
    float *t = j->rows + part * j->room;
    const float *before = NULL; /* the row of x that the row of y before is made of */
    for (int64_t u = vpiece(j->units, 1, part, j->parts); u < end; u++) {
        const int64_t plane = u / s->out_h;
        const int64_t rest = sw_resample_part(u % s->out_h, s->in_h, s->out_h, s->linear);
        const int64_t at = rest / whole;
        const float *x = j->from + (plane * s->in_h + at) * j->in;
        float *y = j->to + u * j->out;
        if (s->linear) {
            mix_rows(t, x, at + 1 < s->in_h ? x + j->in : x,
                     sw_resample_weight(rest, at, s->out_h), j->in);
            memcpy(t + j->in, t + j->in - j->lanes, (size_t)j->lanes * sizeof *t);
            columns(j, y, t);
        } else if (x == before) {
            memcpy(y, y - j->out, (size_t)j->out * sizeof *y);
        } else {
            columns(j, y, x);
        }
        before = x;
    }
}

void SW_KERNEL(dense, resample)(float *y, const float *x, const sw_resampling *s, void *scratch,
                                const sw_par *par)
{
    resample_job j = plan(s, false, par != NULL ? par->n_threads : 1);
    j.to = y, j.from = x;
    if (j.units < 1 || s->out_w < 1)
        return;
    place(&j, scratch);
    vparts(par, forward_part, &j, j.parts, true);
}

/* ---- gradient ---------------------------------------------------------------------------- */

/* The share that p gets of a position with `at` p or p - 1. The last one has itself twice. */
static inline float own_share(float w, bool linear, bool last)
{
    return !linear ? 1.0f : last ? (1.0f - w) + w : 1.0f - w;
}

static void add_row(float *restrict t, const float *dy, float w, bool fresh, int64_t n)
{
    if (fresh)
        for (int64_t i = 0; i < n; i++)
            t[i] = w * dy[i];
    else
        for (int64_t i = 0; i < n; i++)
            t[i] += w * dy[i];
}

/* t = the rows of the plane dy that row p of x went into, each with its share. */
static void sum_rows(const resample_job *j, float *t, const float *dy, int64_t p)
{
    const sw_resampling *s = j->s;
    const int64_t own = sw_resample_first(p, s->in_h, s->out_h, s->linear);
    const int64_t end = sw_resample_first(p + 1, s->in_h, s->out_h, s->linear);
    const int64_t first =
        s->linear ? sw_resample_first(p - 1, s->in_h, s->out_h, s->linear) : own;
    const int64_t from = p == 0 ? own : first;
    for (int64_t i = from; i < end; i++) {
        const int64_t rest = sw_resample_part(i, s->in_h, s->out_h, s->linear);
        const float w =
            s->linear ? sw_resample_weight(rest, i < own ? p - 1 : p, s->out_h) : 0.0f;
        add_row(t, dy + i * j->out, i < own ? w : own_share(w, s->linear, p == s->in_h - 1),
                i == from, j->out);
    }
    if (from >= end)
        memset(t, 0, (size_t)j->out * sizeof *t);
}

/* Column p of x: the pixel of sixteen floats, or the number. */
static void sum_pixel(const resample_job *j, float *dx, const float *t, int64_t p)
{
    const sw_resampling *s = j->s;
    const int64_t own = j->first[p], end = j->first[p + 1];
    for (int k = 0; k < SWI_LANES; k += VW) {
        vf sum = vzero();
        for (int64_t i = s->linear && p > 0 ? j->first[p - 1] : own; i < own; i++)
            sum = vadd(sum, vmul(vset1(j->w[i]), vload(t + i * SWI_LANES + k)));
        for (int64_t i = own; i < end; i++) {
            const float w = own_share(j->w[i], s->linear, p == s->in_w - 1);
            sum = vadd(sum, vmul(vset1(w), vload(t + i * SWI_LANES + k)));
        }
        vstore(dx + k, j->accumulate ? vadd(vload(dx + k), sum) : sum);
    }
}

static void sum_number(const resample_job *j, float *dx, const float *t, int64_t p)
{
    const sw_resampling *s = j->s;
    const int64_t own = j->first[p], end = j->first[p + 1];
    float sum = 0.0f;
    for (int64_t i = s->linear && p > 0 ? j->first[p - 1] : own; i < own; i++)
        sum += j->w[i] * t[i];
    for (int64_t i = own; i < end; i++)
        sum += own_share(j->w[i], s->linear, p == s->in_w - 1) * t[i];
    *dx = j->accumulate ? *dx + sum : sum;
}

/* Columns [1, in_w - 1) of plain rows that are twice as wide: what the table says is known. */
static void sum_doubled(const resample_job *j, float *restrict dx, const float *t)
{
    const int64_t end = j->s->in_w - 1;
    if (j->s->linear)
        for (int64_t p = 1; p < end; p++)
            dx[p] =
                (((0.0f + 0.25f * t[2 * p - 1]) + 0.75f * t[2 * p]) + 0.75f * t[2 * p + 1]) +
                0.25f * t[2 * p + 2];
    else
        for (int64_t p = 1; p < end; p++)
            dx[p] = (0.0f + t[2 * p]) + t[2 * p + 1];
}

static void gradient_part(void *arg, int part)
{
    const resample_job *j = arg;
    const sw_resampling *s = j->s;
    const int64_t end = vpiece(j->units, 1, part + 1, j->parts);
    const bool twice = s->plain && s->out_w == 2 * s->in_w && s->in_w > 2 && !j->accumulate;
    float *t = j->rows + part * j->room;
    for (int64_t u = vpiece(j->units, 1, part, j->parts); u < end; u++) {
        const int64_t plane = u / s->in_h;
        float *dx = j->to + u * j->in;
        sum_rows(j, t, j->from + plane * s->out_h * j->out, u % s->in_h);
        if (twice)
            sum_doubled(j, dx, t);
        for (int64_t p = 0; p < s->in_w; p++) {
            if (!s->plain)
                sum_pixel(j, dx + p * SWI_LANES, t, p);
            else if (!twice || p == 0 || p == s->in_w - 1)
                sum_number(j, dx + p, t, p);
        }
    }
}

void SW_KERNEL(dense, resample_dx)(float *dx, const float *dy, const sw_resampling *s,
                                   bool accumulate, void *scratch, const sw_par *par)
{
    resample_job j = plan(s, true, par != NULL ? par->n_threads : 1);
    j.to = dx, j.from = dy, j.accumulate = accumulate;
    if (j.units < 1)
        return;
    place(&j, scratch);
    vparts(par, gradient_part, &j, j.parts, true);
}
