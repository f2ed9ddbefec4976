/* See heap_watch.h. Each function counts and passes on to the next one of its name. Requests
 * while the first of them is being looked up come from a small buffer that is never given
 * back. */
#include "tests/system/heap_watch.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

static atomic_bool watching;
static atomic_uint_fast64_t calls;
static _Atomic(const void *) first;
static _Thread_local bool looking_up;
static _Alignas(16) unsigned char early[1 << 16];
static atomic_size_t early_used;

static void saw(const void *caller)
{
    if (!atomic_load_explicit(&watching, memory_order_relaxed))
        return;
    const void *none = NULL;
    atomic_fetch_add(&calls, 1);
    (void)atomic_compare_exchange_strong(&first, &none, caller);
}

void heap_watch_begin(void)
{
    atomic_store(&calls, 0);
    atomic_store(&first, NULL);
    atomic_store(&watching, true);
}

uint64_t heap_watch_end(void)
{
    atomic_store(&watching, false);
    return atomic_load(&calls);
}

const void *heap_watch_first(void)
{
    return atomic_load(&first);
}

static bool is_early(const void *block)
{
    const unsigned char *p = block;
    return p >= early && p < early + sizeof early;
}

static void *take_early(size_t bytes)
{
    const size_t at = atomic_fetch_add(&early_used, (bytes + 15) / 16 * 16);
    return at + bytes <= sizeof early ? early + at : NULL;
}

/* Function pointers do not convert from void * in ISO C; their bytes do. */
static void find(void *function, const char *name)
{
    looking_up = true;
    void *const found = dlsym(RTLD_NEXT, name);
    looking_up = false;
    if (found == NULL)
        _exit(70);
    memcpy(function, &found, sizeof found);
}

#define NEXT(type, name, parameters)                                                           \
    static type(*next) parameters;                                                             \
    if (next == NULL)                                                                          \
    find(&next, name)

VISIBLE void *malloc(size_t bytes);
VISIBLE void *calloc(size_t n, size_t bytes);
VISIBLE void *realloc(void *block, size_t bytes);
VISIBLE void free(void *block);
VISIBLE void *aligned_alloc(size_t align, size_t bytes);
VISIBLE void *memalign(size_t align, size_t bytes);
VISIBLE int posix_memalign(void **out, size_t align, size_t bytes);

void *malloc(size_t bytes)
{
    if (looking_up)
        return take_early(bytes);
    NEXT(void *, "malloc", (size_t));
    saw(__builtin_return_address(0));
    return next(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    if (looking_up)
        return take_early(n * bytes); /* zero as it is */
    NEXT(void *, "calloc", (size_t, size_t));
    saw(__builtin_return_address(0));
    return next(n, bytes);
}

void *realloc(void *block, size_t bytes)
{
    if (looking_up || is_early(block)) {
        void *moved = looking_up ? take_early(bytes) : malloc(bytes);
        const size_t rest =
            is_early(block) ? (size_t)(early + sizeof early - (unsigned char *)block) : 0;
        if (moved != NULL && block != NULL)
            memcpy(moved, block, bytes < rest ? bytes : rest);
        return moved;
    }
    NEXT(void *, "realloc", (void *, size_t));
    saw(__builtin_return_address(0));
    return next(block, bytes);
}

void free(void *block)
{
    if (block == NULL || is_early(block) || looking_up)
        return;
    NEXT(void, "free", (void *));
    saw(__builtin_return_address(0));
    next(block);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    NEXT(void *, "aligned_alloc", (size_t, size_t));
    saw(__builtin_return_address(0));
    return next(align, bytes);
}

void *memalign(size_t align, size_t bytes)
{
    NEXT(void *, "memalign", (size_t, size_t));
    saw(__builtin_return_address(0));
    return next(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    NEXT(int, "posix_memalign", (void **, size_t, size_t));
    saw(__builtin_return_address(0));
    return next(out, align, bytes);
}

#if WATCH_JEMALLOC
VISIBLE void *mallocx(size_t bytes, int flags);
VISIBLE void *rallocx(void *block, size_t bytes, int flags);
VISIBLE size_t xallocx(void *block, size_t bytes, size_t extra, int flags);
VISIBLE void dallocx(void *block, int flags);
VISIBLE void sdallocx(void *block, size_t bytes, int flags);

void *mallocx(size_t bytes, int flags)
{
    NEXT(void *, "mallocx", (size_t, int));
    saw(__builtin_return_address(0));
    return next(bytes, flags);
}

void *rallocx(void *block, size_t bytes, int flags)
{
    NEXT(void *, "rallocx", (void *, size_t, int));
    saw(__builtin_return_address(0));
    return next(block, bytes, flags);
}

size_t xallocx(void *block, size_t bytes, size_t extra, int flags)
{
    NEXT(size_t, "xallocx", (void *, size_t, size_t, int));
    saw(__builtin_return_address(0));
    return next(block, bytes, extra, flags);
}

void dallocx(void *block, int flags)
{
    NEXT(void, "dallocx", (void *, int));
    saw(__builtin_return_address(0));
    next(block, flags);
}

void sdallocx(void *block, size_t bytes, int flags)
{
    NEXT(void, "sdallocx", (void *, size_t, int));
    saw(__builtin_return_address(0));
    next(block, bytes, flags);
}
#endif
