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
        uint32_t which;
        OK(swi_fitness_read(&plan, &term, 1, "test"));
        CU_ASSERT_DOUBLE_EQUAL(swi_fitness_of(&plan, &c, &which),
                               expected[kind] * (kind % 2 ? 3 : 1), 1e-12);
        CU_ASSERT_PTR_NOT_NULL(sw_fitness_kind_name((sw_fitness_kind)kind));
    }
    CU_ASSERT_PTR_NULL(sw_fitness_kind_name((sw_fitness_kind)SW_FITNESS_KINDS));
}

/* The sum of all terms; without any it is accuracy, and a
 * little of the loss. NaN and infinities are named. */
SW_TEST("terms are added, and what is no number is named")
{
    const sw_fitness terms[] = {{.kind = SW_FITNESS_PARAMETERS, .factor = 1e-6},
                                {.kind = SW_FITNESS_LOSS}};
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    swi_fitness_plan plan;
    uint32_t which;
    sw_candidate c = member();
    OK(swi_fitness_read(&plan, NULL, 0, "test"));
    CU_ASSERT_EQUAL(swi_fitness_of(&plan, &c, &which), 0.9276 - 0.25e-6);
    OK(swi_fitness_read(&plan, terms, 2, "test"));
    CU_ASSERT_DOUBLE_EQUAL(swi_fitness_of(&plan, &c, &which), -0.05 - 0.25, 1e-12);
    for (int i = 0; i < 3; i++) {
        c.loss = bad[i];
        CU_ASSERT(isnan(swi_fitness_of(&plan, &c, &which)) && which == 1);
    }
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
        {{{.factor = NAN}}, "factor"},
        {{{.drop = 0.5}}, "drop"},
        {{{.kind = SW_FITNESS_TRAIN_ACCURACY, .drop = 0.25},
          {.kind = SW_FITNESS_TRAIN_ACCURACY}},
         "drop"},
    };
    for (uint32_t i = 0; i < 5; i++)
        REFUSED(swi_fitness_read(&plan, cases[i].t, i < 4 ? 1 : 2, "test"), SW_INVALID,
                cases[i].part);
    REFUSED(swi_fitness_read(&plan, &(sw_fitness){.objective = 1}, 1, "test"), SW_UNSUPPORTED,
            "objective is no longer used");
    REFUSED(swi_fitness_read(&plan, &(sw_fitness){.average = 0.5}, 1, "test"), SW_UNSUPPORTED,
            "average is no longer used");
    CU_ASSERT_EQUAL(plan.n, 77);
}
