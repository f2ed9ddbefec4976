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
void SW_ISA_FN(swi_softmax)(float *y, const float *x, int64_t rows, int64_t cols,
                            const sw_par *par);
void SW_ISA_FN(swi_softmax_dx)(float *dx, const float *dy, const float *y, int64_t rows,
                               int64_t cols, bool accumulate, const sw_par *par);
void SW_ISA_FN(swi_log_softmax)(float *y, const float *x, int64_t rows, int64_t cols,
                                const sw_par *par);
void SW_ISA_FN(swi_log_softmax_dx)(float *dx, const float *dy, const float *y, int64_t rows,
                                   int64_t cols, bool accumulate, const sw_par *par);
void SW_ISA_FN(swi_swiglu)(const sw_glu *g, const sw_par *par);
void SW_ISA_FN(swi_swiglu_grad)(const sw_glu *g, const sw_par *par);
void SW_ISA_FN(swi_lstm_cell)(const sw_lstm_args *l, const sw_par *par);
void SW_ISA_FN(swi_lstm_cell_grad)(const sw_lstm_args *l, const sw_par *par);
void SW_ISA_FN(swi_gru_cell)(const sw_gru_args *g, const sw_par *par);
void SW_ISA_FN(swi_gru_cell_grad)(const sw_gru_args *g, const sw_par *par);
void SW_ISA_FN(swi_lse)(float *lse, const float *x, int64_t rows, int64_t cols,
                        const sw_par *par);
void SW_ISA_FN(swi_softmax_ce_dx)(float *dx, const float *x, const float *lse,
                                  const sw_ids *labels, int64_t rows, int64_t cols,
                                  float factor, bool accumulate, const sw_par *par);
void SW_ISA_FN(swi_softmax_ce)(float *x, float *lse, float *at_label, const sw_ids *labels,
                               int64_t rows, int64_t cols, float factor, const sw_par *par);
void SW_ISA_FN(swi_update_kernel)(const sw_optim_rule *rule, float *p, const float *g,
                                  float *const *state, int64_t n, float gscale,
                                  const sw_par *par);
void SW_ISA_FN(swi_adafactor)(const sw_adafactor_rule *rule, const sw_adafactor_operands *x,
                              double *scratch, const sw_par *par);
float SW_ISA_FN(swi_largest)(const float *x, int64_t n, const sw_par *par);
void SW_ISA_FN(swi_unary)(sw_unary kind, float *y, const float *x, int64_t n, float param,
                          const sw_par *par);
void SW_ISA_FN(swi_unary_dx)(sw_unary kind, float *dx, const float *dy, const float *saved,
                             int64_t n, float param, bool accumulate, const sw_par *par);
void SW_ISA_FN(swi_abs)(float *y, uint8_t *codes, const float *x, int64_t n, const sw_par *par);
void SW_ISA_FN(swi_abs_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                           bool accumulate, const sw_par *par);
void SW_ISA_FN(swi_clamp)(float *y, uint8_t *codes, const float *x, float low, float high,
                          int64_t n, const sw_par *par);
void SW_ISA_FN(swi_clamp_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                             bool accumulate, const sw_par *par);
void SW_ISA_FN(swi_above)(sw_unary kind, uint8_t *codes, const float *x, int64_t n,
                          const sw_par *par);
void SW_ISA_FN(swi_above_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                             float slope, bool accumulate, const sw_par *par);
void SW_ISA_FN(swi_sub)(float *y, const float *a, const float *b, int64_t n, bool accumulate,
                        const sw_par *par);
void SW_ISA_FN(swi_div)(float *y, const float *a, const float *b, int64_t n, bool accumulate,
                        const sw_par *par);
void SW_ISA_FN(swi_where)(float *y, const uint8_t *mask, const float *a, const float *b,
                          int64_t n, bool accumulate, const sw_par *par);
double SW_ISA_FN(swi_elementwise_loss)(sw_elementwise_loss kind, const float *x, const float *t,
                                       int64_t n, float p, double *sums, const sw_par *par);
void SW_ISA_FN(swi_elementwise_loss_dx)(sw_elementwise_loss kind, float *dx, const float *x,
                                        const float *t, int64_t n, float p, float factor,
                                        bool accumulate, const sw_par *par);
void SW_ISA_FN(swi_row_sums)(double *sums, const float *x, int64_t rows, int64_t cols,
                             const sw_par *par);
void SW_ISA_FN(swi_smooth_ce_dx)(float *dx, const float *x, const float *lse,
                                 const sw_ids *labels, int64_t rows, int64_t cols,
                                 const sw_ce_rule *rule, float factor, bool accumulate,
                                 const sw_par *par);

#endif
