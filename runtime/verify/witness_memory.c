/* Rooms: one address range in which every storage of a program has pages of its own between two
 * guard pages, so that an access shows which storage it is of, and nothing overlays it. Models
 * and inputs are copies: no witness writes to the caller's. */
#include "alloc/base/size.h"
#include "runtime/verify/witness_internal.h"
#include <string.h>

#define NO_SCRATCH_PAGES 256 /* space for a workspace that is not in the plan */

static bool takes_region(const swi_witness *w, uint32_t s, int how)
{
    const swi_storage *x = &w->program->trace.storages[s];
    return ((how & SWI_REGIONS_APART) != 0 || w->root[s] == s) &&
           (x->segment != SWI_SEG_STEP || x->birth != SWI_NONE);
}

static const unsigned char *origin_of(const swi_witness *w, const swi_storage *s)
{
    if (s->segment == SWI_SEG_STEP)
        return NULL;
    if (s->segment < SWI_SEG_MODEL)
        return w->args->inputs[s->segment - SWI_SEG_INPUT].data;
    return w->args->models[s->segment - SWI_SEG_MODEL]->base + s->offset;
}

/* Append a region; the range grows by its pages and one guard on each side. */
static sw_status add_region(swi_regions *r, swi_region region, int how)
{
    const size_t page = sw_page_bytes();
    const size_t holds =
        region.rounded > region.bytes ? region.rounded : sw_size_round(region.bytes);
    size_t pages;
    if (!sw_size_align(holds > 0 ? holds : 1, page, &pages) ||
        !sw_size_add(r->bytes, page, &region.from) ||
        !sw_size_add(region.from, pages, &region.to) ||
        !sw_size_add(region.to, page, &r->bytes))
        SW_FAIL(SW_NOMEM, "witness: the bytes of all storages overflow");
    /* After the rounded bytes comes the guard, also where the plan rounds too far down. */
    region.at = (how & SWI_REGIONS_TAIL) == 0 ? region.from : region.to - region.rounded;
    if (region.at < region.from)
        region.at = region.from;
    r->regions[r->n_regions++] = region;
    return SW_OK;
}

static sw_status lay_out(swi_regions *r, const swi_witness *w, int how)
{
    const swi_trace *t = &w->program->trace;
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const swi_storage *x = &t->storages[s];
        r->of[s] = SWI_NONE;
        if (!takes_region(w, s, how))
            continue;
        r->of[s] = r->n_regions;
        const swi_region_kind kind = x->segment == SWI_SEG_STEP   ? SWI_REGION_STEP
                                     : x->segment < SWI_SEG_MODEL ? SWI_REGION_INPUT
                                                                  : SWI_REGION_MODEL;
        SW_TRY(add_region(r,
                          (swi_region){.storage = s,
                                       .kind = kind,
                                       .bytes = x->bytes,
                                       .rounded = x->rounded,
                                       .origin = origin_of(w, x)},
                          how));
    }
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (r->of[s] == SWI_NONE)
            r->of[s] = r->of[w->root[s]];
    const size_t none = NO_SCRATCH_PAGES * sw_page_bytes();
    return add_region(
        r,
        (swi_region){
            .storage = SWI_NONE, .kind = SWI_REGION_NONE, .bytes = none, .rounded = none},
        SWI_REGIONS_HEAD);
}

static swi_bind bind_value(const swi_regions *r, const swi_trace *t, uint32_t value)
{
    const swi_value *v = &t->values[value];
    return (swi_bind){SWI_SEG_STEP, r->regions[r->of[v->storage]].at + v->offset};
}

static void bind_ops(swi_regions *r, const swi_program *p)
{
    const swi_trace *t = &p->trace;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_run_op *op = &p->ops[i];
        const swi_node *node = &t->nodes[op->node];
        swi_bind *to = r->binds + op->first + i;
        const swi_bind *planned = p->binds + op->first + i;
        for (uint32_t k = 0; k < op->n_buffers; k++) {
            const uint32_t value = t->operands[node->first + k];
            const bool has_room = r->of[t->values[value].storage] != SWI_NONE;
            to[k] = planned[k].segment == SWI_SEG_COUNT || !has_room
                        ? (swi_bind){SWI_SEG_COUNT, 0}
                        : bind_value(r, t, value);
        }
        const uint32_t k = op->n_buffers;
        const bool scratch = node->scratch != SWI_NONE && planned[k].segment != SWI_SEG_COUNT &&
                             r->of[node->scratch] != SWI_NONE;
        const uint32_t region = scratch ? r->of[node->scratch] : r->n_regions - 1;
        to[k] = (swi_bind){SWI_SEG_STEP, r->regions[region].at};
    }
}

sw_status swi_regions_create(swi_regions *out, const swi_witness *w, int how)
{
    swi_regions *r = out;
    const uint32_t n = w->program->trace.n_storages;
    void *block;
    memset(r, 0, sizeof *r);
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, (n + 1) * sizeof *r->regions));
    r->regions = block;
    r->cap_regions = n + 1;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, n * sizeof *r->of));
    r->of = block;
    r->n_storages = n;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, w->program->n_binds * sizeof *r->binds));
    r->binds = block;
    r->n_binds = w->program->n_binds;
    SW_TRY(lay_out(r, w, how));
    bind_ops(r, w->program);
    SW_TRY(sw_range_reserve(&block, r->bytes));
    r->base = block;
    return sw_range_commit(r->base, 0, r->bytes);
}

void swi_regions_free(swi_regions *r)
{
    sw_heap_free(r->regions, SWI_WITNESS_HEAP, r->cap_regions * sizeof *r->regions);
    sw_heap_free(r->of, SWI_WITNESS_HEAP, r->n_storages * sizeof *r->of);
    sw_heap_free(r->binds, SWI_WITNESS_HEAP, r->n_binds * sizeof *r->binds);
    sw_range_release(r->base, r->bytes);
    memset(r, 0, sizeof *r);
}

void swi_regions_load(swi_regions *r)
{
    for (uint32_t i = 0; i < r->n_regions; i++)
        if (r->regions[i].origin != NULL && r->regions[i].bytes > 0)
            memcpy(r->base + r->regions[i].at, r->regions[i].origin, r->regions[i].bytes);
}

void swi_regions_fill(swi_regions *r, unsigned char pattern)
{
    memset(r->base, pattern, r->bytes);
    swi_regions_load(r);
}

sw_status swi_regions_run(swi_witness *w, swi_regions *r, const swi_hooks *hooks)
{
    unsigned char *base[SWI_SEG_COUNT + 1] = {0};
    const swi_hooks none = {0};
    base[SWI_SEG_STEP] = r->base;
    return swi_program_execute(w->exec, w->frame, w->args, base, r->binds,
                               hooks != NULL ? hooks : &none, NULL);
}

/* The two sets may share regions differently: storages find their bytes in each. */
static bool same_bytes(const swi_regions *a, const swi_regions *b, uint32_t storage,
                       size_t offset, size_t bytes)
{
    const uint32_t x = a->of[storage], y = b->of[storage];
    return x == SWI_NONE || y == SWI_NONE ||
           memcmp(a->base + a->regions[x].at + offset, b->base + b->regions[y].at + offset,
                  bytes) == 0;
}

static uint32_t named_differ(const swi_trace *t, const swi_named *list, uint32_t n,
                             const swi_regions *a, const swi_regions *b)
{
    for (uint32_t i = 0; i < n; i++) {
        const swi_value *v = &t->values[list[i].value];
        if (!same_bytes(a, b, v->storage, v->offset, sw_type_bytes(&v->type)))
            return v->storage;
    }
    return SWI_NONE;
}

uint32_t swi_regions_differ(const swi_witness *w, const swi_regions *a, const swi_regions *b)
{
    const swi_trace *t = &w->program->trace;
    uint32_t s = named_differ(t, t->metrics, t->n_metrics, a, b);
    if (s == SWI_NONE)
        s = named_differ(t, t->outputs, t->n_outputs, a, b);
    for (uint32_t i = 0; i < a->n_regions && s == SWI_NONE; i++)
        if (a->regions[i].kind == SWI_REGION_MODEL &&
            !same_bytes(a, b, a->regions[i].storage, 0, a->regions[i].bytes))
            s = a->regions[i].storage;
    return s;
}
