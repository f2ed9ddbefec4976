/* Arenas and budgets.
 *
 * An arena hands out ranges of one store. Two ways of use, never mixed between two resets:
 *   push   bump allocation: immediate mode, model arenas, loaders
 *   place  ranges at offsets that a plan has chosen: planned runs
 * reset() is O(1) and gives everything back. An arena belongs to one
 * thread at a time; a budget may be shared by any number of threads. */
#pragma once

#include "alloc/base/address_map.h"
#include "alloc/base/base.h"
#include "alloc/arena/observer.h"
#include "alloc/arena/store.h"

typedef struct sw_budget sw_budget;
typedef struct sw_arena sw_arena;

/* A hard limit in bytes, shared by whatever reserves from it. Atomic, lock-free. */
SW_MUST_USE sw_status sw_budget_new(sw_budget **out, size_t bytes);
/* NULL is fine. Arenas that are under it go on, and the last one gives its memory back. */
void sw_budget_free(sw_budget *budget);
void sw_budget_share(sw_budget *budget);
void sw_budget_leave(sw_budget *budget);
/* SW_NOMEM with the numbers when it does not fit; then nothing has changed. budget NULL: no
 * limit, always fits. `label` is for the message. */
SW_MUST_USE sw_status sw_budget_take(sw_budget *budget, size_t bytes, const char *label);
void sw_budget_give(sw_budget *budget, size_t bytes);
size_t sw_budget_limit(const sw_budget *budget); /* SIZE_MAX for NULL */
size_t sw_budget_used(const sw_budget *budget);
/* How many of the bytes that are used are batch slots of loaders: arenas of the host with use
 * SW_ARENA_DATA state theirs. The count is for figures; nothing is refused by it. */
size_t sw_budget_slots(const sw_budget *budget);

typedef struct {
    const char *label;    /* kept, must outlive the arena */
    sw_store *store;      /* the arena owns it; it ends where none is made */
    sw_budget *budget;    /* NULL: none; shared until the arena ends */
    sw_observer observer; /* may be empty */
    sw_arena_use use;
} sw_arena_opts;

SW_MUST_USE sw_status sw_arena_create(sw_arena **out, const sw_arena_opts *opts);
void sw_arena_destroy(sw_arena *arena); /* NULL is fine */

/* Grow what is promised to this arena to at least `height` bytes (rounded up to SW_ALIGN):
 * reserved in the budget at once, committed in the store when `commit`. Never shrinks. A
 * refusal (SW_NOMEM) changes nothing and is an event. Pushing grows it by itself. */
SW_MUST_USE sw_status sw_arena_grow(sw_arena *arena, size_t height, bool commit);

/* Take `bytes` at an address divisible by SW_ALIGN; the top moves by bytes rounded up to
 * SW_ALIGN (and a red zone in builds with checks >= 1, which no count includes).
 *
 * out    receives the address; untouched on failure
 * bytes  0 is allowed and yields a valid, unreadable address
 * label  names the range in events; kept until the next reset
 *
 * Owner: the arena. Fails with SW_NOMEM past the budget or the store; the arena is then
 * unchanged. */
SW_MUST_USE sw_status sw_arena_push(sw_arena *arena, void **out, size_t bytes,
                                    const char *label);

void sw_arena_reset(sw_arena *arena);

/* State that the planned range [offset, offset+bytes) becomes live (bytes is rounded up to
 * SW_ALIGN), or dies. Inside the grown height, else SW_INVALID; what is not committed yet is,
 * or SW_NOMEM. With checks the range is unpoisoned or poisoned. */
SW_MUST_USE sw_status sw_arena_place(sw_arena *arena, size_t offset, size_t bytes, uint32_t id);
void sw_arena_release(sw_arena *arena, size_t offset, size_t bytes, uint32_t id);

unsigned char *sw_arena_base(const sw_arena *arena);
size_t sw_arena_live(const sw_arena *arena);   /* rounded bytes of live ranges */
size_t sw_arena_height(const sw_arena *arena); /* promised by sw_arena_grow */
sw_store *sw_arena_store(const sw_arena *arena);
sw_budget *sw_arena_budget(const sw_arena *arena); /* NULL: none */
