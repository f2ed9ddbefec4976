/* A profile that a test writes record by record, so that every figure is known, for who watches
 * it. */
#ifndef SW_TESTS_WATCHED_H
#define SW_TESTS_WATCHED_H

#include "tests/system/program.h"
#include <stdint.h>
#include <stdio.h>

/* Asserts that it can be opened. */
FILE *open_profile(const char *path, const char *mode);
void put_header(FILE *f, const char *created);
/* Phase i peaks at i + 1 KiB and ends at half of it, but for step: at 0. */
void put_plan(FILE *f);
/* Step k begins 4 ms after the one before and takes STEP_NS and k microseconds; its loss is
 * 1000 - k. `more` bytes at the peak of backward are not as planned. The first is not warm. */
#define STEP_NS 3000000u
void put_step(FILE *f, unsigned k, unsigned allocations, uint64_t more);
void put_end(FILE *f, const char *status);

void watched_rest(long ms);
/* For sw_after: end the process of that number. */
void watched_end(void *pid);

#endif
