/* Frozen weights in 8 and 4 bits are made here; the files of cpu/isa read them. */
#include "kernels/stored.h"
#include <math.h>

/* Quantiles of the normal distribution, as QLoRA has them. */
const float sw_nf4_value[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

/* NaN where one of them is no number. */
static float largest(const float *x, int64_t n)
{
    float most = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return NAN;
        most = fmaxf(most, fabsf(x[i]));
    }
    return most;
}

static void encode_row(int8_t *codes, float *scale, const float *x, int64_t n)
{
    const float most = largest(x, n), by = most > 0.0f ? 127.0f / most : 0.0f;
    *scale = most / 127.0f;
    for (int64_t i = 0; i < n; i++) {
        const float code = nearbyintf(x[i] * by);
        codes[i] = (int8_t)(code > 127.0f ? 127.0f : code > -127.0f ? code : -127.0f);
    }
}

static unsigned nearest(float x)
{
    unsigned code = 0;
    for (unsigned k = 0; k < 15; k++)
        code += x > (sw_nf4_value[k] + sw_nf4_value[k + 1]) * 0.5f;
    return code;
}

/* A group of blocks; the last one may have fewer. */
static void encode_group(const sw_stored *w, int64_t first, int64_t n, const float *x)
{
    const int64_t blocks = n / SW_NF4_BLOCK;
    float most[SW_NF4_GROUP], mean = 0.0f, apart = 0.0f;
    int8_t *sizes = (int8_t *)(void *)(w->bytes + sw_stored_scales(w)) + first / SW_NF4_BLOCK;
    float *group = (float *)(void *)(w->bytes + sw_stored_groups(w)) +
                   first / SW_NF4_BLOCK / SW_NF4_GROUP * 2;
    for (int64_t b = 0; b < blocks; b++) {
        most[b] = largest(x + b * SW_NF4_BLOCK, SW_NF4_BLOCK);
        mean += most[b] / (float)blocks;
    }
    for (int64_t b = 0; b < blocks; b++)
        apart = fmaxf(apart, fabsf(most[b] - mean));
    group[0] = mean;
    group[1] = apart / 127.0f;
    for (int64_t b = 0; b < blocks; b++) {
        const float by = most[b] > 0.0f ? most[b] : 1.0f;
        const float code = group[1] > 0.0f ? nearbyintf((most[b] - mean) / group[1]) : 0.0f;
        sizes[b] = (int8_t)(code > 127.0f ? 127.0f : code >= -127.0f ? code : -127.0f);
        for (int64_t i = b * SW_NF4_BLOCK; i < (b + 1) * SW_NF4_BLOCK; i += 2)
            w->bytes[(first + i) / 2] =
                (unsigned char)(nearest(x[i] / by) << 4 | nearest(x[i + 1] / by));
    }
}

void sw_stored_encode(const sw_stored *w, int64_t first, int64_t n, const float *x)
{
    const int64_t unit = sw_stored_unit(w);
    for (int64_t at = 0; at < n; at += unit) {
        const int64_t i = first + at;
        if (w->dtype == SW_I8)
            encode_row((int8_t *)(void *)w->bytes + i,
                       (float *)(void *)(w->bytes + sw_stored_scales(w)) + i / w->cols, x + at,
                       unit);
        else
            encode_group(w, i, n - at < unit ? n - at : unit, x + at);
    }
}
