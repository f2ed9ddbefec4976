/* Rows of a table by their ids. The gradient is cut by columns: a part walks through all ids
 * and adds its columns, so that each element is summed in the order of ids. */
#include "kernels/cpu/isa/isa.h"
#include <string.h>

#define PART 16384 /* elements of a part where rows do not meet */
#define COLS 64    /* columns of a part where they do */

typedef struct {
    float *y;
    const float *x;
    const sw_ids *ids;
    int64_t rows, width, per_part;
    int64_t cols; /* of a part */
} rows_job;

static void take_part(void *arg, int part)
{
    const rows_job *j = arg;
    const int64_t first = part * j->per_part;
    const int64_t end = first + j->per_part < j->ids->n ? first + j->per_part : j->ids->n;
    for (int64_t i = first; i < end; i++)
        memcpy(j->y + i * j->width, j->x + sw_id_at(j->ids, i) * j->width,
               (size_t)j->width * sizeof *j->y);
}

void SW_KERNEL(axes, take_rows)(float *y, const float *table, const sw_ids *ids, int64_t width,
                                const sw_par *par)
{
    rows_job j = {.y = y, .x = table, .ids = ids, .width = width};
    if (width < 1)
        return;
    j.per_part = (PART + width - 1) / width;
    par->run(par, take_part, &j, (int)((ids->n + j.per_part - 1) / j.per_part));
}

static void zero_part(void *arg, int part)
{
    const rows_job *j = arg;
    const int64_t first = part * j->per_part, left = j->rows - first;
    const int64_t n = left < j->per_part ? left : j->per_part;
    memset(j->y + first * j->width, 0, (size_t)(n * j->width) * sizeof *j->y);
}

static void add_part(void *arg, int part)
{
    const rows_job *j = arg;
    const int64_t first = part * j->cols, left = j->width - first;
    const int64_t n = left < j->cols ? left : j->cols;
    for (int64_t i = 0; i < j->ids->n; i++) {
        float *to = j->y + sw_id_at(j->ids, i) * j->width + first;
        const float *from = j->x + i * j->width + first;
        for (int64_t c = 0; c < n; c++)
            to[c] += from[c];
    }
}

void SW_KERNEL(axes, add_rows)(float *table, const float *dy, const sw_ids *ids, int64_t rows,
                               int64_t width, bool accumulate, const sw_par *par)
{
    rows_job j = {.y = table, .x = dy, .ids = ids, .rows = rows, .width = width, .cols = COLS};
    if (width < 1)
        return;
    j.per_part = (PART + width - 1) / width;
    if (!accumulate)
        par->run(par, zero_part, &j, (int)((rows + j.per_part - 1) / j.per_part));
    if (par->n_threads == 1) /* whole rows are faster; each element has the same order */
        j.cols = width;
    par->run(par, add_part, &j, (int)((width + j.cols - 1) / j.cols));
}
