/* The ops of a run on a device: one by one, captured, or replayed.
 *
 * A graph holds addresses and the seed, so there is one for each binding of a program: the step
 * arena, the place of inputs, the models, and the seed, which members have of their own. The
 * least recently used goes where there are too many, or where they have too much of the card's
 * memory. */
#include "alloc/base/assert.h"
#include "profiler/record/nvtx.h"
#include "runtime/exec/queue_internal.h"
#include <stdio.h>
#include <string.h>

/* Make events for n borders. */
static sw_status swi_phase_events_reserve(const swi_queue *q, swi_phase_events *b, uint32_t n)
{
    uint32_t cap = b->cap;
    SW_ASSERT(n > 0);
    if (n <= b->cap && b->at[n - 1].event != NULL) /* they are made in order, until one fails */
        return SW_OK;
    SW_TRY(sw_heap_reserve(&b->at, SW_HEAP_PROGRAMS, &cap, n));
    b->cap = cap;
    for (uint32_t i = 0; i < cap; i++)
        if (b->at[i].event == NULL)
            SW_TRY(swi_queue_fault(
                q, q->api->event_create(q->device->card, &b->at[i].event, true)));
    return SW_OK;
}

void swi_phase_events_free(const swi_queue *q, swi_phase_events *b)
{
    for (uint32_t i = 0; i < b->cap; i++)
        if (b->at[i].event != NULL)
            q->api->event_destroy(b->at[i].event);
    sw_heap_free(b->at, SW_HEAP_PROGRAMS, b->cap * sizeof *b->at);
    *b = (swi_phase_events){0};
}

static uint32_t swi_phase_events_of(const swi_program *p)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < p->n_ops; i++)
        n += i == 0 || p->ops[i].phase != p->ops[i - 1].phase;
    return n;
}

sw_status swi_queue_record_phase(swi_queue *q, int phase)
{
    swi_phase_events *b = q->phase_events;
    SW_ASSERT(phase >= -1 && phase < SW_PHASES);
    if (b == NULL)
        return SW_OK;
    SW_TRY(swi_phase_events_reserve(q, b, b->n + 1));
    SW_TRY(swi_queue_fault(q, q->api->record(b->at[b->n].event, &q->compute)));
    b->at[b->n++].phase = phase;
    return SW_OK;
}

/* ---- launching --------------------------------------------------------------------------- */

static sw_status enter(swi_queue *q, const swi_node *node)
{
    return q->phase_events != NULL &&
                   (q->phase_events->n == 0 ||
                    q->phase_events->at[q->phase_events->n - 1].phase != (int)node->phase)
               ? swi_queue_record_phase(q, (int)node->phase)
               : SW_OK;
}

static sw_status launched(const swi_queue *q, sw_status status)
{
    if (status == SW_OK && q->sync_ops)
        status = q->api->queue_sync(q->device->card, &q->compute);
    return swi_queue_fault(q, status);
}

/* A step function may have turned to another card in between. */
sw_status swi_queue_launch(sw_exec *exec, const swi_node *node, const sw_launch *launch)
{
    swi_queue *q = exec->queue;
    SW_TRY(swi_queue_use(q));
    SW_TRY(enter(q, node));
    q->group.left = q->group.rows = 0;
    return launched(q, node->on_device(launch, &q->compute));
}

/* Op i, resolved, with the next one where they are a pair; that one then does nothing. Ops of a
 * group go out with the last. */
static sw_status make_op(const swi_frame *f, uint32_t i, const sw_cuda_queue *queue)
{
    const swi_program *p = f->program;
    const sw_cuda_fusion *fusion = p->ops[i].fusion;
    queue->group->left = p->ops[i].left;
    if (i == 0 || p->ops[i - 1].left == 0) /* after a failure some may be there */
        queue->group->rows = 0;
    if (i > 0 && p->ops[i - 1].fusion != NULL)
        return SW_OK;
    if (fusion != NULL)
        return fusion->kernel(swi_frame_launch(f, i), p->ops[i + 1].attrs, queue);
    return swi_node_of(p, i)->on_device(swi_frame_launch(f, i), queue);
}

sw_status swi_queue_launch_op(sw_exec *exec, const swi_frame *f, uint32_t i)
{
    swi_queue *q = exec->queue;
    const swi_program *p = f->program;
    SW_TRY(enter(q, swi_node_of(p, i)));
    return launched(q, make_op(f, i, &q->compute));
}

/* Segments begin where nothing is, aligned as they will be: operands lie in them as they
 * will. */
sw_status swi_queue_count_launches(sw_exec *exec, swi_frame *f, uint32_t *launches)
{
    const swi_program *p = f->program;
    unsigned char *base[SWI_SEG_COUNT + 1] = {NULL};
    sw_cuda_queue counting = exec->queue->compute;
    for (uint64_t s = 0; s < SWI_SEG_COUNT; s++)
        base[s] = (unsigned char *)(uintptr_t)((s + 1) << 40); /* larger than any store */
    *launches = 0;
    counting.stated = launches;
    counting.tickets = (uint32_t *)(void *)base[SWI_SEG_STEP]; /* there will be some */
    for (uint32_t i = 0; i < p->n_ops; i++) {
        (void)swi_frame_resolve(f, i, base, p->binds);
        const sw_status status = make_op(f, i, &counting);
        if (status != SW_OK)
            return swi_blame(p, i, status);
    }
    return SW_OK;
}

/* ---- graphs ------------------------------------------------------------------------------ */

static void free_binding(const swi_queue *q, swi_binding *b)
{
    if (b->graph != NULL) {
        (void)swi_device_graphs(q->device, 0, q->api->graph_bytes(b->graph));
        q->api->graph_destroy(b->graph);
    }
    swi_phase_events_free(q, &b->phase_events);
    sw_heap_free(b, SW_HEAP_PROGRAMS, sizeof *b);
}

/* Its last replay must be over. */
static void drop(swi_queue *q, uint32_t i)
{
    SW_ASSERT(i < q->n_bindings);
    for (int k = 0; k < SWI_HISTORY; k++)
        if (q->readback[k].phase_events == &q->bindings[i]->phase_events)
            q->readback[k].phase_events = NULL;
    free_binding(q, q->bindings[i]);
    q->bindings[i] = q->bindings[--q->n_bindings];
    q->next_binding = 0;
}

void swi_queue_forget(swi_queue *q, const swi_program *p)
{
    bool settled = p == NULL;
    for (uint32_t i = q != NULL ? q->n_bindings : 0; i-- > 0;) {
        if (p != NULL && q->bindings[i]->program != p)
            continue;
        if (!settled)
            (void)swi_queue_sync(q); /* a fault is kept: the next run says so */
        settled = true;
        drop(q, i);
    }
}

/* Members are visited in order: the one after the last found is the best guess. */
static swi_binding *find(swi_queue *q, const swi_program *p, unsigned char *const *base,
                         uint64_t seed)
{
    for (uint32_t i = 0; i < q->n_bindings; i++) {
        const uint32_t k = (q->next_binding + i) % q->n_bindings;
        swi_binding *b = q->bindings[k];
        if (b->program == p && b->seed == seed && memcmp(b->base, base, sizeof b->base) == 0) {
            q->next_binding = k + 1;
            b->used = ++q->clock;
            return b;
        }
    }
    return NULL;
}

static sw_status drop_oldest(swi_queue *q)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < q->n_bindings; i++)
        if (q->bindings[i]->used < q->bindings[oldest]->used)
            oldest = i;
    SW_TRY(swi_queue_sync(q));
    drop(q, oldest);
    return SW_OK;
}

static sw_status reserve_binding(swi_queue *q)
{
    SW_TRY(
        sw_heap_reserve(&q->bindings, SW_HEAP_PROGRAMS, &q->cap_bindings, q->n_bindings + 1));
    return q->n_bindings < q->most_graphs ? SW_OK : drop_oldest(q);
}

/* All of a run that is the same each time, with the launches of the run before.
 * `told`: a tool hears of each op, which it finds again in the graph. */
static sw_status note(sw_exec *exec, swi_frame *f, swi_binding *b, bool told)
{
    swi_queue *q = exec->queue;
    const swi_program *p = f->program;
    unsigned char *base[SWI_SEG_COUNT + 1];
    memcpy(base, b->base, sizeof base);
    base[SWI_SEG_COUNT] = NULL; /* the block of leaves stands there */
    SW_TRY(swi_queue_gather(q, f->readback, b->base, true));
    for (uint32_t i = 0; i < p->n_ops; i++) {
        (void)swi_frame_resolve(f, i, base, p->binds);
        if (told)
            sw_nvtx_begin(SW_NVTX_IN_OP, f->names.ops[i].name, 0);
        const sw_status status = swi_queue_launch_op(exec, f, i);
        if (told)
            sw_nvtx_end();
        if (status != SW_OK)
            return swi_blame(p, i, status);
    }
    SW_TRY(swi_queue_record_phase(q, -1));
    return swi_queue_gather(q, f->readback, b->base, false);
}

static sw_status end_capture(swi_queue *q, swi_binding *b)
{
    const sw_status status = swi_queue_fault(q, q->api->capture_end(&q->compute, &b->graph));
    if (status == SW_NOMEM)
        SW_FAIL(status, "%s; no_graphs, --no-graphs, runs without graphs", sw_last_error());
    if (status == SW_OK)
        (void)swi_device_graphs(q->device, q->api->graph_bytes(b->graph), 0);
    return status;
}

static sw_status capture(sw_exec *exec, swi_frame *f, swi_binding *b, bool told)
{
    swi_queue *q = exec->queue;
    SW_TRY(swi_queue_fault(q, q->api->capture_begin(&q->compute)));
    const sw_status status = note(exec, f, b, told);
    if (status == SW_OK)
        return end_capture(q, b);
    char text[400];
    snprintf(text, sizeof text, "%s", sw_last_error());
    (void)q->api->capture_end(&q->compute, NULL);
    return sw_error_set(status, __FILE__, __LINE__, "%s", text);
}

/* The ranges of a capture stand beside those of the run before. */
static sw_status capture_told(sw_exec *exec, swi_frame *f, swi_binding *b)
{
    static const sw_nvtx_name name = {NULL, "capture"};
    const sw_nvtx_run *tool = exec->watch.nvtx;
    if (tool != NULL)
        sw_nvtx_begin(SW_NVTX_IN_STEP, &name, 0);
    const sw_status status =
        capture(exec, f, b, sw_nvtx_run_has_ops(tool) && f->names.n_ops >= f->program->n_ops);
    if (tool != NULL)
        sw_nvtx_end();
    return status;
}

static sw_status add_graph(sw_exec *exec, swi_frame *f, unsigned char *const *base,
                           uint64_t seed, bool clocks)
{
    swi_queue *q = exec->queue;
    swi_binding *b;
    SW_TRY(reserve_binding(q));
    SW_TRY(sw_heap_alloc(&b, SW_HEAP_PROGRAMS, sizeof(swi_binding)));
    b->program = f->program;
    b->seed = seed;
    memcpy(b->base, base, sizeof b->base);
    sw_status status =
        clocks ? swi_phase_events_reserve(q, &b->phase_events, swi_phase_events_of(f->program))
               : SW_OK;
    q->phase_events = clocks ? &b->phase_events : NULL;
    if (status == SW_OK)
        status = capture_told(exec, f, b);
    q->phase_events = NULL;
    if (status != SW_OK) {
        free_binding(q, b);
        return status;
    }
    b->used = ++q->clock;
    q->bindings[q->n_bindings++] = b;
    while (q->n_bindings > 1 && swi_device_graphs(q->device, 0, 0) > q->most_graph_bytes)
        SW_TRY(drop_oldest(q));
    return SW_OK;
}

/* ---- a run ------------------------------------------------------------------------------- */

static sw_status run_by_op(sw_exec *exec, swi_frame *f, const sw_run_args *args,
                           unsigned char *const *base, swi_run_ops *ops, bool *updated)
{
    swi_queue *q = exec->queue;
    SW_TRY(swi_queue_gather(q, f->readback, base, true));
    SW_TRY(ops(exec, f, args, updated));
    SW_TRY(swi_queue_record_phase(q, -1));
    return swi_queue_gather(q, f->readback, base, false);
}

/* The plan's figures stand for what no one counts. */
static sw_status replay(sw_exec *exec, const swi_program *p, swi_binding *b, bool *updated)
{
    swi_queue *q = exec->queue;
    for (uint32_t i = 0; i < p->n_ops && !*updated; i++)
        *updated = p->ops[i].is_update;
    exec->info.replayed = 1;
    memcpy(exec->info.phase, p->info.phase, sizeof exec->info.phase);
    if (exec->watch.nvtx != NULL)
        sw_watch_begin(&exec->watch, p->model_bytes + p->slot_bytes);
    const sw_status status = q->api->graph_launch(b->graph, &q->compute);
    if (exec->watch.nvtx != NULL)
        sw_watch_end(&exec->watch);
    return swi_queue_fault(q, status);
}

/* Someone wants to see each op, or wants no graph. */
static bool is_by_op(const sw_exec *exec)
{
    return exec->queue->sync_ops || exec->queue->no_graphs || exec->watch.log != NULL;
}

sw_status swi_queue_run(sw_exec *exec, swi_frame *f, const sw_run_args *args, swi_run_ops *ops,
                        bool *updated, bool *fresh)
{
    const swi_program *p = f->program;
    swi_queue *q = exec->queue;
    SW_TRY(swi_queue_begin(exec, args));
    SW_ASSERT(f->readback != NULL && q->pinned != NULL && f->readback->bytes <= q->block_bytes);
    swi_history_run *run = swi_history_at(&exec->history, 0);
    swi_run_readback *readback = swi_queue_readback_of(exec, run);
    const bool clocks = !exec->no_phases;
    unsigned char *base[SWI_SEG_COUNT + 1];
    swi_bases(exec, args, base);
    base[SWI_SEG_COUNT] = swi_queue_block(q);
    swi_binding *b = is_by_op(exec) ? NULL : find(q, p, base, swi_run_seed(exec, args));
    if (b != NULL) {
        readback->phase_events = clocks ? &b->phase_events : NULL;
        SW_TRY(replay(exec, p, b, updated));
    } else {
        SW_TRY(clocks ? swi_phase_events_reserve(q, &q->eager, swi_phase_events_of(p)) : SW_OK);
        q->eager.n = 0;
        q->phase_events = readback->phase_events = clocks ? &q->eager : NULL;
        const sw_status status = run_by_op(exec, f, args, base, ops, updated);
        q->phase_events = NULL;
        SW_TRY(status);
    }
    if (readback->phase_events != NULL)
        readback->phase_events->run = readback->run;
    SW_TRY(swi_queue_read_back(exec, args, run, f));
    SW_TRY(q->sync_ops ? swi_queue_sync(q) : SW_OK);
    if (b != NULL || is_by_op(exec))
        return SW_OK;
    *fresh = true;
    return add_graph(exec, f, base, swi_run_seed(exec, args), clocks);
}
