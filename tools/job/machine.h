/* How much memory this process may have. */
#ifndef STEPWELL_MACHINE_H
#define STEPWELL_MACHINE_H

#include "alloc/base/base.h"

/* The least of the machine's memory and the limits of the control groups that the process is in
 * (version 1 and 2, their parents too); SIZE_MAX where nothing says. `root` is "" but in tests,
 * where proc and sys are below it. */
SW_MUST_USE sw_status machine_memory(const char *root, size_t *out);

#endif
