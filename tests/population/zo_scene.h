/* Trainers of zeroth order on the nets of tests/runtime, and a step in plain code. */
#ifndef SW_TESTS_ZO_SCENE_H
#define SW_TESTS_ZO_SCENE_H

#include "runtime/population/es/zo_internal.h"
#include "tests/runtime/nets.h"

/* A net with an optimizer that keeps nothing, ready with `seed`. */
net *zo_net(sw_exec *exec, bool image, uint64_t seed);
/* Destroyed when the test ends; NULL: all defaults. */
sw_zo *zo_of(net *n, const sw_zo_opts *opts);
/* In SW_EVAL. */
sw_run_args zo_args(net *n, const batch *b);
/* `steps` steps; the last loss. */
double zo_train(sw_zo *zo, sw_exec *exec, net *n, const batch *b, int steps);

/* The expected step `step` of a trainer: element by element, by sw_noise_element, with the
 * losses of runs of `n` itself. */
void zo_plain_step(net *n, sw_exec *exec, const batch *b, const sw_zo_opts *opts, uint64_t step,
                   float lr);
/* Are all parameters the same, bit by bit? */
bool zo_same(const sw_model *a, const sw_model *b);

#endif
