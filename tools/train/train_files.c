/* The files that `stepwell train` is to write: none of them may be another that it writes or
 * reads, by whatever name, and whether the parameters can be saved is known before the
 * training. */
#include "alloc/base/assert.h"
#include "tools/report/file_same.h"
#include "tools/train/train.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES FILE_PATH_BYTES

static int refuse(const char *option, const char *path, const char *other)
{
    return cli_error(CLI_USAGE, "%s %s, the same file as %s", option, path, other);
}

int train_check_data(const char *option, const char *path, const job_opts *opts)
{
    char file[PATH_BYTES];
    for (int i = 0; job_file_name(opts, i, file, sizeof file); i++)
        if (file_same(path, file))
            return refuse(option, path, file);
    return CLI_GO;
}

/* A file of the command line, under a name of its own. */
typedef struct {
    const char *option, *path;
    bool read, params; /* parameters may replace those that the run began with */
} named_file;

/* Whether one of `n` files is `name`, a file of --checkpoint, or of --resume which is read. */
static int check_name(const named_file *files, size_t n, const char *option, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!files[i].read && file_same(files[i].path, name)) {
            char other[PATH_BYTES + 32];
            snprintf(other, sizeof other, "%s %s", option, name);
            return refuse(files[i].option, files[i].path, other);
        }
    return CLI_GO;
}

/* All generations that there are, or may be soon. */
static int check_generations(const named_file *files, size_t n, const char *option,
                             const char *path, int64_t keep)
{
    char name[PATH_BYTES];
    int64_t last = JOB_GENERATIONS > keep ? JOB_GENERATIONS : keep;
    for (int64_t i = 0; i < last && sw_generation_name(name, sizeof name, path, (int)i); i++) {
        const int status = check_name(files, n, option, name);
        if (status != CLI_GO)
            return status;
        if (sw_file_taken(name) && i + JOB_GENERATIONS >= last)
            last = i + 1 + JOB_GENERATIONS;
    }
    return CLI_GO;
}

/* FILE and FILE.lock may not be data, and no other file may be one of theirs. */
static int check_checkpoint(const named_file *files, size_t n, const train_opts *o)
{
    static const char option[] = "--checkpoint";
    const char *path = o->job.checkpoint;
    char lock[PATH_BYTES];
    int status = CLI_GO;
    if (o->resume != NULL && *o->resume != '\0')
        status = check_generations(files, n, "--resume", o->resume, 0);
    if (path == NULL || status != CLI_GO)
        return status;
    status = check_generations(files, n, option, path, o->keep);
    if (status == CLI_GO)
        status = train_check_data(option, path, &o->job);
    if (status == CLI_GO && snprintf(lock, sizeof lock, "%s.lock", path) < (int)sizeof lock)
        status = check_name(files, n, option, lock);
    return status;
}

int train_check_files(const train_opts *o)
{
    const named_file files[] = {{"--profile", o->profile, false, false},
                                {"--metrics", o->metrics, false, false},
                                {"--heap-profile", o->heap_profile, false, false},
                                {"--save-best", o->best, false, true},
                                {"--save-params", o->save, false, true},
                                {"--record", o->record, false, false},
                                {"--plot", o->plot, false, false},
                                {"--replay", o->replay, true, false},
                                {"--load-params", o->load, true, true}};
    const size_t n = sizeof files / sizeof *files;
    for (size_t i = 0; i < n; i++) {
        if (files[i].read)
            continue;
        for (size_t k = i + 1; k < n; k++)
            if (!(files[k].read && files[k].params && files[i].params) &&
                file_same(files[i].path, files[k].path))
                return refuse(files[i].option, files[i].path, files[k].option);
        const int status = train_check_data(files[i].option, files[i].path, &o->job);
        if (status != CLI_GO)
            return status;
    }
    return check_checkpoint(files, n, o);
}

int train_check_file(const char *option, const char *path, bool replaced)
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

int train_check_regular(const char *option, const char *path)
{
    struct stat st;
    if (path == NULL || stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return CLI_GO;
    return cli_error(CLI_FAILED, "%s %s: must be a regular file", option, path);
}

/* For what is not opened by alloc/base/file.c: to open a pipe would wait where no signal ends
 * it. */
static int check_no_pipe(const char *option, const char *path)
{
    struct stat st;
    if (path == NULL || stat(path, &st) != 0 || !S_ISFIFO(st.st_mode))
        return CLI_GO;
    return cli_error(CLI_FAILED, "%s %s: must not be a pipe: a regular file is needed", option,
                     path);
}

int train_check_writable(const train_opts *o)
{
    int status = train_check_file("--save-params", o->save, true);
    if (status == CLI_GO)
        status = train_check_file("--save-best", o->best, true);
    if (status == CLI_GO)
        status = train_check_file("--record", o->record, true);
    if (status == CLI_GO)
        status = train_check_file("--plot", o->plot, true);
    if (status == CLI_GO)
        status = train_check_regular("--checkpoint", o->job.checkpoint);
    if (status == CLI_GO)
        status = train_check_file("--checkpoint", o->job.checkpoint, true);
    if (status == CLI_GO)
        status = train_check_file("--heap-profile", o->heap_profile, false);
    if (status == CLI_GO)
        status = check_no_pipe("--heap-profile", o->heap_profile);
    return status == CLI_GO ? train_check_file("--metrics", o->metrics, false) : status;
}

/* ---- a run that goes on ------------------------------------------------------------------ */

/* The first name that is free. */
static sw_status free_name(const char *path, uint64_t step, char *kept, size_t bytes)
{
    for (unsigned n = 1;; n++) {
        char ending[32] = "";
        bool taken;
        if (n > 1)
            snprintf(ending, sizeof ending, ".%u", n);
        const int length = snprintf(kept, bytes, "%s.before-%" PRIu64 "%s", path, step, ending);
        if (length < 0 || (size_t)length >= bytes)
            SW_FAIL(SW_INVALID,
                    "--profile %s: the name to keep it under has no room in %zu bytes", path,
                    bytes);
        SW_TRY(sw_file_look(kept, &taken));
        if (!taken)
            return SW_OK;
    }
}

/* The lock says that no other process writes it, and goes with the file to its new name. */
sw_status train_keep_profile(const char *path, uint64_t step, char *kept, size_t bytes)
{
    struct stat st;
    sw_file *file;
    bool taken;
    SW_ASSERT(bytes > 0);
    kept[0] = '\0';
    if (path == NULL)
        return SW_OK;
    SW_TRY(sw_file_look(path, &taken));
    if (!taken || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return SW_OK;
    SW_TRY(sw_file_take(&file, path, false));
    sw_status status = free_name(path, step, kept, bytes);
    if (status == SW_OK)
        status = sw_file_rename(path, kept);
    if (status != SW_OK)
        kept[0] = '\0';
    sw_file_drop(file);
    return status;
}
