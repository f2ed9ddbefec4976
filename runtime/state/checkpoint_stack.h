/* Members that a checkpoint keeps: many of one layout, with ranges that are no models. The
 * folder of members says where they are and what stands beside them. */
#pragma once

#include "runtime/state/tensor_file.h"

/* As sw_checkpoint_put, for who has no memory for all n bytes at once: `pour` gives them while
 * the file is written, twice and the same, on the thread that saves. With no_copy alone. */
SW_MUST_USE sw_status swi_checkpoint_pour(sw_checkpoint *checkpoint, const char *name, size_t n,
                                          swi_pour_bytes *pour, void *owner);
/* Of the checkpoint that was found: how many bytes it has under the name, 0 for none; some of
 * them, from byte `at` on. */
size_t swi_checkpoint_has(const sw_checkpoint *checkpoint, const char *name);
SW_MUST_USE sw_status swi_checkpoint_read(sw_checkpoint *checkpoint, const char *name,
                                          size_t at, void *to, size_t n);

/* Of each member, beside its range. */
typedef struct {
    uint64_t seed, steps, batches, damaged; /* damaged: 0 or 1 */
} swi_stack_record;

typedef struct {
    sw_exec *exec;
    sw_model *const *shape; /* name, layout, optimizers; stays where it is */
    uint32_t n;
    size_t stride;                /* a member's range */
    size_t state_at, state_bytes; /* of the program's own in it; 0 bytes: none */
    const size_t *places;         /* n, after `base`, which sets them; the list stays */
    void *owner;                  /* given to all of these */
    sw_status (*check)(const void *owner, const char *call); /* are all of them there yet? */
    unsigned char *(*base)(void *owner);                     /* as the ranges are now */
    void (*read)(const void *owner, swi_stack_record *to);
    void (*write)(void *owner, const swi_stack_record *from);
    void (*end)(void *owner);
} swi_stack_source;

/* From now on saves keep them too. On success the checkpoint ends the owner. */
SW_MUST_USE sw_status swi_checkpoint_stack(sw_checkpoint *checkpoint,
                                           const swi_stack_source *source, const char *call);
