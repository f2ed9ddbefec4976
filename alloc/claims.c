/* The list of claims: a ring around a head of its own, under one lock. */
#include "alloc/claims.h"
#include "alloc/heap.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static swi_claimant head = {&head, &head, NULL};

void swi_claims_enter(swi_claimant *c,
                      bool (*describe)(const swi_claimant *self, sw_claim *out))
{
    c->describe = describe;
    pthread_mutex_lock(&lock);
    c->next = head.next;
    c->before = &head;
    c->next->before = c;
    head.next = c;
    pthread_mutex_unlock(&lock);
}

void swi_claims_leave(swi_claimant *c)
{
    pthread_mutex_lock(&lock);
    c->before->next = c->next;
    c->next->before = c->before;
    pthread_mutex_unlock(&lock);
}

typedef struct {
    void (*visit)(void *context, const sw_claim *claim);
    void *context;
} visitor;

static void visit_heap(void *context, sw_heap heap, uintptr_t base, size_t bytes)
{
    const visitor *v = context;
    const sw_claim claim = {SW_CLAIM_HEAP, sw_heap_name(heap), base, bytes, 0, heap};
    v->visit(v->context, &claim);
}

void sw_claims_visit(void (*visit)(void *context, const sw_claim *claim), void *context)
{
    pthread_mutex_lock(&lock);
    for (const swi_claimant *c = head.next; c != &head; c = c->next) {
        sw_claim claim = {0};
        if (c->describe(c, &claim))
            visit(context, &claim);
    }
    pthread_mutex_unlock(&lock);
    visitor v = {visit, context};
    swi_heap_ranges(visit_heap, &v);
}

size_t sw_heap_unclaimed_bytes(void)
{
    return swi_heap_unclaimed_bytes();
}
