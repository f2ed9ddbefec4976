/* Convolutions of one position, no stride, one group: products of the weights with each image
 * or block, (out, in) by (in, positions and lanes). The gradient of x is the same with the
 * weights turned.
 *
 * Columns go in strips. A strip of x is packed, panel by panel of PANEL vectors, so that what a
 * register block of up to 6 channels reads lies together: planes are often a power of two
 * apart, which caches do not like. An element begins with the bias and adds the channels in
 * order, as in the other convolutions: the bits are theirs.
 *
 * Parts of the work: some of the strips each, packed one after the other in a position of the
 * part's own in scratch.
 *
 * In an order of bf16 a strip is a product of sw_gemm's, whose bias comes last. Scratch then
 * has the packed weights, unless they are large. */
#include "kernels/cpu/isa/dense_internal.h"

#if SW_ISA_ID == 2
#define PANEL 4 /* vectors: 6 x 4 accumulators of 32 registers */
#else
#define PANEL 2
#endif
#define NR (PANEL * VW)
enum { STRIP_FLOATS = 65536, STRIP_MOST = 1024 }; /* packed; columns */
enum { WEIGHTS = 1 << 19, ROWS = 6 }; /* most floats of packed weights; of a strip */

typedef struct {
    sw_gemm half; /* of a strip, but for its place; its order is none: float32 */
    float *y, *scratch;
    const float *x, *w, *bias;
    int64_t in_c, out_c, w_out, w_in; /* channels; steps of w by channels of y and x */
    int64_t size, images;             /* floats of a plane; images or blocks */
    int64_t strip, strips, units;     /* columns; strips of an image; of all */
    bool accumulate, packs;           /* packs: the weights */
    int slots;
} product_job;

bool swi_conv_is_product(const sw_conv *s)
{
    return s->kernel_h == 1 && s->kernel_w == 1 && s->stride == 1 && s->pad == 0 &&
           s->groups == 1;
}

/* in_c: channels of what is packed. By shape, but for the slots. */
static product_job plan(const sw_conv *s, int64_t in_c, int threads)
{
    product_job j = {.in_c = in_c, .images = s->plain ? s->batch : swi_blocks(s->batch)};
    j.size = s->in_h * s->in_w * (s->plain ? 1 : SWI_LANES);
    int64_t most = STRIP_FLOATS / (in_c > 0 ? in_c : 1);
    most = most < STRIP_MOST ? most : STRIP_MOST;
    j.strips = (j.size + most - 1) / (most > NR ? most : NR);
    j.strips = j.strips > 0 ? j.strips : 1;
    j.strip = ((j.size + j.strips - 1) / j.strips + NR - 1) / NR * NR;
    j.strips = (j.size + j.strip - 1) / (j.strip > 0 ? j.strip : 1);
    j.units = j.images * j.strips;
    j.slots =
        (double)s->batch * (double)swi_weights(s) * (double)(s->in_h * s->in_w) < SWI_WORTH
            ? 1
            : threads;
    j.slots = j.units < j.slots ? (int)j.units : j.slots;
    return j;
}

/* Columns [at, at + strip) of all channels; zeros past the plane. A panel is (channels, NR). */
static void pack(float *to, const product_job *j, const float *x, int64_t at)
{
    const int64_t end = at + j->strip < j->size ? at + j->strip : j->size;
    for (int64_t c = 0; c < j->in_c; c++, x += j->size)
        for (int64_t k = 0; k < j->strip; k += VW) {
            const int64_t left = end - at - k;
            const vf v = left > 0 ? vload_upto(x + at + k, left) : vzero();
            vstore(to + (k / NR * j->in_c + c) * NR + k % NR, v);
        }
}

/* ob channels from o on by n columns, n in ((nv - 1) * VW, nv * VW]; ob and nv are constants.
 */
SW_VEC_FN void block(const product_job *j, const float *panel, float *y, int64_t o, int n,
                     int ob, int nv)
{
    vf acc[6][PANEL];
    SW_UNROLL
    for (int i = 0; i < ob; i++) {
        SW_UNROLL
        for (int v = 0; v < nv; v++)
            acc[i][v] = vset1(j->bias != NULL ? j->bias[o + i] : 0.0f);
    }
    const float *w = j->w + o * j->w_out;
    const int64_t w_out = j->w_out, w_in = j->w_in;
    for (int64_t c = 0; c < j->in_c; c++, panel += NR, w += w_in) {
        vf x[PANEL];
        SW_UNROLL
        for (int v = 0; v < nv; v++)
            x[v] = vload(panel + v * VW);
        SW_UNROLL
        for (int i = 0; i < ob; i++) {
            const vf weight = vset1(w[i * w_out]);
            SW_UNROLL
            for (int v = 0; v < nv; v++)
                acc[i][v] = vfma(weight, x[v], acc[i][v]);
        }
    }
    y += o * j->size;
    const int last = n - (nv - 1) * VW;
    SW_UNROLL
    for (int i = 0; i < ob; i++) {
        SW_UNROLL
        for (int v = 0; v < nv; v++) {
            float *to = y + i * j->size + v * VW;
            const int lanes = v < nv - 1 ? VW : last;
            vstore_upto(to, j->accumulate ? vadd(vload_upto(to, lanes), acc[i][v]) : acc[i][v],
                        lanes);
        }
    }
}

SW_VEC_FN void channels(const product_job *j, const float *panel, float *y, int n, int nv)
{
    for (int64_t o = 0; o < j->out_c;) {
        const int ob = swi_channel_block(j->out_c - o);
        if (ob == 6)
            block(j, panel, y, o, n, 6, nv);
        else if (ob == 4)
            block(j, panel, y, o, n, 4, nv);
        else if (ob == 2)
            block(j, panel, y, o, n, 2, nv);
        else
            block(j, panel, y, o, n, 1, nv);
        o += ob;
    }
}

#define DEFINE_CHANNELS(nv)                                                                    \
    static void channels_##nv(const product_job *j, const float *panel, float *y, int n)       \
    {                                                                                          \
        channels(j, panel, y, n, nv);                                                          \
    }
DEFINE_CHANNELS(1)
DEFINE_CHANNELS(2)
#if PANEL == 4
DEFINE_CHANNELS(3)
DEFINE_CHANNELS(4)
#endif

typedef void channels_fn(const product_job *j, const float *panel, float *y, int n);
/* By the vectors of a panel, less one. */
static channels_fn *const by_vectors[PANEL] = {
    channels_1,
    channels_2,
#if PANEL == 4
    channels_3,
    channels_4,
#endif
};

static void weights_part(void *arg, int part)
{
    const product_job *j = arg;
    swi_gemm_pack_strips(j->scratch, &j->half, vpiece(j->half.m, ROWS, part, j->slots),
                         vpiece(j->half.m, ROWS, part + 1, j->slots));
}

static void product_part(void *arg, int part)
{
    const product_job *j = arg;
    const bool half = j->half.order != SW_ORDER_NONE; /* it may have no scratch */
    float *packed = half ? NULL : j->scratch + (int64_t)part * j->in_c * j->strip;
    const int64_t last = vpiece(j->units, 1, part + 1, j->slots);
    for (int64_t u = vpiece(j->units, 1, part, j->slots); u < last; u++) {
        const int64_t image = u / j->strips, at = u % j->strips * j->strip;
        if (half) {
            sw_gemm g = j->half;
            g.b = swi_element(j->x, image * g.k * j->size + at, g.b_half);
            g.c = swi_element(j->y, image * g.m * j->size + at, g.c_half);
            g.n = least(j->strip, j->size - at);
            if (j->packs)
                swi_gemm_strips(&g, j->scratch, NULL);
            else
                swi_gemm(&g, NULL, NULL);
            continue;
        }
        pack(packed, j, j->x + image * j->in_c * j->size, at);
        for (int64_t k = 0; k < j->strip && at + k < j->size; k += NR) {
            const int n = j->size - at - k < NR ? (int)(j->size - at - k) : NR;
            by_vectors[(n + VW - 1) / VW - 1](j, packed + k * j->in_c,
                                              j->y + image * j->out_c * j->size + at + k, n);
        }
    }
}

size_t swi_conv_product_bytes(const sw_conv *s, bool gradient, int threads)
{
    const product_job j = plan(s, gradient ? s->out_c : s->in_c, threads);
    if (s->order != SW_ORDER_NONE) {
        const int64_t all = (gradient ? s->in_c : s->out_c) * ((j.in_c + 31) / 32 * 32);
        return all > WEIGHTS ? 0 : (size_t)all * sizeof(float);
    }
    return (size_t)j.slots * (size_t)j.in_c * (size_t)j.strip * sizeof(float);
}

void swi_conv_product(float *y, const float *x, const float *w, const float *bias,
                      const sw_conv *s, bool gradient, bool accumulate, void *scratch,
                      const sw_par *par)
{
    product_job j = plan(s, gradient ? s->out_c : s->in_c, par != NULL ? par->n_threads : 1);
    j.y = y, j.x = x, j.w = w, j.bias = bias, j.scratch = scratch;
    j.accumulate = accumulate;
    j.out_c = gradient ? s->in_c : s->out_c;
    j.w_out = gradient ? 1 : s->in_c, j.w_in = gradient ? s->in_c : 1;
    j.half = (sw_gemm){.a = w, .a_row = j.w_out, .a_col = j.w_in, .a_half = s->w_half};
    j.half.b_row = j.half.c_row = j.size, j.half.b_col = 1;
    j.half.b_half = gradient ? s->y_half : s->x_half;
    j.half.c_half = gradient ? s->x_half : s->y_half;
    j.half.m = j.out_c, j.half.k = j.in_c;
    j.half.bias = bias, j.half.bias_down = true;
    j.half.accumulate = accumulate, j.half.order = s->order;
    j.packs = scratch != NULL && s->order != SW_ORDER_NONE &&
              swi_conv_product_bytes(s, gradient, 1) > 0;
    if (j.packs)
        vparts(par, weights_part, &j, j.slots, true);
    vparts(par, product_part, &j, j.slots, true);
}
