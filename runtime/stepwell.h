/* stepwell: a training runtime whose subject is memory. The public header; C11 and C++ read it.
 *
 * A training program creates an exec (device, threads, one step arena) and a model
 * (parameters), writes one step function, and calls sw_run for each batch. The first run of a
 * shape traces the function, plans every byte, and later runs only compute.
 *
 * Threads: an exec, a model and a ctx belong to one thread at a time (checked: SW_BUSY).
 * Budgets and datasets may be shared. The library never prints, aborts or exits.
 *
 * Forks: in the child an exec with one thread, without device and profile, and a loader
 * without a thread (inline_fill) can be used. Other execs and loaders, and profiles, are
 * SW_BUSY there; destroying them is fine and waits for nothing.
 *
 * Objects end with their destroy function, to which NULL is fine. NULL elsewhere, unless it is
 * said to be allowed, and an object that was destroyed, or destroyed twice, is SW_INVALID: by
 * name, until its memory is used again, which is the last of 64 (of profiles, 4). Functions
 * without a status do nothing, or return 0 or an empty handle, and set sw_last_error(). In a
 * step function, or in a visitor, nothing can be destroyed but budgets and datasets: the call
 * does nothing, and sw_run is SW_INVALID. Builds with sanitizers leave this to them.
 *
 * Callbacks: what the call that a callback runs in goes on with (an evolution, a population, an
 * evolution strategy, a checkpoint, a group of members) is SW_BUSY there by name, whatever
 * changes, continues or destroys it; functions that only look at it work, and so does
 * everything with other objects. Its exec, models and genomes can be used, but not destroyed. A
 * callback of members may read and write members; it does not make, end, copy or unpack any of
 * its group. A status that is none becomes SW_INVALID. Only step functions may be left by
 * longjmp.
 *
 * A step function may be left by longjmp or an exception. The exec can be used, or destroyed,
 * in the function that called sw_run or in one outside of it; deeper it is SW_BUSY, as in the
 * step function itself. Models of an immediate run that had updated must be restored.
 *
 * Errors: functions that can fail return sw_status; sw_last_error() has the reason. Inside a
 * step function ops return handles instead: the first error stays in the ctx, later ops do
 * nothing, and sw_run returns it.
 *
 * Numbers: float32; the bits do not depend on the number of threads, nor on planned or
 * immediate mode. NaN and infinities go through ops as they do in PyTorch. Denormals, numbers
 * below 1.2e-38, are zero while a run computes on an x86-64 CPU (see sw_run); other CPUs and
 * the kernels for devices keep them.
 *
 * Structs that may grow begin with their own size, which the caller sets to sizeof; zero in a
 * field means default. Fields are only ever appended, and never in the padding at the end. One
 * rule for all, options, descriptors and results: the size is at least that of the struct in
 * 0.1 and at most 4096, and ends inside no field; else SW_INVALID, which says what to set.
 * Fields past it have their default and are not written; fields that this library does not know
 * yet are ignored. Structs that stand in arrays or are passed by value have reserved words
 * instead, which must be zero. In C and in C++:
 *
 *     sw_exec_opts opts = {.size = sizeof opts, .threads = 2};
 *     sw_exec_opts opts = {}; opts.size = sizeof opts; opts.threads = 2; */
#ifndef STEPWELL_H
#define STEPWELL_H

#include "alloc/base/base.h"
#include "kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.2.0" */
SW_API const char *sw_version(void);

typedef enum { SW_TRAIN, SW_EVAL } sw_mode;
typedef enum { SW_DATA, SW_FORWARD, SW_LOSS, SW_BACKWARD, SW_STEP } sw_phase;
#define SW_PHASES 5

/* Bytes of one element; "f32" and so on; "data" to "step". */
SW_API size_t sw_dtype_bytes(sw_dtype dtype);
SW_API const char *sw_dtype_name(sw_dtype dtype);
SW_API const char *sw_phase_name(sw_phase phase);

typedef struct sw_budget sw_budget;
typedef struct sw_exec sw_exec;
typedef struct sw_model sw_model;
typedef struct sw_optimizer sw_optimizer;
typedef struct sw_ctx sw_ctx;
typedef struct sw_profile sw_profile;
typedef struct sw_dataset sw_dataset;
typedef struct sw_loader sw_loader;
typedef struct sw_checkpoint sw_checkpoint;
typedef struct sw_members sw_members;
typedef struct sw_feed sw_feed;
typedef struct sw_space sw_space;
typedef struct sw_pbt sw_pbt;
typedef struct sw_es sw_es;
typedef struct sw_zo sw_zo;
typedef struct sw_genome sw_genome;
typedef struct sw_search_space sw_search_space;
typedef struct sw_net sw_net;
typedef struct sw_evolution sw_evolution;

/* A tensor of one run of one ctx; {0} after an error. */
typedef struct {
    uint32_t id, generation;
} sw_value;

/* A parameter, buffer or state: lives as long as its model. index 0 is no parameter. */
typedef struct {
    sw_model *model;
    uint32_t index;
} sw_param;

/* A float that may change between runs without a new plan. */
typedef struct {
    sw_model *model;
    uint32_t index;
} sw_knob;

/* The caller's memory, contiguous, row-major; borrowed for the call. */
typedef struct {
    sw_dtype dtype;
    sw_shape shape;
    const void *data;
} sw_array;

/* ---- budget and exec --------------------------------------------------------------------- */

/* A hard limit in bytes that several execs, models and loaders may share. Destroy it after
 * them; what is still under it stays so. */
SW_MUST_USE SW_API sw_status sw_budget_create(sw_budget **out, size_t bytes);
SW_API void sw_budget_destroy(sw_budget *budget);

/* What an NVTX tool that is attached (Nsight Systems, compute-sanitizer) is told of each run:
 * ranges in the domain "stepwell" for the step and its phases, for layers too, or for ops too,
 * with the bytes that live as their payload; and, if the tool takes them, counters of the bytes
 * that live by role and at the peak, and the arenas as heaps whose live tensors are regions.
 * Nothing is said with no_phases. A tool can attach until the first exec is created; without
 * one every level is as fast as SW_NVTX_OFF. */
typedef enum { SW_NVTX_PHASES, SW_NVTX_LAYERS, SW_NVTX_OPS, SW_NVTX_OFF } sw_nvtx_level;

typedef struct {
    size_t size;
    const char *device;  /* "cpu" (default); "cuda", "cuda:1": a card by its number, 0 without
                            one; SW_DEVICE where it is not there or the CUDA module is not. "sim"
                            answers SW_DEVICE too, others SW_INVALID */
    int threads;         /* of the CPU, 1..256; 0: 1. The same bits for every number */
    sw_budget *budget;   /* NULL: none. Borrowed, must outlive the exec */
    uint64_t seed;       /* of random ops */
    sw_profile *profile; /* NULL: none. Borrowed, must outlive the exec */
    int checks;       /* 1: trace again before each run and compare; names the first difference.
                         On the CPU each kernel also runs between guard bands, outside of the
                         planned bytes: SW_INVALID names the op, the operand and the byte where
                         it writes past or in front of an output or its scratch, into an input,
                         or nothing of an output. Takes memory of its own, and time */
    int op_clocks;    /* 1: read the clock at every op of planned runs, not only where the phase
                         changes; SW_INVALID with no_phases. Immediate runs have none per op */
    int no_inplace;   /* 1: switch the pass off that lets results take their input's place; a
                         device then launches each op by itself */
    int max_programs; /* bound of the keys that are remembered; 0: 4096. The least recently used
                         goes */
    const char *isa;  /* NULL: the best of this machine; "avx512", "avx2", "base" */
    int no_phases;    /* 1: planned runs neither count what lives nor read clocks, to see what
                         that costs; a profile then has the figures of the plan */
    int shares;       /* 1: runs note what is born and dies, for sw_last_shares; SW_INVALID with
                         no_phases */
    int no_recompute; /* 1: a plan that is over the budget is refused: no op is repeated and no
                         update released so that it fits */
    int no_rebuild; /* 1: switch the pass off that makes results of cheap ops again in backward
                       instead of keeping them (sw_op_desc, rebuild) */
    int no_chunks;  /* 1: switch the pass off that lets ops go through their rows in parts where
                       that lowers the arena (sw_linear_ce) */
    int no_tiles; /* 1: switch the pass off that makes the gradient of a large weight in blocks
                     of rows, each followed by its part of a released update */
    sw_nvtx_level nvtx; /* default: step and phases */
    int tf32; /* 1: matrix products and convolutions may round their factors to TF32, where the
                 card has it */
    int sync_ops;  /* 1: to find out who fails: wait for the device behind each op, replay
                      nothing; the message of a fault begins with the op */
    int no_graphs; /* 1: launch op by op instead of replaying what was captured. These three are
                      of devices: SW_INVALID with the CPU */
    int no_strips; /* 1: switch the pass off that lets a function of one number, what reads its
                      result and the update behind that go strip by strip where this lowers the
                      arena (swish in front of a large linear layer) */
} sw_exec_opts;

/* exec: device + threads + one step arena as high as the highest of its programs.
 *
 * On a device the budget is one of its memory, and so are all figures of plans; models that run
 * there live there. The first run of a program goes op by op; it is then captured, and later
 * runs with the same models replay it in one launch: knobs, steps and random counters change,
 * nothing is captured again. sw_run copies the inputs and returns before the run has ended.
 * All that reads (metrics, outputs, parameters) waits for that. A fault of the device is
 * reported by the call that sees it, and by every later one: SW_DEVICE with what failed first.
 * op_clocks needs sync_ops there, a profile of events runs op by op, and an NVTX tool that
 * takes regions of memory has every op waited for. */
SW_MUST_USE SW_API sw_status sw_exec_create(sw_exec **out, const sw_exec_opts *opts);
SW_API void sw_exec_destroy(sw_exec *exec);
/* Give an exec its profile later than at its creation: once all that can be refused was not,
 * since a profile replaces the file that was there. SW_INVALID when it has one. */
SW_MUST_USE SW_API sw_status sw_exec_set_profile(sw_exec *exec, sw_profile *profile);

/* The memory of the device that an exec works on: what its driver says, and what of that is
 * ours. */
typedef struct {
    size_t size;         /* set by the caller */
    char name[16];       /* "cpu", "cuda:0" */
    char card[128];      /* as its driver calls it; "" and all that follows 0 for the CPU */
    int major, minor;    /* compute capability */
    int driver, runtime; /* of CUDA: 13020 is 13.2 */
    int blas, dnn;       /* cuBLASLt's and cuDNN's, as they count; 0: built without */
    size_t total_bytes;  /* of the card */
    size_t open_bytes;   /* free when it was opened: before, its context and other programs took
                            the rest */
    size_t free_bytes;   /* now */
    /* That all our arenas there have, in whole pages: models, steps, inputs and metrics. */
    size_t model_bytes, arena_bytes, data_bytes;
    int64_t unexplained_bytes; /* open - free - arenas: libraries, graphs, other programs; below
                                  0 where these have given some back */
    size_t pinned_bytes; /* memory of the host that is held fast for copies, of all devices */
} sw_device_info;
/* SW_DEVICE where the card has failed. */
SW_MUST_USE SW_API sw_status sw_exec_device(const sw_exec *exec, sw_device_info *out);

/* ---- model ------------------------------------------------------------------------------- */

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
/* A parameter of logits: (out, in, ...), the weight of a layer of bits, whose bits without
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
/* The kept gradient of a parameter whose optimizer keeps gradients, as the last run left it. It
 * stays readable behind the update that used it, until the next contribution. */
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

/* Parameters and buffers as a safetensors file, in PyTorch's order of dims. Saving writes a new
 * file with the old one's permissions, syncs and renames it, and syncs the folder; where the
 * last fails, or PATH is on a network file system, the file is there, and sw_last_note() says
 * that its durability is unknown. Until it is renamed the new file has no name, then, or where
 * the system has no such files, it is PATH.<16 digits>.tmp and locked; one that a killed
 * process left is removed by the next save of PATH. PATH may be a pipe (sw_interrupt_set).
 * Loading needs exactly the model's names, types and shapes (SW_FORMAT names the first that
 * differs) and changes nothing when it fails - a model on a device is damaged where a file that
 * was readable is not any more. Files that are saved have a checksum of each tensor and one of
 * the header, where the library was built with libxxhash; whatever is damaged in one is
 * SW_FORMAT by the tensor's name and its bytes. Names that begin with "stepwell." are the
 * library's own: SW_INVALID. Where a library without libxxhash loads such a file sw_last_note()
 * says that its checksums were not looked at. A checkpoint is loaded too: what it has beside
 * parameters and buffers is checked and passed over; where it has several models, the one of
 * the model's name is taken (SW_FORMAT lists those that it has). Optimizer state, kept
 * gradients and states stay as they are - but of a model that a failed run left damaged,
 * loading makes them zero, as sw_model_ready does.
 *
 * A PATH that ends in ".npz" (or ".NPZ") is not saved (SW_UNSUPPORTED): NumPy's archives hold
 * data here, and loading one is SW_FORMAT. */
SW_MUST_USE SW_API sw_status sw_model_save(const sw_model *model, const char *path);
SW_MUST_USE SW_API sw_status sw_model_load(sw_model *model, const char *path);

/* A text that is saved with the parameters, under `key` in the file's metadata: how inputs were
 * made numbers, say. Key (1 to 47 bytes, not "format", not beginning with "stepwell.") and
 * text (at most 255, UTF-8) are copied; text NULL removes it. At most 4 keys. Loading changes
 * no notes. */
SW_MUST_USE SW_API sw_status sw_model_note(sw_model *model, const char *key, const char *text);
/* The text of `key` in a file of parameters, cut to `bytes`; "" where it has none. SW_FORMAT
 * where it is no safetensors file. */
SW_MUST_USE SW_API sw_status sw_params_note(const char *path, const char *key, char *text,
                                            size_t bytes);

/* Register a knob. `name` (1 to 47 bytes, unique among the model's knobs) is copied, `value`
 * must be finite; an error is kept as for sw_param_new, the handle then has index UINT32_MAX.
 */
SW_API sw_knob sw_knob_new(sw_model *model, const char *name, float value);
/* The knob that was registered by that name; index UINT32_MAX when there is none. */
SW_API sw_knob sw_knob_find(sw_model *model, const char *name);
/* The value must be finite, not negative where the knob is a learning rate, a weight decay or
 * the bound of sw_clip_norm, in [0, 1) where it is a momentum or a beta, and in [0, 1] where it
 * is the rate of sw_dropout_knob. What is not is kept beside the value that is there, which
 * stays: sw_last_error() says so, and every sw_run with the model is SW_INVALID and names the
 * knob until it is set again. */
SW_API void sw_knob_set(sw_knob knob, float value);
SW_API float sw_knob_get(sw_knob knob);

/* ---- layers: open structs of handles, own nothing ---------------------------------------- */

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
typedef struct {
    size_t size;
    int stride, pad;      /* stride 0: 1 */
    int groups, dilation; /* 0: 1 */
    int no_bias;
} sw_conv_opts;
/* A transposed convolution, as decoders have it: sw_conv_transpose2d_op. */
typedef struct {
    sw_param weight, bias; /* (in, out / groups, kernel, kernel), (out) */
    int stride, pad, output_pad;
    int groups, dilation;
    uint64_t reserved[2]; /* must be zero */
} sw_conv_transpose2d;
typedef struct {
    size_t size;
    int stride, pad;      /* stride 0: 1 */
    int output_pad;       /* rows and columns more behind the last; below the stride */
    int groups, dilation; /* 0: 1 */
    int no_bias;
} sw_conv_transpose_opts;
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
 * get
 * ".weight_ih", ".weight_hh", ".bias_ih", ".bias_hh". */
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

/* ---- optimizers -------------------------------------------------------------------------- */

/* When parameters are updated. AFTER: behind backward, with all gradients at once. RELEASE:
 * each right behind the last contribution to its gradient, whose memory ends there; the same
 * bits. DEFAULT is after, but where a plan would be over its budget updates are released. */
typedef enum { SW_UPDATE_DEFAULT, SW_UPDATE_AFTER, SW_UPDATE_RELEASE } sw_update_time;

/* One parameter group: its own rate (0: that of the options), decay, and time of updates
 * (sw_update_time; DEFAULT: that of the options). Where some groups of an optimizer are
 * released and others are not, each of them must say which. */
typedef struct {
    const sw_param *params;
    size_t n_params;
    float lr, weight_decay;
    int update;             /* this and the next stand where a reserved word was */
    uint32_t reserved_word; /* must be zero */
    uint64_t reserved[1];   /* must be zero */
} sw_param_group;

typedef struct {
    size_t size;
    const char *kind; /* "sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "adafactor" */
    const sw_param *params; /* one group; with n_params 0 and n_groups 0: all of the model */
    size_t n_params;
    float lr;           /* 0: 0.001 for adam and adamw, 0.0001 for lion, 0.01 for the others */
    float weight_decay; /* on the gradient; adamw, lion, adafactor: straight on the parameter */
    float momentum;     /* sgd, rmsprop */
    int nesterov;       /* sgd with momentum */
    float beta1, beta2,
        epsilon;                  /* 0: adam, adamw 0.9, 0.999, 1e-8; lion 0.9, 0.99; epsilon of
                                     rmsprop 1e-8, adagrad 1e-10, adafactor 2^-23; see as_given */
    const sw_param_group *groups; /* instead of params */
    size_t n_groups;
    int keep_gradients; /* gradients live in the model arena and can be accumulated and read */
    int release;        /* the older name of `update` SW_UPDATE_RELEASE */
    int as_given; /* 1: beta1, beta2, epsilon, alpha, beta2_decay and least_scale are meant
                     as they stand, zeros too */
    int update;   /* sw_update_time */
    float alpha;  /* rmsprop: of the mean of squares; 0: 0.99 */
    int centered; /* rmsprop: less the square of the mean */
    float initial_accumulator; /* adagrad: its sums at first */
    /* adafactor: second moments have beta2 = 1 - step^-beta2_decay (0: 0.8), updates a root
     * mean square of at most clip_threshold (0: 1). A step is the rate, at most 1 / sqrt(step),
     * times the parameter's root mean square, at least least_scale (0: 0.001); with fixed_rate
     * it is the rate as it stands. */
    float beta2_decay, clip_threshold, least_scale;
    int fixed_rate;
    int max_skipped; /* updates in a row that are skipped before sw_run says so; 0: 10; -1: any
                        number */
    int no_check;    /* 1: losses and gradients are not looked at, and nothing is skipped */
    uint64_t knobs; /* 1: weight_decay, momentum, beta1 and beta2 of each group are knobs of the
                       model, read at each run (sw_optimizer_knob); 0: they stay */
} sw_optimizer_opts;

/* Owned by the model. Parameters must be of that model, each owned by one optimizer at most.
 * SW_INVALID for an optimizer that would own none, which changes nothing; for numbers that the
 * kind does not have, in the options or in a group. Formulas are those of PyTorch's optimizers
 * of these names; lion's of Chen et al. 2023. What is kept for each parameter: nothing for sgd,
 * one number for each element with its momentum, for adagrad and lion, two for adam and adamw,
 * one to three for rmsprop; adafactor keeps one for each row and each column of the last two
 * axes, and for a vector one for each element.
 *
 * A gradient that has a NaN or an infinite element, and one of a loss that is neither finite,
 * is never used: the update is skipped, and counted (sw_optimizer_skipped). What waits until
 * behind backward is skipped as a whole, optimizer state and step counters too; of released
 * updates (a budget's among them) each for itself, by its own gradient, and all of them where
 * the loss is not finite. A kept gradient is used up all the same. After max_skipped in a row
 * sw_run returns SW_INVALID and names the loss or the first parameter; the run has ended as
 * usual, and the model is as it was before. On a device up to 3 runs may have begun behind it.
 */
SW_MUST_USE SW_API sw_status sw_optimizer_create(sw_optimizer **out, sw_model *model,
                                                 const sw_optimizer_opts *opts);
/* Kinds by position; NULL past the end. */
SW_API const char *sw_optimizer_kind(size_t i);
/* Updates of which something was skipped, in all and in a row up to the last; either may be
 * NULL. They are part of the optimizer's state: copied with it, 0 in a model that begins anew.
 * SW_BUSY while a run uses the model. */
SW_MUST_USE SW_API sw_status sw_optimizer_skipped(const sw_optimizer *optimizer,
                                                  uint64_t *total, uint64_t *in_a_row);
/* The learning rate of a group. index UINT32_MAX when there is no such group. */
SW_API sw_knob sw_optimizer_lr(sw_optimizer *optimizer, int group);
/* A knob of a group: "lr", and with the option knobs "weight_decay", "momentum" (sgd, rmsprop),
 * "beta1" and "beta2" (adam, adamw, lion). A rate and a decay must be finite and at least 0,
 * the others at least 0 and below 1. index UINT32_MAX where the kind has no such number, the
 * option is 0 or there is no such group.
 *
 * With the same numbers bits are those without the option. Groups of adam and adamw then count
 * their steps each for itself, and the correction of a beta that changed is 1 - the product of
 * the betas of all steps. sgd and rmsprop keep their momentum even where it is 0, and nesterov
 * needs none above 0. A momentum of 0 gives the parameters of the kind without one while the
 * momentum that is kept, or a gradient with its decay, is finite; only a parameter that is -0
 * may be 0 there. Of one that is not finite 0 times it is NaN. */
SW_API sw_knob sw_optimizer_knob(sw_optimizer *optimizer, int group, const char *name);

typedef struct {
    size_t size;
    const char *kind;      /* "constant", "step", "cosine", "linear", "exponential",
                              "one_cycle" */
    float base;            /* the rate that it scales */
    uint64_t warmup_steps; /* from base/warmup_steps up to base in equal steps; one_cycle: from
                              base/25 by a cosine. What follows counts its steps from there */
    uint64_t total_steps;  /* cosine, linear, one_cycle: reaches `floor` there */
    uint64_t every;        /* step: multiply by gamma every so many steps, at once; exponential:
                              little by little (0: 1) */
    float gamma, floor;    /* step, exponential: gamma above 0. one_cycle: floor 0 is
                              base/250000 */
} sw_schedule;
/* Kinds by position; NULL past the end. */
SW_API const char *sw_schedule_kind(size_t i);
/* The rate of step 0, 1, ...; SW_INVALID for an unknown kind, for missing numbers, for rates
 * that are negative or not finite, and where the result would not be finite. */
SW_MUST_USE SW_API sw_status sw_schedule_at(const sw_schedule *schedule, uint64_t step,
                                            float *out);

/* ---- step function ----------------------------------------------------------------------- */

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

/* (batch, in) -> (batch, out): x W^T + b. (batch, in, h, w) -> (batch, out, h', w'). */
SW_API sw_value sw_apply_linear(sw_ctx *ctx, sw_linear layer, sw_value x);
SW_API sw_value sw_apply_conv2d(sw_ctx *ctx, sw_conv2d layer, sw_value x);
SW_API sw_value sw_apply_conv_transpose2d(sw_ctx *ctx, sw_conv_transpose2d layer, sw_value x);
/* A sequence through a recurrent layer: x (seq, batch, in) -> the hidden state behind each step
 * (seq, batch, hidden), seq at least 1. *h and *c (batch, hidden) are the state in front of the
 * first step and become that behind the last; {0} in front: zeros; NULL: zeros, and not told.
 * They stay as they are where a call fails. Where state goes on in the next run, sw_assign it,
 * detached, to a state of the model.
 *
 * The product of the input is made for all steps at once; then each step has one product of
 * the hidden state and one cell, in the scopes "t0", "t1", ... of the layer. For each row and
 * hidden unit T steps keep, in floats: of an LSTM 4 T for its gates and T each for h and c,
 * which are made again from gates where that lowers the peak; of a GRU 6 T for its sums and T
 * for h. The gradients of all sums of the input take 4 T and 3 T beside them: 8 T to 10 T, and
 * 10 T. A loop over sw_apply_lstm_step() or sw_apply_gru_step() has these for one step at a
 * time, 4 T to 6 T and 7 T in all, and T small products in place of a large one. */
SW_API sw_value sw_apply_lstm(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h, sw_value *c);
SW_API sw_value sw_apply_gru(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h);
/* One step of it: x (batch, in) -> the hidden state behind it, (batch, hidden); h and c as
 * above. */
SW_API sw_value sw_apply_lstm_step(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h,
                                   sw_value *c);
SW_API sw_value sw_apply_gru_step(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h);
/* ids (n...) of U8, U16 or I32 -> rows of the weight (n..., width). An id outside of the
 * vocabulary fails the run, with its value and place. Keeps the ids and nothing else. */
SW_API sw_value sw_apply_embedding(sw_ctx *ctx, sw_embedding layer, sw_value ids);
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
/* (..., m, k) x (..., k, n) -> (..., m, n); the axes in front broadcast by NumPy's rule. Rank 2
 * at least. Views may be operands as they are: sw_matmul(ctx, q, sw_transpose(ctx, k, -1, -2)).
 * Keeps both operands. */
SW_API sw_value sw_matmul(sw_ctx *ctx, sw_value a, sw_value b);
/* While training each element is dropped (0) with probability p (0..1) and else divided by
 * 1 - p; in evaluation x itself. What is dropped is x * 0: NaN where x is not finite. Keeps
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
 * below height and width. In evaluation, and for 0, x itself. What is drawn for an image
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
SW_API sw_value sw_apply_layer_norm(sw_ctx *ctx, sw_layer_norm layer, sw_value x);
SW_API sw_value sw_apply_rms_norm(sw_ctx *ctx, sw_rms_norm layer, sw_value x);
SW_API sw_value sw_apply_group_norm(sw_ctx *ctx, sw_group_norm layer, sw_value x);
SW_API sw_value sw_apply_batch_norm2d(sw_ctx *ctx, sw_batch_norm2d layer, sw_value x);

/* softmax(scale q k^T) v for each of `heads` heads: q (batch, queries, heads * size), k (batch,
 * keys, heads * size) and v (batch, keys, heads * value size) to (batch, queries, heads * value
 * size). causal: query i sees the keys 0 to i. scale 0: 1 / sqrt(size). They may be views;
 * where they are the three thirds of one tensor's last axis, as sw_split gives them, its
 * gradient is made at once, in its place. Keeps the three, the result, and one float for each
 * row and head: what is (queries, keys) exists in tiles alone. */
SW_API sw_value sw_attention(sw_ctx *ctx, sw_value q, sw_value k, sw_value v, int heads,
                             int causal, float scale);

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
 * hidden) are sums in front of their functions, side by side in the order i, f, g, o; cell
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
 * tensors whose last axis has the channels, 64 to a word of 8 bytes: channel c is bit c % 64 of
 * word c / 64 in the machine's byte order, and bits past the channels are 0. Rows are (batch,
 * bytes), images (batch, h, w, bytes), channels last. 1 stands for 1 and 0 for -1.
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
SW_API sw_value sw_apply_binary_linear(sw_ctx *ctx, sw_binary_linear layer, sw_value bits,
                                       sw_binary_result what);
SW_API sw_value sw_apply_binary_conv2d(sw_ctx *ctx, sw_binary_conv2d layer, sw_value bits,
                                       sw_binary_result what);

/* (batch, c, h, w) times one number for each image and channel (batch, c, 1, 1), as
 * squeeze-and-excitation ends: sw_mul without copies for images in blocks. Keeps both. */
SW_API sw_value sw_channel_scale(sw_ctx *ctx, sw_value x, sw_value s);

/* F32, each element `value`. It is filled in each run, in the step arena, where it is appended
 * (phase forward), and again in backward rather than kept. A scalar broadcasts and takes least:
 * sw_full(ctx, SW_SCALAR, 2). What is placed once is a constant of the model: sw_constant_new.
 */
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
 * x[i]. axis -1: behind the last. Keeps nothing; each gradient is a slice of the result's. */
SW_API sw_value sw_stack(sw_ctx *ctx, const sw_value *x, int n, int axis);
SW_API sw_value sw_detach(sw_ctx *ctx, sw_value x); /* the same bytes, no gradient passes */

/* axes: bit i for axis i, 0 for all; reduced axes are dropped. */
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

/* Losses: a scalar, the mean over the batch (over all elements for mse and bce). Phase loss.
 * labels (rows) of U8, U16 or I32 in 0..classes-1; anything else fails the run. */
SW_API sw_value sw_softmax_ce(sw_ctx *ctx, sw_value logits, sw_value labels);
/* With label smoothing (0..1: the label's target is 1 - smoothing, and smoothing / classes is
 * added to each class) and a label whose rows do not count (-100 in PyTorch; one that no row
 * has: none). The mean over the rows that count; 0, without a gradient, where none does. */
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
/* The share of rows whose largest logit is the label: a scalar in 0..1. A NaN is the largest.
 */
SW_API sw_value sw_accuracy(sw_ctx *ctx, sw_value logits, sw_value labels);

/* Philox: key seed; counter element, stream (scope path and name, at most 255 bytes), step, run
 * in step. */
SW_API sw_value sw_randn(sw_ctx *ctx, const char *stream, sw_shape shape); /* N(0, 1) */
SW_API sw_value sw_rand(sw_ctx *ctx, const char *stream, sw_shape shape);  /* [0, 1) */

/* Append the gradients of what these optimizers own; others pass through or are pruned. */
SW_API void sw_backward(sw_ctx *ctx, sw_value loss, sw_optimizer *const *optimizers, int n);
/* Add this run's gradients to the kept ones (keep_gradients), or begin with them where none is
 * kept. So N micro-batches give what one batch of their rows gives, within rounding, in the
 * memory of a small one and the kept gradients. A loss that is a mean over the batch counts N
 * times as much as its share: scale it, sw_scale(ctx, loss, a knob of 1 / N), in front of
 * sw_backward; the metrics of the N runs then add up to the mean of all. In each run but the
 * last sw_accumulate ends the step function, in the last one sw_update (sw_clip_norm in front)
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

/* Overrides until sw_clear_phase; what is no phase is SW_INVALID, which sticks. */
SW_API void sw_set_phase(sw_ctx *ctx, sw_phase phase);
SW_API void sw_clear_phase(sw_ctx *ctx);
/* Names nest with '/', and so does a '.' in a name; they are the layer in reports and part of
 * random streams. Each begin has its end in the same step function. */
SW_API void sw_scope_begin(sw_ctx *ctx, const char *name);
SW_API void sw_scope_end(sw_ctx *ctx);
/* Immediate mode only: read a scalar now. Otherwise SW_UNSUPPORTED, which sticks. */
SW_MUST_USE SW_API sw_status sw_item(sw_ctx *ctx, sw_value scalar, double *out);
SW_API void sw_fail(sw_ctx *ctx, sw_status status, const char *message);
SW_API sw_status sw_ctx_status(sw_ctx *ctx);

/* ---- run and plan ------------------------------------------------------------------------ */

/* A program is traced and planned on the first call of a key: fn, user, models and their
 * layouts, input shapes and types, mode, frozen set, variant. */
typedef struct {
    size_t size;
    sw_step_fn *fn;
    void *user;
    sw_model *const *models; /* at most 16 */
    int n_models;
    const sw_array *inputs; /* at most 16 */
    int n_inputs;
    sw_mode mode;
    int immediate; /* op by op, for control flow on values */
    uint64_t variant;
    uint64_t step;     /* 0, 1, ... 2^32 - 1: the counter of random ops */
    uint32_t run;      /* of this step (micro-batches) */
    size_t data_bytes; /* slots of loaders. Those of the exec's budget count by themselves, once
                          each: say more for loaders that are still to come. 0 without any: just
                          these inputs, which are the caller's and take nothing of a budget. Not
                          looked at on a device: there data_bytes of plans is what the exec
                          takes for inputs and metrics, three places for the largest batch so
                          far */
    const sw_es *es;   /* run with the noise of its generation: sw_es_create. NULL: none */
    uint64_t es_slice; /* which slice of the generation */
} sw_run_args;

/* Run one step. A model that is not ready yet is made ready first, as by sw_model_ready with
 * the exec's seed (0 where none was given); sw_last_note() then says so. While it computes,
 * denormals are zero, as operands and as results, in the exec's threads and in the caller's: on
 * x86-64, where they would cost 200 times as much. The caller's mode (MXCSR: rounding,
 * flushing, masks) is put back before the call returns, also where it fails, and does not
 * change the numbers. A step function that is traced has the caller's mode; in immediate mode
 * it runs with that of the kernels. */
SW_MUST_USE SW_API sw_status sw_run(sw_exec *exec, const sw_run_args *args);

typedef struct {
    size_t peak_bytes, end_bytes; /* live model + step + current batch slot */
    uint64_t ns;                  /* measured runs only */
} sw_phase_info;

typedef struct {
    size_t size; /* set by the caller */
    size_t model_bytes, arena_bytes, data_bytes, total_bytes, slot_bytes;
    size_t lower_bound_bytes; /* of the arena: the largest sum that lives at one time */
    size_t padding_bytes;     /* rounding of the step's storages that live at the peak */
    size_t peak_bytes;        /* the largest of the phases */
    size_t immediate_bytes;   /* height of the bump in immediate mode */
    sw_phase_info phase[SW_PHASES];
    uint32_t n_ops, n_values, n_storages;
    uint64_t trace_ns, plan_ns;
    char peak_op[64];  /* the op that runs at the peak, with its scope */
    char holders[256]; /* who holds the peak: the largest, with bytes */
    /* Where a plan would be over the budget: released updates, then recomputation, ops of the
     * forward part that run again in backward instead of keeping what they made. The results
     * are the same bit for bit. */
    uint32_t n_repeats;       /* 0: none */
    uint32_t n_released;      /* updates that run right behind their gradients although their
                                 optimizers do not ask for it: tried first, for it costs nothing */
    size_t plain_arena_bytes; /* arena_bytes without repeats */
    uint64_t operations;      /* arithmetic of a step, repeats included: sw_op_desc */
    uint64_t repeat_operations;
    uint64_t cost, repeat_cost; /* estimated time of one thread, 1/16 ns; repeats included */
    uint64_t least_repeat_cost; /* proved: no plan under the budget has less repeat_cost;
                                   UINT64_MAX: there is none */
    char method[16]; /* that chose the repeats: "search" (of all schedules), "chain"; "release":
                        none was wanted; "": the budget asked for nothing */
    uint32_t n_rebuilt;    /* cheap ops that run again in backward with or without a budget, not
                              among n_repeats (sw_op_desc, rebuild) */
    uint64_t rebuild_cost; /* of those without a budget; not among repeat_cost, which is what a
                              plan under a budget takes on top, whichever of them it has */
    int64_t chunk_rows;    /* rows at a time of ops that go through them in parts, since that
                              lowers the arena, or since the budget asks for it: as many as
                              fit; 0: all at once */
    uint32_t n_tiled;      /* updates of weights whose gradients exist only block by block */
    uint32_t launches;     /* on a device: kernels and library calls of a run, of which each run
                              has exactly so many; 0 on the CPU */
    uint64_t budget_cost;  /* what the budget costs, among cost: repeat_cost, and what ops take
                              longer that go through their rows in more parts than they would
                              without it */
    size_t program_host_bytes; /* of the host's heap that the program's records take now: part
                                  of no total */
} sw_plan_info;

/* Trace and plan without tensor memory; inputs' data may be NULL. With a budget the exec's
 * arena (with `immediate` the bump of immediate mode) and the models are reserved in it, all or
 * nothing. A plan that would be over it is made smaller (sw_plan_info, n_released and
 * n_repeats), by as little work as was found; more budget never means more work. Where no plan
 * fits, SW_NOMEM says the least budget that would do, with what others have taken of it, and
 * who holds the peak, and *out is filled then too: with that budget, sw_plan succeeds, as long
 * as nobody else reserves meanwhile. A planned run asks its budget before it begins; an
 * immediate run that was not planned asks op by op, and can be refused behind an update. */
SW_MUST_USE SW_API sw_status sw_plan(sw_exec *exec, const sw_run_args *args, sw_plan_info *out);

/* A storage of a plan: a range of the step arena, or an input. What it points to is valid
 * during the call. */
typedef struct {
    size_t size;
    uint32_t id, alias; /* alias: the storage whose place it takes; UINT32_MAX: none */
    const char *name, *layer;
    const char *op;   /* that writes it first; NULL for inputs */
    const char *role; /* "saved", "gradient", "workspace": as in profiles */
    sw_phase phase;   /* of its birth */
    int input;        /* 1: lies in the batch slot; offset and birth are 0 */
    size_t bytes, padding, offset;
    uint32_t birth, death; /* positions of ops, both included; the number of ops: it is read out
                              behind the last */
} sw_plan_storage;

/* Receives a plan; either function may be NULL. */
typedef struct {
    size_t size; /* set by the caller */
    void *to;
    void (*op)(void *to, uint32_t position, const char *name, sw_phase phase);
    void (*storage)(void *to, const sw_plan_storage *storage);
} sw_plan_visitor;

/* Plan as sw_plan does, but reserve nothing, and show the plan: the ops in the order in which
 * they run, then the storages by id. Storages without an alias that live at one time lie apart.
 * While it shows, exec and models refuse calls (SW_BUSY). */
SW_MUST_USE SW_API sw_status sw_plan_visit(sw_exec *exec, const sw_run_args *args,
                                           const sw_plan_visitor *visitor);

/* A layer of a program. What it points to is valid during the call. */
typedef struct {
    size_t size;
    const char *name; /* its path, as scopes and parameters have it; "" for what has none */
    const char *op;   /* of its forward part, that makes what others read, else the last one; ""
                         where it has none */
    sw_dtype dtype;   /* of that op's result, with its shape, batch included */
    sw_shape shape;
    uint64_t parameters;          /* elements of its trainable parameters, frozen ones too */
    size_t parameter_bytes;       /* of these */
    size_t saved_bytes;           /* of what it makes and backward reads, padding included */
    uint64_t operations;          /* arithmetic of its forward part: sw_op_desc */
    uint64_t backward_operations; /* all else: gradients, updates, ops that run again */
} sw_plan_layer;
typedef void sw_plan_layer_visitor(void *to, const sw_plan_layer *layer);
/* A summary of the model, before anything runs: plan as sw_plan_visit does, and show the layers
 * in the order in which they first run, those whose parameters no op uses behind them. Their
 * operations add up to sw_plan_info.operations. */
SW_MUST_USE SW_API sw_status sw_plan_layers(sw_exec *exec, const sw_run_args *args,
                                            sw_plan_layer_visitor *visitor, void *to);

/* What the last run measured. */
typedef struct {
    size_t size; /* set by the caller */
    sw_phase_info phase[SW_PHASES];
    size_t peak_bytes, arena_bytes, model_bytes, bump_bytes;
    uint64_t allocations; /* heap and system calls of the allocation table during the run */
    uint64_t ns;
    int warm; /* 0: the run traced, or its program has never run before; on a device also where
                 it was captured, for models that it had not run with */
    int replayed; /* 1: a device replayed it as it was captured: peaks are those of the plan */
} sw_run_info;
SW_MUST_USE SW_API sw_status sw_last_run(const sw_exec *exec, sw_run_info *out);
/* Of an earlier run of the exec: `ago` 0 is the last, up to 3 runs ago. SW_INVALID where there
 * is none, or it failed.
 *
 * On a device sw_run returns while the run goes on; this call, and every other that tells of a
 * run or reads memory of the device, waits for that run's end. `ns` is then the device's time
 * of the run, and of each phase; phases of a run have none (0) where the next one was begun
 * before anybody asked. */
SW_MUST_USE SW_API sw_status sw_run_past(sw_exec *exec, int ago, sw_run_info *out);

/* The bytes of a step that one role or one layer holds, padding included, model and batch slot
 * among them. `name` is valid during the call. */
typedef enum { SW_SHARE_ROLE, SW_SHARE_LAYER } sw_share_kind;
typedef struct {
    size_t size;
    sw_share_kind kind;
    const char *name;     /* "saved", as in profiles; a layer's path, "" for what has none */
    size_t at_peak_bytes; /* when the step is at its peak: over the roles, and over the layers,
                             these add up to that peak (model, batch slot and bump for
                             `immediate`) */
    size_t peak_bytes;    /* the most that it holds at any time of the step */
} sw_share;
typedef void sw_share_visitor(void *to, const sw_share *share);

/* Show the shares, roles in front of layers, those without bytes left out: as planned (with
 * `immediate` those of the bump); of the last run, by the arena's births and deaths (an exec
 * made with `shares`); and as the last access witness of the exec saw them. While they show,
 * the exec refuses calls (SW_BUSY). SW_INVALID where nothing was measured. */
SW_MUST_USE SW_API sw_status sw_plan_shares(sw_exec *exec, const sw_run_args *args,
                                            sw_share_visitor *visitor, void *to);
SW_MUST_USE SW_API sw_status sw_last_shares(sw_exec *exec, sw_share_visitor *visitor, void *to);
SW_MUST_USE SW_API sw_status sw_witness_shares(sw_exec *exec, sw_share_visitor *visitor,
                                               void *to);

/* Of the last run; waits for the device if it must. SW_INVALID for an unknown name. */
SW_MUST_USE SW_API sw_status sw_metric_get(sw_exec *exec, const char *name, double *out);
/* Of the run `ago` runs ago, up to 3; 0 is the last. A loop that asks for the run before the
 * last lets the device work on while it asks. */
SW_MUST_USE SW_API sw_status sw_metric_past(sw_exec *exec, int ago, const char *name,
                                            double *out);
/* data is valid until the exec's next run. */
SW_MUST_USE SW_API sw_status sw_output_get(sw_exec *exec, const char *name, sw_array *out);

/* ---- members: many models of one shape, one trace and one plan --------------------------- */

/* Members are models without a handle of their own: each is a range of memory with the layout
 * of one model, the shape, and a seed. A step function that was written for the shape runs for
 * any number of them: it is traced once for each key, whatever their number. Members run side
 * by side, each on one thread of the exec; the bits of a member are those of a model that is
 * trained alone by an exec with its seed, and depend on neither the other members nor the
 * number of threads. A group and its members are used by one thread at a time, the one that
 * uses the exec.
 *
 * On a device members lie in its memory and run one after the other in one stream; their bits
 * are those of a model that is trained alone there. A program is captured for each member that
 * runs, by its range and seed; at most 256 of these captures are kept, and the one that was
 * used longest ago goes. Where the device fails the call is SW_DEVICE, nothing of it can be
 * asked for, and no member there can be used any more. Callbacks and `threads` above 1 are
 * SW_UNSUPPORTED. */
/* A member of `of`; {0} is none. */
typedef struct {
    sw_members *of;
    uint32_t index, generation;
} sw_member;

/* What a callback sees of a member; valid during the call. */
typedef struct {
    sw_member member;
    void *state; /* state_bytes of them, to be read and written */
    size_t state_bytes;
    const float *knobs; /* of the shape, by their index */
    int n_knobs;
    uint64_t seed, step;
    double score; /* to be set: the metric "score" */
} sw_member_view;
/* A status that is not SW_OK is the member's. */
typedef sw_status sw_member_fn(sw_member_view *view, void *user);

typedef struct {
    size_t size;
    sw_model *shape; /* its layers, optimizers, knobs and frozen set; borrowed until the end. It
                        needs no memory of its own */
    sw_step_fn *fn;
    void *user;
    int threads; /* that each member runs on; 0: 1. A group that asks for all of the exec's runs
                    its members one after the other. The same bits for every number */
    /* Members that are no networks: this is called in the place of the step function, on any
     * thread, for different members at one time. `shape` is then a model of knobs alone, or of
     * states and knobs. NULL: a step function */
    sw_member_fn *callback;
    size_t state_bytes; /* with a callback: bytes of each member that are the program's own,
                           aligned to 64 and zero at first; copied, saved and moved with it */
    size_t arena_bytes; /* the most that a plan of the group may take for steps; 0: no limit */
} sw_members_opts;

/* Uses the exec's threads, device and budget, which is charged for each member and for a step
 * arena for each thread; on a device for one step arena and its inputs, beside those of the
 * exec's own runs. A plan is not made smaller for it. Destroy it before shape and exec.
 */
SW_MUST_USE SW_API sw_status sw_members_create(sw_members **out, sw_exec *exec,
                                               const sw_members_opts *opts);
SW_API void sw_members_destroy(sw_members *members);
/* How many there are; bytes of one: its range. */
SW_API size_t sw_members_count(const sw_members *members);
SW_API size_t sw_members_bytes(const sw_members *members);

/* A member whose first values are those of sw_model_ready(shape, exec, seed), with the shape's
 * knobs; random ops draw by `seed`. SW_NOMEM where the budget has no room for it. */
SW_MUST_USE SW_API sw_status sw_member_new(sw_member *out, sw_members *members, uint64_t seed);
/* Its range is free for the next one. {0} is fine. */
SW_API void sw_member_end(sw_member member);
/* One copy of parameters, optimizer state, buffers, states, kept gradients and knobs; `to`
 * keeps its seed, and is well again where it had failed. Both are members of one shape, or of
 * shapes with one layout, on whatever device. */
SW_MUST_USE SW_API sw_status sw_member_copy(sw_member to, sw_member from);
/* All of it between a member and a model of the shape's layout that is ready, on whatever
 * device.
 */
SW_MUST_USE SW_API sw_status sw_member_to_model(sw_model *to, sw_member from);
SW_MUST_USE SW_API sw_status sw_member_from_model(sw_member to, const sw_model *from);
/* All elements of a parameter, buffer or state, which `param` names in the shape. */
SW_MUST_USE SW_API sw_status sw_member_read(sw_member member, sw_param param, void *to,
                                            size_t bytes);
SW_MUST_USE SW_API sw_status sw_member_write(sw_member member, sw_param param, const void *from,
                                             size_t bytes);
/* A knob of the shape, of this member alone. The value must be one that sw_knob_set accepts. */
SW_MUST_USE SW_API sw_status sw_member_knob_set(sw_member member, sw_knob knob, float value);
SW_MUST_USE SW_API sw_status sw_member_knob_get(sw_member member, sw_knob knob, float *out);

typedef struct {
    size_t size;
    const sw_member *members; /* each at most once */
    size_t n;
    const sw_array *inputs; /* n_inputs arrays that all members read; with own_inputs n times so
                               many, member by member, of the same types and shapes */
    int n_inputs;
    int own_inputs;
    sw_mode mode;
    uint32_t variant;
    uint64_t step; /* of all of them */
    uint32_t run;  /* in the step */
    /* In the place of inputs: each member has the next batch of the feed, in the order of its
     * own stream, and goes on by one with every run in mode SW_TRAIN that did not fail. In mode
     * SW_EVAL all have batch `step` of their stream, and with `steps` those behind it, whatever
     * own_steps is. The batch is filled by the thread that runs
     * the member, into memory of the thread. Borrowed. */
    const sw_feed *feed;
    int same_data; /* 1: the stream of all is that of `data_seed`; 0: its seed is the member's
                    */
    uint64_t data_seed;
    int own_steps;  /* 1: the step is how many the member has made (sw_member_progress), which
                       counts on; `step` is not looked at */
    uint32_t steps; /* runs in a row of each member, with a feed or a callback; 0: 1. A thread
                       makes them all before its next member */
} sw_members_args;

/* Run the step function once for each of the members. A member that fails (an op refuses its
 * operands, or too many updates were skipped in a row, sw_optimizer_opts) has a status of its
 * own, and the others go on. One that failed behind an update is refused (SW_STALE) until it
 * is copied to or written from a model. SW_OK where the group ran, whatever its members'
 * status. */
SW_MUST_USE SW_API sw_status sw_members_run(sw_members *members, const sw_members_args *args);
/* Runs of several groups of one exec, side by side, as if they were one: n groups with the
 * arguments of each. What needs memory is done first, for all of them. */
SW_MUST_USE SW_API sw_status sw_members_run_all(sw_members *const *groups,
                                                const sw_members_args *args, size_t n);
/* Trace and plan what a run with these arguments would need, and take the memory for it: the
 * inputs' data may be NULL. *out: bytes that the group's exec then has for steps and batches,
 * of all its threads and groups; NULL is fine. */
SW_MUST_USE SW_API sw_status sw_members_plan(sw_members *members, const sw_members_args *args,
                                             size_t *out);
/* The same, and no memory is taken for it: what a step needs, arena_bytes the larger one of a
 * full batch and of the last one of an epoch. model_bytes is that of one member, data_bytes
 * that of one batch of a feed; on a device what all looks at the group so far take there for
 * inputs. SW_INVALID for callbacks. */
SW_MUST_USE SW_API sw_status sw_members_look(sw_members *members, const sw_members_args *args,
                                             sw_plan_info *out);
typedef struct {
    size_t size;
    int lanes;          /* of this group: threads of the exec by threads of a member */
    size_t lane_bytes;  /* step arenas and batches of the lanes of all groups of the exec; on a
                           device its step arena and inputs */
    size_t range_bytes; /* that the members of all of them have had at most */
    size_t live_bytes;  /* that they have now */
    size_t step_bytes;  /* of lane_bytes: the step arenas */
    size_t batch_bytes; /* of lane_bytes: what the lanes fill from feeds */
} sw_members_memory;
SW_MUST_USE SW_API sw_status sw_members_used(const sw_members *members, sw_members_memory *out);
/* Whose the bytes of a member are: each tensor of its range, as a storage that lives all the
 * time (no op; birth 0, death UINT32_MAX; offset from where the range begins), by id. Roles are
 * parameter, optimizer_state, buffer, state, gradient and knob; with a callback the bytes of
 * its own are a state without a layer. Bytes and padding add up to sw_members_bytes. While it
 * shows, runs of the exec are refused (SW_BUSY), and the group may not be destroyed. */
SW_MUST_USE SW_API sw_status sw_members_visit(sw_members *members,
                                              const sw_plan_visitor *visitor);
/* Whose the bytes of a lane's step are, as sw_plan_visit shows a plan: of a full batch or of
 * the last one of an epoch the one that has the larger arena. Takes no memory for it.
 * SW_INVALID for callbacks. */
SW_MUST_USE SW_API sw_status sw_members_visit_step(sw_members *members,
                                                   const sw_members_args *args,
                                                   const sw_plan_visitor *visitor);
/* The same by role and by layer, as sw_plan_shares shows a plan: one member, its batch and the
 * step in its lane. */
SW_MUST_USE SW_API sw_status sw_members_shares(sw_members *members, const sw_members_args *args,
                                               sw_share_visitor *visitor, void *to);
/* Write into a profile what the shape is: a record with the tensors of a member's range, and in
 * front of it the plans of the programs that n runs with these arguments have (n 0: of none).
 *
 * args   n of them, as far apart as their first size says; NULL with a callback
 * name   of the shape in reports, kept in the file alone
 * shape  receives its number, from 0 in each profile; NULL is fine. Untouched on failure
 *
 * An error of the file is the profile's, as for steps. */
SW_MUST_USE SW_API sw_status sw_members_profile(sw_members *members,
                                                const sw_members_args *args, size_t n,
                                                sw_profile *profile, const char *name,
                                                uint32_t *shape);
/* Of the last run, n values in the order of its members: a metric (NaN where a member failed)
 * of the last of its steps, its mean over all of them, and how each ended. SW_INVALID for an
 * unknown name and another n. */
SW_MUST_USE SW_API sw_status sw_members_metric(sw_members *members, const char *name,
                                               double *out, size_t n);
SW_MUST_USE SW_API sw_status sw_members_mean(sw_members *members, const char *name, double *out,
                                             size_t n);
SW_MUST_USE SW_API sw_status sw_members_status(sw_members *members, sw_status *out, size_t n);

/* Steps that a member has made, and batches that it has had: 0 at first; a copy takes the
 * donor's. Either may be NULL. */
SW_MUST_USE SW_API sw_status sw_member_progress(sw_member member, uint64_t *steps,
                                                uint64_t *batches);
SW_MUST_USE SW_API sw_status sw_member_progress_set(sw_member member, uint64_t steps,
                                                    uint64_t batches);
/* The seed of its random ops and of its own stream of a feed. */
SW_MUST_USE SW_API sw_status sw_member_seed(sw_member member, uint64_t *out);
SW_MUST_USE SW_API sw_status sw_member_seed_set(sw_member member, uint64_t seed);
/* Bytes of all that a member is (range, seed, progress), for sw_member_pack and _unpack: state
 * that is kept elsewhere while its slot is another's. A pack of one group fits every member of
 * a group whose shape has the same layout; seed and progress are in it too. */
SW_API size_t sw_members_packed_bytes(const sw_members *members);
SW_MUST_USE SW_API sw_status sw_member_pack(sw_member member, void *to, size_t bytes);
SW_MUST_USE SW_API sw_status sw_member_unpack(sw_member member, const void *from, size_t bytes);

/* ---- resizing: the same net with other widths ---------------------------------------------
 */

/* How useful the positions of one axis of a tensor are, for narrowing: n finite numbers, n the
 * axis's length in `from`. The tensor is one of `from` (of the shape, for members). A unit that
 * has several positions on the axis has their sum. Of an axis that is not narrowed: not used.
 */
typedef struct {
    sw_param tensor;
    int axis;
    int64_t n;
    const float *values;
    uint64_t reserved[2]; /* must be zero */
} sw_utility;

typedef struct {
    size_t size;
    uint64_t seed;               /* of the first values of new units */
    const sw_utility *utilities; /* n_utilities of them; units without any have the default */
    size_t n_utilities;
    int approximate; /* 1: units may be added to or taken from an axis that an op normalises
                        over (layer norm, RMS norm), which changes what the net computes; 0:
                        that is SW_UNSUPPORTED */
} sw_resize_opts;

typedef struct {
    size_t size;                             /* set by the caller */
    size_t from_bytes, to_bytes;             /* of the model or member */
    size_t from_arena_bytes, to_arena_bytes; /* of a step, as planned */
    int64_t added, dropped;                  /* units */
    int exact; /* 1: nothing is dropped, and no axis is resized that an op normalises over: the
                  net computes what it did */
} sw_resize_info;

/* Take over all that a model is (parameters, buffers, states, optimizer state, kept gradients,
 * knobs) into a model of the same tensors by name, with other widths. Which positions of which
 * tensors are one unit (a neuron, a channel, a head) follows from the ops between them: both
 * step functions are traced, with args_to and args_from, whose inputs' data may be NULL, and
 * must apply the same ops to inputs of the same types and shapes. The models are at the same
 * place of the two lists. A unit is added, or dropped, everywhere at once: where a residual
 * adds two results, in all that make and all that read the sum. opts NULL: all zero.
 *
 * Widened: units keep their order, new ones are behind them. What belongs to a new unit begins
 * as in sw_model_ready with opts->seed: a weight by its initialiser, a batch norm's weight 1,
 * bias 0, mean 0 and variance 1, optimizer state as it begins, kept gradients 0; but the
 * weights by which others read the new unit are 0. As long as the new unit's values are finite,
 * the net computes what it did: on the CPU the same bits, but for the sign of zeros, in
 * evaluation and up to the first update; on a card up to the order of sums. Dropout draws other
 * numbers.
 *
 * Narrowed: the most useful units stay, in their order; of equals those in front. The default
 * utility of a unit is the product of two 2-norms: of all elements of parameters that belong to
 * it, and of those by which others read it; float64, summed in a fixed order, NaN counts as 0.
 * So new units go first, and what was widened and not trained since has its bits again, all of
 * them, unless an old unit has utility 0 too.
 *
 * Optimizer state of a parameter's shape follows it; adafactor's rows and columns follow their
 * axes. Step counters go on, so the first updates of new units are larger than those of a new
 * net.
 *
 * On failure `to` is as it was. Both models must be ready, and `to` not `from`. SW_INVALID
 * names the tensor that has another name, rank or type, the optimizer, or the first op that
 * differs, or the tensor whose units reach an input, a loss, an output of the step function or
 * another model, which cannot be resized. SW_UNSUPPORTED names the op that a resized axis goes
 * through and that does not tie it: ops from outside, and those that sum or normalise over it
 * (sums, softmax, group norm; see approximate). SW_STALE: `from` is damaged. */
SW_MUST_USE SW_API sw_status sw_model_resize(sw_model *to, const sw_model *from, sw_exec *exec,
                                             const sw_run_args *args_to,
                                             const sw_run_args *args_from,
                                             const sw_resize_opts *opts);
/* The same between members, of two groups whose shapes differ in widths. Of `args` the inputs
 * (types and shapes), n_inputs, mode and variant are looked at, for both groups; `to` keeps its
 * seed, and is well again where it had failed. */
SW_MUST_USE SW_API sw_status sw_member_resize(sw_member to, sw_member from,
                                              const sw_members_args *args,
                                              const sw_resize_opts *opts);
/* What it would cost, and whether it can be: the same refusals. The models need no memory; a
 * narrowing is counted, and no utilities are. */
SW_MUST_USE SW_API sw_status sw_model_resize_plan(sw_model *to, sw_model *from, sw_exec *exec,
                                                  const sw_run_args *args_to,
                                                  const sw_run_args *args_from,
                                                  const sw_resize_opts *opts,
                                                  sw_resize_info *out);
SW_MUST_USE SW_API sw_status sw_members_resize_plan(sw_members *to, sw_members *from,
                                                    const sw_members_args *args,
                                                    const sw_resize_opts *opts,
                                                    sw_resize_info *out);

/* ---- feeds: batches by number, for many members ------------------------------------------ */

typedef struct {
    size_t size;
    int64_t batch;
    int shuffle;   /* 1: each stream and epoch has an order of its own, by a keyed bijection of
                      the samples; 0: as stored */
    int drop_last; /* leave a smaller last batch out */
} sw_feed_opts;
/* Nothing is kept for a stream, whatever their number: the order of epoch e of stream s is a
 * function of s, e and the number of samples. The samples are borrowed as by a loader. A loader
 * with `keyed` gives out the same batches. */
SW_MUST_USE SW_API sw_status sw_feed_create(sw_feed **out, const sw_dataset *dataset,
                                            const sw_feed_opts *opts);
SW_API void sw_feed_destroy(sw_feed *feed);
SW_API int64_t sw_feed_batches(const sw_feed *feed); /* of an epoch */
SW_API size_t sw_feed_bytes(const sw_feed *feed);    /* of one batch, as it is counted */
/* Which sample is number i (0 to n - 1) of an epoch of a stream. */
SW_MUST_USE SW_API sw_status sw_feed_sample(const sw_feed *feed, uint64_t stream,
                                            uint64_t epoch, int64_t i, int64_t *out);

/* ---- packing: who lies in the budget, who waits ------------------------------------------ */

/* Members of one shape. What they need is known from their plan: sw_members_bytes,
 * sw_plan_info.arena_bytes, sw_feed_bytes. */
typedef struct {
    size_t member_bytes, arena_bytes, batch_bytes;
    size_t members;
    uint64_t reserved[2]; /* must be zero */
} sw_pack_shape;

typedef struct {
    size_t size;
    int threads;       /* lanes, at most as many as were asked for: as many as fit */
    size_t bytes;      /* of the budget that the packing takes, at most all of it */
    size_t all_bytes;  /* with every member resident */
    size_t lane_bytes; /* of all lanes: arenas, batches and, where members wait, the slots that
                          they take turns in */
    size_t resident, waiting;
    size_t resident_bytes; /* ranges of those that are resident */
    size_t bound_bytes;    /* no packing has more resident bytes */
} sw_packing;

/* Place members into `budget` bytes: lanes (threads x (the largest arena + the largest batch)),
 * then as many bytes of members as fit beside them. The others wait elsewhere and take turns in
 * one slot of each lane, as large as the largest of them. Fewer threads are used where not all
 * fit. `resident` receives how many of each shape stay, n values. Whether it fits does not
 * depend on who comes first: every member that fits alone, in one lane, has its turn.
 * SW_NOMEM names the first shape that does not, and the least budget. Exact where sizes are
 * whole multiples of budget / 2^20; else at most members x budget / 2^20 bytes below it. */
SW_MUST_USE SW_API sw_status sw_pack(const sw_pack_shape *shapes, size_t n, size_t budget,
                                     int threads, size_t *resident, sw_packing *out);

/* ---- spaces of hyper-parameters ---------------------------------------------------------- */

typedef enum {
    SW_UNIFORM,     /* low to high */
    SW_LOG_UNIFORM, /* low to high, low above 0; the logarithm is uniform */
    SW_INTEGER,     /* whole numbers, low to high, both of them too */
    SW_CHOICE       /* one of a list, in its order */
} sw_hyper_kind;

/* `name` has 1 to 47 letters, digits, "_", "-" and "."; dots nest ("optimizer.lr"), so that
 * "optimizer" cannot be one beside it. */
typedef struct {
    size_t size;
    const char *name;
    sw_hyper_kind kind;
    double low, high;
    const double *choices;     /* n_choices of them, 1 to 4096, all different and finite;
                                  copied */
    const char *const *labels; /* of the choices, in logs: 1 to 63 bytes each, all different;
                                  copied; NULL: their numbers */
    int n_choices;
    int resample; /* SW_CHOICE: 1: explored by a new draw alone, never by a neighbour */
} sw_hyper;

/* A space is a list of at most 1024 hyper-parameters. SW_INVALID names the one whose bounds are
 * reversed or not finite, whose list is empty, or whose name is there already. Bounds of
 * integers are whole numbers up to 2^53. */
SW_MUST_USE SW_API sw_status sw_space_create(sw_space **out);
SW_API void sw_space_destroy(sw_space *space);
SW_MUST_USE SW_API sw_status sw_space_add(sw_space *space, const sw_hyper *hyper);
/* One from a text: NAME=uniform:LOW..HIGH, NAME=log:LOW..HIGH, NAME=int:LOW..HIGH, and
 * NAME=choice:A,B,C (numbers, or words, which are numbered from 0). */
SW_MUST_USE SW_API sw_status sw_space_parse(sw_space *space, const char *text);
SW_API int sw_space_count(const sw_space *space);
/* Position of a name; -1: there is none. */
SW_API int sw_space_find(const sw_space *space, const char *name);
/* Filled as sw_space_add was given it; pointers are valid as long as the space. */
SW_MUST_USE SW_API sw_status sw_space_at(const sw_space *space, int i, sw_hyper *out);
/* A draw of number i: a function of (seed, i, draw) alone, with the same bits on every machine.
 */
SW_MUST_USE SW_API sw_status sw_space_draw(const sw_space *space, int i, uint64_t seed,
                                           uint64_t draw, double *out);
/* Whether a value lies within what was declared; integers and choices exactly. */
SW_API int sw_space_has(const sw_space *space, int i, double value);

/* ---- population based training ----------------------------------------------------------- */

/* Who is replaced by whom. Truncation: the worst share copies members of the best, drawn
 * uniformly. Tournament: a member that reports is compared with another one, drawn uniformly,
 * and copies it where that is better. T-test: the same, where Welch's t-test over the last 10
 * scores of both says so at 5 %. (Jaderberg et al. 2017, section 4.1.1) */
typedef enum { SW_TRUNCATION, SW_TOURNAMENT, SW_T_TEST } sw_exploit;
/* How new values are found behind an exploit. Perturb: resampled with resample_probability,
 * else multiplied by one of the factors, and kept within the declared bounds; choices take a
 * neighbour in the list. PB2: a time-varying Gaussian process over what was reported, upper
 * confidence bound (Parker-Holder et al. 2020); numbers only, choices are perturbed. */
typedef enum { SW_PERTURB, SW_PB2 } sw_explore;

/* Called behind each explore, with the values in the order of the space, to be changed, and
 * those of the donor that they were found from; what it leaves outside of the bounds is
 * SW_INVALID and names the hyper-parameter. */
typedef sw_status sw_explore_fn(int member, const double *donors, double *values, int n,
                                void *user);

typedef struct {
    size_t size;
    const sw_space *space; /* copied */
    int members;           /* 1 to 1,000,000 */
    int minimize;          /* 1: a lower score is better */
    uint64_t seed;
    double interval; /* of time (whatever sw_pbt_report is told: steps, say) between a member's
                        turns; above 0 */
    double burn_in;  /* no exploit before this time */
    double quantile; /* share that is replaced and share that donates, 0 to 0.5: ceil of it of
                        the members that have a score and have not ended, at most half of them,
                        none where there is one; 0: 0.25; negative: none */
    double replaced, donors; /* shares of their own in the place of quantile, each above 0 and
                                at most 1, together at most 1; 0: quantile */
    double resample_probability; /* 0: 0.25; negative: never */
    double factors[2];           /* 0: 1.2 and 0.8 */
    int synch; /* 1: a turn is when all that go on have reported. 0: members take turns in the
                  order of (how long they have trained themselves, index), as if all trained at
                  once and equally fast, and donors give the state of their last turn */
    sw_exploit exploit;
    sw_explore explore;
    sw_explore_fn *custom; /* NULL: none */
    void *user;
    double stop_time;  /* a member ends at this time; 0: never */
    double stop_score; /* and where its score is as good as this; with has_stop_score */
    int has_stop_score;
    uint64_t without; /* number, from 1, of an exploit that is left out: a replay of the same
                         run that lacks it. 0: none */
} sw_pbt_opts;

/* Decisions only: it knows members by their index, trains none and reads no clock. The same
 * options and the same reports give the same decisions. */
SW_MUST_USE SW_API sw_status sw_pbt_create(sw_pbt **out, const sw_pbt_opts *opts);
SW_API void sw_pbt_destroy(sw_pbt *pbt);
/* The present value of hyper-parameter `hyper` of a member: at first a draw; what was set
 * within the bounds afterwards. */
SW_MUST_USE SW_API sw_status sw_pbt_value(const sw_pbt *pbt, int member, int hyper,
                                          double *out);
SW_MUST_USE SW_API sw_status sw_pbt_value_set(sw_pbt *pbt, int member, int hyper, double value);

/* Who should run next, and until which time: of those that go on the ones that have trained
 * least themselves; of these, those with the least time and the nearest turn, so that all have
 * the same time before and the same *until. At most `room` of them in the order of their index.
 * *n 0: none goes on. In synch mode members wait for the last one of their turn. Whatever
 * `room` is, a member runs from turn to turn. SW_INVALID while decisions are due. */
SW_MUST_USE SW_API sw_status sw_pbt_next(sw_pbt *pbt, int *members, int room, int *n,
                                         double *until);
/* A member has come to `time` with `score` (NaN: it has none, and is in no quantile). Decisions
 * wait until sw_pbt_next_event, and in asynchronous runs for the members that are behind: one
 * that will never report must leave. A report before the member's turn counts for stop rules
 * and the t-test alone. SW_INVALID where it does not go forward in time, has ended, or has a
 * report that waits, and until sw_pbt_next_event has answered SW_PBT_NONE. */
SW_MUST_USE SW_API sw_status sw_pbt_report(sw_pbt *pbt, int member, double time, double score);
/* A member is out: it failed, or ended on its own. A report of it that waits is forgotten. It
 * is not replaced, and none waits for it. In asynchronous runs it is out at its place in the
 * order, so that decisions do not depend on when the call is made: what was kept of it may
 * still be given to a member whose turn is before that, and SW_PBT_DROP follows. In synch mode
 * it is no donor any more. */
SW_MUST_USE SW_API sw_status sw_pbt_leave(sw_pbt *pbt, int member);

typedef enum {
    SW_PBT_NONE,    /* nothing (more) to do: ask sw_pbt_next */
    SW_PBT_KEEP,    /* copy the state of `member` aside: it may be a donor later. Asynchronous
                       runs only */
    SW_PBT_DROP,    /* what was kept of `member` is needed no more */
    SW_PBT_EXPLOIT, /* copy the kept state of `donor` (synch: its present one) to `member`, then
                       take member's values, which are new */
    SW_PBT_STOP     /* `member` has ended */
} sw_pbt_what;
typedef struct {
    size_t size;
    sw_pbt_what what;
    int member, donor;
    uint64_t number;           /* of exploits, from 1 */
    double time, donor_time;   /* of member, before, and of what the donor gives */
    double score, donor_score; /* t-test: the donor's is the mean of its last ones */
} sw_pbt_event;
/* The next thing to do, in order; each must have been done when the next one is asked for. What
 * fails (the explore function, the logs) has changed nothing, and can be asked for again. PB2
 * takes some 0.1 s for an exploit once it has 1000 points. */
SW_MUST_USE SW_API sw_status sw_pbt_next_event(sw_pbt *pbt, sw_pbt_event *out);

typedef struct {
    size_t size;
    double time, score; /* of its last report; score NaN: none yet */
    int ended;          /* by a stop rule or by sw_pbt_leave */
    int kept;           /* its state was copied aside */
    uint64_t exploits;  /* how often it was replaced */
} sw_pbt_member;
SW_MUST_USE SW_API sw_status sw_pbt_look(const sw_pbt *pbt, int member, sw_pbt_member *out);

/* Logs in JSON lines, in folder `dir`, which must be there: pbt_global.txt, of all exploits,
 * and pbt_policy_<member>.txt, of the exploits that its present state comes from. A line is
 * [target, donor, target time, donor time, donor's values, new values], values as nested
 * objects; the first line of a policy is [member, member, 0, 0, first values, first values]. An
 * exploit copies the donor's policy over the target's and appends its line. NULL: no logs. Call
 * it before the first sw_pbt_next, which begins the files, or beside sw_pbt_restore, in any
 * order: pbt_global.txt is cut to what it had when the population was saved then, the policies
 * are made of it, and SW_FORMAT says that its bytes are others. Written at each exploit, so
 * that a process that is killed leaves whole lines; not synced. SW_IO names the file. */
SW_MUST_USE SW_API sw_status sw_pbt_log(sw_pbt *pbt, const char *dir);

/* All that decisions depend on, for a checkpoint; at any moment, with events that are not given
 * out yet. Restored by a sw_pbt of the same options: SW_INVALID names the option that is
 * another; damaged bytes are SW_FORMAT. Logs are cut to what they had, and policies made of
 * them again. The bytes are for machines of the same byte order. On failure nothing changes,
 * but for logs. */
SW_MUST_USE SW_API sw_status sw_pbt_save(const sw_pbt *pbt, void **bytes, size_t *n);
SW_API void sw_pbt_free(void *bytes, size_t n); /* what sw_pbt_save gave */
SW_MUST_USE SW_API sw_status sw_pbt_restore(sw_pbt *pbt, const void *bytes, size_t n);

/* The schedule of one lineage, from a policy file: from change k, at time *time, on member
 * *member of the run goes on with these values (in the order of the space). All three may be
 * NULL. Change 0 is at time 0, the others at the time of the donor's state. SW_FORMAT names
 * file and line; SW_INVALID past the last change. */
SW_MUST_USE SW_API sw_status sw_policy_changes(const char *path, const sw_space *space, int *n);
SW_MUST_USE SW_API sw_status sw_policy_change(const char *path, const sw_space *space, int k,
                                              int *member, double *time, double *values);

/* ---- evolution strategies: gradients from runs forward alone ------------------------------
 */

/* An evaluation is a run of the step function with noise on the parameters: theta + sigma E or
 * theta - sigma E, where E is a function of (seed, generation, parameter, direction, element)
 * and is stored nowhere: kernels make its parts where they use them. A population is
 * `directions` directions with `repeats` evaluations each, and many evaluations are rows of one
 * batch. From one number for each evaluation, its fitness, comes an estimate of the gradient,
 * g = 1 / (sigma n) times the sum over the n evaluations of u s E,
 * with the sign s of the noise and the shaped fitness u: a mean, sigma outside. It goes to an
 * optimizer, negated where fitness is maximised. With ars n counts the evaluations that are
 * kept. With snes the utilities are of rank and add up to 0, and what goes to the optimizer is
 * - sigma sum of u s E: the step of the paper is sgd's with a rate of 1. */

/* Shape the fitness: n numbers in place, in the order (repeat, direction). NaN and infinities
 * have become the worst finite one (all 0 where there is none). Anything but SW_OK ends
 * sw_es_step. */
typedef sw_status sw_es_shape_fn(float *fitness, size_t n, void *user);

typedef struct {
    size_t size;
    /* What the others are by default: "nes" (centred ranks, OpenAI-ES), "ars" (the directions
     * whose better evaluation is among the best `top`, divided by the standard deviation of
     * their fitness; antithetic), "eggroll" (low-rank noise, standardised fitness), "snes" (iid
     * noise with a sigma of each element, which learns; utilities by rank). NULL: "nes" */
    const char *strategy;
    /* "low-rank" (default but for snes), "iid", "permuted", "permuted-in", "permuted-out",
     * "sign-flip", "sign-flip-in", "sign-flip-out", "sparse", "dropout": kernels/noise.h has
     * the formulas. Vectors (biases, weights of norms) have iid noise whatever this is, with
     * dropout none */
    const char *noise;
    const char *distribution;  /* "normal" (default), "rademacher", "bits" */
    int rank;                  /* low-rank: at least 1; 0: 1 */
    float in_share, out_share; /* permuted, sparse: share of columns and rows with noise, above
                                  0 to 1; 0: 1 */
    float sigma;               /* standard deviation of the noise on each element; 0: 0.01 */
    uint32_t directions;       /* of a generation, 1 to 2^31 */
    uint32_t repeats;  /* evaluations of a direction; 0: 2 with antithetic noise, else 1 */
    int no_antithetic; /* 1: all evaluations of a direction have its noise; 0: repeats from
                          (repeats + 1) / 2 on have the negated one */
    uint32_t slice; /* directions of one run; 0: all. The same bits for every number: the last
                       slice is filled up with directions that do not count */
    const char *shaping; /* "ranks" (centred, -0.5 to 0.5), "standardised" (mean 0, variance 1),
                            "raw"; NULL: that of the strategy */
    uint32_t top;        /* ars: directions that count; 0: half of them */
    int maximise;        /* 1: larger fitness is better; 0: it is a loss */
    float l1, l2;        /* added to the estimate: l1 sign(theta) + l2 theta */
    uint64_t seed;       /* of the noise */
    sw_es_shape_fn *shape; /* in the place of shaping; called by sw_es_step */
    void *shape_user;
    float sigma_lr; /* snes: rate of the logarithms of its sigmas; 0: (3 + ln P) / (5 sqrt P) of
                       P elements */
} sw_es_opts;

/* For the parameters that the optimizer owns, of its model, which is to be declared still: its
 * sigma is a knob, and those of snes are states. It has 12 bytes for each evaluation, from the
 * exec's budget, once sw_es_evaluate is called; nothing of it grows
 * with a parameter. Destroy it before the model. */
SW_MUST_USE SW_API sw_status sw_es_create(sw_es **out, sw_optimizer *optimizer,
                                          const sw_es_opts *opts);
SW_API void sw_es_destroy(sw_es *es);
/* sigma: above 0. */
SW_API sw_knob sw_es_sigma(sw_es *es);
/* Generations that have been stepped; runs that cover one; rows of a slice's batch: repeats x
 * slice (times those of each evaluation). */
SW_API uint64_t sw_es_generation(const sw_es *es);
SW_MUST_USE SW_API sw_status sw_es_generation_set(sw_es *es, uint64_t generation);
SW_API uint32_t sw_es_slices(const sw_es *es);
SW_API size_t sw_es_rows(const sw_es *es);
/* Bytes of the host that it has: fitness, order and weights of a generation. */
SW_API size_t sw_es_bytes(const sw_es *es);

/* The switch: sw_run_args.es and .es_slice, with sw_run, sw_plan and all that take such
 * arguments. The step function then sees perturbed parameters of the optimizer's model:
 *
 * - every batch is (repeats, slice, rows of an evaluation): axis 0 of what parameters meet is a
 *   multiple of sw_es_rows, and row i belongs to evaluation i / (rows of each);
 * - linear, conv2d, embedding and norms, sw_add and sw_mul of a vector along the last axis or
 *   the channels, and sw_add of rows of a table to each sample, use the noise of their
 * parameters; another op that reads a parameter is SW_UNSUPPORTED, by name: freeze it or make
 * it another op;
 * - losses, and sums, means and maxima over all axes, give one number for each evaluation, a
 *   vector; sw_metric of such a vector is its mean, and the vector an output of that name;
 * - sw_backward, sw_clip_norm, sw_accumulate and sw_update do nothing.
 *
 * The generation stands for the step and the slice for .step and .run. What depends on how a
 * generation is cut: batch norm in SW_TRAIN has the statistics of the slice, random ops
 * (dropout in SW_TRAIN) draw by the row in the slice, and group norm of images adds up in
 * another order where rows fill blocks of sixteen. */

/* Run a slice and tell what metric `fitness` came to in each evaluation. */
SW_MUST_USE SW_API sw_status sw_es_evaluate(sw_es *es, sw_exec *exec, const sw_run_args *args,
                                            uint32_t slice, const char *fitness);

/* Ask: which evaluation row e of a slice is (0 <= e < sw_es_rows). counts 0: it fills a slice
 * up, and is not told. */
typedef struct {
    size_t size;
    uint32_t direction, repeat;
    float sign; /* of its noise: 1 or -1 */
    int counts;
} sw_es_evaluation;
SW_MUST_USE SW_API sw_status sw_es_ask(const sw_es *es, uint32_t slice, size_t e,
                                       sw_es_evaluation *out);
/* Tell: one number for an evaluation, in any order; a second one replaces it. */
SW_MUST_USE SW_API sw_status sw_es_tell(sw_es *es, uint32_t direction, uint32_t repeat,
                                        float fitness);
/* The same for all that count of a slice: n = sw_es_rows numbers in the order of its rows. */
SW_MUST_USE SW_API sw_status sw_es_tell_slice(sw_es *es, uint32_t slice, const float *fitness,
                                              size_t n);
/* Write theta + sign sigma E of a direction of this generation into a model of the same layout:
 * the member itself, for what runs without noise. Logits become 1 and -1, by its bits. It has
 * all else of the model too. The sigma of an sw_es is in the layout: a model that was declared
 * alike needs one of its own, made in front of sw_model_ready. */
SW_MUST_USE SW_API sw_status sw_es_member(sw_es *es, uint32_t direction, int sign,
                                          sw_model *to);

typedef struct {
    size_t size;
    uint64_t generation; /* that was stepped */
    uint64_t evaluations, not_finite;
    double mean, best, worst, deviation; /* of the fitness that was told */
} sw_es_info;
/* Estimate the gradient and update the model by its optimizer: a program without backward, in
 * which the estimate of a large weight exists some rows at a time. SW_INVALID where evaluations
 * have not been told, by their number. Then the next generation begins. Where the program fails
 * (SW_NOMEM) another try goes on with what was told. out: NULL is fine. */
SW_MUST_USE SW_API sw_status sw_es_step(sw_es *es, sw_exec *exec, sw_es_info *out);
/* What that program needs, without memory for it. */
SW_MUST_USE SW_API sw_status sw_es_plan(sw_es *es, sw_exec *exec, sw_plan_info *out);

/* ---- zeroth order: training in the memory of inference -------------------------------------
 */

typedef struct {
    size_t size;
    const char *kind; /* "mezo": z of N(0, 1); "lozo": z = U V^T / sqrt(rank) of matrices, V the
                         same for `window` steps. NULL: "mezo" */
    float eps;        /* of the perturbation; 0: 0.001 */
    float lr;         /* 0: 1e-6 */
    float weight_decay;          /* of matrices: vectors have none */
    int rank;                    /* lozo, 1 to 256; 0: 2 */
    uint32_t window;             /* lozo; 0: 50 */
    const sw_schedule *schedule; /* of lr, copied; NULL: constant */
    uint64_t seed;
    uint64_t max_steps; /* that its record has room for, 4 bytes each; 0: no record */
} sw_zo_opts;

/* Of all parameters of the model that are not frozen; MeZO (Malladi et al. 2023), LOZO (Chen et
 * al. 2024). It borrows the model, which gets nothing more, and has no bytes of tensors: the
 * most that a step takes is what its runs take. Destroy it before the model. SW_INVALID for
 * numbers that are negative or not finite, and for rank and window with "mezo". */
SW_MUST_USE SW_API sw_status sw_zo_create(sw_zo **out, sw_model *model, const sw_zo_opts *opts);
SW_API void sw_zo_destroy(sw_zo *zo);
/* One step: theta += eps z; a run, L+; theta -= 2 eps z; a run, L-; theta += eps z;
 * c = (L+ - L-) / (2 eps); theta -= lr (c z + weight_decay theta). The runs are sw_run with
 * these arguments; `loss` is their metric. Each product and each sum is rounded, and what
 * rounding leaves of the perturbation is part of the trajectory. *out (or NULL): (L+ + L-) / 2.
 * A loss that is not finite, or a c that no float is: c is 0, and that is counted.
 *
 * What can be refused ahead is, and the model is as before: no memory, a step function with
 * sw_update or without the metric, other parameters frozen than in the first step of a record,
 * a record that is full. Where a run fails behind that the model is damaged (SW_STALE until it
 * is restored), and a record with steps in front of it cannot be saved any more. Moves are runs
 * of the exec too: behind the call sw_metric_past has the run of L- as 1, that of L+ as 3. */
SW_MUST_USE SW_API sw_status sw_zo_step(sw_zo *zo, sw_exec *exec, const sw_run_args *args,
                                        const char *loss, double *out);
SW_API uint64_t sw_zo_steps(const sw_zo *zo);
SW_API uint64_t sw_zo_not_finite(const sw_zo *zo);
/* The steps as a file: a sum of the parameters in front of the first step and behind the last
 * (names, shapes, which are frozen, elements), the options, one number for each step, a sum of
 * the file: 4 bytes a step and 264. Written whole or not at all. Between its first step and
 * this call nothing else may change the parameters: the record would be of other ones. */
SW_MUST_USE SW_API sw_status sw_zo_save(const sw_zo *zo, const char *path);
/* Make the steps of a record with a ready model that is as the first step found it (SW_INVALID
 * else, and it is as before): bit for bit what the recorded run left, on any number of threads
 * and any instruction set. Where that is not so the answer is SW_FORMAT, and the model is
 * damaged. A file that is damaged, cut or no record is SW_FORMAT, and nothing has changed. No
 * data is needed. progress (or NULL) is called behind each step; anything but SW_OK ends it,
 * and is returned: the model is then as it was behind that step. */
typedef sw_status sw_zo_progress_fn(void *user, uint64_t step, uint64_t steps);
SW_MUST_USE SW_API sw_status sw_zo_replay(sw_model *model, sw_exec *exec, const char *path,
                                          sw_zo_progress_fn *progress, void *user);

/* ---- genomes: nets as data -----------------------------------------------------------------
 */

/* A genome is a net and how it is trained, as data: a graph of layers, an optimizer, a batch
 * size and a loss. Its text is JSON, one vertex a line (tools/docs/architectures.md). A genome
 * is valid at every moment: what makes or changes one refuses what could not be trained. */
typedef enum {
    SW_VERTEX_INPUT, /* vertex 0, and no other */
    SW_VERTEX_LINEAR,
    SW_VERTEX_CONV2D,
    SW_VERTEX_BATCH_NORM,
    SW_VERTEX_MAX_POOL,
    SW_VERTEX_AVG_POOL,
    SW_VERTEX_GLOBAL_MAX_POOL, /* these two give vectors */
    SW_VERTEX_GLOBAL_AVG_POOL,
    SW_VERTEX_ACTIVATION,
    SW_VERTEX_DROPOUT,
    SW_VERTEX_FLATTEN, /* an image to a vector */
    SW_VERTEX_ADD,     /* of inputs of one shape */
    SW_VERTEX_CONCAT   /* of channels: images of one height and width, or vectors */
} sw_vertex_kind;
#define SW_VERTEX_KINDS 13
/* "conv2d" and so on; NULL past the end. */
SW_API const char *sw_vertex_kind_name(sw_vertex_kind kind);

/* What mutations and crossover leave alone. */
#define SW_SHIELD_SIZE 1u    /* its number of outputs */
#define SW_SHIELD_REMOVE 2u  /* it stays */
#define SW_SHIELD_INPUTS 4u  /* it reads what it reads, and nothing is put in between */
#define SW_SHIELD_OUTPUTS 8u /* the same of those that read it */
#define SW_SHIELD_KERNEL 16u /* kernel, and what kind of pool it is */
#define SW_SHIELD_ACTIVATION 32u
#define SW_SHIELD_CROSSOVER 64u /* it is in no segment that is swapped */
#define SW_SHIELD_ALL 127u

/* A vertex; pointers are valid as long as the genome. */
typedef struct {
    size_t size; /* set by the caller */
    const char *name;
    sw_vertex_kind kind;
    const char *activation; /* "relu", ...; NULL: it is none */
    const uint32_t *inputs; /* vertices, all in front of it */
    int n_inputs;
    uint32_t shield;
    int kernel, stride, dilation, groups; /* groups 0: depthwise, as many as channels */
    float rate;                           /* of dropout */
    int64_t channels, height, width;      /* of a sample's result; a vector has height 0 */
    uint64_t parameters;
    sw_update_time update; /* RELEASE or AFTER */
    int identity;          /* 1: its weights begin as those of the identity */
} sw_vertex;

typedef struct {
    size_t size; /* set by the caller */
    const char *name;
    uint32_t n_vertices, n_edges;
    int64_t channels, height, width; /* of an input sample; a vector has height 0 */
    int64_t classes;
    uint64_t parameters;
    const char *optimizer, *loss;
    float lr, momentum, weight_decay;
    float clip;      /* bound of the norm of each gradient, by a hook; 0: none */
    float clip_norm; /* bound of the norm of all of them, which updates after backward need;
                        0: none */
    int64_t batch;
    uint64_t hash; /* of all that its text says but for its own name */
} sw_genome_info;

/* Read a text. SW_FORMAT names `path` (which is for messages alone) and the line of what is
 * damaged, unknown, missing, or cannot be: an input that is not in front of its vertex, sizes
 * or images that do not fit, an even kernel that is not a pool's, updates that cannot be mixed.
 */
SW_MUST_USE SW_API sw_status sw_genome_parse(sw_genome **out, const char *text, size_t bytes,
                                             const char *path);
SW_MUST_USE SW_API sw_status sw_genome_load(sw_genome **out, const char *path);
/* Written whole or not at all. */
SW_MUST_USE SW_API sw_status sw_genome_save(const sw_genome *genome, const char *path);
/* The text, with a zero behind its *bytes; for sw_text_free. The same genome has the same
 * text. */
SW_MUST_USE SW_API sw_status sw_genome_print(const sw_genome *genome, char **text,
                                             size_t *bytes);
SW_API void sw_text_free(char *text, size_t bytes);
SW_MUST_USE SW_API sw_status sw_genome_copy(sw_genome **out, const sw_genome *from);
SW_API void sw_genome_destroy(sw_genome *genome);
SW_MUST_USE SW_API sw_status sw_genome_look(const sw_genome *genome, sw_genome_info *out);
SW_MUST_USE SW_API sw_status sw_genome_vertex(const sw_genome *genome, uint32_t i,
                                              sw_vertex *out);

/* ---- search spaces: which genomes there are ------------------------------------------------
 */

/* What is to be learnt. */
typedef struct {
    size_t size;
    int64_t channels, height, width; /* of a sample; height 0: a vector of `channels` */
    int64_t classes;
} sw_task;

/* A tree of layers with ranges, chains, repeats, forks, residuals, choices and conditions, and
 * beside it ranges of optimizer, rate and batch: JSON (tools/docs/architectures.md). SW_FORMAT
 * names the line. */
SW_MUST_USE SW_API sw_status sw_search_space_parse(sw_search_space **out, const char *text,
                                                   size_t bytes, const char *path);
SW_MUST_USE SW_API sw_status sw_search_space_load(sw_search_space **out, const char *path);
/* The space that is there without a file: classifiers of images, or of vectors. Its text is
 * what sw_search_space_text gives. */
SW_MUST_USE SW_API sw_status sw_search_space_default(sw_search_space **out,
                                                     const sw_task *task);
SW_API const char *sw_search_space_text(const sw_search_space *space); /* as it was read */
SW_API void sw_search_space_destroy(sw_search_space *space);
/* A genome of the space: a function of (space, task, seed) alone. SW_INVALID where the space
 * has none for the task, by the node and why. */
SW_MUST_USE SW_API sw_status sw_search_space_draw(const sw_search_space *space,
                                                  const sw_task *task, uint64_t seed,
                                                  sw_genome **out);

/* ---- nets: genomes that run ----------------------------------------------------------------
 */

/* The loss of logits (batch, classes) and labels (batch). */
typedef sw_value sw_loss_fn(sw_ctx *ctx, sw_value logits, sw_value labels, void *user);
/* Called for each gradient in front of its update: what it returns, of the same shape, is used
 * in its place. */
typedef sw_value sw_gradient_fn(sw_ctx *ctx, sw_param param, sw_value gradient, void *user);

/* A loss that genomes name. */
typedef struct {
    const char *name;
    sw_loss_fn *fn;
    void *user;
    uint64_t reserved[2]; /* must be zero */
} sw_named_loss;

typedef struct {
    size_t size;
    float scale[4], shift[4]; /* of bytes, by channel (n_scales of them; 0: 1 / 255 and 0):
                                 x * scale + shift */
    int n_scales;
    const sw_named_loss *losses; /* n_losses, beside "cross_entropy"; borrowed */
    int n_losses;
    sw_gradient_fn *hook; /* NULL: none */
    void *hook_user;
    int utility;        /* 1: states of neuron utility, which variant 1 of the step averages */
    float utility_rate; /* new = (1 - rate) old + rate now; 0: 0.05 */
} sw_net_opts;

/* A model and a step function of a genome, which is copied. Parameters are VERTEX.weight and
 * so on. opts NULL: all zero. */
SW_MUST_USE SW_API sw_status sw_net_create(sw_net **out, const sw_genome *genome,
                                           const sw_net_opts *opts);
SW_API void sw_net_destroy(sw_net *net);
SW_API sw_model *sw_net_model(sw_net *net);
SW_API sw_optimizer *sw_net_optimizer(sw_net *net);
/* sw_model_ready of its model, with the weights of vertices that begin as the identity, and
 * utilities of 2^-23. */
SW_MUST_USE SW_API sw_status sw_net_ready(sw_net *net, sw_exec *exec, uint64_t seed);
SW_API const sw_genome *sw_net_genome(const sw_net *net);
/* The step function; user: the net. Inputs: samples (batch, channels, height, width) or (batch,
 * channels), U8 or F32, and labels (batch). Metrics "loss" and "accuracy"; SW_TRAIN updates
 * too. Variant 1 of a net with utility also averages the utility of the neurons of each vertex
 * that has a size: the mean over the batch of |mean over positions of activation x gradient|
 * (Molchanov et al. 2017), into the state VERTEX.utility. */
SW_API void sw_net_step(sw_ctx *ctx, void *net);

/* What training a genome takes, before anything of it runs. */
typedef struct {
    size_t size;       /* set by the caller */
    size_t peak_bytes; /* of a training step with its batch: model, step and batch */
    size_t model_bytes, arena_bytes, batch_bytes;
    uint64_t operations; /* of a training step; per_sample: of it, of each sample */
    double operations_per_sample;
    uint64_t parameters;
    uint64_t ns; /* that finding out took */
} sw_price;
/* Trace and plan a training step of the genome's batch, without tensor memory: bytes to the
 * byte, those of a member of a group. With utility arena_bytes is the larger one of both
 * variants. `input` is the type of a sample's numbers (SW_U8 or SW_F32). Nothing is kept, and
 * no budget is asked. */
SW_MUST_USE SW_API sw_status sw_genome_price(const sw_genome *genome, sw_exec *exec,
                                             const sw_net_opts *opts, sw_dtype input,
                                             sw_price *out);

/* Take over from the nets of a genome's parents what it has of them: weights, buffers,
 * optimizer state of the same kind, utility, by the neurons' descent, which the genome of `to`
 * has (sw_genome_mutate, sw_genome_crossover). New outputs begin by their initialiser, what
 * reads a new input with 0, filters stay aligned, optimizer state of what is new as it begins,
 * its utility with the machine epsilon; vertices of neither parent as in sw_model_ready, or as
 * the identity. Step counters, and counts of skipped updates, are those of the first parent
 * whose optimizer is of the same kind and of which a parameter comes; knobs those of `to`. b
 * NULL: of one parent. All models are ready. On failure `to` is as it was. SW_INVALID: `a` is
 * not a net of the parent. */
SW_MUST_USE SW_API sw_status sw_net_inherit(sw_net *to, const sw_net *a, const sw_net *b,
                                            uint64_t seed);

/* A function on gradients in a step function: called for every gradient that the model's
 * optimizers use, before the next sw_clip_norm or sw_update looks at it, with an open ctx.
 * What it appends runs where the update does: a released update stays released, and the
 * gradient that goes in ends with it. The result is what is checked for NaN and infinities. fn
 * NULL: none any more. Ends with the step function. SW_UNSUPPORTED, at the update, with
 * keep_gradients. */
SW_API void sw_gradient_hook(sw_ctx *ctx, sw_model *model, sw_gradient_fn *fn, void *user);

/* ---- mutation and crossover ----------------------------------------------------------------
 */

typedef enum {
    SW_MUTATE_SIZE,          /* outputs of a vertex: by a share of low to high of them */
    SW_MUTATE_ADD_VERTEX,    /* behind it: a draw from the space, three times in four one that
                                begins as the identity; not behind the input */
    SW_MUTATE_REMOVE_VERTEX, /* what reads it reads what it read, of a join one of them; what
                                no vertex reads then goes too */
    SW_MUTATE_ADD_EDGE,      /* from it to a later one, by an add or a concat in between */
    SW_MUTATE_REMOVE_EDGE,   /* of an add or a concat, from what others read too */
    SW_MUTATE_KERNEL,        /* by low to high, in steps of two; filters stay aligned */
    SW_MUTATE_ACTIVATION,
    SW_MUTATE_POOL,           /* max to average and back */
    SW_MUTATE_RATE,           /* of learning: times 1 + a share of low to high; 1e-6 to 1 */
    SW_MUTATE_OPTIMIZER,      /* another kind, the rate stays */
    SW_MUTATE_OPTIMIZER_PART, /* weight decay, momentum or clip: there, or gone */
    SW_MUTATE_BATCH,          /* times 1 + a share of low to high, in multiples of 8 */
    SW_MUTATE_GROW /* all sizes by the largest share up to high that sw_mutate_opts.fits: found
                      by bisection */
} sw_mutation_kind;
#define SW_MUTATION_KINDS 13
SW_API const char *sw_mutation_kind_name(sw_mutation_kind kind); /* NULL past the end */

/* By which vertices are preferred: with the utility u of a vertex (the mean of its neurons), m
 * the largest and a the mean of all that the mutation could change, the probability is
 * p^((2 m^s - u^s) / (2 m^s - a^s)), s = 1/2, for HIGH, and p^(1 / that), s = 2, for LOW. p for
 * vertices without utilities. */
typedef enum { SW_WEIGH_NOTHING, SW_WEIGH_HIGH, SW_WEIGH_LOW } sw_weigh;

typedef int sw_vertex_filter(const sw_genome *genome, uint32_t vertex, void *user);
/* One of a list, applied in its order. */
typedef struct {
    sw_mutation_kind kind;
    sw_weigh weigh;
    double probability; /* of each vertex that it could change; of the genome for those of
                           optimizer and batch, and for GROW */
    double low, high;   /* both 0: -0.2 and 0.2 of sizes, -2 and 2 of kernels, -0.15 and 0.15 of
                           rates, -0.5 and 0.5 of batches, 0 and 1 of GROW. Others have none */
    const sw_search_space *space; /* ADD_VERTEX: its "insert" part; NULL: that of the opts */
    uint32_t min_vertices;        /* not where the genome has fewer */
    uint64_t max_parameters;      /* not where it has more; 0: no bound */
    sw_vertex_filter *filter;     /* 0: not this vertex; NULL: all */
    void *user;
    uint64_t reserved[2]; /* must be zero */
} sw_mutation;

/* What was done; `text` says it: "conv3: 16 to 19 outputs". */
typedef struct {
    size_t size;
    sw_mutation_kind kind;
    const char *vertex; /* NULL: of optimizer or batch */
    const char *text;
    int exact; /* 1: the net computes what it did, up to 1e-6 */
} sw_mutation_record;
typedef void sw_mutation_fn(const sw_mutation_record *record, void *user);

/* Utility of the neurons of a vertex with parameters; vertices without any: 1 for each. What is
 * below 0 or not finite counts as 0. */
typedef struct {
    uint32_t vertex;
    int64_t n; /* its channels */
    const float *values;
    uint64_t reserved[2]; /* must be zero */
} sw_neuron_utility;

/* May this genome be? 1: yes; 0: no; below 0: it failed, sw_last_error() says why, and the call
 * returns the status of which this is the negative. */
typedef int sw_genome_fits(const sw_genome *genome, void *user);

typedef struct {
    size_t size;
    const sw_mutation *mutations; /* n_mutations; none: sw_mutations_default */
    size_t n_mutations;
    uint64_t seed;
    const sw_search_space *space;       /* NULL: the default one */
    const sw_neuron_utility *utilities; /* n_utilities */
    size_t n_utilities;
    sw_genome_fits *fits; /* a hard constraint: a mutation whose result does not is undone;
                             NULL: all do */
    void *fits_user;
    sw_mutation_fn *record; /* NULL: none */
    void *record_user;
    uint32_t max_vertices; /* 0: 1024 */
    int64_t max_size;      /* of a vertex; 0: 4096 */
} sw_mutate_opts;
/* The mutations that a run has by itself. */
SW_API const sw_mutation *sw_mutations_default(size_t *n);
/* A child of a genome: a function of its arguments alone. It may be equal to the parent. */
SW_MUST_USE SW_API sw_status sw_genome_mutate(sw_genome **out, const sw_genome *parent,
                                              const sw_mutate_opts *opts);

typedef struct {
    size_t size;
    uint64_t seed;
    double vertices, optimizer, rate, batch; /* probability that each is exchanged; all 0: 0.5,
                                                0.25, 0.25 and 0.25 */
    double deviation; /* of the position of the segments, as a share of the depth; 0: 0.1 */
    const sw_neuron_utility *utilities_a, *utilities_b;
    size_t n_utilities_a, n_utilities_b;
} sw_crossover_opts;
/* Two children of two genomes of one task, with segments of similar position exchanged and
 * sizes aligned. Either `out` may be NULL. Where no segment fits they are copies. */
SW_MUST_USE SW_API sw_status sw_genome_crossover(sw_genome **out_a, sw_genome **out_b,
                                                 const sw_genome *a, const sw_genome *b,
                                                 const sw_crossover_opts *opts);

/* ---- selection -----------------------------------------------------------------------------
 */

/* Of n fitnesses, higher is better and NaN the worst; equals are in the order of their index.
 * Functions of their arguments alone. */
typedef enum {
    SW_SELECT_ELITE,     /* the best ones, in order */
    SW_SELECT_SUS,       /* stochastic universal sampling: evenly spaced pointers over the
                            fitness, from which the least one, if below 0, is subtracted */
    SW_SELECT_TOURNAMENT /* of k contestants, drawn by dealing shuffled copies, the one of rank
                            i wins with probability p (1 - p)^i, the last one with what
                            remains */
} sw_selection_kind;
typedef struct {
    sw_selection_kind kind;
    uint32_t n;           /* that it selects */
    uint32_t contestants; /* tournament: k; 0: 2 */
    double p;             /* tournament: above 0 to 1; 0: 1 */
    int stage;            /* those of one stage select side by side, one behind the other in the
                             result; those of the next one from what they selected */
    int keep; /* 1: what it selects goes on as it is: no crossover and no mutation */
    uint64_t reserved[2]; /* must be zero */
} sw_selection;
/* *n_out indices in `out` (room for the sum of the last stage's n), and with `kept` (or NULL)
 * for each whether it goes on as it is. */
SW_MUST_USE SW_API sw_status sw_select(const double *fitness, size_t n,
                                       const sw_selection *selections, size_t n_selections,
                                       uint64_t seed, uint32_t *out, int *kept, size_t *n_out);
/* Rank (from 0: dominated by none) and crowding distance of n points with m objectives each,
 * all to be maximised (Deb et al. 2002); a point with a NaN is behind all. crowding may be
 * NULL. */
SW_MUST_USE SW_API sw_status sw_pareto(const double *objectives, size_t n, size_t m,
                                       uint32_t *rank, double *crowding);

/* ---- evolution: a population of architectures ----------------------------------------------
 */

typedef enum {
    SW_FITNESS_ACCURACY,       /* on the validation part, behind the training of a generation */
    SW_FITNESS_TRAIN_ACCURACY, /* of the generation's training steps, the first `drop` of them
                                  left out */
    SW_FITNESS_LOSS,           /* on the validation part, negated */
    SW_FITNESS_TIME,           /* ns of training a sample, negated: differs from run to run */
    SW_FITNESS_PARAMETERS,     /* these three negated too: smaller is fitter */
    SW_FITNESS_PEAK_BYTES,     /* as predicted; costs no run */
    SW_FITNESS_OPERATIONS,     /* of a training sample */
    SW_FITNESS_CUSTOM          /* what `fn` says */
} sw_fitness_kind;
#define SW_FITNESS_KINDS 8
SW_API const char *sw_fitness_kind_name(sw_fitness_kind kind); /* NULL past the end */

/* A member as callbacks see it. */
typedef struct {
    size_t size;
    uint64_t id, parents[2]; /* ids of the run, from 1; 0: none */
    uint64_t born;           /* generation */
    uint64_t steps;          /* that it has been trained, its parents' among them */
    const sw_genome *genome;
    const sw_price *price;
    size_t measured_bytes; /* most that lived in its training steps, model and batch too; 0: not
                              yet */
    double fitness;        /* NaN: none */
    double loss, accuracy, train_accuracy; /* of the last generation; NaN: none */
    uint64_t ns_per_sample;
    uint32_t rank; /* Pareto */
    int invalid;   /* 1: its numbers became NaN or infinite, or it failed */
    const char *why;
} sw_candidate;
typedef double sw_fitness_fn(const sw_candidate *candidate, void *user);
/* A term; the fitness is the sum of the terms of objective 0. With objectives above 0 members
 * are compared by Pareto rank, then by crowding distance. */
typedef struct {
    sw_fitness_kind kind;
    int objective;
    double factor; /* 0: 1 */
    double
        average; /* over generations, of a member: (1 - average) now + average before; 0: none
                  */
    double drop; /* TRAIN_ACCURACY; 0: 0.5 */
    double (*map)(double x, void *user); /* of the term, in front of its factor; NULL: none */
    sw_fitness_fn *fn;
    void *user;
    uint64_t reserved[2]; /* must be zero */
} sw_fitness;

typedef struct {
    size_t size;
    const sw_dataset *train, *validation; /* borrowed */
    const sw_search_space *space;         /* NULL: the default one; borrowed */
    const sw_genome *const *first;        /* the first members, n_first of them, copied; the
                                             others are drawn from the space */
    size_t n_first;
    uint32_t population; /* 0: 20 */
    uint64_t samples;    /* that each member is trained with in a generation; 0: 12,800 */
    uint64_t validation_samples; /* 0: all, at most 2,000 */
    uint64_t seed;
    const sw_net_opts *net;       /* NULL: all zero; `utility` is always on */
    const sw_mutation *mutations; /* n_mutations; none: the default ones */
    size_t n_mutations;
    double mutate, crossover; /* probability for each child; 0: 0.8 and 0.3; below 0: never */
    const sw_selection *selections; /* n_selections; none: 2 elite, the others by tournament */
    size_t n_selections;
    const sw_fitness *fitness; /* n_fitness; none: accuracy to two digits + min(0.001, 1 /
                                  parameters) */
    size_t n_fitness;
    size_t candidate_bytes;  /* hard limit of a member's peak_bytes; 0: the budget's alone */
    const char *dir;         /* of the run: log, members at rest, what it goes on from; NULL:
                                nothing is kept, and members rest in memory */
    int (*stop)(void *user); /* asked between batches; not 0: stop. NULL: never */
    void *stop_user;
    uint64_t generation_ns; /* a generation's training ends when it took so long; 0: never */
    uint64_t step_ns;  /* a member whose steps take longer `patience` times in a row is trained
                          no  further in this generation; 0: no limit */
    uint32_t patience; /* 0: 5 */
} sw_evolution_opts;

/* A population in the exec's memory and budget, on its threads, which are side by side for
 * different members, as many at a time as the budget has room for; the same bits for every
 * number. Members that the packer finds no room for beside the others rest in files and take
 * turns; without dir all of them and their children have to fit at one time. SW_UNSUPPORTED on
 * a device.
 *
 * A generation: every member is trained with the same samples, in its own batch size; then
 * fitness; then selection, crossover and mutation make the next one. A child is accepted if its
 * predicted peak, the largest of training, of training with utility and of evaluation, is
 * within candidate_bytes, and the budget has room for a lane as large as the largest of all,
 * and for what children are made in: no member can be refused memory later. Where no mutant is
 * accepted the child is a copy of its parent.
 *
 * SW_NOMEM: not even the smallest draws fit, with the least budget that would do. */
SW_MUST_USE SW_API sw_status sw_evolution_create(sw_evolution **out, sw_exec *exec,
                                                 const sw_evolution_opts *opts);
SW_API void sw_evolution_destroy(sw_evolution *evolution);

typedef enum {
    SW_EVOLVE_TRAINED,    /* a part of the generation's steps were made */
    SW_EVOLVE_EVALUATED,  /* all have a fitness: members can be looked at as they are */
    SW_EVOLVE_GENERATION, /* the next generation is there */
    SW_EVOLVE_STOPPED     /* `stop` said so; call it again to go on */
} sw_evolve_what;
typedef struct {
    size_t size;
    sw_evolve_what what;
    uint64_t generation;       /* that is trained, from 0 */
    uint64_t done, all;        /* samples of it, over all members */
    uint64_t steps;            /* of all members since the run began */
    uint64_t longest_gap_ns;   /* between two batches, since the process began */
    uint64_t mutants, refused; /* that were priced; that did not fit */
} sw_evolve_progress;
/* Go on, up to the next thing that can be told; some ten milliseconds, or a step. Children are
 * made one in a call, and those that go on are trained in between. What fails leaves the last
 * generation that was complete in `dir`, and an evolution that can only be destroyed. */
SW_MUST_USE SW_API sw_status sw_evolution_advance(sw_evolution *evolution,
                                                  sw_evolve_progress *out);
/* Members by position; in front of GENERATION in the order in which they were made. */
SW_API uint32_t sw_evolution_count(const sw_evolution *evolution);
SW_MUST_USE SW_API sw_status sw_evolution_member(sw_evolution *evolution, uint32_t i,
                                                 sw_candidate *out);
/* The fittest member that any generation had, as it was then; by accuracy itself where
 * `fitness` has none, which rounds it. SW_INVALID before the first evaluation. */
SW_MUST_USE SW_API sw_status sw_evolution_best(sw_evolution *evolution, sw_candidate *out);
/* A net with a copy of that member's state, ready in the exec; position UINT32_MAX: the best.
 * The caller destroys it. */
SW_MUST_USE SW_API sw_status sw_evolution_net(sw_evolution *evolution, uint32_t i,
                                              sw_net **out);
/* Bytes that the population has now, of the budget; the most so far; members at rest. */
typedef struct {
    size_t size;
    size_t bytes, peak_bytes, lane_bytes, member_bytes;
    uint32_t resident, resting;
} sw_evolution_memory;
SW_MUST_USE SW_API sw_status sw_evolution_used(const sw_evolution *evolution,
                                               sw_evolution_memory *out);

/* With `dir` two generations are kept as they begin (DIR/generation.json,
 * DIR/generation.json.1, and states in DIR/members, which is made), and a line of
 * DIR/history.jsonl says what became of each member. Go on where the files of `dir` end: the
 * same bits as if the run had never stopped. Where the newest generation is damaged or a file
 * of it is missing the one before is taken, and sw_last_note() names what is wrong; so it does
 * where the history lost lines. *found 0: there is none. SW_INVALID names the option that is
 * another; SW_FORMAT and SW_IO the files of both generations. Call it before the first
 * sw_evolution_advance. */
SW_MUST_USE SW_API sw_status sw_evolution_resume(sw_evolution *evolution, int *found);
/* Make a member of the run in `dir` again from its history: the genomes and weights of its line
 * are drawn, trained, crossed and mutated anew, by their seeds. Bit for bit as it was when it
 * was born. The options are those of the run. Takes as long as its line was trained. */
SW_MUST_USE SW_API sw_status sw_evolution_rebuild(sw_evolution *evolution, uint64_t id,
                                                  sw_net **out);

/* ---- witnesses: how "measured" is measured ----------------------------------------------- */

#define SW_WITNESS_ACCESS 1u
#define SW_WITNESS_EXTENT 2u
#define SW_WITNESS_DEATH 4u
#define SW_WITNESS_NEED 8u
#define SW_WITNESS_ALL 15u

typedef struct {
    size_t size;                    /* set by the caller */
    sw_phase_info phase[SW_PHASES]; /* observed by the access witness; ns is 0 */
    size_t peak_bytes;
    uint32_t agreed;   /* bits of the witnesses that agree with the plan */
    uint32_t n_faults; /* disagreements found */
    char first_fault[256];
    uint64_t ns;
    size_t saved_bytes; /* by the death witness: payload bytes of the step arena that it left in
                           front of the first op of the backward part, where everything else is
                           NaN: what was saved, and metrics and outputs that were there. 0
                           without a backward part */
} sw_witness_info;

/* Run one step under the witnesses in `which`: from the present state, which is put back
 * afterwards. SW_OK when the witnessing itself worked; `agreed` and `n_faults` have the
 * verdict. */
SW_MUST_USE SW_API sw_status sw_witness(sw_exec *exec, const sw_run_args *args, uint32_t which,
                                        sw_witness_info *out);

/* ---- data -------------------------------------------------------------------------------- */

/* Digits drawn by this program, 28 x 28 grey, 10 classes: the same bytes everywhere for a seed.
 */
SW_MUST_USE SW_API sw_status sw_dataset_synthetic(sw_dataset **out, int64_t n, uint64_t seed);
/* Random numbers, normal, by Philox: field 0 (width) F32, field 1 the same, n_classes 0. For
 * what depends on sizes alone. */
SW_MUST_USE SW_API sw_status sw_dataset_vectors(sw_dataset **out, int64_t n, int64_t width,
                                                uint64_t seed);
/* MNIST and its relatives: DIR/train-images-idx3-ubyte and its fellows, with or without ".gz".
 * `part` is "train" or "t10k". Errors name the file. */
SW_MUST_USE SW_API sw_status sw_dataset_idx(sw_dataset **out, const char *dir,
                                            const char *part);
typedef struct {
    size_t size;
    int shapes_only; /* 1: what sw_dataset_describe tells, without samples; no loader takes it.
                      * Of compressed images the header alone is read; labels are read all the
                      * same, for their classes */
    size_t unpack_bytes; /* the most that a compressed file may unpack to; more is SW_NOMEM,
                          * before memory is taken where the file says its size; 0: 1 GiB */
} sw_idx_opts;
/* The same with options; NULL: all zero. */
SW_MUST_USE SW_API sw_status sw_dataset_idx_with(sw_dataset **out, const char *dir,
                                                 const char *part, const sw_idx_opts *opts);

typedef struct {
    size_t size;
    int shapes_only; /* 1: what sw_dataset_describe tells, without samples; no loader takes it
                      */
    size_t unpack_bytes; /* as above */
} sw_cifar_opts;
/* CIFAR-10's binary batches, with or without ".gz": `part` "train" is DIR/data_batch_1.bin to
 * 5, all of them, or data_batch_mini.bin, "test" is test_batch.bin or test_batch_mini.bin, each
 * of any number of records. Images (3, 32, 32) U8, labels () U8; class names from
 * batches.meta.txt where it is there. opts NULL: all zero. Errors name the file. */
SW_MUST_USE SW_API sw_status sw_dataset_cifar(sw_dataset **out, const char *dir,
                                              const char *part, const sw_cifar_opts *opts);

typedef struct {
    size_t size;
    int shapes_only;       /* as above; the lines are read all the same, to count them */
    const char *label;     /* name of the label column, or its position: 1 is the first, -1 the
                            * last; NULL: the last */
    int header;            /* 0: the first line is one where it has no number; 1: it is; -1: not
                            */
    char separator;        /* ',', ';' or '\t'; 0: as the first line says */
    const char *test_path; /* the test part; NULL: a share of PATH */
    double test_share;     /* above 0, below 1; 0: 0.2 */
    uint64_t seed;         /* which samples that share is */
    int standardise;       /* 1: mean 0 and deviation 1 over the training part, for both parts
                            */
    size_t unpack_bytes;   /* as above, of each file */
    int64_t unlabelled; /* n: PATH may have features alone, which are n columns, where there is
                         * no test part yet; -1: test_path may have a column less than PATH,
                         * the label's; 0: each line has its label */
} sw_csv_opts;
/* Lines of numbers, with a decimal point in every locale, and a label: features (columns - 1)
 * F32, label () U8, I32 from 257 classes on. Labels are whole numbers or words; the sorted list
 * of them gives classes and class names. PATH, or PATH.gz. `test` NULL: all is for training.
 * What is missing, no finite number or out of range is SW_FORMAT, with file, line and column.
 * A file without labels has field 0 alone; where PATH is one, all of it is in `train`, without
 * classes, and `test` receives NULL. On failure neither is made. */
SW_MUST_USE SW_API sw_status sw_dataset_csv(sw_dataset **train, sw_dataset **test,
                                            const char *path, const sw_csv_opts *opts);

typedef struct {
    size_t size;
    int shapes_only;     /* as above */
    int64_t context;     /* tokens of a sample; 0: 128 */
    size_t unpack_bytes; /* as above */
} sw_text_opts;
/* The bytes of PATH, or PATH.gz: a sample is the tokens (context) U8 of a window and those that
 * follow each (context) U8; 256 classes. The first 90 % are for training, the rest for
 * validation; `validation` NULL: all is. An epoch has each window once, side by side. Where a
 * loader shuffles, the first begins elsewhere in each epoch of the training part, 0 to context
 * - 1 bytes behind the beginning, by Philox from seed and epoch. */
SW_MUST_USE SW_API sw_status sw_dataset_text(sw_dataset **train, sw_dataset **validation,
                                             const char *path, const sw_text_opts *opts);

typedef struct {
    size_t size;
    int shapes_only; /* as above; without a vocabulary the ids are read all the same, for the
                      * largest of them */
    int bits;        /* of an id: 16 or 32; 0: 16 */
    int64_t context; /* tokens of a sample; 0: 128 */
    const char *vocabulary;      /* FILE; NULL: as many ids as the largest one says */
    const char *validation_path; /* the validation part; NULL: see below */
    size_t unpack_bytes;         /* as above, of each file */
} sw_tokens_opts;
/* Ids of tokens, little-endian numbers of 16 or 32 bits, one behind the other and nothing else:
 * what numpy's tofile() writes. PATH is a file, or PATH.gz, of which the first 90 % are for
 * training and the rest for validation; or a folder with train.bin and val.bin; or the training
 * part alone, with validation_path. A sample is the ids (context) of a window and those that
 * follow each (context), U16 of 16 bits and I32 of 32; windows are those of sw_dataset_text.
 *
 * The vocabulary gives n_classes, and names them. Its file is a JSON object {token: id} of all
 * ids from 0 on, as GPT-2's vocab.json, where it begins with '{'; else it has a token in each
 * line, that of id 0 first. An id that is not in it is SW_FORMAT, with file, offset, id and
 * size. `validation` NULL: all is for training. On failure neither is made. */
SW_MUST_USE SW_API sw_status sw_dataset_tokens(sw_dataset **train, sw_dataset **validation,
                                               const char *path, const sw_tokens_opts *opts);

typedef struct {
    size_t size;
    int shapes_only;       /* as above; targets that are ids are read all the same */
    const char *test_path; /* the test part, in the same form as the other; NULL: what an
                            * archive has of its own, else a share of the samples */
    double test_share;     /* above 0, below 1; 0: 0.2 */
    uint64_t seed;         /* which samples that share is */
    size_t unpack_bytes;   /* as above, of each array in an archive */
    int64_t unlabelled;    /* 1: PATH may be without targets; 0: not */
} sw_npy_opts;
/* Arrays of NumPy (.npy, versions 1 to 3), little-endian, in C or Fortran order. The first axis
 * is the samples'. Types: f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1; others are refused by name. PATH is
 * "INPUTS.npy,TARGETS.npy".
 *
 * Inputs: u1 stay bytes (U8); other numbers become F32. (n, rows, columns) are images of one
 * channel; (n, rows, columns, channels) with 1, 3 or 4 channels at the end, and not in front,
 * become (channels, rows, columns). Targets: floats are values, F32; integers (n) or (n, 1) are
 * classes from 0 on, of U8, U16 or I32 as their type or, of i4, i8, u4 and u8, their number
 * asks for. Integers of the inputs' own shape are ids, and so are the inputs then. What is not
 * finite or out of range is SW_FORMAT, with file and sample. `test` NULL: all is for training.
 * Without targets, "INPUTS.npy", there is field 0 alone, all of it is in `train`, and `test`
 * receives NULL. On failure neither is made. */
SW_MUST_USE SW_API sw_status sw_dataset_npy(sw_dataset **train, sw_dataset **test,
                                            const char *path, const sw_npy_opts *opts);
/* The same from an archive (.npz), stored or deflated: PATH is "FILE" or "FILE:INPUTS,TARGETS"
 * with names of its arrays. Without names: x_train and y_train, with x_test and y_test for
 * testing; train_images and train_labels, with test_images and test_labels; x and y; or arr_0
 * and arr_1. Without targets it is "FILE:INPUTS", or a file of one array. */
SW_MUST_USE SW_API sw_status sw_dataset_npz(sw_dataset **train, sw_dataset **test,
                                            const char *path, const sw_npy_opts *opts);

/* How numbers of the caller's memory are written, in the machine's byte order. */
typedef enum {
    SW_NUMBER_F32,
    SW_NUMBER_F64,
    SW_NUMBER_U8,
    SW_NUMBER_I8,
    SW_NUMBER_BOOL, /* a byte: 0, or anything else, which is 1 */
    SW_NUMBER_U16,
    SW_NUMBER_I16,
    SW_NUMBER_U32,
    SW_NUMBER_I32,
    SW_NUMBER_U64,
    SW_NUMBER_I64
} sw_number;
/* One field of all samples. */
typedef struct {
    const void *data; /* the first number of sample 0 */
    sw_number type;
    sw_shape shape; /* of one sample: SW_SCALAR a number each, SW_SHAPE(1, 28, 28) an image */
    int64_t strides[1 + SW_MAX_RANK]; /* bytes from a sample to the next, then from a number to
                                       * the next along each axis; may be negative. All 0: side
                                       * by side, in the order of the axes */
    float scale, shift;               /* scale not 0: numbers become F32, x * scale + shift */
} sw_samples;
typedef struct {
    size_t size;
    const char *name;               /* in messages and profiles; NULL: "arrays" */
    int64_t n_classes;              /* 0: the largest class or id, plus 1 */
    const char *const *class_names; /* n_classes, copied; NULL: none */
    int64_t context; /* above 0: the only field is a row of n ids, of which samples are windows
                      * of so many, as sw_dataset_text makes them of bytes */
} sw_arrays_opts;
/* A data set of the caller's own arrays: n samples, 1 to 4 fields, field 0 what a model reads
 * and field 1 what it is to give.
 *
 * Floats become F32, which must be finite. U8 stays U8. Integers without a scale: field 1 has
 * classes (a number each) or ids (of several each), which must be 0 or more and below
 * n_classes; so has field 0 where field 1 has ids and both have one shape and whole numbers.
 * They are U8, U16 or I32 as wide as they are written; I64 and U64 become the narrowest that
 * n_classes allows, or I32. All numbers are read once and checked; what is wrong is SW_INVALID
 * with its sample.
 *
 * A field is used where it lies, without a copy, when its numbers need no conversion and those
 * of one sample lie side by side: F32; U8, BOOL of 0 and 1, I8; U16, I16; I32, U32. The samples
 * themselves may be anywhere, so that an array of structs or every second row are used as they
 * are. Everything else is copied. What is used where it lies stays the caller's: it must be
 * there and unchanged until the data set and all its loaders and feeds are destroyed. Which
 * fields these are, sw_dataset_describe tells: their `data` is the caller's own. On failure
 * nothing is kept. */
SW_MUST_USE SW_API sw_status sw_dataset_arrays(sw_dataset **out, int64_t n,
                                               const sw_samples *fields, int n_fields,
                                               const sw_arrays_opts *opts);

typedef struct {
    size_t size;
    int shapes_only;   /* as above; the head of each image is read all the same */
    int side;          /* images are resized so that the shorter side is `side`, and a square is
                        * cut out of the middle: 1 to 4096; 0: they stay, and must be alike */
    int channels;      /* 1: gray; 3: red, green, blue; 0: gray where all images are, else 3 */
    double test_share; /* of the images, for testing, where there is no folder for it: above 0,
                        * below 1; 0: 0.2 */
    uint64_t seed;     /* which images that share is */
    size_t unpack_bytes; /* the most that the images may take in memory, all of them, and what
                          * batches of them become (below); more is SW_NOMEM, before it is
                          * taken, with shapes_only too; 0: 1 GiB */
    /* Called before each look at an image with the looks so far and in all: two for each image,
     * with shapes_only one. SW_STOPPED where it does not return 0. NULL: none. */
    int (*progress)(void *user, int64_t done, int64_t all);
    void *user;
    int64_t unlabelled; /* 1: where images lie in DIR itself, all below it are samples without a
                         * class; 0: they are passed over */
    int64_t threads;    /* that decode, 1 to 256; 0: 1. The same for every number: bytes, the
                         * failure that is told, the calls of progress, on the caller's thread */
    int64_t batch, test_batch; /* of each part, as they will be run, at most all there are: the
                                * slots of its loader (three; one where a batch has at most
                                * 256 KiB) and the larger batch as F32 count to unpack_bytes;
                                * 0: none */
} sw_images_opts;
/* Images in folders, PNG and JPEG: DIR/CLASS/... with folders in folders, or
 * DIR/train/CLASS/... where DIR/val or DIR/test is beside it. Images (channels, h, w) U8,
 * labels () U8, I32 from 257 classes on: the sorted names of the folders are the classes.
 * Samples are in the order of class and path, whatever order the file system has; names that
 * begin with a dot are passed over. Each image is decoded once, row by row. Bilinear with
 * antialiasing, with the bits of Pillow's resize; 16 bits are cut to 8, transparency is left
 * out, Exif is not looked at. `test` NULL: all of DIR, or of DIR/train, is for training. Errors
 * name the file: SW_FORMAT where it is damaged, cut or has more than 65536 pixels on a side or
 * 2^26 in all, SW_UNSUPPORTED in a library without libpng or libjpeg. On failure neither is
 * made. Without classes there is field 0 alone, samples are in the order of path, all of them
 * are in `train`, and `test` receives NULL. */
SW_MUST_USE SW_API sw_status sw_dataset_images(sw_dataset **train, sw_dataset **test,
                                               const char *dir, const sw_images_opts *opts);

/* Copies of the samples in two parts: n_second of them, which seed chooses, in *second, all
 * others in *first, each in the order that they had. A function of its arguments alone. Windows
 * of a text do not move any more. On failure neither is made. */
SW_MUST_USE SW_API sw_status sw_dataset_split(sw_dataset **first, sw_dataset **second,
                                              const sw_dataset *dataset, int64_t n_second,
                                              uint64_t seed);

/* A checksum (XXH3) of the samples: types, shapes, number and all bytes. SW_INVALID for shapes
 * alone, SW_UNSUPPORTED in a library without libxxhash. */
SW_MUST_USE SW_API sw_status sw_dataset_hash(const sw_dataset *dataset, uint64_t *out);
SW_API void sw_dataset_destroy(sw_dataset *dataset);
/* One sample: shapes without the batch axis. Field 0 is what a model reads, an image, features
 * or tokens, field 1 the label, or one label for each token. */
typedef struct {
    size_t size; /* set by the caller */
    int64_t n, n_classes;
    int n_fields;
    sw_array field[4];              /* data: the first sample; NULL with shapes_only */
    const char *name;               /* "synthetic", the directory or the file */
    const char *const *class_names; /* n_classes, in the order of the labels; NULL: none */
    size_t bytes;                   /* of memory that the samples take; none where they lie in
                                     * the caller's arrays */
} sw_dataset_info;
/* Fills `size` bytes of *out, with zeros where there is no dataset. A size that cannot be
 * leaves *out as it was; sw_last_error() says so. */
SW_API void sw_dataset_describe(const sw_dataset *dataset, sw_dataset_info *out);
/* Mean and deviation of the bytes of a U8 field over all samples, as shares of 255: of each of
 * n channels (the first dim of a sample, 1 to 4), or with n 1 of all. Both have 4 significant
 * digits, so that what is written down is what is used (MNIST: 0.1307 and 0.3081); a deviation
 * of 0 is given as 1. sw_to_f32 with 1 / (255 deviation) and -mean / deviation makes mean 0 and
 * deviation 1 of them. SW_INVALID where there are no bytes, or shapes alone. */
SW_MUST_USE SW_API sw_status sw_dataset_moments(const sw_dataset *dataset, int field, int n,
                                                float *mean, float *deviation);

/* What became of the samples of a class, or of all. 0 by 0 is NaN. */
typedef struct {
    size_t size;        /* set by the caller */
    uint64_t support;   /* samples that have the label */
    uint64_t predicted; /* samples that were taken for it */
    uint64_t right;     /* both */
    double precision;   /* right / predicted */
    double recall;      /* right / support */
    double f1;          /* 2 right / (support + predicted) */
} sw_class_score;
/* Count a batch of results: counts (classes, classes) of the caller's, zeros at first, has at
 * [label][prediction] how many samples of `label` were taken for `prediction`, the class with
 * the largest score: the first of equals, and a NaN is the largest, as in sw_accuracy. scores
 * (rows, classes) F32, what sw_output_get gives of logits or probabilities; labels (rows) U8,
 * U16 or I32. A label that is no class is SW_INVALID, with its row, and nothing is counted. */
SW_MUST_USE SW_API sw_status sw_confusion_add(uint64_t *counts, int64_t classes,
                                              const sw_array *scores, const sw_array *labels);
/* Class k of the counts, 0 to classes - 1. */
SW_MUST_USE SW_API sw_status sw_confusion_class(const uint64_t *counts, int64_t classes,
                                                int64_t k, sw_class_score *out);
/* Of all samples: support and predicted are their number and right / support is the accuracy.
 * precision, recall and f1 are means over the classes that occur, as label or as prediction,
 * each with one weight, where NaN counts as 0: macro means, as scikit-learn has them. */
SW_MUST_USE SW_API sw_status sw_confusion_mean(const uint64_t *counts, int64_t classes,
                                               sw_class_score *out);

typedef struct {
    size_t size;
    int64_t batch;
    int slots; /* of the ring that the thread fills ahead, 1 to 1024; 0: 3. Without a thread
                  there is one, whatever stands here (see inline_fill) */
    uint64_t seed;
    int shuffle;       /* by Philox from seed and epoch; moves the windows of a text too */
    int drop_last;     /* leave a smaller last batch out */
    sw_budget *budget; /* NULL: none */
    int inline_fill;   /* 1: fill in sw_loader_next, without a thread; 0: so where a batch has
                          at most 256 KiB (each field rounded up to 64 bytes), since waking a
                          thread takes as long; -1: never */
    uint64_t keyed;    /* 1: with shuffle, in the order of a sw_feed, which takes no memory */
} sw_loader_opts;
/* A ring of batch slots, and a thread that fills it ahead (see inline_fill). The samples stay
 * until the last loader of a dataset has ended. */
SW_MUST_USE SW_API sw_status sw_loader_create(sw_loader **out, const sw_dataset *dataset,
                                              const sw_loader_opts *opts);
SW_API void sw_loader_destroy(sw_loader *loader);
/* Begin epoch `epoch`; the order depends on seed and epoch alone. */
SW_MUST_USE SW_API sw_status sw_loader_epoch(sw_loader *loader, uint64_t epoch);
/* The next batch: inputs as the dataset's fields with a batch axis in front, valid until the
 * next call. *n_inputs is 0 at the end of the epoch. */
SW_MUST_USE SW_API sw_status sw_loader_next(sw_loader *loader, const sw_array **inputs,
                                            int *n_inputs);
/* Go on in epoch `epoch` with batch `batch` (0 to sw_loader_batches) as the next one: it costs
 * as much as beginning an epoch, whatever the batch. */
SW_MUST_USE SW_API sw_status sw_loader_seek(sw_loader *loader, uint64_t epoch, int64_t batch);
/* The epoch, and how many of its batches were given away; either may be NULL. SW_INVALID before
 * the first epoch. */
SW_MUST_USE SW_API sw_status sw_loader_position(const sw_loader *loader, uint64_t *epoch,
                                                int64_t *batch);
SW_API size_t sw_loader_bytes(const sw_loader *loader); /* all slots, or the one */
SW_API int64_t sw_loader_batches(const sw_loader *loader);

/* ---- checkpoints: a run goes on as if it had never stopped ------------------------------- */

/* A checkpoint is a safetensors file: parameters and buffers under their names, so that other
 * programs and sw_model_load read them, and the notes of a single model; beside them, under
 * names that begin with "stepwell.", optimizer state, states, kept gradients and knobs of each
 * model, the positions of loaders, the step, and what the program puts in. All of it is under
 * checksums; a file that is damaged anywhere is SW_FORMAT by the name of what is damaged, and
 * changes nothing.
 *
 * With several models, tensors are MODEL/NAME. Models of one name must have one layout and
 * follow each other: their tensors are stacked, (models, dims...).
 *
 * A save is PATH.<16 digits>.tmp, or a file without a name, until it is synced; then it takes
 * the name PATH, and the one before is PATH.1, PATH.2 and so on. PATH is at every moment one
 * whole checkpoint, or not yet there. One process at a time saves to PATH (PATH.lock); where
 * the file system has no locks nothing keeps others out, and sw_last_note() says so. */
typedef struct {
    size_t size;
    const char *path;        /* copied, at most 507 bytes; not there yet, or a regular file, no
                                link. NULL: nothing is saved, only loaded */
    sw_model *const *models; /* the list is copied; the models are borrowed until the end */
    int n_models;            /* 0 where all that is saved are members */
    const char
        *command; /* said by `stepwell info`; the first 511 bytes are copied; NULL: none */
    int keep;     /* generations, 1 to 1000; 0: 2 */
    int no_copy;  /* 1: a save writes straight from the models, and returns when the file is
                     there. It takes no memory, and the run stops for it. 0: the models are
                     copied first, into memory that the budget of the exec is charged for, and
                     a thread writes while the run goes on */
    sw_status (*before)(void *user); /* NULL: none. Called on the thread that writes, when the
                                        new file is synced and has not its name yet: sync here
                                        what must not be older than the checkpoint (a log). A
                                        failure fails the save. Calls of this checkpoint but
                                        sw_checkpoint_bytes are SW_BUSY in it */
    void *user;
} sw_checkpoint_opts;

/* Models need not be ready: their layouts are fixed and the budget of `exec` is charged for the
 * copy, so make it before sw_plan. The exec is the one that trains the models; a copy of what a
 * card has is taken behind the runs that were begun, and waits for none. SW_BUSY: another
 * process saves to PATH. Destroy it before models and exec; that waits for a save that goes on.
 * SW_UNSUPPORTED in a library without libxxhash. */
SW_MUST_USE SW_API sw_status sw_checkpoint_create(sw_checkpoint **out, sw_exec *exec,
                                                  const sw_checkpoint_opts *opts);
SW_API void sw_checkpoint_destroy(sw_checkpoint *checkpoint);
/* From now on saves keep where `loader` is, and sw_checkpoint_load has it go on there: the i-th
 * loader that is given goes on as the i-th of the run that saved. Reads all its samples once,
 * for their checksum. Borrowed: destroy it after the checkpoint. */
SW_MUST_USE SW_API sw_status sw_checkpoint_loader(sw_checkpoint *checkpoint, sw_loader *loader);
/* From now on saves keep these members (n, each once) of a group of the checkpoint's exec, in
 * this order, and sw_checkpoint_load puts them back: the i-th that is given becomes the i-th of
 * the run that saved, with its seed, progress, knobs and, of callbacks, state. Their tensors
 * are stacked, (n, dims...), under SHAPE/NAME, whatever the number of models; seed, steps,
 * batches and whether it failed behind an update are four 64-bit words each in
 * SHAPE/stepwell.members. One call for each group; two groups must not have shapes of one name.
 * The list is copied, the group is borrowed until the end: destroy it after the checkpoint. A
 * take, and a load, are SW_INVALID where a member has ended, and SW_BUSY in a callback. The
 * copy is charged now (sw_checkpoint_bytes). What was taken and is not written yet is given up.
 * SW_UNSUPPORTED for members on a device: pack them, and sw_checkpoint_put the bytes. */
SW_MUST_USE SW_API sw_status sw_checkpoint_members(sw_checkpoint *checkpoint,
                                                   sw_members *members, const sw_member *list,
                                                   size_t n);
/* Take the memory of the copy now; else the first sw_checkpoint_take does. */
SW_MUST_USE SW_API sw_status sw_checkpoint_ready(sw_checkpoint *checkpoint);
/* Of the copy: what of the budget the checkpoint takes; 0 with no_copy. */
SW_API size_t sw_checkpoint_bytes(const sw_checkpoint *checkpoint);

/* Bytes of the program's own under `name` (1 to 63 letters, digits, ".", "_", "-"), in every
 * checkpoint from the next sw_checkpoint_write on, until they are put again. Copied. */
SW_MUST_USE SW_API sw_status sw_checkpoint_put(sw_checkpoint *checkpoint, const char *name,
                                               const void *bytes, size_t n);
/* Keep models and loaders as they are now, behind step `step`: a copy, not a file yet. SW_BUSY
 * while the save before is being written (sw_checkpoint_state says when). A loader that another
 * thread fills is kept as what the caller has had of it. On a card it waits for nothing, unless
 * another exec has run a model last: then for all that the card has to do. SW_INVALID where a
 * model lies on another device than the exec of the checkpoint works on. What was
 * taken and is not written yet is given up by the next take, by sw_checkpoint_load and by
 * sw_checkpoint_loader. */
SW_MUST_USE SW_API sw_status sw_checkpoint_take(sw_checkpoint *checkpoint, uint64_t step);
/* Have what was taken written, with what was put until now. Returns when the thread has begun;
 * with no_copy when the file is there, and the models are written as they are now. */
SW_MUST_USE SW_API sw_status sw_checkpoint_write(sw_checkpoint *checkpoint);
/* Wait for the save that goes on, if one does: how the last save ended. A save that failed left
 * the checkpoint before as it was, and can be tried again. */
SW_MUST_USE SW_API sw_status sw_checkpoint_wait(sw_checkpoint *checkpoint);
/* Wait, take, write, wait. */
SW_MUST_USE SW_API sw_status sw_checkpoint_save(sw_checkpoint *checkpoint, uint64_t step);

typedef struct {
    size_t size;
    int busy;               /* 1: a save is being written */
    sw_status last;         /* how the last save ended; SW_OK before the first */
    uint64_t saved, failed; /* saves */
    uint64_t step;          /* of the last one that succeeded */
    uint64_t file_bytes;    /* of it */
    uint64_t copy_ns;       /* how long the last copy held the caller up */
    uint64_t write_ns;      /* how long the last save took behind it */
    char text[512];         /* why it failed; or that its durability is unknown; or "" */
} sw_checkpoint_info;
SW_MUST_USE SW_API sw_status sw_checkpoint_state(sw_checkpoint *checkpoint,
                                                 sw_checkpoint_info *out);

typedef struct {
    size_t size;
    int found;      /* 0: there is none at the path, and nothing else is set */
    int generation; /* 0: the newest */
    uint64_t step;
    char path[512]; /* of the file; cut */
    char isa[16];   /* instruction set of the run that saved it */
    char device[16];
    char skipped[512]; /* newer ones that are damaged, each with what is wrong; "": none */
} sw_checkpoint_found;
/* Look for the newest whole checkpoint at `path` (NULL: the path of the options) and its
 * generations, and read all of it once. Those that are damaged are passed over and named;
 * where all are it is SW_FORMAT. Changes no model. */
SW_MUST_USE SW_API sw_status sw_checkpoint_find(sw_checkpoint *checkpoint, const char *path,
                                                sw_checkpoint_found *out);
/* Of what was found: bytes that were put under `name`; NULL and 0 where there are none. Valid
 * until the next find, or the end. */
SW_MUST_USE SW_API sw_status sw_checkpoint_get(sw_checkpoint *checkpoint, const char *name,
                                               const void **bytes, size_t *n);
/* Go on from what was found: models, members and loaders, all or nothing. Models must be ready.
 * SW_INVALID or SW_FORMAT names the first thing that is not as in the run that saved it: a
 * model's name, optimizer, tensor or shape, a number of members, the seed of the exec, batch,
 * seed, number of samples or the samples themselves of a loader. Threads, budget, planned or
 * immediate mode and device may be others. Which parameters are frozen is as the program has it
 * now: that is not in the file. */
SW_MUST_USE SW_API sw_status sw_checkpoint_load(sw_checkpoint *checkpoint);

/* ---- profile ----------------------------------------------------------------------------- */

typedef struct {
    size_t size;
    const char *path;           /* NULL: write no file */
    const char *model, *device; /* for the header of the file; copied */
    int64_t batch;              /* 0: not given */
    uint64_t seed;              /* 0 without a command: not given */
    const char *command;
    const char *data; /* name of the data set, as sw_dataset_describe tells it */
    int events; /* 1: write the event log of each run too: every birth, reuse and death of a
                   tensor, every phase and op with its clock. Execs must count (no_phases
                   is SW_INVALID) */
    uint32_t event_room; /* of the events of a run, for each exec; those that do not fit are
                            counted. 0: 65536, which take 1 MiB */
    uint64_t every;      /* write what the first step and each such step measured, and the last;
                            peaks are of all. Evaluations are counted for themselves. 0: 1 */
    size_t max_bytes;    /* a file that would pass this is renamed to PATH.1, in the place of an
                            older one, and goes on in a new one, with header and plans again; both
                            are profiles by themselves. `path` must be a regular file, or none yet.
                            0: no bound */
    uint64_t steps;      /* that the run will have and the limit that it is under, for who */
    size_t budget_bytes; /* watches it; 0: not known, and none */
    const char *normalise; /* how inputs become numbers, for the header; NULL or "": not said */
} sw_profile_opts;
/* Writes JSON Lines (tools/docs/formats.md, "The profile file"). No record waits longer than
 * 100 ms for the file, also where no step follows: a thread of the profile's own, which there
 * is where there is a path, writes then. SW_IO where file or thread cannot be had. In a process
 * that was forked off nothing is written, and all calls are SW_BUSY. While a profile with a
 * file lives, blocks of the library's heap are noted by the line that takes them, so that what
 * grows has a name. A run or plan that is refused for memory (SW_NOMEM) leaves a record of who
 * holds it before it returns. */
SW_MUST_USE SW_API sw_status sw_profile_create(sw_profile **out, const sw_profile_opts *opts);
/* The least max_bytes for a profile of these n programs, which are planned where they are not
 * yet; all have the size of the first. With less the profile is refused, or ends at the plan
 * that has no room (SW_INVALID at its end). */
SW_MUST_USE SW_API sw_status sw_profile_least(sw_exec *exec, const sw_run_args *args, int n,
                                              const sw_profile_opts *opts, size_t *out);
SW_MUST_USE SW_API sw_status sw_profile_flush(sw_profile *profile);
/* Flush, and have the file synced: what was recorded survives a loss of power. Any thread may
 * call it while others record, and they do not wait for it. */
SW_MUST_USE SW_API sw_status sw_profile_sync(sw_profile *profile);
/* How the run ended, for the end record: SW_OK for "done" (so it is without a call), SW_STOPPED
 * for "interrupted", any other for "failed". `why` is copied; NULL: nothing to say. */
SW_API void sw_profile_end_status(sw_profile *profile, sw_status status, const char *why);
/* Writes the end record and closes; the status says whether all reached the file. */
SW_MUST_USE SW_API sw_status sw_profile_destroy(sw_profile *profile);

/* ---- ops from outside: the descriptor that the ops inside use ---------------------------- */

/* Elements that exist in memory, lanes of padding included; payload bytes. */
SW_API int64_t sw_type_elements(const sw_type *type);
SW_API size_t sw_type_bytes(const sw_type *type);

/* Operands of a gradient kernel. */
#define SW_IN(i) ((uint16_t)(0x100 | (i)))   /* input i of the forward op: saved */
#define SW_OUT(i) ((uint16_t)(0x200 | (i)))  /* output i (extras follow the outputs): saved */
#define SW_DOUT(i) ((uint16_t)(0x300 | (i))) /* gradient of output i */

/* One gradient kernel: operands in this order in launch->in, the gradients of the inputs in
 * `makes` in launch->out. What it names with SW_IN and SW_OUT is the save policy. An optional
 * operand that the op does not have is absent. One value may be given as several inputs: its
 * gradient is then the sum, and each of launch->out still has bytes of its own.
 *
 * Kernels are taken in the order of the table: one that makes wanted gradients alone, or leaves
 * the others out (sw_op_desc, skips); where there is none, the one that makes most of what is
 * wanted. An op needs no kernel for each set of inputs; one that makes all is enough. */
typedef struct {
    int n_makes;
    uint8_t makes[8]; /* indices of inputs, each once */
    int n_operands;
    uint16_t operands[16];
    uint32_t
        inplace; /* bit k: out[0] may take the place of operand k (same bytes, same index) */
    size_t (*scratch_bytes)(const sw_kernel_info *info); /* NULL: none */
    sw_kernel *kernel;
    sw_kernel *(*select)(const sw_kernel_info *info); /* NULL: kernel */
    /* As in sw_op_desc. It stands where a reserved word was: of the same size where pointers
     * have 64 bits. */
    uint64_t (*operations)(const sw_kernel_info *info);
    /* Where several make the same wanted gradients, the one is taken that keeps the fewest
     * bytes that nobody keeps anyway, then the one that makes the fewest others, the first of
     * equals. NULL: with all attributes; it stands where a reserved word was, as above. */
    int (*applies)(const void *attrs);
} sw_grad_desc;

/* A gradient rule for ops whose gradient is other ops: set din[i] where wanted[i], an F32 value
 * of the input's shape; {0}: no gradient passes. */
typedef struct {
    const sw_value *in, *out, *dout; /* dout {0}: no gradient came */
    const int *wanted;
    sw_value *din;
    const void *attrs;
    int n_in;
} sw_rule;

/* Plain double-precision forward, for checks. Integers come as doubles. */
typedef struct {
    const double *const *in;
    const sw_type *in_type;
    int n_in;
    double *const *out; /* the n_out outputs, not the extras; plain layout */
    const sw_type *out_type;
    const void *attrs;
    uint64_t seed;
    uint32_t stream, step, run;
} sw_reference;

/* How a test fills an input. */
typedef enum {
    SW_FILL_NORMAL,
    SW_FILL_AWAY,     /* normal, at least 0.1 away from 0: no kink near */
    SW_FILL_DISTINCT, /* a shuffled grid of step 0.05: no two are close */
    SW_FILL_UNIT,     /* uniform in 0..1 */
    SW_FILL_LABELS,   /* integers in 0..limit-1 */
    SW_FILL_BYTES     /* 0..255 */
} sw_fill;

typedef struct {
    const char *name;
    int n_in;
    sw_type in[4]; /* more inputs repeat the last */
    sw_fill fill[4];
    int64_t limit;
    const void *attrs;
    double forward_error;  /* relative to the largest element; 0: 1e-5 */
    double gradient_error; /* relative along a direction; 0: 1e-3, the most that is allowed */
    uint64_t reserved[2];  /* must be zero */
} sw_op_case;

typedef struct {
    size_t size;
    const char *name;
    int n_in;    /* inputs at least */
    int max_in;  /* 0: n_in; optional or repeated inputs: at most 36, with grads 32 */
    int n_out;   /* outputs that users see */
    int n_extra; /* outputs kept for backward only */
    size_t attrs_bytes;
    /* Types of outputs and extras from those of the inputs; SW_FAIL(SW_INVALID, ...) with a
     * reason. A type that cannot be is refused behind it: SW_INVALID, too large SW_NOMEM. */
    sw_status (*infer)(const sw_type *in, int n_in, const void *attrs, sw_type *out);
    /* The layout in which image inputs (mask image_in; 0: all of rank 4) are wanted. NULL:
     * plain. */
    sw_layout (*layout)(const sw_type *in, int n_in, const void *attrs);
    uint32_t image_in;
    uint32_t strided_in; /* bit i: input i may have any strides (plain layout) */
    uint32_t inplace; /* bit i: out[0] may take the place of input i (same bytes, same index) */
    size_t (*scratch_bytes)(const sw_kernel_info *info); /* NULL: none */
    sw_kernel *forward;                                  /* NULL for views */
    sw_kernel *(*select)(const sw_kernel_info *info);    /* NULL: forward */
    /* A view: strides (elements) and offset (elements) of the result on the input's bytes, past
     * which it may not reach; one input, one output, elements of the same size, no kernel.
     * Returns SW_UNSUPPORTED when strides cannot say it; a contiguous copy of the input is then
     * tried. */
    sw_status (*view)(const sw_buffer *in, const void *attrs, const sw_type *out,
                      int64_t *strides, int64_t *offset);
    /* Without grads, rule and no_gradient, a backward that needs the op's gradient fails. */
    const sw_grad_desc *grads;
    int n_grads;
    void (*rule)(sw_ctx *ctx, const sw_rule *rule); /* instead of grads */
    int no_gradient;                                /* gradients stop here without an error */
    int random;                                     /* draws from a stream */
    sw_status (*reference)(const sw_reference *reference);
    const sw_op_case *cases;
    int n_cases;
    sw_phase phase; /* with has_phase */
    int has_phase;
    /* Arithmetic operations of one run of the forward kernel, by which the planner chooses what
     * to compute twice. A multiply-add is two, a comparison, a division and a square root one,
     * exp and its like as many as their polynomials take. Elements count as users see them,
     * without lanes of padding. What info->accumulate adds is counted by the library: one more
     * for each element of such an output. UINT64_MAX where it is more than that. It depends on
     * types and attributes alone, not on info->threads and info->isa. NULL: one for each
     * element of each output. */
    uint64_t (*operations)(const sw_kernel_info *info);
    /* 1: so cheap that planned runs make its results again in backward rather than keep them,
     * where all that it reads is kept until then anyway, or can be made again so itself. The
     * bits are the same: the kernel runs again on the same bytes. */
    int rebuild;
    /* Bit g: grads[g] takes NULL as launch->out[k].ptr for a gradient that is not wanted (of a
     * frozen parameter, an input of the run), and leaves that gradient out. Without the bit a
     * kernel that makes more gradients than are wanted makes them all, and the plan counts
     * bytes for them as long as it runs. What it names is kept whatever is left out: where some
     * of the gradients need less, a kernel of their own keeps less. */
    uint64_t skips;
    /* What a kernel of the CPU leaves unread for these types and attributes, whatever the
     * numbers are: bit i is launch->in[i] of the forward kernel (grad -1) or of
     * grads[grad]. A convolution whose windows miss the image is one. The plan lets an operand
     * end where it is read last, so a kernel must not touch what it says here. NULL: all is
     * read. */
    uint32_t (*unread)(const sw_kernel_info *info, int grad);
} sw_op_desc;

/* Register an op; the descriptor is copied (what it points to is kept). Names are unique. Not
 * while another thread traces. SW_INVALID names the op and the member that cannot be. */
SW_MUST_USE SW_API sw_status sw_op_register(const sw_op_desc *desc, uint32_t *id);
/* Append one op; returns its first output. attrs are copied, and compared byte for byte where
 * two traces are: keep their padding zero. `outs` (or NULL) receives all n_out. What only an
 * optimizer may append is refused. */
SW_API sw_value sw_op_apply(sw_ctx *ctx, uint32_t id, const sw_value *in, int n_in,
                            const void *attrs);
SW_API sw_value sw_op_apply_all(sw_ctx *ctx, uint32_t id, const sw_value *in, int n_in,
                                const void *attrs, sw_value *outs);
/* All ops by position, inside ones first; NULL past the end. */
SW_API const sw_op_desc *sw_op_at(uint32_t id);

/* Run every test that a descriptor promises (forward against the reference, gradients against
 * differences along random directions, in place, saved bytes, accumulation, one value for
 * several inputs, threads) over its cases; SW_INVALID without any. `report` receives a line per
 * failure; NULL is fine.
 */
SW_MUST_USE SW_API sw_status sw_op_check(uint32_t id,
                                         void (*report)(void *to, const char *line), void *to,
                                         uint32_t *n_checks, uint32_t *n_failures);

#ifdef __cplusplus
}
#endif
#endif
