/* Traces: values, storages and nodes while a step function runs. Nothing here has bytes;
 * immediate mode gives each new storage its bytes in immediate.c. */
#include "alloc/size.h"
#include "kernels/rng.h"
#include "runtime/ops/ops.h"
#include "runtime/runtime_internal.h"
#include <stdio.h>
#include <string.h>

/* Make room for one more element of a growable array. */
static sw_status room(void **array, uint32_t *cap, uint32_t wanted, size_t element)
{
    if (wanted <= *cap)
        return SW_OK;
    uint32_t next = *cap < 32 ? 32 : *cap;
    while (next < wanted)
        next = next <= UINT32_MAX / 2 ? next * 2 : UINT32_MAX;
    SW_TRY(sw_heap_resize(array, SW_HEAP_PROGRAMS, *cap * element, next * element));
    *cap = next;
    return SW_OK;
}

static sw_status room_nodes(swi_trace *t)
{
    void *p = t->nodes;
    SW_TRY(room(&p, &t->cap_nodes, t->n_nodes + 1, sizeof *t->nodes));
    t->nodes = p;
    return SW_OK;
}

static sw_status room_operands(swi_trace *t, uint32_t n)
{
    void *p = t->operands;
    SW_TRY(room(&p, &t->cap_operands, t->n_operands + n, sizeof *t->operands));
    t->operands = p;
    return SW_OK;
}

static sw_status room_attrs(swi_trace *t, uint32_t n)
{
    void *p = t->attrs;
    SW_TRY(room(&p, &t->cap_attrs, t->n_attrs + n, 1));
    t->attrs = p;
    return SW_OK;
}

sw_status swi_trace_reset(swi_trace *t)
{
    t->n_nodes = t->n_operands = t->n_values = t->n_storages = 0;
    t->n_attrs = t->n_metrics = t->n_outputs = 0;
    void *p = t->strings;
    SW_TRY(room(&p, &t->cap_strings, 1, 1));
    t->strings = p;
    t->strings[0] = '\0';
    t->n_strings = 1;
    return SW_OK;
}

void swi_trace_free(swi_trace *t)
{
    sw_heap_free(t->nodes, SW_HEAP_PROGRAMS, t->cap_nodes * sizeof *t->nodes);
    sw_heap_free(t->operands, SW_HEAP_PROGRAMS, t->cap_operands * sizeof *t->operands);
    sw_heap_free(t->values, SW_HEAP_PROGRAMS, t->cap_values * sizeof *t->values);
    sw_heap_free(t->storages, SW_HEAP_PROGRAMS, t->cap_storages * sizeof *t->storages);
    sw_heap_free(t->attrs, SW_HEAP_PROGRAMS, t->cap_attrs);
    sw_heap_free(t->strings, SW_HEAP_PROGRAMS, t->cap_strings);
    sw_heap_free(t->metrics, SW_HEAP_PROGRAMS, t->cap_metrics * sizeof *t->metrics);
    sw_heap_free(t->outputs, SW_HEAP_PROGRAMS, t->cap_outputs * sizeof *t->outputs);
    memset(t, 0, sizeof *t);
}

/* Names repeat (layers above all): look from the end, where the same layer was just used. */
uint32_t swi_trace_string(swi_trace *t, const char *text, sw_status *status)
{
    const size_t length = strlen(text) + 1;
    if (length == 1)
        return 0;
    for (uint32_t i = 1; i < t->n_strings; i += (uint32_t)strlen(t->strings + i) + 1)
        if (strcmp(t->strings + i, text) == 0)
            return i;
    void *p = t->strings;
    *status = room(&p, &t->cap_strings, t->n_strings + (uint32_t)length, 1);
    if (*status != SW_OK)
        return 0;
    t->strings = p;
    memcpy(t->strings + t->n_strings, text, length);
    t->n_strings += (uint32_t)length;
    return t->n_strings - (uint32_t)length;
}

const char *swi_string(const swi_trace *t, uint32_t index)
{
    return index < t->n_strings ? t->strings + index : "";
}

/* ---- errors stick ------------------------------------------------------------------------ */

sw_status swi_stick(sw_ctx *ctx, sw_status status)
{
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
    if (ctx->status != SW_OK || status == SW_OK)
        return;
    (void)swi_stick(ctx, sw_error_set(status, __FILE__, __LINE__, "%s", message));
}

sw_status sw_ctx_status(sw_ctx *ctx)
{
    return ctx->status;
}

sw_mode sw_ctx_mode(sw_ctx *ctx)
{
    return ctx->args->mode;
}

/* ---- values ------------------------------------------------------------------------------ */

sw_value swi_handle(const sw_ctx *ctx, uint32_t id)
{
    return id == SWI_NONE || ctx->status != SW_OK ? (sw_value){0, 0}
                                                  : (sw_value){id + 1, ctx->generation};
}

swi_value *swi_value_at(sw_ctx *ctx, sw_value v)
{
    if (ctx->status != SW_OK)
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
    if (swi_stick(ctx, room(&p, &t->cap_storages, t->n_storages + 1, sizeof *t->storages)) !=
        SW_OK)
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

static void contiguous_strides(const sw_type *type, int64_t *stride)
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
        swi_stick(ctx, room(&p, &t->cap_values, t->n_values + 1, sizeof *t->values)) != SW_OK)
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
    contiguous_strides(type, v->stride);
    return t->n_values++;
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
    if (ctx->status != SW_OK)
        return (sw_value){0, 0};
    if (i < 0 || i >= ctx->args->n_inputs) {
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "sw_input: input %d of %d", i, ctx->args->n_inputs));
        return (sw_value){0, 0};
    }
    return swi_handle(ctx, (uint32_t)i); /* swi_ctx_begin made them first */
}

/* ---- model values ------------------------------------------------------------------------ */

static int model_index(sw_ctx *ctx, const sw_model *model)
{
    for (int i = 0; i < ctx->args->n_models; i++)
        if (ctx->args->models[i] == model)
            return i;
    (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                      "model %s is used but not among the models of this run",
                                      model != NULL ? model->name : "(none)"));
    return -1;
}

/* The storage of one entry of a model; segments make it the same for every member of a shape.
 */
static uint32_t model_storage(sw_ctx *ctx, int m, sw_model *model, uint32_t entry)
{
    const swi_entry *e = &model->entries[entry];
    const uint32_t s = swi_new_storage(ctx, e->bytes, e->role);
    if (s == SWI_NONE)
        return s;
    sw_status status = SW_OK;
    const uint32_t name = swi_trace_string(&ctx->trace, e->name, &status);
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
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "model %s has no such parameter", model->name));
        return SWI_NONE;
    }
    uint32_t *known = &ctx->model_values[m][entry];
    if (*known != SWI_NONE)
        return *known;
    const swi_entry *e = &model->entries[entry];
    const sw_type type = {e->dtype, SW_PLAIN, e->shape};
    *known = swi_new_value(ctx, &type, model_storage(ctx, m, model, entry));
    return *known;
}

uint32_t swi_knob_value(sw_ctx *ctx, sw_knob knob)
{
    if (ctx->status != SW_OK)
        return SWI_NONE;
    if (knob.model == NULL || knob.index >= knob.model->n_knobs) {
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__, "no such knob"));
        return SWI_NONE;
    }
    const uint32_t block = swi_model_value(ctx, knob.model, knob.model->knob_entry);
    if (block == SWI_NONE)
        return SWI_NONE;
    const sw_type scalar = {SW_F32, SW_PLAIN, {0, {0}}};
    const uint32_t v = swi_new_value(ctx, &scalar, ctx->trace.values[block].storage);
    if (v != SWI_NONE)
        ctx->trace.values[v].offset = knob.index * sizeof(float);
    return v;
}

sw_value sw_use(sw_ctx *ctx, sw_param param)
{
    if (ctx->status == SW_OK && param.model == NULL)
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__, "no such parameter"));
    return ctx->status != SW_OK
               ? (sw_value){0, 0}
               : swi_handle(ctx, swi_model_value(ctx, param.model, param.index));
}

void sw_assign(sw_ctx *ctx, sw_param state, sw_value x)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return;
    const uint32_t target =
        swi_handle(ctx, swi_model_value(ctx, state.model, state.index)).id - 1;
    if (ctx->status != SW_OK)
        return;
    v = &ctx->trace.values[x.id - 1];
    const swi_value *t = &ctx->trace.values[target];
    const swi_entry *e = &state.model->entries[state.index];
    if (e->role != SWI_ROLE_STATE && e->role != SWI_ROLE_BUFFER) {
        (void)swi_stick(ctx,
                        sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                     "sw_assign: '%s' is a %s; only states and buffers are "
                                     "assigned",
                                     e->name, swi_role_name(e->role)));
        return;
    }
    if (v->type.dtype != t->type.dtype || v->type.shape.rank != t->type.shape.rank ||
        memcmp(v->type.shape.dim, t->type.shape.dim,
               (size_t)v->type.shape.rank * sizeof v->type.shape.dim[0]) != 0) {
        (void)swi_stick(ctx,
                        sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                     "sw_assign: '%s' has another shape or type", e->name));
        return;
    }
    const uint32_t in = swi_layout(ctx, x, SW_PLAIN).id - 1;
    if (ctx->status == SW_OK)
        (void)swi_apply(ctx, SW_OP_copy, &in, 1, NULL, &target, 0, NULL, NULL);
}

/* ---- phases and scopes ------------------------------------------------------------------- */

void sw_set_phase(sw_ctx *ctx, sw_phase phase)
{
    if ((int)phase >= 0 && phase <= SW_STEP)
        ctx->phase_override = (int)phase;
}

void sw_clear_phase(sw_ctx *ctx)
{
    ctx->phase_override = -1;
}

void sw_scope_begin(sw_ctx *ctx, const char *name)
{
    const size_t length = strlen(ctx->scope);
    const int n = snprintf(ctx->scope + length, sizeof ctx->scope - length, "%s%s",
                           length > 0 ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof ctx->scope - length) {
        ctx->scope[length] = '\0';
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "scopes nest past %d bytes", SWI_MAX_SCOPE));
    }
}

void sw_scope_end(sw_ctx *ctx)
{
    char *last = strrchr(ctx->scope, '/');
    if (last != NULL)
        *last = '\0';
    else
        ctx->scope[0] = '\0';
}

/* Data stays data through conversions: an op that only re-lays what the data phase made is
 * data. */
static sw_phase phase_of(const sw_ctx *ctx, const sw_op_desc *desc, const uint32_t *in,
                         int n_in)
{
    if (ctx->phase_override >= 0)
        return (sw_phase)ctx->phase_override;
    if (ctx->phase_now >= 0)
        return (sw_phase)ctx->phase_now;
    if (desc->has_phase)
        return desc->phase;
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

/* Scratch of a node as it will be launched. */
static size_t scratch_of(const sw_ctx *ctx, const sw_op_desc *desc, const swi_append_args *args,
                         const uint32_t *outs, sw_kernel **kernel)
{
    sw_type in[SWI_MAX_OPERANDS], out[SWI_MAX_OPERANDS];
    for (int i = 0; i < args->n_in; i++)
        in[i] = ctx->trace.values[args->in[i]].type;
    for (int i = 0; i < args->n_out; i++)
        out[i] = ctx->trace.values[outs[i]].type;
    const sw_kernel_info info = {.in = in,
                                 .out = out,
                                 .n_in = args->n_in,
                                 .n_out = args->n_out,
                                 .attrs = args->attrs,
                                 .threads = ctx->exec->threads,
                                 .isa = ctx->exec->isa,
                                 .accumulate = args->accumulate};
    const sw_grad_desc *grad = args->grad >= 0 ? &desc->grads[args->grad] : NULL;
    size_t (*bytes)(const sw_kernel_info *) =
        grad != NULL ? grad->scratch_bytes : desc->scratch_bytes;
    sw_kernel *(*select)(const sw_kernel_info *) = grad != NULL ? grad->select : desc->select;
    sw_kernel *plain = grad != NULL ? grad->kernel : desc->forward;
    *kernel = select != NULL ? select(&info) : plain;
    return bytes != NULL ? bytes(&info) : 0;
}

static swi_role role_of_new(const sw_ctx *ctx, sw_phase phase, int grad)
{
    if (ctx->in_backward || grad >= 0)
        return SWI_ROLE_GRADIENT;
    if (phase == SW_DATA)
        return SWI_ROLE_INPUT;
    return ctx->phase_now == SW_STEP ? SWI_ROLE_TEMPORARY : SWI_ROLE_ACTIVATION;
}

/* Attributes are compared byte for byte: padding and unused dims of the shapes in those of the
 * ops inside are zero. */
static void copy_attrs(uint32_t op, unsigned char *to, const void *from, size_t bytes)
{
    size_t at;
    memcpy(to, from, bytes);
    switch (op) {
    case SW_OP_reshape:
    case SW_OP_randn:
    case SW_OP_rand:
        at = 0;
        break;
    case SW_OP_sum:
    case SW_OP_expand:
    case SW_OP_slice_grad:
        at = bytes - sizeof(sw_shape);
        break;
    case SW_OP_fill:
        at = offsetof(swi_fill_attrs, type) + offsetof(sw_type, shape);
        break;
    default:
        return;
    }
    sw_shape s;
    memcpy(&s, to + at, sizeof s);
    memset(to + at + sizeof s.rank, 0, offsetof(sw_shape, dim) - sizeof s.rank);
    for (int i = s.rank; i >= 0 && i < SW_MAX_RANK; i++)
        memset(to + at + offsetof(sw_shape, dim) + (size_t)i * sizeof s.dim[0], 0,
               sizeof s.dim[0]);
    if (op == SW_OP_fill) {
        const size_t end = offsetof(swi_fill_attrs, value) + sizeof(float);
        memset(to + end, 0, bytes - end);
    }
}

sw_status swi_append(sw_ctx *ctx, const swi_append_args *args, uint32_t *outs)
{
    swi_trace *t = &ctx->trace;
    const sw_op_desc *desc = swi_op(args->op);
    if (ctx->status != SW_OK)
        return ctx->status;
    if (args->n_in + args->n_out > SWI_MAX_OPERANDS)
        return swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                           "%s: %d operands, at most %d", desc->name,
                                           args->n_in + args->n_out, SWI_MAX_OPERANDS));
    if (swi_stick(ctx, check_versions(ctx, desc, args)) != SW_OK)
        return ctx->status;
    const uint32_t attrs_bytes = (uint32_t)((desc->attrs_bytes + 15) & ~(size_t)15);
    sw_status status = SW_OK;
    const sw_phase phase = phase_of(ctx, desc, args->in, args->n_in);
    const uint32_t layer = swi_trace_string(t, ctx->scope, &status);
    if (status == SW_OK)
        status = room_nodes(t);
    if (status == SW_OK)
        status = room_operands(t, (uint32_t)(args->n_in + args->n_out));
    if (status == SW_OK)
        status = room_attrs(t, attrs_bytes);
    if (swi_stick(ctx, status) != SW_OK)
        return ctx->status;

    swi_node node = {.op = args->op,
                     .grad = args->grad,
                     .n_in = (uint32_t)args->n_in,
                     .n_out = (uint32_t)args->n_out,
                     .first = t->n_operands,
                     .attrs = t->n_attrs,
                     .accumulate = args->accumulate,
                     .scratch = SWI_NONE,
                     .phase = phase,
                     .layer = layer,
                     .is_update = args->update,
                     .release = args->release,
                     .is_backward = ctx->in_backward};
    if (attrs_bytes > 0) {
        memset(t->attrs + t->n_attrs, 0, attrs_bytes);
        if (args->attrs != NULL)
            copy_attrs(args->op, t->attrs + t->n_attrs, args->attrs, desc->attrs_bytes);
        t->n_attrs += attrs_bytes;
    }
    if (args->stream != NULL) {
        char path[SWI_MAX_SCOPE + 64];
        snprintf(path, sizeof path, "%s/%s", ctx->scope, args->stream);
        node.stream = sw_rng_stream(path);
    }
    for (int i = 0; i < args->n_out; i++) {
        const uint32_t into = args->into != NULL ? args->into[i] : SWI_NONE;
        uint32_t storage;
        if (into != SWI_NONE) {
            storage = t->values[into].storage;
            t->storages[storage].version++;
            node.writes_model |= t->storages[storage].segment >= SWI_SEG_MODEL;
        } else {
            storage = swi_new_storage(ctx, sw_type_bytes(&args->out_types[i]),
                                      role_of_new(ctx, phase, args->grad));
            if (storage == SWI_NONE)
                return ctx->status;
            t->storages[storage].layer = layer;
            t->storages[storage].phase = phase;
        }
        outs[i] = swi_new_value(ctx, &args->out_types[i], storage);
        if (outs[i] == SWI_NONE)
            return ctx->status;
        t->values[outs[i]].node = t->n_nodes;
        if (into != SWI_NONE) {
            t->values[outs[i]].offset = t->values[into].offset;
            if (t->storages[storage].segment >= SWI_SEG_MODEL)
                ctx->model_values[t->storages[storage].segment - SWI_SEG_MODEL]
                                 [t->storages[storage].entry] = outs[i];
        }
    }
    const size_t scratch = scratch_of(ctx, desc, args, outs, &node.kernel);
    if (scratch > 0) {
        node.scratch = swi_new_storage(ctx, scratch, SWI_ROLE_WORKSPACE);
        if (node.scratch == SWI_NONE)
            return ctx->status;
        t->storages[node.scratch].layer = layer;
        t->storages[node.scratch].phase = phase;
    }
    for (int i = 0; i < args->n_in; i++)
        t->operands[t->n_operands + (uint32_t)i] = args->in[i];
    memcpy(t->operands + t->n_operands + args->n_in, outs, (size_t)args->n_out * sizeof *outs);
    t->n_operands += (uint32_t)(args->n_in + args->n_out);
    t->nodes[t->n_nodes++] = node;
    return ctx->immediate ? swi_stick(ctx, swi_immediate_node(ctx, t->n_nodes - 1)) : SW_OK;
}

/* ---- layouts, copies, views -------------------------------------------------------------- */

uint32_t swi_contiguous(sw_ctx *ctx, uint32_t value)
{
    if (ctx->status != SW_OK || ctx->trace.values[value].contiguous)
        return value;
    uint32_t out = SWI_NONE;
    (void)swi_apply(ctx, SW_OP_copy, &value, 1, NULL, NULL, 0, NULL, &out);
    return out;
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
    return desc->image_in == 0 || (desc->image_in >> i & 1u) != 0;
}

/* Bring inputs into the layout that the op wants, and plain for all others. */
static sw_status lay_out_inputs(sw_ctx *ctx, const sw_op_desc *desc, uint32_t *in, int n_in,
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
    const sw_layout want = desc->layout != NULL ? desc->layout(types, n_in, attrs) : SW_PLAIN;
    for (int i = 0; i < n_in; i++) {
        const sw_layout layout = is_image(desc, i, &types[i]) ? want : SW_PLAIN;
        if (types[i].layout != layout)
            in[i] = swi_layout(ctx, swi_handle(ctx, in[i]), layout).id - 1;
        if (ctx->status != SW_OK)
            return ctx->status;
    }
    return SW_OK;
}

static void fill_buffer(const swi_trace *t, uint32_t value, sw_buffer *out)
{
    const swi_value *v = &t->values[value];
    out->ptr = NULL;
    out->type = v->type;
    memcpy(out->stride, v->stride, sizeof out->stride);
}

static bool strides_are_contiguous(const sw_type *type, const int64_t *stride)
{
    int64_t want[SW_MAX_RANK];
    contiguous_strides(type, want);
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
        if (ctx->status != SW_OK)
            return ctx->status;
        fill_buffer(t, in, &buffer);
        status = desc->view(&buffer, attrs, type, stride, &offset);
    }
    if (status == SW_OK)
        status = room_nodes(t);
    if (status == SW_OK)
        status = room_operands(t, 2);
    const uint32_t attrs_bytes = (uint32_t)((desc->attrs_bytes + 15) & ~(size_t)15);
    if (status == SW_OK)
        status = room_attrs(t, attrs_bytes);
    if (swi_stick(ctx, status) != SW_OK)
        return ctx->status;
    const uint32_t id = swi_new_value(ctx, type, t->values[in].storage);
    const uint32_t layer = swi_trace_string(t, ctx->scope, &status);
    if (swi_stick(ctx, status) != SW_OK || id == SWI_NONE)
        return ctx->status;
    swi_value *v = &t->values[id];
    v->node = t->n_nodes;
    v->version = t->values[in].version;
    v->offset = t->values[in].offset + (size_t)offset * sw_dtype_bytes(type->dtype);
    memcpy(v->stride, stride, sizeof stride);
    v->contiguous = strides_are_contiguous(type, stride);
    swi_node node = {.op = op,
                     .grad = -1,
                     .n_in = 1,
                     .n_out = 1,
                     .first = t->n_operands,
                     .attrs = t->n_attrs,
                     .scratch = SWI_NONE,
                     .layer = layer,
                     .is_view = 1,
                     .phase = phase_of(ctx, desc, &in, 1),
                     .is_backward = ctx->in_backward};
    if (attrs_bytes > 0) {
        memset(t->attrs + t->n_attrs, 0, attrs_bytes);
        if (attrs != NULL)
            copy_attrs(op, t->attrs + t->n_attrs, attrs, desc->attrs_bytes);
        t->n_attrs += attrs_bytes;
    }
    t->operands[t->n_operands++] = in;
    t->operands[t->n_operands++] = id;
    t->nodes[t->n_nodes++] = node;
    *out = id;
    return SW_OK;
}

sw_status swi_apply(sw_ctx *ctx, uint32_t op, const uint32_t *inputs, int n_in,
                    const void *attrs, const uint32_t *into, uint32_t accumulate,
                    const char *stream, uint32_t *outs)
{
    const sw_op_desc *desc = swi_op(op);
    uint32_t in[SWI_MAX_OPERANDS], made[SWI_MAX_OPERANDS];
    sw_type in_types[SWI_MAX_OPERANDS], out_types[SWI_MAX_OPERANDS];
    if (ctx->status != SW_OK)
        return ctx->status;
    const int max_in = desc->max_in > desc->n_in ? desc->max_in : desc->n_in;
    if (n_in < desc->n_in || n_in > max_in || n_in > SWI_MAX_OPERANDS - 4)
        return swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                           "%s: %d inputs given, %d to %d wanted", desc->name,
                                           n_in, desc->n_in, max_in));
    for (int i = 0; i < n_in; i++)
        in[i] = inputs[i];
    if (lay_out_inputs(ctx, desc, in, n_in, attrs) != SW_OK)
        return ctx->status;
    for (int i = 0; i < n_in; i++) {
        const bool strided =
            desc->view != NULL || (i < 32 && (desc->strided_in >> i & 1u) != 0);
        if (!strided)
            in[i] = swi_contiguous(ctx, in[i]);
        if (ctx->status != SW_OK)
            return ctx->status;
        in_types[i] = ctx->trace.values[in[i]].type;
    }
    memset(out_types, 0, sizeof out_types);
    const sw_status inferred = desc->infer(in_types, n_in, attrs, out_types);
    if (inferred != SW_OK) {
        char text[300];
        snprintf(text, sizeof text, "%s", sw_last_error());
        const bool named = strncmp(text, desc->name, strlen(desc->name)) == 0;
        return swi_stick(ctx, sw_error_set(inferred, __FILE__, __LINE__, "%s%s%s",
                                           named ? "" : desc->name, named ? "" : ": ", text));
    }
    if (desc->view != NULL)
        return append_view(ctx, op, in[0], attrs, &out_types[0], outs != NULL ? outs : made);
    const bool extras = ctx->args->mode == SW_TRAIN || !ctx->immediate;
    const swi_append_args args = {.op = op,
                                  .grad = -1,
                                  .in = in,
                                  .n_in = n_in,
                                  .attrs = attrs,
                                  .out_types = out_types,
                                  .into = into,
                                  .n_out = desc->n_out + (extras ? desc->n_extra : 0),
                                  .accumulate = accumulate,
                                  .stream = stream};
    SW_TRY(swi_append(ctx, &args, made));
    if (outs != NULL)
        memcpy(outs, made, (size_t)args.n_out * sizeof *outs);
    return SW_OK;
}

sw_value sw_op_apply_all(sw_ctx *ctx, uint32_t id, const sw_value *in, int n_in,
                         const void *attrs, sw_value *outs)
{
    uint32_t ids[SWI_MAX_OPERANDS], made[SWI_MAX_OPERANDS];
    const sw_op_desc *desc = swi_op(id);
    if (ctx->status != SW_OK)
        return (sw_value){0, 0};
    if (desc == NULL || n_in < 0 || n_in > SWI_MAX_OPERANDS - 4) {
        (void)swi_stick(
            ctx,
            sw_error_set(SW_INVALID, __FILE__, __LINE__,
                         desc == NULL ? "no op has number %u" : "op %u: too many inputs", id));
        return (sw_value){0, 0};
    }
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

/* ---- what leaves a run ------------------------------------------------------------------- */

static void leave(sw_ctx *ctx, const char *name, sw_value x, bool metric)
{
    swi_trace *t = &ctx->trace;
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return;
    if (metric && (v->type.dtype != SW_F32 || sw_type_elements(&v->type) != 1)) {
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "metric '%s' is not an f32 scalar", name));
        return;
    }
    swi_named *list = metric ? t->metrics : t->outputs;
    const uint32_t n = metric ? t->n_metrics : t->n_outputs;
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) {
            (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                              "two %s are named '%s'",
                                              metric ? "metrics" : "outputs", name));
            return;
        }
    if (!metric)
        x = swi_layout(ctx, x, SW_PLAIN);
    if (ctx->status != SW_OK)
        return;
    uint32_t id = x.id - 1;
    v = &t->values[id];
    /* What leaves owns its bytes: an input, a parameter or a piece of something larger is
     * copied. */
    const swi_storage *s = &t->storages[v->storage];
    if (s->segment != SWI_SEG_STEP || !v->contiguous || s->bytes != sw_type_bytes(&v->type)) {
        uint32_t copy = SWI_NONE;
        if (swi_apply(ctx, SW_OP_copy, &id, 1, NULL, NULL, 0, NULL, &copy) != SW_OK)
            return;
        id = copy;
    }
    void *p = metric ? t->metrics : t->outputs;
    uint32_t *cap = metric ? &t->cap_metrics : &t->cap_outputs;
    if (swi_stick(ctx, room(&p, cap, n + 1, sizeof(swi_named))) != SW_OK)
        return;
    list = p;
    memset(&list[n], 0, sizeof list[n]);
    snprintf(list[n].name, sizeof list[n].name, "%s", name);
    list[n].value = id;
    swi_storage *kept = &t->storages[t->values[id].storage];
    kept->pinned = true;
    kept->role = metric ? SWI_ROLE_METRIC : SWI_ROLE_OUTPUT;
    if (metric) {
        t->metrics = p;
        t->n_metrics++;
    } else {
        t->outputs = p;
        t->n_outputs++;
    }
}

void sw_metric(sw_ctx *ctx, const char *name, sw_value scalar)
{
    leave(ctx, name, scalar, true);
}

void sw_output(sw_ctx *ctx, const char *name, sw_value x)
{
    leave(ctx, name, x, false);
}

sw_value sw_scale(sw_ctx *ctx, sw_value x, sw_knob factor)
{
    const uint32_t knob = swi_knob_value(ctx, factor);
    const sw_value in[2] = {x, swi_handle(ctx, knob)};
    return sw_op_apply(ctx, SW_OP_scale, in, 2, NULL);
}
