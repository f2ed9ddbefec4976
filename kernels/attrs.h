/* Attributes of ops: plain data that a launch points to, read by kernels of every device. They
 * are compared byte for byte, padding included, so whoever makes one clears it first. */
#pragma once

#include "kernels/launch.h"

typedef struct {
    sw_type type;
    float value;
} swi_fill_attrs;

typedef struct {
    sw_shape shape;
} swi_reshape_attrs;

typedef struct {
    int64_t axis, from, n;
} swi_slice_attrs;

typedef struct {
    swi_slice_attrs slice;
    sw_shape whole;
} swi_slice_grad_attrs;

typedef struct {
    int32_t n, axis[SW_MAX_RANK]; /* axis of the input that axis i of the result is */
} swi_permute_attrs;

#define SW_MAX_CHANNELS 4 /* that a conversion has numbers for */
typedef struct {
    int32_t channels; /* 1: one pair for all elements; else the length of axis 1 */
    float scale[SW_MAX_CHANNELS], shift[SW_MAX_CHANNELS];
} swi_to_f32_attrs;

typedef struct {
    sw_shape shape;
} swi_random_attrs;

typedef struct {
    int32_t stride, pad, dilation, groups;
} swi_conv_attrs;

/* Noise of a parameter, a matrix (rows, cols): kernels/noise.h. */
typedef struct {
    int32_t kind, distribution; /* sw_noise_kind, sw_noise_distribution */
    int32_t sides, rank;        /* PERMUTED, SIGN_FLIP; LOW_RANK */
    int64_t rows, cols;
    int64_t keep_rows, keep_cols; /* PERMUTED, SPARSE: positions that are not 0, in channels */
    int32_t taps;                 /* columns of a channel */
    uint32_t stream, window;      /* window: generations that the factor B stays; 0: one */
    int32_t zero;
} sw_noise_spec;

/* The noise that perturbs the result of a layer: of its weight and of its bias (rows 0: none).
 * A batch is (repeats, directions, rows of each evaluation). */
typedef struct {
    sw_noise_spec weight, bias;
    int64_t repeats, directions;
    int64_t channel_axis; /* noise_affine */
    int64_t kernel_h;     /* noise_conv2d: rows of taps */
    swi_conv_attrs conv;  /* noise_conv2d */
    int32_t antithetic;
    int32_t has_gain, has_shift, has_sigmas; /* noise_affine; operands that are there */
} swi_noise_attrs;

/* Of an op that makes a range of rows of its result: where it begins, and the rows of all; 1
 * where it can be no range of axis 0. */
typedef struct {
    int64_t first, all;
} swi_rows_attrs;

/* es_gradient: the sum over directions of weight times noise, plus l1 sign(theta) + l2 theta.
 * in: {weights (directions), [theta: dropout, bits, l1, l2], [sigma: dropout, bits], [scale of
 * the logits: bits], [sigmas of each element]}. */
typedef struct {
    swi_rows_attrs rows; /* of the matrix that spec sees */
    sw_noise_spec spec;
    sw_shape shape; /* of the parameter, all of it */
    float l1, l2;
    int32_t has_sigmas, antithetic; /* antithetic: bits have mirrored pairs */
    void *ranks;                    /* swi_ranks that share out the rows; NULL: none */
} swi_es_gradient_attrs;

/* snes_update: in {sigmas, weights (directions), rate, [finite check]}. */
typedef struct {
    sw_noise_spec spec;
    int32_t has_finite_check, zero;
} swi_snes_attrs;

/* noise_move: what is done with a parameter, by its numbers. BY_NOISE: theta += a z. STEP:
 * theta += a z; theta -= lr (c z + wd theta). ALL: theta += a z, theta -= 2 a z, then STEP. */
typedef enum { SWI_MOVE_BY_NOISE, SWI_MOVE_STEP, SWI_MOVE_ALL } swi_move;
enum { SWI_MOVE_A, SWI_MOVE_C, SWI_MOVE_LR, SWI_MOVE_WD, SWI_MOVE_NUMBERS };
typedef struct {
    sw_noise_spec noise;
    int32_t move;   /* swi_move */
    int32_t decays; /* 0: wd is not looked at */
} swi_move_attrs;

/* Layers of bits: their noise (rows 0 for none; repeats and directions 1 then), a kernel of
 * taps, sums in the place of bits. */
typedef struct {
    swi_noise_attrs noise;
    int32_t kernel_h, kernel_w, stride, pad;
    int32_t sums, has_bias;
} swi_binary_attrs;

/* noise_table: the result's shape, whose last axes but one are rows first, first + 1, ... */
typedef struct {
    swi_noise_attrs noise;
    sw_shape shape;
    int64_t first;
} swi_noise_table_attrs;

/* each: an op that makes a scalar of a batch, once for each of `evaluations` equal parts of it.
 */
enum { SWI_EACH_ATTRS = 112 }; /* bytes of the op's attributes that fit */
enum { SWI_EACH_NAME = 24 };
typedef struct {
    int64_t evaluations;
    uint32_t op;
    int32_t zero;
    char name[SWI_EACH_NAME]; /* of the op, cut: by it a device finds what it has */
    unsigned char attrs[SWI_EACH_ATTRS];
} swi_each_attrs;

typedef struct {
    int32_t kernel_h, kernel_w, stride, pad;
} swi_pool_attrs;

/* random_flip: the share of images that is mirrored. random_crop: rows and columns of zeros on
 * each side. The other one is 0. */
typedef struct {
    float flip;
    int32_t pad;
} swi_augment_attrs;

typedef struct {
    float value; /* slope, factor, target */
} swi_number_attrs;

typedef struct {
    sw_dtype dtype; /* SW_F32 or SW_BF16 */
} swi_cast_attrs;

typedef struct {
    float low, high;
} swi_range_attrs;

/* softmax_ce: smoothing 0 and no ignored label are what sw_softmax_ce asks for. */
typedef struct {
    float smoothing;
    int32_t has_ignore, ignore;
} swi_ce_attrs;

/* linear_ce: the rows whose logits exist at one time, 0: all. They change bytes and no bits. */
typedef struct {
    int64_t rows;
    swi_ce_attrs ce;
    int32_t zero;
} swi_linear_ce_attrs;

/* noise_linear_ce: as linear_ce, rows first. */
typedef struct {
    int64_t rows;
    swi_ce_attrs ce;
    int32_t has_bias;
    swi_noise_attrs noise;
} swi_noise_ce_attrs;

/* attention: of q, k and v, or of one tensor that has the three side by side. scale 0: 1 / the
 * root of a head's size; heads_kv 0: heads. first and past follow the three where they are
 * there.
 */
typedef struct {
    int32_t heads, causal;
    float scale;
    int32_t heads_kv, has_first, has_past;
} swi_attention_attrs;

/* rotary: sw_rotary_opts, theta not 0. */
typedef struct {
    int64_t original_context;
    int32_t heads, rule;
    float theta, factor, low_freq_factor, high_freq_factor;
} swi_rotary_attrs;

typedef struct {
    int64_t axis;
} swi_concat_attrs;

/* cumsum: along `axis`, which is counted from the first. */
typedef struct {
    int64_t axis;
} swi_line_attrs;

/* upsample: the size of the result's images. */
typedef struct {
    int64_t h, w;
    int32_t mode, zero; /* sw_upsample_mode */
} swi_upsample_attrs;

/* conv_transpose2d: those of the convolution whose gradient it is, and rows and columns more
 * after the last. */
typedef struct {
    swi_conv_attrs conv;
    int32_t output_pad, zero;
} swi_conv_transpose_attrs;

/* sum and max: axes of the input that are reduced (dropped unless keep). expand: the shape of
 * the result and the axes of it along which the input is repeated. sum and expand multiply by
 * scale. */
typedef struct {
    uint32_t axes;
    int32_t keep;
    double scale;
    sw_shape shape;
} swi_sum_attrs;

typedef struct {
    float beta1, beta2; /* adam_tick; steps_tick: decay, and 0 */
    int16_t has_flags;
    int16_t reads; /* SWI_READS of the operand after the flags; 0: it is not there */
    int32_t has_finite_check;
} swi_tick_attrs;

typedef struct {
    float epsilon;
    float momentum; /* batch norm's running statistics: the share of the batch */
    int64_t groups; /* group norm */
} swi_norm_attrs;

/* Numbers of an update that stand after the rate in its operand, in this order: they are
 * knobs, and those of the attributes are not looked at. */
enum { SWI_READS_DECAY = 1, SWI_READS_MOMENTUM = 2, SWI_READS_BETAS = 4 };

/* Of all updates: in {param, grad, lr, states..., [corrections], [scale], [flag], [finite
 * check]}, out {param, states...}. */
typedef struct {
    float weight_decay, momentum, beta1, beta2, epsilon;
    float threshold, least; /* adafactor */
    int32_t rule;           /* sw_optim, of what is elementwise */
    int16_t decoupled, fixed;
    int32_t reads; /* bits of SWI_READS; 0: lr is the rate alone */
    int32_t n_state, has_corrections, has_scale, has_flag, has_finite_check;
} swi_update_attrs;

/* The check that every element is finite; `code` is the answer where one is not. */
typedef struct {
    double code;
    int32_t has_before, has_flag, has_bound;
    int32_t is_bounded; /* has_bound, and the bound reads its factors: x is rarely read too */
} swi_finite_attrs;

/* Of ops between the gradients of a step's shards and its updates (runtime/ops/shards.c). */
typedef struct {
    struct sw_ranks *ranks; /* NULL: one */
    int32_t here, shards;   /* of each rank; in all */
} swi_shard_attrs;

/* tile_update. in: the operands of the kernel that makes the gradient; those of the check (op
 * `finite`) of it, where there is one; those of the update; the gradient and the finite check
 * on it left out. out: those of the update, then the finite check. */
enum {
    SWI_TILE_ATTRS = 128,
    SWI_TILE_MAKE_ATTRS = 184
}; /* bytes of an update's attributes,
      and of a maker's, that fit */
typedef struct {
    uint32_t make_op, update_op;
    int32_t make_grad;          /* the kernel: index in make_op's grads; -1: its forward one */
    int32_t n_make;             /* its operands */
    int32_t has_check, n_check; /* is the gradient looked at; operands */
    swi_finite_attrs check;
    int64_t rows;          /* of the parameter, at a time; the last tile may have fewer */
    swi_shard_attrs shard; /* shards above 1: of the gradient the mean over them updates */
    unsigned char make[SWI_TILE_MAKE_ATTRS]; /* attributes of the maker */
    unsigned char attrs[SWI_TILE_ATTRS];     /* of the update; aligned as what is before it */
} swi_tile_attrs;

/* A product sums so many terms for each element; factors of more elements than `worth` cost
 * more to look at than it does. */
typedef struct {
    int64_t terms, worth;
} swi_bound_attrs;

/* in_strips. A matrix z; f is a function of one number, f' its gradient kernel. Strip by strip:
 * PRODUCT in {z, w, [b]}, out {y}: f(z), and the forward kernel of `body`. LOSS in {z, target},
 * out {loss}. LOSS_DX in {z, target, d loss}, out {dz}: f(z), the loss's gradient, f'. UPDATE
 * in {z, dy, tile_update's operands from its check on}, out {dz, those of tile_update}: dx of
 * `body`, f(z), f', and tile_update with f(z) as its first operand. */
typedef enum {
    SWI_STRIPS_PRODUCT,
    SWI_STRIPS_LOSS,
    SWI_STRIPS_LOSS_DX,
    SWI_STRIPS_UPDATE
} swi_strips_kind;

typedef struct {
    int32_t kind; /* swi_strips_kind */
    uint32_t f, body;
    int32_t f_grad, body_grad; /* kernels: index in the op's grads; -1: its forward one */
    int32_t has_bound;         /* UPDATE: the check's bound is found here */
    int64_t strip;             /* rows; of LOSS and LOSS_DX elements, of UPDATE columns */
    swi_number_attrs number;   /* of f */
    int32_t rebuilds;          /* f(z) was there before: a part of backward makes it again */
    uint64_t rebuild_cost;
    swi_bound_attrs bound;
    swi_tile_attrs tile;
} swi_strips_attrs;

/* in_images. Ops that go image by image, SWI_IMAGES of the batch at a time, in the order that
 * they stand in; what they leave for each other alone lies in scratch, for so many images. An
 * operand is one of the node (inputs, then outputs), SWI_IMAGES_INNER + a place in `inner`, or
 * SWI_IMAGES_NONE: an extra that no one reads. */
enum {
    SWI_IMAGES = 32, /* two blocks, of which a weight's gradient is one partial sum */
    SWI_IMAGES_OPS = 6,
    SWI_IMAGES_OPERANDS = 4, /* of an op */
    SWI_IMAGES_INNER = 64,
    SWI_IMAGES_NONE = -1
};
typedef struct {
    uint32_t op;
    int32_t grad;
    int16_t n_in, n_out;
    uint32_t whole; /* bit i: operand i has no batch; as an output it is added to */
    int16_t units;  /* bf16: of a piece; 0: by the shapes; SWI_IMAGES_NONE: in no pieces */
    int16_t alone;  /* 1: each block of sixteen goes through it alone; 2: right after the op
                       before it; 0: threads share it */
    int8_t operand[SWI_IMAGES_OPERANDS];
    unsigned char attrs[48]; /* aligned as what is before it */
} swi_images_op;
typedef struct {
    sw_type type; /* of the whole batch */
    uint64_t at;  /* in scratch */
} swi_images_inner;
typedef struct {
    int64_t batch, parts; /* of SWI_IMAGES images each, the last of the rest */
    uint64_t inner_bytes; /* of scratch; the ops' own is after it */
    uint64_t rebuild_cost;
    int32_t rebuilds; /* ops inside that run again since they are cheap */
    int32_t n_ops;
    swi_images_op ops[SWI_IMAGES_OPS];
    swi_images_inner inner[SWI_IMAGES_OPS];
} swi_images_attrs;

typedef struct {
    int32_t has_flags;
} swi_count_attrs;

/* Counts of an optimizer (f64): updates that were skipped, in all and in a row, the last finite
 * check that was not 0, and the finite check of losses whose gradients wait for an update. */
enum { SWI_SKIPPED_ALL, SWI_SKIPPED_NOW, SWI_SKIPPED_WHO, SWI_SKIPPED_NEXT, SWI_SKIPPED_N };
#define SWI_FINITE_CHECKS 32 /* that one op looks at */
/* A bound below this, so far below the largest float, says that no sum on the way to it was
 * infinite. */
#define SWI_SURELY_FINITE 1e38
