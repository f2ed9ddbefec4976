/* Adam and AdamW: first and second moments, and one step counter per optimizer. */
#include "runtime/optim/optim.h"
#include "runtime/ops/ops.h"

static sw_status append(sw_ctx *ctx, const sw_optimizer *o, uint32_t param, uint32_t grad,
                        const uint32_t *state, uint32_t lr, uint32_t tick, uint32_t scale,
                        float weight_decay, bool decoupled)
{
    const swi_adam_attrs attrs = {weight_decay, o->beta1,  o->beta2,
                                  o->epsilon,   decoupled, scale != SWI_NONE};
    const uint32_t in[] = {param, grad, lr, state[0], state[1], tick, scale};
    const uint32_t into[] = {param, state[0], state[1]};
    return swi_append_update(ctx, o, SW_OP_adam_update, in, scale != SWI_NONE ? 7 : 6, &attrs,
                             into, 3);
}

static sw_status adam(sw_ctx *ctx, const sw_optimizer *o, uint32_t param, uint32_t grad,
                      const uint32_t *state, uint32_t lr, uint32_t tick, uint32_t scale,
                      float weight_decay)
{
    return append(ctx, o, param, grad, state, lr, tick, scale, weight_decay, false);
}

static sw_status adamw(sw_ctx *ctx, const sw_optimizer *o, uint32_t param, uint32_t grad,
                       const uint32_t *state, uint32_t lr, uint32_t tick, uint32_t scale,
                       float weight_decay)
{
    return append(ctx, o, param, grad, state, lr, tick, scale, weight_decay, true);
}

const swi_optimizer_kind swi_adam = {
    .name = "adam", .lr = 0.001f, .ticks = true, .state = {"m", "v"}, .update = adam};
const swi_optimizer_kind swi_adamw = {
    .name = "adamw", .lr = 0.001f, .ticks = true, .state = {"m", "v"}, .update = adamw};
