/* The bound from several ops at once: never above the cheapest schedule, and above what one op
 * proves where something must run again more than once. */
#include "tests/recompute/recompute_problems.h"
#include "tests/support/heap_sweep.h"

static problem one;

static uint64_t rent_of(const problem *in, size_t capacity)
{
    uint64_t least = 12345;
    CU_ASSERT_EQUAL(swi_rc_rent(&in->p, capacity, &least), SW_OK);
    return least;
}

static uint64_t bound_of(const problem *in, size_t capacity)
{
    uint64_t least = 12345;
    CU_ASSERT_EQUAL(swi_rc_bound(&in->p, capacity, &least), SW_OK);
    return least;
}

typedef struct {
    uint32_t compared, above_one, equal;
    double proved, least;
} tally;

/* Every capacity under which there is a schedule, as far as the search knows the cheapest. */
static void compare(const problem *in, tally *sum)
{
    swi_rc_schedule plain = problem_plain(in);
    for (size_t capacity = plain.peak; capacity > 0; capacity -= PROBLEM_UNIT) {
        swi_rc_schedule s = {0};
        uint64_t nodes = 200000, least;
        bool found = false;
        CU_ASSERT_EQUAL(swi_rc_exact(&in->p, capacity, &nodes, &s, &found, &least), SW_OK);
        if (found) {
            const uint64_t proved = rent_of(in, capacity);
            SW_CHECK(proved <= s.cost, "%zu bytes: %llu proved, %llu is the least", capacity,
                     (unsigned long long)proved, (unsigned long long)s.cost);
            sum->compared++;
            sum->above_one += proved > bound_of(in, capacity);
            sum->equal += proved == s.cost;
            sum->proved += (double)proved;
            sum->least += (double)s.cost;
        }
        swi_rc_free(&s);
        if (!found)
            break;
    }
    swi_rc_free(&plain);
}

static void tell(const char *name, const tally *sum)
{
    sw_note("%s: %u capacities, %u above the bound of one op, %u the least; %.3f of the least",
            name, sum->compared, sum->above_one, sum->equal,
            sum->least > 0 ? sum->proved / sum->least : 1.0);
}

static void no_schedule_costs_less(void)
{
    tally random = {0}, others = {0};
    for (uint64_t seed = 1; seed <= (sw_tests_full() ? 4000u : 100u); seed++) {
        sw_dice dice = {seed};
        problem_random(&dice, &one, 4 + (uint32_t)(seed % 7), 12);
        compare(&one, &random);
    }
    tell("random programs", &random);
    CU_ASSERT(random.compared > 200 && random.proved > 0);
    for (uint32_t n = 2; n <= 11; n++) {
        problem_chain(&one, n, n % 2 != 0);
        compare(&one, &others);
    }
    for (uint32_t n = 1; n <= 4; n++) {
        problem_residual(&one, n);
        compare(&one, &others);
    }
    tell("chains and residual blocks", &others);
    CU_ASSERT(others.above_one > 0);
}

/* In few slots the layers of a chain run several times; one op sees each once. */
static void what_runs_again_often_is_counted(void)
{
    problem_chain(&one, 40, false);
    const uint64_t often = rent_of(&one, 4 * PROBLEM_UNIT);
    const uint64_t once = bound_of(&one, 4 * PROBLEM_UNIT);
    sw_note("40 layers, 4 slots: %llu proved, %llu by one op", (unsigned long long)often,
            (unsigned long long)once);
    CU_ASSERT(once == 36 && often > once);
}

static void where_all_fits_nothing_is_proved(void)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        sw_dice dice = {seed};
        problem_random(&dice, &one, 20, 30);
        swi_rc_schedule plain = problem_plain(&one);
        CU_ASSERT_EQUAL(rent_of(&one, plain.peak), 0);
        CU_ASSERT_EQUAL(rent_of(&one, SIZE_MAX), 0);
        swi_rc_free(&plain);
    }
}

/* Costs and sizes at the ends of what a problem may have: the figures scale. */
static void large_numbers_prove_as_small_ones(void)
{
    problem_chain(&one, 20, false);
    const uint64_t small = rent_of(&one, 5 * PROBLEM_UNIT);
    const size_t large = (size_t)1 << 33;
    for (uint32_t t = 0; t < one.p.n_ops; t++) {
        one.ops[t].cost <<= 39;
        one.during[t] *= large;
        one.between[t] *= large;
    }
    for (uint32_t i = 0; i < one.p.n_items; i++)
        one.items[i].bytes *= large;
    const uint64_t proved = rent_of(&one, 5 * PROBLEM_UNIT * large);
    SW_CHECK(small > 0 && proved == small << 39, "%llu, %llu times 2^39",
             (unsigned long long)small, (unsigned long long)(proved >> 39));
}

static sw_status rent_once(void *arg)
{
    const problem *in = arg;
    uint64_t least;
    return swi_rc_rent(&in->p, 5 * PROBLEM_UNIT, &least);
}

static void every_allocation_may_fail(void)
{
    problem_chain(&one, 12, true);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, rent_once, &one) > 0);
}

static const sw_test tests[] = {
    {"no schedule costs less than the rents prove", no_schedule_costs_less},
    {"what must run again often is counted as often", what_runs_again_often_is_counted},
    {"where all fits the rents prove nothing", where_all_fits_nothing_is_proved},
    {"large numbers prove as small ones do", large_numbers_prove_as_small_ones},
    {"every allocation may fail", every_allocation_may_fail},
};
SW_SUITE("rent", tests)
