/* Between the files that run programs: arguments, ownership, immediate mode, budgets. */
#pragma once

#include "runtime/exec/exec.h"

/* `call` begins the messages. */
sw_status swi_read_args(sw_run_args *to, const sw_run_args *from, bool with_data,
                        const char *call);

/* Mark the exec and the models as in use by this thread; SW_BUSY changes nothing. frame: of the
 * public function, SW_FRAME. */
/* Bytes that each of so many ranks sends in a run, where no gradient is made twice (one that
 * may not be finite), and no update is skipped. */
SW_MUST_USE sw_status swi_run_sent(sw_exec *exec, const sw_run_args *args, int ranks,
                                   uint64_t *out);
sw_status swi_enter(sw_exec *exec, const sw_run_args *args, const void *frame);

/* Lay out and initialise models that are not ready; refuse damaged ones. */
sw_status swi_make_ready(sw_exec *exec, const sw_run_args *args);

/* The program with the last run's metrics and outputs; it stays although its key may go. */
void swi_exec_set_last(sw_exec *exec, swi_frame *frame);
void swi_leave(sw_exec *exec, const sw_run_args *args);

/* Segment addresses of a run: SWI_SEG_COUNT + 1 of them, the last NULL. On a device inputs are
 * where its queue has them. */
void swi_bases(const sw_exec *exec, const sw_run_args *args, unsigned char **base);

/* Bytes of the budget that data takes, for swi_plan_info: the slots of all its loaders, or more
 * where the caller says so; on a device, what the exec takes there for these arguments and this
 * trace. */
size_t swi_data_bytes(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace);

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

/* One run of a program with all its memory there (the arena, backend->room), for models that
 * need no handle; the exec has been entered. No profile learns of it. *updated: an update may
 * have run. */
sw_status swi_run_frame(sw_exec *exec, swi_frame *frame, const sw_run_args *args,
                        bool *updated);

/* sw_run with another seed of random ops than the exec's. */
sw_status swi_run_seeded(sw_exec *exec, const sw_run_args *args, uint64_t seed);

/* All that sw_run with these arguments needs before its first op: program, memory, models
 * made ready. A failure here has changed no model. look (or NULL): refuses the program. Of an
 * immediate run the models alone, and nothing to look at. `call` begins the messages. */
typedef sw_status swi_look(void *context, const swi_program *program);
sw_status swi_run_prepare(sw_exec *exec, const sw_run_args *args, swi_look *look, void *context,
                          const char *call);

sw_status swi_blame(const swi_program *program, uint32_t op, sw_status status);

/* The refusal that people read: the least budget, what there is, who holds the peak. */
sw_status swi_does_not_fit(const sw_exec *exec, const sw_run_args *args,
                           const swi_program *program, sw_status status);
