/* Learning rate, optimizer and batch. The net computes what it did. */
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rate -------------------------------------------------------------------------------- */

sw_status swi_change_rate(swi_child *c, const sw_mutation *m, uint32_t v, swi_change_note *note)
{
    double low, high;
    const float had = c->genome->lr;
    (void)v;
    swi_mutation_range(m, &low, &high);
    const double lr = (double)had * (1 + swi_draw_range(&c->draws, low, high));
    c->genome->lr = (float)fmin(fmax(lr, 1e-6), 1);
    if (c->genome->lr == had)
        SW_FAIL(SW_UNSUPPORTED, "the learning rate stays %g", (double)had);
    snprintf(note->text, sizeof note->text, "learning rate %.6g to %.6g", (double)had,
             (double)c->genome->lr);
    note->exact = true;
    return SW_OK;
}

/* ---- optimizer --------------------------------------------------------------------------- */

static bool has_momentum(const char *optimizer)
{
    return strcmp(optimizer, "sgd") == 0 || strcmp(optimizer, "rmsprop") == 0;
}

/* The rate stays, and the momentum where the kind has one. */
sw_status swi_change_optimizer(swi_child *c, const sw_mutation *m, uint32_t v,
                               swi_change_note *note)
{
    const sw_search_space *space;
    sw_genome *g = c->genome;
    (void)m;
    (void)v;
    SW_TRY(swi_child_space(c, &space));
    const swi_space_training *t = swi_space_training_of(space);
    uint32_t n = 0;
    for (int i = 0; i < t->n_optimizers; i++)
        n += strcmp(t->optimizers[i], g->optimizer) != 0;
    if (n == 0)
        SW_FAIL(SW_UNSUPPORTED, "the space has no other optimizer than %s", g->optimizer);
    uint32_t which = swi_draw_below(&c->draws, n);
    int i = 0;
    while (strcmp(t->optimizers[i], g->optimizer) == 0 || which-- > 0)
        i++;
    snprintf(note->text, sizeof note->text, "optimizer %s to %s", g->optimizer,
             t->optimizers[i]);
    snprintf(g->optimizer, sizeof g->optimizer, "%s", t->optimizers[i]);
    g->momentum = has_momentum(g->optimizer) ? g->momentum : 0;
    note->exact = true;
    return SW_OK;
}

static void toggle(float *x, float on, const char *name, swi_change_note *note)
{
    *x = *x != 0 ? 0 : on;
    if (*x != 0)
        snprintf(note->text, sizeof note->text, "%s %g", name, (double)on);
    else
        snprintf(note->text, sizeof note->text, "no %s", name);
}

sw_status swi_change_optimizer_part(swi_child *c, const sw_mutation *m, uint32_t v,
                                    swi_change_note *note)
{
    sw_genome *g = c->genome;
    (void)m;
    (void)v;
    switch (swi_draw_below(&c->draws, has_momentum(g->optimizer) ? 3 : 2)) {
    case 0:
        toggle(&g->weight_decay, 1e-4f, "weight decay", note);
        break;
    case 1:
        toggle(&g->clip, 1, "clip", note);
        break;
    default:
        toggle(&g->momentum, 0.9f, "momentum", note);
        break;
    }
    note->exact = true;
    return SW_OK;
}

/* ---- batch ------------------------------------------------------------------------------- */

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* By a share of the list's length, at least one on. */
static int64_t step_list(const swi_space_training *t, int64_t batch, double share)
{
    int at = 0;
    for (int i = 1; i < t->n_batches; i++)
        if (llabs(t->batches[i] - batch) < llabs(t->batches[at] - batch))
            at = i;
    int by = (int)lround(share * t->n_batches);
    by = by != 0 ? by : share < 0 ? -1 : 1;
    return t->batches[clamp(at + by, 0, t->n_batches - 1)];
}

/* A multiple of 8 that is at least one further; below 8 any number. */
static int64_t step_range(const swi_space_training *t, int64_t batch, double share)
{
    const double to = fmin((double)batch * (1 + share), 1e9);
    const int64_t unit = batch < 8 && to < 8 ? 1 : 8;
    int64_t units = (int64_t)lround(to / (double)unit);
    if (units * unit == batch)
        units += share < 0 ? -1 : 1;
    const int64_t low = t->batch_low > 0 ? t->batch_low : 1;
    const int64_t high = t->batch_high > 0 ? t->batch_high : INT32_MAX;
    const int64_t first = (low + unit - 1) / unit, last = high / unit;
    if (first > last) /* the range has no multiple */
        return clamp(units * unit, low, high);
    return unit * clamp(units, first, last);
}

sw_status swi_change_batch(swi_child *c, const sw_mutation *m, uint32_t v,
                           swi_change_note *note)
{
    double low, high;
    const sw_search_space *space;
    const int64_t had = c->genome->batch;
    (void)v;
    swi_mutation_range(m, &low, &high);
    SW_TRY(swi_child_space(c, &space));
    const swi_space_training *t = swi_space_training_of(space);
    const double share = swi_draw_range(&c->draws, low, high);
    const int64_t to = t->n_batches > 0 ? step_list(t, had, share) : step_range(t, had, share);
    if (to == had)
        SW_FAIL(SW_UNSUPPORTED, "the batch stays %lld", (long long)had);
    c->genome->batch = to;
    snprintf(note->text, sizeof note->text, "batch %lld to %lld", (long long)had,
             (long long)to);
    note->exact = true;
    return SW_OK;
}
