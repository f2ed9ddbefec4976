/* Convolutions of one position, no stride, one group: products of the weights with each image
 * or block, (out, in) by (in, positions and lanes). The gradient of x is the same with the
 * weights turned.
 *
 * Columns go in strips, each a product of sw_gemm's; parts of the work are some of the strips
 * each. In an order of bf16 scratch has the packed weights, unless they are large. */
#include "kernels/cpu/isa/dense_internal.h"

enum { STRIP_FLOATS = 65536, STRIP_MOST = 1024, STRIP_UNIT = 64 }; /* of x; columns */
enum { WEIGHTS = 1 << 19, ROWS = 6 }; /* most floats of packed weights; of a strip of them */

typedef struct {
    sw_gemm g; /* of a strip, but for its place */
    float *packed;
    const float *x;
    float *y;
    int64_t size;                 /* numbers of a plane */
    int64_t strip, strips, units; /* columns; strips of an image; of all */
    int parts;
} product_job;

bool swi_conv_is_product(const sw_conv *s)
{
    return s->kernel_h == 1 && s->kernel_w == 1 && s->stride == 1 && s->pad == 0 &&
           s->groups == 1;
}

/* in_c: channels that are summed. By shape, but for the parts. */
static product_job plan(const sw_conv *s, int64_t in_c, int threads)
{
    product_job j = {.size = s->in_h * s->in_w * (s->plain ? 1 : SWI_LANES)};
    int64_t most = STRIP_FLOATS / (in_c > 0 ? in_c : 1);
    most = most < STRIP_MOST ? most : STRIP_MOST;
    j.strips = (j.size + most - 1) / (most > STRIP_UNIT ? most : STRIP_UNIT);
    j.strips = j.strips > 0 ? j.strips : 1;
    j.strip = ((j.size + j.strips - 1) / j.strips + STRIP_UNIT - 1) / STRIP_UNIT * STRIP_UNIT;
    j.strips = (j.size + j.strip - 1) / (j.strip > 0 ? j.strip : 1);
    j.units = (s->plain ? s->batch : swi_blocks(s->batch)) * j.strips;
    j.parts =
        (double)s->batch * (double)swi_weights(s) * (double)(s->in_h * s->in_w) < SWI_WORTH
            ? 1
            : threads;
    j.parts = j.units < j.parts ? (int)j.units : j.parts;
    return j;
}

static void weights_part(void *arg, int part)
{
    const product_job *j = arg;
    swi_gemm_pack_strips(j->packed, &j->g, vpiece(j->g.m, ROWS, part, j->parts),
                         vpiece(j->g.m, ROWS, part + 1, j->parts));
}

static void product_part(void *arg, int part)
{
    const product_job *j = arg;
    const int64_t last = vpiece(j->units, 1, part + 1, j->parts);
    for (int64_t u = vpiece(j->units, 1, part, j->parts); u < last; u++) {
        const int64_t image = u / j->strips, at = u % j->strips * j->strip;
        sw_gemm g = j->g;
        g.b = swi_element(j->x, image * g.k * j->size + at, g.b_half);
        g.c = swi_element(j->y, image * g.m * j->size + at, g.c_half);
        g.n = least(j->strip, j->size - at);
        if (j->packed != NULL)
            swi_gemm_strips(&g, j->packed, NULL);
        else
            swi_gemm(&g, NULL, NULL);
    }
}

size_t swi_conv_product_bytes(const sw_conv *s, bool gradient)
{
    const int64_t out = gradient ? s->in_c : s->out_c, in = gradient ? s->out_c : s->in_c;
    const int64_t all = out * ((in + 31) / 32 * 32);
    return s->order == SW_ORDER_NONE || all > WEIGHTS ? 0 : (size_t)all * sizeof(float);
}

void swi_conv_product(float *y, const float *x, const float *w, const float *bias,
                      const sw_conv *s, bool gradient, bool accumulate, void *scratch,
                      const sw_par *par)
{
    const int64_t in_c = gradient ? s->out_c : s->in_c;
    product_job j = plan(s, in_c, par != NULL ? par->n_threads : 1);
    j.y = y, j.x = x;
    j.g = (sw_gemm){.a = w, .a_half = s->w_half, .k = in_c, .b_col = 1};
    j.g.a_row = gradient ? 1 : s->in_c, j.g.a_col = gradient ? s->in_c : 1;
    j.g.m = gradient ? s->in_c : s->out_c;
    j.g.b_row = j.g.c_row = j.size;
    j.g.b_half = gradient ? s->y_half : s->x_half;
    j.g.c_half = gradient ? s->x_half : s->y_half;
    j.g.bias = bias, j.g.bias_down = true;
    j.g.accumulate = accumulate, j.g.order = s->order;
    if (scratch != NULL && swi_conv_product_bytes(s, gradient) > 0) {
        j.packed = scratch;
        vparts(par, weights_part, &j, j.parts, true);
    }
    vparts(par, product_part, &j, j.parts, true);
}
