/* Selections, as they are documented and distributed; Pareto ranks and crowding distances,
 * beside their definitions; draws of mutations and spaces. */
#include "runtime/population/evolve/draws.h"
#include "runtime/stepwell.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"

SW_TESTS("select")

enum { MOST = 64 };

/* Deviations from what is expected, squared and weighed: of so many counts. */
static double chi_square(const double *counts, const double *expected, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (expected[i] > 0)
            sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
    return sum;
}

/* NaN is the worst, equals keep their order, infinities are the ends. */
SW_TEST("elite is in order, with NaN after")
{
    const double f[] = {1, NAN, 3, 1, -INFINITY, INFINITY, 3};
    const uint32_t best[] = {5, 2, 6, 0, 3, 4, 1};
    const sw_selection how = {.kind = SW_SELECT_ELITE, .n = 7, .keep = 1};
    uint32_t out[7];
    int kept[7];
    size_t n = 0;
    OK(sw_select(f, 7, &how, 1, 1, out, kept, &n));
    CU_ASSERT_EQUAL(n, 7);
    for (int i = 0; i < 7; i++) {
        CU_ASSERT_EQUAL(out[i], best[i]);
        CU_ASSERT_EQUAL(kept[i], 1);
    }
}

/* ---- stochastic universal sampling ------------------------------------------------------- */

/* Each is chosen as often as expected, rounded up or down, whatever the seed. */
SW_TEST("universal sampling selects each as often as expected, rounded")
{
    sw_dice dice = {3};
    for (int round = 0; round < 2000; round++) {
        double f[MOST], sum = 0, least = 0;
        uint32_t out[MOST], count[MOST] = {0};
        const size_t n = 1 + sw_dice_below(&dice, 20);
        size_t n_out = 0;
        const sw_selection how = {.kind = SW_SELECT_SUS,
                                  .n = (uint32_t)(1 + sw_dice_below(&dice, MOST - 1))};
        for (size_t i = 0; i < n; i++) {
            f[i] = (double)sw_dice_below(&dice, 1000) / 100 - 3;
            f[i] = sw_dice_below(&dice, 10) == 0 ? (double)NAN : f[i];
            least = f[i] < least ? f[i] : least;
        }
        for (size_t i = 0; i < n; i++)
            sum += isnan(f[i]) ? 0 : f[i] - least;
        OK(sw_select(f, n, &how, 1, (uint64_t)round, out, NULL, &n_out));
        CU_ASSERT_EQUAL_FATAL(n_out, how.n);
        for (size_t i = 0; i < n_out; i++) {
            CU_ASSERT_FATAL(out[i] < n);
            count[out[i]]++;
        }
        for (size_t i = 0; i < n && sum > 0; i++) {
            const double expected = isnan(f[i]) ? 0 : how.n * (f[i] - least) / sum;
            CU_ASSERT(count[i] >= floor(expected - 1e-9) && count[i] <= ceil(expected + 1e-9));
        }
    }
}

SW_TEST("universal sampling has the expected mean")
{
    const double f[] = {0.3, 1.1, 0.25, 2};
    const sw_selection how = {.kind = SW_SELECT_SUS, .n = 3};
    double count[4] = {0};
    enum { SEEDS = 20000 };
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t out[3];
        size_t n;
        OK(sw_select(f, 4, &how, 1, seed, out, NULL, &n));
        for (int i = 0; i < 3; i++)
            count[out[i]]++;
    }
    for (int i = 0; i < 4; i++)
        CU_ASSERT_DOUBLE_EQUAL(count[i] / SEEDS, 3 * f[i] / 3.65, 0.015);
}

/* Equal fitness, zero, below zero, too large to be added: none of it is special. */
SW_TEST("universal sampling takes equal, negative, infinite and no numbers")
{
    const double same[] = {-2, -2, -2, -2}, none[] = {NAN, NAN, NAN}, zero[] = {0, NAN, 0};
    const double large[] = {1.7e308, 1.7e308, -1.7e308}, inf[] = {INFINITY, 4, -INFINITY};
    sw_selection how = {.kind = SW_SELECT_SUS, .n = 4};
    uint32_t out[6];
    size_t n;
    OK(sw_select(same, 4, &how, 1, 5, out, NULL, &n));
    for (uint32_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(out[i], i);
    how.n = 3;
    OK(sw_select(none, 3, &how, 1, 5, out, NULL, &n));
    for (uint32_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(out[i], i);
    how.n = 2;
    OK(sw_select(zero, 3, &how, 1, 5, out, NULL, &n));
    CU_ASSERT(out[0] == 0 && out[1] == 2);
    OK(sw_select(large, 3, &how, 1, 5, out, NULL, &n));
    CU_ASSERT(out[0] == 0 && out[1] == 1);
    OK(sw_select(inf, 3, &how, 1, 5, out, NULL, &n));
    CU_ASSERT(out[0] == 0 && out[1] == 0);
}

/* ---- tournaments ------------------------------------------------------------------------- */

/* With as many contestants as members each contest is a shuffled copy of all, so that the one
 * of rank i wins with p (1 - p)^i and the last one with what remains. */
SW_TEST("tournaments have the documented distribution")
{
    enum { N = 5, CONTESTS = 40000 };
    const double f[N] = {0.1, 0.9, NAN, 0.5, 0.7};
    const int rank[N] = {3, 0, 4, 2, 1};
    static uint32_t out[CONTESTS];
    static const double ps[] = {0.2, 0.5, 0.75, 1};
    for (int k = 0; k < 4; k++) {
        const double p = ps[k];
        const sw_selection how = {
            .kind = SW_SELECT_TOURNAMENT, .n = CONTESTS, .contestants = N, .p = p};
        double count[N] = {0}, expected[N], left = 1;
        size_t n;
        OK(sw_select(f, N, &how, 1, 11 + (uint64_t)k, out, NULL, &n));
        for (int i = 0; i < CONTESTS; i++)
            count[rank[out[i]]]++;
        for (int i = 0; i < N; i++) {
            expected[i] = CONTESTS * (i == N - 1 ? left : p * left);
            left *= 1 - p;
            CU_ASSERT(expected[i] > 0 || count[i] == 0);
        }
        SW_CHECK(chi_square(count, expected, N) < 18.5, "p %g: %g", p, /* 4 degrees: 0.1 % */
                 chi_square(count, expected, N));
    }
}

/* Contestants are dealt: over whole decks each plays as often as any other, so with p 1 and two
 * contestants no one wins more than once a deck... and the worst of an even deck never does. */
SW_TEST("contestants are dealt from shuffled copies")
{
    enum { N = 8, CONTESTS = 4000 };
    double f[N], count[N] = {0};
    static uint32_t out[CONTESTS];
    size_t n;
    const sw_selection how = {.kind = SW_SELECT_TOURNAMENT, .n = CONTESTS};
    for (int i = 0; i < N; i++)
        f[i] = i;
    OK(sw_select(f, N, &how, 1, 4, out, NULL, &n));
    for (int i = 0; i < CONTESTS; i++)
        count[out[i]]++;
    for (int deck = 0; deck < CONTESTS; deck += N / 2) {
        uint32_t seen = 0;
        for (int i = deck; i < deck + N / 2; i++) {
            CU_ASSERT_EQUAL(seen >> out[i] & 1, 0);
            seen |= 1u << out[i];
        }
        CU_ASSERT_EQUAL(seen >> (N - 1) & 1, 1);
    }
    CU_ASSERT_EQUAL(count[0], 0);
    CU_ASSERT_EQUAL(count[N - 1], CONTESTS / (N / 2));
    /* i wins against those below: i of the 7 others */
    for (int i = 0; i < N; i++)
        CU_ASSERT_DOUBLE_EQUAL(count[i] / (CONTESTS / (N / 2)), i / 7.0, 0.06);
}

/* ---- stages ------------------------------------------------------------------------------ */

/* Side by side, one after the other; then from what was selected. */
SW_TEST("stages follow each other, and are deterministic")
{
    const double f[] = {5, 1, 4, 2, 3, 0};
    const sw_selection how[] = {
        {.kind = SW_SELECT_ELITE, .n = 3},
        {.kind = SW_SELECT_TOURNAMENT, .n = 5, .p = 0.5},
        {.kind = SW_SELECT_ELITE, .n = 2, .stage = 1, .keep = 1},
        {.kind = SW_SELECT_SUS, .n = 6, .stage = 1},
    };
    uint32_t out[8], first[8], again[8];
    int kept[8];
    size_t n, n_first;
    OK(sw_select(f, 6, how, 2, 9, first, NULL, &n_first));
    CU_ASSERT(n_first == 8 && first[0] == 0 && first[1] == 2 && first[2] == 4);
    OK(sw_select(f, 6, how, 4, 9, out, kept, &n));
    CU_ASSERT_EQUAL(n, 8);
    CU_ASSERT_EQUAL(out[0], 0);
    for (int i = 0; i < 8; i++) {
        bool among = false;
        for (int k = 0; k < 8; k++)
            among |= first[k] == out[i];
        CU_ASSERT(among);
        CU_ASSERT_EQUAL(kept[i], i < 2);
    }
    OK(sw_select(f, 6, how, 4, 9, again, NULL, &n));
    CU_ASSERT_EQUAL(memcmp(again, out, sizeof out), 0);
}

/* Options that cannot hold are named, and nothing is written. */
SW_TEST("wrong selections are refused")
{
    const double f[] = {1, 2};
    uint32_t out[4] = {7, 7, 7, 7};
    size_t n = 99;
    static const struct {
        sw_selection how[2];
        const char *part;
    } cases[] = {
        {{{.kind = SW_SELECT_ELITE, .n = 3}}, "best 3 of 2"},
        {{{.kind = SW_SELECT_SUS}}, "n must be"},
        {{{.kind = SW_SELECT_SUS, .n = 1, .p = 0.5}}, "tournaments"},
        {{{.kind = SW_SELECT_TOURNAMENT, .n = 1, .p = 1.5}}, "1.5"},
        {{{.kind = SW_SELECT_TOURNAMENT, .n = 1, .p = NAN}}, "above 0"},
        {{{.kind = (sw_selection_kind)3, .n = 1}}, "kind 3"},
        {{{.kind = SW_SELECT_ELITE, .n = 1, .keep = 1},
          {.kind = SW_SELECT_ELITE, .n = 1, .stage = 1}},
         "keep"},
        {{{.kind = SW_SELECT_ELITE, .n = 1, .stage = 2},
          {.kind = SW_SELECT_ELITE, .n = 1, .stage = 1}},
         "go back"},
    };
    for (int i = 0; i < 8; i++)
        REFUSED(sw_select(f, 2, cases[i].how, i < 6 ? 1 : 2, 0, out, NULL, &n), SW_INVALID,
                cases[i].part);
    REFUSED(sw_select(f, 0, cases[7].how, 1, 0, out, NULL, &n), SW_INVALID, "got 0");
    CU_ASSERT(n == 99 && out[0] == 7);
}

static sw_status select_once(void *arg)
{
    const double f[] = {5, 1, 4};
    const sw_selection how = {.kind = SW_SELECT_TOURNAMENT, .n = 5};
    uint32_t out[5];
    size_t n;
    return sw_select(f, 3, &how, 1, 9, out, NULL, &n);
}

SW_TEST("selection without memory is an answer")
{
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, select_once, NULL) > 0);
}

enum { MOST_RANKED = 24, OBJECTIVES = 3 };

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

SW_TEST("ranks and distances are those of the definition")
{
    sw_dice dice = {8};
    for (int round = 0; round < 1500; round++) {
        double x[MOST_RANKED * OBJECTIVES], crowding[MOST_RANKED];
        uint32_t rank[MOST_RANKED], last = 0;
        const size_t n = 1 + sw_dice_below(&dice, MOST_RANKED);
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
SW_TEST("one objective is an order")
{
    const double x[] = {2, 7, 7, -INFINITY, INFINITY};
    const uint32_t expected[] = {2, 1, 1, 3, 0};
    uint32_t rank[5];
    OK(sw_pareto(x, 5, 1, rank, NULL));
    CU_ASSERT_EQUAL(memcmp(rank, expected, sizeof rank), 0);
    REFUSED(sw_pareto(x, 0, 1, rank, NULL), SW_INVALID, "got 0");
    REFUSED(sw_pareto(x, 5, 0, rank, NULL), SW_INVALID, "got 0");
}

SW_TEST("a draw is a function of seed, stream and number")
{
    swi_draws a = swi_draws_of(7, 1), b = swi_draws_of(7, 1), c = swi_draws_of(7, 2);
    swi_draws d = swi_draws_of(8, 1);
    int equal = 0;
    for (int i = 0; i < 1000; i++) {
        const uint64_t x = swi_draw_bits(&a);
        CU_ASSERT_EQUAL_FATAL(x, swi_draw_bits(&b));
        equal += x == swi_draw_bits(&c);
        equal += x == swi_draw_bits(&d);
    }
    CU_ASSERT_EQUAL(equal, 0);
}

SW_TEST("draws are uniform")
{
    swi_draws d = swi_draws_of(3, 5);
    int count[10] = {0}, happened = 0;
    for (int i = 0; i < 100000; i++) {
        const double u = swi_draw_range(&d, -1, 1);
        CU_ASSERT_FATAL(u >= -1 && u < 1);
        count[swi_draw_below(&d, 10)]++;
        happened += swi_draw_happens(&d, 0.25);
    }
    for (int k = 0; k < 10; k++)
        CU_ASSERT(count[k] > 9600 && count[k] < 10400);
    CU_ASSERT(happened > 24500 && happened < 25500);
}
