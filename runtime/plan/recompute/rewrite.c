/* Repeats become nodes of the trace. */
#include "alloc/base/assert.h"
#include "runtime/plan/recompute/pass.h"
#include "alloc/base/mem.h"
#include "runtime/graph/trace_internal.h"
#include <string.h>

typedef struct {
    swi_trace *t;
    uint32_t *storage; /* by plain storage: what its last run left */
    uint32_t *value;   /* by plain value: the same for the last that was asked for */
    uint32_t *operand; /* the plain ones: those of a first run change where it reads a repeat */
    uint8_t again;
} writer;

static sw_status add_storage(writer *w, uint32_t of, uint32_t *out)
{
    swi_trace *t = w->t;
    void *p = t->storages;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_storages, t->n_storages + 1,
                           sizeof *t->storages));
    t->storages = p;
    t->storages[t->n_storages] = t->storages[of];
    t->storages[t->n_storages].alias = t->n_storages;
    *out = t->n_storages++;
    return SW_OK;
}

static sw_status add_value(writer *w, uint32_t of, uint32_t storage, uint32_t *out)
{
    swi_trace *t = w->t;
    void *p = t->values;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &t->cap_values, t->n_values + 1,
                           sizeof *t->values));
    t->values = p;
    t->values[t->n_values] = t->values[of];
    t->values[t->n_values].storage = storage;
    *out = t->n_values++;
    return SW_OK;
}

/* The plain value as the last run of its maker left it. */
static sw_status present(writer *w, uint32_t value, uint32_t *out)
{
    const uint32_t storage = w->storage[w->t->values[value].storage];
    if (w->t->values[w->value[value]].storage != storage)
        SW_TRY(add_value(w, value, storage, &w->value[value]));
    *out = w->value[value];
    return SW_OK;
}

static sw_status read_present(writer *w, uint32_t first, uint32_t plain, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t value;
        SW_TRY(present(w, w->operand[plain + k], &value));
        w->t->operands[first + k] = value;
    }
    return SW_OK;
}

/* A second run of `plain`, before node `before`: of its phase, and a part of the gradient
 * that it makes. */
static sw_status repeat(writer *w, uint32_t plain, uint32_t before, uint32_t *out)
{
    swi_trace *t = w->t;
    swi_node node = t->nodes[plain];
    const sw_phase phase = t->nodes[before].phase;
    const uint32_t from = node.first;
    SW_TRY(swi_reserve_nodes(t));
    SW_TRY(swi_reserve_operands(t, node.n_in + node.n_out));
    node.first = t->n_operands;
    node.phase = phase;
    node.is_backward = 1;
    node.again = w->again;
    node.again_of = plain;
    node.gradient_of = t->nodes[before].gradient_of;
    SW_TRY(read_present(w, node.first, from, node.n_in));
    for (uint32_t k = 0; k < node.n_out; k++) {
        const uint32_t value = w->operand[from + node.n_in + k];
        const uint32_t old = t->values[value].storage;
        SW_TRY(add_storage(w, old, &w->storage[old]));
        t->storages[w->storage[old]].phase = phase;
        SW_TRY(add_value(w, value, w->storage[old], &w->value[value]));
        t->values[w->value[value]].node = t->n_nodes;
        t->operands[node.first + node.n_in + k] = w->value[value];
    }
    if (node.scratch != SWI_NONE) {
        SW_TRY(add_storage(w, node.scratch, &node.scratch));
        t->storages[node.scratch].phase = phase;
    }
    t->n_operands += node.n_in + node.n_out;
    SW_ASSERT(plain < t->n_nodes && before < t->n_nodes && t->n_operands <= t->cap_operands);
    *out = t->n_nodes;
    t->nodes[t->n_nodes++] = node;
    return SW_OK;
}

static sw_status rewrite(writer *w, const uint32_t *plain_order, const swi_rc_schedule *s,
                         uint32_t *order)
{
    swi_trace *t = w->t;
    uint32_t first = 0;
    bool any = false;
    for (uint32_t i = 0; i < s->n_steps; i++) {
        if (s->steps[i] < first) {
            any = true;
            SW_TRY(repeat(w, plain_order[s->steps[i]], plain_order[first], &order[i]));
            continue;
        }
        order[i] = plain_order[first++];
        const swi_node *node = &t->nodes[order[i]];
        if (any)
            SW_TRY(read_present(w, node->first, node->first, node->n_in));
    }
    SW_ASSERT(first + s->repeats == s->n_steps);
    return SW_OK;
}

sw_status swi_rc_rewrite(swi_trace *t, const uint32_t *plain_order, const swi_rc_schedule *s,
                         uint8_t again, uint32_t *order)
{
    void *block;
    const size_t bytes =
        ((size_t)t->n_storages + t->n_values + t->n_operands) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    writer w = {.t = t, .storage = block, .again = again};
    w.value = w.storage + t->n_storages;
    w.operand = w.value + t->n_values;
    if (t->n_operands > 0)
        memcpy(w.operand, t->operands, t->n_operands * sizeof *w.operand);
    for (uint32_t i = 0; i < t->n_storages; i++)
        w.storage[i] = i;
    for (uint32_t i = 0; i < t->n_values; i++)
        w.value[i] = i;
    const sw_status status = rewrite(&w, plain_order, s, order);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}
