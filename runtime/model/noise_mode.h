/* An evolution strategy's parameters as traces see them: which noise each of them has, and how
 * a batch falls into evaluations. */
#pragma once

#include "runtime/model/model.h"

/* .es_slice of the runs that update: no noise on what they read. */
#define SWI_ES_UPDATE UINT64_MAX

/* The begin of struct sw_es. */
typedef struct {
    sw_handle handle;
    uint64_t uid; /* unique in the process: keys hold it */
    sw_model *model;
    uint32_t optimizer;     /* index in the model: its parameters have noise */
    uint32_t sigma;         /* knob */
    const uint32_t *sigmas; /* snes: of each entry of the model the state with the sigma of each
                               element, 0: none; NULL: one sigma for all */
    sw_noise_spec like;     /* kind, distribution, sides and rank of all matrices */
    float in_share, out_share;
    int32_t antithetic;
    uint32_t repeats, slice; /* a batch: (repeats, slice, rows of an evaluation) */
    uint32_t directions;     /* of a generation */
    uint64_t seed, generation;
} swi_noise_mode;

static inline const swi_noise_mode *swi_noise_mode_of(const sw_es *es)
{
    return (const swi_noise_mode *)(const void *)es;
}

/* Evaluations of a batch. */
static inline int64_t swi_evaluations(const swi_noise_mode *mode)
{
    return (int64_t)mode->repeats * (int64_t)mode->slice;
}

/* Slices of a generation. */
static inline uint32_t swi_noise_slices(const swi_noise_mode *mode)
{
    return (mode->directions - 1) / mode->slice + 1;
}

/* Does this parameter have noise? */
bool swi_is_perturbed(const swi_noise_mode *mode, const swi_entry *entry);
/* The stream of a parameter's noise, by its name. */
uint32_t swi_noise_stream(const char *name);
/* The noise of a parameter of this shape: a matrix (rank 2, or 4 as of a convolution) by
 * `like`, a vector, of rank 1 or (c, 1, 1), by iid noise. out->rows is 0 where there is none.
 * Shares: of columns and rows; 0: all. */
void swi_noise_spec(sw_noise_spec *out, const sw_noise_spec *like, float in_share,
                    float out_share, const sw_shape *shape, uint32_t stream);
/* The same of an entry of the mode's model; of logits it is that of their bits. */
void swi_noise_spec_of(sw_noise_spec *out, const swi_noise_mode *mode, const swi_entry *entry);
