/* Elements of a perturbation by rows, whatever its kind; rows of a table with noise; steps
 * along noise. */
#include "kernels/cpu/isa/noise_internal.h"

/* Specs that the vectors do not cover are made number by number. */
static bool by_number(const sw_noise_spec *s)
{
    if (s->kind == SW_NOISE_LOW_RANK)
        return s->rank > SWI_NOISE_RANK;
    return (s->kind == SW_NOISE_PERMUTED || s->kind == SW_NOISE_SPARSE) &&
           s->keep_cols * s->taps > SWI_NOISE_KEPT;
}

int64_t swi_noise_piece(const sw_noise_spec *s)
{
    const int64_t n =
        s->kind == SW_NOISE_LOW_RANK && s->rank > 1 ? SWI_NOISE_KEPT / s->rank : SWI_NOISE_KEPT;
    return n > 128 ? n / 2 : 64;
}

void swi_noise_elements_of(swi_noise_elements *e, const sw_noise_spec *spec,
                           const sw_noise_at *at, float sigma)
{
    const bool flips = spec->kind == SW_NOISE_SIGN_FLIP;
    const sw_noise_at shared = {at->seed, at->generation, SW_NOISE_SHARED};
    sw_noise_spec signs = *spec;
    signs.distribution = SW_NOISE_RADEMACHER;
    e->spec = spec;
    e->n = 0;
    e->row = -1;
    sw_noise_prepare(&e->d, spec, at, sigma);
    swi_noise_source_of(&e->elements, spec, SW_NOISE_ELEMENTS,
                        flips || spec->kind == SW_NOISE_PERMUTED ? &shared : at);
    swi_noise_source_of(&e->rows, flips ? &signs : spec, SW_NOISE_ROWS, at);
    swi_noise_source_of(&e->cols, flips ? &signs : spec, SW_NOISE_COLS, at);
}

/* ---- permutations ------------------------------------------------------------------------ */

typedef uint32_t vu __attribute__((vector_size(4 * VW)));
enum {
    VECTORS = SW_ISA_ID == 2 ? 8 : 4, /* that go through the rounds together */
    SIDE = VECTORS * VW
};

/* sw_bijection_mix of a vector. */
SW_VEC_FN vu mixed(vu half, uint32_t key)
{
    vu x = (half ^ key) * 0x9e3779b1u;
    x = (x ^ (x >> 15)) * 0x85ebca77u;
    x = (x ^ (x >> 13)) * 0xc2b2ae3du;
    return x ^ (x >> 16);
}

/* value[i] through the network once. */
static void through(uint32_t value[SIDE], const sw_bijection *b)
{
    const uint32_t low_mask = ((uint32_t)1 << b->low) - 1;
    const uint32_t high_mask = ((uint32_t)1 << b->high) - 1;
    vu low[VECTORS], high[VECTORS];
    SW_UNROLL
    for (int i = 0; i < VECTORS; i++) {
        memcpy(&high[i], value + i * VW, sizeof high[i]);
        low[i] = high[i] & low_mask;
        high[i] >>= b->low;
    }
    for (uint32_t r = 0; r < b->rounds; r += 2) {
        const uint32_t k0 = b->key[r], k1 = b->key[r + 1];
        SW_UNROLL
        for (int i = 0; i < VECTORS; i++)
            high[i] ^= mixed(low[i], k0) & high_mask;
        SW_UNROLL
        for (int i = 0; i < VECTORS; i++)
            low[i] ^= mixed(high[i], k1) & low_mask;
    }
    SW_UNROLL
    for (int i = 0; i < VECTORS; i++) {
        high[i] = high[i] << b->low | low[i];
        memcpy(value + i * VW, &high[i], sizeof high[i]);
    }
}

/* Numbers that have fallen past n and go through again. */
typedef struct {
    uint32_t value[SIDE], place[SIDE];
    int n;
} walkers;

static void walk(walkers *w, uint32_t *to, const sw_bijection *b)
{
    const int before = w->n;
    for (int i = before; i < SIDE; i++)
        w->value[i] = 0;
    through(w->value, b);
    w->n = 0;
    for (int i = 0; i < before; i++) {
        to[w->place[i]] = w->value[i]; /* written again where it goes on */
        w->value[w->n] = w->value[i];
        w->place[w->n] = w->place[i];
        w->n += w->value[i] >= b->n;
    }
}

void swi_noise_permutation(uint32_t *to, const sw_bijection *b)
{
    const bool whole = b->n == (uint32_t)1 << (b->low + b->high);
    walkers w = {.n = 0};
    if (b->low == 0) {
        for (uint32_t i = 0; i < b->n; i++)
            to[i] = 0;
        return;
    }
    for (uint32_t from = 0; from < b->n; from += SIDE) {
        uint32_t value[SIDE];
        const uint32_t m = b->n - from < SIDE ? b->n - from : SIDE;
        for (uint32_t i = 0; i < SIDE; i++)
            value[i] = from + i;
        through(value, b);
        memcpy(to + from, value, m * sizeof *to);
        for (uint32_t i = 0; i < m && !whole; i++) {
            w.value[w.n] = value[i];
            w.place[w.n] = from + i;
            w.n += value[i] >= b->n;
            if (w.n == SIDE)
                walk(&w, to, b);
        }
    }
    while (w.n > 0)
        walk(&w, to, b);
}

/* ---- pieces of columns ------------------------------------------------------------------- */

/* Signs of the channels of columns [col, col + n), one for each column. */
static void column_signs(swi_noise_elements *e, int64_t col, int64_t n)
{
    const int64_t taps = e->spec->taps, first = col / taps;
    const int64_t channels = (col + n - 1) / taps - first + 1;
    float *to = e->cols_of;
    swi_noise_draw(to, first, channels, &e->cols);
    for (int64_t i = n - 1; i >= 0 && taps > 1;
         i--) /* each reads at or below where it writes */
        to[i] = to[(col + i) / taps - first];
}

static void take_piece(swi_noise_elements *e, int64_t col, int64_t n)
{
    const sw_noise_spec *s = e->spec;
    if (e->col == col && e->n == n)
        return;
    e->col = col;
    e->n = n;
    if (s->kind == SW_NOISE_LOW_RANK) {
        for (int32_t k = 0; k < s->rank; k++)
            swi_noise_draw(e->cols_of + k * n, k * s->cols + col, n, &e->cols);
    } else if (s->kind == SW_NOISE_SIGN_FLIP) {
        if ((s->sides & SW_NOISE_IN) != 0)
            column_signs(e, col, n);
    } else {
        const int64_t last = (col + n - 1) / s->taps;
        for (int64_t c = col / s->taps; c <= last; c++)
            e->channel[c - col / s->taps] =
                e->d.cols.n != 0 ? sw_bijection_at(&e->d.cols, (uint32_t)c) : (uint32_t)c;
    }
}

/* ---- rows -------------------------------------------------------------------------------- */

/* a * b + c, rounded once in every instruction set. */
SW_VEC_FN vf fused(vf a, vf b, vf c)
{
#if SW_ISA_ID == 0
    for (int i = 0; i < VW; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
#else
    return vfma(a, b, c);
#endif
}

static void low_rank_row(float *to, swi_noise_elements *e, int64_t row, int64_t n)
{
    const sw_noise_spec *s = e->spec;
    if (e->row < 0 || row < e->row || row >= e->row + SWI_NOISE_AHEAD) {
        e->row = row;
        for (int32_t k = 0; k < s->rank; k++)
            swi_noise_draw(e->rows_of + k * SWI_NOISE_AHEAD, k * s->rows + row,
                           least(s->rows - row, SWI_NOISE_AHEAD), &e->rows);
    }
    for (int64_t i = 0; i < n; i += VW) {
        vf sum = vzero();
        for (int32_t k = 0; k < s->rank; k++) {
            const vf v = vload_upto(e->cols_of + k * n + i, n - i);
            const vf a = vset1(e->rows_of[k * SWI_NOISE_AHEAD + row - e->row]);
            sum = k == 0 ? vmul(a, v) : fused(a, v, sum);
        }
        sum = vmul(sum, vset1(e->d.scale));
        vstore_upto(to + i, sum, n - i);
    }
}

static void flipped_row(float *to, swi_noise_elements *e, int64_t row, int64_t col, int64_t n)
{
    const sw_noise_spec *s = e->spec;
    const float sign =
        (s->sides & SW_NOISE_OUT) != 0 ? sw_noise_flip(s, SW_NOISE_ROWS, &e->d.at, row) : 1.0f;
    swi_noise_draw(to, row * s->cols + col, n, &e->elements);
    if ((s->sides & SW_NOISE_IN) != 0)
        for (int64_t i = 0; i < n; i++)
            to[i] *= sign * e->cols_of[i];
    else
        for (int64_t i = 0; i < n; i++)
            to[i] *= sign;
}

static bool permuted_row(float *to, swi_noise_elements *e, int64_t row, int64_t col, int64_t n)
{
    const sw_noise_spec *s = e->spec;
    const int64_t r = e->d.rows.n != 0 ? sw_bijection_at(&e->d.rows, (uint32_t)row) : row;
    const int64_t taps = s->taps, width = s->keep_cols * taps, first = col / taps;
    if (r >= s->keep_rows)
        return false;
    swi_noise_draw(e->rows_of, r * width, width, &e->elements);
    for (int64_t i = 0; i < n; i++) {
        const int64_t c = e->channel[(col + i) / taps - first];
        to[i] = c < s->keep_cols ? e->d.scale * e->rows_of[c * taps + (col + i) % taps] : 0.0f;
    }
    return true;
}

bool swi_noise_row(float *to, swi_noise_elements *e, int64_t row, int64_t col, int64_t n,
                   const float *w)
{
    const sw_noise_spec *s = e->spec;
    if (s->kind == SW_NOISE_IID) {
        swi_noise_draw(to, row * s->cols + col, n, &e->elements);
        return true;
    }
    if (s->kind == SW_NOISE_DROPOUT) {
        const float factor = sw_noise_dropped(s, &e->d, row);
        for (int64_t i = 0; i < n; i++)
            to[i] = w != NULL ? w[i] * factor : 0.0f;
        return true;
    }
    if (by_number(s)) {
        for (int64_t i = 0; i < n; i++)
            to[i] = sw_noise_element(s, &e->d, row, col + i, 0.0f);
        return true;
    }
    take_piece(e, col, n);
    if (s->kind == SW_NOISE_LOW_RANK) {
        low_rank_row(to, e, row, n);
        return true;
    }
    if (s->kind == SW_NOISE_SIGN_FLIP) {
        flipped_row(to, e, row, col, n);
        return true;
    }
    return permuted_row(to, e, row, col, n);
}

/* Some columns of rows [row, end). */
static void columns_of(float *to, swi_noise_elements *e, int64_t row, int64_t end, int64_t col,
                       int64_t n, const float *w)
{
    const int64_t cols = e->spec->cols, most = swi_noise_piece(e->spec);
    for (int64_t c = col; c < col + n; c += most) {
        const int64_t m = least(col + n - c, most);
        for (int64_t r = row; r < end; r++) {
            const int64_t at = (r - row) * cols + c - col;
            if (!swi_noise_row(to + at, e, r, c, m, w != NULL ? w + at : NULL))
                memset(to + at, 0, (size_t)m * sizeof *to);
        }
    }
}

/* The rest of a row, whole rows, the beginning of one. */
void SW_KERNEL(noise, elements)(float *to, int64_t first, int64_t n, const sw_noise_spec *spec,
                                const sw_noise_at *at, float sigma, const float *w)
{
    swi_noise_elements e;
    const int64_t cols = spec->cols, col = first % cols;
    int64_t row = first / cols, done = 0;
    swi_noise_elements_of(&e, spec, at, sigma);
    if (col != 0 && n > 0) {
        done = least(cols - col, n);
        columns_of(to, &e, row++, first / cols + 1, col, done, w);
    }
    const int64_t whole = (n - done) / cols;
    columns_of(to + done, &e, row, row + whole, 0, cols, w != NULL ? w + done : NULL);
    done += whole * cols;
    if (done < n)
        columns_of(to + done, &e, row + whole, row + whole + 1, 0, n - done,
                   w != NULL ? w + done : NULL);
}

/* ---- rows of a table --------------------------------------------------------------------- */

typedef struct {
    float *y;
    const sw_ids *ids;
    const float *table;
    const sw_noise_layer *l;
    int64_t each; /* rows of an evaluation */
} lookup_job;

/* Rows of one direction, all repeats. */
static void lookup_part(void *arg, int part)
{
    const lookup_job *j = arg;
    const swi_noise_attrs *a = j->l->a;
    const sw_noise_at at = swi_noise_at(j->l, part);
    const int64_t cols = a->weight.cols, most = swi_noise_piece(&a->weight);
    swi_noise_elements e;
    float piece[SWI_NOISE_KEPT / 2];
    swi_noise_elements_of(&e, &a->weight, &at, j->l->sigma);
    for (int64_t c = 0; c < cols; c += most) {
        const int64_t n = least(cols - c, most);
        for (int64_t q = 0; q < a->repeats * j->each; q++) {
            const int64_t evaluation = q / j->each * a->directions + part;
            const int64_t row = evaluation * j->each + q % j->each;
            const int64_t id = sw_id_at(j->ids, row), from = id * cols + c;
            const float factor = sw_noise_sign(a, evaluation) * j->l->sigma;
            float *y = j->y + row * cols + c;
            if (!swi_noise_row(piece, &e, id, c, n, j->table != NULL ? j->table + from : NULL))
                continue;
            swi_noise_times(piece, j->l->weight_sigmas, from, n);
            for (int64_t i = 0; i < n; i++)
                y[i] += factor * piece[i];
        }
    }
}

void SW_KERNEL(noise, embedding)(float *y, const sw_ids *ids, const float *table,
                                 const sw_noise_layer *l, const sw_par *par)
{
    lookup_job j = {y, ids, table, l, ids->n / (l->a->repeats * l->a->directions)};
    vparts(par, lookup_part, &j, (int)l->a->directions,
           ids->n * l->a->weight.cols >= 1 << 16 /* elements that are worth a thread */);
}

/* ---- steps: theta is moved by z, which exists for the elements of a part alone ----------- */

enum { PART = 16384 }; /* elements that a thread takes at a time */

typedef struct {
    float *theta;
    const swi_move_attrs *a;
    sw_noise_at at;
    const float *numbers;
} step_job;

static void by_noise(float *theta, const float *z, int64_t n, float by)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        vstore(theta + i, vadd(vload(theta + i), vmul(vset1(by), vload(z + i))));
    for (; i < n; i++)
        theta[i] += by * z[i];
}

static void descend(float *theta, const float *z, int64_t n, const float *x, bool decays)
{
    const float c = x[SWI_MOVE_C], lr = x[SWI_MOVE_LR], wd = x[SWI_MOVE_WD];
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        const vf t = vload(theta + i);
        vf slope = vmul(vset1(c), vload(z + i));
        if (decays)
            slope = vadd(slope, vmul(vset1(wd), t));
        vstore(theta + i, vadd(t, vmul(vset1(-lr), slope)));
    }
    for (; i < n; i++)
        theta[i] -= lr * (decays ? c * z[i] + wd * theta[i] : c * z[i]);
}

static void step_part(void *arg, int part)
{
    const step_job *j = arg;
    const sw_noise_spec *s = &j->a->noise;
    const int64_t all = s->rows * s->cols, from = (int64_t)part * PART;
    const int64_t n = least(all - from, PART);
    float z[PART];
    float *theta = j->theta + from;
    const float by = j->numbers[SWI_MOVE_A];
    swi_noise_matrix(z, from, n, s, &j->at, 0.0f, NULL);
    by_noise(theta, z, n, by);
    if (j->a->move == SWI_MOVE_ALL) {
        by_noise(theta, z, n, -2.0f * by);
        by_noise(theta, z, n, by);
    }
    if (j->a->move != SWI_MOVE_BY_NOISE)
        descend(theta, z, n, j->numbers, j->a->decays != 0);
}

void SW_KERNEL(noise, step)(float *theta, const swi_move_attrs *a, const sw_noise_at *at,
                            const float *numbers, const sw_par *par)
{
    step_job j = {theta, a, *at, numbers};
    const int64_t all = a->noise.rows * a->noise.cols;
    par->run(par, step_part, &j, (int)((all + PART - 1) / PART));
}
