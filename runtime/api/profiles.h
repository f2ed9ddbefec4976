/* Profiles, the file of what a run takes and when; and witnesses, which check a plan.
 *
 *     sw_profile *profile;
 *     sw_profile_opts opts = SW_OPTS(sw_profile_opts, .path = "run.swp");
 *     SW_TRY(sw_profile_create(&profile, &opts));
 *     SW_TRY(sw_exec_set_profile(exec, profile));
 *     sw_exec_destroy(exec), status = sw_profile_destroy(profile);
 */

typedef struct {
    size_t size;
    const char *path;           /* NULL: write no file */
    const char *model, *device; /* for the header of the file; copied */
    int64_t batch;              /* 0: not given */
    uint64_t seed;              /* 0 without a command: not given */
    const char *command;
    const char *data; /* name of the data set, as sw_dataset_describe gives it */
    int events; /* 1: write the event log of each run too: every birth, reuse and death of a
                   tensor, every phase and op with its clock. Execs must count (no_phases
                   is SW_INVALID) */
    uint32_t event_room; /* of the events of a run, for each exec; those that do not fit are
                            counted. 0: 65536, which take 1 MiB */
    uint64_t every;      /* write what the first step and each such step measured, and the last;
                            peaks are of all. Evaluations are counted for themselves. 0: 1 */
    size_t max_bytes;    /* no longer used, must be 0: else SW_UNSUPPORTED */
    uint64_t steps;      /* that the run will have and the limit that it is under, for who */
    size_t budget_bytes; /* watches it; 0: not known, and none */
    const char *normalise; /* how inputs become numbers, for the header; NULL or "": not said */
} sw_profile_opts;
/* Writes JSON Lines (tools/docs/formats.md, "The profile file"). No record waits longer than
 * 100 ms for the file, also where no step follows: a thread of the profile's own, which there
 * is where there is a path, writes then. SW_IO where file or thread cannot be had. In a process
 * that was forked off nothing is written, and all calls are SW_BUSY. While a profile with a
 * file lives, blocks of the library's heap are noted by the line that takes them, so that what
 * grows has a name. A run or plan that is refused for memory (SW_NOMEM) leaves a record of who
 * holds it before it returns. */
SW_MUST_USE SW_API sw_status sw_profile_create(sw_profile **out, const sw_profile_opts *opts);
/* No longer used: SW_UNSUPPORTED. */
SW_MUST_USE SW_API sw_status sw_profile_least(sw_exec *exec, const sw_run_args *args, int n,
                                              const sw_profile_opts *opts, size_t *out);
SW_MUST_USE SW_API sw_status sw_profile_flush(sw_profile *profile);
/* Flush, and have the file synced: what was recorded survives a loss of power. Any thread may
 * call it while others record, and they do not wait for it. */
SW_MUST_USE SW_API sw_status sw_profile_sync(sw_profile *profile);
/* How the run ended, for the end record: SW_OK for "done" (also without a call), SW_STOPPED
 * for "interrupted", any other for "failed". `why` is copied; NULL: nothing to say. */
SW_API void sw_profile_end_status(sw_profile *profile, sw_status status, const char *why);
/* Writes the end record and closes; the status says whether all reached the file. */
SW_MUST_USE SW_API sw_status sw_profile_destroy(sw_profile *profile);

#define SW_WITNESS_ACCESS 1u
#define SW_WITNESS_EXTENT 2u
#define SW_WITNESS_DEATH 4u
#define SW_WITNESS_NEED 8u
#define SW_WITNESS_ALL 15u

typedef struct {
    size_t size;                    /* set by the caller */
    sw_phase_info phase[SW_PHASES]; /* observed by the access witness; ns is 0 */
    size_t peak_bytes;
    uint32_t agreed;   /* bits of the witnesses that agree with the plan */
    uint32_t n_faults; /* disagreements found */
    char first_fault[256];
    uint64_t ns;
    size_t saved_bytes; /* by the death witness: payload bytes of the step arena that it left
                           before the first op of the backward part, where everything else is
                           NaN: what was saved, and metrics and outputs that were there. 0
                           without a backward part */
} sw_witness_info;

/* Run one step under the witnesses in `which`: from the present state, which is put back
 * afterwards. SW_OK when the witnessing itself worked; `agreed` and `n_faults` have the
 * verdict. */
SW_MUST_USE SW_API sw_status sw_witness(sw_exec *exec, const sw_run_args *args, uint32_t which,
                                        sw_witness_info *out);
