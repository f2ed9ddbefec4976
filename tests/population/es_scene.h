/* Parameters of all shapes with a strategy, and no step function: an update reads no data. */
#ifndef SW_TESTS_ES_SCENE_H
#define SW_TESTS_ES_SCENE_H

#include "runtime/population/es/es_internal.h"
#include "tests/population/es_nets.h"

enum { MATRIX, IMAGE, VECTOR, CHANNELS, LARGE, PARAMS };
typedef struct {
    sw_model *model;
    sw_param param[PARAMS];
    sw_optimizer *opt;
    sw_es *es;
} scene;

/* Destroyed when the test ends. opt: NULL: sgd with a rate of 1. large: rows of a matrix of 300
 * columns; 0: there is none. init: of all. */
scene *scene_new(const sw_es_opts *es, const sw_optimizer_opts *opt, int64_t large,
                 const char *init);
sw_exec *scene_exec(int threads, const char *isa, int no_tiles);

/* The share where the noise has one, else 0. */
float scene_share(const char *noise, float share);
/* Raw numbers, sigma 0.25; more options may follow. */
#define SCENE_OPTS(noise_, ...)                                                                \
    SW_OPTS(sw_es_opts, .noise = noise_, .shaping = "raw",                                     \
            .in_share = scene_share(noise_, 0.6f), .out_share = scene_share(noise_, 0.7f),     \
            .sigma = 0.25f, .seed = 99, .directions = __VA_ARGS__)
/* Numbers of all evaluations, about `size`. */
void scene_tell(sw_es *es, float size);

/* Elements of a parameter; its values, freed when the test ends. */
size_t scene_size(const scene *s, int p);
float *scene_values(const scene *s, int p);
/* Its noise; rows 0: none. */
sw_noise_spec scene_noise(const scene *s, int p);
/* g = sum over d of w_d E_d in float64, freed when the test ends; zeros where there is no
 * noise. */
double *scene_sum(const scene *s, int p, const double *weights, const float *theta);
/* How far the step of a parameter, of a rate of 1, is from its gradient: the Frobenius norm of
 * the difference over that of the gradient. */
double scene_distance(const float *before, const float *after, const double *g, size_t n);

/* One step by the reported numbers: how far the worst parameter's step, except the large one's,
 * is from the explicit sum. The rate must be 1. */
double scene_step(scene *s, sw_exec *exec);

/* The program that updates, by these weights (and of squares: snes, else NULL). */
typedef struct {
    sw_array in[2];
    sw_run_args args;
} scene_update;
void scene_update_fill(scene_update *u, scene *s, const float *weights, const float *squares);

#endif
