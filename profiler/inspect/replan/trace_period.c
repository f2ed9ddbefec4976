/* Periods by the Z algorithm: how far a sequence agrees with itself, moved by each distance. */
#include "profiler/inspect/replan/replan.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/replan/number_map.h"

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
} search;

/* ---- requests ---------------------------------------------------------------------------- */

/* Not who asks: the first step may go other ways through the code. */
static uint64_t key_of(const trace_event *e)
{
    const uint64_t pool = e->pool == TRACE_NO_POOL ? 0 : e->pool;
    uint64_t key = e->bytes * UINT64_C(0x9e3779b97f4a7c15) ^ e->stream;
    key = (key ^ key >> 29) * UINT64_C(0x9e3779b97f4a7c15) ^ pool;
    return (key ^ key >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* Of what lived at the event's address. */
static sw_status end_request(search *s, number_map *living, const trace_event *e, uint32_t i)
{
    const uint32_t at = number_map_at(living, e->address);
    if (at == NUMBER_MAP_NONE)
        return SW_OK;
    if (s->of[at].dead == s->l->n_positions) {
        s->of[at].dead = i + 1;
        s->of[at].during = s->n;
    }
    return e->action == TRACE_FREE_REQUESTED
               ? SW_OK
               : number_map_set(living, e->address, NUMBER_MAP_NONE);
}

/* From the events, not from the lives. In a profile of a CPU addresses make no difference then:
 * what is written in place looks like what got its place by chance. On a device a free counts
 * where the program asks for it: when other streams let it complete differs from step to step.
 */
static sw_status take_requests(search *s, number_map *living)
{
    for (uint32_t i = 0; i < s->t->n_events; i++) {
        const trace_event *e = &s->t->events[i];
        const bool begins = e->action == TRACE_ALLOC && e->bytes > 0;
        if (begins || e->action == TRACE_FREE_REQUESTED || e->action == TRACE_FREE_COMPLETED)
            SW_TRY(end_request(s, living, e, i));
        if (!begins)
            continue;
        s->keys[s->n] = key_of(e);
        s->of[s->n++] = (request){i + 1, s->l->n_positions, 0};
        SW_TRY(number_map_set(living, e->address, s->n - 1));
    }
    return SW_OK;
}

/* ---- periods ----------------------------------------------------------------------------- */

/* Of the first n requests, read from their end. */
static void find_agreement(search *s, uint32_t n)
{
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
}

static void look(search *s, uint32_t n, uint32_t *run, uint32_t *period, uint32_t *end)
{
    find_agreement(s, n);
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

/* Of the run's last steps but one the request before which the least lives. */
static void choose_step(trace_period *out, const search *s, uint32_t run, uint32_t period,
                        uint32_t end, const uint64_t *live)
{
    uint32_t best = end - 2 * period, top = 0;
    for (uint32_t i = best; i < end - period; i++)
        if (live[s->of[i].born - 1] < live[s->of[best].born - 1])
            best = i;
    const trace_period found = {.steps = run / period,
                                .first = s->of[end - run].born,
                                .from = s->of[best].born,
                                .to = s->of[best + period].born};
    for (uint32_t i = 1; i < s->l->n_positions; i++)
        top = live[i] > live[top] ? i : top;
    if (live[found.from - 1] != live[found.to - 1] || top >= s->of[end - 1].dead)
        return;
    *out = found;
    out->requests = count_born(s->l, out->from, out->to);
}

/* The last one. */
static void take_frames(trace_period *out, const trace_roles *r, const trace_lives *l)
{
    const uint32_t n = r->n_steps;
    *out = (trace_period){.steps = n, .passes = r->passes, .by_frames = true};
    if (n == 0)
        return;
    out->first = r->steps[0].from;
    out->from = r->steps[n - 1].from;
    out->to = r->steps[n - 1].to;
    out->requests = count_born(l, out->from, out->to);
}

static sw_status find(search *s, trace_period *out)
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
            look(s, n, &run, &period, &end);
    }
    if (run == 0)
        return SW_OK;
    uint64_t *live;
    SW_TRY(trace_lives_curve(s->l, &live));
    choose_step(out, s, run, period, end, live);
    trace_lives_curve_free(s->l, live);
    return SW_OK;
}

sw_status trace_period_find(trace_period *p, const snapshot_trace *t, const trace_lives *l,
                            const trace_roles *roles)
{
    search s = {.t = t, .l = l};
    size_t n = 0;
    *p = (trace_period){0};
    if (roles->known) {
        take_frames(p, roles, l);
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
    const sw_status status = find(&s, p);
    sw_heap_free(s.keys, SW_HEAP_PROFILE, bytes);
    return status;
}
