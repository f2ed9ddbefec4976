/* Nets: the model and the step function of a genome. A net's layout is fixed when it is
 * made. */
#pragma once

#include "runtime/model/model.h"
#include "runtime/population/evolve/genome.h"

typedef struct {
    sw_param weight, bias;
    sw_param mean, variance; /* of batch norm */
    sw_param utility;        /* index 0: none */
} swi_net_layer;

struct sw_net {
    sw_handle handle;
    const sw_genome *genome;
    sw_genome *own;   /* the same, to be destroyed with the net; NULL: it is borrowed */
    sw_net_opts opts; /* without the losses; what 0 stands for is set */
    sw_model *model;
    sw_optimizer *optimizer;
    swi_net_layer *layers; /* by vertex */
    sw_value *values;      /* of vertices, in the step function */
    sw_loss_fn *loss;      /* NULL: cross entropy */
    void *loss_user;
    sw_knob clip, clip_norm; /* index UINT32_MAX: none */
};

/* As sw_net_create with options that are read; the genome is borrowed. `call` begins
 * messages. */
sw_status swi_net_create(sw_net **out, const sw_genome *genome, const sw_net_opts *opts,
                         const char *call);
/* One of the library's own, whatever callback runs; NULL: nothing. */
void swi_genome_net_free(sw_net *net);

/* As sw_net_inherit, into the bytes of a model (or of a member's range) of `to`, from those of
 * the parents' nets (b NULL: one parent): bytes of whole models in host memory, which need not
 * be ready. Values without a parent begin as sw_model_ready(seed) has them. */
sw_status swi_net_inherit(const sw_net *to, unsigned char *bytes, const sw_net *a,
                          const unsigned char *a_bytes, const sw_net *b,
                          const unsigned char *b_bytes, uint64_t seed);
/* First values alone: of a genome without parents. */
sw_status swi_net_begin(const sw_net *net, unsigned char *bytes, uint64_t seed);

/* The bytes of a range into a model that is ready. */
sw_status swi_net_fill(sw_net *net, const unsigned char *bytes, size_t n);
