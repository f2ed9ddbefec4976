/* The parts of `stepwell place` from inside: sorting, reading, and the sweep that checks every
 * answer, held against the quadratic checker on sound and on spoilt placements. */
#include "alloc/base/order.h"
#include "alloc/placement/placement_internal.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include "tools/place/place_csv.h"

SW_TESTS("place check")

#define MAX 400

static uint64_t times[2 * MAX];
static sw_placement_item items[MAX];

/* Random buffers in place_csv's form; the times keep their order when they are scaled. */
static place_csv random_problem(sw_dice *dice, size_t n, uint64_t scale)
{
    const uint64_t end = 2 + sw_dice_below(dice, 200);
    for (size_t i = 0; i < n; i++) {
        const uint64_t lower = sw_dice_below(dice, end - 1);
        const uint64_t upper = lower + 1 + sw_dice_below(dice, end - 1 - lower);
        items[i] = (sw_placement_item){(uint32_t)lower, (uint32_t)upper,
                                       1 + sw_dice_below(dice, 100), 0, 0};
        times[2 * i] = lower * scale;
        times[2 * i + 1] = upper * scale;
    }
    return (place_csv){.n = n, .items = items, .times = times};
}

SW_TEST("sorting is stable and whole")
{
    static uint64_t key[5000];
    static uint32_t order[5000], scratch[5000];
    sw_dice dice = {3};
    for (int round = 0; round < 60; round++) {
        const size_t n = (size_t)sw_dice_below(&dice, 5000);
        const uint64_t mask = ~UINT64_C(0) >> sw_dice_below(&dice, 64);
        for (size_t i = 0; i < n; i++)
            key[i] = sw_dice_next(&dice) & mask;
        sw_order_numbers(order, n);
        sw_order_by_keys(order, scratch, key, n, NULL, NULL);
        size_t wrong = 0;
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += order[i];
            wrong += order[i] >= n;
            wrong +=
                i > 0 && (key[order[i - 1]] > key[order[i]] ||
                          (key[order[i - 1]] == key[order[i]] && order[i - 1] >= order[i]));
        }
        CU_ASSERT(wrong == 0 && (n == 0 || sum == (uint64_t)n * (n - 1) / 2));
    }
}

static uint64_t plain_lower_bound(size_t n)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (size_t j = 0; j < n; j++)
            if (items[j].lower <= items[i].lower && items[i].lower < items[j].upper)
                sum += items[j].bytes;
        most = sum > most ? sum : most;
    }
    return most;
}

SW_TEST("sound placements pass with their figures")
{
    sw_dice dice = {1};
    for (int round = 0; round < 300; round++) {
        const size_t n = 1 + (size_t)sw_dice_below(&dice, MAX);
        const place_csv csv = random_problem(&dice, n, round % 2 ? 1 : UINT64_C(1) << 50);
        sw_placement_result result;
        place_checked checked;
        CU_ASSERT_EQUAL_FATAL(sw_placement_greedy(items, n, NULL, &result), SW_OK);
        SW_CHECK(place_check(&csv, &checked) == SW_OK, "%s", sw_last_error());
        CU_ASSERT_EQUAL(checked.height, result.height);
        CU_ASSERT_EQUAL(checked.lower_bound, plain_lower_bound(n));
    }
}

/* One offset is changed a little or much: both checkers say the same, and it is often wrong. */
SW_TEST("spoilt placements are found")
{
    sw_dice dice = {2};
    int found = 0, rounds = sw_tests_full() ? 20000 : 3000;
    for (int round = 0; round < rounds; round++) {
        const size_t n = 2 + (size_t)sw_dice_below(&dice, 40);
        const place_csv csv = random_problem(&dice, n, 1);
        sw_placement_result result;
        place_checked checked;
        CU_ASSERT_EQUAL_FATAL(sw_placement_greedy(items, n, NULL, &result), SW_OK);
        const size_t spoilt = (size_t)sw_dice_below(&dice, n);
        items[spoilt].offset = round % 2 == 0 && items[spoilt].offset > 0
                                   ? items[spoilt].offset - 1
                                   : (size_t)sw_dice_below(&dice, result.height);
        const sw_status plain = sw_placement_check(items, n, SIZE_MAX);
        const sw_status swept = place_check(&csv, &checked);
        SW_CHECK(plain == swept, "round %d: %s", round, sw_last_error());
        found += swept == SW_INVALID;
    }
    CU_ASSERT(found > rounds / 4);
}

SW_TEST("ends past 64 bits and false alignments are found")
{
    sw_dice dice = {4};
    place_checked checked;
    const place_csv csv = random_problem(&dice, 1, 1);
    items[0].offset = SIZE_MAX;
    CU_ASSERT_EQUAL(place_check(&csv, &checked), SW_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "line 2 ends past 64 bits"));
    items[0].offset = 96;
    items[0].align = 64;
    CU_ASSERT_EQUAL(place_check(&csv, &checked), SW_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "not a multiple of 64"));
    items[0].align = 24;
    CU_ASSERT_EQUAL(place_check(&csv, &checked), SW_OK);
}

/* More buffers than a quadratic check could look at, all live at once, then one moved. */
SW_TEST("many live buffers are checked quickly")
{
    const size_t n = 300000;
    sw_placement_item *many = calloc(n, sizeof *many);
    uint64_t *when = calloc(2 * n, sizeof *when);
    CU_ASSERT_FATAL(many != NULL && when != NULL);
    for (size_t i = 0; i < n; i++) {
        const size_t place = i * 7919 % n; /* in no order */
        many[i] = (sw_placement_item){0, 0, 8, 8 * place, 0};
        when[2 * i] = i % 1000;
        when[2 * i + 1] = 1000 + i % 777;
    }
    const place_csv csv = {.n = n, .items = many, .times = when};
    place_checked checked;
    CU_ASSERT_EQUAL(place_check(&csv, &checked), SW_OK);
    CU_ASSERT_EQUAL(checked.height, 8 * n);
    CU_ASSERT_EQUAL(checked.lower_bound, 8 * n);
    many[n / 2].offset -= 1;
    CU_ASSERT_EQUAL(place_check(&csv, &checked), SW_INVALID);
    free(many);
    free(when);
}

/* ---- reading ----------------------------------------------------------------------------- */

static const char *write_rows(size_t n, size_t twice)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("rows.csv"));
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs("size,id,upper,lower\n", file);
    for (size_t i = 0; i < n; i++)
        fprintf(file, "%zu,v%zu,%llu,%llu\n", 1 + i % 9, i == n - 1 ? twice : i,
                (unsigned long long)(i % 50 + 1) << 40, (unsigned long long)(i % 50) << 40);
    fclose(file);
    return path;
}

SW_TEST("reading keeps times and gives ranks")
{
    place_csv csv;
    const size_t n = 20000;
    const uint64_t blocks = sw_heap_blocks();
    CU_ASSERT_EQUAL_FATAL(place_csv_read(&csv, write_rows(n, n - 1)), SW_OK);
    CU_ASSERT_EQUAL(csv.n, n);
    size_t wrong = 0;
    for (size_t i = 0; i < csv.n; i++)
        wrong += csv.items[i].lower != i % 50 || csv.items[i].upper != i % 50 + 1 ||
                 csv.items[i].bytes != 1 + i % 9 ||
                 csv.times[2 * i] != (uint64_t)(i % 50) << 40;
    CU_ASSERT_EQUAL(wrong, 0);
    place_csv_free(&csv);
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}

SW_TEST("an id of thousands of lines before is found")
{
    place_csv csv;
    const uint64_t blocks = sw_heap_blocks();
    CU_ASSERT_EQUAL(place_csv_read(&csv, write_rows(20000, 1234)), SW_FORMAT);
    SW_CHECK(strstr(sw_last_error(),
                    "line 20001, column 2 (id): line 1236 has the id 'v1234'") != NULL,
             "%s", sw_last_error());
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}
