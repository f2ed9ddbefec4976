/* Setting what sw_last_note() answers. */
#ifndef SW_NOTE_H
#define SW_NOTE_H

#include "alloc/base/base.h"

/* "" takes the note away. */
void swi_note_set(const char *format, ...) SW_PRINTF(1, 2);

#endif
