/* Data that are read from files: what `--data` can name, the options of its readers, loading.
 */
#include "runtime/data/reader.h"
#include "tools/job/job.h"
#include <string.h>

#define PATH_BYTES 4096 /* as long as the system takes */

/* ---- sources ----------------------------------------------------------------------------- */

/* "synthetic, idx:DIR, ..."; with `about` what each is for; `last` stands before the last.
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
    static char text[1200];
    return list_sources(text, sizeof text, true, ", or ");
}

static const char *path_of(const char *source)
{
    const char *path = "";
    return swi_reader_of(source, &path) != NULL ? path : "";
}

/* The i-th file of one source, compressed or not; false where there are no more, with *n of
 * them. */
static bool name_file(const char *source, int i, char *path, size_t bytes, int *n)
{
    const char *where = "";
    const swi_reader *r = source != NULL ? swi_reader_of(source, &where) : NULL;
    const char *const *names = r != NULL ? r->files : NULL;
    char name[PATH_BYTES];
    *n = r != NULL && names == NULL && r->name_file == NULL ? 2 : 0;
    while (names != NULL && names[*n / 2] != NULL)
        *n += 2;
    while (r != NULL && r->name_file != NULL && r->name_file(where, *n / 2, name, sizeof name))
        *n += 2;
    if (i >= *n)
        return false;
    if (r->name_file != NULL)
        (void)r->name_file(where, i / 2, name, sizeof name);
    const char *end = i % 2 == 0 ? "" : ".gz";
    const int length =
        names != NULL ? snprintf(path, bytes, "%s/%s%s", where, names[i / 2], end)
                      : snprintf(path, bytes, "%s%s", r->name_file != NULL ? name : where, end);
    if (length < 0 || (size_t)length >= bytes)
        path[0] = '\0'; /* longer than any path */
    return true;
}

bool job_file_name(const job_opts *o, int i, char *path, size_t bytes)
{
    int n, more;
    if (name_file(o->data, i, path, bytes, &n) ||
        name_file(o->test_data, i - n, path, bytes, &more))
        return true;
    i -= n + more;
    if (o->vocab == NULL || i > 1)
        return false;
    if ((size_t)snprintf(path, bytes, "%s%s", o->vocab, i == 0 ? "" : ".gz") >= bytes)
        path[0] = '\0';
    return true;
}

/* ---- options ----------------------------------------------------------------------------- */

/* "csv:FILE or tokens:FILE|DIR": the readers that take all these. */
static const char *list_readers(char *text, size_t bytes, unsigned takes)
{
    size_t used = 0;
    const swi_reader *r, *last = NULL;
    *text = '\0';
    for (size_t i = 0; (r = swi_reader_at(i)) != NULL; i++)
        last = (r->takes & takes) == takes ? r : last;
    for (size_t i = 0; (r = swi_reader_at(i)) != NULL && used < bytes; i++)
        if ((r->takes & takes) == takes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s:%s",
                                     used == 0   ? ""
                                     : r == last ? " or "
                                                 : ", ",
                                     r->name, r->path);
    return text;
}

/* The first option that is given and that the reader does not take. */
static int check_taken(const job_opts *o, const swi_reader *r)
{
    const struct {
        const char *name;
        bool given;
        unsigned takes;
    } options[] = {{"--test-data", o->test_data != NULL, SWI_TAKES_TEST},
                   {"--test-share", o->test_share >= 0.0, SWI_TAKES_SHARE},
                   {"--split-seed", o->split_seed >= 0, SWI_TAKES_SHARE},
                   {"--label", o->label != NULL, SWI_TAKES_TABLE},
                   {"--header", o->header != NULL, SWI_TAKES_TABLE},
                   {"--standardise", o->standardise, SWI_TAKES_TABLE},
                   {"--vocab", o->vocab != NULL, SWI_TAKES_VOCABULARY},
                   {"--resize", o->resize > 0, SWI_TAKES_IMAGES},
                   {"--channels", o->channels > 0, SWI_TAKES_IMAGES}};
    const unsigned takes = r != NULL ? r->takes : 0;
    char readers[300];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given && (takes & options[i].takes) == 0)
            return cli_error(CLI_USAGE, "%s has no effect without --data %s", options[i].name,
                             list_readers(readers, sizeof readers, options[i].takes));
    return CLI_GO;
}

static int check_parts(const job_opts *o, const swi_reader *r)
{
    const char *path = "";
    if (o->test_share == 0.0 || o->test_share >= 1.0)
        return cli_error(CLI_USAGE, "--test-share must be above 0 and below 1 (got %g)",
                         o->test_share);
    if (o->channels == 2)
        return cli_error(CLI_USAGE, "--channels must be 1 or 3 (got 2)");
    if (o->test_data == NULL)
        return CLI_GO;
    if (o->test_share > 0.0 || o->split_seed >= 0)
        return cli_error(
            CLI_USAGE,
            "--test-data and %s exclude each other: with a file for testing nothing is split",
            o->test_share > 0.0 ? "--test-share" : "--split-seed");
    if (swi_reader_of(o->test_data, &path) != r || *path == '\0')
        return cli_error(CLI_USAGE, "--test-data must be %s:%s (got '%s')", r->name, r->path,
                         o->test_data);
    return CLI_GO;
}

int job_file_check(const job_opts *o)
{
    const char *path = "";
    const swi_reader *r = swi_reader_of(o->data, &path);
    char known[300];
    if (r == NULL && strcmp(o->data, "synthetic") != 0)
        return job_refuse_source(o->data, list_sources(known, sizeof known, false, " or "));
    if (r != NULL && path[0] == '\0')
        return cli_error(CLI_USAGE, "--data %s must be followed by %s", o->data,
                         strcmp(r->path, "DIR") == 0 ? "a folder" : "a file");
    if (r == NULL && o->data_limit > 0)
        return cli_error(CLI_USAGE, "--data-limit has no effect with --data synthetic");
    int status = check_taken(o, r);
    if (status == CLI_GO && r != NULL)
        status = check_parts(o, r);
    return status == CLI_GO ? job_check_folder(o->data) : status;
}

bool job_decodes(const job_opts *o)
{
    const char *path = "";
    const swi_reader *r = swi_reader_of(o->data, &path);
    return r != NULL && (r->takes & SWI_TAKES_IMAGES) != 0;
}

/* ---- loading ----------------------------------------------------------------------------- */

static double share_of(const job_opts *o)
{
    return o->test_share > 0.0 ? o->test_share : 0.0;
}

static uint64_t seed_of(const job_opts *o)
{
    return o->split_seed >= 0 ? (uint64_t)o->split_seed : 1;
}

/* As many columns are a table without labels. */
static int64_t features_of(const job *j)
{
    const sw_shape *s = &j->trained.sample.shape;
    if (!j->opts->unlabelled)
        return 0;
    return j->opts->test_data != NULL ? -1 : j->trained.known && s->rank == 1 ? s->dim[0] : 0;
}

static sw_csv_opts csv_opts(const job *j)
{
    const job_opts *o = j->opts;
    const bool no = o->header != NULL && strcmp(o->header, "no") == 0;
    const bool yes = o->header != NULL && strcmp(o->header, "yes") == 0;
    return SW_OPTS(sw_csv_opts, .label = o->label, .header = yes - no,
                   .test_path = o->test_data != NULL ? path_of(o->test_data) : NULL,
                   .test_share = share_of(o), .seed = seed_of(o), .standardise = o->standardise,
                   .unlabelled = features_of(j));
}

/* A line of it now and then, on terminals. */
static int tell_progress(void *user, int64_t done, int64_t all)
{
    const job *j = user;
    if (done % 64 == 0 && !j->quiet)
        cli_progress("reading images  %lld/%lld", (long long)done, (long long)all);
    return cli_interrupted();
}

static sw_images_opts images_opts(job *j)
{
    const job_opts *o = j->opts;
    return SW_OPTS(sw_images_opts, .side = (int)o->resize, .channels = (int)o->channels,
                   .test_share = share_of(o), .seed = seed_of(o), .progress = tell_progress,
                   .user = j, .unlabelled = o->unlabelled, .threads = o->threads,
                   .batch = j->limited[0], .test_batch = j->limited[1]);
}

sw_status job_file_load(job *j, bool test, bool shapes_only)
{
    const char *path;
    const swi_reader *r = swi_reader_of(j->opts->data, &path);
    const sw_csv_opts csv = csv_opts(j);
    const sw_images_opts images = images_opts(j);
    const swi_reader_opts opts = {.images = &images,
                                  .unlabelled = j->opts->unlabelled,
                                  .shapes_only = shapes_only,
                                  .unpack_bytes = j->opts->data_limit,
                                  .context = j->opts->settings.context,
                                  .csv = &csv,
                                  .vocabulary = j->opts->vocab,
                                  .test_path = csv.test_path,
                                  .test_share = csv.test_share,
                                  .seed = csv.seed};
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
