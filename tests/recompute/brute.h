/* The cheapest schedule by trying all, and a follower of its own. */
#ifndef SW_TESTS_RECOMPUTE_BRUTE_H
#define SW_TESTS_RECOMPUTE_BRUTE_H

#include "runtime/plan/recompute/recompute.h"

#define BRUTE_NONE UINT64_MAX
#define BRUTE_GAVE_UP (UINT64_MAX - 1)

/* The peak of the first n steps, were they all. */
size_t brute_peak(const swi_rc_problem *p, const uint32_t *steps, uint32_t n);

/* The least cost of all schedules of peak at most `capacity` and cost at most `limit`:
 * BRUTE_NONE where there is none, BRUTE_GAVE_UP after `work` beginnings of schedules. */
uint64_t brute_least(const swi_rc_problem *p, size_t capacity, uint64_t limit, uint64_t work);

#endif
