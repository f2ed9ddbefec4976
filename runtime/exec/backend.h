/* How an exec works on its backend: a table that the CPU (backend_cpu.c) and the cards
 * (backend_cuda.c, by their queue) fill. What they are to models, traces and passes is
 * device/backend.h. Runs call the table and never ask what is below it. */
#ifndef SW_EXEC_BACKEND_H
#define SW_EXEC_BACKEND_H

#include "runtime/exec/exec.h"

/* The ops of a planned program, one by one (run.c). */
typedef sw_status swi_run_ops(sw_exec *exec, swi_frame *frame, const sw_run_args *args,
                              bool *updated);

/* Among ranks, in place, for n elements: "all_reduce" and the like. */
typedef sw_status swi_collective(sw_exec *exec, const char *name, void *data, sw_dtype dtype,
                                 int64_t n);

struct swi_exec_backend {
    const char *name;
    /* The last of making an exec, and the first of destroying it: what was launched uses all
     * the rest. close is right after an open that failed, too. */
    sw_status (*open)(sw_exec *exec, const sw_exec_opts *opts);
    void (*close)(sw_exec *exec);

    /* ---- programs: how many kernels and library calls a run launches, where they are
     * counted; an op that the device refuses is blamed. A program is to be freed. ---- */
    sw_status (*count_launches)(sw_exec *exec, swi_frame *frame, uint32_t *launches);
    void (*forget)(sw_exec *exec, const swi_program *program);

    /* ---- memory: what inputs take of the budget for these arguments and this trace, what they
     * have taken, and charging it. room: all memory of a run, for a program. ---- */
    size_t (*data_bytes)(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace);
    size_t (*data_height)(const sw_exec *exec);
    sw_status (*reserve)(sw_exec *exec, size_t data_bytes);
    sw_status (*room)(sw_exec *exec, const sw_run_args *args, swi_frame *frame);

    /* ---- launching: where input i of the run is; op i of a program, resolved; a node in
     * immediate mode ---- */
    unsigned char *(*bind)(const sw_exec *exec, const sw_run_args *args, int input);
    sw_status (*launch)(sw_exec *exec, const swi_frame *frame, uint32_t op);
    sw_status (*launch_node)(sw_exec *exec, const swi_node *node, const sw_launch *launch);

    /* ---- runs: a planned one, by `ops` or replayed, with what it leaves gathered (*updated:
     * an update may have run; *fresh: something was captured); around an immediate one ---- */
    sw_status (*run)(sw_exec *exec, swi_frame *frame, const sw_run_args *args, swi_run_ops *ops,
                     bool *updated, bool *fresh);
    sw_status (*begin_immediate)(sw_exec *exec, const sw_run_args *args);
    sw_status (*end_immediate)(sw_exec *exec);

    /* ---- after a run: wait for one that goes on and read what it left; the verdict on updates
     * that were skipped; output i of a trace, at *data, for host code ---- */
    sw_status (*await)(sw_exec *exec, swi_history_run *run);
    sw_status (*skipped)(sw_exec *exec, const sw_run_args *args);
    sw_status (*output)(sw_exec *exec, const swi_trace *trace, uint32_t i, const void **data);

    swi_collective *collective; /* NULL: it has none */
};

extern const swi_exec_backend swi_exec_cpu, swi_exec_cuda;

/* By the table; SW_UNSUPPORTED names the collective and a backend that has none. */
sw_status swi_exec_collective(sw_exec *exec, const char *name, void *data, sw_dtype dtype,
                              int64_t n);

#endif
