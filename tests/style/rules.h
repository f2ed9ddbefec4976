/* Rules on what a source file calls and contains; pure functions over a path and its text. */
#ifndef SW_TESTS_STYLE_RULES_H
#define SW_TESTS_STYLE_RULES_H

#include <stdbool.h>
#include <stddef.h>

/* Called for each violation. */
typedef void style_report(void *to, const char *path, int line, const char *what);

/* Calls that belong to one file or folder only; comments and strings do not count. */
void style_check_calls(const char *path, const char *text, style_report *report, void *to);

/* In runtime/, who asks by NULL which device it is but the files of the backends, and who knows
 * the bytes of a number but the table of types; comments and strings do not count. */
void style_check_backends(const char *path, const char *text, style_report *report, void *to);

/* Words that no file of the tree has: paths of somebody's machine, notes to oneself. */
void style_check_words(const char *path, const char *text, style_report *report, void *to);

/* Replace comments and the insides of strings by blanks, in place; ends of lines stay. */
void style_blank(char *text);

#endif
