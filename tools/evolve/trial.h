/* One net of a genome in an exec: trained from scratch, and tested. */
#ifndef STEPWELL_TRIAL_H
#define STEPWELL_TRIAL_H

#include "tools/cli/cli.h"

typedef struct {
    sw_exec *exec;
    sw_budget *budget; /* NULL: none */
    uint64_t seed;
    sw_net *net;
    sw_model *model;
    sw_loader *loader;
    sw_run_args args;
    int64_t batch;
} trial;

/* A net with first values, ready; exec and budget are borrowed. After a failure close it
 * too. */
SW_MUST_USE sw_status trial_open(trial *t, sw_exec *exec, sw_budget *budget,
                                 const sw_genome *genome, const sw_net_opts *net,
                                 uint64_t seed);
/* An epoch of whole batches, shuffled; `each` (or NULL) is called after each batch. It ends
 * early where the program was interrupted. */
typedef void trial_each(void *user, int64_t batch, int64_t batches);
SW_MUST_USE sw_status trial_epoch(trial *t, const sw_dataset *set, uint64_t epoch,
                                  trial_each *each, void *user);
/* How many of a set are right. */
SW_MUST_USE sw_status trial_test(trial *t, const sw_dataset *set, int64_t *right,
                                 int64_t *rows);
void trial_close(trial *t);

#endif
