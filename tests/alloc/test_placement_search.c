/* The exact search against all orders of small problems, problems that are full by
 * construction, and published ones. */
#include "alloc/base/fault.h"
#include "alloc/placement/placement_internal.h"
#include "tests/alloc/placement_problems.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"

SW_TESTS("placement search")

#define MOST 400

static sw_placement_item items[MOST];

static sw_search_result searched(size_t n, size_t capacity, uint64_t nodes)
{
    const sw_placement_opts opts = {.capacity = capacity, .nodes = nodes};
    sw_search_result result = {SW_SEARCH_GAVE_UP, 0};
    const sw_status status = sw_placement_search(items, n, &opts, &result);
    SW_CHECK(status == SW_OK, "%s", sw_last_error());
    CU_ASSERT(result.nodes <= nodes);
    if (result.end == SW_SEARCH_FOUND)
        SW_CHECK(sw_placement_check(items, n, capacity) == SW_OK, "%s", sw_last_error());
    return result;
}

/* Found at the optimum, proved absent below it. */
SW_TEST("small problems are solved and refused as all orders say")
{
    sw_dice dice = {5};
    const int rounds = sw_tests_full() ? 4000 : 200;
    for (int round = 0; round < rounds; round++) {
        const size_t n = 2 + sw_dice_below(&dice, 7);
        const uint32_t horizon = 4 + (uint32_t)sw_dice_below(&dice, 8);
        problem_random(&dice, items, n, horizon, horizon / 2, 3);
        const size_t optimum = problem_least(items, n, 0, 0, 0, SIZE_MAX);
        CU_ASSERT_EQUAL(searched(n, optimum, 100000).end, SW_SEARCH_FOUND);
        CU_ASSERT_EQUAL(searched(n, optimum - 1, 100000).end, SW_SEARCH_PROVED_NONE);

        sw_placement_result best;
        const sw_placement_opts opts = {.nodes = 100000};
        CU_ASSERT_EQUAL(sw_placement_solve(items, n, &opts, &best), SW_OK);
        SW_CHECK(best.height == optimum, "%zu instead of %zu", best.height, optimum);
    }
}

/* Where the largest sum that lives at one time cannot be reached, by no order at all. */
SW_TEST("bounds that cannot be reached are refused")
{
    static const sw_placement_item first[] = {
        {4, 6, 3, 0, 0}, {2, 3, 1, 0, 0},  {2, 6, 1, 0, 0}, {0, 3, 3, 0, 0},
        {1, 4, 2, 0, 0}, {2, 3, 3, 0, 0},  {1, 3, 3, 0, 0}, {0, 1, 10, 0, 0},
        {1, 2, 5, 0, 0}, {3, 4, 10, 0, 0}, {4, 5, 9, 0, 0}, {5, 6, 9, 0, 0}};
    static const sw_placement_item second[] = {
        {1, 4, 2, 0, 0}, {2, 6, 3, 0, 0}, {4, 5, 3, 0, 0}, {4, 6, 3, 0, 0},
        {3, 4, 2, 0, 0}, {3, 6, 2, 0, 0}, {0, 3, 3, 0, 0}, {0, 1, 8, 0, 0},
        {1, 2, 6, 0, 0}, {2, 3, 3, 0, 0}, {3, 4, 2, 0, 0}, {5, 6, 3, 0, 0}};
    static const struct {
        const sw_placement_item *items;
        size_t bound;
    } cases[] = {{first, 13}, {second, 11}};
    const size_t n = sizeof first / sizeof *first;
    for (size_t i = 0; i < 2; i++) {
        memcpy(items, cases[i].items, sizeof first);
        if (sw_tests_full()) /* takes seconds */
            CU_ASSERT_EQUAL(problem_least(items, n, 0, 0, 0, cases[i].bound + 1),
                            cases[i].bound + 1);
        CU_ASSERT_EQUAL(searched(n, cases[i].bound, 100000).end, SW_SEARCH_PROVED_NONE);
        CU_ASSERT_EQUAL(searched(n, cases[i].bound + 1, 100000).end, SW_SEARCH_FOUND);
        sw_placement_result best;
        const sw_placement_opts opts = {.nodes = 100000};
        CU_ASSERT_EQUAL(sw_placement_solve(items, n, &opts, &best), SW_OK);
        CU_ASSERT(best.lower_bound == cases[i].bound && best.height == cases[i].bound + 1);
        CU_ASSERT(best.end == SW_PLACEMENT_OPTIMAL && best.proved == best.height);
        const sw_placement_opts tight = {.capacity = cases[i].bound, .nodes = 100000};
        CU_ASSERT_EQUAL(sw_placement_solve(items, n, &tight, &best), SW_OK);
        CU_ASSERT_EQUAL(best.end, SW_PLACEMENT_NO_FIT);
    }
}

/* Above 64 buffers most strategies skip a part of what their decisions lead to. */
SW_TEST("what is skipped is no proof")
{
    static const sw_placement_item part[] = {
        {4, 6, 3, 0, 0}, {2, 3, 1, 0, 0},  {2, 6, 1, 0, 0}, {0, 3, 3, 0, 0},
        {1, 4, 2, 0, 0}, {2, 3, 3, 0, 0},  {1, 3, 3, 0, 0}, {0, 1, 10, 0, 0},
        {1, 2, 5, 0, 0}, {3, 4, 10, 0, 0}, {4, 5, 9, 0, 0}, {5, 6, 9, 0, 0}};
    const size_t n_part = sizeof part / sizeof *part, n = 8 * n_part;
    for (size_t i = 0; i < n; i++) {
        items[i] = part[i % n_part];
        items[i].lower += 6 * (uint32_t)(i / n_part);
        items[i].upper += 6 * (uint32_t)(i / n_part);
    }
    CU_ASSERT_EQUAL(searched(n, 13, 100000).end, SW_SEARCH_PROVED_NONE);
    CU_ASSERT_EQUAL(searched(n, 14, 100000).end, SW_SEARCH_FOUND);

    sw_dice dice = {61};
    const int rounds = sw_tests_full() ? 200 : 20;
    int found = 0;
    for (int round = 0; round < rounds; round++) {
        const size_t n_cut =
            problem_cut(&dice, items, 70 + sw_dice_below(&dice, 120), 90, 3000);
        const sw_search_end end = searched(n_cut, 3000, 12000).end;
        CU_ASSERT_NOT_EQUAL(end, SW_SEARCH_PROVED_NONE); /* there is a placement */
        found += end == SW_SEARCH_FOUND;
    }
    sw_note("%d of %d full rectangles of 70 to 190 pieces are placed", found, rounds);
}

/* There is a placement, whatever the search says. */
SW_TEST("full rectangles are never refused")
{
    sw_dice dice = {9};
    const int rounds = sw_tests_full() ? 1500 : 80;
    int found = 0;
    for (int round = 0; round < rounds; round++) {
        const uint32_t time = 5 + (uint32_t)sw_dice_below(&dice, 60);
        const size_t units = 20 + sw_dice_below(&dice, 1000);
        const size_t n = problem_cut(&dice, items, 5 + sw_dice_below(&dice, 60), time, units);
        const sw_search_end end = searched(n, units, 5000).end;
        CU_ASSERT_NOT_EQUAL(end, SW_SEARCH_PROVED_NONE);
        found += end == SW_SEARCH_FOUND;
        CU_ASSERT_EQUAL(searched(n, units - 1, 5000).end, SW_SEARCH_PROVED_NONE);
    }
    sw_note("%d of %d full rectangles of up to 64 pieces are placed within 5,000 nodes", found,
            rounds);
    CU_ASSERT(found >= rounds * 9 / 10);
}

static bool stop_at_once(void *context)
{
    (*(int *)context)++;
    return true;
}

SW_TEST("effort and requests end a search")
{
    sw_dice dice = {21};
    int asked = 0;
    const size_t n = problem_cut(&dice, items, 300, 200, 100000);
    for (size_t i = 0; i < n; i++)
        items[i].offset = 7;
    sw_placement_opts opts = {.capacity = 100000, .nodes = 10};
    sw_search_result result;
    CU_ASSERT_EQUAL(sw_placement_search(items, n, &opts, &result), SW_OK);
    CU_ASSERT(result.end == SW_SEARCH_GAVE_UP && result.nodes == 10);
    opts.nodes = 1000000;
    opts.stop = stop_at_once;
    opts.context = &asked;
    CU_ASSERT_EQUAL(sw_placement_search(items, n, &opts, &result), SW_OK);
    CU_ASSERT(result.end == SW_SEARCH_GAVE_UP && result.nodes <= 16 && asked > 0);
    for (size_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL_FATAL(items[i].offset, 7); /* as before */
    CU_ASSERT_EQUAL(sw_placement_search(items, 0, &opts, &result), SW_INVALID);
    CU_ASSERT_EQUAL(sw_placement_search(items, SW_SEARCH_MOST + 1, &opts, &result), SW_INVALID);
}

SW_TEST("equal input gives equal output")
{
    static sw_placement_item again[MOST];
    sw_dice dice = {33};
    const size_t n = problem_cut(&dice, items, 40, 50, 700);
    memcpy(again, items, sizeof again);
    const sw_search_result first = searched(n, 720, 20000);
    const sw_placement_opts opts = {.capacity = 720, .nodes = 20000};
    sw_search_result second;
    CU_ASSERT_EQUAL(sw_placement_search(again, n, &opts, &second), SW_OK);
    CU_ASSERT(first.end == SW_SEARCH_FOUND && second.end == SW_SEARCH_FOUND);
    CU_ASSERT_EQUAL(first.nodes, second.nodes);
    for (size_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(items[i].offset, again[i].offset);
}

/* The race is won by nodes, not by time; threads that cannot be had change nothing. */
SW_TEST("threads do not change the answer")
{
    static sw_placement_item again[MOST];
    static const unsigned threads[] = {1, 2, 3, 5, 64};
    sw_dice dice = {51};
    for (int round = 0; round < 12; round++) {
        const size_t n = problem_cut(&dice, items, 60, 90, 900);
        const size_t capacity = round % 3 == 2 ? 899 : 900; /* a third has no placement */
        sw_search_result first = {SW_SEARCH_GAVE_UP, 0, 0}, r;
        memcpy(again, items, sizeof again);
        for (size_t k = 0; k < 2 * sizeof threads / sizeof *threads; k++) {
            const bool fails = k % 2 == 1;
            const sw_placement_opts opts = {
                .capacity = capacity, .nodes = 60000, .threads = threads[k / 2]};
            memcpy(items, again, sizeof again);
            if (fails)
                sw_fault_plan(SW_FAULT_THREAD, k % 3, SW_FAULT_FROM);
            SW_CHECK(sw_placement_search(items, n, &opts, &r) == SW_OK, "%s", sw_last_error());
            sw_fault_plan(SW_FAULT_THREAD, 0, SW_FAULT_OFF);
            if (k == 0)
                first = r;
            SW_CHECK(r.end == first.end && r.nodes == first.nodes && r.proved == first.proved,
                     "%u threads: %llu nodes, not %llu", threads[k / 2],
                     (unsigned long long)r.nodes, (unsigned long long)first.nodes);
            static size_t offsets[MOST];
            for (size_t i = 0; i < n; i++) {
                offsets[i] = k == 0 ? items[i].offset : offsets[i];
                CU_ASSERT_EQUAL(items[i].offset, offsets[i]);
            }
        }
    }
}

static sw_status search_again(void *arg)
{
    const sw_placement_opts opts = {.capacity = 720, .nodes = 20000};
    sw_search_result result;
    return sw_placement_search(items, *(const size_t *)arg, &opts, &result);
}

SW_TEST("every allocation can fail")
{
    sw_dice dice = {41};
    size_t n = problem_cut(&dice, items, 60, 50, 700);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, search_again, &n) >= 4);
}

/* ---- published problems ------------------------------------------------------------------ */

static void published(const char *name, size_t count, uint64_t nodes)
{
    const size_t n = problem_read(items, MOST, name);
    if (n == 0)
        return;
    CU_ASSERT_EQUAL_FATAL(n, count);
    const sw_search_result result = searched(n, 1048576, nodes);
    CU_ASSERT_EQUAL(result.end, SW_SEARCH_FOUND);
    sw_note("%s: placed after %llu nodes", name, (unsigned long long)result.nodes);
}

/* Greedy orders need 1.17 to 1.41 times the capacity. */
SW_TEST("published problems are placed")
{
    published("minimalloc/A.1048576.csv", 154, 20000);
    published("minimalloc/B.1048576.csv", 170, 20000);
    published("minimalloc/C.1048576.csv", 203, 20000);
    published("minimalloc/E.1048576.csv", 215, 20000);
    published("minimalloc/G.1048576.csv", 308, 20000);
    published("minimalloc/I.1048576.csv", 374, 20000);
}
