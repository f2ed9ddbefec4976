/* Fitness of members with given numbers. */
#include "runtime/population/evolve/evolution.h"
#include "tests/runtime/nets.h"

SW_TESTS("fitness")

static const sw_price price =
    SW_INIT(.size = sizeof price, .parameters = 50000, .peak_bytes = 1 << 20,
            .operations = 6400, .operations_per_sample = 100);

static sw_candidate member(void)
{
    return SW_OPTS(sw_candidate, .price = &price, .loss = 0.25, .accuracy = 0.9276,
                   .train_accuracy = 0.75, .ns_per_sample = 1234);
}

static double of(const swi_fitness_plan *plan, const sw_candidate *c, swi_fitness_averages *a)
{
    double objectives[SWI_MAX_OBJECTIVES];
    uint32_t which;
    CU_ASSERT(swi_fitness_of(plan, c, a, objectives, &which));
    return objectives[0];
}

/* Accuracy to two digits, and at most a thousandth for being small. */
SW_TEST("the default prefers the small one of equals")
{
    swi_fitness_plan plan;
    swi_fitness_averages a;
    sw_price small = price;
    sw_candidate c = member();
    OK(swi_fitness_read(&plan, NULL, 0, "test"));
    swi_fitness_begin(&a);
    CU_ASSERT_DOUBLE_EQUAL(of(&plan, &c, &a), 0.93 + 1.0 / 50000, 1e-15);
    small.parameters = 100;
    c.price = &small;
    CU_ASSERT_DOUBLE_EQUAL(of(&plan, &c, &a), 0.93 + 0.001, 1e-15);
    c.accuracy = 0.9349; /* to two digits the same */
    CU_ASSERT_DOUBLE_EQUAL(of(&plan, &c, &a), 0.93 + 0.001, 1e-15);
}

static double twice_of(const sw_candidate *c, void *user)
{
    return *(double *)user * c->accuracy;
}

/* Every kind is its number, smaller ones are fitter where that is said. */
SW_TEST("each kind is its number")
{
    double two = 2;
    static const double expected[SW_FITNESS_KINDS] = {0.9276, 0.75,       -0.25, -1234,
                                                      -50000, -(1 << 20), -100,  2 * 0.9276};
    const sw_candidate c = member();
    for (int kind = 0; kind < SW_FITNESS_KINDS; kind++) {
        const sw_fitness term = {.kind = (sw_fitness_kind)kind,
                                 .factor = kind % 2 ? 3 : 0,
                                 .fn = kind == SW_FITNESS_CUSTOM ? twice_of : NULL,
                                 .user = &two};
        swi_fitness_plan plan;
        swi_fitness_averages a;
        OK(swi_fitness_read(&plan, &term, 1, "test"));
        swi_fitness_begin(&a);
        CU_ASSERT_DOUBLE_EQUAL(of(&plan, &c, &a), expected[kind] * (kind % 2 ? 3 : 1), 1e-12);
        CU_ASSERT_PTR_NOT_NULL(sw_fitness_kind_name((sw_fitness_kind)kind));
    }
    CU_ASSERT_PTR_NULL(sw_fitness_kind_name((sw_fitness_kind)SW_FITNESS_KINDS));
}

/* (1 - average) now + average before, from the first generation on. */
SW_TEST("terms are averaged over generations")
{
    const sw_fitness term = {.kind = SW_FITNESS_ACCURACY, .average = 0.25};
    swi_fitness_plan plan;
    swi_fitness_averages a;
    sw_candidate c = member();
    double expected = 0.5;
    OK(swi_fitness_read(&plan, &term, 1, "test"));
    swi_fitness_begin(&a);
    for (int i = 0; i < 5; i++) {
        c.accuracy = 0.5 + 0.1 * i;
        expected = i == 0 ? 0.5 : 0.75 * c.accuracy + 0.25 * expected;
        CU_ASSERT_DOUBLE_EQUAL(of(&plan, &c, &a), expected, 1e-15);
    }
}

/* NaN and infinities make a member invalid, and leave its averages. */
SW_TEST("what is no number makes a member invalid")
{
    const sw_fitness terms[] = {{.kind = SW_FITNESS_PARAMETERS, .average = 0.5},
                                {.kind = SW_FITNESS_LOSS, .objective = 1, .average = 0.5}};
    swi_fitness_plan plan;
    swi_fitness_averages a;
    double objectives[SWI_MAX_OBJECTIVES];
    uint32_t which;
    sw_candidate c = member();
    OK(swi_fitness_read(&plan, terms, 2, "test"));
    swi_fitness_begin(&a);
    CU_ASSERT(swi_fitness_of(&plan, &c, &a, objectives, &which));
    const swi_fitness_averages before = a;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        c.loss = bad[i];
        CU_ASSERT_FALSE(swi_fitness_of(&plan, &c, &a, objectives, &which));
        CU_ASSERT_EQUAL(which, 1);
        CU_ASSERT(isnan(objectives[0]) && isnan(objectives[1]));
        CU_ASSERT_EQUAL(memcmp(&a, &before, sizeof a), 0);
    }
    c = member();
    c.invalid = 1;
    CU_ASSERT_FALSE(swi_fitness_of(&plan, &c, &a, objectives, &which));
    CU_ASSERT_EQUAL(which, UINT32_MAX);
}

/* Rank first, then distance; invalid ones are NaN. */
SW_TEST("several objectives are ordered by rank")
{
    const sw_fitness terms[] = {{.kind = SW_FITNESS_ACCURACY},
                                {.kind = SW_FITNESS_PARAMETERS, .objective = 1}};
    static const double points[][2] = {{1, 9}, {5, 5}, {9, 1}, {NAN, NAN}, {4, 4}, {6, 4.5}};
    double x[6][SWI_MAX_OBJECTIVES], order[6];
    uint32_t ranks[6];
    swi_fitness_plan plan;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < SWI_MAX_OBJECTIVES; k++)
            x[i][k] = k < 2 ? points[i][k] : (double)NAN;
    OK(swi_fitness_read(&plan, terms, 2, "test"));
    OK(swi_fitness_order(&plan, x[0], 6, order, ranks));
    static const uint32_t expected[] = {0, 0, 0, 2, 1, 0};
    CU_ASSERT_EQUAL(memcmp(ranks, expected, sizeof ranks), 0);
    CU_ASSERT(order[0] > order[1] && order[2] > order[1] && order[2] > order[5]);
    CU_ASSERT(order[1] > order[4] && order[5] > order[4] && isnan(order[3]));
    plan.n_objectives = 1;
    OK(swi_fitness_order(&plan, x[0], 6, order, ranks));
    CU_ASSERT(order[0] == 1 && order[2] == 9 && isnan(order[3]));
}

SW_TEST("wrong terms are refused")
{
    swi_fitness_plan plan = {.n = 77};
    static const struct {
        sw_fitness t[2];
        const char *part;
    } cases[] = {
        {{{.kind = (sw_fitness_kind)8}}, "kind 8"},
        {{{.kind = SW_FITNESS_CUSTOM}}, "fn"},
        {{{.average = 1}}, "average"},
        {{{.factor = NAN}}, "factor"},
        {{{.drop = 0.5}}, "drop"},
        {{{.objective = 1}}, "objective 0"},
        {{{.objective = 8}}, "got 8"},
        {{{.kind = SW_FITNESS_TRAIN_ACCURACY, .drop = 0.25},
          {.kind = SW_FITNESS_TRAIN_ACCURACY}},
         "drop"},
    };
    for (uint32_t i = 0; i < 8; i++)
        REFUSED(swi_fitness_read(&plan, cases[i].t, i < 7 ? 1 : 2, "test"), SW_INVALID,
                cases[i].part);
    CU_ASSERT_EQUAL(plan.n, 77);
}
