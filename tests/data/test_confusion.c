/* Counts of labels and predictions: against counts made by hand, and against sw_accuracy's
 * rule. */
#include "tests/data/data_files.h"

SW_TESTS("confusion")

enum { CLASSES = 3, ROWS = 6 };

/* Predictions 0, 0, 2, 2, 0 (of equals the first), 1 (a NaN). */
static const float scores[ROWS * CLASSES] = {9,  1,  1,  2, 1, 0, 0, 0,   1,
                                             -3, -2, -1, 5, 5, 5, 7, NAN, 9};
static const uint8_t labels[ROWS] = {0, 1, 2, 2, 2, 1};

static sw_array array_of(sw_dtype dtype, sw_shape shape, const void *data)
{
    return (sw_array){dtype, shape, data};
}

static void count_all(uint64_t *counts)
{
    for (int64_t at = 0; at < ROWS; at += 2) { /* in batches of two */
        const sw_array x = array_of(SW_F32, SW_SHAPE(2, CLASSES), scores + at * CLASSES);
        const sw_array y = array_of(SW_U8, SW_SHAPE(2), labels + at);
        CU_ASSERT_EQUAL_FATAL(sw_confusion_add(counts, CLASSES, &x, &y), SW_OK);
    }
}

SW_TEST("rows are counted by label and prediction")
{
    static const uint64_t by_hand[CLASSES * CLASSES] = {1, 0, 0, 1, 1, 0, 1, 0, 2};
    static const int32_t wide[ROWS] = {0, 1, 2, 2, 2, 1};
    static const uint16_t half[ROWS] = {0, 1, 2, 2, 2, 1};
    uint64_t counts[CLASSES * CLASSES] = {0};
    count_all(counts);
    CU_ASSERT_EQUAL(memcmp(counts, by_hand, sizeof by_hand), 0);
    const sw_array x = array_of(SW_F32, SW_SHAPE(ROWS, CLASSES), scores);
    const sw_array y = array_of(SW_I32, SW_SHAPE(ROWS), wide);
    CU_ASSERT_EQUAL_FATAL(sw_confusion_add(counts, CLASSES, &x, &y), SW_OK);
    const sw_array h = array_of(SW_U16, SW_SHAPE(ROWS), half);
    CU_ASSERT_EQUAL_FATAL(sw_confusion_add(counts, CLASSES, &x, &h), SW_OK);
    for (int i = 0; i < CLASSES * CLASSES; i++)
        CU_ASSERT_EQUAL(counts[i], 3 * by_hand[i]);
}

SW_TEST("classes have scores")
{
    uint64_t counts[CLASSES * CLASSES] = {0};
    sw_class_score s = SW_OPTS(sw_class_score);
    count_all(counts);
    CU_ASSERT_EQUAL_FATAL(sw_confusion_class(counts, CLASSES, 0, &s), SW_OK);
    CU_ASSERT(s.support == 1 && s.predicted == 3 && s.right == 1);
    CU_ASSERT(s.precision == 1.0 / 3.0 && s.recall == 1.0 && s.f1 == 0.5);
    CU_ASSERT_EQUAL_FATAL(sw_confusion_class(counts, CLASSES, 1, &s), SW_OK);
    CU_ASSERT(s.precision == 1.0 && s.recall == 0.5 && s.f1 == 2.0 / 3.0);
    CU_ASSERT_EQUAL_FATAL(sw_confusion_mean(counts, CLASSES, &s), SW_OK);
    CU_ASSERT(s.support == ROWS && s.predicted == ROWS && s.right == 4);
    CU_ASSERT(fabs(s.precision - (1.0 / 3.0 + 1.0 + 1.0) / 3.0) < 1e-15);
    CU_ASSERT(fabs(s.recall - (1.0 + 0.5 + 2.0 / 3.0) / 3.0) < 1e-15);
    CU_ASSERT(fabs(s.f1 - (0.5 + 2.0 / 3.0 + 0.8) / 3.0) < 1e-15);
}

/* A class without samples that is predicted counts as 0; one that never occurs does not count.
 */
SW_TEST("what does not occur has no score")
{
    const uint64_t counts[9] = {0, 2, 0, 0, 0, 0, 0, 0, 0};
    const uint64_t none[4] = {0};
    sw_class_score s = SW_OPTS(sw_class_score);
    CU_ASSERT_EQUAL_FATAL(sw_confusion_class(counts, 3, 0, &s), SW_OK);
    CU_ASSERT(isnan(s.precision) && s.recall == 0.0 && s.f1 == 0.0);
    CU_ASSERT_EQUAL_FATAL(sw_confusion_class(counts, 3, 2, &s), SW_OK);
    CU_ASSERT(isnan(s.precision) && isnan(s.recall) && isnan(s.f1));
    CU_ASSERT_EQUAL_FATAL(sw_confusion_mean(counts, 3, &s), SW_OK);
    CU_ASSERT(s.support == 2 && s.right == 0 && s.precision == 0.0 && s.f1 == 0.0);
    CU_ASSERT_EQUAL_FATAL(sw_confusion_mean(none, 2, &s), SW_OK);
    CU_ASSERT(s.support == 0 && isnan(s.precision) && isnan(s.f1));
}

SW_TEST("what cannot be counted changes nothing")
{
    static const uint8_t bad[2] = {0, 3};
    uint64_t counts[CLASSES * CLASSES] = {0};
    const sw_array x = array_of(SW_F32, SW_SHAPE(2, CLASSES), scores);
    const sw_array wrong[] = {
        array_of(SW_U8, SW_SHAPE(2), bad), array_of(SW_U8, SW_SHAPE(1), labels),
        array_of(SW_F32, SW_SHAPE(2), scores), array_of(SW_U8, SW_SHAPE(2), NULL)};
    static const char *const why[] = {"row 1 must be 0 to 2 (got 3)", "labels must be",
                                      "labels must be", "must have data"};
    const sw_array y = array_of(SW_U8, SW_SHAPE(2), labels);
    sw_class_score s = SW_OPTS(sw_class_score);
    for (int i = 0; i < 4; i++)
        CU_ASSERT(
            failed_as(sw_confusion_add(counts, CLASSES, &x, &wrong[i]), SW_INVALID, why[i]));
    CU_ASSERT(failed_as(sw_confusion_add(counts, 4, &x, &y), SW_INVALID, "(rows, 4)"));
    CU_ASSERT(failed_as(sw_confusion_add(counts, 0, &x, &y), SW_INVALID, "got 0"));
    CU_ASSERT(failed_as(sw_confusion_class(counts, 3, 3, &s), SW_INVALID, "got 3"));
    CU_ASSERT(failed_as(sw_confusion_class(counts, 3, -1, &s), SW_INVALID, "got -1"));
    CU_ASSERT(failed_as(sw_confusion_mean(counts, 1 << 25, &s), SW_INVALID, "classes must be"));
    for (int i = 0; i < CLASSES * CLASSES; i++)
        CU_ASSERT_EQUAL(counts[i], 0);
}
