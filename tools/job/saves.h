/* State that a command keeps beside the models of its checkpoints, and how a run goes on from
 * one.
 *
 * A state is a text of lines, a name, a tab and a value each: first the options that decide the
 * numbers (the column `decides` of the option tables, and what is known of the data), which a
 * run that goes on must have too; after an empty line how far the run is, by a table of fields.
 */
#pragma once

#include "tools/job/job.h"

typedef struct {
    char text[64 * 400];
    size_t used;
    bool full; /* there is more than that */
} job_identity;

/* --model with its settings, and the options of a table that decide, as they stand. */
void job_identify(job_identity *to, const job_opts *opts, const cli_option *options, int n);
/* One more line. */
void job_identity_add(job_identity *to, const char *name, const char *format, ...)
    SW_PRINTF(3, 4);

typedef enum { JOB_U64, JOB_I64, JOB_F64, JOB_BOOL } job_field_kind;
typedef struct {
    const char *name;
    job_field_kind kind;
    size_t at; /* in the struct of the state */
} job_field;
#define JOB_FIELD(kind, type, member)                                                          \
    {                                                                                          \
#member, kind, offsetof(type, member)                                                  \
    }

/* A state of `stepwell COMMAND`. */
typedef struct {
    const char *command;
    const job_field *fields;
    int n_fields;
    bool loads; /* it has --load-params, which a message suggests */
} job_saved;

SW_MUST_USE sw_status job_state_put(sw_checkpoint *to, const job_saved *what,
                                    const job_identity *identity, const void *state);
/* Of the checkpoint that was found, at `path`, into `state`. CLI_GO, or an exit status with a
 * line that names the first option that is another one. */
int job_state_get(sw_checkpoint *from, const job_saved *what, const job_identity *identity,
                  const char *path, void *state);

/* The file that --resume names, or that of --checkpoint; NULL: neither. */
const char *job_resume_path(const char *resume, const char *checkpoint);
/* --resume has a file, and --checkpoint is free: a checkpoint that is there is gone on from,
 * not replaced, by a new run or by one that goes on from another file. CLI_GO or an exit
 * status. */
int job_saves_check(const char *checkpoint, const char *resume);
/* The newest whole checkpoint of --resume; found->found 0: the run begins. CLI_GO, or an exit
 * status. */
int job_resume_find(sw_checkpoint *from, const char *resume, const char *checkpoint, bool quiet,
                    sw_checkpoint_found *found);

/* When the next save is due: after a step, or at a time. */
typedef struct {
    uint64_t step, ns; /* 0: not by that */
} job_due;
uint64_t job_every_ns(const cli_every *every); /* where steps do not say it */
job_due job_due_after(const cli_every *every, uint64_t step);
bool job_is_due(const job_due *due, uint64_t step);

/* In so many generations of a checkpoint before all others is looked for one that is there. */
#define JOB_GENERATIONS 16
