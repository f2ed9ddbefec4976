/* Schedules by dynamic programming: against the cheapest of all, where that is known. */
#include "alloc/base/mem.h"
#include "tests/recompute/recompute_problems.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("chain")

static problem one;

static swi_rc_family family_of(const problem *in)
{
    swi_rc_family family = {0};
    SW_CHECK(swi_rc_chain(&in->p, in->backward_of, &family) == SW_OK, "%s", sw_last_error());
    SW_CHECK(swi_rc_drop(&in->p, &family) == SW_OK, "%s", sw_last_error());
    return family;
}

/* The figures of each schedule are true; costs rise and peaks fall; the first repeats
 * nothing. */
static void check_family(const problem *in, const swi_rc_family *family)
{
    CU_ASSERT_FATAL(family->n > 0);
    CU_ASSERT_EQUAL(family->schedules[0].repeats, 0);
    for (uint32_t i = 0; i < family->n; i++) {
        const swi_rc_schedule *s = &family->schedules[i];
        swi_rc_schedule copy = {0};
        CU_ASSERT_EQUAL_FATAL(swi_rc_copy(&copy, s), SW_OK);
        SW_CHECK(swi_rc_follow(&in->p, &copy) == SW_OK, "%s", sw_last_error());
        CU_ASSERT(copy.peak == s->peak && copy.cost == s->cost && copy.repeats == s->repeats);
        CU_ASSERT(i == 0 || s->cost > s[-1].cost);
        CU_ASSERT(i == 0 || i + 1 == family->n || s->peak < s[-1].peak);
        swi_rc_free(&copy);
    }
}

/* The cost of the first that fits; UINT64_MAX: none. */
static uint64_t cost_under(const swi_rc_family *family, size_t capacity)
{
    for (uint32_t i = 0; i < family->n; i++)
        if (family->schedules[i].peak <= capacity)
            return family->schedules[i].cost;
    return UINT64_MAX;
}

/* The cheapest cost; false where the nodes ran out. */
static bool cheapest(const problem *in, size_t capacity, uint64_t *cost)
{
    swi_rc_schedule s = {0};
    uint64_t nodes = 200000;
    bool found = false;
    CU_ASSERT_EQUAL(swi_rc_exact(&in->p, capacity, &nodes, &s, &found, cost), SW_OK);
    const bool known = found || *cost == UINT64_MAX;
    if (found)
        *cost = s.cost;
    swi_rc_free(&s);
    return known;
}

typedef struct {
    uint32_t compared, equal, missed; /* missed: there is a schedule, and the family has none */
    double paid, least;
} tally;

static void compare(const problem *in, tally *sum)
{
    swi_rc_family family = family_of(in);
    check_family(in, &family);
    for (size_t capacity = family.schedules[0].peak; capacity > 0; capacity -= PROBLEM_UNIT) {
        uint64_t least;
        const uint64_t paid = cost_under(&family, capacity);
        if (!cheapest(in, capacity, &least))
            continue;
        SW_CHECK(paid >= least, "%zu bytes: %llu paid, %llu is the least", capacity,
                 (unsigned long long)paid, (unsigned long long)least);
        if (least == UINT64_MAX)
            break;
        sum->compared++;
        sum->equal += paid == least;
        if (paid == UINT64_MAX) {
            sum->missed++;
        } else {
            sum->paid += (double)paid;
            sum->least += (double)least;
        }
    }
    swi_rc_family_free(&family);
}

static void tell(const char *name, const tally *sum)
{
    sw_note(
        "%s: %u capacities, %u as cheap as can be, %u not reached; cost %.3f times the least",
        name, sum->compared, sum->equal, sum->missed,
        sum->least > 0 ? sum->paid / sum->least : 1.0);
}

SW_TEST("equal chains cost the least there is")
{
    for (int paired = 0; paired < 2; paired++) {
        tally sum = {0};
        for (uint32_t n = 2; n <= (sw_tests_full() ? 12u : 9u); n++) {
            problem_chain(&one, n, paired != 0);
            compare(&one, &sum);
        }
        tell(paired ? "pairs" : "chains", &sum);
        CU_ASSERT_EQUAL(sum.equal, sum.compared);
    }
}

SW_TEST("residual blocks cost little more than the least")
{
    tally sum = {0};
    for (uint32_t n = 1; n <= 4; n++) {
        problem_residual(&one, n);
        compare(&one, &sum);
    }
    tell("residual blocks", &sum);
    CU_ASSERT(sum.paid <= 1.15 * sum.least);
}

/* Gradients that read anything: far from a chain. Its schedules are still what they say, the
 * first is the program itself, and none does with less than the least; where the program fits
 * they cost nothing. */
SW_TEST("of any program schedules are sound")
{
    tally sum = {0};
    for (uint64_t seed = 1; seed <= (sw_tests_full() ? 2000u : 40u); seed++) {
        sw_dice dice = {seed};
        problem_random(&dice, &one, 6 + (uint32_t)(seed % 5), 12);
        compare(&one, &sum);
        swi_rc_family family = family_of(&one);
        CU_ASSERT_EQUAL(cost_under(&family, family.schedules[0].peak), 0);
        swi_rc_family_free(&family);
    }
    tell("random programs", &sum);
    CU_ASSERT(sum.compared > 80);
}

/* Results that are dropped and recomputed: never dearer for any capacity, and often cheaper. */
SW_TEST("what is held and not used goes where that is cheaper")
{
    uint32_t cheaper = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        sw_dice dice = {seed};
        problem_random(&dice, &one, 12, 24);
        swi_rc_family before = {0}, after = family_of(&one);
        CU_ASSERT_EQUAL(swi_rc_chain(&one.p, one.backward_of, &before), SW_OK);
        check_family(&one, &after);
        for (size_t c = before.schedules[0].peak; c > 0; c -= PROBLEM_UNIT) {
            CU_ASSERT(cost_under(&after, c) <= cost_under(&before, c));
            cheaper += cost_under(&after, c) < cost_under(&before, c);
        }
        swi_rc_family_free(&before);
        swi_rc_family_free(&after);
    }
    sw_note("%u capacities are cheaper", cheaper);
    CU_ASSERT(cheaper > 50);
}

static sw_status chain_once(void *arg)
{
    const problem *in = arg;
    swi_rc_family family = {0};
    sw_status status = swi_rc_chain(&in->p, in->backward_of, &family);
    CU_ASSERT(status == SW_OK || family.schedules == NULL);
    if (status == SW_OK)
        status = swi_rc_drop(&in->p, &family);
    swi_rc_family_free(&family);
    return status;
}

SW_TEST("every allocation may fail")
{
    problem_chain(&one, 8, true);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, chain_once, &one) > 0);
}

/* A third of the room; with 120 layers the levels are coarse. */
SW_TEST("long chains cost little more than what has no room")
{
    static const uint32_t lengths[] = {60, 120};
    for (int k = 0; k < (sw_tests_full() ? 2 : 1); k++) {
        const uint32_t n = lengths[k];
        problem_chain(&one, n, false);
        swi_rc_family family = family_of(&one);
        check_family(&one, &family);
        const uint64_t paid = cost_under(&family, n / 3 * PROBLEM_UNIT);
        sw_note("%u layers, room for %u: %llu run again, %u at least", n, n / 3,
                (unsigned long long)paid, n - n / 3);
        CU_ASSERT(paid >= n - n / 3 && (double)paid <= 1.05 * (double)(n - n / 3));
        swi_rc_family_free(&family);
    }
}
