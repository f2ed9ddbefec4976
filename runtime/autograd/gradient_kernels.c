/* Which kernel makes gradients of an op's inputs. */
#include "runtime/ops/ops.h"
#include "runtime/autograd/autograd.h"

bool swi_can_skip(const sw_op_desc *desc, int g)
{
    return (desc->skips >> g & 1u) != 0;
}

/* The inputs whose gradients it makes; 0 where it cannot, with these attributes and inputs. */
static uint32_t makes_of(const swi_trace *t, const swi_node *node, const sw_grad_desc *grad)
{
    uint32_t makes = 0;
    for (int k = 0; k < grad->n_makes; k++) {
        if (grad->makes[k] >= node->n_in)
            return 0;
        makes |= 1u << grad->makes[k];
    }
    return grad->applies == NULL || grad->applies(t->attrs + node->attrs) ? makes : 0;
}

/* Bytes that would have to be kept for this kernel alone. */
static size_t bytes_more(const swi_trace *t, const swi_node *node, const sw_grad_desc *grad)
{
    size_t sum = 0;
    for (int k = 0; k < grad->n_operands; k++) {
        const uint32_t i = SWI_OPERAND_INDEX(grad->operands[k]);
        const uint32_t kind = SWI_OPERAND_KIND(grad->operands[k]);
        if (kind == SW_DOUT(0) || i >= (kind == SW_IN(0) ? node->n_in : node->n_out))
            continue;
        const uint32_t at = node->first + (kind == SW_IN(0) ? i : node->n_in + i);
        const swi_storage *x = &t->storages[t->values[t->operands[at]].storage];
        if (x->segment == SWI_SEG_STEP && !x->pinned && !x->kept)
            sum += x->bytes;
    }
    return sum;
}

/* Of the kernels that make `these` of what is needed, the one that keeps the least, and of
 * those the one that makes the fewest others; g the first. */
static int least_of(const swi_trace *t, const swi_node *node, uint32_t needed, uint32_t these)
{
    const sw_op_desc *desc = swi_op(node->op);
    size_t least = SIZE_MAX;
    int others = 0, best = -1;
    for (int g = 0; g < desc->n_grads; g++) {
        const uint32_t makes = makes_of(t, node, &desc->grads[g]);
        if ((makes & needed) != these)
            continue;
        const size_t bytes = bytes_more(t, node, &desc->grads[g]);
        /* A gradient that is left out takes no bytes, but a kernel for fewer may do less. */
        const int n = __builtin_popcount(makes & ~needed);
        const int more = n > 0 && !swi_can_skip(desc, g) ? 1 + n : n > 0;
        if (best >= 0 && (bytes > least || (bytes == least && more >= others)))
            continue;
        best = g;
        least = bytes;
        others = more;
    }
    return best;
}

int swi_select_gradient_kernel(const swi_trace *t, const swi_node *node, uint32_t needed)
{
    const sw_op_desc *desc = swi_op(node->op);
    uint32_t most = 0;
    for (int g = 0; g < desc->n_grads; g++) {
        const uint32_t makes = makes_of(t, node, &desc->grads[g]);
        const uint32_t these = makes & needed;
        if (these != 0 && (these == makes || swi_can_skip(desc, g)))
            return least_of(t, node, needed, these);
        if (__builtin_popcount(these) > __builtin_popcount(most))
            most = these;
    }
    return most != 0 ? least_of(t, node, needed, most) : -1;
}
