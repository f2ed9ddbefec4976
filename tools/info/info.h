/* Shared by the parts of `stepwell info`. */
#ifndef STEPWELL_INFO_H
#define STEPWELL_INFO_H

#include "runtime/state/tensor_file.h"
#include "tools/cli/cli.h"

/* The kind of a tensor, by its name; in the order of the list. */
typedef enum {
    INFO_PARAMETERS,
    INFO_OPTIMIZER,
    INFO_STATES,
    INFO_GRADIENTS,
    INFO_KNOBS,
    INFO_MEMBERS, /* seeds and progress of members, bytes of callbacks */
    INFO_BLOBS,
    INFO_RUN,
    INFO_GROUPS
} info_group;

/* An open file; `damage` says what is wrong with its data, or is "". */
typedef struct {
    swi_tensors *file;
    swi_run_summary run; /* of a checkpoint */
    uint32_t n_damaged;  /* tensors */
    char damage[600];    /* of the first */
} info_file;

SW_MUST_USE sw_status info_open(info_file *info, const char *path);
void info_close(info_file *info);
const char *info_kind(const info_file *info);
info_group info_group_of(const char *name);
const char *info_group_name(info_group group);
/* "F32 (3, 4)"; returns `to`. */
#define INFO_TYPE_TEXT 240
const char *info_type(char *to, const swi_tensors_entry *entry);
/* Is it a note of the file's own checks, which the list of notes passes over? */
bool info_is_check(const char *key);

/* Generations beside `path`: PATH.1, PATH.2 ... Calls `take` with each; `status` and the step
 * of those that are whole, else what is wrong. */
typedef void info_take_generation(void *context, const char *path, uint64_t step,
                                  const char *damage);
void info_generations(const char *path, info_take_generation *take, void *context);

void info_print(const info_file *info, const char *path);
void info_print_generations(const char *path);
SW_MUST_USE sw_status info_json(const info_file *info, const char *path);
/* The status to leave with. */
int info_diff(const info_file *a, const info_file *b, bool json);

#endif
