/* The memory of the process for people, at the end of `train --process` and in reports. */
#ifndef STEPWELL_PROCESS_H
#define STEPWELL_PROCESS_H

#include "profiler/record/process.h"

/* A table of at most 80 columns, a line for each owner. `title` begins its first line. */
void process_print(const sw_process *process, const char *title);

#endif
