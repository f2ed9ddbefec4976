/* Greedy placement: several orders, each with first fit and best fit, the lowest result wins.
 * Ties are broken by index, so equal input gives equal output. Where that is not good enough,
 * sw_place_best goes on by niches (place_large.c) and with a search (place_search.c).
 *
 * One attempt keeps what is placed sorted by offset and walks it once for each new buffer:
 * quadratic, but the inner loop is a handful of instructions. */
#include "alloc/place.h"
#include "alloc/mem.h"
#include "alloc/place_large.h"
#include "alloc/place_search.h"
#include "alloc/size.h"
#include <stdbool.h>
#include <string.h>

typedef struct {
    const sw_place_item *items;
    size_t n;
    uint32_t *order;  /* buffers in the order of this attempt */
    uint64_t *key;    /* of each buffer, for sorting */
    uint32_t *sorted; /* placed buffers by offset */
    uint32_t *temp;   /* for merging */
    size_t *offset;   /* of this attempt */
    size_t *best;     /* of the best attempt */
} work;

/* ---- orders ------------------------------------------------------------------------------ */

enum { BY_BYTES, BY_AREA, BY_SPAN, BY_AREA_SPAN, BY_START, BY_END, N_ORDERS };

static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
    uint64_t r;
    return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* Larger goes first. */
static uint64_t key_of(const sw_place_item *item, int order)
{
    const uint64_t span = item->upper - item->lower;
    switch (order) {
    case BY_BYTES:
        return item->bytes;
    case BY_AREA:
        return saturating_mul(item->bytes, span);
    case BY_SPAN:
        return saturating_mul(span, 1u << 20) + (item->bytes >> 6 & 0xfffff);
    case BY_AREA_SPAN:
        return saturating_mul(saturating_mul(item->bytes >> 6, span), span);
    case BY_START:
        return UINT32_MAX - item->lower;
    default:
        return item->upper;
    }
}

static void merge_sort(work *w)
{
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

static void sort_by(work *w, int order)
{
    for (size_t i = 0; i < w->n; i++) {
        w->order[i] = (uint32_t)i;
        w->key[i] = key_of(&w->items[i], order);
    }
    merge_sort(w);
}

/* ---- lower bound ------------------------------------------------------------------------- */

/* The largest sum that lives at one time: starts in order, each retiring the ends up to it.
 * Leaves the orders unsorted for the attempts. */
static sw_status lower_bound(work *w, size_t *out)
{
    size_t total = 0, live = 0, peak = 0;
    for (size_t i = 0; i < w->n; i++)
        if (!sw_size_add(total, w->items[i].bytes, &total))
            SW_FAIL(SW_NOMEM, "placement: the sizes overflow at buffer %zu", i);
    sort_by(w, BY_START);
    memcpy(w->sorted, w->order, w->n * sizeof *w->sorted);
    sort_by(w, BY_END);
    size_t last = w->n; /* ends stand latest first */
    for (size_t i = 0; i < w->n; i++) {
        const sw_place_item *item = &w->items[w->sorted[i]];
        while (w->items[w->order[last - 1]].upper <= item->lower)
            live -= w->items[w->order[--last]].bytes;
        live += item->bytes;
        peak = live > peak ? live : peak;
    }
    *out = peak;
    return SW_OK;
}

/* ---- one attempt ------------------------------------------------------------------------- */

/* The offset for one buffer among those already placed: the first gap that takes it, or the
 * tightest. */
static size_t find_gap(const work *w, size_t n_placed, const sw_place_item *item, bool best_fit)
{
    size_t floor = 0, found = SIZE_MAX, slack = SIZE_MAX;
    for (size_t k = 0; k < n_placed; k++) {
        const uint32_t other = w->sorted[k];
        const sw_place_item *o = &w->items[other];
        if (o->upper <= item->lower || o->lower >= item->upper)
            continue;
        const size_t start = w->offset[other];
        if (start > floor && start - floor >= item->bytes) {
            if (!best_fit)
                return floor;
            if (start - floor - item->bytes < slack) {
                slack = start - floor - item->bytes;
                found = floor;
            }
        }
        const size_t end = start + o->bytes;
        floor = end > floor ? end : floor;
    }
    return found != SIZE_MAX ? found : floor;
}

static size_t attempt(work *w, bool best_fit, size_t give_up)
{
    size_t height = 0;
    for (size_t i = 0; i < w->n; i++) {
        const uint32_t index = w->order[i];
        const size_t at = find_gap(w, i, &w->items[index], best_fit);
        w->offset[index] = at;
        if (at + w->items[index].bytes > height)
            height = at + w->items[index].bytes;
        if (height >= give_up)
            return SIZE_MAX; /* no better than what is known */
        size_t lo = 0, hi = i;
        while (lo < hi) {
            const size_t mid = (lo + hi) / 2;
            if (w->offset[w->sorted[mid]] <= at)
                lo = mid + 1;
            else
                hi = mid;
        }
        memmove(w->sorted + lo + 1, w->sorted + lo, (i - lo) * sizeof *w->sorted);
        w->sorted[lo] = index;
    }
    return height;
}

static void try_orders(work *w, sw_place_result *out)
{
    out->height = SIZE_MAX;
    out->n_orders = 0;
    for (int order = 0; order < N_ORDERS && out->height > out->lower_bound; order++) {
        sort_by(w, order);
        for (int fit = 0; fit < 2 && out->height > out->lower_bound; fit++) {
            const size_t height = attempt(w, fit == 0, out->height);
            out->n_orders++;
            if (height < out->height) {
                out->height = height;
                memcpy(w->best, w->offset, w->n * sizeof *w->best);
            }
        }
    }
}

/* ---- solve ------------------------------------------------------------------------------- */

static sw_status check_items(const sw_place_item *items, size_t n)
{
    if (n > UINT32_MAX)
        SW_FAIL(SW_INVALID, "placement: %zu buffers are too many", n);
    for (size_t i = 0; i < n; i++) {
        if (items[i].lower >= items[i].upper)
            SW_FAIL(SW_INVALID, "placement: buffer %zu has the empty lifetime %u..%u", i,
                    items[i].lower, items[i].upper);
        if (items[i].bytes == 0)
            SW_FAIL(SW_INVALID, "placement: buffer %zu has no bytes", i);
    }
    return SW_OK;
}

sw_status sw_place_solve(sw_place_item *items, size_t n, sw_place_result *out)
{
    SW_TRY(check_items(items, n));
    *out = (sw_place_result){.method = "greedy", .end = SW_PLACE_OPTIMAL};
    if (n == 0)
        return SW_OK;
    void *block;
    size_t bytes = 0;
    const size_t per_item = sizeof(uint64_t) + 2 * sizeof(size_t) + 3 * sizeof(uint32_t);
    if (!sw_size_mul(n, per_item, &bytes))
        SW_FAIL(SW_NOMEM, "placement: %zu buffers overflow", n);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    work w = {.items = items, .n = n, .key = block};
    w.offset = (size_t *)(void *)(w.key + n);
    w.best = w.offset + n;
    w.order = (uint32_t *)(void *)(w.best + n);
    w.sorted = w.order + n;
    w.temp = w.sorted + n;
    sw_status status = lower_bound(&w, &out->lower_bound);
    if (status == SW_OK) {
        try_orders(&w, out);
        for (size_t i = 0; i < n; i++)
            items[i].offset = w.best[i];
        out->proved = out->lower_bound;
        out->end = out->height == out->lower_bound ? SW_PLACE_OPTIMAL : SW_PLACE_FITS;
    }
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
#if SW_CHECKS >= 2
    if (status == SW_OK)
        status = sw_place_check(items, n, out->height);
#endif
    return status;
}

/* ---- the portfolio ------------------------------------------------------------------------
 */

#define GREEDY_MOST 4000   /* buffers: each attempt is quadratic */
#define PLAN_NODES 2000    /* at most; some hundredths of a second */
#define PLAN_EFFORT 100000 /* nodes times buffers: a node costs more where there are many */

static size_t height_of(const sw_place_item *items, size_t n)
{
    size_t height = 0;
    for (size_t i = 0; i < n; i++)
        if (items[i].offset + items[i].bytes > height)
            height = items[i].offset + items[i].bytes;
    return height;
}

/* Search under `roof` with what is left of the effort. */
static sw_status search_under(sw_place_item *items, size_t n, const sw_place_opts *opts,
                              size_t roof, uint64_t most, sw_place_result *out, bool *found)
{
    sw_search_result result;
    sw_place_opts mine = *opts;
    mine.capacity = roof;
    mine.nodes = most;
    SW_TRY(sw_place_search(items, n, &mine, &result));
    out->nodes += result.nodes;
    *found = result.end == SW_SEARCH_FOUND;
    if (*found) {
        out->height = height_of(items, n);
        out->method = "search";
    }
    if (result.end == SW_SEARCH_PROVED_NONE && roof + 1 > out->proved)
        out->proved = roof + 1;
    return SW_OK;
}

/* First at the bound itself, with half of the effort; then halfway between what is known to be
 * too low, or was too hard, and what is known to do. */
static sw_status search_lowest(sw_place_item *items, size_t n, const sw_place_opts *opts,
                               uint64_t nodes, sw_place_result *out)
{
    size_t low = out->proved;
    bool found;
    SW_TRY(search_under(items, n, opts, low, nodes / 2, out, &found));
    while (!found && out->nodes < nodes && out->height - low > out->lower_bound / 4096 + 1 &&
           (opts->stop == NULL || !opts->stop(opts->context))) {
        const size_t middle = low + (out->height - low) / 2;
        const uint64_t left = nodes - out->nodes, share = nodes / 16 + 1;
        SW_TRY(search_under(items, n, opts, middle, left < share ? left : share, out, &found));
        if (!found)
            low = middle;
        found = out->height == low;
    }
    return SW_OK;
}

static void conclude(const sw_place_opts *opts, sw_place_result *out)
{
    if (opts->capacity > 0 && out->height > opts->capacity)
        out->end = out->proved > opts->capacity ? SW_PLACE_NO_FIT : SW_PLACE_GAVE_UP;
    else
        out->end = out->height <= out->proved ? SW_PLACE_OPTIMAL : SW_PLACE_FITS;
}

/* The lowest niche first, on a copy: kept where it is lower. */
static sw_status try_niches(sw_place_item *items, size_t n, const sw_place_opts *opts,
                            sw_place_result *out)
{
    void *block;
    sw_place_result result;
    sw_place_opts mine = *opts;
    mine.nodes = 0;                         /* its own measure */
    const size_t bytes = n * sizeof *items; /* as large as items is: no overflow */
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    sw_place_item *copy = block;
    memcpy(copy, items, bytes);
    const sw_status status = sw_place_large(copy, n, out->lower_bound, &mine, &result);
    if (status == SW_OK && result.height < out->height) {
        memcpy(items, copy, bytes);
        out->height = result.height;
        out->method = result.method;
    }
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}

static bool is_settled(const sw_place_opts *opts, const sw_place_result *r)
{
    return r->height <= r->proved ||
           (opts->capacity > 0 && (r->height <= opts->capacity || r->proved > opts->capacity));
}

static sw_status improve(sw_place_item *items, size_t n, const sw_place_opts *opts,
                         sw_place_result *out)
{
    uint64_t nodes = opts->nodes > 0 ? opts->nodes : PLAN_EFFORT / (n + 1);
    if (opts->nodes == 0 && nodes > PLAN_NODES)
        nodes = PLAN_NODES;
    bool found;
    if (n <= GREEDY_MOST && !is_settled(opts, out))
        SW_TRY(try_niches(items, n, opts, out));
    if (n > SW_SEARCH_MOST || is_settled(opts, out))
        return SW_OK;
    return opts->capacity > 0 ? search_under(items, n, opts, opts->capacity, nodes, out, &found)
                              : search_lowest(items, n, opts, nodes, out);
}

sw_status sw_place_best(sw_place_item *items, size_t n, const sw_place_opts *opts,
                        sw_place_result *out)
{
    sw_place_opts large = *opts;
    large.nodes = 0; /* its own measure */
    SW_TRY(n > GREEDY_MOST ? sw_place_large(items, n, 0, &large, out)
                           : sw_place_solve(items, n, out));
    SW_TRY(improve(items, n, opts, out));
    conclude(opts, out);
#if SW_CHECKS >= 2
    if (n <= GREEDY_MOST) /* the checker is quadratic */
        SW_TRY(sw_place_check(items, n, out->height));
#endif
    return SW_OK;
}
