/* The files that `stepwell train` is told to write: none of them may be another that it writes
 * or reads, by whatever name, and whether the parameters can be saved is known before the
 * training. */
#include "tools/train.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096 /* as long as the system takes */

/* Where a name leads: a file that is there, or a folder and the name in it that would be made.
 */
typedef struct {
    bool known, there;
    dev_t device;
    ino_t inode; /* of the file, or of its folder */
    const char *last;
} place;

/* The path that a link leads to, however many there are on the way; false for what is none. */
static bool follow(char *path)
{
    char target[PATH_BYTES];
    const ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    char *slash = strrchr(path, '/');
    const size_t folder = target[0] == '/' || slash == NULL ? 0 : (size_t)(slash + 1 - path);
    if (folder + (size_t)n >= PATH_BYTES)
        return false;
    memcpy(path + folder, target, (size_t)n + 1);
    return true;
}

/* `path` has PATH_BYTES and is changed: the answer points into it. */
static place find(char *path)
{
    struct stat st;
    for (int links = 0; stat(path, &st) != 0; links++)
        if (links == 40 || !follow(path)) { /* nothing there: its folder decides */
            char *slash = strrchr(path, '/');
            const char *folder = slash == NULL ? "." : slash == path ? "/" : path;
            const char *last = slash == NULL ? path : slash + 1;
            if (slash != NULL && slash != path)
                *slash = '\0';
            if (stat(folder, &st) != 0)
                return (place){0};
            return (place){true, false, st.st_dev, st.st_ino, last};
        }
    if (!S_ISREG(st.st_mode)) /* a device has nothing that could be lost */
        return (place){0};
    return (place){true, true, st.st_dev, st.st_ino, ""};
}

/* Whether both name one file, there already or not. */
static bool same_file(const char *a, const char *b)
{
    char path[2][PATH_BYTES];
    if (a == NULL || b == NULL || strlen(a) >= PATH_BYTES || strlen(b) >= PATH_BYTES)
        return false;
    memcpy(path[0], a, strlen(a) + 1);
    memcpy(path[1], b, strlen(b) + 1);
    const place x = find(path[0]), y = find(path[1]);
    return x.known && y.known && x.there == y.there && x.device == y.device &&
           x.inode == y.inode && strcmp(x.last, y.last) == 0;
}

static int refuse(const char *option, const char *path, const char *other)
{
    return cli_error(CLI_USAGE, "%s %s, the same file as %s", option, path, other);
}

int train_check_data(const char *option, const char *path, const job_opts *opts)
{
    char file[PATH_BYTES];
    for (int i = 0; job_file_name(opts, i, file, sizeof file); i++)
        if (same_file(path, file))
            return refuse(option, path, file);
    return CLI_GO;
}

/* The parts of a profile have names of their own. */
static int check_parts(const train_opts *o, const char *option, const char *path)
{
    static const char *const endings[] = {".1", ".new"};
    char part[PATH_BYTES];
    for (int i = 0; i < 2 && o->profile_max > 0; i++)
        if (snprintf(part, sizeof part, "%s%s", o->profile, endings[i]) < (int)sizeof part &&
            same_file(path, part))
            return refuse(option, path, "a part of --profile");
    return CLI_GO;
}

int train_check_files(const train_opts *o)
{
    const struct {
        const char *option, *path;
        bool read, params; /* parameters may replace those that the run began with */
    } files[] = {{"--profile", o->profile, false, false},
                 {"--metrics", o->metrics, false, false},
                 {"--heap-profile", o->heap_profile, false, false},
                 {"--save-best", o->best, false, true},
                 {"--save-params", o->save, false, true},
                 {"--load-params", o->load, true, true}};
    const size_t n = sizeof files / sizeof *files; /* the last is read */
    for (size_t i = 0; i + 1 < n; i++) {
        for (size_t k = i + 1; k < n; k++)
            if (!(files[k].read && files[i].params) && same_file(files[i].path, files[k].path))
                return refuse(files[i].option, files[i].path, files[k].option);
        const int status = train_check_data(files[i].option, files[i].path, &o->job);
        if (status != CLI_GO)
            return status;
    }
    for (size_t i = 1; i < sizeof files / sizeof *files; i++) {
        const int status = check_parts(o, files[i].option, files[i].path);
        if (status != CLI_GO)
            return status;
    }
    return CLI_GO;
}

/* A file that is `replaced` is written beside the old one first, in the same folder. */
static int check_writable(const char *option, const char *path, bool replaced)
{
    char folder[PATH_BYTES];
    struct stat st;
    if (path == NULL || strlen(path) >= sizeof folder)
        return CLI_GO;
    memcpy(folder, path, strlen(path) + 1);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    const bool there = stat(path, &st) == 0;
    const bool in_place = there && !(replaced && S_ISREG(st.st_mode)); /* devices always */
    const char *asked = in_place ? path : slash != NULL ? folder : ".";
    if (there && S_ISDIR(st.st_mode))
        errno = EISDIR;
    else if (access(asked, W_OK) == 0)
        return CLI_GO;
    return cli_error(CLI_FAILED, "%s %s: %s", option, path, strerror(errno));
}

int train_check_writable(const train_opts *o)
{
    int status = check_writable("--save-params", o->save, true);
    if (status == CLI_GO)
        status = check_writable("--save-best", o->best, true);
    if (status == CLI_GO)
        status = check_writable("--heap-profile", o->heap_profile, false);
    return status == CLI_GO ? check_writable("--metrics", o->metrics, false) : status;
}
