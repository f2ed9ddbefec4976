/* The bound: what it proves for chains, what it must never claim, and what it costs. That it
 * is never above the cheapest schedule is tested with the search, problem by problem. */
#include "tests/recompute/recompute_problems.h"
#include "tests/support/heap_sweep.h"
#include <time.h>

SW_TESTS("bound")

static problem one;

static uint64_t bound_of(const problem *in, size_t capacity)
{
    uint64_t least = 12345;
    CU_ASSERT_EQUAL(swi_rc_bound(&in->p, capacity, &least), SW_OK);
    return least;
}

SW_TEST("of n layers what has no room runs again")
{
    for (int paired = 0; paired < 2; paired++)
        for (uint32_t n = 2; n <= 40; n++) {
            problem_chain(&one, n, paired == 1);
            for (uint32_t s = 2; s <= n; s++) {
                const uint64_t wanted = (n - s) * (paired == 1 ? 4 : 1);
                const uint64_t odd = bound_of(&one, s * PROBLEM_UNIT + PROBLEM_UNIT / 2);
                SW_CHECK(bound_of(&one, s * PROBLEM_UNIT) == wanted && odd == wanted,
                         "%u layers, %u slots: %llu, should be %llu", n, s,
                         (unsigned long long)odd, (unsigned long long)wanted);
            }
            CU_ASSERT_EQUAL(bound_of(&one, PROBLEM_UNIT / 2), UINT64_MAX);
        }
}

SW_TEST("where the program fits the bound is nothing, and it rises as room falls")
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        sw_dice dice = {seed};
        problem_random(&dice, &one, 20, 30);
        swi_rc_schedule plain = problem_plain(&one);
        CU_ASSERT_EQUAL(bound_of(&one, plain.peak), 0);
        uint64_t last = 0;
        for (size_t capacity = plain.peak; capacity >= 2 * PROBLEM_UNIT;
             capacity -= PROBLEM_UNIT) {
            const uint64_t now = bound_of(&one, capacity);
            SW_CHECK(now >= last, "seed %u, %zu bytes: %llu after %llu", (unsigned)seed,
                     capacity, (unsigned long long)now, (unsigned long long)last);
            last = now;
        }
        swi_rc_free(&plain);
    }
}

SW_TEST("items that cannot be recomputed are held")
{
    problem_chain(&one, 8, false);
    one.ops[2].until = one.ops[5].until = 0;
    CU_ASSERT_EQUAL(bound_of(&one, 4 * PROBLEM_UNIT), 4);
    CU_ASSERT_EQUAL(bound_of(&one, 2 * PROBLEM_UNIT), UINT64_MAX); /* and the one being read */
}

static sw_status bound_once(void *arg)
{
    const problem *in = arg;
    uint64_t least;
    return swi_rc_bound(&in->p, 5 * PROBLEM_UNIT, &least);
}

SW_TEST("every allocation may fail")
{
    problem_chain(&one, 12, true);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, bound_once, &one) > 0);
}
