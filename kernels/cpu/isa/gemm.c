/* C = A B in three levels. A task takes COLS columns of C and, for KC rows of B after the
 * other, packs that piece of B into panels of PANEL vectors on its stack and runs register
 * blocks of ROWS rows along it. Nothing is shared between tasks and no one waits, so a product
 * is one parallel region, and B needs no scratch.
 *
 * A is read in place and broadcast. Where its columns lie far apart and there is enough of it
 * (a large weight gradient's), and where A in place is slow (Intel), a task packs its rows into
 * strips of ROWS rows on its stack, for KC columns of A and all the task has of C.
 *
 * An element of C is one chain of multiply-adds over k from the first to the last, which begins
 * at zero or, when adding, at what stood in c; then + bias. One that goes down, of a
 * convolution in float32, is where the chain begins, as in the other convolutions. Between
 * pieces the chain waits in c. So neither pieces nor tiles nor threads show in the bits, and
 * rows of a sum may be cut anywhere.
 *
 * In an order of bf16, A is packed too: a group of rows for itself on the task's stack, or in
 * scratch, HALF_BLOCK rows and KC columns at a time; while one block is multiplied by, the next
 * is packed into a second buffer. For VDPBF16PS a piece of B has DEEP rows: blocks of A are as
 * deep, one after the other, and rows of pairs are read in place. By FMA, pair is the same
 * chain over swapped k, and tile is made of two chains for each 32 k: the order is in the
 * places of the packed numbers. Where C is of bf16 its sums wait on the task's stack, or in
 * scratch; then a block of rows goes along some columns only. */
#include "kernels/cpu/isa/gemm_pack.h"

enum {
    KC = SW_GEMM_BLOCK,
    COLS = SWI_GEMM_COLS,  /* of a task at a time: 64 KiB of packed B */
    LINE = 16,             /* cells of a cache line, and of a row of a tile */
    GROUP = 4 * ROWS,      /* rows that run along one panel before the next */
    AMX = 2 * LINE,        /* the same of tiles, and columns of a block of four */
    CHUNK = 48 * GROUP,    /* rows that run along a packed piece of B, at most */
    OWN = 216 * KC,        /* numbers of A that a task packs at a time: 216 KiB on its stack */
    OWN_COLS = 1024,       /* columns of C that it packs them for, where C is wide */
    FAR_COLS = 2048,       /* columns of A that are at least so far apart are packed; */
    LONG = 512,            /* on Intel also rows, where m, n and k are at least that */
    HALF_BLOCK = 512,      /* rows of a packed block of A in an order of bf16 */
    SUMS = 1 << 18,        /* that wait in scratch, at most */
    SUM_ROWS = 8 * GROUP,  /* of sums that wait on the stack */
    EACH = 8,              /* tasks of a thread */
    TASK_ROWS = 240,       /* from which packing B for a task is a hundredth of its work */
    TURNED_FROM = 1 << 15, /* numbers of A that are worth packing */
    STRIP_AHEAD = 384,  /* cells of a strip of pairs that are asked for: another cache has it */
    DEEP = 1024,        /* rows of B of a task at a time for VDPBF16PS: 128 KiB */
    FAR_BYTES = 1 << 23 /* of B that no near cache holds */
};

#define TASK_WORK 8e6 /* multiply-adds that are worth a task of their own: 70 us */

/* Elements of C or their sums; the first is element (i, j). */
typedef struct {
    float *at;
    int64_t row, i, j;
} region;

typedef struct {
    const sw_gemm *g;
    range work, pack; /* of the region that runs; empty: nothing */
    const float
        *strips;      /* A of `work`, packed, one KC columns after the other; NULL: in place */
    float *to;        /* strips of `pack` */
    region sums;      /* of `work`, until they are rounded into C; NULL: on the stack */
    int64_t own_rows; /* of A, that a task packs for itself at most; 0: none */
    bool pairs;       /* pieces of B have DEEP rows; A is in place or in strips as deep */
    int row_parts, col_parts, pack_parts, threads;
} gemm_job;

/* ---- packing A --------------------------------------------------------------------------- */

/* Columns of A lie far apart, on many pages and in few sets of a cache: where they are read
 * again and again they pay for being packed. Rows are read in place: each register block asks
 * for those of the next one. On Sapphire Rapids packed rows are faster where there are enough
 * of all. */
static bool worth_packing(int64_t m, int64_t n, int64_t k)
{
    return n > COLS && m * k >= TURNED_FROM;
}
static bool packs_own(const sw_gemm *g)
{
    const bool slow = g->pack_rows || sw_cpu_packs_rows();
    if (g->a_col == 1)
        return slow && least(least(g->m, g->n), g->k) >= LONG;
    return (slow || g->a_col >= FAR_COLS) && worth_packing(g->m, g->n, g->k);
}

/* Are rows of A pairs for VDPBF16PS as they stand? */
static bool has_pairs(const sw_gemm *g)
{
    return g->order == SW_ORDER_PAIR_DOT && g->a_half && g->a_col == 1 && g->a_row % 2 == 0 &&
           g->k % 2 == 0 && (uintptr_t)g->a % sizeof(float) == 0 && g->stored == NULL;
}

/* Block b of A: KC columns and HALF_BLOCK rows as long as there are as many. So a smaller
 * product never takes more scratch than a larger one. It goes along `cols` columns of C; a
 * block goes through all k before the next columns or rows. */
static range block_of(int64_t m, int64_t n, int64_t k, int64_t cols, int64_t b)
{
    const int64_t k_blocks = k > KC ? (k + KC - 1) / KC : 1;
    const int64_t col_blocks = n > cols ? (n + cols - 1) / cols : 1, c = b / k_blocks;
    range r = {
        .i = c / col_blocks * HALF_BLOCK, .k = b % k_blocks * KC, .j = c % col_blocks * cols};
    r.end = least(r.i + HALF_BLOCK, m);
    r.k_end = least(r.k + KC, k);
    r.j_end = least(r.j + cols, n);
    return r;
}

static int64_t block_floats(const range *r)
{
    return r->i < r->end ? (r->end - r->i) * swi_deep(SW_ORDER_TILE, r->k_end - r->k) : 0;
}

/* No later block is larger than the first in its buffer; but the second one of a product of KC
 * columns may be larger than the rest of columns of a deeper one. */
size_t SW_KERNEL(dense, gemm_bytes)(int64_t m, int64_t n, int64_t k, bool half)
{
    if (!half || !worth_packing(m, n, k))
        return 0;
    const range first = block_of(m, n, k, n, 0), second = block_of(m, n, k, n, 1);
    const range flat = block_of(m, n, least(k, KC), n, 1);
    const int64_t sums = k > KC ? least(least(m, HALF_BLOCK) * n, SUMS) : 0;
    const int64_t rest = block_floats(&second) + sums, other = block_floats(&flat);
    return (size_t)(block_floats(&first) + (rest > other ? rest : other)) * sizeof(float);
}

/* ---- register blocks --------------------------------------------------------------------- */

/* The part to be packed next: `rows` rows of `lines` cache lines, `step` apart, of which a
 * register block asks for `share` lines with each LINE of its sum. */
typedef struct {
    const char *row;
    int64_t rows, step; /* in bytes */
    int lines, at, share;
} asking;

/* Rows [i, end) along one panel. */
typedef struct {
    const sw_gemm *g;
    asking *soon;
    const float *strips; /* A from row `first` on, packed; NULL: in place */
    int64_t first;
    float *panel;
    int64_t i, end, limit; /* rows up to `limit` follow in later tiles */
    int64_t k, depth;
    int64_t j; /* column of C */
    region c;
    int n; /* columns */
    bool load, finish;
    int64_t set; /* rows that the tiles of AMX are set for */
} tile;

SW_VEC_FN void ask(asking *soon)
{
    for (int n = soon->share; n > 0 && soon->rows > 0; n--) {
        __builtin_prefetch(soon->row + soon->at * (int)(LINE * sizeof(float)), 0, 2);
        if (++soon->at == soon->lines) {
            soon->at = 0;
            soon->rows--;
            soon->row += soon->step;
        }
    }
}

/* Rows of B, `step` apart, that become the panel while the first rows of A run along them:
 * copying costs little between products. */
typedef struct {
    const float *from;
    int64_t step;
} raw_rows;

SW_VEC_FN void pack_row(vf b[PANEL], float *panel, const raw_rows *raw)
{
    SW_UNROLL
    for (int v = 0; v < PANEL; v++) {
        b[v] = vload(raw->from + v * VW);
        vstore(panel + v * VW, b[v]);
        __builtin_prefetch(raw->from + v * VW + AHEAD * raw->step, 0, 3);
    }
}

/* The kind of a register block: a constant of each. */
enum { PLAIN, PACKING, TILES, DOTS }; /* packs the panel, from rows of B; pairs by vdot */

/* The sums of `depth` cells each. Memory for what comes later is asked for meanwhile: `ahead`
 * is where the next rows of A are, 0 for nowhere; `later` the same of a strip, a constant. */
SW_VEC_FN void multiply(vf acc[12][PANEL], const float *a, int64_t row, int64_t col,
                        int64_t ahead, int later, float *panel, int64_t depth, asking *soon,
                        raw_rows raw, int mr, int nv, int kind)
{
    const float *at[4]; /* of every third row: three are reached from one address */
    SW_UNROLL
    for (int r = 0; r < mr; r += 3)
        at[r / 3] = a + r * row;
    while (depth > 0) {
        const int64_t n = least(depth, LINE);
        ask(soon);
        if (later != 0)
            SW_UNROLL
        for (int r = 0; r < mr; r++)
            __builtin_prefetch(at[0] + later + r * LINE, 0, 2);
        if (ahead != 0)
            SW_UNROLL
        for (int r = 0; r < mr; r++)
            __builtin_prefetch(at[r / 3] + r % 3 * row + ahead, 0, 3);
        for (int64_t k = 0; k < n; k++) {
            vf b[PANEL];
            if (kind == PACKING) {
                pack_row(b, panel, &raw);
                raw.from += raw.step;
            } else
                SW_UNROLL
            for (int v = 0; v < nv; v++)
                b[v] = vload(panel + v * VW);
            SW_UNROLL
            for (int r = 0; r < mr; r++) {
                const vf x = vset1(at[r / 3][r % 3 * row]);
                SW_UNROLL
                for (int v = 0; v < nv; v++)
                    acc[r][v] =
                        kind == DOTS ? vdot(x, b[v], acc[r][v]) : vfma(x, b[v], acc[r][v]);
            }
            panel += nv * VW;
            SW_UNROLL
            for (int r = 0; r < mr; r += 3)
                at[r / 3] += col;
        }
        depth -= n;
    }
}

/* Each 32 in the order of a tile: the chains of the even and of the odd k, then their sum. */
SW_VEC_FN void multiply_tiles(vf acc[12][PANEL], const float *a, float *panel, int64_t depth,
                              asking *soon, int mr, int nv)
{
    for (; depth > 0; depth -= TILE) {
        vf chain[2][12][PANEL];
        SW_UNROLL
        for (int odd = 0; odd < 2; odd++) {
            SW_UNROLL
            for (int r = 0; r < mr; r++)
                SW_UNROLL
            for (int v = 0; v < nv; v++)
                chain[odd][r][v] = vzero();
            multiply(chain[odd], a, 1, mr, 0, 0, panel, LINE, soon, (raw_rows){0}, mr, nv,
                     TILES);
            a += LINE * mr;
            panel += LINE * nv * VW;
        }
        SW_UNROLL
        for (int r = 0; r < mr; r++)
            SW_UNROLL
        for (int v = 0; v < nv; v++)
            acc[r][v] = vadd(acc[r][v], vadd(chain[0][r][v], chain[1][r][v]));
    }
}

/* mr rows from t->i; t->n in ((nv - 1) * VW, nv * VW]. mr, nv and kind are constants. */
SW_VEC_FN void sums_of(const tile *t, int mr, int nv, int kind)
{
    const sw_gemm *g = t->g;
    vf acc[12][PANEL];
    const int64_t c_row = t->c.row;
    float *c = t->c.at + (t->i - t->c.i) * c_row + t->j - t->c.j;
    const int last = t->n - (nv - 1) * VW; /* lanes of the last vector */
    const int64_t next = t->i + 2 * mr <= t->limit ? mr : 0, cell = kind == DOTS ? 2 : 1;
    SW_UNROLL
    for (int r = 0; r < mr; r++)
        SW_UNROLL
    for (int v = 0; v < nv; v++) {
        const float *from = c + r * c_row + v * VW;
        acc[r][v] = t->load ? vload_upto(from, v < nv - 1 ? VW : last) : vzero();
        __builtin_prefetch(from + next * c_row, 1, 2);
    }
    raw_rows raw = {0};
    if (kind == PACKING)
        raw = (raw_rows){g->b + t->k * g->b_row + t->j, g->b_row};
    if (kind == TILES)
        multiply_tiles(acc, t->strips + (t->i - t->first) * t->depth, t->panel, t->depth,
                       t->soon, mr, nv);
    else if (t->strips != NULL)
        multiply(acc, t->strips + (t->i - t->first) * t->depth, 1, mr, 0,
                 kind == DOTS ? STRIP_AHEAD * mr : 0, t->panel, t->depth, t->soon, raw, mr, nv,
                 kind);
    else
        multiply(acc, g->a + (t->i * g->a_row + t->k * g->a_col) / cell, g->a_row / cell,
                 g->a_col, next * g->a_row / cell, 0, t->panel, t->depth, t->soon, raw, mr, nv,
                 kind);
    const float *bias = t->finish && !g->bias_down && g->bias != NULL ? g->bias + t->j : NULL;
    SW_UNROLL
    for (int v = 0; v < nv; v++) {
        const int lanes = v < nv - 1 ? VW : last;
        const vf add = bias != NULL ? vload_upto(bias + v * VW, lanes) : vzero();
        SW_UNROLL
        for (int r = 0; r < mr; r++) {
            const vf x = bias != NULL ? vadd(acc[r][v], add) : acc[r][v];
            vstore_upto(c + r * c_row + v * VW, x, lanes);
        }
    }
}

SW_VEC_FN void block(const tile *t, int mr, int nv)
{
    sums_of(t, mr, nv, PLAIN);
}
SW_VEC_FN void tiles(const tile *t, int mr, int nv)
{
    sums_of(t, mr, nv, TILES);
}
SW_VEC_FN void dots(const tile *t, int mr, int nv)
{
    sums_of(t, mr, nv, DOTS);
}
SHAPES(block, 1)
SHAPES(block, 2)
SHAPES(block, 4)
SHAPES(block, 6)
SHAPE(block, 12, 1)
SHAPES(tiles, 1)
SHAPES(tiles, 2)
SHAPES(tiles, 4)
SHAPES(tiles, 6)
SHAPES(dots, 1)
SHAPES(dots, 2)
SHAPES(dots, 4)
SHAPES(dots, 6)

static __attribute__((noinline)) void block_packing(const tile *t)
{
    sums_of(t, ROWS, PANEL, PACKING);
}

/* ---- AMX --------------------------------------------------------------------------------- */
#if SW_ISA_ID == 2

/* Tiles 0 to 3 are sums, two beside two; 4 and 5 rows of A; 6 and 7 columns of B. Memory
 * is named here: intrinsics of some compilers do not. Tests have a model of them. */
#ifndef TILE_SET
#define TILE_SET(from) __asm__ volatile("ldtilecfg %0" ::"m"(from))
#define TILE_RELEASE() __asm__ volatile("tilerelease" ::)
#define TILE_LOAD(tile, at, step)                                                              \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(at), "r"((step)*4) : "memory")
#define TILE_STORE(at, step, t)                                                                \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(at), "r"((step)*4) : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
#define TILE_DOT(sum, a, b)                                                                    \
    __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)
#endif

/* For `rows` of up to AMX rows. */
static void set_tiles(int64_t rows)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } set = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        const bool lower = i == 2 || i == 3 || i == 5;
        set.bytes[i] = 64;
        set.rows[i] = i > 5 ? LINE : (uint8_t)(lower ? rows - LINE : least(rows, LINE));
        if (lower && rows <= LINE)
            set.bytes[i] = set.rows[i] = 0;
    }
    TILE_SET(set);
}

/* `rows` rows from t->i by up to AMX columns from column p of the panel. */
static void amx_block(const tile *t, int64_t rows, int64_t p, int64_t width)
{
    _Alignas(64) float apart[AMX * AMX];
    const int64_t cols = least(AMX, t->n - p), a_step = t->depth;
    const bool down = rows > LINE, right = cols > LINE, by = cols % LINE != 0;
    float *c = t->c.at + (t->i - t->c.i) * t->c.row + t->j + p - t->c.j;
    float *to = by ? apart : c;
    const int64_t step = by ? AMX : t->c.row;
    for (int64_t r = 0; by && t->load && r < rows; r++)
        for (int64_t j = 0; j < cols; j += VW)
            vstore(apart + r * AMX + j, vload_upto(c + r * t->c.row + j, cols - j));
    TILE_ZERO(0);
    TILE_ZERO(1);
    if (t->load)
        TILE_LOAD(0, to, step);
    if (t->load && right)
        TILE_LOAD(1, to + LINE, step);
    if (down) {
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    if (t->load && down)
        TILE_LOAD(2, to + LINE * step, step);
    if (t->load && down && right)
        TILE_LOAD(3, to + LINE * step + LINE, step);
    const float *a = t->strips + (t->i - t->first) * a_step, *b = t->panel + p;
    for (int64_t k = 0; k < t->depth; k += LINE, a += LINE, b += LINE * width) {
        ask(t->soon);
        TILE_LOAD(6, b, width);
        TILE_LOAD(4, a, a_step);
        TILE_DOT(0, 4, 6);
        if (down) {
            TILE_LOAD(5, a + LINE * a_step, a_step);
            TILE_DOT(2, 5, 6);
        }
        if (right) {
            TILE_LOAD(7, b + LINE, width);
            TILE_DOT(1, 4, 7);
            if (down)
                TILE_DOT(3, 5, 7);
        }
    }
    TILE_STORE(to, step, 0);
    if (right)
        TILE_STORE(to + LINE, step, 1);
    if (down)
        TILE_STORE(to + LINE * step, step, 2);
    if (down && right)
        TILE_STORE(to + LINE * step + LINE, step, 3);
    const sw_gemm *g = t->g;
    const float *bias =
        t->finish && !g->bias_down && g->bias != NULL ? g->bias + t->j + p : NULL;
    for (int64_t r = 0; (by || bias != NULL) && r < rows; r++)
        for (int64_t j = 0; j < cols; j += VW) {
            const vf x = vload(to + r * step + j);
            vstore_upto(c + r * t->c.row + j,
                        bias != NULL ? vadd(x, vload_upto(bias + j, cols - j)) : x, cols - j);
        }
}

static void run_amx(tile *t)
{
    const int64_t width = (t->n + VW - 1) / VW * VW;
    for (int64_t rows; t->i < t->end; t->i += rows) {
        rows = least(AMX, t->end - t->i);
        if (rows != t->set) /* which clears all tiles */
            set_tiles(t->set = rows);
        for (int64_t p = 0; p < t->n; p += AMX)
            amx_block(t, rows, p, width);
    }
}

static void end_tiles(sw_bf16_order order)
{
    if (order == SW_ORDER_TILE_AMX)
        TILE_RELEASE();
}
#else
static void run_amx(tile *t)
{
    (void)t; /* never: there is no such order at this level */
}
static void end_tiles(sw_bf16_order order)
{
    (void)order;
}
#endif

/* All rows of a tile. Narrow panels take more rows, to keep enough sums in flight. */
static void run_tile(tile *t)
{
    static void (*const blocks[3][ROWS + 1][PANEL])(const tile *) = {{[1] = NAMES(block, 1),
                                                                      [2] = NAMES(block, 2),
                                                                      [4] = NAMES(block, 4),
                                                                      [ROWS] = NAMES(block, 6)},
                                                                     {[1] = NAMES(tiles, 1),
                                                                      [2] = NAMES(tiles, 2),
                                                                      [4] = NAMES(tiles, 4),
                                                                      [ROWS] = NAMES(tiles, 6)},
                                                                     {[1] = NAMES(dots, 1),
                                                                      [2] = NAMES(dots, 2),
                                                                      [4] = NAMES(dots, 4),
                                                                      [ROWS] = NAMES(dots, 6)}};
    if (t->g->order == SW_ORDER_TILE_AMX) {
        run_amx(t);
        return;
    }
    const int of = t->g->order == SW_ORDER_TILE ? 1 : t->g->order == SW_ORDER_PAIR_DOT ? 2 : 0;
    const int nv = (t->n + VW - 1) / VW;
    for (; of == 0 && nv == 1 && t->strips == NULL && t->end - t->i >= 12; t->i += 12)
        block_12_1(t);
    while (t->i < t->end) {
        const int64_t left = t->end - t->i;
        /* Few rows keep too few sums in flight: the last 8 are twice 4 where strips allow
         * it. */
        const int mr = left == 8 && t->strips == NULL ? 4 : swi_strip_rows(left);
        blocks[of][mr][nv - 1](t);
        t->i += mr;
    }
}

/* ---- tasks ------------------------------------------------------------------------------- */

/* Rows [i, end) and the columns of x: from C of bf16 to its sums, and back; then with a bias
 * that goes down, which may be of a C of float32 in its own place. */
static void take_sums(const sw_gemm *g, const region *sums, const piece *x, int64_t i,
                      int64_t end, bool back)
{
    for (; i < end; i++) {
        float *sum = sums->at + (i - sums->i) * sums->row + x->j - sums->j;
        uint16_t *c = (uint16_t *)(void *)g->c + i * (g->c_row != 0 ? g->c_row : g->n) + x->j;
        const vf bias = vset1(g->bias_down && g->bias != NULL ? g->bias[i] : -0.0f);
        for (int64_t j = 0; j < x->width; j += VW) {
            const int64_t left = x->width - j;
            if (!back)
                vstore_upto(sum + j, vload_half_upto(c + j, left), left);
            else if (g->c_half)
                vstore_half_upto(c + j, vadd(vload_upto(sum + j, left), bias), left);
            else
                vstore_upto(sum + j, vadd(vload_upto(sum + j, left), bias), left);
        }
    }
}

/* Rows of r along a piece of B. The first ROWS of them pack the raw part of it. In an order of
 * bf16 each group of rows is packed into `own` where no strips are there; NULL: in place. */
static void rows_along(const gemm_job *job, const range *r, const piece *x, float *packed,
                       region sums, float *own, asking *soon)
{
    const sw_gemm *g = job->g;
    const bool half = g->order != SW_ORDER_NONE;
    const int64_t group = g->order == SW_ORDER_TILE_AMX ? AMX
                          : x->width > NR || half       ? GROUP
                                                        : CHUNK;
    tile t = {.g = g, .first = job->work.i, .k = x->k, .depth = x->deep};
    if (job->strips != NULL)
        t.strips = job->strips +
                   swi_deep(g->order, x->k - job->work.k) * (job->work.end - job->work.i);
    else if (job->own_rows)
        t.strips = own, t.first = r->i;
    t.soon = soon;
    t.c = sums;
    const bool begins = !half && g->bias_down && g->bias != NULL && !g->accumulate;
    t.load = g->accumulate || x->k > 0 || begins;
    t.finish = x->k + x->depth == g->k;
    t.limit = r->end;
    for (int64_t i = r->i; i < r->end; i += group) {
        t.end = least(i + group, r->end);
        if (own != NULL && job->strips == NULL && !job->own_rows) {
            const range rows = {.i = i, .end = t.end, .k = x->k, .k_end = x->k + x->depth};
            swi_pack_rows(own, g, &rows);
            t.strips = own;
            t.first = i;
        }
        if (g->c_half && x->k == 0 &&
            t.finish) /* of no later piece: one group after the other */
            t.c.i = i;
        if (g->c_half && x->k == 0 && g->accumulate)
            take_sums(g, &t.c, x, i, t.end, false);
        for (int64_t row = i; begins && x->k == 0 && row < t.end; row++)
            for (int64_t j = 0; j < x->width; j += VW)
                vstore_upto(t.c.at + (row - t.c.i) * t.c.row + x->j + j - t.c.j,
                            vset1(g->bias[row]), x->width - j);
        for (int64_t p = 0; p < x->width; p += NR) {
            t.panel = packed + p * x->deep;
            t.i = i;
            t.j = x->j + p;
            t.n = (int)least(NR, x->width - p);
            if (i == r->i && p < x->raw) {
                block_packing(&t);
                t.i += ROWS;
            }
            run_tile(&t);
        }
        if ((g->c_half || (g->bias_down && g->bias != NULL && !begins)) && t.finish)
            take_sums(g, &t.c, x, i, t.end, true);
    }
}

/* Ask for piece x of B while `rows` rows of C are worked on. */
static asking ask_for(const sw_gemm *g, const piece *x, int64_t rows)
{
    const int bytes = g->b_half ? 2 : 4;
    const int64_t line = LINE * (int64_t)sizeof(float) / bytes;
    asking soon = {.row = swi_element(g->b, x->k * g->b_row + x->j * g->b_col, g->b_half)};
    if (g->b_col == 1)
        soon.rows = x->depth, soon.step = g->b_row * bytes,
        soon.lines = (int)((x->width + line - 1) / line);
    else if (g->b_row == 1)
        soon.rows = x->width, soon.step = g->b_col * bytes,
        soon.lines = (int)((x->depth + line - 1) / line);
    const bool amx = g->order == SW_ORDER_TILE_AMX;
    const int64_t down = amx ? AMX : ROWS, across = amx ? AMX : NR;
    const int64_t calls = (rows + down - 1) / down * ((x->width + across - 1) / across) *
                          ((swi_deep(g->order, x->depth) + LINE - 1) / LINE);
    soon.share = (int)(soon.rows * soon.lines / (calls > 0 ? calls : 1)) + 1;
    return soon;
}

/* Numbers of k of a piece. */
static int64_t depth_of(const gemm_job *job, const range *w)
{
    const int64_t k = w->k_end - w->k, most = job->pairs ? DEEP : KC;
    const int64_t pieces = k > most ? (k + most - 1) / most : 1;
    const int64_t depth = (k + pieces - 1) / pieces;
    return job->g->order == SW_ORDER_NONE       ? depth
           : job->strips != NULL && !job->pairs ? KC
                                                : swi_deep(SW_ORDER_TILE, depth);
}

/* The columns of a part, and its first piece. */
static int64_t part_columns(const gemm_job *job, const range *w, int part, piece *x)
{
    const int64_t cols = w->j_end - w->j;
    const int cp = part % job->col_parts;
    const int64_t end = w->j + vpiece(cols, VW, cp + 1, job->col_parts);
    *x = (piece){.j = w->j + vpiece(cols, VW, cp, job->col_parts), .k = w->k};
    x->width = least(COLS, end - x->j);
    x->depth = least(depth_of(job, w), w->k_end - w->k);
    return end;
}

/* The first piece of what this thread has after a part, if all parts take as long: in the same
 * region or in the next one. Nothing where caches hold B. */
static piece later_piece(const gemm_job *job, int part)
{
    const int parts = job->row_parts * job->col_parts, next = part + job->threads;
    const range *w = next < parts ? &job->work : &job->pack;
    const int64_t bytes = job->g->k * job->g->n * (job->g->b_half ? 2 : 4);
    piece x = {0};
    if (w->i < w->end && bytes > FAR_BYTES)
        part_columns(job, w, next % parts, &x);
    return x;
}

/* Piece p of columns [first, end): along k first, so that their sums wait in the near cache;
 * where a task packs A, along columns first, so that all of them use what is packed. It has no
 * columns where there is no such piece. */
static piece piece_of(const gemm_job *job, int64_t first, int64_t end, int64_t p)
{
    const int64_t k = job->work.k, k_end = job->work.k_end, depth = depth_of(job, &job->work);
    const int64_t across = (end - first + COLS - 1) / COLS;
    const int64_t down = k_end > k ? (k_end - k + depth - 1) / depth : 1;
    if (p >= across * down)
        return (piece){0};
    piece x = {.j = first + (job->own_rows > 0 ? p % across : p / down) * COLS,
               .k = k + (job->own_rows > 0 ? p / across : p % down) * depth};
    x.width = least(COLS, end - x.j);
    x.depth = least(depth, k_end - x.k);
    return x;
}

/* Columns [first->j, end) of rows r, piece after piece of B; then comes piece `later`. packed:
 * room for a piece; waiting: for sums of bf16; own: for packed rows of A. */
static __attribute__((noinline)) void columns(const gemm_job *job, const range *r,
                                              const piece *first, int64_t end,
                                              const piece *later, float *packed, float *waiting,
                                              float *own)
{
    const sw_gemm *g = job->g;
    piece x = piece_of(job, first->j, end, 0), next;
    for (int64_t p = 1; x.width > 0; p++, x = next) {
        next = piece_of(job, first->j, end, p);
        const piece *after = next.width > 0 ? &next : later;
        asking soon = {0};
        if (after->width > 0 && g->stored == NULL)
            soon = ask_for(g, after, r->end - r->i);
        const bool plain = g->order == SW_ORDER_NONE && !g->b_half && g->stored == NULL;
        x.raw = plain && g->b_col == 1 && r->end - r->i >= ROWS ? x.width / NR * NR : 0;
        x.deep = swi_deep(g->order, x.depth);
        region sums = {g->c, g->c_row != 0 ? g->c_row : g->n, 0, 0};
        if (g->c_half)
            sums = job->sums.at != NULL ? job->sums : (region){waiting, COLS, r->i, x.j};
        const range rows = {.i = r->i, .end = r->end, .k = x.k, .k_end = x.k + x.depth};
        if (job->own_rows && x.j == first->j)
            swi_pack_rows(own, g, &rows);
        swi_pack_piece(packed, g, &x);
        rows_along(job, r, &x, packed, sums, own, &soon);
    }
}

/* Each by itself, so that a product has no more stack than its way needs. */
static __attribute__((noinline)) void columns_FULL(const gemm_job *job, const range *r,
                                                   const piece *first, int64_t end,
                                                   const piece *later)
{
    _Alignas(64) float packed[COLS * KC];
    columns(job, r, first, end, later, packed, NULL, NULL);
}

static __attribute__((noinline)) void columns_OWN(const gemm_job *job, const range *r,
                                                  const piece *first, int64_t end,
                                                  const piece *later)
{
    _Alignas(64) float packed[COLS * KC], own[OWN];
    columns(job, r, first, end, later, packed, NULL, own);
}

static __attribute__((noinline)) void columns_HALF(const gemm_job *job, const range *r,
                                                   const piece *first, int64_t end,
                                                   const piece *later)
{
    _Alignas(64) float packed[COLS * KC], waiting[SUM_ROWS * COLS], own[GROUP * KC];
    columns(job, r, first, end, later, packed, waiting, own);
    end_tiles(job->g->order);
}

static __attribute__((noinline)) void columns_PAIRS(const gemm_job *job, const range *r,
                                                    const piece *first, int64_t end,
                                                    const piece *later)
{
    _Alignas(64) float packed[COLS * DEEP / 2], waiting[SUM_ROWS * COLS];
    columns(job, r, first, end, later, packed, waiting, NULL);
}

static void region_part(void *arg, int part)
{
    const gemm_job *job = arg;
    if (part < job->pack_parts) { /* first: what is left at the end is then in small pieces */
        range r = job->pack;
        const int64_t rows = r.end - r.i;
        r.i += vpiece(rows, GROUP, part, job->pack_parts);
        r.end = job->pack.i + vpiece(rows, GROUP, part + 1, job->pack_parts);
        swi_pack_rows(job->to + (r.i - job->pack.i) * swi_deep(job->g->order, r.k_end - r.k),
                      job->g, &r);
        return;
    }
    part -= job->pack_parts;
    const int rp = part / job->col_parts;
    range r = job->work;
    const int64_t unit = job->g->order == SW_ORDER_TILE_AMX ? AMX : ROWS;
    r.i += vpiece(job->work.end - job->work.i, unit, rp, job->row_parts);
    r.end = job->work.i + vpiece(job->work.end - job->work.i, unit, rp + 1, job->row_parts);
    piece first = {0}, later = later_piece(job, part);
    const int64_t end = part_columns(job, &job->work, part, &first);
    const bool waits =
        job->g->c_half && job->g->k > (job->pairs ? DEEP : KC) && job->sums.at == NULL;
    const int64_t chunk = waits ? SUM_ROWS : CHUNK; /* rows of a part that packs A are fewer */
    const int chunks = (int)((r.end - r.i + chunk - 1) / chunk);
    for (int i = 0; i < chunks; i++) {
        range rows = r;
        rows.i = r.i + vpiece(r.end - r.i, unit, i, chunks);
        rows.end = r.i + vpiece(r.end - r.i, unit, i + 1, chunks);
        const piece *next = i + 1 < chunks ? &first : &later;
        (job->own_rows                    ? columns_OWN
         : job->g->order == SW_ORDER_NONE ? columns_FULL
         : job->pairs                     ? columns_PAIRS
                                          : columns_HALF)(job, &rows, &first, end, next);
    }
}

/* Where tasks pack A they are short rather than narrow, for a narrow one packs the rows of its
 * neighbour again; and there is no last round of a few. */
static void split_own(gemm_job *job, int threads, int64_t rows, int64_t cols, int64_t fewest)
{
    const int64_t longest = (rows + job->own_rows - 1) / job->own_rows;
    int64_t across = cols * COLS / OWN_COLS;
    across = across > 1 ? across : 1;
    const int64_t some = least((fewest + across - 1) / across, rows / (2 * GROUP));
    int64_t down = least(EACH * threads / across, 2 * rows / job->own_rows);
    down = down > some ? down : some;
    down = down > longest ? down : longest;
    if (down * across < fewest)
        across = least(cols, (fewest + down - 1) / down);
    for (int64_t d = down; d >= longest && d > down * 3 / 4; d--)
        if (d * across % threads == 0) {
            down = d;
            break;
        }
    job->row_parts = (int)down;
    job->col_parts = (int)across;
}

/* Tasks of a product of `work` multiply-adds: columns first, since tasks of the same columns
 * each pack B for themselves. Cores are not alike: another guest of the host, or another
 * thread, takes half of one for a while. With four equal tasks the other core then gets three.
 * So there are EACH for each thread, where that leaves a task enough rows and work. (Where A of
 * bf16 is packed, regions follow each other that hand out small pieces of packing too.) */
static void split(gemm_job *job, int threads, int64_t rows, double work)
{
    const int64_t cols = (job->work.j_end - job->work.j + COLS - 1) / COLS;
    const bool large = work > TASK_WORK;
    const int64_t fewest = large ? 2 * threads : threads;
    job->col_parts = (int)least(cols, large ? EACH * threads : threads);
    const int64_t most = least((int64_t)(work / TASK_WORK), EACH * threads);
    if (job->own_rows > 0)
        split_own(job, threads, rows, cols, fewest);
    else if (job->strips == NULL)
        job->row_parts = (int)least(most / job->col_parts, rows / TASK_ROWS);
    if (job->row_parts * job->col_parts < fewest)
        job->row_parts = (int)least((rows + GROUP - 1) / GROUP,
                                    (fewest + job->col_parts - 1) / job->col_parts);
    job->row_parts = job->row_parts > 1 ? job->row_parts : 1;
}

static void run_region(gemm_job *job, int threads, const sw_par *par)
{
    const range *w = &job->work, *p = &job->pack;
    const int64_t rows = w->end - w->i;
    const double work = (double)rows * (double)(w->k_end - w->k) * (double)(w->j_end - w->j);
    job->pack_parts = p->end > p->i;
    job->threads = threads;
    job->row_parts = job->col_parts = rows > 0;
    if (threads > 1 && p->end > p->i)
        job->pack_parts = (int)least((p->end - p->i + GROUP - 1) / GROUP, 4 * threads);
    if ((threads > 1 || job->own_rows) && rows > 0)
        split(job, threads, rows, work);
    vparts(par, region_part, job, job->pack_parts + job->row_parts * job->col_parts,
           threads > 1);
}

/* C by rows of A in place and some columns, whose sums wait in scratch. */
static void by_rows_in_place(gemm_job *job, float *scratch, int64_t cols, int threads,
                             const sw_par *par)
{
    const sw_gemm *g = job->g;
    for (int64_t i = 0; i < g->m; i += HALF_BLOCK)
        for (int64_t j = 0; j < g->n; j += cols) {
            job->work =
                (range){i, least(i + HALF_BLOCK, g->m), 0, g->k, j, least(j + cols, g->n)};
            job->sums = (region){scratch, least(g->n, cols), i, j};
            run_region(job, threads, par);
        }
}

/* C by blocks of A, of which the next is packed while one is multiplied by. */
static void by_blocks(gemm_job *job, float *scratch, int64_t cols, bool waits, int threads,
                      const sw_par *par)
{
    const sw_gemm *g = job->g;
    const range first = block_of(g->m, g->n, g->k, cols, 0);
    const range second = block_of(g->m, g->n, g->k, cols, 1);
    float *buffer[2] = {scratch, scratch + block_floats(&first)};
    job->work = (range){0};
    for (int64_t b = 0; b == 0 || job->work.i < job->work.end || b == 1; b++) {
        job->pack = block_of(g->m, g->n, g->k, cols, b);
        if (job->pack.i >= g->m)
            job->pack = (range){0};
        job->to = buffer[b % 2];
        if (waits)
            job->sums = (region){buffer[1] + block_floats(&second), least(g->n, cols),
                                 job->work.i, job->work.j};
        run_region(job, threads, par); /* by block b - 1, packing block b */
        job->work = job->pack;
        job->strips = job->to;
    }
}

/* The same by strips for VDPBF16PS, one deep block after the other. */
static void by_deep_blocks(gemm_job *job, float *scratch, int threads, const sw_par *par)
{
    const sw_gemm *g = job->g;
    job->pairs = true;
    for (int64_t i = 0; i < g->m; i += HALF_BLOCK)
        for (int64_t k = 0; k < g->k; k += DEEP) {
            job->pack =
                (range){i, least(i + HALF_BLOCK, g->m), k, least(k + DEEP, g->k), 0, g->n};
            job->to = scratch;
            job->work = (range){0};
            run_region(job, threads, par);
            job->work = job->pack;
            job->strips = scratch;
            job->pack = (range){0};
            run_region(job, threads, par);
        }
}

void SW_KERNEL(dense, gemm)(const sw_gemm *g, void *scratch, const sw_par *par)
{
    gemm_job job = {.g = g, .work = {0, g->m, 0, g->k, 0, g->n}};
    const bool worth = (double)g->m * (double)g->n * (double)g->k >= SWI_WORTH;
    const bool half = g->order != SW_ORDER_NONE;
    const int threads = par != NULL && worth ? par->n_threads : 1;
    if (!half && swi_gemm_is_small(g)) {
        swi_gemm_small(g, threads, par);
        return;
    }
    if (swi_gemm_is_few(g)) {
        swi_gemm_few(g, threads, par);
        return;
    }
    const bool in_place = has_pairs(g), waits = g->c_half && g->k > KC;
    job.own_rows = !half && packs_own(g) ? OWN / least(g->k, KC) / GROUP * GROUP : 0;
    job.pairs = in_place;
    if (scratch == NULL || !half || !worth_packing(g->m, g->n, g->k) ||
        (in_place && (!waits || g->k <= DEEP || g->m <= SUM_ROWS))) {
        run_region(&job, threads, par);
        return;
    }
    const int64_t cols = waits ? SUMS / least(g->m, HALF_BLOCK) / COLS * COLS : g->n;
    if (in_place)
        by_rows_in_place(&job, scratch, cols, threads, par);
    else if (g->order == SW_ORDER_PAIR_DOT && g->stored == NULL && !(waits && g->k > DEEP))
        by_deep_blocks(&job, scratch, threads, par);
    else
        by_blocks(&job, scratch, cols, waits, threads, par);
}

void swi_gemm_pack_strips(float *strips, const sw_gemm *g, int64_t first, int64_t end)
{
    for (int64_t k = 0; k < g->k; k += KC) {
        const range r = {.i = first, .end = end, .k = k, .k_end = least(k + KC, g->k)};
        swi_pack_rows(strips + g->m * swi_deep(g->order, k) +
                          first * swi_deep(g->order, r.k_end - k),
                      g, &r);
    }
}

void swi_gemm_strips(const sw_gemm *g, const float *strips, const sw_par *par)
{
    gemm_job job = {.g = g, .work = {0, g->m, 0, g->k, 0, g->n}, .strips = strips};
    const bool worth = (double)g->m * (double)g->n * (double)g->k >= SWI_WORTH;
    run_region(&job, par != NULL && worth ? par->n_threads : 1, par);
}

void swi_gemm_pack(float *packed, const sw_gemm *g)
{
    const piece x = {.width = g->n, .depth = g->k, .deep = swi_deep(g->order, g->k)};
    swi_pack_piece(packed, g, &x);
}

void swi_gemm_along(const sw_gemm *g, float *packed)
{
    const gemm_job job = {.g = g, .work = {0, g->m, 0, g->k, 0, g->n}};
    const piece x = {.width = g->n, .depth = g->k, .deep = swi_deep(g->order, g->k)};
    const region c = {g->c, g->c_row != 0 ? g->c_row : g->n, 0, 0};
    _Alignas(64) float own[GROUP * KC];
    asking soon = {0};
    const bool in_place = g->order == SW_ORDER_NONE || has_pairs(g);
    rows_along(&job, &job.work, &x, packed, c, in_place ? NULL : own, &soon);
    end_tiles(g->order);
}

/* ---- many products ----------------------------------------------------------------------- */

/* Axes of results that continue the rows of A are rows, and summed axes that continue the
 * columns of A and the rows of B are a longer product, where the strides say so and no summed
 * piece is padded. */
typedef struct {
    sw_products p;
    int64_t results, sums;
    int parts;
    const sw_par *par; /* inside one product */
} products_job;

static void join_axes(sw_products *p)
{
    for (int i; p->n_results > 0; p->n_results--) {
        i = p->n_results - 1;
        if (p->result[i] != 1 &&
            (p->n_sums > 0 || p->result_b[i] != 0 || p->result_a[i] != p->m * p->a_row))
            break;
        p->m *= p->result[i];
    }
    for (int i; p->n_sums > 0; p->n_sums--) {
        i = p->n_sums - 1;
        if (p->sum[i] != 1 &&
            (swi_deep(p->order, p->k) * swi_cell(p->order) != p->k ||
             p->sum_a[i] != p->k * p->a_col || p->sum_b[i] != p->k * p->b_row))
            break;
        p->k *= p->sum[i];
    }
}

static int64_t positions(const int64_t *dim, int n)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++)
        all *= dim[i];
    return all;
}

static void offsets(int64_t position, const int64_t *dim, const int64_t *step_a,
                    const int64_t *step_b, int n, int64_t *a, int64_t *b)
{
    for (int i = n - 1; i >= 0; i--) {
        *a += position % dim[i] * step_a[i];
        *b += position % dim[i] * step_b[i];
        position /= dim[i];
    }
}

/* waiting: for a tile of C after the other; NULL: C is its own. */
static void one_result(const products_job *j, int64_t r, float *waiting)
{
    const sw_products *p = &j->p;
    const bool waits = waiting != NULL;
    const int64_t rows = waits ? SUM_ROWS : p->m, cols = waits ? COLS : p->n;
    sw_gemm g = {.c = swi_element(p->c, r * p->m * p->n, p->c_half),
                 .m = p->m,
                 .n = p->n,
                 .k = p->k,
                 .order = p->order};
    g.a_row = p->a_row, g.a_col = p->a_col, g.b_row = p->b_row, g.b_col = p->b_col;
    g.a_half = p->a_half, g.b_half = p->b_half, g.c_half = p->c_half;
    for (int64_t i = 0; i < p->m; i += rows)
        for (int64_t col = 0; col < p->n; col += cols) {
            const region sums = {waiting, COLS, i, col};
            const piece x = {.j = col, .width = least(cols, p->n - col)};
            const int64_t end = least(i + rows, p->m);
            sw_gemm part = g;
            part.m = end - i, part.n = x.width;
            if (waits)
                part.c = waiting, part.c_row = COLS, part.c_half = false;
            if (waits && p->accumulate)
                take_sums(&g, &sums, &x, i, end, false);
            for (int64_t s = 0; s < j->sums; s++) {
                int64_t a = i * p->a_row, b = col * p->b_col;
                offsets(r, p->result, p->result_a, p->result_b, p->n_results, &a, &b);
                offsets(s, p->sum, p->sum_a, p->sum_b, p->n_sums, &a, &b);
                part.a = swi_element(p->a, a, p->a_half);
                part.b = swi_element(p->b, b, p->b_half);
                part.accumulate = p->accumulate || s > 0;
                swi_gemm(&part, NULL, j->par);
            }
            if (waits)
                take_sums(&g, &sums, &x, i, end, true);
        }
}

static __attribute__((noinline)) void waiting_result(const products_job *j, int64_t r)
{
    _Alignas(64) float waiting[SUM_ROWS * COLS];
    one_result(j, r, waiting);
}

static void results_part(void *arg, int part)
{
    const products_job *j = arg;
    const int64_t last = vpiece(j->results, 1, part + 1, j->parts);
    for (int64_t r = vpiece(j->results, 1, part, j->parts); r < last; r++)
        if (j->p.c_half && j->sums > 1)
            waiting_result(j, r);
        else
            one_result(j, r, NULL);
}

void SW_KERNEL(axes, products)(const sw_products *given, const sw_par *par)
{
    products_job j = {.p = *given};
    sw_products *p = &j.p;
    join_axes(p);
    j.results = positions(p->result, p->n_results);
    j.sums = positions(p->sum, p->n_sums);
    if (j.sums == 0) { /* the sum of nothing */
        j.sums = 1;
        p->n_sums = 0;
        p->k = 0;
    }
    const double work = (double)p->m * (double)p->n * (double)p->k * (double)j.sums;
    const bool apart = j.results >= par->n_threads && par->n_threads > 1 &&
                       work * (double)j.results >= SWI_WORTH;
    j.parts = apart ? par->n_threads : 1;
    j.par = apart ? NULL : par;
    vparts(par, results_part, &j, j.parts, true);
}
