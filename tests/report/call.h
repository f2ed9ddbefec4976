/* One call of `stepwell report` in the process of a test, and the files it reads. */
#ifndef SW_TESTS_REPORT_CALL_H
#define SW_TESTS_REPORT_CALL_H

#include "tests/support/suite.h"

/* The output of one call. */
typedef struct {
    int status;
    char out[65536], err[4096];
} printed;

/* With the words of the text, which blanks divide; "x.jsonl" without a folder is golden. Valid
 * until the next call. */
const printed *call_words(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The status of such a call, and a part of what it says: on standard output with status 0, else
 * on standard error. */
void expect_said(int status, const char *part, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A file of tests/report/golden. Valid until the fourth next call. */
const char *golden(const char *name);
void slurp(const char *path, char *to, size_t room);
bool has(const char *text, const char *part);
/* No line is wider than 80 characters or ends in a blank. */
void check_width(const char *text);
/* The output for these words is the golden file, and within 80 columns; status 0. */
void compare_text(const char *wanted, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#include "tests/support/json.h"

/* The object that a call printed; dropped after the test. */
const json_t *object_of(const printed *p);
/* A whole number of an object, and of one in one in it. */
long long number_of(const json_t *o, const char *key);
long long number_in(const json_t *o, const char *group, const char *name, const char *key);

#endif
