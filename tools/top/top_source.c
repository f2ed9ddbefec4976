/* Which file, and whether a process still writes it: what the system shows of its processes in
 * /proc. A process's open files are reached through its own names for them, so that its folders
 * need not be ours. */
#include "tools/top/top_source.h"
#include "alloc/base/sys.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool top_source_fits(const char *path)
{
    static const char head[] = "{\"type\":\"header\",\"format\":\"stepwell-profile\"";
    char text[sizeof head - 1];
    sw_file *file;
    size_t n = 0;
    if (sw_file_open(&file, path, SW_FILE_READ) != SW_OK)
        return false;
    const bool read = sw_file_read(file, text, sizeof text, &n) == SW_OK;
    sw_file_drop(file);
    return read && memcmp(text, head, n) == 0;
}

/* When the process began, in the system's ticks; 0: it is not there, or only its name is until
 * its parent asks how it ended. */
static uint64_t began(long pid)
{
    char path[64], text[1024];
    sw_file *file;
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (sw_file_open(&file, path, SW_FILE_READ) != SW_OK)
        return 0;
    const sw_status status = sw_file_read(file, text, sizeof text - 1, &n);
    sw_file_drop(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* its name may have anything in it */
    if (status != SW_OK || at == NULL || at[1] == '\0' || strchr("ZXx", at[2]) != NULL)
        return 0;
    for (int field = 3; field < 22 && at != NULL; field++) /* the state is the third */
        at = strchr(at + (field == 3 ? 2 : 1), ' ');
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

bool top_source_lives(const top_source *s)
{
    return began(s->pid) == s->began && s->began != 0;
}

/* A regular file that is open for writing there: the system shows it by the link's mode. */
static bool is_written(const char *link, struct stat *file)
{
    struct stat mode;
    return lstat(link, &mode) == 0 && (mode.st_mode & S_IWUSR) != 0 && stat(link, file) == 0 &&
           S_ISREG(file->st_mode);
}

static bool take_file(void *context, const char *name)
{
    top_source *s = context;
    struct stat file;
    char link[TOP_PATH];
    snprintf(link, sizeof link, "/proc/%ld/fd/%.32s", s->pid, name);
    if (!is_written(link, &file) || file.st_size == 0 || !top_source_fits(link))
        return true;
    memcpy(s->path, link, sizeof link);
    const ssize_t n = readlink(link, s->shown, sizeof s->shown - 1);
    s->shown[n > 0 ? n : 0] = '\0';
    return false;
}

top_found top_source_process(top_source *s, long pid)
{
    char folder[64];
    if (access("/proc/self/stat", R_OK) != 0)
        return TOP_NO_PROC;
    *s = (top_source){.pid = pid, .began = began(pid)};
    if (s->began == 0)
        return TOP_NO_SUCH;
    snprintf(folder, sizeof folder, "/proc/%ld/fd", pid);
    errno = 0;
    if (sw_folder_for_each(folder, take_file, s) != SW_OK)
        return began(pid) == 0 ? TOP_NO_SUCH : TOP_FORBIDDEN;
    return s->path[0] != '\0' ? TOP_FOUND : TOP_NO_PROFILE;
}

/* ---- who writes a file ------------------------------------------------------------------- */

typedef struct {
    struct stat file;
    char process[64];
    bool written, hidden;
} search;

static bool compare_file(void *context, const char *name)
{
    search *x = context;
    struct stat file;
    char link[128];
    snprintf(link, sizeof link, "%s/%.32s", x->process, name);
    x->written = is_written(link, &file) && file.st_dev == x->file.st_dev &&
                 file.st_ino == x->file.st_ino;
    return !x->written;
}

/* Processes of others than the file's owner are not asked: they seldom may write it. */
static bool compare_process(void *context, const char *name)
{
    search *x = context;
    struct stat process;
    if (!isdigit((unsigned char)*name))
        return true;
    snprintf(x->process, sizeof x->process, "/proc/%.32s", name);
    if (stat(x->process, &process) != 0)
        return true;
    snprintf(x->process, sizeof x->process, "/proc/%.32s/fd", name);
    if (sw_folder_for_each(x->process, compare_file, x) != SW_OK &&
        process.st_uid == x->file.st_uid && access(x->process, F_OK) == 0)
        x->hidden = true;
    return !x->written;
}

int top_source_written(const top_source *s)
{
    search x = {0};
    if (stat(s->path, &x.file) != 0 ||
        sw_folder_for_each("/proc", compare_process, &x) != SW_OK)
        return -1;
    if (x.written)
        return 1;
    const bool ours = geteuid() == 0 || x.file.st_uid == geteuid();
    return ours && !x.hidden ? 0 : -1;
}
