/* linear_ce with noise on weight and bias: the loss of each evaluation (evaluations), in {x
 * (rows, width), w (classes, width), labels (rows), sigma, [bias], [sigmas of the weight], [of
 * the bias]}.
 *
 * Goes over chunks of rows, as linear_ce does: whole evaluations of one repeat, or a part of
 * one. No chunk shows in the bits: a loss adds up row after row, in float64. */
#include "alloc/base/size.h"
#include "kernels/dispatch.h"
#include "runtime/ops/ce.h"
#include "runtime/ops/noise.h"
#include <string.h>

enum { X, W, LABELS, SIGMA, MORE };

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_ce_attrs *a = attrs;
    const sw_shape *x = &in[X].shape, *w = &in[W].shape;
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32("noise_linear_ce", in, 2));
    if (x->rank != 2 || w->rank != 2 || x->dim[1] != w->dim[1] || n_in < MORE + a->has_bias)
        SW_FAIL(SW_INVALID,
                "noise_linear_ce: input and weight must be (rows, width) and (classes, width) "
                "(got %s and %s)",
                swi_shape_text(x, s), swi_shape_text(w, t));
    if (a->has_bias && swi_elements(&in[MORE].shape) != w->dim[0])
        SW_FAIL(SW_INVALID, "noise_linear_ce: the bias must have %lld numbers (got %lld)",
                (long long)w->dim[0], (long long)swi_elements(&in[MORE].shape));
    const sw_noise_spec *noise = &a->noise.weight, *shift = &a->noise.bias;
    if ((noise->rows != 0 && (noise->rows != w->dim[0] || noise->cols != w->dim[1])) ||
        (shift->rows != 0 && shift->cols != w->dim[0]))
        SW_FAIL(SW_INVALID,
                "noise_linear_ce: noise must be that of a weight %s (got %lld x %lld)",
                swi_shape_text(w, t), (long long)noise->rows, (long long)noise->cols);
    const sw_shape logits = {2, {x->dim[0], w->dim[0]}};
    SW_TRY(swi_labels_infer("noise_linear_ce", &logits, &in[LABELS]));
    SW_TRY(swi_ce_attrs_infer("noise_linear_ce", &a->ce));
    SW_TRY(swi_noise_infer("noise_linear_ce", &a->noise, x->dim[0], &in[SIGMA]));
    out[0] = (sw_type){SW_F32, SW_PLAIN, {1, {a->noise.repeats * a->noise.directions}}};
    return SW_OK;
}

/* ---- chunks
 * ---------------------------------------------------------------------------------- */

/* Rows of whole evaluations in a chunk, or of a part of one. */
static int64_t chunk_rows(const swi_noise_ce_attrs *a, int64_t rows)
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

static bool has_noise(const swi_noise_ce_attrs *a)
{
    return a->noise.weight.rows != 0 || a->noise.bias.rows != 0;
}

/* Classes are dropped: logits are multiplied before the bias is added. */
static bool drops(const swi_noise_ce_attrs *a)
{
    return a->noise.weight.rows != 0 && a->noise.weight.kind == SW_NOISE_DROPOUT;
}

/* Scratch of the noise of a chunk. */
static size_t noise_bytes(const sw_kernel_info *info, int64_t rows)
{
    const swi_noise_ce_attrs *a = info->attrs;
    if (!has_noise(a) || drops(a) || sw_op_noise_linear.scratch_bytes == NULL)
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

/* The needs of product and noise, one after the other; the losses' scratch; the logits. */
static size_t forward_bytes(const sw_kernel_info *info)
{
    const swi_noise_ce_attrs *a = info->attrs;
    const int64_t width = info->in[X].shape.dim[1], classes = info->in[W].shape.dim[0];
    const int64_t rows = chunk_rows(a, info->in[X].shape.dim[0]);
    const size_t product =
        sw_size_round(sw_dense(info->isa)->gemm_bytes(rows, classes, width, false));
    const size_t noise = noise_bytes(info, rows);
    return (product > noise ? product : noise) + sw_size_round(swi_ce_bytes(&a->ce, rows)) +
           (size_t)(rows * classes) * sw_dtype_bytes(SW_F32);
}

/* ---- running
 * --------------------------------------------------------------------------------- */

typedef struct {
    const sw_launch *l;
    int64_t width, classes, each;
    size_t shared_bytes; /* of product and noise */
    float *logits, *lse;
    double *sums, loss; /* of the evaluation so far */
} pass;

static void make_logits(const pass *p, int64_t first, int64_t rows)
{
    const swi_noise_ce_attrs *a = p->l->attrs;
    const sw_gemm g = {.c = p->logits,
                       .a = swi_in(p->l, X) + first * p->width,
                       .a_row = p->width,
                       .a_col = 1,
                       .b = swi_in(p->l, W),
                       .b_row = 1,
                       .b_col = p->width,
                       .bias = a->has_bias && !drops(a) ? swi_in(p->l, MORE) : NULL,
                       .m = rows,
                       .n = p->classes,
                       .k = p->width};
    sw_dense(p->l->isa)->gemm(&g, p->l->scratch, p->l->par);
}

typedef struct {
    const pass *p;
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

static sw_status add_noise(const pass *p, int64_t first, int64_t rows)
{
    const sw_launch *l = p->l;
    const swi_noise_ce_attrs *a = l->attrs;
    const int64_t evaluation = first / p->each;
    const swi_noise_attrs part = chunk_attrs(a, rows, p->each);
    float sigma = sw_noise_sign(&a->noise, evaluation) * *swi_in(l, SIGMA);
    sw_buffer in[4], out = {.ptr = p->logits, .type = l->in[X].type};
    int n = 0;
    if (!has_noise(a))
        return SW_OK;
    if (drops(a)) {
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
    noise.scratch_bytes = p->shared_bytes;
    noise.attrs = &part;
    noise.accumulate = 1;
    noise.run = l->run + (uint32_t)(evaluation % a->noise.directions);
    return sw_op_noise_linear.forward(&noise);
}

/* The losses of a chunk, evaluation by evaluation; one may begin and end in other chunks. */
static void add_losses(pass *p, int64_t first, int64_t rows)
{
    const sw_launch *l = p->l;
    const swi_noise_ce_attrs *a = l->attrs;
    for (int64_t done = 0; done < rows;) {
        const int64_t row = first + done, evaluation = row / p->each;
        const int64_t left = (evaluation + 1) * p->each - row;
        const int64_t n = left < rows - done ? left : rows - done;
        const swi_ce c = {.logits = p->logits + done * p->classes,
                          .labels = &l->in[LABELS],
                          .first = row,
                          .rows = n,
                          .cols = p->classes,
                          .attrs = &a->ce,
                          .isa = l->isa,
                          .par = l->par};
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
static int64_t next_rows(const pass *p, int64_t first, int64_t most)
{
    const swi_noise_ce_attrs *a = p->l->attrs;
    const int64_t unit = most >= p->each ? p->each * a->noise.directions : p->each;
    const int64_t left = unit - first % unit;
    return left < most ? left : most;
}

static sw_status forward(const sw_launch *l)
{
    const swi_noise_ce_attrs *a = l->attrs;
    const int64_t rows = l->in[X].type.shape.dim[0], most = chunk_rows(a, rows);
    pass p = {.l = l,
              .width = l->in[X].type.shape.dim[1],
              .classes = l->in[W].type.shape.dim[0],
              .each = swi_noise_rows_each(&a->noise, rows)};
    SW_TRY(swi_check_labels("noise_linear_ce", &l->in[LABELS], &a->ce, rows, p.classes));
    const size_t ce = sw_size_round(swi_ce_bytes(&a->ce, most));
    const size_t logits = (size_t)(most * p.classes) * sw_dtype_bytes(SW_F32);
    p.shared_bytes = l->scratch_bytes - ce - logits;
    p.logits = (float *)(void *)((char *)l->scratch + p.shared_bytes + ce);
    p.lse = swi_ce_scratch(&a->ce, most, (char *)l->scratch + p.shared_bytes, &p.sums);
    for (int64_t first = 0, n; first < rows; first += n) {
        n = next_rows(&p, first, most);
        make_logits(&p, first, n);
        SW_TRY(add_noise(&p, first, n));
        add_losses(&p, first, n);
    }
    return SW_OK;
}

/* ---- checks
 * ---------------------------------------------------------------------------------- */

static double logit(const sw_reference *r, int64_t row, int64_t o, const sw_noise_direction *d,
                    double scale)
{
    const swi_noise_ce_attrs *a = r->attrs;
    const int64_t width = r->in_type[X].shape.dim[1];
    double sum = a->has_bias ? r->in[MORE][o] : 0.0, noise = 0.0;
    const int sigmas = MORE + a->has_bias;
    for (int64_t j = 0; j < width; j++) {
        sum += r->in[X][row * width + j] * r->in[W][o * width + j];
        if (a->noise.weight.rows != 0)
            noise += r->in[X][row * width + j] *
                     (double)sw_noise_element(&a->noise.weight, d, o, j,
                                              (float)r->in[W][o * width + j]) *
                     (a->noise.has_sigmas ? r->in[sigmas][o * width + j] : 1.0);
    }
    if (a->noise.bias.rows != 0)
        noise += (double)sw_noise_number(&a->noise.bias, SW_NOISE_ELEMENTS, &d->at, o) *
                 (a->noise.has_sigmas ? r->in[r->n_in - 1][o] : 1.0);
    return sum + scale * noise;
}

enum { MOST_CLASSES = 64 }; /* of the cases */

static sw_status reference(const sw_reference *r)
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
            for (int64_t o = 0; o < classes; o++)
                logits[o] = logit(r, row, o, &d, scale);
            loss += swi_ce_reference(&a->ce, logits, &r->in[LABELS][row], 1, classes, &all);
        }
        r->out[0][e] = all > 0.0 ? loss / all : 0.0;
    }
    return SW_OK;
}

static uint64_t operations(const sw_kernel_info *info)
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
static const sw_op_case cases[] = {
    CASE("whole", IN(F32(12, 6), F32(11, 6), I32(12), SCALAR),
         FILL(NORMAL, NORMAL, LABELS, UNIT), .limit = 11, AT(whole)),
    CASE("parts of evaluations", IN(F32(18, 6), F32(11, 6), U8(18), SCALAR),
         FILL(NORMAL, NORMAL, LABELS, UNIT), .limit = 11, AT(parts)),
    CASE("dropout", IN(F32(12, 6), F32(11, 6), U8(12), SCALAR),
         FILL(NORMAL, NORMAL, LABELS, UNIT), .limit = 11, AT(dropped)),
};

OP(noise_linear_ce, MORE, MORE + 3, 1, ATTRS(swi_noise_ce_attrs), .infer = infer,
   .scratch_bytes = forward_bytes, .forward = forward, .no_gradient = 1, .random = 1,
   .operations = operations, .phase = SW_LOSS, .has_phase = 1, CHECKS(reference, cases));
