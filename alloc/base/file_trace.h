/* Reports to a listener what the file table has done: tests record a save and ask what a loss
 * of power can leave of it. Process-wide, for one thread at a time; free when off. */
#pragma once

#include "alloc/base/sys.h"

typedef enum {
    SW_FILE_OPENED,       /* file, path, mode */
    SW_FILE_SOUGHT,       /* file, offset */
    SW_FILE_WRITTEN,      /* file, data, bytes: at the file's position, which moves on */
    SW_FILE_EMPTIED,      /* file */
    SW_FILE_CUT,          /* file, offset: its length now, and its position */
    SW_FILE_SYNCED,       /* file */
    SW_FILE_RENAMED,      /* path, to */
    SW_FILE_REMOVED,      /* path */
    SW_FILE_NAMED,        /* file, path: it was opened without a name and has this one now */
    SW_FILE_LINKED,       /* path, to: the name `to` was removed in front */
    SW_FILE_FOLDER_SYNCED /* path: the folder that this name stands in */
} sw_file_event_kind;

typedef struct {
    sw_file_event_kind kind;
    sw_file_mode mode;
    const sw_file *file;
    const char *path, *to;
    uint64_t offset;
    const void *data;
    size_t bytes;
} sw_file_event;

/* Call `listen` after each call of the file table that succeeded and changed something; NULL
 * ends it. The event ends with the call. */
void sw_file_trace(void (*listen)(void *context, const sw_file_event *event), void *context);
