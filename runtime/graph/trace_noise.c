/* A step function with noise on its parameters: what takes the place of an op that reads one,
 * by the last word of its line in ops.def. Products are followed by an op that adds what the
 * noise adds, in their place; so plain products stay as they are, and nothing of the noise has
 * bytes. */
#include "kernels/noise.h"
#include "runtime/graph/trace.h"
#include <stdio.h>
#include <string.h>

static const swi_entry *entry_of(const sw_ctx *ctx, uint32_t value)
{
    const swi_storage *s = &ctx->trace.storages[ctx->trace.values[value].storage];
    if (s->segment < SWI_SEG_MODEL)
        return NULL;
    const sw_model *model = ctx->args->models[s->segment - SWI_SEG_MODEL];
    const swi_entry *entry = &model->entries[s->entry];
    return model == ctx->noise->model && swi_is_perturbed(ctx->noise, entry) ? entry : NULL;
}

/* The parameter that a value is, all of it; NULL: it has no noise. A piece of one, or one in
 * another shape, is an error. */
static const swi_entry *parameter(sw_ctx *ctx, const char *op, uint32_t value)
{
    const swi_entry *entry = entry_of(ctx, value);
    if (entry == NULL)
        return NULL;
    const swi_value *v = &ctx->trace.values[value];
    if (!v->contiguous || !swi_same_shape(&v->type.shape, &entry->shape))
        SWI_STICK(ctx, SW_UNSUPPORTED,
                  "%s: with noise a parameter must be used whole and in "
                  "its own shape ('%s' %s is used as %s)",
                  op, entry->name, SWI_SHAPE(&entry->shape), SWI_SHAPE(&v->type.shape));
    return entry;
}

static sw_status refuse(sw_ctx *ctx, const char *op, const swi_entry *entry, const char *why)
{
    return swi_stick(ctx, sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                                       "%s reads the parameter '%s', which has noise: %s. "
                                       "Freeze the parameter, or leave it to another optimizer",
                                       op, entry->name, why));
}

/* ---- attributes -------------------------------------------------------------------------- */

static void begin_attrs(const sw_ctx *ctx, swi_noise_attrs *a)
{
    memset(a, 0, sizeof *a);
    a->repeats = ctx->noise->repeats;
    a->directions = ctx->noise->slice;
    a->antithetic = ctx->noise->antithetic;
    a->has_sigmas = ctx->noise->sigmas != NULL;
}

static void set_spec(const sw_ctx *ctx, sw_noise_spec *to, const swi_entry *entry)
{
    if (entry != NULL)
        swi_noise_spec_of(to, ctx->noise, entry);
}

static uint32_t sigma_of(sw_ctx *ctx)
{
    return swi_knob_value(ctx, (sw_knob){ctx->noise->model, ctx->noise->sigma});
}

/* The sigmas of each element of a parameter, in[n] (snes); how many operands there are now. */
static int add_sigmas(sw_ctx *ctx, const swi_entry *entry, uint32_t *in, int n)
{
    if (ctx->noise->sigmas != NULL && entry != NULL)
        in[n++] = swi_model_value(ctx, ctx->noise->model,
                                  ctx->noise->sigmas[entry - ctx->noise->model->entries]);
    return n;
}

/* Add what the noise adds to the product *y, in its place. */
static sw_status add_noise(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in,
                           const swi_noise_attrs *a, uint32_t *y)
{
    if (ctx->status != SW_OK || (a->weight.rows == 0 && a->bias.rows == 0))
        return ctx->status;
    const uint32_t into = *y;
    return swi_apply(ctx, op, in, n_in, a, &into, 1u, "noise", y);
}

/* ---- layers ------------------------------------------------------------------------------ */

/* y (1 + s sigma e) + b of a layer with dropped rows: y is the product without its bias. */
static sw_status drop_rows(sw_ctx *ctx, const swi_noise_attrs *layer, uint32_t y, uint32_t bias,
                           bool is_image, uint32_t *out)
{
    swi_noise_attrs a;
    uint32_t in[3] = {y, sigma_of(ctx)};
    int n = 2;
    begin_attrs(ctx, &a);
    a.weight = layer->weight;
    a.channel_axis = is_image ? 1 : ctx->trace.values[y].type.shape.rank - 1;
    a.has_sigmas = 0;
    if (bias != SWI_NONE) {
        a.has_shift = 1;
        in[n++] = bias;
    }
    SW_TRY(ctx->status);
    return swi_apply(ctx, SW_OP_noise_affine, in, n, &a, NULL, 0, "noise", out);
}

/* y + s sigma e of a layer without noise on its weight: x is not read again. */
static sw_status shift_channels(sw_ctx *ctx, const swi_noise_attrs *layer,
                                const swi_entry *bias, bool is_image, uint32_t *y)
{
    swi_noise_attrs a;
    uint32_t in[3] = {*y, sigma_of(ctx)};
    begin_attrs(ctx, &a);
    a.bias = layer->bias;
    a.channel_axis = is_image ? 1 : ctx->trace.values[*y].type.shape.rank - 1;
    const int n = add_sigmas(ctx, bias, in, 2);
    if (ctx->status != SW_OK || a.bias.rows == 0)
        return ctx->status;
    return swi_apply(ctx, SW_OP_noise_affine, in, n, &a, NULL, 0, "noise", y);
}

/* linear and conv2d: in {x, weight [, bias]}. */
static sw_status product(sw_ctx *ctx, uint32_t op, const uint32_t *given, int n_in,
                         const void *attrs, uint32_t *outs)
{
    uint32_t in[3] = {given[0], given[1], n_in > 2 ? given[2] : SWI_NONE};
    const char *name = swi_op(op)->name;
    const bool is_image = op == SW_OP_conv2d;
    const swi_entry *weight = parameter(ctx, name, in[1]);
    const swi_entry *bias = n_in > 2 ? parameter(ctx, name, in[2]) : NULL;
    swi_noise_attrs a;
    begin_attrs(ctx, &a);
    set_spec(ctx, &a.weight, weight);
    set_spec(ctx, &a.bias, bias);
    if (ctx->status != SW_OK || swi_lay_out_inputs(ctx, swi_op(op), in, n_in, attrs) != SW_OK)
        return ctx->status; /* x as both the product and the noise read it */
    if (swi_noise_drops(&a)) {
        uint32_t y = SWI_NONE;
        SW_TRY(swi_apply(ctx, op, in, 2, attrs, NULL, 0, NULL, &y));
        return drop_rows(ctx, &a, y, n_in > 2 ? in[2] : SWI_NONE, is_image, outs);
    }
    SW_TRY(swi_apply(ctx, op, in, n_in, attrs, NULL, 0, NULL, outs));
    if (a.weight.rows == 0)
        return shift_channels(ctx, &a, bias, is_image, outs);
    uint32_t more[4] = {in[0], sigma_of(ctx)};
    if (is_image) {
        a.conv = *(const swi_conv_attrs *)attrs;
        a.kernel_h = ctx->trace.values[in[1]].type.shape.dim[2];
    }
    int n = add_sigmas(ctx, weight, more, 2);
    n = add_sigmas(ctx, bias, more, n);
    return add_noise(ctx, is_image ? SW_OP_noise_conv2d : SW_OP_noise_linear, more, n, &a,
                     outs);
}

static sw_status lookup(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in,
                        const void *attrs, uint32_t *outs)
{
    const swi_entry *table = parameter(ctx, swi_op(op)->name, in[1]);
    swi_noise_attrs a;
    uint32_t more[4] = {in[0], sigma_of(ctx)};
    int n = 2;
    begin_attrs(ctx, &a);
    set_spec(ctx, &a.weight, table);
    SW_TRY(swi_apply(ctx, op, in, n_in, attrs, NULL, 0, NULL, outs));
    if (a.weight.kind == SW_NOISE_DROPOUT)
        more[n++] = in[1];
    n = add_sigmas(ctx, table, more, n);
    return add_noise(ctx, SW_OP_noise_embedding, more, n, &a, outs);
}

/* x times gain and plus shift, either SWI_NONE, with their noise. */
static sw_status affine(sw_ctx *ctx, const char *name, uint32_t x, uint32_t gain,
                        uint32_t shift, int64_t axis, uint32_t *out)
{
    const swi_entry *g = gain != SWI_NONE ? parameter(ctx, name, gain) : NULL;
    const swi_entry *b = shift != SWI_NONE ? parameter(ctx, name, shift) : NULL;
    swi_noise_attrs a;
    uint32_t in[6] = {x, sigma_of(ctx)};
    int n = 2;
    begin_attrs(ctx, &a);
    set_spec(ctx, &a.weight, g);
    set_spec(ctx, &a.bias, b);
    a.channel_axis = axis;
    a.has_gain = gain != SWI_NONE;
    a.has_shift = shift != SWI_NONE;
    if (a.has_gain)
        in[n++] = gain;
    if (a.has_shift)
        in[n++] = shift;
    if (a.weight.rows != 0)
        n = add_sigmas(ctx, g, in, n);
    if (a.bias.rows != 0)
        n = add_sigmas(ctx, b, in, n);
    SW_TRY(ctx->status);
    return swi_apply(ctx, SW_OP_noise_affine, in, n, &a, NULL, 0, "noise", out);
}

/* The norm alone, then gain and shift of its channels. */
static sw_status norm(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in, const void *attrs,
                      uint32_t *outs)
{
    const int plain = op == SW_OP_batch_norm_fixed ? 3 : 1;
    const bool channels = op != SW_OP_layer_norm && op != SW_OP_rms_norm;
    uint32_t y = SWI_NONE;
    SW_TRY(swi_apply(ctx, op, in, plain, attrs, NULL, 0, NULL, outs));
    const int rank = ctx->trace.values[outs[0]].type.shape.rank;
    SW_TRY(affine(ctx, swi_op(op)->name, outs[0], in[plain],
                  n_in > plain + 1 ? in[plain + 1] : SWI_NONE, channels ? 1 : rank - 1, &y));
    outs[0] = y;
    return SW_OK;
}

/* The axis that a vector goes along: the last one, or (c, 1, 1) the channels. -1: neither. */
static int64_t axis_of(const sw_shape *x, const sw_shape *p)
{
    if (p->rank == 1 && x->rank > 1 && p->dim[0] == x->dim[x->rank - 1])
        return x->rank - 1;
    if (p->rank == 3 && x->rank == 4 && p->dim[0] == x->dim[1] && p->dim[1] == 1 &&
        p->dim[2] == 1)
        return 1;
    return -1;
}

/* Rows of a table that are added to each sample, (rows, ..., n, width) + (n, width): where the
 * first of them is; -1: they are no such rows. */
static int64_t rows_from(const sw_ctx *ctx, uint32_t x, uint32_t p, const swi_entry *entry)
{
    const swi_value *v = &ctx->trace.values[p];
    const sw_shape *to = &ctx->trace.values[x].type.shape, *s = &v->type.shape;
    if (entry->shape.rank != 2 || s->rank != 2 || to->rank < 3 || !v->contiguous ||
        s->dim[1] != entry->shape.dim[1] || s->dim[1] != to->dim[to->rank - 1] ||
        s->dim[0] != to->dim[to->rank - 2] || s->dim[0] > INT32_MAX)
        return -1;
    const size_t row = (size_t)s->dim[1] * sw_dtype_bytes(SW_F32);
    return row != 0 && v->offset % row == 0 ? (int64_t)(v->offset / row) : -1;
}

static sw_status add_rows(sw_ctx *ctx, uint32_t x, uint32_t p, const swi_entry *entry,
                          int64_t first, uint32_t *outs)
{
    const uint32_t both[] = {x, p};
    const uint32_t whole =
        swi_model_value(ctx, ctx->noise->model, (uint32_t)(entry - ctx->noise->model->entries));
    uint32_t in[3] = {sigma_of(ctx), whole};
    swi_noise_table_attrs a;
    memset(&a, 0, sizeof a);
    begin_attrs(ctx, &a.noise);
    set_spec(ctx, &a.noise.weight, entry);
    a.first = first;
    SW_TRY(swi_apply(ctx, SW_OP_add, both, 2, NULL, NULL, 0, NULL, outs));
    swi_set_shape(&a.shape, &ctx->trace.values[outs[0]].type.shape);
    const int n = add_sigmas(ctx, entry, in, 1 + (a.noise.weight.kind == SW_NOISE_DROPOUT));
    const uint32_t into = outs[0];
    SW_TRY(ctx->status);
    return swi_apply(ctx, SW_OP_noise_table, in, n, &a, &into, 1u, "noise", outs);
}

/* add and mul of a vector. */
static sw_status vector(sw_ctx *ctx, uint32_t op, const uint32_t *in, uint32_t *outs)
{
    const char *name = swi_op(op)->name;
    const int p = entry_of(ctx, in[1]) != NULL ? 1 : 0;
    const swi_entry *entry = entry_of(ctx, in[p]);
    const int64_t first = rows_from(ctx, in[1 - p], in[p], entry);
    if (op == SW_OP_add && first >= 0 && entry_of(ctx, in[1 - p]) == NULL)
        return add_rows(ctx, in[1 - p], in[p], entry, first, outs);
    entry = parameter(ctx, name, in[p]);
    SW_TRY(ctx->status);
    const int64_t axis = axis_of(&ctx->trace.values[in[1 - p]].type.shape, &entry->shape);
    if (entry_of(ctx, in[1 - p]) != NULL || axis < 0)
        return refuse(ctx, name, entry,
                      "it can be a vector along the last axis, (c, 1, 1) along the channels, "
                      "or rows of a matrix that are added to each sample");
    return affine(ctx, name, in[1 - p], op == SW_OP_mul ? in[p] : SWI_NONE,
                  op == SW_OP_add ? in[p] : SWI_NONE, axis, outs);
}

/* binary_linear and binary_conv2d: in {bits, logits [, bias]}; then the scale of the logits,
 * and sigma for the bias. */
static sw_status layer_of_bits(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in,
                               const void *attrs, uint32_t *outs)
{
    const char *name = swi_op(op)->name;
    const swi_entry *logits = parameter(ctx, name, in[1]);
    const swi_entry *bias = n_in > 2 ? parameter(ctx, name, in[2]) : NULL;
    swi_binary_attrs a = *(const swi_binary_attrs *)attrs;
    uint32_t more[5] = {in[0], in[1]};
    if (n_in > 2)
        more[2] = in[2];
    SW_TRY(ctx->status);
    if (logits != NULL && !logits->logits)
        return refuse(ctx, name, logits, "it is no parameter of logits (sw_logits_new)");
    if (ctx->noise->sigmas != NULL)
        return refuse(ctx, name, logits != NULL ? logits : bias,
                      "snes has a sigma of each element, and bits have none");
    begin_attrs(ctx, &a.noise);
    set_spec(ctx, &a.noise.weight, logits);
    set_spec(ctx, &a.noise.bias, bias);
    SW_TRY(swi_apply(ctx, SW_OP_logit_scale, &in[1], 1, NULL, NULL, 0, NULL, &more[n_in]));
    more[n_in + 1] = sigma_of(ctx);
    return swi_apply(ctx, op, more, n_in + 2, &a, NULL, 0, "noise", outs);
}

/* ---- losses ------------------------------------------------------------------------------ */

/* Is it a batch, and not a number of its own? */
static bool is_batch(const sw_ctx *ctx, uint32_t value)
{
    const sw_shape *s = &ctx->trace.values[value].type.shape;
    return s->rank > 0 && s->dim[0] % swi_evaluations(ctx->noise) == 0 && s->dim[0] > 0;
}

static sw_status loss(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in, const void *attrs,
                      uint32_t *outs)
{
    const sw_op_desc *desc = swi_op(op);
    swi_each_attrs a;
    memset(&a, 0, sizeof a);
    a.evaluations = swi_evaluations(ctx->noise);
    a.op = op;
    snprintf(a.name, sizeof a.name, "%s", desc->name);
    if (attrs != NULL)
        memcpy(a.attrs, attrs, desc->attrs_bytes);
    if (op == SW_OP_sum) { /* a mean has its factor from the number of all elements */
        swi_sum_attrs *s = (swi_sum_attrs *)(void *)a.attrs;
        const double n = (double)swi_elements(&ctx->trace.values[in[0]].type.shape);
        if (s->scale == 1.0 / n)
            s->scale *= (double)a.evaluations;
    }
    for (int i = 0; i < n_in; i++)
        if (!is_batch(ctx, in[i])) {
            char s[SWI_SHAPE_TEXT];
            return swi_stick(
                ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                  "%s: with noise axis 0 must be a multiple of the %lld "
                                  "evaluations of a slice (got %s)",
                                  desc->name, (long long)a.evaluations,
                                  swi_shape_text(&ctx->trace.values[in[i]].type.shape, s)));
        }
    return swi_apply(ctx, SW_OP_each, in, n_in, &a, NULL, 0, NULL, outs);
}

/* The loss of each evaluation, without all logits at one time. in: x, weight, labels [,
 * bias]. */
static sw_status linear_loss(sw_ctx *ctx, const uint32_t *in, int n_in, const void *attrs,
                             uint32_t *outs)
{
    const char *name = swi_op(SW_OP_linear_ce)->name;
    const swi_entry *weight = parameter(ctx, name, in[1]);
    const swi_entry *bias = n_in > 3 ? parameter(ctx, name, in[3]) : NULL;
    swi_noise_ce_attrs a;
    memset(&a, 0, sizeof a);
    a.ce = ((const swi_linear_ce_attrs *)attrs)->ce;
    a.has_bias = n_in > 3;
    begin_attrs(ctx, &a.noise);
    set_spec(ctx, &a.noise.weight, weight);
    set_spec(ctx, &a.noise.bias, bias);
    uint32_t more[8] = {in[0], in[1], in[2], sigma_of(ctx), a.has_bias ? in[3] : SWI_NONE};
    int n = add_sigmas(ctx, weight, more, 4 + a.has_bias);
    n = add_sigmas(ctx, bias, more, n);
    SW_TRY(ctx->status);
    return swi_apply(ctx, SW_OP_noise_linear_ce, more, n, &a, NULL, 0, "noise", outs);
}

/* ---- all ops ----------------------------------------------------------------------------- */

static bool reduces_all(const sw_ctx *ctx, uint32_t value, const void *attrs)
{
    const uint32_t axes = ((const swi_sum_attrs *)attrs)->axes;
    const int rank = ctx->trace.values[value].type.shape.rank;
    return axes == 0 || axes == (1u << rank) - 1;
}

sw_status swi_noise_apply(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in,
                          const void *attrs, uint32_t *outs, bool *done)
{
    const swi_op_noise noise = swi_op_traits_of(op)->noise;
    const swi_entry *entry = NULL;
    for (int i = 0; i < n_in && entry == NULL; i++)
        entry = entry_of(ctx, in[i]);
    *done = entry != NULL && noise != SWI_NOISE_VIEW;
    for (int i = 0; i < n_in && *done; i++) {
        const swi_entry *read = entry_of(ctx, in[i]);
        if (read != NULL && read->logits && (noise != SWI_NOISE_BITS || i != 1))
            return refuse(ctx, swi_op(op)->name, read, "only layers of bits can read logits");
    }
    if (noise == SWI_NOISE_LOSS ||
        (noise == SWI_NOISE_REDUCE && reduces_all(ctx, in[0], attrs) && is_batch(ctx, in[0]))) {
        *done = true;
        return entry == NULL
                   ? loss(ctx, op, in, n_in, attrs, outs)
                   : refuse(ctx, swi_op(op)->name, entry, "it can be no operand here");
    }
    if (noise == SWI_NOISE_LINEAR_LOSS) {
        *done = true;
        return linear_loss(ctx, in, n_in, attrs, outs);
    }
    if (!*done)
        return SW_OK;
    switch (noise) {
    case SWI_NOISE_LINEAR:
    case SWI_NOISE_CONV:
        if (entry_of(ctx, in[0]) != NULL)
            break;
        return product(ctx, op, in, n_in, attrs, outs);
    case SWI_NOISE_LOOKUP:
        return lookup(ctx, op, in, n_in, attrs, outs);
    case SWI_NOISE_NORM:
        if (entry_of(ctx, in[0]) != NULL)
            break;
        return norm(ctx, op, in, n_in, attrs, outs);
    case SWI_NOISE_BITS:
        if (entry_of(ctx, in[0]) != NULL)
            break;
        return layer_of_bits(ctx, op, in, n_in, attrs, outs);
    case SWI_NOISE_SHIFT:
    case SWI_NOISE_GAIN:
        return vector(ctx, op, in, outs);
    default:
        break;
    }
    return refuse(ctx, swi_op(op)->name, entry, "it can be no operand here");
}
