/* Steps along noise: theta is moved by z, which exists for the elements of a part alone, on its
 * stack. */
#include "kernels/cpu/isa/noise_internal.h"

enum { PART = 16384 }; /* elements that a thread takes at a time */

typedef struct {
    float *theta;
    const swi_move_attrs *a;
    sw_noise_at at;
    const float *numbers;
} step_job;

/* ---- what is done with z ------------------------------------------------------------------
 */

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

static void use(const step_job *j, float *theta, const float *z, int64_t n)
{
    const float by = j->numbers[SWI_MOVE_A];
    by_noise(theta, z, n, by);
    if (j->a->move == SWI_MOVE_ALL) {
        by_noise(theta, z, n, -2.0f * by);
        by_noise(theta, z, n, by);
    }
    if (j->a->move != SWI_MOVE_BY_NOISE)
        descend(theta, z, n, j->numbers, j->a->decays != 0);
}

/* ---- parts --------------------------------------------------------------------------------
 */

static void step_part(void *arg, int part)
{
    const step_job *j = arg;
    const sw_noise_spec *s = &j->a->noise;
    const int64_t all = s->rows * s->cols, from = (int64_t)part * PART;
    const int64_t n = all - from < PART ? all - from : PART;
    float z[PART];
    swi_noise_matrix(z, from, n, s, &j->at, 0.0f, NULL);
    use(j, j->theta + from, z, n);
}

void SW_KERNEL(noise, step)(float *theta, const swi_move_attrs *a, const sw_noise_at *at,
                            const float *numbers, const sw_par *par)
{
    step_job j = {theta, a, *at, numbers};
    const int64_t all = a->noise.rows * a->noise.cols;
    par->run(par, step_part, &j, (int)((all + PART - 1) / PART));
}
