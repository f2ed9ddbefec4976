/* The witnesses that compare what runs compute: death, extent, need. */
#include "alloc/base/hash.h"
#include "alloc/base/poison.h"
#include "alloc/base/size.h"
#include "runtime/verify/witness_internal.h"
#include <string.h>

/* The death witness: the program runs in the exec's real arena at the planned offsets, and
 * after each op every byte that the plan calls dead or not yet born becomes NaN, before the
 * backward part all that is not kept for it. An op's results must stay the same bits as where
 * nothing overlays anything. Models and inputs are copies with the caller's layout. */

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
} death_session;

static const swi_storage *storage(const death_session *d, uint32_t i)
{
    return &d->w->program->trace.storages[d->roots[i]];
}

/* ---- before the run ---------------------------------------------------------------------- */

static sw_status sort_roots(death_session *d)
{
    const swi_trace *t = &d->w->program->trace;
    SW_TRY(sw_heap_alloc(&d->roots, SWI_WITNESS_HEAP, t->n_storages * sizeof *d->roots));
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
static bool judge_height(death_session *d)
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

static sw_status copy_segments(death_session *d)
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

static size_t lose(death_session *d, size_t from, size_t to)
{
    memset(d->arena + from, 0xff, to - from);
    return to - from;
}

/* NaN over all that holds nothing after the op; SWI_NONE: before the first. Returns the bytes
 * that were spared. */
static size_t kill_dead(death_session *d, uint32_t op)
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
    while (i < p->n_ops && !swi_node_of(p, i)->is_backward)
        i++;
    return i;
}

static sw_status before_op(void *context, uint32_t op)
{
    death_session *d = context;
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
    death_session *d = context;
    if (d->first == SWI_NONE && swi_witness_hash(d->w, op) != d->w->hashes[op])
        d->first = op;
    const size_t spared = kill_dead(d, op);
    if (op + 1 == d->backward_begin && d->backward_begin < d->w->program->n_ops)
        d->w->info.saved_bytes = spared;
    return SW_OK;
}

/* ---- after the run ----------------------------------------------------------------------- */

static bool same_value(const death_session *d, uint32_t value)
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
static void judge_segments(death_session *d)
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

static sw_status run_overlaid(death_session *d)
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
    SW_TRY(sw_heap_alloc(&d->binds, SWI_WITNESS_HEAP, p->n_binds * sizeof *d->binds));
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
        judge_segments(d);
    }
    return SW_OK;
}

sw_status swi_witness_death(swi_witness *w)
{
    death_session d = {
        .w = w, .first = SWI_NONE, .backward_begin = backward_begin_of(w->program)};
    SW_TRY(swi_witness_reference(w));
    sw_status status = sort_roots(&d);
    if (status == SW_OK && judge_height(&d)) {
        status = run_overlaid(&d);
        sw_arena_reset(w->exec->arena); /* closed again where a sanitizer listens */
    }
    const swi_program *p = w->program;
    sw_heap_free(d.roots, SWI_WITNESS_HEAP, p->trace.n_storages * sizeof *d.roots);
    sw_heap_free(d.binds, SWI_WITNESS_HEAP, p->n_binds * sizeof *d.binds);
    sw_range_release(d.copies, d.bytes);
    return status;
}

/* ---- extent ------------------------------------------------------------------------------ */

/* The extent witness: how many bytes the kernels really use of each storage.
 *
 * Two runs from one state; their memory holds complementary patterns beforehand. A byte that
 * still holds the pattern in both was touched by neither; every other byte was written. Each
 * storage must be written whole, and nothing around it. A run that depends on what lay there
 * before reads bytes that no one wrote. */

#define COMPLEMENT ((unsigned char)~SWI_PATTERN)

typedef struct {
    swi_witness *w;
    const swi_regions *a;
    swi_regions b;
    uint32_t first; /* op with outputs that differ between the runs */
} extent_session;

static bool untouched(const extent_session *e, size_t at)
{
    return e->a->base[at] == SWI_PATTERN && e->b.base[at] == COMPLEMENT;
}

/* From the guard in front to the guard after: nothing outside the payload is written. */
static void judge_outside(const extent_session *e, const swi_region *r)
{
    const size_t page = sw_page_bytes();
    for (size_t at = r->from - page; at < r->at; at++)
        if (!untouched(e, at)) {
            swi_witness_fault(e->w, SWI_NONE, r->storage,
                              "%zu bytes before its beginning are written", r->at - at);
            return;
        }
    for (size_t at = r->at + r->bytes; at < r->to + page; at++)
        if (!untouched(e, at)) {
            swi_witness_fault(e->w, SWI_NONE, r->storage,
                              "byte %zu is written; the plan gives it %zu bytes", at - r->at,
                              r->bytes);
            return;
        }
}

/* Both runs must compute the same, or some kernel has read bytes that no op wrote. */
static sw_status compare_op(void *context, uint32_t op)
{
    extent_session *e = context;
    if (e->first == SWI_NONE && swi_witness_hash(e->w, op) != e->w->hashes[op])
        e->first = op;
    return SW_OK;
}

bool swi_asks_for_more(const swi_trace *t, uint32_t storage)
{
    for (uint32_t i = 0; i < t->n_nodes; i++)
        for (uint32_t k = 0;
             t->nodes[i].scratch == storage && k < t->nodes[i].n_in + t->nodes[i].n_out; k++)
            if (t->values[t->operands[t->nodes[i].first + k]].type.dtype == SW_BF16)
                return true;
    return false;
}

static sw_status run_patterns(extent_session *e)
{
    SW_TRY(swi_regions_create(&e->b, e->w, SWI_REGIONS_HEAD | SWI_REGIONS_APART));
    swi_regions_fill(&e->b, COMPLEMENT);
    const swi_hooks hooks = {.context = e, .after = compare_op};
    SW_TRY(swi_regions_run(e->w, &e->b, &hooks));
    for (uint32_t i = 0; i < e->a->n_regions; i++) {
        const swi_region *r = &e->a->regions[i];
        if (r->kind == SWI_REGION_NONE) {
            if (!untouched(e, r->at))
                swi_witness_fault(e->w, SWI_NONE, SWI_NONE,
                                  "a workspace that was never planned is written");
            continue;
        }
        judge_outside(e, r);
        if (r->kind == SWI_REGION_STEP) {
            /* Values are written whole. Workspaces may have gaps between their parts, but no
             * unused end. */
            const bool scratch =
                e->w->program->trace.storages[r->storage].role == SWI_ROLE_WORKSPACE;
            size_t end = 0, hole = r->bytes;
            for (size_t j = 0; j < r->bytes; j++)
                if (!untouched(e, r->at + j))
                    end = j + 1;
                else if (hole == r->bytes)
                    hole = j;
            if (sw_size_round(end) != r->rounded &&
                !(scratch && swi_asks_for_more(&e->w->program->trace, r->storage)))
                swi_witness_fault(e->w, SWI_NONE, r->storage,
                                  "%zu bytes are used; the plan counts %zu", end, r->rounded);
            else if (!scratch && hole != r->bytes)
                swi_witness_fault(e->w, SWI_NONE, r->storage,
                                  "byte %zu of %zu is never written", hole, r->bytes);
        }
    }
    const uint32_t result = swi_regions_differ(e->w, e->a, &e->b);
    if (e->first != SWI_NONE || result != SWI_NONE)
        swi_witness_fault(e->w, e->first, e->first != SWI_NONE ? SWI_NONE : result,
                          "depends on bytes that were never written");
    return SW_OK;
}

sw_status swi_witness_extent(swi_witness *w)
{
    SW_TRY(swi_witness_reference(w));
    extent_session e = {.w = w, .a = &w->reference, .first = SWI_NONE};
    const sw_status status = run_patterns(&e);
    swi_regions_free(&e.b);
    return status;
}

/* The need witness: is everything that lives at the peak needed there?
 *
 * Each storage that the plan has live at its peak is overwritten at that moment, in a run of
 * its own, and what the step computes must change. A storage whose loss changes nothing was
 * live for nothing. A storage that is born and dies at the peak op itself (its workspace) has
 * no such moment; that it is used, and how much of it, is the subject of the access and extent
 * witnesses. */

#define PATTERNS 5

typedef struct {
    swi_witness *w;
    swi_regions *regions;
    const swi_region *region;
    uint32_t op;
    bool after; /* the op makes it: overwrite after the op */
    int pattern;
    sw_dtype dtype;
    bool changed; /* the pattern differs from what was there */
} need_session;

/* ---- overwriting ------------------------------------------------------------------------- */

/* Indices must stay indices: those that are there in another order, then extremes of them. */
static void scribble_indices(unsigned char *p, size_t bytes, size_t element, int pattern)
{
    const size_t n = bytes / element;
    size_t most = 0;
    switch (pattern) {
    case 0: { /* each one its neighbour's */
        unsigned char first[8];
        memcpy(first, p, element);
        memmove(p, p + element, (n - 1) * element);
        memcpy(p + (n - 1) * element, first, element);
        return;
    }
    case 1:
        memset(p, 0, bytes);
        return;
    case 2:
        for (size_t i = 1; i < n; i++)
            if (p[i * element] > p[most * element])
                most = i;
        for (size_t i = 0; i < n; i++)
            if (i != most)
                memcpy(p + i * element, p + most * element, element);
        return;
    default:
        for (size_t i = 0; i < n; i++)
            p[i * element] ^= 1;
    }
}

/* a comparison does not show NaN, so other numbers follow. */
static void scribble_numbers(unsigned char *p, size_t bytes, sw_dtype dtype, int pattern)
{
    uint64_t state = 0x2545f4914f6cdd1dull + (uint64_t)pattern;
    if (pattern == 0) {
        memset(p, 0xff, bytes);
        return;
    }
    if (dtype == SW_F32 && pattern < 3) {
        const size_t one = sw_dtype_bytes(dtype);
        for (size_t i = 0; i + one <= bytes; i += one) {
            float x;
            memcpy(&x, p + i, sizeof x);
            x = pattern == 1 ? 1000.0f - x : -1000.0f - x;
            memcpy(p + i, &x, sizeof x);
        }
        return;
    }
    for (size_t i = 0; i < bytes; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        p[i] ^= (unsigned char)(state >> 56);
    }
}

static void scribble(need_session *n)
{
    unsigned char *p = n->regions->base + n->region->at;
    const uint64_t was = sw_fnv64(0, p, n->region->bytes);
    if (n->dtype == SW_U8 || n->dtype == SW_U16 || n->dtype == SW_I32)
        scribble_indices(p, n->region->bytes, sw_dtype_bytes(n->dtype), n->pattern);
    else
        scribble_numbers(p, n->region->bytes, n->dtype, n->pattern);
    n->changed = sw_fnv64(0, p, n->region->bytes) != was;
}

static sw_status before_overwrite(void *context, uint32_t op)
{
    need_session *n = context;
    if (op == n->op && !n->after)
        scribble(n);
    return SW_OK;
}

static sw_status after_overwrite(void *context, uint32_t op)
{
    need_session *n = context;
    if (op == n->op && n->after)
        scribble(n);
    return SW_OK;
}

/* ---- which storages, and when ------------------------------------------------------------ */

static uint32_t peak_op(const swi_witness *w)
{
    const swi_trace *t = &w->program->trace;
    size_t peak = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < w->program->n_ops; i++) {
        size_t live = 0;
        for (uint32_t s = 0; s < t->n_storages; s++)
            if (swi_witness_planned(w, s) && t->storages[s].birth <= i &&
                t->storages[s].death >= i)
                live += t->storages[s].rounded;
        if (live > peak) {
            peak = live;
            at = i;
        }
    }
    return at;
}

/* The storage's type at the peak: that of the last value written to it until then. */
static sw_dtype dtype_at(const swi_witness *w, uint32_t root, uint32_t op)
{
    const swi_trace *t = &w->program->trace;
    sw_dtype dtype = SW_F32;
    for (uint32_t i = 0; i <= op && i < w->program->n_ops; i++) {
        const swi_node *node = &t->nodes[w->program->ops[i].node];
        for (uint32_t k = 0; k < node->n_out; k++) {
            const swi_value *v = &t->values[t->operands[node->first + node->n_in + k]];
            if (w->root[v->storage] == root)
                dtype = v->type.dtype;
        }
    }
    return dtype;
}

static bool matters(need_session *n)
{
    swi_witness *w = n->w;
    const swi_hooks hooks = {
        .context = n, .before = before_overwrite, .after = after_overwrite};
    for (n->pattern = 0; n->pattern < PATTERNS; n->pattern++) {
        swi_regions_load(n->regions);
        n->changed = false;
        /* A kernel that refuses what it finds has noticed too. */
        if (swi_regions_run(w, n->regions, &hooks) != SW_OK)
            return true;
        if (n->changed && swi_regions_differ(w, &w->reference, n->regions) != SWI_NONE)
            return true;
    }
    return false;
}

/* The ops whose results go nowhere but to operands that kernels leave unread, as a gradient
 * that comes to windows which miss the image. The reads of these ops change nothing, and that
 * is right. An op with results that nothing lists is not one of them. */
static void find_idle(const swi_witness *w, bool *listed, bool *used, bool *idle)
{
    const swi_trace *t = &w->program->trace;
    for (uint32_t s = 0; s < t->n_storages; s++)
        used[s] = t->storages[s].pinned || t->storages[s].segment != SWI_SEG_STEP;
    for (uint32_t i = w->program->n_ops; i-- > 0;) {
        const swi_node *node = &t->nodes[w->program->ops[i].node];
        const uint32_t unread = swi_unread(t, node);
        bool any = false, needed = false;
        for (uint32_t k = 0; k < node->n_out; k++) {
            const uint32_t s = t->values[t->operands[node->first + node->n_in + k]].storage;
            any |= listed[s];
            needed |= used[s];
        }
        idle[i] = any && !needed;
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t s = t->values[t->operands[node->first + k]].storage;
            listed[s] = true;
            used[s] |= !idle[i] && swi_reads(unread, k);
        }
    }
}

/* Is the storage read from that op on, and by ops of find_idle alone? */
static bool is_for_idle(const swi_witness *w, const bool *idle, uint32_t root, uint32_t from)
{
    const swi_trace *t = &w->program->trace;
    bool any = false;
    for (uint32_t i = from; i < w->program->n_ops; i++) {
        const swi_node *node = &t->nodes[w->program->ops[i].node];
        const uint32_t unread = swi_unread(t, node);
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t of = w->root[t->values[t->operands[node->first + k]].storage];
            if (of != root || !swi_reads(unread, k))
                continue;
            if (!idle[i])
                return false;
            any = true;
        }
    }
    return any;
}

/* Dies where it is born, if that is the peak: nothing lies between. */
static bool lives_at(const swi_witness *w, uint32_t s, uint32_t peak)
{
    const swi_storage *x = &w->program->trace.storages[s];
    return swi_witness_planned(w, s) && x->birth <= peak && x->death >= peak &&
           swi_made_at(w->program, s) < x->death;
}

sw_status swi_witness_need(swi_witness *w)
{
    const swi_trace *t = &w->program->trace;
    const size_t n_flags = 2 * (size_t)t->n_storages + w->program->n_ops;
    swi_regions regions;
    void *flags;
    SW_TRY(swi_witness_reference(w));
    SW_TRY(sw_heap_alloc(&flags, SWI_WITNESS_HEAP, n_flags * sizeof(bool)));
    bool *idle = (bool *)flags + 2 * (size_t)t->n_storages;
    find_idle(w, flags, (bool *)flags + t->n_storages, idle);
    const sw_status status = swi_regions_create(&regions, w, SWI_REGIONS_HEAD);
    const uint32_t peak = peak_op(w);
    if (status == SW_OK)
        swi_regions_fill(&regions, SWI_PATTERN);
    for (uint32_t s = 0; status == SW_OK && s < t->n_storages; s++) {
        if (!lives_at(w, s, peak))
            continue;
        /* Each op is a launch here: what is there at the peak may be made after it. */
        const uint32_t made = swi_made_at(w->program, s), at = made > peak ? made : peak;
        need_session n =
            SW_INIT(.w = w, .regions = &regions, .region = &regions.regions[regions.of[s]],
                    .op = at, .after = made == at, .dtype = dtype_at(w, s, at));
        if (!matters(&n) && !is_for_idle(w, idle, s, at + n.after))
            swi_witness_fault(w, peak, s,
                              "lives at the peak, and nothing changes when it is lost there");
    }
    swi_regions_free(&regions);
    sw_heap_free(flags, SWI_WITNESS_HEAP, n_flags * sizeof(bool));
    return status;
}
