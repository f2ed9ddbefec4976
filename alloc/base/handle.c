/* Queues of memory that was an object: the oldest is used again, once there are enough. */
#include "alloc/base/assert.h"
#include "alloc/base/handle.h"
#include "alloc/base/error.h"
#include "alloc/base/fault.h"
#include "alloc/base/poison.h"
#include <string.h>

/* The calls of each thread, the innermost first.
 *
 * Stacks grow down. A call that goes on has its frame above all that it calls; where a frame at
 * the same place or above is entered anew, it is gone. So a longjmp to the function that called
 * sw_run, or to one outside of it, is noticed at its next call. A caller that goes deeper first
 * is taken for the step function itself, and refused with a message that says so. */

#define MOST 32 /* programs nest two or three */

_Thread_local int sw_calls_n;
static _Thread_local struct {
    sw_call *call;
    const void *frame;
    const sw_call_hooks *hooks; /* records without any may be gone with their frame */
} calls[MOST];                  /* the innermost is the last */

sw_status sw_call_begin(sw_call *call, const void *frame)
{
    sw_call_unwound(frame);
    if (sw_calls_n == MOST)
        SW_FAIL(SW_BUSY, "%s: %d calls go on, each made by a callback of the one before",
                call->name, MOST);
    call->said = sw_error_count();
    calls[sw_calls_n].call = call;
    calls[sw_calls_n].hooks = call->hooks;
    calls[sw_calls_n++].frame = frame;
    return SW_OK;
}

/* Of "WHO", or "CALL: WHO". */
static sw_status judge(sw_status status, uint64_t said, const char *call, const char *who)
{
    if ((unsigned)status > SW_STOPPED)
        SW_FAIL(SW_INVALID, "%s%s%s must return an sw_status (got %d)", call,
                call[0] != '\0' ? ": " : "", who, (int)status);
    if (status != SW_OK && sw_error_count() == said)
        SW_FAIL(status, "%s%s%s failed (%s) and gave no reason: set one by sw_error_set", call,
                call[0] != '\0' ? ": " : "", who, sw_status_name(status));
    return status;
}

sw_status sw_call_status(sw_status status, uint64_t said, const char *who)
{
    return judge(status, said, "", who);
}

sw_status sw_call_end(sw_call *call, sw_status status)
{
    int i = sw_calls_n;
    while (i > 0 && calls[i - 1].call != call)
        i--;
    SW_ASSERT(i > 0 && i == sw_calls_n);
    sw_calls_n = i > 0 ? i - 1 : sw_calls_n; /* one that is not there ends no other */
    return call->callback != NULL ? judge(status, call->said, call->name, call->callback)
                                  : status;
}

void sw_call_unwound(const void *frame)
{
    while (sw_calls_n > 0 && (uintptr_t)frame >= (uintptr_t)calls[sw_calls_n - 1].frame)
        if (calls[sw_calls_n - 1].hooks != NULL)
            calls[sw_calls_n - 1].hooks->unwound(calls[sw_calls_n - 1].call);
        else
            sw_calls_n--;
}

/* ---- objects ----------------------------------------------------------------------------- */

static bool has(const sw_call_objects *list, const void *object)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i] == object)
            return true;
    return false;
}

static sw_status refuse(const sw_call *c, const char *what, const char *name)
{
    SW_FAIL(SW_BUSY, "%s: the %s is in use by %s, whose %s made this call", name, what, c->name,
            c->callback != NULL ? c->callback : "callback");
}

sw_status sw_call_may_use(const void *object, const char *what, const char *name)
{
    for (int i = sw_calls_n; i-- > 0;)
        if (has(&calls[i].call->uses, object))
            return refuse(calls[i].call, what, name);
    return SW_OK;
}

sw_status sw_call_may_end(const void *object, const char *what, const char *name)
{
    for (int i = sw_calls_n; i-- > 0;) {
        const sw_call *c = calls[i].call;
        if (has(&c->uses, object) || has(&c->keeps[0], object) || has(&c->keeps[1], object))
            return refuse(c, what, name);
    }
    return SW_OK;
}

/* Whether anything that runs may go on with can be destroyed. Where not the step function that
 * tries it fails. */
static sw_status sw_call_may_end_any(const char *name, const void *frame)
{
    sw_call_unwound(frame);
    int i = sw_calls_n;
    while (i > 0 && !calls[i - 1].call->closed)
        i--;
    if (i == 0)
        return SW_OK;
    sw_call *c = calls[i - 1].call;
    const sw_status status = sw_error_set(
        c->hooks != NULL ? SW_INVALID : SW_BUSY, __FILE__, __LINE__,
        "%s: nothing must be destroyed in a step function, a visitor or a callback of members; "
        "nothing was",
        name);
    if (c->hooks != NULL)
        c->hooks->refused(c, status);
    return status;
}

/* ---- handle ------------------------------------------------------------------------------ */

#define GONE 0x60e90000u /* + the kind */

#define NAME(id, name, heap, kept) {name, heap, kept},
static const struct {
    const char *name;
    sw_heap heap;
    uint32_t kept;
} kinds[] = {SW_HANDLE_LIST(NAME)};

static sw_fork_lock handles_lock = SW_FORK_LOCK;
static struct {
    sw_handle *oldest, *newest;
    uint32_t n;
} gone[SW_HANDLE_KINDS];

static sw_handle *take_oldest(sw_handle_kind kind)
{
    SW_ASSERT((unsigned)kind < SW_HANDLE_KINDS);
    sw_fork_lock_take(&handles_lock);
    sw_handle *h = gone[kind].n >= kinds[kind].kept ? gone[kind].oldest : NULL;
    if (h != NULL) {
        gone[kind].oldest = h->next;
        SW_ASSERT(h->mark == GONE + kind); /* not written since */
        SW_ASSERT(gone[kind].n > 0);
        gone[kind].n--;
    }
    sw_fork_lock_give(&handles_lock);
    return h;
}

static void add_newest(sw_handle *h, sw_handle_kind kind)
{
    SW_ASSERT((unsigned)kind < SW_HANDLE_KINDS);
    SW_ASSERT(h->mark == GONE + kind);
    sw_fork_lock_take(&handles_lock);
    h->next = NULL;
    if (gone[kind].n++ == 0)
        gone[kind].oldest = h;
    else
        gone[kind].newest->next = h;
    gone[kind].newest = h;
    sw_fork_lock_give(&handles_lock);
}

sw_status sw_handle_take_at(void *out, sw_handle_kind kind, size_t bytes, const char *place)
{
    SW_ASSERT((unsigned)kind < SW_HANDLE_KINDS && bytes >= sizeof(sw_handle));
    const sw_heap heap = kinds[kind].heap;
    sw_handle *h = take_oldest(kind);
    if (h == NULL) {
        SW_TRY(sw_heap_alloc_at(&h, heap, bytes, place));
    } else if (swi_fault_hit(SW_FAULT_MEMORY)) {
        add_newest(h, kind);
        SW_FAIL(SW_NOMEM, "heap %s: no memory for %zu bytes", sw_heap_name(heap), bytes);
    } else {
        sw_heap_note_at(h, heap, bytes, place);
    }
    h->next = NULL;
    __atomic_store_n(&h->mark, SW_HANDLE_LIVE + kind, __ATOMIC_RELAXED);
    memcpy(out, &h, sizeof h); /* pointers of all types have one form */
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

/* ---- fork -------------------------------------------------------------------------------- */

/* The three handlers of pthread_atfork, registered when the library is loaded. */

static uint32_t number;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static sw_fork_lock *fork_locks;

static void in_front(void)
{
    pthread_mutex_lock(&list_lock);
    for (sw_fork_lock *x = fork_locks; x != NULL; x = x->next)
        pthread_mutex_lock(&x->mutex);
}

static void in_parent(void)
{
    for (sw_fork_lock *x = fork_locks; x != NULL; x = x->next)
        pthread_mutex_unlock(&x->mutex);
    pthread_mutex_unlock(&list_lock);
}

static void in_child(void)
{
    number++;
    in_parent();
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(in_front, in_parent, in_child);
}

uint32_t sw_fork_number(void)
{
    return __atomic_load_n(&number, __ATOMIC_RELAXED);
}

void sw_fork_lock_take(sw_fork_lock *lock)
{
    if (!__atomic_load_n(&lock->listed, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&list_lock);
        if (!lock->listed) {
            lock->next = fork_locks;
            fork_locks = lock;
            __atomic_store_n(&lock->listed, 1, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&list_lock);
    }
    pthread_mutex_lock(&lock->mutex);
}

void sw_fork_lock_give(sw_fork_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}
