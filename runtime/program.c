/* Programs: what a trace leaves, copied, ordered, placed and bound.
 *
 * Positions count the ops that run; views have none. A storage is live from the op that first
 * writes it to the last op that touches it, both included; metrics and outputs to one past the
 * last op, where they are read out. */
#include "alloc/size.h"
#include "alloc/sys.h"
#include "runtime/program_internal.h"
#include "runtime/queue.h"
#include "runtime/shares.h"
#include <string.h>

/* ---- building ---------------------------------------------------------------------------- */

static sw_status copy_array(void **to, const void *from, uint32_t n, size_t element)
{
    *to = NULL;
    SW_TRY(sw_heap_alloc(to, SW_HEAP_PROGRAMS, n * element));
    if (n > 0)
        memcpy(*to, from, n * element);
    return SW_OK;
}

#define COPY(field)                                                                            \
    do {                                                                                       \
        void *block;                                                                           \
        SW_TRY(copy_array(&block, from->field, from->n_##field, sizeof *from->field));         \
        to->field = block;                                                                     \
        to->n_##field = to->cap_##field = from->n_##field;                                     \
    } while (0)

sw_status swi_trace_copy(swi_trace *to, const swi_trace *from)
{
    COPY(nodes);
    COPY(operands);
    COPY(values);
    COPY(storages);
    COPY(attrs);
    COPY(strings);
    COPY(metrics);
    COPY(outputs);
    return SW_OK;
}

static sw_status heap_array(void **out, swi_program *p, int slot, size_t bytes)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_PROGRAMS, bytes));
    p->heap_bytes[slot] = bytes;
    return SW_OK;
}

/* Slots of heap_bytes. */
enum { H_OPS, H_BUFFERS, H_BINDS, H_BIRTHS, H_DEATHS, H_LAUNCHES, H_LAYERS, H_PHASES };

static sw_status take_arrays(swi_program *p, uint32_t n_ops)
{
    const swi_trace *t = &p->trace;
    void *b;
    p->n_ops = n_ops;
    p->n_buffers = t->n_operands;
    p->n_binds = t->n_operands + n_ops;
    SW_TRY(heap_array(&b, p, H_OPS, n_ops * sizeof *p->ops));
    p->ops = b;
    SW_TRY(heap_array(&b, p, H_BUFFERS, p->n_buffers * sizeof *p->buffers));
    p->buffers = b;
    SW_TRY(heap_array(&b, p, H_BINDS, p->n_binds * sizeof *p->binds));
    p->binds = b;
    SW_TRY(heap_array(&b, p, H_BIRTHS, t->n_storages * sizeof *p->births));
    p->births = b;
    SW_TRY(heap_array(&b, p, H_DEATHS, t->n_storages * sizeof *p->deaths));
    p->deaths = b;
    SW_TRY(heap_array(&b, p, H_LAUNCHES, n_ops * sizeof *p->launches));
    p->launches = b;
    SW_TRY(heap_array(&b, p, H_LAYERS, 2 * n_ops * sizeof *p->layers));
    p->layers = b;
    p->op_layer = p->layers + n_ops;
    SW_TRY(heap_array(&b, p, H_PHASES, (size_t)n_ops + 1));
    p->op_phase = b;
    return SW_OK;
}

static swi_bind bind_of(const swi_trace *t, uint32_t storage, size_t offset)
{
    const swi_storage *s = &t->storages[storage];
    if (s->birth == SWI_NONE)
        return (swi_bind){SWI_SEG_COUNT, 0}; /* nobody reads it: a NULL pointer */
    return (swi_bind){s->segment, s->offset + offset};
}

/* Is s born in the place of another? */
static bool reuses(const swi_trace *t, uint32_t s)
{
    const swi_storage *x = &t->storages[s];
    return x->segment == SWI_SEG_STEP && x->alias != s && x->birth != SWI_NONE &&
           x->rounded > 0;
}

/* Births and deaths by op: counting sort, so that each op has one run of each list. */
static void list_lifetimes(swi_program *p)
{
    swi_trace *t = &p->trace;
    for (uint32_t i = 0; i < p->n_ops; i++)
        p->ops[i].n_births = p->ops[i].n_reuses = p->ops[i].n_deaths = 0;
    p->n_births = 0;
    for (uint32_t s = 0; s < t->n_storages; s++) {
        if (reuses(t, s))
            p->ops[t->storages[s].birth].n_reuses++;
        if (!swi_takes_part(t, s))
            continue;
        p->n_births++;
        p->ops[t->storages[s].birth].n_births++;
        if (t->storages[s].death < p->n_ops)
            p->ops[t->storages[s].death].n_deaths++;
    }
    uint32_t births = 0, deaths = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        p->ops[i].births = births;
        p->ops[i].deaths = deaths;
        births += p->ops[i].n_births + p->ops[i].n_reuses;
        deaths += p->ops[i].n_deaths;
        p->ops[i].n_births = p->ops[i].n_reuses = p->ops[i].n_deaths = 0;
    }
    for (uint32_t s = 0; s < t->n_storages; s++) {
        if (!swi_takes_part(t, s))
            continue;
        swi_run_op *b = &p->ops[t->storages[s].birth];
        p->births[b->births + b->n_births++] = s;
        if (t->storages[s].death < p->n_ops) {
            swi_run_op *d = &p->ops[t->storages[s].death];
            p->deaths[d->deaths + d->n_deaths++] = s;
        }
    }
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (reuses(t, s)) {
            swi_run_op *b = &p->ops[t->storages[s].birth];
            p->births[b->births + b->n_births + b->n_reuses++] = s;
        }
}

/* Forward comes by the layers in their order and backward against it: the next one is near the
 * last. */
static uint32_t layer_near(swi_program *p, uint32_t layer, uint32_t last)
{
    for (uint32_t d = 0; d < p->n_layers; d++) {
        if (last + d < p->n_layers && p->layers[last + d] == layer)
            return last + d;
        if (d <= last && p->layers[last - d] == layer)
            return last - d;
    }
    p->layers[p->n_layers] = layer;
    return p->n_layers++;
}

void swi_program_layers(swi_program *p)
{
    uint32_t last = 0;
    p->n_layers = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        last = layer_near(p, node->layer, last);
        p->op_layer[i] = last;
        p->op_phase[i] = (char)('0' + (int)node->phase);
    }
    p->op_phase[p->n_ops] = '\0';
}

void swi_program_bind(swi_program *p)
{
    swi_trace *t = &p->trace;
    uint32_t buffer = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        swi_run_op *op = &p->ops[i];
        const swi_node *node = &t->nodes[op->node];
        op->first = buffer;
        op->n_buffers = node->n_in + node->n_out;
        op->phase = node->phase;
        op->is_update = node->is_update || node->writes_model;
        for (uint32_t k = 0; k < op->n_buffers; k++) {
            const swi_value *v = &t->values[t->operands[node->first + k]];
            p->buffers[buffer + k] = (sw_buffer){.type = v->type};
            memcpy(p->buffers[buffer + k].stride, v->stride, sizeof v->stride);
            p->binds[buffer + i + k] = bind_of(t, v->storage, v->offset);
        }
        p->binds[buffer + i + op->n_buffers] = node->scratch != SWI_NONE
                                                   ? bind_of(t, node->scratch, 0)
                                                   : (swi_bind){SWI_SEG_COUNT, 0};
        p->launches[i] = (sw_launch){
            .size = sizeof(sw_launch),
            .in = p->buffers + buffer,
            .n_in = (int)node->n_in,
            .out = p->buffers + buffer + node->n_in,
            .n_out = (int)node->n_out,
            .scratch_bytes = node->scratch != SWI_NONE ? t->storages[node->scratch].bytes : 0,
            .attrs = swi_node_attrs(t, node),
            .accumulate = node->accumulate,
            .stream = node->stream};
        buffer += op->n_buffers;
    }
    p->n_buffers = buffer;
    list_lifetimes(p);
    swi_program_layers(p);
}

static sw_status take_ops(swi_program *p, const swi_order *order)
{
    SW_TRY(take_arrays(p, order->n));
    for (uint32_t i = 0; i < order->n; i++)
        p->ops[i].node = order->nodes[i];
    return SW_OK;
}

static sw_status build(swi_program *p, const sw_ctx *ctx, size_t limit)
{
    const uint64_t start = sw_clock_ns();
    swi_trace *t = &p->trace;
    SW_TRY(swi_trace_copy(t, &ctx->trace));
    for (uint32_t s = 0; s < t->n_storages; s++)
        t->storages[s].traced = (uint8_t)t->storages[s].role;
    p->hash = swi_trace_hash(t);
    p->n_models = ctx->args->n_models;
    p->n_inputs = ctx->args->n_inputs;
    for (int i = 0; i < p->n_models; i++)
        if (!sw_size_add(p->model_bytes, ctx->args->models[i]->bytes, &p->model_bytes))
            SW_FAIL(SW_NOMEM, "the models' bytes overflow");
    for (int i = 0; i < p->n_inputs; i++)
        if (!sw_size_add(p->slot_bytes, t->storages[i].rounded, &p->slot_bytes))
            SW_FAIL(SW_NOMEM, "the inputs' bytes overflow");

    p->limit = limit;
    swi_order order = {0};
    sw_status status = swi_program_settle(p, &order, ctx->exec);
    if (status == SW_OK)
        status = take_ops(p, &order);
    swi_order_free(&order);
    SW_TRY(status);
    swi_program_bind(p);
    swi_program_pair(p, ctx->exec);
    swi_program_measure(p);
    swi_program_name_holders(p, ctx->args);
    p->info.n_ops = p->n_ops;
    p->info.n_values = t->n_values;
    p->info.n_storages = t->n_storages;
    if (ctx->exec->queue != NULL)
        SW_TRY(swi_queue_state(ctx->exec->queue, p));
    p->info.plan_ns = sw_clock_ns() - start;
    return SW_OK;
}

sw_status swi_program_create(swi_program **out, const sw_ctx *ctx, size_t limit)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, sizeof(swi_program)));
    swi_program *p = block;
    p->refs = 1;
    const sw_status status = build(p, ctx, limit);
    if (status != SW_OK) {
        swi_program_free(p);
        return status;
    }
    *out = p;
    return SW_OK;
}

void swi_program_free(swi_program *p)
{
    if (p == NULL)
        return;
    sw_heap_free(p->ops, SW_HEAP_PROGRAMS, p->heap_bytes[H_OPS]);
    sw_heap_free(p->buffers, SW_HEAP_PROGRAMS, p->heap_bytes[H_BUFFERS]);
    sw_heap_free(p->binds, SW_HEAP_PROGRAMS, p->heap_bytes[H_BINDS]);
    sw_heap_free(p->births, SW_HEAP_PROGRAMS, p->heap_bytes[H_BIRTHS]);
    sw_heap_free(p->deaths, SW_HEAP_PROGRAMS, p->heap_bytes[H_DEATHS]);
    sw_heap_free(p->launches, SW_HEAP_PROGRAMS, p->heap_bytes[H_LAUNCHES]);
    sw_heap_free(p->layers, SW_HEAP_PROGRAMS, p->heap_bytes[H_LAYERS]);
    sw_heap_free(p->op_phase, SW_HEAP_PROGRAMS, p->heap_bytes[H_PHASES]);
    swi_trace_free(&p->trace);
    swi_trace_free(&p->plain);
    swi_shares_free(&p->shares);
    swi_leaves_free(p->leaves);
    sw_nvtx_table_free(&p->names);
    sw_heap_free(p, SW_HEAP_PROGRAMS, sizeof *p);
}

/* A copy that tests may change; same plan. */
sw_status swi_program_clone(swi_program **out, const swi_program *from)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, sizeof(swi_program)));
    swi_program *p = block;
    p->refs = 1;
    p->id = from->id;
    p->hash = from->hash;
    p->n_models = from->n_models;
    p->n_inputs = from->n_inputs;
    p->model_bytes = from->model_bytes;
    p->slot_bytes = from->slot_bytes;
    p->height = from->height;
    p->info = from->info;
    p->peak_op = from->peak_op;
    sw_status status = swi_trace_copy(&p->trace, &from->trace);
    if (status == SW_OK)
        status = take_arrays(p, from->n_ops);
    if (status != SW_OK) {
        swi_program_free(p);
        return status;
    }
    memcpy(p->ops, from->ops, from->n_ops * sizeof *p->ops);
    swi_program_bind(p);
    *out = p;
    return SW_OK;
}
