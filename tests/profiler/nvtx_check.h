/* The calls that a tool heard, held against those that it must have heard: ranges that nest,
 * regions that are the arena's live tensors, bytes that are the profiler's. */
#ifndef SW_TESTS_NVTX_CHECK_H
#define SW_TESTS_NVTX_CHECK_H

#include "runtime/stepwell.h"
#include "tests/profiler/nvtx_recorder.h"

enum { TOLD_TENSORS = 800, TOLD_OPS = 800, TOLD_ROLES = 16 };

/* A run as plan and profiler have it. */
typedef struct {
    uint64_t offset, bytes, rounded; /* bytes: without padding */
    uint32_t birth, death;
    char role[24], name[104];
} told_tensor;
typedef struct {
    char name[104];
    int phase;
} told_op;
typedef struct {
    told_tensor tensor[TOLD_TENSORS];
    told_op op[TOLD_OPS];
    uint32_t n_tensors, n_ops;
    struct {
        char role[24];
        uint64_t bytes;
    } base[TOLD_ROLES]; /* what lives all the time */
    uint32_t n_base;
    uint64_t phase_peak[SW_PHASES], phase_end[SW_PHASES], peak, bump; /* measured */
    bool immediate; /* no plan: regions are held against the sums alone */
    bool training;
} told_run;

void told_tensor_add(told_run *run, const told_tensor *tensor);
void told_op_add(told_run *run, const char *name, int phase);
void told_base_add(told_run *run, const char *role, uint64_t bytes);
/* The plan of these arguments; the measured figures stay 0. */
void told_plan(told_run *run, sw_exec *exec, const sw_run_args *args);
/* The exec's last run, as measured. */
void told_measured(told_run *run, const sw_exec *exec);

/* Assert that what was heard is that of `n_runs` runs, one after another, of one exec; runs[]
 * may be the same, and NULL where only what holds for all runs is asserted. Calls before,
 * between and after them are asserted too: names before they are used, regions apart from each
 * other and inside their heap, one reset for each run. `extensions`: were memory and counters
 * taken? */
void nvtx_check(heard_list list, const told_run *const *runs, size_t n_runs,
                sw_nvtx_level level, bool extensions);

/* Ranges alone, of any number of threads: balanced, each of a category that may stand in the
 * one around it. Returns how many began. */
size_t nvtx_check_nesting(heard_list list);
/* How many of a kind, with that name (NULL: any). */
size_t nvtx_count(heard_list list, heard_kind kind, const char *name);

#endif
