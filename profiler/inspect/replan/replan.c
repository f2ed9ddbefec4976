/* A trace, run through the caching allocator and planned again. */
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "profiler/inspect/replan/caching.h"
#include "profiler/inspect/numbers.h"
#include "profiler/inspect/replan/replan.h"
#include <stdio.h>
#include <stdlib.h>
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

/* ---- before the trace -------------------------------------------------------------------- */

static sw_status begin(replay *r)
{
    const trace_start *s = &r->t->start;
    uint32_t at = 0;
    if (s->why[0] != '\0')
        SW_FAIL(SW_FORMAT, "%s", s->why);
    for (uint32_t i = 0; i < s->n_segments; i++) {
        const trace_segment *in = &s->segments[i];
        const caching_lane of = {in->stream, in->pool, in->small};
        if (at < s->n_blocks && s->blocks[at].address < in->address)
            break;
        SW_TRY(in->expandable ? caching_segment_map(r->a, of, in->address, in->bytes)
                              : caching_segment_alloc(r->a, of, in->address, in->bytes));
        for (; at < s->n_blocks && s->blocks[at].address < in->address + in->bytes; (at)++) {
            /* The gap after a block of unknown end, up to the next one or the segment's end,
             * is a rest of it where it is too small for a free block; of a larger gap, a
             * part may be. */
            const trace_block *next = at + 1 < s->n_blocks ? &s->blocks[at + 1] : NULL;
            const uint64_t end = in->address + in->bytes,
                           from = s->blocks[at].address + s->blocks[at].bytes;
            const uint64_t limit = next != NULL && next->address < end ? next->address : end;
            const bool sure = s->blocks[at].kept || in->small || in->expandable;
            const uint64_t behind = sure || limit <= from ? 0 : limit - from;
            const caching_settings *set = &r->t->settings;
            const uint64_t most = s->blocks[at].bytes < set->max_split_bytes
                                      ? CACHING_SMALL_BYTES
                                      : set->max_rounding_bytes;
            const bool rest = behind <= most;
            SW_TRY(caching_place(r->a, in->address, s->blocks[at].address,
                                 s->blocks[at].bytes + (rest ? behind : 0),
                                 s->blocks[at].requested, s->blocks[at].stack));
            if (!rest) {
                SW_TRY(
                    number_map_set(&r->unsure, s->blocks[at].address, (uint32_t)(most >> 9)));
                r->rests += most >> 9 << 9;
            }
            SW_TRY(s->blocks[at].pending ? caching_free_requested(r->a, s->blocks[at].address)
                                         : SW_OK);
        }
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

static sw_status take(replay *r, trace_event *e, uint32_t i)
{
    switch ((trace_action)e->action) {
    case TRACE_ALLOC: {
        uint64_t pool, address;
        if (!caching_pool_at(r->a, e->address, &pool))
            SW_FAIL(SW_FORMAT, "%llu bytes at an address where no free block begins",
                    (unsigned long long)e->bytes);
        SW_TRY(caching_find(r->a, e->stream, pool, e->bytes, &address));
        /* A search that found no place is followed by a request to the device. On a full device
         * blocks that wait for other streams become free between the two, with an unlocked
         * allocator any may: then there is a place, and the request goes to the new memory all
         * the same. Where large blocks stay whole, mapped memory changes which block the search
         * would refuse. */
        const caching_settings *s = &r->t->settings;
        const bool whole = r->mapped != 0 && s->max_split_bytes != UINT64_MAX;
        if (address != e->address &&
            !((address == 0 || r->late || s->unlocked || whole) &&
              caching_is_new(r->a, e->address, e->stream, e->bytes, r->mapped))) {
            char there[40] = "in a new segment";
            if (address != 0)
                snprintf(there, sizeof there, "at 0x%llx", (unsigned long long)address);
            SW_FAIL(SW_FORMAT, "%llu bytes are at 0x%llx, and the rules put them %s",
                    (unsigned long long)e->bytes, (unsigned long long)e->address, there);
        }
        SW_TRY(caching_take(r->a, e->address, e->bytes, e->stack));
        e->pool = pool;
        r->proof->n_checked++;
        set_latest(r, e, pool, caching_round(&r->t->settings, e->bytes));
        return SW_OK;
    }
    case TRACE_FREE_REQUESTED:
        return caching_free_requested(r->a, e->address);
    case TRACE_FREE_COMPLETED: {
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
    const caching_lane of = b->of;
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
    const uint64_t taken = rounded < b->bytes ? rounded : b->bytes;
    to->requested += b->requested;
    to->pending += b->state == CACHING_PENDING ? b->requested : 0;
    to->rounding += taken - b->requested;
    to->unsplit += b->bytes - taken;
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

sw_status replay_run(snapshot_trace *t, replay_moment *moments, uint32_t n, replay_proof *out)
{
    replay r = {.t = t, .proof = out};
    uint32_t m = 0;
    *out = (replay_proof){.from = TRACE_NONE};
    for (uint32_t i = 0; i < n; i++)
        moments[i].known = false;
    SW_TRY(caching_create(&r.a, &t->settings));
    sw_status status = begin(&r);
    for (; status == SW_OK && t->n_events == 0 && m < n; m++)
        look(&r, &moments[m]);
    for (uint32_t i = 0; i < t->n_events && status == SW_OK; i++) {
        status = take(&r, &t->events[i], i);
        if (status == SW_FORMAT)
            unknown(&r, i);
        for (; status == SW_OK && m < n && moments[m].event == i; m++)
            look(&r, &moments[m]);
    }
    if (status == SW_FORMAT && out->from == TRACE_NONE)
        unknown(&r, 0);
    number_map_free(&r.unsure);
    caching_destroy(r.a);
    return status == SW_FORMAT ? SW_OK : status;
}

/* ---- what was reserved ------------------------------------------------------------------- */

SW_ORDER(by_loss, replan_loser, SW_FALLS(bytes), SW_RISES(stack))

static sw_status replay_with(replan *r, uint64_t *lost)
{
    replay_moment moments[2];
    uint32_t n = 0, at;
    r->reserved = trace_start_most(&r->trace, r->trace.n_events, &at, NULL);
    r->reserved_event = at;
    /* The request after the segment, which it was taken for. */
    for (uint32_t k = at; at != TRACE_NONE && ++k < r->trace.n_events;) {
        const trace_event *e = &r->trace.events[k];
        const bool asks = e->action == TRACE_ALLOC && e->stream == r->trace.events[at].stream;
        r->reserved_event = asks ? k : at;
        if (asks || (e->action != TRACE_SEGMENT_MAP && e->action != TRACE_SEGMENT_ALLOC))
            break;
    }
    for (uint32_t i = r->trace.n_events; i-- > 0 && !r->oom.there;) {
        const trace_event *e = &r->trace.events[i];
        if (e->action != TRACE_OOM)
            continue;
        r->oom = (replan_oom){
            .there = true, .event = i, .asked = e->bytes, .device_free = e->address};
        uint32_t ignored;
        (void)trace_start_most(&r->trace, i, &ignored, &r->oom.reserved);
    }
    /* The state before the trace is seen after its first event. */
    const replay_moment peak = {.event = at != TRACE_NONE ? r->reserved_event : 0,
                                .lost_of = lost};
    const replay_moment oom = {.event = r->oom.event};
    const bool oom_first = r->oom.there && oom.event < peak.event;
    if (oom_first)
        moments[n++] = oom;
    moments[n++] = peak;
    if (r->oom.there && !oom_first)
        moments[n++] = oom;
    SW_TRY(replay_run(&r->trace, moments, n, &r->proof));
    r->at_reserved = moments[oom_first];
    r->at_reserved.lost_of = NULL;
    if (r->oom.there)
        r->oom.moment = moments[oom_first ? 0 : 1];
    r->replayed = true;
    if (!r->at_reserved.known)
        return SW_OK;
    /* The stacks that lose most, of what each of them lost. */
    replan_loser *of;
    const uint32_t n_stacks = r->trace.n_stacks;
    SW_TRY(sw_heap_alloc(&of, SW_HEAP_PROFILE, n_stacks * sizeof(replan_loser)));
    for (uint32_t i = 0; i < n_stacks; i++)
        of[i] = (replan_loser){i, lost[i]};
    qsort(of, n_stacks, sizeof *of, by_loss);
    while (r->n_losers < REPLAN_HOLDERS && r->n_losers < n_stacks &&
           of[r->n_losers].bytes > 0) {
        r->losers[r->n_losers] = of[r->n_losers];
        r->n_losers++;
    }
    sw_heap_free(of, SW_HEAP_PROFILE, n_stacks * sizeof(replan_loser));
    return SW_OK;
}

/* ---- the period -------------------------------------------------------------------------- */

#define ENDS 16    /* places where the run may end: parts of the trace */
#define LEAST 3    /* steps */
#define SHORTEST 4 /* requests of a step */

typedef struct {
    uint32_t born, dead; /* positions */
    uint32_t during;     /* requests up to its death; 0: it lives to the end */
} request;

typedef struct {
    const snapshot_trace *t;
    const trace_lives *l;
    request *of;
    uint32_t n;
    uint64_t *keys;
    uint32_t *agree; /* how many requests agree with those p before them */
} trace_period_search;

/* From the events, not from the lives. In a profile of a CPU addresses make no difference
 * then: what is written in place looks like what got its place by chance. On a device a free
 * counts where the program asks for it: when other streams let it complete differs from step
 * to step. */
static sw_status take_requests(trace_period_search *s, number_map *living)
{
    for (uint32_t i = 0; i < s->t->n_events; i++) {
        const trace_event *e = &s->t->events[i];
        const bool begins = e->action == TRACE_ALLOC && e->bytes > 0;
        const bool ends =
            begins || e->action == TRACE_FREE_REQUESTED || e->action == TRACE_FREE_COMPLETED;
        const uint32_t at = ends ? number_map_at(living, e->address) : NUMBER_MAP_NONE;
        if (at != NUMBER_MAP_NONE && s->of[at].dead == s->l->n_positions) {
            s->of[at].dead = i + 1;
            s->of[at].during = s->n;
        }
        if (at != NUMBER_MAP_NONE && e->action != TRACE_FREE_REQUESTED)
            SW_TRY(number_map_set(living, e->address, NUMBER_MAP_NONE));
        if (!begins)
            continue;
        /* Not who asks: the first step may go other ways through the code. */
        const uint64_t pool = e->pool == TRACE_NO_POOL ? 0 : e->pool;
        uint64_t key = e->bytes * UINT64_C(0x9e3779b97f4a7c15) ^ e->stream;
        key = (key ^ key >> 29) * UINT64_C(0x9e3779b97f4a7c15) ^ pool;
        s->keys[s->n] = (key ^ key >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
        s->of[s->n++] = (request){i + 1, s->l->n_positions, 0};
        SW_TRY(number_map_set(living, e->address, s->n - 1));
    }
    return SW_OK;
}

static void look_back(trace_period_search *s, uint32_t n, uint32_t *run, uint32_t *period,
                      uint32_t *end)
{
    /* Of the first n requests, read from their end. */
    uint32_t left = 0, right = 0;
    const uint64_t *k = s->keys + (n - 1);
    for (uint32_t p = 1; p < n; p++) {
        uint32_t z = p < right ? s->agree[p - left] : 0;
        if (z > right - p && p < right)
            z = right - p;
        while (p + z < n && *(k - z) == *(k - p - z))
            z++;
        s->agree[p] = z;
        if (p + z > right) {
            left = p;
            right = p + z;
        }
    }
    for (uint32_t p = SHORTEST; p <= n / LEAST; p++) {
        const uint32_t length = s->agree[p] + p;
        if (s->agree[p] < (LEAST - 1) * p || length <= *run)
            continue;
        *run = length;
        *period = p;
        *end = n;
    }
}

/* Lives that are born in it. */
static uint32_t count_born(const trace_lives *l, uint32_t from, uint32_t to)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++)
        n += l->all[i].born >= from && l->all[i].born < to;
    return n;
}

static sw_status find_period(trace_period_search *s, trace_period *out)
{
    uint32_t run = 0, period = 0, end = 0;
    number_map living = {0};
    const sw_status status = take_requests(s, &living);
    number_map_free(&living);
    SW_TRY(status);
    for (uint32_t i = 0; i < s->n; i++) /* how many requests come while it lives */
        s->keys[i] ^= s->of[i].during > 0 ? s->of[i].during - i : 0;
    for (uint32_t i = ENDS; i > 0; i--) {
        const uint32_t n = (uint32_t)((uint64_t)s->n * i / ENDS);
        if (n > run && n >= LEAST * SHORTEST)
            look_back(s, n, &run, &period, &end);
    }
    if (run == 0)
        return SW_OK;
    uint64_t *live;
    SW_TRY(trace_lives_curve(s->l, &live));
    /* Of the run's last steps but one the request before which the least lives. */
    uint32_t best = end - 2 * period, top = 0;
    for (uint32_t i = best; i < end - period; i++)
        if (live[s->of[i].born - 1] < live[s->of[best].born - 1])
            best = i;
    const uint32_t from = s->of[best].born, to = s->of[best + period].born;
    for (uint32_t i = 1; i < s->l->n_positions; i++)
        top = live[i] > live[top] ? i : top;
    if (live[from - 1] == live[to - 1] && top < s->of[end - 1].dead)
        *out =
            (trace_period)SW_INIT(.steps = run / period, .requests = count_born(s->l, from, to),
                                  .first = s->of[end - run].born, .from = from, .to = to);
    trace_lives_curve_free(s->l, live);
    return SW_OK;
}

/* Steps that frames show. Where frames show none: the longest run of requests (bytes, stream,
 * pool, how long they live) that repeats and ends in the last 15/16 of the trace; of a run's
 * periods the shortest. A step begins and ends with the same live bytes, and has the peak of
 * the trace that follows it: what repeats without that is a layer. Linear. */
static sw_status find_steps(trace_period *p, const snapshot_trace *t, const trace_lives *l)
{
    const trace_roles *roles = &l->roles;
    trace_period_search s = {.t = t, .l = l};
    size_t n = 0;
    *p = (trace_period){0};
    if (roles->known) { /* the last one */
        const uint32_t steps = roles->n_steps;
        *p = (trace_period){.steps = steps, .passes = roles->passes, .by_frames = true};
        if (steps == 0)
            return SW_OK;
        p->first = roles->steps[0].from;
        p->from = roles->steps[steps - 1].from;
        p->to = roles->steps[steps - 1].to;
        p->requests = count_born(l, p->from, p->to);
        return SW_OK;
    }
    for (uint32_t i = 0; i < t->n_events; i++)
        n += t->events[i].action == TRACE_ALLOC;
    if (n < LEAST * SHORTEST)
        return SW_OK;
    const size_t bytes = n * (sizeof *s.keys + sizeof *s.of + sizeof *s.agree);
    SW_TRY(sw_heap_alloc(&s.keys, SW_HEAP_PROFILE, bytes));
    s.of = (request *)(s.keys + n);
    s.agree = (uint32_t *)(s.of + n);
    const sw_status status = find_period(&s, p);
    sw_heap_free(s.keys, SW_HEAP_PROFILE, bytes);
    return status;
}

/* ---- bounds and plans -------------------------------------------------------------------- */

/* The part of a life that is meant; false: none is. */
static bool chosen(const trace_life *x, const lives_choice *of, uint32_t *from, uint32_t *to)
{
    *from = x->born > of->from ? x->born : of->from;
    *to = x->dead < of->to ? x->dead : of->to;
    return *from < *to && (x->stack != of->left_out || strcmp(x->role, of->left_role) != 0);
}

/* By arena the first one that shares its room: itself, or with merged streams that of its
 * pool. */
static void find_leaders(const trace_lives *l, const lives_choice *of, uint32_t *lead)
{
    for (uint32_t a = 0; a < l->n_arenas; a++) {
        lead[a] = a;
        for (uint32_t b = 0; of->merged && b < lead[a]; b++)
            if (l->arenas[b].pool == l->arenas[a].pool)
                lead[a] = b;
    }
}

/* The bound alone, `height` and `proved` are 0: one sweep over the positions, for all arenas.
 * most_of: of each arena, where it leads; NULL: not written. */
static sw_status find_bound(const trace_lives *l, const lives_choice *of, lives_height *out,
                            uint64_t *most_of)
{
    struct {
        uint64_t *live, *most; /* by leading arena */
        uint32_t *lead;
        uint32_t *head,
            *next; /* who dies at a position: lives plus one, and the next of them */
    } s;
    const size_t arenas = l->n_arenas, positions = of->to - of->from;
    const size_t bytes = arenas * (2 * sizeof(uint64_t) + sizeof(uint32_t)) +
                         (positions + l->n) * sizeof(uint32_t);
    *out = (lives_height){.position = of->from};
    if (bytes == 0)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&s.live, SW_HEAP_PROFILE, bytes));
    s.most = s.live + arenas;
    s.lead = (uint32_t *)(s.most + arenas);
    s.head = s.lead + arenas;
    s.next = s.head + positions;
    find_leaders(l, of, s.lead);
    uint64_t total = 0;
    uint32_t next = 0, from, to;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!chosen(&l->all[i], of, &from, &to))
            continue;
        out->n++;
        if (to == of->to)
            continue;
        s.next[i] = s.head[to - of->from];
        s.head[to - of->from] = i + 1;
    }
    /* The chosen lives are in order of birth. */
    for (uint32_t p = of->from; p < of->to; p++) {
        for (uint32_t i = s.head[p - of->from]; i > 0; i = s.next[i - 1]) {
            s.live[s.lead[l->all[i - 1].arena]] -= l->all[i - 1].bytes;
            total -= l->all[i - 1].bytes;
        }
        for (; next < l->n; next++) {
            const trace_life *x = &l->all[next];
            const uint32_t a = s.lead[x->arena];
            if (!chosen(x, of, &from, &to))
                continue;
            if (from > p)
                break;
            s.live[a] += x->bytes;
            s.most[a] = s.live[a] > s.most[a] ? s.live[a] : s.most[a];
            total += x->bytes;
        }
        if (total > out->most) {
            out->most = total;
            out->position = p;
        }
    }
    for (uint32_t a = 0; a < l->n_arenas; a++) {
        out->bound += s.most[a];
        if (most_of != NULL)
            most_of[a] = s.most[a];
    }
    sw_heap_free(s.live, SW_HEAP_PROFILE, bytes);
    return SW_OK;
}

typedef struct {
    sw_placement_item *items; /* arena by arena */
    uint64_t *most;           /* by arena: its bound */
    uint32_t *whose;          /* lives */
    uint32_t *lead, *end;     /* by arena; after its items */
} arena_items;

static void fill(trace_lives *l, const lives_choice *of, arena_items *a)
{
    uint32_t from, to, n = 0;
    find_leaders(l, of, a->lead);
    for (uint32_t i = 0; i < l->n; i++)
        if (chosen(&l->all[i], of, &from, &to))
            a->end[a->lead[l->all[i].arena]]++;
    for (uint32_t k = 0; k < l->n_arenas; k++) {
        n += a->end[k];
        a->end[k] = n - a->end[k]; /* where they begin */
    }
    for (uint32_t i = 0; i < l->n; i++) {
        if (!chosen(&l->all[i], of, &from, &to))
            continue;
        const uint32_t at = a->end[a->lead[l->all[i].arena]]++;
        a->items[at] = (sw_placement_item){
            .lower = from, .upper = to, .bytes = l->all[i].bytes, .align = l->align};
        a->whose[at] = i;
    }
}

/* A plan that is as low as a reader can tell from the bound is low enough: what comes below it
 * takes most of the time. */
static sw_status place_arenas(trace_lives *l, const arena_items *a, sw_placement_opts opts,
                              lives_height *out)
{
    uint32_t from = 0;
    for (uint32_t arena = 0; arena < l->n_arenas; arena++) {
        sw_placement_result r = {0};
        const uint32_t to = a->end[arena];
        l->arenas[arena].height = 0;
        const uint64_t near = a->most[arena] / 4096;
        opts.capacity = near < l->align ? 0 : a->most[arena] + near;
        if (from < to)
            SW_TRY(sw_placement_solve(a->items + from, to - from, &opts, &r));
        l->arenas[arena].height = r.height;
        out->height += r.height;
        out->proved += r.proved;
        from = to;
    }
    for (uint32_t i = 0; i < from; i++)
        l->all[a->whose[i]].offset = a->items[i].offset;
    return SW_OK;
}

/* A plan, with the offsets of those that it has. Stops early, with a plan that is whole, where
 * stop(context) says so. */
static sw_status lives_place(trace_lives *l, const lives_choice *of,
                             bool (*stop)(void *context), void *context, lives_height *out)
{
    arena_items a;
    const sw_placement_opts opts = {.stop = stop, .context = context};
    const size_t arenas = l->n_arenas;
    const size_t n = arenas * sizeof(uint64_t) + (l->n + 2 * arenas) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&a.items, SW_HEAP_PROFILE, l->n * sizeof *a.items));
    sw_status status = sw_heap_alloc(&a.most, SW_HEAP_PROFILE, n);
    if (status == SW_OK) {
        a.whose = (uint32_t *)(a.most + arenas);
        a.lead = a.whose + l->n;
        a.end = a.lead + arenas;
        status = find_bound(l, of, out, a.most);
        if (status == SW_OK) {
            fill(l, of, &a);
            status = place_arenas(l, &a, opts, out);
        }
        sw_heap_free(a.most, SW_HEAP_PROFILE, n);
    }
    sw_heap_free(a.items, SW_HEAP_PROFILE, l->n * sizeof *a.items);
    return status;
}

/* ---- all of it --------------------------------------------------------------------------- */

SW_ORDER(by_stack, replan_holder, SW_RISES(stack), strcmp(x->role, y->role))

SW_ORDER(by_bytes, replan_holder, SW_FALLS(bytes), by_stack(a, b))

/* The stacks that hold most of what lives at a position, each by role. */
static sw_status find_holders(const replan *r, uint32_t position, replan_holder *out,
                              uint32_t *n_out)
{
    replan_holder *of;
    uint32_t n = 0, groups = 0;
    const size_t bytes = (r->lives.n + 1) * sizeof(replan_holder);
    SW_TRY(sw_heap_alloc(&of, SW_HEAP_PROFILE, bytes));
    for (uint32_t i = 0; i < r->lives.n; i++) {
        const trace_life *x = &r->lives.all[i];
        if (x->born <= position && x->dead > position)
            of[n++] =
                (replan_holder){.stack = x->stack, .role = x->role, .bytes = x->bytes, .n = 1};
    }
    qsort(of, n, sizeof *of, by_stack);
    for (uint32_t i = 0; i < n; i++)
        if (groups > 0 && by_stack(&of[groups - 1], &of[i]) == 0) {
            of[groups - 1].bytes += of[i].bytes;
            of[groups - 1].n++;
        } else {
            of[groups++] = of[i];
        }
    qsort(of, groups, sizeof *of, by_bytes);
    *n_out = groups < REPLAN_HOLDERS ? groups : REPLAN_HOLDERS;
    memcpy(out, of, *n_out * sizeof *of);
    sw_heap_free(of, SW_HEAP_PROFILE, bytes);
    return SW_OK;
}

/* The roles at the peak, by the rules; the last has the rest where there are too many. */
static void find_roles(replan *r)
{
    const uint32_t at = r->whole.position;
    for (uint32_t i = 0; i < r->lives.n; i++) {
        const trace_life *x = &r->lives.all[i];
        uint32_t k = 0;
        if (x->born > at || x->dead <= at)
            continue;
        while (k < r->n_roles &&
               (r->at_peak[k].rule != x->rule || strcmp(r->at_peak[k].role, x->role) != 0))
            k++;
        k = k < REPLAN_ROLES ? k : REPLAN_ROLES - 1;
        if (k == r->n_roles)
            r->at_peak[r->n_roles++] = (replan_role){.role = x->role, .rule = x->rule};
        r->at_peak[k].bytes += x->bytes;
        r->at_peak[k].n++;
    }
    for (uint32_t i = 1; i < r->n_roles; i++)
        for (uint32_t k = i; k > 0 && r->at_peak[k - 1].bytes < r->at_peak[k].bytes; k--) {
            const replan_role less = r->at_peak[k - 1];
            r->at_peak[k - 1] = r->at_peak[k];
            r->at_peak[k] = less;
        }
}

typedef struct {
    bool (*stop)(void *context);
    void *context;
} asked;

/* All up to the request that did not get its memory, and the request. */
static sw_status place_oom(replan *r, const asked *a)
{
    trace_lives *l = &r->lives;
    const lives_choice choice = {.to = r->oom.event + 2, .left_out = TRACE_NONE};
    const trace_event *e = &r->trace.events[r->oom.event];
    const uint32_t n = l->n, before = l->n_positions;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->all[i].born <= r->oom.event + 1 && l->all[i].dead > r->oom.event + 1)
            r->oom.requested += l->all[i].bytes;
    SW_TRY(trace_lives_add(l, e->stream, e->pool == TRACE_NO_POOL ? 0 : e->pool,
                           (trace_life)SW_INIT(.bytes = e->bytes, .born = r->oom.event + 1,
                                               .dead = r->oom.event + 2, .stack = e->stack)));
    const sw_status status = lives_place(l, &choice, a->stop, a->context, &r->oom.with);
    l->n = n;
    l->n_positions = before;
    r->oom.fits = r->oom.with.height <= r->oom.reserved + r->oom.device_free;
    return status;
}

static sw_status place_step(replan *r, const asked *a)
{
    trace_lives *l = &r->lives;
    const trace_period *p = &r->period;
    const lives_choice step = {.from = p->from, .to = p->to, .left_out = TRACE_NONE},
                       before = {.to = p->from, .left_out = TRACE_NONE};
    lives_height warm = {0};
    uint32_t ignored;
    SW_TRY(lives_place(l, &step, a->stop, a->context, &r->step));
    for (uint32_t i = 0; i < l->n; i++) {
        trace_life *x = &l->all[i];
        const bool in = x->born < p->to && x->dead > p->from;
        x->step_offset = in ? x->offset : UINT64_MAX;
        r->step_kept += x->born <= p->from && x->dead >= p->to ? x->bytes : 0;
    }
    for (uint32_t k = 0; k < l->n_arenas; k++)
        l->arenas[k].step_height = l->arenas[k].height;
    r->step_reserved = r->replayed ? trace_start_most(&r->trace, p->to - 1, &ignored, NULL) : 0;
    if (p->from > 0)
        SW_TRY(find_bound(l, &before, &warm, NULL));
    r->before_requested = warm.most;
    return SW_OK;
}

sw_status replan_make(replan *r, snapshot_trace *trace, bool (*stop)(void *context),
                      void *context)
{
    const asked a = {stop, context};
    *r = (replan){.trace = *trace};
    *trace = (snapshot_trace){0};
    if (r->trace.n_events == 0 && r->trace.n_blocks == 0)
        SW_FAIL(SW_UNSUPPORTED,
                "%s: device %lld has no events: record them with "
                "torch.cuda.memory._record_memory_history()",
                r->trace.path, (long long)r->trace.device);
    if (r->trace.cuda) {
        void *lost;
        const size_t bytes = r->trace.n_stacks * sizeof(uint64_t);
        SW_TRY(sw_heap_alloc(&lost, SW_HEAP_PROFILE, bytes));
        const sw_status status = replay_with(r, lost);
        sw_heap_free(lost, SW_HEAP_PROFILE, bytes);
        SW_TRY(status);
    }
    SW_TRY(trace_lives_find(&r->lives, &r->trace));
    if (!r->trace.cuda) {
        /* A CPU's addresses have no segments. */
        uint64_t low = UINT64_MAX, high = 0;
        for (uint32_t i = 0; i < r->lives.n; i++) {
            const trace_life *x = &r->lives.all[i];
            low = x->address < low ? x->address : low;
            high = x->address + x->bytes > high ? x->address + x->bytes : high;
        }
        r->reserved = high > low ? high - low : 0;
    }
    lives_choice choice = {.to = r->lives.n_positions, .left_out = TRACE_NONE};
    /* The plan of the whole trace comes last: its offsets stay. */
    SW_TRY(find_steps(&r->period, &r->trace, &r->lives));
    r->steady = r->period.steps > 1;
    if (r->steady)
        SW_TRY(place_step(r, &a));
    if (r->oom.there)
        SW_TRY(place_oom(r, &a));
    for (uint32_t i = 1; i < r->lives.n_arenas; i++)
        r->streams |= r->lives.arenas[i].stream != r->lives.arenas[0].stream;
    choice.merged = true;
    if (r->streams)
        SW_TRY(lives_place(&r->lives, &choice, a.stop, a.context, &r->merged));
    choice.merged = false;
    SW_TRY(lives_place(&r->lives, &choice, a.stop, a.context, &r->whole));
    /* A reserve that had grown before the trace cannot be compared with a simulation of it. */
    if (r->replayed && !r->trace.settings.expandable && r->reserved_event != TRACE_NONE) {
        const sw_status status = expandable_reserved(&r->trace, &r->lives, &r->expandable);
        if (status == SW_FORMAT) /* addresses that contradict each other */
            r->expandable = 0;
        else
            SW_TRY(status);
    }
    SW_TRY(replan_help_find(r->help, &r->n_help, &r->trace, &r->lives, r->reserved,
                            r->expandable));
    find_roles(r);
    SW_TRY(find_holders(r, r->whole.position, r->holders, &r->n_holders));
    for (uint32_t i = 0; i < r->n_holders; i++) {
        choice.left_out = r->holders[i].stack;
        choice.left_role = r->holders[i].role;
        SW_TRY(find_bound(&r->lives, &choice, &r->holders[i].without, NULL));
    }
    return r->oom.there ? find_holders(r, r->oom.event + 1, r->oom.holders, &r->oom.n_holders)
                        : SW_OK;
}

void replan_free(replan *r)
{
    trace_lives_free(&r->lives);
    snapshot_trace_free(&r->trace);
}
