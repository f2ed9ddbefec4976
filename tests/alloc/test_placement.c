/* The placement solver against its checker, problems with a known optimum, and published ones.
 */
#include "alloc/placement/placement_internal.h"
#include "alloc/base/fault.h"
#include "tests/alloc/placement_problems.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"

SW_TESTS("place")

#define MAX_ITEMS 40000

static sw_placement_item items[MAX_ITEMS];

/* Solve the first n items and check everything that is promised. */
static sw_placement_result solved(size_t n, const char *name)
{
    sw_placement_result result = {0};
    const sw_status status = sw_placement_greedy(items, n, NULL, &result);
    SW_CHECK(status == SW_OK, "%s: %s", name, sw_last_error());
    if (status != SW_OK)
        return result;
    size_t top = 0;
    bool aligned = true, sizes_aligned = true;
    for (size_t i = 0; i < n; i++) {
        top = items[i].offset + items[i].bytes > top ? items[i].offset + items[i].bytes : top;
        aligned = aligned && items[i].offset % SW_ALIGN == 0;
        sizes_aligned = sizes_aligned && items[i].bytes % SW_ALIGN == 0;
    }
    const sw_status checked = sw_placement_check(items, n, result.height);
    SW_CHECK(checked == SW_OK, "%s: %s", name, sw_last_error());
    SW_CHECK(result.height == top, "%s: height %zu, top %zu", name, result.height, top);
    SW_CHECK(result.height >= result.lower_bound, "%s: below the bound", name);
    SW_CHECK(aligned || !sizes_aligned, "%s: offsets are not aligned", name);
    return result;
}

static void random_items(sw_dice *dice, size_t n, uint32_t horizon, size_t largest)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t longest = 1 + horizon / (1 + (uint32_t)sw_dice_below(dice, 8));
        items[i].lower = (uint32_t)sw_dice_below(dice, horizon);
        items[i].upper = items[i].lower + 1 + (uint32_t)sw_dice_below(dice, longest);
        items[i].bytes = SW_ALIGN * (1 + sw_dice_below(dice, largest));
    }
}

SW_TEST("random problems are solved soundly and near the bound")
{
    sw_dice dice = {1};
    double worst = 0;
    const int rounds = sw_tests_full() ? 20000 : 1000;
    for (int round = 0; round < rounds; round++) {
        const size_t n = 1 + sw_dice_below(&dice, 60);
        const uint32_t horizon = 1 + (uint32_t)sw_dice_below(&dice, 100);
        random_items(&dice, n, horizon, 1 + sw_dice_below(&dice, 500));
        const sw_placement_result result = solved(n, "random");
        CU_ASSERT_EQUAL(result.lower_bound, problem_load(items, n));
        const double ratio = (double)result.height / (double)result.lower_bound;
        worst = ratio > worst ? ratio : worst;
    }
    CU_ASSERT(worst < 1.5);
    sw_note("%d random problems: worst height / lower bound %.3f", rounds, worst);
}

SW_TEST("rectangles cut into pieces come near their known optimum")
{
    sw_dice dice = {7};
    const int rounds = sw_tests_full() ? 400 : 30;
    double sum = 0, worst = 0;
    int optimal = 0;
    for (int round = 0; round < rounds; round++) {
        const size_t units = 200 + sw_dice_below(&dice, 5000);
        const uint32_t time = 50 + (uint32_t)sw_dice_below(&dice, 500);
        const size_t n = problem_cut(&dice, items, 20 + sw_dice_below(&dice, 200), time, units);
        for (size_t i = 0; i < n; i++)
            items[i].bytes *= SW_ALIGN;
        const sw_placement_result result = solved(n, "rectangle");
        CU_ASSERT_EQUAL(result.lower_bound, units * SW_ALIGN);
        const double ratio = (double)result.height / (double)(units * SW_ALIGN);
        sum += ratio;
        worst = ratio > worst ? ratio : worst;
        optimal += result.height == units * SW_ALIGN;
    }
    CU_ASSERT(worst <= 1.5);
    sw_note("%d full rectangles: mean height / optimum %.3f, worst %.3f, %d optimal", rounds,
            sum / rounds, worst, optimal);
}

SW_TEST("equal input gives equal output")
{
    static sw_placement_item again[200];
    sw_dice dice = {3};
    random_items(&dice, 200, 60, 300);
    memcpy(again, items, sizeof again);
    const sw_placement_result first = solved(200, "first");
    sw_placement_result second;
    memset(items, 0xff, sizeof *items * 300); /* nothing of the first call may matter */
    CU_ASSERT_EQUAL(sw_placement_greedy(again, 200, NULL, &second), SW_OK);
    CU_ASSERT_EQUAL(first.height, second.height);
    CU_ASSERT_EQUAL(first.n_orders, second.n_orders);
    CU_ASSERT_EQUAL(sw_placement_check(again, 200, first.height), SW_OK);
}

SW_TEST("chains, stacks and nested lifetimes reach the lower bound")
{
    sw_placement_result result = {.height = 5};
    CU_ASSERT_EQUAL(sw_placement_greedy(NULL, 0, NULL, &result), SW_OK);
    CU_ASSERT_EQUAL(result.height + result.lower_bound, 0);
    for (uint32_t i = 0; i < 50; i++) /* one after the other */
        items[i] = (sw_placement_item){i, i + 1, 64 * (i + 1), 0, 0};
    CU_ASSERT_EQUAL(solved(50, "chain").height, 64 * 50);
    for (uint32_t i = 0; i < 50; i++) /* all together */
        items[i] = (sw_placement_item){0, UINT32_MAX, 64 * (i + 1), 0, 0};
    CU_ASSERT_EQUAL(solved(50, "stack").height, 64 * 50 * 51 / 2);
    for (uint32_t i = 0; i < 50; i++) /* forward and backward of a net: nested lifetimes */
        items[i] = (sw_placement_item){i, 100 - i, 64 * (1 + i % 7), 0, 0};
    const sw_placement_result nested = solved(50, "nested");
    CU_ASSERT_EQUAL(nested.height, nested.lower_bound);
}

SW_TEST("bad items are named")
{
    const sw_placement_opts plan = {0};
    sw_placement_result result;
    items[0] = (sw_placement_item){0, 1, 64, 0, 0};
    items[1] = (sw_placement_item){3, 3, 64, 0, 0};
    CU_ASSERT_EQUAL(sw_placement_solve(items, 2, &plan, &result), SW_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "buffer 1"));
    items[1] = (sw_placement_item){5, 4, 64, 0, 0};
    CU_ASSERT_EQUAL(sw_placement_solve(items, 2, &plan, &result), SW_INVALID);
    items[1] = (sw_placement_item){3, 4, 0, 0, 0};
    CU_ASSERT_EQUAL(sw_placement_solve(items, 2, &plan, &result), SW_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "buffer 1"));
    items[0].bytes = items[1].bytes = SIZE_MAX / 2 + 1;
    CU_ASSERT_EQUAL(sw_placement_solve(items, 2, &plan, &result), SW_NOMEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "overflow"));
}

SW_TEST("the checker finds planted overlaps")
{
    sw_dice dice = {11};
    int planted = 0;
    for (int round = 0; round < 300; round++) {
        const size_t n = 2 + sw_dice_below(&dice, 30);
        random_items(&dice, n, 40, 50);
        const sw_placement_result result = solved(n, "to be broken");
        CU_ASSERT_EQUAL(sw_placement_check(items, n, result.height - 1), SW_INVALID);
        /* Move one buffer onto another that lives at the same time, by their last or first
         * bytes. */
        const size_t a = sw_dice_below(&dice, n), b = sw_dice_below(&dice, n);
        if (a == b || items[a].lower >= items[b].upper || items[b].lower >= items[a].upper)
            continue;
        const size_t kept = items[a].offset;
        items[a].offset = items[b].offset + items[b].bytes - 1;
        CU_ASSERT_EQUAL(sw_placement_check(items, n, SIZE_MAX), SW_INVALID);
        items[a].offset = kept;
        CU_ASSERT_EQUAL(sw_placement_check(items, n, result.height), SW_OK);
        planted++;
    }
    CU_ASSERT(planted > 50);
    items[0] = (sw_placement_item){0, 2, 64, SIZE_MAX - 10, 0}; /* an end that wraps around */
    items[1] = (sw_placement_item){0, 2, 64, 0, 0};
    CU_ASSERT_EQUAL(sw_placement_check(items, 2, SIZE_MAX), SW_INVALID);
    items[0] = (sw_placement_item){0, 2, 64, 0, 0};
    items[1] = (sw_placement_item){2, 4, 64, 32,
                                   0}; /* half-open: the one ends where the other begins */
    CU_ASSERT_EQUAL(sw_placement_check(items, 2, 96), SW_OK);
    items[1].lower = 1;
    CU_ASSERT_EQUAL(sw_placement_check(items, 2, 96), SW_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "0 and 1"));
}

static sw_status solve_some(void *unused)
{
    sw_dice dice = {5};
    sw_placement_result result;
    random_items(&dice, 30, 20, 20);
    return sw_placement_greedy(items, 30, NULL, &result);
}

SW_TEST("its scratch memory can fail")
{
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, solve_some, NULL), 1);
}

/* ---- published problems ------------------------------------------------------------------ */

static void published(const char *name, size_t count, double most)
{
    const size_t n = problem_read(items, MAX_ITEMS, name);
    if (n == 0)
        return;
    SW_CHECK(n == count, "%s: %zu buffers", name, n);
    const sw_placement_result result = solved(n, name);
    const double ratio = (double)result.height / (double)result.lower_bound;
    sw_note("%s: %zu buffers, height / lower bound %.4f", name, n, ratio);
    SW_CHECK(ratio <= most, "%s: %.4f", name, ratio);
}

SW_TEST("hard published problems are solved soundly")
{
    published("minimalloc/A.1048576.csv", 154, 1.5);
    published("minimalloc/B.1048576.csv", 170, 1.5);
    published("minimalloc/C.1048576.csv", 203, 1.5);
    published("minimalloc/E.1048576.csv", 215, 1.5);
    published("minimalloc/G.1048576.csv", 308, 1.5);
    published("minimalloc/I.1048576.csv", 374, 1.5);
}

SW_TEST("published training steps come within two percent")
{
    published("placement-large/G_1.csv", 816, 1.01);
    published("placement-large/resnet50.csv", 1042, 1.02);
}

SW_TEST("the largest published problem comes within five percent", .full = true)
{
    published("placement-large/S_1.csv", 28526, 1.05);
}
