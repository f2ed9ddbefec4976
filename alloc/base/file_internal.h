/* What the files of the file table share. Messages are "path: reason". */
#ifndef SW_FILE_INTERNAL_H
#define SW_FILE_INTERNAL_H

#include "alloc/base/file_trace.h"
#include "alloc/base/sys.h"
#include <errno.h>

struct sw_file {
    int fd;
    bool waits; /* a FIFO, pipe, socket or terminal: its other end decides how long */
    size_t path_bytes;
    char path[];
};

/* Fails the call when planned; errno then says EIO. */
bool swi_file_hit(void);

/* What errno says of `path`. ECANCELED is ours: no call that is made here answers it. */
sw_status swi_file_refuse(const char *path);

#endif
