/* A run over several processes: joining the others, what must be alike, the end of all, and
 * what the result says of each. `ranks` may be NULL: there is one process. */
#pragma once

#include "profiler/record/json.h"
#include "tools/report/file_same.h"
#include "runtime/transport/ranks.h"
#include "tools/job/saves.h"

/* Before options are read, until the ranks join: the first one says for all what is wrong with
 * them. Not with --ranks off, nor where a launcher was given several command lines. */
void job_ranks_one_voice(int argc, char **argv);
/* Options alone, `without` being those that one process alone has: CLI_GO or CLI_USAGE. */
int job_ranks_check(const job_opts *opts, double timeout_s, const char *without);
/* Join the other ranks, before anything is read, and share the machine's memory with those on
 * it. The lowest --isa and the least --memory-budget of all become those of each. Ranks but the
 * first make no notes, and until all are alike they keep an error for a second: the first may
 * report the same. The caller has them write no file. *out NULL: no launcher started others, or
 * --ranks says off. CLI_GO or an exit status. */
int job_ranks_open(swi_ranks **out, job *j, job_opts *opts, double timeout_s);
/* All have the same options and data sets: training, test and validation part, as many as are
 * given; NULL stands for none. */
SW_MUST_USE sw_status job_ranks_same(swi_ranks *ranks, const job_identity *options,
                                     const sw_dataset *const *data, int n);
/* Parameters, buffers and states become those of rank 0; or the buffers and states alone. */
SW_MUST_USE sw_status job_ranks_share_model(swi_ranks *ranks, sw_model *model, bool buffers);
/* Leave the others, or end all of them where this one failed. `agreed`: all are past what must
 * be alike; before that others do not know of an interrupt here, and would wait. `status`. */
int job_ranks_close(swi_ranks *ranks, bool agreed, int status);

/* Where this rank writes --profile: rank 0 to `path`, others beside it: "path.r1". `to` has
 * FILE_PATH_BYTES. NULL: no profile. */
const char *job_ranks_profile_path(const swi_ranks *ranks, const char *path, char *to);
/* Record which rank it is, when it begins; what it sent and waited, when it ends. */
void job_ranks_profile(const swi_ranks *ranks, sw_profile *profile, bool ends);

/* Figures of a rank: what it did and took. */
typedef struct {
    uint64_t done; /* runs, or steps */
    uint64_t predicted_peak_bytes, measured_peak_bytes, sent_bytes, waited_ns;
    uint64_t resident_bytes; /* that the transport took itself */
    uint64_t made_twice;     /* gradients that might not have been finite */
    uint64_t update_ns;      /* es: of its part of the updates, without waiting */
} job_rank;
/* Of all, by rank, into `all`, from `own`, whose sent_bytes and those after it are filled in.
 */
SW_MUST_USE sw_status job_ranks_figures(swi_ranks *ranks, job_rank own, job_rank *all);
/* "transport", "transport_bytes" and "ranks"; `done` is the key of that figure. */
void job_ranks_put(sw_json *json, const swi_ranks *ranks, size_t bytes, const char *done,
                   const job_rank *all);
/* The same in a line after "ranks"; nothing where there is one process. */
void job_ranks_print(const swi_ranks *ranks, size_t bytes);
