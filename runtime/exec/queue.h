/* The work of one exec on a device: what is copied there and back, what is launched, captured
 * and replayed, and when the host waits. Policy is here; the module (kernels/cuda/api.h) only
 * carries it out.
 *
 * Two streams: one copies inputs to the device, the other does all else, in order. A run is
 *
 *   slot     host: counters, inputs and changed knobs into pinned slot k, when the device has
 *            taken what was there; asynchronously to staging slot k
 *   place    device: from staging to where ops read, always the same; knobs to their models
 *   ops      launched one by one, or as one graph
 *   leaves   metrics and counts of skipped updates gathered in one block, which goes to a
 *            pinned ring; read when somebody asks, or three runs later
 *
 * so the copies of one run overlap the ops of the run before, and the host waits only where it
 * is two runs ahead. All memory is taken before the first run of a program: pinned by the
 * module, on the device in an arena of the exec's budget. One thread at a time. */
#pragma once

#include "runtime/exec/backend.h"

typedef struct {
    bool tf32, sync_ops, no_graphs;
    sw_budget *budget;
} swi_queue_opts;

sw_status swi_queue_create(swi_queue **out, swi_device *device, const swi_queue_opts *opts);
/* Waits for what still runs. NULL is fine. */
void swi_queue_destroy(swi_queue *queue);
/* The queue that entries launch on. */
const sw_cuda_queue *swi_queue_compute(const swi_queue *queue);
/* By this number models know the queue that worked on them last; never 0. */
uint64_t swi_queue_number(const swi_queue *queue);

/* Free the graphs of a program that is to be freed. NULL queue is fine. */
void swi_queue_forget(swi_queue *queue, const swi_program *program);

/* ---- entries of the table (backend.h) ---------------------------------------------------- */

/* Each op is asked, and launches nothing. */
sw_status swi_queue_count_launches(sw_exec *exec, swi_frame *frame, uint32_t *launches);

/* On the device, for the inputs of these arguments and what leaves such a trace: as much as the
 * exec will have taken when they run, for larger ones before too. */
size_t swi_queue_data_bytes(const sw_exec *exec, const sw_run_args *args,
                            const swi_trace *trace);
size_t swi_queue_data_need(const sw_run_args *args, const swi_trace *trace,
                           swi_data_need *need);
size_t swi_queue_data_height(const sw_exec *exec); /* promised so far */
/* Charge the budget for them without taking memory. */
sw_status swi_queue_reserve(sw_exec *exec, size_t data_bytes);
/* Take it, on both sides, for a program or, in immediate mode, NULL; waits where earlier memory
 * has to move. */
sw_status swi_queue_prepare(sw_exec *exec, const sw_run_args *args, swi_frame *frame);

unsigned char *swi_queue_bind(const sw_exec *exec, const sw_run_args *args, int input);
/* One op; a new phase begins with its first. With sync_ops it is over on return. */
sw_status swi_queue_launch(sw_exec *exec, const swi_node *node, const sw_launch *launch);
/* Op i of a program with its launch resolved: with the next one, or nothing, where it is one of
 * a pair. */
sw_status swi_queue_launch_op(sw_exec *exec, const swi_frame *frame, uint32_t i);

/* A planned run: inputs and knobs go their way, then op by op by `ops` (run.c) and captured, or
 * replayed. */
sw_status swi_queue_run(sw_exec *exec, swi_frame *frame, const sw_run_args *args,
                        swi_run_ops *ops, bool *updated, bool *fresh);
/* Around an immediate run: room, inputs and knobs; and, waiting for it, the times of its
 * phases. */
sw_status swi_queue_begin_immediate(sw_exec *exec, const sw_run_args *args);
sw_status swi_queue_end_immediate(sw_exec *exec);
sw_status swi_queue_await(sw_exec *exec, swi_history_run *run);
/* Updates that were skipped in runs that are over, and in the run three runs ago, or in the
 * immediate run that is over. */
sw_status swi_queue_skipped(sw_exec *exec, const sw_run_args *args);
sw_status swi_queue_skipped_in(const sw_exec *exec, const swi_history_run *run,
                               const sw_model *model);
/* The copy in host memory stays until outputs of another run are asked for. Waits. */
sw_status swi_queue_output(sw_exec *exec, const swi_trace *trace, uint32_t i,
                           const void **data);
