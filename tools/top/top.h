/* `stepwell top` for `stepwell report --live`. */
#pragma once

#include <stdbool.h>

/* Watch a file as `stepwell top FILE` does; the exit status. */
int top_file(const char *file, bool json);
