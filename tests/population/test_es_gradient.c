/* The estimate of an evolution strategy and the program that updates by it: held to the
 * explicit float64 sum, for every kind of noise; with tiles and without, for any number of
 * threads; what it takes. */
#include "alloc/base/fault.h"
#include "kernels/dispatch.h"
#include "kernels/noise.h"
#include "runtime/population/es/es_internal.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parameters of all shapes without a step function: an update reads none. */
enum { MATRIX, IMAGE, VECTOR, CHANNELS, LARGE, PARAMS };
typedef struct {
    sw_model *model;
    sw_param param[PARAMS];
    sw_optimizer *opt;
    sw_es *es;
} scene;

static void end_scene(void *p)
{
    scene *s = p;
    sw_es_destroy(s->es);
    sw_model_destroy(s->model);
    free(s);
}

static const sw_optimizer_opts sgd = {
    .size = sizeof(sw_optimizer_opts), .kind = "sgd", .lr = 1.0f};

/* large: 0: there is no large matrix; init: of all. */
static scene *scene_new(const sw_es_opts *es, const sw_optimizer_opts *opt, int64_t large,
                        const char *init)
{
    scene *s = calloc(1, sizeof *s);
    sw_after(end_scene, s);
    OK(sw_model_create(&s->model, "scene"));
    s->param[MATRIX] = sw_param_new(s->model, "matrix", SW_F32, SW_SHAPE(13, 20), init);
    s->param[IMAGE] = sw_param_new(s->model, "image", SW_F32, SW_SHAPE(6, 5, 3, 3), init);
    s->param[VECTOR] = sw_param_new(s->model, "vector", SW_F32, SW_SHAPE(41), init);
    s->param[CHANNELS] = sw_param_new(s->model, "channels", SW_F32, SW_SHAPE(7, 1, 1), init);
    if (large > 0)
        s->param[LARGE] = sw_param_new(s->model, "large", SW_F32, SW_SHAPE(large, 300), init);
    OK(sw_optimizer_create(&s->opt, s->model, opt != NULL ? opt : &sgd));
    OK(sw_es_create(&s->es, s->opt, es));
    return s;
}

static sw_exec *exec_new(int threads, const char *isa, int no_tiles)
{
    sw_exec *exec = net_exec(&(sw_exec_opts){.size = sizeof(sw_exec_opts),
                                             .threads = threads,
                                             .isa = isa,
                                             .no_tiles = no_tiles,
                                             .checks = 1});
    return exec;
}

static const char *const noises[] = {
    "low-rank",  "iid",          "permuted",      "permuted-in", "permuted-out",
    "sign-flip", "sign-flip-in", "sign-flip-out", "sparse",      "dropout"};
enum { NOISES = sizeof noises / sizeof *noises };

static sw_es_opts opts_of(const char *noise, uint32_t directions)
{
    const bool parts = strcmp(noise, "sparse") == 0 || strcmp(noise, "permuted") == 0;
    return (sw_es_opts){.size = sizeof(sw_es_opts),
                        .noise = noise,
                        .shaping = "raw",
                        .in_share = parts ? 0.6f : 0.0f,
                        .out_share = parts ? 0.7f : 0.0f,
                        .sigma = 0.25f,
                        .directions = directions,
                        .seed = 99};
}

/* Numbers of all evaluations, about `size`. */
static void tell_all(sw_es *es, float size)
{
    sw_dice dice = {7};
    for (uint32_t r = 0; r < es->mode.repeats; r++)
        for (uint32_t d = 0; d < es->mode.directions; d++)
            OK(sw_es_tell(es, d, r,
                          size * ((float)(sw_dice_next(&dice) % 2001) / 1000.0f - 1.0f)));
}

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

/* g = sum over d of w_d E_d in float64; *n elements, freed by the caller. 0 where the parameter
 * has no noise. */
static double *sum_of(const scene *s, int p, const double *weights, const float *theta)
{
    const swi_noise_mode *m = &s->es->mode;
    const swi_entry *entry = &s->model->entries[s->param[p].index];
    const int64_t n = (int64_t)(entry->bytes / 4);
    double *g = calloc((size_t)n, sizeof *g);
    sw_noise_spec spec;
    swi_noise_spec(&spec, &m->like, m->in_share, m->out_share, &entry->shape,
                   swi_noise_stream(entry->name));
    for (uint32_t k = 0; spec.rows != 0 && k < m->directions; k++) {
        const sw_noise_at at = {m->seed, (uint32_t)m->generation, k};
        sw_noise_direction d;
        sw_noise_prepare(&d, &spec, &at, 0.25f);
        for (int64_t i = 0; i < n; i++)
            g[i] += weights[k] *
                    (double)sw_noise_element(&spec, &d, i / spec.cols, i % spec.cols, theta[i]);
    }
    return g;
}

static float *values_of(const scene *s, int p)
{
    const size_t bytes = s->model->entries[s->param[p].index].bytes;
    float *x = malloc(bytes);
    OK(sw_param_read(s->param[p], x, bytes));
    return x;
}

/* How far the step of parameter p, of a rate of 1, is from its wanted gradient. */
static double distance(const float *before, const float *after, const double *g, size_t n)
{
    double off = 0.0, all = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double step = (double)before[i] - (double)after[i];
        off += (step - g[i]) * (step - g[i]);
        all += g[i] * g[i];
    }
    return all > 0.0 ? sqrt(off / all) : sqrt(off);
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
        before[p] = values_of(s, p);
        g[p] = sum_of(s, p, weights, before[p]);
        const size_t n = s->model->entries[s->param[p].index].bytes / 4;
        for (size_t i = 0; i < n; i++) {
            const double t = (double)before[p][i];
            g[p][i] += (double)s->es->l1 * ((t > 0.0) - (t < 0.0)) + (double)s->es->l2 * t;
        }
    }
    OK(sw_es_step(s->es, exec, &info));
    for (int p = 0; p < n_params; p++) {
        float *after = values_of(s, p);
        const size_t n = s->model->entries[s->param[p].index].bytes / 4;
        worst = fmax(worst, distance(before[p], after, g[p], n));
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
            const bool drops = strcmp(noises[k], "dropout") == 0;
            const sw_es_opts o = opts_of(noises[k], 40);
            sw_exec *exec = exec_new(1 + (isa + k) % 2, isas[isa], 0);
            scene *s = scene_new(&o, NULL, 0, drops ? "normal:1" : "zeros");
            OK(sw_model_ready(s->model, exec, 3));
            for (int generation = 0; generation < 2; generation++) {
                if (!drops)
                    OK(sw_model_ready(s->model, exec, 3));
                tell_all(s->es, 1.0f);
                const double worst = worst_step(s, exec, LARGE);
                SW_CHECK(worst < 1e-5, "%s, %s: %g", isas[isa], noises[k], worst);
            }
        }
}

static void decay_is_added(void)
{
    sw_es_opts o = opts_of("low-rank", 30);
    o.l1 = 0.5f;
    o.l2 = 0.25f;
    sw_exec *exec = exec_new(2, NULL, 0);
    scene *s = scene_new(&o, NULL, 0, "normal:1");
    OK(sw_model_ready(s->model, exec, 3));
    tell_all(s->es, 1.0f);
    const double worst = worst_step(s, exec, LARGE);
    SW_CHECK(worst < 1e-5, "%g", worst);
}

/* 2^14 evaluations, antithetic pairs of 2^13 directions, rank 1. */
static void many_members_are_summed_well(void)
{
    const sw_es_opts o = opts_of("low-rank", 1 << 13);
    sw_exec *exec = exec_new(2, NULL, 0);
    scene *s = scene_new(&o, NULL, 0, "zeros");
    OK(sw_model_ready(s->model, exec, 3));
    tell_all(s->es, 1.0f);
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
