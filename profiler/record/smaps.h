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

/* Hand the mappings of the text at `path` to `take`, in order of their addresses; a mapping is
 * valid during the call. SW_FORMAT names the line of what is no such text, or is cut; mappings
 * before it were taken. All memory is taken before the text is read, and no mapping is seen
 * between two states as long as no other thread maps memory. */
SW_MUST_USE sw_status sw_smaps_read(const char *path,
                                    void (*take)(void *context, const sw_mapping *mapping),
                                    void *context);

#endif
