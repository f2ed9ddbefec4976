/* Who listens to runs: profile, breakdown and NVTX. The code of runs names none of them.
 *
 * Each function may be NULL. Only what takes room before anything runs may fail: `attach`,
 * `prepare`, `push` and `op`. Observing itself cannot. An observer that is not asked for
 * returns at once; the runtime calls all of them in the order of the list. */
#pragma once

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

/* The observers in their order, then NULL; library.c sets it. */
extern const swi_observer *const *swi_observers;

/* Calls this function of each observer that has it. */
#define SWI_TELL(function, ...)                                                                \
    for (const swi_observer *const *o_ = swi_observers; *o_ != NULL; o_++)                     \
        if ((*o_)->function != NULL)                                                           \
    (*o_)->function(__VA_ARGS__)
/* The same where it may fail: the caller returns the first status that is not SW_OK. */
#define SWI_ASK(function, ...)                                                                 \
    for (const swi_observer *const *o_ = swi_observers; *o_ != NULL; o_++)                     \
        if ((*o_)->function != NULL)                                                           \
            SW_TRY((*o_)->function(__VA_ARGS__))
