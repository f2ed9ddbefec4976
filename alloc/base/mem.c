/* The allocation table: heap blocks by purpose and address ranges, counted, with planned
 * failures. */
#include "alloc/base/address_map.h"
#include "alloc/base/allocation_sites.h"
#include "alloc/base/assert.h"
#include "alloc/base/fault.h"
#include "alloc/base/handle.h"
#include "alloc/base/heap.h"
#include "alloc/base/mem.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void site_born(void *block, sw_heap heap, size_t bytes, const char *text);
static void site_died(const void *block);

/* ---- address map ------------------------------------------------------------------------- */

/* The list of claims: a ring around a head of its own, under one lock. */

static sw_fork_lock lock = SW_FORK_LOCK;
static swi_address_entry head = {&head, &head, NULL};
static atomic_uint_fast64_t version;

void swi_address_map_changed(void)
{
    atomic_fetch_add_explicit(&version, 1, memory_order_relaxed);
}

uint64_t sw_address_map_version(void)
{
    return atomic_load_explicit(&version, memory_order_relaxed);
}

void swi_address_map_add(swi_address_entry *c,
                         bool (*describe)(const swi_address_entry *self, sw_address_range *out))
{
    c->describe = describe;
    sw_fork_lock_take(&lock);
    c->next = head.next;
    c->before = &head;
    c->next->before = c;
    head.next = c;
    sw_fork_lock_give(&lock);
    swi_address_map_changed();
}

void swi_address_map_remove(swi_address_entry *c)
{
    sw_fork_lock_take(&lock);
    c->before->next = c->next;
    c->next->before = c->before;
    sw_fork_lock_give(&lock);
    swi_address_map_changed();
}

typedef struct {
    void (*visit)(void *context, const sw_address_range *claim);
    void *context;
} visitor;

static void visit_heap(void *context, sw_heap heap, uintptr_t base, size_t bytes)
{
    const visitor *v = context;
    const sw_address_range claim = SW_INIT(.kind = SW_ADDRESS_HEAP, .label = sw_heap_name(heap),
                                           .base = base, .bytes = bytes, .heap = heap);
    v->visit(v->context, &claim);
}

/* Arenas and stacks. */
static void visit_listed(void (*visit)(void *context, const sw_address_range *claim),
                         void *context)
{
    sw_fork_lock_take(&lock);
    for (const swi_address_entry *c = head.next; c != &head; c = c->next) {
        sw_address_range claim = {0};
        if (c->describe(c, &claim))
            visit(context, &claim);
    }
    sw_fork_lock_give(&lock);
}

void sw_address_map_visit(void (*visit)(void *context, const sw_address_range *claim),
                          void *context)
{
    visit_listed(visit, context);
    visitor v = {visit, context};
    swi_heap_ranges(visit_heap, &v);
}

static void add_arena(void *context, const sw_address_range *claim)
{
    size_t *bytes = context;
    if (claim->kind == SW_ADDRESS_ARENA)
        bytes[claim->use] += claim->promised_bytes;
}

void sw_address_map_arenas(size_t bytes[SW_ARENA_USES])
{
    memset(bytes, 0, SW_ARENA_USES * sizeof *bytes);
    visit_listed(add_arena, bytes);
}

size_t sw_heap_unclaimed_bytes(void)
{
    return swi_heap_unclaimed_bytes();
}

/* ---- mem --------------------------------------------------------------------------------- */

typedef struct {
    atomic_uint_fast64_t allocations;
    atomic_uint_fast64_t blocks;
    atomic_size_t bytes, peak;
} counters;

static counters heaps[SW_HEAP_KINDS];
static atomic_uint_fast64_t calls;
static _Thread_local bool is_aside;

const char *sw_heap_name(sw_heap heap)
{
    static const char *const names[] = {"records",  "programs", "files",
                                        "datasets", "profile",  "pinned"};
    return (unsigned)heap < SW_HEAP_KINDS ? names[heap] : "?";
}

const char *sw_heap_backend(void)
{
    return swi_heap_backend();
}

void sw_heap_trim(void)
{
    swi_heap_trim();
}

uint64_t sw_mem_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

void sw_mem_aside(void)
{
    is_aside = true;
}

static void count_call(void)
{
    if (is_aside)
        return;
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

static void count_taken(sw_heap heap, size_t bytes)
{
    SW_ASSERT((unsigned)heap < SW_HEAP_KINDS);
    counters *c = &heaps[heap];
    atomic_fetch_add_explicit(&c->allocations, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->blocks, 1, memory_order_relaxed);
    const size_t now =
        atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed) + bytes;
    size_t peak = atomic_load_explicit(&c->peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak_explicit(
                             &c->peak, &peak, now, memory_order_relaxed, memory_order_relaxed))
        ;
}

static void *mem_take(sw_heap heap, size_t bytes)
{
    void *block = swi_heap_take(heap, bytes > 0 ? bytes : 1);
    if (block != NULL)
        count_taken(heap, bytes);
    return block;
}

static void count_given(sw_heap heap, size_t bytes)
{
    SW_ASSERT((unsigned)heap < SW_HEAP_KINDS);
    SW_ASSERT(atomic_load_explicit(&heaps[heap].blocks, memory_order_relaxed) > 0);
    SW_ASSERT(atomic_load_explicit(&heaps[heap].bytes, memory_order_relaxed) >= bytes);
    atomic_fetch_sub_explicit(&heaps[heap].blocks, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&heaps[heap].bytes, bytes, memory_order_relaxed);
}

/* From mem.c for the notes themselves: counted, but neither noted nor made to fail. */
static void mem_give(void *block, sw_heap heap, size_t bytes)
{
    if (block == NULL)
        return;
    swi_heap_give(heap, block, bytes > 0 ? bytes : 1);
    count_given(heap, bytes);
}

void sw_heap_note_at(void *block, sw_heap heap, size_t bytes, const char *place)
{
    count_call();
    count_taken(heap, bytes);
    if (swi_sites_on())
        site_born(block, heap, bytes, place);
}

void sw_heap_note_end(void *block, sw_heap heap, size_t bytes)
{
    if (block == NULL)
        return;
    count_call();
    if (swi_sites_on())
        site_died(block);
    count_given(heap, bytes);
}

sw_status sw_heap_alloc_at(void *out, sw_heap heap, size_t bytes, const char *place)
{
    count_call();
    void *block = swi_fault_hit(SW_FAULT_MEMORY) ? NULL : mem_take(heap, bytes);
    if (block == NULL)
        SW_FAIL(SW_NOMEM, "heap %s: no memory for %zu bytes", sw_heap_name(heap), bytes);
    if (swi_sites_on())
        site_born(block, heap, bytes, place);
    memcpy(out, &block, sizeof block); /* pointers of all types have one form */
    return SW_OK;
}

void sw_heap_free(void *block, sw_heap heap, size_t bytes)
{
    if (block == NULL)
        return;
    count_call();
    if (swi_sites_on())
        site_died(block); /* before another thread can have the address */
    mem_give(block, heap, bytes);
}

sw_status sw_heap_resize_at(void *block, sw_heap heap, size_t old_bytes, size_t new_bytes,
                            const char *place)
{
    void *grown, *old;
    memcpy(&old, block, sizeof old);
    SW_ASSERT(old != NULL || old_bytes == 0);
    SW_TRY(sw_heap_alloc_at(&grown, heap, new_bytes, place));
    if (old != NULL) {
        memcpy(grown, old, old_bytes < new_bytes ? old_bytes : new_bytes);
        sw_heap_free(old, heap, old_bytes);
    }
    memcpy(block, &grown, sizeof grown);
    return SW_OK;
}

sw_status sw_heap_reserve_at(void *array, sw_heap heap, uint32_t *cap, uint32_t needed,
                             size_t element, const char *place)
{
    if (needed <= *cap)
        return SW_OK;
    uint32_t next = *cap < 16 ? 16 : *cap;
    while (next < needed)
        next = next <= UINT32_MAX / 2 ? next * 2 : UINT32_MAX;
    SW_ASSERT(next >= needed && next > *cap && element > 0);
    SW_ASSERT(next <= SIZE_MAX / element);
    SW_TRY(sw_heap_resize_at(array, heap, *cap * element, next * element, place));
    *cap = next;
    return SW_OK;
}

void sw_heap_read(sw_heap heap, sw_heap_stats *out)
{
    SW_ASSERT((unsigned)heap < SW_HEAP_KINDS);
    const counters *c = &heaps[heap];
    *out = (sw_heap_stats){.allocations = atomic_load(&c->allocations),
                           .blocks = atomic_load(&c->blocks),
                           .bytes = atomic_load(&c->bytes),
                           .peak_bytes = atomic_load(&c->peak)};
}

void sw_heap_report_read(sw_heap_report *out)
{
    memset(out, 0, sizeof *out);
    swi_heap_report(out);
}

bool sw_heap_other_bytes(size_t *out)
{
    return swi_heap_other_bytes(out);
}

sw_status sw_heap_profile_ready(void)
{
    return swi_heap_profile_ready();
}

sw_status sw_heap_profile_write(const char *path)
{
    if (swi_fault_hit(SW_FAULT_FILE))
        SW_FAIL(SW_IO, "%s: the heap profile could not be written", path);
    return swi_heap_profile_write(path);
}

/* ---- address ranges ---------------------------------------------------------------------- */

size_t sw_page_bytes(void)
{
    static atomic_size_t known;
    size_t page = atomic_load_explicit(&known, memory_order_relaxed);
    if (page == 0) {
        page = (size_t)sysconf(_SC_PAGESIZE);
        atomic_store_explicit(&known, page, memory_order_relaxed);
    }
    return page;
}

sw_status sw_range_reserve(void **out, size_t bytes)
{
    SW_ASSERT(out != NULL);
    count_call();
    void *base = MAP_FAILED;
    errno = ENOMEM;
    if (!swi_fault_hit(SW_FAULT_MEMORY))
        base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        SW_FAIL(SW_NOMEM, "no address range of %zu bytes: %s", bytes, strerror(errno));
    *out = base;
    return SW_OK;
}

sw_status sw_range_commit(void *base, size_t from, size_t to)
{
    SW_ASSERT(base != NULL && from < to);
    SW_ASSERT(from % sw_page_bytes() == 0 && to % sw_page_bytes() == 0);
    count_call();
    errno = ENOMEM;
    if (swi_fault_hit(SW_FAULT_MEMORY) ||
        mprotect((unsigned char *)base + from, to - from, PROT_READ | PROT_WRITE) != 0)
        SW_FAIL(SW_NOMEM, "%zu bytes could not be committed: %s", to - from, strerror(errno));
    return SW_OK;
}

void sw_range_release(void *base, size_t bytes)
{
    if (base == NULL)
        return;
    count_call();
    (void)munmap(base, bytes);
}

sw_status sw_range_protect(void *base, size_t from, size_t to, sw_range_access access)
{
    SW_ASSERT(base != NULL && from <= to && from % sw_page_bytes() == 0);
    SW_ASSERT((unsigned)access <= SW_RANGE_WRITE);
    static const int bits[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    if (mprotect((unsigned char *)base + from, to - from, bits[access]) != 0)
        SW_FAIL(SW_NOMEM, "the access to %zu bytes could not be changed: %s", to - from,
                strerror(errno));
    return SW_OK;
}

/* Sites: a hash table of live blocks by address, and one of sites by the address of their
 * text, under one lock. The table of blocks doubles when half of it is used; where there is no
 * memory for that, new blocks are not noted, and nothing fails. */

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

static sw_fork_lock lock_sites = SW_FORK_LOCK;
static atomic_int users;
static noted *slots;
static size_t n_slots, n_used;
static sw_alloc_site sites[SW_SITES_MAX];
static uint32_t n_places;
static seen_text texts[2 * SW_SITES_MAX];

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
    noted *fresh = mem_take(SW_HEAP_PROFILE, 2 * n_old * sizeof *fresh);
    if (fresh == NULL)
        return false;
    slots = fresh;
    n_slots = 2 * n_old;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].block != NULL)
            insert(old[i]);
    mem_give(old, SW_HEAP_PROFILE, n_old * sizeof *old);
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
    static const char own[] = __FILE__, known[] = "alloc/base/mem.c";
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

static void site_born(void *block, sw_heap heap, size_t bytes, const char *text)
{
    sw_fork_lock_take(&lock_sites);
    if (slots != NULL) {
        const uint32_t site = site_of(text, heap);
        if (site != NO_SITE && (2 * n_used < n_slots || grow())) {
            insert((noted){block, bytes, site});
            n_used++;
            sites[site].blocks++;
            sites[site].bytes += bytes;
        }
    }
    sw_fork_lock_give(&lock_sites);
}

static void site_died(const void *block)
{
    sw_fork_lock_take(&lock_sites);
    const size_t i = slots != NULL ? find(block) : 0;
    if (slots != NULL && slots[i].block != NULL) {
        sw_alloc_site *p = &sites[slots[i].site];
        SW_ASSERT(slots[i].site < n_places);
        SW_ASSERT(p->blocks > 0 && p->bytes >= slots[i].bytes);
        p->blocks--;
        p->bytes -= slots[i].bytes;
        remove_slot(i);
    }
    sw_fork_lock_give(&lock_sites);
}

/* ---- on and off -------------------------------------------------------------------------- */

/* The table of blocks is counted as any block is, and is itself in no site. */
sw_status sw_sites_begin(void)
{
    void *block = NULL;
    const size_t bytes = FIRST_SLOTS * sizeof *slots;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, bytes));
    sw_fork_lock_take(&lock_sites);
    if (atomic_load(&users) == 0) {
        slots = block;
        block = NULL;
        n_slots = FIRST_SLOTS;
        n_used = 0;
        n_places = 0;
        memset(texts, 0, sizeof texts);
    }
    atomic_fetch_add(&users, 1);
    sw_fork_lock_give(&lock_sites);
    sw_heap_free(block, SW_HEAP_PROFILE, bytes);
    return SW_OK;
}

void sw_sites_end(void)
{
    noted *old = NULL;
    size_t n = 0;
    sw_fork_lock_take(&lock_sites);
    if (atomic_fetch_sub(&users, 1) == 1) {
        SW_ASSERT(slots != NULL && 2 * n_used <= n_slots);
        old = slots;
        n = n_slots;
        slots = NULL;
        n_slots = 0;
    }
    sw_fork_lock_give(&lock_sites);
    mem_give(old, SW_HEAP_PROFILE, n * sizeof *old);
}

bool sw_sites_read(uint32_t i, sw_alloc_site *out)
{
    sw_fork_lock_take(&lock_sites);
    const bool there = i < n_places;
    if (there)
        *out = sites[i];
    sw_fork_lock_give(&lock_sites);
    return there;
}
