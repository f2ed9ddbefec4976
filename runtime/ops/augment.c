/* Augmentation of images (batch, c, h, w), bytes or floats: random_flip mirrors a share of
 * them, random_crop cuts each out of itself with rows and columns of zeros around it.
 *
 * Both keep nothing: backward draws the same numbers again, and mirrors the gradient, or moves
 * it back. Bytes, as data sets have them, are a quarter of the floats that they become. */
#include "kernels/augment.h"
#include "runtime/ops/ops.h"

static sw_status image_infer(const char *op, const sw_type *in, sw_type *out)
{
    const sw_shape *s = &in[0].shape;
    char text[SWI_SHAPE_TEXT];
    if (in[0].dtype != SW_U8 && in[0].dtype != SW_F32)
        SW_FAIL(SW_INVALID, "%s: images must be u8 or f32 (got %s)", op,
                sw_dtype_name(in[0].dtype));
    if (s->rank != 4)
        SW_FAIL(SW_INVALID, "%s: the input must be images (batch, c, h, w) (got %s)", op,
                swi_shape_text(s, text));
    out[0] = in[0];
    return SW_OK;
}

static sw_status flip_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const float p = ((const swi_augment_attrs *)attrs)->flip;
    (void)n_in;
    if (!(p >= 0.0f && p <= 1.0f))
        SW_FAIL(SW_INVALID, "random_flip: p must be 0 to 1 (got %g)", (double)p);
    return image_infer("random_flip", in, out);
}

static sw_status crop_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const int32_t pad = ((const swi_augment_attrs *)attrs)->pad;
    const sw_shape *s = &in[0].shape;
    char text[SWI_SHAPE_TEXT];
    (void)n_in;
    SW_TRY(image_infer("random_crop", in, out));
    if (pad < 0 || (pad > 0 && (pad >= s->dim[2] || pad >= s->dim[3])))
        SW_FAIL(SW_INVALID,
                "random_crop: pad must be at least 0 and below height and width (got %d for "
                "images %s)",
                pad, swi_shape_text(s, text));
    return SW_OK;
}

static sw_status run(const sw_launch *l, int back)
{
    const sw_type *t = &l->in[0].type;
    const sw_shape *s = &t->shape;
    if (swi_elements(s) == 0)
        return SW_OK;
    const sw_augment job = {.y = l->out[0].ptr,
                            .x = l->in[0].ptr,
                            .batch = s->dim[0],
                            .planes = s->dim[1],
                            .h = s->dim[2],
                            .w = s->dim[3],
                            .element = sw_dtype_bytes(t->dtype),
                            .attrs = *(const swi_augment_attrs *)l->attrs,
                            .back = back,
                            .accumulate = swi_adds(l, 0),
                            .seed = l->seed,
                            .stream = l->stream,
                            .step = l->step,
                            .run = l->run};
    sw_cpu_augment(&job, l->par);
    return SW_OK;
}

KERNEL(forward, run(l, 0))

/* in: dy */
KERNEL(backward, run(l, 1))

/* The counter of each image, and what becomes of its words: a shift and a comparison, or a
 * product, a shift and a difference for each of two. Elements are only moved. */
COUNT(flip_operations, swi_count_mul((uint64_t)info->in[0].shape.dim[0], 4 * SWI_PHILOX + 2))
COUNT(crop_operations, swi_count_mul((uint64_t)info->in[0].shape.dim[0], 4 * SWI_PHILOX + 6))

/* By the formula of each element. */
static sw_status reference(const sw_reference *r)
{
    const swi_augment_attrs *a = r->attrs;
    const sw_shape *s = &r->in_type[0].shape;
    const int64_t h = s->dim[2], w = s->dim[3];
    for (int64_t i = 0; i < swi_elements(s); i++) {
        const int64_t col = i % w, row = i / w % h, image = i / w / h / s->dim[1];
        uint32_t words[4];
        sw_rng_words(words, r->seed, (uint32_t)image, r->stream, r->step, r->run);
        int64_t y = row, x = col;
        if (a->pad > 0) {
            y += (int64_t)((double)words[0] * 0x1p-32 * (2 * a->pad + 1)) - a->pad;
            x += (int64_t)((double)words[1] * 0x1p-32 * (2 * a->pad + 1)) - a->pad;
        } else if ((double)sw_rng_unit(words[0]) < (double)a->flip) {
            x = w - 1 - col;
        }
        const bool is_inside = y >= 0 && y < h && x >= 0 && x < w;
        r->out[0][i] = is_inside ? r->in[0][i + (y - row) * w + x - col] : 0.0;
    }
    return SW_OK;
}

static const sw_grad_desc flip_grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0)), backward, flip_operations)};
static const sw_grad_desc crop_grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0)), backward, crop_operations)};

#define CASES(some, other)                                                                     \
    {                                                                                          \
        CASE("some", IN(F32(3, 2, 4, 5)), .attrs = some),                                      \
            CASE("many", IN(F32(37, 1, 7, 6)), FILL(DISTINCT), .attrs = other),                \
            CASE("bytes", IN(U8(33, 3, 8, 5)), FILL(BYTES), .attrs = some),                    \
            CASE("wide bytes", IN(U8(5, 1, 6, 70)), FILL(BYTES), .attrs = other),              \
            CASE("larger than a block", IN(F32(3, 3, 40, 37)), .attrs = other),                \
    }

static const swi_augment_attrs flips[] = {{0.5f, 0}, {0.3f, 0}, {1.0f, 0}};
static const sw_op_case flip_cases[] = CASES(&flips[0], &flips[1]);
static const swi_augment_attrs crops[] = {{0.0f, 2}, {0.0f, 4}};
static const sw_op_case crop_cases[] = CASES(&crops[0], &crops[1]);

OP(random_flip, 1, 0, 1, ATTRS(swi_augment_attrs), .rebuild = 1, .infer = flip_infer,
   .forward = forward, .random = 1, .operations = flip_operations, GRADS(flip_grads),
   CHECKS(reference, flip_cases));

OP(random_crop, 1, 0, 1, ATTRS(swi_augment_attrs), .rebuild = 1, .infer = crop_infer,
   .forward = forward, .random = 1, .operations = crop_operations, GRADS(crop_grads),
   CHECKS(reference, crop_cases));

/* ---- calls ------------------------------------------------------------------------------- */

/* In evaluation, and where nothing can change, x itself; what cannot be is refused there too.
 */
static sw_value apply(sw_ctx *ctx, uint32_t op, sw_value x, swi_augment_attrs a)
{
    char stream[SWI_STREAM_TEXT];
    uint32_t id = SWI_NONE;
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return (sw_value){0, 0};
    if (sw_ctx_mode(ctx) == SW_EVAL || (a.flip == 0.0f && a.pad == 0)) {
        sw_type out;
        const sw_status status = swi_op(op)->infer(&v->type, 1, &a, &out);
        return swi_stick(ctx, status) == SW_OK ? x : (sw_value){0, 0};
    }
    swi_name_stream(ctx, op, op, stream);
    const uint32_t in = x.id - 1;
    if (swi_apply(ctx, op, &in, 1, &a, NULL, 0, stream, &id) != SW_OK)
        return (sw_value){0, 0};
    return swi_handle(ctx, id);
}

sw_value sw_random_flip(sw_ctx *ctx, sw_value x, float p)
{
    return apply(ctx, SW_OP_random_flip, x, (swi_augment_attrs){.flip = p});
}

sw_value sw_random_crop(sw_ctx *ctx, sw_value x, int pad)
{
    return apply(ctx, SW_OP_random_crop, x, (swi_augment_attrs){.pad = pad});
}
