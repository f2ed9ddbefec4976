/* Undoing a trace from its end. */
#include "profiler/inspect/replan/trace_start.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/replan/number_map.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_SEGMENT (UINT64_C(2) << 20)
#define MOST_RANGES 4096 /* of expandable segments: they are looked through one by one */

typedef struct {
    trace_start *s;
    snapshot_trace *t;
    number_map at; /* segments that are not expandable, by address */
    uint32_t n_ranges;
} search;

/* ---- segments ---------------------------------------------------------------------------- */

static sw_status add_segment(search *f, const trace_segment *segment)
{
    trace_start *s = f->s;
    SW_TRY(sw_heap_reserve(&s->segments, SW_HEAP_PROFILE, &s->cap_segments, s->n_segments + 1,
                           sizeof *s->segments));
    s->segments[s->n_segments++] = *segment;
    f->n_ranges += segment->expandable;
    return segment->expandable ? SW_OK
                               : number_map_set(&f->at, segment->address, s->n_segments - 1);
}

static void lost(search *f, const trace_event *e, const char *why)
{
    if (f->s->why[0] == '\0')
        snprintf(f->s->why, sizeof f->s->why, "the memory of event %u %s", e->number, why);
}

static sw_status undo_alloc(search *f, trace_event *e)
{
    const uint32_t i = number_map_at(&f->at, e->address);
    if (i == NUMBER_MAP_NONE || f->s->segments[i].bytes != e->bytes) {
        lost(f, e, "is neither freed later nor there at the end");
        return SW_OK;
    }
    trace_segment *segment = &f->s->segments[i];
    if (e->pool == TRACE_NO_POOL)
        e->pool = segment->pool;
    segment->bytes = 0;
    return number_map_set(&f->at, e->address, NUMBER_MAP_NONE);
}

static sw_status undo_free(search *f, trace_event *e)
{
    if (e->pool == TRACE_NO_POOL)
        e->pool = 0;
    if (number_map_at(&f->at, e->address) != NUMBER_MAP_NONE) {
        lost(f, e, "is there later without an event that made it");
        return SW_OK;
    }
    return add_segment(f, &(trace_segment){.address = e->address,
                                           .bytes = e->bytes,
                                           .stream = e->stream,
                                           .pool = e->pool,
                                           .small = e->bytes == SMALL_SEGMENT});
}

/* The expandable range that has it. */
static trace_segment *range_around(search *f, uint64_t address, uint64_t bytes)
{
    for (uint32_t i = 0; i < f->s->n_segments; i++) {
        trace_segment *x = &f->s->segments[i];
        if (x->expandable && x->address <= address && bytes <= x->bytes &&
            address - x->address <= x->bytes - bytes)
            return x;
    }
    return NULL;
}

static sw_status undo_map(search *f, trace_event *e)
{
    trace_segment *x = e->bytes > 0 ? range_around(f, e->address, e->bytes) : NULL;
    if (x == NULL) {
        lost(f, e, "is neither unmapped later nor there at the end");
        return SW_OK;
    }
    if (e->pool == TRACE_NO_POOL)
        e->pool = x->pool;
    trace_segment above = *x;
    above.address = e->address + e->bytes;
    above.bytes = x->address + x->bytes - above.address;
    x->bytes = e->address - x->address;
    return above.bytes > 0 ? add_segment(f, &above) : SW_OK;
}

static bool touch(const trace_segment *a, uint64_t address, uint64_t bytes)
{
    return a->address + a->bytes == address || address + bytes == a->address;
}

/* Ranges that it joins become one. */
static sw_status undo_unmap(search *f, trace_event *e)
{
    trace_segment made = {.address = e->address,
                          .bytes = e->bytes,
                          .stream = e->stream,
                          .pool = e->pool == TRACE_NO_POOL ? 0 : e->pool,
                          .small = e->bytes % f->t->settings.large_page_bytes != 0,
                          .expandable = true};
    for (uint32_t i = 0; i < f->s->n_segments; i++) {
        trace_segment *x = &f->s->segments[i];
        if (!x->expandable || x->bytes == 0 || x->stream != e->stream ||
            !touch(x, made.address, made.bytes))
            continue;
        made.address = x->address < made.address ? x->address : made.address;
        made.bytes += x->bytes;
        made.pool = x->pool;
        made.small = x->small;
        x->bytes = 0;
    }
    if (e->pool == TRACE_NO_POOL)
        e->pool = made.pool;
    return add_segment(f, &made);
}

static sw_status undo(search *f, trace_event *e)
{
    if (f->n_ranges > MOST_RANGES)
        lost(f, e, "is one of more than 4,096 ranges of expandable segments");
    switch (e->action) {
    case TRACE_SEGMENT_ALLOC:
        return undo_alloc(f, e);
    case TRACE_SEGMENT_FREE:
        return undo_free(f, e);
    case TRACE_SEGMENT_MAP:
        return f->n_ranges > MOST_RANGES ? SW_OK : undo_map(f, e);
    case TRACE_SEGMENT_UNMAP:
        return f->n_ranges > MOST_RANGES ? SW_OK : undo_unmap(f, e);
    default:
        return SW_OK;
    }
}

static sw_status find_segments(search *f)
{
    trace_start *s = f->s;
    for (uint32_t i = 0; i < f->t->n_segments; i++)
        SW_TRY(add_segment(f, &f->t->segments[i]));
    for (uint32_t i = f->t->n_events; i-- > 0;)
        SW_TRY(undo(f, &f->t->events[i]));
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_segments; i++)
        if (s->segments[i].bytes > 0) {
            s->segments[n] = s->segments[i];
            s->segments[n].first = s->segments[n].n = 0;
            s->reserved += s->segments[n++].bytes;
        }
    s->n_segments = n;
    if (n > 0)
        qsort(s->segments, n, sizeof *s->segments, trace_by_address);
    for (uint32_t i = 0; i + 1 < n && s->why[0] == '\0'; i++)
        if (s->segments[i].bytes > s->segments[i + 1].address - s->segments[i].address)
            snprintf(s->why, sizeof s->why, "segments overlap before the first event");
    return SW_OK;
}

/* ---- blocks ------------------------------------------------------------------------------ */

static sw_status add_block(trace_start *s, trace_block block)
{
    SW_TRY(sw_heap_reserve(&s->blocks, SW_HEAP_PROFILE, &s->cap_blocks, s->n_blocks + 1,
                           sizeof *s->blocks));
    s->blocks[s->n_blocks++] = block;
    return SW_OK;
}

/* Frees without an alloc: what live says is 1 after an alloc, 2 after a request to free. */
static sw_status find_freed(trace_start *s, const snapshot_trace *t, number_map *live)
{
    for (uint32_t i = 0; i < t->n_events; i++) {
        const trace_event *e = &t->events[i];
        if (e->action == TRACE_ALLOC)
            SW_TRY(number_map_set(live, e->address, 1));
        const uint32_t is = number_map_at(live, e->address);
        if (e->action == TRACE_FREE_REQUESTED && is != 1)
            SW_TRY(number_map_set(live, e->address, 2));
        if (e->action != TRACE_FREE_COMPLETED)
            continue;
        if (is != 1)
            SW_TRY(add_block(s, (trace_block){.address = e->address,
                                              .requested = e->bytes,
                                              .bytes = caching_round(&t->settings, e->bytes),
                                              .active = true,
                                              .freed = i,
                                              .role = e->role,
                                              .pending = is != 2}));
        SW_TRY(number_map_set(live, e->address, 0));
    }
    return SW_OK;
}

static sw_status find_kept(trace_start *s, const snapshot_trace *t, const number_map *live)
{
    for (uint32_t i = 0; i < t->n_blocks; i++) {
        trace_block b = t->blocks[i];
        const uint32_t is = number_map_at(live, b.address);
        b.pending &= is != 2;
        b.kept = true;
        b.freed = TRACE_NONE;
        if (b.active && is != 1)
            SW_TRY(add_block(s, b));
    }
    return SW_OK;
}

/* Requests lie where free blocks begin. So the lowest of those above a block, while it lives,
 * lies where it ends: nothing else is between them. Where memory is mapped piece by piece, and
 * in segments of small blocks, there are no rests. */
static sw_status find_ends(trace_start *s, const snapshot_trace *t)
{
    uint64_t *end;
    const size_t bytes = s->n_blocks * sizeof(uint64_t);
    SW_TRY(sw_heap_alloc(&end, SW_HEAP_PROFILE, bytes));
    for (uint32_t i = 0; i < t->n_events && s->n_blocks > 0; i++) {
        const trace_event *e = &t->events[i];
        const uint32_t below =
            trace_below(s->blocks, s->n_blocks, sizeof *s->blocks, e->address);
        const trace_block *b = &s->blocks[below > 0 ? below - 1 : 0];
        if (e->action != TRACE_ALLOC || below == 0 || b->freed < i || b->address == e->address)
            continue;
        uint64_t *of = &end[b - s->blocks];
        *of = *of == 0 || e->address < *of ? e->address : *of;
    }
    for (uint32_t k = 0, in = 0; k < s->n_blocks; k++) {
        trace_block *b = &s->blocks[k];
        while (in < s->n_segments &&
               b->address - s->segments[in].address >= s->segments[in].bytes &&
               s->segments[in].address <= b->address)
            in++;
        if (b->kept || in == s->n_segments || s->segments[in].small ||
            s->segments[in].expandable || end[k] < b->address + b->bytes ||
            end[k] - s->segments[in].address >= s->segments[in].bytes)
            continue;
        b->bytes = end[k] - b->address;
        b->kept = true;
    }
    sw_heap_free(end, SW_HEAP_PROFILE, bytes);
    return SW_OK;
}

static sw_status find_blocks(trace_start *s, const snapshot_trace *t, number_map *live)
{
    SW_TRY(find_freed(s, t, live));
    SW_TRY(find_kept(s, t, live));
    if (s->n_blocks > 0)
        qsort(s->blocks, s->n_blocks, sizeof *s->blocks, trace_by_address);
    SW_TRY(find_ends(s, t));
    for (uint32_t i = 0; i < s->n_blocks; i++)
        s->requested += s->blocks[i].requested;
    return SW_OK;
}

sw_status trace_start_find(trace_start *s, snapshot_trace *t)
{
    *s = (trace_start){0};
    search f = {.s = s, .t = t};
    number_map live = {0};
    sw_status status = find_segments(&f);
    if (status == SW_OK)
        status = find_blocks(s, t, &live);
    number_map_free(&live);
    number_map_free(&f.at);
    return status;
}

uint64_t trace_start_most(const trace_start *s, const snapshot_trace *t, uint32_t to,
                          uint32_t *where, uint64_t *now)
{
    uint64_t is = s->reserved, most = is; /* hostile sums wrap */
    *where = TRACE_NONE;
    for (uint32_t i = 0; i < to; i++) {
        const trace_event *e = &t->events[i];
        if (e->action == TRACE_SEGMENT_ALLOC || e->action == TRACE_SEGMENT_MAP)
            is += e->bytes;
        else if (e->action == TRACE_SEGMENT_FREE || e->action == TRACE_SEGMENT_UNMAP)
            is -= e->bytes;
        if ((int64_t)(is - most) > 0) {
            most = is;
            *where = i;
        }
    }
    if (now != NULL)
        *now = is;
    return most;
}

void trace_start_free(trace_start *s)
{
    sw_heap_free(s->segments, SW_HEAP_PROFILE, s->cap_segments * sizeof *s->segments);
    sw_heap_free(s->blocks, SW_HEAP_PROFILE, s->cap_blocks * sizeof *s->blocks);
    *s = (trace_start){0};
}
