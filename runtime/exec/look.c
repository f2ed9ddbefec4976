/* Plans that are looked at once and not kept. */
#include "runtime/exec/run_internal.h"

static sw_status look(sw_exec *exec, const sw_run_args *args, sw_plan_info *out)
{
    swi_program *p;
    SW_TRY(swi_exec_trace(exec, args));
    SW_TRY(swi_program_create(&p, &exec->ctx, SIZE_MAX));
    *out = p->info;
    swi_program_free(p);
    return SW_OK;
}

/* Scratch is planned for as many threads as the exec is said to have; that it runs with others
 * is nothing to a plan that never runs. */
sw_status swi_exec_look(sw_exec *exec, const sw_run_args *args, int threads, sw_plan_info *out)
{
    const int own = exec->target.threads;
    exec->target.threads = threads;
    const sw_status status = look(exec, args, out);
    exec->target.threads = own;
    if (!exec->checks) /* those trace before each run */
        swi_ctx_free(&exec->ctx);
    return status;
}
