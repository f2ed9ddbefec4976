/* The extent witness: how many bytes the kernels really use of each storage.
 *
 * Two runs from one state; their memory holds complementary patterns beforehand. A byte that
 * still holds the pattern in both was touched by neither; every other byte was written. Each
 * storage must be written whole, and nothing around it. A run that depends on what lay there
 * before reads bytes that no one wrote. */
#include "runtime/verify/witness_internal.h"

#define COMPLEMENT ((unsigned char)~SWI_PATTERN)

typedef struct {
    swi_witness *w;
    const swi_regions *a;
    swi_regions b;
    uint32_t first; /* op with outputs that differ between the runs */
} session;

static bool untouched(const session *e, size_t at)
{
    return e->a->base[at] == SWI_PATTERN && e->b.base[at] == COMPLEMENT;
}

/* From the guard in front to the guard after: nothing outside the payload is written. */
static void judge_outside(const session *e, const swi_region *r)
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
    session *e = context;
    if (e->first == SWI_NONE && swi_witness_hash(e->w, op) != e->w->hashes[op])
        e->first = op;
    return SW_OK;
}

static sw_status run(session *e)
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
            if (sw_size_round(end) != r->rounded)
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
    session e = {.w = w, .a = &w->reference, .first = SWI_NONE};
    const sw_status status = run(&e);
    swi_regions_free(&e.b);
    return status;
}
