/* Every function of one number of kernels/unary.def, by the words of its line: values and
 * slopes against its reference over a range, in every instruction set.
 * tools/bench/accuracy_functions.c promises more, for those that have a row there. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include "tests/support/suite.h"

SW_TESTS("curve list")

#define POINTS 4000
#define DRAWS_ANY false
#define DRAWS_AWAY false
#define DRAWS_POSITIVE true
#define KEEPS_IN false
#define KEEPS_OUT true
#define NUMBER_ONE 0.0f
#define NUMBER_NUMBER 0.75f

typedef struct {
    const sw_op_desc *desc;
    sw_unary kind;
    float number;
    bool positive, keeps_output;
} unary;

static const unary unary_ops[] = {
#define SW_UNARY(op, call, keeps, layout, draws, ...)                                          \
    {&sw_op_##op, SW_UNARY_##op, NUMBER_##call, DRAWS_##draws, KEEPS_##keeps},
#include "kernels/unary.def"
};

static void run_parts(const sw_par *par, void (*body)(void *arg, int part), void *arg, int n)
{
    for (int part = 0; part < n; part++)
        body(arg, part);
}
static const sw_par serial = {1, run_parts};

static float x[POINTS], y[POINTS], dy[POINTS], dx[POINTS];

static double reference_at(const unary *c, double at)
{
    const sw_type one = {SW_F32, SW_PLAIN, {1, {1}}};
    const swi_number_attrs attrs = {c->number};
    double out = 0.0, *const to = &out;
    const double *const in = &at;
    const sw_reference r =
        SW_INIT(.in = &in, .in_type = &one, .n_in = 1, .out = &to, .out_type = &one,
                .attrs = c->desc->attrs_bytes > 0 ? &attrs : NULL);
    CU_ASSERT_EQUAL(c->desc->reference(&r), SW_OK);
    return out;
}

/* NaN where the slopes from both sides differ: a bend. */
static double slope_at(const unary *c, double at)
{
    const double h = 1e-5, middle = reference_at(c, at);
    const double left = (middle - reference_at(c, at - h)) / h;
    const double right = (reference_at(c, at + h) - middle) / h;
    return fabs(left - right) < 1e-3 * fmax(1.0, fabs(left)) ? (left + right) / 2.0
                                                             : (double)NAN;
}

static bool is_near(float got, double exact, double relative, double least)
{
    return isnan(exact) || fabs((double)got - exact) <= relative * fabs(exact) + least;
}

static void hold(const unary *c, sw_isa isa)
{
    int values = 0, slopes = 0;
    for (int i = 0; i < POINTS; i++) {
        x[i] = c->positive ? 0.05f + (float)i * 0.005f : (float)(i - POINTS / 2) * 0.01f;
        dy[i] = 1.0f;
    }
    sw_pointwise(isa)->unary(c->kind, y, x, POINTS, c->number, false, &serial);
    sw_pointwise(isa)->unary_dx(c->kind, dx, dy, c->keeps_output ? y : x, POINTS, c->number,
                                false, false, &serial);
    for (int i = 0; i < POINTS; i++) {
        values += !is_near(y[i], reference_at(c, (double)x[i]), 2e-6, 1e-10);
        slopes += !is_near(dx[i], slope_at(c, (double)x[i]), 1e-4, 1e-5);
    }
    SW_CHECK(values == 0 && slopes == 0, "%s: %d values and %d slopes are not the reference's",
             c->desc->name, values, slopes);
}

SW_TEST("curves are near their references")
{
    for (size_t i = 0; i < sizeof unary_ops / sizeof *unary_ops; i++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
            hold(&unary_ops[i], (sw_isa)isa);
    sw_note("%d functions", SW_UNARY_COUNT);
}
