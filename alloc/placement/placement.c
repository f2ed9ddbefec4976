/* The portfolio, over the buffers in canonical order: greedy orders where there are few
 * buffers, niches where there are many or the orders do not do, then the exact search. Each
 * method takes items that were checked here. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "alloc/placement/placement.h"
#include "alloc/placement/placement_internal.h"
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

static sw_status improve(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                         sw_placement_result *out)
{
    uint64_t nodes = opts->nodes > 0 ? opts->nodes : PLAN_EFFORT / (n + 1);
    if (opts->nodes == 0 && nodes > PLAN_NODES)
        nodes = PLAN_NODES;
    bool found;
    if (n <= GREEDY_MOST && !is_settled(opts, out)) {
        /* The lowest niche first, on a copy: kept where it is lower. */
        sw_placement_item *copy;
        sw_placement_result result;
        sw_placement_opts mine = *opts;
        mine.nodes = 0;                         /* its own measure */
        const size_t bytes = n * sizeof *items; /* as large as items is: no overflow */
        SW_TRY(sw_heap_alloc(&copy, SW_HEAP_PROGRAMS, bytes));
        memcpy(copy, items, bytes);
        const sw_status status = sw_placement_large(copy, n, out->lower_bound, &mine, &result);
        SW_ASSERT(status != SW_OK || result.height >= out->lower_bound);
        if (status == SW_OK && result.height < out->height) {
            memcpy(items, copy, bytes);
            out->height = result.height;
            out->method = result.method;
        }
        sw_heap_free(copy, SW_HEAP_PROGRAMS, bytes);
        SW_TRY(status);
    }
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
    sw_placement_item *ordered;
    size_t bytes = 0;
    if (!sw_size_mul(n, sizeof *items + 2 * sizeof(uint32_t), &bytes))
        SW_FAIL(SW_NOMEM, "placement: %zu buffers overflow", n);
    SW_TRY(sw_heap_alloc(&ordered, SW_HEAP_PROGRAMS, bytes));
    uint32_t *order = (uint32_t *)(void *)(ordered + n);
    swi_placement_order(items, n, divisor, order, order + n);
    for (size_t k = 0; k < n; k++)
        ordered[k] = items[order[k]];
    SW_ASSERT(swi_placement_is_ordered(ordered, n, divisor));
    const sw_status status = solve(ordered, n, opts, out);
    for (size_t k = 0; k < n && status == SW_OK; k++)
        items[order[k]].offset = ordered[k].offset;
    sw_heap_free(ordered, SW_HEAP_PROGRAMS, bytes);
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

/* ---- placement order --------------------------------------------------------------------- */

/* See placement_internal.h. Merging from pairs upwards; what is in order already is not merged,
 * so that the traces of programs, whose buffers come by birth, take few steps. */

static size_t asked(const sw_placement_item *item, size_t divisor)
{
    return item->align > 1 && divisor % item->align != 0 ? item->align : 0;
}

static bool goes_before(const sw_placement_item *a, const sw_placement_item *b, size_t divisor)
{
    if (a->lower != b->lower)
        return a->lower < b->lower;
    if (a->upper != b->upper)
        return a->upper < b->upper;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes;
    return asked(a, divisor) < asked(b, divisor);
}

bool swi_placement_is_ordered(const sw_placement_item *items, size_t n, size_t divisor)
{
    for (size_t i = 1; i < n; i++)
        if (goes_before(&items[i], &items[i - 1], divisor))
            return false;
    return true;
}

/* The runs [start, mid) and [mid, end) of `from` become one in `to`. */
static void merge(const sw_placement_item *items, size_t divisor, const uint32_t *from,
                  uint32_t *to, size_t start, size_t mid, size_t end)
{
    size_t a = start, b = mid, k = start;
    if (mid < end && goes_before(&items[from[mid]], &items[from[mid - 1]], divisor))
        while (a < mid && b < end)
            to[k++] =
                goes_before(&items[from[b]], &items[from[a]], divisor) ? from[b++] : from[a++];
    memcpy(to + k, from + a, (mid - a) * sizeof *to);
    memcpy(to + k + (mid - a), from + b, (end - b) * sizeof *to);
}

void swi_placement_order(const sw_placement_item *items, size_t n, size_t divisor,
                         uint32_t *order, uint32_t *scratch)
{
    uint32_t *from = order, *to = scratch;
    SW_ASSERT(n < UINT32_MAX);
    sw_order_numbers(order, n);
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            const size_t mid = start + width < n ? start + width : n;
            merge(items, divisor, from, to, start, mid, mid + width < n ? mid + width : n);
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order)
        memcpy(order, from, n * sizeof *order);
}

/* ---- placement pressure ------------------------------------------------------------------ */

/* See placement_internal.h. Node k of the tree holds the sections [first, first + width). */

static size_t below(const size_t *node, uint32_t k)
{
    const size_t a = node[2 * k], b = node[2 * k + 1];
    return a > b ? a : b;
}

void swi_pressure_fill(const swi_pressure *p, const size_t *load, uint32_t n)
{
    SW_ASSERT(p->width > 0 && (p->width & (p->width - 1)) == 0 && n <= p->width);
    for (uint32_t s = 0; s < p->width; s++)
        p->node[p->width + s] = s < n ? load[s] : 0;
    for (uint32_t k = p->width - 1; k > 0; k--)
        p->node[k] = below(p->node, k);
}

static void press(size_t *node, uint32_t k, uint32_t first, uint32_t width, uint32_t from,
                  uint32_t to, size_t bytes)
{
    if (from <= first && first + width <= to) {
        node[k] += bytes;
        return;
    }
    const size_t all = node[k] - below(node, k);
    SW_ASSERT(node[k] >= below(node, k) && width > 1);
    const uint32_t half = width / 2;
    if (from < first + half)
        press(node, 2 * k, first, half, from, to, bytes);
    if (to > first + half)
        press(node, 2 * k + 1, first + half, half, from, to, bytes);
    node[k] = all + below(node, k);
}

void swi_pressure_add(const swi_pressure *p, uint32_t from, uint32_t to, size_t bytes)
{
    SW_ASSERT(from <= to && to <= p->width);
    press(p->node, 1, 0, p->width, from, to, bytes);
}

/* *most is the highest so far, *at where; `above` was added to all of node k. */
static void most_pressed(const size_t *node, uint32_t k, uint32_t first, uint32_t width,
                         uint32_t from, uint32_t to, size_t above, size_t *most, uint32_t *at)
{
    if (node[k] + above <= *most)
        return;
    if (from <= first && first + width <= to) { /* down to where the highest is */
        *most = node[k] + above;
        for (; width > 1; width /= 2) {
            k *= 2;
            if (node[k] < node[k + 1]) {
                k++;
                first += width / 2;
            }
        }
        *at = first;
        return;
    }
    const uint32_t half = width / 2;
    above += node[k] - below(node, k);
    if (from < first + half)
        most_pressed(node, 2 * k, first, half, from, to, above, most, at);
    if (to > first + half)
        most_pressed(node, 2 * k + 1, first + half, half, from, to, above, most, at);
}

uint32_t swi_pressure_most(const swi_pressure *p, uint32_t from, uint32_t to)
{
    size_t most = 0;
    uint32_t at = from;
    most_pressed(p->node, 1, 0, p->width, from, to, 0, &most, &at);
    return at;
}

/* ---- placement race ---------------------------------------------------------------------- */

/* The exact search as a race: strategies that differ in orders, noise and length run side by
 * side, each with tables of its own, because what one does not find in a long time another
 * often finds at once.
 *
 * The first runs alone for a while. Then they run in rounds, up to the same number of nodes
 * each, twice as many as in the round before. In the first round in which any ends, the one
 * with the fewest nodes has won (the first of equals): so the answer depends neither on time
 * nor on the number of threads. A search that has taken more nodes than another that has ended
 * cannot win and stops. */

#define LEAD 4000u              /* nodes of the first strategy before the others begin */
#define FIRST_ROUND 500u        /* nodes of each strategy */
#define NODES_PER_STRATEGY 5000 /* who has less to spend runs fewer of them */
#define THREADS_MOST (N_STRATEGIES - 1)

/* Chosen on perturbed problems (bench place --perturbed): each places some that the others do
 * not. The last skips nothing, so that it can prove that there is no placement; bounds of parts
 * take it twice the time of others. */
static const swi_strategy strategies[] = {
    {{SWI_AREA, SWI_AREA_BYTES, SWI_BYTES, SWI_AREA_SPAN}, 4, true, false, 0.6, 500, 0.7},
    {{SWI_AREA_SPAN}, 1, true, false, 0.3, 500, 0.7},
    {{SWI_AREA, SWI_AREA_BYTES, SWI_BYTES, SWI_AREA_SPAN}, 4, true, false, 0.3, 1000, 0.7},
    {{SWI_AREA_BYTES}, 1, true, false, 0.3, 500, 0.7},
    {{SWI_SPAN}, 1, true, false, 0.3, 500, 0.7},
    {{SWI_AREA, SWI_AREA_BYTES, SWI_BYTES, SWI_AREA_SPAN}, 4, false, true, 0.3, 500, 1.0},
};

enum { N_STRATEGIES = sizeof strategies / sizeof *strategies };

typedef struct {
    swi_race shared;
    swi_search search[N_STRATEGIES];
    unsigned n, active; /* the first `active` of n run in this round */
    uint64_t most;      /* nodes of each by the end of this round */
    uint64_t lead;      /* that the first has taken before the others began */
} race;

bool swi_race_is_over(const swi_search *s)
{
    swi_race *r = s->race;
    if (atomic_load_explicit(&r->best, memory_order_relaxed) < s->total + s->nodes)
        return true;
    if (atomic_load_explicit(&r->stopped, memory_order_relaxed))
        return true;
    if (r->opts->stop == NULL || !r->opts->stop(r->opts->context))
        return false;
    atomic_store_explicit(&r->stopped, true, memory_order_relaxed);
    return true;
}

void swi_race_ended(const swi_search *s)
{
    uint_least64_t best = atomic_load(&s->race->best);
    while (s->total < best && !atomic_compare_exchange_weak(&s->race->best, &best, s->total))
        continue;
}

/* ---- rounds ------------------------------------------------------------------------------ */

static void run_some(void *arg)
{
    race *r = arg;
    for (;;) {
        const unsigned k = atomic_fetch_add(&r->shared.next, 1);
        if (k >= r->active)
            return;
        swi_search_run(&r->search[k], r->most);
    }
}

/* A round of the first `active` up to `most` nodes each. *over: somebody has won, or the caller
 * has asked to stop. */
static sw_status try_round(race *r, unsigned active, uint64_t most, const swi_search **winner,
                           bool *over)
{
    r->active = active;
    r->most = most;
    /* The others do the work of threads that cannot be started. */
    sw_thread *threads[THREADS_MOST];
    const unsigned asked = r->shared.opts->threads;
    unsigned n = 0;
    atomic_store(&r->shared.next, 0);
    while (n + 1 < asked && n + 1 < r->active &&
           sw_thread_start(&threads[n], run_some, r, "place") == SW_OK)
        n++;
    run_some(r);
    while (n > 0)
        sw_thread_join(threads[--n]);
    for (unsigned k = 0; k < r->n; k++)
        SW_TRY(r->search[k].status);
    const swi_search *best = NULL;
    for (unsigned j = 0; j < r->n; j++)
        if (r->search[j].outcome != SW_SEARCH_GAVE_UP &&
            (best == NULL || r->search[j].total < best->total))
            best = &r->search[j];
    *winner = best;
    *over = *winner != NULL || atomic_load(&r->shared.stopped);
    return SW_OK;
}

/* The first strategy alone, and where that was not enough all of them, from nothing. */
static sw_status run_rounds(race *r, const swi_search **winner)
{
    const uint64_t nodes = r->shared.opts->nodes;
    bool over;
    SW_TRY(try_round(r, 1, r->n > 1 ? LEAD : nodes, winner, &over));
    if (over || r->n == 1)
        return SW_OK;
    r->lead = r->search[0].total;
    r->search[0].total = 0;
    const uint64_t share = (nodes - r->lead) / r->n;
    for (uint64_t most = FIRST_ROUND;; most *= 2) {
        SW_TRY(try_round(r, r->n, most < share ? most : share, winner, &over));
        if (over || most >= share)
            return SW_OK;
    }
}

/* ---- the call ---------------------------------------------------------------------------- */

/* Nodes are those that one thread would take up to the winner's end, whatever was taken. */
static void write_result(const race *r, const swi_search *winner, sw_placement_item *items,
                         sw_search_result *out)
{
    out->nodes = r->lead;
    for (unsigned k = 0; k < r->active; k++)
        out->nodes += winner != NULL ? winner->total : r->search[k].total;
    if (winner == NULL)
        return;
    out->end = winner->outcome;
    if (out->end == SW_SEARCH_PROVED_NONE)
        out->proved = (size_t)((winner->roof + 1) * winner->unit);
    for (uint32_t i = 0; i < winner->n && out->end == SW_SEARCH_FOUND; i++) {
        SW_ASSERT(winner->placed[i] && winner->offset[i] + winner->bytes[i] <= winner->roof);
        items[i].offset = (size_t)(winner->offset[i] * winner->unit);
    }
}

static sw_status create_all(race *r, const sw_placement_item *items, size_t n)
{
    const sw_placement_opts *opts = r->shared.opts;
    const uint64_t affordable = opts->nodes / NODES_PER_STRATEGY;
    const unsigned wanted = affordable < N_STRATEGIES ? (unsigned)affordable : N_STRATEGIES;
    do {
        swi_search *s = &r->search[r->n];
        SW_TRY(swi_search_create(s, items, n, opts));
        s->noise += r->n;
        s->how = &strategies[r->n++];
        s->race = &r->shared;
    } while (r->n < wanted);
    return SW_OK;
}

sw_status sw_placement_search(sw_placement_item *items, size_t n, const sw_placement_opts *opts,
                              sw_search_result *out)
{
    *out = (sw_search_result){SW_SEARCH_GAVE_UP, 0, 0};
    if (n == 0 || n > SW_SEARCH_MOST || opts->capacity == 0)
        SW_FAIL(SW_INVALID, "placement search: the number of buffers must be 1 to %d (got %zu)",
                SW_SEARCH_MOST, n);
    const swi_search *winner = NULL;
    race r = {.shared = {.opts = opts, .best = UINT64_MAX}};
    sw_status status = create_all(&r, items, n);
    if (status == SW_OK)
        status = run_rounds(&r, &winner);
    if (status == SW_OK)
        write_result(&r, winner, items, out);
    for (unsigned k = 0; k < N_STRATEGIES; k++)
        swi_search_destroy(&r.search[k]);
    return status;
}

/* ---- placement sweep --------------------------------------------------------------------- */

/* See placement_internal.h. Blocks are of sizes m * 2^k with 8 <= m < 16: at most an eighth of
 * one is lost. A block is known by the buffer that had it last, and is large enough for its
 * alignment wherever it begins. */

#define NONE UINT32_MAX
#define CLASSES 512

/* The class of blocks that a size takes, and their size in *block. */
static uint32_t class_of(size_t bytes, size_t *block)
{
    uint32_t shift = 0;
    if (bytes >= 16)
        shift = 60 - (uint32_t)__builtin_clzll(bytes);
    const size_t step = (size_t)1 << shift, m = (bytes + step - 1) / step;
    SW_ASSERT(m <= 16 && 8 * shift + m < CLASSES);
    *block = m * step;
    return 8 * shift + (uint32_t)m; /* m = 16 is m = 8 of the next shift */
}

/* The highest end so far; *small: sums of block sizes stay in range. */
static size_t top_of(const swi_sweep *s, const size_t *offset, bool *small)
{
    size_t top = 0, sum = 0;
    *small = true;
    for (uint32_t i = 0; i < s->n; i++) {
        if (offset[i] != SIZE_MAX && offset[i] + s->items[i].bytes > top)
            top = offset[i] + s->items[i].bytes;
        *small = *small && sw_size_add(sum, s->items[i].bytes, &sum) &&
                 sw_size_add(sum, s->items[i].align, &sum) && sum <= SIZE_MAX / 4;
    }
    return top;
}

/* Bytes in which the buffer fits wherever they begin. */
static size_t bytes_of(const sw_placement_item *item)
{
    return item->bytes + (item->align > 1 ? item->align - 1 : 0);
}

size_t swi_placement_sweep(const swi_sweep *s, size_t *offset)
{
    uint32_t free[CLASSES];
    bool small;
    size_t bytes, top = top_of(s, offset, &small), height = top;
    for (uint32_t i = 0; !small && i < s->n; i++)
        if (offset[i] == SIZE_MAX) {
            offset[i] = swi_align_up(top, s->items[i].align);
            top = offset[i] + s->items[i].bytes;
        }
    if (!small)
        return top;
    memset(free, 0xff, sizeof free);
    for (uint32_t k = 0; k < s->n_sections; k++)
        s->first_birth[k] = s->first_death[k] = NONE;
    for (uint32_t i = s->n; i-- > 0;) { /* backwards: lists begin with the first buffer */
        SW_ASSERT(s->lo[i] < s->hi[i] && s->hi[i] <= s->n_sections);
        if (offset[i] != SIZE_MAX)
            continue;
        s->next_birth[i] = s->first_birth[s->lo[i]];
        s->first_birth[s->lo[i]] = i;
        if (s->hi[i] == s->n_sections)
            continue; /* none comes after it */
        s->next_death[i] = s->first_death[s->hi[i]];
        s->first_death[s->hi[i]] = i;
    }
    for (uint32_t k = 0; k < s->n_sections; k++) {
        for (uint32_t i = s->first_death[k]; i != NONE; i = s->next_death[i]) {
            const uint32_t class = class_of(bytes_of(&s->items[i]), &bytes);
            s->next_free[i] = free[class];
            free[class] = i;
        }
        for (uint32_t i = s->first_birth[k]; i != NONE; i = s->next_birth[i]) {
            const uint32_t class = class_of(bytes_of(&s->items[i]), &bytes), of = free[class];
            s->block[i] = of != NONE ? s->block[of] : top;
            if (of != NONE)
                free[class] = s->next_free[of];
            else
                top += bytes;
            offset[i] = swi_align_up(s->block[i], s->items[i].align);
            SW_ASSERT(offset[i] - s->block[i] + s->items[i].bytes <= bytes);
            if (offset[i] + s->items[i].bytes > height)
                height = offset[i] + s->items[i].bytes;
        }
    }
    return height;
}
