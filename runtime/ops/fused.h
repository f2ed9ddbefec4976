/* Two ops of a program that one launch runs channel by channel: a channel is in the near cache
 * when the second comes to it. The kernels, the order in each channel and the bits are those of
 * two launches. */
#pragma once

#include "kernels/launch.h"
#include <stdbool.h>

typedef struct {
    const sw_launch *launch;
    sw_kernel *kernel;
} swi_fused_op;
typedef sw_status swi_fused_kernel(const swi_fused_op *first, const swi_fused_op *then);

/* An op of the plan; grad: -1 for the forward kernel. */
typedef struct {
    uint32_t op;
    int32_t grad;
} swi_fused_kind;

/* Kernels by number; 0: none. */
extern swi_fused_kernel *const swi_fused_kernels[];

/* The number of the kernel for two ops of these kinds, 0 where there is none. Input *in of the
 * second must be output 0 of the first. */
uint8_t swi_fused(swi_fused_kind first, swi_fused_kind then, int *in);

/* Does that kernel take them? The other operands of both must be images of the same type,
 * contiguous, or have one number for each channel. */
bool swi_fused_fits(uint8_t kernel, const sw_kernel_info *first, const sw_kernel_info *then);
