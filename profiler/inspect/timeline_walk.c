/* The walk over a timeline. Runs with a log are what the log says; others are what their
 * program says: births at the begin of an op, deaths at its end. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "profiler/record/record.h"
#include "profiler/inspect/timeline.h"
#include <stdio.h>
#include <string.h>

#define DEPTH 64 /* scopes; deeper ones have no slice of their own */
#define TICK_NS 1000

typedef struct {
    sw_status (*take)(void *context, const sw_tl_event *e);
    void *context;
    sw_tl_event event;           /* what stays from one event to the next */
    const sw_tl_program *models; /* whose model lives; NULL: none */
    int phase;                   /* open; -1: none */
    uint32_t op;                 /* open; or none */
    const char *layer;           /* open */
    struct {
        size_t at, n;
    } scope[DEPTH];
    uint32_t n_scopes;
    uint32_t *live; /* values of the run in order of birth, with holes; two places for each */
    size_t n_live;
    size_t *position;  /* of a value in `live`, plus one; 0: it does not live */
    uint32_t capacity; /* values */
    sw_status status;
} walk;

static void emit(walk *w, sw_tl_kind kind, uint32_t index, const char *name)
{
    if (w->status != SW_OK)
        return;
    w->event.kind = kind;
    w->event.index = index;
    w->event.name = name;
    w->status = w->take(w->context, &w->event);
}

/* ---- values ------------------------------------------------------------------------------ */

static void state_value(walk *w, sw_tl_kind kind, uint32_t index)
{
    const sw_tensor *v = &w->event.program->values[index];
    static const uint64_t base[SW_SEGMENTS] = {
        [SW_SEGMENT_STEP] = (uint64_t)1 << 40,
        [SW_SEGMENT_MODEL] = (uint64_t)2 << 40,
        [SW_SEGMENT_INPUT] = (uint64_t)3 << 40,
    };
    const uint64_t bytes = v->bytes + v->padding;
    w->event.address = base[v->segment] + v->offset;
    w->event.bytes = bytes;
    SW_ASSERT(kind != SW_TL_FREE || w->event.live >= bytes);
    w->event.live += kind == SW_TL_ALLOC ? bytes : kind == SW_TL_FREE ? -bytes : 0;
    emit(w, kind, index, v->name);
    w->event.address = w->event.bytes = 0;
}

static void give_birth(walk *w, uint32_t index)
{
    if (w->position[index] != 0)
        return; /* born twice without a death: a log that lost something */
    if (w->n_live == 2 * (size_t)w->capacity) {
        /* Values that come and go in turn leave holes without end: at least half are holes
         * here. */
        size_t n = 0;
        for (size_t i = 0; i < w->n_live; i++)
            if (w->live[i] != SW_TL_NONE) {
                w->live[n++] = w->live[i];
                w->position[w->live[i]] = n;
            }
        w->n_live = n;
    }
    w->live[w->n_live++] = index;
    w->position[index] = w->n_live;
    state_value(w, SW_TL_ALLOC, index);
}

static void kill(walk *w, uint32_t index)
{
    const size_t at = w->position[index];
    if (at == 0)
        return;
    w->live[at - 1] = SW_TL_NONE;
    w->position[index] = 0;
    while (w->n_live > 0 && w->live[w->n_live - 1] == SW_TL_NONE)
        w->n_live--;
    state_value(w, SW_TL_FREE, index);
}

/* ---- slices ------------------------------------------------------------------------------ */

static void leave_op(walk *w)
{
    if (w->op != SW_TL_NONE)
        emit(w, SW_TL_OP_END, w->op, w->event.program->ops[w->op].name);
    w->op = SW_TL_NONE;
}

static void state_scope(walk *w, sw_tl_kind kind, uint32_t i)
{
    char name[256];
    const size_t n = w->scope[i].n < sizeof name - 1 ? w->scope[i].n : sizeof name - 1;
    memcpy(name, w->layer + w->scope[i].at, n);
    name[n] = '\0';
    emit(w, kind, SW_TL_NONE, name);
}

static void leave_scopes(walk *w, uint32_t down_to)
{
    while (w->n_scopes > down_to)
        state_scope(w, SW_TL_LAYER_END, --w->n_scopes);
}

/* From the scopes that are open to those of `layer`. */
static void enter_layer(walk *w, const char *layer)
{
    uint32_t same = 0;
    size_t at = 0;
    if (layer == w->layer)
        return;
    while (same < w->n_scopes) {
        const size_t n = strcspn(layer + at, "/");
        if (w->scope[same].n != n || memcmp(w->layer + w->scope[same].at, layer + at, n) != 0 ||
            layer[at] == '\0')
            break;
        at += n + (layer[at + n] == '/');
        same++;
    }
    leave_scopes(w, same);
    w->layer = layer;
    while (layer[at] != '\0' && w->n_scopes < DEPTH) {
        const size_t n = strcspn(layer + at, "/");
        w->scope[w->n_scopes].at = at;
        w->scope[w->n_scopes].n = n;
        if (n > 0)
            state_scope(w, SW_TL_LAYER_BEGIN, w->n_scopes++);
        at += n + (layer[at + n] == '/');
    }
}

static void leave_phase(walk *w)
{
    leave_op(w);
    leave_scopes(w, 0);
    w->layer = "";
    if (w->phase >= 0)
        emit(w, SW_TL_PHASE_END, (uint32_t)w->phase, sw_prof_phase_name(w->phase));
    w->phase = -1;
}

static void enter_phase(walk *w, int phase)
{
    if (phase == w->phase)
        return;
    leave_phase(w);
    w->phase = phase;
    emit(w, SW_TL_PHASE_BEGIN, (uint32_t)phase, sw_prof_phase_name(phase));
}

static void enter_op(walk *w, uint32_t op)
{
    const sw_tl_op *x = &w->event.program->ops[op];
    leave_op(w);
    enter_phase(w, x->phase);
    enter_layer(w, x->layer);
    w->op = op;
    emit(w, SW_TL_OP_BEGIN, op, x->name);
}

static void advance(walk *w, uint64_t ns)
{
    w->event.ns = ns > w->event.ns ? ns : w->event.ns;
}

/* ---- runs -------------------------------------------------------------------------------- */

/* The model of `p` lives from here on; NULL: none. */
static void change_models(walk *w, const sw_tl_program *p)
{
    bool same = p != NULL && w->models != NULL && p->n_model == w->models->n_model;
    for (uint32_t i = 0; same && i < p->n_model; i++) {
        const sw_tensor *x = &p->values[i], *y = &w->models->values[i];
        same = x->bytes == y->bytes && x->padding == y->padding && x->offset == y->offset &&
               strcmp(x->name, y->name) == 0;
    }
    if (same)
        return;
    w->event.program = w->models;
    for (uint32_t i = w->models != NULL ? w->models->n_model : 0; i > 0; i--)
        state_value(w, SW_TL_FREE, i - 1);
    w->event.program = w->models = p;
    for (uint32_t i = 0; p != NULL && i < p->n_model; i++)
        state_value(w, SW_TL_ALLOC, i);
}

static sw_status reserve(walk *w, uint32_t n)
{
    if (n <= w->capacity)
        return SW_OK;
    void *live = w->live, *position;
    SW_TRY(sw_heap_alloc(&position, SW_HEAP_PROFILE, n * sizeof *w->position));
    const sw_status status =
        sw_heap_resize(&live, SW_HEAP_PROFILE, 2 * (size_t)w->capacity * sizeof *w->live,
                       2 * (size_t)n * sizeof *w->live);
    if (status != SW_OK) {
        sw_heap_free(position, SW_HEAP_PROFILE, n * sizeof *w->position);
        return status;
    }
    sw_heap_free(w->position, SW_HEAP_PROFILE, w->capacity * sizeof *w->position);
    w->live = live;
    w->position = position;
    w->capacity = n;
    return SW_OK;
}

/* Values that begin at this op: they are in order of birth from *next on. */
static void births(walk *w, uint32_t op, uint32_t *next)
{
    const sw_tl_program *p = w->event.program;
    for (; *next < p->n_values && p->values[*next].birth <= op; ++*next) {
        if (p->values[*next].alias != SW_TL_NONE)
            state_value(w, SW_TL_REUSE, *next);
        else
            give_birth(w, *next);
    }
}

static void deaths(walk *w, uint32_t op, uint32_t *next)
{
    const sw_tl_program *p = w->event.program;
    for (; *next < p->n_values && p->values[p->by_death[*next]].death <= op; ++*next) {
        const uint32_t v = p->by_death[*next];
        if (v >= p->n_model + p->n_input)
            kill(w, v);
    }
}

static void walk_program(walk *w, const sw_tl_run *run)
{
    const sw_tl_program *p = w->event.program;
    uint32_t next_birth = p->n_model + p->n_input, next_death = 0;
    uint64_t ops_of[SW_PROF_PHASES] = {0}, done_of[SW_PROF_PHASES] = {0};
    uint64_t past = 0; /* of the phase's time, where phases share it */
    for (uint32_t i = 0; i < p->n_ops; i++)
        ops_of[p->ops[i].phase]++;
    uint64_t now = run->at_ns;
    for (uint32_t i = 0; i < p->n_ops && w->status == SW_OK; i++) {
        const uint8_t f = p->ops[i].phase;
        advance(w, now);
        enter_op(w, i);
        births(w, i, &next_birth);
        past =
            run->clock == SW_TL_OPS ? run->op_ns[i]
            : run->clock == SW_TL_UNTIMED
                ? TICK_NS
                : (uint64_t)((unsigned __int128)run->phase[f].ns * (done_of[f] + 1) /
                             ops_of[f]) -
                      (uint64_t)((unsigned __int128)run->phase[f].ns * done_of[f] / ops_of[f]);
        done_of[f]++;
        now += past;
        advance(w, now);
        deaths(w, i, &next_death);
    }
}

static void walk_log(walk *w, const sw_tl_run *run)
{
    const sw_tl_program *p = w->event.program;
    for (size_t i = 0; i < run->n_log && w->status == SW_OK; i++) {
        const sw_record *e = &run->log[i];
        const uint64_t clock = sw_record_ns(e);
        const bool edge = e->kind <= SW_RECORD_OP || e->kind == SW_RECORD_END;
        const uint32_t v = edge ? SW_TL_NONE : sw_timeline_value(p, e->id);
        if (edge)
            advance(w, clock);
        if (e->kind == SW_RECORD_PHASE)
            enter_phase(w, (int)e->id);
        else if (e->kind == SW_RECORD_OP)
            enter_op(w, e->id);
        else if (e->kind == SW_RECORD_REWIND) {
            /* Addresses from the new top on are free again. */
            for (size_t k = w->n_live; k > 0; k--) {
                const uint32_t at = k <= w->n_live ? w->live[k - 1] : SW_TL_NONE;
                if (at != SW_TL_NONE && p->values[at].segment == SW_SEGMENT_STEP &&
                    p->values[at].offset >= (uint64_t)e->offset * SW_ALIGN)
                    kill(w, at);
            }
        } else if (v == SW_TL_NONE)
            continue;
        else if (e->kind == SW_RECORD_REUSE)
            state_value(w, SW_TL_REUSE, v);
        else if (e->kind == SW_RECORD_PLACE || e->kind == SW_RECORD_PUSH)
            give_birth(w, v);
        else if (e->kind == SW_RECORD_RELEASE)
            kill(w, v);
    }
}

static void walk_run(walk *w, const sw_timeline *t, const sw_tl_run *run)
{
    const sw_tl_program *p = &t->programs[run->program];
    char name[48];
    w->event.run = run;
    advance(w, run->at_ns);
    change_models(w, p);
    w->status = w->status == SW_OK ? reserve(w, p->n_values) : w->status;
    if (w->status != SW_OK)
        return;
    w->event.program = p;
    memset(w->position, 0, p->n_values * sizeof *w->position);
    snprintf(name, sizeof name, run->micro > 0 ? "step %llu.%llu" : "step %llu",
             (unsigned long long)run->step, (unsigned long long)run->micro);
    emit(w, SW_TL_STEP_BEGIN, SW_TL_NONE, name);
    for (uint32_t i = p->n_model; i < p->n_model + p->n_input; i++)
        give_birth(w, i);
    if (run->n_log > 0)
        walk_log(w, run);
    else
        walk_program(w, run);
    advance(w, run->at_ns + run->ns);
    leave_phase(w);
    while (w->n_live > 0)
        kill(w, w->live[w->n_live - 1]);
    SW_ASSERT(w->status != SW_OK || (w->n_live == 0 && w->op == SW_TL_NONE));
    emit(w, SW_TL_STEP_END, SW_TL_NONE, name);
}

sw_status sw_timeline_walk(const sw_timeline *t,
                           sw_status (*take)(void *context, const sw_tl_event *e),
                           void *context)
{
    walk w = {.take = take, .context = context, .phase = -1, .op = SW_TL_NONE, .layer = ""};
    for (size_t i = 0; i < t->n_runs && w.status == SW_OK; i++)
        walk_run(&w, t, &t->runs[i]);
    change_models(&w, NULL);
    SW_ASSERT(w.status != SW_OK || w.event.live == 0);
    sw_heap_free(w.live, SW_HEAP_PROFILE, 2 * (size_t)w.capacity * sizeof *w.live);
    sw_heap_free(w.position, SW_HEAP_PROFILE, w.capacity * sizeof *w.position);
    return w.status;
}
