/* Depth-first search with propagation over sections.
 *
 * Time is reduced to sections, the maximal sets of buffers that live together; a buffer covers
 * a run of them. Buffers are placed upwards: once one is placed, all unplaced ones that share a
 * section with it lie above. So a state is a lower bound of the offset of each unplaced buffer;
 * the floor of a section is the least of these bounds.
 *
 * In each section the unplaced buffers are jobs of one machine that all end by the roof: who
 * starts too late to be the lowest lies above the least end of those who can be (tighten).
 *
 * Bounds are multiples of their buffers' alignments. Statements about room count sizes alone:
 * with alignments they are weaker, and still true.
 *
 * Branching is by corners. A niche is a run of sections with equal floor between higher walls;
 * at a wall lies a buffer that ends there, or nothing: then the floor rises to the next height
 * at which a buffer can rest on another. Where no wall is yet, the tightest section takes the
 * corner's place. Pushing every buffer down as far as it goes turns any placement into one that
 * this finds, so a search that ends without one, and has skipped nothing, is a proof.
 *
 * The corner with the fewest choices goes first, more so where all choices have failed before;
 * large and long buffers are tried first. A decision has a share of the nodes of the one below
 * it (credit; Beldiceanu et al. 1997): the wrong one is often far down, and else a dive would
 * go round in its last few decisions. Searches are cut short and begin again (Luby et al. 1993)
 * with another order and some noise; failures and hopeless states are remembered. How orders,
 * noise, lengths and shares are set is the strategy; placement_race.c runs several. */
#include "alloc/base/assert.h"
#include "alloc/placement/placement_search_internal.h"
#include "alloc/placement/placement_align.h"
#include <math.h>

#define WORK_OF_NODE 20000 /* steps: some nodes of most problems */
#define LEAST_CREDIT 10    /* nodes */
#define SMALL 64           /* buffers: all is tried */

/* ---- choices ----------------------------------------------------------------------------- */

/* Buffers of one lifetime that lie directly on each other do so with the larger one below: any
 * other order is as good. It must be the order in which choices are tried: where a search would
 * rather have the larger one below and is not let, it finds next to nothing. */
static bool out_of_order(const swi_search *s, uint32_t i)
{
    for (uint32_t j = s->alike[i]; j != i; j = s->alike[j]) {
        const bool later = s->bytes[j] < s->bytes[i] || (s->bytes[j] == s->bytes[i] && j > i);
        if (later && s->placed[j] && s->offset[j] + s->bytes[j] == s->low[i])
            return true;
    }
    return false;
}

/* Who can lie on the floor of the section: of twins the first alone. `to` may be NULL. */
static uint32_t choices_at(const swi_search *s, uint32_t section, uint32_t *to)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->n_left[section]; k++) {
        const uint32_t i = s->list[s->list_at[section] + k], t = s->twin[i];
        if (s->low[i] != s->floor[section] ||
            (t != SWI_NONE && !s->placed[t] && s->low[t] == s->low[i]) || out_of_order(s, i))
            continue;
        if (to != NULL)
            to[n] = i;
        n++;
    }
    return n;
}

/* The least height above the floor at which i can rest on a buffer outside of the section, or
 * as near to it as it may; the first that is found where it is at most `enough`. */
static uint64_t rests_at(const swi_search *s, uint32_t i, uint32_t section, uint64_t enough)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t m = s->first[i]; m < s->end[i]; m++) {
        if (s->floor[m] >= least)
            continue; /* all that lies here ends higher */
        const uint32_t *list = s->list + s->list_at[m];
        for (uint32_t x = 0; x < s->n_left[m]; x++) {
            const uint32_t j = list[x];
            const bool here = s->first[j] <= section && section < s->end[j];
            const uint64_t end = swi_align_up(s->low[j] + s->bytes[j], s->align[i]);
            if (j != i && !here && end > s->floor[section] && end < least)
                least = end;
            if (least <= enough)
                return least;
        }
    }
    return least;
}

/* The height that the floor rises to if no buffer lies on it; 0 where it cannot rise
 * because the bytes above do not suffice. */
static uint64_t next_floor(const swi_search *s, uint32_t section)
{
    const uint64_t floor = s->floor[section], highest = s->roof - s->rest[section];
    if (floor >= highest)
        return 0;
    uint64_t next = UINT64_MAX;
    const uint32_t *list = s->list + s->list_at[section];
    for (uint32_t k = 0; k < s->n_left[section]; k++) {
        const uint32_t i = list[k];
        const uint64_t at = s->low[i] > floor ? s->low[i] : rests_at(s, i, section, 0);
        next = at < next ? at : next;
    }
    return next <= highest ? next : 0;
}

/* Whether next_floor is not 0. */
static bool can_rise(const swi_search *s, uint32_t section)
{
    const uint64_t floor = s->floor[section], highest = s->roof - s->rest[section];
    const uint32_t *list = s->list + s->list_at[section];
    if (floor >= highest)
        return false;
    for (uint32_t k = 0; k < s->n_left[section]; k++)
        if (s->low[list[k]] > floor && s->low[list[k]] <= highest)
            return true;
    for (uint32_t k = 0; k < s->n_left[section]; k++)
        if (s->low[list[k]] == floor && rests_at(s, list[k], section, highest) <= highest)
            return true;
    return false;
}

/* ---- corners ----------------------------------------------------------------------------- */

typedef struct {
    uint32_t section; /* SWI_NONE: nothing is left to decide */
    double score;
} corner;

static void consider(const swi_search *s, uint32_t section, corner *best)
{
    const double weight = s->how->learns ? 1.0 + (double)s->failed[section] : 1.0;
    const double waste = (double)(s->roof - s->floor[section] - s->rest[section]);
    uint32_t n = choices_at(s, section, NULL);
    if (best->section != SWI_NONE && n >= 2 && (double)n / weight > best->score)
        return; /* one more choice makes it no better */
    n += can_rise(s, section);
    const double score =
        n < 2 ? (double)n - 2.0 : (double)n / weight + 1e-6 * waste / (double)s->roof;
    if (best->section == SWI_NONE || score < best->score)
        *best = (corner){section, score};
}

static uint32_t tightest(const swi_search *s, uint32_t from, uint32_t to)
{
    uint32_t best = from;
    for (uint32_t k = from + 1; k < to; k++)
        if (s->rest[k] > s->rest[best] ||
            (s->rest[k] == s->rest[best] && s->n_left[k] < s->n_left[best]))
            best = k;
    return best;
}

static corner select_corner(const swi_search *s, uint32_t from, uint32_t to)
{
    corner best = {SWI_NONE, 0.0};
    for (uint32_t l = from, r; l < to; l = r) {
        const uint64_t floor = s->floor[l];
        for (r = l + 1; r < to && s->floor[r] == floor;)
            r++;
        const bool left = l > from && s->floor[l - 1] > floor;
        const bool right = r < to && s->floor[r] > floor;
        if (s->n_left[l] == 0 || (l > from && !left) || (r < to && !right))
            continue; /* no niche */
        if (left)
            consider(s, l, &best);
        if (right)
            consider(s, r - 1, &best);
        if (!left && !right)
            consider(s, tightest(s, l, r), &best);
    }
    return best;
}

/* ---- pieces ------------------------------------------------------------------------------ */

static uint64_t state_of(const swi_search *s, uint32_t from, uint32_t to)
{
    uint64_t hash = 0;
    for (uint32_t k = s->start_at[from]; k < s->start_at[to]; k++) {
        const uint32_t i = s->starter[k];
        if (!s->placed[i])
            hash += swi_mix(s->name[i] + 2 * s->low[i] + out_of_order(s, i));
    }
    return hash | 1;
}

/* The end of the piece that begins at `from`: no unplaced buffer crosses it. */
static uint32_t piece_end(const swi_search *s, uint32_t from, uint32_t to)
{
    uint32_t reach = from + 1;
    for (uint32_t k = from; k < reach && k < to; k++)
        for (uint32_t m = s->start_at[k]; m < s->start_at[k + 1]; m++)
            if (!s->placed[s->starter[m]] && s->end[s->starter[m]] > reach)
                reach = s->end[s->starter[m]];
    return reach < to ? reach : to;
}

/* ---- one attempt ------------------------------------------------------------------------- */

/* Of the pieces of [from, to) that hold unplaced buffers the one with the fewest: what is
 * hopeless shows early. False: there is none. */
static bool smallest_piece(const swi_search *s, const swi_decision *in, uint32_t *from,
                           uint32_t *to)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t l = in->from, r; l < in->to; l = r) {
        uint32_t n = 0;
        r = piece_end(s, l, in->to);
        for (uint32_t k = l; k < r; k++)
            n += s->n_left[k];
        if (n > 0 && n < least) {
            *from = l;
            *to = r;
            least = n;
        }
    }
    return least != UINT32_MAX;
}

/* How early a buffer is tried: long and large ones first, after the first attempts with noise.
 */
static double value_of(swi_search *s, uint32_t i)
{
    const double span = (double)(s->end[i] - s->first[i]), bytes = (double)s->bytes[i];
    const double values[SWI_ORDERS] = {span * bytes, span * bytes * bytes, bytes,
                                       span * span * bytes, span * sqrt(bytes)};
    const uint32_t turn = s->restarts % s->how->n_orders;
    const double value = values[s->how->order[turn]];
    if (s->restarts < s->how->n_orders)
        return value;
    s->noise = swi_mix(s->noise + 0x9e3779b97f4a7c15ull);
    return value * (1.0 + s->how->noise * ((double)(s->noise >> 11) * 0x1p-53 - 0.5));
}

/* The choices of a section on the stack, best first. */
static uint32_t push_choices(swi_search *s, uint32_t section)
{
    uint32_t *c = s->choice + s->n_choice;
    double *v = s->value + s->n_choice;
    const uint32_t n = choices_at(s, section, c);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t x = c[i];
        const double y = value_of(s, x);
        uint32_t k = i;
        for (; k > 0 && v[k - 1] < y; k--) {
            v[k] = v[k - 1];
            c[k] = c[k - 1];
        }
        v[k] = y;
        c[k] = x;
    }
    s->n_choice += n;
    return n;
}

/* One decision: the k-th choice, or after the last nothing at all. False: it cannot be. */
static bool decide(swi_search *s, uint32_t section, const uint32_t *choices, uint32_t n,
                   uint32_t k)
{
    if (k < n) {
        swi_search_place(s, choices[k]);
        return true;
    }
    const uint64_t next = next_floor(s, section);
    for (uint32_t m = 0; m < s->n_left[section] && next != 0; m++)
        swi_search_raise_bound(s, s->list[s->list_at[section] + m], next);
    return next != 0;
}

/* Where many buffers live at one time, propagation may take a hundred times as long as in other
 * problems: it counts as nodes too, so that a limit in nodes is one of time. */
static void count_node(swi_search *s)
{
    s->nodes += 1 + s->work / WORK_OF_NODE;
    s->work %= WORK_OF_NODE;
    if (s->nodes > s->limit)
        s->nodes = s->limit;
    s->cut = s->nodes >= s->limit || (++s->asked % 16 == 0 && swi_race_is_over(s));
}

/* The next choice of the deepest decision that does not fail at once. False: none is left, and
 * the decision is taken off. */
static bool next_choice(swi_search *s)
{
    swi_decision *d = &s->stack[s->depth - 1];
    const uint32_t *choices = s->choice + s->n_choice - d->n;
    while (d->next <= d->n && !s->cut && !(d->n > 1 && d->next > 0 && s->nodes > d->until)) {
        count_node(s);
        if (decide(s, d->section, choices, d->n, d->next++) && swi_search_propagate(s))
            return true;
        swi_search_take_back(s, d->mark);
    }
    d->skipped = d->skipped || d->next <= d->n;
    if (!d->skipped) {
        s->table[d->state >> (64 - SWI_TABLE_BITS)] = d->state;
        s->failed[d->section]++;
    } else if (s->depth > 1) {
        d[-1].skipped = true;
    }
    s->n_choice -= d->n;
    s->depth--;
    return false;
}

/* How far a decision of n choices may go. Its nodes come out of what is left to the one below:
 * a wrong decision is often far down, and all that is on top of it need not be tried. */
static uint64_t credit(const swi_search *s, uint32_t n)
{
    const uint64_t until = s->stack[s->depth - 1].until;
    uint64_t left = until > s->nodes ? until - s->nodes : 0;
    if (n > 1 && s->n > SMALL)
        left = (uint64_t)((double)left * s->how->share);
    return s->nodes + (left > LEAST_CREDIT ? left : LEAST_CREDIT);
}

/* Open a decision in the piece. False: it is known to hold no placement, or there is no room.
 */
static bool open_piece(swi_search *s, uint32_t from, uint32_t to)
{
    const uint32_t section = select_corner(s, from, to).section;
    SW_ASSERT(section != SWI_NONE); /* something is left to place */
    const uint64_t state = state_of(s, from, to);
    if (s->table[state >> (64 - SWI_TABLE_BITS)] == state)
        return false;
    if (s->depth == s->cap_stack || s->n_choice + s->n > s->cap_choice) {
        s->cut = true;
        return false;
    }
    const uint32_t n = push_choices(s, section);
    s->stack[s->depth] =
        (swi_decision){from, to, section, n, 0, s->n_trail, state, credit(s, n), false};
    s->depth++;
    return true;
}

/* From the root, a decision over all sections with nothing to choose, until all pieces of it
 * are placed. A decision with all its pieces placed leaves the stack, and what it did stays;
 * one that fails is the failure of the one below. */
static bool attempt(swi_search *s)
{
    while (s->depth > 0) {
        uint32_t from = 0, to = 0;
        const swi_decision *d = &s->stack[s->depth - 1];
        if (!smallest_piece(s, d, &from, &to)) {
            s->n_choice -= d->n;
            s->depth--;
            continue;
        }
        bool open = open_piece(s, from, to) && next_choice(s);
        while (!open && s->depth > 1) {
            swi_search_take_back(s, s->stack[s->depth - 1].mark);
            open = next_choice(s);
        }
        if (!open)
            return false;
    }
    return true;
}

/* ---- all attempts ------------------------------------------------------------------------ */

/* The i-th number of 1 1 2 1 1 2 4 ..., from 1 (Luby, Sinclair and Zuckerman 1993). */
static uint64_t luby(uint64_t i)
{
    for (;;) {
        uint64_t k = 1;
        while ((1ull << k) - 1 < i)
            k++;
        if (i == (1ull << k) - 1)
            return 1ull << (k - 1);
        i -= (1ull << (k - 1)) - 1;
    }
}

void swi_search_run(swi_search *s, uint64_t most)
{
    while (s->outcome == SW_SEARCH_GAVE_UP && s->total < most && s->status == SW_OK &&
           !swi_race_is_over(s)) {
        s->limit = (s->how->restart * s->n / 200 + 20) * luby(s->restarts + 1);
        if (s->limit > most - s->total)
            s->limit = most - s->total;
        s->cut = false;
        s->n_choice = 0;
        s->depth = 1;
        s->stack[0] = (swi_decision){.to = s->n_sections, .until = s->limit};
        for (uint32_t k = 0; k < s->n_sections; k++)
            swi_search_soil(s, k);
        const bool found = swi_search_propagate(s) && attempt(s);
        s->total += s->nodes;
        s->nodes = 0;
        s->restarts = (s->restarts + 1) % (1u << 30);
        if (found || (!s->cut && !s->stack[0].skipped)) {
            s->outcome = found ? SW_SEARCH_FOUND : SW_SEARCH_PROVED_NONE;
            swi_race_ended(s);
        } else {
            swi_search_take_back(s, 0);
        }
    }
}
