/* Search spaces: a tree, and how genomes are drawn from it. */
#ifndef SW_SEARCH_SPACE_H
#define SW_SEARCH_SPACE_H

#include "runtime/population/evolve/draws.h"
#include "runtime/population/evolve/genome.h"

/* One of the library's own, whatever callback runs; NULL: nothing. */
void swi_search_space_free(sw_search_space *space);
/* Draw from the "insert" part of the space what may stand after vertex `after`: put it there,
 * in between it and those that read it (all of them), so that the result has as many channels
 * as `after`, and its height and width. identity: layers begin as the identity, where they
 * can. *first and *n: the new vertices. SW_UNSUPPORTED: nothing of the space fits there, and
 * the genome is as it was. */
sw_status swi_space_insert(const sw_search_space *space, sw_genome *genome, uint32_t behind,
                           bool identity, swi_draws *draws, uint32_t *first, uint32_t *n);
/* The space of optimizers, rates and batches. */
typedef struct {
    const char *const *optimizers; /* n_optimizers */
    int n_optimizers;
    double lr_low, lr_high;
    const int64_t *batches; /* n_batches: a list of choices; 0: batch_low to batch_high */
    int n_batches;
    int64_t batch_low, batch_high;
    const char *const *activations; /* that mutations choose from: n_activations */
    int n_activations;
} swi_space_training;
const swi_space_training *swi_space_training_of(const sw_search_space *space);

#endif
