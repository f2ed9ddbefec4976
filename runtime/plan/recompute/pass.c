/* The recomputation pass: schedules become traces, and the cheapest that fits is taken.
 *
 * Schedules are found for all peaks at once, the same whatever the limit is. Ops that can go
 * through their rows in parts have as few as each schedule leaves room for, and what these cost
 * is added to what it repeats. Each is laid out as a program of its own, since what counts is
 * the arena's height, placement included, and the cheapest that needs no more than the limit is
 * taken. So the choice among more room is always a choice among more: a larger limit never
 * means a slower plan. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/graph/trace.h"
#include "runtime/plan/recompute/pass.h"
#include "runtime/plan/recompute/recompute.h"
#include <stdio.h>
#include <string.h>

/* Repeats become nodes of the trace. */

typedef struct {
    swi_trace *t;
    uint32_t *storage; /* by plain storage: what its last run left */
    uint32_t *value;   /* by plain value: the same for the last that was asked for */
    uint32_t *operand; /* the plain ones: those of a first run change where it reads a repeat */
    uint8_t again;
} writer;

static sw_status add_storage(writer *w, uint32_t of, uint32_t *out)
{
    swi_trace *t = w->t;
    SW_TRY(
        sw_heap_reserve(&t->storages, SW_HEAP_PROGRAMS, &t->cap_storages, t->n_storages + 1));
    t->storages[t->n_storages] = t->storages[of];
    t->storages[t->n_storages].alias = t->n_storages;
    *out = t->n_storages++;
    return SW_OK;
}

static sw_status add_value(writer *w, uint32_t of, uint32_t storage, uint32_t *out)
{
    swi_trace *t = w->t;
    SW_TRY(sw_heap_reserve(&t->values, SW_HEAP_PROGRAMS, &t->cap_values, t->n_values + 1));
    t->values[t->n_values] = t->values[of];
    t->values[t->n_values].storage = storage;
    *out = t->n_values++;
    return SW_OK;
}

/* The plain value as the last run of its maker left it. */
static sw_status present(writer *w, uint32_t value, uint32_t *out)
{
    const uint32_t storage = w->storage[w->t->values[value].storage];
    if (w->t->values[w->value[value]].storage != storage)
        SW_TRY(add_value(w, value, storage, &w->value[value]));
    *out = w->value[value];
    return SW_OK;
}

static sw_status read_present(writer *w, uint32_t first, uint32_t plain, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t value;
        SW_TRY(present(w, w->operand[plain + k], &value));
        w->t->operands[first + k] = value;
    }
    return SW_OK;
}

/* A second run of `plain`, before node `before`: of its phase, and a part of the gradient
 * that it makes. */
static sw_status repeat(writer *w, uint32_t plain, uint32_t before, uint32_t *out)
{
    swi_trace *t = w->t;
    swi_node node = t->nodes[plain];
    const sw_phase phase = t->nodes[before].phase;
    const uint32_t from = node.first;
    SW_TRY(swi_reserve_nodes(t));
    SW_TRY(swi_reserve_operands(t, node.n_in + node.n_out));
    node.first = t->n_operands;
    node.phase = phase;
    node.is_backward = 1;
    node.again = w->again;
    node.again_of = plain;
    node.gradient_of = t->nodes[before].gradient_of;
    SW_TRY(read_present(w, node.first, from, node.n_in));
    for (uint32_t k = 0; k < node.n_out; k++) {
        const uint32_t value = w->operand[from + node.n_in + k];
        const uint32_t old = t->values[value].storage;
        SW_TRY(add_storage(w, old, &w->storage[old]));
        t->storages[w->storage[old]].phase = phase;
        SW_TRY(add_value(w, value, w->storage[old], &w->value[value]));
        t->values[w->value[value]].node = t->n_nodes;
        t->operands[node.first + node.n_in + k] = w->value[value];
    }
    if (node.scratch != SWI_NONE) {
        SW_TRY(add_storage(w, node.scratch, &node.scratch));
        t->storages[node.scratch].phase = phase;
    }
    t->n_operands += node.n_in + node.n_out;
    SW_ASSERT(plain < t->n_nodes && before < t->n_nodes && t->n_operands <= t->cap_operands);
    *out = t->n_nodes;
    t->nodes[t->n_nodes++] = node;
    return SW_OK;
}

static sw_status rewrite_ops(writer *w, const uint32_t *plain_order, const swi_rc_schedule *s,
                             uint32_t *order)
{
    swi_trace *t = w->t;
    uint32_t first = 0;
    bool any = false;
    for (uint32_t i = 0; i < s->n_steps; i++) {
        if (s->steps[i] < first) {
            any = true;
            SW_TRY(repeat(w, plain_order[s->steps[i]], plain_order[first], &order[i]));
            continue;
        }
        order[i] = plain_order[first++];
        const swi_node *node = &t->nodes[order[i]];
        if (any)
            SW_TRY(read_present(w, node->first, node->first, node->n_in));
    }
    SW_ASSERT(first + s->repeats == s->n_steps);
    return SW_OK;
}

/* Write the repeats of a schedule into a trace that has no lifetimes yet: each is a node marked
 * `again`, with storages and values of its own, and later nodes read those. order: room for
 * schedule->n_steps, receives the nodes in the order of the steps. */
static sw_status rc_rewrite(swi_trace *t, const uint32_t *plain_order, const swi_rc_schedule *s,
                            uint8_t again, uint32_t *order)
{
    void *block;
    const size_t bytes =
        ((size_t)t->n_storages + t->n_values + t->n_operands) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    writer w = {.t = t, .storage = block, .again = again};
    w.value = w.storage + t->n_storages;
    w.operand = w.value + t->n_values;
    if (t->n_operands > 0)
        memcpy(w.operand, t->operands, t->n_operands * sizeof *w.operand);
    for (uint32_t i = 0; i < t->n_storages; i++)
        w.storage[i] = i;
    for (uint32_t i = 0; i < t->n_values; i++)
        w.value[i] = i;
    const sw_status status = rewrite_ops(&w, plain_order, s, order);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}

/* ---- pass -------------------------------------------------------------------------------- */

#define EXACT_ITEMS 24u
#define EXACT_NODES 150000u /* states of all searches of one program: well under a second */

/* The base from which schedules are laid out. */
typedef struct {
    swi_program *p;
    swi_order *order; /* where that of the chosen one goes */
    const swi_trace *base;
    const swi_order *plain;
    const sw_exec *exec;
    const swi_rc_parts *parts;
    const swi_rc_problem *problem; /* with the most parts */
    uint64_t from;                 /* what repeats cost at least */
    bool closely;                  /* look closely for cheaper schedules */
} pass;

typedef struct {
    swi_trace trace;
    swi_order order;
    size_t height, lower_bound;
    size_t need;    /* the room that it is chosen for: its height, or its schedule's peak where
                       that is more, since an output that no one reads takes no bytes in the end */
    uint64_t total; /* of repeats and parts; UINT64_MAX: there is no candidate */
    uint64_t cost;
    uint32_t repeats;
    const swi_rc_parts_choice *parts;
    const char *method;
} candidate;

static void candidate_free(candidate *c)
{
    swi_trace_free(&c->trace);
    swi_order_free(&c->order);
}

/* The trace of the schedule, in its order. */
static sw_status write(const pass *x, const swi_rc_schedule *schedule, candidate *out)
{
    int64_t rows;
    SW_TRY(swi_trace_copy(&out->trace, x->base));
    SW_TRY(swi_chunk(&out->trace, x->exec, out->parts->parts, &rows));
    SW_TRY(swi_order_take(&out->order, schedule->n_steps));
    out->order.n = schedule->n_steps;
    return rc_rewrite(&out->trace, x->plain->nodes, schedule, SWI_AGAIN_BUDGET,
                      out->order.nodes);
}

static sw_status lay_out(const pass *x, const swi_rc_schedule *s, uint32_t choice,
                         const char *method, candidate *out)
{
    const swi_rc_parts_choice *parts = &x->parts->choices[choice];
    *out = (candidate)SW_INIT(.total = s->cost + parts->cost, .cost = s->cost,
                              .repeats = s->repeats, .parts = parts,
                              .method = s->repeats > 0 ? method : "release");
    sw_status status = write(x, s, out);
    if (status == SW_OK)
        status = swi_lay_out(&out->trace, &out->order, !swi_target_of(x->exec)->opts.no_inplace,
                             &out->height, &out->lower_bound);
    if (status != SW_OK)
        candidate_free(out);
    else
        out->need = out->height > s->peak ? out->height : s->peak;
    return status;
}

/* The candidate becomes the program's trace. */
static void take(const pass *x, candidate *c)
{
    swi_program *p = x->p;
    sw_plan_info *info = &p->info;
    swi_trace_free(&p->trace);
    swi_order_free(x->order);
    p->trace = c->trace;
    *x->order = c->order;
    p->height = c->height;
    info->lower_bound_bytes = c->lower_bound;
    info->n_repeats = c->repeats;
    info->repeat_cost = c->cost;
    info->budget_cost = c->total;
    info->chunk_rows = c->parts->rows;
    info->repeat_operations = 0;
    info->n_released = 0;
    for (uint32_t i = 0; i < x->order->n; i++) {
        const swi_node *node = &p->trace.nodes[x->order->nodes[i]];
        info->n_released += node->is_update && node->release == SWI_RELEASABLE;
        if (node->again == SWI_AGAIN_BUDGET)
            info->repeat_operations += swi_node_operations(&p->trace, node);
    }
    snprintf(info->method, sizeof info->method, "%s", c->method);
}

/* May something with this cost of repeats still be cheaper than the best? */
static bool may_be_best(const candidate *best, uint64_t cost)
{
    return cost < best->total; /* the fewest parts cost nothing */
}

/* Lay `s` out with a choice of parts; where it fits it is in *fitting. */
static sw_status try_parts(const pass *x, const swi_rc_schedule *s, uint32_t choice,
                           const char *method, candidate *fitting, bool *fits)
{
    candidate c;
    SW_TRY(lay_out(x, s, choice, method, &c));
    *fits = c.need <= x->p->limit;
    if (*fits) {
        candidate_free(fitting);
        *fitting = c;
    } else {
        candidate_free(&c);
    }
    return SW_OK;
}

/* The schedule becomes the best where it fits and is cheaper, with as few parts as fit. Bytes
 * that no one reads are in a peak and not in a height, so fewer may fit than it says. */
static sw_status consider(const pass *x, const swi_rc_schedule *s, const char *method,
                          candidate *best)
{
    const swi_rc_parts *parts = x->parts;
    candidate fitting = {.total = UINT64_MAX};
    uint32_t first;
    bool fits = false;
    if (s->peak > x->p->limit || s->cost < x->from || !may_be_best(best, s->cost))
        return SW_OK;
    SW_TRY(swi_rc_parts_fitting(parts, x->problem, s, x->p->limit, &first));
    sw_status status = SW_OK;
    for (uint32_t i = first; status == SW_OK && !fits && i < parts->n; i++)
        if (may_be_best(best, s->cost + parts->choices[i].cost))
            status = try_parts(x, s, i, method, &fitting, &fits);
    for (uint32_t i = first; status == SW_OK && fits && i-- > 0;)
        status = try_parts(x, s, i, method, &fitting, &fits);
    if (status != SW_OK || fitting.total == UINT64_MAX) {
        candidate_free(&fitting);
        return status;
    }
    candidate_free(best);
    *best = fitting;
    return SW_OK;
}

/* The family's schedules from the first on, as long as they cost less than the best, and at
 * most `n`. */
static sw_status consider_chain(const pass *x, const swi_rc_family *family, uint32_t n,
                                candidate *best)
{
    for (uint32_t i = 0; i < n && may_be_best(best, family->schedules[i].cost); i++)
        SW_TRY(consider(x, &family->schedules[i], "chain", best));
    return SW_OK;
}

/* A program that is looked at twice, with its rebuilds and without, has half of them each. */
static uint64_t search_nodes(const pass *x)
{
    const bool once = x->closely && x->from == 0;
    return x->problem->n_items > EXACT_ITEMS ? 0 : once ? EXACT_NODES : EXACT_NODES / 2;
}

/* The cheapest schedules of all, peak by peak downward from that of the whole program, until
 * none can be the best or the nodes run out: the same sequence for every limit. `schedule` is
 * the last of them. *least: no schedule under the limit costs less. */
static sw_status consider_searched(const pass *x, size_t peak, swi_rc_schedule *schedule,
                                   candidate *best, uint64_t *least)
{
    uint64_t nodes = search_nodes(x);
    bool found = true;
    while (nodes > 0 && peak > 0 && found) {
        uint64_t proved;
        SW_TRY(swi_rc_exact(x->problem, peak - 1, &nodes, schedule, &found, &proved));
        if (found)
            proved = schedule->cost;
        if (peak > x->p->limit && proved > *least)
            *least = proved;
        if (!found || !may_be_best(best, schedule->cost))
            return SW_OK;
        peak = schedule->peak;
        SW_TRY(consider(x, schedule, "search", best));
    }
    return SW_OK;
}

/* Lay `s` out with the most parts, and keep it in *best where it needs less, or as much for
 * less work. Placed, it may need more than its peak; then fewer parts may need less. */
static sw_status try_lowest(const pass *x, const swi_rc_schedule *s, const char *method,
                            candidate *best)
{
    const swi_rc_parts *parts = x->parts;
    uint32_t first = parts->n - 1;
    size_t need = SIZE_MAX;
    if (s->cost < x->from)
        return SW_OK;
    if (s->peak < best->need)
        SW_TRY(swi_rc_parts_fitting(parts, x->problem, s, best->need - 1, &first));
    for (uint32_t i = parts->n; need > s->peak && i-- > first;) {
        candidate c;
        SW_TRY(lay_out(x, s, i, method, &c));
        need = c.need;
        if (need > best->need || (need == best->need && c.total >= best->total)) {
            candidate_free(&c);
            continue;
        }
        candidate_free(best);
        *best = c;
    }
    return SW_OK;
}

/* The search again, as consider_searched had it: placed, a schedule with its peak above the
 * limit may need less than those with a lower one. */
static sw_status search_lowest(const pass *x, size_t peak, candidate *best)
{
    uint64_t nodes = search_nodes(x);
    swi_rc_schedule schedule = {0};
    sw_status status = SW_OK;
    while (status == SW_OK && nodes > 0 && peak > 0) {
        bool some = false;
        uint64_t proved;
        status = swi_rc_exact(x->problem, peak - 1, &nodes, &schedule, &some, &proved);
        if (status != SW_OK || !some)
            break;
        peak = schedule.peak;
        if (peak < best->need)
            status = try_lowest(x, &schedule, "search", best);
    }
    swi_rc_free(&schedule);
    return status;
}

/* Nothing fits: the program becomes what needs the least room of all that a larger limit could
 * choose from, and asks for that. */
static sw_status take_lowest(const pass *x, const swi_rc_family *family)
{
    candidate best = {.need = x->p->height};
    const size_t plain = best.need;
    sw_status status = search_lowest(x, family->schedules[0].peak, &best);
    for (uint32_t k = family->n; status == SW_OK && k-- > 0;) {
        if (family->schedules[k].peak > best.need)
            break; /* nor is any before it lower */
        status = try_lowest(x, &family->schedules[k], "chain", &best);
    }
    if (status != SW_OK || best.need == plain) {
        candidate_free(&best);
        return status;
    }
    take(x, &best);
    x->p->height = best.need;
    return SW_OK;
}

/* The best of all schedules is taken, or the lowest. *least: no schedule under the limit
 * repeats less. */
static sw_status choose_from(const pass *x, const swi_rc_family *family, uint64_t *least)
{
    swi_rc_schedule searched = {0};
    candidate best = {.total = UINT64_MAX};
    sw_status status = consider_chain(x, family, 1, &best); /* what repeats nothing */
    if (status == SW_OK)
        status = consider_searched(x, family->schedules[0].peak, &searched, &best, least);
    swi_rc_free(&searched);
    if (status == SW_OK)
        status = consider_chain(x, family, family->n, &best);
    if (status == SW_OK && best.total < UINT64_MAX) {
        take(x, &best);
        return SW_OK;
    }
    candidate_free(&best);
    return status == SW_OK ? take_lowest(x, family) : status;
}

/* The best of the bounds. */
static sw_status prove(const pass *x, uint64_t *least)
{
    uint64_t other = 0;
    SW_TRY(swi_rc_bound(x->problem, x->p->limit, least));
    if (*least == 0 || *least == UINT64_MAX)
        return SW_OK;
    SW_TRY(swi_rc_single(x->problem, x->p->limit, &other, NULL));
    *least = other > *least ? other : *least;
    return SW_OK;
}

static sw_status choose(const pass *x, const uint32_t *backward_of)
{
    swi_rc_family family = {0};
    uint64_t *least = &x->p->info.least_repeat_cost;
    sw_status status = prove(x, least);
    if (status == SW_OK)
        status = swi_rc_chain(x->problem, backward_of, &family);
    if (status == SW_OK && x->closely)
        status = swi_rc_drop(x->problem, &family);
    if (status == SW_OK)
        status = choose_from(x, &family, least);
    swi_rc_family_free(&family);
    return status;
}

static sw_status recompute(pass *x, swi_trace *in_parts, int64_t fewest, int64_t most)
{
    swi_rc_trace_problem problem = {0};
    swi_rc_parts parts = {0};
    sw_status status = swi_rc_parts_of(&parts, in_parts, x->plain, x->exec, fewest, most);
    if (status == SW_OK)
        status = swi_rc_problem_of(&problem, in_parts, x->plain->nodes, x->plain->n,
                                   !swi_target_of(x->exec)->opts.no_inplace);
    x->parts = &parts;
    x->problem = &problem.p;
    if (status == SW_OK)
        status = choose(x, problem.backward_of);
    swi_rc_problem_free(&problem);
    swi_rc_parts_free(&parts);
    return status;
}

sw_status swi_recompute(swi_program *p, const swi_trace *base, const swi_order *plain,
                        const sw_exec *exec, int64_t fewest, int64_t most, uint64_t from,
                        bool closely, swi_order *order)
{
    pass x = SW_INIT(.p = p, .order = order, .base = base, .plain = plain, .exec = exec,
                     .from = from, .closely = closely);
    swi_trace in_parts = {0};
    sw_status status = swi_trace_copy(&in_parts, base);
    if (status == SW_OK)
        status = recompute(&x, &in_parts, fewest, most > fewest ? most : fewest);
    swi_trace_free(&in_parts);
    return status;
}

/* ---- rebuild ----------------------------------------------------------------------------- */

/* The rebuild pass: results of cheap ops that backward reads are not kept until then. They
 * are recomputed right before their first reader, where their operands are kept anyway.
 *
 * A norm keeps its input for its own gradient, swish keeps what the norm made, the convolution
 * after them what swish made: three tensors where the first is enough. An op says in its
 * descriptor that it is cheap (`rebuild`). Its results go where each operand is there at the
 * first reader: of the model or the inputs and not overwritten yet, kept until then for another
 * reader, or recomputed themselves. The same kernels read the same bytes, so bits stay.
 *
 * A rebuild needs its operands in memory, so it can also raise the peak. While leaving one
 * rebuild out lowers the peak, that result is kept after all; and where the peak would
 * still be above that of the program without rebuilds, nothing is rebuilt. */

#define MAX_DEPTH 12 /* of cheap ops on cheap ops: what a result may cost at most */
#define TRIAL_STEPS                                                                            \
    ((uint64_t)4 << 20) /* of all schedules that are tried; measured: 30 ns each, so 0.13 s at \
                           most, and 0.3 ms for the 9,989 of mbconv */

/* Facts of an item: reads by ops of the backward part, SWI_NONE where there is none. */
typedef struct {
    uint32_t last_forward, first, last;
    bool gone;     /* not kept: recomputed */
    uint32_t made; /* the reader before which it was recomputed last; SWI_NONE: not yet */
} rebuild_item;

typedef struct {
    const swi_rc_problem *p;
    const bool *cheap; /* by op */
    rebuild_item *items;
    uint32_t backward; /* the first op of the backward part */
    swi_rc_schedule *schedule;
    uint64_t steps; /* that may still be tried */
} session;

/* Is item i there before op t, or can it be made there? */
static bool there(const session *s, uint32_t i, uint32_t t, int depth)
{
    const rebuild_item *x = &s->items[i];
    if (!x->gone && x->last != SWI_NONE && x->last >= t)
        return true;
    const uint32_t maker = s->p->items[i].maker;
    const swi_rc_op *op = &s->p->ops[maker];
    if (!s->cheap[maker] || t > op->until || depth == 0)
        return false;
    for (uint32_t k = 0; k < op->n_reads; k++)
        if (!there(s, s->p->reads[op->reads + k], t, depth - 1))
            return false;
    return true;
}

/* The first op of the backward part that reads something that op t makes, if something else
 * runs before it that could use the room; else SWI_NONE. */
static uint32_t first_reader(const session *s, const swi_rc_op *op)
{
    uint32_t first = SWI_NONE, before = 0;
    for (uint32_t k = 0; k < op->n_makes; k++) {
        const rebuild_item *x = &s->items[s->p->makes[op->makes + k]];
        first = x->first < first ? x->first : first;
        before = x->last_forward > before ? x->last_forward : before;
    }
    return first != SWI_NONE && first > before + 1 ? first : SWI_NONE;
}

/* Recompute item i before op t, unless it is in memory. */
static sw_status make(session *s, uint32_t i, uint32_t t)
{
    const rebuild_item *x = &s->items[i];
    const bool kept = !x->gone && x->last != SWI_NONE && x->last >= t;
    if (kept ||
        (x->made != SWI_NONE && (x->made == t || (x->last != SWI_NONE && x->last >= t))))
        return SW_OK;
    const uint32_t maker = s->p->items[i].maker;
    const swi_rc_op *op = &s->p->ops[maker];
    for (uint32_t k = 0; k < op->n_reads; k++)
        SW_TRY(make(s, s->p->reads[op->reads + k], t));
    for (uint32_t k = 0; k < op->n_makes; k++)
        s->items[s->p->makes[op->makes + k]].made = t;
    return swi_rc_append(s->schedule, maker);
}

/* ---- the peak ---------------------------------------------------------------------------- */

/* The schedule of what is gone now. */
static sw_status make_schedule(session *s)
{
    s->schedule->n_steps = 0;
    for (uint32_t i = 0; i < s->p->n_items; i++)
        s->items[i].made = SWI_NONE;
    for (uint32_t t = 0; t < s->p->n_ops; t++) {
        const swi_rc_op *op = &s->p->ops[t];
        for (uint32_t k = 0; t >= s->backward && k < op->n_reads; k++)
            SW_TRY(make(s, s->p->reads[op->reads + k], t));
        SW_TRY(swi_rc_append(s->schedule, t));
    }

    s->steps -= s->schedule->n_steps < s->steps ? s->schedule->n_steps : s->steps;
    return swi_rc_follow(s->p, s->schedule);
}

static void set_gone(session *s, uint32_t op, bool gone)
{
    for (uint32_t k = 0; k < s->p->ops[op].n_makes; k++)
        s->items[s->p->makes[s->p->ops[op].makes + k]].gone = gone;
}

/* Keep what lowers the peak most of all that could be kept; *better: there was something. */
static sw_status keep_one(session *s, bool *again, bool *at_peak, bool *better)
{
    size_t least = s->schedule->peak;
    uint32_t best = SWI_NONE;
    /* Mark the ops that have run again up to the peak with results that are read at it or
     * after it. `again`: by rebuild_item, whether a repeat has made what is there;
     * `at_peak`: by op. */
    uint32_t first = 0;
    memset(again, 0, s->p->n_items);
    memset(at_peak, 0, s->p->n_ops);
    for (uint32_t i = 0; i < s->schedule->n_steps; i++) {
        const uint32_t t = s->schedule->steps[i];
        const swi_rc_op *op = &s->p->ops[t];
        const bool repeat = t < first, before = i <= s->schedule->peak_step;
        for (uint32_t k = 0; k < op->n_reads && i >= s->schedule->peak_step; k++) {
            const uint32_t x = s->p->reads[op->reads + k];
            at_peak[s->p->items[x].maker] |= again[x];
        }
        for (uint32_t k = 0; k < op->n_makes; k++)
            again[s->p->makes[op->makes + k]] = repeat && before;
        if (repeat && i == s->schedule->peak_step)
            at_peak[t] = true;
        first += !repeat;
    }
    for (uint32_t t = 0; t < s->backward && s->steps > 0; t++) {
        if (!at_peak[t])
            continue;
        set_gone(s, t, false);
        SW_TRY(make_schedule(s));
        set_gone(s, t, true);
        if (s->schedule->peak < least) {
            least = s->schedule->peak;
            best = t;
        }
    }
    *better = best != SWI_NONE;
    if (*better)
        set_gone(s, best, false);
    return make_schedule(s);
}

/* *without: the peak of the program without rebuilds. */
static sw_status find_schedule(session *s, size_t *without)
{
    for (uint32_t i = 0; i < s->p->n_items; i++)
        s->items[i] = (rebuild_item){s->p->items[i].maker, SWI_NONE, SWI_NONE, false, SWI_NONE};
    for (uint32_t t = 0; t < s->p->n_ops; t++) {
        const swi_rc_op *op = &s->p->ops[t];
        for (uint32_t k = 0; k < op->n_reads; k++) {
            rebuild_item *x = &s->items[s->p->reads[op->reads + k]];
            if (t < s->backward) {
                x->last_forward = t;
                continue;
            }
            x->first = x->first == SWI_NONE ? t : x->first;
            x->last = t;
        }
    }
    SW_TRY(make_schedule(s));
    *without = s->schedule->peak;
    for (uint32_t t = 0; t < s->backward; t++) {
        const swi_rc_op *op = &s->p->ops[t];
        const uint32_t reader = s->cheap[t] ? first_reader(s, op) : SWI_NONE;
        bool all = reader != SWI_NONE && reader <= op->until;
        for (uint32_t k = 0; all && k < op->n_reads; k++)
            all = there(s, s->p->reads[op->reads + k], reader, MAX_DEPTH);
        for (uint32_t k = 0; all && k < op->n_makes; k++)
            s->items[s->p->makes[op->makes + k]].gone = true;
    }
    SW_TRY(make_schedule(s));
    /* Keep results after all until no single one lowers the peak; all of them where it is above
     * `plain` even so. */
    const size_t plain = *without;
    bool *again;
    bool better = s->schedule->repeats > 0;
    const size_t bytes = (size_t)s->p->n_items + s->p->n_ops;
    SW_TRY(sw_heap_alloc(&again, SW_HEAP_PROGRAMS, bytes));
    sw_status status = SW_OK;
    while (status == SW_OK && better && s->steps > 0)
        status = keep_one(s, again, again + s->p->n_items, &better);
    sw_heap_free(again, SW_HEAP_PROGRAMS, bytes);
    if (status != SW_OK || s->schedule->peak <= plain)
        return status;
    for (uint32_t j = 0; j < s->p->n_items; j++)
        s->items[j].gone = false;
    return make_schedule(s);
}

static sw_status schedule_of(const swi_rc_trace_problem *problem, const bool *cheap,
                             swi_rc_schedule *out, size_t *without)
{
    session s = {.p = &problem->p, .cheap = cheap, .schedule = out, .steps = TRIAL_STEPS};
    while (s.backward < s.p->n_ops && problem->backward_of[s.backward] == UINT32_MAX)
        s.backward++;
    const size_t bytes = s.p->n_items * sizeof(rebuild_item);
    SW_TRY(sw_heap_alloc(&s.items, SW_HEAP_PROGRAMS, bytes));
    const sw_status status = find_schedule(&s, without);
    sw_heap_free(s.items, SW_HEAP_PROGRAMS, bytes);
    return status;
}

/* ---- the pass ---------------------------------------------------------------------------- */

/* The nodes in the order of the schedule take the place of those in *order. */
static sw_status rewrite(swi_trace *t, swi_order *order, const swi_rc_schedule *schedule)
{
    swi_order next;
    SW_TRY(swi_order_take(&next, schedule->n_steps));
    const sw_status status =
        rc_rewrite(t, order->nodes, schedule, SWI_AGAIN_REBUILT, next.nodes);
    if (status != SW_OK) {
        swi_order_free(&next);
        return status;
    }
    next.n = schedule->n_steps;
    swi_order_free(order);
    *order = next;
    return SW_OK;
}

static sw_status rebuild(swi_trace *t, swi_order *order, bool inplace, bool *cheap,
                         size_t *without)
{
    swi_rc_trace_problem problem;
    swi_rc_schedule schedule = {0};
    for (uint32_t i = 0; i < order->n; i++)
        cheap[i] = swi_op(t->nodes[order->nodes[i]].op)->rebuild != 0;
    sw_status status = swi_rc_problem_of(&problem, t, order->nodes, order->n, inplace);
    if (status == SW_OK)
        status = schedule_of(&problem, cheap, &schedule, without);
    if (status == SW_OK && schedule.repeats > 0)
        status = rewrite(t, order, &schedule);
    swi_rc_free(&schedule);
    swi_rc_problem_free(&problem);
    return status;
}

bool swi_may_rebuild(const swi_trace *t)
{
    bool cheap = false, backward = false;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        cheap |= swi_op(t->nodes[i].op)->rebuild != 0;
        backward |= t->nodes[i].is_backward != 0;
    }
    return cheap && backward;
}

sw_status swi_rebuild(swi_trace *t, swi_order *order, bool inplace, size_t *without)
{
    void *cheap;
    const size_t bytes = order->n * sizeof(bool);
    SW_TRY(sw_heap_alloc(&cheap, SW_HEAP_PROGRAMS, bytes));
    const sw_status status = rebuild(t, order, inplace, cheap, without);
    sw_heap_free(cheap, SW_HEAP_PROGRAMS, bytes);
    return status;
}

/* ---- schedule ---------------------------------------------------------------------------- */

/* Following a schedule: what lives at each of its steps, and what its repeats cost. */

#define NOT_YET UINT32_MAX

/* One run of a maker is one instance of each of its items; `last` is the step of its last read,
 * or of its making. */
typedef struct {
    uint32_t *now;  /* by item: its instance, NOT_YET before it is made */
    uint32_t *last; /* by instance */
    void *block;
    size_t bytes;
} instances;

/* Is this step a repeat? Names what cannot be. */
static sw_status classify(const swi_rc_problem *p, uint32_t step, uint32_t op, uint32_t first,
                          bool *repeat)
{
    *repeat = op < first;
    if (op > first)
        SW_FAIL(SW_INVALID, "schedule: step %u is op %u before op %u", step, op, first);
    if (*repeat && (first >= p->n_ops || first > p->ops[op].until))
        SW_FAIL(SW_INVALID, "schedule: step %u repeats op %u before op %u: not after op %u",
                step, op, first, p->ops[op].until);
    return SW_OK;
}

/* Which steps read which instances; whether the steps can be at all. */
static sw_status find_step_reads(instances *in, const swi_rc_problem *p, swi_rc_schedule *s)
{
    uint32_t first = 0, made = 0;
    s->cost = 0;
    s->repeats = 0;
    memset(in->now, 0xff, p->n_items * sizeof *in->now);
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const swi_rc_op *op = &p->ops[s->steps[i]];
        bool repeat;
        SW_TRY(classify(p, i, s->steps[i], first, &repeat));
        for (uint32_t k = 0; k < op->n_reads; k++) {
            const uint32_t schedule_item = p->reads[op->reads + k];
            if (in->now[schedule_item] == NOT_YET)
                SW_FAIL(SW_INVALID, "schedule: step %u, op %u, reads item %u before it is made",
                        i, s->steps[i], schedule_item);
            in->last[in->now[schedule_item]] = i;
        }
        for (uint32_t k = 0; k < op->n_makes; k++) {
            in->now[p->makes[op->makes + k]] = made;
            in->last[made++] = i;
        }
        if (repeat) {
            s->cost += op->cost;
            s->repeats++;
        } else {
            first++;
        }
    }
    if (first != p->n_ops)
        SW_FAIL(SW_INVALID, "schedule: op %u of %u never runs", first, p->n_ops);
    return SW_OK;
}

/* Bytes that a result need not add, since it lies where a read lay that ends here. */
static size_t in_place(const instances *in, const swi_rc_problem *p, const swi_rc_op *op,
                       uint32_t step)
{
    for (uint32_t k = 0; k < op->n_reads && k < 32; k++) {
        const uint32_t schedule_item = p->reads[op->reads + k];
        if ((op->inplace >> k & 1u) != 0 && in->last[in->now[schedule_item]] == step)
            return p->items[schedule_item].bytes;
    }
    return 0;
}

static void find_peak(instances *in, const swi_rc_problem *p, swi_rc_schedule *s)
{
    uint32_t first = 0, made = 0;
    size_t live = 0;
    s->peak = 0;
    s->peak_step = 0;
    memset(in->now, 0xff, p->n_items * sizeof *in->now);
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const swi_rc_op *op = &p->ops[s->steps[i]];
        const bool repeat = s->steps[i] < first;
        SW_ASSERT(in_place(in, p, op, i) <= live);
        size_t at = live - in_place(in, p, op, i) +
                    (repeat ? p->between[first] + op->scratch : p->during[first]);
        for (uint32_t k = 0; k < op->n_makes; k++)
            at += p->items[p->makes[op->makes + k]].bytes;
        if (at > s->peak) {
            s->peak = at;
            s->peak_step = i;
        }
        for (uint32_t k = 0; k < op->n_reads; k++) {
            const uint32_t schedule_item = p->reads[op->reads + k];
            if (in->last[in->now[schedule_item]] != i)
                continue;
            SW_ASSERT(live >= p->items[schedule_item].bytes);
            live -= p->items[schedule_item].bytes;
        }
        for (uint32_t k = 0; k < op->n_makes; k++) {
            const uint32_t schedule_item = p->makes[op->makes + k];
            in->now[schedule_item] = made;
            if (in->last[made++] > i)
                live += p->items[schedule_item].bytes;
        }
        first += !repeat;
    }
    SW_ASSERT(live == 0 && first + s->repeats == s->n_steps);
}

sw_status swi_rc_follow(const swi_rc_problem *p, swi_rc_schedule *s)
{
    instances in;
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_steps; i++) {
        if (s->steps[i] >= p->n_ops)
            SW_FAIL(SW_INVALID, "schedule: step %u is op %u of %u", i, s->steps[i], p->n_ops);
        n += p->ops[s->steps[i]].n_makes;
    }
    in.bytes = (p->n_items + n) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&in.block, SW_HEAP_PROGRAMS, in.bytes));
    in.now = in.block;
    in.last = in.now + p->n_items;

    const sw_status status = find_step_reads(&in, p, s);
    if (status == SW_OK)
        find_peak(&in, p, s);
    sw_heap_free(in.block, SW_HEAP_PROGRAMS, in.bytes);
    return status;
}

/* ---- lists of steps ---------------------------------------------------------------------- */

sw_status swi_rc_append(swi_rc_schedule *s, uint32_t op)
{
    SW_TRY(sw_heap_reserve(&s->steps, SW_HEAP_PROGRAMS, &s->cap_steps, s->n_steps + 1));
    s->steps[s->n_steps++] = op;
    return SW_OK;
}

sw_status swi_rc_copy(swi_rc_schedule *to, const swi_rc_schedule *from)
{
    uint32_t *steps;
    SW_TRY(sw_heap_alloc(&steps, SW_HEAP_PROGRAMS, from->n_steps * sizeof *from->steps));
    *to = *from;
    to->steps = steps;
    to->cap_steps = from->n_steps;
    if (from->n_steps > 0)
        memcpy(to->steps, from->steps, from->n_steps * sizeof *from->steps);
    return SW_OK;
}

void swi_rc_free(swi_rc_schedule *s)
{
    sw_heap_free(s->steps, SW_HEAP_PROGRAMS, s->cap_steps * sizeof *s->steps);
    *s = (swi_rc_schedule){0};
}
