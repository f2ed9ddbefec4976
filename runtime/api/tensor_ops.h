/* Ops: functions of values in a step function. Each comment says shapes, the formula, and what
 * the op keeps for backward.
 *
 *     sw_value y = sw_to_f32(ctx, sw_input(ctx, 0), 1 / 255.0f, 0);
 *     y = sw_max_pool(ctx, sw_relu(ctx, y), 2);
 *     y = sw_reshape(ctx, y, SW_SHAPE(-1, 14 * 14));
 *     y = sw_linear_op(ctx, y, sw_use(ctx, weight), sw_use(ctx, bias));
 *     sw_output(ctx, "y", sw_softmax(ctx, y));
 */

typedef struct {
    size_t size;
    int stride, pad;      /* stride 0: 1 */
    int groups, dilation; /* 0: 1 */
    int no_bias;
} sw_conv_opts;
typedef struct {
    size_t size;
    int stride, pad;      /* stride 0: 1 */
    int output_pad;       /* rows and columns more after the last; below the stride */
    int groups, dilation; /* 0: 1 */
    int no_bias;
} sw_conv_transpose_opts;

/* The same on values; bias {0}: none. */
SW_API sw_value sw_linear_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias);
SW_API sw_value sw_conv2d_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                             int stride, int pad);
/* With groups and dilation: weight (out, in / groups, kh, kw). Keeps x and the weight. */
SW_API sw_value sw_conv2d_op_with(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                                  const sw_conv_opts *opts);
/* Transposed convolution: x (batch, in, h, w), weight (in, out / groups, kh, kw) -> (batch,
 * out, h', w') with h' = (h - 1) stride - 2 pad + dilation (kh - 1) + output_pad + 1, w' alike.
 * It is the gradient of the input of the convolution that goes the other way, and runs on its
 * kernels, as do its own gradients. bias {0}: none; opts NULL: all defaults. Keeps x and the
 * weight. A parameter with the noise of an evolution strategy is SW_UNSUPPORTED. */
SW_API sw_value sw_conv_transpose2d_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                                       const sw_conv_transpose_opts *opts);
SW_API sw_value sw_embedding_op(sw_ctx *ctx, sw_value ids, sw_value table);
/* (..., m, k) x (..., k, n) -> (..., m, n); the axes before them broadcast by NumPy's rule.
 * Rank 2 at least. Views may be operands as they are: sw_matmul(ctx, q, sw_transpose(ctx, k,
 * -1, -2)). Keeps both operands. */
SW_API sw_value sw_matmul(sw_ctx *ctx, sw_value a, sw_value b);
/* While training each element is dropped (0) with probability p (0..1) and else divided by
 * 1 - p; in evaluation x itself. A dropped element is x * 0: NaN where x is not finite. Keeps
 * nothing: backward draws the same numbers again. The streams of a scope's calls are "dropout",
 * "dropout.1", "dropout.2" and so on, as they come. */
SW_API sw_value sw_dropout(sw_ctx *ctx, sw_value x, float p);
/* The same with the value that the knob has in each run, in [0, 1]: what sw_dropout drops with
 * that p, bit by bit, and for 0 x as it is. It counts as one of its scope's calls whatever the
 * rate is, where sw_dropout with p 0 does not. A run is SW_INVALID where the knob is not 0 to
 * 1, or is a learning rate, a weight decay or the bound of a norm too. */
SW_API sw_value sw_dropout_knob(sw_ctx *ctx, sw_value x, sw_knob p);
/* Augmentation of images (batch, c, h, w), U8 (as data sets have them, a quarter of the bytes)
 * or F32. While training sw_random_flip mirrors each image from left to right with probability
 * p (0 to 1), and sw_random_crop cuts it out of itself with `pad` rows and columns of zeros on
 * each side: it moves by -pad to pad rows and columns, each as probable. pad is at least 0 and
 * below height and width. In evaluation, and for 0, x itself. The draw for an image
 * depends on seed, step and its row in the batch. They keep nothing: backward draws the same
 * numbers again and takes the gradient back to where it belongs. The streams of a scope's calls
 * are "random_flip", "random_flip.1" and so on, as with dropout. */
SW_API sw_value sw_random_flip(sw_ctx *ctx, sw_value x, float p);
SW_API sw_value sw_random_crop(sw_ctx *ctx, sw_value x, int pad);

/* y = (x - mean) / sqrt(variance + epsilon) * weight + bias; weight and bias {0}: none, a bias
 * only with a weight. Layer norm: of each row of the last axis. RMS norm: the same with a mean
 * of 0. Group norm: (batch, c, ...), of each of `groups` groups of channels of each image. They
 * keep x and the statistics, one or two floats for each mean. */
SW_API sw_value sw_layer_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                                 float epsilon);
SW_API sw_value sw_rms_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, float epsilon);
SW_API sw_value sw_group_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                                 int64_t groups, float epsilon);
/* Batch norm: (batch, c, ...), of each channel. While training by the statistics of the batch,
 * of at least two numbers for each channel; keeps x and two floats for each channel, and
 * assigns to the buffers: old (1 - momentum) + new momentum, where the new variance is the
 * unbiased one. In evaluation by the buffers. */
SW_API sw_value sw_batch_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                                 sw_param running_mean, sw_param running_var, float momentum,
                                 float epsilon);

/* softmax(scale q k^T) v for each of `heads` heads: q (batch, queries, heads * size), k (batch,
 * keys, heads * size) and v (batch, keys, heads * value size) to (batch, queries, heads * value
 * size). causal: query i sees the keys 0 to i. scale 0: 1 / sqrt(size). They may be views;
 * where they are the three thirds of one tensor's last axis, as sw_split gives them, its
 * gradient is made at once, in its place. Keeps the three, the result, and one float for each
 * row and head: what is (queries, keys) exists in tiles alone. */
SW_API sw_value sw_attention(sw_ctx *ctx, sw_value q, sw_value k, sw_value v, int heads,
                             int causal, float scale);

/* Attention with options; opts must be given. It keeps what sw_attention keeps, first and past;
 * sw_attention is the case without heads_kv, first and past.
 *
 * heads, of q: at least 1. heads_kv, of k and v, which are (batch, keys, heads_kv * size) and
 * (batch, keys, heads_kv * value size): it divides heads; 0: heads. Head h of q reads head
 * h / (heads / heads_kv). They are never repeated in memory; their gradients are sums over the
 * heads of q that read them, in the order of these heads.
 *
 * causal: query i sees the keys up to past + i. scale 0: 1 / sqrt(size).
 *
 * first, I32 (batch, queries), 0 or more, with causal: query i sees the keys first[i] to
 * past + i, its own at least: a larger number counts as past + i. Rows of several documents
 * name the key where the document of each query begins; the result of a document then has the
 * bits that it has alone. {0}: all 0.
 *
 * past, I32, one number, with causal: keys before that of query 0, 0 to keys - queries. k and v
 * may be a cache that is longer than what it holds: keys that no query sees are not read, so
 * one plan serves every token. {0}: 0.
 *
 * In a run on the CPU numbers of first and past that are out of range are SW_INVALID; on a card
 * a negative first is 0 and past is the nearest that may be. */
typedef struct {
    size_t size;
    int heads, heads_kv; /* heads_kv 0: heads */
    int causal;
    float scale; /* 0: 1 / sqrt(size) */
    sw_value first, past;
} sw_attention_opts;
SW_API sw_value sw_attention_with(sw_ctx *ctx, sw_value q, sw_value k, sw_value v,
                                  const sw_attention_opts *opts);

/* Rotary positions (Su et al. 2021), half split as transformers has them. Of each head of x
 * (batch, rows, heads * size), size even and at most 512, numbers i and i + size / 2 are turned
 * by the angle position * frequency i: the first becomes x[i] cos - x[i + size / 2] sin, the
 * other x[i + size / 2] cos + x[i] sin. It keeps the positions: its gradient is turned
 * backwards, in its place. opts NULL: all defaults.
 *
 * positions, I32 (batch, rows): any numbers. theta, 1 or more, 0: 10,000: frequency i is
 * 1 / theta^(2 i / size). Frequencies and angles are float32 numbers, as transformers computes
 * them; cos and sin have the same bits on every machine.
 *
 * rule SW_ROTARY_LLAMA3 (Llama 3.1, "llama3" of config.json): a frequency with a wavelength
 * above original_context / low_freq_factor is divided by factor, one below original_context /
 * high_freq_factor stays, those between are mixed of both. All four must be given: factor 1 or
 * more, 0 < low_freq_factor < high_freq_factor, original_context 1 or more. With
 * SW_ROTARY_DEFAULT they must be 0. */
typedef enum { SW_ROTARY_DEFAULT, SW_ROTARY_LLAMA3 } sw_rotary_rule;
typedef struct {
    size_t size;
    int rule; /* sw_rotary_rule */
    float theta;
    float factor, low_freq_factor, high_freq_factor;
    int64_t original_context; /* tokens */
} sw_rotary_opts;
SW_API sw_value sw_rotary(sw_ctx *ctx, sw_value x, sw_value positions, int heads,
                          const sw_rotary_opts *opts);

/* Pointwise, any shape, F32. relu of NaN is NaN. relu and leaky relu keep their output where
 * another op keeps it anyway, else one bit for each element; tanh and sigmoid keep their
 * output. */
SW_API sw_value sw_relu(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_leaky_relu(sw_ctx *ctx, sw_value x, float slope);
SW_API sw_value sw_tanh(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_sigmoid(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_swish(sw_ctx *ctx,
                         sw_value x); /* x * sigmoid(x); keeps x and nothing else */
/* These keep x and nothing else. gelu: x times the share of the normal distribution below x
 * (exact, by the error function); gelu_tanh: its approximation by tanh. mish: x tanh(softplus
 * x). softplus: log(1 + e^x). hard_swish: x min(max(x + 3, 0), 6) / 6. elu: x, or
 * alpha (e^x - 1) where x is not above 0; selu: with the numbers of Klambauer et al. */
SW_API sw_value sw_gelu(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_gelu_tanh(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_mish(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_softplus(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_hard_swish(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_elu(sw_ctx *ctx, sw_value x, float alpha);
SW_API sw_value sw_selu(sw_ctx *ctx, sw_value x);
/* exp, sqrt and rsqrt (1 / sqrt x) keep their output, log and pow their input. A negative x has
 * powers of whole exponents only, else NaN; -inf has those of inf, as with C's pow. */
SW_API sw_value sw_exp(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_log(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_sqrt(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_rsqrt(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_pow(sw_ctx *ctx, sw_value x, float exponent);
/* Keep two bits and one bit for each element. The slope of abs is 0 at 0, that of clamp 1 at
 * its bounds. */
SW_API sw_value sw_abs(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_clamp(sw_ctx *ctx, sw_value x, float low, float high);
/* With broadcasting by NumPy's rule. */
SW_API sw_value sw_add(sw_ctx *ctx, sw_value a, sw_value b);
SW_API sw_value sw_mul(sw_ctx *ctx, sw_value a, sw_value b);
SW_API sw_value sw_sub(sw_ctx *ctx, sw_value a, sw_value b);
SW_API sw_value sw_div(sw_ctx *ctx, sw_value a, sw_value b);
/* a where the mask (U8) is not 0, else b. Keeps the mask. */
SW_API sw_value sw_where(sw_ctx *ctx, sw_value mask, sw_value a, sw_value b);
/* swish(a) b; keeps a and b and nothing else. Where they are the two halves of one tensor's
 * last axis, as sw_split gives them, its gradient is made at once, in its place. */
SW_API sw_value sw_swiglu(sw_ctx *ctx, sw_value a, sw_value b);
/* The cell of an LSTM (Hochreiter and Schmidhuber 1997; Gers et al. 2000): gates (..., 4
 * hidden) are sums before their functions, side by side in the order i, f, g, o; cell
 * (..., hidden). Returns h = o tanh(c') and sets *next (or NULL) to c' = f c + i g, both (...,
 * hidden), where i, f and o are sigmoids and g is a tanh of their sums. Keeps both operands and
 * nothing else. */
SW_API sw_value sw_lstm_cell(sw_ctx *ctx, sw_value gates, sw_value cell, sw_value *next);
/* The cell of a gated recurrent unit (Cho et al. 2014, in the form of PyTorch): a and b
 * (..., 3 hidden) are the sums of the input and of the hidden state, each with its bias, in the
 * order r, z, n; c is the hidden state h (..., hidden). Returns (1 - z) n + z h, where r and z
 * are sigmoids of the two sums together and n = tanh(a_n + r b_n). Keeps its operands and
 * nothing else. */
SW_API sw_value sw_gru_cell(sw_ctx *ctx, sw_value a, sw_value b, sw_value c);
SW_API sw_value sw_scale(sw_ctx *ctx, sw_value x, sw_knob factor);
SW_API sw_value sw_scale_by(sw_ctx *ctx, sw_value x, float factor);
/* U8 or I32 to F32: x * scale + shift. Phase data. */
SW_API sw_value sw_to_f32(sw_ctx *ctx, sw_value x, float scale, float shift);
/* The same with numbers for each of n channels (1 to 4; 1: one pair for all): x (batch, n,
 * ...). They are copied. */
SW_API sw_value sw_to_f32_channels(sw_ctx *ctx, sw_value x, const float *scale,
                                   const float *shift, int n);

/* (batch, c, h, w). k x k windows, stride k; sw_*_pool2d gives stride and padding their own
 * numbers; average pooling counts padding as zeros. Global pooling gives (batch, c, 1, 1). Max
 * pooling keeps which place won: two bits for each result where a window has at most four
 * places, else a byte: the first of equals, or the last NaN. Its windows have at most 255
 * places; global max pooling of larger images is sw_max_axes over both axes. Average pooling
 * keeps nothing. */
SW_API sw_value sw_max_pool(sw_ctx *ctx, sw_value x, int k);
SW_API sw_value sw_avg_pool(sw_ctx *ctx, sw_value x, int k);
SW_API sw_value sw_max_pool2d(sw_ctx *ctx, sw_value x, int k, int stride, int pad);
SW_API sw_value sw_avg_pool2d(sw_ctx *ctx, sw_value x, int k, int stride, int pad);
SW_API sw_value sw_global_max_pool(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_global_avg_pool(sw_ctx *ctx, sw_value x);

/* Images (batch, c, h, w) of another size: `factor` times as high and wide, or h x w, which may
 * be smaller. Nearest: row i is row floor(i h_in / h). Bilinear: row i lies at
 * max((i + 1/2) h_in / h - 1/2, 0), between two rows that count by how near they are; columns
 * alike (half-pixel centres: align_corners=False of PyTorch's interpolate). Positions are
 * worked out in whole numbers. Keeps nothing. */
typedef enum { SW_NEAREST, SW_BILINEAR } sw_upsample_mode;
SW_API sw_value sw_upsample(sw_ctx *ctx, sw_value x, int factor, sw_upsample_mode mode);
SW_API sw_value sw_upsample_to(sw_ctx *ctx, sw_value x, int64_t h, int64_t w,
                               sw_upsample_mode mode);

/* Layers of bits, for evolution strategies: no gradient passes through them. Bits are U8
 * tensors with the channels on the last axis, 64 to a word of 8 bytes: channel c is bit c % 64
 * of word c / 64 in the machine's byte order, and bits past the channels are 0. Rows are
 * (batch, bytes), images (batch, h, w, bytes), channels last. 1 stands for 1 and 0 for -1.
 *
 * sw_binarize: F32 (batch, c) or (batch, c, h, w) -> bits x > threshold.
 *
 * sw_binary_linear_op, sw_binary_conv2d_op: y = (2 equal - n) / sqrt(inputs) - bias, where
 * equal of n inputs have the bit of the weight, which is w > 0 of its logits. n is `inputs` but
 * where a kernel leaves the image: padding has no value. SW_BINARY_BITS: bits y > 0, (batch,
 * bytes) or (batch, h', w', bytes); SW_BINARY_SUMS: y as F32, (batch, out) or (batch, out, h',
 * w'). linear takes images as they are, with logits (out, in, positions). bias {0}: none.
 *
 * In a run with noise (sw_run_args.es) the logits, which must be of sw_logits_new, have bits of
 * each direction, by counter, made eight filters at a time where they are used; an evaluation
 * of negative sign has the bits of the mirrored draw 1 - u. The bias has noise as elsewhere,
 * sigma E. The estimate of a logit is the mean over evaluations of u (bit - P), the score of
 * the bit, made as max(P, 1 - P) (bit - mirrored bit) of antithetic pairs; sigma is no factor
 * of it. SW_UNSUPPORTED with "snes", and on devices.
 *
 * sw_binary_max_pool2d: OR over k x k windows. */
typedef enum { SW_BINARY_BITS, SW_BINARY_SUMS } sw_binary_result;
SW_API sw_value sw_binarize(sw_ctx *ctx, sw_value x, float threshold);
SW_API sw_value sw_binary_linear_op(sw_ctx *ctx, sw_value bits, sw_value logits, sw_value bias,
                                    sw_binary_result what);
SW_API sw_value sw_binary_conv2d_op(sw_ctx *ctx, sw_value bits, sw_value logits, sw_value bias,
                                    int stride, int pad, sw_binary_result what);
SW_API sw_value sw_binary_max_pool2d(sw_ctx *ctx, sw_value bits, int k, int stride);

/* (batch, c, h, w) times one number for each image and channel (batch, c, 1, 1), as
 * squeeze-and-excitation ends: sw_mul without copies for images in blocks. Keeps both. */
SW_API sw_value sw_channel_scale(sw_ctx *ctx, sw_value x, sw_value s);

/* F32, each element `value`. It is filled in each run, in the step arena, where it is
 * appended (phase forward), and again in backward rather than kept. A scalar broadcasts and
 * takes least: sw_full(ctx, SW_SCALAR, 2). A tensor that is placed once is a constant of the
 * model: sw_constant_new. */
SW_API sw_value sw_full(sw_ctx *ctx, sw_shape shape, float value);

/* Views: no bytes of their own where strides can say it, else a counted copy. */
SW_API sw_value sw_reshape(sw_ctx *ctx, sw_value x, sw_shape shape); /* one dim may be -1 */
SW_API sw_value sw_flatten(sw_ctx *ctx, sw_value x); /* (batch, everything else) */
SW_API sw_value sw_slice(sw_ctx *ctx, sw_value x, int axis, int64_t from, int64_t n);
/* Axis i of the result is axis axes[i] of x; two axes change places. Negative axes count from
 * the end. */
SW_API sw_value sw_permute(sw_ctx *ctx, sw_value x, const int *axes, int n);
SW_API sw_value sw_transpose(sw_ctx *ctx, sw_value x, int axis_a, int axis_b);
/* Pieces of `size` along an axis, the last one maybe smaller. Returns how many there are, 0
 * after an error; more than max_parts are one. */
SW_API int sw_split(sw_ctx *ctx, sw_value x, int64_t size, int axis, sw_value *parts,
                    int max_parts);
SW_API sw_value sw_concat(sw_ctx *ctx, const sw_value *x, int n, int axis);
/* n tensors of one shape and type (at most 32) along a new axis of length n: slice i of it is
 * x[i]. axis -1: after the last. Keeps nothing; each gradient is a slice of the result's. */
SW_API sw_value sw_stack(sw_ctx *ctx, const sw_value *x, int n, int axis);
SW_API sw_value sw_detach(sw_ctx *ctx, sw_value x); /* the same bytes, no gradient passes */

/* x in SW_F32, as is all that is computed from it later: of an exec that computes in bf16
 * (sw_exec_opts, compute), which else changes nothing. Inside a scope named "f32" every op is
 * kept so. */
SW_API sw_value sw_keep_f32(sw_ctx *ctx, sw_value x);

/* axes: a mask, SW_AXIS(0) | SW_AXIS(2), or SW_ALL_AXES; reduced axes are dropped. Here axes
 * count from 0; sw_sum_axes and its like take negative ones. */
#define SW_ALL_AXES 0u
#define SW_AXIS(i) (1u << (i))
SW_API sw_value sw_sum(sw_ctx *ctx, sw_value x, uint32_t axes);
SW_API sw_value sw_mean(sw_ctx *ctx, sw_value x, uint32_t axes);
/* Keeps which element won, the first of equals, in 1 byte for each result (up to 256 elements
 * each), 2 or 4. A NaN wins. The gradient goes to the winner. */
SW_API sw_value sw_max(sw_ctx *ctx, sw_value x, uint32_t axes);
/* The same with a list of n axes, negative ones from the end; n 0: all. With keepdim reduced
 * axes stay, of length 1. */
SW_API sw_value sw_sum_axes(sw_ctx *ctx, sw_value x, const int *axes, int n, int keepdim);
SW_API sw_value sw_mean_axes(sw_ctx *ctx, sw_value x, const int *axes, int n, int keepdim);
SW_API sw_value sw_max_axes(sw_ctx *ctx, sw_value x, const int *axes, int n, int keepdim);
/* I32: which element along the axis is the largest, the first of equals; the first NaN before
 * all numbers. No gradient passes, and nothing is kept. */
SW_API sw_value sw_argmax(sw_ctx *ctx, sw_value x, int axis, int keepdim);
/* Cumulative sums along an axis: element i is the sum of x's elements 0 to i, added one after
 * the other in float64 and rounded once each, whatever the number of threads. (A device adds
 * pieces of a line side by side: within rounding.) Keeps nothing. */
SW_API sw_value sw_cumsum(sw_ctx *ctx, sw_value x, int axis);
/* Over the last axis; keep their output. */
SW_API sw_value sw_softmax(sw_ctx *ctx, sw_value x);
SW_API sw_value sw_log_softmax(sw_ctx *ctx, sw_value x);

/* Philox: key seed; counter element, stream (scope path and name, at most 255 bytes), step, run
 * in step. */
SW_API sw_value sw_randn(sw_ctx *ctx, const char *stream, sw_shape shape); /* N(0, 1) */
SW_API sw_value sw_rand(sw_ctx *ctx, const char *stream, sw_shape shape);  /* [0, 1) */
