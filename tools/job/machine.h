/* How much memory this process may have. */
#ifndef STEPWELL_MACHINE_H
#define STEPWELL_MACHINE_H

#include "alloc/base/base.h"

typedef struct {
    size_t bytes;            /* SIZE_MAX where nothing says */
    char limit_unknown[400]; /* why a limit could not be read, the first one; "": all were */
} machine;

/* The least of the machine's memory and the limits of the control groups that the process is in
 * (version 1 and 2, their parents too). A file that is there and cannot be read (containers
 * hide them) limits nothing. SW_NOMEM is the only failure. `root` is "" but in tests, where
 * proc and sys are below it. */
SW_MUST_USE sw_status machine_memory(const char *root, machine *out);

#endif
