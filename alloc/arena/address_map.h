/* Which address ranges of the process are ours, and whose: the stores of arenas, the stacks of
 * threads, and what the heap has mapped for each purpose. Arenas and threads enter themselves;
 * a claim costs nothing until somebody asks. */
#ifndef SW_CLAIMS_H
#define SW_CLAIMS_H

#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include <stdbool.h>

typedef enum { SW_CLAIM_ARENA, SW_CLAIM_STACK, SW_CLAIM_HEAP } sw_claim_kind;

typedef struct {
    sw_claim_kind kind;
    const char *label; /* of the arena, the thread, or the heap's purpose */
    uintptr_t base;
    size_t bytes;           /* addresses, with those that have no memory yet */
    size_t promised_bytes;  /* height of an arena; else 0 */
    size_t committed_bytes; /* that the store of an arena has memory for */
    const void *device;     /* the owner of its memory (store.h), which then has no base here */
    sw_heap heap;           /* of SW_CLAIM_HEAP */
    sw_arena_use use;       /* of SW_CLAIM_ARENA */
} sw_claim;

/* Every claim, in no order. What is shown of an arena that another thread works with may be
 * out of date. `visit` may allocate nothing, nor create or destroy arenas or threads. */
void sw_claims_visit(void (*visit)(void *context, const sw_claim *claim), void *context);

/* What the arenas of the process were promised, by their use. */
void sw_claims_arenas(size_t bytes[SW_ARENA_USES]);
/* Another number whenever an arena or thread came, went or grew. */
uint64_t sw_claims_version(void);

/* Addresses that the heap's backend has mapped besides the claims, for the program's own malloc
 * and for its records, as it says itself. 0 where it cannot say. */
size_t sw_heap_unclaimed_bytes(void);

/* For arenas and threads: a place in the list, inside of what makes the claim. */
typedef struct swi_claimant {
    struct swi_claimant *next, *before;
    bool (*describe)(const struct swi_claimant *self, sw_claim *out); /* false: none now */
} swi_claimant;
void swi_claims_enter(swi_claimant *c,
                      bool (*describe)(const swi_claimant *self, sw_claim *out));
void swi_claims_leave(swi_claimant *c);
void swi_claims_changed(void); /* an arena grew */

#endif
