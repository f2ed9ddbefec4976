#include "tests/ops/ops_outside.h"
#include <math.h>
#include <string.h>

#define F32(...)                                                                               \
    {                                                                                          \
        SW_F32, SW_PLAIN,                                                                      \
        {                                                                                      \
            sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                \
            {                                                                                  \
                __VA_ARGS__                                                                    \
            }                                                                                  \
        }                                                                                      \
    }

static int64_t elements(const sw_launch *l)
{
    return sw_type_elements(&l->out[0].type);
}

static void put(float *to, int64_t i, float x, uint32_t accumulate)
{
    to[i] = accumulate != 0 ? to[i] + x : x;
}

static sw_status infer_same(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    if (in[0].dtype != SW_F32)
        SW_FAIL(SW_INVALID, "must be f32");
    out[0] = in[0];
    return SW_OK;
}

/* ---- square ------------------------------------------------------------------------------ */

static sw_status square(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        y[i] = x[i] * x[i];
    return SW_OK;
}

static sw_status square_gradient(const sw_launch *l)
{
    const float *x = l->in[0].ptr, *dy = l->in[1].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        put(l->out[0].ptr, i, 2.0f * x[i] * dy[i], l->accumulate & 1u);
    return SW_OK;
}

static sw_status square_reference(const sw_reference *r)
{
    const int64_t n = sw_type_elements(&r->in_type[0]);
    for (int64_t i = 0; i < n; i++)
        r->out[0][i] = r->in[0][i] * r->in[0][i];
    return SW_OK;
}

static const sw_grad_desc square_grads[] = {
    {.n_makes = 1,
     .makes = {0},
     .n_operands = 2,
     .operands = {SW_IN(0), SW_DOUT(0)},
     .inplace = 2,
     .kernel = square_gradient},
};
static const sw_op_case square_cases[] = {
    {.name = "matrix", .n_in = 1, .in = {F32(3, 7)}},
    {.name = "image", .n_in = 1, .in = {F32(18, 2, 3, 5)}},
    {.name = "scalar", .n_in = 1, .in = {{SW_F32, SW_PLAIN, {0, {0}}}}},
};
#define SQUARE(title, kernel)                                                                  \
    .size = sizeof(sw_op_desc), .name = title, .n_in = 1, .n_out = 1, .infer = infer_same,     \
    .forward = kernel, .reference = square_reference, .cases = square_cases, .n_cases = 3

const sw_op_desc outside_square = {SQUARE("outside.square", square), .inplace = 1,
                                   .grads = square_grads, .n_grads = 1};

/* ---- normalise: y = (x - mean) / sqrt(variance + 1e-3) of each row ----------------------- */

typedef struct {
    int64_t rows, cols;
} matrix;

static matrix matrix_of(const sw_type *type)
{
    const int rank = type->shape.rank;
    const int64_t cols = rank > 0 ? type->shape.dim[rank - 1] : 1;
    return (matrix){cols > 0 ? sw_type_elements(type) / cols : 0, cols};
}

/* The row is copied aside, so that the result may take the input's place. */
static size_t normalise_scratch(const sw_kernel_info *info)
{
    return (size_t)matrix_of(&info->in[0]).cols * sizeof(float);
}

static float row_scale(const float *x, int64_t n, float *mean)
{
    float sum = 0.0f, squares = 0.0f;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    *mean = sum / (float)n;
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    return 1.0f / sqrtf(squares / (float)n + 1e-3f);
}

static sw_status normalise(const sw_launch *l)
{
    const matrix m = matrix_of(&l->in[0].type);
    float *row = l->scratch;
    for (int64_t r = 0; r < m.rows; r++) {
        float mean, *y = (float *)l->out[0].ptr + r * m.cols;
        memcpy(row, (const float *)l->in[0].ptr + r * m.cols, (size_t)m.cols * sizeof *row);
        const float scale = row_scale(row, m.cols, &mean);
        for (int64_t i = 0; i < m.cols; i++)
            y[i] = (row[i] - mean) * scale;
    }
    return SW_OK;
}

/* dx = s (dy - mean(dy) - xh mean(dy xh)), s and xh from x again. */
static sw_status normalise_gradient(const sw_launch *l)
{
    const matrix m = matrix_of(&l->in[0].type);
    float *hat = l->scratch;
    for (int64_t r = 0; r < m.rows; r++) {
        const float *x = (const float *)l->in[0].ptr + r * m.cols;
        const float *dy = (const float *)l->in[1].ptr + r * m.cols;
        float *dx = (float *)l->out[0].ptr + r * m.cols, mean, a = 0.0f, b = 0.0f;
        const float scale = row_scale(x, m.cols, &mean);
        for (int64_t i = 0; i < m.cols; i++) {
            hat[i] = (x[i] - mean) * scale;
            a += dy[i];
            b += dy[i] * hat[i];
        }
        for (int64_t i = 0; i < m.cols; i++)
            put(dx, i, scale * (dy[i] - a / (float)m.cols - hat[i] * b / (float)m.cols),
                l->accumulate & 1u);
    }
    return SW_OK;
}

static sw_status normalise_reference(const sw_reference *r)
{
    const matrix m = matrix_of(&r->in_type[0]);
    for (int64_t k = 0; k < m.rows; k++) {
        const double *x = r->in[0] + k * m.cols;
        double mean = 0.0, squares = 0.0;
        for (int64_t i = 0; i < m.cols; i++)
            mean += x[i] / (double)m.cols;
        for (int64_t i = 0; i < m.cols; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        for (int64_t i = 0; i < m.cols; i++)
            r->out[0][k * m.cols + i] = (x[i] - mean) / sqrt(squares / (double)m.cols + 1e-3);
    }
    return SW_OK;
}

static const sw_grad_desc normalise_grads[] = {
    {.n_makes = 1,
     .makes = {0},
     .n_operands = 2,
     .operands = {SW_IN(0), SW_DOUT(0)},
     .scratch_bytes = normalise_scratch,
     .kernel = normalise_gradient},
};
static const sw_op_case normalise_cases[] = {
    {.name = "rows", .n_in = 1, .in = {F32(5, 9)}, .forward_error = 5e-6},
    {.name = "one row", .n_in = 1, .in = {F32(4)}},
};
#define NORMALISE(title)                                                                       \
    .size = sizeof(sw_op_desc), .name = title, .n_in = 1, .n_out = 1, .infer = infer_same,     \
    .scratch_bytes = normalise_scratch, .reference = normalise_reference,                      \
    .cases = normalise_cases, .n_cases = 2, .grads = normalise_grads, .n_grads = 1

const sw_op_desc outside_normalise = {NORMALISE("outside.normalise"), .inplace = 1,
                                      .forward = normalise};

/* ---- pair: y0 = a + b, y1 = a b; the extra keeps -a for db
 * ---------------------------------------- */

static sw_status pair_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    for (int i = 0; i < 3; i++)
        out[i] = in[0];
    return SW_OK;
}

static sw_status pair(const sw_launch *l)
{
    const float *a = l->in[0].ptr, *b = l->in[1].ptr;
    float *sum = l->out[0].ptr, *product = l->out[1].ptr;
    float *extra = l->n_out > 2 ? l->out[2].ptr : NULL; /* NULL: no one reads it */
    for (int64_t i = 0; i < elements(l); i++) {
        sum[i] = a[i] + b[i];
        product[i] = a[i] * b[i];
        if (extra != NULL)
            extra[i] = -a[i];
    }
    return SW_OK;
}

static sw_status pair_da(const sw_launch *l)
{
    const float *b = l->in[0].ptr, *ds = l->in[1].ptr, *dp = l->in[2].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        put(l->out[0].ptr, i, ds[i] + b[i] * dp[i], l->accumulate & 1u);
    return SW_OK;
}

static sw_status pair_db(const sw_launch *l)
{
    const float *minus_a = l->in[0].ptr, *ds = l->in[1].ptr, *dp = l->in[2].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        put(l->out[0].ptr, i, ds[i] - minus_a[i] * dp[i], l->accumulate & 1u);
    return SW_OK;
}

static sw_status pair_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < sw_type_elements(&r->in_type[0]); i++) {
        r->out[0][i] = r->in[0][i] + r->in[1][i];
        r->out[1][i] = r->in[0][i] * r->in[1][i];
    }
    return SW_OK;
}

static const sw_grad_desc pair_grads[] = {
    {.n_makes = 1,
     .makes = {0},
     .n_operands = 3,
     .operands = {SW_IN(1), SW_DOUT(0), SW_DOUT(1)},
     .inplace = 7,
     .kernel = pair_da},
    {.n_makes = 1,
     .makes = {1},
     .n_operands = 3,
     .operands = {SW_OUT(2), SW_DOUT(0), SW_DOUT(1)},
     .inplace = 7,
     .kernel = pair_db},
};
static const sw_op_case pair_cases[] = {
    {.name = "matrices", .n_in = 2, .in = {F32(3, 6), F32(3, 6)}},
};
const sw_op_desc outside_fusion = {.size = sizeof(sw_op_desc),
                                   .name = "outside.pair",
                                   .n_in = 2,
                                   .n_out = 2,
                                   .n_extra = 1,
                                   .infer = pair_infer,
                                   .forward = pair,
                                   .reference = pair_reference,
                                   .cases = pair_cases,
                                   .n_cases = 1,
                                   .grads = pair_grads,
                                   .n_grads = 2};

/* These faults are for the check to find: the address sanitizer would stop at them. */
#define UNSEEN __attribute__((no_sanitize("address")))

/* ---- planted faults ---------------------------------------------------------------------- */

static sw_status not_quite_square(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        y[i] = x[i] * x[i] * 1.001f;
    return SW_OK;
}
const sw_op_desc planted_formula = {SQUARE("planted.formula", not_quite_square),
                                    .grads = square_grads, .n_grads = 1};

static sw_status half_gradient(const sw_launch *l)
{
    const float *x = l->in[0].ptr, *dy = l->in[1].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        put(l->out[0].ptr, i, x[i] * dy[i], l->accumulate & 1u);
    return SW_OK;
}
static const sw_grad_desc half_grads[] = {
    {.n_makes = 1,
     .makes = {0},
     .n_operands = 2,
     .operands = {SW_IN(0), SW_DOUT(0)},
     .kernel = half_gradient},
};
const sw_op_desc planted_gradient = {SQUARE("planted.gradient", square), .grads = half_grads,
                                     .n_grads = 1};

static sw_status overwriting_gradient(const sw_launch *l)
{
    const float *x = l->in[0].ptr, *dy = l->in[1].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        put(l->out[0].ptr, i, 2.0f * x[i] * dy[i], 0);
    return SW_OK;
}
static const sw_grad_desc overwriting_grads[] = {
    {.n_makes = 1,
     .makes = {0},
     .n_operands = 2,
     .operands = {SW_IN(0), SW_DOUT(0)},
     .kernel = overwriting_gradient},
};
const sw_op_desc planted_overwrite = {SQUARE("planted.overwrite", square),
                                      .grads = overwriting_grads, .n_grads = 1};

/* It remembers where its input was instead of saving it. */
static const float *remembered;
static sw_status square_remembering(const sw_launch *l)
{
    remembered = l->in[0].ptr;
    return square(l);
}
UNSEEN static sw_status gradient_from_memory(const sw_launch *l)
{
    const float *dy = l->in[0].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        put(l->out[0].ptr, i, 2.0f * remembered[i] * dy[i], l->accumulate & 1u);
    return SW_OK;
}
static const sw_grad_desc undeclared_grads[] = {
    {.n_makes = 1,
     .makes = {0},
     .n_operands = 1,
     .operands = {SW_DOUT(0)},
     .kernel = gradient_from_memory},
};
static const sw_op_case large_cases[] = {{.name = "matrix", .n_in = 1, .in = {F32(16, 16)}}};
const sw_op_desc planted_undeclared = {.size = sizeof(sw_op_desc),
                                       .name = "planted.undeclared",
                                       .n_in = 1,
                                       .n_out = 1,
                                       .infer = infer_same,
                                       .forward = square_remembering,
                                       .reference = square_reference,
                                       .cases = large_cases,
                                       .n_cases = 1,
                                       .grads = undeclared_grads,
                                       .n_grads = 1};

static sw_status gradient_of_three(const sw_launch *l)
{
    const float *x = l->in[0].ptr, *dy = l->in[2].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        put(l->out[0].ptr, i, 2.0f * x[i] * dy[i], l->accumulate & 1u);
    return SW_OK;
}
static const sw_grad_desc needless_grads[] = {
    {.n_makes = 1,
     .makes = {0},
     .n_operands = 3,
     .operands = {SW_IN(0), SW_OUT(0), SW_DOUT(0)},
     .kernel = gradient_of_three},
};
const sw_op_desc planted_needless = {SQUARE("planted.needless", square),
                                     .grads = needless_grads, .n_grads = 1};

/* Without the copy of the row the mean of y is taken, not that of x. */
static sw_status normalise_carelessly(const sw_launch *l)
{
    const matrix m = matrix_of(&l->in[0].type);
    for (int64_t r = 0; r < m.rows; r++) {
        const float *x = (const float *)l->in[0].ptr + r * m.cols;
        float *y = (float *)l->out[0].ptr + r * m.cols;
        for (int64_t i = 0; i < m.cols; i++) {
            float mean;
            const float scale = row_scale(x, m.cols, &mean);
            y[i] = (x[i] - mean) * scale;
        }
    }
    return SW_OK;
}
const sw_op_desc planted_inplace = {NORMALISE("planted.inplace"), .inplace = 1,
                                    .forward = normalise_carelessly};

UNSEEN static sw_status normalise_wide(const sw_launch *l)
{
    const sw_status status = normalise(l);
    ((float *)l->scratch)[l->scratch_bytes / sizeof(float)] = 1.0f;
    return status;
}
const sw_op_desc planted_scratch = {NORMALISE("planted.scratch"), .forward = normalise_wide};

static sw_status square_but_last(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i + 1 < elements(l); i++)
        y[i] = x[i] * x[i];
    return SW_OK;
}
const sw_op_desc planted_unwritten = {SQUARE("planted.unwritten", square_but_last),
                                      .grads = square_grads, .n_grads = 1};

static sw_status square_by_threads(const sw_launch *l)
{
    const sw_status status = square(l);
    if (l->par->n_threads > 1)
        ((float *)l->out[0].ptr)[0] *= 1.0000002f;
    return status;
}
const sw_op_desc planted_threads = {SQUARE("planted.threads", square_by_threads),
                                    .grads = square_grads, .n_grads = 1};

static sw_status square_by_isa(const sw_launch *l)
{
    return l->isa == SW_ISA_BASE ? not_quite_square(l) : square(l);
}
const sw_op_desc planted_isa = {SQUARE("planted.isa", square_by_isa), .grads = square_grads,
                                .n_grads = 1};

static sw_status square_counting(const sw_launch *l)
{
    static int calls;
    const sw_status status = square(l);
    ((float *)l->out[0].ptr)[0] *= 1.0f + 1e-6f * (float)calls++;
    return status;
}
const sw_op_desc planted_memory = {SQUARE("planted.memory", square_counting),
                                   .grads = square_grads, .n_grads = 1};

static sw_status refuse(const sw_launch *l)
{
    SW_FAIL(SW_UNSUPPORTED, "%d inputs are too many", l->n_in);
}
const sw_op_desc planted_refusal = {SQUARE("planted.refusal", refuse), .grads = square_grads,
                                    .n_grads = 1};

/* y = a * b, with one kernel for both gradients. */
static sw_status product(const sw_launch *l)
{
    const float *a = l->in[0].ptr, *b = l->in[1].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        y[i] = a[i] * b[i];
    return SW_OK;
}
static sw_status product_gradient(const sw_launch *l)
{
    const float *a = l->in[0].ptr, *b = l->in[1].ptr, *dy = l->in[2].ptr;
    for (int64_t i = 0; i < elements(l); i++) {
        put(l->out[0].ptr, i, b[i] * dy[i], l->accumulate & 1u);
        put(l->out[1].ptr, i, a[i] * dy[i], l->accumulate & 2u);
    }
    return SW_OK;
}
static sw_status product_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < sw_type_elements(&r->in_type[0]); i++)
        r->out[0][i] = r->in[0][i] * r->in[1][i];
    return SW_OK;
}
static const sw_grad_desc joint_grads[] = {
    {.n_makes = 2,
     .makes = {0, 1},
     .n_operands = 3,
     .operands = {SW_IN(0), SW_IN(1), SW_DOUT(0)},
     .kernel = product_gradient},
};
/* Its gradient takes one value for two inputs to be something else. */
static sw_status product_gradient_apart(const sw_launch *l)
{
    SW_TRY(product_gradient(l));
    for (int64_t i = 0; l->in[0].ptr == l->in[1].ptr && i < elements(l); i++)
        ((float *)l->out[1].ptr)[i] = 0.0f;
    return SW_OK;
}
static const sw_grad_desc one_grads[] = {{.n_makes = 2,
                                          .makes = {0, 1},
                                          .n_operands = 3,
                                          .operands = {SW_IN(0), SW_IN(1), SW_DOUT(0)},
                                          .kernel = product_gradient_apart}};
static const sw_op_case joint_cases[] = {
    {.name = "matrices", .n_in = 2, .in = {F32(3, 5), F32(3, 5)}},
};
const sw_op_desc outside_joint = {.size = sizeof(sw_op_desc),
                                  .name = "outside.joint",
                                  .n_in = 2,
                                  .n_out = 1,
                                  .infer = infer_same,
                                  .forward = product,
                                  .reference = product_reference,
                                  .cases = joint_cases,
                                  .n_cases = 1,
                                  .grads = joint_grads,
                                  .n_grads = 1};

/* y = a b (a + b): each gradient reads both inputs, and is left out unless requested. */
static sw_status mixed(const sw_launch *l)
{
    const float *a = l->in[0].ptr, *b = l->in[1].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i < elements(l); i++)
        y[i] = a[i] * b[i] * (a[i] + b[i]);
    return SW_OK;
}
static sw_status mixed_gradient(const sw_launch *l)
{
    const float *a = l->in[0].ptr, *b = l->in[1].ptr, *dy = l->in[2].ptr;
    float *da = l->out[0].ptr, *db = l->out[1].ptr;
    for (int64_t i = 0; i < elements(l); i++) {
        if (da != NULL)
            put(da, i, b[i] * (2.0f * a[i] + b[i]) * dy[i], l->accumulate & 1u);
        if (db != NULL)
            put(db, i, a[i] * (2.0f * b[i] + a[i]) * dy[i], l->accumulate & 2u);
    }
    return SW_OK;
}
static sw_status mixed_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < sw_type_elements(&r->in_type[0]); i++)
        r->out[0][i] = r->in[0][i] * r->in[1][i] * (r->in[0][i] + r->in[1][i]);
    return SW_OK;
}
#define MIXED_GRADS(how)                                                                       \
    {                                                                                          \
        {                                                                                      \
            .n_makes = 2, .makes = {0, 1}, .n_operands = 3,                                    \
            .operands = {SW_IN(0), SW_IN(1), SW_DOUT(0)}, .kernel = how                        \
        }                                                                                      \
    }
#define MIXED(op_name, how)                                                                    \
    .size = sizeof(sw_op_desc), .name = op_name, .n_in = 2, .n_out = 1, .infer = infer_same,   \
    .forward = mixed, .reference = mixed_reference, .cases = joint_cases, .n_cases = 1,        \
    .grads = how, .n_grads = 1, .skips = 1
static const sw_grad_desc mixed_grads[] = MIXED_GRADS(mixed_gradient);
const sw_op_desc outside_skips = {MIXED("outside.skips", mixed_grads)};

/* Takes the gradient that it leaves out to be zero. */
static sw_status mixed_gradient_of_zero(const sw_launch *l)
{
    SW_TRY(mixed_gradient(l));
    for (int64_t i = 0; l->out[0].ptr == NULL && i < elements(l); i++)
        ((float *)l->out[1].ptr)[i] = 0.0f;
    return SW_OK;
}
static const sw_grad_desc zero_grads[] = MIXED_GRADS(mixed_gradient_of_zero);
const sw_op_desc planted_skips = {MIXED("planted.skips", zero_grads)};

const sw_op_desc planted_one = {.size = sizeof(sw_op_desc),
                                .name = "planted.one",
                                .n_in = 2,
                                .n_out = 1,
                                .infer = infer_same,
                                .forward = product,
                                .reference = product_reference,
                                .cases = joint_cases,
                                .n_cases = 1,
                                .grads = one_grads,
                                .n_grads = 1};

/* The outer product: no operand has the bytes of the result. */
static sw_status outer_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = (sw_type){SW_F32, SW_PLAIN, {2, {in[0].shape.dim[0], in[0].shape.dim[0]}}};
    return SW_OK;
}
static sw_status outer(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    const int64_t n = l->in[0].type.shape.dim[0];
    for (int64_t i = 0; i < n * n; i++)
        put(l->out[0].ptr, i, x[i / n] * x[i % n], 0);
    return SW_OK;
}
static sw_status outer_reference(const sw_reference *r)
{
    const int64_t n = r->in_type[0].shape.dim[0];
    for (int64_t i = 0; i < n * n; i++)
        r->out[0][i] = r->in[0][i / n] * r->in[0][i % n];
    return SW_OK;
}
static const sw_op_case outer_cases[] = {{.name = "vector", .n_in = 1, .in = {F32(5)}}};
const sw_op_desc planted_untried = {.size = sizeof(sw_op_desc),
                                    .name = "planted.untried",
                                    .n_in = 1,
                                    .n_out = 1,
                                    .infer = outer_infer,
                                    .inplace = 1,
                                    .forward = outer,
                                    .no_gradient = 1,
                                    .reference = outer_reference,
                                    .cases = outer_cases,
                                    .n_cases = 1};
