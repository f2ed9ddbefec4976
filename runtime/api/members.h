/* Members: many models of one shape, with one trace and one plan; resizing; packing.
 *
 *     sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = model, .fn = fn);
 *     SW_TRY(sw_members_create(&members, exec, &opts));
 *     SW_TRY(sw_member_new(&member, members, 1));
 *     sw_members_args a = SW_OPTS(sw_members_args, .members = &member, .n = 1, .feed = feed);
 *     SW_TRY(sw_members_run(members, &a));
 */

/* Members are models without a handle of their own: each is a range of memory with the layout
 * of one model, the shape, and a seed. A step function that was written for the shape runs for
 * any number of them: it is traced once for each key, whatever their number. Members run side
 * by side, each on one thread of the exec; the bits of a member are those of a model that is
 * trained alone by an exec with its seed, and depend on neither the other members nor the
 * number of threads. A group and its members are used by one thread at a time, the one that
 * uses the exec.
 *
 * On a device members lie in its memory and run one after the other in one stream; their bits
 * are those of a model that is trained alone there. A program is captured for each member that
 * runs, by its range and seed; at most 256 of these captures are kept, and the one that was
 * used longest ago goes. Where the device fails the call is SW_DEVICE, nothing of it can be
 * asked for, and no member there can be used any more. Callbacks and `threads` above 1 are
 * SW_UNSUPPORTED. */
/* A member of `of`; {0}: no member. */
typedef struct {
    sw_members *of;
    uint32_t index, generation;
} sw_member;

/* The view that a callback has of a member; valid during the call. */
typedef struct {
    sw_member member;
    void *state; /* state_bytes of them, to be read and written */
    size_t state_bytes;
    const float *knobs; /* of the shape, by their index */
    int n_knobs;
    uint64_t seed, step;
    double score; /* to be set: the metric "score" */
} sw_member_view;
/* A status that is not SW_OK is the member's. */
typedef sw_status sw_member_fn(sw_member_view *view, void *user);

typedef struct {
    size_t size;
    sw_model *shape; /* its layers, optimizers, knobs and frozen set; borrowed until the end. It
                        needs no memory of its own */
    sw_step_fn *fn;
    void *user;
    int threads; /* that each member runs on; 0: 1. A group that asks for all of the exec's runs
                    its members one after the other. The same bits for every number */
    /* Members that are no networks: this is called in the place of the step function, on any
     * thread, for different members at one time. `shape` is then a model of knobs alone, or of
     * states and knobs. NULL: a step function */
    sw_member_fn *callback;
    size_t state_bytes; /* with a callback: bytes of each member that are the program's own,
                           aligned to 64 and zero at first; copied, saved and moved with it */
    size_t arena_bytes; /* the most that a plan of the group may take for steps; 0: no limit */
} sw_members_opts;

/* Uses the exec's threads, device and budget, which is charged for each member and for a step
 * arena for each thread; on a device for one step arena and its inputs, beside those of the
 * exec's own runs. A plan is not made smaller for it. Destroy it before shape and exec. */
SW_MUST_USE SW_API sw_status sw_members_create(sw_members **out, sw_exec *exec,
                                               const sw_members_opts *opts);
SW_API void sw_members_destroy(sw_members *members);
/* How many there are; bytes of one: its range. */
SW_API size_t sw_members_count(const sw_members *members);
SW_API size_t sw_members_bytes(const sw_members *members);

/* A member with the first values of sw_model_ready(shape, exec, seed), with the shape's
 * knobs; random ops draw by `seed`. SW_NOMEM where the budget has no room for it. */
SW_MUST_USE SW_API sw_status sw_member_new(sw_member *out, sw_members *members, uint64_t seed);
/* Its range is free for the next one. {0} is fine. */
SW_API void sw_member_end(sw_member member);
/* One copy of parameters, optimizer state, buffers, states, kept gradients and knobs; `to`
 * keeps its seed, and is well again where it had failed. Both are members of one shape, or of
 * shapes with one layout, on whatever device. */
SW_MUST_USE SW_API sw_status sw_member_copy(sw_member to, sw_member from);
/* All of it between a member and a model of the shape's layout that is ready, on whatever
 * device. */
SW_MUST_USE SW_API sw_status sw_member_to_model(sw_model *to, sw_member from);
SW_MUST_USE SW_API sw_status sw_member_from_model(sw_member to, const sw_model *from);
/* All elements of a parameter, buffer or state, which `param` names in the shape. */
SW_MUST_USE SW_API sw_status sw_member_read(sw_member member, sw_param param, void *to,
                                            size_t bytes);
SW_MUST_USE SW_API sw_status sw_member_write(sw_member member, sw_param param, const void *from,
                                             size_t bytes);
/* A knob of the shape, of this member alone. The value must be one that sw_knob_set accepts. */
SW_MUST_USE SW_API sw_status sw_member_knob_set(sw_member member, sw_knob knob, float value);
SW_MUST_USE SW_API sw_status sw_member_knob_get(sw_member member, sw_knob knob, float *out);

typedef struct {
    size_t size;
    const sw_member *members; /* each at most once */
    size_t n;
    const sw_array *inputs; /* n_inputs arrays that all members read; with own_inputs n times so
                               many, member by member, of the same types and shapes */
    int n_inputs;
    int own_inputs;
    sw_mode mode;
    uint32_t variant;
    uint64_t step; /* of all of them */
    uint32_t run;  /* in the step */
    /* In the place of inputs: each member has the next batch of the feed, in the order of its
     * own stream, and goes on by one with every run in mode SW_TRAIN that did not fail. In mode
     * SW_EVAL all have batch `step` of their stream, and with `steps` those after it, whatever
     * own_steps is. The batch is filled by the thread that runs
     * the member, into memory of the thread. Borrowed. */
    const sw_feed *feed;
    int same_data; /* 1: the stream of all is that of `data_seed`; 0: its seed is the member's
                    */
    uint64_t data_seed;
    int own_steps;  /* 1: the step is how many the member has made (sw_member_progress), which
                       counts on; `step` is not looked at */
    uint32_t steps; /* runs in a row of each member, with a feed or a callback; 0: 1. A thread
                       makes them all before its next member */
} sw_members_args;

/* Run the step function once for each of the members. A member that fails (an op refuses its
 * operands, or too many updates were skipped in a row, sw_optimizer_opts) has a status of its
 * own, and the others go on. One that failed after an update is refused (SW_STALE) until it
 * is copied to or written from a model. SW_OK where the group ran, whatever its members'
 * status. */
SW_MUST_USE SW_API sw_status sw_members_run(sw_members *members, const sw_members_args *args);
/* Runs of several groups of one exec, side by side, as if they were one: n groups with the
 * arguments of each. Memory is taken first, for all of them. */
SW_MUST_USE SW_API sw_status sw_members_run_all(sw_members *const *groups,
                                                const sw_members_args *args, size_t n);
/* Trace and plan what a run with these arguments would need, and take the memory for it: the
 * inputs' data may be NULL. *out: bytes that the group's exec then has for steps and batches,
 * of all its threads and groups; NULL is fine. */
SW_MUST_USE SW_API sw_status sw_members_plan(sw_members *members, const sw_members_args *args,
                                             size_t *out);
/* The same, and no memory is taken for it: what a step needs, arena_bytes the larger one of a
 * full batch and of the last one of an epoch. model_bytes is that of one member, data_bytes
 * that of one batch of a feed; on a device what all looks at the group so far take there for
 * inputs. SW_INVALID for callbacks. */
SW_MUST_USE SW_API sw_status sw_members_look(sw_members *members, const sw_members_args *args,
                                             sw_plan_info *out);
typedef struct {
    size_t size;
    int lanes;          /* of this group: threads of the exec by threads of a member */
    size_t lane_bytes;  /* step arenas and batches of the lanes of all groups of the exec; on a
                           device its step arena and inputs */
    size_t range_bytes; /* that the members of all of them have had at most */
    size_t live_bytes;  /* that they have now */
    size_t step_bytes;  /* of lane_bytes: the step arenas */
    size_t batch_bytes; /* of lane_bytes: what the lanes fill from feeds */
} sw_members_memory;
SW_MUST_USE SW_API sw_status sw_members_used(const sw_members *members, sw_members_memory *out);
/* The owners of a member's bytes: each tensor of its range, as a storage that lives all the
 * time (no op; birth 0, death UINT32_MAX; offset from where the range begins), by id. Roles are
 * parameter, optimizer_state, buffer, state, gradient and knob; with a callback the bytes of
 * its own are a state without a layer. Bytes and padding add up to sw_members_bytes. While it
 * shows, runs of the exec are refused (SW_BUSY), and the group may not be destroyed. */
SW_MUST_USE SW_API sw_status sw_members_visit(sw_members *members,
                                              const sw_plan_visitor *visitor);
/* The owners of the bytes of a lane's step, as sw_plan_visit shows a plan: of a full batch or
 * of the last one of an epoch the one that has the larger arena. Takes no memory for it.
 * SW_INVALID for callbacks. */
SW_MUST_USE SW_API sw_status sw_members_visit_step(sw_members *members,
                                                   const sw_members_args *args,
                                                   const sw_plan_visitor *visitor);
/* The same by role and by layer, as sw_plan_shares shows a plan: one member, its batch and the
 * step in its lane. */
SW_MUST_USE SW_API sw_status sw_members_shares(sw_members *members, const sw_members_args *args,
                                               sw_share_visitor *visitor, void *to);
/* Write into a profile what the shape is: a record with the tensors of a member's range, and
 * before it the plans of the programs that n runs with these arguments have (n 0: of none).
 *
 * args   n of them, as far apart as their first size says; NULL with a callback
 * name   of the shape in reports, kept in the file alone
 * shape  receives its number, from 0 in each profile; NULL is fine. Untouched on failure
 *
 * An error of the file is the profile's, as for steps. */
SW_MUST_USE SW_API sw_status sw_members_profile(sw_members *members,
                                                const sw_members_args *args, size_t n,
                                                sw_profile *profile, const char *name,
                                                uint32_t *shape);
/* Of the last run, n values in the order of its members: a metric (NaN where a member failed)
 * of the last of its steps, its mean over all of them, and how each ended. SW_INVALID for an
 * unknown name and another n. */
SW_MUST_USE SW_API sw_status sw_members_metric(sw_members *members, const char *name,
                                               double *out, size_t n);
SW_MUST_USE SW_API sw_status sw_members_mean(sw_members *members, const char *name, double *out,
                                             size_t n);
SW_MUST_USE SW_API sw_status sw_members_status(sw_members *members, sw_status *out, size_t n);

/* Steps that a member has made, and batches that it has had: 0 at first; a copy takes the
 * donor's. Either may be NULL. */
SW_MUST_USE SW_API sw_status sw_member_progress(sw_member member, uint64_t *steps,
                                                uint64_t *batches);
SW_MUST_USE SW_API sw_status sw_member_progress_set(sw_member member, uint64_t steps,
                                                    uint64_t batches);
/* The seed of its random ops and of its own stream of a feed. */
SW_MUST_USE SW_API sw_status sw_member_seed(sw_member member, uint64_t *out);
SW_MUST_USE SW_API sw_status sw_member_seed_set(sw_member member, uint64_t seed);
/* Bytes of all that a member is (range, seed, progress), for sw_member_pack and _unpack: state
 * that is kept elsewhere while its slot is another's. A pack of one group fits every member of
 * a group with a shape of the same layout; seed and progress are in it too. */
SW_API size_t sw_members_packed_bytes(const sw_members *members);
SW_MUST_USE SW_API sw_status sw_member_pack(sw_member member, void *to, size_t bytes);
SW_MUST_USE SW_API sw_status sw_member_unpack(sw_member member, const void *from, size_t bytes);

/* ---- resizing: the same net with other widths -------------------------------------------- */

/* How useful the positions of one axis of a tensor are, for narrowing: n finite numbers, n
 * the axis's length in `from`. The tensor is one of `from` (of the shape, for members). A
 * unit that has several positions on the axis has their sum. Of an axis that is not
 * narrowed: not used. */
typedef struct {
    sw_param tensor;
    int axis;
    int64_t n;
    const float *values;
    uint64_t reserved[2]; /* must be zero */
} sw_utility;

typedef struct {
    size_t size;
    uint64_t seed;               /* of the first values of new units */
    const sw_utility *utilities; /* n_utilities of them; units without any have the default */
    size_t n_utilities;
    int approximate; /* 1: units may be added to or taken from an axis that an op normalises
                        over (layer norm, RMS norm), which changes what the net computes; 0:
                        that is SW_UNSUPPORTED */
} sw_resize_opts;

typedef struct {
    size_t size;                             /* set by the caller */
    size_t from_bytes, to_bytes;             /* of the model or member */
    size_t from_arena_bytes, to_arena_bytes; /* of a step, as planned */
    int64_t added, dropped;                  /* units */
    int exact; /* 1: nothing is dropped, and no axis is resized that an op normalises over: the
                  net computes what it did */
} sw_resize_info;

/* Take over all that a model is (parameters, buffers, states, optimizer state, kept gradients,
 * knobs) into a model of the same tensors by name, with other widths. Which positions of which
 * tensors are one unit (a neuron, a channel, a head) follows from the ops between them: both
 * step functions are traced, with args_to and args_from, in which inputs' data may be NULL,
 * and must apply the same ops to inputs of the same types and shapes. The models are at the
 * same place of the two lists. A unit is added, or dropped, everywhere at once: where a
 * residual adds two results, in all that make and all that read the sum. opts NULL: all zero.
 *
 * Widened: units keep their order, new ones come after them. The values of a new unit begin as
 * in sw_model_ready with opts->seed: a weight by its initialiser, a batch norm's weight 1, bias
 * 0, mean 0 and variance 1, optimizer state as it begins, kept gradients 0; but the weights by
 * which others read the new unit are 0. While the new unit's values are finite, the net
 * computes what it did: on the CPU the same bits, but for the sign of zeros, in evaluation and
 * up to the first update; on a card up to the order of sums. Dropout draws other numbers.
 *
 * Narrowed: the most useful units stay, in their order; of equals the first. The default
 * utility of a unit is the product of two 2-norms: of all elements of parameters that belong to
 * it, and of those by which others read it; float64, summed in a fixed order, NaN counts as 0.
 * So new units go first, and a net that was widened and not trained since has its old bits, all
 * of them, unless an old unit has utility 0 too.
 *
 * Optimizer state of a parameter's shape follows it; adafactor's rows and columns follow their
 * axes. State in 8 bits keeps its codes and scales where all numbers of a block were in one
 * block or are new, and is quantised again where they were in several, or where it is kept in
 * other bits than it was, for it is float32 below 4,096 elements. Step counters go on, so the
 * first updates of new units are larger than those of a new net.
 *
 * On failure `to` is as it was. Both models must be ready, and `to` not `from`. SW_INVALID
 * names the tensor that has another name, rank or type, the optimizer, or the first op that
 * differs, or the tensor with units that reach an input, a loss, an output of the step function
 * or another model, which cannot be resized. SW_UNSUPPORTED names the op that a resized axis
 * goes through and that does not tie it: ops from outside, and those that sum or normalise over
 * it (sums, softmax, group norm; see approximate). SW_STALE: `from` is damaged. */
SW_MUST_USE SW_API sw_status sw_model_resize(sw_model *to, const sw_model *from, sw_exec *exec,
                                             const sw_run_args *args_to,
                                             const sw_run_args *args_from,
                                             const sw_resize_opts *opts);
/* The same between members, of two groups with shapes that differ in widths. Of `args` the
 * inputs (types and shapes), n_inputs, mode and variant are looked at, for both groups; `to`
 * keeps its seed, and is well again where it had failed. */
SW_MUST_USE SW_API sw_status sw_member_resize(sw_member to, sw_member from,
                                              const sw_members_args *args,
                                              const sw_resize_opts *opts);
/* The cost of a resize, and whether it can be: the same refusals. The models need no memory; a
 * narrowing is counted, and no utilities are. */
SW_MUST_USE SW_API sw_status sw_model_resize_plan(sw_model *to, sw_model *from, sw_exec *exec,
                                                  const sw_run_args *args_to,
                                                  const sw_run_args *args_from,
                                                  const sw_resize_opts *opts,
                                                  sw_resize_info *out);
SW_MUST_USE SW_API sw_status sw_members_resize_plan(sw_members *to, sw_members *from,
                                                    const sw_members_args *args,
                                                    const sw_resize_opts *opts,
                                                    sw_resize_info *out);

/* Members of one shape. Their needs are known from their plan: sw_members_bytes,
 * sw_plan_info.arena_bytes, sw_feed_bytes. */
typedef struct {
    size_t member_bytes, arena_bytes, batch_bytes;
    size_t members;
    uint64_t reserved[2]; /* must be zero */
} sw_pack_shape;

typedef struct {
    size_t size;
    int threads;       /* lanes, at most as many as were asked for: as many as fit */
    size_t bytes;      /* of the budget that the packing takes, at most all of it */
    size_t all_bytes;  /* with every member resident */
    size_t lane_bytes; /* of all lanes: arenas, batches and, where members wait, the slots that
                          they take turns in */
    size_t resident, waiting;
    size_t resident_bytes; /* ranges of those that are resident */
    size_t bound_bytes;    /* no packing has more resident bytes */
} sw_packing;

/* Place members into `budget` bytes: lanes (threads x (the largest arena + the largest batch)),
 * then as many bytes of members as fit beside them. The others wait elsewhere and take turns in
 * one slot of each lane, as large as the largest of them. Fewer threads are used where not all
 * fit. `resident` receives how many of each shape stay, n values. Whether it fits does not
 * depend on who comes first: every member that fits alone, in one lane, has its turn.
 * SW_NOMEM names the first shape that does not, and the least budget. Exact where sizes are
 * whole multiples of budget / 2^20; else at most members x budget / 2^20 bytes below it. */
SW_MUST_USE SW_API sw_status sw_pack(const sw_pack_shape *shapes, size_t n, size_t budget,
                                     int threads, size_t *resident, sw_packing *out);
