/* Random nets for evolution strategies: layers of all kinds with views between them, parameters
 * that several layers share, that are frozen, or that belong to another optimizer or model. */
#ifndef SW_TESTS_ES_RANDOM_NET_H
#define SW_TESTS_ES_RANDOM_NET_H

#include "tests/runtime/nets.h"

enum { RN_MOST = 48, RN_INPUTS = 3 };
typedef enum { RN_NOISE, RN_OTHER, RN_FROZEN, RN_SECOND } rn_owner; /* of a parameter */

typedef struct {
    uint64_t seed;
    sw_model *models[2];
    sw_optimizer *perturbed, *other, *second; /* NULL where it would have no parameters */
    sw_es *es;
    sw_param params[RN_MOST];
    rn_owner owner[RN_MOST];
    sw_param buffers[RN_MOST];
    int n_params, n_buffers; /* that were declared, or used so far in a walk */
    bool words;              /* input 0 is ids */
    bool normed;             /* batch norm: statistics of the batch while training */
    bool grouped;            /* group norm of images */
    sw_shape row;            /* input 0 of one row */
    char layers[400];        /* their names, for messages */
} rn_net;

/* The same net for the same seed. es NULL: without a strategy. */
rn_net *rn_new(uint64_t seed, const sw_es_opts *es);
void rn_end(rn_net *t);
/* Metric "loss". */
void rn_step(sw_ctx *ctx, void *user);

/* `rows` rows. A row depends on `keys[row]` alone (NULL: its number). */
typedef struct {
    sw_array in[RN_INPUTS];
} rn_batch;
rn_batch rn_batch_new(const rn_net *t, int64_t rows, const uint64_t *keys);
void rn_batch_free(rn_batch *b);
/* Some of its rows: nothing to free. */
rn_batch rn_batch_rows(const rn_batch *of, int64_t from, int64_t n);
sw_run_args rn_args(rn_net *t, const rn_batch *of, sw_mode mode);

#endif
