/* The largest growth that fits: all sizes by one share, found by bisection. */
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <stdio.h>

#define STEPS 10 /* of bisection: a 1024th of the range */

typedef struct {
    sw_genome *best; /* the largest that fits; NULL: none */
    uint64_t best_hash, least_refused;
    double share;
    bool exact;
} growth;

static sw_status wish_all(swi_child *c, double share, uint32_t *n)
{
    const sw_genome *g = c->before;
    void *block = c->wishes;
    *n = 0;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &c->wishes_cap, g->n, sizeof *c->wishes));
    c->wishes = block;
    for (uint32_t v = 0; v < g->n; v++) {
        const int64_t size = g->vertices[v].size;
        const int64_t to = swi_can_size(g, v) ? swi_size_by(c, size, share) : size;
        if (to != size)
            c->wishes[(*n)++] = (swi_wish){.vertex = v, .size = to};
    }
    return SW_OK;
}

/* c->genome as `before`, grown. SW_UNSUPPORTED: it cannot, or nothing grew. */
static sw_status grow_by(swi_child *c, double share, bool *exact)
{
    uint32_t n;
    swi_align_info info = {0};
    SW_TRY(wish_all(c, share, &n));
    if (n == 0)
        SW_FAIL(SW_UNSUPPORTED, "no size grows by a share of %g", share);
    swi_genome_free(c->genome);
    c->genome = NULL;
    SW_TRY(sw_genome_copy(&c->genome, c->before));
    SW_TRY(swi_child_align(c, c->wishes, n, NULL, 0, &info));
    if (info.added == 0)
        SW_FAIL(SW_UNSUPPORTED, "no size grows by a share of %g", share);
    *exact = info.dropped == 0 && swi_growth_is_exact(c->genome, c->before);
    return swi_genome_check(c->genome, NULL);
}

/* Does it fit when it is grown by that? The same is not asked twice. */
static sw_status try_share(swi_child *c, growth *best, double share, bool *fits)
{
    bool exact = false;
    const sw_status status = grow_by(c, share, &exact);
    *fits = false;
    if (status == SW_UNSUPPORTED || status == SW_INVALID)
        return SW_OK;
    SW_TRY(status);
    const uint64_t hash = swi_genome_hash(c->genome);
    *fits = best->best != NULL && hash == best->best_hash;
    if (*fits || hash == best->least_refused)
        return SW_OK;
    SW_TRY(swi_child_fits(c, c->genome, fits));
    if (!*fits) {
        best->least_refused = hash;
        return SW_OK;
    }
    swi_genome_free(best->best);
    best->best = c->genome;
    c->genome = NULL;
    best->best_hash = hash;
    best->share = share;
    best->exact = exact;
    return SW_OK;
}

static sw_status bisect(swi_child *c, growth *best, double low, double high)
{
    bool fits;
    SW_TRY(try_share(c, best, high, &fits));
    if (fits)
        return SW_OK;
    for (int i = 0; i < STEPS; i++) {
        const double middle = low + (high - low) / 2;
        SW_TRY(try_share(c, best, middle, &fits));
        *(fits ? &low : &high) = middle;
    }
    return SW_OK;
}

sw_status swi_grow(swi_child *c, const sw_mutation *m, uint32_t vertex, swi_change_note *note)
{
    growth best = {0};
    double low, high;
    (void)vertex;
    swi_mutation_range(m, &low, &high);
    sw_status status = bisect(c, &best, low, high);
    if (status == SW_OK && best.best == NULL && low > 0) {
        bool fits;
        status = try_share(c, &best, low, &fits);
    }
    if (status == SW_OK && best.best == NULL)
        status = sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__, "no growth fits");
    if (best.best != NULL) {
        swi_genome_free(c->genome);
        c->genome = best.best;
        c->asked = true;
    }
    note->exact = best.exact;
    if (status == SW_OK)
        snprintf(note->text, sizeof note->text, "all sizes by %.1f %%: %llu to %llu parameters",
                 100 * best.share, (unsigned long long)swi_genome_parameters(c->before),
                 (unsigned long long)swi_genome_parameters(c->genome));
    return status;
}
