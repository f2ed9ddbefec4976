/* Pointwise ops and their losses beyond what descriptors promise: errors against float64 over
 * whole ranges, the ends of the ranges, the same bits for any number of threads, what is kept,
 * and what is refused. */
#include "kernels/scalar.h"
#include "runtime/exec/exec.h"
#include "tests/ops/pointwise_list.h"
#include "tests/support/made.h"

SW_TESTS("point")

/* ---- scalar formulas --------------------------------------------------------------------- */

#define FLOAT(name, ...)                                                                       \
    static float name(float x)                                                                 \
    {                                                                                          \
        return __VA_ARGS__;                                                                    \
    }
#define DOUBLE(name, ...)                                                                      \
    static double name(double x)                                                               \
    {                                                                                          \
        return __VA_ARGS__;                                                                    \
    }
FLOAT(root_of_x, sw_powf(x, 0.375))
FLOAT(fifth_below, sw_powf(x, -5.0))

DOUBLE(below_double, 0.5 * erfc(-x * 0.70710678118654752440))
DOUBLE(bell_double, exp(-0.5 * x * x) * 0.39894228040143267794)
DOUBLE(gelu_double, below_double(x) * x)
DOUBLE(gelu_slope_double, below_double(x) + x * bell_double(x))
DOUBLE(sigmoid_double, x >= 0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x)))
DOUBLE(gelu_tanh_double, sigmoid_double(1.5957691216057307117 * (x + 0.044715 * x * x * x)) * x)
static double gelu_tanh_slope_double(double x)
{
    const double u = 1.5957691216057307117 * (x + 0.044715 * x * x * x);
    const double slope = 1.5957691216057307117 * (1.0 + 0.134145 * x * x);
    return sigmoid_double(u) + x * sigmoid_double(u) * sigmoid_double(-u) * slope;
}
DOUBLE(softplus_double, (x > 0 ? x : 0) + log1p(exp(-fabs(x))))
DOUBLE(mish_double, tanh(softplus_double(x)) * x)
static double mish_slope_double(double x)
{
    const double w = tanh(softplus_double(x));
    return w + x * (1.0 - w * w) * sigmoid_double(x);
}
DOUBLE(root_double, pow(x, 0.375))
DOUBLE(fifth_double, pow(x, -5.0))

/* ulp: of the float nearest to the true value, or to `absolute` where that is larger: for what
 * crosses 0. */
static const struct {
    const char *name;
    float (*f)(float x);
    double (*exact)(double x);
    float low, high;
    double most_ulp, absolute;
} formulas[] = {
    {"gelu", sw_gelu_value, gelu_double, -12.5f, 13.0f, 8.0, 0.0},
    {"slope of gelu", sw_gelu_slope, gelu_slope_double, -12.9f, 13.0f, 4.0, 0.5},
    {"gelu by tanh", sw_gelu_tanh_value, gelu_tanh_double, -5.0f, 9.0f, 40.0, 0.0},
    {"slope of gelu by tanh", sw_gelu_tanh_slope, gelu_tanh_slope_double, -12.0f, 13.0f, 4.0,
     0.5},
    {"mish", sw_mish_value, mish_double, -60.0f, 60.0f, 6.0, 0.0},
    {"slope of mish", sw_mish_slope, mish_slope_double, -40.0f, 40.0f, 4.0, 0.5},
    {"softplus", sw_softplus_value, softplus_double, -80.0f, 80.0f, 6.0, 0.0},
    {"e^x - 1", sw_expm1f, expm1, -20.0f, 0.5f, 4.0, 0.0},
    {"exp", sw_exp_value, exp, -87.2f, 88.7f, 4.0, 0.0},
    {"log", sw_log_value, log, 1e-30f, 1e30f, 2.0, 0.0},
    {"x^0.375", root_of_x, root_double, 1e-30f, 1e30f, 0.51, 0.0},
    {"x^-5", fifth_below, fifth_double, -50.0f, 50.0f, 0.51, 0.0},
};

static double ulp_of(double y)
{
    int e;
    frexp(y, &e);
    return ldexp(1.0, (e < -125 ? -125 : e) - 24);
}

static double worst_error(size_t i, int n, float *at)
{
    sw_dice dice = {17 + i};
    const float low = formulas[i].low, high = formulas[i].high;
    double worst = 0.0;
    for (int k = 0; k < n; k++) {
        const double u = (double)sw_dice_below(&dice, 1u << 30) / (double)(1u << 30);
        const bool wide = low > 0.0f; /* over many powers of two: even in the logarithm */
        const float x =
            (float)(wide ? exp(log((double)low) + u * (log((double)high) - log((double)low)))
                         : (double)low + u * ((double)high - (double)low));
        const double y = formulas[i].exact((double)x);
        const double size = fmax(fabs(y), formulas[i].absolute);
        const double error = fabs((double)formulas[i].f(x) - y) / ulp_of(size);
        if (!(error <= worst)) {
            worst = error;
            *at = x;
        }
    }
    return worst;
}

SW_TEST("formulas stay near float64")
{
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        float at = 0.0f;
        const double worst = worst_error(i, sw_tests_full() ? 20000000 : 200000, &at);
        SW_CHECK(worst <= formulas[i].most_ulp, "%s: %.2f ulp at %.9g, %.2f are promised",
                 formulas[i].name, worst, (double)at, formulas[i].most_ulp);
        sw_note("%s: %.2f ulp", formulas[i].name, worst);
    }
}

SW_TEST("the ends of ranges are what people expect")
{
    const float inf = HUGE_VALF;
    CU_ASSERT_EQUAL(sw_exp_value(-inf), 0.0f);
    CU_ASSERT_EQUAL(sw_exp_value(inf), inf);
    CU_ASSERT_EQUAL(sw_exp_value(89.5f), inf);
    CU_ASSERT(isfinite(sw_exp_value(88.72f)) && isnan(sw_exp_value(NAN)));
    CU_ASSERT_EQUAL(sw_log_value(0.0f), -inf);
    CU_ASSERT_EQUAL(sw_log_value(inf), inf);
    CU_ASSERT(isnan(sw_log_value(-1.0f)) && isnan(sw_log_value(NAN)));
    CU_ASSERT_EQUAL(sw_powf(0.0f, 0.5), 0.0f);
    CU_ASSERT_EQUAL(sw_powf(0.0f, -2.0), inf);
    CU_ASSERT_EQUAL(sw_powf(0.0f, 0.0), 1.0f);
    CU_ASSERT_EQUAL(sw_powf(-2.0f, 5.0), -32.0f);
    CU_ASSERT_EQUAL(sw_powf(-2.0f, 4.0), 16.0f);
    CU_ASSERT_EQUAL(sw_powf(inf, 0.01), inf);
    CU_ASSERT_EQUAL(sw_powf(inf, -0.01), 0.0f);
    CU_ASSERT_EQUAL(sw_powf(1e30f, 2.0), inf);
    CU_ASSERT_EQUAL(sw_powf(7.0f, 1.0), 7.0f);
    CU_ASSERT(isnan(sw_powf(-2.0f, 0.5)) && isnan(sw_powf(NAN, 2.0)));
    CU_ASSERT_EQUAL(sw_gelu_value(1e30f), 1e30f);
    CU_ASSERT(fabsf(sw_gelu_value(-20.0f)) < 1e-36f && isnan(sw_gelu_value(NAN)));
    CU_ASSERT_EQUAL(sw_gelu_slope(1e38f), 1.0f);
    CU_ASSERT_EQUAL(sw_gelu_tanh_slope(1e30f), 1.0f);
    CU_ASSERT(fabsf(sw_gelu_tanh_slope(-1e30f)) < 1e-30f);
    CU_ASSERT_EQUAL(sw_mish_value(1e30f), 1e30f);
    CU_ASSERT(fabsf(sw_mish_value(-80.0f)) < 1e-30f);
    CU_ASSERT_EQUAL(sw_softplus_value(1e30f), 1e30f);
    CU_ASSERT_EQUAL(sw_elu_value(-inf, 1.0f), -1.0f);
    CU_ASSERT_EQUAL(sw_hard_swish_value(-1e30f) + 0.0f, 0.0f);
}

/* ---- bits and threads -------------------------------------------------------------------- */

enum { ROWS = 7003, N = ROWS * POINT_CLASSES }; /* five parts, the last one not full */

static struct {
    float x[N], t[N], w[N];
    uint8_t mask[N];
    int32_t labels[ROWS];
} numbers;

typedef struct {
    size_t op;
    sw_param x;
    sw_optimizer *optimizer;
} use;

typedef struct {
    float y[N], dx[N];
} result;

static void step(sw_ctx *c, void *user)
{
    use *u = user;
    const sw_value y = point_list[u->op].run(c, sw_use(c, u->x));
    const sw_value loss =
        point_list[u->op].is_loss ? y : sw_sum(c, sw_mul(c, y, sw_input(c, 3)), 0);
    sw_output(c, "y", y);
    sw_backward(c, loss, &u->optimizer, 1);
    sw_accumulate(c, u->optimizer);
}

static void fill(float *to, float low, float high, uint64_t seed)
{
    sw_dice dice = {seed};
    for (int i = 0; i < N; i++)
        to[i] = low + (high - low) * (float)sw_dice_below(&dice, 1u << 24) / (float)(1u << 24);
}

static sw_exec *exec_of(int threads)
{
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .threads = threads));
    return exec;
}

static sw_model *model_of(use *u)
{
    sw_model *model = made_model("point");
    u->x = sw_param_new(model, "x", SW_F32, SW_SHAPE(N), "zeros");
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1);
    CU_ASSERT_EQUAL_FATAL(sw_optimizer_create(&u->optimizer, model, &opts), SW_OK);
    return model;
}

static sw_status run_op(sw_exec *exec, sw_model *model, use *u, result *r)
{
    const sw_array inputs[] = {{SW_F32, SW_SHAPE(N), numbers.t},
                               {SW_U8, SW_SHAPE(N), numbers.mask},
                               {SW_I32, SW_SHAPE(ROWS), numbers.labels},
                               {SW_F32, SW_SHAPE(N), numbers.w}};
    const size_t y_bytes = (point_list[u->op].is_loss ? 1 : N) * sizeof(float);
    memset(r, 0, sizeof *r);
    SW_TRY(sw_model_ready(model, exec, 1));
    SW_TRY(sw_param_write(u->x, numbers.x, sizeof numbers.x));
    SW_TRY(sw_run(exec,
                  &SW_OPTS(sw_run_args, .fn = step, .user = u, .models = &model, .n_models = 1,
                           .inputs = inputs, .n_inputs = 4, .variant = u->op)));
    sw_array y;
    SW_TRY(sw_output_get(exec, "y", &y));
    memcpy(r->y, y.data, y_bytes);
    return sw_param_gradient(u->x, r->dx, sizeof r->dx);
}

static void draw(size_t op)
{
    sw_dice dice = {99};
    fill(numbers.x, point_list[op].low, point_list[op].high, 1);
    fill(numbers.t, 0.1f, 1.0f, 2);
    fill(numbers.w, -1.0f, 1.0f, 3);
    for (int i = 0; i < N; i++)
        numbers.mask[i] = (uint8_t)sw_dice_below(&dice, 2);
    for (int i = 0; i < ROWS; i++)
        numbers.labels[i] = (int32_t)sw_dice_below(&dice, POINT_CLASSES);
}

/* Executions with 1 to 4 threads in random order, twice each. */
SW_TEST("any number of threads gives the same bits")
{
    static result first, r;
    sw_dice dice = {5};
    use u = {0};
    sw_model *model = model_of(&u);
    sw_exec *execs[4];
    for (int i = 0; i < 4; i++)
        execs[i] = exec_of(i + 1);
    for (u.op = 0; u.op < POINT_COUNT; u.op++) {
        draw(u.op);
        for (int k = 0; k < 9; k++) {
            const uint64_t at = sw_dice_below(&dice, 4);
            SW_CHECK(run_op(execs[at], model, &u, k == 0 ? &first : &r) == SW_OK, "%s: %s",
                     point_list[u.op].name, sw_last_error());
            SW_CHECK(k == 0 || memcmp(&first, &r, sizeof r) == 0,
                     "%s: other bits with %u threads", point_list[u.op].name, (unsigned)at + 1);
        }
    }
}

/* ---- bends, ignored rows ----------------------------------------------------------------- */

static size_t named(const char *name)
{
    for (size_t i = 0; i < POINT_COUNT; i++)
        if (strcmp(point_list[i].name, name) == 0)
            return i;
    CU_FAIL_FATAL("no such op in the list");
    return 0;
}

/* abs has the slope 0 at 0, clamp 1 at its bounds. */
SW_TEST("slopes at bends are what the header says")
{
    static result r;
    use u = {.op = named("abs")};
    sw_model *model = model_of(&u);
    sw_exec *exec = exec_of(2);
    draw(u.op);
    const float at[] = {0.0f, -0.0f, 1e-30f, -1e-30f, -0.5f, 0.75f, 0.7501f, -0.5001f};
    const float abs_slope[] = {0, 0, 1, -1, -1, 1, 1, -1};
    const float clamp_slope[] = {1, 1, 1, 1, 1, 1, 0, 0};
    memcpy(numbers.x, at, sizeof at);
    CU_ASSERT_EQUAL_FATAL(run_op(exec, model, &u, &r), SW_OK);
    for (int i = 0; i < 8; i++) {
        CU_ASSERT_EQUAL(r.dx[i], numbers.w[i] * abs_slope[i]);
        CU_ASSERT_EQUAL(r.y[i], fabsf(at[i]));
    }
    u.op = named("clamp");
    CU_ASSERT_EQUAL_FATAL(run_op(exec, model, &u, &r), SW_OK);
    for (int i = 0; i < 8; i++)
        CU_ASSERT_EQUAL(r.dx[i], numbers.w[i] * clamp_slope[i]);
}

/* Rows of the ignored label give zeros whatever they hold; where all are ignored, the loss is
 * 0 too. Smoothing 0 without such rows is the loss without options. */
SW_TEST("ignored rows do not count")
{
    static result r, plain;
    use u = {.op = named("ce_both")};
    sw_model *model = model_of(&u);
    sw_exec *exec = exec_of(3);
    draw(u.op);
    numbers.labels[0] = POINT_IGNORED;
    numbers.labels[1] = POINT_IGNORED + 1;
    numbers.x[4] = NAN; /* in row 0 */
    CU_ASSERT_EQUAL_FATAL(run_op(exec, model, &u, &r), SW_OK);
    CU_ASSERT(isfinite(r.y[0]) && r.y[0] > 0.0f);
    for (int i = 0; i < POINT_CLASSES; i++) {
        CU_ASSERT_EQUAL(r.dx[i], 0.0f);
        CU_ASSERT_NOT_EQUAL(r.dx[POINT_CLASSES + i], 0.0f);
    }
    for (int i = 0; i < ROWS; i++)
        numbers.labels[i] = POINT_IGNORED;
    CU_ASSERT_EQUAL_FATAL(run_op(exec, model, &u, &r), SW_OK);
    CU_ASSERT_EQUAL(r.y[0], 0.0f);
    for (int i = 0; i < N; i++)
        CU_ASSERT_EQUAL(r.dx[i], 0.0f);
    draw(u.op);
    for (int i = 0; i < ROWS; i++)
        numbers.labels[i] += numbers.labels[i] == POINT_IGNORED;
    u.op = named("ce_ignore");
    CU_ASSERT_EQUAL_FATAL(run_op(exec, model, &u, &r), SW_OK);
    u.op = named("ce");
    CU_ASSERT_EQUAL_FATAL(run_op(exec, model, &u, &plain), SW_OK);
    CU_ASSERT_EQUAL(memcmp(&r, &plain, sizeof r), 0);
    numbers.labels[5] = POINT_CLASSES; /* not a class, and not the one that is ignored */
    u.op = named("ce_ignore");
    CU_ASSERT_EQUAL(run_op(exec, model, &u, &r), SW_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "row 5: the label must be 0 to 9 (got 10)"));
}

/* ---- what is kept ------------------------------------------------------------------------ */

/* By hand: operands that gradient kernels name, as bits of inputs and of outputs; kernels of
 * the first input. */
static const struct {
    const char *name;
    unsigned inputs, outputs;
} kept[] = {
    {"gelu", 1, 0},  {"gelu_tanh", 1, 0},  {"mish", 1, 0}, {"softplus", 1, 0}, {"elu", 1, 0},
    {"selu", 1, 0},  {"hard_swish", 1, 0}, {"exp", 0, 1},  {"log", 1, 0},      {"sqrt", 0, 1},
    {"rsqrt", 0, 1}, {"pow", 1, 0},        {"abs", 0, 2},  {"clamp", 0, 2},    {"huber", 3, 0},
    {"l1", 3, 0},    {"kl_div", 2, 0},
};

static const sw_op_desc *desc_of(const char *name)
{
    for (uint32_t id = 0; sw_op_at(id) != NULL; id++)
        if (strcmp(sw_op_at(id)->name, name) == 0)
            return sw_op_at(id);
    CU_FAIL_FATAL("no such op");
    return NULL;
}

SW_TEST("each op keeps the least")
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const sw_grad_desc *g = &desc_of(kept[i].name)->grads[0];
        unsigned inputs = 0, outputs = 0;
        for (int k = 0; k < g->n_operands; k++) {
            const unsigned bit = 1u << SWI_OPERAND_INDEX(g->operands[k]);
            inputs |= SWI_OPERAND_KIND(g->operands[k]) == SW_IN(0) ? bit : 0;
            outputs |= SWI_OPERAND_KIND(g->operands[k]) == SW_OUT(0) ? bit : 0;
        }
        SW_CHECK(inputs == kept[i].inputs && outputs == kept[i].outputs,
                 "%s keeps inputs %u and outputs %u", kept[i].name, inputs, outputs);
    }
    const sw_type x = {SW_F32, SW_PLAIN, {1, {1001}}};
    const float bounds[2] = {0.0f, 1.0f};
    sw_type out[2];
    CU_ASSERT_EQUAL(desc_of("abs")->infer(&x, 1, NULL, out), SW_OK);
    CU_ASSERT_EQUAL(sw_type_bytes(&out[1]), 251); /* two bits for each element */
    CU_ASSERT_EQUAL(desc_of("clamp")->infer(&x, 1, bounds, out), SW_OK);
    CU_ASSERT_EQUAL(sw_type_bytes(&out[1]), 126); /* one */
}

/* ---- refusals ---------------------------------------------------------------------------- */

#define BAD(name, ...)                                                                         \
    static void name(sw_ctx *c, void *user)                                                    \
    {                                                                                          \
        (void)user;                                                                            \
        __VA_ARGS__;                                                                           \
    }
BAD(bad_bounds, sw_clamp(c, sw_input(c, 0), 1.0f, 0.5f))
BAD(bad_delta, sw_huber(c, sw_input(c, 0), sw_input(c, 0), 0.0f))
BAD(bad_exponent, sw_pow(c, sw_input(c, 0), NAN))
BAD(bad_mask, sw_where(c, sw_input(c, 0), sw_input(c, 0), sw_input(c, 0)))
BAD(bad_shapes, sw_div(c, sw_input(c, 0), sw_reshape(c, sw_input(c, 0), SW_SHAPE(2, 7))))
BAD(bad_smoothing, sw_softmax_ce_with(c, sw_reshape(c, sw_input(c, 0), SW_SHAPE(7, 2)),
                                      sw_input(c, 1), 1.5f, -100))
BAD(bad_pair, sw_l1(c, sw_input(c, 0), sw_reshape(c, sw_input(c, 0), SW_SHAPE(2, 7))))

SW_TEST("bad numbers are refused by name")
{
    static const struct {
        sw_step_fn *fn;
        const char *says;
    } cases[] = {
        {bad_bounds, "clamp: low must be at most high (got 1 and 0.5)"},
        {bad_delta, "huber: delta must be finite and above 0 (got 0)"},
        {bad_exponent, "pow: its number"},
        {bad_mask, "where: the mask must be u8 (got f32)"},
        {bad_shapes, "div: shapes (14)"},
        {bad_smoothing, "softmax_ce: smoothing must be 0 to 1 (got 1.5)"},
        {bad_pair, "l1: the shapes must be equal and not empty (got (14)"},
    };
    sw_exec *exec = exec_of(1);
    const float x[14] = {0};
    const uint8_t labels[7] = {0};
    const sw_array inputs[] = {{SW_F32, SW_SHAPE(14), x}, {SW_U8, SW_SHAPE(7), labels}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = cases[i].fn, .inputs = inputs, .n_inputs = 2);
        CU_ASSERT_EQUAL(sw_run(exec, &args), SW_INVALID);
        SW_CHECK(strstr(sw_last_error(), cases[i].says) != NULL, "%s, not %s", sw_last_error(),
                 cases[i].says);
    }
}
