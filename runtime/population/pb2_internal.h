/* Between the files of the bandit. */
#ifndef SW_PB2_INTERNAL_H
#define SW_PB2_INTERNAL_H

#include "runtime/population/pbt_internal.h"

#define SWI_PB2_ROWS (SWI_POINTS + SWI_RECENT)

/* A Gaussian process: the points in order, the factor of their covariance row by row, and what
 * the factor makes of the outcomes. */
struct swi_pb2 {
    size_t bytes;
    uint32_t dims;     /* of z: the score before, and each hyper-parameter that is a number */
    uint32_t n;        /* rows of outcomes in x, t, y; others follow for a moment */
    bool fitted;       /* to the points that there are now */
    double low, range; /* of scores before, for z */
    double length, forget, noise; /* of the kernel; forget = log(1 - epsilon) / 2 */
    double *z;                    /* (SWI_PB2_ROWS + 1, dims) */
    double *t;                    /* (SWI_PB2_ROWS + 1): time in intervals */
    double *y;                    /* (SWI_POINTS): outcomes, standardised */
    double *w;                    /* (SWI_POINTS): factor^-1 y */
    double *factor;               /* (SWI_PB2_ROWS, SWI_PB2_ROWS), lower triangle */
    double *v;                    /* (SWI_PB2_ROWS) */
    double *unit;                 /* (2, h): the best candidate so far, and one more, in 0..1 */
};

/* The model of what was seen. */
void swi_pb2_fit(sw_pbt *pbt);
/* Row `at`: the context, time and score before, and values. */
void swi_pb2_row(sw_pbt *pbt, uint32_t at, double time, double seen, const double *values);
/* Factor row `at` after all the rows before it. */
void swi_pb2_append(swi_pb2 *g, uint32_t from, uint32_t at);
/* Mean and variance of the outcome at row `at`, by the `rows` rows that are factored. */
void swi_pb2_predict(swi_pb2 *g, uint32_t rows, uint32_t at, double *mean, double *variance);
/* A number as a share of its range, and back; logarithms of what is logarithmic. */
double swi_pb2_share(const sw_hyper *hyper, double value);
double swi_pb2_value(const sw_hyper *hyper, double share);

#endif
