/* One test over many seeds of random networks. STEPWELL_SEED=n runs that seed alone. A seed
 * that fails prints its description, and its first failure only. */
#ifndef SW_TESTS_RUNTIME_RANDOM_SEEDS_H
#define SW_TESTS_RUNTIME_RANDOM_SEEDS_H

#include "tests/runtime/random_net.h"

extern random_net seed_net; /* of the seed under test */
extern bool seed_failed;

void seed_each(int quick, int full, void (*one)(void));
void seed_check(bool passed, const char *what, const char *detail);
bool seed_well(sw_status status, const char *what);
void seed_sizes(const char *what, size_t measured, size_t wanted);

#endif
