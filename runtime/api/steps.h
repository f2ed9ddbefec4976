/* The step function: what a run computes, and what leaves it.
 *
 *     sw_value loss = sw_mse(ctx, sw_input(ctx, 0), sw_input(ctx, 1));
 *     sw_metric(ctx, "loss", loss);
 *     sw_backward(ctx, loss, &optimizer, 1);
 *     if (sw_ctx_mode(ctx) == SW_TRAIN)
 *         sw_update(ctx, optimizer);
 */

/* The ctx ends with the step function; its functions then do nothing (SW_STALE). */
typedef void sw_step_fn(sw_ctx *ctx, void *user);

SW_API sw_value sw_input(sw_ctx *ctx, int i);
SW_API int sw_rank(sw_ctx *ctx, sw_value x);
SW_API int64_t sw_dim(sw_ctx *ctx, sw_value x, int axis); /* axis < 0 counts from the end */
SW_API sw_mode sw_ctx_mode(sw_ctx *ctx);
/* The parameter, buffer or state as a value, at its present version. */
SW_API sw_value sw_use(sw_ctx *ctx, sw_param param);
/* A new version of a state or buffer; same shape and type. Later sw_use sees it; the bytes are
 * written at the end of the run. */
SW_API void sw_assign(sw_ctx *ctx, sw_param state, sw_value x);
/* Rows [at, at + n) of axis 1 of a state or buffer (batch, rows, width) become x (batch, n,
 * width), at once and in place: what was read before it has the rows as they were. `at` is one
 * I32 number, so one plan serves every place, as of the keys and values of each token in a
 * cache. Later sw_use sees it. SW_INVALID in a run where it is not 0 to rows - n. In training
 * mode it is refused: backward reads what the state was. Like an update it is not undone where
 * the run fails later. On the CPU alone. */
SW_API void sw_assign_rows(sw_ctx *ctx, sw_param state, sw_value x, sw_value at);

/* Append the gradients of what these optimizers own; others pass through or are pruned. */
SW_API void sw_backward(sw_ctx *ctx, sw_value loss, sw_optimizer *const *optimizers, int n);
/* Add this run's gradients to the kept ones (keep_gradients), or begin with them where none is
 * kept. So N micro-batches give what one batch of their rows gives, within rounding, in the
 * memory of a small one and the kept gradients. A loss that is a mean over the batch counts N
 * times as much as its share: scale it, sw_scale(ctx, loss, a knob of 1 / N), before
 * sw_backward; the metrics of the N runs then add up to the mean of all. In each run but the
 * last sw_accumulate ends the step function, in the last one sw_update (sw_clip_norm before it)
 * does it, two variants of one function; sw_run_args.step stays and .run counts. Random ops
 * draw by run too, so other numbers than in the large batch, and statistics of batch norm are
 * those of each micro-batch. */
SW_API void sw_accumulate(sw_ctx *ctx, sw_optimizer *optimizer);
/* Scale the gradients of the next sw_update so that their global norm is at most `max`. */
SW_API void sw_clip_norm(sw_ctx *ctx, sw_optimizer *optimizer, sw_knob max);
/* Update what has a gradient, from this run or kept, and use it up: with keep_gradients each
 * parameter's kept gradient is added to this run's, and serves one update. A parameter without
 * one stays as it is, its optimizer state too. An error when there cannot be any. */
SW_API void sw_update(sw_ctx *ctx, sw_optimizer *optimizer);

/* A scalar that leaves the run: sw_metric_get. Names have 1 to 47 bytes, here and below. */
SW_API void sw_metric(sw_ctx *ctx, const char *name, sw_value scalar);
/* A tensor that leaves the run: sw_output_get, until the exec's next run. */
SW_API void sw_output(sw_ctx *ctx, const char *name, sw_value x);

/* Overrides until sw_clear_phase; a value that is not a phase is SW_INVALID, which sticks. */
SW_API void sw_set_phase(sw_ctx *ctx, sw_phase phase);
SW_API void sw_clear_phase(sw_ctx *ctx);
/* Names nest with '/', and a '.' in a name nests too; they are the layer in reports and part of
 * random streams. Each begin has its end in the same step function. */
SW_API void sw_scope_begin(sw_ctx *ctx, const char *name);
SW_API void sw_scope_end(sw_ctx *ctx);
/* Immediate mode only: read a scalar now. Otherwise SW_UNSUPPORTED, which sticks. */
SW_MUST_USE SW_API sw_status sw_item(sw_ctx *ctx, sw_value scalar, double *out);
SW_API void sw_fail(sw_ctx *ctx, sw_status status, const char *message);
SW_API sw_status sw_ctx_status(sw_ctx *ctx);
