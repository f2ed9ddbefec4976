/* Losses (scalars, phase loss) and accuracy.
 *
 * softmax_ce keeps one float per row (the logarithm of the sum of exponentials), the logits and
 * the labels; the gradient may overwrite the logits. mse and bce_with keep both inputs, bce its
 * input. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

static const sw_type scalar = {SW_F32, SW_PLAIN, {0, {0}}};

/* ---- labels ------------------------------------------------------------------------------ */

static sw_status labels_infer(const char *op, const sw_type *in)
{
    const sw_shape *x = &in[0].shape, *t = &in[1].shape;
    char s[SWI_SHAPE_TEXT], u[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32(op, in, 1));
    if (in[1].dtype != SW_U8 && in[1].dtype != SW_I32)
        SW_FAIL(SW_INVALID, "%s: labels are %s, u8 or i32 is wanted", op,
                sw_dtype_name(in[1].dtype));
    if (x->rank != 2 || t->rank != 1 || t->dim[0] != x->dim[0] || x->dim[0] < 1 ||
        x->dim[1] < 1)
        SW_FAIL(SW_INVALID,
                "%s: logits %s and labels %s: (rows, classes) and (rows) are wanted", op,
                swi_shape_text(x, s), swi_shape_text(t, u));
    return SW_OK;
}

static int64_t label_at(const sw_buffer *labels, int64_t row)
{
    return labels->type.dtype == SW_U8 ? (int64_t)((const uint8_t *)labels->ptr)[row]
                                       : (int64_t)((const int32_t *)labels->ptr)[row];
}

static bool is_ignored(const swi_ce_attrs *a, int64_t label)
{
    return a != NULL && a->has_ignore != 0 && label == a->ignore;
}

/* a: NULL where no label is ignored. */
static sw_status check_labels(const char *op, const sw_buffer *labels, const swi_ce_attrs *a,
                              int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++) {
        const int64_t label = label_at(labels, r);
        if ((label < 0 || label >= cols) && !is_ignored(a, label))
            SW_FAIL(SW_INVALID, "%s: label %lld in row %lld, classes are 0 to %lld", op,
                    (long long)label, (long long)r, (long long)cols - 1);
    }
    return SW_OK;
}

/* ---- softmax cross-entropy --------------------------------------------------------------- */

static sw_status ce_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    const float smoothing = ((const swi_ce_attrs *)attrs)->smoothing;
    SW_TRY(labels_infer("softmax_ce", in));
    if (!(smoothing >= 0.0f && smoothing <= 1.0f))
        SW_FAIL(SW_INVALID, "softmax_ce: smoothing %g, 0 to 1 is wanted", (double)smoothing);
    out[0] = scalar;
    out[1] = (sw_type){SW_F32, SW_PLAIN, {1, {in[0].shape.dim[0]}}};
    return SW_OK;
}

static bool is_smooth(const void *attrs)
{
    return ((const swi_ce_attrs *)attrs)->smoothing > 0.0f;
}

/* The logarithms are wanted for the loss itself too: scratch where nobody keeps them. With
 * smoothing the sums of the rows stand in front of them. */
static size_t ce_bytes(const sw_kernel_info *info)
{
    const size_t sums = is_smooth(info->attrs) ? sizeof(double) : 0;
    return (size_t)info->in[0].shape.dim[0] * (sums + sizeof(float));
}

/* Rows that count. */
static int64_t ce_rows(const sw_launch *l)
{
    const int64_t rows = l->in[0].type.shape.dim[0];
    int64_t n = 0;
    for (int64_t r = 0; r < rows; r++)
        n += !is_ignored(l->attrs, label_at(&l->in[1], r));
    return n;
}

/* Smoothing s: -(1 - s) log p(label) - s / classes times the sum of log p, over rows that
 * count. */
static double ce_smooth_sum(const sw_launch *l, const float *lse, const double *sums)
{
    const int64_t rows = l->in[0].type.shape.dim[0], cols = l->in[0].type.shape.dim[1];
    const double s = (double)((const swi_ce_attrs *)l->attrs)->smoothing;
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t label = label_at(&l->in[1], r);
        if (is_ignored(l->attrs, label))
            continue;
        const double x = (double)swi_in(l, 0)[r * cols + label];
        const double even = sums != NULL ? s / (double)cols * sums[r] : 0.0;
        sum += (double)lse[r] - (1.0 - s) * x - even;
    }
    return sum;
}

static sw_status ce_forward_by_rule(const sw_launch *l)
{
    const int64_t rows = l->in[0].type.shape.dim[0], cols = l->in[0].type.shape.dim[1];
    double *sums = is_smooth(l->attrs) ? l->scratch : NULL;
    float *lse = sums != NULL ? (float *)(void *)(sums + rows) : l->scratch;
    float *kept = l->n_out > 1 ? swi_out(l, 1) : NULL;
    const int64_t n = ce_rows(l);
    SW_TRY(check_labels("softmax_ce", &l->in[1], l->attrs, rows, cols));
    sw_point(l->isa)->lse(lse, swi_in(l, 0), rows, cols, l->par);
    if (sums != NULL)
        sw_point(l->isa)->row_sums(sums, swi_in(l, 0), rows, cols, l->par);
    for (int64_t r = 0; r < rows && kept != NULL; r++)
        kept[r] = lse[r];
    swi_out(l, 0)[0] = n > 0 ? (float)(ce_smooth_sum(l, lse, sums) / (double)n) : 0.0f;
    return SW_OK;
}

static bool has_rule(const void *attrs)
{
    return is_smooth(attrs) || ((const swi_ce_attrs *)attrs)->has_ignore != 0;
}

static sw_status ce_forward(const sw_launch *l)
{
    const int64_t rows = l->in[0].type.shape.dim[0], cols = l->in[0].type.shape.dim[1];
    const float *x = swi_in(l, 0);
    float *lse = l->scratch;
    float *kept = l->n_out > 1 ? swi_out(l, 1) : NULL;
    double sum = 0;
    if (has_rule(l->attrs))
        return ce_forward_by_rule(l);
    SW_TRY(check_labels("softmax_ce", &l->in[1], NULL, rows, cols));
    sw_point(l->isa)->lse(lse, x, rows, cols, l->par);
    for (int64_t r = 0; r < rows; r++)
        sum += (double)lse[r] - (double)x[r * cols + label_at(&l->in[1], r)];
    for (int64_t r = 0; r < rows && kept != NULL; r++)
        kept[r] = lse[r];
    swi_out(l, 0)[0] = (float)(sum / (double)rows);
    return SW_OK;
}

/* in: logits, labels, lse, dy */
static sw_status ce_dx(const sw_launch *l)
{
    const int64_t rows = l->in[0].type.shape.dim[0], cols = l->in[0].type.shape.dim[1];
    const bool bytes = l->in[1].type.dtype == SW_U8;
    if (has_rule(l->attrs)) {
        const swi_ce_attrs *a = l->attrs;
        const sw_ce_rule rule = {a->smoothing, a->has_ignore != 0, a->ignore};
        const int64_t n = ce_rows(l);
        const float factor = n > 0 ? swi_in(l, 3)[0] / (float)n : 0.0f;
        sw_point(l->isa)->smooth_ce_dx(swi_out(l, 0), swi_in(l, 0), swi_in(l, 2),
                                       bytes ? NULL : l->in[1].ptr, bytes ? l->in[1].ptr : NULL,
                                       rows, cols, &rule, factor, swi_adds(l, 0), l->par);
        return SW_OK;
    }
    sw_point(l->isa)->softmax_ce_dx(swi_out(l, 0), swi_in(l, 0), swi_in(l, 2),
                                    bytes ? NULL : l->in[1].ptr, bytes ? l->in[1].ptr : NULL,
                                    rows, cols, swi_in(l, 3)[0] / (float)rows, swi_adds(l, 0),
                                    l->par);
    return SW_OK;
}

/* Maximum, difference, exponential and sum of each element; the logarithm of each row, added to
 * its maximum, less the label's logit, summed; the mean. With smoothing the sum of the logits,
 * two factors and a difference; with a label that is ignored a comparison for each row. */
static uint64_t ce_operations(const sw_kernel_info *info)
{
    const swi_ce_attrs *a = info->attrs;
    const uint64_t smooth = is_smooth(a), ignores = a->has_ignore != 0;
    return swi_count_add(
        swi_count_each(&info->in[0], SWI_EXP + 3 + smooth),
        swi_count_add(swi_count_each(&info->in[1], SWI_LOG + 3 + 3 * smooth + ignores), 1));
}

/* (exp(x - lse) - [label]) * factor; by a rule, less what each class has, masked. */
static uint64_t ce_dx_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->out[0], SWI_EXP + 4 + (has_rule(info->attrs) ? 2 : 0));
}

static sw_status ce_reference(const sw_reference *r)
{
    const int64_t rows = r->in_type[0].shape.dim[0], cols = r->in_type[0].shape.dim[1];
    const swi_ce_attrs *a = r->attrs;
    const double s = (double)a->smoothing;
    double total = 0, n = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double *x = r->in[0] + i * cols;
        double all = 0;
        if (is_ignored(a, (int64_t)r->in[1][i]))
            continue;
        double most = x[0], sum = 0;
        for (int64_t c = 1; c < cols; c++)
            most = x[c] > most ? x[c] : most;
        for (int64_t c = 0; c < cols; c++)
            sum += exp(x[c] - most);
        for (int64_t c = 0; c < cols; c++)
            all += x[c];
        total += most + log(sum) - (1.0 - s) * x[(int64_t)r->in[1][i]] - s * all / (double)cols;
        n += 1.0;
    }
    r->out[0][0] = n > 0.0 ? total / n : 0.0;
    return SW_OK;
}

static const sw_grad_desc ce_grads[] = {
    {.n_makes = 1,
     .makes = {0},
     .n_operands = 4,
     .operands = {SW_IN(0), SW_IN(1), SW_OUT(1), SW_DOUT(0)},
     .inplace = 1,
     .kernel = ce_dx,
     .operations = ce_dx_operations}};
static const swi_ce_attrs ce_attrs[] = {
    {0.0f, 0, 0}, {0.1f, 0, 0}, {0.0f, 1, 2}, {0.25f, 1, 2}};
static const sw_op_case ce_cases[] = {
    {.name = "smooth",
     .n_in = 2,
     .in = {SWI_F32(5, 10), SWI_U8(5)},
     .fill = {SW_FILL_NORMAL, SW_FILL_LABELS},
     .limit = 10,
     .attrs = &ce_attrs[1]},
    {.name = "a label is ignored",
     .n_in = 2,
     .in = {SWI_F32(9, 3), SWI_I32(9)},
     .fill = {SW_FILL_NORMAL, SW_FILL_LABELS},
     .limit = 3,
     .attrs = &ce_attrs[2]},
    {.name = "smooth, a label is ignored",
     .n_in = 2,
     .in = {SWI_F32(50, 700), SWI_I32(50)},
     .fill = {SW_FILL_NORMAL, SW_FILL_LABELS},
     .limit = 5,
     .attrs = &ce_attrs[3]},
    {.name = "bytes",
     .n_in = 2,
     .in = {SWI_F32(5, 10), SWI_U8(5)},
     .fill = {SW_FILL_NORMAL, SW_FILL_LABELS},
     .limit = 10,
     .attrs = &ce_attrs[0]},
    {.name = "integers, many classes",
     .n_in = 2,
     .in = {SWI_F32(3, 300), SWI_I32(3)},
     .fill = {SW_FILL_NORMAL, SW_FILL_LABELS},
     .limit = 300,
     .attrs = &ce_attrs[0]},
};

const sw_op_desc sw_op_softmax_ce = {.size = sizeof(sw_op_desc),
                                     .name = "softmax_ce",
                                     .n_in = 2,
                                     .n_out = 1,
                                     .n_extra = 1,
                                     .attrs_bytes = sizeof(swi_ce_attrs),
                                     .infer = ce_infer,
                                     .scratch_bytes = ce_bytes,
                                     .forward = ce_forward,
                                     .grads = ce_grads,
                                     .n_grads = 1,
                                     .reference = ce_reference,
                                     .cases = ce_cases,
                                     .n_cases = SWI_COUNT(ce_cases),
                                     .operations = ce_operations,
                                     .phase = SW_LOSS,
                                     .has_phase = 1};

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

/* ---- accuracy ---------------------------------------------------------------------------- */

static sw_status accuracy_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = scalar;
    return labels_infer("accuracy", in);
}

static sw_status accuracy_forward(const sw_launch *l)
{
    const int64_t rows = l->in[0].type.shape.dim[0], cols = l->in[0].type.shape.dim[1];
    const float *x = swi_in(l, 0);
    int64_t hits = 0;
    SW_TRY(check_labels("accuracy", &l->in[1], NULL, rows, cols));
    for (int64_t r = 0; r < rows; r++) {
        int64_t best = 0;
        for (int64_t c = 1; c < cols; c++)
            best = x[r * cols + c] > x[r * cols + best] ? c : best;
        hits += best == label_at(&l->in[1], r);
    }
    swi_out(l, 0)[0] = (float)((double)hits / (double)rows);
    return SW_OK;
}

/* A comparison of each element, the last one with the label; the share. */
static uint64_t accuracy_operations(const sw_kernel_info *info)
{
    return swi_count_add(swi_count_each(&info->in[0], 1), 1);
}

static sw_status accuracy_reference(const sw_reference *r)
{
    const int64_t rows = r->in_type[0].shape.dim[0], cols = r->in_type[0].shape.dim[1];
    double hits = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t best = 0;
        for (int64_t c = 1; c < cols; c++)
            best = r->in[0][i * cols + c] > r->in[0][i * cols + best] ? c : best;
        hits += best == (int64_t)r->in[1][i] ? 1.0 : 0.0;
    }
    r->out[0][0] = hits / (double)rows;
    return SW_OK;
}

static const sw_op_case accuracy_cases[] = {
    {.name = "few classes",
     .n_in = 2,
     .in = {SWI_F32(40, 3), SWI_U8(40)},
     .fill = {SW_FILL_DISTINCT, SW_FILL_LABELS},
     .limit = 3},
};

const sw_op_desc sw_op_accuracy = {.size = sizeof(sw_op_desc),
                                   .name = "accuracy",
                                   .n_in = 2,
                                   .n_out = 1,
                                   .infer = accuracy_infer,
                                   .forward = accuracy_forward,
                                   .no_gradient = 1,
                                   .reference = accuracy_reference,
                                   .cases = accuracy_cases,
                                   .n_cases = SWI_COUNT(accuracy_cases),
                                   .operations = accuracy_operations,
                                   .phase = SW_LOSS,
                                   .has_phase = 1};

sw_value sw_accuracy(sw_ctx *ctx, sw_value logits, sw_value labels)
{
    const sw_value in[] = {logits, labels};
    return sw_op_apply(ctx, SW_OP_accuracy, in, 2, NULL);
}

/* ---- mean squared error ------------------------------------------------------------------ */

sw_status swi_infer_pair(const char *op, const sw_type *in, int n_in, sw_type *out)
{
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32(op, in, n_in));
    for (int i = 0; i < n_in; i++)
        if (!swi_same_shape(&in[0].shape, &in[i].shape) || sw_type_elements(&in[0]) < 1)
            SW_FAIL(SW_INVALID, "%s: shapes %s and %s: equal ones, not empty, are wanted", op,
                    swi_shape_text(&in[0].shape, s), swi_shape_text(&in[i].shape, t));
    out[0] = scalar;
    return SW_OK;
}

static sw_status mse_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    return swi_infer_pair("mse", in, n_in, out);
}

static sw_status mse_forward(const sw_launch *l)
{
    const float *x = swi_in(l, 0), *t = swi_in(l, 1);
    const int64_t n = swi_elements(&l->in[0].type.shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)(x[i] - t[i]);
        sum += d * d;
    }
    swi_out(l, 0)[0] = (float)(sum / (double)n);
    return SW_OK;
}

/* in: x, target, dy. dx = 2 (x - t) dy / n; the target's is its negative. */
static sw_status mse_grad(const sw_launch *l, bool of_target)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    const float factor = (float)(2.0 * (double)swi_in(l, 2)[0] / (double)n);
    sw_point(l->isa)->difference(swi_out(l, 0), swi_in(l, of_target), swi_in(l, !of_target), n,
                                 factor, swi_adds(l, 0), l->par);
    return SW_OK;
}

static sw_status mse_dx(const sw_launch *l)
{
    return mse_grad(l, false);
}

static sw_status mse_dt(const sw_launch *l)
{
    return mse_grad(l, true);
}

static uint64_t mse_operations(const sw_kernel_info *info)
{
    return swi_count_add(swi_count_each(&info->in[0], 3), 1);
}

static uint64_t difference_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->out[0], 2);
}

static sw_status mse_reference(const sw_reference *r)
{
    const int64_t n = swi_elements(&r->in_type[0].shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (r->in[0][i] - r->in[1][i]) * (r->in[0][i] - r->in[1][i]);
    r->out[0][0] = sum / (double)n;
    return SW_OK;
}

#define PAIR                                                                                   \
    {                                                                                          \
        SW_IN(0), SW_IN(1), SW_DOUT(0)                                                         \
    }
static const sw_grad_desc mse_grads[] = {{.n_makes = 1,
                                          .makes = {0},
                                          .n_operands = 3,
                                          .operands = PAIR,
                                          .inplace = 3,
                                          .kernel = mse_dx,
                                          .operations = difference_operations},
                                         {.n_makes = 1,
                                          .makes = {1},
                                          .n_operands = 3,
                                          .operands = PAIR,
                                          .inplace = 3,
                                          .kernel = mse_dt,
                                          .operations = difference_operations}};
static const sw_op_case mse_cases[] = {
    {.name = "matrix", .n_in = 2, .in = {SWI_F32(6, 5), SWI_F32(6, 5)}}};

const sw_op_desc sw_op_mse = {.size = sizeof(sw_op_desc),
                              .name = "mse",
                              .n_in = 2,
                              .n_out = 1,
                              .infer = mse_infer,
                              .forward = mse_forward,
                              .grads = mse_grads,
                              .n_grads = SWI_COUNT(mse_grads),
                              .reference = mse_reference,
                              .cases = mse_cases,
                              .n_cases = SWI_COUNT(mse_cases),
                              .operations = mse_operations,
                              .phase = SW_LOSS,
                              .has_phase = 1};

sw_value sw_mse(sw_ctx *ctx, sw_value x, sw_value target)
{
    const sw_value in[] = {x, target};
    return sw_op_apply(ctx, SW_OP_mse, in, 2, NULL);
}

/* ---- binary cross-entropy with logits ---------------------------------------------------- */

static sw_status bce_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const float t = ((const swi_number_attrs *)attrs)->value;
    if (!(t >= 0.0f && t <= 1.0f))
        SW_FAIL(SW_INVALID, "bce: target %g, 0 to 1 is wanted", (double)t);
    return swi_infer_pair("bce", in, n_in, out);
}

static sw_status bce_forward(const sw_launch *l)
{
    swi_out(l, 0)[0] = (float)sw_point(l->isa)->bce(swi_in(l, 0), NULL,
                                                    ((const swi_number_attrs *)l->attrs)->value,
                                                    swi_elements(&l->in[0].type.shape));
    return SW_OK;
}

/* in: x, dy */
static sw_status bce_dx(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_point(l->isa)->bce_dx(
        swi_out(l, 0), swi_in(l, 0), NULL, ((const swi_number_attrs *)l->attrs)->value, n,
        (float)((double)swi_in(l, 1)[0] / (double)n), swi_adds(l, 0), l->par);
    return SW_OK;
}

/* -|x|, its exponential e and log(1 + e); max(x, 0), x t, two sums of these, and one more into
 * the mean. */
static uint64_t bce_operations(const sw_kernel_info *info)
{
    return swi_count_add(swi_count_each(&info->in[0], 2 + SWI_EXP + SWI_LOG1P + 5), 1);
}

/* (sigmoid(x) - t) * factor */
static uint64_t bce_dx_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->out[0], SWI_SIGMOID + 2);
}

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

static const sw_grad_desc bce_grads[] = {{.n_makes = 1,
                                          .makes = {0},
                                          .n_operands = 2,
                                          .operands = {SW_IN(0), SW_DOUT(0)},
                                          .inplace = 1,
                                          .kernel = bce_dx,
                                          .operations = bce_dx_operations}};
static const swi_number_attrs bce_attrs[] = {{1.0f}, {0.3f}};
static const sw_op_case bce_cases[] = {
    {.name = "ones", .n_in = 1, .in = {SWI_F32(7, 1)}, .attrs = &bce_attrs[0]},
    {.name = "soft", .n_in = 1, .in = {SWI_F32(3, 11)}, .attrs = &bce_attrs[1]}};

const sw_op_desc sw_op_bce = {.size = sizeof(sw_op_desc),
                              .name = "bce",
                              .n_in = 1,
                              .n_out = 1,
                              .attrs_bytes = sizeof(swi_number_attrs),
                              .infer = bce_infer,
                              .forward = bce_forward,
                              .grads = bce_grads,
                              .n_grads = 1,
                              .reference = bce_reference,
                              .cases = bce_cases,
                              .n_cases = SWI_COUNT(bce_cases),
                              .operations = bce_operations,
                              .phase = SW_LOSS,
                              .has_phase = 1};

sw_value sw_bce(sw_ctx *ctx, sw_value logits, float target)
{
    const swi_number_attrs a = {target};
    return sw_op_apply(ctx, SW_OP_bce, &logits, 1, &a);
}

static sw_status bce_with_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    return swi_infer_pair("bce_with", in, n_in, out);
}

static sw_status bce_with_forward(const sw_launch *l)
{
    swi_out(l, 0)[0] = (float)sw_point(l->isa)->bce(swi_in(l, 0), swi_in(l, 1), 0.0f,
                                                    swi_elements(&l->in[0].type.shape));
    return SW_OK;
}

/* in: x, target, dy */
static sw_status bce_with_dx(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_point(l->isa)->bce_dx(swi_out(l, 0), swi_in(l, 0), swi_in(l, 1), 0.0f, n,
                             (float)((double)swi_in(l, 2)[0] / (double)n), swi_adds(l, 0),
                             l->par);
    return SW_OK;
}

/* The target's: -x dy / n. in: x, dy */
static sw_status bce_with_dt(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_point(l->isa)->scale(swi_out(l, 0), swi_in(l, 0), n,
                            (float)(-(double)swi_in(l, 1)[0] / (double)n), swi_adds(l, 0),
                            l->par);
    return SW_OK;
}

static sw_status bce_with_reference(const sw_reference *r)
{
    const int64_t n = swi_elements(&r->in_type[0].shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += bce_double(r->in[0][i], r->in[1][i]);
    r->out[0][0] = sum / (double)n;
    return SW_OK;
}

static const sw_grad_desc bce_with_grads[] = {{.n_makes = 1,
                                               .makes = {0},
                                               .n_operands = 3,
                                               .operands = PAIR,
                                               .inplace = 3,
                                               .kernel = bce_with_dx,
                                               .operations = bce_dx_operations},
                                              {.n_makes = 1,
                                               .makes = {1},
                                               .n_operands = 2,
                                               .operands = {SW_IN(0), SW_DOUT(0)},
                                               .inplace = 1,
                                               .kernel = bce_with_dt}};
static const sw_op_case bce_with_cases[] = {{.name = "matrix",
                                             .n_in = 2,
                                             .in = {SWI_F32(4, 9), SWI_F32(4, 9)},
                                             .fill = {SW_FILL_NORMAL, SW_FILL_UNIT}}};

const sw_op_desc sw_op_bce_with = {.size = sizeof(sw_op_desc),
                                   .name = "bce_with",
                                   .n_in = 2,
                                   .n_out = 1,
                                   .infer = bce_with_infer,
                                   .forward = bce_with_forward,
                                   .grads = bce_with_grads,
                                   .n_grads = SWI_COUNT(bce_with_grads),
                                   .reference = bce_with_reference,
                                   .cases = bce_with_cases,
                                   .n_cases = SWI_COUNT(bce_with_cases),
                                   .operations = bce_operations,
                                   .phase = SW_LOSS,
                                   .has_phase = 1};

sw_value sw_bce_with(sw_ctx *ctx, sw_value logits, sw_value targets)
{
    const sw_value in[] = {logits, targets};
    return sw_op_apply(ctx, SW_OP_bce_with, in, 2, NULL);
}
