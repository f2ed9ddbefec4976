/* Pointwise kernels: loops that the compiler vectorises for the instruction set of this copy.
 */
#include "kernels/pointwise.h"
#include "kernels/cpu/isa/element_loops.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/pointwise_internal.h"
#include "kernels/scalar.h"
#include <math.h>

/* ---- elements ---------------------------------------------------------------------------- */

BODY(add_part) FOR_EACH_ELEMENT(a[i] + b[i]);
END BODY(mul_part) FOR_EACH_ELEMENT(a[i] * b[i]);
END BODY(scale_part) FOR_EACH_ELEMENT(a[i] * p);
END BODY(difference_part) FOR_EACH_ELEMENT((a[i] - b[i]) * p);
END BODY(bce_dx_part) if (b != NULL) FOR_EACH_ELEMENT((sw_sigmoidf(a[i]) - b[i]) * p);
else FOR_EACH_ELEMENT((sw_sigmoidf(a[i]) - q) * p);
END

    void
    SW_KERNEL(pointwise, add)(float *y, const float *a, const float *b, int64_t n,
                              bool accumulate, const sw_par *par)
{
    job j = {.y = y, .a = a, .b = b, .n = n, .accumulate = accumulate};
    split(par, add_part, &j);
}

void SW_KERNEL(pointwise, mul)(float *y, const float *a, const float *b, int64_t n,
                               bool accumulate, const sw_par *par)
{
    job j = {.y = y, .a = a, .b = b, .n = n, .accumulate = accumulate};
    split(par, mul_part, &j);
}

void SW_KERNEL(pointwise, scale)(float *y, const float *x, int64_t n, float factor,
                                 bool accumulate, const sw_par *par)
{
    job j = {.y = y, .a = x, .n = n, .p = factor, .accumulate = accumulate};
    split(par, scale_part, &j);
}

void SW_KERNEL(pointwise, difference)(float *dx, const float *a, const float *b, int64_t n,
                                      float factor, bool accumulate, const sw_par *par)
{
    job j = {.y = dx, .a = a, .b = b, .n = n, .p = factor, .accumulate = accumulate};
    split(par, difference_part, &j);
}

void SW_KERNEL(pointwise, bce_dx)(float *dx, const float *x, const float *t, float constant,
                                  int64_t n, float factor, bool accumulate, const sw_par *par)
{
    job j = {
        .y = dx, .a = x, .b = t, .n = n, .p = factor, .q = constant, .accumulate = accumulate};
    split(par, bce_dx_part, &j);
}

double SW_KERNEL(pointwise, bce)(const float *x, const float *t, float constant, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const float target = t != NULL ? t[i] : constant;
        sum += (double)sw_bce_value(x[i], target);
    }
    return n > 0 ? sum / (double)n : 0.0;
}

/* ---- conversions ------------------------------------------------------------------------- */

typedef struct {
    float *y;
    const void *x;
    int64_t n;
    float scale, shift;
} convert_job;

static void from_u8_part(void *arg, int part)
{
    const convert_job *j = arg;
    const uint8_t *x = j->x;
    for (int64_t i = (int64_t)part * PART; i < part_end(j->n, part); i++)
        j->y[i] = (float)x[i] * j->scale + j->shift;
}

static void from_i32_part(void *arg, int part)
{
    const convert_job *j = arg;
    const int32_t *x = j->x;
    for (int64_t i = (int64_t)part * PART; i < part_end(j->n, part); i++)
        j->y[i] = (float)x[i] * j->scale + j->shift;
}

void SW_KERNEL(pointwise, from_u8)(float *y, const uint8_t *x, int64_t n, float factor,
                                   float shift, const sw_par *par)
{
    convert_job j = {y, x, n, factor, shift};
    par->run(par, from_u8_part, &j, (int)((n + PART - 1) / PART));
}

void SW_KERNEL(pointwise, from_i32)(float *y, const int32_t *x, int64_t n, float factor,
                                    float shift, const sw_par *par)
{
    convert_job j = {y, x, n, factor, shift};
    par->run(par, from_i32_part, &j, (int)((n + PART - 1) / PART));
}
