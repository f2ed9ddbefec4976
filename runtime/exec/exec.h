/* Execs: keys and programs, the step arena, what a run leaves. A run binds the segments of a
 * program; immediate mode uses the same trace and executes each node as it is appended. */
#pragma once

#include "alloc/arena/arena.h"
#include "alloc/base/handle.h"
#include "kernels/launch.h"
#include "profiler/record/watch.h"
#include "runtime/base/run_observer.h"
#include "runtime/plan/frame.h"
#include "runtime/stepwell.h"

/* Checks of what a kernel does, while it runs: execs with checks, and debug builds. */

typedef struct swi_guard swi_guard;

SW_MUST_USE sw_status swi_guard_create(swi_guard **out);
void swi_guard_destroy(swi_guard *guard);
struct swi_program;
/* Room for all ops of a program, so that its runs ask for none. */
SW_MUST_USE sw_status swi_guard_reserve(swi_guard *guard, const struct swi_program *program);
/* Run a kernel with its outputs and scratch between bands, in a room of the guard's own; what
 * it wrote is then copied to where it belongs. SW_INVALID names the operand and the byte where
 * it wrote before or past an output or its scratch, into an input, or left a whole output
 * unwritten: then nothing is copied. */
SW_MUST_USE sw_status swi_guarded(swi_guard *guard, sw_kernel *kernel, const sw_launch *launch);

/* ---- history ----------------------------------------------------------------------------- */

/* Results of the last runs of an exec: their metrics, and what they measured. On a device a run
 * may still go on when sw_run returns: then these wait to be read. */

#define SWI_HISTORY 4

typedef struct {
    char name[48];
    double value;
} swi_history_metric;

typedef struct {
    bool there; /* it went well */
    bool waits; /* on a device: values and times are not read yet */
    uint32_t n;
    swi_history_metric *metrics;
    sw_run_info info;
} swi_history_run;

typedef struct {
    swi_history_run run[SWI_HISTORY]; /* run k of the exec is at k % SWI_HISTORY */
    swi_history_metric *metrics;      /* of all, `cap` for each */
    uint32_t cap;
    uint64_t n; /* runs that began */
} swi_history;

/* That of `ago` runs ago; NULL: there was none. */
swi_history_run *swi_history_at(swi_history *history, int ago);
/* The value of a metric of this run; NULL: it has no such metric. */
const double *swi_history_metric_of(const swi_history_run *run, const char *name);

/* Begin and end a trace of `args` in exec->ctx; the step function runs in between. */
sw_status swi_ctx_begin(sw_exec *exec, const sw_run_args *args, bool immediate);
sw_status swi_ctx_end(sw_ctx *ctx);
void swi_ctx_free(sw_ctx *ctx);

typedef struct {
    uint64_t hash;
    uint64_t used; /* exec->clock of the last use */
    size_t bytes;
    unsigned char *key;
    swi_alive **lives; /* of its models; in the block of the key */
    uint32_t n_lives;
    uint32_t frame;
} swi_key;
typedef struct swi_queue swi_queue;               /* runtime/exec/queue.h */
typedef struct swi_exec_backend swi_exec_backend; /* runtime/exec/backend.h */

/* The state of an exec's records in its profile. */
#define SWI_MAX_TRACES 64

typedef struct {
    sw_profile *profile;             /* NULL: none */
    uint32_t profile_generation;     /* of its handle when it joined */
    uint32_t number;                 /* as sw_prof_join gave it */
    sw_record_log *log;              /* NULL: no events */
    uint64_t steps, evals;           /* that began; the runs of a step count once */
    uint64_t start_ns;               /* of the run */
    bool sampled_out;                /* the run is counted and has no records */
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
    const swi_exec_backend *backend;
    swi_queue *queue; /* its work on a card; NULL: it has none */
    swi_guard *guard; /* around each kernel of the CPU; NULL: none */
    sw_arena *arena;
    sw_watch watch;                    /* listens to the arena */
    sw_nvtx_table immediate_names;     /* for an NVTX tool, of the immediate run */
    size_t nvtx_base[SWI_ROLE_COUNT];  /* what lives all the time, by role */
    swi_breakdown immediate_breakdown; /* of the last immediate run: what lived before it */
    swi_breakdown witness_breakdown;   /* by the last access witness */
    sw_pool *pool;
    sw_ctx ctx;         /* reused for every trace */
    swi_frame **frames; /* its programs, each in a frame; NULL where one went */
    uint32_t n_frames, cap_frames;
    swi_key *keys;
    uint32_t n_keys, cap_keys;
    uint32_t next_key;    /* where a lookup begins */
    uint64_t lives_ended; /* as swi_alive_ended said when keys were looked through last */
    uint64_t clock;
    uint32_t next_program_id;
    swi_owner busy;
    sw_call call;    /* that uses it */
    const sw_es *es; /* of that call: longjmp may leave it, and its frame with the arguments */
    sw_model *held[SWI_MAX_MODELS];
    int n_held;
    uint32_t forks; /* sw_fork_number of the process that made it */
    uint32_t fp;    /* of the immediate run that goes on: the caller's floating-point word */
    bool reset_pending;      /* outputs of the last run are still in the arena */
    const swi_program *last; /* of the last run */
    swi_frame *last_frame;   /* its frame */
    swi_frame *attempt;      /* that the present call is about; NULL: none yet */
    bool push_refused;       /* the present run in immediate mode got no bytes for a storage */
    bool last_immediate;
    sw_run_info info;          /* of the run that goes on */
    swi_history history;       /* of the last runs */
    swi_trace immediate_trace; /* of the last immediate run: names and places of what left it */
    uint64_t *op_ns;
    uint32_t cap_op_ns;
    void *key_scratch;
    size_t cap_key_scratch;
    size_t arena_limit; /* of programs that are planned now, beside the budget's; 0: none */
    struct swi_member_pool
        *member_pool; /* of members (population/member_pool.h), which are to end first */
};

/* SW_INVALID where steps of so many shards (0: as many as ranks) cannot be shared out. */
sw_status swi_shards_check(int shards, int ranks);
/* sw_exec_create. */
sw_status swi_exec_create(sw_exec **out, const sw_exec_opts *opts);

/* An exec of options that are read, on a device that is open (a share of it is taken). */
sw_status swi_exec_create_on(sw_exec **out, const sw_exec_opts *opts,
                             const swi_exec_backend *backend, swi_device *device);
/* One of the library's own, whatever callback runs; NULL: nothing. */
void swi_exec_free(sw_exec *exec);

/* The seed of a run's random ops: that of the noise, where it has some. */
static inline uint64_t swi_run_seed(const sw_exec *exec, const sw_run_args *args)
{
    return args->es != NULL ? swi_noise_mode_of(args->es)->seed : exec->seed;
}

/* Find or make the program of these arguments, in its frame; *fresh: this call traced. */
sw_status swi_exec_program(sw_exec *exec, const sw_run_args *args, swi_frame **out,
                           bool *fresh);

/* Run the step function with these arguments for the trace of exec->ctx. */
sw_status swi_exec_trace(sw_exec *exec, const sw_run_args *args);

/* Trace and plan these arguments as an exec of `threads` threads without a budget would, and
 * keep nothing of it: neither key nor program. The exec is entered. */
sw_status swi_exec_look(sw_exec *exec, const sw_run_args *args, int threads, sw_plan_info *out);

/* A frame that was held (refs) is needed no more. */
void swi_exec_drop_frame(sw_exec *exec, swi_frame *frame);

/* Around each op of a run; any may be NULL. */
typedef struct {
    void *context;
    sw_status (*before)(void *context, uint32_t op);
    sw_status (*after)(void *context, uint32_t op);
    bool together; /* ops that a run does together are one launch here too */
} swi_hooks;

/* Run the program of a frame op by op with a binding of the caller's: base[segment] +
 * binds[k].offset. Neither arena nor profiler learns of it; used by the witnesses. *updated (or
 * NULL) says whether an update ran. */
sw_status swi_program_execute(sw_exec *exec, swi_frame *frame, const sw_run_args *args,
                              unsigned char *const *base, const swi_bind *binds,
                              const swi_hooks *hooks, bool *updated);
