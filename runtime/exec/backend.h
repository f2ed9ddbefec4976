/* How an exec works on its backend: a table that the CPU and the cards
 * (by their queue) fill. Their half for models, traces and passes is
 * device/backend.h. Runs call the table and never ask what is below it. */
#pragma once

#include "runtime/exec/exec.h"

/* The ops of a planned program, one by one (run.c). */
typedef sw_status swi_run_ops(sw_exec *exec, swi_frame *frame, const sw_run_args *args,
                              bool *updated);

/* The largest of several programs: what goes to a device for a run, and what comes back. */
typedef struct {
    size_t inputs, results;
} swi_data_need;

struct swi_exec_backend {
    /* The last of making an exec, and the first of destroying it: what was launched uses all
     * the rest. close follows an open that failed, too. */
    sw_status (*open)(sw_exec *exec, const sw_exec_opts *opts);
    void (*close)(sw_exec *exec);

    /* Kernels and library calls of a run, put into *launches where the backend counts them. An
     * op that the device refuses is blamed. */
    sw_status (*count_launches)(sw_exec *exec, swi_frame *frame, uint32_t *launches);
    /* The program is to be freed. */
    void (*forget)(sw_exec *exec, const swi_program *program);

    /* Bytes that inputs take of the budget for these arguments and this trace; that they have
     * taken; charge the budget for them. */
    size_t (*data_bytes)(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace);
    /* Of an exec that runs these arguments and this trace, and what `need` has counted, and
     * nothing else: inputs take so much of a budget. Raises `need`. */
    size_t (*data_need)(const sw_run_args *args, const swi_trace *trace, swi_data_need *need);
    size_t (*data_height)(const sw_exec *exec);
    sw_status (*reserve)(sw_exec *exec, size_t data_bytes);
    /* Take all memory that runs of the program need. */
    sw_status (*room)(sw_exec *exec, const sw_run_args *args, swi_frame *frame);

    /* Where input i of the run is. */
    unsigned char *(*bind)(const sw_exec *exec, const sw_run_args *args, int input);
    /* Op i, resolved; a node in immediate mode. */
    sw_status (*launch)(sw_exec *exec, const swi_frame *frame, uint32_t op);
    sw_status (*launch_node)(sw_exec *exec, const swi_node *node, const sw_launch *launch);

    /* A planned run: op by op by `ops`, or replayed; gathers what it leaves. *updated: an
     * update may have run; *fresh: something was captured. */
    sw_status (*run)(sw_exec *exec, swi_frame *frame, const sw_run_args *args, swi_run_ops *ops,
                     bool *updated, bool *fresh);
    /* Around an immediate run. */
    sw_status (*begin_immediate)(sw_exec *exec, const sw_run_args *args);
    sw_status (*end_immediate)(sw_exec *exec);

    /* Wait for a run that goes on, and read what it left. */
    sw_status (*await)(sw_exec *exec, swi_history_run *run);
    /* SW_INVALID where updates were skipped too often in a row. */
    sw_status (*skipped)(sw_exec *exec, const sw_run_args *args);
    /* The same of one run, which is over, and of the optimizers of one model alone. */
    sw_status (*skipped_in)(const sw_exec *exec, const swi_history_run *run,
                            const sw_model *model);
    /* Output i of a trace, at *data on the device: *data becomes what host code may read. */
    sw_status (*output)(sw_exec *exec, const swi_trace *trace, uint32_t i, const void **data);
};

extern const swi_exec_backend swi_exec_cpu, swi_exec_cuda;
