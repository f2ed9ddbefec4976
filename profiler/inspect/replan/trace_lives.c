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
    if (l->n_arenas == 4096)
        SW_FAIL(SW_UNSUPPORTED, "more than 4,096 streams and pools");
    SW_TRY(sw_heap_reserve(&l->arenas, SW_HEAP_PROFILE, &l->cap_arenas, l->n_arenas + 1,
                           sizeof *l->arenas));
    l->arenas[l->n_arenas++] = (trace_arena){.stream = stream, .pool = pool};
    return SW_OK;
}

sw_status trace_lives_add(trace_lives *l, uint64_t stream, uint64_t pool, trace_life life)
{
    SW_TRY(arena_of(l, stream, pool, &life.arena));
    SW_TRY(sw_heap_reserve(&l->all, SW_HEAP_PROFILE, &l->cap, l->n + 1, sizeof *l->all));
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
    const uint32_t below = trace_below(segments, n, sizeof *segments, address);
    const trace_segment *s = below > 0 ? &segments[below - 1] : NULL;
    return s != NULL && address - s->address < s->bytes ? s : NULL;
}

static sw_status take_before(trace_lives *l, number_map *living, const trace_start *start)
{
    for (uint32_t i = 0; i < start->n_blocks; i++) {
        const trace_block *b = &start->blocks[i];
        const trace_segment *in = segment_of(start->segments, start->n_segments, b->address);
        if (b->requested > 0)
            SW_TRY(add_life(l, living, in != NULL ? in->stream : 0, in != NULL ? in->pool : 0,
                            (trace_life){.bytes = b->requested,
                                         .address = b->address,
                                         .stack = b->stack,
                                         .note = b->note,
                                         .role = b->role}));
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
    return add_life(l, living, e->stream, e->pool == TRACE_NO_POOL ? 0 : e->pool,
                    (trace_life){.bytes = e->bytes,
                                 .address = e->address,
                                 .born = i + 1,
                                 .stack = e->stack,
                                 .note = e->note,
                                 .role = e->role});
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

sw_status trace_lives_curve(const trace_lives *l, uint64_t **out)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_PROFILE, (l->n_positions + 1) * sizeof **out));
    for (uint32_t i = 0; i < l->n; i++) {
        (*out)[l->all[i].born] += l->all[i].bytes;
        (*out)[l->all[i].dead] -= l->all[i].bytes;
    }
    for (uint32_t i = 1; i <= l->n_positions; i++)
        (*out)[i] += (*out)[i - 1];
    return SW_OK;
}

void trace_lives_curve_free(const trace_lives *l, uint64_t *curve)
{
    sw_heap_free(curve, SW_HEAP_PROFILE, (l->n_positions + 1) * sizeof *curve);
}

/* ---- bounds ------------------------------------------------------------------------------ */

/* The part of a life that is meant; false: none is. */
static bool chosen(const trace_life *x, const lives_choice *of, uint32_t *from, uint32_t *to)
{
    *from = x->born > of->from ? x->born : of->from;
    *to = x->dead < of->to ? x->dead : of->to;
    return *from < *to && (x->stack != of->left_out || strcmp(x->role, of->left_role) != 0);
}

/* By arena the first one that shares its room: itself, or with merged streams that of its pool.
 */
static void find_leaders(const trace_lives *l, const lives_choice *of, uint32_t *lead)
{
    for (uint32_t a = 0; a < l->n_arenas; a++) {
        lead[a] = a;
        for (uint32_t b = 0; of->merged && b < lead[a]; b++)
            if (l->arenas[b].pool == l->arenas[a].pool)
                lead[a] = b;
    }
}

/* One sweep over the positions, for all arenas. */
typedef struct {
    uint64_t *live, *most; /* by leading arena */
    uint32_t *lead;
    uint32_t *head, *next; /* who dies at a position: lives plus one, and the next of them */
} sweep;

static uint32_t find_deaths(const trace_lives *l, const lives_choice *of, sweep *s)
{
    uint32_t n = 0, from, to;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!chosen(&l->all[i], of, &from, &to))
            continue;
        n++;
        if (to == of->to)
            continue;
        s->next[i] = s->head[to - of->from];
        s->head[to - of->from] = i + 1;
    }
    return n;
}

/* The chosen lives are in order of birth. */
static void find_most(const trace_lives *l, const lives_choice *of, sweep *s, lives_height *out)
{
    uint64_t total = 0;
    uint32_t next = 0, from, to;
    for (uint32_t p = of->from; p < of->to; p++) {
        for (uint32_t i = s->head[p - of->from]; i > 0; i = s->next[i - 1]) {
            s->live[s->lead[l->all[i - 1].arena]] -= l->all[i - 1].bytes;
            total -= l->all[i - 1].bytes;
        }
        for (; next < l->n; next++) {
            const trace_life *x = &l->all[next];
            const uint32_t a = s->lead[x->arena];
            if (!chosen(x, of, &from, &to))
                continue;
            if (from > p)
                break;
            s->live[a] += x->bytes;
            s->most[a] = s->live[a] > s->most[a] ? s->live[a] : s->most[a];
            total += x->bytes;
        }
        if (total > out->most) {
            out->most = total;
            out->position = p;
        }
    }
}

/* most_of: of each arena, where it leads; NULL: not written. */
static sw_status find_bound(const trace_lives *l, const lives_choice *of, lives_height *out,
                            uint64_t *most_of)
{
    sweep s;
    const size_t arenas = l->n_arenas, positions = of->to - of->from;
    const size_t bytes = arenas * (2 * sizeof(uint64_t) + sizeof(uint32_t)) +
                         (positions + l->n) * sizeof(uint32_t);
    *out = (lives_height){.position = of->from};
    if (bytes == 0)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&s.live, SW_HEAP_PROFILE, bytes));
    s.most = s.live + arenas;
    s.lead = (uint32_t *)(s.most + arenas);
    s.head = s.lead + arenas;
    s.next = s.head + positions;
    find_leaders(l, of, s.lead);
    out->n = find_deaths(l, of, &s);
    find_most(l, of, &s, out);
    for (uint32_t a = 0; a < l->n_arenas; a++) {
        out->bound += s.most[a];
        if (most_of != NULL)
            most_of[a] = s.most[a];
    }
    sw_heap_free(s.live, SW_HEAP_PROFILE, bytes);
    return SW_OK;
}

sw_status trace_lives_bound(const trace_lives *l, const lives_choice *of, lives_height *out)
{
    return find_bound(l, of, out, NULL);
}

/* ---- plans ------------------------------------------------------------------------------- */

typedef struct {
    sw_placement_item *items; /* arena by arena */
    uint64_t *most;           /* by arena: its bound */
    uint32_t *whose;          /* lives */
    uint32_t *lead, *end;     /* by arena; after its items */
} arena_items;

static void fill(trace_lives *l, const lives_choice *of, arena_items *a)
{
    uint32_t from, to, n = 0;
    find_leaders(l, of, a->lead);
    for (uint32_t i = 0; i < l->n; i++)
        if (chosen(&l->all[i], of, &from, &to))
            a->end[a->lead[l->all[i].arena]]++;
    for (uint32_t k = 0; k < l->n_arenas; k++) {
        n += a->end[k];
        a->end[k] = n - a->end[k]; /* where they begin */
    }
    for (uint32_t i = 0; i < l->n; i++) {
        if (!chosen(&l->all[i], of, &from, &to))
            continue;
        const uint32_t at = a->end[a->lead[l->all[i].arena]]++;
        a->items[at] = (sw_placement_item){
            .lower = from, .upper = to, .bytes = l->all[i].bytes, .align = l->align};
        a->whose[at] = i;
    }
}

/* A plan that is as low as a reader can tell from the bound is low enough: what comes below it
 * takes most of the time. */
static sw_status place_arenas(trace_lives *l, const arena_items *a, sw_placement_opts opts,
                              lives_height *out)
{
    uint32_t from = 0;
    for (uint32_t arena = 0; arena < l->n_arenas; arena++) {
        sw_placement_result r = {0};
        const uint32_t to = a->end[arena];
        l->arenas[arena].height = 0;
        const uint64_t near = a->most[arena] / 4096;
        opts.capacity = near < l->align ? 0 : a->most[arena] + near;
        if (from < to)
            SW_TRY(sw_placement_solve(a->items + from, to - from, &opts, &r));
        l->arenas[arena].height = r.height;
        out->height += r.height;
        out->proved += r.proved;
        from = to;
    }
    for (uint32_t i = 0; i < from; i++)
        l->all[a->whose[i]].offset = a->items[i].offset;
    return SW_OK;
}

sw_status trace_lives_place(trace_lives *l, const lives_choice *of, bool (*stop)(void *context),
                            void *context, lives_height *out)
{
    arena_items a;
    const sw_placement_opts opts = {.stop = stop, .context = context};
    const size_t arenas = l->n_arenas;
    const size_t n = arenas * sizeof(uint64_t) + (l->n + 2 * arenas) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&a.items, SW_HEAP_PROFILE, l->n * sizeof *a.items));
    sw_status status = sw_heap_alloc(&a.most, SW_HEAP_PROFILE, n);
    if (status == SW_OK) {
        a.whose = (uint32_t *)(a.most + arenas);
        a.lead = a.whose + l->n;
        a.end = a.lead + arenas;
        status = find_bound(l, of, out, a.most);
        if (status == SW_OK) {
            fill(l, of, &a);
            status = place_arenas(l, &a, opts, out);
        }
        sw_heap_free(a.most, SW_HEAP_PROFILE, n);
    }
    sw_heap_free(a.items, SW_HEAP_PROFILE, l->n * sizeof *a.items);
    return status;
}
