/* Gradient of the weights of a convolution of one position, no stride, one group: each is the
 * product of a channel of dy with a channel of x, over all images, positions and lanes. Vectors
 * lie along the positions; ROWS x COLS sums live in registers over a run of positions, then
 * lanes are summed and added to the weight. Rows are the channels of the tensor that has more
 * of them: it is read once, the other once for each part.
 *
 * A run is a piece of a plane, or some images where planes are small; runs are cut by shape,
 * and each weight adds them in order. Parts of the work: some of the rows. No scratch. */
#include "kernels/cpu/isa/dense_internal.h"

#if SW_ISA_ID == 2
enum { ROWS = 6 }; /* 6 x 4 accumulators, 4 + 1 operands */
#else
enum { ROWS = 2 };
#endif
enum { COLS = 4, RUN = 512 }; /* floats of a run */

typedef struct {
    const float *row, *col; /* dy and x, or x and dy */
    float *dw, *db;
    int64_t rows, cols, dw_row, dw_col; /* channels; steps of dw */
    int64_t size, images;               /* floats of a plane; images or blocks */
    int64_t per_run;                    /* images of a run, or 1 */
    const float *dy;
    int64_t out_c;
    bool accumulate_dw, accumulate_db;
    int parts;
} dw_job;

/* Places [from, from + n) of images [b0, b1). */
typedef struct {
    int64_t b0, b1, from, n;
    bool first; /* the weights are written, not added to */
} run_of;

/* Rows from r on by columns from c on. Rows and columns that do not exist repeat the last. */
static void block(const dw_job *j, const run_of *u, int64_t r, int64_t c)
{
    const int64_t row_image = j->rows * j->size, col_image = j->cols * j->size;
    int64_t row_at[ROWS], col_at[COLS];
    vf acc[ROWS][COLS];
    SW_UNROLL
    for (int i = 0; i < ROWS; i++) {
        row_at[i] = (r + i < j->rows ? r + i : j->rows - 1) * j->size;
        SW_UNROLL
        for (int k = 0; k < COLS; k++)
            acc[i][k] = vzero();
    }
    for (int k = 0; k < COLS; k++)
        col_at[k] = (c + k < j->cols ? c + k : j->cols - 1) * j->size;
    for (int64_t b = u->b0; b < u->b1; b++) {
        const float *row = j->row + b * row_image + u->from;
        const float *col = j->col + b * col_image + u->from;
        int64_t i = 0;
        for (; i + VW <= u->n; i += VW) {
            vf x[COLS];
            SW_UNROLL
            for (int k = 0; k < COLS; k++)
                x[k] = vload(col + col_at[k] + i);
            SW_UNROLL
            for (int q = 0; q < ROWS; q++) {
                const vf d = vload(row + row_at[q] + i);
                SW_UNROLL
                for (int k = 0; k < COLS; k++)
                    acc[q][k] = vfma(d, x[k], acc[q][k]);
            }
        }
        const int left = (int)(u->n - i);
        if (left == 0)
            continue;
        SW_UNROLL
        for (int q = 0; q < ROWS; q++) {
            const vf d = vload_n(row + row_at[q] + i, left);
            SW_UNROLL
            for (int k = 0; k < COLS; k++)
                acc[q][k] = vfma(d, vload_n(col + col_at[k] + i, left), acc[q][k]);
        }
    }
    for (int q = 0; q < ROWS && r + q < j->rows; q++) {
        float sum[COLS], *dw = j->dw + (r + q) * j->dw_row + c * j->dw_col;
        vsum4(sum, acc[q][0], acc[q][1], acc[q][2], acc[q][3]);
        for (int k = 0; k < COLS && c + k < j->cols; k++, dw += j->dw_col)
            *dw = u->first && !j->accumulate_dw ? sum[k] : *dw + sum[k];
    }
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
    const int64_t begin = vpiece(j->rows, ROWS, part, j->parts);
    const int64_t end = vpiece(j->rows, ROWS, part + 1, j->parts);
    run_of u = {.first = true};
    for (u.b0 = 0; u.b0 < j->images; u.b0 = u.b1) {
        u.b1 = u.b0 + j->per_run < j->images ? u.b0 + j->per_run : j->images;
        for (u.from = 0; u.from < j->size; u.from += RUN) {
            u.n = j->size - u.from < RUN ? j->size - u.from : RUN;
            for (int64_t r = begin; r < end; r += ROWS)
                for (int64_t c = 0; c < j->cols; c += COLS)
                    block(j, &u, r, c);
            u.first = false;
        }
    }
    const int64_t last = vpiece(j->out_c, 1, part + 1, j->parts);
    for (int64_t o = vpiece(j->out_c, 1, part, j->parts); j->db != NULL && o < last; o++) {
        const float sum = bias_sum(j, o);
        j->db[o] = j->accumulate_db ? j->db[o] + sum : sum;
    }
    /* The sum of nothing. */
    for (int64_t i = begin; u.first && !j->accumulate_dw && i < end; i++)
        for (int64_t k = 0; k < j->cols; k++)
            j->dw[i * j->dw_row + k * j->dw_col] = 0.0f;
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
    j.per_run = j.size > 0 && j.size < RUN ? RUN / j.size : 1;
    j.out_c = s->out_c;
    j.accumulate_dw = accumulate_dw, j.accumulate_db = accumulate_db;
    const double work = (double)j.images * (double)j.size * (double)swi_weights(s);
    const int64_t blocks = (j.rows + ROWS - 1) / ROWS;
    const int64_t wanted = par != NULL ? 2 * par->n_threads : 1;
    j.parts = work < SWI_WORTH ? 1 : (int)(blocks < wanted ? blocks : wanted);
    vparts(par, dw_part, &j, j.parts, true);
}
