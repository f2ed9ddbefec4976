/* State in files: parameters, and checkpoints from which a run continues.
 *
 *     sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .path = "ckpt", .models = &model);
 *     opts.n_models = 1;
 *     SW_TRY(sw_checkpoint_create(&checkpoint, exec, &opts));
 *     SW_TRY(sw_checkpoint_save(checkpoint, step));
 *     sw_checkpoint_destroy(checkpoint);
 */

/* Parameters and buffers as a safetensors file, in PyTorch's order of dims. Saving writes a new
 * file with the old one's permissions, syncs and renames it, and syncs the folder; where the
 * last fails, or PATH is on a network file system, the file is there, and sw_last_note() says
 * that its durability is unknown. Until it is renamed the new file has no name, then, or where
 * the system has no such files, it is PATH.<16 digits>.tmp and locked; one that a killed
 * process left is removed by the next save of PATH. PATH may be a pipe (sw_interrupt_set).
 * Loading needs exactly the model's names, types and shapes (SW_FORMAT names the first that
 * differs); a float32 tensor may also be BF16 or F16 in the file, and is widened, exactly. It
 * changes nothing when it fails. A model that sw_model_ready has initialised, and no run and no
 * write has used since, takes the numbers as they are read, in its own memory alone, and is
 * initialised again where loading fails. Any other model has numbers that cannot be had again:
 * loading then takes memory for those of the file beside it until all are read; on a device it
 * reads the file twice instead, and the model is damaged where a file that was readable is not
 * any more. Files that are saved have a checksum of each tensor and one of the header;
 * whatever is damaged in one is SW_FORMAT by the tensor's name and its bytes. Names that begin
 * with "stepwell." are the library's own: SW_INVALID. A checkpoint is loaded too: what it has
 * beside parameters and buffers is checked and passed over; where it has several models, the
 * one of the model's name is taken (SW_FORMAT lists those that it has). Optimizer state, kept
 * gradients and states stay as they are - but of a model that a failed run left damaged,
 * loading makes them zero, as sw_model_ready does.
 *
 * A PATH that ends in ".npz" (or ".NPZ") is not saved (SW_UNSUPPORTED): NumPy's archives hold
 * data here, and loading one is SW_FORMAT. */
SW_MUST_USE SW_API sw_status sw_model_save(const sw_model *model, const char *path);
SW_MUST_USE SW_API sw_status sw_model_load(sw_model *model, const char *path);
/* The same as sw_model_save, with parameters of `type`: SW_F32, or SW_BF16, which halves them.
 * Each number is rounded once, to the nearest, ties to even; what is below 2^-126 becomes zero
 * with its sign, a NaN 0x7fc0 with its sign, what is 3.3961775e38 or more infinity. Buffers
 * and the model stay as they are. SW_UNSUPPORTED: another type. */
SW_MUST_USE SW_API sw_status sw_model_save_as(const sw_model *model, const char *path,
                                              sw_dtype type);

/* A text that is saved with the parameters, under `key` in the file's metadata: how inputs were
 * made numbers, say. Key (1 to 47 bytes, not "format", not beginning with "stepwell.") and
 * text (at most 255, UTF-8) are copied; text NULL removes it. At most 4 keys. Loading changes
 * no notes. */
SW_MUST_USE SW_API sw_status sw_model_note(sw_model *model, const char *key, const char *text);
/* The text of `key` in a file of parameters, cut to `bytes`; "" where it has none. SW_FORMAT
 * where it is no safetensors file. */
SW_MUST_USE SW_API sw_status sw_params_note(const char *path, const char *key, char *text,
                                            size_t bytes);

/* ---- checkpoints: a run goes on as if it had never stopped ------------------------------- */

/* A checkpoint is a safetensors file: parameters and buffers under their names, so that other
 * programs and sw_model_load read them, and the notes of a single model; beside them, under
 * names that begin with "stepwell.", optimizer state, states, kept gradients and knobs of each
 * model, the positions of loaders, the step, and what the program puts in. All of it is under
 * checksums; a file that is damaged anywhere is SW_FORMAT by the name of what is damaged, and
 * changes nothing.
 *
 * With several models, tensors are MODEL/NAME. Models of one name must have one layout and
 * follow each other: their tensors are stacked, (models, dims...).
 *
 * A save is PATH.<16 digits>.tmp, or a file without a name, until it is synced; then it takes
 * the name PATH, and the one before is PATH.1, PATH.2 and so on. PATH is at every moment one
 * whole checkpoint, or not yet there. One process at a time saves to PATH (PATH.lock); where
 * the file system has no locks nothing keeps others out, and sw_last_note() says so. */
typedef struct {
    size_t size;
    const char *path;        /* copied, at most 507 bytes; not there yet, or a regular file, no
                                link. NULL: nothing is saved, only loaded */
    sw_model *const *models; /* the list is copied; the models are borrowed until the end */
    int n_models;            /* 0 where all that is saved are members */
    const char
        *command; /* said by `stepwell info`; the first 511 bytes are copied; NULL: none */
    int keep;     /* generations, 1 to 1000; 0: 2 */
    int no_copy;  /* 1: a save writes straight from the models, and returns when the file is
                     there. It takes no memory, and the run stops for it. 0: the models are
                     copied first, into memory that the budget of the exec is charged for, and
                     a thread writes while the run goes on */
    sw_status (*before)(void *user); /* NULL: none. Called on the thread that writes, when the
                                        new file is synced and has not its name yet: sync here
                                        what must not be older than the checkpoint (a log). A
                                        failure fails the save. Calls of this checkpoint but
                                        sw_checkpoint_bytes are SW_BUSY in it */
    void *user;
} sw_checkpoint_opts;

/* Models need not be ready: their layouts are fixed and the budget of `exec` is charged for the
 * copy, so make it before sw_plan. The exec is the one that trains the models; a copy of what a
 * card has is taken after the runs that were begun, and waits for none. SW_BUSY: another
 * process saves to PATH. Destroy it before models and exec; that waits for a save that goes on.
 */
SW_MUST_USE SW_API sw_status sw_checkpoint_create(sw_checkpoint **out, sw_exec *exec,
                                                  const sw_checkpoint_opts *opts);
SW_API void sw_checkpoint_destroy(sw_checkpoint *checkpoint);
/* From now on saves keep where `loader` is, and sw_checkpoint_load has it go on there: the i-th
 * loader that is given goes on as the i-th of the run that saved. Reads all its samples once,
 * for their checksum. Borrowed: destroy it after the checkpoint. */
SW_MUST_USE SW_API sw_status sw_checkpoint_loader(sw_checkpoint *checkpoint, sw_loader *loader);
/* From now on saves keep these members (n, each once) of a group of the checkpoint's exec, in
 * this order, and sw_checkpoint_load puts them back: the i-th that is given becomes the i-th of
 * the run that saved, with its seed, progress, knobs and, of callbacks, state. Their tensors
 * are stacked, (n, dims...), under SHAPE/NAME, whatever the number of models; seed, steps,
 * batches and whether it failed after an update are four 64-bit words each in
 * SHAPE/stepwell.members. One call for each group; two groups must not have shapes of one name.
 * The list is copied, the group is borrowed until the end: destroy it after the checkpoint. A
 * take, and a load, are SW_INVALID where a member has ended, and SW_BUSY in a callback. The
 * copy is charged now (sw_checkpoint_bytes). A take that is not written yet is given up.
 * SW_UNSUPPORTED for members on a device: pack them, and sw_checkpoint_put the bytes. */
SW_MUST_USE SW_API sw_status sw_checkpoint_members(sw_checkpoint *checkpoint,
                                                   sw_members *members, const sw_member *list,
                                                   size_t n);
/* Take the memory of the copy now; else the first sw_checkpoint_take does. */
SW_MUST_USE SW_API sw_status sw_checkpoint_ready(sw_checkpoint *checkpoint);
/* Of the copy: what of the budget the checkpoint takes; 0 with no_copy. */
SW_API size_t sw_checkpoint_bytes(const sw_checkpoint *checkpoint);

/* Bytes of the program's own under `name` (1 to 63 letters, digits, ".", "_", "-"), in every
 * checkpoint from the next sw_checkpoint_write on, until they are put again. Copied. */
SW_MUST_USE SW_API sw_status sw_checkpoint_put(sw_checkpoint *checkpoint, const char *name,
                                               const void *bytes, size_t n);
/* Keep models and loaders as they are now, after step `step`: a copy, not a file yet. SW_BUSY
 * while the save before is being written (sw_checkpoint_describe says when). A loader that
 * another thread fills is kept as what the caller has had of it. On a card it waits for
 * nothing, unless another exec has run a model last: then for all that the card has to do.
 * SW_INVALID where a model lies on another device than the exec of the checkpoint works on. A
 * take that is not written yet is given up by the next take, by sw_checkpoint_load and by
 * sw_checkpoint_loader. */
SW_MUST_USE SW_API sw_status sw_checkpoint_take(sw_checkpoint *checkpoint, uint64_t step);
/* Have what was taken written, with what was put until now. Returns when the thread has begun;
 * with no_copy when the file is there, and the models are written as they are now. */
SW_MUST_USE SW_API sw_status sw_checkpoint_write(sw_checkpoint *checkpoint);
/* Wait for the save that goes on, if one does: how the last save ended. A save that failed left
 * the checkpoint before as it was, and can be tried again. */
SW_MUST_USE SW_API sw_status sw_checkpoint_wait(sw_checkpoint *checkpoint);
/* Wait, take, write, wait. */
SW_MUST_USE SW_API sw_status sw_checkpoint_save(sw_checkpoint *checkpoint, uint64_t step);

typedef struct {
    size_t size;
    int busy;               /* 1: a save is being written */
    sw_status last;         /* how the last save ended; SW_OK before the first */
    uint64_t saved, failed; /* saves */
    uint64_t step;          /* of the last one that succeeded */
    uint64_t file_bytes;    /* of it */
    uint64_t copy_ns;       /* how long the last copy held the caller up */
    uint64_t write_ns;      /* how long the last save took after it */
    char text[512];         /* why it failed; or that its durability is unknown; or "" */
} sw_checkpoint_info;
SW_MUST_USE SW_API sw_status sw_checkpoint_describe(sw_checkpoint *checkpoint,
                                                    sw_checkpoint_info *out);

typedef struct {
    size_t size;
    int found;      /* 0: there is none at the path, and nothing else is set */
    int generation; /* 0: the newest */
    uint64_t step;
    char path[512]; /* of the file; cut */
    char isa[16];   /* instruction set of the run that saved it */
    char device[16];
    char skipped[512]; /* newer ones that are damaged, each with what is wrong; "": none */
} sw_checkpoint_found;
/* Look for the newest whole checkpoint at `path` (NULL: the path of the options) and its
 * generations, and read all of it once. Those that are damaged are passed over and named;
 * where all are it is SW_FORMAT. Changes no model. */
SW_MUST_USE SW_API sw_status sw_checkpoint_find(sw_checkpoint *checkpoint, const char *path,
                                                sw_checkpoint_found *out);
/* Of what was found: bytes that were put under `name`; NULL and 0 where there are none. Valid
 * until the next find, or the end. */
SW_MUST_USE SW_API sw_status sw_checkpoint_get(sw_checkpoint *checkpoint, const char *name,
                                               const void **bytes, size_t *n);
/* Go on from what was found: models, members and loaders, all or nothing. Models must be ready.
 * SW_INVALID or SW_FORMAT names the first thing that is not as in the run that saved it: a
 * model's name, optimizer, tensor or shape, a number of members, the seed of the exec, batch,
 * seed, number of samples or the samples themselves of a loader. Threads, budget, planned or
 * immediate mode and device may be others. Which parameters are frozen is as the program has it
 * now: that is not in the file. */
SW_MUST_USE SW_API sw_status sw_checkpoint_load(sw_checkpoint *checkpoint);
