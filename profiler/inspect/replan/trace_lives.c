/* The allocations of a trace with their lifetimes and roles, and how high arenas are that hold
 * them. */
#include "alloc/base/mem.h"
#include "profiler/inspect/numbers.h"
#include "profiler/inspect/replan/trace.h"
#include "profiler/inspect/snapshot.h"
#include <stdlib.h>
#include <string.h>

#define DEVICE_ALIGN 512 /* what PyTorch's blocks have */
#define HOST_ALIGN 64

/* ---- lives ------------------------------------------------------------------------------- */

sw_status trace_lives_add(trace_lives *l, uint64_t stream, uint64_t pool, trace_life life)
{
    for (life.arena = 0; life.arena < l->n_arenas; life.arena++)
        if (l->arenas[life.arena].stream == stream && l->arenas[life.arena].pool == pool)
            break;
    if (life.arena == 4096)
        SW_FAIL(SW_UNSUPPORTED, "more than 4,096 streams and pools");
    SW_TRY(sw_heap_reserve(&l->arenas, SW_HEAP_PROFILE, &l->cap_arenas, life.arena + 1,
                           sizeof *l->arenas));
    if (life.arena == l->n_arenas)
        l->arenas[l->n_arenas++] = (trace_arena){.stream = stream, .pool = pool};
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
                    (trace_life)SW_INIT(.bytes = e->bytes, .address = e->address, .born = i + 1,
                                        .stack = e->stack, .note = e->note, .role = e->role));
}

static sw_status find(trace_lives *l, const snapshot_trace *t, const trace_start *start,
                      number_map *living)
{
    for (uint32_t i = 0; i < start->n_blocks; i++) {
        const trace_block *b = &start->blocks[i];
        const uint32_t below = trace_below(start->segments, start->n_segments,
                                           sizeof *start->segments, b->address);
        const trace_segment none = {.address = 0}, *in = &none;
        if (below > 0 &&
            b->address - start->segments[below - 1].address < start->segments[below - 1].bytes)
            in = &start->segments[below - 1];
        if (b->requested > 0)
            SW_TRY(add_life(l, living, in->stream, in->pool,
                            (trace_life)SW_INIT(.bytes = b->requested, .address = b->address,
                                                .stack = b->stack, .note = b->note,
                                                .role = b->role)));
    }
    l->n_before = l->n;

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

/* By arena the first one that shares its room: itself, or with merged streams that of its
 * pool. */
static void find_leaders(const trace_lives *l, const lives_choice *of, uint32_t *lead)
{
    for (uint32_t a = 0; a < l->n_arenas; a++) {
        lead[a] = a;
        for (uint32_t b = 0; of->merged && b < lead[a]; b++)
            if (l->arenas[b].pool == l->arenas[a].pool)
                lead[a] = b;
    }
}

/* One sweep over the positions, for all arenas. most_of: of each arena, where it leads; NULL:
 * not written. */
static sw_status find_bound(const trace_lives *l, const lives_choice *of, lives_height *out,
                            uint64_t *most_of)
{
    struct {
        uint64_t *live, *most; /* by leading arena */
        uint32_t *lead;
        uint32_t *head,
            *next; /* who dies at a position: lives plus one, and the next of them */
    } s;
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
    uint64_t total = 0;
    uint32_t next = 0, from, to;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!chosen(&l->all[i], of, &from, &to))
            continue;
        out->n++;
        if (to == of->to)
            continue;
        s.next[i] = s.head[to - of->from];
        s.head[to - of->from] = i + 1;
    }
    /* The chosen lives are in order of birth. */
    for (uint32_t p = of->from; p < of->to; p++) {
        for (uint32_t i = s.head[p - of->from]; i > 0; i = s.next[i - 1]) {
            s.live[s.lead[l->all[i - 1].arena]] -= l->all[i - 1].bytes;
            total -= l->all[i - 1].bytes;
        }
        for (; next < l->n; next++) {
            const trace_life *x = &l->all[next];
            const uint32_t a = s.lead[x->arena];
            if (!chosen(x, of, &from, &to))
                continue;
            if (from > p)
                break;
            s.live[a] += x->bytes;
            s.most[a] = s.live[a] > s.most[a] ? s.live[a] : s.most[a];
            total += x->bytes;
        }
        if (total > out->most) {
            out->most = total;
            out->position = p;
        }
    }
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

#define CUBLAS_BYTES 8519680 /* of PyTorch's workspace for cuBLAS: 8 MiB and 128 KiB */

static const struct {
    const char *role, *text;
} rules[TRACE_RULES] = {
    [RULE_NONE] = {"unknown", "by no rule"},
    [RULE_FILE] = {NULL, "the file says it"},
    [RULE_PARAMETER] = {"parameter", "a model's making, or a gradient's size"},
    [RULE_STATE] = {"optimizer_state", "made by an optimizer, or a parameter's size"},
    [RULE_GRADIENT] = {"gradient", "made by backward, or a parameter's size"},
    [RULE_SAVED] = {"saved", "made in forward, freed in backward"},
    [RULE_TEMPORARY] = {"temporary", "freed in the phase that made it"},
    [RULE_WORKSPACE] = {"workspace", "made for cuBLAS or cuDNN"},
    [RULE_INPUT] = {"input", "moved, or made outside of modules"},
    [RULE_OUTPUT] = {"output", "made in forward, outlives backward"},
    [RULE_ACTIVATION] = {"activation", "made in forward, no backward came"},
    [RULE_WEIGHTS] = {"weights", "from before, no gradient's size"},
};

const char *trace_rule_text(trace_rule rule)
{
    return rules[rule].text;
}

typedef struct {
    trace_roles *r;
    const snapshot_trace *t;
    trace_lives *l;
    uint32_t end;      /* position: what is freed from there on lived to the end */
    bool empty, frees; /* who has no frames is autograd's thread; frees have some */
} search;

/* ---- phases ------------------------------------------------------------------------------ */

static int phase_of_event(const search *s, const trace_event *e)
{
    if (!trace_moves(e) || (e->action != TRACE_ALLOC && !s->frees))
        return -1;
    return e->stack > 0 ? s->t->stacks[e->stack].phase : s->empty ? 3 : -1;
}

/* Events before the first one that says its phase have that phase. */
static void find_phases(search *s)
{
    trace_roles *r = s->r;
    int now = -1;
    for (uint32_t i = 0; i < s->t->n_events && now < 0; i++)
        now = phase_of_event(s, &s->t->events[i]);
    for (uint32_t i = 0; i < r->n_positions; i++) {
        const int phase = i > 0 ? phase_of_event(s, &s->t->events[i - 1]) : -1;
        now = phase >= 0 ? phase : now;
        r->phase[i] = (int8_t)now;
        r->backward |= now == RUN_BACKWARD;
        s->r->kind[i] = now < 0 ? 0 : now < RUN_BACKWARD ? RUN_FORWARD : (uint8_t)now;
        r->region[i] = i > 0 ? r->region[i - 1] + (s->r->kind[i] != s->r->kind[i - 1]) : 0;
    }
    /* Where a request failed and nothing went on, frees after it are the exception's. */
    s->end = r->n_positions;
    for (uint32_t i = 0; i < s->t->n_events; i++)
        if (s->t->events[i].action == TRACE_OOM &&
            r->region[i + 1] == r->region[r->n_positions - 1])
            s->end = i + 1;
}

/* After each update that forward and backward came before; `ends`: 4 for updates, 3 for
 * passes. */
static sw_status cut_steps(search *s, uint8_t ends)
{
    uint32_t from = 0;
    bool forward = false, backward = false;
    for (uint32_t i = 0; i < s->r->n_positions; i++) {
        forward |= s->r->kind[i] == RUN_FORWARD;
        backward |= forward && s->r->kind[i] == RUN_BACKWARD;
        const bool last = i + 1 == s->r->n_positions || s->r->kind[i + 1] != s->r->kind[i];
        if (!last || s->r->kind[i] != ends)
            continue;
        if (backward) {
            SW_TRY(sw_heap_reserve(&s->r->steps, SW_HEAP_PROFILE, &s->r->cap_steps,
                                   s->r->n_steps + 1, sizeof *s->r->steps));
            s->r->steps[s->r->n_steps++] = (sw_tl_step){.from = from, .to = (i + 1)};
        }
        from = i + 1;
        forward = backward = false;
    }
    return SW_OK;
}

/* ---- what is made in the trace ----------------------------------------------------------- */

/* Of the event that ended it; 0: it lives on. */
static uint32_t facts_of_death(const search *s, const trace_life *x)
{
    return s->frees && x->dead < s->l->n_positions
               ? s->t->stacks[s->t->events[x->dead - 1].stack].facts
               : 0;
}

static trace_rule rule_of_made(const search *s, const trace_life *x)
{
    const uint32_t facts = s->t->stacks[x->stack].facts;
    const bool kept = x->dead == s->l->n_positions || (x->born < s->end && x->dead >= s->end);
    const uint8_t kind = s->r->kind[x->born];
    if ((facts & FRAMES_WORKSPACE) != 0 || (kept && x->bytes == CUBLAS_BYTES))
        return RULE_WORKSPACE;
    if (kind == 0 || (x->stack == 0 && !s->empty))
        return RULE_NONE;
    if (kind == RUN_FORWARD &&
        ((facts & FRAMES_MOVE) != 0 || (kept && (facts & FRAMES_INIT) != 0)))
        return RULE_PARAMETER;
    if (!kept && s->r->region[x->dead] == s->r->region[x->born])
        return RULE_TEMPORARY;
    if (kind != RUN_FORWARD)
        return kind == RUN_BACKWARD ? RULE_GRADIENT : RULE_STATE;
    /* Freed after the phase that made it, or never. */
    const int phase = s->r->phase[x->born];
    const bool moved = (facts & FRAMES_TRANSFER) != 0;
    if (!s->r->backward) /* nothing frees what is kept for a backward pass */
        return kept && moved ? RULE_INPUT : RULE_ACTIVATION;
    if (kept ? s->r->region[x->born] == s->r->region[s->r->n_positions - 1]
             : s->r->kind[x->dead] == RUN_BACKWARD)
        return RULE_SAVED;
    return phase != RUN_DATA && !moved && ((facts & FRAMES_MODULE) != 0 || phase == RUN_LOSS)
               ? RULE_OUTPUT
               : RULE_INPUT;
}

/* ---- what was there before --------------------------------------------------------------- */

/* Blocks at the end of a trace have the frames that made them, though it began later. */
static trace_rule said_before(const search *s, const trace_life *x)
{
    const trace_stack *by = &s->t->stacks[x->stack];
    return (by->facts & FRAMES_WORKSPACE) != 0              ? RULE_WORKSPACE
           : by->phase == RUN_UPDATE                        ? RULE_STATE
           : by->phase == RUN_BACKWARD                      ? RULE_GRADIENT
           : (by->facts & (FRAMES_MOVE | FRAMES_INIT)) != 0 ? RULE_PARAMETER
                                                            : RULE_NONE;
}

/* The most of one region. */
typedef struct {
    uint32_t most, now, region;
} counter;

/* Tensors of one size: of those from before the trace that are never freed, how many frames
 * show to be parameters, or something else, and how many they do not show; and what is made. */
typedef struct {
    uint32_t parameters, others, before;
    counter gradients, added, states; /* kept; added to gradients that are; of an optimizer */
    counter freed;                    /* by the backward pass that made them */
    bool inputs;
} size_class;

/* How many there are of parameters, gradients and states, in this order; the rest is none.
 * copies: where no gradient is seen to be kept, how many tensors there are for a parameter, its
 * gradient among them; 0: gradients are seen. */
typedef struct {
    uint32_t parameters, gradients, states;
} shares;

static uint32_t at_most(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static shares share_out(const size_class *c, uint32_t copies)
{
    const bool kept = copies > 0 && c->freed.most > 0;
    const uint32_t made = c->gradients.most > c->added.most ? c->gradients.most : c->added.most;
    const uint32_t each = made > 0              ? made
                          : c->states.most >= 2 ? c->states.most / 2
                          : kept ? (c->before + c->parameters + c->others) / copies
                                 : 0;
    const uint32_t most = !kept ? 3 : copies > 2 ? copies - 2 : 0;
    shares x = {at_most(each > c->parameters ? each - c->parameters : 0, c->before), 0, 0};
    x.gradients = kept && copies > 1 ? at_most(each, c->before - x.parameters) : 0;
    const uint32_t left = c->before - x.parameters - x.gradients;
    x.states = each > 0 ? at_most(left / each, most) * each : 0;
    return x;
}

/* An allocation freed in the trace is known by its end, one that lives on by its size. */
static trace_rule rule_of_before(const search *s, const trace_life *x, const size_class *c,
                                 shares *left)
{
    const uint32_t facts = facts_of_death(s, x);
    const trace_rule said = said_before(s, x);
    if (said != RULE_NONE)
        return said;
    if (x->bytes == CUBLAS_BYTES && x->dead == s->l->n_positions)
        return RULE_WORKSPACE;
    if ((facts & (FRAMES_ZERO_GRAD | FRAMES_ACCUMULATE)) != 0)
        return RULE_GRADIENT;
    if ((facts & FRAMES_MOVE) != 0)
        return RULE_PARAMETER;
    if (!s->r->known)
        return RULE_NONE;
    if (x->dead < s->l->n_positions)
        switch (s->r->kind[x->dead]) {
        case RUN_BACKWARD:
            return RULE_SAVED;
        case RUN_UPDATE: /* of an update that the trace begins in, or of those before it */
            return s->r->region[x->dead] == 0 ? RULE_TEMPORARY
                   : c->states.most > 0       ? RULE_STATE
                                              : RULE_GRADIENT;
        default:
            return !s->r->backward ? RULE_NONE : c->inputs ? RULE_INPUT : RULE_OUTPUT;
        }
    if (!s->r->backward)
        return RULE_PARAMETER;
    if (left->parameters > 0)
        return left->parameters--, RULE_PARAMETER;
    if (left->gradients > 0)
        return left->gradients--, RULE_GRADIENT;
    if (left->states > 0)
        return left->states--, RULE_STATE;
    return RULE_WEIGHTS;
}

typedef struct {
    uint64_t bytes;
    uint32_t life;
} sized;

static int by_size(const void *a, const void *b)
{
    const sized *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->life < y->life ? -1 : 1;
}

/* Those from `from` on that have its size; the first that does not. */
static uint32_t count_size(const search *s, const sized *of, uint32_t from, size_class *c)
{
    uint32_t i = from;
    *c = (size_class){0};
    for (; i < s->l->n && of[i].bytes == of[from].bytes; i++) {
        const trace_life *x = &s->l->all[of[i].life];
        const uint32_t region = s->r->region[x->born];
        const trace_rule said = said_before(s, x);
        c->inputs |= x->born > 0 && x->rule == RULE_INPUT;
        if (x->born == 0 && x->dead == s->l->n_positions)
            (*(said == RULE_NONE        ? &c->before
               : said == RULE_PARAMETER ? &c->parameters
                                        : &c->others))++;
        else if (x->born > 0 &&
                 (x->rule == RULE_STATE || s->r->kind[x->born] == RUN_BACKWARD)) {
            counter *to = x->rule == RULE_STATE                             ? &c->states
                          : x->rule == RULE_GRADIENT                        ? &c->gradients
                          : (facts_of_death(s, x) & FRAMES_ACCUMULATE) != 0 ? &c->added
                                                                            : &c->freed;
            to->now = to->region == region + 1 ? to->now + 1 : 1;
            to->region = region + 1;
            to->most = to->now > to->most ? to->now : to->most;
        }
    }
    return i;
}

/* The most common number, by bytes, of those sizes that backward makes one each of and
 * frees. */
static uint32_t find_copies(const search *s, const sized *of)
{
    uint64_t bytes[9] = {0};
    uint32_t best = 1;
    size_class c;
    for (uint32_t i = 0, from = 0; i < s->l->n; from = i) {
        i = count_size(s, of, from, &c);
        const uint32_t all = c.before + c.parameters + c.others;
        if (c.gradients.most + c.added.most > 0)
            return 0;
        if (c.freed.most > 0 && all % c.freed.most == 0 && all / c.freed.most <= 8)
            bytes[all / c.freed.most] += of[from].bytes * all;
    }
    for (uint32_t k = 1; k <= 8; k++)
        best = bytes[k] > bytes[best] ? k : best;
    return best;
}

/* ---- all of it --------------------------------------------------------------------------- */

static sw_status find_all_roles(search *s)
{
    sized *of;
    const uint32_t n = s->l->n;
    SW_TRY(sw_heap_alloc(&of, SW_HEAP_PROFILE, n * sizeof(sized)));
    /* Python's stacks are empty in autograd's thread, where others name backward or an
     * update; where frees have none at all, they say nothing. C++ would show a backward
     * pass. In a profile frees have the frames of who made it, and what is written in place
     * by no one has none. */
    bool native = false, training = false;
    for (uint32_t i = 0; i < s->t->n_events; i++) {
        const trace_event *e = &s->t->events[i];
        const trace_stack *by = &s->t->stacks[e->stack];
        native |= (by->facts & (FRAMES_NATIVE | FRAMES_ENGINE)) != 0;
        training |= by->phase >= 3;
        s->frees |= s->t->cuda && e->action == TRACE_FREE_COMPLETED && e->stack > 0;
    }
    s->empty = training && !native && s->t->cuda;
    s->r->known = training || native;
    find_phases(s);
    for (uint32_t i = 0; i < n; i++) {
        of[i] = (sized){s->l->all[i].bytes, i};
        if (s->l->all[i].born > 0)
            s->l->all[i].rule = (uint8_t)rule_of_made(s, &s->l->all[i]);
    }
    if (n > 0)
        qsort(of, n, sizeof *of, by_size);
    /* Tensors that forward made outside of modules and keeps, with two states each, are
     * trained. */
    const uint32_t copies = find_copies(s, of);
    size_class c;
    for (uint32_t m = 0, from = 0; m < s->l->n; from = m) {
        m = count_size(s, of, from, &c);
        shares left = share_out(&c, copies);
        for (uint32_t k = from, states = c.states.most; k < m; k++) {
            trace_life *x = &s->l->all[of[k].life];
            const bool kept = x->dead == s->l->n_positions;
            if (x->born == 0)
                x->rule = (uint8_t)rule_of_before(s, x, &c, &left);
            else if (x->rule == RULE_INPUT && kept && states >= 2) {
                x->rule = RULE_PARAMETER;
                states -= 2;
            }
        }
    }
    sw_heap_free(of, SW_HEAP_PROFILE, n * sizeof(sized));
    for (uint32_t i = 0; i < n; i++) {
        trace_life *x = &s->l->all[i];
        x->rule = x->role != NULL ? RULE_FILE : x->rule;
        x->role = x->role != NULL ? x->role : rules[x->rule].role;
    }
    SW_TRY(cut_steps(s, 4));
    if (s->r->n_steps == 0) {
        SW_TRY(cut_steps(s, 3));
        s->r->passes = s->r->n_steps > 0;
    }
    uint64_t *live;
    SW_TRY(trace_lives_curve(s->l, &live));
    for (uint32_t k = 0; k < s->r->n_steps; k++) {
        sw_tl_step *x = &s->r->steps[k];
        x->first = s->t->events[x->from > 0 ? x->from - 1 : 0].number;
        x->last = s->t->events[x->to - 2].number;
        for (uint32_t j = x->from; j < x->to; j++) {
            const int phase = s->r->phase[j];
            if (phase < 0)
                continue;
            x->peak[phase] = live[j] > x->peak[phase] ? live[j] : x->peak[phase];
            x->end[phase] = live[j];
        }
    }
    trace_lives_curve_free(s->l, live);
    return SW_OK;
}

static size_t bytes_of(const trace_roles *r)
{
    return r->n_positions * (sizeof *r->region + sizeof *r->phase + 1);
}

sw_status trace_roles_find(trace_roles *r, const snapshot_trace *t, trace_lives *l)
{
    *r = (trace_roles){.n_positions = t->n_events + 1};
    SW_TRY(sw_heap_alloc(&r->region, SW_HEAP_PROFILE, bytes_of(r)));
    r->phase = (int8_t *)(r->region + r->n_positions);
    r->kind = (uint8_t *)(r->phase + r->n_positions);
    return find_all_roles(&(search){.r = r, .t = t, .l = l});
}

void trace_roles_free(trace_roles *r)
{
    if (r->region != NULL)
        sw_heap_free(r->region, SW_HEAP_PROFILE, bytes_of(r));
    sw_heap_free(r->steps, SW_HEAP_PROFILE, r->cap_steps * sizeof *r->steps);
    *r = (trace_roles){0};
}
