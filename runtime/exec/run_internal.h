/* Between the files that run programs: arguments, ownership, immediate mode, profile records.
 */
#ifndef SW_RUN_INTERNAL_H
#define SW_RUN_INTERNAL_H

#include "runtime/base/observer.h"
#include "runtime/runtime_internal.h"

/* `call` begins the messages. */
sw_status swi_read_args(sw_run_args *to, const sw_run_args *from, bool with_data,
                        const char *call);
/* Mark the exec and the models as in use by this thread; SW_BUSY changes nothing. frame: of the
 * public function, SWI_FRAME. */
sw_status swi_enter(sw_exec *exec, const sw_run_args *args, const void *frame);
/* Lay out and initialise models that are not ready; refuse damaged ones. */
sw_status swi_make_ready(sw_exec *exec, const sw_run_args *args);
/* The program whose metrics and outputs can be asked for; it stays although its key may go. */
void swi_exec_set_last(sw_exec *exec, swi_program *program);
void swi_leave(sw_exec *exec, const sw_run_args *args);
/* The names of a trace's metrics; swi_past_room was asked before. */
void swi_past_name(swi_past_run *run, const swi_trace *t);
/* Segment addresses of a run: SWI_SEG_COUNT + 1 of them, the last NULL. On a device inputs are
 * where its queue has them. */
void swi_bases(const sw_exec *exec, const sw_run_args *args, unsigned char **base);
/* What data takes of the budget, for swi_plan_info: the slots of all its loaders, or more where
 * the caller says so; on a device, what the exec takes there for these arguments and this
 * trace. */
size_t swi_data_bytes(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace);
/* What the step arena may take of the budget beside all the rest; SIZE_MAX in immediate mode
 * and without a budget. */
size_t swi_arena_limit(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace);
/* The least budget that a program fits, and what it is for. Without a budget: what the program
 * takes. */
typedef struct {
    size_t others; /* what others have taken: not for these models, this exec, or slots */
    size_t models; /* those that this budget pays for */
    size_t data;   /* slots of all loaders, those to come too; on a device its inputs */
    size_t arena;  /* what the program needs, or what the exec has, whichever is more */
    size_t bytes;  /* all of these */
} swi_need;
swi_need swi_need_of(const sw_exec *exec, const sw_run_args *args, const swi_program *program);
/* Copy what the exec's watch saw into its run info. */
void swi_read_watch(sw_exec *exec);
/* Room for the names of one storage. */
typedef struct {
    char name[320], op[320];
} swi_plan_names;
/* Describe storage `s` of a plan; false when a run does not touch it, or it has no bytes. The
 * names are in *names. */
bool swi_plan_storage(const swi_program *program, uint32_t s, swi_plan_names *names,
                      sw_plan_storage *out);
/* The operands of op i point to where they are: base[segment] + offset. */
void swi_resolve(swi_program *program, uint32_t op, unsigned char *const *base,
                 const swi_bind *binds);
sw_status swi_blame(const swi_program *program, uint32_t op, sw_status status);
/* The refusal that people read: the least budget, what there is, who holds the peak. */
sw_status swi_does_not_fit(const sw_exec *exec, const sw_run_args *args,
                           const swi_program *program, sw_status status);
sw_status swi_run_immediate(sw_exec *exec, const sw_run_args *args, bool *updated);
/* Once for each program, in front of its first run. */
void swi_profile_plan(sw_exec *exec, const sw_run_args *args, swi_program *program);
/* The number of the last immediate run's trace, which is recorded where it is a new one;
 * SW_PROF_NONE where there is no room for it. */
uint32_t swi_profile_trace(sw_exec *exec, const sw_run_args *args);
/* A record of a plan or, with `trace`, of what an immediate run did; false: there is none. */
bool swi_profile_program(sw_profile *profile, const sw_prof_plan *head, const swi_program *p,
                         const sw_run_args *args);
const char *swi_run_name(const sw_run_args *args);
int64_t swi_run_batch(const sw_run_args *args);
/* A refusal: writes who held what into the profile, if there is one. */
void swi_profile_denied(sw_exec *exec, const sw_run_args *args, bool running);
/* The same for a refusal of the caller's own, whose program was planned: by what, "budget" or
 * "machine", and its bytes (0: not known). */
void swi_profile_refused(sw_exec *exec, const sw_run_args *args, const char *limited_by,
                         size_t limit_bytes, const char *message);
/* ", cuda:0 (its name) has so many bytes free of so many" for messages; "" for the CPU, and
 * where the card does not say. */
const char *swi_device_room(const sw_exec *exec, char *to, size_t bytes);
/* What the card of an exec says now, if it has one and a profile: when it joins the profile;
 * and at the end, once, behind its last run or when it goes. */
void swi_profile_device(sw_exec *exec, bool ends);
/* What sw_witness found, with the plan in front of it. */
sw_status swi_profile_witness(sw_exec *exec, const sw_run_args *args, swi_program *program,
                              uint32_t which, const sw_witness_info *info);

#endif
