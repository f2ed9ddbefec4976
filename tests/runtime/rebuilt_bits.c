/* Recomputed results stand beside the first ones where no storage overlays another. */
#include "tests/runtime/rebuilt_bits.h"
#include "runtime/verify/witness_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    swi_witness w;
    swi_regions regions;
    uint32_t *first; /* by storage: the forward part's, of a recomputed one; else itself */
    bool plant;
    rebuilt_bits *to;
} session;

static const swi_value *operand(const swi_trace *t, const swi_node *node, uint32_t k)
{
    return &t->values[t->operands[node->first + k]];
}

/* The same kernel on the same operands. */
static bool is_first_run(const session *s, const swi_node *a, const swi_node *again)
{
    const swi_trace *t = &s->w.program->trace;
    bool same = a->again == 0 && !a->is_backward && !a->is_view && a->op == again->op &&
                a->grad < 0 && a->attrs == again->attrs && a->stream == again->stream &&
                a->n_in == again->n_in && a->n_out == again->n_out;
    for (uint32_t k = 0; same && k < a->n_in; k++) {
        const swi_value *x = operand(t, a, k), *y = operand(t, again, k);
        same = s->first[x->storage] == s->first[y->storage] && x->offset == y->offset;
    }
    return same;
}

static const swi_node *first_run(const session *s, const swi_node *again)
{
    const swi_program *p = s->w.program;
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (is_first_run(s, &p->trace.nodes[p->ops[i].node], again))
            return &p->trace.nodes[p->ops[i].node];
    return NULL;
}

/* NULL where no one reads the result. */
static unsigned char *bytes_of(const session *s, const swi_value *v)
{
    const uint32_t region = s->regions.of[v->storage];
    return region == SWI_NONE ? NULL
                              : s->regions.base + s->regions.regions[region].at + v->offset;
}

static void compare(session *s, const swi_node *node, const swi_node *first)
{
    const swi_trace *t = &s->w.program->trace;
    for (uint32_t k = node->n_in; k < node->n_in + node->n_out; k++) {
        const swi_value *v = operand(t, node, k);
        unsigned char *is = bytes_of(s, v), *was = bytes_of(s, operand(t, first, k));
        const size_t bytes = sw_type_bytes(&v->type);
        char name[96];
        s->first[v->storage] = s->first[operand(t, first, k)->storage];
        if (is == NULL || was == NULL || bytes == 0)
            continue;
        was[bytes / 2] ^= s->plant;
        s->to->results++;
        s->to->bytes += bytes;
        if (memcmp(is, was, bytes) != 0 && s->to->differ++ == 0)
            snprintf(s->to->first, sizeof s->to->first, "%s: %zu bytes of output %u differ",
                     swi_node_name(t, node, name, sizeof name), bytes, k - node->n_in);
        was[bytes / 2] ^= s->plant;
    }
}

static sw_status after_op(void *context, uint32_t op)
{
    session *s = context;
    const swi_trace *t = &s->w.program->trace;
    const swi_node *node = &t->nodes[s->w.program->ops[op].node];
    if (node->again == 0 && !node->is_backward && !node->is_update && !node->writes_model) {
        /* Forward ops may do the same twice: what both leave counts as one. */
        const swi_node *first = first_run(s, node);
        for (uint32_t k = node->n_in; first != NULL && k < node->n_in + node->n_out; k++)
            s->first[operand(t, node, k)->storage] = s->first[operand(t, first, k)->storage];
    }
    if (node->again != SWI_AGAIN_REBUILT)
        return SW_OK;
    char name[96];
    const swi_node *first = first_run(s, node);
    if (first != NULL)
        compare(s, node, first);
    else if (s->to->unknown++ == 0)
        snprintf(s->to->first, sizeof s->to->first, "%s: no op of the forward part",
                 swi_node_name(t, node, name, sizeof name));
    return SW_OK;
}

sw_status rebuilt_bits_compare(sw_exec *exec, const sw_run_args *args, bool plant,
                               rebuilt_bits *out)
{
    session s = {
        .w = {.exec = exec, .program = exec->last, .frame = exec->last_frame, .args = args},
        .plant = plant};
    const swi_trace *t = &exec->last->trace;
    uint32_t *both = malloc(2 * ((size_t)t->n_storages + 1) * sizeof *both);
    memset(out, 0, sizeof *out);
    if (both == NULL)
        SW_FAIL(SW_NOMEM, "no memory");
    s.w.root = both;
    s.first = both + t->n_storages;
    for (uint32_t i = 0; i < t->n_storages; i++) {
        uint32_t root = i;
        while (t->storages[root].alias != root)
            root = t->storages[root].alias;
        s.w.root[i] = root;
        s.first[i] = i;
    }
    s.to = out;
    sw_status status =
        swi_regions_create(&s.regions, &s.w, SWI_REGIONS_HEAD | SWI_REGIONS_APART);
    if (status == SW_OK) {
        const swi_hooks hooks = {.context = &s, .after = after_op};
        swi_regions_fill(&s.regions, 0xff);
        status = swi_regions_run(&s.w, &s.regions, &hooks);
    }
    swi_regions_free(&s.regions);
    free(both);
    return status;
}
