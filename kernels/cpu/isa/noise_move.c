/* theta += factor E for rows of a parameter, and rows of a table with noise. */
#include "kernels/cpu/isa/noise_internal.h"

enum { PIECE = SWI_NOISE_KEPT / 2, SOME = 1 << 16 /* elements that are worth a thread */ };

/* ---- parameters ---------------------------------------------------------------------------
 */

typedef struct {
    const sw_noise_shift *m;
    int parts;
} move_job;

static void move_part(void *arg, int part)
{
    const move_job *j = arg;
    const sw_noise_shift *m = j->m;
    const int64_t cols = m->spec->cols, most = swi_noise_piece(m->spec);
    const int64_t first = vpiece(m->n_rows, 1, part, j->parts);
    const int64_t last = vpiece(m->n_rows, 1, part + 1, j->parts);
    swi_noise_elements e;
    float piece[PIECE];
    if (first >= last)
        return;
    swi_noise_elements_of(&e, m->spec, &m->at, m->sigma);
    for (int64_t c = 0; c < cols; c += most) {
        const int64_t n = cols - c < most ? cols - c : most;
        for (int64_t r = first; r < last; r++) {
            float *t = m->theta + r * cols + c;
            if (swi_noise_row(piece, &e, m->first_row + r, c, n, t))
                for (int64_t i = 0; i < n; i++)
                    t[i] += m->factor * piece[i];
        }
    }
}

/* A vector, of one row, is cut by columns. */
static void vector_part(void *arg, int part)
{
    const move_job *j = arg;
    const sw_noise_shift *m = j->m;
    const int64_t most = swi_noise_piece(m->spec);
    const int64_t last = vpiece(m->spec->cols, 16, part + 1, j->parts);
    swi_noise_elements e;
    float piece[PIECE];
    swi_noise_elements_of(&e, m->spec, &m->at, m->sigma);
    for (int64_t c = vpiece(m->spec->cols, 16, part, j->parts); c < last; c += most) {
        const int64_t n = last - c < most ? last - c : most;
        if (swi_noise_row(piece, &e, m->first_row, c, n, m->theta + c))
            for (int64_t i = 0; i < n; i++)
                m->theta[c + i] += m->factor * piece[i];
    }
}

void swi_noise_move(const sw_noise_shift *m, const sw_par *par)
{
    move_job j = {m, 1};
    const int64_t elements = m->n_rows * m->spec->cols;
    if (m->n_rows < 1)
        return;
    if (par != NULL && elements >= SOME)
        j.parts = 2 * par->n_threads;
    vparts(par, m->n_rows > 1 ? move_part : vector_part, &j, j.parts, true);
}

/* ---- embedding ----------------------------------------------------------------------------
 */

typedef struct {
    float *y;
    const sw_ids *ids;
    const float *table;
    const sw_noise_layer *l;
    int64_t each; /* rows of an evaluation */
} lookup_job;

static int64_t id_at(const sw_ids *ids, int64_t i)
{
    return ids->u8 != NULL ? (int64_t)ids->u8[i] : (int64_t)ids->i32[i];
}

/* Rows of one direction, all repeats. */
static void lookup_part(void *arg, int part)
{
    const lookup_job *j = arg;
    const swi_noise_attrs *a = j->l->a;
    const sw_noise_at at = {j->l->seed, j->l->generation, j->l->first + (uint32_t)part};
    const int64_t cols = a->weight.cols, most = swi_noise_piece(&a->weight);
    swi_noise_elements e;
    float piece[PIECE];
    swi_noise_elements_of(&e, &a->weight, &at, j->l->sigma);
    for (int64_t c = 0; c < cols; c += most) {
        const int64_t n = cols - c < most ? cols - c : most;
        for (int64_t q = 0; q < a->repeats * j->each; q++) {
            const int64_t evaluation = q / j->each * a->directions + part;
            const int64_t row = evaluation * j->each + q % j->each;
            const int64_t id = id_at(j->ids, row), from = id * cols + c;
            const float factor = sw_noise_sign(a, evaluation) * j->l->sigma;
            const float *sigmas = j->l->weight_sigmas;
            float *y = j->y + row * cols + c;
            if (!swi_noise_row(piece, &e, id, c, n, j->table != NULL ? j->table + from : NULL))
                continue;
            for (int64_t i = 0; i < n; i++)
                y[i] += factor * (sigmas != NULL ? piece[i] * sigmas[from + i] : piece[i]);
        }
    }
}

void swi_noise_embedding(float *y, const sw_ids *ids, const float *table,
                         const sw_noise_layer *l, const sw_par *par)
{
    lookup_job j = {y, ids, table, l, ids->n / (l->a->repeats * l->a->directions)};
    vparts(par, lookup_part, &j, (int)l->a->directions, ids->n * l->a->weight.cols >= SOME);
}
