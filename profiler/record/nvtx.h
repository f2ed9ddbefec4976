/* NVTX, in its only place: ranges, marks, counters and memory of one domain, "stepwell".
 *
 * A tool (Nsight Systems, compute-sanitizer, a test's recorder) attaches itself when the first
 * call is made, if it is named in the environment or linked in; nothing that comes later can
 * change that. Extensions attach one by one: a tool that takes no counters answers 0 for one,
 * a tool that takes no memory NULL for a heap, and their calls need not be made then. Where the
 * headers were not there at build time no one ever attaches.
 *
 * Ranges nest and belong to the calling thread. Bytes are payloads: unsigned, 64 bits. */
#pragma once

#include "alloc/arena/observer.h"
#include "profiler/record/prof.h"

/* Named in the domain as written here. */
#define SW_NVTX_CATEGORIES(X)                                                                  \
    X(STEP, "step")                                                                            \
    X(PHASE, "phase")                                                                          \
    X(LAYER, "layer")                                                                          \
    X(OP, "op")                                                                                \
    X(MEMORY, "memory")
#define SW_NVTX_CATEGORY_ENUM(id, name) SW_NVTX_IN_##id,
typedef enum {
    SW_NVTX_IN_NONE,
    SW_NVTX_CATEGORIES(SW_NVTX_CATEGORY_ENUM) SW_NVTX_IN_COUNT
} sw_nvtx_category;

/* A text that is registered once and used often; it outlives what is said with it. The handle
 * may be NULL: then the text goes along. */
typedef struct {
    const void *handle;
    const char *text;
} sw_nvtx_name;

/* Is the domain somebody's? The first call lets a tool attach; any thread may make it. A tool
 * for memory alone may answer no here and yet take heaps. */
bool sw_nvtx_attached(void);

void sw_nvtx_begin(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes);
void sw_nvtx_end(void);
void sw_nvtx_mark(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes);

/* A counter in bytes, for good; 0: the tool takes none. Both texts are copied by the tool. */
uint64_t sw_nvtx_counter(const char *name, const char *about);

/* A range of addresses of which only what lies in a region may be touched; NULL: the tool takes
 * none. Names of memory are at most SW_NVTX_MEMORY_NAME printable ASCII characters, which is
 * what compute-sanitizer shows. */
#define SW_NVTX_MEMORY_NAME 49
void *sw_nvtx_heap(const char *name, const void *base, size_t bytes);
void sw_nvtx_heap_end(void *heap); /* NULL is fine */
void sw_nvtx_region(void *heap, const char *name, const void *at, size_t bytes);

/* ---- an exec ----------------------------------------------------------------------------- */

/* Reports of an exec to an NVTX tool while it runs: ranges for the step, its phases, and as the
 * level says layers and ops, each with the bytes that live where it begins (an op's own tensors
 * included); live bytes by role and the peak, as counters where the tool takes them and as
 * marks at the end of each phase; the step arena as a heap whose live tensors are regions.
 *
 * There is none of these where no tool is attached, so that a run then pays for looking at a
 * NULL. Names are registered when they first appear: what runs again takes no memory. One
 * thread at a time, as the exec; ranges are that thread's. */

#define SW_NVTX_MAX_ROLES 16
#define SW_NVTX_MAX_DEPTH 128 /* scopes that are open at once */

typedef struct sw_nvtx_run sw_nvtx_run;

/* Names of one program, or of a trace as far as it is known. */
typedef struct {
    const sw_nvtx_name *name;
    uint32_t scope, n_scopes; /* into scopes, from the outside in */
} sw_nvtx_op;
typedef struct {
    const sw_nvtx_name *name; /* for memory */
    size_t bytes;             /* without padding */
    uint32_t role;
} sw_nvtx_tensor;
typedef struct {
    sw_nvtx_op *ops;
    sw_nvtx_tensor *tensors; /* by storage */
    const sw_nvtx_name **scopes;
    uint32_t n_ops, cap_ops, n_tensors, cap_tensors, n_scopes, cap_scopes;
} sw_nvtx_table;
void sw_nvtx_table_free(sw_nvtx_table *table); /* leaves it empty */
/* A name as memory has it, its end where it is too long; to: SW_NVTX_MEMORY_NAME + 1 bytes. */
const char *sw_nvtx_memory_name(const char *text, char *to);

typedef struct {
    bool layers, ops; /* ranges for them too */
    const void *base; /* of the step arena, and what is reserved there; NULL: it is nowhere yet,
                         and no heap */
    size_t bytes;
    const char *const *roles; /* n_roles of them; kept */
    uint32_t n_roles;
} sw_nvtx_opts;

/* *out is NULL, and all is well, when no tool is attached. */
SW_MUST_USE sw_status sw_nvtx_run_create(sw_nvtx_run **out, const sw_nvtx_opts *opts);
void sw_nvtx_run_destroy(sw_nvtx_run *run); /* NULL is fine; tables must not be used any more */
/* Does the tool take memory? */
bool sw_nvtx_run_has_heap(const sw_nvtx_run *run);
/* Is each op to have its range? */
bool sw_nvtx_run_has_ops(const sw_nvtx_run *run);
/* Receives the name of a text, registered once; of memory: cut and cleaned as its names are. */
SW_MUST_USE sw_status sw_nvtx_run_name(sw_nvtx_run *run, const char *text, bool memory,
                                       const sw_nvtx_name **out);

/* Before a run: whose names count, and what lives all the time, n_roles of them. Both are
 * borrowed until the next call. */
void sw_nvtx_run_prepare(sw_nvtx_run *run, const sw_nvtx_table *table, const size_t *base,
                         bool training);
/* The edges of a run. live: all bytes that live now. */
void sw_nvtx_run_begin(sw_nvtx_run *run, size_t live);
void sw_nvtx_run_phase(sw_nvtx_run *run, int phase, size_t live);
void sw_nvtx_run_phase_end(sw_nvtx_run *run, int phase, size_t live, size_t peak);
void sw_nvtx_run_op(sw_nvtx_run *run, uint32_t op, size_t live); /* its tensors are born */
void sw_nvtx_run_op_end(sw_nvtx_run *run, size_t live);          /* those that die are dead */
void sw_nvtx_run_end(sw_nvtx_run *run, size_t live);
/* Of the step arena; id is the storage. */
void sw_nvtx_run_event(sw_nvtx_run *run, const sw_event *event, uint32_t id);
/* A tensor that lives plays another role from now on; the table is the caller's to change. */
void sw_nvtx_run_recast(sw_nvtx_run *run, uint32_t from, uint32_t to, size_t bytes);
