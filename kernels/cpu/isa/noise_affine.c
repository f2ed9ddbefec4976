/* y = x (g + s sigma e) + (b + s sigma f) by channel. Plain rows: a part is a direction, whose
 * numbers are drawn once, CHANNELS at a time, and become gains and shifts where the sign of a
 * repeat changes. Blocks of sixteen: a part is a block, and gains and shifts are vectors of its
 * lanes' directions. */
#include "kernels/cpu/isa/noise_internal.h"

enum { CHANNELS = 1024, LANES = 16, SOME = 128, WORTH = 1 << 15 };

typedef struct {
    const sw_noise_affine *f;
    const sw_noise_layer *l;
    int64_t per; /* rows of an evaluation */
} affine_job;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* e and f of channels [c, c + n) of a direction; c is a multiple of four. */
static void draw(float *e, float *f, const affine_job *j, int64_t direction, int64_t c,
                 int64_t n)
{
    const sw_noise_layer *l = j->l;
    const sw_noise_spec *w = &l->a->weight, *b = &l->a->bias;
    const sw_noise_at at = {l->seed, l->generation, l->first + (uint32_t)direction};
    if (w->rows == 0)
        memset(e, 0, (size_t)n * sizeof *e);
    else if (w->kind != SW_NOISE_DROPOUT)
        swi_noise_fill(e, c, n, w, SW_NOISE_ELEMENTS, &at);
    if (w->rows != 0 && w->kind == SW_NOISE_DROPOUT) {
        uint32_t words[CHANNELS + 32];
        swi_noise_source from;
        sw_noise_direction d;
        sw_noise_prepare(&d, w, &at, l->sigma);
        swi_noise_source_of(&from, w, SW_NOISE_ROWS, &at);
        swi_noise_words(words, c / 4, (n + 3) / 4, &from);
        for (int64_t i = 0; i < n; i++)
            e[i] = words[i] < d.drop_below ? -1.0f / d.sigma : d.sigma;
    }
    if (b->rows == 0)
        memset(f, 0, (size_t)n * sizeof *f);
    else
        swi_noise_fill(f, c, n, b, SW_NOISE_ELEMENTS, &at);
    for (int64_t i = 0; i < n && l->weight_sigmas != NULL; i++)
        e[i] *= l->weight_sigmas[c + i];
    for (int64_t i = 0; i < n && l->bias_sigmas != NULL; i++)
        f[i] *= l->bias_sigmas[c + i];
}

static float gain_of(const affine_job *j, int64_t c)
{
    return j->f->gain != NULL ? j->f->gain[c] : 1.0f;
}
static float shift_of(const affine_job *j, int64_t c)
{
    return j->f->shift != NULL ? j->f->shift[c] : 0.0f;
}

/* n numbers: y = or += x gain + shift, where gain and shift go along, or are one number. */
SW_VEC_FN void apply(const affine_job *j, int64_t at, const float *gain, const float *shift,
                     int64_t n, bool along)
{
    float *y = j->f->y + at;
    const float *x = j->f->x + at;
    const bool add = j->f->accumulate;
    const vf g = vset1(gain[0]), h = vset1(shift[0]);
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf v = vfma(vload(x + i), along ? vload(gain + i) : g, along ? vload(shift + i) : h);
        vstore(y + i, add ? vadd(vload(y + i), v) : v);
    }
    if (i < n) {
        const int m = (int)(n - i);
        vf v = vfma(vload_n(x + i, m), along ? vload_n(gain + i, m) : g,
                    along ? vload_n(shift + i, m) : h);
        vstore_n(y + i, add ? vadd(vload_n(y + i, m), v) : v, m);
    }
}

/* Channels [c, c + n) of one row of the batch. */
static void one_row(const affine_job *j, int64_t row, int64_t c, int64_t n, const float *gain,
                    const float *shift)
{
    const sw_noise_affine *f = j->f;
    for (int64_t m = 0; m < f->middle; m++) {
        const int64_t at = ((row * f->middle + m) * f->channels + c) * f->inner;
        if (f->inner == 1) {
            apply(j, at, gain, shift, n, true);
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            apply(j, at + i * f->inner, gain + i, shift + i, f->inner, false);
    }
}

static void plain_part(void *arg, int part)
{
    const affine_job *j = arg;
    const swi_noise_attrs *a = j->l->a;
    float e[CHANNELS], f[CHANNELS], gain[CHANNELS], shift[CHANNELS];
    for (int64_t c = 0; c < j->f->channels; c += CHANNELS) {
        const int64_t n = least(j->f->channels - c, CHANNELS);
        float last = 0.0f;
        draw(e, f, j, part, c, n);
        for (int64_t q = 0; q < a->repeats * j->per; q++) {
            const int64_t evaluation = q / j->per * a->directions + part;
            const float sign = sw_noise_sign(a, evaluation), scale = sign * j->l->sigma;
            for (int64_t i = 0; i < n && sign != last; i++) {
                gain[i] = gain_of(j, c + i) + scale * e[i];
                shift[i] = shift_of(j, c + i) + scale * f[i];
            }
            last = sign;
            one_row(j, evaluation * j->per + q % j->per, c, n, gain, shift);
        }
    }
}

/* ---- blocks --------------------------------------------------------------------------------
 */

/* to (n, LANES): of each lane base + scale times its numbers. */
static void turn(float *to, float rows[LANES][SOME], const float scale[LANES],
                 const float *base, float otherwise, int64_t n, int64_t lanes)
{
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < LANES; k++)
            to[i * LANES + k] =
                k < lanes ? (base != NULL ? base[i] : otherwise) + scale[k] * rows[k][i]
                          : otherwise; /* past the batch */
}

static void block_part(void *arg, int part)
{
    const affine_job *j = arg;
    const sw_noise_affine *f = j->f;
    const swi_noise_attrs *a = j->l->a;
    _Alignas(64) float e[LANES][SOME], h[LANES][SOME];
    _Alignas(64) float gain[SOME * LANES], shift[SOME * LANES];
    float scale[LANES] = {0};
    const int64_t lanes = least(f->batch - part * (int64_t)LANES, LANES);
    memset(e, 0, sizeof e);
    memset(h, 0, sizeof h);
    for (int64_t c = 0; c < f->channels; c += SOME) {
        const int64_t n = least(f->channels - c, SOME);
        for (int64_t k = 0; k < lanes; k++) {
            const int64_t evaluation = (part * (int64_t)LANES + k) / j->per;
            scale[k] = sw_noise_sign(a, evaluation) * j->l->sigma;
            draw(e[k], h[k], j, evaluation % a->directions, c, n);
        }
        turn(gain, e, scale, f->gain != NULL ? f->gain + c : NULL, 1.0f, n, lanes);
        turn(shift, h, scale, f->shift != NULL ? f->shift + c : NULL, 0.0f, n, lanes);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = ((part * f->channels + c + i) * f->inner) * LANES;
            for (int64_t p = 0; p < f->inner; p++)
                apply(j, at + p * LANES, gain + i * LANES, shift + i * LANES, LANES, true);
        }
    }
}

void SW_KERNEL(noise, affine)(const sw_noise_affine *f, const sw_noise_layer *l,
                              const sw_par *par)
{
    affine_job j = {f, l, f->batch / (l->a->repeats * l->a->directions)};
    const int64_t size = f->batch * f->middle * f->channels * f->inner;
    if (size < 1)
        return;
    if (f->blocks)
        vparts(par, block_part, &j, (int)((f->batch + LANES - 1) / LANES), size >= WORTH);
    else
        vparts(par, plain_part, &j, (int)l->a->directions, size >= WORTH);
}
