/* Images times one number for each image and channel, and the gradients. A plane is a part of
 * its own. Sums over its positions run in four streams (blocks) or along vectors (plain). */
#include "kernels/cpu/isa/dense_internal.h"

typedef struct {
    const sw_scale_args *a;
    int64_t size; /* floats of a plane */
} scale_job;

/* The factors of a plane's lanes from `lane` on; of a plain plane the one it has. */
SW_VEC_FN vf factors(const sw_scale_args *a, int part, int lane)
{
    return a->plain ? vset1(a->s[part]) : vload(a->s + (int64_t)part * SWI_LANES + lane);
}

/* out = in * s; positions of one lane group, `step` floats apart. */
SW_VEC_FN void scale(float *out, const float *in, vf s, int64_t n, int64_t step, bool add)
{
    int64_t i = 0;
    for (; i + VW <= n; i += step) {
        const vf v = vmul(vload(in + i), s);
        vstore(out + i, add ? vadd(vload(out + i), v) : v);
    }
    if (i >= n || step != VW)
        return;
    const vf v = vmul(vload_n(in + i, (int)(n - i)), s);
    vstore_n(out + i, add ? vadd(vload_n(out + i, (int)(n - i)), v) : v, (int)(n - i));
}

static void forward_part(void *arg, int part)
{
    const scale_job *j = arg;
    const sw_scale_args *a = j->a;
    const int64_t at = part * j->size, step = a->plain ? VW : SWI_LANES;
    for (int lane = 0; lane < (a->plain ? 1 : SWI_LANES); lane += VW)
        scale(a->y + at + lane, a->x + at + lane, factors(a, part, lane), j->size - lane, step,
              a->add_y);
}

SW_VEC_FN vf sum_products(const float *x, const float *dy, int64_t n, int64_t step)
{
    vf acc[4] = {vzero(), vzero(), vzero(), vzero()};
    int64_t i = 0;
    for (; i + 3 * step + VW <= n; i += 4 * step) {
        SW_UNROLL
        for (int k = 0; k < 4; k++)
            acc[k] = vfma(vload(x + i + k * step), vload(dy + i + k * step), acc[k]);
    }
    for (; i + VW <= n; i += step)
        acc[0] = vfma(vload(x + i), vload(dy + i), acc[0]);
    if (i < n && step == VW)
        acc[0] = vfma(vload_n(x + i, (int)(n - i)), vload_n(dy + i, (int)(n - i)), acc[0]);
    return vadd(vadd(acc[0], acc[2]), vadd(acc[1], acc[3]));
}

/* ds first: dx may stand in the place of dy. */
static void grad_part(void *arg, int part)
{
    const scale_job *j = arg;
    const sw_scale_args *a = j->a;
    const int64_t at = part * j->size, step = a->plain ? VW : SWI_LANES;
    for (int lane = 0; lane < (a->plain ? 1 : SWI_LANES); lane += VW) {
        const float *dy = a->dy + at + lane;
        if (a->ds != NULL) {
            vf sum = sum_products(a->x + at + lane, dy, j->size - lane, step);
            float one[4], *ds = a->ds + (a->plain ? part : (int64_t)part * SWI_LANES + lane);
            if (a->plain) {
                vsum4(one, sum, vzero(), vzero(), vzero());
                *ds = a->add_ds ? *ds + one[0] : one[0];
            } else {
                vstore(ds, a->add_ds ? vadd(vload(ds), sum) : sum);
            }
        }
        if (a->dx != NULL)
            scale(a->dx + at + lane, dy, factors(a, part, lane), j->size - lane, step,
                  a->add_dx);
    }
}

static void planes(const sw_scale_args *a, void (*body)(void *, int), const sw_par *par)
{
    scale_job j = {.a = a, .size = a->positions * (a->plain ? 1 : SWI_LANES)};
    const int64_t n = a->plain ? a->batch : swi_blocks(a->batch);
    vruns(par, body, &j, (int)(n * a->channels),
          (double)(n * a->channels * j.size) >= SWI_WORTH);
}

void SW_KERNEL(dense, channel_scale)(const sw_scale_args *a, const sw_par *par)
{
    planes(a, forward_part, par);
}

void SW_KERNEL(dense, channel_scale_grad)(const sw_scale_args *a, const sw_par *par)
{
    planes(a, grad_part, par);
}
