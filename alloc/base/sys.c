/* Libraries, random numbers, the clock. */
#include "alloc/base/sys.h"
#include "alloc/base/fault.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

sw_status sw_library_open(void **out, const char *name)
{
    void *library =
        swi_fault_hit(SW_FAULT_LIBRARY) ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror(); /* has the name, where there is more to say */
        SW_FAIL(SW_UNSUPPORTED, "%s could not be opened: %s", name,
                why != NULL ? why : "no reason given");
    }
    *out = library;
    return SW_OK;
}

sw_status sw_library_symbol(void *library, const char *symbol, void **out)
{
    void *found = swi_fault_hit(SW_FAULT_LIBRARY) ? NULL : dlsym(library, symbol);
    if (found == NULL)
        SW_FAIL(SW_UNSUPPORTED, "symbol %s was not found", symbol);
    *out = found;
    return SW_OK;
}

sw_status sw_library_path(const void *address, char *out, size_t bytes)
{
    Dl_info info;
    void *map = NULL;
    char path[PATH_MAX];
    if (swi_fault_hit(SW_FAULT_FILE) || dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0 ||
        map == NULL)
        SW_FAIL(SW_IO, "the file of the code at %p is not known", address);
    /* The program has no name there, and what it was called by may be no path. */
    const char *name = ((const struct link_map *)map)->l_name;
    name = *name != '\0' ? name : "/proc/self/exe";
    if (realpath(name, path) == NULL)
        SW_FAIL(SW_IO, "%s: %s", name, strerror(errno));
    if (strlen(path) >= bytes)
        SW_FAIL(SW_IO, "%s: the path has more than %zu bytes", path, bytes - 1);
    strcpy(out, path);
    return SW_OK;
}

/* Without the system's numbers: the clock and a count, mixed (splitmix64). */
uint64_t sw_random(void)
{
    static atomic_uint_fast64_t count;
    uint64_t x;
    if (swi_fault_random(&x))
        return x;
    if (!swi_fault_hit(SW_FAULT_FILE) &&
        getrandom(&x, sizeof x, GRND_NONBLOCK) == (ssize_t)sizeof x)
        return x;
    x = sw_clock_ns() + ((uint64_t)getpid() << 32) +
        atomic_fetch_add(&count, 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* 0 where the clock would be before its beginning: a machine may be up for less than the shift.
 */
static uint64_t shifted(uint64_t now, int64_t shift)
{
    if (shift >= 0)
        return now + (uint64_t)shift;
    const uint64_t back = 0 - (uint64_t)shift;
    return now > back ? now - back : 0;
}

uint64_t sw_clock_ns(void)
{
    static atomic_uint_fast64_t latest;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t now = shifted((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec,
                                 swi_fault_clock_shift());
    uint64_t before = atomic_load_explicit(&latest, memory_order_relaxed);
    while (now > before)
        if (atomic_compare_exchange_weak_explicit(&latest, &before, now, memory_order_relaxed,
                                                  memory_order_relaxed))
            return now;
    return before; /* the system's clock went back: ours stands still */
}
