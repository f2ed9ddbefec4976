/* The calls of the library that go on on a thread while a callback of theirs runs, and the
 * objects that they use. A callback that asks such an object for what it must not do gets
 * SW_BUSY. Records lie with those who call: nothing is allocated. */
#ifndef SW_CALLS_H
#define SW_CALLS_H

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct sw_call sw_call;

/* Of calls whose callback may be left by longjmp: their records are where they outlive that. */
typedef struct {
    void (*unwound)(sw_call *call); /* by longjmp: give back what it owns, and end it */
    void (*refused)(sw_call *call, sw_status status); /* its step function fails by this */
} sw_call_hooks;

typedef struct {
    const void *const *at;
    size_t n;
} sw_call_objects;
/* One of them, by a pointer to it. */
#define SW_CALL_ONE(object)                                                                    \
    {                                                                                          \
        (const void *const *)(const void *)&(object), 1                                        \
    }

/* Zero at first, but for what the caller says. */
struct sw_call {
    const char *name, *callback; /* "sw_es_step", "shape"; callback NULL: any of them */
    sw_call_objects uses;        /* they are looked at, and nothing else */
    sw_call_objects keeps[2];    /* they are not destroyed */
    bool closed;                 /* nothing that runs need is destroyed: what they use
                                    is not known to its last object */
    const sw_call_hooks *hooks;  /* NULL: no longjmp */
    uint64_t said;               /* failures of the thread before it */
};

#define SW_FRAME __builtin_frame_address(0)
/* Of functions that begin a call as a part of another one, or check objects in one: their frame
 * is below its frame. */
#define SW_FRAME_OWN __attribute__((noinline))
/* Of inline functions: their frame is the caller's. */
#define SW_FRAME_CALLER __attribute__((always_inline))

extern _Thread_local int sw_calls_n; /* that go on on this thread; for sw_handle_check */

/* `call` goes on, in the function with this frame, and a callback may run. SW_BUSY where too
 * many are nested: a callback makes the call that it is called by. */
SW_MUST_USE sw_status sw_call_begin(sw_call *call, const void *frame);
/* `call` has ended. Returns the status of its callback: `status`, or SW_INVALID where that is
 * no sw_status. A failure without a reason gets one. */
sw_status sw_call_end(sw_call *call, sw_status status);
/* A status as a callback gave it. said: sw_error_count() before it was called. */
sw_status sw_call_status(sw_status status, uint64_t said, const char *who);
/* A function with this frame is called: calls on this thread with frames that are gone were
 * left by longjmp, or by an exception, out of a step function. All that they own is given back.
 */
void sw_call_unwound(const void *frame);

/* Whether `name` may use the object, which messages call `what`, for more than a look; whether
 * it may destroy it, which all calls that use or keep it forbid. Calls of other threads are not
 * asked. */
sw_status sw_call_may_use(const void *object, const char *what, const char *name);
sw_status sw_call_may_end(const void *object, const char *what, const char *name);
/* Whether anything that runs may go on with can be destroyed. Where not the step function that
 * tries it fails. */
sw_status sw_call_may_end_any(const char *name, const void *frame);

#endif
