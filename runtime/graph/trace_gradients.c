/* Gradients while a trace is made: rules of ops and sw_backward add to them. */
#include "runtime/base/common.h"
#include "runtime/graph/trace.h"

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
