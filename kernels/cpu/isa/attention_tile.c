/* The products of attention's tiles: register blocks of rows by vectors, all of k at once. */
#include "kernels/cpu/isa/attention_internal.h"
#include "kernels/scalar.h"

#if SW_ISA_ID == 2
#define PANEL 4 /* vectors */
#else
#define PANEL 2
#endif

/* mr rows by nv vectors from column j on; mr and nv are constants. */
SW_VEC_FN void block(const swi_tile *t, int64_t i, int64_t j, int mr, int nv)
{
    vf acc[SWI_GROUP][PANEL];
    SW_UNROLL
    for (int r = 0; r < mr; r++)
        SW_UNROLL
    for (int v = 0; v < nv; v++)
        acc[r][v] = vzero();
    const float *a = t->a + i * t->row, *b = t->b + j;
    const int64_t row = t->row, col = t->col, ldb = t->ldb;
    for (int64_t k = 0; k < t->k; k++) {
        vf x[PANEL];
        SW_UNROLL
        for (int v = 0; v < nv; v++)
            x[v] = vload(b + v * VW);
        SW_UNROLL
        for (int r = 0; r < mr; r++) {
            const vf y = vset1(a[r * row]);
            SW_UNROLL
            for (int v = 0; v < nv; v++)
                acc[r][v] = vfma(y, x[v], acc[r][v]);
        }
        a += col;
        b += ldb;
    }
    const vf factor = vset1(t->factor);
    SW_UNROLL
    for (int r = 0; r < mr; r++)
        SW_UNROLL
    for (int v = 0; v < nv; v++) {
        float *c = t->c + (i + r) * t->ldc + j + v * VW;
        const vf y = vmul(acc[r][v], factor);
        vstore(c, t->add ? vadd(vload(c), y) : y);
    }
}

/* All rows of nv vectors; narrow ones take more rows, to keep enough sums in flight. */
SW_VEC_FN void columns(const swi_tile *t, int64_t j, int nv)
{
    int64_t i = 0;
    for (; 2 * nv <= PANEL && t->m - i >= 12; i += 12)
        block(t, i, j, 12, nv);
    for (; t->m - i >= 6; i += 6)
        block(t, i, j, 6, nv);
    for (; t->m - i >= 4; i += 4)
        block(t, i, j, 4, nv);
    for (; t->m - i >= 2; i += 2)
        block(t, i, j, 2, nv);
    for (; i < t->m; i++)
        block(t, i, j, 1, nv);
}

static void columns_1(const swi_tile *t, int64_t j)
{
    columns(t, j, 1);
}

static void columns_2(const swi_tile *t, int64_t j)
{
    columns(t, j, 2);
}

#if PANEL == 4
static void columns_4(const swi_tile *t, int64_t j)
{
    columns(t, j, 4);
}
#endif

void swi_tile_product(const swi_tile *t)
{
    int64_t j = 0;
#if PANEL == 4
    for (; t->n - j >= 4 * VW; j += 4 * VW)
        columns_4(t, j);
#endif
    for (; t->n - j >= 2 * VW; j += 2 * VW)
        columns_2(t, j);
    for (; j < t->n; j += VW)
        columns_1(t, j);
}

void swi_pack_rows(float *to, int64_t ld, const float *from, int64_t row, int64_t col,
                   int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            to[r * ld + c] = from[r * row + c * col];
        for (int64_t c = cols; c < ld; c++)
            to[r * ld + c] = 0.0f;
    }
}

/* Rows [r, r + VW), n of which exist. */
static void turn(float *to, int64_t ld, const float *from, int64_t row, int64_t col, int64_t n,
                 int64_t cols)
{
    int64_t c = 0;
    for (; col == 1 && c + VW <= cols; c += VW) {
        vf x[VW];
        for (int i = 0; i < VW; i++)
            x[i] = i < n ? vload(from + i * row + c) : vzero();
        vtranspose(x);
        for (int i = 0; i < VW; i++)
            vstore(to + (c + i) * ld, x[i]);
    }
    for (; c < cols; c++)
        for (int i = 0; i < VW; i++)
            to[c * ld + i] = i < n ? from[i * row + c * col] : 0.0f;
}

void swi_pack_turned(float *to, int64_t ld, const float *from, int64_t row, int64_t col,
                     int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r += VW)
        turn(to + r, ld, from + r * row, row, col, rows - r < VW ? rows - r : VW, cols);
}

/* Lanes past n are computed too: no row ends in single elements. */
void swi_row_exp(float *x, float less, int64_t n, int64_t width)
{
    for (int64_t c = 0; c < width; c += VW)
        for (int i = 0; i < VW; i++)
            x[c + i] = sw_expf(x[c + i] - less);
    for (int64_t c = n; c < width; c++)
        x[c] = 0.0f;
}
