/* The sigmas of separable natural evolution strategies (Wierstra et al., "Natural evolution
 * strategies", JMLR 2014): sigma_j *= exp(rate / 2 sum over d of w_d (e_dj^2 - 1)), in place.
 * in {sigmas, weights (directions), rate, [finite check]}, out {sigmas}; where the check is not
 * 0 they stay. The numbers e are recomputed, some elements at a time. */
#include "kernels/dispatch.h"
#include "runtime/ops/noise.h"

enum { SIGMAS, WEIGHTS, RATE };
enum { PART = 1024, BLOCK = 64 }; /* elements of a part; directions that are summed apart */

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_snes_attrs *a = attrs;
    SW_TRY(swi_want_f32("snes_update", in, RATE + 1));
    SW_TRY(swi_noise_check("snes_update", &a->spec));
    if (a->spec.kind != SW_NOISE_IID)
        SW_FAIL(SW_INVALID, "snes_update: the noise must be iid (got kind %d)", a->spec.kind);
    if (a->spec.rows * a->spec.cols != sw_type_elements(&in[SIGMAS]) ||
        in[WEIGHTS].shape.rank != 1 || sw_type_elements(&in[RATE]) != 1 ||
        n_in != RATE + 1 + (a->has_finite_check != 0))
        SW_FAIL(SW_INVALID,
                "snes_update: must have sigmas of %lld x %lld elements, weights (directions) "
                "and a rate",
                (long long)a->spec.rows, (long long)a->spec.cols);
    out[0] = in[SIGMAS];
    return SW_OK;
}

static void one_part(void *arg, int part)
{
    const sw_launch *l = *(const sw_launch *const *)arg;
    const swi_snes_attrs *a = l->attrs;
    const int64_t all = sw_type_elements(&l->out[0].type), first = (int64_t)part * PART;
    const int64_t n = all - first < PART ? all - first : PART;
    const int64_t directions = l->in[WEIGHTS].type.shape.dim[0];
    float e[PART], block[PART], sum[PART];
    for (int64_t i = 0; i < n; i++)
        block[i] = sum[i] = 0.0f;
    for (int64_t d = 0; d < directions; d++) {
        const sw_noise_at at = {l->seed, l->step, l->run + (uint32_t)d};
        const float w = swi_in(l, WEIGHTS)[d];
        sw_noise(l->isa)->fill(e, first, n, &a->spec, SW_NOISE_ELEMENTS, &at);
        for (int64_t i = 0; i < n; i++)
            block[i] += w * (e[i] * e[i] - 1.0f);
        for (int64_t i = 0; (d + 1) % BLOCK == 0 && i < n; i++) {
            sum[i] += block[i];
            block[i] = 0.0f;
        }
    }
    const float half = 0.5f * *swi_in(l, RATE);
    for (int64_t i = 0; i < n; i++)
        swi_out(l, 0)[first + i] *= sw_expf(half * (sum[i] + block[i]));
}

static sw_status forward(const sw_launch *l)
{
    const swi_snes_attrs *a = l->attrs;
    const bool bad =
        a->has_finite_check && *(const volatile double *)l->in[l->n_in - 1].ptr != 0.0;
    const int64_t n = bad ? 0 : sw_type_elements(&l->out[0].type);
    (void)*(const volatile float *)l->in[WEIGHTS].ptr; /* touched whatever comes */
    (void)*(const volatile float *)l->in[RATE].ptr;
    l->par->run(l->par, one_part, &l, (int)((n + PART - 1) / PART));
    return SW_OK;
}

COUNT(operations,
      swi_count_add(swi_count_mul((uint64_t)info->in[WEIGHTS].shape.dim[0],
                                  swi_count_per_element(&info->out[0], SWI_NORMAL + 4)),
                    swi_count_per_element(&info->out[0], SWI_EXP + 2)))

OP(snes_update, 3, 4, 1, ATTRS(swi_snes_attrs), .infer = infer, .forward = forward,
   .no_gradient = 1, .random = 1, .operations = operations);
