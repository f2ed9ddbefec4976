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

static uint64_t noise_move_operations(const sw_kernel_info *info)
{
    static const uint64_t of_move[] = {2, 7, 11};
    const swi_move_attrs *a = info->attrs;
    const uint64_t rank = a->noise.kind == SW_NOISE_LOW_RANK ? (uint64_t)a->noise.rank : 0;
    const uint64_t z = rank == 0 ? SWI_NORMAL : rank * (SWI_NORMAL + 2) + 1;
    return swi_count_per_element(&info->in[0], z + of_move[a->move]);
}

SWI_APPENDED(noise_move, 2, 2, 1, .infer = move_infer, .attrs_bytes = sizeof(swi_move_attrs));
