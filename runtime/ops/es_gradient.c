/* The estimate of an evolution strategy: g = sum over d of w_d E_d, with the noise E of the
 * directions from the launch's run on (kernels/noise.h), times the sigma of each element where
 * there are such, plus l1 sign(theta) + l2 theta. Of logits it is sigma times the sum of scores
 * of their bits (kernels/binary.h). Of a matrix any range of rows can be made
 * alone, with the same bits; theta and sigmas then are those rows. So ranks make some rows each
 * and gather them. Nothing of it grows with the number of directions. */
#include "kernels/dispatch.h"
#include "runtime/ops/noise.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tile.h"
#include "runtime/transport/ranks.h"
#include <string.h>

/* Which operand is what; NONE: it is not there. */
enum { WEIGHTS, NONE = -1 };
typedef struct {
    int theta, sigma, scale, sigmas, n;
} operands;

static operands operands_of(const swi_es_gradient_attrs *a)
{
    const bool bits = a->spec.kind == SW_NOISE_BITS_OF_LOGITS;
    const bool drops = a->spec.kind == SW_NOISE_DROPOUT;
    operands o = {NONE, NONE, NONE, NONE, 1};
    if (drops || bits || a->l1 != 0.0f || a->l2 != 0.0f)
        o.theta = o.n++;
    if (drops || bits)
        o.sigma = o.n++;
    if (bits)
        o.scale = o.n++;
    if (a->has_sigmas)
        o.sigmas = o.n++;
    return o;
}

static bool of_bits(const swi_es_gradient_attrs *a)
{
    return a->spec.kind == SW_NOISE_BITS_OF_LOGITS;
}

static sw_status check_like(const sw_type *in, const sw_shape *shape, const char *what)
{
    if (in->dtype != SW_F32 || !swi_same_shape(&in->shape, shape))
        SW_FAIL(SW_INVALID, "es_gradient: %s must be f32 %s (got %s %s)", what,
                SWI_SHAPE(shape), sw_dtype_name(in->dtype), SWI_SHAPE(&in->shape));
    return SW_OK;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_es_gradient_attrs *a = attrs;
    const operands o = operands_of(a);
    if (!of_bits(a))
        SW_TRY(swi_noise_check("es_gradient", &a->spec));
    else if (a->has_sigmas || a->spec.taps < 1 || a->spec.cols % a->spec.taps != 0)
        SW_FAIL(SW_INVALID, "es_gradient: bits have no sigmas, and whole channels");
    if (a->spec.rows * a->spec.cols != swi_elements(&a->shape) || a->rows.first != 0)
        SW_FAIL(SW_INVALID, "es_gradient: noise of %lld x %lld from row %lld is not that of %s",
                (long long)a->spec.rows, (long long)a->spec.cols, (long long)a->rows.first,
                SWI_SHAPE(&a->shape));
    if (n_in != o.n)
        SW_FAIL(SW_INVALID, "es_gradient: must have %d inputs (got %d)", o.n, n_in);
    if (in[WEIGHTS].dtype != SW_F32 || in[WEIGHTS].shape.rank != 1)
        SW_FAIL(SW_INVALID, "es_gradient: the weights must be f32 (directions) (got %s %s)",
                sw_dtype_name(in[WEIGHTS].dtype), SWI_SHAPE(&in[WEIGHTS].shape));
    if (o.theta != NONE)
        SW_TRY(check_like(&in[o.theta], &a->shape, "theta"));
    if (o.sigma != NONE && (in[o.sigma].dtype != SW_F32 || sw_type_elements(&in[o.sigma]) != 1))
        SW_FAIL(SW_INVALID, "es_gradient: sigma must be an f32 scalar");
    if (o.scale != NONE && (in[o.scale].dtype != SW_F32 || sw_type_elements(&in[o.scale]) != 1))
        SW_FAIL(SW_INVALID, "es_gradient: the scale of logits must be an f32 scalar");
    if (o.sigmas != NONE)
        SW_TRY(check_like(&in[o.sigmas], &a->shape, "sigmas"));
    out[0] = (sw_type){SW_F32, SW_PLAIN, a->shape};
    return SW_OK;
}

static int64_t rows_of(const swi_es_gradient_attrs *a, const sw_type *out)
{
    return a->spec.cols > 0 ? sw_type_elements(out) / a->spec.cols : 0;
}

static size_t scratch_bytes(const sw_kernel_info *info)
{
    const swi_es_gradient_attrs *a = info->attrs;
    if (of_bits(a))
        return sw_binary(info->isa)->gradient_bytes(&a->spec, info->threads);
    return sw_noise(info->isa)->gradient_bytes(&a->spec, rows_of(a, &info->out[0]),
                                               info->in[WEIGHTS].shape.dim[0]);
}

/* ---- what is left to do to each element: in parts of a fixed size ------------------------ */

#define PART 16384

typedef struct {
    const swi_es_gradient_attrs *a;
    float *g;
    const float *theta, *sigmas;
    int64_t n;
} rest;

static void finish_part(void *arg, int part)
{
    const rest *r = arg;
    const int64_t first = (int64_t)part * PART;
    const int64_t end = r->n - first < PART ? r->n : first + PART;
    const float l1 = r->a->l1, l2 = r->a->l2;
    for (int64_t i = first; r->sigmas != NULL && i < end; i++)
        r->g[i] *= r->sigmas[i];
    for (int64_t i = first; (l1 != 0.0f || l2 != 0.0f) && i < end; i++) {
        const float theta = r->theta[i];
        r->g[i] += l1 * (float)((theta > 0.0f) - (theta < 0.0f)) + l2 * theta;
    }
}

/* Rows [first, first + rows) of the result. */
static void make_rows(const sw_launch *l, int64_t first, int64_t rows)
{
    const swi_es_gradient_attrs *a = l->attrs;
    const operands o = operands_of(a);
    const int64_t skipped = first * a->spec.cols, n = l->in[WEIGHTS].type.shape.dim[0];
    const float *theta = o.theta != NONE ? swi_in(l, o.theta) + skipped : NULL;
    const float sigma = o.sigma != NONE ? *swi_in(l, o.sigma) : 0.0f;
    rest r = {a, swi_out(l, 0) + skipped, theta,
              o.sigmas != NONE ? swi_in(l, o.sigmas) + skipped : NULL, rows * a->spec.cols};
    if (of_bits(a)) {
        const sw_binary_sum sum =
            SW_INIT(.spec = &a->spec, .seed = l->seed, .generation = l->step, .first = l->run,
                    .n = n, .weights = swi_in(l, WEIGHTS), .logits = theta, .to = r.g,
                    .scale = *swi_in(l, o.scale), .sigma = sigma,
                    .antithetic = a->antithetic != 0, .first_row = a->rows.first + first,
                    .n_rows = rows);
        sw_binary(l->isa)->gradient(&sum, l->scratch, l->par);
    } else {
        const sw_noise_sum sum =
            SW_INIT(.spec = &a->spec, .seed = l->seed, .generation = l->step, .first = l->run,
                    .n = n, .weights = swi_in(l, WEIGHTS), .to = r.g, .parameter = theta,
                    .sigma = sigma, .first_row = a->rows.first + first, .n_rows = rows);
        sw_noise(l->isa)->gradient(&sum, l->scratch, l->par);
    }
    if (r.sigmas != NULL || a->l1 != 0.0f || a->l2 != 0.0f)
        l->par->run(l->par, finish_part, &r, (int)((r.n + PART - 1) / PART));
}

int64_t swi_es_gradient_share(int64_t rows, int ranks)
{
    return rows > 1 && ranks > 1 ? (rows + ranks - 1) / ranks : rows;
}

/* The first and only contribution to its gradient: it writes, whatever l->accumulate says. */
static sw_status forward(const sw_launch *l)
{
    const swi_es_gradient_attrs *a = l->attrs;
    const int64_t rows = rows_of(a, &l->out[0].type);
    const int64_t each = swi_es_gradient_share(rows, swi_ranks_size(a->ranks));
    if (each == rows) {
        make_rows(l, 0, rows);
        return SW_OK;
    }
    const size_t row_bytes = (size_t)a->spec.cols * sw_dtype_bytes(SW_F32);
    const int64_t first = each * swi_ranks_rank(a->ranks);
    if (first < rows)
        make_rows(l, first, first + each < rows ? each : rows - first);
    return swi_ranks_gather_in_place(a->ranks, swi_out(l, 0), (size_t)rows * row_bytes,
                                     (size_t)each * row_bytes);
}

/* ---- a bound ----------------------------------------------------------------------------- */

static double largest_noise(const sw_noise_spec *s, float sigma)
{
    /* A bound of the numbers of a distribution: the normal ones come from words of 24 bits,
     * and the largest is sqrt(2 ln 2^24) = 5.77. */
    const double one = s->distribution == SW_NOISE_NORMAL ? 5.8
                       : s->distribution == SW_NOISE_BITS ? 4.0
                                                          : 1.0;
    switch (s->kind) {
    case SW_NOISE_LOW_RANK:
        return one * one * (double)s->rank;
    case SW_NOISE_DROPOUT:
        return fmax((double)sigma, 1.0 / (double)sigma);
    case SW_NOISE_BITS_OF_LOGITS:
        return (double)sigma;
    default:
        return one * fmax(1.0, (double)sw_noise_scale(s));
    }
}

static double largest(const sw_launch *l, int i)
{
    return (double)sw_pointwise(l->isa)->largest(swi_in(l, i), false,
                                                 sw_type_elements(&l->in[i].type), l->par);
}

double swi_es_gradient_bound(const sw_launch *l)
{
    const swi_es_gradient_attrs *a = l->attrs;
    const operands o = operands_of(a);
    const double theta = o.theta != NONE ? largest(l, o.theta) : 0.0;
    double each = largest_noise(&a->spec, o.sigma != NONE ? *swi_in(l, o.sigma) : 1.0f);
    if (o.sigma != NONE && o.scale == NONE)
        each *= theta;
    if (o.sigmas != NONE)
        each *= fmax(1.0, largest(l, o.sigmas));
    return each * largest(l, WEIGHTS) * ((double)l->in[WEIGHTS].type.shape.dim[0] + 1.0) +
           fabs((double)a->l1) + fabs((double)a->l2) * theta;
}

uint64_t swi_es_gradient_bound_operations(const sw_kernel_info *info)
{
    uint64_t n = 8;
    for (int i = 0; i < info->n_in; i++)
        n = swi_count_add(n, swi_count_per_element(&info->in[i], 1));
    return n;
}

/* ---- checks and costs -------------------------------------------------------------------- */

/* As the definition has it, in float64. */
static sw_status reference(const sw_reference *r)
{
    const swi_es_gradient_attrs *a = r->attrs;
    const operands o = operands_of(a);
    const int64_t n = r->in_type[WEIGHTS].shape.dim[0], cols = a->spec.cols;
    const float sigma = o.sigma != NONE ? (float)r->in[o.sigma][0] : 0.0f;
    double *g = r->out[0];
    for (int64_t i = 0; i < a->spec.rows * cols && of_bits(a); i++) {
        /* sigma times the sum of the scores of a logit's bits. */
        const int64_t row = i / a->spec.cols, col = i % a->spec.cols;
        const uint16_t below =
            sw_binary_below((float)r->in[o.theta][i], (float)r->in[o.scale][0]);
        const double p = (double)below / 65536.0;
        double sum = 0.0;
        for (int64_t k = 0; k < r->in_type[WEIGHTS].shape.dim[0]; k++) {
            const sw_noise_at at = {r->seed, r->step, r->run + (uint32_t)k};
            const double bit = sw_binary_bit(&a->spec, &at, row, col, below, false);
            const double other = sw_binary_bit(&a->spec, &at, row, col, below, true);
            sum += r->in[WEIGHTS][k] *
                   (a->antithetic ? fmax(p, 1.0 - p) * (bit - other) : bit - p);
        }
        g[i] = r->in[o.sigma][0] * sum;
    }
    for (int64_t k = 0; k < n && !of_bits(a); k++) {
        const sw_noise_at at = {r->seed, r->step, r->run + (uint32_t)k};
        sw_noise_direction d;
        sw_noise_prepare(&d, &a->spec, &at, sigma);
        for (int64_t i = 0; i < a->spec.rows * cols; i++)
            g[i] += r->in[WEIGHTS][k] *
                    (double)sw_noise_element(&a->spec, &d, i / cols, i % cols,
                                             o.theta != NONE ? (float)r->in[o.theta][i] : 0.0f);
    }
    for (int64_t i = 0; i < a->spec.rows * cols; i++) {
        const double theta = o.theta != NONE ? r->in[o.theta][i] : 0.0;
        g[i] = g[i] * (o.sigmas != NONE ? r->in[o.sigmas][i] : 1.0) +
               (double)a->l1 * ((theta > 0.0) - (theta < 0.0)) + (double)a->l2 * theta;
    }
    return SW_OK;
}

/* By the definition: of low rank the factors are made once for each direction, else each
 * element is. */
static uint64_t operations(const sw_kernel_info *info)
{
    const swi_es_gradient_attrs *a = info->attrs;
    const uint64_t n = (uint64_t)info->in[WEIGHTS].shape.dim[0];
    const uint64_t cols = (uint64_t)a->spec.cols, rank = (uint64_t)a->spec.rank;
    const uint64_t rows = (uint64_t)rows_of(a, &info->out[0]);
    uint64_t each = SWI_NORMAL + 2, beside = 0;
    if (a->spec.kind == SW_NOISE_LOW_RANK) {
        each = 2 * rank;
        beside = swi_count_mul(rank, swi_count_add(swi_count_mul(rows, SWI_NORMAL + 2),
                                                   swi_count_mul(cols, SWI_NORMAL)));
    } else if (a->spec.kind == SW_NOISE_DROPOUT) {
        each = 2;
        beside = swi_count_mul(rows, SWI_UNIFORM);
    } else if (of_bits(a)) {
        each = SWI_PHILOX / 2 + 3;
    }
    return swi_count_add(
        swi_count_mul(n, swi_count_add(swi_count_per_element(&info->out[0], each), beside)),
        swi_count_per_element(&info->out[0], (uint64_t)(a->has_sigmas != 0) +
                                                 (a->l1 != 0.0f || a->l2 != 0.0f ? 6 : 0)));
}

/* ---- cases ------------------------------------------------------------------------------- */

#define MATRIX(a_name, a_kind, a_sides, outputs, inputs, a_taps, ...)                          \
    static const swi_es_gradient_attrs a_name = {                                              \
        .rows = {0, outputs},                                                                  \
        .spec = SPEC(a_kind, a_sides, 2, outputs, inputs, a_taps, 2, 3, 23),                   \
        .shape = {2, {outputs, (inputs) * (a_taps)}},                                          \
        __VA_ARGS__}
MATRIX(low_rank, SW_NOISE_LOW_RANK, 0, 19, 37, 1, .l1 = 0.0f);
MATRIX(wide, SW_NOISE_LOW_RANK, 0, 26, 70, 1, .l1 = 0.0f);
MATRIX(iid, SW_NOISE_IID, 0, 7, 37, 1, .l1 = 0.0f);
MATRIX(permuted_in, SW_NOISE_PERMUTED, SW_NOISE_IN, 9, 20, 1, .l1 = 0.0f);
MATRIX(permuted_out, SW_NOISE_PERMUTED, SW_NOISE_OUT, 20, 9, 1, .l1 = 0.0f);
MATRIX(permuted, SW_NOISE_PERMUTED, BOTH_SIDES, 17, 9, 1, .l1 = 0.0f);
MATRIX(flip_in, SW_NOISE_SIGN_FLIP, SW_NOISE_IN, 9, 20, 1, .l1 = 0.0f);
MATRIX(flip_out, SW_NOISE_SIGN_FLIP, SW_NOISE_OUT, 20, 9, 1, .l1 = 0.0f);
MATRIX(flip, SW_NOISE_SIGN_FLIP, BOTH_SIDES, 18, 33, 1, .l1 = 0.0f);
MATRIX(sparse, SW_NOISE_SPARSE, BOTH_SIDES, 13, 15, 1, .l1 = 0.0f);
MATRIX(dropout, SW_NOISE_DROPOUT, 0, 13, 15, 1, .l1 = 0.0f);
MATRIX(decay, SW_NOISE_LOW_RANK, 0, 13, 15, 1, .l1 = 0.25f, .l2 = 0.5f);
MATRIX(sigmas, SW_NOISE_IID, 0, 13, 15, 1, .l2 = 0.5f, .has_sigmas = 1);
#define IMAGE(a_name, a_kind)                                                                  \
    static const swi_es_gradient_attrs a_name = {                                              \
        .rows = {0, 6},                                                                        \
        .shape = {4, {6, 5, 3, 3}},                                                            \
        .spec = SPEC(a_kind, BOTH_SIDES, 1, 6, 5, 9, 2, 2, 24)}
IMAGE(image, SW_NOISE_LOW_RANK);
IMAGE(image_permuted, SW_NOISE_PERMUTED);
IMAGE(image_flip, SW_NOISE_SIGN_FLIP);
IMAGE(image_sparse, SW_NOISE_SPARSE);
#define VECTOR(a_name, a_distribution, ...)                                                    \
    static const swi_es_gradient_attrs a_name = {.rows = {0, 1},                               \
                                                 .shape = {__VA_ARGS__},                       \
                                                 .spec = {.kind = SW_NOISE_IID,                \
                                                          .distribution = a_distribution,      \
                                                          .rows = 1,                           \
                                                          .cols = 41,                          \
                                                          .taps = 1,                           \
                                                          .stream = 25}}
VECTOR(vector, SW_NOISE_NORMAL, 1, {41});
VECTOR(channels, SW_NOISE_RADEMACHER, 3, {41, 1, 1});
VECTOR(bits, SW_NOISE_BITS, 1, {41});
MATRIX(logits, SW_NOISE_BITS_OF_LOGITS, 0, 13, 70, 1, .l2 = 0.5f, .antithetic = 1);
MATRIX(filters, SW_NOISE_BITS_OF_LOGITS, 0, 6, 5, 9, .l1 = 0.0f);

static const sw_op_case cases[] = {
    CASE("one direction", IN(F32(1)), AT(vector)),
    CASE("low rank", IN(F32(33)), AT(low_rank)),
    CASE("low rank, many directions", IN(F32(300)), AT(wide)),
    CASE("iid", IN(F32(20)), AT(iid)),
    CASE("permuted in", IN(F32(20)), AT(permuted_in)),
    CASE("permuted out", IN(F32(20)), AT(permuted_out)),
    CASE("permuted", IN(F32(20)), AT(permuted)),
    CASE("sign-flip in", IN(F32(20)), AT(flip_in)),
    CASE("sign-flip out", IN(F32(20)), AT(flip_out)),
    CASE("sign-flip", IN(F32(20)), AT(flip)),
    CASE("sparse", IN(F32(20)), AT(sparse)),
    CASE("image", IN(F32(20)), AT(image)),
    CASE("image, permuted", IN(F32(20)), AT(image_permuted)),
    CASE("image, sign-flip", IN(F32(20)), AT(image_flip)),
    CASE("image, sparse", IN(F32(20)), AT(image_sparse)),
    CASE("vector", IN(F32(70)), AT(vector)),
    CASE("channels", IN(F32(70)), AT(channels)),
    CASE("bits", IN(F32(70)), AT(bits)),
    CASE("one direction of a matrix", IN(F32(1)), AT(low_rank)),
    CASE("dropout", IN(F32(20), F32(13, 15), SCALAR), FILL(NORMAL, NORMAL, UNIT), AT(dropout)),
    CASE("l1 and l2", IN(F32(20), F32(13, 15)), FILL(NORMAL, AWAY), AT(decay)),
    CASE("logits, mirrored pairs", IN(F32(30), F32(13, 70), SCALAR, SCALAR),
         FILL(NORMAL, AWAY, UNIT, UNIT), AT(logits)),
    CASE("logits of filters", IN(F32(30), F32(6, 45), SCALAR, SCALAR),
         FILL(NORMAL, NORMAL, UNIT, UNIT), AT(filters)),
    CASE("sigmas", IN(F32(20), F32(13, 15), F32(13, 15)), FILL(NORMAL, NORMAL, UNIT),
         AT(sigmas)),
};

OP(es_gradient, 1, 4, 1, ATTRS(swi_es_gradient_attrs), .infer = infer,
   .scratch_bytes = scratch_bytes, .forward = forward, .no_gradient = 1, .random = 1,
   .operations = operations, CHECKS(reference, cases));

/* ==== each ================================================================================ */

/* An op that makes one number of a batch, for each of `evaluations` equal parts of the batch: y
 * (evaluations). Inputs are cut along axis 0. Only traces with noise make it, of losses and of
 * reductions over all axes. */

static const swi_each_attrs *attrs_of(const void *attrs)
{
    return attrs;
}

/* The type of one part of an input. */
static sw_type part_type(const sw_type *whole, int64_t evaluations)
{
    sw_type part = *whole;
    part.shape.dim[0] /= evaluations;
    return part;
}

static sw_status each_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_each_attrs *a = attrs;
    const sw_op_desc *desc = swi_op(a->op);
    sw_type parts[4], made[4];
    memset(made, 0, sizeof made);
    if (desc == NULL || desc->attrs_bytes > SWI_EACH_ATTRS || a->evaluations < 1)
        SW_FAIL(SW_INVALID, "each: must be of an op, and of at least 1 evaluation (got %lld)",
                (long long)a->evaluations);
    for (int i = 0; i < n_in; i++) {
        if (in[i].shape.rank < 1 || in[i].shape.dim[0] % a->evaluations != 0)
            SW_FAIL(SW_INVALID,
                    "%s: axis 0 of input %d must be a multiple of the %lld evaluations",
                    desc->name, i, (long long)a->evaluations);
        parts[i] = part_type(&in[i], a->evaluations);
    }
    SW_TRY(desc->infer(parts, n_in, a->attrs, made));
    if (swi_elements(&made[0].shape) != 1 || made[0].dtype != SW_F32)
        SW_FAIL(SW_INVALID, "%s: must make one number of each evaluation", desc->name);
    out[0] = (sw_type){SW_F32, SW_PLAIN, {1, {a->evaluations}}};
    return SW_OK;
}

/* The question to the op about one part. */
typedef struct {
    sw_type in[4], out[4];
    sw_kernel_info info;
} asked;

static bool ask(asked *q, const sw_kernel_info *info)
{
    const swi_each_attrs *a = info->attrs;
    const sw_op_desc *desc = swi_op(a->op);
    memset(q, 0, sizeof *q);
    for (int i = 0; i < info->n_in; i++)
        q->in[i] = part_type(&info->in[i], a->evaluations);
    q->info = (sw_kernel_info)SW_INIT(.in = q->in, .out = q->out, .n_in = info->n_in,
                                      .n_out = desc->n_out + desc->n_extra,
                                      .attrs = desc->attrs_bytes > 0 ? a->attrs : NULL,
                                      .threads = 1, .isa = info->isa, .skipped = ~1u);
    return desc->infer(q->in, info->n_in, a->attrs, q->out) == SW_OK;
}

/* Of one thread. */
static size_t part_scratch(const sw_kernel_info *info)
{
    asked q;
    const sw_op_desc *desc = swi_op(attrs_of(info->attrs)->op);
    if (desc->scratch_bytes == NULL || !ask(&q, info))
        return 0;
    return (desc->scratch_bytes(&q.info) + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
}

SCRATCH(each_scratch_bytes, part_scratch(info) * (size_t)info->threads)

typedef struct {
    const sw_launch *l;
    asked q;
    sw_kernel *kernel;
    size_t scratch;             /* of a thread */
    sw_status status[SW_ALIGN]; /* of the first that failed in a part; index: part */
    int n_parts;
} job;

static sw_status run_one(const job *j, int64_t e, unsigned char *scratch)
{
    const sw_launch *l = j->l;
    sw_buffer in[4], out[4];
    for (int i = 0; i < l->n_in; i++) {
        in[i] = l->in[i];
        in[i].type = j->q.in[i];
        in[i].ptr = (unsigned char *)l->in[i].ptr + (size_t)e * sw_type_bytes(&in[i].type);
    }
    memset(out, 0, sizeof out);
    for (int i = 0; i < j->q.info.n_out; i++)
        out[i].type = j->q.out[i];
    out[0].ptr = swi_out(l, 0) + e;
    sw_launch part = *l;
    part.in = in;
    part.out = out;
    part.n_out = j->q.info.n_out;
    part.scratch = scratch;
    part.scratch_bytes = j->scratch;
    part.attrs = j->q.info.attrs;
    part.accumulate = l->accumulate & 1u;
    part.par = &sw_par_alone;
    return j->kernel(&part);
}

static void run_part(void *arg, int part)
{
    job *j = arg;
    const int64_t n = attrs_of(j->l->attrs)->evaluations;
    const int64_t from = n * part / j->n_parts, to = n * (part + 1) / j->n_parts;
    unsigned char *scratch =
        j->scratch > 0 ? (unsigned char *)j->l->scratch + j->scratch * (size_t)part : NULL;
    for (int64_t e = from; e < to && j->status[part] == SW_OK; e++)
        j->status[part] = run_one(j, e, scratch);
}

static sw_status each_forward(const sw_launch *l)
{
    const swi_each_attrs *a = l->attrs;
    const sw_op_desc *desc = swi_op(a->op);
    job j = {.l = l};
    sw_type types[4];
    sw_kernel_info info = {
        .in = types, .n_in = l->n_in, .attrs = a, .threads = l->par->n_threads, .isa = l->isa};
    for (int i = 0; i < l->n_in; i++)
        types[i] = l->in[i].type;
    if (!ask(&j.q, &info))
        SW_FAIL(SW_INVALID, "%s: its inputs cannot be cut into evaluations", desc->name);
    j.kernel = desc->select != NULL ? desc->select(&j.q.info) : desc->forward;
    j.scratch = part_scratch(&info);
    j.n_parts = l->par->n_threads < SW_ALIGN ? l->par->n_threads : SW_ALIGN;
    l->par->run(l->par, run_part, &j, j.n_parts);
    for (int i = 0; i < j.n_parts; i++)
        if (j.status[i] != SW_OK)
            return j.status[i];
    return SW_OK;
}

static sw_status each_reference(const sw_reference *r)
{
    const swi_each_attrs *a = r->attrs;
    const sw_op_desc *desc = swi_op(a->op);
    sw_type in[4], out[4];
    for (int i = 0; i < r->n_in; i++)
        in[i] = part_type(&r->in_type[i], a->evaluations);
    memset(out, 0, sizeof out);
    SW_TRY(desc->infer(in, r->n_in, a->attrs, out));
    for (int64_t e = 0; e < a->evaluations; e++) {
        const double *x[4];
        double *y[4] = {r->out[0] + e};
        for (int i = 0; i < r->n_in; i++)
            x[i] = r->in[i] + e * swi_elements(&in[i].shape);
        sw_reference part = *r;
        part.in = x;
        part.in_type = in;
        part.out = y;
        part.out_type = out;
        part.attrs = a->attrs;
        SW_TRY(desc->reference(&part));
    }
    return SW_OK;
}

static uint64_t each_operations(const sw_kernel_info *info)
{
    asked q;
    const swi_each_attrs *a = info->attrs;
    const sw_op_desc *desc = swi_op(a->op);
    if (desc->operations == NULL || !ask(&q, info))
        return swi_count_per_element(&info->in[0], 1);
    return swi_count_mul((uint64_t)a->evaluations, desc->operations(&q.info));
}

#define OF(n, a_op) .evaluations = n, .op = SW_OP_##a_op, .name = #a_op
static const swi_each_attrs mse = {OF(6, mse)}, bce_with = {OF(6, bce_with)}, l1 = {OF(6, l1)};
static const swi_each_attrs kl_div = {OF(6, kl_div)}, softmax_ce = {OF(3, softmax_ce)};
static const swi_each_attrs accuracy = {OF(4, accuracy)};
#define PAIR(a_name, a_attrs, a_fill, b_fill)                                                  \
    CASE(a_name, IN(F32(12, 5), F32(12, 5)), .fill = {a_fill, b_fill}, .attrs = a_attrs)
static const sw_op_case each_cases[] = {
    PAIR("mse", &mse, SW_FILL_NORMAL, SW_FILL_NORMAL),
    PAIR("bce with targets", &bce_with, SW_FILL_NORMAL, SW_FILL_UNIT),
    PAIR("l1", &l1, SW_FILL_NORMAL, SW_FILL_NORMAL),
    PAIR("divergence", &kl_div, SW_FILL_NORMAL, SW_FILL_UNIT),
    CASE("cross-entropy", IN(F32(12, 7), U8(12)), FILL(NORMAL, LABELS), .limit = 7,
         AT(softmax_ce)),
    CASE("accuracy", IN(F32(12, 7), I32(12)), FILL(DISTINCT, LABELS), .limit = 7, AT(accuracy)),
};

OP(each, 1, 4, 1, ATTRS(swi_each_attrs), .infer = each_infer,
   .scratch_bytes = each_scratch_bytes, .forward = each_forward, .no_gradient = 1,
   .phase = SW_LOSS, .has_phase = 1, .operations = each_operations,
   CHECKS(each_reference, each_cases));
