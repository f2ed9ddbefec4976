/* Runs and plans: one call for each batch; before it, or after it, what it takes.
 *
 *     double loss;
 *     sw_plan_info plan = SW_OPTS(sw_plan_info);
 *     SW_TRY(sw_plan(exec, &args, &plan));
 *     SW_TRY(sw_run(exec, &args));
 *     SW_TRY(sw_metric_get(exec, "loss", &loss));
 */

/* A program is traced and planned on the first call of a key: fn, user, models and their
 * layouts, input shapes and types, mode, frozen set, variant. */
typedef struct {
    size_t size;
    sw_step_fn *fn;
    void *user;
    sw_model *const *models; /* at most 16 */
    int n_models;
    const sw_array *inputs; /* at most 16 */
    int n_inputs;
    sw_mode mode;
    int immediate; /* op by op, for control flow on values */
    uint64_t variant;
    uint64_t step;     /* 0, 1, ... 2^32 - 1: the counter of random ops */
    uint32_t run;      /* of this step (micro-batches) */
    size_t data_bytes; /* slots of loaders. Those of the exec's budget count by themselves, once
                          each: say more for loaders that are still to come. 0 without any: just
                          these inputs, which are the caller's and take nothing of a budget. Not
                          looked at on a device: there data_bytes of plans is what the exec
                          takes for inputs and metrics, three places for the largest batch so
                          far */
    const sw_es *es;   /* run with the noise of its generation: sw_es_create. NULL: none */
    uint64_t es_slice; /* which slice of the generation */
} sw_run_args;

/* Run one step. A model that is not ready yet is made ready first, as by sw_model_ready with
 * the exec's seed (0 where none was given); sw_last_note() then says so. While it computes,
 * denormals are zero, as operands and as results, in the exec's threads and in the caller's: on
 * x86-64, where they would cost 200 times as much. The caller's mode (MXCSR: rounding,
 * flushing, masks) is put back before the call returns, also where it fails, and does not
 * change the numbers. A step function that is traced has the caller's mode; in immediate mode
 * it runs with that of the kernels. */
SW_MUST_USE SW_API sw_status sw_run(sw_exec *exec, const sw_run_args *args);

typedef struct {
    size_t peak_bytes, end_bytes; /* live model + step + current batch slot */
    uint64_t ns;                  /* measured runs only */
} sw_phase_info;

typedef struct {
    size_t size; /* set by the caller */
    size_t model_bytes, arena_bytes, data_bytes, total_bytes, slot_bytes;
    size_t lower_bound_bytes; /* of the arena: the largest sum that lives at one time */
    size_t padding_bytes;     /* rounding of the step's storages that live at the peak */
    size_t peak_bytes;        /* the largest of the phases */
    size_t immediate_bytes;   /* height of the bump in immediate mode */
    sw_phase_info phase[SW_PHASES];
    uint32_t n_ops, n_values, n_storages;
    uint64_t trace_ns, plan_ns;
    char peak_op[64];  /* the op that runs at the peak, with its scope */
    char holders[256]; /* who holds the peak: the largest, with bytes */
    /* Where a plan would be over the budget: released updates, then recomputation, ops of the
     * forward part that run again in backward instead of keeping what they made. The results
     * are the same bit for bit. */
    uint32_t n_repeats;       /* 0: none */
    uint32_t n_released;      /* updates that run right after their gradients although their
                                 optimizers do not ask for it: tried first, for it costs nothing */
    size_t plain_arena_bytes; /* arena_bytes without repeats */
    uint64_t operations;      /* arithmetic of a step, repeats included: sw_op_desc */
    uint64_t repeat_operations;
    uint64_t cost, repeat_cost; /* estimated time of one thread, 1/16 ns; repeats included */
    uint64_t least_repeat_cost; /* proved: no plan under the budget has less repeat_cost;
                                   UINT64_MAX: there is none */
    char method[16]; /* that chose the repeats: "search" (of all schedules), "chain"; "release":
                        none was needed; "": the budget asked for nothing */
    uint32_t n_rebuilt;    /* cheap ops that run again in backward with or without a budget, not
                              among n_repeats (sw_op_desc, rebuild) */
    uint64_t rebuild_cost; /* of those without a budget; not among repeat_cost, which is what a
                              plan under a budget takes on top, whichever of them it has */
    int64_t chunk_rows;    /* rows at a time of ops that go through them in parts, since that
                              lowers the arena, or since the budget asks for it: as many as
                              fit; 0: all at once */
    uint32_t n_tiled;     /* updates of weights with gradients that exist only block by block */
    uint32_t launches;    /* on a device: kernels and library calls of a run, of which each run
                             has exactly so many; 0 on the CPU */
    uint64_t budget_cost; /* what the budget costs, among cost: repeat_cost, and what ops take
                             longer that go through their rows in more parts than they would
                             without it */
    size_t program_host_bytes; /* of the host's heap that the program's records take now: part
                                  of no total */
} sw_plan_info;

/* Trace and plan without tensor memory; inputs' data may be NULL. With a budget the exec's
 * arena (with `immediate` the bump of immediate mode) and the models are reserved in it, all or
 * nothing. A plan that would be over it is made smaller (sw_plan_info, n_released and
 * n_repeats), by as little work as was found; more budget never means more work. Where no plan
 * fits, SW_NOMEM says the least budget that would do, with what others have taken of it, and
 * who holds the peak, and *out is filled then too: with that budget, sw_plan succeeds, while no
 * other object reserves. A planned run asks its budget before it begins; an
 * immediate run that was not planned asks op by op, and can be refused after an update. */
SW_MUST_USE SW_API sw_status sw_plan(sw_exec *exec, const sw_run_args *args, sw_plan_info *out);

/* A storage of a plan: a range of the step arena, or an input. Its pointers are valid
 * during the call. */
typedef struct {
    size_t size;
    uint32_t id, alias; /* alias: the storage that it takes the place of; UINT32_MAX: none */
    const char *name, *layer;
    const char *op;   /* that writes it first; NULL for inputs */
    const char *role; /* "saved", "gradient", "workspace": as in profiles */
    sw_phase phase;   /* of its birth */
    int input;        /* 1: lies in the batch slot; offset and birth are 0 */
    size_t bytes, padding, offset;
    uint32_t birth, death; /* positions of ops, both included; the number of ops: it is read out
                              after the last */
} sw_plan_storage;

/* Receives a plan; either function may be NULL. */
typedef struct {
    size_t size; /* set by the caller */
    void *to;
    void (*op)(void *to, uint32_t position, const char *name, sw_phase phase);
    void (*storage)(void *to, const sw_plan_storage *storage);
} sw_plan_visitor;

/* Plan as sw_plan does, but reserve nothing, and show the plan: the ops in the order in which
 * they run, then the storages by id. Storages without an alias that live at one time lie apart.
 * While it shows, exec and models refuse calls (SW_BUSY). */
SW_MUST_USE SW_API sw_status sw_plan_visit(sw_exec *exec, const sw_run_args *args,
                                           const sw_plan_visitor *visitor);

/* A layer of a program. Its pointers are valid during the call. */
typedef struct {
    size_t size;
    const char *name; /* its path, as scopes and parameters have it; "" for what has none */
    const char *op;   /* of its forward part, that makes what others read, else the last one; ""
                         where it has none */
    sw_dtype dtype;   /* of that op's result, with its shape, batch included */
    sw_shape shape;
    uint64_t parameters;          /* elements of its trainable parameters, frozen ones too */
    size_t parameter_bytes;       /* of these */
    size_t saved_bytes;           /* of what it makes and backward reads, padding included */
    uint64_t operations;          /* arithmetic of its forward part: sw_op_desc */
    uint64_t backward_operations; /* all else: gradients, updates, ops that run again */
} sw_plan_layer;
typedef void sw_plan_layer_visitor(void *to, const sw_plan_layer *layer);
/* A summary of the model, before anything runs: plan as sw_plan_visit does, and show the layers
 * in the order in which they first run, those with parameters that no op uses after them. Their
 * operations add up to sw_plan_info.operations. */
SW_MUST_USE SW_API sw_status sw_plan_layers(sw_exec *exec, const sw_run_args *args,
                                            sw_plan_layer_visitor *visitor, void *to);

/* The figures that the last run measured. */
typedef struct {
    size_t size; /* set by the caller */
    sw_phase_info phase[SW_PHASES];
    size_t peak_bytes, arena_bytes, model_bytes, bump_bytes;
    uint64_t allocations; /* heap and system calls of the allocation table during the run */
    uint64_t ns;
    int warm; /* 0: the run traced, or its program has never run before; on a device also where
                 it was captured, for models that it had not run with */
    int replayed; /* 1: a device replayed it as it was captured: peaks are those of the plan */
} sw_run_info;
SW_MUST_USE SW_API sw_status sw_last_run(const sw_exec *exec, sw_run_info *out);
/* Of an earlier run of the exec: `ago` 0 is the last, up to 3 runs ago. SW_INVALID where there
 * is none, or it failed.
 *
 * On a device sw_run returns while the run goes on; this call, and every other that reports on
 * a run or reads memory of the device, waits for that run's end. `ns` is then the device's time
 * of the run, and of each phase; phases of a run have none (0) where the next one was begun
 * before any call asked. */
SW_MUST_USE SW_API sw_status sw_run_past(sw_exec *exec, int ago, sw_run_info *out);

/* The bytes of a step that one role or one layer holds, padding included, model and batch slot
 * among them. `name` is valid during the call. */
typedef enum { SW_SHARE_ROLE, SW_SHARE_LAYER } sw_share_kind;
typedef struct {
    size_t size;
    sw_share_kind kind;
    const char *name;     /* "saved", as in profiles; a layer's path, "" for what has none */
    size_t at_peak_bytes; /* when the step is at its peak: over the roles, and over the layers,
                             these add up to that peak (model, batch slot and bump for
                             `immediate`) */
    size_t peak_bytes;    /* the most that it holds at any time of the step */
} sw_share;
typedef void sw_share_visitor(void *to, const sw_share *share);

/* Show the shares, roles before layers, those without bytes left out: as planned (with
 * `immediate` those of the bump); of the last run, by the arena's births and deaths (an exec
 * made with `shares`); and as the last access witness of the exec saw them. While they show,
 * the exec refuses calls (SW_BUSY). SW_INVALID where nothing was measured. */
SW_MUST_USE SW_API sw_status sw_plan_shares(sw_exec *exec, const sw_run_args *args,
                                            sw_share_visitor *visitor, void *to);
SW_MUST_USE SW_API sw_status sw_last_shares(sw_exec *exec, sw_share_visitor *visitor, void *to);
SW_MUST_USE SW_API sw_status sw_witness_shares(sw_exec *exec, sw_share_visitor *visitor,
                                               void *to);

/* Of the last run; waits for the device if it must. SW_INVALID for an unknown name. */
SW_MUST_USE SW_API sw_status sw_metric_get(sw_exec *exec, const char *name, double *out);
/* Of the run `ago` runs ago, up to 3; 0 is the last. A loop that asks for the run before the
 * last lets the device work on while it asks. */
SW_MUST_USE SW_API sw_status sw_metric_past(sw_exec *exec, int ago, const char *name,
                                            double *out);
/* data is valid until the exec's next run. */
SW_MUST_USE SW_API sw_status sw_output_get(sw_exec *exec, const char *name, sw_array *out);
