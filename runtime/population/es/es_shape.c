/* From the fitness of a generation: figures, then the shaped fitness u of each evaluation, then
 * the weight of each direction: the sum of s u over its repeats, by 1 / (sigma n) (stepwell.h).
 * Sums go in float64 in the order of the evaluations. */
#include "kernels/noise.h"
#include "runtime/population/es/es_internal.h"
#include <math.h>
#include <string.h>

/* ---- figures
 * --------------------------------------------------------------------------------- */

void swi_es_look(sw_es *es, sw_es_info *info)
{
    const size_t n = swi_es_evaluations(es);
    float low = INFINITY, high = -INFINITY;
    double sum = 0.0, squares = 0.0;
    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->generation = es->mode.generation;
    info->evaluations = n;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(es->fitness[i])) {
            info->not_finite++;
            continue;
        }
        low = fminf(low, es->fitness[i]);
        high = fmaxf(high, es->fitness[i]);
        sum += (double)es->fitness[i];
    }
    const bool any = info->not_finite < n;
    const float worst = !any ? 0.0f : es->maximise ? low : high;
    info->worst = (double)worst;
    info->best = !any ? 0.0 : (double)(es->maximise ? high : low);
    info->mean = any ? sum / (double)(n - info->not_finite) : 0.0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(es->fitness[i])) {
            es->fitness[i] = worst;
            continue;
        }
        const double d = (double)es->fitness[i] - info->mean;
        squares += d * d;
    }
    info->deviation = any ? sqrt(squares / (double)(n - info->not_finite)) : 0.0;
}

/* ---- order
 * ----------------------------------------------------------------------------------- */

/* By fitness, lowest first; equal ones by number, so that there is one order. */
static bool is_before(const float *f, uint32_t a, uint32_t b)
{
    return f[a] < f[b] || (f[a] == f[b] && a < b);
}

static void sift(uint32_t *order, size_t i, size_t n, const float *f)
{
    const uint32_t moved = order[i];
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        child += child + 1 < n && is_before(f, order[child], order[child + 1]);
        if (!is_before(f, moved, order[child]))
            break;
        order[i] = order[child];
        i = child;
    }
    order[i] = moved;
}

/* Heapsort: in place, and never slow. */
static void sort(uint32_t *order, size_t n, const float *f)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n / 2; i-- > 0;)
        sift(order, i, n, f);
    for (size_t last = n; last-- > 1;) {
        const uint32_t top = order[0];
        order[0] = order[last];
        order[last] = top;
        sift(order, 0, last, f);
    }
}

/* ---- shaping
 * --------------------------------------------------------------------------------- */

/* value(i, n) for the evaluation of rank i, 0 the lowest; equal ones have the mean of theirs.
 */
static void by_rank(sw_es *es, double (*value)(const sw_es *es, size_t rank, size_t n))
{
    const size_t n = swi_es_evaluations(es);
    sort(es->order, n, es->fitness);
    for (size_t from = 0, to; from < n; from = to) {
        double sum = 0.0;
        const float f = es->fitness[es->order[from]];
        for (to = from; to < n && es->fitness[es->order[to]] == f; to++)
            sum += value(es, to, n);
        const float mean = (float)(sum / (double)(to - from));
        for (size_t i = from; i < to; i++)
            es->fitness[es->order[i]] = mean;
    }
}

static double centred(const sw_es *es, size_t rank, size_t n)
{
    (void)es;
    return n > 1 ? (double)rank / (double)(n - 1) - 0.5 : 0.0;
}

/* Utilities of Wierstra et al. 2014, the best first, before they are made to add up to 1. */
static double utility(const sw_es *es, size_t rank, size_t n)
{
    const double best_first = (double)(es->maximise ? n - rank : rank + 1);
    return fmax(0.0, log((double)n / 2.0 + 1.0) - log(best_first));
}

static void standardise(sw_es *es)
{
    const size_t n = swi_es_evaluations(es);
    double mean = 0.0, squares = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += (double)es->fitness[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)es->fitness[i] - mean) * ((double)es->fitness[i] - mean);
    const double deviation = sqrt(squares / (double)n);
    for (size_t i = 0; i < n; i++)
        es->fitness[i] =
            deviation > 0.0 ? (float)(((double)es->fitness[i] - mean) / deviation) : 0.0f;
}

/* ---- weights
 * --------------------------------------------------------------------------------- */

static float sign_of(const sw_es *es, uint32_t repeat)
{
    const swi_noise_attrs a = {
        .repeats = es->mode.repeats, .directions = 1, .antithetic = es->mode.antithetic};
    return sw_noise_sign(&a, repeat);
}

/* weights[d] = factor x the sum of s u over the repeats of d; signs false: of u. */
static void fold(const sw_es *es, float *weights, double factor, bool signs)
{
    for (uint32_t d = 0; d < es->mode.directions; d++) {
        double sum = 0.0;
        for (uint32_t r = 0; r < es->mode.repeats; r++)
            sum += (double)es->fitness[(size_t)r * es->mode.directions + d] *
                   (signs ? (double)sign_of(es, r) : 1.0);
        weights[d] = (float)(sum * factor);
    }
}

/* The best evaluation of each direction, to be ranked. */
static float best_of(const sw_es *es, uint32_t d)
{
    float best = es->fitness[d];
    for (uint32_t r = 1; r < es->mode.repeats; r++) {
        const float f = es->fitness[(size_t)r * es->mode.directions + d];
        best = es->maximise ? fmaxf(best, f) : fminf(best, f);
    }
    return best;
}

/* The deviation of the fitness of the directions in order[from..to-1]. */
static double deviation_of(const sw_es *es, size_t from, size_t to)
{
    const double n = (double)(to - from) * (double)es->mode.repeats;
    double mean = 0.0, squares = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = from; i < to; i++)
            for (uint32_t r = 0; r < es->mode.repeats; r++) {
                const double f =
                    (double)es->fitness[(size_t)r * es->mode.directions + es->order[i]];
                if (pass == 0)
                    mean += f / n;
                else
                    squares += (f - mean) * (f - mean);
            }
    return sqrt(squares / n);
}

/* Augmented random search (Mania et al. 2018): the best directions, by their deviation. */
static void weigh_ars(sw_es *es, double sigma)
{
    const uint32_t n = es->mode.directions;
    for (uint32_t d = 0; d < n; d++)
        es->weights[d] = best_of(es, d);
    sort(es->order, n, es->weights);
    const size_t from = es->maximise ? n - es->top : 0, to = from + es->top;
    const double deviation = deviation_of(es, from, to);
    const double factor = (es->maximise ? -1.0 : 1.0) /
                          (sigma * deviation * (double)es->top * (double)es->mode.repeats);
    fold(es, es->weights, deviation > 0.0 ? factor : 0.0, true);
    for (size_t i = 0; i < n; i++)
        if (i < from || i >= to)
            es->weights[es->order[i]] = 0.0f;
}

/* Separable natural evolution strategies (Schaul et al. 2011): utilities add up to 1, less
 * their mean. The step of the mean is sigma times the sum of u s E, against the gradient's
 * sign. */
static void shape_utilities(sw_es *es)
{
    const size_t n = swi_es_evaluations(es);
    double sum = 0.0;
    by_rank(es, utility);
    for (size_t i = 0; i < n; i++)
        sum += (double)es->fitness[i];
    for (size_t i = 0; i < n; i++)
        es->fitness[i] = (float)((double)es->fitness[i] / sum - 1.0 / (double)n);
}

static void weigh_snes(sw_es *es, double sigma)
{
    fold(es, es->weights, -sigma, true);
    fold(es, (float *)(void *)es->order, 1.0, false);
}

sw_status swi_es_weigh(sw_es *es, float sigma)
{
    const size_t n = swi_es_evaluations(es);
    if (es->shape == NULL && es->shaping == SWI_SHAPE_ARS) {
        weigh_ars(es, (double)sigma);
        return SW_OK;
    }
    if (es->shape != NULL)
        SW_TRY(es->shape(es->fitness, n, es->shape_user));
    else if (es->shaping == SWI_SHAPE_RANKS)
        by_rank(es, centred);
    else if (es->shaping == SWI_SHAPE_STANDARDISED)
        standardise(es);
    else if (es->shaping == SWI_SHAPE_SNES)
        shape_utilities(es);
    if (es->shaping == SWI_SHAPE_SNES)
        weigh_snes(es, (double)sigma);
    else
        fold(es, es->weights, (es->maximise ? -1.0 : 1.0) / ((double)sigma * (double)n), true);
    return SW_OK;
}
