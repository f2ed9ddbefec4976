/* Shared by the files of the file table. Messages are "path: reason". */
#pragma once

#include "alloc/base/sys.h"
#include <errno.h>

struct sw_file {
    int fd;
    bool waits; /* a FIFO, pipe, socket or terminal: its other end decides how long */
    size_t path_bytes;
    char path[];
};

/* The name by which the system finds an open file that may have none. */
enum { SWI_FD_PATH = 32 };
