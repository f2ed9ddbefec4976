/* A profile file read back line by line. */
#ifndef SW_TESTS_READ_BACK_H
#define SW_TESTS_READ_BACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/json.h"

/* All whole lines as an array of objects; a last line without a newline is left out and *cut
 * says so. Asserts that each is an object. The caller gives it back with json_decref. */
json_t *read_back(const char *path, bool *cut);

/* The records of one type, borrowed from `records`. */
size_t records_of(const json_t *records, const char *type, const json_t **out, size_t room);
int64_t number_of(const json_t *record, const char *key);
int64_t phase_number(const json_t *record, int phase, const char *key);

/* Lines that end with a newline. */
size_t count_lines(const char *path);

#endif
