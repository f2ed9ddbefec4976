/* The evolution loop. */
#include "tests/evolve/evolution_scene.h"
#include "runtime/population/evolve/evolution.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Generations follow each other, and every number is there. */
static void generations_follow_each_other(void)
{
    const evo_data data = evo_digits(512, 128);
    const sw_evolution_opts opts = evo_opts(&data);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    sw_evolve_progress p = {.size = sizeof p};
    int evaluated = 0;
    while (p.generation < 3) {
        OK(sw_evolution_advance(e, &p));
        CU_ASSERT_FATAL(p.done <= p.all);
        if (p.what != SW_EVOLVE_EVALUATED)
            continue;
        evaluated++;
        for (uint32_t i = 0; i < sw_evolution_count(e); i++) {
            sw_candidate c = {.size = sizeof c};
            OK(sw_evolution_member(e, i, &c));
            SW_CHECK(c.measured_bytes == c.price->peak_bytes, "%zu %zu", c.measured_bytes,
                     c.price->peak_bytes);
            CU_ASSERT(c.invalid == isnan(c.fitness));
            sw_note("%" PRIu64 ": %" PRIu64 " from %" PRIu64 ": %" PRIu64
                    " parameters, %zu bytes, %.3f",
                    p.generation, c.id, c.parents[0], c.price->parameters, c.price->peak_bytes,
                    c.fitness);
        }
    }
    CU_ASSERT_EQUAL(evaluated, 3);
    sw_note("gap %.1f ms, %" PRIu64 " mutants", (double)p.longest_gap_ns / 1e6, p.mutants);
}

static const sw_test tests[] = {
    {"generations follow each other", generations_follow_each_other},
};
SW_SUITE("evolution", tests)
