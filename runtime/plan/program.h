/* Programs: the flat list of ops with planned storages that a finished trace leaves. A program
 * holds no address: each storage lies in a segment (step arena, input i, model i) at an offset,
 * and a run binds segments. A program is const once it is planned; what runs write is in a
 * frame (frame.h). */
#pragma once

#include "alloc/base/base.h"
#include "profiler/record/watch.h"
#include "runtime/graph/trace.h"
#include "runtime/ops/fused.h"

/* A trace as its differences from another one, without loss. */

struct swi_trace;

/* {0}: none. */
typedef struct {
    uint32_t *words;
    size_t n;
    uint32_t count[9]; /* elements of each array */
} swi_packed;

/* ---- cost -------------------------------------------------------------------------------- */

/* The cost of one run of a node, by types and attributes alone: the same on every machine and
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
    uint32_t n_reuses;         /* after them: born in the place of another */
    uint32_t deaths, n_deaths; /* into program->deaths */
    uint32_t like;             /* its template in a frame */
    sw_phase phase;
    bool is_update;
    uint8_t together; /* not 0: it runs with the op `apart` after it, channel by channel, which
                         then runs nothing: a place in swi_fused_kernels */
    uint8_t apart, ran; /* ran: how far in front the op is that it runs with */
    size_t scratch_bytes;
    const void *attrs;
    const sw_cuda_fusion *fusion; /* not NULL: it is launched with the next op, which then
                                 launches nothing */
    uint32_t left; /* ops after it that go out in one launch with it: sw_cuda_group */
} swi_run_op;

/* Bytes by role and by layer: runtime/observe/observe.h. */
typedef struct {
    char name[SWI_MAX_SCOPE]; /* role or layer */
    size_t base;              /* there from the beginning to the end: models and inputs */
    size_t live;              /* now, base included */
    size_t at_peak;           /* when all together were at their most */
    size_t peak;              /* at its own most */
} swi_breakdown_line;

typedef struct {
    swi_breakdown_line *lines; /* all roles, "" and the other layers; none: not counted */
    uint32_t n, cap;
    uint32_t found; /* the layer that was looked for last: the next is the same or near */
    size_t live, peak;
} swi_breakdown;
void swi_breakdown_free(swi_breakdown *breakdown); /* leaves it empty */

typedef struct swi_program {
    swi_trace trace;   /* compact copy, owned */
    swi_trace plain;   /* while it is made: as it was traced; empty where that is the same */
    swi_packed traced; /* the same, once it is made: swi_program_traced */
    uint32_t id;       /* in its exec */
    uint64_t hash;
    swi_run_op *ops; /* in run order, views left out */
    uint32_t n_ops;
    swi_bind *binds; /* as planned; n_binds = operands + one scratch slot per op */
    uint32_t n_binds;
    uint32_t n_templates; /* of the frames of its execs */
    uint32_t n_template_buffers;
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
    size_t heap_bytes[10];
} swi_program;

static inline const swi_node *swi_node_of(const swi_program *p, uint32_t op)
{
    return &p->trace.nodes[p->ops[op].node];
}

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

/* Bytes of the host's heap that it takes, with its frame in one exec. */
/* Bytes that each of so many ranks sends: swi_run_sent. */
uint64_t swi_program_sent(const swi_program *program, int ranks);
size_t swi_program_host_bytes(const swi_program *program);
void swi_program_free(swi_program *program);
void swi_program_bind(swi_program *program); /* binds, births, deaths from storages */
void swi_program_fuse_launches(swi_program *program,
                               const sw_exec *exec); /* launches of ops together */
void swi_program_layers(swi_program *program);       /* layers and phases of its ops */
void swi_program_measure(swi_program *program);      /* info from lifetimes */
void swi_program_name_holders(swi_program *program, const sw_run_args *args);

/* Figures of the program's plan with data_bytes as given by the caller. */
void swi_plan_info(const swi_program *program, size_t data_bytes, sw_plan_info *out);

/* The position of the op that makes a storage: that of its birth, or the one which runs
 * together with that. */
uint32_t swi_made_at(const swi_program *program, uint32_t storage);

/* A name for reports: the given one, else layer, op and what it is. */
const char *swi_storage_name(const swi_trace *trace, uint32_t storage, char *to, size_t bytes);
const char *swi_node_name(const swi_trace *trace, const swi_node *node, char *to, size_t bytes);
/* The last error, of its kernel or for it, with that name in front: once, where the kernel says
 * its op's too. Returns `status`. */
sw_status swi_node_failed(const swi_trace *trace, const swi_node *node, sw_status status);

/* The same where the node that makes it may be known already (NULL: look for it). */
const char *swi_made_name(const swi_trace *trace, uint32_t storage, const swi_node *node,
                          char *to, size_t bytes);

/* A copy that tests may plant faults in; same plan. */
sw_status swi_program_clone(swi_program **out, const swi_program *program);
