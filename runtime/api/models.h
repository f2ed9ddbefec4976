/* Models: parameters, buffers, states, constants and knobs, in one range of memory.
 *
 *     SW_TRY(sw_model_create(&model, "net"));
 *     sw_param w = sw_param_new(model, "w", SW_F32, SW_SHAPE(2, 3), "kaiming_uniform");
 *     SW_TRY(sw_model_ready(model, exec, 1));
 *     SW_TRY(sw_param_read(w, numbers, 2 * 3 * sizeof *numbers));
 *     sw_model_destroy(model);
 */

/* Declared first (no tensor memory), laid out when made ready, then fixed. `name` is copied. */
SW_MUST_USE SW_API sw_status sw_model_create(sw_model **out, const char *name);
SW_API void sw_model_destroy(sw_model *model);

/* Register a trainable parameter. `init` is one of
 *   "zeros" "ones" "constant:V" "normal:STD" "uniform:A,B"
 *   "kaiming_uniform" "kaiming_normal" "xavier_uniform" "xavier_normal"
 * (Kaiming: He et al. 2015, gain sqrt(2), fan in; Xavier: Glorot and Bengio 2010). Fans come
 * from the shape (out, in, kernel...). Numbers have a decimal point in every locale. `name` (1
 * to 95 bytes, unique among the model's parameters, buffers and states) and `init` (at most 71
 * bytes) are copied. F32 only. An error is kept and returned by sw_model_ready; the handle then
 * has index 0. Once the layout is fixed it is refused and changes nothing. */
SW_API sw_param sw_param_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape,
                             const char *init);
/* A parameter of logits: (out, in, ...), the weight of a layer of bits. Its bits without
 * noise are w > 0 (sw_binary_linear_op). With the noise of an evolution strategy each direction
 * has bits of its own, 1 with probability sigmoid(5 w / (mean |w| + 1e-5)); backward gives it
 * no gradient. Rank 2 at least. */
SW_API sw_param sw_logits_new(sw_model *model, const char *name, sw_shape shape,
                              const char *init);
/* A buffer: not trained, saved with the parameters (running statistics). */
SW_API sw_param sw_buffer_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape,
                              const char *init);
/* A state: survives runs, read by sw_use and written by sw_assign; zero at first. Not saved. */
SW_API sw_param sw_state_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape);
/* A constant: a tensor of the caller's numbers, of any type, that steps read by sw_use. It is
 * neither trained nor assigned nor written, and not saved with the parameters. It lies in the
 * model's arena, among the states: sw_model_ready places it, every phase counts it as part of
 * the model, and no step copies it. The values are copied now, into the host's heap, where they
 * stay until the model ends. Copies of models, checkpoints and resizing take it along as they
 * take states: only new units have the numbers that were declared for them. */
SW_API sw_param sw_constant_new(sw_model *model, const char *name, const sw_array *values);
/* A frozen weight of a model that is not trained, stored as SW_F32, SW_BF16, SW_I8 (with a
 * scale for each row) or SW_NF4 (4 bits, as QLoRA: blocks of 64 in a row, sizes in 8 bits), and
 * read as the same numbers in float32. Weights of sw_linear_op, sw_linear_ce and
 * sw_embedding_op may be of each type, SW_I8 and SW_NF4 on the CPU alone; other ops refuse what
 * is not SW_F32 where they compute in float32. Zeros at first, written by sw_weights_write;
 * steps read it by sw_use. It lies in the model's arena among the parameters and nowhere else.
 * It has no gradient, optimizer or noise, no file and no checkpoint has it, and sw_param_count
 * passes over it; members have none, and resizing refuses it. Errors are kept as for
 * sw_param_new. */
SW_API sw_param sw_weights_new(sw_model *model, const char *name, sw_dtype dtype,
                               sw_shape shape);
/* `n` numbers, from number `first` on in the order of rows, into a frozen weight of a ready
 * model, as it is stored. SW_I8 is written in whole rows, SW_NF4 in units of 16,384 numbers,
 * and up to the end. SW_BUSY while a run uses the model. */
SW_MUST_USE SW_API sw_status sw_weights_write(sw_param weights, int64_t first,
                                              const float *numbers, int64_t n);
/* Frozen parameters get no gradient. Part of the program's key; the layout stays. SW_BUSY, and
 * nothing changes, while a run uses the model. */
SW_API void sw_param_freeze(sw_param param, int on);
/* The parameter, buffer or state of that name, index 0 when there is none. Parameters and
 * buffers by position, 0 <= i < count. */
SW_API sw_param sw_param_find(sw_model *model, const char *name);
SW_API size_t sw_param_count(const sw_model *model);
SW_API sw_param sw_param_at(sw_model *model, size_t i);
SW_API const char *sw_param_name(sw_param param);
SW_API sw_shape sw_param_shape(sw_param param);
/* Copy all elements out of or into a ready model; bytes must match exactly. SW_BUSY while a run
 * uses the model, also inside a step function. */
SW_MUST_USE SW_API sw_status sw_param_read(sw_param param, void *to, size_t bytes);
SW_MUST_USE SW_API sw_status sw_param_write(sw_param param, const void *from, size_t bytes);
/* The kept gradient of a parameter with an optimizer that keeps gradients, as the last run left
 * it. It stays readable after the update that used it, until the next contribution. */
SW_MUST_USE SW_API sw_status sw_param_gradient(sw_param param, void *to, size_t bytes);

/* Fix the layout, take the memory from the exec's device and budget, initialise by Philox from
 * `seed`, with the same bits on every device. Returns any error of the declarations. A second
 * call re-initialises. A model stays where it lies: an exec of another device refuses it. */
SW_MUST_USE SW_API sw_status sw_model_ready(sw_model *model, sw_exec *exec, uint64_t seed);
/* Same layout required: one copy of parameters, optimizer state, buffers, states and knobs,
 * between host and devices in any direction. */
SW_MUST_USE SW_API sw_status sw_model_copy(sw_model *to, const sw_model *from);
/* Bytes of the model arena: all ranges, padding included; fixes the layout. */
SW_MUST_USE SW_API sw_status sw_model_bytes(sw_model *model, size_t *out);
SW_API uint64_t sw_model_layout_hash(sw_model *model);

/* Register a knob. `name` (1 to 47 bytes, unique among the model's knobs) is copied, `value`
 * must be finite; an error is kept as for sw_param_new, the handle then has index
 * UINT32_MAX. */
SW_API sw_knob sw_knob_new(sw_model *model, const char *name, float value);
/* The knob that was registered by that name; index UINT32_MAX when there is none. */
SW_API sw_knob sw_knob_find(sw_model *model, const char *name);
/* The value must be finite, not negative where the knob is a learning rate, a weight decay or
 * the bound of sw_clip_norm, in [0, 1) where it is a momentum or a beta, and in [0, 1] where it
 * is the rate of sw_dropout_knob. Another value is kept beside the value that is there, which
 * stays: sw_last_error() says so, and every sw_run with the model is SW_INVALID and names the
 * knob until it is set again. */
SW_API void sw_knob_set(sw_knob knob, float value);
SW_API float sw_knob_get(sw_knob knob);
