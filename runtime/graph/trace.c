/* Traces: their arrays, names, errors, values and storages. Nothing here has bytes; immediate
 * mode gives each new storage its bytes in exec/run.c. */
#include "alloc/base/assert.h"
#include "alloc/base/hash.h"
#include "alloc/base/size.h"
#include "kernels/rng.h"
#include "runtime/base/common.h"
#include "runtime/base/run_observer.h"
#include "runtime/graph/trace.h"
#include <stdio.h>
#include <string.h>

sw_status swi_reserve_nodes(swi_trace *t)
{
    SW_ASSERT(t->n_nodes <= t->cap_nodes && t->n_nodes < SWI_NONE - 1);
    return sw_heap_reserve(&t->nodes, SW_HEAP_PROGRAMS, &t->cap_nodes, t->n_nodes + 1);
}

sw_status swi_reserve_operands(swi_trace *t, uint32_t n)
{
    SW_ASSERT(t->n_operands <= t->cap_operands && n <= UINT32_MAX - t->n_operands);
    return sw_heap_reserve(&t->operands, SW_HEAP_PROGRAMS, &t->cap_operands, t->n_operands + n);
}

sw_status swi_reserve_attrs(swi_trace *t, uint32_t n)
{
    SW_ASSERT(t->n_attrs <= t->cap_attrs && n <= UINT32_MAX - t->n_attrs);
    return sw_heap_reserve(&t->attrs, SW_HEAP_PROGRAMS, &t->cap_attrs, t->n_attrs + n);
}

sw_status swi_trace_reset(swi_trace *t)
{
    t->n_nodes = t->n_operands = t->n_values = t->n_storages = t->n_strides = 0;
    t->n_attrs = t->n_metrics = t->n_outputs = 0;
    SW_TRY(sw_heap_reserve(&t->strings, SW_HEAP_PROGRAMS, &t->cap_strings, 1));
    t->strings[0] = '\0';
    t->n_strings = 1;
    t->n_string_slots = 0;
    if (t->cap_string_slots > 0)
        memset(t->string_slots, 0, t->cap_string_slots * sizeof *t->string_slots);
    return SW_OK;
}

void swi_trace_free(swi_trace *t)
{
    sw_heap_free(t->nodes, SW_HEAP_PROGRAMS, t->cap_nodes * sizeof *t->nodes);
    sw_heap_free(t->operands, SW_HEAP_PROGRAMS, t->cap_operands * sizeof *t->operands);
    sw_heap_free(t->values, SW_HEAP_PROGRAMS, t->cap_values * sizeof *t->values);
    sw_heap_free(t->storages, SW_HEAP_PROGRAMS, t->cap_storages * sizeof *t->storages);
    sw_heap_free(t->strides, SW_HEAP_PROGRAMS, t->cap_strides * sizeof *t->strides);
    sw_heap_free(t->attrs, SW_HEAP_PROGRAMS, t->cap_attrs);
    sw_heap_free(t->strings, SW_HEAP_PROGRAMS, t->cap_strings);
    sw_heap_free(t->string_slots, SW_HEAP_PROGRAMS,
                 t->cap_string_slots * sizeof *t->string_slots);
    sw_heap_free(t->metrics, SW_HEAP_PROGRAMS, t->cap_metrics * sizeof *t->metrics);
    sw_heap_free(t->outputs, SW_HEAP_PROGRAMS, t->cap_outputs * sizeof *t->outputs);
    memset(t, 0, sizeof *t);
}

/* The slot of a text: where it is, or the free one where it belongs. */
static uint32_t *string_slot(const swi_trace *t, const char *text)
{
    SW_ASSERT(t->cap_string_slots > 0 &&
              (t->cap_string_slots & (t->cap_string_slots - 1)) == 0);
    SW_ASSERT(t->n_string_slots < t->cap_string_slots);
    for (uint32_t hash = sw_fnv32(SW_FNV32, text, strlen(text));; hash++) {
        uint32_t *slot = &t->string_slots[hash & (t->cap_string_slots - 1)];
        if (*slot == 0 || strcmp(t->strings + *slot, text) == 0)
            return slot;
    }
}

/* At most half of the slots are taken. */
static sw_status reserve_string(swi_trace *t, size_t length)
{
    SW_ASSERT(t->n_strings >= 1 && t->strings[t->n_strings - 1] == '\0');
    SW_ASSERT(length > 0 && length <= UINT32_MAX - t->n_strings);
    SW_TRY(sw_heap_reserve(&t->strings, SW_HEAP_PROGRAMS, &t->cap_strings,
                           t->n_strings + (uint32_t)length));
    if (2 * t->n_string_slots < t->cap_string_slots)
        return SW_OK;
    SW_TRY(sw_heap_reserve(&t->string_slots, SW_HEAP_PROGRAMS, &t->cap_string_slots,
                           t->cap_string_slots + 1));
    memset(t->string_slots, 0, t->cap_string_slots * sizeof *t->string_slots);
    for (uint32_t i = 1; i < t->n_strings; i += (uint32_t)strlen(t->strings + i) + 1)
        *string_slot(t, t->strings + i) = i;
    return SW_OK;
}

uint32_t swi_trace_string(swi_trace *t, const char *text, sw_status *status)
{
    const size_t length = strlen(text) + 1;
    if (length == 1)
        return 0;
    if (t->n_string_slots > 0) {
        const uint32_t known = *string_slot(t, text);
        if (known != 0)
            return known;
    }
    *status = reserve_string(t, length);
    if (*status != SW_OK)
        return 0;
    *string_slot(t, text) = t->n_strings;
    t->n_string_slots++;
    SW_ASSERT(2 * t->n_string_slots <= t->cap_string_slots + 1);
    SW_ASSERT(t->n_strings + length <= t->cap_strings);
    memcpy(t->strings + t->n_strings, text, length);
    t->n_strings += (uint32_t)length;
    return t->n_strings - (uint32_t)length;
}

const char *swi_string(const swi_trace *t, uint32_t index)
{
    return index < t->n_strings ? t->strings + index : "";
}

/* ---- errors stick ------------------------------------------------------------------------ */

sw_status swi_ctx_refuse(const sw_ctx *ctx)
{
    if (ctx == NULL)
        SW_FAIL(SW_INVALID, "the ctx must not be NULL");
    SW_FAIL(SW_STALE, "a ctx was used after the end of its step function");
}

sw_status swi_stick(sw_ctx *ctx, sw_status status)
{
    if (ctx == NULL)
        return status;
    if (status == SW_OK || ctx->status != SW_OK)
        return ctx->status != SW_OK ? ctx->status : status;
    ctx->status = status;
    if (ctx->scope[0] != '\0')
        SW_FAIL(status, "in %s: %s", ctx->scope, sw_last_error());
    return status;
}

void sw_fail(sw_ctx *ctx, sw_status status, const char *message)
{
    if (!swi_ctx_works(ctx) || status == SW_OK)
        return;
    if (message == NULL)
        message = "sw_fail: no message";
    (void)swi_stick(ctx, (unsigned)status <= SW_STOPPED
                             ? sw_error_set(status, __FILE__, __LINE__, "%s", message)
                             : sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                            "sw_fail: status must be an sw_status (got %d): %s",
                                            (int)status, message));
}

sw_status sw_ctx_status(sw_ctx *ctx)
{
    return ctx != NULL && ctx->open ? ctx->status : swi_ctx_refuse(ctx);
}

sw_mode sw_ctx_mode(sw_ctx *ctx)
{
    if (ctx != NULL && ctx->open)
        return ctx->args->mode;
    (void)swi_ctx_refuse(ctx);
    return SW_EVAL;
}

/* ---- values ------------------------------------------------------------------------------ */

sw_value swi_handle(const sw_ctx *ctx, uint32_t id)
{
    return id == SWI_NONE || ctx == NULL || ctx->status != SW_OK
               ? (sw_value){0, 0}
               : (sw_value){id + 1, ctx->generation};
}

swi_value *swi_value_at(sw_ctx *ctx, sw_value v)
{
    if (!swi_ctx_works(ctx))
        return NULL;
    if (v.generation != ctx->generation || v.id == 0 || v.id > ctx->trace.n_values) {
        const bool none = v.id == 0;
        (void)swi_stick(ctx, sw_error_set(none ? SW_INVALID : SW_STALE, __FILE__, __LINE__,
                                          none ? "an op was given no value"
                                               : "a value of an earlier run was used"));
        return NULL;
    }
    return &ctx->trace.values[v.id - 1];
}

uint32_t swi_new_storage(sw_ctx *ctx, size_t bytes, swi_role role)
{
    swi_trace *t = &ctx->trace;
    size_t rounded;
    if (!sw_size_align(bytes, SW_ALIGN, &rounded)) {
        SWI_STICK(ctx, SW_NOMEM, "%zu bytes overflow", bytes);
        return SWI_NONE;
    }
    if (swi_stick(ctx, sw_heap_reserve(&t->storages, SW_HEAP_PROGRAMS, &t->cap_storages,
                                       t->n_storages + 1)) != SW_OK)
        return SWI_NONE;
    swi_storage *s = &t->storages[t->n_storages];
    memset(s, 0, sizeof *s);
    s->bytes = bytes;
    s->rounded = rounded;
    s->segment = SWI_SEG_STEP;
    s->role = role;
    s->birth = s->death = SWI_NONE;
    s->alias = t->n_storages;
    return t->n_storages++;
}

void swi_set_role(sw_ctx *ctx, uint32_t storage, swi_role role)
{
    SWI_TELL(role, ctx, storage, role);
    ctx->trace.storages[storage].role = role;
}

void swi_contiguous_strides(const sw_type *type, int64_t *stride)
{
    int64_t step = 1;
    for (int i = SW_MAX_RANK - 1; i >= 0; i--) {
        stride[i] = i < type->shape.rank ? step : 0;
        if (i < type->shape.rank)
            step *= type->shape.dim[i];
    }
}

uint32_t swi_new_value(sw_ctx *ctx, const sw_type *type, uint32_t storage)
{
    swi_trace *t = &ctx->trace;
    if (storage == SWI_NONE ||
        swi_stick(ctx, sw_heap_reserve(&t->values, SW_HEAP_PROGRAMS, &t->cap_values,
                                       t->n_values + 1)) != SW_OK)
        return SWI_NONE;
    swi_value *v = &t->values[t->n_values];
    memset(v, 0, sizeof *v);
    v->storage = storage;
    /* Types are compared byte for byte: what they do not use is zero. */
    v->type.dtype = type->dtype;
    v->type.layout = type->layout;
    v->type.shape.rank = type->shape.rank;
    for (int i = 0; i < type->shape.rank; i++)
        v->type.shape.dim[i] = type->shape.dim[i];
    v->node = SWI_NONE;
    v->version = t->storages[storage].version;
    v->contiguous = 1;
    return t->n_values++;
}

void swi_value_strides(const swi_trace *t, const swi_value *v, int64_t *to)
{
    if (v->strides == 0)
        swi_contiguous_strides(&v->type, to);
    else
        memcpy(to, t->strides[v->strides - 1], sizeof *t->strides);
}

/* Views of one kind come together: those that were noted last are looked at. */
sw_status swi_set_strides(swi_trace *t, uint32_t value, const int64_t *stride)
{
    int64_t usual[SW_MAX_RANK];
    swi_value *v = &t->values[value];
    swi_contiguous_strides(&v->type, usual);
    v->strides = 0;
    if (memcmp(usual, stride, sizeof usual) == 0)
        return SW_OK;
    for (uint32_t i = t->n_strides; i > 0 && i + 16 > t->n_strides && v->strides == 0; i--)
        if (memcmp(t->strides[i - 1], stride, sizeof *t->strides) == 0)
            v->strides = i;
    if (v->strides != 0)
        return SW_OK;
    SW_TRY(sw_heap_reserve(&t->strides, SW_HEAP_PROGRAMS, &t->cap_strides, t->n_strides + 1));
    memcpy(t->strides[t->n_strides], stride, sizeof *t->strides);
    v->strides = ++t->n_strides;
    return SW_OK;
}

int sw_rank(sw_ctx *ctx, sw_value x)
{
    const swi_value *v = swi_value_at(ctx, x);
    return v != NULL ? v->type.shape.rank : 0;
}

int64_t sw_dim(sw_ctx *ctx, sw_value x, int axis)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return 0;
    const int i = axis < 0 ? axis + v->type.shape.rank : axis;
    if (i < 0 || i >= v->type.shape.rank) {
        SWI_STICK(ctx, SW_INVALID, "sw_dim: axis %d of a tensor of rank %d", axis,
                  v->type.shape.rank);
        return 0;
    }
    return v->type.shape.dim[i];
}

sw_value sw_input(sw_ctx *ctx, int i)
{
    if (!swi_ctx_works(ctx))
        return (sw_value){0, 0};
    if (i < 0 || i >= ctx->args->n_inputs)
        return SWI_REFUSE(ctx, "sw_input: input %d of %d", i, ctx->args->n_inputs);
    return swi_handle(ctx, (uint32_t)i); /* swi_ctx_begin made them first */
}

sw_shape swi_shape_of(sw_ctx *ctx, sw_value x)
{
    sw_shape s = {sw_rank(ctx, x), {0}};
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = sw_dim(ctx, x, i);
    return s;
}

/* Those of an op without any would begin where those of the next op do, or past the end. */
const void *swi_node_attrs(const swi_trace *trace, const swi_node *node)
{
    return swi_op(node->op)->attrs_bytes > 0 ? trace->attrs + node->attrs : NULL;
}

void swi_kernel_info(const swi_trace *trace, const swi_node *node, sw_type *types,
                     sw_kernel_info *out)
{
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++)
        types[i] = swi_operand(trace, node, i)->type;
    *out =
        (sw_kernel_info)SW_INIT(.in = types, .out = types + node->n_in, .n_in = (int)node->n_in,
                                .n_out = (int)node->n_out, .attrs = swi_node_attrs(trace, node),
                                .threads = 1, .isa = SW_ISA_BASE,
                                .accumulate = node->accumulate, .skipped = node->null_out);
}

uint32_t swi_unread(const swi_trace *trace, const swi_node *node)
{
    const sw_op_desc *desc = swi_op(node->op);
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    if (desc->unread == NULL || node->kernel == NULL)
        return 0;
    swi_kernel_info(trace, node, types, &info);
    return desc->unread(&info, node->grad);
}

/* One node more: versions, attributes, outputs and scratch of a kernel op. */

/* Data stays data through conversions: an op that only re-lays what the data phase made is
 * data. */
sw_phase swi_phase_of(const sw_ctx *ctx, const sw_op_desc *desc, const uint32_t *in, int n_in)
{
    if (ctx->phase_override >= 0)
        return (sw_phase)ctx->phase_override;
    if (ctx->phase_now >= 0)
        return (sw_phase)ctx->phase_now;
    if (desc->has_phase)
        return desc->phase;
    SW_ASSERT(n_in == 0 || in != NULL);
    if (desc == swi_op(SW_OP_to_n16) && n_in == 1) {
        const swi_value *v = &ctx->trace.values[in[0]];
        if (v->node == SWI_NONE ? ctx->trace.storages[v->storage].segment < SWI_SEG_MODEL
                                : ctx->trace.nodes[v->node].phase == SW_DATA)
            return SW_DATA;
    }
    return SW_FORWARD;
}

/* ---- appending --------------------------------------------------------------------------- */

/* The name of the op that overwrote a storage, for messages. */
static const char *writer_of(const sw_ctx *ctx, uint32_t storage)
{
    for (uint32_t n = ctx->trace.n_nodes; n-- > 0;) {
        const swi_node *node = &ctx->trace.nodes[n];
        for (uint32_t i = 0; i < node->n_out; i++)
            if (swi_operand(&ctx->trace, node, node->n_in + i)->storage == storage)
                return swi_op(node->op)->name;
    }
    return "?";
}

static sw_status check_versions(const sw_ctx *ctx, const sw_op_desc *desc,
                                const swi_append_args *args)
{
    for (int i = 0; i < args->n_in; i++) {
        const swi_value *v = &ctx->trace.values[args->in[i]];
        SW_ASSERT(args->in[i] < ctx->trace.n_values && v->storage < ctx->trace.n_storages);
        const swi_storage *s = &ctx->trace.storages[v->storage];
        if (v->version != s->version)
            SW_FAIL(SW_INVALID,
                    "%s%s needs version %u of '%s', which %s has overwritten (now version %u)",
                    args->grad >= 0 ? "the backward of " : "", desc->name, v->version,
                    s->name != 0 ? swi_string(&ctx->trace, s->name) : "a tensor",
                    writer_of(ctx, v->storage), s->version);
    }
    return SW_OK;
}

/* The kernel of a node as it will be launched, and its scratch. */
static sw_status select_kernel(const sw_ctx *ctx, const swi_append_args *args,
                               const uint32_t *outs, swi_selected_kernel *out)
{
    sw_type in[SWI_MAX_OPERANDS], out_types[SWI_MAX_OPERANDS];
    SW_ASSERT(args->n_in >= 0 && args->n_out >= 0);
    SW_ASSERT(args->n_in + args->n_out <= SWI_MAX_OPERANDS);
    for (int i = 0; i < args->n_in; i++)
        in[i] = ctx->trace.values[args->in[i]].type;
    for (int i = 0; i < args->n_out; i++)
        out_types[i] = ctx->trace.values[outs[i]].type;
    sw_kernel_info info = SW_INIT(.in = in, .out = out_types, .n_in = args->n_in,
                                  .n_out = args->n_out, .attrs = args->attrs,
                                  .accumulate = args->accumulate, .skipped = args->null_out);
    return swi_select_kernel(ctx->exec, args->op, args->grad, &info, out);
}

static swi_role role_of_new(const sw_ctx *ctx, sw_phase phase, int grad)
{
    if (ctx->in_backward || grad >= 0)
        return SWI_ROLE_GRADIENT;
    if (phase == SW_DATA)
        return SWI_ROLE_INPUT;
    return ctx->phase_now == SW_STEP ? SWI_ROLE_TEMPORARY : SWI_ROLE_ACTIVATION;
}

/* Values of the results: of new storages, or new versions of the ones that they overwrite. */
static sw_status make_outputs(sw_ctx *ctx, const swi_append_args *args, swi_node *node,
                              uint32_t *outs)
{
    swi_trace *t = &ctx->trace;
    for (int i = 0; i < args->n_out; i++) {
        const uint32_t into = args->into != NULL ? args->into[i] : SWI_NONE;
        uint32_t storage;
        if (into != SWI_NONE) {
            storage = t->values[into].storage;
            SW_ASSERT(t->values[into].type.dtype == args->out_types[i].dtype);
            SW_ASSERT(into < t->n_values && storage < t->n_storages);
            SW_ASSERT(t->storages[storage].version < UINT32_MAX);
            t->storages[storage].version++;
            node->writes_model |= t->storages[storage].segment >= SWI_SEG_MODEL;
        } else {
            storage = swi_new_storage(
                ctx, swi_is_null(node, (uint32_t)i) ? 0 : sw_type_bytes(&args->out_types[i]),
                role_of_new(ctx, node->phase, args->grad));
            if (storage == SWI_NONE)
                return ctx->status;
            t->storages[storage].dtype = 1 + (uint8_t)args->out_types[i].dtype;
            t->storages[storage].layer = node->layer;
            t->storages[storage].phase = node->phase;
        }
        outs[i] = swi_new_value(ctx, &args->out_types[i], storage);
        if (outs[i] == SWI_NONE)
            return ctx->status;
        t->values[outs[i]].node = t->n_nodes;
        SW_ASSERT(outs[i] < t->n_values && t->values[outs[i]].storage == storage);
        if (into != SWI_NONE) {
            t->values[outs[i]].offset = t->values[into].offset;
            if (t->storages[storage].segment >= SWI_SEG_MODEL)
                ctx->model_values[t->storages[storage].segment - SWI_SEG_MODEL]
                                 [t->storages[storage].entry] = outs[i];
        }
    }
    return SW_OK;
}

sw_status swi_append(sw_ctx *ctx, const swi_append_args *args, uint32_t *outs)
{
    swi_trace *t = &ctx->trace;
    const sw_op_desc *desc = swi_op(args->op);
    SW_ASSERT(desc != NULL && args->grad < desc->n_grads);
    SW_ASSERT(args->n_in == 0 || args->in != NULL);
    SW_ASSERT(args->n_out == 0 || (args->out_types != NULL && outs != NULL));
    SW_ASSERT(t->n_nodes <= t->cap_nodes && t->n_operands <= t->cap_operands);
    SW_TRY(ctx->status);
    if (args->n_in + args->n_out > SWI_MAX_OPERANDS)
        return swi_stick(ctx,
                         sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                      "%s: must have at most %d operands (got %d)", desc->name,
                                      SWI_MAX_OPERANDS, args->n_in + args->n_out));
    if (swi_stick(ctx, check_versions(ctx, desc, args)) != SW_OK)
        return ctx->status;
    const uint32_t attrs_bytes = (uint32_t)((desc->attrs_bytes + 15) & ~(size_t)15);
    SW_ASSERT(attrs_bytes % 16 == 0 && attrs_bytes >= desc->attrs_bytes);
    sw_status status = SW_OK;
    const sw_phase phase = swi_phase_of(ctx, desc, args->in, args->n_in);
    const uint32_t layer = swi_trace_string(t, ctx->scope, &status);
    if (status == SW_OK)
        status = swi_reserve_nodes(t);
    if (status == SW_OK)
        status = swi_reserve_operands(t, (uint32_t)(args->n_in + args->n_out));
    if (status == SW_OK)
        status = swi_reserve_attrs(t, attrs_bytes);
    if (swi_stick(ctx, status) != SW_OK)
        return ctx->status;

    swi_node node =
        SW_INIT(.op = args->op, .grad = args->grad, .n_in = (uint32_t)args->n_in,
                .n_out = (uint32_t)args->n_out, .first = t->n_operands, .attrs = t->n_attrs,
                .accumulate = args->accumulate, .null_out = args->null_out, .scratch = SWI_NONE,
                .phase = phase, .layer = layer, .is_update = args->update,
                .release = args->release != SWI_STAYS ? args->release : ctx->release,
                .gradient_of = ctx->gradient_of, .is_backward = ctx->in_backward);
    if (attrs_bytes > 0) {
        SW_ASSERT(t->n_attrs % 16 == 0 && t->n_attrs + attrs_bytes <= t->cap_attrs);
        memset(t->attrs + t->n_attrs, 0, attrs_bytes);
        if (args->attrs != NULL)
            memcpy(t->attrs + t->n_attrs, args->attrs, desc->attrs_bytes);
        t->n_attrs += attrs_bytes;
    }
    if (args->stream != NULL) {
        char path[SWI_MAX_SCOPE + 64];
        const int n = snprintf(path, sizeof path, "%s/%s", ctx->scope, args->stream);
        if (n < 0 || (size_t)n >= sizeof path) /* cut, two streams would be one */
            return swi_stick(
                ctx,
                sw_error_set(
                    SW_INVALID, __FILE__, __LINE__,
                    "%s: a stream's name with its scopes must have at most %zu bytes (got %d)",
                    desc->name, sizeof path - 1, n));
        node.stream = sw_rng_stream(path);
    }
    if (args->grad >= 0 && ctx->gradient_of != 0) /* draws what its forward op has drawn */
        node.stream = t->nodes[ctx->gradient_of - 1].stream;
    if (make_outputs(ctx, args, &node, outs) != SW_OK)
        return ctx->status;
    swi_selected_kernel picked;
    if (swi_stick(ctx, select_kernel(ctx, args, outs, &picked)) != SW_OK)
        return ctx->status;
    node.kernel = picked.kernel;
    node.on_device = picked.on_device;
    if (picked.scratch_bytes > 0) {
        node.scratch = swi_new_storage(ctx, picked.scratch_bytes, SWI_ROLE_WORKSPACE);
        if (node.scratch == SWI_NONE)
            return ctx->status;
        t->storages[node.scratch].layer = layer;
        t->storages[node.scratch].phase = phase;
    }
    for (int i = 0; i < args->n_in; i++) {
        t->operands[t->n_operands + (uint32_t)i] = args->in[i];
        t->storages[t->values[args->in[i]].storage].kept |= ctx->in_backward;
    }
    memcpy(t->operands + t->n_operands + args->n_in, outs, (size_t)args->n_out * sizeof *outs);
    t->n_operands += (uint32_t)(args->n_in + args->n_out);
    SW_ASSERT(t->n_operands <= t->cap_operands && t->n_nodes < t->cap_nodes);
    SW_ASSERT((unsigned)phase <= SW_STEP);
    t->nodes[t->n_nodes++] = node;
    return ctx->immediate ? swi_stick(ctx, ctx->run_node(ctx, t->n_nodes - 1)) : SW_OK;
}

/* ---- trace gradients --------------------------------------------------------------------- */

/* Gradients while a trace is made: rules of ops and sw_backward add to them. */

/* Make the gradient in *slot own its bytes, so that it can be added to. */
sw_status swi_own_gradient(sw_ctx *ctx, uint32_t *slot, uint32_t first_storage)
{
    const swi_value *g = &ctx->trace.values[*slot];
    const swi_storage *st = &ctx->trace.storages[g->storage];
    bool shared = g->storage < first_storage || !g->contiguous ||
                  st->bytes != sw_type_bytes(&g->type) || st->segment != SWI_SEG_STEP;
    for (uint32_t v = 0; !shared && v < ctx->n_value_grads; v++) {
        const uint32_t other = ctx->value_grads[v];
        shared = other != SWI_NONE && &ctx->value_grads[v] != slot &&
                 ctx->trace.values[other].storage == g->storage;
    }
    /* An earlier backward may have left the same bytes to several parameters. */
    for (uint32_t i = 0; !shared && i < ctx->n_grads; i++)
        shared = &ctx->grads[i].value != slot &&
                 ctx->trace.values[ctx->grads[i].value].storage == g->storage;
    if (!shared)
        return SW_OK;
    uint32_t copy = SWI_NONE;
    SW_TRY(swi_apply(ctx, SW_OP_copy, slot, 1, NULL, NULL, 0, NULL, &copy));
    *slot = copy;
    return SW_OK;
}

/* ctx->value_grads moves only when a backward begins. */
uint32_t *swi_gradient_so_far(sw_ctx *ctx, sw_value x)
{
    if (ctx->status != SW_OK || !ctx->in_backward || x.id == 0 || x.id > ctx->n_value_grads)
        return NULL;
    uint32_t *slot = &ctx->value_grads[x.id - 1];
    if (*slot == SWI_NONE || swi_own_gradient(ctx, slot, ctx->first_gradient) != SW_OK)
        return NULL;
    return slot;
}

/* ---- kernel selection -------------------------------------------------------------------- */

/* Which kernel runs a node on the exec's device, and the scratch that it asks for: by the op
 * and by the type of its numbers. */

sw_status swi_select_kernel(const sw_exec *exec, uint32_t op, int grad, sw_kernel_info *info,
                            swi_selected_kernel *out)
{
    const swi_target *target = swi_target_of(exec);
    const swi_backend *backend = target->device->backend;
    const int stored = swi_stored_input(op, grad, info->attrs);
    const sw_dtype dtype = swi_others_half(info, stored) ? SW_BF16 : SW_F32;
    info->threads = target->threads;
    info->isa = target->isa;
    if (!backend->select(target, op, grad, dtype, info, out))
        SW_FAIL(SW_UNSUPPORTED, "%s%s: not supported on %s for %s",
                grad >= 0 ? "the backward of " : "", swi_op(op)->name, backend->name,
                sw_dtype_name(dtype));
    return SW_OK;
}
