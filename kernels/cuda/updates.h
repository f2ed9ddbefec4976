/* Inputs of updates of a parameter after its states, all read on the device: they change
 * between replays of a graph. in {param, grad, lr, states..., [corrections], [scale], [flag],
 * [finite check]}. */
#ifndef SW_CUDA_UPDATES_H
#define SW_CUDA_UPDATES_H

#include "kernels/attrs.h"
#include "kernels/cuda/device.h"

struct sw_cuda_update_inputs {
    const float *lr, *scale, *flag;           /* lr: the rate and what `reads` says of knobs;
                                                 scale, flag NULL: 1 */
    const double *corrections, *finite_check; /* NULL: 1, 0 */
    int32_t reads;

    /* No update is made: no gradient waits for one, or there was one that is not finite. */
    __device__ bool off(void) const
    {
        return (flag != nullptr && *flag == 0.0f) ||
               (finite_check != nullptr && *finite_check != 0.0);
    }
    __device__ float gradient_scale(void) const
    {
        return scale != nullptr ? *scale : 1.0f;
    }
};

static inline sw_cuda_update_inputs sw_cuda_update_inputs_of(const sw_launch *l)
{
    const swi_update_attrs *a = sw_cuda_attrs<swi_update_attrs>(l);
    int next = 3 + a->n_state;
    sw_cuda_update_inputs in = {};
    in.lr = sw_cuda_in(l, 2);
    in.reads = a->reads;
    in.corrections =
        a->has_corrections ? static_cast<const double *>(l->in[next++].ptr) : nullptr;
    in.scale = a->has_scale ? sw_cuda_in(l, next++) : nullptr;
    in.flag = a->has_flag ? sw_cuda_in(l, next++) : nullptr;
    in.finite_check =
        a->has_finite_check ? static_cast<const double *>(l->in[next].ptr) : nullptr;
    return in;
}

/* Any elementwise update, by the rule of its attributes. */
sw_status sw_cuda_update_run(const sw_launch *l, const sw_cuda_queue *queue);

#endif
