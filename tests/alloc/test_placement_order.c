/* The rows of a problem in any order: the same offsets for the same buffers, by every method of
 * the portfolio. */
#include "alloc/placement/placement.h"
#include "alloc/placement/placement_internal.h"
#include "tests/alloc/placement_problems.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"

SW_TESTS("placement order")

#define MOST 6000

static sw_placement_item items[MOST], again[MOST];

static int compare(size_t a, size_t b)
{
    return a < b ? -1 : a > b;
}

/* All that a buffer is, its offset last: equal buffers may change places. */
static int by_all(const void *a, const void *b)
{
    const sw_placement_item *x = a, *y = b;
    int by = compare(x->lower, y->lower);
    by = by != 0 ? by : compare(x->upper, y->upper);
    by = by != 0 ? by : compare(x->bytes, y->bytes);
    by = by != 0 ? by : compare(x->align, y->align);
    return by != 0 ? by : compare(x->offset, y->offset);
}

static sw_placement_result solved(sw_placement_item *rows, size_t n, size_t capacity)
{
    const sw_placement_opts opts = {.capacity = capacity, .nodes = 20000};
    sw_placement_result r = {0};
    SW_CHECK(sw_placement_solve(rows, n, &opts, &r) == SW_OK, "%s", sw_last_error());
    return r;
}

/* `items` as they stand and in `rounds` other orders. */
static void same_in_any_order(sw_dice *dice, size_t n, size_t capacity, int rounds,
                              const char *what)
{
    const sw_placement_result first = solved(items, n, capacity);
    qsort(items, n, sizeof *items, by_all);
    for (int round = 0; round < rounds; round++) {
        memcpy(again, items, n * sizeof *items);
        problem_shuffle(dice, again, n);
        for (size_t i = 0; i < n; i++)
            again[i].offset = 0;
        const sw_placement_result r = solved(again, n, capacity);
        SW_CHECK(r.height == first.height && r.end == first.end && r.nodes == first.nodes &&
                     r.proved == first.proved && strcmp(r.method, first.method) == 0,
                 "%s: height %zu instead of %zu", what, r.height, first.height);
        qsort(again, n, sizeof *again, by_all);
        for (size_t i = 0; i < n; i++)
            SW_CHECK(by_all(&items[i], &again[i]) == 0, "%s: buffer %zu is at %zu, was at %zu",
                     what, i, again[i].offset, items[i].offset);
    }
}

static void random_items(sw_dice *dice, size_t n, uint32_t horizon, size_t largest)
{
    problem_random(dice, items, n, horizon, horizon / 8 + 1, largest);
    for (size_t i = 0; i < n; i++)
        items[i].align = sw_dice_below(dice, 8) == 0 ? 128 : 0;
}

SW_TEST("random rows in any order have the same offsets")
{
    sw_dice dice = {3};
    for (int round = 0; round < 40; round++) {
        const size_t n = 2 + sw_dice_below(&dice, 90);
        random_items(&dice, n, 4 + (uint32_t)sw_dice_below(&dice, 60), 6);
        same_in_any_order(&dice, n, 0, 3, "small");
    }
    random_items(&dice, MOST, 3000, 900);
    same_in_any_order(&dice, MOST, 0, 1, "many buffers");
    const size_t n = problem_cut(&dice, items, 60, 50, 700);
    same_in_any_order(&dice, n, 700, 4, "a full rectangle");
}

SW_TEST("published rows in any order have the same offsets")
{
    static const char *const names[] = {"minimalloc/A.1048576.csv", "minimalloc/B.1048576.csv",
                                        "minimalloc/C.1048576.csv", "minimalloc/E.1048576.csv",
                                        "minimalloc/G.1048576.csv", "minimalloc/I.1048576.csv"};
    sw_dice dice = {5};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = problem_read(items, MOST, names[i]);
        if (n == 0)
            return;
        CU_ASSERT_FATAL(n > 100);
        same_in_any_order(&dice, n, 1048576, 2, names[i]);
        CU_ASSERT(sw_placement_check(again, n, 1048576) == SW_OK);
    }
}

SW_TEST("the order is total and stable")
{
    static uint32_t order[MOST], scratch[MOST];
    sw_dice dice = {8};
    for (int round = 0; round < 100; round++) {
        const size_t n = 1 + sw_dice_below(&dice, 200);
        random_items(&dice, n, 8, 2);
        for (size_t i = 0; i < n; i++)
            items[i].offset = i; /* no part of the order */
        swi_placement_order(items, n, 64, order, scratch);
        for (size_t k = 0; k < n; k++)
            again[k] = items[order[k]];
        CU_ASSERT(swi_placement_is_ordered(again, n, 64));
        for (size_t k = 1; k < n; k++) {
            sw_placement_item a = again[k - 1], b = again[k];
            a.offset = b.offset = 0;
            if (by_all(&a, &b) == 0)
                CU_ASSERT(order[k - 1] < order[k]);
        }
        qsort(again, n, sizeof *again, by_all);
        qsort(items, n, sizeof *items, by_all);
        CU_ASSERT(memcmp(again, items, n * sizeof *items) == 0);
    }
    CU_ASSERT(swi_placement_is_ordered(items, 0, 0) && swi_placement_is_ordered(items, 1, 64));
}

static sw_status solve_again(void *arg)
{
    const sw_placement_opts opts = {.nodes = 500};
    sw_placement_result r;
    return sw_placement_solve(items, *(const size_t *)arg, &opts, &r);
}

SW_TEST("every allocation can fail")
{
    sw_dice dice = {13};
    size_t n = problem_cut(&dice, items, 200, 90, 900);
    CU_ASSERT(!swi_placement_is_ordered(items, n, 1));
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, solve_again, &n);
    SW_CHECK(sites >= 5, "%llu", (unsigned long long)sites);
}
