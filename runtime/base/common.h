/* Shared by all folders of runtime/: limits, roles, shapes, the op table, counts, threads. */
#pragma once

#include "alloc/base/base.h"
#include "kernels/attrs.h"
#include "kernels/stored.h"
#include "runtime/base/op_ids.h"
#include "runtime/base/op_traits.h"
#include "runtime/stepwell.h"
#include <stdbool.h>

#define SWI_NONE UINT32_MAX
#define SWI_MAX_MODELS 16
#define SWI_MAX_INPUTS 16
#define SWI_MAX_OPERANDS 40 /* inputs of one op (concat takes 32), outputs included */
#define SWI_MAX_MAKES 8     /* gradients of one kernel */
#define SWI_MAX_SCOPE 192

/* One list of roles; reports use these names. */
#define SWI_ROLES(X)                                                                           \
    X(PARAMETER, "parameter")                                                                  \
    X(OPTIMIZER_STATE, "optimizer_state")                                                      \
    X(BUFFER, "buffer")                                                                        \
    X(STATE, "state")                                                                          \
    X(KNOB, "knob")                                                                            \
    X(INPUT, "input")                                                                          \
    X(ACTIVATION, "activation")                                                                \
    X(SAVED, "saved")                                                                          \
    X(GRADIENT, "gradient")                                                                    \
    X(TEMPORARY, "temporary")                                                                  \
    X(WORKSPACE, "workspace")                                                                  \
    X(METRIC, "metric")                                                                        \
    X(OUTPUT, "output")
#define SWI_ROLE_ENUM(id, name) SWI_ROLE_##id,

typedef enum { SWI_ROLES(SWI_ROLE_ENUM) SWI_ROLE_COUNT } swi_role;
const char *swi_role_name(swi_role role);

/* Segments of a binding. */
enum {
    SWI_SEG_STEP = 0,
    SWI_SEG_INPUT = 1,                              /* + i */
    SWI_SEG_MODEL = SWI_SEG_INPUT + SWI_MAX_INPUTS, /* + i */
    SWI_SEG_COUNT = SWI_SEG_MODEL + SWI_MAX_MODELS
};

/* ---- shapes and types -------------------------------------------------------------------- */

/* Attributes are compared byte for byte: clear the struct, then copy the shape without what
 * lies past its rank. */
void swi_set_shape(sw_shape *to, const sw_shape *from);
void swi_set_fill(swi_fill_attrs *to, const sw_type *type, float value);

/* "(128, 10)" */
#define SWI_SHAPE_TEXT 160
const char *swi_shape_text(const sw_shape *shape, char *to);
/* The same, valid to the end of the block. */
#define SWI_SHAPE(shape) swi_shape_text(shape, (char[SWI_SHAPE_TEXT]){0})
bool swi_same_shape(const sw_shape *a, const sw_shape *b);
bool swi_same_type(const sw_type *a, const sw_type *b);
/* Of a shape that was checked; lanes are not counted. */
int64_t swi_elements(const sw_shape *shape);

static inline bool swi_is_number(sw_dtype dtype)
{
    return dtype == SW_F32 || dtype == SW_BF16;
}
/* Is an operand bf16, other than input `stored` (-1: none)? */
static inline bool swi_others_half(const sw_kernel_info *info, int stored)
{
    bool any = false;
    for (int i = 0; i < info->n_in + info->n_out; i++)
        any |= i != stored &&
               (i < info->n_in ? info->in[i] : info->out[i - info->n_in]).dtype == SW_BF16;
    return any;
}
static inline bool swi_any_half(const sw_kernel_info *info)
{
    return swi_others_half(info, -1);
}
/* The input of the op, or of kernel `grad` of it, that may be a weight of another type than the
 * numbers that it computes with; -1: none. */
int swi_stored_input(uint32_t op, int grad, const void *attrs);

/* SW_INVALID with names and shapes unless all inputs are F32, but for input `stored`, which may
 * be BF16, I8 or NF4. */
sw_status swi_want_f32(const char *op, const sw_type *in, int n_in);
sw_status swi_want_f32_or_stored(const char *op, const sw_type *in, int n_in, int stored);
/* `what` must be U8, U16 or I32. */
sw_status swi_want_ids(const char *op, const char *what, const sw_type *in);

/* out = in[0], after swi_want_f32. */
sw_status swi_infer_same(const char *op, const sw_type *in, int n_in, sw_type *out);

/* The image layout in which all rank-4 inputs are, when they share shape and layout; else
 * plain. */
sw_layout swi_layout_keep(const sw_type *in, int n_in, const void *attrs);

/* A view of all that the input has, as it lies. */
sw_status swi_view_all(const sw_buffer *in, const void *attrs, const sw_type *out,
                       int64_t *strides, int64_t *offset);

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
bool swi_is_contiguous(const sw_buffer *b);

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
    SWI_SINCOS = 30, /* of a turn */
    SWI_SINCOS_OF_ANGLE = 34,
    SWI_PHILOX = 25, /* ten rounds of ten for four elements */
    SWI_UNIFORM = SWI_PHILOX + 2,
    SWI_NORMAL = SWI_PHILOX + (SWI_LOG + SWI_SINCOS + 9) / 2 /* a pair by Box and Muller */
};

/* Sums and products that stay at UINT64_MAX. */
uint64_t swi_count_add(uint64_t a, uint64_t b);
uint64_t swi_count_mul(uint64_t a, uint64_t b);

/* `each` for each element of a type, lanes of padding not counted. */
uint64_t swi_count_per_element(const sw_type *type, uint64_t each);

/* Only moves bytes. */
uint64_t swi_count_none(const sw_kernel_info *info);

/* The ops inside, in the order of their numbers: SW_OPS_INSIDE, kept. library.c calls it. */
void swi_ops_register(const sw_op_desc *const *descs);
sw_status swi_op_register(const sw_op_desc *desc, uint32_t *id); /* sw_op_register */

const sw_op_desc *swi_op(uint32_t id);

/* Do only optimizers append it? Such an op writes into models. */
bool swi_op_is_private(uint32_t id);

/* An operand of a gradient kernel: SW_IN, SW_OUT or SW_DOUT of an index. */
#define SWI_OPERAND_KIND(operand) (0xff00u & (uint32_t)(operand))
#define SWI_OPERAND_INDEX(operand) (0x00ffu & (uint32_t)(operand))

/* The name of an op in what people read: of one that a step function applies the name of its
 * function, sw_<op>, else plain words: "linear", "input repacked for SIMD", "update by adam".
 * The text is `to`, or lives as long as the op; `gradient`: what it makes is one. */
#define SWI_WORDS_BYTES 64
const char *swi_op_words(uint32_t op, bool gradient, char to[SWI_WORDS_BYTES]);
/* One word for names of what it makes: "repacked". */
const char *swi_op_word(uint32_t op);

/* Elements first to first + n - 1 of a tensor of that shape. */
sw_status swi_init_values(float *to, int64_t first, int64_t n, const sw_shape *shape,
                          const char *init, uint64_t seed, const char *name);
sw_status swi_init_check(const char *init);

/* "uniform:-B,B" with all digits and a decimal point, whatever the locale. */
void swi_init_uniform(char *to, size_t bytes, double bound);
void swi_init_constant(char *to, size_t bytes, double value); /* "constant:V" */

typedef struct sw_pool sw_pool;
/* sharers: so many pools compute at the same time and share the processors. */
sw_status swi_pool_create(sw_pool **out, int threads, int sharers);
void swi_pool_destroy(sw_pool *pool);
const sw_par *swi_pool_par(sw_pool *pool);
/* Much work is coming: who sleeps is woken, so that it is there from the first region on. */
void swi_pool_wake(sw_pool *pool);
/* Floating-point policy of compute threads: denormals are zero. Returns the old word. */
uint32_t swi_fp_enter(void);
void swi_fp_leave(uint32_t old);
