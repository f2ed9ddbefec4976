/* The data that parameters were trained on, as notes beside them: how a sample looks and what
 * its target is. Data without labels are read by it.
 *
 * "features" is a type and a shape, "f32 4" or "u8 3x32x32", with " standardised" after it;
 * of sequences it says how long they are, "u16 128", and that they are bytes, "u8 128".
 * "targets" is "classes 3" and, where there is room for all of them and all are UTF-8, as files
 * of parameters need it, a line for each name; or "values 2"; or of sequences how many ids
 * there are, "ids 50257", and how many the model knows where these are more, "ids 50257 of
 * 50304". */
#include "alloc/base/sys.h"
#include "profiler/record/utf8.h"
#include "tools/job/job.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

static void write_ids(char *text, size_t bytes, int64_t ids, int64_t vocabulary)
{
    const int used = snprintf(text, bytes, IDS "%" PRId64, ids);
    if (vocabulary > ids)
        snprintf(text + used, bytes - (size_t)used, " of %" PRId64, vocabulary);
}

sw_status job_note(const job *j, sw_model *model)
{
    const sw_dataset_info *info = &j->train.info;
    char text[JOB_NOTE_BYTES];
    if (*j->normal.text != '\0')
        SW_TRY(sw_model_note(model, JOB_NORMAL_KEY, j->normal.text));
    if (info->n_fields != 2)
        return SW_OK;
    snprintf(text, sizeof text, "%s ", sw_dtype_name(info->field[0].dtype));
    write_shape(text, sizeof text, &info->field[0].shape);
    if (j->opts->standardise)
        memcpy(text + strlen(text), STANDARDISED, sizeof STANDARDISED);
    SW_TRY(sw_model_note(model, FEATURES, text));
    if (tool_task_of(info) == TOOL_CLASSIFY) {
        snprintf(text, sizeof text, "classes %" PRId64, info->n_classes);
        write_names(text, sizeof text, info);
    } else if (tool_task_of(info) == TOOL_PREDICT) {
        write_ids(text, sizeof text, info->n_classes, j->opts->settings.vocabulary);
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

/* The lines after the first are names, as many as there are classes or none. */
static bool read_names(job_trained *t, char *line)
{
    int64_t n = 0;
    for (; line != NULL && n < JOB_NOTED_NAMES; n++) {
        *line++ = '\0';
        t->name[n] = line;
        line = strchr(line, '\n');
    }
    t->named = n > 0;
    return line == NULL && (n == 0 || n == t->n_classes);
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
    return read_names(t, *behind == '\n' ? behind : NULL);
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
    const sw_status status = job_trained_read(&t, o->params);
    if (status != SW_OK)
        return cli_library_error(status, true);
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
        return cli_error(
            CLI_USAGE,
            "%s has no labels, and %s does not say how many classes it knows: name "
            "data with labels with --data, and these with --test-data",
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
    const int status = refuse(j);
    if (status != CLI_GO)
        return status;
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
