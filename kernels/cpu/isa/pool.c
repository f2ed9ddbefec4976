/* Pooling, over blocks of sixteen images or plain ones: each plane is a part of its own, so
 * windows may overlap without parts meeting. Sums run in the order of outputs, then of
 * positions in the window: the bits are the same in both layouts.
 *
 * Blocks: lanes are images; 2 x 2 windows that tile the image have their own loops. Plain:
 * forward, a vector holds neighbouring outputs of a row whose windows lie inside the image; the
 * windows at the sides go one at a time. Backward, each output adds to its window. */
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

/* The part of a window that lies in the image: rows [ky0, ky1), columns [kx0, kx1). */
typedef struct {
    int64_t ky0, ky1, kx0, kx1;
    int64_t at; /* the window's first position, in floats, maybe outside */
} window;

static inline window window_of(const sw_conv *s, int64_t oy, int64_t ox, int lanes)
{
    const int64_t y = oy * s->stride - s->pad, x = ox * s->stride - s->pad;
    window w = {.at = (y * s->in_w + x) * lanes};
    w.ky0 = y < 0 ? -y : 0;
    w.kx0 = x < 0 ? -x : 0;
    w.ky1 = s->in_h - y < s->kernel_h ? s->in_h - y : s->kernel_h;
    w.kx1 = s->in_w - x < s->kernel_w ? s->in_w - x : s->kernel_w;
    return w;
}

static void planes(pool_job *j, void (*blocks)(void *, int), void (*plain)(void *, int),
                   const sw_par *par)
{
    const sw_conv *s = j->s;
    const int64_t n = (s->plain ? s->batch : swi_blocks(s->batch)) * s->in_c;
    const double work = (double)n * (double)(s->out_h * s->out_w) *
                        (double)(s->kernel_h * s->kernel_w) * (s->plain ? 1 : SWI_LANES);
    vruns(par, s->plain ? plain : blocks, j, (int)n, work >= SWI_WORTH);
}

/* Where the plane of a part lies in x and y. */
static const sw_conv *plane_of(const pool_job *j, int part, int64_t *in, int64_t *out)
{
    const int lanes = j->s->plain ? 1 : SWI_LANES;
    *in = (int64_t)part * j->s->in_h * j->s->in_w * lanes;
    *out = (int64_t)part * j->s->out_h * j->s->out_w * lanes;
    return j->s;
}

/* A maximum and its position, after the number v at `here`. */
SW_VEC_FN void take(vf *best, vi *position, bool *first, vf v, vi here)
{
    const vm m = vwins(v, *best);
    *position = *first ? here : viselect(m, here, *position);
    *best = *first ? v : vselect(m, v, *best);
    *first = false;
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* Windows are 2 x 2 side by side and none leaves the image. */
static bool is_pair(const sw_conv *s)
{
    return s->kernel_h == 2 && s->kernel_w == 2 && s->stride == 2 && s->pad == 0 &&
           2 * s->out_h <= s->in_h && 2 * s->out_w <= s->in_w;
}

/* An empty window is -inf and no position (255) wins. Packed: two bits for each lane. */
SW_VEC_FN void max_window(float *y, uint8_t *index, const float *x, window w, int64_t row,
                          int kernel_w, bool packed)
{
    uint32_t bits = 0;
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        vf best = vset1(-INFINITY);
        vi position = viset1(255);
        bool first = true;
        for (int64_t ky = w.ky0; ky < w.ky1; ky++)
            for (int64_t kx = w.kx0; kx < w.kx1; kx++) {
                const vf v = vload(x + w.at + ky * row + kx * SWI_LANES + lane);
                const vi here = viset1((int)ky * kernel_w + (int)kx);
                take(&best, &position, &first, v, here);
            }
        vstore(y + lane, best);
        if (packed)
            bits |= vibits(position, 0) << lane | vibits(position, 1) << (SWI_LANES + lane);
        else if (index != NULL)
            vistore_u8(index + lane, position);
    }
    for (int i = 0; packed && index != NULL && i < 4; i++)
        index[i] = (uint8_t)(bits >> 8 * i);
}

static void max_part(void *arg, int part)
{
    const pool_job *j = arg;
    int64_t in, out;
    const sw_conv *s = plane_of(j, part, &in, &out);
    const int64_t row = s->in_w * SWI_LANES;
    const float *x = j->in + in;
    const bool pair = is_pair(s), packed = sw_pool_packs(s);
    uint8_t *index = j->index != NULL ? j->index + part * sw_pool_index_bytes(s) : NULL;
    for (int64_t oy = 0; oy < s->out_h; oy++)
        for (int64_t ox = 0; ox < s->out_w; ox++, out += SWI_LANES) {
            float *y = j->out + out;
            if (pair) {
                const window w = {0, 2, 0, 2, (2 * oy * s->in_w + 2 * ox) * SWI_LANES};
                max_window(y, index, x, w, row, 2, true);
            } else if (packed) {
                max_window(y, index, x, window_of(s, oy, ox, SWI_LANES), row, (int)s->kernel_w,
                           true);
            } else {
                max_window(y, index, x, window_of(s, oy, ox, SWI_LANES), row, (int)s->kernel_w,
                           false);
            }
            if (index != NULL)
                index += packed ? 4 : SWI_LANES;
        }
}

/* dx of one window; `fresh` writes where otherwise is added. */
SW_VEC_FN void max_window_dx(float *dx, const float *dy, const uint8_t *won, window w,
                             int64_t row, int kernel_w, bool packed, bool fresh)
{
    uint32_t low = 0, high = 0;
    if (packed) {
        low = won[0] | (uint32_t)won[1] << 8;
        high = won[2] | (uint32_t)won[3] << 8;
    }
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        const vf d = vload(dy + lane);
        const vi position = packed ? viset1(0) : viload_u8(won + lane);
        for (int64_t ky = w.ky0; ky < w.ky1; ky++)
            for (int64_t kx = w.kx0; kx < w.kx1; kx++) {
                float *to = dx + w.at + ky * row + kx * SWI_LANES + lane;
                const int k = (int)ky * kernel_w + (int)kx;
                const uint32_t bits =
                    ((k & 1) != 0 ? low : ~low) & ((k & 2) != 0 ? high : ~high);
                const vm m = packed ? vfrombits(bits >> lane) : vieq(position, viset1(k));
                const vf add = vselect(m, d, vzero());
                vstore(to, fresh ? add : vadd(vload(to), add));
            }
    }
}

static void max_dx_part(void *arg, int part)
{
    const pool_job *j = arg;
    int64_t in, out;
    const sw_conv *s = plane_of(j, part, &in, &out);
    const int64_t row = s->in_w * SWI_LANES;
    float *dx = j->out + in;
    const bool pair = is_pair(s), packed = sw_pool_packs(s);
    const uint8_t *won = j->won + part * sw_pool_index_bytes(s);
    const bool fresh =
        pair && !j->accumulate && 2 * s->out_h == s->in_h && 2 * s->out_w == s->in_w;
    if (!j->accumulate && !fresh)
        memset(dx, 0, (size_t)(s->in_h * row) * sizeof *dx);
    for (int64_t oy = 0; oy < s->out_h; oy++)
        for (int64_t ox = 0; ox < s->out_w; ox++, out += SWI_LANES) {
            const window near = {0, 2, 0, 2, (2 * oy * s->in_w + 2 * ox) * SWI_LANES};
            if (fresh)
                max_window_dx(dx, j->in + out, won, near, row, 2, true, true);
            else if (pair)
                max_window_dx(dx, j->in + out, won, near, row, 2, true, false);
            else if (packed)
                max_window_dx(dx, j->in + out, won, window_of(s, oy, ox, SWI_LANES), row,
                              (int)s->kernel_w, true, false);
            else
                max_window_dx(dx, j->in + out, won, window_of(s, oy, ox, SWI_LANES), row,
                              (int)s->kernel_w, false, false);
            won += packed ? 4 : SWI_LANES;
        }
}

SW_VEC_FN void avg_window(float *y, const float *x, window w, int64_t row, float count)
{
    for (int lane = 0; lane < SWI_LANES; lane += VW) {
        vf sum = vzero();
        for (int64_t ky = w.ky0; ky < w.ky1; ky++)
            for (int64_t kx = w.kx0; kx < w.kx1; kx++)
                sum = vadd(sum, vload(x + w.at + ky * row + kx * SWI_LANES + lane));
        vstore(y + lane, vdiv(sum, vset1(count)));
    }
}

static void avg_part(void *arg, int part)
{
    const pool_job *j = arg;
    int64_t in, out;
    const sw_conv *s = plane_of(j, part, &in, &out);
    const int64_t row = s->in_w * SWI_LANES;
    const float count = (float)(s->kernel_h * s->kernel_w);
    const float *x = j->in + in;
    const bool pair = is_pair(s);
    for (int64_t oy = 0; oy < s->out_h; oy++)
        for (int64_t ox = 0; ox < s->out_w; ox++, out += SWI_LANES) {
            if (pair) {
                const window w = {0, 2, 0, 2, (2 * oy * s->in_w + 2 * ox) * SWI_LANES};
                avg_window(j->out + out, x, w, row, 4.0f);
            } else {
                avg_window(j->out + out, x, window_of(s, oy, ox, SWI_LANES), row, count);
            }
        }
}

static void avg_dx_part(void *arg, int part)
{
    const pool_job *j = arg;
    int64_t in, out;
    const sw_conv *s = plane_of(j, part, &in, &out);
    const int64_t row = s->in_w * SWI_LANES;
    const vf count = vset1((float)(s->kernel_h * s->kernel_w));
    float *dx = j->out + in;
    if (!j->accumulate)
        memset(dx, 0, (size_t)(s->in_h * row) * sizeof *dx);
    for (int64_t oy = 0; oy < s->out_h; oy++)
        for (int64_t ox = 0; ox < s->out_w; ox++, out += SWI_LANES) {
            const window w = window_of(s, oy, ox, SWI_LANES);
            for (int lane = 0; lane < SWI_LANES; lane += VW) {
                const vf d = vdiv(vload(j->in + out + lane), count);
                for (int64_t ky = w.ky0; ky < w.ky1; ky++)
                    for (int64_t kx = w.kx0; kx < w.kx1; kx++) {
                        float *to = dx + w.at + ky * row + kx * SWI_LANES + lane;
                        vstore(to, vadd(vload(to), d));
                    }
            }
        }
}

/* ---- plain images ------------------------------------------------------------------------ */

/* n neighbouring windows, all of which have this part in the image. More than one only where
 * all columns are inside. */
typedef struct {
    window w; /* the first */
    int n;
    swi_even even; /* of the n, where the stride is 2 */
} windows;

/* The windows of row oy from column ox on: one that a side cuts, or up to VW that none does. */
SW_VEC_FN windows windows_at(const sw_conv *s, int64_t oy, int64_t ox)
{
    const int64_t x = ox * s->stride - s->pad;
    windows w = {.w = window_of(s, oy, ox, 1), .n = 1};
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
    const float *from = x + w->w.at + ky * s->in_w + kx;
    if (s->stride == 1)
        return vload_upto(from, w->n);
    return s->stride == 2 ? vload_even(w->even, from) : vload_step(from, s->stride, 0, w->n);
}

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
    for (int64_t ky = w->w.ky0; ky < w->w.ky1; ky++)
        for (int64_t kx = w->w.kx0; kx < w->w.kx1; kx++) {
            const vf v = load_position(x, s, w, ky, kx);
            const vi here = viset1((int)(ky * s->kernel_w + kx));
            take(&best, &position, &first, v, here);
        }
    vstore_upto(y, best, w->n);
    if (index->to != NULL)
        put_positions(index, position, w->n);
}

static void max_plain_part(void *arg, int part)
{
    const pool_job *j = arg;
    int64_t in, out;
    const sw_conv *s = plane_of(j, part, &in, &out);
    const float *x = j->in + in;
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

static void max_plain_dx_part(void *arg, int part)
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

static void avg_plain_part(void *arg, int part)
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
            for (int64_t ky = w.w.ky0; ky < w.w.ky1; ky++)
                for (int64_t kx = w.w.kx0; kx < w.w.kx1; kx++)
                    sum = vadd(sum, load_position(x, s, &w, ky, kx));
            vstore_upto(y, vdiv(sum, count), w.n);
            ox += w.n;
            y += w.n;
        }
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

static void avg_plain_dx_part(void *arg, int part)
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
            const window w = window_of(s, oy, ox, 1);
            const float d = dy[ox] / count;
            for (int64_t ky = w.ky0; ky < w.ky1; ky++)
                for (int64_t kx = w.kx0; kx < w.kx1; kx++)
                    dx[w.at + ky * s->in_w + kx] += d;
        }
    }
}

/* ------------------------------------------------------------------------------------------ */

void SW_KERNEL(dense, max_pool)(float *y, uint8_t *index, const float *x, const sw_conv *s,
                                const sw_par *par)
{
    pool_job j = {.out = y, .in = x, .index = index, .s = s};
    planes(&j, max_part, max_plain_part, par);
}

void SW_KERNEL(dense, max_pool_dx)(float *dx, const float *dy, const uint8_t *index,
                                   const sw_conv *s, bool accumulate, const sw_par *par)
{
    pool_job j = {.out = dx, .in = dy, .won = index, .s = s, .accumulate = accumulate};
    planes(&j, max_dx_part, max_plain_dx_part, par);
}

void SW_KERNEL(dense, avg_pool)(float *y, const float *x, const sw_conv *s, const sw_par *par)
{
    pool_job j = {.out = y, .in = x, .s = s};
    planes(&j, avg_part, avg_plain_part, par);
}

void SW_KERNEL(dense, avg_pool_dx)(float *dx, const float *dy, const sw_conv *s,
                                   bool accumulate, const sw_par *par)
{
    pool_job j = {.out = dx, .in = dy, .s = s, .accumulate = accumulate};
    planes(&j, avg_dx_part, avg_plain_dx_part, par);
}
