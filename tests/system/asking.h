/* Asking the program about a profile, and the net that several questions are put to. */
#ifndef SW_TESTS_ASKING_H
#define SW_TESTS_ASKING_H

#include "tests/support/suite.h"
#include "tests/system/program.h"
#include "tests/system/scenes.h"

#include "tests/support/json.h"

/* The outcome of the last call. */
extern sw_outcome asked;

/* Run the program with these words; its exit status. */
int ask(const char *format, ...) SW_PRINTF(1, 2);
/* The JSON object that it printed; lives as long as the test. */
const json_t *answer(void);
/* That of `report --json PATH`. */
const json_t *report_of(const char *path);

/* The member at "a.b.c"; names with a dot in them are not asked for. Asserts that it is there.
 */
const json_t *at(const json_t *o, const char *path);
int64_t number_at(const json_t *o, const char *path);
void check(const json_t *o, const char *path, int64_t wanted);
void check_text(const json_t *o, const char *path, const char *wanted);
/* Of all members of an object; with `member`, of that member of each. */
int64_t sum_of(const json_t *object, const char *member);

#define NET 4
extern const layer_scene net[NET];
/* A profile of two steps of the first layers of the net. */
const char *net_profile(const char *name, int layers);

#endif
