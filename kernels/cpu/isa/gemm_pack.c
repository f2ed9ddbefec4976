/* Packing the operands of a product. `how` is the type that is read and that of a cell, a
 * constant of each loop. */
#include "kernels/cpu/isa/gemm_pack.h"
#include "kernels/halves.h"

enum { TURN = 8, SPREAD = 8 * ROWS }; /* columns of A that are packed at a time; rows */

/* float32; bf16 in a product of float32; in one of bf16 float32 that is rounded, and bf16; and
 * the last two in pairs. */
enum { AS_IS, STORED, ROUNDED, WIDENED, ROUNDED_PAIRS, WIDENED_PAIRS };

static int reading(sw_bf16_order order, bool half)
{
    if (order == SW_ORDER_NONE)
        return half ? STORED : AS_IS;
    return (half ? WIDENED : ROUNDED) + (swi_cell(order) == 2 ? 2 : 0);
}

SW_VEC_FN bool is_half(int how)
{
    return how == STORED || how == WIDENED || how == WIDENED_PAIRS;
}

SW_VEC_FN int64_t unit_of(int how) /* numbers of a cell */
{
    return how >= ROUNDED_PAIRS ? 2 : 1;
}

SW_VEC_FN const void *number_at(const void *from, int64_t i, int how)
{
    return (const char *)from + i * (is_half(how) ? 2 : 4);
}

/* n lanes of numbers, not rounded. */
SW_VEC_FN vf lanes_at(const void *from, int64_t n, int how)
{
    return vtake(from, 0, n, is_half(how));
}

/* A cell in each of n lanes; of a pair, the second number is `step` numbers on if it exists. */
SW_VEC_FN vf cells_across(const void *from, int64_t step, bool second, int64_t n, int how)
{
    const vf x = lanes_at(from, n, how);
    const vf y =
        unit_of(how) == 2 && second ? lanes_at(number_at(from, step, how), n, how) : vzero();
    if (how == WIDENED_PAIRS) /* of which the lower halves are zero */
        return (vf)((vu)x >> 16 | (vu)y);
    return how == ROUNDED_PAIRS ? vpair(x, y) : how == ROUNDED ? vround_half(x) : x;
}

/* The cells of n contiguous numbers of k, then zeros. */
SW_VEC_FN vf cells_along(const void *from, int64_t n, int how)
{
    if (how == ROUNDED_PAIRS)
        return vcells(from, n);
    if (how != WIDENED_PAIRS)
        return cells_across(from, 0, false, n, how);
    if (n >= 2 * VW)
        return vload(from);
    uint16_t some[2 * VW] = {0};
    memcpy(some, from, (size_t)n * sizeof *some);
    return vload((const float *)(const void *)some);
}

/* Number k of a piece, in its cell; from NULL: zero. */
SW_VEC_FN void put_number(float *to, int64_t cell, int64_t k, const void *from, int how)
{
    float x = 0.0f;
    if (from != NULL)
        x = is_half(how) ? sw_bf16_widen(*(const uint16_t *)from) : *(const float *)from;
    if (how <= STORED) {
        to[cell] = x;
        return;
    }
    const uint16_t half = sw_bf16_round(x);
    if (unit_of(how) == 2)
        ((uint16_t *)(void *)to)[2 * cell + k % 2] = half;
    else
        to[cell] = sw_bf16_widen(half);
}

/* The cell of number k of a piece. */
SW_VEC_FN int64_t place(sw_bf16_order order, int64_t k, int how)
{
    static const uint8_t of[3][32] = {
        {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
         16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
        {1,  0,  3,  2,  5,  4,  7,  6,  9,  8,  11, 10, 13, 12, 15, 14,
         17, 16, 19, 18, 21, 20, 23, 22, 25, 24, 27, 26, 29, 28, 31, 30},
        {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
         8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}};
    if (how <= STORED)
        return k;
    return unit_of(how) == 2 ? k / 2 : (k & ~INT64_C(31)) + of[order][k & 31];
}

/* The end of `depth` numbers where a last pair of one number is whole. */
SW_VEC_FN int64_t whole(int64_t depth, int how)
{
    return (depth + unit_of(how) - 1) / unit_of(how) * unit_of(how);
}

/* ---- B ----------------------------------------------------------------------------------- */

/* Rows whose numbers are contiguous, of the panel from column p on. nv vectors, of which the
 * last has `last` lanes; all a constant where the panel is whole. */
SW_VEC_FN void pack_rows(float *to, const sw_gemm *g, const piece *x, int64_t p, int nv,
                         int64_t last, int how)
{
    const int64_t unit = unit_of(how), row = g->b_row;
    const void *b = number_at(g->b, x->k * row + x->j + p, how);
    const int64_t ahead = FAR * row;
    for (int64_t k = 0; k < x->depth; k += unit) {
        float *cells = to + place(g->order, k, how) * nv * VW;
        const bool second = k + 1 < x->depth;
        const void *far = number_at(b, k + FAR + unit <= x->depth ? ahead : 0, how);
        SW_UNROLL
        for (int v = 0; v < nv; v++) {
            for (int64_t u = 0; u < unit; u++)
                __builtin_prefetch(number_at(far, u * row + v * VW, how), 0, 2);
            vstore(cells + v * VW, cells_across(number_at(b, v * VW, how), row, second,
                                                v < nv - 1 ? VW : last, how));
        }
        b = number_at(b, unit * row, how);
    }
}

/* `some` numbers of k, at most VW cells, of VW columns, of which n exist: they are transposed,
 * and those `next` numbers on are prefetched meanwhile. */
SW_VEC_FN void turn_columns(float *to, int64_t width, const sw_gemm *g, const void *b,
                            int64_t k, int64_t some, int n, int64_t next, int how)
{
    const int64_t unit = unit_of(how);
    vf r[VW];
    for (int i = 0; i < VW; i++) {
        const void *from = number_at(b, i * g->b_col + k, how);
        r[i] = i < n ? cells_along(from, some, how) : vzero();
        for (int64_t u = 0; next > 0 && u < some; u += is_half(how) ? 32 : 16) /* lines */
            __builtin_prefetch(number_at(from, next + u, how), 0, 2);
    }
    vtranspose(r);
    for (int i = 0; i < VW && i * unit < some; i++)
        vstore(to + place(g->order, k + i * unit, how) * width, r[i]);
}

/* Columns [j, j + VW) of a piece, of which n exist. */
SW_VEC_FN void pack_columns(float *to, int64_t width, const sw_gemm *g, const piece *x,
                            int64_t j, int n, int how)
{
    const void *b = number_at(g->b, (x->j + j) * g->b_col + x->k * g->b_row, how);
    const int64_t next = j + 2 * VW <= x->width ? VW * g->b_col : 0;
    const int64_t step = VW * unit_of(how), depth = g->b_row == 1 ? x->depth : 0;
    int64_t k = 0;
    for (; k + step <= depth; k += step)
        turn_columns(to, width, g, b, k, step, n, next, how);
    if (k < depth)
        turn_columns(to, width, g, b, k, depth - k, n, next, how), k = depth;
    for (const int64_t end = whole(x->depth, how); k < end; k++)
        for (int i = 0; i < VW; i++)
            put_number(to, place(g->order, k, how) * width + i, k,
                       i < n && k < x->depth ? number_at(b, k * g->b_row + i * g->b_col, how)
                                             : NULL,
                       how);
}

SW_VEC_FN void pack_b(float *to, const sw_gemm *g, const piece *x, int how)
{
    for (int64_t p = x->raw; g->b_col == 1 && p < x->width; p += NR) {
        const int64_t left = x->width - p;
        if (left >= NR)
            pack_rows(to + p * x->deep, g, x, p, PANEL, VW, how);
        else
            pack_rows(to + p * x->deep, g, x, p, (int)((left + VW - 1) / VW),
                      (left - 1) % VW + 1, how);
    }
    for (int64_t j = x->raw; g->b_col != 1 && j < x->width; j += VW) {
        const int64_t p = j / NR * NR;
        pack_columns(to + p * x->deep + j - p, swi_panel_width(x, p), g, x, j,
                     (int)least(VW, x->width - j), how);
    }
    for (int64_t k = whole(x->depth, how); k < x->deep * unit_of(how); k += unit_of(how))
        for (int64_t p = 0; p < x->width; p += NR) {
            const int64_t width = swi_panel_width(x, p);
            memset(to + p * x->deep + place(g->order, k, how) * width, 0,
                   (size_t)width * sizeof *to);
        }
}

/* ---- A ----------------------------------------------------------------------------------- */

/* `some` columns of A from q on, at most VW cells, of a few rows whose columns are contiguous.
 */
SW_VEC_FN void turn_rows(float *strip, const sw_gemm *g, const void *a, int64_t first,
                         int64_t q, int64_t some, int lanes, int mr, int how)
{
    const int64_t unit = unit_of(how);
    vf x[VW];
    SW_UNROLL
    for (int l = 0; l < VW; l++)
        x[l] =
            l < lanes ? cells_along(number_at(a, l * g->a_row + q, how), some, how) : vzero();
    vtranspose(x);
    SW_UNROLL
    for (int l = 0; l < VW; l++)
        if (l * unit < some)
            vstore_few(strip + place(g->order, q + l * unit - first, how) * mr, x[l], lanes);
}

/* Columns [k, end) of A, of which `first` has place 0, to the strip of mr rows from i on. mr
 * is a constant. */
SW_VEC_FN void pack_strip(float *strip, const sw_gemm *g, int64_t first, int64_t i, int64_t k,
                          int64_t end, int64_t ahead, int mr, int how)
{
    /* Numbers that are written after a column are overwritten by the next one. */
    const bool over = how == AS_IS && mr < VW && VW - mr <= mr;
    const int64_t unit = unit_of(how), step = VW * unit;
    for (int r = 0; r < mr; r += VW) {
        const int lanes = mr - r < VW ? mr - r : VW;
        const void *a = number_at(g->a, (i + r) * g->a_row, how);
        int64_t q = k;
        const int64_t turned = g->a_col == 1 ? end : q;
        for (; q + step <= turned; q += step)
            turn_rows(strip + r, g, a, first, q, step, lanes, mr, how);
        if (q < turned)
            turn_rows(strip + r, g, a, first, q, end - q, lanes, mr, how), q = end;
        for (; g->a_row == 1 && i + r + VW <= g->m && q < end; q += unit) {
            const void *from = number_at(a, q * g->a_col, how);
            __builtin_prefetch(number_at(from, ahead, how), 0, 3);
            float *to = strip + place(g->order, q - first, how) * mr + r;
            const vf x = cells_across(from, g->a_col, q + 1 < end, VW, how);
            if (over && q + 1 < end)
                vstore(to, x);
            else
                vstore_few(to, x, lanes);
        }
        for (const int64_t all = first + whole(end - first, how); q < all; q++)
            for (int l = 0; l < lanes; l++)
                put_number(strip, place(g->order, q - first, how) * mr + r + l, q - first,
                           q < end ? number_at(a, l * g->a_row + q * g->a_col, how) : NULL,
                           how);
    }
}

/* The same of the SPREAD rows from i on, whose columns are contiguous; strips are `apart`. */
SW_VEC_FN void spread_strips(float *strip, int64_t apart, const sw_gemm *g, int64_t first,
                             int64_t i, int64_t k, int64_t end, int64_t ahead, int how)
{
    const int64_t unit = unit_of(how);
    const void *from = number_at(g->a, i * g->a_row + k * g->a_col, how);
    for (; k < end; k += unit, from = number_at(from, unit * g->a_col, how)) {
        vf x[SPREAD / VW + 1]; /* which of 16 lanes are three */
        SW_UNROLL
        for (int v = 0; v < SPREAD / VW; v++)
            x[v] = cells_across(number_at(from, v * VW, how), g->a_col, k + 1 < end, VW, how);
        for (int64_t u = 0; u < unit; u++)
            for (int64_t r = 0; r < SPREAD; r += is_half(how) ? 32 : 16) /* lines */
                __builtin_prefetch(number_at(from, ahead + u * g->a_col + r, how), 0, 3);
        x[SPREAD / VW] = x[0];
        float *to = strip + place(g->order, k - first, how) * ROWS;
        SW_UNROLL
        for (int r = 0; r < SPREAD; r += ROWS)
            vstore_few(to + r / ROWS * apart, vshift(x[r / VW], x[r / VW + 1], r % VW), ROWS);
    }
}

/* TURN columns at a time where they are contiguous: reads go along a few rows of memory, and
 * what is written of a strip is a piece of some cache lines. */
SW_VEC_FN void pack_strips(float *to, const sw_gemm *g, const range *r, int how)
{
    const int64_t depth = r->k_end - r->k, all = swi_deep(g->order, depth);
    const int64_t turn = g->a_col == 1 ? depth : TURN, unit = unit_of(how);
    for (int64_t k = r->k; k < r->k_end; k += turn) {
        const int64_t end = least(k + turn, r->k_end);
        const int64_t ahead = k + 2 * turn <= r->k_end ? turn * g->a_col : 0;
        for (int64_t i = r->i; i < r->end;) {
            const int mr = swi_strip_rows(r->end - i);
            const bool spread =
                VW == 16 && g->a_row == 1 && g->a_col != 1 && r->end - i >= SPREAD;
            float *strip = to + (i - r->i) * all;
            if (spread)
                spread_strips(strip, all * ROWS, g, r->k, i, k, end, ahead, how);
            else if (mr == ROWS)
                pack_strip(strip, g, r->k, i, k, end, ahead, ROWS, how);
            else if (mr == 4)
                pack_strip(strip, g, r->k, i, k, end, ahead, 4, how);
            else if (mr == 2)
                pack_strip(strip, g, r->k, i, k, end, ahead, 2, how);
            else
                pack_strip(strip, g, r->k, i, k, end, ahead, 1, how);
            const int64_t next = i + (spread ? SPREAD : mr);
            for (; i < next; i += mr, strip += all * mr)
                for (int64_t q = whole(depth, how); end == r->k_end && q < all * unit;
                     q += unit)
                    memset(strip + place(g->order, q, how) * mr, 0, (size_t)mr * sizeof *strip);
        }
    }
}

/* Rows of pairs, for tiles. VW rows by VW cells are transposed where columns are contiguous. */
SW_VEC_FN void pack_lines(float *to, const sw_gemm *g, const range *r, int how)
{
    const int64_t depth = r->k_end - r->k, all = swi_deep(g->order, depth);
    for (int64_t i = r->i; i < r->end; i += VW) {
        const int n = (int)least(VW, r->end - i);
        const void *a = number_at(g->a, i * g->a_row + r->k * g->a_col, how);
        float *line = to + (i - r->i) * all;
        for (int64_t q = 0; q < all; q += VW) {
            vf x[VW];
            for (int l = 0; l < VW; l++) {
                const int64_t k = g->a_col == 1 ? 2 * q : 2 * (q + l);
                const void *from = number_at(a, k * g->a_col, how);
                x[l] = vzero();
                if (k >= depth || (g->a_col == 1 && l >= n))
                    continue;
                if (g->a_col == 1)
                    x[l] = cells_along(number_at(from, l * g->a_row, how),
                                       least(depth - k, 2 * VW), how);
                else if (g->a_row == 1)
                    x[l] = cells_across(from, g->a_col, k + 1 < depth, n, how);
                else
                    for (int64_t e = 0; e < 2 * n; e++) /* of two columns, row by row */
                        put_number(
                            (float *)&x[l], e / 2, e,
                            k + e % 2 < depth
                                ? number_at(from, e / 2 * g->a_row + e % 2 * g->a_col, how)
                                : NULL,
                            how);
            }
            if (g->a_col != 1)
                vtranspose(x);
            for (int l = 0; l < n; l++)
                vstore(line + l * all + q, x[l]);
        }
    }
}

/* ------------------------------------------------------------------------------------------ */

#define BY_READING(pack, to, g, what, half)                                                    \
    switch (reading((g)->order, half)) {                                                       \
    case AS_IS:                                                                                \
        pack(to, g, what, AS_IS);                                                              \
        break;                                                                                 \
    case STORED:                                                                               \
        pack(to, g, what, STORED);                                                             \
        break;                                                                                 \
    case ROUNDED:                                                                              \
        pack(to, g, what, ROUNDED);                                                            \
        break;                                                                                 \
    case WIDENED:                                                                              \
        pack(to, g, what, WIDENED);                                                            \
        break;                                                                                 \
    case ROUNDED_PAIRS:                                                                        \
        pack(to, g, what, ROUNDED_PAIRS);                                                      \
        break;                                                                                 \
    default:                                                                                   \
        pack(to, g, what, WIDENED_PAIRS);                                                      \
    }

void swi_stored_run(float *to, const sw_stored *w, int64_t first, int64_t n)
{
    const int64_t unit = w->dtype == SW_I8 ? w->cols : SW_NF4_BLOCK;
    for (int64_t i = first, end = first + n, next; i < end; i = next) {
        const float scale = sw_stored_scale(w, i);
        next = least((i / unit + 1) * unit, end);
        if (w->dtype == SW_I8) {
            const int8_t *codes = (const int8_t *)(const void *)w->bytes + i;
            for (int64_t c = 0; c < next - i; c++)
                to[c] = (float)codes[c] * scale;
        } else {
            float value[16];
            for (int c = 0; c < 16; c++)
                value[c] = sw_nf4_value[c] * scale;
            int64_t c = i;
            for (; c % 2 == 0 && c + 2 <= next; c += 2) {
                to[c - i] = value[w->bytes[c / 2] >> 4];
                to[c - i + 1] = value[w->bytes[c / 2] & 15];
            }
            for (; c < next; c++)
                to[c - i] = value[w->bytes[c / 2] >> (c % 2 == 0 ? 4 : 0) & 15];
        }
        to += next - i;
    }
}

/* Panel by panel: the numbers of its part of B, then their cells. */
static __attribute__((noinline)) void pack_stored(float *to, const sw_gemm *g, const piece *x)
{
    _Alignas(64) float some[NR * SW_GEMM_BLOCK];
    const bool turned = g->b_row == 1;
    sw_gemm part = *g;
    part.stored = NULL;
    part.b = some;
    part.b_row = turned ? 1 : NR;
    part.b_col = turned ? SW_GEMM_BLOCK : 1;
    for (int64_t p = 0; p < x->width; p += NR) {
        const piece y = {.width = least(NR, x->width - p), .depth = x->depth, .deep = x->deep};
        const int64_t runs = turned ? y.width : y.depth, n = turned ? y.depth : y.width;
        const int64_t from = x->k * g->b_row + (x->j + p) * g->b_col;
        for (int64_t r = 0; r < runs; r++)
            swi_stored_run(some + r * (turned ? part.b_col : part.b_row), g->stored,
                           from + r * (turned ? g->b_col : g->b_row), n);
        swi_pack_piece(to + p * x->deep, &part, &y);
    }
}

void swi_pack_piece(float *to, const sw_gemm *g, const piece *x)
{
    if (g->stored != NULL) {
        pack_stored(to, g, x);
        return;
    }
    BY_READING(pack_b, to, g, x, g->b_half)
}

void swi_pack_rows(float *to, const sw_gemm *g, const range *r)
{
    if (g->order != SW_ORDER_TILE_AMX) {
        BY_READING(pack_strips, to, g, r, g->a_half)
    } else if (g->a_half)
        pack_lines(to, g, r, WIDENED_PAIRS);
    else
        pack_lines(to, g, r, ROUNDED_PAIRS);
}
