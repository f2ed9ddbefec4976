/* Rows of a table with noise. */
#include "kernels/cpu/isa/noise_internal.h"

enum { PIECE = SWI_NOISE_KEPT / 2, SOME = 1 << 16 /* elements that are worth a thread */ };

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
            const int64_t id = sw_id_at(j->ids, row), from = id * cols + c;
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

void SW_KERNEL(noise, embedding)(float *y, const sw_ids *ids, const float *table,
                                 const sw_noise_layer *l, const sw_par *par)
{
    lookup_job j = {y, ids, table, l, ids->n / (l->a->repeats * l->a->directions)};
    vparts(par, lookup_part, &j, (int)l->a->directions, ids->n * l->a->weight.cols >= SOME);
}
