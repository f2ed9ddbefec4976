/* The list of observers, and the calls of each. */
#include "runtime/base/run_observer.h"
#include <stdio.h>

static const swi_observer *const *list;
static int n_list;

void swi_observers_register(const swi_observer *const *observers, int n)
{
    list = observers;
    n_list = n < SWI_OBSERVERS ? n : SWI_OBSERVERS;
}

/* Each observer that has the function. */
#define TELL(function, ...)                                                                    \
    for (int i = 0; i < n_list; i++)                                                           \
        if (list[i]->function != NULL)                                                         \
    list[i]->function(__VA_ARGS__)
#define ASK(function, ...)                                                                     \
    for (int i = 0; i < n_list; i++)                                                           \
        if (list[i]->function != NULL)                                                         \
            SW_TRY(list[i]->function(__VA_ARGS__));                                            \
    return SW_OK

sw_status swi_observe_attach(sw_exec *exec, const sw_exec_opts *opts)
{
    ASK(attach, exec, opts);
}

void swi_observe_close(sw_exec *exec)
{
    TELL(close, exec);
}

void swi_observe_release(sw_exec *exec)
{
    TELL(release, exec);
}

void swi_observe_model(sw_exec *exec, sw_model *model)
{
    TELL(model, exec, model);
}

void swi_observe_begin(sw_exec *exec, const sw_run_args *args, uint64_t start_ns)
{
    TELL(begin, exec, args, start_ns);
}

void swi_observe_plan(sw_exec *exec, const sw_run_args *args, struct swi_frame *frame)
{
    TELL(plan, exec, args, frame);
}

sw_status swi_observe_prepare(sw_exec *exec, const sw_run_args *args, struct swi_frame *frame)
{
    ASK(prepare, exec, args, frame);
}

sw_status swi_observe_push(sw_ctx *ctx, uint32_t storage, uint32_t node)
{
    ASK(push, ctx, storage, node);
}

sw_status swi_observe_op(sw_ctx *ctx, uint32_t node)
{
    ASK(op, ctx, node);
}

void swi_observe_role(sw_ctx *ctx, uint32_t storage, uint32_t role)
{
    TELL(role, ctx, storage, role);
}

sw_status swi_observe_denied(sw_exec *exec, const sw_run_args *args, bool running,
                             sw_status status)
{
    char message[512];
    if (status != SW_NOMEM)
        return status;
    snprintf(message, sizeof message, "%s", sw_last_error());
    TELL(denied, exec, args, running);
    return sw_error_set(status, __FILE__, __LINE__, "%s", message);
}

void swi_observe_end(sw_exec *exec, const sw_run_args *args, bool went_well)
{
    TELL(end, exec, args, went_well);
}
