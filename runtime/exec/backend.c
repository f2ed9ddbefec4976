/* The tables of execs: the CPU's, and the cards' by their queue. */
#include "alloc/base/assert.h"
#include "alloc/base/error.h"
#include "alloc/base/poison.h"
#include "profiler/record/nvtx.h"
#include "runtime/autograd/autograd.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/queue.h"
#include <string.h>

/* ---- backend cpu ------------------------------------------------------------------------- */

/* The CPU under an exec: kernels are called where they are bound, and a run is over when its
 * last kernel has returned. */

/* Where memory is poisoned the tool that reads that sees more than guards do. */
static sw_status open_exec(sw_exec *exec, const sw_exec_opts *opts)
{
    (void)opts;
    if (exec->checks || (SW_CHECKS >= 1 && !SW_POISON))
        return swi_guard_create(&exec->guard);
    return SW_OK;
}

static void close_exec(sw_exec *exec)
{
    swi_guard_destroy(exec->guard);
    exec->guard = NULL;
}

/* A plan on the CPU does not count them. */
static sw_status count_launches(sw_exec *exec, swi_frame *f, uint32_t *launches)
{
    (void)exec;
    (void)f;
    (void)launches;
    return SW_OK;
}

static void forget(sw_exec *exec, const swi_program *p)
{
    (void)exec;
    (void)p;
}

/* Inputs lie where the caller has them: slots of loaders, and what it says of those to come. */
static size_t data_bytes(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace)
{
    (void)trace;
    const size_t slots = sw_budget_slots(exec->target.budget);
    return args->data_bytes > slots ? args->data_bytes : slots;
}

/* Inputs lie where they are. */
static size_t data_need(const sw_run_args *args, const swi_trace *trace, swi_data_need *need)
{
    (void)args;
    (void)trace;
    (void)need;
    return 0;
}

static size_t data_height(const sw_exec *exec)
{
    return sw_budget_slots(exec->target.budget);
}

static sw_status reserve(sw_exec *exec, size_t bytes)
{
    (void)exec;
    (void)bytes;
    return SW_OK;
}

static sw_status room(sw_exec *exec, const sw_run_args *args, swi_frame *f)
{
    (void)args;
    return exec->guard != NULL ? swi_guard_reserve(exec->guard, f->program) : SW_OK;
}

static unsigned char *bind(const sw_exec *exec, const sw_run_args *args, int input)
{
    (void)exec;
    SW_ASSERT(input >= 0 && input < args->n_inputs);
    return (unsigned char *)(uintptr_t)args->inputs[input].data;
}

static sw_status run_kernel(const sw_exec *exec, sw_kernel *kernel, const sw_launch *l)
{
    SW_ASSERT(kernel != NULL);
    if (exec->guard != NULL)
        return swi_guarded(exec->guard, kernel, l);
    const uint64_t said = sw_error_count();
    const sw_status status = kernel(l);
    return status == SW_OK ? SW_OK : sw_call_status(status, said, "its kernel");
}

static sw_status launch(sw_exec *exec, const swi_frame *f, uint32_t i)
{
    const swi_program *p = f->program;
    return run_kernel(exec, swi_node_of(p, i)->kernel, swi_frame_launch(f, i));
}

static sw_status launch_node(sw_exec *exec, const swi_node *node, const sw_launch *l)
{
    return run_kernel(exec, node->kernel, l);
}

static sw_status run(sw_exec *exec, swi_frame *f, const sw_run_args *args, swi_run_ops *ops,
                     bool *updated, bool *fresh)
{
    (void)fresh;
    SW_TRY(ops(exec, f, args, updated));
    const unsigned char *base = sw_arena_base(exec->arena);
    swi_history_run *run = swi_history_at(&exec->history, 0);
    for (uint32_t i = 0; i < f->program->trace.n_metrics; i++) {
        const swi_value *v = &f->program->trace.values[f->program->trace.metrics[i].value];
        float x;
        memcpy(&x, base + f->program->trace.storages[v->storage].offset + v->offset, sizeof x);
        run->metrics[i].value = (double)x;
    }
    return SW_OK;
}

static sw_status begin_immediate(sw_exec *exec, const sw_run_args *args)
{
    (void)exec;
    (void)args;
    return SW_OK;
}

static sw_status end_immediate(sw_exec *exec)
{
    (void)exec;
    return SW_OK;
}

static sw_status await(sw_exec *exec, swi_history_run *run)
{
    (void)exec;
    SW_ASSERT(!run->waits);
    (void)run;
    return SW_OK;
}

static sw_status skipped(sw_exec *exec, const sw_run_args *args)
{
    (void)exec;
    return swi_skipped_end(args);
}

/* Who has the model reads its counts. */
static sw_status skipped_in(const sw_exec *exec, const swi_history_run *run,
                            const sw_model *model)
{
    (void)exec;
    (void)run;
    (void)model;
    return SW_OK;
}

static sw_status output(sw_exec *exec, const swi_trace *trace, uint32_t i, const void **data)
{
    (void)exec;
    (void)trace;
    (void)i;
    (void)data;
    return SW_OK;
}

const swi_exec_backend swi_exec_cpu =
    SW_INIT(.open = open_exec, .close = close_exec, .count_launches = count_launches,
            .forget = forget, .data_bytes = data_bytes, .data_need = data_need,
            .data_height = data_height, .reserve = reserve, .room = room, .bind = bind,
            .launch = launch, .launch_node = launch_node, .run = run,
            .begin_immediate = begin_immediate, .end_immediate = end_immediate, .await = await,
            .skipped = skipped, .skipped_in = skipped_in, .output = output);

/* ---- backend cuda ------------------------------------------------------------------------ */

/* A card under an exec: by its queue. */

static sw_status open_exec_cuda(sw_exec *exec, const sw_exec_opts *o)
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

static void close_exec_cuda(sw_exec *exec)
{
    swi_queue_destroy(exec->queue);
    exec->queue = NULL;
}

static void forget_cuda(sw_exec *exec, const swi_program *p)
{
    swi_queue_forget(exec->queue, p);
}

const swi_exec_backend swi_exec_cuda =
    SW_INIT(.open = open_exec_cuda, .close = close_exec_cuda,
            .count_launches = swi_queue_count_launches, .forget = forget_cuda,
            .data_bytes = swi_queue_data_bytes, .data_need = swi_queue_data_need,
            .data_height = swi_queue_data_height, .reserve = swi_queue_reserve,
            .room = swi_queue_prepare, .bind = swi_queue_bind, .launch = swi_queue_launch_op,
            .launch_node = swi_queue_launch, .run = swi_queue_run,
            .begin_immediate = swi_queue_begin_immediate,
            .end_immediate = swi_queue_end_immediate, .await = swi_queue_await,
            .skipped = swi_queue_skipped, .skipped_in = swi_queue_skipped_in,
            .output = swi_queue_output);
