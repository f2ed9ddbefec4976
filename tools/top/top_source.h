/* Which file a process writes its profile to, and whether a process still writes it. */
#ifndef STEPWELL_TOP_SOURCE_H
#define STEPWELL_TOP_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#define TOP_PATH 4096

typedef struct {
    char path[TOP_PATH];  /* what is opened: FILE, or an open file of the process */
    char shown[TOP_PATH]; /* its name for people */
    long pid;             /* 0: a file was named */
    uint64_t began;       /* of the process, as the system counts it; numbers are used again */
} top_source;

typedef enum {
    TOP_FOUND,
    TOP_NO_PROC,   /* the system does not show its processes */
    TOP_NO_SUCH,   /* it is not there, or has ended */
    TOP_FORBIDDEN, /* it is not ours to look at */
    TOP_NO_PROFILE /* it writes none */
} top_found;
/* Look for the profile that process `pid` writes, among its open files. */
top_found top_source_process(top_source *s, long pid);
/* Whether the process is still the one it was. */
bool top_source_lives(const top_source *s);
/* Whether a process has the file open for writing: 1, 0, or -1: it cannot be seen. */
int top_source_written(const top_source *s);
/* Whether the file begins as profiles do, as far as it goes; false when it cannot be read. */
bool top_source_fits(const char *path);

#endif
