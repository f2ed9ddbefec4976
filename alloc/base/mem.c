/* The allocation table: heap blocks by purpose and address ranges, counted, with planned
 * failures. */
#include "alloc/base/mem.h"
#include "alloc/base/assert.h"
#include "alloc/base/fault.h"
#include "alloc/base/heap.h"
#include "alloc/base/allocation_sites.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

void *swi_mem_take(sw_heap heap, size_t bytes)
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

void swi_mem_give(void *block, sw_heap heap, size_t bytes)
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
        swi_site_born(block, heap, bytes, place);
}

void sw_heap_note_end(void *block, sw_heap heap, size_t bytes)
{
    if (block == NULL)
        return;
    count_call();
    if (swi_sites_on())
        swi_site_died(block);
    count_given(heap, bytes);
}

sw_status sw_heap_alloc_at(void *out, sw_heap heap, size_t bytes, const char *place)
{
    count_call();
    void *block = swi_fault_hit(SW_FAULT_MEMORY) ? NULL : swi_mem_take(heap, bytes);
    if (block == NULL)
        SW_FAIL(SW_NOMEM, "heap %s: no memory for %zu bytes", sw_heap_name(heap), bytes);
    if (swi_sites_on())
        swi_site_born(block, heap, bytes, place);
    memcpy(out, &block, sizeof block); /* pointers of all types have one form */
    return SW_OK;
}

void sw_heap_free(void *block, sw_heap heap, size_t bytes)
{
    if (block == NULL)
        return;
    count_call();
    if (swi_sites_on())
        swi_site_died(block); /* before another thread can have the address */
    swi_mem_give(block, heap, bytes);
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
