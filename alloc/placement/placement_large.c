/* Placement by niches: the floor of every moment rises from 0, and the lowest part of it is
 * filled first.
 *
 * A niche is a stretch of time with one floor between higher walls. Take the lowest; of the
 * unplaced buffers that live within it put the one of the highest rank on the floor; when there
 * is none the niche is lost up to its lower wall. Each of these steps is a logarithm: a heap of
 * niches, and a tree of boxes over the unplaced buffers as points (start, end).
 *
 * The place where floor is lost decides. The pressure of a moment is its load and what was lost
 * below; the highest pressure at the end is the height, and at any time no more than it. So:
 * - the rank of a buffer is its lifetime, each moment weighted by a power of its load: moments
 *   near the peak must not be split badly, the others may;
 * - a run may ask for a buffer that covers the niche's moment of most pressure, if there is
 * one;
 * - a run ends as soon as its pressure reaches the best height, and the weights in the niche
 *   where that happened rise for the next run.
 *
 * Time is counted in sections that hold a maximal set of live buffers. One heap block, one
 * thread; nothing here rounds differently from machine to machine. */
#include "alloc/base/assert.h"
#include "alloc/placement/placement_internal.h"
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "alloc/base/size.h"
#include <string.h>

enum { LEAF = 8, NONE = UINT32_MAX };

/* An unplaced buffer lives over the sections [lo, hi); rank 0: it has been placed. */
typedef struct {
    uint32_t lo, hi, rank;
} point;

/* The bounds of the unplaced points below, and their highest rank (0: none are left). */
typedef struct {
    uint32_t lo_min, lo_max, hi_min, hi_max, best;
} box;

/* A question to the tree: the highest rank within [from, to) that is alive at `at` (NONE:
 * any). */
typedef struct {
    uint32_t from, to, at, best;
} query;

typedef struct {
    const sw_placement_item *items;
    uint32_t n, n_sections, n_leaves; /* the last: a power of two */
    /* per buffer */
    size_t *offset, *best;    /* of this run, of the best */
    double *key;              /* of which the rank is made */
    size_t *spare;            /* the same memory: no ranks are made any more */
    uint32_t *lo, *hi;        /* sections */
    uint32_t *by_bytes;       /* smallest first: decides between equal keys */
    uint32_t *by_rank, *temp; /* lowest first; for sorting */
    uint32_t *place_of;       /* its index among the points */
    point *points;            /* in an order that keeps near lifetimes together */
    box *boxes;               /* an implicit tree over blocks of LEAF points */
    /* per section; those of niches hold at the first section of each */
    size_t *floor;
    uint32_t *next, *prev;    /* niche to the right (n_sections: none), to the left (NONE) */
    uint32_t *heap, *heap_at; /* lowest floor first, then leftmost */
    uint32_t n_niches;
    size_t *load;                /* sum of sizes */
    double *sum;                 /* of the weights of all sections before; one longer */
    float *weight, *best_weight; /* of this run, of the best */
    swi_pressure pressure;
    /* of this run */
    size_t limit;                /* give up at this pressure */
    uint32_t lost_from, lost_to; /* the niche where it did */
    /* of all */
    uint64_t nodes, max_nodes;
    const sw_placement_opts *opts;
    bool stopped;
} work;

/* Whether the caller has asked to stop; once true, always true. */
static bool asked_to_stop(void *context)
{
    work *w = context;
    if (!w->stopped && w->opts != NULL && w->opts->stop != NULL)
        w->stopped = w->opts->stop(w->opts->context);
    return w->stopped;
}

/* ---- time into sections ------------------------------------------------------------------ */

/* A section begins at a start that follows an end. */
static void find_sections(work *w)
{
    uint32_t *starts = w->by_rank, *ends = w->by_bytes;
    for (uint32_t i = 0; i < w->n; i++)
        w->key[i] = w->items[i].lower;
    sw_order_numbers(starts, w->n);
    sw_order_by_keys(starts, w->temp, w->key, w->n, NULL, NULL);
    for (uint32_t i = 0; i < w->n; i++)
        w->key[i] = w->items[i].upper;
    sw_order_numbers(ends, w->n);
    sw_order_by_keys(ends, w->temp, w->key, w->n, NULL, NULL);
    uint32_t begun = 0, e = 0;
    bool ended = true;
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t now = w->items[starts[i]].lower;
        for (; w->items[ends[e]].upper <= now; e++, ended = true)
            w->hi[ends[e]] = begun;
        begun += ended;
        ended = false;
        w->lo[starts[i]] = begun - 1;
    }
    for (; e < w->n; e++)
        w->hi[ends[e]] = begun;
    w->n_sections = begun;
}

static size_t find_loads(work *w)
{
    for (uint32_t i = 0; i < w->n; i++) { /* differences; they may wrap and come back */
        w->load[w->lo[i]] += w->items[i].bytes;
        if (w->hi[i] < w->n_sections)
            w->load[w->hi[i]] -= w->items[i].bytes;
    }
    size_t peak = w->load[0];
    for (uint32_t s = 1; s < w->n_sections; s++) {
        w->load[s] += w->load[s - 1];
        peak = w->load[s] > peak ? w->load[s] : peak;
    }
    return peak;
}

/* ---- the unplaced buffers ---------------------------------------------------------------- */

/* The bits of x, one free place after each. */
static uint64_t spread(uint32_t x)
{
    uint64_t v = x;
    v = (v | v << 16) & 0x0000ffff0000ffff;
    v = (v | v << 8) & 0x00ff00ff00ff00ff;
    v = (v | v << 4) & 0x0f0f0f0f0f0f0f0f;
    v = (v | v << 2) & 0x3333333333333333;
    return (v | v << 1) & 0x5555555555555555;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void fill_leaf(work *w, uint32_t block)
{
    box b = {NONE, 0, NONE, 0, 0};
    const size_t from = (size_t)block * LEAF;
    const size_t to = from + LEAF < w->n ? from + LEAF : w->n;
    for (size_t k = from; k < to; k++) {
        const point *p = &w->points[k];
        if (p->rank == 0)
            continue;
        b.lo_min = lesser(b.lo_min, p->lo);
        b.lo_max = larger(b.lo_max, p->lo);
        b.hi_min = lesser(b.hi_min, p->hi);
        b.hi_max = larger(b.hi_max, p->hi);
        b.best = larger(b.best, p->rank);
    }
    w->boxes[w->n_leaves + block] = b;
}

static void fill_box(work *w, uint32_t k)
{
    const box *a = &w->boxes[2 * k], *b = &w->boxes[2 * k + 1];
    w->boxes[k] = (box){lesser(a->lo_min, b->lo_min), larger(a->lo_max, b->lo_max),
                        lesser(a->hi_min, b->hi_min), larger(a->hi_max, b->hi_max),
                        larger(a->best, b->best)};
}

static void ask(const work *w, uint32_t k, query *q)
{
    const box *b = &w->boxes[k];
    if (b->best <= q->best || b->lo_max < q->from || b->hi_min > q->to || b->lo_min > q->at ||
        (q->at != NONE && b->hi_max <= q->at))
        return;
    if (b->lo_min >= q->from && b->hi_max <= q->to &&
        (q->at == NONE || (b->lo_max <= q->at && b->hi_min > q->at))) {
        q->best = b->best;
        return;
    }
    if (k < w->n_leaves) {
        const uint32_t first = 2 * k + (w->boxes[2 * k].best < w->boxes[2 * k + 1].best);
        ask(w, first, q);
        ask(w, first ^ 1, q);
        return;
    }
    const size_t from = (size_t)(k - w->n_leaves) * LEAF;
    const size_t to = from + LEAF < w->n ? from + LEAF : w->n;
    for (size_t i = from; i < to; i++) {
        const point *p = &w->points[i];
        if (p->rank > q->best && p->lo >= q->from && p->hi <= q->to && p->lo <= q->at &&
            (q->at == NONE || p->hi > q->at))
            q->best = p->rank;
    }
}

/* ---- niches ------------------------------------------------------------------------------ */

static bool lower_niche(const work *w, uint32_t a, uint32_t b)
{
    return w->floor[a] < w->floor[b] || (w->floor[a] == w->floor[b] && a < b);
}

static void sift_up(work *w, uint32_t i)
{
    const uint32_t niche = w->heap[i];
    for (; i > 0 && lower_niche(w, niche, w->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        w->heap[i] = w->heap[(i - 1) / 2];
        w->heap_at[w->heap[i]] = i;
    }
    w->heap[i] = niche;
    w->heap_at[niche] = i;
}

static void sift_down(work *w, uint32_t i)
{
    const uint32_t niche = w->heap[i];
    for (uint32_t c = 2 * i + 1; c < w->n_niches; c = 2 * i + 1) {
        if (c + 1 < w->n_niches && lower_niche(w, w->heap[c + 1], w->heap[c]))
            c++;
        if (!lower_niche(w, w->heap[c], niche))
            break;
        w->heap[i] = w->heap[c];
        w->heap_at[w->heap[i]] = i;
        i = c;
    }
    w->heap[i] = niche;
    w->heap_at[niche] = i;
}

/* Split the niche `left` at section s. */
static void split_niche(work *w, uint32_t left, uint32_t s)
{
    SW_ASSERT(left < s && s < w->next[left] && w->n_niches < w->n_sections);
    w->floor[s] = w->floor[left];
    w->next[s] = w->next[left];
    w->prev[s] = left;
    if (w->next[s] < w->n_sections)
        w->prev[w->next[s]] = s;
    w->next[left] = s;
    w->heap[w->n_niches] = s;
    sift_up(w, w->n_niches++);
}

/* Join the niche s to the one on its left. */
static void join_niche(work *w, uint32_t s)
{
    SW_ASSERT(w->n_niches > 1 && w->prev[s] != NONE && w->heap[w->heap_at[s]] == s);
    const uint32_t left = w->prev[s], at = w->heap_at[s], last = w->heap[--w->n_niches];
    w->next[left] = w->next[s];
    if (w->next[s] < w->n_sections)
        w->prev[w->next[s]] = left;
    if (last != s) {
        w->heap[at] = last;
        w->heap_at[last] = at;
        sift_up(w, at);
        sift_down(w, w->heap_at[last]);
    }
}

/* Raise the floor of niche s; where a neighbour has the same they become one. */
static void raise_floor(work *w, uint32_t s, size_t floor)
{
    SW_ASSERT(floor > w->floor[s] && w->heap[w->heap_at[s]] == s);
    w->floor[s] = floor;
    sift_down(w, w->heap_at[s]);
    if (w->next[s] < w->n_sections && w->floor[w->next[s]] == floor)
        join_niche(w, w->next[s]);
    if (w->prev[s] != NONE && w->floor[w->prev[s]] == floor)
        join_niche(w, s);
}

/* Which buffers are taken first in a niche: those that cover its moment of most pressure, or
 * those that stand at one of its walls. */
typedef enum { ANY, PRESSED, CORNER } choice;

/* ---- one run ----------------------------------------------------------------------------- */

/* The buffer for the niche, or NONE. */
static uint32_t choose(const work *w, uint32_t niche, choice first)
{
    query q = {niche, w->next[niche], NONE, 0};
    if (q.to - q.from == 1)
        first = ANY; /* all do both */
    if (first == PRESSED) {
        q.at = swi_pressure_most(&w->pressure, q.from, q.to);
        ask(w, 1, &q);
    }
    if (first == CORNER) {
        q.at = q.from;
        ask(w, 1, &q);
        q.at = q.to - 1;
        ask(w, 1, &q);
    }
    q.at = NONE;
    if (q.best == 0)
        ask(w, 1, &q);
    return q.best > 0 ? w->by_rank[q.best - 1] : NONE;
}

/* False when that is too much. */
static bool lose_bytes(work *w, uint32_t from, uint32_t to, size_t bytes)
{
    swi_pressure_add(&w->pressure, from, to, bytes);
    w->lost_from = from;
    w->lost_to = to;
    return w->pressure.node[1] < w->limit;
}

/* Nothing fits: the niche is lost up to its lower wall. False when that is too much. */
static bool lose(work *w, uint32_t niche)
{
    const uint32_t left = w->prev[niche], right = w->next[niche];
    size_t wall = left != NONE ? w->floor[left] : SIZE_MAX;
    if (right < w->n_sections && w->floor[right] < wall)
        wall = w->floor[right];
    if (!lose_bytes(w, niche, right, wall - w->floor[niche]))
        return false;
    raise_floor(w, niche, wall);
    return true;
}

/* On the floor, or as near to it as the alignment lets it: what is between is lost. */
static bool put(work *w, uint32_t niche, uint32_t buffer)
{
    const size_t floor = swi_align_up(w->floor[niche], w->items[buffer].align);
    const uint32_t lo = w->lo[buffer], hi = w->hi[buffer];
    SW_ASSERT(w->offset[buffer] == SIZE_MAX && lo >= niche && hi <= w->next[niche]);
    w->offset[buffer] = floor;
    const uint32_t k = w->place_of[buffer];
    SW_ASSERT(w->points[k].rank > 0); /* it waits to be placed */
    w->points[k].rank = 0;
    fill_leaf(w, k / LEAF);
    for (uint32_t up = (w->n_leaves + k / LEAF) / 2; up > 0; up /= 2)
        fill_box(w, up);
    if (hi < w->next[niche])
        split_niche(w, niche, hi);
    if (lo > niche)
        split_niche(w, niche, lo);
    const size_t lost = floor - w->floor[lo];
    raise_floor(w, lo, floor + w->items[buffer].bytes);
    return lost == 0 || lose_bytes(w, lo, hi, lost);
}

/* Whether to end with the best so far; effort counts after the first run. */
static bool enough(work *w)
{
    if (w->limit != SIZE_MAX && w->nodes >= w->max_nodes)
        w->stopped = true;
    return w->nodes % 1024 == 0 ? asked_to_stop(w) : w->stopped;
}

/* True: all are placed under the limit. */
static bool run(work *w, choice first)
{
    for (uint32_t r = 0; r < w->n; r++)
        w->points[w->place_of[w->by_rank[r]]].rank = r + 1;
    for (uint32_t block = 0; block < w->n_leaves; block++)
        fill_leaf(w, block);
    for (uint32_t k = w->n_leaves - 1; k > 0; k--)
        fill_box(w, k);
    swi_pressure_fill(&w->pressure, w->load, w->n_sections);
    memset(w->offset, 0xff, w->n * sizeof *w->offset); /* none has one */
    w->floor[0] = 0;
    w->next[0] = w->n_sections;
    w->prev[0] = NONE;
    w->heap[0] = w->heap_at[0] = 0;
    w->n_niches = 1;
    for (uint32_t left = w->n; left > 0;) {
        const uint32_t niche = w->heap[0];
        const uint32_t buffer = choose(w, niche, first);
        if (buffer == NONE) {
            if (!lose(w, niche))
                return false;
            continue;
        }
        const bool low = put(w, niche, buffer);
        left--;
        w->nodes++;
        if (!low || enough(w))
            return false;
    }
    return true;
}

/* ---- weights and ranks
 * ----------------------------------------------------------------------- */

/* The settings of a run: the power of the load that weighs a moment (as a power of two), that
 * of the lifetime in the rank and whether the size is in it, whether moments of pressure are
 * covered. */
typedef struct {
    int doublings, power;
    bool bytes;
    choice first;
} style;

/* Found on the traces of placement-large and random problems: each is the best somewhere. */
static const style styles[] = {
    {1, 1, false, ANY},    {3, 1, false, PRESSED}, {5, 1, false, PRESSED},
    {5, 1, false, CORNER}, {3, 2, true, PRESSED},  {5, 1, false, ANY},
};

enum { N_STYLES = sizeof styles / sizeof *styles };

static void rank(work *w, const style *how)
{
    w->sum[0] = 0;
    for (uint32_t s = 0; s < w->n_sections; s++)
        w->sum[s + 1] = w->sum[s] + (double)w->weight[s];
    for (uint32_t i = 0; i < w->n; i++) {
        const double life = w->sum[w->hi[i]] - w->sum[w->lo[i]];
        w->key[i] =
            life * (how->power == 2 ? life : 1) * (how->bytes ? (double)w->items[i].bytes : 1);
    }
    memcpy(w->by_rank, w->by_bytes, w->n * sizeof *w->by_rank);
    sw_order_by_keys(w->by_rank, w->temp, w->key, w->n, asked_to_stop, w);
}

/* ---- all runs ---------------------------------------------------------------------------- */

/* The styles in turn, then the best of them again and again with learnt weights. */
static int try_all(work *w, size_t peak, size_t target)
{
    style how = styles[0];
    int n_runs = 0;
    uint32_t last_from = NONE, last_to = NONE;
    float grow = 1.3f;
    do {
        const style *now = n_runs < N_STYLES ? &styles[n_runs] : &how;
        if (n_runs < N_STYLES) {
            for (uint32_t s = 0; s < w->n_sections; s++) {
                double x = (double)w->load[s] / (double)peak;
                for (int d = 0; d < now->doublings; d++)
                    x *= x;
                w->weight[s] =
                    x > 1e-6 ? (float)x : 1e-6f; /* never nothing: lifetimes still count */
            }
        } else if (n_runs == N_STYLES)
            memcpy(w->weight, w->best_weight, w->n_sections * sizeof *w->weight);
        rank(w, now);
        if (w->stopped)
            break;
        n_runs++;
        if (run(w, now->first)) {
            SW_ASSERT(w->pressure.node[1] < w->limit);
            w->limit = w->pressure.node[1];
            memcpy(w->best, w->offset, w->n * sizeof *w->best);
            memcpy(w->best_weight, w->weight, w->n_sections * sizeof *w->weight);
            how = *now;
        } else if (n_runs > N_STYLES) {
            /* More weight where the last run failed: by 1.3, squared each time that it is the
             * same place. */
            const bool same = w->lost_from == last_from && w->lost_to == last_to;
            grow = same && grow < 1e3f ? grow * grow : 1.3f;
            for (uint32_t s = w->lost_from; s < w->lost_to; s++)
                if (w->weight[s] < 1e12f)
                    w->weight[s] *= grow;
            last_from = w->lost_from;
            last_to = w->lost_to;
        }
    } while (w->limit > target && !enough(w));
    return n_runs;
}

/* ---- memory and the call ----------------------------------------------------------------- */

static uint32_t power_of_two(uint32_t at_least)
{
    uint32_t p = 1;
    while (p < at_least)
        p *= 2;
    return p;
}

/* The next `count` elements of `each` bytes of the block at base, in 16-byte steps; with base
 * NULL it only counts. */
static void *cut(char *base, size_t *used, size_t count, size_t each)
{
    const size_t at = sw_size_part(used, count * each);
    return base == NULL ? NULL : base + at;
}

static size_t cut_buffers(work *w, char *base)
{
    const size_t n = w->n;
    size_t used = 0;
    w->n_leaves = power_of_two((w->n - 1) / LEAF + 1);
    w->offset = cut(base, &used, n, sizeof *w->offset);
    w->best = cut(base, &used, n, sizeof *w->best);
    w->spare = cut(base, &used, n, sizeof *w->spare);
    w->key = (double *)(void *)w->spare;
    w->lo = cut(base, &used, n, sizeof *w->lo);
    w->hi = cut(base, &used, n, sizeof *w->hi);
    w->by_bytes = cut(base, &used, n, sizeof *w->by_bytes);
    w->by_rank = cut(base, &used, n, sizeof *w->by_rank);
    w->temp = cut(base, &used, n, sizeof *w->temp);
    w->place_of = cut(base, &used, n, sizeof *w->place_of);
    w->points = cut(base, &used, n, sizeof *w->points);
    w->boxes = cut(base, &used, 2 * (size_t)w->n_leaves, sizeof *w->boxes);
    return used;
}

static size_t cut_sections(work *w, char *base)
{
    const size_t n = w->n_sections;
    size_t used = 0;
    w->pressure.width = power_of_two(w->n_sections);
    w->floor = cut(base, &used, n, sizeof *w->floor);
    w->next = cut(base, &used, n, sizeof *w->next);
    w->prev = cut(base, &used, n, sizeof *w->prev);
    w->heap = cut(base, &used, n, sizeof *w->heap);
    w->heap_at = cut(base, &used, n, sizeof *w->heap_at);
    w->load = cut(base, &used, n, sizeof *w->load);
    w->sum = cut(base, &used, n + 1, sizeof *w->sum);
    w->weight = cut(base, &used, n, sizeof *w->weight);
    w->best_weight = cut(base, &used, n, sizeof *w->best_weight);
    w->pressure.node = cut(base, &used, 2 * (size_t)w->pressure.width, sizeof(size_t));
    return used;
}

/* The buffers' block is there; take that of the sections, solve, and write the result. */
static sw_status solve(work *w, sw_placement_item *items, size_t lower_bound,
                       sw_placement_result *out)
{
    void *block;
    find_sections(w);
    const size_t bytes = cut_sections(w, NULL);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    cut_sections(w, block);
    const size_t peak = find_loads(w);
    /* Points in Z order: 26 bits of each coordinate stay exact in a double, and more would only
     * change how near neighbours lie. */
    int drop = 0;
    while (w->n_sections >> drop >= 1u << 26)
        drop++;
    for (uint32_t i = 0; i < w->n; i++)
        w->key[i] = (double)(spread(w->lo[i] >> drop) << 1 | spread((w->hi[i] - 1) >> drop));
    sw_order_numbers(w->by_rank, w->n);
    sw_order_by_keys(w->by_rank, w->temp, w->key, w->n, asked_to_stop, w);
    for (uint32_t k = 0; k < w->n; k++) {
        const uint32_t i = w->by_rank[k];
        w->points[k] = (point){w->lo[i], w->hi[i], 0};
        w->place_of[i] = k;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        w->key[i] = (double)w->items[i].bytes;
        w->by_bytes[i] = w->n - 1 - i; /* of equal ones the first is the higher */
    }
    sw_order_by_keys(w->by_bytes, w->temp, w->key, w->n, asked_to_stop, w);
    const size_t bound = lower_bound > peak ? lower_bound : peak;
    const size_t capacity = w->opts != NULL ? w->opts->capacity : 0;
    sw_placement_result result = {.lower_bound = peak, .proved = bound, .method = "niches"};
    if (!asked_to_stop(w))
        result.n_orders = try_all(w, peak, capacity > bound ? capacity : bound);
    if (w->limit == SIZE_MAX) {
        /* Buffers that have no place yet go on top of the rest, quickly. */
        const swi_sweep sweep =
            SW_INIT(.items = w->items, .lo = w->lo, .hi = w->hi, .n = w->n,
                    .n_sections = w->n_sections, .first_birth = w->heap,
                    .first_death = w->heap_at, .next_birth = w->by_rank,
                    .next_death = w->by_bytes, .next_free = w->temp, .block = w->spare);
        if (result.n_orders == 0) /* the run did not begin */
            memset(w->offset, 0xff, w->n * sizeof *w->offset);
        w->limit = swi_placement_sweep(&sweep, w->offset);
        memcpy(w->best, w->offset, w->n * sizeof *w->best);
        result.method = result.n_orders > 0 ? "niches and a sweep" : "a sweep";
        result.hurried = true;
    }
    result.height = w->limit;
    result.nodes = w->nodes;
    result.end = sw_placement_end_of(&result, capacity);
    for (uint32_t i = 0; i < w->n; i++) {
        SW_ASSERT(w->best[i] <= w->limit - items[i].bytes);
        items[i].offset = w->best[i];
    }
    *out = result;
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return SW_OK;
}

sw_status sw_placement_large(sw_placement_item *items, size_t n, size_t lower_bound,
                             const sw_placement_opts *opts, sw_placement_result *out)
{
    if (n == 0) {
        *out = (sw_placement_result){.method = "niches", .end = SW_PLACEMENT_OPTIMAL};
        return SW_OK;
    }
    work w = {.items = items, .n = (uint32_t)n, .limit = SIZE_MAX, .opts = opts};
    /* Placements that are worth their time: twenty runs of up to thirty thousand buffers (more
     * gain little), then as many as take a second or so, and at least three runs. */
    const uint64_t small = 20 * n, large = 3 * n, middle = 600000;
    w.max_nodes = opts != NULL && opts->nodes > 0 ? opts->nodes
                  : small < middle                ? small
                  : large > middle                ? large
                                                  : middle;
    const size_t bytes = cut_buffers(&w, NULL);
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    cut_buffers(&w, block);
    const sw_status status = solve(&w, items, lower_bound, out);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}
