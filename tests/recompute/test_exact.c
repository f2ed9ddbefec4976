/* The exact search against all schedules of small problems, and against the dynamic program
 * for chains. */
#include "tests/recompute/brute.h"
#include "tests/recompute/recompute_problems.h"
#include "tests/support/heap_sweep.h"
#include <time.h>

SW_TESTS("exact")

#define NODES 400000

static problem one;

typedef struct {
    bool found;
    uint64_t least;
    swi_rc_schedule schedule;
} answer;

static answer solved(const problem *in, size_t capacity, uint64_t nodes)
{
    answer a = {0};
    const sw_status status =
        swi_rc_exact(&in->p, capacity, &nodes, &a.schedule, &a.found, &a.least);
    SW_CHECK(status == SW_OK, "%s", sw_last_error());
    return a;
}

/* The figures of a found schedule are true, by both followers. */
static void check_schedule(const problem *in, const answer *a, size_t capacity)
{
    swi_rc_schedule copy = {0};
    CU_ASSERT_EQUAL_FATAL(swi_rc_copy(&copy, &a->schedule), SW_OK);
    SW_CHECK(swi_rc_follow(&in->p, &copy) == SW_OK, "%s", sw_last_error());
    CU_ASSERT_EQUAL(copy.peak, a->schedule.peak);
    CU_ASSERT_EQUAL(copy.cost, a->schedule.cost);
    CU_ASSERT_EQUAL(copy.cost, a->least);
    CU_ASSERT_EQUAL(copy.peak, brute_peak(&in->p, copy.steps, copy.n_steps));
    CU_ASSERT(copy.peak <= capacity);
    swi_rc_free(&copy);
}

/* True where all schedules could be tried. */
static bool compare(const problem *in, size_t capacity, uint64_t work, const char *name)
{
    answer a = solved(in, capacity, NODES);
    uint64_t bound = 0;
    CU_ASSERT_EQUAL(swi_rc_bound(&in->p, capacity, &bound), SW_OK);
    SW_CHECK(bound <= a.least, "%s: bound %llu of %llu", name, (unsigned long long)bound,
             (unsigned long long)a.least);
    CU_ASSERT(a.found == (a.least != UINT64_MAX));
    if (a.found)
        check_schedule(in, &a, capacity);
    const uint64_t brute = brute_least(&in->p, capacity, a.found ? a.least : 12, work);
    SW_CHECK(brute == BRUTE_GAVE_UP || brute == a.least, "%s: %llu, brute %llu", name,
             (unsigned long long)a.least, (unsigned long long)brute);
    if (a.found && brute == a.least && a.schedule.peak > 0) {
        const uint64_t lower = brute_least(&in->p, a.schedule.peak - 1, a.least, work);
        SW_CHECK(lower == BRUTE_NONE || lower == BRUTE_GAVE_UP, "%s: peak %zu is not the least",
                 name, a.schedule.peak);
    }
    swi_rc_free(&a.schedule);
    return brute != BRUTE_GAVE_UP;
}

SW_TEST("small problems come out as by trying all schedules")
{
    const uint64_t n = sw_tests_full() ? 3000 : 50;
    const uint64_t work = sw_tests_full() ? 100000 : 4000;
    unsigned compared = 0, all = 0;
    for (uint64_t seed = 1; seed <= n; seed++) {
        sw_dice dice = {seed};
        problem_random(&dice, &one, 3 + (uint32_t)sw_dice_below(&dice, 5), 6);
        swi_rc_schedule plain = problem_plain(&one);
        size_t capacity = plain.peak;
        swi_rc_free(&plain);
        uint64_t bound = 0;
        for (; capacity > 0 && bound != UINT64_MAX; capacity -= PROBLEM_UNIT, all++) {
            char name[80];
            snprintf(name, sizeof name, "seed %u, capacity %zu", (unsigned)seed, capacity);
            compared += compare(&one, capacity, work, name);
            CU_ASSERT_EQUAL(swi_rc_bound(&one.p, capacity, &bound), SW_OK);
        }
    }
    SW_CHECK(compared > all / 2, "%u of %u", compared, all);
    sw_note("%u of %u capacities of %u problems compared", compared, all, (unsigned)n);
}

/* C(l, s): runs of forward ops that the backward part of l equal layers needs, above a layer
 * whose result is there and with room for s results more. The first result that is kept is the
 * j-th one: j runs lead there (two results live on the way), the l - j layers above it have one
 * room less, its own backward op reads it, the j - 1 below it have all rooms again. This is the
 * recurrence of Griewank and Walther's Revolve (ACM TOMS 26, 2000), with results of layers in
 * place of their states. */
static uint64_t chain_runs(uint32_t l, uint32_t s)
{
    static uint64_t known[32][32];
    if (l == 0)
        return 0;
    if (s == 0)
        return UINT64_MAX / 4;
    if (known[l][s] != 0)
        return known[l][s];
    uint64_t best = UINT64_MAX / 4;
    for (uint32_t j = 1; j <= l && (j == 1 || s >= 2); j++) {
        const uint64_t runs = j + chain_runs(l - j, s - 1) + chain_runs(j - 1, s);
        best = runs < best ? runs : best;
    }
    return known[l][s] = best < UINT64_MAX / 4 ? best : UINT64_MAX / 4;
}

static void chains(bool paired)
{
    const uint64_t layer = paired ? 4 : 1;
    const uint32_t longest = sw_tests_full() ? 12 : 9;
    for (uint32_t n = 1; n <= longest; n++) {
        problem_chain(&one, n, paired);
        for (uint32_t s = 1; s <= n; s++) {
            const uint64_t runs = chain_runs(n, s);
            answer a = solved(&one, s * PROBLEM_UNIT, NODES);
            const uint64_t least = runs < UINT64_MAX / 4 ? (runs - n) * layer : UINT64_MAX;
            SW_CHECK(a.least == least && a.found == (least != UINT64_MAX),
                     "%u layers, %u slots: %llu, should be %llu", n, s,
                     (unsigned long long)a.least, (unsigned long long)least);
            swi_rc_free(&a.schedule);
        }
    }
}

SW_TEST("equal chains come out as by dynamic programming")
{
    chains(false);
}

SW_TEST("equal chains of pairs come out as by dynamic programming")
{
    chains(true);
}

SW_TEST("where the nodes run out a bound is left")
{
    problem_chain(&one, 10, false);
    answer whole = solved(&one, 3 * PROBLEM_UNIT, NODES);
    CU_ASSERT(whole.found);
    for (uint64_t nodes = 0; nodes < 400; nodes += 1 + nodes / 4) {
        answer a = solved(&one, 3 * PROBLEM_UNIT, nodes);
        CU_ASSERT(a.least <= whole.least);
        CU_ASSERT(a.least >= 7); /* of ten layers three are held */
        CU_ASSERT(a.found || a.schedule.steps == NULL);
        swi_rc_free(&a.schedule);
    }
    swi_rc_free(&whole.schedule);
}

SW_TEST("more than 64 items are refused")
{
    swi_rc_schedule schedule = {0};
    bool found = true;
    uint64_t least = 5, nodes = 10;
    problem_chain(&one, 65, false);
    CU_ASSERT_EQUAL(swi_rc_exact(&one.p, 1 << 20, &nodes, &schedule, &found, &least),
                    SW_UNSUPPORTED);
    CU_ASSERT(nodes == 10 && found && least == 5 && schedule.steps == NULL);
}

SW_TEST("equal problems give equal schedules")
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        sw_dice dice = {seed + 7000};
        problem_random(&dice, &one, 8, 10);
        swi_rc_schedule plain = problem_plain(&one);
        const size_t capacity = plain.peak / 4 * 3;
        swi_rc_free(&plain);
        answer a = solved(&one, capacity, 5000), b = solved(&one, capacity, 5000);
        CU_ASSERT_EQUAL_FATAL(a.found, b.found);
        CU_ASSERT_EQUAL(a.least, b.least);
        CU_ASSERT_EQUAL_FATAL(a.schedule.n_steps, b.schedule.n_steps);
        if (a.found)
            CU_ASSERT_EQUAL(memcmp(a.schedule.steps, b.schedule.steps,
                                   a.schedule.n_steps * sizeof *a.schedule.steps),
                            0);
        swi_rc_free(&a.schedule);
        swi_rc_free(&b.schedule);
    }
}

static sw_status search_once(void *arg)
{
    const problem *in = arg;
    swi_rc_schedule schedule = {0};
    bool found = false;
    uint64_t least = 0, nodes = NODES;
    const sw_status status =
        swi_rc_exact(&in->p, 3 * PROBLEM_UNIT, &nodes, &schedule, &found, &least);
    CU_ASSERT(status == SW_OK ? found : schedule.steps == NULL && !found && least == 0);
    swi_rc_free(&schedule);
    return status;
}

SW_TEST("every allocation may fail")
{
    problem_chain(&one, 12, false);
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, search_once, &one);
    CU_ASSERT(sites > 8);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* No promise but a measurement: how far the search reaches. */
SW_TEST("larger problems are solved or bounded", .full = true)
{
    for (uint32_t items = 10; items <= 25; items += 5) {
        unsigned found = 0, all = 0;
        double most = 0, sum = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            sw_dice dice = {seed + 900};
            problem_random(&dice, &one, items, items);
            swi_rc_schedule plain = problem_plain(&one);
            for (size_t part = 5; part <= 9; part += 2, all++) {
                const double start = seconds();
                answer a = solved(&one, plain.peak * part / 10, 200000);
                const double took = seconds() - start;
                most = took > most ? took : most;
                sum += took;
                found += a.found || a.least == UINT64_MAX;
                if (a.found)
                    check_schedule(&one, &a, plain.peak * part / 10);
                swi_rc_free(&a.schedule);
            }
            swi_rc_free(&plain);
        }
        sw_note("%u items: %u of %u solved, %.1f ms mean, %.1f ms most", items, found, all,
                1e3 * sum / all, 1e3 * most);
        CU_ASSERT(found > 0);
    }
}
