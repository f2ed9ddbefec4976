/* --augment: what is done with the images of training, before the model. */
#include "tools/job/job.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
