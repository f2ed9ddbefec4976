/* The host heap by the C library, where jemalloc is not built in. */
#include "alloc/heap.h"
#include <stdlib.h>

void *swi_heap_take(sw_heap heap, size_t bytes)
{
    (void)heap;
    return calloc(1, bytes);
}

void swi_heap_give(sw_heap heap, void *block, size_t bytes)
{
    (void)heap;
    (void)bytes;
    free(block);
}

const char *swi_heap_backend(void)
{
    return "malloc";
}
