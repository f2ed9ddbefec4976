/* Who uses an exec or a model: one thread at a time, and which. */
#ifndef SW_OWNER_H
#define SW_OWNER_H

#include "alloc/base/base.h"
#include <stdbool.h>

/* 0: no one. Else a number of the thread. */
typedef uintptr_t swi_owner;

bool swi_owner_take(swi_owner *owner);
void swi_owner_give(swi_owner *owner);
/* "another thread", or this one. */
const char *swi_owner_text(const swi_owner *owner);

#endif
