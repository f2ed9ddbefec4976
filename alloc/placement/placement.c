/* The portfolio, over the buffers in canonical order: greedy orders where there are few
 * buffers, niches where there are many or the orders do not do, then the exact search. Each
 * method takes items that were checked here. */
#include "alloc/placement/placement.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/placement/placement_greedy.h"
#include "alloc/placement/placement_large.h"
#include "alloc/placement/placement_order.h"
#include "alloc/placement/placement_search.h"
#include "alloc/base/size.h"
#include <string.h>

#define GREEDY_MOST 4000   /* buffers: each attempt is quadratic */
#define PLAN_NODES 2000    /* at most; some hundredths of a second */
#define PLAN_EFFORT 100000 /* nodes times buffers: a node costs more where there are many */

static bool is_settled(const sw_placement_opts *opts, const sw_placement_result *r)
{
    const sw_placement_end end = sw_placement_end_of(r, opts->capacity);
    return end == SW_PLACEMENT_OPTIMAL || end == SW_PLACEMENT_NO_FIT ||
           (end == SW_PLACEMENT_FITS && opts->capacity > 0);
}

static size_t height_of(const sw_placement_item *items, size_t n)
{
    size_t height = 0;
    for (size_t i = 0; i < n; i++)
        if (items[i].offset + items[i].bytes > height)
            height = items[i].offset + items[i].bytes;
    return height;
}

/* Search under `roof` with what is left of the effort. */
static sw_status search_under(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                              size_t roof, uint64_t most, sw_placement_result *out, bool *found)
{
    sw_search_result result;
    sw_placement_opts mine = *opts;
    mine.capacity = roof;
    SW_ASSERT(n <= SW_SEARCH_MOST && out->nodes <= UINT64_MAX - most);
    mine.nodes = most;
    SW_TRY(sw_placement_search(items, n, &mine, &result));
    out->nodes += result.nodes;
    *found = result.end == SW_SEARCH_FOUND;
    SW_ASSERT(!*found || height_of(items, n) <= roof);
    if (*found) {
        out->height = height_of(items, n);
        out->method = "search";
    }
    if (result.end == SW_SEARCH_PROVED_NONE && result.proved > out->proved)
        out->proved = result.proved;
    return SW_OK;
}

static bool goes_on(const sw_placement_opts *opts, uint64_t nodes,
                    const sw_placement_result *out)
{
    return out->nodes < nodes && !is_settled(opts, out) &&
           (opts->stop == NULL || !opts->stop(opts->context));
}

/* First search at the bound itself, with half of the effort. Then search halfway between
 * the largest height that failed or was too hard and the smallest that is known. The rest
 * of the effort goes into the last step: any lower height, until none is found. */
static sw_status search_lowest(sw_placement_item *items, size_t n,
                               const sw_placement_opts *opts, uint64_t nodes,
                               sw_placement_result *out)
{
    size_t low = out->proved;
    bool found;
    SW_ASSERT(low >= out->lower_bound && out->height >= low);
    SW_TRY(search_under(items, n, opts, low, nodes / 2, out, &found));
    while (!found && out->height - low > out->lower_bound / 4096 + 1 &&
           goes_on(opts, nodes, out)) {
        const size_t middle = low + (out->height - low) / 2;
        SW_ASSERT(middle >= low && middle <= out->height);
        const uint64_t left = nodes - out->nodes, share = nodes / 16 + 1;
        SW_TRY(search_under(items, n, opts, middle, left < share ? left : share, out, &found));
        if (!found)
            low = middle;
        found = out->height == low;
    }
    for (found = true; found && goes_on(opts, nodes, out);)
        SW_TRY(search_under(items, n, opts, out->height - 1, nodes - out->nodes, out, &found));
    return SW_OK;
}

sw_placement_end sw_placement_end_of(const sw_placement_result *r, size_t capacity)
{
    if (capacity > 0 && r->height > capacity)
        return r->proved > capacity ? SW_PLACEMENT_NO_FIT : SW_PLACEMENT_GAVE_UP;
    return r->height <= r->proved ? SW_PLACEMENT_OPTIMAL : SW_PLACEMENT_FITS;
}

/* The lowest niche first, on a copy: kept where it is lower. */
static sw_status try_niches(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                            sw_placement_result *out)
{
    void *block;
    sw_placement_result result;
    sw_placement_opts mine = *opts;
    mine.nodes = 0;                         /* its own measure */
    const size_t bytes = n * sizeof *items; /* as large as items is: no overflow */
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    sw_placement_item *copy = block;
    memcpy(copy, items, bytes);
    const sw_status status = sw_placement_large(copy, n, out->lower_bound, &mine, &result);
    SW_ASSERT(status != SW_OK || result.height >= out->lower_bound);
    if (status == SW_OK && result.height < out->height) {
        memcpy(items, copy, bytes);
        out->height = result.height;
        out->method = result.method;
    }
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}

static sw_status improve(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                         sw_placement_result *out)
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

static sw_status check_items(const sw_placement_item *items, size_t n)
{
    size_t total = 0, with_aligns = 0;
    bool aligned = false;
    if (n >= UINT32_MAX)
        SW_FAIL(SW_INVALID, "placement: %zu buffers are too many", n);
    for (size_t i = 0; i < n; i++) {
        if (items[i].lower >= items[i].upper)
            SW_FAIL(SW_INVALID, "placement: buffer %zu has the empty lifetime %u..%u", i,
                    items[i].lower, items[i].upper);
        if (items[i].bytes == 0)
            SW_FAIL(SW_INVALID, "placement: buffer %zu has no bytes", i);
        if (!sw_size_add(total, items[i].bytes, &total))
            SW_FAIL(SW_NOMEM, "placement: the sizes overflow at buffer %zu", i);
        aligned = aligned || items[i].align > 1;
        if (!sw_size_add(with_aligns, items[i].align, &with_aligns))
            with_aligns = SIZE_MAX;
    }
    if (aligned &&
        (!sw_size_add(with_aligns, total, &total) || total > SW_PLACEMENT_ALIGNED_MOST))
        SW_FAIL(SW_NOMEM, "placement: sizes and alignments together overflow");
    return SW_OK;
}

/* Items that were checked and stand in canonical order. */
static sw_status solve(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                       sw_placement_result *out)
{
    sw_placement_opts large = *opts;
    large.nodes = 0; /* its own measure */
    SW_TRY(n > GREEDY_MOST ? sw_placement_large(items, n, 0, &large, out)
                           : sw_placement_greedy(items, n, opts, out));
    SW_TRY(improve(items, n, opts, out));
    out->end = sw_placement_end_of(out, opts->capacity);
    SW_ASSERT(out->height == height_of(items, n));
    SW_ASSERT(out->height >= out->lower_bound && out->proved >= out->lower_bound);
    SW_ASSERT(out->method != NULL);
#if SW_CHECKS >= 2
    if (n <= GREEDY_MOST) /* the checker is quadratic */
        SW_TRY(sw_placement_check(items, n, out->height));
#endif
    return SW_OK;
}

/* The buffers in canonical order, solved, and their offsets where they came from. */
static sw_status solve_ordered(sw_placement_item *items, size_t n, size_t divisor,
                               const sw_placement_opts *opts, sw_placement_result *out)
{
    void *block;
    size_t bytes = 0;
    if (!sw_size_mul(n, sizeof *items + 2 * sizeof(uint32_t), &bytes))
        SW_FAIL(SW_NOMEM, "placement: %zu buffers overflow", n);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    sw_placement_item *ordered = block;
    uint32_t *order = (uint32_t *)(void *)(ordered + n);
    swi_placement_order(items, n, divisor, order, order + n);
    for (size_t k = 0; k < n; k++)
        ordered[k] = items[order[k]];
    SW_ASSERT(swi_placement_is_ordered(ordered, n, divisor));
    const sw_status status = solve(ordered, n, opts, out);
    for (size_t k = 0; k < n && status == SW_OK; k++)
        items[order[k]].offset = ordered[k].offset;
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}

sw_status sw_placement_solve(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                             sw_placement_result *out)
{
    size_t divisor = 0;
    SW_TRY(check_items(items, n));
    for (size_t i = 0; i < n && divisor != 1; i++)
        divisor = sw_size_gcd(divisor, items[i].bytes);
    return swi_placement_is_ordered(items, n, divisor)
               ? solve(items, n, opts, out)
               : solve_ordered(items, n, divisor, opts, out);
}
