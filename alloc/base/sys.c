/* Files, threads, libraries, the clock. Messages are "path: reason". */
#include "alloc/base/sys.h"
#include "alloc/base/address_map.h"
#include "alloc/base/fault.h"
#include "alloc/base/fork.h"
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include "alloc/base/wait.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct sw_file {
    int fd;
    bool waits; /* a FIFO, pipe, socket or terminal: its other end decides how long */
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

/* ECANCELED is ours: no call that is made here answers it. */
static sw_status refuse(const char *path)
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

/* What cannot be polled works without a word of O_NONBLOCK. */
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

static int open_path(const char *path, sw_file_mode mode, bool *waits)
{
    static const int flags[] = {O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC,
                                O_WRONLY | O_CREAT | O_EXCL, O_WRONLY | O_CREAT};
    struct stat st;
    if (is_output(path, mode)) { /* its flags belong to others too */
        const int fd = dup(STDOUT_FILENO);
        *waits = fd >= 0 && fstat(fd, &st) == 0 && waits_for_peer(fd, &st);
        return fd;
    }
    const int fd = above_standard(open_now(path, flags[mode]));
    if (fd < 0 || look_at(fd, waits))
        return fd;
    const int because = errno;
    close(fd);
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
    file->path_bytes = length;
    memcpy(file->path, name, length);
    file->fd = hit() ? -1 : open_path(path, mode, &file->waits);
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

/* One read or write of a file whose other end decides how long; what POLLOUT promises is room
 * for PIPE_BUF bytes. */
static ssize_t read_some(const sw_file *file, void *to, size_t bytes)
{
    if (hit())
        return -1;
    if (!file->waits || swi_wait_input(file->fd))
        return read(file->fd, to, bytes);
    errno = ECANCELED;
    return -1;
}

static ssize_t write_some(const sw_file *file, const void *from, size_t bytes)
{
    if (hit())
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
        const ssize_t n = write_some(file, (const char *)from + done, bytes - done);
        if (n < 0 && again(file))
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

sw_status sw_folder_sync(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= sizeof folder) {
        errno = ENAMETOOLONG;
        return refuse(path);
    }
    memcpy(folder, path, n);
    memcpy(folder + n, n == 0 ? "." : "", n == 0 ? 2 : 1);
    const int fd = hit() ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return refuse(folder);
    const bool failed = hit() || fsync(fd) != 0;
    const int because = errno;
    (void)close(fd);
    errno = because;
    return failed ? refuse(folder) : SW_OK;
}

/* ---- locks ------------------------------------------------------------------------------- */

/* What has no locks: a file system, or NFS and a file that is open for reading. */
static bool has_no_locks(void)
{
    return errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL ||
           errno == EBADF;
}

static sw_file_lock lock_fd(int fd)
{
    struct stat st;
    if (hit() || fstat(fd, &st) != 0)
        return SW_LOCK_FAILED;
    if (!S_ISREG(st.st_mode))
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
    return lock == SW_LOCK_FAILED ? refuse(path) : SW_OK;
}

sw_status sw_file_empty(sw_file *file)
{
    if (hit() || (ftruncate(file->fd, 0) != 0 && errno != EINVAL)) /* EINVAL: a pipe */
        return refuse(file->path);
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
    int fd = hit() ? -1 : open(path, O_WRONLY | flags); /* NFS locks what is open for writing */
    if (fd < 0 && errno == EACCES)
        fd = open(path, O_RDONLY | flags);
    if (fd < 0)
        return;
    /* The name may have gone to another file since it was opened. */
    if (lock_fd(fd) == SW_LOCK_OURS && fstat(fd, &here) == 0 && lstat(path, &there) == 0 &&
        here.st_dev == there.st_dev && here.st_ino == there.st_ino && !hit())
        (void)unlink(path);
    (void)close(fd);
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
    bool waits = false;
    const int fd = hit() ? -1 : open_path(path, SW_FILE_WRITE, &waits);
    if (fd < 0)
        return refuse(path);
    const sw_status status = close_fd(file);
    file->fd = fd;
    file->waits = waits;
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

bool sw_file_waits(const sw_file *file)
{
    return file->waits;
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

bool sw_file_taken(const char *path)
{
    struct stat now;
    return lstat(path, &now) == 0;
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
    swi_address_entry claim; /* of its stack; first: describe() goes back from it */
    const char *name;
    uint32_t forks; /* sw_fork_number of the process that it runs in */
    pthread_t handle;
    void (*body)(void *arg);
    void *arg;
};

#if SW_SANITIZED /* its frames are larger, and it looks after stacks itself */
static pthread_attr_t *sized_stack(pthread_attr_t *attr)
{
    (void)attr;
    return NULL;
}

static void touch_stack(void)
{
}
#else
#define STACK_SPARE ((size_t)64 << 10) /* behind what is touched: the thread's first frames */

/* Thread-local data of all modules may lie on the stack of a thread. */
static int add_tls(struct dl_phdr_info *info, size_t size, void *sum)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
    return 0;
}

/* Attributes with a stack of the stated size beside what the system puts there; NULL: as the
 * system does it. */
static pthread_attr_t *sized_stack(pthread_attr_t *attr)
{
    const long least = sysconf(_SC_THREAD_STACK_MIN);
    const size_t page = sw_page_bytes();
    size_t bytes = SW_THREAD_STACK + STACK_SPARE + (least > 0 ? (size_t)least : 0);
    (void)dl_iterate_phdr(add_tls, &bytes);
    bytes = (bytes + page - 1) / page * page;
    if (pthread_attr_init(attr) != 0)
        return NULL;
    if (pthread_attr_setstacksize(attr, bytes) == 0)
        return attr;
    (void)pthread_attr_destroy(attr);
    return NULL;
}

/* Pages of a stack come when they are touched: now, and not in some later step. */
__attribute__((noinline)) static void touch_stack(void)
{
    volatile char room[SW_THREAD_STACK];
    for (size_t i = 0; i < sizeof room; i += 1024)
        room[i] = 0;
}
#endif

static void *enter(void *arg)
{
    const sw_thread *thread = arg;
    touch_stack();
    thread->body(thread->arg);
    return NULL;
}

static int create(sw_thread *thread)
{
    pthread_attr_t attr, *sized = sized_stack(&attr);
    const int error = pthread_create(&thread->handle, sized, enter, thread);
    if (sized == NULL)
        return error;
    (void)pthread_attr_destroy(sized);
    /* EINVAL: the size must be larger on this system. */
    return error == EINVAL ? pthread_create(&thread->handle, NULL, enter, thread) : error;
}

/* The stack, with the thread's own data at its end; read only when the address map is
 * read. */
static bool describe(const swi_address_entry *self, sw_address_range *out)
{
    const sw_thread *thread = (const sw_thread *)(const void *)self;
    pthread_attr_t attr;
    void *base = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(thread->handle, &attr) != 0)
        return false;
    const int error = pthread_attr_getstack(&attr, &base, &bytes);
    (void)pthread_attr_destroy(&attr);
    *out = (sw_address_range){.kind = SW_ADDRESS_STACK,
                              .label = thread->name,
                              .base = (uintptr_t)base,
                              .bytes = bytes};
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
    thread->forks = sw_fork_number();
    const int error = swi_fault_hit(SW_FAULT_THREAD) ? EAGAIN : create(thread);
    if (error != 0) {
        sw_heap_free(thread, SW_HEAP_RECORDS, sizeof *thread);
        SW_FAIL(SW_IO, "thread %s could not be started: %s", name, strerror(error));
    }
    (void)pthread_setname_np(thread->handle, name);
    swi_address_map_enter(&thread->claim, describe);
    *out = thread;
    return SW_OK;
}

void sw_thread_join(sw_thread *thread)
{
    if (thread == NULL)
        return;
    swi_address_map_leave(&thread->claim);
    if (thread->forks == sw_fork_number()) /* else it is the parent's */
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

/* Without the system's numbers: the clock and a count, mixed (splitmix64). */
uint64_t sw_random(void)
{
    static atomic_uint_fast64_t count;
    uint64_t x;
    if (swi_fault_random(&x))
        return x;
    if (!hit() && getrandom(&x, sizeof x, GRND_NONBLOCK) == (ssize_t)sizeof x)
        return x;
    x = sw_clock_ns() + ((uint64_t)getpid() << 32) +
        atomic_fetch_add(&count, 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t sw_clock_ns(void)
{
    static atomic_uint_fast64_t latest;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t now =
        (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + swi_fault_clock_shift();
    uint64_t before = atomic_load_explicit(&latest, memory_order_relaxed);
    while (now > before)
        if (atomic_compare_exchange_weak_explicit(&latest, &before, now, memory_order_relaxed,
                                                  memory_order_relaxed))
            return now;
    return before; /* the system's clock went back: ours stands still */
}
