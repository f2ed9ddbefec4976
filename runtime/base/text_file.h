/* A text of a file, whole. */
#pragma once

#include "alloc/base/base.h"

/* A whole file: *bytes and a zero after them, for sw_text_free. SW_FORMAT where it has more
 * than `most` bytes, which are then not read; `is` names what the file is. */
SW_MUST_USE sw_status swi_text_load(char **out, size_t *bytes, const char *path, const char *is,
                                    size_t most);
