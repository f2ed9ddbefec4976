/* C = A B in three levels. A task takes COLS columns of C and, for KC rows of B after the
 * other, packs that piece of B into panels of PANEL vectors on its stack and runs register
 * blocks of ROWS rows along it. Nothing is shared between tasks and no one waits, so a product
 * is one parallel region, and B needs no scratch.
 *
 * A is read in place and broadcast. Where its columns are not side by side and there is enough
 * of it (the weight gradient's), it is first packed into strips of ROWS rows, BLOCK rows and KC
 * columns at a time; while one block is multiplied by, the next is packed into a second buffer.
 *
 * An element of C is one chain of multiply-adds over k from the first to the last, which begins
 * at zero or, when adding, at what stood in c; then + bias. Between pieces the chain waits in
 * c. So neither pieces nor tiles nor threads show in the bits, and rows of a sum may be cut
 * anywhere. */
#include "kernels/cpu/isa/block_shapes.h"
#include "kernels/cpu/isa/dense_internal.h"

#define NR (PANEL * VW)

enum {
    KC = SW_GEMM_BLOCK,
    COLS = SWI_GEMM_COLS, /* of a task at a time: 64 KiB of packed B */
    ROWS = 6,             /* of a register block */
    LINE = 16,            /* numbers of a cache line */
    GROUP = 4 * ROWS,     /* rows that run along one panel before the next */
    CHUNK = 48 * GROUP,   /* rows that run along a packed piece of B, at most */
    BLOCK = 42 * GROUP,   /* rows of a packed block of A: 1008 KiB */
    EACH = 8,             /* tasks of a thread */
    TASK_ROWS = 240,      /* from which packing B for a task is a hundredth of its work */
    TURN = 8,             /* columns of A that are packed at a time */
    TURNED_FROM = 1 << 15 /* numbers of A that are worth packing */
};

#define TASK_WORK 8e6 /* multiply-adds that are worth a task of their own: 70 us */

/* Rows [i, end) of C and columns [k, k_end) of A. */
typedef struct {
    int64_t i, end, k, k_end;
} range;

typedef struct {
    const sw_gemm *g;
    range work, pack;    /* of the region that runs; empty: nothing */
    const float *strips; /* A of `work`, packed; NULL: in place */
    float *to;           /* strips of `pack` */
    int row_parts, col_parts, pack_parts;
} gemm_job;

/* ---- packing B --------------------------------------------------------------------------- */

/* The packed part: columns [j, j + width) of rows [k, k + depth). Panels are [k][w], w a
 * multiple of VW, NR for all but the last; panel p begins at p * NR * depth. */
typedef struct {
    int64_t j, width, k, depth;
    int64_t raw; /* the first columns, those of whole panels, are packed by the first rows */
} piece;

/* Memory is asked for AHEAD rows before they are copied. */
enum { AHEAD = 4 };

static int64_t panel_width(const piece *x, int64_t p)
{
    return least(NR, (x->width - p + VW - 1) / VW * VW);
}

/* Rows whose numbers are contiguous. */
static void pack_rows(float *to, const sw_gemm *g, const piece *x)
{
    for (int64_t k = 0; k < x->depth; k++) {
        const float *b = g->b + (x->k + k) * g->b_row + x->j;
        const float *ahead = b + (k + AHEAD < x->depth ? AHEAD * g->b_row : 0);
        for (int64_t j = x->raw; j < x->width; j += VW) {
            const int64_t left = x->width - j, p = j / NR * NR;
            __builtin_prefetch(ahead + j, 0, 2);
            vstore(to + p * x->depth + k * panel_width(x, p) + j - p, vload_upto(b + j, left));
        }
    }
}

/* Columns [j, j + VW) of a piece, of which n exist; their numbers are contiguous. While
 * they are transposed the next ones are prefetched. */
static void pack_turned(float *to, int64_t width, const sw_gemm *g, const piece *x, int64_t j,
                        int n)
{
    const float *b = g->b + (x->j + j) * g->b_col + x->k;
    const int64_t next = j + 2 * VW <= x->width ? VW * g->b_col : 0;
    int64_t k = 0;
    for (; k + VW <= x->depth; k += VW, to += VW * width) {
        vf r[VW];
        for (int i = 0; i < VW; i++) {
            r[i] = i < n ? vload(b + i * g->b_col + k) : vzero();
            if (next > 0)
                __builtin_prefetch(b + i * g->b_col + next + k, 0, 2);
        }
        vtranspose(r);
        for (int i = 0; i < VW; i++)
            vstore(to + i * width, r[i]);
    }
    for (; k < x->depth; k++, to += width)
        for (int i = 0; i < VW; i++)
            to[i] = i < n ? b[k + i * g->b_col] : 0.0f;
}

static void pack_any(float *to, int64_t width, const sw_gemm *g, const piece *x, int64_t j,
                     int n)
{
    const float *b = g->b + (x->j + j) * g->b_col + x->k * g->b_row;
    for (int64_t k = 0; k < x->depth; k++, to += width)
        for (int i = 0; i < VW; i++)
            to[i] = i < n ? b[k * g->b_row + i * g->b_col] : 0.0f;
}

static void pack_piece(float *to, const sw_gemm *g, const piece *x)
{
    if (g->b_col == 1) {
        pack_rows(to, g, x);
        return;
    }
    for (int64_t j = x->raw; j < x->width; j += VW) {
        const int64_t p = j / NR * NR;
        (g->b_row == 1 ? pack_turned : pack_any)(to + p * x->depth + j - p, panel_width(x, p),
                                                 g, x, j, (int)least(VW, x->width - j));
    }
}

/* ---- packing A --------------------------------------------------------------------------- */

/* ROWS numbers of each of n columns, where eight can be read. Numbers written after a column
 * are overwritten by the next one. */
static void pack_columns(float *strip, const float *a, int64_t step, int64_t ahead, int64_t n)
{
    for (int64_t k = 0; k < n - 1; k++, strip += ROWS, a += step) {
        __builtin_prefetch(a + ahead, 0, 3);
        memcpy(strip, a, 8 * sizeof *strip);
    }
    __builtin_prefetch(a + ahead, 0, 3);
    memcpy(strip, a, ROWS * sizeof *strip);
}

/* Strips [k][rows] of the register blocks of r, the one at row i beginning at (i - r->i) *
 * depth. TURN columns at a time: reads go along a few rows of memory, and what is written of a
 * strip is a piece of some cache lines. */
static void pack_strips(float *to, const sw_gemm *g, const range *r)
{
    const int64_t depth = r->k_end - r->k;
    for (int64_t k = 0; k < depth; k += TURN) {
        const int64_t n = least(TURN, depth - k);
        const int64_t ahead = k + 2 * TURN <= depth ? TURN * g->a_col : 0;
        for (int64_t i = r->i; i < r->end;) {
            const int mr = swi_strip_rows(r->end - i);
            const float *a = g->a + i * g->a_row + (r->k + k) * g->a_col;
            float *strip = to + (i - r->i) * depth + k * mr;
            if (g->a_row == 1 && mr == ROWS && i + 8 <= g->m)
                pack_columns(strip, a, g->a_col, ahead, n);
            else
                for (int64_t q = 0; q < n; q++)
                    for (int row = 0; row < mr; row++)
                        *strip++ = a[row * g->a_row + q * g->a_col];
            i += mr;
        }
    }
}

/* Columns of A lie far apart, on many pages and in few sets of a cache: where they are read
 * again and again they pay for being packed. Rows are read in place: each register block asks
 * for those of the next one. */
static bool packs_a(int64_t m, int64_t n, int64_t k, bool turned)
{
    return turned && n > COLS && m * k >= TURNED_FROM;
}

/* Block b of A: KC columns and BLOCK rows as long as there are as many. So a smaller product
 * never takes more scratch than a larger one. */
static range block_of(int64_t m, int64_t k, int64_t b)
{
    const int64_t k_blocks = k > KC ? (k + KC - 1) / KC : 1;
    range r = {.i = b / k_blocks * BLOCK, .k = b % k_blocks * KC};
    r.end = least(r.i + BLOCK, m);
    r.k_end = least(r.k + KC, k);
    return r;
}

static int64_t block_floats(const range *r)
{
    return r->i < r->end ? (r->end - r->i) * (r->k_end - r->k) : 0;
}

/* No later block is larger than the first in its buffer. */
size_t SW_KERNEL(dense, gemm_bytes)(int64_t m, int64_t n, int64_t k, bool turned)
{
    if (!packs_a(m, n, k, turned))
        return 0;
    const range first = block_of(m, k, 0), second = block_of(m, k, 1);
    return (size_t)(block_floats(&first) + block_floats(&second)) * sizeof(float);
}

/* ---- register blocks --------------------------------------------------------------------- */

/* The part to be packed next: `rows` rows of `lines` cache lines, `step` apart, of which a
 * register block asks for `share` lines with each LINE of its sum. */
typedef struct {
    const float *row;
    int64_t rows, step;
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
    int64_t j, c_row; /* column of c; its rows are so far apart */
    int n;            /* columns */
    bool load, finish;
} tile;

SW_VEC_FN void ask(asking *soon)
{
    for (int n = soon->share; n > 0 && soon->rows > 0; n--) {
        __builtin_prefetch(soon->row + soon->at * LINE, 0, 2);
        if (++soon->at == soon->lines) {
            soon->at = 0;
            soon->rows--;
            soon->row += soon->step;
        }
    }
}

/* Rows of B, `step` apart, that become the panel while the first rows of A run along them:
 * copying costs little between products. from NULL: the panel is packed. */
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

/* The sums of `depth` products each. Memory for what comes later is asked for meanwhile:
 * `ahead` is where the next rows of A are, 0 for nowhere. Whether raw.from is NULL is a
 * constant. */
SW_VEC_FN void multiply(vf acc[12][PANEL], const float *a, int64_t row, int64_t col,
                        int64_t ahead, float *panel, int64_t depth, asking *soon, raw_rows raw,
                        int mr, int nv)
{
    const float *at[4]; /* of every third row: three are reached from one address */
    SW_UNROLL
    for (int r = 0; r < mr; r += 3)
        at[r / 3] = a + r * row;
    while (depth > 0) {
        const int64_t n = least(depth, LINE);
        ask(soon);
        if (ahead != 0)
            SW_UNROLL
        for (int r = 0; r < mr; r++)
            __builtin_prefetch(at[r / 3] + r % 3 * row + ahead, 0, 3);
        for (int64_t k = 0; k < n; k++) {
            vf b[PANEL];
            if (raw.from != NULL) {
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
                    acc[r][v] = vfma(x, b[v], acc[r][v]);
            }
            panel += nv * VW;
            SW_UNROLL
            for (int r = 0; r < mr; r += 3)
                at[r / 3] += col;
        }
        depth -= n;
    }
}

/* mr rows from t->i; t->n in ((nv - 1) * VW, nv * VW]. packs: the panel too, from rows of B.
 * mr, nv and packs are constants. */
SW_VEC_FN void sums_of(const tile *t, int mr, int nv, bool packs)
{
    const sw_gemm *g = t->g;
    vf acc[12][PANEL];
    const int64_t c_row = t->c_row;
    float *c = g->c + t->i * c_row + t->j;
    const int last = t->n - (nv - 1) * VW; /* lanes of the last vector */
    const int64_t next = t->i + 2 * mr <= t->limit ? mr : 0;
    SW_UNROLL
    for (int r = 0; r < mr; r++)
        SW_UNROLL
    for (int v = 0; v < nv; v++) {
        const float *from = c + r * c_row + v * VW;
        acc[r][v] = t->load ? vload_upto(from, v < nv - 1 ? VW : last) : vzero();
        __builtin_prefetch(from + next * c_row, 1, 2);
    }
    raw_rows raw = {0};
    if (packs)
        raw = (raw_rows){g->b + t->k * g->b_row + t->j, g->b_row};
    if (t->strips != NULL)
        multiply(acc, t->strips + (t->i - t->first) * t->depth, 1, mr, 0, t->panel, t->depth,
                 t->soon, raw, mr, nv);
    else
        multiply(acc, g->a + t->i * g->a_row + t->k * g->a_col, g->a_row, g->a_col,
                 next * g->a_row, t->panel, t->depth, t->soon, raw, mr, nv);
    const float *bias = t->finish && g->bias != NULL ? g->bias + t->j : NULL;
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
    sums_of(t, mr, nv, false);
}
SHAPES(1)
SHAPES(2)
SHAPES(4)
SHAPES(6)
SHAPE(12, 1)

static __attribute__((noinline)) void block_packing(const tile *t)
{
    sums_of(t, ROWS, PANEL, true);
}

/* All rows of a tile. Narrow panels take more rows, to keep enough sums in flight. */
static void run_tile(tile *t)
{
    static void (*const blocks[ROWS + 1][PANEL])(const tile *) = {
        [1] = NAMES(1), [2] = NAMES(2), [4] = NAMES(4), [ROWS] = NAMES(6)};
    const int nv = (t->n + VW - 1) / VW;
    for (; nv == 1 && t->strips == NULL && t->end - t->i >= 12; t->i += 12)
        block_12_1(t);
    while (t->i < t->end) {
        const int64_t left = t->end - t->i;
        /* Few rows keep too few sums in flight: the last 8 are twice 4 where strips allow
         * it. */
        const int mr = left == 8 && t->strips == NULL ? 4 : swi_strip_rows(left);
        blocks[mr][nv - 1](t);
        t->i += mr;
    }
}

/* ---- tasks ------------------------------------------------------------------------------- */

/* Rows of r along a piece of B. The first ROWS of them pack the raw part of it. */
static void rows_along(const gemm_job *job, const range *r, const piece *x, float *packed,
                       asking *soon)
{
    const sw_gemm *g = job->g;
    const int64_t group = x->width > NR ? GROUP : CHUNK;
    tile t = {
        .g = g, .strips = job->strips, .first = job->work.i, .k = x->k, .depth = x->depth};
    t.soon = soon;
    t.c_row = g->c_row != 0 ? g->c_row : g->n;
    t.load = g->accumulate || x->k > 0;
    t.finish = x->k + x->depth == g->k;
    t.limit = r->end;
    for (int64_t i = r->i; i < r->end; i += group) {
        t.end = least(i + group, r->end);
        for (int64_t p = 0; p < x->width; p += NR) {
            t.panel = packed + p * x->depth;
            t.i = i;
            t.j = x->j + p;
            t.n = (int)least(NR, x->width - p);
            if (i == r->i && p < x->raw) {
                block_packing(&t);
                t.i += ROWS;
            }
            run_tile(&t);
        }
    }
}

/* Ask for piece x of B while `rows` rows of C are worked on. */
static asking ask_for(const sw_gemm *g, const piece *x, int64_t rows)
{
    asking soon = {.row = g->b + x->k * g->b_row + x->j * g->b_col};
    if (g->b_col == 1)
        soon.rows = x->depth, soon.step = g->b_row,
        soon.lines = (int)((x->width + LINE - 1) / LINE);
    else if (g->b_row == 1)
        soon.rows = x->width, soon.step = g->b_col,
        soon.lines = (int)((x->depth + LINE - 1) / LINE);
    const int64_t calls =
        (rows + ROWS - 1) / ROWS * ((x->width + NR - 1) / NR) * ((x->depth + LINE - 1) / LINE);
    soon.share = (int)(soon.rows * soon.lines / (calls > 0 ? calls : 1)) + 1;
    return soon;
}

/* Columns [j, end) of rows r: one piece of B after the other, along k first, so that their
 * sums wait in the near cache. */
static void columns(const gemm_job *job, const range *r, int64_t j, int64_t end)
{
    _Alignas(64) float packed[COLS * KC];
    const int64_t k = job->work.k, k_end = job->work.k_end;
    const int64_t k_blocks = k_end - k > KC ? (k_end - k + KC - 1) / KC : 1;
    const int64_t depth = (k_end - k + k_blocks - 1) / k_blocks;
    piece x = {j, least(COLS, end - j), k, least(depth, k_end - k), 0};
    while (x.j < end) {
        piece next = x;
        next.k += depth;
        if (next.k >= k_end) {
            next.k = k;
            next.j += COLS;
        }
        next.width = least(COLS, end - next.j);
        next.depth = least(depth, k_end - next.k);
        asking soon = {0};
        if (next.j < end)
            soon = ask_for(job->g, &next, r->end - r->i);
        x.raw = job->g->b_col == 1 && r->end - r->i >= ROWS ? x.width / NR * NR : 0;
        pack_piece(packed, job->g, &x);
        rows_along(job, r, &x, packed, &soon);
        x = next;
    }
}

static void region_part(void *arg, int part)
{
    const gemm_job *job = arg;
    if (part < job->pack_parts) { /* first: what is left at the end is then in small pieces */
        range r = job->pack;
        const int64_t rows = r.end - r.i;
        r.i += vpiece(rows, GROUP, part, job->pack_parts);
        r.end = job->pack.i + vpiece(rows, GROUP, part + 1, job->pack_parts);
        pack_strips(job->to + (r.i - job->pack.i) * (r.k_end - r.k), job->g, &r);
        return;
    }
    part -= job->pack_parts;
    const int rp = part / job->col_parts, cp = part % job->col_parts;
    range r = job->work;
    r.i += vpiece(job->work.end - job->work.i, ROWS, rp, job->row_parts);
    r.end = job->work.i + vpiece(job->work.end - job->work.i, ROWS, rp + 1, job->row_parts);
    const int64_t j = vpiece(job->g->n, VW, cp, job->col_parts);
    const int64_t end = vpiece(job->g->n, VW, cp + 1, job->col_parts);
    const int chunks = (int)((r.end - r.i + CHUNK - 1) / CHUNK);
    for (int i = 0; i < chunks; i++) {
        range rows = r;
        rows.i = r.i + vpiece(r.end - r.i, ROWS, i, chunks);
        rows.end = r.i + vpiece(r.end - r.i, ROWS, i + 1, chunks);
        columns(job, &rows, j, end);
    }
}

/* Tasks of a product of `work` multiply-adds: columns first, since tasks of the same columns
 * each pack B for themselves. Cores are not alike: another guest of the host, or another
 * thread, takes half of one for a while. With four equal tasks the other core then gets three.
 * So there are EACH for each thread, where that leaves a task enough rows and work. (Where A is
 * packed, regions follow each other in which small pieces of packing are handed out too.) */
static void split(gemm_job *job, int threads, int64_t rows, double work)
{
    const int64_t cols = (job->g->n + COLS - 1) / COLS;
    const bool large = work > TASK_WORK;
    const int64_t fewest = large ? 2 * threads : threads;
    job->col_parts = (int)least(cols, large ? EACH * threads : threads);
    const int64_t most = least((int64_t)(work / TASK_WORK), EACH * threads);
    if (job->strips == NULL)
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
    const double work = (double)rows * (double)(w->k_end - w->k) * (double)job->g->n;
    job->pack_parts = p->end > p->i;
    job->row_parts = job->col_parts = rows > 0;
    if (threads > 1 && p->end > p->i)
        job->pack_parts = (int)least((p->end - p->i + GROUP - 1) / GROUP, 4 * threads);
    if (threads > 1 && rows > 0)
        split(job, threads, rows, work);
    vparts(par, region_part, job, job->pack_parts + job->row_parts * job->col_parts,
           threads > 1);
}

void SW_KERNEL(dense, gemm)(const sw_gemm *g, void *scratch, const sw_par *par)
{
    gemm_job job = {.g = g, .work = {0, g->m, 0, g->k}};
    const bool worth = (double)g->m * (double)g->n * (double)g->k >= SWI_WORTH;
    const int threads = par != NULL && worth ? par->n_threads : 1;
    if (swi_gemm_is_small(g)) {
        swi_gemm_small(g, threads, par);
        return;
    }
    if (scratch == NULL || !packs_a(g->m, g->n, g->k, g->a_col != 1)) {
        run_region(&job, threads, par);
        return;
    }
    const range first = block_of(g->m, g->k, 0);
    float *buffer[2] = {scratch, (float *)scratch + block_floats(&first)};
    job.work = (range){0};
    for (int64_t b = 0; b == 0 || job.work.i < job.work.end || b == 1; b++) {
        job.pack = block_of(g->m, g->k, b);
        if (job.pack.i >= g->m)
            job.pack = (range){0};
        job.to = buffer[b % 2];
        run_region(&job, threads, par); /* by block b - 1, packing block b */
        job.work = job.pack;
        job.strips = job.to;
    }
}

void swi_gemm_strips(const sw_gemm *g, const float *strips, const sw_par *par)
{
    gemm_job job = {.g = g, .work = {0, g->m, 0, g->k}, .strips = strips};
    const bool worth = (double)g->m * (double)g->n * (double)g->k >= SWI_WORTH;
    run_region(&job, par != NULL && worth ? par->n_threads : 1, par);
}

void swi_gemm_pack(float *packed, const sw_gemm *g)
{
    const piece x = {0, g->n, 0, g->k, 0};
    pack_piece(packed, g, &x);
}

void swi_gemm_along(const sw_gemm *g, float *packed)
{
    const gemm_job job = {.g = g, .work = {0, g->m, 0, g->k}};
    const range rows = {0, g->m, 0, g->k};
    const piece x = {0, g->n, 0, g->k, 0};
    asking soon = {0};
    rows_along(&job, &rows, &x, packed, &soon);
}

/* ---- many products ----------------------------------------------------------------------- */

/* Axes of results that continue the rows of A are rows, and summed axes that continue the
 * columns of A and the rows of B are a longer product, where the strides say so. */
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
            (p->sum_a[i] != p->k * p->a_col || p->sum_b[i] != p->k * p->b_row))
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

static void one_result(const products_job *j, int64_t r)
{
    const sw_products *p = &j->p;
    for (int64_t s = 0; s < j->sums; s++) {
        int64_t a = 0, b = 0;
        offsets(r, p->result, p->result_a, p->result_b, p->n_results, &a, &b);
        offsets(s, p->sum, p->sum_a, p->sum_b, p->n_sums, &a, &b);
        sw_gemm g = {.c = p->c + r * p->m * p->n, .a = p->a + a, .b = p->b + b};
        g.a_row = p->a_row, g.a_col = p->a_col, g.b_row = p->b_row, g.b_col = p->b_col;
        g.m = p->m, g.n = p->n, g.k = p->k;
        g.accumulate = p->accumulate || s > 0;
        swi_gemm(&g, NULL, j->par);
    }
}

static void results_part(void *arg, int part)
{
    const products_job *j = arg;
    const int64_t last = vpiece(j->results, 1, part + 1, j->parts);
    for (int64_t r = vpiece(j->results, 1, part, j->parts); r < last; r++)
        one_result(j, r);
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
    if (j.results >= par->n_threads && par->n_threads > 1 &&
        work * (double)j.results >= SWI_WORTH) {
        j.parts = par->n_threads;
        par->run(par, results_part, &j, j.parts);
        return;
    }
    j.par = par;
    for (int64_t r = 0; r < j.results; r++)
        one_result(&j, r);
}
