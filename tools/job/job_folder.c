/* A folder that an option names to write into: it is made where it is not there, and goes where
 * nothing came into it. */
#include "alloc/base/sys.h"
#include "tools/job/job.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder that a path stands in. */
static void parent_of(const char *path, char *to, size_t bytes)
{
    snprintf(to, bytes, "%s", path);
    size_t n = strlen(to);
    while (n > 1 && to[n - 1] == '/')
        to[--n] = '\0';
    char *slash = strrchr(to, '/');
    if (slash == NULL)
        snprintf(to, bytes, ".");
    else
        slash[slash == to ? 1 : 0] = '\0';
}

int job_folder_check(const char *option, const char *path)
{
    char parent[JOB_FOLDER_BYTES];
    struct stat st;
    if (path == NULL)
        return CLI_GO;
    if (strlen(path) + 64 > sizeof parent)
        return cli_error(CLI_USAGE, "%s must have at most %zu bytes", option,
                         sizeof parent - 64);
    const bool there = stat(path, &st) == 0;
    if (there && !S_ISDIR(st.st_mode))
        return cli_error(CLI_FAILED, "%s %s is no folder", option, path);
    parent_of(path, parent, sizeof parent);
    const char *written = there ? path : parent;
    if (access(written, W_OK | X_OK) == 0)
        return CLI_GO;
    return cli_error(CLI_FAILED, "%s %s: %s %s: %s", option, path, written,
                     errno == ENOENT ? "is not there" : "cannot be written", strerror(errno));
}

int job_folder_make(const char *option, const char *path, bool *made)
{
    struct stat st;
    *made = path != NULL && stat(path, &st) != 0;
    if (!*made || sw_folder_make(path) == SW_OK)
        return CLI_GO;
    *made = false;
    return cli_error(CLI_FAILED, "%s cannot be made: %s", option, sw_last_error());
}

void job_folder_leave(const char *path, bool made)
{
    if (made)
        (void)rmdir(path); /* not where it has files */
}
