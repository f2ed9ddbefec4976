/* The steps of zeroth-order training: in {param, numbers}, out {param}, in its place. theta is
 * moved along its noise z (kernels/noise.h, direction 0; the step is the generation, the launch
 * has the seed), which is made in pieces and is nowhere afterwards. Products and sums are
 * rounded one by one, so bits depend on neither threads nor instruction set. */
#include "kernels/dispatch.h"
#include "kernels/noise_kernels.h"
#include "runtime/ops/ops.h"

static sw_status move_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    out[0] = in[0];
    return swi_want_f32("noise_move", in, n_in);
}

static sw_status noise_move_forward(const sw_launch *l)
{
    const sw_noise_at at = {l->seed, l->step, 0};
    sw_noise(l->isa)->step(swi_out(l, 0), l->attrs, &at, swi_in(l, 1), l->par);
    return SW_OK;
}

/* z: one normal number for each element; or a product and a sum for each rank and the scale,
 * and the numbers of both factors once. */
static uint64_t noise_move_operations(const sw_kernel_info *info)
{
    static const uint64_t of_move[] = {2, 5, 9};
    const swi_move_attrs *a = info->attrs;
    const sw_noise_spec *s = &a->noise;
    const uint64_t use = of_move[a->move] + (a->decays != 0 ? 2 : 0);
    if (s->kind != SW_NOISE_LOW_RANK)
        return swi_count_per_element(&info->in[0], SWI_NORMAL + use);
    const uint64_t rank = (uint64_t)s->rank, factors = (uint64_t)(s->rows + s->cols) * rank;
    return swi_count_add(swi_count_per_element(&info->in[0], 2 * rank + 1 + use),
                         swi_count_mul(factors, SWI_NORMAL));
}

SWI_APPENDED(noise_move, 2, 2, 1, .infer = move_infer, .attrs_bytes = sizeof(swi_move_attrs));
