/* Shared by the files of the file table. Messages are "path: reason". */
#ifndef SW_FILE_INTERNAL_H
#define SW_FILE_INTERNAL_H

#include "alloc/base/file_trace.h"
#include "alloc/base/sys.h"
#include <errno.h>
#include <limits.h>

struct sw_file {
    int fd;
    bool waits; /* a FIFO, pipe, socket or terminal: its other end decides how long */
    size_t path_bytes;
    char path[];
};

/* Fails the call when planned; errno then says EIO. */
bool swi_file_hit(void);

/* The status of errno, with `path` in the message: SW_IO, SW_STOPPED for ECANCELED, which no
 * call that is made here gives. */
sw_status swi_file_refuse(const char *path);

/* The folder that the name `path` stands in. False, with errno, where it is too long. */
bool swi_folder_of(char to[PATH_MAX], const char *path);

/* The name by which the system finds an open file that may have none. */
enum { SWI_FD_PATH = 32 };
void swi_fd_path(char to[SWI_FD_PATH], int fd);

#endif
