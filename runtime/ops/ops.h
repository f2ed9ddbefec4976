/* The ops inside: their numbers, attributes, and what their files share. A new op is one file
 * here, its kernel, and one line in ops.def. */
#ifndef SW_OPS_H
#define SW_OPS_H

#include "kernels/attrs.h"
#include "kernels/strided.h"
#include "runtime/stepwell.h"
#include <stdbool.h>

#define SW_OP(name) SW_OP_##name,
enum {
#include "runtime/ops.def"
    SW_OPS_INSIDE
};
#undef SW_OP

#define SW_OP(name) extern const sw_op_desc sw_op_##name;
#include "runtime/ops.def"
#undef SW_OP

/* ---- attributes: kernels/attrs.h
 * ------------------------------------------------------------- */

/* Attributes are compared byte for byte: clear the struct, then copy the shape without what
 * lies past its rank. */
void swi_set_shape(sw_shape *to, const sw_shape *from);
void swi_set_fill(swi_fill_attrs *to, const sw_type *type, float value);

/* ---- what op files share ----------------------------------------------------------------- */

#define SWI_F32(...)                                                                           \
    {                                                                                          \
        SW_F32, SW_PLAIN,                                                                      \
        {                                                                                      \
            (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8),                                   \
            {                                                                                  \
                __VA_ARGS__                                                                    \
            }                                                                                  \
        }                                                                                      \
    }
#define SWI_U8(...)                                                                            \
    {                                                                                          \
        SW_U8, SW_PLAIN,                                                                       \
        {                                                                                      \
            (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8),                                   \
            {                                                                                  \
                __VA_ARGS__                                                                    \
            }                                                                                  \
        }                                                                                      \
    }
#define SWI_I32(...)                                                                           \
    {                                                                                          \
        SW_I32, SW_PLAIN,                                                                      \
        {                                                                                      \
            (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8),                                   \
            {                                                                                  \
                __VA_ARGS__                                                                    \
            }                                                                                  \
        }                                                                                      \
    }
#define SWI_F32_SCALAR                                                                         \
    {                                                                                          \
        SW_F32, SW_PLAIN,                                                                      \
        {                                                                                      \
            0,                                                                                 \
            {                                                                                  \
                0                                                                              \
            }                                                                                  \
        }                                                                                      \
    }
#define SWI_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* "(128, 10)" */
#define SWI_SHAPE_TEXT 160
const char *swi_shape_text(const sw_shape *shape, char *to);
bool swi_same_shape(const sw_shape *a, const sw_shape *b);
int64_t
swi_elements(const sw_shape *shape); /* of a shape known to be good; lanes not counted */
/* SW_INVALID with names and shapes unless all inputs are F32. */
sw_status swi_want_f32(const char *op, const sw_type *in, int n_in);
/* out = in[0], after swi_want_f32. */
sw_status swi_infer_same(const char *op, const sw_type *in, int n_in, sw_type *out);
/* A scalar from F32 tensors of one shape, not empty. */
sw_status swi_infer_pair(const char *op, const sw_type *in, int n_in, sw_type *out);
/* The image layout in which all rank-4 inputs are, when they share shape and layout; else
 * plain. */
sw_layout swi_layout_keep(const sw_type *in, int n_in, const void *attrs);
/* That of in[0], whatever the others are. */
sw_layout swi_layout_first(const sw_type *in, int n_in, const void *attrs);
/* For the images of convolutions and pools, in[0]: blocks where their empty lanes are at most a
 * quarter of the batch, else plain. At most 15 lanes are empty: from a batch of
 * SWI_ONE_LAYOUT_FROM on it is always blocks. */
#define SWI_ONE_LAYOUT_FROM 60
sw_layout swi_layout_image(const sw_type *in, int n_in, const void *attrs);
/* NumPy's broadcasting; SW_INVALID names both shapes. */
sw_status swi_broadcast(const char *op, const sw_shape *a, const sw_shape *b, sw_shape *out);
/* Strides of `from` when it is broadcast to `to`: 0 where it repeats. */
void swi_broadcast_strides(const sw_buffer *from, const sw_shape *to, int64_t *stride);
/* The result and inputs a and b of a kernel as operands of kernels/strided.h. */
sw_nd swi_broadcast_nd(const sw_launch *l, int a, int b);
/* Element of a tensor of shape `from` under element i of shape `to`. */
int64_t swi_broadcast_index(int64_t i, const sw_shape *to, const sw_shape *from);
/* Options with their defaults; SW_INVALID where their size cannot be. */
sw_status swi_conv_opts(const sw_conv_opts *given, sw_conv_opts *out, const char *call);
bool swi_is_contiguous(const sw_buffer *b);

static inline const float *swi_in(const sw_launch *l, int i)
{
    return (const float *)l->in[i].ptr;
}
static inline float *swi_out(const sw_launch *l, int i)
{
    return (float *)l->out[i].ptr;
}
static inline bool swi_adds(const sw_launch *l, int i)
{
    return (l->accumulate >> i & 1u) != 0;
}

/* ---- what optimizers append -------------------------------------------------------------- */

/* A verdict is an f64 scalar: 0 where all is finite, else who is not: the entry of the
 * parameter whose gradient it is, or SWI_LOSS. */
#define SWI_LOSS (-1.0)

/* Does a product_bound read its factors? Where they have more elements than it is worth, it
 * says DBL_MAX instead. */
bool swi_bound_reads(const sw_type factors[2], const swi_bound_attrs *a);
/* Input i of which such an op reads one element, as a rule. */
bool swi_reads_one_element(uint32_t op, const sw_kernel_info *info, int i);

/* Updates of one parameter; those that are elementwise may be run on any run of elements. */
bool swi_is_update_op(uint32_t op);
bool swi_is_elementwise_update(uint32_t op);
/* Run an elementwise update on elements from .. from + n of the launch's parameter and states,
 * by `grad`, which holds the gradient of these n alone: the same bits as in one piece. The
 * launch is that of the whole parameter; its gradient is not looked at, and neither are its
 * verdict and flag (swi_update_is_off). */
void swi_update_elements(const sw_launch *l, const float *grad, int64_t from, int64_t n);
/* Has a verdict or a flag switched this update off? */
bool swi_update_is_off(const sw_launch *l);

/* ---- what ops cost: counted operations --------------------------------------------------- */

/* Operations per element of the formulas of kernels/scalar.h and kernels/rng.h, counted there
 * line by line: each +, -, *, /, comparison, conversion and step on the bits of a number is
 * one; a choice between two results is free. */
enum {
    SWI_EXP = 23,
    SWI_LOG = 33,
    SWI_LOG1P = 13,
    SWI_SIGMOID = SWI_EXP + 5,
    SWI_TANH = SWI_EXP + 11,
    SWI_SWISH = SWI_EXP + 8,
    SWI_SWISH_SLOPE = SWI_EXP + 14,
    SWI_SINCOS = 30,
    SWI_PHILOX = 25, /* ten rounds of ten for four elements */
    SWI_UNIFORM = SWI_PHILOX + 2,
    SWI_NORMAL = SWI_PHILOX + (SWI_LOG + SWI_SINCOS + 9) / 2 /* a pair by Box and Muller */
};

/* Sums and products that stay at UINT64_MAX. */
uint64_t swi_count_add(uint64_t a, uint64_t b);
uint64_t swi_count_mul(uint64_t a, uint64_t b);
/* `each` for each element of a type, lanes of padding not counted. */
uint64_t swi_count_each(const sw_type *type, uint64_t each);
/* Only moves bytes. */
uint64_t swi_count_none(const sw_kernel_info *info);

/* The gradient `g` of something broadcast from `shape`, summed back to that shape. */
sw_value swi_sum_to(sw_ctx *ctx, sw_value g, const sw_shape *shape);
sw_shape swi_shape_of(sw_ctx *ctx, sw_value x);
/* The value whose last axis the n slices cover, equal pieces of it in order; {0}: they do not.
 * An op on the whole makes the gradient of the whole, where one on its pieces would make pieces
 * to be put together. */
sw_value swi_whole_of(sw_ctx *ctx, const sw_value *pieces, int n);

#endif
