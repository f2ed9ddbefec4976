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

size_t SW_KERNEL(dense, conv_bytes)(const sw_conv *given, int threads)
{
    const sw_conv s = whole(given);
    return swi_conv_is_product(&s) ? swi_conv_product_bytes(&s, false, threads) : 0;
}

void SW_KERNEL(dense, conv)(float *y, const float *x, const float *w, const float *bias,
                            const sw_conv *given, bool accumulate, void *scratch,
                            const sw_par *par)
{
    const sw_conv s = whole(given);
    if (swi_conv_is_product(&s))
        swi_conv_product(y, x, w, bias, &s, accumulate, scratch, par);
    else if (s.plain)
        swi_conv_plain(y, x, w, bias, &s, accumulate, par);
    else
        swi_conv(y, x, w, bias, &s, accumulate, par);
}

size_t SW_KERNEL(dense, conv_dx_bytes)(const sw_conv *given, int threads)
{
    const sw_conv s = whole(given);
    if (swi_conv_is_product(&s))
        return swi_conv_product_bytes(&s, true, threads);
    return s.plain ? 0 : swi_conv_dx_bytes(&s);
}

void SW_KERNEL(dense, conv_dx)(float *dx, const float *dy, const float *w, const float *bias,
                               const sw_conv *given, bool accumulate, void *scratch,
                               const sw_par *par)
{
    const sw_conv s = whole(given);
    if (swi_conv_is_product(&s))
        swi_conv_product_dx(dx, dy, w, bias, &s, accumulate, scratch, par);
    else if (s.plain)
        swi_conv_plain_dx(dx, dy, w, bias, &s, accumulate, par);
    else
        swi_conv_dx(dx, dy, w, bias, &s, accumulate, scratch, par);
}

size_t SW_KERNEL(dense, conv_dw_bytes)(const sw_conv *given)
{
    const sw_conv s = whole(given);
    return s.plain || swi_conv_is_product(&s) ? 0 : swi_conv_dw_bytes(&s);
}

void SW_KERNEL(dense, conv_dw)(float *dw, float *db, const float *x, const float *dy,
                               const sw_conv *given, bool accumulate_dw, bool accumulate_db,
                               void *scratch, const sw_par *par)
{
    const sw_conv s = whole(given);
    if (swi_conv_is_product(&s))
        swi_conv_product_dw(dw, db, x, dy, &s, accumulate_dw, accumulate_db, par);
    else if (s.plain)
        swi_conv_plain_dw(dw, db, x, dy, &s, accumulate_dw, accumulate_db, par);
    else
        swi_conv_dw(dw, db, x, dy, &s, accumulate_dw, accumulate_db, scratch, par);
}

void SW_KERNEL(dense, max_pool)(float *y, uint8_t *index, const float *x, const sw_conv *s,
                                const sw_par *par)
{
    (s->plain ? swi_max_pool_plain : swi_max_pool)(y, index, x, s, par);
}

void SW_KERNEL(dense, max_pool_dx)(float *dx, const float *dy, const uint8_t *index,
                                   const sw_conv *s, bool accumulate, const sw_par *par)
{
    (s->plain ? swi_max_pool_plain_dx : swi_max_pool_dx)(dx, dy, index, s, accumulate, par);
}

void SW_KERNEL(dense, avg_pool)(float *y, const float *x, const sw_conv *s, const sw_par *par)
{
    (s->plain ? swi_avg_pool_plain : swi_avg_pool)(y, x, s, par);
}

void SW_KERNEL(dense, avg_pool_dx)(float *dx, const float *dy, const sw_conv *s,
                                   bool accumulate, const sw_par *par)
{
    (s->plain ? swi_avg_pool_plain_dx : swi_avg_pool_dx)(dx, dy, s, accumulate, par);
}
