/* SGD, plain and with momentum (Nesterov's too). */
#include "runtime/optim/optim.h"
#include "runtime/ops/ops.h"

static sw_status update(sw_ctx *ctx, const sw_optimizer *o, const swi_update *u)
{
    const swi_sgd_attrs attrs = {.weight_decay = u->weight_decay,
                                 .momentum = o->momentum,
                                 .nesterov = o->nesterov,
                                 .has_scale = u->scale != SWI_NONE,
                                 .has_flag = u->flag != SWI_NONE};
    uint32_t in[6] = {u->param, u->grad, u->lr};
    const uint32_t into[] = {u->param, u->state[0]};
    int n = 3;
    if (u->state[0] != SWI_NONE)
        in[n++] = u->state[0];
    if (u->scale != SWI_NONE)
        in[n++] = u->scale;
    if (u->flag != SWI_NONE)
        in[n++] = u->flag;
    return swi_append_update(ctx, o, SW_OP_sgd_update, in, n, &attrs, into,
                             u->state[0] != SWI_NONE ? 2 : 1);
}

const swi_optimizer_kind swi_sgd = {.name = "sgd", .lr = 0.01f, .update = update};
const swi_optimizer_kind swi_sgd_momentum = {
    .name = "sgd", .lr = 0.01f, .state = {"momentum"}, .update = update};
