/* See json_read.h. */
#include "profiler/record/json_read.h"
#include "alloc/base/mem.h"
#include "profiler/record/utf8.h"
#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_CHARS 400 /* a double takes at most some 330 without an exponent */

sw_json_in sw_json_in_text(const char *text, size_t bytes, const char *path)
{
    return (sw_json_in){
        .text = (const unsigned char *)text, .bytes = bytes, .path = path, .of = ""};
}

sw_status sw_json_bad(const sw_json_in *in, const char *what)
{
    const unsigned long long at = in->before + in->at;
    if (in->line > 0)
        SW_FAIL(SW_FORMAT, "%s: line %llu: column %llu: %s", in->path,
                (unsigned long long)in->line, at - in->line_began + 1, what);
    SW_FAIL(SW_FORMAT, "%s: byte %llu%s: %s", in->path, at, in->of, what);
}

/* The next byte, which stays; -1 at the end. */
static sw_status look(sw_json_in *in, int *c)
{
    if (in->at == in->bytes && in->more != NULL)
        SW_TRY(in->more(in));
    *c = in->at < in->bytes ? in->text[in->at] : -1;
    return SW_OK;
}

static sw_status next(sw_json_in *in, int *c)
{
    SW_TRY(look(in, c));
    in->at += *c >= 0;
    return SW_OK;
}

sw_status sw_json_peek(sw_json_in *in, int *c)
{
    for (;;) {
        SW_TRY(look(in, c));
        if (*c != ' ' && *c != '\n' && *c != '\t' && *c != '\r')
            return SW_OK;
        in->at++;
        if (*c == '\n' && in->line > 0) {
            in->line++;
            in->line_began = in->before + in->at;
        }
    }
}

sw_status sw_json_accept(sw_json_in *in, int c, bool *there)
{
    int found;
    SW_TRY(sw_json_peek(in, &found));
    *there = found == c;
    in->at += *there;
    return SW_OK;
}

sw_status sw_json_expect(sw_json_in *in, int c)
{
    char what[] = "'?' was expected";
    bool there;
    SW_TRY(sw_json_accept(in, c, &there));
    what[1] = (char)c;
    return there ? SW_OK : sw_json_bad(in, what);
}

/* ---- strings ----------------------------------------------------------------------------- */

static sw_status keep(sw_json_text *s, uint32_t byte)
{
    if (s->length >= s->cap && s->grow != NULL)
        SW_TRY(s->grow(s));
    if (s->length < s->cap)
        s->to[s->length] = (char)byte;
    s->length++;
    return SW_OK;
}

static sw_status read_hex(sw_json_in *in, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, in->at++) {
        int c;
        SW_TRY(look(in, &c));
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            *out = *out << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return sw_json_bad(in, "four hexadecimal digits were expected");
    }
    return SW_OK;
}

/* After "\u": one code, or two that make a pair. */
static sw_status read_code(sw_json_in *in, sw_json_text *s)
{
    uint32_t code, low = 0;
    SW_TRY(read_hex(in, &code));
    if (code >= 0xd800 && code < 0xe000) {
        int a = -1, b = -1;
        if (code < 0xdc00)
            SW_TRY(look(in, &a));
        in->at += a == '\\';
        if (a == '\\')
            SW_TRY(look(in, &b));
        if (b != 'u')
            return sw_json_bad(in, "half a surrogate pair");
        in->at++;
        SW_TRY(read_hex(in, &low));
        if (low < 0xdc00 || low >= 0xe000)
            return sw_json_bad(in, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0 && in->strict)
        return sw_json_bad(in, "a zero character in a string");
    if (code < 0x80)
        return keep(s, code);
    if (code < 0x800) {
        SW_TRY(keep(s, 0xc0 | code >> 6));
    } else if (code < 0x10000) {
        SW_TRY(keep(s, 0xe0 | code >> 12));
        SW_TRY(keep(s, 0x80 | (code >> 6 & 0x3f)));
    } else {
        SW_TRY(keep(s, 0xf0 | code >> 18));
        SW_TRY(keep(s, 0x80 | (code >> 12 & 0x3f)));
        SW_TRY(keep(s, 0x80 | (code >> 6 & 0x3f)));
    }
    return keep(s, 0x80 | (code & 0x3f));
}

/* A sequence of UTF-8 whose first byte is read. */
static sw_status read_sequence(sw_json_in *in, int first, sw_json_text *s)
{
    char sequence[5] = {(char)first};
    const int n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    for (int i = 1; i < n; i++) {
        int c;
        SW_TRY(look(in, &c));
        if (c < 0x80 || c >= 0xc0)
            break;
        sequence[i] = (char)c;
        in->at++;
    }
    if (sw_utf8_sequence(sequence) != (size_t)n)
        return sw_json_bad(in, "a string must be UTF-8");
    for (int i = 0; i < n; i++)
        SW_TRY(keep(s, (unsigned char)sequence[i]));
    return SW_OK;
}

sw_status sw_json_get_string(sw_json_in *in, sw_json_text *s)
{
    s->length = 0;
    SW_TRY(sw_json_expect(in, '"'));
    for (;;) {
        int c;
        SW_TRY(next(in, &c));
        if (c == '"')
            return SW_OK;
        if (c < 0x20) {
            in->at -= c >= 0;
            return sw_json_bad(in, c < 0 ? "a string without an end"
                                         : "a control character in a string");
        }
        if (c == '\\') {
            static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
            SW_TRY(look(in, &c));
            const char *found = c > 0 ? strchr(from, c) : NULL;
            if (found == NULL && c != 'u')
                return sw_json_bad(in, "unknown escape");
            in->at++;
            SW_TRY(c == 'u' ? read_code(in, s) : keep(s, (unsigned char)to[found - from]));
        } else {
            SW_TRY(c >= 0x80 && in->strict ? read_sequence(in, c, s) : keep(s, (uint32_t)c));
        }
    }
}

/* ---- numbers and words ------------------------------------------------------------------- */

typedef struct {
    char text[NUMBER_CHARS + 1];
    size_t n;
} number_text;

/* Take the character that comes next where it is one of `of`. */
static sw_status take_one(sw_json_in *in, const char *of, number_text *t, bool *there)
{
    int c;
    SW_TRY(look(in, &c));
    *there = c > 0 && strchr(of, c) != NULL;
    if (!*there)
        return SW_OK;
    if (t->n == NUMBER_CHARS)
        return sw_json_bad(in, "a number that is too long");
    t->text[t->n++] = (char)c;
    in->at++;
    return SW_OK;
}

/* One digit or more. */
static sw_status take_digits(sw_json_in *in, number_text *t)
{
    const size_t before = t->n;
    bool there = true;
    while (there)
        SW_TRY(take_one(in, "0123456789", t, &there));
    return t->n > before ? SW_OK : sw_json_bad(in, "a digit was expected");
}

static sw_status take_number(sw_json_in *in, number_text *t, bool *integer)
{
    bool there;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    SW_TRY(take_one(in, "-", t, &there));
    SW_TRY(take_one(in, "0", t, &there));
    if (there) {
        SW_TRY(look(in, &c));
        if (c >= '0' && c <= '9')
            return sw_json_bad(in, "a number that begins with 0");
    } else {
        SW_TRY(take_digits(in, t));
    }
    *integer = true;
    SW_TRY(take_one(in, ".", t, &there));
    if (there) {
        *integer = false;
        SW_TRY(take_digits(in, t));
    }
    SW_TRY(take_one(in, "eE", t, &there));
    if (!there)
        return SW_OK;
    *integer = false;
    SW_TRY(take_one(in, "+-", t, &there));
    return take_digits(in, t);
}

sw_status sw_json_get_number(sw_json_in *in, sw_json_number *out)
{
    number_text t = {.n = 0};
    bool integer;
    SW_TRY(take_number(in, &t, &integer));
    t.text[t.n] = '\0';
    *out = (sw_json_number){.minus = t.text[0] == '-', .whole = integer};
    for (const char *p = t.text + out->minus; *p != '\0' && out->whole; p++)
        out->whole =
            !__builtin_mul_overflow(out->magnitude, (uint64_t)10, &out->magnitude) &&
            !__builtin_add_overflow(out->magnitude, (uint64_t)(*p - '0'), &out->magnitude);
    if (out->whole) {
        out->real = (double)out->magnitude * (out->minus ? -1.0 : 1.0);
    } else {
        /* Whatever the radix character of the program's locale is, which strtod goes by. */
        char local[NUMBER_CHARS + 16];
        const char *radix = nl_langinfo(RADIXCHAR), *point = strchr(t.text, '.');
        const bool other = point != NULL && strcmp(radix, ".") != 0 && strlen(radix) <= 8;
        if (other)
            snprintf(local, sizeof local, "%.*s%s%s", (int)(point - t.text), t.text, radix,
                     point + 1);
        out->real = strtod(other ? local : t.text, NULL);
    }
    return isfinite(out->real) ? SW_OK : sw_json_bad(in, "a number that is too large");
}

sw_status sw_json_get_count(sw_json_in *in, uint64_t *out)
{
    sw_json_number x;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (c < '0' || c > '9')
        return sw_json_bad(in, "a number of 0 or more was expected");
    SW_TRY(sw_json_get_number(in, &x));
    if (x.whole ? x.magnitude > INT64_MAX : x.real >= 0x1p63)
        return sw_json_bad(in, "a number that is too large");
    if (!x.whole)
        return sw_json_bad(in, "a whole number was expected");
    *out = x.magnitude;
    return SW_OK;
}

sw_status sw_json_get_word(sw_json_in *in, sw_json_word *out)
{
    static const struct {
        const char *text;
        sw_json_word word;
        bool python;
    } words[] = {{"null", SW_JSON_NULL, false},
                 {"false", SW_JSON_FALSE, false},
                 {"true", SW_JSON_TRUE, false},
                 {"NaN", SW_JSON_NO_NUMBER, true},
                 {"Infinity", SW_JSON_NO_NUMBER, true}};
    char word[12];
    size_t n = 0;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    while (n + 1 < sizeof word && (c | 32) >= 'a' && (c | 32) <= 'z') {
        word[n++] = (char)c;
        in->at++;
        SW_TRY(look(in, &c));
    }
    word[n] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((in->python || !words[i].python) && strcmp(word, words[i].text) == 0) {
            *out = words[i].word;
            return SW_OK;
        }
    return sw_json_bad(in, "a value was expected");
}

sw_status sw_json_get_text(sw_json_in *in, char *to, size_t bytes)
{
    sw_json_text text = {.to = to, .cap = bytes - 1};
    SW_TRY(sw_json_get_string(in, &text));
    to[text.length < text.cap ? text.length : text.cap] = '\0';
    return SW_OK;
}

typedef struct {
    sw_json_text is; /* first: grow_key goes back from it */
    char here[SW_JSON_KEY];
    char *block; /* of is.cap bytes; NULL: it is in `here` */
} object_key;

static sw_status grow_key(sw_json_text *text)
{
    object_key *key = (object_key *)(void *)text;
    const size_t cap = text->cap;
    SW_TRY(sw_heap_resize(&key->block, SW_HEAP_FILES, key->block != NULL ? cap : 0, 2 * cap));
    if (text->to == key->here)
        memcpy(key->block, key->here, cap);
    text->to = key->block;
    text->cap = 2 * cap;
    return SW_OK;
}

static sw_status get_members(sw_json_in *in, object_key *key, sw_json_member *member,
                             void *context)
{
    bool end, more = true;
    SW_TRY(sw_json_expect(in, '{'));
    SW_TRY(sw_json_accept(in, '}', &end));
    while (!end && more) {
        SW_TRY(sw_json_get_string(in, &key->is));
        const size_t length = key->is.length;
        SW_TRY(keep(&key->is, 0));
        if (memchr(key->is.to, 0, length) != NULL)
            return sw_json_bad(in, "a zero character in a key");
        SW_TRY(sw_json_expect(in, ':'));
        SW_TRY(member(in, key->is.to, context));
        SW_TRY(sw_json_accept(in, ',', &more));
    }
    return end ? SW_OK : sw_json_expect(in, '}');
}

sw_status sw_json_get_object(sw_json_in *in, sw_json_member *member, void *context)
{
    object_key key = {.is = {.cap = SW_JSON_KEY, .grow = grow_key}};
    key.is.to = key.here;
    const sw_status status = get_members(in, &key, member, context);
    if (key.block != NULL)
        sw_heap_free(key.block, SW_HEAP_FILES, key.is.cap);
    return status;
}

/* ---- what is not known ------------------------------------------------------------------- */

enum { DEPTH_MAX = 64 }; /* of values that are passed over */

sw_status sw_json_skip(sw_json_in *in)
{
    char open[DEPTH_MAX];
    int depth = 0;
    sw_json_text text = {.cap = 0};
    sw_json_number number;
    sw_json_word word;
    do {
        int c;
        bool there = false;
        if (depth > 0 && open[depth - 1] == '{') {
            SW_TRY(sw_json_get_string(in, &text));
            SW_TRY(sw_json_expect(in, ':'));
        }
        SW_TRY(sw_json_peek(in, &c));
        if (c == '{' || c == '[') {
            SW_TRY(sw_json_expect(in, c));
            SW_TRY(sw_json_accept(in, c == '{' ? '}' : ']', &there));
            if (!there && depth == DEPTH_MAX)
                return sw_json_bad(in, "too many brackets");
            if (!there) {
                open[depth++] = (char)c;
                continue;
            }
        } else {
            SW_TRY(c == '"'                             ? sw_json_get_string(in, &text)
                   : c == '-' || (c >= '0' && c <= '9') ? sw_json_get_number(in, &number)
                                                        : sw_json_get_word(in, &word));
        }
        /* As many brackets as close the value, then a comma where one follows inside of those
         * that are open yet. */
        for (there = false; depth > 0; depth--) {
            SW_TRY(sw_json_accept(in, ',', &there));
            if (there)
                break;
            SW_TRY(sw_json_expect(in, open[depth - 1] == '{' ? '}' : ']'));
        }
    } while (depth > 0);
    return SW_OK;
}
