/* Loops over elements that all pointwise files share. Parts are runs of PART elements, so that
 * bits cannot depend on threads; short tensors are one part. */
#ifndef SW_ELEMENT_LOOPS_H
#define SW_ELEMENT_LOOPS_H

#include "kernels/par.h"
#include <stdbool.h>
#include <stdint.h>

#define PART 16384

typedef struct {
    float *y;
    const float *a, *b;
    const uint8_t *m; /* a mask, or codes of what is saved */
    uint8_t *codes;   /* the same, to be written; NULL: no one reads them */
    double *sums;     /* one for each part */
    int64_t n;
    float p, q;
    int kind;
    bool accumulate;
} job;

static inline int64_t part_end(int64_t n, int part)
{
    const int64_t end = ((int64_t)part + 1) * PART;
    return end < n ? end : n;
}

static inline int part_count(int64_t n)
{
    return (int)((n + PART - 1) / PART);
}

static inline void split(const sw_par *par, void (*body)(void *, int), job *j)
{
    par->run(par, body, j, part_count(j->n));
}

/* Restrict is only for loops whose output is never one of the inputs; in-place ones leave it
 * off and are vectorised after an overlap check. */
#define FOR_EACH_ELEMENT(expr)                                                                 \
    do {                                                                                       \
        if (j->accumulate)                                                                     \
            for (int64_t i = from; i < to; i++)                                                \
                y[i] = y[i] + (expr);                                                          \
        else                                                                                   \
            for (int64_t i = from; i < to; i++)                                                \
                y[i] = (expr);                                                                 \
    } while (0)

#define BODY(name)                                                                             \
    static void name(void *arg, int part)                                                      \
    {                                                                                          \
        const job *j = arg;                                                                    \
        const int64_t from = (int64_t)part * PART, to = part_end(j->n, part);                  \
        float *y = j->y;                                                                       \
        const float *a = j->a, *b = j->b;                                                      \
        const float p = j->p, q = j->q;                                                        \
        (void)y, (void)a, (void)b, (void)p, (void)q;

#define END }

#endif
