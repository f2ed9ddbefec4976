/* Losses, and the accuracy: scalars of a step.
 *
 *     sw_value loss = sw_softmax_ce(ctx, logits, labels);
 *     sw_metric(ctx, "loss", loss);
 *     sw_metric(ctx, "accuracy", sw_accuracy(ctx, logits, labels));
 *     sw_backward(ctx, loss, &optimizer, 1);
 *     sw_update(ctx, optimizer);
 */

/* Losses: a scalar, the mean over the batch (over all elements for mse and bce). Phase loss.
 * labels (rows) of U8, U16 or I32 in 0..classes-1; anything else fails the run. */
SW_API sw_value sw_softmax_ce(sw_ctx *ctx, sw_value logits, sw_value labels);
/* With label smoothing (0..1: the label's target is 1 - smoothing, and smoothing / classes is
 * added to each class) and a label with rows that do not count (-100 in PyTorch; one that no
 * row has: none). The mean over the rows that count; 0, without a gradient, where none does. */
SW_API sw_value sw_softmax_ce_with(sw_ctx *ctx, sw_value logits, sw_value labels,
                                   float smoothing, int32_t ignore);
/* sw_softmax_ce of x W^T + b for a large vocabulary: x (rows, width), weight (classes, width),
 * bias (classes) or {0}. The gradients are made with the loss, where something needs them, and
 * wait for backward: x and the logits do not. The loss and, where nothing scales it, all
 * gradients have the bits of the two ops; with sw_softmax_ce_with's choices too. */
SW_API sw_value sw_linear_ce(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                             sw_value labels);
SW_API sw_value sw_linear_ce_with(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                                  sw_value labels, float smoothing, int32_t ignore);
SW_API sw_value sw_mse(sw_ctx *ctx, sw_value x, sw_value target);
SW_API sw_value sw_bce(sw_ctx *ctx, sw_value logits, float target);
SW_API sw_value sw_bce_with(sw_ctx *ctx, sw_value logits, sw_value targets);
/* Means over all elements. huber: (x - t)^2 / 2 up to |x - t| = delta, above 0, from there on a
 * line, delta (|x - t| - delta / 2). l1: |x - t|. */
SW_API sw_value sw_huber(sw_ctx *ctx, sw_value x, sw_value target, float delta);
SW_API sw_value sw_l1(sw_ctx *ctx, sw_value x, sw_value target);
/* Kullback-Leibler divergence from logarithms of probabilities to probabilities: the sum of
 * t (log t - x) by the first dim (PyTorch's "batchmean"). Keeps t alone; where t is 0 its term
 * and its gradient are 0. */
SW_API sw_value sw_kl_div(sw_ctx *ctx, sw_value log_probabilities, sw_value probabilities);
/* The share of rows where the largest logit is the label: a scalar in 0..1. A NaN is the
 * largest. */
SW_API sw_value sw_accuracy(sw_ctx *ctx, sw_value logits, sw_value labels);
