/* Small nets for evolution strategies: what perturbed layers there are, in step functions that
 * were written for training. */
#ifndef SW_TESTS_ES_NETS_H
#define SW_TESTS_ES_NETS_H

#include "tests/runtime/nets.h"

typedef enum { ES_MLP, ES_CONV, ES_TOKENS, ES_VECTORS, ES_WORDS, ES_NETS } es_net_kind;
extern const char *const es_net_names[ES_NETS];
/* The words of sw_es_opts. */
enum { ES_NOISES = 10 };
extern const char *const es_noises[ES_NOISES];

typedef struct {
    es_net_kind kind;
    sw_model *model;
    sw_optimizer *opt;
    sw_es *es; /* NULL: none */
    sw_linear f1, f2;
    sw_layer_norm norm;
    sw_conv2d c1, c2;
    sw_batch_norm2d bn;
    sw_embedding table;
    sw_rms_norm rms;
    sw_param gain, shift, channels, places;
} es_net;

/* Destroyed when the test ends. es: NULL for none; optimizer: NULL for sgd with a rate of 1. */
es_net *es_net_new(es_net_kind kind, const sw_es_opts *es, const sw_optimizer_opts *optimizer);
void es_net_step(sw_ctx *ctx, void *user);

/* A batch of so many rows, the same for the same seed; freed when the test ends. */
typedef struct {
    sw_array in[2];
    size_t row_bytes[2];
} es_batch;
es_batch es_batch_new(es_net_kind kind, int64_t rows, uint64_t seed);
/* Rows from..from+n-1 of it. */
es_batch es_batch_rows(const es_batch *of, int64_t from, int64_t n);

#define ES_ARGS(t_, of_, mode_)                                                                \
    SW_OPTS(sw_run_args, .fn = es_net_step, .user = t_, .models = &(t_)->model, .n_models = 1, \
            .inputs = (of_)->in, .n_inputs = 2, .mode = mode_)

/* Another model of the net's layout with theta + sign sigma E of a direction, by the definition
 * of the noise alone; or into a model that has theta. */
void es_perturb_by_hand(const sw_es *es, sw_model *to, uint32_t direction, float sign);
void es_member_by_hand(const es_net *t, es_net *to, uint32_t direction, float sign);

#endif
