/* Queues of memory that was an object: the oldest is used again, once there are enough. */
#include "alloc/base/handle.h"
#include "alloc/base/assert.h"
#include "alloc/base/fault.h"
#include "alloc/base/fork.h"
#include "alloc/base/poison.h"
#include <string.h>

#define GONE 0x60e90000u /* + the kind */

#define NAME(id, name, heap, kept) {name, heap, kept},
static const struct {
    const char *name;
    sw_heap heap;
    uint32_t kept;
} kinds[] = {SW_HANDLE_LIST(NAME)};

static sw_fork_lock lock = SW_FORK_LOCK;
static struct {
    sw_handle *oldest, *newest;
    uint32_t n;
} gone[SW_HANDLE_KINDS];

static sw_handle *take_oldest(sw_handle_kind kind)
{
    SW_ASSERT((unsigned)kind < SW_HANDLE_KINDS);
    sw_fork_lock_take(&lock);
    sw_handle *h = gone[kind].n >= kinds[kind].kept ? gone[kind].oldest : NULL;
    if (h != NULL) {
        gone[kind].oldest = h->next;
        SW_ASSERT(h->mark == GONE + kind); /* not written since */
        SW_ASSERT(gone[kind].n > 0);
        gone[kind].n--;
    }
    sw_fork_lock_give(&lock);
    return h;
}

static void add_newest(sw_handle *h, sw_handle_kind kind)
{
    SW_ASSERT((unsigned)kind < SW_HANDLE_KINDS);
    SW_ASSERT(h->mark == GONE + kind);
    sw_fork_lock_take(&lock);
    h->next = NULL;
    if (gone[kind].n++ == 0)
        gone[kind].oldest = h;
    else
        gone[kind].newest->next = h;
    gone[kind].newest = h;
    sw_fork_lock_give(&lock);
}

sw_status sw_handle_take_at(void **out, sw_handle_kind kind, size_t bytes, const char *place)
{
    SW_ASSERT((unsigned)kind < SW_HANDLE_KINDS && bytes >= sizeof(sw_handle));
    void *block;
    const sw_heap heap = kinds[kind].heap;
    sw_handle *h = take_oldest(kind);
    if (h == NULL) {
        SW_TRY(sw_heap_alloc_at(&block, heap, bytes, place));
        h = block;
    } else if (swi_fault_hit(SW_FAULT_MEMORY)) {
        add_newest(h, kind);
        SW_FAIL(SW_NOMEM, "heap %s: no memory for %zu bytes", sw_heap_name(heap), bytes);
    } else {
        sw_heap_note_at(h, heap, bytes, place);
    }
    h->next = NULL;
    __atomic_store_n(&h->mark, SW_HANDLE_LIVE + kind, __ATOMIC_RELAXED);
    *out = h;
    return SW_OK;
}

void sw_handle_end(void *object, sw_handle_kind kind)
{
    sw_handle *h = object;
    SW_ASSERT((unsigned)kind < SW_HANDLE_KINDS);
    SW_ASSERT(h->mark == SW_HANDLE_LIVE + kind || h->mark == GONE + kind);
    __atomic_store_n(&h->mark, GONE + kind, __ATOMIC_RELAXED);
}

void sw_handle_give(void *object, sw_handle_kind kind, size_t bytes)
{
    sw_handle *h = object;
    if (h == NULL)
        return;
    sw_handle_end(h, kind);
    SW_ASSERT(bytes >= sizeof *h);
    h->generation++;
    if (SW_SANITIZED) {
        sw_heap_free(h, kinds[kind].heap, bytes);
        return;
    }
    memset(h + 1, 0, bytes - sizeof *h);
    sw_heap_note_end(h, kinds[kind].heap, bytes);
    add_newest(h, kind);
}

sw_status sw_handle_refuse(const void *object, sw_handle_kind kind, const char *call)
{
    const char *name = kinds[kind].name;
    if (object == NULL)
        SW_FAIL(SW_INVALID, "%s: the %s must not be NULL", call, name);
    if (((const sw_handle *)object)->mark == GONE + kind)
        SW_FAIL(SW_INVALID, "%s: the %s was destroyed", call, name);
    SW_FAIL(SW_INVALID, "%s: the pointer does not point to any %s", call, name);
}

sw_status sw_handle_check_calls(const void *object, sw_handle_kind kind, const char *call,
                                const void *frame)
{
    sw_call_unwound(frame);
    SW_TRY(sw_handle_look(object, kind, call));
    return sw_call_may_use(object, kinds[kind].name, call);
}

/* Budgets and data sets are shared by those who use them: the last one ends them. */
sw_status sw_handle_may_end(const void *object, sw_handle_kind kind, const char *call,
                            const void *frame)
{
    SW_TRY(sw_handle_look(object, kind, call));
    sw_call_unwound(frame);
    if (kind != SW_HANDLE_BUDGET && kind != SW_HANDLE_DATASET)
        SW_TRY(sw_call_may_end_any(call, frame));
    return sw_call_may_end(object, kinds[kind].name, call);
}
