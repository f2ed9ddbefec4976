/* Shared by the dense files of one instruction set. */
#pragma once

#include "kernels/cpu/isa/vec.h"
#include "kernels/dense.h"
#include "kernels/taps.h"

enum { SWI_LANES = 16 };              /* images of a block; pixel stride in floats */
enum { SWI_GROUPS = SWI_LANES / VW }; /* vectors of a pixel */
#define SWI_WORTH 200000              /* multiply-adds from which a second thread helps */

static inline int64_t swi_blocks(int64_t batch)
{
    return (batch + SWI_LANES - 1) / SWI_LANES;
}

/* How many output channels the next register block takes of `left`: 6, 4, 2 or 1, so that rests
 * stay wide. */
static inline int swi_channel_block(int64_t left)
{
    if (left >= 6 && left != 8)
        return 6;
    return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* Rows of the next strip of A, of which `left` are left. */
static inline int swi_strip_rows(int64_t left)
{
    return left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* Element i of float32, or of bf16. */
static inline void *swi_element(const void *x, int64_t i, bool half)
{
    return (char *)(uintptr_t)x + i * (half ? 2 : 4);
}

/* Channels of x and of y in one group. Kernels see groups and dilation of at least 1. */
static inline int64_t swi_in_per(const sw_conv *s)
{
    return s->in_c / s->groups;
}
static inline int64_t swi_out_per(const sw_conv *s)
{
    return s->out_c / s->groups;
}
static inline int64_t swi_weights(const sw_conv *s)
{
    return s->out_c * swi_in_per(s) * s->kernel_h * s->kernel_w;
}

/* Multiply-adds, those of lanes past the batch too. */
static inline double swi_conv_work(const sw_conv *s)
{
    return (double)(s->plain ? s->batch : swi_blocks(s->batch) * SWI_LANES) *
           (double)swi_weights(s) * (double)(s->out_h * s->out_w);
}

/* Groups and dilation of 0 count as 1. */
static inline sw_conv swi_conv_whole(const sw_conv *given)
{
    sw_conv s = *given;
    s.groups = s.groups > 1 ? s.groups : 1;
    s.dilation = s.dilation > 1 ? s.dilation : 1;
    return s;
}

#define swi_stored_run SW_ISA_FN(swi_stored_run)
#define swi_gemm SW_KERNEL(dense, gemm)
#define swi_gemm_is_small SW_ISA_FN(swi_gemm_is_small)
#define swi_gemm_small SW_ISA_FN(swi_gemm_small)
#define swi_gemm_is_few SW_ISA_FN(swi_gemm_is_few)
#define swi_gemm_few SW_ISA_FN(swi_gemm_few)
#define swi_gemm_pack_strips SW_ISA_FN(swi_gemm_pack_strips)
#define swi_gemm_strips SW_ISA_FN(swi_gemm_strips)
#define swi_gemm_pack SW_ISA_FN(swi_gemm_pack)
#define swi_gemm_along SW_ISA_FN(swi_gemm_along)
#define swi_conv_is_product SW_ISA_FN(swi_conv_is_product)
#define swi_conv_product_bytes SW_ISA_FN(swi_conv_product_bytes)
#define swi_conv_product SW_ISA_FN(swi_conv_product)

#define swi_conv_flat SW_ISA_FN(swi_conv_flat)

/* Numbers [first, first + n) of w, in the order of rows (gemm_pack.c). */
void swi_stored_run(float *to, const sw_stored *w, int64_t first, int64_t n);
/* The same for what is small enough, in at most `threads` parts (gemm_small.c). */
bool swi_gemm_is_small(const sw_gemm *g);
void swi_gemm_small(const sw_gemm *g, int threads, const sw_par *par);
/* The same for few rows (gemm_few.c). */
bool swi_gemm_is_few(const sw_gemm *g);
void swi_gemm_few(const sw_gemm *g, int threads, const sw_par *par);
/* The same with A in strips, the one from row i on at strips + i * k: [k][swi_strip_rows(m -
 * i)]. k: at most SW_GEMM_BLOCK. g->a is not looked at.
 *
 * In an order of bf16 k may be larger; its last piece of SW_GEMM_BLOCK has room up to a
 * multiple of 32. Rows [first, end) are packed; `first` is a multiple of 6, and `end` if it is
 * not m. */
void swi_gemm_pack_strips(float *strips, const sw_gemm *g, int64_t first, int64_t end);
void swi_gemm_strips(const sw_gemm *g, const float *strips, const sw_par *par);
/* A product of at most SWI_GEMM_COLS columns and a depth of SW_GEMM_BLOCK in two steps: B is
 * packed once, rows of A go along it. */
enum { SWI_GEMM_COLS = 64 };
void swi_gemm_pack(float *packed, const sw_gemm *g);
void swi_gemm_along(const sw_gemm *g, float *packed);
/* Convolutions of one position as products, in either layout. gradient: that of x. */
bool swi_conv_is_product(const sw_conv *s);
size_t swi_conv_product_bytes(const sw_conv *s, bool gradient);
void swi_conv_product(float *y, const float *x, const float *w, const float *bias,
                      const sw_conv *s, bool gradient, bool accumulate, void *scratch,
                      const sw_par *par);

sw_conv swi_conv_flat(const sw_conv *s); /* fewer, longer rows where the kernel allows it */
