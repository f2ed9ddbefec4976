/* Kernels for tests of the fake runtime. */
#ifndef SW_TESTS_TINY_H
#define SW_TESTS_TINY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] += by, y[i] *= by; what cudaGetLastError says then. */
int tiny_add(void *stream, float *y, int n, float by);
int tiny_scale(void *stream, float *y, int n, float by);
/* y[i] = x[i] * *by, the pointers inside of a struct. */
int tiny_product(void *stream, float *y, const float *x, const float *by, int n);
int tiny_too_wide(void *stream, float *y);  /* a block that no card takes */
int tiny_divergent(void *stream, float *y); /* fails when it runs */

#ifdef __cplusplus
}
#endif
#endif
