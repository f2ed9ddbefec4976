/* Lines of a file, one at a time, in a buffer that grows to the longest of them; and what they
 * say as JSON. */
#ifndef STEPWELL_PROFILE_LINES_H
#define STEPWELL_PROFILE_LINES_H

#include "alloc/base/sys.h"
#include "profiler/inspect/json_tree.h"
#include <stdbool.h>

#define PROFILE_RECORD_BYTES ((size_t)256 << 20) /* that one record takes as a tree */

typedef struct {
    sw_file *file;
    char *buffer;
    size_t capacity, begin, end;
    bool at_end;
    uint64_t line; /* of the latest line, from 1 */
    uint64_t at;   /* where it begins in the file */
    uint64_t next; /* where the next one begins */
    value_tree *tree;
    json_buffer json;
} profile_lines;

typedef struct {
    const char *text; /* NULL: there is no more */
    size_t n;
    bool whole; /* false for a last line that has no newline */
} profile_line;

SW_MUST_USE sw_status profile_lines_open(profile_lines *lines, const char *path);
void profile_lines_close(profile_lines *lines);
/* The next line begins there. */
SW_MUST_USE sw_status profile_lines_seek(profile_lines *lines, uint64_t at, uint64_t line);
/* The line as an object of JSON, valid until the next one is parsed; 0 where it is not one, and
 * sw_last_error() says why. SW_FORMAT: it takes more memory than a record may. */
SW_MUST_USE sw_status profile_lines_parse(profile_lines *lines, const char *text, size_t n,
                                          value *out);
/* The first bytes of the file, as they are now; the next line stays where it was. */
SW_MUST_USE sw_status profile_lines_head(profile_lines *lines, char *to, size_t bytes,
                                         size_t *n);
/* The next line without its newline. Valid until the next call. */
SW_MUST_USE sw_status profile_lines_next(profile_lines *lines, profile_line *line);

#endif
