/* The header of a safetensors file: a JSON object {"NAME": {"dtype": "F32", "shape": [2, 3],
 * "data_offsets": [0, 24]}, "__metadata__": {"KEY": "TEXT"}}.
 *
 * The reader below takes this one shape of JSON and nothing else. It needs no memory, so a
 * hostile header cannot make it take any; a general JSON library builds a tree of many times
 * the text. */
#include "runtime/model/safetensors_internal.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- writing ----------------------------------------------------------------------------- */

static void put(swi_st_text *text, const char *from, size_t bytes)
{
    if (text->to != NULL)
        memcpy(text->to + text->bytes, from, bytes);
    text->bytes += bytes;
}

static void put_text(swi_st_text *text, const char *from)
{
    put(text, from, strlen(from));
}

static void put_string(swi_st_text *text, const char *from)
{
    put_text(text, "\"");
    for (; *from != '\0'; from++) {
        const unsigned char c = (unsigned char)*from;
        char code[8];
        if (c < 0x20) {
            snprintf(code, sizeof code, "\\u%04x", c);
            put_text(text, code);
            continue;
        }
        if (c == '"' || c == '\\')
            put_text(text, "\\");
        put(text, from, 1);
    }
    put_text(text, "\"");
}

static void put_number(swi_st_text *text, uint64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    put_text(text, digits);
}

void swi_st_begin(swi_st_text *text, const swi_note *notes, int n)
{
    text->bytes = 0;
    put_text(text, "{\"__metadata__\":{\"format\":\"pt\"");
    for (int i = 0; i < n; i++) {
        put_text(text, ",");
        put_string(text, notes[i].key);
        put_text(text, ":");
        put_string(text, notes[i].text);
    }
    put_text(text, "}");
}

void swi_st_add(swi_st_text *text, const char *name, const char *dtype, const sw_shape *shape,
                uint64_t begin, uint64_t end)
{
    put_text(text, ",");
    put_string(text, name);
    put_text(text, ":{\"dtype\":\"");
    put_text(text, dtype);
    put_text(text, "\",\"shape\":[");
    for (int i = 0; i < shape->rank; i++) {
        if (i > 0)
            put_text(text, ",");
        put_number(text, (uint64_t)shape->dim[i]);
    }
    put_text(text, "],\"data_offsets\":[");
    put_number(text, begin);
    put_text(text, ",");
    put_number(text, end);
    put_text(text, "]}");
}

void swi_st_end(swi_st_text *text)
{
    put_text(text, "}");
    while ((text->bytes + 8) % 64 != 0) /* 8: the length in front of it */
        put_text(text, " ");
}

/* ---- reading: characters, strings, numbers ----------------------------------------------- */

typedef struct {
    const char *path;
    const unsigned char *text;
    size_t at, bytes;
    swi_note *note; /* the text of its key is wanted; NULL: of none */
} reader;

static sw_status bad(const reader *r, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: byte %zu of its header: %s", r->path, r->at, what);
}

/* The next character that is not a space; -1 at the end. */
static int peek(reader *r)
{
    while (r->at < r->bytes && r->text[r->at] != '\0' &&
           strchr(" \t\r\n", r->text[r->at]) != NULL)
        r->at++;
    return r->at < r->bytes ? r->text[r->at] : -1;
}

static bool accept(reader *r, int c)
{
    if (peek(r) != c)
        return false;
    r->at++;
    return true;
}

static sw_status expect(reader *r, int c)
{
    char what[] = "must be ' '";
    what[sizeof "must be '" - 1] = (char)c;
    return accept(r, c) ? SW_OK : bad(r, what);
}

typedef struct {
    char *to;
    size_t cap;    /* bytes past it are counted and dropped */
    size_t length; /* of the whole string */
} string;

static void keep(string *s, uint32_t byte)
{
    if (s->length < s->cap)
        s->to[s->length] = (char)byte;
    s->length++;
}

static void keep_code(string *s, uint32_t code)
{
    if (code < 0x80) {
        keep(s, code);
    } else if (code < 0x800) {
        keep(s, 0xc0 | code >> 6);
        keep(s, 0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        keep(s, 0xe0 | code >> 12);
        keep(s, 0x80 | (code >> 6 & 0x3f));
        keep(s, 0x80 | (code & 0x3f));
    } else {
        keep(s, 0xf0 | code >> 18);
        keep(s, 0x80 | (code >> 12 & 0x3f));
        keep(s, 0x80 | (code >> 6 & 0x3f));
        keep(s, 0x80 | (code & 0x3f));
    }
}

static sw_status read_hex(reader *r, uint32_t *out)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const int c = r->at < r->bytes ? r->text[r->at] : -1;
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            value = value << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return bad(r, "must be four hexadecimal digits");
    }
    *out = value;
    return SW_OK;
}

/* Behind "\u": one code, or two that make a pair. */
static sw_status read_code(reader *r, string *s)
{
    uint32_t code = 0, low = 0;
    SW_TRY(read_hex(r, &code));
    if (code >= 0xd800 && code < 0xe000) {
        const bool pair = code < 0xdc00 && r->bytes - r->at >= 2 && r->text[r->at] == '\\' &&
                          r->text[r->at + 1] == 'u';
        if (!pair)
            return bad(r, "half a surrogate pair");
        r->at += 2;
        SW_TRY(read_hex(r, &low));
        if (low < 0xdc00 || low >= 0xe000)
            return bad(r, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    keep_code(s, code);
    return SW_OK;
}

static sw_status read_escape(reader *r, string *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const int c = r->at < r->bytes ? r->text[r->at] : 0;
    const char *found = c != 0 ? strchr(from, c) : NULL;
    if (c == 'u') {
        r->at++;
        return read_code(r, s);
    }
    if (found == NULL)
        return bad(r, "unknown escape");
    r->at++;
    keep(s, (unsigned char)to[found - from]);
    return SW_OK;
}

static sw_status read_string(reader *r, string *s)
{
    s->length = 0;
    SW_TRY(expect(r, '"'));
    while (r->at < r->bytes && r->text[r->at] != '"') {
        const unsigned char c = r->text[r->at];
        if (c < 0x20)
            return bad(r, "control character in a string");
        r->at++;
        if (c == '\\')
            SW_TRY(read_escape(r, s));
        else
            keep(s, c);
    }
    if (r->at == r->bytes)
        return bad(r, "a string without an end");
    r->at++;
    return SW_OK;
}

static bool is(const string *s, const char *word)
{
    return s->length == strlen(word) && memcmp(s->to, word, s->length) == 0;
}

/* An integer of 0 to INT64_MAX. */
static sw_status read_number(reader *r, uint64_t *out)
{
    int c = peek(r);
    if (c < '0' || c > '9')
        return bad(r, "must be a number of at least 0");
    const bool zero = c == '0';
    int64_t value = 0;
    for (int n = 0; c >= '0' && c <= '9'; n++) {
        if (zero && n > 0)
            return bad(r, "a number that begins with 0");
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, c - '0', &value))
            return bad(r, "a number that is too large");
        r->at++;
        c = r->at < r->bytes ? r->text[r->at] : -1;
    }
    if (c == '.' || c == 'e' || c == 'E')
        return bad(r, "must be a whole number");
    *out = (uint64_t)value;
    return SW_OK;
}

/* ---- reading: tensors -------------------------------------------------------------------- */

static sw_status read_shape(reader *r, swi_st_tensor *tensor)
{
    SW_TRY(expect(r, '['));
    tensor->rank = 0;
    if (accept(r, ']'))
        return SW_OK;
    do {
        uint64_t dim = 0;
        SW_TRY(read_number(r, &dim));
        if (tensor->rank < SW_MAX_RANK)
            tensor->dim[tensor->rank] = (int64_t)dim;
        if (tensor->rank <= SW_MAX_RANK)
            tensor->rank++;
    } while (accept(r, ','));
    return expect(r, ']');
}

static sw_status read_offsets(reader *r, swi_st_tensor *tensor)
{
    SW_TRY(expect(r, '['));
    SW_TRY(read_number(r, &tensor->begin));
    SW_TRY(expect(r, ','));
    SW_TRY(read_number(r, &tensor->end));
    return expect(r, ']');
}

static sw_status read_dtype(reader *r, swi_st_tensor *tensor)
{
    string dtype = {tensor->dtype, sizeof tensor->dtype - 1, 0};
    SW_TRY(read_string(r, &dtype));
    if (memchr(tensor->dtype, '\0', dtype.length < dtype.cap ? dtype.length : dtype.cap) !=
        NULL)
        return bad(r, "a zero character in a dtype");
    tensor->dtype[dtype.length < dtype.cap ? dtype.length : dtype.cap] = '\0';
    return SW_OK;
}

/* One of the three members; `seen` has a bit for each. */
static sw_status read_member(reader *r, swi_st_tensor *tensor, unsigned *seen)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    char word[16];
    string key = {word, sizeof word, 0};
    SW_TRY(read_string(r, &key));
    unsigned which = 0;
    while (which < 3 && !is(&key, names[which]))
        which++;
    if (which == 3)
        return bad(r, "an unknown member of a tensor");
    if (*seen & 1u << which)
        return bad(r, "a member of a tensor twice");
    *seen |= 1u << which;
    SW_TRY(expect(r, ':'));
    return which == 0   ? read_dtype(r, tensor)
           : which == 1 ? read_shape(r, tensor)
                        : read_offsets(r, tensor);
}

static sw_status read_tensor(reader *r, swi_st_tensor *tensor)
{
    unsigned seen = 0;
    SW_TRY(expect(r, '{'));
    if (peek(r) != '}')
        do
            SW_TRY(read_member(r, tensor, &seen));
        while (accept(r, ','));
    SW_TRY(expect(r, '}'));
    return seen == 7 ? SW_OK : bad(r, "a tensor without dtype, shape or data_offsets");
}

/* Texts by key, read and forgotten but for the one that is wanted. */
static sw_status read_metadata(reader *r)
{
    char word[sizeof r->note->key];
    SW_TRY(expect(r, '{'));
    if (accept(r, '}'))
        return SW_OK;
    do {
        string key = {word, sizeof word, 0}, text = {NULL, 0, 0};
        SW_TRY(read_string(r, &key));
        SW_TRY(expect(r, ':'));
        const bool wanted = r->note != NULL && is(&key, r->note->key);
        if (wanted)
            text = (string){r->note->text, sizeof r->note->text - 1, 0};
        SW_TRY(read_string(r, &text));
        if (wanted)
            r->note->text[text.length < text.cap ? text.length : text.cap] = '\0';
    } while (accept(r, ','));
    return expect(r, '}');
}

static sw_status read_entry(reader *r, bool *metadata, swi_st_visit *visit, void *context)
{
    swi_st_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    string name = {tensor.name, sizeof tensor.name, 0};
    SW_TRY(read_string(r, &name));
    tensor.name_bytes = name.length;
    SW_TRY(expect(r, ':'));
    if (!is(&name, "__metadata__")) {
        SW_TRY(read_tensor(r, &tensor));
        return visit(context, &tensor);
    }
    if (*metadata)
        return bad(r, "__metadata__ twice");
    *metadata = true;
    return read_metadata(r);
}

static sw_status parse(reader r, swi_st_visit *visit, void *context)
{
    bool metadata = false;
    SW_TRY(expect(&r, '{'));
    if (peek(&r) != '}')
        do
            SW_TRY(read_entry(&r, &metadata, visit, context));
        while (accept(&r, ','));
    SW_TRY(expect(&r, '}'));
    return peek(&r) == -1 ? SW_OK : bad(&r, "text behind the header's end");
}

sw_status swi_st_parse(const char *text, size_t bytes, const char *path, swi_st_visit *visit,
                       void *context)
{
    return parse((reader){path, (const unsigned char *)text, 0, bytes, NULL}, visit, context);
}

static sw_status pass_over(void *context, const swi_st_tensor *tensor)
{
    (void)context, (void)tensor;
    return SW_OK;
}

sw_status swi_st_note(const char *text, size_t bytes, const char *path, swi_note *note)
{
    note->text[0] = '\0';
    return parse((reader){path, (const unsigned char *)text, 0, bytes, note}, pass_over, NULL);
}
