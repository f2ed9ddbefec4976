/* Names of files and folders: what stands there, and what is renamed, linked and removed. */
#include "alloc/base/file_internal.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

sw_status sw_folder_sync(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= sizeof folder) {
        errno = ENAMETOOLONG;
        return swi_file_refuse(path);
    }
    memcpy(folder, path, n);
    memcpy(folder + n, n == 0 ? "." : "", n == 0 ? 2 : 1);
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

sw_status sw_file_link(const char *path, const char *also)
{
    if (swi_file_hit() || (unlink(also) != 0 && errno != ENOENT))
        return swi_file_refuse(also);
    sw_file_event event = {.kind = SW_FILE_LINKED, .path = path, .to = also};
    if (link(path, also) != 0) {
        const bool has_none = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
        if (!has_none || rename(path, also) != 0)
            return swi_file_refuse(also);
        event.kind = SW_FILE_RENAMED;
    }
    swi_file_tell(&event);
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
