/* The host heap by the C library, where jemalloc is not built in. */
#include "alloc/base/heap.h"
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

void swi_heap_trim(void)
{
#if defined __GLIBC__
    (void)malloc_trim(0);
#endif
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

/* All blocks lie together: what ours take besides what was asked for counts as the others'. */
bool swi_heap_other_bytes(size_t *out)
{
#if defined HAVE_MALLINFO2
    const struct mallinfo2 info = mallinfo2();
    const size_t all = info.uordblks + info.hblkhd;
    size_t own = 0;
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)i, &stats);
        if (i != SW_HEAP_PINNED) /* others gave it */
            own += stats.bytes;
    }
    *out = all > own ? all - own : 0;
    return all > own; /* a sanitizer's heap says 0 */
#else
    (void)out;
    return false;
#endif
}

void swi_heap_report(sw_heap_report *out)
{
#if defined HAVE_MALLINFO2
    const struct mallinfo2 info = mallinfo2();
    (void)swi_heap_other_bytes(&out->other.allocated_bytes);
    out->other.mapped_bytes = info.arena + info.hblkhd;
    out->kept_bytes = info.fordblks;
#else
    (void)out;
#endif
}

sw_status swi_heap_profile_ready(void)
{
    SW_FAIL(SW_UNSUPPORTED, "a heap profile is jemalloc's, which was not built in: configure "
                            "with -Djemalloc=enabled");
}

sw_status swi_heap_profile_write(const char *path)
{
    (void)path;
    return swi_heap_profile_ready();
}
