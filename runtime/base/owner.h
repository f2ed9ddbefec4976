/* Who uses an exec or a model: one thread at a time, and which. */
#ifndef SW_OWNER_H
#define SW_OWNER_H

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct sw_exec sw_exec;

/* 0: nobody. Else a number of the thread. */
typedef uintptr_t swi_owner;

bool swi_owner_take(swi_owner *owner);
void swi_owner_give(swi_owner *owner);
/* "another thread", or this one. */
const char *swi_owner_text(const swi_owner *owner);

/* A call that works with an exec has begun on this thread, in the function with this frame, or
 * ends. Such calls nest: a step function may run another exec. */
void swi_call_begin(sw_exec *exec, const void *frame);
void swi_call_end(sw_exec *exec);
/* A function with this frame is called: calls on this thread whose frames are not there any
 * more were left by longjmp, or by an exception, out of a step function. What they own is given
 * back; the models of an immediate run that had updated are damaged. */
void swi_call_left(const void *frame);
/* May something be destroyed now? Not while a call works with an exec on this thread: what is
 * destroyed in a step function may be what the run goes on with. Nothing is destroyed then, and
 * the run is SW_INVALID. */
bool swi_may_destroy(const char *call, const void *frame);

#define SWI_FRAME __builtin_frame_address(0)

#endif
