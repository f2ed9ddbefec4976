#include "tests/support/seen_breakdown.h"

void sw_see_share(void *to, const sw_share *share)
{
    sw_seen_breakdown *all = to;
    CU_ASSERT_EQUAL(share->size, sizeof *share);
    if (!SW_CHECK(all->n < SW_SEEN_LINES, "more than %d shares", SW_SEEN_LINES))
        return;
    sw_seen_share *x = &all->at[all->n++];
    *x = (sw_seen_share){
        .kind = share->kind, .at_peak = share->at_peak_bytes, .peak = share->peak_bytes};
    snprintf(x->name, sizeof x->name, "%s", share->name);
}

sw_seen_share sw_share_named(const sw_seen_breakdown *of, sw_share_kind kind, const char *name)
{
    for (uint32_t i = 0; i < of->n; i++)
        if (of->at[i].kind == kind && strcmp(of->at[i].name, name) == 0)
            return of->at[i];
    return (sw_seen_share){.kind = kind};
}

size_t sw_share_sum(const sw_seen_breakdown *of, sw_share_kind kind)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < of->n; i++)
        sum += of->at[i].kind == kind ? of->at[i].at_peak : 0;
    return sum;
}

bool sw_same_breakdown(const sw_seen_breakdown *a, const sw_seen_breakdown *b, char *why,
                       size_t bytes)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const sw_seen_share *x = &a->at[i], y = sw_share_named(b, x->kind, x->name);
        if (x->at_peak != y.at_peak || x->peak != y.peak) {
            snprintf(why, bytes, "%s '%s': %zu and %zu bytes against %zu and %zu",
                     x->kind == SW_SHARE_ROLE ? "role" : "layer", x->name, x->at_peak, x->peak,
                     y.at_peak, y.peak);
            return false;
        }
    }
    snprintf(why, bytes, "%u shares against %u", a->n, b->n);
    return a->n == b->n;
}
