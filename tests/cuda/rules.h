/* The rules of all optimizers, each with the op that updates by it. */
#pragma once

#include "kernels/optim.h"
#include "runtime/ops/ops.h"

static const struct {
    const char *name;
    const sw_op_desc *op;
    int32_t rule, n_state;
} rules[] = {
#define SW_RULE(rule, kind, states, operations)                                                \
    {#rule, &sw_op_##kind##_update, SW_OPTIM_##rule, states},
#define SW_OPTIMIZER(kind, states, operations) SW_RULE(kind, kind, states, operations)
#include "kernels/optimizers.def"
};
