/* Which kernel runs a node on the exec's device, and the scratch that it asks for: by the op
 * and by the type of its numbers. */
#include "runtime/graph/trace.h"

/* Ids, bytes and the float64 of counters stand beside numbers and choose no kernel. */
static bool is_number(sw_dtype dtype)
{
    return dtype == SW_F32 || dtype == SW_BF16;
}

/* The type that the op computes in: that of its first operand of numbers; an op of ids or
 * counters alone is in the row of float32. */
static sw_dtype number_type(const sw_kernel_info *info)
{
    for (int i = 0; i < info->n_in + info->n_out; i++) {
        const sw_type *type = i < info->n_in ? &info->in[i] : &info->out[i - info->n_in];
        if (is_number(type->dtype))
            return type->dtype;
    }
    return SW_F32;
}

sw_status swi_select_kernel(const sw_exec *exec, uint32_t op, int grad, sw_kernel_info *info,
                            swi_selected_kernel *out)
{
    const swi_target *target = swi_target_of(exec);
    const swi_backend *backend = target->device->backend;
    const sw_dtype dtype = number_type(info);
    info->threads = target->threads;
    info->isa = target->isa;
    if (!backend->select(target, op, grad, dtype, info, out))
        SW_FAIL(SW_UNSUPPORTED, "%s%s: not supported on %s for %s",
                grad >= 0 ? "the backward of " : "", swi_op(op)->name, backend->name,
                sw_dtype_name(dtype));
    return SW_OK;
}
