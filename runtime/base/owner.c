/* Owners, and the calls of each thread.
 *
 * Stacks grow down. A call that goes on has its frame above all that it calls; where a frame at
 * the same place or above is entered anew, it is gone. So a longjmp to the function that called
 * sw_run, or to one outside of it, is noticed at its next call. A caller that goes deeper first
 * is taken for the step function itself, and refused with a message that says so. */
#include "runtime/exec/run_internal.h"

static _Thread_local sw_exec *innermost; /* that a call on this thread works with */

static uintptr_t me(void)
{
    static _Thread_local char here;
    return (uintptr_t)&here;
}

bool swi_owner_take(swi_owner *owner)
{
    swi_owner nobody = 0;
    return __atomic_compare_exchange_n(owner, &nobody, me(), false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

void swi_owner_give(swi_owner *owner)
{
    __atomic_store_n(owner, 0, __ATOMIC_RELEASE);
}

const char *swi_owner_text(const swi_owner *owner)
{
    return __atomic_load_n(owner, __ATOMIC_RELAXED) == me()
               ? "this thread: by a call that goes on, whose step function or visitor made "
                 "this one, or that longjmp left"
               : "another thread";
}

void swi_call_begin(sw_exec *exec, const void *frame)
{
    exec->frame = frame;
    exec->outer = innermost;
    innermost = exec;
}

void swi_call_end(sw_exec *exec)
{
    innermost = exec->outer;
    exec->outer = NULL;
    exec->frame = NULL;
}

/* What sw_run would have done behind the step function. */
static void leave(sw_exec *exec)
{
    if (exec->ctx.open && exec->ctx.immediate)
        swi_fp_leave(exec->fp);
    for (int i = 0; i < exec->n_held; i++) {
        exec->held[i]->damaged |= exec->ctx.open && exec->ctx.updated;
        swi_owner_give(&exec->held[i]->busy);
    }
    exec->n_held = 0;
    exec->ctx.open = false;
    exec->ctx.generation = 0;
    swi_exec_set_last(exec, NULL); /* nothing that is half done is handed out */
    exec->last_immediate = false;
    swi_call_end(exec);
    swi_owner_give(&exec->busy);
}

void swi_call_left(const void *frame)
{
    while (innermost != NULL && (uintptr_t)frame >= (uintptr_t)innermost->frame)
        leave(innermost);
}

bool swi_may_destroy(const char *call, const void *frame)
{
    swi_call_left(frame);
    if (innermost == NULL)
        return true;
    sw_ctx *ctx = &innermost->ctx;
    const sw_status status = sw_error_set(
        SW_INVALID, __FILE__, __LINE__,
        "%s: nothing must be destroyed in a step function or visitor; nothing was", call);
    if (ctx->open)
        (void)swi_stick(ctx, status);
    return false;
}

/* ---- runs -------------------------------------------------------------------------------- */

void swi_leave(sw_exec *exec, const sw_run_args *a)
{
    (void)a;
    for (int i = 0; i < exec->n_held; i++)
        swi_owner_give(&exec->held[i]->busy);
    exec->n_held = 0;
    swi_call_end(exec);
    swi_owner_give(&exec->busy);
}

static sw_status take_models(sw_exec *exec, const sw_run_args *a)
{
    for (int i = 0; i < a->n_models; i++) {
        if (!swi_owner_take(&a->models[i]->busy))
            SW_FAIL(SW_BUSY, "model %s is in use by %s", a->models[i]->name,
                    swi_owner_text(&a->models[i]->busy));
        exec->held[exec->n_held++] = a->models[i];
    }
    for (int i = 0; i < a->n_models; i++)
        SW_TRY(swi_model_layout(a->models[i]));
    return SW_OK;
}

/* What a process has of an exec that it was forked with: the memory, and no thread. */
static sw_status check_fork(const sw_exec *exec)
{
    if (exec->forks == sw_fork_number())
        return SW_OK;
    const char *why = exec->threads > 1           ? "its threads are the parent's"
                      : exec->device != NULL      ? "its device is the parent's"
                      : exec->rec.profile != NULL ? "its profile is the parent's"
                      : exec->busy != 0           ? "a thread of the parent was using it"
                                                  : NULL;
    if (why != NULL)
        SW_FAIL(SW_BUSY,
                "the exec was made before a fork, and %s: make an exec in the child, or fork "
                "before the exec is made",
                why);
    return SW_OK;
}

sw_status swi_enter(sw_exec *exec, const sw_run_args *a, const void *frame)
{
    swi_call_left(frame);
    SW_TRY(check_fork(exec));
    if (exec->rec.profile != NULL &&
        !sw_handle_is(exec->rec.profile, SW_HANDLE_PROFILE, exec->rec.profile_generation))
        SW_FAIL(SW_INVALID, "the exec's profile was destroyed: destroy the exec first");
    if (!swi_owner_take(&exec->busy))
        SW_FAIL(SW_BUSY, "the exec is in use by %s", swi_owner_text(&exec->busy));
    swi_call_begin(exec, frame);
    const sw_status status = take_models(exec, a);
    if (status != SW_OK)
        swi_leave(exec, a);
    return status;
}
