/* Instruction sets, chosen at run time. Each family of kernels is compiled once per instruction
 * set (cpu/isa) and offers one table of functions for each. */
#pragma once

#include "kernels/axes.h"
#include "kernels/binary.h"
#include "kernels/dense.h"
#include "kernels/noise_kernels.h"
#include "kernels/norm.h"
#include "kernels/par.h"
#include "kernels/pointwise.h"

/* The best that this build and this machine have; asked of the processor once. */
sw_isa sw_cpu_isa(void);
const char *sw_isa_name(sw_isa isa);

/* Instructions for bf16 beside avx512: VDPBF16PS; it is faster than two of FMA; AMX, whose
 * tiles the system saves. */
enum { SW_BF16_DOT = 1, SW_BF16_DOT_PAYS = 2, SW_BF16_AMX = 4 };
int sw_cpu_bf16(void);
/* Are products of float32 faster where rows of A are packed too? On Intel: Sapphire Rapids has
 * 133 to 148 GFLOP/s a core in place and 158 to 185 packed; Zen 5 loses 2 to 8 %. */
bool sw_cpu_packs_rows(void);
/* "base", "avx2", "avx512"; "avx512-bf16" and "amx" are avx512 with an instruction that is then
 * taken in any case. NULL: the best of this machine, and in *bf16 those that pay there. False:
 * there is no such name. */
bool sw_isa_named(const char *name, sw_isa *isa, int *bf16);
const char *sw_isa_best(void); /* of these names */
/* An order with an instruction of `bf16` that makes it. The first time AMX is chosen the system
 * is asked for tiles, for the whole process and for ever: afterwards no thread can have a
 * signal stack below 11,952 bytes. *refused: why it refuses them; NULL. */
sw_bf16_order sw_order_way(sw_bf16_order order, int bf16, const char **refused);
const char *sw_order_by(sw_bf16_order way, sw_isa isa); /* "AMX", "FMA", .. */
/* One thread: a plain loop. */
extern const sw_par sw_par_alone;
/* Tables; an instruction set that is not built falls back to the next lower one. */
const sw_dense_kernels *sw_dense(sw_isa isa);
const sw_norm_kernels *sw_norm(sw_isa isa);
const sw_pointwise_kernels *sw_pointwise(sw_isa isa);
const sw_axes_kernels *sw_axes(sw_isa isa);
const sw_noise_kernels *sw_noise(sw_isa isa);
const sw_binary_kernels *sw_binary(sw_isa isa);
