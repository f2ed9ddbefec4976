/* Programs: what a trace leaves, copied, ordered, placed and bound.
 *
 * Positions count the ops that run; views have none. A storage is live from the op that first
 * writes it to the last op that touches it, both included; metrics and outputs to one past the
 * last op, where they are read out. */
#include "alloc/base/size.h"
#include "alloc/base/assert.h"
#include "alloc/base/sys.h"
#include "runtime/plan/program_internal.h"
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
    COPY(strides);
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
enum { H_OPS, H_BINDS, H_BIRTHS, H_DEATHS, H_LAYERS, H_PHASES };

/* The nodes that run, in their order. */
static sw_status take_arrays(swi_program *p, const uint32_t *nodes, uint32_t n_ops)
{
    const swi_trace *t = &p->trace;
    void *b;
    SW_TRY(heap_array(&b, p, H_OPS, n_ops * sizeof *p->ops));
    p->ops = b;
    p->n_ops = p->n_binds = n_ops;
    for (uint32_t i = 0; i < n_ops; i++) {
        SW_ASSERT(nodes[i] < t->n_nodes);
        p->ops[i].node = nodes[i];
        p->n_binds += t->nodes[nodes[i]].n_in + t->nodes[nodes[i]].n_out;
    }
    SW_TRY(heap_array(&b, p, H_BINDS, p->n_binds * sizeof *p->binds));
    p->binds = b;
    SW_TRY(heap_array(&b, p, H_BIRTHS, t->n_storages * sizeof *p->births));
    p->births = b;
    SW_TRY(heap_array(&b, p, H_DEATHS, t->n_storages * sizeof *p->deaths));
    p->deaths = b;
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
    SW_ASSERT(storage < t->n_storages && (unsigned)s->segment < SWI_SEG_COUNT);
    SW_ASSERT(offset <= s->bytes || s->birth == SWI_NONE);
    if (s->birth == SWI_NONE)
        return (swi_bind){SWI_SEG_COUNT, 0}; /* no one reads it: a NULL pointer */
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
void swi_program_list_lifetimes(swi_program *p)
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
        SW_ASSERT(t->storages[s].birth < p->n_ops &&
                  t->storages[s].birth <= t->storages[s].death);
        p->ops[t->storages[s].birth].n_births++;
        if (t->storages[s].death < p->n_ops)
            p->ops[t->storages[s].death].n_deaths++;
    }
    uint32_t births = 0, deaths = 0;
    SW_ASSERT(p->n_births <= t->n_storages);
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
            SW_ASSERT(d->deaths + d->n_deaths <= t->n_storages);
        }
    }
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (reuses(t, s)) {
            swi_run_op *b = &p->ops[t->storages[s].birth];
            p->births[b->births + b->n_births + b->n_reuses++] = s;
        }
}

/* The place of a layer at most d from `near`; SWI_NONE: it is not there. */
static uint32_t layer_beside(const swi_program *p, uint32_t layer, uint32_t near, uint32_t d)
{
    if (near + d < p->n_layers && p->layers[near + d] == layer)
        return near + d;
    return d <= near && p->layers[near - d] == layer ? near - d : SWI_NONE;
}

/* Forward comes by the layers in their order and backward against it: the next one is near the
 * last or the one before that, as with ops of no layer between them, or its number is above
 * `most`, that of all before. */
static uint32_t layer_near(swi_program *p, uint32_t layer, const uint32_t last[2],
                           uint32_t most)
{
    for (uint32_t d = 0; d < p->n_layers && layer <= most; d++)
        for (int k = 0; k < 2; k++) {
            const uint32_t at = layer_beside(p, layer, last[k], d);
            if (at != SWI_NONE)
                return at;
        }
    p->layers[p->n_layers] = layer;
    SW_ASSERT(p->n_layers < p->n_ops);
    return p->n_layers++;
}

void swi_program_layers(swi_program *p)
{
    uint32_t last[2] = {0, 0}, most = 0;
    p->n_layers = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        const uint32_t at = layer_near(p, node->layer, last, most);
        SW_ASSERT(at < p->n_layers && (unsigned)node->phase <= SW_STEP);
        if (at != last[0]) {
            last[1] = last[0];
            last[0] = at;
        }
        most = node->layer > most ? node->layer : most;
        p->op_layer[i] = at;
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
        SW_ASSERT(op->node < t->n_nodes && op->n_buffers <= SWI_MAX_OPERANDS);
        SW_ASSERT(node->first + op->n_buffers <= t->n_operands);
        SW_ASSERT(buffer + i + op->n_buffers < p->n_binds);
        SW_ASSERT(node->scratch == SWI_NONE || node->scratch < t->n_storages);
        op->scratch_bytes = node->scratch != SWI_NONE ? t->storages[node->scratch].bytes : 0;
        op->attrs = swi_node_attrs(t, node);
        op->phase = node->phase;
        op->is_update = node->is_update || node->writes_model;
        for (uint32_t k = 0; k < op->n_buffers; k++) {
            const swi_value *v = &t->values[t->operands[node->first + k]];
            p->binds[buffer + i + k] = bind_of(t, v->storage, v->offset);
        }
        p->binds[buffer + i + op->n_buffers] = node->scratch != SWI_NONE
                                                   ? bind_of(t, node->scratch, 0)
                                                   : (swi_bind){SWI_SEG_COUNT, 0};
        buffer += op->n_buffers;
    }
    swi_program_list_lifetimes(p);
    swi_program_layers(p);
}

/* Pack what was traced, where something else runs, into little room. */
static sw_status pack_traced(swi_program *p)
{
    if (p->plain.n_nodes == 0)
        return SW_OK;
    SW_TRY(swi_pack(&p->traced, &p->plain, &p->trace));
    swi_trace_free(&p->plain);
    return SW_OK;
}

/* Passes leave slack where they append: what runs is as large as it must be. */
static sw_status fit_trace(swi_program *p)
{
    swi_trace exact = {0};
    const sw_status status = swi_trace_copy(&exact, &p->trace);
    if (status != SW_OK) {
        swi_trace_free(&exact);
        return status;
    }
    swi_trace_free(&p->trace);
    p->trace = exact;
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
    sw_status status = swi_program_run_passes(p, &order, ctx->exec);
    if (status == SW_OK)
        status = fit_trace(p);
    if (status == SW_OK)
        status = take_arrays(p, order.nodes, order.n);
    swi_order_free(&order);
    SW_TRY(status);
    SW_TRY(swi_program_templates(p));
    swi_program_bind(p);
    swi_program_fuse_launches(p, ctx->exec);
    swi_program_measure(p);
    swi_program_name_holders(p, ctx->args);
    p->info.n_ops = p->n_ops;
    p->info.n_values = t->n_values;
    p->info.n_storages = t->n_storages;
    SW_TRY(pack_traced(p)); /* last: the trace stays as it is from here on */
    p->info.plan_ns = sw_clock_ns() - start;
    return SW_OK;
}

sw_status swi_program_create(swi_program **out, const sw_ctx *ctx, size_t limit)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, sizeof(swi_program)));
    swi_program *p = block;
    const sw_status status = build(p, ctx, limit);
    if (status != SW_OK) {
        swi_program_free(p);
        return status;
    }
    *out = p;
    return SW_OK;
}

static size_t trace_bytes(const swi_trace *t)
{
    return t->cap_nodes * sizeof *t->nodes + t->cap_operands * sizeof *t->operands +
           t->cap_values * sizeof *t->values + t->cap_storages * sizeof *t->storages +
           t->cap_strides * sizeof *t->strides + t->cap_attrs + t->cap_strings +
           t->cap_string_slots * sizeof *t->string_slots + t->cap_metrics * sizeof *t->metrics +
           t->cap_outputs * sizeof *t->outputs;
}

size_t swi_program_host_bytes(const swi_program *p)
{
    size_t bytes = sizeof *p + trace_bytes(&p->trace) + swi_frame_bytes(p) +
                   p->traced.n * sizeof *p->traced.words;
    for (size_t i = 0; i < sizeof p->heap_bytes / sizeof *p->heap_bytes; i++)
        bytes += p->heap_bytes[i];
    return bytes;
}

void swi_breakdown_free(swi_breakdown *x)
{
    sw_heap_free(x->lines, SW_HEAP_PROGRAMS, x->cap * sizeof *x->lines);
    *x = (swi_breakdown){0};
}

void swi_program_free(swi_program *p)
{
    if (p == NULL)
        return;
    sw_heap_free(p->ops, SW_HEAP_PROGRAMS, p->heap_bytes[H_OPS]);
    sw_heap_free(p->binds, SW_HEAP_PROGRAMS, p->heap_bytes[H_BINDS]);
    sw_heap_free(p->births, SW_HEAP_PROGRAMS, p->heap_bytes[H_BIRTHS]);
    sw_heap_free(p->deaths, SW_HEAP_PROGRAMS, p->heap_bytes[H_DEATHS]);
    sw_heap_free(p->layers, SW_HEAP_PROGRAMS, p->heap_bytes[H_LAYERS]);
    sw_heap_free(p->op_phase, SW_HEAP_PROGRAMS, p->heap_bytes[H_PHASES]);
    swi_trace_free(&p->trace);
    swi_trace_free(&p->plain);
    swi_packed_free(&p->traced);
    sw_heap_free(p, SW_HEAP_PROGRAMS, sizeof *p);
}

static sw_status take_clone(swi_program *p, const swi_program *from)
{
    swi_order order;
    SW_TRY(swi_order_take(&order, from->n_ops));
    for (uint32_t i = 0; i < from->n_ops; i++)
        order.nodes[i] = from->ops[i].node;
    const sw_status status = take_arrays(p, order.nodes, from->n_ops);
    swi_order_free(&order);
    SW_TRY(status);
    for (uint32_t i = 0; i < from->n_ops; i++)
        p->ops[i] = from->ops[i];
    return swi_program_templates(p);
}

/* A copy that tests may change; same plan. */
sw_status swi_program_clone(swi_program **out, const swi_program *from)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, sizeof(swi_program)));
    swi_program *p = block;
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
        status = take_clone(p, from);
    if (status != SW_OK) {
        swi_program_free(p);
        return status;
    }
    swi_program_bind(p);
    *out = p;
    return SW_OK;
}
