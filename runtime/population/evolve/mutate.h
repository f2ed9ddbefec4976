/* Between the files of mutations. */
#ifndef SW_MUTATE_H
#define SW_MUTATE_H

#include "runtime/population/evolve/align.h"
#include "runtime/population/evolve/draws.h"
#include "runtime/population/evolve/search_space.h"

/* A child while it is made. */
typedef struct {
    sw_genome *genome; /* valid between two mutations */
    const sw_mutate_opts *opts;
    const sw_search_space *space;
    swi_draws draws;
    /* Utility of each vertex of the genome as it is now: the mean of its neurons; and of its
     * neurons, moved along with them. */
    sw_neuron_utility *utilities;
    size_t n_utilities;
} swi_child;

#endif
