/* Pooling over blocks of sixteen images: each plane (block and channel) is a part of its own,
 * so windows may overlap without parts meeting. Sums run in the order of outputs, then of
 * positions in the window. 2 x 2 windows that tile the image have their own loops. */
#include "kernels/cpu/isa/dense_internal.h"
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

static inline window window_of(const sw_conv *s, int64_t oy, int64_t ox)
{
    const int64_t y = oy * s->stride - s->pad, x = ox * s->stride - s->pad;
    window w = {.at = (y * s->in_w + x) * SWI_LANES};
    w.ky0 = y < 0 ? -y : 0;
    w.kx0 = x < 0 ? -x : 0;
    w.ky1 = s->in_h - y < s->kernel_h ? s->in_h - y : s->kernel_h;
    w.kx1 = s->in_w - x < s->kernel_w ? s->in_w - x : s->kernel_w;
    return w;
}

/* Windows are 2 x 2 side by side and none leaves the image. */
static bool is_pair(const sw_conv *s)
{
    return s->kernel_h == 2 && s->kernel_w == 2 && s->stride == 2 && s->pad == 0 &&
           2 * s->out_h <= s->in_h && 2 * s->out_w <= s->in_w;
}

static void planes(pool_job *j, void (*body)(void *, int), const sw_par *par)
{
    const sw_conv *s = j->s;
    const int64_t n = swi_blocks(s->batch) * s->in_c;
    const double work = (double)n * (double)(s->out_h * s->out_w) *
                        (double)(s->kernel_h * s->kernel_w) * SWI_LANES;
    vruns(par, body, j, (int)n, work >= SWI_WORTH);
}

static const sw_conv *plane_of(const pool_job *j, int part, int64_t *in, int64_t *out)
{
    *in = (int64_t)part * j->s->in_h * j->s->in_w * SWI_LANES;
    *out = (int64_t)part * j->s->out_h * j->s->out_w * SWI_LANES;
    return j->s;
}

/* ---- max --------------------------------------------------------------------------------- */

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
                max_window(y, index, x, window_of(s, oy, ox), row, (int)s->kernel_w, true);
            } else {
                max_window(y, index, x, window_of(s, oy, ox), row, (int)s->kernel_w, false);
            }
            if (index != NULL)
                index += packed ? 4 : SWI_LANES;
        }
}

void swi_max_pool(float *y, uint8_t *index, const float *x, const sw_conv *s, const sw_par *par)
{
    pool_job j = {.out = y, .in = x, .index = index, .s = s};
    planes(&j, max_part, par);
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
                max_window_dx(dx, j->in + out, won, window_of(s, oy, ox), row, (int)s->kernel_w,
                              true, false);
            else
                max_window_dx(dx, j->in + out, won, window_of(s, oy, ox), row, (int)s->kernel_w,
                              false, false);
            won += packed ? 4 : SWI_LANES;
        }
}

void swi_max_pool_dx(float *dx, const float *dy, const uint8_t *index, const sw_conv *s,
                     bool accumulate, const sw_par *par)
{
    pool_job j = {.out = dx, .in = dy, .won = index, .s = s, .accumulate = accumulate};
    planes(&j, max_dx_part, par);
}

/* ---- average ----------------------------------------------------------------------------- */

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
                avg_window(j->out + out, x, window_of(s, oy, ox), row, count);
            }
        }
}

void swi_avg_pool(float *y, const float *x, const sw_conv *s, const sw_par *par)
{
    pool_job j = {.out = y, .in = x, .s = s};
    planes(&j, avg_part, par);
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
            const window w = window_of(s, oy, ox);
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

void swi_avg_pool_dx(float *dx, const float *dy, const sw_conv *s, bool accumulate,
                     const sw_par *par)
{
    pool_job j = {.out = dx, .in = dy, .s = s, .accumulate = accumulate};
    planes(&j, avg_dx_part, par);
}
