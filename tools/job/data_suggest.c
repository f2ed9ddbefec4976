/* Which reader a path of data suggests: by the names of the files in a folder, or by the end of
 * a file's name. */
#include "alloc/base/sys.h"
#include "runtime/data/identify.h"
#include "runtime/data/reader.h"
#include "tools/job/job.h"
#include <string.h>

static bool has_file(const char *folder, const char *name)
{
    char path[4096];
    static const char *const ends[] = {"", ".gz"};
    for (int i = 0; i < 2; i++) {
        const int n = snprintf(path, sizeof path, "%s/%s%s", folder, name, ends[i]);
        if (n > 0 && (size_t)n < sizeof path && sw_file_there(path))
            return true;
    }
    return false;
}

/* Is one of the reader's files in the folder? */
static bool reads_folder(const swi_reader *r, const char *folder)
{
    for (size_t i = 0; r->files != NULL && r->files[i] != NULL; i++)
        if (has_file(folder, r->files[i]))
            return true;
    return false;
}

/* "a.csv", "a.csv.gz": what a reader of that name reads; "a.txt" is text. */
static bool reads_file(const swi_reader *r, const char *path)
{
    const char *name = strrchr(path, '/');
    char end[16];
    name = name != NULL ? name + 1 : path;
    size_t n = strlen(name);
    if (n > 3 && strcmp(name + n - 3, ".gz") == 0)
        n -= 3;
    size_t dot = n;
    while (dot > 0 && name[dot - 1] != '.')
        dot--;
    if (r->files != NULL || dot == 0 || n - dot >= sizeof end)
        return false;
    memcpy(end, name + dot, n - dot);
    end[n - dot] = '\0';
    return strcmp(strcmp(end, "txt") == 0 ? "text" : end, r->name) == 0;
}

const char *job_suggest_reader(const char *path)
{
    const swi_reader *r;
    for (size_t i = 0; (r = swi_reader_at(i)) != NULL; i++)
        if (reads_folder(r, path) || reads_file(r, path))
            return r->name;
    return NULL;
}

int job_refuse_source(const char *source, const char *known)
{
    const char *reader = job_suggest_reader(source);
    char text[4096];
    const char *is = swi_identify(source, text, sizeof text);
    if (is != NULL)
        return cli_error(CLI_USAGE, "--data '%s' %s", source, is);
    if (!sw_file_there(source))
        return cli_error(CLI_USAGE, "--data '%s' is unknown: it must be %s", source, known);
    if (reader == NULL)
        return cli_error(CLI_USAGE,
                         "--data must say how '%s' is read: it must be %s (the name of the "
                         "reader, a colon and the path)",
                         source, known);
    return cli_error(CLI_USAGE,
                     "--data must say how '%s' is read: it looks like %s, so --data %s:%s",
                     source, reader, reader, source);
}

int job_check_folder(const char *source)
{
    const char *path = "", *other;
    const swi_reader *r = swi_reader_of(source, &path);
    if (r == NULL || r->files == NULL || reads_folder(r, path) ||
        (other = job_suggest_reader(path)) == NULL)
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--data %s: there is no file of %s, but it looks like %s: --data %s:%s",
                     source, r->name, other, other, path);
}
