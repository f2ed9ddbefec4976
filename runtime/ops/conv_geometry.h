/* What the convolution and the transposed one share. */
#ifndef SW_OPS_CONV_GEOMETRY_H
#define SW_OPS_CONV_GEOMETRY_H

#include "kernels/dense.h"
#include "runtime/ops/ops.h"

/* The convolution of an image with w, as kernels have it. */
sw_conv swi_conv_geometry(const sw_type *image, const sw_shape *w, const swi_conv_attrs *a);
/* Each place of y (or dy) with each weight of its channel: taps outside the image count. */
uint64_t swi_conv_taps(const sw_type *y, const sw_shape *w);

#endif
