/* Files, threads, libraries, the clock. Messages are "path: reason". */
#include "alloc/sys.h"
#include "alloc/claims.h"
#include "alloc/fault.h"
#include "alloc/mem.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct sw_file {
    int fd;
    size_t path_bytes;
    char path[];
};

/* Fails the call when planned; errno then says EIO. */
static bool hit(void)
{
    if (!swi_fault_hit(SW_FAULT_FILE))
        return false;
    errno = EIO;
    return true;
}

static sw_status refuse(const char *path)
{
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

static int open_path(const char *path, sw_file_mode mode)
{
    static const int flags[] = {O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC,
                                O_WRONLY | O_CREAT | O_EXCL};
    if (is_output(path, mode))
        return dup(STDOUT_FILENO);
    int fd;
    do
        fd = open(path, flags[mode] | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    fd = above_standard(fd);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        errno = EISDIR;
        return -1;
    }
    return fd;
}

sw_status sw_file_open(sw_file **out, const char *path, sw_file_mode mode)
{
    const char *name = is_output(path, mode) ? "standard output" : path;
    const size_t length = strlen(name) + 1;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, sizeof(sw_file) + length));
    sw_file *file = block;
    file->path_bytes = length;
    memcpy(file->path, name, length);
    file->fd = hit() ? -1 : open_path(path, mode);
    if (file->fd < 0) {
        const sw_status status = refuse(name);
        sw_heap_free(file, SW_HEAP_FILES, sizeof(sw_file) + length);
        return status;
    }
    *out = file;
    return SW_OK;
}

const char *sw_file_path(const sw_file *file)
{
    return file->path;
}

sw_status sw_file_size(sw_file *file, uint64_t *bytes)
{
    struct stat st;
    if (hit() || fstat(file->fd, &st) != 0)
        return refuse(file->path);
    *bytes = (uint64_t)st.st_size;
    return SW_OK;
}

sw_status sw_file_read(sw_file *file, void *to, size_t bytes, size_t *got)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t n = hit() ? -1 : read(file->fd, (char *)to + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return refuse(file->path);
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
        const ssize_t n = hit() ? -1 : write(file->fd, (const char *)from + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return refuse(file->path);
        done += (size_t)n;
    }
    return SW_OK;
}

sw_status sw_file_seek(sw_file *file, uint64_t offset)
{
    if (hit() || lseek(file->fd, (off_t)offset, SEEK_SET) < 0)
        return refuse(file->path);
    return SW_OK;
}

sw_status sw_file_sync(sw_file *file)
{
    if (hit() || (fsync(file->fd) != 0 &&
                  errno != EINVAL)) /* EINVAL: a pipe or terminal has nothing to sync */
        return refuse(file->path);
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
    const bool failed = hit();
    if (close(file->fd) == 0 && !failed)
        return SW_OK;
    if (failed)
        errno = EIO;
    return refuse(file->path);
}

sw_status sw_file_reopen(sw_file *file, const char *path)
{
    const int fd = hit() ? -1 : open_path(path, SW_FILE_WRITE);
    if (fd < 0)
        return refuse(path);
    const sw_status status = close_fd(file);
    file->fd = fd;
    return status;
}

sw_status sw_file_close(sw_file *file)
{
    if (file == NULL)
        return SW_OK;
    const sw_status status = close_fd(file);
    sw_heap_free(file, SW_HEAP_FILES, sizeof *file + file->path_bytes);
    return status;
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

bool sw_file_replaceable(const char *path)
{
    struct stat now;
    return lstat(path, &now) != 0 || S_ISREG(now.st_mode);
}

sw_status sw_file_take_mode(sw_file *file, const char *like)
{
    struct stat there;
    if (hit())
        return refuse(file->path);
    if (lstat(like, &there) == 0 && S_ISREG(there.st_mode) &&
        fchmod(file->fd, there.st_mode & 07777) != 0)
        return refuse(file->path);
    return SW_OK;
}

sw_status sw_file_rename(const char *from, const char *to)
{
    if (hit() || rename(from, to) != 0)
        return refuse(to);
    return SW_OK;
}

sw_status sw_file_remove(const char *path)
{
    if (hit() || unlink(path) != 0)
        return refuse(path);
    return SW_OK;
}

sw_status sw_file_link(const char *path, const char *also)
{
    if (hit() || (unlink(also) != 0 && errno != ENOENT))
        return refuse(also);
    if (link(path, also) == 0)
        return SW_OK;
    const bool has_none = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
    if (has_none && rename(path, also) == 0)
        return SW_OK;
    return refuse(also);
}

sw_status sw_folder_each(const char *path, bool (*take)(void *context, const char *name),
                         void *context)
{
    DIR *folder = hit() ? NULL : opendir(path);
    if (folder == NULL)
        return refuse(path);
    bool more = true;
    for (const struct dirent *x; more && (x = readdir(folder)) != NULL;)
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
            more = take(context, x->d_name);
    (void)closedir(folder);
    return SW_OK;
}

/* ---- threads ----------------------------------------------------------------------------- */

struct sw_thread {
    swi_claimant claim; /* of its stack; first: describe() goes back from it */
    const char *name;
    pthread_t handle;
    void (*body)(void *arg);
    void *arg;
};

static void *enter(void *arg)
{
    const sw_thread *thread = arg;
    thread->body(thread->arg);
    return NULL;
}

/* The stack with the thread's own data at its end; asked for only when somebody wants to know.
 */
static bool describe(const swi_claimant *self, sw_claim *out)
{
    const sw_thread *thread = (const sw_thread *)(const void *)self;
    pthread_attr_t attr;
    void *base = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(thread->handle, &attr) != 0)
        return false;
    const int error = pthread_attr_getstack(&attr, &base, &bytes);
    (void)pthread_attr_destroy(&attr);
    *out = (sw_claim){
        .kind = SW_CLAIM_STACK, .label = thread->name, .base = (uintptr_t)base, .bytes = bytes};
    return error == 0;
}

sw_status sw_thread_start(sw_thread **out, void (*body)(void *arg), void *arg, const char *name)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(sw_thread)));
    sw_thread *thread = block;
    thread->body = body;
    thread->arg = arg;
    thread->name = name;
    const int error = swi_fault_hit(SW_FAULT_THREAD)
                          ? EAGAIN
                          : pthread_create(&thread->handle, NULL, enter, thread);
    if (error != 0) {
        sw_heap_free(thread, SW_HEAP_RECORDS, sizeof *thread);
        SW_FAIL(SW_IO, "thread %s could not be started: %s", name, strerror(error));
    }
    (void)pthread_setname_np(thread->handle, name);
    swi_claims_enter(&thread->claim, describe);
    *out = thread;
    return SW_OK;
}

void sw_thread_join(sw_thread *thread)
{
    if (thread == NULL)
        return;
    swi_claims_leave(&thread->claim);
    (void)pthread_join(thread->handle, NULL);
    sw_heap_free(thread, SW_HEAP_RECORDS, sizeof *thread);
}

/* ---- libraries and the clock ------------------------------------------------------------- */

sw_status sw_library_open(void **out, const char *name)
{
    void *library =
        swi_fault_hit(SW_FAULT_LIBRARY) ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror(); /* has the name, where there is more to say */
        SW_FAIL(SW_UNSUPPORTED, "%s could not be opened: %s", name,
                why != NULL ? why : "no reason given");
    }
    *out = library;
    return SW_OK;
}

sw_status sw_library_symbol(void *library, const char *symbol, void **out)
{
    void *found = swi_fault_hit(SW_FAULT_LIBRARY) ? NULL : dlsym(library, symbol);
    if (found == NULL)
        SW_FAIL(SW_UNSUPPORTED, "symbol %s was not found", symbol);
    *out = found;
    return SW_OK;
}

sw_status sw_library_path(const void *address, char *out, size_t bytes)
{
    Dl_info info;
    void *map = NULL;
    char path[PATH_MAX];
    if (hit() || dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        SW_FAIL(SW_IO, "the file of the code at %p is not known", address);
    /* The program has no name there, and what it was called by may be no path. */
    const char *name = ((const struct link_map *)map)->l_name;
    name = *name != '\0' ? name : "/proc/self/exe";
    if (realpath(name, path) == NULL)
        return refuse(name);
    if (strlen(path) >= bytes)
        SW_FAIL(SW_IO, "%s: the path has more than %zu bytes", path, bytes - 1);
    strcpy(out, path);
    return SW_OK;
}

uint64_t sw_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
