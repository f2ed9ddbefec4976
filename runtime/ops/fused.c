/* Which ops run as one, channel by channel: batch norm with the function of one number after
 * it, and the gradient of the one with that of the other. */
#include "runtime/ops/fused.h"
#include "runtime/ops/ops.h"
#include <string.h>

static bool is_unary(uint32_t op)
{
    switch (op) {
#define SW_UNARY(name, ...) case SW_OP_##name:
#include "kernels/unary.def"
        return true;
    default:
        return false;
    }
}

static bool same_type(const sw_type *a, const sw_type *b)
{
    return a->dtype == b->dtype && a->layout == b->layout &&
           swi_same_shape(&a->shape, &b->shape);
}

/* Nothing but images like this one goes in and out: no codes of a few bits. */
static bool is_all(const sw_kernel_info *info, const sw_type *image)
{
    for (int i = 0; i < info->n_in; i++)
        if (!same_type(&info->in[i], image))
            return false;
    return info->n_out == 1 && same_type(&info->out[0], image) && image->dtype == SW_F32;
}

enum { NORM_THEN = 1, THEN_NORM_DX };
swi_fused_kernel *const swi_fused_kernels[] = {
    [NORM_THEN] = swi_batch_norm_then, [THEN_NORM_DX] = swi_then_batch_norm_dx};

uint8_t swi_fused(swi_fused_kind first, swi_fused_kind then, int *in)
{
    if (first.op == SW_OP_batch_norm && first.grad < 0 && then.grad < 0 && is_unary(then.op)) {
        *in = 0;
        return NORM_THEN;
    }
    if (then.op == SW_OP_batch_norm && first.grad >= 0 && swi_batch_norm_makes_dx(then.grad) &&
        is_unary(first.op)) {
        *in = 3;
        return THEN_NORM_DX;
    }
    return 0;
}

bool swi_fused_fits(uint8_t kernel, const sw_kernel_info *first, const sw_kernel_info *then)
{
    return kernel == NORM_THEN ? is_all(then, &first->in[0]) : is_all(first, &then->in[0]);
}
