/* The list of claims: a ring around a head of its own, under one lock. */
#include "alloc/base/address_map.h"
#include "alloc/base/fork.h"
#include "alloc/base/heap.h"
#include <stdatomic.h>
#include <string.h>

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
    const sw_address_range claim = {.kind = SW_ADDRESS_HEAP,
                                    .label = sw_heap_name(heap),
                                    .base = base,
                                    .bytes = bytes,
                                    .heap = heap};
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
