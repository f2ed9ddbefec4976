/* Counts of labels and predictions, and what follows from them. The counts are the caller's:
 * whole numbers, so neither the order of samples nor the sizes of batches matters. */
#include "kernels/scalar.h"
#include "runtime/base/structs.h"
#include <math.h>
#include <string.h>

#define CLASSES_MAX ((int64_t)1 << 24) /* the square of more has no size */

static sw_status check_classes(int64_t classes, const char *call)
{
    if (classes < 1 || classes > CLASSES_MAX)
        SW_FAIL(SW_INVALID, "%s: classes must be 1 to %lld (got %lld)", call,
                (long long)CLASSES_MAX, (long long)classes);
    return SW_OK;
}

static int64_t label_at(const sw_array *labels, int64_t row)
{
    return labels->dtype == SW_U8    ? (int64_t)((const uint8_t *)labels->data)[row]
           : labels->dtype == SW_U16 ? (int64_t)((const uint16_t *)labels->data)[row]
                                     : (int64_t)((const int32_t *)labels->data)[row];
}

sw_status sw_confusion_add(uint64_t *counts, int64_t classes, const sw_array *scores,
                           const sw_array *labels)
{
    SW_TRY(swi_given(counts != NULL && scores != NULL && labels != NULL,
                     "counts, scores and labels", "sw_confusion_add"));
    SW_TRY(check_classes(classes, "sw_confusion_add"));
    const sw_shape *s = &scores->shape, *l = &labels->shape;
    if (scores->dtype != SW_F32 || s->rank != 2 || s->dim[1] != classes)
        SW_FAIL(SW_INVALID, "sw_confusion_add: scores must be F32 (rows, %lld)",
                (long long)classes);
    const int whole =
        labels->dtype == SW_U8 || labels->dtype == SW_U16 || labels->dtype == SW_I32;
    if (!whole || l->rank != 1 || l->dim[0] != s->dim[0])
        SW_FAIL(SW_INVALID, "sw_confusion_add: labels must be U8, U16 or I32 (%lld)",
                (long long)s->dim[0]);
    if (s->dim[0] > 0 && (scores->data == NULL || labels->data == NULL))
        SW_FAIL(SW_INVALID, "sw_confusion_add: scores and labels must have data");
    for (int64_t r = 0; r < s->dim[0]; r++) {
        const int64_t label = label_at(labels, r);
        if (label < 0 || label >= classes)
            SW_FAIL(SW_INVALID,
                    "sw_confusion_add: the label of row %lld must be 0 to %lld (got %lld)",
                    (long long)r, (long long)classes - 1, (long long)label);
    }

    const float *x = scores->data;
    for (int64_t r = 0; r < scores->shape.dim[0]; r++, x += classes) {
        int64_t best = 0;
        for (int64_t c = 1; c < classes; c++)
            best = sw_wins(x[c], x[best]) ? c : best;
        counts[label_at(labels, r) * classes + best]++;
    }
    return SW_OK;
}

static double share(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : (double)NAN;
}

static sw_class_score score_of(const uint64_t *counts, int64_t classes, int64_t k)
{
    sw_class_score s = SW_OPTS(sw_class_score, .right = counts[k * classes + k]);
    for (int64_t i = 0; i < classes; i++) {
        s.support += counts[k * classes + i];
        s.predicted += counts[i * classes + k];
    }
    s.precision = share(s.right, s.predicted);
    s.recall = share(s.right, s.support);
    s.f1 = share(2 * s.right, s.support + s.predicted);
    return s;
}

static sw_status check_score(const uint64_t *counts, int64_t classes, const sw_class_score *out,
                             const char *call)
{
    SW_TRY(swi_given(counts != NULL && out != NULL, "counts and out", call));
    SW_TRY(check_classes(classes, call));
    return swi_struct_check(SWI_STRUCT_sw_class_score, out, call);
}

sw_status sw_confusion_class(const uint64_t *counts, int64_t classes, int64_t k,
                             sw_class_score *out)
{
    SW_TRY(check_score(counts, classes, out, "sw_confusion_class"));
    if (k < 0 || k >= classes)
        SW_FAIL(SW_INVALID, "sw_confusion_class: k must be 0 to %lld (got %lld)",
                (long long)classes - 1, (long long)k);
    const sw_class_score s = score_of(counts, classes, k);
    swi_struct_write(SWI_STRUCT_sw_class_score, out, &s);
    return SW_OK;
}

static double or_zero(double x)
{
    return isnan(x) ? 0.0 : x;
}

sw_status sw_confusion_mean(const uint64_t *counts, int64_t classes, sw_class_score *out)
{
    sw_class_score all;
    uint64_t occur = 0;
    SW_TRY(check_score(counts, classes, out, "sw_confusion_mean"));
    memset(&all, 0, sizeof all);
    for (int64_t k = 0; k < classes; k++) {
        const sw_class_score s = score_of(counts, classes, k);
        all.support += s.support;
        all.right += s.right;
        occur += s.support + s.predicted > 0;
        all.precision += or_zero(s.precision);
        all.recall += or_zero(s.recall);
        all.f1 += or_zero(s.f1);
    }
    const double n = (double)occur;
    all.predicted = all.support;
    all.precision = occur > 0 ? all.precision / n : (double)NAN;
    all.recall = occur > 0 ? all.recall / n : (double)NAN;
    all.f1 = occur > 0 ? all.f1 / n : (double)NAN;
    swi_struct_write(SWI_STRUCT_sw_class_score, out, &all);
    return SW_OK;
}
