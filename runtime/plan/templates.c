/* Templates: what the launches of ops of one kind have in common, which is all but addresses,
 * scratch and attributes. Layers that are alike share them, so that the frame of a deep program
 * needs no more than that of a shallow one. An op is resolved right before it is launched, so
 * one template at a time is in use; an op that is launched together with the next has another
 * kernel, and so another template, than that. */
#include "runtime/plan/program_internal.h"
#include <string.h>

static const swi_node *node_of(const swi_program *p, uint32_t op)
{
    return &p->trace.nodes[p->ops[op].node];
}

static const swi_value *operand(const swi_trace *t, const swi_node *node, uint32_t k)
{
    return &t->values[t->operands[node->first + k]];
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const swi_program *p, uint32_t op)
{
    const swi_node *n = node_of(p, op);
    uint64_t hash = mix((uint64_t)n->op << 32 | (uint32_t)n->grad, n->stream);
    for (uint32_t k = 0; k < n->n_in + n->n_out; k++) {
        const sw_type *type = &operand(&p->trace, n, k)->type;
        for (int d = 0; d < type->shape.rank; d++)
            hash = mix(hash, (uint64_t)type->shape.dim[d]);
    }
    return hash;
}

static bool same_operand(const swi_trace *t, const swi_value *v, const swi_value *w)
{
    int64_t a[SW_MAX_RANK], b[SW_MAX_RANK];
    if (memcmp(&v->type, &w->type, sizeof v->type) != 0)
        return false;
    swi_value_strides(t, v, a);
    swi_value_strides(t, w, b);
    return memcmp(a, b, sizeof a) == 0;
}

static bool alike(const swi_program *p, uint32_t i, uint32_t j)
{
    const swi_trace *t = &p->trace;
    const swi_node *x = node_of(p, i), *y = node_of(p, j);
    if (x->op != y->op || x->grad != y->grad || x->n_in != y->n_in || x->n_out != y->n_out ||
        x->accumulate != y->accumulate || x->stream != y->stream)
        return false;
    for (uint32_t k = 0; k < x->n_in + x->n_out; k++)
        if (!same_operand(t, operand(t, x, k), operand(t, y, k)))
            return false;
    return true;
}

/* The template of op i, which is op i's where it is the first of its kind. */
static uint32_t find(swi_program *p, uint32_t i, uint32_t *slots, uint32_t mask,
                     uint32_t *firsts, uint32_t *n)
{
    uint64_t hash = hash_of(p, i);
    for (;; hash++) {
        uint32_t *slot = &slots[hash & mask];
        if (*slot == 0) {
            firsts[*n] = i;
            *slot = ++*n;
            return *n - 1;
        }
        if (alike(p, firsts[*slot - 1], i))
            return *slot - 1;
    }
}

sw_status swi_program_templates(swi_program *p)
{
    uint32_t cap = 16, n = 0;
    while (cap < 2 * p->n_ops)
        cap *= 2;
    void *block;
    const size_t bytes = ((size_t)cap + p->n_ops) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    uint32_t *slots = block, *firsts = slots + cap;
    for (uint32_t i = 0; i < p->n_ops; i++)
        p->ops[i].like = find(p, i, slots, cap - 1, firsts, &n);
    p->n_templates = n;
    p->n_template_buffers = 0;
    for (uint32_t k = 0; k < n; k++)
        p->n_template_buffers += node_of(p, firsts[k])->n_in + node_of(p, firsts[k])->n_out;
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return SW_OK;
}
