/* The death witness: the program runs in the exec's real arena at the planned offsets, and
 * after each op every byte that the plan calls dead or not yet born becomes NaN, before the
 * backward part all that is not kept for it. An op's results must stay the same bits as where
 * nothing overlays anything. Models and inputs are copies with the caller's layout. */
#include "alloc/base/poison.h"
#include "alloc/base/size.h"
#include "runtime/verify/witness_internal.h"
#include <string.h>

#define NO_SCRATCH_BYTES ((size_t)1 << 20) /* stands where the plan has no workspace */

typedef struct {
    swi_witness *w;
    unsigned char *arena;
    unsigned char
        *copies; /* a range: each segment's bytes, then a workspace that belongs to no op */
    size_t bytes;
    size_t at[SWI_SEG_COUNT]; /* of each segment in it */
    size_t no_scratch;
    uint32_t *roots; /* planned storages by offset */
    uint32_t n_roots;
    swi_bind *binds;
    uint32_t first;          /* op that first computed something else */
    uint32_t backward_begin; /* the first op of the backward part; n_ops without one */
    bool overlap;
} session;

static const swi_storage *storage(const session *d, uint32_t i)
{
    return &d->w->program->trace.storages[d->roots[i]];
}

/* ---- before the run ---------------------------------------------------------------------- */

static sw_status sort_roots(session *d)
{
    const swi_trace *t = &d->w->program->trace;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, t->n_storages * sizeof *d->roots));
    d->roots = block;
    for (uint32_t s = 0; s < t->n_storages; s++) {
        if (!swi_witness_planned(d->w, s))
            continue;
        uint32_t i = d->n_roots++;
        for (; i > 0 && t->storages[d->roots[i - 1]].offset > t->storages[s].offset; i--)
            d->roots[i] = d->roots[i - 1];
        d->roots[i] = s;
    }
    return SW_OK;
}

/* The planned height holds every storage, and no more than that. */
static bool judge_height(session *d)
{
    const size_t height = d->w->program->info.arena_bytes;
    size_t highest = 0;
    for (uint32_t i = 0; i < d->n_roots; i++) {
        const swi_storage *x = storage(d, i);
        const size_t end = x->offset + (x->rounded > x->bytes ? x->rounded : x->bytes);
        if (end > height) {
            swi_witness_fault(d->w, x->birth, d->roots[i],
                              "ends at byte %zu of an arena of %zu bytes", end, height);
            return false;
        }
        if (x->offset % SW_ALIGN != 0)
            swi_witness_fault(d->w, x->birth, d->roots[i], "offset %zu is not aligned to %d",
                              x->offset, SW_ALIGN);
        highest = end > highest ? end : highest;
    }
    if (sw_size_round(highest) != height)
        swi_witness_fault(d->w, SWI_NONE, SWI_NONE,
                          "the arena is planned with %zu bytes; its storages end at %zu",
                          height, highest);
    return true;
}

static size_t segment_bytes(const swi_witness *w, uint32_t segment, const void **from)
{
    const sw_run_args *a = w->args;
    *from = NULL;
    if (segment >= SWI_SEG_MODEL && (int)(segment - SWI_SEG_MODEL) < a->n_models) {
        *from = a->models[segment - SWI_SEG_MODEL]->base;
        return a->models[segment - SWI_SEG_MODEL]->bytes;
    }
    if (segment >= SWI_SEG_INPUT && (int)(segment - SWI_SEG_INPUT) < a->n_inputs) {
        const sw_array *in = &a->inputs[segment - SWI_SEG_INPUT];
        const sw_type type = {in->dtype, SW_PLAIN, in->shape};
        *from = in->data;
        return sw_type_bytes(&type);
    }
    return 0;
}

static sw_status copy_segments(session *d)
{
    const void *from;
    const size_t page = sw_page_bytes();
    for (uint32_t s = SWI_SEG_INPUT; s < SWI_SEG_COUNT; s++) {
        size_t bytes;
        d->at[s] = d->bytes;
        if (!sw_size_align(segment_bytes(d->w, s, &from), page, &bytes) ||
            !sw_size_add(d->bytes, bytes, &d->bytes))
            SW_FAIL(SW_NOMEM, "witness: the copies of models and inputs overflow");
    }
    d->no_scratch = d->bytes;
    void *base;
    SW_TRY(sw_range_reserve(&base, d->bytes + NO_SCRATCH_BYTES));
    d->copies = base;
    d->bytes += NO_SCRATCH_BYTES;
    SW_TRY(sw_range_commit(d->copies, 0, d->bytes));
    for (uint32_t s = SWI_SEG_INPUT; s < SWI_SEG_COUNT; s++) {
        const size_t bytes = segment_bytes(d->w, s, &from);
        if (from != NULL && bytes > 0)
            memcpy(d->copies + d->at[s], from, bytes);
    }
    return SW_OK;
}

/* ---- around each op ---------------------------------------------------------------------- */

static size_t lose(session *d, size_t from, size_t to)
{
    memset(d->arena + from, 0xff, to - from);
    return to - from;
}

/* NaN over all that holds nothing after the op; SWI_NONE: before the first. Returns the bytes
 * that were spared. */
static size_t kill_dead(session *d, uint32_t op)
{
    const size_t height = d->w->program->info.arena_bytes;
    size_t cursor = 0, lost = 0;
    for (uint32_t i = 0; i < d->n_roots && op != SWI_NONE; i++) {
        const swi_storage *x = storage(d, i);
        if (x->birth > op || x->death <= op)
            continue;
        if (x->offset > cursor)
            lost += lose(d, cursor, x->offset);
        if (x->offset + x->bytes > cursor)
            cursor = x->offset + x->bytes;
    }
    if (cursor < height)
        lost += lose(d, cursor, height);
    return height - lost;
}

static uint32_t backward_begin_of(const swi_program *p)
{
    uint32_t i = 0;
    while (i < p->n_ops && !p->trace.nodes[p->ops[i].node].is_backward)
        i++;
    return i;
}

static sw_status before_op(void *context, uint32_t op)
{
    session *d = context;
    if (op == 0)
        (void)kill_dead(d, SWI_NONE);
    /* No two storages that live during the op share bytes. */
    size_t end = 0;
    uint32_t last = SWI_NONE;
    for (uint32_t i = 0; i < d->n_roots && !d->overlap; i++) {
        const swi_storage *x = storage(d, i);
        if (x->birth > op || x->death < op)
            continue;
        if (x->offset < end) {
            char name[96];
            d->overlap = true;
            swi_witness_fault(d->w, op, d->roots[i], "lies over %s, and both are live",
                              swi_storage_name(&d->w->program->trace, last, name, sizeof name));
        }
        if (x->offset + x->rounded > end) {
            end = x->offset + x->rounded;
            last = d->roots[i];
        }
    }
    return SW_OK;
}

static sw_status after_op(void *context, uint32_t op)
{
    session *d = context;
    if (d->first == SWI_NONE && swi_witness_hash(d->w, op) != d->w->hashes[op])
        d->first = op;
    const size_t spared = kill_dead(d, op);
    if (op + 1 == d->backward_begin && d->backward_begin < d->w->program->n_ops)
        d->w->info.saved_bytes = spared;
    return SW_OK;
}

/* ---- after the run ----------------------------------------------------------------------- */

static bool same_value(const session *d, uint32_t value)
{
    const swi_trace *t = &d->w->program->trace;
    const swi_value *v = &t->values[value];
    const swi_regions *r = &d->w->reference;
    const uint32_t region = r->of[v->storage];
    return region == SWI_NONE ||
           memcmp(d->arena + t->storages[v->storage].offset + v->offset,
                  r->base + r->regions[region].at + v->offset, sw_type_bytes(&v->type)) == 0;
}

/* Entries as in the reference run, everything else as it was. */
static void judge_segments(session *d)
{
    const swi_regions *r = &d->w->reference;
    const void *from;
    for (uint32_t i = 0; i < r->n_regions; i++) {
        const swi_region *region = &r->regions[i];
        if (region->kind != SWI_REGION_MODEL && region->kind != SWI_REGION_INPUT)
            continue;
        const swi_storage *x = &d->w->program->trace.storages[region->storage];
        unsigned char *is = d->copies + d->at[x->segment] + x->offset;
        if (memcmp(is, r->base + region->at, region->bytes) != 0)
            swi_witness_fault(d->w, SWI_NONE, region->storage,
                              "differs when dead bytes are lost");
        if (region->bytes > 0)
            memcpy(is, region->origin, region->bytes);
    }
    for (uint32_t s = SWI_SEG_INPUT; s < SWI_SEG_COUNT; s++) {
        const size_t bytes = segment_bytes(d->w, s, &from);
        if (bytes > 0 && memcmp(d->copies + d->at[s], from, bytes) != 0)
            swi_witness_fault(d->w, SWI_NONE, SWI_NONE,
                              "%s %u is written outside of what its ops list",
                              s >= SWI_SEG_MODEL ? "model" : "input",
                              s >= SWI_SEG_MODEL ? s - SWI_SEG_MODEL : s - SWI_SEG_INPUT);
    }
}

static sw_status run(session *d)
{
    swi_witness *w = d->w;
    unsigned char *base[SWI_SEG_COUNT + 1] = {0};
    SW_TRY(sw_arena_grow(w->exec->arena, w->program->info.arena_bytes, true));
    /* The outputs of the last run are lost with this one. */
    sw_arena_reset(w->exec->arena);
    w->exec->reset_pending = false;
    d->arena = sw_arena_base(w->exec->arena);
    sw_unpoison(d->arena, w->program->info.arena_bytes);
    SW_TRY(copy_segments(d));
    /* The planned bindings; an op without a planned workspace gets one that belongs to no op,
     * through a segment that the run does not use. */
    const swi_program *p = d->w->program;
    const sw_run_args *a = d->w->args;
    base[SWI_SEG_STEP] = d->arena;
    for (uint32_t s = SWI_SEG_INPUT; s < SWI_SEG_COUNT; s++)
        base[s] = d->copies + d->at[s];
    uint32_t unused = SWI_SEG_COUNT;
    if (a->n_models < SWI_MAX_MODELS)
        unused = SWI_SEG_MODEL + (uint32_t)a->n_models;
    else if (a->n_inputs < SWI_MAX_INPUTS)
        unused = SWI_SEG_INPUT + (uint32_t)a->n_inputs;
    if (unused != SWI_SEG_COUNT)
        base[unused] = d->copies + d->no_scratch;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, p->n_binds * sizeof *d->binds));
    d->binds = block;
    memcpy(d->binds, p->binds, p->n_binds * sizeof *d->binds);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        swi_bind *scratch = &d->binds[p->ops[i].first + i + p->ops[i].n_buffers];
        if (scratch->segment == SWI_SEG_COUNT)
            *scratch = (swi_bind){unused, 0};
    }

    const swi_hooks hooks = {.context = d, .before = before_op, .after = after_op};
    const sw_status status =
        swi_program_execute(w->exec, w->frame, w->args, base, d->binds, &hooks, NULL);
    if (d->first != SWI_NONE) {
        /* Name the operand that was dead or not alone, if one was. */
        const swi_trace *t = &d->w->program->trace;
        const swi_node *node = &t->nodes[d->w->program->ops[d->first].node];
        uint32_t dead = SWI_NONE;
        for (uint32_t k = 0; k < node->n_in && dead == SWI_NONE; k++) {
            const uint32_t root = d->w->root[t->values[t->operands[node->first + k]].storage];
            const swi_storage *x = &t->storages[root];
            if (x->segment == SWI_SEG_STEP && (x->death < d->first || x->birth > d->first))
                dead = root;
        }
        swi_witness_fault(d->w, d->first, dead,
                          "the result changes when dead bytes are lost at the planned places");
    }
    if (status != SW_OK)
        swi_witness_fault(w, SWI_NONE, SWI_NONE, "fails when dead bytes are lost: %s",
                          sw_last_error());
    else {
        {
            const swi_trace *t = &d->w->program->trace;
            for (uint32_t i = 0; i < t->n_metrics; i++)
                if (!same_value(d, t->metrics[i].value))
                    swi_witness_fault(d->w, SWI_NONE, t->values[t->metrics[i].value].storage,
                                      "metric '%s' differs when dead bytes are lost",
                                      t->metrics[i].name);
            for (uint32_t i = 0; i < t->n_outputs; i++)
                if (!same_value(d, t->outputs[i].value))
                    swi_witness_fault(d->w, SWI_NONE, t->values[t->outputs[i].value].storage,
                                      "output '%s' differs when dead bytes are lost",
                                      t->outputs[i].name);
        }
        judge_segments(d);
    }
    return SW_OK;
}

sw_status swi_witness_death(swi_witness *w)
{
    session d = {.w = w, .first = SWI_NONE, .backward_begin = backward_begin_of(w->program)};
    SW_TRY(swi_witness_reference(w));
    sw_status status = sort_roots(&d);
    if (status == SW_OK && judge_height(&d)) {
        status = run(&d);
        sw_arena_reset(w->exec->arena); /* closed again where a sanitizer listens */
    }
    const swi_program *p = w->program;
    sw_heap_free(d.roots, SWI_WITNESS_HEAP, p->trace.n_storages * sizeof *d.roots);
    sw_heap_free(d.binds, SWI_WITNESS_HEAP, p->n_binds * sizeof *d.binds);
    sw_range_release(d.copies, d.bytes);
    return status;
}
