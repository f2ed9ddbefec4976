/* The states that a loss of power can leave of a folder, by the record of the file table.
 *
 * The model: what was written to a file since its last sync is there or not, sector by sector
 * and in any order; its length is any that it has had since then, and bytes that never came
 * read as zeros. A name that was made, renamed, linked or removed since its folder was last
 * synced is as before or as after, each by itself. Renaming is one change. Synced bytes stay -
 * but of a file that has had no name yet, nothing is synced: Btrfs leaves that out. Names are
 * those of one folder. */
#ifndef SW_TEST_CRASH_H
#define SW_TEST_CRASH_H

#include "alloc/base/file_trace.h"
#include <stdbool.h>

typedef struct sw_crash sw_crash;

/* Record from now on, beginning with what stands in `folder`, all of it durable. */
sw_crash *sw_crash_begin(const char *folder);
void sw_crash_stop(void);
void sw_crash_free(sw_crash *crash);

int sw_crash_events(const sw_crash *crash);
sw_file_event_kind sw_crash_kind(const sw_crash *crash, int event);
/* The open file of an event, which may be closed since: to tell two of them apart. */
const sw_file *sw_crash_handle(const sw_crash *crash, int event);
/* Have an event come later, right after event `after`, as if the code had that order. */
void sw_crash_move(sw_crash *crash, int from, int behind);

/* A file that a crash left. */
typedef struct {
    const char *name;
    const unsigned char *bytes;
    size_t n;
} sw_crash_file;

/* Call `see` for each state that a crash may leave after any number of events; `done`: after
 * the last one, so that all that was promised must be there. left_out: an event that did not
 * happen, as if its call were not in the code; -1: none. Returns the number of states; stops
 * where `see` returns false. */
uint64_t sw_crash_states(const sw_crash *crash, int left_out,
                         bool (*see)(void *context, const sw_crash_file *files, int n,
                                     bool done),
                         void *context);
const sw_crash_file *sw_crash_find(const sw_crash_file *files, int n, const char *name);
/* Leave out each sync, naming, link and rename: `see` must then raise *wrong, and may stop at
 * the first state that it finds wrong. kinds[k]: how many events of kind k that was. */
void sw_crash_leave_each_out(const sw_crash *crash,
                             bool (*see)(void *context, const sw_crash_file *files, int n,
                                         bool done),
                             uint64_t *wrong, int kinds[SW_FILE_FOLDER_SYNCED + 1]);

/* ---- folders of tests of saves ----------------------------------------------------------- */

/* A folder of the test's own, empty, so that what is left is seen; a name in it. */
extern char saves_folder[1024];
void saves_begin(const char *name);
const char *saves_at(const char *name);
int saves_count(void);
/* Small files: write one; whether it has that text. */
void saves_put(const char *path, const char *text);
bool saves_has(const char *path, const char *text);
/* Run with new files that have no name while they are written, and with named ones. */
void saves_both_ways(void (*run)(const char *name), const char *name);

#endif
