/* Perturbed linear layers whose noise belongs to a direction: low rank, iid, sparse.
 * Parts of the work are ranges of directions, cut by rows too where there are few directions. A
 * part makes what belongs to a direction once, on its stack, and uses it for all rows of the
 * direction: repeats with both signs, each with several rows. */
#include "kernels/cpu/isa/noise_internal.h"
#include "kernels/cpu/isa/dense_internal.h"

enum {
    KEPT = 24576, /* floats of a direction's factors that are kept: 96 KiB of the stack */
    PIECE = 4096, /* numbers that are made at a time where there are more */
    ROWS = 32,    /* rows that such a piece is used for */
    PLACES = 4096 /* of a side that is sparse: longer ones go row by row of E */
};

typedef struct {
    float *y;
    const float *x;
    const sw_noise_layer *l;
    int64_t in, out, per, rows; /* per: of an evaluation; rows: of a direction */
    bool is_product;            /* of one S: done, but for the bias */
    int dir_parts, row_parts;
} linear_job;

/* Rows [row, end) of direction d of the launch. */
typedef struct {
    const linear_job *j;
    int64_t d, row, end;
    sw_noise_at at;
    swi_noise_source cols, rows, bias; /* B, A; noise of the bias */
} linear_part;

/* Where row q of direction d lies in the batch; its sign. */
static int64_t row_at(const linear_part *p, int64_t q)
{
    const linear_job *j = p->j;
    return (q / j->per * j->l->a->directions + p->d) * j->per + q % j->per;
}
static float factor_at(const linear_part *p, int64_t q)
{
    const linear_job *j = p->j;
    return j->l->sigma * sw_noise_sign(j->l->a, q / j->per * j->l->a->directions + p->d);
}

static float dot(const float *a, const float *b, int64_t n)
{
    vf s[4] = {vzero(), vzero(), vzero(), vzero()};
    float lanes[4];
    int64_t i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW) {
        SW_UNROLL
        for (int k = 0; k < 4; k++)
            s[k] = vfma(vload(a + i + k * VW), vload(b + i + k * VW), s[k]);
    }
    for (int k = 0; i < n; i += VW, k++)
        s[k] = n - i >= VW
                   ? vfma(vload(a + i), vload(b + i), s[k])
                   : vfma(vload_n(a + i, (int)(n - i)), vload_n(b + i, (int)(n - i)), s[k]);
    vsum4(lanes, s[0], s[1], s[2], s[3]);
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

/* y += t a. */
static void add_times(float *y, float t, const float *a, int64_t n)
{
    const vf v = vset1(t);
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        vstore(y + i, vfma(v, vload(a + i), vload(y + i)));
    if (i < n)
        vstore_n(y + i, vfma(v, vload_n(a + i, (int)(n - i)), vload_n(y + i, (int)(n - i))),
                 (int)(n - i));
}

/* Noise of the bias, outputs [o, o + n). */
static void bias_noise(float *to, const linear_part *p, int64_t o, int64_t n)
{
    const sw_noise_layer *l = p->j->l;
    swi_noise_draw(to, o, n, &p->bias);
    for (int64_t i = 0; i < n && l->bias_sigmas != NULL; i++)
        to[i] *= l->bias_sigmas[o + i];
}

/* It alone, for rows of one direction. */
static void add_bias(const linear_part *p)
{
    const linear_job *j = p->j;
    float e[PIECE];
    if (j->l->a->bias.rows < 1)
        return;
    for (int64_t o = 0; o < j->out; o += PIECE) {
        const int64_t n = j->out - o < PIECE ? j->out - o : PIECE;
        bias_noise(e, p, o, n);
        for (int64_t q = p->row; q < p->end; q++)
            add_times(j->y + row_at(p, q) * j->out + o, factor_at(p, q), e, n);
    }
}

/* ---- low rank ---------------------------------------------------------------------------- */

/* y += t a + u b of one row: what rank 1 with a bias comes to, in one pass. */
static void add_both(float *y, float t, const float *a, float u, const float *b, int64_t n)
{
    const vf v = vset1(t), w = vset1(u);
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        vstore(y + i, vfma(w, vload(b + i), vfma(v, vload(a + i), vload(y + i))));
    if (i < n) {
        const int m = (int)(n - i);
        const vf sum = vfma(v, vload_n(a + i, m), vload_n(y + i, m));
        vstore_n(y + i, vfma(w, vload_n(b + i, m), sum), m);
    }
}

/* All factors of the direction fit: kept has B (rank, in), A (rank, out), noise of the bias. */
static void low_rank_kept(const linear_part *p, float *kept)
{
    const linear_job *j = p->j;
    const sw_noise_spec *s = &j->l->a->weight, *b = &j->l->a->bias;
    float *cols = kept, *rows = cols + s->rank * j->in, *bias = rows + s->rank * j->out;
    const float scale = sw_noise_scale(s);
    swi_noise_draw(cols, 0, s->rank * j->in, &p->cols);
    swi_noise_draw(rows, 0, s->rank * j->out, &p->rows);
    if (b->rows > 0)
        bias_noise(bias, p, 0, j->out);
    for (int64_t q = p->row; q < p->end; q++) {
        const int64_t at = row_at(p, q);
        const float *x = j->x + at * j->in, factor = factor_at(p, q), t = factor * scale;
        float *y = j->y + at * j->out;
        for (int32_t k = 0; k + 1 < s->rank; k++)
            add_times(y, t * dot(x, cols + k * j->in, j->in), rows + k * j->out, j->out);
        const int64_t k = s->rank - 1;
        const float last = t * dot(x, cols + k * j->in, j->in);
        if (b->rows > 0)
            add_both(y, last, rows + k * j->out, factor, bias, j->out);
        else
            add_times(y, last, rows + k * j->out, j->out);
    }
}

/* Rows [q, end), at most ROWS, by pieces of the factors. */
static void low_rank_pieces(const linear_part *p, int64_t q, int64_t end)
{
    const linear_job *j = p->j;
    const sw_noise_spec *s = &j->l->a->weight;
    const float scale = sw_noise_scale(s);
    float t[ROWS], e[PIECE];
    for (int32_t k = 0; k < s->rank; k++) {
        memset(t, 0, sizeof t);
        for (int64_t c = 0; c < j->in; c += PIECE) {
            const int64_t n = j->in - c < PIECE ? j->in - c : PIECE;
            swi_noise_draw(e, k * j->in + c, n, &p->cols);
            for (int64_t i = q; i < end; i++)
                t[i - q] += dot(j->x + row_at(p, i) * j->in + c, e, n);
        }
        for (int64_t o = 0; o < j->out; o += PIECE) {
            const int64_t n = j->out - o < PIECE ? j->out - o : PIECE;
            swi_noise_draw(e, k * j->out + o, n, &p->rows);
            for (int64_t i = q; i < end; i++)
                add_times(j->y + row_at(p, i) * j->out + o, factor_at(p, i) * scale * t[i - q],
                          e, n);
        }
    }
}

static void low_rank(const linear_part *p)
{
    const linear_job *j = p->j;
    const sw_noise_spec *s = &j->l->a->weight;
    const int64_t need = s->rank * (j->in + j->out) + (j->l->a->bias.rows > 0 ? j->out : 0);
    if (need <= KEPT) {
        _Alignas(64) float kept[KEPT];
        low_rank_kept(p, kept);
        return;
    }
    for (int64_t q = p->row; q < p->end; q += ROWS)
        low_rank_pieces(p, q, q + ROWS < p->end ? q + ROWS : p->end);
    add_bias(p);
}

/* ---- sparse ------------------------------------------------------------------------------ */

/* Which inputs, or outputs, the first `keep` positions of S are: to[position]. */
static void kept_places(uint32_t *to, const linear_part *p, sw_noise_part side, int64_t n,
                        int64_t keep)
{
    uint32_t position[PLACES];
    sw_bijection b;
    sw_noise_bijection(&b, &p->j->l->a->weight, side, &p->at, n);
    swi_noise_permutation(position, &b);
    for (int64_t i = 0; i < n; i++)
        if (position[i] < keep)
            to[position[i]] = (uint32_t)i;
}

/* Rows [q, end), at most ROWS: the inputs that have noise, side by side. */
static void take_inputs(float *to, const linear_part *p, const uint32_t *from, int64_t keep,
                        int64_t q, int64_t end)
{
    for (; q < end; q++, to += keep) {
        const float *x = p->j->x + row_at(p, q) * p->j->in;
        for (int64_t i = 0; i < keep; i++)
            to[i] = x[from[i]];
    }
}

/* n numbers, few: one after the other. */
static float short_dot(const float *a, const float *b, int64_t n)
{
    float sum = a[0] * b[0];
    for (int64_t i = 1; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* S (keep_rows, keep_cols) of the direction, some rows at a time, times the inputs that it
 * has. */
static void sparse(const linear_part *p)
{
    const linear_job *j = p->j;
    const sw_noise_spec *s = &j->l->a->weight;
    const int64_t keep = s->keep_cols, most = PIECE / keep;
    const float scale = sw_noise_scale(s);
    uint32_t from[PLACES], to[PLACES];
    float e[PIECE], x[PIECE];
    swi_noise_source numbers;
    kept_places(from, p, SW_NOISE_COLS, j->in, keep);
    kept_places(to, p, SW_NOISE_ROWS, j->out, s->keep_rows);
    swi_noise_source_of(&numbers, s, SW_NOISE_ELEMENTS, &p->at);
    for (int64_t q = p->row, end; q < p->end; q = end) {
        end = q + (most < ROWS ? most : ROWS);
        end = end < p->end ? end : p->end;
        take_inputs(x, p, from, keep, q, end);
        for (int64_t r = 0, n; r < s->keep_rows; r += n) {
            n = s->keep_rows - r < most ? s->keep_rows - r : most;
            swi_noise_draw(e, r * keep, n * keep, &numbers);
            for (int64_t k = q; k < end; k++) {
                const float *row = x + (k - q) * keep, factor = factor_at(p, k) * scale;
                float *y = j->y + row_at(p, k) * j->out;
                for (int64_t i = 0; i < n; i++)
                    y[to[r + i]] += factor * (keep < 16 ? short_dot(row, e + i * keep, keep)
                                                        : dot(row, e + i * keep, keep));
            }
        }
    }
}

static bool is_sparse(const linear_job *j)
{
    const sw_noise_spec *s = &j->l->a->weight;
    return s->rows != 0 && s->kind == SW_NOISE_SPARSE && j->l->weight_sigmas == NULL &&
           j->in <= PLACES && j->out <= PLACES;
}

/* ---- other kinds ------------------------------------------------------------------------- */

/* Row by row of E, a piece of its columns at a time. */
static void by_rows(const linear_part *p)
{
    const linear_job *j = p->j;
    const sw_noise_spec *s = &j->l->a->weight;
    const float *sigmas = j->l->weight_sigmas;
    const int64_t most = swi_noise_piece(s);
    swi_noise_elements e;
    float piece[SWI_NOISE_KEPT / 2];
    swi_noise_elements_of(&e, s, &p->at, j->l->sigma);
    for (int64_t c = 0; c < j->in; c += most)
        for (int64_t o = 0; o < j->out; o++) {
            const int64_t n = j->in - c < most ? j->in - c : most;
            if (!swi_noise_row(piece, &e, o, c, n, NULL))
                continue;
            for (int64_t i = 0; i < n && sigmas != NULL; i++)
                piece[i] *= sigmas[o * j->in + c + i];
            for (int64_t q = p->row; q < p->end; q++) {
                const int64_t at = row_at(p, q);
                j->y[at * j->out + o] += factor_at(p, q) * dot(j->x + at * j->in + c, piece, n);
            }
        }
}

static void run_direction(const linear_part *p)
{
    const sw_noise_spec *s = &p->j->l->a->weight;
    if (s->rows != 0 && s->kind == SW_NOISE_LOW_RANK && p->j->l->weight_sigmas == NULL) {
        low_rank(p);
        return;
    }
    if (is_sparse(p->j))
        sparse(p);
    else if (s->rows != 0 && !p->j->is_product)
        by_rows(p);
    add_bias(p);
}

static void run_part(void *arg, int part)
{
    const linear_job *j = arg;
    const int64_t n = j->l->a->directions;
    const int dp = part / j->row_parts, rp = part % j->row_parts;
    linear_part p = {.j = j};
    p.row = vpiece(j->rows, 1, rp, j->row_parts);
    p.end = vpiece(j->rows, 1, rp + 1, j->row_parts);
    p.at = (sw_noise_at){j->l->seed, j->l->generation, 0};
    swi_noise_source_of(&p.cols, &j->l->a->weight, SW_NOISE_COLS, &p.at);
    swi_noise_source_of(&p.rows, &j->l->a->weight, SW_NOISE_ROWS, &p.at);
    swi_noise_source_of(&p.bias, &j->l->a->bias, SW_NOISE_ELEMENTS, &p.at);
    for (p.d = vpiece(n, 1, dp, j->dir_parts); p.d < vpiece(n, 1, dp + 1, j->dir_parts);
         p.d++) {
        p.at.direction = j->l->first + (uint32_t)p.d;
        swi_noise_turn(&p.cols, p.at.direction);
        swi_noise_turn(&p.rows, p.at.direction);
        swi_noise_turn(&p.bias, p.at.direction);
        run_direction(&p);
    }
}

size_t SW_KERNEL(noise, linear_bytes)(const swi_noise_attrs *a, int64_t batch, int threads)
{
    return swi_noise_product_bytes(a, batch, threads);
}

void SW_KERNEL(noise, linear)(float *y, const float *x, int64_t batch, int64_t out,
                              const sw_noise_layer *l, void *scratch, const sw_par *par)
{
    linear_job j = {.y = y, .x = x, .l = l, .in = l->a->weight.cols, .out = out};
    const int64_t n = l->a->directions, evaluations = l->a->repeats * n;
    const int threads = par != NULL ? par->n_threads : 1;
    if (batch < 1 || evaluations < 1)
        return;
    j.is_product = l->weight_sigmas == NULL && swi_noise_is_product(l->a);
    if (j.is_product)
        swi_noise_product(y, x, batch, l, scratch, par);
    j.per = batch / evaluations;
    j.rows = j.per * l->a->repeats;
    j.dir_parts = (int)(n < 8 * threads ? n : 8 * threads);
    j.row_parts = 1;
    while (j.dir_parts * j.row_parts < threads && j.row_parts < j.rows)
        j.row_parts++;
    vparts(par, run_part, &j, j.dir_parts * j.row_parts, true);
}
