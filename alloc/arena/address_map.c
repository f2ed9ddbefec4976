/* The list of claims: a ring around a head of its own, under one lock. */
#include "alloc/arena/address_map.h"
#include "alloc/base/fork.h"
#include "alloc/base/heap.h"
#include <stdatomic.h>
#include <string.h>

static sw_fork_lock lock = SW_FORK_LOCK;
static swi_claimant head = {&head, &head, NULL};
static atomic_uint_fast64_t version;

void swi_claims_changed(void)
{
    atomic_fetch_add_explicit(&version, 1, memory_order_relaxed);
}

uint64_t sw_claims_version(void)
{
    return atomic_load_explicit(&version, memory_order_relaxed);
}

void swi_claims_enter(swi_claimant *c,
                      bool (*describe)(const swi_claimant *self, sw_claim *out))
{
    c->describe = describe;
    sw_fork_lock_take(&lock);
    c->next = head.next;
    c->before = &head;
    c->next->before = c;
    head.next = c;
    sw_fork_lock_give(&lock);
    swi_claims_changed();
}

void swi_claims_leave(swi_claimant *c)
{
    sw_fork_lock_take(&lock);
    c->before->next = c->next;
    c->next->before = c->before;
    sw_fork_lock_give(&lock);
    swi_claims_changed();
}

typedef struct {
    void (*visit)(void *context, const sw_claim *claim);
    void *context;
} visitor;

static void visit_heap(void *context, sw_heap heap, uintptr_t base, size_t bytes)
{
    const visitor *v = context;
    const sw_claim claim = {.kind = SW_CLAIM_HEAP,
                            .label = sw_heap_name(heap),
                            .base = base,
                            .bytes = bytes,
                            .heap = heap};
    v->visit(v->context, &claim);
}

/* Arenas and stacks. */
static void visit_listed(void (*visit)(void *context, const sw_claim *claim), void *context)
{
    sw_fork_lock_take(&lock);
    for (const swi_claimant *c = head.next; c != &head; c = c->next) {
        sw_claim claim = {0};
        if (c->describe(c, &claim))
            visit(context, &claim);
    }
    sw_fork_lock_give(&lock);
}

void sw_claims_visit(void (*visit)(void *context, const sw_claim *claim), void *context)
{
    visit_listed(visit, context);
    visitor v = {visit, context};
    swi_heap_ranges(visit_heap, &v);
}

static void add_arena(void *context, const sw_claim *claim)
{
    size_t *bytes = context;
    if (claim->kind == SW_CLAIM_ARENA)
        bytes[claim->use] += claim->promised_bytes;
}

void sw_claims_arenas(size_t bytes[SW_ARENA_USES])
{
    memset(bytes, 0, SW_ARENA_USES * sizeof *bytes);
    visit_listed(add_arena, bytes);
}

size_t sw_heap_unclaimed_bytes(void)
{
    return swi_heap_unclaimed_bytes();
}
