/* The events of a trace, one after another. */
#include "profiler/inspect/replan/trace_replay.h"
#include "alloc/base/error.h"
#include "profiler/inspect/replan/number_map.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    snapshot_trace *t;
    caching_allocator *a;
    replay_proof *proof;
    uint64_t stream, pool; /* of the latest request */
    bool small;
    bool asked;        /* there was one */
    bool freed;        /* since then a free completed */
    bool late;         /* since then one did that had waited, or may have */
    uint64_t mapped;   /* since then memory was mapped here; 0: none was */
    number_map unsure; /* by address: how many times 512 bytes a block may be larger */
    uint64_t rests;    /* the sum of it */
} replay;

/* ---- before the trace --------------------------------------------------------------- */

/* The gap after a block of unknown end, up to the next one or the segment's end, is a rest of
 * it where it is too small for a free block; of a larger gap, a part may be. */
static sw_status place_block(replay *r, const trace_segment *in, const trace_block *b,
                             const trace_block *next)
{
    const uint64_t end = in->address + in->bytes, from = b->address + b->bytes;
    const uint64_t limit = next != NULL && next->address < end ? next->address : end;
    const bool sure = b->kept || in->small || in->expandable;
    const uint64_t behind = sure || limit <= from ? 0 : limit - from;
    const caching_settings *set = &r->t->settings;
    const uint64_t most =
        b->bytes < set->max_split_bytes ? CACHING_SMALL_BYTES : set->max_rounding_bytes;
    const bool rest = behind <= most;
    SW_TRY(caching_place(r->a, in->address, b->address, b->bytes + (rest ? behind : 0),
                         b->requested, b->stack));
    if (!rest) {
        SW_TRY(number_map_set(&r->unsure, b->address, (uint32_t)(most >> 9)));
        r->rests += most >> 9 << 9;
    }
    return b->pending ? caching_free_requested(r->a, b->address) : SW_OK;
}

static sw_status place_blocks(replay *r, const trace_start *s, const trace_segment *in,
                              uint32_t *at)
{
    for (; *at < s->n_blocks && s->blocks[*at].address < in->address + in->bytes; (*at)++)
        SW_TRY(place_block(r, in, &s->blocks[*at],
                           *at + 1 < s->n_blocks ? &s->blocks[*at + 1] : NULL));
    return SW_OK;
}

static sw_status begin(replay *r, const trace_start *s)
{
    uint32_t at = 0;
    if (s->why[0] != '\0')
        SW_FAIL(SW_FORMAT, "%s", s->why);
    for (uint32_t i = 0; i < s->n_segments; i++) {
        const trace_segment *in = &s->segments[i];
        const caching_lane lane = {in->stream, in->pool, in->small};
        if (at < s->n_blocks && s->blocks[at].address < in->address)
            break;
        SW_TRY(in->expandable ? caching_segment_map(r->a, lane, in->address, in->bytes)
                              : caching_segment_alloc(r->a, lane, in->address, in->bytes));
        SW_TRY(place_blocks(r, s, in, &at));
    }
    if (at < s->n_blocks)
        SW_FAIL(SW_FORMAT, "%llu bytes were live before the trace, and in no segment",
                (unsigned long long)s->blocks[at].requested);
    caching_mark_present(r->a);
    return SW_OK;
}

/* ---- events ------------------------------------------------------------------------------ */

static caching_lane lane_of(const trace_event *e)
{
    const bool small = e->action == TRACE_SEGMENT_MAP ? e->bytes <= UINT64_C(2) << 20
                                                      : e->bytes == UINT64_C(2) << 20;
    return (caching_lane){e->stream, e->pool == TRACE_NO_POOL ? 0 : e->pool, small};
}

static void set_latest(replay *r, const trace_event *e, uint64_t pool, uint64_t rounded)
{
    r->stream = e->stream;
    r->pool = pool;
    r->small = rounded <= CACHING_SMALL_BYTES;
    r->asked = true;
    r->freed = r->late = false;
    r->mapped = 0;
}

/* A search that found no place is followed by a request to the device. On a full device blocks
 * that wait for other streams become free between the two, with an unlocked allocator any may:
 * then there is a place, and the request goes to the new memory all the same. Where large
 * blocks stay whole, mapped memory changes which block the search would refuse. */
static bool is_from_device(const replay *r, const trace_event *e, uint64_t address)
{
    const caching_settings *s = &r->t->settings;
    const bool whole = r->mapped != 0 && s->max_split_bytes != UINT64_MAX;
    return (address == 0 || r->late || s->unlocked || whole) &&
           caching_is_new(r->a, e->address, e->stream, e->bytes, r->mapped);
}

static sw_status elsewhere(const trace_event *e, uint64_t address)
{
    if (address == 0)
        SW_FAIL(SW_FORMAT, "%llu bytes are at 0x%llx, and the rules put them in a new segment",
                (unsigned long long)e->bytes, (unsigned long long)e->address);
    SW_FAIL(SW_FORMAT, "%llu bytes are at 0x%llx, and the rules put them at 0x%llx",
            (unsigned long long)e->bytes, (unsigned long long)e->address,
            (unsigned long long)address);
}

static sw_status take_alloc(replay *r, trace_event *e)
{
    uint64_t pool, address;
    if (!caching_pool_at(r->a, e->address, &pool))
        SW_FAIL(SW_FORMAT, "%llu bytes at an address where no free block begins",
                (unsigned long long)e->bytes);
    SW_TRY(caching_find(r->a, e->stream, pool, e->bytes, &address));
    if (address != e->address && !is_from_device(r, e, address))
        return elsewhere(e, address);
    SW_TRY(caching_take(r->a, e->address, e->bytes, e->stack));
    e->pool = pool;
    r->proof->n_checked++;
    set_latest(r, e, pool, caching_round(&r->t->settings, e->bytes));
    return SW_OK;
}

static sw_status take_free(replay *r, const trace_event *e, uint32_t i)
{
    const bool at_once =
        i > 0 && e[-1].action == TRACE_FREE_REQUESTED && e[-1].address == e->address;
    r->late |= !at_once && caching_is_pending(r->a, e->address);
    r->freed = true;
    SW_TRY(caching_free(r->a, e->address));
    const uint32_t unsure = r->rests > 0 ? number_map_at(&r->unsure, e->address) : 0;
    if (unsure == 0 || unsure == NUMBER_MAP_NONE)
        return SW_OK;
    r->rests -= (uint64_t)unsure << 9;
    return number_map_set(&r->unsure, e->address, NUMBER_MAP_NONE);
}

static sw_status take(replay *r, trace_event *e, uint32_t i)
{
    switch ((trace_action)e->action) {
    case TRACE_ALLOC:
        return take_alloc(r, e);
    case TRACE_FREE_REQUESTED:
        return caching_free_requested(r->a, e->address);
    case TRACE_FREE_COMPLETED:
        return take_free(r, e, i);
    case TRACE_SEGMENT_ALLOC:
        return caching_segment_alloc(r->a, lane_of(e), e->address, e->bytes);
    case TRACE_SEGMENT_FREE:
        r->late |= r->freed; /* the device may be full: frees were waited for first */
        return caching_segment_free(r->a, e->address, e->bytes);
    case TRACE_SEGMENT_MAP:
        r->mapped = e->address;
        return caching_segment_map(r->a, lane_of(e), e->address, e->bytes);
    case TRACE_SEGMENT_UNMAP:
        r->late |= r->freed;
        return caching_segment_unmap(r->a, e->address, e->bytes);
    case TRACE_OOM:
        set_latest(r, e, e->pool == TRACE_NO_POOL ? 0 : e->pool, e->bytes);
        break;
    }
    return SW_OK;
}

/* ---- moments ----------------------------------------------------------------------------- */

typedef struct {
    const replay *r;
    replay_moment *m;
} counting;

static void count(void *context, const caching_block *b)
{
    const counting *c = context;
    replay_census *to = &c->m->census;
    const caching_lane of = caching_lane_at(c->r->a, b->lane);
    to->reserved += b->bytes;
    if (b->state == CACHING_FREE) {
        const bool asked = c->r->asked;
        *(asked && of.pool != c->r->pool       ? &to->other_pools
          : asked && of.stream != c->r->stream ? &to->other_streams
          : asked && of.small != c->r->small   ? &to->other_sizes
          : b->whole                           ? &to->cached
                                               : &to->split) += b->bytes;
        return;
    }
    const uint64_t rounded = caching_round(&c->r->t->settings, b->requested);
    const uint64_t block = rounded < b->bytes ? rounded : b->bytes;
    to->requested += b->requested;
    to->pending += b->state == CACHING_PENDING ? b->requested : 0;
    to->rounding += block - b->requested;
    to->unsplit += b->bytes - block;
    if (c->m->lost_of != NULL)
        c->m->lost_of[b->tag] += b->bytes - b->requested;
}

static void look(const replay *r, replay_moment *m)
{
    counting c = {r, m};
    m->census = (replay_census){0};
    m->census.unsure = r->rests;
    m->known = true;
    caching_each(r->a, count, &c);
}

static void unknown(replay *r, uint32_t event)
{
    r->proof->from = event;
    snprintf(r->proof->why, sizeof r->proof->why, "%s", sw_last_error());
}

static sw_status run(replay *r, const trace_start *start, replay_moment *moments, uint32_t n)
{
    uint32_t m = 0;
    sw_status status = begin(r, start);
    for (; status == SW_OK && r->t->n_events == 0 && m < n; m++)
        look(r, &moments[m]);
    for (uint32_t i = 0; i < r->t->n_events && status == SW_OK; i++) {
        status = take(r, &r->t->events[i], i);
        if (status == SW_FORMAT)
            unknown(r, i);
        for (; status == SW_OK && m < n && moments[m].event == i; m++)
            look(r, &moments[m]);
    }
    if (status == SW_FORMAT && r->proof->from == TRACE_NONE)
        unknown(r, 0);
    return status == SW_FORMAT ? SW_OK : status;
}

sw_status replay_run(snapshot_trace *t, const trace_start *start, replay_moment *moments,
                     uint32_t n, replay_proof *out)
{
    replay r = {.t = t, .proof = out};
    *out = (replay_proof){.from = TRACE_NONE};
    for (uint32_t i = 0; i < n; i++)
        moments[i].known = false;
    SW_TRY(caching_create(&r.a, &t->settings));
    const sw_status status = run(&r, start, moments, n);
    number_map_free(&r.unsure);
    caching_destroy(r.a);
    return status;
}
