/* Sorting for reader and checker of `stepwell place`: stable, by 64-bit keys, in linear
 * time. */
#ifndef STEPWELL_PLACE_SORT_H
#define STEPWELL_PLACE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Let order[0..n) be the numbers 0..n-1 by rising key, equal keys by number. `scratch` has n
 * entries and comes back with anything; order and scratch may not overlap. n < 2^32. */
void place_sort(uint32_t *order, uint32_t *scratch, const uint64_t *key, size_t n);

#endif
