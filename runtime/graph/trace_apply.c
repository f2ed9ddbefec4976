/* An op by its descriptor: inputs in the layout that it wants, copies where strides will not
 * do, the types of its results, views without a kernel. */
#include "alloc/base/error.h"
#include "runtime/base/common.h"
#include "runtime/graph/trace.h"
#include "runtime/model/model.h"
#include <stdio.h>
#include <string.h>

uint32_t swi_contiguous(sw_ctx *ctx, uint32_t value)
{
    if (ctx->status != SW_OK || ctx->trace.values[value].contiguous)
        return value;
    uint32_t out = SWI_NONE;
    (void)swi_apply(ctx, SW_OP_copy, &value, 1, NULL, NULL, 0, NULL, &out);
    return out;
}

/* ---- bf16 -------------------------------------------------------------------------------- */

sw_value swi_cast(sw_ctx *ctx, sw_value x, sw_dtype dtype)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return (sw_value){0, 0};
    return !swi_is_number(v->type.dtype) || v->type.dtype == dtype
               ? x
               : sw_op_apply(ctx, SW_OP_cast, &x, 1, &(swi_cast_attrs){dtype});
}

sw_value sw_keep_f32(sw_ctx *ctx, sw_value x)
{
    x = swi_cast(ctx, x, SW_F32);
    swi_value *v = swi_value_at(ctx, x);
    if (v != NULL)
        v->kept_f32 = swi_target_of(ctx->exec)->opts.compute == SW_BF16;
    return x;
}

/* Inside a scope named "f32"? */
static bool in_f32(const sw_ctx *ctx)
{
    for (uint32_t i = 0; i < ctx->n_scopes; i++) {
        const char *name = ctx->scope + ctx->scope_at[i] + (ctx->scope_at[i] > 0);
        if (strncmp(name, "f32", 3) == 0 && (name[3] == '/' || name[3] == '\0'))
            return true;
    }
    return false;
}

static bool in_model(const sw_ctx *ctx, uint32_t value)
{
    const swi_trace *t = &ctx->trace;
    return t->storages[t->values[value].storage].segment >= SWI_SEG_MODEL;
}

static bool is_half(const sw_ctx *ctx, uint32_t value)
{
    return ctx->trace.values[value].type.dtype == SW_BF16;
}

/* Do the results of an op over these inputs become bf16? Inputs of an op that takes float32
 * alone are widened; those that are put side by side get one type. */
static bool makes_halves(sw_ctx *ctx, uint32_t op, uint32_t *in, int n_in, const void *attrs,
                         bool *keeps)
{
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    const bool alike = word == SWI_HALVES_MOVES || word == SWI_HALVES_ALIKE;
    bool any = word == SWI_HALVES_PRODUCT || word == SWI_HALVES_ALIKE ||
               word == SWI_HALVES_CONV || word == SWI_HALVES_LOOKUP;
    if (swi_target_of(ctx->exec)->opts.compute != SW_BF16 || op == SW_OP_cast)
        return false;
    *keeps = !ctx->in_backward && in_f32(ctx);
    for (int i = 0; i < n_in; i++) {
        *keeps |= ctx->trace.values[in[i]].kept_f32 != 0;
        any |= is_half(ctx, in[i]);
    }
    if (word == SWI_HALVES_NEVER && !*keeps)
        SWI_STICK(ctx, SW_UNSUPPORTED,
                  "%s: layers of bits compute in SW_F32 alone: compute must be SW_F32, or the "
                  "layer inside a scope named \"f32\"",
                  swi_op(op)->name);
    const bool wide = word == SWI_HALVES_NONE || *keeps;
    const int stored = swi_stored_input(op, -1, attrs);
    for (int i = 0; i < n_in && (wide || (any && alike)) && ctx->status == SW_OK; i++)
        if (i != stored || !in_model(ctx, in[i])) /* a stored weight is read as it is */
            in[i] = swi_cast(ctx, swi_handle(ctx, in[i]), wide ? SW_F32 : SW_BF16).id - 1;
    return any && !wide && word != SWI_HALVES_MOVES && word != SWI_HALVES_READS;
}

sw_value swi_layout(sw_ctx *ctx, sw_value x, sw_layout layout)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return (sw_value){0, 0};
    if (v->type.layout == layout)
        return x;
    uint32_t id = x.id - 1;
    const uint32_t op = layout == SW_N16 ? SW_OP_to_n16 : SW_OP_from_n16;
    uint32_t out = SWI_NONE;
    (void)swi_apply(ctx, op, &id, 1, NULL, NULL, 0, NULL, &out);
    return swi_handle(ctx, out);
}

static bool is_image(const sw_op_desc *desc, int i, const sw_type *type)
{
    if (type->shape.rank != 4)
        return false;
    return desc->image_in == 0 || (i < 32 && (desc->image_in >> i & 1u) != 0);
}

sw_status swi_lay_out_inputs(sw_ctx *ctx, const sw_op_desc *desc, uint32_t *in, int n_in,
                             const void *attrs)
{
    sw_type types[SWI_MAX_OPERANDS];
    bool any = false;
    for (int i = 0; i < n_in; i++) {
        types[i] = ctx->trace.values[in[i]].type;
        any |= types[i].shape.rank == 4;
    }
    if (!any)
        return SW_OK;
    const bool converts = desc == swi_op(SW_OP_from_n16) || desc == swi_op(SW_OP_to_n16);
    if (converts)
        return SW_OK;
    /* The blocks are for the lanes of a CPU. */
    const bool plain =
        desc->layout == NULL || !swi_target_of(ctx->exec)->device->backend->image_blocks;
    const sw_layout want = plain ? SW_PLAIN : desc->layout(types, n_in, attrs);
    for (int i = 0; i < n_in; i++) {
        const sw_layout layout = is_image(desc, i, &types[i]) ? want : SW_PLAIN;
        if (types[i].layout != layout)
            in[i] = swi_layout(ctx, swi_handle(ctx, in[i]), layout).id - 1;
        SW_TRY(ctx->status);
    }
    return SW_OK;
}

static void fill_buffer(const swi_trace *t, uint32_t value, sw_buffer *out)
{
    const swi_value *v = &t->values[value];
    out->ptr = NULL;
    out->type = v->type;
    swi_value_strides(t, v, out->stride);
}

/* The bytes that the elements of a type with these strides (elements) span: from the lowest to
 * after the highest, relative to the first. False where that overflows. */
static bool span_of(const sw_type *type, const int64_t *stride, int64_t *low, int64_t *high)
{
    const int64_t size = (int64_t)sw_dtype_bytes(type->dtype);
    int64_t last = 0;
    *low = *high = 0;
    for (int i = 0; i < type->shape.rank; i++) {
        int64_t *end = stride[i] < 0 ? low : high;
        if (__builtin_mul_overflow(type->shape.dim[i] - 1, stride[i], &last) ||
            __builtin_add_overflow(*end, last, end))
            return false;
    }
    return !__builtin_mul_overflow(*low, size, low) &&
           !__builtin_add_overflow(*high, 1, high) &&
           !__builtin_mul_overflow(*high, size, high);
}

/* A view stays on the bytes of its input. *offset (elements) becomes bytes; a view of nothing
 * lies where its input begins. */
static sw_status check_view(const sw_op_desc *desc, const sw_buffer *in, const sw_type *out,
                            const int64_t *stride, int64_t *offset)
{
    const int64_t size = (int64_t)sw_dtype_bytes(out->dtype);
    int64_t in_low, in_high, low, high;
    if (size != (int64_t)sw_dtype_bytes(in->type.dtype) || out->layout != in->type.layout)
        SW_FAIL(SW_INVALID, "%s: view: elements of another size or layout than the input's",
                desc->name);
    if (out->layout == SW_N16) {
        if (!swi_same_shape(&out->shape, &in->type.shape) || *offset != 0 ||
            memcmp(stride, in->stride, sizeof in->stride) != 0)
            SW_FAIL(SW_INVALID, "%s: view: of a blocked image only the whole can be viewed",
                    desc->name);
        return SW_OK;
    }
    if (sw_type_elements(out) == 0) {
        *offset = 0;
        return SW_OK;
    }
    if (!span_of(&in->type, in->stride, &in_low, &in_high) ||
        !span_of(out, stride, &low, &high) || __builtin_mul_overflow(*offset, size, offset) ||
        __builtin_add_overflow(low, *offset, &low) ||
        __builtin_add_overflow(high, *offset, &high))
        SW_FAIL(SW_INVALID, "%s: view: its offset and strides overflow", desc->name);
    if (sw_type_elements(&in->type) == 0 || low < in_low || high > in_high)
        SW_FAIL(SW_INVALID,
                "%s: view: reaches from byte %lld to %lld of its input, which has %lld to %lld",
                desc->name, (long long)low, (long long)high, (long long)in_low,
                (long long)in_high);
    return SW_OK;
}

static bool strides_are_contiguous(const sw_type *type, const int64_t *stride)
{
    int64_t want[SW_MAX_RANK];
    swi_contiguous_strides(type, want);
    for (int i = 0; i < type->shape.rank; i++)
        if (type->shape.dim[i] > 1 && stride[i] != want[i])
            return false;
    return true;
}

/* A view node: no kernel, no storage of its own. */
static sw_status append_view(sw_ctx *ctx, uint32_t op, uint32_t in, const void *attrs,
                             const sw_type *type, uint32_t *out)
{
    const sw_op_desc *desc = swi_op(op);
    swi_trace *t = &ctx->trace;
    int64_t stride[SW_MAX_RANK] = {0};
    int64_t offset = 0;
    sw_buffer buffer;
    fill_buffer(t, in, &buffer);
    sw_status status = desc->view(&buffer, attrs, type, stride, &offset);
    if (status == SW_UNSUPPORTED && !t->values[in].contiguous) {
        in = swi_contiguous(ctx, in);
        SW_TRY(ctx->status);
        fill_buffer(t, in, &buffer);
        status = desc->view(&buffer, attrs, type, stride, &offset);
    }
    if (status == SW_OK)
        status = check_view(desc, &buffer, type, stride, &offset);
    if (status == SW_OK)
        status = swi_reserve_nodes(t);
    if (status == SW_OK)
        status = swi_reserve_operands(t, 2);
    const uint32_t attrs_bytes = (uint32_t)((desc->attrs_bytes + 15) & ~(size_t)15);
    if (status == SW_OK)
        status = swi_reserve_attrs(t, attrs_bytes);
    if (swi_stick(ctx, status) != SW_OK)
        return ctx->status;
    const uint32_t id = swi_new_value(ctx, type, t->values[in].storage);
    const uint32_t layer = swi_trace_string(t, ctx->scope, &status);
    if (status == SW_OK && id != SWI_NONE)
        status = swi_set_strides(t, id, stride);
    if (swi_stick(ctx, status) != SW_OK || id == SWI_NONE)
        return ctx->status;
    swi_value *v = &t->values[id];
    v->node = t->n_nodes;
    v->version = t->values[in].version;
    v->offset = t->values[in].offset + (size_t)offset;
    v->contiguous = strides_are_contiguous(type, stride);
    swi_node node =
        SW_INIT(.op = op, .grad = -1, .n_in = 1, .n_out = 1, .first = t->n_operands,
                .attrs = t->n_attrs, .scratch = SWI_NONE, .layer = layer, .is_view = 1,
                .phase = swi_phase_of(ctx, desc, &in, 1), .is_backward = ctx->in_backward);
    if (attrs_bytes > 0) {
        memset(t->attrs + t->n_attrs, 0, attrs_bytes);
        if (attrs != NULL)
            memcpy(t->attrs + t->n_attrs, attrs, desc->attrs_bytes);
        t->n_attrs += attrs_bytes;
    }
    t->operands[t->n_operands++] = in;
    t->operands[t->n_operands++] = id;
    t->nodes[t->n_nodes++] = node;
    *out = id;
    return SW_OK;
}

/* Check the type that infer gives output i: all that follows multiplies its dims. */
static sw_status check_type(const sw_op_desc *desc, int i, const sw_type *type)
{
    const sw_shape *s = &type->shape;
    if (sw_dtype_bytes(type->dtype) == 0)
        SW_FAIL(SW_INVALID, "%s: infer: output %d must have a known type of elements (got %d)",
                desc->name, i, (int)type->dtype);
    if (s->rank < 0 || s->rank > SW_MAX_RANK)
        SW_FAIL(SW_INVALID, "%s: the rank of output %d must be 0 to %d (got %d)", desc->name, i,
                SW_MAX_RANK, s->rank);
    if (type->layout != SW_PLAIN && (type->layout != SW_N16 || s->rank != 4))
        SW_FAIL(SW_INVALID, "%s: infer: output %d has layout %d at rank %d", desc->name, i,
                (int)type->layout, s->rank);
    for (int k = 0; k < s->rank; k++)
        if (s->dim[k] < 0)
            SW_FAIL(SW_INVALID, "%s: the dims of output %d must be at least 0 (got %s)",
                    desc->name, i, SWI_SHAPE(s));
    if (sw_type_elements(type) < 0)
        SW_FAIL(SW_NOMEM, "%s: output %d of shape %s has more elements than any memory",
                desc->name, i, SWI_SHAPE(s));
    return SW_OK;
}

/* Factors of bf16 go to a card's library as they lie, which takes matrices whose rows or
 * columns lie side by side, batches evenly apart. Other views are copied before. */
static bool suits_library(const sw_ctx *ctx, uint32_t value)
{
    const swi_value *v = &ctx->trace.values[value];
    const sw_shape *s = &v->type.shape;
    int64_t stride[SW_MAX_RANK];
    if (v->strides == 0 || s->rank < 2)
        return true;
    swi_value_strides(&ctx->trace, v, stride);
    for (int i = 0; i + 3 < s->rank; i++)
        if (stride[i] != stride[i + 1] * s->dim[i + 1])
            return false;
    return stride[s->rank - 1] == 1 || stride[s->rank - 2] == 1;
}

sw_status swi_apply(sw_ctx *ctx, uint32_t op, const uint32_t *inputs, int n_in,
                    const void *attrs, const uint32_t *into, uint32_t accumulate,
                    const char *stream, uint32_t *outs)
{
    const sw_op_desc *desc = swi_op(op);
    uint32_t in[SWI_MAX_OPERANDS], made[SWI_MAX_OPERANDS];
    sw_type in_types[SWI_MAX_OPERANDS], out_types[SWI_MAX_OPERANDS];
    if (!swi_ctx_works(ctx))
        return sw_ctx_status(ctx);
    const int max_in = desc->max_in > desc->n_in ? desc->max_in : desc->n_in;
    if (n_in < desc->n_in || n_in > max_in || n_in > SWI_MAX_OPERANDS - 4)
        return swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                           "%s: must have %d to %d inputs (got %d)", desc->name,
                                           desc->n_in, max_in, n_in));
    if (ctx->noise != NULL && ctx->noise_depth == 0) {
        bool done = false;
        ctx->noise_depth++;
        const sw_status status =
            swi_noise_apply(ctx, op, inputs, n_in, attrs, outs != NULL ? outs : made, &done);
        ctx->noise_depth--;
        if (done || status != SW_OK)
            return status;
    }
    for (int i = 0; i < n_in; i++)
        in[i] = inputs[i];
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    bool keeps = false;
    const bool halves = makes_halves(ctx, op, in, n_in, attrs, &keeps);
    if (ctx->status != SW_OK || swi_lay_out_inputs(ctx, desc, in, n_in, attrs) != SW_OK)
        return ctx->status;
    for (int i = 0; i < n_in; i++) {
        const sw_dtype dtype = ctx->trace.values[in[i]].type.dtype;
        if (sw_is_stored(dtype) && i != swi_stored_input(op, -1, attrs))
            return swi_stick(ctx,
                             sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                                          "%s: input %d is a frozen weight in %s, which only "
                                          "linear, linear_ce and embedding read",
                                          desc->name, i, sw_dtype_name(dtype)));
        const bool pieces =
            (halves && word < SWI_HALVES_PRODUCT) || (accumulate != 0 && is_half(ctx, in[i]));
        const bool native = halves && word == SWI_HALVES_PRODUCT && desc->view == NULL &&
                            !swi_target_of(ctx->exec)->device->backend->host_memory;
        const bool strided =
            desc->view != NULL || (!pieces && (!native || suits_library(ctx, in[i])) &&
                                   i < 32 && (desc->strided_in >> i & 1u) != 0);
        if (!strided)
            in[i] = swi_contiguous(ctx, in[i]);
        SW_TRY(ctx->status);
        in_types[i] = ctx->trace.values[in[i]].type;
        if ((halves || word == SWI_HALVES_READS) && in_types[i].dtype == SW_BF16)
            in_types[i].dtype = SW_F32;
    }
    memset(out_types, 0, sizeof out_types);
    const uint64_t said = sw_error_count();
    sw_status inferred = desc->infer(in_types, n_in, attrs, out_types);
    if (inferred != SW_OK) {
        inferred = sw_call_status(inferred, said, "its infer");
        const char *text = sw_last_error();
        const bool named = strncmp(text, desc->name, strlen(desc->name)) == 0;
        return swi_stick(ctx, sw_error_set(inferred, __FILE__, __LINE__, "%s%s%s",
                                           named ? "" : desc->name, named ? "" : ": ", text));
    }
    for (int i = 0; i < desc->n_out && halves; i++)
        if (out_types[i].dtype == SW_F32 && word != SWI_HALVES_LOSS)
            out_types[i].dtype = SW_BF16;
    if (halves && word == SWI_HALVES_LOSS)
        out_types[desc->n_out].dtype = ctx->trace.values[in[0]].type.dtype;
    for (int i = 0; i < desc->n_out + desc->n_extra; i++)
        if (swi_stick(ctx, check_type(desc, i, &out_types[i])) != SW_OK)
            return ctx->status;
    const swi_append_args args =
        SW_INIT(.op = op, .grad = -1, .in = in, .n_in = n_in, .attrs = attrs,
                .out_types = out_types, .into = into, .n_out = desc->n_out + desc->n_extra,
                .accumulate = accumulate, .stream = stream);
    SW_TRY(desc->view != NULL ? append_view(ctx, op, in[0], attrs, &out_types[0], made)
                              : swi_append(ctx, &args, made));
    for (int i = 0; i < desc->n_out; i++)
        ctx->trace.values[made[i]].kept_f32 = keeps;
    if (outs != NULL)
        memcpy(outs, made, (size_t)args.n_out * sizeof *outs);
    return SW_OK;
}

sw_value sw_op_apply_all(sw_ctx *ctx, uint32_t id, const sw_value *in, int n_in,
                         const void *attrs, sw_value *outs)
{
    uint32_t ids[SWI_MAX_OPERANDS], made[SWI_MAX_OPERANDS];
    const sw_op_desc *desc = swi_op(id);
    if (!swi_ctx_works(ctx))
        return (sw_value){0, 0};
    if (in == NULL && n_in > 0)
        return SWI_REFUSE(ctx, "%s: the inputs must not be NULL",
                          desc != NULL ? desc->name : "sw_op_apply");
    if (desc == NULL || n_in < 0 || n_in > SWI_MAX_OPERANDS - 4)
        return SWI_REFUSE(
            ctx, desc == NULL ? "there is no op number %u" : "op %u: too many inputs", id);
    if (swi_op_is_private(id) || (attrs == NULL && desc->attrs_bytes > 0))
        return SWI_REFUSE(ctx,
                          swi_op_is_private(id) ? "%s: only an optimizer may append this op"
                                                : "%s: the attributes must not be NULL",
                          desc->name);
    for (int i = 0; i < n_in; i++) {
        if (swi_value_at(ctx, in[i]) == NULL)
            return (sw_value){0, 0};
        ids[i] = in[i].id - 1;
    }
    if (swi_apply(ctx, id, ids, n_in, attrs, NULL, 0, desc->random ? desc->name : NULL, made) !=
        SW_OK)
        return (sw_value){0, 0};
    for (int i = 0; outs != NULL && i < desc->n_out; i++)
        outs[i] = swi_handle(ctx, made[i]);
    return swi_handle(ctx, made[0]);
}

sw_value sw_op_apply(sw_ctx *ctx, uint32_t id, const sw_value *in, int n_in, const void *attrs)
{
    return sw_op_apply_all(ctx, id, in, n_in, attrs, NULL);
}

/* ---- trace model ------------------------------------------------------------------------- */

/* Values that a step function reads from models: parameters, states and knobs, at the version
 * of their place in the program; and assignment to states. */

static int model_index(sw_ctx *ctx, const sw_model *model)
{
    for (int i = 0; i < ctx->args->n_models; i++)
        if (ctx->args->models[i] == model)
            return i;
    SWI_STICK(ctx, SW_INVALID, "model %s must be among the models of this run",
              model != NULL ? model->name : "(none)");
    return -1;
}

/* The storage of one entry of a model; segments make it the same for every member of a
 * shape. */
static uint32_t model_storage(sw_ctx *ctx, int m, sw_model *model, uint32_t entry)
{
    const swi_entry *e = &model->entries[entry];
    const uint32_t s = swi_new_storage(ctx, e->bytes, e->role);
    if (s == SWI_NONE)
        return s;
    sw_status status = SW_OK;
    char shown[SWI_SHOWN_BYTES];
    const uint32_t name = swi_trace_string(
        &ctx->trace, swi_entry_shown(ctx->args, model, e->name, shown), &status);
    if (swi_stick(ctx, status) != SW_OK)
        return SWI_NONE;
    swi_storage *storage = &ctx->trace.storages[s];
    storage->segment = SWI_SEG_MODEL + (uint32_t)m;
    storage->offset = e->offset;
    storage->entry = entry;
    storage->name = name;
    return s;
}

uint32_t swi_model_value(sw_ctx *ctx, sw_model *model, uint32_t entry)
{
    if (ctx->status != SW_OK)
        return SWI_NONE;
    const int m = model_index(ctx, model);
    if (m < 0)
        return SWI_NONE;
    if (entry == 0 || entry >= model->n_entries) {
        SWI_STICK(ctx, SW_INVALID, "the parameter must be one of model %s", model->name);
        return SWI_NONE;
    }
    uint32_t *known = &ctx->model_values[m][entry];
    const swi_entry *e = &model->entries[entry];
    /* An op that wrote one element of an entry has left the value of that element there. */
    if (*known != SWI_NONE && (&ctx->trace.values[*known])->type.shape.rank == e->shape.rank)
        return *known;
    const sw_type type = {e->dtype, SW_PLAIN, e->shape};
    *known = swi_new_value(ctx, &type,
                           *known != SWI_NONE ? ctx->trace.values[*known].storage
                                              : model_storage(ctx, m, model, entry));
    return *known;
}

/* A tensor of this shape from element `index` of an entry on. */
static uint32_t value_in(sw_ctx *ctx, sw_model *model, uint32_t entry, uint32_t index,
                         sw_shape shape)
{
    const uint32_t block = swi_model_value(ctx, model, entry);
    if (block == SWI_NONE)
        return SWI_NONE;
    const sw_dtype dtype = model->entries[entry].dtype;
    const sw_type type = {dtype, SW_PLAIN, shape};
    const uint32_t v = swi_new_value(ctx, &type, ctx->trace.values[block].storage);
    if (v != SWI_NONE)
        ctx->trace.values[v].offset = index * sw_dtype_bytes(dtype);
    return v;
}

uint32_t swi_model_element(sw_ctx *ctx, sw_model *model, uint32_t entry, uint32_t index)
{
    return value_in(ctx, model, entry, index, (sw_shape){0, {0}});
}

uint32_t swi_knob_value(sw_ctx *ctx, sw_knob knob)
{
    return swi_knob_values(ctx, knob, 1);
}

uint32_t swi_knob_values(sw_ctx *ctx, sw_knob first, uint32_t n)
{
    if (!swi_ctx_works(ctx))
        return SWI_NONE;
    if (!sw_handle_lives(first.model, SW_HANDLE_MODEL) || first.index >= first.model->n_knobs ||
        n > first.model->n_knobs - first.index) {
        SWI_STICK(ctx, SW_INVALID, "the knob must be one of this model");
        return SWI_NONE;
    }
    return value_in(ctx, first.model, first.model->knob_entry, first.index,
                    n == 1 ? (sw_shape){0, {0}} : SW_SHAPE(n));
}

sw_value sw_use(sw_ctx *ctx, sw_param param)
{
    if (!swi_ctx_works(ctx))
        return (sw_value){0, 0};
    if (swi_entry_of(param) == NULL)
        SWI_STICK(ctx, SW_INVALID, "the parameter must be one of this model");
    return ctx->status != SW_OK
               ? (sw_value){0, 0}
               : swi_handle(ctx, swi_model_value(ctx, param.model, param.index));
}

/* From here on the state is `value`. */
static sw_status note_assignment(sw_ctx *ctx, sw_param state, uint32_t target, uint32_t value)
{
    const uint32_t m = (uint32_t)model_index(ctx, state.model);
    sw_status status = SW_OK;
    const uint32_t layer = swi_trace_string(&ctx->trace, ctx->scope, &status);
    SW_TRY(status);
    ctx->model_values[m][state.index] = value;
    for (uint32_t i = 0; i < ctx->n_assignments; i++)
        if (ctx->assignments[i].model == m && ctx->assignments[i].entry == state.index) {
            ctx->assignments[i].value = value;
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&ctx->assignments, SW_HEAP_PROGRAMS, &ctx->cap_assignments,
                           ctx->n_assignments + 1));
    ctx->assignments[ctx->n_assignments++] =
        (swi_assignment){m, state.index, target, value, layer};
    return SW_OK;
}

/* The present value of what `call` may write; SWI_NONE and an error where it may not. */
static uint32_t assignable(sw_ctx *ctx, sw_param state, const char *call)
{
    const swi_entry *e = swi_entry_of(state);
    if (e == NULL) {
        SWI_STICK(ctx, SW_INVALID, "%s: the target must be a state or buffer of this model",
                  call);
        return SWI_NONE;
    }
    const uint32_t target =
        swi_handle(ctx, swi_model_value(ctx, state.model, state.index)).id - 1;
    if (ctx->status == SW_OK &&
        ((e->role != SWI_ROLE_STATE && e->role != SWI_ROLE_BUFFER) || e->values != NULL))
        SWI_STICK(ctx, SW_INVALID, "%s: '%s' is a %s; only states and buffers are assigned",
                  call, e->name, e->values != NULL ? "constant" : swi_role_name(e->role));
    return ctx->status == SW_OK ? target : SWI_NONE;
}

/* A new version: later sw_use gets `x`. The bytes are written at the end of the run, so that
 * a backward pass that comes later reads the old version, and a run that fails before leaves
 * it. */
void sw_assign(sw_ctx *ctx, sw_param state, sw_value x)
{
    x = swi_cast(ctx, x, SW_F32);
    if (swi_value_at(ctx, x) == NULL)
        return;
    const uint32_t target = assignable(ctx, state, "sw_assign");
    if (target == SWI_NONE)
        return;
    const swi_value *v = &ctx->trace.values[x.id - 1];
    const swi_value *t = &ctx->trace.values[target];
    if (v->type.dtype != t->type.dtype || v->type.shape.rank != t->type.shape.rank ||
        memcmp(v->type.shape.dim, t->type.shape.dim,
               (size_t)v->type.shape.rank * sizeof v->type.shape.dim[0]) != 0) {
        SWI_STICK(ctx, SW_INVALID, "sw_assign: '%s' has another shape or type",
                  swi_entry_of(state)->name);
        return;
    }
    uint32_t value = swi_layout(ctx, x, SW_PLAIN).id - 1;
    /* A value in a model may change before the state is written: keep it as it is now. */
    if (ctx->status == SW_OK && in_model(ctx, value))
        (void)swi_apply(ctx, SW_OP_copy, &value, 1, NULL, NULL, 0, NULL, &value);
    if (ctx->status == SW_OK)
        (void)swi_stick(ctx, note_assignment(ctx, state, target, value));
}

void sw_assign_rows(sw_ctx *ctx, sw_param state, sw_value x, sw_value at)
{
    if (swi_value_at(ctx, x) == NULL || swi_value_at(ctx, at) == NULL)
        return;
    const uint32_t target = assignable(ctx, state, "sw_assign_rows");
    if (target == SWI_NONE)
        return;
    const char *name = swi_entry_of(state)->name;
    if (ctx->args->mode == SW_TRAIN)
        SWI_STICK(ctx, SW_INVALID,
                  "sw_assign_rows: '%s' is written in evaluation alone: backward would read "
                  "what it was before",
                  name);
    else if (!in_model(ctx, target))
        SWI_STICK(ctx, SW_INVALID,
                  "sw_assign_rows: '%s' was assigned as a whole by sw_assign, which is written "
                  "at the end of the run",
                  name);
    uint32_t in[] = {target, x.id - 1, at.id - 1};
    (void)swi_apply(ctx, SW_OP_assign_rows, in, 3, NULL, &target, 0, NULL, in);
}

sw_status swi_write_states(sw_ctx *ctx)
{
    char scope[SWI_MAX_SCOPE];
    const int phase = ctx->phase_now, override = ctx->phase_override;
    memcpy(scope, ctx->scope, sizeof scope);
    ctx->phase_now = SW_STEP;
    ctx->phase_override = -1;
    /* Of a step of several shards those of the first stay. */
    const int here = swi_target_of(ctx->exec)->shards_here;
    const bool later = ctx->args->mode == SW_TRAIN && ctx->args->run % (uint32_t)here > 0;
    for (uint32_t i = 0; i < ctx->n_assignments && !later && ctx->status == SW_OK; i++) {
        const swi_assignment *a = &ctx->assignments[i];
        const sw_type type = ctx->trace.values[a->target].type;
        uint32_t out;
        snprintf(ctx->scope, sizeof ctx->scope, "%s", swi_string(&ctx->trace, a->layer));
        const swi_append_args args =
            SW_INIT(.op = SW_OP_copy, .grad = -1, .in = &a->value, .n_in = 1,
                    .out_types = &type, .into = &a->target, .n_out = 1);
        (void)swi_append(ctx, &args, &out);
    }
    memcpy(ctx->scope, scope, sizeof scope);
    ctx->phase_now = phase;
    ctx->phase_override = override;
    return ctx->status;
}

/* The frame of a step function: phases, scopes, and what leaves a run. */

/* ---- phases and scopes ------------------------------------------------------------------- */

void sw_set_phase(sw_ctx *ctx, sw_phase phase)
{
    if (!swi_ctx_works(ctx))
        return;
    if ((int)phase >= 0 && phase <= SW_STEP)
        ctx->phase_override = (int)phase;
    else
        SWI_STICK(ctx, SW_INVALID,
                  "sw_set_phase: a phase must be SW_DATA (0) to SW_STEP (%d) (got %d)",
                  (int)SW_STEP, (int)phase);
}

void sw_clear_phase(sw_ctx *ctx)
{
    if (swi_ctx_works(ctx))
        ctx->phase_override = -1;
}

static sw_status begin_scope(sw_ctx *ctx, const char *name)
{
    if (name == NULL || name[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_scope_begin: the name must not be NULL or empty");
    const size_t length = strlen(ctx->scope);
    const int n = snprintf(ctx->scope + length, sizeof ctx->scope - length, "%s%s",
                           length > 0 ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof ctx->scope - length) {
        ctx->scope[length] = '\0';
        SW_FAIL(SW_INVALID, "scopes nest past %d bytes", SWI_MAX_SCOPE);
    }
    swi_path_of(ctx->scope + length);
    ctx->scope_at[ctx->n_scopes++] = (uint8_t)length; /* each scope is at least one byte */
    return SW_OK;
}

void sw_scope_begin(sw_ctx *ctx, const char *name)
{
    if (swi_ctx_works(ctx))
        (void)swi_stick(ctx, begin_scope(ctx, name));
}

void sw_scope_end(sw_ctx *ctx)
{
    if (!swi_ctx_works(ctx))
        return; /* the path stays as it was when the error came */
    if (ctx->n_scopes == 0)
        SWI_STICK(ctx, SW_INVALID, "sw_scope_end: no scope is open");
    else
        ctx->scope[ctx->scope_at[--ctx->n_scopes]] = '\0';
}

/* ---- what leaves a run ------------------------------------------------------------------- */

static void append_output(sw_ctx *ctx, const char *name, sw_value x, bool metric)
{
    x = swi_cast(ctx, x, SW_F32);
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return;
    swi_trace *t = &ctx->trace;
    if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof t->metrics->name) {
        SWI_STICK(ctx, SW_INVALID, "the name of %s must have 1 to %zu bytes (got '%s')",
                  metric ? "a metric" : "an output", sizeof t->metrics->name - 1,
                  name != NULL ? name : "");
        return;
    }
    if (metric && (v->type.dtype != SW_F32 || sw_type_elements(&v->type) != 1)) {
        SWI_STICK(ctx, SW_INVALID, "metric '%s' must be an f32 scalar", name);
        return;
    }
    swi_named **at = metric ? &t->metrics : &t->outputs, *list = *at;
    uint32_t *n = metric ? &t->n_metrics : &t->n_outputs;
    for (uint32_t i = 0; i < *n; i++)
        if (strcmp(list[i].name, name) == 0) {
            SWI_STICK(ctx, SW_INVALID, "two %s are named '%s'", metric ? "metrics" : "outputs",
                      name);
            return;
        }
    if (!metric)
        x = swi_layout(ctx, x, SW_PLAIN);
    if (ctx->status != SW_OK)
        return;
    uint32_t id = x.id - 1;
    v = &t->values[id];
    /* A value that leaves owns its bytes: an input, a parameter or a piece of something larger
     * is copied. */
    const swi_storage *s = &t->storages[v->storage];
    if (s->segment != SWI_SEG_STEP || !v->contiguous || s->bytes != sw_type_bytes(&v->type)) {
        uint32_t copy = SWI_NONE;
        if (swi_apply(ctx, SW_OP_copy, &id, 1, NULL, NULL, 0, NULL, &copy) != SW_OK)
            return;
        id = copy;
    }
    if (swi_stick(ctx, sw_heap_reserve(at, SW_HEAP_PROGRAMS,
                                       metric ? &t->cap_metrics : &t->cap_outputs, *n + 1)) !=
        SW_OK)
        return;
    list = &(*at)[(*n)++];
    memset(list, 0, sizeof *list);
    snprintf(list->name, sizeof list->name, "%s", name);
    list->value = id;
    swi_storage *kept = &t->storages[t->values[id].storage];
    kept->pinned = true;
    swi_set_role(ctx, t->values[id].storage, metric ? SWI_ROLE_METRIC : SWI_ROLE_OUTPUT);
}

/* With noise a metric may have a number for each evaluation: an output; its mean is the
 * metric. */
static sw_value mean_of_evaluations(sw_ctx *ctx, const char *name, sw_value x)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL || ctx->noise == NULL || v->type.shape.rank != 1 ||
        v->type.shape.dim[0] != swi_evaluations(ctx->noise))
        return x;
    append_output(ctx, name, x, false);
    swi_sum_attrs a;
    memset(&a, 0, sizeof a);
    a.axes = 1;
    a.scale = 1.0 / (double)v->type.shape.dim[0];
    uint32_t in = x.id - 1, mean = SWI_NONE;
    ctx->noise_depth++;
    (void)swi_apply(ctx, SW_OP_sum, &in, 1, &a, NULL, 0, NULL, &mean);
    ctx->noise_depth--;
    return ctx->status == SW_OK ? swi_handle(ctx, mean) : (sw_value){0, 0};
}

void sw_metric(sw_ctx *ctx, const char *name, sw_value scalar)
{
    if (!swi_ctx_works(ctx))
        return;
    append_output(ctx, name, mean_of_evaluations(ctx, name, scalar), true);
}

void sw_output(sw_ctx *ctx, const char *name, sw_value x)
{
    append_output(ctx, name, x, false);
}
