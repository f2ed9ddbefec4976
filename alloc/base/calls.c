/* The calls of each thread, the innermost first.
 *
 * Stacks grow down. A call that goes on has its frame above all that it calls; where a frame at
 * the same place or above is entered anew, it is gone. So a longjmp to the function that called
 * sw_run, or to one outside of it, is noticed at its next call. A caller that goes deeper first
 * is taken for the step function itself, and refused with a message that says so. */
#include "alloc/base/calls.h"
#include "alloc/base/assert.h"
#include "alloc/base/error.h"

#define MOST 32 /* programs nest two or three */

_Thread_local int sw_calls_n;
static _Thread_local struct {
    sw_call *call;
    const void *frame;
    const sw_call_hooks *hooks; /* records without any may be gone with their frame */
} calls[MOST];                  /* the innermost is the last */

sw_status sw_call_begin(sw_call *call, const void *frame)
{
    sw_call_unwound(frame);
    if (sw_calls_n == MOST)
        SW_FAIL(SW_BUSY, "%s: %d calls go on, each made by a callback of the one before",
                call->name, MOST);
    call->said = sw_error_count();
    calls[sw_calls_n].call = call;
    calls[sw_calls_n].hooks = call->hooks;
    calls[sw_calls_n++].frame = frame;
    return SW_OK;
}

/* Of "WHO", or "CALL: WHO". */
static sw_status judge(sw_status status, uint64_t said, const char *call, const char *who)
{
    if ((unsigned)status > SW_STOPPED)
        SW_FAIL(SW_INVALID, "%s%s%s must return an sw_status (got %d)", call,
                call[0] != '\0' ? ": " : "", who, (int)status);
    if (status != SW_OK && sw_error_count() == said)
        SW_FAIL(status, "%s%s%s failed (%s) and gave no reason: set one by sw_error_set", call,
                call[0] != '\0' ? ": " : "", who, sw_status_name(status));
    return status;
}

sw_status sw_call_status(sw_status status, uint64_t said, const char *who)
{
    return judge(status, said, "", who);
}

sw_status sw_call_end(sw_call *call, sw_status status)
{
    int i = sw_calls_n;
    while (i > 0 && calls[i - 1].call != call)
        i--;
    SW_ASSERT(i > 0 && i == sw_calls_n);
    sw_calls_n = i > 0 ? i - 1 : sw_calls_n; /* one that is not there ends no other */
    return call->callback != NULL ? judge(status, call->said, call->name, call->callback)
                                  : status;
}

void sw_call_unwound(const void *frame)
{
    while (sw_calls_n > 0 && (uintptr_t)frame >= (uintptr_t)calls[sw_calls_n - 1].frame)
        if (calls[sw_calls_n - 1].hooks != NULL)
            calls[sw_calls_n - 1].hooks->unwound(calls[sw_calls_n - 1].call);
        else
            sw_calls_n--;
}

/* ---- objects ----------------------------------------------------------------------------- */

static bool has(const sw_call_objects *list, const void *object)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i] == object)
            return true;
    return false;
}

static sw_status refuse(const sw_call *c, const char *what, const char *name)
{
    SW_FAIL(SW_BUSY, "%s: the %s is in use by %s, whose %s made this call", name, what, c->name,
            c->callback != NULL ? c->callback : "callback");
}

sw_status sw_call_may_use(const void *object, const char *what, const char *name)
{
    for (int i = sw_calls_n; i-- > 0;)
        if (has(&calls[i].call->uses, object))
            return refuse(calls[i].call, what, name);
    return SW_OK;
}

sw_status sw_call_may_end(const void *object, const char *what, const char *name)
{
    for (int i = sw_calls_n; i-- > 0;) {
        const sw_call *c = calls[i].call;
        if (has(&c->uses, object) || has(&c->keeps[0], object) || has(&c->keeps[1], object))
            return refuse(c, what, name);
    }
    return SW_OK;
}

sw_status sw_call_may_end_any(const char *name, const void *frame)
{
    sw_call_unwound(frame);
    int i = sw_calls_n;
    while (i > 0 && !calls[i - 1].call->closed)
        i--;
    if (i == 0)
        return SW_OK;
    sw_call *c = calls[i - 1].call;
    const sw_status status = sw_error_set(
        c->hooks != NULL ? SW_INVALID : SW_BUSY, __FILE__, __LINE__,
        "%s: nothing must be destroyed in a step function, a visitor or a callback of members; "
        "nothing was",
        name);
    if (c->hooks != NULL)
        c->hooks->refused(c, status);
    return status;
}
