/* Draws of ids: temperature, then top-k, then top-p, as transformers has them; Philox by seed
 * and number. */
#include "alloc/base/mem.h"
#include "kernels/rng.h"
#include "tools/train/sample.h"
#include <math.h>

sw_status sample_draws_open(sample_draws *d, int64_t ids)
{
    d->ids = ids;
    SW_TRY(sw_heap_alloc(&d->share, SW_HEAP_RECORDS, (size_t)ids * sizeof *d->share));
    return sw_heap_alloc(&d->best, SW_HEAP_RECORDS, (size_t)ids * sizeof *d->best);
}

void sample_draws_close(sample_draws *d)
{
    sw_heap_free(d->share, SW_HEAP_RECORDS, (size_t)d->ids * sizeof *d->share);
    sw_heap_free(d->best, SW_HEAP_RECORDS, (size_t)d->ids * sizeof *d->best);
}

/* Of a higher score, or the same and a smaller number. */
static bool above(const float *scores, int32_t i, int32_t j)
{
    return scores[i] > scores[j] || (scores[i] == scores[j] && i < j);
}

/* Put i at the top of the heap, and let it sink. */
static void sink(sample_draws *d, const float *scores, int32_t i)
{
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < d->n_best; at = child) {
        if (child + 1 < d->n_best && above(scores, d->best[child], d->best[child + 1]))
            child++;
        if (!above(scores, i, d->best[child]))
            break;
        d->best[at] = d->best[child];
    }
    d->best[at] = i;
}

/* Add i at the end of the heap, and let it rise. */
static void rise(sample_draws *d, const float *scores, int32_t i)
{
    int64_t at = d->n_best++;
    for (; at > 0 && above(scores, d->best[(at - 1) / 2], i); at = (at - 1) / 2)
        d->best[at] = d->best[(at - 1) / 2];
    d->best[at] = i;
}

/* Shares 0 of the least likely ones of the heap that together have at most 1 - top_p of all;
 * the best one stays. Returns the total of those that are left. */
static double cut(sample_draws *d, const float *scores, double top_p, double total)
{
    double gone = 0.0;
    while (d->n_best > 1 && gone + d->share[d->best[0]] <= (1.0 - top_p) * total) {
        const int32_t last = d->best[--d->n_best];
        gone += d->share[d->best[0]];
        d->share[d->best[0]] = 0.0;
        sink(d, scores, last);
    }
    return total - gone;
}

int sample_draw(sample_draws *d, const sample_opts *o, const float *scores, int64_t number)
{
    const bool orders = o->top_p < 1.0 || o->top_k > 0;
    const int64_t k = o->top_k > 0 && o->top_k < d->ids ? o->top_k : d->ids;
    double total = 0.0;
    float u;
    int best = 0;
    for (int i = 1; i < d->ids; i++)
        best = scores[i] > scores[best] ? i : best;
    if (o->temperature == 0.0)
        return scores[best] == scores[best] ? best : -1;
    /* Shares 1 of those that may be drawn, and 0 of the others. */
    d->n_best = 0;
    for (int32_t j = 0; j < d->ids; j++) {
        d->share[j] = orders ? 0.0 : 1.0;
        if (orders && d->n_best < k)
            rise(d, scores, j);
        else if (orders && above(scores, j, d->best[0]))
            sink(d, scores, j);
    }
    for (int64_t j = 0; j < d->n_best; j++)
        d->share[d->best[j]] = 1.0;
    for (int i = 0; i < d->ids; i++) {
        const double less = ((double)scores[i] - (double)scores[best]) / o->temperature;
        d->share[i] = d->share[i] > 0.0 ? exp(less) : 0.0;
        total += d->share[i];
    }
    if (!(total > 0.0 && total < (double)INFINITY))
        return -1;
    if (o->top_p < 1.0)
        total = cut(d, scores, o->top_p, total);
    sw_rng_uniform(&u, number, 1, (uint64_t)o->seed, sw_rng_stream("sample"), 0, 0);
    double left = (double)u * total;
    int last = best;
    for (int i = 0; i < d->ids; i++) {
        if (d->share[i] == 0.0)
            continue;
        last = i;
        if (left < d->share[i])
            break;
        left -= d->share[i];
    }
    return last;
}
