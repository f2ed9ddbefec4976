/* In a plan that is made smaller, updates are released that did not ask for it. Each then reads
 * the finite check on its own gradient, so that it waits for no other. */
#include "runtime/ops/ops.h"
#include "runtime/plan/program_internal.h"

static swi_op_duty duty_of(const swi_node *node)
{
    return swi_op_traits_of(node->op)->duty;
}

static const swi_node *writer_of(const swi_trace *t, uint32_t value)
{
    return t->values[value].node != SWI_NONE ? &t->nodes[t->values[value].node] : NULL;
}

/* The finite check on the gradient that is value g, if it lies in the step arena. */
static uint32_t finite_check_on(const swi_trace *t, uint32_t g)
{
    if (t->storages[t->values[g].storage].segment != SWI_SEG_STEP)
        return SWI_NONE;
    for (uint32_t i = t->n_nodes; i-- > 0;)
        if (duty_of(&t->nodes[i]) == SWI_DUTY_CHECK && t->operands[t->nodes[i].first] == g)
            return t->operands[t->nodes[i].first + t->nodes[i].n_in];
    return SWI_NONE;
}

/* The finite check of the losses alone, within the one for all, `value`. */
static uint32_t losses_behind(const swi_trace *t, uint32_t value)
{
    const swi_node *node = writer_of(t, value);
    while (node != NULL && duty_of(node) == SWI_DUTY_JOIN)
        node = writer_of(t, t->operands[node->first]);
    if (node == NULL || duty_of(node) != SWI_DUTY_CHECK ||
        !((const swi_finite_attrs *)(const void *)(t->attrs + node->attrs))->has_before ||
        finite_check_on(t, t->operands[node->first]) == SWI_NONE)
        return SWI_NONE;
    return t->operands[node->first + 1];
}

void swi_pass_own_finite_checks(swi_trace *t)
{
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const swi_node *node = &t->nodes[i];
        uint32_t own = SWI_NONE;
        if (node->release != SWI_RELEASABLE || node->n_in == 0)
            continue;
        uint32_t *last = &t->operands[node->first + node->n_in - 1];
        const void *attrs = t->attrs + node->attrs;
        const swi_op_duty duty = duty_of(node);
        if ((duty == SWI_DUTY_UPDATE || duty == SWI_DUTY_UPDATE_WHOLE) &&
            ((const swi_update_attrs *)attrs)->has_finite_check)
            own = finite_check_on(t, t->operands[node->first + 1]);
        else if (duty == SWI_DUTY_TICK && ((const swi_tick_attrs *)attrs)->has_finite_check)
            own = losses_behind(t, *last);
        if (own != SWI_NONE)
            *last = own;
    }
}
