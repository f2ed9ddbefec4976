/* Between the search for sizes and its bounds. */
#ifndef SW_ALIGN_SEARCH_H
#define SW_ALIGN_SEARCH_H

#include "runtime/population/evolve/align_internal.h"

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

/* False: there are no values. */
bool swi_bounds_narrow(swi_bounds *b);
sw_status swi_bounds_prepare(swi_scratch *scratch, swi_bounds *b);
/* Bounds of variable v by its rows, as they are. */
void swi_bounds_of(const swi_bounds *b, uint32_t v, int64_t *from, int64_t *to);
/* The least cost of rows without variable v; v: the next one. */
swi_cost swi_cost_without(const swi_bounds *b, uint32_t v);
/* All, with this value of it. Convex in z. */
double swi_cost_with(const swi_bounds *b, const swi_cost *without, uint32_t v, int64_t z);
double swi_cost_total(const swi_cost *cost);

#endif
