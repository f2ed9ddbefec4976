/* The rates that a sweep suggests, on curves with known answers; and progress that a version
 * without averages of epochs saved. */
#include "tests/support/suite.h"
#include "tools/train/train.h"

SW_TESTS("sweeps and averages")

static train_find *sweep(uint64_t steps, double from, double to)
{
    train_opts opts = {.lr_from = from, .lr_to = to};
    train_find *f = NULL;
    CU_ASSERT_EQUAL_FATAL(train_find_create(&f, &opts, steps), SW_OK);
    return f;
}

static void feed(train_find *f, double (*loss)(double decades, uint64_t i))
{
    for (uint64_t i = 0; i < f->steps; i++) {
        const double rate = train_find_rate(f, i);
        train_find_add(f, rate, loss(log10(rate), i));
    }
}

/* Falls from 2 to 1, fastest at 1e-3, and rises from 1e-1 on. */
static double bend(double x, uint64_t i)
{
    return 1.0 + 1.0 / (1.0 + exp(4.0 * (x + 3.0))) + (x > -1.0 ? 20.0 * (x + 1.0) : 0.0);
}

static double noisy(double x, uint64_t i)
{
    return bend(x, i) + 0.02 * (double)(int)(i * 2654435761u % 7) - 0.06;
}

static double flat(double x, uint64_t i)
{
    return 0.7;
}

static double rising(double x, uint64_t i)
{
    return 10.0 + x;
}

static double ends(double x, uint64_t i)
{
    return i == 30 ? (double)NAN : bend(x, i);
}

SW_TEST("the steepest descent is found")
{
    train_find *f = sweep(100, 1e-7, 10.0);
    feed(f, bend);
    train_found r = train_find_result(f);
    const double step = 8.0 / 99.0; /* decades */
    SW_CHECK(fabs(log10(r.steepest) + 3.0) < 1.5 * step, "%g", r.steepest);
    SW_CHECK(log10(r.lowest_rate) > -1.7 && log10(r.lowest_rate) < -0.9, "%g", r.lowest_rate);
    CU_ASSERT_EQUAL(r.tenth, r.lowest_rate / 10.0);
    CU_ASSERT(f->over && f->n < 100); /* after four times its lowest nothing is looked at */
    train_find_destroy(f);
    f = sweep(200, 1e-7, 10.0);
    feed(f, noisy);
    r = train_find_result(f);
    SW_CHECK(fabs(log10(r.steepest) + 3.0) < 0.4, "%g", r.steepest);
    train_find_destroy(f);
    train_find_destroy(NULL);
}

SW_TEST("what does not fall is not suggested")
{
    static double (*const curves[])(double, uint64_t) = {flat, rising};
    for (int i = 0; i < 2; i++) {
        train_find *f = sweep(50, 1e-5, 1.0);
        CU_ASSERT(isnan(train_find_result(f).steepest)); /* of no point */
        feed(f, curves[i]);
        const train_found r = train_find_result(f);
        CU_ASSERT(isnan(r.steepest) && isnan(r.tenth));
        train_find_destroy(f);
    }
}

SW_TEST("a sweep ends at the first loss that is no number")
{
    train_find *f = sweep(100, 1e-7, 10.0);
    feed(f, ends);
    CU_ASSERT(f->over && f->n == 30);
    train_find_destroy(f);
}
