/* What the ops with noise on parameters share: kernels/noise.h has the formulas. */
#ifndef SW_OPS_NOISE_H
#define SW_OPS_NOISE_H

#include "kernels/noise.h"
#include "runtime/ops/ops.h"

/* SW_INVALID names what of a parameter's noise cannot be. */
sw_status swi_noise_check(const char *op, const sw_noise_spec *spec);
/* SW_INVALID names what of the attributes cannot be, for a batch whose axis 0 has `rows`. */
sw_status swi_noise_infer(const char *op, const swi_noise_attrs *a, int64_t rows,
                          const sw_type *sigma);

/* Whose noise evaluations of a launch have: that of direction `i` of the batch. */
static inline sw_noise_at swi_noise_at(const sw_launch *l, int64_t i)
{
    return (sw_noise_at){l->seed, l->step, l->run + (uint32_t)i};
}

/* Rows of each evaluation. */
static inline int64_t swi_noise_rows_each(const swi_noise_attrs *a, int64_t rows)
{
    return rows / (a->repeats * a->directions);
}

/* body(l, i) for each direction i of the batch, on the threads of the launch. */
typedef void swi_noise_body(const sw_launch *l, int64_t direction);
void swi_noise_directions(const sw_launch *l, swi_noise_body *body);

#endif
