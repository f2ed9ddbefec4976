/* Sums of columns, row after row: each column is one chain of additions, so neither the cut
 * into tasks nor a cut between rows shows in the bits. */
#include "kernels/cpu/isa/dense_internal.h"

enum {
    ROWS = 4,
    STRIP = 4, /* vectors whose sums stay in registers */
    WORTH = 1 << 16,
    NEAR = 1 << 16 /* numbers that lie in a near cache: they may be read in any order */
};

typedef struct {
    float *y;
    const float *x;
    int64_t rows, cols, step;
    bool accumulate;
    int parts;
} sums_job;

/* Columns [j, j + n), n at most VW, of rows [i, i + rows). */
SW_VEC_FN void add_rows(const sums_job *s, int64_t i, int rows, int64_t j, int n)
{
    const float *x = s->x + i * s->step + j;
    vf y = vzero();
    if (i > 0 || s->accumulate)
        y = n == VW ? vload(s->y + j) : vload_n(s->y + j, n);
    SW_UNROLL
    for (int r = 0; r < rows; r++)
        y = vadd(y, n == VW ? vload(x + r * s->step) : vload_n(x + r * s->step, n));
    if (n == VW)
        vstore(s->y + j, y);
    else
        vstore_n(s->y + j, y, n);
}

/* Columns [j, j + (nv - 1) VW + last) of all rows. */
SW_VEC_FN void add_strip(const sums_job *s, int64_t j, int nv, int last)
{
    const float *x = s->x + j;
    vf y[STRIP];
    SW_UNROLL
    for (int v = 0; v < nv; v++)
        y[v] = !s->accumulate ? vzero()
               : v < nv - 1   ? vload(s->y + j + v * VW)
                              : vload_n(s->y + j + v * VW, last);
    for (int64_t i = 0; i < s->rows; i++, x += s->step) {
        SW_UNROLL
        for (int v = 0; v < nv; v++)
            y[v] = vadd(y[v], v < nv - 1 || last == VW ? vload(x + v * VW)
                                                       : vload_n(x + v * VW, last));
    }
    SW_UNROLL
    for (int v = 0; v < nv; v++)
        vstore_n(s->y + j + v * VW, y[v], v < nv - 1 ? VW : last);
}

static void strips(const sums_job *s, int64_t j, int64_t end)
{
    for (; end - j >= STRIP * VW; j += STRIP * VW)
        add_strip(s, j, STRIP, VW);
    for (; end - j >= 2 * VW; j += 2 * VW)
        add_strip(s, j, 2, VW);
    for (; j < end; j += VW)
        add_strip(s, j, 1, end - j < VW ? (int)(end - j) : VW);
}

static void sums_part(void *arg, int part)
{
    const sums_job *s = arg;
    const int64_t first = vpiece(s->cols, VW, part, s->parts);
    const int64_t end = vpiece(s->cols, VW, part + 1, s->parts);
    if (s->rows * s->step <= NEAR) {
        strips(s, first, end);
        return;
    }
    for (int64_t i = 0; i < s->rows;) {
        const int rows = s->rows - i >= ROWS ? ROWS : 1;
        for (int64_t j = first; j < end; j += VW) {
            const int n = end - j >= VW ? VW : (int)(end - j);
            if (rows == ROWS)
                add_rows(s, i, ROWS, j, n);
            else
                add_rows(s, i, 1, j, n);
        }
        i += rows;
    }
}

void SW_KERNEL(dense, column_sums)(float *y, const float *x, int64_t rows, int64_t cols,
                                   int64_t step, bool accumulate, const sw_par *par)
{
    sums_job s = {y, x, rows, cols, step, accumulate, 1};
    const int64_t most = (cols + 4 * VW - 1) / (4 * VW);
    if (par != NULL && rows * cols >= WORTH)
        s.parts = (int)(most < 2 * par->n_threads ? most : 2 * par->n_threads);
    vparts(par, sums_part, &s, s.parts, s.parts > 1);
}
