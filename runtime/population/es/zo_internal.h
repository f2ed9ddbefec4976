/* Zeroth-order training between its files: what a trainer is, its moves, sums of parameters. */
#pragma once

#include "runtime/base/checksum.h"
#include "runtime/exec/run_internal.h"

/* The options with their defaults, and all that moves depend on beside the model. */
typedef struct {
    float eps, lr, weight_decay;
    int32_t rank;    /* lozo: of noise of matrices; mezo: 0 */
    uint32_t window; /* mezo: 0 */
    uint64_t seed;
    sw_schedule schedule; /* kind NULL: lr is constant */
} swi_zo_rule;

#define SWI_ZO_RANK_MAX 256 /* of lozo */
#define SWI_ZO_STEPS_MAX                                                                       \
    ((uint64_t)UINT32_MAX + 1) /* a step is a word of the noise's counter */

struct sw_zo {
    sw_handle handle;
    sw_model *model;
    uint32_t model_generation; /* of its handle */
    swi_zo_rule rule;
    uint64_t steps, not_finite;
    uint64_t room;   /* steps that there is memory for in `slopes`; 0: no record */
    float *slopes;   /* c of each step */
    uint64_t before; /* sum of the parameters before the first step */
    uint64_t frozen; /* frozen_hash of the model then */
    bool cut;        /* a step failed after the first: what the model is now is no step's */
};

/* One pass over the parameters that are not frozen: a program of `exec` with no bytes of its
 * own. `a` and c: as swi_move has them. */
typedef struct {
    swi_move move;
    uint64_t step;
    float a, c, lr;
} swi_zo_move;
/* That run's arguments but for the step; `model` and `numbers` (SWI_MOVE_NUMBERS of F32) are
 * borrowed. */
sw_run_args swi_zo_move_args(const swi_zo_rule *rule, sw_model *const *model, swi_move move,
                             const sw_array *numbers);

typedef struct {
    swi_zo_rule rule;
    uint64_t steps, not_finite;
    uint64_t before, behind; /* sums of the parameters */
    float *slopes;           /* of the heap: swi_zo_record_free */
} swi_zo_record;
