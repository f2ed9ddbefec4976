/* Data that are read from files: what `--data` can name, the options of its kinds, loading. */
#include "tools/job/job.h"
#include <string.h>

/* ---- kinds ------------------------------------------------------------------------------- */

typedef enum { IDX, CIFAR, CSV, TEXT, KINDS } kind;

static const char *const idx_names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
                                        NULL};
static const char *const cifar_names[] = {"data_batch_1.bin", "data_batch_2.bin",
                                          "data_batch_3.bin", "data_batch_4.bin",
                                          "data_batch_5.bin", "data_batch_mini.bin",
                                          "test_batch.bin",   "test_batch_mini.bin",
                                          "batches.meta.txt", NULL};

static const struct {
    const char *prefix, *wants;
    const char *const *names; /* of the files in a folder; NULL: the path is the file */
} kinds[KINDS] = {[IDX] = {"idx:", "a folder", idx_names},
                  [CIFAR] = {"cifar:", "a folder", cifar_names},
                  [CSV] = {"csv:", "a file", NULL},
                  [TEXT] = {"text:", "a file", NULL}};

/* KINDS for what is no kind of file. */
static kind kind_of(const char *data)
{
    int k = 0;
    while (k < KINDS && strncmp(data, kinds[k].prefix, strlen(kinds[k].prefix)) != 0)
        k++;
    return (kind)k;
}

static const char *path_of(const char *data)
{
    const kind k = kind_of(data);
    return k < KINDS ? data + strlen(kinds[k].prefix) : "";
}

/* The i-th file of one source, compressed or not; false where there are no more, with *n of
 * them. */
static bool name_file(const char *source, int i, char *path, size_t bytes, int *n)
{
    const kind k = source != NULL ? kind_of(source) : KINDS;
    const char *const *names = k < KINDS ? kinds[k].names : NULL;
    *n = k < KINDS && names == NULL ? 2 : 0;
    while (names != NULL && names[*n / 2] != NULL)
        *n += 2;
    if (i >= *n)
        return false;
    const char *end = i % 2 == 0 ? "" : ".gz";
    const int length =
        names != NULL ? snprintf(path, bytes, "%s/%s%s", path_of(source), names[i / 2], end)
                      : snprintf(path, bytes, "%s%s", path_of(source), end);
    if (length < 0 || (size_t)length >= bytes)
        path[0] = '\0'; /* longer than any path */
    return true;
}

bool job_file_name(const job_opts *o, int i, char *path, size_t bytes)
{
    int n;
    return name_file(o->data, i, path, bytes, &n) ||
           name_file(o->file.test, i - n, path, bytes, &n);
}

/* ---- options ----------------------------------------------------------------------------- */

static const char *const header_words[] = {"auto", "yes", "no", NULL};

int job_file_options(job_file_opts *o, cli_option *table, int n)
{
    o->test_share = -1.0; /* not given, as the next */
    o->split_seed = -1;
    const cli_option options[] = {
        {"--test-data", "SOURCE", CLI_WORD, &o->test, NULL,
         "csv:FILE for testing (default a share of --data csv:FILE)", 0, 0, NULL},
        {"--test-share", "X", CLI_REAL, &o->test_share, NULL,
         "csv: share of the lines for testing (default 0.2)", 0, 0, NULL},
        {"--split-seed", "N", CLI_COUNT, &o->split_seed, NULL,
         "csv: seed that chooses the lines for testing (default 1)", 0, 0, NULL},
        {"--label", "COLUMN", CLI_WORD, &o->label, NULL,
         "csv: name or position of the column with the class: 1 is the first, -1 the last "
         "(default -1)",
         0, 0, NULL},
        {"--header", "WORD", CLI_WORD, &o->header, NULL,
         "csv: whether the first line has names: auto, yes or no (default auto: it has names "
         "when no field is a number)",
         0, 0, header_words},
        {"--standardise", NULL, CLI_FLAG, &o->standardise, NULL,
         "csv: each feature gets mean 0 and deviation 1 over the training lines", 0, 0, NULL},
        {"--data-limit", "SIZE", CLI_BYTES, &o->limit_bytes, NULL,
         "the most that a compressed file (.gz) may unpack to (default 1GiB)", 1, 0, NULL},
    };
    memcpy(table + n, options, sizeof options);
    return n + (int)(sizeof options / sizeof *options);
}

/* The first option that is given and for CSV alone, or NULL. */
static const char *csv_option(const job_file_opts *o)
{
    return o->test != NULL        ? "--test-data"
           : o->test_share >= 0.0 ? "--test-share"
           : o->split_seed >= 0   ? "--split-seed"
           : o->label != NULL     ? "--label"
           : o->header != NULL    ? "--header"
           : o->standardise       ? "--standardise"
                                  : NULL;
}

static int check_csv(const job_file_opts *o)
{
    if (o->test_share == 0.0 || o->test_share >= 1.0)
        return cli_error(CLI_USAGE, "--test-share must be above 0 and below 1 (got %g)",
                         o->test_share);
    if (o->test == NULL)
        return CLI_GO;
    if (o->test_share > 0.0 || o->split_seed >= 0)
        return cli_error(
            CLI_USAGE,
            "--test-data and %s exclude each other: with a file for testing nothing is split",
            o->test_share > 0.0 ? "--test-share" : "--split-seed");
    if (kind_of(o->test) != CSV || path_of(o->test)[0] == '\0')
        return cli_error(CLI_USAGE, "--test-data must be csv:FILE (got '%s')", o->test);
    return CLI_GO;
}

int job_file_check(const job_opts *o)
{
    const kind k = kind_of(o->data);
    const char *given = csv_option(&o->file);
    if (k == KINDS && strcmp(o->data, "synthetic") != 0)
        return cli_error(CLI_USAGE,
                         "--data '%s' is unknown or not built yet: it is synthetic, idx:DIR, "
                         "cifar:DIR, csv:FILE or text:FILE",
                         o->data);
    if (k < KINDS && path_of(o->data)[0] == '\0')
        return cli_error(CLI_USAGE, "--data %s must be followed by %s", o->data,
                         kinds[k].wants);
    if (k == KINDS && o->file.limit_bytes > 0)
        return cli_error(CLI_USAGE, "--data-limit has no effect with --data synthetic");
    if (k != CSV && given != NULL)
        return cli_error(CLI_USAGE, "%s has no effect without --data csv:FILE", given);
    return k == CSV ? check_csv(&o->file) : CLI_GO;
}

/* ---- loading ----------------------------------------------------------------------------- */

static sw_status load_csv(job *j, bool shapes_only)
{
    const job_file_opts *o = &j->opts->file;
    const bool no = o->header != NULL && strcmp(o->header, "no") == 0;
    const bool yes = o->header != NULL && strcmp(o->header, "yes") == 0;
    const sw_csv_opts opts = {.size = sizeof opts,
                              .shapes_only = shapes_only,
                              .label = o->label,
                              .header = yes - no,
                              .test_path = o->test != NULL ? path_of(o->test) : NULL,
                              .test_share = o->test_share > 0.0 ? o->test_share : 0.0,
                              .seed = o->split_seed >= 0 ? (uint64_t)o->split_seed : 1,
                              .standardise = o->standardise,
                              .unpack_bytes = o->limit_bytes};
    return sw_dataset_csv(&j->train.set, &j->test.set, path_of(j->opts->data), &opts);
}

static sw_status load_text(job *j, bool shapes_only)
{
    const sw_text_opts opts = {.size = sizeof opts,
                               .shapes_only = shapes_only,
                               .context = j->opts->settings.context,
                               .unpack_bytes = j->opts->file.limit_bytes};
    return sw_dataset_text(&j->train.set, &j->test.set, path_of(j->opts->data), &opts);
}

static sw_status load_images(job *j, bool test, bool shapes_only)
{
    const char *dir = path_of(j->opts->data);
    sw_dataset **to = test ? &j->test.set : &j->train.set;
    const size_t limit = j->opts->file.limit_bytes;
    const sw_cifar_opts cifar = {
        .size = sizeof cifar, .shapes_only = shapes_only, .unpack_bytes = limit};
    const sw_idx_opts idx = {
        .size = sizeof idx, .shapes_only = shapes_only, .unpack_bytes = limit};
    return kind_of(j->opts->data) == IDX
               ? sw_dataset_idx_with(to, dir, test ? "t10k" : "train", &idx)
               : sw_dataset_cifar(to, dir, test ? "test" : "train", &cifar);
}

sw_status job_file_load(job *j, bool test, bool shapes_only)
{
    const kind k = kind_of(j->opts->data);
    if (k == IDX || k == CIFAR)
        return load_images(j, test, shapes_only);
    if (test)
        return SW_OK; /* both parts came from one file */
    return k == CSV ? load_csv(j, shapes_only) : load_text(j, shapes_only);
}
