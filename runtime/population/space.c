/* Spaces of hyper-parameters: what each may be, draws of it, and whether a value is within. */
#include "alloc/base/size.h"
#include "kernels/rng.h"
#include "runtime/population/pbt_internal.h"
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* exp and log of double numbers, from operations that IEEE 754 rounds exactly: the same bits on
 * every machine. frexp and ldexp move the exponent alone. */

/* log 2 in two parts: the first has 32 bits, so that its product with an exponent is exact. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33

/* x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh s, s = (m - 1) / (m + 1), whose
 * series in s^2 <= 0.0295 has an error below 2^-56 after 11 terms. */
double swi_log(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        e--;
    }
    const double s = (m - 1) / (m + 1), square = s * s;
    double sum = 0;
    for (int k = 21; k >= 3; k -= 2)
        sum = sum * square + 1.0 / k;
    const double log_m = 2 * s + 2 * s * square * sum;
    return e * LN2_HIGH + (e * LN2_LOW + log_m);
}

/* x = k log 2 + r with |r| <= 0.35; the Taylor series of exp r to the 14th power. */
double swi_exp(double x)
{
    static const double factor[] = {/* 1 / 14! ... 1 / 0! */
                                    1 / 87178291200.0,
                                    1 / 6227020800.0,
                                    1 / 479001600.0,
                                    1 / 39916800.0,
                                    1 / 3628800.0,
                                    1 / 362880.0,
                                    1 / 40320.0,
                                    1 / 5040.0,
                                    1 / 720.0,
                                    1 / 120.0,
                                    1 / 24.0,
                                    1 / 6.0,
                                    1 / 2.0,
                                    1,
                                    1};
    if (x > 709.78)
        return (double)INFINITY;
    if (!(x >= -745))
        return 0;
    const double k = floor(x * 0x1.71547652b82fep0 + 0.5);
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double sum = factor[0];
    for (size_t i = 1; i < sizeof factor / sizeof *factor; i++)
        sum = sum * r + factor[i];
    return ldexp(sum, (int)k);
}

#define EXACT 0x1p53 /* whole numbers up to this are exact */

/* ---- checks ------------------------------------------------------------------------------ */

static sw_status check_bounds(const sw_hyper *h)
{
    if (!isfinite(h->low) || !isfinite(h->high))
        SW_FAIL(SW_INVALID, "'%s': low and high must be finite (got %g and %g)", h->name,
                h->low, h->high);
    if (h->low > h->high)
        SW_FAIL(SW_INVALID, "'%s': low must not be above high (got %g and %g)", h->name, h->low,
                h->high);
    if (h->kind == SW_LOG_UNIFORM && h->low <= 0)
        SW_FAIL(SW_INVALID, "'%s': low of a logarithmic range must be above 0 (got %g)",
                h->name, h->low);
    if (h->kind == SW_INTEGER && (h->low != floor(h->low) || h->high != floor(h->high) ||
                                  fabs(h->low) > EXACT || fabs(h->high) > EXACT))
        SW_FAIL(SW_INVALID,
                "'%s': bounds must be whole numbers up to 2^53 (got %.17g and %.17g)", h->name,
                h->low, h->high);
    return SW_OK;
}

static sw_status check_choices(const sw_hyper *h)
{
    if (h->n_choices < 1 || h->n_choices > SWI_HYPER_CHOICES)
        SW_FAIL(SW_INVALID, "'%s': the list must have 1 to %d choices (got %d)", h->name,
                SWI_HYPER_CHOICES, h->n_choices);
    if (h->choices == NULL)
        SW_FAIL(SW_INVALID, "'%s': choices must not be NULL", h->name);
    for (int i = 0; i < h->n_choices; i++) {
        if (!isfinite(h->choices[i]))
            SW_FAIL(SW_INVALID, "'%s': choice %d must be finite", h->name, i);
        for (int j = 0; j < i; j++)
            if (h->choices[i] == h->choices[j])
                SW_FAIL(SW_INVALID, "'%s': the choice %.17g is there twice", h->name,
                        h->choices[i]);
        if (h->labels != NULL) {
            const char *label = h->labels[i];
            const size_t n = label != NULL ? strnlen(label, SWI_LABEL) : 0;
            if (n == 0 || n == SWI_LABEL)
                SW_FAIL(SW_INVALID, "'%s': label %d must have 1 to %d bytes", h->name, i,
                        SWI_LABEL - 1);
            for (int k = 0; k < i; k++)
                if (strcmp(label, h->labels[k]) == 0)
                    SW_FAIL(SW_INVALID, "'%s': the label '%s' is there twice", h->name, label);
        }
    }
    return SW_OK;
}

/* ---- making ------------------------------------------------------------------------------ */

static void *copy_into(swi_hyper *r, size_t *at, const void *from, size_t bytes)
{
    void *to = (char *)r->block + sw_size_part(at, bytes);
    memcpy(to, from, bytes);
    return to;
}

/* Sizes are bounded: SWI_HYPER_CHOICES of at most 80 bytes. */
static sw_status copy_record(swi_hyper *out, const sw_hyper *h)
{
    const size_t name = strlen(h->name) + 1;
    const size_t n = h->kind == SW_CHOICE ? (size_t)h->n_choices : 0;
    const bool labels = n > 0 && h->labels != NULL;
    swi_hyper r = {.is = *h};
    size_t at = 0;
    (void)sw_size_part(&r.block_bytes, name);
    (void)sw_size_part(&r.block_bytes, n * sizeof *h->choices);
    (void)sw_size_part(&r.block_bytes, labels ? n * sizeof *h->labels : 0);
    for (size_t i = 0; labels && i < n; i++)
        (void)sw_size_part(&r.block_bytes, strlen(h->labels[i]) + 1);
    SW_TRY(sw_heap_alloc(&r.block, SW_HEAP_RECORDS, r.block_bytes));
    r.is.name = copy_into(&r, &at, h->name, name);
    if (n > 0)
        r.is.choices = copy_into(&r, &at, h->choices, n * sizeof *h->choices);
    const char **texts = (const char **)(void *)((char *)r.block + at);
    at += labels ? (n * sizeof *texts + 15) & ~(size_t)15 : 0;
    for (size_t i = 0; labels && i < n; i++)
        texts[i] = copy_into(&r, &at, h->labels[i], strlen(h->labels[i]) + 1);
    r.is.labels = labels ? texts : NULL;
    *out = r;
    return SW_OK;
}

sw_status sw_space_create(sw_space **out)
{
    SW_TRY(swi_given(out != NULL, "out", "sw_space_create"));
    return sw_handle_take(out, SW_HANDLE_SPACE, sizeof(sw_space));
}

void swi_space_free(sw_space *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        sw_heap_free(s->hypers[i].block, SW_HEAP_RECORDS, s->hypers[i].block_bytes);
    sw_heap_free(s->hypers, SW_HEAP_RECORDS, s->cap * sizeof *s->hypers);
    sw_handle_give(s, SW_HANDLE_SPACE, sizeof *s);
}

void sw_space_destroy(sw_space *s)
{
    if (sw_handle_ends(s, SW_HANDLE_SPACE, "sw_space_destroy"))
        swi_space_free(s);
}

sw_status sw_space_add(sw_space *s, const sw_hyper *given)
{
    sw_hyper h;
    SW_TRY(sw_handle_check(s, SW_HANDLE_SPACE, __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_hyper, &h, given, __func__));
    SW_TRY(swi_given(h.name != NULL, "the name", "sw_space_add"));
    const size_t n = strnlen(h.name, SWI_HYPER_NAME);
    if (n == 0 || n == SWI_HYPER_NAME)
        SW_FAIL(SW_INVALID,
                "the name of a hyper-parameter must have 1 to %d bytes (got '%.60s%s')",
                SWI_HYPER_NAME - 1, h.name, n == 0 ? "" : "...");
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)h.name[i], low = c | 32;
        if (!((low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
              c == '.'))
            SW_FAIL(SW_INVALID,
                    "'%s': a name must be of letters, digits, '_', '-' and '.' (byte %zu "
                    "is not)",
                    h.name, i + 1);
    }
    if (h.name[0] == '.' || h.name[n - 1] == '.' || strstr(h.name, "..") != NULL)
        SW_FAIL(SW_INVALID, "'%s': between two dots, in front and after there must be a name",
                h.name);
    if ((unsigned)h.kind > SW_CHOICE)
        SW_FAIL(SW_INVALID, "'%s': kind %d is none", h.name, (int)h.kind);
    SW_TRY(h.kind == SW_CHOICE ? check_choices(&h) : check_bounds(&h));
    /* "a" and "a.b" cannot both have a value in nested objects. */
    for (uint32_t i = 0; i < s->n; i++) {
        const char *other = s->hypers[i].is.name;
        const size_t m = strlen(other), common = n < m ? n : m;
        if (memcmp(h.name, other, common) != 0)
            continue;
        if (n == m)
            SW_FAIL(SW_INVALID, "'%s': the space has this hyper-parameter already", h.name);
        if ((n > m ? h.name : other)[common] == '.')
            SW_FAIL(SW_INVALID, "'%s' cannot be beside '%s': one is a group of the other",
                    h.name, other);
    }

    if (s->n == SWI_HYPERS)
        SW_FAIL(SW_INVALID, "'%s': a space has at most %d hyper-parameters", h.name,
                SWI_HYPERS);
    SW_TRY(sw_heap_reserve(&s->hypers, SW_HEAP_RECORDS, &s->cap, s->n + 1));
    SW_TRY(copy_record(&s->hypers[s->n], &h));
    s->n++;
    return SW_OK;
}

sw_status swi_space_copy(sw_space **out, const sw_space *from)
{
    sw_space *s;
    SW_TRY(sw_space_create(&s));
    sw_status status = SW_OK;
    for (uint32_t i = 0; i < from->n && status == SW_OK; i++)
        status = sw_space_add(s, &from->hypers[i].is);
    return SW_GIVE(status, out, s, swi_space_free);
}

/* Questions to a space: positions, draws, and whether a value is within. */

int sw_space_count(const sw_space *s)
{
    return sw_handle_check(s, SW_HANDLE_SPACE, "sw_space_count") == SW_OK ? (int)s->n : 0;
}

int sw_space_find(const sw_space *s, const char *name)
{
    if (sw_handle_check(s, SW_HANDLE_SPACE, "sw_space_find") != SW_OK || name == NULL)
        return -1;
    for (uint32_t i = 0; i < s->n; i++)
        if (strcmp(s->hypers[i].is.name, name) == 0)
            return (int)i;
    return -1;
}

static sw_status check_at(const sw_space *s, int i, const char *call)
{
    SW_TRY(sw_handle_check(s, SW_HANDLE_SPACE, call));
    if (i < 0 || (uint32_t)i >= s->n)
        SW_FAIL(SW_INVALID, "%s: the space has %u hyper-parameters (got %d)", call, s->n, i);
    return SW_OK;
}

sw_status sw_space_at(const sw_space *s, int i, sw_hyper *out)
{
    SW_TRY(check_at(s, i, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_hyper, out, __func__));
    swi_struct_write(SWI_STRUCT_sw_hyper, out, &s->hypers[i].is);
    return SW_OK;
}

double swi_unit53(uint32_t high, uint32_t low)
{
    return ((double)(high >> 5) * 0x1p26 + (double)(low >> 6)) * 0x1p-53;
}

static double bounded(const sw_hyper *h, double x)
{
    return x < h->low ? h->low : x > h->high ? h->high : x;
}

double swi_hyper_pick(const sw_hyper *h, double u)
{
    switch (h->kind) {
    case SW_LOG_UNIFORM: {
        const double low = swi_log(h->low), high = swi_log(h->high);
        return bounded(h, swi_exp(low + u * (high - low)));
    }
    case SW_INTEGER:
        return bounded(h, h->low + floor(u * (h->high - h->low + 1)));
    case SW_CHOICE:
        return h->choices[(int)(u * h->n_choices)];
    default: /* high - low may be too large for a double */
        return bounded(h, h->low * (1 - u) + h->high * u);
    }
}

int swi_hyper_choice(const sw_hyper *h, double value)
{
    for (int i = 0; i < h->n_choices; i++)
        if (h->choices[i] == value)
            return i;
    return -1;
}

bool swi_hyper_has(const sw_hyper *h, double value)
{
    if (h->kind == SW_CHOICE)
        return swi_hyper_choice(h, value) >= 0;
    return value >= h->low && value <= h->high &&
           (h->kind != SW_INTEGER || value == floor(value));
}

sw_status sw_space_draw(const sw_space *s, int i, uint64_t seed, uint64_t draw, double *out)
{
    uint32_t w[4];
    SW_TRY(check_at(s, i, __func__));
    SW_TRY(swi_given(out != NULL, "out", __func__));
    sw_rng_words(w, seed, (uint32_t)draw, sw_rng_stream("sw_space_draw"), (uint32_t)i,
                 (uint32_t)(draw >> 32));
    *out = swi_hyper_pick(&s->hypers[i].is, swi_unit53(w[0], w[1]));
    return SW_OK;
}

int sw_space_has(const sw_space *s, int i, double value)
{
    return check_at(s, i, "sw_space_has") == SW_OK && swi_hyper_has(&s->hypers[i].is, value);
}

/* A hyper-parameter from a text: NAME=KIND:LOW..HIGH or NAME=choice:A,B,C. */

#define MOST_TEXT 4095 /* bytes of a text */

/* A copy of the text with its parts ended by zeros, and the list of a choice. */
typedef struct {
    char text[MOST_TEXT + 1];
    double choices[SWI_HYPER_CHOICES];
    const char *labels[SWI_HYPER_CHOICES];
} parts;

/* Decimal, with a decimal point whatever the locale is: strtod reads 0x10, " 1" and "nan" too.
 * False: it is not one; what is too large is infinite. */
static bool read_number(const char *text, double *out)
{
    if (*text == '\0' || strspn(text, "+-.0123456789eE") != strlen(text))
        return false;
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        return false;
    char *end;
    *out = strtod_l(text, &end, c);
    freelocale(c);
    return *end == '\0';
}

static sw_status bound(const char *text, const char *name, const char *which, double *out)
{
    if (!read_number(text, out))
        SW_FAIL(SW_INVALID, "'%s': %s must be a number (got '%s')", name, which, text);
    if (!isfinite(*out))
        SW_FAIL(SW_INVALID, "'%s': %s must be finite (got '%s')", name, which, text);
    return SW_OK;
}

static sw_status read_range(sw_hyper *h, char *text)
{
    char *dots = strstr(text, ".."); /* of "1...5" the first two */
    if (dots == NULL)
        SW_FAIL(SW_INVALID, "'%s': the range must be LOW..HIGH (got '%s')", h->name, text);
    *dots = '\0';
    SW_TRY(bound(text, h->name, "low", &h->low));
    return bound(dots + 2, h->name, "high", &h->high);
}

static bool is_word_of_no_number(const char *word)
{
    const char *p = word + strspn(word, "+-");
    return strcasecmp(p, "nan") == 0 || strcasecmp(p, "inf") == 0 ||
           strcasecmp(p, "infinity") == 0;
}

/* Numbers, or words: then the choices are 0, 1, 2 ... */
static sw_status read_list(sw_hyper *h, parts *p, char *text)
{
    int n_numbers = 0;
    if (*text == '\0')
        SW_FAIL(SW_INVALID, "'%s': the list of choices must not be empty", h->name);
    for (char *word = text; word != NULL; h->n_choices++) {
        char *comma = strchr(word, ',');
        if (comma != NULL)
            *comma = '\0';
        if (*word == '\0')
            SW_FAIL(SW_INVALID, "'%s': choice %d must not be empty", h->name, h->n_choices + 1);
        if (is_word_of_no_number(word))
            SW_FAIL(SW_INVALID, "'%s': a choice must be finite (got '%s')", h->name, word);
        n_numbers += read_number(word, &p->choices[h->n_choices]);
        p->labels[h->n_choices] = word;
        word = comma != NULL ? comma + 1 : NULL;
    }
    if (n_numbers != 0 && n_numbers != h->n_choices)
        SW_FAIL(SW_INVALID, "'%s': choices must be all numbers or all words", h->name);
    for (int i = 0; n_numbers == 0 && i < h->n_choices; i++)
        p->choices[i] = i;
    h->choices = p->choices;
    h->labels = n_numbers == 0 ? p->labels : NULL;
    return SW_OK;
}

static sw_status parse(sw_space *s, parts *p, const char *given)
{
    static const struct {
        const char *name;
        sw_hyper_kind kind;
    } kinds[] = {{"uniform", SW_UNIFORM},
                 {"log", SW_LOG_UNIFORM},
                 {"int", SW_INTEGER},
                 {"choice", SW_CHOICE}};
    sw_hyper h = SW_OPTS(sw_hyper, .name = p->text);
    memcpy(p->text, given, strlen(given) + 1);
    char *is = strchr(p->text, '='), *colon = is != NULL ? strchr(is, ':') : NULL;
    if (colon == NULL)
        SW_FAIL(SW_INVALID, "a hyper-parameter must be NAME=KIND:VALUES (got '%.80s')", given);
    *is = *colon = '\0';
    size_t k = 0;
    while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k].name, is + 1) != 0)
        k++;
    if (k == sizeof kinds / sizeof *kinds)
        SW_FAIL(SW_INVALID,
                "'%.60s': the kind must be uniform, log, int or choice (got '%.60s')", p->text,
                is + 1);
    h.kind = kinds[k].kind;
    SW_TRY(h.kind == SW_CHOICE ? read_list(&h, p, colon + 1) : read_range(&h, colon + 1));
    return sw_space_add(s, &h);
}

sw_status sw_space_parse(sw_space *s, const char *text)
{
    void *block;
    SW_TRY(sw_handle_check(s, SW_HANDLE_SPACE, __func__));
    SW_TRY(swi_given(text != NULL, "the text", __func__));
    if (strnlen(text, MOST_TEXT + 1) > MOST_TEXT)
        SW_FAIL(SW_INVALID, "'%.40s...': the text must have at most %d bytes", text, MOST_TEXT);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(parts)));
    const sw_status status = parse(s, block, text);
    sw_heap_free(block, SW_HEAP_RECORDS, sizeof(parts));
    return status;
}

/* Values of a space as nested JSON objects, written and read: "optimizer.lr" is lr in an object
 * optimizer. Choices that have labels are their labels. */

/* ---- writing ----------------------------------------------------------------------------- */

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
        if (name[depth + part] == '\0') {
            const double x = values[i];
            if (s->hypers[i].is.kind == SW_CHOICE && s->hypers[i].is.labels != NULL)
                sw_json_string(j,
                               s->hypers[i].is.labels[swi_hyper_choice(&s->hypers[i].is, x)]);
            else if (x == floor(x) && fabs(x) <= 0x1p53)
                sw_json_i64(j, (int64_t)x);
            else
                sw_json_f64(j, x);
        } else
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

static sw_status read_value(sw_json_in *in, const reader *r, int i)
{
    const sw_hyper *h = &r->space->hypers[i].is;
    sw_json_number x;
    if (!isnan(r->values[i]))
        return sw_json_bad(in, "a hyper-parameter that was there already");
    if (h->kind == SW_CHOICE && h->labels != NULL) {
        double *out = &r->values[i];
        char label[SWI_LABEL];
        SW_TRY(sw_json_get_text(in, label, sizeof label));
        for (int j = 0; j < h->n_choices; j++)
            if (strcmp(label, h->labels[j]) == 0) {
                *out = h->choices[j];
                return SW_OK;
            }
        return sw_json_bad(in, "the word must be one of the choices");
    }
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
