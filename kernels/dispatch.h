/* Instruction sets, chosen at run time. Each family of kernels is compiled once per instruction
 * set (cpu/isa) and offers one table of functions for each. */
#ifndef SW_DISPATCH_H
#define SW_DISPATCH_H

#include "kernels/axes.h"
#include "kernels/binary.h"
#include "kernels/dense.h"
#include "kernels/noise_kernels.h"
#include "kernels/norm.h"
#include "kernels/par.h"
#include "kernels/pointwise.h"

/* The best that this build and this machine have; asked of the processor once. */
sw_isa sw_cpu_isa(void);
/* Has it AMX for bf16, and does the system save its tiles? */
bool sw_cpu_has_amx(void);
const char *sw_isa_name(sw_isa isa);
/* One thread: a plain loop. */
extern const sw_par sw_par_alone;
/* Tables; an instruction set that is not built falls back to the next lower one. */
const sw_dense_kernels *sw_dense(sw_isa isa);
const sw_norm_kernels *sw_norm(sw_isa isa);
const sw_pointwise_kernels *sw_pointwise(sw_isa isa);
const sw_axes_kernels *sw_axes(sw_isa isa);
const sw_noise_kernels *sw_noise(sw_isa isa);
const sw_binary_kernels *sw_binary(sw_isa isa);

#endif
