/* A function for each shape of a register block: inlined together they would not leave enough
 * registers for addresses in the innermost loop. The file that includes this has a type `tile`
 * and SW_VEC_FN void block(const tile *t, int mr, int nv), whose mr and nv are constants. */
#ifndef SW_BLOCK_SHAPES_H
#define SW_BLOCK_SHAPES_H

#include "kernels/cpu/isa/vec.h"

#if SW_ISA_ID == 2
#define PANEL 4 /* vectors: 6 x 4 accumulators of 32 registers */
#else
#define PANEL 2 /* 6 x 2 of 16 */
#endif

#define SHAPE(mr, nv)                                                                          \
    static __attribute__((noinline)) void block_##mr##_##nv(const tile *t)                     \
    {                                                                                          \
        block(t, mr, nv);                                                                      \
    }
#if PANEL == 4
#define SHAPES(mr) SHAPE(mr, 1) SHAPE(mr, 2) SHAPE(mr, 3) SHAPE(mr, 4)
#define NAMES(mr)                                                                              \
    {                                                                                          \
        block_##mr##_1, block_##mr##_2, block_##mr##_3, block_##mr##_4                         \
    }
#else
#define SHAPES(mr) SHAPE(mr, 1) SHAPE(mr, 2)
#define NAMES(mr)                                                                              \
    {                                                                                          \
        block_##mr##_1, block_##mr##_2                                                         \
    }
#endif

#endif
