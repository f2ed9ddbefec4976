/* Traces: their arrays, names, errors, values and storages. Nothing here has bytes; immediate
 * mode gives each new storage its bytes in immediate.c. */
#include "alloc/base/size.h"
#include "alloc/base/assert.h"
#include "runtime/graph/trace_internal.h"
#include "runtime/base/run_observer.h"
#include <stdio.h>
#include <string.h>

sw_status swi_reserve_nodes(swi_trace *t)
{
    SW_ASSERT(t->n_nodes <= t->cap_nodes && t->n_nodes < SWI_NONE - 1);
    void *p = t->nodes;
    SW_TRY(
        sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_nodes, t->n_nodes + 1, sizeof *t->nodes));
    t->nodes = p;
    return SW_OK;
}

sw_status swi_reserve_operands(swi_trace *t, uint32_t n)
{
    SW_ASSERT(t->n_operands <= t->cap_operands && n <= UINT32_MAX - t->n_operands);
    void *p = t->operands;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_operands, t->n_operands + n,
                           sizeof *t->operands));
    t->operands = p;
    return SW_OK;
}

sw_status swi_reserve_attrs(swi_trace *t, uint32_t n)
{
    SW_ASSERT(t->n_attrs <= t->cap_attrs && n <= UINT32_MAX - t->n_attrs);
    void *p = t->attrs;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_attrs, t->n_attrs + n, 1));
    t->attrs = p;
    return SW_OK;
}

sw_status swi_trace_reset(swi_trace *t)
{
    t->n_nodes = t->n_operands = t->n_values = t->n_storages = t->n_strides = 0;
    t->n_attrs = t->n_metrics = t->n_outputs = 0;
    void *p = t->strings;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_strings, 1, 1));
    t->strings = p;
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
    uint32_t hash = 0x811c9dc5u;
    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 0x01000193u;
    for (;; hash++) {
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
    void *p = t->strings;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_strings,
                           t->n_strings + (uint32_t)length, 1));
    t->strings = p;
    if (2 * t->n_string_slots < t->cap_string_slots)
        return SW_OK;
    p = t->string_slots;
    const uint32_t before = t->cap_string_slots;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_string_slots, before + 1,
                           sizeof *t->string_slots));
    t->string_slots = p;
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
    if (ctx->scope[0] != '\0') {
        char text[400];
        snprintf(text, sizeof text, "%s", sw_last_error());
        return sw_error_set(status, __FILE__, __LINE__, "in %s: %s", ctx->scope, text);
    }
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
    void *p = t->storages;
    size_t rounded;
    if (!sw_size_align(bytes, SW_ALIGN, &rounded)) {
        (void)swi_stick(
            ctx, sw_error_set(SW_NOMEM, __FILE__, __LINE__, "%zu bytes overflow", bytes));
        return SWI_NONE;
    }
    if (swi_stick(ctx, sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_storages,
                                       t->n_storages + 1, sizeof *t->storages)) != SW_OK)
        return SWI_NONE;
    t->storages = p;
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
    swi_observe_role(ctx, storage, role);
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
    void *p = t->values;
    if (storage == SWI_NONE ||
        swi_stick(ctx, sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_values, t->n_values + 1,
                                       sizeof *t->values)) != SW_OK)
        return SWI_NONE;
    t->values = p;
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
    void *p = t->strides;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_strides, t->n_strides + 1,
                           sizeof *t->strides));
    t->strides = p;
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
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "sw_dim: axis %d of a tensor of rank %d", axis,
                                          v->type.shape.rank));
        return 0;
    }
    return v->type.shape.dim[i];
}

sw_value sw_input(sw_ctx *ctx, int i)
{
    if (!swi_ctx_works(ctx))
        return (sw_value){0, 0};
    if (i < 0 || i >= ctx->args->n_inputs) {
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "sw_input: input %d of %d", i, ctx->args->n_inputs));
        return (sw_value){0, 0};
    }
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
        types[i] = trace->values[trace->operands[node->first + i]].type;
    *out = (sw_kernel_info){.in = types,
                            .out = types + node->n_in,
                            .n_in = (int)node->n_in,
                            .n_out = (int)node->n_out,
                            .attrs = swi_node_attrs(trace, node),
                            .threads = 1,
                            .isa = SW_ISA_BASE,
                            .accumulate = node->accumulate,
                            .skipped = node->null_out};
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
