/* The host heap by jemalloc, one arena for each purpose: the only file that names its
 * functions. A purpose without an arena of its own uses the default arena; the counts of mem.c
 * stay right.
 *
 * An arena of ours maps memory by jemalloc's own functions, through hooks that note where: so
 * each purpose can say which addresses are its. */
#include "alloc/base/heap.h"
#include "alloc/base/size.h"
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* jemalloc's arenas map few and large ranges, and neighbours become one; what finds no room
 * here counts as unclaimed. */
#define RANGES 64

typedef struct {
    uintptr_t base;
    size_t bytes;
} range;

typedef struct {
    extent_hooks_t hooks; /* first: a hook goes back from it */
    range ranges[RANGES];
    int n;
} purpose;

static purpose purposes[SW_HEAP_KINDS];
static const extent_hooks_t *theirs;
static unsigned arenas[SW_HEAP_KINDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all ranges */

static void note_mapped(purpose *p, uintptr_t base, size_t bytes)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < p->n && base + bytes != p->ranges[i].base &&
           p->ranges[i].base + p->ranges[i].bytes != base)
        i++;
    if (i < p->n) {
        p->ranges[i].bytes += bytes;
        if (base < p->ranges[i].base)
            p->ranges[i].base = base;
    } else if (p->n < RANGES)
        p->ranges[p->n++] = (range){base, bytes};
    pthread_mutex_unlock(&lock);
}

/* The unmapped bytes may be the begin, the end or the middle of what was noted, and may reach
 * over several ranges that lie side by side. From the last to the first: what takes the place
 * of a range was looked at, or is apart from the unmapped bytes. */
static void note_unmapped(purpose *p, uintptr_t base, size_t bytes)
{
    const uintptr_t end = base + bytes;
    pthread_mutex_lock(&lock);
    for (int i = p->n; i-- > 0;) {
        range *r = &p->ranges[i];
        const uintptr_t r_end = r->base + r->bytes;
        if (base >= r_end || end <= r->base)
            continue;
        const range behind = {end, end < r_end ? r_end - end : 0};
        if (base <= r->base) {
            *r = behind.bytes > 0 ? behind : p->ranges[--p->n];
            continue;
        }
        r->bytes = base - r->base;
        if (behind.bytes > 0 && p->n < RANGES)
            p->ranges[p->n++] = behind;
    }
    pthread_mutex_unlock(&lock);
}

static void *map_hook(extent_hooks_t *hooks, void *at, size_t bytes, size_t alignment,
                      bool *zeroed, bool *committed, unsigned arena)
{
    void *base = theirs->alloc(hooks, at, bytes, alignment, zeroed, committed, arena);
    if (base != NULL)
        note_mapped((purpose *)(void *)hooks, (uintptr_t)base, bytes);
    return base;
}

static bool unmap_hook(extent_hooks_t *hooks, void *base, size_t bytes, bool committed,
                       unsigned arena)
{
    const bool kept = theirs->dalloc(hooks, base, bytes, committed, arena);
    if (!kept)
        note_unmapped((purpose *)(void *)hooks, (uintptr_t)base, bytes);
    return kept;
}

static void make_arenas(void)
{
    size_t size = sizeof theirs;
    const bool hooked = mallctl("arena.0.extent_hooks", &theirs, &size, NULL, 0) == 0;
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        if (i == SW_HEAP_PINNED) /* others give it */
            continue;
        purpose *p = &purposes[i];
        extent_hooks_t *hooks = &p->hooks;
        if (hooked) {
            *hooks = *theirs;
            hooks->alloc = map_hook;
            hooks->dalloc = unmap_hook;
        }
        size = sizeof arenas[i];
        if (mallctl("arenas.create", &arenas[i], &size, hooked ? &hooks : NULL,
                    hooked ? sizeof hooks : 0) != 0)
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

void swi_heap_trim(void)
{
    char text[64];
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        if (arenas[i] != 0) {
            snprintf(text, sizeof text, "arena.%u.purge", arenas[i]);
            (void)mallctl(text, NULL, NULL, NULL, 0);
        }
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

void swi_heap_ranges(void (*visit)(void *context, sw_heap heap, uintptr_t base, size_t bytes),
                     void *context)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        for (int k = 0; k < purposes[i].n; k++)
            visit(context, (sw_heap)i, purposes[i].ranges[k].base, purposes[i].ranges[k].bytes);
    pthread_mutex_unlock(&lock);
}

/* ---- figures ----------------------------------------------------------------------------- */

/* Have the statistics made anew. */
static void refresh(void)
{
    uint64_t epoch = 1;
    size_t size = sizeof epoch;
    (void)mallctl("epoch", &epoch, &size, &epoch, size);
}

/* 0 where jemalloc was built without its statistics. */
static size_t statistic(const char *name)
{
    size_t value = 0, size = sizeof value;
    return mallctl(name, &value, &size, NULL, 0) == 0 ? value : 0;
}

static size_t arena_statistic(unsigned arena, const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "stats.arenas.%u.%s", arena, name);
    return statistic(text);
}

/* A purpose without an arena of its own has none of these. */
static sw_heap_figures figures_of(unsigned arena)
{
    if (arena == 0)
        return (sw_heap_figures){0};
    return (sw_heap_figures){.allocated_bytes = arena_statistic(arena, "small.allocated") +
                                                arena_statistic(arena, "large.allocated"),
                             .active_bytes =
                                 arena_statistic(arena, "pactive") * statistic("arenas.page"),
                             .resident_bytes = arena_statistic(arena, "resident"),
                             .mapped_bytes = arena_statistic(arena, "mapped")};
}

void swi_heap_report(sw_heap_report *out)
{
    pthread_once(&once, make_arenas);
    refresh();
    sw_heap_figures *rest = &out->other;
    *rest = (sw_heap_figures){statistic("stats.allocated"), statistic("stats.active"),
                              statistic("stats.resident"), statistic("stats.mapped")};
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        const sw_heap_figures own = figures_of(arenas[i]);
        out->purpose[i] = own;
        *rest = (sw_heap_figures){sw_size_less(rest->allocated_bytes, own.allocated_bytes),
                                  sw_size_less(rest->active_bytes, own.active_bytes),
                                  sw_size_less(rest->resident_bytes, own.resident_bytes),
                                  sw_size_less(rest->mapped_bytes, own.mapped_bytes)};
    }
    out->kept_bytes = statistic("stats.retained");
}

/* A purpose without an arena uses the default one: its bytes are then unknown. */
bool swi_heap_other_bytes(size_t *out)
{
    pthread_once(&once, make_arenas);
    refresh();
    size_t rest = statistic("stats.allocated");
    if (rest == 0)
        return false;
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        if (arenas[i] == 0 && i != SW_HEAP_PINNED)
            return false;
        rest = sw_size_less(rest, figures_of(arenas[i]).allocated_bytes);
    }
    *out = rest;
    return true;
}

sw_status swi_heap_profile_ready(void)
{
    bool built = false, on = false;
    size_t size = sizeof built;
    (void)mallctl("config.prof", &built, &size, NULL, 0);
    if (!built)
        SW_FAIL(SW_UNSUPPORTED, "this jemalloc was built without heap profiles: use a jemalloc "
                                "that was configured with --enable-prof");
    size = sizeof on;
    (void)mallctl("opt.prof", &on, &size, NULL, 0);
    if (!on)
        SW_FAIL(SW_UNSUPPORTED, "jemalloc's heap profile is off: start the program with "
                                "MALLOC_CONF=prof:true,lg_prof_sample:0 in its environment");
    return SW_OK;
}

sw_status swi_heap_profile_write(const char *path)
{
    SW_TRY(swi_heap_profile_ready());
    const int error = mallctl("prof.dump", NULL, NULL, (void *)&path, sizeof path);
    if (error != 0)
        SW_FAIL(SW_IO, "%s: jemalloc could not write its heap profile: %s", path,
                strerror(error));
    return SW_OK;
}

/* All that jemalloc has mapped, in use or kept for later, less what was noted. */
size_t swi_heap_unclaimed_bytes(void)
{
    size_t noted = 0;
    refresh();
    const size_t mapped = statistic("stats.mapped") + statistic("stats.retained");
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        for (int k = 0; k < purposes[i].n; k++)
            noted += purposes[i].ranges[k].bytes;
    pthread_mutex_unlock(&lock);
    return mapped > noted ? mapped - noted : 0;
}
