/* Who uses an exec or a model: one thread at a time, and which. */
#ifndef SW_OWNER_H
#define SW_OWNER_H

#include "alloc/base/base.h"
#include <stdbool.h>

/* 0: nobody. Else a number of the thread. */
typedef uintptr_t swi_owner;

bool swi_owner_take(swi_owner *owner);
void swi_owner_give(swi_owner *owner);
/* "another thread", or this one. */
const char *swi_owner_text(const swi_owner *owner);

/* A call that works with an exec, on this thread, in the function with this frame. Such calls
 * nest: a step function may run another exec. */
typedef struct swi_call swi_call;
typedef struct {
    void (*unwound)(swi_call *call); /* by longjmp: give back what it owns, and end it */
    void (*refused)(swi_call *call, sw_status status); /* its step function fails by this */
} swi_call_hooks;
struct swi_call {
    const swi_call_hooks *hooks;
    const void *frame;
    swi_call *outer; /* the call around it, on the same thread; NULL: none */
};
void swi_call_begin(swi_call *call, const swi_call_hooks *hooks, const void *frame);
void swi_call_end(swi_call *call);
/* A function with this frame is called: calls on this thread whose frames are not there any
 * more were left by longjmp, or by an exception, out of a step function. What they own is given
 * back; the models of an immediate run that had updated are damaged. */
void swi_call_unwound(const void *frame);
/* May something be destroyed now? Not while a call works with an exec on this thread: what is
 * destroyed in a step function may be what the run goes on with. Nothing is destroyed then, and
 * the run is SW_INVALID. */
bool swi_may_destroy(const char *name, const void *frame);

#define SWI_FRAME __builtin_frame_address(0)

#endif
