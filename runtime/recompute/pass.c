/* The recomputation pass: schedules become traces, and the cheapest that fits is taken.
 *
 * Schedules are found for all peaks at once, the same whatever the limit is. Each is laid out
 * as a program of its own, since what counts is the arena's height, placement included, and the
 * first by cost that needs no more than the limit is taken. So the choice among more room is
 * always a choice among more schedules: a larger limit never means a slower plan. */
#include "runtime/recompute/pass.h"
#include <stdio.h>
#include <string.h>

#define EXACT_ITEMS 24u
#define EXACT_NODES 150000u /* states of all searches of one program: well under a second */

/* What schedules are laid out from, and where the chosen one goes. */
typedef struct {
    swi_program *p;
    swi_order *order;
    const swi_trace *base;
    const swi_order *plain;
    bool inplace;
} pass;

typedef struct {
    swi_trace trace;
    swi_order order;
    size_t height, lower_bound;
    size_t need; /* the room that it is chosen for: its height, or its schedule's peak where
                    that is more, since an output that nobody reads takes no bytes in the end */
} candidate;

static void candidate_free(candidate *c)
{
    swi_trace_free(&c->trace);
    swi_order_free(&c->order);
}

static sw_status lay_out(const pass *x, const swi_rc_schedule *schedule, candidate *out)
{
    *out = (candidate){0};
    sw_status status = swi_trace_copy(&out->trace, x->base);
    if (status == SW_OK)
        status = swi_order_take(&out->order, schedule->n_steps);
    if (status == SW_OK) {
        out->order.n = schedule->n_steps;
        status = swi_rc_rewrite(&out->trace, x->plain->nodes, schedule, SWI_AGAIN_BUDGET,
                                out->order.nodes);
    }
    if (status == SW_OK)
        status =
            swi_lay_out(&out->trace, &out->order, x->inplace, &out->height, &out->lower_bound);
    if (status != SW_OK)
        candidate_free(out);
    else
        out->need = out->height > schedule->peak ? out->height : schedule->peak;
    return status;
}

/* The candidate becomes the program's trace. */
static void take(const pass *x, candidate *c, const swi_rc_schedule *s, const char *method)
{
    swi_program *p = x->p;
    sw_plan_info *info = &p->info;
    swi_trace_free(&p->trace);
    swi_order_free(x->order);
    p->trace = c->trace;
    *x->order = c->order;
    p->height = c->height;
    info->lower_bound_bytes = c->lower_bound;
    info->n_repeats = s->repeats;
    info->repeat_cost = s->cost;
    info->repeat_operations = 0;
    info->n_released = 0;
    for (uint32_t i = 0; i < x->order->n; i++) {
        const swi_node *node = &p->trace.nodes[x->order->nodes[i]];
        info->n_released += node->is_update && node->release == SWI_RELEASABLE;
        if (node->again == SWI_AGAIN_BUDGET)
            info->repeat_operations += swi_node_operations(&p->trace, node);
    }
    snprintf(info->method, sizeof info->method, "%s", s->repeats > 0 ? method : "release");
}

/* The first of the family, by cost, that fits and costs less than `under`; *fits: there was
 * one. */
static sw_status take_chain(const pass *x, const swi_rc_family *family, uint64_t under,
                            bool *fits)
{
    for (uint32_t i = 0; i < family->n && family->schedules[i].cost < under; i++) {
        candidate c;
        const swi_rc_schedule *s = &family->schedules[i];
        if (s->peak > x->p->limit)
            continue;
        SW_TRY(lay_out(x, s, &c));
        if (c.need <= x->p->limit) {
            take(x, &c, s, "chain");
            *fits = true;
            return SW_OK;
        }
        candidate_free(&c);
    }
    return SW_OK;
}

/* The cheapest schedules of all, peak by peak downward from that of the whole program, until
 * one fits or the nodes run out: the same sequence for every limit. `schedule` is the last of
 * them; *cost that of the one that fits. *least: no schedule under the limit costs less. */
static sw_status take_searched(const pass *x, const swi_rc_problem *problem, size_t peak,
                               swi_rc_schedule *schedule, uint64_t *cost, uint64_t *least)
{
    uint64_t nodes = problem->n_items <= EXACT_ITEMS ? EXACT_NODES : 0;
    while (nodes > 0 && peak > 0) {
        bool found;
        uint64_t proved;
        candidate c;
        SW_TRY(swi_rc_exact(problem, peak - 1, &nodes, schedule, &found, &proved));
        if (found)
            proved = schedule->cost;
        if (peak > x->p->limit && proved > *least)
            *least = proved;
        if (!found)
            return SW_OK;
        peak = schedule->peak;
        if (peak > x->p->limit)
            continue;
        SW_TRY(lay_out(x, schedule, &c));
        if (c.need <= x->p->limit) {
            take(x, &c, schedule, "search");
            *cost = schedule->cost;
            return SW_OK;
        }
        candidate_free(&c);
    }
    return SW_OK;
}

/* Lay `s` out, and keep it in *best where it needs less; *found has its numbers then. */
static sw_status try_lowest(const pass *x, const swi_rc_schedule *s, candidate *best,
                            swi_rc_schedule *found)
{
    candidate c;
    SW_TRY(lay_out(x, s, &c));
    if (c.need >= best->need) {
        candidate_free(&c);
        return SW_OK;
    }
    candidate_free(best);
    *best = c;
    *found = (swi_rc_schedule){.peak = s->peak, .cost = s->cost, .repeats = s->repeats};
    return SW_OK;
}

/* The search again, as take_searched had it: placed, a schedule whose peak is above the limit
 * may need less than those with a lower one. */
static sw_status search_lowest(const pass *x, const swi_rc_problem *problem, size_t peak,
                               candidate *best, swi_rc_schedule *found)
{
    uint64_t nodes = problem->n_items <= EXACT_ITEMS ? EXACT_NODES : 0;
    swi_rc_schedule schedule = {0};
    sw_status status = SW_OK;
    while (status == SW_OK && nodes > 0 && peak > 0) {
        bool some = false;
        uint64_t proved;
        status = swi_rc_exact(problem, peak - 1, &nodes, &schedule, &some, &proved);
        if (status != SW_OK || !some)
            break;
        peak = schedule.peak;
        if (peak < best->need)
            status = try_lowest(x, &schedule, best, found);
    }
    swi_rc_free(&schedule);
    return status;
}

/* Nothing fits: the program becomes what needs the least room of all that a larger limit could
 * choose from, and asks for that. */
static sw_status take_lowest(const pass *x, const swi_rc_problem *problem,
                             const swi_rc_family *family)
{
    candidate best = {.need = x->p->height};
    const size_t plain = best.need;
    swi_rc_schedule found = {0};
    sw_status status = search_lowest(x, problem, family->schedules[0].peak, &best, &found);
    const size_t searched = best.need;
    for (uint32_t k = family->n; status == SW_OK && k-- > 0;) {
        if (family->schedules[k].peak >= best.need)
            break; /* nor is any before it lower */
        status = try_lowest(x, &family->schedules[k], &best, &found);
    }
    if (status != SW_OK || best.need == plain) {
        candidate_free(&best);
        return status;
    }
    take(x, &best, &found, best.need == searched ? "search" : "chain");
    x->p->height = best.need;
    return SW_OK;
}

static sw_status choose(const pass *x, const swi_rc_trace_problem *problem)
{
    swi_rc_family family = {0};
    swi_rc_schedule searched = {0};
    bool fits = false;
    uint64_t cost = UINT64_MAX, least = 0;
    sw_status status = swi_rc_chain(&problem->p, problem->backward_of, &family);
    if (status == SW_OK)
        status = take_chain(x, &family, 1, &fits); /* what repeats nothing */
    if (status == SW_OK && !fits)
        status =
            take_searched(x, &problem->p, family.schedules[0].peak, &searched, &cost, &least);
    if (status == SW_OK && !fits)
        status = take_chain(x, &family, cost, &fits);
    if (status == SW_OK && !fits && cost == UINT64_MAX)
        status = take_lowest(x, &problem->p, &family);
    if (status == SW_OK)
        status = swi_rc_bound(&problem->p, x->p->limit, &x->p->info.least_repeat_cost);
    if (least > x->p->info.least_repeat_cost)
        x->p->info.least_repeat_cost = least;
    swi_rc_free(&searched);
    swi_rc_family_free(&family);
    return status;
}

sw_status swi_recompute(swi_program *p, const swi_trace *base, const swi_order *plain,
                        bool inplace, swi_order *order)
{
    const pass x = {p, order, base, plain, inplace};
    swi_rc_trace_problem problem;
    sw_status status = swi_rc_problem_of(&problem, base, plain->nodes, plain->n, inplace);
    if (status == SW_OK)
        status = choose(&x, &problem);
    swi_rc_problem_free(&problem);
    return status;
}
