/* The files that `stepwell pbt` is to write: their names, and whether they can be written, are
 * checked before anything runs. */
#include "tools/population/population.h"
#include "tools/report/file_same.h"
#include "tools/train/train.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_words(const pop_opts *o)
{
    const char *save = o->save;
    const int rows = train_rows_check(o->metrics);
    if (rows != CLI_GO)
        return rows;
    if (o->plot != NULL && !cli_ends_with(o->plot, ".svg") && !cli_ends_with(o->plot, ".html"))
        return cli_error(CLI_USAGE, "--plot must be FILE.svg or FILE.html (got '%s')", o->plot);
    if (save == NULL)
        return CLI_GO;
    if (strcmp(save, "-") == 0)
        return cli_error(CLI_USAGE, "--save-params must be a file, not standard output");
    const char *number = strchr(save, '%');
    if (number != NULL && (number[1] != 'd' || strchr(number + 1, '%') != NULL))
        return cli_error(CLI_USAGE,
                         "--save-params: the only %% must be that of %%d, the member's number "
                         "(got '%s')",
                         save);
    return CLI_GO;
}

static int refuse(const char *option, const char *path, const char *other)
{
    return cli_error(CLI_USAGE, "%s %s, the same file as %s", option, path, other);
}

/* Of one file: not the data, and none of a checkpoint's. */
static int check_one(const pop_opts *o, const char *option, const char *path)
{
    char name[FILE_PATH_BYTES];
    for (int i = 0; job_file_name(&o->job, i, name, sizeof name); i++)
        if (file_same(path, name))
            return refuse(option, path, name);
    const int64_t keep = o->keep > 0 ? o->keep : 2;
    for (int64_t i = -1; o->job.checkpoint != NULL && i < keep; i++) {
        const bool named =
            i < 0 ? snprintf(name, sizeof name, "%s.lock", o->job.checkpoint) < (int)sizeof name
                  : sw_generation_name(name, sizeof name, o->job.checkpoint, (int)i);
        if (named && file_same(path, name))
            return refuse(option, path, "--checkpoint");
    }
    if (o->resume != NULL && *o->resume != '\0' && file_same(path, o->resume))
        return refuse(option, path, "--resume");
    if (o->replay != NULL && file_same(path, o->replay))
        return refuse(option, path, "--replay");
    return CLI_GO;
}

/* A file beside `path`, or itself where it is a device, can be written. */
static int check_writable(const char *option, const char *path)
{
    char folder[FILE_PATH_BYTES];
    struct stat st;
    if (path == NULL || strlen(path) >= sizeof folder)
        return CLI_GO;
    memcpy(folder, path, strlen(path) + 1);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    const bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode))
        errno = EISDIR;
    else if (access(there && !S_ISREG(st.st_mode) ? path
                    : slash != NULL               ? folder
                                                  : ".",
                    W_OK) == 0)
        return CLI_GO;
    return cli_error(CLI_FAILED, "%s %s: %s", option, path, strerror(errno));
}

/* FILE of --save-params, or what it is for member 0. */
static const char *first_params(const char *save, char *to, size_t bytes)
{
    const char *number = save != NULL ? strstr(save, "%d") : NULL;
    if (number == NULL)
        return save;
    snprintf(to, bytes, "%.*s0%s", (int)(number - save), save, number + 2);
    return to;
}

int pop_files_check(const pop *p)
{
    const pop_opts *o = &p->opts;
    char first[FILE_PATH_BYTES];
    int status = check_words(o);
    if (status == CLI_GO)
        status = job_check_params_name("--save-params", o->save);
    const struct {
        const char *option, *path;
    } files[] = {{"--metrics", o->metrics},
                 {"--plot", o->plot},
                 {"--profile", o->profile},
                 {"--save-params", first_params(o->save, first, sizeof first)}};
    const int n = sizeof files / sizeof *files;
    for (int i = 0; i < n && status == CLI_GO; i++) {
        if (files[i].path != NULL)
            status = check_one(o, files[i].option, files[i].path);
        for (int k = 0; k < i && status == CLI_GO; k++)
            if (file_same(files[i].path, files[k].path))
                status = refuse(files[i].option, files[i].path, files[k].option);
    }
    for (int i = 0; i < n && status == CLI_GO; i++)
        status = check_writable(files[i].option, files[i].path);
    if (status == CLI_GO)
        status = check_writable("--checkpoint", o->job.checkpoint);
    if (status == CLI_GO)
        status = job_folder_check("--log-dir", o->logs);
    return status == CLI_GO ? job_folder_check("--pause-to", o->pause_to) : status;
}
