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

enum { X, W, LABELS, BIAS };
enum { LOSS, DX, DW, DB };

static int64_t chunk_rows(const swi_linear_ce_attrs *a, int64_t rows)
{
    return a->rows > 0 && a->rows < rows ? a->rows : rows;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_linear_ce_attrs *a = attrs;
    const sw_shape *x = &in[X].shape, *w = &in[W].shape;
    const sw_type none = {SW_F32, SW_PLAIN, {1, {0}}};
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32("linear_ce", in, 2));
    if (n_in > BIAS)
        SW_TRY(swi_want_f32("linear_ce", in + BIAS, 1));
    if (x->rank != 2 || w->rank != 2 || x->dim[1] != w->dim[1])
        SW_FAIL(SW_INVALID,
                "linear_ce: input and weight must be (rows, width) and (classes, width) (got "
                "%s and %s)",
                swi_shape_text(x, s), swi_shape_text(w, t));
    if (n_in > BIAS && (in[BIAS].shape.rank != 1 || in[BIAS].shape.dim[0] != w->dim[0]))
        SW_FAIL(SW_INVALID, "linear_ce: the bias must be (classes) (got %s for the weight %s)",
                swi_shape_text(&in[BIAS].shape, s), swi_shape_text(w, t));
    const sw_shape logits = {2, {x->dim[0], w->dim[0]}};
    SW_TRY(swi_labels_infer("linear_ce", &logits, &in[LABELS]));
    SW_TRY(swi_ce_attrs_infer("linear_ce", &a->ce));
    if (a->rows < 0)
        SW_FAIL(SW_INVALID, "linear_ce: the rows at a time must be at least 0 (got %lld)",
                (long long)a->rows);
    out[LOSS] = (sw_type){SW_F32, SW_PLAIN, {0, {0}}};
    out[DX] = in[X];
    out[DW] = in[W];
    out[DB] = n_in > BIAS ? in[BIAS] : none;
    return SW_OK;
}

/* ---- forward ----------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes that a product of `rows` rows needs: not every run makes all three. */
static size_t product_bytes(sw_isa isa, int64_t rows, int64_t width, int64_t classes)
{
    const sw_dense_kernels *d = sw_dense(isa);
    return sw_size_round(larger(d->gemm_bytes(rows, classes, width, false),
                                larger(d->gemm_bytes(rows, width, classes, false),
                                       d->gemm_bytes(classes, width, rows, true))));
}

/* Numbers of which a chunk has one for each row. */
static size_t row_bytes(int64_t rows)
{
    return sw_size_round((size_t)rows * sw_dtype_bytes(SW_F32));
}

/* The products' scratch, the logits of a chunk's labels, its logarithms and sums, and all its
 * logits. */
static size_t forward_bytes(const sw_kernel_info *info)
{
    const swi_linear_ce_attrs *a = info->attrs;
    const int64_t width = info->in[X].shape.dim[1], classes = info->in[W].shape.dim[0];
    const int64_t rows = chunk_rows(a, info->in[X].shape.dim[0]);
    return product_bytes(info->isa, rows, width, classes) + row_bytes(rows) +
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

static void make_logits(const pass *p, int64_t first, int64_t rows)
{
    const sw_gemm g = {.c = p->logits,
                       .a = swi_in(p->l, X) + first * p->width,
                       .a_row = p->width,
                       .a_col = 1,
                       .b = swi_in(p->l, W),
                       .b_row = 1,
                       .b_col = p->width,
                       .bias = p->l->n_in > BIAS ? swi_in(p->l, BIAS) : NULL,
                       .m = rows,
                       .n = p->classes,
                       .k = p->width};
    sw_dense(p->l->isa)->gemm(&g, p->product, p->l->par);
}

/* From the logits' gradient, which stands in their place. */
static void make_dx(const pass *p, float *dx, int64_t first, int64_t rows)
{
    const sw_gemm g = {.c = dx + first * p->width,
                       .a = p->logits,
                       .a_row = p->classes,
                       .a_col = 1,
                       .b = swi_in(p->l, W),
                       .b_row = p->width,
                       .b_col = 1,
                       .m = rows,
                       .n = p->width,
                       .k = p->classes};
    sw_dense(p->l->isa)->gemm(&g, p->product, p->l->par);
}

static void add_dw(const pass *p, float *dw, int64_t first, int64_t rows)
{
    const sw_gemm g = {.c = dw,
                       .a = p->logits,
                       .a_row = 1,
                       .a_col = p->classes,
                       .b = swi_in(p->l, X) + first * p->width,
                       .b_row = p->width,
                       .b_col = 1,
                       .m = p->classes,
                       .n = p->width,
                       .k = rows,
                       .accumulate = first > 0};
    sw_dense(p->l->isa)->gemm(&g, p->product, p->l->par);
}

/* Those that somebody reads; without a bias db has no elements. */
static void make_gradients(const pass *p, int64_t first, int64_t rows)
{
    float *dx = swi_out(p->l, DX), *dw = swi_out(p->l, DW), *db = swi_out(p->l, DB);
    if (dx != NULL)
        make_dx(p, dx, first, rows);
    if (dw != NULL)
        add_dw(p, dw, first, rows);
    if (db != NULL && p->l->n_in > BIAS)
        sw_dense(p->l->isa)->column_sums(db, p->logits, rows, p->classes, p->classes, first > 0,
                                         p->l->par);
}

static sw_status forward(const sw_launch *l)
{
    const swi_linear_ce_attrs *a = l->attrs;
    const int64_t all = l->in[X].type.shape.dim[0], most = chunk_rows(a, all);
    pass p = {
        .l = l, .width = l->in[X].type.shape.dim[1], .classes = l->in[W].type.shape.dim[0]};
    SW_TRY(swi_check_labels("linear_ce", &l->in[LABELS], &a->ce, all, p.classes));
    const int64_t n = swi_ce_counted(&l->in[LABELS], &a->ce, all);
    unsigned char *scratch = l->scratch;
    p.product = scratch;
    scratch += product_bytes(l->isa, most, p.width, p.classes);
    p.at_label = (float *)(void *)scratch;
    scratch += row_bytes(most);
    p.lse = swi_ce_scratch(&a->ce, most, scratch, &p.sums);
    p.logits = (float *)(void *)(scratch + sw_size_round(swi_ce_bytes(&a->ce, most)));
    p.factor = n > 0 ? 1.0f / (float)n : 0.0f;
    const bool wanted = l->n_out > DB && (swi_out(l, DX) != NULL || swi_out(l, DW) != NULL ||
                                          swi_out(l, DB) != NULL);
    double sum = 0.0;
    for (int64_t first = 0; first < all; first += most) {
        const int64_t rows = all - first < most ? all - first : most;
        const swi_ce c = {.logits = p.logits,
                          .labels = &l->in[LABELS],
                          .first = first,
                          .rows = rows,
                          .cols = p.classes,
                          .attrs = &a->ce,
                          .isa = l->isa,
                          .par = l->par};
        make_logits(&p, first, rows);
        if (!wanted) {
            sum = swi_ce_add(&c, sum, p.lse, p.sums);
            continue;
        }
        sum = swi_ce_both(&c, sum, p.logits, p.lse, p.at_label, p.sums, p.factor);
        make_gradients(&p, first, rows);
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

/* ---- backward: the gradients are there, up to a factor. in: one of them, dy -------------- */

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

/* ---- reference --------------------------------------------------------------------------- */

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

static const swi_linear_ce_attrs attrs[] = {{0, {0.0f, 0, 0}, 0},
                                            {2, {0.0f, 0, 0}, 0},
                                            {5, {0.1f, 1, 2}, 0},
                                            {7, {0.0f, 1, 1}, 0},
                                            {100, {0.3f, 0, 0}, 0}};
#define FILLS .fill = {SW_FILL_NORMAL, SW_FILL_NORMAL, SW_FILL_LABELS, SW_FILL_NORMAL}
static const sw_op_case cases[] = {
    CASE("all at once", IN(F32(5, 7), F32(9, 7), U8(5), F32(9)), FILLS, .limit = 9,
         AT(attrs[0])),
    CASE("chunks, the last not full", IN(F32(33, 20), F32(70, 20), I32(33)), FILLS, .limit = 70,
         AT(attrs[1])),
    CASE("smooth, a label is ignored", IN(F32(21, 3), F32(5, 3), I32(21), F32(5)), FILLS,
         .limit = 5, AT(attrs[2])),
    CASE("a label is ignored", IN(F32(15, 9), F32(300, 9), I32(15)), FILLS, .limit = 3,
         AT(attrs[3])),
    CASE("one row, smooth", IN(F32(1, 4), F32(2, 4), U8(1), F32(2)), FILLS, .limit = 2,
         AT(attrs[4])),
};

OP(linear_ce, 3, 4, 1, ATTRS(swi_linear_ce_attrs), .n_extra = 3, .infer = infer,
   .scratch_bytes = forward_bytes, .forward = forward, .operations = operations,
   .phase = SW_LOSS, .has_phase = 1, GRADS(grads), CHECKS(reference, cases));

static sw_value apply(sw_ctx *ctx, const sw_value *given, const swi_ce_attrs *ce)
{
    const sw_value in[] = {given[0], given[1], given[3], given[2]};
    const swi_linear_ce_attrs a = {0, *ce, 0};
    return sw_op_apply(ctx, SW_OP_linear_ce, in, given[2].id != 0 ? 4 : 3, &a);
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
