/* Rules. A life is judged by the phases that it begins and ends in; what was there before the
 * trace by its size: each parameter has a gradient of its size, and as many states as its
 * optimizer keeps. */
#include "profiler/inspect/replan/trace_roles.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/replan/number_map.h"
#include "profiler/inspect/snapshot_frames.h"
#include <string.h>

#define CUBLAS_BYTES 8519680 /* of PyTorch's workspace for cuBLAS: 8 MiB and 128 KiB */

static const struct {
    const char *role, *text;
} rules[TRACE_RULES] = {
    [RULE_NONE] = {"unknown", "by no rule"},
    [RULE_FILE] = {NULL, "the file says it"},
    [RULE_PARAMETER] = {"parameter", "a model's making, or a gradient's size"},
    [RULE_STATE] = {"optimizer_state", "made by an optimizer and kept"},
    [RULE_GRADIENT] = {"gradient", "made by backward and kept"},
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
    uint8_t *kind; /* by position: what the region is: 1 forward, 3 backward, 4 update */
    uint32_t end;  /* position: what is freed from there on lived to the end */
    bool empty;    /* who has no frames is autograd's thread */
} search;

/* ---- phases ------------------------------------------------------------------------------ */

/* Python's stacks are empty in autograd's thread; where frees have none, they say nothing. */
static bool empty_is_backward(const snapshot_trace *t, bool *frees)
{
    bool native = false, training = false;
    uint32_t with = 0;
    *frees = false;
    for (uint32_t i = 0; i < t->n_stacks; i++) {
        native |= (t->stacks[i].facts & (FRAMES_NATIVE | FRAMES_ENGINE)) != 0;
        training |= t->stacks[i].phase >= 3;
    }
    for (uint32_t i = 0; i < t->n_events; i++) {
        const trace_event *e = &t->events[i];
        with += e->action == TRACE_ALLOC && e->stack > 0;
        *frees |= e->action == TRACE_FREE_COMPLETED && e->stack > 0;
    }
    return training && !native && with > 0;
}

static int8_t phase_of_event(const snapshot_trace *t, const trace_event *e, bool empty,
                             bool frees)
{
    if (e->action > TRACE_FREE_COMPLETED)
        return -1;
    if (e->stack > 0)
        return (int8_t)t->stacks[e->stack].phase;
    return empty && (frees || e->action == TRACE_ALLOC) ? 3 : -1;
}

static void find_phases(search *s)
{
    trace_roles *r = s->r;
    bool frees, native = false;
    s->empty = empty_is_backward(s->t, &frees);
    int8_t now = -1;
    for (uint32_t i = 0; i < s->t->n_events; i++) {
        const int8_t phase = phase_of_event(s->t, &s->t->events[i], s->empty, frees);
        now = phase >= 0 ? phase : now;
        r->phase[i + 1] = now;
        r->backward |= now == 3;
        r->known |= now >= 3;
        native |= (s->t->stacks[s->t->events[i].stack].facts & FRAMES_NATIVE) != 0;
    }
    /* C++ would show a backward pass. */
    r->known |= native;
    r->phase[0] = -1;
    if (s->t->n_events > 0) { /* what is before the first one that says it */
        uint32_t i = 0;
        while (i < s->t->n_events && r->phase[i] < 0)
            i++;
        const int8_t first = r->phase[i];
        while (i-- > 0)
            r->phase[i] = first;
    }
    for (uint32_t i = 0; i < r->n_positions; i++) {
        s->kind[i] = r->phase[i] < 0 ? 0 : r->phase[i] < 3 ? 1 : (uint8_t)r->phase[i];
        r->region[i] = i > 0 ? r->region[i - 1] + (s->kind[i] != s->kind[i - 1]) : 0;
    }
}

/* ---- steps ------------------------------------------------------------------------------- */

static sw_status add_step(trace_roles *r, uint32_t from, uint32_t to)
{
    void *steps = r->steps;
    SW_TRY(sw_heap_reserve(&steps, SW_HEAP_PROFILE, &r->cap_steps, r->n_steps + 1,
                           sizeof *r->steps));
    r->steps = steps;
    r->steps[r->n_steps++] = (sw_tl_step){.from = from, .to = to};
    return SW_OK;
}

/* Behind each update that forward and backward came before; `ends`: 4 for updates, 3 for
 * passes.
 */
static sw_status cut_steps(search *s, uint8_t ends)
{
    uint32_t from = 0;
    bool forward = false, backward = false;
    for (uint32_t i = 0; i < s->r->n_positions; i++) {
        forward |= s->kind[i] == 1;
        backward |= forward && s->kind[i] == 3;
        const bool last = i + 1 == s->r->n_positions || s->kind[i + 1] != s->kind[i];
        if (!last || s->kind[i] != ends)
            continue;
        if (backward)
            SW_TRY(add_step(s->r, from, i + 1));
        from = i + 1;
        forward = backward = false;
    }
    return SW_OK;
}

static sw_status measure_steps(search *s)
{
    uint64_t *live;
    SW_TRY(trace_lives_curve(s->l, &live));
    for (uint32_t k = 0; k < s->r->n_steps; k++) {
        sw_tl_step *x = &s->r->steps[k];
        x->first = s->t->events[x->from > 0 ? x->from - 1 : 0].number;
        x->last = s->t->events[x->to - 2].number;
        for (uint32_t i = x->from; i < x->to; i++) {
            const int phase = s->r->phase[i];
            if (phase < 0)
                continue;
            x->peak[phase] = live[i] > x->peak[phase] ? live[i] : x->peak[phase];
            x->end[phase] = live[i];
        }
    }
    trace_lives_curve_free(s->l, live);
    return SW_OK;
}

static sw_status find_steps(search *s)
{
    SW_TRY(cut_steps(s, 4));
    if (s->r->n_steps == 0) {
        SW_TRY(cut_steps(s, 3));
        s->r->passes = s->r->n_steps > 0;
    }
    return measure_steps(s);
}

/* ---- what is made in the trace ----------------------------------------------------------- */

/* Where a request failed and nothing went on, frees behind it are the exception's. */
static void find_end(search *s)
{
    const trace_roles *r = s->r;
    s->end = r->n_positions;
    for (uint32_t i = 0; i < s->t->n_events; i++)
        if (s->t->events[i].action == TRACE_OOM &&
            r->region[i + 1] == r->region[r->n_positions - 1])
            s->end = i + 1;
}

static bool is_kept(const search *s, const trace_life *x)
{
    return x->dead == s->l->n_positions || (x->born < s->end && x->dead >= s->end);
}

static uint32_t facts_of_birth(const search *s, const trace_life *x)
{
    return s->t->stacks[x->stack].facts;
}

/* Of the event that ended it; 0: it lives on. */
static uint32_t facts_of_death(const search *s, const trace_life *x)
{
    return x->dead < s->l->n_positions ? s->t->stacks[s->t->events[x->dead - 1].stack].facts
                                       : 0;
}

static trace_rule rule_of_forward(const search *s, const trace_life *x, uint32_t facts)
{
    const bool kept = is_kept(s, x);
    const bool same = !kept && s->r->region[x->dead] == s->r->region[x->born];
    const uint32_t last = s->r->region[s->r->n_positions - 1];
    if ((facts & FRAMES_MOVE) != 0 || (kept && (facts & FRAMES_INIT) != 0))
        return RULE_PARAMETER;
    if (same)
        return RULE_TEMPORARY;
    if (!s->r->backward) /* nothing frees what is kept for a backward pass */
        return kept && (facts & FRAMES_TRANSFER) != 0 ? RULE_INPUT : RULE_ACTIVATION;
    if (kept ? s->r->region[x->born] == last : s->kind[x->dead] == 3)
        return RULE_SAVED;
    return s->r->phase[x->born] != 0 && (facts & FRAMES_TRANSFER) == 0 &&
                   ((facts & FRAMES_MODULE) != 0 || s->r->phase[x->born] == 2)
               ? RULE_OUTPUT
               : RULE_INPUT;
}

static trace_rule rule_of_made(const search *s, const trace_life *x)
{
    const uint32_t facts = facts_of_birth(s, x);
    const bool kept = is_kept(s, x);
    if ((facts & FRAMES_WORKSPACE) != 0 || (kept && x->bytes == CUBLAS_BYTES))
        return RULE_WORKSPACE;
    const bool same = !kept && s->r->region[x->dead] == s->r->region[x->born];
    if (x->stack == 0 && !s->empty)
        return RULE_NONE;
    switch (s->kind[x->born]) {
    case 1:
        return rule_of_forward(s, x, facts);
    case 3:
        return same ? RULE_TEMPORARY : RULE_GRADIENT;
    case 4:
        return same ? RULE_TEMPORARY : RULE_STATE;
    default:
        return RULE_NONE;
    }
}

/* ---- what was there before --------------------------------------------------------------- */

/* Of one size. */
typedef struct {
    uint64_t bytes;
    uint32_t before;  /* there before and never freed, by nothing that frames tell */
    uint32_t said[2]; /* what they tell of such: parameters, others */
    uint32_t gradients, added, states, ends; /* the most of one region: kept ones, ones that are
                                              added to what is kept, and all that backward made
                                              and freed */
    uint32_t now[4], region[4];
    bool inputs; /* inputs have the size */
} size_class;

typedef struct {
    size_class *all;
    uint32_t n, cap;
    number_map at;
} sizes;

static sw_status size_of(sizes *z, uint64_t bytes, size_class **out)
{
    uint32_t i = number_map_at(&z->at, bytes);
    if (i == NUMBER_MAP_NONE) {
        void *all = z->all;
        SW_TRY(sw_heap_reserve(&all, SW_HEAP_PROFILE, &z->cap, z->n + 1, sizeof *z->all));
        z->all = all;
        i = z->n++;
        z->all[i] = (size_class){.bytes = bytes};
        SW_TRY(number_map_set(&z->at, bytes, i));
    }
    *out = &z->all[i];
    return SW_OK;
}

static void count(size_class *c, int what, uint32_t region)
{
    uint32_t *const most[] = {&c->gradients, &c->added, &c->states, &c->ends};
    if (c->region[what] != region + 1)
        c->now[what] = 0;
    c->region[what] = region + 1;
    c->now[what]++;
    if (c->now[what] > *most[what])
        *most[what] = c->now[what];
}

/* Blocks at the end of a trace have the frames that made them, though it began later. */
static trace_rule said_before(const search *s, const trace_life *x)
{
    const trace_stack *by = &s->t->stacks[x->stack];
    return (by->facts & FRAMES_WORKSPACE) != 0              ? RULE_WORKSPACE
           : by->phase == 4                                 ? RULE_STATE
           : by->phase == 3                                 ? RULE_GRADIENT
           : (by->facts & (FRAMES_MOVE | FRAMES_INIT)) != 0 ? RULE_PARAMETER
                                                            : RULE_NONE;
}

static sw_status count_sizes(const search *s, sizes *z)
{
    for (uint32_t i = 0; i < s->l->n; i++) {
        const trace_life *x = &s->l->all[i];
        size_class *c;
        SW_TRY(size_of(z, x->bytes, &c));
        const uint32_t region = s->r->region[x->born];
        c->inputs |= x->rule == RULE_INPUT;
        const trace_rule said = said_before(s, x);
        if (x->born == 0 && x->dead == s->l->n_positions)
            (*(said == RULE_NONE        ? &c->before
               : said == RULE_PARAMETER ? &c->said[0]
                                        : &c->said[1]))++;
        else if (x->born == 0)
            continue;
        else if (x->rule == RULE_GRADIENT)
            count(c, 0, region);
        else if (x->rule == RULE_STATE)
            count(c, 2, region);
        else if (s->kind[x->born] == 3)
            count(c, (facts_of_death(s, x) & FRAMES_ACCUMULATE) != 0 ? 1 : 3, region);
    }
    return SW_OK;
}

/* How many tensors of a parameter's size are there for each: the most common number, by bytes,
 * of those for which backward makes one each and frees it. */
static uint32_t copies(const sizes *z)
{
    uint64_t bytes[9] = {0};
    uint32_t best = 1;
    for (uint32_t i = 0; i < z->n; i++) {
        const size_class *c = &z->all[i];
        const uint32_t all = c->before + c->said[0] + c->said[1];
        if (c->ends > 0 && all % c->ends == 0 && all / c->ends <= 8)
            bytes[all / c->ends] += c->bytes * all;
    }
    for (uint32_t k = 1; k <= 8; k++)
        best = bytes[k] > bytes[best] ? k : best;
    return best;
}

/* How many there are of parameters, gradients and states, in this order; the rest is none. */
typedef struct {
    uint32_t parameters, gradients, states;
} shares;

static shares share_out(const size_class *c, bool known, uint32_t copies_each)
{
    shares x = {0};
    const uint32_t made = c->gradients > c->added ? c->gradients : c->added;
    uint32_t each = made > 0 ? made : c->states / 2;
    const bool kept = !known && c->ends > 0; /* gradients are added to those that are kept */
    if (each == 0 && kept)
        each = (c->before + c->said[0] + c->said[1]) / copies_each;
    x.parameters = each > c->said[0] ? each - c->said[0] : 0;
    x.parameters = x.parameters < c->before ? x.parameters : c->before;
    uint32_t left = c->before - x.parameters;
    if (kept && copies_each > 1)
        x.gradients = each < left ? each : left;
    left -= x.gradients;
    const uint32_t most = kept ? (copies_each > 2 ? copies_each - 2 : 0) : 3;
    x.states = left < most * each ? left / (each > 0 ? each : 1) * each : most * each;
    return x;
}

/* What was freed in the trace has an end that tells; what lives on has its size. */
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
        switch (s->kind[x->dead]) {
        case 3:
            return RULE_SAVED;
        case 4: /* of an update that the trace begins in, or of those before it */
            return s->r->region[x->dead] == 0 ? RULE_TEMPORARY
                   : c->states > 0            ? RULE_STATE
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

/* What forward made outside of modules, keeps and has states for: a tensor that is trained. */
static bool is_trained(const search *s, const trace_life *x, size_class *c)
{
    if (x->rule != RULE_INPUT || x->dead < s->l->n_positions || c->states < 2)
        return false;
    c->states -= 2;
    return true;
}

static sw_status judge_before(search *s, sizes *z)
{
    void *block;
    uint64_t made = 0;
    SW_TRY(count_sizes(s, z));
    const uint32_t each = copies(z);
    for (uint32_t i = 0; i < z->n; i++)
        made += z->all[i].gradients + z->all[i].added;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, z->n * sizeof(shares)));
    shares *left = block;
    for (uint32_t i = 0; i < z->n; i++)
        left[i] = share_out(&z->all[i], made > 0, each);
    for (uint32_t i = 0; i < s->l->n; i++) {
        trace_life *x = &s->l->all[i];
        const uint32_t at = number_map_at(&z->at, x->bytes);
        if (x->born > 0 && is_trained(s, x, &z->all[at]))
            x->rule = RULE_PARAMETER;
        else if (x->born == 0)
            x->rule = (uint8_t)rule_of_before(s, x, &z->all[at], &left[at]);
    }
    sw_heap_free(block, SW_HEAP_PROFILE, z->n * sizeof(shares));
    return SW_OK;
}

/* ---- all of it --------------------------------------------------------------------------- */

static sw_status find(search *s)
{
    sizes z = {0};
    find_phases(s);
    find_end(s);
    for (uint32_t i = 0; i < s->l->n; i++)
        if (s->l->all[i].born > 0)
            s->l->all[i].rule = (uint8_t)rule_of_made(s, &s->l->all[i]);
    sw_status status = judge_before(s, &z);
    for (uint32_t i = 0; i < s->l->n; i++) {
        trace_life *x = &s->l->all[i];
        x->rule = x->role != NULL ? RULE_FILE : x->rule;
        x->role = x->role != NULL ? x->role : rules[x->rule].role;
    }
    number_map_free(&z.at);
    sw_heap_free(z.all, SW_HEAP_PROFILE, z.cap * sizeof *z.all);
    return status == SW_OK ? find_steps(s) : status;
}

static size_t bytes_of(const trace_roles *r)
{
    return r->n_positions * (sizeof *r->region + sizeof *r->phase + 1);
}

sw_status trace_roles_find(trace_roles *r, const snapshot_trace *t, trace_lives *l)
{
    void *block;
    *r = (trace_roles){.n_positions = t->n_events + 1};
    search s = {.r = r, .t = t, .l = l};
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, bytes_of(r)));
    r->region = block;
    r->phase = (int8_t *)(r->region + r->n_positions);
    s.kind = (uint8_t *)(r->phase + r->n_positions);
    return find(&s);
}

void trace_roles_free(trace_roles *r)
{
    if (r->region != NULL)
        sw_heap_free(r->region, SW_HEAP_PROFILE, bytes_of(r));
    sw_heap_free(r->steps, SW_HEAP_PROFILE, r->cap_steps * sizeof *r->steps);
    *r = (trace_roles){0};
}
