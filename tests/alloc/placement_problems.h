/* Placement problems that several tests solve. */
#ifndef SW_TESTS_ALLOC_PLACEMENT_PROBLEMS_H
#define SW_TESTS_ALLOC_PLACEMENT_PROBLEMS_H

#include "alloc/placement/placement.h"
#include "tests/support/suite.h"

void problem_shuffle(sw_dice *dice, sw_placement_item *rows, size_t n);

/* n buffers that begin below `horizon` and live 1 to `longest`, of 1 to `largest` units of 64
 * bytes. */
void problem_random(sw_dice *dice, sw_placement_item *rows, size_t n, uint32_t horizon,
                    uint32_t longest, size_t largest);

/* Cut the rectangle of `time` x `units` into n pieces, or as many as it takes, by random cuts
 * across or along, in no helpful order: a placement of exactly that height exists and no lower
 * one. Returns how many pieces it became; sizes are units. */
size_t problem_cut(sw_dice *dice, sw_placement_item *items, size_t n, uint32_t time,
                   size_t units);

/* The largest sum that is live at one time, at every start: quadratic and plain. */
size_t problem_load(const sw_placement_item *items, size_t n);

/* The least height of all placements: of every order, each buffer as low as it may above those
 * before it that it shares time with. Any placement, buffers taken upwards, is no lower than
 * the order it is taken in. Begins with 0, 0, 0 and a height that is no longer of interest. */
size_t problem_least(sw_placement_item *items, size_t n, size_t n_placed, uint32_t placed,
                     size_t height, size_t best);

/* A published problem below $STEPWELL_DATA, of rows id,lower,upper,size below a header line, at
 * most `most`; skips the test where it is not there. */
size_t problem_read(sw_placement_item *items, size_t most, const char *name);

#endif
