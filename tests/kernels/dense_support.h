/* Memory, numbers and threads for tests of dense kernels. */
#ifndef SW_TESTS_DENSE_SUPPORT_H
#define SW_TESTS_DENSE_SUPPORT_H

#include "kernels/dispatch.h"
#include "tests/support/suite.h"

/* Threads that run their parts in reverse, all on this one: what depends on the order shows. */
static void run_reversed(const sw_par *par, void (*body)(void *arg, int part), void *arg,
                         int n_parts)
{
    (void)par;
    for (int part = n_parts - 1; part >= 0; part--)
        body(arg, part);
}

static const sw_par one_thread = {1, run_reversed}, reversed = {3, run_reversed};

/* Buffers come from one pool, each followed by a guard that must not be written. */
enum { POOL = 6 << 20, GUARD = 16, MAX_TAKEN = 128 };
static _Alignas(64) float pool[POOL];
static size_t pool_used;
static size_t taken_end[MAX_TAKEN];
static int n_taken;

static float *take(size_t n)
{
    float *p = pool + pool_used;
    const size_t end = pool_used + n, next = (end + GUARD + 15) / 16 * 16;
    CU_ASSERT_FATAL(next <= POOL && n_taken < MAX_TAKEN);
    memset(p, 0xff, (next - pool_used) * sizeof *p); /* NaN */
    taken_end[n_taken++] = end;
    pool_used = next;
    return p;
}

/* Ends a case: every guard still stands, and the pool is empty again. */
static void give_all(void)
{
    for (int i = 0; i < n_taken; i++)
        for (int k = 0; k < GUARD; k++) {
            uint32_t bits;
            memcpy(&bits, pool + taken_end[i] + k, sizeof bits);
            CU_ASSERT_EQUAL(bits, 0xffffffffu);
        }
    n_taken = 0;
    pool_used = 0;
}

/* n numbers in (-1, 1). */
static float *numbers(size_t n, uint64_t seed)
{
    sw_dice dice = {seed};
    float *p = take(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)sw_dice_below(&dice, 20001) / 10001.0f - 1.0f;
    return p;
}

static float *copy_of(const float *from, size_t n)
{
    float *p = take(n);
    memcpy(p, from, n * sizeof *p);
    return p;
}

/* Where image b has element i of `inner` in blocks of sixteen. */
static inline int64_t n16(int64_t b, int64_t i, int64_t inner)
{
    return (b / 16 * inner + i) * 16 + b % 16;
}

static inline size_t n16_floats(int64_t batch, int64_t inner)
{
    return (size_t)((batch + 15) / 16 * 16 * inner);
}

/* Blocks of random images; lanes past the batch are zero. */
static inline float *images(int64_t batch, int64_t inner, uint64_t seed)
{
    float *p = numbers(n16_floats(batch, inner), seed);
    for (int64_t b = batch; b < (batch + 15) / 16 * 16; b++)
        for (int64_t i = 0; i < inner; i++)
            p[n16(b, i, inner)] = 0.0f;
    return p;
}

/* `plain` images in blocks; lanes past the batch are zero. */
static inline float *blocks_of(const float *plain, int64_t batch, int64_t inner)
{
    const size_t n = n16_floats(batch, inner);
    float *p = take(n);
    memset(p, 0, n * sizeof *p);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < inner; i++)
            p[n16(b, i, inner)] = plain[b * inner + i];
    return p;
}

/* The same images in the layout of s; NULL stays. */
static inline float *laid_out(const sw_conv *s, const float *plain, int64_t inner)
{
    if (plain == NULL)
        return NULL;
    return s->plain ? copy_of(plain, (size_t)(s->batch * inner))
                    : blocks_of(plain, s->batch, inner);
}

/* Floats of images in the layout of s, and where element i of image b is. */
static inline size_t held(const sw_conv *s, int64_t inner)
{
    return s->plain ? (size_t)(s->batch * inner) : n16_floats(s->batch, inner);
}
static inline int64_t held_at(const sw_conv *s, int64_t b, int64_t i, int64_t inner)
{
    return s->plain ? b * inner + i : n16(b, i, inner);
}

/* A copy of `before`; NaN where it is NULL. */
static inline float *begin_with(const float *before, size_t n)
{
    return before != NULL ? copy_of(before, n) : take(n);
}

/* `plain` holds, bit for bit, what `blocks` holds in its lanes of images. */
static inline bool same_images(const float *plain, const float *blocks, int64_t batch,
                               int64_t inner)
{
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < inner; i++)
            if (memcmp(plain + b * inner + i, blocks + n16(b, i, inner), sizeof *plain) != 0)
                return false;
    return true;
}

static inline bool same_bits(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* The place that max pooling says won in output i of image b. */
static inline int won_at(const sw_conv *s, const uint8_t *index, int64_t b, int64_t i)
{
    const int64_t plane = s->out_h * s->out_w, all = s->out_c * plane, o = i % plane;
    if (!sw_pool_packs(s))
        return index[s->plain ? b * all + i : n16(b, i, all)];
    index += ((s->plain ? b : b / 16) * s->out_c + i / plane) * sw_pool_index_bytes(s);
    if (s->plain)
        return index[o / 4] >> o % 4 * 2 & 3;
    const int low = index[4 * o + b % 16 / 8] >> b % 8 & 1;
    return low | (index[4 * o + 2 + b % 16 / 8] >> b % 8 & 1) << 1;
}

/* Sizes of a convolution, with `groups` and `dilation` set. */
static inline sw_conv conv_of(int64_t batch, int64_t in_c, int64_t h, int64_t w, int64_t out_c,
                              int64_t kh, int64_t kw, int64_t stride, int64_t pad,
                              int64_t groups, int64_t dilation)
{
    sw_conv s = {.batch = batch, .in_c = in_c, .in_h = h, .in_w = w, .out_c = out_c};
    s.kernel_h = kh, s.kernel_w = kw, s.stride = stride, s.pad = pad;
    s.groups = groups, s.dilation = dilation;
    s.out_h = (h + 2 * pad - (kh - 1) * dilation - 1) / stride + 1;
    s.out_w = (w + 2 * pad - (kw - 1) * dilation - 1) / stride + 1;
    return s;
}

static inline int64_t in_size(const sw_conv *s)
{
    return s->in_c * s->in_h * s->in_w;
}

static inline int64_t out_size(const sw_conv *s)
{
    return s->out_c * s->out_h * s->out_w;
}

static inline int64_t conv_weights(const sw_conv *s)
{
    return s->out_c * (s->in_c / s->groups) * s->kernel_h * s->kernel_w;
}

static inline const char *conv_text(const sw_conv *s)
{
    static char text[200];
    snprintf(text, sizeof text,
             "batch %d %dx%dx%d -> %d, kernel %dx%d/%d+%d, groups %d, dilation %d",
             (int)s->batch, (int)s->in_c, (int)s->in_h, (int)s->in_w, (int)s->out_c,
             (int)s->kernel_h, (int)s->kernel_w, (int)s->stride, (int)s->pad, (int)s->groups,
             (int)s->dilation);
    return text;
}

/* Calls visit with the sizes of a convolution: groups, depthwise, dilation, strides, and 1x1.
 */
static inline void each_grouped_conv(void (*visit)(sw_conv s), int64_t batch)
{
    visit(conv_of(batch, 4, 7, 6, 6, 3, 3, 1, 1, 2, 1));
    visit(conv_of(batch, 6, 5, 7, 3, 2, 3, 2, 1, 3, 1));
    visit(conv_of(batch, 4, 6, 5, 8, 1, 1, 1, 0, 2, 1));
    visit(conv_of(batch, 5, 9, 8, 5, 3, 3, 1, 1, 5, 1)); /* depthwise */
    visit(conv_of(batch, 3, 7, 9, 3, 3, 3, 2, 1, 3, 1));
    visit(conv_of(batch, 3, 8, 10, 3, 5, 5, 1, 2, 3, 1));
    visit(conv_of(batch, 3, 10, 7, 3, 5, 5, 2, 2, 3, 1));
    visit(conv_of(batch, 2, 5, 19, 2, 3, 3, 1, 1, 2, 1)); /* depthwise, long rows */
    visit(conv_of(batch, 2, 5, 27, 2, 3, 3, 2, 1, 2, 1));
    visit(conv_of(batch, 2, 6, 20, 2, 5, 5, 1, 2, 2, 1));
    visit(conv_of(batch, 2, 6, 29, 2, 5, 5, 2, 2, 2, 1));
    visit(conv_of(batch, 2, 2, 2, 2, 5, 5, 1, 2, 2, 1)); /* larger than the image */
    visit(conv_of(batch, 2, 6, 5, 2, 4, 2, 3, 1, 2, 1));
    visit(conv_of(batch, 3, 6, 7, 6, 3, 3, 1, 1, 3, 1)); /* two outputs for each channel */
    visit(conv_of(batch, 3, 9, 8, 4, 3, 3, 1, 2, 1, 2));
    visit(conv_of(batch, 2, 11, 10, 3, 3, 2, 2, 2, 1, 3));
    visit(conv_of(batch, 2, 12, 9, 3, 3, 3, 4, 1, 1, 2)); /* places that no tap reaches */
    visit(conv_of(batch, 4, 9, 9, 4, 3, 3, 2, 2, 4, 2));
}

/* Against a sum of `terms` products with absolute values that sum to `scale`: the bound of
 * summing in floats in any order. */
static inline bool near_sum(float got, double want, double scale, int64_t terms)
{
    return fabs((double)got - want) <= 6.0e-8 * (double)(terms + 3) * scale + 1e-30;
}

#endif
