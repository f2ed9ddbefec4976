/* See text_read.h. */
#include "alloc/base/message.h"
#include "runtime/population/evolve/text_read.h"
#include "runtime/population/evolve/genome_internal.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

sw_json_in swi_read_begin(const char *text, size_t bytes, const char *path)
{
    sw_json_in in = sw_json_in_text(text, bytes, path);
    in.line = 1;
    in.strict = true;
    return in;
}

sw_status swi_read_end(sw_json_in *in)
{
    int c;
    SW_TRY(sw_json_peek(in, &c));
    return c < 0 ? SW_OK : sw_json_bad(in, "the text must end here");
}

sw_status swi_read_bad(const sw_json_in *in, const char *format, ...)
{
    char what[400];
    va_list args;
    va_start(args, format);
    (void)sw_message_list(what, sizeof what, format, args);
    va_end(args);
    return sw_json_bad(in, what);
}

sw_status swi_read_bad_at(const sw_json_in *in, uint64_t line, const char *what)
{
    char text[600];
    snprintf(text, sizeof text, "%s", what); /* it may be the last error */
    SW_FAIL(SW_FORMAT, "%s: line %llu: %s", in->path, (unsigned long long)line, text);
}

sw_status swi_read_field(const sw_json_in *in, const char *key, const char *const *fields,
                         uint32_t n, const char *of, uint32_t *seen, uint32_t *which)
{
    uint32_t i = 0;
    while (i < n && strcmp(fields[i], key) != 0)
        i++;
    if (i == n)
        return swi_read_bad(in, "%s has no \"%.40s\"", of, key);
    if ((*seen >> i & 1) != 0)
        return swi_read_bad(in, "\"%s\" is there twice", key);
    *seen |= (uint32_t)1 << i;
    *which = i;
    return SW_OK;
}

/* ---- values ------------------------------------------------------------------------------ */

/* The next value begins so; else which type it must have. */
static sw_status need(sw_json_in *in, const char *field, const char *begins, const char *type)
{
    int c;
    SW_TRY(sw_json_peek(in, &c));
    return c > 0 && strchr(begins, c) != NULL
               ? SW_OK
               : swi_read_bad(in, "\"%s\" must be %s", field, type);
}

sw_status swi_read_word(sw_json_in *in, const char *field, char *to, size_t room)
{
    sw_json_text text = {.to = to, .cap = room - 1};
    SW_TRY(need(in, field, "\"", "a string"));
    SW_TRY(sw_json_get_string(in, &text));
    if (text.length == 0 || text.length >= room)
        return swi_read_bad(in, "\"%s\" must be a string of 1 to %zu bytes (got %zu)", field,
                            room - 1, text.length);
    to[text.length] = '\0';
    return SW_OK;
}

sw_status swi_read_choice(sw_json_in *in, const char *field, const char *const *words,
                          uint32_t n, uint32_t *out)
{
    char word[40], known[320] = "";
    size_t used = 0;
    SW_TRY(swi_read_word(in, field, word, sizeof word));
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(words[i], word) == 0) {
            *out = i;
            return SW_OK;
        }
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                     i > 0 ? ", " : "", words[i]);
    }
    return swi_read_bad(in, "\"%s\" must be one of %s (got '%s')", field, known, word);
}

sw_status swi_read_whole(sw_json_in *in, const char *field, int64_t low, int64_t high,
                         int64_t *out)
{
    sw_json_number x;
    SW_TRY(need(in, field, "-0123456789", "a whole number"));
    SW_TRY(sw_json_get_number(in, &x));
    if (!x.whole || x.real < (double)low || x.real > (double)high)
        return swi_read_bad(in, "\"%s\" must be a whole number of %lld to %lld (got %.12g)",
                            field, (long long)low, (long long)high, x.real);
    *out = x.minus ? -(int64_t)x.magnitude : (int64_t)x.magnitude;
    return SW_OK;
}

sw_status swi_read_real(sw_json_in *in, double *out)
{
    sw_json_number x;
    SW_TRY(sw_json_get_number(in, &x));
    *out = x.real;
    return SW_OK;
}

sw_status swi_read_f32(sw_json_in *in, const char *field, float *out)
{
    double x;
    SW_TRY(need(in, field, "-0123456789", "a number"));
    SW_TRY(swi_read_real(in, &x));
    *out = fabs(x) <= 3.4028234663852886e38 ? (float)x : x > 0 ? INFINITY : -INFINITY;
    return SW_OK;
}

sw_status swi_read_bool(sw_json_in *in, const char *field, bool *out)
{
    sw_json_word word;
    SW_TRY(need(in, field, "tf", "true or false"));
    SW_TRY(sw_json_get_word(in, &word));
    *out = word == SW_JSON_TRUE;
    return SW_OK;
}

sw_status swi_read_list(sw_json_in *in, swi_read_element *element, void *context)
{
    bool end, more = true;
    SW_TRY(sw_json_expect(in, '['));
    SW_TRY(sw_json_accept(in, ']', &end));
    while (!end && more) {
        SW_TRY(element(in, context));
        SW_TRY(sw_json_accept(in, ',', &more));
    }
    return end ? SW_OK : sw_json_expect(in, ']');
}

/* ---- shields ----------------------------------------------------------------------------- */

static sw_status read_one_shield(sw_json_in *in, void *context)
{
    uint32_t *shield = context, which;
    const char *names[] = {"all", NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    uint32_t n = 1;
    for (; swi_shield_name(n - 1) != NULL; n++)
        names[n] = swi_shield_name(n - 1);
    SW_TRY(swi_read_choice(in, "shield", names, n, &which));
    const uint32_t bits = which == 0 ? SW_SHIELD_ALL : (uint32_t)1 << (which - 1);
    if ((*shield & bits) != 0)
        return swi_read_bad(in, "\"shield\": '%s' is there already", names[which]);
    *shield |= bits;
    return SW_OK;
}

sw_status swi_read_shield(sw_json_in *in, uint32_t *out)
{
    *out = 0;
    return swi_read_list(in, read_one_shield, out);
}
