/* The sum of weighted perturbations over directions. */
#include "kernels/cpu/isa/noise_internal.h"

size_t swi_noise_gradient_bytes(const sw_noise_spec *spec, int64_t n_rows, int threads)
{
    (void)spec, (void)n_rows, (void)threads;
    return 0;
}

void swi_noise_gradient(const sw_noise_sum *g, void *scratch, const sw_par *par)
{
    const int64_t cols = g->spec->cols;
    (void)scratch, (void)par;
    if (!g->accumulate)
        memset(g->to, 0, (size_t)(g->n_rows * cols) * sizeof *g->to);
    for (int64_t d = 0; d < g->n; d++) {
        const sw_noise_at at = {g->seed, g->generation, g->first + (uint32_t)d};
        sw_noise_direction dir;
        sw_noise_prepare(&dir, g->spec, &at, g->sigma);
        for (int64_t r = 0; r < g->n_rows; r++)
            for (int64_t c = 0; c < cols; c++)
                g->to[r * cols + c] +=
                    g->weights[d] *
                    sw_noise_element(g->spec, &dir, g->first_row + r, c,
                                     g->parameter != NULL ? g->parameter[r * cols + c] : 0.0f);
    }
}
