/* The state of a search: bounds of what is not placed, changes and taking them back, and what
 * follows from the bounds. See placement_search.c. */
#include "alloc/base/assert.h"
#include "alloc/placement/placement_search_internal.h"
#include "alloc/base/mem.h"
#include "alloc/placement/placement_align.h"
#include <string.h>

#define LOOKS 2 /* at each section on average, after one decision */

/* ---- changes, and taking them back ------------------------------------------------------- */

void swi_search_soil(swi_search *s, uint32_t section)
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

void swi_search_raise_bound(swi_search *s, uint32_t i, uint64_t to)
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
        swi_search_soil(s, k);
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
    swi_search_soil(s, section);
}

void swi_search_place(swi_search *s, uint32_t i)
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
            swi_search_raise_bound(s, s->list[s->list_at[k] + m], end);
}

static uint64_t least_bound(const swi_search *s, uint32_t section)
{
    uint64_t least = UINT64_MAX;
    const uint32_t *list = s->list + s->list_at[section];
    for (uint32_t k = 0; k < s->n_left[section]; k++)
        least = s->low[list[k]] < least ? s->low[list[k]] : least;
    return least;
}

void swi_search_take_back(swi_search *s, size_t mark)
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
            swi_search_soil(s, k);
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

/* The least and the greatest bound of what is not placed. */
static uint64_t span_of_bounds(const swi_search *s, uint32_t section, uint64_t *highest)
{
    uint64_t least = UINT64_MAX;
    const uint32_t *list = s->list + s->list_at[section];
    *highest = 0;
    for (uint32_t k = 0; k < s->n_left[section]; k++) {
        const uint64_t low = s->low[list[k]];
        least = low < least ? low : least;
        *highest = low > *highest ? low : *highest;
    }
    return least;
}

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
    swi_search_raise_bound(s, i, to);
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

/* Several can be the lowest, and all others start at the least end of these or above. */
static bool lift_others(swi_search *s, uint32_t n, uint64_t latest, uint64_t least_end)
{
    s->sums[0] = 0;
    for (uint32_t k = 0; k < n; k++)
        s->sums[k + 1] = s->sums[k] + s->bytes[s->gathered[k]];
    for (uint32_t k = 0; k < n; k++)
        if (s->low[s->gathered[k]] > latest && !lift_above(s, n, k, least_end))
            return false;
    return true;
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
    uint64_t highest, rest = s->rest[section];
    s->floor[section] = span_of_bounds(s, section, &highest);
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
        if (able > 1)
            return lift_others(s, n, s->roof - rest, least_end);
        rest -= s->bytes[s->gathered[one]];
        if (!peel(s, &n, one, least_end))
            return false;
    }
    return true;
}

/* Bounds may creep up by little steps, each a reason for the next: who has looked at the
 * sections that often knows them well enough. The floors of those that wait are still brought
 * up to date. */
bool swi_search_propagate(swi_search *s)
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
