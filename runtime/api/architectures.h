/* Architectures as data: genomes, search spaces, and the nets that genomes become.
 *
 *     sw_task task = SW_OPTS(sw_task, .channels = 1, .height = 28, .width = 28);
 *     task.classes = 10;
 *     SW_TRY(sw_search_space_default(&search_space, &task));
 *     SW_TRY(sw_genome_draw(&genome, search_space, &task, 1));
 *     SW_TRY(sw_net_create(&net, genome, NULL));
 */

/* ---- genomes: nets as data --------------------------------------------------------------- */

/* A genome is a net and how it is trained, as data: a graph of layers, an optimizer, a batch
 * size and a loss. Its text is JSON, one vertex a line (tools/docs/architectures.md). A genome
 * is valid at every moment: what makes or changes one refuses what could not be trained. */
typedef enum {
    SW_VERTEX_INPUT, /* vertex 0, and no other */
    SW_VERTEX_LINEAR,
    SW_VERTEX_CONV2D,
    SW_VERTEX_BATCH_NORM,
    SW_VERTEX_MAX_POOL,
    SW_VERTEX_AVG_POOL,
    SW_VERTEX_GLOBAL_MAX_POOL, /* these two give vectors */
    SW_VERTEX_GLOBAL_AVG_POOL,
    SW_VERTEX_ACTIVATION,
    SW_VERTEX_DROPOUT,
    SW_VERTEX_FLATTEN, /* an image to a vector */
    SW_VERTEX_ADD,     /* of inputs of one shape */
    SW_VERTEX_CONCAT   /* of channels: images of one height and width, or vectors */
} sw_vertex_kind;
#define SW_VERTEX_KINDS 13
/* "conv2d" and so on; NULL past the end. */
SW_API const char *sw_vertex_kind_name(sw_vertex_kind kind);

/* The parts that mutations and crossover leave alone. */
#define SW_SHIELD_SIZE 1u    /* its number of outputs */
#define SW_SHIELD_REMOVE 2u  /* it stays */
#define SW_SHIELD_INPUTS 4u  /* it reads what it reads, and nothing is put in between */
#define SW_SHIELD_OUTPUTS 8u /* the same of those that read it */
#define SW_SHIELD_KERNEL 16u /* kernel, and what kind of pool it is */
#define SW_SHIELD_ACTIVATION 32u
#define SW_SHIELD_CROSSOVER 64u /* it is in no segment that is swapped */
#define SW_SHIELD_ALL 127u

/* A vertex; pointers are valid until the genome is edited or destroyed. */
typedef struct {
    size_t size; /* set by the caller */
    const char *name;
    sw_vertex_kind kind;
    const char *activation; /* "relu", ...; NULL: not an activation */
    const uint32_t *inputs; /* vertices, all before it */
    int n_inputs;
    uint32_t shield;
    int kernel, stride, dilation, groups; /* groups 0: depthwise, as many as channels */
    float rate;                           /* of dropout */
    int64_t channels, height, width;      /* of a sample's result; a vector has height 0 */
    uint64_t parameters;
    sw_update_time update; /* RELEASE or AFTER */
    int identity;          /* 1: its weights begin as those of the identity */
} sw_vertex;

typedef struct {
    size_t size; /* set by the caller */
    const char *name;
    uint32_t n_vertices, n_edges;
    int64_t channels, height, width; /* of an input sample; a vector has height 0 */
    int64_t classes;
    uint64_t parameters;
    const char *optimizer, *loss;
    float lr, momentum, weight_decay;
    float clip;      /* bound of the norm of each gradient, by a hook; 0: none */
    float clip_norm; /* bound of the norm of all of them, which updates after backward need;
                        0: none */
    int64_t batch;
    uint64_t hash; /* of all that its text says but for its own name */
} sw_genome_info;

/* Read a text. SW_FORMAT names `path` (which is for messages alone) and the line of what is
 * damaged, unknown, missing, or cannot be: an input that is not before its vertex, sizes or
 * images that do not fit, an even kernel that is not a pool's, updates that cannot be mixed. */
SW_MUST_USE SW_API sw_status sw_genome_parse(sw_genome **out, const char *text, size_t bytes,
                                             const char *path);
SW_MUST_USE SW_API sw_status sw_genome_load(sw_genome **out, const char *path);
/* Written whole or not at all. */
SW_MUST_USE SW_API sw_status sw_genome_save(const sw_genome *genome, const char *path);
/* The text, with a zero after its *bytes; for sw_text_free. The same genome has the same
 * text. */
SW_MUST_USE SW_API sw_status sw_genome_print(const sw_genome *genome, char **text,
                                             size_t *bytes);
SW_API void sw_text_free(char *text, size_t bytes);
SW_MUST_USE SW_API sw_status sw_genome_copy(sw_genome **out, const sw_genome *from);
SW_API void sw_genome_destroy(sw_genome *genome);
SW_MUST_USE SW_API sw_status sw_genome_describe(const sw_genome *genome, sw_genome_info *out);
SW_MUST_USE SW_API sw_status sw_genome_vertex(const sw_genome *genome, uint32_t i,
                                              sw_vertex *out);

/* ---- edits of genomes -------------------------------------------------------------------- */

/* They change a genome in place: the one that a mutation of one's own is given
 * (SW_MUTATE_CUSTOM), or one that the caller owns. Each keeps the lineage, so that
 * sw_net_inherit works on the result: which vertex of the parent each was, and which of its
 * outputs and inputs. A vertex is given by its position; those after an added or removed one
 * move, names stay. A vertex that none reads after an edit goes too.
 *
 * Where an edit cannot be, the genome is as it was, and the message has names and numbers.
 * SW_INVALID: an argument is out of range, or the result would not be valid. SW_UNSUPPORTED: a
 * shield forbids it, a bound, or sizes that cannot fit. SW_NOMEM. */

/* A copy that descends from `parent`: edited, its net inherits from a net of the parent. */
SW_MUST_USE SW_API sw_status sw_genome_child(sw_genome **out, const sw_genome *parent);
/* The position of a vertex; UINT32_MAX: there is none of that name. */
SW_API uint32_t sw_genome_find(const sw_genome *genome, const char *name);
/* Add a vertex after the last one that it reads. Those that read its first input, and stand
 * after it, read the new vertex instead: `reader` alone, or with UINT32_MAX all of them. Their
 * weights stay; of a new concat they have new columns for its other inputs. All inputs of an
 * add get one size.
 *
 * `vertex` is as sw_genome_vertex gives it: 1 to 16 inputs; name NULL: a new one; channels, of
 * a linear or conv2d, 1 to 2^20, 0: as many as its first input has; groups 0 is depthwise, so
 * an ordinary conv2d has 1; kernel, stride and dilation 0: 1. Height, width and parameters are
 * not read. `at`, which may be NULL, receives its position. */
SW_MUST_USE SW_API sw_status sw_genome_add_vertex(sw_genome *genome, const sw_vertex *vertex,
                                                  uint32_t reader, uint32_t *at);
/* Those that read the vertex read its input number `input` instead. Sizes are aligned first.
 * Not the input, the last vertex, or one that makes a vector of an image: SW_UNSUPPORTED. */
SW_MUST_USE SW_API sw_status sw_genome_remove_vertex(sw_genome *genome, uint32_t vertex,
                                                     uint32_t input);
/* The vertex reads `to`, which stands before it, as its input number `input`. Its weights read
 * output i of `to` in the place of output i of what it read; of more outputs the last are new.
 * Other sizes change only where an add or groups need it. With `input` = n_inputs an add or a
 * concat reads one more. With `to` UINT32_MAX it reads one less, and goes where one is left. */
SW_MUST_USE SW_API sw_status sw_genome_rewire(sw_genome *genome, uint32_t vertex,
                                              uint32_t input, uint32_t to);
/* Give the vertex `size` outputs (1 to 2^20, in a mutation to its max_size). Sizes that are
 * tied to it change too. New outputs come after its own. Those that go have the least utility;
 * without utility they are the last. The size of a norm, an add and so on is that of what it
 * reads. */
SW_MUST_USE SW_API sw_status sw_genome_resize(sw_genome *genome, uint32_t vertex, int64_t size);
/* Set a field by its name in texts (tools/docs/genomes.md). Of a vertex: kernel, stride,
 * dilation, groups (neither to nor from 0), rate. Of the genome, where `vertex` is UINT32_MAX:
 * lr, momentum, weight_decay, clip, clip_norm, smoothing, batch. Ranges are those of texts. */
SW_MUST_USE SW_API sw_status sw_genome_set_number(sw_genome *genome, uint32_t vertex,
                                                  const char *name, double value);
/* Of a vertex: activation, kind (of pools: max to average and back), update. Of the genome:
 * optimizer, loss, update, name. Momentum becomes 0 where the optimizer has none. */
SW_MUST_USE SW_API sw_status sw_genome_set_word(sw_genome *genome, uint32_t vertex,
                                                const char *name, const char *word);

/* The task to be learnt. */
typedef struct {
    size_t size;
    int64_t channels, height, width; /* of a sample; height 0: a vector of `channels` */
    int64_t classes;
} sw_task;

/* A tree of layers with ranges, chains, repeats, forks, residuals, choices and conditions, and
 * beside it ranges of optimizer, rate and batch: JSON (tools/docs/architectures.md). SW_FORMAT
 * names the line. */
SW_MUST_USE SW_API sw_status sw_search_space_parse(sw_search_space **out, const char *text,
                                                   size_t bytes, const char *path);
SW_MUST_USE SW_API sw_status sw_search_space_load(sw_search_space **out, const char *path);
/* The space that is there without a file: classifiers of images, or of vectors. Its text is
 * what sw_search_space_text gives. */
SW_MUST_USE SW_API sw_status sw_search_space_default(sw_search_space **out,
                                                     const sw_task *task);
SW_API const char *sw_search_space_text(const sw_search_space *space); /* as it was read */
SW_API void sw_search_space_destroy(sw_search_space *space);
/* A genome of the space: a function of (space, task, seed) alone. SW_INVALID where the space
 * has none for the task, by the node and why. */
SW_MUST_USE SW_API sw_status sw_genome_draw(sw_genome **out, const sw_search_space *space,
                                            const sw_task *task, uint64_t seed);

/* ---- nets: genomes that run -------------------------------------------------------------- */

/* The loss of logits (batch, classes) and labels (batch). */
typedef sw_value sw_loss_fn(sw_ctx *ctx, sw_value logits, sw_value labels, void *user);
/* Called for each gradient before its update. Its result, of the same shape, takes the
 * gradient's place. */
typedef sw_value sw_gradient_fn(sw_ctx *ctx, sw_param param, sw_value gradient, void *user);

/* A loss that genomes name. */
typedef struct {
    const char *name;
    sw_loss_fn *fn;
    void *user;
    uint64_t reserved[2]; /* must be zero */
} sw_named_loss;

typedef struct {
    size_t size;
    float scale[4], shift[4]; /* of bytes, by channel (n_scales of them; 0: 1 / 255 and 0):
                                 x * scale + shift */
    int n_scales;
    const sw_named_loss *losses; /* n_losses, beside "cross_entropy"; borrowed */
    int n_losses;
    sw_gradient_fn *hook; /* NULL: none */
    void *hook_user;
    int utility;         /* 1: states of neuron utility, which variant 1 of the step averages */
    float utility_rate;  /* new = (1 - rate) old + rate now; 0: 0.05 */
    uint64_t state_bits; /* 8: as in sw_optimizer_opts, of optimizers that have such a state; 0,
                            32: float32 */
} sw_net_opts;

/* A model and a step function of a genome, which is copied. Parameters are VERTEX.weight and
 * so on. opts NULL: all zero. */
SW_MUST_USE SW_API sw_status sw_net_create(sw_net **out, const sw_genome *genome,
                                           const sw_net_opts *opts);
SW_API void sw_net_destroy(sw_net *net);
SW_API sw_model *sw_net_model(sw_net *net);
SW_API sw_optimizer *sw_net_optimizer(sw_net *net);
/* sw_model_ready of its model, with the weights of vertices that begin as the identity, and
 * utilities of 2^-23. */
SW_MUST_USE SW_API sw_status sw_net_ready(sw_net *net, sw_exec *exec, uint64_t seed);
SW_API const sw_genome *sw_net_genome(const sw_net *net);
/* The step function; user: the net. Inputs: samples (batch, channels, height, width) or (batch,
 * channels), U8 or F32, and labels (batch). Metrics "loss" and "accuracy"; SW_TRAIN updates
 * too. Variant 1 of a net with utility also averages the utility of the neurons of each vertex
 * that has a size: the mean over the batch of |mean over positions of activation x gradient|
 * (Molchanov et al. 2017), into the state VERTEX.utility. */
SW_API void sw_net_step(sw_ctx *ctx, void *net);

/* The price of training a genome, before any of it runs. */
typedef struct {
    size_t size;       /* set by the caller */
    size_t peak_bytes; /* of a training step with its batch: model, step and batch */
    size_t model_bytes, arena_bytes, batch_bytes;
    uint64_t operations; /* of a training step; per_sample: of it, of each sample */
    double operations_per_sample;
    uint64_t parameters;
    uint64_t ns; /* that finding out took */
} sw_price;
/* Trace and plan a training step of the genome's batch, without tensor memory: bytes to the
 * byte, those of a member of a group. With utility arena_bytes is the larger one of both
 * variants. `input` is the type of a sample's numbers (SW_U8 or SW_F32). Nothing is kept, and
 * no budget is asked. */
SW_MUST_USE SW_API sw_status sw_genome_price(const sw_genome *genome, sw_exec *exec,
                                             const sw_net_opts *opts, sw_dtype input,
                                             sw_price *out);

/* Take over from the nets of a genome's parents what it has of them: weights, buffers,
 * optimizer state of the same kind, utility, by the neurons' descent, which the genome of `to`
 * has (sw_genome_mutate, sw_genome_crossover, sw_genome_child). New outputs begin by their
 * initialiser, what reads a new input with 0, filters stay aligned, optimizer state of what is
 * new as it begins, its utility with the machine epsilon; vertices of neither parent as in
 * sw_model_ready, or as the identity. Step counters, and counts of skipped updates, are those
 * of the first parent that has an optimizer of the same kind and gives a parameter; knobs those
 * of `to`. b NULL: of one parent. All models are ready. On failure `to` is as it was.
 * SW_INVALID: `a` is not a net of the parent. */
SW_MUST_USE SW_API sw_status sw_net_inherit(sw_net *to, const sw_net *a, const sw_net *b,
                                            uint64_t seed);

/* A function on gradients in a step function: called for every gradient that the model's
 * optimizers use, before the next sw_clip_norm or sw_update looks at it, with an open ctx.
 * The ops that it appends run where the update does: a released update stays released, and the
 * gradient that goes in ends with it. The result is what is checked for NaN and infinities. fn
 * NULL: none any more. Ends with the step function. SW_UNSUPPORTED, at the update, with
 * keep_gradients. */
SW_API void sw_gradient_hook(sw_ctx *ctx, sw_model *model, sw_gradient_fn *fn, void *user);
