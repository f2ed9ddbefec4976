/* The words of ops.def as a table. */
#include "runtime/base/op_traits.h"
#include "alloc/base/assert.h"
#include "runtime/base/common.h"

static const swi_op_traits inside[] = {
#define SW_OP(op, call, work, duty, axes, noise)                                               \
    {SWI_CALL_##call, SWI_WORK_##work, SWI_DUTY_##duty, SWI_AXES_##axes, SWI_NOISE_##noise},
#include "runtime/ops.def"
#undef SW_OP
};

static const swi_op_traits outside = {SWI_CALL_OWN, SWI_WORK_LOOPS, SWI_DUTY_NONE,
                                      SWI_AXES_NONE, SWI_NOISE_NONE};

const swi_op_traits *swi_op_traits_of(uint32_t op)
{
    return op < SW_OPS_INSIDE ? &inside[op] : &outside;
}

uint32_t swi_op_with(swi_op_duty duty)
{
    uint32_t op = 0;
    while (op < SW_OPS_INSIDE && inside[op].duty != duty)
        op++;
    SW_ASSERT(op < SW_OPS_INSIDE);
    return op;
}

bool swi_op_is_private(uint32_t id)
{
    return swi_op_traits_of(id)->call == SWI_CALL_OPTIMIZER;
}
