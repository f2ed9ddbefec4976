/* Open files: what is read and written, and how they are closed. */
#include "alloc/base/fault.h"
#include "alloc/base/file_internal.h"
#include "alloc/base/file_trace.h"
#include "alloc/base/mem.h"
#include "alloc/base/error.h"
#include "alloc/base/sys.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* File systems of which a sync does not say that the data will be there. */

/* f_type of Linux's file systems; FUSE: what its program does on a sync is not known here. */
static const struct {
    uint32_t type;
    const char *is;
} far[] = {
    {0x6969, "a network file system (NFS)"},
    {0x517b, "a network file system (SMB)"},
    {0xfe534d42, "a network file system (SMB2)"},
    {0xff534d42, "a network file system (CIFS)"},
    {0x01021997, "a network file system (9p)"},
    {0x00c36400, "a network file system (Ceph)"},
    {0x5346414f, "a network file system (AFS)"},
    {0x6b414653, "a network file system (AFS)"},
    {0x73757245, "a network file system (Coda)"},
    {0x564c, "a network file system (NCP)"},
    {0x0bd00bd0, "a network file system (Lustre)"},
    {0x47504653, "a network file system (GPFS)"},
    {0x19830326, "a network file system (BeeGFS)"},
    {0x65735546, "a file system of a program (FUSE)"},
    {0x786f4256, "a folder of the host (vboxsf)"},
};

const char *sw_file_far(const sw_file *file)
{
    struct statfs st;
    uint32_t type = swi_fault_file_system();
    if (type == 0 && fstatfs(file->fd, &st) == 0)
        type = (uint32_t)st.f_type;
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        if (far[i].type == type)
            return far[i].is;
    return NULL;
}

/* ---- file trace -------------------------------------------------------------------------- */

/* One listener for all files. */

static void (*listener)(void *context, const sw_file_event *event);
static void *listener_context;

void sw_file_trace(void (*listen)(void *context, const sw_file_event *event), void *context)
{
    listener = listen;
    listener_context = context;
}

/* For the table only. */
static void file_tell(const sw_file_event *event)
{
    if (listener != NULL)
        listener(listener_context, event);
}

/* ---- file -------------------------------------------------------------------------------- */

/* Fails the call when planned; errno then says EIO. */
static bool file_hit(void)
{
    if (!swi_fault_hit(SW_FAULT_FILE))
        return false;
    errno = EIO;
    return true;
}

/* The status of errno, with `path` in the message: SW_IO, SW_STOPPED for ECANCELED, which no
 * call that is made here gives. */
static sw_status file_refuse(const char *path)
{
    if (errno == ECANCELED)
        SW_FAIL(SW_STOPPED, "%s: interrupted while it waited for the other end", path);
    SW_FAIL(SW_IO, "%s: %s", path, strerror(errno));
}

/* A file in the place of a closed standard stream would take what is printed there. */
static int above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int because = errno;
    (void)close(fd);
    errno = because;
    return higher;
}

static bool is_output(const char *path, sw_file_mode mode)
{
    return mode == SW_FILE_WRITE && strcmp(path, "-") == 0;
}

static bool waits_for_peer(int fd, const struct stat *st)
{
    return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode) ||
           (S_ISCHR(st->st_mode) && isatty(fd) == 1);
}

/* open() of a FIFO waits where no signal can end it. So nothing is opened that way: one that is
 * read is open at once, and reading waits for the first writer; one that is written is asked
 * for until it has a reader (ENXIO before). */
static int open_now(const char *path, int flags)
{
    unsigned slices = 0;
    for (;;) {
        int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0666);
        if (fd < 0 && errno == EWOULDBLOCK) /* another process holds a lease of the file */
            fd = open(path, flags | O_CLOEXEC, 0666);
        struct stat st;
        if (fd >= 0 || (errno != EINTR &&
                        !(errno == ENXIO && stat(path, &st) == 0 && S_ISFIFO(st.st_mode))))
            return fd;
        if (!swi_wait_slice(&slices)) {
            errno = ECANCELED;
            return -1;
        }
    }
}

/* A file that cannot be polled takes no notice of O_NONBLOCK. */
static bool look_at(int fd, bool *waits)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return false;
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return false;
    }
    *waits = waits_for_peer(fd, &st);
    if (!*waits && !S_ISREG(st.st_mode))
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return true;
}

/* The folder that the name `path` stands in. False, with errno, where it is too long. */
static bool folder_of(char to[PATH_MAX], const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(to, path, n);
    memcpy(to + n, n == 0 ? "." : "", n == 0 ? 2 : 1);
    return true;
}

static void fd_path(char to[SWI_FD_PATH], int fd)
{
    snprintf(to, SWI_FD_PATH, "/proc/self/fd/%d", fd);
}

static int open_path(const char *path, sw_file_mode mode, bool *waits)
{
    static const int flags[] = {O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC,
                                O_WRONLY | O_CREAT | O_EXCL, O_WRONLY | O_CREAT};
    struct stat st;
    if (mode == SW_FILE_UNNAMED) {
        /* The name comes later through /proc, so that is looked at before anything is
         * written. EISDIR and EINVAL are what systems say that do not know such files. */
        char folder[PATH_MAX], now[SWI_FD_PATH];
        struct stat here, there;
        int fd = -1;
        if (!folder_of(folder, path))
            return -1;
        if (swi_fault_unnamed())
            do
                fd = above_standard(open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
            while (fd < 0 && errno == EINTR);
        else
            errno = EOPNOTSUPP;
        if (fd < 0 && (errno == EISDIR || errno == EINVAL || errno == ENOSYS))
            errno = EOPNOTSUPP;
        if (fd < 0)
            return -1;
        fd_path(now, fd);
        if (fstat(fd, &here) == 0 && stat(now, &there) == 0 && here.st_dev == there.st_dev &&
            here.st_ino == there.st_ino)
            return fd;
        (void)close(fd);
        errno = EOPNOTSUPP;
        return -1;
    }
    if (is_output(path, mode)) { /* its flags belong to others too */
        const int fd = dup(STDOUT_FILENO);
        *waits = fd >= 0 && fstat(fd, &st) == 0 && waits_for_peer(fd, &st);
        return fd;
    }
    const int opened = open_now(path, flags[mode]);
    const int fd = above_standard(opened);
    if (opened < 0 || (fd >= 0 && look_at(fd, waits)))
        return fd;
    const int because = errno;
    if (mode == SW_FILE_CREATE)
        (void)unlink(path); /* ours, and empty */
    if (fd >= 0)
        (void)close(fd);
    errno = because;
    return -1;
}

sw_status sw_file_open(sw_file **out, const char *path, sw_file_mode mode)
{
    const char *name = is_output(path, mode) ? "standard output" : path;
    const size_t length = strlen(name) + 1;
    sw_file *file;
    SW_TRY(sw_heap_alloc(&file, SW_HEAP_FILES, sizeof(sw_file) + length));
    file->waits = false;
    file->path_bytes = length;
    memcpy(file->path, name, length);
    file->fd = file_hit() ? -1 : open_path(path, mode, &file->waits);
    if (file->fd < 0) {
        const bool unknown = mode == SW_FILE_UNNAMED && errno == EOPNOTSUPP;
        const sw_status status = unknown ? SW_UNSUPPORTED : file_refuse(name);
        sw_heap_free(file, SW_HEAP_FILES, sizeof(sw_file) + length);
        if (unknown)
            SW_FAIL(status, "%s: its file system has no files without a name", name);
        return status;
    }
    *out = file;
    file_tell(
        &(sw_file_event){.kind = SW_FILE_OPENED, .file = file, .path = path, .mode = mode});
    return SW_OK;
}

const char *sw_file_path(const sw_file *file)
{
    return file->path;
}

sw_status sw_file_size(sw_file *file, uint64_t *bytes)
{
    struct stat st;
    if (file_hit() || fstat(file->fd, &st) != 0)
        return file_refuse(file->path);
    *bytes = (uint64_t)st.st_size;
    return SW_OK;
}

/* One read or write of a file, where the other end decides how long; what POLLOUT promises is
 * room for PIPE_BUF bytes. */
static ssize_t read_some(const sw_file *file, void *to, size_t bytes)
{
    if (file_hit())
        return -1;
    if (!file->waits || swi_wait_input(file->fd))
        return read(file->fd, to, bytes);
    errno = ECANCELED;
    return -1;
}

static ssize_t write_some(const sw_file *file, const void *from, size_t bytes)
{
    if (file_hit())
        return -1;
    if (!file->waits)
        return write(file->fd, from, bytes);
    if (swi_wait_output(file->fd))
        return write(file->fd, from, bytes < PIPE_BUF ? bytes : PIPE_BUF);
    errno = ECANCELED;
    return -1;
}

/* Others may read or write the same pipe: what was ready may be gone. */
static bool again(const sw_file *file)
{
    return errno == EINTR || (file->waits && (errno == EAGAIN || errno == EWOULDBLOCK));
}

sw_status sw_file_read(sw_file *file, void *to, size_t bytes, size_t *got)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t n = read_some(file, (char *)to + done, bytes - done);
        if (n < 0 && again(file))
            continue;
        if (n < 0)
            return file_refuse(file->path);
        if (n == 0)
            break;
        done += (size_t)n;
    }
    *got = done;
    return SW_OK;
}

sw_status sw_file_write(sw_file *file, const void *from, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t n = write_some(file, (const char *)from + done, bytes - done);
        if (n < 0 && again(file))
            continue;
        if (n < 0)
            return file_refuse(file->path);
        file_tell(&(sw_file_event){.kind = SW_FILE_WRITTEN,
                                   .file = file,
                                   .data = (const char *)from + done,
                                   .bytes = (size_t)n});
        done += (size_t)n;
    }
    return SW_OK;
}

sw_status sw_file_seek(sw_file *file, uint64_t offset)
{
    if (file_hit() || lseek(file->fd, (off_t)offset, SEEK_SET) < 0)
        return file_refuse(file->path);
    file_tell(&(sw_file_event){.kind = SW_FILE_SOUGHT, .file = file, .offset = offset});
    return SW_OK;
}

sw_status sw_file_cut(sw_file *file, uint64_t bytes)
{
    struct stat st;
    if (file_hit() || fstat(file->fd, &st) != 0)
        return file_refuse(file->path);
    if (!S_ISREG(st.st_mode))
        SW_FAIL(SW_FORMAT, "%s: is no regular file, and cannot be cut to %llu bytes",
                file->path, (unsigned long long)bytes);
    if ((uint64_t)st.st_size < bytes)
        SW_FAIL(SW_FORMAT, "%s: has %llu bytes, and cannot be cut to %llu", file->path,
                (unsigned long long)st.st_size, (unsigned long long)bytes);
    int result;
    do
        result = ftruncate(file->fd, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0 || lseek(file->fd, (off_t)bytes, SEEK_SET) < 0)
        return file_refuse(file->path);
    file_tell(&(sw_file_event){.kind = SW_FILE_CUT, .file = file, .offset = bytes});
    return SW_OK;
}

sw_status sw_file_sync(sw_file *file)
{
    if (file_hit() || (fsync(file->fd) != 0 &&
                       errno != EINVAL)) /* EINVAL: a pipe or terminal has nothing to sync */
        return file_refuse(file->path);
    file_tell(&(sw_file_event){.kind = SW_FILE_SYNCED, .file = file});
    return SW_OK;
}

void sw_file_drop(sw_file *file)
{
    if (file == NULL)
        return;
    (void)close(file->fd);
    sw_heap_free(file, SW_HEAP_FILES, sizeof *file + file->path_bytes);
}

sw_status sw_file_close(sw_file *file)
{
    if (file == NULL)
        return SW_OK;
    const bool failed = file_hit();
    sw_status status = SW_OK;
    if (close(file->fd) != 0 || failed) {
        errno = failed ? EIO : errno;
        status = file_refuse(file->path);
    }
    sw_heap_free(file, SW_HEAP_FILES, sizeof *file + file->path_bytes);
    return status;
}

bool sw_file_waits(const sw_file *file)
{
    return file->waits;
}

/* ---- file names -------------------------------------------------------------------------- */

/* Names of files and folders: what stands there, and what is renamed, linked and removed. */

sw_status sw_folder_sync(const char *path)
{
    char folder[PATH_MAX];
    if (!folder_of(folder, path))
        return file_refuse(path);
    const int fd = file_hit() ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_refuse(folder);
    const bool failed = file_hit() || fsync(fd) != 0;
    const int because = errno;
    (void)close(fd);
    errno = because;
    if (failed)
        return file_refuse(folder);
    file_tell(&(sw_file_event){.kind = SW_FILE_FOLDER_SYNCED, .path = path});
    return SW_OK;
}

bool sw_file_is(const sw_file *file, const char *path)
{
    struct stat here, there;
    return fstat(file->fd, &here) == 0 && stat(path, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

bool sw_file_there(const char *path)
{
    struct stat now;
    return stat(path, &now) == 0;
}

bool sw_folder_there(const char *path)
{
    struct stat now;
    return stat(path, &now) == 0 && S_ISDIR(now.st_mode);
}

bool sw_file_taken(const char *path)
{
    struct stat now;
    return lstat(path, &now) == 0;
}

sw_status sw_file_look(const char *path, bool *taken)
{
    struct stat now;
    const bool found = !file_hit() && lstat(path, &now) == 0;
    if (!found && errno != ENOENT && errno != ENOTDIR)
        return file_refuse(path);
    *taken = found;
    return SW_OK;
}

bool sw_file_replaceable(const char *path)
{
    struct stat now;
    return lstat(path, &now) != 0 || S_ISREG(now.st_mode);
}

sw_status sw_file_take_mode(sw_file *file, const char *like)
{
    struct stat there;
    if (file_hit())
        return file_refuse(file->path);
    if (lstat(like, &there) == 0 && S_ISREG(there.st_mode) &&
        fchmod(file->fd, there.st_mode & 07777) != 0)
        return file_refuse(file->path);
    return SW_OK;
}

sw_status sw_file_rename(const char *from, const char *to)
{
    if (file_hit() || rename(from, to) != 0)
        return file_refuse(to);
    file_tell(&(sw_file_event){.kind = SW_FILE_RENAMED, .path = from, .to = to});
    return SW_OK;
}

sw_status sw_file_remove(const char *path)
{
    if (file_hit() || unlink(path) != 0)
        return file_refuse(path);
    file_tell(&(sw_file_event){.kind = SW_FILE_REMOVED, .path = path});
    return SW_OK;
}

bool sw_file_same(const char *path, const char *also)
{
    struct stat here, there;
    return lstat(path, &here) == 0 && lstat(also, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

sw_status sw_file_name(sw_file *file, const char *path)
{
    char now[SWI_FD_PATH];
    fd_path(now, file->fd);
    if (file_hit() || linkat(AT_FDCWD, now, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
        return file_refuse(path);
    file_tell(&(sw_file_event){.kind = SW_FILE_NAMED, .file = file, .path = path});
    return SW_OK;
}

sw_status sw_file_second_name(const char *path, const char *also)
{
    if (file_hit() || (unlink(also) != 0 && errno != ENOENT))
        return file_refuse(also);
    if (!swi_fault_second_names())
        errno = EOPNOTSUPP;
    if (!swi_fault_second_names() || link(path, also) != 0) {
        if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS)
            SW_FAIL(SW_UNSUPPORTED, "%s: its file system has no second names of a file", path);
        return file_refuse(also);
    }
    file_tell(&(sw_file_event){.kind = SW_FILE_LINKED, .path = path, .to = also});
    return SW_OK;
}

sw_status sw_folder_make(const char *path)
{
    if (file_hit() || (mkdir(path, 0777) != 0 && (errno != EEXIST || !sw_folder_there(path))))
        return file_refuse(path);
    return SW_OK;
}

sw_status sw_folder_for_each(const char *path, bool (*take)(void *context, const char *name),
                             void *context)
{
    DIR *folder = file_hit() ? NULL : opendir(path);
    if (folder == NULL)
        return file_refuse(path);
    bool more = true;
    for (const struct dirent *x; more && (x = readdir(folder)) != NULL;)
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
            more = take(context, x->d_name);
    (void)closedir(folder);
    return SW_OK;
}

/* ---- file lock --------------------------------------------------------------------------- */

/* Locks: who writes a file, and what dead writers left. */

static sw_file_lock lock_fd(int fd)
{
    struct stat st;
    if (file_hit() || fstat(fd, &st) != 0)
        return SW_LOCK_FAILED;
    if (!S_ISREG(st.st_mode) || swi_fault_hit(SW_FAULT_LOCK))
        return SW_LOCK_NONE;
    int result;
    do
        result = flock(fd, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return SW_LOCK_OURS;
    /* A file system without locks, or NFS with a file that is open for reading. */
    return errno == EWOULDBLOCK ? SW_LOCK_THEIRS
                                : (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS ||
                                           errno == EINVAL || errno == EBADF
                                       ? SW_LOCK_NONE
                                       : SW_LOCK_FAILED);
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
    return lock == SW_LOCK_FAILED ? file_refuse(path) : SW_OK;
}

sw_status sw_file_take(sw_file **out, const char *path, bool empty)
{
    sw_file *file;
    if (strcmp(path, "-") == 0)
        return sw_file_open(out, path, SW_FILE_WRITE);
    SW_TRY(sw_file_open(&file, path, SW_FILE_KEEP));
    sw_status status = sw_file_own(file, path);
    if (status == SW_OK && empty) {
        if (file_hit() || (ftruncate(file->fd, 0) != 0 && errno != EINVAL)) /* EINVAL: a pipe */
            status = file_refuse(file->path);
        else
            file_tell(&(sw_file_event){.kind = SW_FILE_EMPTIED, .file = file});
    }
    return SW_GIVE(status, out, file, sw_file_drop);
}

void sw_file_sweep(const char *path)
{
    struct stat here, there;
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd =
        file_hit() ? -1 : open(path, O_WRONLY | flags); /* NFS locks what is open for writing */
    if (fd < 0 && errno == EACCES)
        fd = open(path, O_RDONLY | flags);
    if (fd < 0)
        return;
    /* The name may have gone to another file since it was opened. */
    if (lock_fd(fd) == SW_LOCK_OURS && fstat(fd, &here) == 0 && lstat(path, &there) == 0 &&
        here.st_dev == there.st_dev && here.st_ino == there.st_ino && !file_hit() &&
        unlink(path) == 0)
        file_tell(&(sw_file_event){.kind = SW_FILE_REMOVED, .path = path});
    (void)close(fd);
}

/* ---- holding a name ---------------------------------------------------------------------- */

/* *lost: it is locked, but the name has gone to another file in between. */
static sw_status try_to_hold(sw_file **out, const char *name, sw_file_lock *lock, bool *lost)
{
    sw_file *file;
    if (!sw_file_replaceable(name))
        SW_FAIL(SW_IO, "%s: is no regular file, so it is no lock", name);
    SW_TRY(sw_file_open(&file, name, SW_FILE_KEEP));
    uint64_t bytes = 0; /* a lock file of ours is empty */
    sw_status status = sw_file_size(file, &bytes);
    if (status == SW_OK && bytes > 0)
        status = sw_error_set(SW_IO, __FILE__, __LINE__, "%s: has %llu bytes, so it is no lock",
                              file->path, (unsigned long long)bytes);
    *lock = status == SW_OK ? sw_file_try_lock(file) : SW_LOCK_FAILED;
    if (status == SW_OK && *lock == SW_LOCK_FAILED)
        status = file_refuse(name);
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
    SW_TRY(status);
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
