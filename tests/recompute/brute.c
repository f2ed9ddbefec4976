/* All schedules, by their length: whatever may be the next step is tried, and a beginning is
 * given up when its own peak is over the capacity (what follows can only hold more) or its cost
 * over the limit. The limit rises from nothing to the next cost that was cut off, so the first
 * schedule found is the cheapest. */
#include "tests/recompute/brute.h"

#define MOST_STEPS 64

typedef struct {
    const swi_rc_problem *p;
    size_t capacity;
    uint64_t limit, over, work; /* over: the least cost that was cut off */
    uint32_t steps[MOST_STEPS], n;
} brute;

static bool reads(const swi_rc_problem *p, uint32_t op, uint32_t item)
{
    for (uint32_t k = 0; k < p->ops[op].n_reads; k++)
        if (p->reads[p->ops[op].reads + k] == item)
            return true;
    return false;
}

/* The last step that reads what step `from` made of the item; `from` where none does. */
static uint32_t last_reader(const swi_rc_problem *p, const uint32_t *steps, uint32_t n,
                            uint32_t from, uint32_t item)
{
    uint32_t last = from;
    for (uint32_t i = from + 1; i < n && steps[i] != p->items[item].maker; i++)
        if (reads(p, steps[i], item))
            last = i;
    return last;
}

static uint32_t made_at(const swi_rc_problem *p, const uint32_t *steps, uint32_t at,
                        uint32_t item)
{
    while (at > 0 && steps[at] != p->items[item].maker)
        at--;
    return at;
}

static size_t bytes_at(const swi_rc_problem *p, const uint32_t *steps, uint32_t n, uint32_t at,
                       uint32_t first, bool repeat)
{
    const swi_rc_op *op = &p->ops[steps[at]];
    size_t bytes = repeat ? p->between[first] + op->scratch : p->during[first];
    for (uint32_t from = 0; from <= at; from++)
        for (uint32_t k = 0; k < p->ops[steps[from]].n_makes; k++) {
            const uint32_t item = p->makes[p->ops[steps[from]].makes + k];
            if (last_reader(p, steps, n, from, item) >= at)
                bytes += p->items[item].bytes;
        }
    for (uint32_t k = 0; k < op->n_reads && k < 32; k++) {
        const uint32_t item = p->reads[op->reads + k];
        const uint32_t from = made_at(p, steps, at, item);
        if ((op->inplace >> k & 1u) != 0 && last_reader(p, steps, n, from, item) == at)
            return bytes - p->items[item].bytes;
    }
    return bytes;
}

size_t brute_peak(const swi_rc_problem *p, const uint32_t *steps, uint32_t n)
{
    size_t peak = 0;
    for (uint32_t i = 0, first = 0; i < n; i++) {
        const bool repeat = steps[i] < first;
        const size_t bytes = bytes_at(p, steps, n, i, first, repeat);
        peak = bytes > peak ? bytes : peak;
        first += !repeat;
    }
    return peak;
}

static bool extend(brute *b, uint32_t first, uint64_t cost)
{
    if (b->work == 0 || brute_peak(b->p, b->steps, b->n) > b->capacity)
        return false;
    b->work--;
    if (first == b->p->n_ops)
        return true;
    if (b->n == MOST_STEPS) {
        b->work = 0;
        return false;
    }
    b->steps[b->n++] = first;
    if (extend(b, first + 1, cost))
        return true;
    b->n--;
    for (uint32_t op = 0; op < first; op++) {
        if (b->p->ops[op].until < first || b->steps[b->n - 1] == op)
            continue;
        const uint64_t with = cost + b->p->ops[op].cost;
        if (with > b->limit) {
            b->over = with < b->over ? with : b->over;
            continue;
        }
        b->steps[b->n++] = op;
        if (extend(b, first, with))
            return true;
        b->n--;
    }
    return false;
}

uint64_t brute_least(const swi_rc_problem *p, size_t capacity, uint64_t limit, uint64_t work)
{
    brute b = {.p = p, .capacity = capacity, .work = work};
    for (uint64_t next = 0; next <= limit; next = b.over) {
        b.limit = next;
        b.over = UINT64_MAX;
        b.n = 0;
        if (extend(&b, 0, 0))
            return next;
        if (b.work == 0)
            return BRUTE_GAVE_UP;
        if (b.over == UINT64_MAX)
            break;
    }
    return BRUTE_NONE;
}
