/* `stepwell top` for `stepwell report --live`. */
#ifndef STEPWELL_TOP_H
#define STEPWELL_TOP_H

#include <stdbool.h>

/* Watch a file as `stepwell top FILE` does; the exit status. */
int top_file(const char *file, bool json);

#endif
