/* Immediate runs in the profile: what they did is recorded as a plan is, once for each way in
 * which they went. */
#include "runtime/exec/run_internal.h"
#include "runtime/observe/observe.h"
#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

/* Of all that the record says. */
static uint64_t hash_of(const swi_trace *t)
{
    uint64_t hash = swi_trace_hash(t);
    for (uint32_t i = 0; i < t->n_nodes; i++)
        hash = mix(hash, (uint64_t)t->nodes[i].layer << 8 | (uint64_t)t->nodes[i].phase);
    for (uint32_t i = 0; i < t->n_storages; i++) {
        const swi_storage *s = &t->storages[i];
        hash = mix(hash, s->bytes);
        hash = mix(hash, s->offset);
        hash = mix(hash, (uint64_t)s->birth << 32 | s->layer);
        hash = mix(hash, (uint64_t)s->name << 32 | s->segment << 8 | (uint64_t)s->role);
    }
    for (uint32_t i = 0; i < t->n_strings; i++)
        hash = mix(hash, (unsigned char)t->strings[i]);
    return hash;
}

/* The run as a program with storages that all live to its end; its lists lie at `block`. */
static void as_program(swi_program *p, swi_trace *t, uint32_t n_ops, void *block)
{
    *p = (swi_program){.trace = *t, .n_ops = n_ops};
    p->ops = block;
    p->layers = (uint32_t *)(void *)(p->ops + n_ops);
    p->op_layer = p->layers + n_ops;
    p->op_phase = (char *)(p->op_layer + n_ops);
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->n_nodes && at < n_ops; i++)
        if (!t->nodes[i].is_view)
            p->ops[at++].node = i;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (t->storages[s].birth != SWI_NONE)
            t->storages[s].death = n_ops;
    swi_program_layers(p);
}

static sw_status write_trace(sw_exec *exec, const sw_run_args *args, bool *there)
{
    swi_trace *t = &exec->immediate_trace;
    const uint32_t n = exec->ctx.done_ops;
    const size_t bytes = n * (sizeof(swi_run_op) + 2 * sizeof(uint32_t) + 1) + 1;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    swi_program seen;
    as_program(&seen, t, n, block);
    size_t slot = 0;
    for (int i = 0; i < args->n_inputs; i++)
        slot += t->storages[i].rounded;
    const sw_prof_plan head = {.exec = exec->rec.number,
                               .program = exec->rec.n_traces,
                               .trace = true,
                               .run = swi_run_name(args),
                               .batch = swi_run_batch(args),
                               .model_bytes = exec->info.model_bytes,
                               .arena_bytes = exec->info.arena_bytes,
                               .data_bytes = args->data_bytes != 0 ? args->data_bytes : slot,
                               .slot_bytes = slot,
                               .n_ops = n};
    *there = swi_profile_program(exec->rec.profile, &head, &seen, args);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return SW_OK;
}

uint32_t swi_profile_trace(sw_exec *exec, const sw_run_args *args)
{
    swi_recorder *r = &exec->rec;
    const uint64_t hash = mix(hash_of(&exec->immediate_trace), args->mode);
    for (uint32_t i = 0; i < r->n_traces; i++)
        if (r->traces[i] == hash)
            return i;
    bool there = false;
    if (r->n_traces == SWI_MAX_TRACES || write_trace(exec, args, &there) != SW_OK || !there)
        return SW_PROF_NONE;
    r->traces[r->n_traces] = hash;
    return r->n_traces++;
}
