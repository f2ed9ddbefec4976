/* Two ops of a program that one launch runs channel by channel: a channel is in the near cache
 * when the second comes to it. The kernels, the order in each channel and the bits are those of
 * two launches. */
#ifndef SW_OPS_FUSED_H
#define SW_OPS_FUSED_H

#include "kernels/launch.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const sw_launch *launch;
    sw_kernel *kernel;
} swi_fused_op;
typedef sw_status swi_fused_kernel(const swi_fused_op *first, const swi_fused_op *then);

/* What is known of each when the plan is made; grad: -1 for the forward kernel. */
typedef struct {
    uint32_t op;
    int32_t grad;
    const sw_kernel_info *info;
} swi_fused_info;

/* Kernels by number; 0: none. */
extern swi_fused_kernel *const swi_fused_kernels[];

/* The number of theirs, 0 where there is none. The other operands of both are images of the
 * same type, contiguous, or have one number for each channel. Input *in of the second is output
 * 0 of the first. */
uint8_t swi_fused(const swi_fused_info *first, const swi_fused_info *then, int *in);

/* The gradient kernels of batch norm that make dx. */
bool swi_batch_norm_makes_dx(int32_t grad);
swi_fused_kernel swi_batch_norm_then, swi_then_batch_norm_dx;

#endif
