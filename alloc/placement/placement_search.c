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
 * Bounds are multiples of their buffers' alignments. What is said of room counts sizes alone:
 * with alignments it is weaker, and still true.
 *
 * Branching is by corners. A niche is a run of sections with equal floor between higher walls;
 * at a wall lies a buffer that ends there, or nothing: then the floor rises to the next height
 * at which a buffer can rest on another. Where no wall is yet, the tightest section takes the
 * corner's place. Pushing every buffer down as far as it goes turns any placement into one that
 * this finds, so a search that ends without one is a proof.
 *
 * The corner with the fewest choices goes first, more so where all choices have failed before;
 * large and long buffers are tried first. Searches are cut short and begin again (Luby et al.
 * 1993) with another order and some noise; failures and hopeless states are remembered. */
#include "alloc/base/assert.h"
#include "alloc/placement/placement_search_internal.h"
#include "alloc/base/mem.h"
#include "alloc/placement/placement_align.h"

#define RESTART 500u /* nodes of the shortest search */
#define ORDERS 4u
#define DEEPEST 4000 /* decisions above each other: the recursion's bound */

/* ---- changes, and taking them back ------------------------------------------------------- */

static void soil(swi_search *s, uint32_t section)
{
    if (s->dirty[section])
        return;
    s->dirty[section] = true;
    s->queue[s->n_queue++] = section;
}

static void note(swi_search *s, uint32_t i, uint64_t old)
{
    if (s->n_trail == s->cap_trail) {
        void *p = s->trail;
        const size_t bytes = s->cap_trail * sizeof *s->trail;
        const sw_status status = sw_heap_resize(&p, SW_HEAP_PROGRAMS, bytes, 2 * bytes);
        if (status != SW_OK) {
            s->status = status;
            s->cut = true;
            return;
        }
        s->trail = p;
        s->cap_trail *= 2;
    }
    s->trail[s->n_trail++] = (swi_undo){i, old};
}

static void raise_bound(swi_search *s, uint32_t i, uint64_t to)
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
        soil(s, k);
}

static void place(swi_search *s, uint32_t i)
{
    SW_ASSERT(!s->placed[i] && s->low[i] + s->bytes[i] <= s->roof);
    note(s, i, SWI_IS_PLACED);
    if (s->status != SW_OK)
        return;
    s->placed[i] = true;
    s->offset[i] = s->low[i];
    for (uint32_t k = s->first[i]; k < s->end[i]; k++) {
        SW_ASSERT(s->n_left[k] > 0 && s->rest[k] >= s->bytes[i]);
        s->n_left[k]--;
        s->rest[k] -= s->bytes[i];
        soil(s, k);
    }
    for (uint32_t k = s->first[i]; k < s->end[i]; k++)
        for (uint32_t m = s->list_at[k]; m < s->list_at[k + 1]; m++)
            if (!s->placed[s->list[m]])
                raise_bound(s, s->list[m], s->low[i] + s->bytes[i]);
}

static uint64_t least_bound(const swi_search *s, uint32_t section)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t k = s->list_at[section]; k < s->list_at[section + 1]; k++)
        if (!s->placed[s->list[k]] && s->low[s->list[k]] < least)
            least = s->low[s->list[k]];
    return least;
}

static void take_back(swi_search *s, size_t mark)
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
            soil(s, k);
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

/* The unplaced buffers of a section: the lowest must be one whose bound leaves enough
 * bytes for all others above it. If only one buffer can be the lowest, it is, and the rest
 * is examined in the same way. False: no buffer can be the lowest. */
static bool tighten(swi_search *s, uint32_t section)
{
    uint32_t *g = s->gathered, n = 0;
    for (uint32_t k = s->list_at[section]; k < s->list_at[section + 1]; k++)
        if (!s->placed[s->list[k]])
            g[n++] = s->list[k];
    s->floor[section] = least_bound(s, section);
    for (uint64_t rest = s->rest[section]; n > 0;) {
        uint32_t able = 0, one = 0;
        uint64_t least_end = UINT64_MAX;
        for (uint32_t k = 0; k < n && rest <= s->roof; k++) {
            if (s->low[g[k]] > s->roof - rest)
                continue;
            able++;
            one = k;
            if (s->low[g[k]] + s->bytes[g[k]] < least_end)
                least_end = s->low[g[k]] + s->bytes[g[k]];
        }
        if (able == 0)
            return false;
        if (able > 1) {
            for (uint32_t k = 0; k < n; k++)
                if (s->low[g[k]] > s->roof - rest)
                    raise_bound(s, g[k], least_end);
            return true;
        }
        rest -= s->bytes[g[one]];
        g[one] = g[--n];
        for (uint32_t k = 0; k < n; k++)
            raise_bound(s, g[k], least_end);
    }
    return true;
}

static bool propagate(swi_search *s)
{
    bool good = true;
    while (s->n_queue > 0) {
        const uint32_t section = s->queue[--s->n_queue];
        s->dirty[section] = false;
        if (s->n_left[section] == 0)
            s->floor[section] = UINT64_MAX;
        else if (good && !tighten(s, section)) {
            good = false;
        }
    }
    return good && !s->cut;
}

/* ---- choices ----------------------------------------------------------------------------- */

/* Buffers of one lifetime that lie directly on each other do so with the larger one below: any
 * other order is as good. It must be the order in which choices are tried: where a search would
 * rather have the larger one below and is not let, it finds next to nothing. */
static bool out_of_order(const swi_search *s, uint32_t i)
{
    const uint32_t section = s->first[i];
    for (uint32_t m = s->list_at[section]; m < s->list_at[section + 1]; m++) {
        const uint32_t j = s->list[m];
        const bool later = s->bytes[j] < s->bytes[i] || (s->bytes[j] == s->bytes[i] && j > i);
        if (later && s->placed[j] && s->lifetime[j] == s->lifetime[i] &&
            s->offset[j] + s->bytes[j] == s->low[i])
            return true;
    }
    return false;
}

/* Who can lie on the floor of the section: of twins the first alone. `to` may be NULL. */
static uint32_t choices_at(const swi_search *s, uint32_t section, uint32_t *to)
{
    uint32_t n = 0;
    for (uint32_t k = s->list_at[section]; k < s->list_at[section + 1]; k++) {
        const uint32_t i = s->list[k], t = s->twin[i];
        if (s->placed[i] || s->low[i] != s->floor[section] ||
            (t != SWI_NONE && !s->placed[t] && s->low[t] == s->low[i]) || out_of_order(s, i))
            continue;
        if (to != NULL)
            to[n] = i;
        n++;
    }
    return n;
}

/* The least height above the floor at which i can rest on a buffer outside of the section, or
 * as near to it as it may. */
static uint64_t rests_at(const swi_search *s, uint32_t i, uint32_t section)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t m = s->first[i]; m < s->end[i]; m++)
        for (uint32_t x = s->list_at[m]; x < s->list_at[m + 1]; x++) {
            const uint32_t j = s->list[x];
            const bool here = s->first[j] <= section && section < s->end[j];
            const uint64_t end = swi_align_up(s->low[j] + s->bytes[j], s->align[i]);
            if (j != i && !here && !s->placed[j] && end > s->floor[section] && end < least)
                least = end;
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
    for (uint32_t k = s->list_at[section]; k < s->list_at[section + 1]; k++) {
        const uint32_t i = s->list[k];
        if (s->placed[i])
            continue;
        const uint64_t at = s->low[i] > floor ? s->low[i] : rests_at(s, i, section);
        next = at < next ? at : next;
    }
    return next <= highest ? next : 0;
}

/* ---- corners ----------------------------------------------------------------------------- */

typedef struct {
    uint32_t section; /* SWI_NONE: nothing is left to decide */
    double score;
} corner;

static void consider(const swi_search *s, uint32_t section, corner *best)
{
    const double weight = 1.0 + (double)s->failed[section];
    const double waste = (double)(s->roof - s->floor[section] - s->rest[section]);
    uint32_t n = choices_at(s, section, NULL);
    if (best->section != SWI_NONE && n >= 2 && (double)n / weight > best->score)
        return; /* one more choice makes it no better */
    n += next_floor(s, section) != 0;
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

/* ---- search ------------------------------------------------------------------------------ */

static uint64_t state_of(const swi_search *s, uint32_t from, uint32_t to)
{
    uint64_t hash = 0;
    for (uint32_t section = from; section < to; section++)
        for (uint32_t k = s->list_at[section]; k < s->list_at[section + 1]; k++) {
            const uint32_t i = s->list[k];
            if (!s->placed[i] && s->first[i] == section)
                hash += swi_mix(s->name[i] + 2 * s->low[i] + out_of_order(s, i));
        }
    return hash | 1;
}

/* The end of the piece that begins at `from`: no unplaced buffer crosses it. */
static uint32_t piece_end(const swi_search *s, uint32_t from, uint32_t to)
{
    uint32_t reach = from + 1;
    for (uint32_t k = from; k < reach && k < to; k++)
        for (uint32_t m = s->list_at[k]; m < s->list_at[k + 1]; m++)
            if (!s->placed[s->list[m]] && s->end[s->list[m]] > reach)
                reach = s->end[s->list[m]];
    return reach < to ? reach : to;
}

static bool solve(swi_search *s, uint32_t from, uint32_t to);

/* Smallest first: what is hopeless shows early. */
static bool solve_pieces(swi_search *s, uint32_t from, uint32_t to)
{
    for (;;) {
        uint32_t best = SWI_NONE, best_end = 0, best_n = UINT32_MAX;
        for (uint32_t l = from, r; l < to; l = r) {
            uint32_t n = 0;
            r = piece_end(s, l, to);
            for (uint32_t k = l; k < r; k++)
                n += s->n_left[k];
            if (n > 0 && n < best_n) {
                best = l;
                best_end = r;
                best_n = n;
            }
        }
        if (best == SWI_NONE)
            return true;
        if (!solve(s, best, best_end))
            return false;
    }
}

/* How early a buffer is tried: long and large ones first, later orders with noise. */
static double value_of(swi_search *s, uint32_t i)
{
    const double span = (double)(s->end[i] - s->first[i]), bytes = (double)s->bytes[i];
    const double values[ORDERS] = {span * bytes, span * bytes * bytes, bytes,
                                   span * span * bytes};
    if (s->order < ORDERS)
        return values[s->order];
    s->noise = swi_mix(s->noise + 0x9e3779b97f4a7c15ull);
    return values[s->order % ORDERS] * (0.7 + 0.6 * (double)(s->noise >> 11) * 0x1p-53);
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

/* One decision: the k-th choice, or behind the last nothing at all. False: it cannot be. */
static bool decide(swi_search *s, uint32_t section, const uint32_t *choices, uint32_t n,
                   uint32_t k)
{
    if (k < n) {
        place(s, choices[k]);
        return true;
    }
    const uint64_t next = next_floor(s, section);
    for (uint32_t m = s->list_at[section]; m < s->list_at[section + 1] && next != 0; m++)
        if (!s->placed[s->list[m]])
            raise_bound(s, s->list[m], next);
    return next != 0;
}

static void count_node(swi_search *s)
{
    s->nodes++;
    if (s->nodes >= s->limit ||
        (s->nodes % 16 == 0 && s->opts->stop != NULL && s->opts->stop(s->opts->context)))
        s->cut = true;
}

static bool solve(swi_search *s, uint32_t from, uint32_t to)
{
    const uint32_t section = select_corner(s, from, to).section;
    if (section == SWI_NONE)
        return true;
    const uint64_t state = state_of(s, from, to);
    uint64_t *known = &s->table[state >> (64 - SWI_TABLE_BITS)];
    if (*known == state)
        return false;
    if (s->depth == DEEPEST || s->n_choice + s->n > s->cap_choice) {
        s->cut = true;
        return false;
    }
    const uint32_t *choices = s->choice + s->n_choice;
    const uint32_t n = push_choices(s, section);
    const size_t mark = s->n_trail;
    bool found = false;
    s->depth++;
    for (uint32_t k = 0; k <= n && !found && !s->cut; k++) {
        count_node(s);
        found = decide(s, section, choices, n, k) && propagate(s) && solve_pieces(s, from, to);
        if (!found)
            take_back(s, mark);
    }
    SW_ASSERT(s->depth > 0 && s->choice + s->n_choice == choices + n);
    s->depth--;
    s->n_choice -= n;
    if (!found && !s->cut) {
        *known = state;
        s->failed[section]++;
    }
    return found;
}

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

static void run(swi_search *s, sw_search_result *out)
{
    for (uint64_t r = 1; out->nodes < s->opts->nodes; r++) {
        s->order = (uint32_t)((r - 1) % (1u << 30));
        s->nodes = 0;
        s->limit = RESTART * luby(r);
        if (s->limit > s->opts->nodes - out->nodes)
            s->limit = s->opts->nodes - out->nodes;
        s->cut = false;
        for (uint32_t k = 0; k < s->n_sections; k++)
            soil(s, k);
        const bool found = propagate(s) && solve_pieces(s, 0, s->n_sections);
        out->nodes += s->nodes;
        if (found || !s->cut) {
            out->end = found ? SW_SEARCH_FOUND : SW_SEARCH_PROVED_NONE;
            out->proved = found ? 0 : (size_t)((s->roof + 1) * s->unit);
            return;
        }
        take_back(s, 0);
        if (s->status != SW_OK || (s->opts->stop != NULL && s->opts->stop(s->opts->context)))
            return;
    }
}

/* ---- the call ---------------------------------------------------------------------------- */

static sw_status search_in(swi_search *s, sw_placement_item *items, sw_search_result *out)
{
    void *block;
    swi_search_fill_buffers(s, items);
    const size_t bytes = (size_t)s->n_list * sizeof *s->list;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    s->list = block;
    s->cap_trail = 1024;
    s->status = sw_heap_alloc(&block, SW_HEAP_PROGRAMS, s->cap_trail * sizeof *s->trail);
    if (s->status == SW_OK) {
        s->trail = block;
        swi_search_fill_lists(s);
        run(s, out);
        sw_heap_free(s->trail, SW_HEAP_PROGRAMS, s->cap_trail * sizeof *s->trail);
    }
    for (uint32_t i = 0; i < s->n && out->end == SW_SEARCH_FOUND; i++) {
        SW_ASSERT(s->placed[i] && s->offset[i] + s->bytes[i] <= s->roof);
        items[i].offset = (size_t)(s->offset[i] * s->unit);
    }
    sw_heap_free(s->list, SW_HEAP_PROGRAMS, bytes);
    return s->status;
}

sw_status sw_placement_search(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                              sw_search_result *out)
{
    *out = (sw_search_result){SW_SEARCH_GAVE_UP, 0, 0};
    if (n == 0 || n > SW_SEARCH_MOST || opts->capacity == 0)
        SW_FAIL(SW_INVALID, "placement search: the number of buffers must be 1 to %d (got %zu)",
                SW_SEARCH_MOST, n);
    swi_search s = {.n = (uint32_t)n, .opts = opts, .cap_choice = 16 * n + 4096};
    void *block;
    const size_t bytes = swi_search_lay_out(&s, NULL);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    (void)swi_search_lay_out(&s, block);
    sw_status status = swi_search_find_sections(&s, items);
    if (status == SW_OK)
        status = search_in(&s, items, out);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}
