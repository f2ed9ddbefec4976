/* Perturbed linear layers.
 *
 * Noise that belongs to a direction, low rank, iid or sparse: parts of the work are ranges of
 * directions, cut by rows too where there are few directions. A part makes what belongs to a
 * direction once, on its stack, and uses it for all rows of the direction: repeats with both
 * signs, each with several rows.
 *
 * Noise that is one matrix S for all directions, sign-flip or permuted: a second product, of
 * rows that are changed by direction and an S that is drawn piece by piece, packed, and
 * multiplied by many rows. Sign-flip: signs of the inputs go to copies of rows on the stack;
 * signs of the outputs go to y before the product is added and again after it. The bits of a
 * group of directions wait in scratch. Permuted: a group's inputs are put in order into
 * scratch, and also the products with permuted outputs. Parts of the work are columns of y, cut
 * by rows too where there are few. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/noise_internal.h"

enum {
    KEPT = 24576, /* floats of a direction's factors that are kept: 96 KiB of the stack */
    MADE = 4096,  /* numbers that are made at a time where there are more */
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
    swi_noise_times(to, l->bias_sigmas, o, n);
}

/* It alone, for rows of one direction. */
static void add_bias(const linear_part *p)
{
    const linear_job *j = p->j;
    float e[MADE];
    if (j->l->a->bias.rows < 1)
        return;
    for (int64_t o = 0; o < j->out; o += MADE) {
        const int64_t n = least(j->out - o, MADE);
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
    float t[ROWS], e[MADE];
    for (int32_t k = 0; k < s->rank; k++) {
        memset(t, 0, sizeof t);
        for (int64_t c = 0; c < j->in; c += MADE) {
            const int64_t n = least(j->in - c, MADE);
            swi_noise_draw(e, k * j->in + c, n, &p->cols);
            for (int64_t i = q; i < end; i++)
                t[i - q] += dot(j->x + row_at(p, i) * j->in + c, e, n);
        }
        for (int64_t o = 0; o < j->out; o += MADE) {
            const int64_t n = least(j->out - o, MADE);
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
        low_rank_pieces(p, q, least(q + ROWS, p->end));
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
    const int64_t keep = s->keep_cols, most = MADE / keep;
    const float scale = sw_noise_scale(s);
    uint32_t from[PLACES], to[PLACES];
    float e[MADE], x[MADE];
    swi_noise_source numbers;
    kept_places(from, p, SW_NOISE_COLS, j->in, keep);
    kept_places(to, p, SW_NOISE_ROWS, j->out, s->keep_rows);
    swi_noise_source_of(&numbers, s, SW_NOISE_ELEMENTS, &p->at);
    for (int64_t q = p->row, end; q < p->end; q = end) {
        end = least(q + least(most, ROWS), p->end);
        for (int64_t k = q; k < end; k++) /* the inputs that have noise, side by side */
            for (int64_t i = 0; i < keep; i++)
                x[(k - q) * keep + i] = j->x[row_at(p, k) * j->in + from[i]];
        for (int64_t r = 0, n; r < s->keep_rows; r += n) {
            n = least(s->keep_rows - r, most);
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
            const int64_t n = least(j->in - c, most);
            if (!swi_noise_row(piece, &e, o, c, n, NULL))
                continue;
            swi_noise_times(piece, sigmas, o * j->in + c, n);
            for (int64_t q = p->row; q < p->end; q++) {
                const int64_t at = row_at(p, q);
                j->y[at * j->out + o] += factor_at(p, q) * dot(j->x + at * j->in + c, piece, n);
            }
        }
}

/* ---- products: noise that is one matrix S ------------------------------------------------ */

enum {
    COLS = SWI_GEMM_COLS,  /* of a piece of S: outputs */
    DEPTH = SW_GEMM_BLOCK, /* inputs */
    PIECE = COLS * DEPTH,  /* floats of a packed piece */
    PART = 2 * COLS,       /* outputs of a part of the work */
    SLOT = 64 << 10,       /* bytes of scratch of a thread */
    CHUNK = 24,            /* rows that are copied at a time */
    LONGEST = 16384        /* of a row that is permuted */
};

typedef struct {
    float *y;
    const float *x;
    const sw_noise_layer *l;
    const sw_noise_spec *s;
    int64_t in, out, per;
    size_t bytes; /* of scratch */
    /* The group: directions [d, d_end) and of each evaluation rows [i, i_end); one direction
     * where these are not all. */
    int64_t d, d_end, i, i_end;
    uint32_t *in_bits, *out_bits; /* signs of its directions */
    int64_t in_words, out_words;  /* of a direction */
    float *inputs, *products;     /* (repeats, rows of the group, keep_cols), (.., keep_rows) */
    int col_parts, row_parts;
} product_job;

/* Rows of the group in one repeat: they are neighbours in the batch, from first_row on. */
static int64_t group_rows(const product_job *j)
{
    return (j->d_end - j->d) * (j->i_end - j->i);
}
static int64_t first_row(const product_job *j, int64_t repeat)
{
    return (repeat * j->l->a->directions + j->d) * j->per + j->i;
}
/* The direction, from j->d on, that row k of a repeat has. */
static int64_t direction_of(const product_job *j, int64_t k)
{
    return k / (j->i_end - j->i);
}
static float sign_of(const product_job *j, int64_t repeat)
{
    return sw_noise_sign(j->l->a, repeat * j->l->a->directions);
}

/* sigma scale S of outputs [o, o + cols) and inputs [k, k + depth), of rows of `width`: one
 * packed piece of COLS outputs after the other, PIECE floats apart. */
static void pack_s(float *packed, const product_job *j, int64_t o, int64_t cols, int64_t k,
                   int64_t depth, int64_t width)
{
    const sw_noise_at shared = {j->l->seed, j->l->generation, SW_NOISE_SHARED};
    const vf factor = vset1(j->l->sigma * sw_noise_scale(j->s));
    _Alignas(64) float rows[COLS * DEPTH];
    swi_noise_source from;
    swi_noise_source_of(&from, j->s, SW_NOISE_ELEMENTS, &shared);
    for (int64_t c = 0; c < cols; c += COLS, packed += PIECE) {
        const int64_t n = least(cols - c, COLS);
        for (int64_t r = 0; r < n; r++)
            swi_noise_draw(rows + r * depth, (o + c + r) * width + k, depth, &from);
        for (int64_t i = 0; i < n * depth; i += VW)
            vstore(rows + i, vmul(factor, vload(rows + i)));
        const sw_gemm g = {.b = rows, .b_row = 1, .b_col = depth, .n = n, .k = depth};
        swi_gemm_pack(packed, &g);
    }
}

/* c (rows, cols) += a S, for what pack_s has packed; g->n and k are the columns and depth. */
static void along(const sw_gemm *g, float *packed)
{
    for (int64_t c = 0; c < g->n; c += COLS, packed += PIECE) {
        sw_gemm piece = *g;
        piece.c += c;
        piece.n = least(g->n - c, COLS);
        swi_gemm_along(&piece, packed);
    }
}

/* ---- sign-flip --------------------------------------------------------------------------- */

/* VW signs from element i on, which is a multiple of VW. */
SW_VEC_FN vm signs_at(const uint32_t *bits, int64_t i, uint32_t turned)
{
    return vfrombits((bits[i / 32] ^ turned) >> i % 32 & ((1u << VW) - 1u));
}

SW_VEC_FN vf signed_by(vf v, vm positive)
{
    return vselect(positive, v, vmul(v, vset1(-1.0f)));
}

/* Inputs [k, k + depth) of rows of a repeat, with signs: to (rows, depth). */
static void copy_signed(float *to, const product_job *j, int64_t repeat, int64_t row,
                        int64_t rows, int64_t k, int64_t depth)
{
    static const uint32_t ones[DEPTH / 32] = {
        UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
        UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
    };
    const uint32_t turned = sign_of(j, repeat) < 0.0f ? UINT32_MAX : 0;
    for (int64_t r = 0; r < rows; r++, to += depth) {
        const float *x = j->x + (first_row(j, repeat) + row + r) * j->in + k;
        const uint32_t *bits = ones;
        if (j->in_bits != NULL)
            bits = j->in_bits + direction_of(j, row + r) * j->in_words + k / 32;
        int64_t i = 0;
        for (; i + VW <= depth; i += VW)
            vstore(to + i, signed_by(vload(x + i), signs_at(bits, i, turned)));
        if (i < depth)
            vstore_n(to + i,
                     signed_by(vload_n(x + i, (int)(depth - i)), signs_at(bits, i, turned)),
                     (int)(depth - i));
    }
}

/* Outputs [o, o + cols) of rows of a repeat change their signs. */
static void flip_outputs(const product_job *j, int64_t repeat, int64_t row, int64_t end,
                         int64_t o, int64_t cols)
{
    for (; row < end; row++) {
        float *y = j->y + (first_row(j, repeat) + row) * j->out + o;
        const uint32_t *bits = j->out_bits + direction_of(j, row) * j->out_words + o / 32;
        int64_t i = 0;
        for (; i + VW <= cols; i += VW)
            vstore(y + i, signed_by(vload(y + i), signs_at(bits, i, 0)));
        if (i < cols)
            vstore_n(y + i, signed_by(vload_n(y + i, (int)(cols - i)), signs_at(bits, i, 0)),
                     (int)(cols - i));
    }
}

/* Rows [row, end) of each repeat, outputs [o, o + cols). */
static void flip_columns(const product_job *j, int64_t row, int64_t end, int64_t o,
                         int64_t cols)
{
    _Alignas(64) float packed[2 * PIECE], copy[CHUNK * DEPTH];
    const int64_t repeats = j->l->a->repeats;
    for (int64_t r = 0; r < repeats && j->out_bits != NULL; r++)
        flip_outputs(j, r, row, end, o, cols);
    for (int64_t k = 0; k < j->in; k += DEPTH) {
        const int64_t depth = least(j->in - k, DEPTH);
        pack_s(packed, j, o, cols, k, depth, j->in);
        for (int64_t q = 0; q < repeats; q++)
            for (int64_t i = row; i < end; i += CHUNK) {
                sw_gemm g = {.a = copy, .a_row = depth, .a_col = 1, .n = cols, .k = depth};
                g.m = least(end - i, CHUNK);
                g.c = j->y + (first_row(j, q) + i) * j->out + o;
                g.c_row = j->out;
                g.accumulate = true;
                copy_signed(copy, j, q, i, g.m, k, depth);
                along(&g, packed);
            }
    }
    for (int64_t r = 0; r < repeats && j->out_bits != NULL; r++)
        flip_outputs(j, r, row, end, o, cols);
}

enum { TOGETHER = 32 }; /* directions whose signs are drawn at a time */

static void take_bits(uint32_t *to, const product_job *j, sw_noise_part side, int64_t words,
                      int64_t d)
{
    const sw_noise_at at = {j->l->seed, j->l->generation, 0};
    swi_noise_source from;
    swi_noise_source_of(&from, j->s, side, &at);
    swi_noise_words_of(to + (d - j->d) * words, words, j->l->first + (uint32_t)d,
                       least(j->d_end - d, TOGETHER), &from);
}

static void bits_part(void *arg, int part)
{
    const product_job *j = arg;
    const int64_t d = j->d + part * (int64_t)TOGETHER;
    if (j->in_bits != NULL)
        take_bits(j->in_bits, j, SW_NOISE_COLS, j->in_words, d);
    if (j->out_bits != NULL)
        take_bits(j->out_bits, j, SW_NOISE_ROWS, j->out_words, d);
}

/* ---- permuted ---------------------------------------------------------------------------- */

/* Where n elements of a direction go. */
static void permutation(uint32_t *to, const product_job *j, sw_noise_part side, int64_t d,
                        int64_t n)
{
    const sw_noise_at at = swi_noise_at(j->l, d);
    sw_bijection b;
    sw_noise_bijection(&b, j->s, side, &at, n);
    swi_noise_permutation(to, &b);
}

static void inputs_part(void *arg, int part)
{
    const product_job *j = arg;
    const int64_t keep = j->s->keep_cols, rows = group_rows(j), each = j->i_end - j->i;
    uint32_t place[LONGEST];
    permutation(place, j, SW_NOISE_COLS, j->d + part, j->in);
    for (int64_t r = 0; r < j->l->a->repeats; r++)
        for (int64_t i = 0; i < each; i++) {
            const int64_t row = part * each + i;
            const float *x = j->x + (first_row(j, r) + row) * j->in, sign = sign_of(j, r);
            float *to = j->inputs + (r * rows + row) * keep;
            if (keep == j->in)
                for (int64_t c = 0; c < j->in; c++)
                    to[place[c]] = sign * x[c];
            else
                for (int64_t c = 0; c < j->in; c++)
                    if (place[c] < keep)
                        to[place[c]] = sign * x[c];
        }
}

static void outputs_part(void *arg, int part)
{
    const product_job *j = arg;
    const int64_t keep = j->s->keep_rows, rows = group_rows(j), each = j->i_end - j->i;
    uint32_t place[LONGEST];
    permutation(place, j, SW_NOISE_ROWS, j->d + part, j->out);
    for (int64_t r = 0; r < j->l->a->repeats; r++)
        for (int64_t i = 0; i < each; i++) {
            const int64_t row = part * each + i;
            const float *z = j->products + (r * rows + row) * keep;
            const float sign = j->inputs != NULL ? 1.0f : sign_of(j, r); /* inputs have it */
            float *y = j->y + (first_row(j, r) + row) * j->out;
            if (keep == j->out)
                for (int64_t o = 0; o < j->out; o++)
                    y[o] += sign * z[place[o]];
            else
                for (int64_t o = 0; o < j->out; o++)
                    y[o] += place[o] < keep ? sign * z[place[o]] : 0.0f;
        }
}

/* Rows [row, end) of each repeat, positions [o, o + cols) of S. */
static void permuted_columns(const product_job *j, int64_t row, int64_t end, int64_t o,
                             int64_t cols)
{
    _Alignas(64) float packed[2 * PIECE];
    const int64_t keep = j->s->keep_cols, rows = group_rows(j);
    for (int64_t k = 0; k < keep; k += DEPTH) {
        const int64_t depth = least(keep - k, DEPTH);
        pack_s(packed, j, o, cols, k, depth, keep);
        for (int64_t q = 0; q < j->l->a->repeats; q++) {
            sw_gemm g = {.a_col = 1, .n = cols, .k = depth, .m = end - row};
            g.a_row = j->inputs != NULL ? keep : j->in;
            g.a = j->inputs != NULL ? j->inputs + (q * rows + row) * keep + k
                                    : j->x + (first_row(j, q) + row) * j->in + k;
            g.c_row = j->products != NULL ? j->s->keep_rows : j->out;
            g.c = j->products != NULL ? j->products + (q * rows + row) * g.c_row + o
                                      : j->y + (first_row(j, q) + row) * g.c_row + o;
            g.accumulate = j->products == NULL || k > 0;
            along(&g, packed);
        }
    }
}

/* ---- groups ------------------------------------------------------------------------------ */

static void columns_part(void *arg, int part)
{
    const product_job *j = arg;
    const bool flips = j->s->kind == SW_NOISE_SIGN_FLIP;
    const int64_t outputs = flips ? j->out : j->s->keep_rows, rows = group_rows(j);
    const int64_t o = part / j->row_parts * PART;
    const int64_t row = vpiece(rows, 6, part % j->row_parts, j->row_parts);
    const int64_t end = vpiece(rows, 6, part % j->row_parts + 1, j->row_parts);
    if (row < end)
        (flips ? flip_columns : permuted_columns)(j, row, end, o, least(outputs - o, PART));
}

/* Bytes of a direction's signs, or of a row, in scratch. */
static size_t bytes_each(const sw_noise_spec *s)
{
    if (s->kind == SW_NOISE_SIGN_FLIP)
        return (size_t)(((s->sides & SW_NOISE_IN) != 0 ? (s->cols + 31) / 32 : 0) +
                        ((s->sides & SW_NOISE_OUT) != 0 ? (s->rows + 31) / 32 : 0)) *
               sizeof(uint32_t);
    return (size_t)(((s->sides & SW_NOISE_IN) != 0 ? s->keep_cols : 0) +
                    ((s->sides & SW_NOISE_OUT) != 0 ? s->keep_rows : 0)) *
           sizeof(float);
}

/* The next group; false: there is none. */
static bool next_group(product_job *j)
{
    const int64_t all = j->l->a->directions;
    if (j->s->kind == SW_NOISE_SIGN_FLIP) {
        const size_t each = bytes_each(j->s);
        j->d = j->d_end;
        j->d_end = least(all, j->d + (int64_t)(j->bytes / each));
        j->i_end = j->per;
        return j->d < all;
    }
    const int64_t rows = (int64_t)(j->bytes / bytes_each(j->s)) / j->l->a->repeats;
    if (j->d_end > j->d && j->i_end < j->per) { /* goes on with the same direction */
        j->i = j->i_end;
        j->i_end = least(j->per, j->i + rows);
        return true;
    }
    j->d = j->d_end;
    j->i = 0;
    j->d_end = least(all, j->d + (rows >= j->per ? rows / j->per : 1));
    j->i_end = least(j->per, rows);
    return j->d < all;
}

static void run_group(product_job *j, void *scratch, int threads, const sw_par *par)
{
    const sw_noise_spec *s = j->s;
    const int64_t rows = group_rows(j), n = j->d_end - j->d;
    const bool flips = s->kind == SW_NOISE_SIGN_FLIP;
    const bool in = (s->sides & SW_NOISE_IN) != 0, out = (s->sides & SW_NOISE_OUT) != 0;
    if (flips) {
        j->in_words = (j->in + 31) / 32;
        j->out_words = (j->out + 31) / 32;
        j->in_bits = in ? scratch : NULL;
        j->out_bits = out ? (uint32_t *)scratch + (in ? n * j->in_words : 0) : NULL;
        vparts(par, bits_part, j, (int)((n + TOGETHER - 1) / TOGETHER), true);
    } else {
        const int64_t taken = in ? j->l->a->repeats * rows * s->keep_cols : 0;
        j->inputs = in ? scratch : NULL;
        j->products = out ? (float *)scratch + taken : NULL;
        if (in)
            vparts(par, inputs_part, j, (int)n, true);
    }
    j->col_parts = (int)(((flips ? j->out : s->keep_rows) + PART - 1) / PART);
    j->row_parts = 1;
    while (j->col_parts * j->row_parts < threads && j->row_parts * 48 < rows)
        j->row_parts++;
    vparts(par, columns_part, j, j->col_parts * j->row_parts, true);
    if (!flips && out)
        vparts(par, outputs_part, j, (int)n, true);
}

/* Sign-flip or permuted; no row longer than tables for it, or than scratch. */
static bool is_product_of(const swi_noise_attrs *a)
{
    const sw_noise_spec *s = &a->weight;
    const size_t each = bytes_each(s);
    if (s->rows == 0 || s->taps != 1 || each == 0)
        return false;
    if (s->kind == SW_NOISE_SIGN_FLIP)
        return each <= SLOT;
    return s->kind == SW_NOISE_PERMUTED && s->rows <= LONGEST && s->cols <= LONGEST &&
           each * (size_t)a->repeats <= SLOT;
}

/* A slot for each thread. */
size_t SW_KERNEL(noise, linear_bytes)(const swi_noise_attrs *a, int64_t batch, int threads)
{
    const sw_noise_spec *s = &a->weight;
    const int64_t repeats = a->repeats, n = a->directions;
    if (!is_product_of(a))
        return 0;
    const int64_t fit = (int64_t)((size_t)threads * SLOT / bytes_each(s)),
                  per = batch / (repeats * n);
    if (s->kind == SW_NOISE_SIGN_FLIP)
        return bytes_each(s) * (size_t)least(n, fit);
    /* Rows of the largest group, as next_group makes it. */
    const int64_t rows = fit / repeats;
    const int64_t group = rows >= per && per > 0 ? least(n, rows / per) * per : rows;
    return bytes_each(s) * (size_t)(repeats * least(group, n * per));
}

static void product_of_s(float *y, const float *x, int64_t batch, const sw_noise_layer *l,
                         void *scratch, const sw_par *par)
{
    const sw_noise_spec *s = &l->a->weight;
    const int threads = par != NULL ? par->n_threads : 1;
    product_job j = {.y = y, .x = x, .l = l, .s = s, .in = s->cols, .out = s->rows};
    j.per = batch / (l->a->repeats * l->a->directions);
    j.bytes = SW_KERNEL(noise, linear_bytes)(l->a, batch, threads);
    while (next_group(&j))
        run_group(&j, scratch, threads, par);
}

/* ------------------------------------------------------------------------------------------ */

static void run_direction(const linear_part *p)
{
    const sw_noise_spec *s = &p->j->l->a->weight;
    if (s->rows != 0 && s->kind == SW_NOISE_LOW_RANK && p->j->l->weight_sigmas == NULL) {
        low_rank(p);
        return;
    }
    if (s->rows != 0 && s->kind == SW_NOISE_SPARSE && p->j->l->weight_sigmas == NULL &&
        p->j->in <= PLACES && p->j->out <= PLACES)
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

void SW_KERNEL(noise, linear)(float *y, const float *x, int64_t batch, int64_t out,
                              const sw_noise_layer *l, void *scratch, const sw_par *par)
{
    linear_job j = {.y = y, .x = x, .l = l, .in = l->a->weight.cols, .out = out};
    const int64_t n = l->a->directions, evaluations = l->a->repeats * n;
    const int threads = par != NULL ? par->n_threads : 1;
    if (batch < 1 || evaluations < 1)
        return;
    j.is_product = l->weight_sigmas == NULL && is_product_of(l->a);
    if (j.is_product)
        product_of_s(y, x, batch, l, scratch, par);
    j.per = batch / evaluations;
    j.rows = j.per * l->a->repeats;
    j.dir_parts = (int)(n < 8 * threads ? n : 8 * threads);
    j.row_parts = 1;
    while (j.dir_parts * j.row_parts < threads && j.row_parts < j.rows)
        j.row_parts++;
    vparts(par, run_part, &j, j.dir_parts * j.row_parts, true);
}
