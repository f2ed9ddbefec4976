/* sw_backward: walk the nodes backwards and append gradient ops.
 *
 * Parameters of the named optimizers need gradients; a value needs one when such a parameter
 * flows into it. Contributions to one gradient come in reverse program order: the first writes,
 * later ones add in place. A gradient that is only a view or another name of other bytes (an
 * add passes dy through) is copied before anything is added to it. */
#include "runtime/autograd/autograd.h"
#include "runtime/ops/ops.h"
#include <stdio.h>
#include <string.h>

/* Which kernel makes gradients of an op's inputs. */

static bool can_skip(const sw_op_desc *desc, int g)
{
    return (desc->skips >> g & 1u) != 0;
}

/* The inputs whose gradients it makes; 0 where it cannot, with these attributes and inputs. */
static uint32_t makes_of(const swi_trace *t, const swi_node *node, const sw_grad_desc *grad)
{
    uint32_t makes = 0;
    for (int k = 0; k < grad->n_makes; k++) {
        if (grad->makes[k] >= node->n_in)
            return 0;
        makes |= 1u << grad->makes[k];
    }
    return grad->applies == NULL || grad->applies(t->attrs + node->attrs) ? makes : 0;
}

/* Bytes that would have to be kept for this kernel alone. */
static size_t bytes_more(const swi_trace *t, const swi_node *node, const sw_grad_desc *grad)
{
    size_t sum = 0;
    for (int k = 0; k < grad->n_operands; k++) {
        const uint32_t i = SWI_OPERAND_INDEX(grad->operands[k]);
        const uint32_t kind = SWI_OPERAND_KIND(grad->operands[k]);
        if (kind == SW_DOUT(0) || i >= (kind == SW_IN(0) ? node->n_in : node->n_out))
            continue;
        const uint32_t at = node->first + (kind == SW_IN(0) ? i : node->n_in + i);
        const swi_storage *x = &t->storages[t->values[t->operands[at]].storage];
        if (x->segment == SWI_SEG_STEP && !x->pinned && !x->kept)
            sum += x->bytes;
    }
    return sum;
}

/* Of the kernels that make `these` of what is needed, the one that keeps the least, and of
 * those the one that makes the fewest others; g the first. */
static int least_of(const swi_trace *t, const swi_node *node, uint32_t needed, uint32_t these)
{
    const sw_op_desc *desc = swi_op(node->op);
    size_t least = SIZE_MAX;
    int others = 0, best = -1;
    for (int g = 0; g < desc->n_grads; g++) {
        const uint32_t makes = makes_of(t, node, &desc->grads[g]);
        if ((makes & needed) != these)
            continue;
        const size_t bytes = bytes_more(t, node, &desc->grads[g]);
        /* A gradient that is left out takes no bytes, but a kernel for fewer may do less. */
        const int n = __builtin_popcount(makes & ~needed);
        const int more = n > 0 && !can_skip(desc, g) ? 1 + n : n > 0;
        if (best >= 0 && (bytes > least || (bytes == least && more >= others)))
            continue;
        best = g;
        least = bytes;
        others = more;
    }
    return best;
}

/* The kernel that makes gradients of the node's inputs next, of which those in the mask
 * `needed` are still to be made; -1: none makes any of them. Does gradient kernel g of the op
 * take NULL for gradients that are not needed? */
static int select_gradient_kernel(const swi_trace *t, const swi_node *node, uint32_t needed)
{
    const sw_op_desc *desc = swi_op(node->op);
    uint32_t most = 0;
    for (int g = 0; g < desc->n_grads; g++) {
        const uint32_t makes = makes_of(t, node, &desc->grads[g]);
        const uint32_t these = makes & needed;
        if (these != 0 && (these == makes || can_skip(desc, g)))
            return least_of(t, node, needed, these);
        if (__builtin_popcount(these) > __builtin_popcount(most))
            most = these;
    }
    return most != 0 ? least_of(t, node, needed, most) : -1;
}

/* ---- backward ---------------------------------------------------------------------------- */

typedef struct {
    sw_ctx *ctx;
    uint32_t n_nodes;       /* of the forward part */
    uint32_t first_storage; /* storages from here on were made by this backward */
    uint32_t finite_check;  /* on the loss; SWI_NONE: no one asks */
} session;

static swi_value *value_of(sw_ctx *ctx, uint32_t id)
{
    return &ctx->trace.values[id];
}

static uint32_t *grad_of(sw_ctx *ctx, uint32_t id)
{
    return &ctx->value_grads[id];
}

/* Gradients are kept for the values that exist when the walk begins. */
static sw_status reserve_grads(sw_ctx *ctx)
{
    const uint32_t n = ctx->trace.n_values + 1;
    SW_TRY(sw_heap_reserve(&ctx->value_grads, SW_HEAP_PROGRAMS, &ctx->cap_value_grads, n));
    memset(ctx->value_grads, 0xff, n * sizeof(uint32_t));
    ctx->n_value_grads = n;
    return SW_OK;
}

static bool is_wanted_parameter(const sw_ctx *ctx, const swi_storage *s,
                                sw_optimizer *const *optimizers, int n)
{
    if (s->segment < SWI_SEG_MODEL || s->role != SWI_ROLE_PARAMETER)
        return false;
    const sw_model *model = ctx->args->models[s->segment - SWI_SEG_MODEL];
    const swi_entry *e = &model->entries[s->entry];
    if (e->frozen || e->optimizer == SWI_NONE)
        return false;
    for (int i = 0; i < n; i++)
        if (optimizers[i] == model->optimizers[e->optimizer])
            return true;
    return false;
}

/* Every trainable parameter that the program uses must have somebody who updates it. */
static sw_status check_owners(const sw_ctx *ctx)
{
    for (uint32_t i = 0; i < ctx->trace.n_storages; i++) {
        const swi_storage *s = &ctx->trace.storages[i];
        if (s->segment < SWI_SEG_MODEL || s->role != SWI_ROLE_PARAMETER)
            continue;
        const sw_model *model = ctx->args->models[s->segment - SWI_SEG_MODEL];
        const swi_entry *e = &model->entries[s->entry];
        if (!e->frozen && e->optimizer == SWI_NONE)
            SW_FAIL(SW_INVALID,
                    "parameter '%s' of model %s is neither owned by an optimizer nor frozen: "
                    "name it in an optimizer, or freeze it",
                    e->name, model->name);
    }
    return SW_OK;
}

static void mark_needed(session *s, sw_optimizer *const *optimizers, int n)
{
    sw_ctx *ctx = s->ctx;
    swi_trace *t = &ctx->trace;
    for (uint32_t v = 0; v < t->n_values; v++)
        t->values[v].needs_grad =
            t->values[v].node == SWI_NONE && t->values[v].type.dtype == SW_F32 &&
            is_wanted_parameter(ctx, &t->storages[t->values[v].storage], optimizers, n);
    for (uint32_t k = 0; k < s->n_nodes; k++) {
        const swi_node *node = &t->nodes[k];
        const sw_op_desc *desc = swi_op(node->op);
        const uint32_t *operands = t->operands + node->first;
        if (node->is_update) {
            /* An updated parameter needs a gradient at its new version too. */
            for (uint32_t i = 0; i < node->n_out; i++) {
                swi_value *v = value_of(ctx, operands[node->n_in + i]);
                v->needs_grad =
                    is_wanted_parameter(ctx, &t->storages[v->storage], optimizers, n);
            }
            continue;
        }
        if (desc->no_gradient || node->is_backward)
            continue;
        bool needed = false;
        for (uint32_t i = 0; i < node->n_in; i++)
            needed |= t->values[operands[i]].needs_grad != 0;
        for (uint32_t i = 0; i < node->n_out; i++)
            t->values[operands[node->n_in + i]].needs_grad =
                needed && swi_is_number(t->values[operands[node->n_in + i]].type.dtype);
    }
}

/* The gradient `g` came for value `v`: keep it, or add it to what is there. */
static sw_status contribute(session *s, uint32_t v, uint32_t g)
{
    sw_ctx *ctx = s->ctx;
    const swi_value *value = value_of(ctx, v);
    sw_value handle = swi_layout(ctx, swi_handle(ctx, g), value->type.layout);
    SW_TRY(ctx->status);
    g = handle.id - 1;
    uint32_t *slot = grad_of(ctx, v);
    if (*slot == SWI_NONE) {
        *slot = g;
        return SW_OK;
    }
    uint32_t sum = SWI_NONE;
    SW_TRY(swi_own_gradient(ctx, slot, s->first_storage));
    SW_TRY(swi_apply(ctx, SW_OP_copy, &g, 1, NULL, slot, 1u, NULL, &sum));
    *slot = sum;
    return SW_OK;
}

/* A rule may set anything: what it gives for input i is added to others and read by updates. */
static sw_status check_din(sw_ctx *ctx, const sw_op_desc *desc, int i, uint32_t input,
                           sw_value din)
{
    const swi_value *given = swi_value_at(ctx, din);
    if (given == NULL)
        return ctx->status;
    const sw_type *type = &value_of(ctx, input)->type;
    if (given->type.dtype != type->dtype || !swi_same_shape(&given->type.shape, &type->shape))
        SW_FAIL(SW_INVALID, "%s: rule: din[%d] is %s %s, the input is %s %s", desc->name, i,
                sw_dtype_name(given->type.dtype), SWI_SHAPE(&given->type.shape),
                sw_dtype_name(type->dtype), SWI_SHAPE(&type->shape));
    return SW_OK;
}

static sw_status by_rule(session *s, const swi_node *node, const sw_op_desc *desc)
{
    sw_ctx *ctx = s->ctx;
    sw_value in[SWI_MAX_OPERANDS], out[SWI_MAX_OPERANDS], dout[SWI_MAX_OPERANDS];
    sw_value din[SWI_MAX_OPERANDS];
    int wanted[SWI_MAX_OPERANDS];
    uint32_t ids[SWI_MAX_OPERANDS];
    _Alignas(16) unsigned char attrs[512];
    const int n_in = (int)node->n_in, n_out = (int)node->n_out;
    if (desc->attrs_bytes > sizeof attrs)
        SW_FAIL(SW_INVALID,
                "%s: attributes must be at most %zu bytes with a gradient rule (got %zu)",
                desc->name, sizeof attrs, desc->attrs_bytes);
    /* Copies: the rule appends, and arrays may move. */
    memcpy(attrs, ctx->trace.attrs + node->attrs, desc->attrs_bytes);
    memcpy(ids, ctx->trace.operands + node->first, (size_t)(n_in + n_out) * sizeof *ids);
    for (int i = 0; i < n_in; i++) {
        in[i] = swi_handle(ctx, ids[i]);
        wanted[i] = ctx->trace.values[ids[i]].needs_grad;
        din[i] = (sw_value){0, 0};
    }
    for (int i = 0; i < n_out; i++) {
        out[i] = swi_handle(ctx, ids[n_in + i]);
        dout[i] = swi_handle(ctx, *grad_of(ctx, ids[n_in + i]));
    }
    const sw_rule rule = SW_INIT(.in = in, .out = out, .dout = dout, .wanted = wanted,
                                 .din = din, .attrs = attrs, .n_in = n_in);
    desc->rule(ctx, &rule);
    for (int i = 0; i < n_in && ctx->status == SW_OK; i++) {
        if (!wanted[i] || din[i].id == 0)
            continue;
        din[i] = swi_cast(ctx, din[i], value_of(ctx, ids[i])->type.dtype);
        SW_TRY(check_din(ctx, desc, i, ids[i], din[i]));
        SW_TRY(contribute(s, ids[i], din[i].id - 1));
    }
    return ctx->status;
}

/* Operands of a gradient kernel as value ids; false when an output's gradient is missing. */
static sw_status gather(session *s, const swi_node *node, const sw_grad_desc *grad,
                        uint32_t *operands, int *n)
{
    sw_ctx *ctx = s->ctx;
    *n = 0;
    for (int k = 0; k < grad->n_operands; k++) {
        const uint32_t i = SWI_OPERAND_INDEX(grad->operands[k]);
        const uint32_t kind = SWI_OPERAND_KIND(grad->operands[k]);
        const uint32_t *ids = ctx->trace.operands + node->first;
        uint32_t id;
        if (kind == SW_IN(0)) {
            if (i >= node->n_in)
                continue; /* an optional input that this op does not have */
            id = ids[i];
        } else {
            if (i >= node->n_out)
                SW_FAIL(SW_INVALID, "%s: its gradient names output %u of %u",
                        swi_op(node->op)->name, i, node->n_out);
            id = ids[node->n_in + i];
        }
        if (kind == SW_DOUT(0) && *grad_of(ctx, id) != SWI_NONE) {
            id = swi_contiguous(ctx, *grad_of(ctx, id));
        } else if (kind == SW_DOUT(0)) {
            swi_fill_attrs zero;
            swi_set_fill(&zero, &ctx->trace.values[id].type, 0.0f);
            SW_TRY(swi_apply(ctx, SW_OP_fill, NULL, 0, &zero, NULL, 0, NULL, &id));
        }
        SW_TRY(ctx->status);
        operands[(*n)++] = id;
    }
    return SW_OK;
}

/* A linear weight's gradient is a product: where its factors are smaller they are looked at
 * instead, since it is finite where their largest elements are small enough. */
static sw_status look_at_factors(session *s, const swi_node *node, const sw_grad_desc *grad,
                                 const uint32_t *factors, uint32_t target)
{
    const swi_trace *t = &s->ctx->trace;
    const swi_storage *st = &t->storages[t->values[target].storage];
    if (s->finite_check == SWI_NONE || swi_op_traits_of(node->op)->duty != SWI_DUTY_FACTORS ||
        grad->n_makes != 1 || grad->makes[0] != 1 || st->role != SWI_ROLE_PARAMETER ||
        t->values[target].node != SWI_NONE)
        return SW_OK;
    const sw_model *model = s->ctx->args->models[st->segment - SWI_SEG_MODEL];
    for (int i = 0; i < 2; i++)
        if (!t->values[factors[i]].contiguous || t->values[factors[i]].type.dtype != SW_F32)
            return SW_OK;
    if (!swi_looks(model->optimizers[model->entries[st->entry].optimizer]) ||
        swi_target_of(s->ctx->exec)->shards > 1) /* the sum over shards is looked at */
        return SW_OK;
    const int64_t out = t->values[target].type.shape.dim[0];
    return swi_append_bound(s->ctx, factors,
                            sw_type_elements(&t->values[factors[1]].type) / out,
                            sw_type_elements(&t->values[target].type) / 2);
}

/* Kernel g makes what it can of the requested gradients; others are left out, or made and not
 * used. */
static sw_status by_kernel(session *s, uint32_t node_index, const sw_op_desc *desc, int g,
                           uint32_t wanted)
{
    sw_ctx *ctx = s->ctx;
    const sw_grad_desc *grad = &desc->grads[g];
    const swi_node node = ctx->trace.nodes[node_index];
    uint32_t operands[SWI_MAX_OPERANDS], targets[SWI_MAX_MAKES], into[SWI_MAX_MAKES];
    uint32_t outs[SWI_MAX_MAKES];
    bool again[SWI_MAX_MAKES] = {false}; /* its target has a gradient of this kernel already */
    bool used[SWI_MAX_MAKES];
    sw_type types[SWI_MAX_MAKES];
    uint32_t accumulate = 0, unused = 0;
    int n;
    _Alignas(16) unsigned char attrs[512];
    if (desc->attrs_bytes > sizeof attrs)
        SW_FAIL(SW_INVALID, "%s: attributes must be at most %zu bytes with gradients (got %zu)",
                desc->name, sizeof attrs, desc->attrs_bytes);
    memcpy(attrs, ctx->trace.attrs + node.attrs, desc->attrs_bytes);
    SW_TRY(gather(s, &node, grad, operands, &n));
    for (int k = 0; k < grad->n_makes; k++) {
        targets[k] = ctx->trace.operands[node.first + grad->makes[k]];
        types[k] = ctx->trace.values[targets[k]].type;
        if (types[k].dtype != SW_BF16)
            types[k].dtype = SW_F32;
        into[k] = SWI_NONE;
        used[k] = (wanted >> grad->makes[k] & 1u) != 0;
        if (!used[k]) {
            unused |= 1u << k;
            continue;
        }
        for (int j = 0; j < k; j++)
            again[k] |= used[j] && targets[j] == targets[k];
        uint32_t *slot = grad_of(ctx, targets[k]);
        if (!again[k] && *slot != SWI_NONE) {
            SW_TRY(swi_own_gradient(ctx, slot, s->first_storage));
            into[k] = *slot;
            accumulate |= 1u << k;
        }
    }
    const swi_append_args args =
        SW_INIT(.op = node.op, .grad = g, .in = operands, .n_in = n, .attrs = attrs,
                .out_types = types, .into = into, .n_out = grad->n_makes,
                .accumulate = accumulate, .null_out = can_skip(desc, g) ? unused : 0);
    if (accumulate == 0 && n == 2)
        SW_TRY(look_at_factors(s, &node, grad, operands, targets[0]));
    SW_TRY(swi_append(ctx, &args, outs));
    for (int k = 0; k < grad->n_makes; k++)
        if (used[k] && !again[k])
            *grad_of(ctx, targets[k]) = outs[k];
    for (int k = 0; k < grad->n_makes; k++)
        if (used[k] && again[k])
            SW_TRY(contribute(s, targets[k], outs[k]));
    return SW_OK;
}

static sw_status no_gradient(const swi_trace *t, const swi_node *node, const sw_op_desc *desc,
                             uint32_t input)
{
    const swi_storage *x = &t->storages[t->values[t->operands[node->first + input]].storage];
    const char *name = swi_string(t, x->name);
    bool some = false;
    for (int g = 0; g < desc->n_grads; g++)
        for (int k = 0; k < desc->grads[g].n_makes; k++)
            some |= desc->grads[g].makes[k] == input;
    SW_FAIL(SW_UNSUPPORTED, "%s has no gradient for its input %u%s%s%s: %s", desc->name, input,
            name[0] != '\0' ? " ('" : "", name, name[0] != '\0' ? "')" : "",
            some ? "no kernel that makes it applies to these attributes and inputs"
                 : "no kernel of the op makes it");
}

static sw_status by_kernels(session *s, uint32_t node_index, const sw_op_desc *desc)
{
    sw_ctx *ctx = s->ctx;
    const swi_node node = ctx->trace.nodes[node_index];
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < node.n_in && i < 32; i++)
        if (ctx->trace.values[ctx->trace.operands[node.first + i]].needs_grad)
            wanted |= 1u << i;
    while (wanted != 0) {
        const int g = select_gradient_kernel(&ctx->trace, &node, wanted);
        if (g < 0)
            return no_gradient(&ctx->trace, &node, desc, (uint32_t)__builtin_ctz(wanted));
        SW_TRY(by_kernel(s, node_index, desc, g, wanted));
        for (int k = 0; k < desc->grads[g].n_makes; k++)
            wanted &= ~(1u << desc->grads[g].makes[k]);
    }
    return SW_OK;
}

static sw_status walk(session *s)
{
    sw_ctx *ctx = s->ctx;
    char scope[SWI_MAX_SCOPE];
    memcpy(scope, ctx->scope, sizeof scope);
    for (uint32_t k = s->n_nodes; k-- > 0 && ctx->status == SW_OK;) {
        const swi_node node = ctx->trace.nodes[k];
        const sw_op_desc *desc = swi_op(node.op);
        if (node.is_update || node.is_backward || desc->no_gradient)
            continue;
        bool reached = false, needed = false;
        for (uint32_t i = 0; i < node.n_out; i++)
            reached |=
                *grad_of(ctx, ctx->trace.operands[node.first + node.n_in + i]) != SWI_NONE;
        for (uint32_t i = 0; i < node.n_in; i++)
            needed |= ctx->trace.values[ctx->trace.operands[node.first + i]].needs_grad != 0;
        if (!reached || !needed)
            continue;
        /* A gradient op belongs to the layer of its forward op. */
        snprintf(ctx->scope, sizeof ctx->scope, "%s", swi_string(&ctx->trace, node.layer));
        ctx->gradient_of = k + 1;
        if (swi_stick(ctx, desc->rule != NULL ? by_rule(s, &node, desc)
                                              : by_kernels(s, k, desc)) != SW_OK)
            break;
        /* No one reads the gradients of this op's outputs any more: their bytes may be added
         * to. */
        for (uint32_t i = 0; i < node.n_out; i++)
            *grad_of(ctx, ctx->trace.operands[node.first + node.n_in + i]) = SWI_NONE;
    }
    memcpy(ctx->scope, scope, sizeof scope);
    ctx->gradient_of = 0;
    return ctx->status;
}

/* A gradient that comes from one more loss. Not an op of backward: nothing is kept for it. */
static sw_status add_finite_check(sw_ctx *ctx, uint32_t *finite_check, uint32_t more)
{
    const uint32_t both[] = {*finite_check, more};
    if (both[0] == SWI_NONE || both[1] == SWI_NONE) {
        *finite_check = both[0] == SWI_NONE ? both[1] : both[0];
        return SW_OK;
    }
    const bool in_backward = ctx->in_backward;
    ctx->in_backward = false;
    const sw_status status = swi_append_any(ctx, both, 2, SWI_STAYS, finite_check);
    ctx->in_backward = in_backward;
    return status;
}

swi_param_grad *swi_gradient_noted(sw_ctx *ctx, uint32_t model, uint32_t entry)
{
    const uint32_t at = ctx->grad_at[model - SWI_SEG_MODEL][entry];
    swi_param_grad *g = at < ctx->n_grads ? &ctx->grads[at] : NULL;
    return g != NULL && g->model == model && g->entry == entry ? g : NULL;
}

sw_status swi_note_gradient(sw_ctx *ctx, uint32_t model, uint32_t entry, uint32_t gradient,
                            uint32_t finite_check, uint32_t name)
{
    swi_param_grad *known = swi_gradient_noted(ctx, model, entry);
    if (known != NULL) {
        SW_TRY(swi_own_gradient(ctx, &known->value, 0));
        uint32_t sum = SWI_NONE;
        SW_TRY(swi_apply(ctx, SW_OP_copy, &gradient, 1, NULL, &known->value, 1u, NULL, &sum));
        known->value = sum;
        known->hooked = false;
        return add_finite_check(ctx, &known->finite_check, finite_check);
    }
    SW_TRY(sw_heap_reserve(&ctx->grads, SW_HEAP_PROGRAMS, &ctx->cap_grads, ctx->n_grads + 1));
    ctx->grad_at[model - SWI_SEG_MODEL][entry] = ctx->n_grads;
    ctx->grads[ctx->n_grads++] =
        (swi_param_grad)SW_INIT(.model = model, .entry = entry, .value = gradient,
                                .finite_check = finite_check);
    swi_storage *storage = &ctx->trace.storages[ctx->trace.values[gradient].storage];
    if (storage->name == 0)
        storage->name = name;
    return SW_OK;
}

/* Note the gradient of each requested parameter for accumulate, clip and update. */
static sw_status collect(session *s, sw_optimizer *const *optimizers, int n, uint32_t n_before)
{
    sw_ctx *ctx = s->ctx;
    for (uint32_t v = 0; v < n_before; v++) {
        const uint32_t g = *grad_of(ctx, v);
        const swi_storage *st = &ctx->trace.storages[ctx->trace.values[v].storage];
        if (g == SWI_NONE || !ctx->trace.values[v].needs_grad ||
            !is_wanted_parameter(ctx, st, optimizers, n))
            continue;
        const swi_node *node = ctx->trace.values[v].node != SWI_NONE
                                   ? &ctx->trace.nodes[ctx->trace.values[v].node]
                                   : NULL;
        if (node != NULL && !node->is_update)
            continue; /* a view of a parameter: its gradient went on to the parameter */
        const uint32_t model = st->segment, entry = st->entry, name = st->name;
        const uint32_t whole = swi_contiguous(ctx, g); /* may move values and storages */
        if (ctx->status != SW_OK)
            return ctx->status;
        SW_TRY(swi_note_gradient(ctx, model, entry, whole, s->finite_check, name));
    }
    return ctx->status;
}

/* A finite check on the loss, before what depends on it. */
static sw_status look_at_loss(session *s, sw_value loss, sw_optimizer *const *optimizers, int n)
{
    sw_ctx *ctx = s->ctx;
    bool asked = false;
    for (int i = 0; i < n; i++)
        asked |= swi_looks(optimizers[i]);
    if (!asked)
        return SW_OK;
    ctx->phase_now = SW_LOSS;
    ctx->in_backward = false;
    SW_TRY(swi_append_finite(ctx, loss.id - 1, SWI_LOSS, SWI_NONE, SWI_NONE, SWI_STAYS,
                             &s->finite_check));
    ctx->phase_now = SW_BACKWARD;
    ctx->in_backward = true;
    swi_set_role(ctx, ctx->trace.values[s->finite_check].storage, SWI_ROLE_TEMPORARY);
    s->n_nodes = ctx->trace.n_nodes;
    s->first_storage = ctx->first_gradient = ctx->trace.n_storages;
    return SW_OK;
}

static sw_status backward(session *s, sw_value loss, sw_optimizer *const *optimizers, int n)
{
    sw_ctx *ctx = s->ctx;
    const swi_value *v = swi_value_at(ctx, loss);
    if (v == NULL)
        return ctx->status;
    if (v->type.dtype != SW_F32 || sw_type_elements(&v->type) != 1)
        SW_FAIL(SW_INVALID, "sw_backward: the loss must be an f32 scalar");
    if (n < 1 || optimizers == NULL)
        SW_FAIL(SW_INVALID, "sw_backward: n_owners must be at least 1: name an optimizer");
    for (int i = 0; i < n; i++)
        SW_TRY(sw_handle_check(optimizers[i], SW_HANDLE_OPTIMIZER, "sw_backward"));
    SW_TRY(check_owners(ctx));
    mark_needed(s, optimizers, n);
    if (!value_of(ctx, loss.id - 1)->needs_grad)
        SW_FAIL(SW_INVALID,
                "sw_backward: the loss depends on no parameter of these optimizers");
    SW_TRY(look_at_loss(s, loss, optimizers, n));
    const uint32_t n_before = ctx->trace.n_values;
    SW_TRY(reserve_grads(ctx));
    swi_fill_attrs one;
    swi_set_fill(&one, &value_of(ctx, loss.id - 1)->type, 1.0f);
    SW_TRY(swi_apply(ctx, SW_OP_fill, NULL, 0, &one, NULL, 0, NULL, grad_of(ctx, loss.id - 1)));
    SW_TRY(walk(s));
    return collect(s, optimizers, n, n_before);
}

void sw_backward(sw_ctx *ctx, sw_value loss, sw_optimizer *const *optimizers, int n)
{
    if (!swi_ctx_works(ctx) || ctx->noise != NULL)
        return;
    session s = {ctx, ctx->trace.n_nodes, ctx->trace.n_storages, SWI_NONE};
    const int phase = ctx->phase_now;
    ctx->first_gradient = s.first_storage;
    ctx->phase_now = SW_BACKWARD;
    ctx->in_backward = true;
    (void)swi_stick(ctx, backward(&s, loss, optimizers, n));
    ctx->phase_now = phase;
    ctx->in_backward = false;
}
