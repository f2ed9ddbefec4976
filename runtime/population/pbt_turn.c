/* Turns: reports are taken in order, quantiles are formed, and who is replaced by whom is
 * decided, as Ray Tune's PopulationBasedTraining does it. Nothing here can fail: an exploit is
 * noted, and done by pbt_event.c. */
#include "runtime/population/pbt_internal.h"
#include <math.h>

/* ---- members that end -------------------------------------------------------------------- */

static void add(sw_pbt *p, sw_pbt_what what, uint32_t member)
{
    p->waiting[p->s.n_events++] = (swi_pbt_waiting){
        .what = (uint32_t)what, .member = member, .time = p->one[member].time};
}

static void drop_kept(sw_pbt *p, uint32_t member)
{
    if (p->one[member].kept)
        add(p, SW_PBT_DROP, member);
    p->one[member].kept = 0;
}

/* It goes on no more: neither replaced nor a donor from here on. */
void swi_pbt_end_member(sw_pbt *p, uint32_t member)
{
    swi_pbt_one *m = &p->one[member];
    drop_kept(p, member);
    p->s.n_ready -= m->ready;
    p->s.n_go_on--;
    m->ready = 0;
    m->ended = 1;
    if (!p->opts.synch) {
        swi_pbt_heap_drop(p, member);
        swi_pbt_rank_drop(p, member);
    }
}

/* ---- a report is taken ------------------------------------------------------------------- */

/* The mean of the last scores is what the t-test ranks by. */
static double ranked_by(sw_pbt *p, uint32_t member, double score)
{
    swi_pbt_one *m = &p->one[member];
    if (p->opts.exploit != SW_T_TEST || isnan(score))
        return score;
    const double *x = p->scores + (size_t)member * SWI_SCORES;
    const int n = m->n_scores < SWI_SCORES ? (int)m->n_scores : SWI_SCORES;
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

/* Take what a report says of its member. True: it is the member's turn. */
static bool take_report(sw_pbt *p, uint32_t member)
{
    swi_pbt_one *m = &p->one[member];
    const sw_pbt_opts *o = &p->opts;
    const double score = m->due_score;
    m->clock = swi_pbt_clock(m);
    m->due = 0;
    m->time = m->due_time;
    m->seen = score;
    if (o->exploit == SW_T_TEST && !isnan(score))
        p->scores[(size_t)member * SWI_SCORES + m->n_scores++ % SWI_SCORES] = score;
    const bool good = o->has_stop_score && score >= swi_pbt_sign(p, o->stop_score);
    if (good || (o->stop_time > 0 && m->time >= o->stop_time)) {
        swi_pbt_end_member(p, member);
        add(p, SW_PBT_STOP, member);
        return false;
    }
    return swi_pbt_is_turn(p, m, m->time);
}

static void decide(sw_pbt *p, uint32_t member, uint32_t donor)
{
    p->s.target = member;
    p->s.donor = donor;
}

/* Another member of the ranking than that at `at`, drawn uniformly. */
static uint32_t opponent(const sw_pbt *p, uint32_t member, uint64_t at)
{
    const uint64_t k = swi_pbt_draw(p, member, p->s.n_rank - 1);
    return p->rank[k + (k >= at)];
}

/* ---- asynchronous ------------------------------------------------------------------------ */

/* The best keep their state from their turn on, others need none; the worst copy it. */
static void truncation_turn(sw_pbt *p, uint32_t member)
{
    uint64_t replaced, donors;
    swi_pbt_shares(&p->opts, p->s.n_rank, &replaced, &donors);
    const bool ranked = !isnan(p->one[member].score);
    const uint64_t at = ranked ? swi_pbt_rank_of(p, member) : 0, top = p->s.n_rank - donors;
    if (ranked && at >= top) {
        p->one[member].kept = 1;
        p->one[member].kept_time = p->one[member].time;
        add(p, SW_PBT_KEEP, member);
        return;
    }
    drop_kept(p, member);
    if (!ranked || at >= replaced || donors == 0)
        return;
    const uint32_t donor = p->rank[top + swi_pbt_draw(p, member, donors)];
    if (p->one[donor].kept)
        decide(p, member, donor);
    else
        p->one[member].draws++;
}

/* Who is not replaced keeps its state: anyone may be compared with it. */
static void tournament_turn(sw_pbt *p, uint32_t member)
{
    swi_pbt_one *m = &p->one[member];
    if (!isnan(m->score) && p->s.n_rank > 1) {
        const uint32_t other = opponent(p, member, swi_pbt_rank_of(p, member));
        if (p->one[other].kept && swi_pbt_better(p, other, member)) {
            drop_kept(p, member);
            decide(p, member, other);
            return;
        }
        m->draws++;
    }
    if (isnan(m->score)) {
        drop_kept(p, member);
        return;
    }
    m->kept = 1;
    m->kept_time = m->time;
    add(p, SW_PBT_KEEP, member);
}

/* The top of the order. False: it has nothing to say yet. */
static bool step_asynchronous(sw_pbt *p)
{
    if (p->s.n_heap == 0)
        return false;
    const uint32_t member = p->heap[0];
    swi_pbt_one *m = &p->one[member];
    if (m->leaving) {
        swi_pbt_end_member(p, member);
        return true;
    }
    if (!m->due)
        return false;
    if (take_report(p, member)) {
        swi_pbt_rank_drop(p, member);
        m->last = m->time;
        m->score = ranked_by(p, member, m->seen);
        swi_pbt_rank_add(p, member);
        if (p->opts.exploit == SW_TRUNCATION)
            truncation_turn(p, member);
        else
            tournament_turn(p, member);
    }
    if (!m->ended)
        swi_pbt_heap_move(p, member);
    return true;
}

/* ---- synchronous ------------------------------------------------------------------------- */

static void take_queued(sw_pbt *p)
{
    const uint32_t member = p->queue[p->s.queue_at];
    p->s.queue_at = (p->s.queue_at + 1) % p->n;
    p->s.n_queue--;
    if (p->one[member].ended || !take_report(p, member))
        return;
    p->one[member].ready = 1;
    p->s.n_ready++;
}

/* All that go on are at their turn: their common time is that of the one that came furthest.
 * The best have nothing to do, since a donor gives its present state and is itself not
 * replaced; so what is left is who is replaced, the worst first. */
static void begin_turn(sw_pbt *p)
{
    double last = 0;
    uint64_t replaced, donors;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->one[i].ready && p->one[i].time > last)
            last = p->one[i].time;
    for (uint32_t i = 0; i < p->n; i++) {
        swi_pbt_one *m = &p->one[i];
        if (!m->ready)
            continue;
        m->ready = 0;
        m->last = last;
        m->score = ranked_by(p, i, m->seen);
    }
    p->s.n_ready = 0;
    swi_pbt_rank_all(p);
    swi_pbt_shares(&p->opts, p->s.n_rank, &replaced, &donors);
    p->s.turn_at = 0;
    p->s.turn_top = donors;
    p->s.turn_last = replaced;
    if (p->opts.exploit != SW_TRUNCATION)
        p->s.turn_last = p->s.n_rank > 1 ? p->s.n_rank : 0;
    else if (donors == 0)
        p->s.turn_last = 0;
}

/* In ascending order: a better one is still as it was when the turn began. */
static void take_worst(sw_pbt *p)
{
    const uint64_t at = p->s.turn_at++;
    const uint32_t member = p->rank[at];
    if (p->one[member].ended)
        return;
    uint32_t donor;
    if (p->opts.exploit == SW_TRUNCATION)
        donor = p->rank[p->s.n_rank - p->s.turn_top + swi_pbt_draw(p, member, p->s.turn_top)];
    else
        donor = opponent(p, member, at);
    const bool copies = p->opts.exploit == SW_TRUNCATION || swi_pbt_better(p, donor, member);
    if (copies && !p->one[donor].ended)
        decide(p, member, donor);
    else
        p->one[member].draws++;
}

static bool step_synch(sw_pbt *p)
{
    if (p->s.turn_at < p->s.turn_last)
        take_worst(p);
    else if (p->s.n_queue > 0)
        take_queued(p);
    else if (p->s.n_go_on > 0 && p->s.n_ready == p->s.n_go_on)
        begin_turn(p);
    else
        return false;
    return true;
}

bool swi_pbt_step(sw_pbt *p)
{
    return p->opts.synch ? step_synch(p) : step_asynchronous(p);
}

bool swi_pbt_is_due(const sw_pbt *p)
{
    if (p->s.n_events > 0 || p->s.target >= 0)
        return true;
    if (p->opts.synch)
        return p->s.turn_at < p->s.turn_last || p->s.n_queue > 0 ||
               (p->s.n_go_on > 0 && p->s.n_ready == p->s.n_go_on);
    return p->s.n_heap > 0 && (p->one[p->heap[0]].due || p->one[p->heap[0]].leaving);
}
