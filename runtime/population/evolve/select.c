/* Selection: elite, stochastic universal sampling (Baker 1987) and tournaments, side by side
 * and in stages. The selection of a stage is a list of indices, in which one may come more than
 * once; the next stage selects from that list. */
#include "alloc/base/mem.h"
#include "runtime/base/common.h"
#include "runtime/population/evolve/draws.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CONTESTANTS = 4096, MOST_SELECTED = 1 << 20 };

/* One of the list that a stage selects from. */
typedef struct {
    double fitness;
    uint32_t index, at; /* of the fitness; in the list */
} entry;

static int by_rank(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const bool x_is = !isnan(x->fitness), y_is = !isnan(y->fitness);
    if (x_is != y_is)
        return x_is ? -1 : 1;
    if (x_is && x->fitness != y->fitness)
        return x->fitness > y->fitness ? -1 : 1;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

typedef struct {
    const double *fitness;
    uint32_t *list, n; /* that this stage selects from */
    uint32_t *to;      /* what it selected so far */
    entry *entries;    /* n, or as many contestants */
    double *weights;   /* n */
    uint32_t *deck, dealt;
    swi_draws draws;
} stage;

static entry entry_at(const stage *s, uint32_t at)
{
    return (entry){s->fitness[s->list[at]], s->list[at], at};
}

static void elite(stage *s, const sw_selection *how, uint32_t *to)
{
    for (uint32_t i = 0; i < s->n; i++)
        s->entries[i] = entry_at(s, i);
    qsort(s->entries, s->n, sizeof *s->entries, by_rank);
    for (uint32_t i = 0; i < how->n; i++)
        to[i] = s->entries[i].index;
}

/* ---- stochastic universal sampling ------------------------------------------------------- */

/* Weights: the fitness above the least one, or above 0. Where some are infinite, these weigh
 * the same, and the others nothing. Shares of the largest, so that no sum overflows. */
static double weigh(stage *s)
{
    double least = 0, most = 0, sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const double f = s->fitness[s->list[i]];
        least = isfinite(f) && f < least ? f : least;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const double f = s->fitness[s->list[i]];
        /* halved: the difference of two finite numbers may be too large */
        s->weights[i] = isnan(f) || f == -(double)INFINITY ? 0 : f / 2 - least / 2;
        most = s->weights[i] > most ? s->weights[i] : most;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const double w = s->weights[i];
        s->weights[i] = isinf(most) ? isinf(w) : most > 0 ? w / most : 0;
        sum += s->weights[i];
    }
    return sum;
}

/* Where all weights are 0, all that are a number weigh the same. */
static double weigh_all(stage *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        s->weights[i] = !isnan(s->fitness[s->list[i]]);
        sum += s->weights[i];
    }
    for (uint32_t i = 0; i < s->n && sum == 0; i++)
        s->weights[i] = 1;
    return sum > 0 ? sum : s->n;
}

static void sus(stage *s, const sw_selection *how, uint32_t *to)
{
    double sum = weigh(s);
    if (sum == 0)
        sum = weigh_all(s);
    const double gap = sum / how->n, start = swi_draw_unit(&s->draws) * gap;
    double up_to = 0;
    uint32_t at = 0, last = 0, i = 0;
    for (; at < s->n; at++) {
        up_to += s->weights[at];
        last = s->weights[at] > 0 ? at : last;
        for (; i < how->n && start + i * gap < up_to; i++)
            to[i] = s->list[at];
    }
    for (; i < how->n; i++) /* by rounding */
        to[i] = s->list[last];
}

/* ---- tournaments ------------------------------------------------------------------------- */

/* The next of a shuffled copy of the list, and then of another one. */
static uint32_t deal(stage *s)
{
    if (s->dealt == s->n) {
        for (uint32_t i = 0; i < s->n; i++)
            s->deck[i] = i;
        for (uint32_t i = s->n; i > 1; i--) {
            const uint32_t k = swi_draw_below(&s->draws, i), was = s->deck[i - 1];
            s->deck[i - 1] = s->deck[k];
            s->deck[k] = was;
        }
        s->dealt = 0;
    }
    return s->deck[s->dealt++];
}

static void tournament(stage *s, const sw_selection *how, uint32_t *to)
{
    const uint32_t k = how->contestants > 0 ? how->contestants : 2;
    const double p = how->p > 0 ? how->p : 1;
    s->dealt = s->n;
    for (uint32_t i = 0; i < how->n; i++) {
        for (uint32_t c = 0; c < k; c++)
            s->entries[c] = entry_at(s, deal(s));
        qsort(s->entries, k, sizeof *s->entries, by_rank);
        uint32_t rank = 0;
        while (rank + 1 < k && !swi_draw_happens(&s->draws, p))
            rank++;
        to[i] = s->entries[rank].index;
    }
}

/* ---- stages ------------------------------------------------------------------------------ */

static uint32_t size_of_stage(const sw_selection *all, size_t n, size_t first, size_t *behind)
{
    uint32_t sum = 0;
    for (*behind = first; *behind < n && all[*behind].stage == all[first].stage; ++*behind)
        sum += all[*behind].n;
    return sum;
}

static void run_stage(stage *s, const sw_selection *all, size_t first, size_t behind,
                      uint64_t seed)
{
    uint32_t made = 0;
    for (size_t i = first; i < behind; i++) {
        const sw_selection *how = &all[i];
        s->draws = swi_draws_of(seed, i);
        if (how->kind == SW_SELECT_ELITE)
            elite(s, how, s->to + made);
        else if (how->kind == SW_SELECT_SUS)
            sus(s, how, s->to + made);
        else
            tournament(s, how, s->to + made);
        made += how->n;
    }
}

static void put_result(const stage *s, const sw_selection *all, size_t first, size_t n,
                       uint32_t *out, int *kept)
{
    uint32_t made = 0;
    for (size_t i = first; i < n; i++)
        for (uint32_t k = 0; k < all[i].n; k++, made++) {
            out[made] = s->list[made];
            if (kept != NULL)
                kept[made] = all[i].keep != 0;
        }
}

static sw_status check_one(const sw_selection *how, size_t i, uint32_t from, const char *call)
{
    if (how->kind < SW_SELECT_ELITE || how->kind > SW_SELECT_TOURNAMENT)
        SW_FAIL(SW_INVALID, "%s: selection %zu: the kind %d is none", call, i, (int)how->kind);
    if (how->reserved[0] != 0 || how->reserved[1] != 0)
        SW_FAIL(SW_INVALID, "%s: selection %zu: reserved must be zero", call, i);
    if (how->n == 0 || how->n > MOST_SELECTED)
        SW_FAIL(SW_INVALID, "%s: selection %zu: n must be 1 to %d (got %u)", call, i,
                MOST_SELECTED, how->n);
    if (how->kind == SW_SELECT_ELITE && how->n > from)
        SW_FAIL(SW_INVALID, "%s: selection %zu: the best %u of %u cannot be selected", call, i,
                how->n, from);
    const bool contest = how->kind == SW_SELECT_TOURNAMENT;
    if (!contest && (how->contestants != 0 || how->p != 0))
        SW_FAIL(SW_INVALID, "%s: selection %zu: contestants and p are of tournaments alone",
                call, i);
    if (contest && (how->contestants > MOST_CONTESTANTS || !(how->p >= 0 && how->p <= 1)))
        SW_FAIL(SW_INVALID,
                "%s: selection %zu: contestants must be at most %d (got %u), and p above 0 to "
                "1 (got %g)",
                call, i, MOST_CONTESTANTS, how->contestants, how->p);
    return SW_OK;
}

/* *most: entries that a list or a contest has at most. */
static sw_status check(size_t n, const sw_selection *all, size_t n_all, const char *call,
                       uint32_t *most)
{
    uint32_t from = (uint32_t)n;
    size_t behind;
    *most = from;
    for (size_t first = 0; first < n_all; first = behind) {
        const uint32_t size = size_of_stage(all, n_all, first, &behind);
        if (behind < n_all && all[behind].stage < all[first].stage)
            SW_FAIL(SW_INVALID, "%s: selection %zu: stages must not go back (%d after %d)",
                    call, behind, all[behind].stage, all[first].stage);
        for (size_t i = first; i < behind; i++) {
            SW_TRY(check_one(&all[i], i, from, call));
            if (all[i].keep && behind < n_all)
                SW_FAIL(SW_INVALID,
                        "%s: selection %zu: keep is of the last stage alone: what it selects "
                        "is selected from again",
                        call, i);
            *most = all[i].contestants > *most ? all[i].contestants : *most;
        }
        if (size > MOST_SELECTED)
            SW_FAIL(SW_INVALID, "%s: a stage must select at most %d (got %u)", call,
                    MOST_SELECTED, size);
        *most = size > *most ? size : *most;
        from = size;
    }
    *most = *most > 2 ? *most : 2;
    return SW_OK;
}

static void select_all(stage *s, const sw_selection *all, size_t n_all, uint64_t seed,
                       uint32_t *out, int *kept, size_t *n_out)
{
    size_t first = 0, behind = 0;
    for (; behind < n_all;) {
        first = behind;
        const uint32_t size = size_of_stage(all, n_all, first, &behind);
        run_stage(s, all, first, behind, seed);
        uint32_t *was = s->list;
        s->list = s->to;
        s->to = was;
        s->n = size;
    }
    put_result(s, all, first, n_all, out, kept);
    *n_out = s->n;
}

sw_status sw_select(const double *fitness, size_t n, const sw_selection *selections,
                    size_t n_selections, uint64_t seed, uint32_t *out, int *kept, size_t *n_out)
{
    static const char call[] = "sw_select";
    uint32_t most = 0;
    void *block;
    if (fitness == NULL || n == 0 || n > MOST_SELECTED || selections == NULL ||
        n_selections == 0 || out == NULL || n_out == NULL)
        SW_FAIL(SW_INVALID,
                "%s: fitness (1 to %d of them, got %zu), selections (at least one, got %zu), "
                "out and n_out must be given",
                call, MOST_SELECTED, n, n_selections);
    SW_TRY(check(n, selections, n_selections, call, &most));
    const size_t each = sizeof(entry) + sizeof(double) + 3 * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, most * each));
    stage s = {.fitness = fitness, .n = (uint32_t)n, .entries = block};
    s.weights = (double *)(s.entries + most);
    s.list = (uint32_t *)(s.weights + most);
    s.to = s.list + most;
    s.deck = s.to + most;
    for (uint32_t i = 0; i < s.n; i++)
        s.list[i] = i;
    select_all(&s, selections, n_selections, seed, out, kept, n_out);
    sw_heap_free(block, SW_HEAP_RECORDS, most * each);
    return SW_OK;
}
