/* Shared by the convolution and the transposed one. */
#ifndef SW_OPS_CONV_GEOMETRY_H
#define SW_OPS_CONV_GEOMETRY_H

#include "kernels/dense.h"
#include "runtime/ops/ops.h"

/* The convolution of an image with w, as kernels have it. */
sw_conv swi_conv_geometry(const sw_type *image, const sw_shape *w, const swi_conv_attrs *a);
/* Does no window have a tap in the image? Kernels then read nothing of image, weights and the
 * other side, and take no scratch. */
bool swi_conv_misses(const sw_conv *s);
/* The result then: b (channels), or zeros where it is NULL, which output k becomes, or which is
 * added to it. */
sw_status swi_conv_fill(const sw_launch *l, int k, const float *b);
/* Each place of y (or dy) with each weight of its channel: taps outside the image count. */
uint64_t swi_conv_taps(const sw_type *y, const sw_shape *w);

#endif
