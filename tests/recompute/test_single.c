/* The bound where at most one item can be held over some ops: never above the cheapest, and
 * often more than the cuts prove. */
#include "tests/recompute/recompute_problems.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("single")

static problem one;

static uint64_t single_of(const problem *in, size_t capacity)
{
    uint64_t least = 12345;
    CU_ASSERT_EQUAL(swi_rc_single(&in->p, capacity, &least, NULL), SW_OK);
    return least;
}

/* UINT64_MAX - 1: not known. */
static uint64_t cheapest(const problem *in, size_t capacity)
{
    swi_rc_schedule schedule = {0};
    bool found = false;
    uint64_t least = 0, nodes = 200000;
    CU_ASSERT_EQUAL(swi_rc_exact(&in->p, capacity, &nodes, &schedule, &found, &least), SW_OK);
    swi_rc_free(&schedule);
    return found || least == UINT64_MAX ? least : UINT64_MAX - 1;
}

typedef struct {
    unsigned capacities, said, more, equal;
} tally;

static void compare(const problem *in, unsigned seed, tally *sum)
{
    swi_rc_schedule plain = problem_plain(in);
    for (size_t capacity = plain.peak; capacity > 0; capacity -= PROBLEM_UNIT / 2) {
        const uint64_t least = cheapest(in, capacity), said = single_of(in, capacity);
        uint64_t bound = 0;
        CU_ASSERT_EQUAL(swi_rc_bound(&in->p, capacity, &bound), SW_OK);
        SW_CHECK(said <= least, "problem %u, %zu bytes: %llu said, %llu is the least", seed,
                 capacity, (unsigned long long)said, (unsigned long long)least);
        if (least >= UINT64_MAX - 1)
            break;
        sum->capacities++;
        sum->said += said > 0;
        sum->more += said > bound;
        sum->equal += said == least && said > bound;
    }
    swi_rc_free(&plain);
}

SW_TEST("never above the cheapest")
{
    tally sum = {0};
    for (unsigned seed = 1; seed <= (sw_tests_full() ? 4000u : 120u); seed++) {
        sw_dice dice = {seed};
        problem_random(&dice, &one, 4 + seed % 8, 12);
        compare(&one, seed, &sum);
    }
    for (unsigned blocks = 1; blocks <= 3; blocks++) {
        problem_residual(&one, blocks);
        compare(&one, blocks, &sum);
    }
    sw_note("%u capacities: %u times there is something to say, %u times more than the cuts "
            "do, %u of them the least cost itself",
            sum.capacities, sum.said, sum.more, sum.equal);
    CU_ASSERT(sum.more > 0 && sum.equal > 0);
}

/* The schedule that comes with it is one, and within the capacity costs no less. */
SW_TEST("its way is a schedule")
{
    unsigned all = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        sw_dice dice = {seed};
        problem_random(&dice, &one, 8, 12);
        for (size_t units = 2; units < 8; units++) {
            swi_rc_schedule way = {0};
            uint64_t least = 0;
            const sw_status status = swi_rc_single(&one.p, units * PROBLEM_UNIT, &least, &way);
            CU_ASSERT(status == SW_OK || status == SW_INVALID);
            if (status == SW_OK && way.n_steps > 0) {
                all++;
                CU_ASSERT_EQUAL(swi_rc_follow(&one.p, &way), SW_OK);
                CU_ASSERT(way.cost >= least || way.peak > units * PROBLEM_UNIT);
            }
            swi_rc_free(&way);
        }
    }
    CU_ASSERT(all > 0);
}

/* One result can be held over each backward op: more than n - 2 layers run again. */
SW_TEST("chains with room for two run often")
{
    for (uint32_t n = 3; n <= 12; n++) {
        problem_chain(&one, n, false);
        const uint64_t said = single_of(&one, 2 * PROBLEM_UNIT);
        SW_CHECK(said >= n - 2 && (n < 6 || said > n - 2), "%u layers: %llu", n,
                 (unsigned long long)said);
        CU_ASSERT(said <= cheapest(&one, 2 * PROBLEM_UNIT));
        CU_ASSERT_EQUAL(single_of(&one, 3 * PROBLEM_UNIT), 0); /* two can be held */
    }
}

static sw_status single_once(void *arg)
{
    const problem *in = arg;
    swi_rc_schedule way = {0};
    uint64_t least;
    const sw_status status = swi_rc_single(&in->p, 2 * PROBLEM_UNIT, &least, &way);
    swi_rc_free(&way);
    return status;
}

SW_TEST("every allocation may fail")
{
    problem_chain(&one, 12, false);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, single_once, &one) > 0);
}
