/* Whether a failure was recorded. */
#pragma once

#include "alloc/base/base.h"

/* How many failures the calling thread has recorded so far. While the number stays the
 * same, no new reason has been recorded. */
uint64_t sw_error_count(void);

/* Setting what sw_last_note() answers. */

/* "" takes the note away. */
void swi_note_set(const char *format, ...) SW_PRINTF(1, 2);
