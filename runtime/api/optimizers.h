/* Optimizers, and schedules of learning rates.
 *
 *     sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adamw", .lr = 0.001f);
 *     SW_TRY(sw_optimizer_create(&optimizer, model, &opts));
 *     sw_schedule s = SW_OPTS(sw_schedule, .kind = "cosine", .base = 0.1f, .total_steps = 99);
 *     SW_TRY(sw_schedule_at(&s, step, numbers));
 *     sw_knob_set(sw_optimizer_lr(optimizer, 0), numbers[0]);
 */

/* When parameters are updated. AFTER: after backward, with all gradients at once. RELEASE: each
 * right after the last contribution to its gradient; the gradient's memory ends there; the same
 * bits. DEFAULT is after, but where a plan would be over its budget updates are released. */
typedef enum { SW_UPDATE_DEFAULT, SW_UPDATE_AFTER, SW_UPDATE_RELEASE } sw_update_time;

/* One parameter group: its own rate (0: that of the options), decay, and time of updates
 * (sw_update_time; DEFAULT: that of the options). Where some groups of an optimizer are
 * released and others are not, each of them must say which. */
typedef struct {
    const sw_param *params;
    size_t n_params;
    float lr, weight_decay;
    int update;             /* this and the next stand where a reserved word was */
    uint32_t reserved_word; /* must be zero */
    uint64_t reserved[1];   /* must be zero */
} sw_param_group;

typedef struct {
    size_t size;
    const char *kind; /* "sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "adafactor" */
    const sw_param *params; /* one group; with n_params 0 and n_groups 0: all of the model */
    size_t n_params;
    float lr;           /* 0: 0.001 for adam and adamw, 0.0001 for lion, 0.01 for the others */
    float weight_decay; /* on the gradient; adamw, lion, adafactor: straight on the parameter */
    float momentum;     /* sgd, rmsprop */
    int nesterov;       /* sgd with momentum */
    float beta1, beta2,
        epsilon;                  /* 0: adam, adamw 0.9, 0.999, 1e-8; lion 0.9, 0.99; epsilon of
                                     rmsprop 1e-8, adagrad 1e-10, adafactor 2^-23; see as_given */
    const sw_param_group *groups; /* instead of params */
    size_t n_groups;
    int keep_gradients; /* gradients live in the model arena and can be accumulated and read */
    int release;        /* the older name of `update` SW_UPDATE_RELEASE */
    int as_given; /* 1: beta1, beta2, epsilon, alpha, beta2_decay and least_scale are meant
                     as they stand, zeros too */
    int update;   /* sw_update_time */
    float alpha;  /* rmsprop: of the mean of squares; 0: 0.99 */
    int centered; /* rmsprop: less the square of the mean */
    float initial_accumulator; /* adagrad: its sums at first */
    /* adafactor: second moments have beta2 = 1 - step^-beta2_decay (0: 0.8), updates a root
     * mean square of at most clip_threshold (0: 1). A step is the rate, at most 1 / sqrt(step),
     * times the parameter's root mean square, at least least_scale (0: 0.001); with fixed_rate
     * it is the rate as it stands. */
    float beta2_decay, clip_threshold, least_scale;
    int fixed_rate;
    int max_skipped; /* updates in a row that are skipped before sw_run says so; 0: 10; -1: any
                        number */
    int no_check;    /* 1: losses and gradients are not looked at, and nothing is skipped */
    uint64_t knobs; /* 1: weight_decay, momentum, beta1 and beta2 of each group are knobs of the
                       model, read at each run (sw_optimizer_knob); 0: they stay */
    uint64_t shards; /* of a step that each process runs (sw_exec_opts, shards / ranks). Above
                        1 the model has room for partial sums of gradients: for as many as
                        the largest number of bits that are set in 1, 2, ... shards - 1 */
    uint64_t state_bits; /* of an element of a state: 0, 32: float32; 8: a code, and a float32
                            scale for each 256 of a row (sgd with momentum, adam, adamw, lion);
                            parameters below 4,096 elements, and of one column, keep float32 */
} sw_optimizer_opts;

/* Owned by the model. Parameters must be of that model, each owned by one optimizer at most.
 * SW_INVALID for an optimizer that would own none, which changes nothing; for numbers that the
 * kind does not have, in the options or in a group. Formulas are those of PyTorch's optimizers
 * of these names; lion's of Chen et al. 2023. Kept for each parameter: nothing for sgd,
 * one number for each element with its momentum, for adagrad and lion, two for adam and adamw,
 * one to three for rmsprop; adafactor keeps one for each row and each column of the last two
 * axes, and for a vector one for each element.
 *
 * With state_bits 8 a state is a code of 8 bits by Dettmers et al. 2022. It is float32 while it
 * is updated; the update is that of float32 states that were rounded before. Where a state is
 * not finite (no_check), all of its block becomes NaN. A checkpoint of the other type is
 * refused.
 *
 * A gradient that has a NaN or an infinite element, and one of a loss that is neither finite,
 * is never used: the update is skipped, and counted (sw_optimizer_skipped). An update that
 * waits until after backward is skipped as a whole, optimizer state and step counters too; of
 * released updates (a budget's among them) each for itself, by its own gradient, and all of
 * them where the loss is not finite. A kept gradient is used up all the same. After max_skipped
 * in a row sw_run returns SW_INVALID and names the loss or the first parameter; the run has
 * ended as usual, and the model is as it was before. On a device up to 3 runs may have begun
 * after it.
 */
SW_MUST_USE SW_API sw_status sw_optimizer_create(sw_optimizer **out, sw_model *model,
                                                 const sw_optimizer_opts *opts);
/* Kinds by position; NULL past the end. */
SW_API const char *sw_optimizer_kind(size_t i);
/* Updates of which something was skipped, in all and in a row up to the last; either may be
 * NULL. They are part of the optimizer's state: copied with it, 0 in a model that begins anew.
 * SW_BUSY while a run uses the model. */
SW_MUST_USE SW_API sw_status sw_optimizer_skipped(const sw_optimizer *optimizer,
                                                  uint64_t *total, uint64_t *in_a_row);
/* The learning rate of a group. index UINT32_MAX when there is no such group. */
SW_API sw_knob sw_optimizer_lr(sw_optimizer *optimizer, int group);
/* A knob of a group: "lr", and with the option knobs "weight_decay", "momentum" (sgd, rmsprop),
 * "beta1" and "beta2" (adam, adamw, lion). A rate and a decay must be finite and at least 0,
 * the others at least 0 and below 1. index UINT32_MAX where the kind has no such number, the
 * option is 0 or there is no such group.
 *
 * With the same numbers bits are those without the option. Groups of adam and adamw then count
 * their steps each for itself, and the correction of a beta that changed is 1 - the product of
 * the betas of all steps. sgd and rmsprop keep their momentum even where it is 0, and nesterov
 * needs none above 0. A momentum of 0 gives the parameters of the kind without one while the
 * momentum that is kept, or a gradient with its decay, is finite; only a parameter that is -0
 * may be 0 there. Of one that is not finite 0 times it is NaN. */
SW_API sw_knob sw_optimizer_knob(sw_optimizer *optimizer, int group, const char *name);

typedef struct {
    size_t size;
    const char *kind;      /* "constant", "step", "cosine", "linear", "exponential",
                              "one_cycle" */
    float base;            /* the rate that it scales */
    uint64_t warmup_steps; /* from base/warmup_steps up to base in equal steps; one_cycle: from
                              base/25 by a cosine. The phase after it counts its steps from
                              there */
    uint64_t total_steps;  /* cosine, linear, one_cycle: reaches `floor` there */
    uint64_t every;        /* step: multiply by gamma every so many steps, at once; exponential:
                              little by little (0: 1) */
    float gamma, floor;    /* step, exponential: gamma above 0. one_cycle: floor 0 is
                              base/250000 */
} sw_schedule;
/* Kinds by position; NULL past the end. */
SW_API const char *sw_schedule_kind(size_t i);
/* The rate of step 0, 1, ...; SW_INVALID for an unknown kind, for missing numbers, for rates
 * that are negative or not finite, and where the result would not be finite. */
SW_MUST_USE SW_API sw_status sw_schedule_at(const sw_schedule *schedule, uint64_t step,
                                            float *out);
