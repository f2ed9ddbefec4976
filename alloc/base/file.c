/* Open files: what is read and written, and how they are closed. */
#include "alloc/base/file_internal.h"
#include "alloc/base/fault.h"
#include "alloc/base/mem.h"
#include "alloc/base/wait.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool swi_file_hit(void)
{
    if (!swi_fault_hit(SW_FAULT_FILE))
        return false;
    errno = EIO;
    return true;
}

sw_status swi_file_refuse(const char *path)
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

static bool is_fifo(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
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
        if (fd >= 0 || (errno != EINTR && !(errno == ENXIO && is_fifo(path))))
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

/* The name comes later through /proc, so that is looked at before anything is written. EISDIR
 * and EINVAL are what systems say that do not know such files. */
static int open_unnamed(const char *path)
{
    char folder[PATH_MAX], now[SWI_FD_PATH];
    struct stat here, there;
    int fd = -1;
    if (!swi_folder_of(folder, path))
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
    swi_fd_path(now, fd);
    if (fstat(fd, &here) == 0 && stat(now, &there) == 0 && here.st_dev == there.st_dev &&
        here.st_ino == there.st_ino)
        return fd;
    (void)close(fd);
    errno = EOPNOTSUPP;
    return -1;
}

static int open_path(const char *path, sw_file_mode mode, bool *waits)
{
    static const int flags[] = {O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC,
                                O_WRONLY | O_CREAT | O_EXCL, O_WRONLY | O_CREAT};
    struct stat st;
    if (mode == SW_FILE_UNNAMED)
        return open_unnamed(path);
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
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, sizeof(sw_file) + length));
    sw_file *file = block;
    file->waits = false;
    file->path_bytes = length;
    memcpy(file->path, name, length);
    file->fd = swi_file_hit() ? -1 : open_path(path, mode, &file->waits);
    if (file->fd < 0) {
        const bool unknown = mode == SW_FILE_UNNAMED && errno == EOPNOTSUPP;
        const sw_status status = unknown ? SW_UNSUPPORTED : swi_file_refuse(name);
        sw_heap_free(file, SW_HEAP_FILES, sizeof(sw_file) + length);
        if (unknown)
            SW_FAIL(status, "%s: its file system has no files without a name", name);
        return status;
    }
    *out = file;
    swi_file_tell(
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
    if (swi_file_hit() || fstat(file->fd, &st) != 0)
        return swi_file_refuse(file->path);
    *bytes = (uint64_t)st.st_size;
    return SW_OK;
}

/* One read or write of a file, where the other end decides how long; what POLLOUT promises is
 * room for PIPE_BUF bytes. */
static ssize_t read_some(const sw_file *file, void *to, size_t bytes)
{
    if (swi_file_hit())
        return -1;
    if (!file->waits || swi_wait_input(file->fd))
        return read(file->fd, to, bytes);
    errno = ECANCELED;
    return -1;
}

static ssize_t write_some(const sw_file *file, const void *from, size_t bytes)
{
    if (swi_file_hit())
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
            return swi_file_refuse(file->path);
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
            return swi_file_refuse(file->path);
        swi_file_tell(&(sw_file_event){.kind = SW_FILE_WRITTEN,
                                       .file = file,
                                       .data = (const char *)from + done,
                                       .bytes = (size_t)n});
        done += (size_t)n;
    }
    return SW_OK;
}

sw_status sw_file_seek(sw_file *file, uint64_t offset)
{
    if (swi_file_hit() || lseek(file->fd, (off_t)offset, SEEK_SET) < 0)
        return swi_file_refuse(file->path);
    swi_file_tell(&(sw_file_event){.kind = SW_FILE_SOUGHT, .file = file, .offset = offset});
    return SW_OK;
}

sw_status sw_file_cut(sw_file *file, uint64_t bytes)
{
    struct stat st;
    if (swi_file_hit() || fstat(file->fd, &st) != 0)
        return swi_file_refuse(file->path);
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
        return swi_file_refuse(file->path);
    swi_file_tell(&(sw_file_event){.kind = SW_FILE_CUT, .file = file, .offset = bytes});
    return SW_OK;
}

sw_status sw_file_sync(sw_file *file)
{
    if (swi_file_hit() ||
        (fsync(file->fd) != 0 &&
         errno != EINVAL)) /* EINVAL: a pipe or terminal has nothing to sync */
        return swi_file_refuse(file->path);
    swi_file_tell(&(sw_file_event){.kind = SW_FILE_SYNCED, .file = file});
    return SW_OK;
}

void sw_file_drop(sw_file *file)
{
    if (file == NULL)
        return;
    (void)close(file->fd);
    sw_heap_free(file, SW_HEAP_FILES, sizeof *file + file->path_bytes);
}

static sw_status close_fd(const sw_file *file)
{
    const bool failed = swi_file_hit();
    if (close(file->fd) == 0 && !failed)
        return SW_OK;
    if (failed)
        errno = EIO;
    return swi_file_refuse(file->path);
}

sw_status sw_file_close(sw_file *file)
{
    if (file == NULL)
        return SW_OK;
    const sw_status status = close_fd(file);
    sw_heap_free(file, SW_HEAP_FILES, sizeof *file + file->path_bytes);
    return status;
}

bool sw_file_waits(const sw_file *file)
{
    return file->waits;
}
