/* The calls of the library that go on on a thread while a callback of theirs runs, and the
 * objects that they use. A callback that asks such an object for what it must not do gets
 * SW_BUSY. Records lie with those who call: nothing is allocated. */
#pragma once

#include "alloc/base/base.h"
#include "alloc/base/mem.h"
#include <pthread.h>

typedef struct sw_call sw_call;

/* Of calls whose callback may be left by longjmp: their records are where they outlive that. */
typedef struct {
    void (*unwound)(sw_call *call); /* by longjmp: give back what it owns, and end it */
    void (*refused)(sw_call *call, sw_status status); /* its step function fails by this */
} sw_call_hooks;

typedef struct {
    const void *const *at;
    size_t n;
} sw_call_objects;
/* One of them, by a pointer to it. */
#define SW_CALL_ONE(object)                                                                    \
    {                                                                                          \
        (const void *const *)(const void *)&(object), 1                                        \
    }

/* Zero at first, but for what the caller says. */
struct sw_call {
    const char *name, *callback; /* "sw_es_step", "shape"; callback NULL: any of them */
    sw_call_objects uses;        /* they are looked at, and nothing else */
    sw_call_objects keeps[2];    /* they are not destroyed */
    bool closed;                 /* nothing that runs need is destroyed: what they use
                                    is not known to its last object */
    const sw_call_hooks *hooks;  /* NULL: no longjmp */
    uint64_t said;               /* failures of the thread before it */
};

#define SW_FRAME __builtin_frame_address(0)
/* Of functions that begin a call as a part of another one, or check objects in one: their frame
 * is below its frame. */
#define SW_FRAME_OWN __attribute__((noinline))
/* Of inline functions: their frame is the caller's. */
#define SW_FRAME_CALLER __attribute__((always_inline))

extern _Thread_local int sw_calls_n; /* that go on on this thread; for sw_handle_check */

/* `call` goes on, in the function with this frame, and a callback may run. SW_BUSY where too
 * many are nested: a callback makes the call that it is called by. */
SW_MUST_USE sw_status sw_call_begin(sw_call *call, const void *frame);
/* `call` has ended. Returns the status of its callback: `status`, or SW_INVALID where that is
 * no sw_status. A failure without a reason gets one. */
sw_status sw_call_end(sw_call *call, sw_status status);
/* A status as a callback gave it. said: sw_error_count() before it was called. */
sw_status sw_call_status(sw_status status, uint64_t said, const char *who);
/* A function with this frame is called: calls on this thread with frames that are gone were
 * left by longjmp, or by an exception, out of a step function. All that they own is given
 * back. */
void sw_call_unwound(const void *frame);

/* Whether `name` may use the object, which messages call `what`, for more than a look; whether
 * it may destroy it, which all calls that use or keep it forbid. Calls of other threads are not
 * asked. */
sw_status sw_call_may_use(const void *object, const char *what, const char *name);
sw_status sw_call_may_end(const void *object, const char *what, const char *name);

/* ---- handle ------------------------------------------------------------------------------ */

/* Objects that callers hold pointers to, and may use by mistake after they are destroyed.
 *
 * Each begins with a sw_handle. The memory of a destroyed object is not freed. It is marked and
 * waits at the end of a queue of its kind, so that a pointer to it can be recognised without
 * reading memory that belongs to another object. The oldest is used again once SW_HANDLE_KEPT
 * of its kind wait; none goes back to the heap, so the queue is as long as the most objects
 * that lived at once. Counters of the heap say that they are free. Builds for sanitizers give
 * the memory back, and leave finding to them. Thread-safe. */

#define SW_HANDLE_KEPT 64      /* the largest but profiles has some 10 KB */
#define SW_HANDLE_KEPT_LARGE 4 /* profiles: 70 KB */

/* kind, how messages call one, its heap, how many wait */
#define SW_HANDLE_LIST(X)                                                                      \
    X(BUDGET, "budget", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                       \
    X(EXEC, "exec", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                           \
    X(MODEL, "model", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                         \
    X(OPTIMIZER, "optimizer", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                 \
    X(PROFILE, "profile", SW_HEAP_PROFILE, SW_HANDLE_KEPT_LARGE)                               \
    X(DATASET, "data set", SW_HEAP_DATASETS, SW_HANDLE_KEPT)                                   \
    X(LOADER, "loader", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                       \
    X(CHECKPOINT, "checkpoint", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                               \
    X(FEED, "feed", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                           \
    X(MEMBERS, "group of members", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                            \
    X(SPACE, "space", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                         \
    X(PBT, "population", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                      \
    X(ES, "evolution strategy", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                               \
    X(ZO, "zeroth-order trainer", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                             \
    X(GENOME, "genome", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                       \
    X(SEARCH_SPACE, "search space", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                           \
    X(RANKS, "ranks", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                         \
    X(NET, "net", SW_HEAP_RECORDS, SW_HANDLE_KEPT)                                             \
    X(EVOLUTION, "evolution", SW_HEAP_RECORDS, SW_HANDLE_KEPT)
#define SW_HANDLE_ENUM(id, name, heap, kept) SW_HANDLE_##id,
typedef enum { SW_HANDLE_LIST(SW_HANDLE_ENUM) SW_HANDLE_KINDS } sw_handle_kind;

typedef struct sw_handle {
    uint32_t mark;       /* of a live object of its kind, or of one that is gone */
    uint32_t generation; /* of the memory: how many objects were there before */
    struct sw_handle *next;
} sw_handle;

/* As sw_heap_alloc and sw_heap_free; `bytes` is the same for all of a kind. The first member is
 * filled. Who gives it back has given back all that it owns: what remains is made zero. */
#define sw_handle_take(out, kind, bytes)                                                       \
    sw_handle_take_at(SW_POINTER(out), kind, bytes, SW_SITE)
SW_MUST_USE sw_status sw_handle_take_at(void *out, sw_handle_kind kind, size_t bytes,
                                        const char *place);
void sw_handle_give(void *object, sw_handle_kind kind, size_t bytes);
/* For callers it is gone from here on; its memory is used by others, who give it back. */
void sw_handle_end(void *object, sw_handle_kind kind);

#define SW_HANDLE_LIVE 0x57e90000u /* + the kind; any number that memory seldom has */

/* NULL does not live. */
static inline bool sw_handle_lives(const void *object, sw_handle_kind kind)
{
    return object != NULL && __atomic_load_n(&((const sw_handle *)object)->mark,
                                             __ATOMIC_RELAXED) == SW_HANDLE_LIVE + kind;
}

/* Is it still the object that had this generation? */
static inline bool sw_handle_is(const void *object, sw_handle_kind kind, uint32_t generation)
{
    return sw_handle_lives(object, kind) &&
           ((const sw_handle *)object)->generation == generation;
}

/* Record why an object that does not live is none, with the call in front: SW_INVALID. */
sw_status sw_handle_refuse(const void *object, sw_handle_kind kind, const char *call);

/* SW_OK where it lives, whoever uses it: for calls that only look at it. */
static inline sw_status sw_handle_look(const void *object, sw_handle_kind kind,
                                       const char *call)
{
    return sw_handle_lives(object, kind) ? SW_OK : sw_handle_refuse(object, kind, call);
}

/* SW_OK where it lives, and no call that goes on uses it (above). */
sw_status sw_handle_check_calls(const void *object, sw_handle_kind kind, const char *call,
                                const void *frame);
SW_FRAME_CALLER static inline sw_status sw_handle_check(const void *object, sw_handle_kind kind,
                                                        const char *call)
{
    return sw_calls_n == 0 ? sw_handle_look(object, kind, call)
                           : sw_handle_check_calls(object, kind, call, SW_FRAME);
}

/* For destroy functions, to which NULL is fine: false where there is nothing to destroy. An
 * object that is gone already, or in use by a call that goes on, is recorded. */
#define sw_handle_ends(object, kind, call)                                                     \
    ((object) != NULL && sw_handle_may_end(object, kind, call, SW_FRAME) == SW_OK)
/* Of an object that is not NULL. frame: of the destroy function, SW_FRAME. */
sw_status sw_handle_may_end(const void *object, sw_handle_kind kind, const char *call,
                            const void *frame);

/* A fork leaves of a process with threads the caller's thread alone, and every lock as it was.
 * Objects with threads keep the number of the process that they were made in, and are not used
 * in another; the library's own locks are free in the child. */

/* How often this process was forked off: a number of its own for each process of a line. No
 * system call. */
uint32_t sw_fork_number(void);

/* A lock that no other thread holds after a fork. On first use it joins a list. All locks of
 * the list are taken before a fork, in the order of the list. Hold none while taking one. */
typedef struct sw_fork_lock {
    pthread_mutex_t mutex;
    int listed; /* once */
    struct sw_fork_lock *next;
} sw_fork_lock;
#define SW_FORK_LOCK                                                                           \
    {                                                                                          \
        PTHREAD_MUTEX_INITIALIZER, 0, NULL                                                     \
    }
void sw_fork_lock_take(sw_fork_lock *lock);
void sw_fork_lock_give(sw_fork_lock *lock);
