/* Gradient of the weights of a convolution of one position, no stride, one group: each is the
 * product of a channel of dy with a channel of x, over all images, positions and lanes.
 *
 * It goes in pieces of at most DEPTH positions of an image or block. Of a piece the channels of
 * the tensor that has fewer are transposed and packed into panels; rows of the other run along
 * them, as in swi_gemm. A weight is a chain of multiply-adds in each piece, and the sum of its
 * pieces in order: pieces are cut by shape, and the error grows with their number and depth,
 * not with the number of positions.
 *
 * Parts of the work: tiles of the weights, which stand on the stack until they are complete. No
 * scratch. */
#include "kernels/cpu/isa/dense_internal.h"

enum {
    DEPTH = SW_GEMM_BLOCK,
    COLS = SWI_GEMM_COLS, /* of a tile */
    ROWS = 192,
    LEAST_ROWS = 48 /* that are worth packing columns for */
};

typedef struct {
    const float *row, *col; /* dy and x, or x and dy */
    float *dw, *db;
    int64_t rows, cols, dw_row, dw_col; /* channels; steps of dw */
    int64_t size, images;               /* floats of a plane; images or blocks */
    const float *dy;
    int64_t out_c;
    bool accumulate_dw, accumulate_db;
    int row_tiles, col_tiles;
} dw_job;

/* Positions [from, from + n) of image b. Planes of one float: of images [b, b + n). */
typedef struct {
    int64_t b, from, n;
} piece;

static bool next_piece(const dw_job *j, piece *p)
{
    const bool points = j->size == 1;
    const int64_t all = points ? j->images : j->size;
    int64_t *at = points ? &p->b : &p->from;
    *at += p->n;
    if (!points && *at >= all) {
        p->b++;
        *at = 0;
    }
    p->n = all - *at < DEPTH ? all - *at : DEPTH;
    return p->b < j->images && p->n > 0;
}

/* Rows from r on by columns from c on of a piece. */
static sw_gemm product_of(const dw_job *j, const piece *p, int64_t r, int64_t c)
{
    const bool points = j->size == 1;
    sw_gemm g = {.k = p->n};
    g.a_row = j->size, g.a_col = points ? j->rows : 1;
    g.b_row = points ? j->cols : 1, g.b_col = j->size;
    g.a = j->row + (p->b * j->rows + r) * j->size + p->from;
    g.b = j->col + (p->b * j->cols + c) * j->size + p->from;
    return g;
}

static void add_to(float *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        vstore(y + i, vadd(vload(y + i), vload(x + i)));
    for (; i < n; i++)
        y[i] += x[i];
}

/* A tile, (rows, cols), into rows from r on and columns from c on of dw. */
static void put_tile(const dw_job *j, const float *tile, int64_t r, int64_t rows, int64_t c,
                     int64_t cols)
{
    for (int64_t i = 0; i < rows; i++) {
        float *dw = j->dw + (r + i) * j->dw_row + c * j->dw_col;
        for (int64_t k = 0; k < cols; k++, dw += j->dw_col)
            *dw = j->accumulate_dw ? *dw + tile[i * cols + k] : tile[i * cols + k];
    }
}

static void tile_of(const dw_job *j, int64_t r, int64_t rows, int64_t c, int64_t cols)
{
    _Alignas(64) float packed[COLS * DEPTH], tile[ROWS * COLS], more[ROWS * COLS];
    piece p = {0};
    bool first = true;
    while (next_piece(j, &p)) {
        sw_gemm g = product_of(j, &p, r, c);
        g.m = rows, g.n = cols;
        g.c = first ? tile : more;
        swi_gemm_pack(packed, &g);
        swi_gemm_along(&g, packed);
        if (!first)
            add_to(tile, more, rows * cols);
        first = false;
    }
    if (first) /* the sum of nothing */
        memset(tile, 0, (size_t)(rows * cols) * sizeof *tile);
    put_tile(j, tile, r, rows, c, cols);
}

/* The sum of dy of one channel, images in order. */
static float bias_sum(const dw_job *j, int64_t o)
{
    vf acc = vzero();
    for (int64_t b = 0; b < j->images; b++) {
        const float *dy = j->dy + (b * j->out_c + o) * j->size;
        int64_t i = 0;
        for (; i + VW <= j->size; i += VW)
            acc = vadd(acc, vload(dy + i));
        if (i < j->size)
            acc = vadd(acc, vload_n(dy + i, (int)(j->size - i)));
    }
    float sum[4];
    vsum4(sum, acc, vzero(), vzero(), vzero());
    return sum[0];
}

static void dw_part(void *arg, int part)
{
    const dw_job *j = arg;
    const int rt = part / j->col_tiles, ct = part % j->col_tiles;
    const int parts = j->row_tiles * j->col_tiles;
    const int64_t r = vpiece(j->rows, 1, rt, j->row_tiles);
    const int64_t c = vpiece(j->cols, VW, ct, j->col_tiles);
    tile_of(j, r, vpiece(j->rows, 1, rt + 1, j->row_tiles) - r, c,
            vpiece(j->cols, VW, ct + 1, j->col_tiles) - c);
    const int64_t last = vpiece(j->out_c, 1, part + 1, parts);
    for (int64_t o = vpiece(j->out_c, 1, part, parts); j->db != NULL && o < last; o++) {
        const float sum = bias_sum(j, o);
        j->db[o] = j->accumulate_db ? j->db[o] + sum : sum;
    }
}

/* Tiles of equal size; where rows are cut for threads, as many for each. */
static void cut(dw_job *j, int threads)
{
    const int64_t wide = (j->cols + COLS - 1) / COLS, least = (j->rows + ROWS - 1) / ROWS;
    const int64_t wanted = (4 * threads + wide - 1) / wide, most = j->rows / LEAST_ROWS;
    int64_t tall = wanted < most ? wanted : most;
    if (tall > threads)
        tall -= tall % threads;
    j->col_tiles = (int)wide;
    j->row_tiles = (int)(tall > least && threads > 1 ? tall : least);
}

void swi_conv_product_dw(float *dw, float *db, const float *x, const float *dy,
                         const sw_conv *s, bool accumulate_dw, bool accumulate_db,
                         const sw_par *par)
{
    const bool by_out = s->out_c >= s->in_c;
    dw_job j = {.row = by_out ? dy : x, .col = by_out ? x : dy, .dw = dw, .db = db, .dy = dy};
    j.rows = by_out ? s->out_c : s->in_c, j.cols = by_out ? s->in_c : s->out_c;
    j.dw_row = by_out ? s->in_c : 1, j.dw_col = by_out ? 1 : s->in_c;
    j.size = s->in_h * s->in_w * (s->plain ? 1 : SWI_LANES);
    j.images = s->plain ? s->batch : swi_blocks(s->batch);
    j.out_c = s->out_c;
    j.accumulate_dw = accumulate_dw, j.accumulate_db = accumulate_db;
    const double work = (double)j.images * (double)j.size * (double)swi_weights(s);
    cut(&j, par != NULL && work >= SWI_WORTH ? par->n_threads : 1);
    vparts(par, dw_part, &j, j.row_tiles * j.col_tiles, work >= SWI_WORTH);
}
