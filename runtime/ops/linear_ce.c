/* Softmax cross-entropy of x W^T + b: x (rows, width), w (classes, width), labels (rows), b
 * (classes) optional.
 *
 * Goes over chunks of rows: their logits, their losses, and where gradients are needed the
 * logits' gradient in its place, then dx of the chunk and its share of dw and db. So logits of
 * one chunk exist at a time, and nothing of an input is kept: backward scales the gradients
 * that forward has made by what flows in, in their place. Losses, and sums over rows, continue
 * from chunk to chunk row after row: no chunk shows in the bits. */
#include "alloc/base/size.h"
#include "kernels/dispatch.h"
#include "runtime/ops/ce.h"
#include "runtime/ops/noise.h"

enum { X, W, LABELS, BIAS };
enum { LOSS, DX, DW, DB };

/* Sums of bf16 for dw go in steps of 32 rows, which no chunk may cut. */
static int64_t chunk_rows(const swi_linear_ce_attrs *a, int64_t rows, bool half)
{
    const int64_t asked = half ? (a->rows + 31) / 32 * 32 : a->rows;
    return asked > 0 && asked < rows ? asked : rows;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_linear_ce_attrs *a = attrs;
    const sw_shape *x = &in[X].shape, *w = &in[W].shape;
    const sw_type none = {SW_F32, SW_PLAIN, {1, {0}}};
    SW_TRY(swi_want_f32_or_stored("linear_ce", in, 2, W));
    if (n_in > BIAS)
        SW_TRY(swi_want_f32("linear_ce", in + BIAS, 1));
    if (x->rank != 2 || w->rank != 2 || x->dim[1] != w->dim[1])
        SW_FAIL(SW_INVALID,
                "linear_ce: input and weight must be (rows, width) and (classes, width) (got "
                "%s and %s)",
                SWI_SHAPE(x), SWI_SHAPE(w));
    if (n_in > BIAS && (in[BIAS].shape.rank != 1 || in[BIAS].shape.dim[0] != w->dim[0]))
        SW_FAIL(SW_INVALID, "linear_ce: the bias must be (classes) (got %s for the weight %s)",
                SWI_SHAPE(&in[BIAS].shape), SWI_SHAPE(w));
    const sw_shape logits = {2, {x->dim[0], w->dim[0]}};
    SW_TRY(swi_labels_infer("linear_ce", &logits, &in[LABELS]));
    SW_TRY(swi_ce_attrs_infer("linear_ce", &a->ce));
    if (a->rows < 0)
        SW_FAIL(SW_INVALID, "linear_ce: the rows at a time must be at least 0 (got %lld)",
                (long long)a->rows);
    out[LOSS] = (sw_type){SW_F32, SW_PLAIN, {0, {0}}};
    out[DX] = in[X];
    out[DW] = (sw_type){SW_F32, SW_PLAIN, *w};
    out[DB] = n_in > BIAS ? in[BIAS] : none;
    return SW_OK;
}

/* ---- forward ----------------------------------------------------------------------------- */

/* Bytes that a product of `rows` rows needs: not every run makes all three. */
static size_t product_bytes(sw_isa isa, int64_t rows, int64_t width, int64_t classes, bool half)
{
    const sw_dense_kernels *d = sw_dense(isa);
    return sw_size_round(
        sw_size_larger(d->gemm_bytes(rows, classes, width, half),
                       sw_size_larger(d->gemm_bytes(rows, width, classes, half),
                                      d->gemm_bytes(classes, width, rows, half))));
}

/* Numbers of which a chunk has one for each row. */
/* The products' scratch, the logits of a chunk's labels, its logarithms and sums, and all its
 * logits. */
static size_t forward_bytes(const sw_kernel_info *info)
{
    const swi_linear_ce_attrs *a = info->attrs;
    const int64_t width = info->in[X].shape.dim[1], classes = info->in[W].shape.dim[0];
    const bool half = swi_others_half(info, W);
    const int64_t rows = chunk_rows(a, info->in[X].shape.dim[0], half);
    return product_bytes(info->isa, rows, width, classes, half) + swi_float_bytes(rows) +
           sw_size_round(swi_ce_bytes(&a->ce, rows)) +
           (size_t)(rows * classes) * sw_dtype_bytes(SW_F32);
}

typedef struct {
    const sw_launch *l;
    int64_t width, classes;
    float factor; /* of the gradients: 1 by the rows that count */
    float *logits, *lse, *at_label;
    double *sums;
    void *product;
} pass;

/* Where row `first` of x or dx begins. */
static float *row_at(const sw_buffer *b, int64_t first)
{
    return (float *)(void *)((char *)b->ptr + first * b->type.shape.dim[1] *
                                                  (int64_t)sw_dtype_bytes(b->type.dtype));
}

/* Rows of x from `first` on by the weight. */
static void logits_of(const sw_launch *l, float *logits, int64_t first, int64_t rows,
                      const float *bias, void *scratch)
{
    const int64_t *w = l->in[W].type.shape.dim;
    sw_stored stored;
    const sw_gemm g =
        SW_INIT(.c = logits, .a = row_at(&l->in[X], first), .a_row = w[1], .a_col = 1,
                .b = swi_in(l, W), .b_row = 1, .b_col = w[1], .bias = bias, .m = rows,
                .n = w[0], .k = w[1], .order = swi_sum_order(l, W),
                .a_half = swi_is_half(&l->in[X]), .b_half = swi_is_half(&l->in[W]),
                .stored = swi_stored_of(&l->in[W], &stored));
    sw_dense(l->isa)->gemm(&g, scratch, l->par);
}

static void add_dw(const pass *p, float *dw, int64_t first, int64_t rows)
{
    const sw_gemm g =
        SW_INIT(.c = dw, .a = p->logits, .a_row = 1, .a_col = p->classes,
                .b = row_at(&p->l->in[X], first), .b_row = p->width, .b_col = 1,
                .m = p->classes, .n = p->width, .k = rows, .accumulate = first > 0,
                .order = swi_sum_order(p->l, W), .b_half = swi_is_half(&p->l->in[X]));
    sw_dense(p->l->isa)->gemm(&g, p->product, p->l->par);
}

static sw_status forward(const sw_launch *l)
{
    const swi_linear_ce_attrs *a = l->attrs;
    const int64_t all = l->in[X].type.shape.dim[0],
                  most = chunk_rows(a, all, swi_is_half(&l->in[X]));
    pass p = {
        .l = l, .width = l->in[X].type.shape.dim[1], .classes = l->in[W].type.shape.dim[0]};
    SW_TRY(swi_check_labels("linear_ce", &l->in[LABELS], &a->ce, all, p.classes));
    const int64_t n = swi_ce_counted(&l->in[LABELS], &a->ce, all);
    unsigned char *scratch = l->scratch;
    p.product = scratch;
    scratch += product_bytes(l->isa, most, p.width, p.classes, swi_is_half(&l->in[X]));
    p.at_label = (float *)(void *)scratch;
    scratch += swi_float_bytes(most);
    p.lse = swi_ce_scratch(&a->ce, most, scratch, &p.sums);
    p.logits = (float *)(void *)(scratch + sw_size_round(swi_ce_bytes(&a->ce, most)));
    p.factor = n > 0 ? 1.0f / (float)n : 0.0f;
    const bool wanted = l->n_out > DB && (swi_out(l, DX) != NULL || swi_out(l, DW) != NULL ||
                                          swi_out(l, DB) != NULL);
    double sum = 0.0;
    for (int64_t first = 0; first < all; first += most) {
        const int64_t rows = all - first < most ? all - first : most;
        const swi_ce c =
            SW_INIT(.logits = p.logits, .labels = &l->in[LABELS], .first = first, .rows = rows,
                    .cols = p.classes, .attrs = &a->ce, .isa = l->isa, .par = l->par);
        logits_of(l, p.logits, first, rows, l->n_in > BIAS ? swi_in(l, BIAS) : NULL, p.product);
        if (!wanted) {
            sum = swi_ce_add(&c, sum, p.lse, p.sums);
            continue;
        }
        sum = swi_ce_both(&c, sum, p.logits, p.lse, p.at_label, p.sums, p.factor);
        /* Those that somebody reads; without a bias db has no elements. */
        float *dx = swi_out(p.l, DX), *dw = swi_out(p.l, DW), *db = swi_out(p.l, DB);
        if (dx != NULL) {
            /* From the logits' gradient, which stands in their place. */
            sw_stored stored;
            const sw_gemm g =
                SW_INIT(.c = row_at(&l->out[DX], first), .a = p.logits, .a_row = p.classes,
                        .a_col = 1, .b = swi_in(p.l, W), .b_row = p.width, .b_col = 1,
                        .m = rows, .n = p.width, .k = p.classes, .order = swi_sum_order(l, W),
                        .b_half = swi_is_half(&l->in[W]),
                        .stored = swi_stored_of(&l->in[W], &stored),
                        .c_half = swi_is_half(&l->out[DX]));
            sw_dense(p.l->isa)->gemm(&g, p.product, p.l->par);
        }
        if (dw != NULL)
            add_dw(&p, dw, first, rows);
        if (db != NULL && p.l->n_in > BIAS)
            sw_dense(p.l->isa)->column_sums(db, p.logits, rows, p.classes, p.classes, first > 0,
                                            p.l->par);
    }
    swi_out(l, LOSS)[0] = n > 0 ? (float)(sum / (double)n) : 0.0f;
    return SW_OK;
}

/* The logits and their loss; as in training, the gradient of the logits, and of the operands
 * from it. */
static uint64_t operations(const sw_kernel_info *info)
{
    const swi_linear_ce_attrs *a = info->attrs;
    const int64_t rows = info->in[X].shape.dim[0], classes = info->in[W].shape.dim[0];
    const sw_type logits = {SW_F32, SW_PLAIN, {2, {rows, classes}}};
    const bool bias = info->n_in > BIAS;
    const uint64_t products = swi_count_mul(6, (uint64_t)info->in[X].shape.dim[1]);
    return swi_count_add(
        swi_ce_operations(&a->ce, &logits, &info->in[LABELS]),
        swi_count_per_element(
            &logits, swi_count_add(products, swi_ce_dx_per_element(&a->ce) + (bias ? 2 : 0))));
}

static sw_status scale(const sw_launch *l)
{
    const float factor = swi_in(l, 1)[0];
    sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 0),
                                swi_elements(&l->out[0].type.shape), factor, swi_adds(l, 0),
                                l->par);
    return SW_OK;
}

#define SCALED(input, extra)                                                                   \
    GRAD(MAKES(input), FROM(SW_OUT(extra), SW_DOUT(0)), scale, NULL, .inplace = 1)
static const sw_grad_desc grads[] = {SCALED(X, DX), SCALED(W, DW), SCALED(BIAS, DB)};

static sw_status reference(const sw_reference *r)
{
    const swi_linear_ce_attrs *a = r->attrs;
    const int64_t rows = r->in_type[X].shape.dim[0], width = r->in_type[X].shape.dim[1];
    const int64_t classes = r->in_type[W].shape.dim[0];
    double logits[1024], total = 0.0, n = 0.0;
    if (classes > 1024)
        SW_FAIL(SW_INVALID, "linear_ce: the check has at most 1024 classes");
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t c = 0; c < classes; c++) {
            logits[c] = r->n_in > BIAS ? r->in[BIAS][c] : 0.0;
            for (int64_t k = 0; k < width; k++)
                logits[c] += r->in[X][i * width + k] * r->in[W][c * width + k];
        }
        total += swi_ce_reference(&a->ce, logits, r->in[LABELS] + i, 1, classes, &n);
    }
    r->out[LOSS][0] = n > 0.0 ? total / n : 0.0;
    return SW_OK;
}

/* ---- descriptor -------------------------------------------------------------------------- */

static const swi_linear_ce_attrs rules[] = {{0, {0.0f, 0, 0}, 0},
                                            {2, {0.0f, 0, 0}, 0},
                                            {5, {0.1f, 1, 2}, 0},
                                            {7, {0.0f, 1, 1}, 0},
                                            {100, {0.3f, 0, 0}, 0}};
#define FILLS .fill = {SW_FILL_NORMAL, SW_FILL_NORMAL, SW_FILL_LABELS, SW_FILL_NORMAL}
static const sw_op_case cases[] = {
    CASE("all at once", IN(F32(5, 7), F32(9, 7), U8(5), F32(9)), FILLS, .limit = 9,
         AT(rules[0])),
    CASE("chunks, the last not full", IN(F32(33, 20), F32(70, 20), I32(33)), FILLS, .limit = 70,
         AT(rules[1])),
    CASE("smooth, a label is ignored", IN(F32(21, 3), F32(5, 3), I32(21), F32(5)), FILLS,
         .limit = 5, AT(rules[2])),
    CASE("a label is ignored", IN(F32(15, 9), F32(300, 9), I32(15)), FILLS, .limit = 3,
         AT(rules[3])),
    CASE("one row, smooth", IN(F32(1, 4), F32(2, 4), U8(1), F32(2)), FILLS, .limit = 2,
         AT(rules[4])),
};

OP(linear_ce, 3, 4, 1, ATTRS(swi_linear_ce_attrs), .n_extra = 3, .infer = infer,
   .scratch_bytes = forward_bytes, .forward = forward, .operations = operations,
   .phase = SW_LOSS, .has_phase = 1, GRADS(grads), CHECKS(reference, cases));

static sw_value apply(sw_ctx *ctx, const sw_value *given, const swi_ce_attrs *ce)
{
    return sw_op_apply(ctx, SW_OP_linear_ce,
                       (sw_value[]){given[0], given[1], given[3], given[2]},
                       given[2].id != 0 ? 4 : 3, &(swi_linear_ce_attrs){0, *ce, 0});
}

sw_value sw_linear_ce(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, sw_value labels)
{
    return apply(ctx, (sw_value[]){x, weight, bias, labels}, &(swi_ce_attrs){0.0f, 0, 0});
}

sw_value sw_linear_ce_with(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                           sw_value labels, float smoothing, int32_t ignore)
{
    return apply(ctx, (sw_value[]){x, weight, bias, labels},
                 &(swi_ce_attrs){smoothing, 1, ignore});
}

/* ==== noise linear ce ===================================================================== */

/* linear_ce with noise on weight and bias: the loss of each evaluation (evaluations), in {x
 * (rows, width), w (classes, width), labels (rows), sigma, [bias], [sigmas of the weight], [of
 * the bias]}.
 *
 * Goes over chunks of rows, as linear_ce does: whole evaluations of one repeat, or a part of
 * one. No chunk shows in the bits: a loss adds up row after row, in float64. */

enum { SIGMA = BIAS, MORE };

static sw_status noise_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_ce_attrs *a = attrs;
    const sw_shape *x = &in[X].shape, *w = &in[W].shape;
    SW_TRY(swi_want_f32_or_stored("noise_linear_ce", in, 2, W));
    if (x->rank != 2 || w->rank != 2 || x->dim[1] != w->dim[1] || n_in < MORE + a->has_bias)
        SW_FAIL(SW_INVALID,
                "noise_linear_ce: input and weight must be (rows, width) and (classes, width) "
                "(got %s and %s)",
                SWI_SHAPE(x), SWI_SHAPE(w));
    if (a->has_bias && swi_elements(&in[MORE].shape) != w->dim[0])
        SW_FAIL(SW_INVALID, "noise_linear_ce: the bias must have %lld numbers (got %lld)",
                (long long)w->dim[0], (long long)swi_elements(&in[MORE].shape));
    const sw_noise_spec *noise = &a->noise.weight, *shift = &a->noise.bias;
    if ((noise->rows != 0 && (noise->rows != w->dim[0] || noise->cols != w->dim[1])) ||
        (shift->rows != 0 && shift->cols != w->dim[0]))
        SW_FAIL(SW_INVALID,
                "noise_linear_ce: noise must be that of a weight %s (got %lld x %lld)",
                SWI_SHAPE(w), (long long)noise->rows, (long long)noise->cols);
    const sw_shape logits = {2, {x->dim[0], w->dim[0]}};
    SW_TRY(swi_labels_infer("noise_linear_ce", &logits, &in[LABELS]));
    SW_TRY(swi_ce_attrs_infer("noise_linear_ce", &a->ce));
    SW_TRY(swi_noise_infer("noise_linear_ce", &a->noise, x->dim[0], &in[SIGMA]));
    out[0] = (sw_type){SW_F32, SW_PLAIN, {1, {a->noise.repeats * a->noise.directions}}};
    return SW_OK;
}

/* ---- chunks * ---------------------------------------------------------------------------- */

/* Rows of whole evaluations in a chunk, or of a part of one. */
static int64_t noise_chunk_rows(const swi_noise_ce_attrs *a, int64_t rows)
{
    const int64_t each = swi_noise_rows_each(&a->noise, rows);
    const int64_t most = each * a->noise.directions;
    if (a->rows <= 0 || a->rows >= most)
        return most;
    return a->rows >= each ? a->rows / each * each : a->rows;
}

/* The noise of a chunk is that of a batch of its own: one repeat of some directions. */
static swi_noise_attrs chunk_attrs(const swi_noise_ce_attrs *a, int64_t rows, int64_t each)
{
    swi_noise_attrs part = a->noise;
    part.repeats = 1;
    part.antithetic = 0;
    part.directions = rows >= each ? rows / each : 1;
    return part;
}

/* Scratch of the noise of a chunk. */
static size_t noise_bytes(const sw_kernel_info *info, int64_t rows)
{
    const swi_noise_ce_attrs *a = info->attrs;
    if (!swi_has_noise(&a->noise) || swi_noise_drops(&a->noise) ||
        sw_op_noise_linear.scratch_bytes == NULL)
        return 0;
    const int64_t each = swi_noise_rows_each(&a->noise, info->in[X].shape.dim[0]);
    const swi_noise_attrs part = chunk_attrs(a, rows, each);
    sw_type in[4], out = info->in[X];
    int n = 0;
    in[n] = info->in[X];
    in[n++].shape.dim[0] = rows;
    in[n++] = info->in[SIGMA];
    for (int i = MORE + a->has_bias; i < info->n_in; i++)
        in[n++] = info->in[i];
    out.shape.dim[0] = rows;
    out.shape.dim[1] = info->in[W].shape.dim[0];
    sw_kernel_info asked = *info;
    asked.in = in;
    asked.out = &out;
    asked.n_in = n;
    asked.n_out = 1;
    asked.attrs = &part;
    asked.accumulate = 1;
    return sw_size_round(sw_op_noise_linear.scratch_bytes(&asked));
}

/* The noise's need; the losses' scratch; the logits. */
static size_t noise_forward_bytes(const sw_kernel_info *info)
{
    const swi_noise_ce_attrs *a = info->attrs;
    const int64_t classes = info->in[W].shape.dim[0];
    const int64_t rows = noise_chunk_rows(a, info->in[X].shape.dim[0]);
    return noise_bytes(info, rows) + sw_size_round(swi_ce_bytes(&a->ce, rows)) +
           (size_t)(rows * classes) * sw_dtype_bytes(SW_F32);
}

/* ---- running * --------------------------------------------------------------------------- */

typedef struct {
    const sw_launch *l;
    int64_t width, classes, each;
    size_t noise_bytes; /* of scratch */
    float *logits, *lse;
    double *sums, loss; /* of the evaluation so far */
} noise_pass;

typedef struct {
    const noise_pass *p;
    int64_t first;
} drop_job;

/* One row: y (1 + s sigma E / W) + b. */
static void drop_row(void *arg, int part)
{
    const drop_job *j = arg;
    const sw_launch *l = j->p->l;
    const swi_noise_ce_attrs *a = l->attrs;
    const float *bias = a->has_bias ? swi_in(l, MORE) : NULL;
    const int64_t evaluation = (j->first + part) / j->p->each;
    const sw_noise_at at = {l->seed, l->step,
                            l->run + (uint32_t)(evaluation % a->noise.directions)};
    const float scale = sw_noise_sign(&a->noise, evaluation) * *swi_in(l, SIGMA);
    float *y = j->p->logits + part * j->p->classes;
    sw_noise_direction d;
    sw_noise_prepare(&d, &a->noise.weight, &at, *swi_in(l, SIGMA));
    for (int64_t o = 0; o < j->p->classes; o++)
        y[o] = fmaf(y[o], 1.0f + scale * sw_noise_dropped(&a->noise.weight, &d, o),
                    bias != NULL ? bias[o] : 0.0f);
}

static sw_status add_noise(const noise_pass *p, int64_t first, int64_t rows)
{
    const sw_launch *l = p->l;
    const swi_noise_ce_attrs *a = l->attrs;
    const int64_t evaluation = first / p->each;
    const swi_noise_attrs part = chunk_attrs(a, rows, p->each);
    float sigma = sw_noise_sign(&a->noise, evaluation) * *swi_in(l, SIGMA);
    sw_buffer in[4], out = {.ptr = p->logits, .type = l->in[X].type};
    int n = 0;
    if (!swi_has_noise(&a->noise))
        return SW_OK;
    if (swi_noise_drops(&a->noise)) {
        drop_job j = {p, first};
        l->par->run(l->par, drop_row, &j, (int)rows);
        return SW_OK;
    }
    in[n] = l->in[X];
    in[n].ptr = (float *)l->in[X].ptr + first * p->width;
    in[n++].type.shape.dim[0] = rows;
    in[n] = l->in[SIGMA];
    in[n++].ptr = &sigma;
    for (int i = MORE + a->has_bias; i < l->n_in; i++)
        in[n++] = l->in[i];
    out.type.shape.dim[0] = rows;
    out.type.shape.dim[1] = p->classes;
    sw_launch noise = *l;
    noise.in = in;
    noise.n_in = n;
    noise.out = &out;
    noise.n_out = 1;
    noise.scratch_bytes = p->noise_bytes;
    noise.attrs = &part;
    noise.accumulate = 1;
    noise.run = l->run + (uint32_t)(evaluation % a->noise.directions);
    return sw_op_noise_linear.forward(&noise);
}

/* The losses of a chunk, evaluation by evaluation; one may begin and end in other chunks. */
static void add_losses(noise_pass *p, int64_t first, int64_t rows)
{
    const sw_launch *l = p->l;
    const swi_noise_ce_attrs *a = l->attrs;
    for (int64_t done = 0; done < rows;) {
        const int64_t row = first + done, evaluation = row / p->each;
        const int64_t left = (evaluation + 1) * p->each - row;
        const int64_t n = left < rows - done ? left : rows - done;
        const swi_ce c =
            SW_INIT(.logits = p->logits + done * p->classes, .labels = &l->in[LABELS],
                    .first = row, .rows = n, .cols = p->classes, .attrs = &a->ce, .isa = l->isa,
                    .par = l->par);
        p->loss = swi_ce_add(&c, row % p->each == 0 ? 0.0 : p->loss, p->lse, p->sums);
        if (n == left) {
            sw_buffer labels = l->in[LABELS];
            labels.ptr = (char *)labels.ptr +
                         (size_t)(evaluation * p->each) * sw_dtype_bytes(labels.type.dtype);
            labels.type.shape.dim[0] = p->each;
            const int64_t counted = swi_ce_counted(&labels, &a->ce, p->each);
            const float loss = counted > 0 ? (float)(p->loss / (double)counted) : 0.0f;
            float *to = swi_out(l, 0) + evaluation;
            *to = swi_adds(l, 0) ? *to + loss : loss;
        }
        done += n;
    }
}

/* Rows from `first` on that one chunk can have: of one repeat, and no further than the
 * evaluation where it has a part of one. */
static int64_t next_rows(const noise_pass *p, int64_t first, int64_t most)
{
    const swi_noise_ce_attrs *a = p->l->attrs;
    const int64_t unit = most >= p->each ? p->each * a->noise.directions : p->each;
    const int64_t left = unit - first % unit;
    return left < most ? left : most;
}

static sw_status noise_forward(const sw_launch *l)
{
    const swi_noise_ce_attrs *a = l->attrs;
    const int64_t rows = l->in[X].type.shape.dim[0], most = noise_chunk_rows(a, rows);
    noise_pass p = {.l = l,
                    .width = l->in[X].type.shape.dim[1],
                    .classes = l->in[W].type.shape.dim[0],
                    .each = swi_noise_rows_each(&a->noise, rows)};
    SW_TRY(swi_check_labels("noise_linear_ce", &l->in[LABELS], &a->ce, rows, p.classes));
    const size_t ce = sw_size_round(swi_ce_bytes(&a->ce, most));
    const size_t logits = (size_t)(most * p.classes) * sw_dtype_bytes(SW_F32);
    p.noise_bytes = l->scratch_bytes - ce - logits;
    p.logits = (float *)(void *)((char *)l->scratch + p.noise_bytes + ce);
    p.lse = swi_ce_scratch(&a->ce, most, (char *)l->scratch + p.noise_bytes, &p.sums);
    for (int64_t first = 0, n; first < rows; first += n) {
        n = next_rows(&p, first, most);
        logits_of(l, p.logits, first, n,
                  a->has_bias && !swi_noise_drops(&a->noise) ? swi_in(l, MORE) : NULL, NULL);
        SW_TRY(add_noise(&p, first, n));
        add_losses(&p, first, n);
    }
    return SW_OK;
}

/* ---- checks * ---------------------------------------------------------------------------- */

enum { MOST_CLASSES = 64 }; /* of the cases */

static sw_status noise_reference(const sw_reference *r)
{
    const swi_noise_ce_attrs *a = r->attrs;
    const int64_t rows = r->in_type[X].shape.dim[0], classes = r->in_type[W].shape.dim[0];
    const int64_t each = swi_noise_rows_each(&a->noise, rows);
    double logits[MOST_CLASSES];
    if (classes > MOST_CLASSES)
        SW_FAIL(SW_INVALID, "noise_linear_ce: the reference has at most %d classes",
                MOST_CLASSES);
    for (int64_t e = 0; e < rows / each; e++) {
        const sw_noise_at at = {r->seed, r->step, r->run + (uint32_t)(e % a->noise.directions)};
        const double scale = (double)sw_noise_sign(&a->noise, e) * r->in[SIGMA][0];
        double loss = 0.0, all = 0.0;
        sw_noise_direction d;
        sw_noise_prepare(&d, &a->noise.weight, &at, (float)r->in[SIGMA][0]);
        for (int64_t row = e * each; row < (e + 1) * each; row++) {
            for (int64_t o = 0; o < classes; o++) {
                const int64_t width = r->in_type[X].shape.dim[1];
                double sum = a->has_bias ? r->in[MORE][o] : 0.0, noise = 0.0;
                const int sigmas = MORE + a->has_bias;
                for (int64_t j = 0; j < width; j++) {
                    sum += r->in[X][row * width + j] * r->in[W][o * width + j];
                    if (a->noise.weight.rows != 0)
                        noise += r->in[X][row * width + j] *
                                 (double)sw_noise_element(&a->noise.weight, &d, o, j,
                                                          (float)r->in[W][o * width + j]) *
                                 (a->noise.has_sigmas ? r->in[sigmas][o * width + j] : 1.0);
                }
                if (a->noise.bias.rows != 0)
                    noise +=
                        (double)sw_noise_number(&a->noise.bias, SW_NOISE_ELEMENTS, &d.at, o) *
                        (a->noise.has_sigmas ? r->in[r->n_in - 1][o] : 1.0);
                logits[o] = sum + scale * noise;
            }
            loss += swi_ce_reference(&a->ce, logits, &r->in[LABELS][row], 1, classes, &all);
        }
        r->out[0][e] = all > 0.0 ? loss / all : 0.0;
    }
    return SW_OK;
}

static uint64_t noise_operations(const sw_kernel_info *info)
{
    const swi_noise_ce_attrs *a = info->attrs;
    const uint64_t rows = (uint64_t)info->in[X].shape.dim[0];
    const uint64_t width = (uint64_t)info->in[X].shape.dim[1];
    const sw_type logits = {
        SW_F32, SW_PLAIN, {2, {info->in[X].shape.dim[0], info->in[W].shape.dim[0]}}};
    return swi_count_add(
        swi_count_mul(2 * rows, swi_count_mul(width, (uint64_t)info->in[W].shape.dim[0])),
        swi_ce_operations(&a->ce, &logits, &info->in[LABELS]));
}

#define LOW_RANK(outputs, inputs)                                                              \
    {                                                                                          \
        .kind = SW_NOISE_LOW_RANK, .rank = 1, .rows = outputs, .cols = inputs, .taps = 1,      \
        .stream = 31                                                                           \
    }
static const swi_noise_ce_attrs whole = {
    .noise = {.weight = LOW_RANK(11, 6), .repeats = 2, .directions = 3, .antithetic = 1}};
static const swi_noise_ce_attrs parts = {
    .rows = 2,
    .noise = {.weight = LOW_RANK(11, 6), .repeats = 2, .directions = 3, .antithetic = 1}};
static const swi_noise_ce_attrs dropped = {
    .rows = 4,
    .noise = {
        .weight = {.kind = SW_NOISE_DROPOUT, .rows = 11, .cols = 6, .taps = 1, .stream = 31},
        .repeats = 2,
        .directions = 3,
        .antithetic = 1}};
static const sw_op_case noise_cases[] = {
    CASE("whole", IN(F32(12, 6), F32(11, 6), I32(12), SCALAR),
         FILL(NORMAL, NORMAL, LABELS, UNIT), .limit = 11, AT(whole)),
    CASE("parts of evaluations", IN(F32(18, 6), F32(11, 6), U8(18), SCALAR),
         FILL(NORMAL, NORMAL, LABELS, UNIT), .limit = 11, AT(parts)),
    CASE("dropout", IN(F32(12, 6), F32(11, 6), U8(12), SCALAR),
         FILL(NORMAL, NORMAL, LABELS, UNIT), .limit = 11, AT(dropped)),
};

OP(noise_linear_ce, MORE, MORE + 3, 1, ATTRS(swi_noise_ce_attrs), .infer = noise_infer,
   .scratch_bytes = noise_forward_bytes, .forward = noise_forward, .no_gradient = 1,
   .random = 1, .operations = noise_operations, .phase = SW_LOSS, .has_phase = 1,
   CHECKS(noise_reference, noise_cases));
