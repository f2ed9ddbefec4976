/* C = A B where B fits into the near cache: products of small nets, whose operands are there
 * already. B is read where it lies if its rows are; else it is turned once, without further
 * cuts. Nothing is asked for ahead.
 *
 * An element is the chain of gemm.c. Where a few columns are left whole vectors and the
 * columns of A are contiguous, as in a weight's gradient, these have rows of C in the lanes. */
#include "kernels/cpu/isa/block_shapes.h"
#include "kernels/cpu/isa/dense_internal.h"

enum {
    MASKS = SW_ISA_ID == 2, /* the last vector of a row of B may be a part of one */
    DEPTH = SW_GEMM_BLOCK,
    COLS = SWI_GEMM_COLS,
    MOST_ROWS = 1024,
    ROWS = 6,  /* of a register block, */
    TALL = 12, /* and of one vector, to keep enough sums in flight */
    FEW = 2    /* columns that are left and go by rows */
};

/* Rows [i, end) and columns [j, j + (nv - 1) VW + last) of C. */
typedef struct {
    const sw_gemm *g;
    const float *b; /* B from column j on; its rows are b_step apart */
    int64_t b_step, c_row, i, end, j;
    int last;
} tile;

typedef struct {
    const sw_gemm *g;
    int64_t cols, c_row; /* columns that have lanes; the others are after them */
    bool packs;
    int parts;
} small_job;

bool swi_gemm_is_small(const sw_gemm *g)
{
    return g->n <= COLS && g->k <= DEPTH && g->m <= MOST_ROWS && g->k > 0 && !g->bias_down &&
           !g->b_half && g->stored == NULL;
}

/* ---- B ----------------------------------------------------------------------------------- */

static int64_t padded(int64_t cols)
{
    return (cols + VW - 1) / VW * VW;
}

/* Columns [j, j + n) of rows [k, k + depth) to `to`: B's columns are contiguous. n and depth
 * are at most VW. */
SW_VEC_FN void turn(float *to, int64_t step, const sw_gemm *g, int64_t j, int n, int64_t k,
                    int depth)
{
    const float *b = g->b + j * g->b_col + k;
    vf r[VW];
    SW_UNROLL
    for (int i = 0; i < VW; i++)
        r[i] = i >= n        ? vzero()
               : depth == VW ? vload(b + i * g->b_col)
                             : vload_n(b + i * g->b_col, depth);
    vtranspose(r);
    for (int i = 0; i < depth; i++)
        vstore(to + i * step, r[i]);
}

/* Rows of `cols` columns and zeros up to whole vectors. */
static void pack(float *to, const sw_gemm *g, int64_t cols)
{
    const int64_t step = padded(cols);
    for (int64_t j = 0; j < cols; j += VW) {
        const int n = cols - j < VW ? (int)(cols - j) : VW;
        int64_t k = 0;
        for (; g->b_row == 1 && k + VW <= g->k; k += VW)
            turn(to + k * step + j, step, g, j, n, k, VW);
        if (g->b_row == 1 && g->k - k > VW / 4) {
            turn(to + k * step + j, step, g, j, n, k, (int)(g->k - k));
            k = g->k;
        }
        for (; k < g->k; k++)
            for (int i = 0; i < VW; i++)
                to[k * step + j + i] = i < n ? g->b[k * g->b_row + (j + i) * g->b_col] : 0.0f;
    }
}

/* ---- columns in the lanes ---------------------------------------------------------------- */

/* mr rows from t->i and nv vectors; mr and nv are constants. */
SW_VEC_FN void block(const tile *t, int mr, int nv)
{
    const sw_gemm *g = t->g;
    const float *a[4], *b = t->b; /* of every third row: three are reached from one address */
    float *c = g->c + t->i * t->c_row + t->j;
    vf acc[TALL][PANEL];
    SW_UNROLL
    for (int r = 0; r < mr; r++)
        SW_UNROLL
    for (int v = 0; v < nv; v++)
        acc[r][v] = !g->accumulate ? vzero()
                    : v < nv - 1   ? vload(c + r * t->c_row + v * VW)
                                   : vload_n(c + r * t->c_row + v * VW, t->last);
    SW_UNROLL
    for (int r = 0; r < mr; r += 3)
        a[r / 3] = g->a + (t->i + r) * g->a_row;
    for (int64_t k = 0; k < g->k; k++, b += t->b_step) {
        vf x[PANEL];
        SW_UNROLL
        for (int v = 0; v < nv; v++)
            x[v] = MASKS && v == nv - 1 ? vload_n(b + v * VW, t->last) : vload(b + v * VW);
        SW_UNROLL
        for (int r = 0; r < mr; r++) {
            const vf y = vset1(a[r / 3][r % 3 * g->a_row]);
            SW_UNROLL
            for (int v = 0; v < nv; v++)
                acc[r][v] = vfma(y, x[v], acc[r][v]);
        }
        SW_UNROLL
        for (int r = 0; r < mr; r += 3)
            a[r / 3] += g->a_col;
    }
    SW_UNROLL
    for (int v = 0; v < nv; v++) {
        const int n = v < nv - 1 ? VW : t->last;
        const float *bias = g->bias != NULL ? g->bias + t->j + v * VW : NULL;
        const vf add = bias != NULL ? vload_upto(bias, n) : vzero();
        SW_UNROLL
        for (int r = 0; r < mr; r++) {
            const vf sum = bias != NULL ? vadd(acc[r][v], add) : acc[r][v];
            vstore_upto(c + r * t->c_row + v * VW, sum, n);
        }
    }
}

SHAPES(block, 1)
SHAPES(block, 2)
SHAPES(block, 4)
SHAPES(block, 6)
SHAPE(block, 12, 1)

static void run_tile(tile *t, int nv)
{
    static void (*const blocks[ROWS + 1][PANEL])(const tile *) = {[1] = NAMES(block, 1),
                                                                  [2] = NAMES(block, 2),
                                                                  [4] = NAMES(block, 4),
                                                                  [ROWS] = NAMES(block, 6)};
    for (; nv == 1 && t->end - t->i >= TALL; t->i += TALL)
        block_12_1(t);
    while (t->i < t->end) {
        const int mr = swi_strip_rows(t->end - t->i);
        blocks[mr][nv - 1](t);
        t->i += mr;
    }
}

/* ---- rows in the lanes ------------------------------------------------------------------- */

/* Rows [i, i + nv * VW) of column j. */
SW_VEC_FN void column(const small_job *s, int64_t i, int64_t j, int nv)
{
    const sw_gemm *g = s->g;
    const float *a = g->a + i, *b = g->b + j * g->b_col;
    float c[PANEL * VW] = {0};
    vf acc[PANEL];
    for (int r = 0; g->accumulate && r < nv * VW; r++)
        c[r] = g->c[(i + r) * s->c_row + j];
    SW_UNROLL
    for (int v = 0; v < nv; v++)
        acc[v] = vload(c + v * VW);
    for (int64_t k = 0; k < g->k; k++, a += g->a_col, b += g->b_row) {
        const vf y = vset1(*b);
        SW_UNROLL
        for (int v = 0; v < nv; v++)
            acc[v] = vfma(vload(a + v * VW), y, acc[v]);
    }
    SW_UNROLL
    for (int v = 0; v < nv; v++)
        vstore(c + v * VW, g->bias != NULL ? vadd(acc[v], vset1(g->bias[j])) : acc[v]);
    for (int r = 0; r < nv * VW; r++)
        g->c[(i + r) * s->c_row + j] = c[r];
}

static void columns_left(const small_job *s, int64_t first, int64_t end)
{
    for (int64_t j = s->cols; j < s->g->n; j++) {
        int64_t i = first;
        for (; i + PANEL * VW <= end; i += PANEL * VW)
            column(s, i, j, PANEL);
        for (; i < end; i += VW)
            column(s, i, j, 1);
    }
}

/* ---- tasks ------------------------------------------------------------------------------- */

static void rows_part(void *arg, int part)
{
    const small_job *s = arg;
    const sw_gemm *g = s->g;
    _Alignas(64) float packed[COLS * DEPTH];
    const int64_t unit = s->cols < g->n ? VW : ROWS;
    const int64_t first = vpiece(g->m, unit, part, s->parts);
    tile t = {.g = g, .b_step = s->packs ? padded(s->cols) : g->b_row, .c_row = s->c_row};
    t.end = vpiece(g->m, unit, part + 1, s->parts);
    if (s->packs)
        pack(packed, g, s->cols);
    for (; t.j < s->cols; t.j += PANEL * VW) {
        const int64_t left = s->cols - t.j;
        const int nv = left >= PANEL * VW ? PANEL : (int)((left + VW - 1) / VW);
        t.last = left >= nv * VW ? VW : (int)(left - (nv - 1) * VW);
        t.b = (s->packs ? packed : g->b) + t.j;
        t.i = first;
        run_tile(&t, nv);
    }
    columns_left(s, first, t.end);
}

void swi_gemm_small(const sw_gemm *g, int threads, const sw_par *par)
{
    small_job s = {.g = g, .cols = g->n, .c_row = g->c_row != 0 ? g->c_row : g->n, .parts = 1};
    const int64_t rest = g->n % VW;
    if (rest > 0 && rest <= FEW && g->n > VW && g->a_row == 1 && g->m % VW == 0)
        s.cols -= rest;
    s.packs = g->b_col != 1 || (!MASKS && s.cols % VW != 0);
    if (threads > 1)
        s.parts = (int)(g->m / (4 * ROWS) < threads ? g->m / (4 * ROWS) : threads);
    s.parts = s.parts > 0 ? s.parts : 1;
    vparts(par, rows_part, &s, s.parts, threads > 1);
}
