/* Between the files of checkpoints.
 *
 * A save goes through three states. IDLE; TAKEN: models, knobs and loaders were copied;
 * WRITING: the writer has it, until it says how it ended. The writer's sources (the list, the
 * record, the blobs, the copy) are changed by the caller's thread alone, and only while nothing
 * is WRITING; the rest that both touch is under the mutex. */
#pragma once

#include "alloc/base/handle.h"
#include "alloc/base/sys.h"
#include "runtime/base/structs.h"
#include "runtime/data/loader.h"
#include "runtime/device/snapshot.h"
#include "runtime/state/checkpoint_stack.h"
#include "runtime/state/tensor_file.h"

#define SWI_BLOB_NAME 64
#define SWI_BLOB_PREFIX SWI_OWN_PREFIX "blob/"
#define SWI_GENERATIONS 1000
#define SWI_GENERATION_DIGITS 5 /* ".999" and the zero byte */
#define SWI_RUN_VERSION 1

typedef enum { SWI_CHECKPOINT_IDLE, SWI_CHECKPOINT_TAKEN, SWI_CHECKPOINT_WRITING } swi_stage;

typedef struct {
    char name[SWI_BLOB_NAME];
    unsigned char *bytes; /* as it was put */
    size_t n, cap;
    unsigned char *written; /* as it is being written */
    size_t n_written, cap_written;
    swi_pour_bytes *pour; /* gives its n bytes while it is written; NULL: as they were put */
    void *owner;
} swi_blob;

/* Models of one name and one layout. */
typedef struct {
    uint32_t first, n; /* of the list of models */
    size_t at;         /* where the first one begins in the copy; the others follow */
    size_t knobs_at;   /* of its values in `knobs` */
} swi_group;

/* Members of one shape. */
typedef struct {
    swi_stack_source source;
    swi_run_model
        what; /* for the record of the run: the shape may be gone when it is written */
    swi_snapshot *snapshot; /* NULL as that of the models */
    size_t copy_bytes;
    swi_stack_record *records;   /* as taken, or as found */
    uint32_t first, entries_end; /* tensors of the list; after them that of the records */
} swi_stack;

/* Where a loader is. */
typedef struct {
    swi_loader_identity identity;
    uint64_t epoch;
    int64_t batch;
    bool begun;
} swi_loader_state;

struct sw_checkpoint {
    sw_handle handle;
    uint32_t forks;
    sw_exec *exec;
    char *path; /* NULL: nothing is saved */
    size_t path_bytes;
    char command[512];
    char created[32];          /* when what is written was taken */
    swi_note notes[SWI_NOTES]; /* of a single model, as taken */
    int n_notes;
    sw_model **models;
    uint32_t n_models;
    sw_loader **loaders;
    swi_loader_state *positions; /* of the loaders, as taken */
    uint32_t n_loaders, cap_loaders, cap_positions;
    swi_group *groups;
    uint32_t n_groups;
    swi_stack *stacks;
    uint32_t n_stacks, cap_stacks;
    int keep;
    bool no_copy;
    sw_status (*before)(void *user);
    void *user;
    sw_file *held; /* PATH.lock */

    swi_tensor_list list;     /* of models, then members; after them, while writing, record
                                 and blobs */
    uint32_t n_of_models;     /* tensors */
    swi_list_mark models_end; /* of the list, members included */
    swi_snapshot *snapshot;   /* NULL: no_copy, or nothing is saved */
    size_t copy_bytes;
    bool has_room; /* the memory of the copy was taken */
    float *knobs;  /* of all models, as taken */
    size_t n_knobs;
    swi_blob *blobs;
    uint32_t n_blobs, cap_blobs;
    char *record; /* SWI_TENSORS_RUN as text */
    size_t record_bytes, record_cap;
    uint64_t step;       /* that was taken */
    uint64_t file_bytes; /* of the file that is being written, once it is full */
    bool drop_old;       /* what stands at `path` is damaged: the next save does not keep it */

    sw_thread *thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    swi_stage stage;
    bool stop;
    sw_checkpoint_info info; /* under the mutex */

    swi_tensors *found; /* NULL: nothing was found */
    swi_run_summary found_run;
    void **got; /* blocks that sw_checkpoint_get gave out */
    size_t *got_bytes;
    uint32_t n_got, cap_got, cap_got_bytes;
};

/* The copy, or the models themselves, are where the list's tensors are. */
void swi_checkpoint_aim(sw_checkpoint *c, bool copy);
/* Knob values of all models as they are set now. */
void swi_checkpoint_keep_knobs(sw_checkpoint *c);
/* Take all models, or none. */
sw_status swi_checkpoint_take_models(sw_checkpoint *c);
void swi_checkpoint_give_models(sw_checkpoint *c);
/* The same; what was taken and not written yet is given up. */
void swi_checkpoint_give_up(sw_checkpoint *c);
/* Members: whether all are there; the memory of their copies; copied, and the copies awaited;
 * their records; where their tensors are; what a file says of them, held against what can be;
 * and put into them. */
sw_status swi_stacks_check(const sw_checkpoint *c, const char *call);
sw_status swi_stacks_room(const sw_checkpoint *c);
sw_status swi_stacks_copy(const sw_checkpoint *c);
sw_status swi_stacks_wait(const sw_checkpoint *c);
void swi_stacks_read(const sw_checkpoint *c);
sw_status swi_stacks_look(const sw_checkpoint *c);
void swi_stacks_write(const sw_checkpoint *c);
/* Handle and fork; `call` begins the message. */
sw_status swi_checkpoint_check(const sw_checkpoint *c, const char *call);

/* The record as text into c->record. */
sw_status swi_run_record_write(sw_checkpoint *c);
/* Hold what was found against the models and loaders: SW_INVALID names the first difference. */
sw_status swi_run_record_check(const sw_checkpoint *c);

/* The writer thread's body, and the save itself. */
void swi_checkpoint_writer(void *checkpoint);
void swi_checkpoint_forget_found(sw_checkpoint *c);
