/* The family of schedules of a chain: found for all peaks, then made better one by one. */
#include "alloc/base/mem.h"
#include "runtime/plan/recompute/chain_internal.h"
#include <string.h>

#define MOST_MEMBERS 128u
#define MOST_FOLLOWED 5000000u /* steps that are followed to make schedules better */

void swi_rc_family_free(swi_rc_family *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        swi_rc_free(&f->schedules[i]);
    sw_heap_free(f->schedules, SW_HEAP_PROGRAMS, f->cap * sizeof *f->schedules);
    *f = (swi_rc_family){0};
}

sw_status swi_rc_family_add(swi_rc_family *f, swi_rc_schedule *s)
{
    void *p = f->schedules;
    const sw_status status =
        sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &f->cap, f->n + 1, sizeof *f->schedules);
    if (status != SW_OK) {
        swi_rc_free(s);
        return status;
    }
    f->schedules = p;
    f->schedules[f->n++] = *s;
    return SW_OK;
}

static bool before(const swi_rc_schedule *a, const swi_rc_schedule *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->peak < b->peak;
}

/* Sort by cost and leave out what costs more and peaks no lower; of more than MOST_MEMBERS,
 * every other one until they are few. */
void swi_rc_family_tidy(swi_rc_family *f)
{
    for (uint32_t i = 1; i < f->n; i++) {
        const swi_rc_schedule x = f->schedules[i];
        uint32_t k = i;
        for (; k > 0 && before(&x, &f->schedules[k - 1]); k--)
            f->schedules[k] = f->schedules[k - 1];
        f->schedules[k] = x;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        if (kept > 0 && f->schedules[i].peak >= f->schedules[kept - 1].peak)
            swi_rc_free(&f->schedules[i]);
        else
            f->schedules[kept++] = f->schedules[i];
    }
    f->n = kept;
    while (f->n > MOST_MEMBERS) {
        kept = 0;
        for (uint32_t i = 0; i < f->n; i++) {
            if (i % 2 == 1 && i + 1 < f->n)
                swi_rc_free(&f->schedules[i]);
            else
                f->schedules[kept++] = f->schedules[i];
        }
        f->n = kept;
    }
}

/* Leave repeats out, one by one, where the peak stays under what it is. `left` counts the steps
 * that may still be followed. */
static sw_status leave_out(const swi_rc_problem *p, swi_rc_schedule *s, size_t *left)
{
    const size_t peak = s->peak;
    uint32_t first = 0;
    for (uint32_t i = 0; i < s->n_steps && *left >= s->n_steps; i++) {
        if (s->steps[i] == first) {
            first++;
            continue;
        }
        const uint32_t op = s->steps[i];
        *left -= s->n_steps;
        memmove(s->steps + i, s->steps + i + 1, (s->n_steps - i - 1) * sizeof *s->steps);
        s->n_steps--;
        SW_TRY(swi_rc_follow(p, s));
        if (s->peak <= peak) {
            i--;
            continue;
        }
        memmove(s->steps + i + 1, s->steps + i, (s->n_steps - i) * sizeof *s->steps);
        s->steps[i] = op;
        s->n_steps++;
    }
    return swi_rc_follow(p, s);
}

/* Does op `b` read what op `a` makes? */
static bool reads_from(const swi_rc_problem *p, uint32_t b, uint32_t a)
{
    for (uint32_t k = 0; k < p->ops[b].n_reads; k++)
        if (p->items[p->reads[p->ops[b].reads + k]].maker == a)
            return true;
    return false;
}

/* Let each repeat, the last first, stand right before the first step that reads it, where
 * the peak is not raised by it. */
static sw_status put_off(const swi_rc_problem *p, swi_rc_schedule *s, size_t *left)
{
    uint32_t first = p->n_ops;
    SW_TRY(swi_rc_follow(p, s));
    for (uint32_t i = s->n_steps; i-- > 0 && *left >= s->n_steps;) {
        const uint32_t op = s->steps[i];
        if (op == first - 1) {
            first--;
            continue;
        }
        uint32_t to = i;
        while (to + 1 < s->n_steps && !reads_from(p, s->steps[to + 1], op) &&
               s->steps[to + 1] != op)
            to++;
        if (to == i || to + 1 == s->n_steps)
            continue;
        const size_t peak = s->peak;
        *left -= s->n_steps;
        memmove(s->steps + i, s->steps + i + 1, (to - i) * sizeof *s->steps);
        s->steps[to] = op;
        const sw_status moved = swi_rc_follow(p, s);
        if (moved != SW_OK && moved != SW_INVALID)
            return moved;
        if (moved == SW_OK && s->peak <= peak)
            continue; /* what stands here now has been looked at */
        memmove(s->steps + i + 1, s->steps + i, (to - i) * sizeof *s->steps);
        s->steps[i] = op;
        SW_TRY(swi_rc_follow(p, s));
    }
    return SW_OK;
}

static sw_status better(const swi_rc_problem *p, swi_rc_family *f)
{
    size_t left = MOST_FOLLOWED;
    swi_rc_family_tidy(f);
    for (uint32_t i = 1; i < f->n; i++) {
        size_t share = left / (f->n - i);
        left -= share;
        SW_TRY(put_off(p, &f->schedules[i], &share));
        SW_TRY(leave_out(p, &f->schedules[i], &share));
        left += share;
    }
    swi_rc_family_tidy(f);
    return SW_OK;
}

/* Where the lowest peak leaves room for hardly anything, the chain's way to it is far from the
 * best: what it reads from before a part stays until that is done. */
static sw_status lowest(const swi_rc_problem *p, swi_rc_family *f)
{
    swi_rc_schedule s = {0};
    uint64_t least;
    size_t left = MOST_FOLLOWED / 8;
    sw_status status = swi_rc_single(p, f->schedules[f->n - 1].peak, &least, &s);
    if (status == SW_OK && s.n_steps > 0)
        status = put_off(p, &s, &left);
    const bool gains = s.n_steps > 0 && s.cost < f->schedules[f->n - 1].cost &&
                       s.peak < f->schedules[f->n > 1 ? f->n - 2 : 0].peak;
    if (status != SW_OK || !gains) {
        swi_rc_free(&s);
        return status == SW_INVALID ? SW_OK : status;
    }
    /* The chain's own lowest stays after it: placed, it may still need less. */
    swi_rc_schedule own = f->schedules[--f->n];
    status = swi_rc_family_add(f, &s);
    if (status == SW_OK)
        swi_rc_family_tidy(f);
    if (status == SW_OK && own.cost > f->schedules[f->n - 1].cost)
        return swi_rc_family_add(f, &own);
    swi_rc_free(&own);
    return status;
}

/* The program as it stands: what repeats nothing. */
static sw_status add_plain(const swi_rc_problem *p, swi_rc_family *f)
{
    swi_rc_schedule s = {0};
    sw_status status = SW_OK;
    for (uint32_t t = 0; status == SW_OK && t < p->n_ops; t++)
        status = swi_rc_append(&s, t);
    if (status == SW_OK)
        status = swi_rc_follow(p, &s);
    if (status != SW_OK) {
        swi_rc_free(&s);
        return status;
    }
    return swi_rc_family_add(f, &s);
}

static sw_status fill(const swi_chain *c, swi_rc_family *out)
{
    SW_TRY(add_plain(c->p, out));
    SW_TRY(swi_chain_schedules(c, out->schedules[0].peak, out));
    SW_TRY(better(c->p, out));
    return lowest(c->p, out);
}

sw_status swi_rc_chain(const swi_rc_problem *p, const uint32_t *backward_of, swi_rc_family *out)
{
    swi_chain chain;
    *out = (swi_rc_family){0};
    SW_TRY(swi_chain_create(&chain, p, backward_of));
    const sw_status status = fill(&chain, out);
    swi_chain_free(&chain);
    if (status != SW_OK)
        swi_rc_family_free(out);
    return status;
}
