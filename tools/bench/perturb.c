/* See perturb.h. */
#include "tools/bench/perturb.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "tools/bench/problems.h"
#include <string.h>

enum { TIME, SPACE };

#define STEPS 4 /* new places between two old times, and parts of the sizes' common divisor */

typedef struct {
    uint64_t from[2], to[2]; /* in time and in space, in steps */
} piece;

/* One side of a border, as the pieces see it. */
enum { ELSEWHERE, BEFORE, BEHIND };

typedef struct {
    piece pieces[PERTURB_MOST];
    size_t n;
    uint64_t roof, grain, dice; /* grain: bytes of one step */
    unsigned char side[PERTURB_MOST];
    size_t reached[PERTURB_MOST];
} picture;

static bool meet(const piece *a, const piece *b, int axis)
{
    return a->from[axis] < b->to[axis] && b->from[axis] < a->to[axis];
}

static uint64_t extent(const piece *p, int axis)
{
    return p->to[axis] - p->from[axis];
}

/* Whether piece i is under the roof and apart from all others. */
static bool is_free(const picture *p, size_t i)
{
    if (p->pieces[i].to[SPACE] > p->roof)
        return false;
    for (size_t j = 0; j < p->n; j++)
        if (j != i && meet(&p->pieces[i], &p->pieces[j], TIME) &&
            meet(&p->pieces[i], &p->pieces[j], SPACE))
            return false;
    return true;
}

/* ---- borders move ------------------------------------------------------------------------ */

/* All pieces that end at `at` or begin there and are connected to piece i. Returns how many. */
static size_t find_border(picture *p, size_t i, int axis, uint64_t at)
{
    size_t n = 1;
    memset(p->side, ELSEWHERE, p->n);
    p->side[i] = BEFORE;
    p->reached[0] = i;
    for (size_t k = 0; k < n; k++) {
        const piece *mine = &p->pieces[p->reached[k]];
        const bool before = p->side[p->reached[k]] == BEFORE;
        for (size_t j = 0; j < p->n; j++) {
            const piece *other = &p->pieces[j];
            const uint64_t edge = before ? other->from[axis] : other->to[axis];
            if (p->side[j] != ELSEWHERE || edge != at || !meet(mine, other, 1 - axis))
                continue;
            p->side[j] = before ? BEHIND : BEFORE;
            p->reached[n++] = j;
        }
    }
    return n;
}

/* How far the border may move so that no piece that gives way vanishes. */
static uint64_t room_of(const picture *p, size_t n, int axis, bool up)
{
    uint64_t room = UINT64_MAX;
    for (size_t k = 0; k < n; k++) {
        const piece *one = &p->pieces[p->reached[k]];
        const bool gives_way = (p->side[p->reached[k]] == BEHIND) == up;
        if (gives_way && extent(one, axis) - 1 < room)
            room = extent(one, axis) - 1;
    }
    return room;
}

static void move_border(picture *p, size_t n, int axis, uint64_t by, bool up)
{
    for (size_t k = 0; k < n; k++) {
        piece *one = &p->pieces[p->reached[k]];
        uint64_t *edge = p->side[p->reached[k]] == BEFORE ? &one->to[axis] : &one->from[axis];
        *edge = up ? *edge + by : *edge - by;
    }
}

/* Move the border at the end of any piece; it stays where the pieces would overlap. */
static void shift(picture *p, int axis)
{
    const size_t i = problem_dice(&p->dice, p->n);
    const bool up = problem_dice(&p->dice, 2) == 0;
    const uint64_t at = p->pieces[i].to[axis];
    const size_t n = find_border(p, i, axis, at);
    uint64_t room = room_of(p, n, axis, up);
    if (room == 0)
        return;
    if (room == UINT64_MAX) /* nothing gives way: into what is free */
        room = extent(&p->pieces[i], axis);
    if (problem_dice(&p->dice, 2) == 0) /* a little way as often as any */
        room = room / 8 + 1;
    const uint64_t by = 1 + problem_dice(&p->dice, room);
    move_border(p, n, axis, by, up);
    for (size_t k = 0; k < n; k++)
        if (!is_free(p, p->reached[k])) {
            move_border(p, n, axis, by, !up);
            return;
        }
}

/* ---- pieces become more or fewer --------------------------------------------------------- */

static void split(picture *p, int axis)
{
    piece *one = &p->pieces[problem_dice(&p->dice, p->n)];
    if (p->n == PERTURB_MOST || extent(one, axis) < 2)
        return;
    piece *other = &p->pieces[p->n++];
    *other = *one;
    other->from[axis] = one->from[axis] + 1 + problem_dice(&p->dice, extent(one, axis) - 1);
    one->to[axis] = other->from[axis];
}

/* Pieces i and j become one if they touch, as long as both together: false where that would
 * overlap with others. */
static bool merge_at(picture *p, size_t i, size_t j, int axis)
{
    const piece a = p->pieces[i], b = p->pieces[j];
    const int across = 1 - axis;
    if (a.to[axis] != b.from[axis] || !meet(&a, &b, across))
        return false;
    piece *one = &p->pieces[i];
    one->to[axis] = b.to[axis];
    one->from[across] = a.from[across] < b.from[across] ? a.from[across] : b.from[across];
    one->to[across] = a.to[across] > b.to[across] ? a.to[across] : b.to[across];
    const piece last = p->pieces[--p->n];
    p->pieces[j] = last; /* neither i nor j is the last */
    if (is_free(p, i))
        return true;
    p->pieces[p->n++] = last;
    p->pieces[j] = b;
    *one = a;
    return false;
}

static void merge(picture *p, int axis)
{
    const size_t i = problem_dice(&p->dice, p->n);
    for (size_t j = 0; j < p->n && p->n > 1; j++)
        if (j != i && j != p->n - 1 && i != p->n - 1 && merge_at(p, i, j, axis))
            return;
}

static void change(picture *p, perturb_kind kind)
{
    const size_t n = p->n, strength = 1 + problem_dice(&p->dice, n);
    for (size_t k = 0; k < strength; k++) {
        const int axis = problem_dice(&p->dice, 2) == 0 ? TIME : SPACE;
        const perturb_kind now =
            kind < PERTURB_MIXED ? kind : (perturb_kind)problem_dice(&p->dice, 4);
        if (now == PERTURB_SPLIT)
            split(p, axis);
        if (now == PERTURB_MERGED)
            merge(p, axis);
        if (now != PERTURB_SPLIT)
            shift(p, now == PERTURB_SIZES ? SPACE : now == PERTURB_LIFETIMES ? TIME : axis);
    }
}

/* ---- from problems and back -------------------------------------------------------------- */

static size_t grain_of(const place_csv *csv)
{
    size_t all = 0;
    for (size_t i = 0; i < csv->n; i++) {
        all = sw_size_gcd(all, csv->items[i].bytes);
        all = sw_size_gcd(all, csv->items[i].offset);
    }
    return all % STEPS == 0 ? all / STEPS : 1;
}

/* Add the buffers of a problem, their times times `stretch`. Returns the first of them. */
static size_t take_in(picture *p, const place_csv *csv, uint64_t above)
{
    const size_t first = p->n;
    for (size_t i = 0; i < csv->n && p->n < PERTURB_MOST; i++) {
        const sw_placement_item *item = &csv->items[i];
        const uint64_t offset = item->offset / p->grain + above;
        p->pieces[p->n++] =
            (piece){{STEPS * (uint64_t)item->lower, offset},
                    {STEPS * (uint64_t)item->upper, offset + item->bytes / p->grain}};
    }
    return first;
}

static uint64_t last_time(const picture *p, size_t from, size_t to)
{
    uint64_t last = 1;
    for (size_t i = from; i < to; i++)
        last = p->pieces[i].to[TIME] > last ? p->pieces[i].to[TIME] : last;
    return last;
}

/* The pieces from `first` on go after the others in time, as early as they can. */
static void join(picture *p, size_t first)
{
    const uint64_t end = last_time(p, 0, first);
    uint64_t early = end;
    for (size_t i = 0; i < first; i++)
        for (size_t j = first; j < p->n; j++) {
            const uint64_t gap = end - p->pieces[i].to[TIME] + p->pieces[j].from[TIME];
            if (meet(&p->pieces[i], &p->pieces[j], SPACE) && gap < early)
                early = gap;
        }
    for (size_t j = first; j < p->n; j++) {
        p->pieces[j].from[TIME] += end - early;
        p->pieces[j].to[TIME] += end - early;
    }
}

/* The pieces from `first` on last as long in all as the others. */
static void stretch(picture *p, size_t first)
{
    const uint64_t end = last_time(p, 0, first), own = last_time(p, first, p->n);
    for (size_t i = 0; i < p->n; i++) {
        const uint64_t by = i < first ? own : end;
        p->pieces[i].from[TIME] *= by;
        p->pieces[i].to[TIME] *= by;
    }
}

static void put_out(picture *p, place_csv *to)
{
    for (size_t i = 0; i < p->n; i++) {
        const piece *one = &p->pieces[i];
        to->items[i] = (sw_placement_item){.bytes = extent(one, SPACE) * p->grain,
                                           .offset = one->from[SPACE] * p->grain};
        to->times[2 * i] = one->from[TIME];
        to->times[2 * i + 1] = one->to[TIME];
    }
    to->n = p->n;
}

static void perturb(picture *p, const place_csv *a, size_t roof_a, const place_csv *b,
                    size_t roof_b, perturb_kind kind)
{
    p->roof = (kind == PERTURB_STACKED || roof_a > roof_b ? roof_a : roof_b) / p->grain;
    (void)take_in(p, a, 0);
    if (kind == PERTURB_JOINED)
        join(p, take_in(p, b, 0));
    if (kind == PERTURB_STACKED) {
        stretch(p, take_in(p, b, roof_a / p->grain));
        p->roof = (roof_a / p->grain) + (roof_b / p->grain);
    }
    change(p, kind);
}

sw_status perturb_make(place_csv *to, size_t *roof, const place_csv *a, size_t roof_a,
                       const place_csv *b, size_t roof_b, perturb_kind kind, uint64_t seed)
{
    void *block;
    const bool both = kind == PERTURB_JOINED || kind == PERTURB_STACKED;
    if (a->n + (both ? b->n : 0) > PERTURB_MOST)
        SW_FAIL(SW_INVALID, "a problem of the bench has at most %d buffers (got %zu)",
                PERTURB_MOST, a->n + (both ? b->n : 0));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, sizeof(picture)));
    picture *p = block;
    *p = (picture){.grain = sw_size_gcd(grain_of(a), both ? grain_of(b) : 0), .dice = seed};
    perturb(p, a, roof_a, b, both ? roof_b : roof_a, kind);
    put_out(p, to);
    *roof = p->roof * p->grain;
    seed = p->dice;
    sw_heap_free(block, SW_HEAP_FILES, sizeof(picture));
    SW_TRY(place_csv_rank(to));
    problem_shuffle(to, seed);
    return SW_OK;
}

const char *perturb_name(perturb_kind kind)
{
    static const char *const names[PERTURB_KINDS] = {"sizes", "lifetimes", "split",  "merged",
                                                     "mixed", "joined",    "stacked"};
    return names[kind];
}
