/* Pooling over plain (batch, c, h, w) images. Each plane is a part of its own, as in blocks,
 * and sums run in the same order, so the bits are the same. Forward, a vector holds
 * neighbouring outputs of a row whose windows lie inside the image; the windows at the sides go
 * one at a time. Backward, each output adds to its window. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/lanes.h"
#include <math.h>

typedef struct {
    float *out; /* y or dx */
    const float *in;
    uint8_t *index; /* written by max_pool */
    const uint8_t *won;
    const sw_conv *s;
    bool accumulate;
} pool_job;

/* n neighbouring windows, all of which have this part in the image: rows [ky0, ky1), columns
 * [kx0, kx1). More than one only where all columns are inside. */
typedef struct {
    int64_t ky0, ky1, kx0, kx1;
    int64_t at; /* the first window's first position, maybe outside */
    int n;
    swi_even even; /* of the n, where the stride is 2 */
} windows;

static void planes(pool_job *j, void (*body)(void *, int), const sw_par *par)
{
    const sw_conv *s = j->s;
    const int64_t n = s->batch * s->in_c;
    const double work =
        (double)n * (double)(s->out_h * s->out_w) * (double)(s->kernel_h * s->kernel_w);
    vruns(par, body, j, (int)n, work >= SWI_WORTH);
}

/* The windows of row oy from column ox on: one that a side cuts, or up to VW that none does. */
SW_VEC_FN windows windows_at(const sw_conv *s, int64_t oy, int64_t ox)
{
    const int64_t y = oy * s->stride - s->pad, x = ox * s->stride - s->pad;
    windows w = {.at = y * s->in_w + x, .n = 1};
    w.ky0 = y < 0 ? -y : 0;
    w.kx0 = x < 0 ? -x : 0;
    w.ky1 = s->in_h - y < s->kernel_h ? s->in_h - y : s->kernel_h;
    w.kx1 = s->in_w - x < s->kernel_w ? s->in_w - x : s->kernel_w;
    if (x >= 0 && x + s->kernel_w <= s->in_w) {
        const int64_t room = s->in_w - s->kernel_w - x; /* dividing is slow */
        const int64_t inside = 1 + (s->stride == 2 ? room / 2 : room / s->stride);
        const int64_t left = s->out_w - ox < inside ? s->out_w - ox : inside;
        w.n = left < VW ? (int)left : VW;
    }
    if (s->stride == 2)
        w.even = veven(0, w.n);
    return w;
}

/* Place (ky, kx) of each window. */
SW_VEC_FN vf load_position(const float *x, const sw_conv *s, const windows *w, int64_t ky,
                           int64_t kx)
{
    const float *from = x + w->at + ky * s->in_w + kx;
    if (s->stride == 1)
        return w->n == VW ? vload(from) : vload_n(from, w->n);
    return s->stride == 2 ? vload_even(w->even, from) : vload_step(from, s->stride, 0, w->n);
}

static void store_positions(float *y, vf v, int n)
{
    if (n == VW)
        vstore(y, v);
    else
        vstore_n(y, v, n);
}

/* ---- max --------------------------------------------------------------------------------- */

/* Which positions won, of a plane's outputs in order. Two bits each: what does not fill a byte
 * yet waits. */
typedef struct {
    uint8_t *to; /* NULL: not computed */
    bool packed;
    uint32_t bits, n; /* waiting bits */
} index_writer;

SW_VEC_FN void put_positions(index_writer *index, vi position, int n)
{
    uint8_t positions[VW];
    vistore_u8(positions, position);
    if (!index->packed) {
        memcpy(index->to, positions, (size_t)n);
        index->to += n;
        return;
    }
    for (int i = 0; i < n; i++) {
        index->bits |= (uint32_t)(positions[i] & 3) << index->n;
        index->n += 2;
        if (index->n < 8)
            continue;
        *index->to++ = (uint8_t)index->bits;
        index->bits = index->n = 0;
    }
}

/* An empty window is -inf and no position (255) wins. */
SW_VEC_FN void max_windows(float *y, index_writer *index, const float *x, const sw_conv *s,
                           const windows *w)
{
    vf best = vset1(-INFINITY);
    vi position = viset1(255);
    bool first = true;
    for (int64_t ky = w->ky0; ky < w->ky1; ky++)
        for (int64_t kx = w->kx0; kx < w->kx1; kx++) {
            const vf v = load_position(x, s, w, ky, kx);
            const vi here = viset1((int)(ky * s->kernel_w + kx));
            if (first) {
                best = v;
                position = here;
                first = false;
                continue;
            }
            const vm m = vwins(v, best);
            best = vselect(m, v, best);
            position = viselect(m, here, position);
        }
    store_positions(y, best, w->n);
    if (index->to != NULL)
        put_positions(index, position, w->n);
}

static void max_part(void *arg, int part)
{
    const pool_job *j = arg;
    const sw_conv *s = j->s;
    const float *x = j->in + part * s->in_h * s->in_w;
    int64_t out = part * s->out_h * s->out_w;
    index_writer index = {.packed = sw_pool_packs(s)};
    if (j->index != NULL)
        index.to = j->index + part * sw_pool_index_bytes(s);
    for (int64_t oy = 0; oy < s->out_h; oy++)
        for (int64_t ox = 0; ox < s->out_w;) {
            const windows w = windows_at(s, oy, ox);
            max_windows(j->out + out, &index, x, s, &w);
            ox += w.n;
            out += w.n;
        }
    if (index.n > 0)
        *index.to = (uint8_t)index.bits;
}

void swi_max_pool_plain(float *y, uint8_t *index, const float *x, const sw_conv *s,
                        const sw_par *par)
{
    pool_job j = {.out = y, .in = x, .index = index, .s = s};
    planes(&j, max_part, par);
}

static void max_dx_part(void *arg, int part)
{
    const pool_job *j = arg;
    const sw_conv *s = j->s;
    const int64_t size = s->in_h * s->in_w;
    const uint8_t *won = j->won + part * sw_pool_index_bytes(s);
    const float *dy = j->in + part * s->out_h * s->out_w;
    int64_t out = 0, step[255];
    float *dx = j->out + part * size;
    const bool packed = sw_pool_packs(s);
    for (int64_t k = 0; k < s->kernel_h * s->kernel_w; k++)
        step[k] = k / s->kernel_w * s->in_w + k % s->kernel_w;
    if (!j->accumulate)
        memset(dx, 0, (size_t)size * sizeof *dx);
    for (int64_t oy = 0; size > 0 && oy < s->out_h; oy++) {
        float *row = dx + (oy * s->stride - s->pad) * s->in_w - s->pad;
        for (int64_t ox = 0; ox < s->out_w; ox++, out++, row += s->stride) {
            const int k = packed ? won[out / 4] >> out % 4 * 2 & 3 : won[out];
            if (packed || k != 255)
                row[step[k]] += dy[out];
        }
    }
}

void swi_max_pool_plain_dx(float *dx, const float *dy, const uint8_t *index, const sw_conv *s,
                           bool accumulate, const sw_par *par)
{
    pool_job j = {.out = dx, .in = dy, .won = index, .s = s, .accumulate = accumulate};
    planes(&j, max_dx_part, par);
}

/* ---- average ----------------------------------------------------------------------------- */

static void avg_part(void *arg, int part)
{
    const pool_job *j = arg;
    const sw_conv *s = j->s;
    const vf count = vset1((float)(s->kernel_h * s->kernel_w));
    const float *x = j->in + part * s->in_h * s->in_w;
    float *y = j->out + part * s->out_h * s->out_w;
    for (int64_t oy = 0; oy < s->out_h; oy++)
        for (int64_t ox = 0; ox < s->out_w;) {
            const windows w = windows_at(s, oy, ox);
            vf sum = vzero();
            for (int64_t ky = w.ky0; ky < w.ky1; ky++)
                for (int64_t kx = w.kx0; kx < w.kx1; kx++)
                    sum = vadd(sum, load_position(x, s, &w, ky, kx));
            store_positions(y, vdiv(sum, count), w.n);
            ox += w.n;
            y += w.n;
        }
}

void swi_avg_pool_plain(float *y, const float *x, const sw_conv *s, const sw_par *par)
{
    pool_job j = {.out = y, .in = x, .s = s};
    planes(&j, avg_part, par);
}

/* Two by two side by side, the commonest. */
static void avg_row_dx_pairs(float *dx, const float *dy, const sw_conv *s)
{
    float *below = dx + s->in_w;
    for (int64_t ox = 0; ox < s->out_w; ox++) {
        const float d = dy[ox] / 4.0f;
        dx[2 * ox] += d;
        dx[2 * ox + 1] += d;
        below[2 * ox] += d;
        below[2 * ox + 1] += d;
    }
}

static void avg_dx_part(void *arg, int part)
{
    const pool_job *j = arg;
    const sw_conv *s = j->s;
    const float count = (float)(s->kernel_h * s->kernel_w);
    const bool pairs = s->kernel_h == 2 && s->kernel_w == 2 && s->stride == 2 && s->pad == 0;
    const int64_t size = s->in_h * s->in_w;
    const float *dy = j->in + part * s->out_h * s->out_w;
    float *dx = j->out + part * size;
    if (!j->accumulate)
        memset(dx, 0, (size_t)size * sizeof *dx);
    for (int64_t oy = 0; oy < s->out_h; oy++, dy += s->out_w) {
        if (pairs) {
            avg_row_dx_pairs(dx + 2 * oy * s->in_w, dy, s);
            continue;
        }
        for (int64_t ox = 0; ox < s->out_w; ox++) {
            const windows w = windows_at(s, oy, ox);
            const float d = dy[ox] / count;
            for (int64_t ky = w.ky0; ky < w.ky1; ky++)
                for (int64_t kx = w.kx0; kx < w.kx1; kx++)
                    dx[w.at + ky * s->in_w + kx] += d;
        }
    }
}

void swi_avg_pool_plain_dx(float *dx, const float *dy, const sw_conv *s, bool accumulate,
                           const sw_par *par)
{
    pool_job j = {.out = dx, .in = dy, .s = s, .accumulate = accumulate};
    planes(&j, avg_dx_part, par);
}
