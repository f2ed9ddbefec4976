/* The recomputation pass: schedules become traces, and the cheapest that fits is taken.
 *
 * Schedules are found for all peaks at once, the same whatever the limit is. Ops that can go
 * through their rows in parts have as few as each schedule leaves room for, and what these cost
 * is added to what it repeats. Each is laid out as a program of its own, since what counts is
 * the arena's height, placement included, and the cheapest that needs no more than the limit is
 * taken. So the choice among more room is always a choice among more: a larger limit never
 * means a slower plan. */
#include "runtime/plan/recompute/pass.h"
#include <stdio.h>
#include <string.h>

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
    return swi_rc_rewrite(&out->trace, x->plain->nodes, schedule, SWI_AGAIN_BUDGET,
                          out->order.nodes);
}

static sw_status lay_out(const pass *x, const swi_rc_schedule *s, uint32_t choice,
                         const char *method, candidate *out)
{
    const swi_rc_parts_choice *parts = &x->parts->choices[choice];
    *out = (candidate){.total = s->cost + parts->cost,
                       .cost = s->cost,
                       .repeats = s->repeats,
                       .parts = parts,
                       .method = s->repeats > 0 ? method : "release"};
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
 * less work. */
static sw_status try_lowest(const pass *x, const swi_rc_schedule *s, const char *method,
                            candidate *best)
{
    candidate c;
    if (s->cost < x->from)
        return SW_OK;
    SW_TRY(lay_out(x, s, x->parts->n - 1, method, &c));
    if (c.need > best->need || (c.need == best->need && c.total >= best->total)) {
        candidate_free(&c);
        return SW_OK;
    }
    candidate_free(best);
    *best = c;
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
    pass x = {.p = p,
              .order = order,
              .base = base,
              .plain = plain,
              .exec = exec,
              .from = from,
              .closely = closely};
    swi_trace in_parts = {0};
    sw_status status = swi_trace_copy(&in_parts, base);
    if (status == SW_OK)
        status = recompute(&x, &in_parts, fewest, most > fewest ? most : fewest);
    swi_trace_free(&in_parts);
    return status;
}
