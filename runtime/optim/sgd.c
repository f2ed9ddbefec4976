/* SGD, plain and with momentum (Nesterov's too). */
#include "runtime/optim/optim.h"
#include "runtime/ops/ops.h"

static sw_status update(sw_ctx *ctx, const sw_optimizer *o, uint32_t param, uint32_t grad,
                        const uint32_t *state, uint32_t lr, uint32_t tick, uint32_t scale,
                        float weight_decay)
{
    (void)tick;
    const swi_sgd_attrs attrs = {weight_decay, o->momentum, o->nesterov, scale != SWI_NONE};
    uint32_t in[5] = {param, grad, lr}, into[2] = {param, state[0]};
    int n = 3;
    if (state[0] != SWI_NONE)
        in[n++] = state[0];
    if (scale != SWI_NONE)
        in[n++] = scale;
    return swi_append_update(ctx, o, SW_OP_sgd_update, in, n, &attrs, into,
                             state[0] != SWI_NONE ? 2 : 1);
}

const swi_optimizer_kind swi_sgd = {.name = "sgd", .lr = 0.01f, .update = update};
const swi_optimizer_kind swi_sgd_momentum = {
    .name = "sgd", .lr = 0.01f, .state = {"momentum"}, .update = update};
