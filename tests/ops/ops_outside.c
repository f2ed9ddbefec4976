#include "tests/ops/ops_outside.h"
#include <math.h>
#include <string.h>

/* clang-format off */
#define F32(...)                                                                               \
    {SW_F32, SW_PLAIN, {sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}}}
#define CASE(title, n, ...) {.name = title, .n_in = n, .in = {__VA_ARGS__}}
/* One kernel that makes the gradients of the first n inputs, from these operands. */
#define GRADIENT(table, n, function, from, ...)                                                \
    static const sw_grad_desc table[] = {{.n_makes = n, .makes = {0, (n) > 1}, from,           \
                                          .kernel = function, __VA_ARGS__}}
#define FROM_X .n_operands = 2, .operands = {SW_IN(0), SW_DOUT(0)}
#define FROM_AB .n_operands = 3, .operands = {SW_IN(0), SW_IN(1), SW_DOUT(0)}

#define OP(title, in, out, types, kernel, by, table)                                           \
    .size = sizeof(sw_op_desc), .name = title, .n_in = in, .n_out = out, .infer = types,       \
    .forward = kernel, .reference = by, .cases = table,                                        \
    .n_cases = sizeof(table) / sizeof *(table)
#define GRADS(table) .grads = table, .n_grads = sizeof(table) / sizeof *(table)

/* Element i of the result, of the first gradient (of x, then b where there is one, then dy),
 * and of the result in float64. */
#define FORWARD(name, ...)                                                                     \
    static sw_status name(const sw_launch *l)                                                  \
    {                                                                                          \
        const float *x = l->in[0].ptr, *b = l->in[l->n_in - 1].ptr;                            \
        float *y = l->out[0].ptr;                                                              \
        (void)b;                                                                               \
        for (int64_t i = 0; i < elements(l); i++)                                              \
            y[i] = __VA_ARGS__;                                                                \
        return SW_OK;                                                                          \
    }
#define BACKWARD(name, adds, ...)                                                              \
    static sw_status name(const sw_launch *l)                                                  \
    {                                                                                          \
        const float *x = l->in[0].ptr, *b = l->in[1].ptr, *dy = l->in[l->n_in - 1].ptr;        \
        (void)b;                                                                               \
        for (int64_t i = 0; i < elements(l); i++)                                              \
            put(l->out[0].ptr, i, __VA_ARGS__, (adds) & 1u);                                   \
        return SW_OK;                                                                          \
    }
#define REFERENCE(name, ...)                                                                   \
    static sw_status name(const sw_reference *r)                                               \
    {                                                                                          \
        const double *x = r->in[0], *b = r->in[r->n_in - 1];                                   \
        (void)b;                                                                               \
        for (int64_t i = 0; i < sw_type_elements(&r->in_type[0]); i++)                         \
            r->out[0][i] = __VA_ARGS__;                                                        \
        return SW_OK;                                                                          \
    }
/* clang-format on */

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
    if (in[0].dtype != SW_F32)
        SW_FAIL(SW_INVALID, "must be f32");
    out[0] = in[0];
    return SW_OK;
}

/* ---- square ------------------------------------------------------------------------------ */

FORWARD(square, x[i] * x[i])
BACKWARD(square_gradient, l->accumulate, 2.0f * x[i] * dy[i])
REFERENCE(square_reference, x[i] * x[i])

GRADIENT(square_grads, 1, square_gradient, FROM_X, .inplace = 2);
static const sw_op_case square_cases[] = {
    CASE("matrix", 1, F32(3, 7)),
    CASE("image", 1, F32(18, 2, 3, 5)),
    {.name = "scalar", .n_in = 1, .in = {{SW_F32, SW_PLAIN, {0, {0}}}}},
};
#define SQUARE(title, kernel)                                                                  \
    OP(title, 1, 1, infer_same, kernel, square_reference, square_cases)

const sw_op_desc outside_square = {SQUARE("outside.square", square), .inplace = 1,
                                   GRADS(square_grads)};

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

GRADIENT(normalise_grads, 1, normalise_gradient, FROM_X, .scratch_bytes = normalise_scratch);
static const sw_op_case normalise_cases[] = {
    {.name = "rows", .n_in = 1, .in = {F32(5, 9)}, .forward_error = 5e-6},
    CASE("one row", 1, F32(4)),
};
#define NORMALISE(title, kernel)                                                               \
    OP(title, 1, 1, infer_same, kernel, normalise_reference, normalise_cases),                 \
        .scratch_bytes = normalise_scratch, GRADS(normalise_grads)

const sw_op_desc outside_normalise = {NORMALISE("outside.normalise", normalise), .inplace = 1};

/* ---- pair: y0 = a + b, y1 = a b; the extra keeps -a for db * ----------------------------- */

static sw_status pair_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
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

BACKWARD(pair_da, l->accumulate, b[i] + x[i] * dy[i]) /* b, ds, dp */
BACKWARD(pair_db, l->accumulate, b[i] - x[i] * dy[i]) /* -a, ds, dp */

static sw_status pair_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < sw_type_elements(&r->in_type[0]); i++) {
        r->out[0][i] = r->in[0][i] + r->in[1][i];
        r->out[1][i] = r->in[0][i] * r->in[1][i];
    }
    return SW_OK;
}

static const sw_grad_desc pair_grads[] = {{.n_makes = 1,
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
                                           .kernel = pair_db}};
static const sw_op_case pair_cases[] = {CASE("matrices", 2, F32(3, 6), F32(3, 6))};
const sw_op_desc outside_fusion = {
    OP("outside.pair", 2, 2, pair_infer, pair, pair_reference, pair_cases), .n_extra = 1,
    GRADS(pair_grads)};

/* These faults are for the check to find: the address sanitizer would stop at them. */
#define UNSEEN __attribute__((no_sanitize("address")))

/* ---- planted faults ---------------------------------------------------------------------- */

FORWARD(not_quite_square, x[i] * x[i] * 1.001f)
const sw_op_desc planted_formula = {SQUARE("planted.formula", not_quite_square),
                                    GRADS(square_grads)};

BACKWARD(half_gradient, l->accumulate, x[i] * dy[i])
GRADIENT(half_grads, 1, half_gradient, FROM_X, .inplace = 0);
const sw_op_desc planted_gradient = {SQUARE("planted.gradient", square), GRADS(half_grads)};

BACKWARD(overwriting_gradient, 0, 2.0f * x[i] * dy[i])
GRADIENT(overwriting_grads, 1, overwriting_gradient, FROM_X, .inplace = 0);
const sw_op_desc planted_overwrite = {SQUARE("planted.overwrite", square),
                                      GRADS(overwriting_grads)};

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
GRADIENT(undeclared_grads, 1, gradient_from_memory, .n_operands = 1, .operands = {SW_DOUT(0)});
static const sw_op_case large_cases[] = {CASE("matrix", 1, F32(16, 16))};
const sw_op_desc planted_undeclared = {OP("planted.undeclared", 1, 1, infer_same,
                                          square_remembering, square_reference, large_cases),
                                       GRADS(undeclared_grads)};

BACKWARD(gradient_of_three, l->accumulate, 2.0f * x[i] * dy[i])
GRADIENT(needless_grads, 1, gradient_of_three, .n_operands = 3,
         .operands = {SW_IN(0), SW_OUT(0), SW_DOUT(0)});
const sw_op_desc planted_needless = {SQUARE("planted.needless", square), GRADS(needless_grads)};

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
const sw_op_desc planted_inplace = {NORMALISE("planted.inplace", normalise_carelessly),
                                    .inplace = 1};

UNSEEN static sw_status normalise_wide(const sw_launch *l)
{
    const sw_status status = normalise(l);
    ((float *)l->scratch)[l->scratch_bytes / sizeof(float)] = 1.0f;
    return status;
}
const sw_op_desc planted_scratch = {NORMALISE("planted.scratch", normalise_wide)};

static sw_status square_but_last(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i + 1 < elements(l); i++)
        y[i] = x[i] * x[i];
    return SW_OK;
}
const sw_op_desc planted_unwritten = {SQUARE("planted.unwritten", square_but_last),
                                      GRADS(square_grads)};

static sw_status square_by_threads(const sw_launch *l)
{
    const sw_status status = square(l);
    if (l->par->n_threads > 1)
        ((float *)l->out[0].ptr)[0] *= 1.0000002f;
    return status;
}
const sw_op_desc planted_threads = {SQUARE("planted.threads", square_by_threads),
                                    GRADS(square_grads)};

static sw_status square_by_isa(const sw_launch *l)
{
    return l->isa == SW_ISA_BASE ? not_quite_square(l) : square(l);
}
const sw_op_desc planted_isa = {SQUARE("planted.isa", square_by_isa), GRADS(square_grads)};

static sw_status square_counting(const sw_launch *l)
{
    static int calls;
    const sw_status status = square(l);
    ((float *)l->out[0].ptr)[0] *= 1.0f + 1e-6f * (float)calls++;
    return status;
}
const sw_op_desc planted_memory = {SQUARE("planted.memory", square_counting),
                                   GRADS(square_grads)};

static sw_status refuse(const sw_launch *l)
{
    SW_FAIL(SW_UNSUPPORTED, "%d inputs are too many", l->n_in);
}
const sw_op_desc planted_refusal = {SQUARE("planted.refusal", refuse), GRADS(square_grads)};

/* y = a * b, with one kernel for both gradients. */
FORWARD(product, x[i] * b[i])
static sw_status product_gradient(const sw_launch *l)
{
    const float *a = l->in[0].ptr, *b = l->in[1].ptr, *dy = l->in[2].ptr;
    for (int64_t i = 0; i < elements(l); i++) {
        put(l->out[0].ptr, i, b[i] * dy[i], l->accumulate & 1u);
        put(l->out[1].ptr, i, a[i] * dy[i], l->accumulate & 2u);
    }
    return SW_OK;
}
REFERENCE(product_reference, x[i] * b[i])
GRADIENT(joint_grads, 2, product_gradient, FROM_AB, .inplace = 0);
/* Its gradient takes one value for two inputs to be something else. */
static sw_status product_gradient_apart(const sw_launch *l)
{
    SW_TRY(product_gradient(l));
    for (int64_t i = 0; l->in[0].ptr == l->in[1].ptr && i < elements(l); i++)
        ((float *)l->out[1].ptr)[i] = 0.0f;
    return SW_OK;
}
GRADIENT(one_grads, 2, product_gradient_apart, FROM_AB, .inplace = 0);
static const sw_op_case joint_cases[] = {CASE("matrices", 2, F32(3, 5), F32(3, 5))};
const sw_op_desc outside_joint = {
    OP("outside.joint", 2, 1, infer_same, product, product_reference, joint_cases),
    GRADS(joint_grads)};

/* y = a b (a + b): each gradient reads both inputs, and is left out unless requested. */
FORWARD(mixed, x[i] * b[i] * (x[i] + b[i]))
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
REFERENCE(mixed_reference, x[i] * b[i] * (x[i] + b[i]))
#define MIXED(title, how)                                                                      \
    OP(title, 2, 1, infer_same, mixed, mixed_reference, joint_cases), GRADS(how), .skips = 1
GRADIENT(mixed_grads, 2, mixed_gradient, FROM_AB, .inplace = 0);
const sw_op_desc outside_skips = {MIXED("outside.skips", mixed_grads)};

/* Takes the gradient that it leaves out to be zero. */
static sw_status mixed_gradient_of_zero(const sw_launch *l)
{
    SW_TRY(mixed_gradient(l));
    for (int64_t i = 0; l->out[0].ptr == NULL && i < elements(l); i++)
        ((float *)l->out[1].ptr)[i] = 0.0f;
    return SW_OK;
}
GRADIENT(zero_grads, 2, mixed_gradient_of_zero, FROM_AB, .inplace = 0);
const sw_op_desc planted_skips = {MIXED("planted.skips", zero_grads)};

const sw_op_desc planted_one = {
    OP("planted.one", 2, 1, infer_same, product, product_reference, joint_cases),
    GRADS(one_grads)};

/* The outer product: no operand has the bytes of the result. */
static sw_status outer_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
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
static const sw_op_case outer_cases[] = {CASE("vector", 1, F32(5))};
const sw_op_desc planted_untried = {
    OP("planted.untried", 1, 1, outer_infer, outer, outer_reference, outer_cases), .inplace = 1,
    .no_gradient = 1};
