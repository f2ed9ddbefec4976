/* Softmax cross-entropy: a scalar, phase loss.
 *
 * Keeps one float per row (the logarithm of the sum of exponentials), the logits and the
 * labels; the gradient may overwrite the logits. */
#include "kernels/dispatch.h"
#include "kernels/scalar.h"
#include "runtime/ops/ce.h"
#include <math.h>

/* ---- labels ------------------------------------------------------------------------------ */

sw_status swi_labels_infer(const char *op, const sw_shape *x, const sw_type *labels)
{
    const sw_shape *t = &labels->shape;
    char s[SWI_SHAPE_TEXT], u[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_ids(op, "labels", labels));
    if (x->rank != 2 || t->rank != 1 || t->dim[0] != x->dim[0] || x->dim[0] < 1 ||
        x->dim[1] < 1)
        SW_FAIL(SW_INVALID,
                "%s: logits and labels must be (rows, classes) and (rows) (got %s and %s)", op,
                swi_shape_text(x, s), swi_shape_text(t, u));
    return SW_OK;
}

int64_t swi_label_at(const sw_buffer *labels, int64_t row)
{
    const sw_ids ids = swi_ids_of(labels);
    return sw_id_at(&ids, row);
}

static bool is_ignored(const swi_ce_attrs *a, int64_t label)
{
    return a != NULL && a->has_ignore != 0 && label == a->ignore;
}

sw_status swi_check_labels(const char *op, const sw_buffer *labels, const swi_ce_attrs *a,
                           int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++) {
        const int64_t label = swi_label_at(labels, r);
        if ((label < 0 || label >= cols) && !is_ignored(a, label))
            SW_FAIL(SW_INVALID, "%s: row %lld: the label must be 0 to %lld (got %lld)", op,
                    (long long)r, (long long)cols - 1, (long long)label);
    }
    return SW_OK;
}

int64_t swi_ce_counted(const sw_buffer *labels, const swi_ce_attrs *a, int64_t rows)
{
    int64_t n = 0;
    if (a == NULL || a->has_ignore == 0)
        return rows;
    for (int64_t r = 0; r < rows; r++)
        n += !is_ignored(a, swi_label_at(labels, r));
    return n;
}

/* ---- a block of rows --------------------------------------------------------------------- */

sw_status swi_ce_attrs_infer(const char *op, const swi_ce_attrs *a)
{
    if (!(a->smoothing >= 0.0f && a->smoothing <= 1.0f))
        SW_FAIL(SW_INVALID, "%s: smoothing must be 0 to 1 (got %g)", op, (double)a->smoothing);
    return SW_OK;
}

static bool is_smooth(const swi_ce_attrs *a)
{
    return a->smoothing > 0.0f;
}

size_t swi_ce_bytes(const swi_ce_attrs *a, int64_t rows)
{
    return (size_t)rows * ((is_smooth(a) ? sizeof(double) : 0) + sw_dtype_bytes(SW_F32));
}

float *swi_ce_scratch(const swi_ce_attrs *a, int64_t rows, void *scratch, double **sums)
{
    *sums = is_smooth(a) ? scratch : NULL;
    return *sums != NULL ? (float *)(void *)(*sums + rows) : scratch;
}

/* Smoothing s: -(1 - s) log p(label) - s / classes times the sum of log p, over rows that
 * count. */
double swi_ce_add(const swi_ce *c, double sum, float *lse, double *sums)
{
    const double s = (double)c->attrs->smoothing;
    sw_pointwise(c->isa)->lse(lse, c->logits, c->rows, c->cols, c->par);
    if (sums != NULL)
        sw_pointwise(c->isa)->row_sums(sums, c->logits, c->rows, c->cols, c->par);
    for (int64_t r = 0; r < c->rows; r++) {
        const int64_t label = swi_label_at(c->labels, c->first + r);
        if (is_ignored(c->attrs, label))
            continue;
        const double x = (double)c->logits[r * c->cols + label];
        const double even = sums != NULL ? s / (double)c->cols * sums[r] : 0.0;
        sum += (double)lse[r] - (1.0 - s) * x - even;
    }
    return sum;
}

static bool has_rule(const swi_ce_attrs *a)
{
    return is_smooth(a) || a->has_ignore != 0;
}

/* From the first row on. */
static sw_ids labels_of(const swi_ce *c)
{
    const sw_ids all = swi_ids_of(c->labels);
    return sw_ids_from(&all, c->first);
}

void swi_ce_dx(const swi_ce *c, float *dx, const float *lse, float factor, bool accumulate)
{
    const sw_ids given = labels_of(c);
    const sw_ce_rule rule = {c->attrs->smoothing, c->attrs->has_ignore != 0, c->attrs->ignore};
    if (has_rule(c->attrs))
        sw_pointwise(c->isa)->smooth_ce_dx(dx, c->logits, lse, &given, c->rows, c->cols, &rule,
                                           factor, accumulate, c->par);
    else
        sw_pointwise(c->isa)->softmax_ce_dx(dx, c->logits, lse, &given, c->rows, c->cols,
                                            factor, accumulate, c->par);
}

double swi_ce_both(const swi_ce *c, double sum, float *logits, float *lse, float *at_label,
                   double *sums, float factor)
{
    if (has_rule(c->attrs)) {
        sum = swi_ce_add(c, sum, lse, sums);
        swi_ce_dx(c, logits, lse, factor, false);
        return sum;
    }
    const sw_ids given = labels_of(c);
    sw_pointwise(c->isa)->softmax_ce(logits, lse, at_label, &given, c->rows, c->cols, factor,
                                     c->par);
    for (int64_t r = 0; r < c->rows; r++)
        sum += (double)lse[r] - (double)at_label[r];
    return sum;
}

/* Maximum, difference, exponential and sum of each element; the logarithm of each row, added to
 * its maximum, less the label's logit, summed; the mean. With smoothing the sum of the logits,
 * two factors and a difference; with a label that is ignored a comparison for each row. */
uint64_t swi_ce_operations(const swi_ce_attrs *a, const sw_type *logits, const sw_type *labels)
{
    const uint64_t smooth = is_smooth(a), ignores = a->has_ignore != 0;
    return swi_count_add(
        swi_count_per_element(logits, SWI_EXP + 3 + smooth),
        swi_count_add(swi_count_per_element(labels, SWI_LOG + 3 + 3 * smooth + ignores), 1));
}

/* (exp(x - lse) - [label]) * factor; by a rule, less what each class has, masked. */
uint64_t swi_ce_dx_per_element(const swi_ce_attrs *a)
{
    return SWI_EXP + 4 + (has_rule(a) ? 2 : 0);
}

double swi_ce_reference(const swi_ce_attrs *a, const double *logits, const double *labels,
                        int64_t rows, int64_t cols, double *counted)
{
    const double s = (double)a->smoothing;
    double total = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double *x = logits + i * cols;
        double all = 0;
        if (is_ignored(a, (int64_t)labels[i]))
            continue;
        double most = x[0], sum = 0;
        for (int64_t c = 1; c < cols; c++)
            most = x[c] > most ? x[c] : most;
        for (int64_t c = 0; c < cols; c++)
            sum += exp(x[c] - most);
        for (int64_t c = 0; c < cols; c++)
            all += x[c];
        total += most + log(sum) - (1.0 - s) * x[(int64_t)labels[i]] - s * all / (double)cols;
        *counted += 1.0;
    }
    return total;
}

/* ---- softmax_ce -------------------------------------------------------------------------- */

static sw_status ce_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    SW_TRY(swi_want_f32("softmax_ce", in, 1));
    SW_TRY(swi_labels_infer("softmax_ce", &in[0].shape, &in[1]));
    SW_TRY(swi_ce_attrs_infer("softmax_ce", attrs));
    out[0] = (sw_type){SW_F32, SW_PLAIN, {0, {0}}};
    out[1] = (sw_type){SW_F32, SW_PLAIN, {1, {in[0].shape.dim[0]}}};
    return SW_OK;
}

/* The loss itself needs the logarithms too: they are scratch where backward does not keep them.
 */
SCRATCH(ce_bytes, swi_ce_bytes(info->attrs, info->in[0].shape.dim[0]))

static swi_ce all_rows(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    return (swi_ce){.logits = swi_in(l, 0),
                    .labels = &l->in[1],
                    .rows = s->dim[0],
                    .cols = s->dim[1],
                    .attrs = l->attrs,
                    .isa = l->isa,
                    .par = l->par};
}

static sw_status ce_forward(const sw_launch *l)
{
    const swi_ce c = all_rows(l);
    float *kept = l->n_out > 1 ? swi_out(l, 1) : NULL;
    double *sums;
    float *lse = swi_ce_scratch(c.attrs, c.rows, l->scratch, &sums);
    SW_TRY(swi_check_labels("softmax_ce", c.labels, c.attrs, c.rows, c.cols));
    const int64_t n = swi_ce_counted(c.labels, c.attrs, c.rows);
    const double sum = swi_ce_add(&c, 0.0, lse, sums);
    for (int64_t r = 0; r < c.rows && kept != NULL; r++)
        kept[r] = lse[r];
    swi_out(l, 0)[0] = n > 0 ? (float)(sum / (double)n) : 0.0f;
    return SW_OK;
}

/* in: logits, labels, lse, dy */
static sw_status ce_dx(const sw_launch *l)
{
    const swi_ce c = all_rows(l);
    swi_touch(l, 3);
    const int64_t n = swi_ce_counted(c.labels, c.attrs, c.rows);
    const float factor = n > 0 ? swi_in(l, 3)[0] / (float)n : 0.0f;
    swi_ce_dx(&c, swi_out(l, 0), swi_in(l, 2), factor, swi_adds(l, 0));
    return SW_OK;
}

COUNT(ce_operations, swi_ce_operations(info->attrs, &info->in[0], &info->in[1]))
COUNT(ce_dx_operations,
      swi_count_per_element(&info->out[0], swi_ce_dx_per_element(info->attrs)))

static sw_status ce_reference(const sw_reference *r)
{
    double n = 0;
    const double total =
        swi_ce_reference(r->attrs, r->in[0], r->in[1], r->in_type[0].shape.dim[0],
                         r->in_type[0].shape.dim[1], &n);
    r->out[0][0] = n > 0.0 ? total / n : 0.0;
    return SW_OK;
}

static const sw_grad_desc ce_grads[] = {GRAD(MAKES(0),
                                             FROM(SW_IN(0), SW_IN(1), SW_OUT(1), SW_DOUT(0)),
                                             ce_dx, ce_dx_operations, .inplace = 1)};
static const swi_ce_attrs ce_attrs[] = {
    {0.0f, 0, 0}, {0.1f, 0, 0}, {0.0f, 1, 2}, {0.25f, 1, 2}};
static const sw_op_case ce_cases[] = {
    CASE("smooth", IN(F32(5, 10), U8(5)), FILL(NORMAL, LABELS), .limit = 10, AT(ce_attrs[1])),
    CASE("a label is ignored", IN(F32(9, 3), I32(9)), FILL(NORMAL, LABELS), .limit = 3,
         AT(ce_attrs[2])),
    CASE("smooth, a label is ignored", IN(F32(50, 700), I32(50)), FILL(NORMAL, LABELS),
         .limit = 5, AT(ce_attrs[3])),
    CASE("bytes", IN(F32(5, 10), U8(5)), FILL(NORMAL, LABELS), .limit = 10, AT(ce_attrs[0])),
    CASE("two bytes", IN(F32(4, 600), U16(4)), FILL(NORMAL, LABELS), .limit = 600,
         AT(ce_attrs[0])),
    CASE("integers, many classes", IN(F32(3, 300), I32(3)), FILL(NORMAL, LABELS), .limit = 300,
         AT(ce_attrs[0])),
};

OP(softmax_ce, 2, 0, 1, ATTRS(swi_ce_attrs), .n_extra = 1, .infer = ce_infer,
   .scratch_bytes = ce_bytes, .forward = ce_forward, .operations = ce_operations,
   .phase = SW_LOSS, .has_phase = 1, GRADS(ce_grads), CHECKS(ce_reference, ce_cases));

sw_value sw_softmax_ce(sw_ctx *ctx, sw_value logits, sw_value labels)
{
    const sw_value in[] = {logits, labels};
    const swi_ce_attrs a = {0.0f, 0, 0};
    return sw_op_apply(ctx, SW_OP_softmax_ce, in, 2, &a);
}

sw_value sw_softmax_ce_with(sw_ctx *ctx, sw_value logits, sw_value labels, float smoothing,
                            int32_t ignore)
{
    const sw_value in[] = {logits, labels};
    const swi_ce_attrs a = {smoothing, 1, ignore};
    return sw_op_apply(ctx, SW_OP_softmax_ce, in, 2, &a);
}
