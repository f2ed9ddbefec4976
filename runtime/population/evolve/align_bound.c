/* What sizes cost at least, where some variables have no value yet. Each row is as near to what
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

static swi_tail tail_of(const swi_bounds *b, const swi_term *t)
{
    const int64_t rest = cheapest_alone(b, t->var);
    const double coef = t->coef, cost = alone(b, t->var, rest);
    swi_tail tail = {.least = at_low(b, t), .most = at_high(b, t), .rest = t->coef * rest};
    tail.up = fmax(0, alone(b, t->var, rest + 1) - cost) / coef;
    tail.down = fmax(0, alone(b, t->var, rest - 1) - cost) / coef;
    if (b->low[t->var] == b->high[t->var])
        tail.up = tail.down = (double)INFINITY;
    tail.grown = (double)INFINITY;
    for (uint32_t u = b->first_use[t->var]; u < b->first_use[t->var + 1]; u++) {
        const swi_row_state *r = &b->rows[b->uses[u].row];
        if (r->row->n_terms != 1 || r->dev <= 0)
            continue;
        const double size = coef * (double)r->row->at / r->row->terms[0].coef;
        tail.grown = fmin(tail.grown, size);
        tail.shrunk = fmax(tail.shrunk, size);
    }
    return tail;
}

/* ---- rows ----------------------------------------------------------------------------------
 */

static sw_status prepare_tails(swi_scratch *scratch, const swi_bounds *b, swi_row_state *r)
{
    swi_tail *tails = NULL;
    const uint32_t n = r->row->n_terms;
    SW_TRY(SWI_TAKE(scratch, tails, n + 1));
    tails[n].up = tails[n].down = (double)INFINITY;
    for (uint32_t i = n; i-- > 0;) {
        const swi_tail *x = &tails[i + 1];
        swi_tail t = tail_of(b, &r->row->terms[i]);
        t.least += x->least;
        t.most += x->most;
        t.rest += x->rest;
        t.up = fmin(t.up, x->up);
        t.down = fmin(t.down, x->down);
        t.grown += x->grown;
        t.shrunk += x->shrunk;
        tails[i] = t;
    }
    r->tails = tails;
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
    for (uint32_t i = 0; i < x->n_rows; i++)
        SW_TRY(prepare_tails(scratch, b, &b->rows[i]));
    return SW_OK;
}

/* ---- costs --------------------------------------------------------------------------------
 */

static double difference(int64_t at, int64_t low, int64_t high)
{
    return (double)(at < low ? low - at : at > high ? at - high : 0);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Of a sum of the row: what it costs itself, and its tail's variables by themselves. */
static double with_tail(const swi_row_state *r, const swi_tail *t, int64_t sum, int64_t value)
{
    const int64_t more = value - sum - t->rest;
    const double tail = more > 0   ? (double)more * t->up
                        : more < 0 ? -(double)more * t->down
                                   : 0;
    return r->slope * fabs((double)(value - r->row->at)) + tail;
}

/* The largest share is at least this. Of the row's sum in [low, high] one line rises, that of
 * what is grown, and one falls; its own rises or falls. The worst pair meets at its least. */
static double share(const swi_row_state *r, const swi_tail *t, double sum, double low,
                    double high)
{
    const double at = (double)r->row->at;
    double least = fmax(0, (low - sum) / t->grown - 1);
    if (t->shrunk > 0)
        least = fmax(least, 1 - (high - sum) / t->shrunk);
    if (r->dev <= 0)
        return least;
    if (t->shrunk > 0) {
        const double meet = (2 + sum / t->shrunk) / (1 / at + 1 / t->shrunk);
        least = meet >= low && meet <= high ? fmax(least, meet / at - 1) : least;
    }
    const double meet = (2 + sum / t->grown) / (1 / at + 1 / t->grown);
    return meet >= low && meet <= high ? fmax(least, 1 - meet / at) : least;
}

/* Add a row whose terms in front of `tail` have this sum. */
static void add_row(swi_cost *c, const swi_row_state *r, uint32_t tail, int64_t sum)
{
    const swi_tail *t = &r->tails[tail];
    int64_t low = sum + t->least, high = sum + t->most;
    low = low < r->row->low ? r->row->low : low;
    high = high > r->row->high ? r->row->high : high;
    const double d = difference(r->row->at, low, high), own = d * r->slope;
    c->sum += own;
    c->largest = fmax(c->largest, d * r->dev);
    if (r->row->n_terms == 1 || tail == r->row->n_terms || r->mixed)
        return;
    c->largest = fmax(c->largest, share(r, t, (double)sum, (double)low, (double)high));
    const double near_at = with_tail(r, t, sum, clamp(r->row->at, low, high));
    const double near_rest = with_tail(r, t, sum, clamp(sum + t->rest, low, high));
    c->tail = fmax(c->tail, fmin(near_at, near_rest) - own);
}

swi_cost swi_cost_without(const swi_bounds *b, uint32_t v)
{
    swi_cost c = {0, 0, 0};
    uint32_t u = b->first_use[v];
    for (uint32_t i = 0; i < b->x->n_rows; i++) {
        if (u < b->first_use[v + 1] && b->uses[u].row == i)
            u++;
        else
            add_row(&c, &b->rows[i], b->rows[i].next, b->rows[i].sum);
    }
    return c;
}

double swi_cost_total(const swi_cost *c)
{
    return c->sum + c->tail + 0.8 * c->largest;
}

double swi_cost_with(const swi_bounds *b, const swi_cost *without, uint32_t v, int64_t z)
{
    swi_cost c = *without;
    for (uint32_t u = b->first_use[v]; u < b->first_use[v + 1]; u++) {
        const swi_row_state *r = &b->rows[b->uses[u].row];
        const uint32_t k = b->uses[u].term;
        add_row(&c, r, k + 1, r->sum + r->row->terms[k].coef * z);
    }
    return swi_cost_total(&c);
}
