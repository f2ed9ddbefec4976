/* JSON into a tree. Members wait on a stack until their bracket closes. */
#include "profiler/inspect/json_tree.h"
#include "alloc/mem.h"
#include <string.h>

typedef struct {
    value_tree *tree;
    byte_reader *in;
    value *stack;
    uint32_t n_stack, cap_stack;
    char *text; /* of the latest string */
    uint32_t n_text, cap_text;
} parser;

static sw_status damaged(const parser *p, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: byte %llu: %s", p->in->path, (unsigned long long)p->in->at, what);
}

static sw_status push(parser *p, value v)
{
    if (p->n_stack == UINT32_MAX / 2)
        return damaged(p, "too many values");
    void *block = p->stack;
    SW_TRY(sw_heap_room(&block, SW_HEAP_FILES, &p->cap_stack, p->n_stack + 1, sizeof v));
    p->stack = block;
    p->stack[p->n_stack++] = v;
    return SW_OK;
}

/* The next byte that is no blank, which stays. */
static sw_status peek(parser *p, int *out)
{
    for (;;) {
        SW_TRY(byte_reader_peek(p->in, out));
        if (*out != ' ' && *out != '\n' && *out != '\t' && *out != '\r')
            return SW_OK;
        SW_TRY(byte_reader_next(p->in, out));
    }
}

/* ---- strings ----------------------------------------------------------------------------- */

static sw_status put(parser *p, char c)
{
    if (p->n_text == UINT32_MAX / 2)
        return damaged(p, "a string is too long");
    void *block = p->text;
    SW_TRY(sw_heap_room(&block, SW_HEAP_FILES, &p->cap_text, p->n_text + 1, 1));
    p->text = block;
    p->text[p->n_text++] = c;
    return SW_OK;
}

static sw_status put_code(parser *p, uint32_t code)
{
    if (code < 0x80)
        return put(p, (char)code);
    if (code < 0x800)
        SW_TRY(put(p, (char)(0xc0 | code >> 6)));
    else if (code < 0x10000) {
        SW_TRY(put(p, (char)(0xe0 | code >> 12)));
        SW_TRY(put(p, (char)(0x80 | (code >> 6 & 0x3f))));
    } else {
        SW_TRY(put(p, (char)(0xf0 | code >> 18)));
        SW_TRY(put(p, (char)(0x80 | (code >> 12 & 0x3f))));
        SW_TRY(put(p, (char)(0x80 | (code >> 6 & 0x3f))));
    }
    return put(p, (char)(0x80 | (code & 0x3f)));
}

static sw_status read_hex(parser *p, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        int c;
        SW_TRY(byte_reader_next(p->in, &c));
        const char *at = c > 0 ? strchr(digits, c | 0x20) : NULL;
        if (at == NULL || c < '0' || (c > '9' && c < 'A'))
            return damaged(p, "\\u wants four hexadecimal digits");
        *out = *out << 4 | (uint32_t)(at - digits);
    }
    return SW_OK;
}

static sw_status read_escape(parser *p)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    uint32_t code, low;
    int c;
    SW_TRY(byte_reader_next(p->in, &c));
    const char *at = c > 0 ? strchr(names, c) : NULL;
    if (at != NULL)
        return put(p, meant[at - names]);
    if (c != 'u')
        return damaged(p, "no such escape");
    SW_TRY(read_hex(p, &code));
    if (code >= 0xd800 && code < 0xdc00) { /* the first half of a pair */
        int a, b;
        SW_TRY(byte_reader_next(p->in, &a));
        SW_TRY(byte_reader_next(p->in, &b));
        if (a != '\\' || b != 'u')
            return damaged(p, "half a surrogate pair");
        SW_TRY(read_hex(p, &low));
        if (low < 0xdc00 || low >= 0xe000)
            return damaged(p, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return put_code(p, code);
}

/* The quote is read. */
static sw_status read_string(parser *p)
{
    value v;
    p->n_text = 0;
    for (;;) {
        int c;
        SW_TRY(byte_reader_next(p->in, &c));
        if (c < 0x20)
            return damaged(p, c < 0 ? "the file ends in a string" : "a string has no end");
        if (c == '"')
            break;
        SW_TRY(c == '\\' ? read_escape(p) : put(p, (char)c));
    }
    SW_TRY(put(p, '\0'));
    SW_TRY(value_text_new(p->tree, &v, p->text, p->n_text - 1));
    return push(p, v);
}

/* ---- the rest ---------------------------------------------------------------------------- */

static sw_status read_number(parser *p, int c)
{
    const bool minus = c == '-';
    uint64_t x = 0;
    bool whole = true;
    int digits = 0;
    if (minus)
        SW_TRY(byte_reader_next(p->in, &c));
    for (;;) {
        SW_TRY(byte_reader_peek(p->in, &c));
        if (c < '0' || c > '9')
            break;
        SW_TRY(byte_reader_next(p->in, &c));
        whole = whole && !__builtin_mul_overflow(x, (uint64_t)10, &x) &&
                !__builtin_add_overflow(x, (uint64_t)(c - '0'), &x);
        digits++;
    }
    if (digits == 0)
        return damaged(p, "a value was expected");
    while (c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-' || (c >= '0' && c <= '9')) {
        whole = false;
        SW_TRY(byte_reader_next(p->in, &c));
        SW_TRY(byte_reader_peek(p->in, &c));
    }
    if (!whole || x > INT64_MAX)
        return push(p, value_other());
    return push(p, value_int(minus ? -(int64_t)x : (int64_t)x));
}

/* true, false, null, and the NaN and Infinity of Python. */
static sw_status read_word(parser *p)
{
    int c;
    size_t n = 0;
    char word[16];
    for (;;) {
        SW_TRY(byte_reader_peek(p->in, &c));
        if ((c | 0x20) < 'a' || (c | 0x20) > 'z' || n + 1 == sizeof word)
            break;
        SW_TRY(byte_reader_next(p->in, &c));
        word[n++] = (char)c;
    }
    word[n] = '\0';
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return push(p, value_other());
    return damaged(p, "a value was expected");
}

static sw_status read_value(parser *p, int depth);

static sw_status read_key(parser *p)
{
    int c;
    SW_TRY(peek(p, &c));
    if (c != '"')
        return damaged(p, "a key was expected");
    SW_TRY(byte_reader_next(p->in, &c));
    SW_TRY(read_string(p));
    SW_TRY(peek(p, &c));
    if (c != ':')
        return damaged(p, "a colon was expected");
    return byte_reader_next(p->in, &c);
}

/* The bracket is read. */
static sw_status read_members(parser *p, bool object, int depth)
{
    const int close = object ? '}' : ']';
    const uint32_t height = p->n_stack;
    value v;
    int c;
    if (depth == JSON_TREE_DEPTH)
        return damaged(p, "brackets are too deep");
    SW_TRY(object ? value_dict_new(p->tree, &v) : value_list_new(p->tree, &v));
    SW_TRY(peek(p, &c));
    while (c != close) {
        if (object)
            SW_TRY(read_key(p));
        SW_TRY(read_value(p, depth + 1));
        SW_TRY(peek(p, &c));
        if (c != ',' && c != close)
            return damaged(p, c < 0 ? "the file ends inside of brackets"
                                    : "a comma or the closing bracket was expected");
        if (c == close)
            break;
        SW_TRY(byte_reader_next(p->in, &c));
        SW_TRY(peek(p, &c));
        if (c == close)
            return damaged(p, "a comma in front of the closing bracket");
    }
    SW_TRY(byte_reader_next(p->in, &c));
    if (p->n_stack > height)
        SW_TRY(value_add(p->tree, v, p->stack + height, p->n_stack - height));
    p->n_stack = height;
    return push(p, v);
}

static sw_status read_value(parser *p, int depth)
{
    int c;
    SW_TRY(peek(p, &c));
    if (c < 0)
        return damaged(p, "the file ends where a value was expected");
    if (c == '"' || c == '{' || c == '[') {
        SW_TRY(byte_reader_next(p->in, &c));
        return c == '"' ? read_string(p) : read_members(p, c == '{', depth);
    }
    return c == '-' || (c >= '0' && c <= '9') ? read_number(p, c) : read_word(p);
}

static sw_status read_all(parser *p, value *out)
{
    int c;
    SW_TRY(read_value(p, 0));
    SW_TRY(peek(p, &c));
    if (c >= 0)
        return damaged(p, "something stands behind the value");
    *out = p->stack[0];
    return SW_OK;
}

sw_status json_tree_read(value_tree *t, byte_reader *r, value *out)
{
    parser p = {.tree = t, .in = r};
    const sw_status status = read_all(&p, out);
    sw_heap_free(p.stack, SW_HEAP_FILES, p.cap_stack * sizeof *p.stack);
    sw_heap_free(p.text, SW_HEAP_FILES, p.cap_text);
    return status;
}
