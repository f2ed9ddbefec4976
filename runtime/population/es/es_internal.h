/* Evolution strategies: what a strategy has, and the program that updates by it. */
#pragma once

#include "runtime/exec/exec.h"
#include "runtime/model/noise_mode.h"

typedef enum {
    SWI_SHAPE_RANKS,
    SWI_SHAPE_STANDARDISED,
    SWI_SHAPE_RAW,
    SWI_SHAPE_ARS,
    SWI_SHAPE_SNES
} swi_es_shaping;

struct sw_es {
    swi_noise_mode mode; /* first: traces read it (noise_mode.h) */
    swi_es_shaping shaping;
    sw_optimizer *owner;
    float l1, l2;
    float sigma_lr; /* snes; 0: by the number of elements */
    bool maximise;
    uint32_t top; /* ars */
    sw_es_shape_fn *shape;
    void *shape_user;
    uint32_t *sigmas; /* by entry of the model; NULL: not snes */
    uint32_t n_sigmas;
    /* Of the generation: fitness in the order (repeat, direction); which of them are known,
     * later their order by rank, then for snes the weights of squares; the weights of
     * directions. */
    float *fitness;
    uint32_t *order;
    float *weights;
    size_t bytes;      /* of the three, in one block */
    sw_budget *budget; /* that they are charged to; NULL: none */
    size_t told;
    bool weighed; /* a step failed when the fitness was used up: another goes on from weights */
    sw_es_info info; /* then that of the fitness */
};

static inline size_t swi_es_evaluations(const sw_es *es)
{
    return (size_t)es->mode.repeats * es->mode.directions;
}

/* Forget the generation's fitness. */
void swi_es_forget(sw_es *es);

/* The step function of an update, user: the strategy. Input 0: f32 (directions), the weight w
 * of each direction; the estimate is sum over d of w_d E_d (plus l1 and l2), for each parameter
 * with noise; its optimizer updates by it. For snes input 1: f32 (directions), the weights of
 * the squares in the gradient of the logarithms of sigma. Run with .es and .es_slice
 * SWI_ES_UPDATE: seed and step of the launches are those of the noise, and the run is 0. */
void swi_es_update(sw_ctx *ctx, void *user);

/* Bytes that each of so many ranks sends to make the estimate of one step, where no part of it
 * is made twice (a gradient that may not be finite). */
SW_MUST_USE sw_status swi_es_estimate_sent(sw_es *es, sw_exec *exec, int ranks, uint64_t *out);
