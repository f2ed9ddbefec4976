/* The parts of a transcript's line, for what makes files. */
#ifndef SW_TESTS_TRANSCRIPT_H
#define SW_TESTS_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/* A path as a line has it: in the folder of the test, if it has none. Valid until the eighth
 * next call. */
const char *transcript_path(const char *name);
/* The first word of *rest, cut off. */
char *transcript_word(char **rest);
/* \n, \r, \t, \\ and \xHH in place; returns the bytes. */
size_t transcript_unescape(char *text);

/* "WHAT ...": false where it cannot be made. */
bool transcript_make(char *rest);

#endif
