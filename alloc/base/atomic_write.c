/* A file that is written whole or not at all.
 *
 * Order: a new file of a random name, locked; what dead processes left is swept; bytes, sync,
 * rename; then the lock goes and the folder is synced. The lock is the only sign of life: a
 * process id says nothing where ids come back, as in containers. Between creating and locking
 * somebody else may sweep the file, so that is looked at once it is locked. */
#include "alloc/base/mem.h"
#include "alloc/base/note.h"
#include "alloc/base/sys.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    DIGITS = 16,                        /* of the random number in a name */
    ADDED = 1 + DIGITS + sizeof ".tmp", /* to a path, its zero byte too */
    LONGEST = 255 - ADDED,              /* of a name that the rest still fits behind */
    TRIES = 16
};

/* The names of one replacing; all in one block. */
typedef struct {
    const char *path;
    char *temporary, *other; /* other: room for a name that is looked at */
    size_t folder, stem;     /* bytes of both up to the last slash, up to the random number */
} names;

static void name_temporary(const names *n)
{
    snprintf(n->temporary + n->stem, ADDED, ".%016" PRIx64 ".tmp", sw_random());
}

/* What failed, with the name that the caller knows in place of the temporary one. */
static void say(char *to, size_t bytes, const names *n)
{
    const char *reason = sw_last_error();
    const size_t length = strlen(n->temporary);
    if (strncmp(reason, n->temporary, length) == 0)
        snprintf(to, bytes, "%s%s", n->path, reason + length);
    else
        snprintf(to, bytes, "%s", reason);
}

/* Take the unfinished file away and answer with the failure that came first. */
static sw_status give_up(sw_status status, const names *n, sw_file *file)
{
    char reason[512];
    say(reason, sizeof reason, n);
    const sw_status removed = sw_file_remove(n->temporary);
    sw_file_drop(file);
    if (removed != SW_OK)
        SW_FAIL(status, "%s; %s is left behind", reason, n->temporary);
    SW_FAIL(status, "%s", reason);
}

/* ---- the new file ------------------------------------------------------------------------ */

static bool is_temporary(const names *n, const char *name)
{
    const size_t stem = n->stem - n->folder;
    const char *stem_of = n->temporary + n->folder;
    if (strlen(name) != stem + ADDED - 1 || strncmp(name, stem_of, stem) != 0 ||
        name[stem] != '.' || strcmp(name + stem + 1 + DIGITS, ".tmp") != 0)
        return false;
    return strspn(name + stem + 1, "0123456789abcdef") == DIGITS;
}

static bool sweep_one(void *context, const char *name)
{
    const names *n = context;
    if (is_temporary(n, name) && strcmp(name, n->temporary + n->folder) != 0) {
        memcpy(n->other, n->temporary, n->folder);
        strcpy(n->other + n->folder, name);
        sw_file_sweep(n->other);
    }
    return true;
}

/* A file that cannot be removed stays; it does no harm. */
static void sweep(names *n)
{
    memcpy(n->other, n->temporary, n->folder);
    strcpy(n->other + n->folder, n->folder > 0 ? "" : ".");
    (void)!sw_folder_for_each(n->other, sweep_one, n);
}

/* A name that another process has just taken, or a file that it has just swept: once more. */
static sw_status create(sw_file **out, names *n)
{
    for (int tries = 1;; tries++) {
        name_temporary(n);
        const sw_status status = sw_file_open(out, n->temporary, SW_FILE_CREATE);
        if (status != SW_OK) {
            if (status == SW_IO && tries < TRIES && sw_file_taken(n->temporary))
                continue;
            return status;
        }
        const sw_file_lock lock = sw_file_try_lock(*out);
        if (lock == SW_LOCK_OURS && sw_file_is(*out, n->temporary)) {
            sweep(n);
            return SW_OK;
        }
        if (lock == SW_LOCK_NONE || lock == SW_LOCK_FAILED)
            return SW_OK;
        sw_file_drop(*out);
        if (tries == TRIES)
            SW_FAIL(SW_IO, "%s: other processes removed %d new files one after the other",
                    n->path, TRIES);
    }
}

/* ---- all of it --------------------------------------------------------------------------- */

static sw_status replace(names *n, sw_status (*write)(void *context, sw_file *file),
                         void *context)
{
    sw_file *file;
    sw_status status = create(&file, n);
    if (status != SW_OK) {
        char reason[512];
        say(reason, sizeof reason, n);
        SW_FAIL(status, "%s", reason);
    }
    status = sw_file_take_mode(file, n->path); /* before a byte of it can be read */
    if (status == SW_OK)
        status = write(context, file);
    if (status == SW_OK)
        status = sw_file_sync(file);
    if (status == SW_OK)
        status = sw_file_rename(n->temporary, n->path);
    if (status != SW_OK)
        return give_up(status, n, file);
    sw_file_drop(file); /* it was synced: closing has nothing to add */
    if (sw_folder_sync(n->path) != SW_OK)
        swi_note_set("%s: saved, durability unknown: its folder could not be synced (%s)",
                     n->path, sw_last_error());
    return SW_OK;
}

static sw_status write_in_place(const char *path,
                                sw_status (*write)(void *context, sw_file *file), void *context)
{
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_WRITE));
    sw_status status = write(context, file);
    if (status == SW_OK)
        status = sw_file_sync(file);
    if (status == SW_OK)
        return sw_file_close(file);
    sw_file_drop(file);
    return status;
}

sw_status sw_file_replace(const char *path, sw_status (*write)(void *context, sw_file *file),
                          void *context)
{
    swi_note_set("%s", "");
    if (strcmp(path, "-") == 0 || !sw_file_replaceable(path))
        return write_in_place(path, write, context);
    void *block;
    const size_t length = strlen(path), room = length + 256 + ADDED;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, 2 * room));
    names n = {.path = path, .temporary = block, .other = (char *)block + room};
    const char *slash = strrchr(path, '/');
    n.folder = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    n.stem = length - n.folder > LONGEST ? n.folder + LONGEST : length;
    memcpy(n.temporary, path, n.stem);
    const sw_status status = replace(&n, write, context);
    sw_heap_free(block, SW_HEAP_FILES, 2 * room);
    return status;
}
