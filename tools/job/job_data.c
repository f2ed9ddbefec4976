/* The data sets of a job, and whether both parts and the model agree about them. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "kernels/rng.h"
#include "runtime/data/documents.h"
#include "runtime/data/reader.h"
#include "tools/job/job.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --augment: what is done with the images of training, before the model. */

/* "=0.5": digits and a point after the sign; else false. */
static bool read_number(const char *text, const char *end, double *out)
{
    char number[32], *behind;
    const size_t n = (size_t)(end - text);
    if (n < 2 || n >= sizeof number || text[0] != '=')
        return false;
    memcpy(number, text + 1, n - 1);
    number[n - 1] = '\0';
    if (strspn(number, "0123456789.") != n - 1)
        return false;
    *out = strtod(number, &behind);
    return *behind == '\0' && behind != number;
}

/* One of "flip", "flip=P", "crop=N", each once. */
static bool read_word(const char *text, const char *end, tool_augment *out)
{
    double x;
    if (strncmp(text, "flip", 4) == 0 && out->flip == 0.0f) {
        x = 0.5;
        if (text + 4 != end && !read_number(text + 4, end, &x))
            return false;
        out->flip = (float)x;
        return x > 0.0 && x <= 1.0;
    }
    if (strncmp(text, "crop", 4) == 0 && out->crop == 0) {
        if (!read_number(text + 4, end, &x) || !(x >= 1.0 && x <= 4096.0) || floor(x) != x)
            return false;
        out->crop = (int)x;
        return true;
    }
    return false;
}

static bool read_words(const char *text, tool_augment *out)
{
    *out = (tool_augment){0};
    for (;; text++) {
        const char *end = text + strcspn(text, ",");
        if (!read_word(text, end, out))
            return false;
        if (*end == '\0')
            return true;
        text = end;
    }
}

int job_augment_check(const job_opts *o)
{
    tool_augment words;
    if (o->augment == NULL || read_words(o->augment, &words))
        return o->augment != NULL && o->method != JOB_BACKPROP
                   ? cli_error(CLI_USAGE, "--augment has no effect with --method mezo or lozo, "
                                          "whose runs are those of validation")
                   : CLI_GO;
    return cli_error(CLI_USAGE,
                     "--augment must be flip, crop=N or both, as flip,crop=4 (flip=P: with "
                     "probability P, above 0 to 1; N: 1 to 4096) (got '%s')",
                     o->augment);
}

tool_augment job_augment(const job_opts *o)
{
    tool_augment words = {0};
    if (o->augment != NULL && !read_words(o->augment, &words))
        return (tool_augment){0}; /* it was checked */
    return words;
}

/* ---- job normal -------------------------------------------------------------------------- */

/* --normalise: how the pixels of images become numbers.
 *
 * Without the option the file of --load-params decides, as its training noted it, and without
 * such a note the training images do. Numbers are text with few digits, so that those that are
 * printed and saved are those that were used. */

/* "1" or "1/2/3" up to `end`: how many numbers, 0 where they are none. */
static int read_numbers(const char *text, const char *end, float *to)
{
    int n = 0;
    for (;; text++) {
        char *behind;
        const char *digits = text + (*text == '-');
        const bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
        const bool number = !hex && ((*digits >= '0' && *digits <= '9') || *digits == '.');
        const float x = number && n < TOOL_CHANNELS ? strtof(text, &behind) : NAN;
        if (!isfinite(x))
            return 0;
        to[n++] = x;
        text = behind;
        if (text == end)
            return n;
        if (*text != '/')
            return 0;
    }
}

/* "none", or "MEAN,STD" with as many numbers on both sides and deviations above 0. */
static bool read_pixels(const char *text, tool_pixels *out)
{
    const char *comma = strchr(text, ',');
    *out = (tool_pixels){.n = 0};
    if (strcmp(text, "none") == 0)
        return true;
    if (comma == NULL)
        return false;
    const int n = read_numbers(text, comma, out->mean);
    if (n == 0 || read_numbers(comma + 1, text + strlen(text), out->deviation) != n)
        return false;
    for (int i = 0; i < n; i++)
        if (!(out->deviation[i] > 0.0f) || !isfinite(1.0f / (255.0f * out->deviation[i])) ||
            !isfinite(out->mean[i] / out->deviation[i]))
            return false;
    out->n = n;
    return true;
}

/* With the fewest digits that say this float. */
static size_t write_number(char *to, size_t bytes, float x)
{
    int n = 0;
    for (int digits = 4; digits <= 9; digits++) {
        n = snprintf(to, bytes, "%.*g", digits, (double)x);
        if (strtof(to, NULL) == x)
            break;
    }
    return (size_t)n;
}

static void write_pixels(const tool_pixels *p, char *text)
{
    size_t at = (size_t)snprintf(text, JOB_NORMAL_BYTES, "%s", p->n == 0 ? "none" : "");
    for (int part = 0; part < 2; part++)
        for (int i = 0; i < p->n; i++) {
            if (part > 0 || i > 0)
                text[at++] = i > 0 ? '/' : ',';
            at += write_number(text + at, JOB_NORMAL_BYTES - at,
                               part == 0 ? p->mean[i] : p->deviation[i]);
        }
}

static bool is_auto(const job_opts *o)
{
    return o->normalise == NULL || strcmp(o->normalise, "auto") == 0;
}

int job_normal_check(const job_opts *o)
{
    tool_pixels pixels;
    if (is_auto(o) || read_pixels(o->normalise, &pixels))
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--normalise must be auto, none, MEAN,STD or M1/M2/M3,S1/S2/S3, with STD "
                     "above 0 (got '%s')",
                     o->normalise);
}

/* Channels of an image that can have numbers of their own. */
static int channels_of(const job *j)
{
    const sw_shape *s = &j->train.info.field[0].shape;
    return s->rank == 3 && s->dim[0] >= 1 && s->dim[0] <= TOOL_CHANNELS ? (int)s->dim[0] : 1;
}

/* The note of the training in the file of parameters; "" where there is no file to read twice,
 * or no note in it. A file that cannot be read is an error here: other numbers than the noted
 * ones would train on. */
static int read_note(const job_opts *o, char *text)
{
    struct stat st;
    *text = '\0';
    if (o->params == NULL || stat(o->params, &st) != 0 || !S_ISREG(st.st_mode))
        return CLI_GO; /* loading says what is wrong */
    CLI_LIBRARY(sw_params_note(o->params, JOB_NORMAL_KEY, text, JOB_NORMAL_BYTES), true);
    return CLI_GO;
}

static int from_images(job *j, bool shapes_only)
{
    tool_pixels *p = &j->normal.pixels;
    const int n = channels_of(j);
    j->normal.from = "the training images";
    if (j->train.set == NULL)
        return cli_error(CLI_USAGE,
                         "--normalise auto needs images of a training: leave it out, "
                         "or give the numbers");
    if (shapes_only) {
        *p = (tool_pixels){n, {0}, {1, 1, 1, 1}};
        return CLI_GO;
    }
    CLI_LIBRARY(sw_dataset_moments(j->train.set, 0, n, p->mean, p->deviation), true);
    p->n = n;
    write_pixels(p, j->normal.text);
    return CLI_GO;
}

static int from_text(job *j, const char *text, const char *from, int wrong)
{
    tool_pixels *p = &j->normal.pixels;
    if (!read_pixels(text, p))
        return cli_error(wrong, "%s: normalise must be none or MEAN,STD (got '%s')", from,
                         text);
    if (p->n > 1 && p->n != channels_of(j))
        return cli_error(wrong,
                         "%s: '%s' has numbers for %d channels; the images of %s have %d", from,
                         text, p->n, j->train.info.name, channels_of(j));
    write_pixels(p, j->normal.text);
    j->normal.from = from;
    return CLI_GO;
}

static int job_normalise(job *j, bool shapes_only)
{
    const job_opts *o = j->opts;
    char noted[JOB_NORMAL_BYTES];
    j->normal = (job_normal){.from = ""};
    if (!tool_has_pixels(&j->train.info)) {
        if (o->normalise == NULL)
            return CLI_GO;
        return cli_error(CLI_USAGE, "--normalise has no effect on %s, which has no images",
                         j->train.info.name);
    }
    CLI_TRY(read_note(o, noted));
    if (o->normalise == NULL && *noted != '\0')
        return from_text(j, noted, o->params, CLI_DAMAGED);
    int status = is_auto(o) ? from_images(j, shapes_only)
                            : from_text(j, o->normalise, "--normalise", CLI_USAGE);
    if (status == CLI_GO && *noted != '\0' && strcmp(noted, j->normal.text) != 0)
        cli_note("%s was trained with --normalise %s, and %s is used", o->params, noted,
                 j->normal.text);
    return status;
}

/* ---- job data ---------------------------------------------------------------------------- */

/* The seeds of the built-in data are fixed: --seed changes a run, not its data. */
enum { SEED_TRAIN = 1, SEED_TEST = 2, SEED_SPLIT = 1 };

/* Documents of random ids, each a row. */
static sw_status make_documents(sw_dataset **out, int64_t n, const tool_settings *s,
                                uint64_t seed)
{
    const size_t bytes = (size_t)s->context * sizeof(int32_t);
    swi_documents *d = NULL;
    int32_t *ids;
    SW_TRY(sw_heap_alloc(&ids, SW_HEAP_DATASETS, bytes));
    sw_status status = swi_documents_create(&d, "synthetic", s->context, s->vocabulary);
    for (int64_t k = 0; k < n && status == SW_OK; k++) {
        for (int64_t i = 0; i < s->context; i += 4) {
            uint32_t words[4];
            sw_rng_words(words, seed, (uint32_t)(i / 4), sw_rng_stream("ids"), (uint32_t)k, 0);
            for (int64_t w = i; w < i + 4 && w < s->context; w++)
                ids[w] = (int32_t)(words[w - i] % (uint64_t)s->vocabulary);
        }
        status = swi_documents_add(d, ids, NULL, s->context);
    }
    if (status == SW_OK)
        status = swi_documents_pack(d, false, out);
    swi_documents_destroy(d);
    sw_heap_free(ids, SW_HEAP_DATASETS, bytes);
    return status;
}

static sw_status load_synthetic(job *j, bool test, bool shapes_only)
{
    const job_opts *o = j->opts;
    job_data *data = test ? &j->test : &j->train;
    const int64_t fifth = o->synthetic_n / 5 > 0 ? o->synthetic_n / 5 : 1;
    const int64_t n = test ? fifth : o->synthetic_n;
    const int64_t made = shapes_only ? 1 : n;
    const uint64_t seed = test ? SEED_TEST : SEED_TRAIN;
    data->n = n;
    if (o->kind->synthetic == TOOL_TOKENS)
        return make_documents(&data->set, made, &o->settings, seed);
    if (o->kind->synthetic == TOOL_VECTORS)
        return sw_dataset_vectors(&data->set, made, o->settings.width, seed);
    return sw_dataset_synthetic(&data->set, made, seed);
}

static sw_status load(job *j, bool test, bool shapes_only)
{
    const bool synthetic = strcmp(j->opts->data, "synthetic") == 0;
    return synthetic ? load_synthetic(j, test, shapes_only)
                     : job_file_load(j, test, shapes_only);
}

static void describe(job_data *data)
{
    data->info.size = sizeof data->info;
    sw_dataset_describe(data->set, &data->info);
    if (data->set != NULL &&
        data->n == 0) /* else shapes stand for more samples than were made */
        data->n = data->info.n;
}

int job_load(job *j, bool shapes_only)
{
    sw_status status = SW_OK;
    if (j->opts->unlabelled) /* before the data: they are read by what it says */
        status = job_trained_read(&j->trained, j->opts->params);
    if (status == SW_OK)
        status = load(j, false, shapes_only);
    if (status == SW_OK && !cli_interrupted())
        status = load(j, true, shapes_only);
    cli_progress("%s", "");
    if (status == SW_INVALID) /* a column that is not there */
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    if (status != SW_OK && status != SW_STOPPED)
        return cli_library_error(status, true);
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "interrupted while the data were loaded: no file was "
                                          "written");
    describe(&j->train);
    describe(&j->test);
    if (j->train.info.n_fields == 1)
        CLI_TRY(job_unlabelled(j));
    CLI_LIBRARY(job_file_agree(j), true);
    /* Some models are made for one kind of data: known here, before any model. */
    const tool_net_opts opts = job_net_opts(j);
    if (tool_net_accepts(&opts) != SW_OK)
        return cli_error(CLI_USAGE, "--model %s", sw_last_error());
    return job_normalise(j, shapes_only);
}

int64_t job_weight(const job *j, const sw_array *inputs)
{
    const int64_t rows = inputs[0].shape.dim[0];
    int64_t counted = 0;
    if (tool_task_of(&j->train.info) != TOOL_DOCUMENTS)
        return rows;
    const int32_t *labels = inputs[1].data;
    for (int64_t i = 0; i < rows * inputs[1].shape.dim[1]; i++)
        counted += labels[i] != SWI_NOT_COUNTED;
    return counted;
}

int job_refuse_documents(const job *j, const char *who)
{
    if (tool_task_of(&j->train.info) != TOOL_DOCUMENTS)
        return CLI_GO;
    return cli_error(
        CLI_USAGE,
        "--data %s is not there for %s, whose scores weigh rows and not the tokens "
        "that count: stepwell train takes it",
        j->opts->data, who);
}

void job_tell_documents(const job *j, FILE *to)
{
    static const char *const names[] = {"training", "testing"};
    for (int i = 0; i < 2; i++) {
        const sw_dataset *set = (i == 0 ? &j->train : &j->test)->set;
        const swi_documents_info d = swi_dataset_documents(set);
        const double all = (double)d.rows * (double)d.context;
        if (d.context == 0 || strcmp(j->opts->data, "synthetic") == 0)
            continue;
        fprintf(to, "%s: documents %s, tokens %s (%s count), rows %s x %s (%.2f %% empty)",
                names[i], cli_digits((uint64_t)d.documents).text,
                cli_digits((uint64_t)d.tokens).text, cli_digits((uint64_t)d.counted).text,
                cli_digits((uint64_t)d.rows).text, cli_digits((uint64_t)d.context).text,
                100.0 * (all - (double)d.tokens) / all);
        if (d.cut > 0)
            fprintf(to, ", cut to the context %s (by %s tokens)",
                    cli_digits((uint64_t)d.cut).text, cli_digits((uint64_t)d.cut_tokens).text);
        if (d.passed_over > 0)
            fprintf(to, ", passed over %s (no token counts)",
                    cli_digits((uint64_t)d.passed_over).text);
        fputc('\n', to);
    }
}

int job_validation_check(double share)
{
    if (share > 0.0 && share < 1.0)
        return CLI_GO;
    return cli_error(CLI_USAGE, "--validation-share must be above 0 and below 1 (got %g)",
                     share);
}

sw_status job_split(const sw_dataset *from, int64_t n_second, job_data *first, job_data *second)
{
    *first = *second = (job_data){0};
    SW_TRY(sw_dataset_split(&first->set, &second->set, from, n_second, SEED_SPLIT));
    describe(first);
    describe(second);
    return SW_OK;
}

int job_validation(const job *j, double share, job_data *train, job_data *validation)
{
    const int64_t all = j->train.n;
    int64_t n = llround(share * (double)all);
    n = n < 1 ? 1 : n >= all ? all - 1 : n;
    if (all < 2)
        return cli_error(CLI_USAGE,
                         "--data %s has 1 sample for training, and must have 2: one of them is "
                         "for validation",
                         j->opts->data);
    CLI_LIBRARY(job_split(j->train.set, n, train, validation), false);
    return CLI_GO;
}

void job_unload(job *j)
{
    sw_dataset_destroy(j->train.set);
    sw_dataset_destroy(j->test.set);
    j->train = j->test = (job_data){0};
}

/* ---- data suggest ------------------------------------------------------------------------ */

/* Which reader a path of data suggests: by the names of the files in a folder, or by the end of
 * a file's name. */

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

/* The reader that a path of data suggests, by the files of a folder or the end of a file's
 * name; NULL: none. */
static const char *job_suggest_reader(const char *path)
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
