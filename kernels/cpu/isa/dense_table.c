/* The dense kernels of this instruction set; images in blocks or plain. */
#include "kernels/cpu/isa/dense_internal.h"

/* Groups and dilation of 0 count as 1. */
static sw_conv whole(const sw_conv *given)
{
    sw_conv s = *given;
    s.groups = s.groups > 1 ? s.groups : 1;
    s.dilation = s.dilation > 1 ? s.dilation : 1;
    return s;
}

static size_t conv_bytes(const sw_conv *given, int threads)
{
    const sw_conv s = whole(given);
    return swi_conv_is_product(&s) ? swi_conv_product_bytes(&s, false, threads) : 0;
}

static void conv(float *y, const float *x, const float *w, const float *bias,
                 const sw_conv *given, bool accumulate, void *scratch, const sw_par *par)
{
    const sw_conv s = whole(given);
    if (swi_conv_is_product(&s))
        swi_conv_product(y, x, w, bias, &s, accumulate, scratch, par);
    else if (s.plain)
        swi_conv_plain(y, x, w, bias, &s, accumulate, par);
    else
        swi_conv(y, x, w, bias, &s, accumulate, par);
}

static size_t conv_dx_bytes(const sw_conv *given, int threads)
{
    const sw_conv s = whole(given);
    if (swi_conv_is_product(&s))
        return swi_conv_product_bytes(&s, true, threads);
    return s.plain ? 0 : swi_conv_dx_bytes(&s);
}

static void conv_dx(float *dx, const float *dy, const float *w, const float *bias,
                    const sw_conv *given, bool accumulate, void *scratch, const sw_par *par)
{
    const sw_conv s = whole(given);
    if (swi_conv_is_product(&s))
        swi_conv_product_dx(dx, dy, w, bias, &s, accumulate, scratch, par);
    else if (s.plain)
        swi_conv_plain_dx(dx, dy, w, bias, &s, accumulate, par);
    else
        swi_conv_dx(dx, dy, w, bias, &s, accumulate, scratch, par);
}

static size_t conv_dw_bytes(const sw_conv *given)
{
    const sw_conv s = whole(given);
    return s.plain || swi_conv_is_product(&s) ? 0 : swi_conv_dw_bytes(&s);
}

static void conv_dw(float *dw, float *db, const float *x, const float *dy, const sw_conv *given,
                    bool accumulate_dw, bool accumulate_db, void *scratch, const sw_par *par)
{
    const sw_conv s = whole(given);
    if (swi_conv_is_product(&s))
        swi_conv_product_dw(dw, db, x, dy, &s, accumulate_dw, accumulate_db, par);
    else if (s.plain)
        swi_conv_plain_dw(dw, db, x, dy, &s, accumulate_dw, accumulate_db, par);
    else
        swi_conv_dw(dw, db, x, dy, &s, accumulate_dw, accumulate_db, scratch, par);
}

static void max_pool(float *y, uint8_t *index, const float *x, const sw_conv *s,
                     const sw_par *par)
{
    (s->plain ? swi_max_pool_plain : swi_max_pool)(y, index, x, s, par);
}

static void max_pool_dx(float *dx, const float *dy, const uint8_t *index, const sw_conv *s,
                        bool accumulate, const sw_par *par)
{
    (s->plain ? swi_max_pool_plain_dx : swi_max_pool_dx)(dx, dy, index, s, accumulate, par);
}

static void avg_pool(float *y, const float *x, const sw_conv *s, const sw_par *par)
{
    (s->plain ? swi_avg_pool_plain : swi_avg_pool)(y, x, s, par);
}

static void avg_pool_dx(float *dx, const float *dy, const sw_conv *s, bool accumulate,
                        const sw_par *par)
{
    (s->plain ? swi_avg_pool_plain_dx : swi_avg_pool_dx)(dx, dy, s, accumulate, par);
}

#define sw_dense_kernels_table SW_ISA_FN(sw_dense_kernels_table)
extern const sw_dense_kernels sw_dense_kernels_table;

const sw_dense_kernels sw_dense_kernels_table = {
    .gemm_bytes = swi_gemm_bytes,
    .gemm = swi_gemm,
    .column_sums = swi_column_sums,
    .conv_bytes = conv_bytes,
    .conv = conv,
    .conv_dx_bytes = conv_dx_bytes,
    .conv_dx = conv_dx,
    .conv_dw_bytes = conv_dw_bytes,
    .conv_dw = conv_dw,
    .max_pool = max_pool,
    .max_pool_dx = max_pool_dx,
    .avg_pool = avg_pool,
    .avg_pool_dx = avg_pool_dx,
    .resample_bytes = swi_resample_bytes,
    .resample = swi_resample,
    .resample_dx = swi_resample_dx,
    .channel_scale = swi_channel_scale,
    .channel_scale_grad = swi_channel_scale_grad,
    .to_n16 = swi_to_n16,
    .from_n16 = swi_from_n16,
};
