/* Runs with memory that is known without a profiler: their tensors are as large as the test
 * says and live as long as the text of the step function says. */
#ifndef SW_TESTS_SCENES_H
#define SW_TESTS_SCENES_H

#include "runtime/stepwell.h"
#include <stddef.h>
#include <stdint.h>

/* Everything begins at a multiple of 64 bytes. */
static inline size_t scene_rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}
static inline size_t floats(int64_t n)
{
    return scene_rounded((size_t)n * sizeof(float));
}
#define ONE_NUMBER ((size_t)64)

/* One step: each phase makes a tensor of n[phase] floats and their sum, a number that leaves
 * the run. The tensor dies after the sum, and the numbers live to the end. */
typedef struct {
    int64_t n[SW_PHASES];
} phases_scene;

static inline size_t phases_peak(const phases_scene *s, int phase)
{
    return floats(s->n[phase]) + (size_t)(phase + 1) * ONE_NUMBER;
}
static inline size_t phases_end(int phase)
{
    return (size_t)(phase + 1) * ONE_NUMBER;
}

/* Layers, each with a tensor of n floats; a last one, "join", puts them all into one and sums
 * that up: while it does, everything lives. */
typedef struct {
    const char *scope[3]; /* from the outside, up to NULL */
    int64_t n;
} layer_scene;
#define SCENE_LAYERS 6

static inline size_t layers_joined(const layer_scene *s, int n)
{
    int64_t all = 0;
    for (int i = 0; i < n; i++)
        all += s[i].n;
    return floats(all);
}
static inline size_t layers_peak(const layer_scene *s, int n)
{
    size_t bytes = layers_joined(s, n);
    for (int i = 0; i < n; i++)
        bytes += floats(s[i].n);
    return bytes;
}

/* A linear layer without anything around it, that is trained by Adam on `rows` rows, with
 * gradients that stay in the model. After each step it is evaluated on `eval_rows`; 0: it is
 * not. */
typedef struct {
    int64_t rows, in, out, eval_rows;
} linear_scene;

static inline size_t linear_parameters(const linear_scene *s)
{
    return floats(s->in * s->out) + floats(s->out);
}
/* The tensors in the step arena of an evaluation: the result, and its one number. */
static inline size_t linear_eval_arena(const linear_scene *s)
{
    return floats(s->eval_rows * s->out) + ONE_NUMBER;
}

/* Tensors of the sizes 2, 3, 1, 2, 1, 3 and 2 (times `unit` floats) in an order of births and
 * deaths where no more than 5 live at one time, and 6 are needed: when the second has died the
 * rest fills all 5, so the first and fifth lie at an end; the sixth, of 3, would have to lie in
 * one piece beside the third and fifth and so in the middle, and the last, of 2, beside it.
 * Each dies into a number, which lives to the end. */
typedef struct {
    int64_t unit;
} holes_scene;
#define HOLES_TENSORS 7

/* Runs into one profile. All assert that they work. */
typedef struct {
    sw_profile *profile;
    sw_exec *exec;
    uint64_t step;
    int immediate;      /* 1: runs go op by op */
    size_t model_bytes; /* of the latest model, as sw_model_bytes says */
} scene;
/* `profile` without size, path and model: all defaults. */
scene *scene_open(const char *path, sw_profile_opts profile);
/* Go on with another exec, which records into the same profile. `exec` without size and
 * profile. */
void scene_exec(scene *s, sw_exec_opts exec);
void scene_close(scene *s);
void scene_phases(scene *s, const phases_scene *what);
void scene_layers(scene *s, const layer_scene *what, int n);
void scene_holes(scene *s, const holes_scene *what);
void scene_linear(scene *s, const linear_scene *what, int steps);

#endif
