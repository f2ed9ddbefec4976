/* One node more: versions, attributes, outputs and scratch of a kernel op. */
#include "kernels/rng.h"
#include "alloc/base/assert.h"
#include "runtime/graph/trace_internal.h"
#include "runtime/base/common.h"
#include <stdio.h>
#include <string.h>

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
            if (ctx->trace.values[ctx->trace.operands[node->first + node->n_in + i]].storage ==
                storage)
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
    sw_kernel_info info = {.in = in,
                           .out = out_types,
                           .n_in = args->n_in,
                           .n_out = args->n_out,
                           .attrs = args->attrs,
                           .accumulate = args->accumulate,
                           .skipped = args->null_out};
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
    if (ctx->status != SW_OK)
        return ctx->status;
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

    swi_node node = {.op = args->op,
                     .grad = args->grad,
                     .n_in = (uint32_t)args->n_in,
                     .n_out = (uint32_t)args->n_out,
                     .first = t->n_operands,
                     .attrs = t->n_attrs,
                     .accumulate = args->accumulate,
                     .null_out = args->null_out,
                     .scratch = SWI_NONE,
                     .phase = phase,
                     .layer = layer,
                     .is_update = args->update,
                     .release = args->release != SWI_STAYS ? args->release : ctx->release,
                     .gradient_of = ctx->gradient_of,
                     .is_backward = ctx->in_backward};
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
