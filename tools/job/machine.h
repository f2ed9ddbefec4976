/* How much memory this process may have. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct {
    size_t bytes;            /* SIZE_MAX where nothing says */
    size_t left;             /* of machine_left alone: what is not taken yet */
    bool group;              /* a control group leaves no more */
    char limit_unknown[400]; /* why a limit could not be read, the first one; "": all were */
} machine;

/* The least of the machine's memory and the limits of the control groups that the process is in
 * (version 1 and 2, their parents too). A file that is there and cannot be read (containers
 * hide them) limits nothing. SW_NOMEM is the only failure. `root` is "" but in tests, where
 * proc and sys are below it. */
SW_MUST_USE sw_status machine_memory(const char *root, machine *out);
/* And what is left of them: MemAvailable of the machine, and of a group its limit without what
 * it uses, where files that the system would give up count as left. limit_unknown also has why
 * a use could not be read, or is not there. */
SW_MUST_USE sw_status machine_left(const char *root, machine *out);
