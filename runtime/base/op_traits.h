/* Traits of an op beside its descriptor, so that no pass names one: the words of its line in
 * ops.def. Ops from outside have the default. */
#pragma once

#include <stdint.h>

/* Who applies it: the words are explained in ops.def. */
typedef enum {
    SWI_CALL_ONE,
    SWI_CALL_TWO,
    SWI_CALL_THREE,
    SWI_CALL_NUMBER,
    SWI_CALL_OWN,
    SWI_CALL_INSIDE,
    SWI_CALL_OPTIMIZER
} swi_op_call;

/* How fast its arithmetic goes. */
typedef enum {
    SWI_WORK_VECTOR,    /* element by element in full vectors */
    SWI_WORK_BROADCAST, /* the same where inputs 0 and 1 have one shape; else as loops */
    SWI_WORK_LAID,      /* moves all elements to other places */
    SWI_WORK_LOOPS,     /* loops as compilers make them, float64; ops from outside */
    SWI_WORK_LOSS,      /* forward as loops, its gradients in vectors */
    SWI_WORK_ROWS,      /* forward by maxima and sums along rows, its gradients in vectors */
    SWI_WORK_MATRIX,    /* products; with one operand, the bias's gradient, in vectors */
    SWI_WORK_IMAGES,    /* convolutions; with one operand, the bias's gradient, as loops */
    SWI_WORK_SERIAL,    /* each element waits for the one before */
    SWI_WORK_TILES,     /* a product, and an update of its result */
    SWI_WORK_STRIPS     /* products and functions of one number */
} swi_op_work;

/* Facts that passes and optimizers have to know of it. */
typedef enum {
    SWI_DUTY_NONE,
    SWI_DUTY_FACTORS,      /* its gradient of input 1 is the product of two factors */
    SWI_DUTY_PARTS,        /* goes through the rows of input 0 in parts, and through input 1 in
                              each; its attributes begin with the rows of a part */
    SWI_DUTY_ROWS,         /* makes any range of rows of its result, which its attributes begin
                              with (swi_rows_attrs) */
    SWI_DUTY_MEAN,         /* the mean of input 0 over the shards of a step */
    SWI_DUTY_CHECK,        /* says whether input 0 is finite */
    SWI_DUTY_JOIN,         /* joins two such verdicts */
    SWI_DUTY_TICK,         /* counts steps, unless a verdict forbids it */
    SWI_DUTY_UPDATE,       /* updates a parameter, element by element */
    SWI_DUTY_UPDATE_WHOLE, /* updates a parameter, all of it at once */
    SWI_DUTY_TILED,        /* makes a gradient and updates by it, some rows at a time */
    SWI_DUTY_STRIPS,       /* ops that make and use up a matrix, a strip of it at a time */
    SWI_DUTY_IMAGES        /* ops that go some images at a time */
} swi_op_duty;

/* Which axes of its operands are one: where a net gets other widths, a position is added to, or
 * taken from, all of them at once. An axis that is not tied here cannot be resized. */
typedef enum {
    SWI_AXES_NONE,     /* none */
    SWI_AXES_FREE,     /* none, and each may have any length: all elements are alike */
    SWI_AXES_MOVES,    /* the result is the input, at most laid in another way */
    SWI_AXES_SAME,     /* element by element: equal axes, counted from the last, of inputs and
                          outputs */
    SWI_AXES_HALVES,   /* the same of two inputs; or of one, the two halves of its last axis */
    SWI_AXES_GATES,    /* rows of hidden units, or of several runs of them side by side */
    SWI_AXES_RESHAPE,  /* axes that are as they were; a run of axes that become one, or one that
                          becomes a run: the one of the run whose length changes */
    SWI_AXES_PERMUTE,  /* swi_permute_attrs */
    SWI_AXES_SLICE,    /* swi_slice_attrs */
    SWI_AXES_CONCAT,   /* swi_concat_attrs */
    SWI_AXES_LINEAR,   /* (..., in), (out, in), (out) -> (..., out); `in` is summed over */
    SWI_AXES_CONV,     /* (n, in, ...), (out, in / groups, ...), (out) -> (n, out, ...); `in` is
                          summed over, unless each channel has its own group */
    SWI_AXES_MATMUL,   /* (..., m, k), (..., k, n) -> (..., m, n); k is summed over */
    SWI_AXES_IMAGE,    /* (n, c, ...) -> (n, c, ...): the first two axes */
    SWI_AXES_CHANNELS, /* (n, c, ...) or (c), and others whose last axis is c */
    SWI_AXES_NORM,     /* (..., c), others (c); normalised over c */
    SWI_AXES_ROWS,     /* all but the last axis */
    SWI_AXES_ALONG,    /* swi_line_attrs: all but one axis */
    SWI_AXES_REDUCE,   /* swi_sum_attrs: axes that stay */
    SWI_AXES_LOOKUP,   /* ids (n...), (rows, width) -> (n..., width); rows are numbered */
    SWI_AXES_HEADS,    /* swi_attention_attrs: (n, s, heads size); a head is one unit, unless
                          heads of q share one of k and v */
    SWI_AXES_LOSS,     /* the end of a net */
    SWI_AXES_LINEAR_LOSS, /* (rows, in), (out, in), (out); `in` is summed over, the rest ends */

    /* (n, in, ...), (in, out / groups, ...), (out) -> (n, out, ...); `in` is summed over,
     * unless each channel has its own group. */
    SWI_AXES_CONV_TRANSPOSE
} swi_op_axes;

/* Its part in a run with noise on parameters (graph/trace_noise.c). */
typedef enum {
    SWI_NOISE_NONE,        /* it may not read a parameter with noise */
    SWI_NOISE_VIEW,        /* what reads its result reads the parameter */
    SWI_NOISE_LINEAR,      /* x, weight [, bias] */
    SWI_NOISE_CONV,        /* the same, swi_conv_attrs */
    SWI_NOISE_LOOKUP,      /* ids, table */
    SWI_NOISE_NORM,        /* x, statistics [, weight [, bias]] of the channels */
    SWI_NOISE_SHIFT,       /* a + b: a vector along the last axis or the channels */
    SWI_NOISE_GAIN,        /* a b: the same */
    SWI_NOISE_LOSS,        /* one number of a batch: one of each evaluation */
    SWI_NOISE_REDUCE,      /* the same where it is over all axes */
    SWI_NOISE_LINEAR_LOSS, /* x, weight, labels [, bias] */
    SWI_NOISE_BITS         /* x, logits [, bias], swi_binary_attrs */
} swi_op_noise;

/* Its numbers in a run that computes in bf16, and along what its float32 kernels are cut there
 * (runtime/device/pieces.h). A result is bf16 where an input is; those of products,
 * convolutions and lookups always are. Parameters and their gradients, statistics and scalars
 * stay float32. */
typedef enum {
    SWI_HALVES_NONE,     /* float32 alone: inputs are widened, results are not rounded */
    SWI_HALVES_NEVER,    /* the same inside of what is kept in float32; else an error */
    SWI_HALVES_MOVES,    /* views and copies: of any type */
    SWI_HALVES_FLAT,     /* element by element */
    SWI_HALVES_FUNCTION, /* the same; kernels read and write both types */
    SWI_HALVES_LINES,    /* along all axes but the last */
    SWI_HALVES_READS,    /* the same; results stay float32 */
    SWI_HALVES_ROWS,     /* the same; inputs after the first are weights: whole */
    SWI_HALVES_LOOKUP,   /* rows of a table by ids: the same */
    SWI_HALVES_IMAGES,   /* along the first axis, blocks of sixteen images whole */
    SWI_HALVES_PLANES,   /* the same; kernels read and write both types */
    SWI_HALVES_GROUPS,   /* as IMAGES; inputs after the first are weights */
    SWI_HALVES_CONV, /* swi_conv_attrs. One position without stride: kernels of both types; a
                       group for each channel: the same, or along axis 1; else as GROUPS */
    SWI_HALVES_CHANNELS,  /* along axis 1, or the one axis of vectors; kernels read and write
                             both types of images */
    SWI_HALVES_BROADCAST, /* along the first axis of the result that is longer than 1 */
    SWI_HALVES_PRODUCT,   /* kernels that read and write both types */
    SWI_HALVES_ALIKE,     /* the same; inputs have one type */
    SWI_HALVES_LOSS /* the same; the first extra has the type of input 0, the result is float32
                     */
} swi_op_halves;

typedef struct {
    swi_op_call call;
    swi_op_work work;
    swi_op_duty duty;
    swi_op_axes axes;
    swi_op_noise noise;
    swi_op_halves halves;
} swi_op_traits;

const swi_op_traits *swi_op_traits_of(uint32_t op);

/* The op that has a duty which one op has. */
uint32_t swi_op_with(swi_op_duty duty);
