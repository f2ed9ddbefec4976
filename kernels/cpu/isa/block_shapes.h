/* A function for each shape of a register block: inlined together they would not leave enough
 * registers for addresses in the innermost loop. The file that includes this has a type `tile`
 * and SW_VEC_FN void block(const tile *t, int mr, int nv), whose mr and nv are constants;
 * `block` is any name. */
#pragma once

#include "kernels/cpu/isa/vec.h"

#if SW_ISA_ID == 2
#define PANEL 4 /* vectors: 6 x 4 accumulators of 32 registers */
#else
#define PANEL 2 /* 6 x 2 of 16 */
#endif

#define SHAPE(block, mr, nv)                                                                   \
    static __attribute__((noinline)) void block##_##mr##_##nv(const tile *t)                   \
    {                                                                                          \
        block(t, mr, nv);                                                                      \
    }
#if PANEL == 4
#define SHAPES(block, mr)                                                                      \
    SHAPE(block, mr, 1) SHAPE(block, mr, 2) SHAPE(block, mr, 3) SHAPE(block, mr, 4)
#define NAMES(block, mr)                                                                       \
    {                                                                                          \
        block##_##mr##_1, block##_##mr##_2, block##_##mr##_3, block##_##mr##_4                 \
    }
#else
#define SHAPES(block, mr) SHAPE(block, mr, 1) SHAPE(block, mr, 2)
#define NAMES(block, mr)                                                                       \
    {                                                                                          \
        block##_##mr##_1, block##_##mr##_2                                                     \
    }
#endif
