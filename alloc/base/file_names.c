/* Names of files and folders: what stands there, and what is renamed, linked and removed. */
#include "alloc/base/fault.h"
#include "alloc/base/file_internal.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool swi_folder_of(char to[PATH_MAX], const char *path)
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

void swi_fd_path(char to[SWI_FD_PATH], int fd)
{
    snprintf(to, SWI_FD_PATH, "/proc/self/fd/%d", fd);
}

sw_status sw_folder_sync(const char *path)
{
    char folder[PATH_MAX];
    if (!swi_folder_of(folder, path))
        return swi_file_refuse(path);
    const int fd = swi_file_hit() ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return swi_file_refuse(folder);
    const bool failed = swi_file_hit() || fsync(fd) != 0;
    const int because = errno;
    (void)close(fd);
    errno = because;
    if (failed)
        return swi_file_refuse(folder);
    swi_file_tell(&(sw_file_event){.kind = SW_FILE_FOLDER_SYNCED, .path = path});
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
    const bool found = !swi_file_hit() && lstat(path, &now) == 0;
    if (!found && errno != ENOENT && errno != ENOTDIR)
        return swi_file_refuse(path);
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
    if (swi_file_hit())
        return swi_file_refuse(file->path);
    if (lstat(like, &there) == 0 && S_ISREG(there.st_mode) &&
        fchmod(file->fd, there.st_mode & 07777) != 0)
        return swi_file_refuse(file->path);
    return SW_OK;
}

sw_status sw_file_rename(const char *from, const char *to)
{
    if (swi_file_hit() || rename(from, to) != 0)
        return swi_file_refuse(to);
    swi_file_tell(&(sw_file_event){.kind = SW_FILE_RENAMED, .path = from, .to = to});
    return SW_OK;
}

sw_status sw_file_remove(const char *path)
{
    if (swi_file_hit() || unlink(path) != 0)
        return swi_file_refuse(path);
    swi_file_tell(&(sw_file_event){.kind = SW_FILE_REMOVED, .path = path});
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
    swi_fd_path(now, file->fd);
    if (swi_file_hit() || linkat(AT_FDCWD, now, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
        return swi_file_refuse(path);
    swi_file_tell(&(sw_file_event){.kind = SW_FILE_NAMED, .file = file, .path = path});
    return SW_OK;
}

sw_status sw_file_second_name(const char *path, const char *also)
{
    if (swi_file_hit() || (unlink(also) != 0 && errno != ENOENT))
        return swi_file_refuse(also);
    if (!swi_fault_second_names())
        errno = EOPNOTSUPP;
    if (!swi_fault_second_names() || link(path, also) != 0) {
        if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS)
            SW_FAIL(SW_UNSUPPORTED, "%s: its file system has no second names of a file", path);
        return swi_file_refuse(also);
    }
    swi_file_tell(&(sw_file_event){.kind = SW_FILE_LINKED, .path = path, .to = also});
    return SW_OK;
}

sw_status sw_folder_make(const char *path)
{
    if (swi_file_hit() ||
        (mkdir(path, 0777) != 0 && (errno != EEXIST || !sw_folder_there(path))))
        return swi_file_refuse(path);
    return SW_OK;
}

sw_status sw_folder_for_each(const char *path, bool (*take)(void *context, const char *name),
                             void *context)
{
    DIR *folder = swi_file_hit() ? NULL : opendir(path);
    if (folder == NULL)
        return swi_file_refuse(path);
    bool more = true;
    for (const struct dirent *x; more && (x = readdir(folder)) != NULL;)
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
            more = take(context, x->d_name);
    (void)closedir(folder);
    return SW_OK;
}
