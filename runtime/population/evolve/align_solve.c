/* Numbers of units: branch and bound over variables in their order.
 *
 * The least cost of a value is convex in it, so the values of a variable that may be better
 * than the best so far are a range. The search runs twice: first by the cheapest value of each
 * variable, until there is any solution; then outwards from the present values, with that one's
 * cost as the bound, so that the first of the best ones is found whatever the first run found.
 */
#include "runtime/population/evolve/align_search.h"
#include <math.h>
#include <string.h>

#define FIRST_NODES 10000 /* of the first run */

typedef struct {
    swi_bounds b;
    int64_t *values, *best;
    bool cheapest_first, found, stopped;
    double limit; /* costs must be below it */
    double cost;
    uint64_t nodes, max_nodes;
} search;

static void set_value(search *s, uint32_t v, int64_t z, int sign)
{
    s->values[v] = z;
    for (uint32_t u = s->b.first_use[v]; u < s->b.first_use[v + 1]; u++) {
        swi_row_state *r = &s->b.rows[s->b.uses[u].row];
        r->sum += sign * r->row->terms[s->b.uses[u].term].coef * z;
        r->next += (uint32_t)sign;
    }
}

static void finish(search *s)
{
    const swi_cost c = swi_cost_without(&s->b, s->b.x->n_vars);
    const double cost = swi_cost_total(&c);
    if (cost >= s->limit)
        return;
    s->found = true;
    s->stopped = s->cheapest_first; /* one is enough */
    s->cost = cost;
    s->limit = cost - 1e-9 * (1 + cost);
    memcpy(s->best, s->values, s->b.x->n_vars * sizeof *s->best);
}

/* ---- which values -------------------------------------------------------------------------
 */

typedef struct {
    const search *s;
    swi_cost without;
    uint32_t v;
    int64_t from, to;
} range;

static double cost_at(const range *r, int64_t z)
{
    return swi_cost_with(&r->s->b, &r->without, r->v, z);
}

/* The first value after which costs do not fall. */
static int64_t cheapest(const range *r)
{
    int64_t from = r->from, to = r->to;
    while (from < to) {
        const int64_t z = from + (to - from) / 2;
        if (cost_at(r, z + 1) < cost_at(r, z))
            from = z + 1;
        else
            to = z;
    }
    return from;
}

/* Leave the values with costs below the limit: `least` is the cheapest one. */
static void narrow(range *r, int64_t least)
{
    int64_t out = r->from - 1, in = least;
    while (in - out > 1) {
        const int64_t z = out + (in - out) / 2;
        *(cost_at(r, z) < r->s->limit ? &in : &out) = z;
    }
    r->from = in;
    out = r->to + 1;
    in = least;
    while (out - in > 1) {
        const int64_t z = in + (out - in) / 2;
        *(cost_at(r, z) < r->s->limit ? &in : &out) = z;
    }
    r->to = in;
}

/* ---- the search ----------------------------------------------------------------------------
 */

/* All values that may be better than the best so far, from the middle outwards. */
static void descend(search *s, uint32_t v)
{
    if (v == s->b.x->n_vars) {
        finish(s);
        return;
    }
    range r = {.s = s, .v = v};
    swi_bounds_of(&s->b, v, &r.from, &r.to);
    if (r.from > r.to)
        return;
    r.without = swi_cost_without(&s->b, v);
    const int64_t least = cheapest(&r);
    if (cost_at(&r, least) >= s->limit)
        return;
    narrow(&r, least);
    const int64_t middle = s->cheapest_first ? least : s->b.x->vars[v].present;
    int64_t down = middle < r.from ? r.from - 1 : middle > r.to ? r.to : middle;
    int64_t up = down + 1;
    while ((down >= r.from || up <= r.to) && !s->stopped) {
        const bool below = up > r.to || (down >= r.from && middle - down <= up - middle);
        const int64_t z = below ? down-- : up++;
        if (cost_at(&r, z) >= s->limit)
            continue;
        if (s->nodes++ >= s->max_nodes) {
            s->stopped = true;
            return;
        }
        set_value(s, v, z, 1);
        descend(s, v + 1);
        set_value(s, v, z, -1);
    }
}

static void run(search *s, bool cheapest_first)
{
    const uint64_t most = s->b.x->max_nodes, first = s->nodes + FIRST_NODES;
    s->max_nodes = cheapest_first && first < most ? first : most;
    s->cheapest_first = cheapest_first;
    s->stopped = false;
    descend(s, 0);
}

sw_status swi_sizes_solve(swi_scratch *scratch, const swi_sizes *x, int64_t *values,
                          swi_solution *out)
{
    search s = {.b = {.x = x}, .limit = (double)INFINITY};
    *out = (swi_solution){.optimal = true};
    SW_TRY(SWI_TAKE(scratch, s.b.low, x->n_vars));
    SW_TRY(SWI_TAKE(scratch, s.b.high, x->n_vars));
    SW_TRY(SWI_TAKE(scratch, s.values, x->n_vars));
    SW_TRY(SWI_TAKE(scratch, s.best, x->n_vars));
    for (uint32_t v = 0; v < x->n_vars; v++) {
        s.b.low[v] = x->vars[v].low;
        s.b.high[v] = x->vars[v].high;
    }
    if (!swi_bounds_narrow(&s.b))
        return SW_OK;
    SW_TRY(swi_bounds_prepare(scratch, &s.b));
    run(&s, true);
    if (s.found)
        s.limit = s.cost + 1e-9 * (1 + s.cost);
    if (s.found || s.stopped) /* else there is none */
        run(&s, false);
    *out = (swi_solution){s.found, !s.stopped, s.cost, s.nodes};
    if (s.found)
        memcpy(values, s.best, x->n_vars * sizeof *values);
    return SW_OK;
}
