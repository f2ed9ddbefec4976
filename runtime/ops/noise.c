/* Shared by the ops with noise on parameters: noise.h. */
#include "runtime/ops/noise.h"
#include <string.h>

sw_status swi_noise_check(const char *op, const sw_noise_spec *s)
{
    if (s->rows == 0)
        return SW_OK;
    if (s->kind < 0 || s->kind >= SW_NOISE_KINDS || s->distribution < 0 ||
        s->distribution >= SW_NOISE_DISTRIBUTIONS || s->rows < 0 || s->cols < 0 ||
        s->taps < 1 || s->cols % s->taps != 0)
        SW_FAIL(SW_INVALID,
                "%s: noise must have a known kind and distribution and whole channels (got "
                "kind %d, distribution %d, %lld x %lld with taps %d)",
                op, s->kind, s->distribution, (long long)s->rows, (long long)s->cols, s->taps);
    if (s->kind == SW_NOISE_LOW_RANK && s->rank < 1)
        SW_FAIL(SW_INVALID, "%s: the rank must be at least 1 (got %d)", op, s->rank);
    if ((s->kind == SW_NOISE_PERMUTED || s->kind == SW_NOISE_SPARSE) &&
        (s->keep_rows < 1 || s->keep_rows > s->rows || s->keep_cols < 1 ||
         s->keep_cols > s->cols / s->taps))
        SW_FAIL(SW_INVALID,
                "%s: positions with noise must be 1 to %lld and 1 to %lld (got %lld and %lld)",
                op, (long long)s->rows, (long long)(s->cols / s->taps), (long long)s->keep_rows,
                (long long)s->keep_cols);
    return SW_OK;
}

sw_status swi_noise_infer(const char *op, const swi_noise_attrs *a, int64_t rows,
                          const sw_type *sigma)
{
    if (a->repeats < 1 || a->directions < 1 || rows % (a->repeats * a->directions) != 0)
        SW_FAIL(SW_INVALID,
                "%s: axis 0 must be a multiple of repeats x directions (got %lld for %lld x "
                "%lld)",
                op, (long long)rows, (long long)a->repeats, (long long)a->directions);
    if (sigma->dtype != SW_F32 || sw_type_elements(sigma) != 1)
        SW_FAIL(SW_INVALID, "%s: sigma must be an f32 scalar", op);
    SW_TRY(swi_noise_check(op, &a->weight));
    return swi_noise_check(op, &a->bias);
}

sw_noise_layer swi_noise_layer(const sw_launch *l, int sigma)
{
    return (sw_noise_layer){.a = l->attrs,
                            .seed = l->seed,
                            .generation = l->step,
                            .first = l->run,
                            .sigma = *swi_in(l, sigma)};
}

void swi_noise_clear(const sw_launch *l)
{
    memset(l->out[0].ptr, 0, sw_type_bytes(&l->out[0].type));
}
