/* The need witness: is everything that lives at the peak needed there?
 *
 * Each storage that the plan has live at its peak is overwritten at that moment, in a run of
 * its own, and what the step computes must change. A storage whose loss changes nothing was
 * live for nothing. A storage that is born and dies at the peak op itself (its workspace) has
 * no such moment; that it is used, and how much of it, is the subject of the access and extent
 * witnesses. */
#include "runtime/verify/witness_internal.h"
#include <string.h>

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
} session;

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

/* One number for all bytes, to see whether the pattern is another one. */
static uint64_t digest(const unsigned char *p, size_t bytes)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}

static void scribble(session *n)
{
    unsigned char *p = n->regions->base + n->region->at;
    const uint64_t was = digest(p, n->region->bytes);
    if (n->dtype == SW_U8 || n->dtype == SW_U16 || n->dtype == SW_I32)
        scribble_indices(p, n->region->bytes, sw_dtype_bytes(n->dtype), n->pattern);
    else
        scribble_numbers(p, n->region->bytes, n->dtype, n->pattern);
    n->changed = digest(p, n->region->bytes) != was;
}

static sw_status before_op(void *context, uint32_t op)
{
    session *n = context;
    if (op == n->op && !n->after)
        scribble(n);
    return SW_OK;
}

static sw_status after_op(void *context, uint32_t op)
{
    session *n = context;
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

static bool matters(session *n)
{
    swi_witness *w = n->w;
    const swi_hooks hooks = {.context = n, .before = before_op, .after = after_op};
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
        session n = {.w = w,
                     .regions = &regions,
                     .region = &regions.regions[regions.of[s]],
                     .op = at,
                     .after = made == at,
                     .dtype = dtype_at(w, s, at)};
        if (!matters(&n) && !is_for_idle(w, idle, s, at + n.after))
            swi_witness_fault(w, peak, s,
                              "lives at the peak, and nothing changes when it is lost there");
    }
    swi_regions_free(&regions);
    sw_heap_free(flags, SWI_WITNESS_HEAP, n_flags * sizeof(bool));
    return status;
}
