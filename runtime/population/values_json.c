/* Values of a space as nested JSON objects, written and read: "optimizer.lr" is lr in an object
 * optimizer. Choices that have labels are their labels. */
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <string.h>

/* ---- writing ----------------------------------------------------------------------------- */

static void write_value(sw_json *j, const sw_hyper *h, double x)
{
    if (h->kind == SW_CHOICE && h->labels != NULL)
        sw_json_string(j, h->labels[swi_hyper_choice(h, x)]);
    else if (x == floor(x) && fabs(x) <= 0x1p53)
        sw_json_i64(j, (int64_t)x);
    else
        sw_json_f64(j, x);
}

/* Is the name below the first `depth` bytes of `like`, and how long is its next part? */
static bool is_below(const char *name, const char *like, size_t depth, size_t *part)
{
    if (strncmp(name, like, depth) != 0)
        return false;
    *part = strcspn(name + depth, ".");
    return true;
}

/* All names that begin with the first `depth` bytes of `like`, in the order of the space; a
 * group stands where the first of its names does. Names have at most 24 parts. */
static void write_group(sw_json *j, const sw_space *s, const double *values, const char *like,
                        size_t depth)
{
    char key[SWI_HYPER_NAME];
    size_t part, other;
    sw_json_begin(j, '{');
    for (uint32_t i = 0; i < s->n; i++) {
        const char *name = s->hypers[i].is.name;
        if (!is_below(name, like, depth, &part))
            continue;
        bool there = false;
        for (uint32_t k = 0; k < i && !there; k++) {
            const char *before = s->hypers[k].is.name;
            there = is_below(before, name, depth, &other) && other == part &&
                    memcmp(before + depth, name + depth, part) == 0;
        }
        if (there)
            continue;
        memcpy(key, name + depth, part);
        key[part] = '\0';
        sw_json_key(j, key);
        if (name[depth + part] == '\0')
            write_value(j, &s->hypers[i].is, values[i]);
        else
            write_group(j, s, values, name, depth + part + 1);
    }
    sw_json_end(j);
}

void swi_values_write(sw_json *j, const sw_space *s, const double *values)
{
    write_group(j, s, values, "", 0);
}

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct {
    const sw_space *space;
    double *values; /* NaN: not there yet */
    char name[2 * SWI_HYPER_NAME];
    size_t n; /* bytes of the names of the groups around, with their dots */
} reader;

static sw_status read_label(sw_json_in *in, const sw_hyper *h, double *out)
{
    char label[SWI_LABEL];
    SW_TRY(sw_json_get_text(in, label, sizeof label));
    for (int i = 0; i < h->n_choices; i++)
        if (strcmp(label, h->labels[i]) == 0) {
            *out = h->choices[i];
            return SW_OK;
        }
    return sw_json_bad(in, "the word must be one of the choices");
}

static sw_status read_value(sw_json_in *in, const reader *r, int i)
{
    const sw_hyper *h = &r->space->hypers[i].is;
    sw_json_number x;
    if (!isnan(r->values[i]))
        return sw_json_bad(in, "a hyper-parameter that was there already");
    if (h->kind == SW_CHOICE && h->labels != NULL)
        return read_label(in, h, &r->values[i]);
    SW_TRY(sw_json_get_number(in, &x));
    if (!swi_hyper_has(h, x.real))
        return sw_json_bad(in, "a value outside of the space");
    r->values[i] = x.real;
    return SW_OK;
}

static sw_status read_member(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    const size_t before = r->n, length = strlen(key);
    int c;
    if (before + length + 2 > sizeof r->name || before >= SWI_HYPER_NAME)
        return sw_json_bad(in, "a name that is no hyper-parameter's");
    memcpy(r->name + before, key, length + 1);
    SW_TRY(sw_json_peek(in, &c));
    if (c == '{') { /* not deeper than a name is long */
        r->name[before + length] = '.';
        r->n = before + length + 1;
        SW_TRY(sw_json_get_object(in, read_member, r));
        r->n = before;
        return SW_OK;
    }
    const int i = sw_space_find(r->space, r->name);
    return i < 0 ? sw_json_bad(in, "a name that is no hyper-parameter's")
                 : read_value(in, r, i);
}

sw_status swi_values_read(sw_json_in *in, const sw_space *s, double *values)
{
    reader r = {.space = s, .values = values};
    for (uint32_t i = 0; i < s->n; i++)
        values[i] = (double)NAN;
    SW_TRY(sw_json_get_object(in, read_member, &r));
    for (uint32_t i = 0; i < s->n; i++)
        if (isnan(values[i]))
            return sw_json_bad(in, "a hyper-parameter is missing before this");
    return SW_OK;
}
