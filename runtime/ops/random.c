/* Random tensors, by counter: nothing to store, the same numbers for every number of
 * threads. */
#include "kernels/augment.h"
#include "kernels/dispatch.h"
#include "kernels/rng.h"
#include "runtime/ops/ops.h"
#include <stdio.h>
#include <string.h>

static sw_status random_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)in, (void)n_in;
    out[0] = (sw_type){SW_F32, SW_PLAIN, ((const swi_random_attrs *)attrs)->shape};
    if (sw_type_elements(&out[0]) < 0)
        SW_FAIL(SW_INVALID, "a random tensor of a bad shape");
    return SW_OK;
}

#define PART 16384

typedef void draw_fn(float *to, int64_t first, int64_t n, uint64_t seed, uint32_t stream,
                     uint32_t step, uint32_t run);
typedef struct {
    const sw_launch *l;
    draw_fn *draw;
    int64_t n;
} job;

static void draw_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t first = (int64_t)part * PART, rest = j->n - first;
    j->draw(swi_out(j->l, 0) + first, first, rest < PART ? rest : PART, j->l->seed,
            j->l->stream, j->l->step, j->l->run);
}

static sw_status draw(const sw_launch *l, draw_fn *fn)
{
    job j = {l, fn, sw_type_elements(&l->out[0].type)};
    l->par->run(l->par, draw_part, &j, (int)((j.n + PART - 1) / PART));
    return SW_OK;
}

KERNEL(randn_forward, draw(l, sw_rng_normal))
KERNEL(rand_forward, draw(l, sw_rng_uniform))
COUNT(randn_operations, swi_count_per_element(&info->out[0], SWI_NORMAL))
COUNT(rand_operations, swi_count_per_element(&info->out[0], SWI_UNIFORM))

/* Element by element: each number must not depend on its neighbours. */
static sw_status reference(const sw_reference *r, draw_fn *fn)
{
    for (int64_t i = 0; i < swi_elements(&r->out_type[0].shape); i++) {
        float x;
        fn(&x, i, 1, r->seed, r->stream, r->step, r->run);
        r->out[0][i] = (double)x;
    }
    return SW_OK;
}

REFERENCE(randn_reference, reference(r, sw_rng_normal))
REFERENCE(rand_reference, reference(r, sw_rng_uniform))

static const swi_random_attrs case_attrs = {{2, {33, 7}}};
static const sw_op_case cases[] = {CASE("matrix", AT(case_attrs))};

OP(randn, 0, 0, 1, ATTRS(swi_random_attrs), .rebuild = 1, .infer = random_infer,
   .forward = randn_forward, .no_gradient = 1, .random = 1, .operations = randn_operations,
   CHECKS(randn_reference, cases));

OP(rand, 0, 0, 1, ATTRS(swi_random_attrs), .rebuild = 1, .infer = random_infer,
   .forward = rand_forward, .no_gradient = 1, .random = 1, .operations = rand_operations,
   CHECKS(rand_reference, cases));

static void name_stream(const sw_ctx *ctx, uint32_t op, uint32_t also, char to[SWI_STREAM_TEXT])
{
    const swi_trace *t = &ctx->trace;
    const char *name = swi_op(op)->name;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        n += (t->nodes[i].op == op || t->nodes[i].op == also) && t->nodes[i].grad < 0 &&
             strcmp(swi_string(t, t->nodes[i].layer), ctx->scope) == 0;
    snprintf(to, SWI_STREAM_TEXT, n > 0 ? "%s.%u" : "%s", name, n);
}

/* The result of an op that draws from the stream. */
static sw_value drawn(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in, const void *attrs,
                      const char *stream)
{
    uint32_t id = SWI_NONE;
    if (swi_apply(ctx, op, in, n_in, attrs, NULL, 0, stream, &id) != SW_OK)
        return (sw_value){0, 0};
    return swi_handle(ctx, id);
}

static sw_value random_value(sw_ctx *ctx, uint32_t op, const char *stream, sw_shape shape)
{
    swi_random_attrs attrs;
    if (stream == NULL)
        return SWI_REFUSE(ctx, "sw_randn, sw_rand: the stream's name must not be NULL");
    swi_set_shape(&attrs.shape, &shape);
    return drawn(ctx, op, NULL, 0, &attrs, stream);
}

sw_value sw_randn(sw_ctx *ctx, const char *stream, sw_shape shape)
{
    return random_value(ctx, SW_OP_randn, stream, shape);
}

sw_value sw_rand(sw_ctx *ctx, const char *stream, sw_shape shape)
{
    return random_value(ctx, SW_OP_rand, stream, shape);
}

/* ==== dropout ============================================================================= */

/* Dropout: keeps nothing. Forward and backward draw the same numbers from the same stream, so
 * that no mask exists; element i of the tensor has number i in both layouts. */

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const float p = ((const swi_number_attrs *)attrs)->value;
    if (!(p >= 0.0f && p <= 1.0f))
        SW_FAIL(SW_INVALID, "dropout: p must be 0 to 1 (got %g)", (double)p);
    return swi_infer_same("dropout", in, n_in, out);
}

static sw_status drop(const sw_launch *l, float p)
{
    const sw_shape *s = &l->in[0].type.shape;
    const bool blocks = l->in[0].type.layout == SW_N16;
    const sw_drop d =
        SW_INIT(.p = p, .seed = l->seed, .stream = l->stream, .step = l->step, .run = l->run,
                .batch = blocks ? s->dim[0] : 1,
                .inner = blocks ? s->dim[1] * s->dim[2] * s->dim[3] : swi_elements(s),
                .blocks = blocks, .first = l->first);
    sw_axes(l->isa)->dropout(swi_out(l, 0), swi_in(l, 0), &d, swi_adds(l, 0), l->par);
    return SW_OK;
}

/* in: x or dy */
KERNEL(kernel, drop(l, ((const swi_number_attrs *)l->attrs)->value))

/* Philox, 24 of its bits, a comparison and a product. */
COUNT(operations, swi_count_per_element(&info->out[0], SWI_PHILOX + 3))

static sw_status drop_reference(const sw_reference *r, float p)
{
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++) {
        float u;
        sw_rng_uniform(&u, i, 1, r->seed, r->stream, r->step, r->run);
        const double x = r->in[0][i];
        r->out[0][i] = u < p ? x - x : x / (1.0 - (double)p);
    }
    return SW_OK;
}

REFERENCE(dropout_reference, drop_reference(r, ((const swi_number_attrs *)r->attrs)->value))

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0)), kernel, operations, .inplace = 1)};

static const swi_number_attrs rates[] = {{0.5f}, {0.1f}, {0.9f}, {0.0f}, {1.0f}};
static const sw_op_case dropout_cases[] = {
    CASE("matrix", IN(F32(33, 7)), AT(rates[0])),
    CASE("several parts", IN(F32(3, 11003)), AT(rates[1])),
    CASE("image, few images", IN(F32(3, 2, 5, 7)), AT(rates[0])),
    CASE("image in blocks, the last not full", IN(N16(35, 3, 5, 7)), AT(rates[0])),
    CASE("large image in blocks", IN(N16(16, 3, 19, 17)), AT(rates[2])),
    CASE("scalar", IN(SCALAR), AT(rates[1])),
    CASE("nothing dropped", IN(F32(5, 13)), AT(rates[3])),
};

OP(dropout, 1, 0, 1, ATTRS(swi_number_attrs), .rebuild = 1, .infer = infer,
   .layout = swi_layout_keep, .inplace = 1, .forward = kernel, .random = 1,
   .operations = operations, GRADS(grads), CHECKS(dropout_reference, dropout_cases));

static sw_status by_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    SW_TRY(swi_want_f32("dropout_by", in, n_in));
    if (sw_type_elements(&in[1]) != 1)
        SW_FAIL(SW_INVALID, "dropout_by: the rate must be a scalar");
    out[0] = in[0];
    return SW_OK;
}

/* in: x or dy, the rate */
KERNEL(by_kernel, drop(l, *swi_in(l, 1)))
REFERENCE(by_reference, drop_reference(r, (float)r->in[1][0]))

static const sw_grad_desc by_grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0), SW_IN(1)), by_kernel, operations, .inplace = 1)};

#define RATE .fill = {SW_FILL_NORMAL, SW_FILL_UNIT}
static const sw_op_case by_cases[] = {
    CASE("matrix", IN(F32(33, 7), SCALAR), RATE),
    CASE("several parts", IN(F32(3, 11003), SCALAR), RATE),
    CASE("image, few images", IN(F32(3, 2, 5, 7), SCALAR), RATE),
    CASE("image in blocks, the last not full", IN(N16(35, 3, 5, 7), SCALAR), RATE),
    CASE("scalar", IN(SCALAR, SCALAR), RATE),
};

OP(dropout_by, 2, 0, 1, .rebuild = 1, .infer = by_infer, .layout = swi_layout_first,
   .inplace = 1, .forward = by_kernel, .random = 1, .operations = operations, GRADS(by_grads),
   CHECKS(by_reference, by_cases));

/* ---- calls ------------------------------------------------------------------------------- */

sw_value sw_dropout(sw_ctx *ctx, sw_value x, float p)
{
    const swi_number_attrs attrs = {p};
    char stream[SWI_STREAM_TEXT];
    if (swi_value_at(ctx, x) == NULL)
        return (sw_value){0, 0};
    if ((sw_ctx_mode(ctx) == SW_EVAL || p == 0.0f) && p >= 0.0f && p <= 1.0f)
        return x;
    name_stream(ctx, SW_OP_dropout, SW_OP_dropout_by, stream);
    const uint32_t in = x.id - 1;
    return drawn(ctx, SW_OP_dropout, &in, 1, &attrs, stream);
}

sw_value sw_dropout_knob(sw_ctx *ctx, sw_value x, sw_knob p)
{
    char stream[SWI_STREAM_TEXT];
    if (swi_value_at(ctx, x) == NULL)
        return (sw_value){0, 0};
    const uint32_t in[] = {x.id - 1, swi_knob_value(ctx, p)};
    if (in[1] == SWI_NONE || swi_stick(ctx, swi_knob_use(p, SWI_KNOB_SHARE)) != SW_OK)
        return (sw_value){0, 0};
    if (sw_ctx_mode(ctx) == SW_EVAL)
        return x;
    name_stream(ctx, SW_OP_dropout, SW_OP_dropout_by, stream);
    return drawn(ctx, SW_OP_dropout_by, in, 2, NULL, stream);
}

/* ==== augment ============================================================================= */

/* Augmentation of images (batch, c, h, w), bytes or floats: random_flip mirrors a share of
 * them, random_crop cuts each out of itself with rows and columns of zeros around it.
 *
 * Both keep nothing: backward draws the same numbers again, and mirrors the gradient, or moves
 * it back. Bytes, as data sets have them, are a quarter of the floats that they become. */

static sw_status image_infer(const char *op, const sw_type *in, sw_type *out)
{
    const sw_shape *s = &in[0].shape;
    if (in[0].dtype != SW_U8 && in[0].dtype != SW_F32)
        SW_FAIL(SW_INVALID, "%s: images must be u8 or f32 (got %s)", op,
                sw_dtype_name(in[0].dtype));
    if (s->rank != 4)
        SW_FAIL(SW_INVALID, "%s: the input must be images (batch, c, h, w) (got %s)", op,
                SWI_SHAPE(s));
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
    (void)n_in;
    SW_TRY(image_infer("random_crop", in, out));
    if (pad < 0 || (pad > 0 && (pad >= s->dim[2] || pad >= s->dim[3])))
        SW_FAIL(SW_INVALID,
                "random_crop: pad must be at least 0 and below height and width (got %d for "
                "images %s)",
                pad, SWI_SHAPE(s));
    return SW_OK;
}

static sw_status run(const sw_launch *l, int back)
{
    const sw_type *t = &l->in[0].type;
    const sw_shape *s = &t->shape;
    if (swi_elements(s) == 0)
        return SW_OK;
    const sw_augment images =
        SW_INIT(.y = l->out[0].ptr, .x = l->in[0].ptr, .batch = s->dim[0], .planes = s->dim[1],
                .h = s->dim[2], .w = s->dim[3], .element = sw_dtype_bytes(t->dtype),
                .attrs = *(const swi_augment_attrs *)l->attrs, .back = back,
                .accumulate = swi_adds(l, 0), .seed = l->seed, .stream = l->stream,
                .step = l->step, .run = l->run);
    sw_cpu_augment(&images, l->par);
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
static sw_status augment_reference(const sw_reference *r)
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
   CHECKS(augment_reference, flip_cases));

OP(random_crop, 1, 0, 1, ATTRS(swi_augment_attrs), .rebuild = 1, .infer = crop_infer,
   .forward = forward, .random = 1, .operations = crop_operations, GRADS(crop_grads),
   CHECKS(augment_reference, crop_cases));

/* ---- calls ------------------------------------------------------------------------------- */

/* In evaluation, and where nothing can change, x itself; what cannot be is refused there
 * too. */
static sw_value apply(sw_ctx *ctx, uint32_t op, sw_value x, swi_augment_attrs a)
{
    char stream[SWI_STREAM_TEXT];
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return (sw_value){0, 0};
    if (sw_ctx_mode(ctx) == SW_EVAL || (a.flip == 0.0f && a.pad == 0)) {
        sw_type out;
        const sw_status status = swi_op(op)->infer(&v->type, 1, &a, &out);
        return swi_stick(ctx, status) == SW_OK ? x : (sw_value){0, 0};
    }
    name_stream(ctx, op, op, stream);
    const uint32_t in = x.id - 1;
    return drawn(ctx, op, &in, 1, &a, stream);
}

sw_value sw_random_flip(sw_ctx *ctx, sw_value x, float p)
{
    return apply(ctx, SW_OP_random_flip, x, (swi_augment_attrs){.flip = p});
}

sw_value sw_random_crop(sw_ctx *ctx, sw_value x, int pad)
{
    return apply(ctx, SW_OP_random_crop, x, (swi_augment_attrs){.pad = pad});
}
