/* A bisection over a bound that grows, then one batch after the other. */
#include "tools/plan/plan_search.h"
#include <stdbool.h>

/* An end of the interval that is bisected. */
typedef struct {
    int64_t batch;
    plan_bound bound;
} end;

static sw_status look(const plan_search *s, plan_found *found, int64_t batch, end *out)
{
    found->n_bounds++;
    out->batch = batch;
    return s->bound(s->context, batch, &out->bound);
}

/* Whether b, of the larger batch, is a bound for all from a's batch to its own. */
static bool grows(const end *a, const end *b)
{
    return a->bound.structure == b->bound.structure && a->bound.bytes <= b->bound.bytes;
}

static void exclude(plan_found *found, const end *from)
{
    found->excluded_from = from->batch;
    found->excluded_bytes = from->bound.bytes;
}

/* The smallest batch of those that end with `high` whose program has its structure: what is
 * chosen by size (a kernel, what is looked at) changes at some batches, and stays so above
 * them. */
static sw_status find_first(const plan_search *s, plan_found *found, const end *high, end *out)
{
    end low, middle;
    *out = *high;
    SW_TRY(look(s, found, s->grows_from, &low));
    if (grows(&low, high)) {
        *out = low;
        return SW_OK;
    }
    while (out->batch - low.batch > 1) {
        SW_TRY(look(s, found, low.batch + (out->batch - low.batch) / 2, &middle));
        if (grows(&middle, out))
            *out = middle;
        else
            low = middle;
    }
    return SW_OK;
}

/* The first batch whose bound is above the size, where low's is not and high's is. */
static sw_status bisect(const plan_search *s, plan_found *found, end low, end high)
{
    end middle;
    while (high.batch - low.batch > 1) {
        SW_TRY(look(s, found, low.batch + (high.batch - low.batch) / 2, &middle));
        if (!grows(&low, &middle) || !grows(&middle, &high))
            return SW_OK;
        if (middle.bound.bytes > s->fit_bytes)
            high = middle;
        else
            low = middle;
    }
    exclude(found, &high);
    return SW_OK;
}

/* From the largest batches down, structure by structure, until some bound is within the
 * size. */
static sw_status exclude_all(const plan_search *s, plan_found *found)
{
    end low, high = {.batch = s->most + 1};
    while (high.batch > s->grows_from) {
        SW_TRY(look(s, found, high.batch - 1, &high));
        if (high.bound.bytes <= s->fit_bytes)
            return SW_OK;
        SW_TRY(find_first(s, found, &high, &low));
        if (low.bound.bytes <= s->fit_bytes)
            return bisect(s, found, low, high);
        exclude(found, &low);
        high = low;
    }
    return SW_OK;
}

sw_status plan_search_run(const plan_search *s, plan_found *out)
{
    plan_found found = {.excluded_from = s->most + 1};
    SW_TRY(exclude_all(s, &found));
    for (int64_t b = found.excluded_from - 1; b > 0 && found.batch == 0; b--) {
        size_t total;
        SW_TRY(s->total(s->context, b, &total));
        found.n_tried++;
        if (total <= s->fit_bytes) {
            found.batch = b;
            found.total_bytes = total;
        }
    }
    *out = found;
    return SW_OK;
}
