/* Who listens to runs: profile, breakdown and NVTX register, and what runs names none of them.
 *
 * Each function may be NULL. Only what takes room before anything runs may fail: `attach`,
 * `prepare`, `push` and `op`. Observing itself cannot. An observer that is not asked for
 * returns at once; the runtime calls all of them in the order of their registration. */
#ifndef SW_RUN_RUN_OBSERVER_H
#define SW_RUN_RUN_OBSERVER_H

#include "runtime/stepwell.h"
#include <stdbool.h>

struct swi_frame;

typedef struct {
    const char *name;
    /* The exec has its arena, and nothing else yet. */
    sw_status (*attach)(sw_exec *exec, const sw_exec_opts *opts);
    /* The exec goes: while all of it is there; then after its programs, before its arena. */
    void (*close)(sw_exec *exec);
    void (*release)(sw_exec *exec);
    /* A model has its bytes, and nothing was written there yet. */
    void (*model)(sw_exec *exec, sw_model *model);
    /* A run begins at `start_ns`, before it is planned. */
    void (*begin)(sw_exec *exec, const sw_run_args *args, uint64_t start_ns);
    /* The program of the run, by its frame; it fits. */
    void (*plan)(sw_exec *exec, const sw_run_args *args, struct swi_frame *frame);
    /* Right before its first op; `frame` is NULL in immediate mode. */
    sw_status (*prepare)(sw_exec *exec, const sw_run_args *args, struct swi_frame *frame);
    /* Immediate mode: a storage gets its bytes, for a node (by their numbers in the trace); the
     * node runs next. */
    sw_status (*push)(sw_ctx *ctx, uint32_t storage, uint32_t node);
    sw_status (*op)(sw_ctx *ctx, uint32_t node);
    /* A storage of the trace that is being made gets another role (swi_role). */
    void (*role)(sw_ctx *ctx, uint32_t storage, uint32_t role);
    /* SW_NOMEM: a run (or, not running, a plan) was refused. The error stays as it is. */
    void (*denied)(sw_exec *exec, const sw_run_args *args, bool running);
    /* The run is over. */
    void (*end)(sw_exec *exec, const sw_run_args *args, bool went_well);
} swi_observer;

/* `observers` (n, at most SWI_OBSERVERS) are kept. */
#define SWI_OBSERVERS 8
void swi_observers_register(const swi_observer *const *observers, int n);

sw_status swi_observe_attach(sw_exec *exec, const sw_exec_opts *opts);
void swi_observe_close(sw_exec *exec);
void swi_observe_release(sw_exec *exec);
void swi_observe_model(sw_exec *exec, sw_model *model);
void swi_observe_begin(sw_exec *exec, const sw_run_args *args, uint64_t start_ns);
void swi_observe_plan(sw_exec *exec, const sw_run_args *args, struct swi_frame *frame);
sw_status swi_observe_prepare(sw_exec *exec, const sw_run_args *args, struct swi_frame *frame);
sw_status swi_observe_push(sw_ctx *ctx, uint32_t storage, uint32_t node);
sw_status swi_observe_op(sw_ctx *ctx, uint32_t node);
void swi_observe_role(sw_ctx *ctx, uint32_t storage, uint32_t role);
/* Reports a refusal and returns `status`; nothing for any other status. */
sw_status swi_observe_denied(sw_exec *exec, const sw_run_args *args, bool running,
                             sw_status status);
void swi_observe_end(sw_exec *exec, const sw_run_args *args, bool went_well);

#endif
