/* --normalise: how the pixels of images become numbers.
 *
 * Without the option the file of --load-params decides, as its training noted it, and without
 * such a note the training images do. Numbers are text with few digits, so that those that are
 * printed and saved are those that were used. */
#include "tools/job/job.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    const sw_status status = sw_params_note(o->params, JOB_NORMAL_KEY, text, JOB_NORMAL_BYTES);
    return status == SW_OK ? CLI_GO : cli_library_error(status, true);
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
    const sw_status status = sw_dataset_moments(j->train.set, 0, n, p->mean, p->deviation);
    if (status != SW_OK)
        return cli_library_error(status, true);
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

int job_normalise(job *j, bool shapes_only)
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
    int status = read_note(o, noted);
    if (status != CLI_GO)
        return status;
    if (o->normalise == NULL && *noted != '\0')
        return from_text(j, noted, o->params, CLI_DAMAGED);
    status = is_auto(o) ? from_images(j, shapes_only)
                        : from_text(j, o->normalise, "--normalise", CLI_USAGE);
    if (status == CLI_GO && *noted != '\0' && strcmp(noted, j->normal.text) != 0)
        cli_note("%s was trained with --normalise %s, and %s is used", o->params, noted,
                 j->normal.text);
    return status;
}
