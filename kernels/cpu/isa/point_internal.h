/* Parts of the table of point.h that live in their own files. */
#ifndef SW_POINT_INTERNAL_H
#define SW_POINT_INTERNAL_H

#include "kernels/cpu/isa/isa.h"
#include "kernels/point.h"

void SW_ISA_FN(swi_softmax)(float *y, const float *x, int64_t rows, int64_t cols,
                            const sw_par *par);
void SW_ISA_FN(swi_softmax_dx)(float *dx, const float *dy, const float *y, int64_t rows,
                               int64_t cols, bool accumulate, const sw_par *par);
void SW_ISA_FN(swi_lse)(float *lse, const float *x, int64_t rows, int64_t cols,
                        const sw_par *par);
void SW_ISA_FN(swi_softmax_ce_dx)(float *dx, const float *x, const float *lse,
                                  const int32_t *labels_i32, const uint8_t *labels_u8,
                                  int64_t rows, int64_t cols, float factor, bool accumulate,
                                  const sw_par *par);
void SW_ISA_FN(swi_sgd_kernel)(float *p, const float *g, float *m, int64_t n, float gscale,
                               const sw_sgd_rule *rule, const sw_par *par);
void SW_ISA_FN(swi_adam_kernel)(float *p, const float *g, float *m, float *v, int64_t n,
                                float gscale, const sw_adam_rule *rule, const sw_par *par);

#endif
