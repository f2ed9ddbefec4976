/* Public functions of ops that only apply them: their bodies, by the lines of ops.def. */
#include "runtime/ops/ops.h"

#define CALL_ONE(op)                                                                           \
    sw_value sw_##op(sw_ctx *ctx, sw_value x)                                                  \
    {                                                                                          \
        return sw_op_apply(ctx, SW_OP_##op, &x, 1, NULL);                                      \
    }
#define CALL_NUMBER(op)                                                                        \
    sw_value sw_##op(sw_ctx *ctx, sw_value x, float number)                                    \
    {                                                                                          \
        const swi_number_attrs attrs = {number};                                               \
        return sw_op_apply(ctx, SW_OP_##op, &x, 1, &attrs);                                    \
    }
#define CALL_TWO(op)                                                                           \
    sw_value sw_##op(sw_ctx *ctx, sw_value a, sw_value b)                                      \
    {                                                                                          \
        const sw_value in[] = {a, b};                                                          \
        return sw_op_apply(ctx, SW_OP_##op, in, 2, NULL);                                      \
    }
#define CALL_THREE(op)                                                                         \
    sw_value sw_##op(sw_ctx *ctx, sw_value a, sw_value b, sw_value c)                          \
    {                                                                                          \
        const sw_value in[] = {a, b, c};                                                       \
        return sw_op_apply(ctx, SW_OP_##op, in, 3, NULL);                                      \
    }
#define CALL_OWN(op)
#define CALL_INSIDE(op)
#define CALL_OPTIMIZER(op)

#define SW_OP(op, call, ...) CALL_##call(op)
#include "runtime/ops.def"
#undef SW_OP
