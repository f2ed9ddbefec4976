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
 * noise, lengths and shares are set is the strategy; placement.c runs several. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "alloc/placement/placement_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The state of a search: bounds of what is not placed, changes and taking them back, and what
 * follows from the bounds. See placement_search.c. */

#define LOOKS 2 /* at each section on average, after one decision */

/* ---- changes, and taking them back ------------------------------------------------------- */

static void search_soil(swi_search *s, uint32_t section)
{
    if (s->dirty[section])
        return;
    s->dirty[section] = true;
    s->queue[s->n_queue++] = section;
}

static void note(swi_search *s, uint32_t i, uint64_t old)
{
    if (s->n_trail == s->cap_trail) {
        const size_t bytes = s->cap_trail * sizeof *s->trail;
        const sw_status status = sw_heap_resize(&s->trail, SW_HEAP_PROGRAMS, bytes, 2 * bytes);
        if (status != SW_OK) {
            s->status = status;
            s->cut = true;
            return;
        }
        s->cap_trail *= 2;
    }
    s->trail[s->n_trail++] = (swi_undo){i, old};
}

static void search_raise_bound(swi_search *s, uint32_t i, uint64_t to)
{
    SW_ASSERT(i < s->n && !s->placed[i]);
    if (s->low[i] >= to)
        return;
    to = swi_align_up(to, s->align[i]);
    note(s, i, s->low[i]);
    if (s->status != SW_OK)
        return;
    s->low[i] = to;
    for (uint32_t k = s->first[i]; k < s->end[i]; k++)
        search_soil(s, k);
}

/* The unplaced buffers of a section are the first of its list, and what was placed last stands
 * right after them: so taking back brings it in again by itself. */
static void leave(swi_search *s, uint32_t section, uint32_t i)
{
    uint32_t *list = s->list + s->list_at[section];
    const uint32_t last = --s->n_left[section];
    uint32_t k = 0;
    while (list[k] != i)
        k++;
    SW_ASSERT(k <= last && s->rest[section] >= s->bytes[i]);
    for (; k < last; k++)
        list[k] = list[k + 1];
    list[last] = i;
    s->rest[section] -= s->bytes[i];
    search_soil(s, section);
}

static void search_place(swi_search *s, uint32_t i)
{
    SW_ASSERT(!s->placed[i] && s->low[i] + s->bytes[i] <= s->roof);
    note(s, i, SWI_IS_PLACED);
    if (s->status != SW_OK)
        return;
    s->placed[i] = true;
    s->offset[i] = s->low[i];
    const uint64_t end = s->low[i] + s->bytes[i];
    for (uint32_t k = s->first[i]; k < s->end[i]; k++)
        leave(s, k, i);
    for (uint32_t k = s->first[i]; k < s->end[i]; k++)
        for (uint32_t m = 0; m < s->n_left[k]; m++)
            search_raise_bound(s, s->list[s->list_at[k] + m], end);
}

static uint64_t least_bound(const swi_search *s, uint32_t section)
{
    uint64_t least = UINT64_MAX;
    const uint32_t *list = s->list + s->list_at[section];
    for (uint32_t k = 0; k < s->n_left[section]; k++)
        least = s->low[list[k]] < least ? s->low[list[k]] : least;
    return least;
}

/* The state of a search. Changes are on the trail, and their sections wait to be looked at. */
static void search_take_back(swi_search *s, size_t mark)
{
    SW_ASSERT(mark <= s->n_trail);
    while (s->n_trail > mark) {
        const swi_undo *u = &s->trail[--s->n_trail];
        const uint32_t i = u->buffer;
        SW_ASSERT(s->placed[i] == (u->old == SWI_IS_PLACED));
        for (uint32_t k = s->first[i]; k < s->end[i]; k++) {
            if (u->old == SWI_IS_PLACED) {
                s->n_left[k]++;
                s->rest[k] += s->bytes[i];
            }
            search_soil(s, k);
        }
        if (u->old == SWI_IS_PLACED)
            s->placed[i] = false;
        else
            s->low[i] = u->old;
    }
    while (s->n_queue > 0) {
        const uint32_t section = s->queue[--s->n_queue];
        s->dirty[section] = false;
        s->floor[section] = least_bound(s, section);
    }
}

/* ---- propagation ------------------------------------------------------------------------- */

/* The unplaced buffers of a section, latest end first: their list is nearly so from the last
 * time, and becomes so. */
static uint32_t gather(const swi_search *s, uint32_t section)
{
    uint32_t *list = s->list + s->list_at[section];
    const uint32_t n = s->n_left[section];
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = list[k];
        const uint64_t end = s->low[i] + s->bytes[i];
        uint32_t to = k;
        for (; to > 0 && s->ends[to - 1] < end; to--) {
            list[to] = list[to - 1];
            s->ends[to] = s->ends[to - 1];
        }
        list[to] = i;
        s->ends[to] = end;
    }
    memcpy(s->gathered, list, n * sizeof *list);
    return n;
}

/* Raise the bound; false: then the buffer is not under the roof. */
static bool lift(swi_search *s, uint32_t i, uint64_t to)
{
    search_raise_bound(s, i, to);
    return s->low[i] + s->bytes[i] <= s->roof;
}

/* How many of the gathered end above the height. */
static uint32_t ending_above(const swi_search *s, uint32_t n, uint64_t height)
{
    uint32_t from = 0, to = n;
    while (from < to) {
        const uint32_t middle = (from + to) / 2;
        if (s->ends[middle] > height)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The k-th of the gathered cannot be lowest. Where it and all that end at or after some height
 * have no room above its bound, it is not below all of these either: it lies on one of them,
 * that is at this height or above. `to` is the least end of those who can be lowest. */
static bool lift_above(swi_search *s, uint32_t n, uint32_t k, uint64_t to)
{
    const uint32_t j = s->gathered[k];
    const uint64_t low = s->low[j], start = to > low ? to : low;
    if (low + s->bytes[j] > s->roof)
        return false;
    if (s->how->strong) {
        const uint32_t above = ending_above(s, n, start);
        uint64_t room = s->roof - low;
        if (s->sums[above] + (k < above ? 0 : s->bytes[j]) > room) {
            uint32_t x = 0;
            room -= s->bytes[j];
            while (s->sums[x + 1] - (k <= x ? s->bytes[j] : 0) <= room)
                x++;
            to = s->ends[x];
        }
    }
    return lift(s, j, to);
}

/* One buffer is the lowest: it leaves the gathered, and all others start at its end. */
static bool peel(swi_search *s, uint32_t *n, uint32_t one, uint64_t end)
{
    uint32_t *g = s->gathered;
    for (uint32_t k = one; k + 1 < *n; k++)
        g[k] = g[k + 1];
    --*n;
    for (uint32_t k = 0; k < *n; k++) {
        if (!lift(s, g[k], end))
            return false;
        const uint32_t i = g[k]; /* the order by ends again */
        const uint64_t now = s->low[i] + s->bytes[i];
        uint32_t to = k;
        for (; to > 0 && s->ends[to - 1] < now; to--) {
            g[to] = g[to - 1];
            s->ends[to] = s->ends[to - 1];
        }
        g[to] = i;
        s->ends[to] = now;
    }
    return true;
}

/* The unplaced buffers of a section: the lowest must be one whose bound leaves enough
 * bytes for all others above it. If only one buffer can be the lowest, it is, and the rest
 * is examined in the same way. False: no buffer can be the lowest. */
static bool tighten(swi_search *s, uint32_t section)
{
    uint64_t least = UINT64_MAX, highest = 0, rest = s->rest[section];
    const uint32_t *list = s->list + s->list_at[section];
    for (uint32_t k = 0; k < s->n_left[section]; k++) { /* the bounds of what is not placed */
        const uint64_t low = s->low[list[k]];
        least = low < least ? low : least;
        highest = low > highest ? low : highest;
    }
    s->floor[section] = least;
    if (rest > s->roof || s->floor[section] > s->roof - rest)
        return false;
    if (highest <= s->roof - rest)
        return true; /* any can be */
    uint32_t n = gather(s, section);
    while (n > 0) {
        uint32_t able = 0, one = 0;
        uint64_t least_end = UINT64_MAX;
        for (uint32_t k = 0; k < n; k++) {
            if (s->low[s->gathered[k]] > s->roof - rest)
                continue;
            able++;
            one = k;
            least_end = s->ends[k] < least_end ? s->ends[k] : least_end;
        }
        if (able == 0)
            return false;
        if (able > 1) {
            /* Several can be the lowest, and all others start at the least end of these or
             * above. */
            const uint64_t latest = s->roof - rest;
            s->sums[0] = 0;
            for (uint32_t j = 0; j < n; j++)
                s->sums[j + 1] = s->sums[j] + s->bytes[s->gathered[j]];
            for (uint32_t j = 0; j < n; j++)
                if (s->low[s->gathered[j]] > latest && !lift_above(s, n, j, least_end))
                    return false;
            return true;
        }
        rest -= s->bytes[s->gathered[one]];
        if (!peel(s, &n, one, least_end))
            return false;
    }
    return true;
}

/* Bounds may creep up by little steps, each a reason for the next: who has looked at the
 * sections that often knows them well enough. The floors of those that wait are still brought
 * up to date. */
static bool search_propagate(swi_search *s)
{
    bool good = true;
    uint32_t left = LOOKS * s->n_sections;
    while (s->n_queue > 0) {
        const uint32_t section = s->queue[--s->n_queue];
        s->dirty[section] = false;
        if (s->n_left[section] == 0)
            s->floor[section] = UINT64_MAX;
        else if (left == 0)
            s->floor[section] = least_bound(s, section);
        else if (good) {
            good = tighten(s, section);
            left--;
        }
    }
    return good && !s->cut;
}

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
        if (left || right)
            continue;
        uint32_t tightest = l;
        for (uint32_t k = l + 1; k < r; k++)
            if (s->rest[k] > s->rest[tightest] ||
                (s->rest[k] == s->rest[tightest] && s->n_left[k] < s->n_left[tightest]))
                tightest = k;
        consider(s, tightest, &best);
    }
    return best;
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
        /* The end of the piece that begins at `from`: no unplaced buffer crosses it. */
        uint32_t reach = l + 1;
        for (uint32_t k = l; k < reach && k < in->to; k++)
            for (uint32_t m = s->start_at[k]; m < s->start_at[k + 1]; m++)
                if (!s->placed[s->starter[m]] && s->end[s->starter[m]] > reach)
                    reach = s->end[s->starter[m]];
        r = reach < in->to ? reach : in->to;
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

/* How early a buffer is tried: long and large ones first, after the first attempts with
 * noise. */
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
        search_place(s, choices[k]);
        return true;
    }
    const uint64_t next = next_floor(s, section);
    for (uint32_t m = 0; m < s->n_left[section] && next != 0; m++)
        search_raise_bound(s, s->list[s->list_at[section] + m], next);
    return next != 0;
}

/* The next choice of the deepest decision that does not fail at once. False: none is left, and
 * the decision is taken off. */
static bool next_choice(swi_search *s)
{
    swi_decision *d = &s->stack[s->depth - 1];
    const uint32_t *choices = s->choice + s->n_choice - d->n;
    while (d->next <= d->n && !s->cut && !(d->n > 1 && d->next > 0 && s->nodes > d->until)) {
        /* Where many buffers live at one time, propagation may take a hundred times as long as
         * in other problems: it counts as nodes too, so that a limit in nodes is one of time.
         */
        s->nodes += 1 + s->work / WORK_OF_NODE;
        s->work %= WORK_OF_NODE;
        s->nodes = s->nodes < s->limit ? s->nodes : s->limit;
        s->cut = s->nodes >= s->limit || (++s->asked % 16 == 0 && swi_race_is_over(s));
        if (decide(s, d->section, choices, d->n, d->next++) && search_propagate(s))
            return true;
        search_take_back(s, d->mark);
    }
    d->skipped = d->skipped || s->cut || d->next <= d->n; /* its last choice may be cut short */
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

/* Open a decision in the piece. False: it is known to hold no placement, or there is no
 * room. */
static bool open_piece(swi_search *s, uint32_t from, uint32_t to)
{
    const uint32_t section = select_corner(s, from, to).section;
    SW_ASSERT(section != SWI_NONE); /* something is left to place */
    uint64_t state = 0;
    for (uint32_t k = s->start_at[from]; k < s->start_at[to]; k++) {
        const uint32_t i = s->starter[k];
        if (!s->placed[i])
            state += swi_mix(s->name[i] + 2 * s->low[i] + out_of_order(s, i));
    }
    state |= 1;
    if (s->table[state >> (64 - SWI_TABLE_BITS)] == state)
        return false;
    if (s->depth == s->cap_stack || s->n_choice + s->n > s->cap_choice) {
        s->cut = true;
        return false;
    }
    const uint32_t n = push_choices(s, section);
    /* How far a decision of n choices may go. Its nodes come out of what is left to the one
     * below: a wrong decision is often far down, and all that is on top of it need not be
     * tried. */
    const uint64_t until = s->stack[s->depth - 1].until;
    uint64_t left = until > s->nodes ? until - s->nodes : 0;
    if (n > 1 && s->n > SMALL)
        left = (uint64_t)((double)left * s->how->share);
    left = left > LEAST_CREDIT ? left : LEAST_CREDIT;
    s->stack[s->depth] =
        (swi_decision){from, to, section, n, 0, s->n_trail, state, s->nodes + left, false};
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
            search_take_back(s, s->stack[s->depth - 1].mark);
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
            search_soil(s, k);
        const bool found = search_propagate(s) && attempt(s);
        s->total += s->nodes;
        s->nodes = 0;
        s->restarts = (s->restarts + 1) % (1u << 30);
        if (found || (!s->cut && !s->stack[0].skipped)) {
            s->outcome = found ? SW_SEARCH_FOUND : SW_SEARCH_PROVED_NONE;
            swi_race_ended(s);
        } else {
            search_take_back(s, 0);
        }
    }
}

/* ---- placement search build -------------------------------------------------------------- */

/* A search is made from the buffers: time in sections, sizes in units of what divides them all.
 * See placement_search.c. */

#define FIRST_TRAIL 1024 /* entries; it grows */

typedef struct {
    uint32_t time, buffer, start;
} event;

/* Ends before starts. */
static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static sw_status time_to_sections(swi_search *s, const sw_placement_item *items)
{
    event *events;
    const size_t bytes = 2 * (size_t)s->n * sizeof(event);
    SW_TRY(sw_heap_alloc(&events, SW_HEAP_PROGRAMS, bytes));
    /* A section ends where a buffer ends and one has started since the last such place. */
    bool started = false;
    for (uint32_t i = 0; i < s->n; i++) {
        events[2 * i] = (event){items[i].lower, i, 1};
        events[2 * i + 1] = (event){items[i].upper, i, 0};
    }
    qsort(events, 2 * (size_t)s->n, sizeof *events, by_time);
    s->n_sections = s->n_list = 0;
    for (uint32_t k = 0; k < 2 * s->n; k++) {
        const uint32_t i = events[k].buffer;
        if (events[k].start != 0) {
            s->first[i] = s->n_sections;
            started = true;
            continue;
        }
        s->n_sections += started;
        started = false;
        s->end[i] = s->n_sections;
        s->n_list += s->end[i] - s->first[i];
    }
    sw_heap_free(events, SW_HEAP_PROGRAMS, bytes);
    return SW_OK;
}

static void find_twins(swi_search *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        s->twin[i] = SWI_NONE;
        s->alike[i] = i;
        for (uint32_t k = s->list_at[s->first[i]]; s->list[k] < i; k++) {
            const uint32_t j = s->list[k];
            if (s->first[j] != s->first[i] || s->end[j] != s->end[i])
                continue;
            /* Whether one that lies directly on the other can change places with it. */
            const uint64_t align = s->align[i];
            if (s->alike[i] == i && align == s->align[j] &&
                (align == 0 || (s->bytes[i] % align == 0 && s->bytes[j] % align == 0))) {
                s->alike[i] = s->alike[j];
                s->alike[j] = i;
            }
            if (s->bytes[j] == s->bytes[i] && s->align[j] == s->align[i])
                s->twin[i] = j;
        }
    }
}

/* Large alignments first. */
static size_t lay_out(swi_search *s, unsigned char *base)
{
    const size_t n = s->n, m = n + 1; /* each section ends with a buffer */
    size_t at = 0;
#define PART(field, count)                                                                     \
    do {                                                                                       \
        const size_t from = sw_size_part(&at, (count) * sizeof *s->field);                     \
        s->field = base != NULL ? (void *)(base + from) : NULL;                                \
    } while (0)
    PART(bytes, n);
    PART(low, n);
    PART(offset, n);
    PART(align, n);
    PART(name, n);
    PART(first, n);
    PART(end, n);
    PART(twin, n);
    PART(alike, n);
    PART(starter, n);
    PART(placed, n);
    PART(gathered, n);
    PART(ends, n);
    PART(sums, n + 1);
    PART(rest, m);
    PART(floor, m);
    PART(list_at, m + 1);
    PART(start_at, m + 1);
    PART(n_left, m);
    PART(failed, m);
    PART(queue, m);
    PART(dirty, m);
    PART(choice, s->cap_choice);
    PART(value, s->cap_choice);
    PART(stack, s->cap_stack);
    PART(table, (size_t)1 << SWI_TABLE_BITS);
#undef PART
    return at;
}

static void fill_buffers(swi_search *s, const sw_placement_item *items,
                         const sw_placement_opts *opts)
{
    for (uint32_t i = 0; i < s->n; i++)
        s->unit = sw_size_gcd(s->unit, items[i].bytes);
    const uint64_t sizes = s->unit; /* who asks for a divisor of all sizes asks for nothing */
    for (uint32_t i = 0; i < s->n; i++)
        if (items[i].align > 1 && sizes % items[i].align != 0)
            s->unit = sw_size_gcd(s->unit, items[i].align);
    s->roof = opts->capacity / s->unit;
    s->noise = swi_mix(opts->seed + 1);
    for (uint32_t i = 0; i < s->n; i++) {
        s->bytes[i] = items[i].bytes / s->unit;
        /* In units, of which all offsets are multiples. */
        const uint64_t align = items[i].align,
                       units = align > 1 ? align / sw_size_gcd(align, s->unit) : 1;
        s->align[i] = units > 1 ? units : 0;
        s->name[i] = swi_mix(i + 1);
    }
}

/* The lists of the sections have as many entries as buffers cover sections. */
static sw_status take_lists(swi_search *s)
{
    SW_TRY(sw_heap_alloc(&s->list, SW_HEAP_PROGRAMS, (size_t)s->n_list * sizeof *s->list));
    SW_TRY(sw_heap_alloc(&s->trail, SW_HEAP_PROGRAMS, FIRST_TRAIL * sizeof *s->trail));
    s->cap_trail = FIRST_TRAIL;
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = s->first[i]; k < s->end[i]; k++)
            s->list_at[k + 1]++;
    for (uint32_t k = 0; k < s->n_sections; k++)
        s->list_at[k + 1] += s->list_at[k];
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = s->first[i]; k < s->end[i]; k++) {
            s->list[s->list_at[k] + s->n_left[k]++] = i;
            s->rest[k] += s->bytes[i];
        }
    find_twins(s);
    for (uint32_t i = 0; i < s->n; i++)
        s->start_at[s->first[i] + 1]++;
    for (uint32_t k = 0; k < s->n_sections; k++)
        s->start_at[k + 1] += s->start_at[k];
    for (uint32_t i = s->n; i-- > 0;) /* each count goes down to where its section starts */
        s->starter[--s->start_at[s->first[i] + 1]] = i;
    for (uint32_t k = 0; k < s->n_sections; k++)
        s->start_at[k] = s->start_at[k + 1];
    s->start_at[s->n_sections] = s->n;
    return SW_OK;
}

sw_status swi_search_create(swi_search *s, const sw_placement_item *items, size_t n,
                            const sw_placement_opts *opts)
{
    *s = (swi_search)SW_INIT(.n = (uint32_t)n, .cap_choice = 16 * n + 4096,
                             .cap_stack = 2 * (uint32_t)n + 64, .outcome = SW_SEARCH_GAVE_UP);
    s->block_bytes = lay_out(s, NULL);
    SW_TRY(sw_heap_alloc(&s->block, SW_HEAP_PROGRAMS, s->block_bytes));
    (void)lay_out(s, s->block);
    SW_TRY(time_to_sections(s, items));
    fill_buffers(s, items, opts);
    return take_lists(s);
}

void swi_search_destroy(swi_search *s)
{
    if (s->trail != NULL)
        sw_heap_free(s->trail, SW_HEAP_PROGRAMS, s->cap_trail * sizeof *s->trail);
    if (s->list != NULL)
        sw_heap_free(s->list, SW_HEAP_PROGRAMS, (size_t)s->n_list * sizeof *s->list);
    if (s->block != NULL)
        sw_heap_free(s->block, SW_HEAP_PROGRAMS, s->block_bytes);
}
