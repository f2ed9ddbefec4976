/* Is a loss, is a gradient finite? Ops that find out and count what was skipped because one was
 * not. A finite check is an f64 scalar, 0 where all is well: ops.h. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <float.h>
#include <math.h>

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

static sw_status counts_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = in[0];
    return SW_OK;
}

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
        bound *= reads ? (double)sw_pointwise(l->isa)->largest(swi_in(l, i), n, l->par) : 1.0;
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
    const bool finite =
        isfinite(bound) && isfinite(sw_pointwise(l->isa)->largest(swi_in(l, 0), n, l->par));
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

/* ---- the first of several that is not 0 -------------------------------------------------- */

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

/* ---- in {counts, finite check}, out {counts}: for the next update
 * ----------------------------- */

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

/* ---- in {counts, finite check, [flags]}, out {counts}: an update, skipped or not
 * ---------------
 */

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
