/* Locks: who writes a file, and what dead writers left. */
#include "alloc/base/fault.h"
#include "alloc/base/file_internal.h"
#include "alloc/base/mem.h"
#include "alloc/base/note.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file system without locks, or NFS with a file that is open for reading. */
static bool has_no_locks(void)
{
    return errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL ||
           errno == EBADF;
}

static sw_file_lock lock_fd(int fd)
{
    struct stat st;
    if (swi_file_hit() || fstat(fd, &st) != 0)
        return SW_LOCK_FAILED;
    if (!S_ISREG(st.st_mode) || swi_fault_hit(SW_FAULT_LOCK))
        return SW_LOCK_NONE;
    int result;
    do
        result = flock(fd, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return SW_LOCK_OURS;
    return errno == EWOULDBLOCK ? SW_LOCK_THEIRS
                                : (has_no_locks() ? SW_LOCK_NONE : SW_LOCK_FAILED);
}

sw_file_lock sw_file_try_lock(sw_file *file)
{
    return lock_fd(file->fd);
}

sw_status sw_file_own(sw_file *file, const char *path)
{
    const sw_file_lock lock = sw_file_try_lock(file);
    if (lock == SW_LOCK_THEIRS)
        SW_FAIL(SW_BUSY, "%s: another process is writing it", path);
    return lock == SW_LOCK_FAILED ? swi_file_refuse(path) : SW_OK;
}

sw_status sw_file_empty(sw_file *file)
{
    if (swi_file_hit() || (ftruncate(file->fd, 0) != 0 && errno != EINVAL)) /* EINVAL: a pipe */
        return swi_file_refuse(file->path);
    swi_file_tell(&(sw_file_event){.kind = SW_FILE_EMPTIED, .file = file});
    return SW_OK;
}

sw_status sw_file_take(sw_file **out, const char *path, bool empty)
{
    sw_file *file;
    if (strcmp(path, "-") == 0)
        return sw_file_open(out, path, SW_FILE_WRITE);
    SW_TRY(sw_file_open(&file, path, SW_FILE_KEEP));
    sw_status status = sw_file_own(file, path);
    if (status == SW_OK && empty)
        status = sw_file_empty(file);
    if (status != SW_OK) {
        sw_file_drop(file);
        return status;
    }
    *out = file;
    return SW_OK;
}

void sw_file_sweep(const char *path)
{
    struct stat here, there;
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = swi_file_hit()
                 ? -1
                 : open(path, O_WRONLY | flags); /* NFS locks what is open for writing */
    if (fd < 0 && errno == EACCES)
        fd = open(path, O_RDONLY | flags);
    if (fd < 0)
        return;
    /* The name may have gone to another file since it was opened. */
    if (lock_fd(fd) == SW_LOCK_OURS && fstat(fd, &here) == 0 && lstat(path, &there) == 0 &&
        here.st_dev == there.st_dev && here.st_ino == there.st_ino && !swi_file_hit() &&
        unlink(path) == 0)
        swi_file_tell(&(sw_file_event){.kind = SW_FILE_REMOVED, .path = path});
    (void)close(fd);
}

/* ---- holding a name ---------------------------------------------------------------------- */

/* A lock file of ours is empty: one that holds bytes is another thing of that name. */
static sw_status is_ours(sw_file *file)
{
    uint64_t bytes;
    SW_TRY(sw_file_size(file, &bytes));
    if (bytes > 0)
        SW_FAIL(SW_IO, "%s: has %llu bytes, so it is no lock", file->path,
                (unsigned long long)bytes);
    return SW_OK;
}

/* *lost: it is locked, but the name has gone to another file in between. */
static sw_status try_to_hold(sw_file **out, const char *name, sw_file_lock *lock, bool *lost)
{
    sw_file *file;
    if (!sw_file_replaceable(name))
        SW_FAIL(SW_IO, "%s: is no regular file, so it is no lock", name);
    SW_TRY(sw_file_open(&file, name, SW_FILE_KEEP));
    sw_status status = is_ours(file);
    *lock = status == SW_OK ? sw_file_try_lock(file) : SW_LOCK_FAILED;
    if (status == SW_OK && *lock == SW_LOCK_FAILED)
        status = swi_file_refuse(name);
    *lost = *lock == SW_LOCK_OURS && !sw_file_is(file, name);
    if (*lock == SW_LOCK_NONE && sw_file_is(file, name))
        (void)!sw_file_remove(name); /* it says nothing where files have no locks */
    if (*lock == SW_LOCK_OURS && !*lost)
        *out = file;
    else
        sw_file_drop(file);
    return status;
}

sw_status sw_file_hold(sw_file **out, const char *path)
{
    enum { TRIES = 100 };
    const size_t room = strlen(path) + sizeof ".lock";
    void *name;
    sw_file *file = NULL;
    swi_note_set("%s", "");
    SW_TRY(sw_heap_alloc(&name, SW_HEAP_FILES, room));
    snprintf(name, room, "%s.lock", path);
    bool lost = true; /* the one before removed the name between our opening and locking */
    sw_file_lock lock = SW_LOCK_THEIRS;
    sw_status status = SW_OK;
    for (int i = 0; i < TRIES && status == SW_OK && lost; i++)
        status = try_to_hold(&file, name, &lock, &lost);
    sw_heap_free(name, SW_HEAP_FILES, room);
    if (status != SW_OK)
        return status;
    if (lost || lock == SW_LOCK_THEIRS)
        SW_FAIL(SW_BUSY, "%s: another process saves to it: %s.lock is locked", path, path);
    if (file == NULL)
        swi_note_set("%s: the file system has no locks: another run could save to it as well",
                     path);
    *out = file;
    return SW_OK;
}

void sw_file_let_go(sw_file *held)
{
    if (held == NULL)
        return;
    if (sw_file_is(held, held->path)) /* locked: a process that opened it sees that it went */
        (void)!sw_file_remove(held->path);
    sw_file_drop(held);
}
