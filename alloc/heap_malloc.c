/* The host heap by the C library, where jemalloc is not built in. */
#include "alloc/heap.h"
#include <stdlib.h>
#if defined __GLIBC__
#include <malloc.h>
#if __GLIBC_PREREQ(2, 33)
#define HAVE_MALLINFO2 1
#endif
#endif

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

/* All purposes share the C library's ranges. */
void swi_heap_ranges(void (*visit)(void *context, sw_heap heap, uintptr_t base, size_t bytes),
                     void *context)
{
    (void)visit;
    (void)context;
}

/* Large blocks have mappings of their own; the rest is the system's [heap]. */
size_t swi_heap_unclaimed_bytes(void)
{
#if defined HAVE_MALLINFO2
    return mallinfo2().hblkhd;
#else
    return 0;
#endif
}
