/* Whether two names are one file, so that nothing is written over what is read. */
#pragma once

#include <stdbool.h>

#define FILE_PATH_BYTES 4096 /* as long as the system takes */

/* Whether both name one file, there already or not, by whatever links; false when one is NULL,
 * or a device, which has nothing that could be lost. */
bool file_same(const char *a, const char *b);
