/* Owners. */
#include "runtime/base/owner.h"

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
