/* The one way down to the host heap; mem.c is its only caller. Zeroed blocks, aligned to 16. */
#ifndef SW_HEAP_H
#define SW_HEAP_H

#include "alloc/mem.h"

void *swi_heap_take(sw_heap heap, size_t bytes);
void swi_heap_give(sw_heap heap, void *block, size_t bytes);
const char *swi_heap_backend(void);

#endif
