/* Losses (scalars, phase loss) and accuracy. mse and bce_with keep both inputs, bce its
 * input. */
#include "kernels/dispatch.h"
#include "kernels/scalar.h"
#include "runtime/ops/ce.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tile.h"
#include <math.h>

/* ==== softmax ce ========================================================================== */

/* Softmax cross-entropy: a scalar, phase loss.
 *
 * Keeps one float per row (the logarithm of the sum of exponentials), the logits and the
 * labels; the gradient may overwrite the logits. */

/* ---- labels ------------------------------------------------------------------------------ */

sw_status swi_labels_infer(const char *op, const sw_shape *x, const sw_type *labels)
{
    const sw_shape *t = &labels->shape;
    SW_TRY(swi_want_ids(op, "labels", labels));
    if (x->rank != 2 || t->rank != 1 || t->dim[0] != x->dim[0] || x->dim[0] < 1 ||
        x->dim[1] < 1)
        SW_FAIL(SW_INVALID,
                "%s: logits and labels must be (rows, classes) and (rows) (got %s and %s)", op,
                SWI_SHAPE(x), SWI_SHAPE(t));
    return SW_OK;
}

static int64_t label_at(const sw_buffer *labels, int64_t row)
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
        const int64_t label = label_at(labels, r);
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
        n += !is_ignored(a, label_at(labels, r));
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
        const int64_t label = label_at(c->labels, c->first + r);
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

/* dx = the gradient of the sum of the losses times factor; dx may be the logits. */
static void own_ce_dx(const swi_ce *c, float *dx, const float *lse, float factor,
                      bool accumulate)
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
        own_ce_dx(c, logits, lse, factor, false);
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

/* The loss itself needs the logarithms too: they are scratch where backward does not keep
 * them. */
SCRATCH(ce_bytes, swi_ce_bytes(info->attrs, info->in[0].shape.dim[0]))

static swi_ce all_rows(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    return (swi_ce)SW_INIT(.logits = swi_in(l, 0), .labels = &l->in[1], .rows = s->dim[0],
                           .cols = s->dim[1], .attrs = l->attrs, .isa = l->isa, .par = l->par);
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
    own_ce_dx(&c, swi_out(l, 0), swi_in(l, 2), factor, swi_adds(l, 0));
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
    return sw_op_apply(ctx, SW_OP_softmax_ce, (sw_value[]){logits, labels}, 2,
                       &(swi_ce_attrs){0.0f, 0, 0});
}

sw_value sw_softmax_ce_with(sw_ctx *ctx, sw_value logits, sw_value labels, float smoothing,
                            int32_t ignore)
{
    return sw_op_apply(ctx, SW_OP_softmax_ce, (sw_value[]){logits, labels}, 2,
                       &(swi_ce_attrs){smoothing, 1, ignore});
}

/* ==== means of elements =================================================================== */

static const sw_type scalar = {SW_F32, SW_PLAIN, {0, {0}}};

/* ---- accuracy ---------------------------------------------------------------------------- */

static sw_status accuracy_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = scalar;
    SW_TRY(swi_want_f32("accuracy", in, 1));
    return swi_labels_infer("accuracy", &in[0].shape, &in[1]);
}

static sw_status accuracy_forward(const sw_launch *l)
{
    const int64_t rows = l->in[0].type.shape.dim[0], cols = l->in[0].type.shape.dim[1];
    const float *x = swi_in(l, 0);
    int64_t hits = 0;
    SW_TRY(swi_check_labels("accuracy", &l->in[1], NULL, rows, cols));
    for (int64_t r = 0; r < rows; r++) {
        int64_t best = 0;
        for (int64_t c = 1; c < cols; c++)
            best = sw_wins(x[r * cols + c], x[r * cols + best]) ? c : best;
        hits += best == label_at(&l->in[1], r);
    }
    swi_out(l, 0)[0] = (float)((double)hits / (double)rows);
    return SW_OK;
}

/* A comparison of each element, the last one with the label; the share. */
COUNT(accuracy_operations, swi_count_add(swi_count_per_element(&info->in[0], 1), 1))

static sw_status accuracy_reference(const sw_reference *r)
{
    const int64_t rows = r->in_type[0].shape.dim[0], cols = r->in_type[0].shape.dim[1];
    double hits = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t best = 0;
        for (int64_t c = 1; c < cols; c++)
            best = sw_wins((float)r->in[0][i * cols + c], (float)r->in[0][i * cols + best])
                       ? c
                       : best;
        hits += best == (int64_t)r->in[1][i] ? 1.0 : 0.0;
    }
    r->out[0][0] = hits / (double)rows;
    return SW_OK;
}

static const sw_op_case accuracy_cases[] = {
    CASE("few classes", IN(F32(40, 3), U8(40)), FILL(DISTINCT, LABELS), .limit = 3),
};

OP(accuracy, 2, 0, 1, .infer = accuracy_infer, .forward = accuracy_forward, .no_gradient = 1,
   .operations = accuracy_operations, .phase = SW_LOSS, .has_phase = 1,
   CHECKS(accuracy_reference, accuracy_cases));

/* ---- mean squared error ------------------------------------------------------------------ */

/* A scalar from F32 tensors of one shape, not empty. */
static sw_status infer_elementwise_loss(const char *op, const sw_type *in, int n_in,
                                        sw_type *out)
{
    SW_TRY(swi_want_f32(op, in, n_in));
    for (int i = 0; i < n_in; i++)
        if (!swi_same_shape(&in[0].shape, &in[i].shape) || sw_type_elements(&in[0]) < 1)
            SW_FAIL(SW_INVALID, "%s: the shapes must be equal and not empty (got %s and %s)",
                    op, SWI_SHAPE(&in[0].shape), SWI_SHAPE(&in[i].shape));
    out[0] = scalar;
    return SW_OK;
}

/* Only huber has an attribute: delta. */
static float number_of(sw_elementwise_loss kind, const void *attrs)
{
    return kind == SW_HUBER ? ((const swi_number_attrs *)attrs)->value : 0.0f;
}

/* The divisor of the sum: elements; for the divergence the rows of a batch. */
static double share_of(sw_elementwise_loss kind, const sw_shape *s)
{
    const int64_t rows = s->rank > 0 ? s->dim[0] : 1;
    return (double)(kind == SW_KL ? rows : swi_elements(s));
}

/* The mean of TERM, of x and target t, in double precision. */
#define LOSS_REFERENCE(id, KIND, TERM)                                                         \
    static sw_status id##_reference(const sw_reference *r)                                     \
    {                                                                                          \
        const double p = (double)number_of(KIND, r->attrs);                                    \
        double sum = 0;                                                                        \
        (void)p;                                                                               \
        for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++) {                     \
            const double x = r->in[0][i], t = r->in[1][i];                                     \
            sum += (TERM);                                                                     \
        }                                                                                      \
        r->out[0][0] = sum / share_of(KIND, &r->in_type[0].shape);                             \
        return SW_OK;                                                                          \
    }

INFER(mse_infer, infer_elementwise_loss("mse", in, n_in, out))

double swi_mse_sum(double sum, const float *x, const float *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)(x[i] - t[i]);
        sum += d * d;
    }
    return sum;
}

static sw_status mse_forward(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    swi_out(l, 0)[0] = (float)(swi_mse_sum(0, swi_in(l, 0), swi_in(l, 1), n) / (double)n);
    return SW_OK;
}

float swi_mse_slope(float dy, int64_t n)
{
    return (float)(2.0 * (double)dy / (double)n);
}

/* in: x, target, dy. dx = 2 (x - t) dy / n; the target's is its negative. */
static sw_status mse_grad(const sw_launch *l, bool of_target)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_pointwise(l->isa)->difference(swi_out(l, 0), swi_in(l, of_target), swi_in(l, !of_target),
                                     n, swi_mse_slope(swi_in(l, 2)[0], n), swi_adds(l, 0),
                                     l->par);
    return SW_OK;
}

KERNEL(mse_dx, mse_grad(l, false))
KERNEL(mse_dt, mse_grad(l, true))
COUNT(mse_operations, swi_count_add(swi_count_per_element(&info->in[0], 3), 1))
COUNT(difference_operations, swi_count_per_element(&info->out[0], 2))

LOSS_REFERENCE(mse, SW_L1, (x - t) * (x - t))

static const sw_grad_desc mse_grads[] = {GRAD(MAKES(0), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)),
                                              mse_dx, difference_operations, .inplace = 3),
                                         GRAD(MAKES(1), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)),
                                              mse_dt, difference_operations, .inplace = 3)};
static const sw_op_case mse_cases[] = {CASE("matrix", IN(F32(6, 5), F32(6, 5)))};

OP(mse, 2, 0, 1, .infer = mse_infer, .forward = mse_forward, .operations = mse_operations,
   .phase = SW_LOSS, .has_phase = 1, GRADS(mse_grads), CHECKS(mse_reference, mse_cases));

/* ---- binary cross-entropy with logits ---------------------------------------------------- */

static sw_status bce_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const float t = ((const swi_number_attrs *)attrs)->value;
    if (!(t >= 0.0f && t <= 1.0f))
        SW_FAIL(SW_INVALID, "bce: target must be 0 to 1 (got %g)", (double)t);
    return infer_elementwise_loss("bce", in, n_in, out);
}

DOES(bce_forward, swi_out(l, 0)[0] = (float)sw_pointwise(l->isa)->bce(
                      swi_in(l, 0), NULL, ((const swi_number_attrs *)l->attrs)->value,
                      swi_elements(&l->in[0].type.shape)))

/* in: x, dy */
static sw_status bce_dx(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_pointwise(l->isa)->bce_dx(
        swi_out(l, 0), swi_in(l, 0), NULL, ((const swi_number_attrs *)l->attrs)->value, n,
        (float)((double)swi_in(l, 1)[0] / (double)n), swi_adds(l, 0), l->par);
    return SW_OK;
}

/* -|x|, its exponential e and log(1 + e); max(x, 0), x t, two sums of these, and one more into
 * the mean. */
COUNT(bce_operations,
      swi_count_add(swi_count_per_element(&info->in[0], 2 + SWI_EXP + SWI_LOG1P + 5), 1))

/* (sigmoid(x) - t) * factor */
COUNT(bce_dx_operations, swi_count_per_element(&info->out[0], SWI_SIGMOID + 2))

static double bce_double(double x, double t)
{
    return (x > 0 ? x : 0) - x * t + log1p(exp(-fabs(x)));
}

static sw_status bce_reference(const sw_reference *r)
{
    const int64_t n = swi_elements(&r->in_type[0].shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += bce_double(r->in[0][i], (double)((const swi_number_attrs *)r->attrs)->value);
    r->out[0][0] = sum / (double)n;
    return SW_OK;
}

static const sw_grad_desc bce_grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(0), SW_DOUT(0)), bce_dx, bce_dx_operations, .inplace = 1)};
static const swi_number_attrs bce_attrs[] = {{1.0f}, {0.3f}};
static const sw_op_case bce_cases[] = {CASE("ones", IN(F32(7, 1)), AT(bce_attrs[0])),
                                       CASE("soft", IN(F32(3, 11)), AT(bce_attrs[1]))};

OP(bce, 1, 0, 1, ATTRS(swi_number_attrs), .infer = bce_infer, .forward = bce_forward,
   .operations = bce_operations, .phase = SW_LOSS, .has_phase = 1, GRADS(bce_grads),
   CHECKS(bce_reference, bce_cases));

sw_value sw_bce(sw_ctx *ctx, sw_value logits, float target)
{
    return sw_op_apply(ctx, SW_OP_bce, &logits, 1, &(swi_number_attrs){target});
}

INFER(bce_with_infer, infer_elementwise_loss("bce_with", in, n_in, out))

DOES(bce_with_forward,
     swi_out(l, 0)[0] = (float)sw_pointwise(l->isa)->bce(swi_in(l, 0), swi_in(l, 1), 0.0f,
                                                         swi_elements(&l->in[0].type.shape)))

/* in: x, target, dy */
static sw_status bce_with_dx(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_pointwise(l->isa)->bce_dx(swi_out(l, 0), swi_in(l, 0), swi_in(l, 1), 0.0f, n,
                                 (float)((double)swi_in(l, 2)[0] / (double)n), swi_adds(l, 0),
                                 l->par);
    return SW_OK;
}

/* The target's: -x dy / n. in: x, dy */
static sw_status bce_with_dt(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 0), n,
                                (float)(-(double)swi_in(l, 1)[0] / (double)n), swi_adds(l, 0),
                                l->par);
    return SW_OK;
}

LOSS_REFERENCE(bce_with, SW_L1, bce_double(x, t))

static const sw_grad_desc bce_with_grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)), bce_with_dx, bce_dx_operations,
         .inplace = 3),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), bce_with_dt, NULL, .inplace = 1)};
static const sw_op_case bce_with_cases[] = {
    CASE("matrix", IN(F32(4, 9), F32(4, 9)), FILL(NORMAL, UNIT))};

OP(bce_with, 2, 0, 1, .infer = bce_with_infer, .forward = bce_with_forward,
   .operations = bce_operations, .phase = SW_LOSS, .has_phase = 1, GRADS(bce_with_grads),
   CHECKS(bce_with_reference, bce_with_cases));

/* ==== losses elementwise ================================================================== */

/* Losses of a tensor and a target: huber, l1, kl_div. Scalars, phase loss.
 *
 * huber and l1 keep both, like mse; the gradient may overwrite either. kl_div keeps its target
 * alone; where the target has a gradient, both. */

SCRATCH(sum_bytes,
        (size_t)sw_pointwise_parts(swi_elements(&info->in[0].shape)) * sizeof(double))

static sw_status loss(const sw_launch *l, sw_elementwise_loss kind)
{
    const sw_shape *s = &l->in[0].type.shape;
    const double sum = sw_pointwise(l->isa)->elementwise_loss(
        kind, swi_in(l, 0), swi_in(l, 1), swi_elements(s), number_of(kind, l->attrs),
        l->scratch, l->par);
    swi_out(l, 0)[0] = (float)(sum / share_of(kind, s));
    return SW_OK;
}

/* in: x, target, dy. Both losses of a difference are the same from either side. */
static sw_status slope(const sw_launch *l, sw_elementwise_loss kind, bool of_target)
{
    const sw_shape *s = &l->in[0].type.shape;
    const bool swap = of_target && kind != SW_KL;
    sw_pointwise(l->isa)->elementwise_loss_dx(
        kind, swi_out(l, 0), swi_in(l, swap), swi_in(l, !swap), swi_elements(s),
        number_of(kind, l->attrs), (float)((double)swi_in(l, 2)[0] / share_of(kind, s)),
        swi_adds(l, 0), l->par);
    return SW_OK;
}

static double huber_double(double x, double t, double p)
{
    const double a = fabs(x - t);
    return a > p ? p * (a - 0.5 * p) : 0.5 * a * a;
}

/* EACH, SLOPE: operations of a term with its sum, of a slope times the factor. */
#define KERNELS(id, KIND, EACH, SLOPE)                                                         \
    static sw_status id##_forward(const sw_launch *l)                                          \
    {                                                                                          \
        return loss(l, KIND);                                                                  \
    }                                                                                          \
    static sw_status id##_dt(const sw_launch *l)                                               \
    {                                                                                          \
        return slope(l, KIND, true);                                                           \
    }                                                                                          \
    static uint64_t id##_operations(const sw_kernel_info *info)                                \
    {                                                                                          \
        return swi_count_add(swi_count_per_element(&info->in[0], EACH), 1);                    \
    }                                                                                          \
    static uint64_t id##_slope_operations(const sw_kernel_info *info)                          \
    {                                                                                          \
        return swi_count_per_element(&info->out[0], SLOPE);                                    \
    }

#define DESCRIPTOR(id, attrs_size)                                                             \
    OP(id, 2, 0, 1, .attrs_bytes = attrs_size, .infer = id##_infer,                            \
       .scratch_bytes = sum_bytes, .forward = id##_forward, .operations = id##_operations,     \
       .phase = SW_LOSS, .has_phase = 1, GRADS(id##_grads),                                    \
       CHECKS(id##_reference, id##_cases))

/* The gradient kernel of `input`, from x, target and dy. */
#define OF_PAIR(id, input, kernel_)                                                            \
    GRAD(MAKES(input), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)), kernel_, id##_slope_operations,   \
         .inplace = 3)

/* ---- huber, l1 --------------------------------------------------------------------------- */

static sw_status huber_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const float delta = number_of(SW_HUBER, attrs);
    if (!(delta > 0.0f && isfinite(delta)))
        SW_FAIL(SW_INVALID, "huber: delta must be finite and above 0 (got %g)", (double)delta);
    return infer_elementwise_loss("huber", in, n_in, out);
}

INFER(l1_infer, infer_elementwise_loss("l1", in, n_in, out))

KERNELS(huber, SW_HUBER, 9, 4) /* both sides of the bend */
KERNELS(l1, SW_L1, 3, 4)
LOSS_REFERENCE(huber, SW_HUBER, huber_double(x, t, p))
LOSS_REFERENCE(l1, SW_L1, fabs(x - t))
KERNEL(huber_dx, slope(l, SW_HUBER, false))
KERNEL(l1_dx, slope(l, SW_L1, false))

static const sw_grad_desc huber_grads[] = {OF_PAIR(huber, 0, huber_dx),
                                           OF_PAIR(huber, 1, huber_dt)};
static const sw_grad_desc l1_grads[] = {OF_PAIR(l1, 0, l1_dx), OF_PAIR(l1, 1, l1_dt)};

static const swi_number_attrs huber_attrs[] = {{1.0f}, {0.4f}};
/* The last case has parts enough for three threads. */
static const sw_op_case huber_cases[] = {
    CASE("matrix", IN(F32(6, 25), F32(6, 25)), AT(huber_attrs[0])),
    CASE("one", IN(F32(1), F32(1)), AT(huber_attrs[1])),
    CASE("many", IN(F32(7, 7001), F32(7, 7001)), AT(huber_attrs[1])),
};
static const sw_op_case l1_cases[] = {
    CASE("matrix", IN(F32(6, 25), F32(6, 25)), FILL(DISTINCT, UNIT)),
    CASE("a scalar", IN(SCALAR, SCALAR)),
};

DESCRIPTOR(huber, sizeof(swi_number_attrs));
DESCRIPTOR(l1, 0);

sw_value sw_huber(sw_ctx *ctx, sw_value x, sw_value target, float delta)
{
    return sw_op_apply(ctx, SW_OP_huber, (sw_value[]){x, target}, 2,
                       &(swi_number_attrs){delta});
}

INFER(kl_div_infer, infer_elementwise_loss("kl_div", in, n_in, out))

KERNELS(kl_div, SW_KL, SWI_LOG + 6, SWI_LOG + 6)
LOSS_REFERENCE(kl_div, SW_KL, t > 0 ? t * (log(t) - x) : 0.0)

/* dx = -t dy / rows. in: target, dy */
static sw_status kl_div_dx(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 0), swi_elements(s),
                                (float)(-(double)swi_in(l, 1)[0] / share_of(SW_KL, s)),
                                swi_adds(l, 0), l->par);
    return SW_OK;
}

static const sw_grad_desc kl_div_grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), kl_div_dx, NULL, .inplace = 1),
    OF_PAIR(kl_div, 1, kl_div_dt)};
static const sw_op_case kl_div_cases[] = {
    CASE("rows", IN(F32(4, 9), F32(4, 9)), FILL(UNIT, UNIT)),
    CASE("one", IN(SCALAR, SCALAR), FILL(UNIT, UNIT)),
};

DESCRIPTOR(kl_div, 0);
