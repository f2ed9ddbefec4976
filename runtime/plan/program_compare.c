/* Are two traces the same program? */
#include "runtime/plan/program.h"
#include <string.h>

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}

/* A finished program is compared with a fresh trace: what passes have changed (the phase of a
 * released update, what an in-place result's root must outlive) is not looked at; names_differ
 * has the latter. */
static bool same_type(const sw_type *a, const sw_type *b)
{
    return a->dtype == b->dtype && a->layout == b->layout && a->shape.rank == b->shape.rank &&
           memcmp(a->shape.dim, b->shape.dim, (size_t)a->shape.rank * sizeof a->shape.dim[0]) ==
               0;
}

static bool same_strides(const swi_trace *a, const swi_value *v, const swi_trace *b,
                         const swi_value *w)
{
    int64_t x[SW_MAX_RANK], y[SW_MAX_RANK];
    swi_value_strides(a, v, x);
    swi_value_strides(b, w, y);
    return memcmp(x, y, sizeof x) == 0;
}

static bool node_differs(const swi_trace *a, const swi_trace *b, uint32_t n)
{
    const swi_node *x = &a->nodes[n], *y = &b->nodes[n];
    if (x->op != y->op || x->grad != y->grad || x->n_in != y->n_in || x->n_out != y->n_out ||
        x->accumulate != y->accumulate || x->null_out != y->null_out ||
        (x->phase != y->phase && x->release != SWI_RELEASED) || x->stream != y->stream ||
        x->kernel != y->kernel || x->is_update != y->is_update || x->release != y->release ||
        strcmp(swi_string(a, x->layer), swi_string(b, y->layer)) != 0 ||
        (swi_op(x->op)->attrs_bytes > 0 &&
         memcmp(a->attrs + x->attrs, b->attrs + y->attrs, swi_op(x->op)->attrs_bytes) != 0) ||
        memcmp(a->operands + x->first, b->operands + y->first,
               (x->n_in + x->n_out) * sizeof(uint32_t)) != 0)
        return true;
    for (uint32_t i = 0; i < x->n_in + x->n_out; i++) {
        const swi_value *v = &a->values[a->operands[x->first + i]];
        const swi_value *w = &b->values[b->operands[y->first + i]];
        const swi_storage *s = &a->storages[v->storage], *r = &b->storages[w->storage];
        if (v->storage != w->storage || v->offset != w->offset || v->version != w->version ||
            !same_type(&v->type, &w->type) || !same_strides(a, v, b, w) ||
            s->bytes != r->bytes || s->segment != r->segment || s->entry != r->entry ||
            (s->segment >= SWI_SEG_MODEL && s->offset != r->offset))
            return true;
    }
    return false;
}

static bool names_differ(const swi_named *a, uint32_t n, const swi_named *b, uint32_t m)
{
    if (n != m)
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (a[i].value != b[i].value || strcmp(a[i].name, b[i].name) != 0)
            return true;
    return false;
}

uint32_t swi_trace_differs(const swi_trace *a, const swi_trace *b)
{
    const uint32_t n = a->n_nodes < b->n_nodes ? a->n_nodes : b->n_nodes;
    for (uint32_t i = 0; i < n; i++)
        if (node_differs(a, b, i))
            return i;
    if (a->n_nodes != b->n_nodes ||
        names_differ(a->metrics, a->n_metrics, b->metrics, b->n_metrics) ||
        names_differ(a->outputs, a->n_outputs, b->outputs, b->n_outputs))
        return n;
    return SWI_NONE;
}

uint64_t swi_trace_hash(const swi_trace *t)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const swi_node *n = &t->nodes[i];
        const uint32_t words[] = {n->op, (uint32_t)n->grad, n->n_in, n->n_out, n->accumulate};
        hash = mix(hash, words, sizeof words);
        for (uint32_t k = 0; k < n->n_in + n->n_out; k++) {
            const swi_value *v = &t->values[t->operands[n->first + k]];
            hash = mix(hash, v->type.shape.dim, (size_t)v->type.shape.rank * sizeof(int64_t));
        }
    }
    return hash;
}

sw_status swi_program_traced(const swi_program *p, swi_trace *room, const swi_trace **out)
{
    *out = &p->trace;
    if (p->traced.words == NULL)
        return SW_OK;
    *out = room;
    return swi_unpack(room, &p->traced, &p->trace);
}

sw_status swi_programs_equal(const swi_program *a, const swi_program *b, bool *equal)
{
    swi_trace x = {0}, y = {0};
    const swi_trace *as = NULL, *bs = NULL;
    sw_status status = swi_program_traced(a, &x, &as);
    if (status == SW_OK)
        status = swi_program_traced(b, &y, &bs);
    *equal = status == SW_OK && swi_trace_differs(as, bs) == SWI_NONE;
    swi_trace_free(&x);
    swi_trace_free(&y);
    return status;
}
