/* JSON into a tree. Members wait on a stack until their bracket closes. */
#include "profiler/inspect/json_tree.h"
#include "alloc/base/mem.h"
#include <stddef.h>

typedef struct {
    sw_json_text text; /* the first member: `grow` gets its address */
    value_tree *tree;
    json_buffer *buffer;
    sw_json_in *in;
} parser;

void json_buffer_free(json_buffer *buffer)
{
    sw_heap_free(buffer->stack, SW_HEAP_FILES, buffer->cap_stack * sizeof *buffer->stack);
    sw_heap_free(buffer->text, SW_HEAP_FILES, buffer->cap_text);
    *buffer = (json_buffer){0};
}

static sw_status push(parser *p, value v)
{
    json_buffer *r = p->buffer;
    if (r->n_stack == UINT32_MAX / 2)
        return sw_json_bad(p->in, "too many values");
    SW_TRY(sw_heap_reserve(&r->stack, SW_HEAP_FILES, &r->cap_stack, r->n_stack + 1, sizeof v));
    r->stack[r->n_stack++] = v;
    return SW_OK;
}

/* ---- single values ----------------------------------------------------------------------- */

static sw_status grow(sw_json_text *text)
{
    parser *p = (parser *)text;
    json_buffer *r = p->buffer;
    if (text->length >= UINT32_MAX / 2)
        return sw_json_bad(p->in, "a string is too long");
    SW_TRY(
        sw_heap_reserve(&r->text, SW_HEAP_FILES, &r->cap_text, (uint32_t)text->length + 1, 1));
    text->to = r->text;
    text->cap = r->cap_text;
    return SW_OK;
}

static sw_status read_string(parser *p)
{
    value v;
    p->text = (sw_json_text){p->buffer->text, p->buffer->cap_text, 0, grow};
    SW_TRY(sw_json_get_string(p->in, &p->text));
    SW_TRY(value_text_new(p->tree, &v, p->text.to != NULL ? p->text.to : "", p->text.length));
    return push(p, v);
}

static sw_status read_number(parser *p)
{
    sw_json_number x;
    value v = value_other();
    SW_TRY(sw_json_get_number(p->in, &x));
    if (x.whole && x.magnitude <= INT64_MAX)
        v = value_int(x.minus ? -(int64_t)x.magnitude : (int64_t)x.magnitude);
    if (value_kind_of(v) != VALUE_INT)
        SW_TRY(value_real_new(p->tree, &v, x.real, x.whole, x.magnitude));
    return push(p, v);
}

static sw_status read_word(parser *p)
{
    sw_json_word word;
    SW_TRY(sw_json_get_word(p->in, &word));
    return push(p, word == SW_JSON_NULL        ? value_null()
                   : word == SW_JSON_NO_NUMBER ? value_other()
                                               : value_bool(word == SW_JSON_TRUE));
}

/* ---- brackets ---------------------------------------------------------------------------- */

static sw_status read_value(parser *p, int depth);

static sw_status read_key(parser *p)
{
    int c;
    SW_TRY(sw_json_peek(p->in, &c));
    if (c != '"')
        return sw_json_bad(p->in, "a key was expected");
    SW_TRY(read_string(p));
    return sw_json_expect(p->in, ':');
}

/* After a member: another one follows, or the bracket closes. */
static sw_status read_comma(parser *p, int close, bool *more)
{
    int c;
    SW_TRY(sw_json_peek(p->in, &c));
    if (c != ',' && c != close)
        return sw_json_bad(p->in, c < 0 ? "the text ends inside of brackets"
                                        : "a comma or the closing bracket was expected");
    SW_TRY(sw_json_accept(p->in, ',', more));
    if (!*more)
        return SW_OK;
    SW_TRY(sw_json_peek(p->in, &c));
    return c != close ? SW_OK : sw_json_bad(p->in, "a comma before the closing bracket");
}

static sw_status read_members(parser *p, bool object, int depth)
{
    const int close = object ? '}' : ']';
    const uint32_t height = p->buffer->n_stack;
    value v;
    bool end, more = true;
    if (depth == JSON_TREE_DEPTH)
        return sw_json_bad(p->in, "brackets are too deep");
    SW_TRY(sw_json_expect(p->in, object ? '{' : '['));
    SW_TRY(object ? value_dict_new(p->tree, &v) : value_list_new(p->tree, &v));
    SW_TRY(sw_json_accept(p->in, close, &end));
    while (!end && more) {
        if (object)
            SW_TRY(read_key(p));
        SW_TRY(read_value(p, depth + 1));
        SW_TRY(read_comma(p, close, &more));
    }
    if (!end)
        SW_TRY(sw_json_expect(p->in, close));
    if (p->buffer->n_stack > height)
        SW_TRY(value_add(p->tree, v, p->buffer->stack + height, p->buffer->n_stack - height));
    p->buffer->n_stack = height;
    return push(p, v);
}

/* Calls itself by way of read_members, JSON_TREE_DEPTH times at most. */
static sw_status read_value(parser *p, int depth)
{
    int c;
    SW_TRY(sw_json_peek(p->in, &c));
    if (c < 0)
        return sw_json_bad(p->in, "the text ends where a value was expected");
    if (c == '"')
        return read_string(p);
    if (c == '{' || c == '[')
        return read_members(p, c == '{', depth);
    return c == '-' || (c >= '0' && c <= '9') ? read_number(p) : read_word(p);
}

sw_status json_tree_build(value_tree *t, json_buffer *buffer, sw_json_in *in, value *out)
{
    parser p = {.tree = t, .buffer = buffer, .in = in};
    int c;
    buffer->n_stack = 0;
    SW_TRY(read_value(&p, 0));
    SW_TRY(sw_json_peek(in, &c));
    if (c >= 0)
        return sw_json_bad(in, "something stands after the value");
    *out = buffer->stack[0];
    return SW_OK;
}

/* ---- whole files ------------------------------------------------------------------------- */

/* The bytes that the reader has after those that are used up. */
static sw_status more_of_file(sw_json_in *in)
{
    byte_reader *r = in->context;
    int c;
    r->at += in->bytes;
    r->begin = r->end;
    SW_TRY(byte_reader_peek(r, &c));
    in->text = r->buffer + r->begin;
    in->at = 0;
    in->bytes = r->end - r->begin;
    in->before = r->at;
    return SW_OK;
}

sw_status json_tree_read(value_tree *t, byte_reader *r, value *out)
{
    json_buffer buffer = {0};
    sw_json_in in = sw_json_in_text(NULL, 0, r->path);
    int c;
    in.more = more_of_file;
    in.context = r;
    in.python = true;
    SW_TRY(byte_reader_peek(r, &c));
    in.text = r->buffer + r->begin;
    in.bytes = r->end - r->begin;
    in.before = r->at;
    const sw_status status = json_tree_build(t, &buffer, &in, out);
    json_buffer_free(&buffer);
    return status;
}
