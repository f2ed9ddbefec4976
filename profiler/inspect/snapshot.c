/* A snapshot of PyTorch: the lives of its allocations, their roles, the timeline that they
 * make, and its file. */
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "profiler/inspect/numbers.h"
#include "profiler/inspect/replan/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_ALIGN 512 /* what PyTorch's blocks have */
#define HOST_ALIGN 64
#define CUBLAS_BYTES 8519680 /* of PyTorch's workspace for cuBLAS: 8 MiB and 128 KiB */
#define ROLE_BYTES (sizeof(uint32_t) + 2) /* of a position */

/* ---- lives ------------------------------------------------------------------------------- */

sw_status trace_lives_add(trace_lives *l, uint64_t stream, uint64_t pool, trace_life life)
{
    for (life.arena = 0; life.arena < l->n_arenas; life.arena++)
        if (l->arenas[life.arena].stream == stream && l->arenas[life.arena].pool == pool)
            break;
    if (life.arena == 4096)
        SW_FAIL(SW_UNSUPPORTED, "more than 4,096 streams and pools");
    SW_TRY(sw_heap_reserve(&l->arenas, SW_HEAP_PROFILE, &l->cap_arenas, life.arena + 1));
    if (life.arena == l->n_arenas)
        l->arenas[l->n_arenas++] = (trace_arena){.stream = stream, .pool = pool};
    SW_TRY(sw_heap_reserve(&l->all, SW_HEAP_PROFILE, &l->cap, l->n + 1));
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

static sw_status follow_event(trace_lives *l, number_map *living, const snapshot_trace *t,
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

static sw_status find_lives(trace_lives *l, const snapshot_trace *t, number_map *living)
{
    const trace_start *start = &t->start;
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
        SW_TRY(follow_event(l, living, t, i));
    return SW_OK;
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

/* ---- roles ------------------------------------------------------------------------------- */

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
                                   s->r->n_steps + 1));
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
    const snapshot_frames *by = &s->t->stacks[x->stack];
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

SW_ORDER(by_size, sized, SW_RISES(bytes), SW_RISES(life))

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

static sw_status find_roles(search *s)
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
        const snapshot_frames *by = &s->t->stacks[e->stack];
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

sw_status trace_lives_find(trace_lives *l, const snapshot_trace *t)
{
    number_map living = {0};
    trace_roles *r = &l->roles;
    *l = (trace_lives){.n_positions = t->n_events + 1,
                       .align = t->cuda ? DEVICE_ALIGN : HOST_ALIGN};
    const sw_status status = find_lives(l, t, &living);
    number_map_free(&living);
    SW_TRY(status);
    SW_TRY(sw_heap_alloc(&r->region, SW_HEAP_PROFILE, l->n_positions * ROLE_BYTES));
    r->n_positions = l->n_positions;
    r->phase = (int8_t *)(r->region + r->n_positions);
    r->kind = (uint8_t *)(r->phase + r->n_positions);
    return find_roles(&(search){.r = r, .t = t, .l = l});
}

void trace_lives_free(trace_lives *l)
{
    sw_heap_free(l->all, SW_HEAP_PROFILE, l->cap * sizeof *l->all);
    sw_heap_free(l->arenas, SW_HEAP_PROFILE, l->cap_arenas * sizeof *l->arenas);
    sw_heap_free(l->roles.region, SW_HEAP_PROFILE, l->roles.n_positions * ROLE_BYTES);
    sw_heap_free(l->roles.steps, SW_HEAP_PROFILE, l->roles.cap_steps * sizeof *l->roles.steps);
    *l = (trace_lives){0};
}

/* ---- addresses --------------------------------------------------------------------------- */

sw_status address_space_add(address_space *s, uint64_t from, uint64_t bytes)
{
    /* Blocks of one range come by the million: what the latest one covers says nothing new. */
    if (bytes == 0 || (s->n > 0 && from >= s->ranges[s->n - 1].from &&
                       from + bytes <= s->ranges[s->n - 1].to))
        return SW_OK;
    SW_TRY(sw_heap_reserve(&s->ranges, SW_HEAP_PROFILE, &s->cap, s->n + 1));
    s->ranges[s->n++] = (address_range){from, from + bytes, 0};
    return SW_OK;
}

SW_ORDER(by_begin, address_range, SW_RISES(from), 0)

void address_space_close_up(address_space *s)
{
    uint32_t n = 0;
    uint64_t offset = 0;
    if (s->n > 0)
        qsort(s->ranges, s->n, sizeof *s->ranges, by_begin);
    for (uint32_t i = 0; i < s->n; i++) {
        const address_range r = s->ranges[i];
        if (n > 0 && r.from <= s->ranges[n - 1].to) {
            if (r.to > s->ranges[n - 1].to)
                s->ranges[n - 1].to = r.to;
        } else {
            s->ranges[n++] = r;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        s->ranges[i].offset = offset;
        offset += s->ranges[i].to - s->ranges[i].from;
    }
    s->n = n;
}

uint64_t address_space_offset(const address_space *s, uint64_t address)
{
    uint32_t low = 0, high = s->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->ranges[middle].to <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == s->n || address < s->ranges[low].from)
        return s->n > 0 ? s->ranges[s->n - 1].offset + s->ranges[s->n - 1].to -
                              s->ranges[s->n - 1].from
                        : 0;
    return s->ranges[low].offset + (address - s->ranges[low].from);
}

void address_space_free(address_space *s)
{
    sw_heap_free(s->ranges, SW_HEAP_PROFILE, s->cap * sizeof *s->ranges);
    *s = (address_space){0};
}

/* ---- the timeline ------------------------------------------------------------------------ */

#define LATEST_US UINT32_MAX /* after the first event */

static const char before_trace[] = "from before the trace";

typedef struct {
    sw_timeline *t;
    snapshot_trace trace;
    trace_lives lives;
    address_space space;
    uint32_t *op_of; /* by event: the op that it is */
    sw_tl_program *p;
} reader;

static sw_status take_life(reader *r, uint32_t i, bool own)
{
    const trace_life *x = &r->lives.all[i];
    const snapshot_frames *by = &r->trace.stacks[x->stack];
    const int phase = own || x->born == 0 ? by->phase : r->lives.roles.phase[x->born];
    sw_tensor *v = &r->p->values[i];
    const bool kept = x->dead == r->lives.n_positions;
    *v = (sw_tensor)SW_INIT(.id = i, .alias = SW_TL_NONE, .name = by->name, .layer = by->layer,
                            .op = by->op, .phase = phase >= 0 ? sw_prof_phase_name(phase) : "",
                            .segment = SW_SEGMENT_STEP, .bytes = x->bytes,
                            .offset = address_space_offset(&r->space, x->address),
                            .birth = x->born > 0 ? r->op_of[x->born - 1] : 0,
                            .death = kept ? r->p->n_ops : r->op_of[x->dead - 1] - 1);
    SW_TRY(sw_timeline_string(r->t, &v->role, x->role));
    if (x->note != NULL && by->name == by->op) /* ours has a name of its own */
        SW_TRY(sw_timeline_string(r->t, &v->name, x->note));
    if (v->name[0] == '\0')
        v->name = x->born == 0 ? before_trace : "no frames";
    if (x->born > 0)
        r->p->ops[v->birth] =
            (sw_tl_op){v->op[0] != '\0' ? v->op : "alloc", v->layer, r->p->ops[v->birth].phase};
    if (!kept && r->trace.events[x->dead - 1].action == TRACE_FREE_COMPLETED)
        r->p->ops[v->death + 1].layer = v->layer;
    return SW_OK;
}

/* The first one is before the trace; the time up to an event is that of the one before. */
static void take_ops(reader *r, sw_tl_run *run, uint64_t *op_ns)
{
    uint32_t now = 0, first = 0, n = 0;
    r->p->ops[n++] = (sw_tl_op){
        before_trace, "", (uint8_t)(r->lives.roles.phase[0] < 0 ? 0 : r->lives.roles.phase[0])};
    for (uint32_t i = 0; i < r->trace.n_events; i++) {
        const trace_event *e = &r->trace.events[i];
        const int phase = r->lives.roles.phase[i + 1];
        r->op_of[i] = n;
        if (!trace_moves(e))
            continue;
        if (n == 1)
            first = now = e->us;
        if (e->us > now && e->us < LATEST_US) {
            op_ns[n - 1] = (uint64_t)(e->us - now) * 1000;
            now = e->us;
        }
        r->p->ops[n++] = (sw_tl_op){e->action == TRACE_ALLOC ? "alloc" : "free", "",
                                    (uint8_t)(phase < 0 ? 0 : phase)};
    }
    run->clock = now > first ? SW_TL_OPS : SW_TL_UNTIMED;
    run->op_ns = now > first ? op_ns : NULL;
    run->ns = (uint64_t)(now - first) * 1000;
}

static sw_status add_program(reader *r, bool own)
{
    uint64_t *ns;
    sw_tl_step *steps;
    sw_tl_run *run;
    uint32_t n = 1;
    bool phases = false;
    for (uint32_t i = 0; i < r->trace.n_events; i++) {
        n += trace_moves(&r->trace.events[i]);
        phases |= r->lives.roles.phase[i + 1] >= 0;
    }
    SW_TRY(sw_timeline_add_program(r->t, &r->p));
    SW_TRY(sw_timeline_alloc(r->t, &r->p->ops, n, sizeof *r->p->ops));
    SW_TRY(sw_timeline_alloc(r->t, &ns, n, sizeof(uint64_t)));
    SW_TRY(
        sw_timeline_alloc(r->t, &r->p->values, (size_t)r->lives.n + 1, sizeof *r->p->values));
    SW_TRY(sw_timeline_alloc(r->t, &r->op_of, (size_t)r->trace.n_events + 1, sizeof *r->op_of));
    r->p->run = "trace";
    r->p->n_ops = n;
    r->p->n_values = r->lives.n;
    uint32_t ignored;
    r->p->arena_bytes = trace_start_most(&r->trace, r->trace.n_events, &ignored, NULL);
    r->p->total_bytes = r->p->arena_bytes;
    SW_TRY(sw_timeline_add_run(r->t, &run));
    take_ops(r, run, ns);
    for (uint32_t i = 0; i < r->lives.n; i++)
        SW_TRY(take_life(r, i, own));
    /* The peak of all, and of each phase where the frames tell them. */
    uint64_t *curve;
    SW_TRY(sw_heap_alloc(&curve, SW_HEAP_PROFILE, r->p->n_ops * sizeof(uint64_t)));
    sw_timeline_curve(r->p, NULL, NULL, curve);
    for (uint32_t j = 0; j < r->p->n_ops; j++) {
        sw_prof_phase *phase = &r->p->phase[r->p->ops[j].phase];
        if (curve[j] > r->p->peak_bytes) {
            r->p->peak_bytes = curve[j];
            r->p->peak_op = j;
        }
        if (phases && curve[j] > phase->peak_bytes)
            phase->peak_bytes = curve[j];
        if (phases)
            phase->end_bytes = curve[j];
    }
    sw_heap_free(curve, SW_HEAP_PROFILE, r->p->n_ops * sizeof(uint64_t));

    r->p->lower_bound_bytes = r->p->peak_bytes;
    SW_TRY(sw_timeline_alloc(r->t, &steps, (size_t)r->lives.roles.n_steps + 1, sizeof *steps));
    if (r->lives.roles.n_steps > 0)
        memcpy(steps, r->lives.roles.steps, r->lives.roles.n_steps * sizeof *steps);
    r->t->steps = steps;
    r->t->n_steps = r->lives.roles.n_steps;
    r->t->passes = r->lives.roles.passes;
    run->step = 1;
    run->peak_bytes = r->p->peak_bytes;
    memcpy(run->phase, r->p->phase, sizeof run->phase);
    return sw_timeline_finish(r->t);
}

/* ---- devices ----------------------------------------------------------------------------- */

/* The device whose segments take the most memory, then the one with the most events. */
static sw_status choose_device(reader *r, const snapshot_file *f, int64_t *out)
{
    const value traces = f->traces;
    const char *kind = f->device ? "cuda:" : "device ";
    uint64_t bytes[SNAPSHOT_DEVICES] = {0}, used = 0;
    const uint64_t n_traces =
        value_count(traces) < SNAPSHOT_DEVICES ? value_count(traces) : SNAPSHOT_DEVICES;
    for (uint64_t s = 0; s < value_count(f->segments); s++) {
        const value segment = value_item(f->segments, s);
        int64_t device, size;
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "device",
                               SNAPSHOT_DEVICES - 1, &device));
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "total_size",
                               SNAPSHOT_LARGEST(f), &size));
        bytes[device] += (uint64_t)size;
    }
    for (uint64_t d = 0; d < SNAPSHOT_DEVICES; d++) {
        const uint64_t best = (uint64_t)*out;
        const uint64_t events = d < n_traces ? value_count(value_item(traces, d)) : 0;
        const uint64_t most = value_count(value_item(traces, best));
        used += bytes[d] > 0 || events > 0;
        if (bytes[d] > bytes[best] || (bytes[d] == bytes[best] && events > most))
            *out = (int64_t)d;
    }
    char name[64];
    if (used > 1)
        snprintf(name, sizeof name, "%s%lld, the fullest of %llu", kind, (long long)*out,
                 (unsigned long long)used);
    else
        snprintf(name, sizeof name, "%s%lld", kind, (long long)*out);
    return sw_timeline_string(r->t, &r->t->device, name);
}

static sw_status take_snapshot(reader *r, const snapshot_file *f)
{
    int64_t device = 0;
    SW_TRY(choose_device(r, f, &device));
    if (f->own) { /* the run, as our own export describes it */
        const struct {
            const char *key, **to;
        } of[] = {{"model", &r->t->model}, {"device", &r->t->device}, {"data", &r->t->data}};
        for (int i = 0; i < 3; i++)
            SW_TRY(sw_timeline_string(r->t, of[i].to,
                                      value_text(value_at(f->settings, of[i].key))));
    }
    r->t->tool = "pytorch";
    if (r->t->model[0] == '\0')
        r->t->model = "PyTorch snapshot";
    SW_TRY(snapshot_trace_read(&r->trace, f, device));
    /* Texts of the trace become the timeline's. */
    for (uint32_t i = 0; i < r->trace.n_stacks; i++) {
        snapshot_frames *s = &r->trace.stacks[i];
        SW_TRY(sw_timeline_string(r->t, &s->name, s->name));
        SW_TRY(sw_timeline_string(r->t, &s->op, s->op));
        SW_TRY(sw_timeline_string(r->t, &s->layer, s->layer));
    }

    SW_TRY(trace_lives_find(&r->lives, &r->trace));
    const snapshot_trace *t = &r->trace;
    for (uint32_t j = 0; j < t->n_segments && t->cuda; j++)
        SW_TRY(address_space_add(&r->space, t->segments[j].address, t->segments[j].bytes));
    for (uint32_t j = 0; j < t->n_events; j++)
        if (t->events[j].action != TRACE_OOM && t->events[j].action != TRACE_FREE_REQUESTED)
            SW_TRY(address_space_add(&r->space, t->events[j].address, t->events[j].bytes));
    for (uint32_t j = 0; j < r->lives.n; j++)
        SW_TRY(address_space_add(&r->space, r->lives.all[j].address, r->lives.all[j].bytes));
    address_space_close_up(&r->space);

    return add_program(r, f->own);
}

sw_status snapshot_read(sw_timeline *t)
{
    snapshot_file file;
    reader r = {.t = t};
    sw_status status = snapshot_file_open(&file, t->path);
    if (status == SW_OK)
        status = take_snapshot(&r, &file);
    snapshot_file_close(&file);
    trace_lives_free(&r.lives);
    snapshot_trace_free(&r.trace);
    address_space_free(&r.space);
    return status;
}

/* ---- the file ---------------------------------------------------------------------------- */

sw_status snapshot_is(const char *path, bool *out)
{
    byte_reader r;
    SW_TRY(byte_reader_open(&r, path));
    static const char *const keys[] = {"\"segments\"", "\"device_traces\""};
    const bool empty = r.end == 0;
    char text[65] = ""; /* up to a zero byte, which no JSON has */
    memcpy(text, r.buffer, r.end < 64 ? r.end : 64);
    const char *key = text + 1 + strspn(text + (*text != '\0'), " \n\r\t");
    *out = r.end >= 2 && (unsigned char)text[0] == 0x80;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        *out |= text[0] == '{' && strncmp(key, keys[k], strlen(keys[k])) == 0;
    byte_reader_close(&r);
    if (empty)
        SW_FAIL(SW_FORMAT, "%s: the file is empty", path);
    return SW_OK;
}

sw_status snapshot_file_open(snapshot_file *f, const char *path)
{
    *f = (snapshot_file){.path = path};
    value top = 0;
    SW_TRY(sw_heap_alloc(&f->tree, SW_HEAP_FILES, sizeof *f->tree));
    SW_TRY(value_tree_read(f->tree, f->path, &f->bytes, &top));
    const bool list = value_kind_of(top) == VALUE_LIST; /* of segments: memory_snapshot() */
    f->segments = list ? top : value_at(top, "segments");
    f->traces = value_at(top, "device_traces");
    f->settings = value_at(top, "allocator_settings");
    f->own = value_text(value_at(f->settings, "tool")) != NULL;
    if (value_kind_of(f->segments) != VALUE_LIST ||
        (f->traces != 0 && value_kind_of(f->traces) != VALUE_LIST))
        SW_FAIL(SW_FORMAT, "%s: not a snapshot of PyTorch: it has no list of segments",
                f->path);
    /* Those of the profiler have no settings; its last device is the CPU. Files of PyTorch 2.0
     * to 2.2 do not say the settings either: segments of a device say their type, and events of
     * devices the segments or their time; those of the profiler say none of it. */
    f->device =
        list || f->settings != 0 || value_at(value_item(f->segments, 0), "segment_type") != 0;
    for (uint64_t d = 0; d < value_count(f->traces) && !f->device; d++) {
        const value event = value_item(value_item(f->traces, d), 0);
        const char *action = value_text(value_at(event, "action"));
        f->device = value_at(event, "time_us") != 0 ||
                    (action != NULL && strncmp(action, "segment_", 8) == 0);
    }
    return SW_OK;
}

void snapshot_file_close(snapshot_file *f)
{
    if (f->tree == NULL)
        return;
    value_tree_close(f->tree);
    sw_heap_free(f->tree, SW_HEAP_FILES, sizeof *f->tree);
    f->tree = NULL;
}
