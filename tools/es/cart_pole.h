/* Cart-pole (Barto, Sutton and Anderson 1983): a cart on a rail with a pole on it is pushed to
 * the left or to the right, and the pole is to stay up. The usual constants: gravity 9.8,
 * masses 1 and 0.1, half length of the pole 0.5, force 10, 0.02 seconds a step by Euler's rule;
 * over where the cart is more than 2.4 or the pole more than 12 degrees from the middle. The
 * reward is 1 for each step, at most 500.
 *
 * Float64, without functions of the C library: the same bits on every machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CART_POLE_STEPS 500
enum { CART_POLE_SEES = 4, CART_POLE_ACTIONS = 2 };

typedef struct {
    double place, speed; /* of the cart */
    double angle, turn;  /* of the pole, in radians from upright, and by the second */
    int32_t steps;       /* that were made: the reward so far */
    bool over;
} cart_pole;

/* The beginning of an episode: each of the four numbers uniform in -0.05 to 0.05, by Philox
 * (kernels/rng.h) from seed and episode, under a key of its own. */
cart_pole cart_pole_begin(uint64_t seed, uint64_t episode);
/* Push for a step, to the right or to the left. Nothing where it is over. */
void cart_pole_step(cart_pole *c, bool right);

/* Many at once. The observations of a policy: (n, 4) F32. */
void cart_pole_see(const cart_pole *c, size_t n, float *out);
/* A step of each by the larger of its logits, (n, 2): the second is the push to the right.
 * Returns how many are not over. */
size_t cart_pole_act(cart_pole *c, size_t n, const float *logits);
