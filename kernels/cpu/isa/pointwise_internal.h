/* Parts of the table of pointwise.h that live in their own files. */
#ifndef SW_POINTWISE_INTERNAL_H
#define SW_POINTWISE_INTERNAL_H

#include "kernels/cpu/isa/isa.h"
#include "kernels/pointwise.h"

/* Rows of at most so many numbers go side by side: softmax cross-entropy of few classes. */
enum { SWI_NARROW = 16 };
void SW_ISA_FN(swi_narrow_lse)(float *lse, const float *x, int64_t rows, int64_t cols);
void SW_ISA_FN(swi_narrow_ce_dx)(float *dx, const float *x, const float *lse,
                                 const sw_ids *labels, int64_t rows, int64_t cols, float factor,
                                 bool accumulate);

#endif
