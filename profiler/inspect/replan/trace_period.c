/* Periods by the Z algorithm: how far a sequence agrees with itself, moved by each distance. */
#include "profiler/inspect/replan/trace_period.h"
#include "alloc/base/mem.h"

#define ENDS 16    /* places where the run may end: parts of the trace */
#define LEAST 3    /* steps */
#define SHORTEST 4 /* requests of a step */

typedef struct {
    const trace_lives *l;
    const trace_life *of; /* requests: lives that were born in the trace */
    uint32_t n;
    uint64_t *keys;
    uint32_t *agree; /* how many requests agree with those p in front of them */
} search;

/* How many requests come while it lives; 0: it lives to the end. */
static uint32_t length_of(const search *s, uint32_t i)
{
    uint32_t low = i + 1, high = s->n;
    if (s->of[i].dead == s->l->n_positions)
        return 0;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->of[middle].born < s->of[i].dead)
            low = middle + 1;
        else
            high = middle;
    }
    return low - i;
}

/* Not who asks: the first step may go other ways through the code. */
static uint64_t key_of(const search *s, uint32_t i)
{
    const trace_life *x = &s->of[i];
    const uint64_t key = x->bytes * UINT64_C(0x9e3779b97f4a7c15) ^ x->arena;
    return (key ^ key >> 29) * UINT64_C(0xbf58476d1ce4e5b9) ^ length_of(s, i);
}

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

/* Live bytes behind each position. */
static sw_status find_live(const trace_lives *l, uint64_t **out)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, (l->n_positions + 1) * sizeof **out));
    *out = block;
    for (uint32_t i = 0; i < l->n; i++) {
        (*out)[l->all[i].born] += l->all[i].bytes;
        (*out)[l->all[i].dead] -= l->all[i].bytes;
    }
    for (uint32_t i = 1; i <= l->n_positions; i++)
        (*out)[i] += (*out)[i - 1];
    return SW_OK;
}

/* Of the run's last steps but one the request in front of which the least lives. */
static sw_status choose_step(trace_period *out, const search *s, uint32_t run, uint32_t period,
                             uint32_t end)
{
    uint64_t *live;
    SW_TRY(find_live(s->l, &live));
    uint32_t best = end - 2 * period;
    for (uint32_t i = best; i < end - period; i++)
        if (live[s->of[i].born - 1] < live[s->of[best].born - 1])
            best = i;
    sw_heap_free(live, SW_HEAP_PROFILE, (s->l->n_positions + 1) * sizeof *live);
    *out = (trace_period){.steps = run / period,
                          .requests = period,
                          .first = s->of[end - run].born,
                          .from = s->of[best].born,
                          .to = s->of[best + period].born};
    return SW_OK;
}

static sw_status find(search *s, trace_period *out)
{
    uint32_t run = 0, period = 0, end = 0;
    for (uint32_t i = 0; i < s->n; i++)
        s->keys[i] = key_of(s, i);
    for (uint32_t i = ENDS; i > 0; i--) {
        const uint32_t n = (uint32_t)((uint64_t)s->n * i / ENDS);
        if (n > run && n >= LEAST * SHORTEST)
            look(s, n, &run, &period, &end);
    }
    return run > 0 ? choose_step(out, s, run, period, end) : SW_OK;
}

sw_status trace_period_find(trace_period *p, const trace_lives *l)
{
    void *keys, *agree;
    search s = {.l = l, .of = l->all + l->n_before, .n = l->n - l->n_before};
    *p = (trace_period){0};
    if (s.n < LEAST * SHORTEST)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&keys, SW_HEAP_PROFILE, s.n * sizeof *s.keys));
    sw_status status = sw_heap_alloc(&agree, SW_HEAP_PROFILE, s.n * sizeof *s.agree);
    if (status == SW_OK) {
        s.keys = keys;
        s.agree = agree;
        status = find(&s, p);
        sw_heap_free(agree, SW_HEAP_PROFILE, s.n * sizeof *s.agree);
    }
    sw_heap_free(keys, SW_HEAP_PROFILE, s.n * sizeof *s.keys);
    return status;
}
