/* theta += factor E, for rows of a parameter. */
#include "kernels/cpu/isa/noise_internal.h"

void swi_noise_move(const sw_noise_shift *m, const sw_par *par)
{
    sw_noise_direction d;
    (void)par;
    sw_noise_prepare(&d, m->spec, &m->at, m->sigma);
    const int64_t cols = m->spec->cols;
    for (int64_t r = 0; r < m->n_rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            float *t = m->theta + r * cols + c;
            *t += m->factor * sw_noise_element(m->spec, &d, m->first_row + r, c, *t);
        }
}
