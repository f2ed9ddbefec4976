/* The tables of this instruction set's kernels, one for each family. */
#include "kernels/cpu/isa/isa.h"

#define ROW(family, member) .member = SW_KERNEL(family, member),
#define TABLE(family, LIST)                                                                    \
    extern const sw_##family##_kernels SW_ISA_FN(sw_##family##_kernels_table);                 \
    const sw_##family##_kernels SW_ISA_FN(sw_##family##_kernels_table) = {LIST(ROW, family)};

TABLE(dense, SW_DENSE_LIST)
TABLE(norm, SW_NORM_LIST)
TABLE(pointwise, SW_POINTWISE_LIST)
TABLE(axes, SW_AXES_LIST)
TABLE(noise, SW_NOISE_LIST)
TABLE(binary, SW_BINARY_LIST)
