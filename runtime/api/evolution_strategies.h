/* Evolution strategies and zeroth order: training by runs of the forward part alone.
 *
 *     sw_es_opts opts = SW_OPTS(sw_es_opts, .strategy = "eggroll", .directions = 512);
 *     SW_TRY(sw_es_create(&es, optimizer, &opts));
 *     args.es = es;
 *     SW_TRY(sw_es_evaluate(es, exec, &args, 0, "loss"));
 *     SW_TRY(sw_es_step(es, exec, NULL));
 */

/* ---- evolution strategies: gradients from runs forward alone ----------------------------- */

/* An evaluation is a run of the step function with noise on the parameters: theta + sigma E or
 * theta - sigma E, where E is a function of (seed, generation, parameter, direction, element)
 * and is stored nowhere: kernels make its parts where they use them. A population is
 * `directions` directions with `repeats` evaluations each, and many evaluations are rows of one
 * batch. From one number for each evaluation, its fitness, comes an estimate of the gradient,
 * g = 1 / (sigma n) times the sum over the n evaluations of u s E,
 * with the sign s of the noise and the shaped fitness u: a mean, sigma outside. It goes to an
 * optimizer, negated where fitness is maximised. With ars n counts the evaluations that are
 * kept. With snes the utilities are of rank and add up to 0, and what goes to the optimizer is
 * - sigma sum of u s E: the step of the paper is sgd's with a rate of 1. */

/* Shape the fitness: n numbers in place, in the order (repeat, direction). NaN and infinities
 * have become the worst finite one (all 0 where there is none). Anything but SW_OK ends
 * sw_es_step. */
typedef sw_status sw_es_shape_fn(float *fitness, size_t n, void *user);

typedef struct {
    size_t size;
    /* The strategy gives the others their defaults: "nes" (centred ranks, OpenAI-ES), "ars"
     * (the directions with a better evaluation among the best `top`, divided by the standard
     * deviation of their fitness; antithetic), "eggroll" (low-rank noise, standardised
     * fitness), "snes" (iid noise with a sigma of each element, which learns; utilities by
     * rank). NULL: "nes" */
    const char *strategy;
    /* "low-rank" (default but for snes), "iid", "permuted", "permuted-in", "permuted-out",
     * "sign-flip", "sign-flip-in", "sign-flip-out", "sparse", "dropout": kernels/noise.h has
     * the formulas. Vectors (biases, weights of norms) have iid noise whatever this is, with
     * dropout none */
    const char *noise;
    const char *distribution;  /* "normal" (default), "rademacher", "bits" */
    int rank;                  /* low-rank: at least 1; 0: 1 */
    float in_share, out_share; /* permuted, sparse: share of columns and rows with noise, above
                                  0 to 1; 0: 1 */
    float sigma;               /* standard deviation of the noise on each element; 0: 0.01 */
    uint32_t directions;       /* of a generation, 1 to 2^31 */
    uint32_t repeats;  /* evaluations of a direction; 0: 2 with antithetic noise, else 1 */
    int no_antithetic; /* 1: all evaluations of a direction have its noise; 0: repeats from
                          (repeats + 1) / 2 on have the negated one */
    uint32_t slice; /* directions of one run; 0: all. The same bits for every number: the last
                       slice is filled up with directions that do not count */
    const char *shaping; /* "ranks" (centred, -0.5 to 0.5), "standardised" (mean 0, variance 1),
                            "raw"; NULL: that of the strategy */
    uint32_t top;        /* ars: directions that count; 0: half of them */
    int maximise;        /* 1: larger fitness is better; 0: it is a loss */
    float l1, l2;        /* added to the estimate: l1 sign(theta) + l2 theta */
    uint64_t seed;       /* of the noise */
    sw_es_shape_fn *shape; /* in the place of shaping; called by sw_es_step */
    void *shape_user;
    float sigma_lr; /* snes: rate of the logarithms of its sigmas; 0: (3 + ln P) / (5 sqrt P) of
                       P elements */
} sw_es_opts;

/* For the parameters that the optimizer owns, of its model, which is to be declared still: its
 * sigma is a knob, and those of snes are states. It has 12 bytes for each evaluation, from the
 * exec's budget, once sw_es_evaluate is called; nothing of it grows
 * with a parameter. Destroy it before the model. */
SW_MUST_USE SW_API sw_status sw_es_create(sw_es **out, sw_optimizer *optimizer,
                                          const sw_es_opts *opts);
SW_API void sw_es_destroy(sw_es *es);
/* sigma: above 0. */
SW_API sw_knob sw_es_sigma(sw_es *es);
/* Generations that have been stepped; runs that cover one; rows of a slice's batch: repeats x
 * slice (times those of each evaluation). */
SW_API uint64_t sw_es_generation(const sw_es *es);
SW_MUST_USE SW_API sw_status sw_es_generation_set(sw_es *es, uint64_t generation);
SW_API uint32_t sw_es_slices(const sw_es *es);
SW_API size_t sw_es_rows(const sw_es *es);
/* Bytes of the host that it has: fitness, order and weights of a generation. */
SW_API size_t sw_es_bytes(const sw_es *es);

/* The switch: sw_run_args.es and .es_slice, with sw_run, sw_plan and all that take such
 * arguments. The step function then sees perturbed parameters of the optimizer's model:
 *
 * - every batch is (repeats, slice, rows of an evaluation): axis 0 of what parameters meet is a
 *   multiple of sw_es_rows, and row i belongs to evaluation i / (rows of each);
 * - linear, conv2d, embedding and norms, sw_add and sw_mul of a vector along the last axis or
 *   the channels, and sw_add of rows of a table to each sample, use the noise of their
 * parameters; another op that reads a parameter is SW_UNSUPPORTED, by name: freeze it or make
 * it another op;
 * - losses, and sums, means and maxima over all axes, give one number for each evaluation, a
 *   vector; sw_metric of such a vector is its mean, and the vector an output of that name;
 * - sw_backward, sw_clip_norm, sw_accumulate and sw_update do nothing.
 *
 * The generation stands for the step and the slice for .step and .run. Three things depend on
 * how a generation is cut: batch norm in SW_TRAIN has the statistics of the slice, random ops
 * (dropout in SW_TRAIN) draw by the row in the slice, and group norm of images adds up in
 * another order where rows fill blocks of sixteen. */

/* Run a slice and report the metric `fitness` of each evaluation. */
SW_MUST_USE SW_API sw_status sw_es_evaluate(sw_es *es, sw_exec *exec, const sw_run_args *args,
                                            uint32_t slice, const char *fitness);

/* Ask: which evaluation row e of a slice is (0 <= e < sw_es_rows). counts 0: it fills a slice
 * up, and has no fitness. */
typedef struct {
    size_t size;
    uint32_t direction, repeat;
    float sign; /* of its noise: 1 or -1 */
    int counts;
} sw_es_evaluation;
SW_MUST_USE SW_API sw_status sw_es_ask(const sw_es *es, uint32_t slice, size_t e,
                                       sw_es_evaluation *out);
/* Tell: one number for an evaluation, in any order; a second one replaces it. */
SW_MUST_USE SW_API sw_status sw_es_tell(sw_es *es, uint32_t direction, uint32_t repeat,
                                        float fitness);
/* The same for all that count of a slice: n = sw_es_rows numbers in the order of its rows. */
SW_MUST_USE SW_API sw_status sw_es_tell_slice(sw_es *es, uint32_t slice, const float *fitness,
                                              size_t n);
/* Write theta + sign sigma E of a direction of this generation into a model of the same layout:
 * the member itself, for what runs without noise. Logits become 1 and -1, by its bits. It has
 * all else of the model too. The sigma of an sw_es is in the layout: a model that was declared
 * alike needs one of its own, made before sw_model_ready. */
SW_MUST_USE SW_API sw_status sw_es_member(sw_es *es, uint32_t direction, int sign,
                                          sw_model *to);

typedef struct {
    size_t size;
    uint64_t generation; /* that was stepped */
    uint64_t evaluations, not_finite;
    double mean, best, worst, deviation; /* of the fitness that was given */
} sw_es_info;
/* Estimate the gradient and update the model by its optimizer: a program without backward, in
 * which the estimate of a large weight exists some rows at a time. SW_INVALID where evaluations
 * have no fitness yet, by their number. Then the next generation begins. Where the program
 * fails (SW_NOMEM) another try continues with the fitness that was given. out: NULL is fine. */
SW_MUST_USE SW_API sw_status sw_es_step(sw_es *es, sw_exec *exec, sw_es_info *out);
/* The needs of that program, without memory for it. */
SW_MUST_USE SW_API sw_status sw_es_plan(sw_es *es, sw_exec *exec, sw_plan_info *out);

/* ---- zeroth order: training in the memory of inference ----------------------------------- */

typedef struct {
    size_t size;
    const char *kind; /* "mezo": z of N(0, 1); "lozo": z = U V^T / sqrt(rank) of matrices, V the
                         same for `window` steps. NULL: "mezo" */
    float eps;        /* of the perturbation; 0: 0.001 */
    float lr;         /* 0: 1e-6 */
    float weight_decay;          /* of matrices: vectors have none */
    int rank;                    /* lozo, 1 to 256; 0: 2 */
    uint32_t window;             /* lozo; 0: 50 */
    const sw_schedule *schedule; /* of lr, copied; NULL: constant */
    uint64_t seed;
    uint64_t max_steps; /* that its record has room for, 4 bytes each; 0: no record */
} sw_zo_opts;

/* Of all parameters of the model that are not frozen; MeZO (Malladi et al. 2023), LOZO (Chen et
 * al. 2024). It borrows the model, which gets nothing more, and has no bytes of tensors: the
 * most that a step takes is what its runs take. Destroy it before the model. SW_INVALID for
 * numbers that are negative or not finite, and for rank and window with "mezo". */
SW_MUST_USE SW_API sw_status sw_zo_create(sw_zo **out, sw_model *model, const sw_zo_opts *opts);
SW_API void sw_zo_destroy(sw_zo *zo);
/* One step: theta += eps z; a run, L+; theta -= 2 eps z; a run, L-; theta += eps z;
 * c = (L+ - L-) / (2 eps); theta -= lr (c z + weight_decay theta). The runs are sw_run with
 * these arguments; `loss` is their metric. Each product and each sum is rounded, and what
 * rounding leaves of the perturbation is part of the trajectory. *out (or NULL): (L+ + L-) / 2.
 * A loss that is not finite, or a c that no float is: c is 0, and that is counted.
 *
 * These are refused ahead, and the model is as before: no memory, a step function with
 * sw_update or without the metric, other parameters frozen than in the first step of a record,
 * a record that is full. Where a run fails after that, the model is damaged (SW_STALE until it
 * is restored), and a record with steps before it cannot be saved any more. Moves are runs
 * of the exec too: after the call sw_metric_past has the run of L- as 1, that of L+ as 3. */
SW_MUST_USE SW_API sw_status sw_zo_step(sw_zo *zo, sw_exec *exec, const sw_run_args *args,
                                        const char *loss, double *out);
SW_API uint64_t sw_zo_steps(const sw_zo *zo);
SW_API uint64_t sw_zo_not_finite(const sw_zo *zo);
/* The steps as a file: a sum of the parameters before the first step and after the last
 * (names, shapes, which are frozen, elements), the options, one number for each step, a sum of
 * the file: 4 bytes a step and 264. Written whole or not at all. Between its first step and
 * this call nothing else may change the parameters: the record would be of other ones. */
SW_MUST_USE SW_API sw_status sw_zo_save(const sw_zo *zo, const char *path);
/* Make the steps of a record with a ready model that is as the first step found it (SW_INVALID
 * else, and it is as before): bit for bit what the recorded run left, on any number of threads
 * and any instruction set. Where that is not so the answer is SW_FORMAT, and the model is
 * damaged. A file that is damaged, cut or no record is SW_FORMAT, and nothing has changed. No
 * data is needed. progress (or NULL) is called after each step; anything but SW_OK ends it,
 * and is returned: the model is then as it was after that step. */
typedef sw_status sw_zo_progress_fn(void *user, uint64_t step, uint64_t steps);
SW_MUST_USE SW_API sw_status sw_zo_replay(sw_model *model, sw_exec *exec, const char *path,
                                          sw_zo_progress_fn *progress, void *user);
