/* A hyper-parameter from a text: NAME=KIND:LOW..HIGH or NAME=choice:A,B,C. */
#include "runtime/population/pbt_internal.h"
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    static const char call[] = "sw_space_parse";
    void *block;
    SW_TRY(sw_handle_check(s, SW_HANDLE_SPACE, call));
    if (text == NULL)
        SW_FAIL(SW_INVALID, "%s: the text must not be NULL", call);
    if (strnlen(text, MOST_TEXT + 1) > MOST_TEXT)
        SW_FAIL(SW_INVALID, "'%.40s...': the text must have at most %d bytes", text, MOST_TEXT);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(parts)));
    const sw_status status = parse(s, block, text);
    sw_heap_free(block, SW_HEAP_RECORDS, sizeof(parts));
    return status;
}
