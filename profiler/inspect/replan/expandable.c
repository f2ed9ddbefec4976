/* The caching allocator with made-up addresses. */
#include "profiler/inspect/replan/replan.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/replan/number_map.h"

typedef struct {
    const trace_lives *l;
    caching_allocator *a;
    number_map living; /* lives by their recorded address */
    uint64_t *at;      /* their addresses here */
    uint32_t next;     /* life */
    uint64_t mapped;
} run;

static sw_status take(run *r)
{
    const trace_life *x = &r->l->all[r->next];
    const trace_arena *of = &r->l->arenas[x->arena];
    uint64_t address;
    SW_TRY(caching_find(r->a, of->stream, of->pool, x->bytes, &address));
    if (address == 0) {
        SW_TRY(caching_grow(r->a, of->stream, of->pool, x->bytes, &r->mapped));
        SW_TRY(caching_find(r->a, of->stream, of->pool, x->bytes, &address));
    }
    SW_TRY(caching_take(r->a, address, x->bytes, 0));
    r->at[r->next] = address;
    return number_map_set(&r->living, x->address, r->next++);
}

static sw_status let_go(run *r, const trace_event *e)
{
    const uint32_t i = number_map_at(&r->living, e->address);
    if (i == NUMBER_MAP_NONE)
        return SW_OK;
    SW_TRY(caching_free(r->a, r->at[i]));
    return number_map_set(&r->living, e->address, NUMBER_MAP_NONE);
}

static sw_status take_event(run *r, const trace_event *e)
{
    if (e->action == TRACE_FREE_COMPLETED)
        return let_go(r, e);
    if (e->action != TRACE_ALLOC || e->bytes == 0)
        return SW_OK;
    SW_TRY(let_go(r, e)); /* its free was not recorded */
    return take(r);
}

static sw_status take_all(run *r, const snapshot_trace *t)
{
    while (r->next < r->l->n_before)
        SW_TRY(take(r));
    for (uint32_t i = 0; i < t->n_events; i++)
        SW_TRY(take_event(r, &t->events[i]));
    return SW_OK;
}

sw_status expandable_reserved(const snapshot_trace *t, const trace_lives *l, uint64_t *out)
{
    run r = {.l = l};
    caching_settings settings = t->settings;
    settings.expandable = true;
    SW_TRY(sw_heap_alloc(&r.at, SW_HEAP_PROFILE, l->n * sizeof *r.at));
    sw_status status = caching_create(&r.a, &settings);
    if (status == SW_OK)
        status = take_all(&r, t);
    *out = r.mapped;
    caching_destroy(r.a);
    number_map_free(&r.living);
    sw_heap_free(r.at, SW_HEAP_PROFILE, l->n * sizeof *r.at);
    return status;
}
