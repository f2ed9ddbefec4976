/* Numbers of units: branch and bound over variables in their order.
 *
 * The least cost of a value is convex in it, so the values of a variable that may be better
 * than the best so far are a range. The search runs twice: first by the cheapest value of each
 * variable, until there is any solution; then outwards from the present values, with that one's
 * cost as the bound, so that the first of the best ones is found whatever the first run found.
 */
#include "alloc/base/order.h"
#include "runtime/population/evolve/align.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the terms of a row from one on. */
typedef struct {
    int64_t least, most; /* their sum, at bounds of the variables */
    int64_t rest;        /* their sum, where each costs least by itself */
} swi_tail;

/* The place that can take up a difference of a row's sum: a variable, or the row itself. */
typedef struct {
    uint32_t term;    /* SWI_ITSELF: the row */
    double rate;      /* what a difference of one costs at least */
    double size, off; /* at most `off` and a share of `size`, which counts for the largest */
} swi_taker;
#define SWI_ITSELF UINT32_MAX

/* A row while the search runs: its terms before `next` have values. */
typedef struct {
    const swi_row *row;
    int64_t sum; /* of those with values */
    uint32_t next;
    const swi_tail *tails;   /* n_terms + 1 */
    const swi_taker *takers; /* cheapest first */
    uint32_t n_takers;
    double slope, dev; /* what a difference of one costs; and counts for the largest */
    bool mixed;        /* has coefficients below 0 */
} swi_row_state;

typedef struct {
    uint32_t row, term;
} swi_use;

typedef struct {
    const swi_sizes *x;
    swi_row_state *rows;
    int64_t *low, *high; /* by variable */
    uint32_t *first_use; /* by variable and one more: in `uses`, which are by row */
    swi_use *uses;
} swi_bounds;

/* Least costs: of the rows in sum, their largest share, and what one of them with what its
 * variables must take up costs more than it does in `sum`, the largest share included. */
typedef struct {
    double sum, largest, tail;
} swi_cost;

/* The least cost of sizes, where some variables have no value yet. Each row is as near to what
 * it was as the bounds of its other variables let it; and what a row must differ, those of its
 * variables that have a vertex of their own pay for there. */

/* ---- bounds of variables ----------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return -floor_div(-a, b);
}

/* The least and the largest value of a term. */
static int64_t at_low(const swi_bounds *b, const swi_term *t)
{
    return t->coef * (t->coef > 0 ? b->low[t->var] : b->high[t->var]);
}

static int64_t at_high(const swi_bounds *b, const swi_term *t)
{
    return t->coef * (t->coef > 0 ? b->high[t->var] : b->low[t->var]);
}

/* coef x value is in [low, high]. */
static bool narrow_bound(int64_t coef, int64_t low, int64_t high, int64_t *from, int64_t *to)
{
    const int64_t least = coef > 0 ? ceil_div(low, coef) : ceil_div(high, coef);
    const int64_t most = coef > 0 ? floor_div(high, coef) : floor_div(low, coef);
    const bool better = least > *from || most < *to;
    *from = least > *from ? least : *from;
    *to = most < *to ? most : *to;
    return better;
}

static bool narrow_row(swi_bounds *b, const swi_row *row)
{
    int64_t least = 0, most = 0;
    bool better = false;
    for (uint32_t i = 0; i < row->n_terms; i++) {
        least += at_low(b, &row->terms[i]);
        most += at_high(b, &row->terms[i]);
    }
    for (uint32_t i = 0; i < row->n_terms; i++) {
        const swi_term *t = &row->terms[i];
        const int64_t low = at_low(b, t), high = at_high(b, t);
        better |= narrow_bound(t->coef, row->low - (most - high), row->high - (least - low),
                               &b->low[t->var], &b->high[t->var]);
        least += at_low(b, t) - low;
        most += at_high(b, t) - high;
    }
    return better;
}

static bool bounds_narrow(swi_bounds *b)
{
    bool better = true;
    for (int pass = 0; pass < 65; pass++) {
        for (uint32_t v = 0; v < b->x->n_vars; v++)
            if (b->low[v] > b->high[v])
                return false;
        if (pass == 64 || !better)
            return true;
        better = false;
        for (uint32_t i = 0; i < b->x->n_rows; i++) {
            const swi_row *row = &b->x->rows[i];
            if (row->n_terms == 0 && (row->low > 0 || row->high < 0))
                return false;
            better |= narrow_row(b, row);
        }
    }
    return true;
}

/* Bounds of variable v by its rows, as they are. */
static void bounds_of(const swi_bounds *b, uint32_t v, int64_t *from, int64_t *to)
{
    *from = b->low[v];
    *to = b->high[v];
    for (uint32_t u = b->first_use[v]; u < b->first_use[v + 1]; u++) {
        const swi_row_state *r = &b->rows[b->uses[u].row];
        const uint32_t k = b->uses[u].term;
        (void)narrow_bound(r->row->terms[k].coef, r->row->low - r->sum - r->tails[k + 1].most,
                           r->row->high - r->sum - r->tails[k + 1].least, from, to);
    }
}

/* ---- what variables cost by themselves --------------------------------------------------- */

/* In rows that they are alone in. */
static double alone(const swi_bounds *b, uint32_t v, int64_t z)
{
    double sum = 0;
    for (uint32_t u = b->first_use[v]; u < b->first_use[v + 1]; u++) {
        const swi_row_state *r = &b->rows[b->uses[u].row];
        if (r->row->n_terms == 1)
            sum += r->slope * fabs((double)(r->row->terms[0].coef * z - r->row->at));
    }
    return sum;
}

static int64_t cheapest_alone(const swi_bounds *b, uint32_t v)
{
    int64_t from = b->low[v], to = b->high[v];
    while (from < to) {
        const int64_t z = from + (to - from) / 2;
        if (alone(b, v, z + 1) < alone(b, v, z))
            from = z + 1;
        else
            to = z;
    }
    return from;
}

/* ---- rows -------------------------------------------------------------------------------- */

static sw_status prepare_tails(swi_scratch *scratch, const swi_bounds *b, swi_row_state *r)
{
    swi_tail *tails = NULL;
    const uint32_t n = r->row->n_terms;
    SW_TRY(SWI_TAKE(scratch, tails, n + 1));
    for (uint32_t i = n; i-- > 0;) {
        const swi_term *t = &r->row->terms[i];
        tails[i].least = tails[i + 1].least + at_low(b, t);
        tails[i].most = tails[i + 1].most + at_high(b, t);
        tails[i].rest = tails[i + 1].rest + t->coef * cheapest_alone(b, t->var);
    }
    r->tails = tails;
    return SW_OK;
}

static swi_taker taker_of(const swi_bounds *b, const swi_row *row, uint32_t term)
{
    const swi_term *t = &row->terms[term];
    const int64_t rest = cheapest_alone(b, t->var);
    const double coef = t->coef, cost = alone(b, t->var, rest);
    const double up = alone(b, t->var, rest + 1) - cost,
                 down = alone(b, t->var, rest - 1) - cost;
    swi_taker taker = {.term = term, .size = (double)INFINITY};
    taker.rate = fmax(0, fmin(up, down)) / coef;
    for (uint32_t u = b->first_use[t->var]; u < b->first_use[t->var + 1]; u++) {
        const swi_row_state *r = &b->rows[b->uses[u].row];
        if (r->row->n_terms != 1 || r->dev <= 0)
            continue;
        const double size = coef * (double)r->row->at / r->row->terms[0].coef;
        if (size < taker.size) {
            taker.size = size;
            taker.off = fabs(size - coef * (double)rest);
        }
    }
    return taker;
}

/* In rows of several variables: who takes up what they differ. */
static sw_status prepare_takers(swi_scratch *scratch, const swi_bounds *b, swi_row_state *r)
{
    swi_taker *takers = NULL;
    const uint32_t n = r->row->n_terms;
    if (n < 2 || r->mixed)
        return SW_OK;
    SW_TRY(SWI_TAKE(scratch, takers, n + 1));
    for (uint32_t i = 0; i <= n; i++) {
        const bool itself = i == n;
        const uint32_t var = itself ? 0 : r->row->terms[i].var;
        if (itself ? r->row->kind == SWI_ROW_BOUND : b->low[var] == b->high[var])
            continue;
        const swi_taker taker =
            itself ? (swi_taker){SWI_ITSELF, r->slope,
                                 r->dev > 0 ? (double)r->row->at : (double)INFINITY, 0}
                   : taker_of(b, r->row, i);
        uint32_t k = r->n_takers++;
        for (; k > 0 && takers[k - 1].rate > taker.rate; k--)
            takers[k] = takers[k - 1];
        takers[k] = taker;
    }
    r->takers = takers;
    return SW_OK;
}

/* False: there are no values. */
static sw_status bounds_prepare(swi_scratch *scratch, swi_bounds *b)
{
    const swi_sizes *x = b->x;
    SW_TRY(SWI_TAKE(scratch, b->rows, x->n_rows));
    SW_TRY(SWI_TAKE(scratch, b->first_use, x->n_vars + 2));
    for (uint32_t i = 0; i < x->n_rows; i++)
        for (uint32_t k = 0; k < x->rows[i].n_terms; k++)
            b->first_use[x->rows[i].terms[k].var + 2]++;
    for (uint32_t v = 0; v < x->n_vars; v++)
        b->first_use[v + 2] += b->first_use[v + 1];
    SW_TRY(SWI_TAKE(scratch, b->uses, b->first_use[x->n_vars + 1]));
    for (uint32_t i = 0; i < x->n_rows; i++)
        for (uint32_t k = 0; k < x->rows[i].n_terms; k++)
            b->uses[b->first_use[x->rows[i].terms[k].var + 1]++] = (swi_use){i, k};

    for (uint32_t i = 0; i < x->n_rows; i++) {
        swi_row_state *r = &b->rows[i];
        r->row = &x->rows[i];
        r->slope = r->row->kind == SWI_ROW_SIZE   ? 0.1 / (double)r->row->at
                   : r->row->kind == SWI_ROW_WISH ? 1e6 / (double)r->row->before
                                                  : 0;
        for (uint32_t k = 0; k < r->row->n_terms; k++)
            r->mixed |= r->row->terms[k].coef < 0;
        r->dev = r->row->kind == SWI_ROW_SIZE ? 1 / (double)r->row->at : 0;
    }
    for (uint32_t i = 0; i < x->n_rows; i++) {
        SW_TRY(prepare_tails(scratch, b, &b->rows[i]));
        SW_TRY(prepare_takers(scratch, b, &b->rows[i]));
    }
    return SW_OK;
}

/* ---- costs ------------------------------------------------------------------------------- */

static double difference(int64_t at, int64_t low, int64_t high)
{
    return (double)(at < low ? low - at : at > high ? at - high : 0);
}

/* Taking up a difference costs at least this, with the largest share, which is `most` already.
 * With a larger share the cheaper ones take more: the best share is `most`, or one with which
 * the cheapest ones take all there is. */
static double take_up(const swi_row_state *r, uint32_t tail, double difference, double most)
{
    double rest = difference, cost = 0, least = (double)INFINITY;
    double off = 0, size = 0, fixed = 0, rate = 0; /* of the takers so far */
    for (uint32_t i = 0; i < r->n_takers; i++) {
        const swi_taker *t = &r->takers[i];
        if (t->term < tail)
            continue;
        const double room = isinf(t->size) ? t->size : t->off + most * t->size;
        if (room >= rest)
            return fmin(least, cost + rest * t->rate + 0.8 * most);
        cost += room * t->rate;
        rest -= room;
        off += t->off;
        size += t->size;
        fixed += t->off * t->rate;
        rate += t->size * t->rate;
        least = fmin(least, fixed + (rate + 0.8) * (difference - off) / size);
    }
    return least;
}

/* Add a row; its terms before `tail` have this sum. */
static void add_row(swi_cost *c, const swi_row_state *r, uint32_t tail, int64_t sum)
{
    const swi_tail *t = &r->tails[tail];
    int64_t low = sum + t->least, high = sum + t->most;
    low = low < r->row->low ? r->row->low : low;
    high = high > r->row->high ? r->row->high : high;
    const double d = difference(r->row->at, low, high);
    c->sum += d * r->slope;
    c->largest = fmax(c->largest, d * r->dev);
}

static void add_tail(swi_cost *c, const swi_row_state *r, uint32_t tail, int64_t sum)
{
    if (r->takers == NULL || tail == r->row->n_terms)
        return;
    const int64_t low = sum + r->tails[tail].least, high = sum + r->tails[tail].most;
    const int64_t from = low < r->row->low ? r->row->low : low;
    const int64_t to = high > r->row->high ? r->row->high : high;
    const double own = difference(r->row->at, from, to) * r->slope;
    /* How far the row's sum is from where it costs nothing, with all others at rest. */
    const int64_t rest = sum + r->tails[tail].rest;
    const double more = r->row->kind != SWI_ROW_BOUND
                            ? difference(r->row->at, rest, rest)
                            : difference(rest, r->row->low, r->row->high);
    if (more > 0)
        c->tail = fmax(c->tail, take_up(r, tail, more, c->largest) - own);
}

/* The least cost of rows without variable v; v: the next one. */
static swi_cost cost_without(const swi_bounds *b, uint32_t v)
{
    swi_cost c = {0, 0, 0};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0, u = b->first_use[v]; i < b->x->n_rows; i++) {
            const swi_row_state *r = &b->rows[i];
            if (u < b->first_use[v + 1] && b->uses[u].row == i)
                u++;
            else if (pass == 0)
                add_row(&c, r, r->next, r->sum);
            else
                add_tail(&c, r, r->next, r->sum);
        }
    return c;
}

static double cost_total(const swi_cost *c)
{
    return c->sum + fmax(c->tail, 0.8 * c->largest);
}

/* All, with this value of it. Convex in z. */
static double cost_with(const swi_bounds *b, const swi_cost *without, uint32_t v, int64_t z)
{
    swi_cost c = *without;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t u = b->first_use[v]; u < b->first_use[v + 1]; u++) {
            const swi_row_state *r = &b->rows[b->uses[u].row];
            const uint32_t k = b->uses[u].term;
            const int64_t sum = r->sum + r->row->terms[k].coef * z;
            if (pass == 0)
                add_row(&c, r, k + 1, sum);
            else
                add_tail(&c, r, k + 1, sum);
        }
    return cost_total(&c);
}

/* ---- align solve ------------------------------------------------------------------------- */

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
    const swi_cost c = cost_without(&s->b, s->b.x->n_vars);
    const double cost = cost_total(&c);
    if (cost >= s->limit)
        return;
    s->found = true;
    s->stopped = s->cheapest_first; /* one is enough */
    s->cost = cost;
    s->limit = cost - 1e-9 * (1 + cost);
    memcpy(s->best, s->values, s->b.x->n_vars * sizeof *s->best);
}

/* ---- which values ------------------------------------------------------------------------ */

typedef struct {
    const search *s;
    swi_cost without;
    uint32_t v;
    int64_t from, to;
} range;

static double cost_at(const range *r, int64_t z)
{
    return cost_with(&r->s->b, &r->without, r->v, z);
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

/* ---- the search -------------------------------------------------------------------------- */

/* All values that may be better than the best so far, from the middle outwards. */
static void descend(search *s, uint32_t v)
{
    if (v == s->b.x->n_vars) {
        finish(s);
        return;
    }
    range r = {.s = s, .v = v};
    bounds_of(&s->b, v, &r.from, &r.to);
    if (r.from > r.to)
        return;
    r.without = cost_without(&s->b, v);
    const int64_t least = cheapest(&r);
    if (cost_at(&r, least) >= s->limit)
        return;
    /* Leave the values with costs below the limit: `least` is the cheapest one. */
    int64_t out = r.from - 1, in = least;
    while (in - out > 1) {
        const int64_t z = out + (in - out) / 2;
        *(cost_at(&r, z) < r.s->limit ? &in : &out) = z;
    }
    r.from = in;
    out = r.to + 1;
    in = least;
    while (out - in > 1) {
        const int64_t z = in + (out - in) / 2;
        *(cost_at(&r, z) < r.s->limit ? &in : &out) = z;
    }
    r.to = in;
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
    if (!bounds_narrow(&s.b))
        return SW_OK;
    SW_TRY(bounds_prepare(scratch, &s.b));
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

/* Which units stay, and for each source where its new outputs come from. */

/* ---- who stays --------------------------------------------------------------------------- */

typedef struct {
    double utility;
    uint32_t unit, place;
} choice;

/* More utility first; of equals the first in the cell. */
SW_ORDER(by_utility, choice, SW_FALLS(utility), SW_RISES(place))

static void choose(const swi_alignment *al, const swi_cell *cell, const double *utility,
                   choice *room, bool *stays)
{
    const uint32_t *units = al->members + cell->first;
    for (uint32_t i = 0; i < cell->n; i++)
        room[i] = (choice){utility[units[i]], units[i], i};
    if (cell->size < cell->n)
        qsort(room, cell->n, sizeof *room, by_utility);
    for (uint32_t i = 0; i < cell->n && i < cell->size; i++)
        stays[room[i].unit] = true;
}

/* ---- where outputs come from ------------------------------------------------------------- */

/* How many units come after this one. */
static uint64_t new_behind(const swi_alignment *al, uint32_t unit)
{
    const swi_cell *cell = &al->cells[al->cell[unit]];
    if (cell->size <= cell->n || al->members[cell->first + cell->n - 1] != unit)
        return 0;
    return (uint64_t)cell->size - cell->n;
}

static sw_status map_source(swi_alignment *al, swi_aligned *v, const bool *stays)
{
    uint64_t n = 0;
    for (uint32_t k = v->first_run; k < v->first_run + v->n_runs; k++) {
        const swi_run *run = &al->runs[k];
        n += run->n * (stays[run->unit] + new_behind(al, run->unit));
    }
    SW_TRY(SWI_TAKE(&al->scratch, v->map, n));
    v->n_map = 0;
    for (uint32_t k = v->first_run; k < v->first_run + v->n_runs; k++) {
        const swi_run *run = &al->runs[k];
        for (uint32_t i = 0; stays[run->unit] && i < run->n; i++)
            v->map[v->n_map++] = al->real[run->first + i];
        for (uint64_t i = run->n * new_behind(al, run->unit); i > 0; i--)
            v->map[v->n_map++] = SWI_NEW;
    }
    return SW_OK;
}

sw_status swi_align_keep(swi_alignment *al)
{
    double *utility = NULL;
    choice *room = NULL;
    bool *stays = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, utility, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, room, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, stays, al->n_slots));
    /* By unit: the sum over all its neurons. */
    const float **values = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, values, al->genome->n));
    for (size_t k = 0; k < al->opts->n_utilities; k++)
        values[al->opts->utilities[k].vertex] = al->opts->utilities[k].values;
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_aligned *v = &al->vertices[i];
        for (uint32_t s = v->first_slot; s < v->first_slot + v->n_slots; s++)
            if (al->real[s] != SWI_NEW)
                utility[al->unit[s]] +=
                    values[i] != NULL ? (double)values[i][al->real[s]] : 1.0;
    }

    for (uint32_t c = 0; c < al->n_cells; c++)
        choose(al, &al->cells[c], utility, room, stays);
    for (uint32_t i = 0; i < al->genome->n; i++) {
        swi_aligned *v = &al->vertices[i];
        if (v->n_slots == 0)
            continue;
        SW_TRY(map_source(al, v, stays));
        v->changed = v->n_map != al->genome->vertices[i].channels;
        for (uint32_t k = 0; k < v->n_map; k++)
            v->changed |= v->map[k] != (int32_t)k;
    }
    for (uint32_t i = 0; i < al->genome->n; i++)
        for (uint32_t p = 0; p < al->vertices[i].n_parts; p++)
            al->vertices[i].changed |=
                al->vertices[al->parts[al->vertices[i].first_part + p].source].changed;
    return SW_OK;
}

/* Conditions on numbers of units: sizes of vertices, wishes, and groups of convolutions that
 * stay equal; and the cost of other sizes. */

#define MAX_SIZE_DEFAULT 4096

/* ---- rows -------------------------------------------------------------------------------- */

void swi_rows_add_term(swi_rows *b, uint32_t var, int64_t coef)
{
    if (b->place[var] == 0) {
        b->terms[b->n_terms++] = (swi_term){var, 0};
        b->place[var] = b->n_terms;
    }
    b->terms[b->place[var] - 1].coef += (int32_t)coef;
}

bool swi_unit_begins_cell(const swi_alignment *al, uint32_t unit)
{
    return al->members[al->cells[al->cell[unit]].first] == unit;
}

/* All of a source's outputs, `each` times. */
static void add_source(swi_rows *b, uint32_t source, uint32_t each)
{
    const swi_aligned *v = &b->al->vertices[source];
    for (uint32_t k = v->first_run; k < v->first_run + v->n_runs; k++) {
        const swi_run *run = &b->al->runs[k];
        if (swi_unit_begins_cell(b->al, run->unit))
            swi_rows_add_term(b, b->al->cells[b->al->cell[run->unit]].var,
                              (int64_t)run->n * each);
    }
}

static void rows_add_vertex(swi_rows *b, uint32_t vertex)
{
    const swi_aligned *v = &b->al->vertices[vertex];
    for (uint32_t p = v->first_part; p < v->first_part + v->n_parts; p++)
        add_source(b, b->al->parts[p].source, b->al->parts[p].each);
}

/* The terms become a row, in the order of variables and without zeros. */
static sw_status end_row(swi_rows *b, swi_row row)
{
    swi_term *terms = NULL;
    SW_TRY(SWI_TAKE(&b->al->scratch, terms, b->n_terms));
    for (uint32_t i = 0; i < b->n_terms; i++) {
        b->place[b->terms[i].var] = 0;
        if (b->terms[i].coef == 0)
            continue;
        uint32_t k = row.n_terms++;
        for (; k > 0 && terms[k - 1].var > b->terms[i].var; k--)
            terms[k] = terms[k - 1];
        terms[k] = b->terms[i];
    }
    for (uint32_t i = 1; i < row.n_terms; i++)
        swi_class_join(b->joined, terms[0].var, terms[i].var);
    b->n_terms = 0;
    row.terms = terms;
    b->rows[b->n_rows++] = row;
    return SW_OK;
}

/* ---- variables --------------------------------------------------------------------------- */

static void fix_source(swi_alignment *al, uint32_t source)
{
    const swi_aligned *v = &al->vertices[source];
    for (uint32_t s = v->first_slot; s < v->first_slot + v->n_slots; s++)
        al->cells[al->cell[al->unit[s]]].flags |=
            al->real[s] == SWI_NEW ? SWI_UNIT_GONE : SWI_UNIT_FIXED;
}

static sw_status rows_vars(swi_rows *b, uint32_t *var)
{
    swi_alignment *al = b->al;
    SW_TRY(SWI_TAKE(&al->scratch, b->vars, al->n_cells));
    for (uint32_t c = 0; c < al->n_cells; c++) {
        swi_cell *cell = &al->cells[c];
        const uint32_t first = swi_class_find(var, c);
        if (first == c) {
            cell->var = al->n_vars++;
            b->vars[cell->var] = (swi_var){cell->n, 0, SWI_MAX_UNITS};
        }
        cell->var = al->cells[first].var;
        swi_var *x = &b->vars[cell->var];
        if ((cell->flags & SWI_UNIT_FIXED) != 0)
            x->low = cell->n;
        if ((cell->flags & SWI_UNIT_GONE) != 0)
            x->high = 0;
        else if ((cell->flags & (SWI_UNIT_FIXED | SWI_UNIT_RIGID)) != 0 && x->high > cell->n)
            x->high = cell->n;
    }
    return SW_OK;
}

/* ---- rows of all ------------------------------------------------------------------------- */

/* A wish of what has no size of its own decides the sizes of what it reads. */
static void mark_wished(swi_alignment *al, uint32_t vertex)
{
    const swi_vertex *v = &al->genome->vertices[vertex];
    if (al->vertices[vertex].wished)
        return;
    al->vertices[vertex].wished = true;
    for (uint32_t k = 0; swi_vertex_is_invariant(v) && k < v->n_in; k++)
        mark_wished(al, v->in[k]);
}

/* Variables of all cells. */
static sw_status rows_make(swi_rows *b, const swi_grouped *x, uint32_t n_grouped, bool relax)
{
    swi_alignment *al = b->al;
    size_t n = al->genome->n + al->opts->n_wishes;
    for (uint32_t i = 0; i < n_grouped; i++)
        n += (size_t)x[i].groups;
    b->n_rows = 0;
    for (size_t k = 0; k < al->opts->n_wishes; k++)
        mark_wished(al, al->opts->wishes[k].vertex);
    SW_TRY(SWI_TAKE(&al->scratch, b->rows, n));
    SW_TRY(SWI_TAKE(&al->scratch, b->terms, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, b->place, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, b->joined, al->n_vars));
    for (uint32_t i = 0; i < al->n_vars; i++)
        b->joined[i] = i;
    const int64_t most = b->al->opts->max_size > 0 ? b->al->opts->max_size : MAX_SIZE_DEFAULT;
    for (uint32_t m = 1; m < b->al->genome->n; m++) {
        const swi_aligned *v = &b->al->vertices[m];
        const int64_t size = b->al->genome->vertices[m].size;
        if (!v->concerned || !swi_vertex_is_sized(&b->al->genome->vertices[m]))
            continue;
        add_source(b, m, 1);
        SW_TRY(end_row(b, (swi_row)SW_INIT(.kind = v->wished ? SWI_ROW_BOUND : SWI_ROW_SIZE,
                                           .low = 1, .high = size > most ? size : most,
                                           .at = size, .before = size)));
    }

    for (size_t j = 0; j < b->al->opts->n_wishes; j++) {
        const swi_wish *w = &b->al->opts->wishes[j];
        rows_add_vertex(b, w->vertex);
        SW_TRY(end_row(b, (swi_row){.kind = relax ? SWI_ROW_WISH : SWI_ROW_BOUND,
                                    .low = relax ? 1 : w->size,
                                    .high = relax ? INT64_MAX / 4 : w->size,
                                    .at = w->size,
                                    .before = b->al->genome->vertices[w->vertex].channels}));
    }
    for (uint32_t i = 0; i < n_grouped; i++)
        for (int k = 1; k < x[i].groups; k++) {
            swi_groups_add(b, &x[i], k);
            SW_TRY(end_row(b, (swi_row){.kind = SWI_ROW_BOUND}));
        }
    return SW_OK;
}

/* Numbers of units of all cells. Only variables that hang together with a wish or a tie are
 * solved for; the others stay. Wishes that cannot hold come as near as they can. */

#define MAX_NODES_DEFAULT 1000000

/* ---- what is solved ---------------------------------------------------------------------- */

static void mark_vars(swi_rows *b, uint32_t vertex, bool *marks)
{
    rows_add_vertex(b, vertex);
    for (uint32_t i = 0; i < b->n_terms; i++) {
        b->place[b->terms[i].var] = 0;
        marks[swi_class_find(b->joined, b->terms[i].var)] = true;
    }
    b->n_terms = 0;
}

/* Leave the variables and rows that hang together with wishes and ties; `vars[i]` was variable
 * from[i]. */
static sw_status leave_concerned(swi_rows *b, uint32_t *from, swi_sizes *out)
{
    swi_alignment *al = b->al;
    bool *marks = NULL;
    uint32_t *to = NULL, n = 0, n_rows = 0;
    SW_TRY(SWI_TAKE(&al->scratch, marks, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, to, al->n_vars));
    for (size_t k = 0; k < al->opts->n_wishes; k++)
        mark_vars(b, al->opts->wishes[k].vertex, marks);
    for (size_t k = 0; k < al->opts->n_ties; k++) {
        mark_vars(b, al->opts->ties[k].a, marks);
        mark_vars(b, al->opts->ties[k].b, marks);
    }
    for (uint32_t i = 0; i < al->n_vars; i++)
        if (marks[swi_class_find(b->joined, i)]) {
            b->vars[n] = b->vars[i];
            from[n] = i;
            to[i] = n++;
        }
    for (uint32_t i = 0; i < b->n_rows; i++) {
        swi_term *terms = b->rows[i].terms;
        if (b->rows[i].n_terms == 0 || !marks[swi_class_find(b->joined, terms[0].var)])
            continue;
        for (uint32_t k = 0; k < b->rows[i].n_terms; k++)
            terms[k].var = to[terms[k].var];
        b->rows[n_rows++] = b->rows[i];
    }
    *out = (swi_sizes)SW_INIT(.vars = b->vars, .rows = b->rows, .n_vars = n, .n_rows = n_rows,
                              .max_nodes = al->opts->max_nodes > 0 ? al->opts->max_nodes
                                                                   : MAX_NODES_DEFAULT);
    return SW_OK;
}

/* ---- wishes that cannot hold ------------------------------------------------------------- */

static int64_t sum_of(const swi_row *row, const int64_t *values)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < row->n_terms; i++)
        sum += row->terms[i].coef * values[row->terms[i].var];
    return sum;
}

static bool some_wish_moved(const swi_sizes *x, const int64_t *values)
{
    bool any = false;
    for (uint32_t i = 0; i < x->n_rows; i++) {
        const swi_row *row = &x->rows[i];
        if (row->kind != SWI_ROW_WISH || row->at == row->before)
            continue;
        any = true;
        if ((sum_of(row, values) > row->before) == (row->at > row->before) &&
            sum_of(row, values) != row->before)
            return true;
    }
    return !any;
}

/* Best of: this wish moves, or that one, ... */
static sw_status move_one(swi_scratch *scratch, const swi_sizes *x, swi_row *rows,
                          int64_t *values, swi_solution *best)
{
    int64_t *own = NULL;
    SW_TRY(SWI_TAKE(scratch, own, x->n_vars));
    best->found = false;
    for (uint32_t i = 0; i < x->n_rows; i++) {
        swi_solution s;
        const swi_row row = rows[i];
        if (row.kind != SWI_ROW_WISH || row.at == row.before)
            continue;
        if (row.at > row.before)
            rows[i].low = row.before + 1;
        else
            rows[i].high = row.before - 1;
        SW_TRY(swi_sizes_solve(scratch, x, own, &s));
        rows[i] = row;
        best->nodes += s.nodes;
        best->optimal = best->optimal && s.optimal;
        if (!s.found || (best->found && s.cost >= best->cost))
            continue;
        best->found = true;
        best->cost = s.cost;
        memcpy(values, own, x->n_vars * sizeof *own);
    }
    return SW_OK;
}

/* ---- sizes of all cells ------------------------------------------------------------------ */

static sw_status try_sizes(swi_rows *b, const swi_grouped *x, uint32_t n_grouped, bool relax,
                           swi_align_info *info, bool *found)
{
    swi_alignment *al = b->al;
    swi_sizes sizes;
    swi_solution s;
    int64_t *values = NULL, *all = NULL;
    uint32_t *from = NULL;
    SW_TRY(rows_make(b, x, n_grouped, relax));
    SW_TRY(SWI_TAKE(&al->scratch, values, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, all, al->n_vars));
    SW_TRY(SWI_TAKE(&al->scratch, from, al->n_vars));
    for (uint32_t i = 0; i < al->n_vars; i++)
        all[i] = b->vars[i].present;
    SW_TRY(leave_concerned(b, from, &sizes));
    SW_TRY(swi_sizes_solve(&al->scratch, &sizes, values, &s));
    if (relax && s.found && !some_wish_moved(&sizes, values))
        SW_TRY(move_one(&al->scratch, &sizes, b->rows, values, &s));
    info->nodes += s.nodes;
    info->optimal = s.optimal;
    *found = s.found;
    for (uint32_t i = 0; i < sizes.n_vars && s.found; i++)
        all[from[i]] = values[i];
    for (uint32_t c = 0; c < al->n_cells && s.found; c++)
        al->cells[c].size = all[al->cells[c].var];
    return SW_OK;
}

static sw_status refuse(const swi_alignment *al)
{
    const swi_align_opts *opts = al->opts;
    const swi_vertex *v = al->genome->vertices;
    if (opts->n_wishes > 0)
        SW_FAIL(SW_UNSUPPORTED,
                "vertex '%s': it cannot have %lld outputs in the place of %lld: no sizes of "
                "the vertices that it is tied to fit",
                v[opts->wishes[0].vertex].name, (long long)opts->wishes[0].size,
                (long long)v[opts->wishes[0].vertex].channels);
    SW_FAIL(SW_UNSUPPORTED,
            "vertex '%s': its %lld outputs cannot be those of '%s' (%lld): no sizes of the "
            "vertices that they are tied to fit",
            v[opts->ties[0].a].name, (long long)v[opts->ties[0].a].channels,
            v[opts->ties[0].b].name, (long long)v[opts->ties[0].b].channels);
}

sw_status swi_align_sizes(swi_alignment *al, swi_align_info *info)
{
    swi_rows b = {.al = al};
    uint32_t *var = NULL, n = 0;
    swi_grouped *x;
    bool found = false;
    SW_TRY(SWI_TAKE(&al->scratch, var, al->n_cells));
    for (uint32_t c = 0; c < al->n_cells; c++)
        var[c] = c;
    SW_TRY(swi_groups_find(al, &x, &n));
    SW_TRY(swi_groups_join(al, var, x, &n));
    /* These sizes must stay: of the input, of the last vertex, and of shields. */
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_aligned *v = &al->vertices[i];
        if (!v->concerned || (i > 0 && i + 1 < al->genome->n &&
                              (al->genome->vertices[i].shield & SW_SHIELD_SIZE) == 0))
            continue;
        for (uint32_t p = v->first_part; p < v->first_part + v->n_parts; p++)
            fix_source(al, al->parts[p].source);
    }
    for (int relax = 0; relax <= al->opts->relax && !found; relax++) {
        al->n_vars = 0;
        SW_TRY(rows_vars(&b, var));
        SW_TRY(try_sizes(&b, x, n, relax != 0, info, &found));
    }
    return found ? SW_OK : refuse(al);
}

/* Memory of one alignment: blocks that end all at once. */

#define BLOCK_BYTES ((size_t)1 << 15)
#define UNIT ((size_t)16)

struct swi_scratch_block {
    struct swi_scratch_block *next;
    size_t bytes, used; /* of the block, with this header */
};

#define HEADER ((sizeof(swi_scratch_block) + UNIT - 1) / UNIT * UNIT)

static sw_status add_block(swi_scratch *scratch, size_t n, size_t element)
{
    swi_scratch_block *block;
    if (n > (SIZE_MAX / 2) / element)
        SW_FAIL(SW_NOMEM, "%zu elements of %zu bytes have no room", n, element);
    const size_t bytes = HEADER + UNIT + n * element;
    const size_t all = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, all));
    *block = (swi_scratch_block){scratch->blocks, all, HEADER};
    scratch->blocks = block;
    return SW_OK;
}

void *swi_scratch_take(swi_scratch *scratch, size_t n, size_t element)
{
    swi_scratch_block *block = scratch->blocks;
    if (block == NULL || n > (block->bytes - block->used) / element) {
        if (add_block(scratch, n, element) != SW_OK)
            return NULL;
        block = scratch->blocks;
    }
    char *at = (char *)block + block->used;
    const size_t used = block->used + (n * element + UNIT - 1) / UNIT * UNIT;
    block->used = used < block->bytes ? used : block->bytes;
    return at;
}

void swi_scratch_end(swi_scratch *scratch)
{
    while (scratch->blocks != NULL) {
        swi_scratch_block *block = scratch->blocks;
        scratch->blocks = block->next;
        sw_heap_free(block, SW_HEAP_RECORDS, block->bytes);
    }
}
