/* Greedy placement: several orders, each with first fit and best fit, the lowest result wins.
 * Of ties the last goes first: in canonical order that is the one which is born last, as what
 * is made last in forward is used first in backward. Equal input gives equal output.
 *
 * One attempt keeps what is placed sorted by offset and walks it once for each new buffer:
 * quadratic, but the inner loop is a handful of instructions. */
#include "alloc/placement/placement_internal.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include <string.h>

/* A buffer that has its place; the times stand here so that a walk reads nothing else of those
 * that live at other times. */
typedef struct {
    uint32_t lower, upper, index;
} placed;

typedef struct {
    const sw_placement_item *items;
    size_t n;
    uint32_t *order; /* buffers in the order of this attempt */
    uint64_t *key;   /* of each buffer, for sorting */
    placed *sorted;  /* placed buffers by offset */
    uint32_t *temp;  /* for merging */
    size_t *offset;  /* of this attempt */
    size_t *best;    /* of the best attempt */
} work;

/* ---- orders ------------------------------------------------------------------------------ */

enum { BY_BYTES, BY_AREA, BY_SPAN, BY_AREA_SPAN, BY_START, BY_END, N_ORDERS };

/* Larger goes first. */
static uint64_t key_of(const sw_placement_item *item, int order)
{
    SW_ASSERT(order >= BY_BYTES && order < N_ORDERS);
    SW_ASSERT(item->lower < item->upper && item->bytes > 0);
    const uint64_t span = item->upper - item->lower;
    switch (order) {
    case BY_BYTES:
        return item->bytes;
    case BY_AREA:
        return sw_size_product(item->bytes, span);
    case BY_SPAN:
        return sw_size_product(span, 1u << 20) + (item->bytes >> 6 & 0xfffff);
    case BY_AREA_SPAN:
        return sw_size_product(sw_size_product(item->bytes >> 6, span), span);
    case BY_START:
        return UINT32_MAX - item->lower;
    default:
        return item->upper;
    }
}

static void sort_by(work *w, int order)
{
    for (size_t i = 0; i < w->n; i++) {
        w->order[i] = (uint32_t)(w->n - 1 - i);
        w->key[i] = key_of(&w->items[i], order);
    }
    uint32_t *from = w->order, *to = w->temp;
    for (size_t width = 1; width < w->n; width *= 2) {
        for (size_t start = 0; start < w->n; start += 2 * width) {
            const size_t mid = start + width < w->n ? start + width : w->n;
            const size_t end = start + 2 * width < w->n ? start + 2 * width : w->n;
            size_t a = start, b = mid;
            for (size_t k = start; k < end; k++)
                to[k] = b >= end || (a < mid && w->key[from[a]] >= w->key[from[b]]) ? from[a++]
                                                                                    : from[b++];
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != w->order)
        memcpy(w->order, from, w->n * sizeof *from);
}

/* The largest sum that lives at one time: starts in order, each retiring the ends up to it.
 * Leaves the orders unsorted for the attempts. */
static sw_status lower_bound(work *w, size_t *out)
{
    size_t live = 0, peak = 0;
    sort_by(w, BY_START);
    for (size_t i = 0; i < w->n; i++)
        w->sorted[i].index = w->order[i];
    sort_by(w, BY_END);
    size_t last = w->n; /* ends stand latest first */
    for (size_t i = 0; i < w->n; i++) {
        const sw_placement_item *item = &w->items[w->sorted[i].index];
        while (w->items[w->order[last - 1]].upper <= item->lower)
            live -= w->items[w->order[--last]].bytes;
        SW_ASSERT(last > 0 && live <= SIZE_MAX - item->bytes);
        live += item->bytes;
        peak = live > peak ? live : peak;
    }
    *out = peak;
    return SW_OK;
}

/* ---- one attempt ------------------------------------------------------------------------- */

/* The offset for one buffer among those already placed: the first gap that takes it, or the
 * tightest. */
static size_t find_gap(const work *w, size_t n_placed, const sw_placement_item *item,
                       bool best_fit)
{
    size_t floor = 0, found = SIZE_MAX, slack = SIZE_MAX;
    for (size_t k = 0; k < n_placed; k++) {
        const placed *o = &w->sorted[k];
        if (o->upper <= item->lower || o->lower >= item->upper)
            continue;
        SW_ASSERT(o->index < w->n);
        SW_ASSERT(k == 0 || w->offset[w->sorted[k - 1].index] <= w->offset[o->index]);
        const size_t start = w->offset[o->index];
        const size_t from = swi_align_up(floor, item->align);
        if (start > from && start - from >= item->bytes) {
            if (!best_fit)
                return from;
            if (start - from - item->bytes < slack) {
                slack = start - from - item->bytes;
                found = from;
            }
        }
        const size_t end = start + w->items[o->index].bytes;
        floor = end > floor ? end : floor;
    }
    return found != SIZE_MAX ? found : swi_align_up(floor, item->align);
}

static size_t attempt(work *w, bool best_fit, size_t give_up)
{
    size_t height = 0;
    for (size_t i = 0; i < w->n; i++) {
        const uint32_t index = w->order[i];
        const size_t at = find_gap(w, i, &w->items[index], best_fit);
        SW_ASSERT(index < w->n && at <= SIZE_MAX - w->items[index].bytes);
        w->offset[index] = at;
        if (at + w->items[index].bytes > height)
            height = at + w->items[index].bytes;
        if (height >= give_up)
            return SIZE_MAX; /* no better than what is known */
        size_t lo = 0, hi = i;
        while (lo < hi) {
            const size_t mid = (lo + hi) / 2;
            if (w->offset[w->sorted[mid].index] <= at)
                lo = mid + 1;
            else
                hi = mid;
        }
        memmove(w->sorted + lo + 1, w->sorted + lo, (i - lo) * sizeof *w->sorted);
        w->sorted[lo] = (placed){w->items[index].lower, w->items[index].upper, index};
    }
    return height;
}

static void try_orders(work *w, const sw_placement_opts *opts, sw_placement_result *out)
{
    out->height = SIZE_MAX;
    out->n_orders = 0;
    for (int order = 0; order < N_ORDERS && out->height > out->lower_bound; order++) {
        sort_by(w, order);
        for (int fit = 0; fit < 2 && out->height > out->lower_bound; fit++) {
            const size_t height = attempt(w, fit == 0, out->height);
            SW_ASSERT(height >= out->lower_bound);
            out->n_orders++;
            if (height < out->height) {
                out->height = height;
                memcpy(w->best, w->offset, w->n * sizeof *w->best);
            }
            /* After the first attempt, which has a placement. */
            if (opts != NULL && opts->stop != NULL && opts->stop(opts->context))
                return;
        }
    }
}

sw_status sw_placement_greedy(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                              sw_placement_result *out)
{
    *out = (sw_placement_result){.method = "greedy", .end = SW_PLACEMENT_OPTIMAL};
    if (n == 0)
        return SW_OK;
    void *block;
    size_t bytes = 0;
    const size_t per_item =
        sizeof(uint64_t) + 2 * sizeof(size_t) + sizeof(placed) + 2 * sizeof(uint32_t);
    if (!sw_size_mul(n, per_item, &bytes))
        SW_FAIL(SW_NOMEM, "placement: %zu buffers overflow", n);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    work w = {.items = items, .n = n, .key = block};
    w.offset = (size_t *)(void *)(w.key + n);
    w.best = w.offset + n;
    w.sorted = (placed *)(void *)(w.best + n);
    w.order = (uint32_t *)(void *)(w.sorted + n);
    w.temp = w.order + n;
    sw_status status = lower_bound(&w, &out->lower_bound);
    if (status == SW_OK) {
        try_orders(&w, opts, out);
        for (size_t i = 0; i < n; i++)
            items[i].offset = w.best[i];
        out->proved = out->lower_bound;
        out->end = sw_placement_end_of(out, 0);
    }
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}
