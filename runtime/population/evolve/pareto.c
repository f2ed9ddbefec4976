/* Pareto ranks and crowding distances: fast non-dominated sorting (Deb, Pratap, Agarwal,
 * Meyarivan 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II"). */
#include "alloc/base/mem.h"
#include "runtime/base/common.h"
#include <math.h>
#include <stdlib.h>

typedef struct {
    double value;
    uint32_t point;
} entry;

typedef struct {
    const double *objectives; /* (n, m) */
    size_t n, m;
    uint32_t *rank, *dominators, *front;
    entry *sorted;
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
    const entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->point < y->point ? -1 : x->point > y->point;
}

/* The two ends of an objective are infinitely far from others; in between it is the distance of
 * the neighbours, as a share of that of the ends. */
static void crowd(front_sort *f, uint32_t first, uint32_t behind, double *crowding)
{
    const uint32_t n = behind - first;
    for (uint32_t i = first; i < behind; i++)
        crowding[f->front[i]] = 0;
    for (size_t k = 0; k < f->m; k++) {
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t point = f->front[first + i];
            f->sorted[i] = (entry){f->objectives[point * f->m + k], point};
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

static void sort_fronts(front_sort *f, double *crowding)
{
    uint32_t first = 0, behind = begin(f), rank = 0;
    while (first < behind) {
        if (crowding != NULL)
            crowd(f, first, behind, crowding);
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
    const size_t each = sizeof(entry) + 2 * sizeof(uint32_t);
    void *block;
    if (objectives == NULL || rank == NULL || n == 0 || n > MOST_POINTS || m == 0 ||
        m > MOST_OBJECTIVES)
        SW_FAIL(SW_INVALID,
                "sw_pareto: objectives (of 1 to %d points, got %zu; 1 to %d each, got %zu) and "
                "rank must be given",
                MOST_POINTS, n, MOST_OBJECTIVES, m);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, n * each));
    front_sort f = {.objectives = objectives, .n = n, .m = m, .rank = rank, .sorted = block};
    f.dominators = (uint32_t *)(f.sorted + n);
    f.front = f.dominators + n;
    sort_fronts(&f, crowding);
    sw_heap_free(block, SW_HEAP_RECORDS, n * each);
    return SW_OK;
}
