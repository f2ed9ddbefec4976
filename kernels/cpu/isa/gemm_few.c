/* C = A B for a few rows, where columns of B are contiguous: a linear layer, token by token.
 * Each number of B is used a few times alone, so its bytes take the time. They stay as they are
 * stored up to the registers: words of 32 bits, of COLS columns, are transposed onto the stack,
 * and their numbers are made and multiplied by in the order of k.
 *
 * An element is the chain of gemm.c. */
#include "kernels/cpu/isa/dense_internal.h"

enum {
    MOST_ROWS = 8, /* numbers of more rows are worth packing */
    GROUPS = 4,    /* vectors of columns: chains in flight */
    COLS = GROUPS * VW,
    WORDS = 64, /* of a column at a time */
    LINE = 16   /* words of a cache line */
};

/* The type of B, and its numbers in a word. */
enum { FULL, HALF, BYTES, NF4, KINDS };
static const int in_word[KINDS] = {1, 2, 4, 8};

typedef struct {
    const char *column[COLS];
    vf sums[MOST_ROWS][GROUPS];
    vf words[WORDS][GROUPS];
    vf scale[WORDS / 8][GROUPS]; /* of BYTES the first ones; of NF4 for eight words each */
} piece;

bool swi_gemm_is_few(const sw_gemm *g)
{
    return g->order == SW_ORDER_NONE && g->m <= MOST_ROWS && g->b_row == 1 && g->a_col == 1 &&
           !g->bias_down && (g->stored == NULL || g->k == g->stored->cols);
}

/* `words` words of all columns from byte `at` on, the last of fewer bytes if `bytes` says so.
 * Those `ahead` are asked for. */
static void turn(piece *p, int64_t at, int words, int64_t bytes, int64_t ahead)
{
    for (int v = 0; v < GROUPS; v++)
        for (int w = 0; w < words; w += VW) {
            const int64_t left = bytes - w * 4;
            vf r[VW];
            for (int i = 0; i < VW; i++) {
                const char *from = p->column[v * VW + i] + at + w * 4;
                vf x = vzero();
                if (left >= 4 * VW)
                    memcpy(&x, from, sizeof x);
                else
                    memcpy(&x, from, (size_t)left);
                r[i] = x;
                if (w % LINE == 0)
                    __builtin_prefetch(from + ahead, 0, 3);
            }
            vtranspose(r);
            for (int i = 0; i < VW; i++)
                p->words[w + i][v] = r[i];
        }
}

/* The numbers of the words of VW columns, without their scales. */
SW_VEC_FN void numbers(vf to[8], vf word, int kind)
{
    const vu x = (vu)word;
    if (kind == FULL)
        to[0] = word;
    else if (kind == HALF) {
        to[0] = (vf)(x << 16);
        to[1] = (vf)(x & 0xffff0000u);
    } else if (kind == NF4)
        vlookup(to, word, sw_nf4_value);
    SW_UNROLL
    for (int u = 0; u < 4 && kind == BYTES; u++)
        to[u] = __builtin_convertvector((vs)(x << (24 - 8 * u)) >> 24, vf);
}

/* mr rows, of which the first is `a` and has its sums at `sums`, by n numbers. */
SW_VEC_FN void multiply(const piece *p, vf sums[][GROUPS], const float *a, int64_t a_row,
                        int64_t n, int mr, int kind)
{
    const int unit = in_word[kind];
    vf acc[2][GROUPS];
    SW_UNROLL
    for (int e = 0; e < mr * GROUPS; e++)
        acc[e / GROUPS][e % GROUPS] = sums[e / GROUPS][e % GROUPS];
    for (int w = 0; n > 0; w++, n -= unit, a += unit) {
        SW_UNROLL
        for (int v = 0; v < GROUPS; v++) {
            vf x[8];
            numbers(x, p->words[w][v], kind);
            SW_UNROLL
            for (int u = 0; u < unit; u++) {
                if ((kind == HALF || kind == BYTES) && u >= n)
                    break;
                if (kind >= BYTES)
                    x[u] = vmul(x[u], p->scale[kind == NF4 ? w / 8 : 0][v]);
                SW_UNROLL
                for (int r = 0; r < mr; r++)
                    acc[r][v] = vfma(vset1(a[r * a_row + u]), x[u], acc[r][v]);
            }
        }
    }
    SW_UNROLL
    for (int e = 0; e < mr * GROUPS; e++)
        sums[e / GROUPS][e % GROUPS] = acc[e / GROUPS][e % GROUPS];
}

/* Columns [j, j + COLS), or up to the last, which then stands for those that are missing. kind
 * is a constant. */
SW_VEC_FN void columns(const sw_gemm *g, int64_t j, int kind)
{
    piece p;
    const int unit = in_word[kind];
    const int64_t c_row = g->c_row != 0 ? g->c_row : g->n;
    for (int c = 0; c < COLS; c++) {
        const int64_t first = least(j + c, g->n - 1) * g->b_col;
        p.column[c] = (kind >= BYTES ? (const char *)g->stored->bytes : (const char *)g->b) +
                      first * 4 / unit;
        if (kind == BYTES)
            ((float *)p.scale[0])[c] = sw_stored_scale(g->stored, first);
    }
    for (int e = 0; e < g->m * GROUPS; e++) {
        const int64_t at = j + e % GROUPS * VW;
        p.sums[e / GROUPS][e % GROUPS] =
            g->accumulate && at < g->n ? vload_upto(g->c + e / GROUPS * c_row + at, g->n - at)
                                       : vzero();
    }
    for (int64_t k = 0, n; k < g->k; k += n) {
        n = least(WORDS * unit, g->k - k);
        turn(&p, k * 4 / unit, (int)((n + unit - 1) / unit), n * 4 / unit,
             (k + n < g->k ? n : COLS * g->b_col - k) * 4 / unit);
        for (int64_t b = 0; kind == NF4 && b < n; b += SW_NF4_BLOCK)
            for (int c = 0; c < COLS; c++)
                ((float *)p.scale[b / SW_NF4_BLOCK])[c] =
                    sw_stored_scale(g->stored, least(j + c, g->n - 1) * g->b_col + k + b);
        int64_t i = 0;
        for (; i + 2 <= g->m; i += 2)
            multiply(&p, p.sums + i, g->a + i * g->a_row + k, g->a_row, n, 2, kind);
        if (i < g->m)
            multiply(&p, p.sums + i, g->a + i * g->a_row + k, g->a_row, n, 1, kind);
    }
    for (int e = 0; e < g->m * GROUPS; e++) {
        const int64_t at = j + e % GROUPS * VW, left = g->n - at;
        const vf sum = p.sums[e / GROUPS][e % GROUPS];
        if (left > 0)
            vstore_upto(g->c + e / GROUPS * c_row + at,
                        g->bias != NULL ? vadd(sum, vload_upto(g->bias + at, left)) : sum,
                        left);
    }
}

#define PART(kind)                                                                             \
    static void part_##kind(void *arg, int part)                                               \
    {                                                                                          \
        columns(arg, (int64_t)part *COLS, kind);                                               \
    }
PART(FULL)
PART(HALF)
PART(BYTES)
PART(NF4)

void swi_gemm_few(const sw_gemm *g, int threads, const sw_par *par)
{
    vruns(par,
          g->stored == NULL            ? (g->b_half ? part_HALF : part_FULL)
          : g->stored->dtype == SW_NF4 ? part_NF4
                                       : part_BYTES,
          (void *)(uintptr_t)g, (int)((g->n + COLS - 1) / COLS), threads > 1);
}
