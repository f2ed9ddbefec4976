/* Placement with alignments: every method against every order of tiny problems, larger ones
 * against the checkers, and that alignments which ask for nothing change nothing. */
#include "alloc/placement/placement_internal.h"
#include "tests/alloc/placement_problems.h"
#include "tests/support/suite.h"

SW_TESTS("placement alignment")

#define MOST 6000

static sw_placement_item items[MOST], again[MOST];

static void random_items(sw_dice *dice, size_t n, uint32_t horizon, size_t largest,
                         const size_t *aligns, size_t n_aligns, size_t unit)
{
    problem_random(dice, items, n, horizon, horizon / 2 + 1, largest);
    for (size_t i = 0; i < n; i++) {
        items[i].bytes = items[i].bytes / SW_ALIGN * unit;
        items[i].align = aligns[sw_dice_below(dice, n_aligns)];
    }
}

static const size_t aligns[] = {0, 1, 2, 3, 4, 6, 8, 12, 5};
static const size_t powers[] = {0, 4, 16, 64, 256};

static void check(size_t n, size_t height, const char *what)
{
    size_t top = 0;
    for (size_t i = 0; i < n; i++)
        top = items[i].offset + items[i].bytes > top ? items[i].offset + items[i].bytes : top;
    SW_CHECK(top == height, "%s: height %zu, top %zu", what, height, top);
    SW_CHECK(sw_placement_check(items, n, height) == SW_OK, "%s: %s", what, sw_last_error());
}

static void search(size_t n, size_t capacity, sw_search_end wanted)
{
    const sw_placement_opts opts = {.capacity = capacity, .nodes = 100000};
    sw_search_result result = {SW_SEARCH_GAVE_UP, 0, 0};
    SW_CHECK(sw_placement_search(items, n, &opts, &result) == SW_OK, "%s", sw_last_error());
    SW_CHECK(result.end == wanted, "%zu: ended as %d", capacity, (int)result.end);
    if (result.end == SW_SEARCH_FOUND)
        SW_CHECK(sw_placement_check(items, n, capacity) == SW_OK, "%s", sw_last_error());
}

/* Found at the optimum and proved absent below it; nothing is lower than the optimum. */
SW_TEST("tiny problems end as all orders say")
{
    sw_dice dice = {17};
    const int rounds = sw_tests_full() ? 20000 : 200;
    int above = 0;
    for (int round = 0; round < rounds; round++) {
        const size_t n = 2 + sw_dice_below(&dice, 5), unit = 1 + sw_dice_below(&dice, 3);
        random_items(&dice, n, 3 + (uint32_t)sw_dice_below(&dice, 6), 9, aligns,
                     sizeof aligns / sizeof *aligns, unit);
        const size_t optimum = problem_least(items, n, 0, 0, 0, SIZE_MAX);
        search(n, optimum, SW_SEARCH_FOUND);
        if (optimum > 1)
            search(n, optimum - 1, SW_SEARCH_PROVED_NONE);

        sw_placement_result r;
        CU_ASSERT_EQUAL(sw_placement_greedy(items, n, NULL, &r), SW_OK);
        check(n, r.height, "greedy");
        CU_ASSERT(r.height >= optimum && r.lower_bound <= optimum);
        CU_ASSERT_EQUAL(sw_placement_large(items, n, 0, NULL, &r), SW_OK);
        check(n, r.height, "niches");
        CU_ASSERT(r.height >= optimum && r.proved <= optimum);
        const sw_placement_opts opts = {.nodes = 100000};
        CU_ASSERT_EQUAL(sw_placement_solve(items, n, &opts, &r), SW_OK);
        check(n, r.height, "all");
        SW_CHECK(r.height == optimum && r.end == SW_PLACEMENT_OPTIMAL && r.proved == optimum,
                 "%zu instead of %zu, %zu proved", r.height, optimum, r.proved);
        above += optimum > r.lower_bound;
        const sw_placement_opts tight = {.capacity = optimum - 1, .nodes = 100000};
        if (tight.capacity == 0)
            continue;
        CU_ASSERT_EQUAL(sw_placement_solve(items, n, &tight, &r), SW_OK);
        CU_ASSERT_EQUAL(r.end, SW_PLACEMENT_NO_FIT);
    }
    sw_note("%d tiny problems, %d with an optimum above the lower bound", rounds, above);
    CU_ASSERT(above > rounds / 10);
}

/* The limit of an attempt comes in the last choice of a decision that leads to the placement.
 */
SW_TEST("a choice that is cut short is no proof")
{
    static const sw_placement_item six[] = {{4, 6, 7, 0, 0}, {1, 4, 4, 0, 6},  {4, 5, 5, 0, 3},
                                            {4, 6, 2, 0, 4}, {2, 5, 1, 0, 12}, {0, 3, 9, 0, 5}};
    memcpy(items, six, sizeof six);
    search(6, 19, SW_SEARCH_FOUND);
}

SW_TEST("larger problems are placed soundly")
{
    sw_dice dice = {18};
    const size_t sizes[] = {50, 200, 1000, MOST};
    for (size_t k = 0; k < (sw_tests_full() ? 4 : 2); k++)
        for (int kind = 0; kind < 2; kind++) {
            const size_t n = sizes[k];
            sw_placement_result r;
            random_items(&dice, n, (uint32_t)n, 5000, kind == 0 ? aligns : powers,
                         kind == 0 ? 9 : 5, 1);
            const sw_placement_opts opts = {.nodes = 2000};
            CU_ASSERT_EQUAL(sw_placement_solve(items, n, &opts, &r), SW_OK);
            check(n, r.height, "larger");
            SW_CHECK((double)r.height <= 1.5 * (double)r.lower_bound, "%zu: %zu over %zu", n,
                     r.height, r.lower_bound);
        }
}

/* Bit for bit the same for problems with sizes that are multiples of their alignments. */
SW_TEST("alignments that all sizes have change nothing")
{
    sw_dice dice = {19};
    for (int round = 0; round < 40; round++) {
        const size_t n = round < 38 ? 1 + sw_dice_below(&dice, 150) : MOST;
        sw_placement_result with, without;
        const sw_placement_opts opts = {.nodes = 500};
        random_items(&dice, n, 100, 500, aligns, 8, 24);
        memcpy(again, items, sizeof again);
        for (size_t i = 0; i < n; i++)
            again[i].align = 0;
        CU_ASSERT_EQUAL(sw_placement_solve(items, n, &opts, &with), SW_OK);
        CU_ASSERT_EQUAL(sw_placement_solve(again, n, &opts, &without), SW_OK);
        CU_ASSERT(with.height == without.height && with.nodes == without.nodes);
        size_t others = 0;
        for (size_t i = 0; i < n; i++)
            others += items[i].offset != again[i].offset;
        CU_ASSERT_EQUAL(others, 0);
    }
}

SW_TEST("the checker names what is not aligned")
{
    items[0] = (sw_placement_item){0, 2, 10, 0, 7};
    items[1] = (sw_placement_item){0, 2, 10, 14, 7};
    CU_ASSERT_EQUAL(sw_placement_check(items, 2, 24), SW_OK);
    items[1].offset = 13;
    CU_ASSERT_EQUAL(sw_placement_check(items, 2, 24), SW_INVALID);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(sw_last_error(), "buffer 1 is at 13, which is not a multiple of 7"));
}

SW_TEST("sums with alignments may not overflow")
{
    const sw_placement_opts opts = {0};
    sw_placement_result r;
    items[0] = (sw_placement_item){0, 2, 10, 0, SIZE_MAX / 2};
    items[1] = (sw_placement_item){0, 2, 10, 0, SIZE_MAX / 2};
    CU_ASSERT_EQUAL(sw_placement_solve(items, 2, &opts, &r), SW_NOMEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "alignments"));
    items[0].align = items[1].align = SIZE_MAX / 16;
    CU_ASSERT_EQUAL(sw_placement_solve(items, 2, &opts, &r), SW_OK);
    check(2, r.height, "far apart");
    CU_ASSERT_EQUAL(r.height, SIZE_MAX / 16 + 10);
    CU_ASSERT_EQUAL(r.end, SW_PLACEMENT_OPTIMAL);
}
