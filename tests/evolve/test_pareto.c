/* Pareto ranks and crowding distances, beside their definitions. */
#include "runtime/stepwell.h"
#include "tests/runtime/nets.h"
#include <math.h>
#include <string.h>

enum { MOST = 24, OBJECTIVES = 3 };

static bool is_number(const double *x, size_t m)
{
    for (size_t k = 0; k < m; k++)
        if (isnan(x[k]))
            return false;
    return true;
}

static bool dominates(const double *a, const double *b, size_t m)
{
    int better = 0, worse = 0;
    for (size_t k = 0; k < m; k++) {
        better += a[k] > b[k];
        worse += a[k] < b[k];
    }
    return better > 0 && worse == 0;
}

/* The longest chain of those that dominate each other and then i. */
static uint32_t depth(const double *x, size_t n, size_t m, size_t i)
{
    uint32_t most = 0;
    for (size_t k = 0; k < n; k++)
        if (is_number(x + k * m, m) && dominates(x + k * m, x + i * m, m)) {
            const uint32_t its = depth(x, n, m, k) + 1;
            most = its > most ? its : most;
        }
    return most;
}

/* The nearest on either side in the front, by value and then by index. */
static double distance(const double *x, const uint32_t *rank, size_t n, size_t m, size_t i)
{
    double sum = 0;
    for (size_t k = 0; k < m; k++) {
        const double its = x[i * m + k];
        double below = -INFINITY, above = INFINITY, least = its, most = its;
        for (size_t j = 0; j < n; j++) {
            const double other = x[j * m + k];
            if (rank[j] != rank[i] || j == i)
                continue;
            least = fmin(least, other);
            most = fmax(most, other);
            if (other < its || (other == its && j < i))
                below = fmax(below, other);
            else
                above = fmin(above, other);
        }
        if (isinf(below) || isinf(above))
            return INFINITY;
        sum += most > least ? (above - below) / (most - least) : 0;
    }
    return sum;
}

static void ranks_are_those_of_the_definition(void)
{
    sw_dice dice = {8};
    for (int round = 0; round < 1500; round++) {
        double x[MOST * OBJECTIVES], crowding[MOST];
        uint32_t rank[MOST], last = 0;
        const size_t n = 1 + sw_dice_below(&dice, MOST);
        const size_t m = 1 + sw_dice_below(&dice, OBJECTIVES);
        for (size_t i = 0; i < n * m; i++)
            x[i] =
                sw_dice_below(&dice, 40) == 0 ? (double)NAN : (double)sw_dice_below(&dice, 8);
        OK(sw_pareto(x, n, m, rank, crowding));
        for (size_t i = 0; i < n; i++)
            if (is_number(x + i * m, m)) {
                CU_ASSERT_EQUAL(rank[i], depth(x, n, m, i));
                last = rank[i] + 1 > last ? rank[i] + 1 : last;
            }
        for (size_t i = 0; i < n; i++) {
            if (!is_number(x + i * m, m)) {
                CU_ASSERT_EQUAL(rank[i], last);
                CU_ASSERT_EQUAL(crowding[i], 0);
                continue;
            }
            const double expected = distance(x, rank, n, m, i);
            CU_ASSERT((isinf(expected) && isinf(crowding[i])) ||
                      fabs(crowding[i] - expected) < 1e-12);
        }
    }
}

/* With one objective the rank is the place among different values; crowding may be NULL. */
static void one_objective_is_an_order(void)
{
    const double x[] = {2, 7, 7, -INFINITY, INFINITY};
    const uint32_t expected[] = {2, 1, 1, 3, 0};
    uint32_t rank[5];
    OK(sw_pareto(x, 5, 1, rank, NULL));
    CU_ASSERT_EQUAL(memcmp(rank, expected, sizeof rank), 0);
    REFUSED(sw_pareto(x, 0, 1, rank, NULL), SW_INVALID, "got 0");
    REFUSED(sw_pareto(x, 5, 0, rank, NULL), SW_INVALID, "got 0");
}

static const sw_test tests[] = {
    {"ranks and distances are those of the definition", ranks_are_those_of_the_definition},
    {"one objective is an order", one_objective_is_an_order},
};
SW_SUITE("pareto", tests)
