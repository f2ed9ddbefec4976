/* Models: entries in one range per role, knobs, optimizers. */
#pragma once

#include "alloc/arena/arena.h"
#include "alloc/base/handle.h"
#include "kernels/optim.h"
#include "runtime/base/owner.h"
#include "runtime/base/common.h"
#include "runtime/base/target.h"

#define SWI_MAX_STATE SW_OPTIM_TENSORS /* tensors that an optimizer keeps for a parameter */
#define SWI_MAX_GROUPS 16
#define SWI_MAX_NAME 95 /* of what users declare; entries of our own add a suffix to it */

typedef struct {
    char name[SWI_MAX_NAME + 17];
    swi_role role; /* parameter, buffer, state, optimizer_state, gradient (kept), knob block */
    sw_dtype dtype;
    sw_shape shape;
    char init[72];
    void *values;  /* a constant: what it begins with, `bytes` of the host's heap; else NULL */
    size_t bytes;  /* payload */
    size_t offset; /* in the model arena, once laid out */
    bool frozen;
    bool brief;                    /* no file has it: it outlives no step, or is of `weights` */
    bool weights;                  /* of sw_weights_new: a parameter that stays frozen */
    bool logits;                   /* of bits: with noise it has bits of each direction */
    uint32_t optimizer;            /* index of the owner; SWI_NONE */
    uint32_t group;                /* parameter group of the owner */
    uint32_t kept;                 /* entry of the kept gradient; SWI_NONE */
    uint32_t partial;              /* entry of the partial sums of its gradient; SWI_NONE */
    uint32_t kept_flag;            /* its element of the owner's flags */
    uint32_t state[SWI_MAX_STATE]; /* entries of the optimizer's state; SWI_NONE */
} swi_entry;

/* Names in files that are the library's own begin so: of metadata, and of tensors that are
 * neither parameter nor buffer. */
#define SWI_OWN_PREFIX "stepwell."

/* A text that is saved with the parameters. */
#define SWI_NOTES 4 /* that a model has at most */
typedef struct {
    char key[48], text[256];
} swi_note;

/* Kinds of optimizers; their list is kernels/optimizers.def. */
typedef struct swi_optimizer_kind swi_optimizer_kind;

/* A state tensor of one parameter. */
typedef struct {
    const char *suffix;
    sw_shape shape; /* the parameter's, unless the kind says otherwise */
    float begin;    /* every element at first */
} swi_state;

struct swi_optimizer_kind {
    const char *name;
    uint32_t op;   /* of the update of one parameter */
    uint32_t tick; /* op that counts steps for the corrections of updates; 0: none */
    uint32_t has;
    float lr; /* this and the next: defaults */
    float beta1, beta2, epsilon;
    /* The attributes of updates that are the kind's own; NULL: none. */
    void (*set_attrs)(const sw_optimizer_opts *opts, swi_update_attrs *attrs);
    /* States of a parameter of this shape, at most SWI_MAX_STATE; how many. NULL: none. */
    int (*states)(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out);
};

struct sw_optimizer {
    sw_handle handle;
    sw_model *model;
    uint32_t index; /* in the model */
    const swi_optimizer_kind *kind;
    swi_update_attrs attrs; /* of every update; what differs is 0 */
    bool keep;
    bool state8;     /* codes and scales for each state, but of small parameters */
    int shards;      /* of a step that each process runs */
    int max_skipped; /* updates in a row; 0: gradients are not looked at, below 0: any number */
    uint32_t n_groups;
    uint32_t lr_knob[SWI_MAX_GROUPS]; /* after it lie its other knobs, as attrs.reads says */
    float weight_decay[SWI_MAX_GROUPS];
    uint8_t release[SWI_MAX_GROUPS]; /* swi_release of the group's updates */
    uint32_t tick[SWI_MAX_GROUPS];   /* entries of the step scalars (f64[2]); SWI_NONE */
    uint32_t n_kept;                 /* parameters with kept gradients */
    uint32_t flags;  /* entry (f32, n_kept): 1 where a kept gradient waits for an update */
    uint32_t counts; /* entry (f64, SWI_SKIPPED_N) of what was skipped; SWI_NONE */
    double skipped_before; /* the run that uses the model now */
};

/* The use of a knob, and so the values that it can have (model_memory.c): FACTOR is a momentum
 * or a beta, SHARE the rate of dropout. */
typedef enum {
    SWI_KNOB_NUMBER,
    SWI_KNOB_RATE,
    SWI_KNOB_NORM,
    SWI_KNOB_DECAY,
    SWI_KNOB_FACTOR,
    SWI_KNOB_SHARE
} swi_knob_kind;

typedef struct {
    char name[48];             /* "": an optimizer's, found by sw_optimizer_knob alone */
    const char *what;          /* then its name for messages; NULL: not an optimizer's */
    uint32_t optimizer, group; /* of a number of an optimizer: which one */
    float value;               /* as set; the arena's copy is what runs read */
    float refused;             /* that cannot be, and was set since */
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
    uint32_t *by_name; /* of many entries: hash table of those that are declared, 0: free */
    uint32_t n_by_name;
    swi_knob *knobs;
    uint32_t n_knobs, cap_knobs;
    uint32_t n_refused; /* knobs that were set to what cannot be: runs are refused
                           (model_memory.c) */
    uint32_t knob_entry;
    sw_optimizer **optimizers;
    uint32_t n_optimizers, cap_optimizers;
    bool fixed; /* laid out: nothing can be declared any more */
    bool ready;
    bool damaged; /* a run failed after an update: refuse until restored */
    bool drawn;   /* no byte was written since the model was initialised from `seed` */
    uint64_t seed;
    swi_owner busy; /* a run or a call is using it */
    size_t bytes;   /* of the arena */
    size_t role_bytes[SWI_ROLE_COUNT];
    uint64_t layout_hash, frozen_hash;
    sw_arena *arena;
    swi_device *device;  /* that the arena is memory of; the CPU before it has one */
    unsigned char *base; /* of the arena; NULL before ready. Host code goes by "bytes" below */
    uint64_t knob_version, knob_uploaded; /* on a device: runs upload the block where they
                                             differ */
    void *nvtx_heap;                      /* its memory as a tool knows it; NULL: it does not */
    uint64_t queue;            /* number of the queue that worked on it last; 0: none */
    swi_note notes[SWI_NOTES]; /* saved with the parameters */
    int n_notes;
};

/* One of the library's own, whatever callback runs; NULL: nothing. */
void swi_model_free(sw_model *model);

/* Where two layouts first differ, in words. */
#define SWI_DIFFERENCE_TEXT 480
const char *swi_layout_difference(const sw_model *a, const sw_model *b, char *to);

/* Own the model for a run or a call, SW_BUSY when somebody else does; give it back. The
 * functions below need a model that the caller has taken. */
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

/* Can the knob have that value? Others are kept for swi_knobs_check, until accepted. */
bool swi_knob_can_be(const swi_knob *knob, float value);
/* "knob 'x'", "the momentum of optimizer 0 (sgd), group 0"; and the numbers it can be, after
 * "must be". */
enum { SWI_KNOB_NAME = 128 };
void swi_knob_name(const sw_model *model, uint32_t index, char *to, size_t bytes);
const char *swi_knob_range(const swi_knob *knob);
void swi_knob_refuse(sw_model *model, uint32_t index, float value);
void swi_knob_accept(sw_model *model, uint32_t index);

/* SW_INVALID names a knob that was set to what cannot be. */
sw_status swi_knobs_check(const sw_model *model);

/* A step function uses the knob as that; SW_INVALID where its value cannot be. */
sw_status swi_knob_use(sw_knob knob, swi_knob_kind use);

/* The knobs as set are what the next run reads. */
void swi_knobs_changed(sw_model *model);
/* All of them: to floats that begin `each` bytes apart. */
void swi_knobs_set(sw_model *model, const void *values, size_t each);
/* SW_STALE where a run failed after an update. */
sw_status swi_model_whole(const sw_model *model);
sw_status swi_model_ready(sw_model *model, sw_exec *exec, uint64_t seed);
/* The bytes of a ready model as swi_model_ready made them, with the knobs as they are set.
 * Where it fails the model is damaged. */
sw_status swi_model_redraw(sw_model *model);

/* The entry that a handle names; NULL for none and for what the library keeps for itself. */
swi_entry *swi_entry_of(sw_param param);
/* An entry of the user's: parameter, buffer or state. */
uint32_t swi_model_entry(sw_model *model, const char *name, swi_role role, sw_dtype dtype,
                         sw_shape shape, const char *init); /* 0 on a kept error */

/* One float more in the block of knobs; UINT32_MAX on a kept error. */
uint32_t swi_model_knob(sw_model *model, const char *name, float value);
sw_status swi_declare_fail(sw_model *model, sw_status status, const char *format, ...)
    SW_PRINTF(3, 4);

/* Zeros, or what its initialiser says, into an entry of a model with memory. */
sw_status swi_init_entry(sw_model *model, const swi_entry *entry, uint64_t seed);

/* Names of models and their tensors in what people read of a run: reports, profiles, plans,
 * errors. In a run of one model they have their own names; of several, their model's name comes
 * first, so that two "fc1.weight" can be distinguished. */

#define SWI_LABEL_BYTES 80                      /* of a label, with its end */
#define SWI_SHOWN_BYTES (SWI_LABEL_BYTES + 112) /* of a tensor's name after it */

/* "" where `args` is NULL or has one model; else "teacher/", and "net#1/", "net#2/" of models
 * that share a name. Dots nest, as in scopes. */
const char *swi_model_label(const sw_run_args *args, const sw_model *model,
                            char to[SWI_LABEL_BYTES]);
/* The name of a tensor of a model: "fc1.weight", "teacher/fc1.weight". */
const char *swi_entry_shown(const sw_run_args *args, const sw_model *model, const char *name,
                            char to[SWI_SHOWN_BYTES]);
/* The layer that it belongs to: "conv1.weight" and "conv1.weight.momentum" to "conv1";
 * "block1.up.bias" to "block1/up", or "teacher/block1/up". */
const char *swi_entry_layer(const sw_run_args *args, const sw_model *model, const char *name,
                            char to[SWI_SHOWN_BYTES]);

/* The path of scopes that a name is: "block1.up" is in "block1/up". In place. */
void swi_path_of(char *name);

/* The bytes of a model, wherever they lie. Of a model in host memory they are passed as they
 * are; a device's go through a block of host memory of at most SWI_PIECE_BYTES, piece by piece
 * from the front, and after all that was launched on the card. The model is ready and the
 * caller has taken it; ranges are inside of it. */

#define SWI_PIECE_BYTES ((size_t)4 << 20) /* whole elements, and blocks of random numbers */

sw_status swi_model_read(const sw_model *model, void *to, size_t offset, size_t bytes);
sw_status swi_model_write(sw_model *model, size_t offset, const void *from, size_t bytes);
sw_status swi_model_zero(sw_model *model, size_t offset, size_t bytes);
/* Of models with one layout. A card that fails in the middle of it leaves `to` damaged. */
sw_status swi_model_copy_bytes(sw_model *to, const sw_model *from);

/* `n` bytes, which begin `at` bytes after the first one. */
typedef sw_status swi_take_piece(void *context, const void *bytes, size_t at, size_t n);
typedef sw_status swi_make_piece(void *context, void *bytes, size_t at, size_t n);
/* Give the bytes away, or have them made. A failure ends it; what was made before stays, and
 * the model is damaged where pieces of it were. */
sw_status swi_model_pour(const sw_model *model, size_t offset, size_t bytes,
                         swi_take_piece *take, void *context);
sw_status swi_model_fill(sw_model *model, size_t offset, size_t bytes, swi_make_piece *make,
                         void *context);
