/* A profile file read back line by line. */
#ifndef SW_TESTS_READ_BACK_H
#define SW_TESTS_READ_BACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/record/record.h"
#include "tests/support/json.h"

/* All lines as an array of objects, which goes when the test ends. Asserts that each is an
 * object and that the last one ends with a newline. */
const json_t *read_back(const char *path);

/* The records of one type, at most `room`; or those of which there must be n. */
size_t records_of(const json_t *all, const char *type, const json_t **out, size_t room);
const json_t *const *records(const json_t *all, const char *type, size_t n);
bool text_is(const json_t *record, const char *key, const char *wanted);
int64_t number_of(const json_t *record, const char *key);
int64_t phase_number(const json_t *record, int phase, const char *key);

/* The sums of a log: bytes of the arena that live at its end, and the phases of its run, each
 * with `base_bytes` more. The same figures as a watch's, to the byte and nanosecond. */
size_t record_replay(const sw_record *log, size_t n, size_t base_bytes,
                     sw_prof_phase phase[SW_PROF_PHASES]);

/* Lines that end with a newline. */
size_t count_lines(const char *path);

#endif
