/* Reading /proc/PID/smaps: what Linux says of each mapping of a process. */
#ifndef SW_SMAPS_H
#define SW_SMAPS_H

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct {
    uintptr_t start, end;
    bool accessible;  /* readable, writable or executable */
    const char *path; /* of the file, without " (deleted)"; "[stack]" and the like; "": none */
    size_t resident_bytes, huge_bytes; /* huge: of it, in huge pages */
} sw_mapping;

#endif
