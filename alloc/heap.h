/* The one way down to the host heap, for mem.c and claims.c. Zeroed blocks, aligned to 16. */
#ifndef SW_HEAP_H
#define SW_HEAP_H

#include "alloc/mem.h"

void *swi_heap_take(sw_heap heap, size_t bytes);
void swi_heap_give(sw_heap heap, void *block, size_t bytes);
const char *swi_heap_backend(void);

/* The address ranges that the backend has mapped for our purposes, where it can tell them from
 * others; and how much it has mapped besides (0: it cannot say). */
void swi_heap_ranges(void (*visit)(void *context, sw_heap heap, uintptr_t base, size_t bytes),
                     void *context);
size_t swi_heap_unclaimed_bytes(void);

#endif
