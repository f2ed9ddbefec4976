/* Data that are read from files: what `--data` can name, the options of its readers,
 * loading. */
#include "alloc/base/sys.h"
#include "profiler/record/utf8.h"
#include "runtime/data/documents.h"
#include "runtime/data/reader.h"
#include "tools/job/job.h"
#include "tools/text/chat.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096 /* as long as the system takes */

/* ---- sources ----------------------------------------------------------------------------- */

/* "synthetic, idx:DIR, ..."; with `about` what each is for; `last` stands before the last. */
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
    CLI_TRY(check_taken(o, r));
    if (r != NULL)
        CLI_TRY(check_parts(o, r));
    return job_check_folder(o->data);
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

typedef struct {
    swi_documents *to;
    int64_t n;
    bool quiet;
} reading;

static sw_status take_document(void *context, const int32_t *ids, const int32_t *labels,
                               size_t n)
{
    reading *r = context;
    if (!r->quiet && ++r->n % 1024 == 0)
        cli_progress("reading conversations  %" PRId64, r->n);
    return cli_interrupted() ? SW_STOPPED : swi_documents_add(r->to, ids, labels, (int64_t)n);
}

/* Texts become ids by the tokenizer and the template of the model's folder. */
static sw_status read_chat(swi_documents *to, const char *path, const swi_reader_opts *o)
{
    const job *j = o->user;
    reading r = {to, 0, j->quiet};
    chat *c;
    SW_TRY(chat_open(&c, j->opts->settings.folder, j->opts->chat));
    if (!r.quiet && chat_name(c) != NULL)
        cli_note("%s: by the chat template %s", path, chat_name(c));
    const sw_status status = chat_read(c, path, o->unpack_bytes, take_document, &r);
    chat_close(c);
    cli_progress("%s", "");
    return status;
}

sw_status job_file_load(job *j, bool test, bool shapes_only)
{
    const char *path;
    const swi_reader *r = swi_reader_of(j->opts->data, &path);
    const sw_csv_opts csv = csv_opts(j);
    const sw_images_opts images = images_opts(j);
    const swi_reader_opts opts =
        SW_INIT(.images = &images, .unlabelled = j->opts->unlabelled,
                .shapes_only = shapes_only, .unpack_bytes = j->opts->data_limit,
                .context = j->opts->settings.context, .n_ids = j->opts->settings.vocabulary,
                .csv = &csv, .vocabulary = j->opts->vocab, .test_path = csv.test_path,
                .test_share = csv.test_share, .seed = csv.seed,
                .chat = j->opts->settings.folder != NULL ? read_chat : NULL, .user = j);
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

/* ---- job folder -------------------------------------------------------------------------- */

/* A folder that an option names to write into: it is made where it is not there, and goes where
 * nothing came into it. */

int job_folder_check(const char *option, const char *path, const char *base)
{
    char parent[JOB_FOLDER_BYTES];
    struct stat st, of;
    if (path == NULL)
        return CLI_GO;
    if (strlen(path) + 64 > sizeof parent)
        return cli_error(CLI_USAGE, "%s must have at most %zu bytes", option,
                         sizeof parent - 64);
    const bool there = stat(path, &st) == 0;
    if (there && !S_ISDIR(st.st_mode))
        return cli_error(CLI_FAILED, "%s %s is no folder", option, path);
    if (there && base != NULL && stat(base, &of) == 0 && of.st_dev == st.st_dev &&
        of.st_ino == st.st_ino)
        return cli_error(CLI_USAGE,
                         "%s %s is the folder of the base, whose files are not overwritten: "
                         "name another",
                         option, path);
    snprintf(parent, sizeof parent, "%s/adapter_config.json", path);
    if (base != NULL && access(parent, F_OK) == 0)
        return cli_error(CLI_USAGE,
                         "%s %s has an adapter, which transformers would add to the weights: "
                         "name another folder",
                         option, path);
    /* The folder that a path stands in. */
    const size_t bytes = sizeof parent;
    snprintf(parent, bytes, "%s", path);
    size_t n = strlen(parent);
    while (n > 1 && parent[n - 1] == '/')
        parent[--n] = '\0';
    char *slash = strrchr(parent, '/');
    if (slash == NULL)
        snprintf(parent, bytes, ".");
    else
        slash[slash == parent ? 1 : 0] = '\0';
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

/* The data that parameters were trained on, as notes beside them: how a sample looks and what
 * its target is. Data without labels are read by it.
 *
 * "features" is a type and a shape, "f32 4" or "u8 3x32x32", with " standardised" after it; of
 * sequences it says how long they are, "u16 128", and that they are bytes, "u8 128". "targets"
 * is "classes 3" and, where there is room for all of them and all are UTF-8, as files of
 * parameters need it, a line for each name; or "values 2"; or of sequences how many ids there
 * are, "ids 50257", and how many the model knows where these are more, "ids 50257 of 50304". */

#define FEATURES "features"
#define TARGETS "targets"
#define IDS "ids "
#define STANDARDISED " standardised"

/* ---- written ----------------------------------------------------------------------------- */

static void write_shape(char *text, size_t bytes, const sw_shape *s)
{
    size_t used = strlen(text);
    for (int i = 0; i < s->rank && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i > 0 ? "x" : "",
                                 s->dim[i]);
}

static void write_names(char *text, size_t bytes, const sw_dataset_info *info)
{
    size_t used = strlen(text);
    const size_t without = used;
    for (int64_t k = 0; info->class_names != NULL && k < info->n_classes; k++) {
        const size_t n = strlen(info->class_names[k]);
        if (strchr(info->class_names[k], '\n') != NULL ||
            !sw_utf8_whole(info->class_names[k]) || n + 2 > bytes - used) {
            text[without] = '\0';
            return;
        }
        text[used++] = '\n';
        memcpy(text + used, info->class_names[k], n + 1);
        used += n;
    }
}

sw_status job_note(const job *j, sw_model *model)
{
    const sw_dataset_info *info = &j->train.info;
    char text[JOB_NOTE_BYTES];
    if (*j->normal.text != '\0')
        SW_TRY(sw_model_note(model, JOB_NORMAL_KEY, j->normal.text));
    if (j->opts->exec.compute == SW_BF16) {
        snprintf(text, sizeof text, "%s %s", j->opts->precision, j->opts->bf16_order);
        SW_TRY(sw_model_note(model, JOB_PRECISION_KEY, text));
    }
    const tool_task task = tool_task_of(info);
    if (info->n_fields != 2 && task != TOOL_DOCUMENTS)
        return SW_OK;
    snprintf(text, sizeof text, "%s ", sw_dtype_name(info->field[0].dtype));
    write_shape(text, sizeof text, &info->field[0].shape);
    if (j->opts->standardise)
        memcpy(text + strlen(text), STANDARDISED, sizeof STANDARDISED);
    SW_TRY(sw_model_note(model, FEATURES, text));
    if (task == TOOL_CLASSIFY) {
        snprintf(text, sizeof text, "classes %" PRId64, info->n_classes);
        write_names(text, sizeof text, info);
    } else if (task == TOOL_PREDICT || task == TOOL_DOCUMENTS) {
        const size_t bytes = sizeof text;
        const int used = snprintf(text, bytes, IDS "%" PRId64, info->n_classes);
        if (j->opts->settings.vocabulary > info->n_classes)
            snprintf(text + used, bytes - (size_t)used, " of %" PRId64,
                     j->opts->settings.vocabulary);
    } else {
        snprintf(text, sizeof text, "values ");
        write_shape(text, sizeof text, &info->field[1].shape);
    }
    return sw_model_note(model, TARGETS, text);
}

/* ---- read -------------------------------------------------------------------------------- */

/* "3x32x32" up to a blank or the end: the text after it, NULL where it is no shape. "" is a
 * scalar. */
static const char *read_shape(const char *text, sw_shape *s)
{
    s->rank = 0;
    while (*text >= '0' && *text <= '9') {
        char *behind;
        const long long n = strtoll(text, &behind, 10);
        if (n < 1 || n > INT32_MAX || s->rank == SW_MAX_RANK - 1)
            return NULL;
        s->dim[s->rank++] = n;
        text = behind;
        if (*text != 'x')
            break;
        text++;
    }
    return *text == '\0' || *text == ' ' ? text : NULL;
}

static bool read_features(job_trained *t, const char *text)
{
    static const sw_dtype types[] = {SW_F32, SW_U8, SW_U16, SW_I32};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = sw_dtype_name(types[i]);
        const size_t n = strlen(name);
        if (strncmp(text, name, n) != 0 || text[n] != ' ')
            continue;
        t->sample.dtype = types[i];
        const char *behind = read_shape(text + n + 1, &t->sample.shape);
        t->standardised = behind != NULL && strcmp(behind, STANDARDISED) == 0;
        return behind != NULL && (*behind == '\0' || t->standardised);
    }
    return false;
}

/* "50257" or "50257 of 50304". */
static bool read_ids(job_trained *t, const char *text)
{
    static const char of[] = " of ";
    char *behind;
    t->vocabulary = t->ids = strtoll(text, &behind, 10);
    if (behind != text && strncmp(behind, of, strlen(of)) == 0)
        t->vocabulary = strtoll(behind + strlen(of), &behind, 10);
    return *behind == '\0' && t->ids >= 1 && t->vocabulary >= t->ids &&
           t->vocabulary <= INT32_MAX && t->sample.shape.rank == 1 && t->sample.dtype != SW_F32;
}

static bool read_targets(job_trained *t)
{
    static const char classes[] = "classes ", values[] = "values ";
    char *behind;
    if (strncmp(t->text, values, strlen(values)) == 0) {
        t->target.dtype = SW_F32;
        const char *rest = read_shape(t->text + strlen(values), &t->target.shape);
        return rest != NULL && *rest == '\0';
    }
    if (strncmp(t->text, classes, strlen(classes)) != 0)
        return false;
    t->n_classes = strtoll(t->text + strlen(classes), &behind, 10);
    t->target.dtype = SW_I32;
    if (t->n_classes < 1 || t->n_classes > INT32_MAX || (*behind != '\0' && *behind != '\n'))
        return false;
    /* The lines after the first are names, as many as there are classes or none. */
    char *line = *behind == '\n' ? behind : NULL;
    int64_t n = 0;
    for (; line != NULL && n < JOB_NOTED_NAMES; n++) {
        *line++ = '\0';
        t->name[n] = line;
        line = strchr(line, '\n');
    }
    t->named = n > 0;
    return line == NULL && (n == 0 || n == t->n_classes);
}

/* Files of other programs and of 0.1 have no such notes. A file that is not there is refused
 * where it is loaded. */
sw_status job_trained_read(job_trained *t, const char *params)
{
    char text[JOB_NOTE_BYTES];
    *t = (job_trained){.known = false};
    if (params == NULL || !sw_file_taken(params))
        return SW_OK;
    SW_TRY(sw_params_note(params, FEATURES, text, sizeof text));
    SW_TRY(sw_params_note(params, TARGETS, t->text, sizeof t->text));
    const bool features = *text != '\0' && read_features(t, text);
    t->sequences = features && strncmp(t->text, IDS, strlen(IDS)) == 0 &&
                   read_ids(t, t->text + strlen(IDS));
    t->known = features && !t->sequences && read_targets(t);
    return SW_OK;
}

int job_take_sequences(job_opts *o)
{
    const tool_model *kind = tool_model_find(o->model);
    job_trained t;
    if (kind == NULL || kind->takes[TOOL_VOCABULARY] == NULL)
        return CLI_GO;
    CLI_LIBRARY(job_trained_read(&t, o->params), true);
    if (t.sequences && o->settings.context == 0)
        o->settings.context = t.sample.shape.dim[0];
    if (t.sequences && o->settings.vocabulary == 0)
        o->settings.vocabulary = t.vocabulary;
    return CLI_GO;
}

/* ---- data without labels ----------------------------------------------------------------- */

static const char *show(const sw_array *a, char text[JOB_NOTE_BYTES])
{
    snprintf(text, JOB_NOTE_BYTES, "%s ", sw_dtype_name(a->dtype));
    write_shape(text, JOB_NOTE_BYTES, &a->shape);
    return text;
}

static int refuse(const job *j)
{
    const job_trained *t = &j->trained;
    const sw_array *own = &j->train.info.field[0];
    char a[JOB_NOTE_BYTES], b[JOB_NOTE_BYTES];
    if (!t->known)
        return cli_error(CLI_USAGE,
                         "%s has no labels, and %s does not say how many classes it knows: "
                         "name data with labels with --data, and these with --test-data",
                         j->train.info.name, j->opts->params);
    if (t->standardised || j->opts->standardise)
        return cli_error(CLI_USAGE,
                         "--standardise needs the data of the training: name them with --data, "
                         "and %s with --test-data",
                         j->train.info.name);
    if (own->dtype != t->sample.dtype || own->shape.rank != t->sample.shape.rank ||
        memcmp(own->shape.dim, t->sample.shape.dim,
               (size_t)own->shape.rank * sizeof own->shape.dim[0]) != 0)
        return cli_error(CLI_DAMAGED, "%s: its samples are %s; %s was trained on %s",
                         j->train.info.name, show(own, a), j->opts->params,
                         show(&t->sample, b));
    return CLI_GO;
}

int job_unlabelled(job *j)
{
    const job_trained *t = &j->trained;
    CLI_TRY(refuse(j));
    j->test = j->train;
    j->test.info.n_classes = t->n_classes;
    j->test.info.class_names = t->named ? t->name : NULL;
    j->train.set = NULL;
    j->train.n = 0;
    j->train.info = j->test.info;
    j->train.info.n = 0;
    j->train.info.bytes = 0;
    j->train.info.n_fields = 2;
    j->train.info.field[1] = t->target;
    return CLI_GO;
}
