/* Placement of many buffers: a checker that paints a skyline (n log n, nothing shared with the
 * solver), problems of known optimum, shapes of training steps, published traces. */
#include "alloc/placement/placement_internal.h"
#include "alloc/base/mem.h"
#include "tests/alloc/placement_problems.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <time.h>

SW_TESTS("place-large")

#define MAX_ITEMS 1000000

static sw_placement_item items[MAX_ITEMS];

/* ---- the checker ------------------------------------------------------------------------- */

static uint32_t by_offset[MAX_ITEMS], instants[2 * MAX_ITEMS];
static size_t top[4u << 21], under[4u << 21]; /* of a tree over instants: highest, and of all */

static int compare_offsets(const void *a, const void *b)
{
    const size_t x = items[*(const uint32_t *)a].offset, y = items[*(const uint32_t *)b].offset;
    return (x > y) - (x < y);
}

static int compare_instants(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static size_t index_of(uint32_t instant, size_t n)
{
    const uint32_t *at = bsearch(&instant, instants, n, sizeof instant, compare_instants);
    return (size_t)(at - instants);
}

/* The highest top so far over [from, to); node k covers [a, b). */
static size_t highest(size_t k, size_t a, size_t b, size_t from, size_t to)
{
    if (to <= a || b <= from)
        return 0;
    if (from <= a && b <= to)
        return top[k];
    const size_t mid = (a + b) / 2;
    const size_t l = highest(2 * k, a, mid, from, to), r = highest(2 * k + 1, mid, b, from, to);
    const size_t both = l > r ? l : r;
    return both > under[k] ? both : under[k];
}

static void paint(size_t k, size_t a, size_t b, size_t from, size_t to, size_t end)
{
    if (to <= a || b <= from)
        return;
    top[k] = end > top[k] ? end : top[k];
    if (from <= a && b <= to) {
        under[k] = end > under[k] ? end : under[k];
        return;
    }
    const size_t mid = (a + b) / 2;
    paint(2 * k, a, mid, from, to, end);
    paint(2 * k + 1, mid, b, from, to, end);
}

/* Two buffers overlap exactly where one lies under the top of another that starts no higher:
 * walk upward and paint. Returns the number of buffers that do, and the height. */
static size_t overlaps(size_t n, size_t *height)
{
    size_t n_instants = 0, found = 0;
    for (size_t i = 0; i < n; i++) {
        by_offset[i] = (uint32_t)i;
        instants[2 * i] = items[i].lower;
        instants[2 * i + 1] = items[i].upper;
    }
    qsort(instants, 2 * n, sizeof *instants, compare_instants);
    for (size_t i = 0; i < 2 * n; i++)
        if (i == 0 || instants[i] != instants[n_instants - 1])
            instants[n_instants++] = instants[i];
    qsort(by_offset, n, sizeof *by_offset, compare_offsets);
    memset(top, 0, sizeof *top * 4 * n_instants);
    memset(under, 0, sizeof *under * 4 * n_instants);
    *height = 0;
    for (size_t i = 0; i < n; i++) {
        const sw_placement_item *item = &items[by_offset[i]];
        const size_t from = index_of(item->lower, n_instants);
        const size_t to = index_of(item->upper, n_instants), end = item->offset + item->bytes;
        found += highest(1, 0, n_instants, from, to) > item->offset || end < item->bytes;
        paint(1, 0, n_instants, from, to, end);
        *height = end > *height ? end : *height;
    }
    return found;
}

/* Solve the first n items and check what is promised. */
static sw_placement_result solved_under(size_t n, const sw_placement_opts *opts,
                                        const char *name)
{
    sw_placement_result result = {0};
    size_t height;
    const sw_status status = sw_placement_large(items, n, 0, opts, &result);
    SW_CHECK(status == SW_OK, "%s: %s", name, sw_last_error());
    if (status != SW_OK)
        return result;
    const size_t wrong = overlaps(n, &height);
    SW_CHECK(wrong == 0, "%s: %zu of %zu buffers lie in others", name, wrong, n);
    SW_CHECK(height == result.height, "%s: height %zu, top %zu", name, result.height, height);
    SW_CHECK(height >= result.lower_bound, "%s: below the bound", name);
    SW_CHECK((result.end == SW_PLACEMENT_OPTIMAL) == (height == result.lower_bound),
             "%s: ended as %d", name, (int)result.end);
    return result;
}

static sw_placement_result solved(size_t n, const char *name)
{
    return solved_under(n, NULL, name);
}

/* The same with a line about it; returns height / lower bound. */
static double measured(size_t n, const char *name)
{
    sw_placement_result result = {0};
    const clock_t begin = clock();
    const sw_status status = sw_placement_large(items, n, 0, NULL, &result);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    size_t height;
    SW_CHECK(status == SW_OK, "%s: %s", name, sw_last_error());
    SW_CHECK(overlaps(n, &height) == 0 && height == result.height, "%s: overlaps", name);
    const double ratio = (double)result.height / (double)result.lower_bound;
    sw_note("%s: %zu buffers, height / lower bound %.5f, %.3f s", name, n, ratio, seconds);
    return ratio;
}

/* ---- problems ---------------------------------------------------------------------------- */

static void random_items(sw_dice *dice, size_t n, uint32_t horizon, uint32_t longest)
{
    problem_random(dice, items, n, horizon, longest, 1000);
}

/* Steps of a chain of layers, ten buffers each: parameters and moments for the whole time,
 * saved activations, temporaries of forward and backward, gradients that flow back or wait. */
static void training_items(sw_dice *dice, size_t n)
{
    const uint32_t layers = (uint32_t)(n / 10), end = 8 * layers;
    for (uint32_t layer = 0; layer < layers; layer++) {
        sw_placement_item *out = items + 10 * (size_t)layer;
        const uint32_t f = 4 * layer, b = end - f - 4;
        const size_t act = SW_ALIGN * (1 + sw_dice_below(dice, 4096));
        const size_t weights = SW_ALIGN * (1 + sw_dice_below(dice, 1024));
        out[0] = (sw_placement_item){f, b + 3, act, 0, 0}; /* saved */
        out[1] = (sw_placement_item){f, b + 1, SW_ALIGN + act / 4 / SW_ALIGN * SW_ALIGN, 0, 0};
        if (sw_dice_below(dice, 3) == 0) /* used again by a later layer only */
            out[1].upper = f + 1 + (uint32_t)sw_dice_below(dice, b - f);
        out[2] = (sw_placement_item){f + 1, f + 3, act, 0, 0}; /* temporaries */
        out[3] = (sw_placement_item){f + 2, f + 5, 2 * act, 0, 0};
        out[4] =
            (sw_placement_item){f, f + 2, SW_ALIGN * (1 + sw_dice_below(dice, 8192)), 0, 0};
        out[5] = (sw_placement_item){b, b + 3, act, 0, 0}; /* gradients */
        out[6] = (sw_placement_item){b + 1, b + 4, act, 0, 0};
        out[7] =
            (sw_placement_item){b, b + 2, SW_ALIGN * (1 + sw_dice_below(dice, 8192)), 0, 0};
        out[8] = (sw_placement_item){b, end, weights, 0, 0};
        out[9] = (sw_placement_item){0, end, 3 * weights, 0, 0};
    }
}

/* Cut time x bytes into n pieces: a placement of exactly that height exists, and no lower one.
 */
static void cut_rectangle(sw_dice *dice, size_t n, uint32_t time, size_t units)
{
    items[0] = (sw_placement_item){0, time, units, 0, 0};
    for (size_t count = 1; count < n;) {
        sw_placement_item *piece = &items[sw_dice_below(dice, count)], *rest = &items[count];
        if (sw_dice_below(dice, 2) == 0 && piece->bytes > 1) {
            *rest = *piece;
            rest->bytes = 1 + sw_dice_below(dice, piece->bytes - 1);
            piece->bytes -= rest->bytes;
            count++;
        } else if (piece->upper - piece->lower > 1) {
            *rest = *piece;
            rest->lower += 1 + (uint32_t)sw_dice_below(dice, piece->upper - piece->lower - 1);
            piece->upper = rest->lower;
            count++;
        }
    }
}

/* The same problem with time running backward. */
static void turn_time(size_t n)
{
    uint32_t last = 0;
    for (size_t i = 0; i < n; i++)
        last = items[i].upper > last ? items[i].upper : last;
    for (size_t i = 0; i < n; i++) {
        const uint32_t lower = items[i].lower;
        items[i].lower = last - items[i].upper;
        items[i].upper = last - lower;
    }
}

/* ---- tests ------------------------------------------------------------------------------- */

SW_TEST("small problems are solved soundly and near the bound")
{
    sw_dice dice = {1};
    double worst = 0;
    const int rounds = sw_tests_full() ? 20000 : 400;
    for (int round = 0; round < rounds; round++) {
        const size_t n = 1 + sw_dice_below(&dice, 60);
        random_items(&dice, n, 1 + (uint32_t)sw_dice_below(&dice, 100),
                     1 + (uint32_t)sw_dice_below(&dice, 80));
        const sw_placement_result result = solved(n, "small");
        CU_ASSERT_EQUAL(result.lower_bound, problem_load(items, n));
        CU_ASSERT_EQUAL(sw_placement_check(items, n, result.height), SW_OK);
        const double ratio = (double)result.height / (double)result.lower_bound;
        worst = ratio > worst ? ratio : worst;
    }
    CU_ASSERT(worst < 1.3);
    sw_note("%d small problems: worst height / lower bound %.3f", rounds, worst);
}

SW_TEST("the checker finds planted overlaps")
{
    sw_dice dice = {4};
    int planted = 0;
    for (int round = 0; round < 300; round++) {
        size_t height;
        const size_t n = 100;
        random_items(&dice, n, 50, 20);
        (void)solved(n, "to be broken");
        sw_placement_item *a = &items[sw_dice_below(&dice, n)],
                          *b = &items[sw_dice_below(&dice, n)];
        if (a == b || a->lower >= b->upper || b->lower >= a->upper)
            continue;
        a->offset = b->offset + b->bytes - 1;
        CU_ASSERT(overlaps(n, &height) > 0);
        planted++;
    }
    CU_ASSERT(planted > 50);
}

SW_TEST("chains, stacks, nested and staggered lifetimes reach the bound")
{
    sw_placement_result result = {.height = 5};
    CU_ASSERT_EQUAL(sw_placement_large(NULL, 0, 0, NULL, &result), SW_OK);
    CU_ASSERT_EQUAL(result.height, 0);
    for (uint32_t i = 0; i < 50; i++) /* one after the other, far apart */
        items[i] = (sw_placement_item){i * 80000000, i * 80000000 + 1, 64 * (i + 1), 0, 0};
    CU_ASSERT_EQUAL(solved(50, "chain").height, 64 * 50);
    for (uint32_t i = 0; i < 50; i++) /* all together */
        items[i] = (sw_placement_item){0, UINT32_MAX, 64 * (i + 1), 0, 0};
    CU_ASSERT_EQUAL(solved(50, "stack").height, 64 * 50 * 51 / 2);
    for (uint32_t i = 0; i < 50000; i++) /* forward and backward of a net: nested lifetimes */
        items[i] = (sw_placement_item){i, 100000 - i, 64 * (1 + i % 7), 0, 0};
    CU_ASSERT_EQUAL(solved(50000, "nested").end, SW_PLACEMENT_OPTIMAL);
    for (uint32_t i = 0; i < 50000; i++) /* equal and staggered: two at a time */
        items[i] = (sw_placement_item){i, i + 2, 64, 0, 0};
    CU_ASSERT_EQUAL(solved(50000, "staggered").height, 128);
}

SW_TEST("rectangles cut into pieces come near their optimum")
{
    sw_dice dice = {7};
    const size_t sizes[] = {200, 2000, 20000};
    for (int k = 0; k < 3; k++) {
        double sum = 0, worst = 0;
        const int rounds = k == 2 ? (sw_tests_full() ? 2 : 1) : sw_tests_full() ? 10 : 4;
        for (int round = 0; round < rounds; round++) {
            const size_t units = sizes[k] * 50;
            cut_rectangle(&dice, sizes[k], (uint32_t)sizes[k] * 4, units);
            problem_shuffle(&dice, items, sizes[k]);
            const sw_placement_result result = solved(sizes[k], "rectangle");
            CU_ASSERT_EQUAL(result.lower_bound, units);
            const double ratio = (double)result.height / (double)units;
            sum += ratio;
            worst = ratio > worst ? ratio : worst;
        }
        SW_CHECK(worst <= 1.4, "%zu pieces: %.4f", sizes[k], worst);
        sw_note("%zu pieces of a full rectangle: height / optimum mean %.4f, worst %.4f",
                sizes[k], sum / rounds, worst);
    }
}

static void many(size_t n)
{
    sw_dice dice = {3};
    training_items(&dice, n);
    problem_shuffle(&dice, items, n);
    CU_ASSERT(measured(n, "training steps") <= 1.001);
    random_items(&dice, n, (uint32_t)n, 1000);
    CU_ASSERT(measured(n, "short random lifetimes") <= 1.03);
    random_items(&dice, n, (uint32_t)n, (uint32_t)n);
    CU_ASSERT(measured(n, "long random lifetimes") <= 1.005);
}

SW_TEST("ten thousand buffers come near the bound")
{
    many(10000);
}

SW_TEST("a hundred thousand buffers come near the bound", .full = true)
{
    many(100000);
}

SW_TEST("a million buffers come near the bound", .full = true)
{
    many(1000000);
}

/* As many sections as buffers, and one more of both than a power of two: the most memory. */
SW_TEST("no more than 200 bytes of memory per buffer")
{
    const uint32_t n = 524289;
    sw_heap_stats before, after;
    sw_placement_result result;
    for (uint32_t i = 0; i < n; i++)
        items[i] = (sw_placement_item){i, i + 1, 64, 0, 0};
    sw_heap_read(SW_HEAP_PROGRAMS, &before);
    CU_ASSERT_EQUAL(sw_placement_large(items, n, 0, NULL, &result), SW_OK);
    sw_heap_read(SW_HEAP_PROGRAMS, &after);
    CU_ASSERT_EQUAL(after.bytes, before.bytes);
    const double each = (double)(after.peak_bytes - before.bytes) / n;
    SW_CHECK(each > 1 && each <= 200, "%.1f bytes per buffer", each);
    sw_note("%.1f bytes of memory per buffer", each);
}

SW_TEST("equal input gives equal output")
{
    static sw_placement_item again[5000];
    sw_dice dice = {3};
    sw_placement_result second;
    random_items(&dice, 5000, 5000, 100);
    memcpy(again, items, sizeof again);
    const sw_placement_result first = solved(5000, "first");
    CU_ASSERT_EQUAL(sw_placement_large(again, 5000, 0, NULL, &second), SW_OK);
    CU_ASSERT_EQUAL(memcmp(again, items, sizeof again), 0);
    CU_ASSERT_EQUAL(first.height, second.height);
    CU_ASSERT_EQUAL(first.nodes, second.nodes);
    CU_ASSERT_EQUAL(first.n_orders, second.n_orders);
}

static bool count_and_stop(void *context)
{
    return ++*(int *)context >= 3;
}

typedef struct {
    int asked, most;
} patience;

static bool lose_patience(void *context)
{
    patience *p = context;
    return ++p->asked >= p->most;
}

/* Whenever it has to end, there is a whole placement, and it says when it had to hurry. */
SW_TEST("any moment to end leaves a placement")
{
    sw_dice dice = {28};
    bool hurried = true;
    size_t first = 0, last = 0;
    int moments = 0;
    const int apart = sw_tests_full() ? 8 : 1; /* moments: each 1 + 1 / apart times the last */
    const size_t n = sw_tests_full() ? 60000 : 20000;
    for (int most = 1; hurried || most < 400; most = most + 1 + most / apart, moments++) {
        patience p = {0, most};
        const sw_placement_opts opts = {.stop = lose_patience, .context = &p};
        dice.state = 28;
        random_items(&dice, n, (uint32_t)n, 100);
        for (size_t i = 0; i < n; i++)
            items[i].align = i % 3 == 0 ? 3 * (i % 50) : 0;
        const sw_placement_result r = solved_under(n, &opts, "hurried");
        size_t unaligned = 0;
        for (size_t i = 0; i < n; i++)
            unaligned += items[i].align > 1 && items[i].offset % items[i].align != 0;
        CU_ASSERT_EQUAL(unaligned, 0);
        CU_ASSERT(p.asked == most || r.end == SW_PLACEMENT_OPTIMAL || !r.hurried);
        CU_ASSERT_EQUAL(r.hurried, r.nodes < n);
        first = most == 1 ? r.height : first;
        last = r.height;
        hurried = r.hurried;
    }
    CU_ASSERT(moments > 5 && last < first);
    sw_note("%d moments to end at: heights %zu to %zu", moments, first, last);
}

SW_TEST("limits end it early with a placement")
{
    sw_dice dice = {8};
    int asked = 0;
    random_items(&dice, 3000, 3000, 100);
    const sw_placement_result whole = solved(3000, "whole");
    CU_ASSERT(whole.n_orders > 3 && whole.end == SW_PLACEMENT_FITS);

    sw_placement_opts opts = {.stop = count_and_stop, .context = &asked};
    const sw_placement_result stopped = solved_under(3000, &opts, "stopped");
    CU_ASSERT_EQUAL(asked, 3); /* and never again */
    CU_ASSERT(stopped.nodes < whole.nodes && stopped.height >= whole.height);

    const sw_placement_opts few = {.nodes = 1}; /* the first run is finished all the same */
    const sw_placement_result one = solved_under(3000, &few, "one run");
    CU_ASSERT_EQUAL(one.nodes, 3000);
    CU_ASSERT_EQUAL(one.n_orders, 1);

    const sw_placement_opts roomy = {.capacity = one.height};
    const sw_placement_result fits = solved_under(3000, &roomy, "roomy");
    CU_ASSERT_EQUAL(fits.n_orders, 1);
    CU_ASSERT_EQUAL(fits.end, SW_PLACEMENT_FITS);
    const sw_placement_opts tight = {.capacity = whole.lower_bound};
    CU_ASSERT_EQUAL(solved_under(3000, &tight, "tight").end, SW_PLACEMENT_GAVE_UP);
    const sw_placement_opts none = {.capacity = whole.lower_bound - 1};
    CU_ASSERT_EQUAL(solved_under(3000, &none, "impossible").end, SW_PLACEMENT_NO_FIT);

    sw_placement_result told; /* a bound that was proved elsewhere is where it ends */
    CU_ASSERT_EQUAL(sw_placement_large(items, 3000, one.height, NULL, &told), SW_OK);
    CU_ASSERT_EQUAL(told.n_orders, 1);
    CU_ASSERT_EQUAL(told.proved, one.height);
    CU_ASSERT_EQUAL(told.end, SW_PLACEMENT_OPTIMAL);
}

static sw_status solve_some(void *unused)
{
    sw_dice dice = {5};
    sw_placement_result result;
    random_items(&dice, 30, 20, 20);
    return sw_placement_large(items, 30, 0, NULL, &result);
}

SW_TEST("its two blocks of memory can fail")
{
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, solve_some, NULL), 2);
}

/* ---- published traces -------------------------------------------------------------------- */

static void published(const char *name, size_t count, double most)
{
    const size_t n = problem_read(items, MAX_ITEMS, name);
    if (n == 0)
        return;
    SW_CHECK(n == count, "%s: %zu buffers", name, n);
    sw_dice dice = {2};
    double ratio = measured(n, name);
    SW_CHECK(ratio <= most, "%s: %.5f", name, ratio);
    turn_time(n);
    ratio = measured(n, "  backward");
    SW_CHECK(ratio <= 1.01, "%s backward: %.5f", name, ratio);
    turn_time(n);
    problem_shuffle(&dice, items, n);
    ratio = measured(n, "  shuffled");
    SW_CHECK(ratio <= 1.01, "%s shuffled: %.5f", name, ratio);
}

SW_TEST("a published trace reaches the bound")
{
    published("placement-large/G_1.csv", 816, 1.0);
}

SW_TEST("a published training step reaches the bound")
{
    published("placement-large/resnet50.csv", 1042, 1.0);
}

SW_TEST("the largest published trace reaches the bound")
{
    published("placement-large/S_1.csv", 28526, 1.001);
}
