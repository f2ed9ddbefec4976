/* The names that an exec's NVTX tool is told: of programs, of traces as they grow, of models.
 * Everything here returns at once where no tool is attached (exec->watch.nvtx is NULL). */
#ifndef SW_RUNTIME_NVTX_H
#define SW_RUNTIME_NVTX_H

#include "runtime/exec/run_internal.h"

/* After its arena: exec->watch.nvtx when a tool is attached and wanted. */
sw_status swi_nvtx_create(sw_exec *exec, sw_nvtx_level level);
/* After its programs and before its arena. */
void swi_nvtx_destroy(sw_exec *exec);
/* Before the reset of a run. `program` is NULL in immediate mode. */
sw_status swi_nvtx_begin_run(sw_exec *exec, const sw_run_args *args, swi_program *program);
/* Immediate mode: a storage that is about to be pushed for the node; the op that it runs. */
sw_status swi_nvtx_before_push(sw_ctx *ctx, uint32_t storage, const swi_node *node);
sw_status swi_nvtx_node(sw_ctx *ctx, const swi_node *node);
/* A storage of the trace that is being made has this role. */
void swi_nvtx_role(sw_ctx *ctx, uint32_t storage, swi_role role);
/* A model has its bytes, and nothing was written there yet. */
void swi_nvtx_model(sw_model *model, const sw_exec *exec);

#endif
