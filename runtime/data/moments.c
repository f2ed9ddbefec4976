/* Mean and deviation of bytes. Sums are whole numbers, so the order of adding does not matter.
 */
#include "kernels/attrs.h"
#include "runtime/data/data_internal.h"
#include <math.h>

enum { PIECE = 1 << 16 }; /* bytes whose squares a uint32_t holds */

typedef struct {
    uint64_t n, sum, squares;
} sums;

static void add(sums *s, const unsigned char *x, size_t n)
{
    s->n += n;
    while (n > 0) {
        const size_t piece = n < PIECE ? n : PIECE;
        uint32_t sum = 0, squares = 0;
        for (size_t i = 0; i < piece; i++) {
            sum += x[i];
            squares += (uint32_t)x[i] * x[i];
        }
        s->sum += sum;
        s->squares += squares;
        x += piece;
        n -= piece;
    }
}

/* With 4 significant digits; the nearest number to what they say. */
static double written(double x)
{
    if (!(x > 0.0))
        return 0.0;
    const double unit = pow(10.0, 3.0 - floor(log10(x)));
    return rint(x * unit) / unit;
}

sw_status sw_dataset_moments(const sw_dataset *dataset, int field, int n, float *mean,
                             float *deviation)
{
    sums s[SW_MAX_CHANNELS] = {{0, 0, 0}};
    if (dataset == NULL || mean == NULL || deviation == NULL)
        SW_FAIL(SW_INVALID, "sw_dataset_moments: dataset, mean and deviation must not be NULL");
    if (field < 0 || field >= dataset->n_fields || dataset->field[field].dtype != SW_U8)
        SW_FAIL(SW_INVALID, "%s: field %d must have bytes (u8)", dataset->name, field);
    const swi_field *f = &dataset->field[field];
    if (f->data == NULL || f->sample_bytes == 0 || dataset->n == 0)
        SW_FAIL(SW_INVALID, "%s: there are shapes alone, and no bytes to take the mean of",
                dataset->name);
    if (n < 1 || n > SW_MAX_CHANNELS || (n > 1 && (f->shape.rank < 1 || f->shape.dim[0] != n)))
        SW_FAIL(SW_INVALID, "%s: n must be 1, or the channels of a sample, at most %d (got %d)",
                dataset->name, SW_MAX_CHANNELS, n);
    const size_t plane = f->sample_bytes / (size_t)n;
    for (int64_t i = 0; i < dataset->n; i++)
        for (int c = 0; c < n; c++)
            add(&s[c], swi_sample_at(f, (size_t)i, 0) + (size_t)c * plane, plane);
    for (int c = 0; c < n; c++) {
        const double each = 1.0 / (double)s[c].n, m = (double)s[c].sum * each;
        const double variance = (double)s[c].squares * each - m * m;
        mean[c] = (float)written(m / 255.0);
        deviation[c] = (float)written(variance > 0.0 ? sqrt(variance) / 255.0 : 0.0);
        if (deviation[c] == 0.0f)
            deviation[c] = 1.0f;
    }
    return SW_OK;
}
