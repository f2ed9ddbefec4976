/* Sites: a hash table of live blocks by address, and one of sites by the address of their
 * text, under one lock. The table of blocks doubles when half of it is used; where there is no
 * memory for that, new blocks are counted as lost, and nothing fails. */
#include "alloc/base/allocation_sites.h"
#include "alloc/base/assert.h"
#include "alloc/base/fork.h"
#include <stdatomic.h>
#include <string.h>

#define FIRST_SLOTS 1024u /* a power of two */
#define NO_SITE UINT32_MAX

typedef struct {
    const void *block; /* NULL: free */
    size_t bytes;
    uint32_t site;
} noted;

typedef struct {
    const char *text; /* as the caller's compiler wrote it: two texts may be equal */
    uint32_t site;
    sw_heap heap;
} seen_text;

static sw_fork_lock lock = SW_FORK_LOCK;
static atomic_int users;
static noted *slots;
static size_t n_slots, n_used;
static sw_alloc_site sites[SW_SITES_MAX];
static uint32_t n_places;
static seen_text texts[2 * SW_SITES_MAX];
static uint64_t lost;

bool swi_sites_on(void)
{
    return atomic_load_explicit(&users, memory_order_relaxed) > 0;
}

/* ---- blocks ------------------------------------------------------------------------------ */

static size_t slot_of(const void *block)
{
    SW_ASSERT(n_slots >= FIRST_SLOTS && (n_slots & (n_slots - 1)) == 0);
    const uint64_t x = (uint64_t)(uintptr_t)block >> 4;
    return (size_t)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (n_slots - 1);
}

/* The slot of the block, or the free one where it would be. */
static size_t find(const void *block)
{
    SW_ASSERT(block != NULL && n_used < n_slots);
    size_t i = slot_of(block);
    while (slots[i].block != NULL && slots[i].block != block)
        i = (i + 1) & (n_slots - 1);
    return i;
}

static void insert(noted x)
{
    slots[find(x.block)] = x;
}

static bool grow(void)
{
    noted *const old = slots;
    const size_t n_old = n_slots;
    noted *fresh = swi_mem_take(SW_HEAP_PROFILE, 2 * n_old * sizeof *fresh);
    if (fresh == NULL)
        return false;
    slots = fresh;
    n_slots = 2 * n_old;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].block != NULL)
            insert(old[i]);
    swi_mem_give(old, SW_HEAP_PROFILE, n_old * sizeof *old);
    return true;
}

/* Take slot i out; what lies after it in the same run moves up, so that it is found. */
static void remove_slot(size_t i)
{
    SW_ASSERT(i < n_slots && slots[i].block != NULL && n_used > 0);
    const size_t mask = n_slots - 1;
    for (size_t k = (i + 1) & mask; slots[k].block != NULL; k = (k + 1) & mask) {
        const size_t home = slot_of(slots[k].block);
        if (((k - home) & mask) >= ((k - i) & mask)) {
            slots[i] = slots[k];
            i = k;
        }
    }
    slots[i] = (noted){0};
    n_used--;
}

/* ---- sites ------------------------------------------------------------------------------ */

/* The prefix that the compiler puts before file names is found from the name of this file. */
static const char *from_root(const char *text)
{
    static const char own[] = __FILE__, known[] = "alloc/base/allocation_sites.c";
    const size_t front = sizeof own - sizeof known;
    return sizeof own > sizeof known && strncmp(text, own, front) == 0 ? text + front : text;
}

static uint32_t make_site(const char *text, sw_heap heap)
{
    const char *at = from_root(text);
    SW_ASSERT(n_places <= SW_SITES_MAX && (unsigned)heap < SW_HEAP_KINDS);
    for (uint32_t i = 0; i < n_places; i++)
        if (sites[i].heap == heap && strcmp(sites[i].at, at) == 0)
            return i;
    if (n_places == SW_SITES_MAX)
        return NO_SITE;
    sites[n_places] = (sw_alloc_site){.at = at, .heap = heap};
    return n_places++;
}

static uint32_t site_of(const char *text, sw_heap heap)
{
    const size_t n = sizeof texts / sizeof *texts;
    size_t i = (uintptr_t)text % n;
    for (size_t tries = 0; tries < n; tries++, i = (i + 1) % n) {
        if (texts[i].text == text && texts[i].heap == heap)
            return texts[i].site;
        if (texts[i].text == NULL) {
            texts[i] = (seen_text){text, make_site(text, heap), heap};
            return texts[i].site;
        }
    }
    return make_site(text, heap);
}

void swi_site_born(void *block, sw_heap heap, size_t bytes, const char *text)
{
    sw_fork_lock_take(&lock);
    if (slots != NULL) {
        const uint32_t site = site_of(text, heap);
        if (site == NO_SITE || (2 * n_used >= n_slots && !grow()))
            lost++;
        else {
            insert((noted){block, bytes, site});
            n_used++;
            sites[site].blocks++;
            sites[site].bytes += bytes;
        }
    }
    sw_fork_lock_give(&lock);
}

void swi_site_died(const void *block)
{
    sw_fork_lock_take(&lock);
    const size_t i = slots != NULL ? find(block) : 0;
    if (slots != NULL && slots[i].block != NULL) {
        sw_alloc_site *p = &sites[slots[i].site];
        SW_ASSERT(slots[i].site < n_places);
        SW_ASSERT(p->blocks > 0 && p->bytes >= slots[i].bytes);
        p->blocks--;
        p->bytes -= slots[i].bytes;
        remove_slot(i);
    }
    sw_fork_lock_give(&lock);
}

/* ---- on and off -------------------------------------------------------------------------- */

/* The table of blocks is counted as any block is, and is itself in no site. */
sw_status sw_sites_begin(void)
{
    void *block = NULL;
    const size_t bytes = FIRST_SLOTS * sizeof *slots;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, bytes));
    sw_fork_lock_take(&lock);
    if (atomic_load(&users) == 0) {
        slots = block;
        block = NULL;
        n_slots = FIRST_SLOTS;
        n_used = 0;
        n_places = 0;
        lost = 0;
        memset(texts, 0, sizeof texts);
    }
    atomic_fetch_add(&users, 1);
    sw_fork_lock_give(&lock);
    sw_heap_free(block, SW_HEAP_PROFILE, bytes);
    return SW_OK;
}

void sw_sites_end(void)
{
    noted *old = NULL;
    size_t n = 0;
    sw_fork_lock_take(&lock);
    if (atomic_fetch_sub(&users, 1) == 1) {
        SW_ASSERT(slots != NULL && 2 * n_used <= n_slots);
        old = slots;
        n = n_slots;
        slots = NULL;
        n_slots = 0;
    }
    sw_fork_lock_give(&lock);
    swi_mem_give(old, SW_HEAP_PROFILE, n * sizeof *old);
}

uint32_t sw_sites_count(void)
{
    sw_fork_lock_take(&lock);
    const uint32_t n = n_places;
    sw_fork_lock_give(&lock);
    return n;
}

bool sw_sites_read(uint32_t i, sw_alloc_site *out)
{
    sw_fork_lock_take(&lock);
    const bool there = i < n_places;
    if (there)
        *out = sites[i];
    sw_fork_lock_give(&lock);
    return there;
}

uint64_t sw_sites_lost(void)
{
    sw_fork_lock_take(&lock);
    const uint64_t n = lost;
    sw_fork_lock_give(&lock);
    return n;
}
