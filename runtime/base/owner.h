/* Who uses an exec or a model: one thread at a time, and which. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

/* 0: no one. Else a number of the thread. */
typedef uintptr_t swi_owner;

bool swi_owner_take(swi_owner *owner);
void swi_owner_give(swi_owner *owner);
/* "another thread", or this one. */
const char *swi_owner_text(const swi_owner *owner);

/* Whether a model is still there, for those that remember it by more than a pointer: keys of
 * execs, which may belong to another thread than the model. A life is ended once, by whom it
 * belongs to, and stays readable as long as somebody holds it. Thread-safe. */

typedef struct swi_alive swi_alive;

/* The caller holds it until it ends it. */
SW_MUST_USE sw_status swi_alive_begin(swi_alive **out);
void swi_alive_end(swi_alive *life); /* NULL is fine */
void swi_alive_hold(swi_alive *life);
void swi_alive_drop(swi_alive *life);
bool swi_alive_has_ended(const swi_alive *life);
/* How many have ended so far in the process: as long as it stays, none has. */
uint64_t swi_alive_ended(void);
