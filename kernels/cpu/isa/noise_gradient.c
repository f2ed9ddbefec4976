/* The sum of weighted perturbations over directions, row by row of the parameter or as
 * products.
 *
 * LOW_RANK is a product of depth directions x rank: tiles of at most SW_GEMM_BLOCK of its depth
 * are drawn, A times the weights, and the sum goes on in `to`, so that an element is one chain
 * over the directions. A part of the work is a block of `to` for which it draws all tiles on
 * its stack; where `to` is large, the threads draw tiles together into scratch instead, and
 * then multiply. Directions of weight 0 are left out.
 *
 * SIGN_FLIP is S times such a product of signs. For other kinds each row is made for each
 * direction. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/noise_internal.h"

enum {
    SLOTS = SW_GEMM_BLOCK, /* of a tile, at most: a direction and a rank each */
    TILE = 28672,          /* floats of a tile on the stack: 112 KiB */
    MOST_ROWS = 1024,      /* of a block of `to` */
    MOST_COLS = 1024,
    SHARED_FROM = 1 << 15, /* elements of `to` */
    SHARED = 1 << 19       /* floats of a tile in scratch */
};

/* Which factors a tile has: direction and rank of each slot. */
typedef struct {
    const sw_noise_sum *g;
    int64_t next; /* direction */
    int32_t rank;
    int n;
    uint32_t direction[SLOTS];
    int32_t k[SLOTS];
    float weight[SLOTS];
} slots;

static void next_slots(slots *s, int most)
{
    const sw_noise_sum *g = s->g;
    const int32_t ranks = g->spec->kind == SW_NOISE_LOW_RANK ? g->spec->rank : 1;
    const float scale = g->spec->kind == SW_NOISE_LOW_RANK ? sw_noise_scale(g->spec) : 1.0f;
    for (s->n = 0; s->n < most && s->next < g->n;) {
        if (g->weights[s->next] == 0.0f) {
            s->next++;
            continue;
        }
        s->direction[s->n] = g->first + (uint32_t)s->next;
        s->weight[s->n] = g->weights[s->next] * scale;
        s->k[s->n++] = s->rank++;
        if (s->rank == ranks) {
            s->rank = 0;
            s->next++;
        }
    }
}

/* A block of `to`, or of what it is multiplied by: rows and columns of the factors. */
typedef struct {
    int64_t row, rows, col, cols;
} block;

/* Slots [first, last): numbers of rows into strips as swi_gemm_strips has them, times the
 * weight; numbers of columns into rows of b. */
static void draw_tile(float *strips, float *b, const slots *s, const block *at, int first,
                      int last)
{
    const sw_noise_spec *spec = s->g->spec;
    sw_noise_spec made = *spec;
    const sw_noise_at start = {s->g->seed, s->g->generation, 0};
    swi_noise_source rows, cols;
    float row[MOST_ROWS];
    const bool flips = spec->kind == SW_NOISE_SIGN_FLIP;
    const int64_t width = flips ? sw_noise_channels(spec) : spec->cols;
    if (flips)
        made.distribution = SW_NOISE_RADEMACHER;
    swi_noise_source_of(&rows, &made, SW_NOISE_ROWS, &start);
    swi_noise_source_of(&cols, &made, SW_NOISE_COLS, &start);
    for (int i = first; i < last; i++) {
        const vf weight = vset1(s->weight[i]);
        if (!flips || (spec->sides & SW_NOISE_IN) != 0) {
            swi_noise_turn(&cols, s->direction[i]);
            swi_noise_draw(b + i * at->cols, s->k[i] * width + at->col, at->cols, &cols);
        } else {
            for (int64_t c = 0; c < at->cols; c++)
                b[i * at->cols + c] = 1.0f;
        }
        if (!flips || (spec->sides & SW_NOISE_OUT) != 0) {
            swi_noise_turn(&rows, s->direction[i]);
            swi_noise_draw(row, s->k[i] * spec->rows + at->row, at->rows, &rows);
        } else {
            for (int64_t r = 0; r < at->rows; r++)
                row[r] = 1.0f;
        }
        for (int64_t r = 0; r < at->rows; r += VW)
            vstore(row + r, vmul(weight, vload(row + r)));
        for (int64_t r = 0; r < at->rows;) {
            const int mr = swi_strip_rows(at->rows - r);
            memcpy(strips + r * s->n + i * mr, row + r, (size_t)mr * sizeof *row);
            r += mr;
        }
    }
}

/* ---- a block after the other, each by one part ------------------------------------------- */

typedef struct {
    const sw_noise_sum *g;
    int row_parts, col_parts;
    float *strips, *b; /* of a tile that is shared */
    const slots *s;
    block at;
} sum_job;

static sw_gemm product_of(float *to, int64_t c_row, const block *at, const float *b, int n)
{
    sw_gemm g = {.c = to, .c_row = c_row, .b = b, .b_row = at->cols, .b_col = 1};
    g.m = at->rows, g.n = at->cols, g.k = n;
    g.accumulate = true;
    return g;
}

/* to (at->rows, at->cols), rows c_row apart, += the sum over the directions of products of
 * factors. tile: room for TILE floats or so many as `most` says. */
static void sum_block(float *to, int64_t c_row, const sw_noise_sum *g, const block *at,
                      float *tile, int64_t most)
{
    slots s = {.g = g};
    const int64_t fit = most / (at->rows + at->cols);
    for (;;) {
        next_slots(&s, (int)least(fit, SLOTS));
        if (s.n == 0)
            return;
        float *b = tile + at->rows * s.n;
        const sw_gemm product = product_of(to, c_row, at, b, s.n);
        draw_tile(tile, b, &s, at, 0, s.n);
        swi_gemm_strips(&product, tile, NULL);
    }
}

static void low_rank_part(void *arg, int part)
{
    const sum_job *j = arg;
    const int rp = part / j->col_parts, cp = part % j->col_parts;
    block at = {.row = vpiece(j->g->n_rows, 6, rp, j->row_parts),
                .col = vpiece(j->g->spec->cols, 16, cp, j->col_parts)};
    _Alignas(64) float tile[TILE];
    at.rows = vpiece(j->g->n_rows, 6, rp + 1, j->row_parts) - at.row;
    at.cols = vpiece(j->g->spec->cols, 16, cp + 1, j->col_parts) - at.col;
    if (at.rows < 1 || at.cols < 1)
        return;
    float *to = j->g->to + at.row * j->g->spec->cols + at.col;
    at.row += j->g->first_row;
    sum_block(to, j->g->spec->cols, j->g, &at, tile, TILE);
}

/* ---- together ---------------------------------------------------------------------------- */

/* Floats of a tile in scratch, for n directions: its slots; 0: there is none. */
static int64_t shared_floats(const sw_noise_spec *s, int64_t n_rows, int64_t n)
{
    const int64_t each = least(n_rows, MOST_ROWS) + least(s->cols, MOST_COLS);
    if (s->kind != SW_NOISE_LOW_RANK || n_rows * s->cols < SHARED_FROM)
        return 0;
    return least(least(SHARED / each, SLOTS), n * s->rank) * each;
}

enum { DRAWN = 16 }; /* slots of a part */

static void draw_part(void *arg, int part)
{
    const sum_job *j = arg;
    const int first = part * DRAWN;
    draw_tile(j->strips, j->b, j->s, &j->at, first, (int)least(first + DRAWN, j->s->n));
}

static void sum_together(const sw_noise_sum *g, const block *at, float *tile, int64_t most,
                         const sw_par *par)
{
    slots s = {.g = g};
    sum_job j = {.g = g, .s = &s, .strips = tile, .at = *at};
    float *to = g->to + at->row * g->spec->cols + at->col;
    j.at.row += g->first_row;
    for (;;) {
        next_slots(&s, (int)least(most / (at->rows + at->cols), SLOTS));
        if (s.n == 0)
            return;
        j.b = tile + at->rows * s.n;
        const sw_gemm product = product_of(to, g->spec->cols, at, j.b, s.n);
        vparts(par, draw_part, &j, (s.n + DRAWN - 1) / DRAWN, true);
        swi_gemm_strips(&product, tile, par);
    }
}

static void low_rank(const sw_noise_sum *g, float *scratch, const sw_par *par)
{
    const int64_t shared = shared_floats(g->spec, g->n_rows, g->n), cols = g->spec->cols;
    if (scratch != NULL && shared > 0) {
        block at;
        scratch[shared - 1] = 0.0f; /* all is touched whatever the weights are */
        for (at.row = 0; at.row < g->n_rows; at.row += MOST_ROWS)
            for (at.col = 0; at.col < cols; at.col += MOST_COLS) {
                at.rows = least(g->n_rows - at.row, MOST_ROWS);
                at.cols = least(cols - at.col, MOST_COLS);
                sum_together(g, &at, scratch, shared, par);
            }
        return;
    }
    sum_job j = {.g = g, .row_parts = 1, .col_parts = 1};
    const int threads = par != NULL ? par->n_threads : 1;
    for (;;) { /* the longer side is cut */
        const int64_t rows = g->n_rows / j.row_parts, width = cols / j.col_parts;
        if (j.row_parts * j.col_parts >= threads && rows <= MOST_ROWS - 16 &&
            width <= MOST_COLS - 32)
            break;
        if (rows < 16 && width < 32)
            break;
        *(rows > width ? &j.row_parts : &j.col_parts) += 1;
    }
    vparts(par, low_rank_part, &j, j.row_parts * j.col_parts,
           g->n * g->n_rows * cols >= SWI_WORTH);
}

enum { FLIP_ROWS = 60, FLIP_COLS = 256, FLIP_TILE = TILE - FLIP_ROWS * FLIP_COLS };

/* S times the sums of products of signs, for FLIP_ROWS rows and FLIP_COLS channels. */
static void flip_part(void *arg, int part)
{
    const sum_job *j = arg;
    const sw_noise_sum *g = j->g;
    const sw_noise_spec *s = g->spec;
    const int64_t channels = sw_noise_channels(s), taps = s->taps;
    const sw_noise_at shared = {g->seed, g->generation, SW_NOISE_SHARED};
    block at = {.row = part / j->col_parts * FLIP_ROWS, .col = part % j->col_parts * FLIP_COLS};
    _Alignas(64) float sums[FLIP_ROWS * FLIP_COLS], tile[FLIP_TILE];
    at.rows = least(g->n_rows - at.row, FLIP_ROWS);
    at.cols = least(channels - at.col, FLIP_COLS);
    at.row += g->first_row;
    memset(sums, 0, sizeof sums);
    sum_block(sums, FLIP_COLS, g, &at, tile, FLIP_TILE);
    swi_noise_source from;
    swi_noise_source_of(&from, s, SW_NOISE_ELEMENTS, &shared);
    for (int64_t r = 0; r < at.rows; r++)
        for (int64_t c = 0; c < at.cols * taps; c += FLIP_COLS) {
            const int64_t n = least(at.cols * taps - c, FLIP_COLS);
            float *to = g->to + (at.row - g->first_row + r) * s->cols + at.col * taps + c;
            swi_noise_draw(tile, (at.row + r) * s->cols + at.col * taps + c, n, &from);
            for (int64_t i = 0; i < n; i++)
                to[i] += tile[i] * sums[r * FLIP_COLS + (c + i) / taps];
        }
}

/* ---- other kinds ------------------------------------------------------------------------- */

/* Row after row of each direction's E. */
static void rows_part(void *arg, int part)
{
    const sum_job *j = arg;
    const sw_noise_sum *g = j->g;
    const int64_t first = vpiece(g->n_rows, 1, part / j->col_parts, j->row_parts);
    const int64_t last = vpiece(g->n_rows, 1, part / j->col_parts + 1, j->row_parts);
    const int64_t from = vpiece(g->spec->cols, 16, part % j->col_parts, j->col_parts);
    const int64_t end = vpiece(g->spec->cols, 16, part % j->col_parts + 1, j->col_parts);
    const int64_t most = swi_noise_piece(g->spec);
    swi_noise_elements e;
    float piece[SWI_NOISE_KEPT / 2];
    for (int64_t d = 0; d < g->n; d++) {
        const sw_noise_at at = {g->seed, g->generation, g->first + (uint32_t)d};
        const float weight = g->weights[d];
        if (weight == 0.0f)
            continue;
        swi_noise_elements_of(&e, g->spec, &at, g->sigma);
        for (int64_t c = from; c < end; c += most)
            for (int64_t r = first; r < last; r++) {
                const int64_t n = least(end - c, most), place = r * g->spec->cols + c;
                float *to = g->to + place;
                if (swi_noise_row(piece, &e, g->first_row + r, c, n,
                                  g->parameter != NULL ? g->parameter + place : NULL))
                    for (int64_t i = 0; i < n; i++)
                        to[i] += weight * piece[i];
            }
    }
}

/* --------------------------------------------------------------------------------------------
 */

size_t SW_KERNEL(noise, gradient_bytes)(const sw_noise_spec *spec, int64_t n_rows, int64_t n)
{
    return (size_t)shared_floats(spec, n_rows, n) * sizeof(float);
}

void SW_KERNEL(noise, gradient)(const sw_noise_sum *g, void *scratch, const sw_par *par)
{
    sum_job j = {.g = g, .row_parts = 1, .col_parts = 1};
    const int threads = par != NULL ? par->n_threads : 1;
    if (g->n_rows < 1 || g->spec->cols < 1)
        return;
    if (!g->accumulate)
        memset(g->to, 0, (size_t)(g->n_rows * g->spec->cols) * sizeof *g->to);
    if (g->spec->kind == SW_NOISE_LOW_RANK) {
        low_rank(g, scratch, par);
        return;
    }
    if (g->spec->kind == SW_NOISE_SIGN_FLIP) {
        j.row_parts = (int)((g->n_rows + FLIP_ROWS - 1) / FLIP_ROWS);
        j.col_parts = (int)((sw_noise_channels(g->spec) + FLIP_COLS - 1) / FLIP_COLS);
        vparts(par, flip_part, &j, j.row_parts * j.col_parts, true);
        return;
    }
    if (g->n_rows >= threads)
        j.row_parts = (int)least(g->n_rows, 4 * (int64_t)threads);
    else
        j.col_parts = threads;
    vparts(par, rows_part, &j, j.row_parts * j.col_parts,
           g->n * g->n_rows * g->spec->cols >= SWI_WORTH);
}
