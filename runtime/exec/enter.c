/* The state of a call while it works with an exec: the exec and the models of the call. */
#include "runtime/exec/run_internal.h"

static sw_exec *exec_of(sw_call *call)
{
    return (sw_exec *)(void *)((char *)call - offsetof(sw_exec, call));
}

/* Do what sw_run would have done after the step function. */
static void unwound(sw_call *call)
{
    sw_exec *exec = exec_of(call);
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
    (void)sw_call_end(&exec->call, SW_OK);
    swi_owner_give(&exec->busy);
}

static void refused(sw_call *call, sw_status status)
{
    sw_ctx *ctx = &exec_of(call)->ctx;
    if (ctx->open)
        (void)swi_stick(ctx, status);
}

static const sw_call_hooks hooks = {unwound, refused};

void swi_leave(sw_exec *exec, const sw_run_args *a)
{
    (void)a;
    for (int i = 0; i < exec->n_held; i++)
        swi_owner_give(&exec->held[i]->busy);
    exec->n_held = 0;
    (void)sw_call_end(&exec->call, SW_OK);
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

/* A forked process has the memory of an exec that was made before, and none of its threads. */
static sw_status check_fork(const sw_exec *exec)
{
    if (exec->forks == sw_fork_number())
        return SW_OK;
    const char *why = exec->target.threads > 1 ? "its threads are the parent's"
                      : !exec->target.device->backend->survives_fork
                          ? "its device is the parent's"
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
    sw_call_unwound(frame);
    SW_TRY(check_fork(exec));
    if (exec->rec.profile != NULL &&
        !sw_handle_is(exec->rec.profile, SW_HANDLE_PROFILE, exec->rec.profile_generation))
        SW_FAIL(SW_INVALID, "the exec's profile was destroyed: destroy the exec first");
    if (!swi_owner_take(&exec->busy))
        SW_FAIL(SW_BUSY, "the exec is in use by %s", swi_owner_text(&exec->busy));
    exec->es = a->es;
    exec->call = (sw_call){
        .name = "a run", .uses = SW_CALL_ONE(exec->es), .closed = true, .hooks = &hooks};
    sw_status status = sw_call_begin(&exec->call, frame);
    if (status != SW_OK) {
        swi_owner_give(&exec->busy);
        return status;
    }
    status = take_models(exec, a);
    if (status != SW_OK)
        swi_leave(exec, a);
    return status;
}
