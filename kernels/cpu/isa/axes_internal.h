/* Parts of the table of axes.h that live in their own files. */
#ifndef SW_AXES_INTERNAL_H
#define SW_AXES_INTERNAL_H

#include "kernels/axes.h"
#include "kernels/cpu/isa/isa.h"

#define swi_dropout SW_ISA_FN(swi_dropout)
#define swi_take_rows SW_ISA_FN(swi_take_rows)
#define swi_add_rows SW_ISA_FN(swi_add_rows)
#define swi_max_axes SW_ISA_FN(swi_max_axes)
#define swi_max_axes_dx SW_ISA_FN(swi_max_axes_dx)
#define swi_cumsum SW_ISA_FN(swi_cumsum)
#define swi_products SW_ISA_FN(swi_products)
#define swi_attention_bytes SW_ISA_FN(swi_attention_bytes)
#define swi_attention SW_ISA_FN(swi_attention)
#define swi_attention_grad_bytes SW_ISA_FN(swi_attention_grad_bytes)
#define swi_attention_grad SW_ISA_FN(swi_attention_grad)

void swi_dropout(float *y, const float *x, const sw_drop *d, bool accumulate,
                 const sw_par *par);
void swi_take_rows(float *y, const float *table, const sw_ids *ids, int64_t width,
                   const sw_par *par);
void swi_add_rows(float *table, const float *dy, const sw_ids *ids, int64_t rows, int64_t width,
                  bool accumulate, const sw_par *par);
void swi_max_axes(float *y, void *index, const float *x, const sw_max_spec *s,
                  const sw_par *par);
void swi_max_axes_dx(float *dx, const float *dy, const void *index, const sw_max_spec *s,
                     bool accumulate, const sw_par *par);
void swi_cumsum(float *y, const float *x, const sw_lines *s, bool accumulate,
                const sw_par *par);
void swi_products(const sw_products *p, const sw_par *par);
size_t swi_attention_bytes(const sw_attention_shape *s, int threads);
void swi_attention(float *y, float *lse, const sw_heads *q, const sw_heads *k,
                   const sw_heads *v, const sw_attention_shape *s, void *scratch,
                   const sw_par *par);
size_t swi_attention_grad_bytes(const sw_attention_shape *s, unsigned makes, int threads);
void swi_attention_grad(const sw_attention_grads *g, void *scratch, const sw_par *par);

#endif
