/* The estimate of an evolution strategy, by the program that updates by it: held to the
 * explicit float64 sum, for every kind of noise. */
#include "kernels/dispatch.h"
#include "tests/population/es_scene.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The weight of a direction as the header has it, of raw numbers that were told. */
static double weight_of(const sw_es *es, uint32_t d)
{
    const swi_noise_mode *m = &es->mode;
    double w = 0.0;
    for (uint32_t r = 0; r < m->repeats; r++) {
        const double sign = m->antithetic && r >= (m->repeats + 1) / 2 ? -1.0 : 1.0;
        w += sign * (double)es->fitness[(size_t)r * m->directions + d];
    }
    return w / (0.25 * (double)m->repeats * (double)m->directions);
}

static double worst_step(scene *s, sw_exec *exec, int n_params)
{
    double worst = 0.0, *weights = calloc(s->es->mode.directions, sizeof *weights);
    double *g[PARAMS];
    float *before[PARAMS];
    sw_es_info info = {.size = sizeof info};
    for (uint32_t d = 0; d < s->es->mode.directions; d++)
        weights[d] = weight_of(s->es, d);
    for (int p = 0; p < n_params; p++) {
        before[p] = scene_values(s, p);
        g[p] = scene_sum(s, p, weights, before[p]);
        for (size_t i = 0; i < scene_size(s, p); i++) {
            const double t = (double)before[p][i];
            g[p][i] += (double)s->es->l1 * ((t > 0.0) - (t < 0.0)) + (double)s->es->l2 * t;
        }
    }
    OK(sw_es_step(s->es, exec, &info));
    for (int p = 0; p < n_params; p++) {
        float *after = scene_values(s, p);
        worst = fmax(worst, scene_distance(before[p], after, g[p], scene_size(s, p)));
        free(after);
        free(before[p]);
        free(g[p]);
    }
    free(weights);
    return worst;
}

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
                const double worst = worst_step(s, exec, LARGE);
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
    const double worst = worst_step(s, exec, LARGE);
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
    const double worst = worst_step(s, exec, LARGE);
    SW_CHECK(worst < 1e-5, "%g", worst);
    sw_note("%.1e from the float64 sum", worst);
}

static const sw_test tests[] = {
    {"the estimate is the explicit sum", the_estimate_is_the_explicit_sum},
    {"l1 and l2 are added", decay_is_added},
    {"2^14 members are summed well", many_members_are_summed_well},
};
SW_SUITE("es gradient", tests)
