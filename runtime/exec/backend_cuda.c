/* A card under an exec: by its queue. */
#include "alloc/base/assert.h"
#include "profiler/record/nvtx_run.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/queue.h"

static sw_status open_exec(sw_exec *exec, const sw_exec_opts *o)
{
    /* A tool that checks memory learns op by op what may be touched: the work must be over. */
    const bool watched = sw_nvtx_run_has_heap(exec->watch.nvtx);
    const swi_queue_opts opts = {.tf32 = o->tf32 != 0,
                                 .sync_ops = o->sync_ops != 0 || watched,
                                 .no_graphs = o->no_graphs != 0,
                                 .budget = o->budget};
    SW_TRY(swi_queue_create(&exec->queue, exec->target.device, &opts));
    exec->target.compute = swi_queue_compute(exec->queue);
    exec->target.queue = swi_queue_number(exec->queue);
    return SW_OK;
}

static void close_exec(sw_exec *exec)
{
    swi_queue_destroy(exec->queue);
    exec->queue = NULL;
}

static sw_status count_launches(sw_exec *exec, swi_frame *f, uint32_t *launches)
{
    return swi_queue_count_launches(exec->queue, f, launches);
}

static void forget(sw_exec *exec, const swi_program *p)
{
    swi_queue_forget(exec->queue, p);
}

static size_t data_bytes(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace)
{
    return swi_queue_data_bytes(exec->queue, args, trace);
}

static size_t data_height(const sw_exec *exec)
{
    return swi_queue_data_height(exec->queue);
}

static sw_status reserve(sw_exec *exec, size_t bytes)
{
    return swi_queue_reserve(exec->queue, bytes);
}

static unsigned char *bind(const sw_exec *exec, const sw_run_args *args, int input)
{
    SW_ASSERT(input >= 0 && input < args->n_inputs);
    (void)args;
    return swi_queue_input(exec->queue, input);
}

static sw_status launch(sw_exec *exec, const swi_frame *f, uint32_t i)
{
    return swi_queue_launch_op(exec->queue, f, i);
}

/* A step function may have turned to another card in between. */
static sw_status launch_node(sw_exec *exec, const swi_node *node, const sw_launch *l)
{
    SW_TRY(swi_queue_use(exec->queue));
    return swi_queue_launch(exec->queue, node, l);
}

static sw_status run(sw_exec *exec, swi_frame *f, const sw_run_args *args, swi_run_ops *ops,
                     bool *updated, bool *fresh)
{
    SW_TRY(swi_queue_begin(exec, args));
    return swi_queue_run(exec, f, args, ops, updated, fresh);
}

static sw_status skipped(sw_exec *exec, const sw_run_args *args)
{
    return args->immediate ? swi_queue_skipped_immediate(exec, args)
                           : swi_queue_skipped(exec, args);
}

static sw_status output(sw_exec *exec, const swi_trace *trace, uint32_t i, const void **data)
{
    return swi_queue_output(exec->queue, trace, i, data);
}

const swi_exec_backend swi_exec_cuda = {.open = open_exec,
                                        .close = close_exec,
                                        .count_launches = count_launches,
                                        .forget = forget,
                                        .data_bytes = data_bytes,
                                        .data_need = swi_queue_data_need,
                                        .data_height = data_height,
                                        .reserve = reserve,
                                        .room = swi_queue_prepare,
                                        .bind = bind,
                                        .launch = launch,
                                        .launch_node = launch_node,
                                        .run = run,
                                        .begin_immediate = swi_queue_begin_immediate,
                                        .end_immediate = swi_queue_end_immediate,
                                        .await = swi_queue_await,
                                        .skipped = skipped,
                                        .skipped_in = swi_queue_skipped_in,
                                        .output = output};
