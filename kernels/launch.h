/* The arguments of a kernel, on every device: types, operands, one launch. Part of the public
 * header; C and C++ read it, compilers for devices too. */
#ifndef STEPWELL_LAUNCH_H
#define STEPWELL_LAUNCH_H

#include "alloc/base/base.h"
#include "kernels/par.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SW_MAX_RANK 8

typedef enum {
    SW_F32,
    SW_F64,
    SW_BF16,
    SW_I32,
    SW_U8,
    SW_U16,
    SW_I8, /* this and the next of frozen weights alone (sw_weights_new): codes and scales */
    SW_NF4
} sw_dtype;

/* rank 0 is a scalar. Dims are >= 0. */
typedef struct {
    int32_t rank;
    int64_t dim[SW_MAX_RANK];
} sw_shape;
/* SW_SHAPE(batch, 3, 32, 32): a shape of these dims. C++ has no compound literals. */
#ifdef __cplusplus
extern "C++" {
template <typename... sw_dims> constexpr sw_shape sw_shape_of(sw_dims... dims)
{
    return sw_shape{static_cast<int32_t>(sizeof...(dims)), {static_cast<int64_t>(dims)...}};
}
}
#define SW_SHAPE(...) sw_shape_of(__VA_ARGS__)
#define SW_SCALAR sw_shape_of()
#else
#define SW_SHAPE(...)                                                                          \
    ((sw_shape){(int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define SW_SCALAR ((sw_shape){0, {0}})
#endif

/* How the bytes of an image tensor (batch, c, h, w) lie. Everything else is plain. */
typedef enum {
    SW_PLAIN, /* row-major */
    SW_N16    /* (ceil(batch/16), c, h, w, 16): sixteen images side by side in the vector lanes.
                 The lanes past the batch hold finite numbers, and zeros in gradients */
} sw_layout;

typedef struct {
    sw_dtype dtype;
    sw_layout layout;
    sw_shape shape;
} sw_type;

/* An operand of a kernel. Strides are in elements and row-major contiguous unless the op says
 * that it takes strided operands. */
typedef struct {
    void *ptr;
    sw_type type;
    int64_t stride[SW_MAX_RANK];
} sw_buffer;

/* Known when the plan is made. */
typedef struct {
    const sw_type *in, *out;
    int n_in, n_out;
    const void *attrs;
    int threads;
    sw_isa isa;
    uint32_t accumulate;
    uint32_t skipped; /* bit i: out[i] is left out, NULL in the launch */
} sw_kernel_info;

typedef struct sw_launch {
    size_t size;
    const sw_buffer *in;
    int n_in;
    const sw_buffer *out; /* ptr NULL: an extra that no one reads */
    int n_out;
    void *scratch; /* scratch_bytes() of it, aligned to 64, contents undefined */
    size_t scratch_bytes;
    const void *attrs;   /* NULL: the op has none */
    uint32_t accumulate; /* bit i: add into out[i], else write all of it */
    const sw_par *par;
    sw_isa isa;
    uint64_t seed;         /* random ops */
    uint32_t stream, step; /* the counter's words */
    uint32_t run;
    uint32_t op; /* whose kernel it is; grad -1: the forward one */
    int32_t grad;
    int64_t first;       /* of a tensor that goes in pieces: its element that is first here */
    sw_bf16_order order; /* of products with an operand of bf16 */
} sw_launch;

typedef sw_status sw_kernel(const sw_launch *launch);

#ifdef __cplusplus
}
#endif
#endif
