/* Softmax cross-entropy of rows of at most SWI_NARROW numbers, which would leave most lanes of
 * a vector empty. The sums turn as many rows as a vector has lanes, so that a row is a lane;
 * the gradient goes through sixteen rows as through one line. Sums have the order of rows.c:
 * from the first number to the last. */
#include "kernels/cpu/isa/pointwise_internal.h"
#include "kernels/cpu/isa/vec.h"
#include "kernels/scalar.h"

enum { NARROW = SWI_NARROW, ROWS = 16 };

/* t[c * VW + r] = x[r * cols + c] of VW rows. */
SW_VEC_FN void turn(float *t, const float *x, int64_t cols)
{
    vf v[VW];
    for (int64_t c = 0; c < cols; c += VW) {
        const int n = cols - c < VW ? (int)(cols - c) : VW;
        SW_UNROLL
        for (int r = 0; r < VW; r++)
            v[r] = vload_n(x + r * cols + c, n);
        vtranspose(v);
        SW_UNROLL
        for (int r = 0; r < VW; r++)
            vstore(t + (c + r) * VW, v[r]);
    }
}

/* VW rows. */
static void lse_block(float *lse, const float *x, int64_t cols)
{
    _Alignas(64) float t[NARROW * VW] = {0}, m[VW], s[VW];
    turn(t, x, cols);
    vf most = vload(t), sum = vzero();
    for (int64_t c = 1; c < cols; c++) {
        const vf next = vload(t + c * VW);
        most = vselect(vwins(next, most), next, most);
    }
    vstore(m, most);
    for (int64_t c = 0; c < cols; c++)
        for (int k = 0; k < VW; k++)
            t[c * VW + k] = sw_expf(t[c * VW + k] - m[k]);
    for (int64_t c = 0; c < cols; c++)
        sum = vadd(sum, vload(t + c * VW));
    vstore(s, sum);
    for (int k = 0; k < VW; k++)
        lse[k] = sw_row_lse(m[k], s[k]);
}

void SW_ISA_FN(swi_narrow_lse)(float *lse, const float *x, int64_t rows, int64_t cols)
{
    int64_t r = 0;
    for (; r + VW <= rows; r += VW)
        lse_block(lse + r, x + r * cols, cols);
    if (r == rows)
        return;
    float rest[NARROW * VW] = {0}, of[VW];
    memcpy(rest, x + r * cols, (size_t)((rows - r) * cols) * sizeof *x);
    lse_block(of, rest, cols);
    memcpy(lse + r, of, (size_t)(rows - r) * sizeof *lse);
}

/* (e^(x - lse) - one) * factor in the place of x, n of them and what a vector has after. */
static void slopes(float *x, const float *lse, const float *one, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i += ROWS)
        for (int k = 0; k < ROWS; k++)
            x[i + k] = (sw_expf(x[i + k] - lse[i + k]) - one[i + k]) * factor;
}

void SW_ISA_FN(swi_narrow_ce_dx)(float *dx, const float *x, const float *lse,
                                 const sw_ids *labels, int64_t rows, int64_t cols, float factor,
                                 bool accumulate)
{
    for (int64_t first = 0; first < rows; first += ROWS) {
        const int64_t end = rows - first < ROWS ? rows - first : ROWS, n = end * cols;
        const float *from = x + first * cols;
        float *to = dx + first * cols;
        float d[ROWS * NARROW] = {0}, one[ROWS * NARROW] = {0},
                       of[ROWS * NARROW + NARROW] = {0};
        memcpy(d, from, (size_t)n * sizeof *d);
        for (int64_t r = 0; r < end; r++) {
            const int64_t label = sw_id_at(labels, first + r);
            for (int k = 0; k < NARROW; k++) /* what is too much is the next row's */
                of[r * cols + k] = lse[first + r];
            if (label >= 0 && label < cols)
                one[r * cols + label] = 1.0f;
        }
        slopes(d, of, one, n, factor);
        if (accumulate)
            for (int64_t i = 0; i < n; i++)
                to[i] += d[i];
        else
            memcpy(to, d, (size_t)n * sizeof *d);
    }
}
