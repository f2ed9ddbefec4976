/* A file that is written whole or not at all.
 *
 * Order: a new file without a name, locked; what dead processes left is swept; bytes; a random
 * name; sync; what the caller makes durable in front; older generations move up; rename; then
 * the lock goes and the folder is synced. The sync comes after the name: Btrfs skips that of a
 * file that has none, as if it could never be reached.
 *
 * Where the system has no files without a name, the new file has the random one from the start.
 * Between creating and locking somebody else may sweep it, so that is looked at once it is
 * locked. The lock is the only sign of life: a process id says nothing where ids come back, as
 * in containers. */
#include "alloc/base/base.h"
#include "alloc/base/file_internal.h"
#include "alloc/base/mem.h"
#include "alloc/base/error.h"
#include "alloc/base/sys.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    const char *path;
    int keep;        /* 0 and 1: no other than `path` */
    char *from, *to; /* room for names, `bytes` each */
    size_t bytes;
} swi_generations;

/* ---- generations ------------------------------------------------------------------------- */

/* Moving generations up. Each change of a name is one call, so that a process that ends between
 * two of them leaves whole files, at most with one number free; the next replacing fills it. */

bool sw_generation_name(char *to, size_t bytes, const char *path, int i)
{
    const int n =
        i == 0 ? snprintf(to, bytes, "%s", path) : snprintf(to, bytes, "%s.%d", path, i);
    return n >= 0 && (size_t)n < bytes;
}

static sw_status name(const swi_generations *g, char *to, int i)
{
    if (!sw_generation_name(to, g->bytes, g->path, i))
        SW_FAIL(SW_IO, "%s: its name is too long for generation %d", g->path, i);
    return SW_OK;
}

/* SW_IO where a name up to the first free one is a folder's, or cannot be looked at. *free: the
 * number of that name, the last generation's where all are taken. */
static sw_status generations_look(const swi_generations *g, int *free)
{
    *free = 1;
    for (int i = 1; i < g->keep; i++) {
        bool there;
        struct stat now;
        SW_TRY(name(g, g->to, i));
        SW_TRY(sw_file_look(g->to, &there));
        if (there && lstat(g->to, &now) == 0 && S_ISDIR(now.st_mode))
            SW_FAIL(SW_IO, "%s: is a folder, and cannot become an older generation", g->to);
        *free = i;
        if (!there)
            break;
    }
    return SW_OK;
}

/* Make what stands at the path PATH.1 too, with the older ones moved up first. Changes nothing
 * where nothing stands there, or where it is PATH.1 already: a replacing that ended here is
 * tried again. *kept: false where the system has no second names. */
static sw_status generations_move(const swi_generations *g, bool *kept)
{
    int free;
    bool there;
    *kept = true;
    if (g->keep <= 1)
        return SW_OK;
    SW_TRY(sw_file_look(g->path, &there));
    if (!there)
        return SW_OK;
    SW_TRY(name(g, g->to, 1));
    if (sw_file_same(g->path, g->to))
        return SW_OK;
    SW_TRY(generations_look(g, &free));
    for (int i = free; i > 1; i--) {
        SW_TRY(name(g, g->from, i - 1));
        SW_TRY(name(g, g->to, i));
        SW_TRY(sw_file_rename(g->from, g->to));
    }
    SW_TRY(name(g, g->to, 1));
    const sw_status status = sw_file_second_name(g->path, g->to);
    *kept = status != SW_UNSUPPORTED;
    return *kept ? status : SW_OK;
}

/* ---- atomic write ------------------------------------------------------------------------ */

enum {
    DIGITS = 16,                        /* of the random number in a name */
    ADDED = 1 + DIGITS + sizeof ".tmp", /* to a path, its zero byte too */
    LONGEST = 255 - ADDED,              /* of a name that the rest still fits after */
    TRIES = 16
};

/* The names of one replacing; all in one block. */
typedef struct {
    const char *path;
    char *temporary, *other, *third; /* other, third: room for names that are looked at */
    size_t folder, stem; /* bytes of them up to the last slash, up to the random number */
    size_t room;
    bool named; /* the new file stands at `temporary` */
} names;

static void name_temporary(const names *n)
{
    snprintf(n->temporary + n->stem, ADDED, ".%016" PRIx64 ".tmp", sw_random());
}

/* Say what failed, with the name that the caller knows in place of the temporary one. */
static void say(char *to, size_t bytes, const names *n)
{
    const char *reason = sw_last_error();
    const size_t length = strlen(n->temporary);
    if (length > n->stem && strncmp(reason, n->temporary, length) == 0)
        snprintf(to, bytes, "%s%s", n->path, reason + length);
    else
        snprintf(to, bytes, "%s", reason);
}

/* ---- the new file ------------------------------------------------------------------------ */

static bool sweep_one(void *context, const char *name)
{
    const names *n = context;
    const size_t stem = n->stem - n->folder;
    const char *own = n->temporary + n->folder;
    if (strlen(name) == stem + ADDED - 1 && strncmp(name, own, stem) == 0 &&
        name[stem] == '.' && strcmp(name + stem + 1 + DIGITS, ".tmp") == 0 &&
        strspn(name + stem + 1, "0123456789abcdef") == DIGITS && strcmp(name, own) != 0) {
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
static sw_status create_named(sw_file **out, names *n)
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

static sw_status give_name(names *n, sw_file *file)
{
    for (int tries = 1; !n->named; tries++) {
        name_temporary(n);
        const sw_status status = sw_file_name(file, n->temporary);
        n->named = status == SW_OK;
        if (!n->named && (tries == TRIES || !sw_file_taken(n->temporary)))
            return status;
    }
    return SW_OK;
}

/* ---- all of it --------------------------------------------------------------------------- */

static sw_status replace(names *n, const sw_replace_opts *opts)
{
    const swi_generations g = {n->path, opts->drop_old ? 0 : opts->keep, n->other, n->third,
                               n->room};
    sw_file *file;
    int free;
    bool kept = true;
    SW_TRY(generations_look(&g, &free)); /* before the work of writing */
    sw_status status = sw_file_open(&file, n->path, SW_FILE_UNNAMED);
    /* Locked before it has a name: no sweep of another process takes it. */
    if (status == SW_OK && sw_file_try_lock(file) == SW_LOCK_OURS)
        sweep(n);
    if (status == SW_UNSUPPORTED) {
        status = create_named(&file, n);
        n->named = status == SW_OK;
    }
    if (status != SW_OK) {
        char reason[512];
        say(reason, sizeof reason, n);
        SW_FAIL(status, "%s", reason);
    }
    status = sw_file_take_mode(file, n->path); /* before a byte of it can be read */
    if (status == SW_OK)
        status = opts->write(opts->context, file);
    /* The new file is full: all that comes between this and its name. */
    if (status == SW_OK)
        status = give_name(n, file);
    if (status == SW_OK)
        status = sw_file_sync(file);
    if (status == SW_OK && opts->before != NULL)
        status = opts->before(opts->context);
    if (status == SW_OK && !opts->drop_old)
        status = generations_move(&g, &kept);
    if (status == SW_OK)
        status = sw_file_rename(n->temporary, n->path);
    if (status != SW_OK) {
        /* Take the unfinished file away and answer with the failure that came first. */
        char reason[512];
        say(reason, sizeof reason, n);
        const sw_status removed = n->named ? sw_file_remove(n->temporary) : SW_OK;
        sw_file_drop(file);
        if (removed != SW_OK)
            SW_FAIL(status, "%s; %s is left", reason, n->temporary);
        SW_FAIL(status, "%s", reason);
    }
    const char *far = sw_file_far(file);
    sw_file_drop(file); /* it was synced: closing has nothing to add */

    /* The new file is there; what cannot be promised of it. */
    const sw_status synced = sw_folder_sync(n->path);
    const bool unknown = far != NULL || synced != SW_OK;
    const char *older =
        "no older generation is kept: its file system has no second names of a file";
    char why[600] = "";
    if (synced != SW_OK)
        snprintf(why, sizeof why, "its folder could not be synced (%s)", sw_last_error());
    else if (far != NULL)
        snprintf(why, sizeof why, "it is on %s", far);
    if (unknown)
        swi_note_set("%s: saved, durability unknown: %s%s%s", n->path, why, kept ? "" : "; ",
                     kept ? "" : older);
    else if (!kept)
        swi_note_set("%s: saved, but %s", n->path, older);
    return SW_OK;
}

sw_status sw_file_replace_with(const char *path, const sw_replace_opts *opts)
{
    bool taken = false;
    swi_note_set("%s", "");
    if (strcmp(path, "-") != 0)
        SW_TRY(sw_file_look(path, &taken)); /* a link or a device that cannot be seen stays */
    if (strcmp(path, "-") == 0 || (taken && !sw_file_replaceable(path))) {
        sw_file *file;
        SW_TRY(sw_file_open(&file, path, SW_FILE_WRITE));
        sw_status status = opts->write(opts->context, file);
        if (status == SW_OK)
            status = sw_file_sync(file);
        if (status == SW_OK && opts->before != NULL)
            status = opts->before(opts->context);
        if (status == SW_OK)
            return sw_file_close(file);
        sw_file_drop(file);
        return status;
    }
    void *block;
    const size_t length = strlen(path), room = length + 256 + ADDED;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, 3 * room));
    names n = SW_INIT(.path = path, .temporary = block, .other = (char *)block + room,
                      .third = (char *)block + 2 * room, .room = room);
    const char *slash = strrchr(path, '/');
    n.folder = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    n.stem = length - n.folder > LONGEST ? n.folder + LONGEST : length;
    memcpy(n.temporary, path, n.stem);
    n.temporary[n.stem] = '\0';
    const sw_status status = replace(&n, opts);
    sw_heap_free(block, SW_HEAP_FILES, 3 * room);
    return status;
}

sw_status sw_file_replace(const char *path, sw_status (*write)(void *context, sw_file *file),
                          void *context)
{
    return sw_file_replace_with(path, &(sw_replace_opts){.write = write, .context = context});
}

typedef struct {
    const void *bytes;
    size_t n;
} whole;

static sw_status write_whole(void *context, sw_file *file)
{
    const whole *w = context;
    return sw_file_write(file, w->bytes, w->n);
}

sw_status sw_file_replace_bytes(const char *path, const void *bytes, size_t n)
{
    return sw_file_replace(path, write_whole, &(whole){bytes, n});
}
