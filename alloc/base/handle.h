/* Objects that callers hold pointers to, and may use by mistake after they are destroyed.
 *
 * Each begins with a sw_handle. The memory of a destroyed object is not freed. It is
 * marked and waits at the end of a queue of its kind, so that a pointer to it can be
 * recognised without reading memory that belongs to another object. The oldest is used
 * again once SW_HANDLE_KEPT of its kind wait; none goes back to the heap, so the queue is
 * as long as the most objects that lived at once. Counters of the heap say that they are
 * free. Builds for sanitizers give the memory back, and leave finding to them.
 * Thread-safe. */
#ifndef SW_HANDLE_H
#define SW_HANDLE_H

#include "alloc/base/calls.h"
#include "alloc/base/mem.h"

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
#define sw_handle_take(out, kind, bytes) sw_handle_take_at(out, kind, bytes, SW_SITE)
SW_MUST_USE sw_status sw_handle_take_at(void **out, sw_handle_kind kind, size_t bytes,
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

/* SW_OK where it lives, and no call that goes on uses it (calls.h). */
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

#endif
