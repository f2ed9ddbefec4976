/* Which kernel runs a node on the exec's device, and the scratch that it asks for. */
#include "runtime/graph/trace.h"

static sw_status on_device(const sw_exec *exec, uint32_t op, int grad,
                           const sw_kernel_info *info, swi_selected_kernel *out)
{
    const sw_cuda_entry *entry = swi_device_entry(swi_target_of(exec)->device, op, grad);
    if (entry == NULL)
        SW_FAIL(SW_UNSUPPORTED, "%s%s: not supported on cuda",
                grad >= 0 ? "the backward of " : "", swi_op(op)->name);
    out->kernel = NULL;
    out->on_device = entry->kernel;
    out->scratch_bytes = entry->scratch_bytes != NULL
                             ? entry->scratch_bytes(info, swi_target_of(exec)->compute)
                             : 0;
    return SW_OK;
}

sw_status swi_select_kernel(const sw_exec *exec, uint32_t op, int grad, sw_kernel_info *info,
                            swi_selected_kernel *out)
{
    const sw_op_desc *desc = swi_op(op);
    const sw_grad_desc *g = grad >= 0 ? &desc->grads[grad] : NULL;
    info->threads = swi_target_of(exec)->threads;
    info->isa = swi_target_of(exec)->isa;
    if (swi_target_of(exec)->device != NULL)
        return on_device(exec, op, grad, info, out);
    size_t (*bytes)(const sw_kernel_info *) =
        g != NULL ? g->scratch_bytes : desc->scratch_bytes;
    sw_kernel *(*select)(const sw_kernel_info *) = g != NULL ? g->select : desc->select;
    sw_kernel *plain = g != NULL ? g->kernel : desc->forward;
    out->kernel = select != NULL ? select(info) : plain;
    out->on_device = NULL;
    out->scratch_bytes = bytes != NULL ? bytes(info) : 0;
    return SW_OK;
}
