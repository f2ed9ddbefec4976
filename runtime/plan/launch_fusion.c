/* Which ops of a program are launched together with the next one: where a device has a kernel
 * for both that makes the same bits (sw_cuda_fusion).
 *
 * Trace, order and plan stay as they are: the second op keeps its place, its name, its figures
 * and the birth of its result, and launches nothing. Immediate mode does not know the next op
 * and launches both. */
#include "runtime/plan/program_internal.h"

static const swi_node *node_at(const swi_program *p, uint32_t i)
{
    return &p->trace.nodes[p->ops[i].node];
}

/* Does the second op read what the first one makes and leave its own result in its place, so
 * that nobody else ever sees that? Extras of the second would be made from it too. */
static bool takes_over(const swi_trace *t, const swi_node *first, const swi_node *then)
{
    if (first->n_out != 1 || then->n_in != 1)
        return false;
    const uint32_t *operands = t->operands + then->first;
    const uint32_t made = t->values[t->operands[first->first + first->n_in]].storage;
    const uint32_t out = t->values[operands[1]].storage;
    for (uint32_t k = 1; k < then->n_out; k++)
        if (t->storages[t->values[operands[1 + k]].storage].birth != SWI_NONE)
            return false;
    return t->values[operands[0]].storage == made && out != made &&
           swi_root_of(t, out) == swi_root_of(t, made);
}

static const sw_cuda_fusion *fusion_of(const swi_program *p, const sw_exec *exec, uint32_t i)
{
    const swi_trace *t = &p->trace;
    const swi_node *first = node_at(p, i), *then = node_at(p, i + 1);
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    if (first->grad >= 0 || then->grad >= 0 || first->phase != then->phase ||
        !takes_over(t, first, then))
        return NULL;
    const sw_cuda_fusion *fusion =
        swi_device_fusion(swi_target_of(exec)->device, first->op, then->op);
    if (fusion == NULL)
        return NULL;
    swi_kernel_info(t, first, types, &info);
    return fusion->joins(&info, swi_target_of(exec)->compute) != 0 ? fusion : NULL;
}

void swi_program_fuse_launches(swi_program *p, const sw_exec *exec)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        p->ops[i].fusion = NULL;
    const bool fuses = swi_target_of(exec)->device->backend->fuses_launches;
    for (uint32_t i = 0; fuses && i + 1 < p->n_ops; i++)
        if (i == 0 || p->ops[i - 1].fusion == NULL)
            p->ops[i].fusion = fusion_of(p, exec, i);
}
