/* The problems that bench place solves: a random one, and others that ought to be as hard. */
#ifndef STEPWELL_BENCH_PROBLEMS_H
#define STEPWELL_BENCH_PROBLEMS_H

#include "tools/place/place_csv.h"

/* A number below `below`, and the next state. */
uint64_t problem_dice(uint64_t *state, uint64_t below);

/* Room for n rows in an empty problem; place_csv_free gives it back, after a failure too. */
SW_MUST_USE sw_status problem_take(place_csv *csv, size_t n);

/* n buffers with lifetimes as in training: per layer one that waits for its backward, one that
 * lives for a few layers, a temporary in forward and a gradient in backward. */
SW_MUST_USE sw_status problem_random(place_csv *csv, size_t n);

/* The rows of `from` with time reversed; `to` has as many, and keeps sizes and alignments. */
void problem_reverse(place_csv *to, const place_csv *from);

/* The same rows in another order. */
void problem_shuffle(place_csv *csv, uint64_t seed);

#endif
