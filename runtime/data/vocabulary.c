/* A vocabulary is read whole. Of JSON as much is known as such a file has: one object of
 * strings and whole numbers. It is gone through twice: to count, then to put each token where
 * its id says. */
#include "runtime/data/vocabulary.h"
#include <string.h>

#define MOST_BYTES ((uint64_t)1 << 28) /* of a file: offsets fit 32 bits */

typedef struct {
    const char *path;
    const char *text, *at, *end;
} cursor;

/* ---- lines ------------------------------------------------------------------------------- */

static sw_status refuse_line(const char *path, int64_t line, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: line %lld %s", path, (long long)line, what);
}

/* Zero bytes take the place of the ends of lines: tokens get no longer. */
static sw_status read_lines(swi_vocabulary *v, const cursor *c)
{
    for (const char *at = c->text; at < c->end;) {
        const char *end = memchr(at, '\n', (size_t)(c->end - at));
        const char *next = end != NULL ? end + 1 : c->end;
        size_t n = (size_t)((end != NULL ? end : c->end) - at);
        n -= n > 0 && at[n - 1] == '\r';
        v->n++;
        if (n == 0)
            return refuse_line(c->path, v->n,
                               "is empty: each line has a token (a JSON file {token: id} can "
                               "have every token)");
        if (memchr(at, '\0', n) != NULL)
            return refuse_line(c->path, v->n, "has a zero byte: this is no text");
        memmove(v->text + v->used, at, n);
        v->used += n;
        v->text[v->used++] = '\0';
        at = next;
    }
    return SW_OK;
}

/* ---- JSON -------------------------------------------------------------------------------- */

static sw_status bad(const cursor *c, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: byte %zu: %s", c->path, (size_t)(c->at - c->text), what);
}

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at) != NULL && *c->at != '\0')
        c->at++;
}

static bool take(cursor *c, char x)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != x)
        return false;
    c->at++;
    return true;
}

static int hex_of(char x)
{
    return x >= '0' && x <= '9'   ? x - '0'
           : x >= 'a' && x <= 'f' ? x - 'a' + 10
           : x >= 'A' && x <= 'F' ? x - 'A' + 10
                                  : -1;
}

/* Four digits; -1 where they are none. */
static int32_t take_hex(cursor *c)
{
    int32_t x = 0;
    if (c->end - c->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_of(c->at[i]);
        if (digit < 0)
            return -1;
        x = x * 16 + digit;
    }
    c->at += 4;
    return x;
}

/* Before it stood a backslash and a u; the character in UTF-8, a zero one as it is
 * written. 0: it is damaged. */
static size_t take_character(cursor *c, char *to)
{
    int32_t x = take_hex(c);
    if (x >= 0xd800 && x < 0xdc00 && c->end - c->at >= 6 && c->at[0] == '\\' &&
        c->at[1] == 'u') {
        c->at += 2;
        const int32_t low = take_hex(c);
        if (low < 0xdc00 || low > 0xdfff)
            return 0;
        x = 0x10000 + (x - 0xd800) * 0x400 + (low - 0xdc00);
    }
    if (x < 0 || (x >= 0xd800 && x < 0xe000))
        return 0;
    if (x == 0) {
        memcpy(to, "\\u0000", 6);
        return 6;
    }
    if (x < 0x80) {
        to[0] = (char)x;
        return 1;
    }
    const int more = x < 0x800 ? 1 : x < 0x10000 ? 2 : 3;
    static const int first[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(first[more] | x >> 6 * more);
    for (int i = 1; i <= more; i++)
        to[i] = (char)(0x80 | (x >> 6 * (more - i) & 0x3f));
    return (size_t)more + 1;
}

/* A string to `to`, ended by a zero byte: it is no longer than it is written. */
static sw_status take_string(cursor *c, char *to, size_t *bytes)
{
    static const char names[] = "\"\\/bfnrt", are[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;
    if (!take(c, '"'))
        return bad(c, "a token in quotation marks was expected");
    for (;; c->at++) {
        if (c->at == c->end)
            return bad(c, "the file ends in a token");
        if (*c->at == '"')
            break;
        if ((unsigned char)*c->at < 0x20)
            return bad(c, "a token has a control character");
        if (*c->at != '\\') {
            to[n++] = *c->at;
            continue;
        }
        if (++c->at == c->end)
            return bad(c, "the file ends in a token");
        const char *name = *c->at != '\0' ? strchr(names, *c->at) : NULL;
        if (name != NULL) {
            to[n++] = are[name - names];
            continue;
        }
        if (*c->at++ != 'u')
            return bad(c, "a token has an unknown escape");
        const size_t wide = take_character(c, to + n);
        if (wide == 0)
            return bad(c, "a token has a damaged \\u escape");
        n += wide;
        c->at--; /* the loop goes on after it */
    }
    c->at++;
    to[n++] = '\0';
    *bytes = n;
    return SW_OK;
}

static sw_status take_id(cursor *c, int64_t *id)
{
    int64_t x = 0;
    skip_blanks(c);
    const char *first = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && x <= INT32_MAX)
        x = x * 10 + (*c->at++ - '0');
    const bool ends = c->at < c->end && strchr(" \t\r\n,}", *c->at) != NULL;
    if (c->at == first || !ends || *c->at == '\0' || x >= INT32_MAX)
        return bad(c, "the id after a token must be a whole number: a vocabulary is {token: "
                      "id}, as GPT-2's vocab.json (a tokenizer.json has it in its member "
                      "model.vocab)");
    *id = x;
    return SW_OK;
}

/* All pairs, one after the other. `at` NULL: they are counted; else where the token of each id
 * begins in the text, UINT32_MAX for none. */
static sw_status read_pairs(swi_vocabulary *v, cursor *c, uint32_t *at)
{
    const int64_t n = v->n;
    v->used = 0;
    v->n = 0;
    c->at = c->text;
    (void)take(c, '{');
    if (take(c, '}'))
        return bad(c, "the vocabulary is empty");
    do {
        size_t bytes = 0;
        int64_t id = 0;
        SW_TRY(take_string(c, v->text + v->used, &bytes));
        if (!take(c, ':'))
            return bad(c, "a colon was expected after the token");
        SW_TRY(take_id(c, &id));
        if (at != NULL && (id >= n || at[id] != UINT32_MAX))
            SW_FAIL(SW_FORMAT,
                    "%s: byte %zu: the ids of %lld tokens must be 0 to %lld, each once (got "
                    "%lld%s)",
                    c->path, (size_t)(c->at - c->text), (long long)n, (long long)n - 1,
                    (long long)id, id < n ? " again" : "");
        if (at != NULL) {
            at[id] = (uint32_t)v->used;
            v->used += bytes;
        }
        v->n++;
    } while (take(c, ','));
    if (!take(c, '}'))
        return bad(c, "a comma or the closing brace was expected");
    skip_blanks(c);
    return c->at == c->end ? SW_OK : bad(c, "nothing may follow the closing brace");
}

static void put_in_order(char *to, const swi_vocabulary *v, const uint32_t *at)
{
    for (int64_t i = 0; i < v->n; i++) {
        const size_t bytes = strlen(v->text + at[i]) + 1;
        memcpy(to, v->text + at[i], bytes);
        to += bytes;
    }
}

static sw_status read_json(swi_vocabulary *v, cursor *c)
{
    void *at, *text;
    SW_TRY(read_pairs(v, c, NULL));
    const size_t bytes = (size_t)v->n * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&at, SW_HEAP_FILES, bytes));
    memset(at, 0xff, bytes);
    sw_status status = read_pairs(v, c, at);
    if (status == SW_OK)
        status = sw_heap_alloc(&text, SW_HEAP_FILES, v->room);
    if (status == SW_OK) {
        put_in_order(text, v, at);
        sw_heap_free(v->text, SW_HEAP_FILES, v->room);
        v->text = text;
    }
    sw_heap_free(at, SW_HEAP_FILES, bytes);
    return status;
}

/* ---- the file ---------------------------------------------------------------------------- */

static sw_status parse(swi_vocabulary *v, cursor *c)
{
    if (c->text == c->end)
        SW_FAIL(SW_FORMAT, "%s: empty; a vocabulary was expected", c->path);
    c->at = c->text;
    skip_blanks(c);
    return c->at < c->end && *c->at == '{' ? read_json(v, c) : read_lines(v, c);
}

static sw_status read_source(swi_vocabulary *v, swi_source *source)
{
    const char *path = swi_source_path(source);
    uint64_t bytes;
    size_t got;
    void *block;
    SW_TRY(swi_source_count(source, MOST_BYTES, &bytes));
    if (bytes > MOST_BYTES)
        SW_FAIL(SW_FORMAT, "%s: a vocabulary must have at most %llu bytes", path,
                (unsigned long long)MOST_BYTES);
    SW_TRY(swi_source_rewind(source));
    v->room = (size_t)bytes + 2; /* a last line without an end gets one */
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, v->room));
    v->text = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, (size_t)bytes + 1));
    sw_status status = swi_source_read(source, block, (size_t)bytes, &got);
    if (status == SW_OK && got < bytes)
        status =
            sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: changed while it was read", path);
    cursor c = {.path = path, .text = block, .end = (const char *)block + bytes};
    if (status == SW_OK)
        status = parse(v, &c);
    sw_heap_free(block, SW_HEAP_FILES, (size_t)bytes + 1);
    return status;
}

sw_status swi_vocabulary_read(swi_vocabulary *out, const char *path, size_t unpack_bytes)
{
    swi_vocabulary v = {0};
    swi_source *source;
    SW_TRY(swi_source_open(&source, path, unpack_bytes));
    const sw_status status = read_source(&v, source);
    swi_source_close(source);
    if (status != SW_OK) {
        swi_vocabulary_free(&v);
        return status;
    }
    *out = v;
    return SW_OK;
}

void swi_vocabulary_free(swi_vocabulary *v)
{
    sw_heap_free(v->text, SW_HEAP_FILES, v->room);
    *v = (swi_vocabulary){0};
}
