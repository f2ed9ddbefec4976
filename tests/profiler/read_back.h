/* A profile file read back line by line. */
#ifndef SW_TESTS_READ_BACK_H
#define SW_TESTS_READ_BACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/record/record.h"
#include "tests/support/json.h"

/* All whole lines as an array of objects; a last line without a newline is left out and *cut
 * says so; NULL: that fails. Asserts that each is an object. The caller gives it back with
 * json_decref. */
json_t *read_back(const char *path, bool *cut);

/* The records of one type, borrowed from `records`. */
size_t records_of(const json_t *records, const char *type, const json_t **out, size_t room);
int64_t number_of(const json_t *record, const char *key);
int64_t phase_number(const json_t *record, int phase, const char *key);

/* The sums of a log: bytes of the arena that live at its end, and the phases of its run, each
 * with `base_bytes` more. The same figures as a watch's, to the byte and nanosecond. */
size_t record_replay(const sw_record *log, size_t n, size_t base_bytes,
                     sw_prof_phase phase[SW_PROF_PHASES]);

/* Lines that end with a newline. */
size_t count_lines(const char *path);

#endif
