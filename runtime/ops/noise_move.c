/* The steps of zeroth-order training: in {param, numbers}, out {param}, in its place. theta is
 * moved along its noise z (kernels/noise.h, direction 0; the step is the generation, the launch
 * has the seed), which is made in pieces and is nowhere afterwards. Products and sums are
 * rounded one by one, so bits depend on neither threads nor instruction set. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"

#define PART 16384 /* elements that a thread takes at a time, with their noise on its stack */

static sw_status move_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    out[0] = in[0];
    return swi_want_f32("noise_move", in, n_in);
}

/* ---- moves ------------------------------------------------------------------------------- */

static void by_noise(float *theta, const float *z, int64_t n, float a)
{
    for (int64_t i = 0; i < n; i++)
        theta[i] += a * z[i];
}

static void descend(float *theta, const float *z, int64_t n, const float *x, bool decays)
{
    const float c = x[SWI_MOVE_C], lr = x[SWI_MOVE_LR], wd = x[SWI_MOVE_WD];
    if (decays)
        for (int64_t i = 0; i < n; i++)
            theta[i] -= lr * (c * z[i] + wd * theta[i]);
    else
        for (int64_t i = 0; i < n; i++)
            theta[i] -= lr * (c * z[i]);
}

static void move_part(void *arg, int part)
{
    const sw_launch *l = arg;
    const swi_move_attrs *a = l->attrs;
    const sw_noise_at at = {l->seed, l->step, 0};
    const float *x = swi_in(l, 1);
    const float by = x[SWI_MOVE_A];
    const int64_t all = sw_type_elements(&l->out[0].type);
    const int64_t first = (int64_t)part * PART, end = first + PART < all ? first + PART : all;
    const int64_t n = end - first;
    float *theta = swi_out(l, 0) + first, z[PART];
    sw_noise(l->isa)->elements(z, first, n, &a->noise, &at, 0.0f, NULL);
    by_noise(theta, z, n, by);
    if (a->move == SWI_MOVE_ALL) {
        by_noise(theta, z, n, -2.0f * by);
        by_noise(theta, z, n, by);
    }
    if (a->move != SWI_MOVE_BY_NOISE)
        descend(theta, z, n, x, a->decays != 0);
}

static sw_status noise_move_forward(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->out[0].type);
    l->par->run(l->par, move_part, (void *)(uintptr_t)l, (int)((n + PART - 1) / PART));
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
