/* The host heap by jemalloc, one arena for each purpose: the only file that names its
 * functions. A purpose whose arena could not be made uses the default arena; the counts of
 * mem.c stay right. */
#include "alloc/heap.h"
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static unsigned arenas[SW_HEAP_KINDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_arenas(void)
{
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        size_t size = sizeof arenas[i];
        if (mallctl("arenas.create", &arenas[i], &size, NULL, 0) != 0)
            arenas[i] = 0;
    }
}

static int flags_of(sw_heap heap)
{
    pthread_once(&once, make_arenas);
    return MALLOCX_ARENA(arenas[heap]) | MALLOCX_TCACHE_NONE;
}

void *swi_heap_take(sw_heap heap, size_t bytes)
{
    return mallocx(bytes, flags_of(heap) | MALLOCX_ZERO | MALLOCX_ALIGN(16));
}

void swi_heap_give(sw_heap heap, void *block, size_t bytes)
{
    (void)bytes;
    dallocx(block, flags_of(heap));
}

const char *swi_heap_backend(void)
{
    static char text[64];
    const char *version = "";
    size_t size = sizeof version;
    (void)mallctl("version", &version, &size, NULL, 0);
    snprintf(text, sizeof text, "jemalloc %.*s", (int)strcspn(version, "-"), version);
    return text;
}
