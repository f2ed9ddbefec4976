/* The rebuild pass: results of cheap ops that backward reads are not kept until then. They
 * are recomputed right before their first reader, where their operands are kept anyway.
 *
 * A norm keeps its input for its own gradient, swish keeps what the norm made, the
 * convolution after them what swish made: three tensors where the first is enough. An op
 * says in its descriptor that it is cheap (`rebuild`). Its results go where each operand is
 * there at the first reader: of the model or the inputs and not overwritten yet, kept until
 * then for another reader, or recomputed themselves. The same kernels read the same bytes, so
 * bits stay.
 *
 * A rebuild needs its operands in memory, so it can also raise the peak. While leaving one
 * rebuild out lowers the peak, that result is kept after all; and where the peak would
 * still be above that of the program without rebuilds, nothing is rebuilt. */
#include "alloc/base/mem.h"
#include "runtime/plan/recompute/pass.h"
#include <string.h>

#define MAX_DEPTH 12 /* of cheap ops on cheap ops: what a result may cost at most */
#define TRIAL_STEPS                                                                            \
    ((uint64_t)4 << 20) /* of all schedules that are tried; measured: 30 ns each, so 0.13 s at \
                           most, and 0.3 ms for the 9,989 of mbconv */

/* Facts of an item: reads by ops of the backward part, SWI_NONE where there is none. */
typedef struct {
    uint32_t last_forward, first, last;
    bool gone;     /* not kept: recomputed */
    uint32_t made; /* the reader before which it was recomputed last; SWI_NONE: not yet */
} item;

typedef struct {
    const swi_rc_problem *p;
    const bool *cheap; /* by op */
    item *items;
    uint32_t backward; /* the first op of the backward part */
    swi_rc_schedule *schedule;
    uint64_t steps; /* that may still be tried */
} session;

static void find_reads(session *s)
{
    for (uint32_t i = 0; i < s->p->n_items; i++)
        s->items[i] = (item){s->p->items[i].maker, SWI_NONE, SWI_NONE, false, SWI_NONE};
    for (uint32_t t = 0; t < s->p->n_ops; t++) {
        const swi_rc_op *op = &s->p->ops[t];
        for (uint32_t k = 0; k < op->n_reads; k++) {
            item *x = &s->items[s->p->reads[op->reads + k]];
            if (t < s->backward) {
                x->last_forward = t;
                continue;
            }
            x->first = x->first == SWI_NONE ? t : x->first;
            x->last = t;
        }
    }
}

/* Is item i there before op t, or can it be made there? */
static bool there(const session *s, uint32_t i, uint32_t t, int depth)
{
    const item *x = &s->items[i];
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
        const item *x = &s->items[s->p->makes[op->makes + k]];
        first = x->first < first ? x->first : first;
        before = x->last_forward > before ? x->last_forward : before;
    }
    return first != SWI_NONE && first > before + 1 ? first : SWI_NONE;
}

static void choose(session *s)
{
    for (uint32_t t = 0; t < s->backward; t++) {
        const swi_rc_op *op = &s->p->ops[t];
        const uint32_t reader = s->cheap[t] ? first_reader(s, op) : SWI_NONE;
        bool all = reader != SWI_NONE && reader <= op->until;
        for (uint32_t k = 0; all && k < op->n_reads; k++)
            all = there(s, s->p->reads[op->reads + k], reader, MAX_DEPTH);
        for (uint32_t k = 0; all && k < op->n_makes; k++)
            s->items[s->p->makes[op->makes + k]].gone = true;
    }
}

/* Recompute item i before op t, unless it is in memory. */
static sw_status make(session *s, uint32_t i, uint32_t t)
{
    const item *x = &s->items[i];
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

static sw_status write_schedule(session *s)
{
    for (uint32_t t = 0; t < s->p->n_ops; t++) {
        const swi_rc_op *op = &s->p->ops[t];
        for (uint32_t k = 0; t >= s->backward && k < op->n_reads; k++)
            SW_TRY(make(s, s->p->reads[op->reads + k], t));
        SW_TRY(swi_rc_append(s->schedule, t));
    }
    return SW_OK;
}

/* ---- the peak ---------------------------------------------------------------------------- */

/* The schedule of what is gone now. */
static sw_status make_schedule(session *s)
{
    s->schedule->n_steps = 0;
    for (uint32_t i = 0; i < s->p->n_items; i++)
        s->items[i].made = SWI_NONE;
    SW_TRY(write_schedule(s));
    s->steps -= s->schedule->n_steps < s->steps ? s->schedule->n_steps : s->steps;
    return swi_rc_follow(s->p, s->schedule);
}

static void set_gone(session *s, uint32_t op, bool gone)
{
    for (uint32_t k = 0; k < s->p->ops[op].n_makes; k++)
        s->items[s->p->makes[s->p->ops[op].makes + k]].gone = gone;
}

/* Mark the ops that have run again up to the peak with results that are read at it or after it.
 * `again`: by item, whether a repeat has made what is there; `at_peak`: by op. */
static void mark_at_peak(const session *s, bool *again, bool *at_peak)
{
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
}

/* Keep what lowers the peak most of all that could be kept; *better: there was something. */
static sw_status keep_one(session *s, bool *again, bool *at_peak, bool *better)
{
    size_t least = s->schedule->peak;
    uint32_t best = SWI_NONE;
    mark_at_peak(s, again, at_peak);
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

/* Keep results after all until no single one lowers the peak; all of them where it is above
 * `plain` even so. */
static sw_status lower_peak(session *s, size_t plain)
{
    void *block;
    bool better = s->schedule->repeats > 0;
    const size_t bytes = (size_t)s->p->n_items + s->p->n_ops;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    bool *again = block;
    sw_status status = SW_OK;
    while (status == SW_OK && better && s->steps > 0)
        status = keep_one(s, again, again + s->p->n_items, &better);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    if (status != SW_OK || s->schedule->peak <= plain)
        return status;
    for (uint32_t i = 0; i < s->p->n_items; i++)
        s->items[i].gone = false;
    return make_schedule(s);
}

/* *without: the peak of the program without rebuilds. */
static sw_status find_schedule(session *s, size_t *without)
{
    find_reads(s);
    SW_TRY(make_schedule(s));
    *without = s->schedule->peak;
    choose(s);
    SW_TRY(make_schedule(s));
    return lower_peak(s, *without);
}

static sw_status schedule_of(const swi_rc_trace_problem *problem, const bool *cheap,
                             swi_rc_schedule *out, size_t *without)
{
    void *items;
    session s = {.p = &problem->p, .cheap = cheap, .schedule = out, .steps = TRIAL_STEPS};
    while (s.backward < s.p->n_ops && problem->backward_of[s.backward] == UINT32_MAX)
        s.backward++;
    const size_t bytes = s.p->n_items * sizeof(item);
    SW_TRY(sw_heap_alloc(&items, SW_HEAP_PROGRAMS, bytes));
    s.items = items;
    const sw_status status = find_schedule(&s, without);
    sw_heap_free(items, SW_HEAP_PROGRAMS, bytes);
    return status;
}

/* ---- the pass ---------------------------------------------------------------------------- */

/* The nodes in the order of the schedule take the place of those in *order. */
static sw_status rewrite(swi_trace *t, swi_order *order, const swi_rc_schedule *schedule)
{
    swi_order next;
    SW_TRY(swi_order_take(&next, schedule->n_steps));
    const sw_status status =
        swi_rc_rewrite(t, order->nodes, schedule, SWI_AGAIN_REBUILT, next.nodes);
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
