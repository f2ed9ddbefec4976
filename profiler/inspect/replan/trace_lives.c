/* Lives, curves and plans. */
#include "profiler/inspect/replan/trace_lives.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/replan/number_map.h"
#include <string.h>

#define DEVICE_ALIGN 512 /* what PyTorch's blocks have */
#define HOST_ALIGN 64

/* ---- lives ------------------------------------------------------------------------------- */

static sw_status arena_of(trace_lives *l, uint64_t stream, uint64_t pool, uint32_t *out)
{
    for (*out = 0; *out < l->n_arenas; ++*out)
        if (l->arenas[*out].stream == stream && l->arenas[*out].pool == pool)
            return SW_OK;
    void *arenas = l->arenas;
    if (l->n_arenas == 4096)
        SW_FAIL(SW_UNSUPPORTED, "more than 4,096 streams and pools");
    SW_TRY(sw_heap_reserve(&arenas, SW_HEAP_PROFILE, &l->cap_arenas, l->n_arenas + 1,
                           sizeof *l->arenas));
    l->arenas = arenas;
    l->arenas[l->n_arenas++] = (trace_arena){.stream = stream, .pool = pool};
    return SW_OK;
}

sw_status trace_lives_add(trace_lives *l, uint64_t stream, uint64_t pool, trace_life life)
{
    void *all = l->all;
    SW_TRY(arena_of(l, stream, pool, &life.arena));
    SW_TRY(sw_heap_reserve(&all, SW_HEAP_PROFILE, &l->cap, l->n + 1, sizeof *l->all));
    l->all = all;
    life.step_offset = UINT64_MAX;
    l->n_positions = life.dead > l->n_positions ? life.dead : l->n_positions;
    l->all[l->n++] = life;
    return SW_OK;
}

/* Until it is freed it lives to the end. */
static sw_status add_life(trace_lives *l, number_map *living, uint64_t stream, uint64_t pool,
                          trace_life life)
{
    life.dead = l->n_positions;
    SW_TRY(trace_lives_add(l, stream, pool, life));
    return number_map_set(living, life.address, l->n - 1);
}

static const trace_segment *segment_of(const trace_segment *segments, uint32_t n,
                                       uint64_t address)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (segments[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const trace_segment *s = low > 0 ? &segments[low - 1] : NULL;
    return s != NULL && address - s->address < s->bytes ? s : NULL;
}

static sw_status take_before(trace_lives *l, number_map *living, const trace_start *start)
{
    for (uint32_t i = 0; i < start->n_blocks; i++) {
        const trace_block *b = &start->blocks[i];
        const trace_segment *in = segment_of(start->segments, start->n_segments, b->address);
        if (b->requested > 0)
            SW_TRY(add_life(
                l, living, in != NULL ? in->stream : 0, in != NULL ? in->pool : 0,
                (trace_life){.bytes = b->requested, .address = b->address, .stack = b->stack}));
    }
    l->n_before = l->n;
    return SW_OK;
}

/* In a profile of a CPU the next event, for what is written in place. */
static bool comes_again(const snapshot_trace *t, uint32_t i)
{
    const trace_event *e = &t->events[i];
    return !t->cuda && i + 1 < t->n_events && e[1].action == TRACE_ALLOC &&
           e[1].address == e->address && e[1].bytes == e->bytes;
}

static sw_status take_event(trace_lives *l, number_map *living, const snapshot_trace *t,
                            uint32_t i)
{
    const trace_event *e = &t->events[i];
    const uint32_t at = number_map_at(living, e->address);
    if (e->action == TRACE_FREE_COMPLETED && at != NUMBER_MAP_NONE && !comes_again(t, i)) {
        l->all[at].dead = i + 1;
        return number_map_set(living, e->address, NUMBER_MAP_NONE);
    }
    const bool again = i > 0 && t->events[i - 1].action == TRACE_FREE_COMPLETED &&
                       at != NUMBER_MAP_NONE && comes_again(t, i - 1);
    if (e->action != TRACE_ALLOC || e->bytes == 0 || again)
        return SW_OK;
    if (at != NUMBER_MAP_NONE) /* its free was not recorded */
        l->all[at].dead = i + 1;
    return add_life(
        l, living, e->stream, e->pool == TRACE_NO_POOL ? 0 : e->pool,
        (trace_life){
            .bytes = e->bytes, .address = e->address, .born = i + 1, .stack = e->stack});
}

static sw_status find(trace_lives *l, const snapshot_trace *t, const trace_start *start,
                      number_map *living)
{
    SW_TRY(take_before(l, living, start));
    for (uint32_t i = 0; i < t->n_events; i++)
        SW_TRY(take_event(l, living, t, i));
    return SW_OK;
}

sw_status trace_lives_find(trace_lives *l, const snapshot_trace *t, const trace_start *start)
{
    number_map living = {0};
    *l = (trace_lives){.n_positions = t->n_events + 1,
                       .align = t->cuda ? DEVICE_ALIGN : HOST_ALIGN};
    const sw_status status = find(l, t, start, &living);
    number_map_free(&living);
    return status;
}

void trace_lives_free(trace_lives *l)
{
    sw_heap_free(l->all, SW_HEAP_PROFILE, l->cap * sizeof *l->all);
    sw_heap_free(l->arenas, SW_HEAP_PROFILE, l->cap_arenas * sizeof *l->arenas);
    *l = (trace_lives){0};
}

/* ---- bounds ------------------------------------------------------------------------------ */

/* The part of a life that is meant; false: none is. */
static bool chosen(const trace_life *x, const lives_choice *of, uint32_t *from, uint32_t *to)
{
    *from = x->born > of->from ? x->born : of->from;
    *to = x->dead < of->to ? x->dead : of->to;
    return *from < *to && (of->left_out == TRACE_NONE || x->stack != of->left_out);
}

/* Arena a, or with merged streams all of its pool. */
static bool is_in(const trace_lives *l, const lives_choice *of, uint32_t a, uint32_t arena)
{
    return of->merged ? l->arenas[a].pool == l->arenas[arena].pool : a == arena;
}

/* Merged arenas are those of the first one of each pool. */
static bool leads(const trace_lives *l, const lives_choice *of, uint32_t arena)
{
    for (uint32_t a = 0; of->merged && a < arena; a++)
        if (l->arenas[a].pool == l->arenas[arena].pool)
            return false;
    return true;
}

/* Bytes that begin to live at each position, less those that end. */
static uint32_t add_changes(const trace_lives *l, const lives_choice *of, uint32_t arena,
                            int64_t *changes)
{
    uint32_t n = 0, from, to;
    for (uint32_t i = 0; i < l->n; i++) {
        const trace_life *x = &l->all[i];
        if (arena != TRACE_NONE && !is_in(l, of, x->arena, arena))
            continue;
        if (!chosen(x, of, &from, &to))
            continue;
        changes[from - of->from] += (int64_t)x->bytes;
        changes[to - of->from] -= (int64_t)x->bytes;
        n++;
    }
    return n;
}

static uint64_t highest(const int64_t *changes, uint32_t n, uint32_t *at)
{
    int64_t live = 0, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        live += changes[i];
        if (live > most) {
            most = live;
            *at = i;
        }
    }
    return (uint64_t)most;
}

sw_status trace_lives_bound(const trace_lives *l, const lives_choice *of, lives_height *out)
{
    void *block;
    uint32_t ignored = 0;
    const uint32_t n = of->to - of->from;
    const size_t bytes = ((size_t)n + 1) * sizeof(int64_t);
    *out = (lives_height){.position = of->from};
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, bytes));
    int64_t *changes = block;
    out->n = add_changes(l, of, TRACE_NONE, changes);
    out->most = highest(changes, n, &ignored);
    out->position = of->from + ignored;
    for (uint32_t a = 0; a < l->n_arenas; a++) {
        if (!leads(l, of, a))
            continue;
        memset(changes, 0, bytes);
        (void)add_changes(l, of, a, changes);
        out->bound += highest(changes, n, &ignored);
    }
    sw_heap_free(block, SW_HEAP_PROFILE, bytes);
    return SW_OK;
}

/* ---- plans ------------------------------------------------------------------------------- */

typedef struct {
    sw_placement_item *items;
    uint32_t *whose; /* lives */
    uint32_t n;
} arena_items;

static void fill(trace_lives *l, const lives_choice *of, uint32_t arena, arena_items *a)
{
    a->n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const trace_life *x = &l->all[i];
        uint32_t from, to;
        if (!is_in(l, of, x->arena, arena) || !chosen(x, of, &from, &to))
            continue;
        a->items[a->n] = (sw_placement_item){
            .lower = from, .upper = to, .bytes = x->bytes, .align = l->align};
        a->whose[a->n++] = i;
    }
}

static sw_status place_arenas(trace_lives *l, const lives_choice *of, arena_items *a,
                              const sw_placement_opts *opts, lives_height *out)
{
    for (uint32_t arena = 0; arena < l->n_arenas; arena++) {
        sw_placement_result r = {0};
        l->arenas[arena].height = 0;
        if (!leads(l, of, arena))
            continue;
        fill(l, of, arena, a);
        if (a->n == 0)
            continue;
        SW_TRY(sw_placement_solve(a->items, a->n, opts, &r));
        for (uint32_t i = 0; i < a->n; i++)
            l->all[a->whose[i]].offset = a->items[i].offset;
        l->arenas[arena].height = r.height;
        out->height += r.height;
        out->proved += r.proved;
    }
    return SW_OK;
}

sw_status trace_lives_place(trace_lives *l, const lives_choice *of, bool (*stop)(void *context),
                            void *context, lives_height *out)
{
    void *items, *whose;
    const sw_placement_opts opts = {.stop = stop, .context = context};
    SW_TRY(trace_lives_bound(l, of, out));
    SW_TRY(sw_heap_alloc(&items, SW_HEAP_PROFILE, l->n * sizeof(sw_placement_item)));
    sw_status status = sw_heap_alloc(&whose, SW_HEAP_PROFILE, l->n * sizeof(uint32_t));
    if (status == SW_OK) {
        arena_items a = {items, whose, 0};
        status = place_arenas(l, of, &a, &opts, out);
        sw_heap_free(whose, SW_HEAP_PROFILE, l->n * sizeof(uint32_t));
    }
    sw_heap_free(items, SW_HEAP_PROFILE, l->n * sizeof(sw_placement_item));
    return status;
}
