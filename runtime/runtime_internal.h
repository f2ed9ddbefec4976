/* What the files of runtime/ share: models, traces, programs, execs.
 *
 * A trace (struct sw_ctx) collects nodes, values and storages while the step function runs.
 * Finishing it leaves a program: the flat list of ops with planned storages. A program holds no
 * address: each storage lies in a segment (step arena, input i, model i) at an offset, and a
 * run binds segments. Immediate mode uses the same trace and executes each node as it is
 * appended. */
#ifndef SW_RUNTIME_INTERNAL_H
#define SW_RUNTIME_INTERNAL_H

#include "alloc/arena/arena.h"
#include "alloc/base/fork.h"
#include "alloc/base/handle.h"
#include "alloc/base/mem.h"
#include "profiler/record/watch.h"
#include "runtime/device/device.h"
#include "runtime/exec/guard.h"
#include "runtime/base/alive.h"
#include "runtime/ops/ops.h"
#include "runtime/base/owner.h"
#include "runtime/plan/packed.h"
#include "runtime/exec/history.h"
#include "runtime/model/safetensors_internal.h"
#include "runtime/base/observer.h"
#include "runtime/base/target.h"
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

/* ---- models ------------------------------------------------------------------------------ */

#define SWI_MAX_STATE 3 /* tensors that an optimizer keeps for a parameter */
#define SWI_MAX_GROUPS 16
#define SWI_MAX_NAME 95 /* of what users declare; entries of our own add a suffix to it */
typedef struct {
    char name[SWI_MAX_NAME + 17];
    swi_role role; /* parameter, buffer, state, optimizer_state, gradient (kept), knob block */
    sw_dtype dtype;
    sw_shape shape;
    char init[72];
    size_t bytes;  /* payload */
    size_t offset; /* in the model arena, once laid out */
    bool frozen;
    uint32_t optimizer;            /* index of the owner; SWI_NONE */
    uint32_t group;                /* parameter group of the owner */
    uint32_t kept;                 /* entry of the kept gradient; SWI_NONE */
    uint32_t kept_flag;            /* its element of the owner's flags */
    uint32_t state[SWI_MAX_STATE]; /* entries of the optimizer's state; SWI_NONE */
} swi_entry;

/* Kinds of optimizers; one table in runtime/autograd/optim/optim.c. */
typedef struct swi_optimizer_kind swi_optimizer_kind;

struct sw_optimizer {
    sw_handle handle;
    sw_model *model;
    uint32_t index; /* in the model */
    const swi_optimizer_kind *kind;
    swi_update_attrs attrs; /* of every update; what differs is 0 */
    bool keep;
    int max_skipped; /* updates in a row; 0: gradients are not looked at, below 0: any number */
    uint32_t n_groups;
    uint32_t lr_knob[SWI_MAX_GROUPS];
    float weight_decay[SWI_MAX_GROUPS];
    uint8_t release[SWI_MAX_GROUPS]; /* swi_release of the group's updates */
    uint32_t tick;                   /* entry of the step scalars (f64[2]); SWI_NONE */
    uint32_t n_kept;                 /* parameters whose gradients are kept */
    uint32_t flags;  /* entry (f32, n_kept): 1 where a kept gradient waits for an update */
    uint32_t counts; /* entry (f64, SWI_SKIPPED_N) of what was skipped; SWI_NONE */
    double skipped_before; /* the run that uses the model now */
};

/* What a knob is used for: a rate and the bound of a norm cannot be negative. */
typedef enum { SWI_KNOB_NUMBER, SWI_KNOB_RATE, SWI_KNOB_NORM } swi_knob_kind;
typedef struct {
    char name[48]; /* "": an optimizer's rate, found by sw_optimizer_lr alone */
    float value;   /* as set; the arena's copy is what runs read */
    float refused; /* that cannot be, and was set since */
    bool is_refused;
    uint8_t use; /* swi_knob_kind */
} swi_knob;

struct sw_model {
    sw_handle handle;
    char name[64];
    uint64_t uid;       /* unique in the process: keys hold it instead of the address */
    swi_alive *life;    /* held by keys, too */
    sw_status declared; /* first error of a declaration */
    char declared_message[256];
    swi_entry *entries; /* index 0 is unused, so that {0} is no parameter */
    uint32_t n_entries, cap_entries;
    swi_knob *knobs;
    uint32_t n_knobs, cap_knobs;
    uint32_t n_refused; /* knobs that were set to what cannot be: runs are refused (knob.c) */
    uint32_t knob_entry;
    sw_optimizer **optimizers;
    uint32_t n_optimizers, cap_optimizers;
    bool fixed; /* laid out: nothing can be declared any more */
    bool ready;
    bool damaged;   /* a run failed after an update: refuse until restored */
    swi_owner busy; /* a run or a call is using it */
    size_t bytes;   /* of the arena */
    size_t role_bytes[SWI_ROLE_COUNT];
    uint64_t layout_hash, frozen_hash;
    sw_arena *arena;
    swi_device *device;  /* that the arena is memory of; NULL: the host's */
    unsigned char *base; /* of the arena; NULL before ready. Host code goes by model_bytes.h */
    uint64_t knob_version, knob_uploaded; /* on a device: runs upload the block where they
                                             differ */
    void *nvtx_heap;                      /* its memory as a tool knows it; NULL: it does not */
    uint64_t queue;            /* number of the queue whose work touched it last; 0: none */
    swi_note notes[SWI_NOTES]; /* saved with the parameters */
    int n_notes;
};

/* Own the model for a run or a call, SW_BUSY when somebody else does; give it back. What
 * follows wants a model that the caller has taken. */
sw_status swi_model_take(const sw_model *model);
void swi_model_give(const sw_model *model);
sw_status swi_model_layout(sw_model *model); /* fixes it; idempotent */
/* Create the arena and charge the budget of the exec without touching memory; a model that has
 * one must lie where the exec works. */
sw_status swi_model_reserve(sw_model *model, sw_exec *exec);
/* Take it back from a model that is not ready. */
void swi_model_unreserve(sw_model *model);
/* SW_INVALID where the model has memory and it is not of the exec's device. */
sw_status swi_model_is_here(const sw_model *model, const sw_exec *exec);
/* Can the knob be that? What cannot be is kept for swi_knobs_check, until it is accepted. */
bool swi_knob_can_be(const swi_knob *knob, float value);
void swi_knob_refuse(sw_model *model, uint32_t index, float value);
void swi_knob_accept(sw_model *model, uint32_t index);
/* SW_INVALID names a knob that was set to what cannot be. */
sw_status swi_knobs_check(const sw_model *model);
/* A step function uses the knob as that; SW_INVALID where its value cannot be. */
sw_status swi_knob_use(sw_knob knob, swi_knob_kind use);
/* The knobs as set are what the next run reads. */
void swi_knobs_changed(sw_model *model);
sw_status swi_model_ready(sw_model *model, sw_exec *exec, uint64_t seed);
/* What a handle names; NULL for none and for what the library keeps for itself. */
swi_entry *swi_entry_of(sw_param param);
uint32_t swi_model_entry(sw_model *model, const char *name, swi_role role, sw_dtype dtype,
                         sw_shape shape, const char *init); /* 0 on a kept error */
/* One float more in the block of knobs; UINT32_MAX on a kept error. */
uint32_t swi_model_knob(sw_model *model, const char *name, float value);
sw_status swi_declare_fail(sw_model *model, sw_status status, const char *format, ...)
    SW_PRINTF(3, 4);
/* Elements first to first + n - 1 of a tensor of that shape. */
sw_status swi_init_values(float *to, int64_t first, int64_t n, const sw_shape *shape,
                          const char *init, uint64_t seed, const char *name);
sw_status swi_init_check(const char *init);
/* "uniform:-B,B" with all digits and a decimal point, whatever the locale. */
void swi_init_uniform(char *to, size_t bytes, double bound);
void swi_init_constant(char *to, size_t bytes, double value); /* "constant:V" */
/* Zeros, or what its initialiser says, into an entry of a model with memory. */
sw_status swi_init_entry(sw_model *model, const swi_entry *entry, uint64_t seed);

/* ---- ops --------------------------------------------------------------------------------- */

/* The ops inside, in the order of their numbers: SW_OPS_INSIDE, kept. library.c calls it. */
void swi_ops_register(const sw_op_desc *const *descs);
sw_status swi_op_register(const sw_op_desc *desc, uint32_t *id); /* sw_op_register */
/* A failure of an op's infer or kernel as the library passes it on: what is no status is
 * SW_INVALID, and what has no message gets one. `said`: sw_error_count() before it ran. */
sw_status swi_infer_failed(sw_status status, uint64_t said);
sw_status swi_kernel_failed(sw_status status, uint64_t said);

const sw_op_desc *swi_op(uint32_t id);
uint32_t swi_op_count(void);
/* What only optimizers append: it writes into models. */
bool swi_op_is_private(uint32_t id);
/* An operand of a gradient kernel: SW_IN, SW_OUT or SW_DOUT of an index. */
#define SWI_OPERAND_KIND(operand) (0xff00u & (uint32_t)(operand))
#define SWI_OPERAND_INDEX(operand) (0x00ffu & (uint32_t)(operand))

/* ---- traces ------------------------------------------------------------------------------ */

typedef struct {
    size_t bytes;   /* payload */
    size_t rounded; /* to SW_ALIGN: what is counted */
    uint32_t segment;
    size_t offset;         /* in the segment; for the step arena by the plan */
    uint32_t version;      /* grows with each overwriting op (trace time) */
    uint32_t entry;        /* of the model, for model segments */
    uint32_t birth, death; /* run positions: first op that writes, last that touches */
    uint32_t alias;        /* the storage whose place it takes, or itself */
    swi_role role;
    sw_phase phase; /* of its birth */
    uint32_t layer; /* strings */
    uint32_t name;
    bool pinned;    /* lives to the end of the run: metrics and outputs */
    uint8_t traced; /* the role that the trace gave it, which is that of immediate mode */
    uint8_t kept;   /* an op of the backward part reads it */
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
    uint8_t pad[2];
} swi_value;

/* Does a node of an optimizer run where it stands, or right behind what it needs? */
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
    uint32_t gradient_of; /* 1 + the forward node whose gradient it makes; 0: of none */
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

/* Why a node runs what another has done already: so that a budget is held; since it is cheap.
 */
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

/* What kernels are told of a node; threads and instruction set are 1 and the plainest. types:
 * room for SWI_MAX_OPERANDS, which *out points to. */
void swi_kernel_info(const swi_trace *trace, const swi_node *node, sw_type *types,
                     sw_kernel_info *out);
/* Of a node; NULL where its op has none. */
const void *swi_node_attrs(const swi_trace *trace, const swi_node *node);

/* The kernel of an op (grad -1: its forward one) for these operands on the exec's device, and
 * its scratch; sets threads and instruction set of `info`. SW_UNSUPPORTED names an op that the
 * device does not have. */
typedef struct {
    sw_kernel *kernel;         /* NULL on a device */
    sw_cuda_kernel *on_device; /* NULL on the CPU */
    size_t scratch_bytes;
} swi_pick;
sw_status swi_pick_kernel(const sw_exec *exec, uint32_t op, int grad, sw_kernel_info *info,
                          swi_pick *out);

/* What one run of a node costs, by types and attributes alone: the same on every machine and
 * for every number of threads. Operations as sw_op_desc counts them, with those that add to
 * outputs; payload bytes that it reads and writes, lanes of padding and extras included,
 * scratch not; and both as an estimate of the time of one thread in sixteenths of a nanosecond,
 * 1 to 2^40, which never falls when either grows. Nothing for views: they do not run (their
 * cost is 1). */
#define SWI_COST_PER_NS 16
#define SWI_COST_MOST ((uint64_t)1 << 40)
uint64_t swi_node_operations(const swi_trace *trace, const swi_node *node);
uint64_t swi_node_bytes(const swi_trace *trace, const swi_node *node);
uint64_t swi_node_cost(const swi_trace *trace, const swi_node *node);

/* Gradient of a parameter in this run. */
typedef struct {
    uint32_t model, entry;
    uint32_t value;
    uint32_t verdict; /* of the losses that it comes from; SWI_NONE: nobody asks */
} swi_param_grad;

/* A state's next value; the bytes are written behind all that the step function appended. */
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
    bool open; /* its step function runs: from swi_ctx_begin to swi_ctx_end */
    bool immediate;
    int phase_override; /* -1 none */
    int phase_now;      /* inside sw_backward, sw_update; -1 none */
    bool in_backward;
    uint32_t gradient_of; /* of what is appended: see swi_node */
    char scope[SWI_MAX_SCOPE];
    uint8_t scope_at[SWI_MAX_SCOPE]; /* how long the path was when each scope began */
    uint32_t n_scopes;
    /* model values: for (model, entry) the value at the present version */
    uint32_t *model_values[SWI_MAX_MODELS];
    uint32_t model_cap[SWI_MAX_MODELS];
    swi_param_grad *grads;
    uint32_t n_grads, cap_grads;
    swi_assignment *assignments;
    uint32_t n_assignments, cap_assignments;
    uint32_t *value_grads;   /* gradient of each value in the running sw_backward */
    uint32_t first_gradient; /* storages from here on were made by it */
    uint32_t n_value_grads, cap_value_grads; /* values that were there when it began */
    uint32_t *verdicts; /* of each entry's gradient in the running sw_update */
    uint32_t cap_verdicts;
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
swi_value *swi_value_at(sw_ctx *ctx, sw_value v);   /* NULL and an error for a bad handle */
sw_value swi_handle(const sw_ctx *ctx, uint32_t id);
uint32_t swi_model_value(sw_ctx *ctx, sw_model *model, uint32_t entry);
/* One element of an entry: a scalar on the entry's bytes, at its present version. */
uint32_t swi_model_element(sw_ctx *ctx, sw_model *model, uint32_t entry, uint32_t index);
uint32_t swi_knob_value(sw_ctx *ctx, sw_knob knob);
/* The step function has returned: append what sw_assign left to be written. */
sw_status swi_write_states(sw_ctx *ctx);
sw_value swi_layout(sw_ctx *ctx, sw_value x, sw_layout layout);
uint32_t swi_contiguous(sw_ctx *ctx, uint32_t value);
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
/* What no element of the product of two values exceeds, a sum of so many terms, if they have
 * at most `worth` elements. */
sw_status swi_append_bound(sw_ctx *ctx, const uint32_t *factors, int64_t terms, int64_t worth);
/* A verdict (ops.h) on `value`, which `code` is said of; before and flag may be SWI_NONE. A
 * bound on what made the value, right in front of that, serves it. */
sw_status swi_append_finite(sw_ctx *ctx, uint32_t value, double code, uint32_t before,
                            uint32_t flag, uint8_t release, uint32_t *out);
/* The first of n verdicts that is not 0; one is itself. */
sw_status swi_append_any(sw_ctx *ctx, const uint32_t *verdicts, uint32_t n, uint8_t release,
                         uint32_t *out);
/* Does this optimizer look at losses and gradients? */
bool swi_looks(const sw_optimizer *o);
/* What updates were skipped in the run that begins, which ends now: SW_INVALID where they are
 * too many in a row. A model on a device is passed over: its runs end later. */
void swi_skipped_begin(const sw_run_args *args);
sw_status swi_skipped_end(const sw_run_args *args);
/* The same of one optimizer, whose counts a run left (SWI_SKIPPED_N of them), where that of all
 * was `before` in front of the run. args: of that run, where its bytes are still those that it
 * read; NULL: they are not, or lie on a device. */
sw_status swi_skipped_judge(const sw_optimizer *o, const double *counts, double before,
                            const sw_run_args *args);
/* The rest of appending an op by descriptor: layouts, copies, types. into as above or NULL. */
sw_status swi_apply(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in, const void *attrs,
                    const uint32_t *into, uint32_t accumulate, const char *stream,
                    uint32_t *outs);

/* The kernel that makes gradients of the node's inputs next, of which those in `wanted` (a
 * mask) are still to be made; -1: none makes any of them. Does gradient kernel g of the op take
 * NULL for gradients that are not wanted? */
int swi_pick_gradient(const swi_trace *t, const swi_node *node, uint32_t wanted);
bool swi_leaves_out(const sw_op_desc *desc, int g);
/* Make the gradient in *slot own its bytes alone, so that it can be added to. */
sw_status swi_own_gradient(sw_ctx *ctx, uint32_t *slot, uint32_t first_storage);

/* For rules: the gradient that has come for x in the running sw_backward, in bytes of its own
 * to which more may be added (it is then the new value's); NULL where none has. */
uint32_t *swi_gradient_so_far(sw_ctx *ctx, sw_value x);

/* Begin and end a trace of `args` in exec->ctx; the step function runs in between. */
sw_status swi_ctx_begin(sw_exec *exec, const sw_run_args *args, bool immediate);
sw_status swi_ctx_end(sw_ctx *ctx);
void swi_ctx_free(sw_ctx *ctx);

/* ---- programs ---------------------------------------------------------------------------- */

/* Where an operand's bytes are: a segment of the binding and an offset in it. */
typedef struct {
    uint32_t segment;
    size_t offset;
} swi_bind;

typedef struct {
    uint32_t node;  /* of the trace */
    uint32_t first; /* first buffer and bind of this op; scratch is the last bind */
    uint32_t n_buffers;
    uint32_t births, n_births; /* into program->births */
    uint32_t n_reuses;         /* behind them: born in the place of another */
    uint32_t deaths, n_deaths; /* into program->deaths */
    uint32_t like;             /* its template */
    sw_phase phase;
    bool is_update;
    size_t scratch_bytes;
    const void *attrs;
    const sw_cuda_pair *pair; /* not NULL: it is launched with the next op, which then
                                 launches nothing */
} swi_run_op;

/* What ops have in common that are alike: types and what else shapes say (templates.c). */
typedef struct {
    sw_launch launch;
    sw_buffer *buffers; /* inputs, then outputs */
} swi_template;

/* Bytes by role and by layer: runtime/observe/breakdown.h. */
typedef struct {
    char name[SWI_MAX_SCOPE]; /* role or layer */
    size_t base;              /* there from the beginning to the end: models and inputs */
    size_t live;              /* now, base included */
    size_t at_peak;           /* when all together were at their most */
    size_t peak;              /* at its own most */
} swi_share_line;
typedef struct {
    swi_share_line *lines; /* all roles, "" and the other layers; none: not counted */
    uint32_t n, cap;
    uint32_t found; /* the layer that was looked for last: the next is the same or near */
    size_t live, peak;
} swi_shares;

void swi_shares_free(swi_shares *shares); /* leaves it empty */

typedef struct swi_leaves swi_leaves; /* runtime/exec/queue.h */

typedef struct swi_program {
    swi_trace trace;   /* compact copy, owned */
    swi_trace plain;   /* while it is made: as it was traced; empty where that is the same */
    swi_packed traced; /* the same, once it is made: swi_program_traced */
    uint32_t id;       /* in its exec */
    uint64_t hash;
    int refs;
    swi_run_op *ops; /* in run order, views left out */
    uint32_t n_ops;
    swi_bind *binds; /* as planned; n_binds = operands + one scratch slot per op */
    uint32_t n_binds;
    swi_template *templates;
    size_t template_bytes;      /* of the block */
    uint32_t *births, *deaths;  /* storages (roots in the step arena, and reuses) */
    uint32_t n_births;          /* of roots */
    uint32_t *layers, n_layers; /* of the ops, each once: strings */
    uint32_t *op_layer;         /* of each op, by its place in layers */
    char *op_phase;             /* of each op, as a digit */
    size_t height;              /* of the step arena */
    size_t limit;               /* what it could be at most when it was planned */
    size_t slot_bytes;          /* inputs, rounded */
    int n_models;
    size_t model_bytes;
    int n_inputs;
    sw_plan_info info; /* data and total bytes are the caller's */
    uint32_t peak_op;
    swi_shares shares;   /* by the plan; empty until somebody asks */
    sw_nvtx_table names; /* for an NVTX tool; empty until it runs under one */
    swi_leaves *leaves;  /* on a device: what is copied out of a run; NULL before the first */
    void (*free_leaves)(swi_leaves *leaves);
    bool profiled; /* the exec's profile has its plan */
    bool ran;      /* at least once: later runs are warm */
    size_t heap_bytes[10];
} swi_program;

/* Compare two programs' traces: SWI_NONE when equal, else the first node that differs. */
uint32_t swi_trace_differs(const swi_trace *a, const swi_trace *b);
uint64_t swi_trace_hash(const swi_trace *trace);
/* Passes and plan over a finished trace (copied). limit: bytes that its arena may have, met
 * where ops can be repeated so that it is (SIZE_MAX: none). */
sw_status swi_program_create(swi_program **out, const sw_ctx *ctx, size_t limit);
/* As it was traced, what another trace is compared with: the program's trace or, where passes
 * have changed that, *room, which is empty before and for the caller to free. */
sw_status swi_program_traced(const swi_program *program, swi_trace *room,
                             const swi_trace **out);
/* Are they the same as they were traced? */
sw_status swi_programs_equal(const swi_program *a, const swi_program *b, bool *equal);
/* The launch of op i: resolved, and used, one op at a time. */
static inline sw_launch *swi_launch_of(const swi_program *program, uint32_t op)
{
    return &program->templates[program->ops[op].like].launch;
}
/* Bytes of the host's heap that it takes now. */
size_t swi_program_host_bytes(const swi_program *program);
void swi_program_free(swi_program *program);
void swi_pass_inplace(swi_trace *trace, const uint32_t *order, uint32_t n);
void swi_program_bind(swi_program *program); /* binds, births, deaths from storages */
void swi_program_pair(swi_program *program, const sw_exec *exec); /* launches of ops together */
void swi_program_layers(swi_program *program);  /* layers and phases of its ops */
void swi_program_measure(swi_program *program); /* info from lifetimes */
void swi_program_name_holders(swi_program *program, const sw_run_args *args);
/* Figures of the program's plan with data_bytes as given by the caller. */
void swi_plan_info(const swi_program *program, size_t data_bytes, sw_plan_info *out);
/* The path of scopes that a name is: "block1.up" is in "block1/up". In place. */
void swi_path_of(char *name);
/* A name for reports: the given one, else layer, op and what it is. */
const char *swi_storage_name(const swi_trace *trace, uint32_t storage, char *to, size_t bytes);
const char *swi_node_name(const swi_trace *trace, const swi_node *node, char *to, size_t bytes);
/* The same where the node that makes it may be known already (NULL: look for it). */
const char *swi_made_name(const swi_trace *trace, uint32_t storage, const swi_node *node,
                          char *to, size_t bytes);

/* ---- execs ------------------------------------------------------------------------------- */

typedef struct {
    uint64_t hash;
    uint64_t used; /* exec->clock of the last use */
    size_t bytes;
    unsigned char *key;
    swi_alive **lives; /* of its models; in the block of the key */
    uint32_t n_lives;
    uint32_t program;
} swi_key;

typedef struct swi_queue swi_queue; /* runtime/exec/queue.h */
typedef struct sw_pool sw_pool;
sw_status swi_pool_create(sw_pool **out, int threads);
void swi_pool_destroy(sw_pool *pool);
const sw_par *swi_pool_par(sw_pool *pool);

/* What an exec tells its profile. */
#define SWI_MAX_TRACES 64
typedef struct {
    sw_profile *profile;             /* NULL: none */
    uint32_t profile_generation;     /* of its handle when it joined */
    uint32_t number;                 /* as sw_prof_join gave it */
    sw_record_log *log;              /* NULL: no events */
    uint64_t steps, evals;           /* that began; the runs of a step count once */
    uint64_t start_ns;               /* of the run */
    bool thinned;                    /* the run is counted and has no records */
    uint64_t traces[SWI_MAX_TRACES]; /* of immediate runs: hashes of those that are recorded */
    uint32_t n_traces;
    bool device_ended; /* the profile has the card's last record */
} swi_recorder;

struct sw_exec {
    sw_handle handle;
    swi_target target;
    uint64_t seed;
    swi_recorder rec;
    bool checks, op_clocks, no_phases, shares;
    uint32_t max_programs;
    swi_queue *queue; /* its work on the device */
    swi_guard *guard; /* around each kernel of the CPU; NULL: none */
    sw_arena *arena;
    sw_watch watch;                   /* listens to the arena */
    sw_nvtx_table immediate_names;    /* for an NVTX tool, of the immediate run */
    size_t nvtx_base[SWI_ROLE_COUNT]; /* what lives all the time, by role */
    swi_shares immediate_shares;      /* of the last immediate run: what lived before it */
    swi_shares witness_shares;        /* by the last access witness */
    sw_pool *pool;
    sw_ctx ctx; /* reused for every trace */
    swi_program **programs;
    uint32_t n_programs, cap_programs;
    swi_key *keys;
    uint32_t n_keys, cap_keys;
    uint32_t next_key;    /* where a lookup begins */
    uint64_t lives_ended; /* as swi_alive_ended said when keys were looked through last */
    uint64_t clock;
    uint32_t next_program_id;
    swi_owner busy;
    swi_call call; /* that uses it */
    sw_model *held[SWI_MAX_MODELS];
    int n_held;
    uint32_t forks; /* sw_fork_number of the process that made it */
    uint32_t fp;    /* of the immediate run that goes on: the caller's floating-point word */
    bool reset_pending;   /* outputs of the last run are still in the arena */
    swi_program *last;    /* of the last run */
    swi_program *attempt; /* that the present call is about; NULL: none yet */
    bool push_refused;    /* the present run in immediate mode got no bytes for a storage */
    bool last_immediate;
    sw_run_info info;          /* of the run that goes on */
    swi_past past;             /* of the last runs */
    swi_trace immediate_trace; /* of the last immediate run: names and places of what left it */
    uint64_t *op_ns;
    uint32_t cap_op_ns;
    void *key_scratch;
    size_t cap_key_scratch;
};

/* sw_exec_create. */
sw_status swi_exec_create(sw_exec **out, const sw_exec_opts *opts);
/* An exec of options that are read, on a device that is open (a share of it is taken), or on
 * the CPU. */
sw_status swi_exec_create_on(sw_exec **out, const sw_exec_opts *opts, swi_device *device);

/* Run a kernel of the CPU, guarded where the exec is. */
sw_status swi_run_kernel(const sw_exec *exec, sw_kernel *kernel, const sw_launch *launch);
/* Find or make the program of these arguments; *fresh: this call traced. */
sw_status swi_exec_program(sw_exec *exec, const sw_run_args *args, swi_program **out,
                           bool *fresh);

/* Around each op of a run; any may be NULL. */
typedef struct {
    void *context;
    sw_status (*before)(void *context, uint32_t op);
    sw_status (*after)(void *context, uint32_t op);
} swi_hooks;

/* Run a program op by op with a binding of the caller's: base[segment] + binds[k].offset.
 * Neither arena nor profiler is told; used by the witnesses. *updated (or NULL) says whether an
 * update ran. */
sw_status swi_program_execute(sw_exec *exec, swi_program *program, const sw_run_args *args,
                              unsigned char *const *base, const swi_bind *binds,
                              const swi_hooks *hooks, bool *updated);

/* Witness of one program as it stands (tests plant faults in a copy first). */
sw_status swi_program_clone(swi_program **out, const swi_program *program);
sw_status swi_witness_program(sw_exec *exec, swi_program *program, const sw_run_args *args,
                              uint32_t which, sw_witness_info *out);

/* Floating-point policy of compute threads: denormals are zero. Returns the old word. */
uint32_t swi_fp_enter(void);
void swi_fp_leave(uint32_t old);

#endif
