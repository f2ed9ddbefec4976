/* Small nets that train on a device and on the CPU alike, for tests of whole steps. */
#ifndef SW_TESTS_CUDA_DEVICE_SCENES_H
#define SW_TESTS_CUDA_DEVICE_SCENES_H

#include "runtime/stepwell.h"
#include <stdbool.h>

#define SW_SCENE_INPUTS 2
#define SW_SCENE_ROOM 4096 /* bytes of one input at most */

typedef struct sw_scene sw_scene;
struct sw_scene {
    const char *name;
    const char *optimizer;
    float lr;
    void (*build)(sw_model *model, void *net);
    sw_step_fn *step;                 /* user: a sw_scene_net */
    sw_array inputs[SW_SCENE_INPUTS]; /* without data */
    uint32_t below[SW_SCENE_INPUTS];  /* of whole numbers; 0: floats in -1..1 */
    bool knobs; /* the optimizer's numbers and the rate of dropout change in each step */
    uint64_t state_bits; /* of the optimizer; 0: float32 */
    sw_update_time update;
};
extern const sw_scene sw_scenes[];
extern const int sw_n_scenes;
const sw_scene *sw_scene_of(const char *name);

typedef struct {
    sw_optimizer *optimizer;
    sw_knob clip;
    sw_knob dropout;
    bool knobs;
    union {
        uint64_t align;
        unsigned char bytes[4096];
    } layers;
} sw_scene_net;

typedef struct {
    const char *device; /* NULL: the CPU */
    int steps;
    bool immediate, no_graphs, sync_ops, tf32, no_inplace;
    sw_dtype compute;
    bool vary;           /* another rate for each step */
    sw_profile *profile; /* NULL: none */
    sw_plan_info *plan;  /* gets the plan of a step, before the first, where it is set */
    /* Called after each step where it is set. */
    void (*after)(void *context, sw_exec *exec, const sw_model *model, int step);
    /* Called before all is given back, where nothing has failed. */
    void (*leaving)(void *context);
    void *context;
} sw_scene_run;

/* The results of a training: the metric of its last step, and all parameters and buffers. */
typedef struct {
    double loss;
    float *numbers;
    size_t n;
} sw_scene_end;

/* Train from the same seeds; end NULL: nothing is read back. All is given back, also where it
 * fails. */
sw_status sw_scene_train(const sw_scene *scene, const sw_scene_run *run, sw_scene_end *end);
/* The results of such a training, until the test ends; one that fails ends the test. Of
 * sw_scene_train the caller frees end->numbers. */
sw_scene_end sw_scene_trained(const sw_scene *scene, sw_scene_run run);

/* All parameters and buffers of a model: *numbers, which grow by realloc, *n of them. */
sw_status sw_scene_numbers(sw_model *model, float **numbers, size_t *n);

/* Same loss and numbers, to the bit. */
bool sw_scene_same_bits(const sw_scene_end *a, const sw_scene_end *b);
/* The largest difference of two trainings of one scene, relative to the largest number. */
double sw_scene_apart(const sw_scene_end *a, const sw_scene_end *b);

#endif
