/* The schedule as callers see it: reports in, who runs next and events out. */
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <string.h>

bool swi_pbt_is_turn(const sw_pbt *p, const swi_pbt_one *m, double time)
{
    return time >= p->opts.burn_in && time >= m->last + p->opts.interval;
}

double swi_pbt_until(const sw_pbt *p, const swi_pbt_one *m)
{
    double until = m->last + p->opts.interval;
    until = until < p->opts.burn_in ? p->opts.burn_in : until;
    if (p->opts.stop_time > 0 && until > p->opts.stop_time)
        until = p->opts.stop_time;
    return until > m->time ? until : nextafter(m->time, (double)INFINITY);
}

/* ---- reports ----------------------------------------------------------------------------- */

sw_status sw_pbt_report(sw_pbt *p, int member, double time, double score)
{
    static const char call[] = "sw_pbt_report";
    SW_TRY(swi_pbt_member_check(p, member, call));
    swi_pbt_one *m = &p->one[member];
    if (m->ended || m->leaving)
        SW_FAIL(SW_INVALID, "%s: member %d has ended", call, member);
    if (p->s.deciding)
        SW_FAIL(SW_INVALID, "%s: ask sw_pbt_next_event first until it answers SW_PBT_NONE",
                call);
    if (m->due || m->ready)
        SW_FAIL(SW_INVALID, "%s: the report before of member %d still waits for other members",
                call, member);
    if (!(time > m->time) || isinf(time))
        SW_FAIL(SW_INVALID, "%s: the time of member %d must be above %.17g and finite (got %g)",
                call, member, m->time, time);
    m->due = 1;
    m->due_time = time;
    m->due_score = swi_pbt_sign(p, score);
    p->s.began = 1;
    if (p->opts.synch)
        p->queue[(p->s.queue_at + p->s.n_queue++) % p->n] = (uint32_t)member;
    else
        swi_pbt_heap_move(p, (uint32_t)member);
    return SW_OK;
}

sw_status sw_pbt_leave(sw_pbt *p, int member)
{
    static const char call[] = "sw_pbt_leave";
    SW_TRY(swi_pbt_member_check(p, member, call));
    swi_pbt_one *m = &p->one[member];
    if (m->ended || m->leaving)
        SW_FAIL(SW_INVALID, "%s: member %d has ended", call, member);
    p->s.began = 1;
    if (p->opts.synch) { /* what it has in the queue is passed over */
        swi_pbt_end_member(p, (uint32_t)member);
        return SW_OK;
    }
    m->leaving = 1; /* and where it has a report, it leaves at the time of that */
    return SW_OK;
}

/* ---- who runs next ----------------------------------------------------------------------- */

static bool waits(const swi_pbt_one *m)
{
    return m->ended || m->leaving || m->due || m->ready;
}

/* Where a member stands: who comes first in this order runs first. */
typedef struct {
    double clock, time, until;
} stand;

static stand stand_of(const sw_pbt *p, const swi_pbt_one *m)
{
    return (stand){m->clock, m->time, swi_pbt_until(p, m)};
}

static bool is_before(stand a, stand b)
{
    return a.clock != b.clock ? a.clock < b.clock
           : a.time != b.time ? a.time < b.time
                              : a.until < b.until;
}

/* Each member runs from turn to turn, whatever the number that run side by side. */
static bool find_least(const sw_pbt *p, stand *least)
{
    bool any = false;
    for (uint32_t i = 0; i < p->n; i++) {
        if (waits(&p->one[i]))
            continue;
        const stand s = stand_of(p, &p->one[i]);
        if (!any || is_before(s, *least))
            *least = s;
        any = true;
    }
    return any;
}

sw_status sw_pbt_next(sw_pbt *p, int *members, int room, int *n, double *until)
{
    static const char call[] = "sw_pbt_next";
    stand least = {0, 0, 0};
    int count = 0;
    SW_TRY(swi_pbt_check(p, call));
    if (members == NULL || n == NULL || until == NULL || room < 1)
        SW_FAIL(SW_INVALID,
                "%s: members, n and until must not be NULL, room at least 1 (got %d)", call,
                room);
    if (p->s.deciding || swi_pbt_is_due(p))
        SW_FAIL(SW_INVALID, "%s: ask sw_pbt_next_event first until it answers SW_PBT_NONE",
                call);
    SW_TRY(swi_pbt_log_begin(p));
    if (!find_least(p, &least)) {
        *n = 0;
        return SW_OK;
    }
    for (uint32_t i = 0; i < p->n && count < room; i++) {
        const swi_pbt_one *m = &p->one[i];
        if (!waits(m) && !is_before(least, stand_of(p, m)))
            members[count++] = (int)i;
    }
    *n = count;
    *until = least.until;
    return SW_OK;
}

/* ---- events ------------------------------------------------------------------------------ */

/* All but the times and scores of the event is done in the order: find the new values, write
 * the logs, and where both worked change the member. */
static sw_status exploit(sw_pbt *p, bool *done)
{
    const uint32_t target = (uint32_t)p->s.target, donor = (uint32_t)p->s.donor;
    swi_pbt_one *m = &p->one[target];
    const swi_pbt_one *d = &p->one[donor];
    *done = false;
    const bool out = m->ended || m->leaving || (p->opts.synch && d->ended);
    if (!out && p->s.n_exploits + 1 != p->opts.without) {
        SW_TRY(swi_pbt_explore(p, target, donor));
        SW_TRY(swi_pbt_log_exploit(p, target, donor));
        *done = true;
    }
    p->s.n_exploits += !out;
    m->draws++;
    p->s.target = p->s.donor = -1;
    return SW_OK;
}

/* The target goes on as the donor did, with the new values. */
static void change(sw_pbt *p, uint32_t target, uint32_t donor, double donor_time)
{
    swi_pbt_one *m = &p->one[target];
    memcpy(swi_pbt_values(p, target), p->fresh, p->h * sizeof *p->fresh);
    m->time = donor_time;
    m->last = p->one[donor].last;
    m->n_scores = 0;
    m->exploits++;
    if (!p->opts.synch)
        swi_pbt_heap_move(p, target);
}

static sw_status do_exploit(sw_pbt *p, sw_pbt_event *e)
{
    const uint32_t target = (uint32_t)p->s.target, donor = (uint32_t)p->s.donor;
    const swi_pbt_one *m = &p->one[target], *d = &p->one[donor];
    bool done;
    SW_TRY(exploit(p, &done));
    if (!done)
        return SW_OK;
    *e = SW_OPTS(sw_pbt_event, .what = SW_PBT_EXPLOIT, .member = (int)target,
                 .donor = (int)donor, .number = p->s.n_exploits, .time = m->time,
                 .donor_time = p->opts.synch ? d->time : d->kept_time,
                 .score = swi_pbt_sign(p, m->seen), .donor_score = swi_pbt_sign(p, d->score));
    change(p, target, donor, e->donor_time);
    return SW_OK;
}

static void take_waiting(sw_pbt *p, sw_pbt_event *e)
{
    const swi_pbt_waiting *t = &p->waiting[0];
    *e = SW_OPTS(sw_pbt_event, .what = (sw_pbt_what)t->what, .member = (int)t->member,
                 .donor = -1, .time = t->time, .donor_time = t->time,
                 .score = swi_pbt_sign(p, p->one[t->member].seen), .donor_score = (double)NAN);
    memmove(p->waiting, p->waiting + 1, --p->s.n_events * sizeof *t);
}

sw_status sw_pbt_next_event(sw_pbt *p, sw_pbt_event *out)
{
    static const char call[] = "sw_pbt_next_event";
    sw_pbt_event e = SW_OPTS(sw_pbt_event, .what = SW_PBT_NONE, .member = -1, .donor = -1);
    SW_TRY(swi_pbt_check(p, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_pbt_event, out->size, call));
    SW_TRY(swi_pbt_log_begin(p));
    while (e.what == SW_PBT_NONE) {
        if (p->s.n_events > 0)
            take_waiting(p, &e);
        else if (p->s.target >= 0)
            SW_TRY(do_exploit(p, &e));
        else if (!swi_pbt_step(p))
            break;
    }
    p->s.deciding = e.what != SW_PBT_NONE;
    swi_struct_write(SWI_STRUCT_sw_pbt_event, out, &e);
    return SW_OK;
}
