/* Selection: elite, stochastic universal sampling (Baker 1987) and tournaments, side by side
 * and in stages. The selection of a stage is a list of indices, in which one may come more than
 * once; the next stage selects from that list. */
#include "alloc/base/mem.h"
#include "runtime/base/common.h"
#include "runtime/population/evolve/draws.h"
#include "runtime/population/evolve/evolution.h"
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pareto ranks and crowding distances: fast non-dominated sorting (Deb, Pratap, Agarwal,
 * Meyarivan 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II"). */

typedef struct {
    double value;
    uint32_t point;
} entry_pareto;

typedef struct {
    const double *objectives; /* (n, m) */
    size_t n, m;
    uint32_t *rank, *dominators, *front;
    entry_pareto *sorted;
} front_sort;

static const uint32_t unranked = UINT32_MAX;

static bool is_number(const front_sort *f, size_t i)
{
    bool all = true;
    for (size_t k = 0; k < f->m; k++)
        all &= !isnan(f->objectives[i * f->m + k]);
    return all;
}

/* At least as good everywhere, and better somewhere. */
static bool dominates(const front_sort *f, size_t a, size_t b)
{
    bool better = false;
    for (size_t k = 0; k < f->m; k++) {
        const double x = f->objectives[a * f->m + k], y = f->objectives[b * f->m + k];
        if (x < y)
            return false;
        better |= x > y;
    }
    return better;
}

/* How many dominate each; the first front. */
static uint32_t begin(front_sort *f)
{
    uint32_t n_front = 0;
    for (size_t i = 0; i < f->n; i++) {
        f->rank[i] = unranked;
        f->dominators[i] = 0;
        if (!is_number(f, i))
            continue;
        for (size_t k = 0; k < f->n; k++)
            f->dominators[i] += is_number(f, k) && dominates(f, k, i);
        if (f->dominators[i] > 0)
            continue;
        f->rank[i] = 0;
        f->front[n_front++] = (uint32_t)i;
    }
    return n_front;
}

/* Those whom the present front alone dominates are the next one, after it in `front`. */
static uint32_t next_front(front_sort *f, uint32_t first, uint32_t behind, uint32_t rank)
{
    uint32_t n = behind;
    for (uint32_t i = first; i < behind; i++)
        for (size_t k = 0; k < f->n; k++)
            if (f->rank[k] == unranked && is_number(f, k) && dominates(f, f->front[i], k) &&
                --f->dominators[k] == 0) {
                f->rank[k] = rank;
                f->front[n++] = (uint32_t)k;
            }
    return n;
}

static int by_value(const void *a, const void *b)
{
    const entry_pareto *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->point < y->point ? -1 : x->point > y->point;
}

static void sort_fronts(front_sort *f, double *crowding)
{
    uint32_t first = 0, behind = begin(f), rank = 0;
    while (first < behind) {
        if (crowding != NULL) {
            /* The two ends of an objective are infinitely far from others; in between it is
             * the distance of the neighbours, as a share of that of the ends. */
            const uint32_t n = behind - first;
            for (uint32_t i = first; i < behind; i++)
                crowding[f->front[i]] = 0;
            for (size_t k = 0; k < f->m; k++) {
                for (uint32_t i = 0; i < n; i++) {
                    const uint32_t point = f->front[first + i];
                    f->sorted[i] = (entry_pareto){f->objectives[point * f->m + k], point};
                }
                qsort(f->sorted, n, sizeof *f->sorted, by_value);
                const double range = f->sorted[n - 1].value - f->sorted[0].value;
                crowding[f->sorted[0].point] = crowding[f->sorted[n - 1].point] = INFINITY;
                for (uint32_t i = 1; i + 1 < n; i++)
                    if (range > 0 && isfinite(range))
                        crowding[f->sorted[i].point] +=
                            (f->sorted[i + 1].value - f->sorted[i - 1].value) / range;
            }
        }
        const uint32_t next = next_front(f, first, behind, ++rank);
        first = behind;
        behind = next;
    }
    for (size_t i = 0; i < f->n; i++) {
        if (f->rank[i] != unranked)
            continue;
        f->rank[i] = rank;
        if (crowding != NULL)
            crowding[i] = 0;
    }
}

sw_status sw_pareto(const double *objectives, size_t n, size_t m, uint32_t *rank,
                    double *crowding)
{
    enum { MOST_POINTS = 1 << 20, MOST_OBJECTIVES = 1024 };
    const size_t each = sizeof(entry_pareto) + 2 * sizeof(uint32_t);
    front_sort f = {.objectives = objectives, .n = n, .m = m, .rank = rank};
    if (objectives == NULL || rank == NULL || n == 0 || n > MOST_POINTS || m == 0 ||
        m > MOST_OBJECTIVES)
        SW_FAIL(SW_INVALID,
                "sw_pareto: objectives (of 1 to %d points, got %zu; 1 to %d each, got %zu) and "
                "rank must be given",
                MOST_POINTS, n, MOST_OBJECTIVES, m);
    SW_TRY(sw_heap_alloc(&f.sorted, SW_HEAP_RECORDS, n * each));
    f.dominators = (uint32_t *)(f.sorted + n);
    f.front = f.dominators + n;
    sort_fronts(&f, crowding);
    sw_heap_free(f.sorted, SW_HEAP_RECORDS, n * each);
    return SW_OK;
}

/* Fitness: what a member's numbers are worth. */

static const char *const names[SW_FITNESS_KINDS] = {[SW_FITNESS_ACCURACY] = "accuracy",
                                                    [SW_FITNESS_TRAIN_ACCURACY] =
                                                        "train_accuracy",
                                                    [SW_FITNESS_LOSS] = "loss",
                                                    [SW_FITNESS_TIME] = "time",
                                                    [SW_FITNESS_PARAMETERS] = "parameters",
                                                    [SW_FITNESS_PEAK_BYTES] = "peak_bytes",
                                                    [SW_FITNESS_OPERATIONS] = "operations",
                                                    [SW_FITNESS_CUSTOM] = "custom"};

const char *sw_fitness_kind_name(sw_fitness_kind kind)
{
    return (unsigned)kind < SW_FITNESS_KINDS ? names[kind] : NULL;
}

sw_status swi_fitness_read(swi_fitness_plan *out, const sw_fitness *terms, size_t n,
                           const char *call)
{
    /* Accuracy is a whole number of answers: of equals the one with the smaller loss. */
    static const sw_fitness usual[] = {{.kind = SW_FITNESS_ACCURACY},
                                       {.kind = SW_FITNESS_LOSS, .factor = 1e-6}};
    swi_fitness_plan plan = {.n = n > 0 ? n : 2};
    terms = n > 0 ? terms : usual;
    if (terms == NULL || n > SWI_MAX_TERMS)
        SW_FAIL(SW_INVALID, "%s: fitness must have at most %d terms (got %zu)", call,
                SWI_MAX_TERMS, n);
    for (size_t i = 0; i < plan.n; i++) {
        sw_fitness *t = &plan.terms[i];
        *t = terms[i];
        if (sw_fitness_kind_name(t->kind) == NULL)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: the kind %d is none", call, i, (int)t->kind);
        if (t->reserved[0] != 0 || t->reserved[1] != 0)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: reserved must be zero", call, i);
        if (t->objective != 0 || t->average != 0)
            SW_FAIL(SW_UNSUPPORTED, "%s: fitness %zu: %s is no longer used: must be 0", call, i,
                    t->objective != 0 ? "objective" : "average");
        if (!isfinite(t->factor))
            SW_FAIL(SW_INVALID, "%s: fitness %zu: factor must be finite (got %g)", call, i,
                    t->factor);
        if ((t->kind == SW_FITNESS_CUSTOM) != (t->fn != NULL))
            SW_FAIL(SW_INVALID,
                    "%s: fitness %zu: fn must be given for custom, and for no other", call, i);
        if (!(t->drop >= 0 && t->drop < 1) ||
            (t->drop > 0 && t->kind != SW_FITNESS_TRAIN_ACCURACY))
            SW_FAIL(SW_INVALID,
                    "%s: fitness %zu: drop must be 0 to below 1 (got %g), and is of "
                    "train_accuracy alone",
                    call, i, t->drop);
        if (t->factor == 0)
            t->factor = 1;
        if (t->kind != SW_FITNESS_TRAIN_ACCURACY)
            continue;
        const double drop = t->drop > 0 ? t->drop : 0.5;
        if (plan.drop > 0 && plan.drop != drop)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: drop must be that of the others, %g (got %g)",
                    call, i, plan.drop, drop);
        plan.drop = drop;
    }
    if (plan.drop == 0)
        plan.drop = 0.5;
    *out = plan;
    return SW_OK;
}

/* ---- of a candidate ---------------------------------------------------------------------- */

static double number_of(const sw_fitness *t, const sw_candidate *c)
{
    switch (t->kind) {
    case SW_FITNESS_ACCURACY:
        return c->accuracy;
    case SW_FITNESS_TRAIN_ACCURACY:
        return c->train_accuracy;
    case SW_FITNESS_LOSS:
        return -c->loss;
    case SW_FITNESS_TIME:
        return -(double)c->ns_per_sample;
    case SW_FITNESS_PARAMETERS:
        return -(double)c->price->parameters;
    case SW_FITNESS_PEAK_BYTES:
        return -(double)c->price->peak_bytes;
    case SW_FITNESS_OPERATIONS:
        return -c->price->operations_per_sample;
    case SW_FITNESS_CUSTOM:
        return t->fn(c, t->user);
    }
    return NAN;
}

double swi_fitness_of(const swi_fitness_plan *p, const sw_candidate *c, uint32_t *which)
{
    double sum = 0;
    *which = UINT32_MAX;
    for (uint32_t i = 0; i < p->n; i++) {
        const sw_fitness *t = &p->terms[i];
        const double x = number_of(t, c);
        sum += (t->map != NULL ? t->map(x, t->user) : x) * t->factor;
        if (!isfinite(x) || !isfinite(sum)) {
            *which = i;
            return (double)NAN;
        }
    }
    return sum;
}

/* Utility of neurons, moved along with them: by the lineage of the vertices they are in. */

#define NEW_UTILITY 0x1p-23f /* next to nothing: any neuron that was of use is kept first */

static float clean(float x)
{
    return isfinite(x) && x > 0 ? x : 0;
}

/* Lists are in the order of vertices as a rule: the search goes on where the last one ended. */
static const sw_neuron_utility *find(const swi_parent_utility *parent, uint32_t vertex,
                                     size_t *from)
{
    for (size_t i = 0; i < parent->n; i++) {
        const size_t at = (*from + i) % parent->n;
        if (parent->list[at].vertex == vertex) {
            *from = at + 1;
            return &parent->list[at];
        }
    }
    return NULL;
}

sw_status swi_utilities_of(swi_utilities *u, const sw_genome *g,
                           const swi_parent_utility parents[2])
{
    size_t from[2] = {0}, at = 0;
    u->n = 0;
    if (parents[0].n + parents[1].n == 0)
        return SW_OK;
    size_t values = 0;
    for (uint32_t i = 0; i < g->n; i++)
        values += swi_vertex_has_parameters(&g->vertices[i]) ? g->vertices[i].channels : 0;
    SW_TRY(sw_heap_reserve(&u->list, SW_HEAP_RECORDS, &u->cap, g->n, sizeof *u->list));
    if (values > UINT32_MAX / 2)
        SW_FAIL(SW_NOMEM, "utilities of %zu neurons are too many", values);
    SW_TRY(sw_heap_reserve(&u->values, SW_HEAP_RECORDS, &u->values_cap, (uint32_t)values,
                           sizeof *u->values));

    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        const bool fresh = v->parent > 1;
        if (!swi_vertex_has_parameters(v))
            continue;
        const sw_neuron_utility *was =
            fresh ? NULL : find(&parents[v->parent], v->was, &from[v->parent]);
        if (was == NULL && !(fresh && swi_vertex_is_sized(v)))
            continue;
        /* Of a vertex with rows; `was` NULL: all of it is new. */
        float *to = u->values + at;
        for (int64_t j = 0; j < v->channels; j++) {
            const int32_t row = was != NULL && v->rows != NULL ? v->rows[j] : SWI_NEW;
            to[j] = row >= 0 && row < was->n ? clean(was->values[row]) : NEW_UTILITY;
        }
        u->list[u->n++] =
            (sw_neuron_utility){.vertex = i, .n = v->channels, .values = u->values + at};
        at += (size_t)v->channels;
    }
    return SW_OK;
}

void swi_utilities_end(swi_utilities *u)
{
    sw_heap_free(u->list, SW_HEAP_RECORDS, u->cap * sizeof *u->list);
    sw_heap_free(u->values, SW_HEAP_RECORDS, u->values_cap * sizeof *u->values);
    *u = (swi_utilities){0};
}

sw_status swi_utility_check(const sw_genome *g, const sw_neuron_utility *list, size_t n,
                            const char *call)
{
    if (n > 0 && list == NULL)
        SW_FAIL(SW_INVALID, "%s: utilities must not be NULL where there are %zu", call, n);
    for (size_t i = 0; i < n; i++) {
        const sw_neuron_utility *u = &list[i];
        if (u->vertex >= g->n)
            SW_FAIL(SW_INVALID,
                    "%s: utility %zu: the vertex must be below %u, the number of "
                    "vertices (got %u)",
                    call, i, g->n, u->vertex);
        const swi_vertex *v = &g->vertices[u->vertex];
        if (!swi_vertex_has_parameters(v))
            SW_FAIL(SW_INVALID,
                    "%s: utility %zu: it must be of a vertex with parameters (got %s '%s')",
                    call, i, sw_vertex_kind_name(v->kind), v->name);
        if (u->n != v->channels || u->values == NULL)
            SW_FAIL(SW_INVALID,
                    "%s: utility %zu: vertex '%s' has %lld neurons, and there must be a value "
                    "for each (got %lld%s)",
                    call, i, v->name, (long long)v->channels, (long long)u->n,
                    u->values == NULL ? ", and NULL" : "");
        if (u->reserved[0] != 0 || u->reserved[1] != 0)
            SW_FAIL(SW_INVALID, "%s: utility %zu: reserved must be zero", call, i);
    }
    return SW_OK;
}

/* ---- select ------------------------------------------------------------------------------ */

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
        else if (how->kind == SW_SELECT_SUS) {
            uint32_t *to = s->to + made;
            double sum = weigh(s);
            if (sum == 0)
                sum = weigh_all(s);
            const double gap = sum / how->n, start = swi_draw_unit(&s->draws) * gap;
            double up_to = 0;
            uint32_t at = 0, last = 0, m = 0;
            for (; at < s->n; at++) {
                up_to += s->weights[at];
                last = s->weights[at] > 0 ? at : last;
                for (; m < how->n && start + m * gap < up_to; m++)
                    to[m] = s->list[at];
            }
            for (; m < how->n; m++) /* by rounding */
                to[m] = s->list[last];
        } else {
            uint32_t *to = s->to + made;
            const uint32_t k = how->contestants > 0 ? how->contestants : 2;
            const double p = how->p > 0 ? how->p : 1;
            s->dealt = s->n;
            for (uint32_t j = 0; j < how->n; j++) {
                for (uint32_t c = 0; c < k; c++)
                    s->entries[c] = entry_at(s, deal(s));
                qsort(s->entries, k, sizeof *s->entries, by_rank);
                uint32_t rank = 0;
                while (rank + 1 < k && !swi_draw_happens(&s->draws, p))
                    rank++;
                to[j] = s->entries[rank].index;
            }
        }
        made += how->n;
    }
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
            if (all[i].kind < SW_SELECT_ELITE || all[i].kind > SW_SELECT_TOURNAMENT)
                SW_FAIL(SW_INVALID, "%s: selection %zu: the kind %d is none", call, i,
                        (int)all[i].kind);
            if (all[i].reserved[0] != 0 || all[i].reserved[1] != 0)
                SW_FAIL(SW_INVALID, "%s: selection %zu: reserved must be zero", call, i);
            if (all[i].n == 0 || all[i].n > MOST_SELECTED)
                SW_FAIL(SW_INVALID, "%s: selection %zu: n must be 1 to %d (got %u)", call, i,
                        MOST_SELECTED, all[i].n);
            if (all[i].kind == SW_SELECT_ELITE && all[i].n > from)
                SW_FAIL(SW_INVALID, "%s: selection %zu: the best %u of %u cannot be selected",
                        call, i, all[i].n, from);
            const bool contest = all[i].kind == SW_SELECT_TOURNAMENT;
            if (!contest && (all[i].contestants != 0 || all[i].p != 0))
                SW_FAIL(SW_INVALID,
                        "%s: selection %zu: contestants and p are of tournaments alone", call,
                        i);
            if (contest &&
                (all[i].contestants > MOST_CONTESTANTS || !(all[i].p >= 0 && all[i].p <= 1)))
                SW_FAIL(SW_INVALID,
                        "%s: selection %zu: contestants must be at most %d (got %u), and p "
                        "above 0 to 1 (got %g)",
                        call, i, MOST_CONTESTANTS, all[i].contestants, all[i].p);

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
    uint32_t made = 0;
    for (size_t i = first; i < n_all; i++)
        for (uint32_t k = 0; k < all[i].n; k++, made++) {
            out[made] = s->list[made];
            if (kept != NULL)
                kept[made] = all[i].keep != 0;
        }
    *n_out = s->n;
}

sw_status sw_select(const double *fitness, size_t n, const sw_selection *selections,
                    size_t n_selections, uint64_t seed, uint32_t *out, int *kept, size_t *n_out)
{
    uint32_t most = 0;
    stage s = {.fitness = fitness, .n = (uint32_t)n};
    if (fitness == NULL || n == 0 || n > MOST_SELECTED || selections == NULL ||
        n_selections == 0 || out == NULL || n_out == NULL)
        SW_FAIL(SW_INVALID,
                "%s: fitness (1 to %d of them, got %zu), selections (at least one, got %zu), "
                "out and n_out must be given",
                __func__, MOST_SELECTED, n, n_selections);
    SW_TRY(check(n, selections, n_selections, __func__, &most));
    const size_t each = sizeof(entry) + sizeof(double) + 3 * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&s.entries, SW_HEAP_RECORDS, most * each));
    s.weights = (double *)(s.entries + most);
    s.list = (uint32_t *)(s.weights + most);
    s.to = s.list + most;
    s.deck = s.to + most;
    for (uint32_t i = 0; i < s.n; i++)
        s.list[i] = i;
    select_all(&s, selections, n_selections, seed, out, kept, n_out);
    sw_heap_free(s.entries, SW_HEAP_RECORDS, most * each);
    return SW_OK;
}

/* Which vertices a mutation changes: those that it can, each by its probability. */

bool swi_outputs_free(const sw_genome *g, uint32_t v)
{
    if ((g->vertices[v].shield & SW_SHIELD_OUTPUTS) != 0)
        return false;
    for (uint32_t i = v + 1; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            if (g->vertices[i].in[k] == v && (g->vertices[i].shield & SW_SHIELD_INPUTS) != 0)
                return false;
    return true;
}

bool swi_inputs_free(const sw_genome *g, uint32_t v)
{
    if ((g->vertices[v].shield & SW_SHIELD_INPUTS) != 0)
        return false;
    for (uint32_t k = 0; k < g->vertices[v].n_in; k++)
        if ((g->vertices[g->vertices[v].in[k]].shield & SW_SHIELD_OUTPUTS) != 0)
            return false;
    return true;
}

/* ---- probabilities ----------------------------------------------------------------------- */

double swi_weighed(double p, sw_weigh weigh_choose, double u, double m, double a)
{
    if (weigh_choose == SW_WEIGH_NOTHING || !(m > 0))
        return p;
    if (weigh_choose == SW_WEIGH_HIGH)
        return pow(p, (2 * sqrt(m) - sqrt(u)) / (2 * sqrt(m) - sqrt(a)));
    u /= m; /* shares of m: its square may be out of range */
    a /= m;
    return pow(p, (2 - a * a) / (2 - u * u));
}

static double mean_of(const sw_neuron_utility *u)
{
    double sum = 0;
    for (int64_t i = 0; i < u->n; i++)
        sum += (double)u->values[i];
    return u->n > 0 ? sum / (double)u->n : 0;
}

typedef struct {
    double most, mean; /* of the vertices that it can change and that have a utility */
} weights;

static weights weigh_choose(const swi_child *c, const bool *can)
{
    weights w = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->utilities.n; i++)
        if (can[c->utilities.list[i].vertex]) {
            const double mean = mean_of(&c->utilities.list[i]);
            w.most = fmax(w.most, mean);
            w.mean += mean;
            n++;
        }
    w.mean /= n > 0 ? n : 1;
    return w;
}

sw_status swi_mutation_choose(swi_child *c, const sw_mutation *m, uint32_t *n)
{
    bool can[SWI_MAX_VERTICES];
    *n = 0;
    for (uint32_t v = 0; v < c->genome->n; v++) {
        const swi_mutation_rule *rule = swi_mutation_rule_of(m->kind);
        can[v] = rule->can(c->genome, v) &&
                 (m->filter == NULL || m->filter(c->genome, v, m->user) != 0);
    }
    c->utilities.n = 0;
    if (m->weigh != SW_WEIGH_NOTHING)
        SW_TRY(swi_utilities_of(&c->utilities, c->genome, c->parents));
    const weights w = weigh_choose(c, can);
    const sw_neuron_utility *u = c->utilities.list;
    for (uint32_t v = 0, i = 0; v < c->genome->n; v++) {
        const bool has = i < c->utilities.n && u[i].vertex == v;
        const double mean = has ? mean_of(&u[i]) : 0;
        i += has;
        if (!can[v])
            continue;
        const double p =
            has ? swi_weighed(m->probability, m->weigh, mean, w.most, w.mean) : m->probability;
        if (swi_draw_happens(&c->draws, p)) {
            SW_TRY(sw_heap_reserve(&c->names, SW_HEAP_RECORDS, &c->names_cap, *n + 1,
                                   sizeof *c->names));
            memcpy(c->names[(*n)++], c->genome->vertices[v].name, sizeof *c->names);
        }
    }
    return SW_OK;
}
