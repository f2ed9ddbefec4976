/* The least cost of sizes, where some variables have no value yet. Each row is as near to what
 * it was as the bounds of its other variables let it; and what a row must differ, those of its
 * variables that have a vertex of their own pay for there. */
#include "runtime/population/evolve/align_search.h"
#include <math.h>

/* ---- bounds of variables ------------------------------------------------------------------
 */

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
static bool narrow(int64_t coef, int64_t low, int64_t high, int64_t *from, int64_t *to)
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
        better |= narrow(t->coef, row->low - (most - high), row->high - (least - low),
                         &b->low[t->var], &b->high[t->var]);
        least += at_low(b, t) - low;
        most += at_high(b, t) - high;
    }
    return better;
}

bool swi_bounds_narrow(swi_bounds *b)
{
    bool better = true;
    for (int pass = 0; pass < 64 && better; pass++) {
        for (uint32_t v = 0; v < b->x->n_vars; v++)
            if (b->low[v] > b->high[v])
                return false;
        better = false;
        for (uint32_t i = 0; i < b->x->n_rows; i++) {
            const swi_row *row = &b->x->rows[i];
            if (row->n_terms == 0 && (row->low > 0 || row->high < 0))
                return false;
            better |= narrow_row(b, row);
        }
    }
    for (uint32_t v = 0; v < b->x->n_vars; v++)
        if (b->low[v] > b->high[v])
            return false;
    return true;
}

void swi_bounds_of(const swi_bounds *b, uint32_t v, int64_t *from, int64_t *to)
{
    *from = b->low[v];
    *to = b->high[v];
    for (uint32_t u = b->first_use[v]; u < b->first_use[v + 1]; u++) {
        const swi_row_state *r = &b->rows[b->uses[u].row];
        const uint32_t k = b->uses[u].term;
        (void)narrow(r->row->terms[k].coef, r->row->low - r->sum - r->tails[k + 1].most,
                     r->row->high - r->sum - r->tails[k + 1].least, from, to);
    }
}

/* ---- what variables cost by themselves ----------------------------------------------------
 */

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

/* ---- rows ----------------------------------------------------------------------------------
 */

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

static sw_status find_uses(swi_scratch *scratch, swi_bounds *b)
{
    const swi_sizes *x = b->x;
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
    return SW_OK;
}

sw_status swi_bounds_prepare(swi_scratch *scratch, swi_bounds *b)
{
    const swi_sizes *x = b->x;
    SW_TRY(SWI_TAKE(scratch, b->rows, x->n_rows));
    SW_TRY(find_uses(scratch, b));
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

/* ---- costs --------------------------------------------------------------------------------
 */

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

/* How far the row's sum is from where it costs nothing, with all others at rest. */
static int64_t mismatch(const swi_row *row, int64_t at_rest)
{
    if (row->kind != SWI_ROW_BOUND)
        return at_rest < row->at ? row->at - at_rest : at_rest - row->at;
    return at_rest < row->low    ? row->low - at_rest
           : at_rest > row->high ? at_rest - row->high
                                 : 0;
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
    const int64_t more = mismatch(r->row, sum + r->tails[tail].rest);
    if (more > 0)
        c->tail = fmax(c->tail, take_up(r, tail, (double)more, c->largest) - own);
}

swi_cost swi_cost_without(const swi_bounds *b, uint32_t v)
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

double swi_cost_total(const swi_cost *c)
{
    return c->sum + fmax(c->tail, 0.8 * c->largest);
}

double swi_cost_with(const swi_bounds *b, const swi_cost *without, uint32_t v, int64_t z)
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
    return swi_cost_total(&c);
}
