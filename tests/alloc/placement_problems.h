/* Placement problems that several tests solve. */
#ifndef SW_TESTS_ALLOC_PLACEMENT_PROBLEMS_H
#define SW_TESTS_ALLOC_PLACEMENT_PROBLEMS_H

#include "alloc/placement/placement.h"
#include "tests/support/suite.h"

/* Cut the rectangle of `time` x `units` into n pieces, or as many as it takes, by random cuts
 * across or along, in no helpful order: a placement of exactly that height exists and no lower
 * one. Returns how many pieces it became; sizes are units. */
size_t problem_cut(sw_dice *dice, sw_placement_item *items, size_t n, uint32_t time,
                   size_t units);

/* Rows id,lower,upper,size below a header line, at most `most`. 0 when they cannot be read. */
size_t problem_read(sw_placement_item *items, size_t most, const char *path);

#endif
