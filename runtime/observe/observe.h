/* Records that observers and witnesses write into a profile. */
#pragma once

#include "profiler/record/prof.h"
#include "runtime/base/run_observer.h"
#include "runtime/exec/exec.h"

/* Room for the names of one storage. */
typedef struct {
    char name[320], op[320];
} swi_plan_names;

/* Describe storage `s` of a plan; false when a run does not touch it, or it has no bytes. The
 * names are in *names. */
bool swi_plan_tensor(const swi_program *program, uint32_t s, swi_plan_names *names,
                     sw_tensor *out);

/* A plan for sw_plan_visit's visitors. */
void swi_plan_show(const swi_program *program, const sw_plan_visitor *visitor);

/* Once for each program, before its first run. */
void swi_profile_plan(sw_exec *exec, const sw_run_args *args, swi_frame *frame);

/* A record of a plan or, with `trace`, of what an immediate run did; false: there is none. */
bool swi_profile_program(sw_profile *profile, const sw_prof_plan *head, const swi_program *p,
                         const sw_run_args *args);
/* The head of a plan's record; `exec`: its number in the profile. */
sw_prof_plan swi_profile_head(uint32_t exec, size_t data_bytes, const sw_run_args *args,
                              const swi_program *p);
const char *swi_run_name(const sw_run_args *args);
int64_t swi_run_batch(const sw_run_args *args);

/* A refusal: writes who held what into the profile, if there is one. */
void swi_profile_denied(sw_exec *exec, const sw_run_args *args, bool running);

/* The same for a refusal of the caller's own, after its program was planned: by what, "budget"
 * or "machine", and its bytes (0: not known). */
void swi_profile_refused(sw_exec *exec, const sw_run_args *args, const char *limited_by,
                         size_t limit_bytes, const char *message);

/* Record what the card of an exec says now, if it has one and a profile: when it joins the
 * profile; and at the end, once, after its last run or when it goes. */
void swi_profile_device(sw_exec *exec, bool ends);

/* Record what sw_witness found, with the plan before it. */
sw_status swi_profile_witness(sw_exec *exec, const sw_run_args *args, swi_frame *frame,
                              uint32_t which, const sw_witness_info *info);

/* The bytes of a step by role and by layer.
 *
 * Lines are counted up and down as bytes come and go, whoever says when: the plan's lifetimes,
 * an arena's events or what a witness saw. All roles come first, by their number, then layers
 * as they appear, "" in front. */

/* No line but those of the roles and of ""; the room stays. */
sw_status swi_breakdown_empty(swi_breakdown *breakdown);
/* The line of a layer, made where there is none. */
sw_status swi_breakdown_layer(swi_breakdown *breakdown, const char *layer, uint32_t *line);
/* Bytes that are there all the time; only before swi_breakdown_begin. */
sw_status swi_breakdown_base(swi_breakdown *breakdown, swi_role role, const char *layer,
                             size_t bytes);
/* Nothing lives but the base. */
void swi_breakdown_begin(swi_breakdown *breakdown);
sw_status swi_breakdown_born(swi_breakdown *breakdown, swi_role role, const char *layer,
                             size_t bytes);
sw_status swi_breakdown_died(swi_breakdown *breakdown, swi_role role, const char *layer,
                             size_t bytes);
/* All that is born at this moment is there: is it the peak? */
void swi_breakdown_mark(swi_breakdown *breakdown);

/* Lines with bytes, for sw_plan_shares's visitors. */
void swi_breakdown_show(const swi_breakdown *breakdown, sw_share_visitor *visitor, void *to);

/* The program's shares by its plan, in frame->shares: once. */
sw_status swi_program_breakdown(swi_frame *frame, const sw_run_args *args);

/* The observers of runs; library.c registers them in this order. */

extern const swi_observer
    swi_profile_observer;                    /* profile.c: records of plans, steps, refusals */
extern const swi_observer swi_nvtx_observer; /* run_nvtx.c: names for an NVTX tool */
extern const swi_observer swi_breakdown_observer; /* breakdown.c: bytes by role and layer */
