/* Data that are read from files: what `--data` can name, the options of its readers, loading.
 */
#include "runtime/data/reader.h"
#include "tools/job/job.h"
#include <string.h>

/* ---- sources ----------------------------------------------------------------------------- */

/* "synthetic, idx:DIR, ..."; with `about` what each is for; `last` stands in front of the last.
 */
static const char *list_sources(char *text, size_t bytes, bool about, const char *last)
{
    size_t used = (size_t)snprintf(text, bytes, "synthetic");
    const swi_reader *r;
    for (size_t i = 0; (r = swi_reader_at(i)) != NULL && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s:%s%s%s",
                                 swi_reader_at(i + 1) != NULL ? ", " : last, r->name, r->path,
                                 about ? " " : "", about ? r->about : "");
    return text;
}

const char *job_file_help(void)
{
    static char text[600];
    return list_sources(text, sizeof text, true, ", or ");
}

static const char *path_of(const char *source)
{
    const char *path = "";
    return swi_reader_of(source, &path) != NULL ? path : "";
}

static bool is_csv(const char *source)
{
    const char *path;
    return swi_reader_of(source, &path) == &swi_reader_csv;
}

/* The i-th file of one source, compressed or not; false where there are no more, with *n of
 * them. */
static bool name_file(const char *source, int i, char *path, size_t bytes, int *n)
{
    const char *where = "";
    const swi_reader *r = source != NULL ? swi_reader_of(source, &where) : NULL;
    const char *const *names = r != NULL ? r->files : NULL;
    *n = r != NULL && names == NULL ? 2 : 0;
    while (names != NULL && names[*n / 2] != NULL)
        *n += 2;
    if (i >= *n)
        return false;
    const char *end = i % 2 == 0 ? "" : ".gz";
    const int length = names != NULL
                           ? snprintf(path, bytes, "%s/%s%s", where, names[i / 2], end)
                           : snprintf(path, bytes, "%s%s", where, end);
    if (length < 0 || (size_t)length >= bytes)
        path[0] = '\0'; /* longer than any path */
    return true;
}

bool job_file_name(const job_opts *o, int i, char *path, size_t bytes)
{
    int n;
    return name_file(o->data, i, path, bytes, &n) ||
           name_file(o->test_data, i - n, path, bytes, &n);
}

/* ---- options ----------------------------------------------------------------------------- */

/* The first option that is given and for CSV alone, or NULL. */
static const char *csv_option(const job_opts *o)
{
    return o->test_data != NULL   ? "--test-data"
           : o->test_share >= 0.0 ? "--test-share"
           : o->split_seed >= 0   ? "--split-seed"
           : o->label != NULL     ? "--label"
           : o->header != NULL    ? "--header"
           : o->standardise       ? "--standardise"
                                  : NULL;
}

static int check_csv(const job_opts *o)
{
    if (o->test_share == 0.0 || o->test_share >= 1.0)
        return cli_error(CLI_USAGE, "--test-share must be above 0 and below 1 (got %g)",
                         o->test_share);
    if (o->test_data == NULL)
        return CLI_GO;
    if (o->test_share > 0.0 || o->split_seed >= 0)
        return cli_error(
            CLI_USAGE,
            "--test-data and %s exclude each other: with a file for testing nothing is split",
            o->test_share > 0.0 ? "--test-share" : "--split-seed");
    if (!is_csv(o->test_data) || path_of(o->test_data)[0] == '\0')
        return cli_error(CLI_USAGE, "--test-data must be csv:FILE (got '%s')", o->test_data);
    return CLI_GO;
}

int job_file_check(const job_opts *o)
{
    const char *path = "", *given = csv_option(o);
    const swi_reader *r = swi_reader_of(o->data, &path);
    char known[300];
    if (r == NULL && strcmp(o->data, "synthetic") != 0)
        return job_refuse_source(o->data, list_sources(known, sizeof known, false, " or "));
    if (r != NULL && path[0] == '\0')
        return cli_error(CLI_USAGE, "--data %s must be followed by %s", o->data,
                         r->files != NULL ? "a folder" : "a file");
    if (r == NULL && o->data_limit > 0)
        return cli_error(CLI_USAGE, "--data-limit has no effect with --data synthetic");
    if (r != &swi_reader_csv && given != NULL)
        return cli_error(CLI_USAGE, "%s has no effect without --data csv:FILE", given);
    return r == &swi_reader_csv ? check_csv(o) : job_check_folder(o->data);
}

/* ---- loading ----------------------------------------------------------------------------- */

static sw_csv_opts csv_opts(const job_opts *o)
{
    const bool no = o->header != NULL && strcmp(o->header, "no") == 0;
    const bool yes = o->header != NULL && strcmp(o->header, "yes") == 0;
    return (sw_csv_opts){.size = sizeof(sw_csv_opts),
                         .label = o->label,
                         .header = yes - no,
                         .test_path = o->test_data != NULL ? path_of(o->test_data) : NULL,
                         .test_share = o->test_share > 0.0 ? o->test_share : 0.0,
                         .seed = o->split_seed >= 0 ? (uint64_t)o->split_seed : 1,
                         .standardise = o->standardise};
}

sw_status job_file_load(job *j, bool test, bool shapes_only)
{
    const char *path;
    const swi_reader *r = swi_reader_of(j->opts->data, &path);
    const sw_csv_opts csv = csv_opts(j->opts);
    const swi_reader_opts opts = {.shapes_only = shapes_only,
                                  .unpack_bytes = j->opts->data_limit,
                                  .context = j->opts->settings.context,
                                  .csv = &csv};
    if (r->part != NULL)
        return r->part(test ? &j->test.set : &j->train.set, path, test, &opts);
    return test ? SW_OK /* both parts came from one file */
                : r->both(&j->train.set, &j->test.set, path, &opts);
}

sw_status job_file_agree(const job *j)
{
    const char *path;
    const swi_reader *r = swi_reader_of(j->opts->data, &path);
    return r != NULL && r->agree != NULL ? r->agree(j->train.set, j->test.set, path) : SW_OK;
}
