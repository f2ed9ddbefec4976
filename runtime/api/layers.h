/* Layers: open structs of parameters, which own nothing, and the functions that apply them in a
 * step function.
 *
 *     sw_linear first = sw_linear_new(model, "first", 784, 100);
 *     sw_linear second = sw_linear_new(model, "second", 100, 10);
 *     x = sw_relu(ctx, sw_apply_linear(ctx, first, x));
 *     x = sw_apply_linear(ctx, second, x);
 *     sw_output(ctx, "logits", x);
 */

typedef struct {
    sw_param weight, bias; /* (out, in), (out) */
    uint64_t reserved[2];  /* must be zero */
} sw_linear;
/* Channels of input and output fall into `groups` of equal size that do not meet (in and out:
 * depthwise); taps are `dilation` places apart. 0 counts as 1. */
typedef struct {
    sw_param weight, bias; /* (out, in / groups, kernel, kernel), (out) */
    int stride, pad;
    int groups, dilation;
    uint64_t reserved[1]; /* must be zero */
} sw_conv2d;
/* A transposed convolution, as decoders have it: sw_conv_transpose2d_op. */
typedef struct {
    sw_param weight, bias; /* (in, out / groups, kernel, kernel), (out) */
    int stride, pad, output_pad;
    int groups, dilation;
    uint64_t reserved[2]; /* must be zero */
} sw_conv_transpose2d;
/* Recurrent layers: `gates` is 4 for an LSTM (i, f, g, o) and 3 for a GRU (r, z, n), in the
 * order of PyTorch; biases may be {0}: none. */
typedef struct {
    sw_param weight_ih, weight_hh; /* (gates * hidden, in), (gates * hidden, hidden) */
    sw_param bias_ih, bias_hh;     /* (gates * hidden) */
    uint64_t reserved[2];          /* must be zero */
} sw_lstm;
typedef struct {
    sw_param weight_ih, weight_hh; /* as above */
    sw_param bias_ih, bias_hh;
    uint64_t reserved[2]; /* must be zero */
} sw_gru;
typedef struct {
    sw_param weight;      /* (vocabulary, width) */
    uint64_t reserved[2]; /* must be zero */
} sw_embedding;
/* Layers of bits; a bias may be {0}: none. */
typedef struct {
    sw_param logits, bias; /* (out, in) or (out, in, positions), (out) */
    uint64_t reserved[2];  /* must be zero */
} sw_binary_linear;
typedef struct {
    sw_param logits, bias; /* (out, in, kernel, kernel), (out) */
    int stride, pad;
    uint64_t reserved[2]; /* must be zero */
} sw_binary_conv2d;
/* Weights and biases may be {0}: none. */
typedef struct {
    sw_param weight, bias; /* (size), (size) */
    float epsilon;
    uint64_t reserved[2]; /* must be zero */
} sw_layer_norm;
typedef struct {
    sw_param weight; /* (size) */
    float epsilon;
    uint64_t reserved[2]; /* must be zero */
} sw_rms_norm;
typedef struct {
    sw_param weight, bias; /* (channels), (channels) */
    int64_t groups;
    float epsilon;
    uint64_t reserved[2]; /* must be zero */
} sw_group_norm;
typedef struct {
    sw_param weight, bias;              /* (channels), (channels) */
    sw_param running_mean, running_var; /* buffers (channels) */
    float momentum, epsilon;
    uint64_t reserved[2]; /* must be zero */
} sw_batch_norm2d;
/* Initialised like PyTorch's: uniform in +-1/sqrt(fan_in), weight and bias. Names get
 * ".weight", ".bias". Sizes that are negative or too large are an error of the declarations,
 * which sw_model_ready returns. */
SW_API sw_linear sw_linear_new(sw_model *model, const char *name, int64_t in, int64_t out);
/* As PyTorch's nn.LSTMCell and nn.GRUCell: all parameters uniform in +-1/sqrt(hidden). Names
 * get ".weight_ih", ".weight_hh", ".bias_ih", ".bias_hh". */
SW_API sw_lstm sw_lstm_new(sw_model *model, const char *name, int64_t in, int64_t hidden);
SW_API sw_gru sw_gru_new(sw_model *model, const char *name, int64_t in, int64_t hidden);
/* N(0, 1). The weight may serve as the weight of a linear op too (tied). */
SW_API sw_embedding sw_embedding_new(sw_model *model, const char *name, int64_t vocabulary,
                                     int64_t width);
/* Weight 1, bias 0; epsilon 1e-5, for RMS norm 2^-23; momentum 0.1, running mean 0 and variance
 * 1 in buffers ".running_mean", ".running_var". */
SW_API sw_layer_norm sw_layer_norm_new(sw_model *model, const char *name, int64_t size);
SW_API sw_rms_norm sw_rms_norm_new(sw_model *model, const char *name, int64_t size);
SW_API sw_group_norm sw_group_norm_new(sw_model *model, const char *name, int64_t groups,
                                       int64_t channels);
SW_API sw_batch_norm2d sw_batch_norm2d_new(sw_model *model, const char *name, int64_t channels);
/* stride 1, pad 0; set the fields for others. */
SW_API sw_conv2d sw_conv2d_new(sw_model *model, const char *name, int64_t in, int64_t out,
                               int kernel);
/* The same with options (NULL: all defaults). Groups that `in` is not a multiple of, and
 * options without their size, are an error of the declarations. */
SW_API sw_conv2d sw_conv2d_new_with(sw_model *model, const char *name, int64_t in, int64_t out,
                                    int kernel, const sw_conv_opts *opts);
/* The same for a transposed convolution; opts NULL: all defaults. */
SW_API sw_conv_transpose2d sw_conv_transpose2d_new(sw_model *model, const char *name,
                                                   int64_t in, int64_t out, int kernel,
                                                   const sw_conv_transpose_opts *opts);

/* Logits, uniform in -1 to 1, named ".logits", and a bias of zeros. positions above 1: of an
 * image of so many positions (h times w), which sw_binary_linear_op takes as it is. */
SW_API sw_binary_linear sw_binary_linear_new(sw_model *model, const char *name, int64_t in,
                                             int64_t out, int64_t positions);
/* stride 1, pad 0; set the fields for others. No groups, no dilation. */
SW_API sw_binary_conv2d sw_binary_conv2d_new(sw_model *model, const char *name, int64_t in,
                                             int64_t out, int kernel);

/* (batch, in) -> (batch, out): x W^T + b. (batch, in, h, w) -> (batch, out, h', w'). */
SW_API sw_value sw_apply_linear(sw_ctx *ctx, sw_linear layer, sw_value x);
SW_API sw_value sw_apply_conv2d(sw_ctx *ctx, sw_conv2d layer, sw_value x);
SW_API sw_value sw_apply_conv_transpose2d(sw_ctx *ctx, sw_conv_transpose2d layer, sw_value x);
/* A sequence through a recurrent layer: x (seq, batch, in) -> the hidden state after each step
 * (seq, batch, hidden), seq at least 1. *h and *c (batch, hidden) are the state before the
 * first step and become the state after the last; {0} before: zeros; NULL: zeros, and not
 * returned. They stay as they are where a call fails. Where state goes on in the next run,
 * sw_assign it, detached, to a state of the model.
 *
 * The product of the input is made for all steps at once; then each step has one product of
 * the hidden state and one cell, in the scopes "t0", "t1", ... of the layer. For each row and
 * hidden unit T steps keep, in floats: of an LSTM 4 T for its gates and T each for h and c,
 * which are recomputed from gates where that lowers the peak; of a GRU 6 T for its sums and T
 * for h. The gradients of all sums of the input take 4 T and 3 T beside them: 8 T to 10 T, and
 * 10 T. A loop over sw_apply_lstm_step() or sw_apply_gru_step() has these for one step at a
 * time, 4 T to 6 T and 7 T in all, and T small products in place of a large one. */
SW_API sw_value sw_apply_lstm(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h, sw_value *c);
SW_API sw_value sw_apply_gru(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h);
/* One step of it: x (batch, in) -> the hidden state after it, (batch, hidden); h and c as
 * above. */
SW_API sw_value sw_apply_lstm_step(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h,
                                   sw_value *c);
SW_API sw_value sw_apply_gru_step(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h);
/* ids (n...) of U8, U16 or I32 -> rows of the weight (n..., width). An id outside of the
 * vocabulary fails the run, with its value and place. Keeps the ids and nothing else. */
SW_API sw_value sw_apply_embedding(sw_ctx *ctx, sw_embedding layer, sw_value ids);
SW_API sw_value sw_apply_layer_norm(sw_ctx *ctx, sw_layer_norm layer, sw_value x);
SW_API sw_value sw_apply_rms_norm(sw_ctx *ctx, sw_rms_norm layer, sw_value x);
SW_API sw_value sw_apply_group_norm(sw_ctx *ctx, sw_group_norm layer, sw_value x);
SW_API sw_value sw_apply_batch_norm2d(sw_ctx *ctx, sw_batch_norm2d layer, sw_value x);
SW_API sw_value sw_apply_binary_linear(sw_ctx *ctx, sw_binary_linear layer, sw_value bits,
                                       sw_binary_result what);
SW_API sw_value sw_apply_binary_conv2d(sw_ctx *ctx, sw_binary_conv2d layer, sw_value bits,
                                       sw_binary_result what);
