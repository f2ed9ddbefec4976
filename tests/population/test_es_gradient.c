/* The estimate of an evolution strategy, by the program that updates by it: held to the
 * explicit float64 sum, for every kind of noise. */
#include "kernels/dispatch.h"
#include "tests/population/es_scene.h"
#include <string.h>

/* Where parameters begin at 0 the step is the estimate itself, to the last bit of it. */
static void the_estimate_is_the_explicit_sum(void)
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (int k = 0; k < NOISES; k++) {
            const bool drops = strcmp(scene_noises[k], "dropout") == 0;
            const sw_es_opts o = scene_opts(scene_noises[k], 40);
            sw_exec *exec = scene_exec(1 + (isa + k) % 2, isas[isa], 0);
            scene *s = scene_new(&o, NULL, 0, drops ? "normal:1" : "zeros");
            OK(sw_model_ready(s->model, exec, 3));
            for (int generation = 0; generation < 2; generation++) {
                if (!drops)
                    OK(sw_model_ready(s->model, exec, 3));
                scene_tell(s->es, 1.0f);
                const double worst = scene_step(s, exec);
                SW_CHECK(worst < 1e-5, "%s, %s: %g", isas[isa], scene_noises[k], worst);
            }
        }
}

static void decay_is_added(void)
{
    sw_es_opts o = scene_opts("low-rank", 30);
    o.l1 = 0.5f;
    o.l2 = 0.25f;
    sw_exec *exec = scene_exec(2, NULL, 0);
    scene *s = scene_new(&o, NULL, 0, "normal:1");
    OK(sw_model_ready(s->model, exec, 3));
    scene_tell(s->es, 1.0f);
    const double worst = scene_step(s, exec);
    SW_CHECK(worst < 1e-5, "%g", worst);
}

/* 2^14 evaluations, antithetic pairs of 2^13 directions, rank 1. */
static void many_members_are_summed_well(void)
{
    const sw_es_opts o = scene_opts("low-rank", 1 << 13);
    sw_exec *exec = scene_exec(2, NULL, 0);
    scene *s = scene_new(&o, NULL, 0, "zeros");
    OK(sw_model_ready(s->model, exec, 3));
    scene_tell(s->es, 1.0f);
    const double worst = scene_step(s, exec);
    SW_CHECK(worst < 1e-5, "%g", worst);
    sw_note("%.1e from the float64 sum", worst);
}

static const sw_test tests[] = {
    {"the estimate is the explicit sum", the_estimate_is_the_explicit_sum},
    {"l1 and l2 are added", decay_is_added},
    {"2^14 members are summed well", many_members_are_summed_well},
};
SW_SUITE("es gradient", tests)
