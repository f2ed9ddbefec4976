/* Draws of mutations and spaces. */
#include "runtime/population/evolve/draws.h"
#include "tests/support/suite.h"

/* A draw is a function of seed, stream and number; streams and seeds differ. */
static void draws_are_functions_of_three_numbers(void)
{
    swi_draws a = swi_draws_of(7, 1), b = swi_draws_of(7, 1), c = swi_draws_of(7, 2);
    swi_draws d = swi_draws_of(8, 1);
    int equal = 0;
    for (int i = 0; i < 1000; i++) {
        const uint64_t x = swi_draw_bits(&a);
        CU_ASSERT_EQUAL_FATAL(x, swi_draw_bits(&b));
        equal += x == swi_draw_bits(&c);
        equal += x == swi_draw_bits(&d);
    }
    CU_ASSERT_EQUAL(equal, 0);
}

/* Numbers are spread evenly over where they may be. */
static void draws_are_uniform(void)
{
    swi_draws d = swi_draws_of(3, 5);
    int count[10] = {0}, happened = 0;
    for (int i = 0; i < 100000; i++) {
        const double u = swi_draw_range(&d, -1, 1);
        CU_ASSERT_FATAL(u >= -1 && u < 1);
        count[swi_draw_below(&d, 10)]++;
        happened += swi_draw_happens(&d, 0.25);
    }
    for (int k = 0; k < 10; k++)
        CU_ASSERT(count[k] > 9600 && count[k] < 10400);
    CU_ASSERT(happened > 24500 && happened < 25500);
}

static const sw_test tests[] = {
    {"a draw is a function of seed, stream and number", draws_are_functions_of_three_numbers},
    {"draws are uniform", draws_are_uniform},
};
SW_SUITE("draws", tests)
