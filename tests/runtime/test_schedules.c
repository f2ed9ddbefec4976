/* Learning-rate schedules against their formulas. */
#include "tests/runtime/nets.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

SW_TESTS("schedules")

static float at(const sw_schedule *s, uint64_t step)
{
    float x = NAN;
    OK(sw_schedule_at(s, step, &x));
    return x;
}

SW_TEST("constant, step, cosine with warm-up")
{
    const sw_schedule constant = SW_OPTS(sw_schedule, .kind = "constant", .base = 0.3f);
    CU_ASSERT_EQUAL(at(&constant, 0), 0.3f);
    CU_ASSERT_EQUAL(at(&constant, 1u << 30), 0.3f);
    const sw_schedule steps = SW_OPTS(sw_schedule, .kind = "step", .base = 0.8f, .every = 10,
                                      .gamma = 0.5f, .floor = 0.15f);
    CU_ASSERT_EQUAL(at(&steps, 9), 0.8f);
    CU_ASSERT_EQUAL(at(&steps, 10), 0.4f);
    CU_ASSERT_EQUAL(at(&steps, 29), 0.2f);
    CU_ASSERT_EQUAL(at(&steps, 30), 0.15f);
    const sw_schedule cosine = SW_OPTS(sw_schedule, .kind = "cosine", .base = 1.0f,
                                       .warmup_steps = 4, .total_steps = 104, .floor = 0.1f);
    CU_ASSERT_EQUAL(at(&cosine, 0), 0.25f);
    CU_ASSERT_EQUAL(at(&cosine, 3), 1.0f);
    CU_ASSERT_EQUAL(at(&cosine, 4), 1.0f);
    CU_ASSERT_DOUBLE_EQUAL(at(&cosine, 54), 0.55, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(at(&cosine, 29), 0.1 + 0.9 * 0.5 * (1.0 + sqrt(0.5)), 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(at(&cosine, 104), 0.1, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(at(&cosine, 1000), 0.1, 1e-7);
    float x = 7.0f;
    sw_schedule bad = cosine;
    bad.total_steps = 4;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "(got 4 and 4)");
    bad = steps;
    bad.every = 0;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "every");
    bad = steps;
    bad.gamma = 0.0f;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "gamma");
    bad.gamma = NAN;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "gamma");
    bad = steps;
    bad.size = 0;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "size");
    bad.size = offsetof(sw_schedule, gamma);
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "set it to sizeof(sw_schedule)");
    bad = steps;
    bad.kind = "polynomial";
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "'polynomial'");
    bad.kind = NULL;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "kind");
    CU_ASSERT_EQUAL(x, 7.0f); /* untouched on failure */
}

/* A rate far along is a formula, not a walk: as many as would take hours to walk. */
SW_TEST("late steps cost no more")
{
    const sw_schedule steps = SW_OPTS(sw_schedule, .kind = "step", .base = 1.0f, .every = 1,
                                      .gamma = 0.9999999f, .floor = 0.125f);
    CU_ASSERT_DOUBLE_EQUAL(at(&steps, 5000000), pow((double)0.9999999f, 5e6), 1e-7);
    for (int i = 0; i < 1000; i++)
        CU_ASSERT_EQUAL(at(&steps, UINT64_MAX - (uint64_t)i), 0.125f);
}

/* Each kind has a warm-up in front and goes on after it as without. */
SW_TEST("every kind has a warm-up")
{
    size_t n = 0;
    for (const char *kind; (kind = sw_schedule_kind(n)) != NULL; n++) {
        sw_schedule plain = SW_OPTS(sw_schedule, .kind = kind, .base = 0.5f, .total_steps = 40,
                                    .every = 3, .gamma = 0.75f, .floor = 0.01f);
        sw_schedule warm = plain;
        warm.warmup_steps = 10;
        warm.total_steps = 50;
        float before = 0.0f;
        for (uint64_t step = 0; step < 10; step++) {
            const float rate = at(&warm, step);
            SW_CHECK(rate > before && rate <= 0.5f, "%s, step %d: %g after %g", kind, (int)step,
                     (double)rate, (double)before);
            before = rate;
        }
        CU_ASSERT_EQUAL(at(&warm, 10), 0.5f);
        for (uint64_t step = 0; step < 100; step++)
            CU_ASSERT_EQUAL(at(&warm, 10 + step), at(&plain, step));
    }
    CU_ASSERT_EQUAL(n, 6);
    CU_ASSERT_PTR_NULL(sw_schedule_kind(SIZE_MAX));
}

SW_TEST("lines, powers and cycles")
{
    sw_schedule s = SW_OPTS(sw_schedule, .kind = "linear", .base = 1.0f, .warmup_steps = 5,
                            .total_steps = 25, .floor = 0.2f);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 0), 0.2, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 10), 0.8, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 25), 0.2, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 900), 0.2, 1e-7);
    s = SW_OPTS(sw_schedule, .kind = "exponential", .base = 2.0f, .gamma = 0.9f);
    for (uint64_t step = 0; step < 9; step++)
        CU_ASSERT_DOUBLE_EQUAL(at(&s, step), 2.0 * pow((double)0.9f, (double)step), 1e-6);
    s.every = 4;
    s.floor = 1.7f;
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 2), 2.0 * sqrt((double)0.9f), 1e-6);
    CU_ASSERT_EQUAL(at(&s, 400), 1.7f);
    s = SW_OPTS(sw_schedule, .kind = "one_cycle", .base = 1.0f, .warmup_steps = 30,
                .total_steps = 100);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 0), 1.0 / 25, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 15), (1.0 + 1.0 / 25) / 2, 1e-6);
    CU_ASSERT_EQUAL(at(&s, 30), 1.0f);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 65), 0.5 * (1.0 + 1.0 / 250000), 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 100), 1.0 / 250000, 1e-9);
    s.floor = 0.125f;
    CU_ASSERT_EQUAL(at(&s, 200), 0.125f);
    s.total_steps = 30;
    float x = 7.0f;
    REFUSED(sw_schedule_at(&s, 0, &x), SW_INVALID,
            "one_cycle: steps must be more than the warm-up (got 30 and 30)");
    s.kind = "exponential";
    REFUSED(sw_schedule_at(&s, 0, &x), SW_INVALID, "exponential: `gamma`");
    CU_ASSERT_EQUAL(x, 7.0f);
}
