/* Ops of optimizers around their updates: norms, kept gradients, step counters. None has a
 * gradient and none can be called from a step function; the tests of optimizers cover them. */
#include "alloc/base/assert.h"
#include "kernels/dispatch.h"
#include "kernels/optim_step.h"
#include "runtime/ops/noise.h"
#include "runtime/ops/ops.h"
#include <float.h>
#include <math.h>

/* Kept gradients have a flag each: 1 where one waits for its update. Where it is 0 the kernels
 * read what they always read and do their work on no element at all. */
static int64_t waiting(int64_t n, float flag)
{
    return flag != 0.0f ? n : 0;
}

/* ---- sum of squares: in {x, [flag]}; f64 scalar, one element after the other ------------- */

static sw_status sumsq_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    out[0] = (sw_type){SW_F64, SW_PLAIN, {0, {0}}};
    return swi_want_f32("sumsq", in, n_in);
}

static sw_status sumsq_forward(const sw_launch *l)
{
    const float *x = swi_in(l, 0);
    double *y = l->out[0].ptr;
    double lane[8] = {0}, sum = 0;
    const int64_t n =
        waiting(sw_type_elements(&l->in[0].type), l->n_in > 1 ? *swi_in(l, 1) : 1.0f);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            lane[k] += (double)x[i + k] * (double)x[i + k];
    for (int k = 0; i + k < n; k++)
        lane[k] += (double)x[i + k] * (double)x[i + k];
    for (int k = 0; k < 8; k++)
        sum += lane[k];
    *y = swi_adds(l, 0) ? *y + sum : sum;
    return SW_OK;
}

COUNT(sumsq_operations, swi_count_per_element(&info->in[0], 2))

SWI_APPENDED(sumsq, 1, 2, 1, .infer = sumsq_infer);

/* ---- min(1, max / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ ---------------------- */

TYPE(clip_infer, (sw_type){SW_F32, SW_PLAIN, {0, {0}}})

static sw_status clip_scale_forward(const sw_launch *l)
{
    const double norm = sqrt(*(const double *)l->in[0].ptr);
    const double scale = (double)swi_in(l, 1)[0] / (norm + 1e-6);
    swi_out(l, 0)[0] = scale < 1.0 || scale != scale ? (float)scale : 1.0f;
    return SW_OK;
}

static uint64_t clip_scale_operations(const sw_kernel_info *info)
{
    (void)info;
    return 4; /* root, sum, quotient, comparison */
}

SWI_APPENDED(clip_scale, 2, 2, 1, .infer = clip_infer);

/* ---- kept gradients: in {kept, g, flag}, out {kept, flag}; the first one writes ---------- */

static sw_status accumulate_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = in[0];
    out[1] = in[2];
    return SW_OK;
}

static sw_status accumulate_into_forward(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->in[1].type);
    sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 1), n, 1.0f, swi_in(l, 2)[0] != 0.0f,
                                l->par);
    swi_out(l, 1)[0] = 1.0f;
    return SW_OK;
}

COUNT(accumulate_into_operations, swi_count_per_element(&info->in[1], 1))

SWI_APPENDED(accumulate_into, 3, 3, 2, .infer = accumulate_infer);

/* ---- step counters: in {state f64[2], [flags], [lr], [finite check]}; out {corrections,
 * state}
 * ---------- What waits for an update is what the flags say; where all are 0, and where the
 * finite check is not, no step is made and none is counted. lr: a rate and the knobs after it,
 * where the betas are knobs. */

static bool makes_a_step(const sw_launch *l)
{
    const swi_tick_attrs *a = l->attrs;
    const bool bad =
        a->has_finite_check && *(const volatile double *)l->in[l->n_in - 1].ptr != 0.0;
    bool any = !a->has_flags;
    for (int64_t i = 0; !any && i < sw_type_elements(&l->in[1].type); i++)
        any = swi_in(l, 1)[i] != 0.0f;
    return any && !bad;
}

TYPE(tick_infer, out[1] = in[0])

/* `counted` operations; the flags and the finite check are looked at. */
static uint64_t tick_operations(const sw_kernel_info *info, uint64_t counted)
{
    const swi_tick_attrs *a = info->attrs;
    return swi_count_add(counted + (a->has_finite_check != 0),
                         a->has_flags ? swi_count_per_element(&info->in[1], 1) : 0);
}

/* The state holds 1 - beta^t, so that zeros are its start: 1 - beta^(t+1) = beta (1 - beta^t) +
 * 1 - beta. Where beta changes from step to step it is 1 - the product of the betas so far. */
static sw_status adam_tick_forward(const sw_launch *l)
{
    const swi_tick_attrs *a = l->attrs;
    const double *powers = l->in[0].ptr;
    double *corrections = l->out[0].ptr, *next = l->out[1].ptr;
    sw_optim_rule rule = {.beta1 = a->beta1, .beta2 = a->beta2};
    if (a->reads != 0)
        sw_optim_read(&rule, swi_in(l, 1 + a->has_flags), a->reads);
    const double beta[2] = {(double)rule.beta1, (double)rule.beta2};
    for (int i = 0; i < 2; i++)
        corrections[i] = beta[i] * powers[i] + (1.0 - beta[i]);
    for (int i = 0; i < 2 && makes_a_step(l); i++)
        next[i] = corrections[i];
    return SW_OK;
}

static uint64_t adam_tick_operations(const sw_kernel_info *info)
{
    return tick_operations(info, 6); /* two of three each */
}

/* The state holds t; the corrections are t^-decay and 1 / sqrt(t) of the next. */
static sw_status steps_tick_forward(const sw_launch *l)
{
    const swi_tick_attrs *a = l->attrs;
    const double t = *(const double *)l->in[0].ptr + 1.0;
    double *corrections = l->out[0].ptr, *next = l->out[1].ptr;
    corrections[0] = pow(t, -(double)a->beta1);
    corrections[1] = 1.0 / sqrt(t);
    if (makes_a_step(l))
        next[0] = t;
    return SW_OK;
}

static uint64_t steps_tick_operations(const sw_kernel_info *info)
{
    return tick_operations(info, 4); /* sum, power, root, quotient */
}

SWI_APPENDED(adam_tick, 1, 4, 2, .infer = tick_infer, .attrs_bytes = sizeof(swi_tick_attrs));
SWI_APPENDED(steps_tick, 1, 3, 2, .infer = tick_infer, .attrs_bytes = sizeof(swi_tick_attrs));

/* ==== update steps ======================================================================== */

/* Updates of one parameter: in {param, grad, lr, states..., [corrections], [scale], [flag],
 * [finite check]}, out {param, states...}; lr is a rate, or a rate and the knobs after it
 * (SWI_READS). None has a gradient and none can be called from a
 * step function; the tests of optimizers cover them. */

/* ---- operands ---------------------------------------------------------------------------- */

static const double *corrections_of(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    return a->has_corrections ? l->in[3 + a->n_state].ptr : NULL;
}

static float scale_of(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    return a->has_scale ? *swi_in(l, 3 + a->n_state + a->has_corrections) : 1.0f;
}

/* Both are read, and an element of the gradient, whatever they say: what an op touches does not
 * depend on numbers. */
static bool update_is_off(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    const int flag = 3 + a->n_state + a->has_corrections + a->has_scale;
    const bool nothing = a->has_flag && *swi_in(l, flag) == 0.0f;
    const bool bad =
        a->has_finite_check && *(const volatile double *)l->in[l->n_in - 1].ptr != 0.0;
    (void)*(const volatile float *)l->in[1].ptr;
    return nothing || bad;
}

TYPE(infer_none, in[0])

/* ---- elementwise ------------------------------------------------------------------------- */

static int states_of(int32_t rule)
{
    static const uint8_t states_of_rule[] = {
#define SW_RULE(rule, kind, states, operations) states,
#define SW_OPTIMIZER(kind, states, operations) states,
#include "kernels/optimizers.def"
    };
    SW_ASSERT(rule >= 0 && rule < SW_OPTIM_COUNT);
    return states_of_rule[rule];
}

static sw_status elementwise_forward(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    const double *corrections = corrections_of(l);
    const int64_t n = update_is_off(l) ? 0 : sw_type_elements(&l->in[0].type);
    sw_optim_rule rule = SW_INIT(.kind = (sw_optim)a->rule, .weight_decay = a->weight_decay,
                                 .momentum = a->momentum, .beta1 = a->beta1, .beta2 = a->beta2,
                                 .epsilon = a->epsilon, .decoupled = a->decoupled != 0,
                                 .correction1 = corrections != NULL ? corrections[0] : 1.0,
                                 .correction2 = corrections != NULL ? corrections[1] : 1.0);
    sw_optim_read(&rule, swi_in(l, 2), a->reads);
    const int n_state = states_of(a->rule);
    if (n_state > 0 && l->out[1].type.dtype == SW_U8) {
        sw_state8 state[SW_OPTIM_STATES];
        SW_ASSERT(a->n_state == 2 * n_state && sw_optim_state8(rule.kind) != 0);
        for (int k = 0; k < n_state; k++)
            state[k] = (sw_state8){l->out[1 + 2 * k].ptr, swi_out(l, 2 + 2 * k)};
        sw_pointwise(l->isa)->update8(&rule, swi_out(l, 0), swi_in(l, 1), state,
                                      n > 0 ? sw_state8_rows(&l->out[0].type.shape) : 0,
                                      sw_state8_cols(&l->out[0].type.shape), scale_of(l),
                                      l->par);
        return SW_OK;
    }
    float *state[SW_OPTIM_STATES] = {NULL};
    SW_ASSERT(a->n_state == n_state); /* what its kind keeps is what its line says */
    for (int k = 0; k < n_state; k++)
        state[k] = swi_out(l, 1 + k);
    sw_pointwise(l->isa)->update(&rule, swi_out(l, 0), swi_in(l, 1), state, n, scale_of(l),
                                 l->par);
    return SW_OK;
}

/* Updates count as if there were something to do. A state in 8 bits is a product, a size, a
 * comparison and a quotient more. */
static uint64_t elementwise_operations(const sw_kernel_info *info)
{
    static const uint8_t each[] = {
#define SW_RULE(rule, kind, states, operations) operations,
#define SW_OPTIMIZER(kind, states, operations) operations,
#include "kernels/optimizers.def"
    };
    const swi_update_attrs *a = info->attrs;
    const int states = states_of(a->rule);
    return swi_count_per_element(&info->in[0],
                                 each[a->rule] + (a->n_state > states ? 4 * states : 0));
}

#define SW_OPTIMIZER(kind, states, operations_each)                                            \
    OP(kind##_update, 3, 3 + SW_OPTIM_TENSORS + 4, 1, ATTRS(swi_update_attrs),                 \
       .infer = infer_none, .forward = elementwise_forward,                                    \
       .operations = elementwise_operations, .no_gradient = 1);
#include "kernels/optimizers.def"

/* n matrices of the last two axes; a vector is one row. */
static sw_adafactor_operands matrices_of(const sw_shape *shape)
{
    sw_adafactor_operands x = {.n = 1, .rows = 1, .cols = 1};
    for (int i = 0; i < shape->rank; i++)
        *(i == shape->rank - 1   ? &x.cols
          : i == shape->rank - 2 ? &x.rows
                                 : &x.n) *= shape->dim[i];
    return x;
}

static size_t adafactor_scratch(const sw_kernel_info *info)
{
    const sw_adafactor_operands x = matrices_of(&info->in[0].shape);
    return (size_t)sw_adafactor_scratch(x.n, x.rows, x.cols) * sizeof(double);
}

static sw_status adafactor_forward(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    const double *corrections = corrections_of(l);
    const float *lr = swi_in(l, 2);
    const sw_adafactor_rule rule =
        SW_INIT(.lr = lr[0], .weight_decay = a->reads != 0 ? lr[1] : a->weight_decay,
                .epsilon = a->epsilon, .least = a->least, .threshold = a->threshold,
                .fixed = a->fixed != 0, .fresh = corrections[0], .most = corrections[1]);
    sw_adafactor_operands x = matrices_of(&l->in[0].type.shape);
    x.p = swi_out(l, 0);
    x.g = swi_in(l, 1);
    x.row = swi_out(l, 1);
    x.col = a->n_state > 1 ? swi_out(l, 2) : NULL;
    x.gscale = scale_of(l);
    *(volatile double *)l->scratch = 0.0; /* touched whatever comes */
    if (update_is_off(l))
        return SW_OK;
    sw_pointwise(l->isa)->adafactor(&rule, &x, l->scratch, l->par);
    return SW_OK;
}

/* p^2: 3 with its factor; rows (g s)^2 and sum 3, columns as many, or v 5; twice a v,
 * comparison, root, quotient, g s, product 6; its square 2; p keep - step u 3. */
static uint64_t adafactor_operations(const sw_kernel_info *info)
{
    const swi_update_attrs *a = info->attrs;
    return swi_count_per_element(&info->in[0], a->n_state > 1 ? 26 : 25);
}

OP(adafactor_update, 4, 9, 2, ATTRS(swi_update_attrs), .infer = infer_none,
   .scratch_bytes = adafactor_scratch, .forward = adafactor_forward,
   .operations = adafactor_operations, .no_gradient = 1);

/* ==== finite ============================================================================== */

/* Is a loss, is a gradient finite? Ops that find out and count what was skipped because one was
 * not. A finite check is an f64 scalar, 0 where all is well: ops.h. */

static const sw_type finite_check_type = {SW_F64, SW_PLAIN, {0, {0}}};

/* Read whatever another one says: what an op touches does not depend on numbers. */
static double finite_check(const sw_launch *l, int i)
{
    return *(const volatile double *)l->in[i].ptr;
}

static sw_status finite_check_infer(const sw_type *in, int n_in, const void *attrs,
                                    sw_type *out)
{
    (void)in, (void)n_in, (void)attrs;
    out[0] = finite_check_type;
    return SW_OK;
}

TYPE(counts_infer, in[0])

/* ---- what no element of a product exceeds: in {a, b}, out {f64} --------------------------
 * Not a number or infinite where a factor is, since then the product is too: each element of a
 * factor goes into some of its elements. */

bool swi_bound_reads(const sw_type factors[2], const swi_bound_attrs *a)
{
    return sw_type_elements(&factors[0]) + sw_type_elements(&factors[1]) <= a->worth;
}

static sw_status product_bound_forward(const sw_launch *l)
{
    const swi_bound_attrs *a = l->attrs;
    const sw_type factors[2] = {l->in[0].type, l->in[1].type};
    const bool reads = swi_bound_reads(factors, a);
    double bound = (double)a->terms;
    for (int i = 0; i < 2; i++) {
        const int64_t n = reads ? sw_type_elements(&factors[i]) : 0;
        (void)*(const volatile float *)l->in[i].ptr; /* touched whatever comes */
        bound *=
            reads ? (double)sw_pointwise(l->isa)->largest(swi_in(l, i), false, n, l->par) : 1.0;
    }
    *(double *)l->out[0].ptr = reads ? bound : DBL_MAX;
    return SW_OK;
}

/* One comparison for each element that is read, and two products. */
static uint64_t product_bound_operations(const sw_kernel_info *info)
{
    if (!swi_bound_reads(info->in, info->attrs))
        return 2;
    return swi_count_add(swi_count_add(swi_count_per_element(&info->in[0], 1),
                                       swi_count_per_element(&info->in[1], 1)),
                         2);
}

SWI_APPENDED(product_bound, 2, 2, 1, .infer = finite_check_infer,
             .attrs_bytes = sizeof(swi_bound_attrs));

/* ---- a finite check: in {x, [finite check before], [flag], [bound]}
 * -------------------------------- A kept gradient that does not wait is not looked at, nor one
 * whose bound says enough. */

static sw_status finite_forward(const sw_launch *l)
{
    const swi_finite_attrs *a = l->attrs;
    const double before = a->has_before ? finite_check(l, 1) : 0.0;
    const bool waits = !a->has_flag || *swi_in(l, 1 + a->has_before) != 0.0f;
    const double bound = a->has_bound ? finite_check(l, l->n_in - 1) : DBL_MAX;
    const bool known = bound < SWI_SURELY_FINITE || !isfinite(bound);
    const int64_t n = waits && !known ? sw_type_elements(&l->in[0].type) : 0;
    (void)*(const volatile float *)l->in[0].ptr; /* touched whatever comes */
    const bool finite = isfinite(bound) &&
                        isfinite(sw_pointwise(l->isa)->largest(swi_in(l, 0), false, n, l->par));
    *(double *)l->out[0].ptr = before != 0.0 || finite ? before : a->code;
    return SW_OK;
}

static sw_status finite_reference(const sw_reference *r)
{
    const swi_finite_attrs *a = r->attrs;
    const bool waits = !a->has_flag || r->in[1 + a->has_before][0] != 0.0;
    r->out[0][0] = a->has_before ? r->in[1][0] : 0.0;
    for (int64_t i = 0; waits && i < sw_type_elements(&r->in_type[0]); i++)
        if (r->out[0][0] == 0.0 && !isfinite(r->in[0][i]))
            r->out[0][0] = a->code;
    return SW_OK;
}

/* One comparison for each element, and what was said before. A bound is counted as small
 * enough, as it is in every step that does not diverge. */
static uint64_t finite_operations(const sw_kernel_info *info)
{
    const swi_finite_attrs *a = info->attrs;
    return a->is_bounded ? 2 : swi_count_add(swi_count_per_element(&info->in[0], 1), 1);
}

bool swi_reads_one_element(uint32_t op, const sw_kernel_info *info, int i)
{
    if (op == SW_OP_finite)
        return i == 0 && ((const swi_finite_attrs *)info->attrs)->is_bounded;
    return op == SW_OP_product_bound && !swi_bound_reads(info->in, info->attrs);
}

SWI_APPENDED(finite, 1, 4, 1, .infer = finite_check_infer,
             .attrs_bytes = sizeof(swi_finite_attrs), .reference = finite_reference);

static sw_status any_verdict_forward(const sw_launch *l)
{
    double found = 0.0;
    for (int i = 0; i < l->n_in; i++) {
        const double next = finite_check(l, i);
        found = found == 0.0 ? next : found;
    }
    *(double *)l->out[0].ptr = found;
    return SW_OK;
}

COUNT(any_verdict_operations, (uint64_t)info->n_in)

SWI_APPENDED(any_verdict, 1, SWI_FINITE_CHECKS, 1, .infer = finite_check_infer);

/* ---- in {counts, finite check}, out {counts}: for the next update * ---------------------- */

static sw_status note_verdict_forward(const sw_launch *l)
{
    double *counts = l->out[0].ptr;
    if (counts[SWI_SKIPPED_NEXT] == 0.0)
        counts[SWI_SKIPPED_NEXT] = finite_check(l, 1);
    return SW_OK;
}

static uint64_t note_verdict_operations(const sw_kernel_info *info)
{
    (void)info;
    return 1;
}

SWI_APPENDED(note_verdict, 2, 2, 1, .infer = counts_infer);

/* ---- in {counts, finite check, [flags]}, out {counts}: an update, skipped or not * ------- */

static sw_status count_skipped_forward(const sw_launch *l)
{
    const swi_count_attrs *a = l->attrs;
    double *counts = l->out[0].ptr;
    const double who = finite_check(l, 1);
    bool any = !a->has_flags;
    for (int64_t i = 0; !any && i < sw_type_elements(&l->in[2].type); i++)
        any = swi_in(l, 2)[i] != 0.0f;
    if (!any)
        return SW_OK; /* nothing was there to update */
    counts[SWI_SKIPPED_NEXT] = 0.0;
    if (who == 0.0) {
        counts[SWI_SKIPPED_NOW] = 0.0;
        return SW_OK;
    }
    counts[SWI_SKIPPED_ALL] += 1.0;
    counts[SWI_SKIPPED_NOW] += 1.0;
    counts[SWI_SKIPPED_WHO] = who;
    return SW_OK;
}

static uint64_t count_skipped_operations(const sw_kernel_info *info)
{
    const swi_count_attrs *a = info->attrs;
    return swi_count_add(3, a->has_flags ? swi_count_per_element(&info->in[2], 1) : 0);
}

SWI_APPENDED(count_skipped, 2, 3, 1, .infer = counts_infer,
             .attrs_bytes = sizeof(swi_count_attrs));

/* ==== snes update ========================================================================= */

/* The sigmas of separable natural evolution strategies (Wierstra et al., "Natural evolution
 * strategies", JMLR 2014): sigma_j *= exp(rate / 2 sum over d of w_d (e_dj^2 - 1)), in place.
 * in {sigmas, weights (directions), rate, [finite check]}, out {sigmas}; where the check is not
 * 0 they stay. The numbers e are recomputed, some elements at a time. */

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

/* ==== noise move ========================================================================== */

/* The steps of zeroth-order training: in {param, numbers}, out {param}, in its place. theta is
 * moved along its noise z (kernels/noise.h, direction 0; the step is the generation, the launch
 * has the seed), which is made in pieces and is nowhere afterwards. Products and sums are
 * rounded one by one, so bits depend on neither threads nor instruction set. */

static sw_status move_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    out[0] = in[0];
    return swi_want_f32("noise_move", in, n_in);
}

static sw_status noise_move_forward(const sw_launch *l)
{
    const sw_noise_at at = {l->seed, l->step, 0};
    sw_noise(l->isa)->step(swi_out(l, 0), l->attrs, &at, swi_in(l, 1), l->par);
    return SW_OK;
}

/* z: one normal number for each element; or a product and a sum for each rank and the scale,
 * and the numbers of both factors once. */
static uint64_t noise_move_operations(const sw_kernel_info *info)
{
    static const uint64_t of_move[] = {2, 5, 9};
    const swi_move_attrs *a = info->attrs;
    const sw_noise_spec *s = &a->noise;
    const uint64_t use = of_move[a->move] + (a->decays != 0 ? 2 : 0);
    if (s->kind != SW_NOISE_LOW_RANK)
        return swi_count_per_element(&info->in[0], SWI_NORMAL + use);
    const uint64_t rank = (uint64_t)s->rank, factors = (uint64_t)(s->rows + s->cols) * rank;
    return swi_count_add(swi_count_per_element(&info->in[0], 2 * rank + 1 + use),
                         swi_count_mul(factors, SWI_NORMAL));
}

SWI_APPENDED(noise_move, 2, 2, 1, .infer = move_infer, .attrs_bytes = sizeof(swi_move_attrs));
