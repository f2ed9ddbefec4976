/* Fitness: a sum of terms for each objective. */
#ifndef SW_FITNESS_H
#define SW_FITNESS_H

#include "runtime/base/structs.h"
#include <stdbool.h>

#define SWI_MAX_TERMS 32
#define SWI_MAX_OBJECTIVES 8

typedef struct {
    sw_fitness terms[SWI_MAX_TERMS];
    size_t n, n_objectives;
    bool rounded; /* the default terms, which round accuracy */
    double drop;  /* share of a generation's steps that TRAIN_ACCURACY leaves out */
} swi_fitness_plan;

/* Averages over generations that a member has: one for each term; NaN: none yet. */
typedef struct {
    double of[SWI_MAX_TERMS];
} swi_fitness_averages;

/* Read terms; none: the default ones. SW_INVALID names the term. */
sw_status swi_fitness_read(swi_fitness_plan *out, const sw_fitness *terms, size_t n,
                           const char *call);
/* Of a member that begins. */
void swi_fitness_begin(swi_fitness_averages *averages);
/* The objectives of a member with known numbers; its averages go on. False: one of them is NaN
 * or infinite, or the member was invalid before; *which is the first such term, UINT32_MAX
 * where it was invalid before, and the averages are as they were. */
bool swi_fitness_of(const swi_fitness_plan *plan, const sw_candidate *candidate,
                    swi_fitness_averages *averages, double objectives[SWI_MAX_OBJECTIVES],
                    uint32_t *which);
/* One number for each of n members, for sw_select: fitness itself with one objective; else how
 * many are after it by rank and crowding distance. objectives: (n, SWI_MAX_OBJECTIVES), NaN
 * where invalid; ranks receives Pareto ranks. */
sw_status swi_fitness_order(const swi_fitness_plan *plan, const double *objectives, size_t n,
                            double *out, uint32_t *ranks);

#endif
