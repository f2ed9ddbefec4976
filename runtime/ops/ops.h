/* Shared by the files of the ops. A new op is one file here, its kernel, and one line in
 * ops.def. */
#pragma once

#include "alloc/base/size.h"
#include "kernels/dense.h"
#include "kernels/ids.h"
#include "kernels/strided.h"
#include "runtime/base/common.h"
#include "runtime/graph/trace.h"

#define SW_OP(name, ...) extern const sw_op_desc sw_op_##name;
#include "runtime/ops.def"
#undef SW_OP

#define SWI_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- a descriptor and its tables ----------------------------------------------------------
 *
 *     static const sw_grad_desc grads[] = {
 *         GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), dx_kernel, dx_operations)};
 *     static const sw_op_case cases[] = {CASE("row", IN(F32(4, 5), F32(5)), AT(attrs[0]))};
 *     OP(name, 2, 3, 1, ATTRS(swi_attrs), .infer = infer, GRADS(grads),
 *        CHECKS(reference, cases));
 *
 * Each may be followed by fields of its struct. */
/* clang-format off */
#define OP(op, least, most, outputs, ...)                                                      \
    const sw_op_desc sw_op_##op = {.size = sizeof(sw_op_desc), .name = #op, .n_in = least,     \
                                   .max_in = most, .n_out = outputs, __VA_ARGS__}
#define ATTRS(type) .attrs_bytes = sizeof(type)
#define GRADS(table) .grads = table, .n_grads = SWI_COUNT(table)
#define CHECKS(by, table) .reference = by, .cases = table, .n_cases = SWI_COUNT(table)

/* A kernel and what counts its operations; fields may follow. */
#define GRAD(makes, operands, function, ...)                                                   \
    {makes, operands, .kernel = function, .operations = __VA_ARGS__}
#define MAKES(...) .n_makes = SWI_COUNT(((uint8_t[]){__VA_ARGS__})), .makes = {__VA_ARGS__}
#define FROM(...)                                                                              \
    .n_operands = SWI_COUNT(((uint16_t[]){__VA_ARGS__})), .operands = {__VA_ARGS__}

#define CASE(label, ...) {.name = label, __VA_ARGS__}
#define IN(...) MANY(SWI_COUNT(((sw_type[]){__VA_ARGS__})), __VA_ARGS__)
#define MANY(n, ...) .n_in = n, .in = {__VA_ARGS__} /* n inputs: the last type for all others */
#define AT(a) .attrs = &a
/* The numbers of inputs: FILL(UNIT, LABELS); NORMAL where none is given. */
#define FILL(...) SWI_FILL(__VA_ARGS__, NORMAL, NORMAL, NORMAL, NORMAL)
#define SWI_FILL(a, b, c, d, ...)                                                              \
    .fill = {SW_FILL_##a, SW_FILL_##b, SW_FILL_##c, SW_FILL_##d}

#define SWI_TYPE(dtype, layout, ...)                                                           \
    {dtype, layout, {SWI_COUNT(((int64_t[]){__VA_ARGS__})), {__VA_ARGS__}}}
#define F32(...) SWI_TYPE(SW_F32, SW_PLAIN, __VA_ARGS__)
#define F64(...) SWI_TYPE(SW_F64, SW_PLAIN, __VA_ARGS__)
#define N16(...) SWI_TYPE(SW_F32, SW_N16, __VA_ARGS__)
#define U8(...) SWI_TYPE(SW_U8, SW_PLAIN, __VA_ARGS__)
#define U16(...) SWI_TYPE(SW_U16, SW_PLAIN, __VA_ARGS__)
#define I32(...) SWI_TYPE(SW_I32, SW_PLAIN, __VA_ARGS__)
#define SCALAR {SW_F32, SW_PLAIN, {0, {0}}}

/* Functions of one expression: of l, r, info, or in, n_in, attrs and out. A kernel that cannot
 * fail DOES its statement. */
#define KERNEL(f, ...) static sw_status f(const sw_launch *l) { return __VA_ARGS__; }
#define DOES(f, ...) static sw_status f(const sw_launch *l) { __VA_ARGS__; return SW_OK; }
#define REFERENCE(f, ...) static sw_status f(const sw_reference *r) { return __VA_ARGS__; }
#define COUNT(f, ...) static uint64_t f(const sw_kernel_info *info) { return __VA_ARGS__; }
#define SCRATCH(f, ...) static size_t f(const sw_kernel_info *info) { return __VA_ARGS__; }
#define INFER(name, ...)                                                                       \
    static sw_status name(const sw_type *in, int n_in, const void *attrs, sw_type *out)        \
    {                                                                                          \
        (void)in, (void)n_in, (void)attrs, (void)out;                                          \
        return __VA_ARGS__;                                                                    \
    }

/* The type of the result; the gradient of the first input; element i of a reference. */
#define TYPE(name, ...) INFER(name, (out[0] = __VA_ARGS__, SW_OK))
#define RULE(name, ...)                                                                        \
    static void name(sw_ctx *ctx, const sw_rule *r)                                            \
    {                                                                                          \
        (void)ctx;                                                                             \
        r->din[0] = __VA_ARGS__;                                                               \
    }
#define BY_ELEMENT(name, ...)                                                                  \
    static sw_status name(const sw_reference *r)                                               \
    {                                                                                          \
        for (int64_t i = 0; i < swi_elements(&r->out_type[0].shape); i++)                      \
            r->out[0][i] = __VA_ARGS__;                                                        \
        return SW_OK;                                                                          \
    }

/* An op that only optimizers append: no gradients, no cases. */
#define SWI_APPENDED(op, least, most, outputs, ...)                                            \
    OP(op, least, most, outputs, .forward = op##_forward, .operations = op##_operations,       \
       .no_gradient = 1, __VA_ARGS__)
/* clang-format on */

/* Of what only copies: its first input. */
sw_status swi_copy_reference(const sw_reference *r);

/* The ids or labels of an operand. */
static inline sw_ids swi_ids_of(const sw_buffer *b)
{
    const sw_dtype dtype = b->type.dtype;
    return (sw_ids){dtype == SW_I32 ? b->ptr : NULL, dtype == SW_U16 ? b->ptr : NULL,
                    dtype == SW_U8 ? b->ptr : NULL, swi_elements(&b->type.shape)};
}

/* Options with their defaults; SW_INVALID where their size cannot be. */
sw_status swi_conv_opts(const sw_conv_opts *given, sw_conv_opts *out, const char *call);
sw_status swi_conv_transpose_opts(const sw_conv_transpose_opts *given,
                                  sw_conv_transpose_opts *out, const char *call);
/* The convolution of an image with w, as kernels have it. */
sw_conv swi_conv_geometry(const sw_type *image, const sw_shape *w, const swi_conv_attrs *a);
/* Does no window have a tap in the image? Kernels then read nothing of image, weights and the
 * other side, and take no scratch. */
bool swi_conv_misses(const sw_conv *s);
/* Positions of a convolution's result along an axis. */
static inline int64_t swi_conv_out(int64_t in, int64_t kernel, const swi_conv_attrs *a)
{
    return (in + 2 * a->pad - (kernel - 1) * a->dilation - 1) / a->stride + 1;
}

/* Products: in an order of bf16 where an operand is, other than the stored weight. */
static inline bool swi_is_half(const sw_buffer *b)
{
    return b->type.dtype == SW_BF16;
}
static inline sw_bf16_order swi_sum_order(const sw_launch *l, int stored)
{
    bool any = false;
    for (int i = 0; i < l->n_in + l->n_out; i++)
        any |= i != stored && swi_is_half(i < l->n_in ? &l->in[i] : &l->out[i - l->n_in]);
    return any ? l->order : SW_ORDER_NONE;
}

/* A weight in 8 or 4 bits, for its kernels, to *to; NULL: it has another type. */
static inline const sw_stored *swi_stored_of(const sw_buffer *b, sw_stored *to)
{
    const int64_t *dim = b->type.shape.dim;
    to->dtype = b->type.dtype;
    to->bytes = (unsigned char *)b->ptr;
    to->rows = dim[0];
    to->cols = dim[1];
    return sw_is_stored(to->dtype) ? to : NULL;
}
static inline const float *swi_in(const sw_launch *l, int i)
{
    return (const float *)l->in[i].ptr;
}
/* An op reads an input whatever its numbers choose, though compilers branch around loads whose
 * results a mask leaves out: so a plan's lifetimes do not depend on numbers. An empty input has
 * no byte to read. */
static inline void swi_touch(const sw_launch *l, int i)
{
    if (sw_type_elements(&l->in[i].type) > 0)
        (void)*(const volatile float *)l->in[i].ptr;
}
static inline float *swi_out(const sw_launch *l, int i)
{
    return (float *)l->out[i].ptr;
}
static inline bool swi_adds(const sw_launch *l, int i)
{
    return (l->accumulate >> i & 1u) != 0;
}

static inline int64_t swi_cols_of(const sw_shape *s)
{
    return s->dim[s->rank - 1];
}
static inline bool swi_is_axis(const swi_sum_attrs *a, int i)
{
    return (a->axes >> i & 1u) != 0;
}
/* Scratch for so many floats. */
static inline size_t swi_float_bytes(int64_t n)
{
    return sw_size_round((size_t)n * sw_dtype_bytes(SW_F32));
}

/* A finite check is an f64 scalar: 0 where all is finite, else who is not: the entry of the
 * parameter whose gradient it is, or SWI_LOSS. */
#define SWI_LOSS (-1.0)

/* The most partial sums that wait at one time while a rank runs so many shards. */
int swi_partial_sums(int shards);
/* The sum over a rank's shards becomes the mean over all; the sum of all ranks' numbers. */
SW_MUST_USE sw_status swi_shard_mean(const swi_shard_attrs *a, const sw_launch *l, float *to,
                                     int64_t n);
/* Bytes that each of so many ranks sends in a forward kernel: swi_run_sent. */
uint64_t swi_op_sends(uint32_t op, const sw_kernel_info *info, int ranks);
SW_MUST_USE sw_status swi_shard_add(const swi_shard_attrs *a, double *number);

/* Does a product_bound read its factors? Where they have more elements than it is worth, it
 * says DBL_MAX instead. */
bool swi_bound_reads(const sw_type factors[2], const swi_bound_attrs *a);

/* Input i of which such an op reads one element, as a rule. */
bool swi_reads_one_element(uint32_t op, const sw_kernel_info *info, int i);

/* The gradient `g` of something broadcast from `shape`, summed back to that shape. */
sw_value swi_sum_to(sw_ctx *ctx, sw_value g, const sw_shape *shape);

/* The value whose last axis the n slices cover, equal pieces of it in order; {0}: they do not.
 * An op on the whole makes the gradient of the whole, where one on its pieces would make pieces
 * to be put together. */
sw_value swi_whole_of(sw_ctx *ctx, const sw_value *pieces, int n);

/* The stream of the next call of `op`, of which `also` is another form (or the same): the
 * scope's first has the name of the op, "dropout", others "dropout.1" and so on. Two in one
 * scope must not draw the same numbers. */
#define SWI_STREAM_TEXT 32

/* x itself. Its backward also averages the utility of x's neurons into `state`, F32 (channels):
 * new = (1 - rate) old + rate u, where u of channel c is the mean over the batch of |mean over
 * positions of x dx| (Molchanov et al. 2017). x: (batch, channels, ...). It costs what backward
 * makes of it, and keeps x. */
sw_value swi_neuron_utility(sw_ctx *ctx, sw_value x, sw_param state, float rate);
