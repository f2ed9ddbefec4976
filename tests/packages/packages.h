/* Shared by the tests of this folder. */
#ifndef SW_TESTS_PACKAGES_H
#define SW_TESTS_PACKAGES_H

#include "tests/support/suite.h"
#include "tests/system/program.h"

bool package_tool_is_here(const char *tool);
/* A copy of what `meson install` leaves, by DESTDIR, made once: the folder that stands for "/".
 * The test fails where it cannot be made. */
const char *package_tree(void);
/* The prefix of this build, such as "/usr/local". */
const char *package_prefix(void);
/* A line by sh, as sw_shell; what it prints, both streams, is in the answer. */
typedef struct {
    int status;
    char text[1 << 16];
} package_answer;
const package_answer *package_ask(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
