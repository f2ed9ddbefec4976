/* Numbers of units: branch and bound over variables in their order. */
#include "runtime/population/evolve/align_internal.h"
#include <math.h>
#include <string.h>

/* A row while the search runs: variables in front of `next` have values. */
typedef struct {
    const swi_row *row;
    int64_t sum;                 /* of those with values */
    uint32_t next;               /* term */
    const int64_t *least, *most; /* by term: sums from it on, at bounds of the variables */
    double slope, dev; /* what a difference of one costs; and counts for the largest */
} row_state;

typedef struct {
    uint32_t row, term;
} use;

typedef struct {
    const swi_sizes *x;
    row_state *rows;
    int64_t *low, *high; /* by variable */
    uint32_t *first_use; /* n_vars + 1: in `uses` */
    use *uses;
    int64_t *values, *best;
    bool found, stopped;
    double best_cost;
    uint64_t nodes;
} search;

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return -floor_div(-a, b);
}

/* ---- bounds of variables ------------------------------------------------------------------
 */

/* The least and the largest sum of a term. */
static int64_t at_low(const search *s, const swi_term *t)
{
    return t->coef * (t->coef > 0 ? s->low[t->var] : s->high[t->var]);
}

static int64_t at_high(const search *s, const swi_term *t)
{
    return t->coef * (t->coef > 0 ? s->high[t->var] : s->low[t->var]);
}

/* coef x value is in [low, high]. */
static bool narrow(int64_t coef, int64_t low, int64_t high, int64_t *from, int64_t *to)
{
    const int64_t least = coef > 0 ? ceil_div(low, coef) : ceil_div(high, coef);
    const int64_t most = coef > 0 ? floor_div(high, coef) : floor_div(low, coef);
    const bool better = least > *from || most < *to;
    *from = least > *from ? least : *from;
    *to = most < *to ? most : *to;
    return better;
}

/* Bounds of variables by one row. */
static bool narrow_row(search *s, const swi_row *row)
{
    int64_t least = 0, most = 0;
    bool better = false;
    for (uint32_t i = 0; i < row->n_terms; i++) {
        least += at_low(s, &row->terms[i]);
        most += at_high(s, &row->terms[i]);
    }
    for (uint32_t i = 0; i < row->n_terms; i++) {
        const swi_term *t = &row->terms[i];
        const int64_t low = at_low(s, t), high = at_high(s, t);
        better |= narrow(t->coef, row->low - (most - high), row->high - (least - low),
                         &s->low[t->var], &s->high[t->var]);
        least += at_low(s, t) - low;
        most += at_high(s, t) - high;
    }
    return better;
}

static bool bound(search *s)
{
    bool better = true;
    for (int pass = 0; pass < 64 && better; pass++) {
        better = false;
        for (uint32_t i = 0; i < s->x->n_rows; i++) {
            const swi_row *row = &s->x->rows[i];
            if (row->n_terms == 0 && (row->low > 0 || row->high < 0))
                return false;
            better |= narrow_row(s, row);
        }
        for (uint32_t v = 0; v < s->x->n_vars; v++)
            if (s->low[v] > s->high[v])
                return false;
    }
    return true;
}

/* ---- costs --------------------------------------------------------------------------------
 */

/* The least difference that a row with a sum between these has. */
static double difference(const row_state *r, int64_t low, int64_t high)
{
    const int64_t at = r->row->at;
    return at < low ? (double)(low - at) : at > high ? (double)(at - high) : 0;
}

/* With value z of the variable of this term, which is the next one. */
static double row_difference(const row_state *r, uint32_t term, int64_t z)
{
    const int64_t sum = r->sum + r->row->terms[term].coef * z;
    int64_t low = sum + r->least[term + 1], high = sum + r->most[term + 1];
    low = low < r->row->low ? r->row->low : low;
    high = high > r->row->high ? r->row->high : high;
    return difference(r, low, high);
}

typedef struct {
    double sum, largest;
} cost;

/* What rows without variable v cost at least. */
static cost others(const search *s, uint32_t v)
{
    cost c = {0, 0};
    uint32_t u = s->first_use[v];
    for (uint32_t i = 0; i < s->x->n_rows; i++) {
        const row_state *r = &s->rows[i];
        if (u < s->first_use[v + 1] && s->uses[u].row == i) {
            u++;
            continue;
        }
        const double d = difference(r, r->sum + r->least[r->next], r->sum + r->most[r->next]);
        c.sum += d * r->slope;
        c.largest = d * r->dev > c.largest ? d * r->dev : c.largest;
    }
    return c;
}

static double cost_at_least(const search *s, const cost *without, uint32_t v, int64_t z)
{
    cost c = *without;
    for (uint32_t u = s->first_use[v]; u < s->first_use[v + 1]; u++) {
        const row_state *r = &s->rows[s->uses[u].row];
        const double d = row_difference(r, s->uses[u].term, z);
        c.sum += d * r->slope;
        c.largest = d * r->dev > c.largest ? d * r->dev : c.largest;
    }
    return c.sum + 0.8 * c.largest;
}

/* ---- the search ----------------------------------------------------------------------------
 */

static double limit_of(const search *s)
{
    return s->found ? s->best_cost - 1e-9 * (1 + s->best_cost) : (double)INFINITY;
}

static void descend(search *s, uint32_t v);

static void try_value(search *s, uint32_t v, int64_t z)
{
    s->values[v] = z;
    for (uint32_t u = s->first_use[v]; u < s->first_use[v + 1]; u++) {
        row_state *r = &s->rows[s->uses[u].row];
        r->sum += r->row->terms[s->uses[u].term].coef * z;
        r->next++;
    }
    descend(s, v + 1);
    for (uint32_t u = s->first_use[v]; u < s->first_use[v + 1]; u++) {
        row_state *r = &s->rows[s->uses[u].row];
        r->sum -= r->row->terms[s->uses[u].term].coef * z;
        r->next--;
    }
}

static void narrow_to_rows(const search *s, uint32_t v, int64_t *from, int64_t *to)
{
    *from = s->low[v];
    *to = s->high[v];
    for (uint32_t u = s->first_use[v]; u < s->first_use[v + 1]; u++) {
        const row_state *r = &s->rows[s->uses[u].row];
        const uint32_t k = s->uses[u].term;
        (void)narrow(r->row->terms[k].coef, r->row->low - r->sum - r->most[k + 1],
                     r->row->high - r->sum - r->least[k + 1], from, to);
    }
}

/* Costs are convex in one value: the first z in [from, to] behind which they do not fall. */
static int64_t cheapest(const search *s, const cost *without, uint32_t v, int64_t from,
                        int64_t to)
{
    while (from < to) {
        const int64_t z = from + (to - from) / 2;
        if (cost_at_least(s, without, v, z + 1) < cost_at_least(s, without, v, z))
            from = z + 1;
        else
            to = z;
    }
    return from;
}

static void finish(search *s)
{
    const cost c = others(s, s->x->n_vars);
    const double sum = c.sum + 0.8 * c.largest;
    if (sum >= limit_of(s))
        return;
    s->found = true;
    s->best_cost = sum;
    memcpy(s->best, s->values, s->x->n_vars * sizeof *s->best);
}

/* All values that may be better than the best so far, from the present one outwards. */
static void descend(search *s, uint32_t v)
{
    int64_t from, to;
    if (v == s->x->n_vars) {
        finish(s);
        return;
    }
    narrow_to_rows(s, v, &from, &to);
    if (from > to)
        return;
    const cost without = others(s, v);
    const int64_t least = cheapest(s, &without, v, from, to);
    const int64_t present = s->x->vars[v].present;
    int64_t down = present < from ? from - 1 : present > to ? to : present;
    int64_t up = present > to ? to + 1 : down + 1;
    while (down >= from || up <= to) {
        const bool below = up > to || (down >= from && present - down <= up - present);
        const int64_t z = below ? down-- : up++;
        if (s->nodes >= s->x->max_nodes)
            s->stopped = true;
        if (s->stopped)
            return;
        s->nodes++;
        if (cost_at_least(s, &without, v, z) < limit_of(s))
            try_value(s, v, z);
        else if (below && z <= least)
            down = from - 1; /* further down is no cheaper */
        else if (!below && z >= least)
            up = to + 1;
    }
}

/* ---- all -----------------------------------------------------------------------------------
 */

static sw_status prepare_row(swi_scratch *scratch, const search *s, row_state *r)
{
    int64_t *least = NULL, *most = NULL;
    const uint32_t n = r->row->n_terms;
    SW_TRY(SWI_TAKE(scratch, least, n + 1));
    SW_TRY(SWI_TAKE(scratch, most, n + 1));
    for (uint32_t i = n; i-- > 0;) {
        least[i] = least[i + 1] + at_low(s, &r->row->terms[i]);
        most[i] = most[i + 1] + at_high(s, &r->row->terms[i]);
    }
    r->least = least;
    r->most = most;
    r->slope = r->row->kind == SWI_ROW_SIZE   ? 0.1 / (double)r->row->at
               : r->row->kind == SWI_ROW_WISH ? 1e6 / (double)r->row->before
                                              : 0;
    r->dev = r->row->kind == SWI_ROW_SIZE ? 1 / (double)r->row->at : 0;
    return SW_OK;
}

static sw_status find_uses(swi_scratch *scratch, search *s)
{
    const swi_sizes *x = s->x;
    SW_TRY(SWI_TAKE(scratch, s->first_use, x->n_vars + 2));
    for (uint32_t i = 0; i < x->n_rows; i++)
        for (uint32_t k = 0; k < x->rows[i].n_terms; k++)
            s->first_use[x->rows[i].terms[k].var + 2]++;
    for (uint32_t v = 0; v < x->n_vars; v++)
        s->first_use[v + 2] += s->first_use[v + 1];
    SW_TRY(SWI_TAKE(scratch, s->uses, s->first_use[x->n_vars + 1]));
    for (uint32_t i = 0; i < x->n_rows; i++)
        for (uint32_t k = 0; k < x->rows[i].n_terms; k++)
            s->uses[s->first_use[x->rows[i].terms[k].var + 1]++] = (use){i, k};
    return SW_OK;
}

static sw_status prepare(swi_scratch *scratch, search *s)
{
    const swi_sizes *x = s->x;
    SW_TRY(SWI_TAKE(scratch, s->rows, x->n_rows));
    SW_TRY(SWI_TAKE(scratch, s->values, x->n_vars));
    SW_TRY(SWI_TAKE(scratch, s->best, x->n_vars));
    for (uint32_t i = 0; i < x->n_rows; i++) {
        s->rows[i].row = &x->rows[i];
        SW_TRY(prepare_row(scratch, s, &s->rows[i]));
    }
    return find_uses(scratch, s);
}

sw_status swi_sizes_solve(swi_scratch *scratch, const swi_sizes *x, int64_t *values,
                          swi_solution *out)
{
    search s = {.x = x};
    *out = (swi_solution){.optimal = true};
    SW_TRY(SWI_TAKE(scratch, s.low, x->n_vars));
    SW_TRY(SWI_TAKE(scratch, s.high, x->n_vars));
    for (uint32_t v = 0; v < x->n_vars; v++) {
        s.low[v] = x->vars[v].low;
        s.high[v] = x->vars[v].high;
    }
    for (uint32_t v = 0; v < x->n_vars; v++)
        if (s.low[v] > s.high[v])
            return SW_OK;
    if (!bound(&s))
        return SW_OK;
    SW_TRY(prepare(scratch, &s));
    descend(&s, 0);
    *out = (swi_solution){s.found, !s.stopped, s.best_cost, s.nodes};
    if (s.found)
        memcpy(values, s.best, x->n_vars * sizeof *values);
    return SW_OK;
}
