/* Owners, and the calls of each thread.
 *
 * Stacks grow down. A call that goes on has its frame above all that it calls; where a frame at
 * the same place or above is entered anew, it is gone. So a longjmp to the function that called
 * sw_run, or to one outside of it, is noticed at its next call. A caller that goes deeper first
 * is taken for the step function itself, and refused with a message that says so. */
#include "runtime/base/owner.h"

static _Thread_local swi_call *innermost; /* that goes on on this thread */

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

void swi_call_begin(swi_call *call, const swi_call_hooks *hooks, const void *frame)
{
    call->hooks = hooks;
    call->frame = frame;
    call->outer = innermost;
    innermost = call;
}

void swi_call_end(swi_call *call)
{
    innermost = call->outer;
    call->outer = NULL;
    call->frame = NULL;
}

void swi_call_unwound(const void *frame)
{
    while (innermost != NULL && (uintptr_t)frame >= (uintptr_t)innermost->frame)
        innermost->hooks->unwound(innermost);
}

bool swi_may_destroy(const char *name, const void *frame)
{
    swi_call_unwound(frame);
    if (innermost == NULL)
        return true;
    const sw_status status = sw_error_set(
        SW_INVALID, __FILE__, __LINE__,
        "%s: nothing must be destroyed in a step function or visitor; nothing was", name);
    innermost->hooks->refused(innermost, status);
    return false;
}
