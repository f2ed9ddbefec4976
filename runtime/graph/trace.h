/* Traces: what a step function leaves while it runs (struct sw_ctx): nodes, values,
 * storages. */
#pragma once

#include "runtime/device/device.h"
#include "runtime/model/noise_mode.h"

typedef struct {
    size_t bytes;   /* payload */
    size_t rounded; /* to SW_ALIGN: what is counted */
    uint32_t segment;
    size_t offset;         /* in the segment; for the step arena by the plan */
    uint32_t version;      /* grows with each overwriting op (trace time) */
    uint32_t entry;        /* of the model, for model segments */
    uint32_t birth, death; /* run positions: first op that writes, last that touches */
    uint32_t alias;        /* the storage that it takes the place of, or itself */
    swi_role role;
    sw_phase phase; /* of its birth */
    uint32_t layer; /* strings */
    uint32_t name;
    bool pinned;    /* lives to the end of the run: metrics and outputs */
    uint8_t traced; /* the role that the trace gave it, which is that of immediate mode */
    uint8_t kept;   /* an op of the backward part reads it */
    uint8_t dtype;  /* 1 + sw_dtype of its elements; 0: bytes, such as workspace */
} swi_storage;

typedef struct {
    uint32_t storage;
    size_t offset; /* bytes inside the storage */
    sw_type type;
    uint32_t strides; /* 0: contiguous, as the type says; else 1 + a place in trace->strides */
    uint32_t node;    /* producer; SWI_NONE for inputs and model values */
    uint32_t version; /* of the storage when this value was made */
    uint8_t contiguous;
    uint8_t needs_grad; /* scratch of sw_backward */
    uint8_t kept_f32;   /* with all that is computed from it: sw_keep_f32 */
    uint8_t pad;
} swi_value;

/* Does a node of an optimizer run where it stands, or right after what it needs? */
enum swi_release {
    SWI_STAYS,
    SWI_RELEASED,  /* as asked for */
    SWI_RELEASABLE /* where the plan is made smaller */
};

typedef struct {
    uint32_t op;
    int32_t grad; /* -1: forward kernel; else index of the gradient kernel */
    uint32_t n_in, n_out;
    uint32_t first; /* operands: n_in inputs, then n_out outputs (extras included); value ids */
    uint32_t attrs; /* offset in the attrs pool */
    uint32_t accumulate;
    uint32_t null_out;         /* bit k: a gradient kernel is given NULL for output k */
    uint32_t scratch;          /* storage, SWI_NONE */
    sw_kernel *kernel;         /* NULL for views, and on a device */
    sw_cuda_kernel *on_device; /* in its place there */
    sw_phase phase;
    uint32_t layer;
    uint32_t stream;
    uint32_t gradient_of; /* 1 + the forward node that it makes a gradient of; 0: of none */
    uint8_t is_view, is_update, is_backward, writes_model;
    uint8_t release;   /* swi_release */
    uint8_t again;     /* runs a second time what a forward node has done: SWI_AGAIN_*; 0: no */
    uint32_t again_of; /* that node */
} swi_node;

/* Is the node's kernel given NULL for this output? */
static inline bool swi_is_null(const swi_node *node, uint32_t out)
{
    return out < 32 && (node->null_out >> out & 1u) != 0;
}

/* Why a node runs what another has done already: so that a budget is held; since it is
 * cheap. */
enum { SWI_AGAIN_BUDGET = 1, SWI_AGAIN_REBUILT = 2 };

typedef struct {
    char name[48];
    uint32_t value;
} swi_named;

typedef struct swi_trace {
    swi_node *nodes;
    uint32_t n_nodes, cap_nodes;
    uint32_t *operands;
    uint32_t n_operands, cap_operands;
    swi_value *values;
    uint32_t n_values, cap_values;
    swi_storage *storages;
    uint32_t n_storages, cap_storages;
    int64_t (*strides)[SW_MAX_RANK]; /* of views that are not contiguous, in elements */
    uint32_t n_strides, cap_strides;
    unsigned char *attrs;
    uint32_t n_attrs, cap_attrs;
    char *strings; /* each ends with 0; index 0 is "" */
    uint32_t n_strings, cap_strings;
    uint32_t *string_slots; /* while tracing: string by hash, 0 where free; a power of two */
    uint32_t cap_string_slots, n_string_slots;
    swi_named *metrics, *outputs;
    uint32_t n_metrics, cap_metrics, n_outputs, cap_outputs;
} swi_trace;
sw_status swi_trace_reset(swi_trace *trace);
void swi_trace_free(swi_trace *trace);
uint32_t swi_trace_string(swi_trace *trace, const char *text, sw_status *status);
const char *swi_string(const swi_trace *trace, uint32_t index);

/* The strides of a value, in elements: SW_MAX_RANK of them, 0 past its rank. */
void swi_value_strides(const swi_trace *trace, const swi_value *value, int64_t *to);

/* A node as kernels see it; threads and instruction set are 1 and the plainest. types: room for
 * SWI_MAX_OPERANDS, which *out points to. */
void swi_kernel_info(const swi_trace *trace, const swi_node *node, sw_type *types,
                     sw_kernel_info *out);

/* The operands that its kernel leaves unread: bit k is operand k. None on a device, whose
 * kernels are others. */
uint32_t swi_unread(const swi_trace *trace, const swi_node *node);
static inline bool swi_reads(uint32_t unread, uint32_t operand)
{
    return operand >= 32 || (unread >> operand & 1u) == 0;
}

/* Operand k of a node; its results come after its inputs. */
static inline const swi_value *swi_operand(const swi_trace *trace, const swi_node *node,
                                           uint32_t k)
{
    return &trace->values[trace->operands[node->first + k]];
}

/* The storage whose bytes a storage has in the end: itself, or the one that it takes the place
 * of. */
static inline uint32_t swi_root_of(const swi_trace *trace, uint32_t storage)
{
    while (trace->storages[storage].alias != storage)
        storage = trace->storages[storage].alias;
    return storage;
}

/* Of a node; NULL where its op has none. */
const void *swi_node_attrs(const swi_trace *trace, const swi_node *node);

/* The kernel of an op (grad -1: its forward one) for these operands, whose numbers have one
 * type, on the exec's device, and its scratch; sets threads and instruction set of `info`.
 * SW_UNSUPPORTED names op and type where the device has none. */
sw_status swi_select_kernel(const sw_exec *exec, uint32_t op, int grad, sw_kernel_info *info,
                            swi_selected_kernel *out);

/* Gradient of a parameter in this run. */
typedef struct {
    uint32_t model, entry;
    uint32_t value;
    uint32_t finite_check; /* of the losses that it comes from; SWI_NONE: no one asks */
    bool summed;           /* over the shards of the step */
    bool hooked;           /* a gradient hook has seen it */
} swi_param_grad;

/* sw_gradient_hook of one model. */
typedef struct {
    const sw_model *model; /* NULL: none */
    sw_gradient_fn *fn;
    void *user;
} swi_gradient_hook;

/* A state's next value; the bytes are written after all that the step function appended. */
typedef struct {
    uint32_t model, entry;
    uint32_t target; /* the state's value at the beginning of the run */
    uint32_t value;
    uint32_t layer; /* strings */
} swi_assignment;

struct sw_ctx {
    sw_exec *exec;
    const sw_run_args *args;
    swi_trace trace;
    sw_status status;
    uint32_t generation;
    const swi_noise_mode *noise; /* parameters have noise; NULL: they have none */
    uint32_t noise_depth;        /* above 0: what takes an op's place is appended */
    bool open;                   /* its step function runs: from swi_ctx_begin to swi_ctx_end */
    bool immediate;
    int phase_override; /* -1 none */
    int phase_now;      /* inside sw_backward, sw_update; -1 none */
    bool in_backward;
    uint32_t gradient_of; /* of what is appended: see swi_node */
    char scope[SWI_MAX_SCOPE];
    size_t label_bytes;              /* of a model's label that a layer put before it */
    uint8_t scope_at[SWI_MAX_SCOPE]; /* how long the path was when each scope began */
    uint32_t n_scopes;
    /* model values: for (model, entry) the value at the present version */
    uint32_t *model_values[SWI_MAX_MODELS];
    uint32_t *grad_at[SWI_MAX_MODELS]; /* after them: where `grads` has an entry's gradient, if
                                        * it has one */
    uint32_t model_cap[SWI_MAX_MODELS];
    swi_param_grad *grads;
    uint32_t n_grads, cap_grads;
    swi_assignment *assignments;
    uint32_t n_assignments, cap_assignments;
    uint32_t *value_grads;   /* gradient of each value in the running sw_backward */
    uint32_t first_gradient; /* storages from here on were made by it */
    uint32_t n_value_grads, cap_value_grads; /* values that were there when it began */
    uint32_t *finite_checks; /* of each entry's gradient in the running sw_update */
    uint32_t cap_finite_checks;
    swi_gradient_hook hooks[SWI_MAX_MODELS]; /* by the model's place in the arguments */
    uint8_t release; /* swi_release of what is appended without one: in a gradient hook */
    uint32_t clip_scale[SWI_MAX_MODELS]
                       [8]; /* value of the pending gradient scale per optimizer */
    /* immediate mode */
    sw_status (*run_node)(sw_ctx *ctx,
                          uint32_t node); /* gives its new storages bytes, runs it */
    uint32_t done_storages;               /* have their bytes */
    uint32_t done_ops;                    /* have run */
    bool updated;                         /* an update has run: a failure damages the models */
};

/* Public functions of a ctx begin with this: false with an error set where there is no ctx, or
 * its step function is over; false where an error sticks. */
sw_status swi_ctx_refuse(const sw_ctx *ctx);
static inline bool swi_ctx_works(const sw_ctx *ctx)
{
    if (ctx == NULL || !ctx->open) {
        (void)swi_ctx_refuse(ctx);
        return false;
    }
    return ctx->status == SW_OK;
}

/* Internal trace functions; all check and set ctx->status. */
sw_status swi_stick(sw_ctx *ctx, sw_status status); /* keeps the first, with the scope path */
/* With a message as printf writes it; and of a function that then has no value to return. */
#define SWI_STICK(ctx, status, ...)                                                            \
    ((void)swi_stick(ctx, sw_error_set(status, __FILE__, __LINE__, __VA_ARGS__)))
#define SWI_REFUSE(ctx, ...)                                                                   \
    (swi_ctx_works(ctx) ? SWI_STICK(ctx, SW_INVALID, __VA_ARGS__) : (void)0, (sw_value){0, 0})
swi_value *swi_value_at(sw_ctx *ctx, sw_value v); /* NULL and an error for a bad handle */
sw_value swi_handle(const sw_ctx *ctx, uint32_t id);
uint32_t swi_model_value(sw_ctx *ctx, sw_model *model, uint32_t entry);

/* One element of an entry: a scalar on the entry's bytes, at its present version. */
uint32_t swi_model_element(sw_ctx *ctx, sw_model *model, uint32_t entry, uint32_t index);
uint32_t swi_knob_value(sw_ctx *ctx, sw_knob knob);
/* n knobs from `first` on: a vector, or for n 1 a scalar. */
uint32_t swi_knob_values(sw_ctx *ctx, sw_knob first, uint32_t n);

/* The step function has returned: append what sw_assign left to be written. */
sw_status swi_write_states(sw_ctx *ctx);
sw_value swi_layout(sw_ctx *ctx, sw_value x, sw_layout layout);
uint32_t swi_contiguous(sw_ctx *ctx, uint32_t value);
/* Numbers as SW_F32 or SW_BF16; x itself where it has that type, or ids. */
sw_value swi_cast(sw_ctx *ctx, sw_value x, sw_dtype dtype);
uint32_t swi_new_value(sw_ctx *ctx, const sw_type *type, uint32_t storage);
uint32_t swi_new_storage(sw_ctx *ctx, size_t bytes, swi_role role);

/* Another role than it was made with. */
void swi_set_role(sw_ctx *ctx, uint32_t storage, swi_role role);

/* Append a kernel node. into[j] != SWI_NONE: output j overwrites (or, with its accumulate bit,
 * adds to) the storage of that value and becomes its new version. Receives output values in
 * outs. */
typedef struct {
    uint32_t op;
    int grad;
    const uint32_t *in;
    int n_in;
    const void *attrs;
    const sw_type *out_types;
    const uint32_t *into; /* NULL: all new */
    int n_out;
    uint32_t accumulate;
    const char *stream; /* random ops */
    bool update;
    uint8_t release;   /* swi_release */
    uint32_t null_out; /* as in swi_node */
} swi_append_args;
sw_status swi_append(sw_ctx *ctx, const swi_append_args *args, uint32_t *outs);

/* The rest of appending an op by descriptor: layouts, copies, types. into as above or NULL. */
sw_status swi_apply(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in, const void *attrs,
                    const uint32_t *into, uint32_t accumulate, const char *stream,
                    uint32_t *outs);

/* Make the gradient in *slot own its bytes alone, so that it can be added to. */
sw_status swi_own_gradient(sw_ctx *ctx, uint32_t *slot, uint32_t first_storage);

/* For rules: the gradient that has come for x in the running sw_backward, in bytes of its own
 * to which more may be added (it is then the new value's); NULL where none has. */
uint32_t *swi_gradient_so_far(sw_ctx *ctx, sw_value x);

sw_shape swi_shape_of(sw_ctx *ctx, sw_value x);

/* Room for one more node; n more operands; n more bytes of attributes. */
sw_status swi_reserve_nodes(swi_trace *t);
sw_status swi_reserve_operands(swi_trace *t, uint32_t n);
sw_status swi_reserve_attrs(swi_trace *t, uint32_t n);
/* Strides of a value: SW_MAX_RANK of them, 0 past the rank. */
sw_status swi_set_strides(swi_trace *t, uint32_t value, const int64_t *stride);
/* Row-major strides of all SW_MAX_RANK axes; 0 past the rank. */
void swi_contiguous_strides(const sw_type *type, int64_t *stride);

/* The phase of an op over these inputs. */
sw_phase swi_phase_of(const sw_ctx *ctx, const sw_op_desc *desc, const uint32_t *in, int n_in);

/* Bring inputs into the layout that the op takes, and plain for all others. */
sw_status swi_lay_out_inputs(sw_ctx *ctx, const sw_op_desc *desc, uint32_t *in, int n_in,
                             const void *attrs);

/* In a run with noise on parameters: what takes the place of this op; *done false: nothing. */
sw_status swi_noise_apply(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in,
                          const void *attrs, uint32_t *outs, bool *done);
