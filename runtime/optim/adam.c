/* Adam and AdamW: first and second moments, and one step counter per optimizer. */
#include "runtime/optim/optim.h"
#include "runtime/ops/ops.h"

static sw_status append(sw_ctx *ctx, const sw_optimizer *o, const swi_update *u, bool decoupled)
{
    const swi_adam_attrs attrs = {.weight_decay = u->weight_decay,
                                  .beta1 = o->beta1,
                                  .beta2 = o->beta2,
                                  .epsilon = o->epsilon,
                                  .decoupled = decoupled,
                                  .has_scale = u->scale != SWI_NONE,
                                  .has_flag = u->flag != SWI_NONE};
    uint32_t in[8] = {u->param, u->grad, u->lr, u->state[0], u->state[1], u->tick};
    const uint32_t into[] = {u->param, u->state[0], u->state[1]};
    int n = 6;
    if (u->scale != SWI_NONE)
        in[n++] = u->scale;
    if (u->flag != SWI_NONE)
        in[n++] = u->flag;
    return swi_append_update(ctx, o, SW_OP_adam_update, in, n, &attrs, into, 3);
}

static sw_status adam(sw_ctx *ctx, const sw_optimizer *o, const swi_update *u)
{
    return append(ctx, o, u, false);
}

static sw_status adamw(sw_ctx *ctx, const sw_optimizer *o, const swi_update *u)
{
    return append(ctx, o, u, true);
}

const swi_optimizer_kind swi_adam = {
    .name = "adam", .lr = 0.001f, .ticks = true, .state = {"m", "v"}, .update = adam};
const swi_optimizer_kind swi_adamw = {
    .name = "adamw", .lr = 0.001f, .ticks = true, .state = {"m", "v"}, .update = adamw};
